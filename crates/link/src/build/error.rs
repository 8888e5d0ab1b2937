//! What can be wrong with the inputs of a link.

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use outboard_elf::ElfError;
use outboard_elf::archive::ArchiveError;

/// A place in an input file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    /// The file; a member of an archive is `archive(member)`.
    pub file: String,
    /// The section.
    pub section: String,
    /// Offset in the section.
    pub offset: u32,
    /// The function or variable that covers the place, and the offset from its start.
    pub symbol: Option<(String, u32)>,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:({}+{:#x})", self.file, self.section, self.offset)?;
        match &self.symbol {
            Some((name, offset)) => write!(f, " in {name}+{offset:#x}"),
            None => Ok(()),
        }
    }
}

/// A name that nobody defines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UndefinedSymbol {
    /// The name.
    pub name: String,
    /// The first places that use it, at most three; none when only the layout does.
    pub places: Vec<Location>,
    /// Places beyond those.
    pub more: usize,
    /// Names that are defined and look alike, nearest first.
    pub near: Vec<String>,
}

impl fmt::Display for UndefinedSymbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.name)?;
        for place in &self.places {
            write!(f, "\n    used at {place}")?;
        }
        if self.more > 0 {
            write!(f, "\n    and at {} more places", self.more)?;
        }
        if !self.near.is_empty() {
            write!(f, "\n    defined and alike: {}", self.near.join(", "))?;
        }
        Ok(())
    }
}

/// How many symbols [`BuildError::RegionFull`] names.
pub const LARGEST: usize = 10;

/// What a symbol takes of a region.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SymbolSize {
    /// Its size, in bytes.
    pub size: u32,
    /// Its name as linkers write it; that of the section where there are no symbols.
    pub name: String,
    /// The file; a member of an archive is `archive(member)`.
    pub file: String,
}

