//! The rules of loading C7x modules, one test each (docs/reference/loader.md).
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use outboard_elf::write::{Home, ImageBuilder, RelocationSpec, SegmentSpec, SymbolSpec};
use outboard_elf::{dt, et, machine, pf};
use outboard_link::{
    ExportTable, Initialisers, LoadError, LoadOptions, LoadRequest, PoolMemory, SegmentKind, SegmentRequest,
    TargetMemory, load,
};
use support::*;

fn firmware_of(names: &[(&str, u64)]) -> ExportTable {
    names.iter().copied().collect()
}

#[test]
fn the_firmwares_definition_pre_empts_the_modules_own_unless_it_is_hidden() {
    for (hidden, expected) in [(false, 0xa220_0000), (true, POOL + 0x20)] {
        let (mut image, text, data) = small();
        let own = SymbolSpec::function("memcpy", text, 0x20, 8);
        let own = image.symbol(if hidden { own.hidden() } else { own });
        image.relocate(RelocationSpec::new(data, 8, ABS64, own, 0));
        image.needed("dsp_syms.out").firmware_symbols(&[]);
        let (module, memory) = loaded(&image.build(), &firmware_of(&[("memcpy", 0xa220_0000)]));
        assert_eq!(word(&memory, module.symbol("pointers").unwrap() + 8), expected);
        assert_eq!(module.symbol("memcpy"), Some(POOL + 0x20), "asked by name, the module answers with its own");
    }
}

#[test]
fn without_a_dependency_on_the_firmware_its_table_is_not_used() {
    let (mut image, _, data) = small();
    let import = image.symbol(SymbolSpec::import("memcpy"));
    image.relocate(RelocationSpec::new(data, 0, ABS64, import, 0));
    let error = refused(&image.build(), &firmware_of(&[("memcpy", 0xa220_0000)]));
    assert!(error.to_string().contains("dsp_syms.out"), "{error}");
}

#[test]
fn a_dependency_other_than_the_firmware_is_refused_by_name() {
    let (mut image, ..) = small();
    let error = refused(&image.needed("libm.so.6").build(), &ExportTable::new());
    assert_eq!(error.kind(), "missing_dependency");
    assert!(error.to_string().contains("libm.so.6"), "{error}");
}

#[test]
fn a_weak_undefined_symbol_is_an_error_on_the_c7x_and_zero_on_host_processors() {
    let (mut image, _, data) = small();
    let weak = image.symbol(SymbolSpec::import("absent").weak());
    image.relocate(RelocationSpec::new(data, 0, ABS64, weak, 0));
    image.needed("dsp_syms.out").firmware_symbols(&[]);
    assert_eq!(refused(&image.build(), &ExportTable::new()).symbols(), ["absent"]);

    let mut image = ImageBuilder::new(machine::X86_64);
    let data = image.segment(SegmentSpec::new(RW, vec![0x22; 64]));
    let weak = image.symbol(SymbolSpec::import("absent").weak());
    image.symbol(SymbolSpec::object("pointer", data, 8, 8));
    image.relocate(RelocationSpec::new(data, 8, 1, weak, 0));
    let (module, memory) = loaded(&image.build(), &ExportTable::new());
    assert_eq!(word(&memory, module.symbol("pointer").unwrap()), 0);
}

#[test]
fn a_symbol_that_nothing_uses_may_stay_undefined() {
    let (mut image, ..) = small();
    image.symbol(SymbolSpec::import("never_used"));
    image.needed("dsp_syms.out").firmware_symbols(&[]);
    let (module, _) = loaded(&image.build(), &ExportTable::new());
    assert_eq!(module.imports().collect::<Vec<_>>(), ["never_used"]);
    assert_eq!(module.symbol("never_used"), None, "only defined symbols are found");
}

#[test]
fn the_first_definition_of_a_name_counts() {
    let (mut image, text, data) = small();
    image.symbol(SymbolSpec::function("twice", text, 8, 4));
    let second = image.symbol(SymbolSpec::function("twice", text, 16, 4));
    image.relocate(RelocationSpec::new(data, 0, ABS64, second, 0));
    let (module, memory) = loaded(&image.build(), &ExportTable::new());
    assert_eq!(module.symbol("twice"), Some(POOL + 8));
    assert_eq!(word(&memory, module.symbol("pointers").unwrap()), POOL + 8);
}

