//! Running other programs, and saying so.

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The root of the clone.
pub fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest).to_path_buf()
}

/// Says something to the person at the terminal.
#[allow(clippy::print_stderr, reason = "xtask talks to a person; its results are files and exit codes")]
pub fn say(line: impl std::fmt::Display) {
    eprintln!("{line}");
}

/// Prints a line of the result.
#[allow(clippy::print_stdout, reason = "the result of an xtask command is its standard output")]
pub fn result(line: impl std::fmt::Display) {
    println!("{line}");
}

/// Prints a path as the result.
pub fn result_path(path: PathBuf) {
    result(path.display());
}

/// The program and its arguments as one would type them.
fn spelled(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

/// Runs a program to its end with our terminal.
///
/// # Errors
/// It cannot be started, or ends with another status than 0.
pub fn check(command: &mut Command) -> Result<()> {
    say(format_args!("$ {}", spelled(command)));
    let status = command.status().with_context(|| format!("cannot start `{}`", spelled(command)))?;
    if !status.success() {
        bail!("`{}` failed: {status}", spelled(command));
    }
    Ok(())
}

/// Runs a program and returns what it prints, or `None` when it cannot be started or fails.
pub fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Whether a program is on the path.
pub fn exists(program: &str) -> bool {
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|folder| folder.join(program).is_file()))
}

/// `cargo`, the one that runs us.
pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

/// Where cargo puts what it builds.
pub fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// Builds the `outboard` program and returns its path.
///
/// # Errors
/// The build fails.
pub fn build_outboard(release: bool) -> Result<PathBuf> {
    let mut build = cargo();
    build.args(["build", "--package", "outboard-cli"]);
    if release {
        build.arg("--release");
    }
    check(&mut build)?;
    Ok(target().join(if release { "release" } else { "debug" }).join("outboard"))
}
