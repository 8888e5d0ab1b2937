//! Diagnosis: each operation of `device/ops/findings.cpp` has the finding it was made for, and correct ones have none.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::LazyLock;

use outboard_device_build::{DeviceBuild, OpLibrary, OpRequest, Schema};
use outboard_gpsimd::{
    Arg, Error, Finding, OutputSpec, Policy, PoolTarget, Rule, Rules, RunReport, Runtime, RuntimeOptions, Schedule,
};
use outboard_tensor::{DType, Shape, Tensor};

fn build(source: &str, operations: &[&str], multicore: bool) -> OpLibrary {
    let build = DeviceBuild::default();
    let scratch = tempfile::tempdir().unwrap();
    let schemas = operations.iter().map(|schema| schema.parse::<Schema>().unwrap()).collect();
    let sources = vec![build.sources().join("ops").join(source)];
    let request = OpRequest { multicore, ..OpRequest::new(schemas, sources, "op.so", scratch.path()) };
    build.op_library(&request).unwrap()
}

/// The operations of the file with findings: ten make a library.
fn wrong(operations: &[&str], multicore: bool) -> OpLibrary {
    let schemas: Vec<String> = operations.iter().map(|name| format!("ns::{name}(Tensor x) -> (Tensor)")).collect();
    build("findings.cpp", &schemas.iter().map(String::as_str).collect::<Vec<_>>(), multicore)
}

const SEVERAL: [&str; 6] = ["shared_accessor", "shared_stream", "own_result", "race", "neighbour", "offset_bug"];
static ON_EIGHT: LazyLock<OpLibrary> = LazyLock::new(|| wrong(&SEVERAL, true));
static MEMORY: LazyLock<OpLibrary> = LazyLock::new(|| {
    let names = ["tcm_behind", "tcm_end", "element_behind", "block_behind", "tcm_freed", "tcm_kept", "tcm_unwritten"];
    wrong(&names, false)
});
static OTHERS: LazyLock<OpLibrary> =
    LazyLock::new(|| wrong(&["tensor_unwritten", "half_result", "untranslated", "stack_overflow", "flix"], false));

fn pool(library: &OpLibrary, rules: Rules, schedule: Schedule) -> Runtime {
    let target = PoolTarget { cores: library.files.len(), ..PoolTarget::default() };
    let mut runtime = Runtime::new(RuntimeOptions { target, rules, schedule, ..RuntimeOptions::default() }).unwrap();
    let files: Vec<&[u8]> = library.files.iter().map(|(_, bytes)| bytes.as_slice()).collect();
    runtime.load(&files).unwrap();
    runtime
}

fn floats(count: usize) -> Arg {
    let values: Vec<f32> = (0..count).map(|n| n as f32 - 3.0).collect();
    Arg::Tensor(Tensor::from_values(Shape::new(&[count]).unwrap(), &values).unwrap())
}

fn run(runtime: &mut Runtime, op: &str, args: &[Arg]) -> (Result<Tensor, Error>, Vec<Finding>) {
    let mut report = RunReport::default();
    let result = runtime.library().unwrap().op(op).unwrap().run_into(args, &mut report);
    (result, report.findings)
}

/// The findings of one operation on `count` elements.
fn findings(library: &OpLibrary, op: &str, count: usize) -> Vec<Finding> {
    run(&mut pool(library, Rules::all(), Schedule::Seeded(3)), op, &[floats(count)]).1
}

/// Whether the line of a finding is one of the operation's own.
fn line_is_in(finding: &Finding, op: &str) -> bool {
    let source = std::fs::read_to_string(DeviceBuild::default().sources().join("ops/findings.cpp")).unwrap();
    let first = source.lines().position(|line| line.contains(&format!(" {op}(const torch::Tensor"))).unwrap();
    let length = source.lines().skip(first).position(|line| line == "}").unwrap();
    let line = finding.line.unwrap_or(0) as usize;
    let file = finding.file.as_deref().unwrap_or_default();
    file.ends_with("ops/findings.cpp") && (first + 1..=first + 1 + length).contains(&line)
}

/// Its one finding, which must be at a place in the operation itself.
fn one(library: &OpLibrary, op: &str, count: usize) -> Finding {
    let found = findings(library, op, count);
    let [finding] = &found[..] else { panic!("{op}: {found:#?}") };
    let function = finding.function.as_deref().unwrap_or_default();
    assert!(function.contains(op) && finding.pc.is_some() && finding.offset.is_some(), "{op}: {finding:?}");
    // A result that is returned is the wrapper's, whose lines nobody wrote.
    if !function.contains("wrapper") {
        assert!(line_is_in(finding, op), "{op}: {finding}");
    }
    finding.clone()
}

