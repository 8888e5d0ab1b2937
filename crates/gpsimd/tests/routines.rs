//! Every routine of the device runtime, called by compiled device code: what it does, and how it fails.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::result_large_err, reason = "errors of tests are looked at, not passed on")]

mod support;

use outboard_gpsimd::{
    Arg, Error, FaultKind, Outcome, OutputSpec, PrintOptions, Rules, RunReport, Runtime, RuntimeOptions, Schedule,
};
use outboard_tensor::DType;
use support::{build, floats, ints, slices};

/// A pool with the probes as a fixed-load library; cores take turns.
fn pool() -> Runtime {
    pool_with(RuntimeOptions { schedule: Schedule::Seeded(3), ..RuntimeOptions::default() })
}

fn pool_with(options: RuntimeOptions) -> Runtime {
    let mut runtime = Runtime::new(options).unwrap();
    runtime.load(&slices(&build().fixed_op("probe", 8).unwrap())).unwrap();
    runtime
}

fn run(runtime: &mut Runtime, op: &str, args: &[Arg], length: usize) -> Result<Outcome, Error> {
    let spec = OutputSpec { dtype: DType::Int32, shape: vec![length] };
    runtime.library().unwrap().op(op).unwrap().output(spec).run(args)
}

/// The integers that a probe answers with.
fn answer(op: &str, args: &[Arg], length: usize) -> Vec<u32> {
    let outcome = run(&mut pool(), op, args, length).unwrap();
    assert_eq!(outcome.report.findings, []);
    outcome.result.values::<i32>().unwrap().into_iter().map(i32::cast_unsigned).collect()
}

/// The message of the fault that a probe ends with.
fn fault(op: &str, args: &[Arg]) -> String {
    match run(&mut pool(), op, args, 4).unwrap_err() {
        Error::Device(fault) => fault.to_string(),
        other => panic!("{op}: {other}"),
    }
}

const FAILED: u32 = u32::MAX;

#[test]
fn windows_take_turns_and_pinned_ones_stay() {
    let expected = [
        1,
        0x0700_0123,
        0x0900_0123,
        0x0a00_0123,
        0x0700_0123,
        0x0700_0123, // the fourth is still shown, the fifth moves the first
        1,
        0x0900_0000,
        1,
        0x8000_0040,
        0x8400_0040,
    ];
    assert_eq!(answer("windows", &[], 16)[..11], expected);
}

#[test]
fn heaps_give_aligned_blocks_fail_with_minus_one_and_write_the_result() {
    let list = answer("heaps", &[], 16);
    assert_eq!(list[..2], [0, 0]);
    assert_eq!(list[2] % 4096, 0);
    assert_eq!(list[3..8], [FAILED, 1, 0, FAILED, 0]);
    assert_eq!(list[8..12], [0, 0x8_3200, FAILED, 1]);
    assert_eq!(list[12..], [0, 0x8_6200, 0, 1]);
}

#[test]
fn all_three_methods_copy_across_the_end_of_a_window() {
    assert_eq!(answer("copies", &[], 4), [1, 1, 1, 0x1009_1234]);
}

#[test]
fn numbers_are_pulled_by_every_routine() {
    let args = [Arg::from(-7), Arg::from(2.5), Arg::from(5), Arg::from(0x1_0000_0002), Arg::from(-0.5)];
    let expected = [1, (-7_i32).cast_unsigned(), 0, 0x4004_0000, 5, 2, 1, (-0.5_f32).to_bits()];
    assert_eq!(answer("numbers", &args, 8), expected);
}

#[test]
fn a_large_stack_is_in_hbm_and_has_a_limit_of_its_own() {
    let list = answer("deep", &[], 3);
    assert!(list[0] > 0x8500_0000 && list[1] >= 0x8500_0000 && list[0] - list[1] > 0x7000, "{list:#x?}");
    assert_eq!(list[2], 120 * 121 / 2);
}

#[test]
fn the_shims_of_the_c_library_answer() {
    let expected = [7, 0, 0, FAILED, FAILED, FAILED, FAILED, 0, 1, 0, FAILED, u32::from(b'2')];
    assert_eq!(answer("shims", &[], 12), expected);
}

