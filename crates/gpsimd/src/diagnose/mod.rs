//! Diagnosis: what a kernel does that hardware would corrupt silently, noticed while it runs.
//!
//! The host knows where tensors are and, by breakpoints on the runtime's heaps, what a core has taken and given back ([`observer`]).
//! Every load, store and transfer of a core is compared with that ([`shadow`] for memory that cores share, [`tcm`] for data
//! memory). An access that breaks a [`Rule`] stops the core before it happens, so that pc and callers are known; then it is
//! carried out as if nobody had looked. The bytes of a run are the same with and without diagnosis.
//!
//! The rules are described in `docs/reference/gpsimd-diagnosis.md`.

mod observer;
mod rules;
mod shadow;
mod tcm;
mod watch;

pub(crate) use observer::{Observer, of_fault};
pub use rules::{Policy, Rule, Rules, UnknownRule};
pub(crate) use shadow::{Region, RegionKind, Shadow};
pub(crate) use watch::{NOTICED, Watch};

/// What an access breaks, and what to say about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Violation {
    pub(crate) rule: Rule,
    pub(crate) message: String,
}

/// What a core does with memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
}
