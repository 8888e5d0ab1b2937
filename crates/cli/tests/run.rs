//! `outboard run` as a program: files in, files out, JSON, exit codes, messages.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use outboard_tensor::Tensor;
use std::path::Path;
use std::process::Output;
use support::{assert_d4, code, d4, json, module, outboard, stderr, stdout};

/// A folder with the inputs of the tests.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let (x, ..) = d4();
    std::fs::write(folder.path().join("x.npy"), x.view().to_npy().unwrap()).unwrap();
    std::fs::write(folder.path().join("x.bin"), x.bytes()).unwrap();
    folder
}

fn run(folder: &tempfile::TempDir, source: &str, args: &[&str]) -> Output {
    let module = module(source);
    let args = [&["run", module.to_str().unwrap()], args].concat();
    outboard(folder.path(), &args)
}

fn npy(folder: &tempfile::TempDir, name: &str) -> Tensor {
    Tensor::from_npy(&std::fs::read(folder.path().join(name)).unwrap()).unwrap()
}

/// Files of a folder, sorted.
fn files(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn two_outputs_of_one_option_are_numbered_and_hold_the_answer() {
    let folder = folder();
    let ran = run(&folder, "handwritten/d4.c", &["--input", "x.npy", "--output", "y.npy"]);
    assert_eq!(code(&ran), 0, "{}", stderr(&ran));
    assert_eq!(stdout(&ran), "", "without --json nothing is written to standard output");
    assert_eq!(files(folder.path()), ["x.bin", "x.npy", "y.0.npy", "y.1.npy"]);
    let (first, second) = (npy(&folder, "y.0.npy"), npy(&folder, "y.1.npy"));
    assert_d4([first.view(), second.view()]);
    assert!(stderr(&ran).starts_with("d4: class "), "module output comes first: {}", stderr(&ran));
    assert!(stderr(&ran).contains("ran on the simulated device (sim): "));
}

#[test]
fn every_output_may_have_its_own_file_and_bin_files_are_raw() {
    let folder = folder();
    let ran =
        run(&folder, "handwritten/d4.c", &["-i", "x.npy", "-o", "probabilities.bin", "-o", "class.npy", "--json"]);
    assert_eq!(code(&ran), 0, "{}", stderr(&ran));
    let result = json(&ran);
    assert_eq!(result["outputs"][0]["file"], "probabilities.bin");
    let raw = std::fs::read(folder.path().join("probabilities.bin")).unwrap();
    let first = Tensor::new(outboard_tensor::DType::Float32, "1,4".parse().unwrap(), raw).unwrap();
    assert_d4([first.view(), npy(&folder, "class.npy").view()]);
}

#[test]
fn the_json_is_that_of_the_original_and_says_where_it_ran() {
    let folder = folder();
    let ran = run(&folder, "handwritten/d4.c", &["--input", "x.npy", "--json"]);
    let text = stdout(&ran);
    assert!(text.starts_with("{\"status\":\"ok\",\"cycles\":"), "{text}");
    let result = json(&ran);
    assert!(result["cycles"].as_u64().unwrap() > 0);
    assert_eq!(result["num_outputs"], 2);
    assert_eq!(result["device"], "sim");
    let expected = serde_json::json!([
        {"index": 0, "ndim": 2, "dtype_code": 2, "dtype_bits": 32, "data_size": 16, "shape": [1, 4], "dtype": "float32"},
        {"index": 1, "ndim": 1, "dtype_code": 0, "dtype_bits": 64, "data_size": 8, "shape": [1], "dtype": "int64"},
    ]);
    assert_eq!(result["outputs"], expected);
    assert!(result["timing"]["round_trip_us"].as_f64().unwrap() > 0.0);
}

#[test]
fn raw_inputs_are_described_by_the_options_behind_them() {
    let folder = folder();
    let args = ["--input", "x.bin", "--shape", "1,2,4", "--dtype", "float32", "--output", "y.npy"];
    assert_eq!(code(&run(&folder, "handwritten/d4.c", &args)), 0);
    assert_d4([npy(&folder, "y.0.npy").view(), npy(&folder, "y.1.npy").view()]);
    // Each description belongs to the input before it, in whatever order the options of one input come.
    std::fs::write(folder.path().join("n.bin"), 7i64.to_le_bytes()).unwrap();
    let args =
        ["-i", "n.bin", "-d", "int64", "-s", "1", "-i", "x.npy", "-i", "x.bin", "-s", "8", "-d", "float32", "--json"];
    let result = json(&run(&folder, "echo.c", &args));
    let shapes: Vec<_> =
        result["outputs"].as_array().unwrap().iter().map(|output| output["shape"].to_string()).collect();
    assert_eq!(shapes, ["[1]", "[1,2,4]", "[8]"]);
    assert_eq!(result["outputs"][0]["dtype"], "int64");
}

#[test]
fn a_module_with_a_manifest_describes_raw_inputs_and_names_them() {
    let folder = folder();
    let offline = support::examples().join("offline");
    let input = Tensor::from_npy(&std::fs::read(offline.join("input.npy")).unwrap()).unwrap();
    std::fs::write(folder.path().join("image.bin"), input.bytes()).unwrap();
    let ran = run(&folder, "offline/lib0.c", &["--input", "image=image.bin", "--output", "y.npy"]);
    assert_eq!(code(&ran), 0, "{}", stderr(&ran));
    let expected = Tensor::from_npy(&std::fs::read(offline.join("expected.npy")).unwrap()).unwrap();
    let (got, expected) = (npy(&folder, "y.npy").values::<f32>().unwrap(), expected.values::<f32>().unwrap());
    assert!(got.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-4), "{got:?} {expected:?}");

    let ran = run(&folder, "offline/lib0.c", &["--input", "picture=image.bin"]);
    assert_eq!(code(&ran), 1);
    assert_eq!(stderr(&ran), "error[OB0501]: the module has no input `picture`\n  help: its inputs are: image\n");
    let ran = run(&folder, "offline/lib0.c", &["--input", "x.npy", "--json"]);
    assert_eq!(code(&ran), 1);
    let error = json(&ran);
    assert_eq!(
        (&error["error"], &error["name"], &error["code"]),
        (&"input_mismatch".into(), &"OB0324".into(), &324.into())
    );
    assert_eq!(error["expected"], "float32 (1,1,28,28)");
    assert_eq!(error["got"], "float32 (1,2,4)");
}

