//! Reproducible operand values: random ones, and the edges where instructions go wrong.

/// A linear congruential generator.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x1234_5678_9abc_def1)
    }

    pub fn word(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(0x5851_f42d_4c95_7f2d);
        (self.0 >> 32) as u32
    }

    pub fn below(&mut self, limit: u32) -> u32 {
        self.word() % limit
    }

    /// A value for an address register.
    pub fn integer(&mut self) -> u32 {
        const EDGES: [u32; 16] = [
            0,
            1,
            2,
            31,
            32,
            33,
            0x7f,
            0x80,
            0xff,
            0x7fff,
            0x8000,
            0xffff,
            0x7fff_ffff,
            0x8000_0000,
            0x8000_0001,
            0xffff_ffff,
        ];
        match self.below(5) {
            0 => EDGES[self.below(16) as usize],
            1 => self.below(64).wrapping_sub(16),
            2 => 1 << self.below(32),
            3 => (self.word() as i32 >> self.below(32)) as u32,
            _ => self.word(),
        }
    }

    /// A value for a floating-point register: NaNs of both kinds, infinities, zeros, subnormals,
    /// values that tie when rounded, and neighbours of equal magnitude.
    pub fn float(&mut self) -> u32 {
        const EDGES: [u32; 24] = [
            0,
            0x8000_0000,
            0x3f80_0000,
            0xbf80_0000,
            0x3f00_0000,
            0x3fc0_0000,
            0x4020_0000,
            0x7f80_0000,
            0xff80_0000,
            0x7fc0_0000,
            0xffc1_2345,
            0x7f80_0001,
            0xffa0_0000,
            0x0000_0001,
            0x807f_ffff,
            0x0080_0000,
            0x8080_0001,
            0x7f7f_ffff,
            0xff7f_fffe,
            0x4f00_0000,
            0xcf00_0000,
            0x4f80_0000,
            0x4eff_ffff,
            0x3380_0000,
        ];
        let sign = self.word() & 0x8000_0000;
        match self.below(8) {
            0 | 1 => EDGES[self.below(24) as usize],
            2 => sign | self.below(0x0080_0000),
            3 => sign | 0x7f00_0000 | self.below(0x0080_0000),
            // Few significant bits: exact results and ties.
            4 => sign | (0x3c + self.below(8)) << 24 | self.below(256) << 16,
            // Near one, full significands.
            5 => sign | 0x3f00_0000 | self.below(0x0100_0000),
            // Odd halves: ties in conversions.
            6 => sign ^ ((self.below(1 << 12) as f32) + 0.5).to_bits(),
            _ => self.word(),
        }
    }
}
