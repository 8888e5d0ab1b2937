//! A device inside this process: a [`Responder`] that is called with each message. For tests of programs that use sessions, and
//! for a fuzzer that plays a hostile device; nothing is started, and no time passes.

use crate::arena::Room;
use crate::carveout::Carveout;
use crate::lost::{Loss, LossCause};
use crate::{Buffer, Device, Error, Event, Host, Transport, Wait};
use outboard_shm::Mapping;
use outboard_wire::{MAX_MESSAGE, SharedMap};
use std::collections::VecDeque;
use std::time::Instant;

/// The shared carveout as a device sees it: by device address.
#[derive(Debug, Clone, Copy)]
pub struct DeviceMemory<'m>(&'m Mapping);

impl<'m> DeviceMemory<'m> {
    pub(crate) const fn new(carveout: &'m Mapping) -> Self {
        Self(carveout)
    }

    /// Copies from device address `address` on into `to`.
    ///
    /// # Errors
    /// The range is not in the carveout.
    pub fn read(&self, address: u64, to: &mut [u8]) -> Result<(), Error> {
        Ok(self.0.read(offset(address), to)?)
    }

    /// Copies `from` to device address `address`.
    ///
    /// # Errors
    /// The range is not in the carveout.
    pub fn write(&self, address: u64, from: &[u8]) -> Result<(), Error> {
        Ok(self.0.write(offset(address), from)?)
    }
}

/// Where a device address lies in the carveout; an address below it gives an offset that no mapping has.
fn offset(address: u64) -> usize {
    usize::try_from(address.wrapping_sub(SharedMap::CARVEOUT.base)).unwrap_or(usize::MAX)
}

/// What a device in this process does with a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Sends these messages, in order; none is silence.
    Replies(Vec<Vec<u8>>),
    /// Is gone.
    Leave,
}

/// A device in this process.
pub trait Responder: Send {
    /// Answers a message of the host.
    fn answer(&mut self, message: &[u8], memory: DeviceMemory<'_>) -> Answer;

    /// Forgets everything: the device was ended, and is started again.
    fn restart(&mut self) {}
}

/// The way to a device in this process.
///
/// ```
/// use outboard_host::{Echo, Input, Session, SessionOptions, in_process};
/// use outboard_tensor::Tensor;
///
/// // A device that answers every inference with its inputs.
/// let mut session = Session::open(in_process(Echo::default())?, SessionOptions::default())?;
/// let module = session.load(b"any bytes", "lib0.out")?;
/// let x = Tensor::from_values("2".parse().unwrap(), &[1.0f32, 2.0])?;
/// let outputs = session.run(&module, &[Input::from(&x)])?;
/// assert_eq!(outputs.view(0).and_then(|y| y.values::<f32>()), Some(vec![1.0, 2.0]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// The system refuses the carveout.
pub fn in_process(device: impl Responder + 'static) -> Result<impl Transport + 'static, Error> {
    let carveout = Carveout::create()?;
    let memory = Mapping::of(carveout.object())?;
    Ok(InProcess { device, carveout, memory, replies: VecDeque::new(), state: State::Down })
}

/// Whether the device takes messages.
#[derive(Debug, PartialEq, Eq)]
enum State {
    Down,
    Up,
    /// It left by itself, or sent what no transport carries.
    Gone(Option<String>),
}

struct InProcess<R> {
    device: R,
    carveout: Carveout,
    memory: Mapping,
    replies: VecDeque<Vec<u8>>,
    state: State,
}

impl<R: Responder> Transport for InProcess<R> {
    fn device(&self) -> &str {
        "in-process"
    }

    fn start(&mut self, _: &Wait<'_>) -> Result<(), Error> {
        if self.state != State::Up {
            self.replies.clear();
            self.device.restart();
            self.state = State::Up;
        }
        Ok(())
    }

    fn send(&mut self, message: &[u8]) -> Result<(), Error> {
        if message.len() > MAX_MESSAGE {
            return Err(Error::MessageTooLong { len: message.len() });
        }
        if self.state == State::Up {
            match self.device.answer(message, DeviceMemory::new(&self.memory)) {
                Answer::Replies(replies) => self.replies.extend(replies),
                Answer::Leave => self.state = State::Gone(None),
            }
        }
        Ok(())
    }

    /// Returns at once: a device that has not answered by now never will.
    fn receive(&mut self, buffer: &mut [u8; MAX_MESSAGE], _: Instant) -> Result<Event, Error> {
        let Some(reply) = self.replies.pop_front() else {
            return Ok(if self.state == State::Up { Event::TimedOut } else { Event::Lost });
        };
        let Some(room) = buffer.get_mut(..reply.len()) else {
            self.replies.clear();
            self.state = State::Gone(Some(format!("a message has {} bytes, at most {MAX_MESSAGE} fit", reply.len())));
            return Ok(Event::Lost);
        };
        room.copy_from_slice(&reply);
        Ok(Event::Message(reply.len()))
    }

    fn loss(&mut self) -> Loss {
        let cause = match core::mem::replace(&mut self.state, State::Down) {
            State::Gone(Some(what)) => LossCause::Corrupt { what },
            _ => LossCause::Vanished,
        };
        Loss { cause, crash: None, trace: String::new() }
    }

    fn kill(&mut self) {
        self.state = State::Down;
    }

    fn stop(&mut self, _: &Wait<'_>) -> Result<(), Error> {
        self.state = State::Down;
        Ok(())
    }

    fn allocate(&mut self, size: u64) -> Result<Buffer, Error> {
        self.carveout.allocate(size)
    }

    fn release(&mut self, buffer: Buffer) {
        self.carveout.release(buffer);
    }

    fn room(&self) -> Room {
        self.carveout.room()
    }

    fn flush(&mut self, buffer: &Buffer<Host>) -> Result<(), Error> {
        self.carveout.flush(buffer)
    }

    fn invalidate(&mut self, buffer: &Buffer<Device>) -> Result<(), Error> {
        self.carveout.invalidate(buffer)
    }
}
