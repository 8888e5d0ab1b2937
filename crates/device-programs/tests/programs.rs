//! Every test program prints the same on the engine, under QEMU and natively.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use outboard_device_programs::programs::{CALL0, Compiler, Program, WINDOWED, WINDOWED_FLOAT, build};
use outboard_device_programs::{Abi, Workshop};
use outboard_link::build::{Inputs, Options, link};
use outboard_link::layout_file;
use outboard_xtensa::run::{Abi as System, Ending, RunOptions, Streams, run};
use std::process::Command;

fn output(command: &mut Command) -> (String, i32) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let status = output.status.code().unwrap_or(-1);
    assert!(output.stderr.is_empty(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    (String::from_utf8(output.stdout).unwrap(), status)
}

fn on_the_engine(program: &Program) -> (String, i32) {
    let file = std::fs::read(&program.image).unwrap();
    let mut output = Vec::new();
    let streams =
        Streams { input: &mut std::io::empty(), output: &mut output, error: &mut std::io::sink(), trace: None };
    let options = RunOptions { max_instructions: Some(1_000_000_000), ..RunOptions::new(System::LinuxUser) };
    let report = run(&file, &options, streams).unwrap();
    assert!(matches!(report.ending, Ending::Exit(_)), "{}: {:?}", program.name, report.ending);
    (String::from_utf8(output).unwrap(), report.ending.status().into())
}

/// Builds and runs all programs of a compiler, all three ways.
fn same_everywhere(compiler: Compiler, count: usize) {
    let programs = build(&Workshop::new().unwrap(), compiler).unwrap_or_else(|fault| panic!("{fault}"));
    assert_eq!(programs.len(), count);
    for program in &programs {
        let native = output(&mut program.native());
        assert!(native.0.lines().count() > 3 && native.1 == 0, "{}: {native:?}", program.name);
        assert_eq!(on_the_engine(program), native, "{} on the engine", program.name);
        assert_eq!(output(&mut program.qemu()), native, "{} under QEMU", program.name);
    }
}

#[test]
fn rust_with_windows_and_hardware_floats_prints_the_same_everywhere() {
    same_everywhere(Compiler::Rust(WINDOWED_FLOAT), 8);
}

#[test]
fn rust_with_windows_and_floats_in_software_prints_the_same_everywhere() {
    same_everywhere(Compiler::Rust(WINDOWED), 8);
}

#[test]
fn rust_with_call0_prints_the_same_everywhere() {
    same_everywhere(Compiler::Rust(CALL0), 8);
}

#[test]
fn c_by_clang_with_windows_prints_the_same_everywhere() {
    same_everywhere(Compiler::Clang(WINDOWED), 9);
}

#[test]
fn c_by_clang_with_hardware_floats_prints_the_same_everywhere() {
    same_everywhere(Compiler::Clang(WINDOWED_FLOAT), 9);
}

#[test]
fn c_by_clang_with_call0_prints_the_same_everywhere() {
    same_everywhere(Compiler::Clang(CALL0), 8);
}

#[test]
fn c_by_gcc_prints_the_same_everywhere() {
    same_everywhere(Compiler::Gcc { literals_in_text: false }, 8);
}

#[test]
fn c_by_gcc_with_literals_in_the_code_prints_the_same_everywhere() {
    same_everywhere(Compiler::Gcc { literals_in_text: true }, 8);
}

#[test]
fn a_whole_staticlib_links_with_every_section_kept_and_several_pools() {
    // Everything of core that the programs use, and all of the compiler's own library: 64-bit and 128-bit arithmetic, math.
    let workshop = Workshop::new().unwrap();
    let programs = build(&workshop, Compiler::Rust(WINDOWED)).unwrap_or_else(|fault| panic!("{fault}"));
    let library = std::fs::read(workshop.out().join("rust/windowed/librust.a")).unwrap();
    let objects =
        ["asm/windowed.o", "asm/main-windowed-jumps.o"].map(|name| std::fs::read(workshop.out().join(name)).unwrap());
    let text = std::fs::read_to_string(workshop.device().join("layouts/linux-user.toml")).unwrap();
    let layout = layout_file::parse(&text).unwrap();
    let mut inputs = Inputs::new();
    inputs.add("start.o", &objects[0]).unwrap();
    inputs.add("main.o", &objects[1]).unwrap();
    inputs.add("librust.a", &library).unwrap();
    let linked = link(inputs, &layout, &Options { keep_all: true, properties: true })
        .unwrap_or_else(|errors| panic!("{errors}"));
    let code = linked.sections.iter().find(|section| section.name == ".text").unwrap().size;
    assert!(code > 0x4_0000 && linked.pools > 1, "{code:#x} bytes of code, {} pools", linked.pools);
    let literals = linked.properties.iter().flatten().filter(|property| property.flags == 1).count();
    assert_eq!(literals, linked.pools, "rustc writes no tables of its own");
    let image = workshop.out().join("whole.elf");
    std::fs::write(&image, linked.elf().unwrap()).unwrap();
    let jumps = programs.iter().find(|program| program.name.ends_with("jumps")).unwrap();
    let mut whole = jumps.clone();
    whole.image = image;
    assert_eq!(on_the_engine(&whole), output(&mut jumps.native()));
}

#[test]
fn the_conventions_have_their_targets_and_starts() {
    let workshop = Workshop::new().unwrap();
    for abi in [Abi::Windowed, Abi::Call0] {
        assert!(workshop.device().join(format!("targets/xtensa-{}.json", abi.name())).is_file());
        assert!(workshop.device().join(format!("start/{}.S", abi.name())).is_file());
    }
}
