//! `outboard run MODULE`: load a module, call it once, keep its outputs.

mod outputs;

use super::inputs;
use crate::progress::Spinner;
use crate::report::{self, Failure};
use clap::ArgMatches;
use outboard_host::{Input, Module, Outputs, RunOptions, Session};
use serde_json::json;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Load a module, run it, keep its outputs.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Inputs are given in the order of the module's parameters, or by name when the module carries names:
  outboard run lib0.out --input x.npy --input mask.npy --output y.npy
  outboard run lib0.out --input mask=mask.npy --input x=x.npy --output y.npy

A raw file holds elements and nothing else. Its shape and element type follow it, unless the
module declares them:
  outboard run lib0.out --input x.bin --shape 1,3,224,224 --dtype float32 --output y.bin

One --output takes all outputs of a module: with two outputs, y.npy becomes y.0.npy and y.1.npy.
Files ending in .bin are written raw. What the module prints appears on standard error. The device
is the simulated one, and the output says so. For programs, with the cycles of a warm run:
  outboard run lib0.out --input x.npy --repeat 1000 --json")]
pub(crate) struct Args {
    #[command(flatten)]
    call: inputs::CallArgs,

    #[command(flatten)]
    device: super::device_args::DeviceArgs,

    #[command(flatten)]
    pub(super) result: CallResult,

    /// Deadline, in seconds, of the start, of the load and of the run.
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = super::seconds)]
    timeout: Duration,
}

/// How often a module runs, and where its outputs go.
#[derive(Debug, clap::Args)]
pub(super) struct CallResult {
    /// Where an output goes: .npy, or raw when it ends in .bin.
    #[arg(long, short, value_name = "FILE")]
    output: Vec<PathBuf>,

    /// Run the module this often in one call; the cycles are those of a warm run.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    pub(super) repeat: u16,

    /// Print JSON on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn execute(args: &Args, matches: Option<&ArgMatches>) -> Result<(), Failure> {
    let given = inputs::read(&args.call.inputs, matches)?;
    let mut session = args.device.open(args.timeout)?;
    let loading = Instant::now();
    let module = args.call.load(&mut session)?;
    let load_time = loading.elapsed();

    let tensors = inputs::tensors(given, module.manifest())?;
    outputs::check_count(&args.result.output, module.manifest().map(|manifest| manifest.outputs.len()))?;
    let inputs: Vec<Input<'_>> = tensors.iter().map(Input::from).collect();
    let options = RunOptions::repeat(args.result.repeat);
    call(&mut session, &module, &inputs, &options, &args.result, Some(load_time))?;
    session.unload(module)?;
    Ok(session.close()?)
}

/// Calls a module, shows what it printed and hands its outputs over.
pub(super) fn call(
    session: &mut Session,
    module: &Module,
    inputs: &[Input<'_>],
    options: &RunOptions,
    result: &CallResult,
    load_time: Option<Duration>,
) -> Result<(), Failure> {
    let device = session.device().to_owned();
    let spinner = Spinner::start(format!("running {}", module.name()));
    let outcome = session.run_with(module, inputs, options);
    drop(spinner);
    let ran = outcome.map(|outputs| {
        show_text(outputs.text());
        finish(result, &device, &outputs, load_time)
    });
    match ran {
        Ok(finished) => finished,
        Err(error) => {
            show_text(session.module_text());
            Err(error.into())
        }
    }
}

/// What the module printed belongs on standard error, byte for byte.
fn show_text(text: &outboard_host::ModuleText) {
    let mut bytes = text.bytes().to_vec();
    if bytes.last().is_some_and(|byte| *byte != b'\n') {
        bytes.push(b'\n');
    }
    report::to_stderr(bytes);
    if text.dropped() > 0 {
        report::say(&format!("warning: {} more bytes of module output did not fit its buffer", text.dropped()));
    }
}

fn finish(args: &CallResult, device: &str, ran: &Outputs<'_>, load_time: Option<Duration>) -> Result<(), Failure> {
    let files = outputs::write(&args.output, ran)?;
    say_summary(args, device, ran, &files);
    if !args.json {
        return Ok(());
    }
    let described: Vec<_> = ran
        .views()
        .enumerate()
        .map(|(index, view)| {
            let (code, bits) = view.dtype().dlpack();
            let mut output = json!({
                "index": index,
                "ndim": view.shape().ndim(),
                "dtype_code": code,
                "dtype_bits": bits,
                "data_size": view.bytes().len(),
                "shape": view.shape().dims(),
                "dtype": view.dtype().name(),
            });
            if let Some(file) = files.get(index) {
                output["file"] = json!(file.display().to_string());
            }
            output
        })
        .collect();
    report::result(&json!({
        "status": "ok",
        "cycles": ran.cycles(),
        "num_outputs": ran.len(),
        "outputs": described,
        "device": device,
        "cycles_are": "monotonic time of this machine at the clock of the target",
        "repeat": args.repeat,
        "timing": {
            "load_us": load_time.map(super::micros),
            "round_trip_us": super::micros(ran.round_trip()),
        },
    }))
}

fn say_summary(args: &CallResult, device: &str, ran: &Outputs<'_>, files: &[PathBuf]) {
    let times = if args.repeat > 1 { format!(" (run {} times)", args.repeat) } else { String::new() };
    report::say(&format!(
        "ran on the simulated device ({device}): {} cycles{times}, round trip {:.1} us, {} output(s)",
        ran.cycles(),
        super::micros(ran.round_trip()),
        ran.len()
    ));
    for (index, view) in ran.views().enumerate() {
        let values = outputs::preview(&view);
        let file = files.get(index).map(|file| format!(" -> {}", file.display())).unwrap_or_default();
        report::say(&format!("  output {index}: {} ({}){values}{file}", view.dtype(), view.shape()));
    }
}
