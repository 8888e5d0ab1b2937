//! `libc7x_arm_runtime.so`: the C functions of the published client library, over any device.
//!
//! Every function is declared, with its contract, in `include/c7x_compute_client.h`; `docs/reference/c-api.md` says how they relate
//! to the original. Nothing here unwinds into C, nothing is written to standard output, and no pointer is followed before it was
//! compared with NULL; that it is valid otherwise is the caller's promise, which is what makes the functions unsafe.

mod call;
mod guard;
mod program;

use call::Arguments;
use guard::{fail, guarded, last_message, say, store, with_client};
use outboard_host::client::{Client, ClientError, DeviceName, Shortage};
use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Mutex;

/// Room that the functions without a capacity expect behind their outputs.
pub const C7X_MAX_OUTPUTS: usize = 64;

/// A connection to a device.
#[allow(non_camel_case_types, reason = "the name is that of the C header")]
pub struct c7x_client {
    client: Mutex<Client>,
}

/// Answer to GET_STATUS.
#[allow(non_camel_case_types, reason = "the name is that of the C header")]
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct c7x_status_t {
    /// 0xMMmmpp.
    pub version: u32,
    /// Milliseconds since the service started; wraps.
    pub uptime_ms: u32,
    /// Calls that succeeded.
    pub jobs_completed: u32,
    /// Calls whose module failed.
    pub jobs_failed: u32,
}

/// A tensor of a call.
#[allow(non_camel_case_types, reason = "the name is that of the C header")]
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct c7x_tensor_desc_t {
    /// First element.
    pub data: *mut c_void,
    /// Bytes of data.
    pub data_size: usize,
    /// Number of dimensions.
    pub ndim: i32,
    /// DLPack's code of the element kind.
    pub dtype_code: i32,
    /// Bits of an element.
    pub dtype_bits: i32,
    /// Position in the tuple of outputs; 0 in inputs.
    pub reserved: i32,
    /// Dimensions.
    pub shape: [i64; 6],
}

const _: () = {
    assert!(size_of::<c7x_tensor_desc_t>() == 80);
    assert!(std::mem::offset_of!(c7x_tensor_desc_t, data_size) == 8);
    assert!(std::mem::offset_of!(c7x_tensor_desc_t, ndim) == 16);
    assert!(std::mem::offset_of!(c7x_tensor_desc_t, dtype_code) == 20);
    assert!(std::mem::offset_of!(c7x_tensor_desc_t, dtype_bits) == 24);
    assert!(std::mem::offset_of!(c7x_tensor_desc_t, shape) == 32);
    assert!(size_of::<c7x_status_t>() == 16);
};

/// C programs may use a client from several threads.
const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<c7x_client>();
};

/// Connects to the device that the environment names. NULL when that fails; the message is on standard error.
#[unsafe(no_mangle)]
pub extern "C" fn c7x_client_open() -> *mut c7x_client {
    guarded(std::ptr::null_mut(), || {
        let opened = DeviceName::from_environment().and_then(|device| Client::open(&device, program::find()));
        match opened {
            Ok(client) => {
                say(&format!("Connected to {}", client.device()));
                Box::into_raw(Box::new(c7x_client { client: Mutex::new(client) }))
            }
            Err(error) => {
                fail("open", &error);
                std::ptr::null_mut()
            }
        }
    })
}

/// Ends a connection.
///
/// # Safety
/// `client` is NULL or came from [`c7x_client_open`] and is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn c7x_client_close(client: *mut c7x_client) {
    guarded((), || {
        if client.is_null() {
            return;
        }
        // SAFETY: it is a box of `c7x_client_open`, and the caller gives it up.
        let client = unsafe { Box::from_raw(client) };
        let client = client.client.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        let device = client.device().to_owned();
        match client.close() {
            Ok(()) => say(&format!("Disconnected from {device}")),
            Err(error) => {
                fail("close", &error);
            }
        }
    });
}

