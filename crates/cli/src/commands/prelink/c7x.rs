//! The part of `outboard prelink` that loads C7x modules.

use super::super::exports::offered;
use super::super::{Staged, address};
use crate::report::{self, Failure};
use outboard_link::export_sets::ExportSets;
use outboard_link::prelink::{PrelinkReport, PrelinkRequest, Prelinked, prelink_c7x};
use outboard_link::target::{Region, Target};
use std::io::Write;
use std::path::Path;

/// What only C7x modules need.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "C7x")]
pub(super) struct C7xOptions {
    /// Device address of the pool that segments are copied to.
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    pool: Option<u64>,

    /// Device address at which the file lies.
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
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
}

impl C7xOptions {
    /// The first of these options that is given.
    pub(super) fn given(&self) -> Option<&'static str> {
        let options = [
            ("--pool", self.pool.is_some()),
            ("--staging", self.staging.is_some()),
            ("--exports", self.exports.is_some()),
            ("--base", !self.base.is_empty()),
            ("--strict", self.strict),
        ];
        options.iter().find(|(_, given)| *given).map(|(name, _)| *name)
    }
}

fn base(text: &str) -> Result<(usize, u64), String> {
    let (index, place) = text.split_once('=').ok_or("write it as 1=0x102000000")?;
    let index = index.parse().map_err(|_| format!("`{index}` is no position of a segment"))?;
    Ok((index, address(place)?))
}

pub(super) fn execute(args: &super::Args, file: &[u8]) -> Result<(), Failure> {
    let (options, target) = (&args.c7x, Target::am67a());
    let exports = offered(options.exports.as_deref(), file, &ExportSets::builtin())?;
    let name = args.file.file_name().unwrap_or(args.file.as_os_str()).to_string_lossy().into_owned();
    let mut request = PrelinkRequest::new(file, &name, &exports, &target);
    request.strict = options.strict;
    request.bases = &options.base;
    let moved = |region: Region, address: Option<u64>| Region { address: address.unwrap_or(region.address), ..region };
    request.pool = moved(request.pool, options.pool);
    request.staging = moved(request.staging, options.staging);
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
    let mut staged = Staged::create(path)?;
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
