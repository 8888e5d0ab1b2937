//! How a program got to where it is: through register windows, or through call0 frames.

use crate::isa::{Flow, Op};

use super::fault::{Frame, FrameKind};
use super::machine::Machine;
use super::memory::Memory;

/// Longest backtrace.
const MAX_FRAMES: usize = 64;
/// How much of the stack is searched for call0 return addresses, in words.
const SCANNED_WORDS: u32 = 4096;

impl<M: Memory> Machine<M> {
    /// The frames from the current pc outwards.
    pub fn backtrace(&mut self) -> Vec<Frame> {
        let innermost = Frame { pc: self.cpu.pc, stack_pointer: self.cpu.ar(1), kind: FrameKind::Fault };
        let mut frames = vec![innermost];
        if self.cpu.windows_checked() && self.cpu.ar(0) >> 30 != 0 {
            self.window_frames(&mut frames);
        } else {
            self.call0_frames(&mut frames);
        }
        frames
    }

    /// Follows the windows: live ones in the register file, spilled ones on the stack.
    fn window_frames(&mut self, frames: &mut Vec<Frame>) {
        self.cpu.write_back();
        let mut base = self.cpu.window_base;
        let mut live = true;
        let (mut return_address, mut own_sp) = (self.cpu.ar(0), self.cpu.ar(1));
        let mut rotated = 0;
        while frames.len() < MAX_FRAMES {
            let quads = return_address >> 30;
            if quads == 0 {
                break;
            }
            let caller_pc = self.cpu.pc & 0xc000_0000 | return_address & 0x3fff_ffff;
            // Past a whole turn of the register file nothing can be live.
            rotated += quads;
            base = base.wrapping_sub(quads) & (self.cpu.quad_count() - 1);
            live &= rotated < self.cpu.quad_count() && self.cpu.window_start >> base & 1 == 1;
            let caller = if live {
                let quad = self.cpu.quad(base);
                Some((quad[0], quad[1]))
            } else {
                self.saved_pair(own_sp.wrapping_sub(16))
            };
            let Some((next_address, caller_sp)) = caller else {
                frames.push(Frame { pc: caller_pc, stack_pointer: own_sp, kind: FrameKind::Window });
                break;
            };
            let frame = Frame { pc: caller_pc, stack_pointer: caller_sp, kind: FrameKind::Window };
            if frames.last().is_some_and(|last| last.pc == frame.pc && last.stack_pointer == frame.stack_pointer) {
                break;
            }
            frames.push(frame);
            (return_address, own_sp) = (next_address, caller_sp);
        }
    }

    fn saved_pair(&mut self, address: u32) -> Option<(u32, u32)> {
        if address & 3 != 0 {
            return None;
        }
        let first = self.memory.load32(address).ok()?;
        let second = self.memory.load32(address.wrapping_add(4)).ok()?;
        Some((first, second))
    }

    /// The return address in `a0`, then every word of the stack that follows a call.
    fn call0_frames(&mut self, frames: &mut Vec<Frame>) {
        let (register, stack) = (self.cpu.ar(0), self.cpu.ar(1));
        if self.follows_call(register) {
            frames.push(Frame { pc: register, stack_pointer: stack, kind: FrameKind::ReturnRegister });
        }
        if stack & 3 != 0 {
            return;
        }
        for word in 0..SCANNED_WORDS {
            let address = stack.wrapping_add(4 * word);
            let Ok(value) = self.memory.load32(address) else { break };
            let repeated = word < 16 && value == register && frames.len() == 2;
            if value != 0 && !repeated && self.follows_call(value) {
                frames.push(Frame { pc: value, stack_pointer: address, kind: FrameKind::StackScan });
                if frames.len() >= MAX_FRAMES {
                    break;
                }
            }
        }
    }

    /// Does the instruction before `address` call without a window?
    fn follows_call(&mut self, address: u32) -> bool {
        let mut bytes = [0; 3];
        let Some(before) = address.checked_sub(3) else { return false };
        if self.memory.fetch(before, &mut bytes) != Ok(3) {
            return false;
        }
        let instruction = self.config.decoder().instruction(&bytes);
        instruction.is_ok_and(|call| {
            matches!(call.row().op(), Op::Call0 | Op::Callx0)
                && matches!(call.row().flow(), Flow::Call(0) | Flow::CallRegister(0))
        })
    }
}
