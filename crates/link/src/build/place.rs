//! Phase *place*: an address for every section that stays.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use hashbrown::HashSet;
use outboard_elf::{pf, shf};

use super::error::{Faults, LARGEST, SymbolSize};
use super::layout::{Layout, Order, Value, priority};
use super::program::{LayoutValue, Program, Resolved, SectionId, Target};
use super::{BuildError, BuildErrors};

/// Where everything is.
#[derive(Debug)]
pub(super) struct Placement {
    /// For each section of the layout.
    pub outputs: Vec<Output>,
    /// For each section of the program that stays: the section of the layout, and the address.
    pub addresses: Vec<Option<(usize, u32)>>,
    /// For each region: first address, address behind it, first free address.
    regions: Vec<[u32; 3]>,
    /// For each of [`Program::bounded`]: the section of the layout, the first address and the one behind.
    named: Vec<Option<(usize, u32, u32)>>,
}

/// A section of the layout with its contents.
#[derive(Debug)]
pub(super) struct Output {
    pub address: u32,
    pub size: u32,
    /// Permissions (`pf`); 0 for an empty section.
    pub flags: u32,
    pub inputs: Vec<SectionId>,
}

/// What may be done with a section of the layout.
fn flags(program: &Program<'_>, inputs: &[SectionId], reserve: u32) -> u32 {
    // Room for a stack or a heap is to be written.
    let reserved = if inputs.is_empty() && reserve > 0 { pf::R | pf::W } else { 0 };
    let filled = inputs.iter().map(|id| program.section(*id)).filter(|section| section.size > 0);
    filled.fold(reserved, |flags, section| {
        let write = if section.writable() { pf::W } else { 0 };
        let execute = if section.flags & shf::EXECINSTR != 0 { pf::X } else { 0 };
        flags | pf::R | write | execute
    })
}

/// Whether a layout is possible.
pub(super) fn check(layout: &Layout) -> Result<(), BuildErrors> {
    let mut faults = Faults::default();
    let mut bad = |what: String, problem: &str| faults.push(BuildError::Layout { what, problem: problem.to_string() });
    let mut names = HashSet::new();
    for region in &layout.regions {
        let what = || alloc::format!("region {}", region.name);
        if region.end() > 1 << 32 {
            bad(what(), "it ends beyond the 32-bit address space; make it smaller");
        }
        if !names.insert(region.name.as_str()) {
            bad(what(), "there are two regions of this name; rename one");
        }
    }
    if layout.page.is_some_and(|page| !page.is_power_of_two()) {
        bad("page".to_string(), "its size is no power of two");
    }
    names.clear();
    for section in &layout.sections {
        let what = || alloc::format!("section {}", section.name);
        if layout.region_named(&section.region).is_none() {
            bad(what(), "its region does not exist; add it or correct the name");
        }
        if !section.align.is_power_of_two() {
            bad(what(), "its alignment is no power of two");
        } else if section.address.is_some_and(|address| address % section.align != 0) {
            bad(what(), "its address is no multiple of its alignment");
        }
        if section.name.is_empty() || !names.insert(section.name.as_str()) {
            bad(what(), "its name is empty or used twice; rename it");
        }
    }
    let mut symbols = HashSet::new();
    let bounds = layout.sections.iter().flat_map(|section| section.start.iter().chain(&section.stop));
    for name in bounds.chain(layout.symbols.iter().map(|symbol| &symbol.name)) {
        if name.is_empty() || !symbols.insert(name.as_str()) {
            bad(alloc::format!("symbol {name}"), "its name is empty or defined twice; remove one definition");
        }
    }
    for symbol in &layout.symbols {
        let known = match &symbol.value {
            Value::Number(_) => true,
            Value::Start(name) | Value::Stop(name) | Value::Size(name) => layout.section_named(name).is_some(),
            Value::RegionStart(name) | Value::RegionEnd(name) | Value::RegionFree(name) => {
                layout.region_named(name).is_some()
            }
        };
        if !known {
            bad(alloc::format!("symbol {}", symbol.name), "it refers to a section or region that does not exist");
        }
    }
    faults.finish()
}

