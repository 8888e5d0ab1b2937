//! Writes device images whose every address is given: PI images and fixed-load libraries.
//!
//! Unlike [`crate::write`], nothing is placed here: a linker (or the author of a test) has decided where everything goes, and
//! the file says exactly that. What contradicts itself is an [`ImageError`].

mod fll;
mod pi;

use alloc::string::String;
use alloc::vec::Vec;

pub use fll::FllImage;
pub use pi::{PiImage, Property};

use crate::{machine, sht};

/// A piece of memory with bytes in the file: one section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// Name of the section.
    pub name: String,
    /// Link address.
    pub address: u32,
    /// Alignment of the section.
    pub align: u32,
    /// The program may write it.
    pub writable: bool,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// Zeroed memory behind the bytes of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Bss {
    /// Link address.
    pub address: u32,
    /// Bytes.
    pub size: u32,
    /// Alignment of the section.
    pub align: u32,
}

/// A symbol of the file. Loaders look at none; faults and traces name functions by them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageSymbol {
    /// Its name.
    pub name: String,
    /// Its link address.
    pub value: u32,
    /// Bytes.
    pub size: u32,
    /// Type (`stt`).
    pub kind: u8,
    /// Visible to all files.
    pub global: bool,
}

/// Why an image cannot be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ImageError {
    /// A piece lies outside of its segment or on another piece.
    #[error("section {name} at {address:#x}: {problem}")]
    Place {
        /// Its name.
        name: String,
        /// Its link address.
        address: u32,
        /// What is wrong.
        problem: &'static str,
    },
    /// The file does not fit into the size that was asked for, or into 32-bit offsets.
    #[error("the image needs {need:#x} bytes, above the limit of {limit:#x}")]
    TooLarge {
        /// Bytes needed.
        need: u64,
        /// The limit.
        limit: u64,
    },
}

const WRITE: u32 = 1;
const ALLOC: u32 = 2;
const EXECUTE: u32 = 4;
/// `e_flags` of every known device image.
const FLAGS: u32 = 0x300;
const HEADER: u32 = 52;
const PROGRAM_HEADER: u32 = 32;
const SECTION_HEADER: u32 = 40;

fn too_large(need: u64) -> ImageError {
    ImageError::TooLarge { need, limit: u64::from(u32::MAX) }
}

fn size_of(bytes: &[u8]) -> Result<u32, ImageError> {
    u32::try_from(bytes.len()).map_err(|_| too_large(bytes.len() as u64))
}

/// A program header.
#[derive(Clone, Copy)]
struct Program {
    kind: u32,
    offset: u32,
    address: u32,
    filesz: u32,
    memsz: u32,
    flags: u32,
    align: u32,
}

/// A section header.
#[derive(Clone, Default)]
struct Section {
    name: String,
    kind: u32,
    flags: u32,
    address: u32,
    offset: u32,
    size: u32,
    align: u32,
    entsize: u32,
    link: u32,
    info: u32,
}

impl Section {
    fn progbits(name: &str, flags: u32, address: u32, offset: u32, size: u32, align: u32) -> Self {
        Self { name: name.into(), kind: sht::PROGBITS, flags, address, offset, size, align, ..Self::default() }
    }

    fn chunk(chunk: &Chunk, offset: u32) -> Result<Self, ImageError> {
        let flags = if chunk.writable { WRITE | ALLOC } else { ALLOC };
        Ok(Self::progbits(&chunk.name, flags, chunk.address, offset, size_of(&chunk.bytes)?, chunk.align))
    }

    fn comment(offset: u32, text: &str) -> Result<Self, ImageError> {
        const MERGE_STRINGS: u32 = 0x30;
        let size = size_of(text.as_bytes())?.saturating_add(1);
        Ok(Self { entsize: 1, ..Self::progbits(".comment", MERGE_STRINGS, 0, offset, size, 1) })
    }
}

/// Bytes of the file, written in any order.
#[derive(Default)]
struct File {
    bytes: Vec<u8>,
}

