//! The emulator: a core with configurable options over any [`Memory`].
//!
//! ```
//! use outboard_xtensa::engine::{CoreConfig, Engine, Permissions, RegionMemory, Stop};
//!
//! // addi.n a2, a2, 5; syscall
//! let mut memory = RegionMemory::new();
//! memory.map(0x1000, vec![0x5b, 0x22, 0x00, 0x50, 0x00], Permissions::READ_EXECUTE)?;
//! let mut engine = Engine::new(CoreConfig::linux_user(), memory)?;
//! engine.set_pc(0x1000);
//! engine.set_ar(2, 37);
//! assert_eq!(engine.run(1000), Stop::Syscall);
//! assert_eq!(engine.ar(2), 42);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod backtrace;
mod block;
mod config;
mod cpu;
mod exec;
mod exits;
mod fault;
mod float;
mod idiom;
mod machine;
mod memory;
mod rare;
mod window;

pub use config::{Alignment, ConfigError, CoreConfig, Costs, Exceptions, Interrupts, VectorOffsets};
pub use fault::{Cause, Fault, Frame, FrameKind, Stop, WindowFault};
pub use memory::{Access, Device, MapError, Memory, MemoryError, Permissions, RegionMemory};

use block::{Block, BlockCache};
use cpu::Cpu;
use exec::Failed;
use machine::{Machine, Step, Way, Written};

/// A core and its memory.
#[derive(Debug)]
pub struct Engine<M> {
    machine: Machine<M>,
    cache: BlockCache,
    /// The breakpoint that the last run stopped at: the next run steps over it.
    resting: Option<u32>,
}

impl<M: Memory> Engine<M> {
    /// A core in its reset state with the pc at 0.
    ///
    /// # Errors
    /// The configuration contradicts itself.
    pub fn new(config: CoreConfig, memory: M) -> Result<Self, ConfigError> {
        config.check()?;
        let cache = BlockCache::new(config.decoder(), config.costs);
        let cpu = Cpu::new(&config);
        let external = std::collections::HashMap::new();
        let machine = Machine { cpu, memory, config, external, outermost: [0; 16], stopped: None };
        Ok(Self { machine, cache, resting: None })
    }

    /// Puts the registers into their reset state. Memory, breakpoints and counters stay.
    pub fn reset(&mut self) {
        let mut cpu = Cpu::new(&self.machine.config);
        cpu.cycles = self.machine.cpu.cycles;
        cpu.instructions = self.machine.cpu.instructions;
        self.machine.cpu = cpu;
        self.resting = None;
    }

    /// Executes at most `budget` instructions.
    pub fn run(&mut self, budget: u64) -> Stop {
        let mut left = budget;
        let mut index = u32::MAX;
        loop {
            if index == u32::MAX {
                if let Some(stop) = self.interrupt_or_exhausted(left) {
                    return stop;
                }
                match self.find_block() {
                    Ok(found) => index = found,
                    Err(stop) => return stop,
                }
            }
            match self.chain(&mut index, &mut left) {
                Some(stop) => return stop,
                None => index = u32::MAX,
            }
        }
    }

    /// Executes one instruction (none, when an exception or a window vector is entered).
    pub fn step(&mut self) -> Stop {
        self.run(1)
    }

    fn interrupt_or_exhausted(&mut self, left: u64) -> Option<Stop> {
        self.machine.tick();
        let pc = self.machine.cpu.pc;
        if let Some(vector) = self.machine.deliver_interrupt(pc) {
            self.machine.cpu.pc = vector;
        }
        (left == 0).then_some(Stop::Fuel)
    }

    /// The block at the pc, up to date.
    fn find_block(&mut self) -> Result<u32, Stop> {
        // Delivering a fetch fault to a vector that cannot be fetched either ends in a fault.
        for _ in 0..3 {
            let pc = self.machine.cpu.pc;
            let found = self.cache.find(pc, self.machine.cpu.lend, &mut self.machine.memory);
            let fresh = found.and_then(|index| {
                if self.cache.blocks[index as usize].generation != self.cache.generation {
                    self.cache.refresh(index, &mut self.machine.memory)?;
                }
                Ok(index)
            });
            let cause = match fresh {
                Ok(index) => {
                    let block = &self.cache.blocks[index as usize];
                    if block.breakpoint && self.resting != Some(pc) {
                        self.resting = Some(pc);
                        return Err(Stop::Breakpoint);
                    }
                    self.resting = None;
                    return Ok(index);
                }
                Err(cause) => cause,
            };
            let step = self.machine.raise(pc, cause);
            if step.way == Way::Stop {
                return Err(self.machine.take_stop());
            }
            self.machine.cpu.pc = step.pc;
        }
        let pc = self.machine.cpu.pc;
        let cause = Cause::Fetch(MemoryError::Unmapped { access: Access::Fetch, address: pc });
        self.machine.fault(pc, cause);
        Err(self.machine.take_stop())
    }

