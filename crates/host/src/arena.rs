//! First-fit placement of blocks in an address range. Pure arithmetic: it owns no memory.

/// A range of addresses that blocks are cut from, always at the lowest place that fits.
#[derive(Debug, Clone)]
pub(crate) struct Arena {
    base: u64,
    size: u64,
    granule: u64,
    /// Blocks in use as (start, length), sorted, both multiples of the granule.
    used: Vec<(u64, u64)>,
}

/// How full an arena is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Bytes not in use.
    pub free: u64,
    /// Longest run of bytes not in use.
    pub largest: u64,
    /// All bytes.
    pub total: u64,
}

impl Arena {
    /// An empty arena whose blocks start and end at multiples of `granule`, a power of two, from `base`.
    pub(crate) fn new(base: u64, size: u64, granule: u64) -> Self {
        Self { base, size, granule, used: Vec::new() }
    }

    /// Takes the lowest free block of `len` bytes (rounded up to the granule, at least one); `None` when there is none.
    pub(crate) fn allocate(&mut self, len: u64) -> Option<u64> {
        let len = self.rounded(len)?;
        let (index, start) = self.gaps().find(|(_, _, gap)| *gap >= len).map(|(index, start, _)| (index, start))?;
        self.used.insert(index, (start, len));
        Some(start)
    }

    /// Marks a block as in use without looking for it. The block must be free; see [`Arena::overlaps`].
    pub(crate) fn occupy(&mut self, start: u64, len: u64) {
        let index = self.used.partition_point(|(other, _)| *other < start);
        self.used.insert(index, (start, self.rounded(len).unwrap_or(len)));
    }

    /// Gives back the block that starts at `start`.
    pub(crate) fn release(&mut self, start: u64) {
        self.used.retain(|(other, _)| *other != start);
    }

    /// How full it is.
    pub(crate) fn room(&self) -> Room {
        let free = self.gaps().map(|(_, _, gap)| gap);
        Room { free: free.clone().sum(), largest: free.max().unwrap_or(0), total: self.size }
    }

    fn rounded(&self, len: u64) -> Option<u64> {
        len.max(1).checked_next_multiple_of(self.granule)
    }

    /// Free runs as (index in `used` before which a block there goes, start, length).
    fn gaps(&self) -> impl Iterator<Item = (usize, u64, u64)> + Clone + '_ {
        let starts = std::iter::once(self.base).chain(self.used.iter().map(|(start, len)| start + len));
        let ends = self.used.iter().map(|(start, _)| *start).chain(std::iter::once(self.base + self.size));
        starts.zip(ends).enumerate().map(|(index, (start, end))| (index, start, end.saturating_sub(start)))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_lowest_gap_that_fits_is_taken() {
        let mut arena = Arena::new(0x1000, 0x1000, 0x100);
        assert_eq!(arena.allocate(0x100), Some(0x1000));
        assert_eq!(arena.allocate(0x101), Some(0x1100));
        assert_eq!(arena.allocate(1), Some(0x1300));
        arena.release(0x1100);
        assert_eq!(arena.room(), Room { free: 0xE00, largest: 0xC00, total: 0x1000 });
        assert_eq!(arena.allocate(0x300), Some(0x1400));
        assert_eq!(arena.allocate(0x200), Some(0x1100));
        assert_eq!(arena.allocate(0x901), None);
        assert_eq!(arena.allocate(0x900), Some(0x1700));
        assert_eq!(arena.room().free, 0);
        assert_eq!(arena.allocate(0), None);
    }

    #[test]
    fn a_length_near_the_end_of_the_number_range_is_refused() {
        assert_eq!(Arena::new(0, 0x1000, 0x100).allocate(u64::MAX), None);
    }

    proptest! {
        #[test]
        fn blocks_never_overlap_and_every_byte_is_accounted_for(
            steps in prop::collection::vec((any::<bool>(), 0u64..0x900, any::<prop::sample::Index>()), 1..60),
        ) {
            let mut arena = Arena::new(0xC000_0000, 0x4000, 0x40);
            let mut live: Vec<(u64, u64)> = Vec::new();
            for (allocate, len, pick) in steps {
                if allocate || live.is_empty() {
                    if let Some(start) = arena.allocate(len) {
                        let len = len.max(1).next_multiple_of(0x40);
                        prop_assert!(start >= 0xC000_0000 && start + len <= 0xC000_4000);
                        prop_assert!(live.iter().all(|(other, size)| start + len <= *other || other + size <= start));
                        live.push((start, len));
                    }
                } else {
                    let (start, _) = live.swap_remove(pick.index(live.len()));
                    arena.release(start);
                }
                let used: u64 = live.iter().map(|(_, len)| len).sum();
                prop_assert_eq!(arena.room().free, 0x4000 - used);
            }
        }
    }
}
