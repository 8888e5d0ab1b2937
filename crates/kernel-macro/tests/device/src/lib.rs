//! Kernels in Rust: with constants, a table of functions, a counter and an array in memory.
#![no_std]

use core::sync::atomic::{AtomicU32, Ordering};
use outboard_kernel_macro::kernel;

static CALLS: AtomicU32 = AtomicU32::new(0);
static FACTORS: [u32; 4] = [3, 1000, 70_000, 9];
static STEPS: [fn(u32) -> u32; 2] = [double, increment];

#[inline(never)]
fn double(value: u32) -> u32 {
    2 * value
}

#[inline(never)]
fn increment(value: u32) -> u32 {
    value.wrapping_add(1)
}

/// What the device calls when it has loaded the image.
#[unsafe(export_name = "_start")]
extern "C" fn start(_: *const u32) -> u32 {
    CALLS.store(40, Ordering::Relaxed);
    0
}

/// Counts.
#[kernel(opcode = 0x7e)]
extern "C" fn count() -> u32 {
    CALLS.store(CALLS.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    CALLS.load(Ordering::Relaxed)
}

/// Looks up a factor and walks the table of functions.
#[kernel(opcode = 0xf0, spec = 2)]
extern "C" fn steps(index: u32) -> u32 {
    let factor = FACTORS.get(index as usize).copied().unwrap_or(0);
    STEPS.iter().fold(factor, |value, step| step(value))
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}
