//! Target `elf`: reads everything that the reader can read, in every way.

use outboard_elf::{
    Elf, Pointers, RelaTable, RelrTable, StringTable, SymbolTable, gnu_symbol_count, sysv_symbol_count,
};
use outboard_link::inspect::inspect;
use outboard_link::resource_table;

use crate::signature::Signature;

/// Most entries of a table that are decoded: decoding one is like decoding all.
const ENTRIES: usize = 4096;

/// Runs the target.
#[must_use]
pub fn run(data: &[u8]) -> u64 {
    let mut signature = Signature::default();
    match inspect(data) {
        Ok(shown) => {
            signature.count(shown.problems.len());
            signature.count(shown.exports.count);
            signature.count(shown.imports.count);
            signature.count(shown.relocations.len());
        }
        Err(error) => signature.elf_error(&error),
    }
    if let Err(error) = resource_table::decode(data) {
        signature.word(error.problem);
    }
    if let Ok(elf) = Elf::parse(data) {
        walk(&elf, &mut signature);
    }
    signature.value()
}

fn walk(elf: &Elf<'_>, signature: &mut Signature) {
    let mut error = |error: Option<outboard_elf::ElfError>| match &error {
        Some(error) => signature.elf_error(error),
        None => signature.word("ok"),
    };
    error(elf.segments().find_map(|segment| elf.segment_data(&segment).err()));
    error(elf.notes().find_map(Result::err));
    match elf.sections() {
        Ok(sections) => {
            error(sections.iter().take(ENTRIES).find_map(|section| sections.name(&section).err()));
            error(sections.iter().take(ENTRIES).find_map(|section| sections.data(&section).err()));
        }
        Err(found) => error(Some(found)),
    }
    for pointers in [Pointers::FileOffset, Pointers::Virtual] {
        match elf.dynamic(pointers) {
            Ok(Some(dynamic)) => {
                for entry in dynamic.iter() {
                    if let Ok(rest) = dynamic.rest("a table", entry.value) {
                        tables(elf, rest);
                    }
                }
            }
            Ok(None) => {}
            Err(found) => error(Some(found)),
        }
    }
}

/// Takes the same bytes for a table of every kind.
fn tables(elf: &Elf<'_>, data: &[u8]) {
    let class = elf.header().class;
    let _ = (gnu_symbol_count(data), sysv_symbol_count(data));
    let strings = StringTable::new("names", data);
    for symbol in SymbolTable::new(class, data).iter().take(ENTRIES) {
        if let Ok(strings) = &strings {
            let name = strings.get("a name", u64::from(symbol.name), elf.limits().name);
            assert!(name.is_err() || name.is_ok_and(|name| strings.matches(u64::from(symbol.name), name)));
        }
    }
    let relocations = RelaTable::new(class, data);
    assert!(relocations.iter().take(ENTRIES).count() <= relocations.len());
    assert!(RelrTable::new(data).places().take(ENTRIES).count() <= ENTRIES);
}
