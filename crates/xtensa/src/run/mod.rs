//! Running whole programs: static ELF images with Linux system calls, or bare images with
//! simulator calls.

mod image;
mod linux;
mod simcall;

use std::io::{self, Read, Write};
use std::time::{Duration, Instant};

pub use image::{Image, ImageError, Segment};

use crate::engine::{Cause, ConfigError, CoreConfig, Engine, Fault, MapError, RegionMemory, Stop};

/// What a program expects around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Abi {
    /// Linux system calls (exit, read, write), window exceptions handled for the program: what
    /// `qemu-xtensa` offers a static executable.
    LinuxUser,
    /// The whole machine: vectors, and SIMCALL for input and output.
    Bare,
}

/// How to run a program.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// The surroundings.
    pub abi: Abi,
    /// The core.
    pub config: CoreConfig,
    /// Instructions after which the run ends with [`Cause::FuelExhausted`]; `None` for no limit.
    pub max_instructions: Option<u64>,
    /// Largest memory the program may claim, in bytes.
    pub memory_limit: u64,
}

impl RunOptions {
    /// The usual options for an ABI: a `de233_fpu`-like core, 1 GiB, no instruction limit.
    pub fn new(abi: Abi) -> Self {
        let config = match abi {
            Abi::LinuxUser => CoreConfig::linux_user(),
            Abi::Bare => CoreConfig::bare(),
        };
        Self { abi, config, max_instructions: None, memory_limit: 1 << 30 }
    }
}

/// Where a program's input comes from and its output goes.
#[expect(missing_debug_implementations, reason = "holds borrowed streams")]
pub struct Streams<'a> {
    /// File descriptor 0.
    pub input: &'a mut dyn Read,
    /// File descriptor 1.
    pub output: &'a mut dyn Write,
    /// File descriptor 2.
    pub error: &'a mut dyn Write,
    /// One line for each instruction executed, if wanted.
    pub trace: Option<&'a mut dyn Write>,
}

/// How a run ended.
#[derive(Clone, Debug)]
pub enum Ending {
    /// The program left with this status.
    Exit(i32),
    /// It was stopped by a fault.
    Fault(Box<Fault>),
}

impl Ending {
    /// The exit status of `xt run`: the guest's (its low byte), or 125 for a fault.
    pub fn status(&self) -> u8 {
        match self {
            Self::Exit(status) => *status as u8,
            Self::Fault(_) => 125,
        }
    }
}

/// What a run did.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct RunStatistics {
    /// Instructions executed.
    pub instructions: u64,
    /// Cycles by the cost table.
    pub cycles: u64,
    /// Basic blocks translated.
    pub blocks: usize,
    /// Host time.
    #[cfg_attr(feature = "serde", serde(serialize_with = "as_seconds", rename = "seconds"))]
    pub elapsed: Duration,
}

#[cfg(feature = "serde")]
fn as_seconds<S: serde::Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_secs_f64())
}

/// The end of a run.
#[derive(Clone, Debug)]
pub struct RunReport {
    /// How it ended.
    pub ending: Ending,
    /// What it did.
    pub statistics: RunStatistics,
}

/// Why a program could not be run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The file is no executable image.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// Its memory cannot be laid out.
    #[error(transparent)]
    Map(#[from] MapError),
    /// The core cannot be.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Input or output of the host failed.
    #[error("input or output for the program failed: {0}")]
    Stream(#[from] io::Error),
}

/// Runs an executable ELF file.
///
/// ```no_run
/// use outboard_xtensa::run::{Abi, RunOptions, Streams, run};
/// let file = std::fs::read("program.elf")?;
/// let streams = Streams {
///     input: &mut std::io::empty(),
///     output: &mut std::io::stdout(),
///     error: &mut std::io::stderr(),
///     trace: None,
/// };
/// let report = run(&file, &RunOptions::new(Abi::LinuxUser), streams)?;
/// println!("{} instructions", report.statistics.instructions);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// The file cannot be loaded, or the host's streams fail. What the program does wrong is no
/// error but its [`Ending`].
pub fn run(file: &[u8], options: &RunOptions, streams: Streams<'_>) -> Result<RunReport, RunError> {
    let image = Image::parse(file, options.memory_limit)?;
    let memory = image.map()?;
    let mut engine = Engine::new(options.config.clone(), memory)?;
    engine.set_pc(image.entry());
    if options.abi == Abi::LinuxUser {
        linux::prepare_stack(&mut engine)?;
    }
    let started = Instant::now();
    let ending = Runner { engine: &mut engine, options, streams }.run()?;
    let statistics = RunStatistics {
        instructions: engine.instructions(),
        cycles: engine.cycles(),
        blocks: engine.translated_blocks(),
        elapsed: started.elapsed(),
    };
    Ok(RunReport { ending, statistics })
}

struct Runner<'a, 'b> {
    engine: &'a mut Engine<RegionMemory>,
    options: &'a RunOptions,
    streams: Streams<'b>,
}

impl Runner<'_, '_> {
    fn run(&mut self) -> Result<Ending, RunError> {
        let mut left = self.options.max_instructions.unwrap_or(u64::MAX);
        loop {
            let before = self.engine.instructions();
            let stop = if self.streams.trace.is_some() && left > 0 {
                self.trace_line()?;
                self.engine.step()
            } else {
                self.engine.run(left)
            };
            let traced = self.streams.trace.is_some();
            let used = if traced { 1 } else { self.engine.instructions() - before };
            left = left.saturating_sub(used);
            let served = match stop {
                Stop::Fuel if traced && left > 0 => None,
                Stop::Fuel => Some(self.fault(Cause::FuelExhausted)),
                Stop::Syscall if self.options.abi == Abi::LinuxUser => {
                    linux::serve(self.engine, &mut self.streams)?.map(Ending::Exit)
                }
                Stop::Syscall => Some(self.fault(Cause::Syscall)),
                Stop::Simcall => simcall::serve(self.engine, &mut self.streams)?.map(Ending::Exit),
                Stop::Break { .. } => Some(self.fault(Cause::DebugBreak)),
                // Nobody will raise an interrupt any more: the budget is all that could end it.
                Stop::Waiting => Some(self.fault(Cause::FuelExhausted)),
                Stop::Breakpoint => None,
                Stop::Fault(fault) => Some(Ending::Fault(fault)),
            };
            if let Some(ending) = served {
                self.streams.output.flush()?;
                return Ok(ending);
            }
        }
    }

    fn fault(&mut self, cause: Cause) -> Ending {
        let backtrace = self.engine.backtrace();
        Ending::Fault(Box::new(Fault { cause, pc: self.engine.pc(), bytes: Vec::new(), backtrace }))
    }

    /// `pc: bytes  instruction` before it executes.
    fn trace_line(&mut self) -> io::Result<()> {
        use crate::engine::Memory as _;
        let pc = self.engine.pc();
        let decoder = self.engine.config().decoder();
        let mut bytes = [0; 16];
        let length = self.engine.memory_mut().fetch(pc, &mut bytes).unwrap_or(0);
        let text = match decoder.instruction(&bytes[..length]) {
            Ok(instruction) => instruction.text(pc),
            Err(error) => format!("({error})"),
        };
        match &mut self.streams.trace {
            Some(trace) => writeln!(trace, "{pc:08x}  {text}"),
            None => Ok(()),
        }
    }
}
