//! The layouts that host and device share: `device/customop/src/abi.rs` has the same, with their sizes asserted.

/// Descriptors of a DMA ring.
pub(crate) const RING: u32 = 4;
/// Offsets in the data scratch.
pub(crate) const COMPLETION_RING: u32 = 0x100;
pub(crate) const RX_RING: u32 = 0x140;
pub(crate) const TX_RING: u32 = 0x180;
/// The heap in data memory for kernels, and its size.
pub(crate) const DATARAM_POOL: u32 = 0x3200;
pub(crate) const DATARAM_POOL_SIZE: u32 = 0x4000;
/// What the firmware tells the runtime.
pub(crate) const FIRMWARE_CONFIG: u32 = 0x630;
/// The arguments of a dispatch.
pub(crate) const ARGUMENTS: u32 = 0x658;
/// Most arguments.
pub const MAX_ARGS: usize = 10;
/// Bytes of the argument block.
pub(crate) const ARGUMENT_BLOCK: usize = 504;
/// Offset of the kinds in it.
pub(crate) const ARGUMENT_KINDS: usize = 488;
/// Kind of an argument that is a tensor.
pub(crate) const TENSOR: u8 = 1;
/// Kind of an argument with several tensors.
pub(crate) const ARRAY_OF_TENSOR: u8 = 2;
