//! Section headers. Loading needs none; they tell which segment a symbol belongs to and where extra data lies.

use crate::elf::limit;
use crate::{Class, Elf, ElfError, StringTable, sht};

/// One section header, both classes widened to 64 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Section {
    /// Offset of the name.
    pub name: u32,
    /// `sh_type`.
    pub kind: u32,
    /// `sh_flags`.
    pub flags: u64,
    /// `sh_addr`.
    pub address: u64,
    /// `sh_offset`.
    pub offset: u64,
    /// `sh_size`.
    pub size: u64,
    /// `sh_link`.
    pub link: u32,
    /// `sh_info`.
    pub info: u32,
    /// `sh_addralign`.
    pub align: u64,
    /// `sh_entsize`.
    pub entsize: u64,
}

/// The section headers of a file, and their names.
#[derive(Debug, Clone, Copy)]
pub struct Sections<'a> {
    elf: Elf<'a>,
    raw: &'a [u8],
    names: Option<StringTable<'a>>,
}

impl<'a> Sections<'a> {
    pub(crate) fn read(elf: &Elf<'a>) -> Result<Self, ElfError> {
        let header = elf.header();
        if header.shnum == 0 {
            return Ok(Self { elf: *elf, raw: &[], names: None });
        }
        let size = header.class.section_header_size();
        if u64::from(header.shentsize) != size {
            let offset = header.class.pick(46, 58);
            let value = u64::from(header.shentsize);
            return Err(ElfError::BadEntrySize { field: "e_shentsize", offset, value, expected: size });
        }
        limit("the number of section headers (e_shnum)", u64::from(header.shnum), elf.limits().sections)?;
        let raw = elf.bytes().table("the section header table", header.shoff, u64::from(header.shnum), size)?;
        let mut sections = Self { elf: *elf, raw, names: None };
        if let Some(section) = sections.get(usize::from(header.shstrndx)).filter(|s| s.kind == sht::STRTAB) {
            let data = elf.bytes().range("the section name table", section.offset, section.size)?;
            sections.names = Some(StringTable::new("the section name table", data)?);
        }
        Ok(sections)
    }

    /// Number of sections.
    #[must_use]
    pub fn len(&self) -> usize {
        self.raw.len() / self.stride()
    }

    /// True for a file without section headers.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.raw.is_empty()
    }

    /// The section with index `index`.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<Section> {
        let start = index.checked_mul(self.stride())?;
        let raw = self.raw.get(start..start.checked_add(self.stride())?)?;
        Some(decode(self.elf.header().class, raw))
    }

    /// All sections in order.
    pub fn iter(&self) -> impl Iterator<Item = Section> + use<'a> {
        let class = self.elf.header().class;
        self.raw.chunks_exact(self.stride()).map(move |raw| decode(class, raw))
    }

    /// The name of a section; empty when the file names none.
    ///
    /// # Errors
    ///
    /// [`ElfError::BadString`] when the offset lies outside of the table.
    pub fn name(&self, section: &Section) -> Result<&'a [u8], ElfError> {
        match &self.names {
            None => Ok(&[]),
            Some(names) => names.get("a section name", u64::from(section.name), self.elf.limits().name),
        }
    }

    /// The first section with this name.
    #[must_use]
    pub fn by_name(&self, name: &[u8]) -> Option<Section> {
        let names = self.names?;
        self.iter().find(|section| names.matches(u64::from(section.name), name))
    }

    /// The bytes of a section; empty for `SHT_NOBITS`.
    ///
    /// # Errors
    ///
    /// [`ElfError::Truncated`] when they do not lie in the file.
    pub fn data(&self, section: &Section) -> Result<&'a [u8], ElfError> {
        if section.kind == sht::NOBITS {
            return Ok(&[]);
        }
        self.elf.bytes().range("a section", section.offset, section.size)
    }

    fn stride(&self) -> usize {
        usize::try_from(self.elf.header().class.section_header_size()).unwrap_or(usize::MAX)
    }
}

fn decode(class: Class, raw: &[u8]) -> Section {
    Section {
        name: class.word32(raw, 0, 0),
        kind: class.word32(raw, 4, 4),
        flags: class.address(raw, 8, 8),
        address: class.address(raw, 12, 16),
        offset: class.address(raw, 16, 24),
        size: class.address(raw, 20, 32),
        link: class.word32(raw, 24, 40),
        info: class.word32(raw, 28, 44),
        align: class.address(raw, 32, 48),
        entsize: class.address(raw, 36, 56),
    }
}
