//! The records of the custom-op ABI. Sizes and offsets are asserted at compile time.
//!
//! Pointers are 32-bit numbers of the device, so that the layouts hold on every host that the tests run on.

use core::mem::{offset_of, size_of};

/// A pointer of the device.
pub type Address = u32;

/// Where a tensor lies ([`ArgTensor::location`]).
pub mod location {
    /// In the partitions of the on-chip memory.
    pub const SBUF: u8 = 1;
    /// In the memory of the board.
    pub const HBM: u8 = 2;
}

/// How [`ArgTensor::shape`] is to be read.
pub mod shape_form {
    /// Eight dimensions of 16 bits.
    pub const INLINE_8D: u8 = 0;
    /// The address of a table; not supported, as in the original.
    pub const OUT_OF_LINE: u8 = 1;
    /// Four dimensions of 32 bits.
    pub const INLINE_4D: u8 = 2;
}

/// A tensor argument: 48 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ArgTensor {
    /// See [`location`].
    pub location: u8,
    /// See [`shape_form`].
    pub shape_form: u8,
    /// Element type, numbered as in [`crate::dtype::isa`].
    pub dtype: u8,
    /// Zero.
    pub reserved0: [u8; 5],
    /// Dimensions; the first zero ends them.
    pub shape: [u32; 4],
    /// HBM: address low, address high, elements, 0. SBUF: address, elements, partitions, elements of a block.
    pub storage: [u32; 4],
    /// Zero.
    pub reserved1: [u8; 8],
}

impl ArgTensor {
    /// The dimensions, and how many there are.
    #[must_use]
    pub fn dims(&self) -> ([u32; 8], usize) {
        let mut dims = [0; 8];
        let wide = self.shape_form == shape_form::INLINE_4D;
        for (index, dim) in dims.iter_mut().enumerate().take(if wide { 4 } else { 8 }) {
            *dim =
                if wide { self.shape[index & 3] } else { self.shape[(index / 2) & 3] >> (16 * (index & 1)) & 0xffff };
        }
        let rank = dims.iter().position(|dim| *dim == 0).unwrap_or(8);
        (dims, rank)
    }

    /// The 64-bit address of a tensor in HBM.
    #[must_use]
    pub const fn hbm_address(&self) -> u64 {
        self.storage[0] as u64 | (self.storage[1] as u64) << 32
    }
}

/// Kinds of an argument ([`ArgExtractor::arg_types`]).
pub mod arg_type {
    /// A tensor.
    pub const TENSOR: u8 = 1;
    /// Several tensors.
    pub const ARRAY_OF_TENSOR: u8 = 2;
}

/// Most arguments of an operation.
pub const MAX_ARGS: usize = 10;

/// The arguments of one dispatch.
#[repr(C, align(8))]
#[derive(Clone, Copy, Debug)]
pub struct ArgExtractor {
    /// How many there are.
    pub num_args: u32,
    /// How many there may be: [`MAX_ARGS`].
    pub max_args: u32,
    /// The records.
    pub args: [ArgTensor; MAX_ARGS],
    /// Their kinds.
    pub arg_types: [u8; MAX_ARGS],
}

/// Arguments and the next one to be pulled.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ArgParser {
    /// The arguments.
    pub extractor: ArgExtractor,
    /// Index of the next one.
    pub curr_arg: u32,
    /// Rounds the record up.
    pub pad: u32,
}

/// A pulled argument.
#[repr(C, align(8))]
#[derive(Clone, Copy, Debug)]
pub struct UTensor {
    /// The tensor made from it, or 0.
    pub xt_ptr: Address,
    /// Aligns the record.
    pub pad: u32,
    /// The record.
    pub record: ArgTensor,
}

/// A pointer into HBM.
#[repr(C, align(8))]
#[derive(Clone, Copy, Debug, Default)]
pub struct Q7Ptr {
    /// The 64-bit address; for SBUF the local one.
    pub hbm_addr: u64,
    /// Context of the owner.
    pub ctx: Address,
    /// Not 0: there is nothing behind it.
    pub is_nullptr: u8,
}

/// A pointer into HBM with its deleter.
#[repr(C, align(8))]
#[derive(Clone, Copy, Debug, Default)]
pub struct UniqueQ7Ptr {
    /// The pointer.
    pub pointer: Q7Ptr,
    /// Not 0: the allocator frees it.
    pub owned: u32,
}