#[test]
fn accessors_and_streams_on_several_cores_are_named() {
    for op in ["shared_accessor", "shared_stream"] {
        let finding = one(&ON_EIGHT, op, 8);
        assert_eq!(finding.code, "OB0840");
        assert!(finding.message.contains("elements of argument 0"), "{finding}");
    }
}

#[test]
fn operations_in_rust_are_diagnosed_with_their_lines() {
    const SOURCE: &str = "use customop::prelude::*;

/// Every core reads the first element through a stream, and writes the same one.
#[custom_op]
pub fn streams(x: &Tensor) -> Tensor {
    let y = routine::get_dst_tensor();
    let mut first = [ReadStream::<f32>::new(x).read()];
    y.write_from(&mut first, 0);
    y
}
";
    let scratch = tempfile::tempdir().unwrap();
    let source = scratch.path().join("streams.rs");
    std::fs::write(&source, SOURCE).unwrap();
    let schemas = vec!["ns::streams(Tensor x) -> (Tensor)".parse().unwrap()];
    let request = OpRequest::new(schemas, vec![source], "op.so", scratch.path());
    let library = DeviceBuild::default().op_library(&OpRequest { multicore: true, ..request }).unwrap();
    let found = findings(&library, "streams", 1);
    let line = |code: &str| {
        let finding = found.iter().find(|finding| finding.code == code).unwrap_or_else(|| panic!("{code}: {found:#?}"));
        assert!(finding.file.as_deref().unwrap_or_default().ends_with("streams.rs"), "{finding}");
        finding.line.unwrap()
    };
    assert_eq!((line("OB0840"), line("OB0842")), (7, 8));
}

#[test]
fn a_result_that_every_core_returns_is_named_instead_of_the_races_that_follow() {
    let finding = one(&ON_EIGHT, "own_result", 8);
    assert_eq!(finding.code, "OB0841");
}

#[test]
fn bytes_that_two_cores_touch_are_named_with_both() {
    let written = one(&ON_EIGHT, "race", 8);
    assert_eq!(written.code, "OB0842");
    assert!(written.message.contains("of the result is written by core"), "{written}");
    let read = &findings(&ON_EIGHT, "neighbour", 8)[0];
    assert_eq!(read.code, "OB0842");
}

#[test]
fn the_well_known_division_is_diagnosed_when_the_size_is_no_multiple_of_eight() {
    assert_eq!(findings(&ON_EIGHT, "offset_bug", 64), []);
    let found = findings(&ON_EIGHT, "offset_bug", 67);
    let codes: Vec<_> = found.iter().map(|finding| finding.code).collect();
    assert!(codes.contains(&"OB0844") && codes.contains(&"OB0848"), "{found:#?}");
    let outside = found.iter().find(|finding| finding.code == "OB0844").unwrap();
    assert_eq!(outside.core, 7);
    assert!(outside.message.contains("which has 268 bytes"), "{outside}");
}

#[test]
fn data_memory_is_for_what_was_taken_written_and_not_given_back() {
    for (op, code, words) in [
        ("tcm_behind", "OB0843", "4 bytes at offset 256 of 256 bytes of data memory"),
        ("tcm_end", "OB0843", "behind the 16 KiB"),
        ("tcm_freed", "OB0847", "which were given back"),
        ("tcm_unwritten", "OB0848", "is read, and was never written"),
    ] {
        let finding = one(&MEMORY, op, 8);
        assert!(finding.code == code && finding.message.contains(words), "{op}: {finding}");
    }
    let mut runtime = pool(&MEMORY, Rules::all(), Schedule::Seeded(1));
    assert_eq!(run(&mut runtime, "tcm_kept", &[floats(8)]).1, [], "the first time it is its own");
    let again = run(&mut runtime, "tcm_kept", &[floats(8)]).1;
    assert_eq!(again.iter().map(|finding| finding.code).collect::<Vec<_>>(), ["OB0847"]);
}

#[test]
fn offsets_outside_of_tensors_and_what_nobody_wrote_are_named() {
    for (library, op, code, words) in [
        (&MEMORY, "element_behind", "OB0844", "4 bytes at offset 32 of argument 0, which has 32 bytes"),
        (&MEMORY, "block_behind", "OB0844", "4 bytes at offset 32 of argument 0, which has 32 bytes"),
        (&OTHERS, "tensor_unwritten", "OB0848", "byte 0 of the tensor of 32 bytes that core 0 made is read"),
    ] {
        let finding = one(library, op, 8);
        assert!(finding.code == code && finding.message.contains(words), "{op}: {finding}");
    }
    let found = findings(&OTHERS, "half_result", 8);
    assert!(found.len() == 1 && found[0].message.contains("no core wrote the 16 from byte 16 on"), "{found:#?}");
}

