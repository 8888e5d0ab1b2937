//! The device's trace: text in a ring that never blocks and keeps the newest bytes.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// Text kept, in bytes; the size of the board's log ring.
const BYTES: usize = 256 * 1024;

/// The trace as it lies in shared memory; all zero is empty.
#[repr(C)]
pub(crate) struct TraceCell {
    written: AtomicU64,
    bytes: [AtomicU8; BYTES],
}

impl TraceCell {
    fn slot(&self, position: u64) -> &AtomicU8 {
        &self.bytes[usize::try_from(position % BYTES as u64).unwrap_or(0)]
    }

    /// Appends text; one writer at a time.
    pub(crate) fn append(&self, text: &[u8]) {
        let start = self.written.load(Ordering::Relaxed);
        for (byte, position) in text.iter().zip(start..) {
            self.slot(position).store(*byte, Ordering::Relaxed);
        }
        self.written.store(start + text.len() as u64, Ordering::Release);
    }

    /// The text from position `from` on, and the position behind it. Text that was overwritten is skipped.
    pub(crate) fn read(&self, from: u64) -> (String, u64) {
        let written = self.written.load(Ordering::Acquire);
        let oldest = written.saturating_sub(BYTES as u64);
        let bytes: Vec<u8> = (from.clamp(oldest, written)..written)
            .map(|position| self.slot(position).load(Ordering::Relaxed))
            .collect();
        (String::from_utf8_lossy(&bytes).into_owned(), written)
    }

    /// Forgets everything.
    pub(crate) fn reset(&self) {
        self.written.store(0, Ordering::Release);
    }
}
