//! Worked vectors for the rows that QEMU cannot judge, and for state that programs cannot see.
#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "tests build and take apart small known values, and fail by panicking"
)]

mod common;

use common::{CODE, DATA, engine};
use outboard_xtensa::engine::{CoreConfig, Memory as _, Stop};
use outboard_xtensa::isa::registers::special;
use outboard_xtensa::isa::{Isa, ROWS};

/// Runs lines up to a `syscall` and returns a register.
fn result(config: CoreConfig, lines: &[&str], inputs: &[(u8, u32)], register: u8) -> u32 {
    let mut lines = lines.to_vec();
    lines.push("syscall");
    let mut engine = engine(config, &lines);
    for &(register, value) in inputs {
        engine.set_ar(register, value);
    }
    assert_eq!(engine.run(10_000), Stop::Syscall);
    engine.ar(register)
}

#[test]
fn const16_pairs_build_a_word() {
    let lines = ["const16 a2, 0x1234", "const16 a2, 0xabcd"];
    assert_eq!(result(CoreConfig::vision_q7(), &lines, &[], 2), 0x1234_abcd);
}

#[test]
fn the_high_halves_of_products_are_signed_or_not() {
    let cases = [(0xffff_ffff, 0xffff_ffff, 0xffff_fffe, 0), (0x8000_0000, 2, 1, 0xffff_ffff), (7, 9, 0, 0)];
    for (a, b, unsigned, signed) in cases {
        let inputs = [(3, a), (4, b)];
        assert_eq!(result(CoreConfig::vision_q7(), &["muluh a2, a3, a4"], &inputs, 2), unsigned);
        assert_eq!(result(CoreConfig::vision_q7(), &["mulsh a2, a3, a4"], &inputs, 2), signed);
    }
}

/// espressif/qemu#165: sums of unsigned products grew beyond their lanes. The accumulator of this instruction set has 40 bits and
/// wraps; the vector instructions of that report are another core's and are named as unknown.
#[test]
fn g3_the_accumulator_wraps_at_40_bits_and_vector_accumulators_are_unknown_instructions() {
    let sum = |count: usize, a: u32, read: &str| {
        let mut lines = vec!["movi a2, 0", "wsr a2, acclo", "wsr a2, acchi"];
        lines.extend(std::iter::repeat_n("mula.aa.ll a3, a4", count));
        lines.extend([read, "sext a2, a2, 7"].iter().take(1 + usize::from(read.ends_with("acchi"))));
        result(CoreConfig::linux_user(), &lines, &[(3, a), (4, a)], 2)
    };
    assert_eq!(sum(17, 255, "rsr a2, acclo"), 17 * 255 * 255);
    // -32768 squared is 2^30: 512 of them are 2^39, which is negative in 40 bits, and 1024 are 0.
    assert_eq!((sum(511, 0x8000, "rsr a2, acchi"), sum(511, 0x8000, "rsr a2, acclo")), (0x7f, 0xc000_0000));
    assert_eq!((sum(512, 0x8000, "rsr a2, acchi"), sum(512, 0x8000, "rsr a2, acclo")), (0xffff_ff80, 0));
    assert_eq!((sum(1024, 0x8000, "rsr a2, acchi"), sum(1024, 0x8000, "rsr a2, acclo")), (0, 0));
    let decoder = outboard_xtensa::Decoder::new(outboard_xtensa::isa::IsaSet::all());
    for mnemonic in ["ee.vmulas.u8.qacc", "ee.vmulas.u8.accx"] {
        let text = format!("{mnemonic} q0, q1");
        let error = outboard_xtensa::encode_text(&text, CODE, decoder.isa()).unwrap_err();
        assert!(error.to_string().contains(mnemonic), "{error}");
    }
}

#[test]
fn salt_and_saltu_compare_with_and_without_sign() {
    for (a, b, signed, unsigned) in [(1, 2, 1, 1), (2, 1, 0, 0), (u32::MAX, 1, 1, 0), (1, u32::MAX, 0, 1), (5, 5, 0, 0)]
    {
        let inputs = [(3, a), (4, b)];
        assert_eq!(result(CoreConfig::vision_q7(), &["salt a2, a3, a4"], &inputs, 2), signed);
        assert_eq!(result(CoreConfig::vision_q7(), &["saltu a2, a3, a4"], &inputs, 2), unsigned);
    }
}

