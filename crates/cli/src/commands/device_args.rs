//! The device a command talks to: `--device`.

use crate::report::Failure;
use outboard_c7x::sim::Board;
use outboard_host::{Deadlines, Session, SessionOptions, SimOptions, simulated, standing};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// A device, as people name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Device {
    /// A simulated device that the command starts for itself.
    Own,
    /// A standing device at a socket.
    Standing(PathBuf),
}

impl FromStr for Device {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "sim" => Ok(Self::Own),
            Some(("sim", path)) if !path.is_empty() => Ok(Self::Standing(path.into())),
            _ => {
                Err("devices are `sim` (one of this command's own) and `sim:PATH` (one that stands at a socket)"
                    .to_owned())
            }
        }
    }
}

/// The option that names the device.
#[derive(Debug, clap::Args)]
pub(super) struct DeviceArgs {
    /// The device: sim starts one, sim:PATH uses one started by `outboard device run --socket PATH`.
    #[arg(long, value_name = "DEVICE", default_value = "sim")]
    device: Device,

    /// The board a standing device must model; another one is refused.
    #[arg(long, value_name = "NAME", value_parser = board)]
    board: Option<Board>,
}

/// A board, by name.
pub(super) fn board(name: &str) -> Result<Board, String> {
    Board::named(name).ok_or_else(|| {
        let known: Vec<String> = Board::all().into_iter().map(|board| board.name).collect();
        format!("no such board; known: {}", known.join(", "))
    })
}

impl DeviceArgs {
    /// Opens a session with the device; another one is never taken instead.
    pub(super) fn open(&self, deadline: Duration) -> Result<Session, Failure> {
        let options = SessionOptions { deadlines: Deadlines::all(deadline) };
        Ok(match &self.device {
            Device::Own => Session::open(simulated(SimOptions::default())?, options)?,
            Device::Standing(socket) => {
                Session::open(standing(socket, self.board.as_ref().map(|board| board.name.as_str()))?, options)?
            }
        })
    }

    /// Opens a session whose modules outlive it.
    pub(super) fn open_lasting(&self, deadline: Duration) -> Result<Session, Failure> {
        let session = self.open(deadline)?;
        if session.keeps_modules() {
            return Ok(session);
        }
        let message = format!("device {} forgets its modules when a command ends", session.device());
        Err(Failure::usage(
            message,
            "use `outboard run`, or start a device with `outboard device run --socket PATH --shared`",
        ))
    }

    /// The socket of a standing device.
    pub(super) fn socket(&self) -> Result<&PathBuf, Failure> {
        match &self.device {
            Device::Standing(socket) => Ok(socket),
            Device::Own => Err(Failure::usage(
                "a device of this command's own has nothing to show",
                "name a standing one with --device sim:PATH",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_named_exactly_or_refused() {
        assert_eq!("sim".parse(), Ok(Device::Own));
        assert_eq!("sim:/tmp/dsp".parse(), Ok(Device::Standing("/tmp/dsp".into())));
        for wrong in ["", "sim:", "SIM", "gpu", "rpmsg:x"] {
            assert!(wrong.parse::<Device>().is_err(), "{wrong}");
        }
    }
}
