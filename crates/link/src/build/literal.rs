//! Literals: which words are read by `l32r`, and the pools that hold them in the image.
//!
//! Compilers put literals where an ordinary linker cannot leave them: at the end of whatever section came before, at any
//! alignment. So every literal is copied, with the relocation on it, to a pool of this linker, equal ones once, and the
//! `l32r` is pointed there. A pool stands before its users, which must begin within [`REACH`]; when a section of the
//! image is larger than that, it gets several pools, each before a group of input sections.

use alloc::borrow::Cow;
use alloc::string::ToString;
use alloc::vec::Vec;

use hashbrown::{HashMap, HashSet};
use outboard_elf::{shf, sht, stt};
use outboard_reloc::xtensa;

use super::error::Faults;
use super::program::{GlobalId, Origin, Program, Relocation, Resolved, Section, SectionId, Target};
use super::{BuildError, BuildErrors};

/// How far before its user a literal may lie.
pub(super) const REACH: u64 = 0x4_0000;

/// The words that `l32r` instructions read.
#[derive(Debug, Default)]
pub(super) struct Literals {
    /// Words that are copied to a pool.
    moved: HashSet<(SectionId, u32)>,
    /// Of these, the ones that nothing else refers to, by section and ascending offset.
    abandoned: HashMap<SectionId, Vec<u32>>,
}

/// What a literal holds.
#[derive(Debug, Clone, Copy)]
pub(super) enum Literal {
    Number(u32),
    Address { target: Target, addend: u32 },
}

/// Equal literals have equal keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Key {
    Number(u32),
    Place(SectionId, u32),
    Layout(usize, u32),
    Undefined(GlobalId, u32),
}

/// Whether a relocation is the literal of an `l32r`.
pub(super) fn is_literal_load(section: &Section<'_>, relocation: &Relocation) -> bool {
    relocation.kind == xtensa::SLOT0_OP
        && xtensa::Operand::of(bytes_at(section, relocation.offset)).is_some_and(xtensa::Operand::is_literal)
}

/// The bytes of a section from an offset on.
pub(super) fn bytes_at<'s>(section: &'s Section<'_>, offset: u32) -> &'s [u8] {
    usize::try_from(offset).ok().and_then(|offset| section.data.get(offset..)).unwrap_or(&[])
}

/// The word at an offset.
fn word_at(section: &Section<'_>, offset: u32) -> Option<u32> {
    bytes_at(section, offset).first_chunk().map(|word| u32::from_le_bytes(*word))
}

impl Literals {
    /// Finds the literals of all sections that are loaded.
    pub fn find(program: &Program<'_>) -> Self {
        let mut found = Self::default();
        let mut referred: HashMap<SectionId, Vec<u32>> = HashMap::new();
        let mut extents = Extents::default();
        for id in program.ids().filter(|id| program.section(*id).loaded()) {
            let section = program.section(id);
            for relocation in &section.relocations {
                let Resolved::Section { id: target, offset } = program.resolve(relocation.target) else { continue };
                let offset = offset.wrapping_add(relocation.addend);
                if is_literal_load(section, relocation) {
                    if movable(program, &mut extents, target, offset) {
                        found.moved.insert((target, offset));
                    }
                } else if holds_address(relocation.kind) {
                    let stored = word_at(section, relocation.offset).unwrap_or(0);
                    referred.entry(target).or_default().push(offset.wrapping_add(stored));
                } else {
                    referred.entry(target).or_default().push(offset);
                }
            }
        }
        for offsets in referred.values_mut() {
            offsets.sort_unstable();
        }
        let nothing = Vec::new();
        for (id, offset) in found.moved.iter().copied() {
            let others = referred.get(&id).unwrap_or(&nothing);
            let next = others.partition_point(|other| *other < offset);
            let used = others.get(next).is_some_and(|other| *other - offset < 4);
            if !used && !extents.variable(program, id, offset) {
                found.abandoned.entry(id).or_default().push(offset);
            }
        }
        for offsets in found.abandoned.values_mut() {
            offsets.sort_unstable();
        }
        for id in program.ids().filter(|id| program.section(*id).loaded()) {
            let others = referred.get(&id).unwrap_or(&nothing);
            let known = found.abandoned.get(&id).unwrap_or(&nothing);
            let left = leftovers(program, id, known, others, extents.of(program, id));
            if !left.is_empty() {
                let offsets = found.abandoned.entry(id).or_default();
                offsets.extend(left);
                offsets.sort_unstable();
            }
        }
        found
    }

