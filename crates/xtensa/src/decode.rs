//! From bytes to instructions.

use std::sync::OnceLock;

use crate::isa::{Flow, Isa, IsaSet, Kind, ROWS, Relative, Row};
use crate::length::{BundleFormat, Flix, Length, instruction_length};

/// A decoded 16- or 24-bit instruction.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Instruction {
    row: u16,
    word: u32,
}

impl core::fmt::Debug for Instruction {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Instruction({:#08x} {})", self.word, self.row().mnemonic())
    }
}

impl Instruction {
    pub(crate) fn new(row: &'static Row, word: u32) -> Self {
        debug_assert!(row.matches(word), "the word belongs to the row");
        Self { row: row.index() as u16, word }
    }

    /// Its row in the instruction table.
    pub fn row(&self) -> &'static Row {
        &ROWS[usize::from(self.row)]
    }

    /// The instruction bits, the first byte lowest.
    pub fn word(&self) -> u32 {
        self.word
    }

    /// Length in bytes: 2 or 3.
    pub fn length(&self) -> u8 {
        self.row().length()
    }

    /// The value of operand `index` for an instruction at `pc`, `None` beyond the last.
    pub fn operand(&self, index: usize, pc: u32) -> Option<u32> {
        self.row().operands().get(index).map(|operand| operand.value(self.word, pc))
    }

    /// The address a branch, jump, call or loop names.
    pub fn target(&self, pc: u32) -> Option<u32> {
        self.relative(pc, |relative| relative != Relative::Literal)
    }

    /// The address of the literal that L32R reads.
    pub fn literal(&self, pc: u32) -> Option<u32> {
        self.relative(pc, |relative| relative == Relative::Literal)
    }

    fn relative(&self, pc: u32, wanted: impl Fn(Relative) -> bool) -> Option<u32> {
        self.row().operands().iter().find_map(|operand| match operand.kind() {
            Kind::Target(relative) if wanted(relative) => Some(operand.value(self.word, pc)),
            _ => None,
        })
    }

    /// The highest quad of address registers (0..=3) that the instruction names. A windowed call
    /// names the register that receives its return address.
    pub fn highest_quad(&self) -> u8 {
        let registers = self
            .row()
            .operands()
            .iter()
            .filter(|operand| operand.kind() == Kind::Ar)
            .map(|operand| (operand.raw(self.word) >> 2) as u8)
            .max()
            .unwrap_or(0);
        match self.row().flow() {
            Flow::Call(quads) | Flow::CallRegister(quads) => registers.max(quads),
            _ => registers,
        }
    }
}

/// A FLIX bundle: found and measured, its slots not decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bundle {
    format: &'static BundleFormat,
}

impl Bundle {
    /// Its format.
    pub fn format(&self) -> &'static BundleFormat {
        self.format
    }

    /// Length in bytes.
    pub fn length(&self) -> u8 {
        self.format.length()
    }
}

/// What stands at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decoded {
    /// A 16- or 24-bit instruction.
    Instruction(Instruction),
    /// A FLIX bundle.
    Bundle(Bundle),
}

impl Decoded {
    /// Length in bytes.
    pub fn length(&self) -> u8 {
        match self {
            Self::Instruction(instruction) => instruction.length(),
            Self::Bundle(bundle) => bundle.length(),
        }
    }
}

/// Why bytes are not an instruction.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The bytes end inside the instruction.
    #[error("the instruction needs {need} bytes, only {have} are there")]
    Truncated {
        /// Bytes available.
        have: usize,
        /// Bytes needed.
        need: usize,
    },
    /// The encoding belongs to no row of the table.
    #[error("no instruction is encoded as {word:#0width$x}", width = 2 + 2 * *.length as usize)]
    Unknown {
        /// The bits.
        word: u32,
        /// Length in bytes by the first nibble.
        length: u8,
    },
    /// The instruction belongs to an option that the core does not have.
    #[error("`{mnemonic}` belongs to the {isa} option, which this core does not have")]
    Disabled {
        /// The instruction.
        mnemonic: &'static str,
        /// The missing option.
        isa: Isa,
        /// The bits.
        word: u32,
    },
    /// The first nibble announces a bundle, and the core has none or not this one.
    #[error("{word:#x} starts a FLIX bundle that this core does not have")]
    NoBundle {
        /// The first bytes (up to four), the first lowest.
        word: u32,
        /// Its length in bytes, if the first bytes determine it.
        length: Option<u8>,
    },
    /// A bundle where an instruction was asked for.
    #[error("a FLIX bundle of format {format}; its slots cannot be decoded")]
    Bundle {
        /// The format.
        format: &'static BundleFormat,
    },
}

impl DecodeError {
    /// How many bytes to step over to look for the next instruction, where that is known.
    pub fn length(&self) -> Option<u8> {
        match self {
            Self::Truncated { .. } => None,
            Self::Unknown { length, .. } => Some(*length),
            Self::Disabled { word, .. } => Some(if word & 8 == 0 { 3 } else { 2 }),
            Self::NoBundle { length, .. } => *length,
            Self::Bundle { format } => Some(format.length()),
        }
    }
}

