//! A memory pool of the device: first fit, coalescing, every block with an owner.
//!
//! The pool does bookkeeping only; it never touches the memory it manages. The original allocator keeps its headers inside
//! the blocks, never merges them, and reclaims by moving a bump pointer that can end up under loaded code; here a block is
//! reclaimed by its [`Owner`] instead.

use alloc::collections::BTreeMap;
use outboard_wire::Region;

/// Which pool an allocation comes from, as numbered by the module ABI.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum PoolId {
    /// On-chip memory, small.
    Fast = 0,
    /// DDR: modules, workspace, everything else.
    Main = 1,
}

impl PoolId {
    /// Name for messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fast => "FAST",
            Self::Main => "MAIN",
        }
    }
}

/// On whose behalf a block was allocated; blocks are reclaimed by owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Owner {
    /// Segments and C heap of a module: until it is unloaded.
    Module(u32),
    /// Constants of a module's embedded weights: until it is unloaded.
    Constants(u32),
    /// Driver memory of a module (DMA, TIDL): until the module gives it back.
    Driver(u32),
    /// What one inference of a module allocated: until its next inference.
    Run(u32),
    /// Input tensors of one request: until the module's next request.
    Call(u32),
    /// Constants that were loaded apart from a module: until MODEL_UNLOAD.
    Model(u32),
}

/// An allocation that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "out of memory in the {pool} pool: requested {requested} bytes, {free} of {total} free, largest block {largest}"
)]
pub struct Exhausted {
    /// Pool name.
    pub pool: &'static str,
    /// Bytes asked for.
    pub requested: u64,
    /// Bytes free in all.
    pub free: u64,
    /// Bytes of the pool.
    pub total: u64,
    /// Largest free block.
    pub largest: u64,
}

#[derive(Debug, Clone, Copy)]
struct Block {
    size: u64,
    owner: Owner,
}

/// A pool over a region of device addresses.
///
/// ```
/// use outboard_c7x::{Owner, Pool, PoolId};
/// use outboard_wire::SharedMap;
/// let mut pool = Pool::new(PoolId::Main, SharedMap::MAIN);
/// let block = pool.allocate(1000, 128, Owner::Run(1)).unwrap();
/// assert_eq!(block, SharedMap::MAIN.base);
/// pool.release_owner(Owner::Run(1), |_, _| {});
/// assert_eq!(pool.free_bytes(), SharedMap::MAIN.size);
/// ```
#[derive(Debug)]
pub struct Pool {
    id: PoolId,
    region: Region,
    used: BTreeMap<u64, Block>,
    free: BTreeMap<u64, u64>,
    fail_in: Option<u64>,
}

impl Pool {
    /// Blocks are multiples of this, so that neighbours never share a small cache line.
    const GRANULE: u64 = 64;

    /// An empty pool.
    pub fn new(id: PoolId, region: Region) -> Self {
        Self { id, region, used: BTreeMap::new(), free: BTreeMap::from([(region.base, region.size)]), fail_in: None }
    }

    /// Makes the `count`-th allocation from now fail as if memory were exhausted: for tests of what happens then.
    pub fn fail_allocation(&mut self, count: u64) {
        self.fail_in = Some(count);
    }

    /// Whether the allocation that is about to happen was chosen to fail.
    fn fails_now(&mut self) -> bool {
        let left = self.fail_in.map(|count| count.saturating_sub(1));
        self.fail_in = left.filter(|left| *left > 0);
        left == Some(0)
    }

    /// The addresses the pool manages.
    pub fn region(&self) -> Region {
        self.region
    }

    /// Bytes not allocated.
    pub fn free_bytes(&self) -> u64 {
        self.free.values().sum()
    }

    /// Size of the largest block that could be allocated.
    pub fn largest_free(&self) -> u64 {
        self.free.values().copied().max().unwrap_or(0)
    }

    /// Number of live blocks.
    pub fn blocks(&self) -> usize {
        self.used.len()
    }

    /// Whether an allocated block starts here.
    pub fn is_block(&self, address: u64) -> bool {
        self.used.contains_key(&address)
    }

    /// Whether the range lies inside one allocated block.
    pub fn holds(&self, address: u64, size: u64) -> bool {
        self.used
            .range(..=address)
            .next_back()
            .is_some_and(|(start, block)| outboard_wire::in_range(address, size, *start, block.size))
    }

    /// Allocates `size` bytes (at least one granule) at a multiple of `align`; an alignment that is no power of two is
    /// rounded up to one.
    ///
    /// # Errors
    /// No free block is large enough; nothing changed.
    pub fn allocate(&mut self, size: u64, align: u64, owner: Owner) -> Result<u64, Exhausted> {
        let exhausted = self.exhausted(size);
        if self.fails_now() {
            return Err(exhausted);
        }
        let align = align.max(Self::GRANULE).checked_next_power_of_two().ok_or(exhausted)?;
        let rounded = size.max(1).checked_next_multiple_of(Self::GRANULE).ok_or(exhausted)?;
        let fit = self.free.iter().find_map(|(start, length)| {
            let address = start.checked_next_multiple_of(align)?;
            let end = address.checked_add(rounded)?;
            (end <= start + length).then_some((*start, *length, address, end))
        });
        let (start, length, address, end) = fit.ok_or(exhausted)?;
        self.free.remove(&start);
        if address > start {
            self.free.insert(start, address - start);
        }
        if start + length > end {
            self.free.insert(end, start + length - end);
        }
        self.used.insert(address, Block { size: rounded, owner });
        Ok(address)
    }

