//! The interpreter's inner loop: operations that stay inside a block.

use crate::isa::Op;

use super::block::MicroOp;
use super::config::Alignment;
use super::cpu::slot;
use super::fault::Cause;
use super::machine::Machine;
use super::memory::Memory;

/// An operation that failed: its position, and why.
pub(super) struct Failed {
    pub index: usize,
    pub cause: Box<Cause>,
}

impl<M: Memory> Machine<M> {
    /// Executes the body of a block. On failure the operation that failed has changed nothing.
    #[inline(always)]
    pub fn run_ops(&mut self, ops: &[MicroOp]) -> Result<(), Failed> {
        let mut rest = ops.iter();
        while let Some(op) = rest.next() {
            if let Err(cause) = self.execute(op) {
                return Err(Failed { index: ops.len() - rest.as_slice().len() - 1, cause });
            }
        }
        Ok(())
    }

    /// Executes one operation, outside of the hot loop.
    #[inline(never)]
    pub fn run_op(&mut self, op: &MicroOp) -> Result<(), Box<Cause>> {
        self.execute(op)
    }

    #[inline(always)]
    fn execute(&mut self, op: &MicroOp) -> Result<(), Box<Cause>> {
        macro_rules! ar {
            ($field:ident) => {
                self.cpu.regs[slot(self.cpu.base, op.$field)]
            };
        }
        macro_rules! address {
            () => {
                ar!(s).wrapping_add(op.imm)
            };
        }
        match op.op {
            Op::Add => ar!(r) = ar!(s).wrapping_add(ar!(t)),
            Op::Addi | Op::Addmi => ar!(t) = address!(),
            Op::MovN => ar!(t) = ar!(s),
            Op::Movi => ar!(t) = op.imm,
            Op::L32i => ar!(t) = self.load32(address!())?,
            Op::S32i => self.store32(address!(), ar!(t))?,
            Op::L8ui => ar!(t) = self.load8(address!())?,
            Op::S8i => self.store8(address!(), ar!(t))?,
            Op::L16ui => ar!(t) = self.load16(address!())?,
            Op::L16si => ar!(t) = self.load16(address!())? as i16 as u32,
            Op::S16i => self.store16(address!(), ar!(t))?,
            Op::L32r => ar!(t) = self.load_literal(op)?,
            Op::Addx2 => ar!(r) = (ar!(s) << 1).wrapping_add(ar!(t)),
            Op::Addx4 => ar!(r) = (ar!(s) << 2).wrapping_add(ar!(t)),
            Op::Addx8 => ar!(r) = (ar!(s) << 3).wrapping_add(ar!(t)),
            Op::Sub => ar!(r) = ar!(s).wrapping_sub(ar!(t)),
            Op::Subx2 => ar!(r) = (ar!(s) << 1).wrapping_sub(ar!(t)),
            Op::Subx4 => ar!(r) = (ar!(s) << 2).wrapping_sub(ar!(t)),
            Op::Subx8 => ar!(r) = (ar!(s) << 3).wrapping_sub(ar!(t)),
            Op::And => ar!(r) = ar!(s) & ar!(t),
            Op::Or => ar!(r) = ar!(s) | ar!(t),
            Op::Xor => ar!(r) = ar!(s) ^ ar!(t),
            Op::Extui => ar!(r) = ar!(t) >> (op.s & 31) & op.imm,
            Op::Slli => ar!(r) = ar!(s).checked_shl(op.imm).unwrap_or(0),
            Op::Srai => ar!(r) = (ar!(t) as i32 >> (op.imm & 31)) as u32,
            Op::Srli => ar!(r) = ar!(t) >> (op.imm & 31),
            Op::Neg => ar!(r) = ar!(t).wrapping_neg(),
            Op::Abs => ar!(r) = (ar!(t) as i32).unsigned_abs(),
            Op::Moveqz => {
                if ar!(t) == 0 {
                    ar!(r) = ar!(s);
                }
            }
            Op::Movnez => {
                if ar!(t) != 0 {
                    ar!(r) = ar!(s);
                }
            }
            Op::Movltz => {
                if (ar!(t) as i32) < 0 {
                    ar!(r) = ar!(s);
                }
            }
            Op::Movgez => {
                if ar!(t) as i32 >= 0 {
                    ar!(r) = ar!(s);
                }
            }
            Op::Sll => {
                let amount = 32u32.wrapping_sub(self.cpu.sar) & 63;
                ar!(r) = (u64::from(ar!(s)) << amount) as u32;
            }
            Op::Srl => ar!(r) = (u64::from(ar!(t)) >> (self.cpu.sar & 63)) as u32,
            Op::Sra => ar!(r) = (i64::from(ar!(t) as i32) >> (self.cpu.sar & 63)) as u32,
            Op::Src => {
                let pair = u64::from(ar!(s)) << 32 | u64::from(ar!(t));
                ar!(r) = (pair >> (self.cpu.sar & 63)) as u32;
            }
            Op::Ssr => self.cpu.sar = ar!(s) & 31,
            Op::Ssl => self.cpu.sar = 32 - (ar!(s) & 31),
            Op::Ssa8l => self.cpu.sar = (ar!(s) & 3) * 8,
            Op::Ssa8b => self.cpu.sar = 32 - (ar!(s) & 3) * 8,
            Op::Ssai => self.cpu.sar = op.imm,
            Op::Const16 => ar!(t) = ar!(t) << 16 | op.imm,
            Op::Mull => ar!(r) = ar!(s).wrapping_mul(ar!(t)),
            Op::Mul16u => ar!(r) = (ar!(s) & 0xffff) * (ar!(t) & 0xffff),
            Op::Mul16s => {
                let product = i32::from(ar!(s) as i16) * i32::from(ar!(t) as i16);
                ar!(r) = product as u32;
            }
            Op::Min => ar!(r) = (ar!(s) as i32).min(ar!(t) as i32) as u32,
            Op::Max => ar!(r) = (ar!(s) as i32).max(ar!(t) as i32) as u32,
            Op::Minu => ar!(r) = ar!(s).min(ar!(t)),
            Op::Maxu => ar!(r) = ar!(s).max(ar!(t)),
            Op::Sext => {
                let shift = 31 - (op.imm & 31);
                ar!(r) = ((ar!(s) << shift) as i32 >> shift) as u32;
            }
            Op::Nop | Op::Esync | Op::Dsync | Op::Excw => {}
            Op::Memw | Op::Extw => self.memory.barrier(),
            Op::Lsi => {
                let value = self.load32(address!())?;
                self.cpu.fr[usize::from(op.t & 15)] = value;
            }
            Op::Lsip => {
                let value = self.load32(ar!(s))?;
                self.cpu.fr[usize::from(op.t & 15)] = value;
                ar!(s) = address!();
            }
            Op::Ssi => self.store32(address!(), self.cpu.fr[usize::from(op.t & 15)])?,
            Op::Ssip => {
                self.store32(ar!(s), self.cpu.fr[usize::from(op.t & 15)])?;
                ar!(s) = address!();
            }
            Op::AddS => self.cpu.add_s(op, false),
            Op::SubS => self.cpu.add_s(op, true),
            Op::MulS => self.cpu.mul_s(op),
            Op::MaddS => self.cpu.madd_s(op, false),
            Op::MsubS => self.cpu.madd_s(op, true),
            Op::MovS => self.cpu.fr[usize::from(op.r & 15)] = self.cpu.fr[usize::from(op.s & 15)],
            Op::Wfr => self.cpu.fr[usize::from(op.r & 15)] = ar!(s),
            Op::Rfr => ar!(r) = self.cpu.fr[usize::from(op.s & 15)],
            Op::Mac16 | Op::Ldinc | Op::Lddec => self.mac16(op)?,
            _ => self.execute_rare(op)?,
        }
        Ok(())
    }

