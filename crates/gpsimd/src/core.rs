//! One core: an engine over its memory, called function by function.

use std::sync::Arc;

use outboard_xtensa::engine::{Cause, CoreConfig, Engine, MemoryError, Stop};
use outboard_xtensa::isa::registers::special;

use crate::bus::Bus;
use crate::diagnose::{NOTICED, Observer, Shadow, Watch};
use crate::fault::{DeviceFault, FaultKind, detail};
use crate::memory::{CoreMemory, HookCounts};
use crate::symbols::Symbols;
use crate::target::{PoolTarget, Span};

/// The operands of the break that an abort executes.
const ABORT: (u8, u8) = (1, 14);
/// Longest text of an abort that is read.
const TEXT: usize = 1024;
/// Room above the first frame, for what windows save there.
const FIRST_FRAME: u32 = 32;

/// What a core did in one dispatch.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct CoreReport {
    /// The core.
    pub core: usize,
    /// Instructions.
    pub instructions: u64,
    /// Cycles by the cost table.
    pub cycles: u64,
    /// How it used what is outside.
    pub hooks: HookCounts,
    /// Bytes that it had not made visible when it ended.
    pub unpublished: u64,
}

/// Whether a core goes on.
#[derive(Debug)]
pub(crate) enum Progress {
    /// It has work left.
    Running,
    /// The function returned this.
    Returned(u32),
}

/// A core.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) index: usize,
    engine: Engine<CoreMemory>,
    stack: Span,
    pub(crate) symbols: Arc<Symbols>,
    /// Addresses at which it reports, and how often it came there, in order.
    watched: Vec<u32>,
    pub(crate) visited: Vec<u32>,
    pub(crate) observer: Observer,
    started: (u64, u64, HookCounts),
}

impl Core {
    pub(crate) fn new(bus: &Arc<Bus>, index: usize) -> Self {
        let config = CoreConfig { processor_id: index as u32, ..CoreConfig::vision_q7() };
        let memory = CoreMemory::new(bus, index);
        // The configuration is a constant of the engine's crate, which checks it.
        let engine = Engine::new(config, memory).unwrap_or_else(|error| unreachable!("{error}"));
        Self {
            index,
            engine,
            stack: bus.target.local.stack,
            symbols: Arc::default(),
            watched: Vec::new(),
            visited: Vec::new(),
            observer: Observer::default(),
            started: (0, 0, HookCounts::default()),
        }
    }

    pub(crate) fn memory(&mut self) -> &mut CoreMemory {
        self.engine.memory_mut()
    }

    /// Writes into the core's own memories.
    pub(crate) fn place(&mut self, address: u32, bytes: &[u8]) -> Result<(), MemoryError> {
        self.memory().place(address, bytes)
    }

    /// Says that code may have changed.
    pub(crate) fn code_changed(&mut self) {
        self.engine.invalidate_code();
    }

    /// Reports from now on when one of these addresses is reached, and no other.
    pub(crate) fn watch(&mut self, addresses: Vec<u32>) {
        for address in self.watched.drain(..) {
            self.engine.remove_breakpoint(address);
        }
        for address in self.observer.hooked() {
            self.engine.remove_breakpoint(address);
        }
        let symbols = Arc::clone(&self.symbols);
        let hooked = if self.memory().watch().is_some() { self.observer.listen(&symbols) } else { Vec::new() };
        for address in addresses.iter().chain(&hooked) {
            self.engine.add_breakpoint(*address);
        }
        self.watched = addresses;
    }

    /// Has every access looked at from the next library on.
    pub(crate) fn diagnose(&mut self, shadow: &Arc<Shadow>, target: &PoolTarget) {
        let watch = Watch::new(shadow, target, self.index);
        self.memory().set_watch(Some(watch));
    }

