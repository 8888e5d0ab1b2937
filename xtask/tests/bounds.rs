//! What the host's libraries never do: wait without a limit, speak to a network, run a runtime of their own (promises P11 and P24).
//! Read from their sources and their dependencies; tests of the program trace the same at run time.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod sources;

use sources::{code, files, root};
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// Where someone waits for a device.
const SOURCES: [&str; 6] = [
    "crates/host/src",
    "crates/shm/src",
    "crates/nodes/src",
    "bindings/c/src",
    "bindings/python/native/src",
    "crates/cli/src",
];

/// Calls that wait for as long as the other side likes.
const ENDLESS: [&str; 13] = [
    ".recv()",
    ".join()",
    ".wait()",
    ".wait_with_output()",
    "park()",
    ".read_exact(",
    ".read_to_end(",
    ".read_line(",
    "lock_exclusive(",
    "flock(",
    "UnixStream::connect(",
    "listener.incoming()",
    ".accept()",
];

/// Those that end by themselves: the file, the call, how often, why.
const ENDS: [(&str, &str, usize, &str); 13] = [
    ("crates/cli/src/commands/board.rs", ".join()", 1, "the thread has finished, which was waited for with a limit"),
    ("crates/cli/src/commands/board.rs", ".read_to_end(", 1, "in a thread that is not waited for without a limit"),
    ("crates/cli/src/commands/board.rs", ".wait()", 1, "the process was killed"),
    ("crates/cli/src/commands/board_env.rs", ".recv()", 1, "the thread binds a socket and answers, or ends"),
    (
        "crates/cli/src/compat/server.rs",
        ".read_to_end(",
        1,
        "the peer's request on standard input, of a length that it announced",
    ),
    ("crates/cli/src/progress.rs", ".join()", 1, "the thread ends when its sender is dropped, right before"),
    ("crates/cli/src/progress.rs", ".recv()", 1, "waits for this very process to finish its work"),
    ("crates/host/src/sim.rs", ".join()", 1, "the thread has finished, which was waited for with a limit"),
    ("crates/host/src/sim.rs", ".recv()", 1, "the thread starts a process and answers, or ends"),
    ("crates/host/src/sim.rs", ".wait()", 1, "the process was killed"),
    ("crates/host/src/standing.rs", ".read_exact(", 1, "the connection has a limit"),
    ("crates/host/src/threaded.rs", ".join()", 1, "the thread has finished, which was waited for with a limit"),
    (
        "crates/nodes/src/session.rs",
        ".join()",
        1,
        "the thread looks at the order to end whenever a bounded wait for the device ends",
    ),
];

/// Nothing that is for talking to networks, or that owns the threads of the program that links it.
const FOREIGN: [&str; 22] = [
    "tokio",
    "async-std",
    "smol",
    "async-io",
    "async-executor",
    "mio",
    "polling",
    "futures",
    "futures-executor",
    "hyper",
    "reqwest",
    "ureq",
    "curl",
    "isahc",
    "socket2",
    "rustls",
    "native-tls",
    "openssl",
    "quinn",
    "h2",
    "tonic",
    "rayon",
];

/// What others link or install.
const LIBRARIES: [&str; 9] = [
    "outboard-host",
    "outboard-link",
    "outboard-elf",
    "outboard-wire",
    "outboard-tensor",
    "outboard-shm",
    "outboard-gpsimd",
    "outboard-xtensa",
    "outboard-cli",
];

/// The code below some folders, without tests: path from the root, text.
fn library_sources(folders: &[&str]) -> Vec<(String, String)> {
    let tests = |path: &str| path.contains("/tests/") || path.ends_with("/tests.rs") || path.ends_with("/fake.rs");
    files(&[".rs"])
        .into_iter()
        .filter(|(path, _)| folders.iter().any(|folder| path.starts_with(&format!("{folder}/"))) && !tests(path))
        .map(|(path, text)| (path, text.split("#[cfg(test)]").next().unwrap().to_owned()))
        .collect()
}

#[test]
fn no_library_waits_without_a_limit() {
    let mut found: BTreeMap<(String, &str), usize> = BTreeMap::new();
    let mut without_timeout = Vec::new();
    for (path, text) in library_sources(&SOURCES) {
        for line in text.lines().map(code) {
            for call in ENDLESS.iter().filter(|call| line.contains(*call)) {
                *found.entry((path.clone(), call)).or_default() += 1;
            }
            // The last argument of these is the limit.
            let waits = line.contains("poll(&mut") || line.contains("futex::wait(");
            if waits && (line.contains("None)") || line.contains("-1)")) {
                without_timeout.push(format!("{path}: {}", line.trim()));
            }
        }
    }
    let known: BTreeMap<(String, &str), usize> =
        ENDS.iter().map(|(path, call, count, _)| (((*path).to_owned(), *call), *count)).collect();
    assert_eq!(found, known, "give the wait a limit, or say in this table why it ends");
    assert!(without_timeout.is_empty(), "{without_timeout:#?}");
}

/// Every crate that ends up in what `package` builds, by name, from the lock file that is checked in.
fn linked(package: &str) -> BTreeSet<String> {
    let output = Command::new(env!("CARGO"))
        .args([
            "tree",
            "--offline",
            "--locked",
            "--edges",
            "normal",
            "--prefix",
            "none",
            "--format",
            "{p}",
            "--package",
            package,
        ])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

#[test]
fn no_library_links_an_async_runtime_or_a_network() {
    for package in LIBRARIES {
        let linked = linked(package);
        assert!(linked.contains(package), "{linked:?}");
        let foreign: Vec<&&str> = FOREIGN.iter().filter(|name| linked.contains(**name)).collect();
        assert!(foreign.is_empty(), "{package} links {foreign:?}");
    }
}

#[test]
fn no_source_names_a_network_address() {
    let folders = ["crates", "bindings/c/src", "bindings/python/native/src"];
    let names =
        ["TcpStream", "TcpListener", "UdpSocket", "ToSocketAddrs", "AF_INET", "AddressFamily::INET", "async fn "];
    let mut stray = Vec::new();
    for (path, text) in library_sources(&folders) {
        for line in text.lines().map(code) {
            if names.iter().any(|name| line.contains(name)) {
                stray.push(format!("{path}: {}", line.trim()));
            }
        }
    }
    assert!(stray.is_empty(), "{stray:#?}");
}
