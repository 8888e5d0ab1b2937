//! Phase *resolve*: the address of every symbol, once.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};
use outboard_elf::{Elf, ElfError, RelaTable, StringTable, Symbol, shn, stt};

use crate::error::MissingSymbol;
use crate::hints;
use crate::image::{FIRMWARE_SYMBOLS_SECTION, Image, lossy, symbol_file};
use crate::layout::Layout;
use crate::{LoadError, LoadOptions, LoadRequest, Machine, Unresolved};

/// What the resolve phase knows.
pub(crate) struct Resolved {
    /// Address of every symbol of the module's table, 0 where there is none.
    pub values: Vec<u64>,
    pub globals: Globals,
    /// Names of the undefined symbols, in table order.
    pub imports: Vec<String>,
}

/// Why a symbol has no address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Missing {
    Import,
    NoDependency,
    Local,
    NoName,
    Outside,
    Reserved,
    ThreadLocal,
    Ifunc,
}

impl Missing {
    const fn reason(self) -> &'static str {
        match self {
            Self::Import => "not exported by the device and not defined in the module",
            Self::NoDependency => {
                "not defined in the module, which does not depend on dsp_syms.out (the symbols of the firmware)"
            }
            Self::Local => "local or hidden, and not defined in the module",
            Self::NoName => "a relocation uses symbol 0 or a symbol without a name where it needs one",
            Self::Outside => "defined outside of every loaded segment",
            Self::Reserved => "defined in a reserved section (COMMON or an extended index); link the module again",
            Self::ThreadLocal => "thread-local, which the device does not provide",
            Self::Ifunc => "a function chosen at load time (ifunc), which is not supported",
        }
    }
}

/// The defined, non-local symbols of a module by name. Owns the names: the file may go away.
#[derive(Debug, Default, Clone)]
pub(crate) struct Globals {
    names: Vec<u8>,
    entries: Vec<Global>,
    index: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

#[derive(Debug, Clone, Copy)]
struct Global {
    start: usize,
    len: usize,
    address: Option<u64>,
}

impl Globals {
    /// The address of a symbol.
    pub fn get(&self, name: &[u8]) -> Option<u64> {
        self.find(name)?.address
    }

    /// All symbols with an address, in table order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], u64)> {
        self.entries.iter().filter_map(|entry| Some((self.name(entry), entry.address?)))
    }

    fn find(&self, name: &[u8]) -> Option<&Global> {
        let hash = self.hasher.hash_one(name);
        let found = self.index.find(hash, |i| self.entry(*i).is_some_and(|entry| self.name(entry) == name))?;
        self.entry(*found)
    }

    fn entry(&self, index: u32) -> Option<&Global> {
        self.entries.get(usize::try_from(index).ok()?)
    }

    fn name(&self, entry: &Global) -> &[u8] {
        self.names.get(entry.start..).and_then(|rest| rest.get(..entry.len)).unwrap_or(&[])
    }

    /// Adds a symbol; the first definition of a name stays.
    fn insert(&mut self, name: &[u8], address: Option<u64>) {
        if self.find(name).is_some() {
            return;
        }
        let Ok(position) = u32::try_from(self.entries.len()) else { return };
        self.entries.push(Global { start: self.names.len(), len: name.len(), address });
        self.names.extend_from_slice(name);
        let Self { names, entries, index, hasher } = self;
        let hash = hasher.hash_one(name);
        index.insert_unique(hash, position, |i| {
            let entry = usize::try_from(*i).ok().and_then(|i| entries.get(i));
            let name = entry.and_then(|entry| names.get(entry.start..entry.start + entry.len));
            hasher.hash_one(name.unwrap_or(&[]))
        });
    }
}

/// Reads names and keeps the total below a multiple of the file: names may overlap in the table, so their total length is
/// not bounded by it.
struct Names<'a> {
    strings: StringTable<'a>,
    longest: u64,
    left: u64,
    budget: u64,
}

impl<'a> Names<'a> {
    fn new(elf: &Elf<'_>, strings: StringTable<'a>) -> Self {
        let budget = 2 * elf.bytes().len() + (1 << 20);
        Self { strings, longest: elf.limits().name, left: budget, budget }
    }

