//! The carveout's heap: first fit from the low end, in pages. A block is free again when nothing refers to it any more.

use std::collections::BTreeMap;

/// Size of a page.
pub(crate) const PAGE: u64 = 4096;

/// A block of the carveout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Block {
    /// First byte in the carveout.
    pub(crate) start: u64,
    /// Bytes, a multiple of the page size.
    pub(crate) len: u64,
}

/// Blocks in use, with the number of descriptors, attachments and mappings that hold each.
#[derive(Debug, Default)]
pub(crate) struct Heap {
    used: BTreeMap<u64, (u64, u32)>,
}

impl Heap {
    /// The lowest block of `len` bytes below `size`, held once.
    pub(crate) fn allocate(&mut self, len: u64, size: u64) -> Option<Block> {
        let len = len.checked_next_multiple_of(PAGE)?;
        let mut start = 0u64;
        for (used, (taken, _)) in &self.used {
            if used.saturating_sub(start) >= len {
                break;
            }
            start = used + taken;
        }
        start.checked_add(len).filter(|end| *end <= size)?;
        self.used.insert(start, (len, 1));
        Some(Block { start, len })
    }

    pub(crate) fn hold(&mut self, block: Block) {
        if let Some((_, holders)) = self.used.get_mut(&block.start) {
            *holders += 1;
        }
    }

    pub(crate) fn release(&mut self, block: Block) {
        if let Some((_, holders)) = self.used.get_mut(&block.start) {
            *holders -= 1;
            if *holders == 0 {
                self.used.remove(&block.start);
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.used.is_empty()
    }
}
