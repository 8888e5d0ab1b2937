//! Phase *commit*: a module that is loaded, and what can be asked of it.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use outboard_elf::{Elf, Segment, StringTable, Symbol, SymbolTable, sht, stt};

use crate::image::Image;
use crate::layout::{Layout, release_all};
use crate::names::{Globals, KeptNames, NameReader};
use crate::symbols::Resolved;
use crate::{LoadError, Machine, TargetMemory};

/// Permissions of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Perms {
    /// Readable.
    pub r: bool,
    /// Writable.
    pub w: bool,
    /// Executable.
    pub x: bool,
}

/// One loaded segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoadedSegment {
    /// Position among the module's `PT_LOAD` headers that occupy memory.
    pub index: usize,
    /// Link address.
    pub vaddr: u64,
    /// Device address.
    pub base: u64,
    /// Size in memory, in bytes.
    pub memsz: u64,
    /// Bytes that came from the file; the rest is zero.
    pub filesz: u64,
    /// Permissions.
    pub perms: Perms,
    /// It lies inside the staged file, which must stay untouched.
    pub in_place: bool,
}

/// A module in device memory. It owns its blocks until [`LoadedModule::release`].
///
/// Its names are those in the file; [`LoadedModule::into_owned`] copies them, for a module that outlives its file.
#[derive(Debug)]
#[must_use = "a module that is dropped without release() keeps its blocks"]
pub struct LoadedModule<'f> {
    parts: Parts<'f>,
    blocks: Vec<(u64, u64)>,
}

/// Where the names of a module are.
#[derive(Debug)]
enum Names<'f> {
    File(FileNames<'f>),
    Kept(KeptNames),
}

/// The names where they lie in the file, and the addresses of the resolve phase.
#[derive(Debug)]
struct FileNames<'f> {
    elf: Elf<'f>,
    globals: Globals<'f>,
    values: Vec<u64>,
}

/// The items of whichever there is.
fn either<T>(
    first: Option<impl Iterator<Item = T>>,
    second: Option<impl Iterator<Item = T>>,
) -> impl Iterator<Item = T> {
    first.into_iter().flatten().chain(second.into_iter().flatten())
}

/// Everything about a module except its blocks.
#[derive(Debug)]
pub(crate) struct Parts<'f> {
    machine: Machine,
    segments: Vec<LoadedSegment>,
    names: Names<'f>,
    relocations: BTreeMap<&'static str, u64>,
    initialisers: Vec<u64>,
    finalisers: Vec<u64>,
    entry: Option<u64>,
}

impl<'f> LoadedModule<'f> {
    pub(crate) const fn new(parts: Parts<'f>, blocks: Vec<(u64, u64)>) -> Self {
        Self { parts, blocks }
    }

    /// The address of a symbol that the module defines and others may see.
    #[must_use]
    pub fn symbol(&self, name: &str) -> Option<u64> {
        match &self.parts.names {
            Names::File(names) => names.globals.get(name.as_bytes(), &names.values),
            Names::Kept(names) => names.get(name.as_bytes()),
        }
    }

    /// Every symbol that the module defines and others may see, in the order of its table.
    pub fn symbols(&self) -> impl Iterator<Item = (&str, u64)> {
        self.globals().filter_map(|(name, address)| Some((core::str::from_utf8(name).ok()?, address)))
    }

    fn globals(&self) -> impl Iterator<Item = (&[u8], u64)> {
        let (file, kept) = match &self.parts.names {
            Names::File(names) => (Some(names.globals()), None),
            Names::Kept(names) => (None, Some(names.globals())),
        };
        either(file, kept)
    }

    fn functions(&self) -> impl Iterator<Item = (&[u8], u64)> {
        let (file, kept) = match &self.parts.names {
            Names::File(names) => (Some(names.functions(&self.parts.segments)), None),
            Names::Kept(names) => (None, Some(names.functions())),
        };
        either(file, kept)
    }

