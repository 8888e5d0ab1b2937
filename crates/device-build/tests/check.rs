//! Conformance of custom operations: what is right passes, and what is wrong is named by the one right code (promise P19).
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "check/support.rs"]
mod support;

use std::fs;

use outboard_device_build::{DeviceBuild, OpRequest, write_archive};
use outboard_elf::archive::Archive;
use outboard_elf::{Class, Elf, StringTable, SymbolTable, sht};
use outboard_link::build::Inputs;
use outboard_link::check::Severity;
use outboard_link::shape::fll;
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

#[test]
fn p19_what_is_wrong_with_an_object_or_an_archive_is_named() {
    let object = cxx(GOOD, &[]);
    let patched = |at: usize, bytes: &[u8]| {
        let mut file = object.clone();
        file[at..at + bytes.len()].copy_from_slice(bytes);
        file
    };
    let bundle = "f:\n entry a1, 32\n .byte 0x4f, 0x80, 0xa0, 0x80, 0x11, 0xc3, 0x20, 0x21\n retw\n.size f, . - f\n";
    let bundle = format!(".text\n.global f\n.type f, @function\n{bundle}");
    let bundle = DeviceBuild::default().assemble("f.S", &bundle).unwrap();
    let both = write_archive(&[("op.o".to_owned(), object.clone()), ("f.o".to_owned(), bundle)]);
    let call4 = ".text\n.global f\n.type f, @function\nf:\n entry a1, 32\n callx4 a4\n retw\n.size f, . - f\n";
    let call4 = DeviceBuild::default().assemble("f.S", call4).unwrap();
    let call4 = write_archive(&[("op.o".to_owned(), object.clone()), ("f.o".to_owned(), call4)]);
    let archive = write_archive(&[("op.o".to_owned(), object.clone())]);
    let call0 = cxx(GOOD, &["-Xclang", "-target-feature", "-Xclang", "-windowed"]);
    let body = "torch::Tensor y = torch::empty";
    let with = |head: &str, text: &str| {
        changed(&[
            ("torch::Tensor scale(", &format!("{head}\ntorch::Tensor scale(")),
            (body, &format!("{text}\n  {body}")),
        ])
    };
    for (sentence, name, file, code, words) in [
        ("another machine", "op.o", patched(18, &[62, 0]), "OB0873", "op.o: ELF header"),
        ("a 64-bit file", "op.o", patched(4, &[2]), "OB0873", "64-bit"),
        ("a big-endian file", "op.o", patched(5, &[2]), "OB0873", "big-endian"),
        ("half a file", "op.o", object[..object.len() / 2].to_vec(), "OB0886", "sound"),
        ("half an archive", "op.a", archive[..archive.len() - 100].to_vec(), "OB0886", ""),
        (
            "an archive of texts",
            "op.a",
            write_archive(&[("notes".to_owned(), b"text".to_vec())]),
            "OB0886",
            "without objects",
        ),
        ("no file of a device", "op.o", b"hello".to_vec(), "OB0604", "no file of a GPSIMD device"),
        ("an archive with a bundle", "op.a", both, "OB0875", "op.a(f.o): .text+0x3 (f)"),
        ("a call of four registers", "op.a", call4, "OB0874", "callx4"),
        ("code without register windows", "op.o", call0, "OB0874", "call0"),
        (
            "an unknown routine",
            "op.o",
            with("extern \"C\" void nowhere();", "nowhere();"),
            "OB0866",
            "nowhere is not defined",
        ),
        (
            "a misspelt routine",
            "op.o",
            with("void customop_set_up(bool);", "customop_set_up(true);"),
            "OB0866",
            "alike: _Z14customop_setupb",
        ),
        (
            "a routine of the runtime",
            "op.o",
            with("extern \"C\" void vprintf(int, int, int) {}", ""),
            "OB0867",
            "vprintf is defined",
        ),
        (
            "a section without a place",
            "op.o",
            with("__attribute__((section(\"odd\"))) volatile int kept = 1;", "kept = 2;"),
            "OB0881",
            "OB0708",
        ),
        (
            "more memory than there is",
            "op.o",
            with("char large[0x3000000];", "asm volatile(\"\" :: \"r\"(large));"),
            "OB0880",
            "beyond the end of region",
        ),
    ] {
        names(sentence, &alone(name, file, &[]), code, words);
    }
}

