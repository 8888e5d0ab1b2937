//! The dynamic table, bounded by its segment.

use crate::elf::limit;
use crate::{Class, Elf, ElfError, Segment, dt};

/// What the addresses in a dynamic table mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pointers {
    /// Link addresses, as the System V ABI says.
    Virtual,
    /// File offsets, as the C7x linker writes them.
    FileOffset,
}

/// One entry of the dynamic table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DynEntry {
    /// `d_tag`, zero-extended from the file.
    pub tag: u64,
    /// `d_un`.
    pub value: u64,
}

/// A dynamic table with a terminator.
#[derive(Debug, Clone, Copy)]
pub struct Dynamic<'a> {
    elf: Elf<'a>,
    entries: &'a [u8],
    offset: u64,
    pointers: Pointers,
}

impl<'a> Dynamic<'a> {
    pub(crate) fn read(elf: &Elf<'a>, segment: &Segment, pointers: Pointers) -> Result<Self, ElfError> {
        let raw = elf.bytes().range("the dynamic table (PT_DYNAMIC)", segment.offset, segment.filesz)?;
        let class = elf.header().class;
        let Some(count) = decode_all(class, raw).position(|entry| entry.tag == dt::NULL) else {
            return Err(ElfError::DynamicNotTerminated { offset: segment.offset, len: segment.filesz });
        };
        limit("the number of dynamic table entries", count as u64, elf.limits().dynamic_entries)?;
        let entries = raw.get(..count * stride(class)).unwrap_or(&[]);
        Ok(Self { elf: *elf, entries, offset: segment.offset, pointers })
    }

    /// All entries before the terminator.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = DynEntry> + use<'a> {
        decode_all(self.elf.header().class, self.entries)
    }

    /// File offset of the table.
    #[must_use]
    pub const fn file_offset(&self) -> u64 {
        self.offset
    }

    /// The value of the first entry with this tag.
    #[must_use]
    pub fn get(&self, tag: u64) -> Option<u64> {
        self.iter().find(|entry| entry.tag == tag).map(|entry| entry.value)
    }

    /// As [`Dynamic::get`], but absent and 0 are errors.
    ///
    /// # Errors
    ///
    /// [`ElfError::BadDynamic`] naming `name`.
    pub fn require(&self, tag: u64, name: &'static str) -> Result<u64, ElfError> {
        match self.get(tag) {
            Some(value) if value != 0 => Ok(value),
            Some(value) => Err(ElfError::BadDynamic { tag: name, problem: "must not be zero", value }),
            None => Err(ElfError::BadDynamic { tag: name, problem: "is required and missing", value: 0 }),
        }
    }

    /// The file offset that a pointer of this table means, for `len` bytes.
    ///
    /// # Errors
    ///
    /// [`ElfError::Truncated`] for a file offset beyond the end, [`ElfError::BadDynamic`] for an address that no
    /// segment backs with file bytes.
    pub fn locate(&self, name: &'static str, pointer: u64, len: u64) -> Result<u64, ElfError> {
        match self.pointers {
            Pointers::FileOffset => {
                self.elf.bytes().range(name, pointer, len)?;
                Ok(pointer)
            }
            Pointers::Virtual => self.elf.file_offset(pointer, len).ok_or(ElfError::BadDynamic {
                tag: name,
                problem: "points to bytes that no PT_LOAD segment holds in the file",
                value: pointer,
            }),
        }
    }

    /// The bytes that a pointer of this table means.
    ///
    /// # Errors
    ///
    /// As [`Dynamic::locate`].
    pub fn data(&self, name: &'static str, pointer: u64, len: u64) -> Result<&'a [u8], ElfError> {
        let offset = self.locate(name, pointer, len)?;
        self.elf.bytes().range(name, offset, len)
    }

    /// Everything from a pointer to the end of its segment (or of the file).
    ///
    /// # Errors
    ///
    /// As [`Dynamic::locate`].
    pub fn rest(&self, name: &'static str, pointer: u64) -> Result<&'a [u8], ElfError> {
        match self.pointers {
            Pointers::FileOffset => {
                let len = self.elf.bytes().len().saturating_sub(pointer);
                self.elf.bytes().range(name, pointer, len)
            }
            Pointers::Virtual => {
                let (offset, len) = self.elf.file_extent(pointer).ok_or(ElfError::BadDynamic {
                    tag: name,
                    problem: "points to bytes that no PT_LOAD segment holds in the file",
                    value: pointer,
                })?;
                self.elf.bytes().range(name, offset, len)
            }
        }
    }
}

fn stride(class: Class) -> usize {
    usize::try_from(class.dynamic_size()).unwrap_or(usize::MAX)
}

fn decode_all(class: Class, raw: &[u8]) -> impl ExactSizeIterator<Item = DynEntry> + use<'_> {
    raw.chunks_exact(stride(class))
        .map(move |raw| DynEntry { tag: class.address(raw, 0, 0), value: class.address(raw, 4, 8) })
}
