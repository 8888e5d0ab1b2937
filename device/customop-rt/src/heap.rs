//! The heap of the allocators: first fit in the order of addresses, with its blocks outside of the memory it manages.
//!
//! It never touches that memory, so that it also manages addresses that the core cannot see.

use customop::abi::{HEAP_BLOCKS, HeapBlock, HeapHeader};

/// Why a call failed, numbered as in the original.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Status {
    /// No block is large enough.
    AllocFailed = -100,
    /// The alignment is no power of two.
    IllegalAlign = -99,
    /// No size, or no such block.
    InvalidArgs = -98,
    /// The address is not in the heap.
    OutOfBounds = -97,
}

/// End of a list.
const NONE: u32 = u32::MAX;
/// What is left of a block must be larger than this to become a block of its own.
const SPLIT: u32 = 4;

/// A heap: 88 bytes beside its blocks.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Heap {
    buffer: u32,
    size: u32,
    free_bytes: u32,
    allocated_bytes: u32,
    free: u32,
    allocated: u32,
    reserved: [u32; 16],
}

const _: () = assert!(size_of::<Heap>() == 88, "a heap manager has 88 bytes");

impl Heap {
    /// A heap of nothing.
    pub const fn empty() -> Self {
        Self { buffer: 0, size: 0, free_bytes: 0, allocated_bytes: 0, free: NONE, allocated: NONE, reserved: [0; 16] }
    }

    /// A heap over `size` bytes at `buffer`; all blocks of `header` are its own from now on.
    pub fn new(buffer: u32, size: u32, header: &mut HeapHeader) -> Self {
        header.unused = u32::MAX;
        let mut heap = Self { buffer, size, free_bytes: size, ..Self::empty() };
        if size > 0
            && let Some(first) = take_slot(header)
        {
            *block(header, first) = HeapBlock { next: NONE, size, buffer, aligned: 0 };
            heap.free = first;
        }
        heap
    }

    /// Takes `size` bytes at a multiple of `align`.
    pub fn allocate(&mut self, header: &mut HeapHeader, size: u32, align: u32) -> Result<u32, Status> {
        if size == 0 {
            return Err(Status::InvalidArgs);
        }
        if !align.is_power_of_two() {
            return Err(Status::IllegalAlign);
        }
        let (mut previous, mut index) = (NONE, self.free);
        while index != NONE {
            let found = *block(header, index);
            if let Some((aligned, used)) = fit(&found, size, align) {
                self.take(header, previous, index, found, aligned, used);
                return Ok(aligned);
            }
            (previous, index) = (index, found.next);
        }
        Err(Status::AllocFailed)
    }

    fn take(&mut self, header: &mut HeapHeader, previous: u32, index: u32, found: HeapBlock, aligned: u32, used: u32) {
        let rest = found.size - used;
        let split = if rest > SPLIT { take_slot(header) } else { None };
        let (follower, size) = match split {
            Some(slot) => {
                *block(header, slot) =
                    HeapBlock { next: found.next, size: rest, buffer: found.buffer + used, aligned: 0 };
                (slot, used)
            }
            None => (found.next, found.size),
        };
        link(header, &mut self.free, previous, follower);
        *block(header, index) = HeapBlock { next: self.allocated, size, buffer: found.buffer, aligned };
        self.allocated = index;
        self.free_bytes -= size;
        self.allocated_bytes += size;
    }

    /// Gives back what [`Heap::allocate`] returned.
    pub fn release(&mut self, header: &mut HeapHeader, address: u32) -> Result<(), Status> {
        if address.wrapping_sub(self.buffer) >= self.size {
            return Err(Status::OutOfBounds);
        }
        let (mut previous, mut index) = (NONE, self.allocated);
        while index != NONE && block(header, index).aligned != address {
            (previous, index) = (index, block(header, index).next);
        }
        if index == NONE {
            return Err(Status::InvalidArgs);
        }
        let freed = *block(header, index);
        link(header, &mut self.allocated, previous, freed.next);
        self.free_bytes += freed.size;
        self.allocated_bytes -= freed.size;
        self.insert(header, index);
        Ok(())
    }

    /// Puts a block back into the list of free ones and joins it with its neighbours.
    fn insert(&mut self, header: &mut HeapHeader, index: u32) {
        let start = block(header, index).buffer;
        let (mut before, mut after) = (NONE, self.free);
        while after != NONE && block(header, after).buffer < start {
            (before, after) = (after, block(header, after).next);
        }
        *block(header, index) = HeapBlock { next: after, aligned: 0, ..*block(header, index) };
        link(header, &mut self.free, before, index);
        join(header, index, after);
        if before != NONE {
            join(header, before, index);
        }
    }

    /// Bytes of the largest free block.
    pub fn largest(&self, header: &HeapHeader) -> u32 {
        let (mut largest, mut index) = (0, self.free);
        while index != NONE {
            let found = header.blocks[index as usize % HEAP_BLOCKS];
            largest = largest.max(found.size);
            index = found.next;
        }
        largest
    }

    /// Bytes that callers asked for and got at `address`; `None` when it is no allocated block.
    pub fn size_of(&self, header: &HeapHeader, address: u32) -> Option<u32> {
        let mut index = self.allocated;
        while index != NONE {
            let found = header.blocks[index as usize % HEAP_BLOCKS];
            if found.aligned == address {
                return Some(found.size - (found.aligned - found.buffer));
            }
            index = found.next;
        }
        None
    }
}

fn block(header: &mut HeapHeader, index: u32) -> &mut HeapBlock {
    &mut header.blocks[index as usize % HEAP_BLOCKS]
}

