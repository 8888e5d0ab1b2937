//! Lays an image out and encodes it.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use super::{FileMap, HashStyle, Home, ImageBuilder, Place, Reference, SymbolSpec};
use crate::{Class, Segment, dt, gnu_hash, machine, pf, pt, shn, sht, sysv_hash};

/// Bytes under construction. Address-sized fields follow the class; values are cut to their fields.
struct Out {
    class: Class,
    bytes: Vec<u8>,
}

impl Out {
    const fn new(class: Class) -> Self {
        Self { class, bytes: Vec::new() }
    }

    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn half(&mut self, value: u64) -> &mut Self {
        self.raw(value, 2)
    }

    fn word(&mut self, value: u64) -> &mut Self {
        self.raw(value, 4)
    }

    fn address(&mut self, value: u64) -> &mut Self {
        let size = self.class.word();
        self.raw(value, size)
    }

    fn raw(&mut self, value: u64, size: u64) -> &mut Self {
        self.bytes.extend(value.to_le_bytes().into_iter().take(usize::try_from(size).unwrap_or(8)));
        self
    }

    /// Appends bytes at the next multiple of `align`; returns where.
    fn put(&mut self, bytes: &[u8], align: u64) -> u64 {
        let at = self.len().next_multiple_of(align.max(1));
        self.bytes.resize(usize::try_from(at).unwrap_or(usize::MAX), 0);
        self.bytes.extend_from_slice(bytes);
        at
    }

    fn patch(&mut self, at: u64, bytes: &[u8]) {
        let start = usize::try_from(at).unwrap_or(usize::MAX);
        if let Some(place) = self.bytes.get_mut(start..start + bytes.len()) {
            place.copy_from_slice(bytes);
        }
    }
}

/// The string table: names of files and local symbols first, then those of global symbols.
struct Strings {
    bytes: Vec<u8>,
    by_name: BTreeMap<(bool, Vec<u8>), u64>,
}

impl Strings {
    fn new() -> Self {
        Self { bytes: vec![0], by_name: BTreeMap::new() }
    }

    fn add(&mut self, global: bool, name: &str) -> u64 {
        if name.is_empty() {
            return 0;
        }
        let Self { bytes, by_name } = self;
        *by_name.entry((global, name.as_bytes().to_vec())).or_insert_with(|| {
            let at = bytes.len() as u64;
            bytes.extend_from_slice(name.as_bytes());
            bytes.push(0);
            at
        })
    }
}

/// The tables of an image before they are placed.
struct Tables {
    strings: Vec<u8>,
    symbols: Vec<u8>,
    symbol_count: u64,
    first_global: u64,
    first_global_name: u64,
    sysv: Vec<u8>,
    gnu: Vec<u8>,
    rela: Vec<u8>,
    relr: Vec<u8>,
    soname: u64,
    needed: Vec<u64>,
}

/// Where the tables are in the file, and what a pointer to them says.
#[derive(Default)]
struct Placed {
    map: FileMap,
    gnu: u64,
    relr: u64,
    end: u64,
    dynamic_len: u64,
    /// Added to a file offset to get what the dynamic table says.
    shift: u64,
}

pub(super) fn push_note(notes: &mut Vec<u8>, owner: &str, kind: u32, desc: &[u8]) {
    let size = |len: usize| u32::try_from(len).unwrap_or(u32::MAX).to_le_bytes();
    notes.extend(size(owner.len() + 1));
    notes.extend(size(desc.len()));
    notes.extend(kind.to_le_bytes());
    notes.extend(owner.bytes().chain([0]));
    notes.resize(notes.len().next_multiple_of(4), 0);
    notes.extend_from_slice(desc);
    notes.resize(notes.len().next_multiple_of(4), 0);
}