    fn get(&mut self, symbol: &Symbol) -> Result<&'a [u8], ElfError> {
        let name = match (symbol.name, self.strings.is_empty()) {
            (0, true) => &[],
            (offset, _) => self.strings.get("a symbol name", u64::from(offset), self.longest)?,
        };
        let limit =
            ElfError::Limit { what: "the total length of symbol names", value: self.budget + 1, limit: self.budget };
        self.left = self.left.checked_sub(name.len() as u64 + 1).ok_or(limit)?;
        Ok(name)
    }
}

/// Gives every symbol its address. Symbols that no relocation uses may stay without one.
pub(crate) fn resolve(
    image: &Image<'_>,
    layout: &Layout,
    request: &LoadRequest<'_>,
    options: &LoadOptions<'_>,
) -> Result<Resolved, LoadError> {
    let mut names = Names::new(&image.elf, image.strings);
    let sections = section_deltas(image, layout);
    let globals = collect_globals(image, layout, &sections, &mut names)?;
    let mut resolved = Resolved { values: Vec::with_capacity(image.symbols.len()), globals, imports: Vec::new() };
    let mut missing: Vec<(u32, Missing)> = Vec::new();
    let use_exports = image.machine != Machine::C7x || !image.needed.is_empty();
    for (index, symbol) in (0_u32..).zip(image.symbols.iter()) {
        let address = if symbol.local() || !symbol.default_visibility() {
            own_address(image, layout, &sections, &symbol)
        } else {
            let name = names.get(&symbol)?;
            if !symbol.defined() && !name.is_empty() {
                resolved.imports.push(lossy(name));
            }
            lookup(image, &resolved.globals, request, options, use_exports, &symbol, name)
        };
        resolved.values.push(address.unwrap_or(0));
        match address {
            // Every table has a symbol 0; the pass over the relocations refuses its use.
            Err(reason) if index != 0 => missing.push((index, reason)),
            _ => {}
        }
    }
    report_missing(image, request, &missing)?;
    Ok(resolved)
}

/// A default-visibility symbol: the device's definition comes first, then the module's own by name.
fn lookup(
    image: &Image<'_>,
    globals: &Globals,
    request: &LoadRequest<'_>,
    options: &LoadOptions<'_>,
    use_exports: bool,
    symbol: &Symbol,
    name: &[u8],
) -> Result<u64, Missing> {
    if name.is_empty() {
        return if image.machine == Machine::C7x { Err(Missing::NoName) } else { Ok(0) };
    }
    let own = || globals.find(name).map(|entry| entry.address.ok_or(Missing::Outside));
    let own_first = image.machine != Machine::C7x && image.symbolic && symbol.defined();
    let device = || match use_exports {
        true => request.exports.get_bytes(name).or_else(|| {
            let resolver = options.resolver.filter(|_| !symbol.defined())?;
            resolver(core::str::from_utf8(name).ok()?)
        }),
        false => None,
    };
    if let Some(own) = own().filter(|_| own_first) {
        return own;
    }
    if let Some(address) = device() {
        return Ok(address);
    }
    match own() {
        Some(own) => own,
        None if symbol.weak() && image.machine != Machine::C7x => Ok(0),
        None if use_exports => Err(Missing::Import),
        None => Err(Missing::NoDependency),
    }
}

fn collect_globals(
    image: &Image<'_>,
    layout: &Layout,
    sections: &[Option<u64>],
    names: &mut Names<'_>,
) -> Result<Globals, LoadError> {
    let mut globals = Globals::default();
    for symbol in image.symbols.iter().skip(image.first_global) {
        if symbol.local() || !symbol.defined() {
            continue;
        }
        let name = names.get(&symbol)?;
        if !name.is_empty() {
            globals.insert(name, own_address(image, layout, sections, &symbol).ok());
        }
    }
    Ok(globals)
}

