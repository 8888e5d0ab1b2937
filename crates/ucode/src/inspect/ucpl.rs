//! The report of a prelinked image.

use outboard_link::pi::{UcplError, UcplImage};

use super::sha256;

/// A prelinked image.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct UcplReport {
    /// Bytes of the staged image.
    pub size: u64,
    /// Hash of the file.
    pub sha256: String,
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
    /// Hash of the code.
    pub code_sha256: String,
    /// Hash of the data.
    pub data_sha256: String,
}

impl UcplReport {
    pub(super) fn of(bytes: &[u8]) -> Result<Self, UcplError> {
        let image = UcplImage::parse(bytes)?;
        let header = image.header;
        Ok(Self {
            size: header.staged_size(),
            sha256: sha256(bytes),
            code_seg_len: header.code_len,
            data_seg_off: header.data_offset,
            data_seg_len: header.data_len,
            init: header.init,
            fini: header.fini,
            start_sym: header.start,
            code_sha256: sha256(image.code),
            data_sha256: sha256(image.data),
        })
    }
}
