//! Decoded basic blocks: what the interpreter executes, and what a code generator can take.
//!
//! A block is a straight run of instructions. Its body is pre-decoded operations that cannot
//! change the flow of control except by a fault; the instruction that can is its exit. Nothing in
//! the body changes the window base, so the register names in it are fixed; the highest quad it
//! names, whether it uses the floating-point unit and whether a loop may end behind it are facts
//! of the block, checked once on entry.

use std::collections::{HashMap, HashSet};

use crate::decode::{DecodeError, Decoder, Instruction};
use crate::isa::registers::special;
use crate::isa::{Flow, Isa, Kind, Op};

use super::config::Costs;
use super::fault::Cause;
use super::idiom::DotProduct;
use super::memory::Memory;

/// Longest block, in instructions.
const MAX_INSTRUCTIONS: usize = 64;
/// Translated blocks and block boundaries kept before everything is thrown away.
const MAX_BLOCKS: usize = 1 << 16;

/// A pre-decoded operation: the register fields as they stand in the 24-bit formats, and the
/// immediate's or target's value. Density forms are translated to the operations they abbreviate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MicroOp {
    pub op: Op,
    pub r: u8,
    pub s: u8,
    pub t: u8,
    pub imm: u32,
}

/// How a block ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exit {
    /// Falls through: the block was cut.
    Next,
    /// Branches if the condition (with its target as immediate) holds.
    Branch(MicroOp),
    Jump {
        target: u32,
    },
    JumpRegister {
        register: u8,
    },
    Return,
    Call {
        quads: u8,
        target: u32,
    },
    CallRegister {
        quads: u8,
        register: u8,
    },
    WindowReturn,
    Entry {
        register: u8,
        bytes: u32,
    },
    /// LOOP, LOOPNEZ or LOOPGTZ, with the loop's end as immediate.
    Loop(MicroOp),
    /// Anything that looks at or changes more than registers and memory.
    System(Instruction),
}

/// Where an operation of a block comes from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub pc: u32,
    pub cycles: u8,
    /// The highest quad of address registers it names.
    pub quad: u8,
    pub float: bool,
}

impl Place {
    fn needs(&self) -> u8 {
        let quads = ((1u16 << self.quad) - 1) as u8;
        quads | if self.float { needs::FLOAT } else { 0 }
    }
}

/// What a block may need, as bits.
pub(super) mod needs {
    /// Bit n: a register of quad n + 1 is named.
    pub const QUADS: u8 = 7;
    /// The floating-point unit is used.
    pub const FLOAT: u8 = 8;
}

/// The block that last followed this one through an exit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    pub pc: u32,
    pub block: u32,
}

impl Link {
    pub const NONE: Self = Self { pc: 0, block: u32::MAX };
}

#[derive(Debug)]
pub(super) struct Block {
    pub ops: Box<[MicroOp]>,
    pub exit: Exit,
    /// The generation in which the block was last known to match memory.
    pub generation: u32,
    /// Instructions, including the exit's.
    pub count: u32,
    pub cycles: u32,
    /// What must not be denied to execute the block without checks ([`needs`]).
    pub needs: u8,
    /// A zero-overhead loop may end where the block ends.
    pub boundary: bool,
    pub breakpoint: bool,
    /// The exit may lead back to the start without changing anything that is checked on entry.
    pub repeats: bool,
    /// May be the whole body of a zero-overhead loop, and does not look at the loop's count.
    pub loop_body: bool,
    /// The loop body as a whole, if it is a known one.
    pub dot_product: Option<DotProduct>,
    pub start: u32,
    /// Address after the last instruction.
    pub end: u32,
    pub links: [Link; 2],
    /// One for each operation and one for the exit, unless it is [`Exit::Next`].
    pub places: Box<[Place]>,
    bytes: Box<[u8]>,
}

impl Block {
    /// The exit's address (the end, where there is no exit instruction).
    pub fn exit_pc(&self) -> u32 {
        self.places.get(self.ops.len()).map_or(self.end, |place| place.pc)
    }
}

