//! How a run ends: stops and faults, all of them values.

use core::fmt;

use crate::length::BundleFormat;

use super::memory::MemoryError;

/// Why [`super::Engine::run`] returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The budget is used up; running again continues.
    Fuel,
    /// SYSCALL with exceptions going to the host; the pc is behind it.
    Syscall,
    /// SIMCALL; the pc is behind it.
    Simcall,
    /// A debug break with exceptions going to the host; the pc is at it.
    Break {
        /// The operands of BREAK (the second is 0 for BREAK.N).
        operands: (u8, u8),
    },
    /// The pc reached an address given to [`super::Engine::add_breakpoint`]; running again
    /// continues.
    Breakpoint,
    /// WAITI and no interrupt is pending; running again continues to wait.
    Waiting,
    /// The program did something it must not do; the pc is at the instruction.
    Fault(Box<Fault>),
}

/// What went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// An encoding that no instruction has, or ILL.
    IllegalInstruction,
    /// An instruction of an option that the core lacks.
    DisabledInstruction {
        /// The instruction.
        mnemonic: &'static str,
    },
    /// A FLIX bundle: recognised, not executable.
    Bundle {
        /// Its format.
        format: &'static BundleFormat,
    },
    /// A privileged instruction outside ring 0.
    Privileged,
    /// Instructions cannot be fetched.
    Fetch(MemoryError),
    /// Data cannot be accessed.
    Memory(MemoryError),
    /// A misaligned access.
    Misaligned {
        /// The address.
        address: u32,
        /// The access size in bytes.
        size: u8,
    },
    /// Division by zero.
    DivideByZero,
    /// A coprocessor whose CPENABLE bit is clear.
    CoprocessorDisabled {
        /// Its number; 0 is the floating-point unit.
        number: u8,
    },
    /// A window return that contradicts the window state, or a frame that cannot be spilled to
    /// or reloaded from the stack.
    Window {
        /// What is wrong.
        reason: WindowFault,
    },
    /// ENTRY or MOVSP moved the stack pointer below a stack limit.
    StackLimit {
        /// The new stack pointer.
        pointer: u32,
        /// The limit.
        limit: u32,
    },
    /// SYSCALL where the host serves none.
    Syscall,
    /// MOVSP with the caller's frame spilled (only seen with vectors).
    Alloca,
    /// A debug break where nobody debugs.
    DebugBreak,
    /// The instruction budget of a whole run is used up (raised by runners, see [`crate::run`]).
    FuelExhausted,
}

/// What is wrong with a register window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowFault {
    /// `a0` of a windowed return has no window increment: it is no windowed return address.
    NotWindowed {
        /// The value of `a0`.
        return_address: u32,
    },
    /// WINDOWSTART contradicts the increment in `a0`.
    Contradiction {
        /// The value of `a0`.
        return_address: u32,
        /// WINDOWSTART.
        window_start: u32,
    },
    /// A stack save area cannot be accessed.
    SaveArea(MemoryError),
}

impl fmt::Display for WindowFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotWindowed { return_address } => {
                write!(f, "a0 = {return_address:#010x} is not the return address of a windowed call")
            }
            Self::Contradiction { return_address, window_start } => {
                write!(f, "a0 = {return_address:#010x} contradicts the live frames (WINDOWSTART {window_start:#x})")
            }
            Self::SaveArea(error) => write!(f, "the stack save area cannot be used: {error}"),
        }
    }
}

impl Cause {
    /// The value EXCCAUSE takes for it.
    pub fn number(&self) -> u8 {
        match self {
            Self::IllegalInstruction | Self::DisabledInstruction { .. } => 0,
            Self::Bundle { .. } | Self::Window { .. } | Self::StackLimit { .. } => 0,
            Self::Syscall => 1,
            Self::Fetch(MemoryError::Prohibited { .. }) => 20,
            Self::Fetch(_) => 2,
            Self::Alloca => 5,
            Self::DivideByZero => 6,
            Self::Privileged => 8,
            Self::Misaligned { .. } => 9,
            Self::Memory(MemoryError::Prohibited { access, .. }) => match access {
                super::Access::Store => 29,
                _ => 28,
            },
            Self::Memory(_) => 3,
            Self::CoprocessorDisabled { number } => 32 + number,
            Self::DebugBreak | Self::FuelExhausted => 0,
        }
    }