    /// Copies the module's names, so that its file may go away.
    ///
    /// ```
    /// # use outboard_link::{LoadError, LoadRequest, LoadedModule, TargetMemory, load};
    /// fn load_file(
    ///     path: &str,
    ///     request: &LoadRequest<'_>,
    ///     memory: &mut dyn TargetMemory,
    /// ) -> Result<LoadedModule<'static>, Box<dyn core::error::Error>> {
    ///     let file = std::fs::read(path)?;
    ///     Ok(load(&LoadRequest { file: &file, ..*request }, memory)?.into_owned())
    /// }
    /// ```
    pub fn into_owned(self) -> LoadedModule<'static> {
        let Parts { machine, segments, names, relocations, initialisers, finalisers, entry } = self.parts;
        let names = match names {
            Names::Kept(names) => names,
            Names::File(names) => KeptNames::new(names.globals(), names.functions(&segments), names.globals.imports()),
        };
        let names = Names::Kept(names);
        let parts = Parts { machine, segments, names, relocations, initialisers, finalisers, entry };
        LoadedModule { parts, blocks: self.blocks }
    }

    /// The function that `address` is in, and how far inside: for crash reports. Local functions are known when the file
    /// has a full symbol table.
    #[must_use]
    pub fn nearest_symbol(&self, address: u64) -> Option<(&str, u64)> {
        let segment = self.parts.segments.iter().find(|s| s.perms.x && address.wrapping_sub(s.base) < s.memsz)?;
        let inside = |start: u64| start >= segment.base && start <= address;
        let (name, start) = self
            .globals()
            .chain(self.functions())
            .filter(|(_, start)| inside(*start))
            .max_by_key(|(_, start)| *start)?;
        Some((core::str::from_utf8(name).ok()?, address - start))
    }

    /// The segments, in header order.
    #[must_use]
    pub fn segments(&self) -> &[LoadedSegment] {
        &self.parts.segments
    }

    /// How many relocations of each type were applied, by type name.
    #[must_use]
    pub const fn relocations(&self) -> &BTreeMap<&'static str, u64> {
        &self.parts.relocations
    }

    /// Functions to call, in order, before the module is used.
    #[must_use]
    pub fn initialisers(&self) -> &[u64] {
        &self.parts.initialisers
    }

    /// Functions to call, in order, before the module is released.
    #[must_use]
    pub fn finalisers(&self) -> &[u64] {
        &self.parts.finalisers
    }

    /// The machine the module is for.
    #[must_use]
    pub const fn machine(&self) -> Machine {
        self.parts.machine
    }

    /// The entry point of the file's header, when it has one inside a segment.
    #[must_use]
    pub const fn entry(&self) -> Option<u64> {
        self.parts.entry
    }

    /// Names of the symbols that the module takes from elsewhere, in the order of its table.
    pub fn imports(&self) -> impl Iterator<Item = &str> {
        let (file, kept) = match &self.parts.names {
            Names::File(names) => (Some(names.globals.imports()), None),
            Names::Kept(names) => (None, Some(names.imports())),
        };
        either(file, kept).map(|name| core::str::from_utf8(name).unwrap_or("(not UTF-8)"))
    }

    /// Device memory that the module holds, in bytes, without what is used in place.
    #[must_use]
    pub fn claimed(&self) -> u64 {
        self.blocks.iter().map(|(_, size)| size).sum()
    }

    /// Zeroes the module's blocks and gives them back.
    pub fn release(self, memory: &mut dyn TargetMemory) {
        release_all(memory, &self.blocks);
    }
}

impl<'f> Parts<'f> {
    pub fn collect(
        image: &Image<'f>,
        layout: &Layout,
        resolved: Resolved<'f>,
        counts: &[u64],
        packed: u64,
        memory: &dyn TargetMemory,
    ) -> Result<Self, LoadError> {
        let segments: Vec<LoadedSegment> = loaded_segments(image, layout);
        let rows = image.machine.relocations().map_or(&[][..], |table| table.rows());
        let mut relocations: BTreeMap<&'static str, u64> =
            rows.iter().zip(counts).filter(|(_, count)| **count > 0).map(|(row, count)| (row.name, *count)).collect();
        if packed > 0 {
            relocations.insert("DT_RELR", packed);
        }
        let calls = Calls { image, layout, memory };
        let tables = &image.functions;
        let mut initialisers = calls.array("DT_PREINIT_ARRAY", tables.preinit_array)?;
        initialisers.extend(calls.single("DT_INIT", tables.init)?);
        initialisers.extend(calls.array("DT_INIT_ARRAY", tables.init_array)?);
        let mut finalisers = calls.array("DT_FINI_ARRAY", tables.fini_array)?;
        finalisers.reverse();
        finalisers.extend(calls.single("DT_FINI", tables.fini)?);
        let Resolved { values, globals } = resolved;
        Ok(Self {
            machine: image.machine,
            segments,
            names: Names::File(FileNames { elf: image.elf, globals, values }),
            relocations,
            initialisers,
            finalisers,
            entry: entry(image, layout),
        })
    }
}

fn loaded_segments(image: &Image<'_>, layout: &Layout) -> Vec<LoadedSegment> {
    let segment = |index, segment: &Segment, base, in_place| LoadedSegment {
        index,
        vaddr: segment.vaddr,
        base,
        memsz: segment.memsz,
        filesz: segment.filesz,
        perms: Perms { r: segment.readable(), w: segment.writable(), x: segment.executable() },
        in_place,
    };
    let pairs = image.loads.iter().zip(&layout.spots).enumerate();
    pairs.map(|(index, (header, spot))| segment(index, header, spot.base, spot.in_place)).collect()
}

