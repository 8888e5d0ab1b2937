//! The 80-byte tensor descriptor.

use crate::MAX_DIMS;
use zerocopy::little_endian::{I32, I64, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Element kind of a tensor on the wire (DLPack numbering).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum DTypeCode {
    /// Signed integer.
    Int = 0,
    /// Unsigned integer (bool is the 8-bit one unless the sender says 6).
    UInt = 1,
    /// IEEE floating point.
    Float = 2,
    /// DLPack's own code for bool.
    Bool = 6,
}

/// Where a tensor is and what it looks like: 80 bytes, in requests and replies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct TensorDesc {
    /// Device virtual address of the first element.
    pub data_addr: U64,
    /// Bytes of data.
    pub data_size: U64,
    /// Number of dimensions; see [`TensorDesc::dims`].
    pub ndim: I32,
    /// Element kind, see [`DTypeCode`].
    pub dtype_code: I32,
    /// Bits of one element.
    pub dtype_bits: I32,
    /// Zero in requests; in replies of tuple models the output's index in the tuple.
    pub reserved: I32,
    /// Dimensions, unused ones zero.
    pub shape: [I64; MAX_DIMS],
}

const _: () = assert!(size_of::<TensorDesc>() == 80);

impl TensorDesc {
    /// A descriptor. Dimensions beyond [`MAX_DIMS`] cannot be carried: `None`.
    pub fn new(address: u64, size: u64, dtype_code: i32, dtype_bits: i32, dims: &[i64]) -> Option<Self> {
        let mut shape = [I64::ZERO; MAX_DIMS];
        for (slot, dim) in shape.get_mut(..dims.len())?.iter_mut().zip(dims) {
            slot.set(*dim);
        }
        Some(Self {
            data_addr: address.into(),
            data_size: size.into(),
            ndim: i32::try_from(dims.len()).ok()?.into(),
            dtype_code: dtype_code.into(),
            dtype_bits: dtype_bits.into(),
            reserved: I32::ZERO,
            shape,
        })
    }

    /// Number of dimensions as the device reads it: clamped to 0..=6.
    pub fn dims(&self) -> usize {
        usize::try_from(self.ndim.get()).unwrap_or(0).min(MAX_DIMS)
    }

    /// The dimensions in use, as an iterator.
    pub fn shape(&self) -> impl Iterator<Item = i64> + '_ {
        self.shape.iter().take(self.dims()).map(|dim| dim.get())
    }
}
