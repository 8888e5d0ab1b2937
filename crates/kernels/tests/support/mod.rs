//! What the property tests share: random quantisations, and the definition of rounding written another way.

#![allow(dead_code, reason = "every test file uses a part")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use outboard_kernels::Quant;
use proptest::prelude::*;

/// Scale and zero point of an int8 array.
pub type Scheme = (f32, i32);

/// A random scheme.
pub fn scheme() -> impl Strategy<Value = Scheme> {
    (0.001f32..0.5, -128i32..=127)
}

pub fn quant((scale, zero): Scheme) -> Quant {
    Quant::i8(scale, zero).unwrap()
}

/// scale · (q − zero)
pub fn real(q: i8, (scale, zero): Scheme) -> f32 {
    scale * f32::from(i16::try_from(i32::from(q) - zero).unwrap())
}

/// saturate(round(real / scale) + zero), with the standard library's rounding.
pub fn quantised(real: f32, (scale, zero): Scheme) -> i8 {
    saturated((real / scale).round_ties_even(), zero)
}

/// Adds the zero point to a rounded number and saturates.
pub fn saturated(rounded: f32, zero: i32) -> i8 {
    let q = f64::from(rounded) + f64::from(zero);
    if q.is_nan() { i8::try_from(zero).unwrap() } else { whole(q.clamp(-128.0, 127.0)) }
}

/// A double that is an int8.
#[allow(clippy::cast_possible_truncation, reason = "the caller has clamped it")]
pub fn whole(q: f64) -> i8 {
    q as i8
}

/// Asserts that two int8 arrays differ by at most one step: for references that compute in double precision.
pub fn within_one(found: &[i8], expected: &[i8]) {
    assert_eq!(found.len(), expected.len());
    for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert!(found.abs_diff(*expected) <= 1, "element {index}: {found}, the reference says {expected}");
    }
}
