//! What is refused, by name and place.

use super::support::{layout, link_objects, link_sources, object};
use outboard_link::build::{BuildError, Inputs, Options, OutputSection};

fn start(body: &str) -> String {
    format!(
        ".section .text.start, \"ax\"\n.global _start\n.type _start, @function\n_start:\n{body}\n.size _start, . - _start\n"
    )
}

/// An object with the type of its first relocation of a section changed.
fn with_type(source: &str, number: u8) -> Vec<u8> {
    let mut object = object(source);
    let elf = outboard_elf::Elf::parse(&object).unwrap();
    let sections = elf.sections().unwrap();
    let table = sections.iter().find(|section| section.kind == 4).unwrap();
    let at = usize::try_from(table.offset).unwrap() + 4;
    object[at] = number;
    object
}

fn refused(objects: &[Vec<u8>]) -> (String, &'static str) {
    let error = link_objects(objects, &layout(), &Options::default()).unwrap_err();
    (error.to_string(), error.first().explain())
}

#[test]
fn b1_undefined_names_are_reported_all_at_once_with_places_and_near_names() {
    let source = start(" movi a2, alpha\n movi a3, beta\n movi a4, alpha\n") + ".global alpho\nalpho:\n";
    let error = link_sources(&[&source, ".section .text.x\n"], &layout()).unwrap_err();
    let BuildError::Undefined { symbols } = error.first() else { panic!("{error}") };
    let names: Vec<&str> = symbols.iter().map(|symbol| symbol.name.as_str()).collect();
    assert_eq!(names, ["alpha", "beta"]);
    assert_eq!((symbols[0].places.len(), symbols[0].near.as_slice()), (2, &["alpho".to_owned()][..]));
    assert_eq!(symbols[1].places[0].to_string(), "a.o:(.text.start+0x3) in _start+0x3");
}

#[test]
fn a_name_with_two_strong_definitions_is_refused_with_both_files() {
    let two = ".global twice\ntwice: .word 1\n";
    let error = link_sources(&[&start(" nop\n"), two, two], &layout()).unwrap_err();
    assert_eq!(error.to_string(), "twice is defined twice: in b.o and in c.o; remove one or make it weak");
    let mut clash = layout();
    clash.section(OutputSection::new(".x", "ram", &[]).bounds("twice", "end"));
    let error = link_sources(&[&start(" nop\n"), two], &clash).unwrap_err();
    assert_eq!(error.to_string(), "twice is defined twice: in the layout and in b.o; remove one or make it weak");
}

#[test]
fn types_of_loaded_programs_are_refused_by_name_and_place() {
    for (number, name) in [
        (2, "R_XTENSA_RTLD"),
        (3, "R_XTENSA_GLOB_DAT"),
        (4, "R_XTENSA_JMP_SLOT"),
        (5, "R_XTENSA_RELATIVE"),
        (50, "R_XTENSA_TLSDESC_FN"),
        (53, "R_XTENSA_TLS_TPOFF"),
        (21, "R_XTENSA_SLOT1_OP"),
        (49, "R_XTENSA_SLOT14_ALT"),
        (8, "R_XTENSA_OP0"),
    ] {
        let (text, code) = refused(&[with_type(&start(" nop\n .word _start\n"), number)]);
        assert!(text.starts_with(&format!("a.o:(.text.start+0x3) in _start+0x3: {name}: ")), "{text}");
        assert_eq!(code, "OB0704");
    }
    for number in [7, 13, 63, 255] {
        let (text, code) = refused(&[with_type(&start(" nop\n .word _start\n"), number)]);
        assert!(text.contains(&format!("relocation type {number} is not known")), "{text}");
        assert_eq!(code, "OB0704");
    }
}

#[test]
fn a10_hints_and_differences_are_taken_and_change_nothing() {
    for number in [0, 11, 12, 15, 16, 17, 18, 19, 57, 58, 59, 60, 61, 62] {
        let linked =
            link_objects(&[with_type(&start(" nop\n .word _start\n"), number)], &layout(), &Options::default());
        assert_eq!(linked.unwrap().sites.len(), 0, "type {number}");
    }
}

#[test]
fn a_slot_relocation_on_an_opcode_without_that_field_is_refused_with_the_bytes() {
    let slot = |body: &str| refused(&[with_type(&start(body), 20)]);
    // A word becomes an instruction that has no target.
    let (text, code) = slot(" nop\n .word _start\n");
    assert!(
        text.contains("R_XTENSA_SLOT0_OP on an instruction without such an operand (bytes [00, 00, 00])"),
        "{text}"
    );
    assert_eq!(code, "OB0705");
    let (text, code) = refused(&[with_type(&start(" j _start\n l32r a2, _start\n"), 35)]);
    assert!(text.contains("only const16 takes the high half"), "{text}");
    assert_eq!(code, "OB0705");
}

