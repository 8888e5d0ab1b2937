//! How long loading takes, beside a copy of the same bytes in the same run.
//!
//! `cargo bench -p outboard-benches --bench loader [-- FILTER]` prints the table and the slope. The gate of CI counts
//! instructions instead: `cargo run --release -p outboard-benches --bin loader-gate`.
#![expect(clippy::print_stdout, reason = "the table is the result of this program")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use outboard_benches::arena::Arena;
use outboard_benches::modules::{Mix, ModuleSpec, generate, import_name};
use outboard_link::{ExportTable, Initialisers, LoadRequest, Machine, load};

/// Counts what is allocated, so that the extra memory of a load can be printed.
struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is passed on to the system's allocator unchanged; counting touches no memory of the caller.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let live = LIVE.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK.fetch_max(live, Ordering::Relaxed);
        // SAFETY: the caller's promises about `layout` are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the pointer came from `alloc` above, which is the system's.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

struct Row {
    name: String,
    spec: ModuleSpec,
}

fn rows() -> Vec<Row> {
    let row = |name: String, spec| Row { name, spec };
    let mut rows = Vec::new();
    for exponent in 3..=6 {
        let count = 10_u64.pow(exponent);
        rows.push(row(format!("mixed/1e{exponent}"), ModuleSpec::new(count, Mix::Everything)));
    }
    for exponent in 4..=6 {
        let count = 10_u64.pow(exponent);
        rows.push(row(format!("pointers/1e{exponent}"), ModuleSpec::new(count, Mix::PointerTable)));
    }
    for exponent in 2..=4 {
        let imports = 10_u64.pow(exponent);
        let spec = ModuleSpec { imports, ..ModuleSpec::new(100_000, Mix::Imports) };
        rows.push(row(format!("imports/1e{exponent}"), spec));
    }
    for exponent in 2..=4 {
        let globals = 10_u64.pow(exponent);
        let spec = ModuleSpec { globals, ..ModuleSpec::new(100_000, Mix::OwnGlobals) };
        rows.push(row(format!("globals/1e{exponent}"), spec));
    }
    for segments in [2, 20, 200, 2000] {
        let spec = ModuleSpec { segments, ..ModuleSpec::new(100_000, Mix::Everything) };
        rows.push(row(format!("segments/{segments}"), spec));
    }
    rows
}

/// The shortest of several runs: the one with the least disturbance.
fn best(runs: u32, mut work: impl FnMut()) -> Duration {
    (0..runs)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed()
        })
        .min()
        .unwrap_or_default()
}

struct Measured {
    file: usize,
    copy: Duration,
    load: Duration,
    extra: usize,
}

fn measure(spec: &ModuleSpec, exports: &ExportTable, runs: u32) -> Measured {
    let file = generate(spec);
    let mut copy_to = vec![0xa5_u8; file.len()];
    let mut arena = Arena::new(0x1_0200_0000, file.len() + (1 << 20));
    let request = LoadRequest {
        file: &file,
        name: "bench.out",
        staging: None,
        exports,
        cpu_features: None,
        machines: &[Machine::C7x],
        initialisers: Initialisers::Refuse,
    };
    let mut load_once = || {
        arena.reset();
        let module = load(black_box(&request), &mut arena).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(module.relocations().values().sum::<u64>(), spec.relocations);
        black_box(&module);
    };
    load_once();
    PEAK.store(LIVE.load(Ordering::Relaxed), Ordering::Relaxed);
    let before = PEAK.load(Ordering::Relaxed);
    load_once();
    let extra = PEAK.load(Ordering::Relaxed) - before;
    // Alternate, so that both see the same neighbours on this machine.
    let (mut copy, mut load) = (Duration::MAX, Duration::MAX);
    for _ in 0..runs {
        copy = copy.min(best(1, || copy_to.copy_from_slice(black_box(&file))));
        black_box(&copy_to);
        load = load.min(best(1, &mut load_once));
    }
    Measured { file: file.len(), copy, load, extra }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let exports: ExportTable = (0..10_000).map(|index| (import_name(index), 0xa220_0000 + 16 * index)).collect();
    let filter = arguments.iter().find(|argument| !argument.starts_with('-'));
    println!("module                file MB   copy ms   load ms   load/copy   ns/relocation   extra memory");
    let mut mixed = Vec::new();
    for Row { name, spec } in rows() {
        if filter.is_some_and(|filter| !name.contains(filter.as_str())) {
            continue;
        }
        let runs = if spec.relocations >= 1_000_000 { 15 } else { 60 };
        let Measured { file, copy, load, extra } = measure(&spec, &exports, runs);
        if spec.mix == Mix::Everything && spec.segments == 2 {
            mixed.push((spec.relocations as f64, load.as_secs_f64() * 1e9));
        }
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        let each = load.as_secs_f64() * 1e9 / spec.relocations as f64;
        println!(
            "{name:<20}{:>9.2}{:>10.3}{:>10.3}{:>12.2}{each:>16.2}{:>13.1} %",
            file as f64 / 1e6,
            ms(copy),
            ms(load),
            load.as_secs_f64() / copy.as_secs_f64(),
            100.0 * extra as f64 / file as f64,
        );
    }
    if let Some(slope) = slope(&mixed) {
        println!("slope of the mixed modules: {slope:.2} ns per relocation");
    }
}

/// Least squares over (relocations, nanoseconds).
fn slope(points: &[(f64, f64)]) -> Option<f64> {
    let count = points.len() as f64;
    let mean = |values: &mut dyn Iterator<Item = f64>| values.sum::<f64>() / count;
    let (x, y) = (mean(&mut points.iter().map(|p| p.0)), mean(&mut points.iter().map(|p| p.1)));
    let covariance: f64 = points.iter().map(|p| (p.0 - x) * (p.1 - y)).sum();
    let variance: f64 = points.iter().map(|p| (p.0 - x) * (p.0 - x)).sum();
    (points.len() > 1).then(|| covariance / variance)
}