/// All translated blocks. An index stays valid, and stays the block that starts at its address,
/// until [`BlockCache::clear`].
#[derive(Debug)]
pub(super) struct BlockCache {
    pub blocks: Vec<Block>,
    /// Bumped when memory may have changed under translated code.
    pub generation: u32,
    by_start: HashMap<u32, u32>,
    /// Direct-mapped front of `by_start`.
    recent: Box<[Link; RECENT]>,
    /// Addresses at which blocks end: loop ends and breakpoints.
    boundaries: HashSet<u32>,
    breakpoints: HashSet<u32>,
    decoder: Decoder,
    costs: Costs,
}

const RECENT: usize = 4096;

fn recent_slot(pc: u32) -> usize {
    (pc ^ pc >> 12) as usize % RECENT
}

impl BlockCache {
    pub fn new(decoder: Decoder, costs: Costs) -> Self {
        Self {
            blocks: Vec::new(),
            generation: 1,
            by_start: HashMap::new(),
            recent: Box::new([Link::NONE; RECENT]),
            boundaries: HashSet::new(),
            breakpoints: HashSet::new(),
            decoder,
            costs,
        }
    }

    /// Forgets every block.
    pub fn clear(&mut self) {
        self.blocks.clear();
        self.by_start.clear();
        self.recent.fill(Link::NONE);
    }

    /// Memory under translated code may have changed: each block is compared before it runs again.
    pub fn revalidate_all(&mut self) {
        self.generation = self.generation.wrapping_add(1);
        if self.generation == 0 {
            self.clear();
            self.generation = 1;
        }
    }

    /// Makes blocks end at `address`.
    pub fn add_boundary(&mut self, address: u32) {
        if self.boundaries.insert(address) {
            for block in &mut self.blocks {
                // Generation 0 never matches: the block is translated again.
                if block.end.wrapping_sub(block.start) >= address.wrapping_sub(block.start) && address != block.start {
                    block.generation = 0;
                }
            }
        }
    }

    pub fn add_breakpoint(&mut self, address: u32) {
        self.breakpoints.insert(address);
        self.boundaries.insert(address);
        self.clear();
    }

    pub fn remove_breakpoint(&mut self, address: u32) {
        self.breakpoints.remove(&address);
        self.clear();
    }

    /// The block at `pc`, translated if it must be. `loop_end` is the current LEND: the boundary
    /// that must not be forgotten.
    ///
    /// # Errors
    /// The first instruction cannot be fetched or decoded.
    pub fn find(&mut self, pc: u32, loop_end: u32, memory: &mut impl Memory) -> Result<u32, Cause> {
        let slot = recent_slot(pc);
        let link = self.recent[slot];
        if link.pc == pc && link.block != u32::MAX {
            return Ok(link.block);
        }
        let index = match self.by_start.get(&pc) {
            Some(&index) => index,
            None => {
                if self.blocks.len() >= MAX_BLOCKS || self.boundaries.len() >= MAX_BLOCKS {
                    self.clear();
                    self.boundaries.clone_from(&self.breakpoints);
                    self.boundaries.insert(loop_end);
                }
                let block = self.translate(pc, memory)?;
                let index = self.blocks.len() as u32;
                self.blocks.push(block);
                self.by_start.insert(pc, index);
                index
            }
        };
        self.recent[slot] = Link { pc, block: index };
        Ok(index)
    }

    /// Makes the block match memory again.
    ///
    /// # Errors
    /// Its first instruction can no longer be fetched or decoded.
    pub fn refresh(&mut self, index: u32, memory: &mut impl Memory) -> Result<(), Cause> {
        let generation = self.generation;
        let Some(block) = self.blocks.get_mut(index as usize) else { return Ok(()) };
        if block.generation != 0 {
            let mut bytes = vec![0; block.bytes.len()];
            let fetched = memory.fetch(block.start, &mut bytes);
            if fetched == Ok(bytes.len()) && *bytes == *block.bytes {
                block.generation = generation;
                return Ok(());
            }
        }
        let start = block.start;
        let fresh = self.translate(start, memory)?;
        self.blocks[index as usize] = fresh;
        Ok(())
    }

