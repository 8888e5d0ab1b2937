//! Where the program is that a simulated device runs in, as seen from this library.

use outboard_host::PROGRAM_VARIABLE;
use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The program beside this library (or in `../bin`, or one folder up), else one on the path. `None` when the environment names one, or
/// there is none: the session then says where else it looked.
pub(crate) fn find() -> Option<PathBuf> {
    if std::env::var_os(PROGRAM_VARIABLE).is_some_and(|named| !named.is_empty()) {
        return None;
    }
    let beside = library().and_then(|library| {
        let folder = library.parent()?;
        let places = [folder.join("outboard"), folder.join("../bin/outboard"), folder.join("../outboard")];
        places.into_iter().find(|place| place.is_file())
    });
    beside.or_else(|| {
        let path = std::env::var_os("PATH")?;
        std::env::split_paths(&path).map(|folder| folder.join("outboard")).find(|place| place.is_file())
    })
}

/// The file this code was loaded from.
fn library() -> Option<PathBuf> {
    let here: fn() -> Option<PathBuf> = library;
    // SAFETY: an all-zero Dl_info is one: its members are pointers.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: dladdr takes any address and fills in the structure it is given.
    let found = unsafe { libc::dladdr(here as *const libc::c_void, &raw mut info) };
    if found == 0 || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: dladdr gives the name of a loaded file as a C string that lives as long as the file is loaded.
    let name = unsafe { CStr::from_ptr(info.dli_fname) };
    Some(Path::new(OsStr::from_bytes(name.to_bytes())).to_owned())
}