/// The sections that stay, for each section of the layout, in its order.
pub(super) fn order(program: &Program<'_>, layout: &Layout, assignment: &[Option<usize>]) -> Vec<Vec<SectionId>> {
    let mut ordered: Vec<Vec<SectionId>> = layout.sections.iter().map(|_| Vec::new()).collect();
    for id in program.ids().filter(|id| program.section(*id).live) {
        let place = assignment.get(id.0).copied().flatten();
        if let Some(list) = place.and_then(|place| ordered.get_mut(place)) {
            list.push(id);
        }
    }
    for (list, output) in ordered.iter_mut().zip(&layout.sections) {
        let name = |id: &SectionId| program.section(*id).name.as_str();
        let number = |id: &SectionId| priority(name(id));
        // Sections whose bounds a program asks for stay together.
        let bounded = |id: &SectionId| program.bounded.iter().position(|bounded| bounded == name(id));
        match output.order {
            Order::Patterns => list.sort_by_cached_key(|id| (output.takes(name(id)), bounded(id))),
            Order::Name => list.sort_by(|a, b| name(a).cmp(name(b))),
            Order::Priority => list.sort_by_cached_key(|id| (number(id).map_or(u64::MAX, u64::from), bounded(id))),
            // No number sorts before every number.
            Order::ReversePriority => list.sort_by_cached_key(|id| (number(id), bounded(id))),
        }
    }
    ordered
}

/// Gives every section its address.
pub(super) fn place(
    program: &Program<'_>,
    layout: &Layout,
    ordered: Vec<Vec<SectionId>>,
) -> Result<Placement, BuildErrors> {
    let mut faults = Faults::default();
    let mut free: Vec<u64> = layout.regions.iter().map(|region| u64::from(region.base)).collect();
    let mut addresses = alloc::vec![None; program.sections.len()];
    let mut outputs = Vec::with_capacity(ordered.len());
    let mut last_flags = alloc::vec![0; layout.regions.len()];
    for (index, (inputs, output)) in ordered.into_iter().zip(&layout.sections).enumerate() {
        let Some((region_index, region)) = layout.region_named(&output.region) else { continue };
        let next = free.get(region_index).copied().unwrap_or(0);
        let flags = flags(program, &inputs, output.reserve);
        let before = last_flags.get_mut(region_index).filter(|_| flags != 0);
        let before = before.map_or(0, |last| core::mem::replace(last, flags));
        let page = layout.page.filter(|_| before != 0 && before != flags).unwrap_or(1);
        let widest = inputs.iter().map(|id| program.section(*id).align).max().unwrap_or(1).max(output.align).max(page);
        // An empty section takes no room, not even for its alignment; names for its start are aligned all the same, because what is
        // walked from there may be the section behind it.
        let empty = inputs.is_empty() && output.reserve == 0;
        let start = match output.address {
            Some(address) => u64::from(address),
            None => next.next_multiple_of(u64::from(widest)),
        };
        if start < next || (!empty && start % u64::from(widest) != 0) {
            let problem = alloc::format!(
                "its address {start:#x} lies below {next:#x}, where the sections before it end, or is no multiple of \
                 {widest}, the alignment of its contents; move it"
            );
            faults.push(BuildError::Layout { what: alloc::format!("section {}", output.name), problem });
        }
        let mut at = start;
        for id in &inputs {
            let section = program.section(*id);
            at = at.next_multiple_of(u64::from(section.align));
            if let Some(address) = addresses.get_mut(id.0) {
                *address = u32::try_from(at).ok().map(|at| (index, at));
            }
            at += u64::from(section.size);
        }
        let end = at.max(start + u64::from(output.reserve));
        if end > start && (end > region.end() || start < u64::from(region.base)) {
            faults.push(BuildError::RegionFull {
                section: output.name.clone(),
                address: u32::try_from(start).unwrap_or(u32::MAX),
                need: end - start,
                region: region.name.clone(),
                end: region.end(),
                excess: end.saturating_sub(region.end()),
                largest: Vec::new(),
            });
        }
        if let Some(next) = free.get_mut(region_index).filter(|_| !empty) {
            *next = end.max(*next);
        }
        outputs.push(Output {
            address: u32::try_from(start).unwrap_or(u32::MAX),
            size: u32::try_from(end - start).unwrap_or(u32::MAX),
            flags,
            inputs,
        });
    }
    overlaps(layout, &outputs, &mut faults);
    for region in &layout.regions {
        if let Some(list) = faults.largest_in(&region.name) {
            let there = outputs.iter().zip(&layout.sections).filter(|(_, section)| section.region == region.name);
            *list = largest(program, there.flat_map(|(output, _)| &output.inputs));
        }
    }
    faults.finish()?;
    let regions = layout.regions.iter().zip(free).map(|(region, free)| [u64::from(region.base), region.end(), free]);
    let regions = regions.map(|addresses| addresses.map(wrap)).collect();
    let named = program.bounded.iter().map(|name| bounds(program, &addresses, name)).collect();
    Ok(Placement { outputs, addresses, regions, named })
}

