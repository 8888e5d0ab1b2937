//! Operands of instructions that hold a place in memory: what a slot relocation of an object writes.
//!
//! The type of a slot relocation only says "the operand of the instruction here". Which bits that is, what the value counts
//! from and how far it reaches follow from the opcode, so there is one [`Operand`] row for each form of instruction. A row
//! checks the value, writes the field, reads it back, and turns the bits into the target again for verification.
//!
//! See `docs/reference/relocations.md`, "Operands of Xtensa instructions".

use super::compiled;
use crate::row::data;
use crate::{ApplyError, Expr, Field, Range, Recipe, Row, Site};

/// What the value of an operand counts from. P is the address of the instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Base {
    /// P + 4: jumps, branches and loops.
    Next,
    /// P rounded down to a word, plus 4: calls.
    NextWord,
    /// P rounded up to a word: literals.
    Literal,
}

impl Base {
    /// The address that the operand of the instruction at `place` counts from.
    #[must_use]
    pub const fn of(self, place: u32) -> u32 {
        match self {
            Self::Next => place.wrapping_add(4),
            Self::NextWord => (place & !3).wrapping_add(4),
            Self::Literal => place.wrapping_add(3) & !3,
        }
    }
}

/// One form of instruction with an operand that is a distance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operand {
    /// The instructions of this form.
    pub name: &'static str,
    /// Length of the instruction in bytes.
    pub length: u8,
    /// What the distance counts from.
    pub base: Base,
    /// Smallest distance in bytes.
    pub min: i32,
    /// Largest distance in bytes.
    pub max: i32,
    /// The distance is a multiple of this.
    pub align: u8,
    mask: u32,
    bits: u32,
    parts: [Recipe; 2],
}

/// Why an operand cannot hold a target. Nothing was written, except for [`OperandError::Site`] with a failed read back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperandError {
    /// The distance is too small or too large.
    OutOfReach {
        /// The distance in bytes.
        distance: i32,
    },
    /// The distance is no multiple of [`Operand::align`].
    Misaligned {
        /// The distance in bytes.
        distance: i32,
    },
    /// The instruction does not lie inside the bytes, or they read back differently.
    Site(ApplyError),
}

impl Operand {
    /// The row of the instruction that starts with these bytes; `None` when it has no operand that is a distance.
    #[must_use]
    pub fn of(instruction: &[u8]) -> Option<&'static Self> {
        let mut word = [0; 4];
        for (to, from) in word.iter_mut().zip(instruction) {
            *to = *from;
        }
        let word = u32::from_le_bytes(word);
        OPERANDS.iter().find(|row| word & row.mask == row.bits && instruction.len() >= usize::from(row.length))
    }

    /// Every row.
    #[must_use]
    pub const fn all() -> &'static [Self] {
        &OPERANDS
    }

    /// Whether this is the form whose target is a literal.
    #[must_use]
    pub const fn is_literal(&self) -> bool {
        matches!(self.base, Base::Literal)
    }

    /// The distance from the instruction at `place` to `target`, as the operand counts it.
    #[must_use]
    pub const fn distance(&self, place: u32, target: u32) -> i32 {
        target.wrapping_sub(self.base.of(place)).cast_signed()
    }

    /// Makes the instruction at `offset` of `bytes`, which runs at `place`, refer to `target`; reads it back and compares.
    ///
    /// # Errors
    ///
    /// [`OperandError`]; nothing was written unless the bytes read back differ.
    pub fn apply(&self, bytes: &mut [u8], offset: usize, place: u32, target: u32) -> Result<(), OperandError> {
        let distance = self.distance(place, target);
        if distance < self.min || distance > self.max {
            return Err(OperandError::OutOfReach { distance });
        }
        if !distance.cast_unsigned().is_multiple_of(u32::from(self.align)) {
            return Err(OperandError::Misaligned { distance });
        }
        let value = i64::from(distance).cast_unsigned();
        self.parts.iter().try_for_each(|part| part.apply(bytes, offset, value)).map_err(OperandError::Site)
    }

    /// The address that the instruction in `bytes`, which runs at `place`, refers to.
    #[must_use]
    pub fn target(&self, bytes: &[u8], place: u32) -> u32 {
        let word = self.container(bytes);
        let [first, second] = &self.parts;
        let raw = first.extract(word) | second.extract(word);
        let width = u64::BITS - (first.covers() | second.covers()).leading_zeros();
        // Distances below zero have the highest bit of the field set; those of literals always do.
        let negative = self.min < 0 && (self.is_literal() || raw >> (width - 1) & 1 == 1);
        let sign = if negative { u64::MAX << width } else { 0 };
        let [b0, b1, b2, b3, ..] = (raw | sign).to_le_bytes();
        self.base.of(place).wrapping_add(u32::from_le_bytes([b0, b1, b2, b3]))
    }

    /// The instruction with the operand's bits cleared: what a relocation must leave alone.
    #[must_use]
    pub fn rest(&self, bytes: &[u8]) -> u64 {
        self.parts.iter().fold(self.container(bytes), |word, part| part.insert(word, 0))
    }

    fn container(&self, bytes: &[u8]) -> u64 {
        let mut word = [0; 8];
        for (to, from) in word.iter_mut().zip(bytes.iter().take(usize::from(self.length))) {
            *to = *from;
        }
        u64::from_le_bytes(word)
    }
}