#[test]
fn p19_what_only_a_call_shows_is_a_warning() {
    let body = "torch::Tensor y = torch::empty";
    let with = |text: &str| changed(&[(body, &format!("{text}\n  {body}"))]);
    for (sentence, file, code, words) in [
        ("an operation that refuses everything", with("TORCH_CHECK(x.dim() == 5);"), "OB0883", "x.dim() == 5"),
        (
            "an operation that writes nowhere",
            with("*reinterpret_cast<volatile int*>(0x70000000) = 1;"),
            "OB0884",
            "0x70000000",
        ),
    ] {
        let judged = alone("op.o", file, &[]);
        names(sentence, &judged, code, words);
        assert!(judged.findings.iter().all(|finding| finding.severity == Severity::Warning), "{sentence}");
        let completed: Vec<_> = judged.operations.iter().map(|operation| operation.completed).collect();
        assert_eq!(completed, [false, true], "{sentence}");
    }
    let (object, runtime) = (cxx(GOOD, &[]), DeviceBuild::default().runtime(1).unwrap());
    let mut inputs = Inputs::new();
    inputs.add("op.o", &object).unwrap();
    inputs.add("rt", &runtime).unwrap();
    let stripped = fll::FllOptions { strip: true, ..fll::FllOptions::new(fll::Cpu::Single) };
    let judged = alone("op.so", fll::link(inputs, &stripped).unwrap().image, &[]);
    names("a library without names", &judged, "OB0883", "no names of functions");
    assert!(judged.operations.iter().all(|operation| operation.pulls.is_none() && operation.completed));
}

#[test]
fn p19_schemas_are_compared_with_what_is_pulled() {
    let object = cxx(GOOD, &[]);
    for (sentence, schema, code, words) in [
        ("another type", "ns::scale(Tensor x, int f) -> (Tensor)", "OB0869", "takes Tensor, int"),
        ("another function", "ns::scales(Tensor x) -> (Tensor)", "OB0885", "scales"),
    ] {
        names(sentence, &alone("op.o", object.clone(), &[schema]), code, words);
    }
    let many: String = (2..11).map(|n| format!("case {n}: return names + {n} * 2;")).collect();
    let names_of =
        "static const char names[] = \"a\\0b\\0c\\0d\\0e\\0f\\0g\\0h\\0i\\0j\\0k\";\nconst char* get_func_name(";
    let addresses: String = (2..11).map(|n| format!("case {n}: return &twice_stack_switch;")).collect();
    let eleven = changed(&[
        ("return 2;", "return 11;"),
        ("const char* get_func_name(", names_of),
        ("default: return \"error\"", &format!("{many} default: return \"error\"")),
        ("default: return nullptr", &format!("{addresses} default: return nullptr")),
    ]);
    names("eleven functions", &alone("op.o", eleven, &[]), "OB0880", "11 functions");
}

/// Links the good operation for eight cores.
fn eight(object: &[u8]) -> Files {
    let build = DeviceBuild::default();
    let images = build.fixed(&[("op.o", object), ("rt", &build.runtime(8).unwrap())], 8).unwrap();
    images.into_iter().enumerate().map(|(core, image)| (format!("op_cpu{core}.so"), image)).collect()
}

#[test]
fn p19_what_is_wrong_with_the_files_of_the_cores_is_named() {
    let good = eight(&cxx(GOOD, &[]));
    let other = eight(&changed(&[("torch::mul(x, 2)", "torch::mul(x, 3)")]));
    let counts = eight(&changed(&[
        ("#include <torch/torch.h>", "#include <torch/torch.h>\n#include <neuron/neuron-utils.hpp>"),
        ("static_cast<float>(factor)", "static_cast<float>(factor * get_cpu_count())"),
    ]));
    let file = |core: usize| format!("op_cpu{core}.so");
    let with = |name: String, bytes: &[u8]| {
        let mut files = good.clone();
        files.insert(name, bytes.to_vec());
        files
    };
    let mut missing = good.clone();
    missing.remove(&file(5));
    let mut damaged = good[&file(6)].clone();
    damaged[0x200] ^= 1;
    for (sentence, name, files, code, words) in [
        ("a missing file", file(0), missing, "OB0877", "op_cpu5.so: the file of core 5"),
        ("a file in the place of another", file(0), with(file(1), &good[&file(2)]), "OB0877", "is linked for core 2"),
        ("a file of another program", file(0), with(file(3), &other[&file(3)]), "OB0878", "op_cpu3.so"),
        ("a file with one bit changed", file(0), with(file(6), &damaged), "OB0878", "op_cpu6.so"),
        ("a file that is cut off", file(0), with(file(7), &good[&file(7)][..900]), "OB0886", "op_cpu7.so"),
        (
            "a core's file under another name",
            "x.so".to_owned(),
            with("x.so".into(), &good[&file(3)]),
            "OB0877",
            "core 3",
        ),
        (
            "one of eight alone",
            "x.so".to_owned(),
            with("x.so".into(), &counts[&file(0)]),
            "OB0877",
            "get_cpu_count() is 8",
        ),
    ] {
        names(sentence, &judge(&name, &files, &[]), code, words);
    }
}

