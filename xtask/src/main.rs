//! Outboard's own commands: `cargo xtask demo`, `cargo xtask test` and what they need.
//!
//! Every command sets up what it needs first: it says what is missing, asks before it installs anything, and is quick when
//! there is nothing left to do.

mod bench_models;
mod cross;
mod demo;
mod device;
mod dist;
mod fuzz;
mod lint;
mod onnx;
mod ops;
mod python;
mod run;
mod setup;
mod test;
mod twins;

use clap::{Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Set up, demonstrate and test Outboard", max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Name the types of files with a pretrained network on the simulated C7x
    ///
    /// Sets up what is missing, compiles magika (a file-type network) to a device module, runs it on the simulated C7x over
    /// files of this clone, and compares every answer with onnxruntime. Ends with the line `demo: ok`.
    Demo {
        /// Files to look at besides the usual ones
        files: Vec<PathBuf>,
        /// Use neither Python nor the network: run a checked-in network, built by the C compiler alone
        #[arg(long)]
        offline: bool,
        #[command(flatten)]
        consent: setup::Consent,
    },
    /// Run every test: Rust, doc tests, Python, end to end
    Test {
        /// Also run the tests of the parsers and the loader under Miri (needs the nightly toolchain's component)
        #[arg(long)]
        miri: bool,
        #[command(flatten)]
        consent: setup::Consent,
    },
    /// Build the programs for Xtensa devices: in Rust, C, C++ and assembler
    ///
    /// Prints the path of every image; `outboard xt run` and `qemu-xtensa` run them.
    Device {
        #[command(flatten)]
        consent: setup::Consent,
    },
    /// Make the archive that a board needs: programs, libraries, headers, udev rule, Python wheel
    ///
    /// Builds for AArch64, packs `outboard-VERSION-aarch64.tar.gz`, then unpacks it elsewhere and looks at every file. Prints the path of
    /// the archive.
    Dist {
        /// Pack what a build for development makes: quicker to make, larger and slower
        #[arg(long)]
        quick: bool,
        #[command(flatten)]
        consent: setup::Consent,
    },
    /// Feed mutated inputs to every parser
    Fuzz {
        /// Seconds for each target
        #[arg(long, default_value_t = 60)]
        seconds: u64,
    },
    /// Check the Python sources: formatting, lints, types
    Lint {
        #[command(flatten)]
        consent: setup::Consent,
    },
    /// Run the ONNX project's node tests on the simulated C7x
    ///
    /// Builds every model of the sample (or all of them), calls it, compares, and holds the outcome against
    /// bindings/python/conformance-expected.txt. Ends with the counts: pass, unsupported_front_end, unsupported, wrong, crash.
    Onnx(onnx::Arguments),
    /// Write stand-ins of GPSIMD images into a folder
    ///
    /// The images of all five generations, the fixed-load libraries of the eight cores, the host library that carries sixteen images and
    /// the container with thirteen. They have every documented number of their originals and code of our own that runs.
    Twins {
        /// The folder, which is created
        folder: PathBuf,
    },
    /// Time generated code beside onnxruntime and TVM's virtual machine
    ///
    /// ResNet-18, MobileNetV2 and a transformer with random weights: CPU time of one thread, median of five rounds in which all take
    /// turns, and the seconds of each build. The figures are for docs/reference/models.md; nothing depends on them.
    BenchModels(bench_models::Arguments),
    /// Build the device code of GPSIMD custom operations: runtime archive, operations, resident libraries
    Ops(ops::Arguments),
    /// Install what the other commands need, and nothing else
    Setup {
        #[command(flatten)]
        consent: setup::Consent,
    },
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Demo { files, offline, consent } => demo::run(&files, offline, &consent),
        Command::Test { miri, consent } => test::run(miri, &consent),
        Command::Device { consent } => device::run(&consent),
        Command::Dist { quick, consent } => dist::run(quick, &consent).map(run::result_path),
        Command::Fuzz { seconds } => fuzz::run(seconds),
        Command::Lint { consent } => lint::run(&consent),
        Command::Onnx(arguments) => onnx::run(&arguments),
        Command::Twins { folder } => twins::run(&folder),
        Command::BenchModels(arguments) => bench_models::run(&arguments),
        Command::Ops(arguments) => ops::run(&arguments),
        Command::Setup { consent } => setup::everything(&consent),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            run::say(format_args!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}
