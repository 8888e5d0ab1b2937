//! The report of a PI image.

use std::collections::BTreeMap;

use outboard_elf::pi::{DT_XTENSA_TEXT_ADDR, KernelTable, PiShape, dynamic_name};
use outboard_elf::{Elf, ElfError, Pointers};
use outboard_link::pi::relocations;
use outboard_reloc::xtensa::{self, Half};

use super::lint::{self, Note};
use super::{
    HeaderReport, SectionReport, SegmentReport, demangle, hex, histogram, sections, segments, sha256, toolchain,
};
use crate::opcodes;

/// A PI image.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct PiReport {
    /// Bytes of the file.
    pub size: u64,
    /// Hash of the file.
    pub sha256: String,
    /// Who built it, from `.comment`.
    pub toolchain: Option<String>,
    /// File header.
    pub header: HeaderReport,
    /// Program headers and where each goes.
    pub segments: Vec<SegmentReport>,
    /// Sections.
    pub sections: Vec<SectionReport>,
    /// The dynamic table, the terminator included.
    pub dynamic: Vec<DynamicEntry>,
    /// Relocations.
    pub relocations: Relocations,
    /// The table that dispatch searches; `None` when there is none.
    pub kernel_table: Option<KernelTableReport>,
    /// Functions with a property section.
    pub kernels: Vec<Kernel>,
    /// The record whose meaning is not known.
    pub globstruct: Option<Globstruct>,
    /// What deserves attention.
    pub notes: Vec<Note>,
}

/// An entry of the dynamic table.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct DynamicEntry {
    /// `d_tag`.
    pub tag: u64,
    /// Its name.
    pub name: String,
    /// `d_un`.
    pub value: u64,
}

/// The relocations.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Relocations {
    /// Number of entries.
    pub count: usize,
    /// Entries by type.
    pub histogram: BTreeMap<String, u64>,
    /// High and low halves that belong together, in the order of the file.
    pub pairs: Vec<SlotPair>,
    /// Words that hold an address, in the order of the file.
    pub words: Vec<Word>,
}

/// The two halves of one address.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct SlotPair {
    /// Place of the high half.
    pub high: u32,
    /// Place of the low half.
    pub low: u32,
    /// Slots of the two types.
    pub slots: [u8; 2],
    /// The link address that they form.
    pub target: u32,
}

/// A word that holds an address.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Word {
    /// Where it is.
    pub place: u32,
    /// The link address in it, addend included.
    pub target: u32,
}

/// The kernel table.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct KernelTableReport {
    /// Link address.
    pub address: u64,
    /// Offset in the file.
    pub offset: u64,
    /// Rows in the order in which dispatch compares them.
    pub rows: Vec<KernelTableRow>,
}

/// A row of the kernel table.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct KernelTableRow {
    /// Link address of the row.
    pub address: u64,
    /// Extended opcode.
    pub spec: u8,
    /// Opcode.
    pub opcode: u8,
    /// Name of the opcode, when it has one.
    pub name: Option<String>,
    /// Name of the extended opcode, for instruction 0xF0.
    pub extended: Option<String>,
    /// Link address of the function.
    pub function: u32,
    /// The eight bytes.
    pub raw: String,
}

/// A function with a property section.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Kernel {
    /// Its C++ name, or the mangled one where it cannot be read.
    pub name: String,
    /// Its mangled name.
    pub mangled: String,
    /// Link address of its first instruction.
    pub start: u32,
}

/// The record `.globstruct`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Globstruct {
    /// Link address.
    pub address: u64,
    /// Its bytes.
    pub hex: String,
}

const PROPERTY: &str = ".xt.prop.";
/// Rows of the kernel table that are looked at; the data window of a core holds no more.
const ROWS: usize = 1024;
/// Property sections that are looked at.
const KERNELS: usize = 4096;

