//! The table of symbols that a device offers to modules.

use alloc::string::String;
use alloc::vec::Vec;

use hashbrown::HashMap;

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
    by_name: HashMap<String, u64>,
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
        self.by_name.get(name).copied()
    }

    /// The address of a symbol whose name comes from a file.
    pub(crate) fn get_bytes(&self, name: &[u8]) -> Option<u64> {
        if self.by_name.is_empty() {
            return None;
        }
        self.get(core::str::from_utf8(name).ok()?)
    }

    /// Number of symbols.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// True without symbols.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    /// All symbols, sorted by name.
    #[must_use]
    pub fn sorted(&self) -> Vec<(&str, u64)> {
        let mut all: Vec<_> = self.by_name.iter().map(|(name, address)| (name.as_str(), *address)).collect();
        all.sort_unstable();
        all
    }
}

impl<S: Into<String>> FromIterator<(S, u64)> for ExportTable {
    fn from_iter<I: IntoIterator<Item = (S, u64)>>(symbols: I) -> Self {
        Self { by_name: symbols.into_iter().map(|(name, address)| (name.into(), address)).collect() }
    }
}

impl<S: Into<String>> Extend<(S, u64)> for ExportTable {
    fn extend<I: IntoIterator<Item = (S, u64)>>(&mut self, symbols: I) {
        self.by_name.extend(symbols.into_iter().map(|(name, address)| (name.into(), address)));
    }
}
