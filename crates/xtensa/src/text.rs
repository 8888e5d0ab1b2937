//! Instructions as text, in the notation of the GNU tools.

use core::fmt::Write as _;

use crate::decode::Instruction;
use crate::isa::registers::{special_name, user_name};
use crate::isa::{Kind, Op, Operand};

impl Instruction {
    /// The mnemonic with the special or user register it names: `rsr.sar`. Registers without a
    /// name keep their number as the last operand of [`Instruction::text`].
    pub fn mnemonic(&self) -> String {
        let row = self.row();
        match self.register_name() {
            Some(name) => format!("{}.{name}", row.mnemonic()),
            None => row.mnemonic().to_owned(),
        }
    }

    /// The instruction at `pc` as assembly text; targets are absolute addresses.
    pub fn text(&self, pc: u32) -> String {
        self.text_with(pc, |_| None)
    }

    /// As [`Instruction::text`], with `label` naming the target or literal addresses it knows.
    pub fn text_with(&self, pc: u32, label: impl Fn(u32) -> Option<String>) -> String {
        let mut text = self.mnemonic();
        let named = self.register_name().is_some();
        let mut separator = " ";
        for operand in self.row().operands() {
            if named && matches!(operand.kind(), Kind::Special | Kind::User) {
                continue;
            }
            text.push_str(separator);
            separator = ", ";
            match operand.kind() {
                Kind::Target(_) => {
                    let target = operand.value(self.word(), pc);
                    match label(target) {
                        Some(name) => text.push_str(&name),
                        None => write_number(&mut text, target),
                    }
                }
                _ => write_operand(&mut text, operand, operand.value(self.word(), pc)),
            }
        }
        text
    }

    fn register_name(&self) -> Option<&'static str> {
        let row = self.row();
        let operand = row.register_operand()?;
        let number = operand.raw(self.word()) as u8;
        match operand.kind() {
            Kind::Special => special_name(number, row.op() != Op::Rsr),
            _ => user_name(number),
        }
    }
}

fn write_operand(text: &mut String, operand: &Operand, value: u32) {
    let mut put = |arguments: core::fmt::Arguments<'_>| {
        // Writing to a string cannot fail.
        let _ = text.write_fmt(arguments);
    };
    match operand.kind() {
        Kind::Ar => put(format_args!("a{value}")),
        Kind::Fr => put(format_args!("f{value}")),
        Kind::Br => put(format_args!("b{value}")),
        Kind::Br4 | Kind::Br8 => {
            let count = if operand.kind() == Kind::Br4 { 4 } else { 8 };
            put(format_args!("b{value}"));
            for register in value + 1..value + count {
                put(format_args!(":b{register}"));
            }
        }
        Kind::Mr | Kind::MrLow | Kind::MrHigh => put(format_args!("m{value}")),
        Kind::Special | Kind::User => put(format_args!("{value}")),
        Kind::Imm(_) | Kind::Target(_) => write_number(text, value),
    }
}

/// Small numbers (−255..=255) in decimal, others in hexadecimal as 32 bits.
fn write_number(text: &mut String, value: u32) {
    let signed = value as i32;
    let _ = if signed.unsigned_abs() < 256 { write!(text, "{signed}") } else { write!(text, "{value:#x}") };
}
