//! A board without a board: programs, sessions, `doctor` and `board` over the nodes of a simulated device or a folder that looks
//! like sysfs.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use outboard_tensor::Tensor;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use support::{PROGRAM, module};
use tempfile::TempDir;

/// The preload library, where cargo puts what tests depend on.
fn library() -> PathBuf {
    Path::new(PROGRAM).parent().unwrap().join("deps/liboutboard_nodes.so")
}

/// Compiles a C program of the preload library's tests.
fn c_program(name: &str, folder: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../nodes/tests").join(format!("{name}.c"));
    let program = folder.join(name);
    let status =
        Command::new("cc").args(["-Wall", "-Wextra", "-Werror", "-O1", "-o"]).arg(&program).arg(source).status();
    assert!(status.unwrap().success());
    program
}

/// Runs a program with a board's nodes.
fn on_board(faults: &str, arguments: &[&str]) -> Output {
    on_board_with(&[], faults, arguments)
}

/// As [`on_board`], with options of `board-env`.
fn on_board_with(options: &[&str], faults: &str, arguments: &[&str]) -> Output {
    let output = Command::new(PROGRAM)
        .arg("board-env")
        .args(options)
        .arg("--")
        .args(arguments)
        .env("OUTBOARD_NODES_LIBRARY", library())
        .env("OUTBOARD_NODES_FAULTS", faults)
        .env_remove("OUTBOARD_DEVICE_PROGRAM")
        .stdin(Stdio::null())
        .output();
    output.unwrap()
}

fn text(output: &Output) -> String {
    format!("{}{}", support::stdout(output), support::stderr(output))
}

#[test]
fn a_client_with_raw_ioctls_pings_loads_infers_and_unloads_unchanged() {
    let folder = tempfile::tempdir().unwrap();
    let raw = c_program("raw", folder.path());
    let output = on_board("", &[raw.to_str().unwrap(), module("double.c").to_str().unwrap()]);
    assert_eq!(support::code(&output), 0, "{}", text(&output));
    for line in ["version 3.0.0", "staging 0xc0000000 printf 0xde000000", "y 2 4 6 8", "right"] {
        assert!(support::stdout(&output).contains(line), "{}", text(&output));
    }
}

#[test]
fn p13_a_program_that_misses_a_sync_sees_stale_bytes_when_caches_are_not_coherent() {
    let folder = tempfile::tempdir().unwrap();
    let raw = c_program("raw", folder.path());
    let double = module("double.c");
    let run = |incoherent: &[&str], forget: &[&str]| {
        Command::new(PROGRAM)
            .arg("board-env")
            .args(incoherent)
            .arg("--")
            .arg(&raw)
            .arg(&double)
            .args(forget)
            .env("OUTBOARD_NODES_LIBRARY", library())
            .stdin(Stdio::null())
            .output()
            .unwrap()
    };
    for (forget, said) in [
        // The loader reads what staging held before: zeros.
        ("forget-module", "load: status -9"),
        ("forget-input", "y 0 0 0 0\nwrong"),
        ("forget-output", "y 0 0 0 0\nwrong"),
    ] {
        let stale = run(&["--incoherent"], &[forget]);
        assert_eq!(support::code(&stale), 1, "{forget}: {}", text(&stale));
        assert!(text(&stale).contains(said), "{forget}: {}", text(&stale));
        assert_eq!(support::code(&run(&[], &[forget])), 0, "coherent caches hide it: {forget}");
    }
    let whole = run(&["--incoherent"], &[]);
    assert!(support::stdout(&whole).contains("y 2 4 6 8\nright"), "{}", text(&whole));
}

#[test]
fn every_served_call_behaves_and_fails_as_the_drivers_do() {
    let folder = tempfile::tempdir().unwrap();
    let calls = c_program("calls", folder.path());
    let output = on_board("", &[calls.to_str().unwrap()]);
    assert_eq!(support::code(&output), 0, "{}", text(&output));
}

#[test]
fn a_shell_sees_the_nodes_and_the_status_of_a_program_is_passed_on() {
    let output = on_board(
        "",
        &["sh", "-c", "ls /dev/dma_heap /sys/class/remoteproc/; cat /sys/class/remoteproc/*/state; exit 7"],
    );
    assert_eq!(support::code(&output), 7);
    assert_eq!(support::stdout(&output).lines().filter(|line| line.contains("carveout_vision_apps")).count(), 1);
    let killed = on_board("", &["sh", "-c", "kill -9 $$"]);
    assert_eq!(support::code(&killed), 137);
    let missing = on_board("", &["/nowhere/program"]);
    assert_eq!(support::code(&missing), 1);
}

fn numbers(values: &[i64]) -> Tensor {
    Tensor::from_values(values.len().to_string().parse().unwrap(), values).unwrap()
}