/// One fault of a link.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// An input is no sound ELF file.
    #[error("{file}: {error}")]
    Elf {
        /// The file.
        file: String,
        /// What is wrong.
        error: ElfError,
    },
    /// An input is no sound archive.
    #[error("{file}: {error}")]
    Archive {
        /// The file.
        file: String,
        /// What is wrong.
        error: ArchiveError,
    },
    /// An input is neither an object nor an archive for Xtensa.
    #[error("{file}: {problem}; pass relocatable Xtensa objects and archives of them")]
    NotAnObject {
        /// The file.
        file: String,
        /// What it is instead.
        problem: &'static str,
    },
    /// An object contradicts itself.
    #[error("{file}: section {section} ({index}): {problem} (value {value:#x}); compile it again")]
    BadObject {
        /// The file.
        file: String,
        /// Name of the section.
        section: String,
        /// Its index.
        index: usize,
        /// Which rule is broken.
        problem: &'static str,
        /// The value that breaks it.
        value: u64,
    },
    /// The inputs claim more than their size allows.
    #[error("{file}: {what} need {value} bytes, above the limit of {limit}; the file is damaged or hostile")]
    Limit {
        /// The file.
        file: String,
        /// What was counted.
        what: &'static str,
        /// How much it is.
        value: u64,
        /// The cap.
        limit: u64,
    },
    /// A relocation that a linker of whole images does not take.
    #[error("{at}: {name}: {why}")]
    RefusedType {
        /// Where.
        at: Box<Location>,
        /// Name of the type.
        name: &'static str,
        /// Why, and what to do.
        why: &'static str,
    },
    /// A relocation type that has no row.
    #[error("{at}: relocation type {number} is not known; link objects of a known compiler")]
    UnknownType {
        /// Where.
        at: Box<Location>,
        /// The type.
        number: u32,
    },
    /// A relocation whose place or symbol is impossible.
    #[error("{at}: {name}: {problem}; compile the object again")]
    BadRelocation {
        /// Where.
        at: Box<Location>,
        /// Name of the type.
        name: &'static str,
        /// Which rule is broken.
        problem: &'static str,
    },
    /// The instruction at the place has no operand of the kind that the relocation writes.
    #[error(
        "{at}: {name} on an instruction without such an operand (bytes {bytes:02x?}): {problem}; \
         compile the object again with a compiler for this core"
    )]
    NoOperand {
        /// Where.
        at: Box<Location>,
        /// Name of the type.
        name: &'static str,
        /// The bytes there.
        bytes: [u8; 3],
        /// What is missing.
        problem: &'static str,
    },
    /// A distance that the instruction cannot hold.
    #[error(
        "{at}: {form} at {place:#010x} cannot reach {symbol} at {target:#010x}: the distance {distance} is not within \
         {min} to {max} in steps of {step}; {help}"
    )]
    OutOfReach {
        /// Where.
        at: Box<Location>,
        /// The instructions of this form.
        form: &'static str,
        /// Address of the instruction.
        place: u32,
        /// What it refers to.
        symbol: String,
        /// Where that is.
        target: u32,
        /// The distance in bytes, as the instruction counts.
        distance: i32,
        /// Smallest distance.
        min: i32,
        /// Largest distance.
        max: i32,
        /// The distance is a multiple of this.
        step: u8,
        /// What to do.
        help: &'static str,
    },
    /// A literal that cannot be moved to a pool.
    #[error("{at}: the literal of this l32r is at {literal}: {problem}")]
    Literal {
        /// The instruction.
        at: Box<Location>,
        /// The literal.
        literal: Box<Location>,
        /// Why, and what to do.
        problem: &'static str,
    },
    /// A section that was removed is referred to.
    #[error(
        "{at}: refers to {symbol} in a section that is no part of the image: another file's copy is used, or it is never loaded; \
         compile both files alike, or give the section a place"
    )]
    Discarded {
        /// Where.
        at: Box<Location>,
        /// The symbol or section.
        symbol: String,
    },
    /// Two relocations write the same bytes.
    #[error("{at}: {name} writes bytes that the relocation before it writes; compile the object again")]
    Overlap {
        /// Where.
        at: Box<Location>,
        /// Name of the type.
        name: &'static str,
    },
    /// Names that nobody defines, all of them.
    #[error("undefined symbols:{}", list(symbols))]
    Undefined {
        /// The names, in the order in which they occur.
        symbols: Vec<UndefinedSymbol>,
    },
    /// A name that two files define.
    #[error("{name} is defined twice: in {first} and in {second}; remove one or make it weak")]
    Duplicate {
        /// The name.
        name: String,
        /// The first definition.
        first: String,
        /// The second.
        second: String,
    },
    /// Sections for which the layout has no place, all of them.
    #[error("the layout has no place for these sections: {}; add their names to a section of the layout", sections.join(", "))]
    Unplaced {
        /// `file:(section)`.
        sections: Vec<String>,
    },
    /// A section does not fit into its region.
    #[error(
        "section {section} needs {need:#x} bytes at {address:#x}, beyond the end of region {region} at {end:#x} by \
         {excess:#x}; make the region larger or the program smaller{}",
        sizes(largest)
    )]
    RegionFull {
        /// The section of the layout.
        section: String,
        /// Where it starts.
        address: u32,
        /// Its size.
        need: u64,
        /// The region.
        region: String,
        /// End of the region.
        end: u64,
        /// Bytes that do not fit.
        excess: u64,
        /// What takes the most room in the region, at most [`LARGEST`] symbols; in the last fault of each region.
        largest: Vec<SymbolSize>,
    },
    /// The layout contradicts itself.
    #[error("the layout: {what}: {problem}")]
    Layout {
        /// What it is about.
        what: String,
        /// What is wrong, and what to do.
        problem: String,
    },
    /// The written image differs from what was planned: a fault of this linker or of the host's memory.
    #[error("{at}: verification failed after writing: {problem}; nothing was written to the output")]
    Verify {
        /// Where.
        at: Box<Location>,
        /// What differs.
        problem: &'static str,
    },
}

fn sizes(largest: &[SymbolSize]) -> String {
    if largest.is_empty() {
        return String::new();
    }
    let rows = largest.iter().map(|symbol| alloc::format!("\n  {:>8} {} ({})", symbol.size, symbol.name, symbol.file));
    core::iter::once("; the largest symbols there, in bytes:".to_string()).chain(rows).collect()
}

fn list(symbols: &[UndefinedSymbol]) -> String {
    let mut text = String::new();
    for symbol in symbols {
        text.push_str("\n  ");
        text.push_str(&symbol.to_string());
    }
    text
}

