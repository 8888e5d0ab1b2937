//! The registers of a core, and the register windows.

use crate::isa::registers::special;

use super::block::needs;
use super::config::CoreConfig;

/// PS fields.
pub(super) mod ps {
    pub const EXCM: u32 = 1 << 4;
    pub const UM: u32 = 1 << 5;
    pub const RING_SHIFT: u32 = 6;
    pub const OWB_SHIFT: u32 = 8;
    pub const OWB: u32 = 15 << OWB_SHIFT;
    pub const CALLINC_SHIFT: u32 = 16;
    pub const CALLINC: u32 = 3 << CALLINC_SHIFT;
    pub const WOE: u32 = 1 << 18;
    /// Every defined field.
    pub const ALL: u32 = 0x7_0fff;
}

/// Room for 64 registers and a window behind them, rounded up so that a mask bounds every index.
const REGS: usize = 128;

/// Where a register of the window that starts at `base` lives.
#[inline(always)]
pub(super) fn slot(base: usize, register: u8) -> usize {
    base.wrapping_add(usize::from(register)) % REGS
}

/// The architectural registers.
#[derive(Clone, Debug)]
pub(super) struct Cpu {
    /// The physical address registers, and behind them room for a window that begins near their
    /// end: while such a window is visible, its last registers live there and not at the front.
    pub regs: [u32; REGS],
    /// Index of the window's first register.
    pub base: usize,
    quad_mask: u32,
    pub window_base: u32,
    pub window_start: u32,
    /// How many quads beyond the first can be named without a window overflow (0..=3).
    pub free_quads: u8,
    /// What a block must not need now ([`super::block::needs`]).
    pub denied: u8,
    pub pc: u32,
    pub ps: u32,
    pub sar: u32,
    pub br: u32,
    pub lbeg: u32,
    pub lend: u32,
    pub lcount: u32,
    /// The 40-bit accumulator, sign-extended.
    pub acc: i64,
    pub mr: [u32; 4],
    pub fr: [u32; 16],
    pub fcr: u32,
    pub fsr: u32,
    pub scompare1: u32,
    pub litbase: u32,
    pub cpenable: u32,
    pub interrupt: u32,
    pub intenable: u32,
    pub ccompare: [u32; 3],
    /// The cycle at which the next CCOMPARE matches.
    pub timer_due: u64,
    /// The cycle at which the run must look at interrupts and timers.
    pub attention_at: u64,
    pub cycles: u64,
    /// CCOUNT is the low half of `cycles` plus this.
    pub ccount_offset: u32,
    pub instructions: u64,
    /// Other special registers, by number: plain storage.
    pub special: Box<[u32; 256]>,
    /// User registers without a meaning of their own, by number.
    pub user: Box<[u32; 256]>,
}

impl Cpu {
    pub fn new(config: &CoreConfig) -> Self {
        let mut cpu = Self {
            regs: [0; REGS],
            base: 0,
            quad_mask: u32::from(config.address_registers) / 4 - 1,
            window_base: 0,
            window_start: 1,
            free_quads: 3,
            denied: 0,
            pc: 0,
            ps: config.reset_ps,
            sar: 0,
            br: 0,
            lbeg: 0,
            lend: 0,
            lcount: 0,
            acc: 0,
            mr: [0; 4],
            fr: [0; 16],
            fcr: 0,
            fsr: 0,
            scompare1: 0,
            litbase: 0,
            cpenable: config.reset_cpenable,
            interrupt: 0,
            intenable: 0,
            ccompare: [0; 3],
            timer_due: u64::MAX,
            attention_at: u64::MAX,
            cycles: 0,
            ccount_offset: 0,
            instructions: 0,
            special: Box::new([0; 256]),
            user: Box::new([0; 256]),
        };
        cpu.special[usize::from(special::PRID)] = config.processor_id;
        cpu.special[usize::from(special::VECBASE)] = config.reset_vecbase;
        cpu.update_free_quads();
        cpu
    }

    pub fn excm(&self) -> bool {
        self.ps & ps::EXCM != 0
    }

    /// Are window overflows and underflows checked?
    pub fn windows_checked(&self) -> bool {
        self.ps & (ps::WOE | ps::EXCM) == ps::WOE
    }

    pub fn call_increment(&self) -> u32 {
        (self.ps & ps::CALLINC) >> ps::CALLINC_SHIFT
    }

    pub fn set_call_increment(&mut self, quads: u32) {
        self.ps = self.ps & !ps::CALLINC | quads << ps::CALLINC_SHIFT;
    }

