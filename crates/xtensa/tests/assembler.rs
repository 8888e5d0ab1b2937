//! The assembler: objects, relocations, errors, and agreement with LLVM's.
#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "tests build and take apart small known values, and fail by panicking"
)]

use std::io::Write as _;
use std::process::{Command, Stdio};

use outboard_elf::Elf;
use outboard_xtensa::asm::{AsmOptions, assemble};
use outboard_xtensa::disasm::{DisasmOptions, SectionListing, disassemble_file};
use outboard_xtensa::isa::{Isa, IsaSet, Kind, ROWS};
use outboard_xtensa::{Decoder, Instruction};

fn object(source: &str) -> Vec<u8> {
    assemble(source, &AsmOptions::default()).unwrap_or_else(|errors| panic!("{errors:?}"))
}

fn listing(object: &[u8], section: &str) -> SectionListing {
    let options = DisasmOptions { section: Some(section.into()), ..DisasmOptions::default() };
    disassemble_file(object, &options).unwrap().remove(0)
}

fn section_bytes(object: &[u8], name: &str) -> Vec<u8> {
    let elf = Elf::parse(object).unwrap();
    let sections = elf.sections().unwrap();
    let section = sections.by_name(name.as_bytes()).unwrap_or_else(|| panic!("no {name}"));
    sections.data(&section).unwrap().to_vec()
}

#[test]
fn branches_inside_a_section_are_resolved_and_need_no_relocation() {
    let object = object(
        "
        .global f
    f:  entry a1, 32
    1:  addi a2, a2, -1
        bnez a2, 1b          # backwards
        beqz a3, 2f
        j f
    2:  loop a4, end
        nop
    end:
        retw",
    );
    let text = listing(&object, ".text");
    let code: Vec<&str> = text.lines.iter().map(|line| line.text.as_str()).collect();
    assert_eq!(
        code,
        [
            "entry a1, 32",
            "addi a2, a2, -1",
            "bnez a2, 0x3 <f+0x3>",
            "beqz a3, 0xf <f+0xf>",
            "j 0x0 <f>",
            "loop a4, 0x15 <end>",
            "nop",
            "retw",
        ]
    );
    assert!(text.lines.iter().all(|line| line.relocations.is_empty()));
}

