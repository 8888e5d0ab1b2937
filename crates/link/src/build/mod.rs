//! Links relocatable Xtensa objects to a whole image: right or refused.
//!
//! [`link`] walks the phases *read → resolve → literals → collect → pool → place → relocate → verify*. Objects of clang,
//! rustc, GCC and `outboard asm` are taken, and archives of them. No instruction moves inside of a section and none is
//! replaced: only operands and words are written, each one checked, read back, and decoded again at the end. What cannot
//! be right is refused with the file, section, offset and function; all faults of a phase are reported together.
//!
//! The result has the bytes, the symbols and every place that was written with what it refers to, so that other shapes
//! of image can be made of it. The rules are in `docs/reference/static-linker.md`.
//!
//! ```
//! use outboard_link::build::{Inputs, Layout, Options, OutputSection, link};
//!
//! let mut layout = Layout::new("_start");
//! layout.region("ram", 0x1000, 0x1000);
//! layout.section(OutputSection::new(".text", "ram", &[".text*"]));
//! let errors = link(Inputs::new(), &layout, &Options::default()).unwrap_err();
//! assert_eq!(errors.to_string(), "undefined symbols:\n  _start");
//! ```

mod collect;
mod debug;
mod error;
mod image;
mod input;
mod layout;
mod literal;
mod map;
mod patch;
mod place;
mod program;
mod properties;
mod relocate;
mod resolve;
mod verify;

use alloc::string::String;
use alloc::vec::Vec;

pub use debug::DebugSection;
pub use error::{BuildError, BuildErrors, LARGEST, Location, SymbolSize, UndefinedSymbol};
pub use input::Inputs;
pub use layout::{Layout, LayoutSymbol, Order, OutputSection, Region, Value};
pub use patch::{Patch, Site};
pub use properties::Property;

use program::{Definition, Origin, Program};

/// How to link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Options {
    /// Sections that nobody needs stay.
    pub keep_all: bool,
    /// Keeps the tables that tell code from literals (`.xt.prop`), rebuilt for the image.
    pub properties: bool,
}

/// A section of a linked image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkedSection {
    /// Its name in the layout.
    pub name: String,
    /// Its region in the layout.
    pub region: String,
    /// Its first address.
    pub address: u32,
    /// Its size in memory.
    pub size: u32,
    /// Its bytes; what is missing at the end is zero.
    pub data: Vec<u8>,
    /// Permissions (`pf`); 0 for an empty section.
    pub flags: u32,
    /// Its alignment.
    pub align: u32,
}

/// A symbol of a linked image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkedSymbol {
    /// Its name.
    pub name: String,
    /// Its address or value.
    pub value: u32,
    /// Its size in bytes.
    pub size: u32,
    /// Type (`stt`).
    pub kind: u8,
    /// Visible to all files.
    pub global: bool,
    /// The section it lies in, by position in [`Linked::sections`]; `None` for a number.
    pub section: Option<usize>,
}

/// An input section, or a pool, in the image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// The file; `literal pool` for pools.
    pub file: String,
    /// Name of the input section.
    pub name: String,
    /// Position in [`Linked::sections`].
    pub section: usize,
    /// Its address.
    pub address: u32,
    /// Its size.
    pub size: u32,
}

/// A linked image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Linked {
    /// Where execution starts.
    pub entry: Option<u32>,
    /// The sections of the layout, in its order; empty ones too.
    pub sections: Vec<LinkedSection>,
    /// The symbols: local ones by file first, then those that all files see.
    pub symbols: Vec<LinkedSymbol>,
    /// Every place that was written, by section and ascending offset.
    pub sites: Vec<Site>,
    /// What lies where, by section and ascending address.
    pub pieces: Vec<Piece>,
    /// Input sections that were left out, and the bytes they have together.
    pub dropped: (usize, u64),
    /// Literal pools.
    pub pools: usize,
    /// What is code and what is literals; only when asked for.
    pub properties: Option<Vec<Property>>,
    /// Debug information of the objects, joined.
    pub debug: Vec<DebugSection>,
    names: Vec<String>,
}

impl Linked {
    /// The name that the relocation of a site refers to; `None` when it refers to a section.
    #[must_use]
    pub fn symbol_of(&self, site: &Site) -> Option<&str> {
        site.symbol.and_then(|symbol| self.names.get(symbol)).map(String::as_str)
    }

    /// The value of a symbol that all files see.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<u32> {
        self.symbols.iter().find(|symbol| symbol.global && symbol.name == name).map(|symbol| symbol.value)
    }

    /// The bytes of an executable ELF file.
    ///
    /// # Errors
    ///
    /// [`BuildError::Verify`] when the file, read again, does not have the sections at their addresses.
    pub fn elf(&self) -> Result<Vec<u8>, BuildError> {
        image::write(self)
    }

    /// What lies where, as text.
    #[must_use]
    pub fn map(&self) -> String {
        map::map(self)
    }
}

