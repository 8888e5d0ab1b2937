//! Libraries: what a file is, how it gets into the cores' memories, and what it registers there.

use std::sync::Arc;

use outboard_elf::Elf;
use outboard_elf::pi::{DeviceShape, FLL_BASE, FllShape, KERNEL_ROW, KernelTable};
use outboard_link::pi::ll::{LlError, MemHandle, stage};
use outboard_link::pi::{Placement, PrelinkRequest, UcplImage, prelink};

use crate::error::Error;
use crate::firmware::Firmware;
use crate::pool::{Call, Pool};
use crate::symbols::Symbols;
use crate::target::{PoolTarget, Span};

/// Longest name of a function that is read.
const NAME: usize = 64;
/// Room at the end of a core's image for the firmware.
const FIRMWARE_ROOM: u64 = 0x1000;

/// A library that cores can run.
#[derive(Debug, Clone)]
pub(crate) struct Library {
    /// Where the firmware's code lies, for each core.
    pub(crate) firmware: Vec<u32>,
    /// Functions by their number.
    pub(crate) functions: Vec<FunctionEntry>,
    /// The table of kernels: address and bytes, the same on every core.
    pub(crate) kernels: Option<Span>,
    /// Cores that take part.
    pub(crate) mask: u8,
    /// Names by address, for each core.
    pub(crate) symbols: Vec<Arc<Symbols>>,
}

/// A function that a library registered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FunctionEntry {
    pub(crate) name: String,
    /// Its address on each core.
    pub(crate) addresses: Vec<u32>,
}

/// A prelinked library in HBM, and what the host knows about it.
#[derive(Debug, Clone)]
pub(crate) struct StagedLibrary {
    pub(crate) address: u64,
    pub(crate) size: u64,
    kernels: Option<Span>,
    symbols: Arc<Symbols>,
}

/// HBM as the staging call sees it: one block after the other.
struct Staging<'a> {
    pool: &'a Pool,
    next: u64,
}

impl MemHandle for Staging<'_> {
    type Handle = u64;

    fn malloc(&mut self, size: u64) -> Result<u64, u32> {
        let address = self.next;
        self.next += size;
        Ok(address)
    }

    fn free(&mut self, _handle: u64) {}

    fn read(&mut self, handle: u64, offset: u64, bytes: &mut [u8]) -> Result<(), u32> {
        self.pool.bus.read(handle + offset, bytes).map_err(|_| 1)
    }

    fn write(&mut self, handle: u64, offset: u64, bytes: &[u8]) -> Result<(), u32> {
        self.pool.bus.write(handle + offset, bytes).map_err(|_| 1)
    }

    fn device_addr(&self, handle: u64) -> Option<u64> {
        Some(handle)
    }
}

