//! A bare program with real vectors, here and on QEMU's simulated machine: window overflow and
//! underflow handlers under a mixed deep recursion, and an exception handler that records what it
//! finds.

use outboard_xtensa::encode_text;
use outboard_xtensa::isa::IsaSet;

use super::program::{CODE, DATA, RESET, elf, reset_vector};

const VECTORS: u32 = 0x2000;
/// Word 0 and 2: saved registers; word 1: where the next record goes.
const CELL: u32 = DATA + 0x100;
const RECORDS: u32 = DATA + 0x200;
const STACK: u32 = DATA + 0x1_0000;
const OUTPUT: u32 = 0x400;

fn put(bytes: &mut Vec<u8>, base: u32, lines: &[&str]) {
    for line in lines {
        let pc = base + bytes.len() as u32;
        let code = encode_text(line, pc, IsaSet::lx());
        bytes.extend(code.unwrap_or_else(|error| panic!("{line}: {error}")).bytes());
    }
}

/// The window handlers of the ABI at their offsets, and the exception handler.
fn vectors() -> Vec<u8> {
    let mut bytes = Vec::new();
    let quad = |from: u32, base: u32, operation: &str, lowest: i32, count: u32| -> Vec<String> {
        (0..count)
            .map(|index| format!("{operation} a{}, a{base}, {}", from + index, lowest + 4 * index as i32))
            .collect()
    };
    let mut at = |offset: usize, lines: &[String]| {
        assert!(bytes.len() <= offset);
        bytes.resize(offset, 0);
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        put(&mut bytes, VECTORS, &lines);
    };
    for (index, size) in (1..=3u32).enumerate() {
        let callee = 4 * size + 1;
        let extra = 4 * (size - 1);
        let area = -16 * size as i32;
        let mut overflow = vec![format!("s32e a0, a{callee}, -16")];
        let mut underflow = quad(0, callee, "l32e", -16, 3);
        if size > 1 {
            overflow.push("l32e a0, a1, -12".to_owned());
            let last = 3 + extra;
            underflow.push(format!("l32e a{last}, a1, -12"));
            underflow.push(format!("l32e a3, a{callee}, -4"));
            underflow.extend(quad(4, last, "l32e", area, extra));
        } else {
            underflow.push(format!("l32e a3, a{callee}, -4"));
        }
        overflow.extend(quad(1, callee, "s32e", -12, 3));
        overflow.extend(quad(4, 0, "s32e", area, extra));
        overflow.push("rfwo".to_owned());
        underflow.push("rfwu".to_owned());
        at(0x80 * index, &overflow);
        at(0x80 * index + 0x40, &underflow);
    }
    at(0x340, &["j 0x2404".to_owned()]);
    bytes.resize(0x400, 0);
    bytes.extend(CELL.to_le_bytes());
    put(
        &mut bytes,
        VECTORS,
        &[
            "wsr.excsave1 a3",
            "l32r a3, 0x2400",
            "s32i a2, a3, 0",
            "s32i a4, a3, 8",
            "l32i a2, a3, 4",
            "rsr.exccause a4",
            "s32i a4, a2, 0",
            "rsr.ps a4",
            "s32i a4, a2, 4",
            "rsr.epc1 a4",
            "s32i a4, a2, 8",
            "addi a4, a4, 3",
            "wsr.epc1 a4",
            "addi a2, a2, 12",
            "s32i a2, a3, 4",
            "l32i a2, a3, 0",
            "l32i a4, a3, 8",
            "rsr.excsave1 a3",
            "rfe",
        ],
    );
    bytes
}

