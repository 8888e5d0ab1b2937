//! What a program does wrong ends its run with a value that says what, where and how it got there.
#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "tests build and take apart small known values, and fail by panicking"
)]

mod common;

use common::{CODE, DATA, STACK, engine};
use outboard_xtensa::engine::{Cause, CoreConfig, Engine, Fault, FrameKind, RegionMemory, Stop};
use outboard_xtensa::isa::registers::special;
use outboard_xtensa::isa::{Isa, IsaSet};

fn fault(engine: &mut Engine<RegionMemory>) -> Fault {
    match engine.run(10_000) {
        Stop::Fault(fault) => *fault,
        other => panic!("ended with {other:?}"),
    }
}

#[test]
fn each_kind_of_fault_has_its_cause_and_place() {
    let cases: [(&str, u8, &str); 8] = [
        ("ill", 0, "illegal instruction at pc 0x00001003"),
        ("ill.n", 0, "illegal instruction at pc 0x00001003"),
        ("rfdd", 0, "illegal instruction at pc 0x00001003"),
        ("quou a2, a3, a4", 6, "integer division by zero at pc 0x00001003"),
        ("l32i a2, a5, 0", 9, "misaligned 4-byte access at 0x00008002 at pc 0x00001003"),
        ("s32i a2, a4, 0", 3, "store at 0x00000000: nothing is mapped there at pc 0x00001003"),
        ("jx a4", 2, "instruction fetch at 0x00000000: nothing is mapped there at pc 0x00000000"),
        ("rsr.ps a2", 8, "privileged instruction outside ring 0 at pc 0x00001003"),
    ];
    for (line, number, text) in cases {
        let mut engine = engine(CoreConfig::linux_user(), &["nop", line]);
        engine.set_ar(4, 0);
        engine.set_ar(5, DATA + 2);
        let fault = fault(&mut engine);
        assert_eq!((fault.cause.number(), fault.to_string().as_str()), (number, text), "{line}");
    }
}

#[test]
fn a_disabled_instruction_names_itself() {
    let lines = ["mull a2, a3, a4"];
    let mut core = engine(CoreConfig::linux_user(), &lines);
    let code = core.memory().bytes(CODE, 3).unwrap().to_vec();
    let config = CoreConfig { isa: IsaSet::lx().without(Isa::Mul32), ..CoreConfig::linux_user() };
    let mut without = engine(config, &["nop"]);
    without.memory_mut().bytes_mut(CODE, 3).unwrap().copy_from_slice(&code);
    assert_eq!(fault(&mut without).cause, Cause::DisabledInstruction { mnemonic: "mull" });
    assert_eq!(core.run(1), Stop::Fuel);
}

#[test]
fn a_bundle_is_refused_by_format_and_address() {
    let mut engine = engine(CoreConfig::vision_q7(), &["nop", "nop", "nop", "nop", "nop", "nop"]);
    let bundle = [0x4f, 0x80, 0xa0, 0x80, 0x11, 0xc3, 0x20, 0x21];
    engine.memory_mut().bytes_mut(CODE + 3, 8).unwrap().copy_from_slice(&bundle);
    let fault = fault(&mut engine);
    assert_eq!((fault.pc, fault.bytes.as_slice()), (CODE + 3, bundle.as_slice()));
    assert!(fault.to_string().contains("FLIX bundle of format N0 (8 bytes, 4 slots)"), "{fault}");
}

/// Report G4: a floating-point instruction with CPENABLE = 0 is one fault with its cause.
#[test]
fn g4_a_disabled_coprocessor_is_reported_once_with_its_cause() {
    let config = CoreConfig { reset_cpenable: 0, ..CoreConfig::linux_user() };
    let mut engine = engine(config, &["nop", "add.s f0, f1, f2"]);
    let fault = fault(&mut engine);
    assert_eq!((fault.cause, fault.pc), (Cause::CoprocessorDisabled { number: 0 }, CODE + 3));
    assert_eq!(fault.cause.number(), 32);
}