/// The memory behind a tensor.
#[repr(C, align(8))]
#[derive(Clone, Copy, Debug, Default)]
pub struct StorageImpl {
    /// Tensors that use it.
    pub references: u32,
    /// Nothing yet.
    pub reserved: [u32; 3],
    /// Where it is.
    pub data: UniqueQ7Ptr,
    /// Its size.
    pub size_bytes: u64,
}

/// A tensor's description.
#[repr(C, align(8))]
#[derive(Clone, Copy, Debug, Default)]
pub struct TensorImpl {
    /// Tensor objects that use it.
    pub references: u32,
    /// Dimensions.
    pub rank: u32,
    /// Element type, numbered as in [`crate::dtype::ScalarType`].
    pub scalar_type: u32,
    /// Bytes of an element.
    pub item_size: u32,
    /// Sizes of the dimensions.
    pub sizes: [u64; 8],
    /// Elements between neighbours in each dimension.
    pub strides: [u64; 8],
    /// Elements.
    pub numel: u64,
    /// First element in the storage.
    pub storage_offset: u64,
    /// Nothing yet.
    pub reserved: [u64; 6],
    /// Address of its [`StorageImpl`].
    pub storage: Address,
}

/// Counts of the accessors of a tensor.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct CoherencyEnforcer {
    /// Readers with a buffer.
    pub buffered_readers: i32,
    /// Writers with a buffer.
    pub buffered_writers: i32,
    /// Accessors without a buffer.
    pub unbuffered: i32,
    /// 0 coherent, 1 incoherent with a message, 2 incoherent in silence.
    pub policy: u32,
}

/// A tensor as C++ passes it: returned through memory, passed by reference.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Tensor {
    /// Address of its [`TensorImpl`]; 0 for an undefined tensor.
    pub impl_: Address,
    /// Accessors of it.
    pub enforcer: CoherencyEnforcer,
}

/// What a [`Scalar`] holds.
pub mod scalar_tag {
    /// A double.
    pub const DOUBLE: u32 = 0;
    /// A 64-bit integer.
    pub const INT: u32 = 1;
}

/// A number of either kind, as C++ passes it.
#[repr(C, align(16))]
#[derive(Clone, Copy, Debug, Default)]
pub struct Scalar {
    /// See [`scalar_tag`].
    pub tag: u32,
    /// Aligns the value.
    pub pad: [u32; 3],
    /// Bits of the number.
    pub bits: u64,
    /// Second half of kinds that this runtime does not make.
    pub more: u64,
}

impl Scalar {
    /// The number as a fraction.
    #[must_use]
    pub fn to_f64(&self) -> f64 {
        if self.tag == scalar_tag::INT { self.bits as i64 as f64 } else { f64::from_bits(self.bits) }
    }

    /// The number as an integer; a fraction loses what is behind the point.
    #[must_use]
    pub fn to_i64(&self) -> i64 {
        if self.tag == scalar_tag::INT { self.bits as i64 } else { f64::from_bits(self.bits) as i64 }
    }
}

/// What the firmware hands to a library at boot.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct UcodeLib {
    /// Size of this record as the firmware knows it.
    pub size: u32,
    /// To be passed back.
    pub library_handle: Address,
    /// `(handle, name, function) -> status`.
    pub register_ext_isa_fn: Address,
    /// Not used.
    pub get_libc_fn: Address,
    /// `(&address, &size)`.
    pub get_data_scratch: Address,
    /// `(&address64, &size)`.
    pub get_hbm_scratch: Address,
    /// `(&m2s, &s2m)`.
    pub get_dma_queue: Address,
    /// `(handle, name, opcode)`.
    pub register_ext_isa_fn_v2: Address,
    /// Not used.
    pub register_ext_isa_fn_v3: Address,
}

/// A window and what it shows.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct TranslationRecord {
    /// First address that it shows.
    pub ptr: u64,
    /// Local address of the window.
    pub window: u32,
    /// Zero.
    pub pad: u32,
    /// The address bits that must equal `ptr`.
    pub mask: u64,
    /// Register that moves it; 0 for a pinned one.
    pub reg_location: u64,
}

/// The windows.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct TranslationContext {
    /// Three that move, the on-chip memory, the scratch space.
    pub records: [TranslationRecord; 5],
    /// Which of the first three moves next.
    pub next_alloc: u8,
    /// Zero.
    pub pad: [u8; 7],
}

/// A transfer of the DMA engine.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Descriptor {
    /// Length in the low 16 bits; 0 means 65,536.
    pub word0: u32,
    /// Zero.
    pub word1: u32,
    /// Address.
    pub buffer: u64,
}

