//! Tells everything about a device file: what it is, what is in it, what deserves attention.
//!
//! Every report can be printed ([`Report`] implements `Display`) and, with the feature `serde`, serialised.
//! Numbers stay numbers; hashes and raw bytes are lower-case hexadecimal text.

mod archive;
mod fll;
mod lint;
mod object;
mod pi;
mod print;
mod ucpl;

use std::collections::BTreeMap;

use outboard_elf::archive::{Archive, ArchiveError};
use outboard_elf::pi::{DeviceShape, UnknownShape};
use outboard_elf::{Elf, ElfError, Limits, et, machine};
use outboard_link::pi::{UCPL_MAGIC, UcplError};
use sha2::{Digest, Sha256};

pub use archive::{ArchiveMember, ArchiveReport};
pub use fll::FllReport;
pub use lint::Note;
pub use object::{ObjectRelocations, ObjectReport, ObjectSymbol};
pub use pi::{
    DynamicEntry, Globstruct, Kernel, KernelTableReport, KernelTableRow, PiReport, Relocations, SlotPair, Word,
};
pub use ucpl::UcplReport;

/// What a file is and what is in it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(tag = "kind", rename_all = "snake_case"))]
pub enum Report {
    /// A PI image.
    Pi(PiReport),
    /// A fixed-load library.
    Fll(FllReport),
    /// A relocatable object.
    Object(ObjectReport),
    /// An archive of objects.
    Archive(ArchiveReport),
    /// A prelinked image.
    Ucpl(UcplReport),
}

/// Why a file cannot be inspected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InspectError {
    /// It is not a sound ELF file.
    #[error(transparent)]
    Elf(#[from] ElfError),
    /// It is an ELF file for another machine.
    #[error(
        "an ELF file for {0}, not for a GPSIMD core; `outboard carve` finds device images inside of a host library"
    )]
    OtherMachine(String),
    /// It is a program for the machine and of neither shape.
    #[error(transparent)]
    Shape(#[from] UnknownShape),
    /// It is not a sound prelinked image.
    #[error(transparent)]
    Ucpl(#[from] UcplError),
    /// It is not a sound archive.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
}

impl InspectError {
    /// The page that `outboard explain` prints.
    #[must_use]
    pub const fn explain(&self) -> &'static str {
        match self {
            Self::Elf(_) => "OB0609",
            Self::OtherMachine(_) => "OB0610",
            Self::Shape(_) => "OB0604",
            Self::Ucpl(_) => "OB0618",
            Self::Archive(_) => "OB0619",
        }
    }
}

/// Whether [`inspect()`] has something to say about a file with these first bytes: an Xtensa ELF file, an archive or a
/// prelinked image.
#[must_use]
pub fn recognises(bytes: &[u8]) -> bool {
    let xtensa = || bytes.starts_with(b"\x7fELF") && bytes.get(18..20) == Some(&machine::XTENSA.to_le_bytes());
    bytes.starts_with(&UCPL_MAGIC) || bytes.starts_with(outboard_elf::archive::MAGIC) || xtensa()
}

/// Inspects a file.
///
/// # Errors
///
/// An [`InspectError`]; a faulty table inside of a recognised file is a [`Note`] instead where the rest can be told.
pub fn inspect(bytes: &[u8]) -> Result<Report, InspectError> {
    if bytes.starts_with(&UCPL_MAGIC) {
        return Ok(Report::Ucpl(UcplReport::of(bytes)?));
    }
    if let Some(archive) = Archive::open(bytes) {
        return Ok(Report::Archive(ArchiveReport::of(archive)?));
    }
    let elf = Elf::parse_with(bytes, Limits { program_headers: 64, ..Limits::DEFAULT })?;
    let header = elf.header();
    if header.machine != machine::XTENSA {
        let name = outboard_elf::em_name(header.machine);
        return Err(InspectError::OtherMachine(
            name.map_or_else(|| format!("machine {}", header.machine), str::to_owned),
        ));
    }
    if header.kind == et::REL {
        return Ok(Report::Object(ObjectReport::of(&elf)?));
    }
    match DeviceShape::of(&elf)? {
        DeviceShape::Pi(shape) => Ok(Report::Pi(PiReport::of(&elf, &shape)?)),
        DeviceShape::Fll(shape) => Ok(Report::Fll(FllReport::of(&elf, &shape)?)),
    }
}

/// The file header.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct HeaderReport {
    /// `e_type`.
    #[cfg_attr(feature = "serde", serde(rename = "type"))]
    pub kind: u16,
    /// Its name.
    pub type_name: String,
    /// `e_machine`.
    pub machine: u16,
    /// `e_entry`.
    pub entry: u64,
    /// `e_flags`.
    pub flags: u32,
    /// `e_phoff`.
    pub phoff: u64,
    /// `e_phnum`.
    pub phnum: u16,
    /// `e_shoff`.
    pub shoff: u64,
    /// `e_shnum`.
    pub shnum: u16,
    /// `e_shstrndx`.
    pub shstrndx: u16,
}

impl HeaderReport {
    fn of(elf: &Elf<'_>) -> Self {
        let header = elf.header();
        let name = outboard_elf::et_name(header.kind);
        Self {
            kind: header.kind,
            type_name: name.map_or_else(|| format!("{:#x}", header.kind), str::to_owned),
            machine: header.machine,
            entry: header.entry,
            flags: header.flags,
            phoff: header.phoff,
            phnum: header.phnum,
            shoff: header.shoff,
            shnum: header.shnum,
            shstrndx: header.shstrndx,
        }
    }
}