/// Makes `next` follow `previous`, or the list begin with it.
fn link(header: &mut HeapHeader, head: &mut u32, previous: u32, next: u32) {
    if previous == NONE { *head = next } else { block(header, previous).next = next }
}

fn take_slot(header: &mut HeapHeader) -> Option<u32> {
    let slot = header.unused.trailing_zeros();
    if slot == 32 {
        return None;
    }
    header.unused &= !(1 << slot);
    Some(slot)
}

/// Where an allocation would begin in a block, and how many of the block's bytes it would use.
fn fit(found: &HeapBlock, size: u32, align: u32) -> Option<(u32, u32)> {
    let aligned = found.buffer.checked_add(align - 1)? & !(align - 1);
    let used = (aligned - found.buffer).checked_add(size)?;
    (used <= found.size).then_some((aligned, used))
}

/// Makes one block of two free ones, if they touch.
fn join(header: &mut HeapHeader, first: u32, second: u32) {
    if second == NONE {
        return;
    }
    let (a, b) = (*block(header, first), *block(header, second));
    if a.buffer + a.size == b.buffer {
        *block(header, first) = HeapBlock { next: b.next, size: a.size + b.size, ..a };
        header.unused |= 1 << second;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> HeapHeader {
        HeapHeader { blocks: [HeapBlock::default(); HEAP_BLOCKS], unused: 0 }
    }

    #[test]
    fn the_first_fit_in_the_order_of_addresses_is_taken() {
        let mut h = header();
        let mut heap = Heap::new(0x8000, 0x4000, &mut h);
        let a = heap.allocate(&mut h, 0x100, 64).unwrap();
        let b = heap.allocate(&mut h, 0x40, 64).unwrap();
        let c = heap.allocate(&mut h, 0x100, 64).unwrap();
        assert_eq!([a, b, c], [0x8000, 0x8100, 0x8140]);
        heap.release(&mut h, b).unwrap();
        heap.release(&mut h, a).unwrap();
        assert_eq!(heap.allocate(&mut h, 0x140, 64), Ok(0x8000), "neighbours were joined");
        assert_eq!(heap.allocate(&mut h, 0x140, 64), Ok(0x8240));
    }

    #[test]
    fn failures_have_the_numbers_of_the_original() {
        let mut h = header();
        let mut heap = Heap::new(0x8000, 0x4000, &mut h);
        assert_eq!(heap.allocate(&mut h, 0x4001, 64), Err(Status::AllocFailed));
        assert_eq!(heap.allocate(&mut h, u32::MAX, 64), Err(Status::AllocFailed));
        assert_eq!(heap.allocate(&mut h, 16, 48), Err(Status::IllegalAlign));
        assert_eq!(heap.allocate(&mut h, 0, 64), Err(Status::InvalidArgs));
        assert_eq!(heap.release(&mut h, 0xc000), Err(Status::OutOfBounds));
        assert_eq!(heap.release(&mut h, 0x8000), Err(Status::InvalidArgs));
        assert_eq!(Status::AllocFailed as i32, -100);
        assert_eq!(heap.largest(&h), 0x4000);
        assert_eq!(Heap::empty().allocate(&mut h, 1, 1), Err(Status::AllocFailed));
    }

    #[test]
    fn a_rest_of_four_bytes_stays_with_its_block() {
        let mut h = header();
        let mut heap = Heap::new(0, 128, &mut h);
        heap.allocate(&mut h, 124, 4).unwrap();
        assert_eq!((heap.free_bytes, heap.largest(&h)), (0, 0));
        heap.release(&mut h, 0).unwrap();
        heap.allocate(&mut h, 120, 4).unwrap();
        assert_eq!((heap.free_bytes, heap.size_of(&h, 0)), (8, Some(120)));
    }

    #[test]
    fn without_a_block_for_the_rest_the_whole_block_is_given_away() {
        let mut h = header();
        let mut heap = Heap::new(0, 0x1_0000, &mut h);
        let taken: Vec<u32> = (0..HEAP_BLOCKS).map(|_| heap.allocate(&mut h, 64, 64).unwrap()).collect();
        assert_eq!(heap.allocate(&mut h, 64, 64), Err(Status::AllocFailed), "the last block got all the rest");
        for address in taken.iter().rev() {
            heap.release(&mut h, *address).unwrap();
        }
        assert_eq!((heap.largest(&h), h.unused.count_ones()), (0x1_0000, 31));
    }

    #[test]
    fn random_use_never_overlaps_and_everything_comes_back() {
        let mut h = header();
        let mut heap = Heap::new(0x100, 0x4000, &mut h);
        let mut live: Vec<(u32, u32)> = Vec::new();
        let mut state = 12345_u32;
        let mut random = |bound: u32| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) % bound
        };
        for _ in 0..20_000 {
            if random(3) > 0 {
                let (size, align) = (1 + random(900), 1 << random(8));
                if let Ok(at) = heap.allocate(&mut h, size, align) {
                    assert!(at % align == 0 && at >= 0x100 && at + size <= 0x4100);
                    assert!(live.iter().all(|(other, bytes)| at + size <= *other || other + bytes <= at));
                    live.push((at, size));
                }
            } else if !live.is_empty() {
                let (at, size) = live.swap_remove(random(live.len() as u32) as usize);
                assert!(heap.size_of(&h, at).unwrap() >= size);
                heap.release(&mut h, at).unwrap();
            }
        }
        for (at, _) in live {
            heap.release(&mut h, at).unwrap();
        }
        assert_eq!((heap.largest(&h), heap.free_bytes, heap.allocated_bytes), (0x4000, 0x4000, 0));
    }
}
