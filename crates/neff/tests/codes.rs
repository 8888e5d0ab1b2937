//! Every code of the GPSIMD tools has a page.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn every_code_in_the_sources_has_a_page_and_every_page_is_used() {
    let mut files = Vec::new();
    for directory in ["crates/link/src/pi", "crates/link/src/shape", "crates/ucode/src", "crates/neff/src"] {
        sources(&root().join(directory), &mut files);
    }
    let mut used = BTreeSet::new();
    for file in files {
        let text = std::fs::read_to_string(file).unwrap();
        for (at, _) in text.match_indices("\"OB06") {
            used.insert(text[at + 1..at + 7].to_owned());
        }
    }
    let pages = std::fs::read_dir(root().join("docs/reference/codes")).unwrap();
    let pages: BTreeSet<String> = pages
        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned())
        .filter(|name| name.starts_with("OB06"))
        .collect();
    assert_eq!(used, pages);
    for page in pages {
        let text = std::fs::read_to_string(root().join(format!("docs/reference/codes/{page}.md"))).unwrap();
        assert!(text.starts_with(&format!("# {page}: ")) && text.contains("## What to do\n\n- "), "{page}");
    }
}
