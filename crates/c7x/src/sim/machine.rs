//! The platform of the simulated device: message rings, the host CPU, page permissions, native calls.

use super::inject::{Announce, Fate, Faults};
use super::{cpu, crash};
use crate::platform::{Entry, Incoming, Platform, Statistics, Step};
use core::fmt;
use outboard_link::{ExportTable, LoadedModule, Machine};
use outboard_shm::{DeviceState, MESSAGE_BYTES, Mapping, Port, Protection, Received, WaitPolicy, monotonic_ns};
use std::string::{String, ToString};
use std::time::{Duration, Instant};
use std::vec::Vec;

/// Cycles a second of the simulated clock: counts are raw monotonic nanoseconds at this rate.
const CLOCK_HZ: u64 = 1_000_000_000;
/// The instruction set of this process.
const HOST: Machine = match Machine::host() {
    Some(machine) => machine,
    None => panic!("the simulated device runs on x86-64 and AArch64 hosts"),
};
/// How long a receive waits before the service logs that it is idle, as on the board.
const RECEIVE: Duration = Duration::from_secs(30);

/// Cycles of the device's clock in a span of time.
pub(super) fn cycles_of(elapsed: Duration) -> u64 {
    u64::try_from(elapsed.as_nanos() * u128::from(CLOCK_HZ) / 1_000_000_000).unwrap_or(u64::MAX)
}

/// A module's entry, as compiled modules define it.
type EntryFunction = unsafe extern "C" fn(u64, i32, u64, u64) -> i32;
/// A module's function without arguments.
type VoidFunction = unsafe extern "C" fn();

/// The simulated C7x.
#[derive(Debug)]
pub(super) struct SimMachine {
    port: &'static Port,
    exports: ExportTable,
    board_exports: ExportTable,
    regions: Vec<Mapping>,
    faults: Faults,
    busy: Duration,
    received_at: u64,
    replied_at: u64,
    page: u64,
    started: Instant,
    traced: bool,
}

impl SimMachine {
    pub(super) fn new(port: &'static Port, exports: ExportTable, regions: Vec<Mapping>, faults: Faults) -> Self {
        let traced = std::env::var_os("OUTBOARD_DEVICE_TRACE").is_some_and(|value| value != "0");
        let board_exports = super::board_export_table();
        // Asking for the page size may open a file, which a confined process cannot.
        let page = rustix::param::page_size() as u64;
        let (busy, started) = (Duration::ZERO, Instant::now());
        Self {
            port,
            exports,
            board_exports,
            regions,
            faults,
            busy,
            received_at: 0,
            replied_at: 0,
            page,
            started,
            traced,
        }
    }

    /// Waits for a message without any fault.
    fn next(&mut self, buffer: &mut [u8; MESSAGE_BYTES]) -> Incoming {
        // The kernel ends this process with its parent, so the peer is alive as long as we are.
        let received = self.port.receive(buffer, Some(Instant::now() + RECEIVE), WaitPolicy::default(), &mut || true);
        match received {
            Ok(Received::Message(len)) => {
                self.received_at = monotonic_ns();
                let code = buffer.first_chunk::<4>().map_or(0, |bytes| u32::from_le_bytes(*bytes));
                crash::note_message(if len >= 4 { code } else { 0 });
                Incoming::Message(len)
            }
            Ok(Received::TimedOut) => Incoming::Idle,
            Ok(Received::Shutdown) => Incoming::Shutdown,
            Ok(Received::PeerLost) => Incoming::Lost,
            Err(error) => {
                self.trace(format_args!("[COMPUTE] {error}"));
                Incoming::Lost
            }
        }
    }

    /// Does what was asked for to a message: dies, hangs, or says that it is lost.
    fn suffer(&mut self, fate: Fate) -> bool {
        match fate {
            Fate::Handled => false,
            Fate::Dropped => true,
            Fate::Crash => std::process::abort(),
            Fate::Hang => loop {
                std::thread::sleep(RECEIVE);
            },
        }
    }

    /// Whole pages `[address, address + len)` as a mapping and an offset in it.
    fn pages(&self, address: u64, len: u64) -> Option<(&Mapping, usize, usize)> {
        let page = self.page;
        let start = address & !(page - 1);
        let len = (address + len).checked_next_multiple_of(page)? - start;
        self.regions.iter().find_map(|region| {
            let inside = outboard_wire::in_range(start, len, region.address(), region.len() as u64);
            inside
                .then(|| Some((region, usize::try_from(start - region.address()).ok()?, usize::try_from(len).ok()?)))?
        })
    }

    fn protect(&self, address: u64, len: u64, protection: Protection) -> Result<(), String> {
        let Some((region, offset, len)) = self.pages(address, len) else {
            return Err(std::format!("{len:#x} bytes at {address:#x} are not whole pages of the device's memory"));
        };
        // SAFETY: the pages belong to a module image whose Rust borrows ended with the load; module code is not running.
        unsafe { region.protect(offset, len, protection) }.map_err(|error| error.to_string())
    }
}

