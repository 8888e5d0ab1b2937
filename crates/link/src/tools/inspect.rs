//! What is in a file: headers, where each segment would go, dynamic tags, symbols, relocations by type, notes.
//!
//! Works for every ELF file of the four machines, modules, objects and firmwares alike. A part that cannot be read is
//! named in [`Inspection::problems`] and the rest is shown.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::{self, Write as _};

use outboard_elf::{
    Dynamic, Elf, ElfError, RelaTable, Section, Sections, Segment, StringTable, Symbol, SymbolTable, dt,
    dynamic_tag_name, em_name, et_name, gnu_symbol_count, osabi_name, pt, segment_type_name, shn, sht, stt,
    sysv_symbol_count,
};

use super::resource_table::{self, ResourceTable};
use crate::names::NameReader;
use crate::{Machine, ModuleNote, manifest, module_note};

/// Symbols listed at most; all are counted.
const MOST_SYMBOLS: usize = 100_000;
/// Bytes of readable names in all.
const MOST_DEMANGLED: usize = 8 << 20;
/// Bytes of a note's text shown at most.
const MOST_NOTE: usize = 4096;

/// Everything that [`inspect`] finds.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Inspection {
    /// Size of the file.
    pub file_size: u64,
    /// File header.
    pub header: HeaderInfo,
    /// Program headers.
    pub segments: Vec<SegmentInfo>,
    /// Dynamic tags in order.
    pub dynamic: Vec<TagInfo>,
    /// Symbols taken from elsewhere.
    pub imports: SymbolList,
    /// Symbols offered to others.
    pub exports: SymbolList,
    /// Relocations by type name.
    pub relocations: BTreeMap<String, u64>,
    /// Notes.
    pub notes: Vec<NoteInfo>,
    /// What a host-CPU module was built for.
    pub build: Option<BuildInfo>,
    /// The JSON manifest of a host-CPU module.
    pub manifest: Option<String>,
    /// The resource table of a firmware.
    pub resource_table: Option<ResourceTable>,
    /// Parts that could not be read, and why.
    pub problems: Vec<String>,
}

/// The file header.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct HeaderInfo {
    /// 32 or 64.
    pub class: u32,
    /// `e_machine` and its name.
    pub machine: Named,
    /// `e_type` and its name.
    pub kind: Named,
    /// `EI_OSABI` and its name.
    pub osabi: Named,
    /// Entry point.
    pub entry: u64,
    /// `e_flags`.
    pub flags: u32,
    /// Number of section headers.
    pub sections: u64,
}

/// A number with its name.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Named {
    /// The number.
    pub value: u64,
    /// Its name, `unknown` when it has none.
    pub name: String,
}

/// A program header and where the loader would put it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct SegmentInfo {
    /// Index of the header.
    pub index: usize,
    /// Type.
    pub kind: Named,
    /// `r-x` and the like.
    pub perms: String,
    /// Offset in the file.
    pub offset: u64,
    /// Link address.
    pub vaddr: u64,
    /// Bytes in the file.
    pub filesz: u64,
    /// Bytes in memory.
    pub memsz: u64,
    /// Alignment.
    pub align: u64,
    /// Where it goes when the file is loaded.
    pub goes: String,
}

/// A dynamic tag.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct TagInfo {
    /// The tag.
    pub tag: Named,
    /// Its value.
    pub value: u64,
    /// The name it refers to, for tags that do.
    pub text: Option<String>,
}

/// Symbols, and how many there are when not all are listed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct SymbolList {
    /// Number of symbols.
    pub count: usize,
    /// The first of them (at most 100,000).
    pub symbols: Vec<SymbolInfo>,
}

/// A symbol.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct SymbolInfo {
    /// Name in the file.
    pub name: String,
    /// Readable form of a C++ or Rust name.
    pub demangled: Option<String>,
    /// Value before loading, 0 for imports.
    pub value: u64,
    /// Size in bytes.
    pub size: u64,
    /// `function`, `object` or `other`.
    pub kind: &'static str,
    /// May stay undefined.
    pub weak: bool,
}

/// A note.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct NoteInfo {
    /// Owner.
    pub owner: String,
    /// Type.
    pub kind: u32,
    /// Size of the contents.
    pub size: usize,
    /// The contents when they are text.
    pub text: Option<String>,
}

/// What a host-CPU module was built for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct BuildInfo {
    /// Processor family.
    pub arch: String,
    /// Processor features that the code uses.
    pub features: Vec<String>,
    /// Program that built it.
    pub builder: String,
}

