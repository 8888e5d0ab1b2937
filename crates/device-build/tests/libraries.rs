//! Libraries of operations in C++ and Rust, built and run on the simulated pool.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};

use outboard_device_build::{DeviceBuild, OpError, OpLibrary, OpRequest, OpShape, Schema};
use outboard_gpsimd::{Arg, DispatchBy, OutputSpec, PoolTarget, RunReport, Runtime, RuntimeOptions};
use outboard_tensor::{DType, Shape, Tensor};

fn schema(text: &str) -> Schema {
    text.parse().unwrap()
}

fn op(name: &str) -> PathBuf {
    DeviceBuild::default().sources().join("ops").join(name)
}

fn request(schemas: &[&str], source: &Path, scratch: &Path) -> OpRequest {
    let schemas = schemas.iter().map(|text| schema(text)).collect();
    OpRequest::new(schemas, vec![source.to_owned()], "op.so", scratch)
}

fn build(request: &OpRequest) -> Result<OpLibrary, OpError> {
    DeviceBuild::default().op_library(request)
}

fn runtime(library: &OpLibrary, cores: usize) -> Runtime {
    let target = PoolTarget { cores, ..PoolTarget::default() };
    let mut runtime = Runtime::new(RuntimeOptions { target, ..RuntimeOptions::default() }).unwrap();
    let files: Vec<&[u8]> = library.files.iter().map(|(_, bytes)| bytes.as_slice()).collect();
    runtime.load(&files).unwrap();
    runtime
}

fn numbers(count: usize) -> Vec<f32> {
    (0..count).map(|n| if n % 3 == 0 { n as f32 } else { -(n as f32) * 0.5 }).collect()
}

fn relu(values: &[f32]) -> Vec<f32> {
    values.iter().map(|value| value.max(0.0)).collect()
}

fn floats(values: &[f32]) -> Arg {
    Arg::Tensor(Tensor::from_values(Shape::new(&[values.len()]).unwrap(), values).unwrap())
}

fn values(tensor: &Tensor) -> Vec<f32> {
    tensor.values().unwrap()
}

const MULTICORE: [&str; 2] = ["my_ops::relu_tcm(Tensor x) -> (Tensor)", "my_ops::relu_multicore(Tensor x) -> (Tensor)"];

#[test]
fn relu_in_cxx_runs_on_eight_cores_and_its_manifest_has_an_entry_for_each() {
    let scratch = tempfile::tempdir().unwrap();
    let library =
        build(&OpRequest { multicore: true, ..request(&MULTICORE, &op("relu.cpp"), scratch.path()) }).unwrap();
    let names: Vec<_> = library.files.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!((names.len(), names[0], names[7]), (8, "op_cpu0.so", "op_cpu7.so"));
    let text = serde_json::to_vec(&library.manifest).unwrap();
    let parsed = outboard_neff::parse_ucode_lib("ucode_lib.json", &text, Default::default()).unwrap();
    assert!(parsed.iter().zip(0..).all(|(entry, core)| entry.cpu_id == core && entry.total_cpus == 8));
    assert_eq!(parsed[0].functions[1].name, "relu_multicore");
    assert!(library.warnings.is_empty(), "{:?}", library.warnings);

    let mut runtime = runtime(&library, 8);
    let x = numbers(10_003);
    for name in ["relu_tcm", "relu_multicore"] {
        let y = runtime.library().unwrap().op(name).unwrap().run(&[floats(&x)]).unwrap();
        assert!(values(&y.result) == relu(&x), "{name}");
        assert!(y.report.cores.iter().all(|core| core.hooks.transfers > 0));
    }
}

#[test]
fn a_resident_library_that_does_not_fit_names_its_largest_symbols() {
    let scratch = tempfile::tempdir().unwrap();
    let source = scratch.path().join("large.cpp");
    let text = "#include <torch/torch.h>\nint history[4000];\n\
                torch::Tensor f(const torch::Tensor& x) { history[x.numel()]++; return x; }\n";
    fs::write(&source, text).unwrap();
    let shape = OpShape::Resident { bounds: *PoolTarget::default().bounds(), first_spec: 0x40 };
    let error = build(&OpRequest { shape, ..request(&["ns::f(Tensor x) -> (Tensor)"], &source, scratch.path()) });
    let text = error.unwrap_err().to_string();
    let largest = text.split("the largest symbols there, in bytes:\n").last().unwrap();
    assert!(text.contains("beyond the end of region data at 0x2002000"), "{text}");
    assert!(largest.trim_start().starts_with("16000 history (large.cpp)"), "{text}");
    assert_eq!(largest.lines().filter(|line| line.starts_with("  ")).count(), 10, "{text}");
}

