//! The weights.bin format: a strict, bounded reader.
//!
//! A stream of constants: u64 count, then for each zero bytes as padding, an i32 type index and a payload
//! (`docs/reference/c7x-runtime.md`, "weights.bin"). The reader allocates no more than the file can back, checks every
//! length against the bytes that are there, and requires the data length to be what shape and type say.

use alloc::vec::Vec;

/// Most constants of one file.
pub const MAX_CONSTANTS: u64 = 4096;
/// Most dimensions of a tensor.
pub const MAX_DIMS: usize = 16;
const TENSOR_MAGIC: u64 = 0xDD5E_40F0_96B4_A13F;

/// A constant; the data is borrowed from the file.
#[derive(Debug, Clone, PartialEq)]
pub enum Constant<'a> {
    /// A tensor of raw little-endian data.
    Tensor(TensorConstant<'a>),
    /// A shape.
    Shape(Vec<i64>),
    /// A string, not terminated.
    Str(&'a [u8]),
    /// An integer.
    Int(i64),
    /// A floating-point number.
    Float(f64),
    /// An element type: code, bits, lanes.
    DataType([u8; 4]),
}

/// A tensor of a weights file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorConstant<'a> {
    /// Element kind: 0 int, 1 uint, 2 float, …
    pub code: u8,
    /// Bits of an element.
    pub bits: u8,
    /// Lanes of an element.
    pub lanes: u16,
    /// Dimensions.
    pub shape: Vec<i64>,
    /// Offset of the data in the file.
    pub offset: usize,
    /// The data.
    pub data: &'a [u8],
}

/// Why a weights file was refused; numbers as the original runtime has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WeightsError {
    /// A tensor does not start with its magic.
    #[error(
        "weights: constant {constant} at offset {offset:#x}: tensor magic {found:#018x}, expected {TENSOR_MAGIC:#018x}"
    )]
    BadMagic {
        /// Index of the constant.
        constant: u64,
        /// Offset of the magic.
        offset: usize,
        /// What stands there.
        found: u64,
    },
    /// More constants than the runtime holds.
    #[error("weights: {0} constants, the runtime holds {MAX_CONSTANTS}")]
    TooMany(u64),
    /// A tensor with an impossible number of dimensions.
    #[error("weights: constant {constant} at offset {offset:#x}: {ndim} dimensions, 0 to {MAX_DIMS} are allowed")]
    Dimensions {
        /// Index of the constant.
        constant: u64,
        /// Offset of the field.
        offset: usize,
        /// The value.
        ndim: i64,
    },
    /// A type index the runtime does not know.
    #[error(
        "weights: constant {constant} at offset {offset:#x}: unknown type {index} (known: 1 Int, 3 Float, 5 DataType, 65 Str, 69 Shape, 70 Tensor)"
    )]
    UnknownType {
        /// Index of the constant.
        constant: u64,
        /// Offset of the type.
        offset: usize,
        /// The value.
        index: i32,
    },
    /// The file ends inside a constant.
    #[error("weights: constant {constant} at offset {offset:#x}: {needed} more bytes needed, {left} left")]
    Truncated {
        /// Index of the constant.
        constant: u64,
        /// Where the bytes were needed.
        offset: usize,
        /// Bytes needed.
        needed: u64,
        /// Bytes left.
        left: usize,
    },
    /// Data length, shape and type disagree.
    #[error(
        "weights: constant {constant} at offset {offset:#x}: {data_bytes} bytes of data, but shape and type make {expected}"
    )]
    DataSize {
        /// Index of the constant.
        constant: u64,
        /// Offset of the length field.
        offset: usize,
        /// The length field.
        data_bytes: i64,
        /// What shape and type say.
        expected: u64,
    },
}

