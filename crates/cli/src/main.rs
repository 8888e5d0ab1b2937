//! The `outboard` program: load, run and inspect code for DSP accelerators.
//!
//! Standard output is the result and nothing else; everything for a person goes to standard error. Exit codes: 0 ok, 1 the request
//! is wrong, 2 the device failed, 3 the file was judged bad, 4 a deadline passed.
#![forbid(unsafe_code)]

mod commands;
mod logging;
mod progress;
mod report;

use clap::{CommandFactory, FromArgMatches, Parser};
use commands::Command;
use std::process::ExitCode;

/// Load, run and inspect code for DSP accelerators.
///
/// Without a board, the device is simulated: a process of its own that maps the board's memory at the board's addresses and runs
/// modules built for this machine's CPU.
#[derive(Debug, Parser)]
#[command(name = "outboard", version, about, long_about, after_help = EXAMPLES, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  outboard run lib0.out --input x.npy --output y.npy     run a module, keep its output
  outboard inspect lib0.out                              what is in a module
  outboard explain OB0302                                what an error code means

Exit codes:
  0 ok, 1 wrong request, 2 device failed, 3 file judged bad, 4 deadline passed

OUTBOARD_LOG=debug shows what happens; OUTBOARD_LOG=outboard_host=trace only the messages.";

fn main() -> ExitCode {
    logging::start();
    let matches = match Cli::command().try_get_matches() {
        Ok(matches) => matches,
        Err(error) => return report::usage(&error),
    };
    let command = match Cli::from_arg_matches(&matches) {
        Ok(cli) => cli.command,
        Err(error) => return report::usage(&error),
    };
    let json = command.wants_json();
    match commands::execute(command, &matches) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => report::failure(&failure, json),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_of_the_arguments_is_sound() {
        Cli::command().debug_assert();
    }
}
