//! The transport to a board: an RPMsg endpoint for messages, DMA buffers in the shared carveout, Linux' remoteproc for the rest.
//!
//! The device is found by its device-tree name. Its firmware runs before a session begins and goes on when it ends; a session
//! neither starts nor stops the processor. Steps, numbers and nodes: `docs/reference/rpmsg.md`.

mod buffers;
mod discover;
mod endpoint;
mod error;
mod sys;
#[cfg(test)]
mod tests;

pub use discover::Processor;
pub use error::RpmsgError;

use crate::arena::Room;
use crate::lost::{Loss, LossCause};
use crate::transport::{Event, Transport, Wait};
use crate::{Buffer, Device, Error, Host};
use buffers::Buffers;
use endpoint::{Endpoint, Look};
use outboard_wire::MAX_MESSAGE;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Device-tree name of the C7x of the boards Outboard knows.
pub const C7X: &str = "7e000000.dsp";
/// Environment variable with the physical address of the shared carveout, decimal or with 0x, for boards that have it elsewhere than
/// the one with 8 GB.
pub const CARVEOUT_VARIABLE: &str = "OUTBOARD_CARVEOUT";
/// Longest time between two looks at the state of the remote processor.
const SLICE: Duration = Duration::from_millis(200);
/// Pause between two looks for a service that has not announced itself.
const PAUSE: Duration = Duration::from_millis(20);
/// How much of the firmware's log a report carries.
const TRACE_BYTES: usize = 16 * 1024;

/// Where a board's device is.
///
/// ```
/// use outboard_host::{RpmsgOptions, rpmsg};
/// let options = RpmsgOptions { sys: "/nowhere".into(), ..RpmsgOptions::default() };
/// assert!(options.processor().is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RpmsgOptions {
    /// Device-tree name of the DSP.
    pub address: String,
    /// Where device nodes are.
    pub dev: PathBuf,
    /// Where sysfs is mounted.
    pub sys: PathBuf,
    /// Name of the DMA heap of the shared carveout.
    pub heap: String,
    /// Physical address of the shared carveout: it differs between boards.
    pub carveout: u64,
}

impl Default for RpmsgOptions {
    fn default() -> Self {
        Self {
            address: C7X.to_owned(),
            dev: "/dev".into(),
            sys: "/sys".into(),
            heap: "carveout_vision_apps_shared-memories".to_owned(),
            carveout: 0x9_0000_0000,
        }
    }
}

impl RpmsgOptions {
    /// Reads the physical address of a carveout: decimal, or hexadecimal with 0x; a multiple of a page.
    ///
    /// # Errors
    /// It is none; the text says what one looks like.
    pub fn parse_carveout(text: &str) -> Result<u64, String> {
        let number = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            None => text.parse().ok(),
        };
        number.filter(|address| address.is_multiple_of(4096)).ok_or_else(|| {
            format!(
                "{CARVEOUT_VARIABLE}: `{text}` is no physical address of a carveout, such as 0x900000000 (8 GB board) or \
                 0x8A0000000 (BeagleY-AI)"
            )
        })
    }
}

/// The physical address of the carveout that [`CARVEOUT_VARIABLE`] names; `None` without it.
///
/// # Errors
/// The variable holds no number, or one that is no multiple of a page.
pub fn carveout_from_environment() -> Result<Option<u64>, String> {
    std::env::var_os(CARVEOUT_VARIABLE)
        .filter(|text| !text.is_empty())
        .map(|text| RpmsgOptions::parse_carveout(&text.to_string_lossy()))
        .transpose()
}

/// The way to the device of a board. The endpoint is made when the session starts.
///
/// # Errors
/// No remote processor has the device-tree name.
pub fn rpmsg(options: RpmsgOptions) -> Result<impl Transport + 'static, Error> {
    options.processor()?;
    let name = format!("rpmsg:{}", options.address);
    Ok(Rpmsg { options, name, endpoint: None, buffers: Buffers::new(), corrupt: None })
}

struct Rpmsg {
    options: RpmsgOptions,
    name: String,
    endpoint: Option<Endpoint>,
    buffers: Buffers,
    /// What the device sent that cannot be a message.
    corrupt: Option<String>,
}

