//! The kernels of the export table: C functions around `outboard-kernels`.
//!
//! A wrapper turns the dimensions of a call into array lengths, the pointers into slices of the device's memory, and calls
//! the kernel. Whatever is wrong with the arguments (a negative dimension, an array that leaves memory, a scale of 0) gives
//! −1 and one printed line; no memory is touched then. Meaning of the arguments: `docs/reference/c7x-kernels.md`.

mod call;
mod int8;
mod mma;
mod model;

use super::exports::{Export, exports};

/// The kernels.
#[rustfmt::skip]
pub fn kernel_exports() -> [Export; 38] {
    exports! {
        // Arithmetic of quantised arrays
        "c7x_int8_residual_add_relu" => int8::residual_add_relu_i8,
        "c7x_int16_residual_add_relu" => int8::residual_add_relu_i16,
        "c7x_int8_channel_scale_multiply" => int8::channel_scale_multiply,
        "c7x_int8_gelu" => int8::gelu,
        "c7x_int8_silu" => int8::silu,
        "c7x_int8_hardsigmoid" => int8::hardsigmoid,
        "c7x_int8_hardswish" => int8::hardswish,
        "c7x_int8_silu_f32out" => int8::silu_f32out,
        "c7x_int8_relu" => int8::relu,
        "c7x_int8_clamp" => int8::clamp,
        "c7x_int8_requantize_clamp" => int8::requantize_clamp,
        "c7x_int8_quantize" => int8::quantize,
        "c7x_int8_quantize_rgb" => int8::quantize_rgb,
        "c7x_int8_rescale" => int8::rescale,
        // Pooling and layout
        "c7x_int8_global_avg_pool" => int8::global_avg_pool,
        "c7x_int8_avg_pool" => int8::avg_pool,
        "c7x_int8_max_pool" => int8::max_pool,
        "c7x_int8_max_pool_tidl" => int8::max_pool_tidl,
        "c7x_int8_concat_rescale" => model::concat_rescale,
        "c7x_int8_concat_sigmoid" => model::concat_sigmoid,
        "c7x_int8_resize2d_nearest2x" => model::resize2d_nearest2x,
        "c7x_int8_fpn_upsample_concat" => model::fpn_upsample_concat,
        "c7x_int8_fpn_upsample_concat_ex" => model::fpn_upsample_concat_ex,
        // Normalisation, attention, search
        "c7x_int8_layer_norm" => model::layer_norm,
        "c7x_int8_dfl_softmax" => model::dfl_softmax,
        "c7x_dequantize_vecmatmul" => model::dequantize_vecmatmul,
        "c7x_sdpa_decode" => model::sdpa_decode,
        "c7x_topk" => model::topk,
        // Matrix products and convolutions
        "mmalib_matmul_i8" => mma::matmul_i8,
        "mmalib_matmul_i16" => mma::matmul_i16,
        "mmalib_matmul_bias_i8" => mma::matmul_bias_i8,
        "mmalib_matmul_bias_i16" => mma::matmul_bias_i16,
        "mmalib_conv2d_i8" => mma::conv2d_i8,
        "mmalib_conv2d_i16" => mma::conv2d_i16,
        "mmalib_conv2d_i8_sliced" => mma::conv2d_i8_sliced,
        "mmalib_conv2d_i8_grouped_loop" => mma::conv2d_i8_grouped_loop,
        "mmalib_depthwise_conv2d_i8" => mma::depthwise_conv2d_i8,
        "mmalib_depthwise_conv2d_i16" => mma::depthwise_conv2d_i16,
    }
}
