//! Time to list a large container, beside the floor: inflating its payload once.
//!
//! `cargo bench -p outboard-neff` prints the table.
#![allow(clippy::print_stdout, reason = "the table is the result")]
#![allow(missing_docs, reason = "a program")]

use std::hint::black_box;
use std::io::Read;
use std::time::{Duration, Instant};

use flate2::bufread::MultiGzDecoder;
use outboard_neff::{Neff, PackOptions, inspect, pack};

/// Weights: bytes that compress a little, as real ones do.
fn weights(bytes: usize) -> Vec<u8> {
    let mut state = 1_u64;
    (0..bytes)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 60).to_le_bytes()[0]
        })
        .collect()
}

/// Medians of several pieces of work, run in turns so that a busy machine slows all alike.
fn medians<const N: usize>(rounds: usize, mut work: [&mut dyn FnMut(); N]) -> [Duration; N] {
    let mut times = [const { Vec::new() }; N];
    for _ in 0..rounds {
        for (times, work) in times.iter_mut().zip(&mut work) {
            let start = Instant::now();
            work();
            times.push(start.elapsed());
        }
    }
    times.map(|mut times| {
        times.sort_unstable();
        times[rounds / 2]
    })
}

fn main() {
    let def = r#"{"name":"g","var":{"x":{"var_id":0,"type":"input"},"y":{"var_id":1,"type":"output"}}}"#;
    let mut members = vec![
        ("kelf-a.json".to_owned(), br#"{"graphs":[{"definition":"sg00/def.json"}],"target":"*"}"#.to_vec()),
        ("sg00/def.json".to_owned(), def.as_bytes().to_vec()),
    ];
    let block = weights(20 << 20);
    members.extend((0..10).map(|index| (format!("sg00/w{index}.npy"), block.clone())));
    let file = pack(&members, &PackOptions::default()).expect("packs");
    println!("a container of {} bytes, {} members", file.len(), members.len());
    println!("| {:<40} | {:>10} |", "what", "median ms");
    println!("| {:-<40} | {:-<10} |", "", "");
    let mut floor = || {
        let mut inflated = MultiGzDecoder::new(black_box(&file[1024..]));
        let mut buffer = vec![0; 16 << 10];
        while inflated.read(&mut buffer).expect("inflates") > 0 {
            black_box(&buffer);
        }
    };
    let mut list = || {
        black_box(Neff::parse(black_box(&file)).expect("parses").list().expect("lists"));
    };
    let mut report = || {
        black_box(inspect(black_box(&file)).expect("inspects"));
    };
    let times = medians(5, [&mut floor, &mut list, &mut report]);
    let names = ["floor: inflate the payload once", "list the members", "inspect: members, manifests, graphs"];
    for (name, time) in names.iter().zip(times) {
        println!("| {name:<40} | {:>10.1} |", time.as_secs_f64() * 1e3);
    }
}
