//! Why a kernel refuses its arguments.

use thiserror::Error;

/// An argument that is wrong. No output was touched.
#[derive(Debug, Clone, Copy, PartialEq, Error)]
pub enum KernelError {
    /// A number breaks a rule.
    #[error("{what} is {value}: {rule}")]
    Argument {
        /// Name of the argument.
        what: &'static str,
        /// Its value.
        value: i64,
        /// The rule.
        rule: &'static str,
    },
    /// A scale is no scale.
    #[error("{what} is {value}: a scale is finite and above zero")]
    Scale {
        /// Name of the argument.
        what: &'static str,
        /// Its value.
        value: f32,
    },
    /// A slice has another length than the dimensions say.
    #[error("{what} has {found} elements where the dimensions say {expected}")]
    Length {
        /// Name of the slice.
        what: &'static str,
        /// Elements it has.
        found: usize,
        /// Elements it must have.
        expected: usize,
    },
    /// The number of elements is not a number of this machine.
    #[error("the dimensions of {what} multiply to more elements than can be counted")]
    Overflow {
        /// Name of the array.
        what: &'static str,
    },
}

/// A dimension that came as a C `int`.
///
/// # Errors
/// It is negative.
pub fn dimension(what: &'static str, value: i32) -> Result<usize, KernelError> {
    usize::try_from(value).map_err(|_| argument(what, value.into(), "it must not be negative"))
}

/// Number of elements of an array with these dimensions.
///
/// # Errors
/// The product overflows.
pub fn elements(what: &'static str, dims: &[usize]) -> Result<usize, KernelError> {
    // A zero anywhere makes the array empty, whatever the other dimensions are.
    if dims.contains(&0) {
        return Ok(0);
    }
    dims.iter().try_fold(1usize, |all, dim| all.checked_mul(*dim)).ok_or(KernelError::Overflow { what })
}

pub(crate) fn argument(what: &'static str, value: i64, rule: &'static str) -> KernelError {
    KernelError::Argument { what, value, rule }
}

/// [`argument`] for a dimension.
pub(crate) fn bad_dimension(what: &'static str, value: usize, rule: &'static str) -> KernelError {
    argument(what, i64::try_from(value).unwrap_or(i64::MAX), rule)
}

/// Refuses a slice of another length.
pub(crate) fn expect(what: &'static str, found: usize, expected: usize) -> Result<(), KernelError> {
    if found == expected { Ok(()) } else { Err(KernelError::Length { what, found, expected }) }
}
