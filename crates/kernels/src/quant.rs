//! Quantised numbers: the one place that says how a real number becomes an integer.
//!
//! real = scale · (q − zero); q = saturate(round(real / scale) + zero), rounding to nearest, halves to even. A NaN becomes the
//! zero point. The definition is ours: `docs/reference/c7x-kernels.md`, "Numbers".
#![allow(clippy::cast_possible_truncation, reason = "narrows after clamping to the range of the narrower type")]

use crate::error::{KernelError, argument};

/// Scale and zero point of a quantised array.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quant {
    scale: f32,
    zero: i32,
}

impl Quant {
    /// Of an int8 array.
    ///
    /// # Errors
    /// The scale is not finite and positive, or the zero point is not an int8.
    pub fn i8(scale: f32, zero: i32) -> Result<Self, KernelError> {
        if i8::try_from(zero).is_err() {
            return Err(argument("the zero point", zero.into(), "it must be an int8"));
        }
        Self::new(scale, zero)
    }

    /// Of an int16 array.
    ///
    /// # Errors
    /// The scale is not finite and positive, or the zero point is not an int16.
    pub fn i16(scale: f32, zero: i32) -> Result<Self, KernelError> {
        if i16::try_from(zero).is_err() {
            return Err(argument("the zero point", zero.into(), "it must be an int16"));
        }
        Self::new(scale, zero)
    }

    fn new(scale: f32, zero: i32) -> Result<Self, KernelError> {
        if scale.is_finite() && scale > 0.0 {
            Ok(Self { scale, zero })
        } else {
            Err(KernelError::Scale { what: "the scale", value: scale })
        }
    }

    /// The zero point.
    pub fn zero(self) -> i32 {
        self.zero
    }

    /// The real number behind a quantised one.
    ///
    /// ```
    /// assert_eq!(outboard_kernels::Quant::i8(0.5, -4)?.real(6i8), 5.0);
    /// # Ok::<(), outboard_kernels::KernelError>(())
    /// ```
    pub fn real<T: Sample>(self, q: T) -> f32 {
        self.scale * q.to_i32().wrapping_sub(self.zero) as f32
    }

    /// The quantised number for a real one.
    ///
    /// ```
    /// let quant = outboard_kernels::Quant::i8(0.5, 0)?;
    /// let quantised = [0.25, 0.75, -0.25, 1e9, f32::NAN].map(|real| quant.quantize::<i8>(real));
    /// assert_eq!(quantised, [0, 2, 0, 127, 0]);
    /// # Ok::<(), outboard_kernels::KernelError>(())
    /// ```
    pub fn quantize<T: Sample>(self, real: f32) -> T {
        T::saturate_i32(round(real / self.scale).wrapping_add(self.zero))
    }

    /// The real mean of `count` quantised numbers whose sum is `sum`.
    pub(crate) fn mean(self, sum: i64, count: usize) -> f32 {
        self.scale * (sum as f64 / count as f64 - f64::from(self.zero)) as f32
    }

    /// The scale, for kernels that work on differences.
    pub(crate) fn scale(self) -> f32 {
        self.scale
    }
}

/// Rounds to the nearest integer, halves to even, within ±2²²; NaN gives 0.
pub(crate) fn round(x: f32) -> i32 {
    const LIMIT: f32 = 4_194_304.0;
    // Sums in [2²³, 2²⁴] have no fraction bits: adding rounds, subtracting gives the integer back.
    const NO_FRACTION: f32 = 12_582_912.0;
    ((x.clamp(-LIMIT, LIMIT) + NO_FRACTION) - NO_FRACTION) as i32
}

/// As [`round`], of a double, within ±2⁵⁰.
pub(crate) fn round_f64(x: f64) -> i64 {
    const LIMIT: f64 = 1_125_899_906_842_624.0;
    const NO_FRACTION: f64 = 6_755_399_441_055_744.0;
    ((x.clamp(-LIMIT, LIMIT) + NO_FRACTION) - NO_FRACTION) as i64
}

/// `value · scale / 2^shift`, rounded to nearest, halves to even, saturated to the output type. `shift` is at most 62.
pub(crate) fn scaled<T: Sample>(value: i128, scale: u8, shift: u8) -> T {
    let product = value * i128::from(scale);
    let floor = product >> shift;
    let rest = product - (floor << shift);
    let half = (1i128 << shift) / 2;
    let up = shift > 0 && (rest > half || (rest == half && floor & 1 == 1));
    T::saturate(floor + i128::from(up))
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for i8 {}
    impl Sealed for i16 {}
}

/// An element of a quantised array: `i8` or `i16`.
pub trait Sample: Copy + sealed::Sealed {
    /// What products are summed in.
    type Sum: Copy + Default;
    /// How many products a [`Sample::Sum`] holds for certain.
    const MOST_TERMS: usize;
    /// Adds a product to a sum.
    fn add_product(sum: Self::Sum, a: Self, b: Self) -> Self::Sum;
    /// A sum as an integer.
    fn total(sum: Self::Sum) -> i64;
    /// The number as an integer.
    fn to_i32(self) -> i32;
    /// The nearest number of this type.
    fn saturate_i32(value: i32) -> Self;
    /// The nearest number of this type.
    fn saturate(value: i128) -> Self;
}

impl Sample for i8 {
    type Sum = i32;
    /// 2¹⁴ · (2¹⁷ − 1) is below 2³¹.
    const MOST_TERMS: usize = (1 << 17) - 1;
    fn add_product(sum: i32, a: Self, b: Self) -> i32 {
        sum.wrapping_add(i32::from(i16::from(a).wrapping_mul(i16::from(b))))
    }
    fn total(sum: i32) -> i64 {
        sum.into()
    }
    fn to_i32(self) -> i32 {
        self.into()
    }
    fn saturate_i32(value: i32) -> Self {
        value.clamp(Self::MIN.into(), Self::MAX.into()) as Self
    }
    fn saturate(value: i128) -> Self {
        value.clamp(Self::MIN.into(), Self::MAX.into()) as Self
    }
}

impl Sample for i16 {
    type Sum = i64;
    /// 2³⁰ · (2³³ − 1) is below 2⁶³.
    const MOST_TERMS: usize = (1 << 33) - 1;
    fn add_product(sum: i64, a: Self, b: Self) -> i64 {
        sum.wrapping_add(i64::from(i32::from(a).wrapping_mul(i32::from(b))))
    }
    fn total(sum: i64) -> i64 {
        sum
    }
    fn to_i32(self) -> i32 {
        self.into()
    }
    fn saturate_i32(value: i32) -> Self {
        value.clamp(Self::MIN.into(), Self::MAX.into()) as Self
    }
    fn saturate(value: i128) -> Self {
        value.clamp(Self::MIN.into(), Self::MAX.into()) as Self
    }
}
