//! Conformance of custom operations: what is right passes, and what is wrong is named by the one right code (promise P19).
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "check/support.rs"]
mod support;

use std::fs;

use outboard_device_build::{DeviceBuild, OpRequest, write_archive};
use support::*;

/// The samples of `device/ops`, in C++ and in Rust.
const SAMPLES: [(&str, &[&str]); 8] = [
    ("relu", &["relu_tcm(Tensor x)", "relu_multicore(Tensor x)"]),
    ("negate", &["negate(Tensor x)", "negate_int(Tensor x)"]),
    ("add", &["add(Tensor x, Tensor y)", "axpy(Tensor x, Tensor y, float a, int n)"]),
    ("matmul", &["matmul(Tensor x, Tensor y)"]),
    ("softmax", &["softmax(Tensor x)"]),
    ("quantise", &["quantise(Tensor x, float scale, int zero)", "dequantise(Tensor q, float scale, int zero)"]),
    ("topk", &["topk_parts(Tensor x, int k)", "topk_merge(Tensor parts, int k)"]),
    ("giou", &["giou(Tensor boxes, Tensor others)"]),
];

fn ops() -> std::path::PathBuf {
    DeviceBuild::default().sources().join("ops")
}

fn multicore(request: OpRequest) -> OpRequest {
    OpRequest { multicore: true, ..request }
}

#[test]
fn p19_the_eight_cxx_samples_pass_as_libraries_for_eight_cores() {
    for (name, functions) in SAMPLES {
        let files = files(&library(&ops().join(format!("{name}.cpp")), functions, multicore));
        passes(name, &judge("op_cpu3.so", &files, &[]), functions.len());
    }
}

#[test]
fn p19_rust_samples_pass_for_one_core_for_eight_and_for_the_resident_window() {
    let relu = |adjust: fn(OpRequest) -> OpRequest| {
        let (name, functions) = SAMPLES[0];
        (files(&library(&ops().join(format!("rust/{name}.rs")), functions, adjust)), functions.len())
    };
    let (files, count) = relu(|request| request);
    passes("relu for one core", &judge("op.so", &files, &[]), count);
    let (files, count) = relu(multicore);
    passes("relu for eight cores", &judge("op_cpu0.so", &files, &[]), count);
    passes("the manifest of relu for eight cores", &judge("op.ucode_lib.json", &files, &[]), count);
    let (files, count) = relu(|request| OpRequest { shape: resident(), ..request });
    passes("relu for the resident window", &judge("op.so", &files, &[]), count);
}

#[test]
fn p19_archives_of_rust_operations_pass() {
    for (name, operations) in [("relu", 2), ("sum", 1), ("add", 2)] {
        passes(name, &alone(&format!("lib{name}.a"), DeviceBuild::default().op(name).unwrap(), &[]), operations);
    }
}

#[test]
fn p19_objects_archives_and_libraries_of_a_cxx_operation_pass() {
    let object = cxx(GOOD, &[]);
    passes("an object", &alone("op.o", object.clone(), &[]), 2);
    let schemas = ["ns::scale(Tensor x, float f) -> (Tensor)", "ns::twice(Tensor x) -> (Tensor)"];
    passes("an object with its schemas", &alone("op.o", object.clone(), &schemas), 2);
    let archive = write_archive(&[("notes".to_owned(), b"text".to_vec()), ("op.o".to_owned(), object.clone())]);
    passes("an archive", &alone("op.a", archive, &[]), 2);
    let build = DeviceBuild::default();
    for (cores, name) in [(1, "op.so"), (8, "op_cpu0.so")] {
        let images = build.fixed(&[("op.o", &object), ("rt", &build.runtime(cores).unwrap())], cores).unwrap();
        let named = |(core, image)| (if cores == 1 { name.to_owned() } else { format!("op_cpu{core}.so") }, image);
        let files: Files = images.into_iter().enumerate().map(named).collect();
        passes(name, &judge(name, &files, &[]), 2);
    }
}

#[test]
fn p19_operations_with_every_kind_of_argument_constructors_and_large_stacks_pass() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("op.cpp");
    let text = "#include <torch/torch.h>\nstruct Table { int n; Table() : n(3) {} };\nstatic Table table;\n\
        torch::Tensor f(const torch::Tensor& x, const torch::Scalar& s, double d, int64_t n) {\n\
        volatile float kept[4000]; for (int i = 0; i < 4000; i++) kept[i] = i;\n\
        return torch::full(x.sizes(), kept[2] + n + table.n, x.scalar_type()); }\n\
        torch::Tensor g() { return torch::ones({1}, torch::kFloat); }\n";
    fs::write(&source, text).unwrap();
    let functions = ["f(Tensor x, Scalar s, float d, int n)", "g()"];
    let files = files(&library(&source, &functions, |request| OpRequest { stack: 40_000, ..request }));
    let judged = judge("op.so", &files, &[]);
    passes("every kind", &judged, 2);
    let pulls = judged.operations[0].pulls.clone().unwrap();
    assert_eq!(
        pulls,
        ["customop_next_tensor", "customop_next_scalar", "customop_next_float", "customop_next_longlong"]
    );
    passes("its manifest", &judge("op.ucode_lib.json", &files, &[]), 2);
}