    fn translate(&mut self, start: u32, memory: &mut impl Memory) -> Result<Block, Cause> {
        let mut bytes = [0; MAX_INSTRUCTIONS * 3 + 16];
        let available = memory.fetch(start, &mut bytes).map_err(Cause::Fetch)?;
        let code = &bytes[..available.min(bytes.len())];
        let mut block = Builder::new(start);
        while block.places.len() < MAX_INSTRUCTIONS {
            let rest = code.get(block.length()..).unwrap_or(&[]);
            match self.decoder.instruction(rest) {
                Ok(instruction) => {
                    block.push(instruction, &self.costs);
                    if let Exit::Loop(operation) = block.exit {
                        self.add_boundary(operation.imm);
                    }
                }
                Err(error) if block.places.is_empty() => {
                    return Err(undecodable(&error, start, available));
                }
                Err(_) => break,
            }
            if block.exit != Exit::Next || self.boundaries.contains(&block.end) {
                break;
            }
        }
        let boundary = self.boundaries.contains(&block.end);
        let breakpoint = self.breakpoints.contains(&start);
        let bytes = code[..block.length()].into();
        Ok(block.finish(bytes, boundary, breakpoint, self.generation))
    }
}

fn undecodable(error: &DecodeError, start: u32, available: usize) -> Cause {
    match error {
        DecodeError::Truncated { .. } => Cause::Fetch(super::MemoryError::Unmapped {
            access: super::Access::Fetch,
            address: start.wrapping_add(available as u32),
        }),
        DecodeError::Bundle { format } => Cause::Bundle { format },
        DecodeError::Disabled { mnemonic, .. } => Cause::DisabledInstruction { mnemonic },
        DecodeError::Unknown { .. } | DecodeError::NoBundle { .. } => Cause::IllegalInstruction,
    }
}

struct Builder {
    start: u32,
    end: u32,
    ops: Vec<MicroOp>,
    places: Vec<Place>,
    exit: Exit,
}

impl Builder {
    fn new(start: u32) -> Self {
        Self { start, end: start, ops: Vec::new(), places: Vec::new(), exit: Exit::Next }
    }

    fn length(&self) -> usize {
        self.end.wrapping_sub(self.start) as usize
    }

    fn push(&mut self, instruction: Instruction, costs: &Costs) {
        let pc = self.end;
        self.places.push(Place {
            pc,
            cycles: costs.of(instruction),
            quad: instruction.highest_quad(),
            float: instruction.row().isa() == Isa::Fp,
        });
        self.end = pc.wrapping_add(instruction.length().into());
        match exit_of(instruction, pc) {
            Some(exit) => self.exit = exit,
            None => self.ops.push(micro_op(instruction, pc)),
        }
    }

    fn finish(self, bytes: Box<[u8]>, boundary: bool, breakpoint: bool, generation: u32) -> Block {
        let places = &self.places;
        Block {
            generation,
            count: places.len() as u32,
            cycles: places.iter().map(|place| u32::from(place.cycles)).sum(),
            needs: places.iter().fold(0, |all, place| all | place.needs()),
            boundary,
            breakpoint,
            dot_product: DotProduct::of(&self.ops).filter(|_| boundary && self.exit == Exit::Next),
            loop_body: boundary
                && self.exit == Exit::Next
                && !breakpoint
                && self.ops.iter().all(|operation| operation.op != Op::Rsr),
            repeats: matches!(self.exit, Exit::Next | Exit::Branch(_) | Exit::Jump { .. }) && !breakpoint,
            start: self.start,
            end: self.end,
            links: [Link::NONE; 2],
            ops: self.ops.into(),
            exit: self.exit,
            places: self.places.into(),
            bytes,
        }
    }
}