/// Links an image.
///
/// # Errors
///
/// [`BuildErrors`]: all faults of the first phase that has any.
pub fn link(inputs: Inputs<'_>, layout: &Layout, options: &Options) -> Result<Linked, BuildErrors> {
    layout.check()?;
    let mut program = resolve::resolve(inputs, layout)?;
    let assignment = collect::assign(&mut program, layout);
    let literals = literal::Literals::find(&program);
    collect::collect(&mut program, &literals, layout, &assignment, options.keep_all);
    collect::complete(&program, &literals, layout, &assignment)?;
    let mut ordered = place::order(&program, layout, &assignment);
    let dropped = dropped(&program);
    let properties = options.properties.then(|| properties::read(&program));
    for list in &mut ordered {
        literal::pool(&mut program, &literals, list)?;
    }
    literals.trim(&mut program);
    let placement = place::place(&program, layout, ordered)?;
    let debug = debug::sections(&program, &placement);
    let relocated = relocate::relocate(&program, &literals, &placement)?;
    verify::verify(&program, &placement, &relocated)?;
    let properties = properties.map(|read| properties::place(&program, &placement, &literals, read));
    Ok(Linked {
        entry: layout.entry.as_ref().and_then(|name| entry(&program, &placement, name)),
        symbols: symbols(&program, &placement),
        pieces: pieces(&program, &placement),
        pools: program.sections.iter().filter(|section| section.origin == Origin::Pool).count(),
        names: relocate::names(&program),
        sections: sections(&program, layout, &placement, relocated.data),
        sites: relocated.sites,
        dropped,
        properties,
        debug,
    })
}

fn dropped(program: &Program<'_>) -> (usize, u64) {
    let left_out = program.sections.iter().filter(|section| section.loaded() && !section.live && section.size > 0);
    left_out.fold((0, 0), |(count, bytes), section| (count + 1, bytes + u64::from(section.size)))
}

fn entry(program: &Program<'_>, placement: &place::Placement, name: &str) -> Option<u32> {
    let id = *program.names.get(name.as_bytes())?;
    match placement.address(program, program::Target::Global { id, weak: false }, 0) {
        place::Address::Image { value, .. } | place::Address::Number(value) => Some(value),
        place::Address::Missing | place::Address::Discarded => None,
    }
}

fn sections(
    program: &Program<'_>,
    layout: &Layout,
    placement: &place::Placement,
    data: Vec<Vec<u8>>,
) -> Vec<LinkedSection> {
    let filled = placement.outputs.iter().zip(&layout.sections).zip(data);
    let section = |((output, planned), data): ((&place::Output, &OutputSection), Vec<u8>)| {
        let align = output.inputs.iter().map(|id| program.section(*id).align).max().unwrap_or(1).max(planned.align);
        let (name, region) = (planned.name.clone(), planned.region.clone());
        LinkedSection { name, region, address: output.address, size: output.size, data, flags: output.flags, align }
    };
    filled.map(section).collect()
}

fn pieces(program: &Program<'_>, placement: &place::Placement) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for (section, output) in placement.outputs.iter().enumerate() {
        for id in &output.inputs {
            let Some((_, address)) = placement.addresses.get(id.0).copied().flatten() else { continue };
            let input = program.section(*id);
            let (file, name) = (program.file(*id).into(), input.name.clone());
            pieces.push(Piece { file, name, section, address, size: input.size });
        }
    }
    pieces
}

fn symbols(program: &Program<'_>, placement: &place::Placement) -> Vec<LinkedSymbol> {
    use outboard_elf::stt;
    let mut symbols = Vec::new();
    for member in &program.members {
        for symbol in member.symbols.iter().filter(|symbol| symbol.local && !symbol.name.is_empty()) {
            let input::Home::Section { index, offset } = symbol.home else { continue };
            let id = program::SectionId(member.first + index);
            let Some((section, address)) = placement.addresses.get(id.0).copied().flatten() else { continue };
            if symbol.kind == stt::SECTION || symbol.kind == stt::FILE || offset > program.section(id).size {
                continue;
            }
            let (value, section) = (address.wrapping_add(offset), Some(section));
            let (name, size, kind) = (program::lossy(symbol.name), symbol.size, symbol.kind);
            symbols.push(LinkedSymbol { name, value, size, kind, global: false, section });
        }
    }
    for global in &program.globals {
        let Some(id) = program.names.get(global.name.as_ref()).copied() else { continue };
        let (size, kind) = match global.definition {
            Definition::Section { size, kind, .. } => (size, kind),
            Definition::Undefined => continue,
            _ => (0, stt::NOTYPE),
        };
        let (value, section) = match placement.address(program, program::Target::Global { id, weak: false }, 0) {
            place::Address::Image { value, output } => (value, Some(output)),
            place::Address::Number(value) => (value, None),
            place::Address::Missing | place::Address::Discarded => continue,
        };
        symbols.push(LinkedSymbol { name: program::lossy(&global.name), value, size, kind, global: true, section });
    }
    symbols
}
