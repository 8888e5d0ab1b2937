//! `cargo xtask device`: builds the programs for Xtensa devices and says where they are.

use crate::run::{cargo, check};
use crate::setup;
use anyhow::Result;

/// Builds all programs.
///
/// # Errors
/// A tool is missing and may not be installed, or something does not build.
pub fn run(consent: &setup::Consent) -> Result<()> {
    setup::for_device_code(consent)?;
    check(cargo().args(["run", "--quiet", "--package", "outboard-device-programs"]))
}
