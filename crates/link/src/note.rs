//! The notes that `outboard.build` writes into a host-CPU module: what it was built for, and its manifest.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use outboard_elf::{Elf, ElfError};

/// Owner of our notes.
pub const NOTE_OWNER: &str = "Outboard";
/// Type of the note that says what the module was built for.
pub const NOTE_BUILD: u32 = 1;
/// Type of the note that holds the manifest.
pub const NOTE_MANIFEST: u32 = 2;

/// What a module was built for and by whom.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModuleNote {
    /// Processor family, e.g. `x86-64`.
    pub arch: String,
    /// Processor features that the code uses, by the names of `is_x86_feature_detected!` and its siblings.
    pub features: Vec<String>,
    /// Program and version that built it.
    pub builder: String,
}

/// The build note of a module, `None` when it has none. Damaged notes count as none; [`crate::load`] refuses them.
#[must_use]
pub fn module_note(elf: &Elf<'_>) -> Option<ModuleNote> {
    read_module_note(elf).ok().flatten()
}

/// The JSON manifest of a module, `None` when it has none.
#[must_use]
pub fn manifest<'a>(elf: &Elf<'a>) -> Option<&'a str> {
    let desc = find(elf, NOTE_MANIFEST).ok().flatten()?;
    core::str::from_utf8(desc).ok().map(|text| text.trim_end_matches('\0'))
}

/// As [`module_note`], with the fault of a damaged note.
pub(crate) fn read_module_note(elf: &Elf<'_>) -> Result<Option<ModuleNote>, ElfError> {
    let Some(desc) = find(elf, NOTE_BUILD)? else { return Ok(None) };
    let text = core::str::from_utf8(desc).map_err(|error| ElfError::BadNote {
        offset: 0,
        problem: "the build note is not UTF-8 text",
        value: error.valid_up_to() as u64,
    })?;
    let mut note = ModuleNote::default();
    for line in text.trim_end_matches('\0').lines() {
        match line.split_once('=') {
            Some(("arch", value)) => note.arch = value.to_string(),
            Some(("builder", value)) => note.builder = value.to_string(),
            Some(("features", value)) => {
                note.features =
                    value.split(',').map(str::trim).filter(|name| !name.is_empty()).map(String::from).collect();
            }
            _ => {}
        }
    }
    Ok(Some(note))
}

fn find<'a>(elf: &Elf<'a>, kind: u32) -> Result<Option<&'a [u8]>, ElfError> {
    for note in elf.notes() {
        let note = note?;
        if note.owner == NOTE_OWNER.as_bytes() && note.kind == kind {
            return Ok(Some(note.desc));
        }
    }
    Ok(None)
}
