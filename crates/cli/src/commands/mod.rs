//! One file per command; none has logic of its own beyond its arguments and its output.

mod bench;
mod board;
mod board_env;
mod carve;
mod check;
mod completions;
mod device;
mod device_args;
mod devices;
mod doctor;
mod explain;
mod exports;
mod inputs;
mod inspect;
mod link;
mod neff;
mod op;
mod ping;
mod prelink;
mod resident;
mod run;
mod steps;
mod watch;
mod weights;
mod xtensa;

use crate::report::Failure;
use clap::{ArgMatches, Subcommand};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(run::Args),
    Load(steps::LoadArgs),
    Infer(steps::InferArgs),
    Unload(steps::UnloadArgs),
    Inspect(inspect::Args),
    Check(check::Args),
    Weights(weights::Args),
    Exports(exports::Args),
    Prelink(prelink::Args),
    Carve(carve::Args),
    Resident(resident::Args),
    Neff(neff::Args),
    Link(link::Args),
    Op(op::Args),
    Bench(bench::Args),
    Disasm(xtensa::DisasmArgs),
    Asm(xtensa::AsmArgs),
    Xt(xtensa::XtArgs),
    Devices(devices::Args),
    Doctor(doctor::Args),
    Board(board::Args),
    BoardEnv(board_env::Args),
    Ping(ping::Args),
    Status(watch::StatusArgs),
    Top(watch::TopArgs),
    Trace(watch::TraceArgs),
    Explain(explain::Args),
    Completions(completions::Args),
    Device(device::Args),
}

impl Command {
    /// Whether the result, and an error, go to standard output as JSON.
    pub(crate) fn wants_json(&self) -> bool {
        match self {
            Self::Run(args) => args.result.json,
            Self::Load(args) => args.json,
            Self::Infer(args) => args.wants_json(),
            Self::Unload(args) => args.json,
            Self::Ping(args) => args.json,
            Self::Status(args) => args.json,
            Self::Top(args) => args.json,
            Self::Inspect(args) => args.json,
            Self::Check(args) => args.json,
            Self::Weights(args) => args.json,
            Self::Exports(args) => args.json,
            Self::Prelink(args) => args.json,
            Self::Carve(args) => args.json,
            Self::Resident(args) => args.json,
            Self::Neff(args) => args.wants_json(),
            Self::Link(args) => args.json,
            Self::Op(args) => args.wants_json(),
            Self::Bench(args) => args.wants_json(),
            Self::Disasm(args) => args.json,
            Self::Devices(args) => args.json,
            Self::Doctor(args) => args.json,
            Self::Board(args) => args.wants_json(),
            Self::BoardEnv(_) => false,
            Self::Asm(_) | Self::Xt(_) | Self::Explain(_) | Self::Completions(_) | Self::Device(_) | Self::Trace(_) => {
                false
            }
        }
    }
}

/// Carries out a command. `matches` is what the arguments were read from; some commands care about their order.
pub(crate) fn execute(command: Command, matches: &ArgMatches) -> Result<(), Failure> {
    match command {
        Command::Run(args) => run::execute(&args, matches.subcommand_matches("run")),
        Command::Load(args) => steps::load(&args),
        Command::Infer(args) => steps::infer(&args, matches.subcommand_matches("infer")),
        Command::Unload(args) => steps::unload(&args),
        Command::Ping(args) => ping::execute(&args),
        Command::Status(args) => watch::status(&args),
        Command::Top(args) => watch::top(&args),
        Command::Trace(args) => watch::trace(&args),
        Command::Inspect(args) => inspect::execute(&args),
        Command::Check(args) => check::execute(&args),
        Command::Weights(args) => weights::execute(&args),
        Command::Exports(args) => exports::execute(&args),
        Command::Prelink(args) => prelink::execute(&args),
        Command::Carve(args) => carve::execute(&args),
        Command::Resident(args) => resident::execute(&args),
        Command::Neff(args) => neff::execute(&args),
        Command::Link(args) => link::execute(&args),
        Command::Op(args) => op::execute(&args),
        Command::Bench(args) => bench::execute(&args, matches.subcommand_matches("bench")),
        Command::Disasm(args) => xtensa::disasm(&args),
        Command::Asm(args) => xtensa::asm(&args),
        Command::Xt(args) => xtensa::xt(&args),
        Command::Devices(args) => devices::execute(&args),
        Command::Doctor(args) => doctor::execute(&args),
        Command::Board(args) => board::execute(&args),
        Command::BoardEnv(args) => board_env::execute(&args),
        Command::Explain(args) => explain::execute(&args),
        Command::Completions(args) => completions::execute(&args),
        Command::Device(args) => device::execute(&args),
    }
}

/// A deadline in seconds, as an argument.
fn seconds(text: &str) -> Result<Duration, String> {
    let limit: f64 = text.parse().map_err(|_| "not a number of seconds".to_owned())?;
    let limit = Duration::try_from_secs_f64(limit).ok().filter(|limit| !limit.is_zero());
    limit.ok_or_else(|| "not a positive number of seconds".to_owned())
}

/// A time in microseconds, for results.
fn micros(duration: Duration) -> f64 {
    // Nanoseconds are what the clock has; more digits would be noise.
    (duration.as_secs_f64() * 1e9).round() / 1e3
}

/// An address, decimal or with 0x, as an argument.
fn address(text: &str) -> Result<u64, String> {
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let number = digits.map_or_else(|| text.parse().ok(), |digits| u64::from_str_radix(digits, 16).ok());
    number.ok_or_else(|| "not an address, e.g. 0xC0000000".to_owned())
}

/// The bytes of a file.
fn read_file(path: &Path) -> Result<Vec<u8>, Failure> {
    std::fs::read(path).map_err(|error| Failure::unreadable(path, &error))
}

/// A result that is written beside its destination and gets its name when it is complete.
struct Staged {
    path: PathBuf,
    file: tempfile::NamedTempFile,
}

impl Staged {
    fn create(path: &Path) -> Result<Self, Failure> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        // The umask applies, as for any file that a program makes.
        let file = tempfile::Builder::new()
            .prefix(".outboard-")
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(folder)
            .map_err(|error| Failure::unwritable(path, &error))?;
        Ok(Self { path: path.to_owned(), file })
    }

    fn file(&mut self) -> &mut std::fs::File {
        self.file.as_file_mut()
    }

    fn finish(self) -> Result<(), Failure> {
        self.file.persist(&self.path).map(drop).map_err(|error| Failure::unwritable(&self.path, &error.error))
    }
}
