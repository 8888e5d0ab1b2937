//! Reports of people who use comparable loaders, one test per report; the list is docs/reports.md.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use outboard_elf::write::{ImageBuilder, RelocationSpec, SegmentSpec, SymbolSpec};
use outboard_elf::{machine, pf};
use outboard_link::check::{CheckRequest, Profile, check};
use outboard_link::export_sets::ExportSets;
use outboard_link::target::Target;
use outboard_link::{ExportTable, LoadOptions, TargetMemory, load_with};
use support::*;

/// Relocations whose value may not be stored: C7x types and a value just outside of their range.
#[test]
fn a3_positive_and_negative_overflows_of_a_module_are_both_refused() {
    for (kind, low, high) in [(27, -(1_i64 << 20), (1 << 20) - 1), (28, -(1 << 25), (1 << 25) - 1)] {
        for (addend, fits) in [(low, true), (high, true), (low - 1, false), (high + 1, false), (2 * high, false)] {
            let (mut image, text, _) = small();
            let symbol = image.section_symbol(text);
            image.relocate(RelocationSpec::new(text, 0, kind, symbol, addend));
            let result = load_into(&image.build(), &ExportTable::new(), &LoadOptions::default(), &mut pool());
            assert_eq!(result.is_ok(), fits, "type {kind}, addend {addend}");
            if let Err(error) = result {
                assert_eq!(error.kind(), "overflow");
                assert!(error.to_string().contains(&format!("allowed {low}..={high}")), "{error}");
            }
        }
    }
}

/// zephyr PR#108528: a write in units of words corrupts the bytes beside the field.
#[test]
fn a6_the_bytes_after_a_relocation_at_the_end_of_a_segment_stay() {
    let mut image = ImageBuilder::new(machine::C7X);
    let data = image.segment(SegmentSpec::new(RW, vec![0x77; 67]));
    let symbol = image.symbol(SymbolSpec::absolute("value", 0x1234).hidden());
    image.relocate(RelocationSpec::new(data, 63, 16, symbol, 0));
    image.relocate(RelocationSpec::new(data, 65, 16, symbol, 0));
    let (_, memory) = loaded(&image.build(), &ExportTable::new());
    assert_eq!(memory.bytes(POOL + 60, 7).unwrap(), [0x77, 0x77, 0x77, 0x34, 0x12, 0x34, 0x12]);
    image.relocate(RelocationSpec::new(data, 66, 16, symbol, 0));
    assert_eq!(refused(&image.build(), &ExportTable::new()).kind(), "reloc_out_of_segment");
}

/// nuttx PR#13819: relocations against symbol 0 fail, then the loader panics.
#[test]
fn a11_symbol_0_is_absolute_zero_on_host_processors_and_a_clear_error_on_the_c7x() {
    use outboard_elf::write::Reference;
    let mut image = ImageBuilder::new(machine::X86_64);
    let data = image.segment(SegmentSpec::new(RW, vec![0xff; 16]));
    image.symbol(SymbolSpec::object("data", data, 0, 16));
    image.relocate(RelocationSpec::new(data, 0, 1, Reference::Index(0), 0x1234));
    let (module, memory) = loaded(&image.build(), &ExportTable::new());
    assert_eq!(word(&memory, module.symbol("data").unwrap()), 0x1234);
    let (mut image, _, data) = small();
    image.relocate(RelocationSpec::new(data, 0, ABS64, Reference::Index(0), 0));
    let error = refused(&image.build(), &ExportTable::new());
    assert_eq!(error.kind(), "unresolved_symbol");
    assert!(error.to_string().contains("symbol 0"), "{error}");
}

