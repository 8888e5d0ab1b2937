//! A host library that carries device images: its symbols, its getters, and where their bytes lie in the file.
//!
//! A getter is a function of a few instructions that stores the address and the length of an image through two pointers.
//! The address is taken from its code: sections lie at other file offsets than addresses, so each step goes through the
//! program headers.

use std::collections::BTreeMap;

use outboard_elf::{Elf, RelaTable, StringTable, Symbol, SymbolTable, machine, sht};

/// The part of a getter's name behind the image's.
const SO_GET: &str = "_SO_get";
const JSON_GET: &str = "_JSON_get";
const DATA: &str = ".data";
/// Images and tables that are kept.
const SYMBOLS: usize = 65_536;
/// Longest symbol name that is looked at.
const NAME: u64 = 128;

/// A symbol of interest: value and size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub address: u64,
    pub size: u64,
}

/// What the symbols say about one image.
#[derive(Debug, Clone, Default)]
pub(crate) struct Named {
    /// Address of the getter.
    pub getter: Option<Place>,
    /// The bytes.
    pub data: Option<Place>,
    /// Address of the manifest's getter.
    pub json_getter: Option<Place>,
    /// The manifest's bytes.
    pub json: Option<Place>,
}

/// A host library.
pub(crate) struct Host<'a> {
    elf: Elf<'a>,
    /// By the name of the image, such as `CAYMAN_Q7_POOL_PERF_EXTISA_0`.
    pub images: BTreeMap<String, Named>,
    /// Tables of getters by name, such as `cayman_libs`.
    pub tables: BTreeMap<String, Place>,
}

impl<'a> Host<'a> {
    /// Reads the symbols; `None` when the bytes are no host library.
    pub fn open(bytes: &'a [u8]) -> Option<Self> {
        let elf = Elf::parse(bytes).ok()?;
        if elf.header().machine == machine::XTENSA {
            return None;
        }
        let mut host = Self { elf, images: BTreeMap::new(), tables: BTreeMap::new() };
        let sections = elf.sections().ok()?;
        for section in sections.iter().filter(|s| s.kind == sht::SYMTAB || s.kind == sht::DYNSYM) {
            let names = sections.get(usize::try_from(section.link).ok()?);
            let names = names.and_then(|names| sections.data(&names).ok());
            let names = names.and_then(|data| StringTable::new("the symbol names", data).ok());
            let (Some(names), Ok(data)) = (names, sections.data(&section)) else { continue };
            for symbol in SymbolTable::new(elf.header().class, data).iter() {
                if let Ok(name) = names.get("a symbol name", u64::from(symbol.name), NAME) {
                    host.note(name, &symbol);
                }
            }
        }
        Some(host)
    }

    fn note(&mut self, name: &[u8], symbol: &Symbol) {
        let interesting = name.ends_with(b"_get") || name.ends_with(b"_get.data") || name.ends_with(b"_libs");
        let Some(name) = interesting.then(|| std::str::from_utf8(name).ok()).flatten() else { return };
        let place = symbol.defined().then_some(Place { address: symbol.value, size: symbol.size });
        if name.ends_with("_libs") {
            if let Some(place) = place.filter(|_| self.tables.len() < SYMBOLS) {
                self.tables.insert(name.to_owned(), place);
            }
            return;
        }
        let (function, is_data) = name.strip_suffix(DATA).map_or((name, false), |function| (function, true));
        let (image, is_json) = match (function.strip_suffix(SO_GET), function.strip_suffix(JSON_GET)) {
            (Some(image), _) => (image, false),
            (_, Some(image)) => (image, true),
            _ => return,
        };
        if self.images.len() >= SYMBOLS && !self.images.contains_key(image) {
            return;
        }
        let named = self.images.entry(image.to_owned()).or_default();
        let slot = match (is_json, is_data) {
            (false, false) => &mut named.getter,
            (false, true) => &mut named.data,
            (true, false) => &mut named.json_getter,
            (true, true) => &mut named.json,
        };
        *slot = slot.or(place);
    }

