//! The system calls of the Linux user ABI that static test programs use: number in `a2`,
//! arguments in `a6 a3 a4 a5 a8 a9`, result in `a2`.

use std::io;

use crate::engine::{Engine, MapError, Memory, Permissions, RegionMemory};

use super::Streams;

const READ: u32 = 12;
const WRITE: u32 = 13;
const EXIT: u32 = 118;
const EXIT_GROUP: u32 = 119;

const BAD_FILE: u32 = 9u32.wrapping_neg();
const FAULT: u32 = 14u32.wrapping_neg();
const NO_SYSTEM_CALL: u32 = 38u32.wrapping_neg();

/// Most bytes moved by one call, as in Linux.
const MAX_TRANSFER: u32 = 0x7fff_f000;

const STACK_TOP: u32 = 0x4000_0000;
const STACK_SIZE: u32 = 8 << 20;

/// Maps a stack below 0x40000000 (elsewhere if that is taken) and points `a1` to an empty
/// argument block.
pub(super) fn prepare_stack(engine: &mut Engine<RegionMemory>) -> Result<(), MapError> {
    let tops = [STACK_TOP, 0x3000_0000, 0x7000_0000, 0xf000_0000];
    let mut result = Ok(());
    for top in tops {
        let stack = vec![0; STACK_SIZE as usize];
        result = engine.memory_mut().map(top - STACK_SIZE, stack, Permissions::READ_WRITE);
        if result.is_ok() {
            engine.set_ar(1, top - 64);
            break;
        }
    }
    result
}

/// Serves one call; the exit status if it was the last.
pub(super) fn serve(engine: &mut Engine<RegionMemory>, streams: &mut Streams<'_>) -> io::Result<Option<i32>> {
    let (first, second, third) = (engine.ar(6), engine.ar(3), engine.ar(4));
    let result = match engine.ar(2) {
        EXIT | EXIT_GROUP => return Ok(Some(first as i32)),
        WRITE => write(engine, streams, first, second, third)?,
        READ => read(engine, streams, first, second, third)?,
        _ => NO_SYSTEM_CALL,
    };
    engine.set_ar(2, result);
    Ok(None)
}

pub(super) fn write(
    engine: &mut Engine<RegionMemory>,
    streams: &mut Streams<'_>,
    file: u32,
    address: u32,
    length: u32,
) -> io::Result<u32> {
    let stream = match file {
        1 => &mut *streams.output,
        2 => &mut *streams.error,
        _ => return Ok(BAD_FILE),
    };
    let length = length.min(MAX_TRANSFER);
    if length == 0 {
        return Ok(0);
    }
    if let Some(bytes) = engine.memory().bytes(address, length as usize) {
        stream.write_all(bytes)?;
        return Ok(length);
    }
    // Across regions, byte by byte; a partial write reports what went out.
    let memory = engine.memory_mut();
    for count in 0..length {
        let Ok(byte) = memory.load8(address.wrapping_add(count)) else {
            return Ok(if count == 0 { FAULT } else { count });
        };
        stream.write_all(&[byte])?;
    }
    Ok(length)
}

pub(super) fn read(
    engine: &mut Engine<RegionMemory>,
    streams: &mut Streams<'_>,
    file: u32,
    address: u32,
    length: u32,
) -> io::Result<u32> {
    if file != 0 {
        return Ok(BAD_FILE);
    }
    let mut buffer = vec![0; length.min(1 << 16) as usize];
    let count = streams.input.read(&mut buffer)?;
    let memory = engine.memory_mut();
    for (offset, &byte) in (0u32..).zip(&buffer[..count]) {
        if memory.store8(address.wrapping_add(offset), byte).is_err() {
            return Ok(FAULT);
        }
    }
    Ok(count as u32)
}