impl From<ModuleNote> for BuildInfo {
    fn from(note: ModuleNote) -> Self {
        Self { arch: note.arch, features: note.features, builder: note.builder }
    }
}

/// Reads everything there is to show about a file.
///
/// # Errors
///
/// When the file is no ELF file or its headers cannot be read.
///
/// ```
/// use outboard_elf::write::{ImageBuilder, SegmentSpec, SymbolSpec};
/// use outboard_elf::{machine, pf};
/// use outboard_link::inspect::inspect;
///
/// let mut image = ImageBuilder::new(machine::C7X);
/// let text = image.segment(SegmentSpec::new(pf::R | pf::X, vec![0; 64]));
/// image.symbol(SymbolSpec::function("_Z5scalePfi", text, 0, 64));
/// let inspection = inspect(&image.build())?;
/// assert_eq!(inspection.segments[0].goes, "MAIN pool (code), 64 bytes");
/// assert_eq!(inspection.exports.symbols[0].demangled.as_deref(), Some("scale(float*, int)"));
/// # Ok::<(), outboard_elf::ElfError>(())
/// ```
pub fn inspect(file: &[u8]) -> Result<Inspection, ElfError> {
    let elf = Elf::parse(file)?;
    let mut result = Inspection {
        file_size: elf.bytes().len(),
        header: header_info(&elf),
        segments: segments(&elf),
        dynamic: Vec::new(),
        imports: SymbolList::default(),
        exports: SymbolList::default(),
        relocations: BTreeMap::new(),
        notes: Vec::new(),
        build: module_note(&elf).map(BuildInfo::from),
        manifest: manifest(&elf).map(String::from),
        resource_table: None,
        problems: Vec::new(),
    };
    for note in elf.notes() {
        match note {
            Ok(note) => result.notes.push(note_info(note.owner, note.kind, note.desc)),
            Err(error) => result.problem("notes", &error),
        }
    }
    match resource_table::read(&elf) {
        Ok(table) => result.resource_table = table,
        Err(error) => result.problem("resource table", &error),
    }
    result.read_tables(&elf);
    Ok(result)
}

impl Inspection {
    fn problem(&mut self, part: &str, error: &dyn fmt::Display) {
        self.problems.push(format!("{part}: {error}"));
    }

    /// Symbols and relocations: from the dynamic table, or from section headers for objects and static files.
    fn read_tables(&mut self, elf: &Elf<'_>) {
        let pointers =
            Machine::from_elf(elf.header().machine).map_or(outboard_elf::Pointers::Virtual, Machine::pointers);
        match elf.dynamic(pointers) {
            Err(error) => self.problem("dynamic table", &error),
            Ok(Some(dynamic)) => {
                if let Err(error) = self.read_dynamic(elf, &dynamic) {
                    self.problem("dynamic table", &error);
                }
            }
            Ok(None) => match elf.sections().and_then(|sections| self.read_sections(elf, &sections)) {
                Ok(()) => {}
                Err(error) => self.problem("section headers", &error),
            },
        }
    }

    fn read_dynamic(&mut self, elf: &Elf<'_>, dynamic: &Dynamic<'_>) -> Result<(), ElfError> {
        let class = elf.header().class;
        let address = dynamic.get(dt::STRTAB).unwrap_or(0);
        let size = dynamic.get(dt::STRSZ).unwrap_or(0);
        let strings = dynamic.data("DT_STRTAB", address, size).and_then(|data| StringTable::new("DT_STRTAB", data));
        for entry in dynamic.iter() {
            let text = match entry.tag {
                dt::NEEDED | dt::SONAME | dt::RPATH | dt::RUNPATH => {
                    let name = strings.and_then(|s| s.get("a dynamic tag", entry.value, elf.limits().name)).ok();
                    name.map(|name| String::from_utf8_lossy(name).into_owned())
                }
                _ => None,
            };
            let tag = named(entry.tag, dynamic_tag_name(entry.tag));
            self.dynamic.push(TagInfo { tag, value: entry.value, text });
        }
        let mut highest = 0;
        for (table, size) in [(dt::RELA, dt::RELASZ), (dt::JMPREL, dt::PLTRELSZ)] {
            let (Some(address), Some(size)) = (dynamic.get(table), dynamic.get(size)) else { continue };
            let inside_rela = table == dt::JMPREL && self.holds(dynamic, address, size);
            let raw = dynamic.data(dynamic_tag_name(table).unwrap_or("relocations"), address, size)?;
            let table = RelaTable::new(class, raw);
            highest = table.iter().map(|entry| u64::from(entry.symbol) + 1).fold(highest, u64::max);
            if !inside_rela {
                self.count(elf, &table);
            }
        }
        let count = match (dynamic.get(dt::HASH), dynamic.get(dt::GNU_HASH)) {
            (Some(hash), _) => u64::from(sysv_symbol_count(dynamic.data("DT_HASH", hash, 8)?)?),
            (None, Some(hash)) => gnu_symbol_count(dynamic.rest("DT_GNU_HASH", hash)?)?.max(highest),
            (None, None) => highest,
        };
        let Some(address) = dynamic.get(dt::SYMTAB) else { return Ok(()) };
        let raw = dynamic.data("DT_SYMTAB", address, count.saturating_mul(class.symbol_size()))?;
        self.list_symbols(elf, &SymbolTable::new(class, raw), strings?)
    }