impl File {
    fn put(&mut self, offset: u32, bytes: &[u8]) -> Result<(), ImageError> {
        let end = u64::from(offset) + bytes.len() as u64;
        let start = usize::try_from(offset).map_err(|_| too_large(end))?;
        let last = usize::try_from(end).map_err(|_| too_large(end))?;
        if self.bytes.len() < last {
            self.bytes.resize(last, 0);
        }
        if let Some(place) = self.bytes.get_mut(start..last) {
            place.copy_from_slice(bytes);
        }
        Ok(())
    }

    fn words(&mut self, offset: u32, words: &[u32]) -> Result<(), ImageError> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.put(offset, &bytes)
    }

    /// Writes sections of debug information behind `next`; returns the offset behind them.
    fn debug(
        &mut self,
        debug: &[(String, Vec<u8>)],
        sections: &mut Vec<Section>,
        mut next: u32,
    ) -> Result<u32, ImageError> {
        for (name, bytes) in debug {
            let size = size_of(bytes)?;
            self.put(next, bytes)?;
            sections.push(Section::progbits(name, 0, 0, next, size, 1));
            next = next.checked_add(size).ok_or_else(|| too_large(next.into()))?;
        }
        Ok(next)
    }

    /// Writes a symbol table and its names behind `next`, if there are symbols; returns the offset behind them. Symbols are
    /// numbers (`SHN_ABS`): their addresses are final.
    fn symbols(&mut self, symbols: &[ImageSymbol], sections: &mut Vec<Section>, next: u32) -> Result<u32, ImageError> {
        if symbols.is_empty() {
            return Ok(next);
        }
        const ABSOLUTE: u32 = 0xfff1;
        const ENTRY: u32 = 16;
        let (local, global): (Vec<_>, Vec<_>) = symbols.iter().partition(|symbol| !symbol.global);
        let mut strings = Vec::from([0]);
        let mut table = Vec::from([[0; 4]]);
        for symbol in local.iter().chain(&global) {
            let info = u32::from(symbol.global) << 4 | u32::from(symbol.kind & 0xf);
            table.push([size_of(&strings)?, symbol.value, symbol.size, info | ABSOLUTE << 16]);
            strings.extend(symbol.name.bytes().filter(|byte| *byte != 0).chain([0]));
        }
        let start = next.checked_next_multiple_of(4).ok_or_else(|| too_large(next.into()))?;
        let entries = u64::from(ENTRY) * table.len() as u64;
        let size = u32::try_from(entries).map_err(|_| too_large(entries))?;
        self.words(start, table.as_flattened())?;
        let names = start.checked_add(size).ok_or_else(|| too_large(start.into()))?;
        self.put(names, &strings)?;
        let index = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
        let symtab = Section::progbits(".symtab", 0, 0, start, size, 4);
        let (link, info) = (index(sections.len() + 1), index(local.len() + 1));
        sections.push(Section { kind: sht::SYMTAB, entsize: ENTRY, link, info, ..symtab });
        let strtab = Section::progbits(".strtab", 0, 0, names, size_of(&strings)?, 1);
        sections.push(Section { kind: sht::STRTAB, ..strtab });
        names.checked_add(size_of(&strings)?).ok_or_else(|| too_large(names.into()))
    }

    /// Writes the headers, the names at `names` and the section headers behind them or, for a file of a given size, at its
    /// end.
    fn finish(
        mut self,
        (kind, entry): (u16, u32),
        programs: &[Program],
        mut sections: Vec<Section>,
        names: u32,
        size: Option<u32>,
    ) -> Result<Vec<u8>, ImageError> {
        sections.push(Section { kind: sht::STRTAB, ..Section::progbits(".shstrtab", 0, 0, names, 0, 1) });
        let (table, offsets) = name_table(&sections);
        if let Some(last) = sections.last_mut() {
            last.size = size_of(&table)?;
        }
        let count = u32::try_from(sections.len()).unwrap_or(u32::MAX);
        let headers = u64::from(count) * u64::from(SECTION_HEADER);
        let behind = (u64::from(names) + table.len() as u64).next_multiple_of(4);
        let total = size.map_or(behind + headers, u64::from);
        let limit = u64::from(size.unwrap_or(u32::MAX));
        if behind + headers > limit || count > 0xfeff {
            return Err(ImageError::TooLarge { need: behind + headers, limit });
        }
        let shoff = u32::try_from(total - headers).map_err(|_| too_large(total))?;
        self.put(names, &table)?;
        self.put(0, b"\x7fELF\x01\x01\x01")?;
        let half = |value: u32| u16::try_from(value).unwrap_or(u16::MAX);
        let halves = |values: &[u16]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
        self.put(16, &halves(&[kind, machine::XTENSA]))?;
        self.words(20, &[1, entry, HEADER, shoff, FLAGS])?;
        let programs_count = u16::try_from(programs.len()).unwrap_or(u16::MAX);
        let sizes =
            [half(HEADER), half(PROGRAM_HEADER), programs_count, half(SECTION_HEADER), half(count), half(count - 1)];
        self.put(40, &halves(&sizes))?;
        for (program, at) in programs.iter().zip((HEADER..).step_by(32)) {
            let Program { kind, offset, address, filesz, memsz, flags, align } = *program;
            self.words(at, &[kind, offset, address, address, filesz, memsz, flags, align])?;
        }
        for ((section, name), at) in sections.iter().zip(offsets).zip((shoff..).step_by(40)) {
            let Section { kind, flags, address, offset, size, align, entsize, link, info, .. } = *section;
            self.words(at, &[name, kind, flags, address, offset, size, link, info, align, entsize])?;
        }
        Ok(self.bytes)
    }
}

