//! Element types: the number in an argument record, and the number the tensor library gives the same type.

/// An element type as an argument record numbers it.
pub mod isa {
    /// Signed, 8 bits.
    pub const INT8: u8 = 0x2;
    /// Unsigned, 8 bits.
    pub const UINT8: u8 = 0x3;
    /// Signed, 16 bits.
    pub const INT16: u8 = 0x4;
    /// The upper half of a binary32.
    pub const BF16: u8 = 0x6;
    /// IEEE 754 binary16.
    pub const FP16: u8 = 0x7;
    /// Signed, 32 bits.
    pub const INT32: u8 = 0x8;
    /// IEEE 754 binary32.
    pub const FP32: u8 = 0xa;
    /// Signed, 64 bits.
    pub const INT64: u8 = 0xc;
}

/// An element type as the tensor library numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ScalarType {
    /// Unsigned, 8 bits.
    Byte = 0,
    /// Signed, 8 bits.
    Char = 1,
    /// Signed, 16 bits.
    Short = 2,
    /// Signed, 32 bits.
    Int = 3,
    /// Signed, 64 bits.
    Long = 4,
    /// IEEE 754 binary16.
    Half = 5,
    /// IEEE 754 binary32.
    Float = 6,
    /// The upper half of a binary32.
    BFloat16 = 15,
}

impl ScalarType {
    /// The type behind a number of an argument record; `None` where the runtime aborts.
    #[must_use]
    pub const fn of_isa(code: u8) -> Option<Self> {
        Some(match code {
            isa::INT8 => Self::Char,
            isa::UINT8 => Self::Byte,
            isa::INT16 => Self::Short,
            isa::BF16 => Self::BFloat16,
            isa::FP16 => Self::Half,
            isa::INT32 => Self::Int,
            isa::FP32 => Self::Float,
            isa::INT64 => Self::Long,
            _ => return None,
        })
    }

    /// The type that the tensor library gives a number.
    #[must_use]
    pub const fn of_number(number: u8) -> Option<Self> {
        Some(match number {
            0 => Self::Byte,
            1 => Self::Char,
            2 => Self::Short,
            3 => Self::Int,
            4 => Self::Long,
            5 => Self::Half,
            6 => Self::Float,
            15 => Self::BFloat16,
            _ => return None,
        })
    }

    /// Bytes of an element.
    #[must_use]
    pub const fn size(self) -> u32 {
        match self {
            Self::Byte | Self::Char => 1,
            Self::Short | Self::Half | Self::BFloat16 => 2,
            Self::Int | Self::Float => 4,
            Self::Long => 8,
        }
    }
}

/// The binary32 with the value of a binary16.
#[must_use]
pub fn half_to_float(bits: u16) -> f32 {
    let sign = u32::from(bits & 0x8000) << 16;
    let exponent = u32::from(bits >> 10 & 0x1f);
    let fraction = u32::from(bits & 0x3ff);
    let word = match (exponent, fraction) {
        (0, 0) => sign,
        (0, _) => {
            // The leading one becomes the hidden bit.
            let shift = fraction.leading_zeros() - 21;
            sign | (113 - shift) << 23 | (fraction << shift & 0x3ff) << 13
        }
        (0x1f, _) => sign | 0x7f80_0000 | fraction << 13,
        _ => sign | (exponent + 112) << 23 | fraction << 13,
    };
    f32::from_bits(word)
}

/// The binary32 with the value of a bfloat16.
#[must_use]
pub fn bfloat_to_float(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_of_256_codes_are_types_and_the_others_are_not() {
        let known =
            (0..=255).filter_map(|code| ScalarType::of_isa(code).map(|scalar| (code, scalar as u8, scalar.size())));
        let expected = [(2, 1, 1), (3, 0, 1), (4, 2, 2), (6, 15, 2), (7, 5, 2), (8, 3, 4), (10, 6, 4), (12, 4, 8)];
        assert!(known.eq(expected));
    }

    #[test]
    fn the_numbers_of_the_tensor_library_are_those_eight_types() {
        let known = (0..=255).filter_map(|number| ScalarType::of_number(number).map(|scalar| (number, scalar as u8)));
        let numbers = [0, 1, 2, 3, 4, 5, 6, 15];
        assert!(known.eq(numbers.map(|number| (number, number))));
    }

    #[test]
    fn halves_become_the_same_value() {
        for (bits, value) in
            [(0x3c00, 1.0), (0xc000, -2.0), (0x0001, 5.960_464_5e-8), (0x03ff, 6.097_555e-5), (0x7bff, 65504.0)]
        {
            assert_eq!(half_to_float(bits), value);
        }
        assert!(half_to_float(0x7e00).is_nan() && half_to_float(0xfc00) == f32::NEG_INFINITY);
        assert_eq!(bfloat_to_float(0x4049), 3.140_625);
    }
}
