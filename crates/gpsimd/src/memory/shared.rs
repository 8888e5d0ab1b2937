//! Memory that all cores share: gigabytes of addresses, of which only the pages that were written exist.
//!
//! Words are atomics, so that cores on several host threads see each other's stores without undefined behaviour. What a
//! kernel must do to order its accesses is the core's business ([`super::WriteBuffer`]).

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// Bytes of a page.
pub(crate) const PAGE: u64 = 1 << PAGE_BITS;
/// Bits of an offset inside of a page.
pub(crate) const PAGE_BITS: u32 = 16;
/// Words of a page.
pub(crate) const PAGE_WORDS: usize = 1 << (PAGE_BITS - 2);
/// Pages of one part of the table.
const PART: usize = 1024;

/// The words of a page.
pub(crate) type Page = Arc<[AtomicU32]>;

type Part = Box<[OnceLock<Page>]>;

/// Why an access to shared memory failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SharedError {
    /// It leaves the memory.
    #[error("{length:#x} bytes at offset {offset:#x} leave the {size:#x} bytes of memory")]
    Outside {
        /// Where it begins.
        offset: u64,
        /// Its length.
        length: u64,
        /// Bytes there are.
        size: u64,
    },
    /// More pages are written than the simulator may hold.
    #[error(
        "the simulated memory holds {limit:#x} bytes already, the limit of this run; raise `resident_limit` of the target"
    )]
    Full {
        /// Bytes that may be held.
        limit: u64,
    },
}

/// A sparse memory.
#[derive(Debug)]
pub struct SharedMemory {
    size: u64,
    limit: usize,
    resident: AtomicUsize,
    parts: Box<[OnceLock<Part>]>,
}

impl SharedMemory {
    /// A memory of `size` bytes that reads as zero; at most `limit` bytes of it are held.
    pub fn new(size: u64, limit: u64) -> Self {
        let pages = usize::try_from(size.div_ceil(PAGE)).unwrap_or(usize::MAX);
        let parts = (0..pages.div_ceil(PART)).map(|_| OnceLock::new()).collect();
        let limit = usize::try_from(limit / PAGE).unwrap_or(usize::MAX);
        Self { size, limit, resident: AtomicUsize::new(0), parts }
    }

    /// Bytes of addresses.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Bytes that are held.
    pub fn resident(&self) -> u64 {
        self.resident.load(Ordering::Relaxed) as u64 * PAGE
    }

    /// A page that was written before.
    pub(crate) fn page(&self, number: u64) -> Option<&Page> {
        let number = usize::try_from(number).ok()?;
        self.parts.get(number / PART)?.get()?.get(number % PART)?.get()
    }

    /// A page, to be written.
    pub(crate) fn page_for_writing(&self, number: u64) -> Result<&Page, SharedError> {
        let outside = SharedError::Outside { offset: number << PAGE_BITS, length: 1, size: self.size };
        let index = usize::try_from(number).map_err(|_| outside)?;
        let part = self.parts.get(index / PART).ok_or(outside)?;
        let part = part.get_or_init(|| (0..PART).map(|_| OnceLock::new()).collect());
        let place = part.get(index % PART).ok_or(outside)?;
        if place.get().is_none() && self.resident.load(Ordering::Relaxed) >= self.limit {
            return Err(SharedError::Full { limit: self.limit as u64 * PAGE });
        }
        Ok(place.get_or_init(|| {
            self.resident.fetch_add(1, Ordering::Relaxed);
            (0..PAGE_WORDS).map(|_| AtomicU32::new(0)).collect()
        }))
    }

    fn check(&self, offset: u64, length: usize) -> Result<(), SharedError> {
        let length = length as u64;
        let inside = offset.checked_add(length).is_some_and(|end| end <= self.size);
        if inside { Ok(()) } else { Err(SharedError::Outside { offset, length, size: self.size }) }
    }

    /// Reads bytes.
    ///
    /// # Errors
    /// They leave the memory.
    pub fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<(), SharedError> {
        self.check(offset, bytes.len())?;
        let mut rest = bytes;
        for Piece { page, inside, length } in pieces(offset, rest.len()) {
            let (piece, behind) = rest.split_at_mut(length);
            match self.page(page) {
                Some(page) => load_bytes(page, inside, piece),
                None => piece.fill(0),
            }
            rest = behind;
        }
        Ok(())
    }

    /// Writes bytes.
    ///
    /// # Errors
    /// They leave the memory, or too much of it is written. Nothing is written beyond the page that failed.
    pub fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), SharedError> {
        self.check(offset, bytes.len())?;
        let mut rest = bytes;
        for Piece { page, inside, length } in pieces(offset, rest.len()) {
            let (piece, behind) = rest.split_at(length);
            store_bytes(self.page_for_writing(page)?, inside, piece);
            rest = behind;
        }
        Ok(())
    }
}

