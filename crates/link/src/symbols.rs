//! Phase *resolve*: the address of every symbol, once.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use outboard_elf::{Elf, RelaTable, Symbol, shn, stt};

use crate::error::MissingSymbol;
use crate::hints;
use crate::image::{FIRMWARE_SYMBOLS_SECTION, Image, symbol_file};
use crate::layout::Layout;
use crate::names::{Globals, NameReader, NamedSymbols};
use crate::{ExportTable, LoadError, LoadOptions, LoadRequest, Machine, Unresolved};

/// What the resolve phase knows.
pub(crate) struct Resolved<'a> {
    /// Address of every symbol of the module's table as relocations use it, 0 where there is none.
    pub values: Vec<u64>,
    pub globals: Globals<'a>,
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
            Self::NoName => "a relocation uses a symbol without a name where it needs one",
            Self::Outside => "defined outside of every loaded segment",
            Self::Reserved => "defined in a reserved section (COMMON or an extended index); link the module again",
            Self::ThreadLocal => "thread-local, which the device does not provide",
            Self::Ifunc => "a function chosen at load time (ifunc), which is not supported",
        }
    }
}

/// Everything that gives a symbol its address.
struct Resolver<'r, 'a> {
    image: &'r Image<'a>,
    layout: &'r Layout,
    options: &'r LoadOptions<'r>,
    exports: &'r ExportTable,
    /// How far each section moved.
    sections: Vec<Option<u64>>,
    globals: Globals<'a>,
    /// The module may use the device's symbols.
    use_exports: bool,
}

/// Gives every symbol its address. Symbols that no relocation uses may stay without one.
pub(crate) fn resolve<'a>(
    image: &Image<'a>,
    layout: &Layout,
    request: &LoadRequest<'_>,
    options: &LoadOptions<'_>,
) -> Result<Resolved<'a>, LoadError> {
    let (locals, count) = (image.first_global, image.symbols.len());
    let table = NamedSymbols::new(&image.elf, image.symbols, image.strings);
    let mut resolver = Resolver {
        image,
        layout,
        options,
        exports: request.exports,
        sections: section_deltas(image, layout),
        globals: Globals::new(table, request.exports.hasher(), definitions(image)),
        use_exports: image.machine != Machine::C7x || !image.needed.is_empty(),
    };
    let later = |symbol: &Symbol, index: u32| !symbol.local() && (!symbol.defined() || (index as usize) < locals);
    let mut names = NameReader::new(&image.elf, image.strings);
    let mut values: Vec<u64> = Vec::with_capacity(count);
    let mut missing: Vec<(u32, Missing)> = Vec::new();
    for (index, symbol) in (0_u32..).zip(image.symbols.iter()) {
        let address = match symbol.local() {
            true => resolver.own_address(&symbol),
            // Definitions first: what is only used may be defined further down.
            false if later(&symbol, index) => Ok(0),
            false => {
                let name = names.get(&symbol)?;
                resolver.define((index, &symbol), name, &values)
            }
        };
        values.push(match address {
            Ok(address) => address,
            // Every table has a symbol 0; the pass over the relocations refuses its use.
            Err(_) if index == 0 => 0,
            Err(reason) => {
                missing.push((index, reason));
                0
            }
        });
    }
    for (index, symbol) in (0_u32..).zip(image.symbols.iter()).filter(|(index, symbol)| later(symbol, *index)) {
        let name = names.get(&symbol)?;
        match (resolver.look_up(&symbol, name, &values), values.get_mut(index as usize)) {
            (Ok(address), Some(value)) => *value = address,
            (Err(reason), _) => missing.push((index, reason)),
            _ => {}
        }
    }
    missing.sort_unstable_by_key(|(index, _)| *index);
    report_missing(image, request, &missing)?;
    Ok(Resolved { values, globals: resolver.globals })
}

