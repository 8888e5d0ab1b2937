//! Literal pools: built, shared, split, and abandoned literals.

use super::support::{EXIT_A2, execute, layout, link_objects, link_sources, object, word};
use outboard_link::build::{Options, Patch};

#[test]
fn literals_are_gathered_in_a_pool_before_their_users_and_equal_ones_are_there_once() {
    // Both functions use 0x12345678, and the address of `table`.
    let source = |name: &str| {
        format!(
            ".section .text.{name}, \"ax\"\n.global {name}\n.type {name}, @function\n{name}:\n entry a1, 32\n \
             movi a2, 0x12345678\n movi a3, table\n l32i a3, a3, 4\n add a2, a2, a3\n retw\n .size {name}, . - {name}\n"
        )
    };
    let start = format!(
        ".section .text.start, \"ax\"\n.global _start\n_start:\n movi a4, first\n callx8 a4\n mov a2, a10\n movi a4, second\n \
         callx8 a4\n sub a2, a2, a10{EXIT_A2}"
    );
    let data = ".data\n.global table\ntable: .word 1, 2\n";
    let linked = link_sources(&[&start, &source("first"), &source("second"), data], &layout()).unwrap();
    assert_eq!(linked.pools, 1);
    let pool = linked.pieces.iter().find(|piece| piece.file == "literal pool").unwrap();
    assert_eq!(pool.address, linked.sections[0].address, "the pool stands first");
    assert_eq!(pool.size, 4 * 4, "first, second, 0x12345678, table");
    let words: Vec<u32> = (0..4).map(|i| word(&linked, pool.address + 4 * i)).collect();
    let value = |name: &str| linked.value(name).unwrap();
    assert_eq!(words, [value("first"), value("second"), 0x1234_5678, value("table")]);
    assert_eq!(execute(&linked), (String::new(), 0));
}

#[test]
fn a2_a8_a_program_larger_than_the_reach_of_l32r_gets_a_pool_before_each_group() {
    // Five functions of 100 KB each: literals behind or far before the code could not be reached.
    let mut sources = vec![format!(
        ".section .text.start, \"ax\"\n.global _start\n_start:\n movi a2, 0\n{}{EXIT_A2}",
        (0..5).map(|i| format!(" movi a4, f{i}\n callx8 a4\n add a2, a2, a10\n")).collect::<String>()
    )];
    for i in 0..5 {
        sources.push(format!(
            ".section .text.f{i}, \"ax\"\n.global f{i}\n.type f{i}, @function\nf{i}:\n entry a1, 32\n j over{i}\n \
             .space 100000\n.align 4\nover{i}:\n movi a2, {}\n movi a3, 0x7654321\n sub a2, a2, a3\n retw\n.size f{i}, . - f{i}\n",
            0x765_4321 + i
        ));
    }
    let sources: Vec<&str> = sources.iter().map(String::as_str).collect();
    let linked = link_sources(&sources, &layout()).unwrap();
    assert_eq!(linked.pools, 3, "{}", linked.map());
    assert_eq!(execute(&linked).1, 10, "the sum of 0 to 4");
    // Every l32r finds its literal within reach, before it.
    let loads =
        linked.sites.iter().filter(|site| matches!(site.patch, Patch::Operand(operand) if operand.is_literal()));
    let distances: Vec<u32> = loads.map(|site| site.place - site.target).collect();
    assert_eq!(distances.len(), 15);
    assert!(distances.iter().all(|distance| *distance <= 0x4_0000), "{distances:?}");
}

#[test]
fn a_function_larger_than_the_reach_is_refused_with_the_instruction_and_what_to_do() {
    let source = ".section .text.start, \"ax\"\n.global _start\n.type _start, @function\n_start:\n movi a2, 0x7654321\n \
                  .space 270000\n.align 4\n movi a3, 0x1234567\n .size _start, . - _start\n";
    let error = link_sources(&[source], &layout()).unwrap_err();
    let text = error.to_string();
    assert_eq!(error.first().explain(), "OB0706");
    assert!(text.starts_with("a.o:(.text.start+0x41eb4) in _start+0x41eb4: l32r at "), "{text}");
    assert!(text.contains("-ffunction-sections"), "{text}");
}

