//! Phase *resolve*: which objects take part, and what every name stands for.
//!
//! Objects are linked whole; a member of an archive takes part when it defines a name that is used and that nobody has
//! defined, whatever the order of the files. A strong definition stands above a common one, a common one above a weak
//! one; of two weak ones the first counts, and two strong ones are an error.

use alloc::borrow::Cow;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use hashbrown::{HashMap, HashSet};
use outboard_elf::{shf, sht, stt};

use super::error::Faults;
use super::input::{File, Home, InputSymbol, Object};
use super::layout::{Layout, Value};
use super::program::{
    Definition, GlobalId, LayoutValue, Member, Origin, Program, Relocation, Section, SectionId, Target,
};
use super::{BuildError, BuildErrors, Inputs};

/// Joins the inputs to one program.
pub(super) fn resolve<'a>(inputs: Inputs<'a>, layout: &Layout) -> Result<Program<'a>, BuildErrors> {
    let mut joiner = Joiner {
        program: Program::default(),
        kept: HashSet::new(),
        faults: Faults::default(),
        wanted: Vec::new(),
        definers: HashMap::new(),
    };
    joiner.layout_symbols(layout);
    let mut archives = Vec::new();
    for file in inputs.files {
        match file {
            File::Object(object) => joiner.join(object),
            File::Archive(members) => archives.push(members.into_iter().map(Some).collect::<Vec<_>>()),
        }
    }
    joiner.pull(&mut archives);
    joiner.bounds_of_sections();
    joiner.commons();
    joiner.faults.finish()?;
    Ok(joiner.program)
}

struct Joiner<'a> {
    program: Program<'a>,
    /// Signatures of the groups that were kept.
    kept: HashSet<Vec<u8>>,
    faults: Faults,
    /// Names that became used without a definition.
    wanted: Vec<GlobalId>,
    /// Where each name has its definition that is not weak, for the message about a second one.
    definers: HashMap<GlobalId, String>,
}

impl<'a> Joiner<'a> {
    fn layout_symbols(&mut self, layout: &Layout) {
        let mut define = |name: &str, value: LayoutValue| {
            let id = self.program.intern(Cow::Owned(name.as_bytes().to_vec()));
            let position = self.program.layout_values.len();
            self.program.layout_values.push(value);
            self.program.globals[id.0].definition = Definition::Layout(position);
            self.definers.insert(id, "the layout".to_string());
        };
        for (index, section) in layout.sections.iter().enumerate() {
            if let Some(start) = &section.start {
                define(start, LayoutValue::Start(index));
            }
            if let Some(stop) = &section.stop {
                define(stop, LayoutValue::Stop(index));
            }
        }
        let section = |name: &str| layout.section_named(name).unwrap_or(0);
        let region = |name: &str| layout.region_named(name).map_or(0, |(index, _)| index);
        for symbol in &layout.symbols {
            let value = match &symbol.value {
                Value::Number(number) => LayoutValue::Number(*number),
                Value::Start(name) => LayoutValue::Start(section(name)),
                Value::Stop(name) => LayoutValue::Stop(section(name)),
                Value::Size(name) => LayoutValue::Size(section(name)),
                Value::RegionStart(name) => LayoutValue::RegionStart(region(name)),
                Value::RegionEnd(name) => LayoutValue::RegionEnd(region(name)),
                Value::RegionFree(name) => LayoutValue::RegionFree(region(name)),
            };
            define(&symbol.name, value);
        }
        for name in layout.entry.iter().chain(&layout.required) {
            let id = self.program.intern(Cow::Owned(name.as_bytes().to_vec()));
            self.wanted.push(id);
        }
    }