#[test]
fn absolute_symbols_never_move_and_end_symbols_move_with_their_section() {
    let (mut image, text, data) = small();
    let address = image.address(text);
    let absolute = image.symbol(SymbolSpec::absolute("absolute", address + 4));
    let end = image.symbol(SymbolSpec::object("data_end", data, 64, 0));
    image.relocate(RelocationSpec::new(data, 0, ABS64, absolute, 0));
    image.relocate(RelocationSpec::new(data, 8, ABS64, end, 0));
    for file in [image.build(), image.clone().without_sections().build()] {
        let (module, memory) = loaded(&file, &ExportTable::new());
        let pointers = module.symbol("pointers").unwrap();
        assert_eq!(word(&memory, pointers), address + 4);
        assert_eq!(word(&memory, pointers + 8), pointers + 64);
    }
}

#[test]
fn a_symbol_outside_of_every_segment_is_refused_when_it_is_used() {
    let (mut image, _, data) = small();
    let lost = image.symbol(SymbolSpec { home: Home::Raw(77, 0x10), ..SymbolSpec::object("lost", data, 0, 0) });
    assert_eq!(loaded(&image.build(), &ExportTable::new()).0.symbol("lost"), None);
    image.relocate(RelocationSpec::new(data, 0, ABS64, lost, 0));
    let error = refused(&image.build(), &ExportTable::new());
    assert_eq!(error.symbols(), ["lost"]);
    assert!(error.to_string().contains("outside of every loaded segment"), "{error}");
}

#[test]
fn plt_relocations_are_applied_once_wherever_their_table_lies() {
    // As a part of DT_RELA (the C7x linker), and as a table of its own (host linkers); the part comes first.
    let (mut image, text, data) = small();
    let symbol = image.section_symbol(text);
    for (index, offset) in [0_u64, 0, 16].into_iter().enumerate() {
        image.relocate(RelocationSpec::new(data, offset, ABS64, symbol, i64::try_from(index).unwrap()));
    }
    let (module, memory) = loaded(&image.clone().plt(2).build(), &ExportTable::new());
    let pointers = module.symbol("pointers").unwrap();
    assert_eq!(module.relocations()["R_C7X_ABS64"], 3);
    assert_eq!(word(&memory, pointers), POOL, "entry 0 is applied after the PLT part, entries 1 and 2");
    assert_eq!(word(&memory, pointers + 16), POOL + 2);

    let apart = image.clone().plt(1).override_tag(dt::RELASZ, 48).build();
    let (module, memory) = loaded(&apart, &ExportTable::new());
    assert_eq!(module.relocations()["R_C7X_ABS64"], 3);
    assert_eq!(word(&memory, module.symbol("pointers").unwrap()), POOL + 1);

    let across = image.clone().plt(2).override_tag(dt::RELASZ, 48).build();
    assert_eq!(refused(&across, &ExportTable::new()).kind(), "bad_dynamic");
}

#[test]
fn relocation_tables_of_another_kind_or_size_are_refused() {
    let (mut image, text, data) = small();
    let symbol = image.section_symbol(text);
    image.relocate(RelocationSpec::new(data, 0, ABS64, symbol, 0));
    let kinds = [
        (image.clone().tag(dt::REL, 64).build(), "rel_unsupported"),
        (image.clone().plt(1).override_tag(dt::PLTREL, dt::REL).build(), "rel_unsupported"),
        (image.clone().override_tag(dt::RELAENT, 48).build(), "bad_relaent"),
        (image.clone().drop_tag(dt::RELAENT).build(), "bad_relaent"),
        (image.clone().override_tag(dt::RELASZ, 23).build(), "bad_dynamic"),
        (image.clone().override_tag(dt::RELA, 1 << 40).build(), "truncated"),
        (image.clone().drop_tag(dt::RELA).build(), "bad_dynamic"),
        (image.clone().override_tag(dt::SYMENT, 16).build(), "bad_dynamic"),
        (image.clone().override_tag(dt::STRSZ, u64::MAX).build(), "truncated"),
        (image.clone().drop_tag(dt::HASH).build(), "bad_dynamic"),
        (image.clone().override_tag(dt::C7X_GSYM_OFFSET, 25).build(), "bad_dynamic"),
        (image.clone().override_tag(dt::SONAME, 1 << 30).build(), "bad_string_offset"),
        (image.clone().kind(et::REL).build(), "bad_type"),
        (image.clone().without_dynamic().build(), "not_relocatable"),
    ];
    for (file, kind) in kinds {
        assert_eq!(refused(&file, &ExportTable::new()).kind(), kind);
    }
}

