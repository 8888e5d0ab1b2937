//! Check, write, read back, compare.

use core::fmt;
use core::hint::black_box;

use crate::{Expr, Place, Range, Row};

/// What a relocation's value is made of. All arithmetic is mod 2^64.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Inputs {
    /// S: address of the symbol.
    pub symbol: u64,
    /// A: addend.
    pub addend: i64,
    /// P: run address of the place, not yet rounded.
    pub place: u64,
    /// B: load address minus link address.
    pub bias: u64,
}

/// Why a relocation was not applied. Nothing was written, except for [`ApplyError::ReadBack`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApplyError {
    /// The value is outside of the row's range.
    Overflow,
    /// Strict mode: low bits that the field cannot hold are set.
    LowBits,
    /// The container does not lie inside the bytes given.
    OutOfBounds,
    /// The bytes read back differ from the bytes written.
    ReadBack,
}

impl fmt::Display for ApplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Overflow => "the value does not fit the field",
            Self::LowBits => "the target is not aligned: low bits that the field cannot hold are set",
            Self::OutOfBounds => "the place is not inside the segment",
            Self::ReadBack => "the bytes read back differ from the bytes written",
        })
    }
}

impl core::error::Error for ApplyError {}

/// A [`Row`] compiled into masks.
///
/// Every type is the same straight line of arithmetic: `value = (S & s) + (A & a) + (B & b) − (P & p)`, one comparison
/// for the range (`value + bias ≤ span` as unsigned numbers), one masked store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recipe {
    symbol: u64,
    addend: u64,
    place: u64,
    bias: u64,
    offset: u64,
    span: u64,
    mask: u64,
    low_mask: u64,
    shift: u8,
    bit: u8,
    size: u8,
}

impl Recipe {
    /// Writes nothing and takes every value.
    pub(crate) const NOTHING: Self = Self {
        symbol: 0,
        addend: 0,
        place: 0,
        bias: 0,
        offset: 0,
        span: u64::MAX,
        mask: 0,
        low_mask: 0,
        shift: 0,
        bit: 0,
        size: 0,
    };

    pub(crate) const fn compile(row: &Row) -> Option<Self> {
        let on = u64::MAX;
        let place = match row.place {
            Place::Exact => on,
            Place::Word => !3,
        };
        let (symbol, addend, place, bias) = match row.expr {
            Expr::Refused(_) => return None,
            Expr::Nothing => (0, 0, 0, 0),
            Expr::Symbol => (on, 0, 0, 0),
            Expr::SymbolAddend => (on, on, 0, 0),
            Expr::SymbolAddendPlace => (on, on, place, 0),
            Expr::BiasAddend => (0, on, 0, on),
        };
        let (offset, span) = match row.range {
            Range::Any | Range::Signed(64) | Range::Unsigned(64) | Range::Either(64) => (0, on),
            Range::Signed(n) => (1 << (n - 1), (1 << n) - 1),
            Range::Unsigned(n) => (0, (1 << n) - 1),
            Range::Either(n) => (1 << (n - 1), (1 << n) + (1 << (n - 1)) - 1),
        };
        let field = row.field;
        let mask = match field.width {
            0 => 0,
            64 => on,
            width => ((1 << width) - 1) << field.bit,
        };
        let low_mask = (1 << row.low_bits) - 1;
        Some(Self {
            symbol,
            addend,
            place,
            bias,
            offset,
            span,
            mask,
            low_mask,
            shift: field.shift,
            bit: field.bit,
            size: field.container,
        })
    }

    /// Size of the container in bytes, 0 for a type that writes nothing.
    #[inline]
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.size as u64
    }

    /// The value of a relocation, before range check and shift.
    #[inline]
    #[must_use]
    pub const fn value(&self, inputs: Inputs) -> u64 {
        (inputs.symbol & self.symbol)
            .wrapping_add(inputs.addend.cast_unsigned() & self.addend)
            .wrapping_add(inputs.bias & self.bias)
            .wrapping_sub(inputs.place & self.place)
    }

    /// Whether `value` is inside the row's range.
    #[inline]
    #[must_use]
    pub const fn accepts(&self, value: u64) -> bool {
        value.wrapping_add(self.offset) <= self.span
    }

    /// The low bits set in `value` that the field cannot hold; strict mode refuses values that have any.
    #[inline]
    #[must_use]
    pub const fn dropped_bits(&self, value: u64) -> u64 {
        value & self.low_mask
    }

    /// The container with the field replaced; all other bits as in `before`.
    #[inline]
    #[must_use]
    pub const fn insert(&self, before: u64, value: u64) -> u64 {
        (before & !self.mask) | (((value >> (self.shift & 63)) << (self.bit & 63)) & self.mask)
    }

    /// The field's bits in `container`, moved back to where they stand in the value (not sign-extended).
    #[inline]
    #[must_use]
    pub const fn extract(&self, container: u64) -> u64 {
        ((container & self.mask) >> self.bit) << self.shift
    }

    /// The bits of a value that the field holds.
    #[must_use]
    pub const fn covers(&self) -> u64 {
        (self.mask >> self.bit) << self.shift
    }

    /// Checks `value`, writes it to the container at `offset` of `bytes`, reads the container back and compares.
    ///
    /// # Errors
    ///
    /// An [`ApplyError`]; nothing is written unless it is [`ApplyError::ReadBack`].
    #[inline]
    pub fn apply(&self, bytes: &mut [u8], offset: usize, value: u64) -> Result<(), ApplyError> {
        if !self.accepts(value) {
            return Err(ApplyError::Overflow);
        }
        let tail = bytes.get_mut(offset..).ok_or(ApplyError::OutOfBounds)?;
        match tail.first_chunk_mut::<8>() {
            Some(site) => self.store(site, value),
            None => self.store_short(tail, value),
        }
    }

    /// Writes the field of a value that [`Recipe::accepts`] to a container at the start of `site`, reads all eight bytes
    /// back and compares. The bytes behind a smaller container are read and compared, never changed.
    ///
    /// # Errors
    ///
    /// [`ApplyError::ReadBack`].
    #[inline(always)]
    pub fn store(&self, site: &mut [u8; 8], value: u64) -> Result<(), ApplyError> {
        let after = self.insert(u64::from_le_bytes(*site), value);
        *site = after.to_le_bytes();
        // The barrier makes the compiler perform the store and the load that the comparison is about.
        if u64::from_le_bytes(*black_box(&*site)) == after { Ok(()) } else { Err(ApplyError::ReadBack) }
    }

    /// The last bytes of a segment: only the container itself is touched.
    #[cold]
    fn store_short(&self, tail: &mut [u8], value: u64) -> Result<(), ApplyError> {
        let site = tail.get_mut(..usize::from(self.size)).ok_or(ApplyError::OutOfBounds)?;
        let mut padded = [0; 8];
        for (to, from) in padded.iter_mut().zip(site.iter()) {
            *to = *from;
        }
        self.store(&mut padded, value)?;
        for (to, from) in site.iter_mut().zip(padded) {
            *to = from;
        }
        let same = black_box(&*site).iter().zip(padded).all(|(found, written)| *found == written);
        if same { Ok(()) } else { Err(ApplyError::ReadBack) }
    }
}
