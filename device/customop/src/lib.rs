//! What kernels and the device runtime share: the records of the custom-op ABI with their sizes asserted, and the
//! runtime's routines under their linker names.
//!
//! Layouts and names are those of `docs/reference/gpsimd-runtime.md`. Nothing here has state; the routines are in the
//! archive of the package `customop-rt`.
#![no_std]

pub mod abi;
pub mod dtype;
#[cfg(target_arch = "xtensa")]
pub mod kernel;
#[cfg(target_arch = "xtensa")]
pub mod math;