#[test]
fn unknown_dynamic_tags_are_ignored() {
    let (mut image, ..) = small();
    image.tag(dt::RELACOUNT, 7).tag(dt::PLTGOT, 9).tag(0x7fff_fff0, 1).tag(dt::FLAGS_1, 1);
    let _ = loaded(&image.build(), &ExportTable::new());
}

#[test]
fn segments_are_placed_in_header_order_aligned_and_zeroed_behind_their_bytes() {
    let mut image = ImageBuilder::new(machine::C7X);
    let text = image.segment(SegmentSpec::new(RX, vec![0x11; 100]));
    let data = image.segment(SegmentSpec::new(RW, vec![0x22; 10]).memsz(300).align(1024));
    image.symbol(SymbolSpec::object("text", text, 0, 0));
    image.symbol(SymbolSpec::object("data", data, 0, 0));
    let (module, memory) = loaded(&image.build(), &ExportTable::new());
    let bases: Vec<u64> = module.segments().iter().map(|segment| segment.base).collect();
    assert_eq!(bases, [POOL, POOL + 1024], "the second alignment is honoured");
    let mut expected = vec![0x22; 10];
    expected.resize(300, 0);
    assert_eq!(memory.bytes(bases[1], 300).unwrap(), expected);
    assert!(!module.segments()[0].perms.w && module.segments()[1].perms.w);
}

