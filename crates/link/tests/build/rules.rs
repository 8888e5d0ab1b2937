//! Symbols, archives, collection of sections, layout and the image.

use super::support::{EXIT_A2, execute, layout, link_objects, link_sources, link_sources_with, object, word};
use outboard_elf::{Elf, SymbolTable, pf};
use outboard_link::build::{Inputs, Options, Order, OutputSection, Value, link};

fn start(body: &str) -> String {
    format!(".section .text.start, \"ax\"\n.global _start\n_start:\n{body}{EXIT_A2}")
}

/// A function that returns a number, in a section of its own.
fn function(name: &str, value: u32) -> String {
    format!(
        ".section .text.{name}, \"ax\"\n.global {name}\n.type {name}, @function\n{name}:\n entry a1, 32\n movi a2, {value}\n \
         retw\n.size {name}, . - {name}\n"
    )
}

/// An archive of objects.
fn archive(members: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut file = b"!<arch>\n".to_vec();
    for (name, data) in members {
        file.extend(format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n", 0, 0, 0, 644, data.len()).bytes());
        file.extend(data);
        if data.len() % 2 == 1 {
            file.push(b'\n');
        }
    }
    file
}

/// The object with its undefined symbol made a common one, aligned to 8.
fn common(mut object: Vec<u8>, size: u32) -> Vec<u8> {
    let elf = Elf::parse(&object).unwrap();
    let table = elf.sections().unwrap().by_name(b".symtab").unwrap();
    let symbols = SymbolTable::new(elf.header().class, elf.sections().unwrap().data(&table).unwrap());
    let number = symbols.iter().position(|symbol| symbol.name != 0 && symbol.shndx == 0).unwrap();
    let at = usize::try_from(table.offset).unwrap() + 16 * number;
    object[at + 4..at + 8].copy_from_slice(&8u32.to_le_bytes());
    object[at + 8..at + 12].copy_from_slice(&size.to_le_bytes());
    object[at + 14..at + 16].copy_from_slice(&0xfff2u16.to_le_bytes());
    object
}

const CALL: &str = " movi a4, callee\n callx8 a4\n mov a2, a10\n";

#[test]
fn a_strong_definition_stands_above_a_weak_one_wherever_it_is() {
    let weak = function("callee", 1).replace(".global", ".weak");
    let strong = function("callee", 2);
    for sources in [[&weak, &strong], [&strong, &weak]] {
        let linked = link_sources(&[&start(CALL), sources[0], sources[1]], &layout()).unwrap();
        assert_eq!(execute(&linked).1, 2);
    }
    let linked = link_sources(&[&start(CALL), &weak, &weak.replace(", 1", ", 3")], &layout()).unwrap();
    assert_eq!(execute(&linked).1, 1, "of two weak ones the first counts");
}

#[test]
fn members_of_archives_are_taken_by_need_whatever_the_order() {
    let library = archive(&[
        ("unused.o/", object(&function("unused", 9))),
        (
            "outer.o/",
            object(&(function("callee", 0).replace(" movi a2, 0\n", " movi a4, inner\n callx8 a4\n mov a2, a10\n"))),
        ),
        ("second.o/", object(&function("inner", 99))),
    ]);
    let deep = archive(&[("inner.o/", object(&function("inner", 4)))]);
    let main = object(&start(CALL));
    // Of two definitions, the archive that was given first has the one that counts.
    for (files, expected) in [([&main, &deep, &library], 4), ([&library, &deep, &main], 99)] {
        let mut inputs = Inputs::new();
        for (name, file) in ["x", "y", "z"].iter().zip(files) {
            inputs.add(name, file).unwrap();
        }
        let linked = link(inputs, &layout(), &Options::default()).unwrap();
        assert!(!linked.pieces.iter().any(|piece| piece.file.contains("unused")), "{}", linked.map());
        assert_eq!(execute(&linked).1, expected);
    }
}

#[test]
fn a_weak_reference_takes_no_member() {
    let main = object(&start(" movi a2, callee\n").replace(".global _start\n", ".global _start\n.weak callee\n"));
    let library = archive(&[("callee.o/", object(&function("callee", 1)))]);
    let mut inputs = Inputs::new();
    inputs.add("main.o", &main).unwrap();
    inputs.add("lib.a", &library).unwrap();
    let linked = link(inputs, &layout(), &Options::default()).unwrap();
    assert_eq!((linked.value("callee"), execute(&linked).1), (None, 0));
}

#[test]
fn sections_that_nothing_needs_are_left_out_unless_all_are_kept() {
    let sources = [&start(" movi a2, 3\n"), &function("unused", 1)];
    let linked = link_sources(&sources.map(String::as_str), &layout()).unwrap();
    assert_eq!(linked.dropped.0, 1);
    assert_eq!(linked.value("unused"), None);
    let all = Options { keep_all: true, ..Options::default() };
    let linked = link_sources_with(&sources.map(String::as_str), &layout(), &all).unwrap();
    assert!(linked.value("unused").is_some() && linked.dropped.0 == 0);
    let mut required = layout();
    required.required.push("unused".to_owned());
    assert!(link_sources(&sources.map(String::as_str), &required).unwrap().value("unused").is_some());
}

#[test]
fn names_that_only_left_out_sections_use_need_no_definition() {
    let dead = ".section .text.dead, \"ax\"\ndead:\n movi a4, nowhere\n";
    assert!(link_sources(&[&start(" movi a2, 0\n"), dead], &layout()).is_ok());
}

#[test]
fn constructors_stay_in_the_order_of_their_priority_and_have_bounds() {
    let walk = " movi a2, 0\n movi a4, __init_array_start\n movi a5, __init_array_end\nnext:\n beq a4, a5, done\n \
                l32i a6, a4, 0\n slli a2, a2, 2\n add a2, a2, a6\n addi a4, a4, 4\n j next\ndone:\n";
    let tables = ".section .init_array.00200, \"aw\"\n .word 2\n.section .init_array, \"aw\"\n .word 3\n\
                  .section .init_array.00100, \"aw\"\n .word 1\n";
    let linked = link_sources(&[&start(walk), tables], &layout()).unwrap();
    assert_eq!(execute(&linked).1, 0b01_10_11);
}

#[test]
fn names_for_an_empty_section_are_aligned_like_it_and_take_no_room() {
    let mut tables = layout();
    tables.section(OutputSection::new("odd", "ram", &["odd"]).keep());
    tables.section(OutputSection::new(".ctors", "ram", &[".ctors"]).align(4).bounds("first", "none"));
    tables.section(OutputSection::new("bytes", "ram", &["bytes"]).keep().bounds("behind", "last"));
    let odd = ".section odd, \"a\"\n .byte 1\n.section bytes, \"a\"\n .byte 2\n";
    let linked = link_sources(&[&start(" movi a2, 0\n"), odd], &tables).unwrap();
    let [first, none, behind] = ["first", "none", "behind"].map(|name| linked.value(name).unwrap());
    assert!(first % 4 == 0 && first == none && first - behind < 4, "{first:#x} {none:#x} {behind:#x}");
    assert_eq!(linked.value("last"), Some(behind + 1));
}

#[test]
fn tables_that_are_walked_from_the_end_have_the_highest_number_last() {
    let tables = ".section .ctors.65434, \"aw\"\n .word 3\n.section .ctors, \"aw\"\n .word 1\n\
                  .section .ctors.65433, \"aw\"\n .word 2\n";
    let mut reversed = layout();
    let table = OutputSection::new(".ctors", "ram", &[".ctors", ".ctors.*"]);
    reversed.section(table.order(Order::ReversePriority).bounds("first", "last"));
    let linked = link_sources(&[&start(" movi a2, 0\n"), tables], &reversed).unwrap();
    let first = linked.value("first").unwrap();
    assert_eq!(
        [0, 4, 8].map(|offset| word(&linked, first + offset)),
        [1, 2, 3],
        "and they stay without being asked for"
    );
}

#[test]
fn the_bounds_of_a_section_with_the_name_of_a_c_identifier_are_defined_when_used() {
    let walk = " movi a2, __start_items\n movi a3, __stop_items\n sub a2, a3, a2\n";
    let items = ".section items, \"a\"\n .word 1, 2, 3\n.section .rodata, \"a\"\n .word 7\n";
    let more = ".section items, \"a\"\n .word 4\n";
    let mut with_items = layout();
    with_items.sections[1].inputs.push("items".to_owned());
    let linked = link_sources(&[&start(walk), items, more], &with_items).unwrap();
    assert_eq!(execute(&linked).1, 16);
}

#[test]
fn common_symbols_get_the_largest_size_and_zeros() {
    let main = start(" movi a3, shared\n l32i a2, a3, 60\n extui a3, a3, 0, 3\n or a2, a2, a3\n");
    let objects = [common(object(&main), 4), common(object(".data\n .word shared\n"), 64)];
    let linked = link_objects(&objects, &layout(), &Options::default()).unwrap();
    let piece = linked.pieces.iter().find(|piece| piece.name == "COMMON").unwrap();
    assert_eq!((piece.size, execute(&linked).1), (64, 0));
}

#[test]
fn symbols_of_the_layout_have_their_values() {
    let mut named = layout();
    named.section(OutputSection::new(".stack", "ram", &[]).reserve(0x400).align(16).bounds("stack", "stack_top"));
    named.symbol("answer", Value::Number(42));
    named.symbol("free", Value::RegionFree("ram".to_owned()));
    named.symbol("end", Value::RegionEnd("ram".to_owned()));
    named.symbol("stack_size", Value::Size(".stack".to_owned()));
    let linked = link_sources(&[&start(" movi a2, answer\n")], &named).unwrap();
    assert_eq!(execute(&linked).1, 42);
    let value = |name: &str| linked.value(name).unwrap();
    assert_eq!(value("stack_top") - value("stack"), 0x400);
    assert_eq!((value("free"), value("end")), (value("stack_top"), 0x200_0000));
    assert_eq!(value("stack_size"), 0x400);
    let stack = linked.sections.last().unwrap();
    assert_eq!((stack.flags, stack.data.len(), stack.address % 16), (pf::R | pf::W, 0, 0));
}

#[test]
fn every_site_is_in_the_result_with_what_it_refers_to() {
    let source = start(" movi a4, callee\n callx8 a4\n mov a2, a10\n") + ".data\n .word callee + 4\n";
    let kept = Options { keep_all: true, ..Options::default() };
    let linked = link_sources_with(&[&source, &function("callee", 6)], &layout(), &kept).unwrap();
    let callee = linked.value("callee").unwrap();
    let words: Vec<_> = linked.sites.iter().filter(|site| site.name == "R_XTENSA_32").collect();
    let found: Vec<_> =
        words.iter().map(|site| (site.section, site.target, site.addend, linked.symbol_of(site))).collect();
    assert_eq!(found, [(0, callee, 0, Some("callee")), (2, callee + 4, 4, Some("callee"))]);
    assert!(
        words
            .iter()
            .all(|site| site.moves() && site.target_section == Some(0) && word(&linked, site.place) == site.target)
    );
    let load = linked.sites.iter().find(|site| site.name == "R_XTENSA_SLOT0_OP").unwrap();
    assert!(!load.moves());
    assert_eq!(load.target, words[0].place);
}

#[test]
fn the_same_inputs_give_the_same_bytes() {
    let sources = [start(CALL), function("callee", 6), function("unused", 7)];
    let sources: Vec<&str> = sources.iter().map(String::as_str).collect();
    let first = link_sources(&sources, &layout()).unwrap();
    for _ in 0..8 {
        let again = link_sources(&sources, &layout()).unwrap();
        assert_eq!(again.elf().unwrap(), first.elf().unwrap());
        assert_eq!(again.map(), first.map());
    }
}

#[test]
fn the_file_has_segments_sections_and_symbols() {
    let source = start(" movi a2, counter\n l32i a2, a2, 0\n")
        + ".data\n.global counter\n.type counter, @object\ncounter: .word 8\n.size counter, 4\n.bss\n.global zero\nzero: .space 64\n";
    let mut required = layout();
    required.required.push("zero".to_owned());
    let linked = link_sources(&[&source], &required).unwrap();
    let file = linked.elf().unwrap();
    let elf = Elf::parse(&file).unwrap();
    let segments: Vec<_> =
        elf.load_segments().map(|s| (s.flags, s.vaddr, s.offset % 0x1000 == s.vaddr % 0x1000)).collect();
    assert_eq!(segments, [(pf::R | pf::X, 0x100_0000, true), (pf::R | pf::W, 0x100_1000, true)]);
    let data = elf.load_segments().nth(1).unwrap();
    assert_eq!((data.filesz, data.memsz), (4, 68));
    let sections = elf.sections().unwrap();
    let symbols = sections.by_name(b".symtab").unwrap();
    let table = SymbolTable::new(elf.header().class, sections.data(&symbols).unwrap());
    let counter =
        table.iter().find(|symbol| symbol.value == u64::from(linked.value("counter").unwrap()) && symbol.size == 4);
    assert_eq!(counter.map(|symbol| (symbol.info, symbol.local())), Some((0x11, false)));
    assert_eq!(execute(&linked).1, 8);
}

#[test]
fn an_object_without_anything_adds_nothing() {
    let linked = link_objects(&[object(&start(" movi a2, 1\n")), object("")], &layout(), &Options::default()).unwrap();
    assert_eq!(execute(&linked).1, 1);
}

#[test]
fn sections_with_other_permissions_start_on_a_page_of_their_own() {
    let source = start(" movi a2, one\n movi a3, two\n movi a4, three\n")
        + ".section .rodata, \"a\"\n.global one\none: .word 1\n.data\n.global two\ntwo: .word 2\n.bss\n.global three\nthree: .space 8\n";
    let mut paged = layout();
    paged.sections.iter_mut().for_each(|section| section.align = 4);
    paged.section(OutputSection::new(".heap", "ram", &[]).reserve(64));
    let apart = |paged| {
        let linked = link_sources(&[&source], &paged).unwrap();
        linked
            .sections
            .iter()
            .filter(|section| section.size > 0)
            .map(|section| section.address & 0xfff)
            .collect::<Vec<_>>()
    };
    assert!(apart(paged.clone())[1..].iter().all(|offset| *offset != 0));
    paged.page = Some(0x1000);
    assert_eq!(apart(paged), [0, 0, 0, 4, 12], "code, constants, then data, zeros and heap together");
}
