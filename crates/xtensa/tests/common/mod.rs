//! Small programs in memory for engine tests.
#![allow(dead_code, reason = "each test file uses its part")]

use outboard_xtensa::encode_text;
use outboard_xtensa::engine::{CoreConfig, Engine, Permissions, RegionMemory};

pub const CODE: u32 = 0x1000;
pub const DATA: u32 = 0x8000;
pub const STACK: u32 = 0x2_0000;

/// Assembles lines that follow each other from [`CODE`] on.
pub fn assemble(config: &CoreConfig, lines: &[&str]) -> Vec<u8> {
    let mut code = Vec::new();
    for line in lines {
        let encoded = encode_text(line, CODE + code.len() as u32, config.isa);
        code.extend(encoded.unwrap_or_else(|error| panic!("{line}: {error}")).bytes());
    }
    code
}

/// An engine with that code, 4 KiB of data, a stack, and the pc at the first line.
pub fn engine(config: CoreConfig, lines: &[&str]) -> Engine<RegionMemory> {
    let code = assemble(&config, lines);
    let mut memory = RegionMemory::new();
    memory.map(CODE, code, Permissions::ALL).unwrap();
    memory.map(DATA, vec![0; 0x1000], Permissions::READ_WRITE).unwrap();
    memory.map(STACK - 0x4000, vec![0; 0x4000], Permissions::READ_WRITE).unwrap();
    let mut engine = Engine::new(config, memory).unwrap();
    engine.set_pc(CODE);
    engine.set_ar(1, STACK - 64);
    engine
}
