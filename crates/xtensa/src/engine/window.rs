//! Register windows: overflow, underflow, ENTRY, RETW and MOVSP.

use crate::isa::registers::special;

use super::config::Exceptions;
use super::cpu::ps;
use super::fault::{Cause, WindowFault};
use super::machine::{Machine, Step};
use super::memory::{Memory, MemoryError};

impl<M: Memory> Machine<M> {
    /// Frees a quad that the instruction at `pc` needs: the frame nearest after the current one is
    /// spilled by the guest's vector or by the engine. Execution resumes at the returned address.
    pub fn window_overflow(&mut self, pc: u32) -> Step {
        let nearest = (1..=3).find(|&quads| self.cpu.frame_starts(quads));
        let Some(distance) = nearest else { return Step::to(pc) };
        let frame = self.cpu.base_after(distance);
        let size = (1..=3).find(|&quads| self.cpu.frame_starts(distance + quads)).unwrap_or(3);
        if let Exceptions::Vectors(vectors) = self.config.exceptions {
            self.enter_window_exception(pc, frame);
            return Step::to(self.vector(vectors.overflow[size as usize - 1]));
        }
        let saved = self.cpu.window_base;
        self.cpu.set_window_base(frame);
        let outcome = self.spill(size);
        self.cpu.set_window_base(saved);
        match outcome {
            Ok(()) => {
                self.cpu.set_window_start(self.cpu.window_start & !(1 << frame));
                Step::to(pc)
            }
            Err(error) => self.save_area_fault(pc, error),
        }
    }

    /// Brings back the frame `size` quads before the current one; `pc` is retried.
    fn window_underflow(&mut self, pc: u32, size: u32) -> Step {
        let frame = self.cpu.base_after(size.wrapping_neg());
        if let Exceptions::Vectors(vectors) = self.config.exceptions {
            self.enter_window_exception(pc, frame);
            return Step::to(self.vector(vectors.underflow[size as usize - 1]));
        }
        let saved = self.cpu.window_base;
        self.cpu.set_window_base(frame);
        let outcome = self.reload(size);
        self.cpu.set_window_base(saved);
        match outcome {
            Ok(()) => {
                self.cpu.set_window_start(self.cpu.window_start | 1 << frame);
                Step::to(pc)
            }
            Err(error) => self.save_area_fault(pc, error),
        }
    }

    fn enter_window_exception(&mut self, pc: u32, frame: u32) {
        self.cpu.special[usize::from(special::EPC1)] = pc;
        let kept = self.cpu.ps & !ps::OWB;
        self.cpu.set_ps(kept | self.cpu.window_base << ps::OWB_SHIFT | ps::EXCM);
        self.cpu.set_window_base(frame);
    }

    fn save_area_fault(&mut self, pc: u32, error: MemoryError) -> Step {
        self.fault(pc, Cause::Window { reason: WindowFault::SaveArea(error) })
    }

    /// What a window overflow handler does, with the frame to spill current: its first four
    /// registers go below its callee's stack pointer, the others below its caller's frame.
    fn spill(&mut self, size: u32) -> Result<(), MemoryError> {
        let callee_sp = self.cpu.ar((size as u8 * 4 + 1) & 15);
        let own = self.cpu.window();
        self.save(callee_sp.wrapping_sub(16), &own[..4])?;
        if size == 1 {
            return Ok(());
        }
        let outcome = self.caller_area(own[1], size).and_then(|area| {
            let extra = &own[4..size as usize * 4];
            self.save(area, extra)
        });
        if own[0] >> 30 == 0 {
            // Nothing called the outermost frame: start code need not provide a caller's save area
            // for it, so that its registers are kept here too.
            self.outermost = own;
            return Ok(());
        }
        outcome
    }

    /// What a window underflow handler does, with the frame to reload current.
    fn reload(&mut self, size: u32) -> Result<(), MemoryError> {
        let callee_sp = self.cpu.ar((size as u8 * 4 + 1) & 15);
        self.restore(callee_sp.wrapping_sub(16), 0, 4)?;
        if size == 1 {
            return Ok(());
        }
        let extra = 4..size as usize * 4;
        if self.cpu.ar(0) >> 30 == 0 {
            for register in extra {
                self.cpu.set_ar(register as u8, self.outermost[register & 15]);
            }
            return Ok(());
        }
        let area = self.caller_area(self.cpu.ar(1), size)?;
        self.restore(area, extra.start, extra.end)
    }

