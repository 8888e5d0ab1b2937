//! Changes inputs: anywhere, and preferably in the tables that a reader follows.

use core::ops::Range;

use outboard_elf::{Elf, Pointers, dt, sht};

/// SplitMix64.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// A generator for a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub const fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `limit`; 0 when `limit` is 0.
    pub fn below(&mut self, limit: usize) -> usize {
        let wide = u128::from(self.next_u64()) * limit as u128;
        usize::try_from(wide >> 64).unwrap_or(0)
    }
}

/// Values at which comparisons go wrong.
const EDGES: [u64; 16] = [
    0,
    1,
    7,
    24,
    56,
    0x7f,
    0xff,
    0x1000,
    0xffff,
    0x7fff_ffff,
    0xffff_ffff,
    0x1_0000_0000,
    0x8000_0000,
    0x7fff_ffff_ffff_ffff,
    u64::MAX - 7,
    u64::MAX,
];

/// A changed copy of `input`; `other` lends bytes.
#[must_use]
pub fn mutate(random: &mut Random, input: &[u8], other: &[u8]) -> Vec<u8> {
    let mut output = input.to_vec();
    let tables = tables(input);
    for _ in 0..=random.below(4) {
        if output.is_empty() {
            return other.to_vec();
        }
        let range = match tables.get(random.below(tables.len() * 2)) {
            Some(table) if table.end <= output.len() && !table.is_empty() => table.clone(),
            _ => 0..output.len(),
        };
        change(random, &mut output, range, other);
    }
    output
}

fn change(random: &mut Random, output: &mut Vec<u8>, range: Range<usize>, other: &[u8]) {
    let width = [1, 2, 4, 8][random.below(4)];
    // Fields are aligned to their size.
    let at = (range.start + random.below(range.len())) / width * width;
    let end = (at + width).min(output.len());
    let old = read(&output[at..end]);
    let new = match random.below(10) {
        0..=3 => EDGES[random.below(EDGES.len())],
        4 => old.wrapping_add(random.below(17) as u64).wrapping_sub(8),
        5 => old ^ 1 << random.below(8 * width),
        6 => random.next_u64(),
        7 => {
            let from = random.below(other.len());
            read(&other[from..(from + width).min(other.len())])
        }
        8 if output.len() > 16 => {
            output.truncate(random.below(output.len()));
            return;
        }
        _ => {
            // Another entry of the same table.
            let from = (range.start + random.below(range.len())) / width * width;
            read(&output[from..(from + width).min(output.len())])
        }
    };
    for (byte, value) in output[at..end].iter_mut().zip(new.to_le_bytes()) {
        *byte = value;
    }
}

fn read(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

/// The byte ranges of the tables that a reader follows.
fn tables(input: &[u8]) -> Vec<Range<usize>> {
    let Ok(elf) = Elf::parse(input) else { return Vec::new() };
    let header = elf.header();
    let mut ranges = Vec::new();
    ranges.push(0..64);
    let mut add = |start: u64, len: u64| {
        if let (Ok(start), Ok(len)) = (usize::try_from(start), usize::try_from(len)) {
            ranges.push(start..start.saturating_add(len));
        }
    };
    add(header.phoff, u64::from(header.phnum) * header.class.program_header_size());
    add(header.shoff, u64::from(header.shnum) * header.class.section_header_size());
    // Objects: symbols and relocations are found by their sections.
    for section in elf.sections().into_iter().flat_map(|sections| sections.iter()).take(64) {
        if matches!(section.kind, sht::SYMTAB | sht::RELA | sht::GROUP) {
            add(section.offset, section.size.min(1 << 12));
        }
    }
    for note in elf.notes().flatten().take(8) {
        add(note.offset, 24);
    }
    let pointers = if header.machine == outboard_elf::machine::C7X { Pointers::FileOffset } else { Pointers::Virtual };
    if let Ok(Some(dynamic)) = elf.dynamic(pointers) {
        add(dynamic.file_offset(), 16 * (dynamic.iter().len() as u64 + 1));
        for (tag, size) in [
            (dt::RELA, 24 * 8),
            (dt::JMPREL, 48),
            (dt::RELR, 32),
            (dt::SYMTAB, 24 * 16),
            (dt::HASH, 16),
            (dt::GNU_HASH, 64),
            (dt::STRTAB, 64),
        ] {
            if let Some(offset) = dynamic.get(tag).and_then(|address| dynamic.locate("a table", address, 8).ok()) {
                add(offset, size);
            }
        }
    }
    ranges
}
