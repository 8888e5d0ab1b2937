//! Inspection: the ground-truth twin against a file typed from the tables of the reference, and every other shape.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;

use outboard_ucode::inspect::{InspectError, Report, inspect, recognises};
use outboard_ucode::twins;
use serde_json::Value;

const GOLDEN: &str = include_str!("data/cayman_0.inspect.json");

fn json(report: &Report) -> Value {
    serde_json::to_value(report).unwrap()
}

fn pi(file: &[u8]) -> outboard_ucode::inspect::PiReport {
    let Report::Pi(report) = inspect(file).unwrap() else { panic!("a PI image") };
    report
}

/// Compares with a golden value: `null` is a number that is ours, `"$null"` is null, an object with `$starts_with` and
/// `$length` describes an array that is documented in part.
fn compare(path: &str, golden: &Value, found: &Value) {
    match (golden, found) {
        (Value::Null, _) => {}
        (Value::String(text), Value::Null) if text == "$null" => {}
        (Value::Object(golden), Value::Array(found)) => {
            assert_eq!(golden["$length"], found.len(), "{path}: length");
            let first = golden.get("$starts_with").and_then(Value::as_array);
            for (index, golden) in first.into_iter().flatten().enumerate() {
                compare(&format!("{path}[{index}]"), golden, &found[index]);
            }
        }
        (Value::Object(golden), Value::Object(found)) => {
            let keys = |map: &serde_json::Map<String, Value>| map.keys().cloned().collect::<BTreeSet<_>>();
            assert_eq!(keys(golden), keys(found), "{path}: keys");
            for (key, golden) in golden {
                compare(&format!("{path}.{key}"), golden, &found[key]);
            }
        }
        (Value::Array(golden), Value::Array(found)) => {
            assert_eq!(golden.len(), found.len(), "{path}: length");
            for (index, (golden, found)) in golden.iter().zip(found).enumerate() {
                compare(&format!("{path}[{index}]"), golden, found);
            }
        }
        _ => assert_eq!(golden, found, "{path}"),
    }
}

/// The paths at which two values differ.
fn differences(path: &str, left: &Value, right: &Value, found: &mut BTreeSet<String>) {
    match (left, right) {
        (Value::Object(left), Value::Object(right)) => {
            for (key, value) in left {
                differences(&format!("{path}.{key}"), value, &right[key], found);
            }
        }
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
            for (index, (left, right)) in left.iter().zip(right).enumerate() {
                differences(&format!("{path}[{index}]"), left, right, found);
            }
        }
        _ if left != right => {
            found.insert(path.to_owned());
        }
        _ => {}
    }
}

#[test]
fn the_ground_truth_twin_reads_as_the_tables_say() {
    let golden: Value = serde_json::from_str(GOLDEN).unwrap();
    let found = json(&inspect(&twins::image("cayman_0").unwrap()).unwrap());
    compare("", &golden, &found);
    let twenty = |text: &Value| text.as_str().unwrap().starts_with(".xt.prop._Z");
    let sections = found["sections"].as_array().unwrap();
    assert!(sections[11..32].iter().all(|section| twenty(&section["name"])));
}

#[test]
fn the_twin_of_another_generation_differs_exactly_where_its_numbers_do() {
    let [cayman, mariana] = ["cayman_0", "mariana_0"].map(|name| json(&inspect(&twins::image(name).unwrap()).unwrap()));
    let mut found = BTreeSet::new();
    differences("", &cayman, &mariana, &mut found);
    let places = |path: &String| path.starts_with(".relocations.pairs[") || path.starts_with(".relocations.words[");
    let rest: BTreeSet<&str> = found.iter().filter(|path| !places(path)).map(String::as_str).collect();
    let mut expected = BTreeSet::from([".sha256", ".header.entry", ".kernels[14].start", ".kernels[15].start"]);
    let rows: Vec<String> =
        (6..11).flat_map(|row| ["function", "raw"].map(|key| format!(".kernel_table.rows[{row}].{key}"))).collect();
    expected.extend(rows.iter().map(String::as_str));
    assert_eq!(rest, expected);
    let row = |report: &Value, row: usize| report["kernel_table"]["rows"][row]["function"].as_u64().unwrap();
    let shifts: Vec<u64> = (6..11).map(|index| row(&mariana, index) - row(&cayman, index)).collect();
    assert_eq!(shifts, [0x20, 0x20, 0x20, 0x30, 0x30]);
}

