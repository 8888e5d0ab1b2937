//! Test programs: records of register and memory states, and code that loads each, executes the
//! instruction under test and stores what became of it. The finished records are the output.

use outboard_xtensa::isa::{IsaSet, Row};
use outboard_xtensa::{encode, encode_text};

pub const CODE: u32 = 0x0100_0000;
pub const DATA: u32 = 0x0200_0000;
pub const STACK_TOP: u32 = DATA + 0x1_0000;
pub const SIDE: u32 = DATA + 0x1_0000;
pub const RECORDS: u32 = DATA + 0x1_1000;
pub const RECORD: u32 = 256;

/// Where the simulated machine starts.
pub const RESET: u32 = 0xfe00_0000;

/// Word offsets in a record.
pub mod at {
    pub const MORE: u32 = 0;
    pub const AR: u32 = 4;
    pub const FR: u32 = 68;
    pub const SAR: u32 = 132;
    pub const BR: u32 = 136;
    pub const FCR: u32 = 140;
    pub const FSR: u32 = 144;
    pub const ACCLO: u32 = 148;
    pub const ACCHI: u32 = 152;
    pub const M0: u32 = 156;
    pub const SCOMPARE1: u32 = 172;
    pub const MARK: u32 = 176;
    pub const LBEG: u32 = 180;
    pub const LEND: u32 = 184;
    pub const LCOUNT: u32 = 188;
    pub const MEMORY: u32 = 192;
}

/// A register and memory state.
#[derive(Clone)]
pub struct Record([u32; 64]);

impl Record {
    pub fn new() -> Self {
        Self([0; 64])
    }

    pub fn set(&mut self, offset: u32, value: u32) {
        self.0[offset as usize / 4] = value;
    }

    pub fn set_ar(&mut self, register: u32, value: u32) {
        self.set(at::AR + 4 * register, value);
    }
}

/// Where a program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Platform {
    /// `qemu-xtensa`: system calls.
    User,
    /// `qemu-system-xtensa -M sim`: privileged, simulator calls.
    System,
}

/// Code under construction.
pub struct Code {
    bytes: Vec<u8>,
    pool: Vec<u32>,
}

/// Words reserved before the code for literals.
const POOL_WORDS: u32 = 256;

impl Code {
    pub fn new() -> Self {
        Self { bytes: Vec::new(), pool: Vec::new() }
    }

    pub fn pc(&self) -> u32 {
        CODE + 4 * POOL_WORDS + self.bytes.len() as u32
    }

    pub fn put(&mut self, text: &str) {
        let code = encode_text(text, self.pc(), IsaSet::lx());
        self.bytes.extend(code.unwrap_or_else(|error| panic!("{text}: {error}")).bytes());
    }

    pub fn put_row(&mut self, row: &'static Row, values: &[i64]) {
        let instruction = encode(row, values, self.pc());
        let instruction = instruction.unwrap_or_else(|error| panic!("{values:x?}: {error}"));
        self.bytes.extend(instruction.encoded().bytes());
    }

    pub fn put_bytes(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
    }

    /// Skips to a multiple of four; nothing falls through the gap.
    pub fn align(&mut self) {
        while !self.pc().is_multiple_of(4) {
            self.bytes.push(0);
        }
    }

    /// The address of a literal with this value.
    pub fn literal(&mut self, value: u32) -> u32 {
        let index = self.pool.iter().position(|&word| word == value).unwrap_or_else(|| {
            self.pool.push(value);
            assert!(self.pool.len() <= POOL_WORDS as usize, "too many literals");
            self.pool.len() - 1
        });
        CODE + 4 * index as u32
    }

    /// Loads a constant.
    pub fn load(&mut self, register: u32, value: u32) {
        let literal = self.literal(value);
        self.put(&format!("l32r a{register}, {literal}"));
    }

    /// Replaces a three-byte instruction that was emitted at `pc`.
    pub fn patch(&mut self, pc: u32, text: &str) {
        let offset = (pc - CODE - 4 * POOL_WORDS) as usize;
        let code = encode_text(text, pc, IsaSet::lx()).unwrap();
        self.bytes[offset..offset + code.bytes().len()].copy_from_slice(code.bytes());
    }

