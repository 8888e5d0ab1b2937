//! Buffers in the memory that host and device share.
//!
//! A buffer is a range of a mapping; no two buffers of a session overlap, and a buffer is not cloned. Borrowing rules on
//! the buffer are therefore borrowing rules on its memory, as far as this process is concerned. The device may write at any
//! time: whatever decides where to read next is copied out ([`Buffer::read`]) before it is looked at.

use crate::Error;
use outboard_shm::Mapping;
use outboard_wire::MapWindow;
use std::ops::Range;
use std::sync::Arc;

/// A range of shared memory with its device address.
#[derive(Debug)]
pub struct Buffer {
    window: MapWindow,
    mapping: Arc<Mapping>,
    /// First byte of the buffer in the mapping.
    start: usize,
    len: usize,
}

impl Buffer {
    /// The `window.size` bytes at `start` of a mapping.
    ///
    /// # Errors
    /// The range does not lie inside the mapping.
    ///
    /// # Safety
    /// No other live buffer of this process covers any of these bytes, and nothing else in it accesses them.
    pub(crate) unsafe fn new(window: MapWindow, mapping: Arc<Mapping>, start: usize) -> Result<Self, Error> {
        let len = usize::try_from(window.size).unwrap_or(usize::MAX);
        // Asks for nothing; it only checks the range.
        mapping.read(start.saturating_add(len), &mut [])?;
        Ok(Self { window, mapping, start, len })
    }

    /// Device address and size.
    pub fn window(&self) -> MapWindow {
        self.window
    }

    /// Size in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the buffer has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The byte of the buffer with this device address, when `len` bytes from there lie inside.
    pub(crate) fn offset_of(&self, address: u64, len: u64) -> Option<usize> {
        if !self.window.contains(address, len) {
            return None;
        }
        usize::try_from(address - self.window.base).ok()
    }

    /// First byte of the buffer in this process, for interfaces that hand out addresses. Making it is no access; whoever reads
    /// or writes through it must keep to the rules of [`Buffer::bytes`] and [`Buffer::bytes_mut`].
    pub(crate) fn as_ptr(&self) -> *mut u8 {
        self.mapping.as_ptr().wrapping_add(self.start)
    }

    /// Copies bytes out.
    ///
    /// # Errors
    /// The range lies outside the buffer.
    pub fn read(&self, offset: usize, to: &mut [u8]) -> Result<(), Error> {
        let range = self.inside(offset, to.len())?;
        Ok(self.mapping.read(range.start, to)?)
    }

    /// Copies bytes in.
    ///
    /// # Errors
    /// The range lies outside the buffer.
    pub fn write(&mut self, offset: usize, from: &[u8]) -> Result<(), Error> {
        let range = self.inside(offset, from.len())?;
        Ok(self.mapping.write(range.start, from)?)
    }

    /// The bytes of a range.
    ///
    /// # Errors
    /// The range lies outside the buffer.
    pub fn bytes(&self, offset: usize, len: usize) -> Result<&[u8], Error> {
        let range = self.inside(offset, len)?;
        // SAFETY: only this buffer covers the range in this process, and its memory is written only through `&mut self`,
        // which the returned borrow excludes. Nothing is derived from reading a byte twice: callers get values, not bounds.
        Ok(unsafe { self.mapping.slice(range.start, range.len()) }?)
    }

    /// The bytes of a range, to be written in place.
    ///
    /// # Errors
    /// The range lies outside the buffer.
    pub fn bytes_mut(&mut self, offset: usize, len: usize) -> Result<&mut [u8], Error> {
        let range = self.inside(offset, len)?;
        // SAFETY: only this buffer covers the range in this process, and `&mut self` excludes every other slice of it.
        Ok(unsafe { self.mapping.slice_mut(range.start, range.len()) }?)
    }

    /// The range of the mapping that `len` bytes from `offset` of this buffer are.
    fn inside(&self, offset: usize, len: usize) -> Result<Range<usize>, Error> {
        if offset > self.len || len > self.len - offset {
            return Err(outboard_shm::MapError::OutOfRange { offset, len, size: self.len }.into());
        }
        let start = self.start + offset;
        Ok(start..start + len)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use outboard_shm::Object;

    #[test]
    fn a_buffer_ends_where_its_window_ends_even_inside_a_larger_mapping() {
        let mapping = Arc::new(Mapping::of(&Object::create("test", 0x3000).unwrap()).unwrap());
        let window = MapWindow { base: 0xC000_1000, size: 0x1000 };
        // SAFETY: the test reads the mapping itself only while it holds no slice of the buffer.
        let mut buffer = unsafe { Buffer::new(window, Arc::clone(&mapping), 0x1000) }.unwrap();
        buffer.write(0xFFF, &[7]).unwrap();
        let mut seen = [0];
        mapping.read(0x1FFF, &mut seen).unwrap();
        assert_eq!(seen, [7]);
        assert_eq!(buffer.bytes(0xFFE, 2).unwrap(), [0, 7]);
        for (offset, len) in [(0x1000, 1), (0xFFF, 2), (usize::MAX, 1), (1, usize::MAX)] {
            assert!(buffer.bytes(offset, len).is_err(), "{offset:#x} {len:#x}");
            assert!(buffer.bytes_mut(offset, len).is_err(), "{offset:#x} {len:#x}");
        }
        assert_eq!(buffer.offset_of(0xC000_1FFF, 1), Some(0xFFF));
        assert_eq!(buffer.offset_of(0xC000_1FFF, 2), None);
        assert_eq!(buffer.offset_of(0xC000_0FFF, 1), None);
        assert_eq!(buffer.offset_of(u64::MAX, 2), None);
        // SAFETY: no buffer comes out of this.
        assert!(unsafe { Buffer::new(window, mapping, 0x2001) }.is_err());
    }
}
