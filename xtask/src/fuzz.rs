//! `cargo xtask fuzz`: the deterministic fuzz runner, on the pinned toolchain.

use crate::run::{cargo, check, root};
use anyhow::Result;

/// Runs every fuzz target for some seconds.
///
/// # Errors
/// A target panics, hangs or allocates beyond its bound.
pub fn run(seconds: u64) -> Result<()> {
    let manifest = root().join("fuzz/Cargo.toml");
    let mut fuzz = cargo();
    fuzz.arg("run").arg("--release").arg("--quiet").arg("--manifest-path").arg(manifest);
    check(fuzz.args(["--", "--seconds", &seconds.to_string()]))
}
