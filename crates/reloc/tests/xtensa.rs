//! The rows of Xtensa: every number, the worked pair, the bits that must not change.

use outboard_reloc::xtensa::{self, Half};
use outboard_reloc::{Expr, Inputs};
use proptest::prelude::*;

/// Types that write nothing by design; every other type either writes or is refused by name.
const IGNORED: [u32; 14] = [0, 11, 12, 15, 16, 17, 18, 19, 57, 58, 59, 60, 61, 62];
const WRITES: [u32; 6] = [1, 5, 6, 14, 20, 35];

#[test]
fn each_of_the_256_type_numbers_is_ignored_by_design_written_refused_by_name_or_unknown() {
    for number in 0..256 {
        let row = xtensa::table().row(number);
        match row.map(|row| row.expr) {
            None => assert!(number > 62 || [7, 13].contains(&number), "{number}"),
            Some(Expr::Nothing) => assert!(IGNORED.contains(&number), "{number}"),
            Some(Expr::Refused(why)) => assert!(!why.is_empty() && !WRITES.contains(&number), "{number}"),
            Some(_) => assert!(WRITES.contains(&number), "{number}"),
        }
    }
    assert!(xtensa::table().row(272).is_none(), "272 is not 16");
}

#[test]
fn the_worked_pair_of_const16_gets_both_halves() {
    let mut code = [0x24, 0x00, 0x02, 0x24, 0x5c, 0x02, 0, 0];
    let target = Inputs { symbol: 0x000b_e25c, ..Inputs::default() };
    for (number, at) in [(35, 0), (20, 3)] {
        let recipe = xtensa::table().row(number).unwrap().recipe().unwrap();
        recipe.apply(&mut code, at, recipe.value(target)).unwrap();
    }
    assert_eq!(code[..6], [0x24, 0x0b, 0x00, 0x24, 0x5c, 0xe2]);
}

#[test]
fn halves_take_exactly_the_32_bit_addresses() {
    for number in [20, 35] {
        let recipe = xtensa::table().row(number).unwrap().recipe().unwrap();
        assert!(recipe.accepts(0) && recipe.accepts(0xffff_ffff));
        assert!(!recipe.accepts(0x1_0000_0000) && !recipe.accepts(u64::MAX));
    }
}

#[test]
fn the_compiled_rows_are_those_of_the_table() {
    for (number, recipe) in [(5, xtensa::WORD), (20, xtensa::LOW_HALF), (35, xtensa::HIGH_HALF)] {
        assert_eq!(xtensa::table().row(number).unwrap().recipe(), Some(recipe));
    }
}

proptest! {
    #[test]
    fn a_half_changes_only_its_16_bits(target: u32, before: [u8; 8], high: bool) {
        let number = if high { 35 } else { 20 };
        let recipe = xtensa::table().row(number).unwrap().recipe().unwrap();
        let mut after = before;
        recipe.apply(&mut after, 0, u64::from(target)).unwrap();
        prop_assert_eq!(after[0], before[0]);
        prop_assert_eq!(&after[3..], &before[3..]);
        let half = Half::of(number).unwrap().of_address(target);
        prop_assert_eq!([after[1], after[2]], half.to_le_bytes());
    }
}