pub(super) fn encode(image: &ImageBuilder) -> (Vec<u8>, FileMap) {
    let tables = tables(image);
    let mut out = Out::new(image.class);
    let count = image.segments.len()
        + image.headers.len()
        + usize::from(image.dynamic)
        + usize::from(image.tables_loaded)
        + usize::from(!image.notes.is_empty());
    let class = image.class;
    let head = class.header_size() + class.program_header_size() * count as u64;
    out.put(&vec![0; usize::try_from(head).unwrap_or(0)], 1);
    let offsets: Vec<u64> =
        image.segments.iter().map(|segment| out.put(&segment.data, segment.align.clamp(1, 4096))).collect();
    let notes = if image.notes.is_empty() { 0 } else { out.put(&image.notes, 4) };
    let placed = place_tables(image, &tables, &mut out);
    let embedded = image.embedded.as_ref().map(|bytes| (out.put(bytes, 16), bytes.len() as u64));
    let sections = write_sections(image, &tables, &placed, &offsets, embedded, &mut out);
    let mut headers = program_headers(image, &placed, &offsets);
    if !image.notes.is_empty() {
        let size = image.notes.len() as u64;
        headers.push(header(pt::NOTE, pf::R, notes, notes, size, size, 4));
    }
    headers.extend(image.headers.iter().copied());
    let mut encoded = Out::new(class);
    for header in &headers {
        write_program_header(&mut encoded, header);
    }
    out.patch(class.header_size(), &encoded.bytes);
    let file_header = file_header(image, headers.len() as u64, sections);
    out.patch(0, &file_header);
    let section_headers = sections.0;
    let map = FileMap { program_headers: class.header_size(), section_headers, ..placed.map };
    (out.bytes, map)
}

// --- symbols, strings, hash tables, relocations

fn tables(image: &ImageBuilder) -> Tables {
    let mut strings = Strings::new();
    let soname = strings.add(false, &image.soname);
    let needed = image.needed.iter().map(|name| strings.add(false, name)).collect();
    let (order, hashed_from) = symbol_order(image);
    let locals = order.iter().filter_map(|i| image.symbols.get(*i)).filter(|symbol| symbol.is_local()).count() as u64;
    let mut symbols = Out::new(image.class);
    write_symbol(&mut symbols, 0, &SymbolSpec { binding: 0, ..SymbolSpec::import("") }, 0, 0);
    let mut first_global_name = None;
    for symbol in order.iter().filter_map(|i| image.symbols.get(*i)) {
        if !symbol.is_local() && first_global_name.is_none() {
            first_global_name = Some(strings.bytes.len() as u64);
        }
        let name = strings.add(!symbol.is_local(), &symbol.name);
        let (shndx, value) = match symbol.home {
            Home::In(segment, offset) => (segment.0 as u64 + 1, image.address(segment).wrapping_add(offset)),
            Home::Absolute(value) => (u64::from(shn::ABS), value),
            Home::Undefined => (u64::from(shn::UNDEF), 0),
            Home::Raw(shndx, value) => (u64::from(shndx), value),
        };
        write_symbol(&mut symbols, name, symbol, shndx, value);
    }
    let named: Vec<&[u8]> = order.iter().filter_map(|i| Some(image.symbols.get(*i)?.name.as_bytes())).collect();
    Tables {
        first_global_name: first_global_name.unwrap_or(strings.bytes.len() as u64),
        strings: strings.bytes,
        symbols: symbols.bytes,
        symbol_count: order.len() as u64 + 1,
        first_global: locals + 1,
        sysv: if image.hash == HashStyle::Gnu { Vec::new() } else { sysv_table(&named) },
        gnu: if image.hash == HashStyle::SysV { Vec::new() } else { gnu_table(&named, hashed_from) },
        rela: relocation_table(image, &order),
        relr: relr_table(&image.relative),
        soname,
        needed,
    }
}

const GNU_BUCKETS: u32 = 8;

