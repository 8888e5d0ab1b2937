//! `outboard check FILE`: judge a module, a firmware or a device image before it meets a board.

mod model;

use super::exports::offered;
use super::read_file;
use crate::report::{self, Failure};
use outboard_device_build::{DeviceBuild, OpCheck, OpJudgement, Schema};
use outboard_link::check::{CheckReport, CheckRequest, Profile, Severity, check};
use outboard_link::export_sets::ExportSets;
use outboard_link::target::Target;
use outboard_neff::check::image;
use outboard_ucode::cores;
use serde_json::json;
use std::path::{Path, PathBuf};

/// Judge a module, a firmware or a device image before it meets a board.
///
/// Every finding has a code (outboard explain CODE prints its page), a place and a fix. The file is also loaded into memory of this
/// program, at a board's addresses, and what a loader refuses is a finding. The exit code is 3 when there is an error.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  outboard check lib0.out
  outboard check lib0.out --exports seed --json
  outboard check firmware.elf --profile remoteproc
  outboard check kernels.elf --profile gpsimd --core-kind mariana
  outboard check model.neff --profile customop
  outboard check relu.o --profile customop --schema 'my_ops::relu(Tensor x) -> (Tensor)'
  outboard check relu_cpu0.so --profile customop

Custom operations are run on simulated cores: objects and archives after they are linked with the device runtime, libraries with the
files of the other cores beside them (_cpu0 to _cpu7, or those that ucode_lib.json names).")]
pub(crate) struct Args {
    /// The file.
    file: PathBuf,

    /// What it is judged as.
    #[arg(long, value_enum, default_value_t = ProfileName::C7x)]
    profile: ProfileName,

    /// What the device offers: the name of an export set, or a JSON file of symbols. Without it, the set of the simulated device for
    /// modules of this machine's CPU and that of the original firmware for C7x modules.
    #[arg(long, value_name = "SET|FILE")]
    exports: Option<String>,

    /// The core that a GPSIMD image is for [default: cayman].
    #[arg(long, value_name = "KIND")]
    core_kind: Option<String>,

    /// What a custom operation takes, such as `my_ops::scale(Tensor x, float factor) -> (Tensor)` [default: read from the name of its
    /// C++ function].
    #[arg(long = "schema", value_name = "SCHEMA")]
    schemas: Vec<String>,

    /// Print JSON on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum ProfileName {
    /// A module for the C7x service, on a board or simulated.
    C7x,
    /// A firmware that Linux' remoteproc starts.
    Remoteproc,
    /// A device image for a GPSIMD core.
    Gpsimd,
    /// Custom operations: an object, an archive, a library, its ucode_lib.json, a NEFF container or def.json.
    #[value(alias = "neuron-customop")]
    Customop,
}

pub(crate) fn execute(args: &Args) -> Result<(), Failure> {
    let file = read_file(&args.file)?;
    if args.core_kind.is_some() && args.profile != ProfileName::Gpsimd {
        return Err(Failure::usage("--core-kind is for --profile gpsimd", "leave it out"));
    }
    if !args.schemas.is_empty() && args.profile != ProfileName::Customop {
        return Err(Failure::usage("--schema is for --profile customop", "leave it out"));
    }
    let name = args.file.file_name().unwrap_or(args.file.as_os_str()).to_string_lossy().into_owned();
    if matches!(args.profile, ProfileName::Gpsimd | ProfileName::Customop) {
        return gpsimd(args, &name, &file);
    }
    let (target, sets) = (Target::am67a(), ExportSets::builtin());
    let exports = offered(args.exports.as_deref(), &file, &sets)?;
    let profile = match args.profile {
        ProfileName::Remoteproc => Profile::Remoteproc,
        _ => Profile::C7x,
    };
    let request = CheckRequest { file: &file, name: &name, profile, target: &target, exports: &exports, sets: &sets };
    let mut judged = check(&request);
    if profile == Profile::C7x {
        judged.add(model::findings(&file, &target));
    }
    if args.json {
        report::result(&serde_json::to_value(&judged).map_err(|error| Failure::internal(&error))?)?;
    } else {
        report::print(&text(&name, &judged))?;
    }
    if judged.errors == 0 { Ok(()) } else { Err(Failure::judged()) }
}

