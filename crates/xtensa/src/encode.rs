//! From instructions and text to bytes: the encoder and the parser of single assembly lines.

use crate::decode::Instruction;
use crate::isa::registers::{special_number, user_number};
use crate::isa::{Isa, IsaSet, Kind, Operand, OperandError, Row, row_by_mnemonic};

/// An encoded instruction: two or three bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encoded {
    bytes: [u8; 3],
    length: u8,
}

impl Encoded {
    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

impl Instruction {
    /// The instruction's bytes.
    pub fn encoded(&self) -> Encoded {
        let [a, b, c, _] = self.word().to_le_bytes();
        Encoded { bytes: [a, b, c], length: self.length() }
    }
}

/// Why a line cannot be assembled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AsmError {
    /// Nothing on the line.
    #[error("there is no instruction on the line")]
    Empty,
    /// No such mnemonic.
    #[error("unknown instruction `{0}`")]
    UnknownMnemonic(String),
    /// The mnemonic belongs to an option that the core does not have.
    #[error("`{mnemonic}` belongs to the {isa} option, which this core does not have")]
    Disabled {
        /// The instruction.
        mnemonic: &'static str,
        /// The missing option.
        isa: Isa,
    },
    /// Too few or too many operands.
    #[error("`{mnemonic}` takes {wanted} operands, not {given}")]
    OperandCount {
        /// The instruction.
        mnemonic: &'static str,
        /// Operands the row has.
        wanted: usize,
        /// Operands on the line.
        given: usize,
    },
    /// An operand that is not what the row wants there.
    #[error("operand {number} of `{mnemonic}` is `{text}`, but must be {wanted}")]
    Operand {
        /// The instruction.
        mnemonic: &'static str,
        /// From 1.
        number: usize,
        /// As written.
        text: String,
        /// What may stand there.
        wanted: &'static str,
    },
    /// An operand whose value does not fit.
    #[error("operand {number} of `{mnemonic}`: {source}")]
    Value {
        /// The instruction.
        mnemonic: &'static str,
        /// From 1.
        number: usize,
        /// What is wrong with the value.
        source: OperandError,
    },
}

/// Encodes a row with operand values as [`Instruction::operand`] returns them, for an
/// instruction at `pc`.
///
/// # Errors
/// The number of operands is wrong or a value does not fit.
pub fn encode(row: &'static Row, values: &[i64], pc: u32) -> Result<Instruction, AsmError> {
    check_count(row, values.len())?;
    let mut word = row.bits();
    for (index, (operand, &value)) in row.operands().iter().zip(values).enumerate() {
        let raw = operand.encode(value, pc).map_err(|source| AsmError::Value {
            mnemonic: row.mnemonic(),
            number: index + 1,
            source,
        })?;
        word |= operand.place(raw);
    }
    Ok(Instruction::new(row, word))
}

/// Encodes one line of assembly text at `pc`. Targets are absolute addresses. A leading
/// underscore (no relaxation, to the GNU assembler) is accepted, and so are `mov`, and `rsr a2,
/// sar` for `rsr.sar a2`.
///
/// # Errors
/// See [`AsmError`].
pub fn encode_text(line: &str, pc: u32, isa: IsaSet) -> Result<Encoded, AsmError> {
    let words = split_line(line)?;
    let line = encode_words(&words.0, &words.1, isa)?;
    let mut values = Vec::with_capacity(line.operands.len());
    for (index, text) in line.operands.iter().enumerate() {
        let operand = &line.row.operands()[index];
        let value = match text {
            OperandText::Value(value) => *value,
            OperandText::Expression(text) => {
                parse_number(text).ok_or_else(|| wrong_operand(line.row, index, text, operand))?
            }
        };
        values.push(value);
    }
    Ok(encode(line.row, &values, pc)?.encoded())
}

/// An operand of a parsed line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OperandText {
    /// A register number (or a literal value fixed by an alias).
    Value(i64),
    /// A number, an address or an expression yet to be evaluated.
    Expression(String),
}

/// A parsed line: the row and its operands in the row's order.
#[derive(Clone, Debug)]
pub struct ParsedLine {
    /// The instruction.
    pub row: &'static Row,
    /// One for each operand of the row.
    pub operands: Vec<OperandText>,
}

/// Finds the row for a mnemonic and parses its register operands; numbers and addresses stay
/// text, so that an assembler can put symbols there.
///
/// # Errors
/// See [`AsmError`].
pub fn encode_words(mnemonic: &str, operands: &[String], isa: IsaSet) -> Result<ParsedLine, AsmError> {
    let mut operands = operands.to_vec();
    let row = find_row(mnemonic, &mut operands)?;
    if !isa.allows(row) {
        return Err(AsmError::Disabled { mnemonic: row.mnemonic(), isa: row.isa() });
    }
    check_count(row, operands.len())?;
    let mut parsed = Vec::with_capacity(operands.len());
    for (index, (text, operand)) in operands.iter().zip(row.operands()).enumerate() {
        let register = match operand.kind() {
            Kind::Imm(_) | Kind::Target(_) => {
                parsed.push(OperandText::Expression(text.clone()));
                continue;
            }
            Kind::Ar if text == "sp" => Some(1),
            Kind::Ar => register(text, "a", 16),
            Kind::Fr => register(text, "f", 16),
            Kind::Br => register(text, "b", 16),
            Kind::Br4 => boolean_group(text, 4),
            Kind::Br8 => boolean_group(text, 8),
            Kind::Mr | Kind::MrLow | Kind::MrHigh => register(text, "m", 4),
            Kind::Special => special_number(text).map(i64::from).or_else(|| parse_number(text)),
            Kind::User => user_number(text).map(i64::from).or_else(|| parse_number(text)),
        };
        let value = register.ok_or_else(|| wrong_operand(row, index, text, operand))?;
        parsed.push(OperandText::Value(value));
    }
    Ok(ParsedLine { row, operands: parsed })
}

