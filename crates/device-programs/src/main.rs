//! Builds the programs for Xtensa devices and prints the path of every image: `cargo xtask device` runs it. With a number as
//! argument: images that run programs so many times, for `versus_qemu`.

use outboard_device_programs::programs::{CALL0, Compiler, WINDOWED, WINDOWED_FLOAT, build, repeated};
use outboard_device_programs::{BuildFault, Workshop};
use std::io::Write;
use std::path::PathBuf;

/// Every compiler of the test programs.
const COMPILERS: [Compiler; 8] = [
    Compiler::Rust(WINDOWED),
    Compiler::Rust(WINDOWED_FLOAT),
    Compiler::Rust(CALL0),
    Compiler::Clang(WINDOWED),
    Compiler::Clang(WINDOWED_FLOAT),
    Compiler::Clang(CALL0),
    Compiler::Gcc { literals_in_text: false },
    Compiler::Gcc { literals_in_text: true },
];

fn main() -> std::process::ExitCode {
    match images(&mut std::io::stdout()) {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(fault) => {
            // Without standard error there is nobody to tell.
            let _ = writeln!(std::io::stderr(), "error: {fault}");
            std::process::ExitCode::FAILURE
        }
    }
}

fn images(out: &mut impl Write) -> Result<(), BuildFault> {
    let workshop = Workshop::new()?;
    let mut print =
        |path: PathBuf| writeln!(out, "{}", path.display()).map_err(|error| BuildFault::File { path, error });
    if let Some(times) = std::env::args().nth(1).and_then(|times| times.parse().ok()) {
        return repeated(&workshop, times)?.into_iter().try_for_each(print);
    }
    for compiler in COMPILERS {
        for program in build(&workshop, compiler)? {
            print(program.image)?;
        }
    }
    Ok(())
}
