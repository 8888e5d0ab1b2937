//! Floats: single precision in software or hardware, double precision in software. Results are printed as bits and as text.
//!
//! The bits of a NaN that an operation makes are the platform's own affair: it is printed as `nan`.

use crate::{Numbers, line};
use core::hint::black_box;

const SINGLES: [u32; 18] = [
    0,
    0x8000_0000,
    0x3f80_0000,
    0xbf80_0000,
    0x0000_0001,
    0x007f_ffff,
    0x0080_0000,
    0x7f7f_ffff,
    0xff7f_ffff,
    0x7f80_0000,
    0xff80_0000,
    0x7fc0_0000,
    0x3f80_0001,
    0x4b80_0000,
    0x4b00_0001,
    0x3eaa_aaab,
    0x4f00_0000,
    0x501502f9,
];

fn bits(value: f32) -> u32 {
    if value.is_nan() { 0x7fc0_0000 } else { value.to_bits() }
}

fn bits64(value: f64) -> u64 {
    if value.is_nan() { 0x7ff8 << 48 } else { value.to_bits() }
}

fn mix(hash: &mut u64, value: u64) {
    *hash = (*hash ^ value).wrapping_mul(0x100_0000_01b3).rotate_left(11);
}

fn singles(hash: &mut u64, a: f32, b: f32) {
    let (a, b) = (black_box(a), black_box(b));
    for value in [a + b, a - b, a * b, a / b] {
        mix(hash, u64::from(bits(value)));
    }
    let order = u64::from(a < b) | u64::from(a <= b) << 1 | u64::from(a == b) << 2 | u64::from(a != b) << 3;
    mix(hash, order);
    mix(hash, u64::from(a as i32 as u32) | u64::from(b as u32) << 32);
    mix(hash, a as i64 as u64);
    mix(hash, b as u64);
    mix(hash, bits64(f64::from(a)));
}

fn doubles(hash: &mut u64, a: f64, b: f64) {
    let (a, b) = (black_box(a), black_box(b));
    for value in [a + b, a - b, a * b, a / b] {
        mix(hash, bits64(value));
    }
    mix(hash, u64::from(a < b) | u64::from(a >= b) << 1 | u64::from(a == b) << 2);
    mix(hash, u64::from(bits(a as f32)));
    mix(hash, a as i64 as u64);
    mix(hash, u64::from(b as u32));
}

/// The square root by Newton's method, with operations that are exact by definition.
fn root(value: f32) -> f32 {
    let mut guess = f32::from_bits((value.to_bits() >> 1) + 0x1fc0_0000);
    for _ in 0..6 {
        guess = 0.5 * (guess + value / guess);
    }
    guess
}

pub fn run() {
    let mut hash = 1;
    for a in SINGLES {
        for b in SINGLES {
            singles(&mut hash, f32::from_bits(a), f32::from_bits(b));
        }
        line(format_args!("singles {a:#010x} {hash:#018x}"));
    }
    let mut numbers = Numbers(77);
    for round in 0..4 {
        for _ in 0..100 {
            singles(&mut hash, f32::from_bits(numbers.next()), f32::from_bits(numbers.next()));
            doubles(&mut hash, f64::from_bits(numbers.next64()), f64::from_bits(numbers.next64()));
        }
        line(format_args!("random {round} {hash:#018x}"));
    }
    let mut numbers = Numbers(5);
    let (mut dot, mut sum) = (0.0f32, 0.0f64);
    for _ in 0..500 {
        let (x, y) = (numbers.next() as i32 as f32 / 65536.0, numbers.next() as i32 as f32 / 65536.0);
        dot += x * y;
        sum += f64::from(x) * f64::from(y);
    }
    line(format_args!("dot {:#010x} {:#018x}", dot.to_bits(), sum.to_bits()));
    for value in [2.0f32, 0.1, 1e10, 3.0e-5] {
        line(format_args!("root {:#010x}", root(black_box(value)).to_bits()));
    }
    for value in [1.0f64 / 3.0, 1e21, -0.0, 5e-324, 123_456.789, f64::MAX, f64::INFINITY] {
        line(format_args!("text {value} {value:.3} {value:e}"));
    }
    for text in ["3.14159", "1e-40", "-17", "340282350000000000000000000000000000000"] {
        line(format_args!("parse {:#010x}", text.parse::<f32>().map_or(0, f32::to_bits)));
    }
}
