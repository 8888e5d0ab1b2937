//! `outboard completions SHELL`: a completion script.

use crate::report::{self, Failure};
use clap::CommandFactory;

/// Print a completion script for a shell.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  outboard completions bash > ~/.local/share/bash-completion/completions/outboard
  outboard completions zsh > ~/.zfunc/_outboard")]
pub(crate) struct Args {
    /// The shell.
    shell: clap_complete::Shell,
}

pub(crate) fn execute(args: &Args) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut crate::Cli::command(), "outboard", &mut script);
    report::print(&String::from_utf8_lossy(&script))
}
