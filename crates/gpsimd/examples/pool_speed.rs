//! How fast the pool is: instructions per second of a core, what more host threads bring, what diagnosis
//! and a dispatch cost.
//!
//! `cargo run --release -p outboard-gpsimd --example pool_speed`
#![allow(clippy::print_stdout, reason = "this program prints a table")]

use outboard_device_build::DeviceBuild;
use outboard_gpsimd::{Arg, PoolTarget, Rules, RunReport, Runtime, RuntimeOptions, Schedule};
use outboard_tensor::{Shape, Tensor};
use std::error::Error;
use std::time::{Duration, Instant};

/// Floats of the large tensor: 16 MB.
const LARGE: usize = 4 << 20;
/// Runs with one thread, and with all; the medians count.
const ROUNDS: usize = 7;
/// Dispatches of the small one.
const DISPATCHES: u32 = 2000;

fn main() -> Result<(), Box<dyn Error>> {
    let linked = DeviceBuild::default().resident_op("relu", PoolTarget::default().bounds())?;
    let mut runtime = Runtime::new(RuntimeOptions::default())?;
    runtime.load(&[&linked.image])?;
    let mut watched = Runtime::new(RuntimeOptions { rules: Rules::all(), ..RuntimeOptions::default() })?;
    watched.load(&[&linked.image])?;
    let host = std::thread::available_parallelism().map_or(1, usize::from);

    // In turns, so that whatever else the machine does meets both.
    let (mut ones, mut alls, mut diagnosed) = (Vec::new(), Vec::new(), Vec::new());
    let mut report = RunReport::default();
    for _ in 0..ROUNDS {
        ones.push(relu(&mut runtime, LARGE, Schedule::Seeded(1))?.0);
        let (time, what) = relu(&mut runtime, LARGE, Schedule::Threads)?;
        alls.push(time);
        diagnosed.push(relu(&mut watched, LARGE, Schedule::Threads)?.0);
        report = what;
    }
    let (one, all, diagnosed) = (median(ones), median(alls), median(diagnosed));
    let instructions: u64 = report.cores.iter().map(|core| core.instructions).sum();
    let scaling = one.as_secs_f64() / all.as_secs_f64();
    let wanted = 8.min(host);
    println!("relu of 16 MB on 8 cores, {host} host threads");
    println!("  {:>8.1} M instructions/s on one thread", rate(instructions, one));
    println!("  {:>8.1} M instructions/s on {wanted} threads", rate(instructions, all));
    println!("  {:>8.1} M instructions/s for each core then", rate(instructions, all) / 8.0);
    println!("  {scaling:>8.2} times as fast, {:.2} of {wanted}", scaling / wanted as f64);

    println!("  {:>8.2} times as long with diagnosis", diagnosed.as_secs_f64() / all.as_secs_f64());

    let started = Instant::now();
    for _ in 0..DISPATCHES {
        relu(&mut runtime, 8, Schedule::Seeded(1))?;
    }
    let each = started.elapsed() / DISPATCHES;
    let (_, report) = relu(&mut runtime, 8, Schedule::Seeded(1))?;
    let executed: u64 = report.cores.iter().map(|core| core.instructions).sum();
    println!("dispatch of 8 elements: {:.1} us, {executed} instructions on all cores", each.as_secs_f64() * 1e6);
    Ok(())
}

fn relu(runtime: &mut Runtime, count: usize, schedule: Schedule) -> Result<(Duration, RunReport), Box<dyn Error>> {
    runtime.set_schedule(schedule);
    let width = 4096.min(count);
    let x = Tensor::from_values(Shape::new(&[count / width, width])?, &vec![-1.0_f32; count])?;
    let args = [Arg::from(x)];
    let started = Instant::now();
    let outcome = runtime.library()?.op("relu_forward")?.run(&args)?;
    Ok((started.elapsed(), outcome.report))
}

/// The middle one.
fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// Millions a second.
fn rate(count: u64, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64() / 1e6
}
