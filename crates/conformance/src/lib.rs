//! What every [`Transport`] must do, as a suite of checks that a test of each implementation runs.
//!
//! The suite talks to a real device behind the transport: raw messages for what a transport promises, a [`Session`] for what
//! its users see. It panics with what did not hold, as tests do. An implementation passes when [`messages`], [`buffers`],
//! [`life`] and [`sessions`] return for it.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a test suite fails by panicking")]

use outboard_host::{Deadlines, Error, Event, Input, Session, SessionOptions, Transport, Wait};
use outboard_tensor::Tensor;
use outboard_wire::{
    DynLoad, DynLoadReply, DynUnload, Header, Infer, InferFlags, InferReply, MAX_MESSAGE, MapWindow, MessageType,
    PingReply, SetPrintfBuf, SharedMap, Status, TensorDesc, Version, in_range,
};
use std::time::{Duration, Instant};
use zerocopy::IntoBytes;

/// How long a device may take for anything.
const PATIENCE: Duration = Duration::from_secs(20);

/// Modules that the suite loads, as the bytes of their files.
#[derive(Debug, Clone, Copy)]
pub struct Modules<'a> {
    /// Doubles one tensor of int64 where it lies and returns it.
    pub double: &'a [u8],
    /// Crashes when it is called with one tensor of float32; `None` where a crash would take the test along.
    pub crash: Option<&'a [u8]>,
}

fn started(mut transport: impl Transport) -> impl Transport {
    transport.start(&Wait::start("the device of the suite", PATIENCE)).unwrap();
    transport
}

fn receive(transport: &mut dyn Transport, limit: Duration) -> Result<Vec<u8>, Event> {
    let mut bytes = [0; MAX_MESSAGE];
    match transport.receive(&mut bytes, Instant::now() + limit).unwrap() {
        Event::Message(len) => Ok(bytes[..len].to_vec()),
        other => Err(other),
    }
}

fn ask(transport: &mut dyn Transport, message: &[u8]) -> Vec<u8> {
    transport.send(message).unwrap();
    receive(transport, PATIENCE).expect("an answer")
}

fn ping(transport: &mut dyn Transport, seq: u32) {
    let reply = ask(transport, Header::request(MessageType::Ping, seq, 16).as_bytes());
    let reply = PingReply::parse(&reply).unwrap();
    assert_eq!((reply.header.seq.get(), reply.version()), (seq, Version::CURRENT));
}

/// Messages arrive whole and in order, waits end, and what is too long is refused before it is sent.
pub fn messages<T: Transport + 'static>(open: impl Fn() -> T) {
    let mut transport = started(open());
    assert!(!transport.device().is_empty(), "results name their device");
    ping(&mut transport, 1);
    let refused = transport.send(&[0; MAX_MESSAGE + 1]).unwrap_err();
    assert!(matches!(refused, Error::MessageTooLong { len } if len == MAX_MESSAGE + 1), "{refused}");
    let begun = Instant::now();
    let limit = Duration::from_millis(60);
    assert_eq!(receive(&mut transport, limit), Err(Event::TimedOut), "nothing was sent");
    assert!(begun.elapsed() >= limit, "the wait lasts until its deadline");
    for seq in 10..18 {
        transport.send(Header::request(MessageType::Ping, seq, 16).as_bytes()).unwrap();
    }
    for seq in 10..18 {
        let reply = receive(&mut transport, PATIENCE).expect("an answer to each request");
        assert_eq!(Header::parse(&reply).unwrap().seq.get(), seq, "answers come in the order of their requests");
    }
    // A message of the largest size, and one of less than a header, end in answers of their own.
    let mut largest = [0; MAX_MESSAGE];
    largest[..16].copy_from_slice(Header::request(MessageType::Ping, 20, 512).as_bytes());
    assert_eq!(Header::parse(&ask(&mut transport, &largest)).unwrap().seq.get(), 20);
    assert_eq!(Header::parse(&ask(&mut transport, &[0x77, 0, 0])).unwrap().status(), Some(Status::Invalid));
    transport.stop(&Wait::start("the device of the suite to stop", PATIENCE)).unwrap();
}

