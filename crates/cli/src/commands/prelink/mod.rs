//! `outboard prelink FILE`: make a file ready for a device on the host, and report every byte.

mod c7x;
mod gpsimd;

use super::read_file;
use crate::report::Failure;
use std::path::PathBuf;

/// Prepare a file for a device on the host, without a device.
///
/// A C7x module is loaded at given addresses as the original firmware does: copied segments go to the pool in header order and steps of
/// 128 bytes, read-only ones stay at staging address + file offset. The report has each segment's hash, every exported address and the
/// relocations by type.
///
/// A GPSIMD image (PI) is moved to the windows of a core as the original host library does, check by check, with its status numbers; the
/// result is the staged image (UCPL): a header, the code, the data. The exit code is 3 when the image is refused; nothing is written then.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  outboard prelink lib0.out --json
  outboard prelink lib0.out --pool 0x102000000 --staging 0xC0000000 --exports exports.json -o image.bin
  outboard prelink kernels.elf --target gpsimd --core-kind mariana -o kernels.ucpl --json

A file of exports is {\"NAME\": ADDRESS, ...} or {\"symbols\": [[NAME, ADDRESS], ...]}; addresses are numbers or text like
\"0xa2200000\".")]
pub(crate) struct Args {
    /// The module or image.
    file: PathBuf,

    /// The device it is for; without it, what the file says.
    #[arg(long, value_enum)]
    target: Option<TargetName>,

    /// Write what the device's memory gets: the pool of a C7x, the staged image of a GPSIMD core.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Print JSON on standard output.
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    c7x: c7x::C7xOptions,

    #[command(flatten)]
    gpsimd: gpsimd::GpsimdOptions,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum TargetName {
    /// The C7x of a TI AM67A / J722S.
    #[value(alias = "am67a")]
    C7x,
    /// A GPSIMD pool core of an AWS Neuron device.
    Gpsimd,
}

pub(crate) fn execute(args: &Args) -> Result<(), Failure> {
    let file = read_file(&args.file)?;
    let by_file = if outboard_ucode::inspect::recognises(&file) { TargetName::Gpsimd } else { TargetName::C7x };
    let (foreign, device) = match args.target.unwrap_or(by_file) {
        TargetName::C7x => (args.gpsimd.given(), "a C7x module"),
        TargetName::Gpsimd => (args.c7x.given(), "a GPSIMD image"),
    };
    if let Some(option) = foreign {
        return Err(Failure::usage(
            format!("{option} means nothing for {device}"),
            "leave it out, or name the other --target",
        ));
    }
    match args.target.unwrap_or(by_file) {
        TargetName::C7x => c7x::execute(args, &file),
        TargetName::Gpsimd => gpsimd::execute(args, &file),
    }
}
