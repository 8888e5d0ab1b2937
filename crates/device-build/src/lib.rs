//! Builds the device code of this repository, for tests, benchmarks and `cargo xtask`: the runtime of `device/customop-rt` as
//! an archive, the operations of `device/ops`, and libraries linked of them. It judges custom operations that others built
//! ([`DeviceBuild::check_op`]).
//!
//! Rust is compiled by the pinned toolchain for `device/xtensa-pool-none-elf.json`, with its own `core`; assembly by this
//! repository's assembler. Nothing is built again while its sources are older than the result.
#![forbid(unsafe_code)]

mod archive;
mod check;
mod compile;
mod library;
mod op;
mod rust_source;
mod schema;
mod wrapper;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;
use std::{env, fs};

use outboard_link::pi::MemoryBounds;
use outboard_xtensa::asm::{AsmOptions, assemble};
use outboard_xtensa::isa::IsaSet;

pub use archive::write_archive;
pub use check::{OpCheck, OpJudgement, Operation};
pub use library::LinkError;
pub use op::{DEFAULT_STACK, MAX_STACK, OpError, OpLibrary, OpRequest, OpShape};
pub use outboard_link::shape::pi::PiLinked;
pub use schema::{Argument, ArgumentType, Schema, SchemaError};

/// The target specification, beside the workspace of the device code.
pub(crate) const TARGET: &str = "xtensa-pool-none-elf";
/// Assembly files of the runtime.
const ASSEMBLY: [&str; 4] = ["parallel", "printf", "registers", "switch_stack"];

/// Why device code was not built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// A file cannot be read or written.
    #[error("{path}: {error}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// Cargo does not start.
    #[error("cargo cannot be started: {0}")]
    NoCargo(std::io::Error),
    /// The compiler failed.
    #[error("cargo failed for {what}:\n{output}")]
    Cargo {
        /// What was built.
        what: String,
        /// What it printed.
        output: String,
    },
    /// Assembly has faults.
    #[error("{file}: {faults}")]
    Assembly {
        /// The file.
        file: String,
        /// Each with its line.
        faults: String,
    },
    /// The parts do not make a library.
    #[error(transparent)]
    Link(#[from] LinkError),
}

/// The device code of this repository and where its results go.
#[derive(Debug, Clone)]
pub struct DeviceBuild {
    sources: PathBuf,
    target: PathBuf,
}

impl Default for DeviceBuild {
    /// The device code of the clone that this was built in, or the folder that `OUTBOARD_DEVICE` names.
    fn default() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
        let sources = env::var_os("OUTBOARD_DEVICE").map_or_else(|| root.join("device"), PathBuf::from);
        Self { sources, target: root.join(target).join("device") }
    }
}

impl DeviceBuild {
    /// Device code in `sources` (the folder `device` of this repository), with results in `target`.
    #[must_use]
    pub fn new(sources: PathBuf, target: PathBuf) -> Self {
        Self { sources, target }
    }

    /// The folder with the device code.
    #[must_use]
    pub fn sources(&self) -> &Path {
        &self.sources
    }

    /// Where results go.
    pub(crate) fn target(&self) -> &Path {
        &self.target
    }

    /// The runtime for pools of `cores` cores, as an archive.
    ///
    /// # Errors
    /// The compiler or the assembler fails.
    pub fn runtime(&self, cores: u8) -> Result<Vec<u8>, BuildError> {
        let name = "libcustomop_rt.a";
        let compiled = self.compiled("customop-rt", &["-p", "customop-rt", "--crate-type", "staticlib"], name)?;
        let mut members = Vec::new();
        for part in ASSEMBLY {
            let path = self.sources.join("customop-rt/asm").join(format!("{part}.S"));
            let text = fs::read_to_string(&path).map_err(|error| BuildError::File { path, error })?;
            let defined = if part == "parallel" { format!("CPU_COUNT = {cores}\n{text}") } else { text };
            members.push((format!("{part}.o"), self.assemble(&format!("{part}.S"), &defined)?));
        }
        let path = self.target.join(name);
        let compiled = archive::members(&compiled).map_err(|problem| BuildError::File {
            path,
            error: std::io::Error::new(std::io::ErrorKind::InvalidData, problem),
        })?;
        members.extend(compiled);
        Ok(write_archive(&members))
    }

    /// The operation `device/ops/NAME.rs`, as an archive without the runtime.
    ///
    /// # Errors
    /// The compiler fails.
    pub fn op(&self, name: &str) -> Result<Vec<u8>, BuildError> {
        self.compiled(name, &["-p", "ops", "--example", name], &format!("examples/lib{name}.a"))
    }

    /// Compiles one C++ file as [`DeviceBuild::op_library`] does: for an object that is linked elsewhere, or judged alone. `flags`:
    /// options besides.
    ///
    /// # Errors
    /// The compiler is missing, or the file does not compile.
    pub fn cxx(&self, source: &Path, object: &Path, flags: &[String]) -> Result<Vec<u8>, OpError> {
        Ok(compile::cxx(self, source, object, DEFAULT_STACK, flags)?.0)
    }

