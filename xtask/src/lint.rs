//! `cargo xtask lint`: formatting, lints and types of the Python sources, as `.ci/run` wants them.

use crate::run::{check, result};
use crate::setup::{self, Consent};
use anyhow::Result;

/// Runs ruff and mypy over the Python package and its tests.
///
/// # Errors
/// Set-up fails, or a source is not as it should be; what is wrong has been printed by then.
pub fn run(consent: &Consent) -> Result<()> {
    let (lint, models) = setup::for_lint(consent)?;
    let folder = crate::run::root().join("bindings/python");
    for arguments in [&["ruff", "format", "--check", "."][..], &["ruff", "check", "."]] {
        check(lint.python().current_dir(&folder).arg("-m").args(arguments))?;
    }
    // Types come from the packages that the code uses, which are in the other environment.
    let mut mypy = lint.python();
    mypy.current_dir(&folder).args(["-m", "mypy", "outboard", "--python-executable"]).arg(models.interpreter());
    check(&mut mypy)?;
    result("lint: ok");
    Ok(())
}
