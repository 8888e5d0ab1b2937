//! DMA buffers: each with its own descriptor, its own attachment to the remote processor, and its mapping.

use super::endpoint::open_node;
use super::{RpmsgError, RpmsgOptions, sys};
use crate::arena::{Arena, Room};
use crate::buffer::Owner;
use crate::{Buffer, Error};
use outboard_wire::{MapWindow, SharedMap, in_range};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Size of a page of the heap.
const PAGE: u64 = 4096;

/// What keeps a buffer visible to the device. Closed in this order, after the mapping is gone.
#[derive(Debug)]
struct Block {
    _attachment: File,
    descriptor: OwnedFd,
    size: u64,
}

/// The buffers of a session.
#[derive(Debug)]
pub(super) struct Buffers {
    heap: Option<File>,
    blocks: BTreeMap<u64, Block>,
    /// The carveout as far as this session uses it.
    known: Arena,
}

impl Buffers {
    pub(super) fn new() -> Self {
        let region = SharedMap::CARVEOUT;
        Self { heap: None, blocks: BTreeMap::new(), known: Arena::new(region.base, region.size, PAGE) }
    }

    /// Allocates, attaches and maps a buffer; where it lies is the heap's decision.
    pub(super) fn allocate(&mut self, options: &RpmsgOptions, size: u64) -> Result<Buffer, Error> {
        let refused = |source| RpmsgError::Heap { heap: options.heap_node(), size, source };
        let len = size.max(1).checked_next_multiple_of(PAGE).unwrap_or(u64::MAX);
        let heap = match self.heap.take() {
            Some(heap) => heap,
            None => open_node(&options.heap_node(), OpenOptions::new().read(true))?,
        };
        let heap = self.heap.insert(heap);
        let descriptor = sys::allocate(heap, len).map_err(refused)?;
        let node = options.node(&options.processor()?.name);
        let attachment = open_node(&node, OpenOptions::new().read(true))?;
        let physical =
            sys::attach(&attachment, &descriptor).map_err(|source| RpmsgError::Attach { processor: node, source })?;
        let region = SharedMap::CARVEOUT;
        if !in_range(physical, len, options.carveout, region.size) {
            return Err(RpmsgError::OutsideCarveout { physical, size, carveout: options.carveout }.into());
        }
        let base = physical - options.carveout + region.base;
        let bytes = usize::try_from(len).unwrap_or(usize::MAX);
        let mapping = sys::map(&descriptor, bytes).map_err(refused)?;
        self.known.occupy(base, len);
        self.blocks.insert(base, Block { _attachment: attachment, descriptor, size: len });
        // SAFETY: the mapping was made for this buffer alone, and nothing else in this process has the descriptor's memory.
        unsafe { Buffer::new(MapWindow { base, size }, Arc::new(mapping), 0) }
    }

    /// Unmaps a buffer, takes it from the device and gives it back.
    pub(super) fn release(&mut self, buffer: Buffer) {
        let base = buffer.window().base;
        drop(buffer);
        self.known.release(base);
        self.blocks.remove(&base);
    }

    pub(super) fn room(&self) -> Room {
        self.known.room()
    }

    /// Brings the caches in step for a buffer.
    pub(super) fn synchronise<O: Owner>(&self, buffer: &Buffer<O>, direction: sys::Sync) -> Result<(), Error> {
        // A buffer of another session has no descriptor here.
        let Some(block) = self.blocks.get(&buffer.window().base) else {
            let source = std::io::ErrorKind::NotFound.into();
            return Err(RpmsgError::Sync { size: buffer.window().size, source }.into());
        };
        sys::synchronise(&block.descriptor, direction)
            .map_err(|source| RpmsgError::Sync { size: block.size, source }.into())
    }
}
