//! The `c7x_compute` program: the command line of the original, over any device.
//!
//! Commands, options, output and exit codes are those of the original (`docs/reference/c7x-compute.md`), so that scripts and programs
//! written for a board run unchanged; `OUTBOARD_DEVICE` names the device. Programs that are new should use `outboard`.
#![forbid(unsafe_code)]

#[path = "../compat/mod.rs"]
mod compat;
#[path = "../logging.rs"]
mod logging;

use std::process::ExitCode;

fn main() -> ExitCode {
    logging::start();
    compat::run(std::env::args_os().skip(1).collect())
}
