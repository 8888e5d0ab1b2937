//! A standing device: several clients, isolation, the board's one-client rule, faults on request, recovery.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use outboard_host::{Deadlines, Error, Input, Session, SessionOptions, list_devices, read_trace, standing};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use support::{PROGRAM, assert_d4, d4, floats, module};

/// `outboard device run` over a socket in a folder of its own.
struct Device {
    child: Child,
    folder: tempfile::TempDir,
}

impl Device {
    fn start(arguments: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("dsp");
        let child = Command::new(PROGRAM)
            .args(["device", "run", "--socket"])
            .arg(&socket)
            .args(arguments)
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let device = Self { child, folder };
        eventually("the device listens", || std::os::unix::net::UnixStream::connect(device.socket()).is_ok());
        device
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("dsp")
    }

    fn try_session(&self, deadline: Duration) -> Result<Session, Error> {
        let deadlines = Deadlines { infer: deadline, load: deadline, ..Deadlines::all(deadline) };
        Session::open(standing(&self.socket(), None)?, SessionOptions { deadlines })
    }

    fn session(&self) -> Session {
        self.try_session(Duration::from_secs(30)).unwrap()
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits for something that must happen soon: 2 seconds, more than any of these things may take.
fn eventually(what: &str, mut happened: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(2);
    while !happened() {
        assert!(Instant::now() < until, "not within 2 s: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn runs_d4(session: &mut Session) -> Result<(), Error> {
    let good = session.load_file(&module("handwritten/d4.c"))?;
    let (x, ..) = d4();
    assert_d4(session.run(&good, &[Input::from(&x)])?.views());
    session.unload(good)
}

#[test]
fn clients_with_different_modules_interleave_without_seeing_each_other() {
    let device = Device::start(&[]);
    let mut sessions: Vec<Session> = (0..3).map(|_| device.session()).collect();
    let echo: Vec<_> = sessions.iter_mut().map(|session| session.load_file(&module("echo.c")).unwrap()).collect();
    let (x, ..) = d4();
    let mut random = 0x9E37_79B9_7F4A_7C15u64;
    for round in 0..300u16 {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let who = usize::try_from(random % 3).unwrap();
        let session = &mut sessions[who];
        if random & 8 == 0 {
            let good = session.load_file(&module("handwritten/d4.c")).unwrap();
            assert_d4(session.run(&good, &[Input::from(&x)]).unwrap().views());
            session.unload(good).unwrap();
        } else {
            let own = floats("4", &[f32::from(round), 1.0, 2.0, f32::from(u8::try_from(who).unwrap())]);
            let outputs = session.run(&echo[who], &[Input::from(&own)]).unwrap();
            assert_eq!(outputs.view(0).unwrap().to_tensor(), own, "client {who}, round {round}");
        }
    }
    let rows = list_devices(&device.socket()).unwrap();
    assert_eq!(rows.len(), 3);
    let jobs: u64 = rows.iter().map(|row| row.jobs_completed).sum();
    assert_eq!(jobs, 300);
    assert!(rows.iter().all(|row| row.client == std::process::id() && row.state == "ready" && row.modules == 1));
}

#[test]
fn a_device_that_models_the_board_serves_one_client_at_a_time() {
    let device = Device::start(&["--shared"]);
    let mut first = device.session();
    runs_d4(&mut first).unwrap();
    let busy = device.try_session(Duration::from_secs(5)).unwrap_err();
    assert!(matches!(busy, Error::Busy { .. }), "{busy}");
    assert!(busy.to_string().contains(&format!("process {} is connected", std::process::id())), "{busy}");
    let process = first.device_process().unwrap();
    first.close().unwrap();
    let mut next = None;
    eventually("the next client is served", || {
        next = device.try_session(Duration::from_secs(5)).ok();
        next.is_some()
    });
    let mut second = next.unwrap();
    assert_eq!(second.device_process(), Some(process), "the device outlives its clients");
    assert_eq!(second.status().unwrap().jobs_completed, 1);
    runs_d4(&mut second).unwrap();
}

#[test]
fn a_session_that_ends_without_a_word_takes_its_device_process_along() {
    let device = Device::start(&[]);
    let session = device.session();
    let process = session.device_process().unwrap();
    assert_eq!(list_devices(&device.socket()).unwrap().len(), 1);
    drop(session);
    eventually("its row disappears", || list_devices(&device.socket()).unwrap().is_empty());
    eventually("its process is gone", || !PathBuf::from(format!("/proc/{process}")).exists());
}

#[test]
fn f9_a_hundred_crashes_in_a_row_are_each_named_and_recovered_from() {
    let device = Device::start(&[]);
    let mut session = device.session();
    for round in 0..100 {
        let bad = session.load_file(&module("faults/null_dereference.c")).unwrap();
        let x = floats("1", &[1.0]);
        let start = Instant::now();
        let error = session.run(&bad, &[Input::from(&x)]).unwrap_err();
        assert!(start.elapsed() < Duration::from_secs(1), "round {round}: reported after {:?}", start.elapsed());
        assert!(matches!(&error, Error::DeviceLost(_)), "round {round}: {error}");
        assert!(error.to_string().contains("read_missing_table+"), "round {round}: {error}");
        assert!(matches!(session.run(&bad, &[Input::from(&x)]), Err(Error::StaleModule { .. })), "round {round}");
    }
    runs_d4(&mut session).unwrap();
}

#[test]
fn a_crash_at_any_message_boundary_is_reported_and_the_next_session_works() {
    for fault in
        ["crash=1", "crash=2", "crash=3", "crash=4", "crash-after=1", "crash-after=2", "crash-after=3", "crash-after=4"]
    {
        let device = Device::start(&["--inject", fault]);
        let outcome = device.try_session(Duration::from_secs(10)).and_then(|mut session| {
            // The second and later device processes have the same fault, so this session never gets far.
            runs_d4(&mut session)
        });
        let error = outcome.unwrap_err();
        let Error::DeviceLost(lost) = &error else { panic!("{fault}: {error}") };
        assert!(lost.cause.name().contains("SIGABRT"), "{fault}: {error}");
        eventually("no process is left", || list_devices(&device.socket()).unwrap().is_empty());
    }
}

#[test]
fn e1_e4_a_lost_announcement_ends_at_the_deadline_and_a_late_one_is_waited_for() {
    let silent = Device::start(&["--inject", "announce=lost"]);
    let error = silent.try_session(Duration::from_millis(300)).unwrap_err();
    assert!(matches!(&error, Error::Timeout { .. }), "{error}");
    let late = Device::start(&["--inject", "announce=late:200"]);
    runs_d4(&mut late.session()).unwrap();
}

#[test]
fn a_message_that_is_lost_ends_at_the_deadline_and_names_what_was_awaited() {
    let device = Device::start(&["--inject", "drop=1"]);
    let error = device.try_session(Duration::from_millis(300)).unwrap_err();
    assert!(matches!(&error, Error::Timeout { .. }), "{error}");
    assert!(error.to_string().contains("PING"), "{error}");
}

#[test]
fn late_replies_and_a_busy_ring_change_nothing_but_time() {
    let device = Device::start(&["--inject", "delay=0.5:5,busy=0.5:5,seed=11"]);
    let mut session = device.session();
    for _ in 0..10 {
        runs_d4(&mut session).unwrap();
    }
}

#[test]
fn a_device_that_hangs_is_given_up_and_started_again() {
    let device = Device::start(&["--inject", "hang=4"]);
    let mut session = device.try_session(Duration::from_millis(500)).unwrap();
    let error = runs_d4(&mut session).unwrap_err();
    assert!(matches!(&error, Error::Timeout { .. }), "{error}");
    session.ping().unwrap();
}

#[test]
fn exhausted_memory_at_any_allocation_is_an_error_and_loses_nothing() {
    for count in 1..=8 {
        let fault = format!("oom={count}");
        let device = Device::start(&["--inject", &fault]);
        let mut session = device.session();
        if let Err(error) = runs_d4(&mut session) {
            let known =
                matches!(&error, Error::OutOfMemory { .. } | Error::CallFailed { .. } | Error::LoadFailed { .. });
            assert!(known, "{fault}: {error}");
        }
        runs_d4(&mut session).unwrap_or_else(|error| panic!("after {fault}: {error}"));
    }
}

#[test]
fn the_trace_tells_what_the_device_did() {
    let device = Device::start(&[]);
    let mut session = device.session();
    runs_d4(&mut session).unwrap();
    let (text, next) = read_trace(&device.socket(), session.device_process().unwrap(), 0).unwrap();
    for line in [
        "Service initialized",
        "Announced rpmsg_chrdev",
        "Loaded module handle=1",
        "cg_main_dsp returned 0",
        "Unloaded module",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    assert_eq!(next, text.len() as u64);
    assert_eq!(read_trace(&device.socket(), session.device_process().unwrap(), next).unwrap().0, "");
}

#[test]
fn a_socket_in_use_is_refused_and_one_left_behind_is_replaced() {
    let device = Device::start(&[]);
    let second = support::outboard(device.folder.path(), &["device", "run", "--socket", "dsp"]);
    assert_eq!(second.status.code(), Some(2));
    assert!(support::stderr(&second).contains("listens at dsp already"), "{}", support::stderr(&second));
    let bad = support::outboard(device.folder.path(), &["device", "run", "--socket", "x", "--inject", "flood=1"]);
    assert_eq!(bad.status.code(), Some(1));
    assert!(support::stderr(&bad).contains("there is no such fault"), "{}", support::stderr(&bad));
}

/// Runs the program against a device and returns its output; the exit status must be the expected one.
fn cli(device: &Device, status: i32, arguments: &[&str]) -> std::process::Output {
    let name = format!("sim:{}", device.socket().display());
    let output = support::outboard(device.folder.path(), &[arguments, &["--device", &name]].concat());
    assert_eq!(output.status.code(), Some(status), "{arguments:?}: {}", support::stderr(&output));
    output
}

#[test]
fn load_infer_and_unload_are_separate_commands_on_a_device_that_keeps_its_modules() {
    let device = Device::start(&["--shared"]);
    let (x, probabilities, _) = d4();
    std::fs::write(device.folder.path().join("x.npy"), x.view().to_npy().unwrap()).unwrap();
    let d4_file = module("handwritten/d4.c").display().to_string();
    assert_eq!(support::stdout(&cli(&device, 0, &["load", &d4_file])), "1\n");
    let ran = cli(&device, 0, &["infer", "1", "--input", "x.npy", "--output", "y.npy", "--json"]);
    assert_eq!(support::json(&ran)["num_outputs"], 2);
    let file = std::fs::read(device.folder.path().join("y.0.npy")).unwrap();
    let values = outboard_tensor::Tensor::from_npy(&file).unwrap().values::<f32>().unwrap();
    assert!(support::close(&values, &probabilities), "{values:?}");
    assert_eq!(support::json(&cli(&device, 0, &["status", "--json"]))["jobs_completed"], 1);
    let top = support::json(&cli(&device, 0, &["top", "--json"]));
    assert_eq!((top["devices"][0]["modules"].as_u64(), top["devices"][0]["client"].as_u64()), (Some(1), Some(0)));
    let hops = support::json(&cli(&device, 0, &["ping", "--hops", "--count", "20", "--json"]));
    assert_eq!(hops["times"]["in_the_device"]["samples"], 20);
    cli(&device, 0, &["unload", "1"]);
    let refused = cli(&device, 2, &["infer", "1", "--input", "x.npy"]);
    assert!(support::stderr(&refused).contains("ERR_HANDLE"), "{}", support::stderr(&refused));
    assert!(support::stdout(&cli(&device, 0, &["trace"])).contains("Unloaded module handle=1"));
    let isolated = Device::start(&[]);
    let refused = cli(&isolated, 1, &["load", &d4_file]);
    assert!(support::stderr(&refused).contains("forgets its modules"), "{}", support::stderr(&refused));
}

#[test]
fn a_client_killed_while_its_module_runs_takes_its_device_process_along() {
    let device = Device::start(&[]);
    let (x, ..) = d4();
    std::fs::write(device.folder.path().join("x.npy"), x.view().to_npy().unwrap()).unwrap();
    let mut client = Command::new(PROGRAM)
        .current_dir(device.folder.path())
        .arg("run")
        .arg(module("faults/infinite_loop.c"))
        .args(["--input", "x.npy", "--timeout", "60", "--device"])
        .arg(format!("sim:{}", device.socket().display()))
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut process = 0;
    eventually("its module runs", || {
        let rows = list_devices(&device.socket()).unwrap();
        let Some(row) = rows.first().filter(|row| row.client == client.id()) else { return false };
        process = row.process;
        read_trace(&device.socket(), process, 0).is_ok_and(|(text, _)| text.contains("INFER module=1"))
    });
    client.kill().unwrap();
    client.wait().unwrap();
    eventually("its row disappears", || list_devices(&device.socket()).unwrap().is_empty());
    eventually("its process is gone", || !PathBuf::from(format!("/proc/{process}")).exists());
}

#[test]
fn a_client_set_up_for_another_board_is_refused_with_both_bases() {
    let device = Device::start(&["--board", "beagley-ai"]);
    assert!(standing(&device.socket(), Some("beagley-ai")).is_ok());
    let refused = standing(&device.socket(), Some("am67a-evm")).map(|_| ()).unwrap_err().to_string();
    for part in ["beagley-ai", "0x8a0000000", "am67a-evm", "0x900000000"] {
        assert!(refused.contains(part), "{refused}");
    }
}

/// Set in the processes that the next test starts: the socket of the device and a seed.
const CLIENT: &str = "OUTBOARD_TEST_CLIENT";

/// One client process of the next test; without the variable there is nothing to do.
#[test]
fn client_process() {
    let Ok(task) = std::env::var(CLIENT) else { return };
    let (socket, seed) = task.split_once('#').unwrap();
    let mut random: u64 = seed.parse().unwrap();
    let options = SessionOptions { deadlines: Deadlines::all(Duration::from_secs(60)) };
    let mut session = Session::open(standing(socket.as_ref(), None).unwrap(), options).unwrap();
    let mut echo = None;
    for step in 0..334u16 {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        match (random % 4, echo.take()) {
            (0, Some(loaded)) => session.unload(loaded).unwrap(),
            (1, kept) => {
                runs_d4(&mut session).unwrap();
                echo = kept;
            }
            (_, kept) => {
                let loaded = kept.unwrap_or_else(|| session.load_file(&module("echo.c")).unwrap());
                let own = floats("2", &[f32::from(step), f32::from(u16::try_from(random % 60_000).unwrap())]);
                assert_eq!(session.run(&loaded, &[Input::from(&own)]).unwrap().to_tensor(0), Some(own));
                echo = Some(loaded);
            }
        }
    }
}

#[test]
fn three_client_processes_interleave_a_thousand_steps_and_get_the_answers_of_a_solo_run() {
    let device = Device::start(&[]);
    let clients: Vec<Child> = [3u64, 5, 7]
        .into_iter()
        .map(|seed| {
            Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "client_process", "--nocapture"])
                .env(CLIENT, format!("{}#{}", device.socket().display(), seed * 0x9E37_79B9))
                .stdout(Stdio::null())
                .spawn()
                .unwrap()
        })
        .collect();
    for mut client in clients {
        assert!(client.wait().unwrap().success(), "a client process failed; its output is above");
    }
    eventually("all device processes are gone", || list_devices(&device.socket()).unwrap().is_empty());
}
