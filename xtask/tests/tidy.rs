//! What holds for every file of the project, checked by reading them.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod sources;

use sources::{code, files, root};
use std::collections::BTreeSet;

/// Longest source file, in lines.
const MOST_LINES: usize = 900;

/// Where `unsafe` may stand, as `DESIGN.md` (decision 8) says: folders and files, with the reason.
const UNSAFE: [(&str, &str); 17] = [
    ("crates/shm/src/", "maps memory; the one place both ends of a session share"),
    ("crates/shm/tests/", "a cell whose accesses a model checker watches"),
    ("crates/c7x/src/memory.rs", "device addresses to slices"),
    ("crates/c7x/src/runtime/", "the C functions that module code calls"),
    ("crates/c7x/src/sim/", "runs native code"),
    ("crates/c7x/tests/", "is a device for its tests"),
    ("crates/host/src/", "slices of mapped buffers; the system calls of the transport to a board"),
    ("crates/nodes/src/", "defines C functions that stand in front of the C library's"),
    ("crates/link/tests/", "a test allocator that counts and fails"),
    ("crates/elf/tests/", "a test allocator that counts"),
    ("fuzz/src/", "an allocator that counts"),
    ("benches/", "an allocator that counts"),
    ("bindings/c/", "the C interface"),
    ("bindings/python/native/", "addresses of arrays, and DLPack's structures"),
    ("crates/neff/tests/", "a test allocator that counts"),
    ("crates/kernel-macro/tests/custom_op/", "what the macro refuses"),
    ("device/", "device code: registers, windows, the C interface of kernels"),
];

#[test]
fn no_source_file_is_too_long_to_read() {
    let long: Vec<String> = files(&[".rs", ".py", ".c", ".h"])
        .into_iter()
        .filter(|(path, text)| text.lines().count() > MOST_LINES && !path.starts_with("examples/models/offline"))
        .map(|(path, text)| format!("{path}: {} lines", text.lines().count()))
        .collect();
    assert!(long.is_empty(), "{long:?}");
}

#[test]
fn unsafe_stands_only_where_the_design_allows_it_and_says_why() {
    let mut stray = Vec::new();
    for (path, text) in files(&[".rs"]).into_iter().filter(|(path, _)| path != "xtask/tests/tidy.rs") {
        let uses: Vec<usize> = text
            .lines()
            .enumerate()
            .filter(|(_, line)| {
                let words: Vec<&str> = code(line).split(|c: char| !c.is_alphanumeric() && c != '_').collect();
                words.contains(&"unsafe") && !line.contains('"')
            })
            .map(|(index, _)| index + 1)
            .collect();
        if !uses.is_empty() && !UNSAFE.iter().any(|(allowed, _)| path.starts_with(allowed)) {
            stray.push(format!("{path}: lines {uses:?}"));
        }
    }
    assert!(stray.is_empty(), "{stray:#?}");
}

#[test]
fn nothing_is_left_unfinished() {
    let marks = ["todo!(", "unimplemented!(", concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];
    let left: Vec<String> = files(&[".rs", ".py", ".c", ".h", ".toml", ".S"])
        .into_iter()
        .filter(|(path, _)| path != "xtask/tests/tidy.rs")
        .flat_map(|(path, text)| {
            let found: Vec<String> = text
                .lines()
                .enumerate()
                .filter(|(_, line)| marks.iter().any(|mark| line.contains(mark)))
                .map(|(index, line)| format!("{path}:{}: {line}", index + 1))
                .collect();
            found
        })
        .collect();
    assert!(left.is_empty(), "{left:#?}");
}

#[test]
fn every_allowed_lint_has_a_reason() {
    let bare: Vec<String> = files(&[".rs"])
        .into_iter()
        .flat_map(|(path, text)| {
            let mut found = Vec::new();
            let mut rest = text.as_str();
            while let Some(at) = rest.find("[allow(") {
                let attribute = &rest[at..];
                let end = attribute.find(")]").unwrap_or(attribute.len());
                if !attribute[..end].contains("reason") {
                    found.push(format!("{path}: {}", &attribute[..end.min(80)]));
                }
                rest = &attribute[end..];
            }
            found
        })
        .filter(|line| !line.starts_with("xtask/tests/tidy.rs"))
        .collect();
    assert!(bare.is_empty(), "{bare:#?}");
}

/// Names of all tests: functions of Rust and Python, and test programs by file.
fn test_names() -> BTreeSet<String> {
    files(&[".rs", ".py"])
        .into_iter()
        .flat_map(|(_, text)| {
            let names: Vec<String> = text
                .lines()
                .filter_map(|line| {
                    let line = line.trim_start();
                    let line = line.strip_prefix("fn ").or_else(|| line.strip_prefix("def "))?;
                    Some(line.split(['(', '<']).next()?.to_owned())
                })
                .collect();
            names
        })
        .collect()
}

/// The names in backticks of the last column of a table.
fn named_in(document: &str) -> Vec<String> {
    let text = std::fs::read_to_string(root().join(document)).unwrap();
    let rows = text.lines().filter(|line| line.starts_with('|'));
    let cells = rows.filter_map(|row| row.trim_end_matches('|').rsplit('|').next());
    cells.flat_map(|cell| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>()).collect()
}

#[test]
fn every_test_that_a_report_or_promise_names_exists() {
    let known = test_names();
    for document in ["docs/reports.md", "SPECIFICATION.md"] {
        let missing: Vec<String> = named_in(document).into_iter().filter(|name| !known.contains(name)).collect();
        assert!(missing.is_empty(), "{document} names tests that do not exist: {missing:#?}");
    }
}

#[test]
fn every_page_of_the_book_is_listed_and_every_listed_page_exists() {
    let folder = root().join("docs/reference");
    let summary = std::fs::read_to_string(folder.join("SUMMARY.md")).unwrap();
    let listed: BTreeSet<String> =
        summary.split("](").skip(1).filter_map(|rest| Some(rest.split(')').next()?.to_owned())).collect();
    let pages: BTreeSet<String> = files(&[".md"])
        .into_iter()
        .filter_map(|(path, _)| Some(path.strip_prefix("docs/reference/")?.to_owned()))
        .filter(|page| page != "SUMMARY.md" && !page.starts_with("codes/"))
        .collect();
    assert_eq!(listed, pages);
}
