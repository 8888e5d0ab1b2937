//! What a generated wrapper calls: the beginning and the end of an operation, and its arguments one after the other.

use crate::abi::{Scalar, Tensor};
use crate::kernel::{fail, routine};

/// Binds the arguments of this dispatch; the first record is the result's.
pub fn begin() {
    routine::customop_setup(true);
}

/// Publishes the result and makes all stores visible.
pub fn end(result: &Tensor) {
    routine::customop_return_tensor(result);
    routine::customop_cleanup();
}

/// The next argument, a tensor.
pub fn tensor() -> Tensor {
    routine::customop_next_tensor()
}

/// The next argument, a number of either kind.
pub fn scalar() -> Scalar {
    routine::customop_next_scalar()
}

/// The next argument, a fraction with the precision of a binary32.
pub fn f64() -> f64 {
    f64::from(routine::customop_next_float())
}

/// The next argument, a fraction.
pub fn f32() -> f32 {
    routine::customop_next_float()
}

/// The next argument, an integer.
pub fn i64() -> i64 {
    routine::customop_next_longlong()
}

/// The next argument, an integer of 32 bits: what does not fit ends the operation.
pub fn i32() -> i32 {
    match i32::try_from(routine::customop_next_longlong()) {
        Ok(value) => value,
        Err(_) => fail("an argument does not fit into the 32 bits that the operation takes"),
    }
}
