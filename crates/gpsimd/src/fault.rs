//! How a core ends when something is wrong.

use core::fmt;

use outboard_xtensa::engine::{Cause, Frame, MemoryError};

use crate::memory::Refusal;
use crate::symbols::Symbols;

/// What went wrong on a core.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FaultKind {
    /// The runtime or the kernel gave up, with this text: an assertion names file and line.
    Abort {
        /// The text.
        text: String,
    },
    /// The core cannot go on.
    Core {
        /// Why.
        cause: Cause,
        /// What the simulator knows beyond that.
        detail: Option<String>,
    },
    /// The instructions of the dispatch are used up.
    Fuel {
        /// How many there were.
        limit: u64,
    },
    /// The core executed an instruction that nothing serves.
    Trap {
        /// Which.
        what: &'static str,
    },
}

/// A place in the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Address.
    pub pc: u32,
    /// The function there, if names are known.
    pub function: Option<String>,
    /// The source file and line there, if the library has debug information.
    pub line: Option<(String, u32)>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#010x}", self.pc)?;
        if let Some(function) = &self.function {
            write!(f, " {function}")?;
        }
        match &self.line {
            Some((file, line)) => write!(f, " ({file}:{line})"),
            None => Ok(()),
        }
    }
}

/// A fault: which core, what, where, and how the program got there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceFault {
    /// The core.
    pub core: usize,
    /// What went wrong.
    pub kind: FaultKind,
    /// Innermost first: the instruction, then return addresses.
    pub backtrace: Vec<Place>,
}

impl DeviceFault {
    /// A short name for programs: `abort`, `fuel`, `trap`, or the engine's name of the cause.
    pub fn name(&self) -> &'static str {
        match &self.kind {
            FaultKind::Abort { .. } => "abort",
            FaultKind::Core { cause, .. } => cause.name(),
            FaultKind::Fuel { .. } => "fuel",
            FaultKind::Trap { .. } => "trap",
        }
    }

    /// The page that `outboard explain` prints.
    pub fn explain(&self) -> &'static str {
        match &self.kind {
            FaultKind::Abort { .. } => "OB0801",
            FaultKind::Fuel { .. } => "OB0803",
            FaultKind::Core { .. } | FaultKind::Trap { .. } => "OB0802",
        }
    }

    pub(crate) fn frames(frames: &[Frame], symbols: &Symbols) -> Vec<Place> {
        let place = |(index, frame): (usize, &Frame)| {
            // A return address lies behind its call, which may end a function.
            let looked_up = if index == 0 { frame.pc } else { frame.pc.wrapping_sub(1) };
            let function = symbols.around(looked_up).map(|function| function.name.clone());
            Place { pc: frame.pc, function, line: symbols.line(looked_up) }
        };
        frames.iter().enumerate().map(place).collect()
    }
}

/// Says what a refused access means.
pub(crate) fn detail(cause: &Cause, refusal: Option<Refusal>) -> Option<String> {
    let Cause::Memory(MemoryError::Device { .. } | MemoryError::Unmapped { .. }) = cause else { return None };
    Some(match refusal? {
        Refusal::Bus(error) => error.to_string(),
        Refusal::WindowEnd { window, size } => format!(
            "the access leaves the window at {window:#010x} ({size:#x} bytes): a range that crosses its end must be split and \
             translated piece by piece"
        ),
        Refusal::Register { address } => {
            format!("the register at {address:#x} is not simulated, or takes whole words only")
        }
    })
}

impl fmt::Display for DeviceFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "core {}: ", self.core)?;
        match &self.kind {
            FaultKind::Abort { text } => write!(f, "abort: {text}")?,
            FaultKind::Core { cause, detail } => {
                write!(f, "{cause}")?;
                if let Some(detail) = detail {
                    write!(f, " ({detail})")?;
                }
            }
            FaultKind::Fuel { limit } => write!(f, "the dispatch used up its {limit} instructions")?,
            FaultKind::Trap { what } => write!(f, "{what}, which nothing serves")?,
        }
        let mut frames = self.backtrace.iter();
        if let Some(place) = frames.next() {
            write!(f, " at pc {place}")?;
        }
        for place in frames {
            write!(f, "\n  called from {place}")?;
        }
        Ok(())
    }
}

impl std::error::Error for DeviceFault {}
