//! One row of the instruction table and how it is built from its bit pattern.

use super::fields::{Field, pattern_length};
use super::operand::{Kind, Operand};
use super::{Isa, Op};

/// How an instruction affects the flow of control.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Flow {
    /// Falls through to the next instruction.
    Next,
    /// Branches to its target or falls through.
    Branch,
    /// Always jumps to its target.
    Jump,
    /// Jumps to the address in a register.
    JumpRegister,
    /// Calls its target; the number is the window increment in quads (0 for CALL0).
    Call(u8),
    /// Calls the address in a register; the number is the window increment in quads.
    CallRegister(u8),
    /// Returns through `a0`.
    Return,
    /// Returns through `a0` and rotates the window back.
    WindowReturn,
    /// Allocates a stack frame and rotates the window.
    Entry,
    /// Starts a zero-overhead loop; its target is the loop's end.
    Loop,
    /// Falls through, but may change how later instructions are fetched or executed, so that a
    /// translated block ends here.
    Serialize,
    /// Raises an exception or leaves the program.
    Trap,
    /// Returns from an exception.
    ExceptionReturn,
}

impl Flow {
    /// Does a straight run of instructions end after this one?
    pub fn ends_block(self) -> bool {
        self != Self::Next
    }

    /// Can execution continue with the instruction that follows in memory?
    pub fn falls_through(self) -> bool {
        matches!(self, Self::Next | Self::Branch | Self::Entry | Self::Loop | Self::Serialize) || self.is_call()
    }

    /// Is this a call of either ABI?
    pub fn is_call(self) -> bool {
        matches!(self, Self::Call(_) | Self::CallRegister(_))
    }
}

/// One instruction of the table.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    mnemonic: &'static str,
    op: Op,
    isa: Isa,
    flow: Flow,
    length: u8,
    mask: u32,
    bits: u32,
    operands: [Operand; 4],
    operand_count: u8,
    index: u16,
}

impl Row {
    /// The mnemonic as assembled. RSR, WSR, XSR, RUR and WUR carry their register's name behind a dot in text.
    pub fn mnemonic(&self) -> &'static str {
        self.mnemonic
    }

    /// What it does.
    pub fn op(&self) -> Op {
        self.op
    }

    /// The option of the architecture it belongs to.
    pub fn isa(&self) -> Isa {
        self.isa
    }

    /// Its effect on the flow of control.
    pub fn flow(&self) -> Flow {
        self.flow
    }

    /// Length in bytes: 2 or 3.
    pub fn length(&self) -> u8 {
        self.length
    }

    /// The fixed bits: `word & mask() == bits()` for every encoding of this row.
    pub fn mask(&self) -> u32 {
        self.mask
    }

    /// Value of the fixed bits.
    pub fn bits(&self) -> u32 {
        self.bits
    }

    /// The operands in assembly order.
    pub fn operands(&self) -> &[Operand] {
        &self.operands[..usize::from(self.operand_count)]
    }

    /// Position in [`super::ROWS`].
    pub fn index(&self) -> usize {
        usize::from(self.index)
    }

    /// Does `word` (little-endian instruction bits) encode this row?
    pub fn matches(&self, word: u32) -> bool {
        word & self.mask == self.bits
    }

    /// The operand that text writes as part of the mnemonic: RSR, RUR and their relatives have one.
    pub fn register_operand(&self) -> Option<&Operand> {
        self.operands().iter().find(|operand| matches!(operand.kind(), Kind::Special | Kind::User))
    }

    pub(super) const fn with_index(mut self, index: u16) -> Self {
        self.index = index;
        self
    }

    pub(super) const fn placeholder() -> Self {
        row("", "00000000", Op::Ill, Isa::Core, Flow::Trap, &[])
    }
}

/// Builds a row; a malformed pattern fails to compile.
pub(super) const fn row(
    mnemonic: &'static str,
    pattern: &'static str,
    op: Op,
    isa: Isa,
    flow: Flow,
    operands: &[(char, Kind)],
) -> Row {
    let bytes = pattern.as_bytes();
    let mut mask = 0;
    let mut bits = 0;
    let mut index = 0;
    while index < bytes.len() {
        match bytes[index] {
            b' ' => {}
            b'0' => {
                mask = (mask << 1) | 1;
                bits <<= 1;
            }
            b'1' => {
                mask = (mask << 1) | 1;
                bits = (bits << 1) | 1;
            }
            _ => {
                mask <<= 1;
                bits <<= 1;
            }
        }
        index += 1;
    }
    let mut list = [Operand::NONE; 4];
    let mut count = 0;
    while count < operands.len() {
        let (letter, kind) = operands[count];
        list[count] = Operand::new(kind, Field::from_pattern(pattern, letter));
        count += 1;
    }
    Row {
        mnemonic,
        op,
        isa,
        flow,
        length: pattern_length(bytes) / 8,
        mask,
        bits,
        operands: list,
        operand_count: count as u8,
        index: 0,
    }
}
