//! Promise P1 for every reader of this crate and of `outboard-ucode`: no file makes them panic, run long or allocate more
//! than four times its size and 64 MiB.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use outboard_link::pi::{PrelinkRequest, prelink};
use outboard_neff::metaneff::MetaNeff;
use outboard_neff::{Neff, PackOptions, Packager, RuntimeVersion, inspect_file, pack, seq, verify};
use outboard_ucode::carve::carve;
use outboard_ucode::cores::{self, CoreKind};
use outboard_ucode::resident::{Flavor, resident};
use outboard_ucode::twins;

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

/// A reader: what it does with a file does not matter here, only that it returns and what it holds on the way.
type Reader = fn(&[u8]) -> usize;

/// Every reader of both crates.
const READERS: [(&str, Reader); 6] = [
    ("inspect", |file| inspect_file("file", file).map_or(0, |found| found.map_or(0, |found| found.to_string().len()))),
    ("prelink", |file| {
        let prelinked = |core: &CoreKind| prelink(&PrelinkRequest::new(file, &core.bounds)).is_ok();
        cores::all().iter().filter(|core| prelinked(core)).count()
    }),
    ("carve", |file| {
        let found = |core: &&CoreKind| resident(file, core, Flavor::Perf, 0).is_ok();
        carve(file).images.len() + cores::all().iter().filter(found).count()
    }),
    ("container", |file| {
        let unpacked = Neff::parse(file).and_then(|neff| neff.list()).map_or(0, |listing| listing.members.len());
        unpacked + verify(file, RuntimeVersion::default()).map_or(0, |report| report.members)
    }),
    ("metaneff", |file| MetaNeff::decode(file).map_or(0, |message| message.encode().len())),
    ("stream", |file| seq::inspect(file, seq::Dialect::V2).slots.len()),
];

/// Reads a file in every way and checks how much memory was held at once.
fn read_every_way(name: &str, file: &[u8]) {
    for (reader, read) in READERS {
        // Streams cost the same everywhere; unoptimised, a part says as much as the whole.
        let file = if reader == "stream" { &file[..file.len().min(1 << 18)] } else { file };
        let before = LIVE.get();
        PEAK.set(before);
        let _ = read(file);
        let held = PEAK.get() - before;
        let allowed = 4 * file.len() + (64 << 20);
        assert!(held <= allowed, "{reader} of {name}: {held} bytes held for a file of {}", file.len());
    }
}

fn put(file: &mut [u8], at: usize, value: u32) {
    file[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

/// An image whose section table is replaced by `count` sections that share one name of `name` bytes.
fn many_sections(count: u16, name: &str) -> Vec<u8> {
    let mut file = twins::image("cayman_1").unwrap();
    let names = file.len();
    file.extend(b".xt.prop.");
    file.extend(name.bytes());
    file.push(0);
    file.resize(file.len().next_multiple_of(4), 0);
    let table = u32::try_from(file.len()).unwrap();
    for index in 0..count {
        let last = index == count - 1;
        let (size, at) =
            if last { (u32::try_from(name.len()).unwrap() + 10, u32::try_from(names).unwrap()) } else { (4, 0) };
        let words = [0, if last { 3 } else { 1 }, 2, 0x0100_0000, at, size, 0, 0, 1, 0];
        file.extend(words.iter().flat_map(|word: &u32| word.to_le_bytes()));
    }
    put(&mut file, 32, table);
    file[48..50].copy_from_slice(&count.to_le_bytes());
    file[50..52].copy_from_slice(&(count - 1).to_le_bytes());
    file
}

/// An image with a relocation table of many halves that never find the other.
fn many_relocations(count: u32) -> Vec<u8> {
    let mut file = twins::image("cayman_1").unwrap();
    let scratch = 0x34 + 2 * 32;
    let start = u32::try_from(file.len()).unwrap();
    let dynamic = usize::try_from(u32::from_le_bytes(file[scratch + 4..scratch + 8].try_into().unwrap())).unwrap();
    let table = file[dynamic..dynamic + 0xc8].to_vec();
    file.extend(table);
    for index in 0..count {
        file.extend([0x0100_0000 + index % 64, 35, index].iter().flat_map(|word| word.to_le_bytes()));
    }
    for header in [scratch, scratch + 32] {
        put(&mut file, header + 4, start);
    }
    put(&mut file, scratch + 16, 0xc8 + 12 * count);
    put(&mut file, scratch + 20, 0xc8 + 12 * count);
    put(&mut file, usize::try_from(start).unwrap() + 12, 12 * count);
    file
}

#[test]
fn files_that_ask_for_much_get_little() {
    let json = |text: String| {
        let members = [("kelf-a.json".to_owned(), text.into_bytes())];
        pack(&members, &PackOptions { packager: Packager::Gzip, ..PackOptions::default() }).unwrap()
    };
    let mut archive = b"!<arch>\n".to_vec();
    for _ in 0..70_000 {
        archive.extend(format!("{:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n", "a/", 0, 0, 0, 0, 0).bytes());
    }
    // A short mangled name that stands for a very long one.
    let nested = format!("_Z1f{}", "St4pairIS_S_E".repeat(60));
    let files = [
        ("sections that share a name", many_sections(65_000, &"n".repeat(60_000))),
        ("sections with a greedy mangled name", many_sections(30_000, &nested)),
        ("few sections", many_sections(40, "_Z1fv")),
        ("a hundred thousand relocations", many_relocations(100_000)),
        ("sixty thousand halves", many_relocations(60_000)),
        ("an archive of empty members", archive),
        ("a manifest of empty lists", json(format!("[{}[]]", "[],".repeat(500_000)))),
        ("a manifest of numbers", json(format!("[{}0]", "0,".repeat(5_000_000)))),
        ("a deep manifest", json("[".repeat(900_000))),
        ("a hundred thousand images", twins::image("cayman_1").unwrap()[..92].repeat(100_000)),
        ("a stream of a megabyte", [0x86, 0x10].repeat(1 << 19)),
    ];
    for (name, file) in files {
        read_every_way(name, &file);
    }
}

#[test]
fn sound_files_are_read_at_any_length() {
    let image = twins::image("cayman_1").unwrap();
    let staged = prelink(&PrelinkRequest::new(&image, &cores::find("cayman").unwrap().bounds)).unwrap().image();
    let members =
        [("kelf-a.json".to_owned(), br#"{"graphs":[],"target":"*"}"#.to_vec()), ("l.so".to_owned(), image.clone())];
    let packed = |packager| pack(&members, &PackOptions { packager, ..PackOptions::default() }).unwrap();
    let files = [
        ("image", image.clone()),
        ("prelinked", staged),
        ("raw container", packed(Packager::Raw)),
        ("container", packed(Packager::Gzip)),
    ];
    for (name, file) in files {
        read_every_way(name, &file);
        for end in (0..file.len()).step_by(997) {
            read_every_way(name, &file[..end]);
        }
    }
}