/// Buffers come from the carveout, lowest place first, never overlap, keep their bytes, and are the side's that owns them.
pub fn buffers<T: Transport + 'static>(open: impl Fn() -> T, modules: Modules<'_>) {
    let mut transport = started(open());
    let sizes = [SharedMap::STAGING.size + SharedMap::KV.size, 0x1_0000, 0x1001, 0x2_0000];
    let before = transport.room();
    let [mut staging, printf, mut input, output] = sizes.map(|size| transport.allocate(size).unwrap());
    assert_eq!(staging.window().base, SharedMap::STAGING.base, "the first buffer lies at the beginning");
    let windows = [staging.window(), printf.window(), input.window(), output.window()];
    for (index, window) in windows.iter().enumerate() {
        assert_eq!(window.size, sizes[index]);
        assert!(window.in_carveout(), "{window:?}");
        for other in &windows[..index] {
            let apart = other.base + other.size <= window.base || window.base + window.size <= other.base;
            assert!(apart, "{window:?} overlaps {other:?}");
        }
    }
    let room = transport.room();
    assert!(room.free < before.free && room.largest <= room.free && room.total == SharedMap::CARVEOUT.size);
    assert!(transport.allocate(SharedMap::CARVEOUT.size).is_err(), "more than there is left is an error");
    let again = transport.allocate(0x1000).unwrap();
    let place = again.window().base;
    transport.release(again);
    let again = transport.allocate(0x1000).unwrap();
    assert_eq!(again.window().base, place, "what was given back is used again");
    transport.release(again);

    // A module travels through staging, its input and output through buffers of their own.
    staging.write(0, modules.double).unwrap();
    input.write(0, &5i64.to_le_bytes()).unwrap();
    let staging = transport.hand_over(staging).unwrap();
    let printf = transport.hand_over(printf).unwrap();
    let input = transport.hand_over(input).unwrap();
    let output = transport.hand_over(output).unwrap();
    let size = u32::try_from(printf.window().size).unwrap();
    let bound = ask(&mut transport, SetPrintfBuf::new(30, printf.window().base, size).as_bytes());
    assert_eq!(Header::parse(&bound).unwrap().status(), Some(Status::Success));
    let windows = (input.window(), output.window());
    let handle = call(&mut transport, modules, windows, 31);
    let output = transport.take_back(output).unwrap();
    assert_eq!(output.bytes(0, 8).unwrap(), 10i64.to_le_bytes());
    let input = transport.take_back(input).unwrap();
    assert_eq!(input.bytes(0, 8).unwrap(), 10i64.to_le_bytes(), "the module wrote where it read");
    let unloaded = ask(&mut transport, DynUnload::new(40, handle).as_bytes());
    assert_eq!(Header::parse(&unloaded).unwrap().status(), Some(Status::Success));

    // Killed and started again, the device finds every buffer where it was, with its bytes.
    transport.kill();
    transport.start(&Wait::start("the device of the suite, again", PATIENCE)).unwrap();
    assert_eq!(output.bytes(0, 8).unwrap(), 10i64.to_le_bytes());
    let bound = ask(&mut transport, SetPrintfBuf::new(50, printf.window().base, size).as_bytes());
    assert_eq!(Header::parse(&bound).unwrap().status(), Some(Status::Success));
    let (input, output) = (transport.hand_over(input).unwrap(), transport.hand_over(output).unwrap());
    let handle = call(&mut transport, modules, windows, 51);
    let output = transport.take_back(output).unwrap();
    assert_eq!(output.bytes(0, 8).unwrap(), 20i64.to_le_bytes());
    ask(&mut transport, DynUnload::new(60, handle).as_bytes());
    for buffer in [transport.take_back(staging), transport.take_back(printf), transport.take_back(input)] {
        transport.release(buffer.unwrap());
    }
    transport.release(output);
    assert_eq!(transport.room().free, before.free, "everything was given back");
    transport.stop(&Wait::start("the device of the suite to stop", PATIENCE)).unwrap();
}

/// Loads the module that doubles from staging and calls it; returns its handle.
fn call(transport: &mut dyn Transport, modules: Modules<'_>, windows: (MapWindow, MapWindow), seq: u32) -> u32 {
    let size = u32::try_from(modules.double.len()).unwrap();
    let loaded = DynLoadReply::parse(&ask(transport, DynLoad::new(seq, size).as_bytes())).unwrap();
    assert_eq!(loaded.header.status(), Some(Status::Success));
    let handle = loaded.module_handle.get();
    let x = TensorDesc::new(windows.0.base, 8, 0, 64, &[1]).unwrap();
    let request = Infer::new(seq + 1, handle, 0, InferFlags::repeat(1), windows, &[x]).unwrap();
    let reply = ask(transport, request.bytes());
    let fixed = InferReply::parse_fixed(&reply).unwrap();
    assert_eq!((fixed.header.status(), fixed.num_outputs.get()), (Some(Status::Success), 1));
    let [described] = InferReply::inline_descriptors(&reply, 1).unwrap() else { panic!("one output") };
    assert!(in_range(described.data_addr.get(), described.data_size.get(), windows.1.base, windows.1.size));
    handle
}

