//! Copies, fills and comparisons of memory at all alignments of both ends, and overlapping moves.

use crate::line;
use core::hint::black_box;

fn pattern(buffer: &mut [u8], seed: u32) {
    for (i, byte) in buffer.iter_mut().enumerate() {
        *byte = (i as u32).wrapping_mul(37).wrapping_add(seed).to_le_bytes()[0];
    }
}

fn checksum(bytes: &[u8]) -> u32 {
    bytes.iter().fold(1, |sum: u32, byte| sum.wrapping_mul(33) ^ u32::from(*byte))
}

pub fn run() {
    let mut from = [0; 160];
    pattern(&mut from, 3);
    for length in [0, 1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 33, 64, 100] {
        let mut hash: u32 = 0;
        for source in 0..8 {
            for target in 0..8 {
                let mut to = [0xaa; 160];
                let length = black_box(length);
                to[target..target + length].copy_from_slice(&from[source..source + length]);
                hash = hash.rotate_left(1) ^ checksum(&to);
                to[target..target + length].fill(length as u8);
                hash = hash.rotate_left(1) ^ checksum(&to);
            }
        }
        line(format_args!("copy {length} {hash:#010x}"));
    }
    let mut hash: u32 = 0;
    for source in 0..12 {
        for target in 0..12 {
            for length in [1, 5, 16, 47, 100] {
                let mut buffer = [0; 160];
                pattern(&mut buffer, length as u32);
                let length = black_box(length);
                buffer.copy_within(source..source + length, target);
                hash = hash.rotate_left(3) ^ checksum(&buffer);
            }
        }
    }
    line(format_args!("move {hash:#010x}"));
    let mut order: u32 = 0;
    for offset in 0..8 {
        for at in 0..24 {
            let mut other = from;
            other[offset + at] = other[offset + at].wrapping_add(if at % 2 == 0 { 1 } else { 0xff });
            let length = black_box(24);
            let compared = from[offset..offset + length].cmp(&other[offset..offset + length]);
            order =
                order.rotate_left(2) ^ (compared as i32 as u32 & 3) ^ u32::from(from[offset..] == other[offset..]) << 8;
        }
    }
    line(format_args!("compare {order:#010x}"));
}