/// Splits a line into its lower-case mnemonic and its operands.
pub(crate) fn split_line(line: &str) -> Result<(String, Vec<String>), AsmError> {
    let line = line.trim();
    let (mnemonic, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    if mnemonic.is_empty() {
        return Err(AsmError::Empty);
    }
    let rest = rest.trim();
    let operands =
        if rest.is_empty() { Vec::new() } else { rest.split(',').map(|text| text.trim().to_owned()).collect() };
    Ok((mnemonic.to_ascii_lowercase(), operands))
}

/// Resolves aliases and register suffixes; rearranges `operands` to the row's.
fn find_row(mnemonic: &str, operands: &mut Vec<String>) -> Result<&'static Row, AsmError> {
    let plain = mnemonic.strip_prefix('_').unwrap_or(mnemonic);
    if plain == "mov" && operands.len() == 2 {
        operands.push(operands[1].clone());
        return row_by_mnemonic("or").ok_or(AsmError::Empty);
    }
    let plain = match plain {
        "bbci.l" => "bbci",
        "bbsi.l" => "bbsi",
        other => other,
    };
    if let Some(row) = row_by_mnemonic(plain) {
        return Ok(row);
    }
    if let Some((stem, register)) = plain.split_once('.')
        && matches!(stem, "rsr" | "wsr" | "xsr" | "rur" | "wur")
        && let Some(row) = row_by_mnemonic(stem)
    {
        operands.push(register.to_owned());
        return Ok(row);
    }
    Err(AsmError::UnknownMnemonic(plain.to_owned()))
}

fn check_count(row: &'static Row, given: usize) -> Result<(), AsmError> {
    let wanted = row.operands().len();
    if wanted == given { Ok(()) } else { Err(AsmError::OperandCount { mnemonic: row.mnemonic(), wanted, given }) }
}

fn wrong_operand(row: &'static Row, index: usize, text: &str, operand: &Operand) -> AsmError {
    let wanted = match operand.kind() {
        Kind::Ar => "an address register a0..a15",
        Kind::Fr => "a floating-point register f0..f15",
        Kind::Br => "a boolean register b0..b15",
        Kind::Br4 => "four boolean registers: b0, b4, b8 or b12",
        Kind::Br8 => "eight boolean registers: b0 or b8",
        Kind::Mr => "a MAC16 register m0..m3",
        Kind::MrLow => "m0 or m1",
        Kind::MrHigh => "m2 or m3",
        Kind::Special => "a special register's name or number",
        Kind::User => "a user register's name or number",
        Kind::Imm(_) => "a number",
        Kind::Target(_) => "an address",
    };
    AsmError::Operand { mnemonic: row.mnemonic(), number: index + 1, text: text.to_owned(), wanted }
}

fn register(text: &str, prefix: &str, count: i64) -> Option<i64> {
    let digits = text.strip_prefix(prefix)?;
    if digits.len() > 2 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok().filter(|&number| number < count)
}

/// `b4`, or all of its registers: `b4:b5:b6:b7`.
fn boolean_group(text: &str, count: i64) -> Option<i64> {
    let mut registers = text.split(':').map(|part| register(part.trim(), "b", 16));
    let first = registers.next()??;
    let mut listed = 1;
    for register in registers {
        if register? != first + listed {
            return None;
        }
        listed += 1;
    }
    (first % count == 0 && (listed == 1 || listed == count)).then_some(first)
}

/// A decimal, `0x` hexadecimal, `0b` binary or `0o` octal number with an optional sign.
pub(crate) fn parse_number(text: &str) -> Option<i64> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, text[1..].trim_start()),
        b'+' => (false, text[1..].trim_start()),
        _ => (false, text),
    };
    if digits.starts_with(['-', '+']) {
        return None;
    }
    let lower = digits.to_ascii_lowercase();
    let magnitude = if let Some(hex) = lower.strip_prefix("0x") {
        i64::from_str_radix(hex, 16)
    } else if let Some(binary) = lower.strip_prefix("0b") {
        i64::from_str_radix(binary, 2)
    } else if let Some(octal) = lower.strip_prefix("0o") {
        i64::from_str_radix(octal, 8)
    } else {
        lower.parse()
    };
    let magnitude = magnitude.ok()?;
    if lower.contains(['+', '-']) {
        return None;
    }
    Some(if negative { -magnitude } else { magnitude })
}
