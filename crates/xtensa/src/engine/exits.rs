//! What ends a block: branches, calls, returns, loops, and instructions that change the machine.

use crate::decode::Instruction;
use crate::isa::registers::special;
use crate::isa::{Op, operand};

use super::block::{Block, BlockCache, Exit, MicroOp, micro_op};
use super::config::Exceptions;
use super::cpu::ps;
use super::fault::{Cause, Stop};
use super::machine::{Machine, Step, Way, Written};
use super::memory::Memory;

/// What else an exit asks of the translated code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CodeChange {
    /// Compare every block with memory before it runs again.
    Revalidate,
    /// Blocks must end at this address from now on.
    Boundary(u32),
}

impl CodeChange {
    pub fn apply(self, cache: &mut BlockCache) {
        match self {
            Self::Revalidate => cache.revalidate_all(),
            Self::Boundary(address) => cache.add_boundary(address),
        }
    }
}

impl<M: Memory> Machine<M> {
    /// Leaves a block whose body has been executed.
    #[inline(always)]
    pub fn leave(&mut self, block: &Block, change: &mut Option<CodeChange>) -> Step {
        match block.exit {
            Exit::Next => Step::to(self.behind(block)),
            Exit::Branch(condition) => {
                if self.holds(&condition) {
                    self.cpu.cycles += u64::from(self.config.costs.taken);
                    Step::to(condition.imm)
                } else {
                    Step::other(self.behind(block))
                }
            }
            Exit::Jump { target } => Step::to(target),
            Exit::JumpRegister { register } => Step::to(self.ar(register)),
            Exit::Return => Step::to(self.cpu.ar(0)),
            Exit::Call { quads, target } => {
                self.link(quads, block.end);
                Step::to(target)
            }
            Exit::CallRegister { quads, register } => {
                let target = self.ar(register);
                self.link(quads, block.end);
                Step::to(target)
            }
            Exit::WindowReturn => self.window_return(block.exit_pc()),
            Exit::Entry { register, bytes } => self.entry(block.exit_pc(), block.end, register, bytes),
            Exit::Loop(operation) => self.start_loop(&operation, block.end),
            Exit::System(instruction) => self.system(instruction, block, change),
        }
    }

    /// The address after a block: its end or, at the end of a loop's body, the loop's start.
    #[inline(always)]
    fn behind(&mut self, block: &Block) -> u32 {
        if block.boundary { self.behind_boundary(block.end) } else { block.end }
    }

    #[inline]
    fn behind_boundary(&mut self, end: u32) -> u32 {
        let cpu = &mut self.cpu;
        if end == cpu.lend && cpu.lcount != 0 && !cpu.excm() {
            cpu.lcount -= 1;
            cpu.lbeg
        } else {
            end
        }
    }

    /// Writes a call's return address and window increment.
    #[inline(always)]
    fn link(&mut self, quads: u8, end: u32) {
        if quads == 0 {
            self.cpu.set_ar(0, end);
        } else {
            let increment = u32::from(quads);
            self.cpu.set_call_increment(increment);
            self.cpu.set_ar((quads & 3) << 2, increment << 30 | end & 0x3fff_ffff);
        }
    }

    #[inline(always)]
    fn holds(&self, op: &MicroOp) -> bool {
        let s = self.ar(op.s);
        let t = self.ar(op.t);
        let constant = operand::B4CONST[usize::from(op.r & 15)];
        match op.op {
            Op::Beqz => s == 0,
            Op::Bnez => s != 0,
            Op::Bltz => (s as i32) < 0,
            Op::Bgez => s as i32 >= 0,
            Op::Beqi => s as i32 == constant,
            Op::Bnei => s as i32 != constant,
            Op::Blti => (s as i32) < constant,
            Op::Bgei => s as i32 >= constant,
            Op::Bltui => s < operand::B4CONST_U[usize::from(op.r & 15)] as u32,
            Op::Bgeui => s >= operand::B4CONST_U[usize::from(op.r & 15)] as u32,
            Op::Bnone => s & t == 0,
            Op::Beq => s == t,
            Op::Blt => (s as i32) < t as i32,
            Op::Bltu => s < t,
            Op::Ball => !s & t == 0,
            Op::Bbc => s >> (t & 31) & 1 == 0,
            Op::Bbci => s >> (op.t & 31) & 1 == 0,
            Op::Bany => s & t != 0,
            Op::Bne => s != t,
            Op::Bge => s as i32 >= t as i32,
            Op::Bgeu => s >= t,
            Op::Bnall => !s & t != 0,
            Op::Bbs => s >> (t & 31) & 1 == 1,
            Op::Bbsi => s >> (op.t & 31) & 1 == 1,
            Op::Bf => self.cpu.br >> (op.s & 15) & 1 == 0,
            Op::Bt => self.cpu.br >> (op.s & 15) & 1 == 1,
            _ => false,
        }
    }

    /// LOOP, LOOPNEZ, LOOPGTZ.
    fn start_loop(&mut self, op: &MicroOp, body: u32) -> Step {
        let count = self.ar(op.s);
        self.cpu.lcount = count.wrapping_sub(1);
        self.cpu.lbeg = body;
        self.cpu.lend = op.imm;
        let skipped = match op.op {
            Op::Loopnez => count == 0,
            Op::Loopgtz => count as i32 <= 0,
            _ => false,
        };
        if skipped { Step::other(op.imm) } else { Step::to(body) }
    }

