//! The relocation types that a `-shared` module for AArch64 carries into memory, and by name those that are refused.
//!
//! See `docs/reference/relocations.md`, "AArch64".

use crate::row::{data, nothing, refused};
use crate::{Expr, Range, Row, Table};

/// The table of AArch64.
#[must_use]
pub fn table() -> &'static Table {
    &TABLE
}

static TABLE: Table = Table::new(&ROWS);

const NO_TLS: &str = "thread-local storage is not available on the device; build without `thread_local` variables";
const NO_COPY: &str = "copy relocations belong to executables; link the module with -shared";
const NO_IFUNC: &str = "functions chosen at load time are not supported; build without ifunc";

static ROWS: [Row; 16] = [
    nothing(0, "R_AARCH64_NONE"),
    data(257, "R_AARCH64_ABS64", Expr::SymbolAddend, 8, Range::Any),
    data(258, "R_AARCH64_ABS32", Expr::SymbolAddend, 4, Range::Either(32)),
    data(259, "R_AARCH64_ABS16", Expr::SymbolAddend, 2, Range::Either(16)),
    data(260, "R_AARCH64_PREL64", Expr::SymbolAddendPlace, 8, Range::Any),
    data(261, "R_AARCH64_PREL32", Expr::SymbolAddendPlace, 4, Range::Either(32)),
    data(262, "R_AARCH64_PREL16", Expr::SymbolAddendPlace, 2, Range::Either(16)),
    refused(1024, "R_AARCH64_COPY", NO_COPY),
    data(1025, "R_AARCH64_GLOB_DAT", Expr::SymbolAddend, 8, Range::Any),
    data(1026, "R_AARCH64_JUMP_SLOT", Expr::SymbolAddend, 8, Range::Any),
    data(1027, "R_AARCH64_RELATIVE", Expr::BiasAddend, 8, Range::Any),
    refused(1028, "R_AARCH64_TLS_DTPMOD", NO_TLS),
    refused(1029, "R_AARCH64_TLS_DTPREL", NO_TLS),
    refused(1030, "R_AARCH64_TLS_TPREL", NO_TLS),
    refused(1031, "R_AARCH64_TLSDESC", NO_TLS),
    refused(1032, "R_AARCH64_IRELATIVE", NO_IFUNC),
];
