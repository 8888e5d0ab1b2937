//! The runtime that modules call: pools, objects, register files, printf.
//!
//! A module calls plain C functions without a context argument, so the runtime that serves a call is found through one
//! pointer that is set while an entry runs ([`Runtime::activate`]) and cleared afterwards. Everything else hangs off a
//! [`Runtime`] value: two of them never share state.
#![allow(unsafe_code, reason = "implements the C functions that module code calls with raw pointers")]

mod backend;
mod builtins;
pub(crate) mod exports;
mod kernels;
mod objects;
mod packed;
mod support;

pub use exports::{Export, core_exports};
pub use kernels::kernel_exports;

use crate::abi::{Any, DataType};
use crate::memory::Memory;
use crate::pool::{Exhausted, Owner, Pool, PoolId};
use crate::printf::PrintfBuffer;
use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::sync::atomic::{AtomicPtr, Ordering};
use outboard_wire::MapWindow;

/// Storage up to this size is tried in the FAST pool first, in bytes.
const FAST_THRESHOLD: u64 = 32 * 1024;
/// Most functions a module may register by name.
const MAX_REGISTERED: usize = 128;

/// State behind the functions that module code calls.
#[derive(Debug)]
pub struct Runtime {
    /// The device's memory.
    pub memory: Memory,
    main: Pool,
    fast: Pool,
    printf: PrintfBuffer,
    active: u32,
    registers: BTreeMap<u32, RegisterFile>,
    constants: (u64, usize),
    symbols: Vec<(u32, String, u64)>,
    exhausted: Option<Exhausted>,
}

/// A module's register file: an array of values in the module's own data.
#[derive(Debug, Clone, Copy)]
struct RegisterFile {
    address: u64,
    count: usize,
}

/// The runtime whose module is running.
static ACTIVE: AtomicPtr<RefCell<Runtime>> = AtomicPtr::new(core::ptr::null_mut());

/// While this lives, module code finds its runtime.
#[derive(Debug)]
pub struct Activation {
    previous: *mut RefCell<Runtime>,
    _runtime: Rc<RefCell<Runtime>>,
}

impl Drop for Activation {
    fn drop(&mut self) {
        ACTIVE.store(self.previous, Ordering::Release);
    }
}

/// Runs `body` on the active runtime; `None` when no module is running.
///
/// `body` must not call module code (deleters included): the runtime is borrowed meanwhile.
pub(crate) fn with<R>(body: impl FnOnce(&mut Runtime) -> R) -> Option<R> {
    let active = ACTIVE.load(Ordering::Acquire);
    // SAFETY: the pointer is set by `activate` only, which keeps the runtime alive until it is cleared again.
    let runtime = unsafe { active.as_ref() }?;
    runtime.try_borrow_mut().ok().map(|mut runtime| body(&mut runtime))
}

impl Runtime {
    /// A runtime over empty pools, printing into the boot-time buffer. `None` when the map has no room for that buffer.
    pub fn new(mut memory: Memory) -> Option<Self> {
        let map = *memory.map();
        let boot = MapWindow { base: map.printf_boot.base, size: map.printf_boot.size };
        let printf = PrintfBuffer::bind(&mut memory, boot)?;
        Some(Self {
            memory,
            main: Pool::new(PoolId::Main, map.main),
            fast: Pool::new(PoolId::Fast, map.fast),
            printf,
            active: 0,
            registers: BTreeMap::new(),
            constants: (0, 0),
            symbols: Vec::new(),
            exhausted: None,
        })
    }

    /// Lets module code of `handle` find this runtime until the returned value is dropped.
    pub fn activate(this: &Rc<RefCell<Self>>, handle: u32) -> Activation {
        this.borrow_mut().active = handle;
        let previous = ACTIVE.swap(Rc::as_ptr(this).cast_mut(), Ordering::AcqRel);
        Activation { previous, _runtime: Rc::clone(this) }
    }

    /// The pool of this number.
    pub fn pool(&mut self, id: PoolId) -> &mut Pool {
        match id {
            PoolId::Fast => &mut self.fast,
            PoolId::Main => &mut self.main,
        }
    }

    /// The module whose code runs, or ran last.
    pub fn active(&self) -> u32 {
        self.active
    }

    /// Allocates zeroed memory. A failure of the MAIN pool is remembered for the reply, and printed.
    pub fn allocate(&mut self, id: PoolId, size: u64, align: u64, owner: Owner) -> Option<u64> {
        let address = self.allocate_unfilled(id, size, align, owner)?;
        self.memory.bytes_mut(address, size)?.fill(0);
        Some(address)
    }

