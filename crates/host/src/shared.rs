//! The transport over shared memory: a control object with two message rings, a carveout, and a peer that runs the device.

use crate::arena::Room;
use crate::carveout::Carveout;
use crate::lost::{Loss, LossCause};
use crate::transport::{Event, Transport, Wait};
use crate::{Buffer, Device, Error, Host};
use outboard_shm::{DeviceState, Object, Port, Received, RingError, Side, Statistics, WaitPolicy};
use outboard_wire::{KvLayout, MAX_MESSAGE};
use std::time::{Duration, Instant};

/// Pause between two looks at a device that starts or stops.
const PAUSE: Duration = Duration::from_micros(200);

/// What runs the device: a process, or a thread in tests.
pub(crate) trait Peer: Send {
    /// How results name it.
    fn device(&self) -> &str;

    /// Its process id, when it is a process that runs.
    fn process(&self) -> Option<u32>;

    /// How tensors lie in its KV region.
    fn kv_layout(&self) -> KvLayout {
        KvLayout::Fixed
    }

    /// Whether a device runs already that no session has used: it is taken as it is.
    fn is_prepared(&self) -> bool {
        false
    }

    /// Whether the device goes on when a session ends.
    fn outlives_sessions(&self) -> bool {
        false
    }

    /// Starts a device over the two objects.
    fn start(&mut self, control: &Object, carveout: &Object) -> Result<(), Error>;

    /// Whether it still runs.
    fn is_alive(&mut self) -> bool;

    /// Ends it and returns when it is gone.
    fn kill(&mut self);

    /// How it ended; waits a little for one that is about to end.
    fn ending(&mut self) -> LossCause;

    /// The end of its log.
    fn trace(&mut self) -> String;
}

/// A session's shared memory and the peer behind it.
pub(crate) struct SharedMemory<P> {
    control: Object,
    port: Port,
    carveout: Carveout,
    peer: P,
    /// A ring that the device corrupted; nothing that comes from it is believed until the device is started again.
    corrupt: Option<RingError>,
}

impl<P: Peer> SharedMemory<P> {
    pub(crate) fn new(peer: P) -> Result<Self, Error> {
        let (control, port) = Port::create()?;
        Ok(Self { control, port, carveout: Carveout::create()?, peer, corrupt: None })
    }

    /// As [`SharedMemory::new`], with views of the carveout that are not coherent.
    pub(crate) fn incoherent(peer: P) -> Result<Self, Error> {
        let mut memory = Self::new(peer)?;
        memory.carveout.separate_views()?;
        Ok(memory)
    }

    /// A session over objects that somebody else made.
    pub(crate) fn adopt(control: Object, carveout: Object, peer: P) -> Result<Self, Error> {
        let port = Port::open(&control, Side::Host)?;
        Ok(Self { control, port, carveout: Carveout::adopt(carveout)?, peer, corrupt: None })
    }

    fn lost(&mut self, during: &'static str) -> Error {
        let loss = self.loss();
        Box::new(crate::lost::DeviceLost::new(loss, during, |_| None)).into()
    }

    /// Waits until the device has one of the states or is gone; `false` when the wait ended first.
    fn await_state(
        &mut self,
        during: &'static str,
        wait: &Wait<'_>,
        reached: impl Fn(DeviceState) -> bool,
    ) -> Result<bool, Error> {
        loop {
            let alive = self.peer.is_alive();
            if reached(self.port.state()) {
                return Ok(true);
            }
            if !alive || self.port.state() == DeviceState::Crashed {
                return Err(self.lost(during));
            }
            if wait.is_over() {
                return Ok(false);
            }
            std::thread::sleep(PAUSE);
        }
    }
}

impl<P: Peer> Transport for SharedMemory<P> {
    fn device(&self) -> &str {
        self.peer.device()
    }

    fn process(&self) -> Option<u32> {
        self.peer.process()
    }

    fn keeps_modules(&self) -> bool {
        self.peer.outlives_sessions()
    }

    fn kv_layout(&self) -> KvLayout {
        self.peer.kv_layout()
    }

    fn statistics(&self) -> Option<Statistics> {
        Some(self.port.statistics())
    }

    fn start(&mut self, wait: &Wait<'_>) -> Result<(), Error> {
        if !self.peer.is_prepared() {
            self.peer.kill();
            self.port.reset();
        }
        self.corrupt = None;
        self.peer.start(&self.control, self.carveout.object())?;
        if self.await_state("boot", wait, |state| state == DeviceState::Ready)? {
            Ok(())
        } else {
            self.peer.kill();
            Err(wait.timeout())
        }
    }

    fn send(&mut self, message: &[u8]) -> Result<(), Error> {
        match self.port.send(message) {
            Ok(()) => Ok(()),
            Err(RingError::TooLong { len }) => Err(Error::MessageTooLong { len }),
            Err(error) => Err(outboard_shm::ControlError::Ring(error).into()),
        }
    }

    fn receive(&mut self, buffer: &mut [u8; MAX_MESSAGE], deadline: Instant) -> Result<Event, Error> {
        let (port, peer) = (&self.port, &mut self.peer);
        let mut alive = || port.state() != DeviceState::Crashed && peer.is_alive();
        match port.receive(buffer, Some(deadline), WaitPolicy::default(), &mut alive) {
            Ok(Received::Message(len)) => Ok(Event::Message(len)),
            Ok(Received::TimedOut) => Ok(Event::TimedOut),
            Ok(Received::PeerLost | Received::Shutdown) => Ok(Event::Lost),
            Err(error) => {
                self.corrupt = Some(error);
                Ok(Event::Lost)
            }
        }
    }

    fn loss(&mut self) -> Loss {
        let crash = self.port.crash();
        let cause = match (&self.corrupt, &crash) {
            (Some(error), _) => LossCause::Corrupt { what: error.to_string() },
            (None, Some(crash)) => LossCause::signal(crash.signal),
            (None, None) => self.peer.ending(),
        };
        self.peer.kill();
        Loss { cause, crash, trace: self.peer.trace() }
    }

    fn kill(&mut self) {
        self.peer.kill();
    }

    fn stop(&mut self, wait: &Wait<'_>) -> Result<(), Error> {
        if !self.peer.is_alive() || self.peer.outlives_sessions() {
            return Ok(());
        }
        self.port.request_shutdown();
        let acknowledged = self
            .await_state("shutdown", wait, |state| matches!(state, DeviceState::Stopping | DeviceState::Stopped))
            .and_then(|reached| if reached { Ok(()) } else { Err(wait.timeout()) });
        while acknowledged.is_ok() && self.peer.is_alive() && !wait.is_over() {
            std::thread::sleep(PAUSE);
        }
        self.peer.kill();
        acknowledged
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
        // Shared memory between processes of one machine is coherent; the ring's release store orders the bytes. Only a
        // session that asked for separate views has something to do here.
        self.carveout.flush(buffer)
    }

    fn invalidate(&mut self, buffer: &Buffer<Device>) -> Result<(), Error> {
        self.carveout.invalidate(buffer)
    }
}
