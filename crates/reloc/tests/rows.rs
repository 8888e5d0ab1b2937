//! What holds for every row of every table.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use outboard_reloc::{ApplyError, Expr, Inputs, Place, Range, Recipe, Row, Table, aarch64, c7x, x86_64};
use proptest::prelude::*;

fn tables() -> [(&'static str, &'static Table, usize); 3] {
    [("c7x", c7x::table(), 20), ("x86-64", x86_64::table(), 36), ("aarch64", aarch64::table(), 16)]
}

/// Every row that stores something, with its recipe.
fn patching() -> Vec<(&'static Row, Recipe)> {
    let rows = tables().into_iter().flat_map(|(_, table, _)| table.rows());
    rows.filter(|row| row.field.container > 0).filter_map(|row| Some((row, row.recipe()?))).collect()
}

/// The value as the number that the range check is about.
fn signed(value: u64) -> i128 {
    i128::from(value.cast_signed())
}

fn put(recipe: &Recipe, before: u64, value: u64) -> Result<u64, ApplyError> {
    let mut site = before.to_le_bytes();
    recipe.apply(&mut site, 0, value).map(|()| u64::from_le_bytes(site))
}

#[test]
fn the_tables_have_the_documented_number_of_rows_each_found_by_number_and_by_name() {
    for (name, table, count) in tables() {
        assert_eq!(table.rows().len(), count, "{name}");
        assert!(table.rows().is_sorted_by(|a, b| a.number < b.number), "{name}: ascending numbers");
        for row in table.rows() {
            assert_eq!(table.row(row.number), Some(row));
            assert_eq!(table.by_name(row.name), Some(row), "{}: names are unique", row.name);
        }
    }
}

#[test]
fn p5_every_number_that_is_not_in_the_table_is_an_error() {
    let known: Vec<u32> = [0, 4].into_iter().chain(16..=33).collect();
    for number in (0..256).chain([272, 273, 1 << 16, 1 << 31, (1 << 31) + 16, u32::MAX]) {
        let row = c7x::table().row(number);
        assert_eq!(row.is_some(), known.contains(&number), "C7x type {number}");
        let usable = row.is_some_and(|row| row.recipe().is_some());
        assert_eq!(usable, known.contains(&number) && number != 4, "C7x type {number}");
    }
    let ignorable = |table: &Table| table.rows().iter().filter(|row| row.expr == Expr::Nothing).count();
    assert_eq!(tables().map(|(_, table, _)| ignorable(table)), [1, 1, 1], "only NONE writes nothing");
}

#[test]
fn p4_a3_the_first_and_last_accepted_and_the_first_refused_values_are_exact_on_both_sides() {
    let mut limited = 0;
    for (row, recipe) in patching() {
        let Some((low, high)) = row.bounds() else {
            for value in [0, 1, u64::MAX, 1 << 63, (1 << 63) - 1] {
                assert!(recipe.accepts(value), "{} takes everything", row.name);
            }
            continue;
        };
        limited += 1;
        let accepts = |value: i128| {
            let value = u64::try_from(value & i128::from(u64::MAX)).unwrap();
            let written = put(&recipe, 0, value);
            assert_eq!(written.is_ok(), recipe.accepts(value), "{}", row.name);
            written.is_ok()
        };
        assert!(accepts(low) && accepts(high) && accepts(0), "{}: the edges are accepted", row.name);
        assert!(!accepts(low - 1) && !accepts(high + 1), "{}: one beyond is refused", row.name);
        // The classes of A3: twice the positive limit, and everything negative that is too small.
        assert!(!accepts(2 * high + 1) && !accepts(2 * low - 1), "{}", row.name);
        assert!(!accepts(i128::from(i64::MIN)) && !accepts(i128::from(i64::MAX)), "{}", row.name);
    }
    assert_eq!(limited, 10 + 8 + 4);
}

#[test]
fn every_field_lies_inside_its_container_and_every_range_fits_its_field() {
    for (row, recipe) in patching() {
        let field = row.field;
        assert!([1, 2, 4, 8].contains(&field.container), "{}", row.name);
        assert!(field.bit + field.width <= field.container * 8, "{}", row.name);
        assert!(field.width > 0 && field.shift < 64, "{}", row.name);
        assert!(row.low_bits <= field.shift, "{}: strict bits are bits that the field drops", row.name);
        if let Range::Signed(n) | Range::Unsigned(n) | Range::Either(n) = row.range {
            assert!(n <= field.shift + field.width, "{}: a value that is accepted is stored whole", row.name);
        }
        assert_eq!(recipe.size(), u64::from(field.container));
    }
}

#[test]
fn refused_types_say_why_and_what_to_do() {
    let refused: Vec<_> = tables().into_iter().flat_map(|(_, t, _)| t.rows()).filter_map(Row::refused).collect();
    assert_eq!(refused.len(), 1 + 22 + 6);
    for why in refused {
        assert!(why.len() > 20 && why.contains(';'), "cause; remedy: {why}");
    }
}

#[test]
fn strict_mode_knows_the_low_bits_that_a_branch_would_drop() {
    let branch = c7x::table().by_name("R_C7X_PCR_BRANCH_LO24").unwrap().recipe().unwrap();
    assert_eq!([0x1001, 0x1002, 0x1004].map(|value| branch.dropped_bits(value)), [1, 2, 0]);
    let address = c7x::table().by_name("R_C7X_ABS64").unwrap().recipe().unwrap();
    assert_eq!(address.dropped_bits(0x1001), 0);
}