    #[inline(never)]
    fn system(&mut self, instruction: Instruction, block: &Block, change: &mut Option<CodeChange>) -> Step {
        let pc = block.exit_pc();
        let op = micro_op(instruction, pc);
        let outcome = match op.op {
            Op::Isync | Op::Ihi | Op::Iii => {
                if op.op != Op::Isync
                    && let Err(cause) = self.check_privilege()
                {
                    return self.raise(pc, *cause);
                }
                *change = Some(CodeChange::Revalidate);
                Ok(())
            }
            Op::Rsync => Ok(()),
            Op::Rsr => self.read_special(op.imm as u8).map(|value| self.set_ar(op.t, value)),
            Op::Wsr | Op::Xsr => self.write_or_swap_special(&op, change),
            Op::Rsil => self.check_privilege().map(|()| {
                let old = self.cpu.ps;
                self.set_ar(op.t, old);
                self.cpu.set_ps(old & !15 | op.imm & 15);
            }),
            Op::Rotw => self.check_privilege().map(|()| {
                let base = self.cpu.base_after(op.imm);
                self.cpu.set_window_base(base);
            }),
            Op::Movsp => {
                let step = self.move_stack_pointer(pc, block.end, op.t, op.s);
                return self.after(step, block);
            }
            _ => return self.leave_program(&op, pc, block),
        };
        match outcome {
            Ok(()) => Step::to(self.behind(block)),
            Err(cause) => self.raise(pc, *cause),
        }
    }

    /// Lets a step that falls through see the end of a loop.
    fn after(&mut self, step: Step, block: &Block) -> Step {
        if step.way != Way::Stop && step.pc == block.end { Step::to(self.behind(block)) } else { step }
    }

    fn write_or_swap_special(&mut self, op: &MicroOp, change: &mut Option<CodeChange>) -> Result<(), Box<Cause>> {
        let number = op.imm as u8;
        let new = self.ar(op.t);
        let old = if op.op == Op::Xsr { Some(self.read_special(number)?) } else { None };
        let written = self.write_special(number, new)?;
        // The window may have moved: the register is written in the new one only if it did not.
        if let Some(old) = old {
            self.set_ar(op.t, old);
        }
        if let Written::LoopEnd(address) = written {
            *change = Some(CodeChange::Boundary(address));
        }
        Ok(())
    }

    /// Traps, waits and exception returns.
    fn leave_program(&mut self, op: &MicroOp, pc: u32, block: &Block) -> Step {
        match op.op {
            Op::Syscall => match self.config.exceptions {
                Exceptions::Host => self.stop_behind(block, Stop::Syscall),
                Exceptions::Vectors(_) => self.raise(pc, Cause::Syscall),
            },
            Op::Simcall if self.config.simcall => self.stop_behind(block, Stop::Simcall),
            Op::Simcall => Step::to(self.behind(block)),
            Op::Break => self.debug_break(pc, (op.s, op.t), block),
            Op::BreakN => self.debug_break(pc, (op.imm as u8, 0), block),
            Op::Waiti => {
                if let Err(cause) = self.check_privilege() {
                    return self.raise(pc, *cause);
                }
                self.cpu.set_ps(self.cpu.ps & !15 | op.imm & 15);
                self.wait(block)
            }
            Op::Rfe | Op::Rfde | Op::Rfi | Op::Rfwo | Op::Rfwu => {
                if let Err(cause) = self.check_privilege() {
                    return self.raise(pc, *cause);
                }
                self.return_from_exception(op, pc)
            }
            _ => self.raise(pc, Cause::IllegalInstruction),
        }
    }

    fn stop_behind(&mut self, block: &Block, stop: Stop) -> Step {
        self.cpu.pc = self.behind(block);
        self.stop(stop)
    }

    /// WAITI: time passes until a timer raises an interrupt; without one the host must.
    fn wait(&mut self, block: &Block) -> Step {
        let next = self.behind(block);
        if self.pending_level().is_none() && self.cpu.timer_due != u64::MAX {
            self.cpu.cycles = self.cpu.cycles.max(self.cpu.timer_due);
            self.tick();
        }
        if self.pending_level().is_some() {
            return Step::to(next);
        }
        self.cpu.pc = next;
        self.stop(Stop::Waiting)
    }

    fn debug_break(&mut self, pc: u32, operands: (u8, u8), block: &Block) -> Step {
        let level = self.config.interrupts.debug_level;
        if let Exceptions::Vectors(vectors) = self.config.exceptions {
            if self.current_level() >= level {
                return Step::to(self.behind(block));
            }
            let short = block.end.wrapping_sub(pc) == 2;
            self.cpu.special[usize::from(special::DEBUGCAUSE)] = if short { 16 } else { 8 };
            return Step::to(self.enter_level(pc, level, &vectors));
        }
        self.cpu.pc = pc;
        self.stop(Stop::Break { operands })
    }

    fn return_from_exception(&mut self, op: &MicroOp, pc: u32) -> Step {
        let saved = |number: u8| self.cpu.special[usize::from(number)];
        match op.op {
            Op::Rfde => return Step::to(saved(special::DEPC)),
            Op::Rfi => {
                let level = op.imm as u8;
                if !(2..=7).contains(&level) {
                    return self.raise(pc, Cause::IllegalInstruction);
                }
                let target = saved(special::EPC1 + level - 1);
                let status = saved(special::EPS2 + level - 2);
                self.cpu.set_ps(status);
                return Step::to(target);
            }
            _ => {}
        }
        let target = saved(special::EPC1);
        if matches!(op.op, Op::Rfwo | Op::Rfwu) {
            let own = 1 << self.cpu.window_base;
            let start = self.cpu.window_start;
            self.cpu.window_start = if op.op == Op::Rfwo { start & !own } else { start | own };
            let base = (self.cpu.ps & ps::OWB) >> ps::OWB_SHIFT;
            self.cpu.set_window_base(base);
        }
        self.cpu.set_ps(self.cpu.ps & !ps::EXCM);
        Step::to(target)
    }
}
