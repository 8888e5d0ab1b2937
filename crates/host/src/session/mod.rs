//! A session: the device's life, the handshake, loading and unloading.

mod exchange;
mod exports;
mod inputs;
mod models;
mod outputs;
mod raw;
mod run;
mod slot;
#[cfg(test)]
mod tests;

pub use inputs::{Input, InputBuffer};
pub use models::Model;
pub use outputs::Outputs;
pub(crate) use raw::RawCall;
pub use raw::{RawData, RawTensor};

use crate::arena::Room;
use crate::buffer::Host;
use crate::{DeviceLost, Error, IoSizes, Loss, Manifest, Module, ModuleText, SessionOptions, Transport, Wait};
use exchange::{Link, NoReply, Reply};
use inputs::StagedInputs;
use outboard_shm::monotonic_ns;
use outboard_wire::{
    DynLoad, DynLoadReply, DynUnload, Header, KvLayout, MAX_MESSAGE, MessageType, PrintfHeader, SetPrintfBuf,
    SharedMap, Status, StatusReply, Version,
};
use slot::Slot;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use zerocopy::IntoBytes;

/// Numbers every start of every device of this process, so that handles cannot be mistaken for one another.
static EPOCHS: AtomicU64 = AtomicU64::new(1);

fn next_epoch() -> u64 {
    EPOCHS.fetch_add(1, Ordering::Relaxed)
}

/// Answer to PING.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pong {
    /// Protocol version of the device.
    pub version: Version,
    /// Time since its service started.
    pub uptime: Duration,
    /// Time from sending the request to receiving the answer.
    pub round_trip: Duration,
}

/// Where the time of a message and its reply goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hops {
    /// From the host's call until the device took the message from its ring.
    pub to_device: Duration,
    /// In the device: until the reply was in the host's ring.
    pub in_device: Duration,
    /// Until the host had the reply.
    pub to_host: Duration,
}

/// Answer to GET_STATUS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceStatus {
    /// Protocol version of the device.
    pub version: Version,
    /// Time since its service started.
    pub uptime: Duration,
    /// Inferences that succeeded.
    pub jobs_completed: u32,
    /// Inferences whose module failed.
    pub jobs_failed: u32,
}

/// Tensor bytes that a session has moved by copying them. What lies in the shared windows already moves nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Traffic {
    /// Bytes of inputs, copied into the input window.
    pub to_device: u64,
    /// Bytes of outputs, copied out of the output window ([`Outputs::to_tensor`]).
    pub to_host: u64,
}

/// Counts [`Traffic`].
#[derive(Debug, Default)]
struct Meter {
    to_device: AtomicU64,
    to_host: AtomicU64,
}

/// Buffers of a session, in the order of their allocation. Between requests all but the printf buffer are the host's.
#[derive(Debug)]
struct Buffers {
    staging: Slot,
    printf: Slot,
    input: Slot,
    output: Slot,
}

impl Buffers {
    /// Staging first: first-fit placement then puts it, and the KV region in it, where the protocol wants them.
    fn allocate(transport: &mut dyn Transport) -> Result<Self, Error> {
        let staging = transport.allocate(SharedMap::STAGING.size + SharedMap::KV.size)?;
        let (expected, got) = (SharedMap::STAGING.base, staging.window().base);
        if got != expected {
            return Err(Error::Placement { expected, got });
        }
        let printf = transport.allocate(PrintfHeader::DEFAULT_BUFFER.into())?;
        Ok(Self { staging: staging.into(), printf: printf.into(), input: Slot::Empty, output: Slot::Empty })
    }
}

/// A module the device holds, for reports.
#[derive(Debug)]
struct Loaded {
    handle: u32,
    name: String,
}

/// A session with one device.
pub struct Session {
    link: Link,
    options: SessionOptions,
    /// Which start of the device this is; `None` while it is down.
    epoch: Option<u64>,
    version: Version,
    buffers: Buffers,
    staged: StagedInputs,
    /// The caller chose the output window's size: it is not enlarged unasked.
    output_chosen: bool,
    loaded: Vec<Loaded>,
    text: ModuleText,
    meter: Meter,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("device", &self.device()).field("epoch", &self.epoch).finish_non_exhaustive()
    }
}

