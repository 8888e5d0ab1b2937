//! Whole programs: each prints its expected line and leaves with status 0.
#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "tests build and take apart small known values, and fail by panicking"
)]

use std::path::Path;

use outboard_xtensa::run::{Abi, Ending, RunOptions, Streams, run};

fn check(number: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/programs");
    let file = std::fs::read(folder.join(format!("w{number}.elf"))).unwrap();
    let expected = include_str!("data/programs/expected.txt");
    let line = expected.lines().find(|line| line.split(' ').nth(1) == Some(number)).unwrap();
    let mut output = Vec::new();
    let streams =
        Streams { input: &mut std::io::empty(), output: &mut output, error: &mut std::io::sink(), trace: None };
    let report = run(&file, &RunOptions::new(Abi::LinuxUser), streams).unwrap();
    assert!(matches!(report.ending, Ending::Exit(0)), "{:?}", report.ending);
    assert_eq!(String::from_utf8(output).unwrap(), format!("{line}\n"));
}

macro_rules! programs {
    ($($name:ident $number:literal;)*) => {
        $(#[test]
        fn $name() {
            check($number);
        })*

        #[test]
        fn no_program_is_left_out() {
            let listed = [$($number),*];
            assert_eq!(include_str!("data/programs/expected.txt").lines().count(), listed.len());
        }
    };
}

programs! {
    the_float_matrix_product_prints_its_line "02";
    the_quicksort_prints_its_line "05";
    the_deep_windowed_recursion_prints_its_line "07";
    the_float_dot_product_with_a_loop_prints_its_line "09";
    the_mac16_convolution_prints_its_line "10";
    the_float_vector_sum_prints_its_line "12";
    the_shallow_windowed_calls_print_their_line "13";
}

#[test]
fn a_trace_has_a_line_for_each_instruction_and_the_budget_ends_the_run() {
    let file = include_bytes!("data/programs/w13.elf");
    let (mut output, mut trace) = (Vec::new(), Vec::new());
    let streams = Streams {
        input: &mut std::io::empty(),
        output: &mut output,
        error: &mut std::io::sink(),
        trace: Some(&mut trace),
    };
    let options = RunOptions { max_instructions: Some(500), ..RunOptions::new(Abi::LinuxUser) };
    let report = run(file, &options, streams).unwrap();
    let Ending::Fault(fault) = &report.ending else { panic!("{:?}", report.ending) };
    assert_eq!(fault.cause.name(), "fuel-exhausted");
    assert_eq!((report.ending.status(), report.statistics.instructions), (125, 500));
    let text = String::from_utf8(trace).unwrap();
    assert_eq!(text.lines().count(), 500);
    assert!(text.starts_with("01000044  movi a0, 0\n"), "{text:.40}");
}
