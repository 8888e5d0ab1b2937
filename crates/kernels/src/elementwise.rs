//! Kernels that treat every element alike. Functions of one int8 go through a table of 256 answers.

use crate::error::{KernelError, argument, elements, expect};
use crate::quant::{Quant, Sample, round, round_f64};

/// An activation function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activation {
    /// x/2 · (1 + erf(x/√2))
    Gelu,
    /// x / (1 + e⁻ˣ)
    Silu,
    /// min(max(x/6 + 1/2, 0), 1)
    HardSigmoid,
    /// x · hardsigmoid(x)
    HardSwish,
    /// 1 / (1 + e⁻ˣ)
    Sigmoid,
    /// x
    Identity,
}

impl Activation {
    /// The function's value, in single precision.
    pub fn of(self, x: f32) -> f32 {
        match self {
            Self::Gelu => 0.5 * x * (1.0 + libm::erff(x * core::f32::consts::FRAC_1_SQRT_2)),
            Self::Silu => x / (1.0 + libm::expf(-x)),
            Self::HardSigmoid => (x / 6.0 + 0.5).clamp(0.0, 1.0),
            Self::HardSwish => x * Self::HardSigmoid.of(x),
            Self::Sigmoid => 1.0 / (1.0 + libm::expf(-x)),
            Self::Identity => x,
        }
    }
}

/// Applies a function to every element; long inputs pay for 256 calls only.
pub(crate) fn map<T: Copy + Default>(input: &[i8], output: &mut [T], function: impl Fn(i8) -> T) {
    if input.len() < 256 {
        for (to, from) in output.iter_mut().zip(input) {
            *to = function(*from);
        }
        return;
    }
    let mut table = [T::default(); 256];
    for q in i8::MIN..=i8::MAX {
        table[usize::from(q.cast_unsigned())] = function(q);
    }
    for (to, from) in output.iter_mut().zip(input) {
        *to = table[usize::from(from.cast_unsigned())];
    }
}

/// An activation function between two quantisations.
///
/// # Errors
/// Input and output differ in length.
pub fn activation(
    function: Activation,
    input: &[i8],
    from: Quant,
    output: &mut [i8],
    to: Quant,
) -> Result<(), KernelError> {
    expect("out", output.len(), input.len())?;
    map(input, output, |q| to.quantize(function.of(from.real(q))));
    Ok(())
}

/// The same numbers in another quantisation.
///
/// # Errors
/// Input and output differ in length.
pub fn rescale(input: &[i8], from: Quant, output: &mut [i8], to: Quant) -> Result<(), KernelError> {
    activation(Activation::Identity, input, from, output, to)
}

/// [`Activation::Silu`] with a result that is not quantised.
///
/// # Errors
/// Input and output differ in length.
pub fn silu_f32(input: &[i8], from: Quant, output: &mut [f32]) -> Result<(), KernelError> {
    expect("out", output.len(), input.len())?;
    map(input, output, |q| Activation::Silu.of(from.real(q)));
    Ok(())
}

/// Nothing below `low`, which is the zero point when the kernel is a ReLU.
///
/// # Errors
/// Input and output differ in length, or `low` is not an int8.
pub fn relu(input: &[i8], output: &mut [i8], low: i32) -> Result<(), KernelError> {
    clamp(input, output, low, i8::MAX.into())
}

/// Every element limited to `low..=high`.
///
/// # Errors
/// Input and output differ in length, a limit is not an int8, or the limits are crossed.
pub fn clamp(input: &[i8], output: &mut [i8], low: i32, high: i32) -> Result<(), KernelError> {
    expect("out", output.len(), input.len())?;
    let (low, high) = limits(low, high)?;
    for (to, from) in output.iter_mut().zip(input) {
        *to = (*from).max(low).min(high);
    }
    Ok(())
}

