//! The test programs of `device/programs`: each prints the same on the engine, under QEMU and natively.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Abi, BuildFault, Machine, Workshop};

/// Programs in Rust; the names are those of `device/programs/rust/src`.
pub const RUST: [&str; 8] = ["arithmetic", "boxes", "checksums", "copies", "floats", "jumps", "recursion", "sorting"];

/// Programs in C and C++, with the sources beside the runtime.
pub const C: [(&str, &str); 8] = [
    ("arithmetic", "arithmetic.c"),
    ("checksums", "checksums.c"),
    ("constructors", "constructors.cpp"),
    ("copies", "copies.c"),
    ("floats", "floats.c"),
    ("jumps", "jumps.c"),
    ("recursion", "recursion.c"),
    ("sorting", "sorting.c"),
];

/// Who compiles a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Compiler {
    /// rustc, for a machine.
    Rust(Machine),
    /// clang 22, for a machine.
    Clang(Machine),
    /// GCC for the LX106; literals in sections of their own, or in the code.
    Gcc {
        /// `-mtext-section-literals`
        literals_in_text: bool,
    },
}

/// Windowed, floats in software.
pub const WINDOWED: Machine = Machine { abi: Abi::Windowed, float: false };
/// Windowed, floats in hardware.
pub const WINDOWED_FLOAT: Machine = Machine { abi: Abi::Windowed, float: true };
/// Call0, floats in software.
pub const CALL0: Machine = Machine { abi: Abi::Call0, float: false };

impl Compiler {
    /// What the code is compiled for.
    #[must_use]
    pub const fn machine(self) -> Machine {
        match self {
            Self::Rust(machine) | Self::Clang(machine) => machine,
            Self::Gcc { .. } => CALL0,
        }
    }

    fn name(self) -> String {
        match self {
            Self::Rust(machine) => format!("rust-{}", machine.name()),
            Self::Clang(machine) => format!("clang-{}", machine.name()),
            Self::Gcc { literals_in_text: false } => "gcc".to_owned(),
            Self::Gcc { literals_in_text: true } => "gcc-text".to_owned(),
        }
    }
}

/// A program for the device, and its native twin.
#[derive(Debug, Clone)]
pub struct Program {
    /// Compiler and program.
    pub name: String,
    /// The linked image.
    pub image: PathBuf,
    /// How functions call each other.
    pub abi: Abi,
    native: PathBuf,
    argument: Option<String>,
}

impl Program {
    /// Runs the same code natively.
    #[must_use]
    pub fn native(&self) -> Command {
        let mut command = Command::new(&self.native);
        command.args(&self.argument);
        command
    }

    /// Runs the image under QEMU.
    #[must_use]
    pub fn qemu(&self) -> Command {
        let mut command = Command::new("qemu-xtensa");
        command.args(["-cpu", "de233_fpu"]);
        if self.abi == Abi::Call0 {
            command.arg("-xtensa-abi-call0");
        }
        command.arg(&self.image);
        command
    }
}

/// Builds every program that a compiler can build.
///
/// # Errors
///
/// The first [`BuildFault`].
pub fn build(workshop: &Workshop, compiler: Compiler) -> Result<Vec<Program>, BuildFault> {
    let _lock = lock(workshop)?;
    let rust = workshop.device().join("programs/rust");
    let library = workshop
        .rust(&rust, Machine { float: matches!(compiler, Compiler::Rust(m) if m.float), ..compiler.machine() })?;
    let start =
        workshop.assemble(&workshop.device().join("start").join(format!("{}.S", compiler.machine().abi.name())))?;
    match compiler {
        Compiler::Rust(machine) => {
            let native = workshop.rust_native(&rust, "native")?;
            let program = |name: &&str| {
                let main = main_object(workshop, machine.abi, name)?;
                let (name, argument) = (format!("{}-{name}", compiler.name()), Some((*name).to_owned()));
                let inputs = [start.clone(), main, library.clone()];
                image(workshop, name, machine.abi, &inputs, native.clone(), argument)
            };
            RUST.iter().map(program).collect()
        }
        _ => {
            let mut more = vec![start, library];
            if matches!(compiler, Compiler::Gcc { .. }) {
                more.push(workshop.gcc_library()?);
            }
            let program = |(name, source)| c_program(workshop, compiler, name, &[source], &more);
            let mut programs = C.into_iter().map(program).collect::<Result<Vec<_>, _>>()?;
            if compiler.machine().abi == Abi::Windowed {
                programs.push(c_program(workshop, compiler, "loops", &["loops_main.c", "loops.S"], &more)?);
            }
            Ok(programs)
        }
    }
}

