//! What the tests share: modules, memory that can be made to fail, short ways to load.
#![allow(dead_code, reason = "each test program uses a part of it")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::PathBuf;

use outboard_elf::write::{ImageBuilder, RelocationSpec, SegmentId, SegmentSpec, SymbolSpec};
use outboard_elf::{machine, pf};
use outboard_link::{
    ExportTable, Initialisers, LoadError, LoadOptions, LoadRequest, LoadedModule, Machine, OutOfMemory, PoolMemory,
    ReadOnlyPlacement, SegmentRequest, TargetMemory, load_with,
};

pub const POOL: u64 = 0x1_0200_0000;
pub const POOL_SIZE: u64 = 1 << 20;
pub const STAGING: u64 = 0xc000_0000;
pub const ALL: [Machine; 3] = [Machine::C7x, Machine::X86_64, Machine::AArch64];
pub const RX: u32 = pf::R | pf::X;
pub const RW: u32 = pf::R | pf::W;

/// Relocation types used most.
pub const ABS64: u32 = 18;

pub fn data() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data")
}

/// The recorded modules that load, and those that do not: name and bytes.
pub fn recorded_modules() -> Vec<(String, Vec<u8>)> {
    let mut modules: Vec<(String, Vec<u8>)> = std::fs::read_dir(data().join("c7x"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "out"))
        .map(|path| (path.file_stem().unwrap().to_str().unwrap().to_owned(), std::fs::read(&path).unwrap()))
        .collect();
    modules.sort();
    assert_eq!(modules.len(), 53);
    if cfg!(miri) {
        // An interpreter takes a sample.
        modules.retain(|(_, file)| file.len() < 2100);
        modules.truncate(1);
    }
    modules
}

/// The table of the recorded modules.
pub fn firmware() -> ExportTable {
    let text = std::fs::read_to_string(data().join("c7x-exports.json")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    let address = |value: &serde_json::Value| u64::from_str_radix(&value.as_str().unwrap()[2..], 16).unwrap();
    json["symbols"].as_array().unwrap().iter().map(|p| (p[0].as_str().unwrap().to_owned(), address(&p[1]))).collect()
}

pub fn request<'a>(file: &'a [u8], exports: &'a ExportTable) -> LoadRequest<'a> {
    LoadRequest {
        file,
        name: "lib0.out",
        staging: None,
        exports,
        cpu_features: None,
        machines: &ALL,
        initialisers: Initialisers::Collect,
    }
}

pub fn pool() -> PoolMemory {
    PoolMemory::new("MAIN", POOL, POOL_SIZE)
}

pub fn load_into(
    file: &[u8],
    exports: &ExportTable,
    options: &LoadOptions<'_>,
    memory: &mut dyn TargetMemory,
) -> Result<LoadedModule<'static>, LoadError> {
    load_with(&request(file, exports), options, memory).map(LoadedModule::into_owned)
}

/// Loads into a fresh pool.
pub fn loaded(file: &[u8], exports: &ExportTable) -> (LoadedModule<'static>, PoolMemory) {
    let mut memory = pool();
    let module = load_into(file, exports, &LoadOptions::default(), &mut memory).unwrap_or_else(|e| panic!("{e}"));
    (module, memory)
}

/// The error of a load that must fail and leave the pool as it was.
pub fn refused(file: &[u8], exports: &ExportTable) -> LoadError {
    let mut memory = pool();
    let error = load_into(file, exports, &LoadOptions::default(), &mut memory).expect_err("the module is refused");
    assert_eq!(memory.free(), POOL_SIZE, "a refused load frees everything");
    error
}

pub fn word(memory: &dyn TargetMemory, address: u64) -> u64 {
    u64::from_le_bytes(memory.bytes(address, 8).unwrap().try_into().unwrap())
}

