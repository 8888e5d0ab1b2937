//! Tables of relocations: RELA entries and packed relative relocations.

use crate::Class;
use crate::bytes::{u32_at, u64_at};

/// One relocation with addend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rela {
    /// Link address of the place (`r_offset`).
    pub offset: u64,
    /// Relocation type, the full low half of `r_info`.
    pub kind: u32,
    /// Symbol index.
    pub symbol: u32,
    /// Addend.
    pub addend: i64,
}

/// A table of [`Rela`] entries.
#[derive(Debug, Clone, Copy)]
pub struct RelaTable<'a> {
    class: Class,
    raw: &'a [u8],
}

impl<'a> RelaTable<'a> {
    /// Wraps the bytes of a table; a partial entry at the end is ignored.
    #[must_use]
    pub const fn new(class: Class, raw: &'a [u8]) -> Self {
        Self { class, raw }
    }

    /// Number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.raw.len() / self.stride()
    }

    /// True for a table without entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All entries in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Rela> + use<'a> {
        let class = self.class;
        self.raw.chunks_exact(self.stride()).map(move |raw| decode(class, raw))
    }

    /// The raw ELF64 entries, for loops that count every nanosecond; empty for ELF32.
    #[must_use]
    pub fn entries64(&self) -> &'a [[u8; 24]] {
        match self.class {
            Class::Elf32 => &[],
            Class::Elf64 => self.raw.as_chunks().0,
        }
    }

    /// Decodes one raw ELF64 entry.
    #[inline]
    #[must_use]
    pub const fn decode64(raw: &[u8; 24]) -> Rela {
        let [o0, o1, o2, o3, o4, o5, o6, o7, t0, t1, t2, t3, s0, s1, s2, s3, a0, a1, a2, a3, a4, a5, a6, a7] = *raw;
        Rela {
            offset: u64::from_le_bytes([o0, o1, o2, o3, o4, o5, o6, o7]),
            kind: u32::from_le_bytes([t0, t1, t2, t3]),
            symbol: u32::from_le_bytes([s0, s1, s2, s3]),
            addend: i64::from_le_bytes([a0, a1, a2, a3, a4, a5, a6, a7]),
        }
    }

    fn stride(&self) -> usize {
        usize::try_from(self.class.rela_size()).unwrap_or(usize::MAX)
    }
}

fn decode(class: Class, raw: &[u8]) -> Rela {
    match class {
        Class::Elf64 => {
            raw.first_chunk().map_or(Rela { offset: 0, kind: 0, symbol: 0, addend: 0 }, RelaTable::decode64)
        }
        Class::Elf32 => {
            let info = u32_at(raw, 4);
            Rela {
                offset: u64::from(u32_at(raw, 0)),
                kind: info & 0xff,
                symbol: info >> 8,
                addend: i64::from(u32_at(raw, 8).cast_signed()),
            }
        }
    }
}

/// Packed relative relocations (`DT_RELR`): even words are addresses, odd words are bit maps of the words that follow.
#[derive(Debug, Clone, Copy)]
pub struct RelrTable<'a> {
    raw: &'a [u8],
}

impl<'a> RelrTable<'a> {
    /// Wraps the bytes of a 64-bit table; a partial word at the end is ignored.
    #[must_use]
    pub const fn new(raw: &'a [u8]) -> Self {
        Self { raw }
    }

    /// The link addresses of all places, in table order. A bit map before the first address has no base and counts from 0.
    pub fn places(&self) -> impl Iterator<Item = u64> + use<'a> {
        let mut next = 0_u64;
        self.raw.chunks_exact(8).flat_map(move |raw| {
            let word = u64_at(raw, 0);
            let (base, bits) = if word & 1 == 0 { (word, 1) } else { (next, word >> 1) };
            next = base.wrapping_add(if word & 1 == 0 { 8 } else { 63 * 8 });
            (0..63_u64).filter(move |bit| bits >> bit & 1 == 1).map(move |bit| base.wrapping_add(8 * bit))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn packed_relocations_unfold_into_addresses() {
        // address 0x1000, then a map with bits 0, 2 and 62 of the words after it, then a second map
        let words = [0x1000_u64, (1 << 1) | (1 << 3) | (1 << 63) | 1, (1 << 1) | 1, 0x8000];
        let raw: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let places: Vec<u64> = RelrTable::new(&raw).places().collect();
        assert_eq!(places, [0x1000, 0x1008, 0x1018, 0x1008 + 62 * 8, 0x1008 + 63 * 8, 0x8000]);
    }

    #[test]
    fn both_classes_decode_the_same_relocation() {
        let mut large = Vec::new();
        large.extend(0x1234_u64.to_le_bytes());
        large.extend((7_u64 << 32 | 18).to_le_bytes());
        large.extend((-4_i64).to_le_bytes());
        let mut small = Vec::new();
        small.extend(0x1234_u32.to_le_bytes());
        small.extend((7_u32 << 8 | 18).to_le_bytes());
        small.extend((-4_i32).to_le_bytes());
        let expected = Rela { offset: 0x1234, kind: 18, symbol: 7, addend: -4 };
        assert_eq!(RelaTable::new(Class::Elf64, &large).iter().collect::<Vec<_>>(), [expected]);
        assert_eq!(RelaTable::new(Class::Elf32, &small).iter().collect::<Vec<_>>(), [expected]);
        assert_eq!(RelaTable::new(Class::Elf64, &large).entries64().len(), 1);
    }
}
