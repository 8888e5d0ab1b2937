//! Writes a linked image as an executable ELF file, and reads it again.

use alloc::boxed::Box;
use alloc::string::ToString;
use alloc::vec::Vec;

use outboard_elf::{Elf, et, machine, pf, pt, shf, shn, sht, stb};

use super::relocate::usize_of;
use super::{BuildError, Linked, LinkedSection, Location};

const HEADER: u32 = 52;
const PROGRAM_HEADER: u32 = 32;
const SECTION_HEADER: u32 = 40;
/// File offsets equal addresses modulo this, so that programs can be mapped.
const PAGE: u32 = 0x1000;
/// `e_flags` of the GNU tools: literals and instructions can be told apart.
const FLAGS: u32 = 0x300;

/// Sections that share a program header.
struct Load<'l> {
    sections: Vec<&'l LinkedSection>,
    offset: u32,
}

impl Load<'_> {
    fn address(&self) -> u32 {
        self.sections.first().map_or(0, |section| section.address)
    }

    /// Bytes in the file: up to the end of the last section that has any.
    fn file_size(&self) -> u32 {
        let stored = self.sections.iter().rev().find(|section| !section.data.is_empty());
        stored.map_or(0, |section| section.address - self.address() + length(&section.data))
    }

    fn memory_size(&self) -> u32 {
        self.sections.last().map_or(0, |section| section.address - self.address() + section.size)
    }

    /// The section may follow in the same header: as it is permitted, near, and with no bytes behind zeros.
    fn takes(&self, next: &LinkedSection) -> bool {
        self.sections.last().is_some_and(|last| {
            let end = u64::from(last.address) + u64::from(last.size);
            let gap = u64::from(next.address).checked_sub(end);
            let stored = length(&last.data) == last.size || next.data.is_empty();
            last.flags == next.flags && last.region == next.region && stored && gap.is_some_and(|gap| gap < PAGE.into())
        })
    }
}

/// The bytes of the file.
pub(super) fn write(linked: &Linked) -> Result<Vec<u8>, BuildError> {
    let mut loads = loads(linked);
    let count = u32::try_from(loads.len()).unwrap_or(u32::MAX);
    let mut file = alloc::vec![0; usize_of(HEADER + count * PROGRAM_HEADER)];
    for load in &mut loads {
        if load.file_size() > 0 {
            let at = length(&file);
            let offset = at + (load.address().wrapping_sub(at) & (PAGE - 1));
            file.resize(usize_of(offset), 0);
            load.offset = offset;
            for section in &load.sections {
                let inside = section.address - load.address();
                if !section.data.is_empty() {
                    file.resize(usize_of(offset + inside), 0);
                    file.extend_from_slice(&section.data);
                }
            }
        }
    }
    let mut tables = Tables::default();
    tables.header(Header::default());
    let numbers = section_headers(linked, &loads, &mut tables);
    properties(linked, &mut file, &mut tables);
    symbols(linked, &numbers, &mut file, &mut tables);
    let names = tables.name(".shstrtab");
    let strings = tables.names.clone();
    tables.header(Header {
        name: names,
        kind: sht::STRTAB,
        offset: length(&file),
        size: length(&strings),
        align: 1,
        ..Header::default()
    });
    file.extend_from_slice(&strings);
    pad(&mut file);
    let sections_at = length(&file);
    file.extend_from_slice(&tables.headers);
    file_header(linked, &mut file, count, sections_at, tables.count);
    program_headers(&loads, &mut file);
    check(linked, &file)?;
    Ok(file)
}

fn loads(linked: &Linked) -> Vec<Load<'_>> {
    let mut sections: Vec<&LinkedSection> = linked.sections.iter().filter(|section| section.size > 0).collect();
    sections.sort_by_key(|section| section.address);
    let mut loads: Vec<Load<'_>> = Vec::new();
    for section in sections {
        match loads.last_mut() {
            Some(load) if load.takes(section) => load.sections.push(section),
            _ => loads.push(Load { sections: alloc::vec![section], offset: 0 }),
        }
    }
    loads
}

#[derive(Default, Clone, Copy)]
struct Header {
    name: u32,
    kind: u32,
    flags: u32,
    address: u32,
    offset: u32,
    size: u32,
    link: u32,
    info: u32,
    align: u32,
    entry: u32,
}

