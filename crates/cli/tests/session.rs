//! The Rust API against the simulated device: a process of its own that runs machine code.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use outboard_host::{Error, Input, RunOptions, Session, SessionOptions, SimOptions, simulated};
use outboard_tensor::{DType, Tensor};
use outboard_wire::{Header, Status};
use std::time::Duration;
use support::{assert_d4, d4, floats, module, session};

const LONG: Duration = Duration::from_secs(30);

/// Loads the good model and checks its answer: what must work after everything else went wrong.
fn works(session: &mut Session) {
    let good = session.load_file(&module("handwritten/d4.c")).unwrap();
    let (x, ..) = d4();
    assert_d4(session.run(&good, &[Input::from(&x)]).unwrap().views());
    session.unload(good).unwrap();
}

#[test]
fn a_model_of_two_outputs_answers_what_its_formulas_say() {
    let mut session = session(LONG);
    let module = session.load_file(&module("handwritten/d4.c")).unwrap();
    assert_eq!(module.io().unwrap().num_outputs, 2);
    let (x, ..) = d4();
    let outputs = session.run(&module, &[Input::from(&x)]).unwrap();
    assert_d4(outputs.views());
    assert!(outputs.cycles() > 0 && outputs.round_trip() > Duration::ZERO);
    assert!(outputs.text().text().starts_with("d4: class "));
    session.unload(module).unwrap();
    session.close().unwrap();
}

#[test]
fn ten_inferences_of_one_session_give_identical_bytes() {
    let mut session = session(LONG);
    let module = session.load_file(&module("handwritten/d4.c")).unwrap();
    let (x, ..) = d4();
    let mut answers: Vec<Vec<Tensor>> = Vec::new();
    for _ in 0..10 {
        let outputs = session.run(&module, &[Input::from(&x)]).unwrap();
        answers.push(outputs.views().map(|view| view.to_tensor()).collect());
    }
    assert!(answers.iter().all(|answer| *answer == answers[0]));
    let repeated = session.run_with(&module, &[Input::from(&x)], &RunOptions::repeat(100)).unwrap();
    assert_eq!(repeated.views().map(|view| view.to_tensor()).collect::<Vec<_>>(), answers[0]);
    assert_eq!(session.status().unwrap().jobs_completed, 11);
}

#[test]
fn a_module_makes_room_for_another_and_several_live_side_by_side() {
    let mut session = session(LONG);
    let first = session.load_file(&module("double.c")).unwrap();
    let numbers = Tensor::from_values("3".parse().unwrap(), &[1i64, -2, i64::MAX / 2]).unwrap();
    let doubled = session.run(&first, &[Input::from(&numbers)]).unwrap().to_tensor(0).unwrap();
    assert_eq!(doubled.values::<i64>(), Some(vec![2, -4, i64::MAX - 1]));
    session.unload(first).unwrap();
    works(&mut session);
    let double = session.load_file(&module("double.c")).unwrap();
    let d4_module = session.load_file(&module("handwritten/d4.c")).unwrap();
    let (x, ..) = d4();
    for _ in 0..3 {
        let doubled = session.run(&double, &[Input::from(&numbers)]).unwrap().to_tensor(0).unwrap();
        assert_eq!(doubled.values::<i64>().unwrap()[1], -4);
        assert_d4(session.run(&d4_module, &[Input::from(&x)]).unwrap().views());
    }
    session.unload(double).unwrap();
    assert_d4(session.run(&d4_module, &[Input::from(&x)]).unwrap().views());
}

#[test]
fn any_number_of_inputs_and_outputs_travels_there_and_back() {
    let mut session = session(LONG);
    let echo = session.load_file(&module("echo.c")).unwrap();
    for count in [1u8, 2, 4, 5, 6, 64, 128] {
        let tensors: Vec<Tensor> = (0..count).map(|index| floats("2,3", &[f32::from(index); 6])).collect();
        let outputs = session.run(&echo, &tensors.iter().map(Input::from).collect::<Vec<_>>()).unwrap();
        assert_eq!(outputs.views().map(|view| view.to_tensor()).collect::<Vec<_>>(), tensors, "{count} inputs");
    }
    // Larger than any window so far.
    let large = Tensor::from_values("1000,1000".parse().unwrap(), &vec![0.5f32; 1_000_000]).unwrap();
    assert_eq!(session.run(&echo, &[Input::from(&large)]).unwrap().to_tensor(0), Some(large));
}

