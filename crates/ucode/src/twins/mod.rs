//! Stand-ins for the device images that cannot be shipped.
//!
//! A twin has every documented number of its original: header, program headers, sections, dynamic table, kernel table,
//! relocations by type, names. Its code is ours: real functions that count their calls, call helpers and return, so that a
//! prelinked twin runs on the emulated cores. [`write()`] puts all of them into a directory.

mod fll;
mod host;
mod pi;
mod plan;
mod text;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

pub use host::{CONTAINER, HOST, STUB};

/// Names of the images: generation and library.
pub const IMAGES: [&str; 17] = [
    "sunda_0",
    "cayman_0",
    "cayman_1",
    "cayman_2",
    "cayman_3",
    "mariana_0",
    "mariana_1",
    "mariana_2",
    "mariana_3",
    "mariana_plus_0",
    "mariana_plus_1",
    "mariana_plus_2",
    "mariana_plus_3",
    "maverick_0",
    "maverick_1",
    "maverick_2",
    "maverick_3",
];

/// The twin with this name, such as `cayman_0`; `None` for a name that is not in [`IMAGES`].
#[must_use]
pub fn image(name: &str) -> Option<Vec<u8>> {
    plan::plan(name).map(|plan| pi::build(&plan))
}

/// The twin of the compiler's fixed-load library for one core; `None` for a core above 7.
#[must_use]
pub fn fixed_load_library(core: u8) -> Option<Vec<u8>> {
    fll::build(core)
}

/// The twin of the host library: every resident image at its documented offset, their getters, tables and stubs.
#[must_use]
pub fn host_library() -> Vec<u8> {
    host::build(&HOST)
}

/// The twin of the container library with its thirteen images.
#[must_use]
pub fn container() -> Vec<u8> {
    host::build(&CONTAINER)
}

/// Writes every twin into `directory` and returns the files.
///
/// # Errors
///
/// What the file system says.
pub fn write(directory: &Path) -> io::Result<Vec<PathBuf>> {
    fs::create_dir_all(directory)?;
    let mut files = Vec::new();
    let mut put = |name: String, bytes: &[u8]| -> io::Result<()> {
        let path = directory.join(name);
        fs::write(&path, bytes)?;
        files.push(path);
        Ok(())
    };
    for name in IMAGES {
        if let Some(bytes) = image(name) {
            put(format!("{name}.elf"), &bytes)?;
        }
    }
    for core in 0..8 {
        if let Some(bytes) = fixed_load_library(core) {
            put(format!("builtin_cpu{core}.so"), &bytes)?;
        }
    }
    put(HOST.file.to_owned(), &host_library())?;
    put(CONTAINER.file.to_owned(), &container())?;
    Ok(files)
}
