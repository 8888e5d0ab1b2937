//! Writes the members of a container into a directory, and nothing outside of it.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use crate::{MemberKind, Neff, NeffError};

/// What was unpacked.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Unpacked {
    /// Files written, relative to the directory.
    pub files: Vec<String>,
    /// Members left out: no reader needs them.
    pub left_out: Vec<String>,
}

/// Unpacks into `directory`, which is created. Existing files are never overwritten or followed.
///
/// Members of kinds that no reader needs are left out unless `all` is set.
///
/// # Errors
///
/// As [`Neff::list`], and what the file system says. The names of all members are checked before the first is written.
pub fn unpack(neff: &Neff<'_>, directory: &Path, all: bool) -> Result<Unpacked, NeffError> {
    neff.list()?;
    let io = |path: &Path| {
        let path = path.display().to_string();
        move |error| NeffError::Io { path, error }
    };
    fs::create_dir_all(directory).map_err(io(directory))?;
    let mut unpacked = Unpacked::default();
    neff.stream(|member, contents| {
        if !all && matches!(member.kind, MemberKind::Other | MemberKind::Skipped) {
            unpacked.left_out.push(member.name.clone());
            return Ok(());
        }
        let path: PathBuf = directory.join(&member.name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(io(parent))?;
        }
        let mut file = OpenOptions::new().write(true).create_new(true).open(&path).map_err(io(&path))?;
        contents(&mut |chunk| file.write_all(chunk).map_err(io(&path)))?;
        unpacked.files.push(member.name.clone());
        Ok(())
    })?;
    Ok(unpacked)
}
