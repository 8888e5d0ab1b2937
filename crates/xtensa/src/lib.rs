//! Xtensa for tools: one instruction table ([`isa`]), and a decoder, encoder, assembler,
//! disassembler and emulator that all come from it.
//!
//! The crate stands alone: it knows the instruction set, not the devices built around it.
//!
//! ```
//! use outboard_xtensa::{Decoder, encode_text, isa::IsaSet};
//!
//! let code = encode_text("addi a12, a10, -59", 0x1000, IsaSet::lx())?;
//! assert_eq!(code.bytes(), [0xc2, 0xca, 0xc5]);
//! let back = Decoder::new(IsaSet::lx()).instruction(code.bytes())?;
//! assert_eq!(back.text(0x1000), "addi a12, a10, -59");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_possible_wrap,
    reason = "reinterpreting and masking 32-bit words is what an instruction set does"
)]

pub mod asm;
mod decode;
pub mod disasm;
mod encode;
pub mod engine;
pub mod isa;
pub mod length;
pub mod lines;
pub mod run;
mod softfloat;
mod text;

pub use decode::{Bundle, DecodeError, Decoded, Decoder, Instruction};
pub use encode::{AsmError, Encoded, OperandText, ParsedLine, encode, encode_text, encode_words};
