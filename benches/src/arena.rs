//! Device memory for measurements: one buffer, touched before the clock starts, as a device's memory is.

use outboard_link::{OutOfMemory, SegmentRequest, TargetMemory};

/// A bump allocator over one buffer. [`Arena::reset`] frees everything.
#[derive(Debug)]
pub struct Arena {
    base: u64,
    next: u64,
    bytes: Vec<u8>,
}

impl Arena {
    /// An arena of `size` bytes at device address `base`; every page is touched.
    #[must_use]
    pub fn new(base: u64, size: usize) -> Self {
        Self { base, next: base, bytes: vec![0xa5; size] }
    }

    /// Frees everything; contents stay.
    pub const fn reset(&mut self) {
        self.next = self.base;
    }

    fn range(&self, address: u64, len: u64) -> Option<core::ops::Range<usize>> {
        let start = usize::try_from(address.checked_sub(self.base)?).ok()?;
        Some(start..start.checked_add(usize::try_from(len).ok()?)?)
    }
}

impl TargetMemory for Arena {
    fn allocate(&mut self, request: &SegmentRequest) -> Result<u64, OutOfMemory> {
        let total = self.bytes.len() as u64;
        let free = self.base + total - self.next;
        let full = OutOfMemory { pool: "arena", requested: request.size, free, total, largest: free };
        let address = self.next.checked_next_multiple_of(request.align).ok_or(full)?;
        if address.saturating_add(request.size) > self.base + total {
            return Err(full);
        }
        self.next = address + request.size;
        Ok(address)
    }

    fn release(&mut self, _address: u64) {}

    fn bytes(&self, address: u64, len: u64) -> Option<&[u8]> {
        self.bytes.get(self.range(address, len)?)
    }

    fn bytes_mut(&mut self, address: u64, len: u64) -> Option<&mut [u8]> {
        let range = self.range(address, len)?;
        self.bytes.get_mut(range)
    }
}
