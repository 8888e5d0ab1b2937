//! The service: receives messages, answers every one of them, and keeps modules and models.
//!
//! Requests, their order of checks and the replies: `docs/reference/c7x-service.md`.

mod infer;
mod unload;

pub use unload::UnloadStep;

use crate::loader::{self, Module};
use crate::models::{self, Constants, ModelError};
use crate::platform::{Incoming, Platform, Statistics, Step};
use crate::pool::{Exhausted, Owner};
use crate::runtime::Runtime;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::RefCell;
use outboard_link::LoadError;
use outboard_wire::{
    ANNOUNCED_NAME, DynLoad, DynLoadReply, DynUnload, Header, KvLayout, MAX_MESSAGE, MapWindow, MessageType, ModelLoad,
    ModelLoadReply, ModelUnload, PingReply, PrintfHeader, SERVICE_ENDPOINT, SetPrintfBuf, Status, StatusReply, Version,
};
use zerocopy::IntoBytes;
use zerocopy::little_endian::U32;

/// How much the service keeps at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Loaded modules.
    pub modules: usize,
    /// Sets of weights: embedded in modules, or loaded apart.
    pub models: usize,
    /// How tensors are kept in the KV region.
    pub kv: KvLayout,
}

impl Default for Limits {
    /// The original firmware has four of each.
    fn default() -> Self {
        Self { modules: 16, models: 32, kv: KvLayout::Fixed }
    }
}

/// The compute service of one session.
#[derive(Debug)]
pub struct Service<P: Platform> {
    platform: P,
    runtime: Rc<RefCell<Runtime>>,
    limits: Limits,
    modules: BTreeMap<u32, Module>,
    /// Constants of the weights embedded in modules, by the module's handle; each takes a model slot.
    embedded: BTreeMap<u32, Constants>,
    /// Constants of weights that were loaded apart, by model id.
    models: BTreeMap<u32, Constants>,
    unload_order: Vec<UnloadStep>,
    next_handle: u32,
    next_model: u32,
    jobs_completed: u32,
    jobs_failed: u32,
}

impl<P: Platform> Service<P> {
    /// A service without modules.
    pub fn new(platform: P, runtime: Runtime, limits: Limits) -> Self {
        Self {
            platform,
            runtime: Rc::new(RefCell::new(runtime)),
            limits,
            modules: BTreeMap::new(),
            embedded: BTreeMap::new(),
            models: BTreeMap::new(),
            unload_order: UnloadStep::ORDER.to_vec(),
            next_handle: 1,
            next_model: 1,
            jobs_completed: 0,
            jobs_failed: 0,
        }
    }

    /// The platform, e.g. to read what a recorder recorded.
    pub fn platform(&self) -> &P {
        &self.platform
    }

    /// The runtime's pools and printf buffer.
    pub fn runtime(&self) -> &Rc<RefCell<Runtime>> {
        &self.runtime
    }

    /// Boots the service, serves until a shutdown is asked for or the peer is gone, and takes everything down again.
    pub fn run(&mut self) {
        for step in [Step::RingsReady, Step::ShutdownCallback, Step::Endpoint] {
            self.platform.step(step);
        }
        self.platform.trace(format_args!("[IPC] Linux is ready"));
        self.platform.trace(format_args!("[COMPUTE] RPMessage endpoint created: {SERVICE_ENDPOINT}"));
        self.publish();
        for step in [Step::Announce, Step::Loader, Step::Models, Step::Printf] {
            self.platform.step(step);
        }
        self.platform.trace(format_args!("[COMPUTE] Announced {ANNOUNCED_NAME} on endpoint {SERVICE_ENDPOINT}"));
        let exports = self.platform.exports(self.platform.machine()).len();
        self.platform.trace(format_args!("[DLOAD] Dynamic loader initialized, {exports} exported symbols"));
        self.platform.trace(format_args!("[COMPUTE] Service initialized successfully"));
        self.platform.step(Step::Loop);
        let asked = self.serve();
        self.platform.step(Step::LoopExit);
        if asked {
            self.platform.step(Step::Acknowledge);
        }
        self.unload_all();
        for step in [Step::EndpointDestroyed, Step::Drivers, Step::InterruptsOff, Step::Idle] {
            self.platform.step(step);
        }
    }