#[test]
fn what_the_file_cannot_resolve_becomes_a_relocation() {
    let object = object(
        "
        .text
        call8 other
        movi a2, 0x12345678
        movi a3, table+8
        movi a4, -5
        const16 a5, hi(table)
        const16 a5, lo(table)
        const16 a6, hi(0x12345678)
        l32r a7, =0x12345678
        .data
        .global table
    table: .word 1, other+4, table
        .rodata
        .asciz \"a\\n\", \"b\"",
    );
    let text = listing(&object, ".text");
    let relocations: Vec<(&str, Vec<&str>)> = text
        .lines
        .iter()
        .map(|line| {
            let mnemonic = line.text.split(' ').next().unwrap();
            (mnemonic, line.relocations.iter().map(String::as_str).collect())
        })
        .collect();
    assert_eq!(
        relocations,
        [
            ("call8", vec!["R_XTENSA_SLOT0_OP other"]),
            ("l32r", vec!["R_XTENSA_SLOT0_OP .literal"]),
            ("l32r", vec!["R_XTENSA_SLOT0_OP .literal+0x4"]),
            ("movi", vec![]),
            ("const16", vec!["R_XTENSA_SLOT0_ALT table"]),
            ("const16", vec!["R_XTENSA_SLOT0_OP table"]),
            ("const16", vec![]),
            // The same value is the same literal.
            ("l32r", vec!["R_XTENSA_SLOT0_OP .literal"]),
        ]
    );
    let literals = section_bytes(&object, ".literal");
    assert_eq!(literals, [0x78, 0x56, 0x34, 0x12, 0, 0, 0, 0]);
    assert_eq!(section_bytes(&object, ".data"), [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(section_bytes(&object, ".rodata"), b"a\n\0b\0");
}

#[test]
fn data_directives_alignment_and_expressions_lay_out_their_bytes() {
    let object = object(
        "
        .set size, (3 + 4) * 2 - 0x4
        .data
    start:
        .byte 1, 'a', '\\n', -1
        .short 0x1234, ~0
        .balign 8
        .word end - start, size << 4 | 1, -1
        .space 3, 0xaa
        .zero 1
    end:
        .ascii \"x\\x41;#\"  // not a comment inside quotes
        .bss
        .space 100
        .p2align 4",
    );
    let mut expected = vec![1, b'a', b'\n', 0xff, 0x34, 0x12, 0xff, 0xff];
    for word in [24u32, 0xa1, u32::MAX] {
        expected.extend(word.to_le_bytes());
    }
    expected.extend([0xaa, 0xaa, 0xaa, 0, b'x', b'A', b';', b'#']);
    assert_eq!(section_bytes(&object, ".data"), expected);
    let elf = Elf::parse(&object).unwrap();
    let sections = elf.sections().unwrap();
    let bss = sections.by_name(b".bss").unwrap();
    assert_eq!((bss.size, bss.align, bss.kind), (112, 16, 8));
}

#[test]
fn every_error_names_its_line_and_what_may_stand_there() {
    let source = "\
        add a1, a2\n\
        frob a1\n\
        .word other - here\n\
        beqz a2, 0x1000\n\
        .align 3\n\
        addi a2, a2, table\n\
        here: here:\n\
        .byte 256\n\
        .bogus\n\
        .word (1\n";
    let errors = assemble(source, &AsmOptions::default()).unwrap_err();
    let mut texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
    texts.sort_by_key(|text| text[5..].split(':').next().unwrap().parse::<u32>().unwrap());
    assert_eq!(
        texts,
        [
            "line 1: `add` takes 3 operands, not 2",
            "line 2: unknown instruction `frob`",
            "line 3: the difference of two addresses needs both in one section of this file",
            "line 4: the target of `beqz` must be a label, not a number",
            "line 5: an alignment is a power of two up to 65536, not 3",
            "line 6: `table` is an address: an operand of `addi` cannot hold one",
            "line 7: `here` is defined twice",
            "line 8: 256 does not fit into 1 bytes",
            "line 9: unknown directive `.bogus`",
            "line 10: a closing parenthesis is missing",
        ]
    );
    let unclosed = assemble("nop\n/* never", &AsmOptions::default()).unwrap_err();
    assert_eq!(unclosed[0].line, 2);
    let preprocessor = assemble("#include <x.h>", &AsmOptions::default()).unwrap_err();
    assert!(preprocessor[0].message.contains("C preprocessor"));
}

#[test]
fn deeply_nested_expressions_are_an_error_not_a_crash() {
    let source = format!(".word {}1{}", "(".repeat(100_000), ")".repeat(100_000));
    assert!(assemble(&source, &AsmOptions::default()).unwrap_err()[0].message.contains("nested too deeply"));
}

/// Texts of every row, several encodings each, without targets.
fn sample_lines() -> Vec<(String, Instruction)> {
    let mut lines = Vec::new();
    let mut seed = 1u32;
    for row in ROWS.iter().filter(|row| row.isa() != Isa::Const16) {
        if row.operands().iter().any(|operand| matches!(operand.kind(), Kind::Target(_))) {
            continue;
        }
        for _ in 0..8 {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let all = if row.length() == 2 { 0xffff } else { 0xff_ffff };
            let word = row.bits() | (seed >> 4) & all & !row.mask();
            let decoder = Decoder::new(IsaSet::lx());
            let instruction = decoder.instruction(&word.to_le_bytes()[..row.length().into()]).unwrap();
            lines.push((instruction.text(0), instruction));
        }
    }
    lines
}

#[test]
fn every_row_assembles_from_source_to_its_bytes() {
    // Large MOVI constants are literals on purpose, so that lines are checked one by one.
    for (text, instruction) in sample_lines() {
        let object = object(&text);
        assert_eq!(section_bytes(&object, ".text"), instruction.encoded().bytes(), "{text}");
    }
}

const LLVM_FEATURES: &str = "+density,+windowed,+loop,+mul32,+mul32high,+mul16,+mac16,+bool,+nsa,+sext,+minmax,+clamps,\
    +div32,+s32c1i,+threadptr,+fp,+exception,+interrupt,+highpriinterrupts,+debug,+coprocessor,+rvector,+timers3,\
    +dcache,+regprotect,+miscsr,+extendedl32r,+dfpaccel,+prid";

/// LLVM's encodings of the lines it accepts, by line number.
fn llvm_encodings(lines: &[String]) -> Vec<Option<Vec<u8>>> {
    let mut child = Command::new("llvm-mc-22")
        .args(["-triple=xtensa", "-show-encoding", &format!("-mattr={LLVM_FEATURES}")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("llvm-mc-22: {error}: install the Debian package llvm-22"));
    let mut input = child.stdin.take().unwrap();
    let source = lines.join("\n") + "\n";
    let writer = std::thread::spawn(move || input.write_all(source.as_bytes()).unwrap());
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    let messages = String::from_utf8_lossy(&output.stderr).into_owned();
    let refused: std::collections::HashSet<usize> =
        messages.lines().filter_map(|line| line.strip_prefix("<stdin>:")?.split(':').next()?.parse().ok()).collect();
    let text = String::from_utf8(output.stdout).unwrap();
    let mut encodings = text.lines().filter_map(|line| {
        let bytes = line.split("encoding: [").nth(1)?.split(']').next()?;
        bytes.split(',').map(|byte| u8::from_str_radix(byte.trim_start_matches("0x"), 16).ok()).collect()
    });
    let answers = (1..=lines.len()).map(|line| if refused.contains(&line) { None } else { encodings.next() }).collect();
    assert_eq!(encodings.next(), None::<Vec<u8>>, "each accepted line has one encoding");
    answers
}

#[test]
fn every_row_that_llvm_knows_has_its_encoding() {
    let samples = sample_lines();
    // LLVM writes special registers as operands, and boolean groups by their first register.
    let lines: Vec<String> = samples
        .iter()
        .map(|(text, _)| match text.split_once(":b") {
            Some((first, _)) => first.to_owned(),
            None => text.clone(),
        })
        .map(|text| rewrite_register(&text))
        .collect();
    let mut known = std::collections::BTreeSet::new();
    for ((text, instruction), theirs) in samples.iter().zip(llvm_encodings(&lines)) {
        let Some(theirs) = theirs else { continue };
        assert_eq!(theirs, instruction.encoded().bytes(), "{text}");
        known.insert(instruction.row().mnemonic());
    }
    println!("LLVM knows {} of {} rows", known.len(), ROWS.len());
    assert!(known.len() >= 200, "only {} rows: {known:?}", known.len());
}

/// `rsr.sar a2` as `rsr a2, sar`.
fn rewrite_register(text: &str) -> String {
    match text.split_once(' ') {
        Some((mnemonic, register))
            if mnemonic.get(3..4) == Some(".") && matches!(&mnemonic[..3], "rsr" | "wsr" | "xsr" | "rur" | "wur") =>
        {
            format!("{} {register}, {}", &mnemonic[..3], &mnemonic[4..])
        }
        _ => text.to_owned(),
    }
}