    /// The data or instruction address involved, where there is one.
    pub fn address(&self) -> Option<u32> {
        match self {
            Self::Fetch(error) | Self::Memory(error) => Some(error.address()),
            Self::Window { reason: WindowFault::SaveArea(error) } => Some(error.address()),
            Self::Misaligned { address, .. } => Some(*address),
            Self::StackLimit { pointer, .. } => Some(*pointer),
            _ => None,
        }
    }

    /// A stable lower-case name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::IllegalInstruction => "illegal-instruction",
            Self::DisabledInstruction { .. } => "disabled-instruction",
            Self::Bundle { .. } => "flix-bundle",
            Self::Privileged => "privileged",
            Self::Fetch(_) => "instruction-fetch",
            Self::Memory(_) => "memory-access",
            Self::Misaligned { .. } => "misaligned",
            Self::DivideByZero => "divide-by-zero",
            Self::CoprocessorDisabled { .. } => "coprocessor-disabled",
            Self::Window { .. } => "window",
            Self::StackLimit { .. } => "stack-limit",
            Self::Syscall => "syscall",
            Self::Alloca => "alloca",
            Self::DebugBreak => "debug-break",
            Self::FuelExhausted => "fuel-exhausted",
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::IllegalInstruction => f.write_str("illegal instruction"),
            Self::DisabledInstruction { mnemonic } => {
                write!(f, "`{mnemonic}` belongs to an option that this core does not have")
            }
            Self::Bundle { format } => {
                write!(f, "FLIX bundle of format {format}: bundles cannot be executed")
            }
            Self::Privileged => f.write_str("privileged instruction outside ring 0"),
            Self::Fetch(error) | Self::Memory(error) => error.fmt(f),
            Self::Misaligned { address, size } => {
                write!(f, "misaligned {size}-byte access at {address:#010x}")
            }
            Self::DivideByZero => f.write_str("integer division by zero"),
            Self::CoprocessorDisabled { number } => {
                write!(f, "coprocessor {number} is disabled (CPENABLE bit {number} is 0)")
            }
            Self::Window { reason } => write!(f, "register window: {reason}"),
            Self::StackLimit { pointer, limit } => {
                write!(f, "stack pointer {pointer:#010x} is below the stack limit {limit:#010x}")
            }
            Self::Syscall => f.write_str("system call that nothing serves"),
            Self::Alloca => f.write_str("MOVSP while the caller's frame is spilled"),
            Self::DebugBreak => f.write_str("debug break"),
            Self::FuelExhausted => f.write_str("the instruction budget is used up"),
        }
    }
}

/// How a frame of a backtrace was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    /// The faulting instruction itself.
    Fault,
    /// A live register window, or one reloaded from its stack save area.
    Window,
    /// The call0 return address still in `a0`, if it follows a call.
    ReturnRegister,
    /// A word on the stack that follows a call0 or callx0: likely, not certain.
    StackScan,
}

/// One frame of a backtrace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The faulting instruction, or the return address into the caller.
    pub pc: u32,
    /// The frame's stack pointer where it is known, otherwise where the address was found.
    pub stack_pointer: u32,
    /// How it was found.
    pub kind: FrameKind,
}

/// A fault: what, where, and how the program got there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What went wrong.
    pub cause: Cause,
    /// Address of the instruction.
    pub pc: u32,
    /// The instruction's bytes, as far as they can be fetched.
    pub bytes: Vec<u8>,
    /// Innermost first; the first frame is the faulting instruction.
    pub backtrace: Vec<Frame>,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at pc {:#010x}", self.cause, self.pc)?;
        for frame in self.backtrace.iter().skip(1) {
            write!(f, "\n  called from {:#010x}", frame.pc)?;
            if frame.kind == FrameKind::StackScan {
                write!(f, " (found on the stack)")?;
            }
        }
        Ok(())
    }
}

impl std::error::Error for Fault {}