#[test]
fn each_way_a_module_goes_wrong_has_its_exit_code_and_its_json() {
    let folder = folder();
    for (source, exit, kind) in [
        ("faults/null_dereference.c", 2, "device_lost"),
        ("faults/calls_abort.c", 2, "device_lost"),
        ("faults/missing_symbol.c", 3, "load_failed"),
        ("faults/infinite_loop.c", 4, "timeout"),
    ] {
        let ran = run(&folder, source, &["--input", "x.npy", "--timeout", "2", "--json", "--output", "y.npy"]);
        assert_eq!(code(&ran), exit, "{source}: {}", stderr(&ran));
        let error = json(&ran);
        assert_eq!((&error["status"], &error["error"]), (&"error".into(), &kind.into()), "{source}");
        assert!(stderr(&ran).contains(&format!(
            "error[{}]: {}",
            error["name"].as_str().unwrap(),
            error["message"].as_str().unwrap()
        )));
        assert!(stderr(&ran).contains("  help: "));
    }
    assert_eq!(files(folder.path()), ["x.bin", "x.npy"], "a failed run leaves no file");
    let lost = json(&run(&folder, "faults/null_dereference.c", &["--json"]));
    assert_eq!(
        (&lost["cause"], &lost["symbol"], &lost["fault_address"]),
        (&"SIGSEGV".into(), &"read_missing_table".into(), &0.into())
    );
}

#[test]
fn what_the_module_prints_goes_to_standard_error_in_order_and_never_into_the_json() {
    let folder = folder();
    let ran = run(&folder, "faults/prints.c", &["--input", "x.npy", "--json"]);
    let expected =
        "1 printf 42\n2 puts\n3 fputs\n4 fprintf 2.50\n5 vprintf abc\n6 putchar\n7 fputs of a literal\n8 fputc\n";
    assert!(stderr(&ran).starts_with(expected), "{}", stderr(&ran));
    assert_eq!(json(&ran)["status"], "ok");
}