/// Asks for version and uptime.
///
/// # Safety
/// `client` is NULL or open; the other pointers are NULL or valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn c7x_client_ping(client: *mut c7x_client, version: *mut u32, uptime_ms: *mut u32) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        with_client(client, "ping", |client| {
            let pong = client.ping()?;
            store(version, pong.version.0);
            store(uptime_ms, wrapped(pong.uptime));
            Ok(())
        })
    }
}

/// Milliseconds as the wire counts them.
#[allow(clippy::cast_possible_truncation, reason = "the counter of the protocol wraps")]
fn wrapped(uptime: std::time::Duration) -> u32 {
    uptime.as_millis() as u32
}

/// Asks for the job counters.
///
/// # Safety
/// `client` is NULL or open; `status` is NULL or valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn c7x_client_get_status(client: *mut c7x_client, status: *mut c7x_status_t) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        with_client(client, "get_status", |client| {
            if status.is_null() {
                return Err(ClientError::Arguments("status is NULL".to_owned()));
            }
            let counters = client.status()?;
            let answer = c7x_status_t {
                version: counters.version.0,
                uptime_ms: wrapped(counters.uptime),
                jobs_completed: counters.jobs_completed,
                jobs_failed: counters.jobs_failed,
            };
            store(status, answer);
            Ok(())
        })
    }
}

/// Whether the last load or call ended for want of memory, and the bytes of the pool.
///
/// # Safety
/// `client` is NULL or open; the other pointers are NULL or valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn c7x_client_get_last_oom(
    client: *mut c7x_client,
    requested: *mut u32,
    free_bytes: *mut u32,
    total: *mut u32,
) -> c_int {
    // SAFETY: the caller's promise.
    let shortage = unsafe { guard::read(client, None, |client| client.last_shortage()) };
    let Some(Shortage { requested: asked, free, total: all }) = shortage else { return 0 };
    // SAFETY: the caller's promise.
    unsafe {
        store(requested, asked);
        store(free_bytes, free);
        store(total, all);
    }
    1
}

/// The input buffer and its size.
///
/// # Safety
/// `client` is NULL or open; `size` is NULL or valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn c7x_client_get_input_buffer(client: *mut c7x_client, size: *mut usize) -> *mut c_void {
    // SAFETY: the caller's promise.
    unsafe { give(guard::read(client, None, Client::input_buffer), size) }
}

/// The output buffer and its size.
///
/// # Safety
/// `client` is NULL or open; `size` is NULL or valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn c7x_client_get_output_buffer(client: *mut c7x_client, size: *mut usize) -> *mut c_void {
    // SAFETY: the caller's promise.
    unsafe { give(guard::read(client, None, Client::output_buffer), size) }
}

/// Gives a window away; without one, NULL and size 0.
///
/// # Safety
/// `size` is NULL or valid for writes.
unsafe fn give(window: Option<(*mut u8, usize)>, size: *mut usize) -> *mut c_void {
    let (start, len) = window.unwrap_or((std::ptr::null_mut(), 0));
    // SAFETY: the caller's promise.
    unsafe { store(size, len) };
    start.cast()
}

/// First byte of the input buffer that tensors may use.
///
/// # Safety
/// `client` is NULL or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn c7x_client_get_input_data_offset(client: *mut c7x_client) -> usize {
    // SAFETY: the caller's promise.
    let offset = unsafe { guard::read(client, 0, |client| client.input_data_offset()) };
    usize::try_from(offset).unwrap_or(usize::MAX)
}

/// Size of the input buffer.
///
/// # Safety
/// `client` is NULL or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn c7x_client_input_capacity(client: *mut c7x_client) -> usize {
    // SAFETY: the caller's promise.
    unsafe { guard::read(client, 0, |client| client.input_capacity()) }
}

/// What the module of the last load declares.
///
/// # Safety
/// `client` is NULL or open; the other pointers are NULL or valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn c7x_client_get_io_meta(
    client: *mut c7x_client,
    input_bytes: *mut u64,
    output_bytes: *mut u64,
    num_inputs: *mut u32,
    num_outputs: *mut u32,
    flags: *mut u32,
) {
    // SAFETY: the caller's promise.
    let io = unsafe { guard::read(client, None, |client| client.io().copied()) };
    // SAFETY: the caller's promise.
    unsafe {
        store(input_bytes, io.map_or(0, |io| io.input_bytes));
        store(output_bytes, io.map_or(0, |io| io.output_bytes));
        store(num_inputs, io.map_or(0, |io| io.num_inputs));
        store(num_outputs, io.map_or(0, |io| io.num_outputs));
        store(flags, io.map_or(0, |io| u32::from(io.exact)));
    }
}

