//! A host that sends without waiting for replies: messages over a transport, without a session.

#![allow(dead_code, reason = "every file uses its own part of this one")]

use outboard_host::{Buffer, Device, Event, Host, SimOptions, Transport, Wait, simulated};
use outboard_wire::{
    DynLoad, DynLoadReply, Header, Infer, InferFlags, MAX_MESSAGE, MapWindow, SetPrintfBuf, SharedMap, Status,
    TensorDesc,
};
use std::time::{Duration, Instant};
use zerocopy::IntoBytes;

/// Bytes of the input and of the output window of one call.
const WINDOW: u64 = 4096;

/// A buffer that is the device's, except while the host looks at it.
struct Shared(Option<Buffer<Device>>);

impl Shared {
    fn new(transport: &mut dyn Transport, size: u64) -> Self {
        let buffer = transport.allocate(size).expect("the carveout has room");
        Self(Some(transport.hand_over(buffer).expect("a buffer is handed over")))
    }

    fn window(&self) -> MapWindow {
        self.0.as_ref().expect("the device has the buffer").window()
    }

    /// Takes the buffer back for a moment.
    fn open<R>(&mut self, transport: &mut dyn Transport, look: impl FnOnce(&mut Buffer<Host>) -> R) -> R {
        let buffer = self.0.take().expect("the device has the buffer");
        let mut buffer = transport.take_back(buffer).expect("the buffer is taken back");
        let seen = look(&mut buffer);
        self.0 = Some(transport.hand_over(buffer).expect("the buffer is handed over"));
        seen
    }
}

/// A simulated device and the buffers of `calls` calls that may be under way at once.
pub struct Pipeline {
    transport: Box<dyn Transport>,
    staging: Shared,
    /// Input and output window of each call.
    windows: Vec<(Shared, Shared)>,
    seq: u32,
}

impl Pipeline {
    /// Starts a device whose program is `program`.
    pub fn open(program: &str, calls: usize) -> Self {
        let options = SimOptions { program: Some(program.into()), ..SimOptions::default() };
        let mut transport: Box<dyn Transport> = Box::new(simulated(options).expect("a device can be made"));
        transport.start(&Wait::start("boot", Duration::from_secs(30))).expect("the device starts");
        let staging = Shared::new(&mut *transport, SharedMap::STAGING.size + SharedMap::KV.size);
        let printf = Shared::new(&mut *transport, 0x1_0000).window();
        let windows =
            (0..calls).map(|_| (Shared::new(&mut *transport, WINDOW), Shared::new(&mut *transport, WINDOW))).collect();
        let mut pipeline = Self { transport, staging, windows, seq: 0 };
        let seq = pipeline.next_seq();
        let size = u32::try_from(printf.size).expect("a small buffer");
        let told = pipeline.exchange(SetPrintfBuf::new(seq, printf.base, size).as_bytes());
        assert_eq!(status(&told), Some(Status::Success));
        pipeline
    }

    /// The number of the next message.
    pub fn next_seq(&mut self) -> u32 {
        self.seq += 1;
        self.seq
    }

    /// Loads a module; its handle.
    pub fn load(&mut self, file: &[u8]) -> u32 {
        let written = self.staging.open(&mut *self.transport, |staging| staging.write(0, file));
        written.expect("the module fits into staging");
        let seq = self.next_seq();
        let reply = self.exchange(DynLoad::new(seq, u32::try_from(file.len()).expect("a small module")).as_bytes());
        let reply = DynLoadReply::parse(&reply).expect("a whole reply");
        assert_eq!(reply.header.status(), Some(Status::Success));
        reply.module_handle.get()
    }

    /// Sends an inference of one int32 in the windows of the `slot`-th call; the number of the message.
    pub fn send_infer(&mut self, handle: u32, slot: usize, input: i32) -> u32 {
        let seq = self.next_seq();
        let (from, to) = &mut self.windows[slot];
        let written = from.open(&mut *self.transport, |window| window.write(0, input.as_bytes()));
        written.expect("the input fits");
        let (from, to) = (from.window(), to.window());
        let tensor = TensorDesc::new(from.base, 4, 0, 32, &[1]).expect("one dimension");
        let request = Infer::new(seq, handle, 0, InferFlags::default(), (from, to), &[tensor]).expect("one input");
        self.send(request.bytes());
        seq
    }

    /// The first int32 of the `slot`-th output window.
    pub fn output(&mut self, slot: usize) -> i32 {
        let mut value = [0; 4];
        let read = self.windows[slot].1.open(&mut *self.transport, |window| window.read(0, &mut value));
        read.expect("the output is in its window");
        i32::from_le_bytes(value)
    }

    /// Sends a message.
    pub fn send(&mut self, message: &[u8]) {
        self.transport.send(message).expect("the ring has room");
    }

    /// The next reply.
    pub fn receive(&mut self) -> Vec<u8> {
        let mut buffer = [0; MAX_MESSAGE];
        match self.transport.receive(&mut buffer, Instant::now() + Duration::from_secs(30)) {
            Ok(Event::Message(len)) => buffer[..len].to_vec(),
            other => panic!("no reply: {other:?}"),
        }
    }

    fn exchange(&mut self, message: &[u8]) -> Vec<u8> {
        self.send(message);
        self.receive()
    }
}

impl Drop for Pipeline {
    fn drop(&mut self) {
        self.transport.kill();
    }
}

/// The status of a reply.
pub fn status(reply: &[u8]) -> Option<Status> {
    Header::parse(reply).ok()?.status()
}
