//! `outboard op`: GPSIMD custom operations: built from sources, run on the simulated pool.

mod build;
mod neff;
mod run;
mod show;

use crate::commands::read_file;
use crate::report::Failure;
use clap::Subcommand;
use outboard_gpsimd::{Arg, Error};
use outboard_tensor::Tensor;
use std::path::Path;

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

/// Dimensions of a tensor.
#[derive(Debug, Clone)]
struct Dims(Vec<usize>);

fn dims(text: &str) -> Result<Dims, String> {
    let dim = |part: &str| part.parse().map_err(|_| format!("`{part}` is no dimension; write them as 4x32"));
    text.split(['x', ',']).map(dim).collect::<Result<_, _>>().map(Dims)
}

/// A number, or the tensor in a .npy file.
fn argument(text: &str) -> Result<Arg, Failure> {
    if let Ok(value) = text.parse::<i64>() {
        return Ok(Arg::Int(value));
    }
    if let Ok(value) = text.parse::<f64>() {
        return Ok(Arg::Float(value));
    }
    let path = Path::new(text);
    let tensor = Tensor::from_npy(&read_file(path)?).map_err(|error| Failure::bad_file(path, &error))?;
    Ok(Arg::Tensor(tensor))
}
