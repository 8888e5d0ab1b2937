//! `outboard carve FILE`: the device images inside of a host library or of any blob.

use super::{Staged, read_file};
use crate::report::{self, Failure};
use outboard_ucode::carve::carve;
use serde_json::json;
use std::io::Write;
use std::path::PathBuf;

/// Find the GPSIMD device images inside of a host library or of any other file.
///
/// Images are found at any offset by their first bytes. Where the file is a host library with symbols, each has its name, its getter and its
/// manifest, and the table of generations and libraries is shown. Equal images are grouped. The exit code is 3 when there is none.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  outboard carve libhost.so
  outboard carve libhost.so -o images
  outboard carve dump.bin --json | jq .images[].sha256")]
pub(crate) struct Args {
    /// The file to search.
    file: PathBuf,

    /// Write the images and their manifests into this folder, which is created.
    #[arg(long, short, value_name = "DIR")]
    output: Option<PathBuf>,

    /// Print JSON on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn execute(args: &Args) -> Result<(), Failure> {
    let bytes = read_file(&args.file)?;
    let found = carve(&bytes);
    let mut written = Vec::new();
    if let Some(folder) = &args.output {
        std::fs::create_dir_all(folder).map_err(|error| Failure::unwritable(folder, &error))?;
        for (name, data) in found.files(&bytes) {
            let path = folder.join(&name);
            let mut file = Staged::create(&path)?;
            file.file().write_all(data).map_err(|error| Failure::unwritable(&path, &error))?;
            file.finish()?;
            written.push(name);
        }
        report::say(&format!("wrote {} files to {}", written.len(), folder.display()));
    }
    if args.json {
        let mut page = serde_json::to_value(&found).map_err(|error| Failure::internal(&error))?;
        page["status"] = json!("ok");
        page["files"] = json!(written);
        report::result(&page)?;
    } else {
        report::print(&found.to_string())?;
    }
    if found.images.is_empty() { Err(Failure::judged()) } else { Ok(()) }
}
