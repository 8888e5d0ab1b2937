//! `cargo xtask dist`: the archive that a board needs, and a look at what is in it.

use crate::cross::{BOARD, for_board, run_there};
use crate::python::{Environment, scratch};
use crate::run::{cargo, check, output, root, say, target};
use crate::setup::{self, Consent};
use anyhow::{Context, Result, bail, ensure};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Version of everything in the archive.
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The rule that lets members of a group use the device; `outboard doctor` prints the same line.
const UDEV_RULE: &str = "SUBSYSTEM==\"rpmsg|remoteproc|dma_heap\", GROUP=\"plugdev\", MODE=\"0660\"\n";
/// Programs and libraries: the name cargo gives them, and the place in the archive.
const BINARIES: [(&str, &str); 4] = [
    ("outboard", "bin/outboard"),
    ("c7x_compute", "bin/c7x_compute"),
    ("libc7x_arm_runtime.so", "lib/libc7x_arm_runtime.so.1"),
    ("liboutboard_nodes.so", "lib/liboutboard_nodes.so"),
];
/// The number of the board's processor in an ELF header.
const EM_AARCH64: u16 = 183;

/// Makes the archive, looks at it, and returns its path.
///
/// # Errors
/// Set-up or a build fails, or the archive is not what it should be.
pub fn run(quick: bool, consent: &Consent) -> Result<PathBuf> {
    let wheels = setup::for_dist(consent)?;
    let name = format!("outboard-{VERSION}-aarch64");
    let scratch = scratch("dist")?;
    let folder = scratch.join(&name);
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    binaries(&folder, quick)?;
    wheel(&wheels, &folder.join("python"), quick)?;
    texts(&folder)?;
    let archive = scratch.join(format!("{name}.tar.gz"));
    pack(&scratch, &name, &archive)?;
    look(&archive, &name)?;
    Ok(archive)
}

/// Programs and libraries, without the tables of a debugger.
fn binaries(folder: &Path, quick: bool) -> Result<()> {
    let mut build = cargo();
    build.args(["build", "--quiet", "--target", BOARD]);
    build.args(["--package", "outboard-cli", "--package", "outboard-capi", "--package", "outboard-nodes"]);
    if !quick {
        build.arg("--release");
    }
    check(for_board(&mut build))?;
    let built = target().join(BOARD).join(if quick { "debug" } else { "release" });
    for (file, place) in BINARIES {
        let place = folder.join(place);
        make_parent(&place)?;
        // Libraries that only tests depend on lie among the dependencies.
        let from = [built.join(file), built.join("deps").join(file)].into_iter().find(|path| path.is_file());
        let from = from.with_context(|| format!("{} holds no {file}", built.display()))?;
        let strip = if cfg!(target_arch = "aarch64") { "strip" } else { "aarch64-linux-gnu-strip" };
        check(Command::new(strip).args(["--strip-debug", "-o"]).arg(&place).arg(&from))?;
    }
    // The name that linkers look for.
    symlink("libc7x_arm_runtime.so.1", folder.join("lib/libc7x_arm_runtime.so"))?;
    Ok(())
}

/// The Python package with its extension module.
fn wheel(wheels: &Environment, folder: &Path, quick: bool) -> Result<()> {
    let mut maturin = wheels.python();
    maturin.args(["-m", "maturin", "build", "--quiet", "--target", BOARD, "--compatibility", "linux", "--strip"]);
    maturin.arg("--manifest-path").arg(root().join("bindings/python/native/Cargo.toml"));
    maturin.arg("--out").arg(folder);
    maturin.args(["--profile", if quick { "dev" } else { "release" }]);
    check(for_board(&mut maturin))
}

/// Builds the wheel for this machine and installs it where nothing else is; returns that folder.
///
/// # Errors
/// Set-up, the build or the installation fails.
pub fn installed_wheel(consent: &Consent) -> Result<PathBuf> {
    let wheels = setup::for_dist(consent)?;
    let (built, installed) = (scratch("wheel")?, scratch("wheel-installed")?);
    for folder in [&built, &installed] {
        std::fs::remove_dir_all(folder)?;
    }
    let mut maturin = wheels.python();
    maturin.args(["-m", "maturin", "build", "--quiet", "--compatibility", "linux", "--profile", "dev"]);
    maturin.arg("--manifest-path").arg(root().join("bindings/python/native/Cargo.toml")).arg("--out").arg(&built);
    check(&mut maturin)?;
    let wheel = std::fs::read_dir(&built)?.flatten().next().context("maturin made no wheel")?.path();
    let mut pip = wheels.python();
    pip.args(["-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--disable-pip-version-check"]);
    check(pip.arg("--target").arg(&installed).arg(wheel))?;
    Ok(installed)
}

