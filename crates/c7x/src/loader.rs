//! Loading a staged file into the MAIN pool, and what the service keeps of a loaded module.

use crate::memory::MainBytes;
use crate::platform::Platform;
use crate::pool::{Owner, Pool};
use crate::runtime::Runtime;
use core::cell::RefCell;
use outboard_elf::Elf;
use outboard_link::{Initialisers, LoadError, LoadRequest, LoadedModule, Machine, SegmentRequest, TargetMemory};
use outboard_wire::IoMeta;

/// Entry point of a compiled model.
pub(crate) const ENTRY: &str = "cg_main_dsp";
/// Optional: prints the layer profile after a run.
pub(crate) const PROFILE: &str = "TVMPrintLayerProfile";
/// Optional: releases what a TIDL build holds.
pub(crate) const TIDL_CLEANUP: &str = "tidl_bridge_cleanup";
const WEIGHTS: &str = "_binary_weights_bin_start";
const WEIGHTS_SIZE: &str = "_binary_weights_bin_size";
const IO_META: &str = "_binary_tvm_dsp_io_meta_start";

/// A loaded module.
#[derive(Debug)]
pub struct Module {
    /// Handle given to the host.
    pub handle: u32,
    /// The loaded image.
    pub image: LoadedModule<'static>,
    /// Declared I/O sizes, when there are any.
    pub io: Option<IoMeta>,
}

impl Module {
    /// Whether part of the module lies where it was staged, so that staging must stay as it is.
    pub fn in_staging(&self) -> bool {
        self.image.segments().iter().any(|segment| segment.in_place)
    }
}

/// The MAIN pool as the loader sees it.
struct PoolMemory<'a> {
    bytes: MainBytes<'a>,
    pool: &'a mut Pool,
    owner: Owner,
}

impl TargetMemory for PoolMemory<'_> {
    fn allocate(&mut self, request: &SegmentRequest) -> Result<u64, outboard_link::OutOfMemory> {
        // Pages are protected as a whole, so a host-CPU image must not share its last page with anybody.
        let size = request.size.checked_next_multiple_of(request.align.max(1)).unwrap_or(u64::MAX);
        self.pool.allocate(size, request.align, self.owner).map_err(|full| outboard_link::OutOfMemory {
            pool: full.pool,
            requested: full.requested,
            free: full.free,
            total: full.total,
            largest: full.largest,
        })
    }

    fn release(&mut self, address: u64) {
        self.pool.release(address);
    }

    fn bytes(&self, address: u64, len: u64) -> Option<&[u8]> {
        self.pool.holds(address, len).then(|| self.bytes.bytes(address, len)).flatten()
    }

    fn bytes_mut(&mut self, address: u64, len: u64) -> Option<&mut [u8]> {
        self.pool.holds(address, len).then(|| self.bytes.bytes_mut(address, len)).flatten()
    }
}

impl Runtime {
    /// Splits the runtime into the staged file and the pool that a load goes into; `None` when the file is not in staging.
    fn loading(&mut self, file: u64, owner: Owner) -> Option<(&[u8], PoolMemory<'_>)> {
        let (memory, pool) = self.memory_and_main();
        let (file, bytes) = memory.staging_and_main(file)?;
        Some((file, PoolMemory { bytes, pool, owner }))
    }
}

/// Loads the file at the start of staging.
///
/// Read-only data is copied into MAIN, so that staging can be written again. Only when it does not fit there is it used
/// where it is staged, which the board does always; the caller must then keep staging as it is.
pub(crate) fn load(
    runtime: &RefCell<Runtime>,
    platform: &impl Platform,
    size: u64,
    handle: u32,
) -> Result<LoadedModule<'static>, LoadError> {
    match load_at(runtime, platform, size, handle, None) {
        Err(LoadError::OutOfMemory { .. }) => {
            let staging = runtime.borrow().memory.map().staging.base;
            load_at(runtime, platform, size, handle, Some(staging))
        }
        other => other,
    }
}

fn load_at(
    runtime: &RefCell<Runtime>,
    platform: &impl Platform,
    size: u64,
    handle: u32,
    staging: Option<u64>,
) -> Result<LoadedModule<'static>, LoadError> {
    let mut runtime = runtime.borrow_mut();
    let limit = runtime.memory.map().staging.size;
    let Some((file, mut memory)) = runtime.loading(size, Owner::Module(handle)) else {
        return Err(LoadError::SegmentTooLarge { what: "the staged file", size, limit });
    };
    // The machine decides which exports a module sees; what is no ELF file at all is refused by the loader in its own words.
    let machine = Elf::parse(file).ok().and_then(|elf| Machine::from_elf(elf.header().machine));
    let machine = machine.unwrap_or(platform.machine());
    let has_cpu_feature = |name: &str| platform.has_cpu_feature(name);
    let request = LoadRequest {
        file,
        name: "staged module",
        staging,
        exports: platform.exports(machine),
        cpu_features: Some(&has_cpu_feature),
        machines: platform.machines(),
        initialisers: if machine == platform.machine() { Initialisers::Collect } else { Initialisers::Refuse },
    };
    // Staging is written again while the module is loaded, so that its names are copied.
    outboard_link::load(&request, &mut memory).map(LoadedModule::into_owned)
}

/// Gives a module's memory back, zeroed.
pub(crate) fn release(runtime: &RefCell<Runtime>, handle: u32, image: LoadedModule<'static>) {
    let mut runtime = runtime.borrow_mut();
    if let Some((_, mut memory)) = runtime.loading(0, Owner::Module(handle)) {
        image.release(&mut memory);
    }
    runtime.release_owner(Owner::Module(handle));
}

/// Where a module's embedded weights lie: address and size, when both symbols are there.
pub(crate) fn embedded_weights(runtime: &Runtime, image: &LoadedModule<'static>) -> Option<(u64, u64)> {
    let start = image.symbol(WEIGHTS)?;
    let size = runtime.memory.bytes(image.symbol(WEIGHTS_SIZE)?, 4)?;
    let size = u32::from_le_bytes(size.try_into().ok()?);
    Some((start, size.into()))
}

/// A module's declared I/O sizes; a missing, foreign or unreadable record is no declaration.
pub(crate) fn io_meta(runtime: &Runtime, image: &LoadedModule<'static>) -> Option<IoMeta> {
    let bytes = runtime.memory.bytes(image.symbol(IO_META)?, IoMeta::SIZE as u64)?;
    IoMeta::parse(bytes).ok()
}