#[test]
fn every_generation_reads_with_its_own_bases_and_without_notes() {
    for name in twins::IMAGES {
        let report = pi(&twins::image(name).unwrap());
        assert_eq!(report.notes, [], "{name}");
        let code = if name.starts_with("maverick") { 0 } else { 0x0100_0000 };
        assert_eq!(report.segments[0].vaddr, code, "{name}");
        assert_eq!(report.header.kind, if code == 0 { 3 } else { 2 }, "{name}");
        let clang = if code == 0 { "15.05 clang version 15.0.7" } else { "14.09 clang version 10.0.1" };
        assert_eq!(report.toolchain, Some(format!("XtensaTools-{clang}")), "{name}");
    }
    let sunda = pi(&twins::image("sunda_0").unwrap());
    assert_eq!((sunda.relocations.count, sunda.sections.len()), (445, 17));
    let table = sunda.kernel_table.unwrap();
    assert_eq!((table.address, table.offset, table.rows.len()), (0x0200_0760, 0xb260, 18));
    assert_eq!(sunda.segments[1].vaddr, 0x0200_000c);
    let dynamic: Vec<u64> = sunda.dynamic.iter().map(|entry| entry.value).collect();
    assert_eq!(dynamic[..4], [0x0300_00c8, 5340, 12, 0x0300_15a4]);
    assert_eq!(dynamic[9..], [0x0100_00c0, 0x0100_a9b0, 0, 0x0300_15a8, 0, 0]);
    let cptc = pi(&twins::image("cayman_3").unwrap());
    let table = cptc.kernel_table.unwrap();
    assert_eq!((table.address, table.offset, table.rows.len()), (0x0200_08c8, 0x4748, 9));
    assert_eq!(table.rows[8].extended.as_deref(), Some("CPTC_DECODE"));
    assert!(cptc.kernels[0].name.starts_with("void cptc_decode_impl<"), "{}", cptc.kernels[0].name);
    assert_eq!(pi(&twins::image("cayman_1").unwrap()).kernel_table.unwrap().address, 0x0200_0048);
    assert_eq!(pi(&twins::image("cayman_2").unwrap()).kernel_table.unwrap().address, 0x0200_0070);
}

#[test]
fn the_kernel_table_is_found_with_a_dot_too() {
    let mut file = twins::image("cayman_1").unwrap();
    let at = file.windows(18).position(|name| name == b"\0kernel_info_table").unwrap();
    // A name may begin inside another: the byte before it becomes the dot.
    file[at] = b'.';
    let shoff = usize::try_from(u32::from_le_bytes(file[32..36].try_into().unwrap())).unwrap();
    for section in (shoff..file.len()).step_by(40) {
        let size = u32::from_le_bytes(file[section + 20..section + 24].try_into().unwrap());
        let address = u32::from_le_bytes(file[section + 12..section + 16].try_into().unwrap());
        if (address, size) == (0x0200_0048, 8) {
            let name = u32::from_le_bytes(file[section..section + 4].try_into().unwrap());
            file[section..section + 4].copy_from_slice(&(name - 1).to_le_bytes());
        }
    }
    assert_eq!(pi(&file).kernel_table.unwrap().rows.len(), 1);
}

/// Offset in the file and bytes to write there.
type Patch<'a> = (usize, &'a [u8]);

