//! The memory of a core, and the part of it that is reserved for a library.

/// Memory of a core: where code and data of a library may go. All in bytes and device addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryBounds {
    /// Base of the instruction memory.
    pub iram_base: u64,
    /// Its size.
    pub iram_size: u64,
    /// Base of the window for a library's code.
    pub code_base: u64,
    /// Its size.
    pub code_size: u64,
    /// Base of the data memory.
    pub dram_base: u64,
    /// Its size.
    pub dram_size: u64,
    /// Base of the window for a library's data.
    pub data_base: u64,
    /// Its size.
    pub data_size: u64,
}

/// Largest window that is accepted; the memories of a core are smaller.
pub(super) const WINDOW_MAX: u64 = 1 << 20;

impl MemoryBounds {
    /// From the eight words in the order of the original's tables, which is the order of the fields.
    #[must_use]
    pub const fn from_words(words: [u64; 8]) -> Self {
        let [iram_base, iram_size, code_base, code_size, dram_base, dram_size, data_base, data_size] = words;
        Self { iram_base, iram_size, code_base, code_size, dram_base, dram_size, data_base, data_size }
    }

    /// Why these bounds describe no memory; `None` when they do.
    #[must_use]
    pub fn problem(&self) -> Option<&'static str> {
        let inside = |base: u64, size: u64, outer: u64, outer_size: u64| {
            let end = base.checked_add(size);
            base >= outer && end.is_some_and(|end| outer.checked_add(outer_size).is_some_and(|outer| end <= outer))
        };
        let fits = |base: u64, size: u64| base.saturating_add(size) <= 1 << 32 && size <= WINDOW_MAX;
        if !fits(self.code_base, self.code_size) || !fits(self.data_base, self.data_size) {
            Some("a window is larger than 1 MiB or reaches beyond 32-bit addresses")
        } else if !inside(self.code_base, self.code_size, self.iram_base, self.iram_size) {
            Some("the code window does not lie in the instruction memory")
        } else if !inside(self.data_base, self.data_size, self.dram_base, self.dram_size) {
            Some("the data window does not lie in the data memory")
        } else if self.code_base < self.data_base.saturating_add(self.data_size)
            && self.data_base < self.code_base.saturating_add(self.code_size)
        {
            Some("the code window and the data window overlap")
        } else {
            None
        }
    }
}

/// A window and the segment in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Device address of the window.
    pub base: u32,
    /// Size of the window.
    pub size: u32,
    /// Offset of the segment inside the window.
    pub inside: u32,
    /// Size of the segment in memory.
    pub used: u32,
}

impl Window {
    /// Device address of the segment.
    #[must_use]
    pub const fn address(&self) -> u32 {
        self.base.wrapping_add(self.inside)
    }

    /// Offset in the window of `len` bytes at `address`, when the segment holds them all.
    #[must_use]
    pub fn in_segment(&self, address: u32, len: u32) -> Option<usize> {
        let inside = address.checked_sub(self.address())?;
        (inside.checked_add(len)? <= self.used).then(|| super::usize_of(self.inside + inside))
    }

    /// Offset in the window of `len` bytes at `address`, when the window holds them all.
    #[must_use]
    pub fn in_window(&self, address: u32, len: u32) -> Option<usize> {
        let inside = address.checked_sub(self.base)?;
        (inside.checked_add(len)? <= self.size).then(|| super::usize_of(inside))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAYMAN: [u64; 8] = [0, 0x2_0000, 0x1_8000, 0x8000, 0x8_0000, 0x4_0000, 0xb_e000, 0x2000];

    #[test]
    fn bounds_that_describe_no_memory_are_named() {
        assert_eq!(MemoryBounds::from_words(CAYMAN).problem(), None);
        let with = |index: usize, value: u64| {
            let mut words = CAYMAN;
            words[index] = value;
            MemoryBounds::from_words(words).problem()
        };
        assert!(with(2, 0x1_8001).unwrap().contains("code window does not lie"));
        assert!(with(7, 0x2001).unwrap().contains("data window does not lie"));
        assert!(with(3, u64::MAX).unwrap().contains("larger than"));
        assert!(with(6, 1 << 32).unwrap().contains("larger than"));
    }
}