    /// As [`Runtime::allocate`], for memory that is overwritten at once: it holds whatever was there.
    pub(crate) fn allocate_unfilled(&mut self, id: PoolId, size: u64, align: u64, owner: Owner) -> Option<u64> {
        match self.pool(id).allocate(size, align, owner) {
            Ok(address) => Some(address),
            Err(exhausted) => {
                if id == PoolId::Main {
                    let line = alloc::format!(
                        "ERROR: OOM in DDR pool: requested {} bytes, free {} / {} bytes\n",
                        exhausted.requested,
                        exhausted.free,
                        exhausted.total
                    );
                    self.print(line.as_bytes(), line.len() as u64);
                    self.exhausted = Some(exhausted);
                }
                None
            }
        }
    }

    /// Allocates storage: small pieces from the FAST pool when it has room, else from MAIN.
    fn allocate_storage(&mut self, size: u64, owner: Owner) -> Option<(u64, PoolId)> {
        if size <= FAST_THRESHOLD
            && let Some(address) = self.allocate(PoolId::Fast, size, 128, owner)
        {
            return Some((address, PoolId::Fast));
        }
        self.allocate(PoolId::Main, size, 128, owner).map(|address| (address, PoolId::Main))
    }

    /// Frees a block of either pool; `false` when the address is none.
    pub fn release(&mut self, address: u64) -> bool {
        self.main.release(address) || self.fast.release(address)
    }

    /// Frees everything an owner holds in either pool.
    pub fn release_owner(&mut self, owner: Owner) {
        self.main.release_owner(owner, |_, _| {});
        self.fast.release_owner(owner, |_, _| {});
    }

    /// Whether a block of either pool starts here.
    fn is_block(&self, address: u64) -> bool {
        self.main.is_block(address) || self.fast.is_block(address)
    }

    /// Whether an address belongs to one of the pools.
    fn in_pools(&self, address: u64) -> bool {
        self.main.region().contains(address, 1) || self.fast.region().contains(address, 1)
    }

    /// Takes the record of the last failed MAIN allocation.
    pub fn take_exhausted(&mut self) -> Option<Exhausted> {
        self.exhausted.take()
    }

    /// Appends to the printf buffer; `total` is the text's length before any cut.
    pub fn print(&mut self, text: &[u8], total: u64) {
        self.printf.append(&mut self.memory, text, total);
    }

    /// Points printf at another buffer; `false` when it cannot be one.
    pub fn rebind_printf(&mut self, window: MapWindow) -> bool {
        match PrintfBuffer::bind(&mut self.memory, window) {
            Some(buffer) => {
                self.printf = buffer;
                true
            }
            None => false,
        }
    }

    /// Empties the printf buffer.
    pub fn reset_printf(&mut self) {
        self.printf.reset(&mut self.memory);
    }

    /// The printf buffer's fill.
    pub fn printf(&self) -> &PrintfBuffer {
        &self.printf
    }

    /// Names the constants that module code may ask for.
    pub fn set_constants(&mut self, address: u64, count: usize) {
        self.constants = (address, count);
    }

    /// Drops what a module's registers hold and forgets the register file; returns the number of objects freed.
    pub fn drop_registers(this: &Rc<RefCell<Self>>, handle: u32) -> i32 {
        let activation = Self::activate(this, handle);
        let freed = objects::clean_registers();
        this.borrow_mut().registers.remove(&handle);
        drop(activation);
        freed
    }

    /// Whether a module's register file, when it has one, lies in memory that is in use.
    pub(crate) fn registers_live(&self, handle: u32) -> bool {
        self.registers.get(&handle).is_none_or(|file| {
            let size = file.count as u64 * size_of::<Any>() as u64;
            self.main.holds(file.address, size) || self.fast.holds(file.address, size)
        })
    }

    /// Bytes an owner holds in both pools.
    pub(crate) fn owned_by(&self, owner: Owner) -> u64 {
        self.main.owned_by(owner) + self.fast.owned_by(owner)
    }

    /// Forgets the names a module registered.
    pub fn drop_symbols(&mut self, handle: u32) {
        self.symbols.retain(|(owner, _, _)| *owner != handle);
    }

    /// The memory and the MAIN pool's bookkeeping, both at once.
    pub(crate) fn memory_and_main(&mut self) -> (&mut Memory, &mut Pool) {
        (&mut self.memory, &mut self.main)
    }

