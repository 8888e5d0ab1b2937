//! What the commands need from the machine, and how to get it.

use crate::run::{check, exists, output, result, say};
use crate::{cross, python, run};
use anyhow::{Context, Result, bail};
use std::io::{BufRead, IsTerminal};
use std::process::Command;

/// Whether packages may be installed.
#[derive(clap::Args, Clone)]
pub struct Consent {
    /// Install missing packages without asking
    #[arg(long)]
    pub yes: bool,
}

impl Consent {
    /// Asks the person at the terminal, unless the answer was given already.
    pub fn asks(&self, what: &str) -> Result<bool> {
        if self.yes || std::env::var_os("CI").is_some() {
            return Ok(true);
        }
        if !std::io::stdin().is_terminal() {
            bail!("{what}: there is no terminal to ask; pass --yes to allow it");
        }
        say(format_args!("{what}? [y/N]"));
        let mut answer = String::new();
        std::io::stdin().lock().read_line(&mut answer)?;
        Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
    }
}

/// A program that must be there, and the Debian packages that bring it.
struct Need {
    what: &'static str,
    present: fn() -> bool,
    packages: &'static [&'static str],
}

const C_COMPILER: Need = Need {
    what: "a C compiler",
    present: || output("cc", &["--version"]).is_some() && exists("ld"),
    packages: &["gcc", "libc6-dev", "binutils"],
};
const CXX_COMPILER: Need = Need {
    what: "a C++ compiler, which builds programs against the C++ wrapper",
    present: || output("c++", &["--version"]).is_some(),
    packages: &["g++"],
};
const PYTHON: Need = Need {
    what: "Python 3.10 or newer with venv",
    present: || {
        let probe = "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))";
        output("python3", &["-c", probe]).is_some()
    },
    packages: &["python3", "python3-venv"],
};
const CROSS_COMPILER: Need = Need {
    what: "a C compiler for AArch64, which links for the board and shows that generated C is plain C",
    present: || exists("aarch64-linux-gnu-gcc"),
    packages: &["gcc-aarch64-linux-gnu", "libc6-dev-arm64-cross"],
};
const QEMU_XTENSA: Need = Need {
    what: "qemu for Xtensa, the oracle of the engine",
    present: || exists("qemu-xtensa") && exists("qemu-system-xtensa"),
    packages: &["qemu-user", "qemu-system-misc"],
};
const QEMU_AARCH64: Need = Need {
    what: "qemu for AArch64, which runs tests on the board's processor",
    present: || cfg!(target_arch = "aarch64") || exists("qemu-aarch64"),
    packages: &["qemu-user"],
};
const VALGRIND: Need = Need {
    what: "valgrind, which counts the loader's instructions",
    present: || exists("valgrind"),
    packages: &["valgrind"],
};
const STRACE: Need =
    Need { what: "strace, which shows what the programs open", present: || exists("strace"), packages: &["strace"] };
const LLVM_MC: Need = Need {
    what: "llvm-mc 22, which the assembler is compared with",
    present: || exists("llvm-mc-22"),
    packages: &["llvm-22"],
};

const CLANG_22: Need = Need {
    what: "clang 22, which compiles C for Xtensa devices",
    present: || exists("clang-22"),
    packages: &["clang-22"],
};
const GCC_XTENSA: Need = Need {
    what: "GCC for Xtensa, the other compiler of device code",
    present: || exists("xtensa-lx106-elf-gcc"),
    packages: &["gcc-xtensa-lx106"],
};

/// What building and running a module from C needs.
///
/// # Errors
/// Something is missing and may not or cannot be installed.
pub fn for_c(consent: &Consent) -> Result<()> {
    satisfy(&[C_COMPILER], consent)
}

/// What the full demo needs: C and the Python environment. Returns the environment.
///
/// # Errors
/// As for [`for_c`].
pub fn for_models(consent: &Consent) -> Result<python::Environment> {
    satisfy(&[C_COMPILER, PYTHON], consent)?;
    python::Environment::ready(|what| consent.asks(what))
}

/// What device code in Rust needs: the sources of the Rust libraries.
///
/// # Errors
/// As for [`for_c`].
pub fn for_device(consent: &Consent) -> Result<()> {
    components(&["rust-src"], consent)
}

