//! Compares the engine's speed with `qemu-xtensa`, run by run, and prints a Markdown table:
//! `cargo run --release -p outboard-xtensa --example versus_qemu [RUNS [ELF…]]`.
//!
//! Programs: those of the tests, a table-driven CRC, and any others that are named. Both sides run as processes, interleaved,
//! and user time is counted, because a shared machine's speed changes by the second; the ratio of
//! medians is what counts.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use outboard_xtensa::encode_text;
use outboard_xtensa::isa::IsaSet;
use outboard_xtensa::run::{Abi, Ending, RunOptions, Streams, run};

const PROGRAMS: [(&str, &str); 7] = [
    ("w02", "float matrix product"),
    ("w05", "quicksort"),
    ("w07", "deep windowed recursion"),
    ("w09", "float dot product with LOOPNEZ"),
    ("w10", "MAC16 convolution with LOOPNEZ"),
    ("w12", "float vector update"),
    ("w13", "shallow windowed calls"),
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    if std::env::args().nth(1).as_deref() == Some("--one") {
        return run_one(&std::env::args().nth(2).ok_or("name a program")?);
    }
    let runs: usize = std::env::args().nth(1).map_or(Ok(5), |text| text.parse())?;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/programs");
    let scratch = std::env::temp_dir().join(format!("outboard-crc-{}.elf", std::process::id()));
    std::fs::write(&scratch, crc_program(100_000_000)?)?;
    std::fs::set_permissions(&scratch, std::fs::Permissions::from_mode(0o755))?;
    let mut programs: Vec<(PathBuf, &str)> =
        PROGRAMS.iter().map(|(file, what)| (folder.join(format!("{file}.elf")), *what)).collect();
    programs.push((scratch.clone(), "table CRC-32"));
    let named: Vec<PathBuf> = std::env::args().skip(2).map(PathBuf::from).collect();
    let names = named.iter().filter_map(|path| Some((path.clone(), path.file_stem()?.to_str()?)));
    programs.extend(names);
    let mut out = std::io::stdout();
    writeln!(out, "| program | million instructions | engine, M/s | qemu-xtensa, M/s | ratio |")?;
    writeln!(out, "| --- | --- | --- | --- | --- |")?;
    for (path, what) in programs {
        let (ours, theirs, instructions) = compare(&path, runs)?;
        let rate = |seconds: f64| instructions as f64 / seconds / 1e6;
        writeln!(
            out,
            "| {what} | {} | {:.0} | {:.0} | {:.2} |",
            instructions / 1_000_000,
            rate(ours),
            rate(theirs),
            theirs / ours
        )?;
    }
    std::fs::remove_file(scratch)?;
    Ok(())
}

/// Median seconds of both, and the number of instructions.
fn compare(path: &Path, runs: usize) -> Result<(f64, f64, u64), Box<dyn std::error::Error>> {
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    let mut instructions = 0;
    for _ in 0..runs.max(1) {
        let start = children_seconds()?;
        let output = Command::new(std::env::current_exe()?).arg("--one").arg(path).output()?;
        ours.push(children_seconds()? - start);
        instructions = String::from_utf8(output.stderr)?.trim().parse()?;
        let start = children_seconds()?;
        let qemu = Command::new("qemu-xtensa").args(["-cpu", "de233_fpu"]).arg(path).stdin(Stdio::null()).output();
        let qemu = qemu.map_err(|error| format!("qemu-xtensa: {error}: install the Debian package qemu-user"))?;
        theirs.push(children_seconds()? - start);
        if qemu.stdout != output.stdout {
            return Err(format!("{}: the outputs differ", path.display()).into());
        }
    }
    ours.sort_by(f64::total_cmp);
    theirs.sort_by(f64::total_cmp);
    Ok((ours[ours.len() / 2], theirs[theirs.len() / 2], instructions))
}

/// User time of all children that have ended, in seconds (Linux, 10 ms steps).
fn children_seconds() -> Result<f64, Box<dyn std::error::Error>> {
    let text = std::fs::read_to_string("/proc/self/stat")?;
    // After the command's closing parenthesis, field 3 is the first; cutime is field 16.
    let fields = text.rsplit_once(')').ok_or("/proc/self/stat is not understood")?.1;
    let ticks: u64 = fields.split_whitespace().nth(13).ok_or("/proc/self/stat is short")?.parse()?;
    Ok(ticks as f64 / 100.0)
}

