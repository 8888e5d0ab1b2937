//! `outboard prelink FILE`: load a C7x module at given addresses, without a device, and report every byte.

use super::exports::offered;
use super::read_file;
use crate::report::{self, Failure};
use outboard_link::export_sets::ExportSets;
use outboard_link::prelink::{PrelinkReport, PrelinkRequest, Prelinked, prelink_c7x};
use outboard_link::target::{Region, Target};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Load a C7x module at given addresses, without a device.
///
/// Segments are placed as the original firmware does: copied ones go to the pool in header order and steps of 128 bytes, read-only ones
/// stay at staging address + file offset. The report has each segment's hash, every exported address and the relocations by type.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  outboard prelink lib0.out --json
  outboard prelink lib0.out --pool 0x102000000 --staging 0xC0000000 --exports exports.json -o image.bin

A file of exports is {\"NAME\": ADDRESS, ...} or {\"symbols\": [[NAME, ADDRESS], ...]}; addresses are numbers or text like
\"0xa2200000\".")]
pub(crate) struct Args {
    /// The module.
    file: PathBuf,

    /// The device it is for.
    #[arg(long, value_enum, default_value_t = TargetName::C7x)]
    target: TargetName,

    /// Device address of the pool that segments are copied to.
    #[arg(long, value_name = "ADDRESS", value_parser = super::address)]
    pool: Option<u64>,

    /// Device address at which the file lies.
    #[arg(long, value_name = "ADDRESS", value_parser = super::address)]
    staging: Option<u64>,

    /// What the device offers: the name of an export set, or a JSON file of symbols.
    #[arg(long, value_name = "SET|FILE")]
    exports: Option<String>,

    /// Device address of one segment, by its position, instead of the next address of the pool.
    #[arg(long, value_name = "N=ADDRESS", value_parser = base)]
    base: Vec<(usize, u64)>,

    /// Refuse branch targets whose low bits the instruction would drop.
    #[arg(long)]
    strict: bool,

    /// Write the memory image of the pool.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Print JSON on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum TargetName {
    /// The C7x of a TI AM67A / J722S.
    #[value(alias = "am67a")]
    C7x,
}

fn base(text: &str) -> Result<(usize, u64), String> {
    let (index, place) = text.split_once('=').ok_or("write it as 1=0x102000000")?;
    let index = index.parse().map_err(|_| format!("`{index}` is no position of a segment"))?;
    Ok((index, super::address(place)?))
}

pub(crate) fn execute(args: &Args) -> Result<(), Failure> {
    let file = read_file(&args.file)?;
    let TargetName::C7x = args.target;
    let target = Target::am67a();
    let exports = offered(args.exports.as_deref(), &file, &ExportSets::builtin())?;
    let name = args.file.file_name().unwrap_or(args.file.as_os_str()).to_string_lossy().into_owned();
    let mut request = PrelinkRequest::new(&file, &name, &exports, &target);
    request.strict = args.strict;
    request.bases = &args.base;
    let moved = |region: Region, address: Option<u64>| Region { address: address.unwrap_or(region.address), ..region };
    request.pool = moved(request.pool, args.pool);
    request.staging = moved(request.staging, args.staging);
    let prelinked = prelink_c7x(&request).map_err(|error| Failure::from(&error))?;
    if let Some(path) = &args.output {
        let start = write(path, &prelinked)?;
        report::say(&format!("wrote the image that starts at {start:#x} to {}", path.display()));
    }
    if args.json {
        report::result(&serde_json::to_value(&prelinked.report).map_err(|error| Failure::internal(&error))?)
    } else {
        report::print(&text(&prelinked.report))
    }
}

/// Writes the image beside its destination and gives it its name when it is complete.
fn write(path: &Path, prelinked: &Prelinked<'_>) -> Result<u64, Failure> {
    let mut staged = super::Staged::create(path)?;
    let mut failed = None;
    let start = prelinked.write_image(&mut |piece| {
        if failed.is_none() {
            failed = staged.file().write_all(piece).err();
        }
    });
    match failed {
        Some(error) => Err(Failure::unwritable(path, &error)),
        None => staged.finish().map(|()| start),
    }
}

/// The report as a person reads it.
fn text(report: &PrelinkReport) -> String {
    let mut page = String::new();
    for segment in &report.segments {
        let place = if segment.in_place { "in place" } else { "copied" };
        page += &format!(
            "segment {}: {:#x} -> {:#x}, {:#x} bytes, {place}, sha256 {}\n",
            segment.index, segment.vaddr, segment.base, segment.memsz, segment.sha256
        );
    }
    let relocations: Vec<String> = report.relocations.iter().map(|(name, count)| format!("{name} {count}")).collect();
    let relocations = if relocations.is_empty() { "none".to_owned() } else { relocations.join(", ") };
    page + &format!(
        "relocations: {relocations}\nentry {:#x}, {} exported symbols\n",
        report.entry,
        report.exports.len()
    )
}
