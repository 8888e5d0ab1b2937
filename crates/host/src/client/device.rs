//! The device that the environment names, for programs that were written for a board.

use crate::{
    Deadlines, RpmsgOptions, Session, SessionOptions, SimOptions, carveout_from_environment, rpmsg, simulated, standing,
};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use super::ClientError;

/// Environment variable that names the device: `sim` (the default), `sim:PATH`, `rpmsg` or `rpmsg:ADDRESS`.
pub const DEVICE_VARIABLE: &str = "OUTBOARD_DEVICE";
/// Environment variable with the deadline of loads and calls, in seconds.
pub const TIMEOUT_VARIABLE: &str = "OUTBOARD_TIMEOUT";
/// Deadline of loads and calls, unless told otherwise: that of the original.
const PATIENCE: Duration = Duration::from_secs(600);

/// A device, as people name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeviceName {
    /// A simulated device of this session's own.
    Own,
    /// A simulated device that stands at a socket.
    Standing(PathBuf),
    /// The board's DSP, over RPMsg; the device-tree address when it is not the usual one.
    Rpmsg(Option<String>),
}

impl FromStr for DeviceName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "sim" => Ok(Self::Own),
            None if text == "rpmsg" => Ok(Self::Rpmsg(None)),
            Some(("sim", path)) if !path.is_empty() => Ok(Self::Standing(path.into())),
            Some(("rpmsg", address)) if !address.is_empty() => Ok(Self::Rpmsg(Some(address.to_owned()))),
            _ => Err(format!("`{text}` names no device: devices are sim, sim:PATH, rpmsg and rpmsg:ADDRESS")),
        }
    }
}

impl DeviceName {
    /// The device that [`DEVICE_VARIABLE`] names; without it, a simulated one.
    ///
    /// # Errors
    /// The variable names no device.
    pub fn from_environment() -> Result<Self, ClientError> {
        match std::env::var_os(DEVICE_VARIABLE) {
            Some(name) if !name.is_empty() => {
                let parsed = name.to_string_lossy().parse();
                parsed.map_err(|reason: String| ClientError::Arguments(format!("{DEVICE_VARIABLE}: {reason}")))
            }
            _ => Ok(Self::Own),
        }
    }

    /// Opens a session with the device; another one is never taken instead. `program` is where a simulated device of the
    /// session's own runs.
    ///
    /// # Errors
    /// The device cannot be reached or used, or [`crate::CARVEOUT_VARIABLE`] holds no address.
    pub fn open(&self, deadlines: Deadlines, program: Option<PathBuf>) -> Result<Session, ClientError> {
        let options = SessionOptions { deadlines };
        Ok(match self {
            Self::Own => Session::open(simulated(SimOptions { program, ..SimOptions::default() })?, options)?,
            Self::Standing(socket) => Session::open(standing(socket, None)?, options)?,
            Self::Rpmsg(address) => {
                let mut board = RpmsgOptions::default();
                if let Some(carveout) = carveout_from_environment().map_err(ClientError::Arguments)? {
                    board.carveout = carveout;
                }
                if let Some(address) = address {
                    board.address.clone_from(address);
                }
                Session::open(rpmsg(board)?, options)?
            }
        })
    }
}

impl std::fmt::Display for DeviceName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Own => f.write_str("sim"),
            Self::Standing(socket) => write!(f, "sim:{}", socket.display()),
            Self::Rpmsg(None) => f.write_str("rpmsg"),
            Self::Rpmsg(Some(address)) => write!(f, "rpmsg:{address}"),
        }
    }
}

/// Deadlines of programs written for the original: ten minutes for loads and calls, or what [`TIMEOUT_VARIABLE`] says; ten
/// seconds for everything else.
///
/// # Errors
/// The variable holds no positive number of seconds.
pub fn deadlines() -> Result<Deadlines, ClientError> {
    let limit = match std::env::var_os(TIMEOUT_VARIABLE) {
        Some(text) if !text.is_empty() => {
            let seconds = text.to_str().and_then(|text| text.parse().ok());
            let limit = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
            limit.filter(|limit| !limit.is_zero()).ok_or_else(|| {
                let text = text.to_string_lossy();
                ClientError::Arguments(format!("{TIMEOUT_VARIABLE}: `{text}` is not a positive number of seconds"))
            })?
        }
        _ => PATIENCE,
    };
    Ok(Deadlines { load: limit, infer: limit, ..Deadlines::default() })
}
