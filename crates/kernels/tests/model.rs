//! Attention, top-k, normalisation, products and convolutions against loops over their definitions.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use outboard_kernels::{
    Attention, Conv2d, KernelError, Requant, Sample, conv2d, dequantize_vecmatmul, dfl_softmax, layer_norm, matmul,
    matmul_bias, sdpa_decode, top_k,
};
use proptest::collection::vec;
use proptest::prelude::*;
use support::{quant, real, scheme, whole, within_one};

/// Numbers that look random: the seed decides, so that a failure can be repeated.
fn noise<T>(len: usize, mut seed: u64, from: impl Fn(i16) -> T) -> Vec<T> {
    let mut next = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let [.., low, high] = seed.to_le_bytes();
        from(i16::from_le_bytes([low, high]))
    };
    (0..len).map(|_| next()).collect()
}

fn byte(value: i16) -> i8 {
    value.to_le_bytes()[1].cast_signed()
}

/// A number in −2..2.
fn float(value: i16) -> f32 {
    f32::from(value) / 16_384.0
}

/// saturate(round(value · scale / 2^shift)) by division of big integers.
fn requantised(value: i128, scale: u8, shift: u8, least: i128, most: i128) -> i128 {
    let (product, unit) = (value * i128::from(scale), 1i128 << shift);
    let (quotient, rest) = (product.div_euclid(unit), product.rem_euclid(unit));
    let up = match (2 * rest).cmp(&unit) {
        std::cmp::Ordering::Less => 0,
        std::cmp::Ordering::Equal => quotient.rem_euclid(2),
        std::cmp::Ordering::Greater => 1,
    };
    (quotient + up).clamp(least, most)
}

/// What a test of both element types needs to know about them.
trait Type: Sample + PartialEq + std::fmt::Debug + Default + Into<i128> {
    const RANGE: (i128, i128);
    fn random(value: i16) -> Self;
}
impl Type for i8 {
    const RANGE: (i128, i128) = (-128, 127);
    fn random(value: i16) -> Self {
        byte(value)
    }
}
impl Type for i16 {
    const RANGE: (i128, i128) = (-32_768, 32_767);
    fn random(value: i16) -> Self {
        value
    }
}

struct Channels {
    bias: Vec<i32>,
    scale: Vec<u8>,
    shift: Vec<u8>,
}

impl Channels {
    fn random(count: usize, seed: u64) -> Self {
        Self {
            bias: noise(count, seed ^ 1, |value| i32::from(value) * 4),
            scale: noise(count, seed ^ 2, |value| value.to_le_bytes()[0]),
            shift: noise(count, seed ^ 3, |value| value.to_le_bytes()[0] % 24),
        }
    }

    fn requant(&self, with_bias: bool) -> Requant<'_> {
        Requant { bias: with_bias.then_some(&self.bias), scale: &self.scale, shift: &self.shift }
    }

    fn result<T: Type>(&self, sum: i128, channel: usize, with_bias: bool) -> i128 {
        let bias = if with_bias { self.bias[channel].into() } else { 0 };
        requantised(sum + bias, self.scale[channel], self.shift[channel], T::RANGE.0, T::RANGE.1)
    }
}

fn check_matmul<T: Type>((m, k, n): (usize, usize, usize), seed: u64, shift: u8, with_bias: bool) {
    let (left, right) = (noise(m * k, seed, T::random), noise(k * n, !seed, T::random));
    let channels = Channels::random(n, seed);
    let (mut plain, mut full) = (vec![T::default(); m * n], vec![T::default(); m * n]);
    matmul((m, k, n), &left, &right, &mut plain, shift.into()).unwrap();
    matmul_bias((m, k, n), &left, &right, &channels.requant(with_bias), &mut full).unwrap();
    for row in 0..m {
        for column in 0..n {
            let sum: i128 = (0..k).map(|i| left[row * k + i].into() * right[i * n + column].into()).sum();
            let at = row * n + column;
            assert_eq!(plain[at].into(), requantised(sum, 1, shift, T::RANGE.0, T::RANGE.1));
            assert_eq!(full[at].into(), channels.result::<T>(sum, column, with_bias));
        }
    }
}

