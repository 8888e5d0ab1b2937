//! Target `shape`: links objects and archives to both shapes of device programs. What is accepted has been prelinked and read back by the
//! linker itself, so a fault shows as a panic or as a wait.

use outboard_elf::Elf;
use outboard_elf::pi::DeviceShape;
use outboard_link::build::{BuildError, Inputs};
use outboard_link::pi::MemoryBounds;
use outboard_link::shape::fll::{self, Cpu, FllOptions};
use outboard_link::shape::pi::{self, PiOptions};
use outboard_link::shape::{Kernel, ShapeErrors};

use crate::signature::Signature;

const BOUNDS: MemoryBounds =
    MemoryBounds::from_words([0, 0x2_0000, 0x1_8000, 0x8000, 0x8_0000, 0x4_0000, 0xb_e000, 0x2000]);

/// Runs the target.
///
/// # Panics
/// When a linked file does not have its shape.
#[must_use]
pub fn run(data: &[u8]) -> u64 {
    let mut signature = Signature::default();
    for keep_all in [false, true] {
        let kernel = Kernel { opcode: 0x7e, spec: 0, function: "_start".to_owned() };
        let kernels = if keep_all { Vec::new() } else { vec![kernel] };
        let options = PiOptions { kernels, keep_all, ..PiOptions::new(&BOUNDS) };
        match inputs(data).map_err(ShapeErrors::from).and_then(|inputs| pi::link(inputs, &options)) {
            Ok(made) => {
                let elf = Elf::parse(&made.image).expect("a linked image is a sound file");
                assert!(matches!(DeviceShape::of(&elf), Ok(DeviceShape::Pi(_))), "a PI image");
                signature.count(made.linked.sites.len());
                signature.count(made.linked.symbols.len());
            }
            Err(errors) => signature.message(&errors.to_string()),
        }
        let options = FllOptions { keep_all, ..FllOptions::new(Cpu::Core(3)) };
        match inputs(data).map_err(ShapeErrors::from).and_then(|inputs| fll::link(inputs, &options)) {
            Ok(made) => {
                let elf = Elf::parse(&made.image).expect("a linked library is a sound file");
                assert!(matches!(DeviceShape::of(&elf), Ok(DeviceShape::Fll(_))), "a fixed-load library");
                signature.count(made.linked.pieces.len());
            }
            Err(errors) => signature.message(&errors.to_string()),
        }
    }
    signature.value()
}

fn inputs(data: &[u8]) -> Result<Inputs<'_>, BuildError> {
    let mut inputs = Inputs::new();
    inputs.add("fuzz.o", data)?;
    Ok(inputs)
}