    fn join(&mut self, object: Object<'a>) {
        let number = self.program.members.len();
        let first = self.program.sections.len();
        let discarded = self.discarded(&object);
        let targets = self.symbols(&object, number, first, &discarded);
        let mut by_section = vec![Vec::new(); object.sections.len()];
        for (index, symbol) in object.symbols.iter().enumerate() {
            if let (Home::Section { index: section, .. }, false) = (symbol.home, symbol.kind == stt::SECTION)
                && let Some(list) = by_section.get_mut(section)
            {
                list.push(index);
            }
        }
        for list in &mut by_section {
            list.sort_by_key(|index| object.symbols.get(*index).map_or(0, InputSymbol::offset));
        }
        for (index, section) in object.sections.into_iter().enumerate() {
            let relocations = section.relocations.iter().map(|relocation| {
                let symbol = usize::try_from(relocation.symbol).ok().and_then(|symbol| targets.get(symbol));
                Relocation {
                    offset: relocation.offset,
                    kind: relocation.kind,
                    target: symbol.copied().unwrap_or(Target::Absolute(0)),
                    addend: relocation.addend,
                }
            });
            self.program.sections.push(Section {
                origin: Origin::Object { object: number, index },
                relocations: relocations.collect(),
                name: section.name,
                kind: section.kind,
                flags: section.flags,
                align: section.align,
                size: section.size,
                data: Cow::Borrowed(section.data),
                discarded: discarded.get(index).copied().unwrap_or(false),
                live: false,
            });
        }
        self.program.members.push(Member { name: object.name, symbols: object.symbols, first, by_section });
    }

    /// The sections of which an earlier object has a copy: groups with a known signature, and link-once sections.
    fn discarded(&mut self, object: &Object<'a>) -> Vec<bool> {
        let mut discarded = vec![false; object.sections.len()];
        for group in &object.groups {
            if !self.kept.insert(group.signature.to_vec()) {
                for section in &group.sections {
                    if let Some(discarded) = discarded.get_mut(*section) {
                        *discarded = true;
                    }
                }
            }
        }
        for (section, discarded) in object.sections.iter().zip(&mut discarded) {
            if section.name.starts_with(".gnu.linkonce.") && !self.kept.insert(section.name.as_bytes().to_vec()) {
                *discarded = true;
            }
        }
        discarded
    }

    /// What each symbol of an object stands for; definitions become known.
    fn symbols(&mut self, object: &Object<'a>, number: usize, first: usize, discarded: &[bool]) -> Vec<Target> {
        let mut targets = Vec::with_capacity(object.symbols.len());
        for symbol in &object.symbols {
            let id = |index: usize| SectionId(first + index);
            if symbol.local || symbol.kind == stt::SECTION {
                targets.push(match symbol.home {
                    Home::Section { index, offset } => Target::Section { id: id(index), offset },
                    Home::Absolute(value) => Target::Absolute(value),
                    Home::Undefined | Home::Common { .. } => Target::Absolute(0),
                });
                continue;
            }
            let global = self.program.intern(Cow::Borrowed(symbol.name));
            let weak = symbol.weak;
            let gone = |index: usize| discarded.get(index).copied().unwrap_or(false);
            match symbol.home {
                Home::Section { index, offset } if !gone(index) => {
                    let (size, kind) = (symbol.size, symbol.kind);
                    self.define(global, Definition::Section { id: id(index), offset, size, weak, kind }, &object.name);
                }
                Home::Absolute(value) => {
                    self.define(global, Definition::Absolute { value, weak, object: number }, &object.name);
                }
                Home::Common { size, align } => {
                    self.define(global, Definition::Common { size, align, object: number }, &object.name);
                }
                Home::Undefined | Home::Section { .. } if !weak => self.wanted.push(global),
                Home::Undefined | Home::Section { .. } => {}
            }
            let may_be_missing = weak && symbol.home == Home::Undefined;
            targets.push(Target::Global { id: global, weak: may_be_missing });
        }
        targets
    }

    fn define(&mut self, id: GlobalId, new: Definition, file: &str) {
        let old = self.program.globals[id.0].definition;
        let chosen = match (rank(&old), rank(&new)) {
            (Rank::Strong, Rank::Strong) => {
                self.faults.push(BuildError::Duplicate {
                    name: super::program::lossy(&self.program.global(id).name),
                    first: self.definers.get(&id).cloned().unwrap_or_default(),
                    second: file.to_string(),
                });
                return;
            }
            (Rank::Common, Rank::Common) => larger(old, new),
            (before, after) if after > before => new,
            _ => return,
        };
        self.program.globals[id.0].definition = chosen;
        if rank(&chosen) == Rank::Strong {
            self.definers.insert(id, file.to_string());
        }
    }