/// Decodes for a core with given options.
#[derive(Clone, Copy, Debug)]
pub struct Decoder {
    isa: IsaSet,
    flix: Flix,
}

impl Decoder {
    /// A decoder for a core with these options and without bundles.
    pub fn new(isa: IsaSet) -> Self {
        Self { isa, flix: Flix::None }
    }

    /// The same with bundles.
    #[must_use]
    pub fn with_flix(self, flix: Flix) -> Self {
        Self { flix, ..self }
    }

    /// The options.
    pub fn isa(&self) -> IsaSet {
        self.isa
    }

    /// The bundles.
    pub fn flix(&self) -> Flix {
        self.flix
    }

    /// Decodes what `bytes` start with.
    ///
    /// # Errors
    /// See [`DecodeError`].
    pub fn decode(&self, bytes: &[u8]) -> Result<Decoded, DecodeError> {
        let truncated = |need: u8| DecodeError::Truncated { have: bytes.len(), need: need.into() };
        match instruction_length(bytes, self.flix) {
            Length::NeedBytes(need) => Err(truncated(need)),
            Length::Illegal { length } => Err(DecodeError::NoBundle { word: low_word(bytes, 4), length }),
            Length::Bundle(format) if bytes.len() < format.length().into() => Err(truncated(format.length())),
            Length::Bundle(format) => Ok(Decoded::Bundle(Bundle { format })),
            Length::Scalar(length) if bytes.len() < length.into() => Err(truncated(length)),
            Length::Scalar(length) => {
                let word = low_word(bytes, length);
                self.word(word, length).map(Decoded::Instruction)
            }
        }
    }

    /// Decodes a 16- or 24-bit instruction.
    ///
    /// # Errors
    /// As [`Decoder::decode`]; a bundle is an error too.
    pub fn instruction(&self, bytes: &[u8]) -> Result<Instruction, DecodeError> {
        match self.decode(bytes)? {
            Decoded::Instruction(instruction) => Ok(instruction),
            Decoded::Bundle(bundle) => Err(DecodeError::Bundle { format: bundle.format }),
        }
    }

    /// The other instructions that the same bits encode under this decoder's options: not empty
    /// only when the options contain both MAC16 and CONST16.
    pub fn alternatives(&self, instruction: Instruction) -> impl Iterator<Item = Instruction> {
        let isa = self.isa;
        candidates(instruction.word)
            .filter(move |row| isa.allows(row) && row.index() != instruction.row().index())
            .map(move |row| Instruction::new(row, instruction.word))
    }

    fn word(&self, word: u32, length: u8) -> Result<Instruction, DecodeError> {
        let mut disabled = None;
        let mut best: Option<&'static Row> = None;
        for row in candidates(word) {
            if !self.isa.allows(row) {
                disabled = Some(row);
            } else if best.is_none_or(|best| row.mask().count_ones() > best.mask().count_ones()) {
                best = Some(row);
            }
        }
        match (best, disabled) {
            (Some(row), _) => Ok(Instruction::new(row, word)),
            (None, Some(row)) => Err(DecodeError::Disabled { mnemonic: row.mnemonic(), isa: row.isa(), word }),
            (None, None) => Err(DecodeError::Unknown { word, length }),
        }
    }
}

/// The first `count` bytes as a little-endian word (fewer if there are fewer).
fn low_word(bytes: &[u8], count: u8) -> u32 {
    let taken = bytes.iter().take(count.into()).enumerate();
    taken.fold(0, |word, (index, &byte)| word | u32::from(byte) << (8 * index))
}

/// The rows whose fixed bits `word` has.
fn candidates(word: u32) -> impl Iterator<Item = &'static Row> {
    let bucket = &index()[bucket_of(word)];
    bucket.iter().map(|&row| &ROWS[usize::from(row)]).filter(move |row| row.matches(word))
}

/// Rows by the first nibble and bits 16..=23 (24-bit forms) or 12..=15 (16-bit forms).
fn index() -> &'static [Vec<u16>] {
    static INDEX: OnceLock<Vec<Vec<u16>>> = OnceLock::new();
    INDEX.get_or_init(|| {
        let mut buckets = vec![Vec::new(); 1 << 12];
        for (number, bucket) in buckets.iter_mut().enumerate() {
            let (nibble, upper) = (number as u32 & 15, number as u32 >> 4);
            let short = nibble >= 8;
            if short && upper > 15 {
                continue;
            }
            let (key, key_mask) =
                if short { (nibble | upper << 12, 0xf00f) } else { (nibble | upper << 16, 0xff_000f) };
            let rows = ROWS.iter().filter(|row| (row.length() == 2) == short);
            let fitting = rows.filter(|row| (key ^ row.bits()) & row.mask() & key_mask == 0);
            bucket.extend(fitting.map(|row| row.index() as u16));
        }
        buckets
    })
}

fn bucket_of(word: u32) -> usize {
    let nibble = word & 15;
    let upper = if nibble >= 8 { word >> 12 & 15 } else { word >> 16 & 255 };
    (nibble | upper << 4) as usize
}