fn check_conv<T: Type>(sizes: &Conv2d, seed: u64, with_bias: bool) {
    let input = noise(sizes.input_len().unwrap(), seed, T::random);
    let weights = noise(sizes.weights_len().unwrap(), !seed, T::random);
    let channels = Channels::random(sizes.channels_out, seed);
    let (rows, columns) = sizes.output().unwrap();
    let mut found = vec![T::default(); sizes.output_len().unwrap()];
    conv2d(sizes, &input, &weights, &channels.requant(with_bias), &mut found).unwrap();
    let depth = sizes.channels_in / sizes.groups;
    for channel in 0..sizes.channels_out {
        let group = channel / (sizes.channels_out / sizes.groups);
        for y in 0..rows {
            for x in 0..columns {
                let mut sum = 0i128;
                for plane in 0..depth {
                    for down in 0..sizes.kernel.0 {
                        for right in 0..sizes.kernel.1 {
                            let row = (y * sizes.stride.0 + down).wrapping_sub(sizes.pad_rows.0);
                            let column = (x * sizes.stride.1 + right).wrapping_sub(sizes.pad_columns.0);
                            if row < sizes.input.0 && column < sizes.input.1 {
                                let at = ((group * depth + plane) * sizes.input.0 + row) * sizes.input.1 + column;
                                let tap = ((channel * depth + plane) * sizes.kernel.0 + down) * sizes.kernel.1 + right;
                                sum += input[at].into() * weights[tap].into();
                            }
                        }
                    }
                }
                let at = (channel * rows + y) * columns + x;
                assert_eq!(found[at].into(), channels.result::<T>(sum, channel, with_bias), "{sizes:?}");
            }
        }
    }
}

fn convolutions() -> impl Strategy<Value = Conv2d> {
    let small = 1usize..4;
    let pads = (0usize..3, 0usize..3);
    (
        (1usize..4, small.clone(), small),
        (3usize..9, 3usize..12),
        (1usize..4, 1usize..4),
        (1usize..4, 1usize..4),
        pads.clone(),
        pads,
    )
        .prop_map(|((groups, depth, out), input, kernel, stride, pad_rows, pad_columns)| Conv2d {
            channels_in: groups * depth,
            input,
            channels_out: groups * out,
            kernel,
            stride,
            pad_rows,
            pad_columns,
            groups,
        })
}

/// Softmax attention in double precision.
fn attention(sizes: &Attention, q: &[f32], k: &[f32], v: &[f32], mask: Option<&[f32]>) -> Vec<f64> {
    let (dim, len) = (sizes.head_dim, sizes.cache_len);
    let mut out = Vec::new();
    for head in 0..sizes.query_heads {
        let cache = head * sizes.kv_heads / sizes.query_heads * len;
        let score = |entry: usize| {
            let dot: f64 =
                (0..dim).map(|d| f64::from(q[head * dim + d]) * f64::from(k[(cache + entry) * dim + d])).sum();
            dot / f64::from(u32::try_from(dim).unwrap()).sqrt() + mask.map_or(0.0, |mask| f64::from(mask[entry]))
        };
        let scores: Vec<f64> = (0..len).map(score).collect();
        let sum: f64 = scores.iter().map(|score| score.exp()).sum();
        for d in 0..dim {
            let value = |entry: usize| scores[entry].exp() * f64::from(v[(cache + entry) * dim + d]);
            let all: f64 = (0..len).map(value).sum();
            out.push(if sum == 0.0 { 0.0 } else { all / sum });
        }
    }
    out
}

