//! What a run did, and what was noticed about it.

use std::fmt;

use crate::bus::{Notification, Transfer};
use crate::core::CoreReport;
use crate::diagnose::Rule;
use crate::symbols::Symbols;

/// Something that is wrong with a kernel although it ended, or why it did not.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Finding {
    /// The page that `outboard explain` prints.
    pub code: &'static str,
    /// The core.
    pub core: usize,
    /// What it is.
    pub message: String,
    /// Where: the kernel's instruction, or its call into the runtime.
    pub pc: Option<u32>,
    /// The function there, if names are known.
    pub function: Option<String>,
    /// Bytes from its start.
    pub offset: Option<u32>,
    /// The source file there, if the library has debug information.
    pub file: Option<String>,
    /// Its line.
    pub line: Option<u32>,
    /// The caller denied it.
    pub error: bool,
}

impl Finding {
    /// A finding without a place.
    pub(crate) fn new(rule: Rule, core: usize, message: String) -> Self {
        let code = rule.code();
        Self { code, core, message, pc: None, function: None, offset: None, file: None, line: None, error: false }
    }

    /// The same at a place.
    pub(crate) fn at(mut self, pc: Option<u32>, symbols: &Symbols) -> Self {
        self.pc = pc;
        if let Some((pc, function)) = pc.and_then(|pc| Some((pc, symbols.around(pc)?))) {
            self.function = Some(function.name.clone());
            self.offset = Some(pc.wrapping_sub(function.address));
        }
        if let Some((file, line)) = pc.and_then(|pc| symbols.line(pc)) {
            (self.file, self.line) = (Some(file), Some(line));
        }
        self
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "core {}: {}", self.core, self.message)?;
        if let Some(pc) = self.pc {
            write!(f, " (at {pc:#010x}")?;
            if let (Some(function), Some(offset)) = (&self.function, self.offset) {
                write!(f, " in {function}+{offset:#x}")?;
            }
            if let (Some(file), Some(line)) = (&self.file, self.line) {
                write!(f, ", {file}:{line}")?;
            }
            f.write_str(")")?;
        }
        Ok(())
    }
}

/// What a core printed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Printed {
    /// The core.
    pub core: usize,
    /// `stdout` or `stderr`.
    pub stream: &'static str,
    /// The text; bytes that are no UTF-8 are replaced.
    pub text: String,
    /// Slots that were overwritten before the host read them.
    pub lost_slots: u32,
}

/// A routine of the runtime that was called.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct RoutineCall {
    /// The core.
    pub core: usize,
    /// Its name in C++.
    pub routine: String,
    /// Its address, in the library's own code.
    pub pc: u32,
}

/// What a run did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct RunReport {
    /// Dispatches.
    pub dispatches: u64,
    /// The work of each core, over all dispatches.
    pub cores: Vec<CoreReport>,
    /// What was printed.
    pub printed: Vec<Printed>,
    /// What was noticed.
    pub findings: Vec<Finding>,
    /// Entries of the notification queue.
    pub notifications: Vec<Notification>,
    /// What the device's log says.
    pub log: Vec<String>,
    /// Transfers, when they were asked for.
    pub transfers: Vec<Transfer>,
    /// Routines called, when they were asked for.
    pub routines: Vec<RoutineCall>,
}

impl RunReport {
    /// Adds what the cores did in one dispatch.
    pub(crate) fn add(&mut self, cores: &[CoreReport]) {
        self.dispatches += 1;
        for report in cores {
            match self.cores.iter_mut().find(|sum| sum.core == report.core) {
                Some(sum) => {
                    sum.instructions += report.instructions;
                    sum.cycles += report.cycles;
                    sum.unpublished += report.unpublished;
                    sum.hooks = sum.hooks.plus(&report.hooks);
                }
                None => self.cores.push(report.clone()),
            }
        }
    }

    /// Bytes that the DMA engine moved for the cores.
    pub fn bytes_moved(&self) -> u64 {
        self.cores.iter().map(|core| core.hooks.bytes).sum()
    }

    /// Windows that the cores moved.
    pub fn windows_moved(&self) -> u64 {
        self.cores.iter().map(|core| core.hooks.windows).sum()
    }
}