/// Symbols in table order: local ones first; for a GNU hash table the defined global ones last, by bucket. Also where in
/// that order the hashed symbols start.
fn symbol_order(image: &ImageBuilder) -> (Vec<usize>, usize) {
    let mut order: Vec<usize> = (0..image.symbols.len()).collect();
    let key = |i: &usize| {
        let Some(symbol) = image.symbols.get(*i) else { return (0, 0) };
        let defined = symbol.home != Home::Undefined;
        match (symbol.is_local(), image.hash) {
            (true, _) => (0, 0),
            (false, HashStyle::SysV) => (1, 0),
            (false, _) if defined => (2, gnu_hash(symbol.name.as_bytes()) % GNU_BUCKETS),
            (false, _) => (1, 0),
        }
    };
    order.sort_by_key(key);
    let hashed_from = order.iter().take_while(|i| key(i).0 < 2).count();
    (order, hashed_from)
}

fn write_symbol(out: &mut Out, name: u64, symbol: &SymbolSpec, shndx: u64, value: u64) {
    let info = u64::from(symbol.binding << 4 | symbol.kind);
    let other = u64::from(symbol.visibility);
    match out.class {
        Class::Elf32 => out.word(name).word(value).word(symbol.size).raw(info, 1).raw(other, 1).half(shndx),
        Class::Elf64 => out.word(name).raw(info, 1).raw(other, 1).half(shndx).address(value).address(symbol.size),
    };
}

fn sysv_table(names: &[&[u8]]) -> Vec<u8> {
    let buckets = (names.len() / 4).max(1) | 1;
    let mut heads = vec![0_u64; buckets];
    let mut chains = vec![0_u64; names.len() + 1];
    for (index, name) in names.iter().enumerate().rev() {
        let bucket = usize::try_from(sysv_hash(name)).unwrap_or(0) % buckets;
        if let (Some(head), Some(chain)) = (heads.get_mut(bucket), chains.get_mut(index + 1)) {
            *chain = core::mem::replace(head, index as u64 + 1);
        }
    }
    let mut out = Out::new(Class::Elf32);
    out.word(buckets as u64).word(chains.len() as u64);
    for word in heads.iter().chain(&chains) {
        out.word(*word);
    }
    out.bytes
}

fn gnu_table(names: &[&[u8]], hashed_from: usize) -> Vec<u8> {
    let hashes: Vec<u32> = names.iter().skip(hashed_from).map(|name| gnu_hash(name)).collect();
    let first = hashed_from as u64 + 1;
    let mut out = Out::new(Class::Elf32);
    // One bloom word with all bits set: every lookup goes on to the buckets.
    out.word(u64::from(GNU_BUCKETS)).word(first).word(1).word(0).raw(u64::MAX, 8);
    for bucket in 0..GNU_BUCKETS {
        let position = hashes.iter().position(|hash| hash % GNU_BUCKETS == bucket);
        out.word(position.map_or(0, |position| first + position as u64));
    }
    for (index, hash) in hashes.iter().enumerate() {
        let last = hashes.get(index + 1).is_none_or(|next| next % GNU_BUCKETS != hash % GNU_BUCKETS);
        out.word(u64::from(hash & !1 | u32::from(last)));
    }
    out.bytes
}

fn relocation_table(image: &ImageBuilder, order: &[usize]) -> Vec<u8> {
    let mut index_of = vec![0_u64; image.symbols.len()];
    for (position, symbol) in order.iter().enumerate() {
        if let Some(index) = index_of.get_mut(*symbol) {
            *index = position as u64 + 1;
        }
    }
    let mut out = Out::new(image.class);
    for relocation in &image.relocations {
        let place = match relocation.place {
            Place::In(segment, offset) => image.address(segment).wrapping_add(offset),
            Place::At(address) => address,
        };
        let symbol = match relocation.symbol {
            Reference::Symbol(symbol) => index_of.get(symbol.0).copied().unwrap_or(0),
            Reference::Index(index) => u64::from(index),
        };
        let kind = u64::from(relocation.kind);
        let info = match image.class {
            Class::Elf32 => symbol << 8 | kind & 0xff,
            Class::Elf64 => symbol << 32 | kind,
        };
        out.address(place).address(info).address(relocation.addend.cast_unsigned());
    }
    out.bytes
}

