//! Runs GPSIMD custom operations on simulated pool cores.
//!
//! A [`Runtime`] is a pool: cores that execute machine code ([`outboard_xtensa`]), the memories that they and the DMA engine
//! see, the sequencer that loads libraries and dispatches operations from instruction bytes. What a kernel calls is device
//! code too: the runtime in `device/customop-rt`, linked into each library. The simulator acts at four places only:
//! doorbells, window registers, print queues and the end of a call.
//!
//! The device is described in `docs/reference/gpsimd-pool.md`, the runtime in `docs/reference/gpsimd-runtime.md`.
#![forbid(unsafe_code)]
#![allow(
    clippy::cast_possible_truncation,
    reason = "addresses of cores are 32 bits, of the device 64: taking them apart is what this crate does"
)]

mod abi;
mod argument;
mod bus;
mod compose;
mod core;
mod diagnose;
mod error;
mod fault;
mod firmware;
mod library;
mod lines;
mod memory;
mod model;
mod pool;
mod print;
mod probe;
mod queue;
mod report;
mod runtime;
mod sequencer;
mod support;
mod symbols;
mod target;

pub use abi::MAX_ARGS;
pub use argument::{Arg, OutputSpec, dtype_of, element_type};
pub use bus::{BusError, Notification, Transfer};
pub use compose::{Model, ModelArg, ModelRequest, compose, model_for_one_core, model_operations};
pub use core::CoreReport;
pub use diagnose::{Policy, Rule, Rules, UnknownRule};
pub use error::Error;
pub use fault::{DeviceFault, FaultKind, Place};
pub use memory::{HookCounts, SharedError};
pub use model::ModelOutcome;
pub use pool::Schedule;
pub use print::{MAX_QUEUE_BYTES, PrintOptions};
pub use probe::Answer;
pub use report::{Finding, Printed, RoutineCall, RunReport};
pub use runtime::{
    CoreState, DispatchBy, LoadedLibrary, Op, Outcome, Runtime, RuntimeOptions, UcodePair, support_routines,
};
pub use target::{BadTarget, DispatchRules, HbmPlan, Local, MovingWindow, PoolTarget, Soc, Span};
