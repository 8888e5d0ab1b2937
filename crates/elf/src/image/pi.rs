//! PI images: text, data, and the tables that only the host reads.

use alloc::string::String;
use alloc::vec::Vec;

use super::{
    ALLOC, Bss, Chunk, EXECUTE, File, HEADER, ImageError, ImageSymbol, PROGRAM_HEADER, Program, Section, WRITE,
    in_order, size_of,
};
use crate::pi::{DT_XTENSA_GOT_LOC_OFF, DT_XTENSA_GOT_LOC_SZ};
use crate::{dt, pf, pt, sht};

/// Link address of the segment that only the host reads.
const SCRATCH: u32 = 0x0300_0000;
/// Alignment of the segments.
const ALIGN: u32 = 0x80;
/// Offset of the text in the file.
const TEXT: u32 = 0x100;
/// The tables of that segment, in bytes from its start: hash, symbols, strings, relocations.
const HASH: u32 = 0xa4;
const SYMBOLS: u32 = 0xb4;
const STRINGS: u32 = 0xc4;
const RELA: u32 = 0xc8;

/// The property section of a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Property {
    /// Mangled name.
    pub name: String,
    /// Link address.
    pub address: u32,
    /// Bytes of code.
    pub size: u32,
}

/// A PI image.
///
/// ```
/// use outboard_elf::image::{Bss, Chunk, PiImage};
/// use outboard_elf::pi::{KernelRow, KernelTable, PiShape};
/// use outboard_elf::Elf;
///
/// let chunk = |name: &str, address, writable, bytes| Chunk { name: name.into(), address, align: 8, writable, bytes };
/// let image = PiImage {
///     entry: 0x0100_0000,
///     init: 0x0100_0000,
///     fini: 0x0100_0000,
///     text: chunk(".text", 0x0100_0000, false, vec![0x36, 0x41, 0x00, 0x1d, 0xf0]),
///     data: vec![chunk("kernel_info_table", 0x0200_0000, true, KernelRow::encode(0, 0x7e, 0x0100_0000).to_vec())],
///     bss: Bss { address: 0x0200_0008, size: 16, align: 4 },
///     relocations: vec![[0x0200_0004, 5, 0]],
///     ..PiImage::default()
/// };
/// let file = image.build()?;
/// let elf = Elf::parse(&file).unwrap();
/// assert!(PiShape::of(&elf).unwrap().scratch.is_some());
/// assert_eq!(KernelTable::find(&elf).unwrap().unwrap().rows().len(), 1);
/// # Ok::<(), outboard_elf::image::ImageError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PiImage {
    /// `e_type`: 2 executable, 3 shared object.
    pub kind: u16,
    /// Entry point.
    pub entry: u32,
    /// Initialisation function.
    pub init: u32,
    /// Termination function.
    pub fini: u32,
    /// The text.
    pub text: Chunk,
    /// The data, by ascending address.
    pub data: Vec<Chunk>,
    /// Zeroed memory behind the data.
    pub bss: Bss,
    /// Relocations: place, type, addend.
    pub relocations: Vec<[u32; 3]>,
    /// Who built the image; empty for no such section.
    pub comment: String,
    /// Debug information: names of sections (`.debug_*`) and their contents.
    pub debug: Vec<(String, Vec<u8>)>,
    /// Functions that tools should know by name.
    pub properties: Vec<Property>,
    /// Symbols; empty for a stripped image.
    pub symbols: Vec<ImageSymbol>,
    /// Names of further sections, all empty.
    pub empty_sections: Vec<String>,
    /// Bytes of the file; `None` for as many as are needed.
    pub size: Option<u32>,
}

impl Default for PiImage {
    fn default() -> Self {
        let text = Chunk { name: ".text".into(), address: 0x0100_0000, align: 32, writable: false, bytes: Vec::new() };
        Self {
            kind: crate::et::EXEC,
            entry: 0,
            init: 0,
            fini: 0,
            text,
            data: Vec::new(),
            bss: Bss { address: 0x0200_0000, size: 0, align: 4 },
            relocations: Vec::new(),
            comment: String::new(),
            debug: Vec::new(),
            properties: Vec::new(),
            symbols: Vec::new(),
            empty_sections: Vec::new(),
            size: None,
        }
    }
}

/// Where the parts lie in the file.
struct Layout {
    text_size: u32,
    data: u32,
    data_start: u32,
    data_size: u32,
    scratch: u32,
    rela_size: u32,
}

impl PiImage {
    /// The bytes of the file.
    ///
    /// # Errors
    ///
    /// An [`ImageError`] when pieces overlap or do not fit.
    pub fn build(&self) -> Result<Vec<u8>, ImageError> {
        const { assert!(HEADER + 4 * PROGRAM_HEADER <= TEXT, "the headers lie before the text") };
        let layout = self.layout()?;
        let mut file = File::default();
        file.put(TEXT, &self.text.bytes)?;
        for chunk in &self.data {
            file.put(layout.data + (chunk.address - layout.data_start), &chunk.bytes)?;
        }
        self.tables(&mut file, &layout)?;
        let (sections, names) = self.sections(&mut file, &layout)?;
        file.finish((self.kind, self.entry), &self.programs(&layout), sections, names, self.size)
    }

