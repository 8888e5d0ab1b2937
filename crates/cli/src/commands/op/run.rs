//! `outboard op run FILE… --op NAME`: one operation on the simulated pool, from files to a file.

use super::{Dims, argument, dims, failure, show};
use crate::commands::{Staged, address, read_file};
use crate::report::{self, Failure};
use outboard_elf::Elf;
use outboard_elf::pi::DeviceShape;
use outboard_gpsimd::{
    Arg, DispatchBy, Error, OutputSpec, Policy, PoolTarget, PrintOptions, Rule, Rules, RunReport, Runtime,
    RuntimeOptions, Schedule, UcodePair, model_for_one_core, model_operations,
};
use outboard_link::pi::{UCPL_MAGIC, UcplImage};
use outboard_neff::is_container;
use outboard_neff::metaneff::MetaNeff;
use outboard_tensor::{DType, Tensor};
use outboard_ucode::cores;
use serde_json::json;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Run a GPSIMD custom operation on the simulated pool
///
/// The library is a PI file, the files of a fixed-load library (one for each core), a NEFF, or a prelinked image (as `outboard
/// prelink --target gpsimd` writes it), which replaces the engine's code as it is. Everything in it is executed: what a
/// kernel calls of the device's runtime is code of the library.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  outboard op run relu.pi --op relu_forward --arg x.npy -o y.npy
  outboard op run add_cpu{0..7}.so --op axpy --arg x.npy --arg y.npy --arg 0.5 --arg 2 -o z.npy --seed 7
  outboard op run sum.pi --op sum --arg x.npy --shape 8 -o parts.npy --json
  outboard op run model.neff --arg x.npy -o y.npy --stats

While the operation runs, its accesses are compared with the tensors and memory that it has; what hardware would corrupt silently is
a finding on standard error, with core, pc and function (`outboard explain OB0842`).

Exit status: 1 the request is wrong, 2 the device failed (an abort names text, core, pc and callers), 3 a denied finding.")]
pub(crate) struct Args {
    /// The library.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,

    /// The operation; a NEFF says itself what is run, and must run this one if it is named.
    #[arg(long, value_name = "NAME")]
    op: Option<String>,

    /// An argument: a .npy file, an integer or a fraction.
    #[arg(long = "arg", value_name = "FILE|NUMBER", allow_hyphen_values = true)]
    arguments: Vec<String>,

    /// Where the result goes; a NEFF may have several.
    #[arg(long, short, value_name = "FILE.npy")]
    output: Vec<PathBuf>,

    /// Dimensions of the result, such as 8 or 4x32; without them it is like the first tensor.
    #[arg(long, value_name = "DIMS", value_parser = dims)]
    shape: Option<Dims>,

    /// Element type of the result; without it, that of the first tensor.
    #[arg(long, value_name = "TYPE")]
    dtype: Option<DType>,

    /// Number of cores (1, 4 or 8) instead of the target's; one file of a fixed-load library is for one core.
    #[arg(long, value_name = "N")]
    cores: Option<usize>,

    /// The core, by name or number, instead of the target's.
    #[arg(long, value_name = "KIND")]
    core_kind: Option<String>,

    /// A file that describes the pool, like targets/gpsimd-pool.toml.
    #[arg(long, value_name = "FILE.toml")]
    target: Option<PathBuf>,

    /// Let cores run in turns, in an order that depends on this number; without it, each has a thread.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,

    /// How the operation is named in the instructions.
    #[arg(long, value_enum, default_value_t = By::FunctionId)]
    dispatch: By,

    /// Where a prelinked image starts, instead of what its header says.
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    entry: Option<u64>,

    /// Names, shapes and types that the tensors of a NEFF must have.
    #[arg(long, value_name = "FILE")]
    metaneff: Option<PathBuf>,

    /// Instructions that each core may execute in one dispatch.
    #[arg(long, value_name = "N")]
    fuel: Option<u64>,

    /// Do not report this finding (OB0820, OB0840, …); several may be named.
    #[arg(long, value_name = "CODE", value_delimiter = ',', value_parser = rule)]
    allow: Vec<Rule>,

    /// Fail with exit status 3, and write nothing, when there is this finding; `all` names every one.
    #[arg(long, value_name = "CODE|all", value_delimiter = ',', value_parser = rules)]
    deny: Vec<Denied>,

    /// Do not look at accesses to memory: faster, and fewer findings.
    #[arg(long)]
    no_diagnose: bool,

