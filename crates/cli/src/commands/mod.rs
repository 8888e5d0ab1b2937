//! One file per command; none has logic of its own beyond its arguments and its output.

mod completions;
mod device;
mod devices;
mod explain;
mod run;

use crate::report::Failure;
use clap::{ArgMatches, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(run::Args),
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
            Self::Devices(args) => args.json,
            Self::Explain(_) | Self::Completions(_) | Self::Device(_) => false,
        }
    }
}

/// Carries out a command. `matches` is what the arguments were read from; some commands care about their order.
pub(crate) fn execute(command: Command, matches: &ArgMatches) -> Result<(), Failure> {
    match command {
        Command::Run(args) => run::execute(&args, matches.subcommand_matches("run")),
        Command::Devices(args) => devices::execute(&args),
        Command::Explain(args) => explain::execute(&args),
        Command::Completions(args) => completions::execute(&args),
        Command::Device(args) => device::execute(&args),
    }
}
