//! The printf buffer: what modules print goes into shared memory, and printing never blocks.
//!
//! The first `capacity` bytes since the last reset are kept; the rest is counted in the header's last word.

use crate::memory::Memory;
use outboard_wire::{MapWindow, PrintfHeader};
use zerocopy::IntoBytes;

/// Where module output goes at the moment.
#[derive(Debug)]
pub struct PrintfBuffer {
    window: MapWindow,
    capacity: u64,
    written: u64,
    dropped: u64,
}

impl PrintfBuffer {
    /// Puts an empty buffer into `window`; `None` when no text would fit or the window is not memory.
    pub fn bind(memory: &mut Memory, window: MapWindow) -> Option<Self> {
        let header = PrintfHeader::empty(u32::try_from(window.size).ok()?)?;
        memory.bytes_mut(window.base, window.size)?;
        let mut buffer = Self { window, capacity: header.buf_size.get().into(), written: 0, dropped: 0 };
        buffer.reset(memory);
        Some(buffer)
    }

    /// Forgets the text.
    pub fn reset(&mut self, memory: &mut Memory) {
        self.written = 0;
        self.dropped = 0;
        self.publish(memory);
    }

    /// Appends text; `total` is its full length when the caller has cut it already.
    pub fn append(&mut self, memory: &mut Memory, text: &[u8], total: u64) {
        let room = self.capacity - self.written;
        let kept = text.len().min(usize::try_from(room).unwrap_or(usize::MAX));
        let at = self.window.base + u64::from(PrintfHeader::SIZE) + self.written;
        if let Some(to) = memory.bytes_mut(at, kept as u64) {
            to.copy_from_slice(&text[..kept]);
            self.written += kept as u64;
        }
        self.dropped = self.dropped.saturating_add(total.max(text.len() as u64) - kept as u64);
        self.publish(memory);
    }

    /// Bytes of text in the buffer.
    pub fn len(&self) -> u32 {
        u32::try_from(self.written).unwrap_or(u32::MAX)
    }

    /// Whether nothing was printed since the last reset.
    pub fn is_empty(&self) -> bool {
        self.written == 0
    }

    /// Bytes that did not fit since the last reset.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// The header is kept true after every write, so that a crash loses no text.
    fn publish(&self, memory: &mut Memory) {
        let header = PrintfHeader {
            magic: PrintfHeader::MAGIC.into(),
            wr_index: self.len().into(),
            buf_size: u32::try_from(self.capacity).unwrap_or(u32::MAX).into(),
            dropped: u32::try_from(self.dropped).unwrap_or(u32::MAX).into(),
        };
        if let Some(to) = memory.bytes_mut(self.window.base, PrintfHeader::SIZE.into()) {
            to.copy_from_slice(header.as_bytes());
        }
    }
}
