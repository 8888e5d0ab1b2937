//! Buffers in the memory that host and device share, typed by who owns them.
//!
//! A buffer is a range of a mapping; no two buffers of a session overlap, and a buffer is not cloned. Borrowing rules on
//! the buffer are therefore borrowing rules on its memory, as far as this process is concerned. The device may write at any
//! time: whatever decides where to read next is copied out ([`Buffer::read`]) before it is looked at.
//!
//! A [`Buffer<Host>`] can be read and written, and cannot be named in a request; a [`Buffer<Device>`] is the other way round. One
//! becomes the other by a synchronisation ([`crate::Transport::hand_over`], [`crate::Transport::take_back`]) and in no other way,
//! so that a missed synchronisation does not compile.

use crate::Error;
use outboard_shm::Mapping;
use outboard_wire::MapWindow;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

/// Who owns a buffer: [`Host`] or [`Device`].
pub trait Owner: sealed::Sealed {}

/// The host owns it: it may be read and written here, and the device must not use it.
#[derive(Debug)]
pub enum Host {}

/// The device owns it: requests may name it, and nothing of it can be read or written here.
#[derive(Debug)]
pub enum Device {}

impl Owner for Host {}
impl Owner for Device {}

mod sealed {
    /// Nobody else can own a buffer.
    pub trait Sealed {}
    impl Sealed for super::Host {}
    impl Sealed for super::Device {}
}

/// A range of shared memory with its device address. `O` says who owns it.
///
/// ```
/// use outboard_host::{Buffer, Device, Error, Host, Transport};
/// use outboard_wire::MapWindow;
///
/// /// Shows bytes to the device; the buffer that comes out can be named in a request, and not be written.
/// fn show(to: &mut dyn Transport, mut buffer: Buffer<Host>, bytes: &[u8]) -> Result<(Buffer<Device>, MapWindow), Error> {
///     buffer.write(0, bytes)?;
///     let buffer = to.hand_over(buffer)?;
///     let window = buffer.window();
///     Ok((buffer, window))
/// }
/// ```
#[derive(Debug)]
pub struct Buffer<O: Owner = Host> {
    window: MapWindow,
    mapping: Arc<Mapping>,
    /// First byte of the buffer in the mapping.
    start: usize,
    len: usize,
    /// The host may have written to it since it was handed over last.
    dirty: bool,
    /// Its address was given away: the host may write to it at any time.
    exposed: bool,
    owner: PhantomData<O>,
}

/// Where bytes of a buffer lie in this process, for interfaces that hand out addresses. The memory stays mapped as long as this
/// lives, whatever becomes of the buffer and its session; what it holds then is nobody's business any more.
#[derive(Debug, Clone)]
pub struct Place {
    mapping: Arc<Mapping>,
    start: usize,
    len: usize,
}

impl Place {
    /// The first byte. Whoever reads or writes there must not do so while a call is under way.
    pub fn as_ptr(&self) -> *mut u8 {
        self.mapping.as_ptr().wrapping_add(self.start)
    }

    /// Number of bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// A buffer that stays with its owner because the system refused to synchronise it.
#[derive(Debug)]
pub struct Refused<O: Owner> {
    /// The buffer.
    pub buffer: Buffer<O>,
    /// The reason.
    pub error: Box<Error>,
}

impl<O: Owner> From<Refused<O>> for Error {
    fn from(refused: Refused<O>) -> Self {
        *refused.error
    }
}

impl<O: Owner> Buffer<O> {
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

    fn owned_by<P: Owner>(self, dirty: bool) -> Buffer<P> {
        let Self { window, mapping, start, len, exposed, .. } = self;
        Buffer { window, mapping, start, len, dirty, exposed, owner: PhantomData }
    }
}

impl Buffer<Device> {
    /// After the device's writes were made visible.
    pub(crate) fn taken_back(self) -> Buffer<Host> {
        self.owned_by(false)
    }

    /// Takes a buffer back that the device has only read: what the host wrote is still what the host sees.
    pub(crate) fn reclaim(self) -> Buffer<Host> {
        self.owned_by(false)
    }
}

impl Buffer<Host> {
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
        Ok(Self { window, mapping, start, len, dirty: false, exposed: false, owner: PhantomData })
    }

    /// Whether the device may see something else than the host: a synchronisation is due before it is handed over.
    pub(crate) fn is_dirty(&self) -> bool {
        self.dirty || self.exposed
    }

    /// The device sees what the host wrote.
    pub(crate) fn cleaned(&mut self) {
        self.dirty = false;
    }

    /// After the host's writes were made visible.
    pub(crate) fn handed_over(self) -> Buffer<Device> {
        self.owned_by(false)
    }

    /// Where a range of the buffer lies.
    pub(crate) fn place(&self, offset: usize, len: usize) -> Result<Place, Error> {
        let range = self.inside(offset, len)?;
        Ok(Place { mapping: Arc::clone(&self.mapping), start: range.start, len })
    }

    /// As [`Buffer::as_ptr`], for an address that callers write through: from now on every synchronisation is due.
    pub(crate) fn expose(&mut self) -> *mut u8 {
        self.exposed = true;
        self.as_ptr()
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
        self.dirty = true;
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
        self.dirty = true;
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
        assert!(buffer.is_dirty());
        let buffer = buffer.handed_over().reclaim();
        assert!(!buffer.is_dirty() && buffer.bytes(0xFFF, 1).unwrap() == [7]);
        // SAFETY: no buffer comes out of this.
        assert!(unsafe { Buffer::new(window, mapping, 0x2001) }.is_err());
    }
}
