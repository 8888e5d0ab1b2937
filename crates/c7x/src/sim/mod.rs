//! The simulated device: a process that is the DSP.
//!
//! [`run_worker`] maps the board's memory at the board's addresses (which is what makes a device address a pointer), serves
//! one session over the message rings, and runs modules compiled for the host CPU natively. A module that crashes takes
//! this process down and nothing else; the host finds a [`CrashRecord`](outboard_shm::CrashRecord).
#![allow(unsafe_code, reason = "maps the device's memory at fixed addresses and calls native code")]

mod board;
mod broker;
mod clib;
mod confine;
mod cpu;
mod crash;
mod inject;
mod machine;

pub use board::{Board, BoardRegion, Cache};
pub use broker::{BROKER_PROTOCOL, BrokerError, BrokerOptions, run_broker};
pub use inject::{BadFault, Faults};

use crate::memory::{Memory, MemoryMap};
use crate::pool::PoolId;
use crate::runtime::Runtime;
use crate::service::{Limits, Service};
use machine::SimMachine;
use outboard_link::ExportTable;
use outboard_shm::{ControlError, DeviceState, MapError, Mapping, Object, Port, Side};
use outboard_wire::KvLayout;
use std::boxed::Box;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::string::String;
use std::vec::Vec;

/// Why a device process could not start.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// Memory could not be mapped at a device address.
    #[error("the simulated device cannot map its {region}: {source}")]
    Map {
        /// Name of the region.
        region: &'static str,
        /// The reason.
        source: MapError,
    },
    /// The session object is unusable.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// The carveout has the wrong size.
    #[error("the shared carveout has {found:#x} bytes, the device's map says {expected:#x}")]
    Carveout {
        /// Size of the object.
        found: u64,
        /// Size of the map.
        expected: u64,
    },
    /// The system refuses something else.
    #[error("the simulated device cannot {what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// The reason.
        source: std::io::Error,
    },
    /// The process could not give up its rights.
    #[error("the simulated device cannot be confined: {reason}; it does not run unconfined")]
    Confinement {
        /// The reason.
        reason: String,
    },
    /// The map leaves no room for the boot-time printf buffer.
    #[error("the device's map has no printf buffer")]
    NoPrintf,
}

/// Every symbol the simulated device exports, sorted by name, with this process's addresses.
pub fn export_table() -> ExportTable {
    exported().map(|export| (export.name, export.address)).collect()
}

/// Address of the first exported symbol for C7x modules: inside the firmware's code region, one entry every 16 bytes.
const BOARD_EXPORTS: u64 = 0xAD60_4000;

/// The symbols that C7x modules may import, at addresses of the board's firmware. C7x code never runs here, so nothing stands at
/// them; they let a module load and verify as it would on the board.
pub fn board_export_table() -> ExportTable {
    export_names().into_iter().zip((BOARD_EXPORTS..).step_by(16)).collect()
}

/// Names of all symbols the simulated device exports, sorted.
pub fn export_names() -> Vec<&'static str> {
    let mut names: Vec<_> = exported().map(|export| export.name).collect();
    names.sort_unstable();
    names
}

fn exported() -> impl Iterator<Item = crate::runtime::Export> {
    crate::runtime::core_exports().into_iter().chain(clib::table()).chain(crate::runtime::kernel_exports())
}

/// Serves one session as the device until the host shuts it down or goes away.
///
/// `control` and `carveout` are the shared memory objects of the session; `faults` is what shall go wrong, `kv` how
/// the KV region is used.
///
/// # Errors
/// The device's memory cannot be mapped, or the objects are not a session's.
pub fn run_worker(control: OwnedFd, carveout: OwnedFd, faults: Faults, kv: KvLayout) -> Result<(), WorkerError> {
    die_with_parent()?;
    close_inherited([control.as_raw_fd(), carveout.as_raw_fd()])?;
    let map = MemoryMap::AM67A;
    let control = Object::from_fd(control).map_err(ControlError::from)?;
    // The crash handler uses the port until the very end of the process.
    let port: &'static Port = Box::leak(Box::new(Port::open(&control, Side::Device)?));
    let carveout =
        Object::from_fd(carveout).map_err(|source| WorkerError::Map { region: "shared carveout", source })?;
    let regions = map_regions(&map, &carveout)?;
    crash::install(port).map_err(|source| WorkerError::System { what: "install its fault handlers", source })?;
    // SAFETY: all regions of the map were mapped just now, read-write, and stay mapped until `regions` is dropped at the end
    // of this function, after the service and with it the memory.
    let memory = unsafe { Memory::new(map) };
    let mut runtime = Runtime::new(memory).ok_or(WorkerError::NoPrintf)?;
    if let Some(count) = faults.oom {
        runtime.pool(PoolId::Main).fail_allocation(count);
    }
    // Asks the kernel and keeps the answer, for when asking is not allowed any more.
    let _ = rustix::param::page_size();
    let machine = SimMachine::new(port, export_table(), regions, faults);
    let confinement = confine::confine().map_err(|reason| WorkerError::Confinement { reason })?;
    port.trace(&std::format!("[BOOT] confined: seccomp {}, landlock {}", confinement.seccomp, confinement.landlock));
    let mut service = Service::new(machine, runtime, Limits { kv, ..Limits::default() });
    service.run();
    drop(service);
    port.set_state(DeviceState::Stopped);
    Ok(())
}