#[test]
fn a_session_synchronises_before_it_sends_and_before_it_reads_and_removes_its_endpoint() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let x = folder.path().join("x.npy");
    std::fs::write(&x, numbers(&[1, 2]).view().to_npy().unwrap()).unwrap();
    let output = Command::new(PROGRAM)
        .args(["board-env", "--", PROGRAM, "run", "--device", "rpmsg"])
        .arg(module("double.c"))
        .arg("--input")
        .arg(&x)
        .env("OUTBOARD_NODES_LIBRARY", library())
        .env("OUTBOARD_NODES_LOG", &log)
        .output()
        .unwrap();
    assert_eq!(support::code(&output), 0, "{}", text(&output));
    let seen = std::fs::read_to_string(log).unwrap();
    let lines: Vec<&str> = seen.lines().collect();
    assert_eq!(
        &lines[..4],
        ["create c7x-compute 20 as rpmsg0", "open rpmsg0", "alloc 0x1e000000 at 0x0", "attach 0x0"]
    );
    assert!(lines.contains(&"sync 6 0x1e000000 0x0"), "{seen}");
    // The input window is handed over, then the output window is taken back.
    let given = lines.iter().rposition(|line| line.starts_with("sync 6") && !line.ends_with(" 0x0")).unwrap();
    assert!(lines[given..].iter().any(|line| line.starts_with("sync 1 ")), "{seen}");
    assert!(lines.contains(&"destroy rpmsg0"), "{seen}");
}

#[test]
fn each_failure_of_the_nodes_is_an_error_of_its_own() {
    for (faults, code, part) in [
        ("open:rpmsg_ctrl0=EACCES", "OB0331", "/dev/rpmsg_ctrl0"),
        ("open:rpmsg_ctrl0=EBUSY", "OB0332", "another program uses the device"),
        ("create=ENOMEM", "OB0333", "refused it"),
        ("appear=never", "OB0333", "no node appeared"),
        ("open:rpmsg0=EBUSY", "OB0333", "/dev/rpmsg0"),
        ("write=EIO", "OB0334", "/dev/rpmsg0"),
        ("alloc=ENOMEM", "OB0335", "503316480 bytes"),
        ("map=ENOMEM", "OB0335", "503316480 bytes"),
        ("attach=ENOTTY", "OB0336", "/dev/remoteproc0"),
    ] {
        let output = on_board(faults, &[PROGRAM, "ping", "--device", "rpmsg", "--count", "1"]);
        let said = support::stderr(&output);
        assert_eq!(support::code(&output), 2, "{faults}: {said}");
        assert!(said.contains(code) && said.contains(part), "{faults}: {said}");
    }
    // The nodes are those of an 8 GB board, and the program is told it is on the other.
    let output = on_board("", &[PROGRAM, "ping", "--device", "rpmsg", "--board", "beagley-ai"]);
    assert!(support::stderr(&output).contains("OB0337"), "{}", text(&output));
    let x = tempfile::Builder::new().suffix(".npy").tempfile().unwrap();
    std::fs::write(x.path(), numbers(&[1]).view().to_npy().unwrap()).unwrap();
    let file = module("double.c");
    let [file, x] = [&file, x.path()].map(|path: &Path| path.to_str().unwrap());
    let output = on_board("sync=EIO", &[PROGRAM, "run", file, "--input", x, "--device", "rpmsg"]);
    assert!(support::stderr(&output).contains("OB0338"), "{}", text(&output));
}

#[test]
fn the_environment_says_where_the_carveout_of_another_board_is() {
    let compute = Path::new(PROGRAM).with_file_name("c7x_compute");
    let run = |carveout: &str, arguments: &[&str]| {
        Command::new(PROGRAM)
            .args(["board-env", "--board", "beagley-ai", "--"])
            .args(arguments)
            .env("OUTBOARD_NODES_LIBRARY", library())
            .env("OUTBOARD_DEVICE", "rpmsg")
            .env("OUTBOARD_CARVEOUT", carveout)
            .stdin(Stdio::null())
            .output()
            .unwrap()
    };
    let ping = [PROGRAM, "ping", "--device", "rpmsg", "--count", "1"];
    let compute = [compute.to_str().unwrap(), "ping"];
    for program in [&ping[..], &compute] {
        let right = run("0x8A0000000", program);
        assert_eq!(support::code(&right), 0, "{}", text(&right));
        let wrong = run("0x900000000", program);
        assert!(text(&wrong).contains("outside the carveout at 0x900000000"), "{}", text(&wrong));
        let none = run("beagley-ai", program);
        assert_eq!(support::code(&none), 1);
        assert!(text(&none).contains("no physical address of a carveout"), "{}", text(&none));
    }
}