/// The address of the module's own definition.
fn own_address(image: &Image<'_>, layout: &Layout, sections: &[Option<u64>], symbol: &Symbol) -> Result<u64, Missing> {
    match symbol.shndx {
        shn::UNDEF if symbol.name == 0 && symbol.value == 0 && image.machine != Machine::C7x => return Ok(0),
        shn::UNDEF if symbol.name == 0 => return Err(Missing::NoName),
        shn::UNDEF => return Err(Missing::Local),
        shn::ABS => return Ok(symbol.value),
        index if index >= shn::LORESERVE => return Err(Missing::Reserved),
        _ => {}
    }
    match symbol.kind() {
        stt::TLS => return Err(Missing::ThreadLocal),
        stt::GNU_IFUNC => return Err(Missing::Ifunc),
        _ => {}
    }
    if image.machine.one_block() {
        return Ok(symbol.value.wrapping_add(layout.bias));
    }
    let by_section = sections.get(usize::from(symbol.shndx)).copied().flatten();
    let delta = by_section.or_else(|| delta_of_address(image, layout, symbol.value)).ok_or(Missing::Outside)?;
    Ok(symbol.value.wrapping_add(delta))
}

/// How far the segment that holds `address` moved; an address right behind a segment moves with it.
fn delta_of_address(image: &Image<'_>, layout: &Layout, address: u64) -> Option<u64> {
    let position =
        image.load_at(address).or_else(|| image.loads.iter().position(|segment| segment.end() == Some(address)))?;
    layout.spots.get(position).map(|spot| spot.delta)
}

/// How far each section moved. A symbol belongs to a section, so a symbol at the very end of one moves with it.
fn section_deltas(image: &Image<'_>, layout: &Layout) -> Vec<Option<u64>> {
    let Some(sections) = &image.sections else { return Vec::new() };
    let delta = |address| image.load_at(address).and_then(|position| layout.spots.get(position)).map(|spot| spot.delta);
    sections.iter().map(|section| delta(section.address)).collect()
}

/// One error for all symbols that relocations use and nothing defines.
fn report_missing(image: &Image<'_>, request: &LoadRequest<'_>, missing: &[(u32, Missing)]) -> Result<(), LoadError> {
    if missing.is_empty() {
        return Ok(());
    }
    let mut used = vec![false; missing.len()];
    for entry in image.rela.iter().flat_map(RelaTable::iter) {
        if let Ok(position) = missing.binary_search_by_key(&entry.symbol, |(index, _)| *index)
            && let Some(flag) = used.get_mut(position)
        {
            *flag = true;
        }
    }
    let mut symbols: Vec<MissingSymbol> = missing
        .iter()
        .zip(&used)
        .filter(|(_, used)| **used)
        .map(|((index, reason), _)| MissingSymbol {
            name: image.name_for_message(*index),
            reason: reason.reason(),
            near: Vec::new(),
        })
        .collect();
    if symbols.is_empty() {
        return Ok(());
    }
    symbols.sort_unstable_by(|a, b| (&a.name, a.reason).cmp(&(&b.name, b.reason)));
    symbols.dedup();
    hints::suggest(&mut symbols, request.exports);
    let hints = hints::advice(&symbols, &stale_names(image, &symbols));
    Err(LoadError::Unresolved(alloc::boxed::Box::new(Unresolved { module: request.name.into(), symbols, hints })))
}

/// Missing names that the firmware had when the module was linked: they are in the symbol file inside the module.
fn stale_names(image: &Image<'_>, missing: &[MissingSymbol]) -> Vec<String> {
    let embedded = image.sections.and_then(|sections| {
        let section = sections.by_name(FIRMWARE_SYMBOLS_SECTION)?;
        embedded_names(sections.data(&section).ok()?)
    });
    let Some(names) = embedded else { return Vec::new() };
    missing.iter().filter(|symbol| names.get(symbol.name.as_bytes()).is_some()).map(|s| s.name.clone()).collect()
}

fn embedded_names(file: &[u8]) -> Option<Globals> {
    let elf = Elf::parse(file).ok()?;
    let (strings, symbols) = symbol_file(&elf)?;
    let mut names = Names::new(&elf, strings);
    let mut globals = Globals::default();
    for symbol in symbols.iter().filter(|symbol| symbol.defined() && !symbol.local()) {
        globals.insert(names.get(&symbol).ok()?, Some(symbol.value));
    }
    Some(globals)
}
