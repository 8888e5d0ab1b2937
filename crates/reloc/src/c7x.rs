//! The 20 relocation types of the TI C7x (ELF machine 145).
//!
//! Code types always sit in a 32-bit little-endian instruction word. P is the address of that word rounded down to a
//! multiple of 4. Wide constants are split over two or three instructions, each with a type of its own; only the highest
//! part checks the range. See `docs/reference/relocations.md`, "C7x".

use crate::row::{NO_FIELD, Row, nothing, refused};
use crate::{Expr, Field, Place, Range, Site, Table};

/// The table of the C7x.
#[must_use]
pub fn table() -> &'static Table {
    &TABLE
}

static TABLE: Table = Table::new(&ROWS);

const NO_PCR16: &str = "the C7x loader defines no meaning for it; rebuild with a current C7000 linker";

static ROWS: [Row; 20] = [
    nothing(0, "R_C7X_NONE"),
    refused(4, "R_C7X_PCR16", NO_PCR16),
    absolute(16, "R_C7X_ABS16", 2, Range::Either(16)),
    absolute(17, "R_C7X_ABS32", 4, Range::Either(32)),
    absolute(18, "R_C7X_ABS64", 8, Range::Any),
    constant(19, "R_C7X_MVK32_LO5", 5, 14, 0, Range::Any),
    constant(20, "R_C7X_MVK32_HI27", 27, 5, 5, Range::Either(32)),
    constant(21, "R_C7X_MVK_LO10", 10, 14, 0, Range::Any),
    constant(22, "R_C7X_MVK64_MID27", 27, 5, 10, Range::Any),
    constant(23, "R_C7X_MVK49_HI12", 27, 5, 37, Range::Either(49)),
    constant(24, "R_C7X_MVK64_HI27", 27, 5, 37, Range::Any),
    relative(25, "R_C7X_PCR_OFFSET_LO5", 5, 20, 0, Range::Any, 0),
    relative(26, "R_C7X_PCR_OFFSET_HI27", 27, 5, 5, Range::Signed(32), 0),
    relative(27, "R_C7X_PCR_BRANCH_LO19", 19, 8, 2, Range::Signed(21), 2),
    relative(28, "R_C7X_PCR_BRANCH_LO24", 24, 8, 2, Range::Signed(26), 2),
    relative(29, "R_C7X_PCR_EBRANCH_LO19", 19, 8, 2, Range::Any, 2),
    relative(30, "R_C7X_PCR_EBRANCH_HI27", 27, 5, 21, Range::Signed(48), 2),
    Row { site: Site::Data, ..relative(31, "R_C7X_PREL30", 30, 0, 2, Range::Signed(32), 2) },
    relative(32, "R_C7X_PCR_OFFSET_ADDKPC_LO5", 5, 20, 0, Range::Any, 0),
    relative(33, "R_C7X_PCR_OFFSET_ADDKPC_HI27", 27, 5, 5, Range::Signed(32), 0),
];

const fn row(number: u32, name: &'static str, expr: Expr, field: Field, range: Range) -> Row {
    Row { number, name, expr, place: Place::Word, field, range, low_bits: 0, site: Site::Code }
}

const fn absolute(number: u32, name: &'static str, container: u8, range: Range) -> Row {
    let field = Field { container, width: container * 8, ..NO_FIELD };
    Row { site: Site::Data, ..row(number, name, Expr::SymbolAddend, field, range) }
}

const fn constant(number: u32, name: &'static str, width: u8, bit: u8, shift: u8, range: Range) -> Row {
    row(number, name, Expr::SymbolAddend, Field { container: 4, width, bit, shift }, range)
}

const fn relative(number: u32, name: &'static str, width: u8, bit: u8, shift: u8, range: Range, low_bits: u8) -> Row {
    let field = Field { container: 4, width, bit, shift };
    Row { low_bits, ..row(number, name, Expr::SymbolAddendPlace, field, range) }
}
