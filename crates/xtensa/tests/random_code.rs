//! Promise P18: random code with a budget ends; it never panics, hangs or leaves its regions.
#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "tests build and take apart small known values, and fail by panicking"
)]

use outboard_xtensa::engine::{Alignment, CoreConfig, Engine, Memory, Permissions, RegionMemory, Stop};
use proptest::prelude::*;

const CODE: u32 = 0x1000;
const GUARD: u8 = 0xa5;

fn configurations() -> impl Strategy<Value = CoreConfig> {
    prop_oneof![
        Just(CoreConfig::linux_user()),
        Just(CoreConfig::bare()),
        Just(CoreConfig::vision_q7()),
        Just(CoreConfig { alignment: Alignment::Allow, reset_ps: 0x40020, ..CoreConfig::linux_user() }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn p18_random_code_ends_within_its_budget_and_inside_its_regions(
        config in configurations(),
        code in proptest::collection::vec(any::<u8>(), 4..512),
        registers in proptest::array::uniform16(prop_oneof![any::<u32>(), 0x0f00u32..0x3100]),
    ) {
        let mut memory = RegionMemory::new();
        let length = code.len();
        memory.map(CODE - 16, vec![GUARD; 16], Permissions { read: false, write: false, execute: false }).unwrap();
        memory.map(CODE, code, Permissions::ALL).unwrap();
        memory.map(CODE + 0x1000, vec![0; 0x1000], Permissions::READ_WRITE).unwrap();
        memory.map(CODE + 0x2000, vec![GUARD; 16], Permissions::READ_EXECUTE).unwrap();
        let mut engine = Engine::new(config, memory).unwrap();
        engine.set_pc(CODE);
        for (index, &value) in (0u8..).zip(&registers) {
            engine.set_ar(index, value);
        }
        let mut left = 5000u64;
        for _ in 0..200 {
            let before = engine.instructions();
            match engine.run(left) {
                Stop::Fault(fault) => {
                    prop_assert!(!fault.backtrace.is_empty());
                    break;
                }
                Stop::Fuel => break,
                _ => {}
            }
            left = left.saturating_sub(engine.instructions() - before);
        }
        prop_assert!(engine.instructions() <= 5000);
        let memory = engine.memory_mut();
        prop_assert_eq!(memory.bytes(CODE - 16, 16).unwrap(), &[GUARD; 16]);
        prop_assert_eq!(memory.bytes(CODE + 0x2000, 16).unwrap(), &[GUARD; 16]);
        prop_assert!(memory.load8(CODE + length as u32).is_err());
    }

    #[test]
    fn p17_random_code_is_the_same_step_by_step_and_in_blocks(
        config in configurations(),
        code in proptest::collection::vec(any::<u8>(), 4..256),
        registers in proptest::array::uniform16(prop_oneof![any::<u32>(), 0x0f00u32..0x3100]),
    ) {
        // A budget of one instruction cuts every block; the other engine runs blocks and their chains whole.
        let [whole, steps] = [u64::MAX, 1].map(|most| {
            let mut memory = RegionMemory::new();
            memory.map(CODE, code.clone(), Permissions::ALL).unwrap();
            memory.map(CODE + 0x1000, vec![0; 0x1000], Permissions::READ_WRITE).unwrap();
            let mut engine = Engine::new(config.clone(), memory).unwrap();
            engine.set_pc(CODE);
            for (index, &value) in (0u8..).zip(&registers) {
                engine.set_ar(index, value);
            }
            let mut ending = None;
            for _ in 0..4000 {
                let left = 2000 - engine.instructions();
                if left == 0 || ending.is_some() {
                    break;
                }
                if let Stop::Fault(fault) = engine.run(left.min(most)) {
                    ending = Some(fault.to_string());
                }
            }
            let registers: Vec<u32> = (0..16).map(|index| engine.ar(index)).collect();
            let state = (engine.pc(), engine.instructions(), engine.cycles());
            let memory = engine.memory().bytes(CODE + 0x1000, 0x1000).unwrap().to_vec();
            (ending, registers, state, memory)
        });
        prop_assert_eq!(whole, steps);
    }

    #[test]
    fn random_bytes_decode_or_name_their_error(bytes in proptest::collection::vec(any::<u8>(), 0..20), pc: u32) {
        use outboard_xtensa::length::Flix;
        use outboard_xtensa::{Decoded, Decoder, isa::IsaSet};
        let decoder = Decoder::new(IsaSet::all()).with_flix(Flix::VisionQ7);
        match decoder.decode(&bytes) {
            Ok(Decoded::Instruction(instruction)) => prop_assert!(!instruction.text(pc).is_empty()),
            Ok(Decoded::Bundle(bundle)) => prop_assert!(usize::from(bundle.length()) <= bytes.len()),
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
    }

    #[test]
    fn random_text_assembles_or_names_its_error(text in "[a-z0-9., -]{0,40}", pc: u32) {
        let outcome = outboard_xtensa::encode_text(&text, pc, outboard_xtensa::isa::IsaSet::all());
        if let Err(error) = outcome {
            prop_assert!(!error.to_string().is_empty());
        }
    }

    #[test]
    fn random_files_disassemble_or_name_their_error(noise in proptest::collection::vec((any::<u16>(), any::<u8>()), 0..40)) {
        let mut file = include_bytes!("data/programs/w13.elf").to_vec();
        for (place, byte) in noise {
            let place = usize::from(place) % file.len();
            file[place] = byte;
        }
        let outcome = outboard_xtensa::disasm::disassemble_file(&file, &Default::default());
        if let Err(error) = outcome {
            prop_assert!(!error.to_string().is_empty());
        }
    }
}
