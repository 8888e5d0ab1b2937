//! What the service needs from the machine it runs on.

use core::fmt;
use outboard_link::{ExportTable, LoadedModule, Machine};

/// How the device is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Statistics {
    /// Inferences that succeeded.
    pub jobs_completed: u32,
    /// Inferences whose entry returned non-zero.
    pub jobs_failed: u32,
    /// Modules loaded now.
    pub modules: usize,
    /// Bytes free in the MAIN and FAST pools.
    pub free: (u64, u64),
}

/// The steps of a service's life, in the order in which they are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// Wait until the host has set its message rings up.
    RingsReady,
    /// Listen to the mailbox, which asks for a shutdown.
    ShutdownCallback,
    /// Create the endpoint that receives messages.
    Endpoint,
    /// Tell the host that the endpoint is there.
    Announce,
    /// The loader is ready.
    Loader,
    /// The model manager is ready.
    Models,
    /// Module output goes to the boot-time buffer.
    Printf,
    /// Messages are received from here on.
    Loop,
    /// No message is received any more.
    LoopExit,
    /// Acknowledge the shutdown: before the endpoint goes, for the acknowledgement travels over the same rings.
    Acknowledge,
    /// The endpoint is gone.
    EndpointDestroyed,
    /// The drivers are closed.
    Drivers,
    /// Interrupts are off.
    InterruptsOff,
    /// Nothing runs any more.
    Idle,
}

/// Something that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Incoming {
    /// A message of this many bytes is in the buffer.
    Message(usize),
    /// Nothing arrived for a while.
    Idle,
    /// Shut down in good order.
    Shutdown,
    /// The peer is gone: shut down without an acknowledgement.
    Lost,
}

/// A call of a module's entry: `int cg_main_dsp(inputs, num_inputs, constants, output)`, all device addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// Address of the function.
    pub function: u64,
    /// Array of input values.
    pub inputs: u64,
    /// Number of inputs.
    pub num_inputs: i32,
    /// Array of constants, 0 without weights.
    pub constants: u64,
    /// Room for the output value.
    pub output: u64,
}

/// A machine for the service: the simulated device, a recorder for tests, bare metal.
pub trait Platform {
    /// Waits for a message and copies it into `buffer`.
    fn receive(&mut self, buffer: &mut [u8; outboard_wire::MAX_MESSAGE]) -> Incoming;

    /// Sends a reply to the requester.
    fn send(&mut self, reply: &[u8]);

    /// Takes a step of the service's life, in the order of [`Step`]; returns when it is done.
    fn step(&mut self, step: Step);

    /// The cycle counter.
    fn cycles(&self) -> u64;

    /// Milliseconds since the service started; wraps.
    fn uptime_ms(&self) -> u32;

    /// Writes a line to the trace.
    fn trace(&mut self, line: fmt::Arguments<'_>);

    /// The symbols modules for a machine may import: addresses that its code can call.
    fn exports(&self, machine: Machine) -> &ExportTable;

    /// The instruction set that runs here.
    fn machine(&self) -> Machine;

    /// The instruction sets that load here: all but [`Platform::machine`] are verified, not run.
    fn machines(&self) -> &[Machine];

    /// Whether the CPU has a feature that a module's note names.
    fn has_cpu_feature(&self, name: &str) -> bool;

    /// Makes a loaded module executable: no page of it is writable and executable at once from here on.
    ///
    /// # Errors
    /// Why the permissions could not be set, for the trace.
    fn seal(&mut self, module: &LoadedModule<'static>) -> Result<(), alloc::string::String>;

    /// Makes a module's memory plain data again, so that it can be zeroed and given back.
    fn unseal(&mut self, module: &LoadedModule<'static>);

    /// Calls a module's entry and returns its result.
    fn call(&mut self, handle: u32, module: &LoadedModule<'static>, entry: &Entry) -> i32;

    /// Calls a function of a module that takes and returns nothing.
    fn call_void(&mut self, handle: u32, module: &LoadedModule<'static>, function: u64);

    /// Publishes how the device is, after every message.
    fn publish(&mut self, _statistics: &Statistics) {}

    /// Makes the device see what the host wrote: before a range is read.
    fn invalidate(&mut self, _address: u64, _size: u64) {}

    /// Makes the host see what the device wrote: after a range is written.
    fn write_back(&mut self, _address: u64, _size: u64) {}
}
