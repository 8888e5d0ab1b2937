//! 64-bit arithmetic with its 128-bit products, which the 32-bit device does in pieces. Divisions of 128 bits are left out: LLVM 22
//! passes their arguments wrongly.

use crate::{Numbers, line};
use core::hint::black_box;

/// Values at which carries, signs and divisors change.
const EDGES: [u64; 14] = [
    0,
    1,
    2,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x1_0000_0000,
    0x1_0000_0001,
    0x7fff_ffff_ffff_ffff,
    0x8000_0000_0000_0000,
    0x8000_0000_0000_0001,
    0xffff_ffff_0000_0000,
    0xffff_ffff_ffff_fffe,
    u64::MAX,
];

fn mix(hash: &mut u64, value: u64) {
    *hash = (*hash ^ value).wrapping_mul(0x100_0000_01b3).rotate_left(17);
}

fn pair(hash: &mut u64, a: u64, b: u64) {
    let (a, b) = (black_box(a), black_box(b));
    mix(hash, a.wrapping_add(b));
    mix(hash, a.wrapping_sub(b));
    mix(hash, a.wrapping_mul(b));
    let wide = u128::from(a) * u128::from(b);
    mix(hash, (wide >> 64) as u64);
    if b != 0 {
        mix(hash, a / b);
        mix(hash, a % b);
        mix(hash, (a as i64).wrapping_div(b as i64) as u64);
        mix(hash, (a as i64).wrapping_rem(b as i64) as u64);
    }
    let shift = (b & 63) as u32;
    mix(hash, a << shift);
    mix(hash, a >> shift);
    mix(hash, ((a as i64) >> shift) as u64);
    mix(hash, a.rotate_left(shift));
    mix(hash, u64::from(a.leading_zeros() | a.trailing_zeros() << 8 | a.count_ones() << 16));
    mix(hash, u64::from(a < b) | u64::from((a as i64) < (b as i64)) << 1 | u64::from(a == b) << 2);
    mix(hash, a.checked_add(b).map_or(7, |sum| sum ^ 1));
    mix(hash, (a as i64).checked_mul(b as i64).map_or(9, |product| product as u64));
    mix(hash, a.swap_bytes());
}

pub fn run() {
    let mut hash = 0xcbf2_9ce4_8422_2325;
    for a in EDGES {
        for b in EDGES {
            pair(&mut hash, a, b);
        }
        line(format_args!("edges {a:#x} {hash:#018x}"));
    }
    let mut numbers = Numbers(0x2545_f491);
    for round in 0..8 {
        for _ in 0..100 {
            let (a, b) = (numbers.next64(), numbers.next64() >> (numbers.next() & 63));
            pair(&mut hash, a, b);
        }
        line(format_args!("random {round} {hash:#018x}"));
    }
    let wide = u128::from(black_box(u64::MAX)) * u128::from(black_box(0x9e37_79b9_7f4a_7c15_u64));
    line(format_args!("wide {:#018x} {:#018x}", (wide >> 64) as u64, wide as u64));
    line(format_args!("signed {} {}", i64::MIN, (i64::MIN + 1).wrapping_div(black_box(-1))));
}
