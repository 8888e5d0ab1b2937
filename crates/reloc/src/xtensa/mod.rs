//! The relocation types of Xtensa: of objects, and of the images that the GPSIMD prelinker moves.
//!
//! A slot type means "an operand of the instruction at the place". The rows here are the one case in which the type alone
//! says which bits: the 16-bit immediate of a 24-bit `const16`, bits 8..24 of the word. Who applies a row checks that the
//! instruction is one ([`takes_half`]). Slots 1..14 lie in FLIX bundles, whose bit positions are not known.
//!
//! See `docs/reference/gpsimd-prelink.md`, "Relocation types".

mod operand;

use crate::row::{data, nothing, refused};
use crate::{Expr, Field, Place, Range, Recipe, Row, Site, Table};

pub use operand::{Base, CONST16_HIGH, CONST16_LOW, Operand, OperandError};

/// The table of Xtensa.
#[must_use]
pub fn table() -> &'static Table {
    &TABLE
}

/// `R_XTENSA_NONE`: padding.
pub const NONE: u32 = 0;
/// `R_XTENSA_32`: a word that holds an address.
pub const WORD_ADDRESS: u32 = 1;
/// `R_XTENSA_PLT`: as [`WORD_ADDRESS`] where nothing is loaded at run time.
pub const PLT: u32 = 6;
/// `R_XTENSA_32_PCREL`: a word that holds a distance from itself.
pub const WORD_DISTANCE: u32 = 14;
/// `R_XTENSA_RELATIVE`: a word that holds a link address.
pub const RELATIVE: u32 = 5;
/// `R_XTENSA_SLOT0_OP`, the first of fifteen: the low half of an address.
pub const SLOT0_OP: u32 = 20;
/// `R_XTENSA_SLOT0_ALT`, the first of fifteen: the high half of an address.
pub const SLOT0_ALT: u32 = 35;
/// [`RELATIVE`] compiled: a word.
pub const WORD: Recipe = compiled(&data(RELATIVE, "R_XTENSA_RELATIVE", Expr::SymbolAddend, 4, Range::Any));
/// [`SLOT0_OP`] compiled: the low half of an address in a `const16`.
pub const LOW_HALF: Recipe = compiled(&half(SLOT0_OP, "R_XTENSA_SLOT0_OP", 0));
/// [`SLOT0_ALT`] compiled: the high half.
pub const HIGH_HALF: Recipe = compiled(&half(SLOT0_ALT, "R_XTENSA_SLOT0_ALT", 16));

/// Slots that have a pair of types.
pub const SLOTS: u32 = 15;

/// Which half of an address a slot type writes, and into which slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Half {
    /// Bits 0..16, `SLOTn_OP`.
    Low(u8),
    /// Bits 16..32, `SLOTn_ALT`.
    High(u8),
}

impl Half {
    /// The slot type `number`, `None` for other types.
    #[must_use]
    pub fn of(number: u32) -> Option<Self> {
        let slot =
            |first: u32| number.checked_sub(first).filter(|slot| *slot < SLOTS).and_then(|s| u8::try_from(s).ok());
        slot(SLOT0_OP).map(Self::Low).or_else(|| slot(SLOT0_ALT).map(Self::High))
    }

    /// The slot.
    #[must_use]
    pub const fn slot(self) -> u8 {
        match self {
            Self::Low(slot) | Self::High(slot) => slot,
        }
    }

    /// This half of `address`.
    #[must_use]
    pub const fn of_address(self, address: u32) -> u16 {
        let [low0, low1, high0, high1] = address.to_le_bytes();
        match self {
            Self::Low(_) => u16::from_le_bytes([low0, low1]),
            Self::High(_) => u16::from_le_bytes([high0, high1]),
        }
    }
}

/// Whether the instruction that starts with `byte` is a 24-bit `const16`, the only one that takes half an address.
#[must_use]
pub const fn takes_half(byte: u8) -> bool {
    byte & 0xf == 4
}

static TABLE: Table = Table::new(&ROWS);

const FOR_LOADERS: &str = "it belongs to dynamically linked programs; link the module statically";
const OLD: &str = "it is a type of the first Xtensa tools; assemble with newer ones";
const NO_TLS: &str = "thread-local storage is not available on the device; build without `thread_local` variables";
const FLIX: &str =
    "the place is a slot of a FLIX bundle and the bit positions of its operands are not known; supply a slot table";