    /// Applies the alignment policy to the address of a 16- or 32-bit access.
    #[cold]
    fn misaligned(&self, address: u32, size: u8) -> Result<u32, Box<Cause>> {
        match self.config.alignment {
            Alignment::Exception => Err(Box::new(Cause::Misaligned { address, size })),
            Alignment::Ignore => Ok(address & !u32::from(size - 1)),
            Alignment::Allow => Ok(address),
        }
    }

    #[inline(always)]
    pub(super) fn load32(&mut self, mut address: u32) -> Result<u32, Box<Cause>> {
        if address & 3 != 0 {
            address = self.misaligned(address, 4)?;
        }
        self.memory.load32(address).map_err(|error| Box::new(Cause::Memory(error)))
    }

    #[inline(always)]
    pub(super) fn store32(&mut self, mut address: u32, value: u32) -> Result<(), Box<Cause>> {
        if address & 3 != 0 {
            address = self.misaligned(address, 4)?;
        }
        self.memory.store32(address, value).map_err(|error| Box::new(Cause::Memory(error)))
    }

    #[inline(always)]
    fn load16(&mut self, mut address: u32) -> Result<u32, Box<Cause>> {
        if address & 1 != 0 {
            address = self.misaligned(address, 2)?;
        }
        match self.memory.load16(address) {
            Ok(value) => Ok(value.into()),
            Err(error) => Err(Box::new(Cause::Memory(error))),
        }
    }

    #[inline(always)]
    fn store16(&mut self, mut address: u32, value: u32) -> Result<(), Box<Cause>> {
        if address & 1 != 0 {
            address = self.misaligned(address, 2)?;
        }
        self.memory.store16(address, value as u16).map_err(|error| Box::new(Cause::Memory(error)))
    }

    #[inline(always)]
    fn load8(&mut self, address: u32) -> Result<u32, Box<Cause>> {
        match self.memory.load8(address) {
            Ok(value) => Ok(value.into()),
            Err(error) => Err(Box::new(Cause::Memory(error))),
        }
    }

    #[inline(always)]
    fn store8(&mut self, address: u32, value: u32) -> Result<(), Box<Cause>> {
        self.memory.store8(address, value as u8).map_err(|error| Box::new(Cause::Memory(error)))
    }

    /// L32R: the literal at the operation's address, or below LITBASE when that is enabled.
    #[inline(always)]
    fn load_literal(&mut self, op: &MicroOp) -> Result<u32, Box<Cause>> {
        let mut address = op.imm;
        if self.cpu.litbase & 1 == 1 {
            let offset = u32::from(op.r) << 10 | u32::from(op.s) << 2;
            address = (self.cpu.litbase & !0xfff).wrapping_add(offset).wrapping_sub(1 << 18);
        }
        self.memory.load_literal(address).map_err(|error| Box::new(Cause::Memory(error)))
    }
}
