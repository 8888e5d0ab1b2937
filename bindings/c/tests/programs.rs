//! Programs written for the published client, in C and in C++, built against this library and run.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::path::Path;
use support::{example, library, module, program, run, run_on_board, stderr, stdout};

/// Class probabilities of the model in `d4.c` for the input of `seed.c`, from the formulas of its weights.
fn d4() -> (Vec<f64>, usize) {
    let weight =
        |i: i32, a: i32, j: i32, b: i32, modulus: i32, half: i32| f64::from((a * i + b * j) % modulus - half) / 4.0;
    let hidden: Vec<f64> = (0..6)
        .map(|j| {
            let sum: f64 = (0..8).map(|i| (f64::from(i) / 4.0 - 1.0) * weight(i, 3, j, 5, 7, 3)).sum();
            (sum + f64::from(j - 2) / 8.0).max(0.0)
        })
        .collect();
    let logits: Vec<f64> = (0..4)
        .map(|j| {
            let sum: f64 = (0..6).zip(&hidden).map(|(i, h)| h * weight(i, 5, j, 2, 9, 4)).sum();
            sum + f64::from(2 * j - 3) / 16.0
        })
        .collect();
    let total: f64 = logits.iter().map(|y| y.exp()).sum();
    let top = (0..4).max_by(|a, b| logits[*a].total_cmp(&logits[*b])).unwrap();
    (logits.iter().map(|y| y.exp() / total).collect(), top)
}

#[test]
fn the_sequence_of_the_published_client_gives_the_right_answer_in_c_and_in_cpp() {
    let model = module("seed.out", "handwritten/d4.c");
    let c = program("cc", "seed-c", "seed.c", &["-std=c99"]);
    let cpp = program("c++", "seed-cpp", "seed.c", &["-std=c++14", "-x", "c++"]);
    for built in [c, cpp] {
        let ran = run(&built, "sim", &[&model]);
        assert_eq!(ran.status.code(), Some(0), "{}{}", stdout(&ran), stderr(&ran));
        let text = stdout(&ran);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[..3], ["ping 0 version 030000", "load 0: Success", "infer 0 outputs 2 cycles yes"]);
        let (probabilities, top) = d4();
        for (line, expected) in lines[3..7].iter().zip(&probabilities) {
            let got: f64 = line.parse().unwrap();
            assert!((got - expected).abs() < 2e-6, "{got} {expected}");
        }
        assert_eq!(lines[7..], [&format!("class {top}"), "unload 0", "status 0 completed 1 failed 0"]);
        assert!(
            stderr(&ran).contains("c7x: Connected to sim\n") && stderr(&ran).contains("c7x: Disconnected from sim\n")
        );
    }
}

/// The same programs on a board: over RPMsg, with caches that are not coherent. What the seed's client, the contract and the tests of
/// the C++ runtime do is done through raw nodes, without a change.
#[test]
fn the_programs_run_unchanged_over_the_nodes_of_a_board() {
    let model = module("board-d4.out", "handwritten/d4.c");
    let seed = program("cc", "board-seed", "seed.c", &["-std=c99"]);
    let ran = run_on_board(&seed, &[&model]);
    assert_eq!(ran.status.code(), Some(0), "{}{}", stdout(&ran), stderr(&ran));
    let text = stdout(&ran);
    let answers: Vec<f64> = text.lines().skip(3).take(4).map(|line| line.parse().unwrap()).collect();
    for (got, expected) in answers.iter().zip(d4().0) {
        assert!((got - expected).abs() < 2e-6, "{text}");
    }
    assert!(text.contains(&format!("class {}", d4().1)), "{text}");
    assert!(stderr(&ran).contains("c7x: Connected to rpmsg:7e000000.dsp"), "{}", stderr(&ran));

    let (echo, broken) = (module("board-echo.out", "echo.c"), module("board-broken.out", "faults/missing_symbol.c"));
    let contract = program("cc", "board-contract", "contract.c", &["-std=c99"]);
    let ran = run_on_board(&contract, &[&echo, &model, &broken, &example("offline/weights.bin")]);
    assert_eq!((ran.status.code(), stdout(&ran).as_str()), (Some(0), ""), "{}", stderr(&ran));

    let runtime = program("c++", "board-runtime", "test_c7x_runtime.cpp", &["-std=c++14"]);
    let input = support::FOLDER.path().join("board-input.bin");
    let x: Vec<u8> = (0..8u8).flat_map(|i| (f32::from(i) / 4.0 - 1.0).to_le_bytes()).collect();
    std::fs::write(&input, x).unwrap();
    let ran = run_on_board(&runtime, &[&model, &input, Path::new("--shape"), Path::new("1,2,4")]);
    assert_eq!(ran.status.code(), Some(0), "{}{}", stdout(&ran), stderr(&ran));
}

