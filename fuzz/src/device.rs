//! Targets of the C7x device: weights files, I/O metadata, and whole sequences of messages from a hostile peer.

use crate::signature::Signature;
use outboard_c7x::{Entry, Incoming, Limits, Memory, MemoryMap, Platform, Runtime, Service, Step, weights};
use outboard_link::{ExportTable, LoadedModule, Machine};
use outboard_shm::Mapping;
use outboard_wire::{IoMeta, IoMetaError, MAX_MESSAGE, MessageType, SharedMap};
use std::sync::{LazyLock, Mutex, PoisonError};

/// Target `weights`: the strict reader of weights files.
#[must_use]
pub fn weights(data: &[u8]) -> u64 {
    let mut signature = Signature::default();
    match weights::parse(data) {
        Ok(constants) => signature.count(constants.len()),
        Err(error) => {
            signature.word("error");
            signature.count(usize::try_from(error.code().unsigned_abs()).unwrap_or(0));
        }
    }
    signature.value()
}

/// Target `io_meta`: the reader of a module's declaration.
#[must_use]
pub fn io_meta(data: &[u8]) -> u64 {
    let mut signature = Signature::default();
    match IoMeta::parse(data) {
        Ok(meta) => signature.word(if meta.is_exact() { "exact" } else { "bound" }),
        Err(IoMetaError::Truncated(_)) => signature.word("truncated"),
        Err(IoMetaError::BadMagic(_)) => signature.word("magic"),
        Err(IoMetaError::BadVersion(_)) => signature.word("version"),
    }
    signature.value()
}

/// The board's memory, mapped once.
static REGIONS: LazyLock<Vec<Mapping>> = LazyLock::new(|| {
    let regions = MemoryMap::AM67A.mapped().into_iter().filter(|(name, _)| *name != "L1");
    let regions = regions.map(|(name, region)| {
        let size = if name == "L2 aux" { SharedMap::L1.end() - region.base } else { region.size };
        Mapping::private_at(region.base, size)
    });
    regions.collect::<Result<_, _>>().unwrap_or_default()
});
/// One device at a time: all use the same addresses.
static ONE: Mutex<()> = Mutex::new(());

/// A platform on which modules load and never run: their instruction set is never that of the device.
struct Inert {
    exports: ExportTable,
    replies: Vec<Vec<u8>>,
}

impl Platform for Inert {
    fn receive(&mut self, _: &mut [u8; MAX_MESSAGE]) -> Incoming {
        Incoming::Lost
    }
    fn send(&mut self, reply: &[u8]) {
        assert!((16..=MAX_MESSAGE).contains(&reply.len()), "a reply of {} bytes", reply.len());
        self.replies.push(reply.to_vec());
    }
    fn step(&mut self, _: Step) {}
    fn cycles(&self) -> u64 {
        0
    }
    fn uptime_ms(&self) -> u32 {
        0
    }
    fn trace(&mut self, _: std::fmt::Arguments<'_>) {}
    fn exports(&self, _: Machine) -> &ExportTable {
        &self.exports
    }
    fn machine(&self) -> Machine {
        Machine::Xtensa
    }
    fn machines(&self) -> &[Machine] {
        &[Machine::C7x, Machine::X86_64, Machine::AArch64]
    }
    fn has_cpu_feature(&self, _: &str) -> bool {
        true
    }
    fn seal(&mut self, _: &LoadedModule) -> Result<(), String> {
        Ok(())
    }
    fn unseal(&mut self, _: &LoadedModule) {}
    fn call(&mut self, _: u32, _: &LoadedModule, _: &Entry) -> i32 {
        unreachable!("no module has this device's instruction set")
    }
    fn call_void(&mut self, _: u32, _: &LoadedModule, _: u64) {
        unreachable!("no module has this device's instruction set")
    }
}

/// Target `service`: the input is a sequence of messages. A byte gives a message's length, its bytes follow; length 255 is
/// followed by two bytes that say how much of the rest is staged first.
///
/// # Panics
/// When the service breaks a promise: no reply, a reply of an impossible size, memory that does not come back.
#[must_use]
pub fn service(data: &[u8]) -> u64 {
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    assert!(!REGIONS.is_empty(), "the board's addresses are free in a fuzzing process");
    // SAFETY: the regions were mapped just now and stay mapped for the life of the process; the lock makes this the only
    // memory over them.
    let memory = unsafe { Memory::new(MemoryMap::AM67A) };
    let Some(runtime) = Runtime::new(memory) else { return 0 };
    let free = runtime.free_bytes();
    let platform = Inert { exports: ExportTable::from_iter([("memcpy", 0xAD60_4000u64)]), replies: Vec::new() };
    let mut service = Service::new(platform, runtime, Limits::default());
    let mut signature = Signature::default();
    let mut rest = data;
    while let Some((length, after)) = rest.split_first() {
        rest = after;
        if *length == u8::MAX {
            rest = stage(&mut service, rest);
            continue;
        }
        let (message, after) = rest.split_at(usize::from(*length).min(rest.len()));
        rest = after;
        let before = service.platform().replies.len();
        service.dispatch(message);
        let replies = &service.platform().replies;
        assert_eq!(replies.len(), before + 1, "every message has one reply");
        describe(message, &replies[before], &mut signature);
    }
    service.run();
    assert_eq!(service.runtime().borrow().free_bytes(), free, "everything comes back");
    signature.value()
}

fn stage<'a>(service: &mut Service<Inert>, rest: &'a [u8]) -> &'a [u8] {
    let Some((size, after)) = rest.split_first_chunk::<2>() else { return &[] };
    let (file, after) = after.split_at(usize::from(u16::from_le_bytes(*size)).min(after.len()));
    let mut runtime = service.runtime().borrow_mut();
    if let Some(staging) = runtime.memory.bytes_mut(SharedMap::STAGING.base, file.len() as u64) {
        staging.copy_from_slice(file);
    }
    after
}

fn describe(message: &[u8], reply: &[u8], signature: &mut Signature) {
    let code = message.first_chunk::<4>().map_or(0, |code| u32::from_le_bytes(*code));
    signature.word(MessageType::from_code(code).map_or("?", MessageType::name));
    let status = reply.get(12..16).and_then(|status| status.try_into().ok()).map_or(1, i32::from_le_bytes);
    signature.count(1usize << status.unsigned_abs().min(20));
}
