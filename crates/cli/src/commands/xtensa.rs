//! `outboard disasm`, `asm` and `xt`: Xtensa code as text, as bytes and running.

use super::Staged;
use crate::report::{self, Failure};
use outboard_xtensa::Decoder;
use outboard_xtensa::asm::AsmOptions;
use outboard_xtensa::disasm::{DisasmOptions, Line, SectionListing, disassemble_file};
use outboard_xtensa::isa::IsaSet;
use outboard_xtensa::length::Flix;
use outboard_xtensa::lines::{self, AsmRequest, DisasmRequest};
use outboard_xtensa::run::{Abi, Ending, RunOptions, RunReport, Streams};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use std::fmt::Write as _;
use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};

/// Show the Xtensa code in a file
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  outboard disasm kernel.elf                              every executable section
  outboard disasm kernel.elf --symbol relu --json
  echo '{\"bytes\":\"106080\",\"pc\":5242888}' | outboard disasm --lines -

With --lines, each line of the input is a JSON object with hexadecimal bytes and an address, and each line of the output its
answer: {\"asm\",\"length\",\"option\"} or {\"error\"}.")]
pub(crate) struct DisasmArgs {
    /// The file.
    #[arg(value_name = "FILE", required_unless_present = "lines")]
    file: Option<PathBuf>,

    /// Answer JSON lines from this file, or from standard input for -.
    #[arg(long, value_name = "FILE", conflicts_with = "file")]
    lines: Option<PathBuf>,

    /// Only this section.
    #[arg(long, value_name = "NAME")]
    section: Option<String>,

    /// Only this function.
    #[arg(long, value_name = "NAME")]
    symbol: Option<String>,

    /// Only from this address on.
    #[arg(long, value_name = "ADDRESS", value_parser = word)]
    start: Option<u32>,

    /// Only below this address.
    #[arg(long, value_name = "ADDRESS", value_parser = word)]
    end: Option<u32>,

    /// Print JSON on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Assemble Xtensa code
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  outboard asm kernel.S -o kernel.o                       a relocatable object
  echo '{\"asm\":\"add a6, a0, a1\"}' | outboard asm --lines -

With --lines, each line of the input is a JSON object with one instruction, and each line of the output its answer:
{\"bytes\",\"length\",\"option\"} or {\"error\"}.")]
pub(crate) struct AsmArgs {
    /// The source.
    #[arg(value_name = "FILE.S", required_unless_present = "lines", requires = "output")]
    file: Option<PathBuf>,

    /// Where the object goes.
    #[arg(long, short, value_name = "FILE.o")]
    output: Option<PathBuf>,

    /// Answer JSON lines from this file, or from standard input for -.
    #[arg(long, value_name = "FILE", conflicts_with = "file")]
    lines: Option<PathBuf>,
}

/// Run Xtensa programs on the engine
#[derive(Debug, clap::Args)]
#[group(skip)]
#[command(after_help = "\
Examples:
  outboard xt run program.elf
  outboard xt run program.elf --stats --max-instructions 1000000000")]
pub(crate) struct XtArgs {
    #[command(subcommand)]
    what: Xt,
}

#[derive(Debug, clap::Subcommand)]
enum Xt {
    Run(XtRunArgs),
}

/// Run a static executable: its output is this program's, its status the exit status, 125 for a fault
#[derive(Debug, clap::Args)]
#[group(skip)]
struct XtRunArgs {
    /// The program.
    #[arg(value_name = "PROGRAM")]
    file: PathBuf,

    /// What it expects: Linux system calls, or the bare machine with simulator calls.
    #[arg(long, value_name = "ABI", default_value = "linux-user", value_parser = ["linux-user", "bare"])]
    abi: String,

    /// Write a line for every instruction to standard error.
    #[arg(long)]
    trace: bool,

    /// End the program after this many instructions.
    #[arg(long, value_name = "N")]
    max_instructions: Option<u64>,

    /// Say how many instructions and cycles it took.
    #[arg(long)]
    stats: bool,
}

/// A 32-bit address.
fn word(text: &str) -> Result<u32, String> {
    u32::try_from(super::address(text)?).map_err(|_| "not a 32-bit address".to_owned())
}

pub(crate) fn disasm(args: &DisasmArgs) -> Result<(), Failure> {
    if let Some(input) = &args.lines {
        let decoder = Decoder::new(IsaSet::all()).with_flix(Flix::VisionQ7);
        return answer_lines(input, |request: &DisasmRequest| lines::disassemble(request, &decoder));
    }
    let Some(path) = &args.file else { return Ok(()) };
    let file = super::read_file(path)?;
    let options = DisasmOptions {
        section: args.section.clone(),
        symbol: args.symbol.clone(),
        start: args.start,
        end: args.end,
        ..DisasmOptions::default()
    };
    let listings = disassemble_file(&file, &options).map_err(|error| Failure::bad_file(path, &error))?;
    if args.json {
        return report::result(&json!({"status": "ok", "sections": to_json(&listings)?}));
    }
    listings.iter().try_for_each(|listing| report::print(&listing_text(listing)))
}

