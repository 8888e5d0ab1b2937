//! What every operation of this folder needs besides its kernels.
#![no_std]

/// Ends a kernel that panics like any failed assertion.
#[cfg(target_arch = "xtensa")]
#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    customop::kernel::panicked(info)
}

/// A row of the kernel table: which function executes an instruction.
#[repr(C)]
pub struct KernelRow {
    zeros: [u8; 2],
    spec: u8,
    opcode: u8,
    function: extern "C" fn() -> i32,
}

impl KernelRow {
    /// The row of extended instruction `spec`.
    pub const fn extended(spec: u8, function: extern "C" fn() -> i32) -> Self {
        Self { zeros: [0; 2], spec, opcode: 0xf0, function }
    }
}

/// The elements of core `core` among `cores`: first and number. The last one takes what is left.
pub const fn share(elements: u32, core: u32, cores: u32) -> (u32, u32) {
    let part = elements / cores;
    let first = part * core;
    (first, if core + 1 == cores { elements - first } else { part })
}
