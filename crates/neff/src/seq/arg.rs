//! The record of 48 bytes that describes a tensor argument.

use super::SeqError;
use super::bits::{put, reserved, u8_at, u16_at, u32_at, u64_at};

/// Size of the record.
pub const ARG_TENSOR: usize = 48;
/// Offset of the record in its instruction, for messages.
const BASE: usize = 0x10;

/// Where a tensor lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "lowercase"))]
pub enum Location {
    /// On-chip memory.
    Sbuf,
    /// Device memory.
    Hbm,
}

/// An element type by its number in the instruction set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct ElementType(u8);

const NAMES: [&str; 16] = [
    "INVALID", "UINT64", "INT8", "UINT8", "INT16", "UINT16", "BF16", "FP16", "INT32", "UINT32", "FP32", "FP32R",
    "INT64", "FP8_EXP3", "FP8_EXP4", "FP8_EXP5",
];

impl ElementType {
    /// 32-bit float.
    pub const FP32: Self = Self(0x0a);
    /// 32-bit signed integer.
    pub const INT32: Self = Self(0x08);

    /// The type with this number.
    ///
    /// # Errors
    ///
    /// [`SeqError::Field`] for a number that the device's map does not have: it is never replaced by another type.
    pub const fn new(value: u8) -> Result<Self, SeqError> {
        match value {
            2 | 3 | 4 | 6 | 7 | 8 | 0x0a | 0x0c => Ok(Self(value)),
            _ => Err(SeqError::Field {
                field: "dtype",
                offset: BASE + 2,
                value: value as u64,
                expected: "2 INT8, 3 UINT8, 4 INT16, 6 BF16, 7 FP16, 8 INT32, 0xa FP32 or 0xc INT64",
            }),
        }
    }

    /// The number.
    #[must_use]
    pub const fn number(self) -> u8 {
        self.0
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        NAMES.get(usize::from(self.0)).copied().unwrap_or("UNKNOWN")
    }

    /// Bytes of an element.
    #[must_use]
    pub const fn size(self) -> u32 {
        match self.0 {
            2 | 3 => 1,
            4 | 6 | 7 => 2,
            0x0c => 8,
            _ => 4,
        }
    }

    /// The number of the same type in PyTorch.
    #[must_use]
    pub const fn scalar_type(self) -> u8 {
        match self.0 {
            2 => 1,
            3 => 0,
            4 => 2,
            6 => 15,
            7 => 5,
            8 => 3,
            0x0c => 4,
            _ => 6,
        }
    }
}

/// Dimensions; the leading ones that are not zero are the rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
pub enum Shape {
    /// Up to eight dimensions of up to 65,535.
    Inline8([u16; 8]),
    /// Up to four dimensions.
    Inline4([u32; 4]),
    /// The shape lies at an address; device libraries refuse it.
    OutOfLine(u32),
}

impl Shape {
    /// The dimensions before the first zero; empty for a shape that lies elsewhere.
    #[must_use]
    pub fn dims(&self) -> Vec<u32> {
        let all: Vec<u32> = match self {
            Self::Inline8(dims) => dims.iter().map(|dim| u32::from(*dim)).collect(),
            Self::Inline4(dims) => dims.to_vec(),
            Self::OutOfLine(_) => Vec::new(),
        };
        all.into_iter().take_while(|dim| *dim != 0).collect()
    }

    fn number(&self) -> u8 {
        match self {
            Self::Inline8(_) => 0,
            Self::OutOfLine(_) => 1,
            Self::Inline4(_) => 2,
        }
    }
}

/// Where the elements lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
pub enum Storage {
    /// In device memory.
    Hbm {
        /// Address.
        address: u64,
        /// Elements.
        elements: u32,
    },
    /// In on-chip memory, spread over partitions.
    Sbuf {
        /// Address.
        address: u32,
        /// Elements.
        elements: u32,
        /// Partitions.
        partitions: u8,
        /// Elements of each block.
        block: u32,
    },
}

/// A tensor argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct ArgTensor {
    /// Element type.
    pub dtype: ElementType,
    /// Dimensions.
    pub shape: Shape,
    /// Where the elements lie.
    pub storage: Storage,
}

impl ArgTensor {
    /// Where the tensor lies.
    #[must_use]
    pub const fn location(&self) -> Location {
        match self.storage {
            Storage::Hbm { .. } => Location::Hbm,
            Storage::Sbuf { .. } => Location::Sbuf,
        }
    }

    /// The 48 bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; ARG_TENSOR] {
        let mut record = [0; ARG_TENSOR];
        let location = if self.location() == Location::Hbm { 2 } else { 1 };
        put(&mut record, 0, &[location, self.shape.number(), self.dtype.number()]);
        match self.shape {
            Shape::Inline8(dims) => {
                let bytes: Vec<u8> = dims.iter().flat_map(|dim| dim.to_le_bytes()).collect();
                put(&mut record, 8, &bytes);
            }
            Shape::Inline4(dims) => {
                let bytes: Vec<u8> = dims.iter().flat_map(|dim| dim.to_le_bytes()).collect();
                put(&mut record, 8, &bytes);
            }
            Shape::OutOfLine(address) => put(&mut record, 8, &address.to_le_bytes()),
        }
        match self.storage {
            Storage::Hbm { address, elements } => {
                put(&mut record, 0x18, &address.to_le_bytes());
                put(&mut record, 0x20, &elements.to_le_bytes());
            }
            Storage::Sbuf { address, elements, partitions, block } => {
                put(&mut record, 0x18, &address.to_le_bytes());
                put(&mut record, 0x1c, &elements.to_le_bytes());
                put(&mut record, 0x20, &[partitions]);
                put(&mut record, 0x24, &block.to_le_bytes());
            }
        }
        record
    }

    /// Reads the record.
    ///
    /// # Errors
    ///
    /// [`SeqError`] names the field; offsets count from the start of the instruction.
    pub fn decode(record: &[u8; ARG_TENSOR]) -> Result<Self, SeqError> {
        let bad =
            |field, at: usize, value: u64, expected| SeqError::Field { field, offset: BASE + at, value, expected };
        let dtype = ElementType::new(u8_at(record, 2))?;
        reserved(record, 3..8, BASE)?;
        reserved(record, 0x28..0x30, BASE)?;
        let shape = match u8_at(record, 1) {
            0 => Shape::Inline8(std::array::from_fn(|index| u16_at(record, 8 + 2 * index))),
            1 => {
                reserved(record, 12..24, BASE)?;
                Shape::OutOfLine(u32_at(record, 8))
            }
            2 => Shape::Inline4(std::array::from_fn(|index| u32_at(record, 8 + 4 * index))),
            value => return Err(bad("framework_shape_type", 1, value.into(), "0, 1 or 2")),
        };
        let storage = match u8_at(record, 0) {
            1 => {
                reserved(record, 0x21..0x24, BASE)?;
                Storage::Sbuf {
                    address: u32_at(record, 0x18),
                    elements: u32_at(record, 0x1c),
                    partitions: u8_at(record, 0x20),
                    block: u32_at(record, 0x24),
                }
            }
            2 => {
                reserved(record, 0x24..0x28, BASE)?;
                Storage::Hbm { address: u64_at(record, 0x18), elements: u32_at(record, 0x20) }
            }
            value => return Err(bad("location", 0, value.into(), "1 (SBUF) or 2 (HBM)")),
        };
        Ok(Self { dtype, shape, storage })
    }
}