impl PiReport {
    pub(super) fn of(elf: &Elf<'_>, shape: &PiShape) -> Result<Self, ElfError> {
        let mut notes = lint::Notes::default();
        let sections = sections(elf)?;
        let region = |index: usize| match index {
            0 => "iram",
            1 => "dram",
            _ => "host",
        };
        let segments = segments(elf, &sections, region);
        let (dynamic, relocations) = match dynamic(elf, shape, &mut notes) {
            Ok(both) => both,
            Err(error) => {
                notes.push("OB0602", None, format!("the relocations cannot be read: {error}"));
                (Vec::new(), Relocations::default())
            }
        };
        let kernel_table = kernel_table(elf, &mut notes);
        let kernels = kernels(elf, &sections, &mut notes);
        let view =
            lint::View { elf, shape, relocations: &relocations, table: kernel_table.as_ref(), kernels: &kernels };
        lint::image(&view, &mut notes);
        Ok(Self {
            size: elf.bytes().len(),
            sha256: sha256(elf.bytes().all()),
            toolchain: toolchain(elf),
            header: HeaderReport::of(elf),
            segments,
            dynamic,
            relocations,
            kernel_table,
            kernels,
            globstruct: globstruct(elf),
            sections,
            notes: notes.finish(),
        })
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map(|word| u32::from_le_bytes(*word))
}

fn dynamic(
    elf: &Elf<'_>,
    shape: &PiShape,
    notes: &mut lint::Notes,
) -> Result<(Vec<DynamicEntry>, Relocations), ElfError> {
    let missing = ElfError::BadDynamic { tag: "PT_DYNAMIC", problem: "is missing", value: 0 };
    let table = elf.dynamic(Pointers::Virtual)?.ok_or(missing)?;
    let name = |tag: u64| dynamic_name(tag).map_or_else(|| format!("{tag:#x}"), str::to_owned);
    let mut entries: Vec<_> =
        table.iter().map(|entry| DynamicEntry { tag: entry.tag, name: name(entry.tag), value: entry.value }).collect();
    entries.push(DynamicEntry { tag: 0, name: name(0), value: 0 });
    if table.get(DT_XTENSA_TEXT_ADDR).is_some() {
        let text = "the dynamic table has DT_XTENSA_TEXT_ADDR, which no known image has; the prelinker does not use it";
        notes.push("OB0631", Some(table.file_offset()), text.to_owned());
    }
    let raw = relocations(elf, shape, &table)?;
    let mut report = Relocations { count: raw.len(), ..Relocations::default() };
    let field = |entry: &[u8; 12], at| word(entry, at).unwrap_or(0);
    report.histogram = histogram(raw.iter().map(|entry| field(entry, 4)));
    let mut open: BTreeMap<u32, Vec<(u32, u8)>> = BTreeMap::new();
    for entry in raw {
        let (place, number, addend) = (field(entry, 0), field(entry, 4), field(entry, 8));
        match Half::of(number) {
            Some(Half::High(slot)) => open.entry(addend).or_default().push((place, slot)),
            Some(Half::Low(slot)) => match open.get_mut(&addend).and_then(Vec::pop) {
                Some((high, high_slot)) => {
                    report.pairs.push(SlotPair { high, low: place, slots: [high_slot, slot], target: addend });
                }
                None => notes.orphan(place, addend, "high"),
            },
            None if number == xtensa::RELATIVE => {
                let stored = elf.file_offset(u64::from(place), 4).and_then(|at| usize::try_from(at).ok());
                let stored = stored.and_then(|at| word(elf.bytes().all(), at)).unwrap_or(0);
                if stored != 0 && addend != 0 {
                    notes.both_addends(place, stored, addend);
                }
                report.words.push(Word { place, target: stored.wrapping_add(addend) });
            }
            None if number == xtensa::NONE => {}
            None => notes.unknown_type(place, number),
        }
    }
    for (addend, places) in open {
        for (place, _) in places {
            notes.orphan(place, addend, "low");
        }
    }
    Ok((entries, report))
}

fn kernel_table(elf: &Elf<'_>, notes: &mut lint::Notes) -> Option<KernelTableReport> {
    let table = match KernelTable::find(elf) {
        Ok(Some(table)) => table,
        Ok(None) => {
            notes.push(
                "OB0627",
                None,
                "the image has no kernel_info_table: the device can dispatch nothing to it".into(),
            );
            return None;
        }
        Err(error) => {
            notes.push("OB0627", None, format!("the kernel table cannot be read: {error}"));
            return None;
        }
    };
    if table.remainder() != 0 {
        let text = format!("the kernel table ends with {} bytes that are no row of 8", table.remainder());
        notes.push("OB0627", Some(table.address), text);
    }
    if table.rows().len() > ROWS {
        let text = format!("the kernel table has {} rows, only the first {ROWS} are looked at", table.rows().len());
        notes.push("OB0627", Some(table.address), text);
    }
    let rows = table.rows().take(ROWS).map(|row| {
        let is_extended = row.opcode == opcodes::EXTENDED_INST;
        KernelTableRow {
            address: row.address,
            spec: row.spec,
            opcode: row.opcode,
            name: opcodes::name(row.opcode).map(str::to_owned),
            extended: is_extended.then(|| opcodes::extended_name(row.spec).map(str::to_owned)).flatten(),
            function: row.function,
            raw: hex(&row.raw),
        }
    });
    Some(KernelTableReport { address: table.address, offset: table.offset, rows: rows.collect() })
}

fn kernels(elf: &Elf<'_>, sections: &[SectionReport], notes: &mut lint::Notes) -> Vec<Kernel> {
    let mut kernels = Vec::new();
    for section in sections {
        let Some(mangled) = section.name.strip_prefix(PROPERTY) else { continue };
        if kernels.len() == KERNELS {
            let text = format!("only the first {KERNELS} property sections are listed");
            notes.push("OB0632", None, text);
            break;
        }
        let data = elf.bytes().range("a property section", section.offset, section.size);
        let Some(start) = data.ok().and_then(|data| word(data, 0)) else {
            notes.push("OB0632", Some(section.offset), format!("section {} holds no start address", section.name));
            continue;
        };
        let name = demangle(mangled).unwrap_or_else(|| mangled.to_owned());
        kernels.push(Kernel { name, mangled: mangled.to_owned(), start });
    }
    kernels
}

fn globstruct(elf: &Elf<'_>) -> Option<Globstruct> {
    let sections = elf.sections().ok()?;
    let section = sections.by_name(b".globstruct")?;
    let data = sections.data(&section).ok()?;
    Some(Globstruct { address: section.address, hex: hex(data.get(..data.len().min(4096))?) })
}
