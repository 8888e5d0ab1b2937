//! Prelinking: loads a C7x module into memory at given bases, without a device, and reports every byte.
//!
//! Placement is that of the original loader: copied segments go to the pool in header order and steps of 128 bytes,
//! read-only segments lie at staging address + file offset.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Write as _;

use sha2::{Digest, Sha256};

use super::target::{Region, Target};
use crate::layout::POOL_ALIGN;
use crate::{
    ExportTable, Initialisers, LoadError, LoadOptions, LoadRequest, LoadedModule, Machine, OutOfMemory,
    ReadOnlyPlacement, SegmentRequest, TargetMemory, load_with,
};

/// What to prelink and where.
#[derive(Debug, Clone, Copy)]
pub struct PrelinkRequest<'a> {
    /// The bytes of the module's file.
    pub file: &'a [u8],
    /// Name of the module, for messages.
    pub name: &'a str,
    /// The pool.
    pub pool: Region,
    /// The staging area; the file lies at its start.
    pub staging: Region,
    /// The symbols that the firmware offers.
    pub exports: &'a ExportTable,
    /// Refuse branch targets with low bits set.
    pub strict: bool,
    /// Addresses for given segments instead of the next ones of the pool: (position, address).
    pub bases: &'a [(usize, u64)],
}

impl<'a> PrelinkRequest<'a> {
    /// Prelinks `file` at the addresses of a board.
    #[must_use]
    pub fn new(file: &'a [u8], name: &'a str, exports: &'a ExportTable, target: &Target) -> Self {
        let main = target.pool("MAIN");
        Self { file, name, pool: main, staging: target.staging, exports, strict: false, bases: &[] }
    }
}

/// A prelinked module: the report, and the memory behind it.
#[derive(Debug)]
pub struct Prelinked<'f> {
    /// What is printed.
    pub report: PrelinkReport,
    memory: PrelinkMemory,
    module: LoadedModule<'f>,
}

/// The report of a successful prelink.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct PrelinkReport {
    /// Always `ok`.
    pub status: &'static str,
    /// The segments in header order.
    pub segments: Vec<PrelinkedSegment>,
    /// The entry point moved with its segment; as in the file's header when it lies in none.
    pub entry: u64,
    /// Address of every symbol that the module defines and others may see.
    pub exports: BTreeMap<String, u64>,
    /// Applied relocations by type name.
    pub relocations: BTreeMap<&'static str, u64>,
}

/// One segment of a [`PrelinkReport`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct PrelinkedSegment {
    /// Position among the `PT_LOAD` headers that occupy memory.
    pub index: usize,
    /// Link address.
    pub vaddr: u64,
    /// Device address.
    pub base: u64,
    /// Size in memory.
    pub memsz: u64,
    /// It lies in the staged file.
    pub in_place: bool,
    /// SHA-256 of its `memsz` bytes after loading, lower-case hex.
    pub sha256: String,
}

/// The report of a load that was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct ErrorReport {
    /// Always `error`.
    pub status: &'static str,
    /// The kind of error, one word.
    pub error: &'static str,
    /// The code whose page `outboard explain` prints.
    pub explain: &'static str,
    /// What, where, why and what to do.
    pub message: String,
    /// Names of the missing symbols, sorted; empty for other errors.
    pub symbols: Vec<String>,
}

impl From<&LoadError> for ErrorReport {
    fn from(error: &LoadError) -> Self {
        Self {
            status: "error",
            error: error.kind(),
            explain: error.code(),
            message: error.to_string(),
            symbols: error.symbols().into_iter().map(String::from).collect(),
        }
    }
}

/// Prelinks a C7x module.
///
/// # Errors
///
/// As [`crate::load`]; [`ErrorReport`] is its printable form.
///
/// ```
/// use outboard_elf::write::{ImageBuilder, SegmentSpec, SymbolSpec};
/// use outboard_elf::{machine, pf};
/// use outboard_link::ExportTable;
/// use outboard_link::prelink::{PrelinkRequest, prelink_c7x};
/// use outboard_link::target::Target;
///
/// let mut image = ImageBuilder::new(machine::C7X);
/// let text = image.segment(SegmentSpec::new(pf::R | pf::X, vec![0; 64]));
/// image.symbol(SymbolSpec::function("cg_main_dsp", text, 0x20, 32));
/// let exports = ExportTable::new();
/// let file = image.build();
/// let prelinked = prelink_c7x(&PrelinkRequest::new(&file, "lib0.out", &exports, &Target::am67a()))?;
/// assert_eq!(prelinked.report.exports["cg_main_dsp"], 0x1_0200_0020);
/// # Ok::<(), outboard_link::LoadError>(())
/// ```
pub fn prelink_c7x<'f>(request: &PrelinkRequest<'f>) -> Result<Prelinked<'f>, LoadError> {
    let mut memory = PrelinkMemory::new(request.pool, request.staging, request.file.len());
    let load_request = LoadRequest {
        file: request.file,
        name: request.name,
        staging: Some(request.staging.address),
        exports: request.exports,
        cpu_features: None,
        machines: &[Machine::C7x],
        initialisers: Initialisers::Refuse,
    };
    let options = LoadOptions {
        strict: request.strict,
        read_only: ReadOnlyPlacement::AtStaging,
        bases: request.bases,
        ..LoadOptions::default()
    };
    let module = load_sparse(&load_request, &options, &mut memory)?;
    let report = report(request, &module, &memory);
    Ok(Prelinked { report, memory, module })
}

