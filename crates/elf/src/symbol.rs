//! String tables and symbol tables.

use core::ffi::CStr;

use crate::bytes::{u16_at, u32_at};
use crate::{Class, ElfError, shn, stb, stv};

/// A string table that ends with NUL, so that every name inside it ends.
#[derive(Debug, Clone, Copy)]
pub struct StringTable<'a>(&'a [u8]);

impl<'a> StringTable<'a> {
    /// Wraps the bytes of a table.
    ///
    /// # Errors
    ///
    /// [`ElfError::BadString`] when the table is not empty and its last byte is not NUL.
    pub fn new(what: &'static str, data: &'a [u8]) -> Result<Self, ElfError> {
        match data.last() {
            None | Some(0) => Ok(Self(data)),
            Some(_) => {
                let size = data.len() as u64;
                Err(ElfError::BadString {
                    what,
                    offset: size - 1,
                    problem: "is not NUL: the last name never ends",
                    size,
                })
            }
        }
    }

    /// Size in bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.0.len() as u64
    }

    /// True for a table without bytes.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a name may start at `offset`: constant time, because the table ends with NUL.
    #[must_use]
    pub fn valid(&self, offset: u64) -> bool {
        offset < self.len()
    }

    /// The name at `offset`, without its NUL; at most `longest` bytes are looked at.
    ///
    /// # Errors
    ///
    /// [`ElfError::BadString`] when the offset lies outside of the table or the name is longer than `longest`.
    pub fn get(&self, what: &'static str, offset: u64, longest: u64) -> Result<&'a [u8], ElfError> {
        let bad = |problem| ElfError::BadString { what, offset, problem, size: self.len() };
        let start = usize::try_from(offset).map_err(|_| bad("lies outside of the table"))?;
        let rest = self.0.get(start..).filter(|rest| !rest.is_empty()).ok_or(bad("lies outside of the table"))?;
        let cap = usize::try_from(longest).unwrap_or(usize::MAX).saturating_add(1);
        let window = rest.get(..cap.min(rest.len())).unwrap_or(rest);
        let name = CStr::from_bytes_until_nul(window).map_err(|_| bad("starts a name that is too long"))?;
        Ok(name.to_bytes())
    }

    /// Whether the name at `offset` is `name`. Looks at no more bytes than the name has.
    #[must_use]
    pub fn matches(&self, offset: u64, name: &[u8]) -> bool {
        usize::try_from(offset)
            .ok()
            .and_then(|start| self.0.get(start..))
            .and_then(|rest| rest.strip_prefix(name))
            .is_some_and(|rest| rest.first() == Some(&0))
    }
}

/// One symbol, both classes widened to 64 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Symbol {
    /// Offset of the name in the string table.
    pub name: u32,
    /// `st_info`: binding and type.
    pub info: u8,
    /// `st_other`: visibility.
    pub other: u8,
    /// `st_shndx`.
    pub shndx: u16,
    /// `st_value`.
    pub value: u64,
    /// `st_size`.
    pub size: u64,
}

impl Symbol {
    /// Binding (`stb`).
    #[must_use]
    pub const fn binding(&self) -> u8 {
        self.info >> 4
    }

    /// Type (`stt`).
    #[must_use]
    pub const fn kind(&self) -> u8 {
        self.info & 15
    }

    /// Visibility (`stv`).
    #[must_use]
    pub const fn visibility(&self) -> u8 {
        self.other & 3
    }

    /// Defined in this file.
    #[must_use]
    pub const fn defined(&self) -> bool {
        self.shndx != shn::UNDEF
    }

    /// Local binding.
    #[must_use]
    pub const fn local(&self) -> bool {
        self.binding() == stb::LOCAL
    }

    /// Weak binding.
    #[must_use]
    pub const fn weak(&self) -> bool {
        self.binding() == stb::WEAK
    }

    /// Neither local nor hidden: another module may provide or see it.
    #[must_use]
    pub const fn default_visibility(&self) -> bool {
        self.visibility() == stv::DEFAULT
    }
}

/// A symbol table of known length.
#[derive(Debug, Clone, Copy)]
pub struct SymbolTable<'a> {
    class: Class,
    raw: &'a [u8],
}

impl<'a> SymbolTable<'a> {
    /// Wraps the bytes of a table; a partial entry at the end is ignored.
    #[must_use]
    pub const fn new(class: Class, raw: &'a [u8]) -> Self {
        Self { class, raw }
    }

    /// Number of symbols.
    #[must_use]
    pub fn len(&self) -> usize {
        self.raw.len() / self.stride()
    }

    /// True for a table without symbols.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The symbol with index `index`.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<Symbol> {
        let start = index.checked_mul(self.stride())?;
        let raw = self.raw.get(start..start.checked_add(self.stride())?)?;
        Some(decode(self.class, raw))
    }

    /// All symbols in order, symbol 0 included.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Symbol> + use<'a> {
        let class = self.class;
        self.raw.chunks_exact(self.stride()).map(move |raw| decode(class, raw))
    }

    fn stride(&self) -> usize {
        usize::try_from(self.class.symbol_size()).unwrap_or(usize::MAX)
    }
}

fn decode(class: Class, raw: &[u8]) -> Symbol {
    let byte = |at: usize| raw.get(at).copied().unwrap_or(0);
    match class {
        Class::Elf32 => Symbol {
            name: u32_at(raw, 0),
            value: u64::from(u32_at(raw, 4)),
            size: u64::from(u32_at(raw, 8)),
            info: byte(12),
            other: byte(13),
            shndx: u16_at(raw, 14),
        },
        Class::Elf64 => Symbol {
            name: u32_at(raw, 0),
            info: byte(4),
            other: byte(5),
            shndx: u16_at(raw, 6),
            value: class.address(raw, 0, 8),
            size: class.address(raw, 0, 16),
        },
    }
}
