//! Golden encodings, and round trips over the whole table.
#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "tests build and take apart small known values, and fail by panicking"
)]

use std::collections::HashSet;

use outboard_xtensa::isa::{Isa, IsaSet, ROWS, Row};
use outboard_xtensa::{DecodeError, Decoder, Instruction, encode, encode_text};
use serde::Deserialize;

#[derive(Deserialize)]
struct Golden {
    bytes: String,
    pc: u32,
    asm: String,
}

fn goldens() -> Vec<Golden> {
    let text = include_str!("data/encodings.jsonl");
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let byte = |index| u8::from_str_radix(&text[index..index + 2], 16).unwrap();
    (0..text.len()).step_by(2).map(byte).collect()
}

/// A small generator for reproducible words.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 32) as u32
    }
}

#[test]
fn every_golden_encoding_prints_its_golden_text_and_encodes_back() {
    let decoder = Decoder::new(IsaSet::lx());
    let goldens = goldens();
    assert!(goldens.len() >= 5600);
    let mut rows = HashSet::new();
    for golden in &goldens {
        let bytes = unhex(&golden.bytes);
        let instruction = decoder.instruction(&bytes).unwrap_or_else(|error| panic!("{}: {error}", golden.asm));
        assert_eq!(instruction.text(golden.pc), golden.asm, "{}", golden.bytes);
        let code =
            encode_text(&golden.asm, golden.pc, IsaSet::lx()).unwrap_or_else(|error| panic!("{}: {error}", golden.asm));
        assert_eq!(code.bytes(), bytes, "{}", golden.asm);
        rows.insert(instruction.row().index());
    }
    let mut missing: Vec<&str> = ROWS.iter().filter(|row| !rows.contains(&row.index())).map(Row::mnemonic).collect();
    missing.sort_unstable();
    // These have no golden samples: they are covered by the round trips below.
    assert_eq!(missing, ["const16", "rsr", "rur", "wsr", "wur", "xsr"]);
}

#[test]
fn every_row_round_trips_through_values_and_text() {
    let mut random = Random(7);
    for row in &ROWS {
        let isa = isa_for(row);
        let decoder = Decoder::new(isa);
        for _ in 0..200 {
            let mask = if row.length() == 2 { 0xffff } else { 0xff_ffff };
            let word = row.bits() | random.next() & mask & !row.mask();
            let pc = random.next();
            let instruction = decoder.instruction(&word.to_le_bytes()[..row.length().into()]).unwrap();
            assert_eq!(instruction.row().index(), row.index(), "{word:#x}");
            let values = values(instruction, pc);
            let encoded = encode(row, &values, pc).unwrap();
            assert_eq!(encoded.word(), word, "{}", row.mnemonic());
            let text = instruction.text(pc);
            let assembled = encode_text(&text, pc, isa).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(assembled.bytes(), instruction.encoded().bytes(), "{text}");
        }
    }
}

fn values(instruction: Instruction, pc: u32) -> Vec<i64> {
    (0..4).map_while(|index| instruction.operand(index, pc)).map(i64::from).collect()
}

/// All options, but of MAC16 and CONST16 only the one the row needs.
fn isa_for(row: &Row) -> IsaSet {
    if row.isa() == Isa::Const16 { IsaSet::all().without(Isa::Mac16) } else { IsaSet::lx() }
}

#[test]
fn operand_fields_cover_exactly_the_bits_a_row_leaves_open() {
    for row in &ROWS {
        let all: u32 = if row.length() == 2 { 0xffff } else { 0xff_ffff };
        let mut covered = row.mask();
        for operand in row.operands() {
            assert_eq!(covered & operand.mask(), 0, "{}", row.mnemonic());
            covered |= operand.mask();
        }
        assert_eq!(covered, all, "{}", row.mnemonic());
    }
}

#[test]
fn two_rows_share_an_encoding_only_when_one_is_const16_and_the_other_mac16() {
    for (index, a) in ROWS.iter().enumerate() {
        for b in &ROWS[index + 1..] {
            let overlap = a.length() == b.length() && (a.bits() ^ b.bits()) & a.mask() & b.mask() == 0;
            let pair = [a.isa(), b.isa()];
            let excluded = pair.contains(&Isa::Const16) && pair.contains(&Isa::Mac16);
            assert!(!overlap || excluded, "{} and {}", a.mnemonic(), b.mnemonic());
        }
    }
}

#[test]
fn an_encoding_that_is_both_mac16_and_const16_names_its_alternative() {
    let decoder = Decoder::new(IsaSet::all());
    let both = decoder.instruction(&[0x74, 0x06, 0x70]).unwrap();
    assert_eq!(both.text(0), "umul.aa.ll a6, a7");
    let others: Vec<String> = decoder.alternatives(both).map(|other| other.text(0)).collect();
    assert_eq!(others, ["const16 a7, 0x7006"]);
    let only = decoder.instruction(&[0x24, 0x00, 0x02]).unwrap();
    assert_eq!(only.text(0), "const16 a2, 0x200");
    assert_eq!(decoder.alternatives(only).count(), 0);
}

