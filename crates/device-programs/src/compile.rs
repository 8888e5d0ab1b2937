//! The compilers: one function each, from a source to an object or a library.

use std::path::{Path, PathBuf};
use std::process::Command;

use outboard_xtensa::asm::{AsmOptions, assemble};

use crate::{Abi, BuildFault, Machine, Workshop, write};

/// Features of the core that clang is told about, beside windows and floats.
const FEATURES: [&str; 12] =
    ["density", "loop", "mul32", "mul16", "bool", "nsa", "sext", "minmax", "div32", "s32c1i", "threadptr", "clamps"];

/// Options that both C compilers and the native one take.
const C_OPTIONS: [&str; 7] =
    ["-O2", "-Wall", "-Wextra", "-Werror", "-ffunction-sections", "-fdata-sections", "-ffp-contract=off"];

/// Options of C++ without its library.
const CXX_OPTIONS: [&str; 4] = ["-std=c++17", "-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics"];

impl Workshop {
    /// Builds the library of a Rust crate as a static library, with core and alloc built for the machine. The libraries
    /// are built without hardware floats, which crashes LLVM 22; the crate itself gets them when the machine has them.
    ///
    /// # Errors
    ///
    /// [`BuildFault`] with what cargo said.
    pub fn rust(&self, folder: &Path, machine: Machine) -> Result<PathBuf, BuildFault> {
        let target = self.device().join("targets").join(format!("xtensa-{}.json", machine.abi.name()));
        let out = self.out().join("rust").join(machine.name());
        let mut cargo = cargo(folder);
        cargo.args(["rustc", "--quiet", "--release", "--lib", "--crate-type", "staticlib"]);
        cargo.args(["-Zbuild-std=core,alloc", "-Zbuild-std-features=compiler-builtins-mem", "-Zjson-target-spec"]);
        cargo.arg("--target").arg(&target);
        // Both kinds of floats share the libraries.
        cargo.arg("--target-dir").arg(self.out().join("rust").join("cargo"));
        // Frames of call0 code are larger than LLVM's register scavenger can bear at higher levels.
        cargo.env("CARGO_PROFILE_RELEASE_OPT_LEVEL", if machine.abi == Abi::Call0 { "s" } else { "3" });
        if machine.float {
            cargo.args(["--", "-C", "target-feature=+fp"]);
        }
        run(&mut cargo, folder)?;
        let name = folder.file_name().unwrap_or_default().to_string_lossy().replace('-', "_");
        let built = self.out().join("rust/cargo").join(format!("xtensa-{}/release", machine.abi.name()));
        let library = newest_library(&built, &name)?;
        std::fs::create_dir_all(&out).map_err(|error| BuildFault::file(&out, error))?;
        let kept = out.join(format!("lib{name}.a"));
        std::fs::copy(&library, &kept).map_err(|error| BuildFault::file(&library, error))?;
        Ok(kept)
    }

    /// Builds the binary of a Rust crate for this computer.
    ///
    /// # Errors
    ///
    /// [`BuildFault`] with what cargo said.
    pub fn rust_native(&self, folder: &Path, binary: &str) -> Result<PathBuf, BuildFault> {
        let out = self.out().join("rust/native");
        let mut cargo = cargo(folder);
        cargo.args(["build", "--quiet", "--release", "--bin", binary]).arg("--target-dir").arg(&out);
        run(&mut cargo, folder)?;
        Ok(out.join("release").join(binary))
    }

    /// Compiles C or C++ (by the ending of the name) with clang 22.
    ///
    /// # Errors
    ///
    /// [`BuildFault`] with what the compiler said.
    pub fn clang(&self, source: &Path, machine: Machine) -> Result<PathBuf, BuildFault> {
        let mut clang = Command::new("clang-22");
        clang.args(["--target=xtensa", "-ffreestanding", "-c"]).args(C_OPTIONS);
        let windowed = if machine.abi == Abi::Windowed { "+windowed" } else { "-windowed" };
        let float = if machine.float { "+fp" } else { "-fp" };
        let features = FEATURES.iter().map(|feature| format!("+{feature}"));
        for feature in features.chain([windowed.to_owned(), float.to_owned()]) {
            clang.args(["-Xclang", "-target-feature", "-Xclang"]).arg(feature);
        }
        self.c(clang, source, &format!("clang-{}", machine.name()))
    }

    /// Compiles C or C++ with GCC for the LX106: call0, floats in software.
    ///
    /// # Errors
    ///
    /// [`BuildFault`] with what the compiler said.
    pub fn gcc(&self, source: &Path, literals_in_text: bool) -> Result<PathBuf, BuildFault> {
        let mut gcc = Command::new("xtensa-lx106-elf-gcc");
        gcc.args(["-ffreestanding", "-mlongcalls", "-c"]).args(C_OPTIONS);
        if literals_in_text {
            gcc.arg("-mtext-section-literals");
        }
        self.c(gcc, source, if literals_in_text { "gcc-text" } else { "gcc" })
    }

