//! Phase *collect*: which sections stay. Everything that the entry point, the layout or a table of constructors needs,
//! and what that refers to; the rest is left out.

use alloc::string::ToString;
use alloc::vec::Vec;

use hashbrown::HashMap;
use outboard_elf::{shf, sht};
use outboard_reloc::xtensa;

use super::error::{Faults, UndefinedSymbol};
use super::layout::Layout;
use super::literal::{self, Literal, Literals};
use super::program::{Definition, GlobalId, LayoutValue, Program, Relocation, Resolved, SectionId, Target, lossy};
use super::{BuildError, BuildErrors};
use crate::hints;

/// Sections that the image does not need, unless the layout has a place for them.
const UNNEEDED: [&str; 6] = [".eh_frame", ".eh_frame_hdr", ".comment", ".xtensa.info", ".note", ".llvm"];

/// Places kept for each undefined name.
const PLACES: usize = 3;

/// For every section of the program: the section of the layout it goes to.
pub(super) type Assignment = Vec<Option<usize>>;

/// Assigns every loaded section to a section of the layout, and drops what is left out.
pub(super) fn assign(program: &mut Program<'_>, layout: &Layout) -> Assignment {
    let mut cache: HashMap<alloc::string::String, Option<usize>> = HashMap::new();
    let mut assignment = Vec::with_capacity(program.sections.len());
    for section in &mut program.sections {
        if !section.loaded() {
            assignment.push(None);
            continue;
        }
        let place = *cache
            .entry_ref(section.name.as_str())
            .or_insert_with(|| layout.sections.iter().position(|output| output.takes(&section.name).is_some()));
        if layout.discards(&section.name) || (place.is_none() && unneeded(&section.name)) {
            section.discarded = true;
        }
        assignment.push(place.filter(|_| !section.discarded));
    }
    assignment
}

fn unneeded(name: &str) -> bool {
    let is = |stem: &&str| name.strip_prefix(*stem).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '_']));
    UNNEEDED.iter().any(is)
}

/// Marks the sections that stay.
pub(super) fn collect(
    program: &mut Program<'_>,
    literals: &Literals,
    layout: &Layout,
    assignment: &Assignment,
    all: bool,
) {
    let mut marker = Marker {
        stays: alloc::vec![false; program.sections.len()],
        named: alloc::vec![false; program.bounded.len()],
        work: Vec::new(),
    };
    for name in layout.entry.iter().chain(&layout.required) {
        if let Some(id) = program.names.get(name.as_bytes()) {
            marker.target(program, Target::Global { id: *id, weak: false });
        }
    }
    for id in program.ids() {
        let section = program.section(id);
        let kept = assignment.get(id.0).copied().flatten().and_then(|place| layout.sections.get(place));
        let table = matches!(section.kind, sht::INIT_ARRAY | sht::FINI_ARRAY) || constructors(&section.name);
        let asked = kept.is_some_and(|output| output.keep) || section.flags & shf::GNU_RETAIN != 0 || table;
        if section.loaded() && (asked || (all && !only_literals(program, literals, id))) {
            marker.section(id);
        }
    }
    while let Some(id) = marker.work.pop() {
        for relocation in &program.section(id).relocations {
            if !refers(relocation) || literals.abandoned(id, relocation.offset) {
                continue;
            }
            match literals.of(program, id, relocation) {
                None => marker.target(program, relocation.target),
                Some((slot, offset)) => {
                    if let Ok(Literal::Address { target, .. }) = literal::read(program, slot, offset) {
                        marker.target(program, target);
                    }
                }
            }
        }
    }
    for (section, stays) in program.sections.iter_mut().zip(marker.stays) {
        section.live = stays;
    }
}

/// Tables of constructors and destructors, and the code of the old way to call them.
fn constructors(name: &str) -> bool {
    let is = |stem: &str| name.strip_prefix(stem).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    [".ctors", ".dtors", ".init_array", ".fini_array", ".preinit_array", ".init", ".fini"].iter().any(|stem| is(stem))
}

/// A section of literals, all of which moved to pools.
fn only_literals(program: &Program<'_>, literals: &Literals, id: SectionId) -> bool {
    let section = program.section(id);
    let named = section.name.starts_with(".literal") || section.name.ends_with(".literal");
    named && (0..section.size).step_by(4).all(|offset| literals.abandoned(id, offset))
}

