//! One file per command; none has logic of its own beyond its arguments and its output.

mod bench;
mod completions;
mod device;
mod devices;
mod explain;
mod inputs;
mod run;

use crate::report::Failure;
use clap::{ArgMatches, Subcommand};
use std::time::Duration;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(run::Args),
    Bench(bench::Args),
    Devices(devices::Args),
    Explain(explain::Args),
    Completions(completions::Args),
    Device(device::Args),
}

impl Command {
    /// Whether the result, and an error, go to standard output as JSON.
    pub(crate) fn wants_json(&self) -> bool {
        match self {
            Self::Run(args) => args.json,
            Self::Bench(args) => args.wants_json(),
            Self::Devices(args) => args.json,
            Self::Explain(_) | Self::Completions(_) | Self::Device(_) => false,
        }
    }
}

/// Carries out a command. `matches` is what the arguments were read from; some commands care about their order.
pub(crate) fn execute(command: Command, matches: &ArgMatches) -> Result<(), Failure> {
    match command {
        Command::Run(args) => run::execute(&args, matches.subcommand_matches("run")),
        Command::Bench(args) => bench::execute(&args, matches.subcommand_matches("bench")),
        Command::Devices(args) => devices::execute(&args),
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
