//! `outboard load`, `infer` and `unload`: the steps of a run one by one, on a device that keeps its modules.

use super::device_args::DeviceArgs;
use super::inputs;
use super::run::{self, CallResult};
use crate::report::{self, Failure};
use clap::ArgMatches;
use outboard_host::{Input, RunOptions};
use serde_json::json;
use std::path::PathBuf;
use std::time::Duration;

/// Load a module into a device that keeps it.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example, with a device that models the board:
  outboard device run --socket /tmp/dsp --shared &
  outboard load lib0.out --device sim:/tmp/dsp            prints the handle, here 1
  outboard infer 1 --device sim:/tmp/dsp --input x.npy --output y.npy
  outboard unload 1 --device sim:/tmp/dsp")]
pub(crate) struct LoadArgs {
    /// The module.
    #[arg(value_name = "MODULE")]
    module: PathBuf,

    #[command(flatten)]
    device: DeviceArgs,

    /// Deadline, in seconds.
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = super::seconds)]
    timeout: Duration,

    /// Print JSON on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn load(args: &LoadArgs) -> Result<(), Failure> {
    let mut session = args.device.open_lasting(args.timeout)?;
    let module = session.load_file(&args.module)?;
    for warning in module.warnings() {
        report::say(&format!("warning: {warning}"));
    }
    let handle = module.handle();
    session.close()?;
    if args.json {
        return report::result(&json!({"status": "ok", "handle": handle}));
    }
    report::print(&format!("{handle}\n"))
}

/// Run a module that was loaded before.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  outboard infer 1 --device sim:/tmp/dsp --input x.npy --output y.npy")]
pub(crate) struct InferArgs {
    /// Handle of the module, as `outboard load` printed it.
    #[arg(value_name = "HANDLE")]
    handle: u32,

    #[command(flatten)]
    device: DeviceArgs,

    #[command(flatten)]
    inputs: inputs::InputArgs,

    #[command(flatten)]
    result: CallResult,

    /// Deadline, in seconds.
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = super::seconds)]
    timeout: Duration,
}

impl InferArgs {
    pub(crate) fn wants_json(&self) -> bool {
        self.result.json
    }
}

pub(crate) fn infer(args: &InferArgs, matches: Option<&ArgMatches>) -> Result<(), Failure> {
    let given = inputs::read(&args.inputs, matches)?;
    let tensors = inputs::tensors(given, None)?;
    let mut session = args.device.open_lasting(args.timeout)?;
    let module = session.attach(args.handle);
    let inputs: Vec<Input<'_>> = tensors.iter().map(Input::from).collect();
    run::call(&mut session, &module, &inputs, &RunOptions::repeat(args.result.repeat), &args.result, None)?;
    Ok(session.close()?)
}

/// Take a module out of a device.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  outboard unload 1 --device sim:/tmp/dsp")]
pub(crate) struct UnloadArgs {
    /// Handle of the module, as `outboard load` printed it.
    #[arg(value_name = "HANDLE")]
    handle: u32,

    #[command(flatten)]
    device: DeviceArgs,

    /// Deadline, in seconds.
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = super::seconds)]
    timeout: Duration,

    /// Print JSON on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn unload(args: &UnloadArgs) -> Result<(), Failure> {
    let mut session = args.device.open_lasting(args.timeout)?;
    let module = session.attach(args.handle);
    session.unload(module)?;
    session.close()?;
    if args.json { report::result(&json!({"status": "ok"})) } else { Ok(()) }
}
