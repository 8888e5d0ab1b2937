//! Counts the instructions that one relocation costs, and fails when they grow: time on a shared machine is noise,
//! instructions are not.
//!
//! Runs itself under callgrind twice, loading a module of 10⁵ mixed relocations once and eleven times; the difference is
//! ten loads.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "the figure is the result of this program")]

use std::process::{Command, ExitCode};

use outboard_benches::arena::Arena;
use outboard_benches::modules::{Mix, ModuleSpec, generate, import_name};
use outboard_link::{ExportTable, Initialisers, LoadRequest, Machine, load};

/// Relocations of the module.
const RELOCATIONS: u64 = 100_000;
/// Loads that are counted.
const LOADS: u64 = 10;
/// Instructions per relocation, copying and symbols included, that the gate lets pass.
const LIMIT: u64 = 85;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    if let Some(loads) = arguments.next() {
        return work(loads.parse().unwrap_or(1));
    }
    match count(1).and_then(|once| Ok((once, count(1 + LOADS)?))) {
        Ok((once, more)) => judge(more.saturating_sub(once) / (LOADS * RELOCATIONS)),
        Err(message) => {
            eprintln!("{message}");
            ExitCode::from(1)
        }
    }
}

fn judge(each: u64) -> ExitCode {
    println!("loader: {each} instructions per relocation, limit {LIMIT}");
    if each <= LIMIT { ExitCode::SUCCESS } else { ExitCode::from(3) }
}

/// Instructions of this program when it loads the module `loads` times.
fn count(loads: u64) -> Result<u64, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut callgrind = Command::new("valgrind");
    callgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(program).arg(loads.to_string());
    let output = callgrind.output().map_err(|error| format!("valgrind: {error}; install the package valgrind"))?;
    let text = String::from_utf8_lossy(&output.stderr);
    let line = text.lines().find_map(|line| line.split_once("Collected : ")).map(|(_, count)| count.trim().to_owned());
    line.and_then(|count| count.parse().ok()).ok_or(format!("valgrind printed no count:\n{text}"))
}

fn work(loads: u64) -> ExitCode {
    let exports: ExportTable = (0..1000).map(|index| (import_name(index), 0xa220_0000 + 16 * index)).collect();
    let file = generate(&ModuleSpec::new(RELOCATIONS, Mix::Everything));
    let mut arena = Arena::new(0x1_0200_0000, file.len());
    let request = LoadRequest {
        file: &file,
        name: "gate.out",
        staging: None,
        exports: &exports,
        cpu_features: None,
        machines: &[Machine::C7x],
        initialisers: Initialisers::Refuse,
    };
    for _ in 0..loads {
        arena.reset();
        match load(&request, &mut arena) {
            Ok(module) => assert_eq!(module.relocations().values().sum::<u64>(), RELOCATIONS),
            Err(error) => {
                eprintln!("{error}");
                return ExitCode::from(3);
            }
        }
    }
    ExitCode::SUCCESS
}
