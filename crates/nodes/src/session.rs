//! A session with the standing device: shared memory, the message rings, and the thread that carries replies to endpoints.

use outboard_shm::{
    DeviceState, HostCache, MESSAGE_BYTES, Mapping, Object, Port, Received, RingError, Side, WaitPolicy,
    receive_objects, send_objects,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::net::{SendFlags, Shutdown};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Version of the protocol with the broker.
const PROTOCOL: u32 = 1;
/// How long the device may take to answer or to come up.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long the device may take to notice that a session has ended.
const RELEASE: Duration = Duration::from_secs(2);
/// Requests whose replies are remembered.
const OUTSTANDING: usize = 64;
/// Flags of `DMA_BUF_IOCTL_SYNC`.
const SYNC_READ: u64 = 1;
const SYNC_WRITE: u64 = 2;
const SYNC_END: u64 = 4;
/// INFER_LARGE is answered as INFER.
const INFER: u32 = 0x21;
const INFER_LARGE: u32 = 0x23;

fn errno(number: i32) -> io::Error {
    io::Error::from_raw_os_error(number)
}

pub(crate) fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Asks for a session. A device that still serves a session of this process, or of one that is gone, is about to let it go.
fn ask(stream: &UnixStream) -> io::Result<(i32, Vec<OwnedFd>)> {
    let until = Instant::now() + RELEASE;
    loop {
        send_objects(stream, &format!("OPEN {PROTOCOL}"), &[])?;
        let (line, objects) = receive_objects(stream)?;
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["OK", process, _] => return Ok((process.parse().map_err(|_| errno(libc::EPROTO))?, objects)),
            ["BUSY", client] => {
                let own = client.parse() == Ok(std::process::id());
                let ending = own || !Path::new("/proc").join(client).exists();
                if !ending || Instant::now() >= until {
                    return Err(errno(libc::EBUSY));
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            _ => return Err(errno(libc::EPROTO)),
        }
    }
}

/// A request that has no reply yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Request {
    endpoint: u32,
    reply: u32,
    seq: u32,
}

/// Type and sequence number of a message. What a short one does not have counts as zero, as on the device.
fn head(message: &[u8]) -> (u32, u32) {
    let mut bytes = [0; 8];
    bytes.iter_mut().zip(message).for_each(|(byte, given)| *byte = *given);
    let word = u64::from_le_bytes(bytes);
    let half = |word: u64| u32::try_from(word & u64::from(u32::MAX)).unwrap_or(0);
    (half(word), half(word >> 32))
}

/// What the carrier of replies shares with the calls.
#[derive(Debug, Default)]
struct Shared {
    /// The session ends.
    closing: AtomicBool,
    /// The device is gone.
    dead: AtomicBool,
    /// Open endpoints: number and this library's end of the socket.
    endpoints: Mutex<Vec<(u32, Arc<OwnedFd>)>>,
    outstanding: Mutex<VecDeque<Request>>,
}

impl Shared {
    /// The endpoint a reply belongs to.
    fn route(&self, message: &[u8]) -> Option<Arc<OwnedFd>> {
        let (kind, seq) = head(message);
        let mut outstanding = lock(&self.outstanding);
        let found = outstanding.iter().position(|request| (request.reply, request.seq) == (kind, seq));
        let endpoint = match found.and_then(|index| outstanding.remove(index)) {
            Some(request) => request.endpoint,
            // A message nobody asked for goes to whoever spoke last.
            None => outstanding.back().map(|request| request.endpoint)?,
        };
        lock(&self.endpoints).iter().find(|(number, _)| *number == endpoint).map(|(_, socket)| Arc::clone(socket))
    }

    fn hang_up(&self) {
        self.dead.store(true, Ordering::Release);
        for (_, socket) in lock(&self.endpoints).iter() {
            let _ = rustix::net::shutdown(socket, Shutdown::Both);
        }
    }
}

/// A session.
#[derive(Debug)]
pub(crate) struct Session {
    stream: UnixStream,
    port: Arc<Port>,
    carveout: Object,
    /// The program's caches and the memory behind them, when the two are not coherent.
    cache: Option<(HostCache, Mapping)>,
    shared: Arc<Shared>,
    sending: Mutex<()>,
    /// The thread that carries replies, and the process it belongs to.
    carrier: Option<(u32, JoinHandle<()>)>,
}

impl Session {
    /// Asks the standing device for a session and waits until it is up.
    ///
    /// # Errors
    /// ENODEV: nobody listens; EBUSY: it serves another client; EPROTO: it is no device of this version; ETIMEDOUT: it does not
    /// come up.
    pub(crate) fn open(socket: &Path, incoherent: bool, state: impl Fn(&str) + Send + 'static) -> io::Result<Self> {
        let stream = outboard_shm::connect(socket, PATIENCE).map_err(|_| errno(libc::ENODEV))?;
        let (process, objects) = ask(&stream)?;
        let Ok([control, carveout]) = <[OwnedFd; 2]>::try_from(objects) else { return Err(errno(libc::EPROTO)) };
        let usable = |_| errno(libc::EPROTO);
        let (control, carveout) =
            (Object::from_fd(control).map_err(usable)?, Object::from_fd(carveout).map_err(usable)?);
        let port = Arc::new(Port::open(&control, Side::Host).map_err(|_| errno(libc::EPROTO))?);
        let shared = Arc::default();
        let refused = |_| errno(libc::ENOMEM);
        let cache = if incoherent {
            let caches = HostCache::new(carveout.size()).map_err(refused)?;
            Some((caches, Mapping::of(&carveout).map_err(refused)?))
        } else {
            None
        };
        let mut session = Self { stream, port, carveout, cache, shared, sending: Mutex::new(()), carrier: None };
        session.await_ready()?;
        session.carry(process, state)?;
        Ok(session)
    }

    /// Starts a device that is gone again, as Linux' recovery does.
    ///
    /// # Errors
    /// As [`Session::open`].
    pub(crate) fn restart(&mut self, state: impl Fn(&str) + Send + 'static) -> io::Result<()> {
        self.end_carrier();
        send_objects(&self.stream, "RESTART", &[])?;
        let (line, _) = receive_objects(&self.stream)?;
        let process = line.strip_prefix("OK ").and_then(|process| process.parse().ok());
        self.shared = Arc::default();
        self.await_ready()?;
        state("running");
        self.carry(process.ok_or_else(|| errno(libc::EPROTO))?, state)
    }

    fn await_ready(&self) -> io::Result<()> {
        let until = Instant::now() + PATIENCE;
        while self.port.state() != DeviceState::Ready {
            if Instant::now() >= until {
                return Err(errno(libc::ETIMEDOUT));
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        Ok(())
    }

    /// Starts the thread that carries replies.
    fn carry(&mut self, process: i32, state: impl Fn(&str) + Send + 'static) -> io::Result<()> {
        let (port, shared) = (Arc::clone(&self.port), Arc::clone(&self.shared));
        let watch = Pid::from_raw(process).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        let carrier = std::thread::Builder::new().name("outboard-nodes".to_owned()).spawn(move || {
            // The calls that this thread makes are its own.
            crate::hooks::pass_through();
            let mut buffer = [0; MESSAGE_BYTES];
            loop {
                let mut alive = || {
                    !shared.closing.load(Ordering::Acquire)
                        && port.state() != DeviceState::Crashed
                        && watch.as_ref().is_some_and(runs)
                };
                let received = port.receive(&mut buffer, None, WaitPolicy::default(), &mut alive);
                match (received, &buffer) {
                    (Ok(Received::Message(len)), buffer) => {
                        let message = buffer.get(..len).unwrap_or_default();
                        if let Some(socket) = shared.route(message) {
                            // A client that does not read loses replies, as on a full queue of the kernel.
                            let _ = rustix::net::send(&*socket, message, SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
                        }
                    }
                    (Ok(Received::TimedOut), _) => {}
                    _ if shared.closing.load(Ordering::Acquire) => return,
                    _ => {
                        state("crashed");
                        shared.hang_up();
                        return;
                    }
                }
            }
        })?;
        self.carrier = Some((std::process::id(), carrier));
        Ok(())
    }

    /// Ends the thread that carries replies, before it can take one of another session over the same rings.
    fn end_carrier(&mut self) {
        self.shared.closing.store(true, Ordering::Release);
        // A process that was forked has no such thread to wait for.
        if let Some((process, carrier)) = self.carrier.take()
            && process == std::process::id()
        {
            let _ = carrier.join(); // a thread that has ended badly has ended
        }
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.shared.dead.load(Ordering::Acquire)
    }

    /// What the program maps: the memory that it shares with the device, or its caches over it.
    pub(crate) fn memory(&self) -> &Object {
        self.cache.as_ref().map_or(&self.carveout, |(cache, _)| cache.object())
    }

    /// Brings the program's caches and the memory in step, as `DMA_BUF_IOCTL_SYNC` with these flags does: the end of a write cleans
    /// the caches, the start of a read empties them.
    ///
    /// # Errors
    /// EIO: the memory is not what it was.
    pub(crate) fn synchronise(&self, range: Range<u64>, flags: u64) -> io::Result<()> {
        let Some((cache, memory)) = &self.cache else { return Ok(()) };
        let (ends, reads, writes) = (flags & SYNC_END != 0, flags & SYNC_READ != 0, flags & SYNC_WRITE != 0);
        let done = match (ends, reads, writes) {
            (true, _, true) => cache.flush(range, memory),
            (false, true, _) => cache.invalidate(range, &self.carveout, memory),
            _ => Ok(()),
        };
        done.map_err(|_| errno(libc::EIO))
    }

    /// The firmware's log.
    pub(crate) fn trace(&self) -> String {
        self.port.read_trace(0).0
    }

    /// Registers an endpoint: replies to it go to `socket`.
    pub(crate) fn attach(&self, endpoint: u32, socket: Arc<OwnedFd>) {
        lock(&self.shared.endpoints).push((endpoint, socket));
    }

    /// Forgets an endpoint.
    pub(crate) fn detach(&self, endpoint: u32) {
        lock(&self.shared.endpoints).retain(|(number, _)| *number != endpoint);
        lock(&self.shared.outstanding).retain(|request| request.endpoint != endpoint);
    }

    /// Sends a message of an endpoint.
    ///
    /// # Errors
    /// EMSGSIZE, EAGAIN when the ring is full, EPIPE when the device is gone.
    pub(crate) fn send(&self, endpoint: u32, message: &[u8]) -> io::Result<()> {
        if self.is_dead() {
            return Err(errno(libc::EPIPE));
        }
        let _one_at_a_time = lock(&self.sending);
        let (kind, seq) = head(message);
        let reply = 0x1000 | if kind == INFER_LARGE { INFER } else { kind };
        let mut outstanding = lock(&self.shared.outstanding);
        outstanding.truncate(OUTSTANDING);
        if outstanding.len() == OUTSTANDING {
            outstanding.pop_front();
        }
        outstanding.push_back(Request { endpoint, reply, seq });
        drop(outstanding);
        self.port.send(message).map_err(|error| match error {
            RingError::TooLong { .. } => errno(libc::EMSGSIZE),
            RingError::Full => errno(libc::EAGAIN),
            RingError::Corrupt { .. } => errno(libc::EIO),
        })
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.end_carrier();
    }
}

/// Whether the process behind a descriptor runs.
fn runs(watch: &OwnedFd) -> bool {
    let mut events = [PollFd::new(watch, PollFlags::IN)];
    matches!(poll(&mut events, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })), Ok(0))
}