#[test]
fn impossible_segments_are_refused() {
    let build = |change: &dyn Fn(&mut outboard_elf::Segment)| {
        let (mut image, ..) = small();
        let mut header = outboard_elf::Segment {
            index: 0,
            header: 0,
            kind: 1,
            flags: RW,
            offset: 64,
            vaddr: 0x9000_0000,
            paddr: 0,
            filesz: 8,
            memsz: 8,
            align: 8,
        };
        change(&mut header);
        image.header(header).build()
    };
    type Change<'c> = &'c dyn Fn(&mut outboard_elf::Segment);
    let cases: [(Change<'_>, &str); 8] = [
        (&|h| h.filesz = 16, "bad_segment"),
        (&|h| h.offset = u64::MAX, "bad_segment"),
        (&|h| h.offset = 1 << 40, "bad_segment"),
        (&|h| h.align = 3, "bad_align"),
        (&|h| h.align = u64::MAX, "bad_align"),
        (&|h| h.memsz = 1 << 32, "segment_too_large"),
        (&|h| h.vaddr = u64::MAX - 3, "bad_segment"),
        (&|h| h.vaddr = 0x8000_0010, "bad_segment"),
    ];
    for (change, kind) in cases {
        assert_eq!(refused(&build(change), &ExportTable::new()).kind(), kind);
    }
    let _ = loaded(&build(&|_| {}), &ExportTable::new());
    let _ = loaded(&build(&|h| (h.memsz, h.filesz, h.vaddr) = (0, 0, 0x8000_0010)), &ExportTable::new());
    assert_eq!(refused(&build(&|h| h.memsz = 1 << 31), &ExportTable::new()).kind(), "out_of_memory");
    assert_eq!(refused(&build(&|h| h.align = 1 << 40), &ExportTable::new()).kind(), "out_of_memory");
}

fn with_constants(relocated: bool, memsz: u64, align: u64) -> Vec<u8> {
    let mut image = ImageBuilder::new(machine::C7X);
    let text = image.segment(SegmentSpec::new(RX, vec![0x11; 64]));
    let constants = image.segment(SegmentSpec::new(pf::R, vec![0x33; 256]).memsz(memsz).align(align));
    let start = image.symbol(SymbolSpec::object("weights", constants, 0, 0));
    image.relocate(RelocationSpec::new(text, 0, ABS64, start, 0));
    if relocated {
        let section = image.section_symbol(text);
        image.relocate(RelocationSpec::new(constants, 16, ABS64, section, 0));
    }
    image.build()
}

#[test]
fn constants_are_used_in_place_only_when_they_are_whole_aligned_and_not_relocated() {
    let exports = ExportTable::new();
    // (relocated, memsz, align, staging, in place)
    let cases = [
        (false, 256, 64, Some(STAGING), true),
        (false, 256, 64, None, false),
        (true, 256, 64, Some(STAGING), false),
        (false, 300, 64, Some(STAGING), false),
        (false, 256, 64, Some(STAGING + 8), false),
        (false, 256, 8192, Some(STAGING), false),
    ];
    for (relocated, memsz, align, staging, in_place) in cases {
        let file = with_constants(relocated, memsz, align);
        let mut memory = pool();
        let module = load(&LoadRequest { staging, ..request(&file, &exports) }, &mut memory).unwrap();
        let segment = module.segments()[1];
        assert_eq!(segment.in_place, in_place, "relocated {relocated}, memsz {memsz}, align {align}");
        assert_eq!(word(&memory, POOL), segment.base, "the code's pointer follows the constants");
        assert_eq!(segment.base % align, 0);
        if in_place {
            let elf = outboard_elf::Elf::parse(&file).unwrap();
            assert_eq!(segment.base, STAGING + elf.load_segments().nth(1).unwrap().offset);
        } else {
            let bytes = memory.bytes(segment.base, segment.memsz).unwrap();
            assert_eq!(bytes[255], 0x33);
            assert!(bytes[256..].iter().all(|byte| *byte == 0));
        }
        module.release(&mut memory);
        assert_eq!(memory.free(), POOL_SIZE);
    }
}

#[test]
fn several_modules_live_at_once_and_keep_their_own_bytes() {
    let mut memory = pool();
    let exports = ExportTable::new();
    let mut modules = Vec::new();
    for fill in 1..=8_u8 {
        let mut image = ImageBuilder::new(machine::C7X);
        let data = image.segment(SegmentSpec::new(RW, vec![fill; 1000]));
        let symbol = image.symbol(SymbolSpec::object("data", data, 0, 0));
        image.relocate(RelocationSpec::new(data, 992, ABS64, symbol, 0));
        modules.push(load(&request(&image.build(), &exports), &mut memory).unwrap().into_owned());
    }
    modules.remove(3).release(&mut memory);
    for (module, fill) in modules.iter().zip([1, 2, 3, 5, 6, 7, 8]) {
        let base = module.symbol("data").unwrap();
        assert_eq!(memory.bytes(base, 992).unwrap(), [fill; 992]);
        assert_eq!(word(&memory, base + 992), base);
    }
    for module in modules {
        module.release(&mut memory);
    }
    assert_eq!(memory.free(), POOL_SIZE);
}

#[test]
fn a_relocation_that_writes_nothing_may_stand_in_zeroed_memory() {
    let mut image = ImageBuilder::new(machine::C7X);
    let text = image.segment(SegmentSpec::new(RX, vec![0x11; 64]));
    let bss = image.segment(SegmentSpec::zeroed(RW, 64));
    let symbol = image.section_symbol(text);
    for offset in [0, 60, 63] {
        image.relocate(RelocationSpec::new(bss, offset, 0, symbol, 0));
    }
    let (module, _) = loaded(&image.build(), &ExportTable::new());
    assert_eq!(module.relocations()["R_C7X_NONE"], 3);
    image.relocate(RelocationSpec::new(bss, 64, 0, symbol, 0));
    assert_eq!(refused(&image.build(), &ExportTable::new()).kind(), "reloc_out_of_segment");
}

#[test]
fn strict_mode_refuses_branch_targets_with_low_bits_and_the_usual_mode_drops_them() {
    let (mut image, text, _) = small();
    let symbol = image.section_symbol(text);
    image.relocate(RelocationSpec::new(text, 16, 28, symbol, 33));
    let file = image.build();
    let (_, memory) = loaded(&file, &ExportTable::new());
    assert_eq!(memory.bytes(POOL + 16, 4).unwrap(), [0x11, 4, 0, 0], "(33 - 16) >> 2");
    let strict = LoadOptions { strict: true, ..LoadOptions::default() };
    let error = load_into(&file, &ExportTable::new(), &strict, &mut pool()).unwrap_err();
    assert_eq!((error.kind(), error.code()), ("misaligned_target", "OB0128"));
}

#[test]
fn initialisers_of_a_c7x_module_are_refused_or_collected_and_never_remembered() {
    let (mut image, text, data) = small();
    let symbol = image.section_symbol(text);
    image.relocate(RelocationSpec::new(data, 8, ABS64, symbol, 4));
    let table = image.address(data);
    let file = image.tag(dt::INIT_ARRAY, table + 8).tag(dt::INIT_ARRAYSZ, 8).build();
    let exports = ExportTable::new();
    let strict = LoadRequest { initialisers: Initialisers::Refuse, ..request(&file, &exports) };
    let mut memory = pool();
    assert_eq!(load(&strict, &mut memory).unwrap_err().kind(), "init_unsupported");
    let (good, ..) = small();
    let good = good.build();
    load(&LoadRequest { file: &good, ..strict }, &mut memory).unwrap().release(&mut memory);
    let (module, _) = loaded(&file, &exports);
    assert_eq!(module.initialisers(), [POOL + 4]);
}

#[test]
fn tables_of_initialisers_that_leave_their_segment_or_the_code_are_refused() {
    let (mut image, text, data) = small();
    let symbol = image.section_symbol(data);
    image.relocate(RelocationSpec::new(data, 8, ABS64, symbol, 0));
    let (code, table) = (image.address(text), image.address(data));
    let with = |tags: &[(u64, u64)]| {
        let mut image = image.clone();
        for (tag, value) in tags {
            image.tag(*tag, *value);
        }
        image.build()
    };
    let cases = [
        with(&[(dt::INIT_ARRAYSZ, 8)]),
        with(&[(dt::INIT_ARRAY, table + 8), (dt::INIT_ARRAYSZ, 12)]),
        with(&[(dt::INIT_ARRAY, table + 8), (dt::INIT_ARRAYSZ, 8)]),
        with(&[(dt::INIT_ARRAY, table + 60), (dt::INIT_ARRAYSZ, 8)]),
        with(&[(dt::INIT_ARRAY, 0x10), (dt::INIT_ARRAYSZ, u64::MAX - 7)]),
        with(&[(dt::FINI, table)]),
        with(&[(dt::INIT, 0x10)]),
    ];
    for file in cases {
        assert_eq!(refused(&file, &ExportTable::new()).kind(), "bad_dynamic");
    }
    let (module, _) = loaded(&with(&[(dt::INIT, code + 8), (dt::FINI, code + 16)]), &ExportTable::new());
    assert_eq!((module.initialisers(), module.finalisers()), (&[POOL + 8][..], &[POOL + 16][..]));
}

#[test]
fn finalisers_are_refused_where_initialisers_are() {
    let (image, text, _) = small();
    let exports = ExportTable::new();
    for tag in [dt::FINI, dt::INIT] {
        let file = image.clone().tag(tag, image.address(text)).build();
        let strict = LoadRequest { initialisers: Initialisers::Refuse, ..request(&file, &exports) };
        assert_eq!(load(&strict, &mut pool()).unwrap_err().kind(), "init_unsupported");
    }
}

#[test]
fn an_undefined_symbol_is_never_taken_for_one_of_a_segment_at_address_0() {
    let mut image = ImageBuilder::new(machine::C7X);
    let data = image.base(0).segment(SegmentSpec::new(RW, vec![0; 64]));
    let import = image.symbol(SymbolSpec::import("memcpy"));
    image.symbol(SymbolSpec::object("start", data, 0, 8));
    image.relocate(RelocationSpec::new(data, 8, ABS64, import, 0));
    image.needed("dsp_syms.out").firmware_symbols(&["memcpy"]);
    let (module, memory) = loaded(&image.build(), &firmware_of(&[("memcpy", 0xa220_0000)]));
    assert_eq!(module.symbol("start"), Some(POOL));
    assert_eq!(word(&memory, POOL + 8), 0xa220_0000);
    assert_eq!(refused(&image.build(), &ExportTable::new()).symbols(), ["memcpy"]);
}

#[test]
fn values_that_do_not_fit_are_counted_beyond_the_first() {
    let (mut image, text, data) = small();
    let symbol = image.section_symbol(text);
    for (offset, addend) in [(0, 1 << 40), (8, 0), (16, 1 << 41), (24, 1 << 42)] {
        image.relocate(RelocationSpec::new(data, offset, 17, symbol, addend - i64::try_from(POOL).unwrap()));
    }
    let text = refused(&image.build(), &ExportTable::new()).to_string();
    assert!(text.contains("relocation 0 (R_C7X_ABS32)") && text.contains("and 2 more like it"), "{text}");
}

fn host(machine: u16) -> (ImageBuilder, outboard_elf::write::SegmentId, outboard_elf::write::SegmentId) {
    let mut image = ImageBuilder::new(machine);
    let text = image.segment(SegmentSpec::new(RX, vec![0x90; 64]).align(4096));
    let data = image.segment(SegmentSpec::new(RW, vec![0; 64]).align(4096));
    image.symbol(SymbolSpec::function("cg_main_dsp", text, 0, 64));
    (image, text, data)
}

#[test]
fn host_modules_with_what_the_device_cannot_give_are_refused_by_name() {
    let exports = ExportTable::new();
    for (machine, kind, name) in [
        (machine::X86_64, 5, "R_X86_64_COPY"),
        (machine::X86_64, 37, "R_X86_64_IRELATIVE"),
        (machine::X86_64, 16, "R_X86_64_DTPMOD64"),
        (machine::AARCH64, 1024, "R_AARCH64_COPY"),
        (machine::AARCH64, 1032, "R_AARCH64_IRELATIVE"),
        (machine::AARCH64, 1031, "R_AARCH64_TLSDESC"),
    ] {
        let (mut image, text, data) = host(machine);
        let symbol = image.section_symbol(text);
        let error = refused(&image.relocate(RelocationSpec::new(data, 0, kind, symbol, 0)).build(), &exports);
        assert_eq!(error.kind(), "invalid_reloc_type");
        assert!(error.to_string().contains(name), "{error}");
    }
    let (mut image, text, data) = host(machine::X86_64);
    assert_eq!(refused(&image.clone().tag(dt::TEXTREL, 0).build(), &exports).kind(), "text_relocation");
    assert_eq!(refused(&image.clone().tag(dt::FLAGS, 4).build(), &exports).kind(), "text_relocation");
    let symbol = image.section_symbol(text);
    let in_code = image.clone().relocate(RelocationSpec::new(text, 8, 1, symbol, 0)).build();
    assert_eq!(refused(&in_code, &exports).kind(), "text_relocation");
    let tls = outboard_elf::Segment {
        index: 0,
        header: 0,
        kind: outboard_elf::pt::TLS,
        flags: 4,
        offset: 64,
        vaddr: 0,
        paddr: 0,
        filesz: 8,
        memsz: 8,
        align: 8,
    };
    assert_eq!(refused(&image.clone().header(tls).build(), &exports).kind(), "thread_local");
    let ifunc = SymbolSpec { kind: outboard_elf::stt::GNU_IFUNC, ..SymbolSpec::function("chosen", text, 0, 8) };
    let ifunc = image.symbol(ifunc.hidden());
    image.relocate(RelocationSpec::new(data, 0, 1, ifunc, 0));
    let error = refused(&image.build(), &exports);
    assert!(error.to_string().contains("ifunc"), "{error}");
}

#[test]
fn a_missing_processor_feature_is_named_with_both_sides() {
    let (mut image, ..) = host(machine::X86_64);
    let text = b"arch=x86-64\nfeatures=sse3,avx512f\nbuilder=outboard.build 0.1.0\n";
    let file = image.note("Outboard", 1, text).build();
    let exports = ExportTable::new();
    let has = |name: &str| name == "sse3";
    let checked = LoadRequest { cpu_features: Some(&has), ..request(&file, &exports) };
    let error = load(&checked, &mut pool()).unwrap_err();
    assert_eq!(error.kind(), "missing_cpu_feature");
    let text = error.to_string();
    assert!(text.contains("no avx512f") && text.contains("sse3, avx512f") && text.contains("outboard.build"), "{text}");
    let _ = load(&LoadRequest { cpu_features: Some(&|_| true), ..checked }, &mut pool()).unwrap();
    let _ = load(&LoadRequest { cpu_features: None, ..checked }, &mut pool()).unwrap();
    let elf = outboard_elf::Elf::parse(&file).unwrap();
    assert_eq!(outboard_link::module_note(&elf).unwrap().features, ["sse3", "avx512f"]);
    assert_eq!(outboard_link::manifest(&elf), None);
    let damaged = host(machine::X86_64).0.note("Outboard", 1, &[0xff, 0xfe]).build();
    let damaged = LoadRequest { file: &damaged, ..checked };
    assert_eq!(load(&damaged, &mut pool()).unwrap_err().kind(), "bad_note");
}

#[test]
fn packed_relative_relocations_move_their_words() {
    let (mut image, text, data) = host(machine::X86_64);
    let target = image.address(text) + 8;
    let mut bytes = vec![0; 1024];
    let offsets = [0_u64, 8, 24, 512, 1016];
    for offset in offsets {
        let at = usize::try_from(offset).unwrap();
        bytes[at..at + 8].copy_from_slice(&target.to_le_bytes());
    }
    let table = image.segment(SegmentSpec::new(RW, bytes));
    image.symbol(SymbolSpec::object("table", table, 0, 0));
    for offset in offsets {
        image.relocate_relative(table, offset);
    }
    let (module, memory) = loaded(&image.build(), &ExportTable::new());
    let (base, entry) = (module.symbol("table").unwrap(), module.symbol("cg_main_dsp").unwrap());
    for offset in offsets {
        assert_eq!(word(&memory, base + offset), entry + 8);
    }
    assert_eq!(module.relocations()["DT_RELR"], 5);
    for (place, kind) in [(60, "reloc_out_of_segment"), (1 << 40, "reloc_out_of_segment")] {
        let file = image.clone().relocate_relative(data, place).build();
        assert_eq!(refused(&file, &ExportTable::new()).kind(), kind);
    }
    assert_eq!(refused(&image.relocate_relative(text, 0).build(), &ExportTable::new()).kind(), "text_relocation");
}

#[test]
fn own_definitions_come_first_in_a_symbolic_host_module() {
    for (symbolic, expected_own) in [(false, false), (true, true)] {
        let (mut image, text, data) = host(machine::X86_64);
        let own = image.symbol(SymbolSpec::function("memcpy", text, 16, 8));
        image.symbol(SymbolSpec::object("pointer", data, 0, 8));
        image.relocate(RelocationSpec::new(data, 0, 1, own, 0));
        if symbolic {
            image.tag(dt::FLAGS, 2);
        }
        let (module, memory) = loaded(&image.build(), &firmware_of(&[("memcpy", 0x7000)]));
        let pointer = word(&memory, module.symbol("pointer").unwrap());
        assert_eq!(pointer == module.symbol("memcpy").unwrap(), expected_own);
        assert_eq!(pointer == 0x7000, !expected_own);
    }
}

#[test]
fn an_image_that_spans_more_than_any_device_is_refused() {
    let mut image = ImageBuilder::new(machine::X86_64);
    image.segment(SegmentSpec::new(RX, vec![0; 8]));
    image.segment(SegmentSpec::new(RW, vec![0; 8]).at(1 << 40));
    assert_eq!(refused(&image.build(), &ExportTable::new()).kind(), "segment_too_large");
}

#[test]
fn a_memory_that_breaks_its_contract_is_an_error_and_not_a_panic() {
    struct Liar(PoolMemory);
    impl TargetMemory for Liar {
        fn allocate(&mut self, request: &SegmentRequest) -> Result<u64, outboard_link::OutOfMemory> {
            self.0.allocate(request).map(|address| address + u64::from(request.kind == SegmentKind::Data))
        }
        fn release(&mut self, _: u64) {}
        fn bytes(&self, _: u64, _: u64) -> Option<&[u8]> {
            None
        }
        fn bytes_mut(&mut self, address: u64, len: u64) -> Option<&mut [u8]> {
            self.0.bytes_mut(address, len)
        }
    }
    let (image, ..) = small();
    let exports = ExportTable::new();
    let error = load(&request(&image.build(), &exports), &mut Liar(pool())).unwrap_err();
    assert!(matches!(error, LoadError::MemoryFault { .. }));
}