/// Makes the buffers at least this large.
///
/// # Safety
/// `client` is NULL or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn c7x_client_reserve_io(client: *mut c7x_client, input_bytes: u64, output_bytes: u64) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { with_client(client, "reserve_io", |client| client.reserve_io(input_bytes, output_bytes)) }
}

/// Loads weights.
///
/// # Safety
/// `client` is NULL or open; `path` is NULL or a C string; `model_id` is NULL or valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn c7x_client_model_load(
    client: *mut c7x_client,
    path: *const c_char,
    model_id: *mut u32,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        with_client(client, "model_load", |client| {
            let path = file(path, model_id)?;
            let model = client.load_model(path)?;
            store(model_id, model.id);
            say(&format!("Loaded model id={} ({} constants)", model.id, model.constants));
            Ok(())
        })
    }
}

/// Unloads weights.
///
/// # Safety
/// `client` is NULL or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn c7x_client_model_unload(client: *mut c7x_client, model_id: u32) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { with_client(client, "model_unload", |client| client.unload_model(model_id)) }
}

/// Loads a module.
///
/// # Safety
/// `client` is NULL or open; `path` is NULL or a C string; `handle` is NULL or valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn c7x_client_dyn_load(client: *mut c7x_client, path: *const c_char, handle: *mut u32) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        with_client(client, "dyn_load", |client| {
            let path = file(path, handle)?;
            let loaded = client.load(path)?;
            store(handle, loaded);
            say(&format!("Loaded module handle={loaded}"));
            match client.io() {
                Some(io) => say(&format!(
                    "IO meta: {} input(s) in {} bytes, {} output(s) in {} bytes",
                    io.num_inputs, io.input_bytes, io.num_outputs, io.output_bytes
                )),
                None => say("IO meta: none"),
            }
            for warning in client.warnings(loaded) {
                say(&format!("warning: {warning}"));
            }
            Ok(())
        })
    }
}

/// Unloads a module.
///
/// # Safety
/// `client` is NULL or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn c7x_client_dyn_unload(client: *mut c7x_client, handle: u32) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        with_client(client, "dyn_unload", |client| {
            client.unload(handle)?;
            say(&format!("Unloaded module handle={handle}"));
            Ok(())
        })
    }
}

/// The path of a file, when there is somewhere to put the number it gets.
///
/// # Safety
/// `path` is NULL or a C string that lives as long as the result.
unsafe fn file<'a>(path: *const c_char, number: *mut u32) -> Result<&'a Path, ClientError> {
    if path.is_null() || number.is_null() {
        return Err(ClientError::Arguments("the path, or the pointer for the number, is NULL".to_owned()));
    }
    // SAFETY: the caller's promise.
    let path = unsafe { CStr::from_ptr(path) };
    Ok(Path::new(OsStr::from_bytes(path.to_bytes())))
}

/// Calls a module once.
///
/// # Safety
/// As [`c7x_client_infer_n`], with room for [`C7X_MAX_OUTPUTS`] outputs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn c7x_client_infer(
    client: *mut c7x_client,
    handle: u32,
    model_id: u32,
    inputs: *const c7x_tensor_desc_t,
    num_inputs: c_int,
    outputs: *mut c7x_tensor_desc_t,
    num_outputs: *mut c_int,
    cycles: *mut u64,
) -> c_int {
    let arguments = Arguments {
        handle,
        model: model_id,
        inputs,
        num_inputs,
        outputs,
        capacity: C7X_MAX_OUTPUTS,
        num_outputs,
        cycles,
        flags: 0,
    };
    // SAFETY: the caller's promise.
    unsafe { call::infer(client, &arguments) }
}

