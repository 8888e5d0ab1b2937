//! The functions that take the place of the C library's. Each asks whether the path or the descriptor is served, and goes on to the
//! C library's own when it is not.
//!
//! The variadic ones (`open`, `openat`, `ioctl`) are declared with the argument their callers may pass: on Linux for x86-64 and
//! AArch64, variadic and fixed arguments of these types travel in the same registers.
#![allow(unsafe_code, reason = "defines C functions, and calls those they stand in front of")]
#![allow(clippy::missing_safety_doc, reason = "the contracts are those of the C functions of the same name")]
#![allow(missing_docs, reason = "the functions are described by the manual pages of their names")]

use crate::session::lock;
use crate::{calls, tree};
use libc::{c_char, c_int, c_long, c_uint, c_void, mode_t, off_t, size_t, ssize_t};
use std::cell::Cell;
use std::ffi::{CStr, CString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

thread_local! {
    /// This thread is inside of this library: its calls are not served.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Lets every later call of this thread through.
pub(crate) fn pass_through() {
    INSIDE.set(true);
}

/// Runs something whose own calls are not served; `None` when this thread is inside already.
fn guarded<T>(run: impl FnOnce() -> T) -> Option<T> {
    if INSIDE.get() {
        return None;
    }
    INSIDE.set(true);
    let result = run();
    INSIDE.set(false);
    Some(result)
}

/// The C library's function of a name; null when it has none.
fn find(found: &AtomicPtr<c_void>, name: &CStr) -> *mut c_void {
    let mut function = found.load(Ordering::Acquire);
    if function.is_null() {
        // SAFETY: the name is a terminated string.
        function = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
        found.store(function, Ordering::Release);
    }
    function
}

/// The C library's function of a name and a type, `None` when it has none. Unsafe: the function must be of this type.
macro_rules! next {
    ($name:expr, $kind:ty) => {{
        static FOUND: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
        std::mem::transmute::<*mut c_void, Option<$kind>>(find(&FOUND, $name))
    }};
}

/// Fails as a C function does.
fn fail<T>(number: c_int, value: T) -> T {
    // SAFETY: the C library gives every thread its own `errno`.
    unsafe { *libc::__errno_location() = number };
    value
}

/// The result of a C function that returns a number.
fn number(result: io::Result<c_int>) -> c_int {
    result.unwrap_or_else(|error| fail(error.raw_os_error().unwrap_or(libc::EIO), -1))
}

/// A served path and where it lies; `None` for every other path.
///
/// # Safety
/// `path` is null or a terminated string.
unsafe fn served(path: *const c_char) -> Option<(Vec<u8>, CString)> {
    if path.is_null() || INSIDE.get() {
        return None;
    }
    // SAFETY: the caller's promise.
    let path = unsafe { CStr::from_ptr(path) }.to_bytes();
    if !tree::is_served(path) {
        return None;
    }
    let place = guarded(|| {
        let state = calls::state()?;
        let held = lock(state);
        if path.ends_with(b"/trace0") {
            held.refresh_trace();
        }
        CString::new(held.tree.inside(path).as_os_str().as_bytes()).ok()
    });
    Some((path.to_vec(), place.flatten()?))
}

/// The path to use instead of `path`.
///
/// # Safety
/// As for [`served`].
unsafe fn instead(path: *const c_char, place: &Option<(Vec<u8>, CString)>) -> *const c_char {
    place.as_ref().map_or(path, |(_, place)| place.as_ptr())
}

/// Opens a served path; `None` for every other path.
///
/// # Safety
/// As for [`served`].
unsafe fn open_served(path: *const c_char, flags: c_int) -> Option<c_int> {
    // SAFETY: the caller's promise.
    let (path, _) = unsafe { served(path) }?;
    if let Some(name) = path.strip_prefix(b"/dev/") {
        let name = std::str::from_utf8(name).ok()?;
        return guarded(|| calls::state().map(|state| number(lock(state).open(name, flags)))).flatten();
    }
    // Nothing that sysfs shows of the device can be changed: its life is the standing device's.
    (flags & libc::O_ACCMODE != libc::O_RDONLY).then(|| fail(libc::EACCES, -1))
}

type Open = unsafe extern "C" fn(*const c_char, c_int, mode_t) -> c_int;
type OpenAt = unsafe extern "C" fn(c_int, *const c_char, c_int, mode_t) -> c_int;

macro_rules! open_function {
    ($name:ident, $symbol:literal) => {
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
            // SAFETY: the contract of the C function.
            unsafe {
                if let Some(fd) = open_served(path, flags) {
                    return fd;
                }
                let place = served(path);
                next!($symbol, Open)
                    .map_or_else(|| fail(libc::ENOSYS, -1), |open| open(instead(path, &place), flags, mode))
            }
        }
    };
}
open_function!(open, c"open");
open_function!(open64, c"open64");

macro_rules! checked_open_function {
    ($name:ident, $plain:ident) => {
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(path: *const c_char, flags: c_int) -> c_int {
            // SAFETY: the contract of the C function: no file is made, so there is no mode.
            unsafe { $plain(path, flags, 0) }
        }
    };
}
checked_open_function!(__open_2, open);
checked_open_function!(__open64_2, open64);

macro_rules! openat_function {
    ($name:ident, $symbol:literal) => {
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(folder: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
            // SAFETY: the contract of the C function.
            unsafe {
                if let Some(fd) = open_served(path, flags) {
                    return fd;
                }
                let place = served(path);
                let next = next!($symbol, OpenAt);
                next.map_or_else(|| fail(libc::ENOSYS, -1), |open| open(folder, instead(path, &place), flags, mode))
            }
        }
    };
}
openat_function!(openat, c"openat");
openat_function!(openat64, c"openat64");

/// A function whose first argument is a path.
macro_rules! path_function {
    ($name:ident($($argument:ident: $kind:ty),*) -> $result:ty, $failed:expr) => {
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(path: *const c_char $(, $argument: $kind)*) -> $result {
            type Function = unsafe extern "C" fn(*const c_char $(, $kind)*) -> $result;
            const NAME: &CStr = match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => c"",
            };
            // SAFETY: the contract of the C function.
            unsafe {
                let place = served(path);
                let next = next!(NAME, Function);
                next.map_or_else(|| fail(libc::ENOSYS, $failed), |next| next(instead(path, &place) $(, $argument)*))
            }
        }
    };
}
path_function!(fopen(mode: *const c_char) -> *mut libc::FILE, null_mut());
path_function!(fopen64(mode: *const c_char) -> *mut libc::FILE, null_mut());
path_function!(opendir() -> *mut libc::DIR, null_mut());
path_function!(access(mode: c_int) -> c_int, -1);
path_function!(stat(to: *mut libc::stat) -> c_int, -1);
path_function!(stat64(to: *mut libc::stat64) -> c_int, -1);
path_function!(lstat(to: *mut libc::stat) -> c_int, -1);
path_function!(lstat64(to: *mut libc::stat64) -> c_int, -1);
path_function!(getxattr(name: *const c_char, to: *mut c_void, size: size_t) -> ssize_t, -1);
path_function!(lgetxattr(name: *const c_char, to: *mut c_void, size: size_t) -> ssize_t, -1);
path_function!(listxattr(to: *mut c_char, size: size_t) -> ssize_t, -1);
path_function!(llistxattr(to: *mut c_char, size: size_t) -> ssize_t, -1);
path_function!(readlink(to: *mut c_char, size: size_t) -> ssize_t, -1);

