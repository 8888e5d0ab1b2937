//! What can be said about a file without running it: its machine, its symbols, its instructions.

use std::collections::BTreeSet;

use outboard_elf::{Class, Elf, ElfError, StringTable, SymbolTable, em_name, machine, sht, stb, stt};
use outboard_xtensa::isa::IsaSet;
use outboard_xtensa::length::Flix;
use outboard_xtensa::{Decoded, Decoder};

use super::rule::{Findings, Rule};

/// Longest name of a symbol that is read.
const LONGEST: u64 = 4096;

/// A symbol with a name.
#[derive(Debug, Clone)]
pub(crate) struct Named {
    pub(crate) name: String,
    /// Index of its section; `None`: defined elsewhere.
    section: Option<usize>,
    value: u64,
    size: u64,
    function: bool,
    global: bool,
    weak: bool,
}

/// A file with its symbols.
#[derive(Debug)]
pub(crate) struct Object<'a> {
    /// What messages call it.
    pub(crate) place: String,
    pub(crate) elf: Elf<'a>,
    pub(crate) symbols: Vec<Named>,
}

/// Reads a file, or says why it is not for a pool core.
pub(crate) fn read<'a>(place: &str, bytes: &'a [u8], findings: &mut Findings) -> Option<Object<'a>> {
    let other = |what: String| format!("is for {what}; pool cores are 32-bit little-endian Xtensa");
    if bytes.starts_with(b"\x7fELF") {
        let wrong = match (bytes.get(4), bytes.get(5)) {
            (Some(2), _) => Some("a 64-bit machine".to_owned()),
            (_, Some(2)) => Some("a big-endian machine".to_owned()),
            _ => {
                let number = bytes.get(18..20).and_then(<[u8]>::first_chunk).map(|field| u16::from_le_bytes(*field));
                let number = number.filter(|number| *number != machine::XTENSA);
                number.map(|number| em_name(number).map_or_else(|| format!("machine {number}"), str::to_owned))
            }
        };
        if let Some(what) = wrong {
            findings.error(Rule::Target, format!("{place}: ELF header"), other(what));
            return None;
        }
    }
    match Elf::parse(bytes).and_then(|elf| Ok((elf, symbols(&elf)?))) {
        Ok((elf, symbols)) => Some(Object { place: place.to_owned(), elf, symbols }),
        Err(error) => {
            findings.error(Rule::Damaged, place, format!("is no sound ELF file: {error}"));
            None
        }
    }
}

fn symbols(elf: &Elf<'_>) -> Result<Vec<Named>, ElfError> {
    let sections = elf.sections()?;
    let mut list = Vec::new();
    // A sound file is longer than the names in it; a hostile one may use one long name a thousand times.
    let limit = elf.bytes().len().saturating_mul(2).saturating_add(1024);
    let mut names = 0_u64;
    for section in sections.iter().filter(|section| section.kind == sht::SYMTAB) {
        let Some(strings) = sections.get(section.link as usize) else { continue };
        let strings = StringTable::new("the symbol names", sections.data(&strings)?)?;
        for symbol in SymbolTable::new(Class::Elf32, sections.data(&section)?).iter() {
            if symbol.name == 0 {
                continue;
            }
            let name = strings.get("a symbol name", symbol.name.into(), LONGEST)?;
            names = names.saturating_add(name.len() as u64);
            if names > limit {
                return Err(ElfError::Limit { what: "the length of all symbol names", value: names, limit });
            }
            list.push(Named {
                name: String::from_utf8_lossy(name).into_owned(),
                section: symbol.defined().then_some(usize::from(symbol.shndx)),
                value: symbol.value,
                size: symbol.size,
                function: symbol.kind() == stt::FUNC,
                global: symbol.binding() != stb::LOCAL,
                weak: symbol.weak(),
            });
        }
    }
    Ok(list)
}

impl Object<'_> {
    /// Names that others can refer to.
    pub(crate) fn defined(&self) -> impl Iterator<Item = &str> {
        let seen = self.symbols.iter().filter(|symbol| symbol.global && symbol.section.is_some());
        seen.map(|symbol| symbol.name.as_str())
    }

    /// Names that others must define.
    pub(crate) fn wanted(&self) -> impl Iterator<Item = &str> {
        let wanted = self.symbols.iter().filter(|symbol| symbol.section.is_none() && symbol.global && !symbol.weak);
        wanted.map(|symbol| symbol.name.as_str())
    }

    /// Decodes every function: bundles, instructions of other conventions.
    pub(crate) fn judge_code(&self, exempt: &BTreeSet<&str>, findings: &mut Findings) {
        let Ok(sections) = self.elf.sections() else { return };
        let linked = self.elf.header().kind != outboard_elf::et::REL;
        for function in self.symbols.iter().filter(|symbol| symbol.function && !exempt.contains(symbol.name.as_str())) {
            let Some(section) = function.section.and_then(|index| sections.get(index)) else { continue };
            let name = sections.name(&section).map(String::from_utf8_lossy).unwrap_or_default();
            let start = if linked { function.value.checked_sub(section.address) } else { Some(function.value) };
            let Some((start, code)) = start.and_then(|start| {
                let first = usize::try_from(start).ok()?;
                let end = first.checked_add(usize::try_from(function.size).ok()?)?;
                Some((start, sections.data(&section).ok()?.get(first..end)?))
            }) else {
                continue;
            };
            let place =
                |offset: usize| format!("{}: {name}+{:#x} ({})", self.place, start + offset as u64, function.name);
            match odd(code) {
                Some((offset, Odd::Bundle(format))) => {
                    let what = format!(
                        "a FLIX bundle of format {format}, whose operations are not public: this file is not run"
                    );
                    findings.error(Rule::Instruction, place(offset), what);
                }
                Some((offset, Odd::Call0)) => {
                    let what = "returns with ret: it follows the call0 convention, and the runtime calls with register windows";
                    findings.error(Rule::CallingConvention, place(offset), what);
                }
                Some((offset, Odd::Call(mnemonic))) => {
                    let what = format!(
                        "{mnemonic} rotates the window by another step than 8 registers, which pool cores cannot"
                    );
                    findings.error(Rule::CallingConvention, place(offset), what);
                }
                None => {}
            }
        }
    }
}

/// Code that is not for a pool core, or not for this one.
enum Odd {
    Bundle(&'static str),
    Call0,
    Call(&'static str),
}

/// The first odd instruction of a function and its offset. Bytes that are no instruction end the search: data may follow.
fn odd(code: &[u8]) -> Option<(usize, Odd)> {
    let decoder = Decoder::new(IsaSet::all()).with_flix(Flix::VisionQ7);
    let mut at = 0;
    loop {
        let decoded = decoder.decode(code.get(at..).filter(|rest| !rest.is_empty())?).ok()?;
        match decoded {
            Decoded::Bundle(bundle) => return Some((at, Odd::Bundle(bundle.format().name()))),
            Decoded::Instruction(instruction) => match instruction.row().mnemonic() {
                "ret" | "ret.n" => return Some((at, Odd::Call0)),
                mnemonic @ ("call4" | "call12" | "callx4" | "callx12") => return Some((at, Odd::Call(mnemonic))),
                _ => {}
            },
        }
        at += usize::from(decoded.length());
    }
}