    /// Takes members of archives until nothing more is wanted that an archive has.
    fn pull(&mut self, archives: &mut [Vec<Option<Object<'a>>>]) {
        let mut index: HashMap<&'a [u8], (usize, usize)> = HashMap::new();
        for (archive, members) in archives.iter().enumerate() {
            for (number, member) in members.iter().enumerate() {
                let symbols = member.iter().flat_map(|object| &object.symbols);
                for symbol in symbols.filter(|symbol| !symbol.local && symbol.home != Home::Undefined) {
                    index.entry(symbol.name).or_insert((archive, number));
                }
            }
        }
        let mut next = 0;
        while let Some(id) = self.wanted.get(next).copied() {
            next += 1;
            let global = self.program.global(id);
            if global.definition != Definition::Undefined {
                continue;
            }
            let found = index.get(global.name.as_ref()).copied();
            let member = found.and_then(|(archive, member)| archives.get_mut(archive)?.get_mut(member)?.take());
            if let Some(object) = member {
                self.join(object);
            }
        }
    }

    /// Defines `__start_NAME` and `__stop_NAME` where they are used and `NAME` is an input section.
    fn bounds_of_sections(&mut self) {
        let sections = self.program.sections.iter().filter(|section| section.loaded());
        let known: HashSet<String> = sections.map(|section| section.name.clone()).collect();
        for id in 0..self.program.globals.len() {
            let Some(global) = self.program.globals.get(id).filter(|g| g.definition == Definition::Undefined) else {
                continue;
            };
            let Ok(name) = core::str::from_utf8(&global.name) else { continue };
            let (stop, section) = match (name.strip_prefix("__start_"), name.strip_prefix("__stop_")) {
                (Some(section), _) => (false, section),
                (_, Some(section)) => (true, section),
                _ => continue,
            };
            if !known.contains(section) {
                continue;
            }
            let section = section.to_string();
            let position = self.program.bounded.iter().position(|name| *name == section).unwrap_or_else(|| {
                self.program.bounded.push(section);
                self.program.bounded.len() - 1
            });
            let value = self.program.layout_values.len();
            self.program.layout_values.push(LayoutValue::Named { position, stop });
            self.program.globals[id].definition = Definition::Layout(value);
        }
    }

    /// Gives common symbols memory.
    fn commons(&mut self) {
        for id in 0..self.program.globals.len() {
            let Definition::Common { size, align, .. } = self.program.globals[id].definition else { continue };
            let section = self.program.push(Section {
                origin: Origin::Common,
                name: "COMMON".to_string(),
                kind: sht::NOBITS,
                flags: shf::ALLOC | shf::WRITE,
                align,
                size,
                data: Cow::Borrowed(&[]),
                relocations: Vec::new(),
                discarded: false,
                live: false,
            });
            self.program.globals[id].definition =
                Definition::Section { id: section, offset: 0, size, weak: false, kind: stt::OBJECT };
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Nothing,
    Weak,
    Common,
    Strong,
}

const fn rank(definition: &Definition) -> Rank {
    match definition {
        Definition::Undefined => Rank::Nothing,
        Definition::Absolute { weak: true, .. } | Definition::Section { weak: true, .. } => Rank::Weak,
        Definition::Common { .. } => Rank::Common,
        Definition::Absolute { .. } | Definition::Section { .. } | Definition::Layout(_) => Rank::Strong,
    }
}

fn larger(old: Definition, new: Definition) -> Definition {
    match (old, new) {
        (Definition::Common { size: a, align: x, object }, Definition::Common { size: b, align: y, .. }) => {
            Definition::Common { size: a.max(b), align: x.max(y), object }
        }
        _ => old,
    }
}
