//! Modules that a session has loaded.

use crate::arguments::{Arguments, dimensions, element_type};
use crate::buffer::{InputBuffer, reserve};
use crate::core::Core;
use crate::tensor::{Memory, Own, Tensor, as_array};
use outboard_host::client::{Client, ClientError};
use outboard_host::{IoSizes, ModuleText};
use outboard_tensor::{DType, Shape};
use outboard_wire::InferFlags;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// What a module says about one of its tensors.
#[pyclass(frozen, get_all, module = "outboard")]
#[derive(Debug, Clone)]
pub(crate) struct TensorSpec {
    /// Its name.
    name: String,
    /// Name of its element type.
    dtype: &'static str,
    /// Its dimensions.
    shape: Vec<usize>,
}

#[pymethods]
impl TensorSpec {
    fn __repr__(&self) -> String {
        format!("{}: {} {:?}", self.name, self.dtype, self.shape)
    }
}

/// A loaded module. Calling it copies the inputs to the device and the outputs back; `run_nocopy` and buffers of the device avoid both.
#[pyclass(frozen, module = "outboard")]
#[derive(Debug)]
pub(crate) struct Module {
    core: Arc<Core>,
    handle: u32,
    name: String,
    inputs: Vec<TensorSpec>,
    outputs: Vec<TensorSpec>,
    io: Option<IoSizes>,
    warnings: Vec<String>,
    loaded: Arc<AtomicBool>,
    cycles: AtomicU64,
    text: Mutex<ModuleText>,
}

/// What came of a call, without the interpreter's lock.
struct Answer {
    outputs: Vec<(Memory, DType, Shape)>,
    cycles: u64,
    text: ModuleText,
}

impl Module {
    /// The module that a client has just loaded.
    pub(crate) fn new(core: &Arc<Core>, client: &Client, handle: u32) -> Self {
        let module = client.module(handle);
        let manifest = module.and_then(outboard_host::Module::manifest);
        let specs = |specs: &[outboard_host::TensorSpec]| {
            let spec = |spec: &outboard_host::TensorSpec| TensorSpec {
                name: spec.name.clone(),
                dtype: spec.dtype.name(),
                shape: spec.shape.dims().to_vec(),
            };
            specs.iter().map(spec).collect::<Vec<_>>()
        };
        Self {
            core: Arc::clone(core),
            handle,
            name: module.map(|module| module.name().to_owned()).unwrap_or_default(),
            inputs: manifest.map(|manifest| specs(&manifest.inputs)).unwrap_or_default(),
            outputs: manifest.map(|manifest| specs(&manifest.outputs)).unwrap_or_default(),
            io: module.and_then(outboard_host::Module::io).copied(),
            warnings: client.warnings(handle).to_vec(),
            loaded: Arc::new(AtomicBool::new(true)),
            cycles: AtomicU64::new(0),
            text: Mutex::default(),
        }
    }

    /// The inputs in their order: as they are given, or by the names the module declares.
    fn ordered<'py>(
        &self,
        given: &Bound<'py, PyTuple>,
        named: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let named = named.filter(|named| !named.is_empty()).cloned();
        let named = match (named, given.len()) {
            (Some(_), 1..) => return Err(PyTypeError::new_err("inputs are given either in their order or by name")),
            (None, 1) => given.get_item(0)?.cast_into::<PyDict>().ok(),
            (named, _) => named,
        };
        let Some(named) = named else { return Ok(given.iter().collect()) };
        if self.inputs.is_empty() {
            let text = format!("{} does not name its inputs: give them in their order", self.name);
            return Err(PyTypeError::new_err(text));
        }
        let mut ordered = Vec::with_capacity(self.inputs.len());
        for spec in &self.inputs {
            let input = named.get_item(&spec.name)?;
            ordered.push(input.ok_or_else(|| PyTypeError::new_err(format!("input `{}` is missing", spec.name)))?);
        }
        if named.len() > ordered.len() {
            let known: Vec<&str> = self.inputs.iter().map(|spec| spec.name.as_str()).collect();
            return Err(PyTypeError::new_err(format!("{} has the inputs {}", self.name, known.join(", "))));
        }
        Ok(ordered)
    }

    fn call<'py>(
        &self,
        py: Python<'py>,
        inputs: &[Bound<'py, PyAny>],
        copied: bool,
        flags: u32,
    ) -> PyResult<Bound<'py, PyAny>> {
        let arguments = Arguments::new(inputs)?;
        let tensors = &arguments.tensors;
        let answer = self.core.with(py, |client| {
            let saved: Vec<Option<Vec<u8>>> = tensors.iter().map(|tensor| tensor.saved(client)).collect();
            let inputs = tensors
                .iter()
                .zip(&saved)
                .map(|(tensor, saved)| tensor.tensor(client, saved.as_deref()))
                .collect::<Result<Vec<_>, _>>()?;
            let outputs = client.infer(self.handle, 0, &inputs, flags)?;
            let each = (0..outputs.len()).filter_map(|index| {
                let view = outputs.view(index)?;
                let (dtype, shape) = (view.dtype(), view.shape().clone());
                let memory = if copied {
                    Memory::Own(Arc::new(Own::from(outputs.to_tensor(index)?.into_bytes())))
                } else {
                    Memory::Window(outputs.place(index)?)
                };
                Some((memory, dtype, shape))
            });
            Ok(Answer { outputs: each.collect(), cycles: outputs.cycles(), text: outputs.text().clone() })
        })?;
        drop(arguments);
        self.cycles.store(answer.cycles, Ordering::Relaxed);
        *self.text.lock().unwrap_or_else(PoisonError::into_inner) = answer.text;
        let outputs = answer.outputs.into_iter();
        let outputs = outputs.map(|(memory, dtype, shape)| Tensor::new(memory, dtype, shape).into_python(py));
        let outputs = outputs.collect::<PyResult<Vec<_>>>()?;
        match <[_; 1]>::try_from(outputs) {
            Ok([only]) => Ok(only),
            Err(several) => Ok(PyList::new(py, several)?.into_any()),
        }
    }
}

