//! Device memory in plain buffers: for prelinking, tests and examples.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use crate::{OutOfMemory, SegmentRequest, TargetMemory};

/// A pool of device memory kept in buffers of this program. First fit from the lowest address.
#[derive(Debug, Clone)]
pub struct PoolMemory {
    name: &'static str,
    base: u64,
    size: u64,
    blocks: BTreeMap<u64, Vec<u8>>,
}

impl PoolMemory {
    /// A pool of `size` bytes at device address `base`.
    #[must_use]
    pub const fn new(name: &'static str, base: u64, size: u64) -> Self {
        Self { name, base, size, blocks: BTreeMap::new() }
    }

    /// Free bytes.
    #[must_use]
    pub fn free(&self) -> u64 {
        self.size - self.blocks.values().map(|block| block.len() as u64).sum::<u64>()
    }

    /// The claimed blocks: address and contents, by address.
    pub fn blocks(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.blocks.iter().map(|(address, bytes)| (*address, bytes.as_slice()))
    }

    /// The free ranges, by address.
    fn gaps(&self) -> impl Iterator<Item = (u64, u64)> {
        let ends = self.blocks.iter().map(|(address, bytes)| address + bytes.len() as u64);
        let starts = core::iter::once(self.base).chain(ends);
        let stops = self.blocks.keys().copied().chain(core::iter::once(self.base + self.size));
        starts.zip(stops)
    }

    fn holder(&self, address: u64) -> Option<u64> {
        self.blocks.range(..=address).next_back().map(|(start, _)| *start)
    }
}

impl TargetMemory for PoolMemory {
    fn allocate(&mut self, request: &SegmentRequest) -> Result<u64, OutOfMemory> {
        let fits = |(start, stop): (u64, u64)| {
            let address = request.address.unwrap_or(start.checked_next_multiple_of(request.align.max(1))?);
            (address >= start && address.checked_add(request.size)? <= stop).then_some(address)
        };
        let full = || OutOfMemory {
            pool: self.name,
            requested: request.size,
            free: self.free(),
            total: self.size,
            largest: self.gaps().map(|(start, stop)| stop - start).max().unwrap_or(0),
        };
        let address = self.gaps().find_map(fits).ok_or_else(full)?;
        let size = usize::try_from(request.size).map_err(|_| full())?;
        self.blocks.insert(address, vec![0; size]);
        Ok(address)
    }

    fn release(&mut self, address: u64) {
        self.blocks.remove(&address);
    }

    fn bytes(&self, address: u64, len: u64) -> Option<&[u8]> {
        let start = self.holder(address)?;
        let from = usize::try_from(address - start).ok()?;
        self.blocks.get(&start)?.get(from..from.checked_add(usize::try_from(len).ok()?)?)
    }

    fn bytes_mut(&mut self, address: u64, len: u64) -> Option<&mut [u8]> {
        let start = self.holder(address)?;
        let from = usize::try_from(address - start).ok()?;
        self.blocks.get_mut(&start)?.get_mut(from..from.checked_add(usize::try_from(len).ok()?)?)
    }
}
