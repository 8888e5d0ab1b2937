//! `outboard board-env`: runs a program made for the board, unchanged, with the device nodes of a simulated one.

use super::device_args::board;
use crate::report::Failure;
use outboard_c7x::sim::{Board, BrokerError, BrokerOptions, run_broker};
use outboard_host::list_devices;
use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// The preload library, as it is named beside the program.
const LIBRARY: &str = "liboutboard_nodes.so";
/// Environment variable that names it.
const LIBRARY_VARIABLE: &str = "OUTBOARD_NODES_LIBRARY";
/// How long the device may take to come up before the program starts.
const BOOT: Duration = Duration::from_secs(10);

/// Run a program made for the board with the nodes of a simulated device.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  outboard board-env -- ./my_client lib0.out
  outboard board-env -- outboard ping --device rpmsg
  outboard board-env --incoherent -- ./my_client lib0.out
  outboard board-env --device sim:/tmp/dsp -- ls -l /dev/dma_heap /sys/class/rpmsg

The program finds /dev/rpmsg*, /dev/remoteproc*, /dev/dma_heap/* and their links in sysfs, served by a simulated device; everything
else is this machine's. The exit status is the program's, or 128 and the signal that ended it.")]
pub(crate) struct Args {
    /// The device behind the nodes: sim:PATH uses one started by `outboard device run --socket PATH`. Without it, one that models
    /// the board stands as long as the program runs.
    #[arg(long, value_name = "DEVICE", value_parser = standing)]
    device: Option<PathBuf>,

    /// The board to model: am67a-evm or beagley-ai.
    #[arg(long, value_name = "NAME", default_value = "am67a-evm", value_parser = board)]
    board: Board,

    /// Give the program caches that are not coherent: without DMA_BUF_IOCTL_SYNC, it and the device see stale bytes.
    #[arg(long)]
    incoherent: bool,

    /// The program and its arguments.
    #[arg(required = true, last = true, value_name = "PROGRAM")]
    program: Vec<OsString>,
}

/// The socket in `sim:PATH`.
fn standing(text: &str) -> Result<PathBuf, String> {
    let path = text.strip_prefix("sim:").filter(|path| !path.is_empty());
    path.map(PathBuf::from).ok_or_else(|| "only a standing device can be used: sim:PATH".to_owned())
}

pub(crate) fn execute(args: &Args) -> Result<(), Failure> {
    let (Some((program, arguments)), library) = (args.program.split_first(), find_library()?) else {
        return Err(Failure::usage("no program was named", "name one behind `--`"));
    };
    let unwritable = |error: std::io::Error| Failure::unwritable(&std::env::temp_dir(), &error);
    let folder = tempfile::Builder::new().prefix("outboard-board-").tempdir().map_err(unwritable)?;
    let socket = match &args.device {
        Some(socket) => std::path::absolute(socket).map_err(|error| Failure::unreadable(socket, &error))?,
        None => stand(folder.path().join("dsp"), &args.board)?,
    };
    let preload = match std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        Some(others) => [library.as_os_str(), &others].join(&OsString::from(":")),
        None => library.into_os_string(),
    };
    let carveout = args.board.carveout_physical().unwrap_or(0x9_0000_0000);
    let status = Command::new(program)
        .args(arguments)
        .env("LD_PRELOAD", preload)
        .env("OUTBOARD_NODES_DEVICE", socket)
        .env("OUTBOARD_NODES_ROOT", folder.path().join("nodes"))
        .env("OUTBOARD_NODES_CARVEOUT", format!("{carveout:#x}"))
        .env("OUTBOARD_NODES_INCOHERENT", if args.incoherent { "1" } else { "0" })
        .status()
        .map_err(|error| Failure::unreadable(Path::new(program), &error))?;
    let status = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    match u8::try_from(status).unwrap_or(u8::MAX) {
        0 => Ok(()),
        status => Err(Failure::ended(status)),
    }
}

/// A device of this command's own: it ends with this process.
fn stand(socket: PathBuf, board: &Board) -> Result<PathBuf, Failure> {
    let program = std::env::current_exe().map_err(|error| Failure::worker(&error))?;
    let options =
        BrokerOptions { socket: socket.clone(), program, shared: true, board: board.clone(), faults: String::new() };
    let (sender, receiver) = mpsc::channel::<Result<(), BrokerError>>();
    std::thread::spawn(move || {
        let ready = sender.clone();
        let ended = run_broker(options, |_| {
            let _ = ready.send(Ok(())); // nobody waits when the command has ended
        });
        let _ = sender.send(ended);
    });
    match receiver.recv() {
        Ok(Err(error)) => Err(Failure::standing(&error)),
        Ok(Ok(())) | Err(_) => {
            await_boot(&socket);
            Ok(socket)
        }
    }
}

/// Waits until the device process has come up: from then on it ends with this one. A device that takes longer is waited for by the
/// program's own calls.
fn await_boot(socket: &Path) {
    let until = Instant::now() + BOOT;
    while Instant::now() < until {
        match list_devices(socket) {
            Ok(rows) if rows.iter().all(|row| row.state == "booting") => std::thread::sleep(Duration::from_millis(1)),
            _ => return,
        }
    }
}

/// The preload library: the one that is named, or the one beside this program.
fn find_library() -> Result<PathBuf, Failure> {
    let help = "build it with `cargo build -p outboard-nodes`, or name it in OUTBOARD_NODES_LIBRARY";
    if let Some(named) = std::env::var_os(LIBRARY_VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from) {
        return std::path::absolute(&named).ok().filter(|path| path.is_file()).ok_or_else(|| {
            Failure::usage(format!("{LIBRARY_VARIABLE} names {}, which is no file", named.display()), help)
        });
    }
    let this = std::env::current_exe().map_err(|error| Failure::worker(&error))?;
    let folder = this.parent().unwrap_or(Path::new("/"));
    let places = ["", "../lib", "deps"].map(|place| folder.join(place).join(LIBRARY));
    places.iter().find(|path| path.is_file()).cloned().ok_or_else(|| {
        let looked: Vec<String> = places.iter().map(|path| path.display().to_string()).collect();
        Failure::usage(format!("the preload library is none of {}", looked.join(", ")), help)
    })
}
