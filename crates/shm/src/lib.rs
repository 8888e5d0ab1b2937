//! Shared memory between a host process and a simulated device process.
//!
//! Three things live here, and only here, because they need `unsafe` on both sides of the wire:
//! [`Object`] and [`Mapping`] (anonymous shared memory, mapped anywhere or at a fixed device address), [`Port`] (a pair of
//! bounded message rings with a wake-up that spins first and blocks then), and [`CrashRecord`] (what a dying device leaves
//! behind). Nothing here knows what a message means.
//!
//! The peer is never trusted: a message is copied out of the ring before anybody looks at it, its length is checked against
//! the slot, and ring indices that cannot be are an error, not an index.
#![deny(unsafe_op_in_unsafe_fn)]

mod cache;
mod control;
mod crash;
mod map;
mod primitives;
mod ring;
mod socket;
mod trace;

pub use cache::HostCache;
pub use control::{ControlError, DeviceState, Port, Received, Side, Statistics, WaitPolicy, monotonic_ns};
pub use crash::CrashRecord;
pub use map::{MapError, Mapping, Object, Protection, Unmap};
pub use primitives::MESSAGE_BYTES;
pub use ring::RingError;
pub use socket::{connect, receive_objects, send_objects};
