//! Instruction lengths and FLIX bundle formats.
//!
//! Base cores have 2- and 3-byte instructions; the low four bits of the first byte tell them
//! apart. DSP cores add bundles of several operations, whose formats belong to the core's
//! configuration. The formats of the Vision-Q7 pool cores are known well enough to find the
//! bundles and step over them; what their slots mean is not (docs/reference/xtensa-isa.md, "FLIX").

use core::fmt;

/// Which bundles a core has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flix {
    /// None: first nibbles 14 and 15 are illegal.
    #[default]
    None,
    /// Those of the Vision-Q7 pool cores.
    VisionQ7,
}

/// A bundle format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BundleFormat {
    name: &'static str,
    length: u8,
    mask: u32,
    bits: u32,
    slots: u8,
}

impl BundleFormat {
    /// Name, such as `F0` or `N1`.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Length in bytes: 8 or 16.
    pub fn length(&self) -> u8 {
        self.length
    }

    /// Number of operation slots.
    pub fn slots(&self) -> u8 {
        self.slots
    }
}

impl fmt::Display for BundleFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} bytes, {} slots)", self.name, self.length, self.slots)
    }
}

const fn format(name: &'static str, length: u8, mask: u32, bits: u32, slots: u8) -> BundleFormat {
    BundleFormat { name, length, mask, bits, slots }
}

/// The Vision-Q7 formats, by the first four bytes, in the order in which they must be tried.
const VISION_Q7: [BundleFormat; 11] = [
    format("F0", 16, 0x0b00_000f, 0x0100_000f, 4),
    format("F11", 16, 0x0800_000f, 0x0800_000e, 5),
    format("F1", 16, 0x3700_000f, 0x0300_000f, 4),
    format("F2", 16, 0x3700_000f, 0x3300_000f, 4),
    format("F3", 16, 0x0800_000f, 0x0000_000e, 5),
    format("F4", 16, 0x0b00_000f, 0x0900_000f, 4),
    format("F6", 16, 0x3700_000f, 0x2300_000f, 4),
    format("F7", 16, 0x3700_000f, 0x1300_000f, 4),
    format("N1", 8, 0x1900_000f, 0x0800_000f, 3),
    format("N2", 8, 0x1900_000f, 0x1800_000f, 2),
    format("N0", 8, 0x0900_000f, 0x0000_000f, 4),
];

/// What the first bytes of an instruction say about its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// A 16- or 24-bit instruction of this many bytes.
    Scalar(u8),
    /// A bundle.
    Bundle(&'static BundleFormat),
    /// More bytes are needed to tell: this many in all.
    NeedBytes(u8),
    /// No such instruction on this core; `length` is the bundle's length if that much is known.
    Illegal {
        /// Length in bytes where the first bytes determine it.
        length: Option<u8>,
    },
}

/// Length of the instruction that starts with `bytes`. Four bytes are always enough.
///
/// ```
/// use outboard_xtensa::length::{Flix, Length, instruction_length};
/// assert_eq!(instruction_length(&[0x0d, 0xf0], Flix::None), Length::Scalar(2));
/// let bundle = instruction_length(&[0x4f, 0x80, 0xa0, 0x80], Flix::VisionQ7);
/// assert!(matches!(bundle, Length::Bundle(format) if format.name() == "N0"));
/// ```
pub fn instruction_length(bytes: &[u8], flix: Flix) -> Length {
    let Some(&first) = bytes.first() else { return Length::NeedBytes(1) };
    match (first & 15, flix) {
        (0..=7, _) => Length::Scalar(3),
        (8..=13, _) => Length::Scalar(2),
        (_, Flix::None) => Length::Illegal { length: None },
        (_, Flix::VisionQ7) => match bytes.first_chunk::<4>() {
            Some(chunk) => vision_q7(u32::from_le_bytes(*chunk)),
            None => Length::NeedBytes(4),
        },
    }
}

fn vision_q7(word: u32) -> Length {
    if let Some(format) = VISION_Q7.iter().find(|format| word & format.mask == format.bits) {
        return Length::Bundle(format);
    }
    // The nibbles 7 and 15 of byte 3 have no length; others with an unlisted format are 16 bytes.
    let nibble = word >> 24 & 15;
    let length = if nibble == 7 || nibble == 15 { None } else { Some(16) };
    Length::Illegal { length }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn length_of(byte0: u8, byte3: u8) -> Option<u8> {
        match instruction_length(&[byte0, 0, 0, byte3], Flix::VisionQ7) {
            Length::Scalar(length) => Some(length),
            Length::Bundle(format) => Some(format.length()),
            Length::Illegal { length } => length,
            Length::NeedBytes(_) => panic!("four bytes are enough"),
        }
    }

    #[test]
    fn the_256_entry_length_table_has_the_published_census() {
        let mut census = [0u32; 17];
        let mut illegal = 0;
        for byte3 in 0..16 {
            for byte0 in 0..16 {
                match length_of(byte0, byte3) {
                    Some(length) => census[usize::from(length)] += 1,
                    None => illegal += 1,
                }
            }
        }
        assert_eq!((census[3], census[2], census[16], census[8], illegal), (128, 96, 22, 8, 2));
    }

    #[test]
    fn blank_templates_select_their_formats() {
        let templates: [(&str, [u8; 4]); 11] = [
            ("F0", [0x0f, 0, 0, 0x01]),
            ("F11", [0x0e, 0, 0, 0x08]),
            ("F1", [0x0f, 0, 0, 0x03]),
            ("F2", [0x0f, 0, 0, 0x33]),
            ("F3", [0x0e, 0, 0, 0]),
            ("F4", [0x0f, 0, 0, 0x09]),
            ("F6", [0x0f, 0, 0, 0x23]),
            ("F7", [0x0f, 0, 0, 0x13]),
            ("N1", [0x0f, 0, 0, 0x08]),
            ("N2", [0x0f, 0, 0, 0x18]),
            ("N0", [0x0f, 0, 0, 0]),
        ];
        for (name, bytes) in templates {
            match instruction_length(&bytes, Flix::VisionQ7) {
                Length::Bundle(format) => assert_eq!(format.name(), name),
                other => panic!("{name}: {other:?}"),
            }
        }
    }

    #[test]
    fn a_bundle_near_the_end_asks_for_more_bytes() {
        assert_eq!(instruction_length(&[0x0f, 0], Flix::VisionQ7), Length::NeedBytes(4));
        assert_eq!(instruction_length(&[0x0f, 0], Flix::None), Length::Illegal { length: None });
    }
}