#[test]
fn external_registers_are_the_hosts() {
    let config = CoreConfig { reset_ps: 0x40020, ..CoreConfig::linux_user() };
    let mut engine = engine(config, &["rer a2, a3", "wer a4, a5", "syscall"]);
    engine.set_external(0x10, 0xdead_beef);
    engine.set_ar(3, 0x10);
    engine.set_ar(4, 7);
    engine.set_ar(5, 0x20);
    assert_eq!(engine.run(10), Stop::Syscall);
    assert_eq!((engine.ar(2), engine.external(0x20)), (0xdead_beef, 7));
}

/// The TLB rows and the cache test rows, each with a2 and a3.
fn unmodelled_lines() -> Vec<String> {
    let cache_test = ["lict", "sict", "licw", "sicw", "ldct", "sdct"];
    let rows = ROWS.iter().filter(|row| row.isa() == Isa::Mmu || cache_test.contains(&row.mnemonic()));
    rows.map(|row| match row.operands().len() {
        1 => format!("{} a3", row.mnemonic()),
        _ => format!("{} a2, a3", row.mnemonic()),
    })
    .collect()
}

#[test]
fn tlb_and_cache_test_instructions_need_privilege_and_change_nothing() {
    let lines = unmodelled_lines();
    assert_eq!(lines.len(), 16);
    for line in &lines {
        let config = CoreConfig { reset_ps: 0x40020, ..CoreConfig::linux_user() };
        let mut privileged = engine(config, &[line, "syscall"]);
        privileged.set_ar(2, 5);
        assert_eq!(privileged.run(10), Stop::Syscall);
        assert_eq!(privileged.ar(2), 5, "{line}");
        let mut user = engine(CoreConfig::linux_user(), &[line]);
        let Stop::Fault(fault) = user.run(1) else { panic!("{line} ran") };
        assert_eq!(fault.cause.name(), "privileged", "{line}");
    }
}

#[test]
fn reciprocal_seeds_are_the_rounded_values() {
    let lines = ["wfr f1, a3", "recip0.s f2, f1", "rfr a2, f2", "rsqrt0.s f3, f1", "rfr a4, f3"];
    let four = 4f32.to_bits();
    assert_eq!(result(CoreConfig::linux_user(), &lines, &[(3, four)], 2), 0.25f32.to_bits());
    assert_eq!(result(CoreConfig::linux_user(), &lines, &[(3, four)], 4), 0.5f32.to_bits());
    assert_eq!(result(CoreConfig::linux_user(), &lines, &[(3, 0)], 2), f32::INFINITY.to_bits());
}

#[test]
fn waiti_waits_for_the_timer_or_for_the_host() {
    let config = CoreConfig { reset_ps: 0x40021, ..CoreConfig::linux_user() };
    let mut waiting = engine(config, &["waiti 0", "syscall"]);
    assert_eq!(waiting.run(10), Stop::Waiting);
    assert_eq!((waiting.pc(), waiting.special(special::PS) & 15), (CODE + 3, 0));
    assert_eq!(waiting.run(10), Stop::Syscall);
}

#[test]
fn rfde_returns_by_depc() {
    let config = CoreConfig { reset_ps: 0x40020, ..CoreConfig::linux_user() };
    let mut engine = engine(config, &["rfde", "nop", "syscall"]);
    engine.set_special(special::DEPC, CODE + 6);
    assert_eq!(engine.run(10), Stop::Syscall);
    assert_eq!(engine.instructions(), 2);
}

#[test]
fn simcall_stops_for_the_host_or_does_nothing() {
    let lines = ["simcall", "syscall"];
    let mut quiet = engine(CoreConfig::linux_user(), &lines);
    assert_eq!(quiet.run(10), Stop::Syscall);
    let mut loud = engine(CoreConfig { simcall: true, ..CoreConfig::linux_user() }, &lines);
    assert_eq!(loud.run(10), Stop::Simcall);
    assert_eq!(loud.pc(), CODE + 3);
}

#[test]
fn breaks_stop_at_the_instruction_and_name_their_operands() {
    for (line, operands) in [("break 3, 9", (3, 9)), ("break.n 7", (7, 0))] {
        let mut engine = engine(CoreConfig::linux_user(), &[line]);
        assert_eq!(engine.run(10), Stop::Break { operands });
        assert_eq!(engine.pc(), CODE);
    }
}

