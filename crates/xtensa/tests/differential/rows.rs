//! For each row of the instruction table: who judges it, and how its test program looks.

use outboard_xtensa::isa::registers::{special_number, user_number};
use outboard_xtensa::isa::{Flow, Isa, Kind, Op, Row};

use super::privileged;
use super::program::{Code, Parts, Platform, Program, RECORD, Record, SIDE, STACK_TOP, at, test_loop};
use super::random::Random;

/// Who says what a row does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Oracle {
    /// `qemu-xtensa`.
    User,
    /// `qemu-system-xtensa -M sim`.
    System,
    /// Worked vectors (`tests/worked.rs`), because no QEMU core can judge it.
    Worked(&'static str),
}

/// The oracle of a row.
pub fn oracle(row: &Row) -> Oracle {
    let worked = Oracle::Worked;
    match row.op() {
        Op::Const16 => worked("no public core has CONST16"),
        Op::Muluh | Op::Mulsh => worked("no little-endian QEMU core has MUL32HIGH"),
        Op::Salt | Op::Saltu => worked("no QEMU 7.2 core has SALT"),
        Op::Ill | Op::IllN => worked("ends the program; the fault is compared in tests/faults.rs"),
        Op::Break | Op::BreakN => worked("QEMU raises it only with a debugger's levels set up"),
        Op::Simcall => worked("carries the output of every system program"),
        Op::Rfdd => worked("on-chip debugger only: an illegal instruction here"),
        Op::Waiti => worked("waits for an interrupt that a batch program does not get"),
        Op::Rfde => worked("returns from the double exception vector"),
        Op::Recip0S | Op::Rsqrt0S => worked("QEMU 7.2 does not execute it"),
        Op::Lict | Op::Sict | Op::Licw | Op::Sicw | Op::Ldct | Op::Sdct => {
            worked("cache test access is not modelled: only the privilege is checked")
        }
        Op::Rer | Op::Wer => worked("the external registers are the host's"),
        _ if row.isa() == Isa::Mmu => worked("TLB contents are not modelled: only the privilege is checked"),
        Op::Rotw | Op::L32e | Op::S32e | Op::Rfwo | Op::Rfwu | Op::Rsil | Op::Rfe | Op::Rfi => Oracle::System,
        _ if row.isa() == Isa::Cache && !unprivileged_cache(row.op()) => Oracle::System,
        _ => Oracle::User,
    }
}

fn unprivileged_cache(op: Op) -> bool {
    matches!(op, Op::Dpfr | Op::Dpfw | Op::Dpfro | Op::Dpfwo | Op::Dhwb | Op::Dhwbi | Op::Ipf)
}

/// States that share one encoding.
const STATES: usize = 250;

/// The program that tests a row with (at least) `states` states.
pub fn program(row: &'static Row, platform: Platform, states: usize) -> Vec<u8> {
    let mut random = Random::new(row.index() as u64 + 1);
    let mut program = Program::new(platform);
    let per_encoding = STATES.min(states / 4);
    let parts = Parts {
        float: row.isa() == Isa::Fp || matches!(row.op(), Op::Rur | Op::Wur),
        mac16: row.isa() == Isa::Mac16 || matches!(row.op(), Op::Rsr | Op::Wsr | Op::Xsr),
        loops: row.isa() == Isa::Loop || matches!(row.op(), Op::Rsr | Op::Wsr | Op::Xsr),
        split: row.isa() == Isa::Boolean,
    };
    while program.records.len() < states {
        let mut case = Case::random(row, &mut random);
        let mut records: Vec<Record> = (0..per_encoding).map(|_| state(&mut random)).collect();
        let first = program.next_record();
        program.code.load(case.pointer, first);
        let pointer = case.pointer;
        test_loop(&mut program.code, pointer, parts, |code| case.emit(code));
        for (index, record) in records.iter_mut().enumerate() {
            record.set(at::MORE, u32::from(index + 1 < per_encoding));
            case.adjust(record, first + RECORD * index as u32, &mut random);
        }
        program.records.append(&mut records);
    }
    program.finish()
}