#[test]
fn core_0_prints_and_the_others_do_so_on_request_only() {
    let dashes = "-".repeat(300);
    let text = |core: usize| format!("core {core} of 8: hello\n1 2 3 4 5 -6 ab 2.50\n{dashes}");
    let mut runtime = pool();
    let report = run(&mut runtime, "prints", &[], 1).unwrap().report;
    let streams: Vec<_> = report.printed.iter().map(|p| (p.core, p.stream, p.text.clone(), p.lost_slots)).collect();
    assert_eq!(streams, [(0, "stdout", text(0), 0), (0, "stderr", "to stderr\n".to_owned(), 0)]);
    let print = PrintOptions { all_cores: true, ..PrintOptions::default() };
    let mut runtime = pool_with(RuntimeOptions { print, ..RuntimeOptions::default() });
    let report = run(&mut runtime, "prints", &[], 1).unwrap().report;
    let stdout: Vec<_> = report.printed.iter().filter(|p| p.stream == "stdout").map(|p| p.text.clone()).collect();
    assert_eq!(stdout, (0..8).map(text).collect::<Vec<_>>());
}

#[test]
fn lines_characters_and_lists_of_arguments_are_printed() {
    let mut runtime = pool();
    let outcome = run(&mut runtime, "lists", &[], 3).unwrap();
    assert_eq!(outcome.report.printed[0].text, "a line\n!1 2 3 -6 7\n");
    assert_eq!(outcome.result.values::<i32>().unwrap(), [1, i32::from(b'!'), 11]);
}

#[test]
fn a_full_print_queue_loses_its_oldest_slots() {
    let print = PrintOptions { queue_bytes: 256, ..PrintOptions::default() };
    let mut runtime = pool_with(RuntimeOptions { print, ..RuntimeOptions::default() });
    let report = run(&mut runtime, "prints", &[], 1).unwrap().report;
    assert_eq!(report.printed[0].lost_slots, 1);
    assert!(report.printed[0].text.ends_with("---"));
    let none = PrintOptions { queue_bytes: 0, ..PrintOptions::default() };
    let mut runtime = pool_with(RuntimeOptions { print: none, ..RuntimeOptions::default() });
    assert_eq!(run(&mut runtime, "prints", &[], 1).unwrap().report.printed, []);
    let odd = PrintOptions { queue_bytes: 300, ..PrintOptions::default() };
    assert!(Runtime::new(RuntimeOptions { print: odd, ..RuntimeOptions::default() }).is_err());
}

#[test]
fn each_core_knows_its_number_and_how_many_there_are() {
    assert_eq!(answer("identity", &[], 8), [8, 108, 208, 308, 408, 508, 608, 708]);
}

#[test]
fn a_returned_tensor_is_copied_and_must_have_the_results_type() {
    assert_eq!(answer("copied", &[Arg::from(ints(&[1, 2, 3]))], 3), [2, 4, 6]);
    let text = fault("wrong_type", &[Arg::from(ints(&[1, 2, 3, 4]))]);
    assert!(text.contains(": abort: utypes.hpp:65:"), "{text}");
}

#[test]
fn assertions_name_file_and_line_core_pc_and_callers() {
    for (op, args, place) in [
        ("pull_too_many", vec![], "arg_parser.hpp:66:"),
        ("scalar_of_many", vec![Arg::from(ints(&[1, 2]))], "utypes.hpp:178:"),
        ("method_3", vec![], "data_transfer.cpp: method < MAX_METHODS"),
        ("outside_staging", vec![], "data_transfer.cpp:160:"),
        ("huge_tensor", vec![], "NeuronAllocator.cpp:"),
        ("climb_huge", vec![], "stack_switch.cpp: STACK_SIZE <= MAX_STACK_SIZE"),
        ("divide", vec![], "abort() called"),
        ("panics", vec![], "ops/probe.rs:"),
    ] {
        let text = fault(op, &args);
        assert!(text.contains(&format!(": abort: {place}")), "{op}: {text}");
        assert!(
            text.starts_with("core ")
                && text.contains("at pc 0x84")
                && text.contains("_outboard_trap")
                && text.contains("called from"),
            "{text}"
        );
    }
}

