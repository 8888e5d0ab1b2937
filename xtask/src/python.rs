//! The Python environment: made once per set of requirements, kept in the user's cache.

use crate::run::{cargo, check, root, say, target};
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Files whose contents decide whether the environment of models and tests is up to date.
const REQUIREMENTS: [&str; 2] = ["bindings/python/requirements.txt", "bindings/python/requirements-test.txt"];
/// The same for the one that makes wheels.
const WHEELS: [&str; 1] = ["bindings/python/requirements-wheel.txt"];
/// The same for the one that checks the Python sources.
const LINT: [&str; 1] = ["bindings/python/requirements-lint.txt"];

/// A Python environment of its own.
pub struct Environment {
    folder: PathBuf,
    requirements: &'static [&'static str],
}

impl Environment {
    /// The environment with TVM, ONNX and onnxruntime for this clone's requirements, made when it is not there yet.
    ///
    /// # Errors
    /// Its packages may not or cannot be installed.
    pub fn ready(consent: impl FnOnce(&str) -> Result<bool>) -> Result<Self> {
        Self::with(&REQUIREMENTS, "python", consent)
    }

    /// The environment that makes wheels: maturin and nothing else.
    ///
    /// # Errors
    /// As for [`Environment::ready`].
    pub fn for_wheels(consent: impl FnOnce(&str) -> Result<bool>) -> Result<Self> {
        Self::with(&WHEELS, "wheels", consent)
    }

    /// The environment that checks the Python sources: ruff and mypy.
    ///
    /// # Errors
    /// As for [`Environment::ready`].
    pub fn for_lint(consent: impl FnOnce(&str) -> Result<bool>) -> Result<Self> {
        Self::with(&LINT, "lint", consent)
    }

    fn with(files: &'static [&'static str], name: &str, consent: impl FnOnce(&str) -> Result<bool>) -> Result<Self> {
        let (packages, key) = requirements(files)?;
        let folder = cache()?.join(format!("{name}-{key:016x}"));
        let environment = Self { folder, requirements: files };
        if environment.complete_mark().is_file() {
            return Ok(environment);
        }
        say("missing: the Python environment with these packages:");
        for package in &packages {
            say(format_args!("    {package}"));
        }
        if !consent(&format!("Install them from PyPI into {}", environment.folder.display()))? {
            bail!("not installed: the Python packages");
        }
        environment.make()?;
        Ok(environment)
    }

    /// Makes the environment afresh; the mark is written last, so that a broken one is never taken for complete.
    fn make(&self) -> Result<()> {
        if self.folder.exists() {
            std::fs::remove_dir_all(&self.folder)?;
        }
        check(Command::new("python3").args(["-m", "venv"]).arg(&self.folder))?;
        let mut install = self.python();
        install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
        for file in self.requirements {
            install.arg("-r").arg(root().join(file));
        }
        check(&mut install)?;
        std::fs::write(self.complete_mark(), "complete\n")?;
        Ok(())
    }

    fn complete_mark(&self) -> PathBuf {
        self.folder.join("outboard-complete")
    }

    /// Where the interpreter is.
    pub fn interpreter(&self) -> PathBuf {
        self.folder.join("bin/python")
    }

    /// The interpreter, with this clone's `outboard` package on its path.
    pub fn python(&self) -> Command {
        let mut python = Command::new(self.interpreter());
        python
            .current_dir(root())
            .env("PYTHONPATH", root().join("bindings/python"))
            .env("PYTHONDONTWRITEBYTECODE", "1");
        python
    }
}

/// Builds the extension module of this clone's `outboard` package and puts it into the package, where Python finds it.
///
/// # Errors
/// The build fails.
pub fn extension() -> Result<()> {
    check(cargo().args(["build", "--package", "outboard-python"]))?;
    let built = target().join("debug/lib_native.so");
    let place = root().join("bindings/python/outboard/_native.abi3.so");
    // Under another name first: a process that has the old one loaded keeps it.
    let fresh = place.with_extension("so.new");
    std::fs::copy(&built, &fresh).with_context(|| format!("cannot copy {}", built.display()))?;
    std::fs::rename(&fresh, &place).with_context(|| format!("cannot replace {}", place.display()))
}

/// The required packages, and a number that changes with them.
fn requirements(files: &[&str]) -> Result<(Vec<String>, u64)> {
    let mut packages = Vec::new();
    let mut key = 0xcbf2_9ce4_8422_2325u64;
    for file in files {
        let path = root().join(file);
        let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        for byte in text.bytes() {
            key = (key ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        let named = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with(['#', '-']));
        packages.extend(named.map(str::to_owned));
    }
    Ok((packages, key))
}

/// Where environments and downloaded models are kept.
///
/// # Errors
/// There is no home folder to keep them in.
pub fn cache() -> Result<PathBuf> {
    let named = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let folder = named("OUTBOARD_CACHE")
        .or_else(|| Some(named("XDG_CACHE_HOME")?.join("outboard")))
        .or_else(|| Some(named("HOME")?.join(".cache/outboard")))
        .context("set HOME, XDG_CACHE_HOME or OUTBOARD_CACHE: there is no folder for the Python environment")?;
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    Ok(folder)
}

/// A folder of the clone for what commands make, never tracked.
///
/// # Errors
/// It cannot be created.
pub fn scratch(name: &str) -> Result<PathBuf> {
    let folder = Path::new(&root()).join("target/xtask").join(name);
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    Ok(folder)
}
