//! The program under construction: sections and symbols of all objects that take part, in one graph.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use hashbrown::HashMap;
use outboard_elf::{shf, sht};

use super::Location;
use super::input::InputSymbol;

/// A section of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct SectionId(pub usize);

/// A name that objects share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct GlobalId(pub usize);

/// What a relocation refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    /// A number.
    Absolute(u32),
    /// An offset in a section.
    Section { id: SectionId, offset: u32 },
    /// A name; `weak` if it may stay undefined.
    Global { id: GlobalId, weak: bool },
}

/// A relocation of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Relocation {
    pub offset: u32,
    pub kind: u32,
    pub target: Target,
    pub addend: u32,
}

/// Where a section comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// Section `index` of object `object`.
    Object { object: usize, index: usize },
    /// A literal pool of this linker.
    Pool,
    /// Memory of a common symbol.
    Common,
}

/// A section of the program.
#[derive(Debug)]
pub(super) struct Section<'a> {
    pub origin: Origin,
    pub name: String,
    pub kind: u32,
    pub flags: u64,
    pub align: u32,
    pub size: u32,
    /// Empty for a section of zeros.
    pub data: Cow<'a, [u8]>,
    /// By offset.
    pub relocations: Vec<Relocation>,
    /// Another file's copy of its group is used.
    pub discarded: bool,
    /// Part of the image.
    pub live: bool,
}

impl Section<'_> {
    pub fn loaded(&self) -> bool {
        self.flags & shf::ALLOC != 0 && !self.discarded
    }

    pub fn writable(&self) -> bool {
        self.flags & shf::WRITE != 0
    }

    pub fn zeros(&self) -> bool {
        self.kind == sht::NOBITS
    }
}

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Definition {
    Undefined,
    Absolute {
        value: u32,
        weak: bool,
        object: usize,
    },
    Common {
        size: u32,
        align: u32,
        object: usize,
    },
    Section {
        id: SectionId,
        offset: u32,
        size: u32,
        weak: bool,
        kind: u8,
    },
    /// A value of the layout, by its position in [`Program::layout_values`].
    Layout(usize),
}

/// A name that objects share.
#[derive(Debug)]
pub(super) struct Global<'a> {
    pub name: Cow<'a, [u8]>,
    pub definition: Definition,
}

/// A value that is known when every section has its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LayoutValue {
    Number(u32),
    Start(usize),
    Stop(usize),
    Size(usize),
    RegionStart(usize),
    RegionEnd(usize),
    RegionFree(usize),
    /// The first address of the input sections of this name, or the address behind them; the names that C programs use.
    Named {
        position: usize,
        stop: bool,
    },
}

/// An object that takes part.
#[derive(Debug)]
pub(super) struct Member<'a> {
    pub name: String,
    pub symbols: Vec<InputSymbol<'a>>,
    /// Id of its section 0.
    pub first: usize,
    /// For each section, the symbols in it by offset: index into `symbols`.
    pub by_section: Vec<Vec<usize>>,
}

/// The program.
#[derive(Debug, Default)]
pub(super) struct Program<'a> {
    pub members: Vec<Member<'a>>,
    pub sections: Vec<Section<'a>>,
    pub globals: Vec<Global<'a>>,
    pub names: HashMap<Cow<'a, [u8]>, GlobalId>,
    pub layout_values: Vec<LayoutValue>,
    /// Names of input sections whose bounds C programs ask for (`__start_NAME`).
    pub bounded: Vec<String>,
}

/// What a target stands for, once names are looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Resolved {
    Absolute(u32),
    Section { id: SectionId, offset: u32 },
    Layout(usize),
    Undefined { id: GlobalId, weak: bool },
}

impl<'a> Program<'a> {
    pub fn section(&self, id: SectionId) -> &Section<'a> {
        &self.sections[id.0]
    }

    pub fn section_mut(&mut self, id: SectionId) -> &mut Section<'a> {
        &mut self.sections[id.0]
    }

    pub fn ids(&self) -> impl Iterator<Item = SectionId> + use<> {
        (0..self.sections.len()).map(SectionId)
    }

    pub fn push(&mut self, section: Section<'a>) -> SectionId {
        self.sections.push(section);
        SectionId(self.sections.len() - 1)
    }

    pub fn global(&self, id: GlobalId) -> &Global<'a> {
        &self.globals[id.0]
    }

    pub fn intern(&mut self, name: Cow<'a, [u8]>) -> GlobalId {
        let next = GlobalId(self.globals.len());
        let id = *self.names.entry(name.clone()).or_insert(next);
        if id == next {
            self.globals.push(Global { name, definition: Definition::Undefined });
        }
        id
    }

    pub fn resolve(&self, target: Target) -> Resolved {
        match target {
            Target::Absolute(value) => Resolved::Absolute(value),
            Target::Section { id, offset } => Resolved::Section { id, offset },
            Target::Global { id, weak } => match self.global(id).definition {
                Definition::Undefined | Definition::Common { .. } => Resolved::Undefined { id, weak },
                Definition::Absolute { value, .. } => Resolved::Absolute(value),
                Definition::Section { id, offset, .. } => Resolved::Section { id, offset },
                Definition::Layout(value) => Resolved::Layout(value),
            },
        }
    }

    /// The symbols of an object that lie in a section, by offset.
    pub fn symbols_in(&self, id: SectionId) -> impl Iterator<Item = &InputSymbol<'a>> {
        let member = match self.section(id).origin {
            Origin::Object { object, index } => self.members.get(object).map(|member| (member, index)),
            Origin::Pool | Origin::Common => None,
        };
        member.into_iter().flat_map(|(member, index)| {
            let found = member.by_section.get(index).map_or(&[][..], Vec::as_slice);
            found.iter().filter_map(|symbol| member.symbols.get(*symbol))
        })
    }

    /// Name of the file a section comes from.
    pub fn file(&self, id: SectionId) -> &str {
        match self.section(id).origin {
            Origin::Object { object, .. } => self.members.get(object).map_or("", |member| &member.name),
            Origin::Pool => "literal pool",
            Origin::Common => "common symbols",
        }
    }

    /// A place in a file, as messages name it.
    pub fn location(&self, id: SectionId, offset: u32) -> Box<Location> {
        let before = self.symbols_in(id).filter(|symbol| !symbol.name.is_empty() && symbol.offset() <= offset);
        let symbol = before.last().map(|symbol| (lossy(symbol.name), offset - symbol.offset()));
        Box::new(Location { file: self.file(id).to_string(), section: self.section(id).name.clone(), offset, symbol })
    }

    /// What a target is called in messages.
    pub fn target_name(&self, target: Target, addend: u32) -> String {
        let name = match target {
            Target::Absolute(value) => alloc::format!("{value:#x}"),
            Target::Global { id, .. } => lossy(&self.global(id).name),
            Target::Section { id, offset } => {
                let at = self.location(id, offset.wrapping_add(addend));
                return match at.symbol {
                    Some((name, 0)) => name,
                    Some((name, offset)) => alloc::format!("{name}+{offset:#x}"),
                    None => alloc::format!("{}+{:#x}", at.section, at.offset),
                };
            }
        };
        if addend == 0 { name } else { alloc::format!("{name}{:+}", addend.cast_signed()) }
    }
}

impl InputSymbol<'_> {
    /// Its offset in its section.
    pub fn offset(&self) -> u32 {
        match self.home {
            super::input::Home::Section { offset, .. } => offset,
            _ => 0,
        }
    }
}

pub(super) fn lossy(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}
