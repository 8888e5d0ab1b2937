//! The message ring under a model checker: every order in which two threads' loads, stores and sleeps can happen.
//!
//! The code is the ring's own; only what it is made of is replaced: atomics of the checker, a futex made of its mutex and
//! condition variable, and few short slots, so that all orders can be walked.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use primitives::MESSAGE_BYTES;
use ring::{Ring, RingError};
use std::time::Duration;

#[path = "../src/ring.rs"]
#[allow(dead_code, reason = "the models use a part of the ring")]
mod ring;

mod primitives {
    pub(crate) use loom::sync::atomic::{AtomicU32, Ordering, fence};
    use loom::sync::{Condvar, Mutex};
    use std::time::Duration;

    pub const MESSAGE_BYTES: usize = 4;
    pub(crate) const SLOTS: u32 = 2;

    loom::lazy_static! {
        static ref QUEUE: (Mutex<()>, Condvar) = (Mutex::new(()), Condvar::new());
    }

    /// As the kernel does: the word is compared while the queue is locked. It never times out, so that a lost wake-up is a
    /// deadlock, which the checker reports.
    pub(crate) fn sleep_while(word: &AtomicU32, seen: u32, _: Duration) {
        let guard = QUEUE.0.lock().unwrap();
        if word.load(Ordering::SeqCst) == seen {
            drop(QUEUE.1.wait(guard).unwrap());
        }
    }

    pub(crate) fn wake_sleepers(_: &AtomicU32) {
        let _guard = QUEUE.0.lock().unwrap();
        QUEUE.1.notify_all();
    }
}

/// Takes the next message, asleep while there is none.
fn receive(ring: &Ring) -> u8 {
    let mut buffer = [0; MESSAGE_BYTES];
    loop {
        if let Some(len) = ring.pop(&mut buffer).unwrap() {
            assert_eq!(len, 1);
            return buffer[0];
        }
        ring.sleep(Duration::MAX, || false);
    }
}

/// Walks all orders with so many forced changes of thread, beside the changes where a thread sleeps or ends. All orders
/// whatever would take hours.
fn bounded(changes: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(changes);
    builder.check(model);
}

#[test]
fn no_wake_up_is_lost_and_messages_arrive_in_order() {
    bounded(3, || {
        let ring = Arc::new(Ring::empty());
        let producer = {
            let ring = Arc::clone(&ring);
            thread::spawn(move || {
                ring.push(&[1]).unwrap();
                ring.push(&[2]).unwrap();
            })
        };
        assert_eq!((receive(&ring), receive(&ring)), (1, 2));
        producer.join().unwrap();
    });
}

#[test]
fn a_slot_is_never_overwritten_before_it_was_read() {
    loom::model(|| {
        let ring = Arc::new(Ring::empty());
        ring.push(&[1]).unwrap();
        ring.push(&[2]).unwrap();
        let producer = {
            let ring = Arc::clone(&ring);
            thread::spawn(move || match ring.push(&[3]) {
                Ok(()) => true,
                Err(error) => {
                    assert_eq!(error, RingError::Full);
                    false
                }
            })
        };
        assert_eq!((receive(&ring), receive(&ring)), (1, 2));
        if producer.join().unwrap() {
            assert_eq!(receive(&ring), 3);
        }
    });
}

const CALL: u8 = 1;
const UNLOAD: u8 = 2;

/// Memory of a module. The checker reports whoever touches it while somebody else may do so.
struct Module(UnsafeCell<u32>);

// SAFETY: the checker reports every access that is not ordered with the accesses of other threads.
unsafe impl Sync for Module {}

impl Module {
    fn run(&self) -> u32 {
        // SAFETY: the checker reports a write that may happen at the same time.
        self.0.with(|code| unsafe { *code })
    }

    fn replace(&self, new: u32) -> u32 {
        // SAFETY: the checker reports every other access that may happen at the same time.
        self.0.with_mut(|code| unsafe { code.replace(new) })
    }
}

#[test]
fn p8_an_unload_that_is_sent_during_a_call_waits_for_its_end() {
    const CODE: u32 = 42;
    bounded(2, || {
        let (requests, replies) = (Arc::new(Ring::empty()), Arc::new(Ring::empty()));
        let module = Arc::new(Module(UnsafeCell::new(0)));
        // The host writes the code before it sends the call, as it writes staging.
        module.replace(CODE);
        let device = {
            let (requests, replies, module) = (Arc::clone(&requests), Arc::clone(&replies), Arc::clone(&module));
            thread::spawn(move || {
                for _ in 0..2 {
                    let request = receive(&requests);
                    let code = if request == CALL { module.run() } else { module.replace(0) };
                    assert_eq!(code, CODE, "the code is there until the unload");
                    replies.push(&[request]).unwrap();
                }
            })
        };
        requests.push(&[CALL]).unwrap();
        requests.push(&[UNLOAD]).unwrap();
        assert_eq!((receive(&replies), receive(&replies)), (CALL, UNLOAD));
        // After the reply the memory is the host's again.
        assert_eq!(module.replace(CODE), 0);
        device.join().unwrap();
    });
}