#[test]
fn a_result_that_cannot_be_written_leaves_the_older_file_alone() {
    let folder = folder();
    std::fs::write(folder.path().join("y.0.npy"), "older").unwrap();
    let ran = run(&folder, "handwritten/d4.c", &["-i", "x.npy", "-o", "y.0.npy", "-o", "missing/y.npy"]);
    assert_eq!(code(&ran), 1);
    assert!(
        stderr(&ran).contains("error[OB0503]: cannot write missing/y.npy: No such file or directory"),
        "{}",
        stderr(&ran)
    );
    assert_eq!(std::fs::read(folder.path().join("y.0.npy")).unwrap(), b"older");
    assert_eq!(files(folder.path()), ["x.bin", "x.npy", "y.0.npy"]);
}

#[test]
fn a_number_of_output_files_that_does_not_fit_is_refused_before_anything_is_written() {
    let folder = folder();
    let three = ["-i", "x.npy", "-o", "a.npy", "-o", "b.npy", "-o", "c.npy"];
    let ran = run(&folder, "handwritten/d4.c", &three);
    assert_eq!(code(&ran), 1);
    assert!(
        stderr(&ran).contains("error[OB0501]: the module has 2 output(s), but 3 --output files are given"),
        "{}",
        stderr(&ran)
    );
    assert_eq!(files(folder.path()), ["x.bin", "x.npy"]);
}

#[test]
fn options_that_contradict_each_other_are_explained() {
    let folder = folder();
    for (args, message) in [
        (&["-s", "1,2,4", "-i", "x.bin"][..], "--shape stands before any --input"),
        (&["-i", "x.bin", "-d", "float32"], "x.bin is a raw file, and the module does not declare what it takes"),
        (&["-i", "x.npy", "-s", "8"], "x.npy is a .npy file, which says itself what it holds"),
        (&["-i", "x.bin", "-s", "8", "-s", "8", "-d", "float32"], "x.bin has two shapes"),
        (&["-i", "x=x.npy"], "input `x` is given by name, but the module carries no names"),
        (&["-i", "none.npy"], "cannot read none.npy: No such file or directory"),
        (&["-i", "x.bin", "-s", "-1", "-d", "float32"], "`-1` is not a shape"),
        (
            &["-i", "x.bin", "-s", "9", "-d", "float32"],
            "x.bin: a float32 tensor of shape (9) has 36 bytes, but 32 are there",
        ),
        (&["--repeat", "0"], "0 is not in 1..=65535"),
        (&["--timeout", "0"], "not a positive number of seconds"),
        (&["--timeout", "soon"], "not a number of seconds"),
    ] {
        let ran = run(&folder, "handwritten/d4.c", args);
        assert_eq!(code(&ran), 1, "{args:?}");
        assert!(stderr(&ran).contains(message), "{args:?}: {}", stderr(&ran));
    }
}

#[test]
fn the_module_may_be_named_by_option_and_a_repeated_run_says_so() {
    let folder = folder();
    let path = module("handwritten/d4.c");
    let args = ["run", "--module", path.to_str().unwrap(), "--input", "x.npy", "--repeat", "20", "--json"];
    let ran = outboard(folder.path(), &args);
    assert_eq!(json(&ran)["repeat"], 20);
    assert!(stderr(&ran).contains(" cycles (run 20 times), "));
    let missing = outboard(folder.path(), &["run", "--input", "x.npy"]);
    assert_eq!(code(&missing), 1);
    assert!(stderr(&missing).contains("<MODULE>"), "{}", stderr(&missing));
}

#[test]
fn a_device_program_that_is_named_and_missing_is_never_replaced_by_another() {
    let folder = folder();
    let path = module("handwritten/d4.c");
    let ran = std::process::Command::new(support::PROGRAM)
        .args(["run", path.to_str().unwrap()])
        .env("OUTBOARD_DEVICE_PROGRAM", "/nowhere/outboard")
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert_eq!(code(&ran), 1);
    assert!(stderr(&ran).contains(
        "error[OB0313]: no program to run the simulated device in: OUTBOARD_DEVICE_PROGRAM names /nowhere/outboard"
    ));
}

#[test]
fn a_load_is_measured_cold_and_warm_beside_a_copy() {
    let folder = tempfile::tempdir().unwrap();
    let file = module("echo.c").display().to_string();
    let output = support::outboard(folder.path(), &["bench", "load", &file, "--count", "3", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", support::stderr(&output));
    let times = &support::json(&output)["times"];
    assert!(["cold", "warm", "copy"].iter().all(|row| times[row]["p50_us"].as_f64().is_some()), "{times}");
}