#[test]
fn faults_are_explained() {
    for (op, code, words) in [
        ("untranslated", "OB0845", "the low half of an address in argument 0"),
        ("stack_overflow", "OB0849", "calls deep"),
        ("flix", "OB0851", "a bundle of the vector unit"),
    ] {
        let mut runtime = pool(&OTHERS, Rules::all(), Schedule::Seeded(3));
        let (result, found) = run(&mut runtime, op, &[floats(8)]);
        let Err(Error::Device(fault)) = result else { panic!("{op}: {result:?}") };
        assert!(fault.to_string().contains("ops/findings.cpp:"), "callers have lines: {fault}");
        let [finding] = &found[..] else { panic!("{op}: {found:#?}") };
        assert!(finding.code == code && finding.message.contains(words), "{op}: {finding}");
    }
}

#[test]
fn findings_do_not_depend_on_the_order_of_cores_and_change_no_byte() {
    for (op, count) in [("race", 8), ("own_result", 8), ("offset_bug", 67), ("shared_accessor", 8)] {
        let codes = |schedule| {
            let found = run(&mut pool(&ON_EIGHT, Rules::all(), schedule), op, &[floats(count)]).1;
            found.into_iter().map(|finding| (finding.code, finding.function, finding.offset)).collect::<Vec<_>>()
        };
        let first = codes(Schedule::Seeded(0));
        for seed in 1..20 {
            assert_eq!(codes(Schedule::Seeded(seed)), first, "{op}, seed {seed}");
        }
        assert_eq!(codes(Schedule::Threads), first, "{op}, on threads");
        let plain = run(&mut pool(&ON_EIGHT, Rules::default(), Schedule::Seeded(5)), op, &[floats(count)]);
        let watched = run(&mut pool(&ON_EIGHT, Rules::all(), Schedule::Seeded(5)), op, &[floats(count)]);
        assert_eq!(plain.1, []);
        assert_eq!(plain.0.unwrap(), watched.0.unwrap(), "{op}");
    }
}

#[test]
fn each_finding_can_be_allowed_or_denied() {
    let rules = Rules::all().with(Rule::Race, Policy::Allow);
    assert_eq!(run(&mut pool(&ON_EIGHT, rules, Schedule::Seeded(1)), "race", &[floats(8)]).1, []);
    let rules = Rules::all().with(Rule::Race, Policy::Deny);
    let found = run(&mut pool(&ON_EIGHT, rules, Schedule::Seeded(1)), "race", &[floats(8)]).1;
    assert!(found.len() == 1 && found[0].error, "{found:#?}");
}

#[test]
fn correct_operations_have_no_findings() {
    let matrix = |rows: usize, columns: usize| {
        let values: Vec<f32> = (0..rows * columns).map(|n| (n % 17) as f32 - 8.0).collect();
        Arg::Tensor(Tensor::from_values(Shape::new(&[rows, columns]).unwrap(), &values).unwrap())
    };
    let like = |dtype, shape: &[usize]| Some(OutputSpec { dtype, shape: shape.to_vec() });
    type Case<'a> = (&'a str, &'a str, bool, Vec<Arg>, Option<OutputSpec>);
    let cases: Vec<Case<'_>> = vec![
        ("relu.cpp", "ns::relu(Tensor x) -> (Tensor)", false, vec![matrix(5, 7)], None),
        ("relu.cpp", "ns::relu_tcm(Tensor x) -> (Tensor)", false, vec![matrix(50, 71)], None),
        ("relu.cpp", "ns::relu_multicore(Tensor x) -> (Tensor)", true, vec![matrix(50, 71)], None),
        ("negate.cpp", "ns::negate(Tensor x) -> (Tensor)", false, vec![matrix(3, 5)], None),
        (
            "matmul.cpp",
            "ns::matmul(Tensor a, Tensor b) -> (Tensor)",
            false,
            vec![matrix(5, 7), matrix(7, 3)],
            like(DType::Float32, &[5, 3]),
        ),
        ("softmax.cpp", "ns::softmax(Tensor x) -> (Tensor)", false, vec![matrix(5, 7)], None),
    ];
    for (source, schema, multicore, args, output) in cases {
        let library = build(source, &[schema], multicore);
        let mut runtime = pool(&library, Rules::all(), Schedule::Threads);
        let name = schema.parse::<Schema>().unwrap().name;
        let mut loaded = runtime.library().unwrap();
        let mut op = loaded.op(&name).unwrap();
        if let Some(output) = output {
            op = op.output(output);
        }
        let outcome = op.run(&args).unwrap();
        assert_eq!(outcome.report.findings, [], "{source} {name}");
    }
}
