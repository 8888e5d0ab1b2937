//! Operands: what they name, how their value is coded in the bits, and the ranges they allow.

use super::fields::Field;

/// What an operand is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Address register `a0`..`a15`.
    Ar,
    /// Floating-point register `f0`..`f15`.
    Fr,
    /// Boolean register `b0`..`b15`.
    Br,
    /// Four boolean registers from a multiple of four.
    Br4,
    /// Eight boolean registers from 0 or 8.
    Br8,
    /// MAC16 register `m0`..`m3`.
    Mr,
    /// MAC16 register `m0` or `m1`.
    MrLow,
    /// MAC16 register `m2` or `m3`.
    MrHigh,
    /// Special register number.
    Special,
    /// User register number.
    User,
    /// A number.
    Imm(Coding),
    /// An address relative to the instruction's.
    Target(Relative),
}

/// How a number is coded in its field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    /// `field * scale + bias`.
    Unsigned {
        /// Multiplier.
        scale: u16,
        /// Added after scaling.
        bias: i16,
    },
    /// The field sign-extended, times `scale`.
    Signed {
        /// Multiplier.
        scale: u16,
    },
    /// A left shift amount 1..31, coded as 32 minus it.
    ShiftLeft,
    /// ADDI.N: 0 stands for −1.
    AddiN,
    /// MOVI.N: −32..95.
    MoviN,
    /// The signed compare constants.
    B4Const,
    /// The unsigned compare constants.
    B4ConstU,
}

/// How a target address is formed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relative {
    /// `pc + 4` plus the sign-extended field.
    Branch,
    /// `pc + 4` plus the unsigned field.
    Forward,
    /// `(pc & !3) + 4` plus four times the sign-extended field.
    Call,
    /// `((pc + 3) & !3) - 262144` plus four times the field: a literal before the instruction.
    Literal,
}

/// The constants of BEQI and its relatives, by field value.
pub const B4CONST: [i32; 16] = [-1, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 32, 64, 128, 256];
/// The constants of BLTUI and BGEUI, by field value.
pub const B4CONST_U: [i32; 16] = [32768, 65536, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 32, 64, 128, 256];

pub(super) const fn unsigned(scale: u16, bias: i16) -> Kind {
    Kind::Imm(Coding::Unsigned { scale, bias })
}

pub(super) const fn signed(scale: u16) -> Kind {
    Kind::Imm(Coding::Signed { scale })
}

/// Why a value cannot be an operand.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OperandError {
    /// Outside the range.
    #[error("{value} is out of range: {low}..{high} are allowed")]
    Range {
        /// The value as given.
        value: i64,
        /// Smallest value.
        low: i64,
        /// Largest value.
        high: i64,
    },
    /// Not a multiple of the scale.
    #[error("{value} is not {bias} plus a multiple of {scale}")]
    Multiple {
        /// The value as given.
        value: i64,
        /// The scale.
        scale: u32,
        /// The offset that is added to the scaled field.
        bias: i64,
    },
    /// Not one of the listed constants.
    #[error("{value} is not one of {allowed:?}")]
    NotListed {
        /// The value as given.
        value: i64,
        /// The constants the field can express.
        allowed: &'static [i32; 16],
    },
    /// A target whose address is not reachable from here.
    #[error("target {target:#x} is out of reach: {low:#x}..{high:#x} in steps of {step} are allowed")]
    Reach {
        /// The wanted address.
        target: u32,
        /// Lowest reachable address.
        low: u32,
        /// Highest reachable address.
        high: u32,
        /// Distance between reachable addresses.
        step: u32,
    },
}

/// One operand of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operand {
    kind: Kind,
    field: Field,
}

impl Operand {
    pub(super) const NONE: Self = Self::new(Kind::Ar, Field::from_pattern("i", 'i'));

    pub(super) const fn new(kind: Kind, field: Field) -> Self {
        Self { kind, field }
    }

    /// What it is.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Width of its field in bits.
    pub fn width(&self) -> u8 {
        self.field.width()
    }

    /// The instruction bits that belong to it.
    pub fn mask(&self) -> u32 {
        self.field.mask()
    }

    /// The raw field value in an instruction word.
    pub fn raw(&self, word: u32) -> u32 {
        self.field.extract(word)
    }

    /// Places a raw field value into instruction bits.
    pub fn place(&self, raw: u32) -> u32 {
        self.field.insert(raw)
    }

    /// The operand's value: a register number, a number (negative ones as two's complement) or
    /// an address, for an instruction `word` at `pc`.
    pub fn value(&self, word: u32, pc: u32) -> u32 {
        let raw = self.field.extract(word);
        match self.kind {
            Kind::Ar | Kind::Fr | Kind::Br | Kind::Mr | Kind::MrLow | Kind::Special | Kind::User => raw,
            Kind::Br4 => raw << 2,
            Kind::Br8 => raw << 3,
            Kind::MrHigh => raw + 2,
            Kind::Imm(coding) => coding.decode(raw, self.field.width()),
            Kind::Target(relative) => relative.decode(raw, self.field.width(), pc),
        }
    }

    /// The raw field value for an operand value (as returned by [`Operand::value`]; numbers may
    /// be given signed or as the 32-bit two's complement).
    ///
    /// # Errors
    /// The value cannot be expressed; the error says which can.
    pub fn encode(&self, value: i64, pc: u32) -> Result<u32, OperandError> {
        let width = self.field.width();
        match self.kind {
            Kind::Ar | Kind::Fr | Kind::Br | Kind::Mr | Kind::MrLow | Kind::Special | Kind::User => {
                scaled(value, 1, 0, 0, (1 << width) - 1)
            }
            Kind::Br4 => scaled(value, 4, 0, 0, 3),
            Kind::Br8 => scaled(value, 8, 0, 0, 1),
            Kind::MrHigh => scaled(value, 1, 2, 0, 1),
            Kind::Imm(coding) => coding.encode(value, width),
            Kind::Target(relative) => relative.encode(value, width, pc),
        }
    }
}

