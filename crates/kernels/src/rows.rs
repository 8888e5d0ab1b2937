//! Kernels that normalise: layer norm along rows, softmax along a middle dimension.
#![allow(clippy::cast_possible_truncation, reason = "statistics are taken in double precision, results are single")]

use crate::error::{KernelError, argument, bad_dimension, elements, expect};
use crate::quant::Quant;

/// Every row of `weight.len()` elements with mean 0 and variance 1, times `weight`, plus `bias`.
///
/// # Errors
/// A slice has the wrong length, rows are empty, or `epsilon` is negative or not finite.
pub fn layer_norm(
    (input, from): (&[i8], Quant),
    weight: &[f32],
    bias: &[f32],
    (output, to): (&mut [i8], Quant),
    rows: usize,
    epsilon: f32,
) -> Result<(), KernelError> {
    let length = elements("in", &[rows, weight.len()])?;
    expect("bias", bias.len(), weight.len())?;
    expect("in", input.len(), length)?;
    expect("out", output.len(), length)?;
    if !(epsilon.is_finite() && epsilon >= 0.0) {
        return Err(argument("eps", 0, "it must be finite and not negative"));
    }
    if weight.is_empty() && rows > 0 {
        return Err(bad_dimension("norm", 0, "a row must have an element"));
    }
    let width = weight.len().max(1);
    for (row, out) in input.chunks_exact(width).zip(output.chunks_exact_mut(width)) {
        let (sum, squares) = row.iter().fold((0i64, 0i64), |(sum, squares), q| {
            let q = i64::from(*q);
            (sum.wrapping_add(q), squares.wrapping_add(q.wrapping_mul(q)))
        });
        // Of the integers; the zero point moves the mean only, the scale comes in below.
        let mean = sum as f64 / width as f64;
        let variance = (squares as f64 / width as f64 - mean * mean).max(0.0);
        let scale = f64::from(from.scale());
        let deviation = libm::sqrt(variance * scale * scale + f64::from(epsilon));
        let (mean, factor) = (mean as f32, if deviation > 0.0 { (scale / deviation) as f32 } else { 0.0 });
        for (((out, q), weight), bias) in out.iter_mut().zip(row).zip(weight).zip(bias) {
            *out = to.quantize((f32::from(*q) - mean) * factor * weight + bias);
        }
    }
    Ok(())
}

/// The softmax along dimension `bins` of `[outer, bins, inner]`.
///
/// # Errors
/// A slice has the wrong length.
pub fn dfl_softmax(
    (outer, bins, inner): (usize, usize, usize),
    input: &[i8],
    from: Quant,
    output: &mut [i8],
    to: Quant,
) -> Result<(), KernelError> {
    let length = elements("in", &[outer, bins, inner])?;
    expect("in", input.len(), length)?;
    expect("out", output.len(), length)?;
    if length == 0 {
        return Ok(());
    }
    // e^(scale · −d) for every distance d from the largest element.
    let mut powers = [0.0f32; 256];
    for (power, distance) in powers.iter_mut().zip(0u16..) {
        *power = libm::expf(-from.scale() * f32::from(distance));
    }
    for (slab, out) in input.chunks_exact(bins * inner).zip(output.chunks_exact_mut(bins * inner)) {
        for column in 0..inner {
            let values = || slab[column..].iter().step_by(inner);
            let largest = values().fold(i8::MIN, |largest, q| largest.max(*q));
            let power = |q: &i8| powers[usize::from(largest.abs_diff(*q))];
            let sum: f32 = values().map(power).sum();
            for (out, q) in out[column..].iter_mut().step_by(inner).zip(values()) {
                *out = to.quantize(power(q) / sum);
            }
        }
    }
    Ok(())
}
