//! Why a module was not loaded: what, where, why, and what to do.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use outboard_elf::ElfError;

use crate::memory::OutOfMemory;

/// A load that was refused. The device's memory, tables and the file are as they were before.
///
/// [`LoadError::kind`] is the short word printed in JSON, [`LoadError::code`] the page that `outboard explain` prints.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The file is not a sound ELF file.
    #[error(transparent)]
    Elf(#[from] ElfError),
    /// The module is for another machine.
    #[error(
        "module {module} is for machine {found} ({found_name}), but this device accepts {accepted}; build the module for this device"
    )]
    BadMachine {
        /// Name of the module.
        module: String,
        /// `e_machine`.
        found: u16,
        /// Its name.
        found_name: &'static str,
        /// The machines that the device accepts.
        accepted: String,
    },
    /// `EI_OSABI` is not that of a C7x bare-metal module.
    #[error("EI_OSABI at offset 7 is {value}, expected 64 (C7x bare metal); link with the C7000 bare-metal ABI")]
    BadOsAbi {
        /// The value found.
        value: u8,
    },
    /// The file is neither an executable nor a shared object.
    #[error(
        "e_type at offset 16 is {value} ({name}), expected a shared object (3) or a dynamic executable (2); link the objects into a module"
    )]
    BadType {
        /// The value found.
        value: u16,
        /// Its name.
        name: &'static str,
    },
    /// An alignment is not a power of two, or an address cannot honour it.
    #[error("program header {index} (at file offset {header:#x}): p_align {align:#x} {problem}")]
    BadAlign {
        /// Index of the program header.
        index: usize,
        /// File offset of the header.
        header: u64,
        /// `p_align`.
        align: u64,
        /// Which rule is broken.
        problem: &'static str,
    },
    /// A segment or the whole image is larger than any device.
    #[error("{what} needs {size:#x} bytes, above the limit of {limit:#x}; link the module again")]
    SegmentTooLarge {
        /// The segment or image.
        what: &'static str,
        /// Its size.
        size: u64,
        /// The limit.
        limit: u64,
    },
    /// The device has no room for a segment.
    #[error("no room for program header {index} of the module: {oom}; unload another module or use a smaller model")]
    OutOfMemory {
        /// Index of the program header (of the first one for an image placed as a block).
        index: usize,
        /// What the pool said.
        oom: OutOfMemory,
    },
    /// The file has no dynamic table, so it cannot be moved to where the device has room.
    #[error(
        "the file has no PT_DYNAMIC segment: it was linked for fixed addresses and cannot be relocated; link it as a dynamic module"
    )]
    NotRelocatable,
    /// A C7x module without `DT_SONAME`.
    #[error("the dynamic table has no DT_SONAME: the C7x loader requires a module name; link with --soname")]
    MissingSoname,
    /// A C7x module depends on something that the device does not have.
    #[error("dependency {name}: {problem}")]
    MissingDependency {
        /// Name in `DT_NEEDED`.
        name: String,
        /// Why it cannot be satisfied.
        problem: &'static str,
    },
    /// The module has relocations without addends.
    #[error(
        "dynamic tag {tag} (value {value:#x}): relocations without addends (REL) are not used on this machine; link with RELA relocations"
    )]
    RelUnsupported {
        /// The tag.
        tag: &'static str,
        /// Its value.
        value: u64,
    },
    /// The module has initialisers or finalisers and the caller does not run them.
    #[error(
        "the module has initialisers or finalisers ({tag} = {value:#x}), which this device does not run; \
         avoid static constructors, or load it on the simulated device"
    )]
    InitUnsupported {
        /// The tag.
        tag: &'static str,
        /// Its value.
        value: u64,
    },
    /// A relocation names a symbol that does not exist.
    #[error(
        "relocation {entry} at {place:#x}: symbol index {index} is not below {count}, the number of symbols; the file is damaged"
    )]
    BadSymbolIndex {
        /// Index of the relocation in the order of application.
        entry: usize,
        /// `r_offset`.
        place: u64,
        /// The index found.
        index: u32,
        /// Number of symbols.
        count: usize,
    },
    /// Symbols that nothing defines: all of them, sorted.
    #[error(transparent)]
    Unresolved(Box<Unresolved>),
    /// A relocation type that does not exist or is refused by name.
    #[error("relocation {entry} at {place:#x}: type {number} ({name}) {why}")]
    InvalidRelocType {
        /// Index of the relocation in the order of application.
        entry: usize,
        /// `r_offset`.
        place: u64,
        /// The type number, all 32 bits.
        number: u32,
        /// Its name, when it has one.
        name: &'static str,
        /// Why it is refused and what to do.
        why: &'static str,
    },
    /// A relocation whose place is not inside one loaded segment.
    #[error(
        "relocation {entry} ({name}, {size} bytes) at {place:#x} {problem}; the file is damaged, link the module again"
    )]
    RelocOutOfSegment {
        /// Index of the relocation in the order of application.
        entry: usize,
        /// `r_offset`.
        place: u64,
        /// Name of the type.
        name: &'static str,
        /// Bytes that the type touches.
        size: u64,
        /// Where it lies instead.
        problem: &'static str,
    },
    /// A value that the field of its relocation cannot hold.
    #[error(
        "{0}: the value does not fit; place the parts closer together, or build with far calls and 64-bit pointers"
    )]
    Overflow(Box<RelocFault>),
    /// Strict mode: a target with low bits that the instruction cannot hold.
    #[error("{0}: the target is not aligned to 4 bytes and the instruction would drop its low bits; align the target")]
    MisalignedTarget(Box<RelocFault>),
    /// The memory did not hold what was written to it.
    #[error("{0}: the bytes read back differ from the bytes written; the memory of the device is faulty")]
    ReadBack(Box<RelocFault>),
    /// A host-CPU module that would have to change read-only code.
    #[error(
        "{what} at {place:#x}: the module would change read-only memory while loading; build all objects with -fPIC"
    )]
    TextRelocation {
        /// The tag or relocation type.
        what: &'static str,
        /// Link address, or the tag's value.
        place: u64,
    },
    /// A host-CPU module with thread-local storage.
    #[error(
        "program header {index}: the module has thread-local storage (PT_TLS), which the device does not provide; build without thread_local variables"
    )]
    ThreadLocal {
        /// Index of the program header.
        index: usize,
    },
    /// The module uses a processor feature that this device lacks.
    #[error(
        "module {module} was built for {arch} with {features} (by {builder}), but this processor has no {feature}; \
         build it again for this machine or with the default, portable target"
    )]
    MissingCpuFeature {
        /// Name of the module.
        module: String,
        /// The feature that is missing.
        feature: String,
        /// What the note says the module was built for.
        arch: String,
        /// All features of the note, comma-separated.
        features: String,
        /// Who built it.
        builder: String,
    },
    /// The memory broke its contract: a block it handed out is not there, or not where it was asked for.
    #[error(
        "the target memory refused {len:#x} bytes at {address:#x} of a block it had handed out; this is a fault of the device, not of the module"
    )]
    MemoryFault {
        /// Device address.
        address: u64,
        /// Length of the access.
        len: u64,
    },
}