    /// The literal that a relocation of a section reads, when it is one that moves to a pool.
    pub fn of(&self, program: &Program<'_>, id: SectionId, relocation: &Relocation) -> Option<(SectionId, u32)> {
        if !is_literal_load(program.section(id), relocation) {
            return None;
        }
        let Resolved::Section { id, offset } = program.resolve(relocation.target) else { return None };
        let slot = (id, offset.wrapping_add(relocation.addend));
        self.moved.contains(&slot).then_some(slot)
    }

    /// Whether the word at an offset is a literal that only `l32r` instructions used.
    pub fn abandoned(&self, id: SectionId, offset: u32) -> bool {
        let Some(offsets) = self.abandoned.get(&id) else { return false };
        let next = offsets.partition_point(|start| *start <= offset);
        next.checked_sub(1).and_then(|at| offsets.get(at)).is_some_and(|start| offset - start < 4)
    }

    /// Cuts the abandoned literals off the ends of the sections that stay.
    pub fn trim(&self, program: &mut Program<'_>) {
        for (id, offsets) in &self.abandoned {
            let section = program.section_mut(*id);
            for offset in offsets.iter().rev() {
                if offset.checked_add(4) != Some(section.size) {
                    break;
                }
                section.size = *offset;
            }
            let size = section.size;
            section.relocations.retain(|relocation| relocation.offset < size);
            if let (Ok(size), Cow::Borrowed(data)) = (usize::try_from(size), &section.data) {
                section.data = Cow::Borrowed(data.get(..size).unwrap_or(data));
            }
        }
    }
}

/// Whether a relocation stores an address, partly in place.
pub(super) const fn holds_address(kind: u32) -> bool {
    matches!(kind, xtensa::WORD_ADDRESS | xtensa::PLT)
}

/// Compilers also leave literals that no instruction reads. They stand behind other literals, or behind the end of what has
/// a size; a word that a symbol or a relocation may own is not taken for one.
fn leftovers(program: &Program<'_>, id: SectionId, abandoned: &[u32], referred: &[u32], extents: &Extent) -> Vec<u32> {
    let last = |sorted: &[u32], at: u32| {
        let next = sorted.partition_point(|offset| *offset <= at);
        next.checked_sub(1).and_then(|last| sorted.get(last)).copied()
    };
    let words = program.section(id).relocations.iter().filter(|relocation| holds_address(relocation.kind));
    let left = words.map(|relocation| relocation.offset).filter(|offset| {
        let within = offset.saturating_add(3);
        let free = last(abandoned, *offset).max(last(&extents.ends, *offset));
        let owned = last(referred, within).max(last(&extents.starts, within));
        abandoned.binary_search(offset).is_err()
            && !extents.covers(*offset)
            && free.is_some_and(|free| Some(free) > owned)
    });
    left.collect()
}

/// A literal can be copied unless the program may change it, or it has no bytes. Compilers leave some in sections that are
/// never loaded.
fn movable(program: &Program<'_>, extents: &mut Extents, id: SectionId, offset: u32) -> bool {
    let section = program.section(id);
    let inside = offset.checked_add(4).is_some_and(|end| end <= section.size);
    inside && !section.zeros() && !(section.writable() && extents.variable(program, id, offset))
}