/// The DMA queue of a core.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct DmaContext {
    /// Register that starts a read.
    pub m2s_inc_reg: u64,
    /// Register that starts a write.
    pub s2m_inc_reg: u64,
    /// Descriptors of what is read.
    pub tx_desc: Address,
    /// Descriptors of what is written.
    pub rx_desc: Address,
    /// Descriptors of what is done.
    pub comp_desc: Address,
    /// Next descriptor, modulo [`RING`].
    pub tail: u32,
    /// Number of the ring.
    pub ring_id: u8,
    /// Zero.
    pub pad: [u8; 7],
}

/// Descriptors of a ring.
pub const RING: u32 = 4;
/// Blocks of a heap.
pub const HEAP_BLOCKS: usize = 32;

/// A block of a heap.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct HeapBlock {
    /// Index of the next block of its list.
    pub next: u32,
    /// Bytes.
    pub size: u32,
    /// Where it begins.
    pub buffer: u32,
    /// What the caller got.
    pub aligned: u32,
}

/// The blocks of a heap, outside of the memory that it manages.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct HeapHeader {
    /// The blocks.
    pub blocks: [HeapBlock; HEAP_BLOCKS],
    /// One bit for each block that is in no list.
    pub unused: u32,
}

/// What the simulated firmware tells the runtime: values that are not public, see `targets/gpsimd-pool.toml`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct FirmwareConfig {
    /// Address of the block of the queue for standard output; 0: none.
    pub stdout_queue: u64,
    /// Address of the block of the queue for standard error; 0: none.
    pub stderr_queue: u64,
    /// First address of the cores' data memories as the DMA engine sees them.
    pub soc_base: u64,
    /// What window 0 must show.
    pub apb_base: u64,
    /// Local address of window 0.
    pub apb_window: u32,
    /// Zero.
    pub reserved: u32,
}

/// Bytes of the pool for scratch tensors in data memory.
pub const DATARAM_POOL: usize = 0x4000;
/// Bytes of the pool for `malloc`.
pub const LIBC_POOL: usize = 0x2780;

/// The scratch space in data memory.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct DataScratchMap {
    /// Unknown.
    pub reserved0: [u8; 0x100],
    /// What the DMA engine reports.
    pub completion: [Descriptor; 4],
    /// Where it writes.
    pub rx_ring: [Descriptor; 4],
    /// What it reads.
    pub tx_ring: [Descriptor; 4],
    /// Unknown.
    pub reserved1: [u8; 0x40],
    /// The queue.
    pub dma: DmaContext,
    /// Blocks of the heap in HBM.
    pub hbm_heap: HeapHeader,
    /// Blocks of the heap in data memory.
    pub dataram_heap: HeapHeader,
    /// What the simulated firmware tells.
    pub firmware: FirmwareConfig,
    /// The arguments of the dispatch, written by the firmware.
    pub args: ArgExtractor,
    /// Blocks of the heap of `malloc`.
    pub libc_heap: HeapHeader,
    /// Aligns the pool.
    pub reserved2: [u8; 0x2c],
    /// Pool of `malloc`.
    pub libc_pool: [u8; LIBC_POOL],
    /// Pool of the heap in data memory.
    pub dataram_pool: [u8; DATARAM_POOL],
}

/// A stream of the file manager.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct FileObject {
    /// Not 0: there is a ring.
    pub enabled: u8,
    /// 2: the oldest slot is overwritten; nothing else is allowed.
    pub full_policy: u8,
    /// Zero.
    pub reserved0: [u8; 10],
    /// Slots of the ring.
    pub num_slots: u32,
    /// Address of the ring.
    pub ring_dram: u64,
    /// Address of its head.
    pub headptr_dram: u64,
    /// Zero.
    pub reserved1: [u8; 8],
    /// The slot that is being filled: [`SLOT_HEADER`] bytes, then text.
    pub slot: Slot,
    /// Slots written so far.
    pub head: u32,
    /// Zero.
    pub reserved2: u32,
}

/// Bytes of a slot's header.
pub const SLOT_HEADER: usize = 16;
/// Bytes of a slot's text.
pub const SLOT_TEXT: usize = 240;

/// A slot of a ring: 256 bytes.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Slot {
    /// Zero.
    pub reserved: [u32; 3],
    /// Bytes of text.
    pub fill_count: u32,
    /// The text.
    pub text: [u8; SLOT_TEXT],
}

