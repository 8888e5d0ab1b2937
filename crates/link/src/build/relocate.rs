//! Phase *relocate*: copies the sections to their places and writes every relocation: checked, written, read back.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use outboard_reloc::xtensa::{self, Operand, OperandError};
use outboard_reloc::{ApplyError, Expr};

use super::error::Faults;
use super::literal::{Literals, bytes_at, holds_address};
use super::place::{Address, Placement};
use super::program::{Origin, Program, Relocation, SectionId, Target};
use super::{BuildError, BuildErrors, Patch, Site};

/// The bytes of the sections of the layout, and every place that was written.
pub(super) struct Relocated {
    /// For each section of the layout; what is missing at the end is zero.
    pub data: Vec<Vec<u8>>,
    pub sites: Vec<Site>,
}

/// Copies and relocates.
pub(super) fn relocate(
    program: &Program<'_>,
    literals: &Literals,
    placement: &Placement,
) -> Result<Relocated, BuildErrors> {
    let mut walk = Walk { program, literals, placement, faults: Faults::default(), sites: Vec::new() };
    let mut data = Vec::with_capacity(placement.outputs.len());
    for (index, output) in placement.outputs.iter().enumerate() {
        let mut bytes = Vec::new();
        for id in &output.inputs {
            let section = program.section(*id);
            let Some((_, address)) = placement.addresses.get(id.0).copied().flatten() else { continue };
            if section.zeros() {
                continue;
            }
            bytes.resize(usize_of(address - output.address), 0);
            let start = bytes.len();
            bytes.extend_from_slice(&section.data);
            let place = bytes.get_mut(start..).unwrap_or(&mut []);
            walk.section(*id, place, Spot { output: index, base: output.address, address });
        }
        data.push(bytes);
    }
    walk.faults.finish()?;
    Ok(Relocated { data, sites: walk.sites })
}

/// Where a section is.
#[derive(Clone, Copy)]
struct Spot {
    output: usize,
    /// Address of the section of the layout.
    base: u32,
    address: u32,
}

struct Walk<'p, 'a> {
    program: &'p Program<'a>,
    literals: &'p Literals,
    placement: &'p Placement,
    faults: Faults,
    sites: Vec<Site>,
}

impl Walk<'_, '_> {
    fn section(&mut self, id: SectionId, bytes: &mut [u8], spot: Spot) {
        let mut written = 0;
        for relocation in &self.program.section(id).relocations {
            match self.relocation(id, bytes, spot, relocation, &mut written) {
                Ok(Some(site)) => self.sites.push(site),
                Ok(None) => {}
                Err(error) => self.faults.push(error),
            }
        }
    }

    fn relocation(
        &self,
        id: SectionId,
        bytes: &mut [u8],
        spot: Spot,
        relocation: &Relocation,
        written: &mut u32,
    ) -> Result<Option<Site>, BuildError> {
        let at = || self.program.location(id, relocation.offset);
        let number = relocation.kind;
        let Some(row) = xtensa::table().row(number) else { return Err(BuildError::UnknownType { at: at(), number }) };
        let name = row.name;
        if number == xtensa::RELATIVE {
            let why = "it belongs to images that are loaded at run time; pass the object it was linked from";
            return Err(BuildError::RefusedType { at: at(), name, why });
        }
        match row.expr {
            Expr::Nothing => return Ok(None),
            Expr::Refused(why) => return Err(BuildError::RefusedType { at: at(), name, why }),
            _ => {}
        }
        let section = self.program.section(id);
        let patch = self.patch(id, relocation, name)?;
        let stored = if holds_address(number) { word(bytes_at(section, relocation.offset)) } else { 0 };
        let addend = relocation.addend.wrapping_add(stored);
        let (target, target_section) = match self.placement.address(self.program, relocation.target, addend) {
            Address::Image { value, output } => (value, Some(output)),
            Address::Number(value) => (value, None),
            Address::Missing | Address::Discarded if self.literals.abandoned(id, relocation.offset) => return Ok(None),
            Address::Missing => (addend, None),
            Address::Discarded => {
                let symbol = self.program.target_name(relocation.target, addend);
                return Err(BuildError::Discarded { at: at(), symbol });
            }
        };
        let bad = |problem| BuildError::BadRelocation { at: at(), name, problem };
        let length = patch.length();
        if relocation.offset < *written {
            return Err(BuildError::Overlap { at: at(), name });
        }
        *written = relocation.offset.checked_add(length).ok_or_else(|| bad("its place lies behind its section"))?;
        let place = spot.address.wrapping_add(relocation.offset);
        patch.write(bytes, usize_of(relocation.offset), place, target).map_err(|error| match error {
            OperandError::OutOfReach { distance } | OperandError::Misaligned { distance } => {
                self.out_of_reach(id, relocation, patch, place, target, distance)
            }
            OperandError::Site(ApplyError::ReadBack) => {
                BuildError::Verify { at: at(), problem: "the bytes read back differ from those written" }
            }
            OperandError::Site(_) => bad("its place does not lie inside of its section"),
        })?;
        let symbol = match relocation.target {
            Target::Global { id, .. } => Some(id.0),
            _ => None,
        };
        Ok(Some(Site {
            section: spot.output,
            offset: place.wrapping_sub(spot.base),
            place,
            kind: number,
            name,
            patch,
            target,
            target_section,
            symbol,
            addend: addend.cast_signed(),
        }))
    }