    fn exhausted(&self, requested: u64) -> Exhausted {
        Exhausted {
            pool: self.id.name(),
            requested,
            free: self.free_bytes(),
            total: self.region.size,
            largest: self.largest_free(),
        }
    }

    /// Gives a block back; `false` when no block starts at the address (nothing happens then).
    pub fn release(&mut self, address: u64) -> bool {
        let Some(block) = self.used.remove(&address) else { return false };
        let mut start = address;
        let mut size = block.size;
        if let Some((before, length)) = self.free.range(..address).next_back().map(|(at, len)| (*at, *len))
            && before + length == address
        {
            self.free.remove(&before);
            start = before;
            size += length;
        }
        if let Some(after) = self.free.remove(&(address + block.size)) {
            size += after;
        }
        self.free.insert(start, size);
        true
    }

    /// Gives back every block of an owner, after showing each (address, size) to `before`.
    pub fn release_owner(&mut self, owner: Owner, mut before: impl FnMut(u64, u64)) {
        let blocks: alloc::vec::Vec<_> =
            self.used.iter().filter(|(_, block)| block.owner == owner).map(|(at, block)| (*at, block.size)).collect();
        for (address, size) in blocks {
            before(address, size);
            self.release(address);
        }
    }

    /// Bytes held by an owner.
    pub fn owned_by(&self, owner: Owner) -> u64 {
        self.used.values().filter(|block| block.owner == owner).map(|block| block.size).sum()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    const REGION: Region = Region { base: 0x1_0200_0000, size: 0x1_0000 };

    fn pool() -> Pool {
        Pool::new(PoolId::Main, REGION)
    }

    #[test]
    fn blocks_are_aligned_disjoint_and_inside_the_region() {
        let mut pool = pool();
        let mut taken: alloc::vec::Vec<(u64, u64)> = alloc::vec::Vec::new();
        for (size, align) in [(1, 8), (100, 128), (4096, 4096), (63, 64), (65, 100)] {
            let block = pool.allocate(size, align, Owner::Module(1)).unwrap();
            assert_eq!(block % align.next_power_of_two(), 0);
            assert!(REGION.contains(block, size));
            assert!(taken.iter().all(|(start, len)| block + size <= *start || start + len <= block));
            taken.push((block, size));
        }
    }

    #[test]
    fn freed_neighbours_merge_in_every_order() {
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let mut pool = pool();
            let blocks = [(); 3].map(|()| pool.allocate(256, 64, Owner::Run(1)).unwrap());
            for index in order {
                assert!(pool.release(blocks[index]));
            }
            assert_eq!((pool.largest_free(), pool.blocks()), (REGION.size, 0));
        }
    }

    #[test]
    fn a_failed_allocation_changes_nothing_and_names_the_largest_block() {
        let mut pool = pool();
        let first = pool.allocate(0x8000, 64, Owner::Module(1)).unwrap();
        pool.allocate(0x4000, 64, Owner::Module(2)).unwrap();
        pool.release(first);
        let error = pool.allocate(0x9000, 64, Owner::Run(1)).unwrap_err();
        assert_eq!((error.requested, error.free, error.total, error.largest), (0x9000, 0xC000, 0x1_0000, 0x8000));
        assert_eq!(pool.free_bytes(), 0xC000);
        assert!(pool.allocate(u64::MAX, 64, Owner::Run(1)).is_err());
        assert!(pool.allocate(1, u64::MAX, Owner::Run(1)).is_err());
    }

    #[test]
    fn an_owner_is_reclaimed_whole_and_alone() {
        let mut pool = pool();
        pool.allocate(100, 64, Owner::Run(1)).unwrap();
        let kept = pool.allocate(100, 64, Owner::Module(1)).unwrap();
        pool.allocate(100, 64, Owner::Run(1)).unwrap();
        let mut seen = 0;
        pool.release_owner(Owner::Run(1), |_, size| seen += size);
        assert_eq!(seen, 256);
        assert_eq!((pool.owned_by(Owner::Run(1)), pool.owned_by(Owner::Module(1))), (0, 128));
        assert!(pool.holds(kept, 128) && !pool.holds(kept, 129) && !pool.holds(kept + 128, 0x10));
    }

    #[test]
    fn an_address_that_is_no_block_is_not_released() {
        let mut pool = pool();
        let block = pool.allocate(100, 64, Owner::Run(1)).unwrap();
        assert!(!pool.release(block + 64) && !pool.release(0));
        assert!(pool.release(block) && !pool.release(block));
    }
}