/// Whether a relocation needs what it names.
pub(super) fn refers(relocation: &Relocation) -> bool {
    xtensa::table().row(relocation.kind).is_none_or(|row| row.expr != outboard_reloc::Expr::Nothing)
}

struct Marker {
    stays: Vec<bool>,
    /// Names whose sections are marked already.
    named: Vec<bool>,
    work: Vec<SectionId>,
}

impl Marker {
    fn section(&mut self, id: SectionId) {
        if let Some(stays) = self.stays.get_mut(id.0).filter(|stays| !**stays) {
            *stays = true;
            self.work.push(id);
        }
    }

    fn target(&mut self, program: &Program<'_>, target: Target) {
        match program.resolve(target) {
            // What is not loaded is none of the image; the phase that writes says so.
            Resolved::Section { id, .. } if program.section(id).loaded() => self.section(id),
            Resolved::Layout(value) => {
                let Some(LayoutValue::Named { position, .. }) = program.layout_values.get(value) else { return };
                let (Some(name), Some(known)) = (program.bounded.get(*position), self.named.get_mut(*position)) else {
                    return;
                };
                if !core::mem::replace(known, true) {
                    let sections = program.ids().filter(|id| program.section(*id).loaded());
                    sections.filter(|id| program.section(*id).name == *name).for_each(|id| self.section(id));
                }
            }
            _ => {}
        }
    }
}

/// Reports every name that the sections that stay use and nobody defines, and every section without a place.
pub(super) fn complete(
    program: &Program<'_>,
    literals: &Literals,
    layout: &Layout,
    assignment: &Assignment,
) -> Result<(), BuildErrors> {
    let mut faults = Faults::default();
    let symbols = undefined(program, literals, layout);
    if !symbols.is_empty() {
        faults.push(BuildError::Undefined { symbols });
    }
    let unplaced =
        program.ids().filter(|id| program.section(*id).live && assignment.get(id.0).copied().flatten().is_none());
    let mut sections: Vec<_> =
        unplaced.map(|id| alloc::format!("{}:({})", program.file(id), program.section(id).name)).collect();
    sections.dedup();
    if !sections.is_empty() {
        sections.truncate(BuildErrors::KEPT);
        faults.push(BuildError::Unplaced { sections });
    }
    faults.finish()
}

fn undefined(program: &Program<'_>, literals: &Literals, layout: &Layout) -> Vec<UndefinedSymbol> {
    let mut order: Vec<GlobalId> = Vec::new();
    let mut uses: HashMap<GlobalId, (Vec<(SectionId, u32)>, usize)> = HashMap::new();
    for name in layout.entry.iter().chain(&layout.required) {
        if let Some(id) = program.names.get(name.as_bytes())
            && program.global(*id).definition == Definition::Undefined
            && uses.insert(*id, (Vec::new(), 0)).is_none()
        {
            order.push(*id);
        }
    }
    for id in program.ids().filter(|id| program.section(*id).live) {
        for relocation in &program.section(id).relocations {
            if !refers(relocation) || literals.abandoned(id, relocation.offset) {
                continue;
            }
            let slot = literals.of(program, id, relocation);
            let target = match slot.map(|(slot, offset)| literal::read(program, slot, offset)) {
                None => relocation.target,
                Some(Ok(Literal::Address { target, .. })) => target,
                Some(_) => continue,
            };
            let Resolved::Undefined { id: global, weak: false } = program.resolve(target) else { continue };
            let (places, more) = uses.entry(global).or_insert_with(|| {
                order.push(global);
                (Vec::new(), 0)
            });
            if places.len() < PLACES {
                places.push((id, relocation.offset));
            } else {
                *more += 1;
            }
        }
    }
    let defined = program.globals.iter().filter(|global| global.definition != Definition::Undefined);
    let names: Vec<_> = if order.is_empty() { Vec::new() } else { defined.map(|global| lossy(&global.name)).collect() };
    let report = |(position, id): (usize, GlobalId)| {
        let name = lossy(&program.global(id).name);
        let (places, more) = uses.remove(&id).unwrap_or_default();
        let detailed = position < hints::SUGGEST_FOR;
        let near = if detailed { hints::nearest(&name, names.iter().map(|name| name.as_str())) } else { Vec::new() };
        let places = places.into_iter().filter(|_| detailed);
        let places = places.map(|(id, offset)| *program.location(id, offset)).collect();
        UndefinedSymbol { name: name.to_string(), places, more, near }
    };
    order.iter().copied().enumerate().map(report).collect()
}
