//! Gathers the pages of `docs/reference/codes/` for `outboard explain`, so that it works offline and knows every page there is.

use std::fmt::Write;
use std::path::Path;

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/codes");
    println!("cargo:rerun-if-changed={}", root.display());
    let mut pages: Vec<_> = std::fs::read_dir(&root)
        .expect("docs/reference/codes exists")
        .map(|entry| entry.expect("a readable folder").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .collect();
    pages.sort();
    let mut table = String::from("&[\n");
    for page in &pages {
        println!("cargo:rerun-if-changed={}", page.display());
        let code = page.file_stem().and_then(|name| name.to_str()).expect("a page is named after its code");
        writeln!(table, "    ({code:?}, include_str!({:?})),", page.display().to_string())
            .expect("text can be written");
    }
    table.push(']');
    let out = std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR");
    std::fs::write(Path::new(&out).join("pages.rs"), table).expect("OUT_DIR can be written");
}
