//! A bounded single-producer single-consumer ring of messages in shared memory.

use crate::primitives::{AtomicU32, MESSAGE_BYTES, Ordering, SLOTS, fence, sleep_while, wake_sleepers};

/// Why a message could not be exchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RingError {
    /// Longer than a slot.
    #[error("a message of {len} bytes does not fit: a transport buffer holds {MESSAGE_BYTES}")]
    TooLong {
        /// Bytes of the message.
        len: usize,
    },
    /// All slots are taken and the peer does not read.
    #[error("the message ring is full: the peer has not read the last {SLOTS} messages")]
    Full,
    /// The peer wrote something impossible into the ring.
    #[error("the peer corrupted the message ring: {what} is {value}")]
    Corrupt {
        /// The field.
        what: &'static str,
        /// Its value.
        value: u32,
    },
}

/// A counter alone on its cache line, so that producer and consumer do not share one.
#[repr(C, align(64))]
struct Counter {
    value: AtomicU32,
    sleepers: AtomicU32,
}

#[repr(C, align(64))]
struct Slot {
    len: AtomicU32,
    bytes: [AtomicU32; MESSAGE_BYTES / 4],
}

/// The ring as it lies in shared memory. All zero is an empty ring.
#[repr(C)]
pub(crate) struct Ring {
    tail: Counter,
    head: Counter,
    slots: [Slot; SLOTS as usize],
}

impl Ring {
    #[cfg(test)]
    pub(crate) fn empty() -> Self {
        let counter = || Counter { value: AtomicU32::new(0), sleepers: AtomicU32::new(0) };
        let slot = || Slot { len: AtomicU32::new(0), bytes: std::array::from_fn(|_| AtomicU32::new(0)) };
        Self { tail: counter(), head: counter(), slots: std::array::from_fn(|_| slot()) }
    }

    /// Appends a message; never waits.
    pub(crate) fn push(&self, message: &[u8]) -> Result<(), RingError> {
        let len = u32::try_from(message.len()).ok().filter(|len| *len as usize <= MESSAGE_BYTES);
        let len = len.ok_or(RingError::TooLong { len: message.len() })?;
        let tail = self.tail.value.load(Ordering::Relaxed);
        let used = tail.wrapping_sub(self.head.value.load(Ordering::Acquire));
        if used > SLOTS {
            return Err(RingError::Corrupt { what: "the number of waiting messages", value: used });
        }
        if used == SLOTS {
            return Err(RingError::Full);
        }
        let slot = &self.slots[(tail % SLOTS) as usize];
        for (word, chunk) in slot.bytes.iter().zip(message.chunks(4)) {
            let mut bytes = [0; 4];
            bytes[..chunk.len()].copy_from_slice(chunk);
            word.store(u32::from_le_bytes(bytes), Ordering::Relaxed);
        }
        slot.len.store(len, Ordering::Relaxed);
        self.tail.value.store(tail.wrapping_add(1), Ordering::Release);
        // With the fence in `sleep`: either this side sees the sleeper, or the sleeper sees the message.
        fence(Ordering::SeqCst);
        if self.tail.sleepers.load(Ordering::Relaxed) != 0 {
            self.wake();
        }
        Ok(())
    }

    /// Takes the oldest message, copied into `buffer`; `None` when there is none.
    pub(crate) fn pop(&self, buffer: &mut [u8; MESSAGE_BYTES]) -> Result<Option<usize>, RingError> {
        let head = self.head.value.load(Ordering::Relaxed);
        let waiting = self.tail.value.load(Ordering::Acquire).wrapping_sub(head);
        if waiting == 0 {
            return Ok(None);
        }
        if waiting > SLOTS {
            return Err(RingError::Corrupt { what: "the number of waiting messages", value: waiting });
        }
        let slot = &self.slots[(head % SLOTS) as usize];
        let len = slot.len.load(Ordering::Relaxed);
        let size = len as usize;
        if size > MESSAGE_BYTES {
            return Err(RingError::Corrupt { what: "a message's length", value: len });
        }
        for (chunk, word) in buffer[..size].chunks_mut(4).zip(&slot.bytes) {
            chunk.copy_from_slice(&word.load(Ordering::Relaxed).to_le_bytes()[..chunk.len()]);
        }
        self.head.value.store(head.wrapping_add(1), Ordering::Release);
        Ok(Some(size))
    }

    /// Whether a message waits.
    pub(crate) fn has_message(&self) -> bool {
        self.tail.value.load(Ordering::Acquire) != self.head.value.load(Ordering::Relaxed)
    }

    /// Blocks until the producer may have added something, at most `timeout`.
    pub(crate) fn sleep(&self, timeout: std::time::Duration, give_up: impl Fn() -> bool) {
        let seen = self.tail.value.load(Ordering::Relaxed);
        self.tail.sleepers.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if self.tail.value.load(Ordering::Relaxed) == self.head.value.load(Ordering::Relaxed) && !give_up() {
            sleep_while(&self.tail.value, seen, timeout);
        }
        self.tail.sleepers.fetch_sub(1, Ordering::Relaxed);
    }

    /// Wakes whoever sleeps on the ring.
    pub(crate) fn wake(&self) {
        wake_sleepers(&self.tail.value);
    }

    /// Forgets everything, for a device that starts afresh.
    pub(crate) fn reset(&self) {
        self.head.value.store(0, Ordering::SeqCst);
        self.tail.value.store(0, Ordering::SeqCst);
    }

    #[cfg(test)]
    pub(crate) fn corrupt_length(&self, slot: usize, len: u32) {
        self.slots[slot].len.store(len, Ordering::SeqCst);
    }

    #[cfg(test)]
    pub(crate) fn corrupt_tail(&self, value: u32) {
        self.tail.value.store(value, Ordering::SeqCst);
    }
}