    /// Gives a literal that was reserved with a placeholder its final value.
    pub fn relabel(&mut self, literal: u32, value: u32) {
        self.pool[((literal - CODE) / 4) as usize] = value;
    }

    fn finish(self) -> Vec<u8> {
        let mut bytes: Vec<u8> = self.pool.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.resize(4 * POOL_WORDS as usize, 0);
        bytes.extend(self.bytes);
        bytes
    }
}

/// Which parts of a record the code loads and stores.
#[derive(Clone, Copy, Default)]
pub struct Parts {
    pub float: bool,
    pub mac16: bool,
    pub loops: bool,
    /// QEMU 7.2 sees a write to one boolean register through another only in a later translation
    /// block: the instruction gets one of its own.
    pub split: bool,
}

/// Emits the code around one encoding: `instruction` emits what is tested, with the record's
/// address in register `pointer`. It is executed for every record up to the one without MORE.
pub fn test_loop(code: &mut Code, pointer: u32, parts: Parts, instruction: impl FnOnce(&mut Code)) {
    let spare = if pointer == 2 { 3 } else { 2 };
    let p = pointer;
    let start = code.pc();
    let specials = special_registers(parts);
    for &(name, offset) in &specials {
        code.put(&format!("l32i a{spare}, a{p}, {offset}"));
        code.put(&format!("{} a{spare}", write_name(name)));
    }
    if parts.float {
        for register in 0..16 {
            code.put(&format!("lsi f{register}, a{p}, {}", at::FR + 4 * register));
        }
    }
    let others = || (0..16).filter(move |&register| register != p);
    for register in others() {
        code.put(&format!("l32i a{register}, a{p}, {}", at::AR + 4 * register));
    }
    let split = |code: &mut Code| {
        if parts.split {
            code.put(&format!("j {}", code.pc() + 3));
        }
    };
    split(code);
    instruction(code);
    split(code);
    for register in others() {
        code.put(&format!("s32i a{register}, a{p}, {}", at::AR + 4 * register));
    }
    for &(name, offset) in &specials {
        code.put(&format!("{} a{spare}", read_name(name)));
        code.put(&format!("s32i a{spare}, a{p}, {offset}"));
    }
    if parts.float {
        for register in 0..16 {
            code.put(&format!("ssi f{register}, a{p}, {}", at::FR + 4 * register));
        }
    }
    code.put(&format!("l32i a{spare}, a{p}, {}", at::MORE));
    code.put(&format!("addmi a{p}, a{p}, {RECORD}"));
    // The way back is longer than a conditional branch reaches.
    code.put(&format!("beqz a{spare}, {}", code.pc() + 6));
    code.put(&format!("j {start}"));
}

fn special_registers(parts: Parts) -> Vec<(&'static str, u32)> {
    let mut list = vec![("sar", at::SAR), ("br", at::BR), ("scompare1", at::SCOMPARE1)];
    if parts.float {
        list.extend([("fcr", at::FCR), ("fsr", at::FSR)]);
    }
    if parts.mac16 {
        list.extend([("acclo", at::ACCLO), ("acchi", at::ACCHI)]);
        list.extend([("m0", at::M0), ("m1", at::M0 + 4), ("m2", at::M0 + 8), ("m3", at::M0 + 12)]);
    }
    if parts.loops {
        list.extend([("lcount", at::LCOUNT), ("lbeg", at::LBEG), ("lend", at::LEND)]);
    }
    list
}

fn write_name(name: &str) -> String {
    if matches!(name, "fcr" | "fsr") { format!("wur.{name}") } else { format!("wsr.{name}") }
}

fn read_name(name: &str) -> String {
    if matches!(name, "fcr" | "fsr") { format!("rur.{name}") } else { format!("rsr.{name}") }
}

/// A whole program around test loops.
pub struct Program {
    pub code: Code,
    pub records: Vec<Record>,
    platform: Platform,
}

