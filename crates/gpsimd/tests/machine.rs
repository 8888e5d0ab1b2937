//! What only assembly can show: the object whose bytes are known, the stack switch inside a hardware loop, cores by number;
//! and the runtime as an archive that other objects link against.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use outboard_device_build::BuildError;
use outboard_elf::archive::Archive;
use outboard_elf::{Elf, StringTable, SymbolTable, sht, stb};
use outboard_gpsimd::{Error, OutputSpec, PoolTarget, Runtime, RuntimeOptions, Schedule};
use outboard_tensor::DType;
use std::collections::BTreeSet;
use support::{build, slices};

fn pool(cores: usize) -> Runtime {
    let target = PoolTarget { cores, ..PoolTarget::default() };
    Runtime::new(RuntimeOptions { target, schedule: Schedule::Seeded(9), ..RuntimeOptions::default() }).unwrap()
}

fn identity(runtime: &mut Runtime, cores: usize) -> Vec<i32> {
    let spec = OutputSpec { dtype: DType::Int32, shape: vec![cores] };
    let mut library = runtime.library().unwrap();
    library.op("identity").unwrap().output(spec).call(&[]).unwrap().values().unwrap()
}

const PARALLEL: &str = include_str!("../../../device/customop-rt/asm/parallel.S");

#[test]
fn the_identity_routines_are_the_published_bytes() {
    let object = build().assemble("parallel.S", &format!("CPU_COUNT = 8\n{PARALLEL}")).unwrap();
    let elf = Elf::parse(&object).unwrap();
    let sections = elf.sections().unwrap();
    let bytes = |name: &str| sections.data(&sections.by_name(name.as_bytes()).unwrap()).unwrap();
    let id = [0x36, 0x41, 0, 0x24, 0, 0, 0x24, 0, 0, 0x28, 0x02, 0x1d, 0xf0];
    assert_eq!(bytes(".text._Z10get_cpu_idv"), id);
    assert_eq!(bytes(".text._Z13get_cpu_countv"), [0x36, 0x41, 0, 0x0c, 0x82, 0x1d, 0xf0]);
    let constructor = [0x36, 0x41, 0, 0x24, 0, 0, 0x24, 0, 0, 0x30, 0xeb, 0x03, 0x39, 0x02, 0x1d, 0xf0];
    assert_eq!(bytes(".text._GLOBAL__sub_I_parallel.cpp"), constructor);
    // High half at +3, low half at +6, both of the one word.
    let table = bytes(".rela.text._Z10get_cpu_idv");
    let entries: Vec<(u32, u32)> = table
        .as_chunks::<12>()
        .0
        .iter()
        .map(|entry| {
            let word = |at: usize| u32::from_le_bytes([entry[at], entry[at + 1], entry[at + 2], entry[at + 3]]);
            (word(0), word(4) & 0xff)
        })
        .collect();
    assert_eq!(entries, [(3, 35), (6, 20)]);
}

#[test]
fn core_counts_change_with_the_target_and_a_mismatch_is_refused() {
    for cores in [1, 4, 8] {
        let mut runtime = pool(cores);
        let files = build().fixed_op("probe", u8::try_from(cores).unwrap()).unwrap();
        runtime.load(&slices(&files)).unwrap();
        let expected: Vec<i32> = (0..cores).map(|core| i32::try_from(100 * core + cores).unwrap()).collect();
        assert_eq!(identity(&mut runtime, cores), expected);
    }
    let four = build().fixed_op("probe", 4).unwrap();
    assert!(matches!(pool(8).load(&slices(&four)).unwrap_err(), Error::ImageCount { given: 4, cores: 8 }));
    let (op, runtime) = (build().op("probe").unwrap(), build().runtime(4).unwrap());
    let wrong = build().fixed(&[("probe", &op), ("runtime", &runtime)], 8).unwrap();
    let mut eight = pool(8);
    assert!(matches!(eight.load(&slices(&wrong)).unwrap_err(), Error::CpuCount { library: 4, cores: 8 }));
    let mut swapped = build().fixed_op("probe", 8).unwrap();
    swapped.swap(2, 5);
    assert!(matches!(eight.load(&slices(&swapped)).unwrap_err(), Error::ImageCore { position: 2, found: 5, .. }));
    let none = PoolTarget { cores: 3, ..PoolTarget::default() };
    assert!(Runtime::new(RuntimeOptions { target: none, ..RuntimeOptions::default() }).is_err());
}

#[test]
fn a_constant_core_number_changes_the_result() {
    let constant = "
        .global _Z10get_cpu_idv
        .type _Z10get_cpu_idv, @function
_Z10get_cpu_idv:
        entry a1, 32
        movi a2, 0
        retw
        .global _Z13get_cpu_countv
        .type _Z13get_cpu_countv, @function
_Z13get_cpu_countv:
        entry a1, 32
        movi a2, 8
        retw
";
    let object = build().assemble("constant.S", constant).unwrap();
    let (op, runtime) = (build().op("probe").unwrap(), build().runtime(8).unwrap());
    let parts = [("constant.o", object.as_slice()), ("probe", &op), ("runtime", &runtime)];
    let files = build().fixed(&parts, 8).unwrap();
    let mut eight = pool(8);
    eight.load(&slices(&files)).unwrap();
    assert_eq!(identity(&mut eight, 8), [8, 0, 0, 0, 0, 0, 0, 0]);
}

/// Three turns of a hardware loop, each with a switch to a stack in HBM; every register that a switch must keep is compared.
const LOOP: &str = "
        .text
        .global _Z12get_func_cntv
        .type _Z12get_func_cntv, @function
_Z12get_func_cntv:
        entry a1, 32
        movi a2, 1
        retw
        .global _Z13get_func_namei
        .type _Z13get_func_namei, @function