/// The codes of the notes of the twin with these bytes changed: (file offset, bytes).
fn notes(patches: &[Patch<'_>]) -> Vec<(&'static str, String)> {
    let mut file = twins::image("cayman_0").unwrap();
    for (at, bytes) in patches {
        file[*at..*at + bytes.len()].copy_from_slice(bytes);
    }
    pi(&file).notes.into_iter().map(|note| (note.code, note.message)).collect()
}

#[test]
fn each_fault_of_an_image_gets_its_note() {
    let outside = 0x0101_0000_u32.to_le_bytes();
    let middle = 0x0100_0083_u32.to_le_bytes();
    let table = 0x7400;
    let rela = 0x75c8;
    let cases: [(&str, &str, &[Patch<'_>]); 7] = [
        ("OB0621", "outside of the text", &[(table + 4, &outside)]),
        ("OB0622", "does not begin with `entry`", &[(table + 4, &middle)]),
        ("OB0628", "dispatch never reaches", &[(table + 8, &[0, 0, 0, 0x7e])]),
        ("OB0623", "no low half follows", &[(rela + 16, &[0])]),
        ("OB0623", "no high half follows", &[(rela + 4, &[0])]),
        ("OB0605", "no const16", &[(0x11b, &[0x06])]),
        ("OB0613", "FLIX bundle", &[(0x11b, &[0x0f, 0, 0, 0])]),
    ];
    for (code, text, patches) in cases {
        let notes = notes(patches);
        assert!(notes.iter().any(|(found, message)| *found == code && message.contains(text)), "{code}: {notes:?}");
    }
}

#[test]
fn a8_a_literal_outside_of_the_text_is_reported_before_loading() {
    // Report A8: the linker moved the literals; an l32r of the entry point now reads far before the text.
    let notes = notes(&[(0x100 + 0x5613, &[0x21, 0x00, 0x80])]);
    let (code, message) = &notes[0];
    assert_eq!(*code, "OB0626");
    assert!(message.contains("l32r at 0x1005613") && message.contains("--text-section-literals"), "{message}");
}

#[test]
fn a10_hints_and_differences_of_objects_are_counted_as_ignorable() {
    // Report A10: types 57 to 62, and the hints.
    let file = object(&[20, 1, 11, 12, 17, 18, 19, 57, 58, 59, 60, 61, 62, 21, 50, 200]);
    let Report::Object(report) = inspect(&file).unwrap() else { panic!("an object") };
    let all = &report.relocations;
    assert_eq!((all.count, all.ignorable, all.refused), (16, 11, 3));
    assert_eq!(all.histogram["R_XTENSA_NDIFF32"], 1);
    assert_eq!(all.histogram["unknown type 200"], 1);
}

/// An object with one relocation of each of these types.
fn object(types: &[u32]) -> Vec<u8> {
    use outboard_elf::write::{ImageBuilder, RelocationSpec, SegmentSpec, SymbolSpec};
    let mut image = ImageBuilder::new(outboard_elf::machine::XTENSA);
    let text = image.segment(SegmentSpec::new(5, vec![0; 64]));
    let symbol = image.symbol(SymbolSpec::function("f", text, 0, 4));
    for kind in types {
        image.relocate(RelocationSpec::new(text, 0, *kind, symbol, 0));
    }
    image.kind(outboard_elf::et::REL).build()
}

#[test]
fn the_members_of_an_archive_are_reported_one_by_one() {
    let mut file = b"!<arch>\n".to_vec();
    for (name, data) in [("parallel.o/", object(&[20, 35])), ("notes.txt/", b"text".to_vec())] {
        file.extend(format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n", 0, 0, 0, 644, data.len()).bytes());
        file.extend(data);
        file.resize(file.len().next_multiple_of(2), b'\n');
    }
    let Report::Archive(report) = inspect(&file).unwrap() else { panic!("an archive") };
    assert_eq!(
        report.members.iter().map(|member| member.name.as_str()).collect::<Vec<_>>(),
        ["parallel.o", "notes.txt"]
    );
    assert!(matches!(report.members[0].report.as_deref(), Some(Report::Object(_))));
    assert!(report.members[1].problem.as_deref().unwrap().contains("not an ELF file"));
}

#[test]
fn the_fixed_load_libraries_have_the_documented_shape_and_differ_only_in_addresses() {
    let files: Vec<Vec<u8>> = (0..8).map(|core| twins::fixed_load_library(core).unwrap()).collect();
    for (core, file) in files.iter().enumerate() {
        let Report::Fll(report) = inspect(file).unwrap() else { panic!("a fixed-load library") };
        let base = 0x8400_0000 + 0x20_0000 * core as u64;
        assert_eq!((report.size, usize::from(report.core), report.window), (579_380, core, base));
        assert_eq!((report.span, report.header.entry, report.header.flags), (0xa_03a0, base + 0xcd94, 0x300));
        let segments: Vec<_> =
            report.segments.iter().map(|s| (s.kind, s.offset, s.vaddr, s.filesz, s.memsz, s.flags)).collect();
        let expected =
            [(0, 0, 0, 0, 0, 0), (1, 0x94, base, 0x8_d448, 0x8_d448, 7), (1, 0, base + 0x8_d480, 0, 0x1_2f20, 6)];
        assert_eq!(segments, expected);
        let sections: Vec<_> = report.sections[1..10]
            .iter()
            .map(|s| (s.name.as_str(), s.address - base, s.offset, s.size, s.align))
            .collect();
        let expected = [
            (".text", 0, 0x94, 0x7_37d8, 32),
            (".clib.rodata", 0x7_3800, 0x7_3894, 0x2004, 64),
            (".clib.data", 0x7_5840, 0x7_58d4, 0x458, 64),
            (".eh_frame", 0x7_5c98, 0x7_5d2c, 4, 4),
            (".ctors", 0x7_5c9c, 0x7_5d30, 0x20, 4),
            (".dtors", 0x7_5cbc, 0x7_5d50, 8, 4),
            (".rodata", 0x7_5d00, 0x7_5d94, 0x5a48, 64),
            (".data", 0x7_b780, 0x7_b814, 0x1_1cc8, 64),
            (".bss", 0x8_d480, 0x8_d4dc, 0x1_2f20, 64),
        ];
        assert_eq!(sections, expected);
        assert_eq!((report.sections.len(), report.notes.len()), (12, 0));
        assert!(report.to_string().starts_with(&format!("Fixed-load library for core {core}")));
        // Every byte that differs from the first core's is the third of an address: 0x20 for each core.
        let step = u8::try_from(0x20 * core).unwrap();
        assert!(files[0].iter().zip(file).all(|(first, own)| first == own || first.wrapping_add(step) == *own));
    }
    assert_eq!(twins::fixed_load_library(8), None);
    let mut far = files[0].clone();
    far[52 + 64 + 20..52 + 64 + 24].copy_from_slice(&0x20_0000_u32.to_le_bytes());
    let Report::Fll(report) = inspect(&far).unwrap() else { panic!("a fixed-load library") };
    assert_eq!(report.notes[0].code, "OB0633");
}

#[test]
fn c5_sizes_near_the_end_of_the_address_space_are_refused_without_allocation() {
    // Report C5: section and segment sizes of 4 GiB.
    let file = twins::image("cayman_0").unwrap();
    for header in (0x9ce8..file.len()).step_by(40) {
        for field in [16, 20] {
            let mut file = file.clone();
            file[header + field..header + field + 4].copy_from_slice(&[0xff; 4]);
            let _ = inspect(&file);
        }
    }
    for header in (0x34..0x34 + 4 * 32).step_by(32) {
        for field in [4, 8, 12, 16, 20, 28] {
            let mut file = file.clone();
            file[header + field..header + field + 4].copy_from_slice(&[0xff; 4]);
            assert!(inspect(&file).is_ok(), "the tables can be told although a segment is wrong");
        }
    }
}

#[test]
fn files_that_are_no_device_files_say_what_they_are() {
    let elf = inspect(&twins::host_library()).unwrap_err();
    assert!(matches!(&elf, InspectError::OtherMachine(name) if name == "x86-64"), "{elf}");
    assert!(elf.to_string().contains("outboard carve"));
    assert!(matches!(inspect(b"UCPL \0\0\0"), Err(InspectError::Ucpl(_))));
    assert!(matches!(inspect(b"MZ"), Err(InspectError::Elf(_))));
    assert!(recognises(&twins::image("sunda_0").unwrap()) && recognises(b"!<arch>\n") && !recognises(b"\x7fELF"));
    let mut neither = twins::image("cayman_0").unwrap();
    neither[0x34] = 3;
    let error = inspect(&neither).unwrap_err();
    assert!(matches!(error, InspectError::Shape(_)), "{error}");
}

#[test]
fn a_prelinked_image_is_inspected_by_its_header() {
    let bounds = &outboard_ucode::cores::find("cayman").unwrap().bounds;
    let file = twins::image("cayman_0").unwrap();
    let image = outboard_link::pi::prelink(&outboard_link::pi::PrelinkRequest::new(&file, bounds)).unwrap().image();
    let report = json(&inspect(&image).unwrap());
    assert_eq!((report["size"].as_u64(), report["start_sym"].as_u64()), (Some(0x73cc), Some(0x1d610)));
    let damaged = |at: usize, value: u8| {
        let mut image = image.clone();
        image[at] = value;
        inspect(&image).unwrap_err().to_string()
    };
    assert!(damaged(8, 0x21).contains("code_seg_len at offset 0x8 is 0x6f21, expected 0x6f24"));
    assert!(damaged(0xc, 0x44).contains("data_seg_off at offset 0xc"));
    assert!(damaged(0x12, 1).contains("above the device's 0x10000"));
    assert!(inspect(&image[..100]).unwrap_err().to_string().contains("needs 0x73cc bytes, the file has 0x64"));
}

#[test]
fn reports_are_printed_with_every_table() {
    let text = inspect(&twins::image("cayman_0").unwrap()).unwrap().to_string();
    for line in [
        "PI image, 41568 bytes",
        "built by XtensaTools-14.09 clang version 10.0.1",
        "last 0x3c bytes zeroed",
        "DT_XTENSA_GOT_LOC_OFF  0x3000c0c",
        "   101 R_XTENSA_SLOT0_ALT",
        "0x0100001b 0x0100001e 0x0200025c",
        "0x020003b8 f0/1 -> 0x01003380 EXTENDED_INST COPY",
        "0x01000bc0 decode_pool(bool)",
        ".globstruct at 0x02000408: 34cb9960",
    ] {
        assert!(text.contains(line), "{line} in\n{text}");
    }
}
