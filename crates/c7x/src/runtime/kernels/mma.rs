//! Matrix products and convolutions.
#![allow(clippy::too_many_arguments, reason = "the argument lists are those of the export table")]

use super::call::{Call, Element, In, Out, Refusal, run};
use outboard_kernels::{Conv2d, KernelError, Requant, Sample, dimension, elements};

/// The dimensions M, K and N of a product.
fn product(m: i32, k: i32, n: i32) -> Result<(usize, usize, usize), KernelError> {
    Ok((dimension("M", m)?, dimension("K", k)?, dimension("N", n)?))
}

fn matmul<T: Sample + Element>(
    mut call: Call<'_>,
    (left, right, out): (In, In, Out),
    sizes: (i32, i32, i32),
    shift: i32,
) -> Result<(), Refusal> {
    let (m, k, n) = product(sizes.0, sizes.1, sizes.2)?;
    let out = call.output("dst", out, elements("dst", &[m, n])?)?;
    let left = call.input::<T>("src0", left, elements("src0", &[m, k])?)?;
    let right = call.input("src1", right, elements("src1", &[k, n])?)?;
    let ready = call.ready();
    Ok(outboard_kernels::matmul((m, k, n), &left, &right, out.slice(&ready), shift)?)
}

pub(super) extern "C" fn matmul_i8(left: In, right: In, out: Out, m: i32, k: i32, n: i32, shift: i32) -> i32 {
    run("mmalib_matmul_i8", |call| matmul::<i8>(call, (left, right, out), (m, k, n), shift))
}

pub(super) extern "C" fn matmul_i16(left: In, right: In, out: Out, m: i32, k: i32, n: i32, shift: i32) -> i32 {
    run("mmalib_matmul_i16", |call| matmul::<i16>(call, (left, right, out), (m, k, n), shift))
}

/// The arrays of a kernel with weights, in the order of the arguments.
#[derive(Clone, Copy)]
struct Arrays {
    input: In,
    weights: In,
    bias: In,
    scale: In,
    shift: In,
    output: Out,
}

fn matmul_bias<T: Sample + Element>(
    mut call: Call<'_>,
    arrays: Arrays,
    (m, k, n): (i32, i32, i32),
) -> Result<(), Refusal> {
    let (m, k, n) = product(m, k, n)?;
    let out = call.output("output", arrays.output, elements("output", &[m, n])?)?;
    let input = call.input::<T>("input", arrays.input, elements("input", &[m, k])?)?;
    let weights = call.input("weights", arrays.weights, elements("weights", &[k, n])?)?;
    let bias = call.optional("bias", arrays.bias, n)?;
    let scale = call.input("scale", arrays.scale, n)?;
    let shift = call.input("shift", arrays.shift, n)?;
    let requant = Requant { bias: bias.as_deref(), scale: &scale, shift: &shift };
    let ready = call.ready();
    Ok(outboard_kernels::matmul_bias((m, k, n), &input, &weights, &requant, out.slice(&ready))?)
}

pub(super) extern "C" fn matmul_bias_i8(
    input: In,
    weights: In,
    bias: In,
    scale: In,
    shift: In,
    output: Out,
    m: i32,
    k: i32,
    n: i32,
) -> i32 {
    let arrays = Arrays { input, weights, bias, scale, shift, output };
    run("mmalib_matmul_bias_i8", |call| matmul_bias::<i8>(call, arrays, (m, k, n)))
}

pub(super) extern "C" fn matmul_bias_i16(
    input: In,
    weights: In,
    bias: In,
    scale: In,
    shift: In,
    output: Out,
    m: i32,
    k: i32,
    n: i32,
) -> i32 {
    let arrays = Arrays { input, weights, bias, scale, shift, output };
    run("mmalib_matmul_bias_i16", |call| matmul_bias::<i16>(call, arrays, (m, k, n)))
}

/// Sizes of a window operation, in the order in which the arguments name them.
struct Window {
    input: [i32; 2],
    kernel: [i32; 2],
    stride: [i32; 2],
    /// Top, bottom, left, right.
    pad: [i32; 4],
}

impl Window {
    fn sizes(&self, channels_in: usize, channels_out: usize, groups: usize) -> Result<Conv2d, KernelError> {
        let [top, bottom, left, right] = self.pad;
        Ok(Conv2d {
            channels_in,
            input: (dimension("H_in", self.input[0])?, dimension("W_in", self.input[1])?),
            channels_out,
            kernel: (dimension("KH", self.kernel[0])?, dimension("KW", self.kernel[1])?),
            stride: (dimension("stride_h", self.stride[0])?, dimension("stride_w", self.stride[1])?),
            pad_rows: (dimension("pad_top", top)?, dimension("pad_bottom", bottom)?),
            pad_columns: (dimension("pad_left", left)?, dimension("pad_right", right)?),
            groups,
        })
    }
}

