//! `outboard device`: a simulated device that stands by itself, and the process that every simulated device is.

use crate::report::Failure;
use outboard_c7x::sim::{Board, BrokerOptions, Faults, run_broker, run_worker};
use outboard_wire::KvLayout;
use std::os::fd::AsFd;
use std::path::PathBuf;

/// Run a standing device, for several clients
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[group(skip)]
pub(crate) struct Args {
    #[command(subcommand)]
    role: Role,
}

#[derive(Debug, clap::Subcommand)]
enum Role {
    Run(Run),
    Worker(Worker),
}

/// Hand out sessions at a socket until it is ended
///
/// Every client gets a device process of its own, which ends with the client's connection. Commands use it with
/// `--device sim:PATH`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[group(skip)]
struct Run {
    /// Where clients connect
    #[arg(long, value_name = "PATH")]
    socket: PathBuf,
    /// Model the board: one device process that outlives its clients, one client at a time
    #[arg(long)]
    shared: bool,
    /// The board to model: am67a-evm or beagley-ai
    #[arg(long, value_name = "NAME", default_value = "am67a-evm", value_parser = super::device_args::board)]
    board: Board,
    /// Let things go wrong, e.g. drop=0.01,crash=7,seed=3
    #[arg(long, value_name = "SPEC")]
    inject: Option<String>,
}

const EXAMPLES: &str = "\
Examples:
  outboard device run --socket /tmp/dsp                          a device for several clients
  outboard device run --socket /tmp/dsp --shared                 one device process, as on the board
  outboard device run --socket /tmp/dsp --inject drop=0.01,seed=7

Faults: announce=lost|late:MS  drop=P  delay=P:MS  busy=P:MS  crash=N  crash-after=N  hang=N  oom=N  seed=N";

/// Serve one session: the control object is standard input, the carveout standard output. Started by sessions, not by people
#[derive(Debug, clap::Args)]
#[command(hide = true)]
#[group(skip)]
struct Worker {
    #[arg(long, value_name = "SPEC", default_value = "")]
    inject: String,
    #[arg(long)]
    kv_packed: bool,
}

pub(crate) fn execute(args: &Args) -> Result<(), Failure> {
    match &args.role {
        Role::Run(run) => stand(run),
        Role::Worker(worker) => serve(worker),
    }
}

fn faults(specification: &str) -> Result<Faults, Failure> {
    specification.parse().map_err(|error| Failure::usage(format!("--inject: {error}"), "separate faults with commas"))
}

fn stand(run: &Run) -> Result<(), Failure> {
    let specification = run.inject.clone().unwrap_or_default();
    faults(&specification)?;
    let program = std::env::current_exe().map_err(|error| Failure::worker(&error))?;
    let options = BrokerOptions {
        socket: run.socket.clone(),
        program,
        shared: run.shared,
        board: run.board.clone(),
        faults: specification,
    };
    run_broker(options, |socket| {
        crate::report::say(&format!("a simulated C7x stands at {}", socket.display()));
    })
    .map_err(|error| Failure::standing(&error))
}

fn serve(worker: &Worker) -> Result<(), Failure> {
    let faults = faults(&worker.inject)?;
    let kv = if worker.kv_packed { KvLayout::Packed } else { KvLayout::Fixed };
    let object = |fd: std::os::fd::BorrowedFd<'_>| fd.try_clone_to_owned().map_err(|error| Failure::worker(&error));
    let (stdin, stdout) = (std::io::stdin(), std::io::stdout());
    let (control, carveout) = (object(stdin.as_fd())?, object(stdout.as_fd())?);
    run_worker(control, carveout, faults, kv).map_err(|error| Failure::worker(&error))
}
