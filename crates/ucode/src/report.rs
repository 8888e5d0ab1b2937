//! What `outboard prelink` prints about an image, as data.

use std::collections::BTreeMap;
use std::fmt;

use outboard_link::pi::{PrelinkError, Prelinked, UcplHeader};

use crate::inspect::sha256;

/// The result of prelinking one image.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct PrelinkReport {
    /// `ok` or `error`.
    pub status: &'static str,
    /// The original's status number; from 100 on ours.
    pub code: u32,
    /// Its name.
    pub name: &'static str,
    /// What happened, for a person.
    pub message: String,
    /// Page that `outboard explain` prints; absent on success.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub explain: Option<&'static str>,
    /// The header of the staged image.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub ucpl: Option<UcplFields>,
    /// Hash of the staged image.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub sha256: Option<String>,
    /// Bytes of the staged image.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub staged_size: Option<u64>,
    /// Relocations by the name of their type.
    pub relocations: BTreeMap<&'static str, u32>,
    /// What deserves attention.
    pub warnings: Vec<String>,
}

/// The fields of the header, by the names of the original.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct UcplFields {
    /// Bytes of code.
    pub code_seg_len: u32,
    /// Offset of the data.
    pub data_seg_off: u32,
    /// Bytes of data.
    pub data_seg_len: u32,
    /// Device address of the initialisation function.
    pub init: u32,
    /// Device address of the termination function.
    pub fini: u32,
    /// Device address of the entry point.
    pub start_sym: u32,
}

impl From<UcplHeader> for UcplFields {
    fn from(header: UcplHeader) -> Self {
        let UcplHeader { code_len, data_offset, data_len, init, fini, start } = header;
        Self { code_seg_len: code_len, data_seg_off: data_offset, data_seg_len: data_len, init, fini, start_sym: start }
    }
}

impl PrelinkReport {
    /// Of a prelinked image.
    #[must_use]
    pub fn ok(image: &Prelinked) -> Self {
        let mut warnings: Vec<String> = image.warnings.iter().map(ToString::to_string).collect();
        if image.more_warnings > 0 {
            warnings.push(format!("{} more", image.more_warnings));
        }
        Self {
            status: "ok",
            code: 0,
            name: "XTLIB_NO_ERR",
            message: format!("prelinked: {:#x} bytes to stage", image.staged_size()),
            explain: None,
            ucpl: Some(image.header.into()),
            sha256: Some(sha256(&image.image())),
            staged_size: Some(image.staged_size()),
            relocations: image.counts.iter().collect(),
            warnings,
        }
    }

    /// Of a refused one.
    #[must_use]
    pub fn error(error: &PrelinkError) -> Self {
        Self {
            status: "error",
            code: error.code(),
            name: error.name(),
            message: error.to_string(),
            explain: Some(error.explain()),
            ucpl: None,
            sha256: None,
            staged_size: None,
            relocations: BTreeMap::new(),
            warnings: Vec::new(),
        }
    }
}

impl fmt::Display for PrelinkReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { code, name, message, .. } = self;
        writeln!(f, "{name} ({code}): {message}")?;
        if let Some(UcplFields { code_seg_len, data_seg_off, data_seg_len, init, fini, start_sym }) = self.ucpl {
            writeln!(f, "  code {code_seg_len:#x} bytes, data {data_seg_len:#x} bytes at {data_seg_off:#x}")?;
            writeln!(f, "  init {init:#x}, fini {fini:#x}, start {start_sym:#x}")?;
        }
        if let Some(sha256) = &self.sha256 {
            writeln!(f, "  sha256 {sha256}")?;
        }
        for (name, count) in &self.relocations {
            writeln!(f, "  {count:>6} {name}")?;
        }
        self.warnings.iter().try_for_each(|warning| writeln!(f, "warning: {warning}"))
    }
}
