//! Inspect, check and budgets: what they find, with the code and the place.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use outboard_elf::write::{ImageBuilder, RelocationSpec, SegmentSpec, SymbolSpec};
use outboard_elf::{dt, machine, pf};
use outboard_link::check::{CheckReport, CheckRequest, Finding, Profile, Severity, check};
use outboard_link::export_sets::{ExportSets, stub_library};
use outboard_link::inspect::{demangle, inspect};
use outboard_link::prelink::{ErrorReport, PrelinkRequest, prelink_c7x};
use outboard_link::target::Target;
use outboard_link::{ExportTable, LoadError, Machine};
use support::*;

/// A declaration of sizes: magic, version, counts, bytes, flags.
fn io_meta(inputs: u32, outputs: u32, input_bytes: u64, output_bytes: u64) -> Vec<u8> {
    let mut bytes = b"TIOM".to_vec();
    for word in [1, inputs, outputs] {
        bytes.extend(word.to_le_bytes());
    }
    bytes.extend(input_bytes.to_le_bytes());
    bytes.extend(output_bytes.to_le_bytes());
    bytes.extend([1, 0, 0, 0, 0, 0, 0, 0]);
    bytes
}

/// A C7x module as the build contract describes it: guard and weights, data, code, sizes.
struct Good {
    weights: usize,
    guard: Vec<u8>,
    meta: Vec<u8>,
    stored_size: u32,
}

impl Default for Good {
    fn default() -> Self {
        Self { weights: 4096, guard: vec![0; 4096], meta: io_meta(1, 1, 128 + 64, 128 + 64), stored_size: 4096 }
    }
}

impl Good {
    fn image(&self) -> ImageBuilder {
        let mut image = ImageBuilder::new(machine::C7X);
        let mut constants = self.guard.clone();
        constants.extend(vec![0x5a; self.weights]);
        let end = constants.len() as u64;
        constants.extend(self.stored_size.to_le_bytes());
        constants.extend([0; 4]);
        let meta = constants.len() as u64;
        constants.extend(&self.meta);
        let constants = image.segment(SegmentSpec::new(pf::R, constants).align(128).named(".rodata"));
        let text = image.segment(SegmentSpec::new(RX, vec![0x11; 256]).named(".text"));
        image.segment(SegmentSpec::new(RW, vec![0x22; 64]).named(".data"));
        image.symbol(SymbolSpec::function("cg_main_dsp", text, 0, 64));
        let guard = self.guard.len() as u64;
        image.symbol(SymbolSpec::object("_binary_weights_bin_start", constants, guard, 0));
        image.symbol(SymbolSpec::object("_binary_weights_bin_end", constants, end, 0));
        image.symbol(SymbolSpec::object("_binary_weights_bin_size", constants, end, 4));
        image.symbol(SymbolSpec::object("_binary_tvm_dsp_io_meta_start", constants, meta, 40));
        let import = image.symbol(SymbolSpec::import("memcpy"));
        image.relocate(RelocationSpec::new(text, 128, 21, import, 0));
        image.needed("dsp_syms.out").firmware_symbols(&["memcpy"]);
        image
    }
}

fn judge(file: &[u8]) -> CheckReport {
    let (sets, target) = (ExportSets::builtin(), Target::am67a());
    let exports = sets.get("firmware-v2").unwrap().table();
    let profile = Profile::C7x;
    check(&CheckRequest { file, name: "lib0.out", profile, target: &target, exports: &exports, sets: &sets })
}

/// The one finding that a module has beyond those of a good one.
fn only(image: &ImageBuilder) -> Finding {
    let report = judge(&image.build());
    let texts: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
    assert_eq!(report.findings.len(), 1, "{texts:#?}");
    report.findings.into_iter().next().unwrap()
}

#[test]
#[cfg_attr(miri, ignore = "reads the files of export sets and boards: minutes in an interpreter")]
fn a_good_module_has_no_findings() {
    let report = judge(&Good::default().image().build());
    assert_eq!(report.findings, []);
    assert_eq!((report.status, report.errors, report.warnings), ("ok", 0, 0));
    assert_eq!(report.satisfied_by, ["firmware-v2", "seed", "sim"]);
}