impl BuildError {
    /// The page that `outboard explain` prints.
    #[must_use]
    pub const fn explain(&self) -> &'static str {
        match self {
            Self::Elf { .. }
            | Self::Archive { .. }
            | Self::NotAnObject { .. }
            | Self::BadObject { .. }
            | Self::Limit { .. } => "OB0701",
            Self::Undefined { .. } => "OB0702",
            Self::Duplicate { .. } | Self::Discarded { .. } => "OB0703",
            Self::RefusedType { .. } | Self::UnknownType { .. } | Self::BadRelocation { .. } | Self::Overlap { .. } => {
                "OB0704"
            }
            Self::NoOperand { .. } => "OB0705",
            Self::OutOfReach { .. } => "OB0706",
            Self::Literal { .. } => "OB0707",
            Self::Unplaced { .. } | Self::RegionFull { .. } | Self::Layout { .. } => "OB0708",
            Self::Verify { .. } => "OB0709",
        }
    }

    /// The short stable word for this fault, as printed in JSON.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Elf { error, .. } => error.kind(),
            Self::Archive { .. } => "bad_archive",
            Self::NotAnObject { .. } => "not_an_object",
            Self::BadObject { .. } => "bad_object",
            Self::Limit { .. } => "limit_exceeded",
            Self::RefusedType { .. } => "refused_relocation",
            Self::UnknownType { .. } => "unknown_relocation",
            Self::BadRelocation { .. } => "bad_relocation",
            Self::NoOperand { .. } => "no_operand",
            Self::OutOfReach { .. } => "out_of_reach",
            Self::Literal { .. } => "bad_literal",
            Self::Discarded { .. } => "discarded_section",
            Self::Overlap { .. } => "overlapping_relocations",
            Self::Undefined { .. } => "undefined_symbols",
            Self::Duplicate { .. } => "duplicate_symbol",
            Self::Unplaced { .. } => "unplaced_sections",
            Self::RegionFull { .. } => "region_full",
            Self::Layout { .. } => "bad_layout",
            Self::Verify { .. } => "verification_failed",
        }
    }
}

/// The faults of a link: all that one phase found, at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuildErrors {
    first: Box<BuildError>,
    rest: Vec<BuildError>,
    more: usize,
}

impl BuildErrors {
    /// How many faults are kept.
    pub const KEPT: usize = 64;

    /// The faults, at most [`BuildErrors::KEPT`].
    pub fn iter(&self) -> impl Iterator<Item = &BuildError> {
        core::iter::once(self.first()).chain(&self.rest)
    }

    /// The first fault.
    #[must_use]
    pub fn first(&self) -> &BuildError {
        &self.first
    }

    /// Faults beyond those kept.
    #[must_use]
    pub const fn more(&self) -> usize {
        self.more
    }
}

impl From<BuildError> for BuildErrors {
    fn from(first: BuildError) -> Self {
        Self { first: Box::new(first), rest: Vec::new(), more: 0 }
    }
}

impl fmt::Display for BuildErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.first)?;
        for error in &self.rest {
            write!(f, "\n{error}")?;
        }
        match self.more {
            0 => Ok(()),
            more => write!(f, "\nand {more} more faults"),
        }
    }
}

impl core::error::Error for BuildErrors {}

/// Collects the faults of a phase.
#[derive(Debug, Default)]
pub(super) struct Faults {
    kept: Vec<BuildError>,
    more: usize,
}

impl Faults {
    /// The last fault of a region that is full, if there is one: what it names as the largest symbols.
    pub fn largest_in(&mut self, name: &str) -> Option<&mut Vec<SymbolSize>> {
        self.kept.iter_mut().rev().find_map(|fault| match fault {
            BuildError::RegionFull { region, largest, .. } if region == name => Some(largest),
            _ => None,
        })
    }

    pub fn push(&mut self, error: BuildError) {
        if self.kept.len() < BuildErrors::KEPT {
            self.kept.push(error);
        } else {
            self.more += 1;
        }
    }

    /// Ends the phase: an error when there was any fault.
    pub fn finish(self) -> Result<(), BuildErrors> {
        let mut kept = self.kept.into_iter();
        match kept.next() {
            None => Ok(()),
            Some(first) => Err(BuildErrors { first: Box::new(first), rest: kept.collect(), more: self.more }),
        }
    }
}
