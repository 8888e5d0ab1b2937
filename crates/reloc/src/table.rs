//! A machine's rows, found by number in constant time.

use crate::{Recipe, Row};

/// Type numbers that a table can hold.
const NUMBERS: usize = 1088;
/// Rows that a table can hold.
const ROWS: usize = 64;
const NO_ROW: u8 = u8::MAX;

/// The relocation types of one machine.
#[derive(Debug, Clone, Copy)]
pub struct Table {
    rows: &'static [Row],
    /// Position of each number's row.
    index: [u8; NUMBERS],
    /// The same for rows that have a recipe.
    usable: [u8; NUMBERS],
    recipes: [Recipe; ROWS],
}

impl Table {
    pub(crate) const fn new(rows: &'static [Row]) -> Self {
        let mut index = [NO_ROW; NUMBERS];
        let mut usable = [NO_ROW; NUMBERS];
        let mut recipes = [Recipe::NOTHING; ROWS];
        let mut i = 0;
        while i < rows.len() {
            assert!(i < ROWS && (rows[i].number as usize) < NUMBERS, "the row and its number fit");
            assert!(index[rows[i].number as usize] == NO_ROW, "each number once");
            #[expect(clippy::cast_possible_truncation, reason = "asserted above: at most 64 rows")]
            let position = i as u8;
            index[rows[i].number as usize] = position;
            if let Some(recipe) = rows[i].recipe() {
                usable[rows[i].number as usize] = position;
                recipes[i] = recipe;
            }
            i += 1;
        }
        Self { rows, index, usable, recipes }
    }

    /// Every row, by ascending number.
    #[must_use]
    pub const fn rows(&self) -> &'static [Row] {
        self.rows
    }

    /// The position in [`Table::rows`] of type `number`, at most 63, and its recipe; `None` for types that are unknown or
    /// refused.
    #[inline]
    #[must_use]
    pub fn recipe(&self, number: u32) -> Option<(usize, &Recipe)> {
        let position = usize::from(*self.usable.get(usize::try_from(number).ok()?)?);
        Some((position, self.recipes.get(position)?))
    }

    /// The row of type `number`; the number is the full 32 bits, 272 is not 16.
    #[must_use]
    pub fn row(&self, number: u32) -> Option<&'static Row> {
        let position = *self.index.get(usize::try_from(number).ok()?)?;
        self.rows.get(usize::from(position))
    }

    /// The row with this name.
    #[must_use]
    pub fn by_name(&self, name: &str) -> Option<&'static Row> {
        self.rows.iter().find(|row| row.name == name)
    }
}
