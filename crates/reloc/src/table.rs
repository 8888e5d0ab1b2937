//! A machine's rows, found by number in constant time.

use crate::Row;

/// Type numbers that a table can hold.
const NUMBERS: usize = 1088;
const NO_ROW: u8 = u8::MAX;

/// The relocation types of one machine.
#[derive(Debug, Clone, Copy)]
pub struct Table {
    rows: &'static [Row],
    index: [u8; NUMBERS],
}

impl Table {
    pub(crate) const fn new(rows: &'static [Row]) -> Self {
        let mut index = [NO_ROW; NUMBERS];
        let mut i = 0;
        while i < rows.len() {
            assert!(i < NO_ROW as usize && (rows[i].number as usize) < NUMBERS, "row number fits the index");
            assert!(index[rows[i].number as usize] == NO_ROW, "each number once");
            #[expect(clippy::cast_possible_truncation, reason = "asserted above: fewer than 255 rows")]
            let position = i as u8;
            index[rows[i].number as usize] = position;
            i += 1;
        }
        Self { rows, index }
    }

    /// Every row, by ascending number.
    #[must_use]
    pub const fn rows(&self) -> &'static [Row] {
        self.rows
    }

    /// The position in [`Table::rows`] of type `number`.
    #[inline]
    #[must_use]
    pub fn position(&self, number: u32) -> Option<usize> {
        let position = *self.index.get(usize::try_from(number).ok()?)?;
        (position != NO_ROW).then_some(usize::from(position))
    }

    /// The row of type `number`; the number is the full 32 bits, 272 is not 16.
    #[must_use]
    pub fn row(&self, number: u32) -> Option<&'static Row> {
        self.rows.get(self.position(number)?)
    }

    /// The row with this name.
    #[must_use]
    pub fn by_name(&self, name: &str) -> Option<&'static Row> {
        self.rows.iter().find(|row| row.name == name)
    }
}
