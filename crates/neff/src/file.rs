//! What any file of the device is: its first bytes decide, and its name where they cannot.

use std::fmt;

use outboard_ucode::inspect::{self as images, InspectError, Report};

use crate::{HEADER_SIZE, NeffError, NeffPart, NeffReport, inspect, inspect_part};

/// The report of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(untagged))]
pub enum DeviceFile {
    /// An image, a library, an object, an archive or a prelinked image.
    Image(Report),
    /// A container.
    Container(NeffReport),
    /// What is usually inside of a container.
    Part(NeffPart),
}

/// Why a file that was recognised cannot be reported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// An image.
    #[error(transparent)]
    Image(#[from] InspectError),
    /// A container or a part of one.
    #[error(transparent)]
    Neff(#[from] NeffError),
}

impl FileError {
    /// The page that `outboard explain` prints.
    #[must_use]
    pub const fn explain(&self) -> &'static str {
        match self {
            Self::Image(error) => error.explain(),
            Self::Neff(error) => error.explain(),
        }
    }
}

/// Whether the file is a container: it has the header's size where a container has it, or its name ends with `.neff`.
/// Containers have no magic.
#[must_use]
pub fn is_container(name: &str, bytes: &[u8]) -> bool {
    let size = bytes.get(8..16).and_then(<[u8]>::first_chunk).map(|size| u64::from_le_bytes(*size));
    name.ends_with(".neff") || (bytes.len() > HEADER_SIZE && size == Some(HEADER_SIZE as u64))
}

/// Inspects a file of any kind that this device has; `Ok(None)` when it is none of them.
///
/// ```
/// use outboard_neff::{DeviceFile, inspect_file};
/// use outboard_ucode::twins;
///
/// let image = inspect_file("x", &twins::image("cayman_0").unwrap()).unwrap();
/// assert!(matches!(image, Some(DeviceFile::Image(_))));
/// let stream = inspect_file("sg00/pool.bin", &[0; 64]).unwrap();
/// assert!(matches!(stream, Some(DeviceFile::Part(_))));
/// assert!(inspect_file("notes.txt", b"hello").unwrap().is_none());
/// ```
///
/// # Errors
///
/// When the file is one of them and wrong.
pub fn inspect_file(name: &str, bytes: &[u8]) -> Result<Option<DeviceFile>, FileError> {
    if images::recognises(bytes) {
        return Ok(Some(DeviceFile::Image(images::inspect(bytes)?)));
    }
    if bytes.starts_with(b"\x7fELF") {
        return Ok(None);
    }
    if is_container(name, bytes) {
        return Ok(Some(DeviceFile::Container(inspect(bytes)?)));
    }
    Ok(inspect_part(name, bytes)?.map(DeviceFile::Part))
}

impl fmt::Display for DeviceFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Image(report) => report.fmt(f),
            Self::Container(report) => report.fmt(f),
            Self::Part(part) => part.fmt(f),
        }
    }
}
