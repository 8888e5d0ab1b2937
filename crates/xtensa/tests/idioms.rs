//! Loop bodies that run as a whole give what the same turns give one by one.
#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "tests build and take apart small known values, and fail by panicking"
)]

mod common;

use common::{DATA, engine};
use outboard_xtensa::engine::{CoreConfig, Engine, Memory as _, RegionMemory, Stop};
use outboard_xtensa::isa::registers::special;
use proptest::prelude::*;

const LINES: [&str; 5] = ["loopnez a4, 0x100c", "lsip f1, a2, 4", "lsip f2, a3, 4", "madd.s f0, f1, f2", "syscall"];

fn float_bits() -> impl Strategy<Value = u32> {
    prop_oneof![
        8 => (-1000i32..1000).prop_map(|value| (value as f32 / 16.0).to_bits()),
        4 => 0x3000_0000u32..0x4800_0000,
        1 => any::<u32>(),
    ]
}

/// Everything a program can see.
fn state(engine: &Engine<RegionMemory>) -> (Vec<u32>, Vec<u32>, Vec<u32>, u64, u64) {
    (
        (0..16).map(|register| engine.ar(register)).collect(),
        (0..16).map(|register| engine.fr(register)).collect(),
        vec![engine.pc(), engine.user(233), engine.special(special::LCOUNT), engine.special(special::LBEG)],
        engine.instructions(),
        engine.cycles(),
    )
}

proptest! {
    #[test]
    fn a_dot_product_run_as_a_whole_equals_its_single_steps(
        values in proptest::collection::vec(float_bits(), 64),
        count in 0u32..40,
        rounding in 0u32..4,
        flags in 0u32..32,
        start in 0u32..12,
        end in prop_oneof![4 => Just(0x800u32), 1 => 0xff0u32..0xfff],
        budget in prop_oneof![2 => Just(10_000u64), 1 => 1u64..150],
    ) {
        let prepare = || {
            let mut engine = engine(CoreConfig::linux_user(), &LINES);
            for (index, &value) in (0u32..).zip(&values) {
                engine.memory_mut().store32(DATA + 4 * index, value).unwrap();
            }
            engine.set_user(232, rounding);
            engine.set_user(233, flags << 7);
            // One array may be misaligned, the other may run into unmapped memory.
            engine.set_ar(2, DATA + if start > 10 { 2 } else { 4 * start });
            engine.set_ar(3, DATA + if end == 0x800 { 128 } else { end & !3 });
            engine.set_ar(4, count);
            engine
        };
        let mut whole = prepare();
        let stop = whole.run(budget);
        let mut stepped = prepare();
        let mut last = Stop::Fuel;
        for _ in 0..budget {
            last = stepped.step();
            if last != Stop::Fuel {
                break;
            }
        }
        prop_assert_eq!(&stop, &last);
        prop_assert_eq!(state(&whole), state(&stepped));
    }
}