/// Serves one session as a device inside of this process, until the port asks for a shutdown. There is one such device in a process at a
/// time, because its memory lies at the board's addresses. Nothing is confined: a module that crashes takes the process along.
///
/// # Errors
/// The device's memory cannot be mapped, or the objects are not a session's.
pub fn run_in_process(control: &Object, carveout: &Object, kv: KvLayout) -> Result<(), WorkerError> {
    let map = MemoryMap::AM67A;
    // Every start of a device keeps its end of the rings: whatever a module left running may still use it.
    let port: &'static Port = Box::leak(Box::new(Port::open(control, Side::Device)?));
    let regions = map_regions(&map, carveout)?;
    // SAFETY: all regions of the map were mapped just now, read-write, and stay mapped until `regions` is dropped with the
    // machine, which is the last part of the service.
    let memory = unsafe { Memory::new(map) };
    let runtime = Runtime::new(memory).ok_or(WorkerError::NoPrintf)?;
    let machine = SimMachine::new(port, export_table(), regions, Faults::default());
    let mut service = Service::new(machine, runtime, Limits { kv, ..Limits::default() });
    service.run();
    drop(service);
    port.set_state(DeviceState::Stopped);
    Ok(())
}

/// A host that dies without a word must not leave its device behind.
fn die_with_parent() -> Result<(), WorkerError> {
    let failed =
        |source: rustix::io::Errno| WorkerError::System { what: "follow its parent's life", source: source.into() };
    let parent = rustix::process::getppid();
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL)).map_err(failed)?;
    // The parent may have died before the request was in force.
    if rustix::process::getppid() == parent { Ok(()) } else { Err(failed(rustix::io::Errno::SRCH)) }
}

/// Closes what the parent left open by mistake: everything but the standard streams and the two objects.
fn close_inherited(mut kept: [RawFd; 2]) -> Result<(), WorkerError> {
    kept.sort_unstable();
    let bounds = [kept[0], kept[1], RawFd::MAX];
    let mut first = 3;
    for bound in bounds {
        if first < bound {
            // SAFETY: nothing in this process, which has just started, owns a descriptor in the gap.
            let failed = unsafe { libc::syscall(libc::SYS_close_range, first, bound - 1, 0) } != 0;
            if failed {
                let source = std::io::Error::last_os_error();
                return Err(WorkerError::System { what: "close inherited files", source });
            }
        }
        first = first.max(bound.saturating_add(1));
    }
    Ok(())
}

fn map_regions(map: &MemoryMap, object: &Object) -> Result<Vec<Mapping>, WorkerError> {
    let failed = |region| move |source| WorkerError::Map { region, source };
    if object.size() != map.carveout.size {
        return Err(WorkerError::Carveout { found: object.size(), expected: map.carveout.size });
    }
    let mut regions = Vec::new();
    for (name, region) in map.mapped() {
        regions.push(if region == map.carveout {
            Mapping::of_at(object, region.base).map_err(failed(name))?
        } else if region == map.l1 {
            continue; // mapped together with L2 aux, below which it lies on the same pages
        } else if region == map.l2_aux {
            Mapping::private_at(region.base, map.l1.end() - region.base).map_err(failed(name))?
        } else {
            Mapping::private_at(region.base, region.size).map_err(failed(name))?
        });
    }
    Ok(regions)
}