/// What files are, before anything is loaded.
#[derive(Debug)]
pub(crate) enum Files<'a> {
    /// One prelinked library for all cores.
    Pi(&'a [u8]),
    /// A fixed-load library: one file for each core.
    Fll(Vec<(Elf<'a>, FllShape)>),
}

impl<'a> Files<'a> {
    /// Looks at the shape of each file; `cores`: how many files a fixed-load library has.
    pub(crate) fn of(files: &[&'a [u8]], cores: usize) -> Result<Self, Error> {
        let mut images = Vec::new();
        for (library, file) in files.iter().enumerate() {
            let elf = Elf::parse(file).map_err(|error| Error::Elf { library, error })?;
            match DeviceShape::of(&elf).map_err(|error| Error::Shape { library, error })? {
                DeviceShape::Pi(_) if files.len() == 1 => return Ok(Self::Pi(file)),
                DeviceShape::Pi(_) => return Err(Error::ImageCount { given: files.len(), cores: 1 }),
                DeviceShape::Fll(shape) => images.push((elf, shape)),
            }
        }
        if images.len() != cores {
            return Err(Error::ImageCount { given: images.len(), cores });
        }
        for (position, (_, shape)) in images.iter().enumerate() {
            if usize::from(shape.core) != position {
                let expected = FLL_BASE + position as u64 * outboard_elf::pi::FLL_STRIDE;
                let found = usize::from(shape.core);
                return Err(Error::ImageCore { position, found, address: shape.image.vaddr, expected });
            }
        }
        Ok(Self::Fll(images))
    }
}

/// Prelinks a library for the pool's cores and puts it into HBM.
pub(crate) fn stage_library(pool: &Pool, file: &[u8], address: u64) -> Result<StagedLibrary, Error> {
    let bounds = pool.bus.target.bounds();
    let link = |error| Error::Link(LlError::Prelink { error });
    let prelinked = prelink(&PrelinkRequest::new(file, bounds)).map_err(link)?;
    let mut staging = Staging { pool, next: address };
    let staged = stage(&mut staging, &prelinked).map_err(Error::Link)?;
    let elf = Elf::parse(file).map_err(|error| Error::Elf { library: 0, error })?;
    let moved = rebase(&prelinked.placement, &prelinked.descriptor);
    let table = KernelTable::find(&elf).map_err(|error| Error::Elf { library: 0, error })?;
    let kernels = table
        .map(|table| Span { address: moved(table.address as u32), size: (table.rows().len() * KERNEL_ROW) as u32 });
    let symbols = Arc::new(Symbols::of(&elf, moved));
    Ok(StagedLibrary { address: staged.handle, size: staged.size, kernels, symbols })
}

/// Where a link address of a PI image is on the device.
fn rebase(placement: &Placement, descriptor: &outboard_link::pi::Descriptor) -> impl Fn(u32) -> u32 {
    let (code, data) = (placement.code.address(), placement.data.address());
    let (from_code, from_data) = (descriptor.src_offs, descriptor.src_data_offs);
    move |address| {
        if address >= from_data {
            address.wrapping_sub(from_data).wrapping_add(data)
        } else {
            address.wrapping_sub(from_code).wrapping_add(code)
        }
    }
}

/// What the device's loader does with a staged library: checks it, copies it to the windows of each core in the mask (data
/// before code), and calls its entry.
pub(crate) fn load_staged(
    pool: &mut Pool,
    firmware: &Firmware,
    staged: &StagedLibrary,
    size: u32,
    mask: u8,
    queues: &dyn Fn(usize) -> [u64; 2],
) -> Result<Library, Error> {
    let max = outboard_link::pi::STAGED_MAX as u32;
    if size > max || u64::from(size) != staged.size {
        return Err(Error::LibrarySize { given: size, max, staged: staged.size });
    }
    let mut image = vec![0; size as usize];
    pool.bus.read(staged.address, &mut image)?;
    let wrong = |error| Error::Staged { address: staged.address, error };
    let image = UcplImage::parse(&image).map_err(wrong)?;
    let start = image.header.start;
    let bounds = *pool.bus.target.bounds();
    let pair = [(bounds.data_base, image.data), (bounds.code_base, image.code)];
    install(pool, mask, &pair)?;
    let cores = pool.cores.len();
    boot_resident(pool, firmware, mask, queues)?;
    let symbols = vec![Arc::clone(&staged.symbols); cores];
    let base = pool.bus.target.iram().address;
    start_library(pool, firmware, vec![base; cores], vec![start; cores], mask, symbols, staged.kernels)
}

/// Copies parts to the memories of each core in the mask.
pub(crate) fn install(pool: &mut Pool, mask: u8, parts: &[(u64, &[u8])]) -> Result<(), Error> {
    for core in pool.cores.iter_mut().filter(|core| mask >> core.index & 1 == 1) {
        let index = core.index;
        for (address, bytes) in parts {
            let problem = |error: outboard_xtensa::engine::MemoryError| Error::Registration {
                core: index,
                problem: format!("{:#x} bytes do not fit at {address:#x}: {error}", bytes.len()),
            };
            core.place(*address as u32, bytes).map_err(problem)?;
        }
    }
    Ok(())
}

/// Puts the firmware into the instruction memory of each core.
pub(crate) fn boot_resident(
    pool: &mut Pool,
    firmware: &Firmware,
    mask: u8,
    queues: &dyn Fn(usize) -> [u64; 2],
) -> Result<(), Error> {
    let base = pool.bus.target.iram().address;
    install(pool, mask, &[(base.into(), &firmware.code)])?;
    boot_data(pool, firmware, mask, |_| base, queues)
}

/// Writes what a library finds in the data memories when it starts.
fn boot_data(
    pool: &mut Pool,
    firmware: &Firmware,
    mask: u8,
    base: impl Fn(usize) -> u32,
    queues: &dyn Fn(usize) -> [u64; 2],
) -> Result<(), Error> {
    let target = Arc::clone(&pool.bus.target);
    let zeros = vec![0; target.local.scratch.size as usize];
    for core in 0..pool.cores.len() {
        let data = firmware.boot_data(&target, core, base(core), queues(core));
        let own = 1 << core & mask;
        let parts = [
            (target.local.scratch.address.into(), zeros.as_slice()),
            (data.data.0.into(), data.data.1.as_slice()),
            (data.config.0.into(), data.config.1.as_slice()),
        ];
        install(pool, own, &parts)?;
    }
    for core in pool.cores.iter_mut().filter(|core| mask >> core.index & 1 == 1) {
        core.memory().reset_rings();
        core.memory().reset_windows();
        core.code_changed();
    }
    Ok(())
}

/// Copies each core's file to its place in HBM and calls its entry.
pub(crate) fn load_fixed(
    pool: &mut Pool,
    firmware: &Firmware,
    images: &[(Elf<'_>, FllShape)],
    queues: &dyn Fn(usize) -> [u64; 2],
) -> Result<Library, Error> {
    let target = Arc::clone(&pool.bus.target);
    let (first, distance) = target.hbm.images;
    let room = if images.len() == 1 { target.hbm.scratch.0 - first } else { distance } - FIRMWARE_ROOM;
    let mut bases = Vec::new();
    let mut entries = Vec::new();
    let mut symbols = Vec::new();
    for (position, (elf, shape)) in images.iter().enumerate() {
        let origin = FLL_BASE + distance * position as u64;
        for segment in [&shape.image, &shape.bss] {
            let inside = segment.vaddr.checked_sub(origin);
            let end = inside.and_then(|inside| inside.checked_add(segment.memsz)).filter(|end| *end <= room);
            if end.is_none() {
                let (address, size) = (segment.vaddr, segment.memsz);
                return Err(Error::ImageSize { position, address, size, room });
            }
            let data = elf.segment_data(segment).map_err(|error| Error::Elf { library: position, error })?;
            let mut bytes = data.to_vec();
            bytes.resize(usize::try_from(segment.memsz).unwrap_or(0).max(bytes.len()), 0);
            pool.bus.write(target.soc.hbm_base + (segment.vaddr - FLL_BASE), &bytes)?;
        }
        // The firmware must be in the same gigabyte as what it calls.
        let base = origin + room;
        pool.bus.write(target.soc.hbm_base + (base - FLL_BASE), &firmware.code)?;
        bases.push(base as u32);
        entries.push(elf.header().entry as u32);
        symbols.push(Arc::new(Symbols::of(elf, |address| address)));
    }
    let mask = (0..images.len()).fold(0, |mask, core| mask | 1 << core);
    boot_data(pool, firmware, mask, |core| bases.get(core).copied().unwrap_or(0), queues)?;
    start_library(pool, firmware, bases, entries, mask, symbols, None)
}

/// Calls the entry of a library on each core and collects what it registers.
#[allow(
    clippy::too_many_arguments,
    reason = "what the two shapes hand over; a record for one caller would say no more"
)]
pub(crate) fn start_library(
    pool: &mut Pool,
    firmware: &Firmware,
    bases: Vec<u32>,
    entries: Vec<u32>,
    mask: u8,
    symbols: Vec<Arc<Symbols>>,
    kernels: Option<Span>,
) -> Result<Library, Error> {
    let target = Arc::clone(&pool.bus.target);
    for (core, names) in pool.cores.iter_mut().zip(&symbols) {
        core.symbols = Arc::clone(names);
        core.watch(Vec::new());
    }
    let argument = target.local.firmware.address;
    let dispatch: Vec<u32> = bases.iter().map(|base| firmware.routine(*base, "dispatch")).collect();
    pool.entered.clone_from(&dispatch);
    let statuses = run_on(pool, mask, &dispatch, &entries, argument)?;
    publish(pool);
    for (core, status) in statuses.iter().enumerate() {
        match status {
            None | Some(0) => {}
            Some(status) => {
                let meaning = match status {
                    1 => "failure",
                    2 => "ABI mismatch: it expects a larger record than the firmware has",
                    3 => "opcode to kernel map",
                    4 => "number of kernels",
                    _ => "unknown",
                };
                return Err(Error::Boot { core, status: *status, meaning });
            }
        }
    }
    let functions = registered(pool, &target, mask)?;
    let library = Library { firmware: bases, functions, kernels, mask, symbols };
    check_count(pool, &library, &dispatch)?;
    Ok(library)
}

/// Runs one function on each core of a mask.
pub(crate) fn run_on(
    pool: &mut Pool,
    mask: u8,
    dispatch: &[u32],
    functions: &[u32],
    argument: u32,
) -> Result<Vec<Option<u32>>, Error> {
    let call = |core: usize| {
        let (entry, function) = (*dispatch.get(core)?, *functions.get(core)?);
        (mask >> core & 1 == 1).then_some(Call { entry, function, argument })
    };
    let calls: Vec<Option<Call>> = (0..pool.cores.len()).map(call).collect();
    Ok(pool.run(&calls)?)
}

/// Makes what the cores wrote during the boot visible.
fn publish(pool: &mut Pool) {
    for core in &mut pool.cores {
        core.memory().drain();
    }
}

/// The functions that all cores registered.
fn registered(pool: &mut Pool, target: &PoolTarget, mask: u8) -> Result<Vec<FunctionEntry>, Error> {
    let mut functions: Vec<FunctionEntry> = Vec::new();
    let cores = pool.cores.len();
    let first = mask.trailing_zeros() as usize;
    for core in pool.cores.iter_mut().filter(|core| mask >> core.index & 1 == 1) {
        let index = core.index;
        let bad = |problem: String| Error::Registration { core: index, problem };
        let mut data = vec![0; Firmware::data_size()];
        let unreadable = |error: outboard_xtensa::engine::MemoryError| bad(format!("cannot be read: {error}"));
        core.memory().peek(target.local.firmware.address, &mut data).map_err(unreadable)?;
        let rows = Firmware::registered(&data);
        let rows = rows.ok_or_else(|| bad("more functions were registered than the firmware takes (97)".to_owned()))?;
        if index != first && rows.len() != functions.len() {
            return Err(bad(format!("{} functions, core {first} has {}", rows.len(), functions.len())));
        }
        for (number, row) in rows.iter().enumerate() {
            let mut text = [0; NAME + 1];
            core.memory().peek(row.name, &mut text).map_err(unreadable)?;
            let end = text.iter().position(|byte| *byte == 0);
            let end = end.ok_or_else(|| bad(format!("the name of function {number} is longer than {NAME} bytes")))?;
            let name = String::from_utf8_lossy(text.get(..end).unwrap_or(&[])).into_owned();
            if index == first {
                functions.push(FunctionEntry { name: name.clone(), addresses: vec![0; cores] });
            }
            let Some(entry) = functions.get_mut(number).filter(|entry| entry.name == name) else {
                return Err(bad(format!("function {number} is `{name}`, on core {first} it has another name")));
            };
            if row.function == 0 {
                return Err(bad(format!("function {number} (`{name}`) has no address")));
            }
            if let Some(place) = entry.addresses.get_mut(index) {
                *place = row.function;
            }
        }
    }
    Ok(functions)
}

/// Asks a library that names its functions how many cores it was built for.
fn check_count(pool: &mut Pool, library: &Library, dispatch: &[u32]) -> Result<(), Error> {
    let first = library.mask.trailing_zeros() as usize;
    let counter = library.symbols.get(first).and_then(|symbols| symbols.find("_Z13get_cpu_countv"));
    let Some(counter) = counter else { return Ok(()) };
    let functions = vec![counter; pool.cores.len()];
    let counts = run_on(pool, 1 << first, dispatch, &functions, 0)?;
    match counts.get(first).copied().flatten() {
        Some(count) if count as usize != pool.cores.len() => {
            Err(Error::CpuCount { library: count, cores: pool.cores.len() })
        }
        _ => Ok(()),
    }
}