/// A contiguous part of an operand: `width` bits of the distance from bit `shift` on, at bit `bit` of the instruction.
const fn part(container: u8, width: u8, bit: u8, shift: u8) -> Recipe {
    let row = data(20, "R_XTENSA_SLOT0_OP", Expr::SymbolAddend, container, Range::Any);
    compiled(&Row { field: Field { container, width, bit, shift }, site: Site::Code, ..row })
}

/// A 24-bit instruction whose operand is one field that starts at `bit` and ends with the instruction.
const fn wide(name: &'static str, mask: u32, bits: u32, base: Base, range: (i32, i32), bit: u8, shift: u8) -> Operand {
    let parts = [part(3, 24 - bit, bit, shift), Recipe::NOTHING];
    Operand { name, length: 3, base, min: range.0, max: range.1, align: 1 << shift, mask, bits, parts }
}

/// The low half of an address in the three bytes of a `const16`.
pub const CONST16_LOW: Recipe = part(3, 16, 8, 0);
/// The high half of an address in the three bytes of a `const16`.
pub const CONST16_HIGH: Recipe = part(3, 16, 8, 16);

const BYTE: (i32, i32) = (-128, 127);
const LOOP: (i32, i32) = (0, 255);

static OPERANDS: [Operand; 12] = [
    wide("l32r", 0x0f, 0x01, Base::Literal, (-0x4_0000, -4), 8, 2),
    wide("call0, call4, call8, call12", 0x0f, 0x05, Base::NextWord, (-0x8_0000, 0x7_fffc), 6, 2),
    wide("j", 0x3f, 0x06, Base::Next, (-0x2_0000, 0x1_ffff), 6, 0),
    wide("beqz, bnez, bltz, bgez", 0x3f, 0x16, Base::Next, (-2048, 2047), 12, 0),
    wide("beqi, bnei, blti, bgei", 0x3f, 0x26, Base::Next, BYTE, 16, 0),
    wide("bltui, bgeui", 0xbf, 0xb6, Base::Next, BYTE, 16, 0),
    wide("bf, bt", 0xe0ff, 0x0076, Base::Next, BYTE, 16, 0),
    wide("loop", 0xf0ff, 0x8076, Base::Next, LOOP, 16, 0),
    wide("loopnez", 0xf0ff, 0x9076, Base::Next, LOOP, 16, 0),
    wide("loopgtz", 0xf0ff, 0xa076, Base::Next, LOOP, 16, 0),
    wide("ball to bnone, beq, bne, blt, bltu, bge, bgeu, bbc, bbs", 0x0f, 0x07, Base::Next, BYTE, 16, 0),
    Operand {
        name: "beqz.n, bnez.n",
        length: 2,
        base: Base::Next,
        min: 0,
        max: 63,
        align: 1,
        mask: 0x8f,
        bits: 0x8c,
        parts: [part(2, 4, 12, 0), part(2, 2, 4, 4)],
    },
];