/// The exit an instruction is, if it is one.
fn exit_of(instruction: Instruction, pc: u32) -> Option<Exit> {
    let operation = micro_op(instruction, pc);
    let target = operation.imm;
    Some(match instruction.row().flow() {
        Flow::Next if reads_time(&operation) => Exit::System(instruction),
        Flow::Next => return None,
        Flow::Branch => Exit::Branch(operation),
        Flow::Jump => Exit::Jump { target },
        Flow::JumpRegister => Exit::JumpRegister { register: operation.s },
        Flow::Call(quads) => Exit::Call { quads, target },
        Flow::CallRegister(quads) => Exit::CallRegister { quads, register: operation.s },
        Flow::Return => Exit::Return,
        Flow::WindowReturn => Exit::WindowReturn,
        Flow::Entry => Exit::Entry { register: operation.s, bytes: operation.imm },
        Flow::Loop => Exit::Loop(operation),
        Flow::Serialize | Flow::Trap | Flow::ExceptionReturn => Exit::System(instruction),
    })
}

/// Cycles are counted by block, so a block must end where they are read.
fn reads_time(operation: &MicroOp) -> bool {
    operation.op == Op::Rsr && [special::CCOUNT, special::INTERRUPT].map(u32::from).contains(&operation.imm)
}

/// Pre-decodes an instruction.
pub(super) fn micro_op(instruction: Instruction, pc: u32) -> MicroOp {
    let word = instruction.word();
    let row = instruction.row();
    let (r, s, t) = ((word >> 12 & 15) as u8, (word >> 8 & 15) as u8, (word >> 4 & 15) as u8);
    let operands = row.operands();
    let immediate = operands
        .iter()
        .rev()
        .find(|operand| matches!(operand.kind(), Kind::Imm(_) | Kind::Target(_) | Kind::Special | Kind::User));
    let imm = immediate.map_or(0, |operand| operand.value(word, pc));
    let plain = MicroOp { op: row.op(), r, s, t, imm };
    match row.op() {
        Op::AddN => MicroOp { op: Op::Add, ..plain },
        Op::AddiN => MicroOp { op: Op::Addi, t: r, ..plain },
        Op::MoviN => MicroOp { op: Op::Movi, t: s, ..plain },
        Op::MovN => MicroOp { op: Op::MovN, ..plain },
        // `or ar, as, as` is how `mov` is written.
        Op::Or if s == t => MicroOp { op: Op::MovN, t: r, ..plain },
        Op::L32iN => MicroOp { op: Op::L32i, ..plain },
        Op::S32iN => MicroOp { op: Op::S32i, ..plain },
        Op::BeqzN => MicroOp { op: Op::Beqz, ..plain },
        Op::BnezN => MicroOp { op: Op::Bnez, ..plain },
        Op::NopN => MicroOp { op: Op::Nop, ..plain },
        // Field positions that differ from the plain ones, and pairs of immediates.
        Op::Extui => {
            let shift = operands.get(2).map_or(0, |operand| operand.value(word, pc));
            let bits = operands.get(3).map_or(1, |operand| operand.value(word, pc));
            MicroOp { s: shift as u8, imm: u32::MAX >> (32 - bits), ..plain }
        }
        Op::Beqi | Op::Bnei | Op::Blti | Op::Bgei | Op::Bltui | Op::Bgeui => {
            // The compare constant is looked up from its index in `r` when the branch executes.
            plain
        }
        Op::Bbci | Op::Bbsi => {
            let bit = operands.get(1).map_or(0, |operand| operand.value(word, pc));
            MicroOp { t: bit as u8, ..plain }
        }
        // The raw offset, for when literals are relative to LITBASE.
        Op::L32r => MicroOp { r: (word >> 16) as u8, s: (word >> 8) as u8, ..plain },
        Op::Mac16 | Op::Ldinc | Op::Lddec => MicroOp { imm: word, ..plain },
        _ => plain,
    }
}
