//! Export sets: which names a device offers (`targets/export-sets.toml`), and what follows for a module.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use outboard_elf::write::{HashStyle, ImageBuilder, RelocationSpec, SegmentSpec, SymbolSpec};
use outboard_elf::{et, pf};
use toml::{Table, Value};

use crate::Machine;

/// The export sets that this program knows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExportSets {
    sets: BTreeMap<String, ExportSet>,
}

/// One export set.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct ExportSet {
    /// One line for people.
    pub description: String,
    /// Every name with its category, names of included sets too.
    pub names: BTreeMap<String, String>,
}

/// A file of export sets that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExportSetError {
    /// It is not TOML.
    #[error("the file of export sets is not valid TOML: {0}")]
    Syntax(String),
    /// A set is not as it should be.
    #[error("export set {set}: {problem}")]
    Set {
        /// Name of the set.
        set: String,
        /// What is wrong.
        problem: &'static str,
    },
}

/// How a module and a device's table fit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct ExportDiff {
    /// Names that the module imports and the device does not offer, sorted.
    pub missing: Vec<String>,
    /// Names that the module imports and the device offers, sorted.
    pub used: Vec<String>,
    /// Names of export sets that would satisfy the module, sorted.
    pub satisfied_by: Vec<String>,
}

impl ExportSets {
    /// The sets that come with this program: `firmware-v2`, `seed`, `sim`.
    ///
    /// ```
    /// use outboard_link::export_sets::ExportSets;
    ///
    /// let sets = ExportSets::builtin();
    /// assert_eq!(sets.get("firmware-v2").unwrap().names.len(), 124);
    /// assert_eq!(sets.satisfying(["memcpy", "expf"]), ["seed", "sim"]);
    /// ```
    #[must_use]
    pub fn builtin() -> Self {
        // The file is part of this program; a test reads it.
        Self::parse(include_str!("../../../../targets/export-sets.toml")).unwrap_or_default()
    }

    /// Reads a file of export sets.
    ///
    /// # Errors
    ///
    /// [`ExportSetError`] naming the set.
    pub fn parse(text: &str) -> Result<Self, ExportSetError> {
        let table: Table = text.parse().map_err(|error: toml::de::Error| ExportSetError::Syntax(error.to_string()))?;
        let mut sets = BTreeMap::new();
        for name in table.keys() {
            let mut names = BTreeMap::new();
            collect(&table, name, &mut names, &mut BTreeSet::new())?;
            let description = table.get(name).and_then(|set| set.get("description")).and_then(Value::as_str);
            let description = description.ok_or_else(|| bad(name, "has no description"))?.to_string();
            sets.insert(name.clone(), ExportSet { description, names });
        }
        Ok(Self { sets })
    }

    /// A set by name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&ExportSet> {
        self.sets.get(name)
    }

    /// All sets, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &ExportSet)> {
        self.sets.iter().map(|(name, set)| (name.as_str(), set))
    }

    /// The sets that have all these names, by name.
    pub fn satisfying<'n>(&self, names: impl IntoIterator<Item = &'n str>) -> Vec<&str> {
        let names: Vec<&str> = names.into_iter().collect();
        let fits = |set: &ExportSet| names.iter().all(|name| set.names.contains_key(*name));
        self.sets.iter().filter(|(_, set)| fits(set)).map(|(name, _)| name.as_str()).collect()
    }

    /// Compares what a module imports with what a device offers.
    #[must_use]
    pub fn diff(&self, imports: &[&str], offered: &dyn Fn(&str) -> bool) -> ExportDiff {
        let sorted: BTreeSet<&str> = imports.iter().copied().collect();
        let (used, missing): (Vec<&str>, Vec<&str>) = sorted.into_iter().partition(|name| offered(name));
        let owned = |names: Vec<&str>| names.into_iter().map(String::from).collect();
        let satisfied_by = owned(self.satisfying(imports.iter().copied()));
        ExportDiff { missing: owned(missing), used: owned(used), satisfied_by }
    }
}

fn bad(set: &str, problem: &'static str) -> ExportSetError {
    ExportSetError::Set { set: set.to_string(), problem }
}

/// Adds the names of a set and of the sets it includes.
fn collect(
    table: &Table,
    name: &str,
    names: &mut BTreeMap<String, String>,
    seen: &mut BTreeSet<String>,
) -> Result<(), ExportSetError> {
    if !seen.insert(name.to_string()) {
        return Ok(());
    }
    let set = table.get(name).and_then(Value::as_table).ok_or_else(|| bad(name, "does not exist or is no table"))?;
    let list = |value: &Value, problem| -> Result<Vec<String>, ExportSetError> {
        let texts = value.as_array().map(|list| list.iter().map(|item| item.as_str().map(String::from)).collect());
        texts.flatten().ok_or_else(|| bad(name, problem))
    };
    for included in set.get("includes").map_or(Ok(Vec::new()), |value| list(value, "includes: not a list of names"))? {
        collect(table, &included, names, seen)?;
    }
    let categories = set.get("names").and_then(Value::as_table).ok_or_else(|| bad(name, "has no table of names"))?;
    for (category, value) in categories {
        for symbol in list(value, "a category is not a list of names")? {
            names.insert(symbol, category.clone());
        }
    }
    Ok(())
}