/// A program header and where it goes.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct SegmentReport {
    /// Index.
    pub index: usize,
    /// `p_type`.
    #[cfg_attr(feature = "serde", serde(rename = "type"))]
    pub kind: u32,
    /// Its name.
    pub type_name: String,
    /// `p_offset`.
    pub offset: u64,
    /// `p_vaddr`.
    pub vaddr: u64,
    /// `p_paddr`.
    pub paddr: u64,
    /// `p_filesz`.
    pub filesz: u64,
    /// `p_memsz`.
    pub memsz: u64,
    /// `p_flags`.
    pub flags: u32,
    /// `p_align`.
    pub align: u64,
    /// `iram`, `dram`, `host` (never staged) or `window` (fixed address).
    pub region: &'static str,
    /// Bytes behind the file's that are zeroed: `memsz − filesz`.
    pub zeroed: u64,
    /// Names of the sections that lie in it.
    pub sections: Vec<String>,
}

/// A section header.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct SectionReport {
    /// Index.
    pub index: usize,
    /// Name.
    pub name: String,
    /// `sh_type`.
    #[cfg_attr(feature = "serde", serde(rename = "type"))]
    pub kind: u32,
    /// `sh_flags`.
    pub flags: u64,
    /// `sh_addr`.
    pub address: u64,
    /// `sh_offset`.
    pub offset: u64,
    /// `sh_size`.
    pub size: u64,
    /// `sh_addralign`.
    pub align: u64,
    /// `sh_entsize`.
    pub entsize: u64,
}

/// All names together: a sound file is longer than the names in it, a hostile one may use one name a thousand times.
fn names_limit(elf: &Elf<'_>) -> u64 {
    elf.bytes().len().saturating_mul(2).saturating_add(1024)
}

/// `SHF_ALLOC`.
const ALLOC: u64 = 2;

fn sections(elf: &Elf<'_>) -> Result<Vec<SectionReport>, ElfError> {
    let sections = elf.sections()?;
    let mut list = Vec::with_capacity(sections.len());
    let mut names = 0_u64;
    for (index, section) in sections.iter().enumerate() {
        let name = sections.name(&section)?;
        names = names.saturating_add(name.len() as u64);
        if names > names_limit(elf) {
            let what = "the length of all section names";
            return Err(ElfError::Limit { what, value: names, limit: names_limit(elf) });
        }
        list.push(SectionReport {
            index,
            name: String::from_utf8_lossy(name).into_owned(),
            kind: section.kind,
            flags: section.flags,
            address: section.address,
            offset: section.offset,
            size: section.size,
            align: section.align,
            entsize: section.entsize,
        });
    }
    Ok(list)
}

/// The program headers, with the sections inside; `region` names where each goes.
fn segments(elf: &Elf<'_>, sections: &[SectionReport], region: impl Fn(usize) -> &'static str) -> Vec<SegmentReport> {
    let mut budget = names_limit(elf);
    let mut inside = |segment: &outboard_elf::Segment| {
        let lies = |section: &&SectionReport| {
            let start = section.address.checked_sub(segment.vaddr);
            section.flags & ALLOC != 0
                && section.size > 0
                && start.and_then(|start| start.checked_add(section.size)).is_some_and(|end| end <= segment.memsz)
        };
        let affordable = |section: &&SectionReport| {
            budget = budget.saturating_sub(section.name.len() as u64 + 32);
            budget > 0
        };
        sections.iter().filter(lies).take_while(affordable).map(|section| section.name.clone()).collect()
    };
    let name = |kind| outboard_elf::segment_type_name(kind).map_or_else(|| format!("{kind:#x}"), str::to_owned);
    elf.segments()
        .map(|segment| SegmentReport {
            index: segment.index,
            kind: segment.kind,
            type_name: name(segment.kind),
            offset: segment.offset,
            vaddr: segment.vaddr,
            paddr: segment.paddr,
            filesz: segment.filesz,
            memsz: segment.memsz,
            flags: segment.flags,
            align: segment.align,
            region: region(segment.index),
            zeroed: segment.memsz.saturating_sub(segment.filesz),
            sections: inside(&segment),
        })
        .collect()
}

/// The text of `.comment`: who built the file.
fn toolchain(elf: &Elf<'_>) -> Option<String> {
    let sections = elf.sections().ok()?;
    let data = sections.data(&sections.by_name(b".comment")?).ok()?;
    let text = data.split(|byte| *byte == 0).find(|part| !part.is_empty())?;
    Some(String::from_utf8_lossy(text.get(..text.len().min(256))?).into_owned())
}

/// Text that stops growing: a short mangled name can stand for an endless one.
struct Bounded(String);

impl std::fmt::Write for Bounded {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        if self.0.len() + text.len() > 4096 {
            return Err(std::fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

/// The C++ name behind a mangled one, when it is one of reasonable length.
fn demangle(mangled: &str) -> Option<String> {
    let options = cpp_demangle::ParseOptions::default().recursion_limit(64);
    let symbol = cpp_demangle::Symbol::new_with_options(mangled.as_bytes(), &options).ok()?;
    let mut text = Bounded(String::new());
    let options = cpp_demangle::DemangleOptions::default().recursion_limit(64);
    symbol.structured_demangle(&mut text, &options).ok()?;
    Some(text.0)
}

/// Relocations by the name of their type.
fn histogram(numbers: impl Iterator<Item = u32>) -> BTreeMap<String, u64> {
    let mut by_number = BTreeMap::new();
    for number in numbers {
        *by_number.entry(number).or_insert(0_u64) += 1;
    }
    by_number.into_iter().map(|(number, count)| (type_name(number), count)).collect()
}

fn type_name(number: u32) -> String {
    let row = outboard_reloc::xtensa::table().row(number);
    row.map_or_else(|| format!("unknown type {number}"), |row| row.name.to_owned())
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// SHA-256 in hexadecimal.
#[must_use]
pub fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}