#[test]
fn a_buffer_of_the_input_window_is_read_and_written_by_the_module_itself() {
    let mut session = session(LONG);
    let double = session.load_file(&module("double.c")).unwrap();
    let buffer = session.input(&double, DType::Int64, "2".parse().unwrap()).unwrap();
    let start = Tensor::from_values("2".parse().unwrap(), &[3i64, 5]).unwrap();
    session.input_bytes_mut(&buffer).unwrap().copy_from_slice(start.bytes());
    let buffer = session.hand_over(buffer).unwrap();
    for factor in [2, 4, 8] {
        // The module doubles its input in place: the next call sees what this one left, because nothing is copied in between.
        let outputs = session.run(&double, &[Input::from(&buffer)]).unwrap();
        assert_eq!(outputs.to_tensor(0).unwrap().values::<i64>(), Some(vec![3 * factor, 5 * factor]));
    }
    let buffer = session.take_back(buffer).unwrap();
    let left: Vec<u8> = [24i64, 40].iter().flat_map(|value| value.to_le_bytes()).collect();
    assert_eq!(session.input_bytes(&buffer).unwrap(), left);
}

#[test]
fn a_module_that_dereferences_null_is_reported_by_function_and_the_next_inference_works() {
    let mut session = session(LONG);
    let bad = session.load_file(&module("faults/null_dereference.c")).unwrap();
    let Err(Error::DeviceLost(lost)) = session.run(&bad, &[]) else { panic!("no loss") };
    assert_eq!(lost.cause.name(), "SIGSEGV");
    assert_eq!(lost.module.as_deref(), Some("null_dereference.out"));
    assert_eq!(lost.site.as_ref().unwrap().symbol, "read_missing_table");
    assert_eq!(lost.fault_address, Some(0));
    assert_eq!(lost.last_message, Some(outboard_wire::MessageType::Infer));
    assert!(matches!(session.run(&bad, &[]), Err(Error::StaleModule { .. })));
    works(&mut session);
}

#[test]
fn modules_that_abort_or_write_to_their_code_are_named_and_their_text_is_kept() {
    let mut session = session(LONG);
    let bad = session.load_file(&module("faults/calls_abort.c")).unwrap();
    let x = floats("1", &[0.0]);
    let Err(Error::DeviceLost(lost)) = session.run(&bad, &[Input::from(&x)]) else { panic!("no loss") };
    assert_eq!((lost.cause.name(), lost.module.as_deref()), ("SIGABRT", Some("calls_abort.out")));
    assert_eq!(session.module_text().text(), "calls_abort: giving up with 1 inputs\n");
    works(&mut session);
    let bad = session.load_file(&module("faults/writes_own_text.c")).unwrap();
    let Err(Error::DeviceLost(lost)) = session.run(&bad, &[]) else { panic!("no loss") };
    assert_eq!((lost.cause.name(), lost.site.as_ref().unwrap().symbol.as_str()), ("SIGSEGV", "overwrite"));
    works(&mut session);
}

#[test]
fn a_module_that_never_returns_ends_at_the_deadline_and_the_next_inference_works() {
    let mut session = session(Duration::from_millis(300));
    let bad = session.load_file(&module("faults/infinite_loop.c")).unwrap();
    let late = session.run(&bad, &[]).unwrap_err();
    assert_eq!(
        late.to_string(),
        "no answer within 300 ms: waited for the answer to INFER of module `infinite_loop.out`"
    );
    works(&mut session);
}

#[test]
fn missing_symbols_are_all_named_and_the_next_load_works() {
    let mut session = session(LONG);
    let refused = session.load_file(&module("faults/missing_symbol.c")).unwrap_err();
    assert!(matches!(refused, Error::LoadFailed { .. }));
    let text = refused.to_string();
    assert!(text.contains("c7x_no_such_kernel") && text.contains("tvm_dsp_no_such_service"), "{text}");
    works(&mut session);
}