proptest! {
    #[test]
    fn products_are_exact_sums_rounded_once(
        m in 0usize..5, k in 0usize..40, n in 0usize..20, seed: u64, shift in 0u8..40, with_bias: bool,
    ) {
        check_matmul::<i8>((m, k, n), seed, shift, with_bias);
        check_matmul::<i16>((m, k, n), seed, shift, with_bias);
    }

    #[test]
    fn convolutions_see_zeros_around_the_input(sizes in convolutions(), seed: u64, with_bias: bool) {
        if sizes.output().is_ok() {
            check_conv::<i8>(&sizes, seed, with_bias);
            check_conv::<i16>(&sizes, seed, with_bias);
        }
    }

    #[test]
    fn depthwise_convolutions_are_groups_of_one_channel(
        channels in 1usize..6, multiplier in 1usize..3, input in (3usize..9, 3usize..9), stride in 1usize..3, seed: u64,
    ) {
        let sizes = Conv2d {
            channels_in: channels, input, channels_out: channels * multiplier, kernel: (3, 3), stride: (stride, stride),
            pad_rows: (1, 1), pad_columns: (1, 0), groups: channels,
        };
        check_conv::<i8>(&sizes, seed, true);
        check_conv::<i16>(&sizes, seed, true);
    }

    #[test]
    fn dequantised_products_agree_with_double_precision(m in 0usize..4, k in 0usize..50, n in 0usize..20, seed: u64) {
        let activation = noise(m * k, seed, float);
        let weights = noise(k * n, !seed, byte);
        let scale = noise(n, seed ^ 5, |value| float(value) / 64.0);
        let mut found = vec![f32::NAN; m * n];
        dequantize_vecmatmul((m, k, n), &activation, &weights, &scale, &mut found).unwrap();
        for (at, found) in found.iter().enumerate() {
            let (row, column) = (at / n, at % n);
            let term = |i: usize| f64::from(activation[row * k + i]) * f64::from(weights[i * n + column]);
            let expected = (0..k).map(term).sum::<f64>() * f64::from(scale[column]);
            prop_assert!((f64::from(*found) - expected).abs() < 1e-4, "{} for {}", found, expected);
        }
    }

    #[test]
    fn attention_agrees_with_double_precision(
        kv_heads in 1usize..4, per_head in 1usize..4, head_dim in 1usize..20, cache_len in 0usize..30,
        seed: u64, seen in 0usize..31, masked: bool,
    ) {
        let sizes = Attention { query_heads: kv_heads * per_head, kv_heads, head_dim, cache_len };
        let query = noise(sizes.query_len().unwrap(), seed, float);
        let keys = noise(sizes.cache_elements().unwrap(), seed ^ 1, float);
        let mut values = noise(keys.len(), seed ^ 2, float);
        let mask: Vec<f32> = (0..cache_len).map(|i| if i < seen { 0.0 } else { f32::NEG_INFINITY }).collect();
        let mask = masked.then_some(&mask[..]);
        let expected = attention(&sizes, &query, &keys, &values, mask);
        if masked {
            // What the mask hides may hold anything.
            for head in values.chunks_exact_mut((cache_len * head_dim).max(1)) {
                head[(seen * head_dim).min(cache_len * head_dim)..].fill(f32::NAN);
            }
        }
        let mut found = vec![f32::NAN; query.len()];
        sdpa_decode(&sizes, &query, (&keys, &values), mask, &mut found).unwrap();
        for (found, expected) in found.iter().zip(expected) {
            prop_assert!((f64::from(*found) - expected).abs() < 1e-5, "{} for {}", found, expected);
        }
    }

    #[test]
    fn top_k_is_the_head_of_a_stable_sort(
        rows in vec(vec(prop_oneof![Just(f32::NAN), Just(0.0), Just(-0.0), any::<f32>(), -2f32..2.0], 7), 0..4), k in 0usize..8,
    ) {
        let data: Vec<f32> = rows.concat();
        let (mut values, mut indices) = (vec![0.0; rows.len() * k], vec![0; rows.len() * k]);
        top_k((rows.len(), 7, k), &data, &mut values, &mut indices).unwrap();
        for (number, row) in rows.iter().enumerate() {
            let mut order: Vec<usize> = (0..7).collect();
            order.sort_by(|a, b| match (row[*a].is_nan(), row[*b].is_nan()) {
                (false, false) => row[*b].partial_cmp(&row[*a]).unwrap(),
                (a, b) => b.cmp(&a),
            });
            for (place, index) in order[..k].iter().enumerate() {
                prop_assert_eq!(indices[number * k + place], i64::try_from(*index).unwrap());
                prop_assert_eq!(values[number * k + place].to_bits(), row[*index].to_bits());
            }
        }
    }

    #[test]
    fn layer_norm_agrees_with_double_precision(
        rows in 0usize..4, width in 1usize..50, seed: u64, from in scheme(), to in scheme(),
    ) {
        let input = noise(rows * width, seed, byte);
        let (weight, bias) = (noise(width, seed ^ 1, float), noise(width, seed ^ 2, float));
        let mut found = vec![0; input.len()];
        layer_norm((&input, quant(from)), &weight, &bias, (&mut found, quant(to)), rows, 1e-5).unwrap();
        let width_f = f64::from(u32::try_from(width).unwrap());
        let mut expected = Vec::new();
        for row in input.chunks_exact(width) {
            let x: Vec<f64> = row.iter().map(|q| f64::from(real(*q, from))).collect();
            let mean = x.iter().sum::<f64>() / width_f;
            let variance = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / width_f;
            for (i, x) in x.iter().enumerate() {
                let y = (x - mean) / (variance + 1e-5).sqrt() * f64::from(weight[i]) + f64::from(bias[i]);
                expected.push(whole((y / f64::from(to.0) + f64::from(to.1)).round_ties_even().clamp(-128.0, 127.0)));
            }
        }
        within_one(&found, &expected);
    }

    #[test]
    fn softmax_runs_along_the_bins(
        outer in 0usize..4, bins in 0usize..18, inner in 0usize..9, seed: u64, from in scheme(), zero in -128i32..=127,
    ) {
        let to = (1.0 / 256.0, zero);
        let input = noise(outer * bins * inner, seed, byte);
        let mut found = vec![0; input.len()];
        dfl_softmax((outer, bins, inner), &input, quant(from), &mut found, quant(to)).unwrap();
        let at = |slab: usize, bin: usize, column: usize| (slab * bins + bin) * inner + column;
        let mut expected = vec![0; input.len()];
        for slab in 0..outer {
            for column in 0..inner {
                let power = |bin: usize| f64::from(real(input[at(slab, bin, column)], from)).exp();
                let sum: f64 = (0..bins).map(power).sum();
                for bin in 0..bins {
                    let q = (power(bin) / sum * 256.0).round_ties_even() + f64::from(zero);
                    expected[at(slab, bin, column)] = whole(q.clamp(-128.0, 127.0));
                }
            }
        }
        within_one(&found, &expected);
    }
}

