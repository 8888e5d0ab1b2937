//! Kernel tables as files (TOML), for `outboard link --shape pi --kernels`. The keys are explained in
//! `docs/reference/gpsimd-link.md`.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use serde::Deserialize;

use crate::shape::Kernel;

/// A file that declares no kernels, or not so.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the kernel file cannot be read: {0}")]
pub struct KernelFileError(String);

impl KernelFileError {
    /// The page that `outboard explain` prints.
    #[must_use]
    pub const fn explain(&self) -> &'static str {
        "OB0660"
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(rename = "kernel")]
    kernels: Vec<FileKernel>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileKernel {
    opcode: u8,
    #[serde(default)]
    spec: u8,
    function: String,
}

/// Reads a file.
///
/// ```
/// let kernels = outboard_link::kernel_file::parse(r#"
///     [[kernel]]
///     opcode = 0xf0
///     spec = 2
///     function = "scale"
/// "#).unwrap();
/// assert_eq!((kernels[0].opcode, kernels[0].spec, kernels[0].function.as_str()), (0xf0, 2, "scale"));
/// ```
///
/// # Errors
///
/// [`KernelFileError`]: what is no TOML, lacks a key or has one that is not known.
pub fn parse(text: &str) -> Result<Vec<Kernel>, KernelFileError> {
    let file: File = toml::from_str(text).map_err(|error| KernelFileError(error.to_string()))?;
    let kernel = |FileKernel { opcode, spec, function }| Kernel { opcode, spec, function };
    Ok(file.kernels.into_iter().map(kernel).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_faulty_file_is_named_with_its_key() {
        let error = |text: &str| parse(text).unwrap_err().to_string();
        assert!(error("").contains("kernel"));
        assert!(error("[[kernel]]\nopcode = 1").contains("function"));
        assert!(error("[[kernel]]\nopcode = 256\nfunction = \"f\"").contains("u8"));
        assert!(error("[[kernel]]\nopcode = 1\nfunction = \"f\"\nname = 1").contains("name"));
    }
}