#[test]
fn p19_what_is_wrong_with_a_registration_is_named() {
    for (sentence, changes, code, words) in [
        (
            "a count function is not there",
            &[("int get_func_cnt() {", "int get_count() {")][..],
            "OB0860",
            "get_func_cnt()",
        ),
        (
            "a name function has C linkage",
            &[("const char* get_func_name(int", "extern \"C\" const char* get_name(int")],
            "OB0860",
            "get_func_name(int)",
        ),
        ("the count is one too small", &[("return 2;", "return 1;")], "OB0861", "a function 1, `twice`"),
        ("the count is one too large", &[("return 2;", "return 3;")], "OB0861", "there are 2 functions"),
        ("the count is zero", &[("return 2;", "return 0;")], "OB0861", "returns 0"),
        ("the count is negative", &[("return 2;", "return -1;")], "OB0861", "returns -1"),
        ("a name has a namespace", &[("\"twice\"", "\"ns::twice\"")], "OB0862", "without their namespace"),
        ("a name is null", &[("return \"twice\"", "return nullptr")], "OB0862", "no text"),
        ("a name is too long", &[("\"twice\"", "\"a_name_that_has_thirty_two_bytes_\"")], "OB0862", "a model keeps 31"),
        ("two functions have one name", &[("\"twice\"", "\"scale\"")], "OB0863", "two functions are called `scale`"),
        ("an address is null", &[("return &twice_stack_switch", "return nullptr")], "OB0864", "is null"),
        (
            "an address is inside of a function",
            &[(
                "return &twice_stack_switch",
                "return reinterpret_cast<int (*)()>(reinterpret_cast<uint32_t>(&twice_wrapper) + 3)",
            )],
            "OB0864",
            "not where a function begins",
        ),
        (
            "the addresses are in another order than the names",
            &[("0: return \"scale\"", "1: return \"scale\""), ("1: return \"twice\"", "0: return \"twice\"")],
            "OB0865",
            "`twice` by its name and `scale` by its address",
        ),
        (
            "the count changes",
            &[("int get_func_cnt() { return 2; }", "int get_func_cnt() { static int n = 1; return ++n; }")],
            "OB0865",
            "another number",
        ),
        (
            "a constructor fails",
            &[("int get_func_cnt() {", "struct B { B() { abort(); } }; B broken;\nint get_func_cnt() {")],
            "OB0882",
            "abort",
        ),
        (
            "the count never returns",
            &[("return 2;", "for (volatile int n = 0;; n = n + 1) {}")],
            "OB0882",
            "instructions",
        ),
    ] {
        names(sentence, &alone("op.o", changed(changes), &[]), code, words);
    }
}

#[test]
fn p19_what_is_wrong_with_a_wrapper_is_named() {
    const FLOAT: &str = "double a1 = customop_next_float();";
    for (sentence, changes, code, words) in [
        (
            "the setup is missing",
            &[("customop_setup(true);\n  torch::Tensor a0", "torch::Tensor a0")][..],
            "OB0868",
            "before customop_setup",
        ),
        (
            "the setup has no result",
            &[("customop_setup(true);\n  torch::Tensor b0", "customop_setup(false);\n  torch::Tensor b0")],
            "OB0868",
            "customop_setup(true)",
        ),
        (
            "the setup comes twice",
            &[(FLOAT, "double a1 = customop_next_float(); customop_setup(true);")],
            "OB0868",
            "2 times",
        ),
        (
            "an argument is pulled by another routine",
            &[("customop_next_float()", "customop_next_longlong()")],
            "OB0869",
            "takes Tensor, float",
        ),
        (
            "the pulls are in the wrong order",
            &[
                ("torch::Tensor a0 = customop_next_tensor();", FLOAT),
                (
                    "double a1 = customop_next_float();\n  torch::Tensor result = scale",
                    "torch::Tensor a0 = customop_next_tensor();\n  torch::Tensor result = scale",
                ),
            ],
            "OB0869",
            "pulls float, tensor",
        ),
        ("an argument is not pulled", &[(FLOAT, "double a1 = 2;")], "OB0869", "pulls tensor, and"),
        (
            "an argument is pulled late",
            &[(
                "customop_return_tensor(result);\n  customop_cleanup();\n  return 0;\n}\n\nextern \"C\" int twice",
                "customop_return_tensor(result);\n  customop_next_tensor();\n  customop_cleanup();\n  return 0;\n}\n\nextern \"C\" int twice",
            )],
            "OB0869",
            "after the operation has begun",
        ),
        ("no result is published", &[("customop_return_tensor(result);", "")], "OB0870", "published no result"),
        ("the cleanup is missing", &[("customop_cleanup();", "")], "OB0871", "without customop_cleanup()"),
        (
            "the cleanup comes too early",
            &[(
                "customop_return_tensor(result);\n  customop_cleanup();",
                "customop_cleanup();\n  customop_return_tensor(result);",
            )],
            "OB0871",
            "customop_return_tensor after",
        ),
        (
            "the result has an element type that there is not",
            &[(
                "torch::empty(x.sizes(), x.scalar_type())",
                "torch::empty(x.sizes(), static_cast<torch::ScalarType>(7))",
            )],
            "OB0872",
            "unsupported dtype",
        ),
        (
            "the stack is larger than allowed",
            &[("STACK_SIZE, reinterpret_cast<uint32_t>(&scale", "0x500000, reinterpret_cast<uint32_t>(&scale")],
            "OB0876",
            "MAX_STACK_SIZE",
        ),
        (
            "the stack is smaller than what is used",
            &[(
                "torch::Tensor y =",
                "volatile char kept[9000]; for (int i = 0; i < 9000; i++) kept[i] = i;\n  torch::Tensor y =",
            )],
            "OB0876",
            "stack limit",
        ),
    ] {
        names(sentence, &alone("op.o", changed(changes), &[]), code, words);
    }
}
