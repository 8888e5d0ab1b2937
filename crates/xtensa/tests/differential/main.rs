//! Promise P16: the engine agrees with `qemu-xtensa` on every row of the instruction table.
//!
//! Each row names its oracle (docs/reference/xtensa-differential.md). Rows that QEMU judges get
//! generated programs: the same static ELF runs here and there, and every register and memory
//! word of every state must be equal. By default each row gets a tenth of the states; with
//! `OUTBOARD_DIFFERENTIAL=full` it gets 10,000.
#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "tests build and take apart small known values, and fail by panicking"
)]

mod privileged;
mod program;
mod random;
mod rows;
mod vectors;

use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use outboard_xtensa::isa::{ROWS, Row};
use outboard_xtensa::run::{Abi, Ending, RunOptions, Streams, run};

use program::{Platform, RECORD};
use rows::{Oracle, oracle};

/// The engine's output for a program.
fn ours(file: &[u8], platform: Platform) -> Vec<u8> {
    let options = RunOptions::new(match platform {
        Platform::User => Abi::LinuxUser,
        Platform::System => Abi::Bare,
    });
    let mut output = Vec::new();
    let streams =
        Streams { input: &mut std::io::empty(), output: &mut output, error: &mut std::io::sink(), trace: None };
    let options = RunOptions { max_instructions: Some(50_000_000), ..options };
    let report = run(file, &options, streams).expect("the program loads");
    match report.ending {
        Ending::Exit(0) => output,
        ending => panic!("the engine ended with {ending:?}"),
    }
}

/// QEMU's output for a program.
fn theirs(file: &[u8], platform: Platform) -> Vec<u8> {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("program.elf");
    std::fs::write(&path, file).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = match platform {
        Platform::User => {
            let mut command = Command::new("timeout");
            command.args(["20", "qemu-xtensa", "-cpu", "de233_fpu"]).arg(&path);
            command
        }
        Platform::System => {
            let mut command = Command::new("timeout");
            command
                .args([
                    "20",
                    "qemu-system-xtensa",
                    "-M",
                    "sim",
                    "-cpu",
                    "de233_fpu",
                    "-semihosting",
                    "-display",
                    "none",
                    "-monitor",
                    "none",
                    "-serial",
                    "none",
                    "-kernel",
                ])
                .arg(&path);
            command
        }
    };
    let output = command.stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|error| {
        panic!("{command:?}: {error}: install the Debian packages qemu-user and qemu-system-misc")
    });
    assert!(output.status.success(), "{command:?}: {}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    output.stdout
}

fn states() -> usize {
    match std::env::var("OUTBOARD_DIFFERENTIAL").as_deref() {
        Ok("full") => 10_000,
        _ => 1_000,
    }
}

/// Compares a row's program; the number of states, or a description of the first difference.
fn compare(row: &'static Row, platform: Platform) -> Result<usize, String> {
    let file = rows::program(row, platform, states());
    let (ours, theirs) = (ours(&file, platform), theirs(&file, platform));
    let size = RECORD as usize;
    if ours.len() != theirs.len() {
        return Err(format!("{}: {} bytes here, {} there", row.mnemonic(), ours.len(), theirs.len()));
    }
    for (index, (a, b)) in ours.chunks(size).zip(theirs.chunks(size)).enumerate() {
        if a != b {
            return Err(describe(row, index, a, b));
        }
    }
    Ok(ours.len() / size)
}

fn describe(row: &Row, index: usize, ours: &[u8], theirs: &[u8]) -> String {
    let word = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().unwrap());
    let differing: Vec<String> = ours
        .chunks(4)
        .zip(theirs.chunks(4))
        .enumerate()
        .filter(|(_, (a, b))| a != b)
        .map(|(offset, (a, b))| format!("offset {}: {:#010x} here, {:#010x} there", 4 * offset, word(a), word(b)))
        .collect();
    format!("{}, state {index}: {}", row.mnemonic(), differing.join("; "))
}

/// Runs `work` for every row on all processors.
fn for_each_row<'a>(rows: &'a [(&'static Row, Platform)], work: impl Fn(&'a (&'static Row, Platform)) + Sync) {
    let next = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(row) = rows.get(next.fetch_add(1, Ordering::Relaxed)) {
                    work(row);
                }
            });
        }
    });
}

fn rows_with_qemu() -> Vec<(&'static Row, Platform)> {
    let platform = |row| match oracle(row) {
        Oracle::User => Some(Platform::User),
        Oracle::System => Some(Platform::System),
        Oracle::Worked(_) => None,
    };
    ROWS.iter().filter_map(|row| Some((row, platform(row)?))).collect()
}

#[test]
fn g5_g6_the_engine_agrees_with_qemu_on_every_row_that_qemu_can_judge() {
    let only = std::env::var("OUTBOARD_DIFFERENTIAL_ROW").ok();
    let mut rows = rows_with_qemu();
    rows.retain(|(row, _)| only.as_deref().is_none_or(|name| name == row.mnemonic()));
    let differences = Mutex::new(Vec::new());
    let total = AtomicUsize::new(0);
    for_each_row(&rows, |&(row, platform)| {
        let outcome = std::panic::catch_unwind(|| compare(row, platform));
        match outcome {
            Ok(Ok(states)) => {
                total.fetch_add(states, Ordering::Relaxed);
            }
            Ok(Err(text)) => differences.lock().unwrap().push(text),
            Err(_) => differences.lock().unwrap().push(format!("{}: panicked", row.mnemonic())),
        }
    });
    println!("{} rows, {} states", rows.len(), total.into_inner());
    let differences = differences.into_inner().unwrap();
    assert!(differences.is_empty(), "{} rows differ:\n{}", differences.len(), differences.join("\n"));
}

#[test]
fn no_row_is_without_an_oracle() {
    for row in &ROWS {
        let text = match oracle(row) {
            Oracle::User => "qemu-xtensa".to_owned(),
            Oracle::System => "qemu-system-xtensa -M sim".to_owned(),
            Oracle::Worked(reason) => {
                assert!(!reason.is_empty());
                format!("worked vectors: {reason}")
            }
        };
        println!("{:20} {text}", row.mnemonic());
    }
    assert!(rows_with_qemu().len() * 10 > ROWS.len() * 8, "most rows are judged by QEMU");
}

#[test]
fn window_vectors_and_exceptions_of_a_bare_program_behave_as_on_the_simulated_machine() {
    let file = vectors::program();
    let (ours, theirs) = (ours(&file, Platform::System), theirs(&file, Platform::System));
    assert_eq!(ours.len(), 0x400);
    let words = |bytes: &[u8]| -> Vec<u32> {
        bytes.chunks(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect()
    };
    let (ours, theirs) = (words(&ours), words(&theirs));
    // The causes: two divisions by zero, a misaligned load, a system call, a misaligned store, an
    // illegal instruction, a disabled coprocessor.
    let causes: Vec<u32> = ours[1..].chunks(3).map(|record| record[0]).take(7).collect();
    assert_eq!(causes, [6, 6, 9, 1, 9, 0, 32]);
    assert_ne!(ours[0], 0);
    assert_eq!(ours, theirs);
}
