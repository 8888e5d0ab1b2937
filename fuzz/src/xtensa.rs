//! Targets `link`, `asm` and `engine`: the static linker over any object, the assembler over any text, any bytes executed.

use outboard_link::build::{Inputs, Layout, Options, OutputSection, link as link_image};
use outboard_xtensa::Decoder;
use outboard_xtensa::asm::{AsmOptions, assemble};
use outboard_xtensa::disasm::{DisasmOptions, disassemble_file};
use outboard_xtensa::engine::{CoreConfig, Engine, Memory, Permissions, RegionMemory, Stop};
use outboard_xtensa::isa::IsaSet;

use crate::signature::Signature;

const BASE: u32 = 0x1000;
const ROOM: u32 = 1 << 20;

/// Takes whatever is there; the entry point may be missing.
fn layout(entry: Option<&str>) -> Layout {
    let mut layout = Layout { entry: entry.map(Into::into), ..Layout::default() };
    layout.region("memory", BASE, ROOM);
    layout.section(OutputSection::new(".text", "memory", &[".text", ".text.*"]));
    layout.section(OutputSection::new(".rest", "memory", &["*"]).bounds("rest_start", "rest_stop"));
    layout
}

/// Target `link`: an image that is accepted has its sections where it says, and links the same again.
///
/// # Panics
///
/// When that does not hold.
#[must_use]
pub fn link(data: &[u8]) -> u64 {
    let mut signature = Signature::default();
    for (entry, options) in [
        (Some("_start"), Options::default()),
        (None, Options { keep_all: true, properties: true, ..Options::default() }),
    ] {
        let once = || {
            let mut inputs = Inputs::new();
            inputs.add("fuzz.o", data)?;
            link_image(inputs, &layout(entry), &options)
        };
        match once() {
            Ok(linked) => {
                signature.count(linked.sites.len());
                signature.count(linked.pieces.len());
                signature.count(linked.pools);
                signature.count(linked.symbols.len());
                signature.count(linked.map().len());
                let file = linked.elf().unwrap_or_else(|error| panic!("an image that is right is written: {error}"));
                assert_eq!(once().as_ref(), Ok(&linked), "the same inputs give the same image");
                let listing = disassemble_file(&file, &DisasmOptions::default());
                signature.count(listing.map_or(0, |sections| sections.len()));
            }
            Err(errors) => {
                for error in errors.iter() {
                    signature.word(error.kind());
                }
                signature.message(&errors.first().to_string());
            }
        }
    }
    signature.value()
}

/// Target `asm`: what the assembler accepts is an object that the linker reads.
///
/// # Panics
///
/// When that does not hold.
#[must_use]
pub fn asm(data: &[u8]) -> u64 {
    let mut signature = Signature::default();
    let text = String::from_utf8_lossy(data);
    match assemble(&text, &AsmOptions::default()) {
        Ok(object) => {
            signature.count(object.len());
            Inputs::new().add("fuzz.o", &object).unwrap_or_else(|error| panic!("our own object is read: {error}"));
        }
        Err(errors) => errors.iter().for_each(|error| signature.message(&error.message)),
    }
    signature.value()
}

/// Instructions that an input may execute.
const FUEL: u64 = 20_000;
const GUARD: u8 = 0xa5;

/// Target `engine`: the first byte chooses the core, the next 64 the registers, the rest is code between guard pages. It
/// ends within its fuel, and the guards stay as they are.
///
/// # Panics
///
/// When that does not hold.
#[must_use]
pub fn engine(data: &[u8]) -> u64 {
    let mut signature = Signature::default();
    let (Some((choice, rest)), decoder) = (data.split_first(), Decoder::new(IsaSet::all())) else {
        return signature.value();
    };
    let config = match choice % 3 {
        0 => CoreConfig::linux_user(),
        1 => CoreConfig::bare(),
        _ => CoreConfig::vision_q7(),
    };
    let (registers, code) = rest.split_at(rest.len().min(64));
    let none = Permissions { read: false, write: false, execute: false };
    let mut memory = RegionMemory::new();
    let end = BASE + (code.len() as u32).next_multiple_of(0x1000);
    let mapped = memory
        .map(BASE - 0x1000, vec![GUARD; 0x1000], none)
        .and_then(|()| memory.map(BASE, code.to_vec(), Permissions::ALL))
        .and_then(|()| memory.map(end, vec![GUARD; 0x1000], none))
        .and_then(|()| memory.map(end + 0x1000, vec![0; 0x4000], Permissions::READ_WRITE));
    if code.is_empty() || mapped.is_err() {
        return signature.value();
    }
    let Ok(mut engine) = Engine::new(config, memory) else { return signature.value() };
    engine.set_pc(BASE);
    for (register, word) in (0..).zip(registers.as_chunks::<4>().0) {
        engine.set_ar(register, u32::from_le_bytes(*word));
    }
    let mut left = FUEL;
    for _ in 0..1000 {
        let before = engine.instructions();
        match engine.run(left) {
            Stop::Fault(fault) => {
                signature.message(&fault.to_string());
                signature.count(fault.backtrace.len());
                break;
            }
            Stop::Fuel => break,
            _ => {}
        }
        left = left.saturating_sub(engine.instructions() - before);
    }
    assert!(engine.instructions() <= FUEL, "{} instructions", engine.instructions());
    signature.count(usize::try_from(engine.instructions()).unwrap_or(usize::MAX));
    if let Ok(first) = decoder.instruction(code) {
        signature.word(first.row().mnemonic());
    }
    for guard in [BASE - 0x1000, end] {
        let memory = engine.memory_mut();
        for offset in [0, 1, 0x7ff, 0xfff] {
            assert!(memory.load8(guard + offset).is_err(), "the guard is not mapped for anybody");
        }
    }
    signature.value()
}
