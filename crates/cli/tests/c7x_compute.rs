//! `c7x_compute` as a program: the commands, output, JSON, exit codes and session protocol of the original.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};
use support::{PROGRAM, assert_d4, close, code, d4, json, module, stderr, stdout};

const COMPUTE: &str = env!("CARGO_BIN_EXE_c7x_compute");

fn command(device: &str) -> Command {
    let mut command = Command::new(COMPUTE);
    command.env("OUTBOARD_DEVICE", device).env_remove("OUTBOARD_TIMEOUT").env_remove("OUTBOARD_LOG");
    command.env("OUTBOARD_DEVICE_PROGRAM", PROGRAM);
    command
}

fn on(device: &str, folder: &Path, args: &[&str]) -> Output {
    command(device).current_dir(folder).args(args).stdin(Stdio::null()).output().unwrap()
}

/// A folder with the input of `d4.c`, and that module.
fn folder() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("x.bin"), d4().0.bytes()).unwrap();
    (folder, module("handwritten/d4.c").display().to_string())
}

/// The line of a result that a consumer of the original looks for: the first that starts with a brace.
fn json_line(output: &Output) -> Value {
    let text = stdout(output);
    let line = text.lines().find(|line| line.starts_with('{')).unwrap_or_else(|| panic!("{text}{}", stderr(output)));
    serde_json::from_str(line).unwrap()
}

/// A standing device that keeps modules, as a board does.
struct Board {
    child: Child,
    folder: tempfile::TempDir,
}

impl Board {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut device = Command::new(PROGRAM);
        device.args(["device", "run", "--shared", "--socket"]).arg(folder.path().join("dsp"));
        let child = device.stdin(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let until = Instant::now() + Duration::from_secs(5);
        while std::os::unix::net::UnixStream::connect(folder.path().join("dsp")).is_err() {
            assert!(Instant::now() < until, "the device listens");
            std::thread::sleep(Duration::from_millis(5));
        }
        Self { child, folder }
    }

    fn name(&self) -> String {
        format!("sim:{}", self.folder.path().join("dsp").display())
    }