    /// Whether the PLT's relocations are a part of `DT_RELA`, as the C7x linker writes them.
    fn holds(&self, dynamic: &Dynamic<'_>, address: u64, size: u64) -> bool {
        let (Some(start), Some(len)) = (dynamic.get(dt::RELA), dynamic.get(dt::RELASZ)) else { return false };
        address >= start && address.saturating_add(size) <= start.saturating_add(len)
    }

    fn read_sections(&mut self, elf: &Elf<'_>, sections: &Sections<'_>) -> Result<(), ElfError> {
        let class = elf.header().class;
        for section in sections.iter().filter(|section| section.kind == sht::RELA) {
            self.count(elf, &RelaTable::new(class, sections.data(&section)?));
        }
        let Some(table) = sections.iter().find(|section| section.kind == sht::SYMTAB) else { return Ok(()) };
        let linked = usize::try_from(table.link).ok().and_then(|index| sections.get(index));
        let strings = linked.map_or(Ok(&[][..]), |section: Section| sections.data(&section))?;
        let strings = StringTable::new("the string table of .symtab", strings)?;
        self.list_symbols(elf, &SymbolTable::new(class, sections.data(&table)?), strings)
    }

    fn count(&mut self, elf: &Elf<'_>, table: &RelaTable<'_>) {
        let rows = relocation_table(elf.header().machine);
        let mut known = [0_u64; 256];
        let mut other: BTreeMap<u32, u64> = BTreeMap::new();
        let mut more = 0;
        for entry in table.iter() {
            let slot = usize::try_from(entry.kind).ok().and_then(|kind| known.get_mut(kind));
            match slot {
                Some(count) => *count += 1,
                None if other.len() < 256 || other.contains_key(&entry.kind) => {
                    *other.entry(entry.kind).or_default() += 1
                }
                None => more += 1,
            }
        }
        let counted = (0_u32..).zip(known).filter(|(_, count)| *count > 0).chain(other);
        for (kind, count) in counted {
            let name =
                rows.and_then(|rows| rows.row(kind)).map_or_else(|| format!("unknown ({kind})"), |r| r.name.into());
            *self.relocations.entry(name).or_default() += count;
        }
        if more > 0 {
            *self.relocations.entry("unknown (others)".into()).or_default() += more;
        }
    }

    fn list_symbols(
        &mut self,
        elf: &Elf<'_>,
        symbols: &SymbolTable<'_>,
        strings: StringTable<'_>,
    ) -> Result<(), ElfError> {
        let mut names = NameReader::new(elf, strings);
        let mut room = MOST_DEMANGLED;
        for symbol in symbols.iter().filter(|symbol| !symbol.local()) {
            let list = if symbol.defined() { &mut self.exports } else { &mut self.imports };
            list.count += 1;
            if list.symbols.len() < MOST_SYMBOLS {
                let name = names.get(&symbol)?;
                let info = symbol_info(&symbol, name, room);
                room = room.saturating_sub(info.demangled.as_ref().map_or(0, String::len));
                list.symbols.push(info);
            }
        }
        Ok(())
    }
}

/// The relocation types of any machine that is read, Xtensa included.
fn relocation_table(machine: u16) -> Option<&'static outboard_reloc::Table> {
    match Machine::from_elf(machine)? {
        Machine::Xtensa => Some(outboard_reloc::xtensa::table()),
        machine => machine.relocations(),
    }
}

fn named(value: u64, name: Option<&str>) -> Named {
    Named { value, name: name.unwrap_or("unknown").to_string() }
}