/// The table of names, in which a name may be the end of another, and the offset of each section's name.
fn name_table(sections: &[Section]) -> (Vec<u8>, Vec<u32>) {
    let mut table = Vec::from([0]);
    let ends_another = |index: usize, name: &str| {
        sections.iter().enumerate().find(|(other, section)| {
            let longer = section.name.len() > name.len() || (section.name == name && *other < index);
            longer && section.name.ends_with(name)
        })
    };
    let mut offsets = alloc::vec![0; sections.len()];
    for (index, section) in sections.iter().enumerate() {
        if section.name.is_empty() || ends_another(index, &section.name).is_some() {
            continue;
        }
        if let Some(place) = offsets.get_mut(index) {
            *place = u32::try_from(table.len()).unwrap_or(0);
        }
        table.extend(section.name.bytes().chain([0]));
    }
    // A name that ends another is found there; the other may itself end a third.
    for (index, section) in sections.iter().enumerate() {
        let needle: Vec<u8> = section.name.bytes().chain([0]).collect();
        if section.name.is_empty() || offsets.get(index).is_some_and(|offset| *offset != 0) {
            continue;
        }
        let found = table.windows(needle.len()).position(|window| window == needle);
        if let (Some(place), Some(found)) = (offsets.get_mut(index), found) {
            *place = u32::try_from(found).unwrap_or(0);
        }
    }
    (table, offsets)
}

/// Checks that pieces are in order and do not overlap, and returns the address behind the last.
fn in_order<'a>(start: u32, chunks: impl Iterator<Item = &'a Chunk>) -> Result<u32, ImageError> {
    let mut end = start;
    for chunk in chunks {
        let bad = |problem| ImageError::Place { name: chunk.name.clone(), address: chunk.address, problem };
        if chunk.address < end {
            return Err(bad("it lies before the segment or on the piece before it"));
        }
        if !chunk.align.is_power_of_two() || !chunk.address.is_multiple_of(chunk.align) {
            return Err(bad("its address is no multiple of its alignment"));
        }
        end = chunk.address.checked_add(size_of(&chunk.bytes)?).ok_or_else(|| bad("it wraps around"))?;
    }
    Ok(end)
}