fn relr_table(places: &[u64]) -> Vec<u8> {
    let mut sorted = places.to_vec();
    sorted.sort_unstable();
    let mut out = Out::new(Class::Elf64);
    let mut rest = sorted.as_slice();
    while let Some((start, after)) = rest.split_first() {
        out.address(*start);
        rest = after;
        let mut base = start + 8;
        loop {
            let inside = |place: &u64| (place - base) / 8 < 63 && (place - base).is_multiple_of(8);
            let count = rest.iter().take_while(|place| inside(place)).count();
            if count == 0 {
                break;
            }
            let (here, later) = rest.split_at(count);
            let bits = here.iter().fold(0_u64, |bits, place| bits | 1 << ((place - base) / 8));
            out.address(bits << 1 | 1);
            rest = later;
            base += 63 * 8;
        }
    }
    out.bytes
}

// --- layout

fn place_tables(image: &ImageBuilder, tables: &Tables, out: &mut Out) -> Placed {
    let mut placed = Placed::default();
    if !image.dynamic {
        return placed;
    }
    let entries = 24 + image.needed.len() + image.tags.len();
    let room = vec![0; entries * usize::try_from(image.class.dynamic_size()).unwrap_or(16)];
    let align = if image.tables_loaded { 4096 } else { 16 };
    placed.map.dynamic = out.put(&room, align);
    placed.map.hash = if tables.sysv.is_empty() { 0 } else { out.put(&tables.sysv, 8) };
    placed.gnu = if tables.gnu.is_empty() { 0 } else { out.put(&tables.gnu, 8) };
    placed.map.symbols = out.put(&tables.symbols, 8);
    placed.map.symbol_count = tables.symbol_count;
    placed.map.strings = out.put(&tables.strings, 1);
    placed.map.relocations = out.put(&tables.rela, 8);
    placed.relr = if tables.relr.is_empty() { 0 } else { out.put(&tables.relr, 8) };
    placed.end = out.len();
    if image.tables_loaded && image.machine != machine::C7X {
        let highest = image.segments.iter().map(|s| s.vaddr.unwrap_or(0) + s.memsz).max().unwrap_or(image.base);
        placed.shift = highest.next_multiple_of(4096) + 4096 - placed.map.dynamic;
    }
    let dynamic = dynamic_table(image, tables, &placed);
    placed.dynamic_len = dynamic.len() as u64;
    out.patch(placed.map.dynamic, &dynamic);
    placed
}

fn dynamic_table(image: &ImageBuilder, tables: &Tables, placed: &Placed) -> Vec<u8> {
    let at = |offset: u64| offset.wrapping_add(placed.shift);
    let class = image.class;
    let mut entries: Vec<(u64, u64)> = tables.needed.iter().map(|name| (dt::NEEDED, *name)).collect();
    entries.push((dt::SONAME, tables.soname));
    if !tables.sysv.is_empty() {
        entries.push((dt::HASH, at(placed.map.hash)));
    }
    if !tables.gnu.is_empty() {
        entries.push((dt::GNU_HASH, at(placed.gnu)));
    }
    entries.push((dt::STRTAB, at(placed.map.strings)));
    entries.push((dt::STRSZ, tables.strings.len() as u64));
    entries.push((dt::SYMTAB, at(placed.map.symbols)));
    entries.push((dt::SYMENT, class.symbol_size()));
    if !tables.rela.is_empty() {
        let size = tables.rela.len() as u64;
        entries.extend([(dt::RELA, at(placed.map.relocations)), (dt::RELASZ, size), (dt::RELAENT, class.rela_size())]);
        if image.plt > 0 {
            let plt = class.rela_size() * image.plt as u64;
            let start = placed.map.relocations + size - plt;
            entries.extend([(dt::JMPREL, at(start)), (dt::PLTRELSZ, plt), (dt::PLTREL, dt::RELA)]);
        }
    }
    if !tables.relr.is_empty() {
        entries.extend([(dt::RELR, at(placed.relr)), (dt::RELRSZ, tables.relr.len() as u64), (dt::RELRENT, 8)]);
    }
    if image.machine == machine::C7X {
        entries.push((dt::C7X_GSYM_OFFSET, class.symbol_size() * tables.first_global));
        entries.push((dt::C7X_GSTR_OFFSET, tables.first_global_name));
    }
    entries.retain(|(tag, _)| !image.dropped.contains(tag));
    for (tag, value) in &mut entries {
        if let Some((_, wanted)) = image.overrides.iter().find(|(overridden, _)| overridden == tag) {
            *value = *wanted;
        }
    }
    entries.extend(image.tags.iter().copied());
    if !image.dropped.contains(&dt::NULL) {
        entries.push((dt::NULL, 0));
    }
    let mut out = Out::new(class);
    for (tag, value) in entries {
        out.address(tag).address(value);
    }
    out.bytes
}