/// Runs one program and prints its instruction count on standard error.
fn run_one(path: &str) -> Result<(), Box<dyn std::error::Error>> {
    let mut instructions = std::io::stderr();
    let streams = Streams {
        input: &mut std::io::empty(),
        output: &mut std::io::stdout(),
        error: &mut std::io::sink(),
        trace: None,
    };
    let report = run(&std::fs::read(path)?, &RunOptions::new(Abi::LinuxUser), streams)?;
    if let Ending::Fault(fault) = report.ending {
        return Err(fault.into());
    }
    writeln!(instructions, "{}", report.statistics.instructions)?;
    Ok(())
}

/// A static program that computes a CRC-32 over `bytes` bytes of a 4 KiB buffer, by table, and
/// writes it.
fn crc_program(bytes: u32) -> Result<Vec<u8>, Box<dyn std::error::Error>> {
    const CODE: u32 = 0x100_0000;
    const DATA: u32 = 0x200_0000;
    let literals = [DATA, DATA + 1024, bytes / 4096, DATA + 1024 + 4096];
    let entry = CODE + 16;
    let lines = [
        format!("l32r a2, {CODE:#x}"),
        format!("l32r a6, {:#x}", CODE + 8),
        "movi a5, -1".to_owned(),
        // For each pass over the buffer:
        format!("l32r a3, {:#x}", CODE + 4),
        format!("l32r a4, {:#x}", CODE + 12),
        // For each byte:
        "l8ui a8, a3, 0".to_owned(),
        "addi a3, a3, 1".to_owned(),
        "xor a8, a8, a5".to_owned(),
        "extui a8, a8, 0, 8".to_owned(),
        "addx4 a8, a8, a2".to_owned(),
        "l32i a8, a8, 0".to_owned(),
        "srli a5, a5, 8".to_owned(),
        "xor a5, a5, a8".to_owned(),
        format!("bne a3, a4, {:#x}", entry + 15),
        "addi a6, a6, -1".to_owned(),
        format!("bnez a6, {:#x}", entry + 9),
        // Store and write the four bytes.
        "s32i a5, a2, 0".to_owned(),
        "mov a3, a2".to_owned(),
        "movi a2, 13".to_owned(),
        "movi a6, 1".to_owned(),
        "movi a4, 4".to_owned(),
        "syscall".to_owned(),
        "movi a2, 118".to_owned(),
        "movi a6, 0".to_owned(),
        "syscall".to_owned(),
    ];
    let mut code: Vec<u8> = literals.iter().flat_map(|word| word.to_le_bytes()).collect();
    for line in &lines {
        let pc = CODE + u32::try_from(code.len())?;
        code.extend(encode_text(line, pc, IsaSet::lx())?.bytes());
    }
    let mut data = Vec::new();
    for index in 0..256u32 {
        let entry = (0..8).fold(index, |value, _| value >> 1 ^ (0xedb8_8320 & (value & 1).wrapping_neg()));
        data.extend(entry.to_le_bytes());
    }
    data.extend((0..4096u32).map(|index| (index.wrapping_mul(2_654_435_761) >> 24) as u8));
    let mut file = b"\x7fELF\x01\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x5e\0".to_vec();
    file.extend([1, entry, 52, 0, 0].iter().flat_map(|word: &u32| word.to_le_bytes()));
    file.extend([52, 32, 2, 40, 0, 0].iter().flat_map(|half: &u16| half.to_le_bytes()));
    for (offset, address, bytes, flags) in [(0x1000, CODE, &code, 5u32), (0x2000, DATA, &data, 6)] {
        let size = u32::try_from(bytes.len())?;
        let fields = [1, offset, address, address, size, size, flags, 0x1000];
        file.extend(fields.iter().flat_map(|word: &u32| word.to_le_bytes()));
    }
    file.resize(0x1000, 0);
    file.extend(&code);
    file.resize(0x2000, 0);
    file.extend(&data);
    Ok(file)
}