#[test]
fn a_container_that_does_not_fit_is_refused_and_nothing_is_written() {
    for (row, recipe) in patching() {
        let size = usize::from(row.field.container);
        for room in 0..size {
            let mut site = vec![0x5a; room];
            assert_eq!(recipe.apply(&mut site, 0, 0), Err(ApplyError::OutOfBounds), "{}", row.name);
            assert!(site.iter().all(|byte| *byte == 0x5a));
        }
        assert_eq!(recipe.apply(&mut [0; 8], 9, 0), Err(ApplyError::OutOfBounds));
        assert_eq!(recipe.apply(&mut [0; 8], usize::MAX, 0), Err(ApplyError::OutOfBounds));
    }
}

/// The same relocation written down a second time, in wide arithmetic, straight from the row.
fn model(row: &Row, before: u64, inputs: Inputs) -> Option<u64> {
    let place = match row.place {
        Place::Exact => inputs.place,
        Place::Word => inputs.place / 4 * 4,
    };
    let wide = match row.expr {
        Expr::Nothing => 0,
        Expr::Symbol => i128::from(inputs.symbol),
        Expr::SymbolAddend => i128::from(inputs.symbol) + i128::from(inputs.addend),
        Expr::SymbolAddendPlace => i128::from(inputs.symbol) + i128::from(inputs.addend) - i128::from(place),
        Expr::BiasAddend => i128::from(inputs.bias) + i128::from(inputs.addend),
        Expr::Refused(_) => return None,
    };
    let value = u64::try_from(wide & i128::from(u64::MAX)).unwrap();
    if let Some((low, high)) = row.bounds()
        && !(low..=high).contains(&signed(value))
    {
        return None;
    }
    let mut after = before;
    for i in 0..row.field.width {
        let bit = 1_u64 << (row.field.bit + i);
        let source = u32::from(row.field.shift + i);
        let set = source < 64 && value >> source & 1 == 1;
        after = if set { after | bit } else { after & !bit };
    }
    Some(after)
}

fn any_row() -> impl Strategy<Value = (&'static Row, Recipe)> {
    proptest::sample::select(patching())
}

/// Addresses and addends near each other and near the edges of the ranges, so that both outcomes are common.
fn any_inputs() -> impl Strategy<Value = Inputs> {
    let near = prop_oneof![
        any::<u64>(),
        (0_u64..1 << 27).prop_map(|x| 0x1_0200_0000 + x),
        (0_u32..64, -2_i64..=2).prop_map(|(bit, d)| (1_u64 << bit).wrapping_add_signed(d)),
    ];
    let addend = prop_oneof![any::<i64>(), -64_i64..64, Just(0)];
    (near.clone(), addend, near.clone(), near).prop_map(|(symbol, addend, place, bias)| Inputs {
        symbol,
        addend,
        place,
        bias,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 10 } else { 4000 }))]

    #[test]
    fn p3_every_row_agrees_with_the_wide_model((row, recipe) in any_row(), inputs in any_inputs(), before: u64) {
        let expected = model(row, before, inputs);
        let found = put(&recipe, before, recipe.value(inputs));
        prop_assert_eq!(found.ok(), expected, "{}", row.name);
    }

    #[test]
    fn p3_what_was_stored_decodes_to_the_value((row, recipe) in any_row(), value: u64, before: u64) {
        let Ok(after) = put(&recipe, before, value) else { return Ok(()) };
        prop_assert_eq!(recipe.extract(after), value & recipe.covers(), "{}", row.name);
        if let Range::Signed(n) | Range::Either(n) | Range::Unsigned(n) = row.range {
            // The highest part of a value: with its lower parts' bits put back, it is the value itself.
            let lower = value & !recipe.covers() & ((1 << row.field.shift) - 1);
            let unsigned = recipe.extract(after) | lower;
            let unused = 64 - u32::from(n);
            let extended = (unsigned << unused).cast_signed() >> unused;
            let matches = extended == value.cast_signed() || (unsigned << unused >> unused) == value;
            prop_assert!(matches, "{}: {value:#x} stored as {unsigned:#x}", row.name);
        }
    }

    #[test]
    fn a6_bytes_around_the_field_never_change(
        (row, recipe) in any_row(),
        value: u64,
        mut memory in any::<[u8; 24]>(),
        at in 0_usize..24,
    ) {
        let before = memory;
        let result = recipe.apply(&mut memory, at, value);
        let size = usize::from(row.field.container);
        for (index, (old, new)) in before.iter().zip(&memory).enumerate() {
            if !(at..at + size).contains(&index) || result.is_err() {
                prop_assert_eq!(old, new, "{}: byte {}", row.name, index);
            }
        }
        prop_assert_eq!(result == Err(ApplyError::OutOfBounds), recipe.accepts(value) && at + size > 24);
        if result.is_ok() {
            let mut old = [0; 8];
            let mut new = [0; 8];
            old[..size].copy_from_slice(&before[at..at + size]);
            new[..size].copy_from_slice(&memory[at..at + size]);
            let outside = u64::from_le_bytes(old) ^ u64::from_le_bytes(new);
            let field = (recipe.covers() >> row.field.shift) << row.field.bit;
            prop_assert_eq!(outside & !field, 0, "{}: bits outside of the field", row.name);
        }
    }
}