#[test]
fn every_way_to_print_reaches_the_host_and_leaving_the_program_is_a_fault() {
    let scratch = tempfile::tempdir().unwrap();
    let source = scratch.path().join("says.cpp");
    let text = r#"
#include <cstdio>
#include <cstdlib>
#include <torch/torch.h>
torch::Tensor says(const torch::Tensor& x) {
  int length = std::printf("%d %s %lld %.1f %u %c %x|\n", -1, "two", 3ll << 32, 4.5, 5u, '6', 0x7f);
  std::puts("a line");
  int byte = std::putchar('!');
  torch::Tensor y = torch::zeros({2}, torch::kInt);
  auto answer = y.accessor<int, 1>();
  answer[0] = length;
  answer[1] = byte;
  return y;
}
torch::Tensor leaves(const torch::Tensor& x) {
  puts("before");
  _exit(3);
}
"#;
    fs::write(&source, text).unwrap();
    let schemas = ["ns::says(Tensor x) -> (Tensor)", "ns::leaves(Tensor x) -> (Tensor)"];
    let library = build(&request(&schemas, &source, scratch.path())).unwrap();
    let mut runtime = runtime(&library, 1);
    let spec = OutputSpec { dtype: DType::Int32, shape: vec![2] };
    let mut loaded = runtime.library().unwrap();
    let said = loaded.op("says").unwrap().output(spec).run(&[floats(&[1.0])]).unwrap();
    let expected = "-1 two 12884901888 4.5 5 6 7f|\n";
    assert_eq!(said.report.printed[0].text, format!("{expected}a line\n!"));
    let length = i32::try_from(expected.len()).unwrap();
    assert_eq!(said.result.values::<i32>().unwrap(), [length, i32::from(b'!')]);

    let mut report = RunReport::default();
    let error = loaded.op("leaves").unwrap().run_into(&[floats(&[1.0])], &mut report).unwrap_err();
    assert!(
        error.to_string().contains("exit() called: a custom operation returns from its wrapper instead"),
        "{error}"
    );
    assert_eq!(report.printed[0].text, "before\n", "what was printed is written out first");
}

#[test]
fn relu_in_cxx_becomes_a_resident_library_with_a_kernel_table() {
    let scratch = tempfile::tempdir().unwrap();
    let shape = OpShape::Resident { bounds: *PoolTarget::default().bounds(), first_spec: 0x40 };
    let library = build(&OpRequest { shape, ..request(&MULTICORE, &op("relu.cpp"), scratch.path()) }).unwrap();
    assert_eq!(library.files.len(), 1);
    let mut runtime = runtime(&library, 8);
    let x = numbers(2001);
    for by in [DispatchBy::FunctionId, DispatchBy::KernelTable] {
        let mut library = runtime.library().unwrap();
        let mut op = library.op("relu_multicore").unwrap().dispatch_by(by);
        assert!(values(&op.call(&[floats(&x)]).unwrap()) == relu(&x), "{by:?}");
    }
}

#[test]
fn relu_in_rust_runs_on_one_core_and_on_eight() {
    let scratch = tempfile::tempdir().unwrap();
    let x = numbers(3001);
    for multicore in [false, true] {
        let library =
            build(&OpRequest { multicore, ..request(&MULTICORE, &op("rust/relu.rs"), scratch.path()) }).unwrap();
        assert_eq!(library.files.len(), if multicore { 8 } else { 1 });
        let mut runtime = runtime(&library, library.files.len());
        for name in ["relu_tcm", "relu_multicore"] {
            let y = runtime.library().unwrap().op(name).unwrap().call(&[floats(&x)]).unwrap();
            assert!(values(&y) == relu(&x), "{name}, multicore {multicore}");
        }
    }
}