    /// The save area for the registers from the fifth on, below the caller's frame.
    fn caller_area(&mut self, own_sp: u32, size: u32) -> Result<u32, MemoryError> {
        let caller_sp = self.memory.load32(own_sp.wrapping_sub(12))?;
        Ok(caller_sp.wrapping_sub(16 * size))
    }

    fn save(&mut self, area: u32, registers: &[u32]) -> Result<(), MemoryError> {
        for (index, &value) in registers.iter().enumerate() {
            self.memory.store32(area.wrapping_add(4 * index as u32), value)?;
        }
        Ok(())
    }

    fn restore(&mut self, area: u32, from: usize, to: usize) -> Result<(), MemoryError> {
        for register in from..to {
            let offset = 4 * (register - from) as u32;
            let value = self.memory.load32(area.wrapping_add(offset))?;
            self.cpu.set_ar(register as u8 & 15, value);
        }
        Ok(())
    }

    /// ENTRY.
    pub fn entry(&mut self, pc: u32, end: u32, register: u8, bytes: u32) -> Step {
        if register > 3 || !self.cpu.windows_checked() {
            return self.raise(pc, Cause::IllegalInstruction);
        }
        let quads = self.cpu.call_increment();
        if quads > self.cpu.free_quads.into() {
            return self.window_overflow(pc);
        }
        let old = self.ar(register);
        let new = old.wrapping_sub(bytes);
        if let Err(cause) = self.check_stack(old, new) {
            return self.raise(pc, cause);
        }
        self.cpu.set_ar(((quads << 2) as u8 | register) & 15, new);
        let base = self.cpu.base_after(quads);
        self.cpu.set_window_base(base);
        self.cpu.set_window_start(self.cpu.window_start | 1 << base);
        Step::to(end)
    }

    /// Refuses a stack pointer that crosses a stack limit on its way down.
    fn check_stack(&self, old: u32, new: u32) -> Result<(), Cause> {
        if !self.config.stack_limits {
            return Ok(());
        }
        for number in [special::ISL, special::KSL] {
            let limit = self.cpu.special[usize::from(number)];
            if limit != 0 && new < limit && limit <= old {
                return Err(Cause::StackLimit { pointer: new, limit });
            }
        }
        Ok(())
    }

    /// RETW.
    pub fn window_return(&mut self, pc: u32) -> Step {
        let return_address = self.cpu.ar(0);
        let quads = return_address >> 30;
        if !self.cpu.windows_checked() {
            return self.raise(pc, Cause::IllegalInstruction);
        }
        let nearest = (1..=3u32).find(|back| self.cpu.frame_starts(back.wrapping_neg()));
        if quads == 0 {
            return self.bad_return(pc, WindowFault::NotWindowed { return_address });
        }
        match nearest {
            Some(back) if back != quads => {
                let window_start = self.cpu.window_start;
                self.bad_return(pc, WindowFault::Contradiction { return_address, window_start })
            }
            None => self.window_underflow(pc, quads),
            Some(_) => {
                let own = 1 << self.cpu.window_base;
                self.cpu.window_start &= !own;
                let base = self.cpu.base_after(quads.wrapping_neg());
                self.cpu.set_window_base(base);
                Step::to(pc & 0xc000_0000 | return_address & 0x3fff_ffff)
            }
        }
    }

    /// An illegal RETW: exception cause 0 where vectors exist, else a fault that says more.
    fn bad_return(&mut self, pc: u32, reason: WindowFault) -> Step {
        match self.config.exceptions {
            Exceptions::Vectors(_) => self.raise(pc, Cause::IllegalInstruction),
            Exceptions::Host => self.fault(pc, Cause::Window { reason }),
        }
    }

    /// MOVSP: moving the stack pointer needs the caller's frame to be live, because its save area
    /// moves along.
    pub fn move_stack_pointer(&mut self, pc: u32, end: u32, to: u8, from: u8) -> Step {
        let live = (1..=3u32).any(|back| self.cpu.frame_starts(back.wrapping_neg()));
        if !live && self.cpu.window_start != 0 {
            if let Exceptions::Vectors(_) = self.config.exceptions {
                return self.raise(pc, Cause::Alloca);
            }
            let quads = (self.cpu.ar(0) >> 30).max(1);
            return self.window_underflow(pc, quads);
        }
        let (old, new) = (self.ar(to), self.ar(from));
        if let Err(cause) = self.check_stack(old, new) {
            return self.raise(pc, cause);
        }
        self.set_ar(to, new);
        Step::to(end)
    }
}
