//! The pool cores of the GPSIMD generations, from `targets/gpsimd-cores.toml`.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use outboard_link::pi::MemoryBounds;

const FILE: &str = include_str!("../../../targets/gpsimd-cores.toml");

/// One generation's pool core.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CoreKind {
    /// Name in lower case, such as `mariana_plus`.
    pub name: String,
    /// Number of the architecture.
    pub arch_id: u32,
    /// Number of the core kind: the architecture's plus one.
    pub kind: u32,
    /// Ext-ISA libraries that it has.
    pub libraries: u32,
    /// Whether its libraries are prelinked on the host.
    pub prelinked: bool,
    /// Its memory.
    pub bounds: MemoryBounds,
    /// Symbol of its table of libraries in a host library.
    pub table: String,
    /// Flavor in the names of its images.
    pub flavor: String,
}

/// A core kind that does not exist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown core kind `{given}`; expected one of {expected}, or its number")]
pub struct UnknownCore {
    /// What was given.
    pub given: String,
    /// The names and numbers that exist.
    pub expected: String,
}

/// Why a target file cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("target file: {0}; compare it with targets/gpsimd-cores.toml")]
pub struct BadTarget(pub String);

/// All core kinds, by number.
///
/// # Panics
///
/// Never: the file is part of the program, and a test reads it.
#[must_use]
pub fn all() -> &'static [CoreKind] {
    static KINDS: OnceLock<Vec<CoreKind>> = OnceLock::new();
    KINDS.get_or_init(|| parse(FILE).expect("targets/gpsimd-cores.toml is sound"))
}

/// Finds a core kind by its number.
#[must_use]
pub fn by_kind(kind: u32) -> Option<&'static CoreKind> {
    all().iter().find(|core| core.kind == kind)
}

/// Finds a core kind by its name, in any case and with `-` or `_`, or by its number.
///
/// # Errors
///
/// [`UnknownCore`], with the names that exist.
pub fn find(given: &str) -> Result<&'static CoreKind, UnknownCore> {
    let wanted = given.trim().to_ascii_lowercase().replace('-', "_");
    let found = match parse_number(&wanted) {
        Some(kind) => by_kind(kind),
        None => all().iter().find(|core| core.name == wanted),
    };
    found.ok_or_else(|| UnknownCore {
        given: given.to_owned(),
        expected: all().iter().map(|core| format!("{} ({})", core.name, core.kind)).collect::<Vec<_>>().join(", "),
    })
}

fn parse_number(text: &str) -> Option<u32> {
    match text.strip_prefix("0x") {
        Some(hex) => u32::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Reads a target file.
///
/// # Errors
///
/// [`BadTarget`] names the field.
pub fn parse(text: &str) -> Result<Vec<CoreKind>, BadTarget> {
    let file: toml::Table = text.parse().map_err(|error: toml::de::Error| BadTarget(error.to_string()))?;
    let bad = |what: &str| BadTarget(what.to_owned());
    let bounds = file.get("bounds").and_then(toml::Value::as_table).ok_or_else(|| bad("no [bounds] tables"))?;
    let bounds = bounds.iter().map(|(name, table)| Ok((name.as_str(), memory(name, table)?)));
    let bounds: BTreeMap<_, _> = bounds.collect::<Result<_, BadTarget>>()?;
    let cores = file.get("core").and_then(toml::Value::as_array).ok_or_else(|| bad("no [[core]] tables"))?;
    let mut kinds = Vec::with_capacity(cores.len());
    for core in cores {
        let text = |key: &str| core.get(key).and_then(toml::Value::as_str).map(str::to_owned);
        let name = text("name").ok_or_else(|| bad("a [[core]] has no name"))?;
        let missing = |key: &str| BadTarget(format!("core {name}: `{key}` is missing or of the wrong type"));
        let number = |key: &str| {
            let value = core.get(key).and_then(toml::Value::as_integer);
            value.and_then(|value| u32::try_from(value).ok()).ok_or_else(|| missing(key))
        };
        let table = text("bounds").ok_or_else(|| missing("bounds"))?;
        kinds.push(CoreKind {
            arch_id: number("arch_id")?,
            kind: number("kind")?,
            libraries: number("libraries")?,
            prelinked: core.get("prelinked").and_then(toml::Value::as_bool).ok_or_else(|| missing("prelinked"))?,
            bounds: *bounds.get(table.as_str()).ok_or_else(|| missing("bounds"))?,
            table: text("table").ok_or_else(|| missing("table"))?,
            flavor: text("flavor").ok_or_else(|| missing("flavor"))?,
            name,
        });
    }
    kinds.sort_by_key(|core| core.kind);
    Ok(kinds)
}

fn memory(name: &str, table: &toml::Value) -> Result<MemoryBounds, BadTarget> {
    let pair = |key: &str| -> Result<[u64; 2], BadTarget> {
        let values = table.get(key).and_then(toml::Value::as_array);
        let values: Option<Vec<u64>> =
            values.and_then(|v| v.iter().map(|v| v.as_integer().and_then(|v| u64::try_from(v).ok())).collect());
        let missing = || BadTarget(format!("bounds {name}: `{key}` must be [base, size]"));
        values.and_then(|values| values.try_into().ok()).ok_or_else(missing)
    };
    let [[iram, iram_size], [code, code_size], [dram, dram_size], [data, data_size]] =
        [pair("iram")?, pair("code")?, pair("dram")?, pair("data")?];
    let bounds = MemoryBounds::from_words([iram, iram_size, code, code_size, dram, dram_size, data, data_size]);
    match bounds.problem() {
        None => Ok(bounds),
        Some(problem) => Err(BadTarget(format!("bounds {name}: {problem}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_five_kinds_are_one_more_than_their_architecture_and_found_by_name_and_number() {
        let kinds: Vec<_> = all().iter().map(|core| (core.name.as_str(), core.kind, core.libraries)).collect();
        let expected =
            [("sunda", 6, 1), ("cayman", 13, 4), ("mariana", 21, 4), ("mariana_plus", 29, 4), ("maverick", 37, 4)];
        assert_eq!(kinds, expected);
        assert!(all().iter().all(|core| core.kind == core.arch_id + 1));
        assert_eq!(find("Mariana-Plus").unwrap(), find("29").unwrap());
        assert_eq!(find("0x25").unwrap().name, "maverick");
        let text = find("tonga").unwrap_err().to_string();
        assert!(text.contains("`tonga`") && text.contains("cayman (13)"), "{text}");
    }

    #[test]
    fn a_target_file_with_a_fault_names_the_field() {
        assert!(parse("core = 1").unwrap_err().to_string().contains("[bounds]"));
        let broken = FILE.replace("data = [0xBE000, 0x2000]", "data = [0xBE000, 0x20000]");
        assert!(parse(&broken).unwrap_err().to_string().contains("bounds cayman"));
        let broken = FILE.replacen("kind = 6", "kind = \"six\"", 1);
        assert!(parse(&broken).unwrap_err().to_string().contains("core sunda: `kind`"));
    }
}
