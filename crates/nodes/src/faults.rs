//! Calls that fail on request: `OUTBOARD_NODES_FAULTS`, a list of `CALL=ERROR` separated by commas.

use std::collections::BTreeMap;

/// Names of the errors a call can fail with.
const ERRORS: [(&str, i32); 12] = [
    ("EACCES", libc::EACCES),
    ("EAGAIN", libc::EAGAIN),
    ("EBUSY", libc::EBUSY),
    ("EINVAL", libc::EINVAL),
    ("EIO", libc::EIO),
    ("EMSGSIZE", libc::EMSGSIZE),
    ("ENODEV", libc::ENODEV),
    ("ENOENT", libc::ENOENT),
    ("ENOMEM", libc::ENOMEM),
    ("ENOTTY", libc::ENOTTY),
    ("EPERM", libc::EPERM),
    ("EPIPE", libc::EPIPE),
];

/// What was asked to go wrong.
#[derive(Debug, Default)]
pub(crate) struct Faults(BTreeMap<String, String>);

impl Faults {
    pub(crate) fn parse(text: &str) -> Self {
        let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
        Self(pairs.map(|(call, error)| (call.trim().to_owned(), error.trim().to_owned())).collect())
    }

    /// The error this call is to fail with.
    pub(crate) fn of(&self, call: &str) -> Option<i32> {
        let name = self.0.get(call)?;
        ERRORS.iter().find(|(known, _)| known == name).map(|(_, number)| *number)
    }

    /// Whether a word was set to a value.
    pub(crate) fn has(&self, word: &str, value: &str) -> bool {
        self.0.get(word).is_some_and(|given| given == value)
    }

    /// A number, decimal or with 0x.
    pub(crate) fn number(&self, word: &str) -> Option<u64> {
        let text = self.0.get(word)?;
        match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            None => text.parse().ok(),
        }
    }
}
