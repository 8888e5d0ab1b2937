//! What deserves attention in an image: faults that loading does not see and that would crash a core.

use std::collections::BTreeSet;

use outboard_elf::Elf;
use outboard_elf::pi::PiShape;
use outboard_xtensa::isa::{Flow, IsaSet};
use outboard_xtensa::length::Flix;
use outboard_xtensa::{Decoded, Decoder};

use super::pi::{Kernel, KernelTableReport, Relocations};

/// Something that deserves attention.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Note {
    /// Stable code, explained by `outboard explain`.
    pub code: &'static str,
    /// Link address or file offset, where there is one.
    pub address: Option<u64>,
    /// What it is and what to do.
    pub message: String,
}

/// Notes of one kind that are listed; the rest is counted.
const KEPT: usize = 32;

#[derive(Default)]
pub(super) struct Notes {
    list: Vec<Note>,
    more: std::collections::BTreeMap<&'static str, usize>,
}

impl Notes {
    pub fn push(&mut self, code: &'static str, address: Option<u64>, message: String) {
        let same = self.list.iter().filter(|note| note.code == code).count();
        if same < KEPT {
            self.list.push(Note { code, address, message });
        } else {
            *self.more.entry(code).or_insert(0) += 1;
        }
    }

    pub fn finish(mut self) -> Vec<Note> {
        for (code, count) in self.more {
            self.list.push(Note { code, address: None, message: format!("{count} more of this kind") });
        }
        self.list
    }

    pub fn orphan(&mut self, place: u32, address: u32, missing: &str) {
        let text = format!(
            "the relocation at {place:#x} sets one half of {address:#x} and no {missing} half follows: the image was relaxed \
             after assembly; link with --no-relax"
        );
        self.push("OB0623", Some(place.into()), text);
    }

    pub fn both_addends(&mut self, place: u32, word: u32, addend: u32) {
        let text = format!(
            "the word at {place:#x} is {word:#x} and its relocation adds {addend:#x}: the prelinker uses the sum; write one of \
             the two as 0"
        );
        self.push("OB0624", Some(place.into()), text);
    }

    pub fn unknown_type(&mut self, place: u32, number: u32) {
        let text =
            format!("relocation type {number} at {place:#x} is not applied by the prelinker and will be refused");
        self.push("OB0605", Some(place.into()), text);
    }
}

pub(super) struct View<'a, 'e> {
    pub elf: &'a Elf<'e>,
    pub shape: &'a PiShape,
    pub relocations: &'a Relocations,
    pub table: Option<&'a KernelTableReport>,
    pub kernels: &'a [Kernel],
}

impl View<'_, '_> {
    /// The bytes of the text from a link address to the end of the segment.
    fn text_at(&self, address: u32) -> Option<&[u8]> {
        let text = &self.shape.text;
        let inside = u64::from(address).checked_sub(text.vaddr)?;
        self.elf.segment_data(text).ok()?.get(usize::try_from(inside).ok()?..).filter(|rest| !rest.is_empty())
    }
}

/// All checks of a PI image.
pub(super) fn image(view: &View<'_, '_>, notes: &mut Notes) {
    table(view, notes);
    sites(view, notes);
    literals(view, notes);
}

/// Every function of the kernel table lies in the text and begins with `entry`; no key occurs twice.
fn table(view: &View<'_, '_>, notes: &mut Notes) {
    let mut keys = BTreeSet::new();
    for row in view.table.iter().flat_map(|table| &table.rows) {
        let what = format!("kernel {:#04x}/{} at {:#x}", row.opcode, row.spec, row.address);
        match view.text_at(row.function) {
            None => notes.push(
                "OB0621",
                Some(row.address),
                format!("{what}: its function {:#x} lies outside of the text; link the image again", row.function),
            ),
            Some([first, second, ..]) if *first == 0x36 && second & 0xf == 1 => {}
            Some(_) => notes.push(
                "OB0622",
                Some(row.address),
                format!(
                    "{what}: its function {:#x} does not begin with `entry`; dispatch calls it with callx8",
                    row.function
                ),
            ),
        }
        if !keys.insert((row.opcode, row.spec)) {
            let text = format!("{what}: an earlier row has the same key, so dispatch never reaches this one");
            notes.push("OB0628", Some(row.address), text);
        }
    }
}

/// Every half goes into a `const16`.
fn sites(view: &View<'_, '_>, notes: &mut Notes) {
    for place in view.relocations.pairs.iter().flat_map(|pair| [pair.high, pair.low]) {
        match view.text_at(place) {
            None => {
                let text = format!("half an address is to be written at {place:#x}, outside of the text");
                notes.push("OB0605", Some(place.into()), text);
            }
            Some([first, ..]) if outboard_reloc::xtensa::takes_half(*first) => {}
            Some([first, ..]) if first & 0xf >= 0xe => {
                let text = format!("the instruction at {place:#x} is a FLIX bundle: prelinking it needs a slot table");
                notes.push("OB0613", Some(place.into()), text);
            }
            Some(_) => {
                let text = format!("the instruction at {place:#x} is no const16 and takes no half of an address");
                notes.push("OB0605", Some(place.into()), text);
            }
        }
    }
}

/// Instructions that are followed: the code window of a core holds no more.
const FOLLOWED: usize = 1 << 15;

/// Follows the code of every known function and checks where its `l32r` read.
fn literals(view: &View<'_, '_>, notes: &mut Notes) {
    let decoder = Decoder::new(IsaSet::vision_q7()).with_flix(Flix::VisionQ7);
    let rows = view.table.iter().flat_map(|table| &table.rows).map(|row| row.function);
    let entry = u32::try_from(view.elf.header().entry).ok();
    let roots = rows.chain(view.kernels.iter().map(|kernel| kernel.start)).chain(entry);
    let mut seen = BTreeSet::new();
    for root in roots {
        let mut pc = root;
        while seen.len() < FOLLOWED && seen.insert(pc) {
            let Some(Ok(decoded)) = view.text_at(pc).map(|bytes| decoder.decode(bytes)) else { break };
            if let Decoded::Instruction(instruction) = decoded {
                if let Some(literal) = instruction.literal(pc)
                    && view.text_at(literal).is_none_or(|bytes| bytes.len() < 4)
                {
                    let text = format!(
                        "the l32r at {pc:#x} reads {literal:#x}, outside of the text: its literal was moved; build with \
                         --text-section-literals"
                    );
                    notes.push("OB0626", Some(pc.into()), text);
                }
                if !instruction.row().flow().falls_through() || instruction.row().flow() == Flow::WindowReturn {
                    break;
                }
            }
            pc = pc.wrapping_add(u32::from(decoded.length()));
        }
    }
}
