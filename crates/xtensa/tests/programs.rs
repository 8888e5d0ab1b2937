//! Whole programs: each prints its expected line and leaves with status 0.

use std::collections::HashMap;
use std::path::Path;

use outboard_xtensa::run::{Abi, Ending, RunOptions, Streams, run};

#[test]
fn every_given_program_prints_its_expected_line() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/programs");
    let expected = include_str!("data/programs/expected.txt");
    let lines: HashMap<&str, &str> = expected.lines().map(|line| (line.split(' ').nth(1).unwrap(), line)).collect();
    assert_eq!(lines.len(), 7);
    for (number, line) in lines {
        let file = std::fs::read(folder.join(format!("w{number}.elf"))).unwrap();
        let mut output = Vec::new();
        let streams =
            Streams { input: &mut std::io::empty(), output: &mut output, error: &mut std::io::sink(), trace: None };
        let report = run(&file, &RunOptions::new(Abi::LinuxUser), streams).unwrap();
        assert!(matches!(report.ending, Ending::Exit(0)), "w{number}: {:?}", report.ending);
        assert_eq!(String::from_utf8(output).unwrap(), format!("{line}\n"));
    }
}
