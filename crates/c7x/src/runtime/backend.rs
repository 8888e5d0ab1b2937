//! The TVM C backend: workspace, function lookup, parallel launch; and DMA copies.

use super::packed::BUILTINS;
use super::{MAX_REGISTERED, complain, with};
use crate::abi::pointer;
use crate::pool::{Owner, PoolId};
use alloc::string::String;
use core::ffi::{CStr, c_char, c_void};

/// Channels of the DMA engine: a transfer on another queue fails, as on the device.
const DMA_CHANNELS: i32 = 1;

pub(super) extern "C" fn alloc_workspace(_type: i32, _id: i32, bytes: u64, _code: i32, _bits: i32) -> *mut c_void {
    let address = with(|runtime| {
        let owner = Owner::Run(runtime.active());
        runtime.allocate(PoolId::Main, bytes, 128, owner)
    });
    address.flatten().map_or(core::ptr::null_mut(), pointer)
}

pub(super) extern "C" fn free_workspace(_type: i32, _id: i32, workspace: *mut c_void) -> i32 {
    if !workspace.is_null() && with(|runtime| runtime.release(workspace.addr() as u64)) != Some(true) {
        complain("ERROR: TVMBackendFreeWorkspace of memory that was never allocated, or twice\n");
        return -1;
    }
    0
}

/// The text behind a C pointer; `None` for null or text that is not UTF-8.
///
/// # Safety
/// `text` is null or zero-terminated.
unsafe fn text<'a>(text: *const c_char) -> Option<&'a str> {
    // SAFETY: promised by the caller; null is excluded here.
    if text.is_null() { None } else { unsafe { CStr::from_ptr(text) }.to_str().ok() }
}

/// Looks a function up by name, among the builtins and what the module registered; stores its address. 0 or −1.
pub(super) unsafe extern "C" fn get_global(name: *const c_char, out: *mut *mut c_void) -> i32 {
    // SAFETY: module code passes a zero-terminated name and room for a pointer.
    let Some(name) = (unsafe { text(name) }) else { return -1 };
    let builtin = BUILTINS.iter().find(|(known, _)| *known == name).map(|(_, function)| *function as *const c_void);
    let found = builtin.map(<*const c_void>::cast_mut).or_else(|| {
        with(|runtime| {
            let active = runtime.active();
            let known = runtime.symbols.iter().find(|(owner, known, _)| *owner == active && known == name);
            known.map(|(_, _, address)| pointer(*address))
        })
        .flatten()
    });
    match found {
        Some(function) if !out.is_null() => {
            // SAFETY: as above.
            unsafe { out.write(function) };
            0
        }
        _ => -1,
    }
}

pub(super) unsafe extern "C" fn get_from_env(_module: *mut c_void, name: *const c_char, out: *mut *mut c_void) -> i32 {
    // SAFETY: the same promises.
    unsafe { get_global(name, out) }
}

pub(super) unsafe extern "C" fn register_symbol(name: *const c_char, symbol: *mut c_void) -> i32 {
    // SAFETY: module code passes a zero-terminated name.
    let Some(name) = (unsafe { text(name) }).filter(|_| !symbol.is_null()) else { return -1 };
    let stored = with(|runtime| {
        let room = runtime.symbols.len() < MAX_REGISTERED;
        if room {
            runtime.symbols.push((runtime.active(), String::from(name), symbol.addr() as u64));
        }
        room
    });
    if stored == Some(true) { 0 } else { -1 }
}

/// A task of a parallel launch.
type Task = unsafe extern "C" fn(i32, *mut c_void, *mut c_void) -> i32;

/// What a task is told about the launch.
#[repr(C)]
struct ParallelEnv {
    sync_handle: *mut c_void,
    num_task: i32,
}

/// Runs the tasks one after the other; the first that fails ends the launch.
pub(super) unsafe extern "C" fn parallel_launch(task: Option<Task>, data: *mut c_void, count: i32) -> i32 {
    let Some(task) = task else { return -1 };
    let count = count.max(1);
    let mut env = ParallelEnv { sync_handle: core::ptr::null_mut(), num_task: count };
    for id in 0..count {
        // SAFETY: module code passes its own task and that task's data.
        let code = unsafe { task(id, (&raw mut env).cast(), data) };
        if code != 0 {
            return code;
        }
    }
    0
}

pub(super) extern "C" fn parallel_barrier(_task: i32, _env: *mut c_void) -> i32 {
    0
}

/// Copies memory as a DMA channel would; −1 for a queue the engine has not, a negative size, or memory outside the map.
pub(super) extern "C" fn dma_copy(queue: i32, to: *mut c_void, from: *const c_void, size: i32, _bypass: i32) -> i32 {
    let Ok(len) = u64::try_from(size) else { return -1 };
    if !(0..DMA_CHANNELS).contains(&queue) {
        complain("ERROR: DMA on a queue that has no channel\n");
        return -1;
    }
    let copied = with(|runtime| runtime.memory.copy(to.addr() as u64, from.addr() as u64, len));
    if copied == Some(true) {
        return 0;
    }
    complain("ERROR: DMA outside the device's memory\n");
    -1
}

pub(super) extern "C" fn dma_wait(queue: i32, _in_flight: i32) -> i32 {
    if (0..DMA_CHANNELS).contains(&queue) { 0 } else { -1 }
}