    /// Let every core print, not only core 0.
    #[arg(long)]
    print_all: bool,

    /// Show transfers and the routines of the runtime that were called.
    #[arg(long)]
    trace: bool,

    /// Show instructions and cycles of each core.
    #[arg(long)]
    profile: bool,

    /// Show how often the simulator acted for the device: doorbells, windows, print queues, ends of calls.
    #[arg(long)]
    stats: bool,

    /// Print JSON on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum By {
    /// 0x85 and 0x86, by the number of the function.
    FunctionId,
    /// 0xF0, by the row of the kernel table.
    KernelTable,
}

pub(crate) fn execute(args: &Args) -> Result<(), Failure> {
    let files = args.files.iter().map(|path| read_file(path)).collect::<Result<Vec<_>, _>>()?;
    let arguments = args.arguments.iter().map(|text| argument(text)).collect::<Result<Vec<_>, _>>()?;
    let options = RuntimeOptions {
        target: target(args, &files)?,
        schedule: args.seed.map_or(Schedule::Threads, Schedule::Seeded),
        print: PrintOptions { all_cores: args.print_all, ..PrintOptions::default() },
        trace: args.trace,
        rules: policies(args),
    };
    let mut runtime = Runtime::new(options).map_err(|error| failure(&error))?;
    if let Some(fuel) = args.fuel {
        runtime.set_fuel(fuel);
    }
    let mut report = RunReport::default();
    let outcome = compute(args, &files, &arguments, &mut runtime, &mut report);
    show::printed(&report);
    let results = outcome.map_err(|failure| failure.with("findings", json!(report.findings)))?;
    let denied = report.findings.iter().any(|finding| finding.error);
    if args.output.len() > results.len() {
        let message = format!("{} output files were named, there are {} results", args.output.len(), results.len());
        return Err(Failure::usage(message, "name one -o for each result"));
    }
    if !denied {
        for (path, (_, tensor)) in args.output.iter().zip(&results) {
            write(path, tensor)?;
        }
    }
    let options = show::Options { trace: args.trace, profile: args.profile, stats: args.stats };
    if args.json {
        report::result(&show::json(&results, &report, options, &args.output))?;
    } else {
        report::print(&show::text(&results, &report, options))?;
    }
    if denied { Err(Failure::judged()) } else { Ok(()) }
}

fn rule(text: &str) -> Result<Rule, String> {
    text.parse().map_err(|error: outboard_gpsimd::UnknownRule| error.to_string())
}

/// A rule, or all of them.
#[derive(Debug, Clone)]
enum Denied {
    One(Rule),
    All,
}

fn rules(text: &str) -> Result<Denied, String> {
    if text == "all" { Ok(Denied::All) } else { rule(text).map(Denied::One) }
}

/// What is looked for; what is allowed stays allowed when everything is denied.
fn policies(args: &Args) -> Rules {
    let mut rules = if args.no_diagnose { Rules::default() } else { Rules::all() };
    for denied in &args.deny {
        let list = match denied {
            Denied::One(rule) => std::slice::from_ref(rule),
            Denied::All => &Rule::ALL,
        };
        rules = list.iter().fold(rules, |rules, rule| rules.with(*rule, Policy::Deny));
    }
    args.allow.iter().fold(rules, |rules, rule| rules.with(*rule, Policy::Allow))
}

/// Runs what the files are; the results by name.
fn compute(
    args: &Args,
    files: &[Vec<u8>],
    arguments: &[Arg],
    runtime: &mut Runtime,
    report: &mut RunReport,
) -> Result<Vec<(String, Tensor)>, Failure> {
    let wrong = |error: Error| failure(&error);
    let name = args.files.first().map(|path| path.to_string_lossy().into_owned()).unwrap_or_default();
    if let [file] = files
        && is_container(&name, file)
    {
        if let Some(op) = args.op.as_deref() {
            runs(file, op)?;
        }
        let tensors = tensors(arguments)?;
        let meta = args.metaneff.as_ref().map(|path| metaneff(path)).transpose()?;
        return runtime.run_neff_into(file, meta.as_ref(), &tensors, report).map_err(wrong);
    }
    let Some(op) = args.op.as_deref() else {
        return Err(Failure::usage("a library has several operations", "name one with --op NAME"));
    };
    let mut library = match files {
        [file] if file.starts_with(&UCPL_MAGIC) => {
            let image = UcplImage::parse(file).map_err(|error| Failure::bad_file(Path::new(&name), &error))?;
            let entry = args.entry.and_then(|entry| u32::try_from(entry).ok()).unwrap_or(image.header.start);
            let pair = UcodePair { iram: image.code.to_vec(), dram: image.data.to_vec(), entry };
            runtime.set_pool_eng_ucode(&pair).map_err(wrong)?
        }
        files => {
            let files: Vec<&[u8]> = files.iter().map(Vec::as_slice).collect();
            runtime.load(&files).map_err(wrong)?
        }
    };
    let mut op_handle = library.op(op).map_err(wrong)?;
    if let Some(spec) = output_spec(args, arguments) {
        op_handle = op_handle.output(spec);
    }
    op_handle = op_handle.dispatch_by(match args.dispatch {
        By::FunctionId => DispatchBy::FunctionId,
        By::KernelTable => DispatchBy::KernelTable,
    });
    let result = op_handle.run_into(arguments, report).map_err(wrong)?;
    Ok(vec![(op.to_owned(), result)])
}

