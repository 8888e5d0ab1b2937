//! The files of the project, for tests that read them.

use std::path::{Path, PathBuf};

/// The root of the project.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_path_buf()
}

/// Files of the project that are kept by hand, with their path from the root.
pub fn files(endings: &[&str]) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders = vec![root()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            let name = entry.file_name().to_string_lossy().into_owned();
            if path.is_dir() {
                if !["target", ".git", ".outboard", "__pycache__", "corpus", "artifacts"].contains(&name.as_str()) {
                    folders.push(path);
                }
            } else if endings.iter().any(|ending| name.ends_with(ending)) {
                let shown = path.strip_prefix(root()).unwrap().display().to_string();
                found.push((shown, std::fs::read_to_string(&path).unwrap_or_default()));
            }
        }
    }
    found.sort();
    found
}

/// The code of a Rust line: without its comment.
pub fn code(line: &str) -> &str {
    line.split("//").next().unwrap_or(line)
}
