//! The rows, by option group. A pattern lists the bits from the most significant down: `0` and
//! `1` are fixed, letters are operand bits; where a field is split, its upper-case letters are
//! the high part.

mod boolean;
mod cache;
mod control;
mod core;
mod density;
mod float;
mod mac16;
mod multiply;
mod system;
mod windowed;

use std::collections::HashMap;
use std::sync::OnceLock;

use super::Row;

/// What the row files use.
mod prelude {
    pub(super) use crate::isa::operand::Coding::{AddiN, B4Const, B4ConstU, MoviN, ShiftLeft};
    pub(super) use crate::isa::operand::Kind::{Ar, Br, Br4, Br8, Fr, Imm, Mr, MrHigh, MrLow, Special, User};
    pub(super) use crate::isa::operand::{Kind, Relative, signed, unsigned};
    pub(super) use crate::isa::row::row;
    pub(super) use crate::isa::{Flow, Isa, Op, Row};

    pub(super) const BRANCH: Kind = Kind::Target(Relative::Branch);
    pub(super) const FORWARD: Kind = Kind::Target(Relative::Forward);
    pub(super) const CALL: Kind = Kind::Target(Relative::Call);
    pub(super) const LITERAL: Kind = Kind::Target(Relative::Literal);
}

/// `"mnemonic" "pattern" Operation Option Flow, [letter kind, …];`
macro_rules! rows {
    ($($mnemonic:literal $pattern:literal $op:ident $isa:ident $flow:ident $(($increment:literal))?,
       [$($letter:ident $kind:expr),*];)*) => {
        pub(super) const ROWS: &[Row] = &[$(
            row(
                $mnemonic,
                $pattern,
                Op::$op,
                Isa::$isa,
                Flow::$flow $(($increment))?,
                &[$((letter(stringify!($letter)), $kind)),*],
            )
        ),*];
    };
}
use rows;

const fn letter(name: &str) -> char {
    name.as_bytes()[0] as char
}

const GROUPS: [&[Row]; 10] = [
    core::ROWS,
    control::ROWS,
    density::ROWS,
    windowed::ROWS,
    multiply::ROWS,
    boolean::ROWS,
    mac16::ROWS,
    float::ROWS,
    system::ROWS,
    cache::ROWS,
];

const COUNT: usize = {
    let mut count = 0;
    let mut group = 0;
    while group < GROUPS.len() {
        count += GROUPS[group].len();
        group += 1;
    }
    count
};

/// Every instruction.
pub static ROWS: [Row; COUNT] = {
    let mut rows = [Row::placeholder(); COUNT];
    let mut next = 0;
    let mut group = 0;
    while group < GROUPS.len() {
        let mut index = 0;
        while index < GROUPS[group].len() {
            rows[next] = GROUPS[group][index].with_index(next as u16);
            next += 1;
            index += 1;
        }
        group += 1;
    }
    rows
};

/// The row with a mnemonic (lower case, without the register suffix of `rsr.sar` and the like).
pub fn row_by_mnemonic(mnemonic: &str) -> Option<&'static Row> {
    static INDEX: OnceLock<HashMap<&'static str, &'static Row>> = OnceLock::new();
    INDEX.get_or_init(|| ROWS.iter().map(|row| (row.mnemonic(), row)).collect()).get(mnemonic).copied()
}
