//! What an image is made of.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::{stb, stt, stv};

/// A segment of an [`super::ImageBuilder`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SegmentId(pub(crate) usize);

/// A symbol of an [`super::ImageBuilder`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SymbolId(pub(crate) usize);

/// A `PT_LOAD` segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentSpec {
    /// Permissions (`pf`).
    pub flags: u32,
    /// Bytes in the file.
    pub data: Vec<u8>,
    /// Size in memory; what the file does not hold is zero.
    pub memsz: u64,
    /// Alignment.
    pub align: u64,
    /// Link address; `None` is the next free one.
    pub vaddr: Option<u64>,
    /// Name of its section.
    pub name: String,
}

impl SegmentSpec {
    /// A segment with these bytes.
    #[must_use]
    pub fn new(flags: u32, data: Vec<u8>) -> Self {
        let memsz = data.len() as u64;
        Self { flags, data, memsz, align: 64, vaddr: None, name: ".segment".to_string() }
    }

    /// A segment of `memsz` zeros that needs no file bytes.
    #[must_use]
    pub fn zeroed(flags: u32, memsz: u64) -> Self {
        Self { memsz, ..Self::new(flags, Vec::new()) }
    }

    /// Sets the size in memory.
    #[must_use]
    pub fn memsz(self, memsz: u64) -> Self {
        Self { memsz, ..self }
    }

    /// Sets the alignment.
    #[must_use]
    pub fn align(self, align: u64) -> Self {
        Self { align, ..self }
    }

    /// Sets the link address.
    #[must_use]
    pub fn at(self, vaddr: u64) -> Self {
        Self { vaddr: Some(vaddr), ..self }
    }

    /// Sets the name of its section.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        Self { name: name.to_string(), ..self }
    }
}

/// Where a symbol is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Home {
    /// At an offset of a segment.
    In(SegmentId, u64),
    /// An absolute value.
    Absolute(u64),
    /// Somewhere else.
    Undefined,
    /// As given: `st_shndx` and `st_value`.
    Raw(u16, u64),
}

/// A symbol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SymbolSpec {
    /// Name.
    pub name: String,
    /// Where it is.
    pub home: Home,
    /// Size in bytes.
    pub size: u64,
    /// Binding (`stb`).
    pub binding: u8,
    /// Type (`stt`).
    pub kind: u8,
    /// Visibility (`stv`).
    pub visibility: u8,
}

impl SymbolSpec {
    fn global(name: &str, home: Home, size: u64, kind: u8) -> Self {
        let (binding, visibility) = (stb::GLOBAL, stv::DEFAULT);
        Self { name: name.to_string(), home, size, binding, kind, visibility }
    }

    /// A global function.
    #[must_use]
    pub fn function(name: &str, segment: SegmentId, offset: u64, size: u64) -> Self {
        Self::global(name, Home::In(segment, offset), size, stt::FUNC)
    }

    /// A global variable.
    #[must_use]
    pub fn object(name: &str, segment: SegmentId, offset: u64, size: u64) -> Self {
        Self::global(name, Home::In(segment, offset), size, stt::OBJECT)
    }

    /// A symbol that somebody else defines.
    #[must_use]
    pub fn import(name: &str) -> Self {
        Self::global(name, Home::Undefined, 0, stt::NOTYPE)
    }

    /// A local symbol.
    #[must_use]
    pub fn local(name: &str, segment: SegmentId, offset: u64) -> Self {
        Self { binding: stb::LOCAL, ..Self::global(name, Home::In(segment, offset), 0, stt::NOTYPE) }
    }

    /// A global absolute value.
    #[must_use]
    pub fn absolute(name: &str, value: u64) -> Self {
        Self::global(name, Home::Absolute(value), 0, stt::NOTYPE)
    }

    /// Makes it weak.
    #[must_use]
    pub fn weak(self) -> Self {
        Self { binding: stb::WEAK, ..self }
    }

    /// Hides it from other modules.
    #[must_use]
    pub fn hidden(self) -> Self {
        Self { visibility: stv::HIDDEN, ..self }
    }

    pub(crate) const fn is_local(&self) -> bool {
        self.binding == stb::LOCAL
    }
}

/// Where a relocation applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// At an offset of a segment.
    In(SegmentId, u64),
    /// At a link address.
    At(u64),
}

/// What a relocation refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reference {
    /// A symbol.
    Symbol(SymbolId),
    /// A symbol index as it is.
    Index(u32),
}

impl From<SymbolId> for Reference {
    fn from(symbol: SymbolId) -> Self {
        Self::Symbol(symbol)
    }
}

/// A relocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RelocationSpec {
    /// Where it applies.
    pub place: Place,
    /// Type number.
    pub kind: u32,
    /// What it refers to.
    pub symbol: Reference,
    /// Addend.
    pub addend: i64,
}

impl RelocationSpec {
    /// A relocation at `offset` of a segment.
    #[must_use]
    pub fn new(segment: SegmentId, offset: u64, kind: u32, symbol: impl Into<Reference>, addend: i64) -> Self {
        Self { place: Place::In(segment, offset), kind, symbol: symbol.into(), addend }
    }

    /// A relocation at a link address.
    #[must_use]
    pub fn at(address: u64, kind: u32, symbol: impl Into<Reference>, addend: i64) -> Self {
        Self { place: Place::At(address), kind, symbol: symbol.into(), addend }
    }
}
