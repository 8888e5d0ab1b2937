//! Writes whole images: modules for tests and benchmarks, prelinked and statically linked files later.
//!
//! [`ImageBuilder`] collects segments, symbols, relocations and dynamic tags and lays them out. It can also write wrong
//! images on purpose (tags left out or overridden, headers added), because the reader is tested with them.

mod encode;
mod spec;

use alloc::string::{String, ToString};
use alloc::vec::Vec;

pub use spec::{Home, Place, Reference, RelocationSpec, SegmentId, SegmentSpec, SymbolId, SymbolSpec};

use crate::{Class, Segment, et, machine, osabi, pf, stt};

/// Which symbol hash tables are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HashStyle {
    /// `DT_HASH`.
    SysV,
    /// `DT_GNU_HASH`.
    Gnu,
    /// Both.
    Both,
}

/// File offsets of the tables of an image, for tests that damage one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FileMap {
    /// Program headers.
    pub program_headers: u64,
    /// Dynamic table.
    pub dynamic: u64,
    /// Hash table.
    pub hash: u64,
    /// Symbol table.
    pub symbols: u64,
    /// Number of symbols, symbol 0 included.
    pub symbol_count: u64,
    /// String table.
    pub strings: u64,
    /// Relocations.
    pub relocations: u64,
    /// Section headers, 0 when there are none.
    pub section_headers: u64,
}

/// Builds an image.
#[derive(Debug, Clone)]
pub struct ImageBuilder {
    class: Class,
    machine: u16,
    osabi: u8,
    kind: u16,
    entry: u64,
    base: u64,
    soname: String,
    needed: Vec<String>,
    segments: Vec<SegmentSpec>,
    symbols: Vec<SymbolSpec>,
    relocations: Vec<RelocationSpec>,
    relative: Vec<u64>,
    plt: usize,
    tags: Vec<(u64, u64)>,
    overrides: Vec<(u64, u64)>,
    dropped: Vec<u64>,
    headers: Vec<Segment>,
    notes: Vec<u8>,
    embedded: Option<Vec<u8>>,
    hash: HashStyle,
    dynamic: bool,
    sections: bool,
    tables_loaded: bool,
}

impl ImageBuilder {
    /// An empty shared object for a machine. For the C7x the tables are not loaded and dynamic pointers are file offsets, as
    /// its linker does; for all others the tables are loaded and dynamic pointers are addresses.
    #[must_use]
    pub fn new(machine: u16) -> Self {
        let c7x = machine == machine::C7X;
        Self {
            class: if machine == machine::XTENSA { Class::Elf32 } else { Class::Elf64 },
            machine,
            osabi: if c7x { osabi::C7X_BARE } else { osabi::SYSV },
            kind: et::DYN,
            entry: 0,
            base: if c7x { 0x8000_0000 } else { 0 },
            soname: "module.out".to_string(),
            needed: Vec::new(),
            segments: Vec::new(),
            symbols: Vec::new(),
            relocations: Vec::new(),
            relative: Vec::new(),
            plt: 0,
            tags: Vec::new(),
            overrides: Vec::new(),
            dropped: Vec::new(),
            headers: Vec::new(),
            notes: Vec::new(),
            embedded: None,
            hash: HashStyle::SysV,
            dynamic: true,
            sections: true,
            tables_loaded: !c7x,
        }
    }

    /// Adds a segment; it gets the next free address unless it has one.
    pub fn segment(&mut self, spec: SegmentSpec) -> SegmentId {
        let align = spec.align.max(1);
        let next = self.segments.iter().map(|s| s.vaddr.unwrap_or(0) + s.memsz + 0x40).max().unwrap_or(self.base);
        let vaddr = spec.vaddr.unwrap_or(next.next_multiple_of(align));
        self.segments.push(SegmentSpec { vaddr: Some(vaddr), ..spec });
        SegmentId(self.segments.len() - 1)
    }

    /// The link address of a segment.
    #[must_use]
    pub fn address(&self, segment: SegmentId) -> u64 {
        self.segments.get(segment.0).and_then(|segment| segment.vaddr).unwrap_or(0)
    }

    /// Adds a symbol.
    pub fn symbol(&mut self, spec: SymbolSpec) -> SymbolId {
        self.symbols.push(spec);
        SymbolId(self.symbols.len() - 1)
    }