#[test]
fn layout_and_numbers_of_the_header_are_those_of_the_original() {
    program("cc", "layout-c", "layout.c", &["-std=c99"]);
    program("c++", "layout-cpp", "layout.c", &["-std=c++14", "-x", "c++"]);
}

#[test]
fn what_the_header_promises_beyond_the_happy_path_holds() {
    let (echo, d4) = (module("echo.out", "echo.c"), module("contract.out", "handwritten/d4.c"));
    let broken = module("broken.out", "faults/missing_symbol.c");
    let contract = program("cc", "contract", "contract.c", &["-std=c99"]);
    let ran = run(&contract, "sim", &[&echo, &d4, &broken, &example("offline/weights.bin")]);
    assert_eq!(ran.status.code(), Some(0), "{}{}", stdout(&ran), stderr(&ran));
    assert_eq!(stdout(&ran), "", "nothing of the library goes to standard output");
}

#[test]
fn the_tests_of_the_cpp_runtime_pass() {
    let model = module("runtime.out", "handwritten/d4.c");
    let folder = support::FOLDER.path();
    let (input, reference) = (folder.join("runtime-input.bin"), folder.join("runtime-reference.bin"));
    let x: Vec<u8> = (0..8u8).flat_map(|i| (f32::from(i) / 4.0 - 1.0).to_le_bytes()).collect();
    std::fs::write(&input, x).unwrap();
    #[allow(clippy::cast_possible_truncation, reason = "the reference is in single precision")]
    let expected: Vec<u8> = d4().0.iter().flat_map(|y| (*y as f32).to_le_bytes()).collect();
    std::fs::write(&reference, expected).unwrap();
    for standard in ["-std=c++14", "-std=c++20"] {
        let tests = program("c++", &format!("runtime{standard}"), "test_c7x_runtime.cpp", &[standard]);
        let (shape, atol) = (Path::new("--shape"), Path::new("--atol"));
        let args = [&input, shape, Path::new("1,2,4"), Path::new("--ref"), &reference, atol, Path::new("1e-5")];
        let ran = run(&tests, "sim", &[&[model.as_path()], &args[..]].concat());
        assert_eq!(ran.status.code(), Some(0), "{}{}", stdout(&ran), stderr(&ran));
        let passed: Vec<_> =
            stdout(&ran).lines().map(|line| line.split([' ', ':']).nth(1).unwrap().to_owned()).collect();
        let expected = [
            "load_close",
            "inference",
            "reference",
            "create_input_range",
            "create_input_result",
            "create_input_survives_copies",
            "create_input_refuses_seven_dimensions",
            "repeated_infer",
            "function",
            "function_without_inputs",
            "function_refuses_gaps",
            "missing_module",
        ];
        assert_eq!(passed, expected, "every test ran");
    }
}

#[test]
fn a_device_that_is_not_there_is_null_with_a_reason() {
    let seed = program("cc", "seed-nowhere", "seed.c", &["-std=c99"]);
    for (device, reason) in [
        ("sim:/nowhere/dsp", "the standing device at /nowhere/dsp: cannot connect"),
        ("rpmsg:no-such.dsp", "no C7x named no-such.dsp"),
        ("gpu", "`gpu` names no device"),
    ] {
        let ran = run(&seed, device, &[Path::new("x.out")]);
        assert_eq!((ran.status.code(), stdout(&ran).as_str()), (Some(3), ""));
        assert!(stderr(&ran).contains(reason), "{}", stderr(&ran));
    }
}

#[test]
fn the_library_exports_the_functions_of_the_header_and_nothing_else() {
    let header = std::fs::read_to_string(support::crate_path("include/c7x_compute_client.h")).unwrap();
    let mut declared: Vec<&str> = header
        .lines()
        .filter(|line| line.contains('(') && !line.starts_with([' ', '#', '/']))
        .filter_map(|line| line.split('(').next()?.rsplit([' ', '*']).next())
        .filter(|name| name.starts_with("c7x_"))
        .collect();
    declared.sort_unstable();
    let mut nm = std::process::Command::new("nm");
    nm.args(["-D", "--defined-only", "--format=posix"]).arg(library().join("libc7x_arm_runtime.so"));
    let listed = nm.output().expect("nm is installed (package binutils)");
    let text = stdout(&listed);
    let mut exported: Vec<&str> = text.lines().filter_map(|line| line.split(' ').next()).collect();
    exported.sort_unstable();
    assert_eq!(exported, declared);
    assert_eq!(declared.len(), 24);
}
