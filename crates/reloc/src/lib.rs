//! Relocation types as data.
//!
//! One type is one [`Row`]: its number and name, how the value is formed ([`Expr`]), which bits it goes to ([`Field`]),
//! which values it takes ([`Range`]) and where it may stand ([`Site`]). Code walks rows and tests walk rows; there is no
//! `match` over type numbers anywhere.
//!
//! [`Recipe`] is the same row compiled into masks, so that one relocation costs a few arithmetic instructions whatever
//! its type. [`Recipe::apply`] checks the value, writes the field, reads the place back and compares; bits outside of the
//! field never change, and a refused value writes nothing.
//!
//! No allocation, no dependencies, no `unsafe`. The tables are explained in `docs/reference/relocations.md`.
//!
//! ```
//! use outboard_reloc::{Inputs, c7x};
//!
//! // A 49-bit address split over an instruction pair: the high part goes to bits 5..32 of its word.
//! let row = c7x::table().row(23).unwrap();
//! assert_eq!(row.name, "R_C7X_MVK49_HI12");
//! let recipe = row.recipe().unwrap();
//! let mut word = [0; 8];
//! let value = recipe.value(Inputs { symbol: 0x7e00_1234_5678, ..Inputs::default() });
//! recipe.apply(&mut word, 0, value).unwrap();
//! assert_eq!(u32::from_le_bytes([word[0], word[1], word[2], word[3]]), 0x7e00);
//! // One bit more than 49 is refused, and nothing is written.
//! assert!(recipe.apply(&mut word, 0, 1 << 49).is_err());
//! ```
#![no_std]
#![forbid(unsafe_code)]

mod apply;
mod row;
mod table;

pub mod aarch64;
pub mod c7x;
pub mod x86_64;
pub mod xtensa;

pub use apply::{ApplyError, Inputs, Recipe};
pub use row::{Expr, Field, Place, Range, Row, Site};
pub use table::Table;