#[test]
fn a_truncated_file_is_refused_wherever_it_ends_and_the_next_load_works() {
    let mut session = session(LONG);
    let file = std::fs::read(module("handwritten/d4.c")).unwrap();
    for len in [1, 63, 64, 1000, 4096, file.len() / 2] {
        let refused = session.load(&file[..len], "short.out").unwrap_err();
        assert!(matches!(refused, Error::LoadFailed { .. }), "{len}: {refused}");
        assert!(refused.to_string().len() > "the device cannot load module `short.out`: ".len(), "{len}: {refused}");
    }
    works(&mut session);
}

#[test]
fn a_wrong_shape_never_reaches_the_device() {
    let mut session = session(LONG);
    let model = session.load_file(&module("offline/lib0.c")).unwrap();
    let wrong = Tensor::zeros(DType::Float32, "1,1,28,27".parse().unwrap()).unwrap();
    let refused = session.run(&model, &[Input::from(&wrong)]).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "input 0 (`image`) of module `lib0.out`: expected float32 (1,1,28,28), got float32 (1,1,28,27)"
    );
    assert_eq!(session.status().unwrap().jobs_completed, 0);
    let folder = support::examples().join("offline");
    let read = |name: &str| Tensor::from_npy(&std::fs::read(folder.join(name)).unwrap()).unwrap();
    let outputs = session.run(&model, &[Input::from(&read("input.npy"))]).unwrap();
    let (got, expected) = (outputs.to_tensor(0).unwrap(), read("expected.npy"));
    assert_eq!(got.shape(), expected.shape());
    let difference = got
        .values::<f32>()
        .unwrap()
        .iter()
        .zip(expected.values::<f32>().unwrap())
        .map(|(a, b)| (a - b).abs())
        .fold(0.0, f32::max);
    assert!(difference < 1e-4, "differs by {difference}");
}

#[test]
fn messages_of_3_and_of_600_bytes_end_in_their_own_answers_and_the_next_inference_works() {
    let mut session = session(LONG);
    let reply = session.exchange_raw(&[0x21, 0, 0]).unwrap();
    let header = Header::parse(&reply).unwrap();
    assert_eq!((header.seq.get(), header.status()), (0, Some(Status::Invalid)));
    assert!(header.kind.get() & 0x1000 != 0);
    works(&mut session);
    let refused = session.exchange_raw(&[0; 600]).unwrap_err();
    assert!(matches!(refused, Error::MessageTooLong { len: 600 }));
    works(&mut session);
}

#[test]
fn text_printed_in_every_way_arrives_in_the_order_of_the_calls() {
    let mut session = session(LONG);
    let prints = session.load_file(&module("faults/prints.c")).unwrap();
    let x = floats("1", &[0.0]);
    let outputs = session.run(&prints, &[Input::from(&x)]).unwrap();
    let expected =
        "1 printf 42\n2 puts\n3 fputs\n4 fprintf 2.50\n5 vprintf abc\n6 putchar\n7 fputs of a literal\n8 fputc\n";
    assert_eq!(outputs.text().text(), expected);
}

#[test]
fn the_device_has_no_mapping_of_the_module_file_and_its_code_is_never_writable() {
    let mut session = session(LONG);
    let path = module("handwritten/d4.c");
    let good = session.load_file(&path).unwrap();
    let (x, ..) = d4();
    session.run(&good, &[Input::from(&x)]).unwrap();
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", session.device_process().unwrap())).unwrap();
    assert!(!maps.contains("d4.out"), "{maps}");
    // The MAIN pool starts at 0x102000000: what is executable there is the module, in memory without a file.
    let code: Vec<&str> = maps.lines().filter(|line| line.starts_with("10200") && line.contains(" r-xp ")).collect();
    assert!(!code.is_empty() && code.iter().all(|line| line.trim_end().ends_with(" 0")), "{maps}");
    assert!(!maps.lines().any(|line| line.contains(" rwxp ") || line.contains(" rwxs ")), "{maps}");
}

