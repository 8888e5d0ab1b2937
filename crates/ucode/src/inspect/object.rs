//! The report of a relocatable object.

use std::collections::BTreeMap;

use outboard_elf::{Class, Elf, ElfError, RelaTable, StringTable, SymbolTable, sht, stt};
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
    /// Names that it defines for other files, or that it needs.
    pub symbols: Vec<ObjectSymbol>,
    /// Names beyond those that are listed.
    pub more_symbols: usize,
    /// Relocations.
    pub relocations: ObjectRelocations,
}

/// A name that an object shares with others.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct ObjectSymbol {
    /// Its name.
    pub name: String,
    /// It is defined here.
    pub defined: bool,
    /// It may stay undefined, or another definition may replace it.
    pub weak: bool,
    /// Index of its section; 0 when it is undefined.
    pub section: u16,
    /// Offset in its section.
    pub value: u64,
    /// Bytes.
    pub size: u64,
}

/// Names that are listed, and the longest.
const SYMBOLS: usize = 4096;
const NAME: u64 = 4096;

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
        let (symbols, more_symbols) = symbols(elf)?;
        Ok(Self {
            size: elf.bytes().len(),
            toolchain: toolchain(elf),
            header: HeaderReport::of(elf),
            sections: sections(elf)?,
            symbols,
            more_symbols,
            relocations,
        })
    }
}

/// The names of the symbol table that are not local. What is kept of them may be as long as the file and a little more.
fn symbols(elf: &Elf<'_>) -> Result<(Vec<ObjectSymbol>, usize), ElfError> {
    let sections = elf.sections()?;
    let (mut list, mut more) = (Vec::new(), 0_usize);
    let mut budget = elf.bytes().len().saturating_add(1024);
    for section in sections.iter().filter(|section| section.kind == sht::SYMTAB) {
        let strings = usize::try_from(section.link).ok().and_then(|link| sections.get(link));
        let Some(strings) = strings else { continue };
        let strings = StringTable::new("the symbol names", sections.data(&strings)?)?;
        let table = SymbolTable::new(Class::Elf32, sections.data(&section)?);
        let shared = table.iter().skip(1).filter(|symbol| !symbol.local() && symbol.kind() != stt::SECTION);
        for symbol in shared {
            let name = strings.get("a symbol name", symbol.name.into(), NAME)?;
            let cost = name.len() as u64 + size_of::<ObjectSymbol>() as u64;
            let Some(left) = budget.checked_sub(cost).filter(|_| list.len() < SYMBOLS) else {
                more += 1;
                continue;
            };
            budget = left;
            list.push(ObjectSymbol {
                name: String::from_utf8_lossy(name).into_owned(),
                defined: symbol.defined(),
                weak: symbol.weak(),
                section: symbol.shndx,
                value: symbol.value,
                size: symbol.size,
            });
        }
    }
    Ok((list, more))
}