_Z13get_func_namei:
        entry a1, 32
        movi a2, name
        retw
        .global _Z12get_func_ptri
        .type _Z12get_func_ptri, @function
_Z12get_func_ptri:
        entry a1, 32
        movi a2, launcher
        retw
        .type launcher, @function
launcher:
        entry a1, 48
        movi a2, turns
        movi a3, 0
        s32i a3, a2, 0
        movi a4, 5
        ssl a4
        rsr a7, isl
        movi a5, 3
        loop a5, done
        rsr a4, lcount
        s32i a4, a1, 0
        rsr a4, lbeg
        s32i a4, a1, 4
        rsr a4, lend
        s32i a4, a1, 8
        rsr a4, sar
        s32i a4, a1, 12
        movi a10, 0x8000
        movi a11, inner
        movi a8, _Z28switch_stack_or_call_wrapperjj
        callx8 a8
        movi a3, 77
        bne a10, a3, wrong
        rsr a4, lcount
        l32i a3, a1, 0
        bne a4, a3, wrong
        rsr a4, lbeg
        l32i a3, a1, 4
        bne a4, a3, wrong
        rsr a4, lend
        l32i a3, a1, 8
        bne a4, a3, wrong
        rsr a4, isl
        bne a4, a7, wrong
        addi a6, a6, 0
done:
        l32i a3, a2, 0
        movi a4, 3
        bne a3, a4, wrong
        movi a2, 0
        retw
wrong:  movi a8, abort
        callx8 a8
        .size launcher, . - launcher
        .type inner, @function
inner:  entry a1, 32
        rsr a3, isl
        bgez a3, wrong
        movi a2, turns
        l32i a3, a2, 0
        addi a3, a3, 1
        s32i a3, a2, 0
        movi a2, 77
        retw
        .size inner, . - inner
        .section .rodata
name:   .asciz \"looped\"
        .section .bss, \"aw\", @nobits
        .align 4
turns:  .space 4
";

#[test]
fn a_stack_switch_inside_a_hardware_loop_keeps_its_registers() {
    let object = build().assemble("loop.S", LOOP).unwrap();
    let archive = build().runtime(8).unwrap();
    let parts = [("loop.o", object.as_slice()), ("runtime", &archive)];
    let spec = || OutputSpec { dtype: DType::Int32, shape: vec![1] };
    let mut eight = pool(8);
    eight.load(&slices(&build().fixed(&parts, 8).unwrap())).unwrap();
    eight.library().unwrap().op("looped").unwrap().output(spec()).call(&[]).unwrap();
    // The same object, which knows nothing of this workspace, as a resident library.
    let resident = build().resident(&parts, PoolTarget::default().bounds()).unwrap();
    let mut library = eight.load(&[&resident.image]).unwrap();
    library.op("looped").unwrap().output(spec()).call(&[]).unwrap();
}

#[test]
fn a_library_without_its_three_functions_is_not_linked() {
    let runtime = build().runtime(8).unwrap();
    let BuildError::Link(error) = build().fixed(&[("runtime", &runtime)], 8).unwrap_err() else {
        panic!("another error")
    };
    let text = error.to_string();
    for name in ["_Z12get_func_cntv", "_Z13get_func_namei", "_Z12get_func_ptri"] {
        assert!(text.contains(name), "{text}");
    }
}

/// Names that the objects of an archive define for others, without those of the compiler's own library.
fn defined(archive: &[u8]) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for member in Archive::open(archive).unwrap().map(Result::unwrap) {
        if member.name.starts_with(b"compiler_builtins") {
            continue;
        }
        let elf = Elf::parse(member.data).unwrap();
        let sections = elf.sections().unwrap();
        for section in sections.iter().filter(|section| section.kind == sht::SYMTAB) {
            let strings = sections.data(&sections.get(section.link as usize).unwrap()).unwrap();
            let strings = StringTable::new("names", strings).unwrap();
            let table = SymbolTable::new(elf.header().class, sections.data(&section).unwrap());
            for symbol in table.iter().filter(|symbol| symbol.defined() && symbol.binding() != stb::LOCAL) {
                let name = strings.get("a name", symbol.name.into(), 4096).unwrap();
                names.insert(String::from_utf8_lossy(name).into_owned());
            }
        }
    }
    names
}

#[test]
fn the_archive_defines_the_committed_names_and_no_others() {
    let found = defined(&build().runtime(8).unwrap());
    let committed: BTreeSet<String> =
        include_str!("../../../device/customop-rt/symbols.txt").lines().map(str::to_owned).collect();
    let listed: Vec<_> = found.iter().map(String::as_str).collect();
    assert!(found == committed, "device/customop-rt/symbols.txt should be:\n{}", listed.join("\n"));
    for (_, linker_name) in outboard_gpsimd::support_routines() {
        assert!(found.contains(linker_name), "{linker_name}");
    }
}

#[test]
fn resident_operations_fit_their_windows_and_the_committed_sizes() {
    let table = include_str!("data/resident-sizes.txt");
    let mut wrong = Vec::new();
    for line in table.lines().filter(|line| !line.starts_with('#')) {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [name, code, data] = fields.as_slice() else { panic!("{line}") };
        let linked = support::pi(name);
        let found = [linked.prelinked.header.code_len, linked.prelinked.header.data_len];
        let near = |found: u32, committed: &str| found.abs_diff(committed.parse().unwrap()) * 20 <= found;
        if !near(found[0], code) || !near(found[1], data) {
            wrong.push(format!("{name} {} {}", found[0], found[1]));
        }
        assert!(found[0] <= 0x8000 && found[1] <= 0x2000);
    }
    assert!(wrong.is_empty(), "tests/data/resident-sizes.txt should have:\n{}", wrong.join("\n"));
}
