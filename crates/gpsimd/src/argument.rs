//! Arguments: checked on the host, written into device memory, described by records.

use std::borrow::Cow;

use outboard_neff::seq::{Arg as Payload, ArgTensor, ElementType, Shape, Storage};
use outboard_tensor::{DType, Tensor};

use crate::abi::{ARGUMENT_BLOCK, ARGUMENT_KINDS, ARRAY_OF_TENSOR, MAX_ARGS, TENSOR};
use crate::error::Error;

/// Largest dimension.
const MAX_DIM: usize = 65_535;
/// Most dimensions.
const MAX_RANK: usize = 8;

/// An argument of an operation.
#[derive(Debug, Clone, PartialEq)]
pub enum Arg {
    /// A tensor.
    Tensor(Tensor),
    /// An integer: it becomes a tensor of one 64-bit element.
    Int(i64),
    /// A fraction: it becomes a tensor of one 32-bit float, the widest type that the device has.
    Float(f64),
}

impl From<Tensor> for Arg {
    fn from(tensor: Tensor) -> Self {
        Self::Tensor(tensor)
    }
}

impl From<i64> for Arg {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<f64> for Arg {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}

/// What an operation's results look like.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputSpec {
    /// Element type.
    pub dtype: DType,
    /// Dimensions.
    pub shape: Vec<usize>,
}

/// The device's number of an element type.
///
/// # Errors
/// The device has no such type.
pub fn element_type(dtype: DType) -> Result<ElementType, String> {
    let number = match dtype {
        DType::UInt8 => 3,
        DType::Int8 => 2,
        DType::Int16 => 4,
        DType::Int32 => 8,
        DType::Int64 => 0xc,
        DType::Float16 => 7,
        DType::Float32 => 0xa,
        DType::BFloat16 => 6,
        DType::Float64 | DType::UInt16 | DType::UInt32 | DType::UInt64 | DType::Bool => {
            return Err(format!(
                "element type {} has no number on the device; it has uint8, int8, int16, int32, int64, float16, bfloat16 and \
                 float32",
                dtype.name()
            ));
        }
    };
    ElementType::new(number).map_err(|error| error.to_string())
}

/// The element type behind the device's number.
#[must_use]
pub fn dtype_of(element: ElementType) -> DType {
    match element.number() {
        2 => DType::Int8,
        3 => DType::UInt8,
        4 => DType::Int16,
        6 => DType::BFloat16,
        7 => DType::Float16,
        8 => DType::Int32,
        0xc => DType::Int64,
        // The map has eight numbers, and this is the last one.
        _ => DType::Float32,
    }
}

/// An argument as the device reads it.
#[derive(Debug, Clone)]
pub(crate) struct Described {
    element: ElementType,
    dims: Vec<usize>,
}

impl Described {
    /// Checks type and shape; `index` is for the message.
    pub(crate) fn new(index: usize, dtype: DType, dims: &[usize]) -> Result<Self, Error> {
        let bad = |problem: String| Error::Argument { index, problem };
        let element = element_type(dtype).map_err(bad)?;
        if dims.is_empty() {
            return Err(bad("a tensor needs at least one dimension: reshape it to [1]".to_owned()));
        }
        if dims.len() > MAX_RANK {
            return Err(bad(format!("{} dimensions; a tensor has at most {MAX_RANK}", dims.len())));
        }
        if let Some(dim) = dims.iter().find(|dim| **dim > MAX_DIM) {
            return Err(bad(format!("dimension {dim}; dimensions are at most {MAX_DIM}: reshape the tensor")));
        }
        if dims.contains(&0) {
            return Ok(Self { element, dims: dims.to_vec() });
        }
        let elements = dims.iter().try_fold(1_u32, |all, dim| all.checked_mul(u32::try_from(*dim).ok()?));
        if elements.is_none() {
            return Err(bad("more than 4,294,967,295 elements".to_owned()));
        }
        Ok(Self { element, dims: dims.to_vec() })
    }

    /// Whether it has no elements. Such a tensor has no record: there, the first dimension of 0 ends the shape.
    pub(crate) fn is_empty(&self) -> bool {
        self.dims.contains(&0)
    }

    fn elements(&self) -> u32 {
        // The check above keeps it below 2^32.
        self.dims.iter().product::<usize>() as u32
    }

    /// Bytes of its elements.
    pub(crate) fn bytes(&self) -> u64 {
        u64::from(self.elements()) * u64::from(self.element.size())
    }

    /// Element type and dimensions.
    pub(crate) fn spec(&self) -> OutputSpec {
        OutputSpec { dtype: dtype_of(self.element), shape: self.dims.clone() }
    }

    /// The record of a tensor at an address in HBM.
    pub(crate) fn record(&self, address: u64) -> ArgTensor {
        self.stored(Storage::Hbm { address, elements: self.elements() })
    }

    /// The record of a tensor in on-chip memory, in one block.
    pub(crate) fn on_chip(&self, address: u32) -> ArgTensor {
        let elements = self.elements();
        self.stored(Storage::Sbuf { address, elements, partitions: 1, block: elements })
    }

