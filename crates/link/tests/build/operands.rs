//! The operands that relocations write, against the instruction table.

use outboard_reloc::xtensa::{Operand, OperandError};
use outboard_xtensa::isa::IsaSet;
use outboard_xtensa::{Decoder, encode_text};

/// Instructions with a target, one for each row of the table that has one.
const INSTRUCTIONS: [&str; 37] = [
    "l32r a3",
    "call0",
    "call4",
    "call8",
    "call12",
    "j",
    "beqz a3",
    "bnez a3",
    "bltz a3",
    "bgez a3",
    "beqi a3, 4",
    "bnei a3, 4",
    "blti a3, 4",
    "bgei a3, 4",
    "bltui a3, 4",
    "bgeui a3, 4",
    "bf b1",
    "bt b1",
    "loop a3",
    "loopnez a3",
    "loopgtz a3",
    "ball a3, a4",
    "bany a3, a4",
    "bnall a3, a4",
    "bnone a3, a4",
    "beq a3, a4",
    "bne a3, a4",
    "blt a3, a4",
    "bltu a3, a4",
    "bge a3, a4",
    "bgeu a3, a4",
    "bbc a3, a4",
    "bbs a3, a4",
    "bbci a3, 17",
    "bbsi a3, 17",
    "beqz.n a3",
    "bnez.n a3",
];

const PLACE: u32 = 0x40_0000;

#[test]
fn every_operand_reaches_what_the_instruction_table_says_and_no_further() {
    for text in INSTRUCTIONS {
        for place in PLACE..PLACE + 4 {
            let any = any_target(text, place);
            let code = encode_text(&with_target(text, any), place, IsaSet::all()).unwrap();
            let operand = Operand::of(code.bytes()).unwrap_or_else(|| panic!("{text} has no row"));
            let base = operand.base.of(place);
            let step = i64::from(operand.align);
            for distance in [operand.min, operand.max, 0, 4, 8, -4, -8, 60].map(i64::from) {
                for distance in [distance - step, distance, distance + step] {
                    let target = u32::try_from(i64::from(base) + distance).unwrap();
                    let expected = encode_text(&with_target(text, target), place, IsaSet::all()).ok();
                    let mut bytes = code.bytes().to_vec();
                    let applied = operand.apply(&mut bytes, 0, place, target);
                    assert_eq!(applied.is_ok(), expected.is_some(), "{text} at {place:#x} to {target:#x}: {applied:?}");
                    if let Some(expected) = expected {
                        assert_eq!(bytes, expected.bytes(), "{text} at {place:#x} to {target:#x}");
                        assert_eq!(operand.target(&bytes, place), target, "{text}");
                    } else {
                        assert_eq!(bytes, code.bytes(), "a refused value writes nothing");
                    }
                }
            }
        }
    }
}

/// A target that the instruction surely reaches.
fn any_target(text: &str, place: u32) -> u32 {
    if text.starts_with("l32r") { (place & !3) - 64 } else { (place & !3) + 8 }
}

fn with_target(text: &str, target: u32) -> String {
    let separator = if text.contains(' ') { ", " } else { " " };
    format!("{text}{separator}{target:#x}")
}

#[test]
fn instructions_without_a_target_have_no_operand() {
    for text in [
        "add a3, a4, a5",
        "entry a1, 32",
        "movi a3, 5",
        "l32i a3, a4, 8",
        "retw",
        "mov.n a3, a4",
        "jx a3",
        "callx8 a3",
        "addi.n a3, a4, 1",
        "movi.n a3, 5",
    ] {
        let code = encode_text(text, PLACE, IsaSet::all()).unwrap();
        assert_eq!(Operand::of(code.bytes()), None, "{text}");
    }
}

#[test]
fn misaligned_targets_are_refused_with_the_distance() {
    let code = encode_text("call8 0x400008", PLACE, IsaSet::all()).unwrap();
    let operand = Operand::of(code.bytes()).unwrap();
    let mut bytes = code.bytes().to_vec();
    assert_eq!(operand.apply(&mut bytes, 0, PLACE, 0x40_000a), Err(OperandError::Misaligned { distance: 6 }));
    assert_eq!(bytes, code.bytes());
}

#[test]
fn the_table_and_the_rows_name_the_same_instructions() {
    // Every encoding of the golden list whose text ends with a target has a row, and no other one.
    let decoder = Decoder::new(IsaSet::all());
    for word in 0..=0xff_ffffu32 {
        if word % 251 != 0 {
            continue;
        }
        let [b0, b1, b2, _] = word.to_le_bytes();
        let Ok(instruction) = decoder.instruction(&[b0, b1, b2]) else { continue };
        let bytes = &[b0, b1, b2][..];
        let found = instruction.target(PLACE).or(instruction.literal(PLACE));
        assert_eq!(Operand::of(bytes).is_some(), found.is_some(), "{} {bytes:02x?}", instruction.text(PLACE));
        if let (Some(operand), Some(target)) = (Operand::of(bytes), found) {
            assert_eq!(operand.target(bytes, PLACE), target, "{}", instruction.text(PLACE));
        }
    }
}

#[test]
fn the_page_has_the_rows_of_the_operands() {
    let page = include_str!("../../../../docs/reference/relocations.md");
    for operand in Operand::all() {
        let row = page.lines().find(|line| line.starts_with(&format!("| {} |", operand.name))).unwrap();
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        assert_eq!(cells[3..], [operand.align.to_string(), operand.min.to_string(), operand.max.to_string()], "{row}");
    }
}
