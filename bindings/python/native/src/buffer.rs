//! Buffers of the input window with an owner that is checked.

use crate::arguments::{dimensions, element_type};
use crate::core::Core;
use crate::errors::raised;
use crate::tensor::{Lease, Memory, Tensor, as_array};
use outboard_host::Place;
use outboard_host::client::ClientError;
use outboard_tensor::{DType, Shape};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// A buffer in memory of the device. It begins as the host's: `array` gives its bytes. `hand_over` gives it to the device, after which
/// calls take it without a copy and its bytes are out of reach; `take_back` gives it to the host again. Using it on the
/// wrong side raises `outboard.errors.WrongOwner`.
#[pyclass(frozen, module = "outboard")]
#[derive(Debug)]
pub(crate) struct InputBuffer {
    core: Arc<Core>,
    /// Whether the module it was made for is still loaded.
    loaded: Arc<AtomicBool>,
    pub(crate) dtype: DType,
    pub(crate) shape: Shape,
    place: Place,
    with_device: AtomicBool,
    /// Arrays and tensors over its bytes that somebody holds.
    leases: Arc<AtomicUsize>,
}

impl InputBuffer {
    /// Makes a buffer for a module.
    pub(crate) fn create(
        py: Python<'_>,
        core: &Arc<Core>,
        module: (u32, &Arc<AtomicBool>),
        shape: &[usize],
        dtype: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let (dtype, shape) = (element_type(dtype)?, dimensions(shape)?);
        let place = reserve(py, core, module.0, dtype, &shape)?;
        Ok(Self {
            core: Arc::clone(core),
            loaded: Arc::clone(module.1),
            dtype,
            shape,
            place,
            with_device: AtomicBool::new(false),
            leases: Arc::default(),
        })
    }

    /// The address, for the input `index` of a call.
    pub(crate) fn address_for_call(&self, py: Python<'_>, index: usize) -> PyResult<usize> {
        if !self.loaded.load(Ordering::Acquire) {
            return Err(raised(py, &outboard_host::Error::StaleBuffer { index }.into(), ""));
        }
        if !self.with_device.load(Ordering::Acquire) {
            let what = format!("input {index} of the call");
            return Err(wrong_owner(py, what, "host", "hand it over before the call: hand_over()"));
        }
        Ok(self.place.as_ptr().addr())
    }

    fn lend(&self, py: Python<'_>) -> PyResult<Tensor> {
        if self.with_device.load(Ordering::Acquire) {
            let todo = "take it back before it is read or written: take_back()";
            return Err(wrong_owner(py, "the buffer".to_owned(), "device", todo));
        }
        let memory = Memory::Buffer { place: self.place.clone(), _lease: Lease::new(&self.leases) };
        Ok(Tensor::new(memory, self.dtype, self.shape.clone()))
    }
}

fn wrong_owner(py: Python<'_>, what: String, owner: &'static str, todo: &'static str) -> PyErr {
    raised(py, &ClientError::WrongOwner { what, owner, todo }, "")
}

/// Room in the input window.
pub(crate) fn reserve(py: Python<'_>, core: &Core, handle: u32, dtype: DType, shape: &Shape) -> PyResult<Place> {
    let len = shape.bytes(dtype).map_err(|error| pyo3::exceptions::PyValueError::new_err(error.to_string()))?;
    core.with(py, |client| {
        let (_, offset) = client.create_input(handle, len)?;
        client.input_place(offset, len).ok_or(ClientError::CapacityFixed)
    })
}

#[pymethods]
impl InputBuffer {
    /// `"host"` or `"device"`.
    #[getter]
    fn owner(&self) -> &'static str {
        if self.with_device.load(Ordering::Acquire) { "device" } else { "host" }
    }

    /// Name of the element type.
    #[getter]
    fn dtype(&self) -> &'static str {
        self.dtype.name()
    }

    /// Dimensions.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.shape.dims())
    }

    /// The bytes as a tensor that DLPack and numpy take, while the host owns them.
    #[getter]
    fn tensor(&self, py: Python<'_>) -> PyResult<Tensor> {
        self.lend(py)
    }

    /// The bytes as a numpy array, while the host owns them.
    #[getter]
    fn array<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        as_array(&Bound::new(py, self.lend(py)?)?.into_any())
    }

    /// Copies values in, as an assignment to the array does.
    fn fill(&self, py: Python<'_>, values: &Bound<'_, PyAny>) -> PyResult<()> {
        self.array(py)?.set_item(py.Ellipsis(), values)
    }

    /// Gives the buffer to the device, with what was written. Refused while arrays over it are alive.
    fn hand_over(&self, py: Python<'_>) -> PyResult<()> {
        if self.with_device.load(Ordering::Acquire) {
            return Err(wrong_owner(py, "the buffer".to_owned(), "device", "it can be given to calls as it is"));
        }
        let leases = self.leases.load(Ordering::Acquire);
        if leases > 0 {
            let what = format!("the buffer can still be reached through {leases} array(s), and");
            return Err(wrong_owner(py, what, "host", "drop every array over it first (del), or use fill()"));
        }
        let address = self.place.as_ptr().addr();
        self.core.with(py, |client| client.hand_over(address))?;
        self.with_device.store(true, Ordering::Release);
        Ok(())
    }

    /// Gives the buffer to the host again, with what the device wrote into it.
    fn take_back(&self, py: Python<'_>) -> PyResult<()> {
        if !self.with_device.load(Ordering::Acquire) {
            return Err(wrong_owner(py, "the buffer".to_owned(), "host", "it can be read and written as it is"));
        }
        let address = self.place.as_ptr().addr();
        self.core.with(py, |client| client.take_back(address))?;
        self.with_device.store(false, Ordering::Release);
        Ok(())
    }

    fn __repr__(&self) -> String {
        format!("<outboard.InputBuffer {} ({}), the {}'s>", self.dtype, self.shape, self.owner())
    }
}
