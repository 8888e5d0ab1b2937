//! Pooling and layout kernels against loops over their definitions.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use outboard_kernels::{
    Activation, FeatureMap, Pool2d, avg_pool, channel_scale_multiply, concat_rescale, concat_sigmoid,
    fpn_upsample_concat, global_avg_pool, max_pool, resize_nearest_2x,
};
use proptest::prelude::*;
use support::{quant, quantised, real, scheme};

/// Numbers that look random: the seed decides, so that a failure can be repeated.
fn noise(len: usize, mut seed: u64) -> Vec<i8> {
    let mut next = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        seed.to_le_bytes()[6].cast_signed()
    };
    (0..len).map(|_| next()).collect()
}

/// Pooling sizes under which every window touches the input.
fn pools() -> impl Strategy<Value = Pool2d> {
    let axis = (1usize..12, 1usize..5, 1usize..4).prop_flat_map(|(input, kernel, stride)| {
        (0..kernel).prop_flat_map(move |pad| {
            let most = (input + pad - 1) / stride + 1;
            (1..=most).prop_map(move |output| (input, output, kernel, stride, pad))
        })
    });
    (0usize..4, axis.clone(), axis).prop_map(|(planes, y, x)| Pool2d {
        planes,
        input: (y.0, x.0),
        output: (y.1, x.1),
        kernel: (y.2, x.2),
        stride: (y.3, x.3),
        pad: (y.4, x.4),
    })
}

/// The elements under every window, in the order of the outputs.
fn windows(sizes: &Pool2d, input: &[i8]) -> Vec<Vec<i8>> {
    let (rows, columns) = sizes.input;
    let mut all = Vec::new();
    for plane in 0..sizes.planes {
        for y in 0..sizes.output.0 {
            for x in 0..sizes.output.1 {
                let mut window = Vec::new();
                for down in 0..sizes.kernel.0 {
                    for right in 0..sizes.kernel.1 {
                        let row = (y * sizes.stride.0 + down).checked_sub(sizes.pad.0).filter(|row| *row < rows);
                        let column = (x * sizes.stride.1 + right).checked_sub(sizes.pad.1).filter(|at| *at < columns);
                        if let (Some(row), Some(column)) = (row, column) {
                            window.push(input[(plane * rows + row) * columns + column]);
                        }
                    }
                }
                all.push(window);
            }
        }
    }
    all
}

