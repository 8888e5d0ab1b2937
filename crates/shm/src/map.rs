//! Shared memory objects and their mappings.

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags};
use std::ptr::NonNull;

/// Why memory could not be created or mapped.
#[derive(Debug, thiserror::Error)]
pub enum MapError {
    /// The object could not be created.
    #[error("cannot create a shared memory object of {size} bytes: {source}")]
    Create {
        /// Bytes asked for.
        size: u64,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The mapping failed.
    #[error("cannot map {size:#x} bytes{}: {source}", at(*address))]
    Map {
        /// Bytes asked for.
        size: usize,
        /// The fixed address, or 0 for anywhere.
        address: usize,
        /// The system's reason.
        source: std::io::Error,
    },
    /// Page permissions could not be changed.
    #[error("cannot change the permissions of {size:#x} bytes at {address:#x}: {source}")]
    Protect {
        /// Bytes asked for.
        size: usize,
        /// First byte.
        address: usize,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A range lies outside the mapping.
    #[error("bytes {offset:#x}..+{len:#x} lie outside a mapping of {size:#x} bytes")]
    OutOfRange {
        /// First byte.
        offset: usize,
        /// Length of the access.
        len: usize,
        /// Size of the mapping.
        size: usize,
    },
}

fn at(address: usize) -> String {
    if address == 0 { String::new() } else { format!(" at {address:#x}") }
}

/// Page permissions of a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Protection {
    /// Loads are allowed.
    pub read: bool,
    /// Stores are allowed.
    pub write: bool,
    /// Execution is allowed.
    pub execute: bool,
}

impl Protection {
    /// Loads and stores.
    pub const READ_WRITE: Self = Self { read: true, write: true, execute: false };

    fn bits(self) -> MprotectFlags {
        let mut bits = MprotectFlags::empty();
        bits.set(MprotectFlags::READ, self.read);
        bits.set(MprotectFlags::WRITE, self.write);
        bits.set(MprotectFlags::EXEC, self.execute);
        bits
    }
}

/// An anonymous shared memory object: zero-filled, of fixed size, passed to another process as a file descriptor.
#[derive(Debug)]
pub struct Object {
    fd: OwnedFd,
    size: u64,
}

impl Object {
    /// Creates an object of `size` bytes. Pages cost memory only once they are written.
    ///
    /// # Errors
    /// The system refuses the object or its size.
    pub fn create(name: &str, size: u64) -> Result<Self, MapError> {
        let create = |source: rustix::io::Errno| MapError::Create { size, source: source.into() };
        let fd = rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).map_err(create)?;
        rustix::fs::ftruncate(&fd, size).map_err(create)?;
        // A peer that shrank the object could make the other side fault on a plain load.
        rustix::fs::fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL).map_err(create)?;
        Ok(Self { fd, size })
    }

    /// Takes over a descriptor that another process passed.
    ///
    /// # Errors
    /// The descriptor has no size, or one that can still shrink.
    pub fn from_fd(fd: OwnedFd) -> Result<Self, MapError> {
        let size = |source: rustix::io::Errno| MapError::Create { size: 0, source: source.into() };
        let stat = rustix::fs::fstat(&fd).map_err(size)?;
        let seals = rustix::fs::fcntl_get_seals(&fd).map_err(size)?;
        if !seals.contains(SealFlags::SHRINK) {
            return Err(size(rustix::io::Errno::PERM));
        }
        Ok(Self { fd, size: u64::try_from(stat.st_size).unwrap_or(0) })
    }

    /// Size in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The parts of `[from, to)` that somebody has written: everything else still reads as zero.
    ///
    /// # Errors
    /// The system refuses to tell.
    pub fn written(&self, from: u64, to: u64) -> std::io::Result<Vec<std::ops::Range<u64>>> {
        use rustix::fs::{SeekFrom, seek};
        let mut parts = Vec::new();
        let mut at = from;
        while at < to {
            let start = match seek(&self.fd, SeekFrom::Data(at)) {
                Ok(start) => start,
                Err(rustix::io::Errno::NXIO) => break, // nothing but holes up to the end
                Err(error) => return Err(error.into()),
            };
            if start >= to {
                break;
            }
            at = seek(&self.fd, SeekFrom::Hole(start))?.min(to);
            parts.push(start..at);
        }
        Ok(parts)
    }
}

impl AsFd for Object {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// A range of this process's address space; unmapped when dropped.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    len: usize,
    unmap: Unmap,
}

/// What gives a range of address space back: the first byte and the length of the whole mapping.
pub type Unmap = unsafe fn(*mut u8, usize);

/// Gives a range back to the system.
///
/// # Safety
/// The range is a whole mapping that nobody uses any more.
unsafe fn unmap(start: *mut u8, len: usize) {
    // SAFETY: the caller's promise. A failure leaves the range mapped.
    let _ = unsafe { rustix::mm::munmap(start.cast(), len) };
}