#[test]
fn a_literal_at_any_alignment_is_read_right() {
    // As LLVM places them: behind a function of odd size, in the section of that function.
    let source = format!(
        ".section .text.first, \"ax\"\n.global first\n.type first, @function\nfirst:\n entry a1, 32\n movi.n a2, 1\n \
         retw\n.size first, . - first\nliteral: .word 0x1020304\n.section .text.start, \"ax\"\n.global _start\n_start:\n \
         l32r a2, literal\n extui a2, a2, 16, 8\n{EXIT_A2}"
    );
    let linked = link_sources(&[&source], &layout()).unwrap();
    assert_eq!(execute(&linked).1, 2);
    assert_eq!(
        linked.pieces.iter().filter(|piece| piece.name == ".text.first").count(),
        0,
        "nobody needs the function"
    );
}

#[test]
fn a_relocation_on_an_abandoned_literal_keeps_nothing_alive() {
    // `unused` is needed only by a literal of `dead`; both the literal and the code of `alive` lie in one section.
    let source = format!(
        ".section .text.start, \"ax\"\n.global _start\n_start:\n movi a4, alive\n callx8 a4\n mov a2, a10{EXIT_A2}\
         .section .text.alive, \"ax\"\n.global alive\n.type alive, @function\nalive:\n entry a1, 32\n movi a2, 7\n retw\n\
         .size alive, . - alive\n.align 4\nliteral: .word unused\n\
         .section .text.dead, \"ax\"\n.global dead\n.type dead, @function\ndead:\n entry a1, 32\n l32r a2, literal\n retw\n\
         .size dead, . - dead\n"
    );
    let linked = link_sources(&[&source], &layout()).unwrap();
    assert_eq!(execute(&linked).1, 7);
    // Needed after all, the name is undefined.
    let mut needed = layout();
    needed.required.push("dead".to_owned());
    let error = link_sources(&[&source], &needed).unwrap_err().to_string();
    assert!(error.starts_with("undefined symbols:\n  unused\n    used at a.o:(.text.dead+0x3) in dead+0x3"), "{error}");
}

#[test]
fn a_word_that_the_program_may_change_is_not_copied() {
    let source = |region: &str| {
        format!(
            ".section .text.start, \"ax\"\n.global _start\n_start:\n l32r a2, counter\n{EXIT_A2}\
             .section {region}, \"aw\"\n.global counter\n.type counter, @object\ncounter: .word 9\n.size counter, 4\n"
        )
    };
    // Behind the code an l32r cannot reach it.
    let error = link_sources(&[&source(".data")], &layout()).unwrap_err();
    assert_eq!(error.first().explain(), "OB0706");
    assert!(error.to_string().contains("l32r at 0x01000000 cannot reach counter at "), "{error}");
    // Before the code it is read where it is.
    let mut before = layout();
    let data = before.sections.remove(2);
    before.sections.insert(0, data);
    let linked = link_sources(&[&source(".data")], &before).unwrap();
    assert_eq!((linked.pools, execute(&linked).1), (0, 9));
}

#[test]
fn literals_of_weak_names_that_nobody_defines_are_zero() {
    let source = format!(
        ".section .text.start, \"ax\"\n.global _start\n.weak hook\n_start:\n movi a2, hook\n bnez a2, called\n movi a2, 5\n\
         called:{EXIT_A2}"
    );
    let linked = link_sources(&[&source], &layout()).unwrap();
    assert_eq!(execute(&linked).1, 5);
}

#[test]
fn const16_pairs_hold_both_halves_of_an_address() {
    let source = ".section .text.start, \"ax\"\n.global _start\n_start:\n const16 a2, hi(value)\n const16 a2, lo(value)\n nop\n\
                  .section .rodata, \"a\"\n.global value\nvalue: .word 1\n";
    let mut far = layout();
    far.regions[0].base = 0x8123_0000;
    let linked = link_objects(&[object(source)], &far, &Options::default()).unwrap();
    let value = linked.value("value").unwrap();
    let code = &linked.sections[0].data;
    let half = |at: usize| u32::from(code[at]) | u32::from(code[at + 1]) << 8;
    assert_eq!(half(1) << 16 | half(4), value);
    assert!(linked.elf().is_ok(), "the file is verified too, with the bytes behind each instruction");
    let patches: Vec<Patch> = linked.sites.iter().map(|site| site.patch).collect();
    assert_eq!(patches, [Patch::HighHalf, Patch::LowHalf]);
    assert!(linked.sites.iter().all(|site| site.moves() && linked.symbol_of(site) == Some("value")));
}
