//! `outboard status`, `trace` and `top`: what a standing device is doing, seen from outside.

use super::device_args::DeviceArgs;
use crate::report::{self, Failure};
use outboard_host::{DeviceRow, list_devices, read_trace};
use serde_json::{Value, json};
use std::io::IsTerminal;
use std::path::Path;
use std::time::Duration;

/// Show a device's version, uptime and job counters.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  outboard status --device sim:/tmp/dsp
  outboard status --json")]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    device: DeviceArgs,

    /// Deadline, in seconds, of the answer.
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = super::seconds)]
    timeout: Duration,

    /// Print JSON on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn status(args: &StatusArgs) -> Result<(), Failure> {
    let mut session = args.device.open(args.timeout)?;
    let status = session.status()?;
    let device = session.device().to_owned();
    session.close()?;
    let uptime = u64::try_from(status.uptime.as_millis()).unwrap_or(u64::MAX);
    if args.json {
        return report::result(&json!({
            "status": "ok",
            "device": device,
            "version": status.version.to_string(),
            "uptime_ms": uptime,
            "jobs_completed": status.jobs_completed,
            "jobs_failed": status.jobs_failed,
        }));
    }
    report::print(&format!(
        "device:         {device}\nversion:        {}\nuptime:         {:.3} s\njobs completed: {}\njobs failed:    {}\n",
        status.version,
        status.uptime.as_secs_f64(),
        status.jobs_completed,
        status.jobs_failed
    ))
}

/// Print the trace of a standing device's processes.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  outboard trace --device sim:/tmp/dsp
  outboard trace --device sim:/tmp/dsp --follow")]
pub(crate) struct TraceArgs {
    #[command(flatten)]
    device: DeviceArgs,

    /// One device process only.
    #[arg(long, value_name = "PID")]
    process: Option<u32>,

    /// Go on until interrupted.
    #[arg(long)]
    follow: bool,
}

/// Pause between two looks at a trace, as the original's tool makes it.
const TRACE_PAUSE: Duration = Duration::from_millis(500);

pub(crate) fn trace(args: &TraceArgs) -> Result<(), Failure> {
    let socket = args.device.socket()?;
    let mut seen: Vec<(u32, u64)> = Vec::new();
    loop {
        for row in list_devices(socket)?.iter().filter(|row| args.process.is_none_or(|wanted| wanted == row.process)) {
            let known = seen.iter().position(|(process, _)| *process == row.process);
            let from = known.map_or(0, |index| seen[index].1);
            let (text, next) = read_trace(socket, row.process, from)?;
            match known {
                Some(index) => seen[index].1 = next,
                None => seen.push((row.process, next)),
            }
            let lines: String = text.lines().map(|line| format!("{} {line}\n", row.process)).collect();
            report::print(&lines)?;
        }
        if !args.follow {
            return Ok(());
        }
        std::thread::sleep(TRACE_PAUSE);
    }
}

/// Show the device processes of a standing device and what they do.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  outboard top --device sim:/tmp/dsp            refreshes every second until interrupted
  outboard top --device sim:/tmp/dsp --json     once, for programs")]
pub(crate) struct TopArgs {
    #[command(flatten)]
    device: DeviceArgs,

    /// Print once; the default when standard output is no terminal.
    #[arg(long)]
    once: bool,

    /// Print JSON on standard output, once.
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn top(args: &TopArgs) -> Result<(), Failure> {
    let socket = args.device.socket()?;
    if args.json {
        let rows: Vec<Value> = list_devices(socket)?.iter().map(row_json).collect();
        return report::result(&json!({"status": "ok", "devices": rows}));
    }
    if args.once || !std::io::stdout().is_terminal() {
        return report::print(&table(&list_devices(socket)?, &[]));
    }
    refresh(socket)
}

fn refresh(socket: &Path) -> Result<(), Failure> {
    let mut before = Vec::new();
    loop {
        let rows = list_devices(socket)?;
        // Home, clear to the end: the table replaces itself.
        report::print(&format!("\x1b[H\x1b[J{}", table(&rows, &before)))?;
        before = rows;
        std::thread::sleep(Duration::from_secs(1));
    }
}

fn row_json(row: &DeviceRow) -> Value {
    json!({
        "process": row.process,
        "client": row.client,
        "state": row.state,
        "uptime_ms": row.uptime_ms,
        "jobs_completed": row.jobs_completed,
        "jobs_failed": row.jobs_failed,
        "modules": row.modules,
        "main_free": row.free.0,
        "fast_free": row.free.1,
        "busy_ns": row.busy_ns,
    })
}

/// The table; load is the share of the second since `before`.
fn table(rows: &[DeviceRow], before: &[DeviceRow]) -> String {
    let mut text = format!(
        "{:>8} {:>8} {:<9} {:>10} {:>8} {:>7} {:>8} {:>10} {:>9} {:>6}\n",
        "PROCESS", "CLIENT", "STATE", "UPTIME s", "OK", "FAILED", "MODULES", "MAIN KiB", "FAST KiB", "LOAD %"
    );
    for row in rows {
        let earlier = before.iter().find(|other| other.process == row.process);
        let load = earlier.map_or_else(
            || "-".to_owned(),
            |earlier| format!("{}", row.busy_ns.saturating_sub(earlier.busy_ns) / 10_000_000),
        );
        text += &format!(
            "{:>8} {:>8} {:<9} {:>10.1} {:>8} {:>7} {:>8} {:>10} {:>9} {load:>6}\n",
            row.process,
            row.client,
            row.state,
            Duration::from_millis(row.uptime_ms).as_secs_f64(),
            row.jobs_completed,
            row.jobs_failed,
            row.modules,
            row.free.0 / 1024,
            row.free.1 / 1024
        );
    }
    text
}
