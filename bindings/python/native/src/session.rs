//! Sessions with a device.

use crate::core::Core;
use crate::errors::raised;
use crate::module::Module;
use outboard_host::client::{Client, ClientError, DeviceName, deadlines};
use outboard_host::{Deadlines, PROGRAM_VARIABLE, SessionOptions, SimOptions, simulated};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// A session with one device: `sim` (one of the session's own), `sim:PATH` (one that stands at a socket) or `rpmsg[:ADDRESS]` (the DSP of
/// the board). Without a name it is the one that `OUTBOARD_DEVICE` names, else `sim`; another one is never taken instead.
#[pyclass(frozen, module = "outboard")]
#[derive(Debug)]
pub(crate) struct Session {
    core: Arc<Core>,
    device: String,
}

#[pymethods]
impl Session {
    #[new]
    #[pyo3(signature = (device = None, *, timeout = None, program = None, incoherent = false))]
    fn new(
        py: Python<'_>,
        device: Option<&str>,
        timeout: Option<f64>,
        program: Option<PathBuf>,
        incoherent: bool,
    ) -> PyResult<Self> {
        let wrong = |error: ClientError| raised(py, &error, "");
        let name = match device {
            Some(text) => text.parse().map_err(|reason: String| wrong(ClientError::Arguments(reason)))?,
            None => DeviceName::from_environment().map_err(wrong)?,
        };
        if incoherent && name != DeviceName::Own {
            return Err(PyValueError::new_err("incoherent caches are modelled by a device of the session's own (sim)"));
        }
        let limits = match timeout {
            Some(seconds) => limit(seconds)?,
            None => deadlines().map_err(wrong)?,
        };
        let program = program.or_else(|| find_program(py));
        let opened = py.detach(|| open(&name, limits, program, incoherent));
        let client = opened.map_err(wrong)?;
        let device = client.device().to_owned();
        Ok(Self { core: Core::new(client), device })
    }

    /// Loads a module.
    fn load(&self, py: Python<'_>, path: PathBuf) -> PyResult<Module> {
        let core = &self.core;
        self.core.with(py, |client| {
            let handle = client.load(&path)?;
            Ok(Module::new(core, client, handle))
        })
    }

    /// Makes the windows of inputs and outputs at least this large, before their first use.
    fn reserve_io(&self, py: Python<'_>, input_bytes: u64, output_bytes: u64) -> PyResult<()> {
        self.core.with(py, |client| client.reserve_io(input_bytes, output_bytes))
    }

    /// Asks the device for its version and how long it has been up: `version`, `uptime` and `round_trip`, in seconds.
    fn ping<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let pong = self.core.with(py, Client::ping)?;
        let answer = PyDict::new(py);
        answer.set_item("version", pong.version.to_string())?;
        answer.set_item("uptime", pong.uptime.as_secs_f64())?;
        answer.set_item("round_trip", pong.round_trip.as_secs_f64())?;
        Ok(answer)
    }

    /// Asks the device for its counters: `version`, `uptime`, `jobs_completed` and `jobs_failed`.
    fn status<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let status = self.core.with(py, Client::status)?;
        let answer = PyDict::new(py);
        answer.set_item("version", status.version.to_string())?;
        answer.set_item("uptime", status.uptime.as_secs_f64())?;
        answer.set_item("jobs_completed", status.jobs_completed)?;
        answer.set_item("jobs_failed", status.jobs_failed)?;
        Ok(answer)
    }

    /// How results name the device.
    #[getter]
    fn device(&self) -> &str {
        &self.device
    }

    /// Tensor bytes that were copied so far: to the device, and back.
    #[getter]
    fn traffic(&self, py: Python<'_>) -> PyResult<(u64, u64)> {
        let traffic = self.core.with(py, |client| Ok(client.traffic()))?;
        Ok((traffic.to_device, traffic.to_host))
    }

    /// Whether the session is open.
    #[getter]
    fn is_open(&self, py: Python<'_>) -> bool {
        self.core.is_open(py)
    }

    /// Ends the session and its device; again does nothing. Arrays over memory of the device stay readable, with contents that nobody
    /// vouches for.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        match self.core.take(py) {
            Some(client) => py.detach(|| client.close()).map_err(|error| raised(py, &error, "")),
            None => Ok(()),
        }
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.close(py)
    }

    fn __repr__(&self) -> String {
        format!("<outboard.Session {}>", self.device)
    }
}

fn limit(seconds: f64) -> PyResult<Deadlines> {
    let limit = Duration::try_from_secs_f64(seconds).ok().filter(|limit| !limit.is_zero());
    let wrong = || PyValueError::new_err(format!("a timeout is a positive number of seconds, not {seconds}"));
    Ok(Deadlines::all(limit.ok_or_else(wrong)?))
}

fn open(
    name: &DeviceName,
    deadlines: Deadlines,
    program: Option<PathBuf>,
    incoherent: bool,
) -> Result<Client, ClientError> {
    let session = if incoherent {
        let transport = simulated(SimOptions { program, incoherent, ..SimOptions::default() })?;
        outboard_host::Session::open(transport, SessionOptions { deadlines })?
    } else {
        name.open(deadlines, program)?
    };
    Ok(Client::over(session))
}

/// The `outboard` program a simulated device runs in: beside the package, beside the interpreter, or on the path. `None` when the
/// environment names one or there is none: the session then says where else it looked.
fn find_program(py: Python<'_>) -> Option<PathBuf> {
    if std::env::var_os(PROGRAM_VARIABLE).is_some_and(|named| !named.is_empty()) {
        return None;
    }
    let package = py.import("outboard").and_then(|package| package.getattr("__file__")?.extract::<PathBuf>()).ok();
    let interpreter = py.import("sys").and_then(|sys| sys.getattr("executable")?.extract::<PathBuf>()).ok();
    let beside = |file: PathBuf, folder: &str| Some(file.parent()?.join(folder).join("outboard"));
    let on_path = std::env::var_os("PATH")
        .map(|path| std::env::split_paths(&path).map(|folder| folder.join("outboard")).collect::<Vec<_>>());
    let places = package.and_then(|file| beside(file, "bin")).into_iter();
    let places = places.chain(interpreter.and_then(|file| beside(file, ".")));
    places.chain(on_path.unwrap_or_default()).find(|place| place.is_file())
}
