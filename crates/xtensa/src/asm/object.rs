//! Sections, relocations, and the relocatable ELF file made of them.

use super::{Definition, Symbol, expression};

/// `R_XTENSA_32`
pub(super) const WORD: u32 = 1;
/// `R_XTENSA_SLOT0_OP`
pub(super) const SLOT0_OP: u32 = 20;
/// `R_XTENSA_SLOT0_ALT`
pub(super) const SLOT0_ALT: u32 = 35;

/// What a section holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SectionKind {
    Code,
    Data,
    ReadOnly,
    Zero,
    /// Not loaded.
    Note,
}

impl SectionKind {
    /// The kind that a section's name implies.
    pub fn of(name: &str) -> Self {
        let is = |stem: &str| name == stem || name.strip_prefix(stem).is_some_and(|rest| rest.starts_with('.'));
        if is(".text") || is(".literal") || is(".init") || is(".fini") {
            Self::Code
        } else if is(".bss") {
            Self::Zero
        } else if is(".rodata") {
            Self::ReadOnly
        } else if is(".comment") || name.starts_with(".debug") || name.starts_with(".note") || name.starts_with(".xt.")
        {
            Self::Note
        } else {
            Self::Data
        }
    }

    fn elf_type(self) -> u32 {
        if self == Self::Zero { 8 } else { 1 }
    }

    fn flags(self) -> u32 {
        match self {
            Self::Code => 6,
            Self::Data | Self::Zero => 3,
            Self::ReadOnly => 2,
            Self::Note => 0,
        }
    }
}

/// What a relocation refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Symbol(usize),
    Section(usize),
}

