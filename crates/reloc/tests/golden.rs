//! Every recorded C7x relocation: what the original loader stored, or why it refused.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use outboard_reloc::{ApplyError, Inputs, c7x};
use serde_json::Value;

const VECTORS: &str = include_str!("data/c7x_vectors.jsonl");

fn hex(value: &Value) -> u64 {
    let text = value.as_str().unwrap();
    u64::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).unwrap()
}

fn bytes(value: &Value) -> Vec<u8> {
    let text = value.as_str().unwrap();
    (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap()).collect()
}

#[test]
fn all_2693_recorded_relocations_give_the_recorded_bytes_or_the_recorded_error() {
    let (mut stored, mut overflows, mut invalid) = (0, 0, 0);
    // An interpreter takes a sample.
    let step = if cfg!(miri) { 131 } else { 1 };
    for line in VECTORS.lines().step_by(step) {
        let vector: Value = serde_json::from_str(line).unwrap();
        let number = u32::try_from(vector["type"].as_u64().unwrap()).unwrap();
        let before = bytes(&vector["before_hex"]);
        let recipe = c7x::table().row(number).and_then(|row| {
            assert_eq!(row.name, vector["type_name"].as_str().unwrap(), "{line}");
            row.recipe()
        });
        let error = vector.get("error").and_then(Value::as_str);
        let Some(recipe) = recipe else {
            assert_eq!(error, Some("invalid_type"), "{line}");
            invalid += 1;
            continue;
        };
        let inputs = Inputs {
            symbol: hex(&vector["symval"]),
            addend: vector["addend"].as_i64().unwrap(),
            place: hex(&vector["place"]),
            bias: 0x5a5a_5a5a, // no C7x type uses it
        };
        let value = recipe.value(inputs);
        // Once with bytes behind the container, once at the very end of a segment.
        for room in [8, usize::try_from(recipe.size()).unwrap()] {
            let mut site = before[..room].to_vec();
            match recipe.apply(&mut site, 0, value) {
                Ok(()) => {
                    assert_eq!(error, None, "{line}");
                    assert_eq!(site, bytes(&vector["after_hex"])[..room], "{line}");
                }
                Err(found) => {
                    assert_eq!((found, error), (ApplyError::Overflow, Some("overflow")), "{line}");
                    assert_eq!(site, before[..room], "a refused value writes nothing: {line}");
                }
            }
        }
        match error {
            None => stored += 1,
            Some(_) => overflows += 1,
        }
    }
    if step == 1 {
        assert_eq!((stored, overflows, invalid), (2015, 649, 29));
    }
    assert_eq!(VECTORS.lines().count(), 2693);
}

#[test]
fn the_worked_examples_of_the_documentation_hold() {
    // (type, S, A, place, before, after): docs/reference/relocations.md, "Worked examples".
    let examples = [
        (21, 0x1_0200_1234, 0, 0x1_0200_0100, 0xa500_0001_u32, Some(0xa58d_0001_u32)),
        (22, 0x1_0200_1234, 0, 0x1_0200_0104, 0x0000_0010, Some(0x0810_0090)),
        (24, 0x1_0200_1234, 0, 0x1_0200_0108, 0xffff_ffff, Some(0x0000_001f)),
        (23, 0x7e00_1234_5678, 0, 0, 0, Some(0x0000_7e00)),
        (23, 0x1_ffff_ffff_ffff, 0, 0, 0, Some(0x0001_ffe0)),
        (23, 0x2_0000_0000_0000, 0, 0, 0, None),
        (19, 0x8000_abcd, 0, 0, 0, Some(0x0003_4000)),
        (20, 0x8000_abcd, 0, 0, 0x0000_001f, Some(0x8000_abdf)),
        (20, 0x1_0200_1234, 0, 0, 0, None),
        (25, 0x1_0200_1234, 4, 0x1_0200_0102, 0xffff_ffff, Some(0xff8f_ffff)),
        (26, 0x1_0200_1234, 4, 0x1_0200_0102, 0x0000_001f, Some(0x0000_113f)),
        (26, 0xad70_0000, 0, 0x1_0200_0100, 0, Some(0xab6f_ff00)),
        (27, 0x1_0200_0100, 0, 0x1_0200_0200, 0, Some(0x07ff_c000)),
        (27, 0x1_0210_0100, 0, 0x1_0200_0100, 0, None),
        (28, 0x1_03ff_fffc, 0, 0x1_0200_0000, 0xff00_00ff, Some(0x7fff_ffff)),
        (28, 0x1_0400_0000, 0, 0x1_0200_0000, 0, None),
        (29, 0xad70_0000, 0, 0x1_0200_0100, 0, Some(0x03ff_c000)),
        (30, 0xad70_0000, 0, 0x1_0200_0104, 0x0000_001f, Some(0xffff_ab7f)),
    ];
    for (number, symbol, addend, place, before, after) in examples {
        let recipe = c7x::table().row(number).unwrap().recipe().unwrap();
        let mut word = before.to_le_bytes();
        let value = recipe.value(Inputs { symbol, addend, place, bias: 0 });
        let result = recipe.apply(&mut word, 0, value);
        assert_eq!(result.is_ok(), after.is_some(), "type {number}, S {symbol:#x}");
        assert_eq!(u32::from_le_bytes(word), after.unwrap_or(before), "type {number}, S {symbol:#x}");
    }
}
