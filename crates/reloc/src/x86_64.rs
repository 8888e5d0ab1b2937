//! The relocation types that a `-shared` module for x86-64 carries into memory, and by name those that are refused.
//!
//! See `docs/reference/relocations.md`, "x86-64".

use crate::row::{data, nothing, refused};
use crate::{Expr, Range, Row, Site, Table};

/// The table of x86-64.
#[must_use]
pub fn table() -> &'static Table {
    &TABLE
}

static TABLE: Table = Table::new(&ROWS);

const NO_TLS: &str = "thread-local storage is not available on the device; build without `thread_local` variables";
const NO_COPY: &str = "copy relocations belong to executables; link the module with -shared";
const NO_IFUNC: &str = "functions chosen at load time are not supported; build without ifunc";
const NO_GOT: &str = "it is for the linker only; link the module with -shared";
const NO_SIZE: &str = "symbol sizes are not relocated; do not use SIZE expressions";

static ROWS: [Row; 36] = [
    nothing(0, "R_X86_64_NONE"),
    data(1, "R_X86_64_64", Expr::SymbolAddend, 8, Range::Any),
    code(2, "R_X86_64_PC32", 4, Range::Signed(32)),
    refused(3, "R_X86_64_GOT32", NO_GOT),
    code(4, "R_X86_64_PLT32", 4, Range::Signed(32)),
    refused(5, "R_X86_64_COPY", NO_COPY),
    data(6, "R_X86_64_GLOB_DAT", Expr::Symbol, 8, Range::Any),
    data(7, "R_X86_64_JUMP_SLOT", Expr::Symbol, 8, Range::Any),
    data(8, "R_X86_64_RELATIVE", Expr::BiasAddend, 8, Range::Any),
    refused(9, "R_X86_64_GOTPCREL", NO_GOT),
    data(10, "R_X86_64_32", Expr::SymbolAddend, 4, Range::Unsigned(32)),
    data(11, "R_X86_64_32S", Expr::SymbolAddend, 4, Range::Signed(32)),
    data(12, "R_X86_64_16", Expr::SymbolAddend, 2, Range::Either(16)),
    code(13, "R_X86_64_PC16", 2, Range::Signed(16)),
    data(14, "R_X86_64_8", Expr::SymbolAddend, 1, Range::Either(8)),
    code(15, "R_X86_64_PC8", 1, Range::Signed(8)),
    refused(16, "R_X86_64_DTPMOD64", NO_TLS),
    refused(17, "R_X86_64_DTPOFF64", NO_TLS),
    refused(18, "R_X86_64_TPOFF64", NO_TLS),
    refused(19, "R_X86_64_TLSGD", NO_TLS),
    refused(20, "R_X86_64_TLSLD", NO_TLS),
    refused(21, "R_X86_64_DTPOFF32", NO_TLS),
    refused(22, "R_X86_64_GOTTPOFF", NO_TLS),
    refused(23, "R_X86_64_TPOFF32", NO_TLS),
    code(24, "R_X86_64_PC64", 8, Range::Any),
    refused(25, "R_X86_64_GOTOFF64", NO_GOT),
    refused(26, "R_X86_64_GOTPC32", NO_GOT),
    refused(32, "R_X86_64_SIZE32", NO_SIZE),
    refused(33, "R_X86_64_SIZE64", NO_SIZE),
    refused(34, "R_X86_64_GOTPC32_TLSDESC", NO_TLS),
    refused(35, "R_X86_64_TLSDESC_CALL", NO_TLS),
    refused(36, "R_X86_64_TLSDESC", NO_TLS),
    refused(37, "R_X86_64_IRELATIVE", NO_IFUNC),
    refused(38, "R_X86_64_RELATIVE64", "it belongs to the 32-bit address model; build for x86-64"),
    refused(41, "R_X86_64_GOTPCRELX", NO_GOT),
    refused(42, "R_X86_64_REX_GOTPCRELX", NO_GOT),
];

const fn code(number: u32, name: &'static str, container: u8, range: Range) -> Row {
    Row { site: Site::Any, ..data(number, name, Expr::SymbolAddendPlace, container, range) }
}