/// Reads bytes of words; those behind the last word read as zero.
pub(crate) fn load_bytes(words: &[AtomicU32], offset: usize, bytes: &mut [u8]) {
    let (index, skip) = (offset / 4, offset % 4);
    let word = |index: usize| words.get(index).map_or(0, |word| word.load(Ordering::Relaxed)).to_le_bytes();
    let head = ((4 - skip) % 4).min(bytes.len());
    let (first, rest) = bytes.split_at_mut(head);
    first.iter_mut().zip(word(index).into_iter().skip(skip)).for_each(|(place, byte)| *place = byte);
    let index = index + usize::from(skip > 0);
    let (whole, last) = rest.as_chunks_mut::<4>();
    let there = words.get(index..).unwrap_or(&[]);
    let known = whole.len().min(there.len());
    for (place, word) in whole.iter_mut().zip(there) {
        *place = word.load(Ordering::Relaxed).to_le_bytes();
    }
    whole.iter_mut().skip(known).for_each(|place| *place = [0; 4]);
    last.iter_mut().zip(word(index + whole.len())).for_each(|(place, byte)| *place = byte);
}

/// Writes bytes of words; those behind the last word are dropped.
pub(crate) fn store_bytes(words: &[AtomicU32], offset: usize, bytes: &[u8]) {
    let (index, skip) = (offset / 4, offset % 4);
    let part = |index: usize, skip: usize, bytes: &[u8]| {
        let Some(word) = words.get(index).filter(|_| !bytes.is_empty()) else { return };
        let (mut value, mut mask) = ([0; 4], [0; 4]);
        for (place, byte) in value.iter_mut().zip(&mut mask).skip(skip).zip(bytes) {
            (*place.0, *place.1) = (*byte, u8::MAX);
        }
        merge(word, u32::from_le_bytes(value), u32::from_le_bytes(mask));
    };
    let (first, rest) = bytes.split_at(((4 - skip) % 4).min(bytes.len()));
    part(index, skip, first);
    let index = index + usize::from(skip > 0);
    let (whole, last) = rest.as_chunks::<4>();
    for (word, bytes) in words.get(index..).unwrap_or(&[]).iter().zip(whole) {
        word.store(u32::from_le_bytes(*bytes), Ordering::Relaxed);
    }
    part(index + whole.len(), 0, last);
}

/// Replaces the bits in `mask`, whatever others do to the rest of the word.
#[inline]
pub(crate) fn merge(word: &AtomicU32, value: u32, mask: u32) {
    if mask == u32::MAX {
        word.store(value, Ordering::Relaxed);
    } else {
        let change = |old: u32| Some(old & !mask | value & mask);
        let _ = word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, change);
    }
}

/// A part of a range that lies in one page.
struct Piece {
    page: u64,
    /// Its first byte in the page.
    inside: usize,
    length: usize,
}

/// The parts of a range, in order.
fn pieces(offset: u64, length: usize) -> impl Iterator<Item = Piece> {
    let (mut at, mut left) = (offset, length);
    std::iter::from_fn(move || {
        let inside = at & (PAGE - 1);
        let piece =
            Piece { page: at >> PAGE_BITS, inside: inside as usize, length: left.min((PAGE - inside) as usize) };
        at += piece.length as u64;
        left -= piece.length;
        (piece.length > 0).then_some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_written_pages_exist_and_the_rest_reads_as_zero() {
        let memory = SharedMemory::new(16 << 30, 1 << 20);
        let mut bytes = [1; 5];
        memory.read((16 << 30) - 5, &mut bytes).unwrap();
        assert_eq!((bytes, memory.resident()), ([0; 5], 0));
        memory.write(0x2_fffd, &[1, 2, 3, 4, 5]).unwrap();
        memory.read(0x2_fffd, &mut bytes).unwrap();
        assert_eq!((bytes, memory.resident()), ([1, 2, 3, 4, 5], 2 * PAGE));
    }

    #[test]
    fn every_range_of_bytes_in_words_is_written_and_read_and_nothing_beside_it() {
        for offset in 0..14 {
            for length in 0..14 {
                let words: Vec<AtomicU32> = (0..3).map(|_| AtomicU32::new(0xeeee_eeee)).collect();
                let bytes: Vec<u8> = (1..=length).collect();
                store_bytes(&words, offset, &bytes);
                let mut expected = [0xee; 28];
                expected[offset..offset + bytes.len()].copy_from_slice(&bytes);
                expected[12..].fill(0); // there are twelve bytes
                let mut all = [1; 28];
                load_bytes(&words, 0, &mut all);
                assert_eq!(all, expected, "{length} at {offset}");
                let mut back = vec![1; bytes.len()];
                load_bytes(&words, offset, &mut back);
                assert_eq!(back, expected[offset..offset + bytes.len()], "{length} at {offset}");
            }
        }
    }

    #[test]
    fn leaving_the_memory_and_holding_too_much_are_refused() {
        let memory = SharedMemory::new(1 << 30, 2 * PAGE);
        assert!(matches!(memory.read(u64::MAX, &mut [0]), Err(SharedError::Outside { .. })));
        assert!(matches!(memory.write((1 << 30) - 1, &[0, 0]), Err(SharedError::Outside { .. })));
        memory.write(0, &[1]).unwrap();
        memory.write(PAGE, &[1]).unwrap();
        assert_eq!(memory.write(2 * PAGE, &[1]), Err(SharedError::Full { limit: 2 * PAGE }));
    }
}
