//! Fuzz targets: functions that take any bytes, must return, and must not break a promise.
//!
//! Each returns a *signature* of what happened. The runner keeps inputs with a signature that it has not seen, which leads
//! it from one error to the next without instrumentation.

pub mod device;
pub mod elf;
pub mod load;
pub mod mutate;
pub mod signature;

/// A fuzz target.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Name, and folder of its corpus.
    pub name: &'static str,
    /// Runs it on one input.
    pub run: fn(&[u8]) -> u64,
}

/// All targets.
pub const TARGETS: [Target; 5] = [
    Target { name: "elf", run: elf::run },
    Target { name: "load", run: load::run },
    Target { name: "weights", run: device::weights },
    Target { name: "io_meta", run: device::io_meta },
    Target { name: "service", run: device::service },
];