    /// The privilege ring that counts: 0 while an exception is handled.
    pub fn ring(&self) -> u32 {
        if self.excm() { 0 } else { self.ps >> ps::RING_SHIFT & 3 }
    }

    pub fn set_ps(&mut self, value: u32) {
        self.ps = value & ps::ALL;
        self.update_free_quads();
    }

    /// Number of quads in the physical register file.
    pub fn quad_count(&self) -> u32 {
        self.quad_mask + 1
    }

    /// WINDOWBASE moved by `quads`, wrapped.
    pub fn base_after(&self, quads: u32) -> u32 {
        self.window_base.wrapping_add(quads) & self.quad_mask
    }

    /// Does a frame start `quads` after the current one (wrapping)?
    pub fn frame_starts(&self, quads: u32) -> bool {
        self.window_start >> self.base_after(quads) & 1 == 1
    }

    /// Address register `register` of the current window.
    #[inline(always)]
    pub fn ar(&self, register: u8) -> u32 {
        self.regs[slot(self.base, register)]
    }

    /// Writes an address register of the current window.
    #[inline(always)]
    pub fn set_ar(&mut self, register: u8, value: u32) {
        self.regs[slot(self.base, register)] = value;
    }

    /// The current window.
    pub fn window(&self) -> [u32; 16] {
        core::array::from_fn(|register| self.ar(register as u8))
    }

    /// Makes another window visible.
    #[inline]
    pub fn set_window_base(&mut self, base: u32) {
        let base = base & self.quad_mask;
        let last = self.quad_mask - 3;
        if self.window_base > last {
            self.write_back();
        }
        self.window_base = base;
        self.base = base as usize * 4;
        if base > last {
            let count = self.wrapped();
            let end = self.register_count();
            self.regs.copy_within(..count, end);
        }
        self.update_free_quads();
    }

    /// How many registers of the window lie behind the physical ones.
    fn wrapped(&self) -> usize {
        (self.base + 16).saturating_sub(self.register_count())
    }

    fn register_count(&self) -> usize {
        self.quad_count() as usize * 4
    }

    /// Brings the physical registers up to date with the visible window.
    #[cold]
    pub fn write_back(&mut self) {
        let end = self.register_count();
        let wrapped = self.wrapped();
        self.regs.copy_within(end..end + wrapped, 0);
    }

    /// A physical quad's first two registers, for backtraces; [`Cpu::write_back`] must have been
    /// called.
    pub fn quad(&self, index: u32) -> [u32; 2] {
        let first = (index & self.quad_mask) as usize * 4;
        [self.regs[first % REGS], self.regs[(first + 1) % REGS]]
    }

    #[inline]
    pub fn set_window_start(&mut self, value: u32) {
        let width = self.quad_count();
        self.window_start = value & (u32::MAX >> (32 - width));
        self.update_free_quads();
    }

    #[inline]
    pub fn update_free_quads(&mut self) {
        self.free_quads = if self.windows_checked() {
            // The frames that start in the three quads after the current one.
            let width = self.quad_count();
            let doubled = self.window_start | self.window_start << width;
            let next = doubled >> (self.window_base + 1) & 7;
            (next | 8).trailing_zeros() as u8
        } else {
            3
        };
        let quads = needs::QUADS & !((1 << self.free_quads) - 1);
        let float = if self.cpenable & 1 == 0 { needs::FLOAT } else { 0 };
        self.denied = quads | float;
    }

    pub fn set_cpenable(&mut self, value: u32) {
        self.cpenable = value & 0xff;
        self.update_free_quads();
    }

    /// Makes the run look at interrupts and timers before the next block, if one is raised.
    pub fn update_attention(&mut self) {
        self.attention_at = if self.interrupt & self.intenable == 0 { self.timer_due } else { 0 };
    }

    pub fn ccount(&self) -> u32 {
        (self.cycles as u32).wrapping_add(self.ccount_offset)
    }

    /// Finds the cycle of the next timer match.
    pub fn update_timer(&mut self, timers: &[Option<u8>; 3]) {
        let now = self.ccount();
        let waits = self.ccompare.iter().zip(timers).filter(|(_, line)| line.is_some());
        let nearest = waits
            .map(|(compare, _)| match compare.wrapping_sub(now) {
                0 => 1u64 << 32,
                distance => u64::from(distance),
            })
            .min();
        self.timer_due = nearest.map_or(u64::MAX, |distance| self.cycles + distance);
        self.update_attention();
    }
}
