//! What users of comparable systems reported, as tests named after the ids of `docs/reports.md`: here those about devices,
//! memory, printing, recovery and timing.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use outboard_host::{Error, Input, RunOptions, Session, SessionOptions, SimOptions, simulated};
use outboard_tensor::{DType, Tensor};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use support::{PROGRAM, assert_d4, d4, floats, module, session};

const LONG: Duration = Duration::from_secs(30);

fn write_input(folder: &Path, tensor: &Tensor) {
    std::fs::write(folder.join("x.npy"), tensor.view().to_npy().unwrap()).unwrap();
}

fn works(session: &mut Session) {
    let good = session.load_file(&module("handwritten/d4.c")).unwrap();
    let (x, ..) = d4();
    assert_d4(session.run(&good, &[Input::from(&x)]).unwrap().views());
    session.unload(good).unwrap();
}

/// Asks `behaviours.c` for one of its behaviours.
fn behave(session: &mut Session, what: i32) -> Result<Vec<i32>, Error> {
    let behaviours = session.load_file(&module("behaviours.c"))?;
    let number = Tensor::from_values("1".parse().unwrap(), &[what])?;
    let answer = session.run(&behaviours, &[Input::from(&number)]).map(|outputs| outputs.to_tensor(0));
    let answer = answer?.map(|tensor| tensor.values::<i32>().unwrap()).unwrap_or_default();
    session.unload(behaviours)?;
    Ok(answer)
}

// TVM 99f06aae5: the second module crashed through a pointer into the first one's freed data.
#[test]
fn d1_a_second_module_finds_nothing_of_the_first_ones_memory() {
    let mut session = session(LONG);
    for _ in 0..3 {
        assert_eq!(behave(&mut session, 1).unwrap(), [1], "a counter in .bss starts at zero after every load");
        works(&mut session);
    }
}

// TVM d6059ae2d and edgeai-gst-plugins#115: exhausted memory was reported as "Function call failed" or a bare number.
#[test]
fn d2_d15_exhausted_memory_names_the_pool_and_its_figures() {
    let mut session = session(LONG);
    let error = behave(&mut session, 2).unwrap_err();
    let Error::OutOfMemory { pool, requested, free, total, .. } = error else { panic!("{error}") };
    assert!(pool.contains("MAIN"), "{pool}");
    assert_eq!((requested, total), (1 << 30, 352 << 20));
    assert!(free > 300 << 20 && free < total);
    works(&mut session);
}

// TVM d891e73cb, 6de88fca8: a full printf buffer stopped the DSP, and only a power cycle helped.
#[test]
fn d4_printing_far_more_than_the_buffer_holds_never_blocks_and_is_counted() {
    let mut session = session(LONG);
    behave(&mut session, 3).unwrap();
    let text = session.module_text();
    assert_eq!(text.bytes().len(), 65_520);
    assert_eq!(text.dropped(), 20 * 8192 - 65_520);
}

// TVM f1108debe: after a failure neither the output nor the layer in flight was shown.
#[test]
fn d5_what_a_module_printed_before_it_failed_is_shown_with_the_error() {
    let folder = tempfile::tempdir().unwrap();
    write_input(folder.path(), &Tensor::from_values("1".parse().unwrap(), &[4i32]).unwrap());
    let file = module("behaviours.c").display().to_string();
    let output = support::outboard(folder.path(), &["run", &file, "--input", "x.npy", "--output", "y.npy"]);
    assert_eq!(output.status.code(), Some(2));
    let text = support::stderr(&output);
    assert!(text.contains("[FAILED, in flight] conv1") && text.contains("returned -7"), "{text}");
}