/// What the symbols of a section say about its words, in ascending order.
#[derive(Default)]
struct Extent {
    /// Where symbols start.
    starts: Vec<u32>,
    /// Where symbols with a size end, and no other one goes on.
    ends: Vec<u32>,
    /// The extents of symbols with a size, merged.
    sized: Vec<(u32, u32)>,
    /// The extents of variables, merged.
    variables: Vec<(u32, u32)>,
}

impl Extent {
    fn read(program: &Program<'_>, id: SectionId) -> Self {
        let mut extent = Self::default();
        for symbol in program.symbols_in(id) {
            let (start, end) = (symbol.offset(), symbol.offset().saturating_add(symbol.size));
            extent.starts.push(start);
            if symbol.size > 0 {
                merge(&mut extent.sized, start, end);
                if symbol.kind == stt::OBJECT {
                    merge(&mut extent.variables, start, end);
                }
            }
        }
        extent.ends = extent.sized.iter().map(|(_, end)| *end).collect();
        extent
    }

    fn covers(&self, offset: u32) -> bool {
        covered(&self.sized, offset)
    }
}

/// Adds an extent that starts no earlier than the last one.
fn merge(extents: &mut Vec<(u32, u32)>, start: u32, end: u32) {
    match extents.last_mut() {
        Some(last) if start <= last.1 => last.1 = last.1.max(end),
        _ => extents.push((start, end)),
    }
}

fn covered(extents: &[(u32, u32)], offset: u32) -> bool {
    let next = extents.partition_point(|(start, _)| *start <= offset);
    next.checked_sub(1).and_then(|at| extents.get(at)).is_some_and(|(_, end)| offset < *end)
}

/// The extents of sections, each read once.
#[derive(Default)]
struct Extents(HashMap<SectionId, Extent>);

impl Extents {
    fn of(&mut self, program: &Program<'_>, id: SectionId) -> &Extent {
        self.0.entry(id).or_insert_with(|| Extent::read(program, id))
    }

    fn variable(&mut self, program: &Program<'_>, id: SectionId, offset: u32) -> bool {
        covered(&self.of(program, id).variables, offset)
    }
}

