//! Operations inside a block that are not worth a place in the inner loop.

use crate::isa::Op;

use super::block::MicroOp;
use super::fault::Cause;
use super::machine::Machine;
use super::memory::Memory;

impl<M: Memory> Machine<M> {
    #[inline(never)]
    pub(super) fn execute_rare(&mut self, op: &MicroOp) -> Result<(), Box<Cause>> {
        match op.op {
            Op::Muluh | Op::Mulsh | Op::Quou | Op::Quos | Op::Remu | Op::Rems => self.divide(op),
            Op::Nsa | Op::Nsau | Op::Clamps | Op::Salt | Op::Saltu => self.miscellaneous(op),
            Op::Andb | Op::Andbc | Op::Orb | Op::Orbc | Op::Xorb | Op::Any4 | Op::All4 => self.boolean(op),
            Op::Any8 | Op::All8 | Op::Movf | Op::Movt => self.boolean(op),
            Op::L32ai => {
                let value = self.load32(self.ar(op.s).wrapping_add(op.imm))?;
                self.set_ar(op.t, value);
                Ok(())
            }
            Op::S32ri => self.store32(self.ar(op.s).wrapping_add(op.imm), self.ar(op.t)),
            Op::S32c1i => self.compare_and_store(op),
            Op::L32e | Op::S32e => self.window_access(op),
            Op::Lsx | Op::Lsxp | Op::Ssx | Op::Ssxp => self.indexed_float_access(op),
            Op::Rsr => {
                let value = self.read_special(op.imm as u8)?;
                self.set_ar(op.t, value);
                Ok(())
            }
            Op::Rur => {
                let value = self.read_user(op.imm as u8);
                self.set_ar(op.r, value);
                Ok(())
            }
            Op::Wur => {
                self.write_user(op.imm as u8, self.ar(op.t));
                Ok(())
            }
            Op::Rer | Op::Wer => self.external_register(op),
            _ if is_cache(op.op) => self.cache_operation(op.op),
            _ => {
                self.cpu.float(op);
                Ok(())
            }
        }
    }

    pub(super) fn ar(&self, register: u8) -> u32 {
        self.cpu.ar(register & 15)
    }

    pub(super) fn set_ar(&mut self, register: u8, value: u32) {
        self.cpu.set_ar(register & 15, value);
    }

    fn divide(&mut self, op: &MicroOp) -> Result<(), Box<Cause>> {
        let (a, b) = (self.ar(op.s), self.ar(op.t));
        let (signed_a, signed_b) = (a as i32, b as i32);
        if b == 0 && !matches!(op.op, Op::Muluh | Op::Mulsh) {
            return Err(Box::new(Cause::DivideByZero));
        }
        let value = match op.op {
            Op::Muluh => ((u64::from(a) * u64::from(b)) >> 32) as u32,
            Op::Mulsh => ((i64::from(signed_a) * i64::from(signed_b)) >> 32) as u32,
            Op::Quou => a / b,
            Op::Quos => signed_a.wrapping_div(signed_b) as u32,
            Op::Remu => a % b,
            _ => signed_a.wrapping_rem(signed_b) as u32,
        };
        self.set_ar(op.r, value);
        Ok(())
    }

    fn miscellaneous(&mut self, op: &MicroOp) -> Result<(), Box<Cause>> {
        let (a, b) = (self.ar(op.s), self.ar(op.t));
        match op.op {
            Op::Nsa => {
                let folded = a ^ (a as i32 >> 31) as u32;
                self.set_ar(op.t, folded.leading_zeros() - 1);
            }
            Op::Nsau => self.set_ar(op.t, a.leading_zeros()),
            Op::Clamps => {
                let limit = 1i32.wrapping_shl(op.imm);
                self.set_ar(op.r, (a as i32).clamp(-limit, limit - 1) as u32);
            }
            Op::Salt => self.set_ar(op.r, u32::from((a as i32) < b as i32)),
            _ => self.set_ar(op.r, u32::from(a < b)),
        }
        Ok(())
    }

    fn boolean(&mut self, op: &MicroOp) -> Result<(), Box<Cause>> {
        let br = self.cpu.br;
        let bit = |register: u8| br >> (register & 15) & 1 == 1;
        let group = |bits: u32| (br >> (op.s & 15)) & bits;
        match op.op {
            Op::Andb => self.cpu.set_br(op.r, bit(op.s) & bit(op.t)),
            Op::Andbc => self.cpu.set_br(op.r, bit(op.s) & !bit(op.t)),
            Op::Orb => self.cpu.set_br(op.r, bit(op.s) | bit(op.t)),
            Op::Orbc => self.cpu.set_br(op.r, bit(op.s) | !bit(op.t)),
            Op::Xorb => self.cpu.set_br(op.r, bit(op.s) ^ bit(op.t)),
            Op::Any4 => self.cpu.set_br(op.t, group(15) != 0),
            Op::All4 => self.cpu.set_br(op.t, group(15) == 15),
            Op::Any8 => self.cpu.set_br(op.t, group(255) != 0),
            Op::All8 => self.cpu.set_br(op.t, group(255) == 255),
            Op::Movf if !bit(op.t) => self.set_ar(op.r, self.ar(op.s)),
            Op::Movt if bit(op.t) => self.set_ar(op.r, self.ar(op.s)),
            _ => {}
        }
        Ok(())
    }

