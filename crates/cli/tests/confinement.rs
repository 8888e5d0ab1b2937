//! What a module must not be able to do to the host: each attempt ends the device with a named fault, and nothing else. And what the
//! program itself leaves alone: the network, and files it was not given.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use outboard_host::{Error, Input, Session};
use outboard_tensor::Tensor;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use support::{PROGRAM, module, session};

fn ask(session: &mut Session, what: i32) -> Result<(), Error> {
    let hostile = session.load_file(&module("hostile.c"))?;
    let number = Tensor::from_values("1".parse().unwrap(), &[what])?;
    session.run(&hostile, &[Input::from(&number)]).map(drop)
}

#[test]
fn a_module_that_reaches_for_the_host_is_stopped_by_name() {
    let mut session = session(Duration::from_secs(30));
    ask(&mut session, 0).unwrap();
    let cases = [
        (1, "opens a file", "SIGSYS"),
        (2, "makes a socket", "SIGSYS"),
        (3, "forks", "SIGSYS"),
        (4, "executes a program", "SIGSYS"),
        (5, "sends a signal", "SIGSYS"),
        (6, "writes outside the device's memory", "SIGSEGV"),
        (8, "executes no instruction", "SIGILL"),
    ];
    for (what, name, signal) in cases {
        let error = ask(&mut session, what).unwrap_err();
        let Error::DeviceLost(lost) = &error else { panic!("{name}: {error}") };
        assert!(lost.cause.name().contains(signal), "{name}: {error}");
        let text = error.to_string();
        assert!(text.contains("hostile.out") && text.contains("cg_main_dsp"), "{name}: {text}");
        if signal == "SIGSEGV" {
            assert!(text.contains("0x7e200000"), "{name}: {text}");
        }
        ask(&mut session, 0).unwrap_or_else(|error| panic!("after a module that {name}: {error}"));
    }
}

#[test]
fn the_device_process_runs_confined() {
    let mut session = session(Duration::from_secs(30));
    ask(&mut session, 0).unwrap();
    let pid = session.device_process().unwrap();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let field = |name: &str| {
        let line =
            status.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("no {name} in {status}"));
        line.split_whitespace().nth(1).unwrap().to_owned()
    };
    assert_eq!(field("Seccomp:"), "2", "a system call filter is in force");
    assert_eq!(field("NoNewPrivs:"), "1");
    let open: Vec<_> = std::fs::read_dir(format!("/proc/{pid}/fd"))
        .unwrap()
        .flatten()
        .map(|entry| std::fs::read_link(entry.path()).unwrap_or_default().display().to_string())
        .collect();
    assert!(open.iter().all(|name| name.contains("memfd:outboard-") || name.starts_with("pipe:")), "{open:?}");
}

#[test]
fn no_page_of_the_device_is_writable_and_executable() {
    let mut session = session(Duration::from_secs(30));
    ask(&mut session, 0).unwrap();
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", session.device_process().unwrap())).unwrap();
    assert!(maps.lines().any(|line| line.starts_with("1020") && line.contains("r-xp")), "the module's code:\n{maps}");
    let bad: Vec<&str> =
        maps.lines().filter(|line| line.split_whitespace().nth(1).unwrap_or("").starts_with("rwx")).collect();
    assert!(bad.is_empty(), "{bad:?}");
    assert!(!maps.contains("hostile"), "the module's file is not mapped:\n{maps}");
}

#[test]
fn an_access_outside_the_devices_memory_names_the_region_of_the_board() {
    let folder = tempfile::tempdir().unwrap();
    for (what, region) in [(6, "outside every region of the board"), (9, "in the board's boot vector")] {
        let number = Tensor::from_values("1".parse().unwrap(), &[what]).unwrap();
        std::fs::write(folder.path().join("x.npy"), number.view().to_npy().unwrap()).unwrap();
        let file = module("hostile.c").display().to_string();
        let output = support::outboard(folder.path(), &["run", &file, "--input", "x.npy"]);
        assert_eq!(output.status.code(), Some(2));
        assert!(support::stderr(&output).contains(region), "{}", support::stderr(&output));
    }
}

