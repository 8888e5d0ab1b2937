//! How much of the parsers the committed corpus covers: prints a table and fails below 90 % of the lines.
//!
//! Needs the component `llvm-tools` of the tool chain (`rustup component add llvm-tools`).

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use outboard_fuzz::TARGETS;

/// The files that read what nobody vouches for.
const PARSERS: [&str; 21] = [
    "elf/src/bytes.rs",
    "elf/src/dynamic.rs",
    "elf/src/elf.rs",
    "elf/src/hash.rs",
    "elf/src/note.rs",
    "elf/src/relocation.rs",
    "elf/src/section.rs",
    "elf/src/segment.rs",
    "elf/src/symbol.rs",
    "link/src/exports.rs",
    "link/src/image.rs",
    "link/src/layout.rs",
    "link/src/load.rs",
    "link/src/module.rs",
    "link/src/names.rs",
    "link/src/note.rs",
    "link/src/relocate.rs",
    "link/src/symbols.rs",
    "link/src/tools/inspect.rs",
    "link/src/tools/prelink.rs",
    "link/src/tools/resource_table.rs",
];
const WANTED: f64 = 90.0;

fn main() -> ExitCode {
    match measure() {
        Ok(percent) if percent >= WANTED => ExitCode::SUCCESS,
        Ok(_) => ExitCode::from(3),
        Err(message) => {
            eprintln!("{message}");
            ExitCode::from(1)
        }
    }
}

fn measure() -> Result<f64, String> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = here.join("target/coverage");
    let tools = tools()?;
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut build = Command::new(cargo);
    build.args(["build", "--release", "--quiet", "--bin", "runner", "--manifest-path"]).arg(here.join("Cargo.toml"));
    build.env("RUSTFLAGS", "-C instrument-coverage").env("CARGO_TARGET_DIR", &folder);
    run(&mut build)?;
    let runner = folder.join("release/runner");
    let mut profiles = Vec::new();
    for target in TARGETS {
        let profile = folder.join(format!("{}.profraw", target.name));
        let mut replay = Command::new(&runner);
        replay.arg(target.name).arg("--replay").args(files(&here.join("corpus").join(target.name))?);
        run(replay.env("LLVM_PROFILE_FILE", &profile))?;
        profiles.push(profile);
    }
    let merged = folder.join("merged.profdata");
    run(Command::new(tools.join("llvm-profdata")).args(["merge", "-sparse"]).args(&profiles).arg("-o").arg(&merged))?;
    let mut report = Command::new(tools.join("llvm-cov"));
    report.arg("report").arg(&runner).arg(format!("-instr-profile={}", merged.display()));
    let output = report.output().map_err(|error| format!("llvm-cov: {error}"))?;
    table(&String::from_utf8_lossy(&output.stdout))
}

/// Prints the rows of the parsers and the total; returns the share of lines that ran.
fn table(report: &str) -> Result<f64, String> {
    let (mut lines, mut missed) = (0_u64, 0_u64);
    println!("{:<44}{:>8}{:>8}{:>10}", "parser", "lines", "missed", "covered");
    for parser in PARSERS {
        // Name, then regions, functions, lines and branches as (all, missed, percentage).
        let row = report.lines().find(|line| line.split_whitespace().next().is_some_and(|name| name.ends_with(parser)));
        let columns: Vec<&str> = row.ok_or(format!("{parser} is not in the report"))?.split_whitespace().collect();
        let number = |index: usize| columns.get(index).and_then(|text| text.parse::<u64>().ok());
        let (all, bad) = number(7).zip(number(8)).ok_or(format!("{parser}: unexpected report"))?;
        lines += all;
        missed += bad;
        println!("{parser:<44}{all:>8}{bad:>8}{:>8.1} %", percent(all, bad));
    }
    println!("{:<44}{lines:>8}{missed:>8}{:>8.1} %", "all parsers", percent(lines, missed));
    Ok(percent(lines, missed))
}

fn percent(all: u64, missed: u64) -> f64 {
    100.0 * (all - missed) as f64 / all.max(1) as f64
}

fn files(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = std::fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(entries.flatten().map(|entry| entry.path()).collect())
}

/// The folder with the tools of LLVM.
fn tools() -> Result<PathBuf, String> {
    let output =
        Command::new("rustc").args(["--print", "sysroot"]).output().map_err(|error| format!("rustc: {error}"))?;
    let root = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()).join("lib/rustlib");
    let folders = std::fs::read_dir(&root).map_err(|error| format!("{}: {error}", root.display()))?;
    let found = folders.flatten().map(|entry| entry.path().join("bin")).find(|bin| bin.join("llvm-cov").exists());
    found.ok_or_else(|| "the tool chain has no llvm-cov: run `rustup component add llvm-tools`".to_owned())
}

fn run(command: &mut Command) -> Result<(), String> {
    let status = command.status().map_err(|error| format!("{}: {error}", command.get_program().display()))?;
    if status.success() { Ok(()) } else { Err(format!("{} failed: {status}", command.get_program().display())) }
}
