//! An in-process device for tests: the board's memory mapped into the test process, modules built by the C compiler.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use outboard_c7x::sim::{board_export_table, export_table};
use outboard_c7x::{Entry, Incoming, Limits, Memory, MemoryMap, Platform, Runtime, Service, Step};
use outboard_link::{ExportTable, LoadedModule, Machine};
use outboard_shm::{Mapping, Protection};
use outboard_wire::{
    DynLoad, DynLoadReply, Infer, InferFlags, InferReply, InferReplyHeader, MAX_MESSAGE, MapWindow, SharedMap,
    TensorDesc,
};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use zerocopy::IntoBytes;

/// Regions of the map, mapped once for the whole test process.
static REGIONS: LazyLock<Vec<Mapping>> = LazyLock::new(|| {
    MemoryMap::AM67A
        .mapped()
        .into_iter()
        .filter(|(name, _)| *name != "L1")
        .map(|(name, region)| {
            let size = if name == "L2 aux" { SharedMap::L1.end() - region.base } else { region.size };
            Mapping::private_at(region.base, size).expect("the board's addresses are free in a test process")
        })
        .collect()
});
/// One device at a time: they all use the same addresses.
static ONE: Mutex<()> = Mutex::new(());

const HOST: Machine = match Machine::host() {
    Some(machine) => machine,
    None => panic!("tests run on x86-64 or AArch64"),
};

/// A platform that calls native code and keeps every reply.
pub struct Recorder {
    exports: ExportTable,
    board_exports: ExportTable,
    pub replies: Vec<Vec<u8>>,
    pub trace: Vec<String>,
    clock: std::time::Instant,
}

impl Recorder {
    fn protect(&self, module: &LoadedModule<'static>, sealed: bool) {
        for segment in module.segments() {
            let start = segment.base & !0xFFF;
            let len = usize::try_from((segment.base + segment.memsz).next_multiple_of(0x1000) - start).unwrap();
            let region = REGIONS
                .iter()
                .find(|region| outboard_wire::in_range(start, len as u64, region.address(), region.len() as u64));
            let region = region.expect("a module lies in one region");
            let protection = if sealed {
                Protection { read: segment.perms.r, write: segment.perms.w, execute: segment.perms.x }
            } else {
                Protection::READ_WRITE
            };
            let offset = usize::try_from(start - region.address()).unwrap();
            // SAFETY: the pages hold a module image; no Rust borrow of them is alive and its code is not running.
            unsafe { region.protect(offset, len, protection) }.unwrap();
        }
    }
}

impl Platform for Recorder {
    fn receive(&mut self, _: &mut [u8; MAX_MESSAGE]) -> Incoming {
        Incoming::Shutdown
    }
    fn send(&mut self, reply: &[u8]) {
        self.replies.push(reply.to_vec());
    }
    fn step(&mut self, step: Step) {
        self.trace.push(format!("{step:?}"));
    }
    fn cycles(&self) -> u64 {
        u64::try_from(self.clock.elapsed().as_nanos()).unwrap()
    }
    fn uptime_ms(&self) -> u32 {
        5000
    }
    fn trace(&mut self, line: std::fmt::Arguments<'_>) {
        self.trace.push(line.to_string());
    }
    fn exports(&self, machine: Machine) -> &ExportTable {
        if machine == Machine::C7x { &self.board_exports } else { &self.exports }
    }
    fn machines(&self) -> &[Machine] {
        &[HOST, Machine::C7x]
    }
    fn machine(&self) -> Machine {
        HOST
    }
    fn has_cpu_feature(&self, name: &str) -> bool {
        name != "quantum"
    }
    fn seal(&mut self, module: &LoadedModule<'static>) -> Result<(), String> {
        self.protect(module, true);
        Ok(())
    }
    fn unseal(&mut self, module: &LoadedModule<'static>) {
        self.protect(module, false);
    }
    fn call(&mut self, _: u32, _: &LoadedModule<'static>, entry: &Entry) -> i32 {
        let function = std::ptr::with_exposed_provenance::<()>(usize::try_from(entry.function).unwrap());
        // SAFETY: the entry of a loaded, executable test module.
        let function: unsafe extern "C" fn(u64, i32, u64, u64) -> i32 = unsafe { std::mem::transmute(function) };
        // SAFETY: arguments are device addresses, which are mapped in this process.
        unsafe { function(entry.inputs, entry.num_inputs, entry.constants, entry.output) }
    }
    fn call_void(&mut self, _: u32, _: &LoadedModule<'static>, function: u64) {
        let function = std::ptr::with_exposed_provenance::<()>(usize::try_from(function).unwrap());
        // SAFETY: a function of a loaded, executable test module.
        let function: unsafe extern "C" fn() = unsafe { std::mem::transmute(function) };
        // SAFETY: as above.
        unsafe { function() }
    }
}