#[test]
fn the_device_program_does_not_even_import_dlopen() {
    let program = std::fs::read(support::PROGRAM).unwrap();
    let name = b"\0dlopen\0";
    assert!(!program.windows(name.len()).any(|bytes| bytes == name), "modules are loaded by our own loader only");
}

/// What a program and the processes it starts open, and the sockets they make, as the kernel sees it.
struct Traced {
    opened: BTreeSet<String>,
    sockets: Vec<String>,
}

fn traced(folder: &Path, arguments: &[&str]) -> Traced {
    let log = folder.join("calls");
    let output = Command::new("strace")
        .args(["-f", "-qq", "-e", "trace=open,openat,openat2,creat,execve,socket,connect,bind", "-o"])
        .arg(&log)
        .arg(PROGRAM)
        .args(arguments)
        .current_dir(folder)
        .env_remove("OUTBOARD_LOG")
        .output()
        .expect("strace is installed");
    assert!(output.status.success(), "{arguments:?}: {}", support::stderr(&output));
    let mut seen = Traced { opened: BTreeSet::new(), sockets: Vec::new() };
    // PID CALL(arguments) = result
    for line in std::fs::read_to_string(&log).unwrap().lines() {
        let call = line.split_once(' ').unwrap().1.trim_start();
        let name = call.split('(').next().unwrap();
        if ["socket", "connect", "bind"].contains(&name) {
            seen.sockets.push(call.to_owned());
        } else if let Some(path) = call.split('"').nth(1).filter(|_| !call.contains("ENOENT")) {
            seen.opened.insert(path.to_owned());
        }
    }
    seen
}

/// Of what was opened, that which is neither the program itself nor what the system's linker and allocator open for every program.
fn own(opened: &BTreeSet<String>) -> Vec<&str> {
    let system = |path: &str| {
        let library = (path.starts_with("/lib") || path.starts_with("/usr/lib")) && path.contains(".so");
        library || path == "/etc/ld.so.cache" || path.starts_with("/proc/self/") || path == PROGRAM
    };
    let cpu = |path: &str| path.starts_with("/sys/devices/system/cpu") || path.starts_with("/sys/fs/cgroup");
    opened.iter().map(String::as_str).filter(|path| !system(path) && !cpu(path)).collect()
}

#[test]
fn a_run_opens_the_files_it_was_given_and_no_socket() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::copy(module("echo.c"), folder.path().join("echo.out")).unwrap();
    let x = support::floats("4", &[1.0, 2.0, 3.0, 4.0]);
    std::fs::write(folder.path().join("x.npy"), x.view().to_npy().unwrap()).unwrap();
    let seen = traced(folder.path(), &["run", "echo.out", "--input", "x.npy", "--output", "y.npy"]);
    let staged: Vec<&str> =
        own(&seen.opened).into_iter().filter(|path| !["echo.out", "x.npy"].contains(path)).collect();
    assert!(staged.iter().all(|path| path.starts_with(folder.path().to_str().unwrap())), "{staged:?}");
    assert_eq!(seen.sockets, Vec::<String>::new());
    assert!(folder.path().join("y.npy").exists());
}

#[test]
fn a_client_of_a_standing_device_speaks_to_its_local_socket_alone() {
    let folder = tempfile::tempdir().unwrap();
    let mut device = Command::new(PROGRAM)
        .args(["device", "run", "--socket", "dsp"])
        .current_dir(folder.path())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let until = std::time::Instant::now() + Duration::from_secs(20);
    while !folder.path().join("dsp").exists() {
        assert!(std::time::Instant::now() < until, "the device does not stand");
        std::thread::sleep(Duration::from_millis(5));
    }
    let seen = traced(folder.path(), &["ping", "--device", "sim:dsp"]);
    device.kill().unwrap();
    device.wait().unwrap();
    assert_eq!(own(&seen.opened), Vec::<&str>::new());
    assert!(!seen.sockets.is_empty());
    for call in &seen.sockets {
        assert!(call.contains("AF_UNIX") && !call.contains("AF_INET"), "{call}");
    }
}
