//! Times of the image tools, each beside the floor of the same run: moving the bytes, or looking at each once.
//!
//! `cargo bench -p outboard-ucode` prints the table.
#![allow(clippy::print_stdout, reason = "the table is the result")]
#![allow(missing_docs, reason = "a program")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use outboard_link::pi::{PrelinkRequest, prelink};
use outboard_ucode::{carve, cores, inspect, twins};

/// Median and the tenth fastest of a hundred, over `rounds` runs.
fn measure(rounds: usize, mut work: impl FnMut()) -> (Duration, Duration) {
    let mut times: Vec<Duration> = (0..rounds)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed()
        })
        .collect();
    times.sort_unstable();
    (times[rounds / 2], times[rounds / 10])
}

fn row(name: &str, (median, fast): (Duration, Duration)) {
    println!("| {name:<52} | {:>10.2} | {:>10.2} |", median.as_secs_f64() * 1e6, fast.as_secs_f64() * 1e6);
}

fn main() {
    println!("| {:<52} | {:>10} | {:>10} |", "what", "median µs", "p10 µs");
    println!("| {:-<52} | {:-<10} | {:-<10} |", "", "", "");
    let file = twins::image("cayman_0").expect("a twin");
    let bounds = &cores::find("cayman").expect("a core").bounds;
    let request = PrelinkRequest::new(&file, bounds);
    row(
        "floor: allocate and fill two windows, copy them out",
        measure(5000, || {
            let (code, data) = (vec![0xa5_u8; 0x8008], vec![0xa5_u8; 0x2008]);
            let mut image = Vec::with_capacity(0x73cc);
            image.extend_from_slice(black_box(&code[..0x6f40]));
            image.extend_from_slice(black_box(&data[..0x48c]));
            black_box(image);
        }),
    );
    row(
        "prelink 41,568 bytes, 240 relocations, with staging",
        measure(5000, || {
            let image = prelink(black_box(&request)).expect("prelinks");
            black_box(image.image());
        }),
    );
    row(
        "inspect the same image",
        measure(500, || {
            black_box(inspect::inspect(black_box(&file)).expect("inspects"));
        }),
    );
    let library = twins::host_library();
    row(
        "floor: sum the bytes of a library of 10,276,288",
        measure(50, || {
            black_box(black_box(&library).iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte)));
        }),
    );
    row(
        "carve that library: 16 images, names, hashes",
        measure(50, || {
            black_box(carve::carve(black_box(&library)));
        }),
    );
}
