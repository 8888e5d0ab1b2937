//! The C library of the simulated device, as far as modules may import it: output, formatting, `libm`.
//!
//! Output never reaches a file or terminal: every stream is the printf buffer. Formatting and mathematics are the host's.

use crate::runtime::exports::exports;
use crate::runtime::{Export, print};
use core::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;
use std::time::Instant;

unsafe extern "C" {
    fn outboard_printf(format: *const c_char, ...) -> c_int;
    fn outboard_fprintf(stream: *mut c_void, format: *const c_char, ...) -> c_int;
    fn outboard_log(format: *const c_char, ...);
    // The va_list arguments of these are never spelled out here: only their addresses are used.
    fn outboard_vprintf();
    fn outboard_vfprintf();
    fn snprintf(to: *mut c_char, room: usize, format: *const c_char, ...) -> c_int;
    fn vsnprintf();
}

/// What `stdout` and `stderr` of a module point at.
#[repr(transparent)]
struct Stream(*const u8);
// SAFETY: the pointers are only compared, never followed.
unsafe impl Sync for Stream {}

static OUT_TOKEN: u8 = 1;
static ERR_TOKEN: u8 = 2;
static STDOUT: Stream = Stream(&raw const OUT_TOKEN);
static STDERR: Stream = Stream(&raw const ERR_TOKEN);

#[unsafe(no_mangle)]
extern "C" fn outboard_is_stream(stream: *const c_void) -> c_int {
    c_int::from(stream == STDOUT.0.cast() || stream == STDERR.0.cast())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn outboard_emit(text: *const c_char, length: usize, total: usize) {
    // SAFETY: the C side passes `length` formatted bytes.
    print(unsafe { core::slice::from_raw_parts(text.cast::<u8>(), length) }, total as u64);
}

/// The bytes of zero-terminated text; empty for null.
///
/// # Safety
/// `text` is null or zero-terminated.
unsafe fn bytes<'a>(text: *const c_char) -> &'a [u8] {
    // SAFETY: promised by the caller; null is excluded.
    if text.is_null() { b"(null)" } else { unsafe { CStr::from_ptr(text) }.to_bytes() }
}

fn emit(text: &[u8]) {
    print(text, text.len() as u64);
}

unsafe extern "C" fn puts(text: *const c_char) -> c_int {
    // SAFETY: module code passes zero-terminated text.
    emit(unsafe { bytes(text) });
    emit(b"\n");
    1
}

unsafe extern "C" fn fputs(text: *const c_char, stream: *const c_void) -> c_int {
    if outboard_is_stream(stream) == 0 {
        return -1;
    }
    // SAFETY: module code passes zero-terminated text.
    emit(unsafe { bytes(text) });
    1
}

extern "C" fn putchar(character: c_int) -> c_int {
    let [byte, ..] = character.to_le_bytes();
    emit(&[byte]);
    c_int::from(byte)
}

extern "C" fn fputc(character: c_int, stream: *const c_void) -> c_int {
    if outboard_is_stream(stream) == 0 { -1 } else { putchar(character) }
}

unsafe extern "C" fn fwrite(from: *const c_void, size: usize, count: usize, stream: *const c_void) -> usize {
    let Some(length) = size.checked_mul(count).filter(|length| *length > 0) else { return 0 };
    if outboard_is_stream(stream) == 0 || from.is_null() {
        return 0;
    }
    // SAFETY: module code passes `size · count` readable bytes.
    emit(unsafe { core::slice::from_raw_parts(from.cast::<u8>(), length) });
    count
}

extern "C" fn fflush(_stream: *mut c_void) -> c_int {
    0
}

extern "C" fn device_abort() -> ! {
    std::process::abort()
}

unsafe extern "C" fn assert_fail(what: *const c_char, file: *const c_char, line: u32, function: *const c_char) -> ! {
    // SAFETY: the compiler passes zero-terminated texts.
    let text = unsafe { [bytes(file), bytes(what), bytes(function)].map(std::string::String::from_utf8_lossy) };
    emit(std::format!("{}:{line}: {}: assertion `{}` failed\n", text[0], text[2], text[1]).as_bytes());
    std::process::abort()
}

macro_rules! libm {
    ($($name:ident)*) => {
        unsafe extern "C" { $(fn $name();)* }

        /// The `libm` functions modules may import; only their addresses are used.
        fn libm() -> std::vec::Vec<Export> {
            std::vec![$(Export {
                name: stringify!($name),
                address: ($name as *const ()).expose_provenance() as u64,
            }),*]
        }
    };
}

libm! {
    acosf acoshf asinf asinhf atan2f atanf atanhf cbrtf ceilf copysignf cosf coshf erfcf erff exp10f exp2f expf expm1f
    fabsf fdimf floorf fmaf fmaxf fminf fmodf frexpf hypotf ldexpf lgammaf log10f log1pf log2f logf lrintf lroundf llrintf
    llroundf modff nearbyintf nextafterf powf remainderf rintf roundf roundevenf scalbnf sinf sinhf sqrtf tanf tanhf tgammaf
    truncf
    acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp10 exp2 expm1 fabs fdim floor fma
    fmax fmin fmod frexp hypot ldexp lgamma log log10 log1p log2 lrint lround llrint llround modf nearbyint nextafter pow
    remainder rint round roundeven scalbn sin sinh sqrt tan tanh tgamma trunc
}

/// Cycles of the device's clock since the first call: what the layer profile of a module counts in.
extern "C" fn cycles() -> u64 {
    static FIRST: OnceLock<Instant> = OnceLock::new();
    super::machine::cycles_of(FIRST.get_or_init(Instant::now).elapsed())
}

/// Everything this file exports to modules.
pub(super) fn table() -> std::vec::Vec<Export> {
    let mut all = libm();
    all.extend(exports! {
        "printf" => outboard_printf,
        "vprintf" => outboard_vprintf,
        "fprintf" => outboard_fprintf,
        "vfprintf" => outboard_vfprintf,
        "puts" => puts,
        "fputs" => fputs,
        "putchar" => putchar,
        "fputc" => fputc,
        "putc" => fputc,
        "fwrite" => fwrite,
        "fflush" => fflush,
        "snprintf" => snprintf,
        "vsnprintf" => vsnprintf,
        "abort" => device_abort,
        "__assert_fail" => assert_fail,
        "tvm_dsp_log" => outboard_log,
        "DebugP_log" => outboard_log,
        "outboard_cycles" => cycles,
        variables:
        "stdout" => STDOUT,
        "stderr" => STDERR,
    });
    all
}
