//! The attribute [`macro@kernel`]: a function of a device program becomes a row of the kernel table, by which the device finds it.
//!
//! The attribute needs no crate on the device: it adds a constant of eight bytes in the section `kernel_info_table`, which
//! `outboard link --shape pi` collects (`docs/reference/gpsimd-link.md`).
#![forbid(unsafe_code)]

mod declaration;

use proc_macro::TokenStream;

/// Binds a function to an opcode.
///
/// `opcode` is that of the instruction that runs it; `spec` is the extended opcode, for opcode 0xF0 only. The function is
/// `extern "C"`, has no generics, and begins with `entry`, as every function of the windowed ABI does.
///
/// ```
/// # use outboard_kernel_macro::kernel;
/// /// Doubles.
/// #[kernel(opcode = 0x7e)]
/// extern "C" fn double(value: u32) -> u32 {
///     2 * value
/// }
///
/// #[kernel(opcode = 0xf0, spec = 2)]
/// unsafe extern "C" fn add(left: u32, right: u32) -> u32 {
///     left + right
/// }
///
/// assert_eq!(double(21), 42);
/// ```
///
/// What cannot be a kernel does not compile:
///
/// ```compile_fail
/// # use outboard_kernel_macro::kernel;
/// #[kernel(opcode = 0x7e, spec = 2)] // only 0xf0 has extended opcodes
/// extern "C" fn double() {}
/// ```
///
/// ```compile_fail
/// # use outboard_kernel_macro::kernel;
/// #[kernel(opcode = 256)]
/// extern "C" fn double() {}
/// ```
///
/// ```compile_fail
/// # use outboard_kernel_macro::kernel;
/// #[kernel(opcode = 0x7e)]
/// fn rust_abi() {}
/// ```
#[proc_macro_attribute]
pub fn kernel(attribute: TokenStream, item: TokenStream) -> TokenStream {
    match declaration::expand(attribute.into_iter().collect(), item.clone().into_iter().collect()) {
        Ok(row) => item.into_iter().chain(row).collect(),
        Err(problem) => item.into_iter().chain(problem.tokens()).collect(),
    }
}