/// As [`load_with`], telling apart a memory that refuses to grow from one that is faulty.
pub(crate) fn load_sparse<'f>(
    request: &LoadRequest<'f>,
    options: &LoadOptions<'_>,
    memory: &mut PrelinkMemory,
) -> Result<LoadedModule<'f>, LoadError> {
    match load_with(request, options, memory) {
        Err(LoadError::MemoryFault { len, .. }) if memory.over_budget => {
            Err(LoadError::OutOfMemory { index: 0, oom: memory.budget_exceeded(len) })
        }
        result => result,
    }
}

fn report(request: &PrelinkRequest<'_>, module: &LoadedModule<'_>, memory: &PrelinkMemory) -> PrelinkReport {
    let header_entry = outboard_elf::Elf::parse(request.file).map_or(0, |elf| elf.header().entry);
    let segments = module.segments().iter().map(|segment| PrelinkedSegment {
        index: segment.index,
        vaddr: segment.vaddr,
        base: segment.base,
        memsz: segment.memsz,
        in_place: segment.in_place,
        sha256: memory.sha256(segment.base),
    });
    PrelinkReport {
        status: "ok",
        segments: segments.collect(),
        entry: module.entry().unwrap_or(header_entry),
        exports: module.symbols().map(|(name, address)| (name.to_string(), address)).collect(),
        relocations: module.relocations().clone(),
    }
}

impl<'f> Prelinked<'f> {
    /// The module as loaded.
    pub const fn module(&self) -> &LoadedModule<'f> {
        &self.module
    }

    /// The bytes of a segment after loading, without the zeros at its end that nothing changed.
    #[must_use]
    pub fn segment(&self, position: usize) -> Option<&[u8]> {
        let base = self.module.segments().get(position)?.base;
        self.memory.blocks.get(&base).map(|block| block.data.as_slice())
    }

    /// Hands the memory image of the pool to `sink`, piece by piece, from the lowest to the highest address; gaps are
    /// zero. Returns the address of its first byte. Segments that lie in the staged file are not part of it.
    pub fn write_image(&self, sink: &mut dyn FnMut(&[u8])) -> u64 {
        let mut copied: Vec<_> = self.module.segments().iter().filter(|segment| !segment.in_place).collect();
        copied.sort_unstable_by_key(|segment| segment.base);
        let start = copied.first().map_or(self.memory.pool.base, |segment| segment.base);
        let mut at = start;
        for segment in copied {
            zeros(segment.base - at, sink);
            let data = self.memory.blocks.get(&segment.base).map_or(&[][..], |block| block.data.as_slice());
            sink(data);
            zeros(segment.memsz - data.len() as u64, sink);
            at = segment.base + segment.memsz;
        }
        start
    }
}

/// Hands `count` zero bytes to `sink` in pieces.
fn zeros(mut count: u64, sink: &mut dyn FnMut(&[u8])) {
    const PIECE: [u8; 4096] = [0; 4096];
    while count > 0 {
        let piece = usize::try_from(count).unwrap_or(usize::MAX).min(PIECE.len());
        sink(PIECE.get(..piece).unwrap_or(&PIECE));
        count -= piece as u64;
    }
}

/// Bytes behind the end of the staged file that read-only segments may cover.
const MOST_BEHIND_FILE: u64 = 64 << 20;

/// An address window from which blocks are taken.
#[derive(Debug, Clone, Copy)]
struct Window {
    name: &'static str,
    base: u64,
    size: u64,
    next: u64,
}

/// Device memory that exists only as far as it was written: a module may ask for hundreds of megabytes of zeros.
#[derive(Debug)]
pub(crate) struct PrelinkMemory {
    pool: Window,
    staging: Window,
    blocks: BTreeMap<u64, Block>,
    /// Bytes that may still be kept in this program's memory.
    budget: u64,
    over_budget: bool,
}