/// A device can be stopped, killed and started any number of times, and stopping or killing it again does nothing.
pub fn life<T: Transport + 'static>(open: impl Fn() -> T) {
    let mut transport = open();
    for round in 0..3 {
        transport.start(&Wait::start("the device of the suite", PATIENCE)).unwrap();
        ping(&mut transport, round);
        if round == 1 {
            transport.kill();
            transport.kill();
        } else {
            transport.stop(&Wait::start("the device of the suite to stop", PATIENCE)).unwrap();
            transport.stop(&Wait::start("a device that has stopped", PATIENCE)).unwrap();
        }
    }
    // Started while it runs, it is as new.
    transport.start(&Wait::start("the device of the suite", PATIENCE)).unwrap();
    transport.start(&Wait::start("the device of the suite, again", PATIENCE)).unwrap();
    ping(&mut transport, 9);
    drop(transport);
    ping(&mut started(open()), 1);
}

fn numbers(values: &[i64]) -> Tensor {
    Tensor::from_values(values.len().to_string().parse().unwrap(), values).unwrap()
}

/// What users of a session see: loads, calls, windows that grow, crashes that are named, sessions behind one another.
pub fn sessions<T: Transport + 'static>(open: impl Fn() -> T, modules: Modules<'_>) {
    let open = || Session::open(open(), SessionOptions { deadlines: Deadlines::all(PATIENCE) }).unwrap();
    let mut session = open();
    assert_eq!(session.ping().unwrap().version.to_string(), "3.0.0");
    for round in 1..=3i64 {
        let double = session.load(modules.double, "double.out").unwrap();
        let x = numbers(&[round, 2, 3, 4]);
        let outputs = session.run(&double, &[Input::from(&x)]).unwrap();
        assert_eq!(outputs.view(0).unwrap().values::<i64>().unwrap(), [2 * round, 4, 6, 8]);
        // More than the first output window holds: it grows, the module runs again.
        let large = numbers(&vec![7; 20_000]);
        let outputs = session.run(&double, &[Input::from(&large)]).unwrap();
        assert_eq!(outputs.view(0).unwrap().values::<i64>().unwrap().len(), 20_000);
        session.unload(double).unwrap();
    }
    in_place(&mut session, modules);
    if let Some(crash) = modules.crash {
        crashes(&mut session, crash);
    }
    session.close().unwrap();
    // A session behind another one works as the first did.
    let mut second = open();
    let double = second.load(modules.double, "double.out").unwrap();
    let outputs = second.run(&double, &[Input::from(&numbers(&[21]))]).unwrap();
    assert_eq!(outputs.view(0).unwrap().values::<i64>().unwrap(), [42]);
    second.unload(double).unwrap();
    second.close().unwrap();
}

/// Inputs that lie on the device move no tensor bytes, and go from side to side.
fn in_place(session: &mut Session, modules: Modules<'_>) {
    let double = session.load(modules.double, "double.out").unwrap();
    let before = session.traffic();
    let mut buffer = session.input(&double, outboard_tensor::DType::Int64, "1".parse().unwrap()).unwrap();
    for value in [3i64, 8, -2] {
        session.input_bytes_mut(&buffer).unwrap().copy_from_slice(&value.to_le_bytes());
        let given = session.hand_over(buffer).unwrap();
        let outputs = session.run(&double, &[Input::from(&given)]).unwrap();
        assert_eq!(outputs.view(0).unwrap().values::<i64>().unwrap(), [2 * value]);
        buffer = session.take_back(given).unwrap();
        assert_eq!(session.input_bytes(&buffer).unwrap(), (2 * value).to_le_bytes());
    }
    assert_eq!(session.traffic(), before, "no tensor byte was copied");
    drop(buffer);
    session.unload(double).unwrap();
}

/// A crash is named, its handle stale, and the next call starts the device again.
fn crashes(session: &mut Session, crash: &[u8]) {
    let bad = session.load(crash, "crash.out").unwrap();
    let x = Tensor::from_values("1".parse().unwrap(), &[1.0f32]).unwrap();
    let start = Instant::now();
    let lost = session.run(&bad, &[Input::from(&x)]).unwrap_err();
    assert!(matches!(lost, Error::DeviceLost(_)), "{lost}");
    assert!(start.elapsed() < Duration::from_secs(2), "reported after {:?}", start.elapsed());
    session.ping().unwrap();
    assert!(matches!(session.run(&bad, &[Input::from(&x)]), Err(Error::StaleModule { .. })));
}
