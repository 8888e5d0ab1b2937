//! `cargo xtask onnx`: the ONNX project's node tests on the simulated C7x, held against the committed list.

use crate::run::{build_outboard, check, root};
use crate::setup::{self, Consent};
use anyhow::Result;
use std::path::PathBuf;

/// Cases that every change runs, see `bindings/python/tests/test_conformance.py`.
const SAMPLE: usize = 60;

/// Which cases, and what comes of them.
#[derive(clap::Args)]
pub struct Arguments {
    /// Every case
    #[arg(long, conflicts_with_all = ["sample", "case"])]
    all: bool,
    /// N cases spread evenly, the same every time (60 unless told)
    #[arg(long, value_name = "N", conflicts_with = "case")]
    sample: Option<usize>,
    /// This case; may be repeated
    #[arg(long, value_name = "NAME")]
    case: Vec<String>,
    /// Cases at a time
    #[arg(long, value_name = "N", default_value_t = 2)]
    jobs: usize,
    /// Print JSON: a line for each case, then one with the counts
    #[arg(long)]
    json: bool,
    /// Write docs/onnx.md and the list of cases that do not pass from this run
    #[arg(long, requires = "all")]
    write: bool,
    #[command(flatten)]
    consent: Consent,
}

/// Builds, runs and compares the cases.
///
/// # Errors
/// Set-up fails, or a case is worse than the committed list says.
pub fn run(arguments: &Arguments) -> Result<()> {
    let python = setup::for_models(&arguments.consent)?;
    let outboard = build_outboard(true)?;
    let mut command = python.python();
    command.args(["-m", "outboard.conformance", "--jobs", &arguments.jobs.to_string()]);
    command.arg("--outboard").arg(outboard);
    command.arg("--expected").arg(list()).arg("--table").arg(root().join("docs/onnx.md"));
    if arguments.all {
        command.arg("--all");
    } else if arguments.case.is_empty() {
        command.arg("--sample").arg(arguments.sample.unwrap_or(SAMPLE).to_string());
    }
    for name in &arguments.case {
        command.arg("--case").arg(name);
    }
    for (flag, given) in [("--json", arguments.json), ("--write", arguments.write)] {
        if given {
            command.arg(flag);
        }
    }
    check(&mut command)
}

/// Every case that does not pass, with its reason.
fn list() -> PathBuf {
    root().join("bindings/python/conformance-expected.txt")
}
