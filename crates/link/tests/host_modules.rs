//! Modules for the processor of the host, built by a C compiler (`data/host/build.sh`): placed as one block.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use outboard_link::{
    ExportTable, Initialisers, LoadError, LoadRequest, LoadedModule, Machine, PoolMemory, TargetMemory, load,
};

const POOL: u64 = 0x1_0200_0000;
const ALL: [Machine; 3] = [Machine::C7x, Machine::X86_64, Machine::AArch64];

const X86_GNU: &[u8] = include_bytes!("data/host/x86_64_gnu.so");
const X86_SYSV: &[u8] = include_bytes!("data/host/x86_64_sysv.so");
const X86_RELR: &[u8] = include_bytes!("data/host/x86_64_relr.so");
const AARCH64: &[u8] = include_bytes!("data/host/aarch64_gnu.so");

fn exports() -> ExportTable {
    ExportTable::from_iter([("device_add", 0x7000_1000), ("device_value", 0x7000_2000)])
}

fn request<'a>(file: &'a [u8], exports: &'a ExportTable) -> LoadRequest<'a> {
    LoadRequest {
        file,
        name: "probe.so",
        staging: None,
        exports,
        cpu_features: None,
        machines: &ALL,
        initialisers: Initialisers::Collect,
    }
}

fn word(memory: &PoolMemory, address: u64) -> u64 {
    u64::from_le_bytes(memory.bytes(address, 8).unwrap().try_into().unwrap())
}

fn loaded(file: &[u8]) -> (LoadedModule<'static>, PoolMemory) {
    let mut memory = PoolMemory::new("MAIN", POOL, 1 << 20);
    let module = load(&request(file, &exports()), &mut memory).unwrap().into_owned();
    (module, memory)
}

#[test]
fn names_are_the_same_in_the_file_and_after_the_file_is_gone() {
    let exports = exports();
    for file in [X86_GNU, X86_SYSV, X86_RELR, AARCH64] {
        let mut memory = PoolMemory::new("MAIN", POOL, 1 << 20);
        let borrowed = load(&request(file, &exports), &mut memory).unwrap();
        let (kept, _) = loaded(file);
        assert_eq!(borrowed.symbols().collect::<Vec<_>>(), kept.symbols().collect::<Vec<_>>());
        assert!(kept.symbols().all(|(name, address)| borrowed.symbol(name) == Some(address)));
        assert!(kept.symbols().all(|(name, address)| kept.symbol(name) == Some(address)));
        assert_eq!(borrowed.imports().collect::<Vec<_>>(), kept.imports().collect::<Vec<_>>());
        for segment in kept.segments() {
            let step = if cfg!(miri) { 1 << 10 } else { 4 };
            for address in (segment.base..segment.base + segment.memsz).step_by(step) {
                assert_eq!(borrowed.nearest_symbol(address), kept.nearest_symbol(address), "{address:#x}");
            }
        }
        borrowed.release(&mut memory);
    }
}

#[test]
fn every_flavour_of_shared_object_has_the_same_pointers_after_loading() {
    for file in [X86_GNU, X86_SYSV, X86_RELR, AARCH64] {
        let (module, memory) = loaded(file);
        let counter = module.symbol("counter").unwrap();
        let pointers = module.symbol("pointers").unwrap();
        assert_eq!(word(&memory, pointers), counter);
        assert_eq!(word(&memory, module.symbol("imported").unwrap()), 0x7000_1000);
        assert_eq!(memory.bytes(counter, 4).unwrap(), 41_i32.to_le_bytes());
        let last_zero = word(&memory, pointers + 8);
        assert_eq!(memory.bytes(last_zero - 999 * 4, 4000).unwrap(), &[0; 4000][..], "zeroed memory");
        assert_eq!(word(&memory, module.symbol("_binary_weights_bin_start").unwrap() + 24), 4);
        assert_eq!(module.imports().collect::<Vec<_>>(), ["device_absent", "device_add", "device_value"]);
        assert_eq!(module.symbol("device_add"), None, "an import is no symbol of the module");
        assert_eq!(module.symbol("hidden_helper"), None);
    }
}