impl Session {
    /// Starts the device, shakes hands and makes the buffers of the session.
    ///
    /// # Errors
    /// The device cannot be started or does not answer, speaks another major version, or has no room for staging.
    pub fn open(transport: impl Transport + 'static, options: SessionOptions) -> Result<Self, Error> {
        let mut link = Link::new(Box::new(transport));
        let version = link.start(options.deadlines.boot, options.deadlines.request)?;
        let buffers = Buffers::allocate(&mut *link.transport)?;
        let mut session = Self {
            link,
            options,
            epoch: Some(next_epoch()),
            version,
            buffers,
            staged: StagedInputs::default(),
            output_chosen: false,
            loaded: Vec::new(),
            text: ModuleText::default(),
            meter: Meter::default(),
        };
        session.bind_printf()?;
        Ok(session)
    }

    /// How results name the device, e.g. `sim`.
    pub fn device(&self) -> &str {
        self.link.transport.device()
    }

    /// Process id of the device, when it is a process of this machine and runs.
    pub fn device_process(&self) -> Option<u32> {
        self.link.transport.process()
    }

    /// Whether modules stay loaded when the session ends, as on the board.
    pub fn keeps_modules(&self) -> bool {
        self.link.transport.keeps_modules()
    }

    /// How tensors lie in the device's KV region.
    pub fn kv_layout(&self) -> KvLayout {
        self.link.transport.kv_layout()
    }

    /// A module that an earlier session loaded and left: `handle` is what the device calls it. Nothing else is known about it, so
    /// its calls are checked by the device only.
    pub fn attach(&self, handle: u32) -> Module {
        Module {
            handle,
            epoch: self.epoch.unwrap_or(0),
            name: format!("module {handle}"),
            io: None,
            manifest: None,
            warnings: Vec::new(),
            path: None,
        }
    }

    /// Protocol version of the device.
    pub fn version(&self) -> Version {
        self.version
    }

    /// What the module of the last load or run printed, also when it failed or the device was lost.
    pub fn module_text(&self) -> &ModuleText {
        &self.text
    }

    /// Tensor bytes copied since the session began.
    pub fn traffic(&self) -> Traffic {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Traffic { to_device: count(&self.meter.to_device), to_host: count(&self.meter.to_host) }
    }

    /// How full the shared carveout is.
    pub fn room(&self) -> Room {
        self.link.transport.room()
    }

    /// Starts the device if it is down: after a loss or a deadline.
    fn ensure_running(&mut self) -> Result<(), Error> {
        if self.epoch.is_some() {
            return Ok(());
        }
        self.version = self.link.start(self.options.deadlines.boot, self.options.deadlines.request)?;
        self.epoch = Some(next_epoch());
        self.bind_printf()
    }

    /// Names the buffer that modules print into: mandatory before any load.
    fn bind_printf(&mut self) -> Result<(), Error> {
        self.forget_text()?;
        let printf = self.buffers.printf.hand_over(&mut *self.link.transport)?;
        let window = printf.map(crate::Buffer::window).unwrap_or_default();
        let size = u32::try_from(window.size).unwrap_or(u32::MAX);
        let request = SetPrintfBuf::new(self.link.next_seq(), window.base, size);
        let bound = self.request(MessageType::SetPrintfBuf, request.as_bytes(), self.options.deadlines.request, None);
        bound.and_then(|reply| reply.success()).inspect_err(|_| {
            // A device without it would print into nowhere: the next call starts afresh.
            self.link.transport.kill();
            self.epoch = None;
        })
    }

    /// Sends a request that carries the last sequence number and waits for its reply. `about` names the module for reports.
    fn request(
        &mut self,
        kind: MessageType,
        message: &[u8],
        limit: Duration,
        about: Option<&str>,
    ) -> Result<Reply, Error> {
        let reply = self.link.request(kind, message, limit);
        reply.map_err(|none| self.no_reply(none, kind.name(), limit, about))
    }

    /// What follows when a request has no reply.
    fn no_reply(&mut self, none: NoReply, during: &'static str, limit: Duration, about: Option<&str>) -> Error {
        match none {
            NoReply::Failed(error) => error,
            NoReply::Lost(loss) => self.down(*loss, during, about),
            NoReply::TimedOut => self.give_up(during, limit, about),
        }
    }