fn header_info(elf: &Elf<'_>) -> HeaderInfo {
    let header = elf.header();
    HeaderInfo {
        class: if header.class == outboard_elf::Class::Elf32 { 32 } else { 64 },
        machine: named(u64::from(header.machine), em_name(header.machine)),
        kind: named(u64::from(header.kind), et_name(header.kind)),
        osabi: named(u64::from(header.osabi), osabi_name(header.osabi)),
        entry: header.entry,
        flags: header.flags,
        sections: u64::from(header.shnum),
    }
}

fn segments(elf: &Elf<'_>) -> Vec<SegmentInfo> {
    let machine = Machine::from_elf(elf.header().machine);
    let lowest = elf.load_segments().map(|segment| segment.vaddr).min().unwrap_or(0);
    elf.segments()
        .map(|segment| SegmentInfo {
            index: segment.index,
            kind: named(u64::from(segment.kind), segment_type_name(segment.kind)),
            perms: perms(&segment),
            offset: segment.offset,
            vaddr: segment.vaddr,
            filesz: segment.filesz,
            memsz: segment.memsz,
            align: segment.align,
            goes: destination(machine, &segment, lowest),
        })
        .collect()
}

fn perms(segment: &Segment) -> String {
    let bit = |set, letter| if set { letter } else { '-' };
    [bit(segment.readable(), 'r'), bit(segment.writable(), 'w'), bit(segment.executable(), 'x')].into_iter().collect()
}

fn destination(machine: Option<Machine>, segment: &Segment, lowest: u64) -> String {
    if segment.kind != pt::LOAD || segment.memsz == 0 {
        return "not loaded".into();
    }
    match machine {
        Some(Machine::C7x) if segment.executable() => format!("MAIN pool (code), {} bytes", segment.memsz),
        Some(Machine::C7x) if segment.writable() => format!("MAIN pool (data), {} bytes", segment.memsz),
        Some(Machine::C7x) if segment.filesz == segment.memsz => {
            format!("staging + {:#x}, used in place unless it is relocated or misaligned there", segment.offset)
        }
        Some(Machine::C7x) => format!("MAIN pool (constants with a zeroed tail), {} bytes", segment.memsz),
        Some(Machine::X86_64 | Machine::AArch64) => format!("block + {:#x}", segment.vaddr.wrapping_sub(lowest)),
        _ => format!("address {:#x}", segment.vaddr),
    }
}

fn note_info(owner: &[u8], kind: u32, desc: &[u8]) -> NoteInfo {
    let text = core::str::from_utf8(desc).ok().map(|text| text.trim_end_matches('\0'));
    let shown = text.filter(|text| text.len() <= MOST_NOTE && !text.chars().any(|c| c.is_control() && c != '\n'));
    NoteInfo {
        owner: String::from_utf8_lossy(owner).chars().take(MOST_NOTE).collect(),
        kind,
        size: desc.len(),
        text: shown.filter(|text| !text.is_empty()).map(String::from),
    }
}

fn symbol_info(symbol: &Symbol, name: &[u8], room: usize) -> SymbolInfo {
    let name = String::from_utf8_lossy(name).into_owned();
    SymbolInfo {
        demangled: if room == 0 { None } else { demangle(&name) },
        name,
        value: if symbol.shndx == shn::UNDEF { 0 } else { symbol.value },
        size: symbol.size,
        kind: match symbol.kind() {
            stt::FUNC => "function",
            stt::OBJECT => "object",
            _ => "other",
        },
        weak: symbol.weak(),
    }
}

/// The readable form of a C++ or Rust name. Names may unfold to enormous texts, so both sides are bounded.
#[must_use]
pub fn demangle(name: &str) -> Option<String> {
    const LONGEST_NAME: usize = 512;
    const LONGEST_TEXT: usize = 2048;
    if name.len() > LONGEST_NAME || !(name.starts_with("_Z") || name.starts_with("_R")) {
        return None;
    }
    let mut text = Bounded { text: String::new(), room: LONGEST_TEXT };
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        write!(text, "{rust:#}").ok()?;
        return Some(text.text);
    }
    let options = cpp_demangle::ParseOptions::default().recursion_limit(64);
    let symbol = cpp_demangle::Symbol::new_with_options(name, &options).ok()?;
    let options = cpp_demangle::DemangleOptions::default().recursion_limit(64);
    symbol.structured_demangle(&mut text, &options).ok()?;
    Some(text.text)
}

struct Bounded {
    text: String,
    room: usize,
}

impl fmt::Write for Bounded {
    fn write_str(&mut self, piece: &str) -> fmt::Result {
        self.room = self.room.checked_sub(piece.len()).ok_or(fmt::Error)?;
        self.text.push_str(piece);
        Ok(())
    }
}