/// A folder that looks like a board's sysfs: one remote processor, its log, and, when announced, an RPMsg control device.
fn sysfs(state: &str, announced: bool) -> TempDir {
    let root = tempfile::tempdir().unwrap();
    let make = |path: &str| std::fs::create_dir_all(root.path().join(path)).unwrap();
    for path in ["class/remoteproc/remoteproc2", "class/rpmsg", "devices/7e000000.dsp/rpmsg_ctrl", "fw"] {
        make(path);
    }
    make("kernel/debug/remoteproc/remoteproc2");
    let processor = root.path().join("class/remoteproc/remoteproc2");
    symlink("../../../devices/7e000000.dsp", processor.join("device")).unwrap();
    std::fs::write(processor.join("state"), format!("{state}\n")).unwrap();
    std::fs::write(processor.join("firmware"), "j722s-c71_0-fw\n").unwrap();
    let log = root.path().join("kernel/debug/remoteproc/remoteproc2/trace0");
    std::fs::write(log, b"[COMPUTE] Service initialized\n\0\0\0").unwrap();
    if announced {
        make("class/rpmsg/rpmsg_ctrl0");
        symlink("../../../devices/7e000000.dsp/rpmsg_ctrl", root.path().join("class/rpmsg/rpmsg_ctrl0/device"))
            .unwrap();
    }
    root
}

/// The checks of `doctor` that failed, and what it said.
fn failed(output: &Output) -> Vec<String> {
    let said = support::stdout(output);
    assert_eq!(support::code(output), i32::from(said.contains("FAILED")) * 2, "{said}");
    let rows = said.lines().filter_map(|line| line.strip_prefix("FAILED "));
    rows.map(|row| row.split("  ").next().unwrap().split(" [").next().unwrap().trim().to_owned()).collect()
}

#[test]
fn every_check_of_doctor_has_a_fixture_that_fails_it() {
    let folder = tempfile::tempdir().unwrap();
    let local = |sys: &Path| {
        let [sys, dev] = [sys, folder.path()].map(|path| path.to_str().unwrap());
        support::outboard(
            folder.path(),
            &["doctor", "--device", "rpmsg", "--sys-root", sys, "--dev-root", dev, "--timeout", "10"],
        )
    };
    let absent = failed(&local(folder.path()));
    assert!(absent.contains(&"remote processor".to_owned()), "{absent:?}");
    let offline = failed(&local(sysfs("offline", false).path()));
    assert!(
        ["remote processor", "control device"].iter().all(|name| offline.contains(&(*name).to_owned())),
        "{offline:?}"
    );
    let bare = failed(&local(sysfs("running", true).path()));
    assert_eq!(bare, ["nodes", "carveout", "firmware"]);
    let doctor = [PROGRAM, "doctor", "--device", "rpmsg", "--timeout", "10"];
    let denied = on_board("open:rpmsg_ctrl0=EACCES", &doctor);
    assert_eq!(failed(&denied), ["permissions", "firmware"]);
    assert!(support::stdout(&denied).contains("SUBSYSTEM==\"rpmsg|remoteproc|dma_heap\""), "{}", text(&denied));
    let small = on_board("carveout=0x1e100000", &doctor);
    assert_eq!(failed(&small), ["carveout"], "{}", text(&small));
    let silent = on_board("write=EIO", &doctor);
    assert_eq!(failed(&silent), ["firmware"]);
    let well = on_board("", &doctor);
    assert!(failed(&well).is_empty(), "{}", text(&well));
    let output =
        Command::new(PROGRAM).arg("doctor").env("OUTBOARD_DEVICE_PROGRAM", "/nowhere/outboard").output().unwrap();
    assert_eq!(failed(&output), ["simulated device"]);
    let output =
        Command::new(PROGRAM).args(["doctor", "--json"]).env("OUTBOARD_DEVICE_PROGRAM", PROGRAM).output().unwrap();
    assert_eq!(support::json(&output)["checks"][0]["passed"], true);
}

