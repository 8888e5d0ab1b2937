//! Loop bodies that are recognised as a whole: many turns at once, with the same result as turn by
//! turn. Whatever is unusual is left to the ordinary interpreter, turn by turn.

use crate::isa::Op;

use super::block::MicroOp;
use super::machine::Machine;
use super::memory::Memory;

/// The dot product `lsip fx, ap, i; lsip fy, aq, j; madd.s fr, fx, fy`.
#[derive(Clone, Copy, Debug)]
pub(super) struct DotProduct {
    x: MicroOp,
    y: MicroOp,
    sum: MicroOp,
}

impl DotProduct {
    /// Recognises the body of a block.
    pub fn of(ops: &[MicroOp]) -> Option<Self> {
        let &[x, y, sum] = ops else { return None };
        let shape = (x.op, y.op, sum.op) == (Op::Lsip, Op::Lsip, Op::MaddS);
        let factors = (sum.s, sum.t) == (x.t, y.t) || (sum.s, sum.t) == (y.t, x.t);
        let apart = x.s != y.s && x.t != y.t && sum.r != x.t && sum.r != y.t;
        (shape && factors && apart).then_some(Self { x, y, sum })
    }
}

impl<M: Memory> Machine<M> {
    /// Executes up to `limit` whole turns and returns their number. A turn that needs anything but
    /// plain loads and a plain result has not begun.
    #[inline(never)]
    pub fn dot_product(&mut self, body: &DotProduct, limit: u32) -> u32 {
        let (mut p, mut q) = (self.cpu.ar(body.x.s), self.cpu.ar(body.y.s));
        let register = |op: u8| usize::from(op & 15);
        let (fx, fy, fr) = (register(body.x.t), register(body.y.t), register(body.sum.r));
        let (mut x, mut y) = (self.cpu.fr[fx], self.cpu.fr[fy]);
        let mut sum = f32::from_bits(self.cpu.fr[fr]);
        let mut done = 0;
        while done < limit && (p | q) & 3 == 0 {
            let Some((a, b)) = self.memory.peek32(p).zip(self.memory.peek32(q)) else { break };
            let Some(next) = self.cpu.plain_multiply_add(a, b, sum) else { break };
            (x, y, sum) = (a, b, next);
            p = p.wrapping_add(body.x.imm);
            q = q.wrapping_add(body.y.imm);
            done += 1;
        }
        self.cpu.set_ar(body.x.s, p);
        self.cpu.set_ar(body.y.s, q);
        (self.cpu.fr[fx], self.cpu.fr[fy], self.cpu.fr[fr]) = (x, y, sum.to_bits());
        done
    }
}