/// A library that defines `names` and does nothing, to link modules against: the linker finds its symbols there, the device
/// provides them at load. For the C7x it is the symbol file `dsp_syms.out`, for processors of the host a shared object.
///
/// ```
/// use outboard_link::export_sets::stub_library;
/// use outboard_link::Machine;
///
/// let library = stub_library(Machine::X86_64, &["TVMBackendAllocWorkspace", "expf"]);
/// assert_eq!(&library[..4], b"\x7fELF");
/// ```
#[must_use]
pub fn stub_library(machine: Machine, names: &[&str]) -> Vec<u8> {
    const STEP: u64 = 16;
    let mut image = ImageBuilder::new(machine.elf());
    let size = STEP * names.len().max(1) as u64;
    let spec = match machine {
        Machine::C7x => {
            image.kind(et::EXEC).soname("dsp_syms.out");
            SegmentSpec::zeroed(pf::R | pf::X, size).at(0x1000)
        }
        _ => {
            image.soname("liboutboard_device.so").hash(HashStyle::Both);
            SegmentSpec::new(pf::R | pf::X, alloc::vec![0; names.len().max(1) * 16]).align(4096).at(0x1000)
        }
    };
    let text = image.segment(spec.named(".text"));
    for (index, name) in names.iter().enumerate() {
        image.symbol(SymbolSpec::function(name, text, STEP * index as u64, STEP));
    }
    image.build()
}

/// A module that imports `names` and does nothing: a device loads it exactly when it offers them all.
///
/// ```
/// use outboard_link::export_sets::probe_module;
/// use outboard_link::Machine;
///
/// let probe = probe_module(Machine::C7x, &["TVMBackendAllocWorkspace", "expf"]);
/// assert_eq!(&probe[..4], b"\x7fELF");
/// ```
#[must_use]
pub fn probe_module(machine: Machine, names: &[&str]) -> Vec<u8> {
    const WORD: u64 = 8;
    let (host, absolute) = match machine {
        Machine::C7x => (false, 18),
        Machine::AArch64 => (true, 257),
        _ => (true, 1),
    };
    let mut image = ImageBuilder::new(machine.elf());
    if host {
        image.hash(HashStyle::Both);
    } else {
        // Without this dependency, a C7x module sees none of the firmware's symbols.
        image.needed("dsp_syms.out").firmware_symbols(&[]);
    }
    let text = image.segment(SegmentSpec::new(pf::R | pf::X, alloc::vec![0; 64]).align(4096).named(".text"));
    let room = WORD * names.len().max(1) as u64;
    let data = image.segment(SegmentSpec::zeroed(pf::R | pf::W, room).align(4096).named(".data"));
    image.symbol(SymbolSpec::function("cg_main_dsp", text, 0, 64));
    for (index, name) in names.iter().enumerate() {
        let symbol = image.symbol(SymbolSpec::import(name));
        image.relocate(RelocationSpec::new(data, WORD * index as u64, absolute, symbol, 0));
    }
    image.build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "reads the files of export sets and boards: minutes in an interpreter")]
    fn the_built_in_sets_are_read_whole() {
        let sets = ExportSets::parse(include_str!("../../../../targets/export-sets.toml")).unwrap();
        let sizes: Vec<(&str, usize)> = sets.iter().map(|(name, set)| (name, set.names.len())).collect();
        assert_eq!(sizes, [("firmware-v2", 124), ("seed", 133), ("sim", 239)]);
        assert_eq!(sets.get("seed").unwrap().names["memcpy"], "C library");
    }

    #[test]
    #[cfg_attr(miri, ignore = "reads the files of export sets and boards: minutes in an interpreter")]
    fn a_module_is_compared_with_a_table() {
        let sets = ExportSets::builtin();
        let diff = sets.diff(&["sinf", "memcpy", "memcpy"], &|name| name == "memcpy");
        assert_eq!(diff.missing, ["sinf"]);
        assert_eq!(diff.used, ["memcpy"]);
        assert_eq!(diff.satisfied_by, ["sim"]);
    }

    #[test]
    fn a_faulty_file_names_the_set() {
        for (text, word) in [
            ("x = ", "TOML"),
            ("[a]\ndescription = 'x'", "a"),
            ("[a]\n[a.names]\nc = ['x']", "description"),
            ("[a]\ndescription = 'x'\nincludes = ['b']\n[a.names]", "b"),
            ("[a]\ndescription = 'x'\n[a.names]\nc = [1]", "category"),
        ] {
            let error = ExportSets::parse(text).unwrap_err().to_string();
            assert!(error.contains(word), "{text}: {error}");
        }
        let circle = "[a]\ndescription = 'x'\nincludes = ['a']\n[a.names]\nc = ['n']";
        assert_eq!(ExportSets::parse(circle).unwrap().get("a").unwrap().names.len(), 1, "a circle ends");
    }
}