    /// Assembles a source text; `file` is what messages call it.
    ///
    /// # Errors
    /// The text has faults.
    pub fn assemble(&self, file: &str, text: &str) -> Result<Vec<u8>, BuildError> {
        let options = AsmOptions { isa: IsaSet::vision_q7() };
        assemble(text, &options).map_err(|faults| {
            let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
            BuildError::Assembly { file: file.to_owned(), faults: faults.join("; ") }
        })
    }

    /// Links parts (name and bytes of objects and archives) to a fixed-load library: one file for each core.
    ///
    /// # Errors
    /// The parts do not make a library.
    pub fn fixed(&self, parts: &[(&str, &[u8])], cores: u8) -> Result<Vec<Vec<u8>>, BuildError> {
        let image = |core| Ok(library::fixed(parts, (cores > 1).then_some(core))?);
        (0..cores).map(image).collect()
    }

    /// Links parts to a prelinked library for cores with this memory.
    ///
    /// # Errors
    /// The parts do not make a library, or it is too large for the windows.
    pub fn resident(&self, parts: &[(&str, &[u8])], bounds: &MemoryBounds) -> Result<PiLinked, BuildError> {
        Ok(library::resident(parts, bounds)?)
    }

    /// Links an operation and the runtime to a fixed-load library.
    ///
    /// # Errors
    /// See [`DeviceBuild::op`], [`DeviceBuild::runtime`], [`DeviceBuild::fixed`].
    pub fn fixed_op(&self, name: &str, cores: u8) -> Result<Vec<Vec<u8>>, BuildError> {
        let (op, runtime) = (self.op(name)?, self.runtime(cores)?);
        self.fixed(&[(name, &op), ("customop-rt", &runtime)], cores)
    }

    /// Links an operation and the runtime for eight cores to a prelinked library.
    ///
    /// # Errors
    /// See [`DeviceBuild::op`], [`DeviceBuild::runtime`], [`DeviceBuild::resident`].
    pub fn resident_op(&self, name: &str, bounds: &MemoryBounds) -> Result<PiLinked, BuildError> {
        let (op, runtime) = (self.op(name)?, self.runtime(8)?);
        self.resident(&[(name, &op), ("customop-rt", &runtime)], bounds)
    }

    /// A file that cargo makes of a package, built if a source is younger.
    fn compiled(&self, what: &str, arguments: &[&str], file: &str) -> Result<Vec<u8>, BuildError> {
        let path = self.target.join(TARGET).join("release").join(file);
        let stamp = self.target.join(format!("{what}.built"));
        if !path.exists() || modified(&stamp) <= newest(&self.sources) {
            let started = SystemTime::now();
            self.cargo(what, arguments)?;
            let touched = fs::File::create(&stamp).and_then(|file| file.set_modified(started));
            touched.map_err(|error| BuildError::File { path: stamp.clone(), error })?;
        }
        fs::read(&path).map_err(|error| BuildError::File { path, error })
    }

    /// `cargo rustc` for the device, in a folder.
    pub(crate) fn device_cargo(&self, folder: &Path, target: &Path) -> Command {
        let mut cargo = Command::new("cargo");
        cargo.current_dir(folder).args(["rustc", "--release", "--quiet", "--color=never"]);
        cargo.args(["-Zbuild-std=core,alloc", "-Zbuild-std-features=compiler-builtins-mem", "-Zjson-target-spec"]);
        cargo.arg("--target").arg(self.sources.join(format!("{TARGET}.json")));
        // What a surrounding cargo has set is for other code.
        for (name, _) in env::vars_os() {
            let text = name.to_string_lossy();
            if text.starts_with("CARGO")
                || text.starts_with("RUST") && text != "RUSTUP_HOME" && text != "RUSTUP_TOOLCHAIN"
            {
                cargo.env_remove(&name);
            }
        }
        if let Some(home) = env::var_os("CARGO_HOME") {
            cargo.env("CARGO_HOME", home);
        }
        cargo.env("RUSTC_BOOTSTRAP", "1").env("CARGO_TARGET_DIR", target);
        cargo
    }

    fn cargo(&self, what: &str, arguments: &[&str]) -> Result<(), BuildError> {
        let mut cargo = self.device_cargo(&self.sources, &self.target);
        cargo.args(arguments).args(["--", "-Ctarget-feature=+fp"]);
        let failed = |output: String| BuildError::Cargo { what: what.to_owned(), output };
        let output = cargo.output().map_err(BuildError::NoCargo)?;
        if output.status.success() { Ok(()) } else { Err(failed(String::from_utf8_lossy(&output.stderr).into_owned())) }
    }
}

/// When a file was changed last; long ago if it does not exist.
fn modified(path: &Path) -> SystemTime {
    fs::metadata(path).and_then(|data| data.modified()).unwrap_or(SystemTime::UNIX_EPOCH)
}

/// When anything in a folder was changed last.
fn newest(folder: &Path) -> SystemTime {
    let mut newest = SystemTime::UNIX_EPOCH;
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            if path.file_name().is_none_or(|name| name != "target") {
                newest = newest.max(self::newest(&path));
            }
        } else if path.file_name().is_none_or(|name| name != "Cargo.lock") {
            newest = newest.max(modified(&path));
        }
    }
    newest
}
