//! The control object of a session: device state, mailbox, crash record and the two message rings.

use crate::crash::{CrashCell, CrashRecord};
use crate::map::{MapError, Mapping, Object};
use crate::primitives::MESSAGE_BYTES;
use crate::ring::{Ring, RingError};
use crate::trace::TraceCell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// First word of a control object: "OBC7".
const MAGIC: u32 = 0x3743_424F;
/// Bumped whenever the layout of this module or of the ring changes.
const LAYOUT: u32 = 3;
/// Looks at the ring before the processor is offered to others.
const PURE_SPINS: u32 = 32;
/// Mailbox word with which the host asks the device to shut down.
const SHUTDOWN: u32 = 1;

/// Why a control object cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// It could not be created or mapped.
    #[error(transparent)]
    Map(#[from] MapError),
    /// It was made by another version of Outboard.
    #[error(
        "the session object has magic {magic:#x}, layout {layout}, {size} bytes; this program expects {MAGIC:#x}, {LAYOUT}, \
         {need}: host and device must be the same version of Outboard",
        need = size_of::<Control>()
    )]
    Layout {
        /// Magic found.
        magic: u32,
        /// Layout version found.
        layout: u32,
        /// Size found.
        size: u64,
    },
    /// A message could not be exchanged.
    #[error(transparent)]
    Ring(#[from] RingError),
}

/// Where a device is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum DeviceState {
    /// The process exists; the service has not announced itself.
    Booting = 0,
    /// The service receives messages.
    Ready = 1,
    /// The service has acknowledged a shutdown and takes itself down.
    Stopping = 2,
    /// The service is gone in good order.
    Stopped = 3,
    /// The device died of a signal; see [`Port::crash`].
    Crashed = 4,
}

impl DeviceState {
    fn from_word(word: u32) -> Self {
        match word {
            1 => Self::Ready,
            2 => Self::Stopping,
            3 => Self::Stopped,
            4 => Self::Crashed,
            _ => Self::Booting,
        }
    }
}

#[repr(C)]
struct Control {
    magic: AtomicU32,
    layout: AtomicU32,
    state: AtomicU32,
    mailbox: AtomicU32,
    crash: CrashCell,
    statistics: [AtomicU64; Statistics::FIELDS],
    to_device: Ring,
    to_host: Ring,
    trace: TraceCell,
}

/// Which end of the rings a port is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Sends requests.
    Host,
    /// Sends replies.
    Device,
}

/// Now, in nanoseconds of the system's monotonic clock: the same for every process of the machine.
pub fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let (seconds, nanoseconds) = (u64::try_from(now.tv_sec).unwrap_or(0), u64::try_from(now.tv_nsec).unwrap_or(0));
    seconds.saturating_mul(1_000_000_000).saturating_add(nanoseconds)
}

/// What a device publishes about itself, for whoever watches it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Statistics {
    /// Milliseconds since the service started.
    pub uptime_ms: u64,
    /// Inferences that succeeded.
    pub jobs_completed: u64,
    /// Inferences whose entry returned non-zero.
    pub jobs_failed: u64,
    /// Modules loaded now.
    pub modules: u64,
    /// Bytes free in the MAIN pool.
    pub main_free: u64,
    /// Bytes free in the FAST pool.
    pub fast_free: u64,
    /// Nanoseconds spent running module code.
    pub busy_ns: u64,
    /// When the device took the last message from its ring, in nanoseconds of the system's monotonic clock.
    pub received_at: u64,
    /// When it put the last reply into the host's ring, on the same clock.
    pub replied_at: u64,
}

impl Statistics {
    const FIELDS: usize = 9;

    fn words(&self) -> [u64; Self::FIELDS] {
        let Self {
            uptime_ms,
            jobs_completed,
            jobs_failed,
            modules,
            main_free,
            fast_free,
            busy_ns,
            received_at,
            replied_at,
        } = *self;
        [uptime_ms, jobs_completed, jobs_failed, modules, main_free, fast_free, busy_ns, received_at, replied_at]
    }

