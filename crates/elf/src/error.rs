//! What can be wrong with a file, with the place and the value.

/// A fault of an ELF file. Every variant says where in the file it is and which value broke which rule.
///
/// [`ElfError::kind`] gives the short stable word used in JSON output; `docs/reference/loader.md` lists them all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ElfError {
    /// Something lies beyond the end of the file.
    #[error(
        "the file ends early: {what} needs {len} bytes at file offset {offset:#x}, but the file has {file_size} bytes; \
         copy or build the file again"
    )]
    Truncated {
        /// What was to be read.
        what: &'static str,
        /// File offset of its first byte.
        offset: u64,
        /// Bytes it needs.
        len: u64,
        /// Size of the file.
        file_size: u64,
    },
    /// The first four bytes are not those of an ELF file.
    #[error("not an ELF file: it starts with {found:02x?} at offset 0 instead of 7f 45 4c 46; pass the linked module")]
    BadMagic {
        /// The first four bytes.
        found: [u8; 4],
    },
    /// `EI_CLASS` is neither ELF32 nor ELF64, or not the class that the machine uses.
    #[error("EI_CLASS at offset 4 is {value}, expected {expected}")]
    BadClass {
        /// The value found.
        value: u8,
        /// The values that are accepted.
        expected: &'static str,
    },
    /// `EI_DATA` is not little-endian.
    #[error("EI_DATA at offset 5 is {value}; only little-endian files (1) are read, and every supported device is one")]
    BadEndian {
        /// The value found.
        value: u8,
    },
    /// `EI_VERSION` or `e_version` is not 1.
    #[error("{field} at offset {offset:#x} is {value}, expected 1 (current)")]
    BadVersion {
        /// `EI_VERSION` or `e_version`.
        field: &'static str,
        /// File offset of the field.
        offset: u64,
        /// The value found.
        value: u32,
    },
    /// A table's entry size differs from the size of the structure.
    #[error("{field} at offset {offset:#x} is {value}, expected {expected} (the size of one entry)")]
    BadEntrySize {
        /// Name of the field.
        field: &'static str,
        /// File offset of the field.
        offset: u64,
        /// The value found.
        value: u64,
        /// The structure's size.
        expected: u64,
    },
    /// A segment's sizes or file range are impossible.
    #[error(
        "program header {index} (at file offset {header:#x}): {problem} (p_offset {offset:#x}, p_filesz {filesz:#x}, \
         p_memsz {memsz:#x}, p_vaddr {vaddr:#x}); link the module again"
    )]
    BadSegment {
        /// Index of the program header.
        index: usize,
        /// File offset of the header.
        header: u64,
        /// Which rule is broken.
        problem: &'static str,
        /// `p_offset`.
        offset: u64,
        /// `p_filesz`.
        filesz: u64,
        /// `p_memsz`.
        memsz: u64,
        /// `p_vaddr`.
        vaddr: u64,
    },
    /// `PT_DYNAMIC` holds no `DT_NULL`.
    #[error("the dynamic table at file offset {offset:#x} ({len} bytes) has no DT_NULL terminator")]
    DynamicNotTerminated {
        /// File offset of the table.
        offset: u64,
        /// Size of the table.
        len: u64,
    },
    /// A dynamic tag is missing or its value is impossible.
    #[error("dynamic tag {tag}: {problem} (value {value:#x})")]
    BadDynamic {
        /// Name of the tag.
        tag: &'static str,
        /// Which rule is broken.
        problem: &'static str,
        /// The tag's value, 0 when absent.
        value: u64,
    },
    /// A name offset points outside of its string table, or the table does not end with NUL.
    #[error("{what}: string offset {offset:#x} {problem} (the table has {size} bytes)")]
    BadString {
        /// Whose name it is.
        what: &'static str,
        /// Offset inside the table.
        offset: u64,
        /// Which rule is broken.
        problem: &'static str,
        /// Size of the table.
        size: u64,
    },
    /// A note runs past the end of its segment.
    #[error("note at file offset {offset:#x}: {problem} (value {value:#x})")]
    BadNote {
        /// File offset of the note.
        offset: u64,
        /// Which rule is broken.
        problem: &'static str,
        /// The value found.
        value: u64,
    },
    /// A count is above the reader's cap.
    #[error(
        "{what} is {value}, above the limit of {limit}; no real module needs so many, the file is damaged or hostile"
    )]
    Limit {
        /// What was counted.
        what: &'static str,
        /// The file's value.
        value: u64,
        /// The cap.
        limit: u64,
    },
}

impl ElfError {
    /// The short stable word for this fault, as printed in JSON (`"error": KIND`).
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Truncated { .. } => "truncated",
            Self::BadMagic { .. } => "bad_magic",
            Self::BadClass { .. } => "bad_class",
            Self::BadEndian { .. } => "bad_endian",
            Self::BadVersion { .. } => "bad_version",
            Self::BadEntrySize { field, .. } => match field.as_bytes() {
                b"DT_RELAENT" | b"DT_RELRENT" => "bad_relaent",
                b"e_phentsize" => "bad_phentsize",
                b"e_shentsize" => "bad_shentsize",
                b"e_ehsize" => "bad_ehsize",
                _ => "bad_dynamic",
            },
            Self::BadSegment { .. } => "bad_segment",
            Self::DynamicNotTerminated { .. } => "dynamic_not_terminated",
            Self::BadDynamic { .. } => "bad_dynamic",
            Self::BadString { .. } => "bad_string_offset",
            Self::BadNote { .. } => "bad_note",
            Self::Limit { .. } => "limit_exceeded",
        }
    }
}
