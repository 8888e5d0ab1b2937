//! The shape of one relocation type.

use crate::Recipe;

/// How the value of a relocation is formed. S = symbol, A = addend, P = place, B = load bias. All arithmetic is mod 2^64.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expr {
    /// Nothing is written.
    Nothing,
    /// S
    Symbol,
    /// S + A
    SymbolAddend,
    /// S + A − P
    SymbolAddendPlace,
    /// B + A
    BiasAddend,
    /// The type is known and refused; the text says why and what to do.
    Refused(&'static str),
}

/// How P is taken from the address of the place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The address itself.
    Exact,
    /// The address rounded down to a multiple of 4.
    Word,
}

/// The bits that a relocation writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// Size of the container in bytes: 0 (nothing is written), 1, 2, 4 or 8. Little-endian.
    pub container: u8,
    /// Width of the field in bits.
    pub width: u8,
    /// Lowest bit of the field inside the container.
    pub bit: u8,
    /// The value is shifted right (logically) by this before it is stored.
    pub shift: u8,
}

/// Which values a type takes, before the shift.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Range {
    /// Every value; the bits that do not fit are another relocation's business.
    Any,
    /// −2^(n−1) ..= 2^(n−1) − 1
    Signed(u8),
    /// 0 ..= 2^n − 1
    Unsigned(u8),
    /// −2^(n−1) ..= 2^n − 1: fits as a signed or as an unsigned number.
    Either(u8),
}

/// Where a type belongs. `outboard check` reports a type in a segment of the other sort.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Site {
    /// Anywhere.
    Any,
    /// In instructions.
    Code,
    /// In data.
    Data,
}

/// One relocation type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// Type number.
    pub number: u32,
    /// Name in the ABI's document.
    pub name: &'static str,
    /// How the value is formed.
    pub expr: Expr,
    /// How P is taken.
    pub place: Place,
    /// Which bits are written.
    pub field: Field,
    /// Which values are taken.
    pub range: Range,
    /// Low bits of the value that the field cannot hold; strict mode refuses values in which they are set.
    pub low_bits: u8,
    /// Where the type belongs.
    pub site: Site,
}

impl Row {
    /// The row compiled into masks; `None` for a type that is refused.
    #[must_use]
    pub const fn recipe(&self) -> Option<Recipe> {
        Recipe::compile(self)
    }

    /// Why this type is refused, when it is.
    #[must_use]
    pub const fn refused(&self) -> Option<&'static str> {
        match self.expr {
            Expr::Refused(why) => Some(why),
            _ => None,
        }
    }

    /// Smallest and largest accepted value; `None` when every value is.
    #[must_use]
    pub const fn bounds(&self) -> Option<(i128, i128)> {
        let one = 1_i128;
        match self.range {
            Range::Any | Range::Signed(64) | Range::Unsigned(64) | Range::Either(64) => None,
            Range::Signed(n) => Some((-(one << (n - 1)), (one << (n - 1)) - 1)),
            Range::Unsigned(n) => Some((0, (one << n) - 1)),
            Range::Either(n) => Some((-(one << (n - 1)), (one << n) - 1)),
        }
    }
}

pub(crate) const NO_FIELD: Field = Field { container: 0, width: 0, bit: 0, shift: 0 };

/// A field that fills its container.
pub(crate) const fn whole(container: u8) -> Field {
    Field { container, width: container * 8, bit: 0, shift: 0 }
}

/// A type that writes nothing.
pub(crate) const fn nothing(number: u32, name: &'static str) -> Row {
    Row {
        number,
        name,
        expr: Expr::Nothing,
        place: Place::Exact,
        field: NO_FIELD,
        range: Range::Any,
        low_bits: 0,
        site: Site::Any,
    }
}

/// A type that is refused by name.
pub(crate) const fn refused(number: u32, name: &'static str, why: &'static str) -> Row {
    Row { expr: Expr::Refused(why), ..nothing(number, name) }
}

/// A type that fills a whole container with data.
pub(crate) const fn data(number: u32, name: &'static str, expr: Expr, container: u8, range: Range) -> Row {
    Row { number, name, expr, place: Place::Exact, field: whole(container), range, low_bits: 0, site: Site::Data }
}
