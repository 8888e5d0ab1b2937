//! The code of a twin: functions at documented addresses, with the documented number of address pairs.

use outboard_xtensa::encode_text;
use outboard_xtensa::isa::IsaSet;

use super::plan::{Function, Plan, Role};

/// A relocation of a twin.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rela {
    pub place: u32,
    pub kind: u32,
    pub addend: u32,
}

/// Bytes and relocations of the text segment.
pub(super) struct Text {
    base: u32,
    at: u32,
    bytes: Vec<u8>,
    /// High and low half of each address, in the order of the places.
    pub pairs: Vec<[Rela; 2]>,
}

const PAIR: u32 = 12;
const PROLOGUE: u32 = 3;
const EPILOGUE: u32 = 4;
const CALL: u32 = 9;

impl Text {
    fn op(&mut self, line: &str) {
        let pc = self.base + self.at;
        let code = encode_text(line, pc, IsaSet::vision_q7()).expect("the lines of a twin are instructions");
        let start = usize_of(self.at);
        let end = start + code.bytes().len();
        self.bytes[start..end].copy_from_slice(code.bytes());
        self.at = u32::try_from(end).expect("a text is smaller than 4 GiB");
    }

    fn nops(&mut self, until: u32) {
        while until - self.at >= 3 && until - self.at != 4 {
            self.op("nop");
        }
        while self.at < until {
            self.op("nop.n");
        }
    }

    fn half(&mut self, register: u32, kind: u32, address: u32, value: u32) -> Rela {
        let place = self.base + self.at;
        self.op(&format!("const16 a{register}, {value}"));
        Rela { place, kind, addend: address }
    }

    /// Two halves, the high one first. The immediates hold the link address, as a linker leaves them.
    fn address(&mut self, register: u32, address: u32, between: &str) {
        let high = self.half(register, 35, address, address >> 16);
        if !between.is_empty() {
            self.op(between);
        }
        let low = self.half(register, 20, address, address & 0xffff);
        self.pairs.push([high, low]);
    }

    /// Counts a call in the word at `address`.
    fn count(&mut self, address: u32) {
        self.address(2, address, "");
        self.op("l32i.n a3, a2, 0");
        self.op("addi.n a3, a3, 1");
        self.op("s32i.n a3, a2, 0");
    }

    fn call(&mut self, address: u32) {
        self.address(8, address, "");
        self.op("callx8 a8");
    }
}

fn usize_of(value: u32) -> usize {
    usize::try_from(value).expect("a twin is smaller than 4 GiB")
}

/// The text of a plan.
pub(super) fn build(plan: &Plan) -> Text {
    let mut functions = plan.functions.clone();
    functions.sort_by_key(|function| function.at);
    let size = plan.text_size;
    let ends: Vec<u32> = functions.iter().skip(1).map(|next| next.at).chain([size]).collect();
    let shares = shares(plan, &functions, &ends);
    let bytes = vec![0; usize_of(size)];
    let mut text = Text { base: plan.code_base, at: 0, bytes, pairs: Vec::new() };
    let mut counter = 0;
    for ((function, end), share) in functions.iter().zip(&ends).zip(shares) {
        text.at = function.at;
        emit(&mut text, plan, function, share, &mut counter);
        assert!(text.at <= *end, "function at {:#x} ends at {:#x}, the next begins at {end:#x}", function.at, text.at);
    }
    text
}

impl Text {
    /// The bytes of the segment.
    pub fn into_parts(self) -> (Vec<u8>, Vec<[Rela; 2]>) {
        (self.bytes, self.pairs)
    }
}

/// How many counted words each function gets, so that the pairs of the plan come out exactly.
fn shares(plan: &Plan, functions: &[Function], ends: &[u32]) -> Vec<u32> {
    let fixed: u32 = functions.iter().map(|function| function.role.pairs()).sum();
    let room: Vec<u32> = functions
        .iter()
        .zip(ends)
        .map(|(function, end)| match function.role {
            Role::Kernel { .. } | Role::Function => {
                let used = PROLOGUE + EPILOGUE + function.role.pairs() * PAIR.max(CALL);
                (end - function.at).saturating_sub(used) / PAIR
            }
            _ => 0,
        })
        .collect();
    let mut shares = vec![0; functions.len()];
    let mut left = plan.pairs.checked_sub(fixed).expect("a plan has at least the pairs of its functions");
    while left > 0 {
        let before = left;
        for (share, room) in shares.iter_mut().zip(&room) {
            if left > 0 && *share < *room {
                *share += 1;
                left -= 1;
            }
        }
        assert!(left < before, "the text of a plan has room for its pairs");
    }
    shares
}

fn emit(text: &mut Text, plan: &Plan, function: &Function, share: u32, counter: &mut u32) {
    let next_word = |counter: &mut u32| {
        let word = plan.counters + *counter % plan.counter_words * 4;
        *counter += 1;
        word
    };
    match function.role {
        Role::FirstInit => first_init(text, plan),
        Role::Init => {
            text.op("entry a1, 32");
            text.op("nop");
            text.op("retw.n");
        }
        Role::Fini => {
            text.op("entry a1, 32");
            text.nops(function.at + 12);
            text.op("retw.n");
        }
        Role::Entry => entry(text),
        Role::Nop => {
            text.op("entry a1, 32");
            text.op("retw.n");
        }
        Role::Kernel { frame, slot, callee } => {
            text.op(&format!("entry a1, {frame}"));
            if let Some(slot) = slot {
                text.count(slot);
            }
            for _ in 0..share {
                text.count(next_word(counter));
            }
            if let Some(callee) = callee {
                text.call(callee);
            }
            text.op("movi.n a2, 0");
            text.op("retw.n");
        }
        Role::Function => {
            text.op("entry a1, 32");
            for _ in 0..share {
                text.count(next_word(counter));
            }
            text.op("movi.n a2, 0");
            text.op("retw.n");
        }
    }
}

/// The initialiser whose two addresses stand at the documented places: 3 and 5 bytes apart.
fn first_init(text: &mut Text, plan: &Plan) {
    text.op("entry a1, 32");
    text.nops(0x1b);
    text.address(2, plan.data_base + 0x25c, "");
    text.op("l32i.n a3, a2, 0");
    text.op("addi.n a3, a3, 1");
    text.op("s32i.n a3, a2, 0");
    text.nops(0x43);
    text.address(4, plan.data_base + 0x1f8, "nop.n");
    text.op("l32i.n a5, a4, 0");
    text.op("retw.n");
}

/// The entry point: 0 when the caller's descriptor has at least 36 bytes, else 2.
fn entry(text: &mut Text) {
    text.op("entry a1, 32");
    text.op("l32i.n a3, a2, 0");
    text.op("movi.n a4, 36");
    text.op("movi.n a2, 0");
    let over = text.base + text.at + 3 + 2;
    text.op(&format!("bgeu a3, a4, {over}"));
    text.op("movi.n a2, 2");
    text.op("retw.n");
}
