//! Compiles the sources of an operation: C++ with clang 22, Rust with cargo.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::{env, fs};

use crate::rust_source::RustSource;
use crate::{BuildError, DeviceBuild, OpError};

/// The compiler, unless `OUTBOARD_CLANGXX` names another.
const CLANG: &str = "clang++-22";
/// What the pool cores have, as clang calls it.
const FEATURES: [&str; 14] = [
    "density",
    "loop",
    "mul32",
    "mul16",
    "bool",
    "nsa",
    "sext",
    "minmax",
    "div32",
    "s32c1i",
    "threadptr",
    "clamps",
    "windowed",
    "fp",
];
/// The language without what needs an operating system, and arithmetic as it is written.
const OPTIONS: [&str; 13] = [
    "--target=xtensa",
    "-ffreestanding",
    "-std=c++14",
    "-nostdinc++",
    "-Os",
    "-gline-tables-only",
    "-Wall",
    "-ffunction-sections",
    "-fdata-sections",
    "-fno-exceptions",
    "-fno-rtti",
    "-fno-threadsafe-statics",
    "-ffp-contract=off",
];

/// Compiles one C++ file to an object; what the compiler says about good code is in the second part.
pub(crate) fn cxx(
    build: &DeviceBuild,
    source: &Path,
    object: &Path,
    stack: u32,
    flags: &[String],
) -> Result<(Vec<u8>, String), OpError> {
    let program = env::var("OUTBOARD_CLANGXX").unwrap_or_else(|_| CLANG.to_owned());
    let mut clang = Command::new(&program);
    clang.args(OPTIONS).arg("-fno-jump-tables");
    for feature in FEATURES {
        clang.args(["-Xclang", "-target-feature", "-Xclang"]).arg(format!("+{feature}"));
    }
    for folder in ["include", "include/std"] {
        clang.arg("-isystem").arg(build.sources().join(folder));
    }
    clang.arg(format!("-DSTACK_SIZE={stack}u")).args(flags).arg("-c").arg(source).arg("-o").arg(object);
    let output = clang.output().map_err(|error| OpError::Missing {
        program: program.clone(),
        install: "apt-get install clang-22".to_owned(),
        error: error.to_string(),
    })?;
    let said = outcome(source, &program, output)?;
    let bytes =
        fs::read(object).map_err(|error| OpError::File { path: object.to_owned(), error: error.to_string() })?;
    Ok((bytes, said))
}

/// What a compiler printed; an error if it failed.
fn outcome(source: &Path, program: &str, output: Output) -> Result<String, OpError> {
    let said = about_sources(&String::from_utf8_lossy(&output.stderr));
    if output.status.success() {
        return Ok(said);
    }
    Err(OpError::Compile { source_file: source.to_owned(), program: program.to_owned(), output: said })
}

