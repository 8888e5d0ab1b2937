//! Where a session keeps a shared buffer, whoever owns it at the moment.
//!
//! Bytes are reached through the host's buffer and requests are made from the device's, so that the synchronisation between
//! the two cannot be left out. One that the system refuses leaves the buffer with its owner.

use crate::buffer::{Buffer, Device, Host, Refused};
use crate::{Error, Transport};
use outboard_wire::MapWindow;

/// A place for one buffer.
#[derive(Debug, Default)]
pub(super) enum Slot {
    /// There is none yet.
    #[default]
    Empty,
    Host(Buffer<Host>),
    Device(Buffer<Device>),
}

impl From<Buffer<Host>> for Slot {
    fn from(buffer: Buffer<Host>) -> Self {
        Self::Host(buffer)
    }
}

impl Slot {
    /// Device address and size; both zero when there is no buffer.
    pub(super) fn window(&self) -> MapWindow {
        match self {
            Self::Empty => MapWindow::default(),
            Self::Host(buffer) => buffer.window(),
            Self::Device(buffer) => buffer.window(),
        }
    }

    /// The host's buffer; `None` while the device owns it.
    pub(super) fn host(&self) -> Option<&Buffer<Host>> {
        match self {
            Self::Host(buffer) => Some(buffer),
            Self::Empty | Self::Device(_) => None,
        }
    }

    /// The buffer for the host to write to. What the device wrote into it is not seen.
    pub(super) fn writable(&mut self) -> Option<&mut Buffer<Host>> {
        self.reclaim();
        match self {
            Self::Host(buffer) => Some(buffer),
            Self::Empty | Self::Device(_) => None,
        }
    }

    /// Gives the buffer to the host without asking what the device wrote.
    pub(super) fn reclaim(&mut self) {
        *self = match std::mem::take(self) {
            Self::Device(buffer) => Self::Host(buffer.reclaim()),
            other => other,
        };
    }

    /// Gives the buffer to the host, with what the device wrote.
    pub(super) fn take_back(&mut self, transport: &mut dyn Transport) -> Result<(), Error> {
        let (slot, done) = match std::mem::take(self) {
            Self::Device(buffer) => match transport.take_back(buffer) {
                Ok(buffer) => (Self::Host(buffer), Ok(())),
                Err(Refused { buffer, error }) => (Self::Device(buffer), Err(*error)),
            },
            other => (other, Ok(())),
        };
        *self = slot;
        done
    }

    /// Gives the buffer to the device, with what the host wrote, and returns what a request may name.
    pub(super) fn hand_over(&mut self, transport: &mut dyn Transport) -> Result<Option<&Buffer<Device>>, Error> {
        // Whoever has the address of a buffer may have written to it while the device owned it.
        self.reclaim();
        let (slot, done) = match std::mem::take(self) {
            Self::Host(buffer) => match transport.hand_over(buffer) {
                Ok(buffer) => (Self::Device(buffer), Ok(())),
                Err(Refused { buffer, error }) => (Self::Host(buffer), Err(*error)),
            },
            other => (other, Ok(())),
        };
        *self = slot;
        done?;
        Ok(match self {
            Self::Device(buffer) => Some(buffer),
            Self::Empty | Self::Host(_) => None,
        })
    }

    /// Shows the device what the host wrote; the buffer stays the host's.
    pub(super) fn flush(&mut self, transport: &mut dyn Transport) -> Result<(), Error> {
        if let Some(buffer) = self.writable().filter(|buffer| buffer.is_dirty()) {
            transport.flush(buffer)?;
            buffer.cleaned();
        }
        Ok(())
    }

    /// Gives the buffer back to the transport.
    pub(super) fn release(&mut self, transport: &mut dyn Transport) {
        self.reclaim();
        if let Self::Host(buffer) = std::mem::take(self) {
            transport.release(buffer);
        }
    }
}