    /// The message loop; whether it ended because a shutdown was asked for.
    fn serve(&mut self) -> bool {
        let mut message = [0; MAX_MESSAGE];
        loop {
            match self.platform.receive(&mut message) {
                Incoming::Message(len) => {
                    self.dispatch(&message[..len.min(MAX_MESSAGE)]);
                    self.publish();
                }
                Incoming::Idle => {
                    let (ok, fail) = (self.jobs_completed, self.jobs_failed);
                    self.platform.trace(format_args!("[COMPUTE] Waiting for messages... (jobs: {ok} ok, {fail} fail)"));
                }
                Incoming::Shutdown => return true,
                Incoming::Lost => return false,
            }
        }
    }

    fn publish(&mut self) {
        self.platform.publish(&Statistics {
            jobs_completed: self.jobs_completed,
            jobs_failed: self.jobs_failed,
            modules: self.modules.len(),
            free: self.runtime.borrow().free_bytes(),
        });
    }

    /// Answers one message.
    pub fn dispatch(&mut self, message: &[u8]) {
        let Ok(header) = Header::parse(message) else {
            // Too short to say what it is or whom to answer; the original stays silent and its host waits for minutes.
            self.platform.trace(format_args!("[COMPUTE] message of {} bytes refused", message.len()));
            return self.refuse(0, 0);
        };
        let (code, seq) = (header.kind.get(), header.seq.get());
        let Some(kind) = MessageType::from_code(code).filter(|kind| message.len() >= kind.min_size()) else {
            self.platform.trace(format_args!("[COMPUTE] message {code:#06x} of {} bytes refused", message.len()));
            return self.refuse(code, seq);
        };
        match kind {
            MessageType::Ping => {
                let reply = PingReply::new(seq, Version::CURRENT, self.platform.uptime_ms());
                self.platform.send(reply.as_bytes());
            }
            MessageType::GetStatus => self.status(seq),
            MessageType::SetPrintfBuf => self.set_printf_buf(seq, message),
            MessageType::DynLoad => self.dyn_load(seq, message),
            MessageType::DynUnload => self.dyn_unload(seq, message),
            MessageType::ModelLoad => self.model_load(seq, message),
            MessageType::ModelUnload => self.model_unload(seq, message),
            MessageType::Infer => self.infer(seq, message),
            MessageType::InferLarge => self.infer_large(seq, message),
        }
    }

    fn refuse(&mut self, code: u32, seq: u32) {
        self.platform.send(Header::refusal(code, seq, Status::Invalid).as_bytes());
    }

    fn answer(&mut self, kind: MessageType, seq: u32, status: Status) {
        self.platform.send(Header::reply(kind, seq, 16, status).as_bytes());
    }

    fn status(&mut self, seq: u32) {
        let reply = StatusReply {
            header: Header::reply(MessageType::GetStatus, seq, 32, Status::Success),
            version: Version::CURRENT.0.into(),
            uptime_ms: self.platform.uptime_ms().into(),
            jobs_completed: self.jobs_completed.into(),
            jobs_failed: self.jobs_failed.into(),
        };
        self.platform.send(reply.as_bytes());
    }

    fn set_printf_buf(&mut self, seq: u32, message: &[u8]) {
        let Ok(request) = SetPrintfBuf::parse(message) else { return self.refuse(0x30, seq) };
        let window = MapWindow { base: request.printf_dsp_addr.get(), size: request.printf_size.get().into() };
        let carveout = self.runtime.borrow().memory.map().carveout;
        let status = if window.size <= PrintfHeader::SIZE.into() {
            Status::Size
        } else if !carveout.contains(window.base, window.size) || !self.runtime.borrow_mut().rebind_printf(window) {
            Status::Addr
        } else {
            Status::Success
        };
        self.answer(MessageType::SetPrintfBuf, seq, status);
    }

    /// Whether a file of this size may be staged now.
    fn check_staged(&mut self, size: u32) -> Result<(), (Status, Option<Exhausted>)> {
        let staging = self.runtime.borrow().memory.map().staging;
        if size == 0 || u64::from(size) > staging.size {
            return Err((Status::Size, None));
        }
        if let Some(module) = self.modules.values().find(|module| module.in_staging()).map(|module| module.handle) {
            self.explain(&format!("[DLOAD] ERROR: module {module} still uses its data in staging; unload it first"));
            return Err((Status::Busy, None));
        }
        Ok(())
    }