/// The symbols that take the most room in these sections, largest first. A section without symbols that have a size counts itself.
fn largest<'i>(program: &Program<'_>, sections: impl Iterator<Item = &'i SectionId>) -> Vec<SymbolSize> {
    let mut found = Vec::new();
    for id in sections {
        let before = found.len();
        let mut seen = HashSet::new();
        // Several names of one place are one thing.
        let sized = program.symbols_in(*id).filter(|symbol| symbol.size > 0 && seen.insert(symbol.offset()));
        let of = |size, name| SymbolSize { size, name, file: program.file(*id).to_string() };
        found.extend(sized.map(|symbol| of(symbol.size, String::from_utf8_lossy(symbol.name).into_owned())));
        if found.len() == before {
            found.push(of(program.section(*id).size, program.section(*id).name.clone()));
        }
    }
    found.sort_by(|a, b| b.size.cmp(&a.size).then_with(|| a.name.cmp(&b.name)));
    found.truncate(LARGEST);
    found
}

/// The low 32 bits: the address behind the last one is 0.
fn wrap(address: u64) -> u32 {
    u32::try_from(address & 0xffff_ffff).unwrap_or(0)
}

/// The bounds of the input sections of one name.
fn bounds(program: &Program<'_>, addresses: &[Option<(usize, u32)>], name: &str) -> Option<(usize, u32, u32)> {
    let mut bounds = None;
    for id in program.ids().filter(|id| program.section(*id).live && program.section(*id).name == name) {
        let Some((output, start)) = addresses.get(id.0).copied().flatten() else { continue };
        let end = start.wrapping_add(program.section(id).size);
        let (_, low, high) = bounds.unwrap_or((output, start, end));
        bounds = Some((output, low.min(start), high.max(end)));
    }
    bounds
}

/// Regions may lie over each other; what is in them may not.
fn overlaps(layout: &Layout, outputs: &[Output], faults: &mut Faults) {
    let mut placed: Vec<_> = outputs.iter().zip(&layout.sections).filter(|(output, _)| output.size > 0).collect();
    placed.sort_by_key(|(output, _)| output.address);
    for pair in placed.windows(2) {
        if let [(first, a), (second, b)] = pair
            && u64::from(first.address) + u64::from(first.size) > u64::from(second.address)
        {
            let problem = alloc::format!("it lies over section {}; correct the regions", b.name);
            faults.push(BuildError::Layout { what: alloc::format!("section {}", a.name), problem });
        }
    }
}

/// An address of the image, or a number that has nothing to do with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Address {
    /// An address in a section of the layout; moves when that moves.
    Image { value: u32, output: usize },
    /// A number.
    Number(u32),
    /// A name that may be undefined and is.
    Missing,
    /// In a section that is left out.
    Discarded,
}

impl Placement {
    /// What a relocation refers to.
    pub fn address(&self, program: &Program<'_>, target: Target, addend: u32) -> Address {
        match program.resolve(target) {
            Resolved::Absolute(value) => Address::Number(value.wrapping_add(addend)),
            Resolved::Undefined { .. } => Address::Missing,
            Resolved::Section { id, offset } => match self.addresses.get(id.0).copied().flatten() {
                Some((output, address)) => {
                    Address::Image { value: address.wrapping_add(offset).wrapping_add(addend), output }
                }
                None => Address::Discarded,
            },
            Resolved::Layout(value) => match program.layout_values.get(value) {
                Some(value) => self.layout_value(*value, addend),
                None => Address::Missing,
            },
        }
    }

    fn layout_value(&self, value: LayoutValue, addend: u32) -> Address {
        let output = |index: usize, pick: fn(&Output) -> u32| {
            let value = self.outputs.get(index).map_or(0, pick);
            Address::Image { value: value.wrapping_add(addend), output: index }
        };
        let region = |index: usize, which: usize| {
            let value = self.regions.get(index).and_then(|region| region.get(which)).copied().unwrap_or(0);
            Address::Number(value.wrapping_add(addend))
        };
        match value {
            LayoutValue::Number(number) => Address::Number(number.wrapping_add(addend)),
            LayoutValue::Start(index) => output(index, |output| output.address),
            LayoutValue::Stop(index) => output(index, |output| output.address.wrapping_add(output.size)),
            LayoutValue::Size(index) => {
                Address::Number(self.outputs.get(index).map_or(0, |output| output.size).wrapping_add(addend))
            }
            LayoutValue::RegionStart(index) => region(index, 0),
            LayoutValue::RegionEnd(index) => region(index, 1),
            LayoutValue::RegionFree(index) => region(index, 2),
            LayoutValue::Named { position, stop } => match self.named.get(position).copied().flatten() {
                Some((output, start, end)) => {
                    Address::Image { value: (if stop { end } else { start }).wrapping_add(addend), output }
                }
                None => Address::Missing,
            },
        }
    }
}
