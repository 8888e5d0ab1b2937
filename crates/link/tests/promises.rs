//! The promises P1, P2 and P6 for loading: bounded memory, whole or not at all, every missing symbol at once.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use outboard_elf::write::{ImageBuilder, RelocationSpec, SegmentSpec, SymbolSpec};
use outboard_elf::{Elf, dt, machine, pf};
use outboard_link::check::{CheckRequest, Profile, check};
use outboard_link::export_sets::ExportSets;
use outboard_link::inspect::inspect;
use outboard_link::prelink::{PrelinkRequest, prelink_c7x};
use outboard_link::target::Target;
use outboard_link::{ExportTable, LoadRequest, SegmentKind, SegmentRequest, TargetMemory, load};
use support::*;

/// Counts what this thread allocates, so that tests may run side by side.
struct Counting;

thread_local! {
    static LIVE: Cell<usize> = const { Cell::new(0) };
    static PEAK: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call is passed on to the system's allocator unchanged; counting touches only this thread's cells.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let live = LIVE.get().saturating_add(layout.size());
        LIVE.set(live);
        PEAK.set(PEAK.get().max(live));
        // SAFETY: the caller's promises about `layout` are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.set(LIVE.get().saturating_sub(layout.size()));
        // SAFETY: the pointer came from `alloc` above, which is the system's.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The most memory that `work` held at once beyond what was there before.
fn peak(work: impl FnOnce()) -> usize {
    let before = LIVE.get();
    PEAK.set(before);
    work();
    PEAK.get() - before
}

/// Runs everything that reads a file.
fn read_every_way(file: &[u8], exports: &ExportTable, sets: &ExportSets, board: &Target) {
    let _ = inspect(file);
    let _ = prelink_c7x(&PrelinkRequest::new(file, "file", exports, board));
    for profile in [Profile::C7x, Profile::Remoteproc] {
        let _ = check(&CheckRequest { file, name: "file", profile, target: board, exports, sets });
    }
    let mut memory = pool();
    if let Ok(module) = load(&LoadRequest { staging: Some(STAGING), ..request(file, exports) }, &mut memory) {
        module.release(&mut memory);
    }
    assert_eq!(memory.free(), POOL_SIZE);
}

/// Files that ask for much: by counts, sizes and names.
fn greedy_files() -> Vec<(&'static str, Vec<u8>)> {
    let (base, _, data) = small();
    // Fifty thousand symbols that share one name of 60,000 bytes, each from an offset of its own: 3 GB of names in a
    // file of 2 MB.
    let long = "n".repeat(60_000);
    let mut names = small().0;
    names.symbol(SymbolSpec::import(&long));
    for _ in 0..50_000 {
        names.symbol(SymbolSpec::import("n"));
    }
    let mut suffixes = names.build_mapped();
    share_the_longest_name(&mut suffixes.0, &suffixes.1);
    let mut spread = ImageBuilder::new(machine::C7X);
    for index in 0..100 {
        spread.segment(SegmentSpec::zeroed(pf::R | pf::W, 3 << 20).at(0x1000_0000 * index));
    }
    let mut overlay = small().0;
    for index in 0..200_u64 {
        let header = outboard_elf::Segment {
            index: 0,
            header: 0,
            kind: 1,
            flags: if index % 2 == 0 { pf::R } else { pf::R | pf::W },
            offset: 0,
            vaddr: 0x9000_0000 + 0x10_0000 * index,
            paddr: 0,
            filesz: 4096,
            memsz: 0x10_0000,
            align: 1,
        };
        overlay.header(header);
    }
    let mut tail = base.clone();
    let bss = tail.segment(SegmentSpec::zeroed(pf::R | pf::W, 340 << 20));
    let mut tail_relocated = tail.clone();
    let symbol = tail_relocated.section_symbol(data);
    tail_relocated.relocate(RelocationSpec::new(bss, (340 << 20) - 8, ABS64, symbol, 0));
    vec![
        ("symbols", base.clone().override_tag(dt::HASH, 0x10).build()),
        ("suffixes", suffixes.0),
        ("zeroes", spread.build()),
        ("overlaid segments", overlay.build()),
        ("a large tail", tail.build()),
        ("a relocation at the end of a large tail", tail_relocated.build()),
        ("missing symbols", importing(&[long.as_str(); 300])),
        ("mangled names", importing(&["_ZSt".repeat(120).as_str(), &format!("_Z{}", "S_".repeat(200))])),
    ]
}

/// Lets every symbol from the third on use the longest name of the table, from an offset of its own.
fn share_the_longest_name(file: &mut [u8], map: &outboard_elf::write::FileMap) {
    let strings = usize::try_from(map.strings).unwrap();
    let longest = file[strings..].windows(16).position(|window| window == [b'n'; 16]).unwrap();
    for index in 3..usize::try_from(map.symbol_count).unwrap() {
        let at = usize::try_from(map.symbols).unwrap() + 24 * index;
        let name = u32::try_from(longest + index % 1000).unwrap();
        file[at..at + 4].copy_from_slice(&name.to_le_bytes());
    }
}

#[test]
#[cfg_attr(miri, ignore = "hundreds of megabytes of zeros are not for an interpreter")]
fn p1_no_file_makes_a_reader_hold_more_than_four_times_its_size_and_64_mib() {
    let (firmware, sets, board) = (firmware(), ExportSets::builtin(), Target::am67a());
    let mut files = greedy_files();
    assert_eq!(files.len(), 8);
    files.extend(recorded_modules().into_iter().map(|(_, file)| ("recorded", file)));
    for (name, file) in files {
        let held = peak(|| read_every_way(&file, &firmware, &sets, &board));
        let limit = 4 * file.len() + (64 << 20);
        assert!(held <= limit, "{name}: {held} bytes for a file of {}", file.len());
    }
}

#[test]
#[cfg_attr(miri, ignore = "thousands of loads are not for an interpreter")]
fn p1_damaged_copies_of_every_module_are_read_without_panic_and_within_the_same_memory() {
    let (firmware, sets, board) = (firmware(), ExportSets::builtin(), Target::am67a());
    let mut seed = 0x243f_6a88_85a3_08d3_u64;
    for (name, file) in recorded_modules().into_iter().filter(|(_, file)| !file.is_empty()) {
        for _ in 0..20 {
            let mut damaged = file.clone();
            for _ in 0..4 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let at = usize::try_from(seed >> 33).unwrap() % damaged.len();
                damaged[at] = match seed >> 8 & 3 {
                    0 => 0,
                    1 => 0xff,
                    2 => 0x80,
                    _ => seed.to_le_bytes()[0],
                };
            }
            let held = peak(|| read_every_way(&damaged, &firmware, &sets, &board));
            assert!(held <= 4 * damaged.len() + (64 << 20), "{name}: {held}");
        }
    }
}