    fn from_words(words: [u64; Self::FIELDS]) -> Self {
        let [uptime_ms, jobs_completed, jobs_failed, modules, main_free, fast_free, busy_ns, received_at, replied_at] =
            words;
        Self { uptime_ms, jobs_completed, jobs_failed, modules, main_free, fast_free, busy_ns, received_at, replied_at }
    }
}

/// How a receiver waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitPolicy {
    /// How long to poll the ring before sleeping: short waits are answered without a system call.
    pub spin: Duration,
    /// Longest single sleep; between sleeps the peer's life is checked.
    pub slice: Duration,
}

impl Default for WaitPolicy {
    fn default() -> Self {
        Self { spin: Duration::from_micros(50), slice: Duration::from_millis(20) }
    }
}

/// How a wait for a message ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    /// A message of this many bytes is in the buffer.
    Message(usize),
    /// The deadline passed.
    TimedOut,
    /// The host asked for a shutdown (device side only).
    Shutdown,
    /// The peer is gone.
    PeerLost,
}

/// One end of a session: the mapped control object.
#[derive(Debug)]
pub struct Port {
    mapping: Mapping,
    side: Side,
}

impl Port {
    /// Creates the object and the host's end.
    ///
    /// # Errors
    /// The system refuses the object.
    pub fn create() -> Result<(Object, Self), ControlError> {
        let object = Object::create("outboard-control", size_of::<Control>() as u64)?;
        let port = Self { mapping: Mapping::of(&object)?, side: Side::Host };
        port.control().layout.store(LAYOUT, Ordering::Relaxed);
        port.control().magic.store(MAGIC, Ordering::Release);
        Ok((object, port))
    }

    /// Opens one end of an existing object.
    ///
    /// # Errors
    /// The object is not a control object of this version.
    pub fn open(object: &Object, side: Side) -> Result<Self, ControlError> {
        if object.size() < size_of::<Control>() as u64 {
            return Err(ControlError::Layout { magic: 0, layout: 0, size: object.size() });
        }
        let port = Self { mapping: Mapping::of(object)?, side };
        let (magic, layout) =
            (port.control().magic.load(Ordering::Acquire), port.control().layout.load(Ordering::Relaxed));
        if (magic, layout) != (MAGIC, LAYOUT) {
            return Err(ControlError::Layout { magic, layout, size: object.size() });
        }
        Ok(port)
    }

    fn control(&self) -> &Control {
        // SAFETY: the mapping is at least this large (checked where it was made), page-aligned, lives as long as `self`, and
        // `Control` consists of atomics only, for which every bit pattern is valid and concurrent change is allowed.
        unsafe { &*self.mapping.as_ptr().cast::<Control>() }
    }

    fn incoming(&self) -> &Ring {
        match self.side {
            Side::Host => &self.control().to_host,
            Side::Device => &self.control().to_device,
        }
    }

    fn outgoing(&self) -> &Ring {
        match self.side {
            Side::Host => &self.control().to_device,
            Side::Device => &self.control().to_host,
        }
    }

    /// Sends a message; never waits.
    ///
    /// # Errors
    /// The message is too long, the ring is full or corrupted.
    pub fn send(&self, message: &[u8]) -> Result<(), RingError> {
        self.outgoing().push(message)
    }

    /// Waits for a message until `deadline` (`None`: for ever, for a device that serves) and copies it into `buffer`.
    ///
    /// `alive` is asked between sleeps whether the peer still exists.
    ///
    /// # Errors
    /// The peer corrupted the ring.
    pub fn receive(
        &self,
        buffer: &mut [u8; MESSAGE_BYTES],
        deadline: Option<Instant>,
        policy: WaitPolicy,
        alive: &mut dyn FnMut() -> bool,
    ) -> Result<Received, RingError> {
        let ring = self.incoming();
        let spin_until = Instant::now() + policy.spin;
        let mut spins = if policy.spin.is_zero() { u32::MAX } else { 0 };
        loop {
            if let Some(len) = ring.pop(buffer)? {
                return Ok(Received::Message(len));
            }
            if self.side == Side::Device && self.shutdown_requested() {
                return Ok(Received::Shutdown);
            }
            if spins < u32::MAX {
                if spins < PURE_SPINS {
                    std::hint::spin_loop();
                } else {
                    // The peer may share this processor: it cannot answer while this thread spins.
                    std::thread::yield_now();
                }
                spins = if spins % 64 == 63 && Instant::now() >= spin_until { u32::MAX } else { spins + 1 };
                continue;
            }
            let now = Instant::now();
            if deadline.is_some_and(|deadline| now >= deadline) {
                return Ok(Received::TimedOut);
            }
            if !alive() {
                // Whatever the peer said last still counts.
                return Ok(ring.pop(buffer)?.map_or(Received::PeerLost, Received::Message));
            }
            let left = deadline.map_or(policy.slice, |deadline| deadline - now);
            ring.sleep(left.min(policy.slice), || self.side == Side::Device && self.shutdown_requested());
        }
    }