/// What the literal at an offset holds.
///
/// # Errors
///
/// Why it cannot be copied.
pub(super) fn read(program: &Program<'_>, id: SectionId, offset: u32) -> Result<Literal, &'static str> {
    let section = program.section(id);
    let word = word_at(section, offset).ok_or("it does not lie inside of its section")?;
    let from = section.relocations.partition_point(|relocation| relocation.offset < offset.saturating_sub(3));
    let near = section.relocations.get(from..).unwrap_or(&[]);
    let near = near.iter().take_while(|relocation| relocation.offset - offset.min(relocation.offset) < 4);
    let mut value = Literal::Number(word);
    let writes =
        near.filter(|relocation| xtensa::table().recipe(relocation.kind).is_none_or(|(_, row)| row.size() > 0));
    for relocation in writes {
        match value {
            Literal::Number(_) if relocation.offset == offset && holds_address(relocation.kind) => {
                value = Literal::Address { target: relocation.target, addend: relocation.addend.wrapping_add(word) };
            }
            _ => return Err("a relocation on it is no plain address of a word; compile the object again"),
        }
    }
    Ok(value)
}

fn key(program: &Program<'_>, literal: Literal) -> Key {
    match literal {
        Literal::Number(number) => Key::Number(number),
        Literal::Address { target, addend } => match program.resolve(target) {
            Resolved::Absolute(value) => Key::Number(value.wrapping_add(addend)),
            Resolved::Section { id, offset } => Key::Place(id, offset.wrapping_add(addend)),
            Resolved::Layout(value) => Key::Layout(value, addend),
            Resolved::Undefined { id, .. } => Key::Undefined(id, addend),
        },
    }
}

/// A pool under construction and the sections that use it.
#[derive(Default)]
struct Group {
    entries: Vec<Literal>,
    known: HashMap<Key, u32>,
    members: Vec<SectionId>,
    /// Section, position of its relocation, and position of the literal in the pool.
    users: Vec<(SectionId, usize, u32)>,
    /// Upper bound of the bytes from the first member to the end of the last.
    span: u64,
}

/// Builds the pools of one section of the image and puts them before their users in `order`.
pub(super) fn pool(
    program: &mut Program<'_>,
    literals: &Literals,
    order: &mut Vec<SectionId>,
) -> Result<(), BuildErrors> {
    let mut faults = Faults::default();
    let mut arranged = Vec::with_capacity(order.len() + 1);
    let mut group = Group::default();
    for id in order.iter().copied() {
        let needs = needs(program, literals, id, &mut faults);
        let section = program.section(id);
        let span = u64::from(section.size) + u64::from(section.align);
        let distinct: HashSet<Key> = needs.iter().map(|need| need.key).collect();
        let fresh = distinct.iter().filter(|key| !group.known.contains_key(*key)).count();
        let pool = 4 * (group.entries.len() + fresh) as u64 + 4;
        if !group.members.is_empty() && group.span + span + pool > REACH {
            close(program, core::mem::take(&mut group), &mut arranged);
        }
        group.members.push(id);
        group.span += span;
        for need in needs {
            let next = u32::try_from(group.entries.len()).unwrap_or(u32::MAX);
            let position = *group.known.entry(need.key).or_insert(next);
            if position == next {
                group.entries.push(need.literal);
            }
            group.users.push((id, need.relocation, position));
        }
    }
    close(program, group, &mut arranged);
    faults.finish()?;
    *order = arranged;
    Ok(())
}

/// A literal that a section reads.
struct Need {
    /// Position of the relocation of the `l32r`.
    relocation: usize,
    key: Key,
    literal: Literal,
}

fn needs(program: &Program<'_>, literals: &Literals, id: SectionId, faults: &mut Faults) -> Vec<Need> {
    let mut needs = Vec::new();
    for (position, relocation) in program.section(id).relocations.iter().enumerate() {
        let Some((slot, offset)) = literals.of(program, id, relocation) else { continue };
        match read(program, slot, offset) {
            Ok(literal) => needs.push(Need { relocation: position, key: key(program, literal), literal }),
            Err(problem) => faults.push(BuildError::Literal {
                at: program.location(id, relocation.offset),
                literal: program.location(slot, offset),
                problem,
            }),
        }
    }
    needs
}

/// Makes the pool of a group a section of the program before the group's members, and points its users there.
fn close(program: &mut Program<'_>, group: Group, arranged: &mut Vec<SectionId>) {
    if !group.entries.is_empty() {
        let mut data = Vec::with_capacity(4 * group.entries.len());
        let mut relocations = Vec::new();
        for (offset, literal) in (0..).step_by(4).zip(&group.entries) {
            let stored = match *literal {
                Literal::Number(number) => number,
                Literal::Address { target, addend } => {
                    relocations.push(Relocation { offset, kind: xtensa::WORD_ADDRESS, target, addend });
                    0
                }
            };
            data.extend_from_slice(&stored.to_le_bytes());
        }
        let pool = program.push(Section {
            origin: Origin::Pool,
            name: ".literal".to_string(),
            kind: sht::PROGBITS,
            flags: shf::ALLOC | shf::EXECINSTR,
            align: 4,
            size: u32::try_from(data.len()).unwrap_or(u32::MAX),
            data: Cow::Owned(data),
            relocations,
            discarded: false,
            live: true,
        });
        for (id, relocation, position) in group.users {
            if let Some(relocation) = program.section_mut(id).relocations.get_mut(relocation) {
                relocation.target = Target::Section { id: pool, offset: 4 * position };
                relocation.addend = 0;
            }
        }
        arranged.push(pool);
    }
    arranged.extend(group.members);
}
