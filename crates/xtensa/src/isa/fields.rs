//! Where an operand's bits sit in an instruction word.

/// An operand field: up to four runs of bits, most significant run first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    runs: [(u8, u8); 4],
    count: u8,
    width: u8,
}

impl Field {
    /// Collects the bits that `pattern` marks with `letter`: first the upper-case ones, then the
    /// lower-case ones, each from the most significant bit down.
    pub(super) const fn from_pattern(pattern: &str, letter: char) -> Self {
        let bytes = pattern.as_bytes();
        let lower = letter as u8;
        let upper = lower.to_ascii_uppercase();
        let mut field = Self { runs: [(0, 0); 4], count: 0, width: 0 };
        let mut pass = 0;
        while pass < 2 {
            let wanted = if pass == 0 { upper } else { lower };
            let mut bit = pattern_length(bytes);
            let mut previous = 255;
            let mut index = 0;
            while index < bytes.len() {
                if bytes[index] != b' ' {
                    bit -= 1;
                    if bytes[index] == wanted {
                        field.push(bit, previous);
                        previous = bit;
                    }
                }
                index += 1;
            }
            pass += 1;
        }
        assert!(field.width > 0, "an operand's letter does not occur in its pattern");
        field
    }

    const fn push(&mut self, bit: u8, previous: u8) {
        if previous == bit + 1 {
            let last = self.count as usize - 1;
            self.runs[last] = (bit, self.runs[last].1 + 1);
        } else {
            self.runs[self.count as usize] = (bit, 1);
            self.count += 1;
        }
        self.width += 1;
    }

    /// Number of bits.
    pub const fn width(&self) -> u8 {
        self.width
    }

    /// A mask of the instruction bits that belong to the field.
    pub fn mask(&self) -> u32 {
        self.insert(u32::MAX)
    }

    /// The field's value in `word`.
    pub fn extract(&self, word: u32) -> u32 {
        let mut value = 0;
        for &(shift, width) in &self.runs[..usize::from(self.count)] {
            value = (value << width) | ((word >> shift) & ((1 << width) - 1));
        }
        value
    }

    /// The instruction bits that hold the low bits of `value`.
    pub fn insert(&self, value: u32) -> u32 {
        let mut word = 0;
        let mut rest = value;
        for &(shift, width) in self.runs[..usize::from(self.count)].iter().rev() {
            word |= (rest & ((1 << width) - 1)) << shift;
            rest >>= width;
        }
        word
    }
}

/// Number of bits a pattern describes (everything but spaces).
pub(super) const fn pattern_length(bytes: &[u8]) -> u8 {
    let mut length = 0;
    let mut index = 0;
    while index < bytes.len() {
        if bytes[index] != b' ' {
            length += 1;
        }
        index += 1;
    }
    length
}

#[cfg(test)]
mod tests {
    use super::Field;

    #[test]
    fn a_split_field_is_extracted_upper_case_run_first() {
        let field = Field::from_pattern("iiii iiii 1010 IIII tttt 0010", 'i');
        assert_eq!(field.width(), 12);
        assert_eq!(field.insert(0xabc), 0xbc_0a00);
        assert_eq!(field.extract(0xbc_0a00), 0xabc);
        assert_eq!(field.mask(), 0xff_0f00);
    }
}