/// Compiles a Rust file or crate with its generated root to an archive.
pub(crate) fn rust(
    build: &DeviceBuild,
    source: &RustSource,
    root: &str,
    folder: &Path,
) -> Result<(Vec<u8>, String), OpError> {
    let wrong = |path: &Path| {
        let path = path.to_owned();
        move |error: std::io::Error| OpError::File { path, error: error.to_string() }
    };
    let package = folder.join("package");
    fs::create_dir_all(&package).map_err(wrong(&package))?;
    let manifest = format!(
        "cargo-features = [\"profile-rustflags\"]\n\n[package]\nname = \"operation\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[lib]\npath = \"root.rs\"\n\
         crate-type = [\"staticlib\"]\n\n[dependencies]\ncustomop = {{ path = {:?} }}\n{}\n[profile.release]\n\
         opt-level = \"s\"\nlto = \"fat\"\ncodegen-units = 1\npanic = \"abort\"\ndebug = \"line-tables-only\"\n\n{}[workspace]\n",
        build.sources().join("customop").to_string_lossy(),
        source.dependency(),
        source.profile(FLOATS)
    );
    let root_file = package.join("root.rs");
    let manifest_file = package.join("Cargo.toml");
    // Libraries share a folder and a name there: it is held until the archive is read. The root is written inside, since cargo
    // would take one that is older than the last build for that build's.
    fs::create_dir_all(build.target()).map_err(wrong(build.target()))?;
    let held = build.target().join("operations.lock");
    let _held = fs::File::create(&held).and_then(|file| file.lock().map(|()| file)).map_err(wrong(&held))?;
    fs::write(&root_file, root).map_err(wrong(&root_file))?;
    fs::write(&manifest_file, manifest).map_err(wrong(&manifest_file))?;
    let target = build.target().join("operations");
    let mut cargo = build.device_cargo(&package, &target);
    cargo.args(["--lib", "--", FLOATS]);
    if let RustSource::Crate { folder, .. } = source {
        // The versions that the crate was tested with.
        let (lock, copy) = (folder.join("Cargo.lock"), package.join("Cargo.lock"));
        if lock.exists() {
            fs::copy(&lock, &copy).map_err(wrong(&lock))?;
        }
    }
    let output = cargo.output().map_err(|error| no_cargo(&error.to_string()))?;
    let said = outcome(source.path(), "cargo", output).map_err(|error| match error {
        OpError::Compile { output, .. } if component(&output).is_some() => missing_component(&output),
        other => other,
    })?;
    let archive: PathBuf = target.join(crate::TARGET).join("release/liboperation.a");
    Ok((fs::read(&archive).map_err(wrong(&archive))?, said))
}

/// Floats in hardware.
const FLOATS: &str = "-Ctarget-feature=+fp";

/// Cargo does not start.
fn no_cargo(error: &str) -> OpError {
    OpError::Missing {
        program: "cargo".to_owned(),
        install: "curl https://sh.rustup.rs | sh, then rustup component add rust-src".to_owned(),
        error: error.to_owned(),
    }
}

/// The command with which cargo asks for a component of the toolchain.
fn component(said: &str) -> Option<&str> {
    said.lines().map(str::trim).find(|line| line.starts_with("rustup component add "))
}

fn missing_component(said: &str) -> OpError {
    OpError::Missing {
        program: "the sources of Rust's core library".to_owned(),
        install: component(said).unwrap_or("rustup component add rust-src").to_owned(),
        error: said.to_owned(),
    }
}

/// Why the runtime was not built: what is missing, if cargo says so.
pub(crate) fn runtime_problem(error: BuildError) -> OpError {
    match &error {
        BuildError::Cargo { output, .. } if component(output).is_some() => missing_component(output),
        BuildError::NoCargo(problem) => no_cargo(&problem.to_string()),
        _ => OpError::Runtime(Box::new(error)),
    }
}

/// What was said about the sources: not about target features, which are rustc's business.
fn about_sources(said: &str) -> String {
    let paragraphs = said.split("\n\n").filter(|paragraph| !paragraph.contains("unstable feature specified"));
    paragraphs.collect::<Vec<_>>().join("\n\n").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_component_is_named_with_the_command_that_cargo_says() {
        let said = "error: \"/r/lib/rustlib/src/rust/library/Cargo.lock\" does not exist, unable to build with the standard \
                    library, try:\n        rustup component add rust-src --toolchain 1.95.0-x86_64-unknown-linux-gnu\n";
        let error = BuildError::Cargo { what: "customop-rt".to_owned(), output: said.to_owned() };
        let text = runtime_problem(error).to_string();
        assert!(text.contains("install it with: rustup component add rust-src --toolchain 1.95.0"), "{text}");
        let started = BuildError::NoCargo(std::io::ErrorKind::NotFound.into());
        let error = runtime_problem(started);
        assert!(error.explain() == "OB0733" && error.to_string().contains("sh.rustup.rs"), "{error}");
        let other = BuildError::Cargo { what: "customop-rt".to_owned(), output: "error: expected `;`".to_owned() };
        assert_eq!(runtime_problem(other).explain(), "OB0734");
    }
}
