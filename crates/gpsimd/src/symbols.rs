//! Names of functions by address, for faults, traces and findings.

use outboard_elf::{Elf, StringTable, SymbolTable, sht, stt};

use crate::lines::Lines;

/// Longest name that is kept.
const LONGEST: u64 = 4096;

/// A function of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Function {
    pub(crate) address: u32,
    pub(crate) size: u32,
    pub(crate) name: String,
}

/// The functions of an image in the order of their addresses, and its source lines.
#[derive(Debug, Clone, Default)]
pub(crate) struct Symbols(Vec<Function>, Lines);

impl Symbols {
    /// The functions of a file; `moved` turns a link address into where it is now. A stripped file has none.
    pub(crate) fn of(elf: &Elf<'_>, moved: impl Fn(u32) -> u32) -> Self {
        let mut list = Vec::new();
        if let Ok(sections) = elf.sections() {
            for section in sections.iter().filter(|section| section.kind == sht::SYMTAB) {
                let strings = sections.get(section.link as usize).and_then(|strings| sections.data(&strings).ok());
                let strings = strings.and_then(|strings| StringTable::new("the symbol names", strings).ok());
                let (Some(strings), Ok(raw)) = (strings, sections.data(&section)) else { continue };
                let table = SymbolTable::new(elf.header().class, raw);
                for symbol in table.iter().filter(|symbol| symbol.defined() && symbol.kind() == stt::FUNC) {
                    let Ok(name) = strings.get("a symbol name", symbol.name.into(), LONGEST) else { continue };
                    let (Ok(address), Ok(size)) = (u32::try_from(symbol.value), u32::try_from(symbol.size)) else {
                        continue;
                    };
                    let name = String::from_utf8_lossy(name).into_owned();
                    list.push(Function { address: moved(address), size, name });
                }
            }
        }
        list.sort_by(|a, b| (a.address, &a.name).cmp(&(b.address, &b.name)));
        Self(list, Lines::of(elf, moved))
    }

    /// The function at or around an address.
    pub(crate) fn around(&self, address: u32) -> Option<&Function> {
        let behind = self.0.partition_point(|function| function.address <= address);
        let found = self.0.get(behind.checked_sub(1)?)?;
        (found.size == 0 || address - found.address < found.size).then_some(found)
    }

    /// The names of what begins at an address: equal functions may be one.
    pub(crate) fn names_at(&self, address: u32) -> impl Iterator<Item = &str> {
        let first = self.0.partition_point(|function| function.address < address);
        let here = self.0.iter().skip(first).take_while(move |function| function.address == address);
        here.map(|function| function.name.as_str())
    }

    /// The function with a name.
    pub(crate) fn find(&self, name: &str) -> Option<u32> {
        self.0.iter().find(|function| function.name == name).map(|function| function.address)
    }

    /// The source file and line of an instruction, if the image has debug information.
    pub(crate) fn line(&self, address: u32) -> Option<(String, u32)> {
        self.1.find(address)
    }

    /// All functions.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Function> {
        self.0.iter()
    }
}
