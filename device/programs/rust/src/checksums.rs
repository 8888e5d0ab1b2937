//! Checksums: CRC-32 bit by bit and by table, CRC-64, Adler-32, FNV.

use crate::{Numbers, line};

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        let mut value = i as u32;
        let mut bit = 0;
        while bit < 8 {
            value = if value & 1 == 1 { value >> 1 ^ 0xedb8_8320 } else { value >> 1 };
            bit += 1;
        }
        table[i] = value;
        i += 1;
    }
    table
}

static TABLE: [u32; 256] = table();

fn by_table(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| TABLE[usize::from(crc as u8 ^ byte)] ^ crc >> 8)
}

fn by_bit(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 })
    })
}

fn wide(bytes: &[u8]) -> u64 {
    !bytes.iter().fold(u64::MAX, |crc, byte| {
        let step = |crc: u64| if crc & 1 == 1 { crc >> 1 ^ 0xc96c_5795_d787_0f42 } else { crc >> 1 };
        (0..8).fold(crc ^ u64::from(*byte), |crc, _| step(crc))
    })
}

fn adler(bytes: &[u8]) -> u32 {
    let (a, b) = bytes.iter().fold((1, 0), |(a, b), byte| {
        let a = (a + u32::from(*byte)) % 65521;
        (a, (b + a) % 65521)
    });
    b << 16 | a
}

pub fn run() {
    line(format_args!("check {:#x} {:#x}", by_table(b"123456789"), wide(b"123456789")));
    let mut numbers = Numbers(99);
    let bytes: [u8; 2048] = core::array::from_fn(|_| numbers.next() as u8);
    for length in [0, 1, 7, 256, 1023, 2048] {
        let part = &bytes[..length];
        let (crc, other) = (by_table(part), by_bit(part));
        line(format_args!("crc {length} {crc:#010x} {} {:#018x} {:#010x}", crc == other, wide(part), adler(part)));
    }
}
