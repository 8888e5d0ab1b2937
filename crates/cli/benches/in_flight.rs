//! Inferences a second with one call under way and with sixteen, in turns, on the smallest module there is.
//!
//! ```text
//! cargo bench -p outboard-cli --bench in_flight
//! ```
//!
//! With one call under way, host and device wait for each other; with sixteen, the message ring is full, and the device goes
//! from one call to the next. Read the ratio, not the times: it holds on any machine.
#![expect(clippy::print_stdout, reason = "the table is the result of this program")]

#[path = "../tests/support/pipeline.rs"]
mod pipeline;
#[path = "../tests/support/mod.rs"]
#[allow(clippy::unwrap_used, reason = "the support of the tests: a bench that cannot go on fails, too")]
mod support;

use pipeline::{Pipeline, status};
use std::time::{Duration, Instant};
use support::{PROGRAM, module};

/// Calls of one measurement.
const CALLS: usize = 16_000;
/// Measurements of each kind, in turns.
const TURNS: usize = 5;
/// The behaviour that counts its runs.
const COUNT: i32 = 1;

/// Time of a call when so many are under way.
fn calls(host: &mut Pipeline, handle: u32, in_flight: usize) -> Duration {
    let start = Instant::now();
    for _ in 0..CALLS / in_flight {
        for slot in 0..in_flight {
            host.send_infer(handle, slot, COUNT);
        }
        for _ in 0..in_flight {
            assert!(status(&host.receive()).is_some_and(|status| status.code() == 0));
        }
    }
    start.elapsed() / u32::try_from(CALLS).unwrap_or(u32::MAX)
}

fn main() {
    let file = std::fs::read(module("behaviours.c")).expect("the module was compiled");
    let mut host = Pipeline::open(PROGRAM, 16);
    let handle = host.load(&file);
    let mut turns = [1, 16].map(|in_flight| (in_flight, Vec::new()));
    for _ in 0..TURNS {
        for (in_flight, times) in &mut turns {
            times.push(calls(&mut host, handle, *in_flight));
        }
    }
    let medians = turns.map(|(in_flight, mut times)| {
        times.sort_unstable();
        (in_flight, times[TURNS / 2])
    });
    println!("under way   a call, us   calls a second   ratio");
    for (in_flight, median) in medians {
        let seconds = median.as_secs_f64();
        let ratio = medians[0].1.as_secs_f64() / seconds;
        println!("{in_flight:>9}   {:>10.2}   {:>14.0}   {ratio:>5.2}", seconds * 1e6, 1.0 / seconds);
    }
}