#[test]
#[cfg_attr(miri, ignore = "reads the files of export sets and boards: minutes in an interpreter")]
fn each_flaw_of_a_module_is_one_finding_with_its_code() {
    let good = || Good::default().image();
    let with_segment = |spec| {
        let mut image = good();
        let segment = image.segment(spec);
        (image, segment)
    };
    let mut all: Vec<(&str, Severity, ImageBuilder)> = vec![
        ("OB0203", Severity::Warning, Good { guard: vec![1; 4096], ..Good::default() }.image()),
        ("OB0203", Severity::Warning, Good { guard: vec![0; 1024], ..Good::default() }.image()),
        ("OB0204", Severity::Warning, with_segment(SegmentSpec::new(RX | RW, vec![0; 8])).0),
        ("OB0207", Severity::Warning, {
            let mut image = small().0;
            image.needed("dsp_syms.out").firmware_symbols(&[]);
            image
        }),
        ("OB0208", Severity::Error, Good { meta: io_meta(2, 1, 64, 192), ..Good::default() }.image()),
        ("OB0208", Severity::Error, Good { meta: io_meta(1, 1, 192, 193), ..Good::default() }.image()),
        ("OB0208", Severity::Error, Good { meta: b"JUNK".repeat(10), ..Good::default() }.image()),
        ("OB0211", Severity::Note, with_segment(SegmentSpec::zeroed(RW, 100)).0),
        ("OB0213", Severity::Warning, with_segment(SegmentSpec::new(RW, vec![0; 8]).align(4096)).0),
        ("OB0214", Severity::Error, with_segment(SegmentSpec::new(pf::R, vec![1; 8]).memsz(16)).0),
        ("OB0217", Severity::Error, Good { stored_size: 7, ..Good::default() }.image()),
    ];
    let mut image = good();
    image.tag(dt::GNU_HASH, 7);
    all.push(("OB0209", Severity::Error, image));
    let (mut image, data) = with_segment(SegmentSpec::new(RW, vec![0; 8]));
    image.tag(dt::FINI_ARRAY, image.address(data)).tag(dt::FINI_ARRAYSZ, 8);
    all.push(("OB0206", Severity::Error, image));
    let (mut image, constants) = with_segment(SegmentSpec::new(pf::R, vec![0; 64]));
    let symbol = image.section_symbol(constants);
    image.relocate(RelocationSpec::new(constants, 8, ABS64, symbol, 0));
    all.push(("OB0205", Severity::Error, image));
    let (mut image, data) = with_segment(SegmentSpec::new(RW, vec![0; 64]));
    let symbol = image.section_symbol(data);
    image.relocate(RelocationSpec::new(data, 8, 21, symbol, 0));
    all.push(("OB0215", Severity::Note, image));
    let (mut image, code) = with_segment(SegmentSpec::new(RX, vec![0; 64]));
    let symbol = image.section_symbol(code);
    image.relocate(RelocationSpec::new(code, 8, 28, symbol, 2));
    all.push(("OB0222", Severity::Warning, image.clone()));
    let (mut image, data) = with_segment(SegmentSpec::new(RW, vec![0; 64]));
    image.symbol(SymbolSpec::object("data_end", data, 64, 0));
    all.push(("OB0220", Severity::Warning, image));
    for (code, severity, image) in all {
        let finding = only(&image);
        assert_eq!((finding.code, finding.severity), (code, severity), "{finding}");
        assert!(!finding.place.is_empty() && finding.fix.len() > 10, "{finding}");
    }
}

#[test]
#[cfg_attr(miri, ignore = "reads the files of export sets and boards: minutes in an interpreter")]
fn flaws_that_come_together_are_all_found() {
    let codes = |image: &ImageBuilder| judge(&image.build()).findings.iter().map(|f| f.code).collect::<Vec<_>>();
    // Without entry point.
    let mut image = ImageBuilder::new(machine::C7X);
    let text = image.segment(SegmentSpec::new(RX, vec![0x11; 64]));
    let data = image.segment(SegmentSpec::new(RW, vec![0x22; 64]));
    assert_eq!(codes(&image), ["OB0201", "OB0207"]);
    // Relocations that jump between segments: two of four would be dropped.
    let symbol = image.section_symbol(text);
    for (segment, offset) in [(text, 0), (data, 0), (text, 8), (data, 8)] {
        image.relocate(RelocationSpec::new(segment, offset, ABS64, symbol, 0));
    }
    assert_eq!(codes(&image), ["OB0201", "OB0210", "OB0207"]);
    let report = judge(&image.build());
    assert!(report.findings[1].message.starts_with("2 relocations"), "{}", report.findings[1]);
    // Pointers in .bss, a module linked at 0, and one that ends at the end of the file.
    let mut image = ImageBuilder::new(machine::C7X);
    let text = image.base(0).segment(SegmentSpec::new(RX, vec![0x11; 64]));
    let bss = image.segment(SegmentSpec::zeroed(RW, 64));
    let symbol = image.section_symbol(text);
    image.relocate(RelocationSpec::new(bss, 0, ABS64, symbol, 0));
    assert_eq!(codes(&image), ["OB0201", "OB0219", "OB0207", "OB0221", "OB0211"]);
    let (mut image, ..) = small();
    image.without_sections();
    let header = outboard_elf::Segment {
        index: 0,
        header: 0,
        kind: outboard_elf::pt::C7X_PHATTR,
        flags: 4,
        offset: 0,
        vaddr: 0,
        paddr: 0,
        filesz: 8,
        memsz: 8,
        align: 1,
    };
    let end = image.clone().header(header).build().len() as u64;
    let header = outboard_elf::Segment { offset: end - 8, ..header };
    let found = judge(&image.header(header).build());
    assert!(found.findings.iter().any(|finding| finding.code == "OB0212"), "{:#?}", found.findings);
}