#[test]
fn libraries_in_rust_that_are_built_at_the_same_time_keep_their_own_code() {
    let built = |name: &str| {
        let scratch = tempfile::tempdir().unwrap();
        let text = format!(
            "use customop::prelude::*;\n#[custom_op]\nfn {name}(x: &Tensor) -> Tensor {{\n    \
             let (sizes, rank) = x.sizes();\n    Tensor::empty(&sizes[..rank], ScalarType::Float)\n}}\n"
        );
        let source = scratch.path().join("op.rs");
        fs::write(&source, text).unwrap();
        let schemas = [format!("ns::{name}(Tensor x) -> (Tensor)")];
        let library = build(&request(&[schemas[0].as_str()], &source, scratch.path())).unwrap();
        runtime(&library, 1).library().unwrap().functions()
    };
    std::thread::scope(|scope| {
        let names = ["first", "second", "third"];
        let threads = names.map(|name| scope.spawn(move || built(name)));
        for (thread, name) in threads.into_iter().zip(names) {
            assert_eq!(thread.join().unwrap(), [name]);
        }
    });
}

const EVERY: &str = "\
#![forbid(unsafe_code)]
use customop::prelude::*;

#[custom_op(schema = \"ns::every(Tensor x, Tensor y, Scalar s, Scalar t, float a, float b, int n, int m) -> (Tensor)\")]
fn sum(x: &Tensor, y: &Tensor, s: &Scalar, t: Scalar, a: f64, b: f32, n: i64, m: i32) -> Tensor {
    assert!(x.numel() == y.numel());
    let z = Tensor::empty(&[1], ScalarType::Float);
    let mut values = [0.0_f32; 2];
    x.read_into(&mut values[..1], 0);
    y.read_into(&mut values[1..], 0);
    let numbers = s.to_f64() + t.to_f64() + a + f64::from(b) + n as f64 + f64::from(m);
    z.write_from(&mut [values[0] + values[1] + numbers as f32], 0);
    z
}
";

#[test]
fn a_rust_function_with_the_attribute_gets_its_arguments_in_the_order_of_the_schema() {
    let scratch = tempfile::tempdir().unwrap();
    let source = scratch.path().join("every.rs");
    fs::write(&source, EVERY).unwrap();
    let schemas = ["ns::every(Tensor x, Tensor y, Scalar s, Scalar t, float a, float b, int n, int m) -> (Tensor)"];
    let library = build(&request(&schemas, &source, scratch.path())).unwrap();
    assert!(library.warnings.is_empty(), "{:?}", library.warnings);
    let mut runtime = runtime(&library, 1);
    let mut call = |count: usize, m: i64| {
        let (x, y) = (floats(&vec![1.0; count]), floats(&[2.0]));
        let numbers = [Arg::Int(10), Arg::Float(0.5), Arg::Float(0.25), Arg::Float(-4.0), Arg::Int(100), Arg::Int(m)];
        runtime
            .library()
            .unwrap()
            .op("every")
            .unwrap()
            .call(&[&[x, y][..], &numbers].concat())
            .map_err(|e| e.to_string())
    };
    assert_eq!(values(&call(1, -1000).unwrap())[0], 3.0 + 10.5 + 0.25 - 4.0 + 100.0 - 1000.0);
    let wide = call(1, 1 << 31).unwrap_err();
    assert!(wide.contains("does not fit into the 32 bits"), "{wide}");
    // What was asserted, and where.
    let other = call(2, 0).unwrap_err();
    assert!(other.contains("every.rs:6: assertion failed: x.numel() == y.numel()"), "{other}");
}

