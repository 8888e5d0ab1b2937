//! Matrix products and convolutions of int8 and int16, with integer sums and a scale and shift per output channel.

use crate::error::{KernelError, argument, bad_dimension, elements, expect};
use crate::quant::{Sample, scaled};

/// Columns that are summed at a time.
const TILE: usize = 256;
/// Largest shift of a result.
const MOST_SHIFT: u8 = 62;

/// How sums become results, per output channel: saturate(round((sum + bias) · scale / 2^shift)).
#[derive(Debug, Clone, Copy)]
pub struct Requant<'a> {
    /// Added to the sums; none adds nothing.
    pub bias: Option<&'a [i32]>,
    /// Factors.
    pub scale: &'a [u8],
    /// Shifts to the right, at most 62.
    pub shift: &'a [u8],
}

impl Requant<'_> {
    fn check(&self, channels: usize) -> Result<(), KernelError> {
        if let Some(bias) = self.bias {
            expect("bias", bias.len(), channels)?;
        }
        expect("scale", self.scale.len(), channels)?;
        expect("shift", self.shift.len(), channels)?;
        match self.shift.iter().find(|shift| **shift > MOST_SHIFT) {
            Some(shift) => Err(argument("shift", (*shift).into(), "it must be at most 62")),
            None => Ok(()),
        }
    }

    fn apply<T: Sample>(&self, sum: T::Sum, channel: usize) -> T {
        let bias = self.bias.map_or(0, |bias| bias[channel]);
        scaled(i128::from(T::total(sum)) + i128::from(bias), self.scale[channel], self.shift[channel])
    }
}

fn terms<T: Sample>(terms: usize) -> Result<(), KernelError> {
    if terms > T::MOST_TERMS {
        return Err(bad_dimension("the number of products per result", terms, "their sum could overflow"));
    }
    Ok(())
}

/// Sums of `left · right` for all rows, a tile of columns at a time, given to `store(row, column, sum)`.
fn products<T: Sample>(
    (m, k, n): (usize, usize, usize),
    left: &[T],
    right: &[T],
    mut store: impl FnMut(usize, usize, T::Sum),
) {
    for start in (0..n).step_by(TILE) {
        let width = TILE.min(n - start);
        for row in 0..m {
            let mut sums = [T::Sum::default(); TILE];
            for (a, line) in left[row * k..(row + 1) * k].iter().zip(right.chunks_exact(n)) {
                for (sum, b) in sums.iter_mut().zip(&line[start..start + width]) {
                    *sum = T::add_product(*sum, *a, *b);
                }
            }
            for (column, sum) in sums[..width].iter().enumerate() {
                store(row, start + column, *sum);
            }
        }
    }
}

fn check_matmul<T: Sample>(
    (m, k, n): (usize, usize, usize),
    left: &[T],
    right: &[T],
    out: &[T],
) -> Result<(), KernelError> {
    terms::<T>(k)?;
    expect("the left matrix", left.len(), elements("the left matrix", &[m, k])?)?;
    expect("the right matrix", right.len(), elements("the right matrix", &[k, n])?)?;
    expect("the result", out.len(), elements("the result", &[m, n])?)
}

/// `[m, k] · [k, n]`, every sum shifted right by `shift` with rounding, and saturated.
///
/// # Errors
/// A slice has the wrong length, `shift` is not in 0..=62, or a sum could overflow.
pub fn matmul<T: Sample>(
    sizes: (usize, usize, usize),
    left: &[T],
    right: &[T],
    out: &mut [T],
    shift: i32,
) -> Result<(), KernelError> {
    let small = u8::try_from(shift).ok().filter(|shift| *shift <= MOST_SHIFT);
    let shift = small.ok_or(argument("shift", shift.into(), "it must be in 0..=62"))?;
    check_matmul(sizes, left, right, out)?;
    products(sizes, left, right, |row, column, sum| {
        out[row * sizes.2 + column] = scaled(T::total(sum).into(), 1, shift)
    });
    Ok(())
}

