//! `outboard bench call` and `bench load`: what a call costs beyond the module's own work, and a load beyond a copy of its bytes,
//! everything measured in one run.

use super::device_args::DeviceArgs;
use super::{inputs, micros};
use crate::progress::Spinner;
use crate::report::{self, Failure};
use clap::ArgMatches;
use outboard_host::{
    Deadlines, Device as DeviceOwned, Error, Input, InputBuffer, Module, RunOptions, Session, SessionOptions,
    SimOptions, simulated,
};
use outboard_tensor::Tensor;
use serde_json::{Value, json};
use std::time::Duration;

/// Measure what calls cost.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  outboard bench call lib0.out --input x.npy
  outboard bench load lib0.out")]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    Call(Box<Call>),
    Load(Load),
}

/// Measure a load, cold and warm, beside a copy of the same bytes.
///
/// The cold load is the first of a session: its memory is touched for the first time. The warm ones follow, each after an unload.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Example:
  outboard bench load lib0.out --count 50 --json

Times of a debug build say nothing: build with --release.")]
struct Load {
    /// The module.
    #[arg(value_name = "MODULE")]
    module: std::path::PathBuf,

    /// Warm loads.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    count: u32,

    /// Print JSON on standard output.
    #[arg(long)]
    json: bool,
}

/// Measure the round trip of a call beside the module's own time and a PING.
///
/// Three things are timed in turns: a PING, which is the way there and back and nothing else; a call whose inputs already lie in the
/// input window; and a call whose inputs are copied there. The device measures the module's entry itself. The difference between the
/// round trip and the entry is what a call costs.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  outboard bench call lib0.out --input x.npy
  outboard bench call lib0.out --input x.npy --count 10000 --json
  outboard bench call lib0.out --input x.npy --device rpmsg

Times of a debug build say nothing: build with --release.")]
struct Call {
    #[command(flatten)]
    call: inputs::CallArgs,

    #[command(flatten)]
    device: DeviceArgs,

    /// Calls of each kind; a tenth more go before, to warm up.
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = clap::value_parser!(u32).range(10..=1_000_000))]
    count: u32,

    /// Print JSON on standard output.
    #[arg(long)]
    json: bool,
}

impl Args {
    pub(crate) fn wants_json(&self) -> bool {
        match &self.what {
            What::Call(call) => call.json,
            What::Load(load) => load.json,
        }
    }
}

pub(crate) fn execute(args: &Args, matches: Option<&ArgMatches>) -> Result<(), Failure> {
    match &args.what {
        What::Call(call) => bench_call(call, matches),
        What::Load(load) => bench_load(load),
    }
}

fn bench_load(args: &Load) -> Result<(), Failure> {
    let file = super::read_file(&args.module)?;
    let name = args.module.display().to_string();
    let options = SessionOptions { deadlines: Deadlines::all(Duration::from_secs(60)) };
    let mut session = Session::open(simulated(SimOptions::default())?, options)?;
    let mut times = Vec::new();
    let mut copies = Vec::new();
    let mut room = vec![0; file.len()];
    for _ in 0..=args.count {
        let start = std::time::Instant::now();
        let module = session.load(&file, &name)?;
        times.push(start.elapsed());
        session.unload(module)?;
        let start = std::time::Instant::now();
        room.copy_from_slice(std::hint::black_box(&file));
        std::hint::black_box(&mut room);
        copies.push(start.elapsed());
    }
    session.close()?;
    let cold = Row::of("cold", "first load of a session", times.drain(..1).collect());
    let rows =
        [cold, Row::of("warm", "load after an unload", times), Row::of("copy", "copy of the file's bytes", copies)];
    say_rows(&rows);
    if args.json {
        report::result(&json!({
            "status": "ok", "device": "sim", "module": name, "bytes": file.len(), "count": args.count, "times": rows_json(&rows),
        }))?;
    }
    Ok(())
}

