//! Pooling of int8 feature maps: first down the rows of a window, then along them.

use crate::error::{KernelError, bad_dimension, elements, expect};
use crate::quant::Quant;
use alloc::vec;
use core::ops::Range;

/// Sizes of a two-dimensional pooling; pairs are (vertical, horizontal).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pool2d {
    /// Planes: batch times channels.
    pub planes: usize,
    /// Rows and columns of an input plane.
    pub input: (usize, usize),
    /// Rows and columns of an output plane.
    pub output: (usize, usize),
    /// Size of the window.
    pub kernel: (usize, usize),
    /// Distance of windows.
    pub stride: (usize, usize),
    /// Rows above and columns left of the input where windows may start.
    pub pad: (usize, usize),
}

impl Pool2d {
    /// Elements of the input.
    ///
    /// # Errors
    /// They cannot be counted.
    pub fn input_len(&self) -> Result<usize, KernelError> {
        elements("in", &[self.planes, self.input.0, self.input.1])
    }

    /// Elements of the output.
    ///
    /// # Errors
    /// They cannot be counted.
    pub fn output_len(&self) -> Result<usize, KernelError> {
        elements("out", &[self.planes, self.output.0, self.output.1])
    }

    /// Refuses sizes under which a window would hold no element.
    fn check(&self, input: usize, output: usize) -> Result<(), KernelError> {
        let axes = [
            (self.input.0, self.output.0, self.kernel.0, self.stride.0, self.pad.0),
            (self.input.1, self.output.1, self.kernel.1, self.stride.1, self.pad.1),
        ];
        for (input, output, kernel, stride, pad) in axes {
            if kernel == 0 {
                return Err(bad_dimension("the kernel size", kernel, "it must be at least 1"));
            }
            if stride == 0 {
                return Err(bad_dimension("the stride", stride, "it must be at least 1"));
            }
            if pad >= kernel {
                return Err(bad_dimension("the padding", pad, "it must be smaller than the kernel"));
            }
            let last = output.saturating_sub(1).checked_mul(stride);
            let inside = input.checked_add(pad).is_some_and(|end| last.is_some_and(|last| last < end));
            if output > 0 && (input == 0 || !inside) {
                return Err(bad_dimension("the output size", output, "its last window must touch the input"));
            }
        }
        expect("in", input, self.input_len()?)?;
        expect("out", output, self.output_len()?)
    }

    /// The part of window number `index` that lies inside the input.
    fn window(index: usize, input: usize, kernel: usize, stride: usize, pad: usize) -> Range<usize> {
        let end = (index * stride).saturating_add(kernel).saturating_sub(pad).min(input);
        (index * stride).saturating_sub(pad)..end
    }

    /// Runs over all windows: `fold` merges an input row into the row of partial results, which starts as `start`; `finish`
    /// turns the columns of a window and its number of rows into a result.
    fn run<T: Copy>(
        &self,
        input: &[i8],
        output: &mut [i8],
        start: T,
        fold: impl Fn(T, i8) -> T,
        finish: impl Fn(&[T], usize) -> i8,
    ) -> Result<(), KernelError> {
        self.check(input.len(), output.len())?;
        if output.is_empty() {
            return Ok(());
        }
        let (rows, columns) = self.input;
        let mut partial = vec![start; columns];
        let planes = input.chunks_exact(rows * columns).zip(output.chunks_exact_mut(self.output.0 * self.output.1));
        for (plane, output) in planes {
            for (y, out_row) in output.chunks_exact_mut(self.output.1).enumerate() {
                let window = Self::window(y, rows, self.kernel.0, self.stride.0, self.pad.0);
                partial.fill(start);
                for row in plane[window.start * columns..window.end * columns].chunks_exact(columns) {
                    for (partial, value) in partial.iter_mut().zip(row) {
                        *partial = fold(*partial, *value);
                    }
                }
                for (x, out) in out_row.iter_mut().enumerate() {
                    let columns = Self::window(x, columns, self.kernel.1, self.stride.1, self.pad.1);
                    *out = finish(&partial[columns], window.len());
                }
            }
        }
        Ok(())
    }
}

/// The largest element of every window; padding does not count.
///
/// # Errors
/// A size is impossible or a slice has the wrong length.
pub fn max_pool(sizes: &Pool2d, input: &[i8], output: &mut [i8]) -> Result<(), KernelError> {
    let finish = |columns: &[i8], _| columns.iter().fold(i8::MIN, |largest, value| largest.max(*value));
    sizes.run(input, output, i8::MIN, i8::max, finish)
}

/// The mean of every window; padding does not count.
///
/// # Errors
/// A size is impossible or a slice has the wrong length.
pub fn avg_pool(sizes: &Pool2d, input: &[i8], from: Quant, output: &mut [i8], to: Quant) -> Result<(), KernelError> {
    let finish = |columns: &[i64], rows: usize| {
        let sum = columns.iter().fold(0i64, |sum, value| sum.wrapping_add(*value));
        to.quantize(from.mean(sum, rows * columns.len()))
    };
    sizes.run(input, output, 0i64, |sum, value| sum.wrapping_add(value.into()), finish)
}

/// The mean of every plane of `size` elements.
///
/// # Errors
/// A plane is empty or a slice has the wrong length.
pub fn global_avg_pool(
    planes: usize,
    size: usize,
    input: &[i8],
    from: Quant,
    output: &mut [i8],
    to: Quant,
) -> Result<(), KernelError> {
    if size == 0 && planes > 0 {
        return Err(bad_dimension("H·W", size, "the mean of nothing is no number"));
    }
    expect("in", input.len(), elements("in", &[planes, size])?)?;
    expect("out", output.len(), planes)?;
    for (plane, out) in input.chunks_exact(size.max(1)).zip(output) {
        let sum = plane.iter().fold(0i64, |sum, value| sum.wrapping_add(i64::from(*value)));
        *out = to.quantize(from.mean(sum, size));
    }
    Ok(())
}
