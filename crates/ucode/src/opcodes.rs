//! Names of opcodes, from `targets/gpsimd-opcodes.toml`.

use std::collections::BTreeMap;
use std::sync::OnceLock;

const FILE: &str = include_str!("../../../targets/gpsimd-opcodes.toml");

/// Generations, oldest first.
pub const GENERATIONS: [&str; 5] = ["sunda", "cayman", "mariana", "mariana_plus", "maverick"];

/// The instruction whose `spec` byte is an extended opcode.
pub const EXTENDED_INST: u8 = 0xf0;

/// An opcode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opcode {
    /// Name.
    pub name: String,
    /// The first generation that has it, an index of [`GENERATIONS`].
    pub since: usize,
}

struct Tables {
    opcodes: BTreeMap<u8, Opcode>,
    extended: BTreeMap<u8, String>,
    alu: BTreeMap<u8, String>,
}

fn tables() -> &'static Tables {
    static TABLES: OnceLock<Tables> = OnceLock::new();
    TABLES.get_or_init(|| read(FILE).expect("targets/gpsimd-opcodes.toml is sound: a test reads it"))
}

fn read(text: &str) -> Option<Tables> {
    let file: toml::Table = text.parse().ok()?;
    let list = |key: &str| -> Option<Vec<(u8, String, Option<usize>)>> {
        let rows = file.get(key)?.as_array()?.iter().map(|row| {
            let code = u8::try_from(row.get("code")?.as_integer()?).ok()?;
            let since = row.get("since").and_then(toml::Value::as_str);
            let since = since.and_then(|since| GENERATIONS.iter().position(|known| *known == since));
            Some((code, row.get("name")?.as_str()?.to_owned(), since))
        });
        rows.collect()
    };
    let names = |key: &str| Some(list(key)?.into_iter().map(|(code, name, _)| (code, name)).collect());
    let opcodes = list("opcode")?.into_iter().map(|(code, name, since)| Some((code, Opcode { name, since: since? })));
    Some(Tables { opcodes: opcodes.collect::<Option<_>>()?, extended: names("extended")?, alu: names("alu")? })
}

/// The opcode with this value; `None` when no name is known.
#[must_use]
pub fn opcode(value: u8) -> Option<&'static Opcode> {
    tables().opcodes.get(&value)
}

/// The name of an opcode.
#[must_use]
pub fn name(value: u8) -> Option<&'static str> {
    opcode(value).map(|opcode| opcode.name.as_str())
}

/// The name of an extended opcode, the `spec` byte of [`EXTENDED_INST`].
#[must_use]
pub fn extended_name(spec: u8) -> Option<&'static str> {
    tables().extended.get(&spec).map(String::as_str)
}

/// The name of an arithmetic operation.
#[must_use]
pub fn alu_name(value: u8) -> Option<&'static str> {
    tables().alu.get(&value).map(String::as_str)
}

/// All opcodes with a name, by value.
pub fn all() -> impl Iterator<Item = (u8, &'static Opcode)> {
    tables().opcodes.iter().map(|(value, opcode)| (*value, opcode))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opcodes_have_the_names_of_the_enumeration() {
        assert_eq!(all().count(), 163);
        assert_eq!(name(0x85), Some("CUSTOM_OP_HEADER"));
        assert_eq!(name(0x7d), Some("CROSS_LANE_REDUCE_BITVEC"));
        assert_eq!(name(0xf2), Some("NONZERO_WITH_COUNT"));
        assert_eq!(opcode(0xf2).unwrap().since, 1, "since cayman");
        assert_eq!(name(0xff), Some("INVALID"));
        assert_eq!(name(0x00), None);
        assert_eq!(extended_name(4), Some("RAND_GET_STATE"));
        assert_eq!(extended_name(5), None);
        assert_eq!(alu_name(0x04), Some("ADD"));
    }
}