/// Calls a module, which runs `repeat` times.
///
/// # Safety
/// As [`c7x_client_infer`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn c7x_client_infer_repeat(
    client: *mut c7x_client,
    handle: u32,
    model_id: u32,
    inputs: *const c7x_tensor_desc_t,
    num_inputs: c_int,
    outputs: *mut c7x_tensor_desc_t,
    num_outputs: *mut c_int,
    cycles: *mut u64,
    repeat: u32,
) -> c_int {
    let arguments = Arguments {
        handle,
        model: model_id,
        inputs,
        num_inputs,
        outputs,
        capacity: C7X_MAX_OUTPUTS,
        num_outputs,
        cycles,
        flags: repeat & 0xFFFF,
    };
    // SAFETY: the caller's promise.
    unsafe { call::infer(client, &arguments) }
}

/// Calls a module with the flags of the wire.
///
/// # Safety
/// As [`c7x_client_infer`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn c7x_client_infer_flags(
    client: *mut c7x_client,
    handle: u32,
    model_id: u32,
    inputs: *const c7x_tensor_desc_t,
    num_inputs: c_int,
    outputs: *mut c7x_tensor_desc_t,
    num_outputs: *mut c_int,
    cycles: *mut u64,
    flags: u32,
) -> c_int {
    let arguments = Arguments {
        handle,
        model: model_id,
        inputs,
        num_inputs,
        outputs,
        capacity: C7X_MAX_OUTPUTS,
        num_outputs,
        cycles,
        flags,
    };
    // SAFETY: the caller's promise.
    unsafe { call::infer(client, &arguments) }
}

/// Calls a module with the flags of the wire, for `capacity` outputs.
///
/// # Safety
/// `client` is NULL or open. `inputs` is NULL or an array of `num_inputs` descriptors whose data is readable, `outputs` NULL or an array of
/// `capacity` elements valid for writes; the other pointers are NULL or valid for writes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn c7x_client_infer_n(
    client: *mut c7x_client,
    handle: u32,
    model_id: u32,
    inputs: *const c7x_tensor_desc_t,
    num_inputs: c_int,
    outputs: *mut c7x_tensor_desc_t,
    capacity: c_int,
    num_outputs: *mut c_int,
    cycles: *mut u64,
    flags: u32,
) -> c_int {
    let capacity = usize::try_from(capacity).unwrap_or(0);
    let arguments =
        Arguments { handle, model: model_id, inputs, num_inputs, outputs, capacity, num_outputs, cycles, flags };
    // SAFETY: the caller's promise.
    unsafe { call::infer(client, &arguments) }
}

/// A piece of the input buffer for an input of a module; NULL when there is no room.
///
/// # Safety
/// `client` is NULL or open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn c7x_client_create_input(client: *mut c7x_client, handle: u32, bytes: usize) -> *mut c_void {
    let mut place = std::ptr::null_mut();
    // SAFETY: the caller's promise.
    unsafe {
        with_client(client, "create_input", |client| {
            place = client.create_input(handle, bytes)?.0;
            Ok(())
        });
    }
    place.cast()
}

/// Gives a piece of the input buffer to the device. From then on, calls refuse it while the host owns it.
///
/// # Safety
/// `client` is NULL or open. `data` is only compared.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn c7x_client_hand_over(client: *mut c7x_client, data: *const c_void) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { with_client(client, "hand_over", |client| client.hand_over(data.addr())) }
}

/// Gives a piece of the input buffer that was handed over to the host again.
///
/// # Safety
/// As [`c7x_client_hand_over`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn c7x_client_take_back(client: *mut c7x_client, data: *const c_void) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { with_client(client, "take_back", |client| client.take_back(data.addr())) }
}

/// The text of a number.
#[unsafe(no_mangle)]
pub extern "C" fn c7x_strerror(number: c_int) -> *const c_char {
    guard::text_of(number).as_ptr()
}

/// What the last failed function of this thread had to say.
#[unsafe(no_mangle)]
pub extern "C" fn c7x_last_error() -> *const c_char {
    guarded(c"".as_ptr(), last_message)
}
