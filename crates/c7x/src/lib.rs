//! The C7x compute service and its simulated device.
//!
//! The service itself is `no_std + alloc` over a [`Platform`]: it receives messages, loads modules through
//! `outboard-link`, runs their entry and answers. The feature `sim` (on by default) adds the platform of the simulated device: a
//! process of its own in which the board's memory is mapped at the board's addresses, so that a device address *is* the
//! pointer a module uses, and modules compiled for the host CPU run natively.
//!
//! `unsafe` is confined to three places: [`memory`] (device addresses to slices), [`runtime`] (the C functions that
//! module code calls) and `sim`.
#![no_std]
#![deny(unsafe_code)]

extern crate alloc;
#[cfg(feature = "sim")]
extern crate std;

pub mod abi;
mod loader;
pub mod memory;
mod models;
mod outputs;
pub mod platform;
mod pool;
mod printf;
pub mod runtime;
mod service;
#[cfg(feature = "sim")]
pub mod sim;
pub mod weights;

pub use loader::Module;
pub use memory::{Memory, MemoryMap};
pub use models::{Constants, ModelError};
pub use platform::{Entry, Incoming, Platform, Statistics, Step};
pub use pool::{Exhausted, Owner, Pool, PoolId};
pub use printf::PrintfBuffer;
pub use runtime::Runtime;
pub use service::{Limits, Service, UnloadStep};