    /// What a relocation writes.
    fn patch(&self, id: SectionId, relocation: &Relocation, name: &'static str) -> Result<Patch, BuildError> {
        let number = relocation.kind;
        if holds_address(number) {
            return Ok(Patch::Word);
        }
        if number == xtensa::WORD_DISTANCE {
            return Ok(Patch::Distance);
        }
        let found = bytes_at(self.program.section(id), relocation.offset);
        let mut bytes = [0; 3];
        for (to, from) in bytes.iter_mut().zip(found) {
            *to = *from;
        }
        let at = || self.program.location(id, relocation.offset);
        let none = |problem| BuildError::NoOperand { at: at(), name, bytes, problem };
        let [first, ..] = bytes;
        if first & 0xe == 0xe {
            return Err(none("it is a FLIX bundle, and where its slots have their operands is not known"));
        }
        match number {
            xtensa::SLOT0_OP if xtensa::takes_half(first) => Ok(Patch::LowHalf),
            xtensa::SLOT0_ALT if xtensa::takes_half(first) => Ok(Patch::HighHalf),
            xtensa::SLOT0_ALT => Err(none("only const16 takes the high half of an address")),
            _ => match Operand::of(found) {
                Some(operand) => Ok(Patch::Operand(operand)),
                None => Err(none("it is none of l32r, const16, calls, jumps, branches and loops")),
            },
        }
    }

    fn out_of_reach(
        &self,
        id: SectionId,
        relocation: &Relocation,
        patch: Patch,
        place: u32,
        target: u32,
        distance: i32,
    ) -> BuildError {
        let (form, min, max, step) = match patch {
            Patch::Operand(operand) => (operand.name, operand.min, operand.max, operand.align),
            _ => ("a word", i32::MIN, i32::MAX, 1),
        };
        let in_pool = matches!(relocation.target, Target::Section { id, .. }
            if self.program.section(id).origin == Origin::Pool);
        let help = match (form, in_pool) {
            ("l32r", true) => {
                "the section is larger than l32r reaches back: compile with -ffunction-sections or split the function"
            }
            ("l32r", false) => {
                "a literal that the program may change, or that is no part of it, is not copied: place it before the code, within reach"
            }
            _ if !distance.cast_unsigned().is_multiple_of(u32::from(step)) => "align the target",
            _ => "place the two nearer to each other, or compile with -mlongcalls",
        };
        let mut symbol = self.program.target_name(relocation.target, relocation.addend);
        if self.placement.address(self.program, relocation.target, 0) == Address::Missing {
            symbol = alloc::format!("the undefined weak symbol {symbol}");
        } else if in_pool {
            symbol = "its literal".to_string();
        }
        let at = self.program.location(id, relocation.offset);
        BuildError::OutOfReach { at, form, place, symbol, target, distance, min, max, step, help }
    }
}

/// The first four bytes as a word; missing ones are zero.
fn word(bytes: &[u8]) -> u32 {
    bytes.first_chunk().map_or(0, |word| u32::from_le_bytes(*word))
}

/// A 32-bit number as a size of host memory.
pub(super) fn usize_of(value: u32) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

/// Names of the globals, which sites refer to by number.
pub(super) fn names(program: &Program<'_>) -> Vec<String> {
    program.globals.iter().map(|global| super::program::lossy(&global.name)).collect()
}
