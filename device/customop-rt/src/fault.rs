//! How the runtime ends when something is wrong: with a text that names file and line, and a trap.

use core::panic::PanicInfo;

unsafe extern "C" {
    /// Stops the core; the simulator reads the text.
    fn _outboard_trap(text: *const u8, length: usize) -> !;
}

/// Ends with a text.
#[cold]
#[inline(never)]
pub(crate) fn fail(text: &'static str) -> ! {
    // SAFETY: the routine only reads its arguments, and does not return.
    unsafe { _outboard_trap(text.as_ptr(), text.len()) }
}

/// Ends unless a condition holds, with the place and the condition as the original prints them.
macro_rules! device_assert {
    ($condition:expr, $text:literal) => {
        if !$condition {
            crate::fault::fail($text);
        }
    };
}
pub(crate) use device_assert;

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    // Formatting would cost a quarter of a resident library's code.
    match info.message().as_str() {
        Some(text) => fail(text),
        None => fail("panic"),
    }
}
