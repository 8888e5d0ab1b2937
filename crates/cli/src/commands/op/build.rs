//! `outboard op build --schema … SRC… -o LIB`: a library of operations from C++ or Rust.

use crate::commands::Staged;
use crate::report::{self, Failure};
use outboard_device_build::{DEFAULT_STACK, DeviceBuild, OpError, OpRequest, OpShape, Schema};
use outboard_ucode::cores;
use serde_json::json;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Build a library of GPSIMD custom operations from C++ or Rust
///
/// Each schema is an operation; the wrapper that pulls its arguments, the launcher that gives it its stack and the functions
/// by which the device finds it are generated. The library holds the device's runtime too. Beside it, STEM.ucode_lib.json
/// describes it for a model.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  outboard op build --schema 'my_ops::relu(Tensor x) -> (Tensor)' relu.cpp --multicore -o relu.so
  outboard op build --schema 'my_ops::relu(Tensor x) -> (Tensor)' relu.rs --shape pi -o relu.pi
  outboard op build --schema 'a::f(Tensor x, float s) -> (Tensor)' --schema 'a::g(Tensor x, int n) -> (Tensor)' ops.cpp -o ops.so
  outboard op build --schema 'my_ops::relu(Tensor x) -> (Tensor)' path/to/crate -o relu.so
  outboard op build --schema 'a::f(Tensor x, float s) -> (Tensor)' f.cpp -o f.so --neff f.neff --arg float32:128x256 --arg 0.5

--multicore writes relu_cpu0.so to relu_cpu7.so. C++ is compiled by clang 22 (apt-get install clang-22), or by what
OUTBOARD_CLANGXX names; Rust by cargo with the component rust-src.")]
pub(crate) struct Args {
    /// The sources: C++ files, or one Rust file or crate folder; objects and archives beside them.
    #[arg(value_name = "SRC", required = true)]
    sources: Vec<PathBuf>,

    /// An operation, such as `my_ops::scale(Tensor x, float factor) -> (Tensor)`; types are Tensor, Scalar, float, int.
    #[arg(long = "schema", value_name = "SCHEMA", required = true)]
    schemas: Vec<String>,

    /// The library.
    #[arg(long, short, value_name = "LIB")]
    output: PathBuf,

    /// For eight cores instead of one.
    #[arg(long)]
    multicore: bool,

    /// Bytes of stack of each operation.
    #[arg(long, value_name = "N", default_value_t = DEFAULT_STACK)]
    stack_size: u32,

    /// The shape of the library.
    #[arg(long, value_enum, default_value_t = Shape::Fll)]
    shape: Shape,

    /// The core kind whose memory a PI library must fit into [default: cayman].
    #[arg(long, value_name = "KIND")]
    core_kind: Option<String>,

    /// Extended opcode of the first operation in the kernel table of a PI library.
    #[arg(long, value_name = "N", default_value_t = 0x20)]
    first_spec: u8,

    /// An option for the C++ compiler, such as -DSCALE=2.
    #[arg(long = "flag", value_name = "OPTION", allow_hyphen_values = true)]
    flags: Vec<String>,

    #[command(flatten)]
    neff: super::neff::ModelArgs,

    /// Print JSON on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Shape {
    /// A fixed-load library: a file for each core.
    Fll,
    /// One file for all cores, with a kernel table, which the host moves.
    Pi,
}

pub(crate) fn execute(args: &Args) -> Result<(), Failure> {
    let schema = |text: &String| {
        text.parse::<Schema>().map_err(|error| Failure::request_of(error.explain(), "schema", error.to_string()))
    };
    let schemas = args.schemas.iter().map(schema).collect::<Result<Vec<_>, _>>()?;
    // What is wrong with it is said before anything is compiled.
    let model = args.neff.request(&schemas)?;
    let shape = match args.shape {
        Shape::Fll if args.core_kind.is_some() => {
            return Err(Failure::usage("--core-kind means nothing for --shape fll", "leave it out"));
        }
        Shape::Fll => OpShape::FixedLoad,
        Shape::Pi => {
            let core = cores::find(args.core_kind.as_deref().unwrap_or("cayman"));
            let core = core.map_err(|error| Failure::usage(error.to_string(), "name one of these"))?;
            OpShape::Resident { bounds: core.bounds, first_spec: args.first_spec }
        }
    };
    let name = args.output.file_name().unwrap_or_default().to_string_lossy();
    let scratch = tempfile::tempdir().map_err(|error| Failure::unwritable(&std::env::temp_dir(), &error))?;
    let request = OpRequest {
        multicore: args.multicore,
        stack: args.stack_size,
        shape,
        flags: args.flags.clone(),
        ..OpRequest::new(schemas, args.sources.clone(), &name, scratch.path())
    };
    let library = DeviceBuild::default().op_library(&request).map_err(|error| failure(&error))?;
    for warning in &library.warnings {
        report::say(warning);
    }
    let folder = args.output.parent().unwrap_or(Path::new(""));
    let core_kind = args.core_kind.as_deref();
    let model = model.map(|model| model.compose(&library, core_kind)).transpose()?;
    let mut written = Vec::new();
    for (name, bytes) in &library.files {
        written.push((write(&folder.join(name), bytes)?, bytes.len()));
    }
    let stem = args.output.file_stem().unwrap_or_default().to_string_lossy();
    let manifest = serde_json::to_vec_pretty(&library.manifest).map_err(|error| Failure::internal(&error))?;
    let described = write(&folder.join(format!("{stem}.ucode_lib.json")), &manifest)?;
    if let Some((path, model)) = &model {
        written.push((write(path, &model.neff)?, model.neff.len()));
        written.push((write(&path.with_extension("metaneff"), &model.metaneff)?, model.metaneff.len()));
    }
    let names: Vec<_> = request.schemas.iter().map(|schema| schema.name.as_str()).collect();
    if args.json {
        let files: Vec<_> = written.iter().map(|(path, bytes)| json!({"file": path, "bytes": bytes})).collect();
        return report::result(&json!({"status": "ok", "operations": names, "files": files, "manifest": described}));
    }
    let mut page = String::new();
    for (path, bytes) in &written {
        page.push_str(&format!("{}: {bytes} bytes\n", path.display()));
    }
    page.push_str(&format!("{}: {}\n", described.display(), names.join(", ")));
    report::print(&page)
}

fn failure(error: &OpError) -> Failure {
    Failure::request_of(error.explain(), error.kind(), error.to_string())
}

fn write(path: &Path, bytes: &[u8]) -> Result<PathBuf, Failure> {
    let mut staged = Staged::create(path)?;
    staged.file().write_all(bytes).map_err(|error| Failure::unwritable(path, &error))?;
    staged.finish()?;
    Ok(path.to_owned())
}