fn program_headers(image: &ImageBuilder, placed: &Placed, offsets: &[u64]) -> Vec<Segment> {
    let mut headers: Vec<Segment> = image
        .segments
        .iter()
        .zip(offsets)
        .map(|(segment, offset)| {
            let (vaddr, filesz) = (segment.vaddr.unwrap_or(0), segment.data.len() as u64);
            header(pt::LOAD, segment.flags, *offset, vaddr, filesz, segment.memsz, segment.align)
        })
        .collect();
    let start = placed.map.dynamic;
    let address = start.wrapping_add(placed.shift);
    if image.tables_loaded {
        let size = placed.end - start;
        headers.push(header(pt::LOAD, pf::R, start, address, size, size, 4096));
    }
    if image.dynamic {
        let address = if image.tables_loaded { address } else { 0 };
        headers.push(header(pt::DYNAMIC, pf::R, start, address, placed.dynamic_len, placed.dynamic_len, 8));
    }
    headers
}

const fn header(kind: u32, flags: u32, offset: u64, vaddr: u64, filesz: u64, memsz: u64, align: u64) -> Segment {
    Segment { index: 0, header: 0, kind, flags, offset, vaddr, paddr: vaddr, filesz, memsz, align }
}

fn write_program_header(out: &mut Out, h: &Segment) {
    out.word(u64::from(h.kind));
    if out.class == Class::Elf64 {
        out.word(u64::from(h.flags));
    }
    out.address(h.offset).address(h.vaddr).address(h.paddr).address(h.filesz).address(h.memsz);
    if out.class == Class::Elf32 {
        out.word(u64::from(h.flags));
    }
    out.address(h.align);
}

/// Writes the section headers; returns their offset, count and the index of the name table.
fn write_sections(
    image: &ImageBuilder,
    tables: &Tables,
    placed: &Placed,
    offsets: &[u64],
    embedded: Option<(u64, u64)>,
    out: &mut Out,
) -> (u64, u64, u64) {
    if !image.sections {
        return (0, 0, 0);
    }
    let class = image.class;
    let mut list = SectionList { names: vec![0], headers: Out::new(class), count: 0 };
    list.add("", SectionSpec::default());
    for (segment, offset) in image.segments.iter().zip(offsets) {
        let kind = if segment.data.is_empty() { sht::NOBITS } else { sht::PROGBITS };
        let bit = |flag, value| if segment.flags & flag != 0 { value } else { 0 };
        // SHF_ALLOC, SHF_WRITE, SHF_EXECINSTR
        let flags = 2 | bit(pf::W, 1) | bit(pf::X, 4);
        let address = segment.vaddr.unwrap_or(0);
        list.add(&segment.name, SectionSpec { kind, flags, address, ..SectionSpec::at(*offset, segment.memsz) });
    }
    if image.dynamic {
        add_tables(image, tables, placed, &mut list);
    }
    if let Some((offset, size)) = embedded {
        list.add(".dsp_syms_out", SectionSpec { kind: sht::PROGBITS, ..SectionSpec::at(offset, size) });
    }
    let name_index = list.count;
    let names_at = out.len();
    let names_len = list.names.len() as u64 + ".shstrtab\0".len() as u64;
    list.add(".shstrtab", SectionSpec { kind: sht::STRTAB, ..SectionSpec::at(names_at, names_len) });
    out.put(&list.names, 1);
    let at = out.put(&list.headers.bytes, 8);
    (at, list.count, name_index)
}

