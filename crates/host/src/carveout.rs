//! The carveout of a simulated device: one shared object, placed first-fit like the heap of the board.

use crate::arena::{Arena, Room};
use crate::{Buffer, Error};
use outboard_shm::{Mapping, Object};
use outboard_wire::{MapWindow, SharedMap};
use std::sync::Arc;

/// Buffers start at multiples of this: the largest page an AArch64 kernel uses.
const GRANULE: u64 = 0x1_0000;

/// The 512 MiB that host and device share.
#[derive(Debug)]
pub(crate) struct Carveout {
    object: Object,
    mapping: Arc<Mapping>,
    /// The host's own view, when host and device do not see each other's writes by themselves.
    shadow: Option<(Object, Arc<Mapping>)>,
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
        Ok(Self { object, mapping, shadow: None, arena: Arena::new(region.base, region.size, GRANULE) })
    }

    /// Gives the host a view of its own: what one side writes, the other sees only after [`Carveout::flush`] or
    /// [`Carveout::invalidate`], as with caches that are not coherent.
    pub(crate) fn separate_views(&mut self) -> Result<(), Error> {
        let shadow = Object::create("outboard-host-view", self.object.size())?;
        let mapping = Arc::new(Mapping::of(&shadow)?);
        self.shadow = Some((shadow, mapping));
        Ok(())
    }

    /// Shows the device what the host wrote into a buffer.
    pub(crate) fn flush(&self, buffer: &Buffer) -> Result<(), Error> {
        match &self.shadow {
            Some((shadow, view)) => copy(buffer, shadow, view, &self.mapping),
            None => Ok(()),
        }
    }

    /// Shows the host what the device wrote into a buffer.
    pub(crate) fn invalidate(&self, buffer: &Buffer) -> Result<(), Error> {
        match &self.shadow {
            Some((_, view)) => copy(buffer, &self.object, &self.mapping, view),
            None => Ok(()),
        }
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
        let mapping = self.shadow.as_ref().map_or(&self.mapping, |(_, view)| view);
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

/// Copies what was written of a buffer's range from one view to the other.
fn copy(buffer: &Buffer, written: &Object, from: &Mapping, to: &Mapping) -> Result<(), Error> {
    let start = buffer.window().base - SharedMap::CARVEOUT.base;
    let parts = written
        .written(start, start + buffer.window().size)
        .map_err(|source| outboard_shm::MapError::Create { size: written.size(), source })?;
    let mut chunk = vec![0; 0x1_0000];
    for part in parts {
        for at in part.clone().step_by(chunk.len()) {
            let len = usize::try_from(part.end - at).unwrap_or(usize::MAX).min(chunk.len());
            let offset = usize::try_from(at).unwrap_or(usize::MAX);
            from.read(offset, &mut chunk[..len])?;
            to.write(offset, &chunk[..len])?;
        }
    }
    Ok(())
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
}