/// Where a relocation failed and what its value was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelocFault {
    /// Index of the relocation in the order of application.
    pub entry: usize,
    /// Name of the type.
    pub name: &'static str,
    /// Link address of the place (`r_offset`).
    pub place: u64,
    /// Program header index of its segment.
    pub segment: usize,
    /// Device address of the place.
    pub address: u64,
    /// Name of the symbol, empty for section symbols.
    pub symbol: String,
    /// The value that was to be stored.
    pub value: i64,
    /// Smallest and largest value that the type takes.
    pub range: Option<(i128, i128)>,
    /// How many later relocations have the same fault.
    pub more: usize,
}

impl fmt::Display for RelocFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { entry, name, place, segment, address, symbol, value, range, more } = self;
        write!(
            f,
            "relocation {entry} ({name}) at {place:#x} in program header {segment} (device address {address:#x})"
        )?;
        if !symbol.is_empty() {
            write!(f, " against {symbol}")?;
        }
        write!(f, ", value {value:#x}")?;
        if let Some((low, high)) = range {
            write!(f, ", allowed {low}..={high}")?;
        }
        match more {
            0 => Ok(()),
            more => write!(f, ", and {more} more like it"),
        }
    }
}

/// Every symbol of a module that nothing defines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unresolved {
    /// Name of the module.
    pub module: String,
    /// The symbols, sorted by name.
    pub symbols: Vec<MissingSymbol>,
    /// Those that the firmware had when the module was linked: the module belongs to another firmware.
    pub stale: Vec<String>,
    /// Advice that follows from the names, one sentence each.
    pub hints: Vec<String>,
}

/// One symbol that nothing defines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingSymbol {
    /// Its name; empty for symbol 0 and nameless symbols.
    pub name: String,
    /// Why it cannot be used.
    pub reason: &'static str,
    /// Up to three names of the export table that look like it.
    pub near: Vec<String>,
}

