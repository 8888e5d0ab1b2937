//! Deadlines and other choices of a session.

use std::time::Duration;

/// How long the session waits for each kind of answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadlines {
    /// For the device to come up.
    pub boot: Duration,
    /// For small requests: PING, GET_STATUS, SET_PRINTF_BUF, DYN_UNLOAD.
    pub request: Duration,
    /// For DYN_LOAD.
    pub load: Duration,
    /// For an inference, all repeats together.
    pub infer: Duration,
    /// For a shutdown to be acknowledged.
    pub shutdown: Duration,
}

impl Deadlines {
    /// The deadline of everything, unless told otherwise.
    pub const DEFAULT: Duration = Duration::from_secs(10);

    /// The same deadline for everything.
    pub const fn all(limit: Duration) -> Self {
        Self { boot: limit, request: limit, load: limit, infer: limit, shutdown: limit }
    }
}

impl Default for Deadlines {
    fn default() -> Self {
        Self::all(Self::DEFAULT)
    }
}

/// Choices of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SessionOptions {
    /// How long to wait.
    pub deadlines: Deadlines,
}

/// Choices of one inference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RunOptions {
    /// How often the device runs the module; 0 and 1 both mean once.
    pub repeat: u16,
    /// Keep the outputs from the second on in the device's KV region and return only the first; a later call takes them with
    /// [`crate::Input::Resident`].
    pub kv_resident: bool,
    /// How long to wait; `None`: [`Deadlines::infer`] of the session.
    pub deadline: Option<Duration>,
}

impl RunOptions {
    /// Runs the module `count` times in one call. The outputs and, for up to four inputs, the cycles are those of the last run.
    #[must_use]
    pub fn repeat(count: u16) -> Self {
        Self { repeat: count, ..Self::default() }
    }
}