impl Resolver<'_, '_> {
    /// Enters a definition into the table of globals. Its address for the module itself: the device's definition comes
    /// first for symbols of default visibility, then the first definition of the name.
    fn define(&mut self, (index, symbol): (u32, &Symbol), name: &[u8], values: &[u64]) -> Result<u64, Missing> {
        let own = self.own_address(symbol);
        if name.is_empty() {
            return own;
        }
        let hash = self.exports.hash(name);
        let earlier = own.ok().and_then(|_| self.globals.insert(hash, name, index));
        if !symbol.default_visibility() {
            return own;
        }
        let own_first = self.image.symbolic && self.image.machine != Machine::C7x;
        let device = (self.use_exports && !own_first).then(|| self.exports.get_hashed(hash, name)).flatten();
        match (device, own, earlier) {
            (Some(device), own, earlier) => {
                if let (Ok(own), None) = (own, earlier) {
                    self.globals.preempt(index, own);
                }
                Ok(device)
            }
            (None, Ok(own), Some(earlier)) => Ok(self.globals.own_address(earlier, values).unwrap_or(own)),
            (None, own, _) => own,
        }
    }

    /// The address of a symbol that the module does not define where it stands in the table.
    fn look_up(&self, symbol: &Symbol, name: &[u8], values: &[u64]) -> Result<u64, Missing> {
        let host = self.image.machine != Machine::C7x;
        if !symbol.default_visibility() {
            return self.own_address(symbol);
        }
        if name.is_empty() {
            return if host { Ok(0) } else { Err(Missing::NoName) };
        }
        let hash = self.exports.hash(name);
        let device = self.use_exports.then(|| self.exports.get_hashed(hash, name).or_else(|| self.ask(name))).flatten();
        match device.or_else(|| self.globals.get_hashed(hash, name, values)) {
            Some(address) => Ok(address),
            None if symbol.weak() && host => Ok(0),
            None if self.use_exports => Err(Missing::Import),
            None => Err(Missing::NoDependency),
        }
    }

    /// Asks the caller's own resolver.
    fn ask(&self, name: &[u8]) -> Option<u64> {
        self.options.resolver?(core::str::from_utf8(name).ok()?)
    }

    /// The address of the module's own definition.
    fn own_address(&self, symbol: &Symbol) -> Result<u64, Missing> {
        let Self { image, layout, sections, .. } = self;
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
}

/// How many symbols the module defines for others.
fn definitions(image: &Image<'_>) -> usize {
    image.symbols.iter().skip(image.first_global).filter(|symbol| symbol.defined() && !symbol.local()).count()
}

/// How far the segment that holds `address` moved; an address right behind a segment moves with it.
fn delta_of_address(image: &Image<'_>, layout: &Layout, address: u64) -> Option<u64> {
    let position = image.load_at(address).or_else(|| image.load_ending_at(address))?;
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
    let names: Vec<String> = symbols.iter().map(|symbol| symbol.name.clone()).collect();
    let (stale, hints) = (linked_against(image, &names), hints::advice(&symbols));
    Err(LoadError::Unresolved(Box::new(Unresolved { module: request.name.into(), symbols, stale, hints })))
}

/// Those of `names` that the firmware had when the module was linked: they are in the symbol file inside the module.
pub(crate) fn linked_against(image: &Image<'_>, names: &[String]) -> Vec<String> {
    let embedded = image.sections.and_then(|sections| {
        let section = sections.by_name(FIRMWARE_SYMBOLS_SECTION)?;
        embedded_names(sections.data(&section).ok()?)
    });
    let Some(table) = embedded else { return Vec::new() };
    names.iter().filter(|name| table.get(name).is_some()).cloned().collect()
}

fn embedded_names(file: &[u8]) -> Option<ExportTable> {
    let elf = Elf::parse(file).ok()?;
    let (strings, symbols) = symbol_file(&elf)?;
    let mut names = NameReader::new(&elf, strings);
    let mut table = ExportTable::new();
    for symbol in symbols.iter().filter(|symbol| symbol.defined() && !symbol.local()) {
        let name = names.get(&symbol).ok()?;
        table.insert(core::str::from_utf8(name).unwrap_or_default(), symbol.value);
    }
    Some(table)
}
