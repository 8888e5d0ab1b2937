//! Every transport passes one suite: the simulated device in a process of its own, one that stands at a socket, one in a thread, and a
//! board's nodes with coherent caches and without.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use outboard_conformance::{Modules, buffers, life, messages, sessions};
use outboard_host::{RpmsgOptions, SimOptions, Transport, rpmsg, simulated, standing, threaded};
use outboard_wire::KvLayout;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use support::{PROGRAM, module};

/// Runs the whole suite.
fn suite<T: Transport + 'static>(open: impl Fn() -> T, survives_crashes: bool) {
    let read = |name| std::fs::read(module(name)).unwrap();
    let (double, crash) = (read("double.c"), read("faults/null_dereference.c"));
    let modules = Modules { double: &double, crash: survives_crashes.then_some(&crash) };
    messages(&open);
    buffers(&open, modules);
    life(&open);
    sessions(&open, modules);
}

fn sim(incoherent: bool) -> impl Transport + 'static {
    simulated(SimOptions { program: Some(PROGRAM.into()), incoherent, ..SimOptions::default() }).unwrap()
}

#[test]
fn the_transport_to_a_device_of_its_own_conforms() {
    suite(|| sim(false), true);
}

#[test]
fn the_transport_with_caches_that_are_not_coherent_conforms() {
    suite(|| sim(true), true);
}

#[test]
fn the_transport_to_a_device_in_a_thread_conforms() {
    let open = || {
        threaded("thread", |control, carveout| {
            outboard_c7x::sim::run_in_process(&control, &carveout, KvLayout::Fixed).unwrap();
        })
    };
    suite(|| open().unwrap(), false);
}

/// A process that is ended with its test.
struct Child(std::process::Child);

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_transport_to_a_standing_device_conforms() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("dsp");
    let child = Command::new(PROGRAM).args(["device", "run", "--socket"]).arg(&socket).stderr(Stdio::null()).spawn();
    let _device = Child(child.unwrap());
    let until = Instant::now() + Duration::from_secs(20);
    while !socket.exists() {
        assert!(Instant::now() < until, "the device does not stand");
        std::thread::sleep(Duration::from_millis(5));
    }
    suite(|| standing(&socket, None).unwrap(), true);
}

#[test]
#[ignore = "runs with a board's nodes: started by the_transport_over_rpmsg_conforms"]
fn over_the_nodes() {
    suite(|| rpmsg(RpmsgOptions::default()).unwrap(), true);
}

/// The preload library, where cargo puts what tests depend on.
fn library() -> PathBuf {
    Path::new(PROGRAM).parent().unwrap().join("deps/liboutboard_nodes.so")
}

#[test]
fn the_transport_over_rpmsg_conforms() {
    let this = std::env::current_exe().unwrap();
    // Without names in sysfs, the endpoint's node is found by counting. Nothing depends on caches that happen to be coherent.
    for (options, faults) in [(&[][..], ""), (&[][..], "names=none"), (&["--incoherent"][..], "")] {
        let output = Command::new(PROGRAM)
            .arg("board-env")
            .args(options)
            .arg("--")
            .arg(&this)
            .args(["--exact", "over_the_nodes", "--ignored", "--nocapture"])
            .env("OUTBOARD_NODES_LIBRARY", library())
            .env("OUTBOARD_NODES_FAULTS", faults)
            .env_remove("OUTBOARD_DEVICE_PROGRAM")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let said = format!("{}{}", support::stdout(&output), support::stderr(&output));
        assert!(output.status.success() && said.contains("1 passed"), "{options:?} {faults}: {said}");
    }
}

#[test]
fn the_exports_asked_of_a_board_over_its_nodes_are_those_of_the_target_file() {
    let names = |arguments: &[&str]| {
        let output = Command::new(PROGRAM)
            .args(arguments)
            .env("OUTBOARD_NODES_LIBRARY", library())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", support::stderr(&output));
        let text = support::stdout(&output);
        text.lines().map(|line| line.split(' ').next().unwrap().to_owned()).collect::<BTreeSet<String>>()
    };
    let asked = names(&["board-env", "--", PROGRAM, "exports", "--device", "rpmsg"]);
    assert!(asked.contains("TVMBackendAllocWorkspace"));
    assert_eq!(asked, names(&["exports", "--set", "sim"]));
}