#[test]
fn code_written_by_the_program_is_seen_after_isync() {
    // The addend of `addi a2, a2, 1` is patched to 2 between two executions.
    let lines =
        ["movi a5, 0", "addi a2, a2, 1", "s8i a4, a3, 5", "isync", "addi a5, a5, 1", "bnei a5, 2, 0x1003", "syscall"];
    let mut engine = engine(CoreConfig::linux_user(), &lines);
    engine.set_ar(2, 0);
    engine.set_ar(3, CODE);
    engine.set_ar(4, 2);
    assert_eq!(engine.run(100), Stop::Syscall);
    assert_eq!(engine.ar(2), 3);
}

#[test]
fn a_loop_end_written_by_wsr_is_honoured() {
    let lines = ["wsr.lbeg a3", "wsr.lend a4", "wsr.lcount a5", "isync", "addi a2, a2, 1", "nop", "syscall"];
    let mut engine = engine(CoreConfig::linux_user(), &lines);
    engine.set_ar(2, 0);
    engine.set_ar(3, CODE + 12);
    engine.set_ar(4, CODE + 18);
    engine.set_ar(5, 9);
    assert_eq!(engine.run(100), Stop::Syscall);
    assert_eq!(engine.ar(2), 10);
}

#[test]
fn loops_are_left_alone_while_an_exception_is_handled() {
    let config = CoreConfig { reset_ps: 0x40030, ..CoreConfig::linux_user() };
    let mut engine = engine(config, &["loop a3, 0x1006", "addi a2, a2, 1", "syscall"]);
    engine.set_ar(2, 0);
    engine.set_ar(3, 5);
    assert_eq!(engine.run(100), Stop::Syscall);
    assert_eq!((engine.ar(2), engine.special(special::LCOUNT)), (1, 4));
}

#[test]
fn the_budget_is_exact_and_a_run_can_be_continued() {
    let lines = ["addi a2, a2, 1", "addi a2, a2, 1", "addi a2, a2, 1", "j 0x1000"];
    let mut engine = engine(CoreConfig::linux_user(), &lines);
    engine.set_ar(2, 0);
    for expected in 1..=40u32 {
        assert_eq!(engine.run(1), Stop::Fuel);
        assert_eq!(engine.ar(2), expected - expected / 4, "after {expected} instructions");
    }
    assert_eq!(engine.run(7), Stop::Fuel);
    assert_eq!(engine.instructions(), 47);
}

#[test]
fn a_breakpoint_stops_before_its_instruction_each_time() {
    let mut engine = engine(CoreConfig::linux_user(), &["addi a2, a2, 1", "nop", "j 0x1000"]);
    engine.set_ar(2, 0);
    engine.add_breakpoint(CODE + 3);
    for turn in 1..5 {
        assert_eq!(engine.run(1000), Stop::Breakpoint);
        assert_eq!((engine.pc(), engine.ar(2)), (CODE + 3, turn));
    }
    engine.remove_breakpoint(CODE + 3);
    assert_eq!(engine.run(30), Stop::Fuel);
}

#[test]
fn literals_can_be_relative_to_litbase() {
    // l32r with the largest offset: four bytes below LITBASE.
    let mut engine = engine(CoreConfig::linux_user(), &["l32r a2, 0xffc", "syscall"]);
    engine.set_special(special::LITBASE, 0x9000 | 1);
    engine.memory_mut().store32(0x8ffc, 0x1234_5678).unwrap();
    assert_eq!(engine.run(10), Stop::Syscall);
    assert_eq!(engine.ar(2), 0x1234_5678);
}

#[test]
fn misaligned_accesses_follow_the_policy() {
    use outboard_xtensa::engine::Alignment;
    let run = |alignment| {
        let config = CoreConfig { alignment, ..CoreConfig::linux_user() };
        let mut engine = engine(config, &["l32i a2, a3, 0", "syscall"]);
        engine.memory_mut().store32(DATA, 0x4433_2211).unwrap();
        engine.memory_mut().store32(DATA + 4, 0x8877_6655).unwrap();
        engine.set_ar(3, DATA + 1);
        (engine.run(10), engine.ar(2))
    };
    assert_eq!(run(Alignment::Ignore), (Stop::Syscall, 0x4433_2211));
    assert_eq!(run(Alignment::Allow), (Stop::Syscall, 0x5544_3322));
    assert!(matches!(run(Alignment::Exception).0, Stop::Fault(fault) if fault.cause.number() == 9));
}
