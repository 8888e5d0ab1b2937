//! Runs a static Linux user program: `cargo run --example run -- PROGRAM.elf`.

use std::process::ExitCode;

use outboard_xtensa::run::{Abi, Ending, RunOptions, Streams, run};

fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("name a program")?;
    let streams = Streams {
        input: &mut std::io::stdin(),
        output: &mut std::io::stdout(),
        error: &mut std::io::stderr(),
        trace: None,
    };
    let report = run(&std::fs::read(path)?, &RunOptions::new(Abi::LinuxUser), streams)?;
    let statistics = &report.statistics;
    let rate = statistics.instructions as f64 / statistics.elapsed.as_secs_f64() / 1e6;
    let mut text = format!("{} instructions, {rate:.0} million a second", statistics.instructions);
    if let Ending::Fault(fault) = &report.ending {
        text = format!("{fault}\n{text}");
    }
    use std::io::Write as _;
    writeln!(std::io::stderr(), "{text}")?;
    Ok(ExitCode::from(report.ending.status()))
}