/// Computes the output channels from `first` on of a convolution whose arrays start with channel 0.
fn convolve<T: Sample + Element>(
    mut call: Call<'_>,
    arrays: Arrays,
    sizes: &Conv2d,
    first: usize,
) -> Result<(), Refusal> {
    let tile = Conv2d { channels_out: sizes.channels_out - first, ..*sizes };
    let out = call.output("output", arrays.output, sizes.output_len()?)?;
    let input = call.input::<T>("input", arrays.input, sizes.input_len()?)?;
    let weights = call.input("kernel", arrays.weights, sizes.weights_len()?)?;
    let bias = call.optional("bias", arrays.bias, sizes.channels_out)?;
    let scale = call.input("scale", arrays.scale, sizes.channels_out)?;
    let shift = call.input("shift", arrays.shift, sizes.channels_out)?;
    let requant =
        Requant { bias: bias.as_deref().map(|bias| &bias[first..]), scale: &scale[first..], shift: &shift[first..] };
    let weights = &weights[sizes.weights_len()? - tile.weights_len()?..];
    let ready = call.ready();
    let out = &mut out.slice(&ready)[sizes.output_len()? - tile.output_len()?..];
    Ok(outboard_kernels::conv2d(&tile, &input, weights, &requant, out)?)
}

macro_rules! convolutions {
    ($($function:ident $name:literal $element:ty;)*) => {$(
        pub(super) extern "C" fn $function(
            input: In, weights: In, bias: In, scale: In, shift: In, output: Out,
            c_in: i32, h_in: i32, w_in: i32, c_out: i32, kh: i32, kw: i32, stride_h: i32, stride_w: i32,
            pad_top: i32, pad_bottom: i32, pad_left: i32, pad_right: i32,
        ) -> i32 {
            let arrays = Arrays { input, weights, bias, scale, shift, output };
            let pad = [pad_top, pad_bottom, pad_left, pad_right];
            let window = Window { input: [h_in, w_in], kernel: [kh, kw], stride: [stride_h, stride_w], pad };
            run($name, |call| {
                let sizes = window.sizes(dimension("C_in", c_in)?, dimension("C_out", c_out)?, 1)?;
                convolve::<$element>(call, arrays, &sizes, 0)
            })
        }
    )*};
}

convolutions! {
    conv2d_i8 "mmalib_conv2d_i8" i8;
    conv2d_i16 "mmalib_conv2d_i16" i16;
}

pub(super) extern "C" fn conv2d_i8_sliced(
    input: In,
    weights: In,
    bias: In,
    scale: In,
    shift: In,
    output: Out,
    c_in: i32,
    h_in: i32,
    w_in: i32,
    tile: i32,
    kh: i32,
    kw: i32,
    stride_h: i32,
    stride_w: i32,
    pad_top: i32,
    pad_bottom: i32,
    pad_left: i32,
    pad_right: i32,
    oc_start: i32,
) -> i32 {
    let arrays = Arrays { input, weights, bias, scale, shift, output };
    let pad = [pad_top, pad_bottom, pad_left, pad_right];
    let window = Window { input: [h_in, w_in], kernel: [kh, kw], stride: [stride_h, stride_w], pad };
    run("mmalib_conv2d_i8_sliced", |call| {
        let first = dimension("oc_start", oc_start)?;
        let end = dimension("C_out", tile)?.saturating_add(first);
        convolve::<i8>(call, arrays, &window.sizes(dimension("C_in", c_in)?, end, 1)?, first)
    })
}

pub(super) extern "C" fn conv2d_i8_grouped_loop(
    input: In,
    weights: In,
    bias: In,
    scale: In,
    shift: In,
    output: Out,
    c_in: i32,
    h_in: i32,
    w_in: i32,
    c_out: i32,
    kh: i32,
    kw: i32,
    stride_h: i32,
    stride_w: i32,
    pad_top: i32,
    pad_bottom: i32,
    pad_left: i32,
    pad_right: i32,
    groups: i32,
) -> i32 {
    let arrays = Arrays { input, weights, bias, scale, shift, output };
    let pad = [pad_top, pad_bottom, pad_left, pad_right];
    let window = Window { input: [h_in, w_in], kernel: [kh, kw], stride: [stride_h, stride_w], pad };
    run("mmalib_conv2d_i8_grouped_loop", |call| {
        let (c_in, c_out) = (dimension("C_in", c_in)?, dimension("C_out", c_out)?);
        convolve::<i8>(call, arrays, &window.sizes(c_in, c_out, dimension("groups", groups)?)?, 0)
    })
}

macro_rules! depthwise {
    ($($function:ident $name:literal $element:ty;)*) => {$(
        pub(super) extern "C" fn $function(
            input: In, weights: In, bias: In, scale: In, shift: In, output: Out,
            channels: i32, h_in: i32, w_in: i32, kh: i32, kw: i32, stride_h: i32, stride_w: i32,
            pad_top: i32, pad_bottom: i32, pad_left: i32, pad_right: i32, num_groups: i32,
        ) -> i32 {
            let arrays = Arrays { input, weights, bias, scale, shift, output };
            let pad = [pad_top, pad_bottom, pad_left, pad_right];
            let window = Window { input: [h_in, w_in], kernel: [kh, kw], stride: [stride_h, stride_w], pad };
            run($name, |call| {
                let groups = dimension("num_groups", num_groups)?;
                let sizes = window.sizes(groups, dimension("channels", channels)?, groups)?;
                convolve::<$element>(call, arrays, &sizes, 0)
            })
        }
    )*};
}

depthwise! {
    depthwise_conv2d_i8 "mmalib_depthwise_conv2d_i8" i8;
    depthwise_conv2d_i16 "mmalib_depthwise_conv2d_i16" i16;
}
