//! Device memory as the loader sees it: blocks that are claimed, written and given back.

use core::fmt;

/// Device memory that a load may claim. Implemented by the device's pool allocator and by plain buffers.
///
/// A failed load gives every block back, zeroed, so the allocator must end up as it was when blocks are released in the
/// reverse order of their allocation.
pub trait TargetMemory {
    /// Claims a block.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`] when no block of that size and alignment is free.
    fn allocate(&mut self, request: &SegmentRequest) -> Result<u64, OutOfMemory>;

    /// Gives a claimed block back (`address` as returned by [`TargetMemory::allocate`]). The loader has zeroed it.
    fn release(&mut self, address: u64);

    /// The bytes `[address, address + len)` when they lie wholly inside one claimed block.
    fn bytes(&self, address: u64, len: u64) -> Option<&[u8]>;

    /// As [`TargetMemory::bytes`], for writing.
    fn bytes_mut(&mut self, address: u64, len: u64) -> Option<&mut [u8]>;

    /// Zeroes `[address, address + len)`; false when it is not wholly inside one claimed block.
    fn zero(&mut self, address: u64, len: u64) -> bool {
        self.bytes_mut(address, len).map(|bytes| bytes.fill(0)).is_some()
    }
}

/// A block that the loader needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentRequest {
    /// Size in bytes, never 0.
    pub size: u64,
    /// Alignment, a power of two.
    pub align: u64,
    /// What the block will hold.
    pub kind: SegmentKind,
    /// The address it must have. `None` lets the memory choose, which every load into a device does; prelinking to
    /// given bases sets it.
    pub address: Option<u64>,
}

/// What a block holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SegmentKind {
    /// Code of a C7x module.
    Text,
    /// Writable data of a C7x module.
    Data,
    /// Constants of a C7x module that could not be used in place.
    ReadOnly,
    /// The whole image of a host-CPU module.
    Block,
}

/// No block of the requested size is free. All figures in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutOfMemory {
    /// Name of the pool.
    pub pool: &'static str,
    /// What was asked for.
    pub requested: u64,
    /// Free bytes, all blocks together.
    pub free: u64,
    /// Size of the pool.
    pub total: u64,
    /// Largest free block.
    pub largest: u64,
}

impl fmt::Display for OutOfMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pool, requested, free, total, largest } = self;
        write!(
            f,
            "pool {pool} has no block of {requested} bytes: {free} of {total} bytes are free, the largest block has {largest}"
        )
    }
}

impl core::error::Error for OutOfMemory {}