#[test]
fn tiles_of_wide_matrices_and_rows_fit_together() {
    check_matmul::<i8>((2, 3, 600), 11, 4, true);
    let sizes = Conv2d {
        channels_in: 2,
        input: (3, 700),
        channels_out: 2,
        kernel: (3, 5),
        stride: (1, 1),
        pad_rows: (1, 1),
        pad_columns: (2, 2),
        groups: 1,
    };
    check_conv::<i8>(&sizes, 3, true);
    check_conv::<i16>(&Conv2d { stride: (2, 2), ..sizes }, 4, false);
}

#[test]
fn the_largest_sums_do_not_overflow() {
    let most = i8::MOST_TERMS;
    let low = vec![-128i8; most];
    let mut out = [0i8];
    matmul((1, most, 1), &low, &low, &mut out, 30).unwrap();
    assert_eq!(out, [2], "131071 · 2¹⁴ / 2³⁰, rounded");
    let more = vec![-128i8; most + 1];
    let error = matmul((1, most + 1, 1), &more, &more, &mut out, 30).unwrap_err();
    assert_eq!(error.to_string(), "the number of products per result is 131072: their sum could overflow");
    let low = vec![i16::MIN; 1000];
    let mut out = [0i16];
    matmul((1, 1000, 1), &low, &low, &mut out, 30).unwrap();
    assert_eq!(out, [1000]);
}