    /// Prepares a call through the firmware's `dispatch` routine at `entry`.
    pub(crate) fn prepare(&mut self, entry: u32, function: u32, argument: u32) {
        self.engine.reset();
        self.engine.set_special(special::ISL, self.stack.address);
        self.engine.set_ar(1, self.stack.address + self.stack.size - FIRST_FRAME);
        self.engine.set_ar(2, function);
        self.engine.set_ar(3, argument);
        self.engine.set_pc(entry);
        self.visited.clear();
        let counts = self.memory().counts;
        self.started = (self.engine.instructions(), self.engine.cycles(), counts);
    }

    /// Instructions since [`Core::prepare`].
    pub(crate) fn spent(&self) -> u64 {
        self.engine.instructions() - self.started.0
    }

    /// Executes at most `budget` instructions.
    pub(crate) fn run(&mut self, budget: u64) -> Result<Progress, Box<DeviceFault>> {
        let before = self.engine.instructions();
        loop {
            let left = budget.saturating_sub(self.engine.instructions() - before);
            match self.engine.run(left) {
                Stop::Fuel => return Ok(Progress::Running),
                Stop::Simcall => return Ok(Progress::Returned(self.engine.ar(10))),
                Stop::Breakpoint => self.stopped(),
                Stop::Break { operands: ABORT } => {
                    let text = self.abort_text();
                    return Err(self.fault(FaultKind::Abort { text }));
                }
                Stop::Break { .. } => return Err(self.fault(FaultKind::Trap { what: "a debug break" })),
                Stop::Syscall => return Err(self.fault(FaultKind::Trap { what: "a system call" })),
                Stop::Waiting => return Err(self.fault(FaultKind::Trap { what: "a wait for an interrupt" })),
                Stop::Fault(fault) if held_up(&fault.cause) => {
                    let symbols = Arc::clone(&self.symbols);
                    self.observer.noticed(&mut self.engine, self.index, &fault.backtrace, &symbols);
                }
                Stop::Fault(fault) => {
                    let refusal = self.memory().take_refusal();
                    let cause: Cause = fault.cause;
                    let backtrace = DeviceFault::frames(&fault.backtrace, &self.symbols);
                    let kind = FaultKind::Core { detail: detail(&cause, refusal), cause };
                    return Err(Box::new(DeviceFault { core: self.index, kind, backtrace }));
                }
            }
        }
    }

    /// At a breakpoint: a routine that a report names, or one that diagnosis listens to.
    fn stopped(&mut self) {
        let pc = self.engine.pc();
        if self.watched.contains(&pc) {
            self.visited.push(pc);
        }
        if self.memory().watch().is_some() {
            let symbols = Arc::clone(&self.symbols);
            self.observer.stopped(&mut self.engine, self.index, &symbols);
        }
    }

    /// A fault at the current instruction.
    pub(crate) fn fault(&mut self, kind: FaultKind) -> Box<DeviceFault> {
        let frames = self.engine.backtrace();
        Box::new(DeviceFault { core: self.index, kind, backtrace: DeviceFault::frames(&frames, &self.symbols) })
    }

    /// The text that an abort passes: address and length.
    fn abort_text(&mut self) -> String {
        let (address, length) = (self.engine.ar(2), self.engine.ar(3) as usize);
        let mut text = vec![0; length.min(TEXT)];
        match self.memory().peek(address, &mut text) {
            Ok(()) => String::from_utf8_lossy(&text).into_owned(),
            Err(error) => format!("without a text ({error})"),
        }
    }

    /// What the core did since [`Core::prepare`]; stores that it kept to itself are dropped. `own`: a range of addresses
    /// that nobody else reads.
    pub(crate) fn finish(&mut self, own: (u64, u64)) -> CoreReport {
        let unpublished = self.memory().discard(own);
        let (instructions, cycles, hooks) = self.started;
        let now = self.memory().counts;
        CoreReport {
            core: self.index,
            instructions: self.engine.instructions() - instructions,
            cycles: self.engine.cycles() - cycles,
            hooks: now.since(&hooks),
            unpublished,
        }
    }
}

/// Whether an access was only held up to be looked at.
fn held_up(cause: &Cause) -> bool {
    matches!(cause, Cause::Memory(MemoryError::Device { code: NOTICED, .. }))
}
