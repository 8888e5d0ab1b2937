//! Kernels that move feature maps: concatenate, upsample, scale channels.

use crate::elementwise::{Activation, map, rescale};
use crate::error::{KernelError, elements, expect};
use crate::quant::Quant;

/// An int8 array and how it is quantised.
#[derive(Debug, Clone, Copy)]
pub struct FeatureMap<'a> {
    /// The elements.
    pub data: &'a [i8],
    /// Their meaning.
    pub quant: Quant,
}

/// Concatenates arrays along their outermost dimension, in one quantisation.
///
/// # Errors
/// The output is not as long as the parts together.
pub fn concat_rescale(parts: &[FeatureMap<'_>], output: &mut [i8], to: Quant) -> Result<(), KernelError> {
    expect("out", output.len(), parts.iter().map(|part| part.data.len()).sum())?;
    let mut rest = output;
    for part in parts {
        let (now, later) = rest.split_at_mut(part.data.len());
        rescale(part.data, part.quant, now, to)?;
        rest = later;
    }
    Ok(())
}

/// Concatenates arrays `[channels, width]` of different widths along the inner dimension and takes the sigmoid.
///
/// # Errors
/// A part is not `channels · width` long, or the output not `channels ·` the sum of widths.
pub fn concat_sigmoid(
    parts: &[(FeatureMap<'_>, usize)],
    channels: usize,
    output: &mut [f32],
) -> Result<(), KernelError> {
    let mut total = 0usize;
    for (part, width) in parts {
        expect("in", part.data.len(), elements("in", &[channels, *width])?)?;
        total = total.checked_add(*width).ok_or(KernelError::Overflow { what: "out" })?;
    }
    expect("out", output.len(), elements("out", &[channels, total])?)?;
    let mut start = 0;
    for (part, width) in parts {
        if part.data.is_empty() {
            continue;
        }
        for (row, out) in part.data.chunks_exact(*width).zip(output.chunks_exact_mut(total)) {
            map(row, &mut out[start..start + width], |q| Activation::Sigmoid.of(part.quant.real(q)));
        }
        start += width;
    }
    Ok(())
}

/// Every element twice in both directions: `[channels, rows, columns]` becomes `[channels, 2·rows, 2·columns]`.
///
/// # Errors
/// A slice has the wrong length.
pub fn resize_nearest_2x(
    (channels, rows, columns): (usize, usize, usize),
    input: &[i8],
    output: &mut [i8],
) -> Result<(), KernelError> {
    let length = elements("in", &[channels, rows, columns])?;
    expect("in", input.len(), length)?;
    expect("out", output.len(), elements("out", &[length, 4])?)?;
    if length == 0 {
        return Ok(());
    }
    for (row, two) in input.chunks_exact(columns).zip(output.chunks_exact_mut(4 * columns)) {
        let (upper, lower) = two.split_at_mut(2 * columns);
        for (pair, value) in upper.chunks_exact_mut(2).zip(row) {
            pair.fill(*value);
        }
        lower.copy_from_slice(upper);
    }
    Ok(())
}

/// Upsamples `[channels, rows, columns]` by [`resize_nearest_2x`] and puts a second array of twice the rows and columns
/// behind it, both in the output's quantisation. `small` receives the first array in that quantisation, not upsampled.
///
/// # Errors
/// A slice has the wrong length.
pub fn fpn_upsample_concat(
    (channels, rows, columns): (usize, usize, usize),
    first: FeatureMap<'_>,
    second: FeatureMap<'_>,
    output: &mut [i8],
    to: Quant,
    small: &mut [i8],
) -> Result<(), KernelError> {
    let length = elements("in1", &[channels, rows, columns])?;
    let upsampled = elements("out", &[length, 4])?;
    let total = upsampled.checked_add(second.data.len()).ok_or(KernelError::Overflow { what: "out" })?;
    expect("in1", first.data.len(), length)?;
    expect("out", output.len(), total)?;
    expect("out1_presize", small.len(), length)?;
    let (upper, lower) = output.split_at_mut(upsampled);
    rescale(first.data, first.quant, small, to)?;
    resize_nearest_2x((channels, rows, columns), small, upper)?;
    rescale(second.data, second.quant, lower, to)
}

/// Multiplies every channel of a feature map with a number of its own.
///
/// # Errors
/// The feature map or the output is not as long as `excitation` has numbers, times `plane`.
pub fn channel_scale_multiply(
    excitation: FeatureMap<'_>,
    features: FeatureMap<'_>,
    plane: usize,
    output: &mut [i8],
    to: Quant,
) -> Result<(), KernelError> {
    let length = elements("feature_map", &[excitation.data.len(), plane])?;
    expect("feature_map", features.data.len(), length)?;
    expect("out", output.len(), length)?;
    if length == 0 {
        return Ok(());
    }
    let channels = features.data.chunks_exact(plane).zip(output.chunks_exact_mut(plane));
    for ((channel, out), factor) in channels.zip(excitation.data) {
        let factor = excitation.quant.real(*factor);
        map(channel, out, |q| to.quantize(factor * features.quant.real(q)));
    }
    Ok(())
}