impl WeightsError {
    /// Result code of the original runtime.
    pub fn code(&self) -> i32 {
        match self {
            Self::BadMagic { .. } => -2,
            Self::TooMany(_) | Self::Dimensions { .. } => -3,
            Self::UnknownType { .. } => -6,
            Self::Truncated { .. } | Self::DataSize { .. } => -7,
        }
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    constant: u64,
}

impl<'a> Reader<'a> {
    fn take(&mut self, len: u64) -> Result<&'a [u8], WeightsError> {
        let left = self.bytes.len() - self.at;
        let size = usize::try_from(len).ok().filter(|size| *size <= left);
        let size =
            size.ok_or(WeightsError::Truncated { constant: self.constant, offset: self.at, needed: len, left })?;
        let taken = &self.bytes[self.at..self.at + size];
        self.at += size;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], WeightsError> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N as u64)?);
        Ok(out)
    }

    fn u64(&mut self) -> Result<u64, WeightsError> {
        self.array().map(u64::from_le_bytes)
    }

    fn i64(&mut self) -> Result<i64, WeightsError> {
        self.array().map(i64::from_le_bytes)
    }

    fn i32(&mut self) -> Result<i32, WeightsError> {
        self.array().map(i32::from_le_bytes)
    }

    /// `count` dimensions; the bytes are checked to exist before anything is allocated.
    fn dims(&mut self, count: u64) -> Result<Vec<i64>, WeightsError> {
        let bytes = self.take(count.saturating_mul(8))?;
        let word = |chunk: &[u8]| {
            let mut out = [0; 8];
            out.copy_from_slice(chunk);
            i64::from_le_bytes(out)
        };
        Ok(bytes.chunks_exact(8).map(word).collect())
    }

    /// Skips the zero bytes that pad a constant; no type index starts with a zero byte.
    fn skip_padding(&mut self) {
        while self.bytes.get(self.at) == Some(&0) {
            self.at += 1;
        }
    }

    fn tensor(&mut self) -> Result<TensorConstant<'a>, WeightsError> {
        let constant = self.constant;
        let offset = self.at;
        let magic = self.u64()?;
        if magic != TENSOR_MAGIC {
            return Err(WeightsError::BadMagic { constant, offset, found: magic });
        }
        self.take(16)?; // reserved word, device type, device id: always the CPU
        let offset = self.at;
        let ndim = self.i32()?;
        let count = usize::try_from(ndim).ok().filter(|count| *count <= MAX_DIMS);
        let count = count.ok_or(WeightsError::Dimensions { constant, offset, ndim: ndim.into() })?;
        let [code, bits, lanes @ ..] = self.array::<4>()?;
        let lanes = u16::from_le_bytes(lanes);
        let shape = self.dims(count as u64)?;
        let offset = self.at;
        let data_bytes = self.i64()?;
        let expected = shape
            .iter()
            .try_fold(u64::from(bits.div_ceil(8)), |size, dim| size.checked_mul(u64::try_from(*dim).ok()?))
            .unwrap_or(u64::MAX);
        if u64::try_from(data_bytes) != Ok(expected) {
            return Err(WeightsError::DataSize { constant, offset, data_bytes, expected });
        }
        let offset = self.at;
        let data = self.take(expected)?;
        Ok(TensorConstant { code, bits, lanes, shape, offset, data })
    }

    fn constant(&mut self) -> Result<Constant<'a>, WeightsError> {
        self.skip_padding();
        let offset = self.at;
        Ok(match self.i32()? {
            70 => Constant::Tensor(self.tensor()?),
            69 => {
                let count = self.u64()?;
                Constant::Shape(self.dims(count)?)
            }
            65 => {
                let len = self.u64()?;
                Constant::Str(self.take(len)?)
            }
            1 => Constant::Int(self.i64()?),
            3 => Constant::Float(self.array().map(f64::from_le_bytes)?),
            5 => Constant::DataType(self.array()?),
            index => return Err(WeightsError::UnknownType { constant: self.constant, offset, index }),
        })
    }
}

