//! Kernels written in Rust: compiled for the device, linked to a PI image, moved by the host, run on the engine.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::{Path, PathBuf};
use std::process::Command;

use outboard_elf::Elf;
use outboard_elf::pi::{KernelRow, KernelTable};
use outboard_link::build::Inputs;
use outboard_link::pi::{MemoryBounds, Prelinked};
use outboard_link::shape::pi::{PiOptions, link};
use outboard_xtensa::encode_text;
use outboard_xtensa::engine::{CoreConfig, Engine, Permissions, RegionMemory, Stop};

const CAYMAN: MemoryBounds =
    MemoryBounds::from_words([0, 0x2_0000, 0x1_8000, 0x8000, 0x8_0000, 0x4_0000, 0xb_e000, 0x2000]);
const CALLER: u32 = 0x1_0000;
const STACK: u32 = 0x8_0000;

/// The archive of `tests/device`, compiled by the pinned tool chain with a `core` of its own.
fn archive() -> Vec<u8> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/device");
    let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("device");
    let mut cargo = Command::new("cargo");
    cargo.current_dir(&sources).args(["build", "--release", "--quiet", "-Zbuild-std=core", "-Zjson-target-spec"]);
    cargo.args(["-Zbuild-std-features=compiler-builtins-mem", "--target", "xtensa-none-elf.json"]);
    for name in ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "RUSTC", "RUSTC_WRAPPER", "RUSTDOC", "CARGO"] {
        cargo.env_remove(name);
    }
    let output = cargo.env("RUSTC_BOOTSTRAP", "1").env("CARGO_TARGET_DIR", &target).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    std::fs::read(target.join("xtensa-none-elf/release/libkernels.a")).unwrap()
}

fn call(engine: &mut Engine<RegionMemory>, function: u32, argument: u32) -> u32 {
    let isa = engine.config().isa;
    let code = ["callx8 a8", "simcall"].map(|line| encode_text(line, CALLER, isa).unwrap().bytes().to_vec()).concat();
    engine.memory_mut().bytes_mut(CALLER, code.len()).unwrap().copy_from_slice(&code);
    engine.reset();
    engine.invalidate_code();
    engine.set_pc(CALLER);
    engine.set_ar(1, STACK + 0x800);
    engine.set_ar(8, function);
    engine.set_ar(10, argument);
    let stop = engine.run(100_000);
    assert!(matches!(stop, Stop::Simcall), "{stop:?}");
    engine.ar(10)
}

fn core(image: &Prelinked) -> Engine<RegionMemory> {
    let mut memory = RegionMemory::new();
    memory.map(image.placement.code.base, image.code().to_vec(), Permissions::READ_EXECUTE).unwrap();
    memory.map(image.placement.data.base, image.data().to_vec(), Permissions::READ_WRITE).unwrap();
    memory.map(CALLER, vec![0; 64], Permissions::ALL).unwrap();
    memory.map(STACK, vec![0; 0x1000], Permissions::READ_WRITE).unwrap();
    Engine::new(CoreConfig::vision_q7(), memory).unwrap()
}

#[test]
fn kernels_in_rust_are_found_by_their_opcodes_and_run_after_the_host_has_moved_them() {
    let archive = archive();
    let mut inputs = Inputs::new();
    inputs.add("libkernels.a", &archive).unwrap();
    let made = link(inputs, &PiOptions::new(&CAYMAN)).unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(made.kernels, 2);
    let image = &made.prelinked;
    assert!(image.warnings.is_empty(), "{:?}", image.warnings);
    let table = KernelTable::find(&Elf::parse(&made.image).unwrap()).unwrap().unwrap();
    let address = image.descriptor.rebase(u32::try_from(table.address).unwrap()) - image.placement.data.base;
    let rows = &image.data()[usize::try_from(address).unwrap()..][..16];
    let rows: Vec<KernelRow> = rows.as_chunks::<8>().0.iter().map(|row| KernelRow::decode(0, *row)).collect();
    let find = |opcode, spec| rows.iter().find(|row| (row.opcode, row.spec) == (opcode, spec)).unwrap().function;
    let mut core = core(image);
    assert_eq!(call(&mut core, image.header.start, 0), 0);
    assert_eq!([(); 2].map(|()| call(&mut core, find(0x7e, 0), 0)), [41, 42], "a counter in memory");
    let expected = [7, 2001, 140_001, 19, 1];
    assert_eq!([0, 1, 2, 3, 4].map(|index| call(&mut core, find(0xf0, 2), index)), expected, "a table of functions");
}
