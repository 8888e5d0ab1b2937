//! Where the parts of a program go: regions of memory, and the sections to fill them with.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// A region of the device's memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Region {
    /// Its name.
    pub name: String,
    /// Its first address.
    pub base: u32,
    /// Its size in bytes.
    pub size: u32,
}

impl Region {
    /// The address behind the region.
    #[must_use]
    pub fn end(&self) -> u64 {
        u64::from(self.base) + u64::from(self.size)
    }
}

/// In which order a section takes its inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// By the pattern that matches first, then as the files were given.
    #[default]
    Patterns,
    /// By name.
    Name,
    /// By the number at the end of the name, as in `.init_array.00100`; names without a number come last.
    Priority,
    /// As [`Order::Priority`], but names without a number come first: `.ctors`, which are walked from the end.
    ReversePriority,
}

/// A section of the image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputSection {
    /// Its name.
    pub name: String,
    /// The region it goes to.
    pub region: String,
    /// Names of the input sections that belong here, with `*` and `?`; an input goes to the first section that takes it.
    pub inputs: Vec<String>,
    /// The order of the inputs.
    pub order: Order,
    /// Inputs stay though nobody refers to them.
    pub keep: bool,
    /// Its address is a multiple of this.
    pub align: u32,
    /// Its address, instead of the next free one of the region.
    pub address: Option<u32>,
    /// Its size is at least this: room for a stack or a heap.
    pub reserve: u32,
    /// Symbol for its first address.
    pub start: Option<String>,
    /// Symbol for the address behind it.
    pub stop: Option<String>,
}

impl OutputSection {
    /// A section that takes `inputs`, with everything else left at its default.
    #[must_use]
    pub fn new(name: &str, region: &str, inputs: &[&str]) -> Self {
        Self {
            name: name.to_string(),
            region: region.to_string(),
            inputs: inputs.iter().map(ToString::to_string).collect(),
            order: Order::default(),
            keep: false,
            align: 4,
            address: None,
            reserve: 0,
            start: None,
            stop: None,
        }
    }

    /// Sets the order of the inputs.
    #[must_use]
    pub fn order(self, order: Order) -> Self {
        Self { order, ..self }
    }

    /// Keeps inputs that nobody refers to.
    #[must_use]
    pub fn keep(self) -> Self {
        Self { keep: true, ..self }
    }

    /// Sets the alignment of the address.
    #[must_use]
    pub fn align(self, align: u32) -> Self {
        Self { align, ..self }
    }

    /// Sets the address.
    #[must_use]
    pub fn at(self, address: u32) -> Self {
        Self { address: Some(address), ..self }
    }

    /// Sets the smallest size.
    #[must_use]
    pub fn reserve(self, reserve: u32) -> Self {
        Self { reserve, ..self }
    }

    /// Names the first address and the address behind the section.
    #[must_use]
    pub fn bounds(self, start: &str, stop: &str) -> Self {
        Self { start: Some(start.to_string()), stop: Some(stop.to_string()), ..self }
    }

    /// The position of the first pattern that takes a section of this name.
    pub(super) fn takes(&self, name: &str) -> Option<usize> {
        self.inputs.iter().position(|pattern| matches(pattern, name))
    }
}

/// The value of a symbol that the layout defines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// A number.
    Number(u32),
    /// First address of a section of the layout.
    Start(String),
    /// The address behind a section of the layout.
    Stop(String),
    /// Size of a section of the layout.
    Size(String),
    /// First address of a region.
    RegionStart(String),
    /// The address behind a region.
    RegionEnd(String),
    /// The first address of a region that no section occupies.
    RegionFree(String),
}

/// A symbol that the layout defines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LayoutSymbol {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: Value,
}

