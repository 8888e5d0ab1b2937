//! Writes the twins of all device images, of the host library and of the container into a folder; `cargo xtask twins DIR` runs it.
#![allow(clippy::print_stdout, reason = "the names of the files are the result")]

fn main() -> std::io::Result<()> {
    let folder = std::env::args_os().nth(1).unwrap_or_else(|| "twins".into());
    for file in outboard_ucode::twins::write(folder.as_ref())? {
        println!("{}", file.display());
    }
    Ok(())
}
