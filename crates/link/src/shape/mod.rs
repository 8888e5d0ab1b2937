//! Links objects to the two shapes of device programs: PI images and fixed-load libraries.
//!
//! Both walk the phases of [`crate::build`] with a layout of their own and then write the file of their shape. [`pi::link`]
//! turns every place that holds an address into a relocation of the image, so that the host may move text and data apart, and
//! ends by moving the image itself: what is returned has been prelinked once and read back. [`fll::link`] links for the
//! window of one core. The rules are in `docs/reference/gpsimd-link.md`.

mod error;
pub mod fll;
mod kernels;
pub mod pi;

use alloc::string::String;
use alloc::vec::Vec;

pub use error::{ShapeError, ShapeErrors};
pub use kernels::{Kernel, SECTION as KERNEL_SECTION};

use crate::build::{Linked, LinkedSection, Order, OutputSection};
use outboard_elf::image::{Bss, Chunk, ImageSymbol, Property};
use outboard_elf::{pf, stt};

/// What `.comment` says.
const COMMENT: &str = concat!("outboard ", env!("CARGO_PKG_VERSION"));
/// The section of the code.
const TEXT: &str = ".text";
/// The section of zeroed memory.
const BSS: &str = ".bss";

/// The section of the code, in `region`.
fn text(region: &str) -> OutputSection {
    let inputs = [".literal", ".literal.*", "*.literal", TEXT, ".text.*", ".init", ".fini", ".iram*"];
    OutputSection::new(TEXT, region, &inputs).align(32)
}

/// Tables of functions that run at the start and at the end, with the names that runtimes walk them by: the table of
/// constructors is walked front to back.
fn constructors(region: &str) -> [OutputSection; 4] {
    let section = |name: &str, order| {
        let inputs = [name.into(), alloc::format!("{name}.*")];
        OutputSection::new(name, region, &inputs.each_ref().map(String::as_str)).order(order).keep().align(4)
    };
    [
        section(".ctors", Order::ReversePriority),
        section(".init_array", Order::Priority).bounds("__init_array_start", "__init_array_end"),
        section(".dtors", Order::Priority),
        section(".fini_array", Order::ReversePriority).bounds("__fini_array_start", "__fini_array_end"),
    ]
}

/// Zeroed memory.
fn bss(region: &str) -> OutputSection {
    let inputs = [BSS, ".bss.*", ".sbss", ".sbss.*", "COMMON", ".noinit*"];
    OutputSection::new(BSS, region, &inputs).align(16).bounds("_bss_start", "_bss_end")
}

/// The bytes of a section, zeros at its end included.
fn chunk(section: &LinkedSection) -> Chunk {
    let mut bytes = section.data.clone();
    bytes.resize(crate::pi::usize_of(section.size), 0);
    Chunk {
        name: section.name.clone(),
        address: section.address,
        align: section.align,
        writable: section.flags & pf::W != 0,
        bytes,
    }
}

/// The address of a function in the text.
fn function(linked: &Linked, what: &'static str, name: &str) -> Result<u32, ShapeError> {
    let text = find(linked, TEXT);
    let inside = |address: &u32| {
        text.is_some_and(|text| address.checked_sub(text.address).is_some_and(|inside| inside < text.size))
    };
    linked.value(name).filter(inside).ok_or_else(|| ShapeError::Function { what, name: name.into() })
}

/// The section with this name, if it has contents.
fn find<'l>(linked: &'l Linked, name: &str) -> Option<&'l LinkedSection> {
    linked.sections.iter().find(|section| section.name == name && section.size > 0)
}

/// Zeroed memory behind `end`.
fn zeros(linked: &Linked, end: u32) -> Bss {
    match find(linked, BSS) {
        Some(section) => Bss { address: section.address, size: section.size, align: section.align },
        None => Bss { address: end, size: 0, align: 1 },
    }
}

/// The debug information of an image that is not stripped.
fn debug(linked: &Linked, strip: bool) -> Vec<(String, Vec<u8>)> {
    let kept = linked.debug.iter().filter(|section| !strip && !section.bytes.is_empty());
    kept.map(|section| (section.name.clone(), section.bytes.clone())).collect()
}

/// The symbols of an image.
fn symbols(linked: &Linked) -> Vec<ImageSymbol> {
    let symbols = linked.symbols.iter().filter(|symbol| symbol.section.is_some());
    let symbols = symbols.map(|symbol| ImageSymbol {
        name: symbol.name.clone(),
        value: symbol.value,
        size: symbol.size,
        kind: symbol.kind,
        global: symbol.global,
    });
    symbols.collect()
}

/// The functions of an image, each name and each address once.
fn functions(linked: &Linked) -> Vec<Property> {
    let text = linked.sections.iter().position(|section| section.name == TEXT);
    let is_function = |symbol: &&crate::build::LinkedSymbol| symbol.kind == stt::FUNC && symbol.section == text;
    let mut list: Vec<Property> = linked
        .symbols
        .iter()
        .filter(is_function)
        .map(|symbol| Property { name: symbol.name.clone(), address: symbol.value, size: symbol.size })
        .collect();
    list.sort_by(|a, b| (a.address, &a.name).cmp(&(b.address, &b.name)));
    list.dedup_by(|a, b| a.address == b.address);
    list
}
