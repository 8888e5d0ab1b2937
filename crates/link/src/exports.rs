//! The table of symbols that a device offers to modules.

use alloc::string::String;
use alloc::vec::Vec;
use core::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

/// The symbols that a device offers, hashed by name. Built once, shared by every load.
///
/// ```
/// use outboard_link::ExportTable;
///
/// let exports = ExportTable::from_iter([("memcpy", 0xa220_0000), ("printf", 0xa220_0680)]);
/// assert_eq!(exports.get("printf"), Some(0xa220_0680));
/// assert_eq!(exports.get("fork"), None);
/// ```
#[derive(Debug, Clone, Default)]
pub struct ExportTable {
    symbols: HashTable<(String, u64)>,
    hasher: DefaultHashBuilder,
}

impl ExportTable {
    /// A table without symbols.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The address of a symbol.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<u64> {
        self.get_hashed(self.hash(name.as_bytes()), name.as_bytes())
    }

    /// Adds a symbol; an earlier address of the same name is replaced.
    pub fn insert(&mut self, name: impl Into<String>, address: u64) {
        let name = name.into();
        let hash = self.hash(name.as_bytes());
        match self.symbols.find_mut(hash, |(known, _)| *known == name) {
            Some((_, known)) => *known = address,
            None => {
                let Self { symbols, hasher } = self;
                symbols.insert_unique(hash, (name, address), |(known, _)| hasher.hash_one(known.as_bytes()));
            }
        }
    }

    /// The hash of a name. Tables of a load share the hash function of the export table, so each name is hashed once.
    pub(crate) fn hash(&self, name: &[u8]) -> u64 {
        self.hasher.hash_one(name)
    }

    pub(crate) const fn hasher(&self) -> &DefaultHashBuilder {
        &self.hasher
    }

    /// The address of a symbol whose name comes from a file.
    pub(crate) fn get_hashed(&self, hash: u64, name: &[u8]) -> Option<u64> {
        self.symbols.find(hash, |(known, _)| known.as_bytes() == name).map(|(_, address)| *address)
    }

    /// Number of symbols.
    #[must_use]
    pub fn len(&self) -> usize {
        self.symbols.len()
    }

    /// True without symbols.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.symbols.is_empty()
    }

    /// All symbols, sorted by name.
    #[must_use]
    pub fn sorted(&self) -> Vec<(&str, u64)> {
        let mut all: Vec<_> = self.symbols.iter().map(|(name, address)| (name.as_str(), *address)).collect();
        all.sort_unstable();
        all
    }
}

impl<S: Into<String>> FromIterator<(S, u64)> for ExportTable {
    fn from_iter<I: IntoIterator<Item = (S, u64)>>(symbols: I) -> Self {
        let mut table = Self::new();
        table.extend(symbols);
        table
    }
}

impl<S: Into<String>> Extend<(S, u64)> for ExportTable {
    fn extend<I: IntoIterator<Item = (S, u64)>>(&mut self, symbols: I) {
        for (name, address) in symbols {
            self.insert(name, address);
        }
    }
}
