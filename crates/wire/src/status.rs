//! Status codes of replies: number, name, text, meaning and next step.

/// Result code of a reply (`hdr.status`), as numbered by the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum Status {
    /// The request was carried out.
    Success = 0,
    /// Unspecified failure; the firmware never sends it.
    Generic = -1,
    /// The message is unknown or shorter than its type.
    Invalid = -2,
    /// The device's main pool is exhausted.
    NoMem = -3,
    /// The device serves somebody else, or staging is in use.
    Busy = -4,
    /// An operation on the device timed out.
    Timeout = -5,
    /// An address or window lies outside the shared memory.
    Addr = -6,
    /// A size is zero, too large, or an output does not fit its window.
    Size = -7,
    /// Unknown operation; the firmware never sends it.
    Op = -8,
    /// The module could not be loaded.
    Load = -9,
    /// The module has no entry point.
    Symbol = -10,
    /// The module's entry returned non-zero.
    Call = -11,
    /// The module handle or model id is not known.
    Handle = -12,
    /// The weights could not be parsed.
    Weights = -13,
    /// A tensor descriptor is unusable.
    Tensor = -14,
}

struct Row {
    status: Status,
    name: &'static str,
    text: &'static str,
    advice: &'static str,
}

const ROWS: [Row; 15] = [
    Row { status: Status::Success, name: "SUCCESS", text: "Success", advice: "nothing to do" },
    Row { status: Status::Generic, name: "ERR_GENERIC", text: "Generic error", advice: "read the device's trace" },
    Row {
        status: Status::Invalid,
        name: "ERR_INVALID",
        text: "Invalid parameter",
        advice: "the message is unknown to this firmware or too short: compare protocol versions with a PING",
    },
    Row {
        status: Status::NoMem,
        name: "ERR_NOMEM",
        text: "Out of memory",
        advice: "unload modules, or use a model with less workspace; the reply carries requested, free and total",
    },
    Row {
        status: Status::Busy,
        name: "ERR_BUSY",
        text: "Service busy",
        advice: "another client or a module that still lives in staging holds the device: close or unload it, then retry",
    },
    Row {
        status: Status::Timeout,
        name: "ERR_TIMEOUT",
        text: "Operation timeout",
        advice: "raise the deadline, or read the device's trace for what it waits for",
    },
    Row {
        status: Status::Addr,
        name: "ERR_ADDR",
        text: "Invalid address",
        advice: "keep buffers and descriptors inside the shared carveout and inside the declared windows",
    },
    Row {
        status: Status::Size,
        name: "ERR_SIZE",
        text: "Invalid size",
        advice: "check the file's size against staging, or reserve a larger output window (the reply names the bytes needed)",
    },
    Row {
        status: Status::Op,
        name: "ERR_OP",
        text: "Unknown operation",
        advice: "compare protocol versions with a PING",
    },
    Row {
        status: Status::Load,
        name: "ERR_LOAD",
        text: "Dynamic load failed",
        advice: "read the loader's message; `outboard check FILE --profile c7x` judges the file before it meets the device",
    },
    Row {
        status: Status::Symbol,
        name: "ERR_SYMBOL",
        text: "Symbol lookup failed",
        advice: "the module does not export cg_main_dsp: `outboard inspect FILE` lists what it exports",
    },
    Row {
        status: Status::Call,
        name: "ERR_CALL",
        text: "Function call failed",
        advice: "read the module's own output; wrong input shapes and counts are the usual cause",
    },
    Row {
        status: Status::Handle,
        name: "ERR_HANDLE",
        text: "Invalid handle/id",
        advice: "load the module first; handles end with an unload or a device restart",
    },
    Row {
        status: Status::Weights,
        name: "ERR_WEIGHTS",
        text: "Weights parsing failed",
        advice: "the weights file is not in the weights.bin format, or every model slot is taken",
    },
    Row {
        status: Status::Tensor,
        name: "ERR_TENSOR",
        text: "Tensor construction failed",
        advice: "check the number of inputs and that every input lies inside the input window or the KV region",
    },
];

impl Status {
    /// Every status, in the order of the codes 0, −1, … −14.
    pub fn all() -> impl Iterator<Item = Self> {
        ROWS.iter().map(|row| row.status)
    }

    /// The status with this number, or `None` for a number the protocol does not define.
    pub fn from_code(code: i32) -> Option<Self> {
        Self::all().find(|status| status.code() == code)
    }

    /// The number on the wire.
    pub const fn code(self) -> i32 {
        self as i32
    }

    /// The protocol's name, e.g. `ERR_TENSOR`.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// The text the published client prints for it.
    pub fn text(self) -> &'static str {
        self.row().text
    }

    /// What a person can do about it.
    pub fn advice(self) -> &'static str {
        self.row().advice
    }

    fn row(self) -> &'static Row {
        &ROWS[usize::try_from(-self.code()).unwrap_or(0)]
    }
}

impl core::fmt::Display for Status {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} ({}, {})", self.name(), self.text(), self.code())
    }
}
