//! Element types: names, sizes, and the code and width by which DLPack and the wire number them.

use std::fmt;
use std::str::FromStr;

/// Type of one tensor element.
///
/// ```
/// use outboard_tensor::DType;
/// assert_eq!("float32".parse(), Ok(DType::Float32));
/// assert_eq!(DType::from_dlpack(2, 32), Ok(DType::Float32));
/// assert!(DType::from_dlpack(2, 33).is_err());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DType {
    /// IEEE 754 binary16.
    Float16,
    /// IEEE 754 binary32.
    Float32,
    /// IEEE 754 binary64.
    Float64,
    /// The upper half of a binary32.
    BFloat16,
    /// Signed, 8 bits.
    Int8,
    /// Signed, 16 bits.
    Int16,
    /// Signed, 32 bits.
    Int32,
    /// Signed, 64 bits.
    Int64,
    /// Unsigned, 8 bits.
    UInt8,
    /// Unsigned, 16 bits.
    UInt16,
    /// Unsigned, 32 bits.
    UInt32,
    /// Unsigned, 64 bits.
    UInt64,
    /// One byte, 0 or 1.
    Bool,
}

/// One element type: name, DLPack code, bits, and the kind letter of `.npy` files (none: the format has no such type).
struct Row {
    dtype: DType,
    name: &'static str,
    code: u8,
    bits: u8,
    npy: Option<char>,
}

const INT: u8 = 0;
const UINT: u8 = 1;
const FLOAT: u8 = 2;
const BFLOAT: u8 = 4;
const BOOL: u8 = 6;

const ROWS: [Row; 13] = [
    Row { dtype: DType::Float16, name: "float16", code: FLOAT, bits: 16, npy: Some('f') },
    Row { dtype: DType::Float32, name: "float32", code: FLOAT, bits: 32, npy: Some('f') },
    Row { dtype: DType::Float64, name: "float64", code: FLOAT, bits: 64, npy: Some('f') },
    Row { dtype: DType::BFloat16, name: "bfloat16", code: BFLOAT, bits: 16, npy: None },
    Row { dtype: DType::Int8, name: "int8", code: INT, bits: 8, npy: Some('i') },
    Row { dtype: DType::Int16, name: "int16", code: INT, bits: 16, npy: Some('i') },
    Row { dtype: DType::Int32, name: "int32", code: INT, bits: 32, npy: Some('i') },
    Row { dtype: DType::Int64, name: "int64", code: INT, bits: 64, npy: Some('i') },
    Row { dtype: DType::UInt8, name: "uint8", code: UINT, bits: 8, npy: Some('u') },
    Row { dtype: DType::UInt16, name: "uint16", code: UINT, bits: 16, npy: Some('u') },
    Row { dtype: DType::UInt32, name: "uint32", code: UINT, bits: 32, npy: Some('u') },
    Row { dtype: DType::UInt64, name: "uint64", code: UINT, bits: 64, npy: Some('u') },
    Row { dtype: DType::Bool, name: "bool", code: BOOL, bits: 8, npy: Some('b') },
];

/// A code and width that no element type has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("element type code {code} with {bits} bits is not known; the known ones are {known}", known = known_codes())]
pub struct UnknownDType {
    /// DLPack type code.
    pub code: i32,
    /// Bits of one element.
    pub bits: i32,
}

fn known_codes() -> String {
    let row = |row: &Row| format!("{} ({}, {})", row.name, row.code, row.bits);
    ROWS.iter().map(row).collect::<Vec<_>>().join(", ")
}

/// A name that no element type has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is not an element type; the known ones are {known}", known = DType::ALL.map(DType::name).join(", "))]
pub struct UnknownDTypeName {
    /// The name.
    pub name: String,
}

impl DType {
    /// Every element type.
    pub const ALL: [Self; 13] = {
        let mut all = [Self::Bool; 13];
        let mut index = 0;
        while index < ROWS.len() {
            all[index] = ROWS[index].dtype;
            index += 1;
        }
        all
    };

    fn row(self) -> &'static Row {
        // The rows stand in the order of the variants, which a test asserts.
        &ROWS[self as usize]
    }

    /// The name numpy gives it.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// Bits of one element.
    pub fn bits(self) -> u8 {
        self.row().bits
    }

    /// Bytes of one element.
    pub fn size(self) -> usize {
        usize::from(self.row().bits / 8)
    }

    /// DLPack type code and bits, as tensor descriptors carry them.
    pub fn dlpack(self) -> (u8, u8) {
        (self.row().code, self.row().bits)
    }

    /// The element type with this DLPack code and width (one lane).
    ///
    /// # Errors
    /// No element type has them; nothing is defaulted or truncated to eight bits.
    pub fn from_dlpack(code: i32, bits: i32) -> Result<Self, UnknownDType> {
        let found = ROWS.iter().find(|row| i32::from(row.code) == code && i32::from(row.bits) == bits);
        found.map(|row| row.dtype).ok_or(UnknownDType { code, bits })
    }

    /// The kind letter of `.npy` files, `None` when the format has no such type.
    pub(crate) fn npy_kind(self) -> Option<char> {
        self.row().npy
    }

    /// The element type with this `.npy` kind letter and size in bytes.
    pub(crate) fn from_npy_kind(kind: char, size: usize) -> Option<Self> {
        ROWS.iter().find(|row| row.npy == Some(kind) && usize::from(row.bits / 8) == size).map(|row| row.dtype)
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for DType {
    type Err = UnknownDTypeName;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        ROWS.iter()
            .find(|row| row.name == name)
            .map(|row| row.dtype)
            .ok_or_else(|| UnknownDTypeName { name: name.chars().take(64).collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variant_stands_at_its_own_row() {
        for (index, dtype) in DType::ALL.into_iter().enumerate() {
            assert_eq!(dtype as usize, index);
            assert_eq!(dtype.row().dtype, dtype);
            assert_eq!(dtype.name().parse(), Ok(dtype));
            assert_eq!(dtype.size() * 8, usize::from(dtype.bits()));
        }
    }

    #[test]
    fn p20_of_all_codes_and_widths_only_those_of_the_table_are_accepted() {
        let mut accepted = Vec::new();
        for code in 0..=255 {
            for bits in 0..=255 {
                if let Ok(dtype) = DType::from_dlpack(code, bits) {
                    assert_eq!(dtype.dlpack(), (u8::try_from(code).unwrap(), u8::try_from(bits).unwrap()));
                    accepted.push(dtype);
                }
            }
        }
        assert_eq!(accepted.len(), DType::ALL.len());
        for dtype in DType::ALL {
            assert!(accepted.contains(&dtype), "{dtype}");
        }
    }

    #[test]
    fn p20_codes_beyond_a_byte_are_refused_and_never_truncated_into_a_known_one() {
        for dtype in DType::ALL {
            let (code, bits) = (i32::from(dtype.dlpack().0), i32::from(dtype.dlpack().1));
            for (code, bits) in [(code + 256, bits), (code, bits + 256), (code - 256, bits), (code, -bits)] {
                assert_eq!(DType::from_dlpack(code, bits), Err(UnknownDType { code, bits }));
            }
        }
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        let refused = "float".parse::<DType>().unwrap_err().to_string();
        assert!(
            refused.starts_with("`float` is not an element type; the known ones are float16, float32"),
            "{refused}"
        );
    }
}
