//! `c7x_compute`: one file for the arguments, one for tensors, one for each kind of command.

mod args;
mod calls;
mod device;
mod server;
mod tensors;
mod trace;

use args::{Options, Parsed};
use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

/// How a command ends: well, or with a failure that has been reported.
type Outcome = Result<(), Failed>;

/// A command failed and has said so.
#[derive(Debug)]
struct Failed;

/// Carries out a command line.
pub(crate) fn run(arguments: Vec<OsString>) -> ExitCode {
    let options = match args::parse(arguments) {
        Ok(Parsed::Command(options)) => options,
        Ok(Parsed::Help) => {
            print(args::USAGE);
            return ExitCode::SUCCESS;
        }
        Err(problem) => {
            complain(&format!("{problem}{}", args::USAGE));
            return ExitCode::FAILURE;
        }
    };
    match execute(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failed) => ExitCode::FAILURE,
    }
}

fn execute(options: &Options) -> Outcome {
    match options.command.as_str() {
        "ping" => device::ping(),
        "status" => device::status(),
        "model-load" => device::model_load(options),
        "model-unload" => device::model_unload(options),
        "load" => device::load(options),
        "unload" => device::unload(options),
        "infer" => calls::infer(options),
        "run" => calls::run(options, 0),
        "profile" => calls::run(options, 2),
        "session-run" => server::run(options),
        "trace" => trace::run(),
        "help" => {
            print(args::USAGE);
            Ok(())
        }
        other => {
            complain(&format!("Unknown command: {other}\n{}", args::USAGE));
            Err(Failed)
        }
    }
}

/// Writes text to standard output. Whoever has closed the pipe wants no more.
fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Writes text for people.
fn complain(text: &str) {
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}

/// Reports a failure on standard error.
fn fail(text: &str) -> Failed {
    complain(&format!("{text}\n"));
    Failed
}
