//! Single instructions as JSON-friendly records: what `disasm --lines` and `asm --lines` answer.
//!
//! ```
//! use outboard_xtensa::lines::{AsmRequest, DisasmRequest, assemble, disassemble};
//! use outboard_xtensa::{Decoder, isa::IsaSet};
//!
//! let request = DisasmRequest { bytes: "106080".into(), pc: 0x500008 };
//! let answer = disassemble(&request, &Decoder::new(IsaSet::all()))?;
//! assert_eq!((answer.asm.as_str(), answer.length, answer.option), ("add a6, a0, a1", 3, "core"));
//! let back = assemble(&AsmRequest { asm: answer.asm, pc: request.pc }, IsaSet::all())?;
//! assert_eq!(back.bytes, "106080");
//! # Ok::<(), outboard_xtensa::lines::LineError>(())
//! ```

use crate::decode::{Bundle, DecodeError, Decoded, Decoder};
use crate::encode::{AsmError, encode_text, encode_words, split_line};
use crate::isa::IsaSet;

/// Bytes to disassemble.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize))]
pub struct DisasmRequest {
    /// The bytes in hexadecimal, in memory order.
    pub bytes: String,
    /// Their address.
    #[cfg_attr(feature = "serde", serde(default))]
    pub pc: u32,
}

/// A disassembled instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct DisasmAnswer {
    /// Its text.
    pub asm: String,
    /// Its length in bytes.
    pub length: u8,
    /// The option it belongs to; `flix` for a bundle.
    pub option: &'static str,
    /// Other readings of the same bytes, where the options allow several.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Vec::is_empty"))]
    pub ambiguous: Vec<String>,
}

/// Text to assemble.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize))]
pub struct AsmRequest {
    /// One instruction.
    pub asm: String,
    /// Its address.
    #[cfg_attr(feature = "serde", serde(default))]
    pub pc: u32,
}

/// An assembled instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct AsmAnswer {
    /// The bytes in hexadecimal, in memory order.
    pub bytes: String,
    /// Their number.
    pub length: u8,
    /// The option the instruction belongs to.
    pub option: &'static str,
}

/// Why a line has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    /// Not pairs of hexadecimal digits.
    #[error("`{0}` is not a sequence of hexadecimal bytes")]
    Hex(String),
    /// Not an instruction.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// Not assembly text.
    #[error(transparent)]
    Asm(#[from] AsmError),
}

/// Disassembles one instruction; bytes behind it are ignored.
///
/// # Errors
/// The bytes are no hexadecimal text or no instruction.
pub fn disassemble(request: &DisasmRequest, decoder: &Decoder) -> Result<DisasmAnswer, LineError> {
    let bytes = parse_hex(&request.bytes).ok_or_else(|| LineError::Hex(request.bytes.clone()))?;
    Ok(match decoder.decode(&bytes)? {
        Decoded::Instruction(instruction) => DisasmAnswer {
            asm: instruction.text(request.pc),
            length: instruction.length(),
            option: instruction.row().isa().name(),
            ambiguous: decoder.alternatives(instruction).map(|other| other.text(request.pc)).collect(),
        },
        Decoded::Bundle(bundle) => DisasmAnswer {
            asm: bundle_text(bundle, &bytes),
            length: bundle.length(),
            option: "flix",
            ambiguous: Vec::new(),
        },
    })
}

/// Assembles one instruction.
///
/// # Errors
/// See [`AsmError`].
pub fn assemble(request: &AsmRequest, isa: IsaSet) -> Result<AsmAnswer, LineError> {
    let encoded = encode_text(&request.asm, request.pc, isa)?;
    let (mnemonic, operands) = split_line(&request.asm)?;
    let row = encode_words(&mnemonic, &operands, isa)?.row;
    Ok(AsmAnswer { bytes: hex(encoded.bytes()), length: row.length(), option: row.isa().name() })
}

/// A bundle as text: its format, its length and its bytes.
pub(crate) fn bundle_text(bundle: Bundle, bytes: &[u8]) -> String {
    let length = usize::from(bundle.length());
    let shown = hex(bytes.get(..length).unwrap_or(bytes));
    format!(".flix {}, {length}, {shown}", bundle.format().name())
}

/// Bytes as hexadecimal text.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Hexadecimal text, spaces allowed between bytes, as bytes.
fn parse_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<char> = text.chars().filter(|character| !character.is_whitespace()).collect();
    if digits.is_empty() || !digits.len().is_multiple_of(2) {
        return None;
    }
    digits
        .chunks(2)
        .map(|pair| {
            let high = pair[0].to_digit(16)?;
            let low = pair[1].to_digit(16)?;
            u8::try_from(high << 4 | low).ok()
        })
        .collect()
}
