//! A device for tests: a thread that answers as it is told, well or badly.

use crate::echo::{Echo, Request, kind};
use crate::in_process::DeviceMemory;
use crate::lost::LossCause;
use crate::shared::{Peer, SharedMemory};
use crate::{Error, IoSizes, Session, SessionOptions, Transport};
use outboard_shm::{CrashRecord, DeviceState, MESSAGE_BYTES, Mapping, Object, Port, Received, Side, WaitPolicy};
use outboard_wire::{Header, InferReply, MapWindow, MessageType, SharedMap};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What the device does with a message.
pub(crate) enum Reaction {
    /// Sends these messages.
    Send(Vec<Vec<u8>>),
    /// Behaves well.
    Behave,
    /// Leaves a crash record and is gone.
    Crash(CrashRecord),
    /// Is gone.
    Leave,
}

impl Reaction {
    pub(crate) fn reply(bytes: &[u8]) -> Self {
        Self::Send(vec![bytes.to_vec()])
    }

    pub(crate) fn silence() -> Self {
        Self::Send(Vec::new())
    }
}

/// Decides about each message; `Behave` is the default.
pub(crate) type Script = dyn FnMut(&mut FakeDevice, MessageType, &[u8]) -> Reaction + Send;

/// What a device thread can do and what it has seen.
pub(crate) struct FakeDevice {
    pub(crate) memory: Mapping,
    pub(crate) control: Mapping,
    echo: Echo,
}

/// What a test keeps: the messages that arrived, in order.
#[derive(Clone, Default)]
pub(crate) struct Seen(Arc<Mutex<Vec<Vec<u8>>>>);

impl Seen {
    pub(crate) fn messages(&self) -> Vec<Vec<u8>> {
        self.0.lock().unwrap().clone()
    }

    pub(crate) fn kinds(&self) -> Vec<&'static str> {
        self.messages().iter().map(|message| kind(message).map_or("?", MessageType::name)).collect()
    }

    pub(crate) fn last(&self) -> Vec<u8> {
        self.messages().pop().unwrap()
    }
}

pub(crate) fn seq(message: &[u8]) -> u32 {
    Header::parse(message).unwrap().seq.get()
}

/// Index into the carveout of a device address.
pub(crate) fn at(address: u64) -> usize {
    usize::try_from(address - SharedMap::CARVEOUT.base).unwrap()
}

impl FakeDevice {
    /// The printf buffer it was told.
    pub(crate) fn printf(&self) -> MapWindow {
        self.echo.printf
    }

    /// Prints as a device does.
    pub(crate) fn print(&self, text: &[u8], dropped: u32) {
        self.echo.print(DeviceMemory::new(&self.memory), text, dropped).unwrap();
    }

    /// The result window of an inference.
    pub(crate) fn result_window(&self, message: &[u8]) -> MapWindow {
        Request::read(message, DeviceMemory::new(&self.memory)).unwrap().result
    }

    /// An inference that gives every input back.
    pub(crate) fn echo(&mut self, message: &[u8]) -> InferReply {
        self.echo.infer(message, DeviceMemory::new(&self.memory)).unwrap()
    }

    fn behave(&mut self, message: &[u8]) -> Vec<u8> {
        self.echo.reply(message, DeviceMemory::new(&self.memory))
    }
}

/// A peer that is a thread.
pub(crate) struct Thread {
    script: Arc<Mutex<Box<Script>>>,
    io: IoSizes,
    seen: Seen,
    running: Option<(JoinHandle<()>, Port)>,
}

impl Peer for Thread {
    fn device(&self) -> &str {
        "fake"
    }

    fn process(&self) -> Option<u32> {
        None
    }

    fn start(&mut self, control: &Object, carveout: &Object) -> Result<(), Error> {
        let copy = |object: &Object| Object::from_fd(object.as_fd().try_clone_to_owned().unwrap()).unwrap();
        let control = copy(control);
        let port = Port::open(&control, Side::Device)?;
        let mut device = FakeDevice {
            memory: Mapping::of(&copy(carveout))?,
            control: Mapping::of(&control)?,
            echo: Echo::declaring(self.io),
        };
        let ours = Port::open(&control, Side::Device)?;
        let (script, seen) = (Arc::clone(&self.script), self.seen.clone());
        let thread = std::thread::spawn(move || serve(&port, &mut device, &script, &seen));
        self.running = Some((thread, ours));
        Ok(())
    }

    fn is_alive(&mut self) -> bool {
        self.running.as_ref().is_some_and(|(thread, _)| !thread.is_finished())
    }

    fn kill(&mut self) {
        if let Some((thread, port)) = self.running.take() {
            port.request_shutdown();
            thread.join().unwrap();
        }
    }

    fn ending(&mut self) -> LossCause {
        LossCause::Vanished
    }

    fn trace(&mut self) -> String {
        "the log of the fake\n".to_owned()
    }
}

fn serve(port: &Port, device: &mut FakeDevice, script: &Mutex<Box<Script>>, seen: &Seen) {
    port.set_state(DeviceState::Ready);
    let mut buffer = [0; MESSAGE_BYTES];
    // A ring that a script has scribbled over must not keep the thread for ever.
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        let message = match port.receive(&mut buffer, Some(until), WaitPolicy::default(), &mut || true) {
            Ok(Received::Message(len)) => &buffer[..len],
            Ok(Received::Shutdown) => break,
            _ => return,
        };
        seen.0.lock().unwrap().push(message.to_vec());
        let reaction = match kind(message) {
            Some(kind) => (script.lock().unwrap())(device, kind, message),
            None => Reaction::Behave,
        };
        let replies = match reaction {
            Reaction::Send(replies) => replies,
            Reaction::Behave => vec![device.behave(message)],
            Reaction::Crash(crash) => return port.record_crash(&crash, crash.symbol.as_bytes()),
            Reaction::Leave => return,
        };
        for reply in replies {
            let _ = port.send(&reply);
        }
    }
    port.set_state(DeviceState::Stopping);
    port.set_state(DeviceState::Stopped);
}

/// A transport to a device that follows a script, and what it sees.
pub(crate) fn transport(
    io: (u64, u64, u32, u32),
    script: impl FnMut(&mut FakeDevice, MessageType, &[u8]) -> Reaction + Send + 'static,
) -> (impl Transport + 'static, Seen) {
    let seen = Seen::default();
    let script: Box<Script> = Box::new(script);
    let (input_bytes, output_bytes, num_inputs, num_outputs) = io;
    let io = IoSizes { input_bytes, output_bytes, num_inputs, num_outputs, exact: false };
    let peer = Thread { script: Arc::new(Mutex::new(script)), io, seen: seen.clone(), running: None };
    (SharedMemory::new(peer).unwrap(), seen)
}

/// A session with a device that follows a script. Deadlines are two seconds.
pub(crate) fn session(
    io: (u64, u64, u32, u32),
    script: impl FnMut(&mut FakeDevice, MessageType, &[u8]) -> Reaction + Send + 'static,
) -> (Session, Seen) {
    let (transport, seen) = transport(io, script);
    let deadlines = crate::Deadlines::all(Duration::from_secs(2));
    (Session::open(transport, SessionOptions { deadlines }).unwrap(), seen)
}

/// A session with a well-behaved device.
pub(crate) fn benign(io: (u64, u64, u32, u32)) -> (Session, Seen) {
    session(io, |_, _, _| Reaction::Behave)
}
