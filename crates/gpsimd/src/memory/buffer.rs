//! The write buffer of a core: its stores through windows, until an ordering instruction lets everybody see them.

use std::collections::HashMap;

use super::shared::{PAGE_WORDS, Page, SharedError, merge};

/// Words whose bytes share one word of the mask.
const GROUP: usize = 16;

/// The stores to one page.
#[derive(Debug)]
pub(crate) struct Overlay {
    words: Box<[u32]>,
    /// One bit for each byte.
    mask: Box<[u64]>,
    /// First and last word with a store; nothing when the first is behind the last.
    first: usize,
    last: usize,
}

impl Overlay {
    fn new() -> Self {
        let words = vec![0; PAGE_WORDS].into_boxed_slice();
        let mask = vec![0; PAGE_WORDS / GROUP].into_boxed_slice();
        Self { words, mask, first: usize::MAX, last: 0 }
    }

    fn bytes_of(&self, index: usize) -> u32 {
        let group = self.mask.get(index / GROUP).copied().unwrap_or(0);
        let bits = (group >> (4 * (index % GROUP))) as u32 & 15;
        // Each bit becomes a byte.
        (bits & 1 | (bits & 2) << 7 | (bits & 4) << 14 | (bits & 8) << 21) * 255
    }

    /// The word as this core sees it.
    #[inline]
    pub(crate) fn load(&self, index: usize, shared: u32) -> u32 {
        let mask = self.bytes_of(index);
        if mask == 0 {
            return shared;
        }
        let own = self.words.get(index).copied().unwrap_or(0);
        shared & !mask | own & mask
    }

    /// Stores the bytes in `mask`; `bits` has one bit for each of them.
    #[inline]
    pub(crate) fn store(&mut self, index: usize, value: u32, mask: u32, bits: u32) {
        if let (Some(word), Some(group)) = (self.words.get_mut(index), self.mask.get_mut(index / GROUP)) {
            *word = *word & !mask | value & mask;
            *group |= u64::from(bits) << (4 * (index % GROUP));
            self.first = self.first.min(index);
            self.last = self.last.max(index);
        }
    }

    /// Makes the stores visible.
    fn drain(&mut self, page: &Page) {
        for index in self.first..=self.last.min(PAGE_WORDS - 1) {
            let mask = self.bytes_of(index);
            if let (true, Some(word)) = (mask != 0, page.get(index)) {
                merge(word, self.words.get(index).copied().unwrap_or(0), mask);
            }
        }
        self.clear();
    }

    fn clear(&mut self) {
        if self.first <= self.last {
            let groups = self.first / GROUP..=self.last / GROUP;
            if let Some(mask) = self.mask.get_mut(groups) {
                mask.fill(0);
            }
        }
        (self.first, self.last) = (usize::MAX, 0);
    }

    fn dirty_bytes(&self) -> u64 {
        self.mask.iter().map(|group| u64::from(group.count_ones())).sum()
    }
}

/// Stores of one core that others do not see yet.
#[derive(Debug, Default)]
pub(crate) struct WriteBuffer {
    overlays: Vec<Overlay>,
    index: HashMap<u64, usize>,
    /// Pages with stores, by number.
    dirty: Vec<u64>,
}

/// More pages than this are not kept when they hold nothing.
const KEPT: usize = 64;

impl WriteBuffer {
    /// The overlay of a page, if it ever had one.
    pub(crate) fn find(&self, page: u64) -> Option<usize> {
        self.index.get(&page).copied()
    }

    /// The overlay of a page, to be written.
    pub(crate) fn find_for_writing(&mut self, page: u64) -> usize {
        let overlays = &mut self.overlays;
        *self.index.entry(page).or_insert_with(|| {
            overlays.push(Overlay::new());
            overlays.len() - 1
        })
    }

    pub(crate) fn overlay(&self, index: usize) -> Option<&Overlay> {
        self.overlays.get(index)
    }

