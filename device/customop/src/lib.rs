//! What kernels and the device runtime share: the records of the custom-op ABI with their sizes asserted, and the
//! runtime's routines under their linker names; for operations in Rust, the attribute [`custom_op`].
//!
//! Layouts and names are those of `docs/reference/gpsimd-runtime.md`. Nothing here has state; the routines are in the
//! archive of the package `customop-rt`.
#![no_std]

pub mod abi;
#[cfg(target_arch = "xtensa")]
pub mod argument;
pub mod dtype;
#[cfg(target_arch = "xtensa")]
pub mod element;
#[cfg(target_arch = "xtensa")]
pub mod kernel;
#[cfg(target_arch = "xtensa")]
pub mod math;
mod operation;
#[cfg(target_arch = "xtensa")]
pub mod stream;

pub use customop_macro::{custom_op, library};
pub use operation::Operation;

/// What most operations use.
pub mod prelude {
    pub use crate::abi::{Scalar, Tensor};
    pub use crate::custom_op;
    pub use crate::dtype::ScalarType;
    #[cfg(target_arch = "xtensa")]
    pub use crate::kernel::{Tcm, fail, routine, share};
    #[cfg(target_arch = "xtensa")]
    pub use crate::stream::{ReadStream, WriteStream};
}
