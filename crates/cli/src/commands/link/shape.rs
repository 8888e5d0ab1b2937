//! `outboard link --shape`: PI images and fixed-load libraries.

use super::{Args, finish, read_text, summary};
use crate::report::{self, Failure};
use outboard_link::build::Inputs;
use outboard_link::kernel_file;
use outboard_link::shape::fll::{self, Cpu, FllOptions};
use outboard_link::shape::pi::{self, PiOptions};
use outboard_ucode::cores;
use outboard_ucode::report::PrelinkReport;
use serde_json::json;
use std::path::PathBuf;

/// What the shape of a device program needs.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "GPSIMD")]
pub(super) struct ShapeArgs {
    /// Make a program of this shape instead of an image at the layout's addresses.
    #[arg(long, value_enum, conflicts_with = "layout")]
    shape: Option<Shape>,

    /// The core whose window a fixed-load library is for: 0 to 7, or single.
    #[arg(long, value_name = "0..7|single", value_parser = cpu)]
    cpu: Option<Cpu>,

    /// The core kind whose memory a PI image must fit into [default: cayman].
    #[arg(long, value_name = "KIND")]
    core_kind: Option<String>,

    /// Kernels of a PI image and their opcodes, beside those that objects declare.
    #[arg(long, value_name = "KERNELS.toml")]
    kernels: Option<PathBuf>,

    /// The function that the device calls when it has loaded the program [default: _start].
    #[arg(long, value_name = "NAME", requires = "shape")]
    entry: Option<String>,

    /// Initialisation function of a PI image; without it, one that returns at once.
    #[arg(long, value_name = "NAME")]
    init: Option<String>,

    /// Termination function of a PI image; without it, one that returns at once.
    #[arg(long, value_name = "NAME")]
    fini: Option<String>,

    /// Leave the symbol table out.
    #[arg(long, requires = "shape")]
    strip: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Shape {
    /// A PI image: relocated on the host, for all cores.
    Pi,
    /// A fixed-load library: for the window of one core.
    Fll,
}

fn cpu(text: &str) -> Result<Cpu, String> {
    match text {
        "single" => Ok(Cpu::Single),
        number => number
            .parse()
            .ok()
            .filter(|cpu| *cpu < 8)
            .map(Cpu::Core)
            .ok_or_else(|| "expected 0 to 7, or single".to_owned()),
    }
}

pub(super) fn link(args: &Args, inputs: Inputs<'_>) -> Result<(), Failure> {
    let shape = &args.shape;
    match shape.shape {
        Some(Shape::Fll) => fixed_load(args, inputs),
        Some(Shape::Pi) => position_independent(args, inputs),
        None => Err(Failure::usage("there is neither a layout nor a shape", "pass -T LAYOUT.toml or --shape pi|fll")),
    }
}

/// Refuses options of the other shape.
fn foreign(options: &[(&str, bool)], shape: &str) -> Result<(), Failure> {
    match options.iter().find(|(_, given)| *given) {
        Some((name, _)) => Err(Failure::usage(format!("{name} means nothing for {shape}"), "leave it out")),
        None => Ok(()),
    }
}

fn position_independent(args: &Args, inputs: Inputs<'_>) -> Result<(), Failure> {
    let shape = &args.shape;
    foreign(&[("--cpu", shape.cpu.is_some())], "--shape pi")?;
    let core = cores::find(shape.core_kind.as_deref().unwrap_or("cayman"));
    let core = core.map_err(|error| Failure::usage(error.to_string(), "name one of these"))?;
    let kernels = match &shape.kernels {
        None => Vec::new(),
        Some(path) => kernel_file::parse(&read_text(path)?).map_err(|error| {
            Failure::refused(error.explain(), "kernel_file", format!("{}: {error}", path.display()))
        })?,
    };
    let defaults = PiOptions::new(&core.bounds);
    let options = PiOptions {
        entry: shape.entry.clone().unwrap_or(defaults.entry),
        init: shape.init.clone(),
        fini: shape.fini.clone(),
        kernels,
        strip: shape.strip,
        keep_all: args.keep_all,
        bounds: &core.bounds,
    };
    let made = pi::link(inputs, &options).map_err(|errors| Failure::from(&errors))?;
    let prelinked = PrelinkReport::ok(&made.prelinked);
    for warning in &prelinked.warnings {
        report::say(&format!("warning: {warning}"));
    }
    let mut page = summary(&made.linked);
    page["shape"] = json!("pi");
    page["kernels"] = json!(made.kernels);
    page["image_relocations"] = json!(prelinked.relocations);
    page["staged_size"] = json!(prelinked.staged_size);
    finish(args, &made.linked, &made.image, page)
}

fn fixed_load(args: &Args, inputs: Inputs<'_>) -> Result<(), Failure> {
    let shape = &args.shape;
    let given = [
        ("--core-kind", shape.core_kind.is_some()),
        ("--kernels", shape.kernels.is_some()),
        ("--init", shape.init.is_some()),
        ("--fini", shape.fini.is_some()),
    ];
    foreign(&given, "--shape fll")?;
    let Some(cpu) = shape.cpu else {
        return Err(Failure::usage("a fixed-load library is for one core", "pass --cpu 0 to 7, or --cpu single"));
    };
    let defaults = FllOptions::new(cpu);
    let entry = shape.entry.clone().unwrap_or(defaults.entry);
    let options = FllOptions { entry, cpu, strip: shape.strip, keep_all: args.keep_all };
    let made = fll::link(inputs, &options).map_err(|errors| Failure::from(&errors))?;
    let mut page = summary(&made.linked);
    page["shape"] = json!("fll");
    page["cpu"] = match cpu {
        Cpu::Core(core) => json!(core),
        Cpu::Single => json!("single"),
    };
    finish(args, &made.linked, &made.image, page)
}