impl Platform for SimMachine {
    fn receive(&mut self, buffer: &mut [u8; outboard_wire::MAX_MESSAGE]) -> Incoming {
        const _: () = assert!(MESSAGE_BYTES == outboard_wire::MAX_MESSAGE);
        loop {
            if let Some(pause) = self.faults.pause() {
                std::thread::sleep(pause);
            }
            let incoming = self.next(buffer);
            if matches!(incoming, Incoming::Message(_)) {
                let fate = self.faults.message();
                if self.suffer(fate) {
                    continue;
                }
            }
            return incoming;
        }
    }

    fn send(&mut self, reply: &[u8]) {
        match self.faults.reply() {
            Ok(Some(delay)) => std::thread::sleep(delay),
            Ok(None) => {}
            Err(fate) => {
                self.suffer(fate);
            }
        }
        self.replied_at = monotonic_ns();
        // A host that lets the ring fill up has stopped listening; the reply is lost as it would be on a full vring.
        if let Err(error) = self.port.send(reply) {
            self.trace(format_args!("[COMPUTE] reply lost: {error}"));
        }
    }

    fn step(&mut self, step: Step) {
        match step {
            // A host on the other side of the rings counts as ready once it sends; so the device is ready when its loop runs.
            Step::Loop => {
                match self.faults.announce {
                    Announce::Prompt => {}
                    Announce::Late(delay) => std::thread::sleep(delay),
                    Announce::Lost => return,
                }
                self.port.set_state(DeviceState::Ready);
            }
            Step::Acknowledge => self.port.set_state(DeviceState::Stopping),
            // The rings, the mailbox and the endpoint came with the session's memory, and the system takes the rest down.
            _ => {}
        }
    }

    fn cycles(&self) -> u64 {
        cycles_of(self.started.elapsed())
    }

    fn uptime_ms(&self) -> u32 {
        // Wraps at 2^32 milliseconds, as the protocol says.
        u32::try_from(self.started.elapsed().as_millis() & u128::from(u32::MAX)).unwrap_or(0)
    }

    #[allow(clippy::print_stderr, reason = "the trace of the device process is its standard error, on request")]
    fn trace(&mut self, line: fmt::Arguments<'_>) {
        let line = line.to_string();
        self.port.trace(&line);
        if self.traced {
            std::eprintln!("{line}");
        }
    }

    fn exports(&self, machine: Machine) -> &ExportTable {
        if machine == Machine::C7x { &self.board_exports } else { &self.exports }
    }

    fn machine(&self) -> Machine {
        HOST
    }

    fn machines(&self) -> &[Machine] {
        &[HOST, Machine::C7x]
    }

    fn has_cpu_feature(&self, name: &str) -> bool {
        cpu::has(name)
    }

    fn seal(&mut self, module: &LoadedModule<'static>) -> Result<(), String> {
        for segment in module.segments() {
            let protection = Protection { read: segment.perms.r, write: segment.perms.w, execute: segment.perms.x };
            if protection.write && protection.execute {
                return Err(std::format!("segment {} is writable and executable", segment.index));
            }
            self.protect(segment.base, segment.memsz, protection)?;
        }
        Ok(())
    }

    fn unseal(&mut self, module: &LoadedModule<'static>) {
        for segment in module.segments() {
            if let Err(error) = self.protect(segment.base, segment.memsz, Protection::READ_WRITE) {
                self.trace(format_args!("[DLOAD] {error}"));
            }
        }
    }

    fn call(&mut self, handle: u32, module: &LoadedModule<'static>, entry: &Entry) -> i32 {
        let _blame = crash::blame(handle, module);
        let function = core::ptr::with_exposed_provenance::<()>(usize::try_from(entry.function).unwrap_or(0));
        let start = Instant::now();
        // SAFETY: the address is the entry of a verified, executable module image; its arguments are device addresses, which
        // are pointers in this process. What the module does is confined to this process.
        unsafe {
            let function: EntryFunction = core::mem::transmute(function);
            let code = function(entry.inputs, entry.num_inputs, entry.constants, entry.output);
            self.busy += start.elapsed();
            code
        }
    }

    fn publish(&mut self, statistics: &Statistics) {
        let (main_free, fast_free) = statistics.free;
        self.port.publish(&outboard_shm::Statistics {
            uptime_ms: u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX),
            jobs_completed: statistics.jobs_completed.into(),
            jobs_failed: statistics.jobs_failed.into(),
            modules: statistics.modules as u64,
            main_free,
            fast_free,
            busy_ns: u64::try_from(self.busy.as_nanos()).unwrap_or(u64::MAX),
            received_at: self.received_at,
            replied_at: self.replied_at,
        });
    }

    fn call_void(&mut self, handle: u32, module: &LoadedModule<'static>, function: u64) {
        let _blame = crash::blame(handle, module);
        let function = core::ptr::with_exposed_provenance::<()>(usize::try_from(function).unwrap_or(0));
        // SAFETY: as for `call`; the module defines the function without arguments.
        unsafe {
            let function: VoidFunction = core::mem::transmute(function);
            function();
        }
    }
}