/// The low parts of a constant are written before the high part is found not to fit.
#[test]
fn a16_a_constant_whose_highest_part_overflows_leaves_nothing_written() {
    let (mut image, text, _) = small();
    let value = image.symbol(SymbolSpec::absolute("value", 1 << 50).hidden());
    for (offset, kind) in [(0, 21), (4, 22), (8, 23)] {
        image.relocate(RelocationSpec::new(text, offset, kind, value, 0));
    }
    let mut memory = Faulty::new();
    let error = load_into(&image.build(), &ExportTable::new(), &LoadOptions::default(), &mut memory).unwrap_err();
    assert_eq!(error.kind(), "overflow");
    assert!(error.to_string().contains("relocation 2 (R_C7X_MVK49_HI12)"), "{error}");
    assert!(memory.untouched());
}

/// openvmm PR#2298: the load base is taken from the entry point instead of the lowest segment.
#[test]
fn a17_the_base_is_the_lowest_segment_wherever_the_entry_point_is() {
    let mut image = ImageBuilder::new(machine::X86_64);
    let high = image.segment(SegmentSpec::new(RX, vec![0x90; 64]).at(0x5000));
    let low = image.segment(SegmentSpec::new(RW, vec![1; 64]).at(0x2000));
    image.symbol(SymbolSpec::object("low", low, 0, 8));
    image.entry(image.address(high) + 4);
    let (module, memory) = loaded(&image.build(), &ExportTable::new());
    let base = memory.blocks().next().unwrap().0;
    assert_eq!(module.symbol("low"), Some(base));
    assert_eq!(module.entry(), Some(base + 0x3004));
    assert_eq!(module.segments()[0].base, base + 0x3000);
}

/// breezyapps#2: "Can't find symbol memmove", fixed, then the next one.
#[test]
#[cfg_attr(miri, ignore = "reads the files of export sets and boards: minutes in an interpreter")]
fn b1_twelve_missing_library_functions_are_one_list_with_the_export_set_that_has_them() {
    let libm =
        ["acosf", "asinf", "atanf", "cosf", "coshf", "expm1f", "fmaf", "hypotf", "log1pf", "rintf", "sinf", "tanf"];
    let file = importing(&libm);
    let error = refused(&file, &firmware());
    assert_eq!(error.symbols(), libm);
    let finding = finding(&file, "firmware-v2", "OB0202");
    assert!(libm.iter().all(|name| finding.message.contains(name)), "{}", finding.message);
    assert!(finding.fix.ends_with("export sets: sim"), "{}", finding.fix);
}

/// esp-iot-solution#497: symbols of the C library not found although the firmware has them.
#[test]
#[cfg_attr(miri, ignore = "reads the files of export sets and boards: minutes in an interpreter")]
fn b3_the_export_sets_that_would_satisfy_a_module_are_named() {
    let file = importing(&["memcpy", "expf"]);
    assert!(finding(&file, "firmware-v2", "OB0202").fix.contains("seed, sim"));
    let nowhere = importing(&["memcpy", "no_such_function"]);
    assert!(finding(&nowhere, "sim", "OB0202").fix.contains("no known export set has them all"));
}

/// esp-iot-solution#587: users want to resolve symbols themselves.
#[test]
fn b4_a_resolver_of_the_caller_is_asked_after_the_table_and_before_the_modules_own_definitions() {
    let asked = std::cell::RefCell::new(Vec::new());
    let resolver = |name: &str| {
        asked.borrow_mut().push(name.to_owned());
        (name == "mine").then_some(0x4444)
    };
    let options = LoadOptions { resolver: Some(&resolver), ..LoadOptions::default() };
    let file = importing(&["memcpy", "mine"]);
    let mut memory = pool();
    let firmware = firmware();
    let module = load_with(&request(&file, &firmware), &options, &mut memory).unwrap();
    let base = module.segments()[0].base;
    assert_eq!((word(&memory, base), word(&memory, base + 8)), (0xa220_0000, 0x4444));
    assert_eq!(asked.take(), ["mine"], "the table comes first");
    let error = load_with(&request(&importing(&["other"]), &firmware), &options, &mut pool()).unwrap_err();
    assert_eq!(error.symbols(), ["other"]);
}