fn limits(low: i32, high: i32) -> Result<(i8, i8), KernelError> {
    let limit =
        |what, value: i32| i8::try_from(value).map_err(|_| argument(what, value.into(), "a limit must be an int8"));
    let (low, high) = (limit("clip_lo", low)?, limit("clip_hi", high)?);
    if low > high {
        return Err(argument("clip_lo", low.into(), "it must not be above clip_hi"));
    }
    Ok((low, high))
}

/// 32-bit sums as int8: the product with `scale`, in double precision, rounded and limited.
///
/// # Errors
/// Input and output differ in length, the scale is not finite and positive, or a limit is wrong.
pub fn requantize_clamp(input: &[i32], output: &mut [i8], scale: f32, low: i32, high: i32) -> Result<(), KernelError> {
    expect("out", output.len(), input.len())?;
    positive("combined_scale", scale)?;
    let (low, high) = limits(low, high)?;
    let scale = f64::from(scale);
    for (to, from) in output.iter_mut().zip(input) {
        let wide = round_f64(f64::from(*from) * scale);
        *to = i8::try_from(wide.clamp(low.into(), high.into())).unwrap_or(low);
    }
    Ok(())
}

fn positive(what: &'static str, value: f32) -> Result<(), KernelError> {
    if value.is_finite() && value > 0.0 { Ok(()) } else { Err(KernelError::Scale { what, value }) }
}

/// Real numbers as int8: saturate(round(x · `inverse_scale`) + `zero`).
///
/// # Errors
/// Input and output differ in length, the scale is not finite and positive, or the zero point is not an int8.
pub fn quantize(input: &[f32], output: &mut [i8], inverse_scale: f32, zero: i32) -> Result<(), KernelError> {
    expect("out", output.len(), input.len())?;
    positive("inv_scale", inverse_scale)?;
    Quant::i8(1.0, zero)?;
    for (to, from) in output.iter_mut().zip(input) {
        *to = i8::saturate_i32(round(from * inverse_scale).wrapping_add(zero));
    }
    Ok(())
}

/// Images of three planes of `plane` pixels each as int8: saturate(round(x · `inverse_scale` + `offset`)), per plane.
///
/// # Errors
/// The slices are not `images · 3 · plane` long, a scale is not finite and positive, or an offset is not finite.
pub fn quantize_rgb(
    input: &[f32],
    output: &mut [i8],
    images: usize,
    plane: usize,
    planes: [(f32, f32); 3],
) -> Result<(), KernelError> {
    let length = elements("in", &[images, 3, plane])?;
    expect("in", input.len(), length)?;
    expect("out", output.len(), length)?;
    for (inverse_scale, offset) in planes {
        positive("inv_scale", inverse_scale)?;
        if !offset.is_finite() {
            return Err(argument("offset", 0, "every offset must be finite"));
        }
    }
    if length == 0 {
        return Ok(());
    }
    let pairs = output.chunks_exact_mut(plane).zip(input.chunks_exact(plane)).zip(planes.iter().cycle());
    for ((to, from), (inverse_scale, offset)) in pairs {
        for (to, from) in to.iter_mut().zip(from) {
            *to = i8::saturate_i32(round(from * inverse_scale + offset));
        }
    }
    Ok(())
}

/// The sum of two arrays with a quantisation each, in a third one; with `relu`, nothing below zero.
///
/// # Errors
/// The slices differ in length.
pub fn residual_add<T: Sample>(
    (x, from_x): (&[T], Quant),
    (skip, from_skip): (&[T], Quant),
    output: &mut [T],
    to: Quant,
    relu: bool,
) -> Result<(), KernelError> {
    expect("skip", skip.len(), x.len())?;
    expect("out", output.len(), x.len())?;
    let floor = if relu { 0.0 } else { f32::NEG_INFINITY };
    for ((out, x), skip) in output.iter_mut().zip(x).zip(skip) {
        *out = to.quantize((from_x.real(*x) + from_skip.real(*skip)).max(floor));
    }
    Ok(())
}
