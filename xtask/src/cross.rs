//! The board's processor: what is built for AArch64 on another machine, and run there by qemu.

use crate::run::{cargo, output, root};
use crate::setup::Consent;
use anyhow::{Context, Result, bail};
use std::process::Command;

/// The board's target.
pub const BOARD: &str = "aarch64-unknown-linux-gnu";
/// Where Debian puts the C library of the board's processor.
const SYSROOT: &str = "/usr/aarch64-linux-gnu";
/// Whose tests run there: everything that reads what a device or a file says, on a processor that is not the developer's.
const PACKAGES: [&str; 5] = ["outboard-wire", "outboard-reloc", "outboard-elf", "outboard-link", "outboard-host"];
/// Their integration tests. Those that are not here try every allocation or every damaged file, which takes qemu minutes and says nothing
/// about the processor.
const TESTS: [&str; 7] = ["golden", "rows", "golden_modules", "host_modules", "reports", "rules", "shapes"];

/// Adds the standard library of the board's target to the toolchain of this clone.
///
/// # Errors
/// It is missing and may not or cannot be added.
pub fn ready(consent: &Consent) -> Result<()> {
    let installed = output("rustup", &["target", "list", "--installed"])
        .context("rustup is needed for the board's target: see https://rustup.rs")?;
    if installed.lines().any(|line| line.trim() == BOARD) {
        return Ok(());
    }
    if !consent.asks(&format!("Add the rustup target {BOARD}"))? {
        bail!("not added: the rustup target {BOARD}");
    }
    crate::run::check(Command::new("rustup").current_dir(root()).args(["target", "add", BOARD]))
}

/// Tells a cargo how to link and run for the board; nothing on the board itself.
pub fn for_board(command: &mut Command) -> &mut Command {
    if !cfg!(target_arch = "aarch64") {
        command
            .env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", "aarch64-linux-gnu-gcc")
            .env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER", format!("qemu-aarch64 -L {SYSROOT}"))
            .env("CC_aarch64_unknown_linux_gnu", "aarch64-linux-gnu-gcc");
    }
    command
}

/// Runs a program that was built for the board.
pub fn run_there(program: &std::path::Path) -> Command {
    if cfg!(target_arch = "aarch64") {
        return Command::new(program);
    }
    let mut qemu = Command::new("qemu-aarch64");
    qemu.args(["-L", SYSROOT]).arg(program);
    qemu
}

/// Builds the whole workspace for the board.
pub fn build() -> Command {
    let mut build = cargo();
    for_board(build.args(["build", "--quiet", "--workspace", "--target", BOARD]));
    build
}

/// Runs the tests of protocol, files, loader and sessions on the board's processor.
pub fn tests() -> Command {
    let mut tests = cargo();
    tests.args(["test", "--quiet", "--target", BOARD, "--no-fail-fast", "--lib"]);
    for package in PACKAGES {
        tests.args(["--package", package]);
    }
    for test in TESTS {
        tests.args(["--test", test]);
    }
    for_board(&mut tests);
    tests
}
