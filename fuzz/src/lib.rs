//! Fuzz targets: functions that take any bytes, must return, and must not break a promise.
//!
//! Each returns a *signature* of what happened. The runner keeps inputs with a signature that it has not seen, which leads
//! it from one error to the next without instrumentation.

pub mod device;
pub mod elf;
pub mod host;
pub mod images;
pub mod load;
pub mod mutate;
pub mod neff;
pub mod shape;
pub mod signature;
pub mod xtensa;

/// A fuzz target.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Name, and folder of its corpus.
    pub name: &'static str,
    /// Runs it on one input.
    pub run: fn(&[u8]) -> u64,
}

/// All targets.
pub const TARGETS: [Target; 16] = [
    Target { name: "elf", run: elf::run },
    Target { name: "load", run: load::run },
    Target { name: "weights", run: device::weights },
    Target { name: "io_meta", run: device::io_meta },
    Target { name: "service", run: device::service },
    Target { name: "host", run: host::run },
    Target { name: "pi", run: images::pi },
    Target { name: "prelink", run: images::prelink },
    Target { name: "ucpl", run: images::ucpl },
    Target { name: "carve", run: images::carve },
    Target { name: "neff", run: neff::neff },
    Target { name: "seq", run: neff::seq },
    Target { name: "shape", run: shape::run },
    Target { name: "link", run: xtensa::link },
    Target { name: "asm", run: xtensa::asm },
    Target { name: "engine", run: xtensa::engine },
];
