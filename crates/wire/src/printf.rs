//! Header of the shared printf buffer.

use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// First 16 bytes of a printf buffer; text follows without a terminator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct PrintfHeader {
    /// [`PrintfHeader::MAGIC`].
    pub magic: U32,
    /// Bytes of text since the last reset.
    pub wr_index: U32,
    /// Room for text: the buffer's size less this header.
    pub buf_size: U32,
    /// Bytes that did not fit since the last reset (zero in the original firmware, which drops them silently).
    pub dropped: U32,
}

const _: () = assert!(size_of::<PrintfHeader>() == 16);

impl PrintfHeader {
    /// `"PRNT"` read as a big-endian word.
    pub const MAGIC: u32 = 0x5052_4E54;
    /// Size of the header in bytes.
    pub const SIZE: u32 = 16;
    /// Size of the buffer a host sends: 64 KiB.
    pub const DEFAULT_BUFFER: u32 = 0x1_0000;

    /// The header of an empty buffer of `size` bytes, or `None` when no text fits.
    pub fn empty(size: u32) -> Option<Self> {
        let room = size.checked_sub(Self::SIZE).filter(|room| *room > 0)?;
        Some(Self { magic: Self::MAGIC.into(), wr_index: U32::ZERO, buf_size: room.into(), dropped: U32::ZERO })
    }
}