    /// Executes blocks from `index` on as long as each is linked to the next. `None` asks for the
    /// block at the pc.
    #[inline]
    fn chain(&mut self, index: &mut u32, left: &mut u64) -> Option<Stop> {
        let Self { machine, cache, .. } = self;
        loop {
            let block = cache.blocks.get(*index as usize)?;
            let generation = cache.generation;
            let mut change = None;
            let unusual = block.generation != generation
                || u64::from(block.count) > *left
                || block.needs & machine.cpu.denied != 0;
            let step = if unusual {
                if block.generation != generation || *left == 0 {
                    machine.cpu.pc = block.start;
                    return None;
                }
                precise(machine, block, left, &mut change)
            } else {
                // A block that is a loop's whole body repeats here.
                loop {
                    let extra = if block.loop_body { whole_loops(machine, block, *left) } else { 0 };
                    let mut done = 0;
                    let outcome = loop {
                        if let Some(body) = &block.dot_product {
                            done += machine.dot_product(body, extra - done);
                        }
                        if let Err(failed) = machine.run_ops(&block.ops) {
                            break Err(failed);
                        }
                        if done == extra {
                            break Ok(());
                        }
                        done += 1;
                    };
                    let count = u64::from(block.count) * (u64::from(done) + 1);
                    *left -= count;
                    machine.cpu.instructions += count;
                    machine.cpu.cycles += u64::from(block.cycles) * (u64::from(done) + 1);
                    machine.cpu.lcount -= done;
                    if let Err(failed) = outcome {
                        break body_failed(machine, block, failed, left);
                    }
                    let step = machine.leave(block, &mut change);
                    let again = block.repeats
                        && step.pc == block.start
                        && step.way == Way::Main
                        && u64::from(block.count) <= *left
                        && machine.cpu.cycles < machine.cpu.attention_at;
                    if !again {
                        break step;
                    }
                }
            };
            if step.way == Way::Stop {
                if let Some(change) = change {
                    change.apply(cache);
                }
                return Some(machine.take_stop());
            }
            let (pc, slot) = (step.pc, usize::from(step.way == Way::Other));
            if let Some(change) = change {
                change.apply(cache);
                machine.cpu.pc = pc;
                return None;
            }
            let link = block.links[slot & 1];
            let attention = machine.cpu.cycles >= machine.cpu.attention_at;
            if link.pc == pc && link.block != u32::MAX && !attention {
                *index = link.block;
                continue;
            }
            machine.cpu.pc = pc;
            if attention {
                return None;
            }
            // Find the next block and remember it.
            let Ok(found) = cache.find(pc, machine.cpu.lend, &mut machine.memory) else { return None };
            let next = &cache.blocks[found as usize];
            if next.breakpoint || next.generation != cache.generation {
                return None;
            }
            if let Some(block) = cache.blocks.get_mut(*index as usize) {
                block.links[slot & 1] = block::Link { pc, block: found };
            }
            *index = found;
        }
    }

    /// Address register `index` (0..=15) of the current window.
    pub fn ar(&self, index: u8) -> u32 {
        self.machine.ar(index)
    }

    /// Sets an address register of the current window.
    pub fn set_ar(&mut self, index: u8, value: u32) {
        self.machine.set_ar(index, value);
    }

    /// Bits of floating-point register `index` (0..=15).
    pub fn fr(&self, index: u8) -> u32 {
        self.machine.cpu.fr[usize::from(index & 15)]
    }

    /// Sets the bits of a floating-point register.
    pub fn set_fr(&mut self, index: u8, bits: u32) {
        self.machine.cpu.fr[usize::from(index & 15)] = bits;
    }

    /// The program counter.
    pub fn pc(&self) -> u32 {
        self.machine.cpu.pc
    }

    /// Sets the program counter.
    pub fn set_pc(&mut self, pc: u32) {
        self.machine.cpu.pc = pc;
        self.resting = None;
    }

    /// A special register, whatever the privilege (numbers: [`crate::isa::registers::special`]).
    pub fn special(&self, number: u8) -> u32 {
        self.machine.peek_special(number)
    }

    /// Writes a special register with its side effects, whatever the privilege.
    pub fn set_special(&mut self, number: u8, value: u32) {
        if let Written::LoopEnd(address) = self.machine.poke_special(number, value) {
            self.cache.add_boundary(address);
        }
    }

    /// A user register (numbers: [`crate::isa::registers::user`]).
    pub fn user(&self, number: u8) -> u32 {
        self.machine.read_user(number)
    }

    /// Writes a user register.
    pub fn set_user(&mut self, number: u8, value: u32) {
        self.machine.write_user(number, value);
    }

    /// An external register (RER and WER).
    pub fn external(&self, number: u32) -> u32 {
        self.machine.external.get(&number).copied().unwrap_or(0)
    }

    /// Sets an external register.
    pub fn set_external(&mut self, number: u32, value: u32) {
        self.machine.external.insert(number, value);
    }