/// Moves a link address with its segment.
fn moved(image: &Image<'_>, layout: &Layout, address: u64) -> Option<(usize, u64)> {
    let position = image.load_at(address)?;
    Some((position, address.wrapping_add(layout.spots.get(position)?.delta)))
}

fn entry(image: &Image<'_>, layout: &Layout) -> Option<u64> {
    let entry = image.elf.header().entry;
    if entry == 0 { None } else { moved(image, layout, entry).map(|(_, address)| address) }
}

/// Reads tables of functions after relocation.
struct Calls<'c, 'a> {
    image: &'c Image<'a>,
    layout: &'c Layout,
    memory: &'c dyn TargetMemory,
}

impl Calls<'_, '_> {
    /// One function given by its link address; none for 0.
    fn single(&self, tag: &'static str, address: u64) -> Result<Option<u64>, LoadError> {
        if address == 0 {
            return Ok(None);
        }
        let bad = bad_tag(tag, "does not point into an executable segment", address);
        let (position, address) = moved(self.image, self.layout, address).ok_or_else(|| bad.clone())?;
        match self.image.loads.get(position) {
            Some(segment) if segment.executable() => Ok(Some(address)),
            _ => Err(bad),
        }
    }

    /// A table of relocated function addresses; entries of 0 and -1 are skipped.
    fn array(&self, tag: &'static str, (address, size): (u64, u64)) -> Result<Vec<u64>, LoadError> {
        if size == 0 {
            return Ok(Vec::new());
        }
        let outside = || bad_tag(tag, "is not a table inside one segment", address);
        let (position, base) = moved(self.image, self.layout, address).ok_or_else(outside)?;
        let segment = self.image.loads.get(position).ok_or_else(outside)?;
        if size > segment.memsz - (address - segment.vaddr) {
            return Err(outside());
        }
        let bytes = self.memory.bytes(base, size).ok_or(LoadError::MemoryFault { address: base, len: size })?;
        let words = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
        words.filter(|word| *word != 0 && *word != u64::MAX).map(|word| self.inside(tag, word)).collect()
    }

    fn inside(&self, tag: &'static str, address: u64) -> Result<u64, LoadError> {
        let mut pairs = self.image.loads.iter().zip(&self.layout.spots);
        let found =
            pairs.any(|(segment, spot)| segment.executable() && address.wrapping_sub(spot.base) < segment.memsz);
        if found { Ok(address) } else { Err(bad_tag(tag, "holds an address outside of the module's code", address)) }
    }
}

fn bad_tag(tag: &'static str, problem: &'static str, value: u64) -> LoadError {
    outboard_elf::ElfError::BadDynamic { tag, problem, value }.into()
}

impl<'f> FileNames<'f> {
    fn globals(&self) -> impl Iterator<Item = (&'f [u8], u64)> {
        self.globals
            .iter()
            .filter_map(|(position, name)| Some((name, self.globals.own_address(position, &self.values)?)))
    }

    /// The functions that are not among the globals, with their addresses; local ones are known when the file has a full
    /// symbol table. Names that the budget of the name reader does not allow are left out.
    fn functions(&self, segments: &[LoadedSegment]) -> impl Iterator<Item = (&'f [u8], u64)> {
        let full = full_symbol_table(&self.elf);
        let used = self.globals.table();
        let (symbols, strings) = full.unwrap_or((used.symbols, used.strings));
        let mut names = NameReader::new(&self.elf, strings);
        let wanted =
            move |symbol: &Symbol| symbol.kind() == stt::FUNC && symbol.defined() && (symbol.local() || full.is_some());
        symbols.iter().filter(wanted).filter_map(move |symbol| {
            let segment = segments.iter().find(|s| symbol.value.wrapping_sub(s.vaddr) < s.memsz)?;
            let address = symbol.value.wrapping_sub(segment.vaddr).wrapping_add(segment.base);
            let name = names.get(&symbol).ok()?;
            let other = symbol.local() || self.globals.get(name, &self.values).is_none();
            other.then_some((name, address))
        })
    }
}

/// The table of `.symtab`, which also has the local functions. Missing or damaged section headers are no error here.
fn full_symbol_table<'a>(elf: &Elf<'a>) -> Option<(SymbolTable<'a>, StringTable<'a>)> {
    let sections = elf.sections().ok()?;
    let table = sections.iter().find(|section| section.kind == sht::SYMTAB)?;
    let strings = sections.get(usize::try_from(table.link).ok()?)?;
    let strings = StringTable::new("the string table of .symtab", sections.data(&strings).ok()?).ok()?;
    Some((SymbolTable::new(elf.header().class, sections.data(&table).ok()?), strings))
}
