//! What one relocation writes, and how it is read again.

use outboard_reloc::xtensa::{CONST16_HIGH, CONST16_LOW, Half, Operand, OperandError, WORD};

/// The field that a relocation writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Patch {
    /// A word that holds an address.
    Word,
    /// A word that holds the distance from itself.
    Distance,
    /// The operand of an instruction, which is a distance.
    Operand(&'static Operand),
    /// The low half of an address, in a `const16`.
    LowHalf,
    /// The high half of an address, in a `const16`.
    HighHalf,
}

impl Patch {
    /// Bytes of the word or instruction.
    #[must_use]
    pub const fn length(self) -> u32 {
        match self {
            Self::Word | Self::Distance => 4,
            Self::Operand(operand) => operand.length as u32,
            Self::LowHalf | Self::HighHalf => 3,
        }
    }

    /// Whether what is written depends on where the target is, not on the distance to it: it changes when the image
    /// moves as a whole.
    #[must_use]
    pub const fn absolute(self) -> bool {
        matches!(self, Self::Word | Self::LowHalf | Self::HighHalf)
    }

    /// Makes the place refer to `target`; reads it back and compares.
    pub(super) fn write(self, bytes: &mut [u8], offset: usize, place: u32, target: u32) -> Result<(), OperandError> {
        let (recipe, value) = match self {
            Self::Operand(operand) => return operand.apply(bytes, offset, place, target),
            Self::Word => (WORD, target),
            Self::Distance => (WORD, target.wrapping_sub(place)),
            Self::LowHalf => (CONST16_LOW, target),
            Self::HighHalf => (CONST16_HIGH, target),
        };
        recipe.apply(bytes, offset, u64::from(value)).map_err(OperandError::Site)
    }

    /// Whether the word or instruction in `bytes`, which is at `place`, refers to `target`.
    #[must_use]
    pub fn refers(self, bytes: &[u8], place: u32, target: u32) -> bool {
        let length = usize::try_from(self.length()).unwrap_or(0);
        let Some(bytes) = bytes.get(..length) else { return false };
        let word = word(bytes);
        match self {
            Self::Word => word == target,
            Self::Distance => place.wrapping_add(word) == target,
            Self::Operand(operand) => Operand::of(bytes) == Some(operand) && operand.target(bytes, place) == target,
            Self::LowHalf => word >> 8 == u32::from(Half::Low(0).of_address(target)),
            Self::HighHalf => word >> 8 == u32::from(Half::High(0).of_address(target)),
        }
    }

    /// Clears the field, so that what is around it can be compared.
    pub(super) fn clear(self, bytes: &mut [u8]) {
        let rest = match self {
            Self::Word | Self::Distance => 0,
            Self::Operand(operand) => operand.rest(bytes),
            Self::LowHalf | Self::HighHalf => u64::from(word(bytes) & 0xff),
        };
        for (to, from) in bytes.iter_mut().zip(rest.to_le_bytes()) {
            *to = from;
        }
    }
}

fn word(bytes: &[u8]) -> u32 {
    let mut word = [0; 4];
    for (to, from) in word.iter_mut().zip(bytes) {
        *to = *from;
    }
    u32::from_le_bytes(word)
}

/// A place that was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Site {
    /// The section it lies in, by position in [`super::Linked::sections`].
    pub section: usize,
    /// Offset in that section.
    pub offset: u32,
    /// Its address.
    pub place: u32,
    /// Relocation type.
    pub kind: u32,
    /// Name of the type.
    pub name: &'static str,
    /// What was written.
    pub patch: Patch,
    /// The address or number it refers to.
    pub target: u32,
    /// The section that the target lies in; `None` for a number, which never moves.
    pub target_section: Option<usize>,
    pub(super) symbol: Option<usize>,
    /// Distance of the target from the symbol or section that the relocation names.
    pub addend: i32,
}

impl Site {
    /// Whether the place must be written again when all sections move by the same distance.
    #[must_use]
    pub const fn moves(&self) -> bool {
        self.patch.absolute() && self.target_section.is_some()
    }
}
