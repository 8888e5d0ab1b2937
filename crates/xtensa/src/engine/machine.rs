//! A core without its translated code: registers, memory, privileges, special registers,
//! exceptions.

use std::collections::HashMap;

use crate::isa::registers::{special, user};
use crate::softfloat::flag;

use super::config::{CoreConfig, Exceptions, VectorOffsets};
use super::cpu::{Cpu, ps};
use super::fault::{Cause, Fault, Stop};
use super::memory::Memory;

#[derive(Debug)]
pub(super) struct Machine<M> {
    pub cpu: Cpu,
    pub memory: M,
    pub config: CoreConfig,
    /// External registers (RER, WER).
    pub external: HashMap<u32, u32>,
    /// The registers of the outermost frame when it was last spilled (windows without vectors).
    pub outermost: [u32; 16],
    /// Why the run ends, after [`Way::Stop`].
    pub stopped: Option<Stop>,
}

/// Where execution goes after an exit. Small enough for two registers: a stop's reason waits in
/// [`Machine::stopped`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub pc: u32,
    pub way: Way,
}

/// By which way a block is left; each remembers the block it last led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// A branch taken, a jump, a return.
    Main,
    /// A branch not taken, a loop skipped.
    Other,
    /// The run ends.
    Stop,
}

impl Step {
    /// Continues at `pc` by the main way.
    #[inline(always)]
    pub fn to(pc: u32) -> Self {
        Self { pc, way: Way::Main }
    }

    /// Continues at `pc` by the other way.
    #[inline(always)]
    pub fn other(pc: u32) -> Self {
        Self { pc, way: Way::Other }
    }
}

/// What a write to a special register means for translated code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Written {
    Nothing,
    /// LEND changed: blocks must end there.
    LoopEnd(u32),
}

impl<M: Memory> Machine<M> {
    pub fn check_privilege(&self) -> Result<(), Box<Cause>> {
        if self.cpu.ring() == 0 { Ok(()) } else { Err(Box::new(Cause::Privileged)) }
    }

    /// Reads a special register.
    pub fn read_special(&self, number: u8) -> Result<u32, Box<Cause>> {
        if number >= 64 {
            self.check_privilege()?;
        }
        Ok(self.peek_special(number))
    }

    /// Reads a special register without checks.
    pub fn peek_special(&self, number: u8) -> u32 {
        let cpu = &self.cpu;
        match number {
            special::LBEG => cpu.lbeg,
            special::LEND => cpu.lend,
            special::LCOUNT => cpu.lcount,
            special::SAR => cpu.sar,
            special::BR => cpu.br,
            special::LITBASE => cpu.litbase,
            special::SCOMPARE1 => cpu.scompare1,
            special::ACCLO => cpu.acc as u32,
            special::ACCHI => (cpu.acc >> 32) as u32,
            32..=35 => cpu.mr[usize::from(number - special::M0)],
            special::WINDOWBASE => cpu.window_base,
            special::WINDOWSTART => cpu.window_start,
            special::CPENABLE => cpu.cpenable,
            special::INTERRUPT => cpu.interrupt,
            special::INTENABLE => cpu.intenable,
            special::PS => cpu.ps,
            special::CCOUNT => cpu.ccount(),
            240..=242 => cpu.ccompare[usize::from(number - special::CCOMPARE0)],
            _ => cpu.special[usize::from(number)],
        }
    }

    /// Writes a special register with its side effects.
    pub fn write_special(&mut self, number: u8, value: u32) -> Result<Written, Box<Cause>> {
        if number >= 64 {
            self.check_privilege()?;
        }
        Ok(self.poke_special(number, value))
    }

    /// Writes a special register without checks.
    pub fn poke_special(&mut self, number: u8, value: u32) -> Written {
        let timers = self.config.interrupts.timers;
        let cpu = &mut self.cpu;
        match number {
            special::LBEG => cpu.lbeg = value,
            special::LEND => {
                cpu.lend = value;
                return Written::LoopEnd(value);
            }
            special::LCOUNT => cpu.lcount = value,
            special::SAR => cpu.sar = value & 63,
            special::BR => cpu.br = value & 0xffff,
            special::LITBASE => cpu.litbase = value & 0xffff_f001,
            special::SCOMPARE1 => cpu.scompare1 = value,
            special::ACCLO => cpu.acc = cpu.acc & !0xffff_ffff | i64::from(value),
            special::ACCHI => {
                cpu.acc = i64::from(value as i8) << 32 | cpu.acc & 0xffff_ffff;
            }
            32..=35 => cpu.mr[usize::from(number - special::M0)] = value,
            special::WINDOWBASE => cpu.set_window_base(value),
            special::WINDOWSTART => cpu.set_window_start(value),
            special::CPENABLE => cpu.set_cpenable(value),
            special::INTERRUPT => {
                cpu.interrupt |= value & self.config.interrupts.latched;
                cpu.update_attention();
            }
            special::INTCLEAR => {
                cpu.interrupt &= !(value & self.config.interrupts.latched);
                cpu.update_attention();
            }
            special::INTENABLE => {
                cpu.intenable = value;
                cpu.update_attention();
            }
            special::PS => cpu.set_ps(value),
            special::CCOUNT => {
                cpu.ccount_offset = value.wrapping_sub(cpu.cycles as u32);
                cpu.update_timer(&timers);
            }
            240..=242 => {
                let timer = usize::from(number - special::CCOMPARE0);
                cpu.ccompare[timer] = value;
                // Writing CCOMPARE withdraws the timer's request.
                if let Some(line) = timers[timer] {
                    cpu.interrupt &= !(1 << (line & 31));
                }
                cpu.update_timer(&timers);
            }
            special::EXCCAUSE => cpu.special[usize::from(number)] = value & 63,
            // Read-only.
            special::PRID | special::CONFIGID0 | special::CONFIGID1 => {}
            _ => cpu.special[usize::from(number)] = value,
        }
        Written::Nothing
    }

