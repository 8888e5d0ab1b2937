//! `outboard op`: GPSIMD custom operations: built from sources, run on the simulated pool.

mod build;
mod run;
mod show;

use crate::report::Failure;
use clap::Subcommand;
use outboard_gpsimd::Error;

/// Build and run GPSIMD custom operations
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  outboard op build --schema 'my_ops::relu(Tensor x) -> (Tensor)' relu.cpp --multicore -o relu.so
  outboard op run relu_cpu{0..7}.so --op relu --arg x.npy -o y.npy")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Build(build::Args),
    Run(run::Args),
}

impl Args {
    pub(crate) fn wants_json(&self) -> bool {
        match &self.command {
            Command::Build(args) => args.json,
            Command::Run(args) => args.json,
        }
    }
}

pub(crate) fn execute(args: &Args) -> Result<(), Failure> {
    match &args.command {
        Command::Build(args) => build::execute(args),
        Command::Run(args) => run::execute(args),
    }
}

/// What a program may want to know about an error: the place of a fault.
fn failure(error: &Error) -> Failure {
    let kind = match error {
        Error::Device(_) => "device_fault",
        _ => "operation",
    };
    let failure = if error.is_device() {
        Failure::device(error.explain(), kind, error.to_string())
    } else {
        Failure::request_of(error.explain(), kind, error.to_string())
    };
    match error {
        Error::Device(fault) => show::fault(failure, fault),
        _ => failure,
    }
}