impl Program {
    /// Begins: a stack, a windowed frame (so that MOVSP and RETW have a caller), the first record.
    pub fn new(platform: Platform) -> Self {
        let mut code = Code::new();
        if platform == Platform::System {
            // What the reset vector left.
            code.put("movi a0, 0");
            code.put("movi a2, 0");
            code.put("wsr.windowbase a2");
            code.put("rsync");
            code.put("movi a2, 1");
            code.put("wsr.windowstart a2");
            code.put("rsync");
            code.load(2, 0x40020);
            code.put("wsr.ps a2");
            code.put("rsync");
            code.put("movi a2, 255");
            code.put("wsr.cpenable a2");
            code.put("rsync");
            code.put("movi a2, 0");
            code.put("wsr.lcount a2");
            code.put("isync");
        }
        code.load(1, STACK_TOP - 64);
        let call = code.pc();
        code.put("nop");
        code.align();
        let main = code.pc();
        code.put("entry a1, 64");
        code.patch(call, &format!("call8 {main}"));
        Self { code, records: Vec::new(), platform }
    }

    /// Address of the next record.
    pub fn next_record(&self) -> u32 {
        RECORDS + RECORD * self.records.len() as u32
    }

    /// Ends: writes all records and leaves.
    pub fn finish(mut self) -> Vec<u8> {
        let length = RECORD * self.records.len() as u32;
        let code = &mut self.code;
        match self.platform {
            Platform::User => {
                code.put("movi a2, 13");
                code.put("movi a6, 1");
                code.load(3, RECORDS);
                code.load(4, length);
                code.put("syscall");
                code.put("movi a2, 118");
                code.put("movi a6, 0");
                code.put("syscall");
            }
            Platform::System => {
                // The simulator call moves at most a page at a time on some hosts: write in parts.
                code.load(6, RECORDS);
                code.load(7, RECORDS + length);
                let again = code.pc();
                code.put("movi a2, 4");
                code.put("movi a3, 1");
                code.put("mov a4, a6");
                code.load(5, RECORD);
                code.put("simcall");
                code.put("addmi a6, a6, 256");
                code.put(&format!("bltu a6, a7, {again}"));
                code.put("movi a2, 1");
                code.put("movi a3, 0");
                code.put("simcall");
            }
        }
        let mut data = vec![0; (RECORDS - DATA) as usize];
        for record in &self.records {
            data.extend(record.0.iter().flat_map(|word| word.to_le_bytes()));
        }
        let entry = CODE + 4 * POOL_WORDS;
        let mut segments = vec![(CODE, self.code.finish(), 7), (DATA, data, 6)];
        if self.platform == Platform::System {
            segments.push((RESET, reset_vector(entry), 7));
        }
        elf(entry, &segments)
    }
}

/// Code for the reset vector, where the simulated machine starts: jumps to the entry point.
pub fn reset_vector(entry: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    let put = |bytes: &mut Vec<u8>, text: &str| {
        let code = encode_text(text, RESET + bytes.len() as u32, IsaSet::lx()).unwrap();
        bytes.extend(code.bytes());
    };
    put(&mut bytes, &format!("j {}", RESET + 8));
    bytes.push(0);
    bytes.extend(entry.to_le_bytes());
    put(&mut bytes, &format!("l32r a0, {}", RESET + 4));
    put(&mut bytes, "jx a0");
    bytes
}

/// A static executable of these segments (address, bytes, flags).
pub fn elf(entry: u32, segments: &[(u32, Vec<u8>, u32)]) -> Vec<u8> {
    let mut file = Vec::new();
    file.extend(b"\x7fELF\x01\x01\x01\0\0\0\0\0\0\0\0\0");
    file.extend([2, 0, 94, 0]);
    for word in [1, entry, 52, 0, 0] {
        file.extend(u32::to_le_bytes(word));
    }
    for half in [52, 32, segments.len() as u16, 40, 0, 0] {
        file.extend(u16::to_le_bytes(half));
    }
    let mut offset = 0x1000;
    for (address, bytes, flags) in segments {
        let size = bytes.len() as u32;
        for word in [1, offset, *address, *address, size, size, *flags, 0x1000] {
            file.extend(u32::to_le_bytes(word));
        }
        offset += size.next_multiple_of(0x1000);
    }
    for (_, bytes, _) in segments {
        file.resize(file.len().next_multiple_of(0x1000), 0);
        file.extend(bytes);
    }
    file
}
