//! The device's memory: which regions exist, and checked access to their bytes.
//!
//! On this device an address *is* a pointer, for module code and for the service alike. That is why the one `unsafe` promise
//! of this module is made once, where the map is put in force; every access after that is checked against the map.
#![allow(unsafe_code, reason = "turns checked device addresses into slices; the promise is made at `Memory::new`")]

use outboard_wire::{Region, SharedMap};

/// The regions of a C7x that modules and the service use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryMap {
    /// Shared with the host: staging, KV region and the host's buffers.
    pub carveout: Region,
    /// Start of the carveout, where files are staged.
    pub staging: Region,
    /// The KV region inside the carveout.
    pub kv: Region,
    /// Where the device prints before a client has named its buffer; inside the carveout.
    pub printf_boot: Region,
    /// DDR heap: the MAIN pool.
    pub main: Region,
    /// On-chip heap: the FAST pool.
    pub fast: Region,
    /// L2 memory for tiles.
    pub l2: Region,
    /// L2 auxiliary memory; contains `fast`.
    pub l2_aux: Region,
    /// L1 used as memory.
    pub l1: Region,
    /// DDR that is not cached, for DMA.
    pub non_cached: Region,
}

impl MemoryMap {
    /// The AM67A's addresses.
    pub const AM67A: Self = Self {
        carveout: SharedMap::CARVEOUT,
        staging: SharedMap::STAGING,
        kv: SharedMap::KV,
        printf_boot: SharedMap::PRINTF_BOOT,
        main: SharedMap::MAIN,
        fast: SharedMap::FAST,
        l2: SharedMap::L2,
        l2_aux: SharedMap::L2_AUX,
        l1: SharedMap::L1,
        non_cached: SharedMap::NON_CACHED,
    };

    /// The regions that are separate pieces of memory, with their names.
    pub fn mapped(&self) -> [(&'static str, Region); 6] {
        [
            ("shared carveout", self.carveout),
            ("TVM DDR heap", self.main),
            ("non-cached heap", self.non_cached),
            ("L2 main", self.l2),
            ("L2 aux", self.l2_aux),
            ("L1", self.l1),
        ]
    }

    /// Name of the region an address lies in.
    pub fn region_name(&self, address: u64) -> Option<&'static str> {
        self.mapped().into_iter().find(|(_, region)| region.contains(address, 1)).map(|(name, _)| name)
    }
}

/// The memory of a device whose map is in force.
#[derive(Debug)]
pub struct Memory {
    map: MemoryMap,
}

impl Memory {
    /// Takes the map into use.
    ///
    /// # Safety
    /// Every region of [`MemoryMap::mapped`] is mapped at its addresses, readable and writable, for as long as the value
    /// lives; only module code and other processes access it otherwise, and no module code runs while a slice is borrowed.
    pub unsafe fn new(map: MemoryMap) -> Self {
        Self { map }
    }

    /// The map.
    pub fn map(&self) -> &MemoryMap {
        &self.map
    }

    fn mapped(&self, address: u64, len: u64) -> Option<(usize, usize)> {
        let known = self.map.mapped().iter().any(|(_, region)| region.contains(address, len));
        if known { Some((usize::try_from(address).ok()?, usize::try_from(len).ok()?)) } else { None }
    }

    /// The bytes `[address, address + len)`, when they lie inside one region.
    pub fn bytes(&self, address: u64, len: u64) -> Option<&[u8]> {
        let (address, len) = self.mapped(address, len)?;
        // SAFETY: the range lies inside a mapped region (promise of `new`); borrows of `self` keep module code from running.
        Some(unsafe { core::slice::from_raw_parts(core::ptr::with_exposed_provenance(address), len) })
    }

    /// The bytes `[address, address + len)` to write, when they lie inside one region.
    pub fn bytes_mut(&mut self, address: u64, len: u64) -> Option<&mut [u8]> {
        let (address, len) = self.mapped(address, len)?;
        // SAFETY: as in `bytes`, and the exclusive borrow of `self` excludes every other slice of this memory.
        Some(unsafe { core::slice::from_raw_parts_mut(core::ptr::with_exposed_provenance_mut(address), len) })
    }

    /// The staged file of `len` bytes, and the MAIN pool's memory to load it into: two disjoint regions at once.
    pub fn staging_and_main(&mut self, len: u64) -> Option<(&[u8], MainBytes<'_>)> {
        let Region { base, size } = self.map.staging;
        let (address, len) = if len <= size { self.mapped(base, len)? } else { return None };
        let region = self.map.main;
        // SAFETY: as in `bytes`; `MainBytes` reaches the MAIN region only, which is disjoint from staging.
        let file = unsafe { core::slice::from_raw_parts(core::ptr::with_exposed_provenance(address), len) };
        Some((file, MainBytes { region, _memory: core::marker::PhantomData }))
    }

    /// Copies between two ranges, which may overlap; `false` when one of them is not inside a region.
    pub fn copy(&mut self, to: u64, from: u64, len: u64) -> bool {
        let (Some((to, len)), Some((from, _))) = (self.mapped(to, len), self.mapped(from, len)) else { return false };
        // SAFETY: both ranges lie inside mapped regions (promise of `new`); `copy` allows them to overlap.
        unsafe {
            core::ptr::copy(
                core::ptr::with_exposed_provenance::<u8>(from),
                core::ptr::with_exposed_provenance_mut::<u8>(to),
                len,
            );
        }
        true
    }
}

/// Access to the MAIN pool's memory only.
#[derive(Debug)]
pub struct MainBytes<'a> {
    region: Region,
    _memory: core::marker::PhantomData<&'a mut Memory>,
}

impl MainBytes<'_> {
    fn range(&self, address: u64, len: u64) -> Option<(usize, usize)> {
        self.region.contains(address, len).then_some(())?;
        Some((usize::try_from(address).ok()?, usize::try_from(len).ok()?))
    }

    /// The bytes `[address, address + len)`, when they lie inside the region.
    pub fn bytes(&self, address: u64, len: u64) -> Option<&[u8]> {
        let (address, len) = self.range(address, len)?;
        // SAFETY: inside a mapped region, which this value borrows exclusively (see `Memory::staging_and_main`).
        Some(unsafe { core::slice::from_raw_parts(core::ptr::with_exposed_provenance(address), len) })
    }

    /// The bytes `[address, address + len)` to write, when they lie inside the region.
    pub fn bytes_mut(&mut self, address: u64, len: u64) -> Option<&mut [u8]> {
        let (address, len) = self.range(address, len)?;
        // SAFETY: as in `bytes`, and the exclusive borrow of `self` excludes every other slice of the region.
        Some(unsafe { core::slice::from_raw_parts_mut(core::ptr::with_exposed_provenance_mut(address), len) })
    }
}
