//! A small deterministic generator, so that a seed names an input for ever.

/// SplitMix64.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// A generator for a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub const fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `limit`; 0 when `limit` is 0.
    pub const fn below(&mut self, limit: u64) -> u64 {
        if limit == 0 { 0 } else { self.next_u64() % limit }
    }

    /// An element of a slice.
    ///
    /// # Panics
    ///
    /// When the slice is empty.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        let index = self.below(items.len() as u64);
        &items[usize::try_from(index).unwrap_or(0)]
    }
}
