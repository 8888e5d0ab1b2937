//! The value of one element.

use customop::dtype::{ScalarType, bfloat_to_float, half_to_float};

/// A number of either kind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// An integer.
    Int(i64),
    /// A fraction.
    Float(f32),
}

/// The number behind the bits of an element, low bits first.
pub fn number(scalar_type: ScalarType, bits: u64) -> Number {
    match scalar_type {
        ScalarType::Byte => Number::Int(i64::from(bits as u8)),
        ScalarType::Char => Number::Int(i64::from(bits as u8 as i8)),
        ScalarType::Short => Number::Int(i64::from(bits as u16 as i16)),
        ScalarType::Int => Number::Int(i64::from(bits as u32 as i32)),
        ScalarType::Long => Number::Int(bits as i64),
        ScalarType::Half => Number::Float(half_to_float(bits as u16)),
        ScalarType::Float => Number::Float(f32::from_bits(bits as u32)),
        ScalarType::BFloat16 => Number::Float(bfloat_to_float(bits as u16)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_gives_its_value_and_ignores_what_lies_behind() {
        let noise = 0xdead_beef_0000_0000_u64;
        assert_eq!(number(ScalarType::Byte, noise | 0xff), Number::Int(255));
        assert_eq!(number(ScalarType::Char, noise | 0xff), Number::Int(-1));
        assert_eq!(number(ScalarType::Short, noise | 0x8000), Number::Int(-32768));
        assert_eq!(number(ScalarType::Int, noise | 0xffff_fffe), Number::Int(-2));
        assert_eq!(number(ScalarType::Long, u64::MAX), Number::Int(-1));
        assert_eq!(number(ScalarType::Half, noise | 0x3c00), Number::Float(1.0));
        assert_eq!(number(ScalarType::Float, noise | 0x3f80_0000), Number::Float(1.0));
        assert_eq!(number(ScalarType::BFloat16, noise | 0x3f80), Number::Float(1.0));
    }
}