/// What device code needs: its compilers and the sources of the Rust libraries.
///
/// # Errors
/// As for [`for_c`].
pub fn for_device_code(consent: &Consent) -> Result<()> {
    satisfy(&[C_COMPILER, CXX_COMPILER, CLANG_22, GCC_XTENSA], consent)?;
    for_device(consent)
}

/// What all tests need. Returns the Python environment.
///
/// # Errors
/// As for [`for_c`].
pub fn for_tests(consent: &Consent) -> Result<python::Environment> {
    satisfy(
        &[C_COMPILER, CXX_COMPILER, PYTHON, CROSS_COMPILER, QEMU_XTENSA, QEMU_AARCH64, LLVM_MC, VALGRIND, STRACE],
        consent,
    )?;
    for_device_code(consent)?;
    components(&["rustfmt", "clippy"], consent)?;
    cross::ready(consent)?;
    python::Environment::ready(|what| consent.asks(what))
}

/// What an archive for the board needs: the cross compiler, qemu to look at the result, and maturin. Returns the environment with it.
///
/// # Errors
/// As for [`for_c`].
pub fn for_dist(consent: &Consent) -> Result<python::Environment> {
    satisfy(&[C_COMPILER, PYTHON, CROSS_COMPILER, QEMU_AARCH64], consent)?;
    cross::ready(consent)?;
    python::Environment::for_wheels(|what| consent.asks(what))
}

/// What checking the Python sources needs. Returns the environment with the checkers, and the one whose packages the sources use.
///
/// # Errors
/// As for [`for_c`].
pub fn for_lint(consent: &Consent) -> Result<(python::Environment, python::Environment)> {
    let models = for_models(consent)?;
    Ok((python::Environment::for_lint(|what| consent.asks(what))?, models))
}

/// Installs everything, and builds the extension module of the Python package.
///
/// # Errors
/// As for [`for_c`].
pub fn everything(consent: &Consent) -> Result<()> {
    for_tests(consent)?;
    python::extension()?;
    result("setup: ok");
    Ok(())
}

fn satisfy(needs: &[Need], consent: &Consent) -> Result<()> {
    let missing: Vec<&Need> = needs.iter().filter(|need| !(need.present)()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let packages: Vec<&str> = missing.iter().flat_map(|need| need.packages).copied().collect();
    for need in &missing {
        say(format_args!("missing: {} (Debian: {})", need.what, need.packages.join(" ")));
    }
    let names = packages.join(" ");
    if !exists("apt-get") {
        bail!("this system has no apt-get: install what the Debian packages {names} contain, then run this again");
    }
    if !consent.asks(&format!("Install the Debian packages {names}"))? {
        bail!("not installed: {names}");
    }
    apt(&["update", "-q"])?;
    apt(&[&["install", "-y", "-q", "--no-install-recommends"], packages.as_slice()].concat())?;
    match missing.iter().find(|need| !(need.present)()) {
        None => Ok(()),
        Some(need) => bail!("{} is still missing after installing {}", need.what, need.packages.join(" ")),
    }
}

/// Runs apt-get as root: directly, or through sudo.
fn apt(arguments: &[&str]) -> Result<()> {
    let is_root = output("id", &["-u"]).is_some_and(|id| id.trim() == "0");
    let mut command = if is_root {
        Command::new("apt-get")
    } else if exists("sudo") {
        let mut sudo = Command::new("sudo");
        sudo.arg("apt-get");
        sudo
    } else {
        bail!("installing packages needs root: run as root, or install sudo");
    };
    check(command.env("DEBIAN_FRONTEND", "noninteractive").args(arguments))
}

/// Components of the pinned toolchain.
fn components(names: &[&str], consent: &Consent) -> Result<()> {
    let installed = output("rustup", &["component", "list", "--installed"])
        .context("rustup is needed for the pinned toolchain: see https://rustup.rs")?;
    let missing: Vec<&str> =
        names.iter().copied().filter(|name| !installed.lines().any(|line| line.starts_with(name))).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let list = missing.join(" ");
    if !consent.asks(&format!("Add the rustup components {list}"))? {
        bail!("not added: {list}");
    }
    check(Command::new("rustup").current_dir(run::root()).args(["component", "add"]).args(missing))
}