/// `[m, k] · [k, n]` with a [`Requant`] per column.
///
/// # Errors
/// A slice has the wrong length, a shift is above 62, or a sum could overflow.
pub fn matmul_bias<T: Sample>(
    sizes: (usize, usize, usize),
    input: &[T],
    weights: &[T],
    requant: &Requant<'_>,
    out: &mut [T],
) -> Result<(), KernelError> {
    check_matmul(sizes, input, weights, out)?;
    requant.check(sizes.2)?;
    products(sizes, input, weights, |row, column, sum| out[row * sizes.2 + column] = requant.apply(sum, column));
    Ok(())
}

/// Sizes of a convolution of one image; pairs are (vertical, horizontal).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Conv2d {
    /// Channels of the input.
    pub channels_in: usize,
    /// Rows and columns of the input.
    pub input: (usize, usize),
    /// Channels of the output.
    pub channels_out: usize,
    /// Rows and columns of the kernel.
    pub kernel: (usize, usize),
    /// Distance of windows.
    pub stride: (usize, usize),
    /// Rows of zeros above and below the input.
    pub pad_rows: (usize, usize),
    /// Columns of zeros left and right of the input.
    pub pad_columns: (usize, usize),
    /// Groups, which divide the channels of both sides.
    pub groups: usize,
}

impl Conv2d {
    /// Elements of the input.
    ///
    /// # Errors
    /// They cannot be counted.
    pub fn input_len(&self) -> Result<usize, KernelError> {
        elements("input", &[self.channels_in, self.input.0, self.input.1])
    }

    /// Elements of the weights `[channels_out, channels_in / groups, rows, columns]`.
    ///
    /// # Errors
    /// The groups do not divide the channels, or the elements cannot be counted.
    pub fn weights_len(&self) -> Result<usize, KernelError> {
        elements("kernel", &[self.channels_out, self.group_channels()?, self.kernel.0, self.kernel.1])
    }

    /// Rows and columns of the output.
    ///
    /// # Errors
    /// A stride or kernel is 0, or the kernel is larger than the padded input.
    pub fn output(&self) -> Result<(usize, usize), KernelError> {
        let axis = |input: usize, kernel: usize, stride: usize, (before, after): (usize, usize)| {
            if stride == 0 {
                return Err(bad_dimension("the stride", stride, "it must be at least 1"));
            }
            if kernel == 0 {
                return Err(bad_dimension("the kernel size", kernel, "it must be at least 1"));
            }
            let padded = input.checked_add(before).and_then(|size| size.checked_add(after));
            let padded = padded.ok_or(KernelError::Overflow { what: "the padded input" })?;
            let room = padded.checked_sub(kernel);
            Ok(room.ok_or(bad_dimension("the kernel size", kernel, "the padded input is smaller"))? / stride + 1)
        };
        Ok((
            axis(self.input.0, self.kernel.0, self.stride.0, self.pad_rows)?,
            axis(self.input.1, self.kernel.1, self.stride.1, self.pad_columns)?,
        ))
    }

    /// Elements of the output.
    ///
    /// # Errors
    /// As [`Conv2d::output`], or the elements cannot be counted.
    pub fn output_len(&self) -> Result<usize, KernelError> {
        let (rows, columns) = self.output()?;
        elements("output", &[self.channels_out, rows, columns])
    }

    fn group_channels(&self) -> Result<usize, KernelError> {
        let divides = |channels: usize| self.groups > 0 && channels.is_multiple_of(self.groups);
        if divides(self.channels_in) && divides(self.channels_out) {
            Ok(self.channels_in / self.groups)
        } else {
            Err(bad_dimension("groups", self.groups, "it must divide the channels of input and output"))
        }
    }
}