static ROWS: [Row; 61] = [
    nothing(0, "R_XTENSA_NONE"),
    data(1, "R_XTENSA_32", Expr::SymbolAddend, 4, Range::Any),
    refused(2, "R_XTENSA_RTLD", FOR_LOADERS),
    refused(3, "R_XTENSA_GLOB_DAT", FOR_LOADERS),
    refused(4, "R_XTENSA_JMP_SLOT", FOR_LOADERS),
    Row { site: Site::Any, ..data(5, "R_XTENSA_RELATIVE", Expr::SymbolAddend, 4, Range::Any) },
    data(6, "R_XTENSA_PLT", Expr::SymbolAddend, 4, Range::Any),
    refused(8, "R_XTENSA_OP0", OLD),
    refused(9, "R_XTENSA_OP1", OLD),
    refused(10, "R_XTENSA_OP2", OLD),
    nothing(11, "R_XTENSA_ASM_EXPAND"),
    nothing(12, "R_XTENSA_ASM_SIMPLIFY"),
    data(14, "R_XTENSA_32_PCREL", Expr::SymbolAddendPlace, 4, Range::Any),
    nothing(15, "R_XTENSA_GNU_VTINHERIT"),
    nothing(16, "R_XTENSA_GNU_VTENTRY"),
    nothing(17, "R_XTENSA_DIFF8"),
    nothing(18, "R_XTENSA_DIFF16"),
    nothing(19, "R_XTENSA_DIFF32"),
    half(20, "R_XTENSA_SLOT0_OP", 0),
    refused(21, "R_XTENSA_SLOT1_OP", FLIX),
    refused(22, "R_XTENSA_SLOT2_OP", FLIX),
    refused(23, "R_XTENSA_SLOT3_OP", FLIX),
    refused(24, "R_XTENSA_SLOT4_OP", FLIX),
    refused(25, "R_XTENSA_SLOT5_OP", FLIX),
    refused(26, "R_XTENSA_SLOT6_OP", FLIX),
    refused(27, "R_XTENSA_SLOT7_OP", FLIX),
    refused(28, "R_XTENSA_SLOT8_OP", FLIX),
    refused(29, "R_XTENSA_SLOT9_OP", FLIX),
    refused(30, "R_XTENSA_SLOT10_OP", FLIX),
    refused(31, "R_XTENSA_SLOT11_OP", FLIX),
    refused(32, "R_XTENSA_SLOT12_OP", FLIX),
    refused(33, "R_XTENSA_SLOT13_OP", FLIX),
    refused(34, "R_XTENSA_SLOT14_OP", FLIX),
    half(35, "R_XTENSA_SLOT0_ALT", 16),
    refused(36, "R_XTENSA_SLOT1_ALT", FLIX),
    refused(37, "R_XTENSA_SLOT2_ALT", FLIX),
    refused(38, "R_XTENSA_SLOT3_ALT", FLIX),
    refused(39, "R_XTENSA_SLOT4_ALT", FLIX),
    refused(40, "R_XTENSA_SLOT5_ALT", FLIX),
    refused(41, "R_XTENSA_SLOT6_ALT", FLIX),
    refused(42, "R_XTENSA_SLOT7_ALT", FLIX),
    refused(43, "R_XTENSA_SLOT8_ALT", FLIX),
    refused(44, "R_XTENSA_SLOT9_ALT", FLIX),
    refused(45, "R_XTENSA_SLOT10_ALT", FLIX),
    refused(46, "R_XTENSA_SLOT11_ALT", FLIX),
    refused(47, "R_XTENSA_SLOT12_ALT", FLIX),
    refused(48, "R_XTENSA_SLOT13_ALT", FLIX),
    refused(49, "R_XTENSA_SLOT14_ALT", FLIX),
    refused(50, "R_XTENSA_TLSDESC_FN", NO_TLS),
    refused(51, "R_XTENSA_TLSDESC_ARG", NO_TLS),
    refused(52, "R_XTENSA_TLS_DTPOFF", NO_TLS),
    refused(53, "R_XTENSA_TLS_TPOFF", NO_TLS),
    refused(54, "R_XTENSA_TLS_FUNC", NO_TLS),
    refused(55, "R_XTENSA_TLS_ARG", NO_TLS),
    refused(56, "R_XTENSA_TLS_CALL", NO_TLS),
    nothing(57, "R_XTENSA_PDIFF8"),
    nothing(58, "R_XTENSA_PDIFF16"),
    nothing(59, "R_XTENSA_PDIFF32"),
    nothing(60, "R_XTENSA_NDIFF8"),
    nothing(61, "R_XTENSA_NDIFF16"),
    nothing(62, "R_XTENSA_NDIFF32"),
];

const fn compiled(row: &Row) -> Recipe {
    match Recipe::compile(row) {
        Some(recipe) => recipe,
        None => panic!("a row that is refused"),
    }
}

const fn half(number: u32, name: &'static str, shift: u8) -> Row {
    Row {
        number,
        name,
        expr: Expr::SymbolAddend,
        place: Place::Exact,
        field: Field { container: 4, width: 16, bit: 8, shift },
        range: Range::Unsigned(32),
        low_bits: 0,
        site: Site::Code,
    }
}
