//! Platform services for module code: memory, caches, constants, L2, and what TIDL builds ask for.

use super::with;
use crate::abi::{Any, pointer};
use crate::pool::{Owner, PoolId};
use core::ffi::{CStr, c_char, c_void};
use outboard_wire::SharedMap;

/// Allocates for the running module until it is unloaded.
fn for_module(pool: PoolId, size: u64, align: u64) -> *mut c_void {
    let address = with(|runtime| {
        let owner = Owner::Module(runtime.active());
        runtime.allocate(pool, size, align, owner)
    });
    address.flatten().map_or(core::ptr::null_mut(), pointer)
}

pub(super) extern "C" fn dsp_alloc(size: usize, align: usize, pool: i32) -> *mut c_void {
    if size == 0 {
        return core::ptr::null_mut();
    }
    for_module(if pool == PoolId::Fast as i32 { PoolId::Fast } else { PoolId::Main }, size as u64, align as u64)
}

pub(super) extern "C" fn dsp_free(memory: *mut c_void) {
    if !memory.is_null() && with(|runtime| runtime.release(memory.addr() as u64)) != Some(true) {
        super::complain("ERROR: a free of memory that was never allocated, or twice\n");
    }
}

pub(super) extern "C" fn heap_alloc(size: usize) -> *mut c_void {
    for_module(PoolId::Main, size.max(1) as u64, 64)
}

pub(super) extern "C" fn heap_calloc(count: usize, size: usize) -> *mut c_void {
    // Pool memory is handed out zeroed.
    count.checked_mul(size).map_or(core::ptr::null_mut(), |bytes| heap_alloc(bytes))
}

pub(super) extern "C" fn free_memory(pool: i32) -> usize {
    let (main, fast) = with(|runtime| runtime.free_bytes()).unwrap_or((0, 0));
    usize::try_from(if pool == PoolId::Fast as i32 { fast } else { main }).unwrap_or(usize::MAX)
}

/// The caches of this device are coherent: nothing to do.
pub(super) extern "C" fn cache_range(_start: *mut c_void, _size: usize) {}

pub(super) extern "C" fn cache_range_typed(_start: *mut c_void, _size: u32, _kind: u32) {}

pub(super) extern "C" fn cache_all() {}

pub(super) extern "C" fn cache_region(_start: *mut c_void, _size: u32) -> i32 {
    0
}

pub(super) extern "C" fn l2_base() -> *mut u8 {
    pointer(SharedMap::L2.base)
}

pub(super) extern "C" fn l2_size() -> u32 {
    u32::try_from(SharedMap::L2.size).unwrap_or(u32::MAX)
}

pub(super) extern "C" fn get_constant(index: i32) -> *mut Any {
    let mut count = 0;
    // SAFETY: the local is room for the count.
    let all = unsafe { get_all_constants(&raw mut count) };
    let index = usize::try_from(index).unwrap_or(usize::MAX);
    if index < usize::try_from(count).unwrap_or(0) { all.wrapping_add(index) } else { core::ptr::null_mut() }
}

pub(super) unsafe extern "C" fn get_all_constants(count: *mut i32) -> *mut Any {
    let (address, number) = with(|runtime| runtime.constants).unwrap_or((0, 0));
    if !count.is_null() {
        // SAFETY: module code passes room for the count.
        unsafe { count.write(i32::try_from(number).unwrap_or(0)) };
    }
    if number == 0 { core::ptr::null_mut() } else { pointer(address) }
}

pub(super) extern "C" fn udma_object() -> *mut c_void {
    core::ptr::null_mut()
}

pub(super) extern "C" fn app_mem_alloc(_heap: u32, size: u32, align: u32) -> *mut c_void {
    if size == 0 {
        return core::ptr::null_mut();
    }
    let address = with(|runtime| {
        let owner = Owner::Driver(runtime.active());
        runtime.allocate(PoolId::Main, size.into(), align.into(), owner)
    });
    address.flatten().map_or(core::ptr::null_mut(), pointer)
}

pub(super) extern "C" fn app_mem_free(_heap: u32, memory: *mut c_void, _size: u32) -> i32 {
    if with(|runtime| runtime.release(memory.addr() as u64)) == Some(true) { 0 } else { -1 }
}

pub(super) extern "C" fn lock_interrupts() -> i32 {
    0
}

pub(super) extern "C" fn unlock_interrupts(_old: i32) {}

pub(super) unsafe extern "C" fn trace_message(text: *const c_char) {
    if !text.is_null() {
        // SAFETY: module code passes zero-terminated text.
        let text = unsafe { CStr::from_ptr(text) }.to_bytes();
        with(|runtime| runtime.print(text, text.len() as u64));
    }
}

/// Start of L1 as memory.
pub(super) static L1_ADDRESS: u64 = SharedMap::L1.base;
/// Bytes of L1 as memory.
pub(super) static L1_SIZE: u32 = 16 * 1024;
/// Start of L2.
pub(super) static L2_ADDRESS: u64 = SharedMap::L2.base;
/// Bytes of L2.
pub(super) static L2_SIZE: u32 = 0x14_0000;
/// Start of what TIDL calls L3: the L2 auxiliary memory.
pub(super) static L3_ADDRESS: u64 = SharedMap::L2_AUX.base;
/// Bytes of it.
pub(super) static L3_SIZE: u32 = 240 * 1024;

/// `memcpy` for module code.
pub(super) unsafe extern "C" fn memcpy(to: *mut c_void, from: *const c_void, bytes: usize) -> *mut c_void {
    // SAFETY: module code passes ranges as C demands; wrong ones fault in the device's process.
    unsafe { core::ptr::copy_nonoverlapping(from.cast::<u8>(), to.cast::<u8>(), bytes) };
    to
}

/// `memmove` for module code.
pub(super) unsafe extern "C" fn memmove(to: *mut c_void, from: *const c_void, bytes: usize) -> *mut c_void {
    // SAFETY: as for `memcpy`; the ranges may overlap.
    unsafe { core::ptr::copy(from.cast::<u8>(), to.cast::<u8>(), bytes) };
    to
}

/// `memset` for module code.
pub(super) unsafe extern "C" fn memset(to: *mut c_void, value: i32, bytes: usize) -> *mut c_void {
    let [byte, ..] = value.to_le_bytes();
    // SAFETY: as for `memcpy`.
    unsafe { core::ptr::write_bytes(to.cast::<u8>(), byte, bytes) };
    to
}

/// `memcmp` for module code.
pub(super) unsafe extern "C" fn memcmp(a: *const c_void, b: *const c_void, bytes: usize) -> i32 {
    if bytes == 0 {
        return 0;
    }
    // SAFETY: as for `memcpy`.
    let (a, b) = unsafe {
        (core::slice::from_raw_parts(a.cast::<u8>(), bytes), core::slice::from_raw_parts(b.cast::<u8>(), bytes))
    };
    a.cmp(b) as i32
}