/// Section headers and their names.
#[derive(Default)]
struct Tables {
    names: Vec<u8>,
    headers: Vec<u8>,
    count: u16,
}

impl Tables {
    fn name(&mut self, name: &str) -> u32 {
        add_string(&mut self.names, name)
    }

    fn header(&mut self, header: Header) {
        let Header { name, kind, flags, address, offset, size, link, info, align, entry } = header;
        for word in [name, kind, flags, address, offset, size, link, info, align, entry] {
            self.headers.extend_from_slice(&word.to_le_bytes());
        }
        self.count = self.count.saturating_add(1);
    }
}

/// Adds a name to a table of strings that starts with the empty one.
fn add_string(table: &mut Vec<u8>, name: &str) -> u32 {
    if table.is_empty() {
        table.push(0);
    }
    if name.is_empty() {
        return 0;
    }
    let at = length(table);
    // A name ends at its first zero.
    table.extend(name.bytes().take_while(|byte| *byte != 0));
    table.push(0);
    at
}

/// Writes a header for every section that is not empty; the numbers of the headers.
fn section_headers(linked: &Linked, loads: &[Load<'_>], tables: &mut Tables) -> Vec<u16> {
    let mut numbers = Vec::with_capacity(linked.sections.len());
    for section in &linked.sections {
        if section.size == 0 {
            numbers.push(0);
            continue;
        }
        let load = loads.iter().find(|load| load.sections.iter().any(|other| core::ptr::eq(*other, section)));
        let offset = load.map_or(0, |load| load.offset + (section.address - load.address()));
        let stored = !section.data.is_empty();
        let name = tables.name(&section.name);
        let write = if section.flags & pf::W != 0 { shf::WRITE } else { 0 };
        let execute = if section.flags & pf::X != 0 { shf::EXECINSTR } else { 0 };
        numbers.push(tables.count);
        tables.header(Header {
            name,
            kind: if stored { sht::PROGBITS } else { sht::NOBITS },
            flags: u32::try_from(shf::ALLOC | write | execute).unwrap_or(0),
            address: section.address,
            offset: if stored { offset } else { 0 },
            // Zeros behind the bytes are part of the segment only.
            size: if stored { length(&section.data) } else { section.size },
            align: section.align,
            ..Header::default()
        });
    }
    numbers
}

fn properties(linked: &Linked, file: &mut Vec<u8>, tables: &mut Tables) {
    let Some(properties) = &linked.properties else { return };
    pad(file);
    let (name, offset) = (tables.name(".xt.prop"), length(file));
    for property in properties {
        for word in [property.address, property.size, property.flags] {
            file.extend_from_slice(&word.to_le_bytes());
        }
    }
    let size = length(file) - offset;
    tables.header(Header { name, kind: sht::PROGBITS, offset, size, align: 4, ..Header::default() });
}

fn symbols(linked: &Linked, numbers: &[u16], file: &mut Vec<u8>, tables: &mut Tables) {
    let mut strings = alloc::vec![0];
    let mut entries = alloc::vec![0; 16];
    let (mut locals, mut count) = (1, 1);
    let local = linked.symbols.iter().filter(|symbol| !symbol.global);
    for symbol in local.chain(linked.symbols.iter().filter(|symbol| symbol.global)) {
        let section = symbol.section.and_then(|section| numbers.get(section)).copied();
        // A symbol in an empty section has an address, and no section to lie in.
        let section = section.filter(|number| *number != 0).unwrap_or(shn::ABS);
        let binding = if symbol.global { stb::GLOBAL } else { stb::LOCAL };
        for word in [add_string(&mut strings, &symbol.name), symbol.value, symbol.size] {
            entries.extend_from_slice(&word.to_le_bytes());
        }
        entries.extend_from_slice(&[binding << 4 | symbol.kind & 15, 0]);
        entries.extend_from_slice(&section.to_le_bytes());
        count += 1;
        if !symbol.global {
            locals = count;
        }
    }
    pad(file);
    let (name, offset, link) = (tables.name(".symtab"), length(file), u32::from(tables.count) + 1);
    let size = length(&entries);
    tables.header(Header {
        name,
        kind: sht::SYMTAB,
        offset,
        size,
        link,
        info: locals,
        align: 4,
        entry: 16,
        ..Header::default()
    });
    file.extend_from_slice(&entries);
    let (name, offset, size) = (tables.name(".strtab"), length(file), length(&strings));
    tables.header(Header { name, kind: sht::STRTAB, offset, size, align: 1, ..Header::default() });
    file.extend_from_slice(&strings);
}

fn file_header(linked: &Linked, file: &mut [u8], loads: u32, sections_at: u32, sections: u16) {
    let mut header = Vec::with_capacity(usize_of(HEADER));
    header.extend_from_slice(b"\x7fELF\x01\x01\x01\0\0\0\0\0\0\0\0\0");
    for half in [et::EXEC, machine::XTENSA] {
        header.extend_from_slice(&half.to_le_bytes());
    }
    for word in [1, linked.entry.unwrap_or(0), HEADER, sections_at, FLAGS] {
        header.extend_from_slice(&word.to_le_bytes());
    }
    let loads = u16::try_from(loads).unwrap_or(u16::MAX);
    let sizes = [HEADER, PROGRAM_HEADER].map(|size| u16::try_from(size).unwrap_or(0));
    let [header_size, program_header] = sizes;
    let section_header = u16::try_from(SECTION_HEADER).unwrap_or(0);
    for half in [header_size, program_header, loads, section_header, sections, sections.saturating_sub(1)] {
        header.extend_from_slice(&half.to_le_bytes());
    }
    if let Some(place) = file.get_mut(..header.len()) {
        place.copy_from_slice(&header);
    }
}

fn program_headers(loads: &[Load<'_>], file: &mut [u8]) {
    let mut headers = Vec::new();
    for load in loads {
        let (address, flags) = (load.address(), load.sections.first().map_or(0, |section| section.flags));
        let sizes = (load.file_size(), load.memory_size());
        for word in [pt::LOAD, load.offset, address, address, sizes.0, sizes.1, flags, PAGE] {
            headers.extend_from_slice(&word.to_le_bytes());
        }
    }
    let start = usize_of(HEADER);
    if let Some(place) = file.get_mut(start..start + headers.len()) {
        place.copy_from_slice(&headers);
    }
}

/// Reads the file again: each section's bytes lie at its address, zeros behind them, and every place refers to its target.
fn check(linked: &Linked, file: &[u8]) -> Result<(), BuildError> {
    let fault = |section: &LinkedSection, offset: u32, problem| BuildError::Verify {
        at: Box::new(Location { file: "the image".to_string(), section: section.name.clone(), offset, symbol: None }),
        problem,
    };
    let unreadable = |error| BuildError::Elf { file: "the image".to_string(), error };
    let elf = Elf::parse(file).map_err(unreadable)?;
    elf.sections().map_err(unreadable)?;
    let mut stored = Vec::with_capacity(linked.sections.len());
    for section in &linked.sections {
        let len = section.data.len() as u64;
        let offset = elf.file_offset(u64::from(section.address), len);
        let bytes = match (offset, len) {
            (_, 0) => &[][..],
            (None, _) => return Err(fault(section, 0, "the file does not have its bytes at its address")),
            (Some(offset), _) => elf.bytes().range("a section", offset, len).map_err(unreadable)?,
        };
        if bytes != section.data {
            return Err(fault(section, 0, "the bytes in the file differ"));
        }
        let end = u64::from(section.address) + u64::from(section.size);
        let mapped = elf.load_segments().any(|segment| {
            segment.vaddr <= u64::from(section.address) && end <= segment.vaddr.saturating_add(segment.memsz)
        });
        if section.size > 0 && !mapped {
            return Err(fault(section, 0, "no program header holds it"));
        }
        stored.push(bytes);
    }
    for site in &linked.sites {
        let bytes = stored.get(site.section).and_then(|bytes| bytes.get(usize_of(site.offset)..)).unwrap_or(&[]);
        if let (false, Some(section)) =
            (site.patch.refers(bytes, site.place, site.target), linked.sections.get(site.section))
        {
            return Err(fault(section, site.offset, "a place does not refer to its target"));
        }
    }
    Ok(())
}

fn pad(file: &mut Vec<u8>) {
    file.resize(file.len().next_multiple_of(4), 0);
}

/// The length of a table of a 32-bit file.
fn length(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).unwrap_or(u32::MAX)
}