/// Reads every constant of a weights file.
///
/// # Errors
/// The first thing that is wrong, with the constant's index and the file offset.
///
/// ```
/// let file = 0u64.to_le_bytes();
/// assert!(outboard_c7x::weights::parse(&file).unwrap().is_empty());
/// ```
pub fn parse(bytes: &[u8]) -> Result<Vec<Constant<'_>>, WeightsError> {
    let mut reader = Reader { bytes, at: 0, constant: 0 };
    let count = reader.u64()?;
    if count > MAX_CONSTANTS {
        return Err(WeightsError::TooMany(count));
    }
    let mut constants = Vec::new();
    for index in 0..count {
        reader.constant = index;
        constants.push(reader.constant()?);
    }
    Ok(constants)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use alloc::vec;

    /// One f32[2] = {1, −2} and Shape(1, 1000): the golden file of 96 bytes.
    fn golden() -> Vec<u8> {
        let text = "0200000000000000 46000000 3fa1b496f0405edd 0000000000000000 01000000 00000000 01000000 02200100
                    0200000000000000 0800000000000000 0000803f 000000c0 45000000 0200000000000000 0100000000000000
                    e803000000000000";
        let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(16)).collect();
        digits.chunks(2).map(|pair| u8::try_from(pair[0] * 16 + pair[1]).unwrap()).collect()
    }

    #[test]
    fn the_golden_file_reads_as_a_tensor_and_a_shape() {
        let bytes = golden();
        assert_eq!(bytes.len(), 96);
        let constants = parse(&bytes).unwrap();
        let Constant::Tensor(tensor) = &constants[0] else { panic!("no tensor") };
        assert_eq!((tensor.code, tensor.bits, tensor.lanes, tensor.offset), (2, 32, 1, 60));
        assert_eq!(tensor.shape, [2]);
        assert_eq!(tensor.data, [1f32.to_le_bytes(), (-2f32).to_le_bytes()].concat());
        assert_eq!(constants[1], Constant::Shape(vec![1, 1000]));
    }

    #[test]
    fn every_truncation_is_refused_where_it_happens() {
        let bytes = golden();
        for len in 0..bytes.len() {
            let error = parse(&bytes[..len]).unwrap_err();
            assert!(matches!(error, WeightsError::Truncated { .. }), "{len}: {error}");
        }
    }

    #[test]
    fn padding_before_a_type_is_skipped() {
        let mut bytes = golden();
        for _ in 0..3 {
            bytes.insert(68, 0);
            assert_eq!(parse(&bytes).unwrap()[1], Constant::Shape(vec![1, 1000]));
        }
    }

    #[test]
    fn each_broken_field_has_its_own_error() {
        let broken = |at: usize, value: &[u8]| {
            let mut bytes = golden();
            bytes[at..at + value.len()].copy_from_slice(value);
            parse(&bytes).unwrap_err()
        };
        assert!(matches!(broken(0, &4097u64.to_le_bytes()), WeightsError::TooMany(4097)));
        assert!(matches!(broken(8, &[71]), WeightsError::UnknownType { index: 71, constant: 0, offset: 8 }));
        assert!(matches!(broken(12, &[0]), WeightsError::BadMagic { offset: 12, .. }));
        assert!(matches!(broken(36, &(-1i32).to_le_bytes()), WeightsError::Dimensions { ndim: -1, .. }));
        assert!(matches!(broken(36, &17i32.to_le_bytes()), WeightsError::Dimensions { ndim: 17, .. }));
        assert!(matches!(broken(44, &(-2i64).to_le_bytes()), WeightsError::DataSize { .. }));
        assert!(matches!(broken(44, &i64::MAX.to_le_bytes()), WeightsError::DataSize { .. }));
        assert!(matches!(broken(52, &9i64.to_le_bytes()), WeightsError::DataSize { data_bytes: 9, expected: 8, .. }));
        // A shape whose count would need 2^67 bytes is refused before anything is allocated.
        assert!(matches!(broken(72, &u64::MAX.to_le_bytes()), WeightsError::Truncated { .. }));
    }

    #[test]
    fn scalars_strings_and_types_are_read() {
        let mut bytes = 4u64.to_le_bytes().to_vec();
        bytes.extend([1i32.to_le_bytes().as_slice(), &(-5i64).to_le_bytes()].concat());
        bytes.extend([3i32.to_le_bytes().as_slice(), &2.5f64.to_le_bytes()].concat());
        bytes.extend([65i32.to_le_bytes().as_slice(), &2u64.to_le_bytes(), b"ab"].concat());
        bytes.extend([5i32.to_le_bytes().as_slice(), &[2, 32, 1, 0]].concat());
        let expected =
            vec![Constant::Int(-5), Constant::Float(2.5), Constant::Str(b"ab"), Constant::DataType([2, 32, 1, 0])];
        assert_eq!(parse(&bytes).unwrap(), expected);
    }
}