// SAFETY: a mapping is plain memory owned by this value until it is dropped; nothing in it depends on the thread.
unsafe impl Send for Mapping {}
// SAFETY: shared access copies bytes or hands out slices whose rules the `unsafe` accessors state.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps a whole object, readable and writable, wherever the system likes.
    ///
    /// # Errors
    /// The system refuses, e.g. for lack of address space.
    pub fn of(object: &Object) -> Result<Self, MapError> {
        Self::object(object, 0)
    }

    /// Maps a whole object at a fixed address that must be free.
    ///
    /// # Errors
    /// The address is taken or not allowed.
    pub fn of_at(object: &Object, address: u64) -> Result<Self, MapError> {
        Self::object(object, usize::try_from(address).unwrap_or(usize::MAX))
    }

    fn object(object: &Object, address: usize) -> Result<Self, MapError> {
        let size = usize::try_from(object.size).unwrap_or(usize::MAX);
        let fixed = if address == 0 { MapFlags::empty() } else { MapFlags::FIXED_NOREPLACE };
        // SAFETY: without an address the kernel picks a free range; with one, FIXED_NOREPLACE refuses a taken range. The
        // object cannot shrink (sealed), so every page of the mapping stays backed.
        let start = unsafe {
            rustix::mm::mmap(
                std::ptr::without_provenance_mut(address),
                size,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED | MapFlags::NORESERVE | fixed,
                &object.fd,
                0,
            )
        };
        Self::checked(start, address, size)
    }

    /// Maps fresh zeroed private memory at a fixed address that must be free, without reserving memory for it.
    ///
    /// # Errors
    /// The address is taken or not allowed.
    pub fn private_at(address: u64, size: u64) -> Result<Self, MapError> {
        let address = usize::try_from(address).unwrap_or(usize::MAX);
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        // SAFETY: FIXED_NOREPLACE refuses a range that is already in use, so no existing memory changes.
        let start = unsafe {
            rustix::mm::mmap_anonymous(
                std::ptr::without_provenance_mut(address),
                size,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED_NOREPLACE,
            )
        };
        Self::checked(start, address, size)
    }

    fn checked(
        start: Result<*mut std::ffi::c_void, rustix::io::Errno>,
        address: usize,
        size: usize,
    ) -> Result<Self, MapError> {
        let failed = |source: rustix::io::Errno| MapError::Map { size, address, source: source.into() };
        let start = NonNull::new(start.map_err(failed)?.cast::<u8>()).ok_or(failed(rustix::io::Errno::INVAL))?;
        let mapping = Self { start, len: size, unmap };
        // Kernels before 4.17 take FIXED_NOREPLACE as a hint.
        if address != 0 && mapping.address() != address as u64 {
            return Err(failed(rustix::io::Errno::EXIST));
        }
        Ok(mapping)
    }

    /// Takes over a range that was mapped elsewhere, e.g. a buffer of a device; `unmap` gives it back.
    ///
    /// # Safety
    /// The range is mapped readable and writable and stays so until this value calls `unmap`; nobody else unmaps it.
    pub unsafe fn adopt(start: NonNull<u8>, len: usize, unmap: Unmap) -> Self {
        Self { start, len, unmap }
    }

    /// Address of the first byte in this process.
    pub fn address(&self) -> u64 {
        self.start.as_ptr().addr() as u64
    }

    /// Size in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the mapping has no bytes (never, but asked for by convention).
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Pointer to the first byte.
    pub fn as_ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    fn range(&self, offset: usize, len: usize) -> Result<*mut u8, MapError> {
        if offset > self.len || len > self.len - offset {
            return Err(MapError::OutOfRange { offset, len, size: self.len });
        }
        // SAFETY: the range was just checked to lie inside the mapping.
        Ok(unsafe { self.start.as_ptr().add(offset) })
    }

    /// Copies bytes out of the mapping.
    ///
    /// # Errors
    /// The range lies outside.
    pub fn read(&self, offset: usize, to: &mut [u8]) -> Result<(), MapError> {
        let from = self.range(offset, to.len())?;
        // SAFETY: `from` points at `to.len()` mapped bytes; bytes another process changes meanwhile are just other bytes.
        unsafe { std::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), to.len()) };
        Ok(())
    }

    /// Copies bytes into the mapping.
    ///
    /// # Errors
    /// The range lies outside.
    pub fn write(&self, offset: usize, from: &[u8]) -> Result<(), MapError> {
        let to = self.range(offset, from.len())?;
        // SAFETY: `to` points at `from.len()` mapped, writable bytes.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) };
        Ok(())
    }

    /// Sets bytes to zero.
    ///
    /// # Errors
    /// The range lies outside.
    pub fn zero(&self, offset: usize, len: usize) -> Result<(), MapError> {
        let to = self.range(offset, len)?;
        // SAFETY: `to` points at `len` mapped, writable bytes.
        unsafe { std::ptr::write_bytes(to, 0, len) };
        Ok(())
    }

    /// The bytes of a range.
    ///
    /// # Errors
    /// The range lies outside.
    ///
    /// # Safety
    /// Nothing in this process writes the range while the slice lives. Another process that does so makes the *values*
    /// unpredictable; the caller must not derive memory safety from reading a byte twice.
    pub unsafe fn slice(&self, offset: usize, len: usize) -> Result<&[u8], MapError> {
        let from = self.range(offset, len)?;
        // SAFETY: in range, mapped for the life of `self`; aliasing is the caller's promise.
        Ok(unsafe { std::slice::from_raw_parts(from, len) })
    }

    /// The bytes of a range, to be written.
    ///
    /// # Errors
    /// The range lies outside.
    ///
    /// # Safety
    /// No other slice of the range lives in this process; see [`Mapping::slice`] for other processes.
    #[allow(
        clippy::mut_from_ref,
        reason = "the mapping is shared memory; exclusive use of the range is the caller's promise"
    )]
    pub unsafe fn slice_mut(&self, offset: usize, len: usize) -> Result<&mut [u8], MapError> {
        let to = self.range(offset, len)?;
        // SAFETY: in range, mapped for the life of `self`; exclusiveness is the caller's promise.
        Ok(unsafe { std::slice::from_raw_parts_mut(to, len) })
    }

    /// Changes the permissions of whole pages.
    ///
    /// # Errors
    /// The range lies outside or is not page-aligned, or the system refuses.
    ///
    /// # Safety
    /// Taking a permission away must not break a slice or code that is still in use.
    pub unsafe fn protect(&self, offset: usize, len: usize, protection: Protection) -> Result<(), MapError> {
        let start = self.range(offset, len)?;
        // SAFETY: the pages belong to this mapping; that nobody relies on the old permissions is the caller's promise.
        unsafe { rustix::mm::mprotect(start.cast(), len, protection.bits()) }.map_err(|source| MapError::Protect {
            size: len,
            address: start.addr(),
            source: source.into(),
        })
    }

    /// Gives a range's pages back to the system; they read as zero afterwards (private memory only).
    ///
    /// # Errors
    /// The range lies outside or is not page-aligned.
    ///
    /// # Safety
    /// Nobody uses the contents of the range any more.
    pub unsafe fn discard(&self, offset: usize, len: usize) -> Result<(), MapError> {
        let start = self.range(offset, len)?;
        // SAFETY: the pages belong to this mapping and their contents are given up by the caller.
        unsafe { rustix::mm::madvise(start.cast(), len, rustix::mm::Advice::LinuxDontNeed) }
            .map_err(|source| MapError::Protect { size: len, address: start.addr(), source: source.into() })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range belongs to this value and no borrow of it can outlive it.
        unsafe { (self.unmap)(self.start.as_ptr(), self.len) };
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn two_mappings_of_one_object_show_the_same_bytes() {
        let object = Object::create("test", 8192).unwrap();
        let (a, b) = (Mapping::of(&object).unwrap(), Mapping::of(&object).unwrap());
        a.write(4090, b"hello").unwrap();
        let mut seen = [0; 5];
        b.read(4090, &mut seen).unwrap();
        assert_eq!(&seen, b"hello");
    }

    #[test]
    fn a_range_that_leaves_the_mapping_is_refused_at_both_edges_and_without_wrapping() {
        let object = Object::create("test", 4096).unwrap();
        let mapping = Mapping::of(&object).unwrap();
        assert!(mapping.write(4095, &[1]).is_ok());
        assert!(mapping.write(4096, &[]).is_ok());
        for (offset, len) in [(4096, 1), (4095, 2), (usize::MAX, 1), (1, usize::MAX)] {
            assert!(matches!(mapping.zero(offset, len), Err(MapError::OutOfRange { .. })), "{offset} {len}");
        }
    }

    #[test]
    fn a_fixed_address_in_use_is_refused_and_left_alone() {
        let first = Mapping::private_at(0x6_0000_0000, 4096).unwrap();
        first.write(0, &[7]).unwrap();
        assert!(matches!(Mapping::private_at(0x6_0000_0000, 4096), Err(MapError::Map { .. })));
        let mut seen = [0];
        first.read(0, &mut seen).unwrap();
        assert_eq!(seen, [7]);
    }

    #[test]
    fn written_parts_are_found_and_holes_are_not() {
        let object = Object::create("test", 1 << 20).unwrap();
        assert!(object.written(0, 1 << 20).unwrap().is_empty());
        Mapping::of(&object).unwrap().write(0x2_0000, &[1; 0x2000]).unwrap();
        let parts = object.written(0, 1 << 20).unwrap();
        assert!(parts.iter().any(|part| part.start <= 0x2_0000 && part.end >= 0x2_2000), "{parts:?}");
        let part = object.written(0x2_1000, 0x2_1800).unwrap();
        assert_eq!(part.iter().map(|part| (part.start, part.end)).collect::<Vec<_>>(), [(0x2_1000, 0x2_1800)]);
    }

    #[test]
    fn an_object_passed_by_descriptor_keeps_its_size_and_cannot_shrink() {
        let object = Object::create("test", 4096).unwrap();
        let passed = Object::from_fd(object.as_fd().try_clone_to_owned().unwrap()).unwrap();
        assert_eq!(passed.size(), 4096);
        assert!(rustix::fs::ftruncate(&passed, 0).is_err());
    }
}
