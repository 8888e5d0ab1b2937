//! What compiled C and C++ expects of a C library, as far as the original provides it.

use crate::{allocator, fault, file_io};

/// The version that the runtime is compatible with.
#[unsafe(no_mangle)]
static CUSTOMOP_LIB_VERSION: [u8; 9] = *b"1.21.1.0\0";

/// An environment without variables.
#[unsafe(no_mangle)]
static null_environ: [u32; 1] = [0];

#[unsafe(no_mangle)]
extern "C" fn abort() -> ! {
    fault::fail("abort() called")
}

#[unsafe(no_mangle)]
extern "C" fn malloc(size: u32) -> *mut u8 {
    allocator::libc_allocate(size, 16)
}

#[unsafe(no_mangle)]
extern "C" fn memalign(align: u32, size: u32) -> *mut u8 {
    allocator::libc_allocate(size, align)
}

#[unsafe(no_mangle)]
extern "C" fn free(place: *mut u8) {
    allocator::libc_release(place);
}

/// # Safety
///
/// `place` is null or from `malloc`.
#[unsafe(no_mangle)]
unsafe extern "C" fn realloc(place: *mut u8, size: u32) -> *mut u8 {
    if place.is_null() {
        return malloc(size);
    }
    let moved = malloc(size);
    if !moved.is_null() {
        let kept = allocator::libc_size(place).min(size);
        // SAFETY: both blocks have that many bytes and are different ones.
        unsafe { core::ptr::copy_nonoverlapping(place, moved, kept as usize) };
        free(place);
    }
    moved
}

/// # Safety
///
/// `text` has `length` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn _write_r(_context: *mut u8, descriptor: i32, text: *const u8, length: u32) -> i32 {
    // SAFETY: by the caller.
    file_io::write(descriptor, unsafe { core::slice::from_raw_parts(text, length as usize) })
}

/// # Safety
///
/// As for `_write_r`.
#[unsafe(no_mangle)]
unsafe extern "C" fn write(descriptor: i32, text: *const u8, length: u32) -> i32 {
    // SAFETY: by the caller.
    unsafe { _write_r(core::ptr::null_mut(), descriptor, text, length) }
}

/// There are no files.
#[unsafe(no_mangle)]
extern "C" fn _open_r(_context: *mut u8, _path: *const u8, _flags: i32, _mode: i32) -> i32 {
    -1
}

/// There are no files.
#[unsafe(no_mangle)]
extern "C" fn _close_r(_context: *mut u8, _descriptor: i32) -> i32 {
    -1
}

/// There are no files.
#[unsafe(no_mangle)]
extern "C" fn _read_r(_context: *mut u8, _descriptor: i32, _buffer: *mut u8, _length: u32) -> i32 {
    -1
}

/// There are no files.
#[unsafe(no_mangle)]
extern "C" fn _unlink_r(_context: *mut u8, _path: *const u8) -> i32 {
    -1
}

/// There is one thread: a mutex is always free.
#[unsafe(export_name = "_ZNSt3__120__libcpp_mutex_lockEPPv")]
extern "C" fn mutex_lock(_mutex: *mut *mut u8) -> i32 {
    0
}

/// As [`mutex_lock`].
#[unsafe(export_name = "_ZNSt3__123__libcpp_mutex_trylockEPPv")]
extern "C" fn mutex_trylock(_mutex: *mut *mut u8) -> bool {
    true
}

/// As [`mutex_lock`].
#[unsafe(export_name = "_ZNSt3__122__libcpp_mutex_unlockEPPv")]
extern "C" fn mutex_unlock(_mutex: *mut *mut u8) -> i32 {
    0
}