#[test]
#[cfg_attr(miri, ignore = "reads the files of export sets and boards: minutes in an interpreter")]
fn what_the_loader_refuses_is_a_finding_with_the_loaders_code() {
    for (name, file) in recorded_modules() {
        let (sets, target, exports) = (ExportSets::builtin(), Target::am67a(), firmware());
        let prelinked = prelink_c7x(&PrelinkRequest::new(&file, &name, &exports, &target));
        let profile = Profile::C7x;
        let report =
            check(&CheckRequest { file: &file, name: &name, profile, target: &target, exports: &exports, sets: &sets });
        if let Err(error) = prelinked {
            assert!(report.errors > 0, "{name}: {error}");
            if matches!(error, LoadError::BadMachine { .. }) {
                // Modules for the simulated device are for other machines; this one is something else besides.
                continue;
            }
            // Missing imports and lack of room have codes of their own, with more to say.
            let judged = match error {
                LoadError::Unresolved(_) => "OB0202",
                LoadError::OutOfMemory { .. } => "OB0218",
                // Prelinking uses the data in place, as the original does; the service copies it.
                LoadError::RelocOutOfSegment { .. } if name == "e41_inplace_write_past_file" => "OB0214",
                _ => error.code(),
            };
            let codes: Vec<&str> = report.findings.iter().map(|finding| finding.code).collect();
            assert!(codes.contains(&judged) || codes.contains(&error.code()), "{name}: {codes:?}");
        }
    }
}

#[test]
#[cfg_attr(miri, ignore = "reads the files of export sets and boards: minutes in an interpreter")]
fn a_host_module_is_checked_without_the_rules_of_the_board() {
    let file = std::fs::read(data().join("host/x86_64_gnu.so")).unwrap();
    let report = judge(&file);
    let codes: Vec<&str> = report.findings.iter().map(|finding| finding.code).collect();
    assert_eq!(codes, ["OB0202", "OB0207"]);
    assert!(
        report.findings[0].message.contains("2 of 3 imports"),
        "the weak one may be absent: {}",
        report.findings[0]
    );
}

#[test]
#[cfg_attr(miri, ignore = "copies 47 MB byte by byte in an interpreter")]
fn the_memory_budget_of_resnet_18_is_the_published_one() {
    // A file of about 47 MB of which 46 MB are weights, a 1x3x224x224 float32 input, 1000 float32 outputs.
    const MB: u64 = 1_000_000;
    let meta = io_meta(1, 1, 128 + 602_112, 128 + 4_032);
    let good = Good { weights: 46_000_000, stored_size: 46_000_000, meta, ..Good::default() };
    let mut image = good.image();
    image.segment(SegmentSpec::new(RX, vec![0x11; 900_000]).named(".text.model"));
    let report = judge(&image.build());
    assert_eq!(report.errors, 0, "{:#?}", report.findings);
    let budget = report.budget.unwrap();
    assert_eq!(budget.target, "am67a");
    let row = |place: &str| budget.row(place).unwrap().clone();
    let (staging, main) = (row("staging"), row("MAIN"));
    assert_eq!((staging.needed / MB, staging.limit >> 20), (46, 468), "~47 MB of 468 MiB");
    assert_eq!((main.needed.div_ceil(MB), main.limit >> 20), (47, 352), "~47 MB of 352 MiB");
    assert!((304..=308).contains(&(main.headroom >> 20)), "~305 MiB remain for the workspace: {}", main.headroom >> 20);
    assert_eq!((row("input window").needed, row("output window").needed), (602_240, 4_160), "0.6 MB and 4 KB");
    assert_eq!(row("output window").limit, 33_488_896 - 602_240);
    assert_eq!(row("FAST").limit, 128 << 10);
    assert_eq!(budget.exceeded().count(), 0);
}