/// The layout of an image.
///
/// ```
/// use outboard_link::build::{Layout, OutputSection};
///
/// let mut layout = Layout::new("_start");
/// layout.region("ram", 0x6000_0000, 0x10_0000);
/// layout.section(OutputSection::new(".text", "ram", &[".text", ".text.*"]));
/// layout.section(OutputSection::new(".data", "ram", &[".data", ".data.*"]).bounds("__data_start", "__data_end"));
/// layout.check().unwrap();
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Layout {
    /// The symbol at which execution starts; `None` for images that are not entered by address.
    pub entry: Option<String>,
    /// The regions.
    pub regions: Vec<Region>,
    /// The sections, in the order in which they are placed.
    pub sections: Vec<OutputSection>,
    /// Symbols with a value from here.
    pub symbols: Vec<LayoutSymbol>,
    /// Symbols that must be there, and stay, though nothing refers to them.
    pub required: Vec<String>,
    /// Size of the pages in which permissions are given, for systems that have them: sections with other permissions than
    /// the ones before start on a page of their own.
    pub page: Option<u32>,
    /// Names of input sections that are left out, with `*` and `?`, besides those that occupy no memory.
    pub discard: Vec<String>,
}

impl Layout {
    /// A layout without regions and sections.
    #[must_use]
    pub fn new(entry: &str) -> Self {
        Self { entry: Some(entry.to_string()), ..Self::default() }
    }

    /// Adds a region.
    pub fn region(&mut self, name: &str, base: u32, size: u32) -> &mut Self {
        self.regions.push(Region { name: name.to_string(), base, size });
        self
    }

    /// Adds a section behind the ones before.
    pub fn section(&mut self, section: OutputSection) -> &mut Self {
        self.sections.push(section);
        self
    }

    /// Defines a symbol.
    pub fn symbol(&mut self, name: &str, value: Value) -> &mut Self {
        self.symbols.push(LayoutSymbol { name: name.to_string(), value });
        self
    }

    /// Whether every name is known and used once, every number possible.
    ///
    /// # Errors
    ///
    /// [`super::BuildError::Layout`] that names what is wrong.
    pub fn check(&self) -> Result<(), super::BuildErrors> {
        super::place::check(self)
    }

    pub(super) fn discards(&self, name: &str) -> bool {
        self.discard.iter().any(|pattern| matches(pattern, name))
    }

    pub(super) fn region_named(&self, name: &str) -> Option<(usize, &Region)> {
        self.regions.iter().enumerate().find(|(_, region)| region.name == name)
    }

    pub(super) fn section_named(&self, name: &str) -> Option<usize> {
        self.sections.iter().position(|section| section.name == name)
    }
}

/// Whether `name` is as `pattern` says: `*` stands for any text, `?` for one byte.
pub(super) fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
    let (mut at, mut from) = (0, 0);
    // The last star, and what it stands for so far.
    let mut star = None;
    loop {
        match (pattern.get(at), name.get(from)) {
            (Some(b'*'), _) => {
                star = Some((at + 1, from));
                at += 1;
            }
            (Some(b'?'), Some(_)) => (at, from) = (at + 1, from + 1),
            (Some(wanted), Some(found)) if wanted == found => (at, from) = (at + 1, from + 1),
            (None, None) => return true,
            _ => match star {
                Some((behind, taken)) if taken < name.len() => {
                    star = Some((behind, taken + 1));
                    (at, from) = (behind, taken + 1);
                }
                _ => return false,
            },
        }
    }
}

/// The number at the end of a name, behind its last dot.
pub(super) fn priority(name: &str) -> Option<u32> {
    name.rsplit_once('.').and_then(|(_, number)| number.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_and_question_marks_match_as_in_linker_scripts() {
        for (pattern, name, expected) in [
            (".text", ".text", true),
            (".text", ".text.main", false),
            (".text.*", ".text.main", true),
            (".text.*", ".text.", true),
            (".text.*", ".text", false),
            ("*.literal", ".init.literal", true),
            ("*a*b", "xaxbxab", true),
            ("*a*b", "xaxbxa", false),
            (".b?s", ".bss", true),
            (".b?s", ".bs", false),
            ("*", "", true),
            ("**", "x", true),
            ("", "x", false),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn priorities_are_the_numbers_behind_the_last_dot() {
        assert_eq!(priority(".init_array.00100"), Some(100));
        assert_eq!(priority(".ctors.65535"), Some(65535));
        assert_eq!(priority(".init_array"), None);
        assert_eq!(priority(".init_array.x"), None);
    }
}
