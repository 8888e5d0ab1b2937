//! `outboard inspect FILE`: what is in a file.

mod page;

use super::read_file;
use crate::report::{self, Failure};
use outboard_link::LoadError;
use outboard_link::inspect::inspect;
use outboard_neff::seq::{self, Dialect};
use outboard_neff::{DeviceFile, FileError, NeffPart, inspect_file};
use outboard_ucode::inspect::InspectError;
use serde_json::json;
use std::path::PathBuf;

/// Show what is in a file.
///
/// The file decides what is shown. ELF files of TI C7x, Xtensa, x86-64 and AArch64: header, segments and where a loader would put them,
/// dynamic tags, imports and exports, relocations by type, notes. GPSIMD images (PI and fixed load), objects and archives: also the kernel
/// table, pairs of relocations and what deserves attention. Prelinked images (UCPL), NEFF containers, and what is in those:
/// ucode_lib.json, def.json, metaneff, instruction streams (*.bin). Parts that cannot be read are named, and the rest is shown.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  outboard inspect lib0.out
  outboard inspect lib0.out --json | jq .imports.symbols[].name
  outboard inspect cayman_0.elf --json | jq .inspection.kernel_table.rows
  outboard inspect sg00/pool.bin")]
pub(crate) struct Args {
    /// The file.
    file: PathBuf,

    /// Read the file as a stream of GPSIMD instructions, whatever its name: v1 with the events of the first generation, v2 of all
    /// later ones.
    #[arg(long, value_enum, value_name = "v1|v2")]
    stream: Option<StreamKind>,

    /// Print JSON on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum StreamKind {
    V1,
    V2,
}

pub(crate) fn execute(args: &Args) -> Result<(), Failure> {
    let file = read_file(&args.file)?;
    let name = args.file.display().to_string();
    let shown = |value: Result<serde_json::Value, serde_json::Error>| {
        let value = value.map_err(|error| Failure::internal(&error))?;
        report::result(&json!({"status": "ok", "file": name, "inspection": value}))
    };
    let found = match args.stream {
        None => inspect_file(&name, &file),
        Some(StreamKind::V1) => Ok(Some(DeviceFile::Part(NeffPart::Stream(seq::inspect(&file, Dialect::V1))))),
        Some(StreamKind::V2) => Ok(Some(DeviceFile::Part(NeffPart::Stream(seq::inspect(&file, Dialect::V2))))),
    };
    match found {
        Ok(Some(found)) if args.json => return shown(serde_json::to_value(&found)),
        Ok(Some(found)) => return report::print(&format!("{name}: {found}")),
        // A program of neither shape is still an ELF file.
        Err(FileError::Image(InspectError::Shape(shape))) => report::say(&format!("{name}: note: {shape}")),
        Err(error) => return Err(Failure::refused(error.explain(), "bad_file", format!("{name}: {error}"))),
        Ok(None) => {}
    }
    let found = inspect(&file).map_err(|error| Failure::from(&LoadError::from(error)).about(&name))?;
    if args.json {
        return shown(serde_json::to_value(&found));
    }
    report::print(&page::text(&name, &found))
}