/// Judges files of GPSIMD devices.
fn gpsimd(args: &Args, name: &str, file: &[u8]) -> Result<(), Failure> {
    let core = cores::find(args.core_kind.as_deref().unwrap_or("cayman"));
    let core = core.map_err(|error| Failure::usage(error.to_string(), "name one of these"))?;
    let (profile, OpJudgement { findings, operations }) = match args.profile {
        ProfileName::Gpsimd => ("gpsimd", OpJudgement { findings: image(name, file, core), ..OpJudgement::default() }),
        _ => ("customop", custom_ops(args, name, file)?),
    };
    let count = |severity| findings.iter().filter(|finding| finding.severity == severity).count();
    let (errors, warnings) = (count(Severity::Error), count(Severity::Warning));
    if args.json {
        let status = if errors == 0 { "ok" } else { "error" };
        let operations: Vec<_> = operations
            .iter()
            .map(|op| json!({"name": op.name, "pulls": op.pulls, "completed": op.completed}))
            .collect();
        report::result(&json!({
            "status": status, "profile": profile, "errors": errors, "warnings": warnings, "findings": findings,
            "operations": operations,
        }))?;
    } else {
        let page: String = findings.iter().map(|finding| format!("{finding}\n")).collect();
        report::print(&format!("{page}{name}: {errors} error(s), {warnings} warning(s)\n"))?;
    }
    if errors == 0 { Ok(()) } else { Err(Failure::judged()) }
}

/// Judges custom operations, with the files beside the given one.
fn custom_ops(args: &Args, name: &str, file: &[u8]) -> Result<OpJudgement, Failure> {
    let schema = |text: &String| {
        text.parse::<Schema>().map_err(|error| Failure::request_of(error.explain(), "schema", error.to_string()))
    };
    let schemas = args.schemas.iter().map(schema).collect::<Result<Vec<_>, _>>()?;
    let folder = args.file.parent().unwrap_or(Path::new(""));
    // A manifest's names are names of files, not paths out of the folder.
    let beside = |name: &str| {
        let plain = Path::new(name).file_name().is_some_and(|file| file == name);
        plain.then(|| std::fs::read(folder.join(name)).ok()).flatten()
    };
    let check = OpCheck { name, file, beside: &beside, schemas: &schemas };
    let judged = DeviceBuild::default().check_op(&check);
    judged.map_err(|error| Failure::request_of("OB0734", "runtime", format!("the device runtime: {error}")))
}

/// The judgement as a person reads it.
fn text(name: &str, judged: &CheckReport) -> String {
    let mut page: String = judged.findings.iter().map(|finding| format!("{finding}\n")).collect();
    if let Some(budget) = &judged.budget {
        page += &format!("memory on {}, in bytes:\n", budget.target);
        page += &row("what", "where", &["needed", "limit", "headroom"]);
        for line in &budget.rows {
            let figures = [line.needed.to_string(), line.limit.to_string(), line.headroom.to_string()];
            page += &row(line.what, line.place, &[&figures[0], &figures[1], &figures[2]]);
        }
    }
    if !judged.satisfied_by.is_empty() {
        page += &format!("its imports are satisfied by: {}\n", judged.satisfied_by.join(", "));
    }
    page + &format!("{name}: {} error(s), {} warning(s)\n", judged.errors, judged.warnings)
}

fn row(what: &str, place: &str, [needed, limit, headroom]: &[&str; 3]) -> String {
    format!("  {what:<38} {place:<14} {needed:>12} {limit:>12} {headroom:>12}\n")
}
