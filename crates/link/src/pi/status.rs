//! The status numbers of the original, two families that reuse the same numbers.

/// Results of the prelinker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum XtlibStatus {
    /// Success.
    NoErr = 0,
    /// The identification is not that of an ELF32 file.
    NotElf = 1,
    /// The dynamic table yields no relocation information.
    NoDynamicSegment = 4,
    /// A relocation names a symbol.
    UnknownSymbol = 5,
    /// The program headers are not those of a split-load image.
    NotSplitload = 7,
    /// A relocation that cannot be applied.
    RelocationErr = 8,
    /// The instruction at the place is none that the prelinker knows.
    InsnFmtErr = 12,
    /// A segment exceeds its window.
    InternalErr = 13,
}

impl XtlibStatus {
    /// All of them, by number.
    pub const ALL: [Self; 8] = [
        Self::NoErr,
        Self::NotElf,
        Self::NoDynamicSegment,
        Self::UnknownSymbol,
        Self::NotSplitload,
        Self::RelocationErr,
        Self::InsnFmtErr,
        Self::InternalErr,
    ];

    /// The number.
    #[must_use]
    pub const fn code(self) -> u32 {
        self as u32
    }

    /// The name in the original.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoErr => "XTLIB_NO_ERR",
            Self::NotElf => "XTLIB_NOT_ELF",
            Self::NoDynamicSegment => "NO_DYNAMIC_SEGMENT",
            Self::UnknownSymbol => "XTLIB_UNKNOWN_SYMBOL",
            Self::NotSplitload => "NOT_SPLITLOAD",
            Self::RelocationErr => "XTLIB_RELOCATION_ERR",
            Self::InsnFmtErr => "XTLIB_INSN_FMT_ERR",
            Self::InternalErr => "XTLIB_INTERNAL_ERR",
        }
    }
}

/// Results of the call that prelinks and stages a library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum LlStatus {
    /// Success.
    Ok = 0,
    /// No memory.
    NoMemory = 5,
    /// The staged image is larger than the device's buffer.
    TooLarge = 7,
    /// The core kind is not supported, or no memory backend is attached.
    Unsupported = 8,
    /// The prelinker failed.
    PrelinkFailed = 9,
}

impl LlStatus {
    /// The number.
    #[must_use]
    pub const fn code(self) -> u32 {
        self as u32
    }
}
