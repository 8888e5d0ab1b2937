//! The carveout of a simulated device: one shared object, placed first-fit like the heap of the board.

use crate::arena::{Arena, Room};
use crate::buffer::Owner;
use crate::{Buffer, Device, Error, Host};
use outboard_shm::{HostCache, Mapping, Object};
use outboard_wire::{MapWindow, SharedMap};
use std::ops::Range;
use std::sync::Arc;

/// Buffers start at multiples of this: the largest page an AArch64 kernel uses.
const GRANULE: u64 = 0x1_0000;

/// The 512 MiB that host and device share.
#[derive(Debug)]
pub(crate) struct Carveout {
    object: Object,
    mapping: Arc<Mapping>,
    /// The host's caches, when host and device do not see each other's writes by themselves.
    cache: Option<HostCache>,
    arena: Arena,
}

impl Carveout {
    pub(crate) fn create() -> Result<Self, Error> {
        let region = SharedMap::CARVEOUT;
        Self::adopt(Object::create("outboard-carveout", region.size)?)
    }

    /// The carveout in an object that somebody else made.
    pub(crate) fn adopt(object: Object) -> Result<Self, Error> {
        let region = SharedMap::CARVEOUT;
        if object.size() != region.size {
            return Err(Error::CarveoutSize { got: object.size(), expected: region.size });
        }
        let mapping = Arc::new(Mapping::of(&object)?);
        Ok(Self { object, mapping, cache: None, arena: Arena::new(region.base, region.size, GRANULE) })
    }

    /// Gives the host a cache that is not coherent: what one side writes, the other sees only after [`Carveout::flush`] or
    /// [`Carveout::invalidate`].
    pub(crate) fn separate_views(&mut self) -> Result<(), Error> {
        self.cache = Some(HostCache::new(self.object.size())?);
        Ok(())
    }

    /// Shows the device what the host wrote into a buffer.
    pub(crate) fn flush(&self, buffer: &Buffer<Host>) -> Result<(), Error> {
        self.cache.as_ref().map_or(Ok(()), |cache| Ok(cache.flush(range(buffer), &self.mapping)?))
    }

    /// Shows the host what the device wrote into a buffer.
    pub(crate) fn invalidate(&self, buffer: &Buffer<Device>) -> Result<(), Error> {
        self.cache.as_ref().map_or(Ok(()), |cache| Ok(cache.invalidate(range(buffer), &self.object, &self.mapping)?))
    }

    /// What a device maps.
    pub(crate) fn object(&self) -> &Object {
        &self.object
    }

    pub(crate) fn allocate(&mut self, size: u64) -> Result<Buffer, Error> {
        let Some(base) = self.arena.allocate(size) else {
            let Room { free, largest, total } = self.arena.room();
            return Err(Error::OutOfMemory {
                pool: "shared carveout",
                requested: size,
                free,
                total,
                largest: Some(largest),
            });
        };
        let start = usize::try_from(base - SharedMap::CARVEOUT.base).unwrap_or(usize::MAX);
        let mapping = self.cache.as_ref().map_or(&self.mapping, HostCache::view);
        // SAFETY: the arena hands out every address once until it is released, which consumes the buffer; the mapping is
        // accessed through buffers only.
        unsafe { Buffer::new(MapWindow { base, size }, Arc::clone(mapping), start) }
    }

    pub(crate) fn release(&mut self, buffer: Buffer) {
        self.arena.release(buffer.window().base);
    }

    pub(crate) fn room(&self) -> Room {
        self.arena.room()
    }
}

/// Where a buffer lies in the carveout.
fn range<O: Owner>(buffer: &Buffer<O>) -> Range<u64> {
    let start = buffer.window().base - SharedMap::CARVEOUT.base;
    start..start + buffer.window().size
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn the_four_buffers_of_a_session_come_out_at_the_addresses_of_the_board() {
        let mut carveout = Carveout::create().unwrap();
        let sizes = [SharedMap::STAGING.size + SharedMap::KV.size, 0x1_0000, 11_802_496, 12_583_040];
        let addresses: Vec<u64> = sizes.map(|size| carveout.allocate(size).unwrap().window().base).to_vec();
        assert_eq!(addresses, [0xC000_0000, 0xDE00_0000, 0xDE01_0000, 0xDEB6_0000]);
    }

    #[test]
    fn a_full_carveout_says_what_was_asked_for_and_what_is_left() {
        let mut carveout = Carveout::create().unwrap();
        carveout.allocate(0x1F00_0000).unwrap();
        let refused = carveout.allocate(0x0200_0000).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "out of memory in the shared carveout: 33554432 bytes requested, 16777216 of 536870912 bytes free, the largest block has 16777216"
        );
    }

    #[test]
    fn a_cache_that_is_not_coherent_keeps_both_sides_stale_until_they_synchronise() {
        let mut carveout = Carveout::create().unwrap();
        carveout.separate_views().unwrap();
        let memory = Mapping::of(carveout.object()).unwrap();
        let in_memory = |at: usize| {
            let mut byte = [0];
            memory.read(at, &mut byte).unwrap();
            byte[0]
        };
        let mut buffer = carveout.allocate(0x2_0000).unwrap();
        buffer.write(0x1_0000, &[7; 300]).unwrap();
        assert_eq!(in_memory(0x1_0000), 0, "the device sees nothing yet");
        carveout.flush(&buffer).unwrap();
        assert_eq!((in_memory(0x1_0000), in_memory(0x1_0000 + 299), in_memory(0x1_0000 + 300)), (7, 7, 0));
        memory.write(0x1_0000, &[8]).unwrap();
        // A line that the host has not written again is clean: flushing it does not undo what the device wrote.
        buffer.write(0x1_0000 + 256, &[9]).unwrap();
        carveout.flush(&buffer).unwrap();
        assert_eq!((in_memory(0x1_0000), in_memory(0x1_0000 + 256)), (8, 9));
        assert_eq!(buffer.bytes(0x1_0000, 1).unwrap(), [7], "the host sees nothing yet");
        let buffer = buffer.handed_over();
        carveout.invalidate(&buffer).unwrap();
        let mut buffer = buffer.taken_back();
        assert_eq!(buffer.bytes(0x1_0000, 2).unwrap(), [8, 7]);
        // What was written and not flushed is lost when the device's bytes are read.
        buffer.write(0, &[5]).unwrap();
        let buffer = buffer.handed_over();
        carveout.invalidate(&buffer).unwrap();
        assert_eq!(buffer.taken_back().bytes(0, 1).unwrap(), [0]);
    }
}