    /// Adds a relocation.
    pub fn relocate(&mut self, spec: RelocationSpec) -> &mut Self {
        self.relocations.push(spec);
        self
    }

    /// Adds a packed relative relocation (`DT_RELR`) at `offset` of a segment; the word there is its addend.
    pub fn relocate_relative(&mut self, segment: SegmentId, offset: u64) -> &mut Self {
        let place = self.address(segment) + offset;
        self.relative.push(place);
        self
    }

    /// The last `count` relocations are described as those of the PLT (`DT_JMPREL`).
    pub fn plt(&mut self, count: usize) -> &mut Self {
        self.plt = count;
        self
    }

    /// Sets `DT_SONAME`.
    pub fn soname(&mut self, name: &str) -> &mut Self {
        self.soname = name.to_string();
        self
    }

    /// Adds a `DT_NEEDED`.
    pub fn needed(&mut self, name: &str) -> &mut Self {
        self.needed.push(name.to_string());
        self
    }

    /// Adds the section `.dsp_syms_out` with a symbol file that defines `names`, as modules for the firmware carry it.
    pub fn firmware_symbols(&mut self, names: &[&str]) -> &mut Self {
        let mut image = Self::new(self.machine);
        image.kind = et::EXEC;
        image.soname("dsp_syms.out");
        let size = 16 * names.len().max(1) as u64;
        let text = image.segment(SegmentSpec::zeroed(pf::R | pf::X, size).at(0x1000));
        for (index, name) in names.iter().enumerate() {
            image.symbol(SymbolSpec::function(name, text, 16 * index as u64, 0));
        }
        self.embed(image.build())
    }

    /// Adds the section `.dsp_syms_out` with these bytes.
    pub fn embed(&mut self, bytes: Vec<u8>) -> &mut Self {
        self.embedded = Some(bytes);
        self
    }

    /// Adds a note.
    pub fn note(&mut self, owner: &str, kind: u32, desc: &[u8]) -> &mut Self {
        encode::push_note(&mut self.notes, owner, kind, desc);
        self
    }

    /// Adds a dynamic tag.
    pub fn tag(&mut self, tag: u64, value: u64) -> &mut Self {
        self.tags.push((tag, value));
        self
    }

    /// Writes another value than the right one for a dynamic tag.
    pub fn override_tag(&mut self, tag: u64, value: u64) -> &mut Self {
        self.overrides.push((tag, value));
        self
    }

    /// Leaves a dynamic tag out.
    pub fn drop_tag(&mut self, tag: u64) -> &mut Self {
        self.dropped.push(tag);
        self
    }

    /// Adds a program header as it is.
    pub fn header(&mut self, header: Segment) -> &mut Self {
        self.headers.push(header);
        self
    }

    /// Sets the entry point.
    pub fn entry(&mut self, address: u64) -> &mut Self {
        self.entry = address;
        self
    }

    /// Sets the file type.
    pub fn kind(&mut self, kind: u16) -> &mut Self {
        self.kind = kind;
        self
    }

    /// Sets the address of the first segment; call it before adding one.
    pub fn base(&mut self, address: u64) -> &mut Self {
        self.base = address;
        self
    }

    /// Chooses the symbol hash tables.
    pub fn hash(&mut self, style: HashStyle) -> &mut Self {
        self.hash = style;
        self
    }

    /// Writes no dynamic table: a static image.
    pub fn without_dynamic(&mut self) -> &mut Self {
        self.dynamic = false;
        self.tables_loaded = false;
        self
    }

    /// Puts the tables into a read-only segment. For the C7x its addresses are the file offsets, as dynamic pointers are.
    pub fn load_tables(&mut self) -> &mut Self {
        self.tables_loaded = true;
        self
    }

    /// Writes no section headers.
    pub fn without_sections(&mut self) -> &mut Self {
        self.sections = false;
        self
    }

    /// Adds a local symbol for the start of a segment, as linkers do for relocations against it.
    pub fn section_symbol(&mut self, segment: SegmentId) -> SymbolId {
        self.symbol(SymbolSpec { kind: stt::SECTION, ..SymbolSpec::local("", segment, 0) })
    }

    /// The bytes of the file.
    #[must_use]
    pub fn build(&self) -> Vec<u8> {
        self.build_mapped().0
    }

    /// The bytes of the file and where its tables are.
    #[must_use]
    pub fn build_mapped(&self) -> (Vec<u8>, FileMap) {
        encode::encode(self)
    }
}