#[test]
fn p2_a_load_that_runs_out_of_memory_at_any_allocation_leaves_no_trace() {
    let firmware = firmware();
    let mut failures = 0;
    for (name, file) in recorded_modules() {
        for allowed in 0..64 {
            let mut memory = Faulty::new();
            memory.allocations = allowed;
            let result = memory.load(&file, &firmware);
            let failed = result.as_ref().is_err_and(|error| error.kind() == "out_of_memory");
            if let Ok(module) = result {
                assert!(allowed >= module.segments().len(), "{name}");
                module.release(&mut memory);
            }
            assert!(memory.untouched(), "{name} with {allowed} allocations");
            failures += usize::from(failed);
            if !failed {
                break;
            }
        }
    }
    assert!(failures > 80 || cfg!(miri), "{failures} injected failures");
}

#[test]
fn p2_a_load_that_fails_at_any_access_leaves_no_trace() {
    let firmware = firmware();
    let mut failures = 0;
    for (name, file) in recorded_modules() {
        for allowed in 0..if cfg!(miri) { 3 } else { 400 } {
            let mut memory = Faulty::new();
            memory.accesses = allowed;
            let result = memory.load(&file, &firmware);
            let failed = result.as_ref().is_err_and(|error| error.kind() == "memory_fault");
            if let Ok(module) = result {
                module.release(&mut memory);
            }
            assert!(memory.untouched(), "{name}, access {allowed}");
            failures += usize::from(failed);
            if !failed {
                break;
            }
        }
    }
    assert!(failures > 200 || cfg!(miri), "{failures} injected failures");
}

