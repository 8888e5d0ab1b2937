//! Elementwise kernels against their definitions, element by element.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use outboard_kernels::{
    Activation, KernelError, Quant, activation, clamp, quantize, quantize_rgb, relu, requantize_clamp, rescale,
    residual_add, silu_f32,
};
use proptest::collection::vec;
use proptest::prelude::*;
use support::{Scheme, quant, quantised, real, saturated, scheme, whole, within_one};

/// The functions in double precision, from their textbook definitions.
fn reference(function: Activation, x: f64) -> f64 {
    match function {
        Activation::Gelu => x * 0.5 * erfc(-x / std::f64::consts::SQRT_2),
        Activation::Silu => x / (1.0 + (-x).exp()),
        Activation::HardSigmoid => (x + 3.0).clamp(0.0, 6.0) / 6.0,
        Activation::HardSwish => x * (x + 3.0).clamp(0.0, 6.0) / 6.0,
        Activation::Sigmoid => 1.0 / (1.0 + (-x).exp()),
        Activation::Identity => x,
    }
}

/// erfc by numerical integration of its definition: 2/√π ∫ e^(−t²) dt from x to 12.
fn erfc(x: f64) -> f64 {
    if x < 0.0 {
        return 2.0 - erfc(-x);
    }
    let steps = 2000;
    let width = (12.0 - x).max(0.0) / f64::from(steps);
    let value = |i: i32| (-(x + width * f64::from(i)).powi(2)).exp();
    // Simpson's rule.
    let sum: f64 = (0..steps / 2).map(|i| value(2 * i) + 4.0 * value(2 * i + 1) + value(2 * i + 2)).sum();
    sum * width / 3.0 * 2.0 / std::f64::consts::PI.sqrt()
}

const FUNCTIONS: [Activation; 6] = [
    Activation::Gelu,
    Activation::Silu,
    Activation::HardSigmoid,
    Activation::HardSwish,
    Activation::Sigmoid,
    Activation::Identity,
];

#[test]
fn every_activation_agrees_with_its_textbook_definition_on_all_int8() {
    let all: Vec<i8> = (i8::MIN..=i8::MAX).collect();
    for (from, to) in [((0.05, 3), (0.04, -7)), ((0.002, -128), (0.001, 0)), ((0.3, 127), (0.3, 100))] {
        for function in FUNCTIONS {
            let mut found = vec![0; all.len()];
            activation(function, &all, quant(from), &mut found, quant(to)).unwrap();
            let expected = |q: &i8| {
                let y = reference(function, f64::from(from.0) * (f64::from(*q) - f64::from(from.1)));
                whole((y / f64::from(to.0)).round_ties_even() + f64::from(to.1)).clamp(-128, 127)
            };
            within_one(&found, &all.iter().map(expected).collect::<Vec<_>>());
            // Short inputs do not go through the table.
            let mut alone = [0];
            for (q, found) in all.iter().zip(found) {
                activation(function, &[*q], quant(from), &mut alone, quant(to)).unwrap();
                assert_eq!(alone, [found], "{function:?} of {q}");
            }
        }
    }
}