/// Programs that may run again and again: they allocate nothing.
const REPEATED: [&str; 6] = ["arithmetic", "checksums", "copies", "floats", "jumps", "recursion"];

/// Builds images that run a Rust program many times, for benchmarks: windowed, with hardware floats.
///
/// # Errors
///
/// The first [`BuildFault`].
pub fn repeated(workshop: &Workshop, times: u32) -> Result<Vec<PathBuf>, BuildFault> {
    let _lock = lock(workshop)?;
    let library = workshop.rust(&workshop.device().join("programs/rust"), WINDOWED_FLOAT)?;
    let start = workshop.assemble(&workshop.device().join("start/windowed.S"))?;
    let image = |name| {
        let source = format!(
            ".section .text.device_main, \"ax\"\n.global device_main\ndevice_main:\n entry a1, 32\n movi a2, {times}\n \
             movi a3, program_{name}\nagain:\n callx8 a3\n addi a2, a2, -1\n bnez a2, again\n retw\n"
        );
        let object = workshop.folder("asm")?.join(format!("repeat-{name}.o"));
        workshop.assemble_text(&source, Path::new("repeat.S"), &object)?;
        let image = workshop.folder("programs")?.join(format!("repeat-{name}.elf"));
        workshop.link("linux-user.toml", &[start.clone(), object, library.clone()], &image)?;
        Ok(image)
    };
    REPEATED.into_iter().map(image).collect()
}

fn c_program(
    workshop: &Workshop,
    compiler: Compiler,
    name: &str,
    sources: &[&str],
    more: &[PathBuf],
) -> Result<Program, BuildFault> {
    let folder = workshop.device().join("programs/c");
    let mut inputs = Vec::new();
    let mut native = vec![folder.join("native.c")];
    for source in sources.iter().chain(&["runtime.c"]) {
        let path = folder.join(source);
        let is_asm = path.extension().is_some_and(|ending| ending == "S");
        inputs.push(match compiler {
            _ if is_asm => workshop.assemble(&path)?,
            Compiler::Gcc { literals_in_text } => workshop.gcc(&path, literals_in_text)?,
            _ => workshop.clang(&path, compiler.machine())?,
        });
        // The native twin of assembler is the C file of the same name.
        native.push(if is_asm { path.with_extension("c") } else { path });
    }
    inputs.extend_from_slice(more);
    let native = workshop.c_native(&native, name)?;
    image(workshop, format!("{}-{name}", compiler.name()), compiler.machine().abi, &inputs, native, None)
}

/// The object that enters a program of the Rust library.
fn main_object(workshop: &Workshop, abi: Abi, name: &str) -> Result<PathBuf, BuildFault> {
    // The register is neither an argument nor kept by a callee, in both conventions.
    let source = format!(
        ".section .text.device_main, \"ax\"\n.global device_main\n.type device_main, @function\ndevice_main:\n \
         movi a5, program_{name}\n jx a5\n .size device_main, . - device_main\n"
    );
    let object = workshop.folder("asm")?.join(format!("main-{}-{name}.o", abi.name()));
    workshop.assemble_text(&source, Path::new("main.S"), &object)?;
    Ok(object)
}

fn image(
    workshop: &Workshop,
    name: String,
    abi: Abi,
    inputs: &[PathBuf],
    native: PathBuf,
    argument: Option<String>,
) -> Result<Program, BuildFault> {
    let image = workshop.folder("programs")?.join(format!("{name}.elf"));
    workshop.link("linux-user.toml", inputs, &image)?;
    Ok(Program { name, image, abi, native, argument })
}

/// One build at a time: tests run as processes of their own and share the folder.
fn lock(workshop: &Workshop) -> Result<std::fs::File, BuildFault> {
    let path = workshop.out().join("lock");
    let fault = |error| BuildFault::file(&path, error);
    let file = std::fs::File::create(&path).map_err(fault)?;
    file.lock().map_err(fault)?;
    Ok(file)
}
