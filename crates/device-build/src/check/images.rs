//! The files of the cores: whether they are one program, linked for each.

use outboard_elf::pi::{DeviceShape, FLL_BASE, FLL_STRIDE};

use super::object::Object;
use super::rule::{Findings, Rule};

/// A linked file, by its shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Linked {
    /// One for all cores.
    Pi,
    /// For one core, by its address.
    Fixed { core: u8 },
}

/// What a linked file is; what is neither shape is a finding.
pub(super) fn shape(object: &Object<'_>, findings: &mut Findings) -> Option<Linked> {
    match DeviceShape::of(&object.elf) {
        Ok(DeviceShape::Pi(_)) => Some(Linked::Pi),
        Ok(DeviceShape::Fll(shape)) => Some(Linked::Fixed { core: shape.core }),
        Err(error) => {
            findings.error(Rule::Damaged, object.place.clone(), error.to_string());
            None
        }
    }
}

/// Compares the files of a fixed-load library with that of core 0: they may differ in addresses of their own window only.
pub(super) fn same_program(files: &[Object<'_>], findings: &mut Findings) {
    let Some((first, others)) = files.split_first() else { return };
    for (core, other) in (1_u8..).zip(others) {
        if let Some(problem) = difference(first, other, core) {
            let message = format!("is not the program of core 0 for core {core}: {problem}");
            findings.error(Rule::CoresDiffer, other.place.clone(), message);
        }
    }
}

fn difference(first: &Object<'_>, other: &Object<'_>, core: u8) -> Option<String> {
    let shift = FLL_STRIDE * u64::from(core);
    if first.elf.header().entry.checked_add(shift) != Some(other.elf.header().entry) {
        return Some("its entry is another function".to_owned());
    }
    let (mut here, mut there) = (first.elf.segments(), other.elf.segments());
    loop {
        let (a, b) = match (here.next(), there.next()) {
            (None, None) => return None,
            (Some(a), Some(b)) => (a, b),
            _ => return Some("it has another number of segments".to_owned()),
        };
        if (a.kind, a.filesz, a.memsz) != (b.kind, b.filesz, b.memsz) {
            return Some(format!(
                "segment {} has {:#x} of {:#x} bytes, that of core 0 {:#x} of {:#x}",
                b.index, b.filesz, b.memsz, a.filesz, a.memsz
            ));
        }
        if a.vaddr != 0 && a.vaddr.checked_add(shift) != Some(b.vaddr) {
            return Some(format!(
                "segment {} is at {:#x}, expected {:#x}",
                b.index,
                b.vaddr,
                a.vaddr.saturating_add(shift)
            ));
        }
        let (Ok(left), Ok(right)) = (first.elf.segment_data(&a), other.elf.segment_data(&b)) else {
            return Some(format!("segment {} is not in the file", b.index));
        };
        // The windows differ in bits 21 to 23 of an address: one byte, wherever the address stands.
        let moved = core << 5;
        let odd = left.iter().zip(right).position(|(a, b)| a != b && b.wrapping_sub(*a) != moved);
        if let Some(offset) = odd {
            let address = b.vaddr.saturating_add(offset as u64);
            return Some(format!("the byte at {address:#x} differs by more than the distance of the windows"));
        }
    }
}

/// The address of a core's window, for messages.
pub(super) fn window(core: u8) -> u64 {
    FLL_BASE + FLL_STRIDE * u64::from(core)
}