    /// The library of GCC. It lacks most of the arithmetic of floats: link the one of a Rust library first.
    ///
    /// # Errors
    ///
    /// [`BuildFault::Missing`] without GCC.
    pub fn gcc_library(&self) -> Result<PathBuf, BuildFault> {
        let program = "xtensa-lx106-elf-gcc";
        let output = Command::new(program).arg("-print-libgcc-file-name").output();
        let output = output.map_err(|error| BuildFault::Missing { program: program.to_owned(), error })?;
        Ok(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()))
    }

    /// Compiles and links C or C++ for this computer.
    ///
    /// # Errors
    ///
    /// [`BuildFault`] with what the compiler said.
    pub fn c_native(&self, sources: &[PathBuf], name: &str) -> Result<PathBuf, BuildFault> {
        let folder = self.folder("native")?;
        let program = folder.join(name);
        let cxx = sources.iter().any(|source| is_cxx(source));
        let mut objects = Vec::new();
        for source in sources {
            let mut compiler = Command::new(if is_cxx(source) { "c++" } else { "cc" });
            compiler.arg("-c").args(C_OPTIONS);
            objects.push(self.c(compiler, source, "native")?);
        }
        let mut linker = Command::new(if cxx { "c++" } else { "cc" });
        linker.args(&objects).arg("-o").arg(&program);
        run(&mut linker, sources.first().map_or(Path::new(name), PathBuf::as_path))?;
        Ok(program)
    }

    /// Assembles a file.
    ///
    /// # Errors
    ///
    /// [`BuildFault::Assembler`] with all lines that are wrong.
    pub fn assemble(&self, source: &Path) -> Result<PathBuf, BuildFault> {
        let text = std::fs::read_to_string(source).map_err(|error| BuildFault::file(source, error))?;
        let object = self.folder("asm")?.join(source.file_name().unwrap_or_default()).with_extension("o");
        self.assemble_text(&text, source, &object)?;
        Ok(object)
    }

    /// Assembles a text to an object.
    pub(crate) fn assemble_text(&self, text: &str, source: &Path, object: &Path) -> Result<(), BuildFault> {
        let bytes = assemble(text, &AsmOptions::default())
            .map_err(|errors| BuildFault::Assembler { source_file: source.to_owned(), errors })?;
        write(object, &bytes)
    }

    pub(crate) fn folder(&self, name: &str) -> Result<PathBuf, BuildFault> {
        let folder = self.out().join(name);
        std::fs::create_dir_all(&folder).map_err(|error| BuildFault::file(&folder, error))?;
        Ok(folder)
    }

    fn c(&self, mut compiler: Command, source: &Path, folder: &str) -> Result<PathBuf, BuildFault> {
        let object = self.folder(folder)?.join(source.file_name().unwrap_or_default()).with_extension("o");
        if is_cxx(source) {
            compiler.args(CXX_OPTIONS);
        }
        compiler.arg(source).arg("-o").arg(&object);
        run(&mut compiler, source)?;
        Ok(object)
    }
}

fn is_cxx(source: &Path) -> bool {
    source.extension().is_some_and(|ending| ending == "cpp")
}

/// Cargo in another workspace: nothing of the cargo that runs this may reach it.
fn cargo(folder: &Path) -> Command {
    let mut cargo = Command::new("cargo");
    cargo.current_dir(folder).env("RUSTC_BOOTSTRAP", "1");
    let inherited = std::env::vars_os().map(|(name, _)| name);
    for name in inherited.filter(|name| name.to_str().is_some_and(leaks)) {
        cargo.env_remove(name);
    }
    cargo
}

/// Variables by which an outer cargo, clippy or coverage run would change what is built.
fn leaks(name: &str) -> bool {
    name.starts_with("CARGO_BUILD_")
        || name.starts_with("CARGO_PROFILE_")
        || name.starts_with("CARGO_TARGET_")
        || name.starts_with("CARGO_PKG_")
        || matches!(
            name,
            "RUSTFLAGS"
                | "CARGO_ENCODED_RUSTFLAGS"
                | "RUSTC"
                | "RUSTC_WRAPPER"
                | "RUSTC_WORKSPACE_WRAPPER"
                | "RUSTDOCFLAGS"
        )
}

/// The library that cargo has just built, whatever the crate is called.
fn newest_library(folder: &Path, name: &str) -> Result<PathBuf, BuildFault> {
    let entries = std::fs::read_dir(folder).map_err(|error| BuildFault::file(folder, error))?;
    let libraries =
        entries.filter_map(Result::ok).filter(|entry| entry.path().extension().is_some_and(|ending| ending == "a"));
    let newest = libraries.max_by_key(|entry| entry.metadata().and_then(|metadata| metadata.modified()).ok());
    newest.map(|entry| entry.path()).ok_or_else(|| {
        let error = std::io::Error::new(std::io::ErrorKind::NotFound, format!("cargo left no library for {name}"));
        BuildFault::file(folder, error)
    })
}

/// Runs a compiler.
fn run(command: &mut Command, source: &Path) -> Result<(), BuildFault> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| BuildFault::Missing { program: program.clone(), error })?;
    if output.status.success() {
        return Ok(());
    }
    let output = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(BuildFault::Compiler { program, source_file: source.to_owned(), output })
}