#[test]
fn impossible_sizes_and_wrong_lengths_are_refused() {
    let mut out = [9i8; 4];
    let shift = |shift| matmul((2, 2, 2), &[1i8; 4], &[1; 4], &mut [0; 4], shift).unwrap_err().to_string();
    assert_eq!(
        (shift(-1), shift(63)),
        ("shift is -1: it must be in 0..=62".into(), "shift is 63: it must be in 0..=62".into())
    );
    assert!(matmul((2, 2, 2), &[1i8; 3], &[1; 4], &mut out, 0).is_err());
    let requant = Requant { bias: None, scale: &[1, 1], shift: &[0, 63] };
    assert!(matmul_bias((2, 2, 2), &[1i8; 4], &[1; 4], &requant, &mut out).is_err());
    let requant = Requant { bias: Some(&[1]), scale: &[1, 1], shift: &[0, 0] };
    assert!(matmul_bias((2, 2, 2), &[1i8; 4], &[1; 4], &requant, &mut out).is_err());
    let good = Conv2d {
        channels_in: 2,
        input: (2, 2),
        channels_out: 2,
        kernel: (1, 1),
        stride: (1, 1),
        pad_rows: (0, 0),
        pad_columns: (0, 0),
        groups: 1,
    };
    let requant = Requant { bias: None, scale: &[1, 1], shift: &[0, 0] };
    for (bad, why) in [
        (Conv2d { stride: (0, 1), ..good }, "the stride is 0: it must be at least 1"),
        (Conv2d { kernel: (1, 0), ..good }, "the kernel size is 0: it must be at least 1"),
        (Conv2d { kernel: (3, 1), ..good }, "the kernel size is 3: the padded input is smaller"),
        (Conv2d { groups: 0, ..good }, "groups is 0: it must divide the channels of input and output"),
        (Conv2d { groups: 3, ..good }, "groups is 3: it must divide the channels of input and output"),
        (Conv2d { channels_in: 4, ..good }, "input has 8 elements where the dimensions say 16"),
        (
            Conv2d { pad_rows: (usize::MAX, 1), ..good },
            "the dimensions of the padded input multiply to more elements than can be counted",
        ),
    ] {
        assert_eq!(conv2d(&bad, &[1i8; 8], &[1; 4], &requant, &mut [0; 8]).unwrap_err().to_string(), why);
    }
    let sizes = Attention { query_heads: 3, kv_heads: 2, head_dim: 1, cache_len: 1 };
    let uneven = sdpa_decode(&sizes, &[0.0; 3], (&[0.0; 2], &[0.0; 2]), None, &mut [0.0; 3]).unwrap_err();
    assert_eq!(uneven.to_string(), "num_kv_heads is 2: it must divide num_q_heads");
    let none = Attention { kv_heads: 0, ..sizes };
    assert!(sdpa_decode(&none, &[0.0; 3], (&[], &[]), None, &mut [0.0; 3]).is_err());
    let too_many = top_k((1, 2, 3), &[1.0; 2], &mut [0.0; 3], &mut [0; 3]).unwrap_err();
    assert!(matches!(too_many, KernelError::Argument { what: "k", value: 3, .. }));
    assert!(dequantize_vecmatmul((1, 2, 2), &[1.0; 2], &[1; 4], &[1.0], &mut [0.0; 2]).is_err());
    let q = quant((1.0, 0));
    assert!(layer_norm((&[1; 4], q), &[1.0; 2], &[1.0; 2], (&mut out, q), 2, f32::NAN).is_err());
    assert!(layer_norm((&[], q), &[], &[], (&mut [], q), 2, 1e-5).is_err());
    assert!(dfl_softmax((1, 2, 3), &[1; 4], q, &mut out, q).is_err());
    assert_eq!(out, [9; 4]);
}
