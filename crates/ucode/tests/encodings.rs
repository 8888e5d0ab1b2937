//! Instruction bytes of real device code, as the instruction table encodes and decodes them.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use outboard_xtensa::isa::IsaSet;
use outboard_xtensa::{Decoder, encode_text};

/// Text, and the bytes as stored.
const VECTORS: [(&str, &[u8]); 43] = [
    ("entry a1, 32", &[0x36, 0x41, 0x00]),
    ("entry a1, 48", &[0x36, 0x61, 0x00]),
    ("const16 a2, 512", &[0x24, 0x00, 0x02]),
    ("callx8 a2", &[0xe0, 0x02, 0x00]),
    ("movi.n a2, 0", &[0x0c, 0x02]),
    ("movi.n a2, 8", &[0x0c, 0x82]),
    ("retw.n", &[0x1d, 0xf0]),
    ("ret.n", &[0x0d, 0xf0]),
    ("l32i a4, a0, 12", &[0x42, 0x20, 0x03]),
    ("bnei a2, 8, 4", &[0x66, 0x82, 0x00]),
    ("rsr.prid a3", &[0x30, 0xeb, 0x03]),
    ("s32i.n a3, a2, 0", &[0x39, 0x02]),
    ("l32i.n a2, a2, 0", &[0x28, 0x02]),
    ("memw", &[0xc0, 0x20, 0x00]),
    ("add a4, a5, a6", &[0x60, 0x45, 0x80]),
    ("addi a4, a5, 13", &[0x42, 0xc5, 0x0d]),
    ("addmi a4, a5, 256", &[0x42, 0xd5, 0x01]),
    ("movi a4, 100", &[0x42, 0xa0, 0x64]),
    ("movi a4, -2048", &[0x42, 0xa8, 0x00]),
    ("slli a4, a5, 7", &[0x90, 0x45, 0x11]),
    ("slli a4, a5, 31", &[0x10, 0x45, 0x01]),
    ("srai a4, a6, 9", &[0x60, 0x49, 0x21]),
    ("srli a4, a6, 5", &[0x60, 0x45, 0x41]),
    ("extui a4, a6, 5, 8", &[0x60, 0x45, 0x74]),
    ("src a4, a5, a6", &[0x60, 0x45, 0x81]),
    ("sll a4, a5", &[0x00, 0x45, 0xa1]),
    ("ssl a5", &[0x00, 0x15, 0x40]),
    ("ssai 31", &[0x10, 0x4f, 0x40]),
    ("moveqz a4, a5, a6", &[0x60, 0x45, 0x83]),
    ("salt a4, a5, a6", &[0x60, 0x45, 0x72]),
    ("mull a2, a3, a4", &[0x40, 0x23, 0x82]),
    ("quos a2, a3, a4", &[0x40, 0x23, 0xd2]),
    ("rsr.sar a3", &[0x30, 0x03, 0x03]),
    ("wsr.ps a4", &[0x40, 0xe6, 0x13]),
    ("xsr.sar a3", &[0x30, 0x03, 0x61]),
    ("rur.threadptr a7", &[0x70, 0x7e, 0xe3]),
    ("wur.threadptr a8", &[0x80, 0xe7, 0xf3]),
    ("dsync", &[0x30, 0x20, 0x00]),
    ("movsp a2, a3", &[0x20, 0x13, 0x00]),
    ("rotw 1", &[0x10, 0x80, 0x40]),
    ("l32e a3, a4, -64", &[0x30, 0x04, 0x09]),
    ("rer a11, a12", &[0xb0, 0x6c, 0x40]),
    ("min a4, a5, a6", &[0x60, 0x45, 0x43]),
];

#[test]
fn device_code_is_encoded_and_decoded_byte_for_byte() {
    let isa = IsaSet::vision_q7();
    for (text, bytes) in VECTORS {
        let code = encode_text(text, 0, isa).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(code.bytes(), bytes, "{text}");
        let back = Decoder::new(isa).instruction(bytes).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(back.encoded().bytes(), bytes, "{text} reads {}", back.text(0));
    }
}