/// The flags of a call as the wire has them.
fn flags(repeat: u16, kv_resident: bool) -> u32 {
    let flags = InferFlags::repeat(repeat);
    if kv_resident { flags.kv_resident().0 } else { flags.0 }
}

#[pymethods]
impl Module {
    /// Calls the module; returns a copy of its output, or a list of copies. Inputs are given in their order, or by the names the module
    /// declares: as keywords, or in one dict.
    #[pyo3(signature = (*inputs, **named))]
    fn __call__<'py>(
        &self,
        py: Python<'py>,
        inputs: &Bound<'py, PyTuple>,
        named: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.call(py, &self.ordered(inputs, named)?, true, 0)
    }

    /// Calls the module with choices: `repeat` runs it several times and keeps the last answer; `kv_resident` leaves all outputs but
    /// the first in the cache region of the device, where `Resident` inputs of the next call find them.
    #[pyo3(signature = (*inputs, repeat = 0, kv_resident = false))]
    fn run<'py>(
        &self,
        py: Python<'py>,
        inputs: &Bound<'py, PyTuple>,
        repeat: u16,
        kv_resident: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.call(py, &self.ordered(inputs, None)?, true, flags(repeat, kv_resident))
    }

    /// Calls the module; returns its output, or a list, where the device left it: read-only views that the next call overwrites.
    #[pyo3(signature = (*inputs, repeat = 0, kv_resident = false))]
    fn run_nocopy<'py>(
        &self,
        py: Python<'py>,
        inputs: &Bound<'py, PyTuple>,
        repeat: u16,
        kv_resident: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.call(py, &self.ordered(inputs, None)?, false, flags(repeat, kv_resident))
    }

    /// An array in memory of the device, to be filled in place: calls with it copy nothing and synchronise it by themselves. It lasts
    /// until every module is unloaded.
    #[pyo3(signature = (shape, dtype = None))]
    fn create_input<'py>(
        &self,
        py: Python<'py>,
        shape: Vec<usize>,
        dtype: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (dtype, shape) = (element_type(dtype)?, dimensions(&shape)?);
        if crate::tensor::typestr(dtype).is_none() {
            return Err(PyValueError::new_err(format!("numpy has no {dtype}: use input() and its tensor")));
        }
        let place = reserve(py, &self.core, self.handle, dtype, &shape)?;
        // Nobody counts who holds it: every call synchronises it anyway.
        let memory = Memory::Buffer { place, _lease: crate::tensor::Lease::new(&Arc::default()) };
        as_array(&Bound::new(py, Tensor::new(memory, dtype, shape))?.into_any())
    }

    /// A buffer in memory of the device whose owner is checked: filled, handed over, and then given to any number of calls that neither
    /// copy nor synchronise it.
    #[pyo3(signature = (shape, dtype = None))]
    fn input(&self, py: Python<'_>, shape: Vec<usize>, dtype: Option<&Bound<'_, PyAny>>) -> PyResult<InputBuffer> {
        InputBuffer::create(py, &self.core, (self.handle, &self.loaded), &shape, dtype)
    }

    /// Takes the module out of the device; again does nothing.
    fn unload(&self, py: Python<'_>) -> PyResult<()> {
        if self.loaded.swap(false, Ordering::AcqRel) && self.core.is_open(py) {
            let handle = self.handle;
            self.core.with(py, |client| match client.unload(handle) {
                // A device that was started again has forgotten it.
                Err(ClientError::Session(outboard_host::Error::StaleModule { .. })) => Ok(()),
                other => other,
            })?;
        }
        Ok(())
    }

    /// Number by which the device knows the module.
    #[getter]
    fn handle(&self) -> u32 {
        self.handle
    }

    /// Name of its file.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// What it declares about its inputs; empty when the file does not say.
    #[getter]
    fn inputs(&self) -> Vec<TensorSpec> {
        self.inputs.clone()
    }

    /// What it declares about its outputs; empty when the file does not say.
    #[getter]
    fn outputs(&self) -> Vec<TensorSpec> {
        self.outputs.clone()
    }

    /// Bytes of the input and of the output window that it declares; `None` when it does not say.
    #[getter]
    fn io_bytes(&self) -> Option<(u64, u64)> {
        self.io.map(|io| (io.input_bytes, io.output_bytes))
    }

    /// What a person should know about the load.
    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.warnings.clone()
    }

    /// Cycles of the last call; 0 before the first.
    #[getter]
    fn last_cycles(&self) -> u64 {
        self.cycles.load(Ordering::Relaxed)
    }

    /// What the last call printed.
    #[getter]
    fn last_text(&self) -> String {
        self.text.lock().unwrap_or_else(PoisonError::into_inner).text().into_owned()
    }

    /// Whether it is on the device.
    #[getter]
    fn is_loaded(&self, py: Python<'_>) -> bool {
        self.loaded.load(Ordering::Acquire) && self.core.is_open(py)
    }

    fn __enter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, py: Python<'_>, _exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        self.unload(py)
    }

    fn __repr__(&self) -> String {
        format!("<outboard.Module {} (handle {})>", self.name, self.handle)
    }
}