#[test]
fn a_windowed_backtrace_goes_through_live_and_spilled_frames() {
    // f(n): if n == 0 fault, else call f(n - 1). Twelve frames do not fit into 32 registers.
    let lines =
        ["call8 0x1008", "nop", "nop.n", "entry a1, 32", "beqz a2, 0x1014", "addi a10, a2, -1", "call8 0x1008", "ill"];
    let mut engine = engine(CoreConfig::linux_user(), &lines);
    engine.set_ar(10, 11);
    let fault = fault(&mut engine);
    assert_eq!(fault.cause, Cause::IllegalInstruction);
    let windows = fault.backtrace.iter().filter(|frame| frame.kind == FrameKind::Window).count();
    assert_eq!(windows, 12, "{fault}");
    assert_eq!(fault.backtrace.last().unwrap().pc, CODE + 3);
    assert!(fault.backtrace[1..12].iter().all(|frame| frame.pc == CODE + 0x14));
}

#[test]
fn a_call0_backtrace_finds_the_return_addresses_on_the_stack() {
    let config = CoreConfig { reset_ps: 0x20, ..CoreConfig::linux_user() };
    let code = ["call0 0x1008", "nop", "nop.n", "addi a1, a1, -16", "s32i a0, a1, 0", "nop", "call0 0x1014", "ill"];
    let mut engine = engine(config, &code);
    engine.set_ar(0, 0);
    let fault = fault(&mut engine);
    let found: Vec<(u32, FrameKind)> = fault.backtrace.iter().skip(1).map(|frame| (frame.pc, frame.kind)).collect();
    assert_eq!(found, [(CODE + 0x14, FrameKind::ReturnRegister), (CODE + 3, FrameKind::StackScan)], "{fault}");
}

#[test]
fn a_return_without_a_windowed_call_is_a_window_fault() {
    let mut engine = engine(CoreConfig::linux_user(), &["retw"]);
    engine.set_ar(0, 0x1234);
    let fault = fault(&mut engine);
    assert_eq!(fault.cause.name(), "window");
    assert!(fault.to_string().contains("a0 = 0x00001234 is not the return address"), "{fault}");
}

#[test]
fn a_frame_that_cannot_be_spilled_is_a_window_fault_at_the_instruction_that_needed_it() {
    let lines = ["call12 0x1008", "nop", "nop.n", "entry a1, 64", "nop", "nop.n", "call12 0x1008"];
    let mut engine = engine(CoreConfig::linux_user(), &lines);
    engine.set_ar(13, 0x40);
    let fault = fault(&mut engine);
    assert!(fault.to_string().contains("stack save area cannot be used"), "{fault}");
}

#[test]
fn crossing_a_stack_limit_is_a_fault_with_both_numbers() {
    let mut engine = engine(CoreConfig::vision_q7(), &["call8 0x1004", "nop.n", "nop.n"]);
    // entry a1, 32
    engine.memory_mut().bytes_mut(CODE + 4, 3).unwrap().copy_from_slice(&[0x36, 0x41, 0x00]);
    engine.set_special(special::ISL, STACK - 80);
    let fault = fault(&mut engine);
    assert_eq!(fault.cause, Cause::StackLimit { pointer: STACK - 96, limit: STACK - 80 });
}

#[test]
fn a_used_up_budget_stops_an_endless_loop() {
    let mut engine = engine(CoreConfig::linux_user(), &["j 0x1000"]);
    assert_eq!(engine.run(1_000_000), Stop::Fuel);
    assert_eq!(engine.instructions(), 1_000_000);
}

#[test]
fn exceptions_that_raise_exceptions_for_ever_use_up_the_budget() {
    // Bare core: every vector holds an illegal instruction.
    let mut engine = engine(CoreConfig::bare(), &["ill"]);
    engine.set_special(special::VECBASE, DATA);
    let stop = engine.run(1000);
    assert!(matches!(stop, Stop::Fuel | Stop::Fault(_)), "{stop:?}");
}