/// Whether the files are a fixed-load library for one core, or a model with one.
fn for_one_core(files: &[Vec<u8>]) -> bool {
    let [file] = files else { return false };
    if is_container("", file) {
        // What is wrong with it is said when it is run.
        return model_for_one_core(file).unwrap_or(false);
    }
    let shape = Elf::parse(file).ok().and_then(|elf| DeviceShape::of(&elf).ok());
    matches!(shape, Some(DeviceShape::Fll(_)))
}

fn target(args: &Args, files: &[Vec<u8>]) -> Result<PoolTarget, Failure> {
    let mut target = match &args.target {
        None => PoolTarget::default(),
        Some(path) => {
            let text = String::from_utf8_lossy(&read_file(path)?).into_owned();
            PoolTarget::parse(&text).map_err(|error| Failure::bad_file(path, &error))?
        }
    };
    if let Some(kind) = &args.core_kind {
        let kind = cores::find(kind).map_err(|error| Failure::usage(error.to_string(), "name one of these"))?;
        target = target.with_kind(kind);
    }
    if let Some(cores) = args.cores.or(for_one_core(files).then_some(1)) {
        target.cores = cores;
    }
    match target.problem() {
        None => Ok(target),
        Some(problem) => Err(Failure::usage(problem, "choose values that fit together")),
    }
}

/// An argument: what reads as a number is one, anything else is a file.
/// Refuses a model that runs something else than what is asked for.
fn runs(file: &[u8], op: &str) -> Result<(), Failure> {
    let operations = model_operations(file).map_err(|error| failure(&error))?;
    if operations.iter().any(|known| known == op) {
        return Ok(());
    }
    let message = format!("the model does not run `{op}`; its stream runs {}", operations.join(", "));
    Err(Failure::usage(message, "leave --op out, or build a model of that operation with `op build --neff --op`"))
}

fn tensors(arguments: &[Arg]) -> Result<Vec<Tensor>, Failure> {
    let tensor = |arg: &Arg| match arg {
        Arg::Tensor(tensor) => Ok(tensor.clone()),
        _ => Err(Failure::usage("a NEFF takes tensors only", "pass each number as a .npy file of one element")),
    };
    arguments.iter().map(tensor).collect()
}

fn metaneff(path: &Path) -> Result<MetaNeff, Failure> {
    MetaNeff::decode(&read_file(path)?).map_err(|error| Failure::bad_file(path, &error))
}

fn output_spec(args: &Args, arguments: &[Arg]) -> Option<OutputSpec> {
    if args.shape.is_none() && args.dtype.is_none() {
        return None;
    }
    let first = arguments.iter().find_map(|arg| match arg {
        Arg::Tensor(tensor) => Some(tensor),
        _ => None,
    });
    let like = first.map(|tensor| tensor.shape().dims().to_vec()).unwrap_or_default();
    Some(OutputSpec {
        shape: args.shape.as_ref().map_or(like, |dims| dims.0.clone()),
        dtype: args.dtype.or(first.map(Tensor::dtype)).unwrap_or(DType::Float32),
    })
}

fn write(path: &Path, tensor: &Tensor) -> Result<(), Failure> {
    let bytes = tensor.view().to_npy().map_err(Failure::from)?;
    let mut staged = Staged::create(path)?;
    staged.file().write_all(&bytes).map_err(|error| Failure::unwritable(path, &error))?;
    staged.finish()
}
