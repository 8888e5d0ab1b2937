//! Fixed-load libraries: everything at the addresses of one core's window.

use alloc::string::String;
use alloc::vec::Vec;

use super::{ALLOC, Bss, Chunk, EXECUTE, File, ImageError, ImageSymbol, Program, Section, WRITE, in_order};
use crate::pi::{FLL_BASE, FLL_CORES, FLL_STRIDE};
use crate::{et, pf, pt, sht};

/// Offset of the first byte in the file: behind the headers.
const START: u32 = 0x94;

/// A fixed-load library.
///
/// ```
/// use outboard_elf::image::{Bss, Chunk, FllImage};
/// use outboard_elf::pi::FllShape;
/// use outboard_elf::Elf;
///
/// let text = Chunk { name: ".text".into(), address: 0x8420_0000, align: 32, writable: false, bytes: vec![0; 64] };
/// let image = FllImage {
///     core: 1,
///     single: false,
///     entry: 0x8420_0000,
///     chunks: vec![text],
///     bss: Bss { address: 0x8420_0040, size: 256, align: 64 },
///     comment: String::new(),
///     debug: Vec::new(),
///     symbols: Vec::new(),
/// };
/// let file = image.build()?;
/// assert_eq!(FllShape::of(&Elf::parse(&file).unwrap()).unwrap().core, 1);
/// # Ok::<(), outboard_elf::image::ImageError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FllImage {
    /// The core, 0..=7.
    pub core: u8,
    /// The library is for one core alone: its window is as large as all eight together and more, 32 MiB.
    pub single: bool,
    /// Entry point.
    pub entry: u32,
    /// Everything with bytes, by ascending address; the first one is the code and begins the window.
    pub chunks: Vec<Chunk>,
    /// Zeroed memory behind it.
    pub bss: Bss,
    /// Who built the library; empty for no such section.
    pub comment: String,
    /// Debug information: names of sections (`.debug_*`) and their contents.
    pub debug: Vec<(String, Vec<u8>)>,
    /// Symbols; empty for a stripped library.
    pub symbols: Vec<ImageSymbol>,
}

impl FllImage {
    /// Bytes of the window of a library for one core alone.
    pub const SINGLE: u32 = 0x200_0000;

    /// First address of the window of `core`; `None` for a core that does not exist.
    #[must_use]
    pub fn window(core: u8) -> Option<u32> {
        let core = Some(u64::from(core)).filter(|core| *core < FLL_CORES)?;
        u32::try_from(FLL_BASE + core * FLL_STRIDE).ok()
    }

    /// The bytes of the file.
    ///
    /// # Errors
    ///
    /// An [`ImageError`] when the pieces do not begin the window, overlap or leave it.
    pub fn build(&self) -> Result<Vec<u8>, ImageError> {
        let bad = |name: &str, address, problem| ImageError::Place { name: name.into(), address, problem };
        let base = Self::window(self.core).ok_or(bad("", self.entry, "there is no such core"))?;
        let end = in_order(base, self.chunks.iter())?;
        let bss = self.bss;
        if bss.address < end {
            return Err(bad(".bss", bss.address, "it lies on the data before it"));
        }
        let limit = u64::from(base) + if self.single { u64::from(Self::SINGLE) } else { FLL_STRIDE };
        if u64::from(bss.address) + u64::from(bss.size) > limit {
            return Err(bad(".bss", bss.address, "it leaves the window of its core"));
        }
        let mut file = File::default();
        let at = |address: u32| START + (address - base);
        let mut sections = Vec::from([Section::default()]);
        for (index, chunk) in self.chunks.iter().enumerate() {
            file.put(at(chunk.address), &chunk.bytes)?;
            let section = Section::chunk(chunk, at(chunk.address))?;
            let code = if index == 0 { ALLOC | EXECUTE } else { section.flags };
            sections.push(Section { flags: code, ..section });
        }
        let zeros = Section::progbits(".bss", WRITE | ALLOC, bss.address, at(end), bss.size, bss.align);
        sections.push(Section { kind: sht::NOBITS, ..zeros });
        let mut next = at(end);
        if !self.comment.is_empty() {
            file.put(next, self.comment.as_bytes())?;
            let comment = Section::comment(next, &self.comment)?;
            next += comment.size;
            sections.push(comment);
        }
        next = file.debug(&self.debug, &mut sections, next)?;
        next = file.symbols(&self.symbols, &mut sections, next)?;
        let load = |offset, address, filesz, memsz, flags| Program {
            kind: pt::LOAD,
            offset,
            address,
            filesz,
            memsz,
            flags,
            align: 64,
        };
        let programs = [
            Program { kind: pt::NULL, align: 0, ..load(0, 0, 0, 0, 0) },
            load(START, base, end - base, end - base, pf::R | pf::W | pf::X),
            load(0, bss.address, 0, bss.size, pf::R | pf::W),
        ];
        file.finish((et::EXEC, self.entry), &programs, sections, next, None)
    }
}
