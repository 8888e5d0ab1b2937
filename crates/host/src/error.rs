//! What can go wrong in a session: one enum with stable codes, kind names and what to do about each.

use crate::lost::DeviceLost;
use crate::rpmsg::RpmsgError;
use outboard_shm::{ControlError, MapError};
use outboard_tensor::TensorError;
use outboard_wire::{MAX_MESSAGE, Status, Version};
use std::path::PathBuf;
use std::time::Duration;

/// Whose problem an error is; programs turn it into their exit status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorClass {
    /// The request cannot be carried out as it was made.
    Request,
    /// The device, or the way to it, failed.
    Device,
    /// The file was judged bad.
    File,
    /// A deadline passed.
    Deadline,
}

impl ErrorClass {
    /// The exit status of programs that end with such an error.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Request => 1,
            Self::Device => 2,
            Self::File => 3,
            Self::Deadline => 4,
        }
    }
}

/// Why a call of a session failed. Codes are documented under `docs/reference/codes/`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The device died or vanished.
    #[error(transparent)]
    DeviceLost(#[from] Box<DeviceLost>),
    /// A deadline passed.
    #[error("no answer within {}: waited for {awaited}", seconds(*after))]
    Timeout {
        /// What was waited for.
        awaited: String,
        /// The deadline.
        after: Duration,
    },
    /// The device answered with an error status.
    #[error("the device refused {request}: {}{}", status_text(*status), colon(detail))]
    Refused {
        /// The message that was refused.
        request: &'static str,
        /// The status of the reply.
        status: i32,
        /// What the device said about it; may be empty.
        detail: String,
    },
    /// The device's loader refused a module.
    #[error("the device cannot load module `{module}`{}", colon(detail))]
    LoadFailed {
        /// Name of the module.
        module: String,
        /// What the loader said; may be empty.
        detail: String,
    },
    /// A pool has no block that is large enough.
    #[error("out of memory in the {pool}: {requested} bytes requested, {free} of {total} bytes free{}", largest_text(*largest))]
    OutOfMemory {
        /// The pool.
        pool: &'static str,
        /// Bytes asked for.
        requested: u64,
        /// Bytes not in use.
        free: u64,
        /// Bytes of the pool.
        total: u64,
        /// Longest free block, when it is known.
        largest: Option<u64>,
    },
    /// A message does not fit into a transport buffer; nothing was sent.
    #[error("a message of {len} bytes cannot be sent: a message has at most {MAX_MESSAGE}")]
    MessageTooLong {
        /// Its length.
        len: usize,
    },
    /// A reply is shorter than its type.
    #[error("the device's reply to {request} has {got} bytes; it must have at least {need}")]
    ShortMessage {
        /// The request.
        request: &'static str,
        /// Bytes that arrived.
        got: usize,
        /// Bytes needed.
        need: usize,
    },
    /// A reply carries the right sequence number and the wrong type.
    #[error("the device answered {request} with a message of type {got:#x} instead of {expected:#x}")]
    UnknownReply {
        /// The request.
        request: &'static str,
        /// Type expected.
        expected: u32,
        /// Type received.
        got: u32,
    },
    /// Device and host speak different major versions of the protocol.
    #[error("the device speaks protocol version {device}, this program {host}: update {}", older_side(*device, *host))]
    VersionMismatch {
        /// Version of the device.
        device: Version,
        /// Version of this program.
        host: Version,
    },
    /// The handle is from before a restart of the device, or of another session.
    #[error("module `{module}` is not loaded any more: the device was restarted after it was loaded")]
    StaleModule {
        /// Name of the module.
        module: String,
    },
    /// An output descriptor of the device cannot be followed.
    #[error("the device returned an output that cannot be used: output {index}: {reason}")]
    OutputRejected {
        /// Position of the output in the reply.
        index: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// The module's entry returned a non-zero value.
    #[error("module `{module}` failed: its entry cg_main_dsp returned {value}")]
    CallFailed {
        /// Name of the module.
        module: String,
        /// What the entry returned.
        value: i32,
    },
    /// No program is known that a simulated device can run in.
    #[error("no program to run the simulated device in: {reason}")]
    NoProgram {
        /// Why.
        reason: String,
    },
    /// The program of the simulated device could not be started.
    #[error("cannot start the simulated device {}: {source}", program.display())]
    Start {
        /// The program.
        program: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// Shared memory could not be made or accessed.
    #[error("shared memory: {0}")]
    Memory(#[from] MapError),
    /// The shared carveout of a session has the wrong size.
    #[error("the session's carveout has {got:#x} bytes; it must have {expected:#x}")]
    CarveoutSize {
        /// Its size.
        got: u64,
        /// The size the memory map fixes.
        expected: u64,
    },
    /// The device serves another client.
    #[error("{device} is busy: it serves one client at a time, and process {client} is connected")]
    Busy {
        /// The device.
        device: String,
        /// Process id of the client it serves.
        client: String,
    },
    /// A standing device cannot be talked to.
    #[error("the standing device at {}: {reason}", path.display())]
    Broker {
        /// Its socket.
        path: PathBuf,
        /// What went wrong.
        reason: String,
    },
    /// The control object cannot be used.
    #[error("session memory: {0}")]
    Control(#[from] ControlError),
    /// Staging did not come out at the address the protocol fixes.
    #[error("staging was placed at device address {got:#x}, but the protocol fixes it at {expected:#x}")]
    Placement {
        /// Address the protocol fixes.
        expected: u64,
        /// Address that came out.
        got: u64,
    },
    /// Tensors do not fit the window that is reserved for them, and it cannot grow.
    #[error("the {window} window has {reserved} bytes and {needed} are needed{}", colon(reason))]
    WindowTooSmall {
        /// `input` or `output`.
        window: &'static str,
        /// Bytes needed.
        needed: u64,
        /// Bytes reserved.
        reserved: u64,
        /// Why it cannot grow; may be empty.
        reason: String,
    },
    /// The input window cannot be replaced while buffers in it are in use.
    #[error("{live} input buffer(s) are in use: the input window cannot change its size")]
    BuffersInUse {
        /// Buffers in use.
        live: usize,
    },
    /// An input buffer is from a window that has been replaced since.
    #[error("input {index} is a buffer of an input window that does not exist any more")]
    StaleBuffer {
        /// Position of the input.
        index: usize,
    },
    /// A module file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    ReadFile {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// A module file does not fit into staging.
    #[error("module `{module}` has {size} bytes; a module has at least 1 and at most {max}")]
    FileSize {
        /// Name of the module.
        module: String,
        /// Its size.
        size: u64,
        /// Most that staging holds.
        max: u64,
    },
    /// The number of inputs is not what the module declares.
    #[error("module `{module}` takes {expected} input(s){}, but {got} were given", list(names))]
    InputCount {
        /// Name of the module.
        module: String,
        /// Inputs it declares.
        expected: usize,
        /// Inputs given.
        got: usize,
        /// Their declarations, when the module carries them.
        names: Vec<String>,
    },
    /// An input's element type or shape is not what the module declares.
    #[error("input {index} (`{name}`) of module `{module}`: expected {expected}, got {got}")]
    InputMismatch {
        /// Name of the module.
        module: String,
        /// Position of the input.
        index: usize,
        /// Its name.
        name: String,
        /// Declared type and shape.
        expected: String,
        /// Type and shape given.
        got: String,
    },
    /// An input cannot be described on the wire.
    #[error("input {index} cannot be sent: {reason}")]
    InputUnsupported {
        /// Position of the input.
        index: usize,
        /// Why.
        reason: String,
    },
    /// The module carries a tensor manifest that cannot be read.
    #[error("the tensor manifest of module `{module}` cannot be read: {reason}")]
    BadManifest {
        /// Name of the module.
        module: String,
        /// What is wrong.
        reason: String,
    },
    /// The way to a board's device over RPMsg failed.
    #[error(transparent)]
    Rpmsg(#[from] RpmsgError),
    /// A tensor could not be made.
    #[error(transparent)]
    Tensor(#[from] TensorError),
}

/// One row of the catalogue: stable code, kind name, class, what to do.
struct Entry(&'static str, &'static str, ErrorClass, &'static str);

impl Error {
    /// The stable code, e.g. `OB0302`, documented under `docs/reference/codes/`.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Tensor(error) => error.code(),
            Self::Rpmsg(error) => error.code(),
            other => other.entry().0,
        }
    }

    /// The kind's name, e.g. `timeout`, as machine-readable output carries it.
    pub fn kind(&self) -> &'static str {
        self.entry().1
    }

    /// Whose problem it is.
    pub fn class(&self) -> ErrorClass {
        self.entry().2
    }

    /// What to do about it.
    pub fn help(&self) -> String {
        match self {
            Self::Refused { status, .. } => {
                Status::from_code(*status).map_or(self.entry().3, Status::advice).to_owned()
            }
            Self::WindowTooSmall { window: "output", needed, .. } => {
                format!("reserve room before the call: reserve_io(0, {needed})")
            }
            Self::Rpmsg(error) => error.help(),
            other => other.entry().3.to_owned(),
        }
    }

    fn entry(&self) -> Entry {
        use ErrorClass::{Deadline, Device, File, Request};
        match self {
            Self::DeviceLost(_) => Entry(
                "OB0301",
                "device_lost",
                Device,
                "the next call starts the device again; load the module again, or mend it first",
            ),
            Self::Timeout { .. } => Entry(
                "OB0302",
                "timeout",
                Deadline,
                "raise the deadline if the module needs longer; the device is started again by the next call, and modules must be loaded again",
            ),
            Self::Refused { .. } => Entry("OB0303", "refused", Device, "compare protocol versions with a PING"),
            Self::LoadFailed { .. } => Entry(
                "OB0304",
                "load_failed",
                File,
                "`outboard check FILE --profile c7x` judges a module before it meets a device",
            ),
            Self::OutOfMemory { .. } => Entry(
                "OB0305",
                "out_of_memory",
                Device,
                "unload modules that are not needed, or use a model with less weights and workspace",
            ),
            Self::MessageTooLong { .. } => Entry(
                "OB0306",
                "message_too_long",
                Request,
                "split the message; inputs beyond the fourth travel in the input window",
            ),
            Self::ShortMessage { .. } => {
                Entry("OB0307", "short_message", Device, "the firmware is not one this program knows: compare versions")
            }
            Self::UnknownReply { .. } => {
                Entry("OB0308", "unknown_reply", Device, "the firmware is not one this program knows: compare versions")
            }
            Self::VersionMismatch { .. } => {
                Entry("OB0309", "version_mismatch", Device, "nothing else was sent to the device")
            }
            Self::StaleModule { .. } => Entry("OB0310", "stale_module", Request, "load the module again"),
            Self::OutputRejected { .. } => Entry(
                "OB0311",
                "output_rejected",
                Device,
                "the module or the firmware is broken: no byte of the output was used",
            ),
            Self::CallFailed { .. } => Entry(
                "OB0312",
                "call_failed",
                Device,
                "read the module's own output above; wrong inputs and exhausted workspace are the usual causes",
            ),
            Self::NoProgram { .. } => {
                Entry("OB0313", "no_program", Request, "name the `outboard` program in OUTBOARD_DEVICE_PROGRAM")
            }
            Self::Start { .. } => {
                Entry("OB0314", "start_failed", Device, "check that the program exists and may be executed")
            }
            Self::Memory(_) => Entry(
                "OB0315",
                "shared_memory",
                Device,
                "a session needs 512 MiB of address space and as much memory as its tensors",
            ),
            Self::Control(_) => {
                Entry("OB0316", "session_memory", Device, "run host and device from the same version of Outboard")
            }
            Self::Placement { .. } => Entry(
                "OB0317",
                "placement",
                Device,
                "another program holds the start of the carveout: close it and open the session again",
            ),
            Self::WindowTooSmall { .. } => Entry(
                "OB0318",
                "window_too_small",
                Request,
                "use smaller tensors, or reserve room before the first buffer is made: reserve_io(input_bytes, output_bytes)",
            ),
            Self::BuffersInUse { .. } => Entry(
                "OB0319",
                "buffers_in_use",
                Request,
                "drop the input buffers first, or reserve enough room before they are made",
            ),
            Self::StaleBuffer { .. } => Entry("OB0320", "stale_buffer", Request, "make the buffer again and fill it"),
            Self::ReadFile { .. } => Entry("OB0321", "unreadable_file", Request, "check the path and its permissions"),
            Self::FileSize { .. } => {
                Entry("OB0322", "file_size", Request, "use a smaller model; staging bounds what can be loaded at once")
            }
            Self::InputCount { .. } => {
                Entry("OB0323", "input_count", Request, "give one tensor for each input of the module, in its order")
            }
            Self::InputMismatch { .. } => {
                Entry("OB0324", "input_mismatch", Request, "convert the tensor, or build the module for this shape")
            }
            Self::InputUnsupported { .. } => Entry(
                "OB0325",
                "input_unsupported",
                Request,
                "a call takes at most 128 tensors of at most six dimensions",
            ),
            Self::BadManifest { .. } => {
                Entry("OB0326", "bad_manifest", File, "build the module again with `python -m outboard.build`")
            }
            Self::CarveoutSize { .. } => {
                Entry("OB0327", "carveout_size", Device, "run host and device from the same version of Outboard")
            }
            Self::Busy { .. } => Entry(
                "OB0328",
                "busy",
                Device,
                "wait until it has closed its session, or use a device that is not shared",
            ),
            Self::Broker { .. } => Entry(
                "OB0329",
                "no_standing_device",
                Device,
                "start one with `outboard device run --socket PATH`, or leave --device away to use a device of your own",
            ),
            // Codes and advice of this one depend on what failed; see above.
            Self::Rpmsg(error) => Entry(error.code(), error.kind(), Device, ""),
            Self::Tensor(_) => {
                Entry("OB0404", "bad_tensor", Request, "compare the element type, the shape and the size of the file")
            }
        }
    }
}

fn seconds(duration: Duration) -> String {
    if duration < Duration::from_secs(1) {
        format!("{} ms", duration.as_millis())
    } else {
        format!("{} s", duration.as_secs_f64())
    }
}

fn colon(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!(": {}", text.trim_end()) }
}

fn list(names: &[String]) -> String {
    if names.is_empty() { String::new() } else { format!(" ({})", names.join("; ")) }
}

fn status_text(code: i32) -> String {
    Status::from_code(code)
        .map_or_else(|| format!("status {code}, which the protocol does not define"), |status| status.to_string())
}

fn largest_text(largest: Option<u64>) -> String {
    largest.map_or_else(String::new, |largest| format!(", the largest block has {largest}"))
}

fn older_side(device: Version, host: Version) -> &'static str {
    if device.major() < host.major() { "the firmware of the device" } else { "this program" }
}