    /// The file offset of an address.
    pub fn offset(&self, address: u64, len: u64) -> Option<u64> {
        self.elf.file_offset(address, len)
    }

    /// The address that the getter at `address` returns: the first `lea register, [rip + distance]` of its code.
    pub fn returned(&self, address: u64) -> Option<u64> {
        const LOOKED_AT: u64 = 32;
        if self.elf.header().machine != machine::X86_64 {
            return None;
        }
        let (offset, rest) = self.elf.file_extent(address)?;
        let code = self.elf.bytes().range("a getter", offset, rest.min(LOOKED_AT)).ok()?;
        let found = code.windows(7).enumerate().find_map(|(at, code)| match *code {
            [0x48 | 0x4c, 0x8d, operand, a, b, c, d] if operand & 0xc7 == 0x05 => {
                Some((at, i32::from_le_bytes([a, b, c, d])))
            }
            _ => None,
        });
        let (at, distance) = found?;
        address.checked_add(at as u64 + 7)?.checked_add_signed(i64::from(distance))
    }

    /// Where the bytes behind a getter lie in the file, by the symbol of the bytes or by the getter's code.
    pub fn bytes_of(&self, data: Option<Place>, getter: Option<Place>) -> Option<(u64, Option<u64>)> {
        if let Some(offset) = data.and_then(|data| self.offset(data.address, data.size)) {
            return Some((offset, data.map(|data| data.size)));
        }
        let target = self.returned(getter?.address)?;
        Some((self.offset(target, 1)?, None))
    }

    /// The pointers of a table of getters, as the loader of the host would leave them.
    pub fn pointers(&self, table: Place) -> Option<Vec<u64>> {
        const RELATIVE: u32 = 8;
        const ABSOLUTE: u32 = 1;
        const GLOB_DAT: u32 = 6;
        const POINTERS: u64 = 64;
        let count = (table.size / 8).min(POINTERS);
        let offset = self.offset(table.address, count * 8)?;
        let stored = self.elf.bytes().range("a table of getters", offset, count * 8).ok()?;
        let mut pointers: Vec<u64> = stored.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let sections = self.elf.sections().ok()?;
        for section in sections.iter().filter(|section| section.kind == sht::RELA) {
            let Ok(data) = sections.data(&section) else { continue };
            for rela in RelaTable::new(self.elf.header().class, data).iter() {
                let index = rela.offset.checked_sub(table.address).filter(|inside| inside % 8 == 0).map(|i| i / 8);
                let place = index.and_then(|index| usize::try_from(index).ok()).and_then(|i| pointers.get_mut(i));
                let Some(place) = place else { continue };
                match rela.kind {
                    RELATIVE => *place = rela.addend.cast_unsigned(),
                    ABSOLUTE | GLOB_DAT => {
                        *place = self.symbol_value(&sections, section.link, rela.symbol).unwrap_or(0)
                    }
                    _ => {}
                }
            }
        }
        Some(pointers)
    }

    fn symbol_value(&self, sections: &outboard_elf::Sections<'_>, table: u32, index: u32) -> Option<u64> {
        let section = sections.get(usize::try_from(table).ok()?)?;
        let symbols = SymbolTable::new(self.elf.header().class, sections.data(&section).ok()?);
        let symbol = symbols.get(usize::try_from(index).ok()?)?;
        symbol.defined().then_some(symbol.value)
    }
}

/// Generation, flavor and library of an image's name; `None` for a name of another form.
pub(crate) fn name_parts(name: &str) -> Option<(&str, &str, u32)> {
    let (generation, rest) = name.split_once("_Q7_POOL_")?;
    let (flavor, library) = rest.split_once("_EXTISA_")?;
    Some((generation, flavor, library.parse().ok()?))
}
