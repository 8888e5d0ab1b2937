//! Why an image was not prelinked: the status of the original, the place, what was expected, what to do.

use outboard_elf::ElfError;
use outboard_elf::pi::ShapeFault;

use super::XtlibStatus;

/// A relocation entry, for messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    pub index: usize,
    pub place: u32,
    pub number: u32,
}

/// A refused image. Nothing was written anywhere.
///
/// [`PrelinkError::code`] is the number printed in JSON: below 100 the original's, from 100 on ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PrelinkError {
    /// The file is not a sound ELF file.
    #[error("Failed to validate ELF shared object file: {0}")]
    Elf(ElfError),
    /// The file is a prelinked image.
    #[error(
        "the file starts with the UCPL magic at offset 0: it is prelinked already; stage it as it is, or pass the ELF image"
    )]
    AlreadyPrelinked,
    /// The image is for another machine.
    #[error("e_machine at file offset 0x12 is {found}, expected 94 (Xtensa); pass an image linked for a GPSIMD core")]
    WrongMachine {
        /// The value found.
        found: u16,
    },
    /// The bounds of the core are impossible.
    #[error("the memory bounds of the core are wrong: {problem}; correct the target file")]
    BadBounds {
        /// What is wrong.
        problem: &'static str,
    },
    /// The alignment is not a power of two.
    #[error(
        "the alignment of the segments is {align:#x}, expected a power of two; link the image again or override it"
    )]
    BadAlign {
        /// The value found.
        align: u64,
    },
    /// The program headers are not those of a split-load image.
    #[error(
        "Failed to validate ELF shared object file: not a split-load image: {0}; link it with `outboard link --shape pi`"
    )]
    NotSplitLoad(ShapeFault),
    /// The dynamic table yields no relocation information.
    #[error("Failed to extract dynamic relocation info from ELF shared object file: {0}; link the image again")]
    NoDynamic(ElfError),
    /// A segment exceeds its window.
    #[error(
        "Segment exceeds the size of the split region on device: the {which} segment (program header at file offset \
         {header:#x}) needs {need:#x} bytes, the window has {window:#x}; make the library smaller"
    )]
    SegmentTooLarge {
        /// `code` or `data`.
        which: &'static str,
        /// File offset of the program header.
        header: u64,
        /// Bytes from the start of the window to the end of the segment.
        need: u64,
        /// Bytes of the window.
        window: u64,
    },
    /// A relocation names a symbol.
    #[error(
        "relocation {index} at {place:#x}: r_info is {info:#x}, expected at most 0xff: images name no symbols; link it \
         without undefined symbols"
    )]
    UnknownSymbol {
        /// Index of the entry.
        index: usize,
        /// `r_offset`.
        place: u32,
        /// `r_info`.
        info: u32,
    },
    /// A relocation type that the prelinker does not have.
    #[error(
        "Unknown relocation type {number} (relocation {index} at {place:#x}); expected 0, 5 or 20..=49; link the image again"
    )]
    UnknownType {
        /// Index of the entry.
        index: usize,
        /// `r_offset`.
        place: u32,
        /// The type.
        number: u32,
    },
    /// A place outside of both segments.
    #[error(
        "Invalid relocation address {address} (relocation {index} of type {number} at {place:#x}): {problem}; \
         link the image again"
    )]
    BadSite {
        /// Index of the entry.
        index: usize,
        /// `r_offset`.
        place: u32,
        /// The type.
        number: u32,
        /// The device address.
        address: u32,
        /// Which rule is broken.
        problem: &'static str,
    },
    /// A word outside of both segments.
    #[error(
        "Invalid load @ {address:#x} (relocation {index} at {place:#x}): the word is in neither segment; link the image again"
    )]
    BadLoad {
        /// Index of the entry.
        index: usize,
        /// `r_offset`.
        place: u32,
        /// The device address.
        address: u32,
    },
    /// The instruction at the place takes no half of an address.
    #[error(
        "relocation {index} of type {number} at {place:#x}: {problem} (the word there is {insn:#010x}); \
         compile for const16 without FLIX, or supply a slot table"
    )]
    BadInstruction {
        /// Index of the entry.
        index: usize,
        /// `r_offset`.
        place: u32,
        /// The type.
        number: u32,
        /// The word at the place.
        insn: u32,
        /// Which rule is broken.
        problem: &'static str,
    },
    /// The place is a FLIX bundle.
    #[error(
        "Failed to set large immediate field in instruction slot {slot} (relocation {index} at {place:#x}): FLIX immediate \
         map unavailable for format {format} slot {slot}; supply a slot table or compile without FLIX"
    )]
    Flix {
        /// Index of the entry.
        index: usize,
        /// `r_offset`.
        place: u32,
        /// The slot of the type.
        slot: u8,
        /// Name of the bundle format, `unknown` when it is none of this core.
        format: &'static str,
    },
    /// The instruction is none that the prelinker knows.
    #[error(
        "Unknown instruction format [{insn:#x}] (relocation {index} at {place:#x}); expected a 24-bit instruction or a \
         FLIX bundle there; link the image again"
    )]
    InsnFormat {
        /// Index of the entry.
        index: usize,
        /// `r_offset`.
        place: u32,
        /// The word there.
        insn: u32,
    },
    /// One half of an address is relocated and the other is not.
    #[error(
        "relocation {index} at {place:#x} sets one half of {address:#x}, but no {missing} sets the other: the image was changed \
         after linking or relaxed by its linker; assemble with --no-transform or link with --no-relax"
    )]
    OrphanHalf {
        /// Index of the entry.
        index: usize,
        /// `r_offset`.
        place: u32,
        /// The link address whose half is set.
        address: u32,
        /// The type that is missing.
        missing: &'static str,
    },
    /// Two relocations write the same bytes.
    #[error(
        "relocation {index} of type {number} at {place:#x} writes bytes that an earlier one wrote; link the image again"
    )]
    Overlap {
        /// Index of the entry.
        index: usize,
        /// `r_offset`.
        place: u32,
        /// The type.
        number: u32,
    },
    /// The bytes read back differ from the bytes written.
    #[error(
        "relocation {index} at {place:#x}: the bytes read back differ from those written; the host's memory is faulty"
    )]
    ReadBack {
        /// Index of the entry.
        index: usize,
        /// `r_offset`.
        place: u32,
    },
}

