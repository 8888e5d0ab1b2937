//! The file as a whole: header, program headers, and where an address lies in the file.

use crate::bytes::{Bytes, u16_at, u32_at, u64_at};
use crate::{Dynamic, ElfError, Limits, Notes, Pointers, Sections, Segment, machine, pt};

/// 32- or 64-bit layout of the structures (`EI_CLASS`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// ELF32.
    Elf32,
    /// ELF64.
    Elf64,
}

impl Class {
    /// Size of the file header.
    #[must_use]
    pub const fn header_size(self) -> u64 {
        self.pick(52, 64)
    }

    /// Size of a program header.
    #[must_use]
    pub const fn program_header_size(self) -> u64 {
        self.pick(32, 56)
    }

    /// Size of a section header.
    #[must_use]
    pub const fn section_header_size(self) -> u64 {
        self.pick(40, 64)
    }

    /// Size of a dynamic table entry.
    #[must_use]
    pub const fn dynamic_size(self) -> u64 {
        self.pick(8, 16)
    }

    /// Size of a symbol.
    #[must_use]
    pub const fn symbol_size(self) -> u64 {
        self.pick(16, 24)
    }

    /// Size of a relocation with addend.
    #[must_use]
    pub const fn rela_size(self) -> u64 {
        self.pick(12, 24)
    }

    /// Size of an address.
    #[must_use]
    pub const fn word(self) -> u64 {
        self.pick(4, 8)
    }

    pub(crate) const fn pick(self, small: u64, large: u64) -> u64 {
        match self {
            Self::Elf32 => small,
            Self::Elf64 => large,
        }
    }

    /// An address-sized field: `at32` in ELF32, `at64` in ELF64.
    pub(crate) fn address(self, data: &[u8], at32: usize, at64: usize) -> u64 {
        match self {
            Self::Elf32 => u64::from(u32_at(data, at32)),
            Self::Elf64 => u64_at(data, at64),
        }
    }

    /// A 32-bit field at different places.
    pub(crate) fn word32(self, data: &[u8], at32: usize, at64: usize) -> u32 {
        match self {
            Self::Elf32 => u32_at(data, at32),
            Self::Elf64 => u32_at(data, at64),
        }
    }
}

/// The file header, both classes widened to 64 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// 32- or 64-bit.
    pub class: Class,
    /// `EI_OSABI`.
    pub osabi: u8,
    /// `EI_ABIVERSION`.
    pub abi_version: u8,
    /// `e_type`.
    pub kind: u16,
    /// `e_machine`.
    pub machine: u16,
    /// `e_entry`.
    pub entry: u64,
    /// `e_phoff`.
    pub phoff: u64,
    /// `e_shoff`.
    pub shoff: u64,
    /// `e_flags`.
    pub flags: u32,
    /// `e_phnum`.
    pub phnum: u16,
    /// `e_shentsize`.
    pub shentsize: u16,
    /// `e_shnum`.
    pub shnum: u16,
    /// `e_shstrndx`.
    pub shstrndx: u16,
}

/// A parsed ELF file: header checked, program headers inside the file. Nothing else is trusted yet.
#[derive(Debug, Clone, Copy)]
pub struct Elf<'a> {
    bytes: Bytes<'a>,
    header: Header,
    program_headers: &'a [u8],
    limits: Limits,
}

impl<'a> Elf<'a> {
    /// Reads the header and finds the program headers, with [`Limits::DEFAULT`].
    ///
    /// # Errors
    ///
    /// An [`ElfError`] that names the field, its offset and its value.
    pub fn parse(data: &'a [u8]) -> Result<Self, ElfError> {
        Self::parse_with(data, Limits::DEFAULT)
    }

    /// As [`Elf::parse`] with caps of the caller's choice.
    ///
    /// # Errors
    ///
    /// As [`Elf::parse`].
    pub fn parse_with(data: &'a [u8], limits: Limits) -> Result<Self, ElfError> {
        let bytes = Bytes::new(data);
        limit("the size of the file", bytes.len(), limits.file_size)?;
        let header = parse_header(bytes)?;
        limit("the number of program headers (e_phnum)", u64::from(header.phnum), limits.program_headers)?;
        let size = header.class.program_header_size();
        let program_headers = bytes.table("the program header table", header.phoff, u64::from(header.phnum), size)?;
        Ok(Self { bytes, header, program_headers, limits })
    }

    /// The file header.
    #[must_use]
    pub const fn header(&self) -> &Header {
        &self.header
    }

