//! Operations in Rust: one file, or the folder of a crate with dependencies of its own.

use std::fs;
use std::path::{Path, PathBuf};

use crate::OpError;

/// Where the operations are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RustSource {
    /// A file, with modules beside it.
    File(PathBuf),
    /// A library crate.
    Crate {
        /// Its folder.
        folder: PathBuf,
        /// Its name.
        package: String,
    },
}

impl RustSource {
    /// Looks at a source; a folder must be a crate that depends on `customop`, the one in `device`.
    pub(crate) fn of(source: &Path, device: &Path) -> Result<Self, OpError> {
        let unreadable = |path: &Path, error: String| OpError::File { path: path.to_owned(), error };
        let path = fs::canonicalize(source).map_err(|error| unreadable(source, error.to_string()))?;
        if !path.is_dir() {
            return Ok(Self::File(path));
        }
        let manifest = path.join("Cargo.toml");
        let text = fs::read_to_string(&manifest).map_err(|error| unreadable(&manifest, error.to_string()))?;
        let table: toml::Table =
            text.parse().map_err(|error: toml::de::Error| unreadable(&manifest, error.to_string()))?;
        let bad = |problem: String| OpError::Request(format!("{}: {problem}", manifest.display()));
        let package = table.get("package").and_then(|package| package.get("name")).and_then(toml::Value::as_str);
        let package = package.ok_or_else(|| bad("it has no package: name the folder of one crate".to_owned()))?;
        let customop = device.join("customop");
        let dependency = table.get("dependencies").and_then(|all| all.get("customop")).and_then(|one| one.get("path"));
        let named = dependency.and_then(toml::Value::as_str).map(|named| path.join(named));
        let same = named.is_some_and(|named| fs::canonicalize(named).ok() == fs::canonicalize(&customop).ok());
        if !same {
            let line = format!("customop = {{ path = {:?} }}", customop.to_string_lossy());
            return Err(bad(format!(
                "operations use the crate customop of this device code: add `{line}` to [dependencies]"
            )));
        }
        Ok(Self::Crate { folder: path, package: package.to_owned() })
    }

    /// The file or folder.
    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::File(path) | Self::Crate { folder: path, .. } => path,
        }
    }

    /// What brings the operations into the generated root, as `operations`.
    pub(crate) fn import(&self) -> String {
        match self {
            Self::File(path) => format!("#[path = {:?}]\nmod operations;", path.to_string_lossy()),
            Self::Crate { .. } => "extern crate operations;".to_owned(),
        }
    }

    /// The line of the generated manifest that this needs.
    pub(crate) fn dependency(&self) -> String {
        match self {
            Self::File(_) => String::new(),
            Self::Crate { folder, package } => {
                format!("operations = {{ path = {:?}, package = {package:?} }}\n", folder.to_string_lossy())
            }
        }
    }

    /// The profile of its own code, which the generated root's options do not reach. Its dependencies keep floats in software, as
    /// the core library has to: LLVM cannot select all of its code with hardware floats.
    pub(crate) fn profile(&self, option: &str) -> String {
        match self {
            Self::File(_) => String::new(),
            Self::Crate { package, .. } => {
                format!("[profile.release.package.{package:?}]\nrustflags = [{option:?}]\n\n")
            }
        }
    }
}