impl PrelinkError {
    /// The status of the original, `None` for what only this prelinker refuses.
    #[must_use]
    pub const fn status(&self) -> Option<XtlibStatus> {
        match self {
            Self::Elf(ElfError::BadMagic { .. } | ElfError::BadClass { .. } | ElfError::BadEndian { .. }) => {
                Some(XtlibStatus::NotElf)
            }
            Self::NotSplitLoad(_) => Some(XtlibStatus::NotSplitload),
            Self::NoDynamic(_) => Some(XtlibStatus::NoDynamicSegment),
            Self::SegmentTooLarge { .. } => Some(XtlibStatus::InternalErr),
            Self::UnknownSymbol { .. } => Some(XtlibStatus::UnknownSymbol),
            Self::UnknownType { .. }
            | Self::BadSite { .. }
            | Self::BadLoad { .. }
            | Self::BadInstruction { .. }
            | Self::Flix { .. }
            | Self::OrphanHalf { .. }
            | Self::Overlap { .. } => Some(XtlibStatus::RelocationErr),
            Self::InsnFormat { .. } => Some(XtlibStatus::InsnFmtErr),
            Self::Elf(_)
            | Self::AlreadyPrelinked
            | Self::WrongMachine { .. }
            | Self::BadBounds { .. }
            | Self::BadAlign { .. }
            | Self::ReadBack { .. } => None,
        }
    }

    /// The number printed in JSON: the original's status, or ours from 100 on.
    #[must_use]
    pub const fn code(&self) -> u32 {
        match (self.status(), self) {
            (Some(status), _) => status.code(),
            (None, Self::AlreadyPrelinked) => 101,
            (None, Self::WrongMachine { .. }) => 102,
            (None, Self::BadBounds { .. }) => 103,
            (None, Self::ReadBack { .. }) => 104,
            (None, _) => 100,
        }
    }

    /// The name of [`PrelinkError::code`].
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match (self.status(), self) {
            (Some(status), _) => status.name(),
            (None, Self::AlreadyPrelinked) => "OUTBOARD_ALREADY_PRELINKED",
            (None, Self::WrongMachine { .. }) => "OUTBOARD_WRONG_MACHINE",
            (None, Self::BadBounds { .. }) => "OUTBOARD_BAD_BOUNDS",
            (None, Self::ReadBack { .. }) => "OUTBOARD_READ_BACK",
            (None, _) => "OUTBOARD_BAD_FILE",
        }
    }

    /// The page that `outboard explain` prints.
    #[must_use]
    pub const fn explain(&self) -> &'static str {
        match self {
            Self::Elf(_) => match self.status() {
                Some(_) => "OB0601",
                None => "OB0609",
            },
            Self::NoDynamic(_) => "OB0602",
            Self::UnknownSymbol { .. } => "OB0603",
            Self::NotSplitLoad(_) => "OB0604",
            Self::UnknownType { .. }
            | Self::BadSite { .. }
            | Self::BadLoad { .. }
            | Self::BadInstruction { .. }
            | Self::Overlap { .. } => "OB0605",
            Self::InsnFormat { .. } => "OB0606",
            Self::SegmentTooLarge { .. } => "OB0607",
            Self::AlreadyPrelinked => "OB0608",
            Self::BadAlign { .. } => "OB0609",
            Self::WrongMachine { .. } => "OB0610",
            Self::BadBounds { .. } => "OB0611",
            Self::ReadBack { .. } => "OB0612",
            Self::Flix { .. } => "OB0613",
            Self::OrphanHalf { .. } => "OB0614",
        }
    }
}
