//! The system calls of the transport: four ioctls and a mapping. They go through the C library, so that a program on a laptop can
//! have them answered by a simulated device (docs/reference/nodes.md). Numbers: docs/reference/rpmsg.md.
#![allow(unsafe_code, reason = "ioctl and mmap have no safe form; everything else of the transport is built on these")]

use outboard_shm::Mapping;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;

/// `_IOWR('H', 0, 24)`.
const DMA_HEAP_ALLOC: libc::c_ulong = 0xC018_4800;
/// `_IOW('b', 0, 8)`.
const DMA_BUF_SYNC: libc::c_ulong = 0x4008_6200;
/// `_IOWR(0xB7, 0, 16)`.
const RPROC_DMA_BUF_ATTACH: libc::c_ulong = 0xC010_B700;
/// `_IOW(0xB5, 1, 40)`.
const RPMSG_CREATE_ENDPOINT: libc::c_ulong = 0x4028_B501;
/// `_IO(0xB5, 2)`.
const RPMSG_DESTROY_ENDPOINT: libc::c_ulong = 0x0000_B502;

#[repr(C)]
struct HeapAllocation {
    len: u64,
    fd: u32,
    fd_flags: u32,
    heap_flags: u64,
}

#[repr(C)]
struct BufferAttachment {
    fd: u32,
    padding: u32,
    physical: u64,
}

#[repr(C)]
struct EndpointInfo {
    name: [u8; 32],
    src: u32,
    dst: u32,
}

const _: () = assert!(
    size_of::<HeapAllocation>() == 24 && size_of::<BufferAttachment>() == 16 && size_of::<EndpointInfo>() == 40
);

/// Which way a buffer changes hands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub(super) enum Sync {
    /// The host has written; the device reads next: END | WRITE.
    ToDevice = 4 | 2,
    /// The device has written; the host reads next: START | READ.
    ToHost = 1,
}

/// An ioctl whose argument is a structure that the kernel reads and writes.
fn ioctl<T>(file: &impl AsRawFd, request: libc::c_ulong, argument: &mut T) -> io::Result<()> {
    loop {
        // SAFETY: the descriptor is open, and each request above is used with the structure whose size is part of its
        // number; the kernel reads and writes exactly that.
        let result = unsafe { libc::ioctl(file.as_raw_fd(), request as _, std::ptr::from_mut(argument)) };
        if result >= 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// A buffer of `len` bytes from a DMA heap.
pub(super) fn allocate(heap: &File, len: u64) -> io::Result<OwnedFd> {
    let flags = u32::try_from(libc::O_CLOEXEC | libc::O_RDWR).unwrap_or(0);
    let mut allocation = HeapAllocation { len, fd: 0, fd_flags: flags, heap_flags: 0 };
    ioctl(heap, DMA_HEAP_ALLOC, &mut allocation)?;
    let fd = i32::try_from(allocation.fd).map_err(|_| io::Error::from_raw_os_error(libc::EBADF))?;
    // SAFETY: the kernel has just made this descriptor for us; nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Attaches a buffer to a remote processor for as long as `processor` is open; returns its physical address.
pub(super) fn attach(processor: &File, buffer: &OwnedFd) -> io::Result<u64> {
    let fd = u32::try_from(buffer.as_raw_fd()).map_err(|_| io::Error::from_raw_os_error(libc::EBADF))?;
    let mut attachment = BufferAttachment { fd, padding: 0, physical: 0 };
    ioctl(processor, RPROC_DMA_BUF_ATTACH, &mut attachment)?;
    Ok(attachment.physical)
}

/// Brings the caches in step for a whole buffer; there is no range.
pub(super) fn synchronise(buffer: &OwnedFd, direction: Sync) -> io::Result<()> {
    ioctl(buffer, DMA_BUF_SYNC, &mut (direction as u64))
}

/// Asks a control device for an endpoint: `name`, any own address, `dst` on the other side.
pub(super) fn create_endpoint(control: &File, name: &str, dst: u32) -> io::Result<()> {
    let mut info = EndpointInfo { name: [0; 32], src: u32::MAX, dst };
    // One byte stays zero: the kernel wants a terminated name.
    for (byte, letter) in info.name.iter_mut().take(31).zip(name.bytes()) {
        *byte = letter;
    }
    ioctl(control, RPMSG_CREATE_ENDPOINT, &mut info)
}

/// Removes an endpoint and its node.
pub(super) fn destroy_endpoint(endpoint: &File) -> io::Result<()> {
    // The request carries no argument; a zero that nobody reads stands in its place.
    ioctl(endpoint, RPMSG_DESTROY_ENDPOINT, &mut 0u64)
}

/// Maps a whole buffer.
pub(super) fn map(buffer: &OwnedFd, len: usize) -> io::Result<Mapping> {
    // SAFETY: the kernel picks a free range; a DMA buffer has a fixed size, so every page of the mapping stays backed.
    let start = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            len,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            buffer.as_raw_fd(),
            0,
        )
    };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    let start = NonNull::new(start.cast::<u8>()).ok_or(io::ErrorKind::InvalidInput)?;
    // SAFETY: the range was just mapped, readable and writable, and only the mapping knows it.
    Ok(unsafe { Mapping::adopt(start, len, unmap) })
}

/// # Safety
/// The range is a whole mapping that nobody uses any more.
unsafe fn unmap(start: *mut u8, len: usize) {
    // SAFETY: the caller's promise. A failure leaves the range mapped.
    let _ = unsafe { libc::munmap(start.cast(), len) };
}