fn state(random: &mut Random) -> Record {
    let mut record = Record::new();
    for register in 0..16 {
        record.set_ar(register, random.integer());
        record.set(at::FR + 4 * register, random.float());
    }
    record.set(at::SAR, random.below(33));
    record.set(at::BR, random.word() & 0xffff);
    record.set(at::FCR, random.below(4));
    record.set(at::FSR, random.word() & 0xf80);
    record.set(at::ACCLO, random.word());
    record.set(at::ACCHI, random.word() as i8 as u32);
    for register in 0..4 {
        record.set(at::M0 + 4 * register, random.integer());
    }
    record.set(at::LBEG, 0x3000_0000 | random.word() & 0xffff);
    record.set(at::LEND, 0x3100_0000 | random.word() & 0xffff);
    record.set(at::LCOUNT, 0);
    for word in 0..16 {
        record.set(at::MEMORY + 4 * word, random.word());
    }
    let memory_word = random.below(16);
    record.set(at::SCOMPARE1, random.integer());
    if random.below(2) == 0 {
        record.set(at::SCOMPARE1, 0x5555_aaaa);
        record.set(at::MEMORY + 4 * memory_word, 0x5555_aaaa);
    }
    record
}

/// One encoding under test.
struct Case {
    row: &'static Row,
    values: Vec<i64>,
    pointer: u32,
    /// Where a register jump goes, once the code is emitted.
    label: u32,
    backward: bool,
}

impl Case {
    fn random(row: &'static Row, random: &mut Random) -> Self {
        loop {
            let mask = if row.length() == 2 { 0xffff } else { 0xff_ffff };
            let word = row.bits() | random.word() & mask & !row.mask();
            let mut values: Vec<i64> = row.operands().iter().map(|operand| i64::from(operand.value(word, 0))).collect();
            let mut taken: Vec<u32> = row
                .operands()
                .iter()
                .filter(|operand| operand.kind() == Kind::Ar)
                .map(|operand| operand.raw(word))
                .collect();
            match row.flow() {
                Flow::Call(_) | Flow::CallRegister(_) => taken.extend([0, 4, 8, 12]),
                // The callee's registers are the caller's from the fifth on.
                Flow::WindowReturn | Flow::Entry => taken.extend(4..16),
                Flow::Return => taken.push(0),
                _ => {}
            }
            if row.op() == Op::Syscall {
                taken.push(2);
            }
            let free: Vec<u32> = (2..16).filter(|register| !taken.contains(register)).collect();
            let pointer = free[random.below(free.len() as u32) as usize];
            choose_register_operand(row, &mut values, random);
            let case = Self { row, values, pointer, label: 0, backward: random.below(2) == 0 };
            if case.is_usable() {
                return case;
            }
        }
    }

    /// Leaves out encodings whose effect is undefined or that the harness cannot hold.
    fn is_usable(&self) -> bool {
        match self.row.op() {
            // A shift by 32 is undefined.
            Op::Slli => self.values[2] != 32,
            // Base plus index must be steerable.
            Op::Lsx | Op::Ssx | Op::Lsxp | Op::Ssxp => self.values[1] != self.values[2],
            // With a0 it would overwrite the return address.
            Op::Entry => (1..4).contains(&self.values[0]) && self.values[1] <= 512,
            Op::Loop | Op::Loopnez | Op::Loopgtz => self.values[0] != 15 && self.pointer != 15,
            // The rotated window's a15 must not be the pointer.
            Op::Rotw => self.pointer % 4 != 3,
            // The levels that the core has.
            Op::Rfi => (2..=6).contains(&self.values[0]),
            _ => true,
        }
    }

    fn emit(&mut self, code: &mut Code) {
        let row = self.row;
        let target = row.operands().iter().position(|operand| matches!(operand.kind(), Kind::Target(_)));
        match (row.flow(), row.op()) {
            (_, Op::L32r) => {
                let value = 0x1357_0000 | code.pc() & 0x3ff;
                self.values[1] = code.literal(value).into();
                code.put_row(row, &self.values);
            }
            (_, Op::Rotw | Op::Rfe | Op::Rfi | Op::Rfwo | Op::Rfwu) => {
                privileged::emit(code, self.row, &self.values, self.pointer);
            }
            (Flow::Loop, _) => self.emit_loop(code),
            (Flow::Entry | Flow::WindowReturn, _) => self.emit_window(code),
            (Flow::Next | Flow::Serialize | Flow::Trap, _) => code.put_row(row, &self.values),
            _ => self.emit_jump(code, target),
        }
    }