    /// Sends bytes as they are and returns the bytes of the next message: for diagnostics and tests.
    ///
    /// # Errors
    /// More than 512 bytes (nothing is sent), no answer, or the device is lost.
    pub fn exchange_raw(&mut self, message: &[u8]) -> Result<Vec<u8>, Error> {
        if message.len() > MAX_MESSAGE {
            return Err(Error::MessageTooLong { len: message.len() });
        }
        self.ensure_running()?;
        self.link.transport.send(message)?;
        let (what, limit) = ("a raw message", self.options.deadlines.request);
        let reply = self.link.receive(&Wait::start(what, limit));
        reply.map(|reply| reply.bytes().to_vec()).map_err(|none| self.no_reply(none, what, limit, None))
    }

    /// Asks the device for its version and uptime.
    ///
    /// # Errors
    /// No answer.
    pub fn ping(&mut self) -> Result<Pong, Error> {
        self.ensure_running()?;
        let limit = self.options.deadlines.request;
        let pong = self.link.ping(limit);
        let (reply, round_trip) = pong.map_err(|none| self.no_reply(none, "PING", limit, None))?;
        let uptime = Duration::from_millis(reply.uptime_ms.get().into());
        Ok(Pong { version: reply.version(), uptime, round_trip })
    }

    /// Where the time of a PING goes. `None` when the device does not publish when it received and replied.
    ///
    /// # Errors
    /// No answer.
    pub fn ping_hops(&mut self) -> Result<Option<Hops>, Error> {
        self.ensure_running()?;
        let before = monotonic_ns();
        self.ping()?;
        let after = monotonic_ns();
        // The device publishes after it has replied, so the numbers of this exchange may lie a moment ahead.
        let until = Instant::now() + Duration::from_millis(50);
        loop {
            let Some(known) = self.link.transport.statistics() else { return Ok(None) };
            if known.received_at >= before && known.replied_at >= known.received_at && known.replied_at <= after {
                return Ok(Some(Hops {
                    to_device: Duration::from_nanos(known.received_at - before),
                    in_device: Duration::from_nanos(known.replied_at - known.received_at),
                    to_host: Duration::from_nanos(after - known.replied_at),
                }));
            }
            if Instant::now() >= until {
                return Ok(None);
            }
            std::thread::yield_now();
        }
    }

    /// Asks the device for its job counters.
    ///
    /// # Errors
    /// No answer.
    pub fn status(&mut self) -> Result<DeviceStatus, Error> {
        self.ensure_running()?;
        let request = Header::request(MessageType::GetStatus, self.link.next_seq(), 16);
        let limit = self.options.deadlines.request;
        let reply: StatusReply =
            self.request(MessageType::GetStatus, request.as_bytes(), limit, None)?.parse(StatusReply::parse)?;
        Ok(DeviceStatus {
            version: Version(reply.version.get()),
            uptime: Duration::from_millis(reply.uptime_ms.get().into()),
            jobs_completed: reply.jobs_completed.get(),
            jobs_failed: reply.jobs_failed.get(),
        })
    }

    /// Loads a module from a file; it is named after the file.
    ///
    /// # Errors
    /// As [`Session::load`], or the file cannot be read.
    pub fn load_file(&mut self, path: &Path) -> Result<Module, Error> {
        let unreadable = |source| Error::ReadFile { path: path.to_owned(), source };
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        // A file that cannot fit is not read first.
        let size = std::fs::metadata(path).map_err(unreadable)?.len();
        check_file_size(&name, size)?;
        let mut module = self.load(&std::fs::read(path).map_err(unreadable)?, &name)?;
        module.path = Some(path.to_owned());
        Ok(module)
    }

    /// Loads a module again that the device lost with a crash or restart, from the file it came from.
    ///
    /// # Errors
    /// As [`Session::load_file`], or the module did not come from a file.
    pub fn restore(&mut self, module: Module) -> Result<Module, Error> {
        match &module.path {
            Some(path) => self.load_file(path),
            None => Err(Error::StaleModule { module: module.name }),
        }
    }