fn bench_call(call: &Call, matches: Option<&ArgMatches>) -> Result<(), Failure> {
    let given = inputs::read(&call.call.inputs, matches.and_then(|matches| matches.subcommand_matches("call")))?;
    let mut session = call.device.open(Duration::from_secs(60))?;
    let module = call.call.load(&mut session)?;
    let tensors = inputs::tensors(given, module.manifest())?;
    let spinner = Spinner::start(format!("measuring {} calls", call.count));
    let measured = measure(&mut session, &module, &tensors, call.count);
    drop(spinner);
    let measured = measured?;
    say_rows(&measured);
    if call.json {
        let rows = rows_json(&measured);
        report::result(&json!({
            "status": "ok", "device": session.device(), "module": module.name(), "count": call.count, "times": rows,
        }))?;
    }
    session.unload(module)?;
    Ok(session.close()?)
}

fn say_rows(rows: &[Row]) {
    for row in rows {
        report::say(&format!("{:<34} p50 {:>9.2} us   p99 {:>9.2} us", row.what, micros(row.p50), micros(row.p99)));
    }
}

fn rows_json(rows: &[Row]) -> serde_json::Map<String, Value> {
    let row = |row: &Row| (row.key.to_owned(), json!({"p50_us": micros(row.p50), "p99_us": micros(row.p99)}));
    rows.iter().map(row).collect()
}

/// One line of the result.
struct Row {
    key: &'static str,
    what: &'static str,
    p50: Duration,
    p99: Duration,
}

impl Row {
    fn of(key: &'static str, what: &'static str, mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        let at = |percent: usize| times.get(times.len() * percent / 100).copied().unwrap_or_default();
        Self { key, what, p50: at(50), p99: at(99) }
    }
}

fn measure(session: &mut Session, module: &Module, tensors: &[Tensor], count: u32) -> Result<Vec<Row>, Error> {
    let copied: Vec<Input<'_>> = tensors.iter().map(Input::from).collect();
    // The first call makes the windows as large as they will be; buffers made after it stay where they are.
    session.run(module, &copied)?;
    let total: u64 = tensors.iter().map(|tensor| tensor.bytes().len().next_multiple_of(64) as u64).sum();
    session.reserve_io(2 * (total + 64) + module.input_data_offset().max(tensors.len() as u64 * 128), 0)?;
    let buffers = tensors.iter().map(|tensor| stage(session, module, tensor)).collect::<Result<Vec<_>, _>>()?;
    let staged: Vec<Input<'_>> = buffers.iter().map(Input::from).collect();

    let warm_up = count / 10;
    let (mut ping, mut entry, mut in_place, mut overhead, mut copying) =
        <(Vec<_>, Vec<_>, Vec<_>, Vec<_>, Vec<_>)>::default();
    for round in 0..count + warm_up {
        let pong = session.ping()?;
        let outputs = session.run(module, &staged)?;
        // The clock of the simulated device runs at 1 GHz: a cycle is a nanosecond.
        let (there_and_back, own) = (outputs.round_trip(), Duration::from_nanos(outputs.cycles()));
        let start = std::time::Instant::now();
        session.run_with(module, &copied, &RunOptions::default())?;
        let whole = start.elapsed();
        if round >= warm_up {
            ping.push(pong.round_trip);
            entry.push(own);
            in_place.push(there_and_back);
            overhead.push(there_and_back.saturating_sub(own));
            copying.push(whole);
        }
    }
    Ok(vec![
        Row::of("ping", "PING round trip", ping),
        Row::of("entry", "entry, timed by the device", entry),
        Row::of("infer", "INFER round trip, inputs in place", in_place),
        Row::of("overhead", "INFER round trip less the entry", overhead),
        Row::of("call", "whole call, inputs copied", copying),
    ])
}

fn stage(session: &mut Session, module: &Module, tensor: &Tensor) -> Result<InputBuffer<DeviceOwned>, Error> {
    let buffer = session.input(module, tensor.dtype(), tensor.shape().clone())?;
    session.input_bytes_mut(&buffer)?.copy_from_slice(tensor.bytes());
    session.hand_over(buffer)
}
