//! `outboard op run` as a program sees it: results, reports, exit codes.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use outboard_device_build::DeviceBuild;
use outboard_tensor::{Shape, Tensor};
use outboard_ucode::cores;
use serde_json::Value;
use std::path::Path;
use support::{code, json, outboard, stderr, stdout};
use tempfile::TempDir;

fn save(folder: &TempDir, name: &str, tensor: &Tensor) -> String {
    let path = folder.path().join(name);
    std::fs::write(&path, tensor.view().to_npy().unwrap()).unwrap();
    name.to_owned()
}

fn floats(values: &[f32]) -> Tensor {
    Tensor::from_values(Shape::new(&[values.len()]).unwrap(), values).unwrap()
}

/// A folder with an operation as a resident library and its argument.
fn folder(op: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let bounds = cores::find("cayman").unwrap().bounds;
    let linked = DeviceBuild::default().resident_op(op, &bounds).unwrap();
    std::fs::write(folder.path().join(format!("{op}.pi")), linked.image).unwrap();
    save(&folder, "x.npy", &floats(&[-1.5, 2.0, -3.0, 4.25, 5.0]));
    folder
}

fn result(folder: &TempDir, name: &str) -> Vec<f32> {
    Tensor::from_npy(&std::fs::read(folder.path().join(name)).unwrap()).unwrap().values().unwrap()
}

fn run(folder: &Path, arguments: &[&str]) -> std::process::Output {
    outboard(folder, &[&["op", "run"], arguments].concat())
}

#[test]
fn an_operation_runs_from_files_to_a_file_and_reports() {
    let folder = folder("relu");
    let base = ["relu.pi", "--op", "relu_forward", "--arg", "x.npy", "-o", "y.npy"];
    let plain = run(folder.path(), &[&base[..], &["--stats", "--profile"]].concat());
    assert_eq!(code(&plain), 0, "{}", stderr(&plain));
    assert_eq!(result(&folder, "y.npy"), [0.0, 2.0, 0.0, 4.25, 5.0]);
    let text = stdout(&plain);
    assert!(text.starts_with("relu_forward: float32 [5]\n8 cores, "), "{text}");
    assert!(text.contains("doorbells") && text.contains("core 7: "), "{text}");
    let report = json(&run(folder.path(), &[&base[..], &["--json", "--seed", "4", "--trace"]].concat()));
    assert_eq!((&report["status"], &report["outputs"][0]["file"]), (&Value::from("ok"), &Value::from("y.npy")));
    assert_eq!(report["cores"].as_array().unwrap().len(), 8);
    assert!(report["routines"].as_array().unwrap().iter().any(|call| call["routine"] == "customop_cleanup"));
    assert_eq!(report["notifications"][0]["queue"], 6);
}

#[test]
fn numbers_are_arguments_and_a_prelinked_image_is_the_third_channel() {
    let folder = folder("add");
    save(&folder, "y.npy", &floats(&[1.0; 5]));
    let arguments = ["--op", "axpy", "--arg", "x.npy", "--arg", "y.npy", "--arg", "0.5", "--arg", "-3"];
    let direct = run(folder.path(), &[&["add.pi", "-o", "z.npy"][..], &arguments].concat());
    assert_eq!(code(&direct), 0, "{}", stderr(&direct));
    assert_eq!(result(&folder, "z.npy"), [-3.75, -2.0, -4.5, -0.875, -0.5]);
    let prelinked = outboard(
        folder.path(),
        &["prelink", "--target", "gpsimd", "--core-kind", "cayman", "add.pi", "-o", "add.ucpl"],
    );
    assert_eq!(code(&prelinked), 0, "{}", stderr(&prelinked));
    let pair = run(folder.path(), &[&["add.ucpl", "-o", "w.npy"][..], &arguments].concat());
    assert_eq!(code(&pair), 0, "{}", stderr(&pair));
    assert_eq!(result(&folder, "w.npy"), result(&folder, "z.npy"));
}