/// The sections of the dynamic tables, linked to each other as linkers expect it.
fn add_tables(image: &ImageBuilder, tables: &Tables, placed: &Placed, list: &mut SectionList) {
    let (class, map) = (image.class, &placed.map);
    let loaded = image.tables_loaded;
    let names = list.count;
    let symbols = names + 1;
    let table = |kind, offset: u64, size: u64, entry, link, info| SectionSpec {
        kind,
        flags: if loaded { 2 } else { 0 },
        address: if loaded { offset.wrapping_add(placed.shift) } else { 0 },
        link,
        info,
        entry,
        align: 8,
        ..SectionSpec::at(offset, size)
    };
    let bytes = |table: &[u8]| table.len() as u64;
    list.add(".dynstr", SectionSpec { align: 1, ..table(sht::STRTAB, map.strings, bytes(&tables.strings), 0, 0, 0) });
    let info = tables.first_global;
    list.add(".dynsym", table(sht::DYNSYM, map.symbols, bytes(&tables.symbols), class.symbol_size(), names, info));
    list.add(".dynamic", table(sht::DYNAMIC, map.dynamic, placed.dynamic_len, class.dynamic_size(), names, 0));
    list.add(".rela.dyn", table(sht::RELA, map.relocations, bytes(&tables.rela), class.rela_size(), symbols, 0));
    if !tables.sysv.is_empty() {
        list.add(".hash", table(sht::HASH, map.hash, bytes(&tables.sysv), 4, symbols, 0));
    }
    if !tables.gnu.is_empty() {
        list.add(".gnu.hash", table(sht::GNU_HASH, placed.gnu, bytes(&tables.gnu), 0, symbols, 0));
    }
}

/// The fields of a section header after its name.
#[derive(Default)]
struct SectionSpec {
    kind: u32,
    flags: u64,
    address: u64,
    offset: u64,
    size: u64,
    link: u64,
    info: u64,
    align: u64,
    entry: u64,
}

impl SectionSpec {
    fn at(offset: u64, size: u64) -> Self {
        Self { offset, size, align: 1, ..Self::default() }
    }
}

struct SectionList {
    names: Vec<u8>,
    headers: Out,
    count: u64,
}

impl SectionList {
    fn add(&mut self, name: &str, section: SectionSpec) {
        let at = if name.is_empty() { 0 } else { self.names.len() as u64 };
        self.names.extend(name.bytes());
        if !name.is_empty() {
            self.names.push(0);
        }
        let SectionSpec { kind, flags, address, offset, size, link, info, align, entry } = section;
        let out = &mut self.headers;
        out.word(at).word(u64::from(kind)).address(flags).address(address).address(offset).address(size);
        out.word(link).word(info).address(align).address(entry);
        self.count += 1;
    }
}

fn file_header(image: &ImageBuilder, program_headers: u64, sections: (u64, u64, u64)) -> Vec<u8> {
    let class = image.class;
    let mut out = Out::new(class);
    out.put(b"\x7fELF", 1);
    out.raw(class.pick(1, 2), 1).raw(1, 1).raw(1, 1).raw(u64::from(image.osabi), 1).raw(0, 8);
    out.half(u64::from(image.kind)).half(u64::from(image.machine)).word(1);
    let (shoff, shnum, names) = sections;
    out.address(image.entry).address(class.header_size()).address(shoff).word(0);
    out.half(class.header_size()).half(class.program_header_size()).half(program_headers);
    out.half(class.section_header_size()).half(shnum).half(names);
    out.bytes
}