#[test]
fn a_session_outlives_the_thread_that_opened_it() {
    let mut session = std::thread::spawn(|| session(LONG)).join().unwrap();
    std::thread::sleep(Duration::from_millis(50));
    works(&mut session);
    assert_eq!(session.status().unwrap().jobs_completed, 1, "the device is still the first one");
}

#[test]
fn a_device_that_is_killed_from_outside_is_reported_and_started_again() {
    let mut session = session(LONG);
    let echo = session.load_file(&module("echo.c")).unwrap();
    let first = session.device_process().unwrap();
    let killed = std::process::Command::new("kill").args(["-9", &first.to_string()]).status().unwrap();
    assert!(killed.success());
    let Err(Error::DeviceLost(lost)) = session.run(&echo, &[Input::from(&floats("1", &[1.0]))]) else {
        panic!("no loss")
    };
    assert_eq!(lost.to_string(), "the device was lost during INFER of module `echo.out`: SIGKILL (killed)");
    assert!(matches!(session.unload(echo), Err(Error::StaleModule { .. })));
    works(&mut session);
    assert_ne!(session.device_process().unwrap(), first);
}

#[test]
fn a_closed_session_leaves_no_process_behind() {
    let session = session(LONG);
    let id = session.device_process().unwrap();
    session.close().unwrap();
    assert!(!std::path::Path::new(&format!("/proc/{id}")).exists());
}

#[test]
fn a_program_that_is_no_device_is_reported_and_not_waited_for() {
    let transport = simulated(SimOptions { program: Some("/bin/true".into()), ..SimOptions::default() }).unwrap();
    let Err(Error::DeviceLost(lost)) = Session::open(transport, SessionOptions::default()) else { panic!("no loss") };
    assert_eq!(lost.to_string(), "the device was lost during boot: its process left with status 0");
    let transport = simulated(SimOptions { program: Some("/nowhere".into()), ..SimOptions::default() }).unwrap();
    assert!(matches!(Session::open(transport, SessionOptions::default()), Err(Error::Start { .. })));
}

#[test]
fn a_module_that_a_crash_took_away_is_restored_from_its_file() {
    let mut session = session(LONG);
    let good = session.load_file(&module("handwritten/d4.c")).unwrap();
    let bad = session.load_file(&module("faults/null_dereference.c")).unwrap();
    let (x, ..) = d4();
    assert!(matches!(session.run(&bad, &[Input::from(&x)]), Err(Error::DeviceLost(_))));
    let good = session.restore(good).unwrap();
    assert_d4(session.run(&good, &[Input::from(&x)]).unwrap().views());
}

#[test]
fn modules_in_the_generators_shapes_answer_the_same_after_another_module_crashed() {
    let mut session = session(LONG);
    let (d4_input, ..) = d4();
    let rectify = Tensor::from_values("1".parse().unwrap(), &[true]).unwrap();
    let rows = floats("3,4", &[1.0, -2.0, 3.0, -4.0, 5.0, -6.0, 7.0, -8.0, 9.0, -10.0, 11.0, -12.0]);
    let image = floats("64,128", &(0..64 * 128u16).map(|i| f32::from(i % 512) / 64.0).collect::<Vec<_>>());
    let cases = [
        ("handwritten/d4.c", vec![&d4_input]),
        ("generated/packed.c", vec![&rows, &rectify]),
        ("generated/tiles.c", vec![&image]),
    ];
    let mut answers: Vec<Vec<Vec<Tensor>>> = Vec::new();
    for _ in 0..2 {
        let round = cases.iter().map(|(source, inputs)| {
            let loaded = session.load_file(&module(source)).unwrap();
            let inputs: Vec<Input<'_>> = inputs.iter().copied().map(Input::from).collect();
            let outputs = session.run(&loaded, &inputs).unwrap();
            let tensors = outputs.views().map(|view| view.to_tensor()).collect();
            session.unload(loaded).unwrap();
            tensors
        });
        answers.push(round.collect());
        let bad = session.load_file(&module("faults/null_dereference.c")).unwrap();
        assert!(matches!(session.run(&bad, &[]), Err(Error::DeviceLost(_))));
    }
    assert_eq!(answers[0], answers[1]);
}