/// A C7x module with a code and a data segment of 64 bytes each, `cg_main_dsp` and the table `pointers` at the start of the data.
pub fn small() -> (ImageBuilder, SegmentId, SegmentId) {
    let mut image = ImageBuilder::new(machine::C7X);
    let text = image.segment(SegmentSpec::new(RX, vec![0x11; 64]).named(".text"));
    let data = image.segment(SegmentSpec::new(RW, vec![0x22; 64]).named(".data"));
    image.symbol(SymbolSpec::function("cg_main_dsp", text, 0, 64));
    image.symbol(SymbolSpec::object("pointers", data, 0, 64));
    (image, text, data)
}

/// A small module that imports these names, one pointer each.
pub fn importing(names: &[&str]) -> Vec<u8> {
    let mut image = ImageBuilder::new(machine::C7X);
    let data = image.segment(SegmentSpec::new(RW, vec![0; 8 * names.len()]));
    for (index, name) in names.iter().enumerate() {
        let import = image.symbol(SymbolSpec::import(name));
        image.relocate(RelocationSpec::new(data, 8 * index as u64, ABS64, import, 0));
    }
    image.needed("dsp_syms.out").firmware_symbols(&[]);
    image.build()
}

/// A pool and a staging area that fail on demand and notice what a load leaves behind.
pub struct Faulty {
    pub pool: PoolMemory,
    pub staging: PoolMemory,
    /// Allocations that still succeed.
    pub allocations: usize,
    /// Accesses for writing that still succeed.
    pub accesses: usize,
    /// Blocks that were released while they held something else than zeros.
    pub dirty: usize,
}

impl Faulty {
    pub fn new() -> Self {
        let staging = PoolMemory::new("staging", STAGING, 1 << 30);
        Self { pool: pool(), staging, allocations: usize::MAX, accesses: usize::MAX, dirty: 0 }
    }

    /// Loads as the original does: read-only data always lies in the staging area.
    pub fn load(&mut self, file: &[u8], exports: &ExportTable) -> Result<LoadedModule<'static>, LoadError> {
        let request = LoadRequest { staging: Some(STAGING), ..request(file, exports) };
        let options = LoadOptions { read_only: ReadOnlyPlacement::AtStaging, ..LoadOptions::default() };
        load_with(&request, &options, self).map(LoadedModule::into_owned)
    }

    /// Nothing is claimed, and everything that was claimed was zero when it was released.
    pub fn untouched(&self) -> bool {
        self.pool.free() == POOL_SIZE && self.staging.blocks().next().is_none() && self.dirty == 0
    }

    fn holder(&self, address: u64) -> &PoolMemory {
        if address < POOL { &self.staging } else { &self.pool }
    }

    fn holder_mut(&mut self, address: u64) -> &mut PoolMemory {
        if address < POOL { &mut self.staging } else { &mut self.pool }
    }
}

impl TargetMemory for Faulty {
    fn allocate(&mut self, request: &SegmentRequest) -> Result<u64, OutOfMemory> {
        let free = self.pool.free();
        let full = OutOfMemory { pool: "faulty", requested: request.size, free, total: POOL_SIZE, largest: free };
        self.allocations = self.allocations.checked_sub(1).ok_or(full)?;
        self.holder_mut(request.address.unwrap_or(POOL)).allocate(request)
    }

    fn release(&mut self, address: u64) {
        let mut blocks = self.holder(address).blocks();
        let block = blocks.find(|(start, _)| *start == address).expect("only claimed blocks are released").1;
        let dirty = block.iter().any(|byte| *byte != 0);
        drop(blocks);
        self.dirty += usize::from(dirty);
        self.holder_mut(address).release(address);
    }

    fn bytes(&self, address: u64, len: u64) -> Option<&[u8]> {
        self.holder(address).bytes(address, len)
    }

    fn bytes_mut(&mut self, address: u64, len: u64) -> Option<&mut [u8]> {
        self.accesses = self.accesses.checked_sub(1)?;
        self.holder_mut(address).bytes_mut(address, len)
    }

    fn zero(&mut self, address: u64, len: u64) -> bool {
        self.holder_mut(address).zero(address, len)
    }
}
