//! Inputs of the benchmarks: modules of any size, and memory to load them into.
//!
//! A performance claim is a row of a table that `cargo bench` prints, never a timed test. Each measurement stands beside the
//! floor it is compared with, taken in the same run.

pub mod arena;
pub mod modules;
pub mod random;
