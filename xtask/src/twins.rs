//! `cargo xtask twins`: stand-ins of the GPSIMD images that cannot be shipped.

use crate::run::{cargo, check};
use anyhow::Result;
use std::path::Path;

/// Writes all twins into a folder.
///
/// # Errors
/// The build fails, or the folder cannot be written.
pub fn run(folder: &Path) -> Result<()> {
    let mut twins = cargo();
    twins.args(["run", "--quiet", "--package", "outboard-ucode", "--example", "twins", "--"]);
    check(twins.arg(std::path::absolute(folder)?))
}