// TVM 9514d4786: the driver was initialised for every load and torn down while handles lived.
#[test]
fn d6_two_modules_use_dma_and_one_is_unloaded_without_harm_to_the_other() {
    let mut session = session(LONG);
    let number = Tensor::from_values("1".parse().unwrap(), &[5i32]).unwrap();
    let a = session.load_file(&module("behaviours.c")).unwrap();
    let b = session.load_file(&module("behaviours.c")).unwrap();
    for handle in [&a, &b] {
        let copied = session.run(handle, &[Input::from(&number)]).unwrap().to_tensor(0).unwrap();
        assert_eq!(copied.values::<i32>().unwrap(), [0, 1234]);
    }
    session.unload(a).unwrap();
    let copied = session.run(&b, &[Input::from(&number)]).unwrap().to_tensor(0).unwrap();
    assert_eq!(copied.values::<i32>().unwrap(), [0, 1234]);
}

// TVM bb3e2abb4: int64 constants at addresses of four bytes were read wrong.
#[test]
fn d7_a_constant_that_lies_less_aligned_than_its_type_is_moved_before_it_is_used() {
    let mut session = session(LONG);
    assert_eq!(behave(&mut session, 6).unwrap(), [0, 77]);
}

// TVM 1ad581c7c and edgeai-tidl-tools#101: a kernel or stage failed, its code was ignored, and zeros came out.
#[test]
fn d8_d12_a_failing_kernel_is_an_error_and_leaves_no_output() {
    let folder = tempfile::tempdir().unwrap();
    write_input(folder.path(), &Tensor::from_values("1".parse().unwrap(), &[4i32]).unwrap());
    let file = module("behaviours.c").display().to_string();
    let output = support::outboard(folder.path(), &["run", &file, "--input", "x.npy", "--output", "y.npy", "--json"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(support::json(&output)["return_value"], -7);
    assert!(!folder.path().join("y.npy").exists());
}

// TVM 11ae396c9: a client stopped on a full pipe that nobody read.
#[test]
fn d10_an_unread_standard_error_does_not_hold_the_result_back() {
    let folder = tempfile::tempdir().unwrap();
    write_input(folder.path(), &Tensor::from_values("1".parse().unwrap(), &[3i32]).unwrap());
    let mut child = Command::new(PROGRAM)
        .current_dir(folder.path())
        .arg("run")
        .arg(module("behaviours.c"))
        .args(["--input", "x.npy", "--output", "y.npy", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut result = String::new();
    std::io::Read::read_to_string(child.stdout.as_mut().unwrap(), &mut result).unwrap();
    assert!(result.contains("\"status\":\"ok\""), "{result}");
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(folder.path().join("y.npy").exists());
}

// edgeai-tidl-tools#30: the CPU was used when the device was missing.
#[test]
fn d13_f4_a_device_that_is_not_there_is_an_error_and_no_other_takes_its_place() {
    let folder = tempfile::tempdir().unwrap();
    write_input(folder.path(), &floats("1", &[1.0]));
    let file = module("echo.c").display().to_string();
    for (device, status) in [("sim:/nowhere/dsp", 2), ("rpmsg:7e000000.dsp", 2), ("gpu", 1)] {
        let output = support::outboard(
            folder.path(),
            &["run", &file, "--input", "x.npy", "--output", "y.npy", "--device", device],
        );
        assert_eq!(output.status.code(), Some(status), "{device}: {}", support::stderr(&output));
        assert!(!folder.path().join("y.npy").exists(), "{device}");
    }
}

// E2E SK-AM62A: a core that was suspended while a session was open never answered again.
#[test]
fn d18_a_device_that_is_stopped_is_given_up_and_the_session_goes_on() {
    let mut session = session(Duration::from_millis(500));
    let echo = session.load_file(&module("echo.c")).unwrap();
    let process = session.device_process().unwrap();
    let stopped = Command::new("kill").args(["-STOP", &process.to_string()]).status().unwrap();
    assert!(stopped.success());
    let x = floats("1", &[1.0]);
    let error = session.run(&echo, &[Input::from(&x)]).unwrap_err();
    assert!(matches!(&error, Error::Timeout { .. }), "{error}");
    works(&mut session);
}

// open-amp#442, #692: a message took milliseconds and nobody knew where; the mean hid the tail.
#[test]
fn e6_e7_a_ping_shows_each_hop_and_the_tail() {
    let folder = tempfile::tempdir().unwrap();
    let asked = support::outboard(folder.path(), &["ping", "--hops", "--count", "50", "--json"]);
    assert_eq!(support::code(&asked), 0, "{}", support::stderr(&asked));
    let times = &support::json(&asked)["times"];
    for row in ["round_trip", "to_the_device", "in_the_device", "to_the_host"] {
        let [half, tail] = ["p50_us", "p99_us"].map(|key| times[row][key].as_f64().unwrap());
        assert!(half > 0.0 && tail >= half, "{row}: {times}");
        assert!(times[row]["samples"].as_u64() > Some(0), "{row}: {times}");
    }
}

// E2E AM625: zero-copy looked slower, because one end was timed with the printing of the other.
#[test]
fn e9_calls_with_inputs_in_place_and_copied_are_timed_at_both_ends_in_one_run() {
    let folder = tempfile::tempdir().unwrap();
    let x = floats("1,64", &[1.0; 64]);
    write_input(folder.path(), &x);
    let echo = module("echo.c").display().to_string();
    let ran = support::outboard(
        folder.path(),
        &["bench", "call", &echo, "--input", "x.npy", "--count", "20", "--json", "--device", "sim"],
    );
    assert_eq!(support::code(&ran), 0, "{}", support::stderr(&ran));
    let result = support::json(&ran);
    assert_eq!((result["device"].as_str(), result["count"].as_u64()), (Some("sim"), Some(20)));
    for row in ["ping", "entry", "infer", "overhead", "call"] {
        assert!(result["times"][row]["p99_us"].as_f64() >= result["times"][row]["p50_us"].as_f64(), "{row}: {result}");
    }
}

// openamp-system-reference#109, #56: only the first activation worked.
#[test]
fn e2_a_device_can_be_started_and_stopped_again_and_again() {
    for _ in 0..5 {
        let transport = simulated(SimOptions { program: Some(PROGRAM.into()), ..SimOptions::default() }).unwrap();
        let mut session = Session::open(transport, SessionOptions::default()).unwrap();
        works(&mut session);
        session.close().unwrap();
    }
}

// nuttx PR#10680: after a reboot of the remote side the host used what was no longer there.
#[test]
fn e11_handles_from_before_a_restart_fail_at_once() {
    let mut session = session(LONG);
    let echo = session.load_file(&module("echo.c")).unwrap();
    let bad = session.load_file(&module("faults/null_dereference.c")).unwrap();
    let x = floats("1", &[1.0]);
    session.run(&bad, &[Input::from(&x)]).unwrap_err();
    let start = Instant::now();
    assert!(matches!(session.run(&echo, &[Input::from(&x)]), Err(Error::StaleModule { .. })));
    assert!(matches!(session.unload(bad), Err(Error::StaleModule { .. })));
    assert!(start.elapsed() < Duration::from_secs(1));
}

// thesofproject/linux#452: a firmware that was stuck meant a reboot of the machine.
#[test]
fn e12_a_kernel_that_never_answers_is_ended_and_the_device_is_as_new() {
    let mut session = session(Duration::from_millis(500));
    let stuck = session.load_file(&module("faults/infinite_loop.c")).unwrap();
    let x = floats("1", &[1.0]);
    let error = session.run(&stuck, &[Input::from(&x)]).unwrap_err();
    assert!(matches!(&error, Error::Timeout { .. }), "{error}");
    assert!(error.to_string().contains("infinite_loop.out"), "{error}");
    works(&mut session);
}

// iceoryx2#434: setting a service up was hidden in the first call's time.
#[test]
fn e17_loading_and_calling_are_timed_apart() {
    let folder = tempfile::tempdir().unwrap();
    write_input(folder.path(), &floats("1", &[1.0]));
    let file = module("echo.c").display().to_string();
    let timing = support::json(&support::outboard(folder.path(), &["run", &file, "--input", "x.npy", "--json"]));
    assert!(timing["timing"]["load_us"].as_f64().unwrap() > 0.0);
    assert!(timing["timing"]["round_trip_us"].as_f64().unwrap() > 0.0);
}

// executorch#15732: a second load in one process failed.
#[test]
fn f6_load_unload_load_works_in_one_process() {
    let mut session = session(LONG);
    for _ in 0..3 {
        works(&mut session);
    }
}

// llama.cpp#19617: a second session's messages failed or went astray.
#[test]
fn f3_two_sessions_interleave_over_queues_of_their_own() {
    let (mut a, mut b) = (session(LONG), session(LONG));
    let (echo_a, echo_b) = (a.load_file(&module("echo.c")).unwrap(), b.load_file(&module("echo.c")).unwrap());
    for round in 0..50u8 {
        let (x, y) = (floats("1", &[f32::from(round)]), floats("1", &[-f32::from(round)]));
        assert_eq!(a.run(&echo_a, &[Input::from(&x)]).unwrap().to_tensor(0), Some(x.clone()));
        assert_eq!(b.run(&echo_b, &[Input::from(&y)]).unwrap().to_tensor(0), Some(y.clone()));
    }
}

// fastrpc#297: frightening lines on a healthy start.
#[test]
fn f7_a_healthy_start_prints_nothing_alarming() {
    let folder = tempfile::tempdir().unwrap();
    write_input(folder.path(), &floats("1", &[1.0]));
    let file = module("echo.c").display().to_string();
    let text = support::stderr(&support::outboard(folder.path(), &["run", &file, "--input", "x.npy"])).to_lowercase();
    for word in ["error", "warn", "fail", "cannot"] {
        assert!(!text.contains(word), "{text}");
    }
}

#[test]
fn a_repeated_run_prints_a_line_an_iteration_with_its_cycles() {
    let mut session = session(LONG);
    let echo = session.load_file(&module("echo.c")).unwrap();
    let x = floats("1", &[1.0]);
    session.run_with(&echo, &[Input::from(&x)], &RunOptions::repeat(3)).unwrap();
    let text = session.module_text().text().into_owned();
    assert_eq!(text.lines().filter(|line| line.starts_with("[Iteration ")).count(), 3, "{text}");
}

/// A session whose host and device do not see each other's writes by themselves.
fn incoherent() -> SimOptions {
    SimOptions { program: Some(PROGRAM.into()), incoherent: true, ..SimOptions::default() }
}

// blueoil#957, libdrmtap#10, udmabuf#101: a missing sync went unnoticed where caches are coherent and broke elsewhere.
#[test]
fn e14_e15_the_same_program_runs_with_caches_that_are_not_coherent() {
    let mut session = Session::open(simulated(incoherent()).unwrap(), SessionOptions::default()).unwrap();
    works(&mut session);
    let echo = session.load_file(&module("echo.c")).unwrap();
    session.reserve_io(4096, 4096).unwrap();
    for round in 0..5u8 {
        let x = floats("3", &[f32::from(round); 3]);
        let buffer = session.input(&echo, x.dtype(), x.shape().clone()).unwrap();
        session.input_bytes_mut(&buffer).unwrap().copy_from_slice(x.bytes());
        let buffer = session.hand_over(buffer).unwrap();
        assert_eq!(session.run(&echo, &[Input::from(&buffer)]).unwrap().to_tensor(0), Some(x.clone()));
        assert_eq!(session.run(&echo, &[Input::from(&x)]).unwrap().to_tensor(0), Some(x));
    }
}

#[test]
fn p13_a_missing_sync_shows_stale_bytes_when_caches_are_not_coherent() {
    use outboard_host::{Event, Transport, Wait};
    use outboard_wire::{DynLoad, DynLoadReply, Infer, InferFlags, InferReply, SharedMap, Status, TensorDesc};
    use zerocopy::IntoBytes;
    let mut transport = simulated(incoherent()).unwrap();
    transport.start(&Wait::start("the device", LONG)).unwrap();
    let mut staging = transport.allocate(SharedMap::STAGING.size + SharedMap::KV.size).unwrap();
    let file = std::fs::read(module("echo.c")).unwrap();
    staging.write(0, &file).unwrap();
    let request = DynLoad::new(1, u32::try_from(file.len()).unwrap());
    fn ask(transport: &mut dyn Transport, message: &[u8]) -> Vec<u8> {
        transport.send(message).unwrap();
        let mut reply = [0; 512];
        let Event::Message(len) = transport.receive(&mut reply, Instant::now() + LONG).unwrap() else {
            panic!("no answer")
        };
        reply[..len].to_vec()
    }
    let load = |transport: &mut dyn Transport| DynLoadReply::parse(&ask(transport, request.as_bytes())).unwrap();
    assert_eq!(
        load(&mut transport).header.status(),
        Some(Status::Load),
        "the device sees what was there before: zeros"
    );
    let _staging = transport.hand_over(staging).unwrap();
    let loaded = load(&mut transport);
    assert_eq!(loaded.header.status(), Some(Status::Success));

    let (mut input, output) = (transport.allocate(4096).unwrap(), transport.allocate(4096).unwrap());
    let windows = (input.window(), output.window());
    let x = TensorDesc::new(windows.0.base, 4, 1, 8, &[4]).unwrap();
    let infer = |transport: &mut dyn Transport| {
        let request = Infer::new(2, loaded.module_handle.get(), 0, InferFlags::repeat(1), windows, &[x]).unwrap();
        let reply = ask(transport, request.bytes());
        assert_eq!(InferReply::parse_fixed(&reply).unwrap().header.status(), Some(Status::Success));
    };
    input.write(0, &[1, 2, 3, 4]).unwrap();
    let input = transport.hand_over(input).unwrap();
    infer(&mut transport);
    // The output was never given to the device, so that it can be looked at: the answer is there, and this side does not see it.
    assert_eq!(output.bytes(0, 4).unwrap(), [0; 4]);
    let given = transport.hand_over(output).unwrap();
    let output = transport.take_back(given).unwrap();
    assert_eq!(output.bytes(0, 4).unwrap(), [1, 2, 3, 4]);
    // What the host writes next is not what the device reads, until it is handed over.
    let mut input = transport.take_back(input).unwrap();
    input.write(0, &[5, 6, 7, 8]).unwrap();
    let answer = |transport: &mut dyn Transport, output| {
        let given = transport.hand_over(output).unwrap();
        infer(transport);
        let output = transport.take_back(given).unwrap();
        (output.bytes(0, 4).unwrap().to_vec(), output)
    };
    let (stale, output) = answer(&mut transport, output);
    assert_eq!(stale, [1, 2, 3, 4]);
    let _input = transport.hand_over(input).unwrap();
    assert_eq!(answer(&mut transport, output).0, [5, 6, 7, 8]);
    transport.kill();
}

#[test]
fn p13_buffers_of_both_owners_share_a_window_without_losing_a_byte() {
    let mut session = Session::open(simulated(incoherent()).unwrap(), SessionOptions::default()).unwrap();
    let double = session.load_file(&module("double.c")).unwrap();
    session.reserve_io(4096, 4096).unwrap();
    let two = || "2".parse().unwrap();
    let (given, kept) =
        (session.input(&double, DType::Int64, two()).unwrap(), session.input(&double, DType::Int64, two()).unwrap());
    session.input_bytes_mut(&given).unwrap().fill(0);
    session.input_bytes_mut(&given).unwrap()[0] = 3;
    let given = session.hand_over(given).unwrap();
    // The module doubles its input where it lies, while the host fills another one.
    session.run(&double, &[Input::from(&given)]).unwrap();
    session.input_bytes_mut(&kept).unwrap().fill(9);
    session.run(&double, &[Input::from(&given)]).unwrap();
    session.input_bytes_mut(&kept).unwrap()[0] = 8;
    let given = session.take_back(given).unwrap();
    assert_eq!(session.input_bytes(&given).unwrap()[0], 12);
    assert_eq!(session.input_bytes(&kept).unwrap()[..2], [8, 9]);
}