    /// Whether a message waits to be received.
    pub fn has_message(&self) -> bool {
        self.incoming().has_message()
    }

    /// Where the device is in its life.
    pub fn state(&self) -> DeviceState {
        DeviceState::from_word(self.control().state.load(Ordering::Acquire))
    }

    /// Publishes where the device is in its life and wakes a waiting host.
    pub fn set_state(&self, state: DeviceState) {
        self.control().state.store(state as u32, Ordering::Release);
        self.control().to_host.wake();
    }

    /// Asks the device to shut down (the mailbox message of the board).
    pub fn request_shutdown(&self) {
        self.control().mailbox.store(SHUTDOWN, Ordering::SeqCst);
        self.control().to_device.wake();
    }

    /// Whether the host has asked for a shutdown.
    pub fn shutdown_requested(&self) -> bool {
        self.control().mailbox.load(Ordering::SeqCst) == SHUTDOWN
    }

    /// Leaves a crash record; safe to call from a signal handler.
    pub fn record_crash(&self, numbers: &CrashRecord, symbol: &[u8]) {
        self.control().crash.store(numbers, symbol);
        self.set_state(DeviceState::Crashed);
    }

    /// The crash record, when the device left one.
    pub fn crash(&self) -> Option<CrashRecord> {
        self.control().crash.load()
    }

    /// Publishes the device's statistics.
    pub fn publish(&self, statistics: &Statistics) {
        for (cell, word) in self.control().statistics.iter().zip(statistics.words()) {
            cell.store(word, Ordering::Relaxed);
        }
    }

    /// The device's statistics as it published them last.
    pub fn statistics(&self) -> Statistics {
        Statistics::from_words(self.control().statistics.each_ref().map(|cell| cell.load(Ordering::Relaxed)))
    }

    /// Appends a line to the device's trace; the oldest text goes when the buffer is full.
    pub fn trace(&self, line: &str) {
        self.control().trace.append(line.as_bytes());
        self.control().trace.append(b"\n");
    }

    /// The text of the trace from byte `from` on (counted since the device started), and the position behind it.
    pub fn read_trace(&self, from: u64) -> (String, u64) {
        self.control().trace.read(from)
    }

