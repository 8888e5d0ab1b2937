//! Test programs for the device that print what the same code prints natively.
//!
//! Each module is one program: `run` writes lines to [`Out`]. On the device `program_NAME` is its entry, natively the binary
//! takes the name. No program depends on the width of a pointer or on anything else that differs between the two.
#![no_std]

extern crate alloc;

mod arithmetic;
mod boxes;
mod checksums;
mod copies;
#[cfg(target_arch = "xtensa")]
mod device;
mod floats;
mod jumps;
mod recursion;
mod sorting;

use core::fmt::{Arguments, Write};

unsafe extern "C" {
    fn sys_write(file: i32, bytes: *const u8, count: usize) -> isize;
}

/// Standard output.
pub struct Out;

impl Write for Out {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        // SAFETY: the bytes are those of `text`.
        unsafe { sys_write(1, text.as_ptr(), text.len()) };
        Ok(())
    }
}

/// Writes a line.
fn line(arguments: Arguments<'_>) {
    // `Out` never fails.
    let _ = writeln!(Out, "{arguments}");
}

macro_rules! programs {
    ($($name:ident $entry:ident),*) => {
        $(
            /// The program of this name, as the device enters it.
            #[unsafe(no_mangle)]
            pub extern "C" fn $entry() -> i32 {
                $name::run();
                0
            }
        )*

        /// The programs by name.
        pub const PROGRAMS: &[(&str, extern "C" fn() -> i32)] = &[$((stringify!($name), $entry)),*];
    };
}

programs! {
    arithmetic program_arithmetic,
    boxes program_boxes,
    checksums program_checksums,
    copies program_copies,
    floats program_floats,
    jumps program_jumps,
    recursion program_recursion,
    sorting program_sorting
}

/// A small generator of numbers (xorshift), the same everywhere.
struct Numbers(u32);

impl Numbers {
    fn next(&mut self) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 17;
        self.0 ^= self.0 << 5;
        self.0
    }

    fn next64(&mut self) -> u64 {
        u64::from(self.next()) << 32 | u64::from(self.next())
    }
}
