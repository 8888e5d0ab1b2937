//! `outboard device worker`: this process becomes a simulated device. Started by sessions, not by people.

use crate::report::Failure;
use std::os::fd::AsFd;

/// Be a device.
#[derive(Debug, clap::Args)]
#[command(hide = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    role: Role,
}

#[derive(Debug, clap::Subcommand)]
enum Role {
    /// Serve one session: the control object is standard input, the carveout standard output.
    Worker,
}

pub(crate) fn execute(args: &Args) -> Result<(), Failure> {
    let Role::Worker = args.role;
    let object = |fd: std::os::fd::BorrowedFd<'_>| fd.try_clone_to_owned().map_err(|error| Failure::worker(&error));
    let (stdin, stdout) = (std::io::stdin(), std::io::stdout());
    let (control, carveout) = (object(stdin.as_fd())?, object(stdout.as_fd())?);
    outboard_c7x::sim::run_worker(control, carveout, outboard_c7x::sim::Faults::default())
        .map_err(|error| Failure::worker(&error))
}