    /// Makes the object as new, for a device that is started again.
    pub fn reset(&self) {
        let control = self.control();
        control.crash.clear();
        control.mailbox.store(0, Ordering::SeqCst);
        control.state.store(DeviceState::Booting as u32, Ordering::SeqCst);
        control.to_device.reset();
        control.to_host.reset();
        self.publish(&Statistics::default());
        control.trace.reset();
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    fn pair() -> (Port, Port) {
        let (object, host) = Port::create().unwrap();
        let device = Port::open(&object, Side::Device).unwrap();
        (host, device)
    }

    fn soon() -> Option<Instant> {
        Some(Instant::now() + Duration::from_secs(5))
    }

    fn receive(port: &Port, deadline: Option<Instant>) -> Result<Received, RingError> {
        port.receive(&mut [0; MESSAGE_BYTES], deadline, WaitPolicy::default(), &mut || true)
    }

    #[test]
    fn e8_messages_arrive_in_order_and_whole_in_both_directions() {
        let (host, device) = pair();
        let echo = std::thread::spawn(move || {
            for _ in 0..1000 {
                let mut buffer = [0; MESSAGE_BYTES];
                let Received::Message(len) =
                    device.receive(&mut buffer, soon(), WaitPolicy::default(), &mut || true).unwrap()
                else {
                    panic!("no message")
                };
                device.send(&buffer[..len]).unwrap();
            }
        });
        for round in 0..1000u32 {
            let message: Vec<u8> = (0..round % 513).map(|i| u8::try_from((i + round) % 251).unwrap()).collect();
            host.send(&message).unwrap();
            let mut buffer = [0; MESSAGE_BYTES];
            let got = host.receive(&mut buffer, soon(), WaitPolicy::default(), &mut || true).unwrap();
            assert_eq!(got, Received::Message(message.len()));
            assert_eq!(&buffer[..message.len()], message);
        }
        echo.join().unwrap();
    }

    #[test]
    fn a_ring_of_zeros_is_empty() {
        let ring = Ring::empty();
        assert!(!ring.has_message());
        assert_eq!(ring.pop(&mut [0; MESSAGE_BYTES]), Ok(None));
    }

    #[test]
    fn a_message_of_600_bytes_is_refused_before_it_is_sent() {
        let (host, device) = pair();
        assert_eq!(host.send(&[0; 600]), Err(RingError::TooLong { len: 600 }));
        assert!(!device.has_message());
    }

    #[test]
    fn a_full_ring_refuses_and_recovers_once_the_peer_reads() {
        let (host, device) = pair();
        for _ in 0..16 {
            host.send(&[1]).unwrap();
        }
        assert_eq!(host.send(&[1]), Err(RingError::Full));
        assert_eq!(receive(&device, soon()), Ok(Received::Message(1)));
        assert_eq!(host.send(&[1]), Ok(()));
    }

    #[test]
    fn e8_a_peer_that_corrupts_the_ring_is_named_and_never_followed() {
        let (host, device) = pair();
        host.send(&[1]).unwrap();
        host.outgoing().corrupt_length(0, 513);
        assert_eq!(receive(&device, soon()), Err(RingError::Corrupt { what: "a message's length", value: 513 }));
        host.outgoing().corrupt_tail(40);
        assert!(matches!(receive(&device, soon()), Err(RingError::Corrupt { .. })));
    }

    #[test]
    fn waits_end_at_the_deadline_with_shutdown_or_when_the_peer_dies() {
        let (host, device) = pair();
        assert_eq!(receive(&host, Some(Instant::now() + Duration::from_millis(30))), Ok(Received::TimedOut));
        let lost = host.receive(&mut [0; MESSAGE_BYTES], None, WaitPolicy::default(), &mut || false);
        assert_eq!(lost, Ok(Received::PeerLost));
        let waiting = std::thread::spawn(move || receive(&device, None));
        std::thread::sleep(Duration::from_millis(5));
        host.request_shutdown();
        assert_eq!(waiting.join().unwrap(), Ok(Received::Shutdown));
    }

    #[test]
    fn a_crash_record_survives_the_device_and_a_reset_forgets_it() {
        let (host, device) = pair();
        let numbers = CrashRecord { signal: 11, pc: 0x1_0200_1234, offset: 0x34, ..CrashRecord::default() };
        device.record_crash(&numbers, b"cg_main_dsp");
        drop(device);
        assert_eq!(host.state(), DeviceState::Crashed);
        assert_eq!(host.crash(), Some(CrashRecord { symbol: "cg_main_dsp".into(), ..numbers }));
        host.reset();
        assert_eq!((host.crash(), host.state()), (None, DeviceState::Booting));
    }

    #[test]
    fn statistics_and_trace_are_seen_from_outside() {
        let (host, device) = pair();
        let statistics = Statistics { jobs_completed: 3, main_free: 1 << 40, ..Statistics::default() };
        device.publish(&statistics);
        assert_eq!(host.statistics(), statistics);
        device.trace("one");
        let (text, next) = host.read_trace(0);
        assert_eq!((text.as_str(), next), ("one\n", 4));
        device.trace("two");
        assert_eq!(host.read_trace(next), ("two\n".to_owned(), 8));
    }

    #[test]
    fn an_object_of_another_layout_is_refused_with_both_versions() {
        let object = Object::create("other", size_of::<Control>() as u64).unwrap();
        let refused = Port::open(&object, Side::Device).unwrap_err().to_string();
        assert!(refused.contains("must be the same version"), "{refused}");
    }
}
