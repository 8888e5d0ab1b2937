//! Hard caps on what a file may ask the reader to do.

/// Caps on counts. A file that exceeds one is refused with [`crate::ElfError::Limit`], which names the cap.
///
/// The defaults are far above every real module and low enough that a hostile file cannot keep a reader busy: work and
/// memory stay linear in the size of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Largest file that is read, in bytes (default 2 GiB; the C7x staging area holds 468 MB).
    pub file_size: u64,
    /// Program headers (default 4,096).
    pub program_headers: u64,
    /// Section headers (default 65,280, the last index below the reserved ones).
    pub sections: u64,
    /// Entries of the dynamic table, including the terminator (default 4,096).
    pub dynamic_entries: u64,
    /// Symbols of one table (default 16 million).
    pub symbols: u64,
    /// Notes of all `PT_NOTE` segments together (default 1,024).
    pub notes: u64,
    /// Length of one name in bytes (default 65,536).
    pub name: u64,
}

impl Limits {
    /// The caps used by [`crate::Elf::parse`].
    pub const DEFAULT: Self = Self {
        file_size: 2 << 30,
        program_headers: 4_096,
        sections: 0xff00,
        dynamic_entries: 4_096,
        symbols: 1 << 24,
        notes: 1_024,
        name: 65_536,
    };
}

impl Default for Limits {
    fn default() -> Self {
        Self::DEFAULT
    }
}
