//! Simulator calls of bare programs: number in `a2`, arguments in `a3 a4 a5`, result in `a2`,
//! error number in `a3`.

use std::io;

use crate::engine::{Engine, Memory, RegionMemory};

use super::{Streams, linux};

const NO_SUCH_CALL: u32 = 38;

/// Serves one call; the exit status if it was the last.
pub(super) fn serve(engine: &mut Engine<RegionMemory>, streams: &mut Streams<'_>) -> io::Result<Option<i32>> {
    let (first, second, third) = (engine.ar(3), engine.ar(4), engine.ar(5));
    let result = match engine.ar(2) {
        1 => return Ok(Some(first as i32)),
        3 => linux::read(engine, streams, first, second, third)?,
        4 => linux::write(engine, streams, first, second, third)?,
        // No arguments: argc, the size of argv, and copying nothing.
        1000..=1002 => 0,
        1004 => fill(engine, first, second, third),
        _ => NO_SUCH_CALL.wrapping_neg(),
    };
    // Errors are -1 with the number beside it.
    let (result, error) =
        if result as i32 >= -4095 && (result as i32) < 0 { (u32::MAX, result.wrapping_neg()) } else { (result, 0) };
    engine.set_ar(2, result);
    engine.set_ar(3, error);
    Ok(None)
}

/// Fills memory; returns the address.
fn fill(engine: &mut Engine<RegionMemory>, address: u32, value: u32, length: u32) -> u32 {
    const FAULT: u32 = 14u32.wrapping_neg();
    for offset in 0..length {
        if engine.memory_mut().store8(address.wrapping_add(offset), value as u8).is_err() {
            return FAULT;
        }
    }
    address
}