/// A function whose second argument is a path, behind the folder it starts from.
macro_rules! path_at_function {
    ($name:ident($($argument:ident: $kind:ty),*) -> $result:ty) => {
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(folder: c_int, path: *const c_char $(, $argument: $kind)*) -> $result {
            type Function = unsafe extern "C" fn(c_int, *const c_char $(, $kind)*) -> $result;
            const NAME: &CStr = match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => c"",
            };
            // SAFETY: the contract of the C function.
            unsafe {
                let place = served(path);
                let next = next!(NAME, Function);
                next.map_or_else(|| fail(libc::ENOSYS, -1), |next| next(folder, instead(path, &place) $(, $argument)*))
            }
        }
    };
}
path_at_function!(faccessat(mode: c_int, flags: c_int) -> c_int);
path_at_function!(fstatat(to: *mut libc::stat, flags: c_int) -> c_int);
path_at_function!(fstatat64(to: *mut libc::stat64, flags: c_int) -> c_int);
path_at_function!(statx(flags: c_int, mask: c_uint, to: *mut libc::statx) -> c_int);
path_at_function!(readlinkat(to: *mut c_char, size: size_t) -> ssize_t);

#[unsafe(no_mangle)]
pub unsafe extern "C" fn realpath(path: *const c_char, to: *mut c_char) -> *mut c_char {
    type Function = unsafe extern "C" fn(*const c_char, *mut c_char) -> *mut c_char;
    // SAFETY: the contract of the C function; its result is a terminated string, and a shorter one fits where it lies.
    unsafe {
        let place = served(path);
        let Some(next) = next!(c"realpath", Function) else { return fail(libc::ENOSYS, null_mut()) };
        let found = next(instead(path, &place), to);
        if place.is_some() && !found.is_null() {
            let inside = CStr::from_ptr(found).to_bytes_with_nul().to_vec();
            let tree = guarded(|| calls::state().map(|state| lock(state).tree.clone())).flatten();
            if let Some(outside) = tree.as_ref().and_then(|tree| tree.outside(&inside)) {
                found.copy_from(outside.as_ptr().cast::<c_char>(), outside.len());
            }
        }
        found
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn __realpath_chk(path: *const c_char, to: *mut c_char, _size: size_t) -> *mut c_char {
    // SAFETY: the contract of the C function.
    unsafe { realpath(path, to) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn canonicalize_file_name(path: *const c_char) -> *mut c_char {
    // SAFETY: the contract of the C function.
    unsafe { realpath(path, null_mut()) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn __readlink_chk(path: *const c_char, to: *mut c_char, size: size_t, _room: size_t) -> ssize_t {
    // SAFETY: the contract of the C function.
    unsafe { readlink(path, to, size) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn ioctl(fd: c_int, request: libc::c_ulong, argument: *mut c_void) -> c_int {
    type Function = unsafe extern "C" fn(c_int, libc::c_ulong, *mut c_void) -> c_int;
    if calls::is_served(fd) {
        // Requests are 32 bits wide; a caller that has them signed extends them.
        let request = request & 0xFFFF_FFFF;
        // SAFETY: the contract of the C function.
        let done = guarded(|| calls::state().map(|state| number(unsafe { lock(state).ioctl(fd, request, argument) })));
        if let Some(result) = done.flatten() {
            return result;
        }
    }
    // SAFETY: the contract of the C function.
    unsafe { next!(c"ioctl", Function).map_or_else(|| fail(libc::ENOSYS, -1), |next| next(fd, request, argument)) }
}

type Map = unsafe extern "C" fn(*mut c_void, size_t, c_int, c_int, c_int, off_t) -> *mut c_void;

macro_rules! map_function {
    ($name:ident, $symbol:literal) => {
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            address: *mut c_void,
            len: size_t,
            protection: c_int,
            flags: c_int,
            fd: c_int,
            offset: off_t,
        ) -> *mut c_void {
            let served = flags & libc::MAP_ANONYMOUS == 0 && calls::is_served(fd);
            let state = if served { guarded(calls::state).flatten() } else { None };
            // SAFETY: the contract of the C function.
            unsafe {
                let Some(next) = next!($symbol, Map) else { return fail(libc::ENOSYS, libc::MAP_FAILED) };
                let Some(state) = state else { return next(address, len, protection, flags, fd, offset) };
                let mapped = guarded(|| {
                    let mut held = lock(state);
                    let (memory, start) = held.place(fd, len, offset)?;
                    let mapped = next(address, len, protection, flags, memory, start);
                    if mapped != libc::MAP_FAILED {
                        held.mapped(fd, mapped.addr(), len);
                    }
                    Ok::<_, io::Error>(mapped)
                });
                match mapped {
                    Some(Ok(mapped)) => mapped,
                    Some(Err(error)) => fail(error.raw_os_error().unwrap_or(libc::EIO), libc::MAP_FAILED),
                    None => fail(libc::EAGAIN, libc::MAP_FAILED),
                }
            }
        }
    };
}
map_function!(mmap, c"mmap");
map_function!(mmap64, c"mmap64");

#[unsafe(no_mangle)]
pub unsafe extern "C" fn munmap(address: *mut c_void, len: size_t) -> c_int {
    // The C library's own goes through `dlsym`, which may unmap; the system call does not.
    // SAFETY: the contract of the C function.
    let result = unsafe { libc::syscall(libc::SYS_munmap, address, len) };
    if result == 0 && calls::serves_mappings() {
        guarded(|| calls::state().map(|state| lock(state).unmapped(address.addr(), len)));
    }
    c_int::try_from(result as c_long).unwrap_or(-1)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn write(fd: c_int, bytes: *const c_void, len: size_t) -> ssize_t {
    type Function = unsafe extern "C" fn(c_int, *const c_void, size_t) -> ssize_t;
    if calls::is_served(fd) && !bytes.is_null() {
        // SAFETY: the contract of the C function.
        let message = unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), len) };
        let written = guarded(|| calls::state().map(|state| calls::write(state, fd, message)));
        match written.flatten() {
            Some(Ok(written)) => return ssize_t::try_from(written).unwrap_or(-1),
            Some(Err(error)) => return fail(error.raw_os_error().unwrap_or(libc::EIO), -1),
            None => {}
        }
    }
    // SAFETY: the contract of the C function.
    unsafe { next!(c"write", Function).map_or_else(|| fail(libc::ENOSYS, -1), |next| next(fd, bytes, len)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn read(fd: c_int, to: *mut c_void, len: size_t) -> ssize_t {
    type Function = unsafe extern "C" fn(c_int, *mut c_void, size_t) -> ssize_t;
    if calls::is_served(fd) {
        let readable = guarded(|| calls::state().map(|state| calls::is_readable(state, fd)));
        if readable.flatten() == Some(false) {
            return fail(libc::EINVAL, -1);
        }
    }
    // SAFETY: the contract of the C function. Replies wait in the endpoint's own socket, so that poll and select see them, too.
    unsafe { next!(c"read", Function).map_or_else(|| fail(libc::ENOSYS, -1), |next| next(fd, to, len)) }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn close(fd: c_int) -> c_int {
    type Function = unsafe extern "C" fn(c_int) -> c_int;
    if calls::is_served(fd) {
        // Forgotten first: the number may be used again as soon as it is closed.
        guarded(|| calls::state().map(|state| lock(state).close(fd)));
    }
    // SAFETY: the contract of the C function.
    unsafe { next!(c"close", Function).map_or_else(|| fail(libc::ENOSYS, -1), |next| next(fd)) }
}