/// A crate with a dependency of its own.
fn crate_folder(folder: &Path, customop: &Path) -> PathBuf {
    let file = |name: &str, text: &str| {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    let package = |name: &str| format!("[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n");
    file("numbers/Cargo.toml", &package("numbers"));
    file("numbers/src/lib.rs", "#![no_std]\npub fn tripled(value: f32) -> f32 {\n    3.0 * value\n}\n");
    let dependencies =
        format!("[dependencies]\ncustomop = {{ path = {customop:?} }}\nnumbers = {{ path = \"../numbers\" }}\n");
    file("my-ops/Cargo.toml", &format!("{}\n{dependencies}", package("my-ops")));
    file("my-ops/src/lib.rs", "#![no_std]\n#![forbid(unsafe_code)]\nmod kernels;\npub use kernels::*;\n");
    let kernels = "use customop::prelude::*;\n\n#[custom_op]\npub fn triple(x: &Tensor) -> Tensor {\n    let y = Tensor::empty(&[x.numel()], \
                   ScalarType::Float);\n    for index in 0..x.numel() {\n        y.set(index, numbers::tripled(x.get(index)));\n    }\n    y\n}\n";
    file("my-ops/src/kernels.rs", kernels);
    folder.join("my-ops")
}

#[test]
fn a_crate_is_built_with_its_dependencies() {
    let scratch = tempfile::tempdir().unwrap();
    let device = DeviceBuild::default().sources().to_owned();
    let source = crate_folder(scratch.path(), &fs::canonicalize(device.join("customop")).unwrap());
    let schemas = ["my_ops::triple(Tensor x) -> (Tensor)"];
    let library = build(&request(&schemas, &source, &scratch.path().join("scratch"))).unwrap();
    assert!(library.warnings.is_empty(), "{:?}", library.warnings);
    let x = numbers(1000);
    let y = runtime(&library, 1).library().unwrap().op("triple").unwrap().call(&[floats(&x)]).unwrap();
    assert!(values(&y) == x.iter().map(|value| 3.0 * value).collect::<Vec<_>>());
    // What is not there, and a crate that is none.
    let other = ["my_ops::double(Tensor x) -> (Tensor)"];
    let error = build(&request(&other, &source, &scratch.path().join("scratch"))).unwrap_err();
    assert!(error.explain() == "OB0735" && error.to_string().contains("#[custom_op] fn double"), "{error}");
    let error = build(&request(&schemas, &scratch.path().join("numbers"), scratch.path())).unwrap_err();
    assert!(error.explain() == "OB0732" && error.to_string().contains("add `customop = { path = "), "{error}");
    let error = build(&request(&schemas, scratch.path(), scratch.path())).unwrap_err();
    assert!(error.explain() == "OB0732" && error.to_string().contains("Cargo.toml"), "{error}");
}

#[test]
fn the_operation_in_rust_of_the_reference_page_builds_and_runs() {
    let scratch = tempfile::tempdir().unwrap();
    let page = include_str!("../../../docs/reference/custom-ops.md");
    let source = scratch.path().join("scale.rs");
    fs::write(&source, page.split("```rust\n").nth(1).unwrap().split("```").next().unwrap()).unwrap();
    let schemas = ["my_ops::scale(Tensor x, float factor) -> (Tensor)"];
    let library = build(&OpRequest { multicore: true, ..request(&schemas, &source, scratch.path()) }).unwrap();
    let x = numbers(9001);
    let y = runtime(&library, 8).library().unwrap().op("scale").unwrap().call(&[floats(&x), Arg::Float(2.5)]).unwrap();
    assert!(values(&y) == x.iter().map(|value| value * 2.5).collect::<Vec<_>>());
}

const DEEP: &str = "\
#include <torch/torch.h>
torch::Tensor deep(const torch::Tensor& x, int64_t n) {
  volatile float kept[8000];
  for (int i = 0; i < 8000; i++) kept[i] = i;
  float sum = 0;
  for (int i = 0; i < 8000; i += 4000) sum += kept[i];
  return torch::full(x.sizes(), sum + n, torch::kFloat);
}
";

#[test]
fn an_operation_gets_the_stack_that_it_asks_for() {
    let scratch = tempfile::tempdir().unwrap();
    let source = scratch.path().join("deep.cpp");
    fs::write(&source, DEEP).unwrap();
    let schemas = ["ns::deep(Tensor x, int n) -> (Tensor)"];
    let request = OpRequest { stack: 40_000, ..request(&schemas, &source, scratch.path()) };
    let library = build(&request).unwrap();
    let y =
        runtime(&library, 1).library().unwrap().op("deep").unwrap().call(&[floats(&[0.0; 3]), Arg::Int(7)]).unwrap();
    assert_eq!(values(&y), [4007.0; 3]);
}

#[test]
fn what_is_wrong_with_a_request_or_a_source_is_said() {
    let scratch = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = scratch.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let cxx = file("a.cpp", "#include <torch/torch.h>\ntorch::Tensor f(torch::Tensor x) { return x; }\n");
    let variable = file("e.cpp", "#include <cstdarg>\n");
    let unknown = file("b.cpp", "int f(int x) { return y; }\n");
    let rust = file("c.rs", "");
    let plain = file("e.rs", "use customop::prelude::*;\npub fn f(x: &Tensor) -> Tensor {\n    *x\n}\n");
    let takes = |name: &str, attribute: &str, argument: &str| {
        file(name, &format!("use customop::prelude::*;\n{attribute}\nfn f({argument}) -> Tensor {{\n    *x\n}}\n"))
    };
    let typed = takes("g.rs", "#[custom_op]", "x: &Tensor, _a: f64");
    let spaced = takes("h.rs", "#[custom_op(schema = \"other::f(Tensor x) -> (Tensor)\")]", "x: &Tensor");
    let unsupported = takes("i.rs", "#[custom_op]", "x: &Tensor, _a: &[f64]");
    let text = file("d.txt", "");
    let f = ["ns::f(Tensor x) -> (Tensor)"];
    let base = |source: &Path| request(&f, source, scratch.path());
    let many: Vec<Schema> = (0..11).map(|n| schema(&format!("ns::f{n}(Tensor x) -> (Tensor)"))).collect();
    let shape = OpShape::Resident { bounds: *PoolTarget::default().bounds(), first_spec: 255 };
    for (request, code, words) in [
        (base(&cxx), "OB0735", "torch::Tensor f(const torch::Tensor& x)"),
        (base(&unknown), "OB0734", "undeclared identifier 'y'"),
        (base(&variable), "OB0734", "use a template with a parameter pack instead of va_list"),
        (base(&plain), "OB0735", "#[custom_op] fn f(x: &Tensor) -> Tensor"),
        (base(&typed), "OB0735", "#[custom_op] fn f(x: &Tensor) -> Tensor"),
        (base(&spaced), "OB0735", "the schema `ns::f(Tensor x) -> (Tensor)` promises"),
        (base(&unsupported), "OB0734", "an operation takes &Tensor, &Scalar"),
        (base(&text), "OB0732", "`.txt` is no source"),
        (base(&scratch.path().join("none.cpp")), "OB0732", "No such file"),
        (OpRequest { stack: 0, ..base(&cxx) }, "OB0732", "a stack of 0 bytes"),
        (OpRequest { stack: 0x40_0001, ..base(&cxx) }, "OB0732", "it has 1 to 4194304"),
        (OpRequest { schemas: many.clone(), ..base(&cxx) }, "OB0732", "11 operations"),
        (OpRequest { schemas: vec![many[0].clone(), many[0].clone()], ..base(&cxx) }, "OB0732", "two schemas"),
        (OpRequest { schemas: Vec::new(), ..base(&cxx) }, "OB0732", "0 operations"),
        (OpRequest { sources: Vec::new(), ..base(&cxx) }, "OB0732", "no sources"),
        (OpRequest { sources: vec![cxx.clone(), rust.clone()], ..base(&cxx) }, "OB0732", "not in both"),
        (
            OpRequest { sources: vec![rust.clone(), rust.clone()], ..base(&cxx) },
            "OB0732",
            "several Rust files or crates",
        ),
        (OpRequest { name: "n".repeat(28), multicore: true, ..base(&cxx) }, "OB0732", "longer than 31"),
        (OpRequest { schemas: many[..2].to_vec(), shape, ..base(&cxx) }, "OB0732", "opcodes end at 255"),
    ] {
        let error = build(&request).unwrap_err();
        assert!(error.explain() == code && error.to_string().contains(words), "{words}: {} {error}", error.explain());
    }
}

#[test]
fn device_code_that_is_not_there_is_named() {
    let scratch = tempfile::tempdir().unwrap();
    let elsewhere = DeviceBuild::new(scratch.path().join("device"), scratch.path().join("target"));
    let error = elsewhere.op_library(&request(&MULTICORE, &op("relu.cpp"), scratch.path())).unwrap_err();
    assert!(error.to_string().contains("set OUTBOARD_DEVICE"), "{error}");
}