impl Rpmsg {
    fn not_running(&self, reason: String) -> Error {
        RpmsgError::Processor { address: self.options.address.clone(), reason }.into()
    }

    /// The state of the remote processor, when it is one in which no firmware answers.
    fn stopped(&self) -> Option<String> {
        let processor = self.options.processor().ok()?;
        // A state that cannot be read says nothing.
        (!processor.is_running() && !processor.state.is_empty()).then_some(processor.state)
    }

    /// The control devices, as soon as the firmware has announced its service.
    fn await_controls(&self, wait: &Wait<'_>) -> Result<Vec<PathBuf>, Error> {
        loop {
            let controls = self.options.controls();
            if !controls.is_empty() {
                return Ok(controls);
            }
            self.options.processor()?;
            // Linux starts a processor that has crashed again; one that was stopped stays so.
            if let Some(state) = self.stopped().filter(|state| state != "crashed") {
                return Err(self.not_running(format!("it is {state}, so no firmware answers")));
            }
            if wait.is_over() {
                return Err(wait.timeout());
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn endpoint(&self) -> Result<&Endpoint, Error> {
        self.endpoint.as_ref().ok_or_else(|| self.not_running("the session has no endpoint".to_owned()))
    }
}

impl Transport for Rpmsg {
    fn device(&self) -> &str {
        &self.name
    }

    fn keeps_modules(&self) -> bool {
        true
    }

    fn start(&mut self, wait: &Wait<'_>) -> Result<(), Error> {
        self.kill();
        self.corrupt = None;
        let controls = self.await_controls(wait)?;
        self.endpoint = Some(Endpoint::create(&self.options, &controls, wait)?);
        Ok(())
    }

    fn send(&mut self, message: &[u8]) -> Result<(), Error> {
        if message.len() > MAX_MESSAGE {
            return Err(Error::MessageTooLong { len: message.len() });
        }
        self.endpoint()?.send(message)
    }

    fn receive(&mut self, buffer: &mut [u8; MAX_MESSAGE], deadline: Instant) -> Result<Event, Error> {
        loop {
            let until = deadline.min(Instant::now() + SLICE);
            match self.endpoint()?.receive(buffer, until)? {
                Look::Event(Event::TimedOut) if self.stopped().is_some() => return Ok(Event::Lost),
                Look::Event(Event::TimedOut) if Instant::now() < deadline => {}
                Look::Event(event) => return Ok(event),
                Look::Oversized(len) => {
                    self.corrupt =
                        Some(format!("it sent a message of {len} bytes; a message has at most {MAX_MESSAGE}"));
                    return Ok(Event::Lost);
                }
            }
        }
    }

    fn loss(&mut self) -> Loss {
        let cause = match (self.corrupt.take(), self.stopped()) {
            (Some(what), _) => LossCause::Corrupt { what },
            (None, Some(state)) => LossCause::Processor { state },
            (None, None) => LossCause::Vanished,
        };
        self.kill();
        Loss { cause, crash: None, trace: self.options.trace(TRACE_BYTES) }
    }

    /// Closes the endpoint. The firmware goes on: the processor belongs to the board, not to a session.
    fn kill(&mut self) {
        self.endpoint = None;
    }

    fn stop(&mut self, _wait: &Wait<'_>) -> Result<(), Error> {
        self.kill();
        Ok(())
    }

    fn allocate(&mut self, size: u64) -> Result<Buffer, Error> {
        self.buffers.allocate(&self.options, size)
    }

    fn release(&mut self, buffer: Buffer) {
        self.buffers.release(buffer);
    }

    fn room(&self) -> Room {
        self.buffers.room()
    }

    fn flush(&mut self, buffer: &Buffer<Host>) -> Result<(), Error> {
        self.buffers.synchronise(buffer, sys::Sync::ToDevice)
    }

    fn invalidate(&mut self, buffer: &Buffer<Device>) -> Result<(), Error> {
        self.buffers.synchronise(buffer, sys::Sync::ToHost)
    }
}
