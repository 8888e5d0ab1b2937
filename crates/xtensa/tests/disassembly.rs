//! Listings of whole files.
#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "tests build and take apart small known values, and fail by panicking"
)]

use outboard_xtensa::disasm::{DisasmError, DisasmOptions, disassemble_file};

const PROGRAM: &[u8] = include_bytes!("data/programs/w13.elf");

#[test]
fn a_program_is_listed_with_labels_targets_and_literals() {
    let listings = disassemble_file(PROGRAM, &DisasmOptions::default()).unwrap();
    let text = listings.iter().find(|listing| listing.name == ".text").unwrap();
    let start = text.lines.iter().find(|line| line.labels.iter().any(|label| label == "_start")).unwrap();
    assert_eq!(start.kind, "instruction");
    let literal = text.lines.iter().find(|line| line.text.starts_with("l32r")).unwrap();
    let value = literal.literal.unwrap();
    assert!(literal.text.ends_with(&format!("= {value:#x}")), "{}", literal.text);
    let call = text.lines.iter().find(|line| line.text.starts_with("callx")).unwrap();
    assert_eq!(call.target, None);
    // The literal pool in front of the code is data, every byte is listed once, in order.
    assert_eq!(text.lines[0].kind, "data");
    let mut next = text.address;
    for line in &text.lines {
        assert_eq!(line.address, next);
        next += line.bytes.len() as u32 / 2;
    }
}

#[test]
fn every_instruction_reached_from_main_equals_the_line_decoded_alone() {
    use outboard_xtensa::lines::{DisasmRequest, disassemble};
    use outboard_xtensa::{Decoder, isa::IsaSet};
    let options = DisasmOptions { symbol: Some("main".into()), ..DisasmOptions::default() };
    let listings = disassemble_file(PROGRAM, &options).unwrap();
    assert_eq!(listings.len(), 1);
    assert_eq!(listings[0].lines[0].labels, ["main"]);
    for line in &listings[0].lines {
        let request = DisasmRequest { bytes: line.bytes.clone(), pc: line.address };
        let alone = disassemble(&request, &Decoder::new(IsaSet::all())).unwrap();
        let mnemonic = alone.asm.split(' ').next().unwrap();
        assert!(line.text.starts_with(mnemonic), "{} and {}", line.text, alone.asm);
    }
}

#[test]
fn ranges_sections_and_symbols_select_lines_and_unknown_ones_are_errors() {
    let options = DisasmOptions { start: Some(0x100_0080), end: Some(0x100_0090), ..DisasmOptions::default() };
    let listings = disassemble_file(PROGRAM, &options).unwrap();
    assert!(listings[0].lines.iter().all(|line| (0x100_0080..0x100_0090).contains(&line.address)));
    let options = DisasmOptions { section: Some(".nope".into()), ..DisasmOptions::default() };
    assert_eq!(disassemble_file(PROGRAM, &options), Err(DisasmError::NoSection { name: ".nope".into() }));
    let options = DisasmOptions { symbol: Some("nope".into()), ..DisasmOptions::default() };
    assert_eq!(disassemble_file(PROGRAM, &options), Err(DisasmError::NoSymbol { name: "nope".into() }));
    assert!(disassemble_file(b"no elf", &DisasmOptions::default()).is_err());
}