    /// The memory.
    pub fn memory(&self) -> &M {
        &self.machine.memory
    }

    /// The memory, to change. After changing code that may have run, call
    /// [`Engine::invalidate_code`].
    pub fn memory_mut(&mut self) -> &mut M {
        &mut self.machine.memory
    }

    /// The configuration.
    pub fn config(&self) -> &CoreConfig {
        &self.machine.config
    }

    /// Instructions executed so far.
    pub fn instructions(&self) -> u64 {
        self.machine.cpu.instructions
    }

    /// Cycles so far, by the cost table.
    pub fn cycles(&self) -> u64 {
        self.machine.cpu.cycles
    }

    /// Blocks translated and kept.
    pub fn translated_blocks(&self) -> usize {
        self.cache.blocks.len()
    }

    /// Raises the interrupt lines in `mask`.
    pub fn raise_interrupts(&mut self, mask: u32) {
        self.machine.cpu.interrupt |= mask;
        self.machine.cpu.update_attention();
    }

    /// Lowers the interrupt lines in `mask`.
    pub fn lower_interrupts(&mut self, mask: u32) {
        self.machine.cpu.interrupt &= !mask;
        self.machine.cpu.update_attention();
    }

    /// Says that memory that may hold code has changed: translated blocks are compared with it
    /// before they run again. ISYNC does the same for code that the guest wrote.
    pub fn invalidate_code(&mut self) {
        self.cache.revalidate_all();
    }

    /// Makes [`Engine::run`] stop before the instruction at `address`.
    pub fn add_breakpoint(&mut self, address: u32) {
        self.cache.add_breakpoint(address);
    }

    /// Withdraws a breakpoint.
    pub fn remove_breakpoint(&mut self, address: u32) {
        self.cache.remove_breakpoint(address);
    }

    /// The frames from the pc outwards.
    pub fn backtrace(&mut self) -> Vec<Frame> {
        self.machine.backtrace()
    }
}

/// How often a block that is the body of the current zero-overhead loop surely runs and loops
/// back, beyond the run that is about to happen: budget and timers are checked for all at once.
#[inline]
fn whole_loops<M>(machine: &Machine<M>, block: &Block, left: u64) -> u32 {
    let cpu = &machine.cpu;
    if cpu.lend != block.end || cpu.lbeg != block.start || cpu.excm() {
        return 0;
    }
    let affordable = (left / u64::from(block.count).max(1)).saturating_sub(1);
    let quiet = cpu.attention_at.saturating_sub(cpu.cycles) / u64::from(block.cycles).max(1);
    let limit = affordable.min(quiet).min(u64::from(cpu.lcount));
    u32::try_from(limit).unwrap_or(u32::MAX)
}

/// Raises the exception of an operation that failed.
#[cold]
#[inline(never)]
fn body_failed<M: Memory>(machine: &mut Machine<M>, block: &Block, failed: Failed, left: &mut u64) -> Step {
    refund(machine, block, failed.index, left);
    let pc = block.places.get(failed.index).map_or(block.start, |place| place.pc);
    machine.raise(pc, *failed.cause)
}

/// Takes back the accounting of the instructions of a block from `executed` on. The one that
/// failed still costs its unit of the budget, so that no chain of exceptions runs for ever.
fn refund<M>(machine: &mut Machine<M>, block: &Block, executed: usize, left: &mut u64) {
    let rest = block.places.get(executed..).unwrap_or(&[]);
    *left += (rest.len() as u64).saturating_sub(1);
    machine.cpu.instructions -= rest.len() as u64;
    machine.cpu.cycles -= rest.iter().map(|place| u64::from(place.cycles)).sum::<u64>();
}

/// Executes a block instruction by instruction: windows, coprocessor and budget are checked
/// before each.
#[cold]
#[inline(never)]
fn precise<M: Memory>(
    machine: &mut Machine<M>,
    block: &Block,
    left: &mut u64,
    change: &mut Option<exits::CodeChange>,
) -> Step {
    for (index, place) in block.places.iter().enumerate() {
        if *left == 0 {
            return Step::to(place.pc);
        }
        if place.float && machine.cpu.cpenable & 1 == 0 {
            *left -= 1;
            return machine.raise(place.pc, Cause::CoprocessorDisabled { number: 0 });
        }
        while place.quad > machine.cpu.free_quads {
            // Spilled, the frame after that may be in the way too.
            let step = machine.window_overflow(place.pc);
            if step.way == Way::Stop || step.pc != place.pc {
                return step;
            }
        }
        *left -= 1;
        machine.cpu.instructions += 1;
        machine.cpu.cycles += u64::from(place.cycles);
        match block.ops.get(index) {
            Some(op) => {
                if let Err(cause) = machine.run_op(op) {
                    machine.cpu.instructions -= 1;
                    machine.cpu.cycles -= u64::from(place.cycles);
                    return machine.raise(place.pc, *cause);
                }
            }
            None => break,
        }
    }
    machine.leave(block, change)
}
