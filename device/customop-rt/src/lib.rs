//! The device runtime of GPSIMD custom operations: everything that a kernel and its wrapper may call, under the names
//! that they are compiled against.
//!
//! It runs on one pool core without an operating system, without threads and without interrupts; each core has its own
//! copy. What needs special registers, window rotation or variable arguments is in `asm/`. Names, signatures and rules
//! are in `docs/reference/gpsimd-runtime.md`. The algorithms that need no device are tested on the host.
#![cfg_attr(target_arch = "xtensa", no_std)]

#[cfg(target_arch = "xtensa")]
mod allocator;
#[cfg(target_arch = "xtensa")]
mod args;
#[cfg(target_arch = "xtensa")]
mod fault;
#[cfg(target_arch = "xtensa")]
mod file_io;
#[cfg(target_arch = "xtensa")]
mod global;
pub mod heap;
#[cfg(target_arch = "xtensa")]
mod libc;
#[cfg(target_arch = "xtensa")]
mod memcpy;
pub mod number;
pub mod printf;
#[cfg(target_arch = "xtensa")]
mod stack;
#[cfg(target_arch = "xtensa")]
mod start;
#[cfg(target_arch = "xtensa")]
mod tensor;
pub mod translate;