    /// The jump skips over a jump to the end and marks the record where it lands, before or after
    /// the instruction.
    fn emit_jump(&mut self, code: &mut Code, target: Option<usize>) {
        let p = self.pointer;
        let forward_only = self.row.length() == 2 && target.is_some();
        let mark = format!("s32i a{p}, a{p}, {}", at::MARK);
        let skip = code.pc();
        if self.backward && !forward_only {
            code.put("nop");
            code.align();
            self.label = code.pc();
            code.put(&mark);
            let after = code.pc();
            code.put("nop");
            code.patch(skip, &format!("j {}", code.pc()));
            self.place(code, target);
            code.patch(after, &format!("j {}", code.pc()));
        } else {
            let from = code.pc();
            let length = u32::from(self.row.length());
            // A call's target is aligned.
            self.label = (from + length + 3).next_multiple_of(4);
            self.place(code, target);
            let over = code.pc();
            code.put("nop");
            code.align();
            while code.pc() < self.label {
                code.put_bytes(&[0]);
            }
            code.put(&mark);
            code.patch(over, &format!("j {}", code.pc()));
        }
    }

    fn place(&mut self, code: &mut Code, target: Option<usize>) {
        if let Some(index) = target {
            self.values[index] = self.label.into();
        }
        code.put_row(self.row, &self.values);
    }

    /// A body that counts its iterations in `a15`.
    fn emit_loop(&mut self, code: &mut Code) {
        let body = code.pc() + 3;
        self.values[1] = (body + 6).into();
        code.put_row(self.row, &self.values);
        code.put("addi a15, a15, 1");
        code.put("nop");
    }

    /// A call into frames deep enough that windows overflow and come back. The first callee stores
    /// what it sees.
    fn emit_window(&mut self, code: &mut Code) {
        let p = self.pointer;
        let increment = 1 + (code.pc() / 4) % 3;
        let (register, bytes) = match self.row.op() {
            Op::Entry => (self.values[0], self.values[1].max(48)),
            _ => (1, 64),
        };
        let over = code.pc();
        code.put("nop");
        code.align();
        // The innermost frames.
        let leaf = code.pc();
        code.put("entry a1, 64");
        code.put("addi a2, a1, 4");
        code.put("retw");
        code.align();
        let middle = code.pc();
        code.put("entry a1, 64");
        code.put(&format!("call12 {leaf}"));
        code.put("mov a2, a14");
        code.put("retw.n");
        code.align();
        let first = code.pc();
        code.put(&format!("entry a{register}, {}", bytes / 8 * 8));
        code.load(15, SIDE);
        for stored in 0..15 {
            code.put(&format!("s32i a{stored}, a15, {}", 4 * stored));
        }
        code.put(&format!("call12 {middle}"));
        code.put("mov a3, a14");
        match self.row.flow() {
            Flow::WindowReturn => code.put_row(self.row, &[]),
            _ => code.put("retw"),
        }
        code.patch(over, &format!("j {}", code.pc()));
        code.put(&format!("call{} {first}", 4 * increment));
        // Move what the callee saw into the record's memory.
        let (q, w) = ((p + 1) % 16, (p + 2) % 16);
        code.load(q, SIDE);
        for word in 0..15 {
            code.put(&format!("l32i a{w}, a{q}, {}", 4 * word));
            code.put(&format!("s32i a{w}, a{p}, {}", at::MEMORY + 4 * word));
        }
    }

