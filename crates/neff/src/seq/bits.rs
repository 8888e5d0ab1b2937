//! Fields of fixed records, little-endian. Offsets are constants of the layouts and lie inside of the record.

use super::SeqError;

/// Reads `N` bytes at `at`; zeros beyond the end, which no layout reaches.
pub(super) fn field<const N: usize>(record: &[u8], at: usize) -> [u8; N] {
    record.get(at..).and_then(<[u8]>::first_chunk).copied().unwrap_or([0; N])
}

pub(super) fn u8_at(record: &[u8], at: usize) -> u8 {
    let [byte] = field(record, at);
    byte
}

pub(super) fn u16_at(record: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(field(record, at))
}

pub(super) fn u32_at(record: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(field(record, at))
}

pub(super) fn u64_at(record: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(field(record, at))
}

pub(super) fn put(record: &mut [u8], at: usize, bytes: &[u8]) {
    for (to, from) in record.iter_mut().skip(at).zip(bytes) {
        *to = *from;
    }
}

/// Refuses the first byte of `range` that is not zero; `base` is the offset of the record in its instruction.
pub(super) fn reserved(record: &[u8], range: std::ops::Range<usize>, base: usize) -> Result<(), SeqError> {
    let start = range.start;
    let bytes = record.get(range).unwrap_or(&[]);
    match bytes.iter().position(|byte| *byte != 0) {
        None => Ok(()),
        Some(index) => {
            let value = bytes.get(index).copied().unwrap_or(0);
            Err(SeqError::Reserved { offset: base + start + index, value })
        }
    }
}
