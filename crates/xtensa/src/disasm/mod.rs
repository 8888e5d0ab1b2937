//! Disassembly of ELF files: instructions with labels, targets, literals and relocations.
//!
//! A linear sweep loses its way at literal pools, so that code is found from roots: symbols,
//! the entry point, `.xt.prop` sections and the targets of what was found. Bytes that no root
//! leads to are shown as instructions where they decode, and as data where they do not or where
//! an L32R reads them.

mod file;
mod walk;

use crate::decode::{Decoded, Decoder};
use crate::isa::IsaSet;
use crate::length::Flix;
use crate::lines::{bundle_text, hex};

pub use file::DisasmError;
use file::{CodeSection, File};
use walk::{Kind, Map};

/// What to disassemble, and how.
#[derive(Clone, Debug)]
pub struct DisasmOptions {
    /// The core's options.
    pub isa: IsaSet,
    /// The core's bundles.
    pub flix: Flix,
    /// Only the section of this name.
    pub section: Option<String>,
    /// Only the function of this name.
    pub symbol: Option<String>,
    /// Only from this address on.
    pub start: Option<u32>,
    /// Only below this address.
    pub end: Option<u32>,
}

impl Default for DisasmOptions {
    fn default() -> Self {
        Self { isa: IsaSet::all(), flix: Flix::VisionQ7, section: None, symbol: None, start: None, end: None }
    }
}

/// One line of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Line {
    /// Its address.
    pub address: u32,
    /// Its bytes in hexadecimal, in memory order.
    pub bytes: String,
    /// Symbols at the address.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Vec::is_empty"))]
    pub labels: Vec<String>,
    /// The instruction, bundle or data.
    pub text: String,
    /// `instruction`, `bundle` or `data`.
    pub kind: &'static str,
    /// The address a branch, jump, call or loop names.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub target: Option<u32>,
    /// The value that an L32R loads, if the file holds it.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub literal: Option<u32>,
    /// Relocations that patch these bytes.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Vec::is_empty"))]
    pub relocations: Vec<String>,
}

/// The lines of one section.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct SectionListing {
    /// Its name; `segment N` where the file has no sections.
    pub name: String,
    /// Its address.
    pub address: u32,
    /// Its lines, by address.
    pub lines: Vec<Line>,
}

/// Disassembles the executable sections of a file (its executable segments, if it has no
/// sections).
///
/// # Errors
/// The file is not a readable ELF file for Xtensa, or has no such section or symbol.
pub fn disassemble_file(bytes: &[u8], options: &DisasmOptions) -> Result<Vec<SectionListing>, DisasmError> {
    let file = File::parse(bytes)?;
    let decoder = Decoder::new(options.isa).with_flix(options.flix);
    if let Some(name) = &options.section
        && !file.sections.iter().any(|section| section.name == *name)
    {
        return Err(DisasmError::NoSection { name: name.clone() });
    }
    let (mut start, mut end) = (options.start.map(u64::from), options.end.map(u64::from));
    let mut only = None;
    if let Some(name) = &options.symbol {
        let (section, from, to) = file.function(name)?;
        (start, end) = (Some(from), Some(to));
        only = Some(section);
    }
    let mut listings = Vec::new();
    for (index, section) in file.sections.iter().enumerate() {
        let wanted =
            options.section.as_ref().is_none_or(|name| section.name == *name) && only.is_none_or(|only| only == index);
        if !wanted {
            continue;
        }
        let map = Map::of(section, &file, &decoder);
        let lines = list(section, &file, &map, &decoder, (start, end));
        if !lines.is_empty() {
            listings.push(SectionListing { name: section.name.clone(), address: section.address, lines });
        }
    }
    Ok(listings)
}

fn list(
    section: &CodeSection<'_>,
    file: &File<'_>,
    map: &Map,
    decoder: &Decoder,
    (start, end): (Option<u64>, Option<u64>),
) -> Vec<Line> {
    let mut lines = Vec::new();
    for (offset, kind, length) in map.items() {
        let address = section.address.wrapping_add(offset as u32);
        let place = u64::from(address);
        if start.is_some_and(|start| place < start) || end.is_some_and(|end| place >= end) {
            continue;
        }
        let bytes = section.bytes.get(offset..offset + length).unwrap_or(&[]);
        lines.push(line(section, file, decoder, address, bytes, kind));
    }
    lines
}

fn line(section: &CodeSection<'_>, file: &File<'_>, decoder: &Decoder, address: u32, bytes: &[u8], kind: Kind) -> Line {
    let decoded = if kind == Kind::Code { decoder.decode(bytes).ok() } else { None };
    let name = |target: u32| file.name_of(section, target);
    let (text, kind, target, literal) = match decoded {
        Some(Decoded::Instruction(instruction)) => {
            let value = instruction.literal(address).and_then(|at| file.word(section, at));
            let mut text = instruction.text_with(address, name);
            if let Some(value) = value {
                text.push_str(&format!(" = {value:#x}"));
            }
            (text, "instruction", instruction.target(address), value)
        }
        Some(Decoded::Bundle(bundle)) => (bundle_text(bundle, bytes), "bundle", None, None),
        None => (data_text(bytes), "data", None, None),
    };
    Line {
        address,
        bytes: hex(bytes),
        labels: file.labels_at(section, address),
        text,
        kind,
        target,
        literal,
        relocations: file.relocations_at(section, address, bytes.len()),
    }
}

fn data_text(bytes: &[u8]) -> String {
    match bytes.first_chunk::<4>() {
        Some(word) if bytes.len() == 4 => format!(".word {:#010x}", u32::from_le_bytes(*word)),
        _ => {
            let list: Vec<String> = bytes.iter().map(|byte| format!("{byte:#04x}")).collect();
            format!(".byte {}", list.join(", "))
        }
    }
}