#[derive(Debug, Default)]
struct Block {
    size: u64,
    /// The first bytes; those behind are zero.
    data: Vec<u8>,
}

impl PrelinkMemory {
    pub fn new(pool: Region, staging: Region, file_size: usize) -> Self {
        // Read-only data lies in the file. What it asks for behind the file's end is bounded, because it is hashed.
        let staging = Region { size: staging.size.min(file_size as u64 + MOST_BEHIND_FILE), ..staging };
        let window =
            |name, region: Region| Window { name, base: region.address, size: region.size, next: region.address };
        Self {
            pool: window("MAIN", pool),
            staging: window("staging", staging),
            blocks: BTreeMap::new(),
            budget: 2 * file_size as u64 + (16 << 20),
            over_budget: false,
        }
    }

    fn sha256(&self, base: u64) -> String {
        let mut hash = Sha256::new();
        if let Some(block) = self.blocks.get(&base) {
            hash.update(&block.data);
            zeros(block.size - block.data.len() as u64, &mut |piece| hash.update(piece));
        }
        hash.finalize().iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
    }

    fn budget_exceeded(&self, len: u64) -> OutOfMemory {
        let held = self.blocks.values().map(|block| block.data.len() as u64).sum::<u64>();
        let (free, total) = (self.budget, self.budget + held);
        OutOfMemory { pool: "prelink memory", requested: len, free, total, largest: free }
    }

    fn overlaps(&self, address: u64, size: u64) -> bool {
        let before = self.blocks.range(..=address).next_back();
        let hit_before = before.is_some_and(|(start, block)| address - start < block.size);
        hit_before || self.blocks.range(address..address.saturating_add(size)).next().is_some()
    }

    fn find(&mut self, address: u64, len: u64) -> Option<(&mut Block, usize, usize)> {
        let (start, block) = self.blocks.range_mut(..=address).next_back()?;
        let from = address - start;
        let to = from.checked_add(len).filter(|to| *to <= block.size)?;
        Some((block, usize::try_from(from).ok()?, usize::try_from(to).ok()?))
    }
}

impl TargetMemory for PrelinkMemory {
    fn allocate(&mut self, request: &SegmentRequest) -> Result<u64, OutOfMemory> {
        let end = |window: &Window| window.base.saturating_add(window.size);
        let in_staging = request.address.is_some_and(|address| {
            address >= self.staging.base && address.saturating_add(request.size) <= end(&self.staging)
        });
        let window = if in_staging { self.staging } else { self.pool };
        let free = end(&window).saturating_sub(window.next);
        let full = OutOfMemory { pool: window.name, requested: request.size, free, total: window.size, largest: free };
        let address = match request.address {
            Some(address) => address,
            None => window.next.checked_next_multiple_of(request.align).ok_or(full)?,
        };
        let stop = address.checked_add(request.size).ok_or(full)?;
        if address < window.base || stop > end(&window) || self.overlaps(address, request.size) {
            return Err(full);
        }
        if request.address.is_none() {
            self.pool.next = stop.checked_next_multiple_of(POOL_ALIGN).ok_or(full)?;
        }
        self.blocks.insert(address, Block { size: request.size, data: Vec::new() });
        Ok(address)
    }

    fn release(&mut self, address: u64) {
        if let Some(block) = self.blocks.remove(&address) {
            self.budget += block.data.len() as u64;
        }
    }

    fn bytes(&self, address: u64, len: u64) -> Option<&[u8]> {
        let (start, block) = self.blocks.range(..=address).next_back()?;
        let from = usize::try_from(address - start).ok()?;
        block.data.get(from..from.checked_add(usize::try_from(len).ok()?)?)
    }

    fn bytes_mut(&mut self, address: u64, len: u64) -> Option<&mut [u8]> {
        let budget = self.budget;
        let (block, from, to) = self.find(address, len)?;
        let grow = to.saturating_sub(block.data.len());
        if grow as u64 > budget {
            self.over_budget = true;
            return None;
        }
        block.data.reserve_exact(grow);
        block.data.resize(to.max(block.data.len()), 0);
        self.budget -= grow as u64;
        self.find(address, len)?.0.data.get_mut(from..to)
    }

    fn zero(&mut self, address: u64, len: u64) -> bool {
        let Some((block, from, to)) = self.find(address, len) else { return false };
        let end = to.min(block.data.len());
        block.data.get_mut(from.min(end)..end).unwrap_or_default().fill(0);
        true
    }
}
