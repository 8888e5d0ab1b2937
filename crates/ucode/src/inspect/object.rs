//! The report of a relocatable object.

use std::collections::BTreeMap;

use outboard_elf::{Class, Elf, ElfError, RelaTable, sht};
use outboard_reloc::Expr;
use outboard_reloc::xtensa;

use super::{HeaderReport, SectionReport, histogram, sections, toolchain};

/// A relocatable object.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct ObjectReport {
    /// Bytes of the file.
    pub size: u64,
    /// Who built it, from `.comment`.
    pub toolchain: Option<String>,
    /// File header.
    pub header: HeaderReport,
    /// Sections.
    pub sections: Vec<SectionReport>,
    /// Relocations.
    pub relocations: ObjectRelocations,
}

/// The relocations of an object.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct ObjectRelocations {
    /// Number of entries.
    pub count: u64,
    /// Entries by type.
    pub histogram: BTreeMap<String, u64>,
    /// Entries that a linker may ignore by design: hints and differences that are already stored.
    pub ignorable: u64,
    /// Entries of types that no linker of ours applies.
    pub refused: u64,
}

impl ObjectReport {
    pub(super) fn of(elf: &Elf<'_>) -> Result<Self, ElfError> {
        let table = elf.sections()?;
        let mut numbers = Vec::new();
        for section in table.iter().filter(|section| section.kind == sht::RELA) {
            numbers.extend(RelaTable::new(Class::Elf32, table.data(&section)?).iter().map(|entry| entry.kind));
        }
        let is = |wanted: fn(&Expr) -> bool| {
            let matches = |number: &&u32| xtensa::table().row(**number).is_some_and(|row| wanted(&row.expr));
            numbers.iter().filter(matches).count() as u64
        };
        let known = numbers.iter().filter(|number| xtensa::table().row(**number).is_some()).count();
        let relocations = ObjectRelocations {
            count: numbers.len() as u64,
            ignorable: is(|expr| *expr == Expr::Nothing),
            refused: is(|expr| matches!(expr, Expr::Refused(_))) + (numbers.len() - known) as u64,
            histogram: histogram(numbers.into_iter()),
        };
        Ok(Self {
            size: elf.bytes().len(),
            toolchain: toolchain(elf),
            header: HeaderReport::of(elf),
            sections: sections(elf)?,
            relocations,
        })
    }
}
