//! The kernels that a C7x offers to modules: quantised convolutions, activations, pooling, attention.
//!
//! Every kernel is a function over slices that checks their lengths first and touches nothing when one is wrong. Nothing here
//! knows about devices, addresses or the C names under which modules find a kernel; that is `outboard-c7x`. Loops are
//! written so that a compiler can vectorise them; what a kernel computes is defined in `docs/reference/c7x-kernels.md`, and
//! rounding and saturation live in one place, [`Quant`].
//!
//! ```
//! use outboard_kernels::{Activation, Quant, activation};
//!
//! let (from, to) = (Quant::i8(0.1, 0)?, Quant::i8(0.05, -10)?);
//! let mut out = [0; 3];
//! activation(Activation::HardSwish, &[-40, 0, 40], from, &mut out, to)?;
//! assert_eq!(out, [-10, -10, 70]);
//! # Ok::<(), outboard_kernels::KernelError>(())
//! ```
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod elementwise;
mod error;
mod float;
mod layout;
mod mma;
mod pool;
mod quant;
mod rows;

pub use elementwise::{
    Activation, activation, clamp, quantize, quantize_rgb, relu, requantize_clamp, rescale, residual_add, silu_f32,
};
pub use error::{KernelError, dimension, elements};
pub use float::{Attention, dequantize_vecmatmul, sdpa_decode, top_k};
pub use layout::{
    FeatureMap, channel_scale_multiply, concat_rescale, concat_sigmoid, fpn_upsample_concat, resize_nearest_2x,
};
pub use mma::{Conv2d, Requant, conv2d, matmul, matmul_bias};
pub use pool::{Pool2d, avg_pool, global_avg_pool, max_pool};
pub use quant::{Quant, Sample};
pub use rows::{dfl_softmax, layer_norm};