    /// Stores into an overlay.
    #[inline]
    pub(crate) fn store(&mut self, overlay: usize, page: u64, at: usize, value: u32, mask: u32, bits: u32) {
        if let Some(overlay) = self.overlays.get_mut(overlay) {
            if overlay.first > overlay.last {
                self.dirty.push(page);
            }
            overlay.store(at, value, mask, bits);
        }
    }

    /// Is there anything to drain?
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.dirty.is_empty()
    }

    /// Bytes that others do not see yet, by page.
    pub(crate) fn pending(&self) -> Vec<(u64, u64)> {
        let bytes = |page: &u64| self.find(*page).and_then(|index| self.overlay(index)).map_or(0, Overlay::dirty_bytes);
        self.dirty.iter().map(|page| (*page, bytes(page))).collect()
    }

    /// Makes all stores visible; `page` finds the memory behind a page. Returns true when overlays were given up, so that
    /// their indices mean nothing any more.
    pub(crate) fn drain<'a>(
        &mut self,
        mut page: impl FnMut(u64) -> Result<&'a Page, SharedError>,
    ) -> Result<bool, SharedError> {
        for number in std::mem::take(&mut self.dirty) {
            let page = page(number)?;
            if let Some(overlay) = self.index.get(&number).and_then(|index| self.overlays.get_mut(*index)) {
                overlay.drain(page);
            }
        }
        Ok(self.shrink())
    }

    /// Forgets all stores.
    pub(crate) fn discard(&mut self) -> bool {
        for number in std::mem::take(&mut self.dirty) {
            if let Some(overlay) = self.index.get(&number).and_then(|index| self.overlays.get_mut(*index)) {
                overlay.clear();
            }
        }
        self.shrink()
    }

    fn shrink(&mut self) -> bool {
        let many = self.overlays.len() > KEPT;
        if many {
            self.overlays.clear();
            self.index.clear();
        }
        many
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::SharedMemory;

    #[test]
    fn stores_are_seen_by_their_core_at_once_and_by_others_after_the_drain() {
        let memory = SharedMemory::new(1 << 20, 1 << 20);
        memory.write(0x1_0000, &[0x11; 8]).unwrap();
        let mut buffer = WriteBuffer::default();
        let overlay = buffer.find_for_writing(1);
        buffer.store(overlay, 1, 0, 0xaabb_ccdd, 0x00ff_ff00, 0b0110);
        assert_eq!(buffer.overlay(overlay).unwrap().load(0, 0x1111_1111), 0x11bb_cc11);
        assert_eq!(buffer.overlay(overlay).unwrap().load(1, 0x1111_1111), 0x1111_1111);
        assert_eq!(buffer.pending(), [(1, 2)]);
        let mut seen = [0; 8];
        memory.read(0x1_0000, &mut seen).unwrap();
        assert_eq!(seen, [0x11; 8]);
        assert!(!buffer.drain(|page| memory.page_for_writing(page)).unwrap() && buffer.is_empty());
        memory.read(0x1_0000, &mut seen).unwrap();
        assert_eq!(seen, [0x11, 0xcc, 0xbb, 0x11, 0x11, 0x11, 0x11, 0x11]);
        assert_eq!(buffer.overlay(overlay).unwrap().load(0, 5), 5, "nothing of the old stores is left");
    }

    #[test]
    fn discarded_stores_reach_nobody() {
        let memory = SharedMemory::new(1 << 20, 1 << 20);
        let mut buffer = WriteBuffer::default();
        for page in 0..70 {
            let overlay = buffer.find_for_writing(page);
            buffer.store(overlay, page, 7, 1, u32::MAX, 15);
        }
        assert!(buffer.discard(), "70 overlays are given up");
        buffer.drain(|page| memory.page_for_writing(page)).unwrap();
        assert_eq!(memory.resident(), 0);
    }
}