#[test]
#[cfg_attr(miri, ignore = "thousands of loads are not for an interpreter")]
fn p2_a_load_that_fails_at_any_relocation_leaves_memory_file_and_table_as_they_were() {
    let firmware = firmware();
    let mut failures = 0;
    for (name, file) in recorded_modules() {
        let Ok(original) = Faulty::new().load(&file, &firmware) else { continue };
        let Some((start, count)) = relocation_table(&file) else { continue };
        assert_eq!(original.relocations().values().sum::<u64>(), count as u64);
        for index in 0..count {
            let mut damaged = file.clone();
            let kind = start + 24 * index + 8;
            damaged[kind..kind + 4].copy_from_slice(&99_u32.to_le_bytes());
            let before = (damaged.clone(), firmware.sorted().len());
            // A neighbour whose bytes must survive.
            let mut memory = Faulty::new();
            let neighbour = Some(POOL + 0x8_0000);
            let neighbour = SegmentRequest { size: 512, align: 128, kind: SegmentKind::Data, address: neighbour };
            let neighbour = memory.allocate(&neighbour).unwrap();
            memory.bytes_mut(neighbour, 512).unwrap().fill(0x99);
            let error = memory.load(&damaged, &firmware).unwrap_err();
            assert_eq!(error.kind(), "invalid_reloc_type", "{name}, relocation {index}");
            assert_eq!(memory.bytes(neighbour, 512).unwrap(), [0x99; 512], "the neighbour is untouched");
            memory.bytes_mut(neighbour, 512).unwrap().fill(0);
            memory.release(neighbour);
            assert!(memory.untouched(), "{name}, relocation {index}");
            assert_eq!((damaged, firmware.sorted().len()), before);
            failures += 1;
        }
    }
    assert!(failures > 3000, "{failures} injected failures");
}

/// File offset and length of a C7x module's relocation table.
fn relocation_table(file: &[u8]) -> Option<(usize, usize)> {
    let dynamic = Elf::parse(file).ok()?.dynamic(outboard_elf::Pointers::FileOffset).ok()??;
    let (start, size) = (dynamic.get(dt::RELA)?, dynamic.get(dt::RELASZ)?);
    Some((usize::try_from(start).ok()?, usize::try_from(size / 24).ok()?))
}

#[test]
#[cfg_attr(miri, ignore = "compares thousands of names: minutes in an interpreter")]
fn p6_all_missing_symbols_are_reported_at_once_sorted_and_with_near_names() {
    let names: Vec<String> = (0..37).map(|index| format!("vendor_call_{:02}", 36 - index)).collect();
    let mut all: Vec<&str> = names.iter().map(String::as_str).collect();
    all.extend(["memcyp", "TVMBackendAlocWorkspace", "cg_helper", "memset"]);
    let error = refused(&importing(&all), &firmware());
    assert_eq!(error.kind(), "unresolved_symbol");
    let symbols = error.symbols();
    assert_eq!(symbols.len(), 40, "memset is there");
    assert!(symbols.is_sorted());
    let text = error.to_string();
    assert!(text.starts_with("module lib0.out uses 40 symbols that this device does not provide:"), "{text}");
    let line = |name: &str| text.lines().find(|line| line.trim_start().starts_with(name)).unwrap();
    assert_eq!(
        line("memcyp"),
        "  memcyp: not exported by the device and not defined in the module; did you mean memcmp, memcpy"
    );
    assert!(line("TVMBackendAlocWorkspace").contains("did you mean TVMBackendAllocWorkspace"));
    assert!(!line("vendor_call_00").contains("did you mean"));
}