#[test]
fn the_vision_q7_encodings_of_the_public_material_decode() {
    let golden = [
        ("364100", "entry a1, 32"),
        ("366100", "entry a1, 48"),
        ("240002", "const16 a2, 0x200"),
        ("e00200", "callx8 a2"),
        ("0c02", "movi.n a2, 0"),
        ("0c82", "movi.n a2, 8"),
        ("1df0", "retw.n"),
        ("0df0", "ret.n"),
        ("422003", "l32i a4, a0, 12"),
        ("30eb03", "rsr.prid a3"),
        ("3902", "s32i.n a3, a2, 0"),
        ("2802", "l32i.n a2, a2, 0"),
        ("c02000", "memw"),
        ("604580", "add a4, a5, a6"),
        ("42c50d", "addi a4, a5, 13"),
        ("42d501", "addmi a4, a5, 0x100"),
        ("42a064", "movi a4, 100"),
        ("42a800", "movi a4, 0xfffff800"),
        ("904511", "slli a4, a5, 7"),
        ("104501", "slli a4, a5, 31"),
        ("604921", "srai a4, a6, 9"),
        ("604541", "srli a4, a6, 5"),
        ("604574", "extui a4, a6, 5, 8"),
        ("604581", "src a4, a5, a6"),
        ("0045a1", "sll a4, a5"),
        ("001540", "ssl a5"),
        ("104f40", "ssai 31"),
        ("604583", "moveqz a4, a5, a6"),
        ("604572", "salt a4, a5, a6"),
        ("402382", "mull a2, a3, a4"),
        ("4023d2", "quos a2, a3, a4"),
        ("300303", "rsr.sar a3"),
        ("40e613", "wsr.ps a4"),
        ("300361", "xsr.sar a3"),
        ("707ee3", "rur.threadptr a7"),
        ("80e7f3", "wur.threadptr a8"),
        ("302000", "dsync"),
        ("201300", "movsp a2, a3"),
        ("108040", "rotw 1"),
        ("300409", "l32e a3, a4, -64"),
        ("b06c40", "rer a11, a12"),
        ("604543", "min a4, a5, a6"),
    ];
    let decoder = Decoder::new(IsaSet::vision_q7());
    for (bytes, text) in golden {
        assert_eq!(decoder.instruction(&unhex(bytes)).unwrap().text(0x1000), text);
    }
}

#[test]
fn unknown_disabled_and_truncated_encodings_are_told_apart() {
    let decoder = Decoder::new(IsaSet::core());
    assert_eq!(
        decoder.instruction(&[0x60, 0x45, 0x82]).unwrap_err().to_string(),
        "`mull` belongs to the mul32 option, which this core does not have"
    );
    assert_eq!(decoder.instruction(&[0x60, 0x45]), Err(DecodeError::Truncated { have: 2, need: 3 }));
    assert_eq!(decoder.instruction(&[]), Err(DecodeError::Truncated { have: 0, need: 1 }));
    let unknown = decoder.instruction(&[0xf0, 0xff, 0xff]).unwrap_err();
    assert_eq!(unknown.to_string(), "no instruction is encoded as 0xfffff0");
    assert!(matches!(decoder.instruction(&[0x0f, 0, 0, 0]), Err(DecodeError::NoBundle { .. })));
}

#[test]
fn assembler_errors_say_what_may_stand_there() {
    let error = |text: &str| encode_text(text, 0x1000, IsaSet::lx()).unwrap_err().to_string();
    assert_eq!(error("addi a1, a2, 128"), "operand 3 of `addi`: 128 is out of range: -128..127 are allowed");
    assert_eq!(error("l32i a1, a2, 6"), "operand 3 of `l32i`: 6 is not 0 plus a multiple of 4");
    assert_eq!(error("add a1, a2"), "`add` takes 3 operands, not 2");
    assert_eq!(error("add a1, a2, a16"), "operand 3 of `add` is `a16`, but must be an address register a0..a15");
    assert_eq!(error("frob a1"), "unknown instruction `frob`");
    assert_eq!(error(""), "there is no instruction on the line");
    assert_eq!(
        error("beqz.n a2, 0x1000"),
        "operand 2 of `beqz.n`: target 0x1000 is out of reach: 0x1004..0x1043 in steps of 1 are allowed"
    );
    assert_eq!(
        error("beqi a2, 9, 0x1010"),
        "operand 2 of `beqi`: 9 is not one of [-1, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 32, 64, 128, 256]"
    );
    assert_eq!(error("const16 a2, 5"), "`const16` belongs to the const16 option, which this core does not have");
}