#[test]
fn distances_are_kept_and_the_block_starts_on_a_page() {
    let (module, memory) = loaded(X86_GNU);
    let first = module.segments().first().unwrap();
    assert_eq!(first.base % 4096, 0);
    for segment in module.segments() {
        assert_eq!(segment.base - first.base, segment.vaddr - first.vaddr);
        assert!(!segment.in_place);
    }
    assert_eq!(memory.blocks().count(), 1);
    let code = module.segments().iter().find(|segment| segment.perms.x).unwrap();
    assert!(!code.perms.w);
}

#[test]
fn a_weak_undefined_symbol_is_zero_and_a_strong_one_is_an_error() {
    let (module, _) = loaded(X86_GNU);
    assert_eq!(module.relocations().get("R_X86_64_JUMP_SLOT"), Some(&1));
    let mut memory = PoolMemory::new("MAIN", POOL, 1 << 20);
    let error = load(&request(X86_GNU, &ExportTable::new()), &mut memory).unwrap_err();
    assert_eq!(error.kind(), "unresolved_symbol");
    assert_eq!(error.symbols(), ["device_add", "device_value"], "device_absent is weak");
    assert_eq!(memory.free(), 1 << 20);
}

#[test]
fn initialisers_and_finalisers_are_collected_in_order_or_refused() {
    for file in [X86_GNU, X86_RELR, AARCH64] {
        let (module, _) = loaded(file);
        let code = module.segments().iter().find(|segment| segment.perms.x).unwrap();
        assert_eq!((module.initialisers().len(), module.finalisers().len()), (1, 1));
        for function in module.initialisers().iter().chain(module.finalisers()) {
            assert!((code.base..code.base + code.memsz).contains(function));
        }
    }
    let (module, _) = loaded(X86_GNU);
    assert_eq!(module.nearest_symbol(module.initialisers()[0]), Some(("start", 0)));
    let exports = exports();
    let strict = LoadRequest { initialisers: Initialisers::Refuse, ..request(X86_GNU, &exports) };
    let error = load(&strict, &mut PoolMemory::new("MAIN", POOL, 1 << 20)).unwrap_err();
    assert_eq!(error.kind(), "init_unsupported");
}

#[test]
fn a_crash_address_is_named_by_its_function_even_a_local_one() {
    let (module, _) = loaded(X86_GNU);
    let entry = module.symbol("cg_main_dsp").unwrap();
    assert_eq!(module.nearest_symbol(entry + 4), Some(("cg_main_dsp", 4)));
    let code = module.segments().iter().find(|segment| segment.perms.x).unwrap();
    let helper = (code.base..code.base + code.memsz)
        .find(|address| module.nearest_symbol(*address).is_some_and(|(name, _)| name == "hidden_helper"));
    assert!(helper.is_some(), "local functions are known from .symtab");
    assert_eq!(module.nearest_symbol(0x10), None);
}

#[test]
fn a_module_for_another_machine_is_refused_naming_both() {
    let exports = exports();
    let only = LoadRequest { machines: &[Machine::X86_64], ..request(AARCH64, &exports) };
    let error = load(&only, &mut PoolMemory::new("MAIN", POOL, 1 << 20)).unwrap_err();
    assert!(matches!(error, LoadError::BadMachine { found: 183, .. }));
    let text = error.to_string();
    assert!(text.contains("AArch64") && text.contains("x86-64") && text.contains("probe.so"), "{text}");
}

#[test]
fn releasing_a_module_zeroes_and_frees_its_block() {
    let (module, mut memory) = loaded(X86_GNU);
    assert!(memory.free() < 1 << 20);
    assert!(module.claimed() > 0);
    module.release(&mut memory);
    assert_eq!(memory.free(), 1 << 20);
}