/// The host's record of a queue; 0x440 bytes, of which the device reads these.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct QueueBlock {
    /// [`QUEUE_MAGIC`].
    pub magic: u16,
    /// Zero.
    pub reserved: [u8; 10],
    /// Slots; a power of two.
    pub capacity: u32,
    /// Address of the slots.
    pub data: u64,
}

/// First half-word of a [`QueueBlock`].
pub const QUEUE_MAGIC: u16 = 0x201;
/// Offset of the write index from a [`QueueBlock`].
pub const QUEUE_WRITE_INDEX: u64 = 0x400;
/// Policy that overwrites the oldest slot.
pub const OVERWRITE: u8 = 2;

macro_rules! layout {
    ($($name:ident: $size:literal { $($field:ident @ $offset:literal),* $(,)? })*) => {
        $(
            const _: () = assert!(size_of::<$name>() == $size, stringify!($name));
            $(const _: () = assert!(offset_of!($name, $field) == $offset, stringify!($name.$field));)*
        )*
    };
}

layout! {
    ArgTensor: 48 { shape_form @ 1, dtype @ 2, shape @ 8, storage @ 0x18, reserved1 @ 0x28 }
    ArgExtractor: 504 { max_args @ 4, args @ 8, arg_types @ 488 }
    ArgParser: 512 { curr_arg @ 0x1f8 }
    UTensor: 56 { record @ 8 }
    Q7Ptr: 16 { ctx @ 8, is_nullptr @ 12 }
    UniqueQ7Ptr: 24 {}
    StorageImpl: 48 { data @ 0x10, size_bytes @ 0x28 }
    TensorImpl: 216 { storage @ 0xd0 }
    CoherencyEnforcer: 16 {}
    Tensor: 20 { enforcer @ 4 }
    Scalar: 32 { bits @ 16 }
    UcodeLib: 36 { library_handle @ 4, get_data_scratch @ 0x10, get_dma_queue @ 0x18, register_ext_isa_fn_v3 @ 0x20 }
    TranslationRecord: 32 { window @ 8, mask @ 16, reg_location @ 24 }
    TranslationContext: 168 { next_alloc @ 160 }
    Descriptor: 16 { buffer @ 8 }
    DmaContext: 40 { tx_desc @ 16, comp_desc @ 24, tail @ 28, ring_id @ 32 }
    HeapBlock: 16 {}
    HeapHeader: 0x204 { unused @ 0x200 }
    DataScratchMap: 0x7200 {
        completion @ 0x100, rx_ring @ 0x140, tx_ring @ 0x180, dma @ 0x200, hbm_heap @ 0x228, dataram_heap @ 0x42c,
        firmware @ 0x630, args @ 0x658, libc_heap @ 0x850, libc_pool @ 0xa80, dataram_pool @ 0x3200
    }
    FileObject: 0x130 { full_policy @ 1, num_slots @ 0xc, ring_dram @ 0x10, headptr_dram @ 0x18, slot @ 0x28, head @ 0x128 }
    Slot: 256 { fill_count @ 12, text @ 16 }
    QueueBlock: 24 { capacity @ 0xc, data @ 0x10 }
}

/// Status of a library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum LibStatus {
    /// It is registered.
    Success = 0,
    /// It is not.
    Failure = 1,
    /// The firmware's record is older than the library.
    AbiMismatch = 2,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scalars_are_read_as_either_kind() {
        let int = Scalar { tag: scalar_tag::INT, bits: -7_i64 as u64, ..Scalar::default() };
        assert_eq!((int.to_i64(), int.to_f64()), (-7, -7.0));
        let fraction = Scalar { tag: scalar_tag::DOUBLE, bits: (-2.75_f64).to_bits(), ..Scalar::default() };
        assert_eq!((fraction.to_i64(), fraction.to_f64()), (-2, -2.75));
    }

    #[test]
    fn dimensions_end_at_the_first_zero_in_both_forms() {
        let mut record = ArgTensor { shape: [0x0100_0080, 3, 0, 0], ..ArgTensor::default() };
        assert_eq!(record.dims(), ([128, 256, 3, 0, 0, 0, 0, 0], 3));
        record.shape_form = shape_form::INLINE_4D;
        assert_eq!(record.dims().1, 2);
        assert_eq!(ArgTensor::default().dims().1, 0);
        record.shape = [1, 1, 1, 70_000];
        assert_eq!(record.dims(), ([1, 1, 1, 70_000, 0, 0, 0, 0], 4));
    }
}