#[test]
fn p19_what_is_wrong_with_a_manifest_is_named() {
    let source = ops().join("negate.cpp");
    let good = files(&library(&source, SAMPLES[1].1, multicore));
    let text = String::from_utf8(good["op.ucode_lib.json"].clone()).unwrap();
    let with = |from: &str, to: &str| {
        assert!(text.contains(from), "{text}");
        let mut files = good.clone();
        files.insert("op.ucode_lib.json".to_owned(), text.replace(from, to).into_bytes());
        files
    };
    let mut missing = good.clone();
    missing.remove("op_cpu2.so");
    let mut one = files(&library(&source, SAMPLES[1].1, |request| request));
    let said = String::from_utf8(one["op.ucode_lib.json"].clone()).unwrap();
    one.insert("op.ucode_lib.json".to_owned(), said.replace("\"total_cpus\":1", "\"total_cpus\":8").into_bytes());
    for (sentence, files, code, words) in [
        ("a missing file", missing, "OB0877", "names op_cpu2.so"),
        ("another function", with("\"negate_int\"", "\"negate_all\""), "OB0879", "negate_all"),
        ("another number of cores", one, "OB0879", "says total_cpus 8"),
        ("another opcode", with("\"opcode\":133", "\"opcode\":134"), "OB0652", "0x86"),
        ("numbers in another order", with("\"sub_opcode\":1", "\"sub_opcode\":7"), "OB0652", "sub_opcodes"),
        ("another version", with("\"1.21.1.0\"", "\"2.0.0.0\""), "OB0648", "Mismatch"),
        ("half a manifest", with(&text[text.len() / 2..], ""), "OB0604", "neither"),
    ] {
        names(sentence, &judge("op.ucode_lib.json", &files, &[]), code, words);
    }
}

#[test]
fn p19_damaged_files_are_judged_without_a_panic_and_within_their_budget() {
    let object = cxx(GOOD, &[]);
    let runtime = DeviceBuild::default().runtime(1).unwrap();
    let image = DeviceBuild::default().fixed(&[("op.o", &object), ("rt", &runtime)], 1).unwrap().remove(0);
    let mut seed = 1_u64;
    let mut random = |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % below
    };
    let mut codes = std::collections::BTreeSet::new();
    for round in 0..60 {
        let (name, mut file) = if round % 2 == 0 { ("op.o", object.clone()) } else { ("op.so", image.clone()) };
        // Headers and tables are where a reader trusts most; the rest is code.
        let end = if round % 4 < 2 { 0x40 } else { file.len() };
        for _ in 0..4 {
            let at = random(end);
            file[at] = u8::try_from(random(256)).unwrap();
        }
        let judged = alone(name, file, &[]);
        codes.extend(judged.findings.iter().map(|finding| finding.code));
    }
    assert!(codes.len() > 3, "{codes:?}");
}

#[test]
fn p19_a_thousand_symbols_with_one_long_name_are_a_damaged_file() {
    let mut file = cxx(GOOD, &[]);
    let word = |file: &[u8], at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap()) as usize;
    let put = |file: &mut Vec<u8>, at: usize, value: usize| {
        file[at..at + 4].copy_from_slice(&u32::try_from(value).unwrap().to_le_bytes());
    };
    let (headers, count) = (word(&file, 32), u16::from_le_bytes([file[48], file[49]]) as usize);
    let table = (0..count).map(|index| headers + 40 * index).find(|at| word(&file, at + 4) == 2).unwrap();
    let strings = headers + 40 * word(&file, table + 24);
    let at = file.len();
    file.extend([b"\0".as_slice(), &[b'n'; 4000], b"\0"].concat());
    put(&mut file, strings + 16, at);
    put(&mut file, strings + 20, 4002);
    let at = file.len();
    file.extend([[0; 16], [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x12, 0, 0, 0]].concat());
    for _ in 0..1000 {
        file.extend([1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x12, 0, 0, 0]);
    }
    put(&mut file, table + 16, at);
    let size = file.len() - at;
    put(&mut file, table + 20, size);
    names("one long name", &alone("op.o", file, &[]), "OB0886", "the length of all symbol names");
}

#[test]
fn p19_a_name_inside_of_the_runtime_is_none_that_it_offers() {
    let runtime = DeviceBuild::default().runtime(1).unwrap();
    let inner = Archive::open(&runtime).unwrap().flatten().find_map(|member| {
        let sections = Elf::parse(member.data).ok()?.sections().ok()?;
        let table = sections.iter().find(|section| section.kind == sht::SYMTAB)?;
        let strings = sections.data(&sections.get(table.link as usize)?).ok()?;
        let strings = StringTable::new("names", strings).ok()?;
        let symbols = SymbolTable::new(Class::Elf32, sections.data(&table).ok()?);
        let globals = symbols.iter().filter(|symbol| symbol.defined() && !symbol.local());
        let mut names = globals.filter_map(|symbol| strings.get("a name", symbol.name.into(), 4096).ok());
        names
            .find(|name| name.starts_with(b"_R") || name.starts_with(b"__rust"))
            .map(|name| String::from_utf8_lossy(name).into_owned())
    });
    let inner = inner.unwrap();
    let user =
        format!(".text\n.global f\n.type f, @function\nf:\n entry a1, 32\n movi a2, {inner}\n retw\n.size f, . - f\n");
    let user = DeviceBuild::default().assemble("f.S", &user).unwrap();
    let archive = write_archive(&[("op.o".to_owned(), cxx(GOOD, &[])), ("f.o".to_owned(), user)]);
    names("an inner name", &alone("op.a", archive, &[]), "OB0866", "inside of the runtime");
}