    /// Reads a user register.
    pub fn read_user(&self, number: u8) -> u32 {
        match number {
            user::FCR => self.cpu.fcr,
            user::FSR => self.cpu.fsr,
            _ => self.cpu.user[usize::from(number)],
        }
    }

    /// Writes a user register.
    pub fn write_user(&mut self, number: u8, value: u32) {
        match number {
            user::FCR => self.cpu.fcr = value & 0x7f,
            user::FSR => self.cpu.fsr = value & flag::ALL,
            _ => self.cpu.user[usize::from(number)] = value,
        }
    }

    /// Delivers an exception at `pc`: to the guest's vectors or, without them, as a fault.
    pub fn raise(&mut self, pc: u32, cause: Cause) -> Step {
        let vectors = match self.config.exceptions {
            Exceptions::Vectors(vectors) if has_vector(&cause) => vectors,
            _ => return self.fault(pc, cause),
        };
        self.cpu.special[usize::from(special::EXCCAUSE)] = cause.number().into();
        if let Some(address) = cause.address() {
            self.cpu.special[usize::from(special::EXCVADDR)] = address;
        }
        Step::to(self.enter_exception(pc, &vectors))
    }

    /// Saves the pc, sets PS.EXCM and returns the general vector's address.
    fn enter_exception(&mut self, pc: u32, vectors: &VectorOffsets) -> u32 {
        let offset = if self.cpu.excm() {
            self.cpu.special[usize::from(special::DEPC)] = pc;
            vectors.double
        } else {
            self.cpu.special[usize::from(special::EPC1)] = pc;
            if self.cpu.ps & ps::UM != 0 { vectors.user } else { vectors.kernel }
        };
        self.cpu.set_ps(self.cpu.ps | ps::EXCM);
        self.vector(offset)
    }

    pub fn vector(&self, offset: u32) -> u32 {
        self.cpu.special[usize::from(special::VECBASE)].wrapping_add(offset)
    }

    /// Ends the run with a fault at `pc`.
    pub fn fault(&mut self, pc: u32, cause: Cause) -> Step {
        self.cpu.pc = pc;
        let mut bytes = vec![0; 16];
        let length = match cause {
            Cause::Bundle { format } => format.length().into(),
            _ => 3,
        };
        bytes.truncate(length);
        let fetched = self.memory.fetch(pc, &mut bytes).unwrap_or(0);
        bytes.truncate(fetched);
        let backtrace = self.backtrace();
        self.stop(Stop::Fault(Box::new(Fault { cause, pc, bytes, backtrace })))
    }

    /// Ends the run; the pc is in the registers.
    pub fn stop(&mut self, stop: Stop) -> Step {
        self.stopped = Some(stop);
        Step { pc: self.cpu.pc, way: Way::Stop }
    }

    /// The reason of a [`Way::Stop`].
    pub fn take_stop(&mut self) -> Stop {
        self.stopped.take().unwrap_or(Stop::Fuel)
    }

    /// Enters a high-priority interrupt or debug exception of `level` (2..=7).
    pub fn enter_level(&mut self, pc: u32, level: u8, vectors: &VectorOffsets) -> u32 {
        let level = level.clamp(2, 7);
        self.cpu.special[usize::from(special::EPC1 + level - 1)] = pc;
        self.cpu.special[usize::from(special::EPS2 + level - 2)] = self.cpu.ps;
        let raised = self.cpu.ps & !15 | u32::from(level) | ps::EXCM;
        self.cpu.set_ps(raised);
        self.vector(vectors.level[usize::from(level - 2)])
    }

    /// The level below which interrupts are masked.
    pub fn current_level(&self) -> u8 {
        let level = (self.cpu.ps & 15) as u8;
        if self.cpu.excm() { level.max(self.config.interrupts.excm_level) } else { level }
    }

    /// The highest level of an enabled, raised line that is not masked.
    pub fn pending_level(&self) -> Option<u8> {
        let raised = self.cpu.interrupt & self.cpu.intenable;
        let lines = (0..32usize).filter(|line| raised >> line & 1 == 1);
        let highest = lines.map(|line| self.config.interrupts.levels[line]).max()?;
        (highest > self.current_level()).then_some(highest)
    }

    /// Raises timer lines that are due and finds the next match.
    pub fn tick(&mut self) {
        if self.cpu.cycles < self.cpu.timer_due {
            return;
        }
        let timers = self.config.interrupts.timers;
        let now = self.cpu.ccount();
        for (compare, line) in self.cpu.ccompare.iter().zip(timers) {
            // Due within the last block's cycles.
            if let Some(line) = line
                && now.wrapping_sub(*compare) < 1 << 16
            {
                self.cpu.interrupt |= 1 << (line & 31);
            }
        }
        self.cpu.update_timer(&timers);
    }

    /// Delivers a pending interrupt, if one is: returns the new pc.
    pub fn deliver_interrupt(&mut self, pc: u32) -> Option<u32> {
        let Exceptions::Vectors(vectors) = self.config.exceptions else { return None };
        let level = self.pending_level()?;
        if level > 1 {
            return Some(self.enter_level(pc, level, &vectors));
        }
        self.cpu.special[usize::from(special::EXCCAUSE)] = 4;
        Some(self.enter_exception(pc, &vectors))
    }
}

/// Does the architecture deliver this to a vector? The rest are refusals of this engine.
fn has_vector(cause: &Cause) -> bool {
    !matches!(cause, Cause::Bundle { .. } | Cause::StackLimit { .. } | Cause::FuelExhausted | Cause::DebugBreak)
}