    fn layout(&self) -> Result<Layout, ImageError> {
        let text_size = size_of(&self.text.bytes)?;
        in_order(self.text.address, core::iter::once(&self.text))?;
        let data_start = self.data.first().map_or(self.bss.address, |chunk| chunk.address);
        let end = in_order(data_start, self.data.iter())?;
        let misplaced = |problem| ImageError::Place { name: ".bss".into(), address: self.bss.address, problem };
        let data_size = self.bss.address.checked_sub(data_start).filter(|_| self.bss.address >= end);
        let data_size = data_size.ok_or(misplaced("it lies on the data before it"))?;
        data_size.checked_add(self.bss.size).ok_or(misplaced("it wraps around"))?;
        let large = |need: u64| ImageError::TooLarge { need, limit: u64::from(u32::MAX) };
        let text_end = u64::from(TEXT) + u64::from(text_size);
        // The first offset behind the text that is congruent to the address.
        let inside = u64::from(data_start % ALIGN);
        let data = text_end.saturating_sub(inside).next_multiple_of(u64::from(ALIGN)) + inside;
        let scratch = (data + u64::from(data_size)).next_multiple_of(u64::from(ALIGN));
        let rela = 12 * self.relocations.len() as u64;
        let total = scratch + u64::from(RELA) + rela;
        if total > u64::from(u32::MAX >> 1) {
            return Err(large(total));
        }
        let narrow = |value: u64| u32::try_from(value).map_err(|_| large(value));
        Ok(Layout {
            text_size,
            data: narrow(data)?,
            data_start,
            data_size,
            scratch: narrow(scratch)?,
            rela_size: narrow(rela)?,
        })
    }

    fn programs(&self, layout: &Layout) -> [Program; 4] {
        let load = |offset, address, filesz, memsz, flags| Program {
            kind: pt::LOAD,
            offset,
            address,
            filesz,
            memsz,
            flags,
            align: ALIGN,
        };
        let host = RELA + layout.rela_size;
        let all = pf::R | pf::W | pf::X;
        [
            load(TEXT, self.text.address, layout.text_size, layout.text_size, pf::R | pf::X),
            load(layout.data, layout.data_start, layout.data_size, layout.data_size + self.bss.size, all),
            load(layout.scratch, SCRATCH, host, host, pf::W | pf::X),
            Program {
                kind: pt::DYNAMIC,
                align: 4,
                flags: pf::R | pf::W,
                ..load(layout.scratch, SCRATCH, HASH, HASH, 0)
            },
        ]
    }

    /// The dynamic table, an empty hash table, symbol table and string table, and the relocations.
    fn tables(&self, file: &mut File, layout: &Layout) -> Result<(), ImageError> {
        let end = SCRATCH + RELA + layout.rela_size;
        let entries = [
            (dt::RELA, SCRATCH + RELA),
            (dt::RELASZ, layout.rela_size),
            (dt::RELAENT, 12),
            (dt::PLTGOT, end),
            (dt::HASH, SCRATCH + HASH),
            (dt::SYMTAB, SCRATCH + SYMBOLS),
            (dt::STRTAB, SCRATCH + STRINGS),
            (dt::STRSZ, 1),
            (dt::SYMENT, 16),
            (dt::INIT, self.init),
            (dt::FINI, self.fini),
            (dt::DEBUG, 0),
            (DT_XTENSA_GOT_LOC_OFF, end + 4),
            (DT_XTENSA_GOT_LOC_SZ, 0),
            (dt::NULL, 0),
        ];
        let words: Vec<u32> =
            entries.iter().flat_map(|(tag, value)| [u32::try_from(*tag).unwrap_or(0), *value]).collect();
        file.words(layout.scratch, &words)?;
        file.words(layout.scratch + HASH, &[1, 1, 0, 0])?;
        file.words(layout.scratch + RELA, self.relocations.as_flattened())?;
        file.put(layout.scratch + STRINGS, &[0; 4])
    }

    /// The section headers but the last, and where their names go.
    fn sections(&self, file: &mut File, layout: &Layout) -> Result<(Vec<Section>, u32), ImageError> {
        let text = Section::chunk(&self.text, TEXT)?;
        let mut list = Vec::from([Section::default(), Section { flags: ALLOC | EXECUTE, ..text }]);
        for chunk in &self.data {
            list.push(Section::chunk(chunk, layout.data + (chunk.address - layout.data_start))?);
        }
        let Bss { address, size, align } = self.bss;
        let bss = Section::progbits(".bss", WRITE | ALLOC, address, layout.data + layout.data_size, size, align);
        list.push(Section { kind: sht::NOBITS, ..bss });
        let mut next = layout.scratch + RELA + layout.rela_size;
        if !self.comment.is_empty() {
            file.put(next, self.comment.as_bytes())?;
            let comment = Section::comment(next, &self.comment)?;
            next = (next + comment.size).next_multiple_of(4);
            list.push(comment);
        }
        for property in &self.properties {
            file.words(next, &[property.address, property.size, PROPERTY_FLAGS])?;
            list.push(Section::progbits(&alloc::format!(".xt.prop.{}", property.name), 0, 0, next, 12, 1));
            next += 12;
        }
        list.extend(self.empty_sections.iter().map(|name| Section::progbits(name, 0, 0, next, 0, 1)));
        let dynamic = Section::progbits(".dynamic", WRITE | ALLOC, SCRATCH, layout.scratch, HASH, 4);
        list.push(Section { kind: sht::DYNAMIC, entsize: 8, ..dynamic });
        let at = layout.scratch + RELA;
        let rela = Section::progbits(".rela.got", ALLOC, SCRATCH + RELA, at, layout.rela_size, 4);
        list.push(Section { kind: sht::RELA, entsize: 12, ..rela });
        next = file.debug(&self.debug, &mut list, next)?;
        next = file.symbols(&self.symbols, &mut list, next)?;
        Ok((list, next))
    }
}

/// Flags of a property: instructions that may not be moved or transformed.
const PROPERTY_FLAGS: u32 = 0x2a;
