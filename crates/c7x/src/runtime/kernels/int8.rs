//! Arithmetic and pooling of quantised arrays.
#![allow(clippy::too_many_arguments, reason = "the argument lists are those of the export table")]

use super::call::{Call, Element, In, Out, Refusal, run};
use outboard_kernels::{Activation, FeatureMap, Pool2d, Quant, Sample, dimension, elements};

/// Words of what `params` of a residual addition points at: scale and zero point of x, skip and out.
const RESIDUAL_PARAMS: usize = 6;

fn residual<T: Sample + Element>(
    mut call: Call<'_>,
    (x, skip, params, out): (In, In, In, Out),
    (n, relu): (i32, i32),
    quant: fn(f32, i32) -> Result<Quant, outboard_kernels::KernelError>,
) -> Result<(), Refusal> {
    let n = dimension("num_elements", n)?;
    let out = call.output("out", out, n)?;
    let params = call.input::<i32>("params", params, RESIDUAL_PARAMS)?;
    let of = |index: usize| quant(f32::from_bits(params[index].cast_unsigned()), params[index + 1]);
    let (from_x, from_skip, to) = (of(0)?, of(2)?, of(4)?);
    let x = call.input::<T>("x", x, n)?;
    let skip = call.input::<T>("skip", skip, n)?;
    let ready = call.ready();
    Ok(outboard_kernels::residual_add((&x, from_x), (&skip, from_skip), out.slice(&ready), to, relu != 0)?)
}

pub(super) extern "C" fn residual_add_relu_i8(x: In, skip: In, params: In, out: Out, n: i32, relu: i32) -> i32 {
    let arrays = (x, skip, params, out);
    run("c7x_int8_residual_add_relu", |call| residual::<i8>(call, arrays, (n, relu), Quant::i8))
}

pub(super) extern "C" fn residual_add_relu_i16(x: In, skip: In, params: In, out: Out, n: i32, relu: i32) -> i32 {
    let arrays = (x, skip, params, out);
    run("c7x_int16_residual_add_relu", |call| residual::<i16>(call, arrays, (n, relu), Quant::i16))
}

/// A kernel between two arrays of `n` elements.
fn between<A: Element, B: Element>(
    mut call: Call<'_>,
    input: In,
    out: Out,
    n: i32,
    kernel: impl FnOnce(&[A], &mut [B]) -> Result<(), outboard_kernels::KernelError>,
) -> Result<(), Refusal> {
    let n = dimension("n", n)?;
    let out = call.output("out", out, n)?;
    let input = call.input("in", input, n)?;
    let ready = call.ready();
    Ok(kernel(&input, out.slice(&ready))?)
}

macro_rules! activations {
    ($($function:ident $name:literal $activation:ident;)*) => {$(
        pub(super) extern "C" fn $function(input: In, out: Out, n: i32, zx: i32, sx: f32, zy: i32, sy: f32) -> i32 {
            run($name, |call| {
                let (from, to) = (Quant::i8(sx, zx)?, Quant::i8(sy, zy)?);
                let kernel = |x: &[i8], y: &mut [i8]| {
                    outboard_kernels::activation(Activation::$activation, x, from, y, to)
                };
                between(call, input, out, n, kernel)
            })
        }
    )*};
}

activations! {
    gelu "c7x_int8_gelu" Gelu;
    silu "c7x_int8_silu" Silu;
    hardsigmoid "c7x_int8_hardsigmoid" HardSigmoid;
    hardswish "c7x_int8_hardswish" HardSwish;
    rescale "c7x_int8_rescale" Identity;
}

pub(super) extern "C" fn silu_f32out(input: In, out: Out, n: i32, zx: i32, sx: f32) -> i32 {
    run("c7x_int8_silu_f32out", |call| {
        let from = Quant::i8(sx, zx)?;
        between(call, input, out, n, |x, y| outboard_kernels::silu_f32(x, from, y))
    })
}

pub(super) extern "C" fn relu(input: In, out: Out, n: i32, low: i32) -> i32 {
    run("c7x_int8_relu", |call| between(call, input, out, n, |x, y| outboard_kernels::relu(x, y, low)))
}

pub(super) extern "C" fn clamp(input: In, out: Out, n: i32, low: i32, high: i32) -> i32 {
    run("c7x_int8_clamp", |call| between(call, input, out, n, |x, y| outboard_kernels::clamp(x, y, low, high)))
}

pub(super) extern "C" fn requantize_clamp(input: In, out: Out, n: i32, scale: f32, low: i32, high: i32) -> i32 {
    run("c7x_int8_requantize_clamp", |call| {
        between(call, input, out, n, |x, y| outboard_kernels::requantize_clamp(x, y, scale, low, high))
    })
}

pub(super) extern "C" fn quantize(input: In, out: Out, n: i32, inverse_scale: f32, zero: i32) -> i32 {
    run("c7x_int8_quantize", |call| {
        between(call, input, out, n, |x, y| outboard_kernels::quantize(x, y, inverse_scale, zero))
    })
}