    /// Runs a command; the session of the one before may take a moment to end.
    fn run(&self, args: &[&str]) -> Output {
        let until = Instant::now() + Duration::from_secs(5);
        loop {
            let output = on(&self.name(), self.folder.path(), args);
            if !stderr(&output).contains("is busy") || Instant::now() > until {
                return output;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Board {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn ping_and_status_print_what_the_original_prints() {
    let (folder, _) = folder();
    let ping = on("sim", folder.path(), &["ping"]);
    assert_eq!(code(&ping), 0, "{}", stderr(&ping));
    let text = stdout(&ping);
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines[..2], ["PING successful!", "  Version: 3.0.0"]);
    let uptime = lines[2].strip_prefix("  Uptime:  ").and_then(|rest| rest.strip_suffix(" seconds")).unwrap();
    assert_eq!(uptime.split_once('.').unwrap().1.len(), 3, "{uptime}");
    let status = on("sim", folder.path(), &["status"]);
    let text = stdout(&status);
    assert!(text.starts_with("C7x Compute Service Status:\n  Version: 3.0.0\n  Uptime:  "), "{text}");
    assert!(text.ends_with("Jobs completed: 0\n  Jobs failed: 0\n"), "{text}");
}

#[test]
fn run_prints_the_json_of_the_original_for_a_module_given_either_way() {
    let (folder, d4) = folder();
    for args in [
        &["run", &d4, "--input", "x.bin", "--output", "y.bin", "--shape", "1,2,4", "--dtype", "float32"][..],
        &["run", "-m", &d4, "-i", "x.bin", "-o", "y.bin", "-s", "1,2,4"],
    ] {
        let ran = on("sim", folder.path(), args);
        assert_eq!(code(&ran), 0, "{}", stderr(&ran));
        let result = json(&ran);
        let cycles = result["cycles"].as_u64().unwrap();
        assert!(cycles > 0);
        let expected = format!(
            "{{\"status\":\"ok\",\"cycles\":{cycles},\"num_outputs\":2,\"outputs\":[\
             {{\"index\":0,\"ndim\":2,\"dtype_code\":2,\"dtype_bits\":32,\"data_size\":16,\"shape\":[1,4]}},\
             {{\"index\":1,\"ndim\":1,\"dtype_code\":0,\"dtype_bits\":64,\"data_size\":8,\"shape\":[1]}}]}}\n"
        );
        assert_eq!(stdout(&ran), expected);
        let bytes = std::fs::read(folder.path().join("y.bin")).unwrap();
        let (first, second) = bytes.split_at(16);
        let first =
            outboard_tensor::Tensor::new(outboard_tensor::DType::Float32, "1,4".parse().unwrap(), first.to_vec());
        let second = outboard_tensor::Tensor::new(outboard_tensor::DType::Int64, "1".parse().unwrap(), second.to_vec());
        let (first, second) = (first.unwrap(), second.unwrap());
        assert_d4([first.view(), second.view()]);
        assert!(stderr(&ran).contains("d4: class "), "what a module prints goes to standard error: {}", stderr(&ran));
    }
}

#[test]
fn profile_runs_the_module_twice() {
    let (folder, _) = folder();
    let double = module("double.c").display().to_string();
    std::fs::write(folder.path().join("n.bin"), 3i64.to_le_bytes()).unwrap();
    let args = |command| [command, double.as_str(), "-i", "n.bin", "-o", "y.bin", "-d", "int64"];
    for (command, expected) in [("run", 6i64), ("profile", 12)] {
        let ran = on("sim", folder.path(), &args(command));
        assert_eq!(code(&ran), 0, "{}", stderr(&ran));
        assert_eq!(std::fs::read(folder.path().join("y.bin")).unwrap(), expected.to_le_bytes());
    }
}

#[test]
fn failures_name_their_stage_and_end_with_one() {
    let (folder, d4) = folder();
    let missing_symbol = module("faults/missing_symbol.c").display().to_string();
    let cases: [(&str, &[&str], Value); 4] = [
        (
            "sim:/nowhere/dsp",
            &["run", &d4, "-i", "x.bin"],
            json!({"status": "error", "stage": "open", "error": "Failed to open client"}),
        ),
        (
            "sim",
            &["run", &missing_symbol, "-i", "x.bin"],
            json!({"status": "error", "stage": "load", "error": "Dynamic load failed"}),
        ),
        (
            "sim",
            &["run", "no-such.out", "-i", "x.bin"],
            json!({"status": "error", "stage": "load", "error": "Invalid parameter"}),
        ),
        (
            "sim",
            &["run", &module("double.c").display().to_string(), "-i", "x.bin"],
            json!({"status": "error", "stage": "infer", "error": "Function call failed"}),
        ),
    ];
    for (device, args, expected) in cases {
        let ran = on(device, folder.path(), args);
        assert_eq!((code(&ran), json(&ran)), (1, expected), "{args:?}: {}", stderr(&ran));
        assert!(!stderr(&ran).is_empty());
    }
    let lost =
        on("sim", folder.path(), &["run", &module("faults/null_dereference.c").display().to_string(), "-i", "x.bin"]);
    assert_eq!((code(&lost), &json(&lost)["error"]), (1, &json!("Device not found")));
    assert!(stderr(&lost).contains("null_dereference"), "standard error says what happened: {}", stderr(&lost));
}

#[test]
fn a_deadline_that_passes_is_a_timeout() {
    let (folder, _) = folder();
    let endless = module("faults/infinite_loop.c").display().to_string();
    let mut command = command("sim");
    command.env("OUTBOARD_TIMEOUT", "0.5").current_dir(folder.path()).args(["run", &endless, "-i", "x.bin"]);
    let ran = command.output().unwrap();
    assert_eq!(json(&ran), json!({"status": "error", "stage": "infer", "error": "Timeout"}));
    let mut wrong = self::command("sim");
    let wrong = wrong.env("OUTBOARD_TIMEOUT", "soon").arg("ping").output().unwrap();
    assert_eq!(code(&wrong), 1);
    assert!(stderr(&wrong).contains("OUTBOARD_TIMEOUT: `soon` is not a positive number"), "{}", stderr(&wrong));
}

#[test]
fn usage_and_files_are_judged_before_a_device_is_opened() {
    let (folder, d4) = folder();
    let cases: [(&[&str], &str); 9] = [
        (&[], "Usage:"),
        (&["dance"], "Unknown command: dance"),
        (&["run", "--nope"], "unrecognized option '--nope'"),
        (&["run", "-i", "x.bin"], "Error: --module file required"),
        (&["run", &d4], "Error: --input file required"),
        (&["run", &d4, "-i", "none.bin"], "Error: cannot read none.bin"),
        (&["run", &d4, "-i", "x.bin", "-s", "1,9"], "Error: input 0: float32 of shape (1,9) needs 36 bytes"),
        (&["run", &d4, "-i", "x.bin", "-d", "float99"], "`float99` is not an element type"),
        (&["infer", "1"], "Error: infer needs a module handle and a model id"),
    ];
    for (args, message) in cases {
        // A device that cannot be opened shows that it is not tried.
        let ran = on("sim:/nowhere/dsp", folder.path(), args);
        assert_eq!((code(&ran), stdout(&ran).as_str()), (1, ""), "{args:?}");
        assert!(stderr(&ran).contains(message), "{args:?}: {}", stderr(&ran));
    }
    for help in ["help", "--help", "-h"] {
        let ran = on("sim:/nowhere/dsp", folder.path(), &[help]);
        assert_eq!(code(&ran), 0);
        assert!(stdout(&ran).starts_with("Usage: c7x_compute"));
    }
}

#[test]
fn devices_that_do_not_exist_or_are_not_known_are_named() {
    let (folder, _) = folder();
    let unknown = on("gpu", folder.path(), &["ping"]);
    assert_eq!(code(&unknown), 1);
    assert!(stderr(&unknown).contains("`gpu` names no device"), "{}", stderr(&unknown));
    let board = on("rpmsg:no-such.dsp", folder.path(), &["ping"]);
    assert_eq!(code(&board), 1, "no other device is taken instead");
    assert!(stderr(&board).contains("no C7x named no-such.dsp"), "{}", stderr(&board));
    let trace = on("sim", folder.path(), &["trace"]);
    assert_eq!(code(&trace), 1);
    assert!(stderr(&trace).contains("Trace of device sim not found"), "{}", stderr(&trace));
}

/// The smoke test of a board: processes that load, call and unload one after the other, five times.
#[test]
fn test_dynmod_load_infer_and_unload_are_processes_of_their_own() {
    let board = Board::start();
    let dynmod = module("dynmod.c").display().to_string();
    std::fs::write(board.folder.path().join("dummy.bin"), b"TEST").unwrap();
    for args in [&["ping"][..], &["status"]] {
        let ran = board.run(args);
        assert_eq!(code(&ran), 0, "{}", stderr(&ran));
    }
    for round in 0..5 {
        let loaded = board.run(&["load", &dynmod]);
        assert_eq!(code(&loaded), 0, "{}", stderr(&loaded));
        assert!(!stderr(&loaded).contains("warning"), "{}", stderr(&loaded));
        let handle = stdout(&loaded).trim().strip_prefix("Module loaded successfully: handle=").unwrap().to_owned();
        assert_ne!(handle, "0");
        let ran = board.run(&["infer", &handle, "0", "-i", "dummy.bin", "-o", "out.bin", "-d", "int8", "-s", "4"]);
        assert_eq!(code(&ran), 0, "round {round}: {}", stderr(&ran));
        let text = stdout(&ran);
        assert!(text.starts_with("Inference complete: "), "{text}");
        assert!(text.ends_with(" cycles\n  Outputs: 1\n  Written 4 bytes (1 tensors) to out.bin\n"), "{text}");
        assert_eq!(std::fs::read(board.folder.path().join("out.bin")).unwrap(), b"TEST");
        for line in ["cg_main_dsp called", "memcpy test: PASS", "compute test: 45 expected 45", "ALL TESTS PASSED"] {
            assert!(stderr(&ran).contains(line), "{}", stderr(&ran));
        }
        let unloaded = board.run(&["unload", &handle]);
        assert_eq!((code(&unloaded), stdout(&unloaded)), (0, format!("Module unloaded: handle={handle}\n")));
        let stale = board.run(&["infer", &handle, "0", "-i", "dummy.bin"]);
        assert_eq!(code(&stale), 1);
        assert!(stderr(&stale).contains("Inference failed: Invalid handle/id"), "{}", stderr(&stale));
    }
    assert!(stdout(&board.run(&["status"])).contains("Jobs completed: 5"));
}

/// The same over the nodes of a board: every process finds the DSP in sysfs, makes its endpoint and its buffers.
#[test]
fn test_dynmod_runs_over_the_nodes_of_a_board() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("dummy.bin"), b"TEST").unwrap();
    let script = r#"
        set -e
        cat /sys/class/remoteproc/remoteproc0/state
        "$COMPUTE" ping && "$COMPUTE" status
        for round in 1 2 3; do
            handle=$("$COMPUTE" load "$MODULE" | sed -n 's/.*handle=//p')
            "$COMPUTE" infer "$handle" 0 -i dummy.bin -o out.bin -d int8 -s 4
            cmp out.bin dummy.bin
            "$COMPUTE" unload "$handle"
        done
        "$COMPUTE" run -m "$MODULE" -i dummy.bin -d int8 -s 4
        grep 'Loaded module' /sys/kernel/debug/remoteproc/remoteproc0/trace0 || true
    "#;
    let programs = Path::new(support::PROGRAM).parent().unwrap();
    let output = Command::new(support::PROGRAM)
        .args(["board-env", "--incoherent", "--", "sh", "-c", script])
        .current_dir(folder.path())
        .env("COMPUTE", programs.join("c7x_compute"))
        .env("MODULE", module("dynmod.c"))
        .env("OUTBOARD_DEVICE", "rpmsg")
        .env("OUTBOARD_NODES_LIBRARY", programs.join("deps/liboutboard_nodes.so"))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let (out, err) = (stdout(&output), stderr(&output));
    assert_eq!(code(&output), 0, "{out}{err}");
    assert!(out.starts_with("running\nPING successful!\n"), "{out}");
    assert_eq!(out.matches("Inference complete: ").count(), 3, "{out}");
    assert_eq!(out.matches("Module unloaded: handle=").count(), 3, "{out}");
    assert!(out.contains("{\"status\":\"ok\""), "{out}");
    assert_eq!(err.matches("ALL TESTS PASSED").count(), 4, "{err}");
}

#[test]
fn weights_are_loaded_and_unloaded_by_id() {
    let board = Board::start();
    let weights = support::examples().join("offline/weights.bin").display().to_string();
    let loaded = board.run(&["model-load", &weights]);
    assert_eq!(code(&loaded), 0, "{}", stderr(&loaded));
    assert_eq!(stdout(&loaded), "Model loaded successfully: model_id=1\n");
    let unloaded = board.run(&["model-unload", "0x1"]);
    assert_eq!((code(&unloaded), stdout(&unloaded)), (0, "Model unloaded: model_id=1\n".to_owned()));
    let again = board.run(&["model-unload", "1"]);
    assert_eq!(code(&again), 1);
    assert!(stderr(&again).contains("Model unload failed: Invalid handle/id"), "{}", stderr(&again));
    std::fs::write(board.folder.path().join("bad.bin"), [1u8; 64]).unwrap();
    let bad = board.run(&["model-load", "bad.bin"]);
    assert_eq!(code(&bad), 1);
    assert!(stderr(&bad).contains("Model load failed: Weights parsing failed"), "{}", stderr(&bad));
}

#[test]
fn a_load_into_a_device_that_ends_with_the_command_warns() {
    let (folder, d4) = folder();
    let loaded = on("sim", folder.path(), &["load", "--input", "x.bin", &d4]);
    assert_eq!((code(&loaded), stdout(&loaded).as_str()), (0, "Module loaded successfully: handle=1\n"));
    assert!(stderr(&loaded).contains("forgets what was loaded"), "{}", stderr(&loaded));
}

#[test]
fn trace_prints_the_log_of_a_standing_device_until_it_is_interrupted() {
    let board = Board::start();
    board.run(&["ping"]);
    let mut trace = command(&board.name()).arg("trace").stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(trace.stdout.take().unwrap());
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    assert!(!line.trim().is_empty(), "the device logs its start");
    let killed = Command::new("kill").args(["-INT", &trace.id().to_string()]).status().unwrap();
    assert!(killed.success());
    assert_eq!(trace.wait().unwrap().code(), Some(0));
}

/// A running `session-run`.
struct Session {
    child: Child,
    requests: Option<ChildStdin>,
    replies: BufReader<ChildStdout>,
}

impl Session {
    fn start(module: &Path) -> Self {
        let mut session = Self::spawn(module);
        let ready = session.line();
        assert_eq!(ready, json!({"status": "ready", "module": module.display().to_string()}));
        session
    }

    fn spawn(module: &Path) -> Self {
        let mut command = command("sim");
        command.args(["session-run", "-m"]).arg(module).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.stderr(Stdio::null()).spawn().unwrap();
        let requests = child.stdin.take();
        let replies = BufReader::new(child.stdout.take().unwrap());
        Self { child, requests, replies }
    }

    fn send(&mut self, line: &str, payload: &[u8]) {
        let requests = self.requests.as_mut().unwrap();
        requests.write_all(line.as_bytes()).unwrap();
        requests.write_all(b"\n").unwrap();
        requests.write_all(payload).unwrap();
        requests.flush().unwrap();
    }

    fn line(&mut self) -> Value {
        let mut line = String::new();
        self.replies.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line}: {error}"))
    }

    fn ask(&mut self, request: &Value, payload: &[u8]) -> (Value, Vec<u8>) {
        self.send(&request.to_string(), payload);
        let reply = self.line();
        let mut bytes = vec![0; usize::try_from(reply["output_size"].as_u64().unwrap_or(0)).unwrap()];
        self.replies.read_exact(&mut bytes).unwrap();
        (reply, bytes)
    }

    fn end(mut self) -> i32 {
        drop(self.requests.take());
        let code = self.child.wait().unwrap().code().unwrap();
        let mut rest = Vec::new();
        self.replies.read_to_end(&mut rest).unwrap();
        assert_eq!(rest, b"", "nothing follows the last reply");
        code
    }
}

fn infer(size: usize, shape: &str) -> Value {
    json!({"op": "infer", "num_inputs": 1, "input_size": size, "shape": shape, "dtype": "float32"})
}

#[test]
fn a_session_answers_calls_until_it_is_told_to_exit() {
    let mut session = Session::start(&module("handwritten/d4.c"));
    let (x, probabilities, top) = d4();
    for _ in 0..3 {
        let (reply, bytes) = session.ask(&infer(32, "1,2,4"), x.bytes());
        assert_eq!(reply["status"], "ok", "{reply}");
        let keys: Vec<_> = reply.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(keys, ["status", "cycles", "num_outputs", "output_size", "outputs"]);
        assert_eq!((&reply["num_outputs"], &reply["output_size"]), (&json!(2), &json!(24)));
        let floats: Vec<f32> = bytes[..16].chunks(4).map(|four| f32::from_le_bytes(four.try_into().unwrap())).collect();
        assert!(close(&floats, &probabilities), "{floats:?}");
        assert_eq!(bytes[16..], top.to_le_bytes());
    }
    session.send(r#"{"op":"exit"}"#, b"");
    assert_eq!(session.child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_request_without_an_operation_is_a_call_and_the_end_of_requests_is_an_exit() {
    let mut session = Session::start(&module("echo.c"));
    let (reply, bytes) = session.ask(&json!({"num_inputs": 1, "input_size": 4, "dtype": "int8"}), b"echo");
    assert_eq!((&reply["outputs"][0]["shape"], bytes.as_slice()), (&json!([4]), &b"echo"[..]));
    assert_eq!(session.end(), 0);
}

#[test]
fn requests_that_make_no_sense_are_answered_and_the_session_goes_on() {
    let mut session = Session::start(&module("echo.c"));
    let invalid = json!({"status": "error", "error": "Invalid request format"});
    for (line, payload) in [
        ("hello", &b""[..]),
        ("{\"op\":", b""),
        (r#"{"op":"infer","input_size":12}"#, b"{\"op\":\"exit\""),
        (r#"{"op":"reserve_io","input_bytes":5}"#, b""),
        (r#"{"op":"dance","num_inputs":1,"input_size":3}"#, b"xyz"),
    ] {
        session.send(line, payload);
        assert_eq!(session.line(), invalid, "{line}");
    }
    let (reply, _) = session.ask(&infer(4, "2"), b"four");
    assert_eq!(reply, json!({"status": "error", "error": "Failed to parse inputs"}));
    let (reply, bytes) = session.ask(&infer(4, "1"), b"four");
    assert_eq!((&reply["status"], bytes.as_slice()), (&json!("ok"), &b"four"[..]));
    session.send(&infer(100, "1").to_string(), b"less than a hundred");
    assert_eq!(session.end(), 0, "an end inside a payload ends the session");
}

#[test]
fn windows_are_reserved_after_the_load_and_fixed_by_the_first_call() {
    let mut session = Session::start(&module("echo.c"));
    let reserve = |input: u64, output: u64| json!({"op": "reserve_io", "input_bytes": input, "output_bytes": output});
    assert_eq!(session.ask(&reserve(0x10000, 0x1000), b"").0, json!({"status": "ok"}));
    let (full, _) = session.ask(&reserve(1 << 30, 0), b"");
    assert_eq!(
        full,
        json!({"status": "error", "error": "Invalid handle/id"}),
        "the text of ENOMEM, as in the original"
    );
    let large = vec![7; 0x2000];
    let (refused, _) = session.ask(&infer(0x2000, "2048"), &large);
    assert_eq!(
        refused,
        json!({"status": "error", "error": "Invalid size"}),
        "the output window has the size asked for"
    );
    assert_eq!(session.ask(&reserve(0, 0x2000), b"").0, json!({"status": "ok"}), "a call that failed fixes nothing");
    let (reply, bytes) = session.ask(&infer(0x2000, "2048"), &large);
    assert_eq!((&reply["status"], bytes), (&json!("ok"), large));
    let fixed = json!({"status": "error", "error": "input_buf/output_buf already in use"});
    assert_eq!(session.ask(&reserve(0, 0x3000), b"").0, fixed);
    assert_eq!(session.end(), 0);
}

#[test]
fn caches_stay_on_the_device_and_equal_those_that_travel() {
    let step = |x: f32, at: i64| [&x.to_le_bytes()[..], &at.to_le_bytes()].concat();
    let y = |bytes: &[u8]| f32::from_le_bytes(bytes[..4].try_into().unwrap());
    let call = |size: usize, shape: &str, dtype: &str| json!({"op": "infer", "num_inputs": 5, "input_size": size, "shape": shape, "dtype": dtype});
    let all = ("1;1;128;128;128", "float32;int64;float32;float32;float32");

    let mut travelling = Session::start(&module("kv.c"));
    let mut caches = vec![0; 3 * 512];
    let mut expected = Vec::new();
    for at in 0..5i64 {
        let payload = [step(0.5 + at as f32, at), caches].concat();
        let (reply, bytes) = travelling.ask(&call(payload.len(), all.0, all.1), &payload);
        assert_eq!(reply["num_outputs"], 4, "{reply}");
        expected.push(y(&bytes));
        caches = bytes[4..].to_vec();
    }
    assert_eq!(travelling.end(), 0);

    let mut resident = Session::start(&module("kv.c"));
    let mut got = Vec::new();
    for at in 0..5i64 {
        let mut payload = step(0.5 + at as f32, at);
        let mut request = if at == 0 {
            payload.extend([0; 3 * 512]);
            call(payload.len(), all.0, all.1)
        } else {
            call(payload.len(), "1;1", "float32;int64")
        };
        let fields = request.as_object_mut().unwrap();
        for (name, value) in [
            ("kv_resident", 1),
            ("kv_num_tensors", 3),
            ("kv_num_heads", 1),
            ("kv_max_cache_len", 128),
            ("kv_head_dim", 1),
        ] {
            fields.insert(name.to_owned(), json!(value));
        }
        let (reply, bytes) = resident.ask(&request, &payload);
        assert_eq!((&reply["num_outputs"], &reply["output_size"]), (&json!(1), &json!(4)), "{reply}");
        got.push(y(&bytes));
    }
    assert_eq!(got, expected);
    assert_eq!(resident.end(), 0);
}

#[test]
fn a_session_that_cannot_start_says_at_which_stage() {
    let mut session = Session::spawn(&PathBuf::from("no-such.out"));
    assert_eq!(session.line(), json!({"status": "error", "stage": "load", "error": "Invalid parameter"}));
    assert_eq!(session.end(), 1);
    let open = on("sim:/nowhere/dsp", Path::new("."), &["session-run", "x.out"]);
    assert_eq!(json_line(&open)["stage"], "open");
    assert_eq!(code(&open), 1);
}
