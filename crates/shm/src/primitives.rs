//! What the message ring is made of. `tests/ring_model.rs` builds the same ring from the parts of a model checker.

pub(crate) use std::sync::atomic::{AtomicU32, Ordering, fence};

use rustix::thread::futex;
use std::time::Duration;

/// Longest message a slot holds.
pub const MESSAGE_BYTES: usize = 512;
/// Slots of a ring; a power of two.
pub(crate) const SLOTS: u32 = 16;

/// Sleeps while `word` is `seen`, at most `timeout`. A wake-up, a change before the sleep, a signal and the time-out all mean
/// the same: look again.
pub(crate) fn sleep_while(word: &AtomicU32, seen: u32, timeout: Duration) {
    let timeout = futex::Timespec {
        tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: timeout.subsec_nanos().into(),
    };
    let _ = futex::wait(word, futex::Flags::empty(), seen, Some(&timeout));
}

/// Wakes whoever sleeps on `word`.
pub(crate) fn wake_sleepers(word: &AtomicU32) {
    let _ = futex::wake(word, futex::Flags::empty(), u32::MAX >> 1);
}