    /// The bytes of the file.
    #[must_use]
    pub const fn bytes(&self) -> Bytes<'a> {
        self.bytes
    }

    /// The caps this file was parsed with.
    #[must_use]
    pub const fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Every program header, in order.
    pub fn segments(&self) -> impl Iterator<Item = Segment> + use<'a> {
        let (class, start) = (self.header.class, self.header.phoff);
        let size = usize::try_from(class.program_header_size()).unwrap_or(usize::MAX);
        self.program_headers
            .chunks_exact(size)
            .enumerate()
            .map(move |(index, raw)| Segment::decode(class, index, start.saturating_add((index * size) as u64), raw))
    }

    /// The `PT_LOAD` headers, in order.
    pub fn load_segments(&self) -> impl Iterator<Item = Segment> + use<'a> {
        self.segments().filter(|segment| segment.kind == pt::LOAD)
    }

    /// The file bytes of a segment.
    ///
    /// # Errors
    ///
    /// [`ElfError::Truncated`] when they do not lie in the file.
    pub fn segment_data(&self, segment: &Segment) -> Result<&'a [u8], ElfError> {
        self.bytes.range("a segment", segment.offset, segment.filesz)
    }

    /// The file offset of `len` bytes at link address `address`, when one `PT_LOAD` holds them all in the file.
    #[must_use]
    pub fn file_offset(&self, address: u64, len: u64) -> Option<u64> {
        self.load_segments().find_map(|segment| {
            let inside = address.checked_sub(segment.vaddr)?;
            let end = inside.checked_add(len)?;
            if end <= segment.filesz { segment.offset.checked_add(inside) } else { None }
        })
    }

    /// The file offset of address `address` and how many file bytes its segment holds from there.
    #[must_use]
    pub fn file_extent(&self, address: u64) -> Option<(u64, u64)> {
        self.load_segments().find_map(|segment| {
            let inside = address.checked_sub(segment.vaddr)?;
            let rest = segment.filesz.checked_sub(inside).filter(|rest| *rest > 0)?;
            Some((segment.offset.checked_add(inside)?, rest))
        })
    }

    /// The dynamic table, `None` for a file without `PT_DYNAMIC`. `pointers` says whether its addresses are link
    /// addresses or, as the C7x linker writes them, file offsets.
    ///
    /// # Errors
    ///
    /// When the table does not lie in the file, has no terminator or too many entries.
    pub fn dynamic(&self, pointers: Pointers) -> Result<Option<Dynamic<'a>>, ElfError> {
        match self.segments().find(|segment| segment.kind == pt::DYNAMIC) {
            None => Ok(None),
            Some(segment) => Dynamic::read(self, &segment, pointers).map(Some),
        }
    }

    /// The section headers; an empty list for a file without them.
    ///
    /// # Errors
    ///
    /// When the table or the table of names does not lie in the file.
    pub fn sections(&self) -> Result<Sections<'a>, ElfError> {
        Sections::read(self)
    }

    /// The notes of every `PT_NOTE` segment.
    #[must_use]
    pub fn notes(&self) -> Notes<'a> {
        Notes::new(*self)
    }
}

fn parse_header(bytes: Bytes<'_>) -> Result<Header, ElfError> {
    let ident = bytes.range("the ELF identification", 0, 4)?;
    if ident != b"\x7fELF" {
        let mut found = [0; 4];
        found.copy_from_slice(ident);
        return Err(ElfError::BadMagic { found });
    }
    let ident = bytes.range("the ELF identification", 0, 16)?;
    let [_, _, _, _, class, data, version, osabi, abi_version, ..] = *ident else {
        return Err(ElfError::Truncated { what: "the ELF identification", offset: 0, len: 16, file_size: bytes.len() });
    };
    let class = match class {
        1 => Class::Elf32,
        2 => Class::Elf64,
        value => return Err(ElfError::BadClass { value, expected: "1 (ELF32) or 2 (ELF64)" }),
    };
    if data != 1 {
        return Err(ElfError::BadEndian { value: data });
    }
    let raw = bytes.range("the file header", 0, class.header_size())?;
    match (class, u16_at(raw, 18)) {
        (Class::Elf32, machine::C7X | machine::X86_64 | machine::AARCH64) => {
            return Err(ElfError::BadClass { value: 1, expected: "2 (ELF64), the class of this machine" });
        }
        (Class::Elf64, machine::XTENSA) => {
            return Err(ElfError::BadClass { value: 2, expected: "1 (ELF32), the class of this machine" });
        }
        _ => {}
    }
    if version != 1 {
        return Err(ElfError::BadVersion { field: "EI_VERSION", offset: 6, value: u32::from(version) });
    }
    if u32_at(raw, 20) != 1 {
        return Err(ElfError::BadVersion { field: "e_version", offset: 20, value: u32_at(raw, 20) });
    }
    let (tail, tail_offset) = match class {
        Class::Elf32 => (40, 40),
        Class::Elf64 => (52, 52_u64),
    };
    let half = |index: usize| u16_at(raw, tail + 2 * index);
    let header = Header {
        class,
        osabi,
        abi_version,
        kind: u16_at(raw, 16),
        machine: u16_at(raw, 18),
        entry: class.address(raw, 24, 24),
        phoff: class.address(raw, 28, 32),
        shoff: class.address(raw, 32, 40),
        flags: class.word32(raw, 36, 48),
        phnum: half(2),
        shentsize: half(3),
        shnum: half(4),
        shstrndx: half(5),
    };
    entry_size("e_ehsize", tail_offset, half(0), class.header_size())?;
    if header.phnum != 0 {
        entry_size("e_phentsize", tail_offset + 2, half(1), class.program_header_size())?;
    }
    Ok(header)
}

fn entry_size(field: &'static str, offset: u64, value: u16, expected: u64) -> Result<(), ElfError> {
    if u64::from(value) == expected {
        return Ok(());
    }
    Err(ElfError::BadEntrySize { field, offset, value: u64::from(value), expected })
}

pub(crate) fn limit(what: &'static str, value: u64, limit: u64) -> Result<(), ElfError> {
    if value <= limit { Ok(()) } else { Err(ElfError::Limit { what, value, limit }) }
}