/// Plays the kernel: turns orders in a `state` file into states, until the test ends.
fn kernel<T>(root: &Path, started: &str, test: impl FnOnce() -> T) -> T {
    let (state, done) = (root.join("class/remoteproc/remoteproc2/state"), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                match std::fs::read_to_string(&state).unwrap_or_default().trim() {
                    "stop" => std::fs::write(&state, "offline\n").unwrap(),
                    "start" => std::fs::write(&state, format!("{started}\n")).unwrap(),
                    _ => {}
                }
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(test));
        done.store(true, Ordering::Relaxed);
        result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Runs `outboard board` against a folder; `path` holds stand-ins for other programs.
fn board(root: &Path, path: Option<&Path>, arguments: &[&str]) -> Output {
    let mut command = Command::new(PROGRAM);
    command.arg("board").args(arguments).args(["--timeout", "5"]).stdin(Stdio::null());
    command.arg("--sys-root").arg(root).arg("--firmware-root").arg(root.join("fw"));
    if let Some(path) = path {
        command.env("PATH", format!("{}:{}", path.display(), std::env::var("PATH").unwrap()));
    }
    command.output().unwrap()
}

#[test]
fn a_processor_is_found_by_name_stopped_started_and_its_log_read() {
    let root = sysfs("running", true);
    let status = board(root.path(), None, &["status", "--json"]);
    let status = support::json(&status);
    assert_eq!((status["remoteproc"].as_str(), status["state"].as_str()), (Some("remoteproc2"), Some("running")));
    let trace = board(root.path(), None, &["trace"]);
    assert_eq!(support::stdout(&trace), "[COMPUTE] Service initialized\n");
    kernel(root.path(), "running", || {
        assert!(support::stdout(&board(root.path(), None, &["stop"])).contains(" offline "));
        assert!(support::stdout(&board(root.path(), None, &["start"])).contains(" running "));
    });
    let other = board(root.path(), None, &["status", "--address", "7e200000.dsp"]);
    assert_eq!(support::code(&other), 2);
    assert!(support::stderr(&other).contains("OB0330") && support::stderr(&other).contains("7e000000.dsp"));
}

/// Stand-ins on the path: an `ssh` that notes its host and runs the script here, and the program as a board has it.
fn stand_ins(answers: bool) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let script = |name: &str, text: String| {
        let file = folder.path().join(name);
        std::fs::write(&file, format!("#!/bin/sh\n{text}\n")).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    };
    let hosts = folder.path().join("hosts");
    script(
        "ssh",
        format!("while [ \"$1\" != -- ]; do shift; done; echo \"$2\" >> {}; exec sh -c \"$3\"", hosts.display()),
    );
    let library = library();
    let program = if answers {
        format!("OUTBOARD_NODES_LIBRARY={} exec {PROGRAM} board-env -- {PROGRAM} \"$@\"", library.display())
    } else {
        "echo no answer >&2; exit 4".to_owned()
    };
    script("outboard", program);
    folder
}

#[test]
fn a_firmware_is_copied_started_and_verified_over_ssh_and_the_one_before_is_kept() {
    let (root, path) = (sysfs("running", true), stand_ins(true));
    let target = root.path().join("fw/j722s-c71_0-fw");
    std::fs::write(&target, "old").unwrap();
    let firmware = root.path().join("new.elf");
    std::fs::write(&firmware, b"a firmware\0of no kind").unwrap();
    let arguments = ["deploy", firmware.to_str().unwrap(), "--host", "root@am67a"];
    let judged = board(root.path(), Some(path.path()), &arguments);
    assert_eq!(support::code(&judged), 3, "{}", text(&judged));
    assert_eq!(std::fs::read(&target).unwrap(), b"old", "a bad firmware is not copied");
    let deployed = kernel(root.path(), "running", || {
        board(root.path(), Some(path.path()), &[&arguments[..], &["--force"]].concat())
    });
    assert_eq!(support::code(&deployed), 0, "{}", text(&deployed));
    assert!(support::stderr(&deployed).contains("protocol 3.0.0"), "{}", text(&deployed));
    assert_eq!(std::fs::read(&target).unwrap(), b"a firmware\0of no kind");
    assert_eq!(std::fs::read(target.with_file_name("j722s-c71_0-fw.previous")).unwrap(), b"old");
    let hosts = std::fs::read_to_string(path.path().join("hosts")).unwrap();
    assert!(hosts.lines().all(|host| host == "root@am67a"), "{hosts}");
}

#[test]
fn a_firmware_that_does_not_start_or_answer_is_diagnosed_with_state_and_log() {
    let firmware = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(firmware.path(), "x").unwrap();
    for (started, answers, code, part) in [("crashed", true, 4, "it is crashed"), ("running", false, 2, "no answer")] {
        let (root, path) = (sysfs("offline", true), stand_ins(answers));
        let arguments = ["deploy", firmware.path().to_str().unwrap(), "--force", "--host", "board", "--timeout", "1"];
        let output = kernel(root.path(), started, || board_once(root.path(), path.path(), &arguments));
        let said = support::stderr(&output);
        assert_eq!(support::code(&output), code, "{said}");
        assert!(said.contains(part) && said.contains("Service initialized"), "{said}");
    }
}

/// As [`board`], with a deadline among the arguments.
fn board_once(root: &Path, path: &Path, arguments: &[&str]) -> Output {
    let searched = format!("{}:{}", path.display(), std::env::var("PATH").unwrap());
    let mut command = Command::new(PROGRAM);
    command.arg("board").args(arguments).env("PATH", searched).stdin(Stdio::null());
    command.arg("--sys-root").arg(root).arg("--firmware-root").arg(root.join("fw"));
    command.output().unwrap()
}