#[test]
fn a_flix_bundle_is_refused_by_name() {
    let mut object = object(&start(" nop\n .word _start\n"));
    let at = object.windows(4).position(|bytes| bytes == [0xf0, 0x20, 0x00, 0x00]).unwrap() + 3;
    object[at] = 0x1f;
    let elf = outboard_elf::Elf::parse(&object).unwrap();
    let table = elf.sections().unwrap().iter().find(|section| section.kind == 4).unwrap();
    object[usize::try_from(table.offset).unwrap() + 4] = 20;
    let (text, code) = refused(&[object]);
    assert!(text.contains("FLIX bundle"), "{text}");
    assert_eq!(code, "OB0705");
}

#[test]
fn a9_a_jump_beyond_its_reach_is_refused_with_both_addresses() {
    let far = start(" j target\n") + ".section .rodata, \"a\"\n.space 140000\n.global target\ntarget: .word 0\n";
    let error = link_sources(&[&far], &layout()).unwrap_err();
    let text = error.to_string();
    assert!(
        text.starts_with("a.o:(.text.start+0x0) in _start+0x0: j at 0x01000000 cannot reach target at 0x010232e0"),
        "{text}"
    );
    assert!(text.contains("not within -131072 to 131071"), "{text}");
    let odd = start(" call8 target\n") + ".section .text.t, \"ax\"\n nop\n.global target\ntarget: nop\n";
    let text = link_sources(&[&odd], &layout()).unwrap_err().to_string();
    assert!(text.contains("in steps of 4; align the target"), "{text}");
}

#[test]
fn sections_without_a_place_are_reported_all_at_once() {
    let source = start(" movi a2, one\n movi a3, two\n")
        + ".section .special, \"a\"\n.global one\none: .word 1\n.section .odd, \"aw\"\n.global two\ntwo: .word 2\n";
    let error = link_sources(&[&source], &layout()).unwrap_err();
    let expected = "the layout has no place for these sections: a.o:(.special), a.o:(.odd); ";
    assert!(error.to_string().starts_with(expected), "{error}");
}

#[test]
fn a_full_region_says_how_many_bytes_are_missing() {
    let mut small = layout();
    small.regions[0].size = 0x100;
    small.sections[1].align = 4;
    small.sections[2].align = 4;
    let error = link_sources(
        &[&(start(" movi a2, big\n") + ".section .rodata, \"a\"\n.global big\nbig: .space 0x200\n")],
        &small,
    );
    let text = error.unwrap_err().to_string();
    assert!(text.contains("section .rodata needs 0x200 bytes at 0x1000008") && text.contains("by 0x108"), "{text}");
}

#[test]
fn files_that_are_no_objects_are_refused() {
    let mut inputs = Inputs::new();
    let linked = link_sources(&[&start(" nop\n")], &layout()).unwrap().elf().unwrap();
    let error = inputs.add("x.elf", &linked).unwrap_err();
    assert_eq!(
        error.to_string(),
        "x.elf: an executable, which is linked already; pass relocatable Xtensa objects and archives of them"
    );
    let mut other = object("");
    other[18] = 62;
    other[4] = 2;
    assert_eq!(inputs.add("host.o", &other).unwrap_err().explain(), "OB0701");
    let mut bitcode = b"!<arch>\n".to_vec();
    bitcode.extend(format!("{:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\nBC\u{c0}", "a.o/", 0, 0, 0, 644, 4).bytes());
    let at = bitcode.len() - 2;
    bitcode.truncate(at);
    bitcode.extend([0xc0, 0xde]);
    assert!(inputs.add("lto.a", &bitcode).unwrap_err().to_string().contains("bitcode"));
}

#[test]
fn every_cut_of_an_object_is_an_error_or_links_to_the_same_image() {
    let whole =
        object(&start(" movi a2, value\n").replace(".size", ".data\nvalue: .word 5\n.section .text.start\n.size"));
    let image = link_objects(std::slice::from_ref(&whole), &layout(), &Options::default()).unwrap();
    for end in 0..whole.len() {
        let cut = link_objects(&[whole[..end].to_vec()], &layout(), &Options::default());
        if let Ok(cut) = cut {
            assert_eq!(cut, image);
        }
    }
}
