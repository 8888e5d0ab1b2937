//! Symbol hash tables: only what a loader needs of them, the number of symbols.

use crate::ElfError;
use crate::bytes::u32_at;

/// The System V hash of a symbol name.
#[must_use]
pub fn sysv_hash(name: &[u8]) -> u32 {
    name.iter().fold(0_u32, |hash, byte| {
        let hash = (hash << 4).wrapping_add(u32::from(*byte));
        let top = hash & 0xf000_0000;
        (hash ^ (top >> 24)) & !top
    })
}

/// The GNU hash of a symbol name.
#[must_use]
pub fn gnu_hash(name: &[u8]) -> u32 {
    name.iter().fold(5381_u32, |hash, byte| hash.wrapping_mul(33).wrapping_add(u32::from(*byte)))
}

/// The number of symbols according to a System V hash table (`nchain`).
///
/// # Errors
///
/// [`ElfError::BadDynamic`] when the table is too short to hold the two counts.
pub fn sysv_symbol_count(table: &[u8]) -> Result<u32, ElfError> {
    if table.len() < 8 {
        let value = table.len() as u64;
        return Err(ElfError::BadDynamic { tag: "DT_HASH", problem: "has no room for its two counts", value });
    }
    Ok(u32_at(table, 4))
}

/// The number of symbols that a GNU hash table knows of: the index of the last defined symbol plus one, or the index of
/// the first hashed symbol when the table is empty. Undefined symbols may follow when nothing is defined. `table` is
/// everything from the table's address to the end of its segment; the walk never leaves it.
///
/// # Errors
///
/// [`ElfError::BadDynamic`] when a bucket or chain leaves the table.
pub fn gnu_symbol_count(table: &[u8]) -> Result<u64, ElfError> {
    let bad = |problem, value| ElfError::BadDynamic { tag: "DT_GNU_HASH", problem, value };
    if table.len() < 16 {
        return Err(bad("has no room for its header", table.len() as u64));
    }
    let (buckets, first, bloom) = (u32_at(table, 0), u32_at(table, 4), u32_at(table, 8));
    let start = 16 + 8 * u64::from(bloom);
    let end = start + 4 * u64::from(buckets);
    let words = usize::try_from(start)
        .ok()
        .zip(usize::try_from(end).ok())
        .and_then(|(start, end)| table.get(start..end))
        .ok_or(bad("has more buckets than its segment holds", u64::from(buckets)))?;
    let highest = words.chunks_exact(4).map(|word| u32_at(word, 0)).max().unwrap_or(0);
    if highest < first {
        return Ok(u64::from(first));
    }
    let chain = usize::try_from(end + 4 * u64::from(highest - first))
        .ok()
        .and_then(|at| table.get(at..))
        .ok_or(bad("has a bucket beyond its chains", u64::from(highest)))?;
    let length = chain
        .chunks_exact(4)
        .position(|word| u32_at(word, 0) & 1 == 1)
        .ok_or(bad("has a chain that never ends", u64::from(highest)))?;
    Ok(u64::from(highest) + length as u64 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn the_hash_functions_match_the_published_values() {
        assert_eq!(sysv_hash(b""), 0);
        assert_eq!(sysv_hash(b"printf"), 0x077_905a6);
        assert_eq!(gnu_hash(b""), 0x1505);
        assert_eq!(gnu_hash(b"printf"), 0x156b_2bb8);
    }

    #[test]
    fn the_last_chain_of_a_gnu_table_ends_the_symbols() {
        // 2 buckets, first hashed symbol 3, one 64-bit bloom word, buckets {3, 5}, chains of symbols 3..=7
        let table = words(&[2, 3, 1, 0, 0, 0, 3, 5, 2, 3, 2, 2, 9]);
        assert_eq!(gnu_symbol_count(&table), Ok(8));
        assert_eq!(gnu_symbol_count(&words(&[1, 9, 1, 0, 0, 0, 0])), Ok(9));
    }

    #[test]
    fn a_gnu_table_that_leaves_its_segment_is_refused() {
        assert!(gnu_symbol_count(&words(&[1, 1, 1])).is_err());
        assert!(gnu_symbol_count(&words(&[u32::MAX, 1, u32::MAX, 0])).is_err());
        assert!(gnu_symbol_count(&words(&[1, 1, 0, 0, u32::MAX])).is_err());
        assert!(gnu_symbol_count(&words(&[1, 1, 0, 0, 1, 2, 2, 2])).is_err());
    }
}