#[test]
fn a_wrong_request_is_status_1_and_says_what_to_do() {
    let folder = folder("relu");
    save(&folder, "wide.npy", &Tensor::from_values(Shape::new(&[2]).unwrap(), &[1.0_f64, 2.0]).unwrap());
    save(&folder, "scalar.npy", &Tensor::from_values(Shape::new(&[]).unwrap(), &[1.0_f32]).unwrap());
    save(&folder, "long.npy", &Tensor::from_values(Shape::new(&[70_000]).unwrap(), &vec![1_u8; 70_000]).unwrap());
    for (arguments, named) in [
        (vec!["relu.pi", "--arg", "x.npy"], "--op NAME"),
        (vec!["relu.pi", "--op", "gelu", "--arg", "x.npy"], "relu_forward, relu_backward"),
        (vec!["relu.pi", "--op", "relu_forward", "--arg", "wide.npy"], "float64"),
        (vec!["relu.pi", "--op", "relu_forward", "--arg", "scalar.npy"], "at least one dimension"),
        (vec!["relu.pi", "--op", "relu_forward", "--arg", "long.npy"], "dimension 70000"),
        (vec!["relu.pi", "--op", "relu_forward"], "no tensor is passed"),
        (vec!["relu.pi", "--op", "relu_forward", "--arg", "gone.npy"], "gone.npy"),
        (vec!["relu.pi", "--op", "relu_forward", "--arg", "x.npy", "--cores", "3"], "expected 1, 4 or 8"),
        (vec!["relu.pi", "--op", "relu_forward", "--arg", "x.npy", "--cores", "4"], "get_cpu_count() is 8"),
        (vec!["relu.pi", "relu.pi", "--op", "relu_forward", "--arg", "x.npy"], "2 images"),
        (vec!["x.npy", "--op", "relu_forward", "--arg", "x.npy"], "library 0"),
    ] {
        let output = run(folder.path(), &arguments);
        assert_eq!(code(&output), 1, "{arguments:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(named), "{named}: {}", stderr(&output));
    }
}

#[test]
fn findings_are_told_denied_allowed_and_not_looked_for() {
    // What the other half of the result would be, nobody writes.
    let folder = folder("sum");
    let base = ["sum.pi", "--op", "sum", "--arg", "x.npy", "--shape", "16", "--json"];
    let run = |more: &[&str]| run(folder.path(), &[&base[..], more].concat());
    let told = run(&["-o", "y.npy"]);
    let report = json(&told);
    assert_eq!(code(&told), 0, "{}", stderr(&told));
    let finding = &report["findings"][0];
    assert_eq!((&finding["code"], &finding["error"]), (&Value::from("OB0848"), &Value::from(false)));
    assert!(stderr(&told).contains("finding[OB0848] core 0: the result has 64 bytes"), "{}", stderr(&told));
    for deny in ["OB0848", "all"] {
        let denied = run(&["--deny", deny, "-o", "z.npy"]);
        assert_eq!(code(&denied), 3);
        assert_eq!(json(&denied)["status"], "error");
        assert!(stderr(&denied).contains("error[OB0848]"), "{}", stderr(&denied));
        assert!(!folder.path().join("z.npy").exists(), "nothing is written");
    }
    for quiet in [&["--allow", "OB0848", "--deny", "all"][..], &["--no-diagnose", "--deny", "all"]] {
        let output = run(quiet);
        assert_eq!((code(&output), &json(&output)["findings"]), (0, &serde_json::json!([])), "{quiet:?}");
    }
    let unknown = run(&["--deny", "OB0839"]);
    assert!(code(&unknown) == 1 && stderr(&unknown).contains("is no code of the diagnosis"), "{}", stderr(&unknown));
}

#[test]
fn an_abort_on_the_device_is_status_2_with_text_core_pc_and_callers() {
    // Too few arguments: the kernel pulls one that is not there.
    let folder = folder("relu");
    let base = ["relu.pi", "--op", "relu_backward", "--arg", "x.npy", "--seed", "1"];
    let output = run(folder.path(), &base);
    assert_eq!(code(&output), 2);
    let text = stderr(&output);
    assert!(text.contains("abort: arg_parser.hpp:66: curr_arg_ < num_args at pc 0x"), "{text}");
    assert!(text.contains("called from") && text.contains("relu_backward_wrapper"), "{text}");
    let report = json(&run(folder.path(), &[&base[..], &["--json"]].concat()));
    assert_eq!((&report["error"], &report["cause"]), (&Value::from("device_fault"), &Value::from("abort")));
    assert!(report["text"].as_str().unwrap().starts_with("arg_parser.hpp:66"));
    assert!(report["backtrace"].as_array().unwrap().len() > 3 && report["core"].is_u64());
}

const SCALE: &str = "\
use customop::prelude::*;

#[custom_op]
fn shift(x: &Tensor, by: i64) -> Tensor {
    let y = routine::get_dst_tensor();
    let Some(mut block) = Tcm::<f32>::new(64) else { fail(\"no data memory\") };
    let (mut at, end) = share(x.numel());
    while at < end {
        let values = &mut block.as_mut()[..(end - at).min(64) as usize];
        x.read_into(values, at);
        values.iter_mut().for_each(|value| *value += by as f32);
        y.write_from(values, at);
        at += values.len() as u32;
    }
    y
}

#[custom_op]
fn weigh(x: &Tensor, y: &Tensor, a: f64) -> Tensor {
    let z = Tensor::empty(&[1], ScalarType::Float);
    let mut values = [0.0_f32; 2];
    x.read_into(&mut values[..1], 0);
    y.read_into(&mut values[1..], 0);
    z.write_from(&mut [values[0] + a as f32 * values[1]], 0);
    z
}
";
const SCHEMAS: [&str; 4] = [
    "--schema",
    "ns::shift(Tensor x, int by) -> (Tensor)",
    "--schema",
    "ns::weigh(Tensor x, Tensor y, float a) -> (Tensor)",
];

#[test]
fn a_neff_that_the_build_writes_runs_and_its_library_too() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("ops.rs"), SCALE).unwrap();
    save(&folder, "x.npy", &floats(&[1.0, 2.0, 3.0, 4.5, -7.0]));
    save(&folder, "y.npy", &floats(&[0.25]));
    let build = |rest: &[&str]| outboard(folder.path(), &[&["op", "build", "ops.rs"], &SCHEMAS[..], rest].concat());
    for (shape, name) in [("fll", "one.so"), ("pi", "one.pi")] {
        let base = ["-o", name, "--shape", shape, "--neff"];
        let done = build(&[&base[..], &["shift.neff", "--op", "shift", "--arg", "float32:5", "--arg", "-3"]].concat());
        assert_eq!(code(&done), 0, "{}", stderr(&done));
        let shift = ["shift.neff", "--op", "shift", "--arg", "x.npy", "--metaneff", "shift.metaneff", "-o", "z.npy"];
        let ran = run(folder.path(), &shift);
        assert_eq!(code(&ran), 0, "{shape}: {}", stderr(&ran));
        assert_eq!(result(&folder, "z.npy"), [-2.0, -1.0, 0.0, 1.5, -10.0]);
        let options = ["--op", "weigh", "--arg", "x.npy", "--arg", "float32:1", "--arg", "8", "--result-shape", "1"];
        let done = build(&[&base[..], &["weigh.neff"], &options[..]].concat());
        assert_eq!(code(&done), 0, "{}", stderr(&done));
        let ran = run(folder.path(), &["weigh.neff", "--arg", "x.npy", "--arg", "y.npy", "-o", "z.npy", "--json"]);
        assert_eq!(code(&ran), 0, "{shape}: {}", stderr(&ran));
        assert_eq!(result(&folder, "z.npy"), [3.0]);
        assert_eq!(json(&ran)["outputs"][0]["name"], "output0");
        let other = run(folder.path(), &["weigh.neff", "--op", "shift", "--arg", "x.npy"]);
        assert!(code(&other) == 1 && stderr(&other).contains("its stream runs weigh"), "{}", stderr(&other));
        let verified = outboard(folder.path(), &["neff", "verify", "weigh.neff"]);
        assert_eq!(code(&verified), 0, "{}{}", stdout(&verified), stderr(&verified));
        let judged = outboard(folder.path(), &["check", "weigh.neff", "--profile", "customop"]);
        assert_eq!(code(&judged), 0, "{}{}", stdout(&judged), stderr(&judged));
    }
    // Eight files, and a seed that lets the cores take turns.
    let done =
        build(&["-o", "all.so", "--multicore", "--neff", "all.neff", "--op", "shift", "--arg", "x.npy", "--arg", "1"]);
    assert_eq!(code(&done), 0, "{}", stderr(&done));
    let ran = run(folder.path(), &["all.neff", "--arg", "x.npy", "-o", "z.npy", "--seed", "3", "--profile"]);
    assert_eq!(code(&ran), 0, "{}", stderr(&ran));
    assert_eq!(result(&folder, "z.npy"), [2.0, 3.0, 4.0, 5.5, -6.0]);
    assert!(stdout(&ran).contains("core 7: "));
}

#[test]
fn a_neff_needs_the_shape_of_every_argument() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("ops.rs"), SCALE).unwrap();
    save(&folder, "x.npy", &floats(&[1.0]));
    let base = [&["op", "build", "ops.rs", "-o", "o.so", "--neff", "o.neff"], &SCHEMAS[..]].concat();
    for (rest, named) in [
        (vec![], "--op NAME"),
        (vec!["--op", "scale"], "there are shift, weigh"),
        (vec!["--op", "shift"], "takes 2 arguments, 0 --arg were given"),
        (vec!["--op", "shift", "--arg", "x.npy", "--arg", "0.5"], "an integer here"),
        (vec!["--op", "shift", "--arg", "5", "--arg", "1"], "a tensor here"),
        (vec!["--op", "shift", "--arg", "x.npy", "--arg", "x.npy"], "a number here"),
        (vec!["--op", "shift", "--arg", "float32:5y", "--arg", "1"], "no dimension"),
        (vec!["--op", "shift", "--arg", "none.npy", "--arg", "1"], "none.npy"),
        (vec!["--op", "shift", "--arg", "float64:5", "--arg", "1"], "float64"),
        (vec!["--op", "shift", "--arg", "float32:5x0", "--arg", "1"], "0"),
        (vec!["--op", "shift", "--arg", "float32:60000x60000", "--arg", "1"], "on-chip memory"),
    ] {
        let output = outboard(folder.path(), &[&base[..], &rest[..]].concat());
        assert_eq!(code(&output), 1, "{rest:?}");
        assert!(stderr(&output).contains(named), "{named}: {}", stderr(&output));
        assert!(!folder.path().join("o.so").exists() && !folder.path().join("o.neff").exists());
    }
}