/// The outputs `first..` of a tile of a row for which column `tap` of the kernel lies on an input column, and that
/// column: (first output, first input, number).
fn overlap(sizes: &Conv2d, tap: usize, start: usize, width: usize) -> (usize, usize, usize) {
    let (columns, stride, left) = (sizes.input.1, sizes.stride.1, sizes.pad_columns.0);
    // Input column of output x: x · stride + tap − left.
    let first = left.saturating_sub(tap).div_ceil(stride).max(start);
    let end = match (columns + left).checked_sub(tap) {
        Some(room) if room > 0 => ((room - 1) / stride + 1).min(start + width),
        _ => 0,
    };
    if first >= end { (start, 0, 0) } else { (first - start, first * stride + tap - left, end - first) }
}

/// A convolution of one image `[channels_in, rows, columns]` with zero padding. It is depthwise when every input channel is
/// a group.
///
/// # Errors
/// A size is impossible, a slice has the wrong length, a shift is above 62, or a sum could overflow.
pub fn conv2d<T: Sample>(
    sizes: &Conv2d,
    input: &[T],
    weights: &[T],
    requant: &Requant<'_>,
    output: &mut [T],
) -> Result<(), KernelError> {
    let depth = sizes.group_channels()?;
    let (out_rows, out_columns) = sizes.output()?;
    terms::<T>(elements("kernel", &[depth, sizes.kernel.0, sizes.kernel.1])?)?;
    expect("input", input.len(), sizes.input_len()?)?;
    expect("kernel", weights.len(), sizes.weights_len()?)?;
    expect("output", output.len(), sizes.output_len()?)?;
    requant.check(sizes.channels_out)?;
    if output.is_empty() {
        return Ok(());
    }
    let plane = elements("input", &[sizes.input.0, sizes.input.1])?;
    let filter = elements("kernel", &[depth, sizes.kernel.0, sizes.kernel.1])?;
    for (channel, out_plane) in output.chunks_exact_mut(out_rows * out_columns).enumerate() {
        let group = channel / (sizes.channels_out / sizes.groups);
        let input = &input[group * depth * plane..(group + 1) * depth * plane];
        let weights = &weights[channel * filter..(channel + 1) * filter];
        for (y, out_row) in out_plane.chunks_exact_mut(out_columns).enumerate() {
            for (tile, out) in out_row.chunks_mut(TILE).enumerate() {
                let sums = tile_sums(sizes, input, weights, y, tile * TILE, out.len());
                for (out, sum) in out.iter_mut().zip(&sums) {
                    *out = requant.apply(*sum, channel);
                }
            }
        }
    }
    Ok(())
}

/// Sums of one channel for `width` outputs of row `y` from column `start` on.
fn tile_sums<T: Sample>(
    sizes: &Conv2d,
    input: &[T],
    weights: &[T],
    y: usize,
    start: usize,
    width: usize,
) -> [T::Sum; TILE] {
    let (rows, columns) = sizes.input;
    let mut sums = [T::Sum::default(); TILE];
    if rows * columns == 0 {
        return sums;
    }
    let planes = input.chunks_exact(rows * columns).zip(weights.chunks_exact(sizes.kernel.0 * sizes.kernel.1));
    for (plane, filter) in planes {
        for (down, taps) in filter.chunks_exact(sizes.kernel.1).enumerate() {
            let Some(row) = (y * sizes.stride.0 + down).checked_sub(sizes.pad_rows.0).filter(|row| *row < rows) else {
                continue;
            };
            let line = &plane[row * columns..(row + 1) * columns];
            for (tap, weight) in taps.iter().enumerate() {
                let (first, from, count) = overlap(sizes, tap, start, width);
                if count == 0 {
                    continue;
                }
                let sums = &mut sums[first..first + count];
                if sizes.stride.1 == 1 {
                    for (sum, value) in sums.iter_mut().zip(&line[from..]) {
                        *sum = T::add_product(*sum, *value, *weight);
                    }
                } else {
                    for (sum, value) in sums.iter_mut().zip(line[from..].iter().step_by(sizes.stride.1)) {
                        *sum = T::add_product(*sum, *value, *weight);
                    }
                }
            }
        }
    }
    sums
}