/// The program: sets the machine up, recurses with windows of all sizes, provokes exceptions, and
/// writes its records.
pub fn program() -> Vec<u8> {
    let mut bytes = Vec::new();
    for literal in [0x40020, STACK - 64, RECORDS, OUTPUT, DATA + 0x1000] {
        bytes.extend(u32::to_le_bytes(literal));
    }
    let literal = |index: u32| CODE + 4 * index;
    let entry = CODE + bytes.len() as u32;
    let setup = [
        "movi a0, 0".to_owned(),
        "movi a2, 0".to_owned(),
        "wsr.windowbase a2".to_owned(),
        "rsync".to_owned(),
        "movi a2, 1".to_owned(),
        "wsr.windowstart a2".to_owned(),
        "rsync".to_owned(),
        format!("l32r a2, {}", literal(0)),
        "wsr.ps a2".to_owned(),
        "rsync".to_owned(),
        format!("l32r a1, {}", literal(1)),
        "movi a6, 60".to_owned(),
    ];
    let setup: Vec<&str> = setup.iter().map(String::as_str).collect();
    put(&mut bytes, CODE, &setup);
    // call4 to the recursion, whose address is only known behind the main part.
    let call = bytes.len();
    bytes.extend([0; 3]);
    let main = [
        // The result of the recursion is the first record.
        format!("l32r a3, {}", literal(2)),
        "s32i a6, a3, 0".to_owned(),
        // Division by zero, a misaligned load, a system call, a misaligned store, an illegal
        // instruction.
        "movi a4, 0".to_owned(),
        "movi a5, 77".to_owned(),
        "quos a6, a5, a4".to_owned(),
        "remu a6, a5, a4".to_owned(),
        format!("l32r a7, {}", literal(4)),
        "addi a7, a7, 2".to_owned(),
        "l32i a6, a7, 0".to_owned(),
        "syscall".to_owned(),
        "s16i a6, a7, 2".to_owned(),
        "addi a7, a7, 1".to_owned(),
        "s16i a6, a7, 0".to_owned(),
        "ill".to_owned(),
        "movi a2, 0".to_owned(),
        "wsr.cpenable a2".to_owned(),
        "rsync".to_owned(),
        "add.s f0, f1, f2".to_owned(),
        "movi a2, 4".to_owned(),
        "movi a3, 1".to_owned(),
        format!("l32r a4, {}", literal(2)),
        format!("l32r a5, {}", literal(3)),
        "simcall".to_owned(),
        "movi a2, 1".to_owned(),
        "movi a3, 0".to_owned(),
        "simcall".to_owned(),
    ];
    let main: Vec<&str> = main.iter().map(String::as_str).collect();
    put(&mut bytes, CODE, &main);
    let recursion = recursion(&mut bytes);
    let mut patched = Vec::new();
    put(&mut patched, CODE + call as u32, &[&format!("call4 {recursion}")]);
    bytes[call..call + 3].copy_from_slice(&patched);
    let mut data = vec![0; 0x1_0000];
    data[0x104..0x108].copy_from_slice(&(RECORDS + 4).to_le_bytes());
    elf(entry, &[(CODE, bytes, 7), (DATA, data, 6), (VECTORS, vectors(), 7), (RESET, reset_vector(entry), 7)])
}

/// f(n): n % 3 selects a call4, call8 or call12 of f(n - 1); every register of the frame survives
/// it. Returns a mix of n and the inner result.
fn recursion(bytes: &mut Vec<u8>) -> u32 {
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    let start = CODE + bytes.len() as u32;
    let mut emit = |line: &str| {
        put(bytes, CODE, &[line]);
        CODE + bytes.len() as u32
    };
    emit("entry a1, 64");
    let begin = emit("slli a3, a2, 5");
    // Behind it: beqz, movi, remu, addi, three arms of 15 bytes, addx4, xor.
    let end = begin + 4 * 3 + 3 * 15 + 2 * 3;
    emit(&format!("beqz a2, {end}"));
    emit("movi a4, 3");
    emit("remu a4, a2, a4");
    let first = emit("addi a5, a2, -1");
    // Three arms of 15 bytes and a jump each.
    emit(&format!("bnei a4, 1, {}", first + 15));
    emit("mov a10, a5");
    emit(&format!("call8 {start}"));
    emit("mov a5, a10");
    emit(&format!("j {}", first + 45));
    emit(&format!("bnei a4, 2, {}", first + 30));
    emit("mov a14, a5");
    emit(&format!("call12 {start}"));
    emit("mov a5, a14");
    emit(&format!("j {}", first + 45));
    emit("mov a6, a5");
    emit(&format!("call4 {start}"));
    emit("mov a5, a6");
    emit("nop");
    emit("nop");
    emit("addx4 a3, a5, a3");
    emit("xor a3, a3, a2");
    let behind = emit("addi a2, a3, 1");
    assert_eq!(behind - 3, end, "the branch to the end must meet it");
    emit("retw");
    start
}
