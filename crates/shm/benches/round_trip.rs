//! Round trips through the message rings beside their floors, all in one run and in turns.
//!
//! ```text
//! cargo bench -p outboard-shm
//! ```
//!
//! The floor of a spinning round trip is two threads that hand a number back and forth over two cache lines; that of a
//! blocking one is a futex handed back and forth. Read the ratios, not the times: they hold on any machine.

use outboard_shm::{MESSAGE_BYTES, Port, Received, Side, WaitPolicy};
use rustix::thread::futex::{Flags, wait, wake};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Rounds of one measurement.
const ROUNDS: u32 = 20_000;
/// Measurements of each kind, in turns.
const TURNS: usize = 5;
/// Messages under way at once in the throughput row.
const IN_FLIGHT: u32 = 16;
const SPIN: WaitPolicy = WaitPolicy { spin: Duration::from_secs(10), slice: Duration::from_millis(20) };
const BLOCK: WaitPolicy = WaitPolicy { spin: Duration::ZERO, slice: Duration::from_millis(20) };

#[repr(align(128))]
#[derive(Default)]
struct Line(AtomicU32);

/// Time of a round trip over two cache lines.
fn spin_floor() -> Duration {
    let lines = Arc::new((Line::default(), Line::default()));
    let peer = Arc::clone(&lines);
    let echo = std::thread::spawn(move || {
        for round in 1..=ROUNDS {
            await_value(&peer.0.0, round);
            peer.1.0.store(round, Ordering::Release);
        }
    });
    let start = Instant::now();
    for round in 1..=ROUNDS {
        lines.0.0.store(round, Ordering::Release);
        await_value(&lines.1.0, round);
    }
    let took = start.elapsed() / ROUNDS;
    let _ = echo.join();
    took
}

/// Spins, and lets a peer on the same processor have it now and then.
fn await_value(cell: &AtomicU32, value: u32) {
    let mut spins = 0u32;
    while cell.load(Ordering::Acquire) != value {
        std::hint::spin_loop();
        spins += 1;
        if spins.is_multiple_of(64) {
            std::thread::yield_now();
        }
    }
}

/// Time of a round trip over two futexes.
fn futex_floor() -> Duration {
    let words = Arc::new((AtomicU32::new(0), AtomicU32::new(0)));
    let peer = Arc::clone(&words);
    let pass = |word: &AtomicU32, round: u32| {
        word.store(round, Ordering::SeqCst);
        let _ = wake(word, Flags::empty(), 1);
    };
    let block = |word: &AtomicU32, round: u32| {
        while word.load(Ordering::SeqCst) != round {
            let _ = wait(word, Flags::empty(), round - 1, None);
        }
    };
    let echo = std::thread::spawn(move || {
        for round in 1..=ROUNDS {
            block(&peer.0, round);
            pass(&peer.1, round);
        }
    });
    let start = Instant::now();
    for round in 1..=ROUNDS {
        pass(&words.0, round);
        block(&words.1, round);
    }
    let took = start.elapsed() / ROUNDS;
    let _ = echo.join();
    took
}

/// Time of a message there and back; `in_flight` messages are under way at once.
fn ring(policy: WaitPolicy, in_flight: u32) -> Option<Duration> {
    let (object, host) = Port::create().ok()?;
    let device = Port::open(&object, Side::Device).ok()?;
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let echo = std::thread::spawn(move || {
        let mut buffer = [0; MESSAGE_BYTES];
        while !stopped.load(Ordering::Relaxed) {
            let soon = Some(Instant::now() + Duration::from_millis(100));
            if let Ok(Received::Message(len)) = device.receive(&mut buffer, soon, policy, &mut || true) {
                let _ = device.send(&buffer[..len]);
            }
        }
    });
    let mut buffer = [0; MESSAGE_BYTES];
    let start = Instant::now();
    for _ in 0..ROUNDS / in_flight {
        for _ in 0..in_flight {
            host.send(&[7; 144]).ok()?;
        }
        for _ in 0..in_flight {
            let soon = Some(Instant::now() + Duration::from_secs(5));
            match host.receive(&mut buffer, soon, policy, &mut || true) {
                Ok(Received::Message(_)) => {}
                _ => return None,
            }
        }
    }
    let took = start.elapsed() / (ROUNDS / in_flight * in_flight);
    stop.store(true, Ordering::Relaxed);
    let _ = echo.join();
    Some(took)
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times.get(times.len() / 2).map_or(f64::NAN, Duration::as_secs_f64) * 1e6
}

#[allow(clippy::print_stdout, reason = "the table is the benchmark's result")]
fn main() {
    let mut times: [Vec<Duration>; 6] = Default::default();
    for _ in 0..TURNS {
        let measured = [
            Some(spin_floor()),
            ring(SPIN, 1),
            Some(futex_floor()),
            ring(BLOCK, 1),
            ring(WaitPolicy::default(), 1),
            ring(WaitPolicy::default(), IN_FLIGHT),
        ];
        for (times, time) in times.iter_mut().zip(measured) {
            times.extend(time);
        }
    }
    let [spin_floor, spin, futex_floor, block, adaptive, many] = times.map(median);
    println!("{:<44} {:>9} {:>18}", "", "µs", "ratio");
    println!("{:<44} {spin_floor:>9.2}", "floor: two cache lines, spinning");
    println!("{:<44} {spin:>9.2} {:>11.2} x floor", "ring, spinning", spin / spin_floor);
    println!("{:<44} {futex_floor:>9.2}", "floor: two futexes, blocking");
    println!("{:<44} {block:>9.2} {:>11.2} x floor", "ring, blocking", block / futex_floor);
    println!("{:<44} {adaptive:>9.2} {:>11.2} x spinning", "ring, spinning first and blocking then", adaptive / spin);
    println!("{:<44} {many:>9.2} {:>9.0} thousand/s", "ring, a message of 16 under way", 1e3 / many);
}