proptest! {
    #[test]
    fn pools_see_exactly_the_elements_under_their_window(
        sizes in pools(), seed: u64, from in scheme(), to in scheme(),
    ) {
        let input = noise(sizes.input_len().unwrap(), seed);
        let mut found = vec![0; sizes.output_len().unwrap()];
        max_pool(&sizes, &input, &mut found).unwrap();
        let windows = windows(&sizes, &input);
        prop_assert_eq!(&found, &windows.iter().map(|w| *w.iter().max().unwrap()).collect::<Vec<_>>());
        avg_pool(&sizes, &input, quant(from), &mut found, quant(to)).unwrap();
        for (found, window) in found.iter().zip(&windows) {
            let sum: f64 = window.iter().map(|q| f64::from(real(*q, from))).sum();
            let mean = sum / f64::from(u32::try_from(window.len()).unwrap()) / f64::from(to.0) + f64::from(to.1);
            prop_assert!((f64::from(*found) - mean.clamp(-128.0, 127.0)).abs() <= 0.501, "{} for {}", found, mean);
        }
    }

    #[test]
    fn the_global_mean_is_the_mean(planes in 0usize..5, size in 1usize..200, seed: u64, from in scheme(), to in scheme()) {
        let input = noise(planes * size, seed);
        let mut found = vec![0; planes];
        global_avg_pool(planes, size, &input, quant(from), &mut found, quant(to)).unwrap();
        for (found, plane) in found.iter().zip(input.chunks_exact(size)) {
            let sum: f64 = plane.iter().map(|q| f64::from(real(*q, from))).sum();
            let mean = sum / f64::from(u32::try_from(size).unwrap()) / f64::from(to.0) + f64::from(to.1);
            prop_assert!((f64::from(*found) - mean.clamp(-128.0, 127.0)).abs() <= 0.501, "{} for {}", found, mean);
        }
    }

    #[test]
    fn concatenations_put_every_element_in_its_place(
        sizes in any::<[u8; 4]>(), channels in 0usize..5, seed: u64, from in proptest::array::uniform4(scheme()), to in scheme(),
    ) {
        let widths = sizes.map(|size| usize::from(size) % 9);
        let data: Vec<Vec<i8>> = widths.iter().zip(0..).map(|(width, i)| noise(channels * width, seed ^ i)).collect();
        let map = |i: usize| FeatureMap { data: &data[i], quant: quant(from[i]) };
        let maps: [_; 4] = std::array::from_fn(map);
        let total: usize = widths.iter().sum();
        let mut found = vec![0; channels * total];
        concat_rescale(&maps, &mut found, quant(to)).unwrap();
        let expected: Vec<i8> =
            data.iter().zip(from).flat_map(|(part, from)| part.iter().map(move |q| quantised(real(*q, from), to))).collect();
        prop_assert_eq!(found, expected);
        let parts: [_; 4] = std::array::from_fn(|i| (map(i), widths[i]));
        let mut found = vec![0.0; channels * total];
        concat_sigmoid(&parts, channels, &mut found).unwrap();
        let mut expected = Vec::new();
        for channel in 0..channels {
            for part in 0..4 {
                for i in 0..widths[part] {
                    let x = f64::from(real(data[part][channel * widths[part] + i], from[part]));
                    expected.push(1.0 / (1.0 + (-x).exp()));
                }
            }
        }
        for (found, expected) in found.iter().zip(expected) {
            prop_assert!((f64::from(*found) - expected).abs() < 1e-6, "{} for {}", found, expected);
        }
    }

    #[test]
    fn upsampling_repeats_every_element_four_times(
        channels in 0usize..4, rows in 0usize..6, columns in 0usize..7, second_channels in 0usize..4, seed: u64,
        first in scheme(), second in scheme(), to in scheme(),
    ) {
        let sizes = (channels, rows, columns);
        let input = noise(channels * rows * columns, seed);
        let expected = |value: &dyn Fn(i8) -> i8| {
            let mut all = Vec::new();
            for channel in 0..channels {
                for y in 0..2 * rows {
                    for x in 0..2 * columns {
                        all.push(value(input[(channel * rows + y / 2) * columns + x / 2]));
                    }
                }
            }
            all
        };
        let mut found = vec![0; 4 * input.len()];
        resize_nearest_2x(sizes, &input, &mut found).unwrap();
        prop_assert_eq!(&found, &expected(&|q| q));
        let other = noise(second_channels * rows * columns * 4, !seed);
        let maps = (FeatureMap { data: &input, quant: quant(first) }, FeatureMap { data: &other, quant: quant(second) });
        let mut found = vec![0; 4 * input.len() + other.len()];
        let mut small = vec![0; input.len()];
        fpn_upsample_concat(sizes, maps.0, maps.1, &mut found, quant(to), &mut small).unwrap();
        let mut all = expected(&|q| quantised(real(q, first), to));
        all.extend(other.iter().map(|q| quantised(real(*q, second), to)));
        prop_assert_eq!(found, all);
        prop_assert_eq!(small, input.iter().map(|q| quantised(real(*q, first), to)).collect::<Vec<_>>());
    }

    #[test]
    fn channels_are_scaled_by_their_own_number(
        channels in 0usize..5, plane in 0usize..300, seed: u64, factor in scheme(), from in scheme(), to in scheme(),
    ) {
        let factors = noise(channels, !seed);
        let input = noise(channels * plane, seed);
        let mut found = vec![0; input.len()];
        let maps = (FeatureMap { data: &factors, quant: quant(factor) }, FeatureMap { data: &input, quant: quant(from) });
        channel_scale_multiply(maps.0, maps.1, plane, &mut found, quant(to)).unwrap();
        for (at, found) in found.iter().enumerate() {
            prop_assert_eq!(*found, quantised(real(factors[at / plane], factor) * real(input[at], from), to));
        }
    }
}

#[test]
fn impossible_sizes_and_wrong_lengths_are_refused() {
    let good = Pool2d { planes: 1, input: (4, 4), output: (2, 2), kernel: (2, 2), stride: (2, 2), pad: (0, 0) };
    let (input, mut out) = ([1; 16], [9; 4]);
    for (bad, why) in [
        (Pool2d { kernel: (0, 2), ..good }, "the kernel size is 0: it must be at least 1"),
        (Pool2d { stride: (2, 0), ..good }, "the stride is 0: it must be at least 1"),
        (Pool2d { pad: (2, 0), ..good }, "the padding is 2: it must be smaller than the kernel"),
        (Pool2d { output: (3, 2), ..good }, "the output size is 3: its last window must touch the input"),
        (Pool2d { input: (0, 4), ..good }, "the output size is 2: its last window must touch the input"),
        (Pool2d { planes: 2, ..good }, "in has 16 elements where the dimensions say 32"),
        (Pool2d { planes: usize::MAX, ..good }, "the dimensions of in multiply to more elements than can be counted"),
        (
            Pool2d { stride: (usize::MAX, 2), output: (3, 2), ..good },
            "the output size is 3: its last window must touch the input",
        ),
    ] {
        assert_eq!(max_pool(&bad, &input, &mut out).unwrap_err().to_string(), why);
    }
    let q = quant((1.0, 0));
    let map = FeatureMap { data: &input, quant: q };
    assert!(global_avg_pool(1, 0, &[], q, &mut out[..1], q).is_err());
    assert!(concat_rescale(&[map; 4], &mut out, q).is_err());
    assert!(concat_sigmoid(&[(map, 3)], 4, &mut [0.0; 12]).is_err());
    assert!(resize_nearest_2x((1, 2, 2), &input, &mut out).is_err());
    assert!(fpn_upsample_concat((1, 4, 4), map, map, &mut [0; 80], q, &mut [0; 15]).is_err());
    assert!(channel_scale_multiply(map, map, 2, &mut [0; 32], q).is_err());
    assert_eq!(out, [9; 4]);
    assert_eq!(Activation::Sigmoid.of(0.0), 0.5);
}
