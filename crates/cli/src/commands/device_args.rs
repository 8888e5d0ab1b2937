//! The device a command talks to: `--device`.

use crate::report::Failure;
use outboard_c7x::sim::Board;
use outboard_host::{
    C7X, CARVEOUT_VARIABLE, Deadlines, RpmsgOptions, Session, SessionOptions, SimOptions, rpmsg, simulated, standing,
};
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
    /// The DSP of this board with this device-tree name, over RPMsg.
    Rpmsg(String),
}

impl FromStr for Device {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "sim" => Ok(Self::Own),
            Some(("sim", path)) if !path.is_empty() => Ok(Self::Standing(path.into())),
            None if text == "rpmsg" => Ok(Self::Rpmsg(C7X.to_owned())),
            Some(("rpmsg", address)) if !address.is_empty() => Ok(Self::Rpmsg(address.to_owned())),
            _ => Err("devices are `sim` (one of this command's own), `sim:PATH` (one that stands at a socket) and \
                      `rpmsg[:ADDR]` (the DSP of this board, by its device-tree name)"
                .to_owned()),
        }
    }
}

/// The option that names the device.
#[derive(Debug, clap::Args)]
pub(super) struct DeviceArgs {
    /// The device: sim starts one, sim:PATH uses one started by `outboard device run --socket PATH`, rpmsg[:ADDR] is the DSP of
    /// this board.
    #[arg(long, value_name = "DEVICE", default_value = "sim")]
    device: Device,

    /// The board this is (with rpmsg; without it OUTBOARD_CARVEOUT says where its carveout is), or that a standing device must
    /// model; am67a-evm or beagley-ai.
    #[arg(long, value_name = "NAME", value_parser = board)]
    board: Option<Board>,

    #[command(flatten)]
    roots: Roots,
}

/// Where the kernel shows its devices.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct Roots {
    /// Where device nodes are.
    #[arg(long, hide = true, global = true, value_name = "FOLDER", default_value = "/dev")]
    pub(super) dev_root: PathBuf,
    /// Where sysfs is mounted.
    #[arg(long, hide = true, global = true, value_name = "FOLDER", default_value = "/sys")]
    pub(super) sys_root: PathBuf,
    /// Physical address of the carveout.
    #[arg(long, hide = true, global = true, value_name = "ADDRESS", env = CARVEOUT_VARIABLE, value_parser = RpmsgOptions::parse_carveout)]
    pub(super) carveout: Option<u64>,
}

impl Roots {
    /// The DSP of a device-tree name below these roots, on a board.
    pub(super) fn rpmsg(&self, address: &str, board: Option<&Board>) -> RpmsgOptions {
        let default = RpmsgOptions::default();
        RpmsgOptions {
            address: address.to_owned(),
            dev: self.dev_root.clone(),
            sys: self.sys_root.clone(),
            carveout: board.and_then(Board::carveout_physical).or(self.carveout).unwrap_or(default.carveout),
            ..default
        }
    }
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
            Device::Rpmsg(address) => Session::open(rpmsg(self.roots.rpmsg(address, self.board.as_ref()))?, options)?,
        })
    }

    /// The DSP of this board, when it is the device.
    pub(super) fn rpmsg(&self) -> Option<RpmsgOptions> {
        match &self.device {
            Device::Rpmsg(address) => Some(self.roots.rpmsg(address, self.board.as_ref())),
            Device::Own | Device::Standing(_) => None,
        }
    }

    /// Where the DSP of this board would be, whatever the device is.
    pub(super) fn this_board(&self) -> RpmsgOptions {
        self.rpmsg().unwrap_or_else(|| self.roots.rpmsg(C7X, self.board.as_ref()))
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
            Device::Rpmsg(_) => Err(Failure::usage(
                "a board's device is not watched through a socket",
                "use `outboard ping`, `outboard board status` and `outboard board trace`",
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
        assert_eq!("rpmsg".parse(), Ok(Device::Rpmsg(C7X.to_owned())));
        assert_eq!("rpmsg:7e200000.dsp".parse(), Ok(Device::Rpmsg("7e200000.dsp".to_owned())));
        for wrong in ["", "sim:", "SIM", "gpu", "rpmsg:", "rpmsgx"] {
            assert!(wrong.parse::<Device>().is_err(), "{wrong}");
        }
    }
}