    #[inline]
    pub(super) fn mac16(&mut self, op: &MicroOp) -> Result<(), Box<Cause>> {
        let word = op.imm;
        let (form, kind) = (word >> 20 & 15, word >> 16 & 15);
        let destination = usize::from(op.r & 3);
        // LDINC, LDDEC and the forms that carry a load: even forms increment, odd ones decrement.
        let loads = matches!(form, 0 | 1 | 4 | 5 | 8 | 9);
        let step = if form & 1 == 0 { 4 } else { 4u32.wrapping_neg() };
        let address = self.ar(op.s).wrapping_add(step);
        let loaded = if loads { self.load32(address)? } else { 0 };
        if form < 8 {
            let first = if matches!(form, 3 | 7) { self.ar(op.s) } else { self.cpu.mr[(word >> 14 & 1) as usize] };
            let second = if matches!(form, 4..=7) { self.ar(op.t) } else { self.cpu.mr[2 + (word >> 6 & 1) as usize] };
            self.cpu.multiply_accumulate(kind, first, second);
        }
        if loads {
            self.cpu.mr[destination] = loaded;
            self.set_ar(op.s, address);
        }
        Ok(())
    }

    fn compare_and_store(&mut self, op: &MicroOp) -> Result<(), Box<Cause>> {
        let address = self.ar(op.s).wrapping_add(op.imm);
        if address & 3 != 0 {
            return Err(Box::new(Cause::Misaligned { address, size: 4 }));
        }
        let old = self
            .memory
            .compare_exchange32(address, self.cpu.scompare1, self.ar(op.t))
            .map_err(|error| Box::new(Cause::Memory(error)))?;
        self.set_ar(op.t, old);
        Ok(())
    }

    fn window_access(&mut self, op: &MicroOp) -> Result<(), Box<Cause>> {
        self.check_privilege()?;
        let address = self.ar(op.s).wrapping_add(op.imm);
        if op.op == Op::S32e {
            return self.store32(address, self.ar(op.t));
        }
        let value = self.load32(address)?;
        self.set_ar(op.t, value);
        Ok(())
    }

    fn indexed_float_access(&mut self, op: &MicroOp) -> Result<(), Box<Cause>> {
        let base = self.ar(op.s);
        let indexed = base.wrapping_add(self.ar(op.t));
        let register = usize::from(op.r & 15);
        match op.op {
            Op::Lsx => self.cpu.fr[register] = self.load32(indexed)?,
            Op::Ssx => self.store32(indexed, self.cpu.fr[register])?,
            Op::Lsxp => {
                self.cpu.fr[register] = self.load32(base)?;
                self.set_ar(op.s, indexed);
            }
            _ => {
                self.store32(base, self.cpu.fr[register])?;
                self.set_ar(op.s, indexed);
            }
        }
        Ok(())
    }

    fn external_register(&mut self, op: &MicroOp) -> Result<(), Box<Cause>> {
        self.check_privilege()?;
        let number = self.ar(op.s);
        if op.op == Op::Wer {
            self.external.insert(number, self.ar(op.t));
        } else {
            self.set_ar(op.t, self.external.get(&number).copied().unwrap_or(0));
        }
        Ok(())
    }

    /// Caches and TLBs are not modelled: their instructions only check the privilege.
    fn cache_operation(&mut self, op: Op) -> Result<(), Box<Cause>> {
        let unprivileged = matches!(op, Op::Dpfr | Op::Dpfw | Op::Dpfro | Op::Dpfwo | Op::Dhwb | Op::Dhwbi | Op::Ipf);
        if unprivileged { Ok(()) } else { self.check_privilege() }
    }
}

fn is_cache(op: Op) -> bool {
    matches!(
        op,
        Op::Dpfr
            | Op::Dpfw
            | Op::Dpfro
            | Op::Dpfwo
            | Op::Dhwb
            | Op::Dhwbi
            | Op::Dhi
            | Op::Dii
            | Op::Dpfl
            | Op::Dhu
            | Op::Diu
            | Op::Diwb
            | Op::Diwbi
            | Op::Ipf
            | Op::Ipfl
            | Op::Ihu
            | Op::Iiu
            | Op::Lict
            | Op::Sict
            | Op::Licw
            | Op::Sicw
            | Op::Ldct
            | Op::Sdct
            | Op::Ritlb0
            | Op::Iitlb
            | Op::Pitlb
            | Op::Witlb
            | Op::Ritlb1
            | Op::Rdtlb0
            | Op::Idtlb
            | Op::Pdtlb
            | Op::Wdtlb
            | Op::Rdtlb1
    )
}
