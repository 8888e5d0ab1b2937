//! Layout, normalisation, attention and search.
#![allow(clippy::too_many_arguments, reason = "the argument lists are those of the export table")]

use super::call::{In, Out, run};
use alloc::borrow::Cow;
use outboard_kernels::{Attention, FeatureMap, KernelError, Quant, dimension, elements};

/// One of the four arrays of a concatenation: array, size, scale, zero point.
type Part = (In, i32, f32, i32);

/// How an array of a concatenation is quantised; an absent one (size 0) needs no scale.
fn part_quant((_, size, scale, zero): Part) -> Result<Quant, KernelError> {
    if size == 0 { Quant::i8(1.0, 0) } else { Quant::i8(scale, zero) }
}

pub(super) extern "C" fn concat_rescale(
    in1: In,
    c1: i32,
    s1: f32,
    z1: i32,
    in2: In,
    c2: i32,
    s2: f32,
    z2: i32,
    in3: In,
    c3: i32,
    s3: f32,
    z3: i32,
    in4: In,
    c4: i32,
    s4: f32,
    z4: i32,
    out: Out,
    plane: i32,
    out_scale: f32,
    out_zero: i32,
) -> i32 {
    let parts: [Part; 4] = [(in1, c1, s1, z1), (in2, c2, s2, z2), (in3, c3, s3, z3), (in4, c4, s4, z4)];
    run("c7x_int8_concat_rescale", |mut call| {
        let plane = dimension("HW", plane)?;
        let mut sizes = [0; 4];
        let mut channels = 0usize;
        for (size, part) in sizes.iter_mut().zip(parts) {
            let own = dimension("C", part.1)?;
            *size = elements("in", &[own, plane])?;
            channels = channels.checked_add(own).ok_or(KernelError::Overflow { what: "out" })?;
        }
        let to = Quant::i8(out_scale, out_zero)?;
        let out = call.output("out", out, elements("out", &[channels, plane])?)?;
        let mut arrays: [Cow<'_, [i8]>; 4] = [const { Cow::Borrowed(&[]) }; 4];
        for ((array, part), size) in arrays.iter_mut().zip(parts).zip(sizes) {
            *array = call.input("in", part.0, size)?;
        }
        let mut maps = [FeatureMap { data: &[], quant: to }; 4];
        for ((map, array), part) in maps.iter_mut().zip(&arrays).zip(parts) {
            *map = FeatureMap { data: array, quant: part_quant(part)? };
        }
        let ready = call.ready();
        Ok(outboard_kernels::concat_rescale(&maps, out.slice(&ready), to)?)
    })
}

pub(super) extern "C" fn concat_sigmoid(
    in1: In,
    n1: i32,
    s1: f32,
    z1: i32,
    in2: In,
    n2: i32,
    s2: f32,
    z2: i32,
    in3: In,
    n3: i32,
    s3: f32,
    z3: i32,
    in4: In,
    n4: i32,
    s4: f32,
    z4: i32,
    out: Out,
    channels: i32,
) -> i32 {
    let parts: [Part; 4] = [(in1, n1, s1, z1), (in2, n2, s2, z2), (in3, n3, s3, z3), (in4, n4, s4, z4)];
    run("c7x_int8_concat_sigmoid", |mut call| {
        let channels = dimension("C", channels)?;
        let mut widths = [0; 4];
        let mut total = 0usize;
        for (width, part) in widths.iter_mut().zip(parts) {
            *width = dimension("n", part.1)?;
            total = total.checked_add(*width).ok_or(KernelError::Overflow { what: "out" })?;
        }
        let out = call.output("out", out, elements("out", &[channels, total])?)?;
        let mut arrays: [Cow<'_, [i8]>; 4] = [const { Cow::Borrowed(&[]) }; 4];
        for ((array, part), width) in arrays.iter_mut().zip(parts).zip(widths) {
            *array = call.input("in", part.0, elements("in", &[channels, width])?)?;
        }
        let mut maps = [(FeatureMap { data: &[], quant: Quant::i8(1.0, 0)? }, 0); 4];
        for (((map, array), part), width) in maps.iter_mut().zip(&arrays).zip(parts).zip(widths) {
            *map = (FeatureMap { data: array, quant: part_quant(part)? }, width);
        }
        let ready = call.ready();
        Ok(outboard_kernels::concat_sigmoid(&maps, channels, out.slice(&ready))?)
    })
}

pub(super) extern "C" fn resize2d_nearest2x(input: In, out: Out, channels: i32, rows: i32, columns: i32) -> i32 {
    run("c7x_int8_resize2d_nearest2x", |mut call| {
        let sizes = (dimension("C", channels)?, dimension("H", rows)?, dimension("W", columns)?);
        let n = elements("in", &[sizes.0, sizes.1, sizes.2])?;
        let out = call.output("out", out, elements("out", &[n, 4])?)?;
        let input = call.input("in", input, n)?;
        let ready = call.ready();
        Ok(outboard_kernels::resize_nearest_2x(sizes, &input, out.slice(&ready))?)
    })
}

/// The arguments that both forms of the upsampling concatenation share.
struct Upsample {
    sizes: [i32; 3],
    first: (In, f32, i32),
    second: (In, i32, f32, i32),
    out: Out,
    to: (f32, i32),
}

/// `small` is where the first array goes, rescaled; without it, into memory of the device's own.
fn upsample(name: &str, arguments: &Upsample, small: Option<Out>) -> i32 {
    run(name, |mut call| {
        let [channels, rows, columns] = arguments.sizes;
        let sizes = (dimension("C1", channels)?, dimension("H", rows)?, dimension("W", columns)?);
        let n = elements("in1", &[sizes.0, sizes.1, sizes.2])?;
        let (second, second_channels, second_scale, second_zero) = arguments.second;
        let n2 = elements("in2", &[dimension("C2", second_channels)?, sizes.1, sizes.2, 4])?;
        let upsampled = elements("out", &[n, 4])?;
        let total = upsampled.checked_add(n2).ok_or(KernelError::Overflow { what: "out" })?;
        let (first, first_scale, first_zero) = arguments.first;
        let quants = (Quant::i8(first_scale, first_zero)?, Quant::i8(second_scale, second_zero)?);
        let to = Quant::i8(arguments.to.0, arguments.to.1)?;
        let out = call.output("out", arguments.out, total)?;
        let small = small.map(|small| call.output("out1_presize", small, n)).transpose()?;
        let first = call.input("in1", first, n)?;
        let second = call.input("in2", second, n2)?;
        let first = FeatureMap { data: &first, quant: quants.0 };
        let second = FeatureMap { data: &second, quant: quants.1 };
        let ready = call.ready();
        let mut own = alloc::vec![0; if small.is_some() { 0 } else { n }];
        let small = small.map_or(&mut own[..], |small| small.slice(&ready));
        Ok(outboard_kernels::fpn_upsample_concat(sizes, first, second, out.slice(&ready), to, small)?)
    })
}

pub(super) extern "C" fn fpn_upsample_concat(
    in1: In,
    c1: i32,
    rows: i32,
    columns: i32,
    z1: i32,
    s1: f32,
    in2: In,
    c2: i32,
    z2: i32,
    s2: f32,
    out: Out,
    out_scale: f32,
    out_zero: i32,
) -> i32 {
    let sizes = [c1, rows, columns];
    let arguments = Upsample { sizes, first: (in1, s1, z1), second: (in2, c2, s2, z2), out, to: (out_scale, out_zero) };
    upsample("c7x_int8_fpn_upsample_concat", &arguments, None)
}

pub(super) extern "C" fn fpn_upsample_concat_ex(
    in1: In,
    c1: i32,
    rows: i32,
    columns: i32,
    z1: i32,
    s1: f32,
    in2: In,
    c2: i32,
    z2: i32,
    s2: f32,
    out: Out,
    out_scale: f32,
    out_zero: i32,
    small: Out,
) -> i32 {
    let sizes = [c1, rows, columns];
    let arguments = Upsample { sizes, first: (in1, s1, z1), second: (in2, c2, s2, z2), out, to: (out_scale, out_zero) };
    upsample("c7x_int8_fpn_upsample_concat_ex", &arguments, Some(small))
}

pub(super) extern "C" fn layer_norm(
    input: In,
    weight: In,
    bias: In,
    out: Out,
    rows: i32,
    width: i32,
    epsilon: f32,
    zx: i32,
    sx: f32,
    zy: i32,
    sy: f32,
) -> i32 {
    run("c7x_int8_layer_norm", |mut call| {
        let (rows, width) = (dimension("outer", rows)?, dimension("norm", width)?);
        let (from, to) = (Quant::i8(sx, zx)?, Quant::i8(sy, zy)?);
        let n = elements("in", &[rows, width])?;
        let out = call.output("out", out, n)?;
        let input = call.input("in", input, n)?;
        let weight = call.input("weight", weight, width)?;
        let bias = call.input("bias", bias, width)?;
        let ready = call.ready();
        let output = (out.slice(&ready), to);
        Ok(outboard_kernels::layer_norm((&input, from), &weight, &bias, output, rows, epsilon)?)
    })
}

pub(super) extern "C" fn dfl_softmax(
    input: In,
    out: Out,
    batch: i32,
    sides: i32,
    bins: i32,
    anchors: i32,
    zx: i32,
    sx: f32,
    zy: i32,
    sy: f32,
) -> i32 {
    run("c7x_int8_dfl_softmax", |mut call| {
        let outer = elements("in", &[dimension("B", batch)?, dimension("A", sides)?])?;
        let sizes = (outer, dimension("K", bins)?, dimension("N", anchors)?);
        let (from, to) = (Quant::i8(sx, zx)?, Quant::i8(sy, zy)?);
        let n = elements("in", &[sizes.0, sizes.1, sizes.2])?;
        let out = call.output("out", out, n)?;
        let input = call.input("in", input, n)?;
        let ready = call.ready();
        Ok(outboard_kernels::dfl_softmax(sizes, &input, from, out.slice(&ready), to)?)
    })
}

pub(super) extern "C" fn dequantize_vecmatmul(
    activation: In,
    weights: In,
    scale: In,
    out: Out,
    m: i32,
    k: i32,
    n: i32,
) -> i32 {
    run("c7x_dequantize_vecmatmul", |mut call| {
        let (m, k, n) = (dimension("M", m)?, dimension("K", k)?, dimension("N", n)?);
        let out = call.output("out", out, elements("out", &[m, n])?)?;
        let activation = call.input("activation", activation, elements("activation", &[m, k])?)?;
        let weights = call.input("weights", weights, elements("weights", &[k, n])?)?;
        let scale = call.input("scale", scale, n)?;
        let ready = call.ready();
        let out = out.slice(&ready);
        Ok(outboard_kernels::dequantize_vecmatmul((m, k, n), &activation, &weights, &scale, out)?)
    })
}

pub(super) extern "C" fn sdpa_decode(
    query: In,
    keys: In,
    values: In,
    mask: In,
    out: Out,
    query_heads: i32,
    kv_heads: i32,
    head_dim: i32,
    cache_len: i32,
) -> i32 {
    run("c7x_sdpa_decode", |mut call| {
        let sizes = Attention {
            query_heads: dimension("num_q_heads", query_heads)?,
            kv_heads: dimension("num_kv_heads", kv_heads)?,
            head_dim: dimension("head_dim", head_dim)?,
            cache_len: dimension("max_cache_len", cache_len)?,
        };
        let out = call.output("out", out, sizes.query_len()?)?;
        let query = call.input("Q", query, sizes.query_len()?)?;
        let keys = call.input("K_cache", keys, sizes.cache_elements()?)?;
        let values = call.input("V_cache", values, sizes.cache_elements()?)?;
        let mask = call.optional("mask", mask, sizes.cache_len)?;
        let ready = call.ready();
        let out = out.slice(&ready);
        Ok(outboard_kernels::sdpa_decode(&sizes, &query, (&keys, &values), mask.as_deref(), out)?)
    })
}

pub(super) extern "C" fn topk(data: In, values: Out, indices: Out, batch: i32, n: i32, k: i32) -> i32 {
    run("c7x_topk", |mut call| {
        let sizes = (dimension("batch", batch)?, dimension("n", n)?, dimension("k", k)?);
        let results = elements("out_val", &[sizes.0, sizes.2])?;
        let values = call.output("out_val", values, results)?;
        let indices = call.output("out_idx", indices, results)?;
        let data = call.input("data", data, elements("data", &[sizes.0, sizes.1])?)?;
        let ready = call.ready();
        Ok(outboard_kernels::top_k(sizes, &data, values.slice(&ready), indices.slice(&ready))?)
    })
}
