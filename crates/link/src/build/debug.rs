//! Debug information (`.debug_*`): the sections of all objects joined and relocated, for programs that show source lines.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use outboard_elf::{shf, sht};

use super::literal::{bytes_at, holds_address};
use super::place::{Address, Placement};
use super::program::{Program, Resolved, SectionId};
use super::relocate::usize_of;

/// Joined debug information of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DebugSection {
    /// Its name, such as `.debug_line`.
    pub name: String,
    /// Its contents, with the addresses of the image.
    pub bytes: Vec<u8>,
}

/// Where each section of the objects lies in the joined ones.
type Places = BTreeMap<SectionId, u32>;

/// Joins the debug information of all objects that take part. What refers to code that was left out has address 0.
pub(super) fn sections(program: &Program<'_>, placement: &Placement) -> Vec<DebugSection> {
    let mut joined: Vec<DebugSection> = Vec::new();
    let mut places = Places::new();
    for id in program.ids() {
        let section = program.section(id);
        let debug = section.kind == sht::PROGBITS && section.flags & shf::ALLOC == 0 && !section.discarded;
        if !debug || !section.name.starts_with(".debug_") {
            continue;
        }
        let index = joined.iter().position(|other| other.name == section.name).unwrap_or_else(|| {
            joined.push(DebugSection { name: section.name.clone(), bytes: Vec::new() });
            joined.len() - 1
        });
        let Some(target) = joined.get_mut(index) else { continue };
        let Ok(start) = u32::try_from(target.bytes.len()) else { continue };
        places.insert(id, start);
        target.bytes.extend_from_slice(&section.data);
    }
    for (id, start) in &places {
        let section = program.section(*id);
        let Some(target) = joined.iter_mut().find(|other| other.name == section.name) else { continue };
        for relocation in section.relocations.iter().filter(|relocation| holds_address(relocation.kind)) {
            let stored = bytes_at(section, relocation.offset).first_chunk().map_or(0, |word| u32::from_le_bytes(*word));
            let addend = relocation.addend.wrapping_add(stored);
            let value = match program.resolve(relocation.target) {
                Resolved::Section { id, offset } if places.contains_key(&id) => {
                    places.get(&id).map_or(0, |place| place.wrapping_add(offset).wrapping_add(addend))
                }
                _ => match placement.address(program, relocation.target, addend) {
                    Address::Image { value, .. } | Address::Number(value) => value,
                    Address::Missing | Address::Discarded => 0,
                },
            };
            let at = usize_of(start.wrapping_add(relocation.offset));
            if let Some(place) = at.checked_add(4).and_then(|end| target.bytes.get_mut(at..end)) {
                place.copy_from_slice(&value.to_le_bytes());
            }
        }
    }
    joined
}