fn to_json(value: &impl Serialize) -> Result<serde_json::Value, Failure> {
    serde_json::to_value(value).map_err(|error| Failure::internal(&error))
}

fn listing_text(listing: &SectionListing) -> String {
    let mut text = format!("{} at {:#010x}:\n", listing.name, listing.address);
    for line in &listing.lines {
        for label in &line.labels {
            let _ = writeln!(text, "\n{label}:");
        }
        let _ = writeln!(text, "{:>10x}:  {:<18}  {}", line.address, line.bytes, line_text(line));
    }
    text
}

fn line_text(line: &Line) -> String {
    let mut text = line.text.clone();
    if let Some(literal) = line.literal {
        let _ = write!(text, " = {literal:#x}");
    }
    for relocation in &line.relocations {
        let _ = write!(text, "    ; {relocation}");
    }
    text
}

/// Answers JSON lines one by one; a line that cannot be answered gets its error, and the next goes on.
fn answer_lines<Q: DeserializeOwned, A: Serialize>(
    input: &Path,
    answer: impl Fn(&Q) -> Result<A, lines::LineError>,
) -> Result<(), Failure> {
    let unreadable = |error: &std::io::Error| Failure::unreadable(input, error);
    let source: Box<dyn BufRead> = if input == Path::new("-") {
        Box::new(std::io::stdin().lock())
    } else {
        Box::new(std::io::BufReader::new(std::fs::File::open(input).map_err(|error| unreadable(&error))?))
    };
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for line in source.lines() {
        let line = line.map_err(|error| unreadable(&error))?;
        if line.trim().is_empty() {
            continue;
        }
        let answered = match serde_json::from_str::<Q>(&line) {
            Ok(request) => match answer(&request) {
                Ok(answer) => to_json(&answer)?,
                Err(error) => json!({"error": error.to_string()}),
            },
            Err(error) => json!({"error": error.to_string()}),
        };
        if writeln!(out, "{answered}").is_err() {
            return Ok(()); // whoever has closed the pipe wants no more
        }
    }
    let _ = out.flush();
    Ok(())
}

pub(crate) fn asm(args: &AsmArgs) -> Result<(), Failure> {
    if let Some(input) = &args.lines {
        return answer_lines(input, |request: &AsmRequest| lines::assemble(request, IsaSet::all()));
    }
    let (Some(path), Some(output)) = (&args.file, &args.output) else { return Ok(()) };
    let source = String::from_utf8(super::read_file(path)?)
        .map_err(|_| Failure::bad_file(path, &"the source is not UTF-8 text"))?;
    let object = outboard_xtensa::asm::assemble(&source, &AsmOptions::default()).map_err(|diagnostics| {
        let all: Vec<String> = diagnostics.iter().map(ToString::to_string).collect();
        Failure::bad_file(path, &all.join("\n  "))
    })?;
    let mut staged = Staged::create(output)?;
    staged.file().write_all(&object).map_err(|error| Failure::unwritable(output, &error))?;
    staged.finish()
}

pub(crate) fn xt(args: &XtArgs) -> Result<(), Failure> {
    let Xt::Run(args) = &args.what;
    let file = super::read_file(&args.file)?;
    let abi = if args.abi == "bare" { Abi::Bare } else { Abi::LinuxUser };
    let options = RunOptions { max_instructions: args.max_instructions, ..RunOptions::new(abi) };
    let mut trace = std::io::BufWriter::new(std::io::stderr());
    let streams = Streams {
        input: &mut std::io::stdin().lock(),
        output: &mut std::io::stdout().lock(),
        error: &mut std::io::stderr(),
        trace: if args.trace { Some(&mut trace) } else { None },
    };
    let report = outboard_xtensa::run::run(&file, &options, streams);
    let _ = trace.flush();
    let report = report.map_err(|error| Failure::bad_file(&args.file, &error))?;
    if args.stats {
        say_statistics(&report);
    }
    match &report.ending {
        Ending::Exit(_) if report.ending.status() == 0 => Ok(()),
        Ending::Exit(_) => Err(Failure::status(report.ending.status())),
        Ending::Fault(fault) => {
            report::say(&format!("fault: {fault}"));
            Err(Failure::status(report.ending.status()))
        }
    }
}

fn say_statistics(report: &RunReport) {
    let statistics = &report.statistics;
    let seconds = statistics.elapsed.as_secs_f64();
    let millions = f64::from(u32::try_from(statistics.instructions / 1000).unwrap_or(u32::MAX)) / 1000.0;
    report::say(&format!(
        "{} instructions, {} cycles, {} blocks, {seconds:.3} s, {:.0} million instructions a second",
        statistics.instructions,
        statistics.cycles,
        statistics.blocks,
        millions / seconds.max(1e-9)
    ));
}