    /// Loads a module from the bytes of its file.
    ///
    /// The file is copied to staging, the device loads it, and the input and output windows grow to what the module declares. A
    /// declaration that cannot be met is a warning of the module, not an error: it is an upper bound.
    ///
    /// # Errors
    /// The file is empty or larger than staging, the device's loader refuses it (with the loader's reason), the device has no room,
    /// or it is lost.
    pub fn load(&mut self, file: &[u8], name: &str) -> Result<Module, Error> {
        check_file_size(name, file.len() as u64)?;
        let manifest = read_manifest(file, name)?;
        self.ensure_running()?;
        self.stage(file)?;

        let request = DynLoad::new(self.link.next_seq(), u32::try_from(file.len()).unwrap_or(u32::MAX));
        let limit = self.options.deadlines.load;
        let reply = self.request(MessageType::DynLoad, request.as_bytes(), limit, Some(name))?;
        self.capture_text(None)?;
        let reply = self.load_reply(reply, name)?;

        let handle = reply.module_handle.get();
        self.loaded.push(Loaded { handle, name: name.to_owned() });
        let mut module = Module {
            handle,
            epoch: self.epoch.unwrap_or(0),
            name: name.to_owned(),
            io: io_sizes(&reply),
            manifest,
            warnings: Vec::new(),
            path: None,
        };
        self.reserve_declared(&mut module);
        tracing::debug!(module = name, handle, "loaded");
        Ok(module)
    }

    /// Puts a file into staging for the next request, and forgets what was printed before.
    fn stage(&mut self, file: &[u8]) -> Result<(), Error> {
        if let Some(staging) = self.buffers.staging.writable() {
            staging.write(0, file)?;
        }
        self.buffers.staging.hand_over(&mut *self.link.transport)?;
        self.forget_text()
    }

    fn load_reply(&mut self, reply: Reply, name: &str) -> Result<DynLoadReply, Error> {
        match reply.status() {
            Some(Status::Success) => reply.parse(DynLoadReply::parse),
            Some(Status::NoMem) => {
                let oom = reply.parse(DynLoadReply::parse)?;
                Err(device_oom(oom.oom_requested.get(), oom.oom_free.get(), oom.oom_total.get()))
            }
            Some(Status::Load) => {
                let text = self.text.text();
                let detail = text.strip_prefix("[DLOAD] ERROR: ").unwrap_or(&text).to_owned();
                Err(Error::LoadFailed { module: name.to_owned(), detail })
            }
            _ => Err(reply.refusal(self.text.text().into_owned())),
        }
    }

    /// Reserves what a module declares; what cannot be reserved is a warning.
    fn reserve_declared(&mut self, module: &mut Module) {
        let Some(io) = module.io else { return };
        for (what, reserved) in
            [("input", self.grow_input(io.input_bytes)), ("output", self.grow_output(io.output_bytes))]
        {
            if let Err(error) = reserved {
                let warning = format!("the {what} window the module declares could not be reserved: {error}");
                tracing::warn!(module = module.name, "{warning}");
                module.warnings.push(warning);
                // Without the input window the declaration of the output window says nothing about calls.
                break;
            }
        }
    }

    /// Makes the input and output windows at least this large. They never shrink.
    ///
    /// # Errors
    /// The carveout has no room, or the input window would have to move while buffers in it are in use. A window that cannot
    /// grow stays as it was.
    pub fn reserve_io(&mut self, input_bytes: u64, output_bytes: u64) -> Result<(), Error> {
        self.ensure_running()?;
        self.grow_input(input_bytes)?;
        self.grow_output(output_bytes)?;
        self.output_chosen |= output_bytes > 0;
        Ok(())
    }

    /// Takes a module out of the device.
    ///
    /// # Errors
    /// The handle is stale, or the device refuses. The handle is used up either way.
    pub fn unload(&mut self, module: Module) -> Result<(), Error> {
        self.check_epoch(&module)?;
        let request = DynUnload::new(self.link.next_seq(), module.handle);
        let limit = self.options.deadlines.request;
        let reply = self.request(MessageType::DynUnload, request.as_bytes(), limit, Some(&module.name))?;
        reply.success()?;
        self.loaded.retain(|loaded| loaded.handle != module.handle);
        Ok(())
    }

    fn check_epoch(&self, module: &Module) -> Result<(), Error> {
        if self.epoch == Some(module.epoch) { Ok(()) } else { Err(Error::StaleModule { module: module.name.clone() }) }
    }

