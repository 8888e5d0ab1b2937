//! Programs in C and C++ against the header and the library of this build, and modules for them to call.

#![allow(dead_code, reason = "every test file uses its own part of this one")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;

/// Folder with what the tests of this process build, removed with it.
pub static FOLDER: LazyLock<tempfile::TempDir> = LazyLock::new(|| tempfile::tempdir().unwrap());

pub fn crate_path(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Folder of this test program; Cargo puts the library of the same build there.
fn deps() -> PathBuf {
    std::env::current_exe().unwrap().parent().unwrap().to_owned()
}

/// The library, linked to under its link-time name and found under its run-time name.
pub fn library() -> &'static Path {
    static LIBRARY: LazyLock<PathBuf> = LazyLock::new(|| {
        let deps = deps();
        let built = [deps.join("libc7x_arm_runtime.so"), deps.join("../libc7x_arm_runtime.so")];
        let built = built.into_iter().find(|path| path.is_file()).expect("cargo builds the library with its tests");
        let folder = FOLDER.path().join("lib");
        std::fs::create_dir(&folder).unwrap();
        for name in ["libc7x_arm_runtime.so", "libc7x_arm_runtime.so.1"] {
            std::os::unix::fs::symlink(&built, folder.join(name)).unwrap();
        }
        folder
    });
    &LIBRARY
}

/// The program simulated devices run in: that of this build, which is made when it is missing.
pub fn device_program() -> &'static Path {
    static PROGRAM: LazyLock<PathBuf> = LazyLock::new(|| {
        let deps = deps();
        let folder = deps.parent().unwrap();
        let program = folder.join("outboard");
        if !program.is_file() {
            let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
            cargo
                .args(["build", "-p", "outboard-cli", "--bin", "outboard", "--target-dir"])
                .arg(folder.parent().unwrap());
            if folder.ends_with("release") {
                cargo.arg("--release");
            }
            assert!(cargo.status().unwrap().success(), "cargo build -p outboard-cli");
        }
        program
    });
    &PROGRAM
}

/// Compiles a program of `tests/programs`; `name` is that of the executable.
pub fn program(compiler: &str, name: &str, source: &str, flags: &[&str]) -> PathBuf {
    let target = FOLDER.path().join(name);
    let mut command = Command::new(compiler);
    command.args(flags).args(["-Wall", "-Wextra", "-Werror", "-pedantic", "-O1", "-I"]).arg(crate_path("include"));
    command.arg(crate_path("tests/programs").join(source)).args(["-x", "none", "-o"]).arg(&target);
    command.arg("-L").arg(library()).args(["-lc7x_arm_runtime", "-lm"]);
    let compiled =
        command.output().unwrap_or_else(|error| panic!("{compiler} is needed (package gcc or g++): {error}"));
    assert!(compiled.status.success(), "{source}: {}", String::from_utf8_lossy(&compiled.stderr));
    target
}

/// Runs a program against the library.
pub fn run(program: &Path, device: &str, args: &[&Path]) -> Output {
    Command::new(program)
        .args(args)
        .env("LD_LIBRARY_PATH", library())
        .env("OUTBOARD_DEVICE", device)
        .env("OUTBOARD_DEVICE_PROGRAM", device_program())
        .env_remove("OUTBOARD_TIMEOUT")
        .output()
        .unwrap()
}

/// Runs a program against the library with the nodes of a simulated board, over RPMsg.
pub fn run_on_board(program: &Path, args: &[&Path]) -> Output {
    let nodes = deps().join("liboutboard_nodes.so");
    assert!(nodes.is_file(), "cargo builds what tests depend on");
    Command::new(device_program())
        .args(["board-env", "--incoherent", "--"])
        .arg(program)
        .args(args)
        .env("LD_LIBRARY_PATH", library())
        .env("OUTBOARD_DEVICE", "rpmsg")
        .env("OUTBOARD_NODES_LIBRARY", nodes)
        .env_remove("OUTBOARD_TIMEOUT")
        .output()
        .unwrap()
}

fn examples() -> PathBuf {
    crate_path("../../examples/models")
}

/// A file of the examples.
pub fn example(path: &str) -> PathBuf {
    examples().join(path)
}

/// Compiles a module of `examples/models` or of the tests of the program, with the documented flags.
pub fn module(name: &str, source: &str) -> PathBuf {
    let own = crate_path("../../crates/cli/tests/modules").join(source);
    let source = if own.exists() { own } else { example(source) };
    let flags = |file: &str| -> Vec<String> {
        let text = std::fs::read_to_string(example(file)).unwrap();
        text.split_whitespace().map(str::to_owned).collect()
    };
    let target = FOLDER.path().join(name);
    let mut command = Command::new("cc");
    command.current_dir(source.parent().unwrap()).args(flags("cflags.txt")).arg("-I").arg(example("include"));
    let weights = source.with_file_name("weights.S");
    command.arg(&source).args(weights.exists().then_some(&weights)).arg("-o").arg(&target).args(flags("ldflags.txt"));
    assert!(command.status().expect("a C compiler named cc is installed").success(), "cc cannot compile the module");
    target
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