    /// Writes a struct of the ABI to a device address; `None` when it does not lie inside memory or is misaligned there.
    pub(crate) fn place<T: Copy>(&mut self, address: u64, value: T) -> Option<()> {
        let room = self.memory.bytes_mut(address, size_of::<T>() as u64)?.as_mut_ptr().cast::<T>();
        // SAFETY: the room was just checked to be `size_of::<T>()` bytes of memory, and its alignment is checked here.
        room.is_aligned().then(|| unsafe { room.write(value) })
    }

    /// Reads a struct of the ABI at a device address; `None` when it does not lie inside memory or is misaligned there.
    pub(crate) fn fetch<T: Abi>(&self, address: u64) -> Option<T> {
        let from = self.memory.bytes(address, size_of::<T>() as u64)?.as_ptr().cast::<T>();
        // SAFETY: as in `place`; `Abi` types are valid for every bit pattern.
        from.is_aligned().then(|| unsafe { from.read() })
    }

    /// Writes dimensions to a device address.
    pub(crate) fn write_dims(&mut self, address: u64, dims: &[i64]) -> Option<()> {
        let to = self.memory.bytes_mut(address, size_of_val(dims) as u64)?;
        for (slot, dim) in to.chunks_exact_mut(8).zip(dims) {
            slot.copy_from_slice(&dim.to_le_bytes());
        }
        Some(())
    }

    /// Reads at most `most` dimensions at a device address.
    pub(crate) fn read_dims(&self, address: u64, count: usize) -> Option<Vec<i64>> {
        let from = self.memory.bytes(address, (count * 8) as u64)?;
        Some(from.chunks_exact(8).map(|chunk| i64::from_le_bytes(chunk.try_into().unwrap_or([0; 8]))).collect())
    }

    /// Bytes free in MAIN and FAST.
    pub fn free_bytes(&self) -> (u64, u64) {
        (self.main.free_bytes(), self.fast.free_bytes())
    }
}

/// A struct of the ABI whose every bit pattern is a value (a null or wild pointer is one, as long as nobody follows it).
///
/// # Safety
/// Holds for the implementing type.
pub(crate) unsafe trait Abi: Copy {}
// SAFETY: integers only.
unsafe impl Abi for Any {}

/// A tensor's head as the service reads it back: without the deleter, whose function pointer has invalid patterns.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct TensorHead {
    type_index: i32,
    ref_counter: i32,
    deleter: u64,
    pub data: u64,
    device: [i32; 2],
    pub ndim: i32,
    pub dtype: DataType,
    pub shape: u64,
    strides: u64,
    pub byte_offset: u64,
}
// SAFETY: integers only.
unsafe impl Abi for TensorHead {}

/// An array's head as the service reads it back.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct ArrayHead {
    object: [u64; 2],
    pub size: i32,
    padding: u32,
}
// SAFETY: integers only.
unsafe impl Abi for ArrayHead {}

/// Appends what module code prints to the active runtime's buffer; `total` is the text's length before any cut.
pub(crate) fn print(text: &[u8], total: u64) {
    with(|runtime| runtime.print(text, total));
}

/// Prints a line on behalf of the runtime.
fn complain(line: &str) {
    print(line.as_bytes(), line.len() as u64);
}

/// The dimensions behind a C pointer; `None` for a null pointer or an impossible count.
///
/// # Safety
/// `shape` is null or points at `ndim` readable integers.
unsafe fn dims<'a>(shape: *const i64, ndim: i32, most: usize) -> Option<&'a [i64]> {
    let count = usize::try_from(ndim).ok().filter(|count| *count <= most)?;
    if count == 0 {
        return Some(&[]);
    }
    // SAFETY: promised by the caller; null is excluded here.
    (!shape.is_null()).then(|| unsafe { core::slice::from_raw_parts(shape, count) })
}

/// The arguments of a packed call.
///
/// # Safety
/// `args` points at `count` values, or `count` is not positive.
unsafe fn arguments<'a>(args: *const Any, count: i32) -> &'a [Any] {
    let count = usize::try_from(count).unwrap_or(0);
    if args.is_null() || count == 0 {
        return &[];
    }
    // SAFETY: promised by the caller.
    unsafe { core::slice::from_raw_parts(args, count) }
}

/// The element type of index data.
const INT64: DataType = DataType { code: 0, bits: 64, lanes: 1 };