impl fmt::Display for Unresolved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(first) = self.stale.first() {
            let more = if self.stale.len() > 1 { ", …" } else { "" };
            writeln!(
                f,
                "module {} was linked against another firmware: {} of the missing names ({first}{more}) were in its symbol file; \
                 link against the symbols of the firmware that runs, or update the firmware",
                self.module,
                self.stale.len(),
            )?;
        }
        let count = self.symbols.len();
        let noun = if count == 1 { "symbol" } else { "symbols" };
        write!(f, "module {} uses {count} {noun} that this device does not provide:", self.module)?;
        for symbol in &self.symbols {
            let name = if symbol.name.is_empty() { "(no name)" } else { &symbol.name };
            write!(f, "\n  {name}: {}", symbol.reason)?;
            for (index, near) in symbol.near.iter().enumerate() {
                write!(f, "{}{near}", if index == 0 { "; did you mean " } else { ", " })?;
            }
        }
        for hint in &self.hints {
            write!(f, "\n{hint}")?;
        }
        Ok(())
    }
}

impl core::error::Error for Unresolved {}

impl LoadError {
    /// The short stable word for this error, as printed in JSON (`"error": KIND`).
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Elf(error) => error.kind(),
            Self::BadMachine { .. } => "bad_machine",
            Self::BadOsAbi { .. } => "bad_osabi",
            Self::BadType { .. } => "bad_type",
            Self::BadAlign { .. } => "bad_align",
            Self::SegmentTooLarge { .. } => "segment_too_large",
            Self::OutOfMemory { .. } => "out_of_memory",
            Self::NotRelocatable => "not_relocatable",
            Self::MissingSoname => "missing_soname",
            Self::MissingDependency { .. } => "missing_dependency",
            Self::RelUnsupported { .. } => "rel_unsupported",
            Self::InitUnsupported { .. } => "init_unsupported",
            Self::BadSymbolIndex { .. } => "bad_symbol_index",
            Self::Unresolved(_) => "unresolved_symbol",
            Self::InvalidRelocType { .. } => "invalid_reloc_type",
            Self::RelocOutOfSegment { .. } => "reloc_out_of_segment",
            Self::Overflow(_) => "overflow",
            Self::MisalignedTarget(_) => "misaligned_target",
            Self::ReadBack(_) => "read_back",
            Self::TextRelocation { .. } => "text_relocation",
            Self::ThreadLocal { .. } => "thread_local",
            Self::MissingCpuFeature { .. } => "missing_cpu_feature",
            Self::MemoryFault { .. } => "memory_fault",
        }
    }

    /// The stable code of this error; `outboard explain CODE` prints its page (docs/reference/codes).
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self.kind() {
            "truncated" => "OB0101",
            "bad_magic" => "OB0102",
            "bad_class" => "OB0103",
            "bad_endian" => "OB0104",
            "bad_version" => "OB0105",
            "bad_machine" => "OB0106",
            "bad_osabi" => "OB0107",
            "bad_type" => "OB0108",
            "bad_phentsize" | "bad_shentsize" | "bad_ehsize" => "OB0109",
            "bad_segment" => "OB0110",
            "bad_align" => "OB0111",
            "segment_too_large" => "OB0112",
            "out_of_memory" => "OB0113",
            "not_relocatable" => "OB0114",
            "dynamic_not_terminated" => "OB0115",
            "bad_dynamic" => "OB0116",
            "bad_string_offset" => "OB0117",
            "missing_soname" => "OB0118",
            "missing_dependency" => "OB0119",
            "rel_unsupported" => "OB0120",
            "bad_relaent" => "OB0121",
            "init_unsupported" => "OB0122",
            "bad_symbol_index" => "OB0123",
            "unresolved_symbol" => "OB0124",
            "invalid_reloc_type" => "OB0125",
            "reloc_out_of_segment" => "OB0126",
            "overflow" => "OB0127",
            "misaligned_target" => "OB0128",
            "read_back" => "OB0129",
            "text_relocation" => "OB0130",
            "thread_local" => "OB0131",
            "missing_cpu_feature" => "OB0132",
            "bad_note" => "OB0133",
            "limit_exceeded" => "OB0134",
            _ => "OB0135",
        }
    }

    /// The names of the symbols that nothing defines, sorted; empty for other errors.
    #[must_use]
    pub fn symbols(&self) -> Vec<&str> {
        match self {
            Self::Unresolved(unresolved) => unresolved.symbols.iter().map(|symbol| symbol.name.as_str()).collect(),
            _ => Vec::new(),
        }
    }
}