impl From<usize> for Target {
    fn from(symbol: usize) -> Self {
        Self::Symbol(symbol)
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Relocation {
    pub offset: u32,
    pub kind: u32,
    pub symbol: Target,
    pub addend: i32,
}

#[derive(Debug)]
pub(super) struct Section {
    pub name: String,
    pub kind: SectionKind,
    pub relocations: Vec<Relocation>,
    bytes: Vec<u8>,
    reserved: u32,
    alignment: u32,
}

/// Largest section.
const MAX_SECTION: usize = 1 << 30;

impl Section {
    pub fn new(name: &str, kind: SectionKind) -> Self {
        Self { name: name.to_owned(), kind, relocations: Vec::new(), bytes: Vec::new(), reserved: 0, alignment: 1 }
    }

    /// Its size so far.
    pub fn size(&self) -> u32 {
        self.bytes.len() as u32 + self.reserved
    }

    /// Raises the section's alignment.
    pub fn align(&mut self, alignment: u32) {
        self.alignment = self.alignment.max(alignment);
    }

    pub fn append(&mut self, bytes: &[u8]) -> Result<(), String> {
        if self.kind == SectionKind::Zero {
            return self.reserve(bytes.len() as u32);
        }
        if self.bytes.len() + bytes.len() > MAX_SECTION {
            return Err(format!("section `{}` is larger than {MAX_SECTION} bytes", self.name));
        }
        self.bytes.extend(bytes);
        Ok(())
    }

    pub fn reserve(&mut self, count: u32) -> Result<(), String> {
        if self.size() as usize + count as usize > MAX_SECTION {
            return Err(format!("section `{}` is larger than {MAX_SECTION} bytes", self.name));
        }
        if self.kind == SectionKind::Zero {
            self.reserved += count;
        } else {
            self.bytes.resize(self.bytes.len() + count as usize, 0);
        }
        Ok(())
    }

    pub fn patch(&mut self, offset: u32, bytes: &[u8]) {
        let start = offset as usize;
        if let Some(place) = self.bytes.get_mut(start..start + bytes.len()) {
            place.copy_from_slice(bytes);
        }
    }
}

/// A string table under construction.
struct Strings(Vec<u8>);

impl Strings {
    fn add(&mut self, text: &str) -> u32 {
        if text.is_empty() {
            return 0;
        }
        let offset = self.0.len() as u32;
        self.0.extend(text.as_bytes());
        self.0.push(0);
        offset
    }
}

#[derive(Default)]
struct Header {
    name: u32,
    kind: u32,
    flags: u32,
    offset: u32,
    size: u32,
    link: u32,
    info: u32,
    align: u32,
    entry: u32,
}

const HEADER_SIZE: usize = 52;

/// Writes the object. Section N of the assembler is section N + 1 of the file; symbol N + 1 is
/// its section symbol.
pub(super) fn write(sections: &[Section], symbols: &[Symbol]) -> Vec<u8> {
    let mut file = vec![0; HEADER_SIZE];
    let mut strings = Strings(vec![0]);
    let mut names = Strings(vec![0]);
    let mut headers = vec![Header::default()];
    for section in sections {
        pad(&mut file, section.alignment.max(4));
        headers.push(Header {
            name: names.add(&section.name),
            kind: section.kind.elf_type(),
            flags: section.kind.flags(),
            offset: file.len() as u32,
            size: section.size(),
            align: section.alignment,
            ..Header::default()
        });
        file.extend(&section.bytes);
    }
    let (table, numbers, locals) = symbol_table(sections, symbols, &mut strings);
    let symbol_section = sections.len() as u32 + 1;
    pad(&mut file, 4);
    headers.push(Header {
        name: names.add(".symtab"),
        kind: 2,
        offset: file.len() as u32,
        size: table.len() as u32,
        link: symbol_section + 1,
        info: locals,
        align: 4,
        entry: 16,
        ..Header::default()
    });
    file.extend(table);
    headers.push(Header {
        name: names.add(".strtab"),
        kind: 3,
        offset: file.len() as u32,
        size: strings.0.len() as u32,
        align: 1,
        ..Header::default()
    });
    file.extend(&strings.0);
    for (index, section) in sections.iter().enumerate().filter(|(_, section)| !section.relocations.is_empty()) {
        pad(&mut file, 4);
        headers.push(Header {
            name: names.add(&format!(".rela{}", section.name)),
            kind: 4,
            flags: 0x40,
            offset: file.len() as u32,
            size: 12 * section.relocations.len() as u32,
            link: symbol_section,
            info: index as u32 + 1,
            align: 4,
            entry: 12,
        });
        for relocation in &section.relocations {
            let number = match relocation.symbol {
                Target::Section(section) => section as u32 + 1,
                Target::Symbol(symbol) => numbers.get(symbol).copied().unwrap_or(0),
            };
            let addend = (relocation.addend as u32).wrapping_add(hidden_offset(symbols, relocation.symbol));
            for word in [relocation.offset, number << 8 | relocation.kind, addend] {
                file.extend(word.to_le_bytes());
            }
        }
    }
    let name = names.add(".shstrtab");
    headers.push(Header {
        name,
        kind: 3,
        offset: file.len() as u32,
        size: names.0.len() as u32,
        align: 1,
        ..Header::default()
    });
    file.extend(&names.0);
    pad(&mut file, 4);
    let header_offset = file.len() as u32;
    for header in &headers {
        let fields = [
            header.name,
            header.kind,
            header.flags,
            0,
            header.offset,
            header.size,
            header.link,
            header.info,
            header.align,
            header.entry,
        ];
        file.extend(fields.iter().flat_map(|word| word.to_le_bytes()));
    }
    write_file_header(&mut file, header_offset, headers.len() as u16);
    file
}

/// Relocations against hidden labels refer to their section: the label's offset is added.
fn hidden_offset(symbols: &[Symbol], target: Target) -> u32 {
    let Target::Symbol(index) = target else { return 0 };
    match symbols.get(index) {
        Some(symbol) if is_hidden(symbol) => match symbol.definition {
            Definition::InSection(_, offset) => offset,
            _ => 0,
        },
        _ => 0,
    }
}

fn is_hidden(symbol: &Symbol) -> bool {
    expression::is_hidden(&symbol.name) && symbol.definition != Definition::Undefined
}

/// The symbol table, the number of each symbol in it, and the number of local entries.
fn symbol_table(sections: &[Section], symbols: &[Symbol], strings: &mut Strings) -> (Vec<u8>, Vec<u32>, u32) {
    let mut table = vec![0; 16];
    let mut count = 1;
    let mut push = |name: u32, value: u32, size: u32, info: u8, section: u16| {
        for word in [name, value, size] {
            table.extend(word.to_le_bytes());
        }
        table.extend([info, 0]);
        table.extend(section.to_le_bytes());
        count += 1;
        count - 1
    };
    for index in 0..sections.len() {
        push(0, 0, 0, 3, index as u16 + 1);
    }
    let mut numbers = vec![0; symbols.len()];
    let mut locals = sections.len() as u32 + 1;
    for global in [false, true] {
        for (number, symbol) in numbers.iter_mut().zip(symbols) {
            let undefined = symbol.definition == Definition::Undefined;
            if (symbol.global || symbol.weak || undefined) != global {
                continue;
            }
            if is_hidden(symbol) {
                if let Definition::InSection(section, _) = symbol.definition {
                    *number = section as u32 + 1;
                }
                continue;
            }
            let (section, value) = match symbol.definition {
                Definition::Undefined => (0, 0),
                Definition::Absolute(value) => (0xfff1, value as u32),
                Definition::InSection(section, offset) => (section as u16 + 1, offset),
            };
            let binding = match (global, symbol.weak) {
                (false, _) => 0,
                (true, true) => 2,
                (true, false) => 1,
            };
            let kind = if symbol.function { 2 } else { u8::from(symbol.object) };
            let name = strings.add(&symbol.name);
            *number = push(name, value, symbol.size, binding << 4 | kind, section);
            locals += u32::from(!global);
        }
    }
    (table, numbers, locals)
}

fn pad(file: &mut Vec<u8>, alignment: u32) {
    file.resize(file.len().next_multiple_of(alignment as usize), 0);
}

fn write_file_header(file: &mut [u8], sections_at: u32, count: u16) {
    let mut header = Vec::with_capacity(HEADER_SIZE);
    header.extend(b"\x7fELF\x01\x01\x01\0\0\0\0\0\0\0\0\0");
    // Relocatable, Xtensa, version 1, no entry, no program headers.
    header.extend([1, 0, 94, 0]);
    // The flags say that literals and instructions may be told apart, as the GNU tools set them.
    for word in [1, 0, 0, sections_at, 0x300] {
        header.extend(u32::to_le_bytes(word));
    }
    for half in [HEADER_SIZE as u16, 0, 0, 40, count, count - 1] {
        header.extend(half.to_le_bytes());
    }
    if let Some(place) = file.get_mut(..HEADER_SIZE) {
        place.copy_from_slice(&header);
    }
}
