//! Error numbers of the published library: one space for negated errno values and for status codes of the device.
//!
//! The two collide (−12 is both ENOMEM and ERR_HANDLE); callers compiled against the published header expect exactly that.
//! Where a number means two things, [`strerror`] has the device's text, as the original. The message of a [`ClientError`] is never ambiguous.

use crate::{Error, ErrorClass, RpmsgError};
use outboard_wire::Status;
use rustix::io::Errno;

/// Why a call of a [`super::Client`] failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// A session failed.
    #[error(transparent)]
    Session(#[from] Error),
    /// The connection was closed.
    #[error("the session is closed")]
    Closed,
    /// The arguments make no sense.
    #[error("{0}")]
    Arguments(String),
    /// The windows cannot change their size any more.
    #[error(
        "the capacity of the input and output buffers is fixed: a call was made or an address given away since the last load"
    )]
    CapacityFixed,
    /// The carveout has no room for the window asked for.
    #[error("{0}")]
    NoRoom(Box<Error>),
    /// A buffer is used by the side that does not own it.
    #[error("{what} belongs to the {owner}")]
    WrongOwner {
        /// The buffer.
        what: String,
        /// Whose it is.
        owner: &'static str,
        /// What to do first.
        todo: &'static str,
    },
    /// The caller's array has no room for all outputs.
    #[error("the module returned {outputs} outputs, but the array has room for {capacity}")]
    TooManyOutputs {
        /// Outputs of the module.
        outputs: usize,
        /// Elements of the array.
        capacity: usize,
    },
}

impl ClientError {
    /// The number the published library returns for it: a status of the device or a negated errno value.
    pub fn number(&self) -> i32 {
        match self {
            Self::Session(error) => number(error),
            Self::Arguments(_) | Self::Closed => negated(Errno::INVAL),
            Self::CapacityFixed | Self::WrongOwner { .. } => negated(Errno::BUSY),
            Self::NoRoom(_) => negated(Errno::NOMEM),
            Self::TooManyOutputs { .. } => negated(Errno::NOSPC),
        }
    }

    /// A name for programs: that of the session's error, or the client's own.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Session(error) => error.kind(),
            Self::NoRoom(error) => error.kind(),
            Self::Closed => "closed",
            Self::Arguments(_) => "arguments",
            Self::CapacityFixed => "capacity_fixed",
            Self::WrongOwner { .. } => "wrong_owner",
            Self::TooManyOutputs { .. } => "too_many_outputs",
        }
    }

    /// The session's error behind it.
    pub fn session(&self) -> Option<&Error> {
        match self {
            Self::Session(error) => Some(error),
            Self::NoRoom(error) => Some(error),
            _ => None,
        }
    }

    /// What to do about it; may be empty.
    pub fn help(&self) -> String {
        match self {
            Self::Session(error) => error.help(),
            Self::CapacityFixed => "reserve right after the load, or unload and load the module again".to_owned(),
            Self::NoRoom(_) => "ask for less; what was reserved before is kept".to_owned(),
            Self::TooManyOutputs { .. } => "call c7x_client_infer_n with a larger array".to_owned(),
            Self::WrongOwner { todo, .. } => (*todo).to_owned(),
            Self::Closed => "open another one".to_owned(),
            Self::Arguments(_) => String::new(),
        }
    }
}

fn negated(errno: Errno) -> i32 {
    -errno.raw_os_error()
}

fn system(error: &std::io::Error) -> i32 {
    error.raw_os_error().map_or(negated(Errno::IO), |number| -number)
}

/// Whether a shortage was one of the device rather than of the carveout.
pub(super) fn is_device_pool(pool: &str) -> bool {
    pool.starts_with("device")
}

fn number(error: &Error) -> i32 {
    match error {
        Error::DeviceLost(_) | Error::NoProgram { .. } | Error::Broker { .. } => negated(Errno::NODEV),
        Error::Start { source, .. } => system(source),
        Error::Rpmsg(error) => board_number(error),
        Error::Busy { .. } | Error::BuffersInUse { .. } => negated(Errno::BUSY),
        Error::Timeout { .. } => negated(Errno::TIMEDOUT),
        Error::Refused { status, .. } => *status,
        Error::LoadFailed { .. } | Error::BadManifest { .. } => Status::Load.code(),
        Error::OutOfMemory { pool, .. } if is_device_pool(pool) => Status::NoMem.code(),
        Error::OutOfMemory { .. } | Error::Memory(_) => negated(Errno::NOMEM),
        // The device answers a module that says so itself with the status of a shortage.
        Error::CallFailed { value, .. } if *value == Status::NoMem.code() => Status::NoMem.code(),
        Error::CallFailed { .. } => Status::Call.code(),
        Error::StaleModule { .. } => Status::Handle.code(),
        // A window that could not grow is too large a tensor; one whose size the caller chose is the device's refusal.
        Error::WindowTooSmall { window: "output", reason, .. } if reason.is_empty() => Status::Size.code(),
        Error::WindowTooSmall { .. } => negated(Errno::FBIG),
        Error::FileSize { size: 0, .. } => Status::Size.code(),
        Error::FileSize { .. } => negated(Errno::FBIG),
        Error::ReadFile { source, .. } => system(source),
        Error::ShortMessage { .. }
        | Error::UnknownReply { .. }
        | Error::VersionMismatch { .. }
        | Error::OutputRejected { .. }
        | Error::Placement { .. }
        | Error::Control(_) => negated(Errno::PROTO),
        other => match other.class() {
            ErrorClass::Request => negated(Errno::INVAL),
            ErrorClass::Device => negated(Errno::NODEV),
            ErrorClass::File => Status::Load.code(),
            ErrorClass::Deadline => negated(Errno::TIMEDOUT),
        },
    }
}

/// Numbers of a board's way: the system's own where it gave one.
fn board_number(error: &RpmsgError) -> i32 {
    match error {
        RpmsgError::Permission { source, .. }
        | RpmsgError::Node { source, .. }
        | RpmsgError::Broken { source, .. }
        | RpmsgError::Heap { source, .. }
        | RpmsgError::Attach { source, .. }
        | RpmsgError::Sync { source, .. } => system(source),
        _ => negated(Errno::NODEV),
    }
}

/// The text the published library has for a number.
///
/// ```
/// use outboard_host::client::strerror;
/// assert_eq!(strerror(-9), "Dynamic load failed");
/// assert_eq!(strerror(-110), "Timeout");
/// assert_eq!(strerror(1), "Unknown error");
/// ```
pub fn strerror(number: i32) -> &'static str {
    if let Some(status) = Status::from_code(number) {
        return status.text();
    }
    let texts = [
        (Errno::INVAL, "Invalid argument"),
        (Errno::TIMEDOUT, "Timeout"),
        (Errno::PROTO, "Protocol error"),
        (Errno::NODEV, "Device not found"),
        (Errno::FBIG, "File too large"),
        (Errno::BUSY, "input_buf/output_buf already in use"),
        (Errno::NOSPC, "More outputs than the array has room for"),
    ];
    texts.iter().find(|(errno, _)| negated(*errno) == number).map_or("Unknown error", |(_, text)| text)
}
