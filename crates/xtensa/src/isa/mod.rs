//! The instruction table: every supported instruction is one [`Row`]; decoding, encoding,
//! assembling, disassembling and executing all start from it.

mod fields;
mod op;
pub mod operand;
mod options;
pub mod registers;
mod row;
mod table;

pub use op::Op;
pub use operand::{Coding, Kind, Operand, OperandError, Relative};
pub use options::{Isa, IsaSet, UnknownIsa};
pub use row::{Flow, Row};
pub use table::{ROWS, row_by_mnemonic};
