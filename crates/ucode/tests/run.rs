//! A prelinked twin runs: dispatch finds a kernel, the kernel counts in its slot, calls its helper and returns.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use outboard_elf::pi::KernelRow;
use outboard_link::pi::{PrelinkRequest, Prelinked, prelink};
use outboard_ucode::{cores, twins};
use outboard_xtensa::encode_text;
use outboard_xtensa::engine::{CoreConfig, Engine, Permissions, RegionMemory, Stop};

const CODE: u32 = 0x1_8000;
const DATA: u32 = 0xb_e000;
const CALLER: u32 = 0x1_0000;
const ARGUMENT: u32 = 0x8_0000;

struct Core(Engine<RegionMemory>);

impl Core {
    fn new(image: &Prelinked) -> Self {
        let mut memory = RegionMemory::new();
        memory.map(CODE, image.code().to_vec(), Permissions::READ_EXECUTE).unwrap();
        memory.map(DATA, image.data().to_vec(), Permissions::READ_WRITE).unwrap();
        memory.map(CALLER, vec![0; 64], Permissions::ALL).unwrap();
        memory.map(ARGUMENT, vec![0; 0x1000], Permissions::READ_WRITE).unwrap();
        Self(Engine::new(CoreConfig::vision_q7(), memory).unwrap())
    }

    /// Calls a function of the image with one argument and returns its result.
    fn call(&mut self, function: u32, argument: u32) -> u32 {
        let lines = ["callx8 a8", "simcall"];
        let mut code = Vec::new();
        for line in lines {
            code.extend(encode_text(line, CALLER, self.0.config().isa).unwrap().bytes());
        }
        self.0.memory_mut().bytes_mut(CALLER, code.len()).unwrap().copy_from_slice(&code);
        self.0.reset();
        self.0.invalidate_code();
        self.0.set_pc(CALLER);
        self.0.set_ar(1, ARGUMENT + 0x800);
        self.0.set_ar(8, function);
        self.0.set_ar(10, argument);
        let stop = self.0.run(1_000_000);
        assert!(matches!(stop, Stop::Simcall), "{stop:?}");
        self.0.ar(10)
    }

    fn word(&self, address: u32) -> u32 {
        u32::from_le_bytes(self.0.memory().bytes(address, 4).unwrap().try_into().unwrap())
    }
}

fn prelinked(name: &str) -> Prelinked {
    let bounds = &cores::find("cayman").unwrap().bounds;
    prelink(&PrelinkRequest::new(&twins::image(name).unwrap(), bounds)).unwrap()
}

/// The kernel table of the image, where the device finds it.
fn table(image: &Prelinked) -> Vec<KernelRow> {
    let rows = image.data()[0x380..0x408].as_chunks::<8>().0;
    rows.iter().map(|row| KernelRow::decode(0, *row)).collect()
}

#[test]
fn every_kernel_of_every_generation_runs_and_counts_in_its_slot() {
    // Opcode and extended opcode, and the word of .bss in which the trampoline counts.
    let slots = [
        (0x45, 0, 0x458),
        (0x41, 0, 0x45c),
        (0xf0, 1, 0x468),
        (0xf0, 2, 0x468),
        (0xf0, 4, 0x46c),
        (0xf0, 3, 0x470),
        (0xbe, 0, 0x47c),
        (0x7b, 0, 0x480),
    ];
    for name in ["cayman_0", "mariana_0", "maverick_0"] {
        let image = prelinked(name);
        let mut core = Core::new(&image);
        for row in table(&image) {
            let slot = slots.iter().find(|slot| (slot.0, slot.1) == (row.opcode, row.spec)).map(|slot| DATA + slot.2);
            let before = slot.map(|slot| core.word(slot));
            let result = core.call(row.function, 0);
            if row.spec != 0 || row.opcode != 0xf0 {
                assert_eq!(result, 0, "{name} {:#x}/{}", row.opcode, row.spec);
            }
            assert_eq!(
                slot.map(|slot| core.word(slot)),
                before.map(|count| count + 1),
                "{name} {:#x}/{}",
                row.opcode,
                row.spec
            );
        }
    }
}

#[test]
fn the_initialiser_counts_through_the_first_documented_pair() {
    let image = prelinked("cayman_0");
    let mut core = Core::new(&image);
    let before = core.word(DATA + 0x25c);
    core.call(image.header.init, 0);
    assert_eq!(core.word(DATA + 0x25c), before + 1);
    core.call(image.header.fini, 0);
}

#[test]
fn the_entry_point_refuses_a_descriptor_that_is_too_small() {
    let image = prelinked("cayman_0");
    let mut core = Core::new(&image);
    for (size, result) in [(0_u32, 2), (35, 2), (36, 0), (40, 0)] {
        core.0.memory_mut().bytes_mut(ARGUMENT, 4).unwrap().copy_from_slice(&size.to_le_bytes());
        assert_eq!(core.call(image.header.start, ARGUMENT), result, "{size}");
    }
}