#[test]
#[cfg_attr(miri, ignore = "reads the files of export sets and boards: minutes in an interpreter")]
fn a_module_that_does_not_fit_the_board_is_found_by_its_budget() {
    let meta = io_meta(1, 1, 40 << 20, 192);
    let mut image = Good { meta, ..Good::default() }.image();
    image.segment(SegmentSpec::zeroed(RW, 400 << 20));
    let report = judge(&image.build());
    let places: Vec<&str> =
        report.findings.iter().filter(|f| f.code == "OB0218").map(|finding| finding.place.as_str()).collect();
    assert_eq!(places, ["MAIN", "input window", "output window"]);
}

#[test]
fn inspect_shows_headers_destinations_symbols_relocations_and_notes() {
    let image = Good::default().image();
    let shown = inspect(&image.build()).unwrap();
    assert_eq!((shown.header.class, shown.header.machine.name.as_str()), (64, "TI C7x"));
    let goes: Vec<&str> = shown.segments.iter().map(|segment| segment.goes.as_str()).collect();
    assert_eq!(goes[1..], ["MAIN pool (code), 256 bytes", "MAIN pool (data), 64 bytes", "not loaded"]);
    assert!(goes[0].starts_with("staging + 0x180, used in place"), "{}", goes[0]);
    assert_eq!(shown.segments[1].perms, "r-x");
    let soname = shown.dynamic.iter().find(|tag| tag.tag.name == "DT_SONAME").unwrap();
    assert_eq!(soname.text.as_deref(), Some("module.out"));
    assert_eq!((shown.imports.count, shown.imports.symbols[0].name.as_str()), (1, "memcpy"));
    assert_eq!(shown.exports.count, 5);
    assert_eq!(shown.relocations.iter().collect::<Vec<_>>(), [(&"R_C7X_MVK_LO10".to_owned(), &1)]);
    assert_eq!(shown.problems, [""; 0]);

    let host = std::fs::read(data().join("host/x86_64_gnu.so")).unwrap();
    let shown = inspect(&host).unwrap();
    assert_eq!(shown.relocations["R_X86_64_RELATIVE"], 6);
    assert_eq!(shown.relocations["R_X86_64_JUMP_SLOT"], 1);
    assert!(shown.segments.iter().any(|segment| segment.goes == "block + 0x0"));

    let mut image = ImageBuilder::new(machine::XTENSA);
    let text = image.segment(SegmentSpec::new(RX, vec![0; 16]));
    image.symbol(SymbolSpec::function("_Z12get_func_cntv", text, 0, 8));
    let symbol = image.section_symbol(text);
    image.relocate(RelocationSpec::new(text, 0, 5, symbol, 0)).relocate(RelocationSpec::new(text, 4, 250, symbol, 0));
    image.note("Outboard", 2, b"{\"name\":\"x\"}").note("GNU", 3, &[0, 1, 2]);
    let shown = inspect(&image.build()).unwrap();
    assert_eq!((shown.header.class, shown.header.machine.value), (32, 94));
    if !cfg!(miri) {
        assert_eq!(shown.exports.symbols[0].demangled.as_deref(), Some("get_func_cnt()"));
    }
    assert_eq!(shown.relocations["R_XTENSA_RELATIVE"], 1);
    assert_eq!(shown.relocations["unknown (250)"], 1);
    assert_eq!(shown.notes[0].text.as_deref(), Some("{\"name\":\"x\"}"));
    assert_eq!((shown.notes[1].owner.as_str(), shown.notes[1].size, &shown.notes[1].text), ("GNU", 3, &None));
    assert_eq!(shown.manifest.as_deref(), Some("{\"name\":\"x\"}"));
}

#[test]
fn inspect_names_what_it_cannot_read_and_shows_the_rest() {
    let image = Good::default().image();
    let shown = inspect(&image.clone().override_tag(dt::SYMTAB, 1 << 40).build()).unwrap();
    assert_eq!(shown.problems.len(), 1);
    assert!(shown.problems[0].contains("DT_SYMTAB"), "{:?}", shown.problems);
    assert!(!shown.dynamic.is_empty() && shown.segments.len() == 4);
    let shown = inspect(&image.clone().drop_tag(0).build()).unwrap();
    assert!(shown.segments.len() == 4);
    assert!(inspect(b"\x7fELF").is_err());
}

