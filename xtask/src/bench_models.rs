//! `cargo xtask bench-models`: the speed of generated code, measured by `python -m outboard.bench`.

use crate::run::check;
use crate::setup::{self, Consent};
use anyhow::Result;

/// Which networks, and how often.
#[derive(clap::Args)]
pub struct Arguments {
    /// This network; may be repeated (resnet18, mobilenet_v2, transformer, resnet18_int8, mobilenet_v2_int8)
    #[arg(long, value_name = "NAME")]
    network: Vec<String>,
    /// Rounds in which all take turns
    #[arg(long, value_name = "N", default_value_t = 5)]
    rounds: usize,
    /// Leave TVM's virtual machine out, which is slow to build
    #[arg(long)]
    no_vm: bool,
    /// Time tuned code as well, with this tuning cache
    #[arg(long, value_name = "FILE")]
    tune: Option<std::path::PathBuf>,
    /// Print a line of JSON for each network
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    consent: Consent,
}

/// Measures, and prints the table.
///
/// # Errors
/// Set-up fails, a network cannot be built, or its answers are not onnxruntime's.
pub fn run(arguments: &Arguments) -> Result<()> {
    let python = setup::for_models(&arguments.consent)?;
    let mut command = python.python();
    command.args(["-m", "outboard.bench", "--rounds", &arguments.rounds.to_string()]);
    for name in &arguments.network {
        command.arg("--network").arg(name);
    }
    if let Some(cache) = &arguments.tune {
        command.arg("--tune").arg(cache);
    }
    for (flag, given) in [("--no-vm", arguments.no_vm), ("--json", arguments.json)] {
        if given {
            command.arg(flag);
        }
    }
    check(&mut command)
}