    fn dyn_load(&mut self, seq: u32, message: &[u8]) {
        let Ok(request) = DynLoad::parse(message) else { return self.refuse(0x10, seq) };
        let mut reply = DynLoadReply {
            header: Header::reply(MessageType::DynLoad, seq, 68, Status::Success),
            ..DynLoadReply::default()
        };
        match self.load(request.elf_size.get()) {
            Ok(handle) => {
                reply.module_handle = handle.into();
                if let Some(io) = self.modules.get(&handle).and_then(|module| module.io) {
                    reply.io_input_bytes = io.input_bytes;
                    reply.io_output_bytes = io.output_bytes;
                    reply.io_num_inputs = io.num_inputs;
                    reply.io_num_outputs = io.num_outputs;
                    reply.io_flags = io.flags;
                }
            }
            Err((status, exhausted)) => {
                reply.header.status_code = status.code().into();
                if let Some(full) = exhausted {
                    [reply.oom_requested, reply.oom_free, reply.oom_total] = oom_fields(&full);
                }
            }
        }
        self.platform.send(reply.as_bytes());
    }

    /// Says why on the trace and in the printf buffer, which the host can read after a failed load.
    fn explain(&mut self, line: &str) {
        self.platform.trace(format_args!("{line}"));
        let text = format!("{line}\n");
        self.runtime.borrow_mut().print(text.as_bytes(), text.len() as u64);
    }

    fn load(&mut self, size: u32) -> Result<u32, (Status, Option<Exhausted>)> {
        self.check_staged(size)?;
        {
            let mut runtime = self.runtime.borrow_mut();
            runtime.reset_printf();
            runtime.take_exhausted();
        }
        if self.modules.len() >= self.limits.modules {
            let limit = self.limits.modules;
            self.explain(&format!(
                "[DLOAD] ERROR: {limit} modules are loaded, which is all this device holds; unload one"
            ));
            return Err((Status::Load, None));
        }
        let staging = self.runtime.borrow().memory.map().staging.base;
        self.platform.invalidate(staging, size.into());
        let handle = self.next_handle;
        let image = loader::load(&self.runtime, &self.platform, size.into(), handle).map_err(|error| {
            self.explain(&format!("[DLOAD] ERROR: {error}"));
            match error {
                LoadError::OutOfMemory { oom, .. } => {
                    let outboard_link::OutOfMemory { pool, requested, free, total, largest } = oom;
                    (Status::NoMem, Some(Exhausted { pool, requested, free, total, largest }))
                }
                _ => (Status::Load, None),
            }
        })?;
        if image.machine() == self.platform.machine()
            && let Err(reason) = self.platform.seal(&image)
        {
            self.explain(&format!("[DLOAD] ERROR: {reason}"));
            loader::release(&self.runtime, handle, image);
            return Err((Status::Load, None));
        }
        self.next_handle += 1;
        self.platform.trace(format_args!("[DLOAD] Loaded module handle={handle} (text=0 data=0)"));
        for function in image.initialisers() {
            let _active = Runtime::activate(&self.runtime, handle);
            self.platform.call_void(handle, &image, *function);
        }
        let io = loader::io_meta(&self.runtime.borrow(), &image);
        self.modules.insert(handle, Module { handle, image, io });
        self.load_embedded_weights(handle);
        Ok(handle)
    }

    /// Whether every model slot is in use.
    fn slots_taken(&self) -> bool {
        self.models.len() + self.embedded.len() >= self.limits.models
    }

    /// Weights that cannot be used are reported but do not fail the load: the module may run with a model's.
    fn load_embedded_weights(&mut self, handle: u32) {
        let Some(module) = self.modules.get(&handle) else { return };
        let weights = loader::embedded_weights(&self.runtime.borrow(), &module.image);
        let Some((address, size)) = weights else { return };
        if self.slots_taken() {
            return self
                .explain(&format!("ERROR: module {handle}: every model slot is taken; its weights are not used"));
        }
        let built = models::build(&mut self.runtime.borrow_mut(), address, size, Owner::Constants(handle));
        match built {
            Ok(constants) => {
                self.embedded.insert(handle, constants);
            }
            Err(error) => self.explain(&format!("ERROR: module {handle}: embedded {error}")),
        }
    }