/// A service over in-process memory, and the only one at the moment.
pub struct Device {
    pub service: Service<Recorder>,
    _one: MutexGuard<'static, ()>,
}

/// Input window of requests made here: 64 KiB behind the printf buffer.
pub const INPUT: MapWindow = MapWindow { base: 0xDE01_0000, size: 0x1_0000 };
/// Output window of requests made here.
pub const RESULT: MapWindow = MapWindow { base: 0xDE02_0000, size: 0x1_0000 };

impl Device {
    pub fn new() -> Self {
        Self::with_limits(Limits::default())
    }

    pub fn with_limits(limits: Limits) -> Self {
        let one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        LazyLock::force(&REGIONS);
        // SAFETY: the regions were mapped just now and stay mapped for the life of the process; the lock makes this the only
        // memory over them.
        let memory = unsafe { Memory::new(MemoryMap::AM67A) };
        let runtime = Runtime::new(memory).expect("the map has a printf buffer");
        let recorder = Recorder {
            exports: export_table(),
            board_exports: board_export_table(),
            replies: Vec::new(),
            trace: Vec::new(),
            clock: std::time::Instant::now(),
        };
        Self { service: Service::new(recorder, runtime, limits), _one: one }
    }

    /// Sends a message and returns the one reply to it.
    pub fn ask(&mut self, message: &[u8]) -> Vec<u8> {
        let before = self.service.platform().replies.len();
        self.service.dispatch(message);
        let replies = &self.service.platform().replies;
        assert_eq!(replies.len(), before + 1, "every message has one reply");
        replies[before].clone()
    }

    /// Status of the reply to a message.
    pub fn status_of(&mut self, message: &[u8]) -> i32 {
        outboard_wire::Header::parse(&self.ask(message)).unwrap().status_code.get()
    }

    pub fn write(&mut self, address: u64, bytes: &[u8]) {
        let mut runtime = self.service.runtime().borrow_mut();
        runtime.memory.bytes_mut(address, bytes.len() as u64).unwrap().copy_from_slice(bytes);
    }

    pub fn read(&self, address: u64, len: u64) -> Vec<u8> {
        self.service.runtime().borrow().memory.bytes(address, len).unwrap().to_vec()
    }

    /// Stages a file and loads it.
    pub fn load(&mut self, file: &[u8]) -> DynLoadReply {
        self.write(SharedMap::STAGING.base, file);
        DynLoadReply::parse(&self.ask(DynLoad::new(7, u32::try_from(file.len()).unwrap()).as_bytes())).unwrap()
    }

    /// Runs a module inline over tensors that lie in the input window.
    pub fn infer(
        &mut self,
        handle: u32,
        flags: InferFlags,
        inputs: &[TensorDesc],
    ) -> (InferReplyHeader, Vec<TensorDesc>) {
        let message = Infer::new(9, handle, 0, flags, (INPUT, RESULT), inputs).unwrap();
        let reply = self.ask(message.bytes());
        let fixed = InferReply::parse_fixed(&reply).unwrap();
        let count = usize::try_from(fixed.num_outputs.get()).unwrap();
        let outputs = if fixed.descs_addr.get() == 0 {
            InferReply::inline_descriptors(&reply, count).unwrap().to_vec()
        } else {
            Vec::new()
        };
        (fixed, outputs)
    }

    /// Text in the printf buffer that the device uses at boot.
    pub fn printed(&self) -> String {
        let len = self.service.runtime().borrow().printf().len();
        String::from_utf8(self.read(SharedMap::PRINTF_BOOT.base + 16, len.into())).unwrap()
    }

    /// Bytes free in MAIN and FAST.
    pub fn free(&self) -> (u64, u64) {
        self.service.runtime().borrow().free_bytes()
    }
}

impl Drop for Device {
    /// Unloads everything, so that the next device finds plain memory.
    fn drop(&mut self) {
        self.service.run();
    }
}

/// The folder of the checked-in device modules.
fn models() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/models")
}

/// Builds a checked-in module with the documented flags.
pub fn build(source: &str) -> Vec<u8> {
    compile(&models().join(source))
}

/// Builds a module from C text.
pub fn build_text(text: &str) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("module.c");
    let header = models().join("include/outboard_tvm_abi.h");
    std::fs::write(&source, format!("#include \"{}\"\n{text}", header.display())).unwrap();
    compile(&source)
}

fn compile(source: &Path) -> Vec<u8> {
    let flags = |name: &str| std::fs::read_to_string(models().join(name)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("module.out");
    let result = Command::new("cc")
        .args(flags("cflags.txt").split_whitespace())
        .arg(source)
        .arg("-o")
        .arg(&output)
        .args(flags("ldflags.txt").split_whitespace())
        .output()
        .expect("the C compiler `cc` is installed (Debian package gcc)");
    assert!(result.status.success(), "{}", String::from_utf8_lossy(&result.stderr));
    std::fs::read(output).unwrap()
}
