//! `outboard doctor`: is everything there that a session needs?

use super::device_args::DeviceArgs;
use crate::report::{self, Failure};
use outboard_host::{
    Deadlines, Error, RpmsgError, RpmsgOptions, Session, SessionOptions, SimOptions, Transport, rpmsg, simulated,
};
use outboard_wire::SharedMap;
use serde_json::json;
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Check that devices can be used, and say what is missing.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  outboard doctor
  outboard doctor --device rpmsg --board beagley-ai
  outboard doctor --json

The simulated device is always checked; the DSP of this board when the kernel shows one or --device rpmsg asks for it. The exit
status is 2 when a check fails. Nothing is changed: an endpoint and two buffers are made and given back.")]
pub(crate) struct Args {
    #[command(flatten)]
    device: DeviceArgs,

    /// Deadline, in seconds, of each wait.
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = super::seconds)]
    timeout: Duration,

    /// Print JSON on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

/// What a check found: a line when it passed, the error when not.
struct Check {
    name: &'static str,
    found: Result<String, Failure>,
}

pub(crate) fn execute(args: &Args) -> Result<(), Failure> {
    let mut checks = vec![Check { name: "simulated device", found: simulated_device(args.timeout) }];
    let board = args.device.this_board();
    if args.device.rpmsg().is_some() || board.processor().is_ok() {
        checks.extend(check_board(&board, args.timeout));
    }
    print(&checks, args.json)?;
    if checks.iter().all(|check| check.found.is_ok()) { Ok(()) } else { Err(Failure::ended(2)) }
}

fn print(checks: &[Check], as_json: bool) -> Result<(), Failure> {
    if as_json {
        let failed = checks.iter().any(|check| check.found.is_err());
        let rows: Vec<_> = checks
            .iter()
            .map(|check| match &check.found {
                Ok(detail) => json!({"check": check.name, "passed": true, "detail": detail}),
                Err(failure) => json!({"check": check.name, "passed": false, "failure": failure.json()}),
            })
            .collect();
        return report::result(&json!({"status": if failed { "failed" } else { "ok" }, "checks": rows}));
    }
    let rows = checks.iter().map(|check| match &check.found {
        Ok(detail) => format!("PASSED {:<18} {detail}\n", check.name),
        Err(failure) => format!("FAILED {:<18} {}\n", check.name, failure.line()),
    });
    report::print(&rows.collect::<String>())
}

fn simulated_device(limit: Duration) -> Result<String, Failure> {
    let options = SessionOptions { deadlines: Deadlines::all(limit) };
    let mut session = Session::open(simulated(SimOptions::default())?, options)?;
    let version = session.ping()?.version;
    session.close()?;
    Ok(format!("starts and speaks protocol {version}"))
}

/// The checks of a board, from the kernel upwards. Those behind a failure are made all the same: each has its own cause.
fn check_board(board: &RpmsgOptions, limit: Duration) -> Vec<Check> {
    vec![
        Check { name: "remote processor", found: processor(board) },
        Check { name: "control device", found: control(board) },
        Check { name: "nodes", found: nodes(board) },
        Check { name: "permissions", found: permissions(board) },
        Check { name: "carveout", found: carveout(board) },
        Check { name: "firmware", found: firmware(board, limit) },
    ]
}

fn failure(error: RpmsgError) -> Failure {
    Error::from(error).into()
}

fn processor(board: &RpmsgOptions) -> Result<String, Failure> {
    let processor = board.processor().map_err(failure)?;
    if processor.is_running() {
        return Ok(format!("{} is {} and runs {}", processor.name, board.address, processor.firmware));
    }
    let reason = format!("{} is `{}`, not running", processor.name, processor.state);
    Err(failure(RpmsgError::Processor { address: board.address.clone(), reason }))
}

fn control(board: &RpmsgOptions) -> Result<String, Failure> {
    let controls = board.controls();
    let shown: Vec<String> = controls.iter().map(|node| node.display().to_string()).collect();
    if shown.is_empty() {
        let reason = "its firmware has announced no RPMsg service".to_owned();
        return Err(failure(RpmsgError::Processor { address: board.address.clone(), reason }));
    }
    Ok(shown.join(", "))
}

/// The nodes a session opens, and whether it writes to them.
fn needed(board: &RpmsgOptions) -> Vec<(PathBuf, bool)> {
    let mut nodes = vec![(board.heap_node(), false)];
    nodes.extend(board.processor().ok().map(|processor| (board.node(&processor.name), false)));
    nodes.extend(board.controls().into_iter().map(|control| (control, true)));
    nodes
}

fn nodes(board: &RpmsgOptions) -> Result<String, Failure> {
    let nodes = needed(board);
    for (node, _) in &nodes {
        std::fs::metadata(node).map_err(|source| failure(RpmsgError::Node { path: node.clone(), source }))?;
    }
    Ok(nodes.iter().map(|(node, _)| node.display().to_string()).collect::<Vec<_>>().join(", "))
}

fn permissions(board: &RpmsgOptions) -> Result<String, Failure> {
    let refused = |path: &Path, source| failure(RpmsgError::Permission { path: path.to_owned(), source });
    let nodes = needed(board);
    for (node, write) in &nodes {
        match OpenOptions::new().read(true).write(*write).open(node) {
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => return Err(refused(node, error)),
            // Whatever else is wrong with a node is another check's.
            _ => {}
        }
    }
    Ok(format!("{} nodes can be opened by this user", nodes.len()))
}

/// Whether the carveout has its 512 MiB, at the place the board has it.
fn carveout(board: &RpmsgOptions) -> Result<String, Failure> {
    let mut transport = rpmsg(board.clone())?;
    let (low, high) = (SharedMap::STAGING.size + SharedMap::KV.size, SharedMap::DYNAMIC.size);
    let staging = transport.allocate(low)?;
    let (expected, got) = (SharedMap::STAGING.base, staging.window().base);
    let rest = transport.allocate(high);
    transport.release(staging);
    transport.release(rest?);
    if got != expected {
        return Err(Error::Placement { expected, got }.into());
    }
    Ok(format!("{} MiB at physical {:#x}", (low + high) >> 20, board.carveout))
}

fn firmware(board: &RpmsgOptions, limit: Duration) -> Result<String, Failure> {
    let mut session = Session::open(rpmsg(board.clone())?, SessionOptions { deadlines: Deadlines::all(limit) })?;
    let pong = session.ping()?;
    session.close()?;
    Ok(format!("speaks protocol {}, up {:.1} s", pong.version, pong.uptime.as_secs_f64()))
}