/// iree PR#6543: an import of a sanitizer breaks the load without a word about why.
#[test]
fn b6_imports_of_a_sanitizer_get_a_hint() {
    let error = refused(&importing(&["__tsan_func_entry", "memcpy"]), &firmware());
    assert_eq!(error.symbols(), ["__tsan_func_entry"]);
    assert!(error.to_string().contains("built with a sanitizer"), "{error}");
}

/// iree#14789: a check before deployment must not demand a device.
#[test]
#[cfg_attr(miri, ignore = "reads the files of export sets and boards: minutes in an interpreter")]
fn b7_a_module_is_checked_against_a_declared_set() {
    let sets = ExportSets::parse("[mine]\ndescription = 'x'\n[mine.names]\nall = ['memcpy', 'vendor_call']").unwrap();
    let file = importing(&["vendor_call", "memcpy"]);
    let exports = sets.get("mine").unwrap().table();
    let target = Target::am67a();
    let request =
        CheckRequest { file: &file, name: "x", profile: Profile::C7x, target: &target, exports: &exports, sets: &sets };
    let report = check(&request);
    assert!(report.findings.iter().all(|finding| finding.code != "OB0202"));
    assert_eq!(report.satisfied_by, ["mine"]);
}

/// nuttx PR#17536: unwind helpers are missing.
#[test]
fn b8_imports_of_exception_support_get_a_hint() {
    let error = refused(&importing(&["__gnu_Unwind_Find_exidx", "__cxa_throw"]), &firmware());
    assert!(error.to_string().contains("-fno-exceptions"), "{error}");
}

/// zephyr#102587: a symbol is missing because the module was built against another firmware.
#[test]
#[cfg_attr(miri, ignore = "reads the files of export sets and boards: minutes in an interpreter")]
fn b9_a_module_linked_against_another_firmware_is_told_so_first() {
    let mut image = ImageBuilder::new(machine::C7X);
    let data = image.segment(SegmentSpec::new(RW, vec![0; 16]));
    let import = image.symbol(SymbolSpec::import("DmaUtilsAutoInc3d_init"));
    image.relocate(RelocationSpec::new(data, 0, ABS64, import, 0));
    image.needed("dsp_syms.out").firmware_symbols(&["memcpy", "DmaUtilsAutoInc3d_init"]);
    let file = image.build();
    let error = refused(&file, &firmware());
    let text = error.to_string();
    let first = text.lines().next().unwrap();
    assert!(
        first.contains("linked against another firmware: 1 of the missing names (DmaUtilsAutoInc3d_init)"),
        "{text}"
    );
    assert!(finding(&file, "firmware-v2", "OB0216").message.contains("DmaUtilsAutoInc3d_init"));
}

/// zephyr#112621: every field at its maximum.
#[test]
fn c2_every_field_of_the_tables_at_its_maximum_is_refused_without_an_allocation_of_its_size() {
    let (mut image, text, data) = small();
    let symbol = image.symbol(SymbolSpec::local("local", text, 4));
    image.relocate(RelocationSpec::new(data, 0, ABS64, symbol, 0));
    let (file, map) = image.build_mapped();
    let at = |offset: u64| usize::try_from(offset).unwrap();
    // name, st_shndx, st_value of symbol 1; r_offset, type and symbol of relocation 0; the hash table's count
    let fields = [
        (at(map.symbols) + 24, 4, "bad_string_offset"),
        (at(map.symbols) + 30, 2, "unresolved_symbol"),
        (at(map.symbols) + 32, 8, "ok"),
        (at(map.relocations), 8, "reloc_out_of_segment"),
        (at(map.relocations) + 8, 4, "invalid_reloc_type"),
        (at(map.relocations) + 12, 4, "bad_symbol_index"),
        (at(map.hash) + 4, 4, "limit_exceeded"),
    ];
    for (start, len, kind) in fields {
        let mut damaged = file.clone();
        damaged[start..start + len].fill(0xff);
        let result = load_into(&damaged, &ExportTable::new(), &LoadOptions::default(), &mut pool());
        assert_eq!(result.map_or_else(|error| error.kind(), |_| "ok"), kind, "{len} bytes at {start:#x}");
    }
}