#[test]
fn faults_of_the_core_say_what_it_did() {
    let text = fault("unsplit", &[]);
    assert!(text.contains("leaves the window at 0x07000000") && text.contains("must be split"), "{text}");
    let text = fault("climb_too_far", &[]);
    assert!(text.contains("is below the stack limit 0x0008c000") && text.contains("climb"), "{text}");
    let text = fault("no_memory_there", &[]);
    assert!(text.contains("there is no memory at 0x7000000000"), "{text}");
}

#[test]
fn faults_that_diagnosis_knows_are_findings_too() {
    for (op, args, code) in [
        ("unsplit", vec![], "OB0846"),
        ("climb_too_far", vec![], "OB0849"),
        ("wrong_type", vec![Arg::from(ints(&[1, 2, 3, 4]))], "OB0850"),
    ] {
        let mut runtime = pool_with(RuntimeOptions { rules: Rules::all(), ..RuntimeOptions::default() });
        let mut report = RunReport::default();
        let spec = OutputSpec { dtype: DType::Int32, shape: vec![4] };
        let mut library = runtime.library().unwrap();
        library.op(op).unwrap().output(spec).run_into(&args, &mut report).unwrap_err();
        let codes: Vec<_> = report.findings.iter().map(|finding| finding.code).collect();
        assert!(codes.contains(&code), "{op}: {:#?}", report.findings);
    }
}

#[test]
fn a_loop_without_end_uses_up_its_instructions() {
    let mut runtime = pool();
    runtime.set_fuel(100_000);
    let Error::Device(fault) = run(&mut runtime, "for_ever", &[], 1).unwrap_err() else { panic!("no fault") };
    assert!(matches!(fault.kind, FaultKind::Fuel { limit: 100_000 }));
    assert!(fault.to_string().contains("for_ever"), "{fault}");
    // The pool can be used again.
    assert_eq!(run(&mut runtime, "identity", &[], 8).unwrap().result.values::<i32>().unwrap()[7], 708);
}

#[test]
fn stores_without_cleanup_are_not_seen_and_noticed() {
    let outcome = run(&mut pool(), "no_cleanup", &[], 1).unwrap();
    assert_eq!(outcome.result.values::<i32>().unwrap(), [0], "the old bytes");
    let codes: Vec<_> = outcome.report.findings.iter().map(|finding| (finding.code, finding.core)).collect();
    assert_eq!(codes, (0..8).map(|core| ("OB0820", core)).collect::<Vec<_>>());
}

#[test]
fn a_pull_of_another_kind_is_noticed() {
    let tensor = Arg::from(floats(&[1.0]));
    let args = [tensor, Arg::from(2.5), Arg::from(5), Arg::from(2), Arg::from(0.5)];
    let outcome = run(&mut pool(), "numbers", &args, 8).unwrap();
    assert_eq!(outcome.report.findings.len(), 8);
    let finding = &outcome.report.findings[0];
    assert_eq!((finding.code, finding.core), ("OB0821", 0));
    assert!(finding.message.contains("argument 0 is a tensor") && finding.message.contains("customop_next_scalar"));
}

#[test]
fn a_trace_shows_the_routines_in_the_operations_own_text() {
    let options = RuntimeOptions { trace: true, schedule: Schedule::Seeded(1), ..RuntimeOptions::default() };
    let mut runtime = pool_with(options);
    let report = run(&mut runtime, "copied", &[Arg::from(ints(&[1, 2, 3]))], 3).unwrap().report;
    let own: Vec<_> = report.routines.iter().filter(|call| call.core == 2).collect();
    for routine in [
        "switch_stack_or_call_wrapper",
        "customop_setup",
        "customop_next_tensor",
        "neuron_translate",
        "UTensor::copy",
        "dma_data_transfer",
        "customop_cleanup",
        "fsync",
    ] {
        assert!(own.iter().any(|call| call.routine == routine), "{routine}");
    }
    assert!(own.iter().all(|call| (0x8440_0000..0x8460_0000).contains(&call.pc)));
    let count = report.cores.iter().map(|core| core.hooks.transfers).sum::<u64>();
    assert_eq!(count, report.transfers.iter().filter(|transfer| transfer.core.is_some()).count() as u64);
}