#[test]
#[cfg_attr(miri, ignore = "the demangler compares addresses of vtables, which an interpreter varies")]
fn names_are_demangled_within_bounds() {
    assert_eq!(
        demangle("_ZN3std2io5Write9write_all17h0123456789abcdefE").as_deref(),
        Some("std::io::Write::write_all")
    );
    assert_eq!(demangle("_Z5scalePfi").as_deref(), Some("scale(float*, int)"));
    assert_eq!(demangle("printf"), None);
    assert_eq!(demangle(&format!("_Z{}", "S".repeat(600))), None);
    // Every template argument doubles the text.
    let bomb = format!("_Z1fI{}i{}EvT_", "1aI".repeat(60), "E".repeat(60));
    assert!(demangle(&bomb).is_none_or(|text| text.len() <= 2048));
}

#[test]
#[cfg_attr(miri, ignore = "reads the files of export sets and boards: minutes in an interpreter")]
fn a_refused_prelink_has_a_report_of_the_documented_shape() {
    let (exports, board) = (ExportTable::new(), Target::am67a());
    let file = importing(&["b", "a"]);
    let error = prelink_c7x(&PrelinkRequest::new(&file, "lib0.out", &exports, &board)).unwrap_err();
    let json = serde_json::to_value(ErrorReport::from(&error)).unwrap();
    assert_eq!(json["status"], "error");
    assert_eq!(json["error"], "unresolved_symbol");
    assert_eq!(json["explain"], "OB0124");
    assert_eq!(json["symbols"], serde_json::json!(["a", "b"]));
    assert!(json["message"].as_str().unwrap().contains("2 symbols"));
}

#[test]
#[cfg_attr(miri, ignore = "reads the files of export sets and boards: minutes in an interpreter")]
fn a_prelinked_module_is_reported_and_written_as_an_image() {
    let (exports, board) = (firmware(), Target::am67a());
    let mut image = Good::default().image();
    image.segment(SegmentSpec::zeroed(RW, 300));
    let file = image.build();
    let prelinked = prelink_c7x(&PrelinkRequest::new(&file, "lib0.out", &exports, &board)).unwrap();
    let json = serde_json::to_value(&prelinked.report).unwrap();
    // The order of keys depends on how the workspace builds the JSON library.
    let sorted = |object: &serde_json::Map<String, serde_json::Value>| {
        let mut keys: Vec<String> = object.keys().cloned().collect();
        keys.sort();
        keys
    };
    let keys = sorted(json.as_object().unwrap());
    assert_eq!(keys, ["entry", "exports", "relocations", "segments", "status"]);
    let segment = json["segments"][1].as_object().unwrap();
    assert_eq!(sorted(segment), ["base", "in_place", "index", "memsz", "sha256", "vaddr"]);
    assert_eq!(segment["base"], POOL);
    let mut written = Vec::new();
    let start = prelinked.write_image(&mut |piece| written.extend_from_slice(piece));
    assert_eq!(start, POOL);
    assert_eq!(written.len(), 256 + 128 + 300, "code, data in a step of 128, zeros");
    assert_eq!((written[0], written[256], written[256 + 64]), (0x11, 0x22, 0));
}

#[test]
fn a_stub_library_defines_every_name_for_each_machine() {
    let names = ["TVMBackendAllocWorkspace", "expf", "memcpy"];
    for machine in [Machine::C7x, Machine::X86_64, Machine::AArch64] {
        let shown = inspect(&stub_library(machine, &names)).unwrap();
        let mut found: Vec<&str> = shown.exports.symbols.iter().map(|symbol| symbol.name.as_str()).collect();
        found.sort_unstable();
        assert_eq!(found, names);
        assert_eq!(shown.problems, [""; 0]);
    }
    assert_eq!(inspect(&stub_library(Machine::X86_64, &[])).unwrap().exports.count, 0);
}

#[test]
fn every_code_has_a_page() {
    let pages = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/codes");
    let loader = 101..=135;
    let checks = (201..=222).chain(231..=238);
    for code in loader.chain(checks).map(|number| format!("OB{number:04}")) {
        let page = std::fs::read_to_string(pages.join(format!("{code}.md"))).unwrap_or_default();
        assert!(page.starts_with(&format!("# {code}: ")), "{code} has no page");
        assert!(page.contains("## What to do"), "{code}");
    }
}