impl Coding {
    fn decode(self, raw: u32, width: u8) -> u32 {
        match self {
            Self::Unsigned { scale, bias } => (raw * u32::from(scale)).wrapping_add_signed(i32::from(bias)),
            Self::Signed { scale } => sign_extend(raw, width).wrapping_mul(u32::from(scale)),
            Self::ShiftLeft => 32 - raw,
            Self::AddiN => raw.checked_sub(1).map_or(u32::MAX, |_| raw),
            Self::MoviN => {
                if raw >= 96 {
                    raw.wrapping_sub(128)
                } else {
                    raw
                }
            }
            Self::B4Const => B4CONST[raw as usize & 15] as u32,
            Self::B4ConstU => B4CONST_U[raw as usize & 15] as u32,
        }
    }

    fn encode(self, value: i64, width: u8) -> Result<u32, OperandError> {
        let top = (1i64 << width) - 1;
        match self {
            Self::Unsigned { scale, bias } => {
                let value = if bias < 0 { as_signed(value) } else { value };
                scaled(value, u32::from(scale), i64::from(bias), 0, top)
            }
            Self::Signed { scale } => {
                let half = 1i64 << (width - 1);
                let raw = scaled(as_signed(value), u32::from(scale), 0, -half, half - 1)?;
                Ok(raw & ((1 << width) - 1))
            }
            // The value 32 has an encoding but no meaning: decoders print it, encoders accept it
            // so that every word round-trips.
            Self::ShiftLeft => scaled(value, 1, 0, 1, 32).map(|amount| 32 - amount),
            Self::AddiN => match as_signed(value) {
                -1 => Ok(0),
                value => scaled(value, 1, 0, 1, 15).map_err(|_| OperandError::Range { value, low: -1, high: 15 }),
            },
            Self::MoviN => scaled(as_signed(value), 1, 0, -32, 95).map(|raw| raw & 127),
            Self::B4Const => listed(as_signed(value), &B4CONST),
            Self::B4ConstU => listed(value, &B4CONST_U),
        }
    }
}

impl Relative {
    fn decode(self, raw: u32, width: u8, pc: u32) -> u32 {
        match self {
            Self::Branch => pc.wrapping_add(4).wrapping_add(sign_extend(raw, width)),
            Self::Forward => pc.wrapping_add(4).wrapping_add(raw),
            Self::Call => (pc & !3).wrapping_add(4).wrapping_add(sign_extend(raw, width) << 2),
            Self::Literal => literal_base(pc).wrapping_add(raw << 2),
        }
    }

    fn encode(self, value: i64, width: u8, pc: u32) -> Result<u32, OperandError> {
        let top = (1u32 << width) - 1;
        let half = 1u32 << (width - 1);
        let (low, steps, step) = match self {
            Self::Branch => (pc.wrapping_add(4).wrapping_sub(half), top, 1),
            Self::Forward => (pc.wrapping_add(4), top, 1),
            Self::Call => ((pc & !3).wrapping_add(4).wrapping_sub(half << 2), top, 4),
            Self::Literal => (literal_base(pc), top, 4),
        };
        let target = value as u32;
        let reach = || OperandError::Reach { target, low, high: low.wrapping_add(steps.wrapping_mul(step)), step };
        if !(-(1 << 31)..1 << 32).contains(&value) {
            return Err(OperandError::Range { value, low: 0, high: i64::from(u32::MAX) });
        }
        let distance = target.wrapping_sub(low);
        if distance % step != 0 || distance / step > steps {
            return Err(reach());
        }
        let raw = distance / step;
        Ok(match self {
            Self::Branch | Self::Call => raw ^ half,
            Self::Forward | Self::Literal => raw,
        })
    }
}

fn literal_base(pc: u32) -> u32 {
    (pc.wrapping_add(3) & !3).wrapping_sub(1 << 18)
}

fn sign_extend(raw: u32, width: u8) -> u32 {
    let shift = 32 - u32::from(width);
    (((raw << shift) as i32) >> shift) as u32
}

/// Reads a 32-bit two's complement written as an unsigned number as the negative it stands for.
fn as_signed(value: i64) -> i64 {
    if (1 << 31..1 << 32).contains(&value) { value - (1 << 32) } else { value }
}

fn scaled(value: i64, scale: u32, bias: i64, low: i64, high: i64) -> Result<u32, OperandError> {
    let factor = i64::from(scale);
    let range = OperandError::Range { value, low: low * factor + bias, high: high * factor + bias };
    let Some(offset) = value.checked_sub(bias) else { return Err(range) };
    let raw = offset.div_euclid(factor);
    if raw < low || raw > high {
        Err(range)
    } else if offset.rem_euclid(factor) != 0 {
        Err(OperandError::Multiple { value, scale, bias })
    } else {
        Ok(raw as u32)
    }
}

fn listed(value: i64, allowed: &'static [i32; 16]) -> Result<u32, OperandError> {
    allowed
        .iter()
        .position(|&constant| i64::from(constant) == value)
        .map(|index| index as u32)
        .ok_or(OperandError::NotListed { value, allowed })
}
