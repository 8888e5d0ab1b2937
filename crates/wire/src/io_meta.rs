//! The module's declaration of its I/O sizes: `tvm_dsp_io_meta`.

use crate::{TensorDesc, round64};
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// 40 bytes behind the symbol `_binary_tvm_dsp_io_meta_start` of a module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct IoMeta {
    magic: U32,
    version: U32,
    /// Number of inputs, flattened.
    pub num_inputs: U32,
    /// Number of outputs, flattened.
    pub num_outputs: U32,
    /// Capacity the input buffer needs, descriptor region included.
    pub input_bytes: U64,
    /// Capacity the output buffer needs, descriptor region included.
    pub output_bytes: U64,
    /// Bit 0: the sizes are exact.
    pub flags: U32,
    reserved: U32,
}

const _: () = assert!(size_of::<IoMeta>() == 40);

/// Why a blob is not usable metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum IoMetaError {
    /// Fewer than 40 bytes.
    #[error("io metadata: {0} bytes, but the record has 40")]
    Truncated(usize),
    /// The magic is not "TIOM".
    #[error("io metadata: magic {0:#010x}, expected {expected:#010x} (\"TIOM\")", expected = IoMeta::MAGIC)]
    BadMagic(u32),
    /// A version this program does not know.
    #[error("io metadata: version {0}, this program knows version 1: rebuild the module or update Outboard")]
    BadVersion(u32),
}

impl IoMeta {
    /// The bytes `TIOM`.
    pub const MAGIC: u32 = 0x4D4F_4954;
    /// The only version there is.
    pub const VERSION: u32 = 1;
    /// Flag: the sizes are exact, not just an upper bound.
    pub const EXACT: u32 = 1;
    /// Size of the record.
    pub const SIZE: usize = 40;

    /// Metadata for tensors of the given sizes in bytes; `None` when a sum exceeds 64 bits.
    ///
    /// ```
    /// use outboard_wire::IoMeta;
    /// let meta = IoMeta::exact([64 * 8, 64 * 8], [4096]).unwrap();
    /// assert_eq!(meta.input_bytes.get(), 192 + 512 + 512);
    /// assert_eq!(meta.output_bytes.get(), 128 + 4096);
    /// ```
    pub fn exact(inputs: impl IntoIterator<Item = u64>, outputs: impl IntoIterator<Item = u64>) -> Option<Self> {
        let (num_inputs, input_bytes) = capacity(inputs)?;
        let (num_outputs, output_bytes) = capacity(outputs)?;
        Some(Self {
            magic: Self::MAGIC.into(),
            version: Self::VERSION.into(),
            num_inputs: num_inputs.into(),
            num_outputs: num_outputs.into(),
            input_bytes: input_bytes.into(),
            output_bytes: output_bytes.into(),
            flags: Self::EXACT.into(),
            reserved: U32::ZERO,
        })
    }

    /// Reads the record at the start of `bytes`.
    ///
    /// # Errors
    /// Names what is wrong: too short, wrong magic, unknown version.
    pub fn parse(bytes: &[u8]) -> Result<Self, IoMetaError> {
        let (meta, _) = Self::read_from_prefix(bytes).map_err(|_| IoMetaError::Truncated(bytes.len()))?;
        if meta.magic.get() != Self::MAGIC {
            return Err(IoMetaError::BadMagic(meta.magic.get()));
        }
        if meta.version.get() != Self::VERSION {
            return Err(IoMetaError::BadVersion(meta.version.get()));
        }
        Ok(meta)
    }

    /// Whether the sizes are exact.
    pub fn is_exact(&self) -> bool {
        self.flags.get() & Self::EXACT != 0
    }
}

/// Bytes a buffer needs for tensors of these sizes: a descriptor region rounded to 64, then each tensor rounded to 64.
fn capacity(sizes: impl IntoIterator<Item = u64>) -> Option<(u32, u64)> {
    let mut count = 0u32;
    let mut bytes = 0u64;
    for size in sizes {
        count = count.checked_add(1)?;
        bytes = bytes.checked_add(round64(size)?)?;
    }
    let descriptors = round64(u64::from(count) * size_of::<TensorDesc>() as u64)?;
    Some((count, bytes.checked_add(descriptors)?))
}