/// sof@cc567fa691: a module without data crashes, then leaks.
#[test]
fn c8_a_module_of_code_alone_loads_and_is_freed() {
    let mut image = ImageBuilder::new(machine::C7X);
    let text = image.segment(SegmentSpec::new(RX, vec![0x11; 32]));
    image.symbol(SymbolSpec::function("cg_main_dsp", text, 0, 32));
    let (module, mut memory) = loaded(&image.build(), &ExportTable::new());
    assert_eq!(module.symbol("cg_main_dsp"), Some(POOL));
    assert_eq!(module.claimed(), 32);
    module.release(&mut memory);
    assert_eq!(memory.free(), POOL_SIZE);
}

/// The service answers "Boot failed: -22" for a firmware without a resource table (D16), and rings may not fit (E5).
#[test]
#[cfg_attr(miri, ignore = "reads the files of export sets and boards: minutes in an interpreter")]
fn d16_e5_a_firmware_without_resource_table_or_with_rings_that_do_not_fit_is_found() {
    let mut image = ImageBuilder::new(machine::C7X);
    image.segment(SegmentSpec::new(RX, vec![0; 64]).named(".text"));
    assert_eq!(firmware_findings(&image.build()), ["OB0231"]);

    // E5: two rings of 256 buffers of 512 bytes do not fit into 64 KiB.
    let table = |carveout: u32| {
        let rings = u32::from_le_bytes([0, 2, 0, 0]);
        let ring = [0xa000_0000, 4096, 256, 1, 0];
        let mut words = vec![1, 3, 0, 0, 28, 28 + 68, 28 + 68 + 56];
        words.extend([3, 7, 0, 1, 0, 0, rings].into_iter().chain(ring).chain(ring));
        words.extend([0, 0xa000_0000, u32::MAX, carveout, 0, 0, 0x65_72_69_76, 0, 0, 0, 0, 0, 0, 0]);
        words.extend([2, 0xa100_0000, 0x1000, 0, 0x65_63_61_72, 0, 0, 0, 0, 0, 0, 0]);
        words.iter().flat_map(|word: &u32| word.to_le_bytes()).collect::<Vec<u8>>()
    };
    let firmware = |carveout| {
        let mut image = image.clone();
        image.segment(SegmentSpec::new(pf::R | pf::W, table(carveout)).named(".resource_table"));
        image.build()
    };
    assert_eq!(firmware_findings(&firmware(0x10_0000)), [""; 0]);
    assert_eq!(firmware_findings(&firmware(0x1_0000)), ["OB0237"]);
    let report = check_firmware(&firmware(0x1_0000));
    let message = &report.findings[0].message;
    assert!(message.contains("(256 + 256) buffers x 512 bytes = 286720 bytes, but 65536 bytes are there"), "{message}");
}

fn check_firmware(file: &[u8]) -> outboard_link::check::CheckReport {
    let (sets, target) = (ExportSets::builtin(), Target::am67a());
    let exports = ExportTable::new();
    let profile = Profile::Remoteproc;
    check(&CheckRequest { file, name: "fw.elf", profile, target: &target, exports: &exports, sets: &sets })
}

fn firmware_findings(file: &[u8]) -> Vec<&'static str> {
    check_firmware(file).findings.iter().map(|finding| finding.code).collect()
}

/// The finding with this code of a module that is checked against an export set.
fn finding(file: &[u8], set: &str, code: &str) -> outboard_link::check::Finding {
    let (sets, target) = (ExportSets::builtin(), Target::am67a());
    let exports = sets.get(set).unwrap().table();
    let profile = Profile::C7x;
    let request = CheckRequest { file, name: "lib0.out", profile, target: &target, exports: &exports, sets: &sets };
    let report = check(&request);
    report.findings.into_iter().find(|finding| finding.code == code).unwrap()
}