proptest! {
    #[test]
    fn rescale_and_activations_quantise_by_the_definition(
        input in vec(any::<i8>(), 0..600), from in scheme(), to in scheme(),
    ) {
        let mut found = vec![0; input.len()];
        rescale(&input, quant(from), &mut found, quant(to)).unwrap();
        prop_assert_eq!(&found, &input.iter().map(|q| quantised(real(*q, from), to)).collect::<Vec<_>>());
        for function in FUNCTIONS {
            activation(function, &input, quant(from), &mut found, quant(to)).unwrap();
            let expected: Vec<_> = input.iter().map(|q| quantised(function.of(real(*q, from)), to)).collect();
            prop_assert_eq!(&found, &expected);
        }
        let mut floats = vec![0.0; input.len()];
        silu_f32(&input, quant(from), &mut floats).unwrap();
        for (found, q) in floats.iter().zip(&input) {
            let x = f64::from(real(*q, from));
            prop_assert!((f64::from(*found) - reference(Activation::Silu, x)).abs() <= 1e-5 * (1.0 + x.abs()));
        }
    }

    #[test]
    fn relu_and_clamp_limit_every_element(input in vec(any::<i8>(), 0..300), a: i8, b: i8) {
        let (low, high) = (a.min(b), a.max(b));
        let mut found = vec![0; input.len()];
        clamp(&input, &mut found, low.into(), high.into()).unwrap();
        prop_assert_eq!(&found, &input.iter().map(|q| (*q).clamp(low, high)).collect::<Vec<_>>());
        relu(&input, &mut found, low.into()).unwrap();
        prop_assert_eq!(&found, &input.iter().map(|q| if *q < low { low } else { *q }).collect::<Vec<_>>());
    }

    #[test]
    fn requantize_rounds_the_product_in_double_precision(
        input in vec(any::<i32>(), 0..300), scale in 1e-9f32..0.01, a: i8, b: i8,
    ) {
        let (low, high) = (a.min(b), a.max(b));
        let mut found = vec![0; input.len()];
        requantize_clamp(&input, &mut found, scale, low.into(), high.into()).unwrap();
        let expected = |x: &i32| {
            whole((f64::from(*x) * f64::from(scale)).round_ties_even().clamp(low.into(), high.into()))
        };
        prop_assert_eq!(&found, &input.iter().map(expected).collect::<Vec<_>>());
    }

    #[test]
    fn quantize_multiplies_rounds_and_saturates(
        input in vec(any::<f32>(), 0..300), inverse in 0.01f32..1000.0, zero in -128i32..=127,
    ) {
        let mut found = vec![0; input.len()];
        quantize(&input, &mut found, inverse, zero).unwrap();
        let expected: Vec<_> = input.iter().map(|x| saturated((x * inverse).round_ties_even(), zero)).collect();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn quantize_rgb_treats_every_plane_alike(
        images in 0usize..3, plane in 0usize..20, scales in any::<[u8; 3]>(), offsets in any::<[i8; 3]>(), seed: u64,
    ) {
        let planes: [(f32, f32); 3] =
            std::array::from_fn(|c| (f32::from(scales[c]) / 64.0 + 0.01, f32::from(offsets[c]) / 2.0));
        let value = |i: usize| f32::from(u8::try_from((seed.rotate_left(u32::try_from(i).unwrap() % 64)) & 0xFF).unwrap());
        let input: Vec<f32> = (0..images * 3 * plane).map(value).collect();
        let mut found = vec![0; input.len()];
        quantize_rgb(&input, &mut found, images, plane, planes).unwrap();
        for image in 0..images {
            for (channel, (scale, offset)) in planes.iter().enumerate() {
                for pixel in 0..plane {
                    let at = (image * 3 + channel) * plane + pixel;
                    prop_assert_eq!(found[at], saturated((input[at] * scale + offset).round_ties_even(), 0));
                }
            }
        }
    }

    #[test]
    fn residual_add_sums_real_numbers(
        pairs in vec(any::<(i8, i8)>(), 0..300), x in scheme(), skip in scheme(), to in scheme(), relu: bool,
    ) {
        let (left, right): (Vec<i8>, Vec<i8>) = pairs.iter().copied().unzip();
        let mut found = vec![0; pairs.len()];
        residual_add((&left, quant(x)), (&right, quant(skip)), &mut found, quant(to), relu).unwrap();
        let expected = |(a, b): &(i8, i8)| {
            let sum = real(*a, x) + real(*b, skip);
            quantised(if relu && sum < 0.0 { 0.0 } else { sum }, to)
        };
        prop_assert_eq!(found, pairs.iter().map(expected).collect::<Vec<_>>());
    }

    #[test]
    fn residual_add_of_int16_sums_real_numbers(
        pairs in vec(any::<(i16, i16)>(), 0..300), scales in any::<[u8; 3]>(), relu: bool,
    ) {
        let [x, skip, to] = scales.map(|scale| (f32::from(scale) + 1.0) / 4096.0);
        let q = |scale| Quant::i16(scale, 0).unwrap();
        let (left, right): (Vec<i16>, Vec<i16>) = pairs.iter().copied().unzip();
        let mut found = vec![0; pairs.len()];
        residual_add((&left, q(x)), (&right, q(skip)), &mut found, q(to), relu).unwrap();
        for (found, (a, b)) in found.iter().zip(&pairs) {
            let sum = x * f32::from(*a) + skip * f32::from(*b);
            let sum = if relu { sum.max(0.0) } else { sum };
            let expected = f64::from((sum / to).round_ties_even()).clamp(-32768.0, 32767.0);
            prop_assert_eq!(f64::from(*found), expected);
        }
    }
}

#[test]
fn halves_round_to_even_and_what_does_not_fit_saturates() {
    let halves = [0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 1e30, -1e30, f32::INFINITY, f32::NEG_INFINITY, f32::NAN];
    let mut found = [1; 11];
    quantize(&halves, &mut found, 1.0, 0).unwrap();
    assert_eq!(found, [0, 2, 2, 0, -2, -2, 127, -128, 127, -128, 0]);
    quantize(&[f32::NAN], &mut found[..1], 1.0, -5).unwrap();
    assert_eq!(found[0], -5, "what is no number becomes the zero point");
}

#[test]
fn wrong_arguments_are_refused_by_name_and_change_nothing() {
    let mut out = [7; 2];
    let good: Scheme = (0.5, 0);
    for scale in [0.0, -1.0, f32::NAN, f32::INFINITY] {
        assert!(matches!(Quant::i8(scale, 0), Err(KernelError::Scale { .. })));
        assert!(matches!(quantize(&[1.0; 2], &mut out, scale, 0), Err(KernelError::Scale { what: "inv_scale", .. })));
        assert!(requantize_clamp(&[1; 2], &mut out, scale, 0, 1).is_err());
    }
    assert!(Quant::i8(1.0, 128).is_err() && Quant::i8(1.0, -129).is_err() && Quant::i16(1.0, 40_000).is_err());
    assert!(rescale(&[1; 3], quant(good), &mut out, quant(good)).is_err());
    assert!(silu_f32(&[1; 3], quant(good), &mut [0.0; 2]).is_err());
    let crossed = clamp(&[1; 2], &mut out, 5, 4).unwrap_err();
    assert_eq!(crossed.to_string(), "clip_lo is 5: it must not be above clip_hi");
    assert!(relu(&[1; 2], &mut out, -129).is_err());
    assert!(quantize(&[1.0; 2], &mut out, 1.0, 200).is_err());
    assert!(quantize_rgb(&[1.0; 2], &mut out, 1, 1, [(1.0, 0.0); 3]).is_err());
    assert!(quantize_rgb(&[1.0; 3], &mut [0; 3], 1, 1, [(1.0, f32::NAN); 3]).is_err());
    let q = quant(good);
    assert!(residual_add::<i8>((&[1; 2], q), (&[1; 3], q), &mut out, q, false).is_err());
    assert_eq!(out, [7; 2]);
}
