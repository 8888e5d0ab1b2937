//! FLIX bundles at relocation places: their formats are known, the bits of their immediates are not.
//!
//! A caller who knows them passes [`FlixSlot`]s, usually read from a file by `outboard-ucode`.

use alloc::string::String;

/// A bundle format of the Vision-Q7 cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlixFormat {
    /// Name, such as `F0`.
    pub name: &'static str,
    /// Length in bytes.
    pub length: u8,
    /// Bits of the first word that select it.
    pub mask: u32,
    /// Their value.
    pub bits: u32,
}

const fn format(name: &'static str, length: u8, mask: u32, bits: u32) -> FlixFormat {
    FlixFormat { name, length, mask, bits }
}

/// The formats in the order in which they are tried (docs/reference/xtensa-isa.md, "FLIX").
pub const FORMATS: [FlixFormat; 11] = [
    format("F0", 16, 0x0b00_000f, 0x0100_000f),
    format("F11", 16, 0x0800_000f, 0x0800_000e),
    format("F1", 16, 0x3700_000f, 0x0300_000f),
    format("F2", 16, 0x3700_000f, 0x3300_000f),
    format("F3", 16, 0x0800_000f, 0x0000_000e),
    format("F4", 16, 0x0b00_000f, 0x0900_000f),
    format("F6", 16, 0x3700_000f, 0x2300_000f),
    format("F7", 16, 0x3700_000f, 0x1300_000f),
    format("N1", 8, 0x1900_000f, 0x0800_000f),
    format("N2", 8, 0x1900_000f, 0x1800_000f),
    format("N0", 8, 0x0900_000f, 0x0000_000f),
];

/// The format of the bundle that starts with `word`.
#[must_use]
pub fn format_of(word: u32) -> Option<&'static FlixFormat> {
    FORMATS.iter().find(|format| word & format.mask == format.bits)
}

/// Where a 16-bit immediate lies in one slot of one format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlixSlot {
    /// Name of the format.
    pub format: String,
    /// Slot.
    pub slot: u8,
    /// Bits of the bundle that tell that the slot holds the instruction.
    pub mask: u128,
    /// Their value.
    pub bits: u128,
    /// Bundle bit of each bit of the immediate, the lowest first.
    pub immediate: [u8; 16],
}

impl FlixSlot {
    /// Whether this row is for slot `slot` of `bundle`, a bundle of `format`.
    #[must_use]
    pub fn matches(&self, format: &FlixFormat, slot: u8, bundle: u128) -> bool {
        self.format == format.name && self.slot == slot && bundle & self.mask == self.bits
    }

    /// Why the row cannot be used; `None` for a sound one.
    #[must_use]
    pub fn problem(&self) -> Option<&'static str> {
        let Some(format) = FORMATS.iter().find(|format| format.name == self.format) else {
            return Some("no such bundle format");
        };
        let places = self.field();
        if places.count_ones() != 16 {
            Some("the immediate needs sixteen different bits")
        } else if self.immediate.iter().any(|bit| *bit >= format.length * 8) {
            Some("a bit of the immediate lies outside of the bundle")
        } else if places & self.mask != 0 || places & u128::from(format.mask) != 0 {
            Some("a bit of the immediate also selects the format or the instruction")
        } else if self.bits & !self.mask != 0 {
            Some("the value has bits that the mask does not select")
        } else {
            None
        }
    }

    /// The bits of the immediate.
    #[must_use]
    pub fn field(&self) -> u128 {
        self.immediate.iter().fold(0, |bits, bit| bits | 1_u128.checked_shl(u32::from(*bit)).unwrap_or(0))
    }

    /// The bundle with `value` in the immediate.
    #[must_use]
    pub fn insert(&self, bundle: u128, value: u16) -> u128 {
        let scattered = self.immediate.iter().enumerate().fold(0, |bits, (index, bit)| {
            let one = u128::from(value >> index & 1);
            bits | one.checked_shl(u32::from(*bit)).unwrap_or(0)
        });
        bundle & !self.field() | scattered
    }

    /// The immediate of the bundle.
    #[must_use]
    pub fn extract(&self, bundle: u128) -> u16 {
        self.immediate.iter().enumerate().fold(0, |value, (index, bit)| {
            let one = bundle.checked_shr(u32::from(*bit)).unwrap_or(0) & 1 == 1;
            value | u16::from(one) << index
        })
    }
}