/// Headers, the udev rule, licences and the page that says what to do with it all.
fn texts(folder: &Path) -> Result<()> {
    for header in ["c7x_compute_client.h", "c7x_runtime.h", "c7x_dlpack.h"] {
        copy(&root().join("bindings/c/include").join(header), &folder.join("include").join(header))?;
    }
    for licence in ["LICENSE-APACHE", "LICENSE-MIT"] {
        copy(&root().join(licence), &folder.join(licence))?;
    }
    copy(&root().join("xtask/data/board.md"), &folder.join("README.md"))?;
    let rule = folder.join("udev/70-outboard.rules");
    make_parent(&rule)?;
    std::fs::write(rule, UDEV_RULE)?;
    Ok(())
}

fn make_parent(path: &Path) -> Result<()> {
    let parent = path.parent().unwrap_or(path);
    std::fs::create_dir_all(parent).with_context(|| format!("cannot create {}", parent.display()))
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    make_parent(to)?;
    std::fs::copy(from, to).with_context(|| format!("cannot copy {}", from.display()))?;
    Ok(())
}

/// Packs the folder: the same contents make the same bytes.
fn pack(scratch: &Path, name: &str, archive: &Path) -> Result<()> {
    let mut tar = Command::new("tar");
    tar.current_dir(scratch).args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mtime=@0"]);
    check(tar.arg("-czf").arg(archive).arg(name))
}

/// Unpacks the archive elsewhere and looks at every file: that it is there, for the right processor, and runs.
fn look(archive: &Path, name: &str) -> Result<()> {
    let unpacked = scratch("dist-check")?;
    std::fs::remove_dir_all(&unpacked)?;
    std::fs::create_dir_all(&unpacked)?;
    check(Command::new("tar").arg("-xzf").arg(archive).arg("-C").arg(&unpacked))?;
    let folder = unpacked.join(name);
    for (_, place) in BINARIES {
        let path = folder.join(place);
        let head = std::fs::read(&path).with_context(|| format!("the archive has no {place}"))?;
        ensure!(processor(&head) == Some(EM_AARCH64), "{place} is not for AArch64");
    }
    for text in
        ["README.md", "LICENSE-MIT", "include/c7x_compute_client.h", "include/c7x_runtime.h", "udev/70-outboard.rules"]
    {
        let read = std::fs::read(folder.join(text)).with_context(|| format!("the archive has no {text}"))?;
        ensure!(!read.is_empty(), "{text} is empty");
    }
    let mode = std::fs::metadata(folder.join("bin/outboard"))?.permissions().mode();
    ensure!(mode & 0o111 != 0, "bin/outboard cannot be executed");
    let version = run_there(&folder.join("bin/outboard")).arg("--version").output()?;
    let said = String::from_utf8_lossy(&version.stdout).into_owned();
    ensure!(said.trim() == format!("outboard {VERSION}"), "bin/outboard --version says `{}`", said.trim());
    let linked = Command::new("readelf").arg("-d").arg(folder.join("lib/libc7x_arm_runtime.so")).output()?;
    let linked = String::from_utf8_lossy(&linked.stdout).into_owned();
    ensure!(linked.contains("libc7x_arm_runtime.so.1"), "the C library has lost its name");
    look_at_wheel(&folder.join("python"))?;
    say(format_args!("{} files, all as they should be", count(&folder)?));
    Ok(())
}

/// The machine in an ELF header.
fn processor(file: &[u8]) -> Option<u16> {
    let is_elf = file.starts_with(b"\x7fELF");
    is_elf.then(|| file.get(18..20)?.try_into().ok().map(u16::from_le_bytes))?
}

/// The wheel holds the package, its extension module for the right processor, and nothing that was lying about.
fn look_at_wheel(folder: &Path) -> Result<()> {
    let mut found = std::fs::read_dir(folder)?.filter_map(|entry| Some(entry.ok()?.path()));
    let wheel = found.next().context("the archive has no wheel")?;
    ensure!(found.next().is_none(), "the archive has more than one wheel");
    let name = wheel.file_name().unwrap_or_default().to_string_lossy().into_owned();
    ensure!(name.ends_with("-cp310-abi3-linux_aarch64.whl"), "the wheel is called {name}");
    let path = wheel.display().to_string();
    let listed = output("python3", &["-m", "zipfile", "-l", &path]).context("the wheel cannot be listed")?;
    for file in [
        "outboard/_native.abi3.so",
        "outboard/__init__.py",
        "outboard/errors.py",
        "outboard/c7x.py",
        "outboard/py.typed",
    ] {
        ensure!(listed.contains(file), "the wheel has no {file}");
    }
    ensure!(listed.contains("outboard/build/data/entry.c"), "the wheel has lost the data of the builder");
    let unpacked = folder.join("unpacked");
    let place = unpacked.display().to_string();
    output("python3", &["-m", "zipfile", "-e", &path, &place]).context("the wheel cannot be unpacked")?;
    let extension = std::fs::read(unpacked.join("outboard/_native.abi3.so"))?;
    if processor(&extension) != Some(EM_AARCH64) {
        bail!("the extension module in the wheel is not for AArch64");
    }
    Ok(())
}

fn count(folder: &Path) -> Result<usize> {
    let mut files = 0;
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        files += if path.is_dir() { count(&path)? } else { 1 };
    }
    Ok(files)
}