    fn stored(&self, storage: Storage) -> ArgTensor {
        let mut dims = [0; 8];
        for (place, dim) in dims.iter_mut().zip(&self.dims) {
            // Dimensions are 16 bits, which was checked.
            *place = u16::try_from(*dim).unwrap_or(u16::MAX);
        }
        ArgTensor { dtype: self.element, shape: Shape::Inline8(dims), storage }
    }
}

impl Arg {
    /// What the device is told about it, and its bytes.
    pub(crate) fn describe(&self, index: usize) -> Result<(Described, Cow<'_, [u8]>), Error> {
        Ok(match self {
            Self::Tensor(tensor) => {
                (Described::new(index, tensor.dtype(), tensor.shape().dims())?, Cow::Borrowed(tensor.bytes()))
            }
            Self::Int(value) => (Described::new(index, DType::Int64, &[1])?, value.to_le_bytes().to_vec().into()),
            Self::Float(value) => {
                #[allow(clippy::cast_possible_truncation, reason = "the device has no wider type")]
                let narrow = *value as f32;
                (Described::new(index, DType::Float32, &[1])?, narrow.to_le_bytes().to_vec().into())
            }
        })
    }
}

/// The block that the runtime binds: the records and their kinds.
pub(crate) fn block(payloads: &[Payload]) -> [u8; ARGUMENT_BLOCK] {
    let mut block = [0; ARGUMENT_BLOCK];
    let mut put = |at: usize, bytes: &[u8]| {
        block.iter_mut().skip(at).zip(bytes).for_each(|(place, byte)| *place = *byte);
    };
    put(0, &(payloads.len() as u32).to_le_bytes());
    put(4, &(MAX_ARGS as u32).to_le_bytes());
    for (index, payload) in payloads.iter().enumerate().take(MAX_ARGS) {
        let kind = match payload {
            Payload::Tensor(tensor) => {
                put(8 + 48 * index, &tensor.encode());
                TENSOR
            }
            Payload::Array { objects, rest } => {
                put(8 + 48 * index, &objects.to_le_bytes());
                put(12 + 48 * index, rest);
                ARRAY_OF_TENSOR
            }
        };
        put(ARGUMENT_KINDS + index, &[kind]);
    }
    block
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(dtype: DType, dims: &[usize]) -> String {
        Described::new(1, dtype, dims).unwrap_err().to_string()
    }

    #[test]
    fn what_the_device_cannot_take_is_refused_on_the_host() {
        assert!(problem(DType::Float32, &[]).contains("at least one dimension"));
        assert!(problem(DType::Float32, &[65_536]).contains("dimension 65536"));
        assert!(problem(DType::Float32, &[1; 9]).contains("9 dimensions"));
        assert!(problem(DType::Int8, &[65_535, 65_535, 2]).contains("elements"));
        for dtype in [DType::Float64, DType::UInt16, DType::UInt32, DType::UInt64, DType::Bool] {
            assert!(problem(dtype, &[1]).contains(dtype.name()));
        }
    }

    #[test]
    fn an_empty_tensor_has_a_shape_and_no_bytes() {
        for dims in [&[0][..], &[3, 0, 65_535], &[65_535, 65_535, 2, 0]] {
            let described = Described::new(0, DType::Float32, dims).unwrap();
            assert_eq!((described.is_empty(), described.bytes()), (true, 0), "{dims:?}");
        }
        assert!(problem(DType::Float32, &[0, 65_536]).contains("dimension 65536"));
        assert!(!Described::new(0, DType::Float32, &[1]).unwrap().is_empty());
    }

    #[test]
    fn every_type_of_the_device_survives_the_way_there_and_back() {
        let there = DType::ALL.into_iter().filter_map(|dtype| Some((dtype, element_type(dtype).ok()?)));
        let both: Vec<_> = there.map(|(dtype, element)| (dtype, dtype_of(element))).collect();
        assert_eq!(both.len(), 8);
        assert!(both.iter().all(|(there, back)| there == back));
    }

    #[test]
    fn the_record_is_that_of_the_published_example() {
        let described = Described::new(0, DType::Float32, &[128, 256]).unwrap();
        let record = described.record(0x40_1234_5000).encode();
        let mut expected = [0; 48];
        expected[..3].copy_from_slice(&[2, 0, 10]);
        expected[8..12].copy_from_slice(&[0x80, 0, 0, 1]);
        expected[0x18..0x24].copy_from_slice(&[0, 0x50, 0x34, 0x12, 0x40, 0, 0, 0, 0, 0x80, 0, 0]);
        assert_eq!(record, expected);
        let block = block(&[Payload::Tensor(described.record(0x40_1234_5000))]);
        assert_eq!(block[..8], [1, 0, 0, 0, 10, 0, 0, 0]);
        assert_eq!((&block[8..56], block[488]), (&expected[..], 1));
    }
}
