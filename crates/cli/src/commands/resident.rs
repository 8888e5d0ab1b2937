//! `outboard resident LIB`: the image that a core would get from a host library.

use super::{Staged, read_file};
use crate::report::{self, Failure};
use outboard_ucode::inspect::sha256;
use outboard_ucode::resident::{CPTC_VARIABLE, FLAVOR_VARIABLE, Flavor, libraries_from_opcodes, resident};
use outboard_ucode::{cores, opcodes};
use serde_json::json;
use std::io::Write;
use std::path::PathBuf;

/// Pick the image that a GPSIMD core would get from a host library.
///
/// The choice is that of the original: by the kind of the core, the flavor and the number of the library. Errors carry the original's
/// result number.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  outboard resident libhost.so --core-kind cayman -o cayman_0.elf
  outboard resident libhost.so --core-kind 21 --lib 3 --json

Environment:
  NEURON_UCODE_FLAVOR                           debug or test; anything else means perf
  NRT_UCODE_UNSTABLE_LIBRARY_FLAG_CPTC_DECODE   when set, library 3 instead of 0")]
pub(crate) struct Args {
    /// The host library.
    library: PathBuf,

    /// The core, by name (sunda, cayman, mariana, mariana-plus, maverick) or number.
    #[arg(long, value_name = "KIND")]
    core_kind: String,

    /// Flavor of the image; without it, what NEURON_UCODE_FLAVOR says.
    #[arg(long, value_enum)]
    flavor: Option<FlavorName>,

    /// Number of the library; without it, the one that a model's opcodes get.
    #[arg(long, value_name = "N")]
    lib: Option<u32>,

    /// Write the image.
    #[arg(long, short, value_name = "IMAGE")]
    output: Option<PathBuf>,

    /// Print JSON on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum FlavorName {
    Perf,
    Debug,
    Test,
}

pub(crate) fn execute(args: &Args) -> Result<(), Failure> {
    let core = cores::find(&args.core_kind);
    let core = core.map_err(|error| Failure::usage(error.to_string(), "name one of these"))?;
    let file = read_file(&args.library)?;
    let flavor = match args.flavor {
        None => Flavor::from_variable(std::env::var(FLAVOR_VARIABLE).ok().as_deref()),
        Some(FlavorName::Perf) => Flavor::Perf,
        Some(FlavorName::Debug) => Flavor::Debug,
        Some(FlavorName::Test) => Flavor::Test,
    };
    let refused = |error: outboard_ucode::resident::ResidentError| {
        let message = format!("{}: {error} (result {})", args.library.display(), error.code());
        Failure::refused(error.explain(), "resident", message).with("result", json!(error.code()))
    };
    let cptc = std::env::var_os(CPTC_VARIABLE).is_some();
    let chosen = libraries_from_opcodes(core, &[opcodes::EXTENDED_INST], flavor, cptc).map_err(refused);
    let library = match args.lib {
        Some(library) => library,
        None => chosen?.first().copied().unwrap_or(0),
    };
    let image = resident(&file, core, flavor, library).map_err(refused)?;
    if let Some(path) = &args.output {
        let mut staged = Staged::create(path)?;
        staged.file().write_all(image.bytes).map_err(|error| Failure::unwritable(path, &error))?;
        staged.finish()?;
    }
    let (offset, size, hash) = (image.offset, image.bytes.len(), sha256(image.bytes));
    if args.json {
        let manifest = image.json.map(|text| String::from_utf8_lossy(text).into_owned());
        return report::result(&json!({
            "status": "ok", "result": 0, "core": core.name, "core_kind": core.kind, "flavor": flavor.code(), "library": library,
            "offset": offset, "size": size, "sha256": hash, "manifest": manifest, "file": args.output,
        }));
    }
    report::print(&format!(
        "{} ({}), library {library}: {size} bytes at offset {offset:#x}, sha256 {hash}\n",
        core.name, core.kind
    ))
}
