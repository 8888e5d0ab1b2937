//! `outboard asm`, `link`, `xt run` and `disasm` together: from sources to a program that runs.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use serde_json::json;
use std::path::{Path, PathBuf};
use support::{code, json, outboard, stderr, stdout};

/// What is checked in for devices.
fn device(file: &str) -> String {
    let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../device").join(file);
    path.to_str().unwrap().to_owned()
}

const MAIN: &str = "
    .section .text.device_main, \"ax\"
    .global device_main
    .type device_main, @function
device_main:
    entry a1, 32
    movi a10, 1
    movi a11, text
    movi a12, 6
    movi a4, sys_write
    callx8 a4
    movi a2, 7
    retw
    .size device_main, . - device_main
    .section .text.unused, \"ax\"
    .global unused
unused:
    movi a4, nowhere
    .section .rodata, \"a\"
text: .ascii \"hello\\n\"
";

/// A folder with `start.o` and `main.o`.
fn objects(main: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("main.S"), main).unwrap();
    let start = device("start/windowed.S");
    for (source, object) in [(start.as_str(), "start.o"), ("main.S", "main.o")] {
        let made = outboard(folder.path(), &["asm", source, "-o", object]);
        assert_eq!(code(&made), 0, "{}", stderr(&made));
    }
    folder
}

#[test]
fn assembled_objects_become_a_program_that_runs_and_is_listed() {
    let folder = objects(MAIN);
    let at = folder.path();
    let layout = device("layouts/linux-user.toml");
    let link = ["link", "-T", &layout, "-o", "p.elf", "start.o", "main.o", "--map", "p.map", "--properties", "--json"];
    let made = outboard(at, &link);
    let page = json(&made);
    assert_eq!(
        (code(&made), &page["status"], &page["literal_pools"]),
        (0, &json!("ok"), &json!(1)),
        "{}",
        stderr(&made)
    );
    assert!(page["dropped_sections"].as_u64().unwrap() >= 2, "{page}");
    assert_eq!(page["sections"][0]["name"], ".text");
    let ran = outboard(at, &["xt", "run", "p.elf"]);
    assert_eq!((code(&ran), stdout(&ran)), (7, "hello\n".to_owned()), "{}", stderr(&ran));
    let map = std::fs::read_to_string(at.join("p.map")).unwrap();
    for line in [".text 0x01000000", ".text.device_main main.o", ".literal literal pool", "device_main\n"] {
        assert!(map.contains(line), "{line}: {map}");
    }
    let listed = stdout(&outboard(at, &["disasm", "p.elf", "--symbol", "device_main"]));
    assert!(listed.contains("entry a1, 32") && listed.contains("l32r a11, "), "{listed}");
}

#[test]
fn a_link_that_is_refused_lists_its_faults_and_writes_nothing() {
    let folder = objects(&MAIN.replace("movi a2, 7", "movi a2, device_mian\n movi a3, nothing"));
    let at = folder.path();
    let layout = device("layouts/linux-user.toml");
    let refused = outboard(at, &["link", "-T", &layout, "-o", "p.elf", "start.o", "main.o", "--json"]);
    let page = json(&refused);
    assert_eq!((code(&refused), &page["name"], &page["error"]), (3, &json!("OB0702"), &json!("undefined_symbols")));
    let message = page["faults"][0]["message"].as_str().unwrap();
    assert!(message.contains("device_mian\n    used at main.o:(.text.device_main+0x"), "{message}");
    assert!(message.contains("defined and alike: device_main") && message.contains("\n  nothing\n"), "{message}");
    assert!(!at.join("p.elf").exists());
    let page = stdout(&outboard(at, &["explain", "OB0702"]));
    assert!(page.starts_with("# OB0702: undefined symbols"), "{page}");
}

#[test]
fn a_layout_that_cannot_be_read_is_a_wrong_request_that_names_the_line() {
    let folder = objects(MAIN);
    let at = folder.path();
    std::fs::write(at.join("bad.toml"), "entry = \"_start\"\nstack = 3\n").unwrap();
    let wrong = outboard(at, &["link", "-T", "bad.toml", "-o", "p.elf", "start.o", "main.o"]);
    assert_eq!(code(&wrong), 1);
    assert!(stderr(&wrong).contains("OB0708") && stderr(&wrong).contains("line 2"), "{}", stderr(&wrong));
    let wrong = outboard(at, &["link", "-T", "bad.toml", "-o", "p.elf", "nowhere.o"]);
    assert_eq!(code(&wrong), 1);
    assert!(!at.join("p.elf").exists());
}
