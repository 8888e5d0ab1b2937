//! `outboard link`: relocatable Xtensa objects and archives to an image: at fixed addresses, or of a device's shape.

mod shape;

use super::{Staged, read_file};
use crate::report::{self, Failure};
use outboard_link::build::{BuildErrors, Inputs, Linked, Options, link};
use outboard_link::layout_file;
use serde_json::json;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Link Xtensa objects and archives to an image
///
/// Objects are linked whole, members of archives when something needs them, and only the sections that something refers to.
/// Literals are gathered into pools within reach of their l32r. Every place that is written is read back and decoded again;
/// what cannot be right is refused with its file, section, offset and function.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  outboard link -T layout.toml -o program.elf main.o libkernel.a
  outboard link -T layout.toml -o program.elf main.o --map program.map --json
  outboard link --shape pi --kernels kernels.toml -o kernels.elf kernels.o
  outboard link --shape fll --cpu 3 -o ops_cpu3.so ops.o libruntime.a

With --shape, the result is what GPSIMD cores load: a PI image, which the host moves (outboard prelink), or a fixed-load library
for the window of one core. The entry is `_start` unless named.

The layout names the regions of memory, the sections to fill them with, the entry point and symbols. Exit status 3: the inputs
cannot be linked; nothing is written.")]
pub(crate) struct Args {
    /// Objects and archives.
    #[arg(value_name = "IN", required = true)]
    inputs: Vec<PathBuf>,

    /// The layout.
    #[arg(long, short = 'T', value_name = "LAYOUT.toml", required_unless_present = "shape")]
    layout: Option<PathBuf>,

    /// Where the image goes.
    #[arg(long, short, value_name = "OUT")]
    output: PathBuf,

    /// Write what lies where to this file.
    #[arg(long, value_name = "FILE")]
    map: Option<PathBuf>,

    /// Keep sections that nothing refers to.
    #[arg(long)]
    keep_all: bool,

    /// Keep the tables that tell code from literals (.xt.prop).
    #[arg(long, conflicts_with = "shape")]
    properties: bool,

    #[command(flatten)]
    shape: shape::ShapeArgs,

    /// Print JSON on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn execute(args: &Args) -> Result<(), Failure> {
    let files = args.inputs.iter().map(|path| read_file(path)).collect::<Result<Vec<_>, _>>()?;
    let mut inputs = Inputs::new();
    for (path, bytes) in args.inputs.iter().zip(&files) {
        inputs.add(&path.to_string_lossy(), bytes).map_err(|error| Failure::from(&BuildErrors::from(error)))?;
    }
    let Some(path) = &args.layout else { return shape::link(args, inputs) };
    let layout = layout_file::parse(&read_text(path)?).map_err(|error| Failure::from(&error).about(path.display()))?;
    let options = Options { keep_all: args.keep_all, properties: args.properties };
    let linked = link(inputs, &layout, &options).map_err(|errors| Failure::from(&errors))?;
    let image = linked.elf().map_err(|error| Failure::from(&BuildErrors::from(error)))?;
    finish(args, &linked, &image, summary(&linked))
}

/// Writes the map and the image, and prints what was made.
fn finish(args: &Args, linked: &Linked, image: &[u8], summary: serde_json::Value) -> Result<(), Failure> {
    if let Some(path) = &args.map {
        write(path, linked.map().as_bytes())?;
    }
    write(&args.output, image)?;
    if args.json { report::result(&summary) } else { Ok(()) }
}

/// A file of text.
fn read_text(path: &Path) -> Result<String, Failure> {
    String::from_utf8(read_file(path)?).map_err(|_| Failure::bad_file(path, &"it is not UTF-8 text"))
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let mut staged = Staged::create(path)?;
    staged.file().write_all(bytes).map_err(|error| Failure::unwritable(path, &error))?;
    staged.finish()
}

fn summary(linked: &Linked) -> serde_json::Value {
    let sections = linked.sections.iter().map(|section| {
        json!({"name": section.name, "region": section.region, "address": section.address, "size": section.size,
               "stored": section.data.len()})
    });
    let (dropped, dropped_bytes) = linked.dropped;
    json!({
        "status": "ok",
        "entry": linked.entry,
        "sections": sections.collect::<Vec<_>>(),
        "relocations": linked.sites.len(),
        "literal_pools": linked.pools,
        "dropped_sections": dropped,
        "dropped_bytes": dropped_bytes,
    })
}
