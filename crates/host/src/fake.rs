//! A device for tests: a thread that answers as it is told, well or badly.

use crate::lost::LossCause;
use crate::shared::{Peer, SharedMemory};
use crate::{Error, Session, SessionOptions, Transport};
use outboard_shm::{CrashRecord, DeviceState, MESSAGE_BYTES, Mapping, Object, Port, Received, Side, WaitPolicy};
use outboard_wire::{
    DynLoadReply, Header, Infer, InferHeader, InferLarge, InferReply, MapWindow, MessageType, PingReply, PrintfHeader,
    SetPrintfBuf, SharedMap, Status, StatusReply, TensorDesc, Version, round64,
};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use zerocopy::{FromBytes, IntoBytes};

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
    /// What DYN_LOAD answers about I/O: input bytes, output bytes, inputs, outputs.
    pub(crate) io: (u64, u64, u32, u32),
    /// The printf buffer it was told.
    pub(crate) printf: MapWindow,
    handles: u32,
    jobs: u32,
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

fn kind(message: &[u8]) -> Option<MessageType> {
    Header::parse(message).ok().and_then(|header| MessageType::from_code(header.kind.get()))
}

pub(crate) fn seq(message: &[u8]) -> u32 {
    Header::parse(message).unwrap().seq.get()
}

/// Index into the carveout of a device address.
pub(crate) fn at(address: u64) -> usize {
    usize::try_from(address - SharedMap::CARVEOUT.base).unwrap()
}

impl FakeDevice {
    /// Prints as a device does.
    pub(crate) fn print(&self, text: &[u8], dropped: u32) {
        let size = u32::try_from(self.printf.size).unwrap();
        let mut header = PrintfHeader::empty(size).unwrap();
        header.wr_index = u32::try_from(text.len()).unwrap().into();
        header.dropped = dropped.into();
        self.memory.write(at(self.printf.base), header.as_bytes()).unwrap();
        self.memory.write(at(self.printf.base) + 16, text).unwrap();
    }

    /// The descriptors of an inference and its windows.
    pub(crate) fn request(&self, message: &[u8]) -> (Vec<TensorDesc>, MapWindow, MapWindow) {
        if kind(message) == Some(MessageType::Infer) {
            let fixed = InferHeader::parse(message).unwrap();
            let inputs = Infer::descriptors(message, fixed.num_inputs.get() as usize).unwrap().to_vec();
            return (inputs, fixed.input_window(), fixed.result_window());
        }
        let large = InferLarge::parse(message).unwrap();
        let mut inputs = vec![TensorDesc::default(); large.num_inputs.get() as usize];
        self.memory.read(at(large.descs_addr.get()), inputs.as_mut_bytes()).unwrap();
        (inputs, large.input_window(), large.result_window())
    }

    /// An inference that gives every input back.
    pub(crate) fn echo(&mut self, message: &[u8]) -> InferReply {
        let (inputs, _, window) = self.request(message);
        self.jobs += 1;
        let mut reply = InferReply::new(seq(message), Status::Success);
        let mut outputs = Vec::new();
        let mut next = window.base;
        for (index, input) in inputs.iter().enumerate() {
            let mut bytes = vec![0; usize::try_from(input.data_size.get()).unwrap()];
            self.memory.read(at(input.data_addr.get()), &mut bytes).unwrap();
            let end = next + bytes.len() as u64;
            if end > window.base + window.size {
                let needed: u64 = inputs.iter().map(|input| round64(input.data_size.get()).unwrap()).sum();
                let mut refused = InferReply::new(seq(message), Status::Size);
                refused.fixed.result_required = needed.into();
                return refused;
            }
            self.memory.write(at(next), &bytes).unwrap();
            let mut output = TensorDesc { data_addr: next.into(), ..*input };
            output.reserved = i32::try_from(index).unwrap().into();
            outputs.push(output);
            next += round64(bytes.len() as u64).unwrap();
        }
        reply.fixed.cycles = 1234.into();
        reply.fixed.num_outputs = u32::try_from(outputs.len()).unwrap().into();
        if outputs.len() > 5 {
            self.memory.write(at(next), outputs.as_bytes()).unwrap();
            reply.fixed.descs_addr = next.into();
            reply.fixed.descs_size = u32::try_from(outputs.len() * 80).unwrap().into();
        } else {
            reply.descriptors[..outputs.len()].copy_from_slice(&outputs);
        }
        reply
    }

    fn behave(&mut self, message: &[u8]) -> Vec<u8> {
        let Some(kind) = kind(message) else {
            let mut bytes = [0; 16];
            let len = message.len().min(16);
            bytes[..len].copy_from_slice(&message[..len]);
            let header = Header::read_from_bytes(&bytes).unwrap();
            return Header::refusal(header.kind.get(), header.seq.get(), Status::Invalid).as_bytes().to_vec();
        };
        let seq = seq(message);
        let ok = |size| Header::reply(kind, seq, size, Status::Success);
        match kind {
            MessageType::Ping => PingReply::new(seq, Version::CURRENT, 5000).as_bytes().to_vec(),
            MessageType::GetStatus => StatusReply {
                header: ok(32),
                version: Version::CURRENT.0.into(),
                uptime_ms: 7.into(),
                jobs_completed: self.jobs.into(),
                jobs_failed: 0.into(),
            }
            .as_bytes()
            .to_vec(),
            MessageType::SetPrintfBuf => {
                let request = SetPrintfBuf::parse(message).unwrap();
                self.printf = MapWindow { base: request.printf_dsp_addr.get(), size: request.printf_size.get().into() };
                self.print(b"", 0);
                ok(16).as_bytes().to_vec()
            }
            MessageType::DynLoad => {
                self.handles += 1;
                let (input, output, num_inputs, num_outputs) = self.io;
                DynLoadReply {
                    header: ok(68),
                    module_handle: self.handles.into(),
                    io_input_bytes: input.into(),
                    io_output_bytes: output.into(),
                    io_num_inputs: num_inputs.into(),
                    io_num_outputs: num_outputs.into(),
                    ..DynLoadReply::default()
                }
                .as_bytes()
                .to_vec()
            }
            MessageType::Infer | MessageType::InferLarge => self.echo(message).seal().to_vec(),
            _ => ok(16).as_bytes().to_vec(),
        }
    }
}

/// A peer that is a thread.
pub(crate) struct Thread {
    script: Arc<Mutex<Box<Script>>>,
    io: (u64, u64, u32, u32),
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
            io: self.io,
            printf: MapWindow::default(),
            handles: 0,
            jobs: 0,
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
