//! Reports about a device that died: what killed it, where, and what it said last.

use outboard_wire::MessageType;
use std::fmt;

/// What ended a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LossCause {
    /// A signal.
    Signal {
        /// Its number.
        number: u32,
        /// Its name, e.g. `SIGSEGV`.
        name: &'static str,
        /// What it means.
        meaning: &'static str,
    },
    /// It left by itself.
    Exit {
        /// Its exit status.
        status: i32,
    },
    /// It wrote something impossible into the message ring.
    Corrupt {
        /// What.
        what: String,
    },
    /// Linux says that its remote processor does not run.
    Processor {
        /// The state it is in, e.g. `crashed` or `offline`.
        state: String,
    },
    /// It is gone, and nobody knows why.
    Vanished,
}

impl LossCause {
    /// The cause for a signal of this number.
    pub fn signal(number: u32) -> Self {
        let (_, name, meaning) =
            SIGNALS.iter().find(|(known, ..)| *known == number).copied().unwrap_or((number, "a signal", "killed"));
        Self::Signal { number, name, meaning }
    }

    /// The signal's name, or a word for the other causes.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Signal { name, .. } => name,
            Self::Exit { .. } => "exit",
            Self::Corrupt { .. } => "corrupt",
            Self::Processor { .. } => "processor",
            Self::Vanished => "vanished",
        }
    }

    /// Whether the signal carries the address of an access.
    fn has_address(&self) -> bool {
        matches!(self, Self::Signal { name: "SIGSEGV" | "SIGBUS", .. })
    }
}

/// Signals that end a process, as numbered by Linux on x86-64 and AArch64.
const SIGNALS: [(u32, &str, &str); 14] = [
    (1, "SIGHUP", "hang-up"),
    (2, "SIGINT", "interrupted"),
    (3, "SIGQUIT", "quit"),
    (4, "SIGILL", "illegal instruction"),
    (5, "SIGTRAP", "trap"),
    (6, "SIGABRT", "abort"),
    (7, "SIGBUS", "bus error"),
    (8, "SIGFPE", "arithmetic exception"),
    (9, "SIGKILL", "killed"),
    (11, "SIGSEGV", "invalid memory access"),
    (13, "SIGPIPE", "broken pipe"),
    (15, "SIGTERM", "terminated"),
    (24, "SIGXCPU", "processor time limit"),
    (31, "SIGSYS", "forbidden system call"),
];

impl fmt::Display for LossCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Signal { number, name: "a signal", .. } => write!(f, "signal {number}"),
            Self::Signal { name, meaning, .. } => write!(f, "{name} ({meaning})"),
            Self::Exit { status } => write!(f, "its process left with status {status}"),
            Self::Corrupt { what } => f.write_str(what),
            Self::Processor { state } => write!(f, "its remote processor is {state}"),
            Self::Vanished => f.write_str("it vanished"),
        }
    }
}

/// Where in a module's code the device was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CrashSite {
    /// Device address of the instruction.
    pub pc: u64,
    /// Nearest function of the module, empty when the address lies outside of it.
    pub symbol: String,
    /// Distance of the instruction from that function.
    pub offset: u64,
}

/// A device that died.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct DeviceLost {
    /// What ended it.
    pub cause: LossCause,
    /// What it was doing, as the host knows it, e.g. `INFER`.
    pub during: &'static str,
    /// Name of the module that was running or being loaded.
    pub module: Option<String>,
    /// Where its code was.
    pub site: Option<CrashSite>,
    /// Address of the access that failed.
    pub fault_address: Option<u64>,
    /// The last message the device had received.
    pub last_message: Option<MessageType>,
    /// The last lines of the device's own log.
    pub trace: String,
}

/// What a transport knows about a loss; the session adds the names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loss {
    /// What ended the device.
    pub cause: LossCause,
    /// What it left behind when it crashed.
    pub crash: Option<outboard_shm::CrashRecord>,
    /// The last lines of its own log.
    pub trace: String,
}

impl DeviceLost {
    /// Builds the report from what the transport and the session know.
    pub(crate) fn new(loss: Loss, during: &'static str, module_of: impl Fn(u32) -> Option<String>) -> Self {
        let crash = loss.crash.as_ref();
        Self {
            fault_address: crash.filter(|_| loss.cause.has_address()).map(|crash| crash.fault_address),
            during,
            module: crash.and_then(|crash| module_of(crash.module_handle)),
            site: crash.filter(|crash| crash.pc != 0).map(|crash| CrashSite {
                pc: crash.pc,
                symbol: crash.symbol.clone(),
                offset: crash.offset,
            }),
            last_message: crash.and_then(|crash| MessageType::from_code(crash.last_message)),
            cause: loss.cause,
            trace: loss.trace,
        }
    }
}

impl fmt::Display for DeviceLost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the device was lost during {}", self.during)?;
        if let Some(module) = &self.module {
            write!(f, " of module `{module}`")?;
        }
        write!(f, ": {}", self.cause)?;
        if let Some(site) = &self.site {
            match site.symbol.as_str() {
                "" => write!(f, ", at address {:#x}", site.pc)?,
                symbol => write!(f, ", at {symbol}+{:#x}", site.offset)?,
            }
        }
        if let Some(address) = self.fault_address {
            write!(f, ", accessing address {address:#x}")?;
        }
        // A device that crashed in a module has said so; the log only matters when there is no better word.
        if self.site.is_none() && !self.trace.is_empty() {
            write!(f, "; its log ends: {}", self.trace.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use outboard_shm::CrashRecord;

    fn loss(signal: u32, crash: CrashRecord) -> Loss {
        Loss { cause: LossCause::signal(signal), crash: Some(crash), trace: "boot\n".into() }
    }

    #[test]
    fn a_crash_in_a_module_reads_as_a_sentence_with_function_and_address() {
        let crash = CrashRecord {
            signal: 11,
            pc: 0x1_0200_1004,
            module_handle: 3,
            last_message: 0x21,
            symbol: "read_table".into(),
            offset: 4,
            ..CrashRecord::default()
        };
        let lost = DeviceLost::new(loss(11, crash), "INFER", |handle| (handle == 3).then(|| "null.out".into()));
        assert_eq!(
            lost.to_string(),
            "the device was lost during INFER of module `null.out`: SIGSEGV (invalid memory access), at read_table+0x4, accessing address 0x0"
        );
        assert_eq!(lost.last_message, Some(MessageType::Infer));
    }

    #[test]
    fn a_signal_without_an_access_names_no_address_and_an_unknown_one_its_number() {
        let crash = CrashRecord { signal: 6, pc: 0x7000, ..CrashRecord::default() };
        let lost = DeviceLost::new(loss(6, crash), "INFER", |_| None);
        assert_eq!(lost.to_string(), "the device was lost during INFER: SIGABRT (abort), at address 0x7000");
        assert_eq!(LossCause::signal(64).to_string(), "signal 64");
    }

    #[test]
    fn a_device_that_leaves_without_a_record_is_reported_with_the_end_of_its_log() {
        let loss = Loss { cause: LossCause::Exit { status: 1 }, crash: None, trace: "cannot map 0xc0000000\n".into() };
        let lost = DeviceLost::new(loss, "boot", |_| None);
        assert_eq!(
            lost.to_string(),
            "the device was lost during boot: its process left with status 1; its log ends: cannot map 0xc0000000"
        );
    }
}