    /// Makes a random state one that the instruction can work on.
    fn adjust(&self, record: &mut Record, address: u32, random: &mut Random) {
        let row = self.row;
        let memory = address + at::MEMORY;
        let small = if random.below(2) == 0 { random.below(20) + 1 } else { random.below(3) };
        match row.op() {
            Op::Syscall => record.set_ar(2, 5000 + random.below(1000)),
            Op::Loop => record.set_ar(self.values[0] as u32, small.max(1)),
            Op::Loopnez => record.set_ar(self.values[0] as u32, small),
            Op::Loopgtz => {
                let negative = random.word() | 0x8000_0000;
                let count = if random.below(4) == 0 { negative } else { small };
                record.set_ar(self.values[0] as u32, count);
            }
            Op::Lsx | Op::Ssx => {
                let index = random.integer();
                let aligned = memory + 4 * random.below(16);
                record.set_ar(self.values[1] as u32, aligned.wrapping_sub(index));
                record.set_ar(self.values[2] as u32, index);
            }
            Op::Lsxp | Op::Ssxp | Op::Lsip | Op::Ssip => {
                record.set_ar(self.values[1] as u32, memory + 4 * random.below(16));
            }
            Op::Wsr | Op::Xsr => self.adjust_special(record, random),
            Op::Quou | Op::Quos | Op::Remu | Op::Rems => {
                // Division by zero ends the program: see tests/faults.rs.
                record.set_ar(self.values[2] as u32, (random.integer() | small).max(1));
            }
            // QEMU loses flags that were set before when the operand is negative.
            Op::UtruncS => record.set(at::FSR, 0),
            _ => self.adjust_by_flow(record, memory, random),
        }
    }

    fn adjust_special(&self, record: &mut Record, random: &mut Random) {
        let value = match self.values[1] as u8 {
            // The loop must not begin.
            2 => 0,
            0 | 1 => 0x3000_0000 | random.word() & 0xffff,
            _ => random.word(),
        };
        record.set_ar(self.values[0] as u32, value);
    }

    fn adjust_by_flow(&self, record: &mut Record, memory: u32, random: &mut Random) {
        let row = self.row;
        match row.flow() {
            Flow::JumpRegister | Flow::CallRegister(_) => {
                record.set_ar(self.values[0] as u32, self.label);
            }
            Flow::Return => record.set_ar(0, self.label),
            Flow::Entry | Flow::WindowReturn => {
                for register in [1, 5, 9, 13] {
                    record.set_ar(register, STACK_TOP - 0x1000 * (register / 4 + 1));
                }
                // A stack pointer that another register provides.
                for register in [0, 2, 3, 4, 6, 7, 8, 10, 11, 12, 14, 15] {
                    record.set_ar(register, random.word());
                }
            }
            _ => {
                if let Some((base, offset, size)) = memory_access(row, &self.values) {
                    let target = memory + size * random.below(64 / size);
                    record.set_ar(base, target.wrapping_sub(offset));
                }
            }
        }
    }
}

/// Base register, constant offset and size of the memory access of a row.
fn memory_access(row: &Row, values: &[i64]) -> Option<(u32, u32, u32)> {
    let base = || values[1] as u32;
    let offset = || values[2] as u32;
    let name = row.mnemonic();
    let size = match row.op() {
        Op::L8ui | Op::S8i => 1,
        Op::L16ui | Op::L16si | Op::S16i => 2,
        Op::L32i | Op::S32i | Op::L32iN | Op::S32iN | Op::S32c1i | Op::L32ai | Op::S32ri => 4,
        Op::Lsi | Op::Ssi | Op::L32e | Op::S32e => 4,
        Op::Ldinc | Op::Mac16 if name.ends_with("ldinc") => return Some((base(), 4, 4)),
        Op::Lddec | Op::Mac16 if name.ends_with("lddec") => {
            return Some((base(), 4u32.wrapping_neg(), 4));
        }
        _ if row.isa() == Isa::Cache => {
            return Some((values[0] as u32, *values.get(1)? as u32, 4));
        }
        _ => return None,
    };
    Some((base(), offset(), size))
}

/// Limits RSR and its relatives to registers that user programs may touch.
fn choose_register_operand(row: &Row, values: &mut [i64], random: &mut Random) {
    const SPECIAL: [&str; 12] =
        ["sar", "br", "scompare1", "acclo", "acchi", "m0", "m1", "m2", "m3", "lbeg", "lend", "lcount"];
    const USER: [&str; 3] = ["threadptr", "fcr", "fsr"];
    let number = match row.op() {
        Op::Rsr | Op::Wsr | Op::Xsr => special_number(SPECIAL[random.below(12) as usize]),
        Op::Rur | Op::Wur => user_number(USER[random.below(3) as usize]),
        _ => return,
    };
    values[1] = number.unwrap().into();
}
