//! The tables that tell code from literals (`.xt.prop`): read from the objects, rebuilt for the image.

use alloc::vec::Vec;

use outboard_elf::{shf, sht};

use super::literal::{Literals, bytes_at};
use super::place::{Address, Placement};
use super::program::{Origin, Program, Resolved, SectionId};

/// Size of an entry: address, size, flags.
const ENTRY: u32 = 12;
/// `XTENSA_PROP_LITERAL`
const LITERAL: u32 = 1;

/// What lies at a range of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Property {
    /// First address.
    pub address: u32,
    /// Size in bytes.
    pub size: u32,
    /// Flags as the assembler set them: 1 literals, 2 instructions, 4 data, and more.
    pub flags: u32,
}

/// An entry of an object: a range of a section.
pub(super) struct Range {
    id: SectionId,
    offset: u32,
    size: u32,
    flags: u32,
}

/// Reads the tables of all objects. Entries whose address no relocation gives, or that are cut, describe nothing.
pub(super) fn read(program: &Program<'_>) -> Vec<Range> {
    let mut ranges = Vec::new();
    for id in program.ids() {
        let section = program.section(id);
        let table = section.kind == sht::PROGBITS && section.flags & shf::ALLOC == 0 && !section.discarded;
        if !table || !(section.name.starts_with(".xt.prop") || section.name.starts_with(".gnu.linkonce.prop.")) {
            continue;
        }
        let entries = section.relocations.iter().filter(|relocation| relocation.offset % ENTRY == 0);
        for relocation in entries.filter(|relocation| super::literal::holds_address(relocation.kind)) {
            let Resolved::Section { id: target, offset } = program.resolve(relocation.target) else { continue };
            let (words, _) = bytes_at(section, relocation.offset).as_chunks::<4>();
            let [stored, size, flags, ..] = words else { continue };
            let [stored, size, flags] = [stored, size, flags].map(|word| u32::from_le_bytes(*word));
            let offset = offset.wrapping_add(relocation.addend).wrapping_add(stored);
            ranges.push(Range { id: target, offset, size, flags });
        }
    }
    ranges
}

/// The table of the image: ranges that are still there, and the pools.
pub(super) fn place(
    program: &Program<'_>,
    placement: &Placement,
    literals: &Literals,
    read: Vec<Range>,
) -> Vec<Property> {
    let mut properties = Vec::new();
    for range in read {
        let section = program.section(range.id);
        let target = super::program::Target::Section { id: range.id, offset: range.offset };
        let Address::Image { value, .. } = placement.address(program, target, 0) else { continue };
        let left = section.size.saturating_sub(range.offset);
        let gone = range.size > 0 && (left == 0 || literals.abandoned(range.id, range.offset));
        if !gone {
            properties.push(Property { address: value, size: range.size.min(left), flags: range.flags });
        }
    }
    for id in program.ids().filter(|id| program.section(*id).origin == Origin::Pool) {
        if let Some((_, address)) = placement.addresses.get(id.0).copied().flatten() {
            properties.push(Property { address, size: program.section(id).size, flags: LITERAL });
        }
    }
    properties.sort_unstable();
    properties.dedup();
    properties
}