#[test]
fn p19_check_follows_operations_and_exits_with_three_when_one_is_wrong() {
    let folder = folder("add");
    let at = folder.path();
    std::fs::write(at.join("libadd.a"), DeviceBuild::default().op("add").unwrap()).unwrap();
    for file in ["add.pi", "libadd.a"] {
        let right = outboard(at, &["check", file, "--profile", "customop", "--json"]);
        assert_eq!(code(&right), 0, "{}", stdout(&right));
        let page = json(&right);
        assert_eq!((&page["status"], &page["profile"]), (&Value::from("ok"), &Value::from("customop")));
        let last = &page["operations"][1];
        assert_eq!((&last["name"], &last["completed"]), (&Value::from("axpy"), &Value::from(true)));
        assert_eq!(last["pulls"][3], "customop_next_longlong");
    }
    let schema = ["--schema", "ns::axpy(Tensor x, Tensor y, int n, float a) -> (Tensor)"];
    let wrong = outboard(at, &[&["check", "libadd.a", "--profile", "customop"][..], &schema].concat());
    assert_eq!(code(&wrong), 3, "{}", stderr(&wrong));
    assert!(
        stdout(&wrong).starts_with("error[OB0869] libadd.a: axpy: pulls tensor, tensor, float, longlong"),
        "{}",
        stdout(&wrong)
    );
    let elsewhere = outboard(at, &[&["check", "add.pi"][..], &schema].concat());
    assert!(code(&elsewhere) == 1 && stderr(&elsewhere).contains("--schema is for --profile customop"));
}