pub(super) extern "C" fn quantize_rgb(
    input: In,
    out: Out,
    images: i32,
    plane: i32,
    scale0: f32,
    offset0: f32,
    scale1: f32,
    offset1: f32,
    scale2: f32,
    offset2: f32,
) -> i32 {
    run("c7x_int8_quantize_rgb", |mut call| {
        let (images, plane) = (dimension("N", images)?, dimension("HW", plane)?);
        let planes = [(scale0, offset0), (scale1, offset1), (scale2, offset2)];
        let n = elements("in", &[images, 3, plane])?;
        let out = call.output("out", out, n)?;
        let input = call.input("in", input, n)?;
        let ready = call.ready();
        Ok(outboard_kernels::quantize_rgb(&input, out.slice(&ready), images, plane, planes)?)
    })
}

pub(super) extern "C" fn channel_scale_multiply(
    excitation: In,
    features: In,
    out: Out,
    channels: i32,
    plane: i32,
    excitation_scale: f32,
    excitation_zero: i32,
    features_scale: f32,
    features_zero: i32,
    out_scale: f32,
    out_zero: i32,
) -> i32 {
    run("c7x_int8_channel_scale_multiply", |mut call| {
        let (channels, plane) = (dimension("C", channels)?, dimension("H_W", plane)?);
        let n = elements("feature_map", &[channels, plane])?;
        let to = Quant::i8(out_scale, out_zero)?;
        let out = call.output("out", out, n)?;
        let excitation = call.input("excitation", excitation, channels)?;
        let features = call.input("feature_map", features, n)?;
        let excitation = FeatureMap { data: &excitation, quant: Quant::i8(excitation_scale, excitation_zero)? };
        let features = FeatureMap { data: &features, quant: Quant::i8(features_scale, features_zero)? };
        let ready = call.ready();
        Ok(outboard_kernels::channel_scale_multiply(excitation, features, plane, out.slice(&ready), to)?)
    })
}

pub(super) extern "C" fn global_avg_pool(
    input: In,
    out: Out,
    batch: i32,
    channels: i32,
    height: i32,
    width: i32,
    zx: i32,
    sx: f32,
    zy: i32,
    sy: f32,
) -> i32 {
    run("c7x_int8_global_avg_pool", |mut call| {
        let planes = elements("out", &[dimension("N", batch)?, dimension("C", channels)?])?;
        let size = elements("a plane", &[dimension("H", height)?, dimension("W", width)?])?;
        let (from, to) = (Quant::i8(sx, zx)?, Quant::i8(sy, zy)?);
        let out = call.output("out", out, planes)?;
        let input = call.input("in", input, elements("in", &[planes, size])?)?;
        let ready = call.ready();
        Ok(outboard_kernels::global_avg_pool(planes, size, &input, from, out.slice(&ready), to)?)
    })
}

/// The sizes of a pooling call, in the order of its arguments from N on.
fn pool_sizes(arguments: [i32; 12]) -> Result<Pool2d, Refusal> {
    const NAMES: [&str; 12] = ["N", "C", "H_in", "W_in", "H_out", "W_out", "kH", "kW", "sH", "sW", "pH", "pW"];
    let mut sizes = [0; 12];
    for ((size, name), argument) in sizes.iter_mut().zip(NAMES).zip(arguments) {
        *size = dimension(name, argument)?;
    }
    let [batch, channels, h_in, w_in, h_out, w_out, kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w] = sizes;
    Ok(Pool2d {
        planes: elements("in", &[batch, channels])?,
        input: (h_in, w_in),
        output: (h_out, w_out),
        kernel: (kernel_h, kernel_w),
        stride: (stride_h, stride_w),
        pad: (pad_h, pad_w),
    })
}

pub(super) extern "C" fn avg_pool(
    input: In,
    out: Out,
    batch: i32,
    channels: i32,
    h_in: i32,
    w_in: i32,
    h_out: i32,
    w_out: i32,
    kernel_h: i32,
    kernel_w: i32,
    stride_h: i32,
    stride_w: i32,
    pad_h: i32,
    pad_w: i32,
    zx: i32,
    sx: f32,
    zy: i32,
    sy: f32,
) -> i32 {
    let arguments = [batch, channels, h_in, w_in, h_out, w_out, kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w];
    run("c7x_int8_avg_pool", |mut call| {
        let sizes = pool_sizes(arguments)?;
        let (from, to) = (Quant::i8(sx, zx)?, Quant::i8(sy, zy)?);
        let out = call.output("out", out, sizes.output_len()?)?;
        let input = call.input("in", input, sizes.input_len()?)?;
        let ready = call.ready();
        Ok(outboard_kernels::avg_pool(&sizes, &input, from, out.slice(&ready), to)?)
    })
}

macro_rules! max_pools {
    ($($function:ident $name:literal;)*) => {$(
        pub(super) extern "C" fn $function(
            input: In, out: Out, batch: i32, channels: i32, h_in: i32, w_in: i32, h_out: i32, w_out: i32,
            kernel_h: i32, kernel_w: i32, stride_h: i32, stride_w: i32, pad_h: i32, pad_w: i32,
        ) -> i32 {
            let arguments =
                [batch, channels, h_in, w_in, h_out, w_out, kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w];
            run($name, |mut call| {
                let sizes = pool_sizes(arguments)?;
                let out = call.output("out", out, sizes.output_len()?)?;
                let input = call.input("in", input, sizes.input_len()?)?;
                let ready = call.ready();
                Ok(outboard_kernels::max_pool(&sizes, &input, out.slice(&ready))?)
            })
        }
    )*};
}

max_pools! {
    max_pool "c7x_int8_max_pool";
    max_pool_tidl "c7x_int8_max_pool_tidl";
}
