//! Runs one of the programs natively.

use std::io::Write;
use std::process::ExitCode;

/// The system call of the device, natively.
///
/// # Safety
///
/// `bytes` points to `count` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sys_write(_: i32, bytes: *const u8, count: usize) -> isize {
    // SAFETY: as the caller promises.
    let bytes = unsafe { core::slice::from_raw_parts(bytes, count) };
    std::io::stdout().write_all(bytes).map_or(-1, |()| count as isize)
}

fn main() -> ExitCode {
    let name = std::env::args().nth(1).unwrap_or_default();
    match device_programs::PROGRAMS.iter().find(|(known, _)| *known == name) {
        Some((_, program)) => ExitCode::from(program() as u8),
        None => {
            for (name, _) in device_programs::PROGRAMS {
                println!("{name}");
            }
            ExitCode::FAILURE
        }
    }
}
