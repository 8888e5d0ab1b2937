//! What a module must not be able to do to the host: each attempt ends the device with a named fault, and nothing else.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use outboard_host::{Error, Input, Session};
use outboard_tensor::Tensor;
use std::time::Duration;
use support::{module, session};

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
