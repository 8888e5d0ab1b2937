//! The shapes of the privileged rows: each sets up the state it returns from or rotates, and
//! stores what it finds afterwards in the record's memory.

use outboard_xtensa::isa::{Op, Row};

use super::program::{Code, SIDE, at};

/// PS of the test programs: windows on, user mode, ring 0.
const STATUS: u32 = 0x40020;
/// WINDOWSTART of the test programs: `_start` at quad 0, `main` at quad 2.
const WINDOWS: u32 = 0b101;

pub fn emit(code: &mut Code, row: &'static Row, values: &[i64], p: u32) {
    match row.op() {
        Op::Rotw => rotate(code, row, values, p),
        _ => exception_return(code, row, values, p),
    }
}

fn set(code: &mut Code, register: u32, name: &str, value: u32) {
    code.load(register, value);
    code.put(&format!("wsr.{name} a{register}"));
    code.put("rsync");
}

/// Rotates without overflow checks, stores what is visible, rotates back.
fn rotate(code: &mut Code, row: &'static Row, values: &[i64], p: u32) {
    let spare = if p == 2 { 3 } else { 2 };
    set(code, spare, "ps", 0x20);
    code.put_row(row, values);
    code.put("rsync");
    code.load(15, SIDE);
    for register in 0..15 {
        code.put(&format!("s32i a{register}, a15, {}", 4 * register));
    }
    let amount = values[0] as i32;
    // A rotation by all eight quads is none.
    if amount != -8 {
        code.put(&format!("rotw {}", -amount));
        code.put("rsync");
    }
    copy_side(code, p);
    set(code, spare, "ps", STATUS);
}

fn copy_side(code: &mut Code, p: u32) {
    let (q, w) = ((p + 1) % 16, (p + 2) % 16);
    code.load(q, SIDE);
    for word in 0..15 {
        code.put(&format!("l32i a{w}, a{q}, {}", 4 * word));
        code.put(&format!("s32i a{w}, a{p}, {}", at::MEMORY + 4 * word));
    }
}

/// Prepares the registers it returns by, returns to a label that marks the record, and stores
/// PS, WINDOWBASE and WINDOWSTART.
fn exception_return(code: &mut Code, row: &'static Row, values: &[i64], p: u32) {
    let (q, w) = ((p + 1) % 16, (p + 2) % 16);
    // The label's distance does not depend on its literal.
    let literal = code.literal(0x9000_0000 | code.pc());
    code.put(&format!("l32r a{q}, {literal}"));
    match row.op() {
        Op::Rfi => {
            code.put(&format!("wsr.epc{} a{q}", values[0]));
            // Random interrupt level and call increment, windows on.
            code.put(&format!("l32i a{w}, a{p}, {}", at::MEMORY));
            code.put(&format!("extui a{w}, a{w}, 0, 4"));
            code.load(q, STATUS | 0x20000);
            code.put(&format!("or a{w}, a{w}, a{q}"));
            code.put(&format!("wsr.eps{} a{w}", values[0]));
        }
        Op::Rfe => {
            code.put(&format!("wsr.epc1 a{q}"));
            set(code, w, "ps", STATUS | 0x10 | 3);
        }
        _ => {
            code.put(&format!("wsr.epc1 a{q}"));
            // Return to quad 2, from one to three quads further, with windows unchecked.
            set(code, w, "ps", 0x230);
            code.put(&format!("l32i a{w}, a{p}, {}", at::MEMORY));
            code.put(&format!("wsr.windowstart a{w}"));
            code.put("rsync");
            code.put(&format!("rotw {}", 1 + code.pc() / 4 % 3));
            code.put("rsync");
        }
    }
    code.put_row(row, values);
    code.put("nop");
    code.relabel(literal, code.pc());
    code.put(&format!("s32i a{p}, a{p}, {}", at::MARK));
    for (index, name) in (0..).zip(["ps", "windowbase", "windowstart"]) {
        code.put(&format!("rsr.{name} a{q}"));
        code.put(&format!("s32i a{q}, a{p}, {}", at::MEMORY + 4 * index));
    }
    set(code, w, "windowstart", WINDOWS);
    set(code, w, "ps", STATUS);
}
