//! Program headers.

use crate::{Class, ElfError, pf};

/// One program header, both classes widened to 64 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// Index in the table.
    pub index: usize,
    /// File offset of the header itself.
    pub header: u64,
    /// `p_type`.
    pub kind: u32,
    /// `p_flags`.
    pub flags: u32,
    /// `p_offset`.
    pub offset: u64,
    /// `p_vaddr`.
    pub vaddr: u64,
    /// `p_paddr`.
    pub paddr: u64,
    /// `p_filesz`.
    pub filesz: u64,
    /// `p_memsz`.
    pub memsz: u64,
    /// `p_align`.
    pub align: u64,
}

impl Segment {
    pub(crate) fn decode(class: Class, index: usize, header: u64, raw: &[u8]) -> Self {
        Self {
            index,
            header,
            kind: class.word32(raw, 0, 0),
            flags: class.word32(raw, 24, 4),
            offset: class.address(raw, 4, 8),
            vaddr: class.address(raw, 8, 16),
            paddr: class.address(raw, 12, 24),
            filesz: class.address(raw, 16, 32),
            memsz: class.address(raw, 20, 40),
            align: class.address(raw, 28, 48),
        }
    }

    /// May be read.
    #[must_use]
    pub const fn readable(&self) -> bool {
        self.flags & pf::R != 0
    }

    /// May be written.
    #[must_use]
    pub const fn writable(&self) -> bool {
        self.flags & pf::W != 0
    }

    /// May be executed.
    #[must_use]
    pub const fn executable(&self) -> bool {
        self.flags & pf::X != 0
    }

    /// Neither writable nor executable: constants and weights.
    #[must_use]
    pub const fn read_only(&self) -> bool {
        self.flags & (pf::W | pf::X) == 0
    }

    /// The first address behind the segment, `None` when it wraps.
    #[must_use]
    pub const fn end(&self) -> Option<u64> {
        self.vaddr.checked_add(self.memsz)
    }

    /// Whether `address` lies in `[vaddr, vaddr + memsz)`.
    #[must_use]
    pub const fn contains(&self, address: u64) -> bool {
        match address.checked_sub(self.vaddr) {
            Some(inside) => inside < self.memsz,
            None => false,
        }
    }

    /// The [`ElfError::BadSegment`] of this header.
    #[must_use]
    pub const fn bad(&self, problem: &'static str) -> ElfError {
        ElfError::BadSegment {
            index: self.index,
            header: self.header,
            problem,
            offset: self.offset,
            filesz: self.filesz,
            memsz: self.memsz,
            vaddr: self.vaddr,
        }
    }
}
