//! The prelinker on twins: the worked bytes, every status, what strict refuses and compatible writes.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use outboard_elf::ElfError;
use outboard_link::pi::{
    AlignReading, FORMATS, FlixSlot, MemoryBounds, Mode, PrelinkError, PrelinkRequest, Prelinked, UcplHeader, Warning,
    XtlibStatus, format_of, prelink,
};
use outboard_ucode::report::PrelinkReport;
use outboard_ucode::{cores, twins};
use proptest::prelude::*;

const TEXT: u32 = 0x0100_0000;
const RELA: usize = 0x75c8;
const PHDR: usize = 0x34;

fn cayman() -> &'static MemoryBounds {
    &cores::find("cayman").unwrap().bounds
}

fn image() -> Vec<u8> {
    twins::image("cayman_0").unwrap()
}

fn put(file: &mut [u8], at: usize, value: u32) {
    file[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

fn get(file: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(file[at..at + 4].try_into().unwrap())
}

/// Offset in the file of a text address.
fn text(address: u32) -> usize {
    usize::try_from(address - TEXT).unwrap() + 0x100
}

fn strict(file: &[u8]) -> Result<Prelinked, PrelinkError> {
    prelink(&PrelinkRequest::new(file, cayman()))
}

fn compatible(file: &[u8]) -> Result<Prelinked, PrelinkError> {
    prelink(&PrelinkRequest { mode: Mode::Compatible, ..PrelinkRequest::new(file, cayman()) })
}

/// The error of the twin with these words changed: (file offset, value).
fn refused(patches: &[(usize, u32)]) -> PrelinkError {
    let mut file = image();
    for (at, value) in patches {
        put(&mut file, *at, *value);
    }
    strict(&file).unwrap_err()
}

/// The twin with the instruction bytes of its first relocation replaced.
fn with_first_instruction(bytes: &[u8]) -> Vec<u8> {
    let mut file = image();
    let at = text(0x0100_001b);
    file[at..at + bytes.len()].copy_from_slice(bytes);
    file
}

#[test]
fn the_ground_truth_twin_gets_the_worked_header_and_size() {
    let image = strict(&image()).unwrap();
    let expected = [
        0x55, 0x43, 0x50, 0x4c, 0x20, 0, 0, 0, 0x20, 0x6f, 0, 0, 0x40, 0x6f, 0, 0, 0x8c, 0x04, 0, 0, 0x00, 0x80, 0x01,
        0, 0x10, 0xef, 0x01, 0, 0x10, 0xd6, 0x01, 0,
    ];
    assert_eq!(image.header.encode(), expected);
    assert_eq!(image.staged_size(), 0x73cc);
    assert_eq!(image.image().len(), 0x73cc);
    let counts: Vec<_> = image.counts.iter().collect();
    let expected =
        [("R_XTENSA_NONE", 8), ("R_XTENSA_RELATIVE", 30), ("R_XTENSA_SLOT0_OP", 101), ("R_XTENSA_SLOT0_ALT", 101)];
    assert_eq!(counts, expected);
    assert_eq!(image.warnings, []);
    assert_eq!((image.descriptor.rela_count, image.descriptor.scratch_section_found), (240, true));
}

#[test]
fn the_report_of_a_prelinked_and_of_a_refused_image_is_stable_json() {
    let json = |report: &PrelinkReport| serde_json::to_value(report).unwrap();
    let file = image();
    let prelinked = strict(&file).unwrap();
    let expected = serde_json::json!({
        "status": "ok", "code": 0, "name": "XTLIB_NO_ERR", "message": "prelinked: 0x73cc bytes to stage",
        "ucpl": {"code_seg_len": 0x6f20, "data_seg_off": 0x6f40, "data_seg_len": 0x48c,
                 "init": 0x1_8000, "fini": 0x1_ef10, "start_sym": 0x1_d610},
        "sha256": outboard_ucode::inspect::sha256(&prelinked.image()),
        "staged_size": 0x73cc,
        "relocations": {"R_XTENSA_NONE": 8, "R_XTENSA_RELATIVE": 30, "R_XTENSA_SLOT0_OP": 101, "R_XTENSA_SLOT0_ALT": 101},
        "warnings": [],
    });
    assert_eq!(json(&PrelinkReport::ok(&prelinked)), expected);
    let refused = json(&PrelinkReport::error(&refused(&[(RELA + 4, 6)])));
    assert_eq!((&refused["status"], &refused["code"]), (&"error".into(), &8.into()));
    assert_eq!((&refused["name"], &refused["explain"]), (&"XTLIB_RELOCATION_ERR".into(), &"OB0605".into()));
    assert!(
        refused.get("ucpl").is_none() && refused["message"].as_str().unwrap().starts_with("Unknown relocation type 6")
    );
}

#[test]
fn the_worked_pair_of_const16_is_patched_as_written_down() {
    let file = image();
    let at = text(0x0100_001b);
    assert_eq!(file[at..at + 6], [0x24, 0x00, 0x02, 0x24, 0x5c, 0x02]);
    let image = strict(&file).unwrap();
    assert_eq!(image.code()[0x1b..0x21], [0x24, 0x0b, 0x00, 0x24, 0x5c, 0xe2]);
    assert_eq!(image.code()[0x43..0x4b], [0x44, 0x0b, 0x00, 0x3d, 0xf0, 0x44, 0xf8, 0xe1]);
}

#[test]
fn kernel_rows_point_to_the_code_window_and_bss_is_zero() {
    let image = strict(&image()).unwrap();
    let expected = [
        0x18080, 0x183f8, 0x18410, 0x18b90, 0x1905c, 0x18f1c, 0x1b370, 0x1b380, 0x1b484, 0x1b7a8, 0x1ba60, 0x1bb40,
        0x1c0c0, 0x1c160, 0x1c204, 0x1c84c, 0x1cdc4,
    ];
    let rows: Vec<u32> = (0..17).map(|row| get(image.data(), 0x380 + 8 * row + 4)).collect();
    assert_eq!(rows, expected);
    assert!(image.data()[0x450..0x48c].iter().all(|byte| *byte == 0), "bss");
    assert_eq!(image.code()[0x6f1e..], [0xa5, 0xa5], "the filler of the window pads the code");
}

#[test]
fn segments_of_the_published_sizes_get_the_published_lengths_and_offsets() {
    for (size, len, offset) in [(0, 0, 0x20), (0x21, 0x24, 0x60), (0x100, 0x100, 0x120), (0x1234, 0x1234, 0x1260)] {
        let header = UcplHeader::new(size, 0, 0, 0, 0);
        assert_eq!((header.code_len, header.data_offset), (len, offset), "{size:#x}");
    }
}

#[test]
fn status_1_is_a_wrong_identification() {
    for (at, value) in [(0, b'e'), (1, b'e'), (2, b'l'), (3, b'f'), (4, 2), (5, 2), (5, 0)] {
        let mut file = image();
        file[at] = value;
        let error = strict(&file).unwrap_err();
        assert_eq!((error.status(), error.code()), (Some(XtlibStatus::NotElf), 1), "byte {at} = {value}");
        assert_eq!(error.name(), "XTLIB_NOT_ELF");
    }
}

#[test]
fn status_7_is_any_other_shape_of_the_program_headers() {
    let cases = [
        (0, 0, 0, "p_type"),
        (0, 24, 7, "p_flags"),
        (0, 24, 4, "p_flags"),
        (1, 0, 2, "p_type"),
        (1, 24, 5, "p_flags"),
        (1, 24, 3, "p_flags"),
        (2, 24, 6, "p_type"),
        (3, 0, 1, "p_type"),
        (3, 24, 7, "p_flags"),
        (3, 24, 4, "p_flags"),
    ];
    for (index, field, value, name) in cases {
        let error = refused(&[(PHDR + 32 * index + field, value)]);
        assert_eq!(error.code(), 7, "header {index} field {field} = {value}");
        let PrelinkError::NotSplitLoad(fault) = error else { panic!("{error}") };
        assert_eq!(fault.field, name);
        let message = error.to_string();
        assert!(message.starts_with("Failed to validate ELF shared object file"), "{message}");
        assert!(message.contains("expected") && message.contains("--shape pi"), "{message}");
    }
    let mut file = image();
    file[44] = 3;
    assert_eq!(strict(&file).unwrap_err().code(), 7, "no header for the dynamic table");
}

#[test]
fn flags_that_the_original_ignores_are_ignored() {
    for (index, flags) in [(0, 0xd), (1, 6), (1, 7), (2, 2), (2, 3), (3, 0xe)] {
        let mut file = image();
        put(&mut file, PHDR + 32 * index + 24, flags);
        strict(&file).unwrap_or_else(|error| panic!("header {index} flags {flags:#x}: {error}"));
    }
}

#[test]
fn status_4_is_a_dynamic_table_without_relocations_to_find() {
    let dynamic = 0x7500;
    let error = refused(&[(dynamic + 4, 0x0300_0d00)]);
    assert_eq!((error.code(), error.name()), (4, "NO_DYNAMIC_SEGMENT"), "DT_RELA outside of the segment");
    assert!(error.to_string().starts_with("Failed to extract dynamic relocation info"), "{error}");
    assert_eq!(refused(&[(dynamic + 12, 0xffff_fffc)]).code(), 4, "DT_RELASZ beyond the segment");
    assert_eq!(refused(&[(PHDR + 96 + 16, 8)]).code(), 4, "no DT_NULL");
    assert_eq!(refused(&[(PHDR + 96 + 4, 0xffff_0000)]).code(), 4, "the table lies outside of the file");
}

#[test]
fn an_image_without_relocations_is_only_placed() {
    let mut file = image();
    put(&mut file, 0x7500 + 12, 0);
    let image = strict(&file).unwrap();
    assert_eq!(image.counts.total(), 0);
    assert_eq!(image.code()[..0x6f1e], file[0x100..0x701e]);
}

#[test]
fn status_5_is_a_relocation_that_names_a_symbol() {
    let error = refused(&[(RELA + 4, 0x123)]);
    assert_eq!((error.code(), error.name()), (5, "XTLIB_UNKNOWN_SYMBOL"));
    assert!(error.to_string().contains("relocation 0 at 0x100001b: r_info is 0x123"), "{error}");
}

#[test]
fn status_8_is_a_type_that_is_not_applied() {
    for number in (1..5).chain(6..20).chain(50..256) {
        let error = refused(&[(RELA + 4, number)]);
        assert_eq!((error.code(), error.name()), (8, "XTLIB_RELOCATION_ERR"), "{number}");
        assert!(error.to_string().starts_with(&format!("Unknown relocation type {number}")), "{error}");
    }
}

#[test]
fn status_8_is_a_place_outside_of_the_segments() {
    // Behind the code; the last byte of the code; in the filler behind the data.
    for (place, address) in [(0x0100_6f20, 126_752), (0x0100_6f1c, 126_748), (0x0200_0490, 779_408)] {
        let error = refused(&[(RELA, place)]);
        assert_eq!(error.code(), 8);
        assert!(error.to_string().starts_with(&format!("Invalid relocation address {address}")), "{error}");
    }
    let error = refused(&[(RELA, 0x0200_0500), (RELA + 4, 5)]);
    assert!(matches!(error, PrelinkError::BadLoad { address: 0xb_e500, .. }), "{error}");
    assert!(error.to_string().starts_with("Invalid load @ 0xbe500"), "{error}");
}

#[test]
fn compatible_skips_a_word_outside_of_the_windows_and_says_so() {
    let mut file = image();
    // The first pair becomes two words, one of them outside.
    put(&mut file, RELA, 0x0200_5000);
    put(&mut file, RELA + 4, 5);
    put(&mut file, RELA + 12, 0x0200_0250);
    put(&mut file, RELA + 16, 5);
    let image = compatible(&file).unwrap();
    assert!(image.warnings.contains(&Warning::Skipped { index: 0, place: 0x0200_5000, address: 0xc_3000 }));
}

#[test]
fn a6_status_8_is_an_instruction_that_takes_no_half_and_its_neighbours_stay() {
    // j, call8, beqz, l32i, entry: none takes half an address.
    for bytes in [[0x06, 0, 0], [0x25, 0, 0], [0x16, 0x02, 0], [0x22, 0x22, 0], [0x36, 0x41, 0]] {
        let file = with_first_instruction(&bytes);
        for result in [strict(&file), compatible(&file)] {
            let error = result.unwrap_err();
            assert_eq!(error.code(), 8, "{bytes:x?}");
            assert!(error.to_string().contains("is no const16"), "{error}");
        }
    }
}

#[test]
fn half_an_address_in_an_l32r_is_refused_and_written_in_compatible_mode() {
    let file = with_first_instruction(&[0x21, 0, 0]);
    let error = strict(&file).unwrap_err();
    assert_eq!(error.code(), 8);
    assert!(error.to_string().contains("l32r, whose field is relative to its place"), "{error}");
    let image = compatible(&file).unwrap();
    assert_eq!(image.code()[0x1b..0x1e], [0x21, 0x0b, 0x00]);
    assert_eq!(image.warnings, [Warning::Literal { index: 0, place: 0x0100_001b }]);
}

#[test]
fn a_type_for_a_slot_above_0_needs_a_bundle() {
    let mut file = image();
    put(&mut file, RELA + 4, 36);
    assert!(strict(&file).unwrap_err().to_string().contains("names a slot of a bundle"));
    compatible(&file).unwrap();
}

#[test]
fn status_8_is_a_bundle_without_slot_table_named_by_its_format() {
    for format in FORMATS {
        let file = with_first_instruction(&format.bits.to_le_bytes());
        let error = strict(&file).unwrap_err();
        let known_to_the_original = !["F1", "F2", "F6", "F7"].contains(&format.name);
        if known_to_the_original {
            assert_eq!(error.code(), 8, "{}", format.name);
            let text = error.to_string();
            assert!(text.starts_with("Failed to set large immediate field in instruction slot 0"), "{text}");
            assert!(text.contains(&format!("unavailable for format {} slot 0", format.name)), "{text}");
        } else {
            assert_eq!((error.code(), error.name()), (12, "XTLIB_INSN_FMT_ERR"), "{}", format.name);
        }
    }
}

#[test]
fn status_12_is_a_density_instruction() {
    for op0 in 8..=0xd {
        let error = strict(&with_first_instruction(&[op0, 0, 0])).unwrap_err();
        assert_eq!(error.code(), 12);
        assert!(error.to_string().starts_with("Unknown instruction format [0x"), "{error}");
    }
}

#[test]
fn status_13_is_a_segment_larger_than_its_window() {
    for (index, memsz, window) in [(0, 0x8001, 0x8000), (1, 0x2001, 0x2000)] {
        let error = refused(&[(PHDR + 32 * index + 20, memsz)]);
        assert_eq!((error.code(), error.name()), (13, "XTLIB_INTERNAL_ERR"));
        let text = error.to_string();
        assert!(text.starts_with("Segment exceeds the size of the split region on device"), "{text}");
        assert!(text.contains(&format!("the window has {window:#x}")), "{text}");
    }
    let mut file = image();
    put(&mut file, PHDR + 20, 0x8000);
    strict(&file).unwrap();
}

#[test]
fn a_prelinked_image_is_not_prelinked_again() {
    let once = strict(&image()).unwrap().image();
    let error = strict(&once).unwrap_err();
    assert_eq!((error.code(), error.name()), (101, "OUTBOARD_ALREADY_PRELINKED"));
}

#[test]
fn another_machine_and_a_cut_file_are_refused_with_numbers_of_our_own() {
    let mut file = image();
    file[0x12] = 0xf3;
    assert_eq!(strict(&file).unwrap_err().code(), 102);
    let error = strict(&image()[..0x7000]).unwrap_err();
    assert!(matches!(error, PrelinkError::Elf(ElfError::Truncated { .. })), "{error}");
    assert_eq!(error.code(), 100);
    let bounds = MemoryBounds { code_size: 0x9000, ..*cayman() };
    assert_eq!(prelink(&PrelinkRequest::new(&image(), &bounds)).unwrap_err().code(), 103);
}

#[test]
fn a13_a_half_without_the_other_half_names_the_missing_type() {
    // Report A13: the low half is gone, then the high half.
    for (entry, missing) in [(1, "R_XTENSA_SLOT*_OP"), (0, "R_XTENSA_SLOT*_ALT")] {
        let mut file = image();
        put(&mut file, RELA + 12 * entry + 4, 0);
        let error = strict(&file).unwrap_err();
        assert_eq!(error.code(), 8);
        let text = error.to_string();
        assert!(text.contains(missing) && text.contains("0x200025c") && text.contains("--no-relax"), "{text}");
        assert!(matches!(compatible(&file).unwrap().warnings[..], [Warning::OrphanHalf { .. }]));
    }
}

#[test]
fn a7_a_word_and_an_addend_are_added_and_reported() {
    // Report A7: an addend in place and one in the table.
    let mut file = image();
    put(&mut file, RELA, 0x0200_0380 + 4);
    put(&mut file, RELA + 4, 0);
    put(&mut file, RELA + 16, 0);
    let place =
        (0..240).find(|i| get(&file, RELA + 12 * i) == 0x0200_0384 && get(&file, RELA + 12 * i + 4) == 5).unwrap();
    put(&mut file, RELA + 12 * place + 8, 0x10);
    let image = strict(&file).unwrap();
    assert_eq!(get(image.data(), 0x384), 0x18090);
    let expected = Warning::BothAddends { index: place, place: 0x0200_0384, word: 0x0100_0080, addend: 0x10 };
    assert_eq!(image.warnings, [expected]);
}

#[test]
fn a4_three_low_halves_with_addends_are_all_right() {
    // Report A4: only the first entry of a table was right, and addends were ignored.
    let image = strict(&image()).unwrap();
    let low = |at: usize| u16::from_le_bytes([image.code()[at + 1], image.code()[at + 2]]);
    let file = self::image();
    let entries = (0..240).filter(|i| get(&file, RELA + 12 * i + 4) == 20).take(3);
    for entry in entries {
        let place = get(&file, RELA + 12 * entry) - TEXT;
        let target = image.descriptor.rebase(get(&file, RELA + 12 * entry + 8));
        assert_eq!(u32::from(low(usize::try_from(place).unwrap())), target & 0xffff);
    }
}

#[test]
fn bytes_are_patched_once() {
    let mut file = image();
    // A third entry writes the word behind the first one, one byte into it.
    put(&mut file, RELA + 24, 0x0100_001c);
    put(&mut file, RELA + 28, 5);
    let error = strict(&file).unwrap_err();
    assert!(matches!(error, PrelinkError::Overlap { index: 2, place: 0x0100_001c, number: 5 }), "{error}");
    compatible(&file).unwrap();
}

#[test]
fn unaligned_words_keep_their_neighbours() {
    for misalignment in 0..4_u32 {
        let mut file = image();
        let at = 0x7080 + 0x10 + usize::try_from(misalignment).unwrap();
        let before = file[at - 4..at + 8].to_vec();
        put(&mut file, at, 0x0200_0458);
        put(&mut file, RELA + 24, 0x0200_0010 + misalignment);
        put(&mut file, RELA + 28, 5);
        let image = strict(&file).unwrap();
        let inside = at - 0x7080;
        assert_eq!(get(image.data(), inside), 0xb_e458);
        assert_eq!(image.data()[inside - 4..inside], before[..4]);
        assert_eq!(image.data()[inside + 4..inside + 8], before[8..]);
    }
}

#[test]
fn code_at_address_0_is_moved_by_its_own_base() {
    let image = prelink(&PrelinkRequest::new(&twins::image("maverick_0").unwrap(), cayman())).unwrap();
    assert_eq!((image.descriptor.src_offs, image.descriptor.dst_addr), (0, 0x1_8000));
    assert_eq!(image.header.start, 0x1_8000 + 0x594c);
    assert_eq!(get(image.data(), 0x384), 0x1_8080);
}

#[test]
fn data_that_does_not_start_aligned_keeps_its_low_bits() {
    let file = twins::image("sunda_0").unwrap();
    let sunda = &cores::find("sunda").unwrap().bounds;
    let request = PrelinkRequest::new(&file, sunda);
    let image = prelink(&request).unwrap();
    assert_eq!(image.placement.data.address(), 0x8_e00c);
    // The descriptor's delta differs from that of the relocations by the low bits.
    assert_eq!(image.descriptor.rebase(0x0200_000c), 0x8_e00c);
    assert_eq!(image.descriptor.hash, 0x0300_00a4_u32.wrapping_sub(0x0200_0018).wrapping_add(0x8_e00c));
    assert_eq!(image.header.data_len, 0x854, "the bytes before the segment count");
    let original = prelink(&PrelinkRequest { mode: Mode::Compatible, ..request }).unwrap();
    assert_eq!(original.header.data_len, 0x848);
    assert_eq!(prelink(&PrelinkRequest::new(&file, cayman())).unwrap_err().code(), 13);
}

#[test]
fn both_readings_of_the_alignment_agree_and_an_override_is_taken() {
    let file = image();
    let with = |align| prelink(&PrelinkRequest { align, ..PrelinkRequest::new(&file, cayman()) });
    let auto = with(AlignReading::Auto).unwrap();
    let segments = with(AlignReading::Segments).unwrap();
    assert_eq!(segments.placement.align, 0x80);
    assert_eq!((auto.placement.align, auto.image()), (64, segments.image()));
    assert_eq!(with(AlignReading::Sections).unwrap(), auto);
    let moved = with(AlignReading::Fixed(0x1000)).unwrap();
    assert_eq!(moved.image(), segments.image());
    assert_eq!(with(AlignReading::Fixed(0x2_0000)).unwrap_err().code(), 13);
    assert_eq!(with(AlignReading::Fixed(3)).unwrap_err().code(), 100);
}

#[test]
fn a_slot_table_fills_the_immediate_of_a_bundle_and_nothing_else() {
    let immediate = [20, 21, 22, 30, 31, 32, 33, 40, 41, 42, 43, 50, 51, 52, 53, 63];
    let row = FlixSlot { format: "N0".into(), slot: 0, mask: 0xf0, bits: 0x40, immediate };
    assert_eq!(row.problem(), None);
    let bundle = 0x8421_0000_0000_004f_u64 & !(1 << 27);
    assert_eq!(format_of(u32::try_from(bundle & 0xffff_ffff).unwrap()).unwrap().name, "N0");
    let mut file = image();
    let at = text(0x0100_001b);
    file[at..at + 8].copy_from_slice(&bundle.to_le_bytes());
    put(&mut file, RELA + 12, 0x0200_0240 + 0x10); // the low half moves to a word of its own
    put(&mut file, RELA + 16, 0);
    let rows = [row.clone()];
    let request = PrelinkRequest { flix: &rows, mode: Mode::Compatible, ..PrelinkRequest::new(&file, cayman()) };
    let image = prelink(&request).unwrap();
    let after = u64::from_le_bytes(image.code()[0x1b..0x23].try_into().unwrap());
    assert_eq!(row.extract(u128::from(after)), 0x000b);
    assert_eq!(u128::from(after) & !row.field(), u128::from(bundle) & !row.field());
    // A second half for the same slot is refused.
    let mut again = file.clone();
    put(&mut again, RELA + 24, 0x0100_001b);
    put(&mut again, RELA + 28, 20);
    put(&mut again, RELA + 32, 0x0200_025c);
    let twice = PrelinkRequest { file: &again, mode: Mode::Strict, ..request };
    assert!(matches!(prelink(&twice), Err(PrelinkError::Overlap { index: 2, .. })));
    // Another instruction in the slot is not touched.
    let other = FlixSlot { bits: 0x50, ..row.clone() };
    let rows = [other];
    assert_eq!(prelink(&PrelinkRequest { flix: &rows, ..request }).unwrap_err().code(), 8);
    for wrong in [
        FlixSlot { format: "N9".into(), ..row.clone() },
        FlixSlot { immediate: [20; 16], ..row.clone() },
        FlixSlot { mask: 1 << 20, bits: 0, ..row.clone() },
        FlixSlot { bits: 1 << 60, ..row },
    ] {
        assert!(wrong.problem().is_some());
    }
}

#[test]
fn bundle_formats_agree_with_the_instruction_decoder() {
    use outboard_xtensa::length::{Flix, Length, instruction_length};
    for low in 0..=0xffff_u32 {
        let word = low & 0xf | (low >> 4 & 0xff) << 24 | 8;
        let bytes: Vec<u8> = word.to_le_bytes().into_iter().chain([0; 12]).collect();
        let decoded = match instruction_length(&bytes, Flix::VisionQ7) {
            Length::Bundle(format) => Some((format.name(), format.length())),
            _ => None,
        };
        assert_eq!(format_of(word).map(|format| (format.name, format.length)), decoded, "{word:#x}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn pairs_decode_back_to_their_targets_at_any_bases(
        name in prop::sample::select(&twins::IMAGES[1..]),
        code in 0_u64..0x1000,
        data in 0x1000_u64..0x2000,
    ) {
        let file = twins::image(name).unwrap();
        let bounds = MemoryBounds::from_words([0, 1 << 31, code << 12, 0x8000, 0, 1 << 31, data << 16, 0x2000]);
        let image = prelink(&PrelinkRequest::new(&file, &bounds)).unwrap();
        let elf = outboard_elf::Elf::parse(&file).unwrap();
        let section = elf.sections().unwrap().by_name(b".rela.got").unwrap();
        let base = image.descriptor.src_offs;
        let mut pairs = 0;
        let table = usize::try_from(section.offset).unwrap();
        let count = usize::try_from(section.size).unwrap() / 12;
        for entry in 0..count - 1 {
            let field = |entry: usize, word: usize| get(&file, table + 12 * entry + 4 * word);
            if field(entry, 1) == 35 && field(entry + 1, 1) == 20 {
                let half = |place: u32| {
                    let at = usize::try_from(place - base).unwrap();
                    u32::from(u16::from_le_bytes([image.code()[at + 1], image.code()[at + 2]]))
                };
                let value = half(field(entry, 0)) << 16 | half(field(entry + 1, 0));
                prop_assert_eq!(value, image.descriptor.rebase(field(entry, 2)));
                pairs += 1;
            }
        }
        prop_assert_eq!(pairs, image.counts.of(35));
    }

    #[test]
    fn a_damaged_image_is_prelinked_or_refused_and_never_panics(
        edits in prop::collection::vec((0_usize..0xa260, any::<u8>()), 1..40),
        in_tables: bool,
    ) {
        let mut file = image();
        for (at, value) in edits {
            let at = if in_tables { match at % 4 { 0 => at % 0x100, 1 => 0x7500 + at % 0xc08, _ => 0x9ce8 + at % 0x578 } } else { at };
            file[at] = value;
        }
        for mode in [Mode::Strict, Mode::Compatible] {
            if let Ok(image) = prelink(&PrelinkRequest { mode, ..PrelinkRequest::new(&file, cayman()) }) {
                prop_assert_eq!(image.image().len() as u64, image.staged_size());
            }
        }
    }
}
