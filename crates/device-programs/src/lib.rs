//! Builds the test programs for Xtensa devices with public tools: Rust by the pinned toolchain and `-Zbuild-std`, C and C++ by clang 22
//! and `xtensa-lx106-elf-gcc`, assembler by `outboard-xtensa`; linked by `outboard-link`.
//!
//! A [`Workshop`] knows where the sources are and where what is built goes. The recipes, and what these compilers cannot do, are in
//! `device/programs/README.md`; [`programs`] has the test programs.

mod compile;
mod error;
pub mod programs;

use std::path::{Path, PathBuf};

use outboard_link::build::{Inputs, Linked, Options, link};
use outboard_link::layout_file;

pub use error::BuildFault;

/// How functions call each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Abi {
    /// Register windows: calls rotate them.
    Windowed,
    /// One window: callees save registers.
    Call0,
}

impl Abi {
    /// The name in the files of `device/targets` and `device/start`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Windowed => "windowed",
            Self::Call0 => "call0",
        }
    }
}

/// What code is compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Machine {
    /// How functions call each other.
    pub abi: Abi,
    /// Single-precision floats in hardware.
    pub float: bool,
}

impl Machine {
    /// A short name, for folders.
    #[must_use]
    pub fn name(self) -> String {
        let float = if self.float { "-fp" } else { "" };
        format!("{}{float}", self.abi.name())
    }
}

/// Where device code is built.
#[derive(Debug, Clone)]
pub struct Workshop {
    device: PathBuf,
    out: PathBuf,
}

impl Workshop {
    /// The workshop of this source tree. What is built goes to `device-programs` in the target directory.
    ///
    /// # Errors
    ///
    /// [`BuildFault::File`] when the folder cannot be made.
    pub fn new() -> Result<Self, BuildFault> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap_or(Path::new("."));
        let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
        let out = root.join(target.unwrap_or_else(|| PathBuf::from("target"))).join("device-programs");
        let device = root.join("device");
        std::fs::create_dir_all(&out).map_err(|error| BuildFault::file(&out, error))?;
        Ok(Self { device, out })
    }

    /// The folder of the device code.
    #[must_use]
    pub fn device(&self) -> &Path {
        &self.device
    }

    /// The folder for what is built.
    #[must_use]
    pub fn out(&self) -> &Path {
        &self.out
    }

    /// Links files to an image by a layout file of `device/layouts`; writes the image and its map.
    ///
    /// # Errors
    ///
    /// [`BuildFault`] of the files, the layout or the link.
    pub fn link(&self, layout: &str, inputs: &[PathBuf], image: &Path) -> Result<Linked, BuildFault> {
        let layout_path = self.device.join("layouts").join(layout);
        let text = std::fs::read_to_string(&layout_path).map_err(|error| BuildFault::file(&layout_path, error))?;
        let layout = layout_file::parse(&text).map_err(|error| BuildFault::Layout { path: layout_path, error })?;
        let read = |path: &PathBuf| std::fs::read(path).map_err(|error| BuildFault::file(path, error));
        let files = inputs.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        let fault = |errors| BuildFault::Link { image: image.to_owned(), errors };
        let mut all = Inputs::new();
        for (path, bytes) in inputs.iter().zip(&files) {
            let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
            all.add(&name, bytes).map_err(|error| fault(error.into()))?;
        }
        let linked = link(all, &layout, &Options::default()).map_err(fault)?;
        let file = linked.elf().map_err(|error| fault(error.into()))?;
        write(image, &file)?;
        write(&image.with_extension("map"), linked.map().as_bytes())?;
        executable(image)?;
        Ok(linked)
    }
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), BuildFault> {
    std::fs::write(path, bytes).map_err(|error| BuildFault::file(path, error))
}

/// QEMU runs files that may be executed.
fn executable(path: &Path) -> Result<(), BuildFault> {
    use std::os::unix::fs::PermissionsExt;
    let permissions = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(path, permissions).map_err(|error| BuildFault::file(path, error))
}
