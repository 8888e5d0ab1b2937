//! What a session needs from the way to a device.

use crate::arena::Room;
use crate::buffer::{Device, Host, Refused};
use crate::lost::Loss;
use crate::{Buffer, Error};
use outboard_shm::Statistics;
use outboard_wire::{KvLayout, MAX_MESSAGE};
use std::time::{Duration, Instant};

/// A wait that ends: what is awaited, for how long, until when.
#[derive(Debug, Clone, Copy)]
pub struct Wait<'a> {
    what: &'a str,
    limit: Duration,
    until: Instant,
}

impl<'a> Wait<'a> {
    /// Starts to wait for `what`, at most `limit`.
    pub fn start(what: &'a str, limit: Duration) -> Self {
        let now = Instant::now();
        // A limit beyond what the clock can express ends in a year.
        let until = now.checked_add(limit).unwrap_or(now + Duration::from_secs(31_536_000));
        Self { what, limit, until }
    }

    /// When the wait ends.
    pub fn until(&self) -> Instant {
        self.until
    }

    /// Whether it has ended.
    pub fn is_over(&self) -> bool {
        Instant::now() >= self.until
    }

    /// The error that says what was awaited in vain.
    pub fn timeout(&self) -> Error {
        Error::Timeout { awaited: self.what.to_owned(), after: self.limit }
    }
}

/// How waiting for a message ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A message of this many bytes is in the buffer.
    Message(usize),
    /// The deadline passed.
    TimedOut,
    /// The device is gone; [`Transport::loss`] says why.
    Lost,
}

/// The way to a device: messages of at most 512 bytes, buffers in the shared carveout, and the device's life.
///
/// A transport knows nothing about what messages mean. Buffers it hands out keep their place and contents when the device is
/// killed and started again.
pub trait Transport: Send {
    /// How results name the device, e.g. `sim`.
    fn device(&self) -> &str;

    /// Process id of the device, when it is a process of this machine.
    fn process(&self) -> Option<u32> {
        None
    }

    /// Whether modules stay loaded when a session ends, as on the board.
    fn keeps_modules(&self) -> bool {
        false
    }

    /// How tensors lie in the device's KV region.
    fn kv_layout(&self) -> KvLayout {
        KvLayout::Fixed
    }

    /// What the device says about itself, when it publishes that.
    fn statistics(&self) -> Option<Statistics> {
        None
    }

    /// Brings the device up and returns when it receives messages. Called again after [`Transport::kill`].
    ///
    /// # Errors
    /// It cannot be started, it died while it started, or the wait ended.
    fn start(&mut self, wait: &Wait<'_>) -> Result<(), Error>;

    /// Sends a message; never waits.
    ///
    /// # Errors
    /// The message is too long, or the device does not take messages.
    fn send(&mut self, message: &[u8]) -> Result<(), Error>;

    /// Waits for a message until `deadline`.
    ///
    /// # Errors
    /// The way to the device is broken.
    fn receive(&mut self, buffer: &mut [u8; MAX_MESSAGE], deadline: Instant) -> Result<Event, Error>;

    /// Why the device is gone. Ends a device that is not quite gone yet.
    fn loss(&mut self) -> Loss;

    /// Ends the device without asking; nothing of it runs when this returns.
    fn kill(&mut self);

    /// Asks the device to shut down and waits until it has; ends it if it does not.
    ///
    /// # Errors
    /// It did not acknowledge in time, or died.
    fn stop(&mut self, wait: &Wait<'_>) -> Result<(), Error>;

    /// Takes a buffer from the carveout, at the lowest device address that fits.
    ///
    /// # Errors
    /// No block is large enough.
    fn allocate(&mut self, size: u64) -> Result<Buffer, Error>;

    /// Gives a buffer back.
    fn release(&mut self, buffer: Buffer);

    /// How full the carveout is.
    fn room(&self) -> Room;

    /// Makes what the host wrote visible to the device.
    ///
    /// # Errors
    /// The system refuses.
    fn flush(&mut self, buffer: &Buffer<Host>) -> Result<(), Error>;

    /// Makes what the device wrote visible to the host.
    ///
    /// # Errors
    /// The system refuses.
    fn invalidate(&mut self, buffer: &Buffer<Device>) -> Result<(), Error>;

    /// Gives a buffer to the device, with what the host wrote. Costs nothing when the host wrote nothing since the last time.
    ///
    /// # Errors
    /// The system refuses; the buffer stays the host's and comes back with the reason.
    fn hand_over(&mut self, buffer: Buffer<Host>) -> Result<Buffer<Device>, Refused<Host>> {
        match if buffer.is_dirty() { self.flush(&buffer) } else { Ok(()) } {
            Ok(()) => Ok(buffer.handed_over()),
            Err(error) => Err(Refused { buffer, error: Box::new(error) }),
        }
    }

    /// Gives a buffer to the host, with what the device wrote.
    ///
    /// # Errors
    /// The system refuses; the buffer stays the device's and comes back with the reason.
    fn take_back(&mut self, buffer: Buffer<Device>) -> Result<Buffer<Host>, Refused<Device>> {
        match self.invalidate(&buffer) {
            Ok(()) => Ok(buffer.taken_back()),
            Err(error) => Err(Refused { buffer, error: Box::new(error) }),
        }
    }
}
