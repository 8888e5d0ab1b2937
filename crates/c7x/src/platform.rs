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

    /// Announces the service to the host.
    fn announce(&mut self);

    /// Acknowledges a shutdown; must come before the endpoint is torn down.
    fn acknowledge_shutdown(&mut self);

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
    fn seal(&mut self, module: &LoadedModule) -> Result<(), alloc::string::String>;

    /// Makes a module's memory plain data again, so that it can be zeroed and given back.
    fn unseal(&mut self, module: &LoadedModule);

    /// Calls a module's entry and returns its result.
    fn call(&mut self, handle: u32, module: &LoadedModule, entry: &Entry) -> i32;

    /// Calls a function of a module that takes and returns nothing.
    fn call_void(&mut self, handle: u32, module: &LoadedModule, function: u64);

    /// Publishes how the device is, after every message.
    fn publish(&mut self, _statistics: &Statistics) {}

    /// Makes the device see what the host wrote: before a range is read.
    fn invalidate(&mut self, _address: u64, _size: u64) {}

    /// Makes the host see what the device wrote: after a range is written.
    fn write_back(&mut self, _address: u64, _size: u64) {}
}