    /// Shuts the device down and ends the session.
    ///
    /// # Errors
    /// The device did not acknowledge the shutdown in time; it is ended all the same.
    pub fn close(mut self) -> Result<(), Error> {
        self.stop(self.options.deadlines.shutdown)
    }

    fn stop(&mut self, limit: Duration) -> Result<(), Error> {
        if self.epoch.take().is_none() {
            return Ok(());
        }
        self.link.transport.stop(&Wait::start("the device to acknowledge the shutdown", limit))
    }

    /// The device is gone or given up: everything that referred to it is stale. Returns the error to report.
    fn down(&mut self, loss: Loss, during: &'static str, about: Option<&str>) -> Error {
        // What a module printed before it crashed explains the crash.
        let _ = self.capture_text(None);
        let loaded = std::mem::take(&mut self.loaded);
        self.epoch = None;
        let mut lost = DeviceLost::new(loss, during, |handle| {
            loaded.iter().find(|module| module.handle == handle).map(|module| module.name.clone())
        });
        if lost.module.is_none() {
            lost.module = about.map(str::to_owned);
        }
        tracing::debug!("{lost}");
        Box::new(lost).into()
    }

    /// A deadline passed: the device is ended, because nobody knows what it still does.
    fn give_up(&mut self, during: &'static str, after: Duration, about: Option<&str>) -> Error {
        let _ = self.capture_text(None);
        self.link.transport.kill();
        self.loaded.clear();
        self.epoch = None;
        let module = about.map(|name| format!(" of module `{name}`")).unwrap_or_default();
        Error::Timeout { awaited: format!("the answer to {during}{module}"), after }
    }

    fn forget_text(&mut self) -> Result<(), Error> {
        self.text = ModuleText::default();
        self.with_printf(ModuleText::forget)
    }

    /// Reads what a module printed and empties the buffer. `len` is what the device announced.
    fn capture_text(&mut self, len: Option<u32>) -> Result<(), Error> {
        self.text = ModuleText::default();
        if len == Some(0) {
            return Ok(());
        }
        self.text = self.with_printf(|printf| {
            let text = ModuleText::capture(printf, len)?;
            ModuleText::forget(printf)?;
            Ok(text)
        })?;
        Ok(())
    }

    /// Takes the printf buffer back for a moment.
    fn with_printf<T: Default>(
        &mut self,
        look: impl FnOnce(&mut crate::Buffer<Host>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let printf = &mut self.buffers.printf;
        printf.take_back(&mut *self.link.transport)?;
        let looked = printf.writable().map_or(Ok(T::default()), look);
        printf.hand_over(&mut *self.link.transport)?;
        looked
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // A device that does not listen is ended; there is nobody left to tell.
        let _ = self.stop(self.options.deadlines.shutdown.min(Duration::from_secs(1)));
    }
}

fn check_file_size(module: &str, size: u64) -> Result<(), Error> {
    let max = SharedMap::STAGING.size;
    if (1..=max).contains(&size) { Ok(()) } else { Err(Error::FileSize { module: module.to_owned(), size, max }) }
}

/// The manifest of a module file. A file that is no ELF file is left for the device's loader to judge.
fn read_manifest(file: &[u8], name: &str) -> Result<Option<Manifest>, Error> {
    let Ok(elf) = outboard_elf::Elf::parse(file) else { return Ok(None) };
    let text = outboard_link::manifest(&elf);
    text.map(Manifest::parse).transpose().map_err(|reason| Error::BadManifest { module: name.to_owned(), reason })
}

fn io_sizes(reply: &DynLoadReply) -> Option<IoSizes> {
    let io = IoSizes {
        input_bytes: reply.io_input_bytes.get(),
        output_bytes: reply.io_output_bytes.get(),
        num_inputs: reply.io_num_inputs.get(),
        num_outputs: reply.io_num_outputs.get(),
        exact: reply.io_flags.get() & outboard_wire::IoMeta::EXACT != 0,
    };
    // All zero is how a device says that the module declares nothing.
    (io.input_bytes != 0 || io.output_bytes != 0 || io.num_inputs != 0 || io.num_outputs != 0).then_some(io)
}

fn device_oom(requested: u32, free: u32, total: u32) -> Error {
    Error::OutOfMemory {
        pool: "device's MAIN pool",
        requested: requested.into(),
        free: free.into(),
        total: total.into(),
        largest: None,
    }
}