    fn dyn_unload(&mut self, seq: u32, message: &[u8]) {
        let Ok(request) = DynUnload::parse(message) else { return self.refuse(0x12, seq) };
        let status = if self.unload(request.module_handle.get()) { Status::Success } else { Status::Handle };
        self.answer(MessageType::DynUnload, seq, status);
    }

    /// Drops what the last inference of a module left: registers first, then its memory.
    fn reclaim(&mut self, handle: u32) {
        Runtime::drop_registers(&self.runtime, handle);
        let mut runtime = self.runtime.borrow_mut();
        runtime.release_owner(Owner::Run(handle));
        runtime.release_owner(Owner::Call(handle));
    }

    fn model_load(&mut self, seq: u32, message: &[u8]) {
        let Ok(request) = ModelLoad::parse(message) else { return self.refuse(0x20, seq) };
        let mut reply = ModelLoadReply {
            header: Header::reply(MessageType::ModelLoad, seq, 36, Status::Success),
            ..ModelLoadReply::default()
        };
        match self.load_model(request.weights_size.get()) {
            Ok((id, constants)) => {
                reply.model_id = id.into();
                reply.num_constants = u32::try_from(constants.count).unwrap_or(u32::MAX).into();
            }
            Err((status, exhausted)) => {
                reply.header.status_code = status.code().into();
                if let Some(full) = exhausted {
                    [reply.oom_requested, reply.oom_free, reply.oom_total] = oom_fields(&full);
                }
            }
        }
        self.platform.send(reply.as_bytes());
    }

    /// Copies staged weights into MAIN, so that the next staged file does not overwrite them, and builds their constants.
    fn load_model(&mut self, size: u32) -> Result<(u32, Constants), (Status, Option<Exhausted>)> {
        self.check_staged(size)?;
        if self.slots_taken() {
            let limit = self.limits.models;
            self.explain(&format!("ERROR: {limit} models are loaded, which is all this device holds; unload one"));
            return Err((Status::Weights, None));
        }
        let id = self.next_model;
        let owner = Owner::Model(id);
        let staging = self.runtime.borrow().memory.map().staging.base;
        self.platform.invalidate(staging, size.into());
        let built = {
            let mut runtime = self.runtime.borrow_mut();
            runtime.reset_printf();
            runtime.take_exhausted();
            let copy = runtime.allocate_unfilled(crate::pool::PoolId::Main, size.into(), 64, owner);
            copy.filter(|copy| runtime.memory.copy(*copy, staging, size.into()))
                .ok_or(ModelError::OutOfMemory)
                .and_then(|copy| models::build(&mut runtime, copy, size.into(), owner))
        };
        match built {
            Ok(constants) => {
                self.next_model += 1;
                self.models.insert(id, constants);
                Ok((id, constants))
            }
            Err(error) => {
                self.explain(&format!("ERROR: {error}"));
                let mut runtime = self.runtime.borrow_mut();
                runtime.release_owner(owner);
                let exhausted = runtime.take_exhausted();
                Err((if exhausted.is_some() { Status::NoMem } else { Status::Weights }, exhausted))
            }
        }
    }

    fn model_unload(&mut self, seq: u32, message: &[u8]) {
        let Ok(request) = ModelUnload::parse(message) else { return self.refuse(0x22, seq) };
        let id = request.model_id.get();
        let status = match self.models.remove(&id) {
            Some(_) => {
                self.runtime.borrow_mut().release_owner(Owner::Model(id));
                Status::Success
            }
            None => Status::Handle,
        };
        self.answer(MessageType::ModelUnload, seq, status);
    }
}

/// What a reply says of exhausted memory: requested, free and total bytes, each cut to its 32-bit field.
fn oom_fields(full: &Exhausted) -> [U32; 3] {
    [full.requested, full.free, full.total].map(|bytes| u32::try_from(bytes).unwrap_or(u32::MAX).into())
}
