//! Tensors that Python holds: outputs where the device left them, copies of outputs, and buffers of inputs.

use crate::dlpack::{self, Export, Request};
use outboard_host::Place;
use outboard_tensor::{DType, Shape};
use pyo3::exceptions::PyAttributeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts those who can reach the bytes of a buffer.
#[derive(Debug)]
pub(crate) struct Lease(Arc<AtomicUsize>);

impl Lease {
    pub(crate) fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(count))
    }
}

impl Clone for Lease {
    fn clone(&self) -> Self {
        Self::new(&self.0)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Bytes of their own that others read and write through their address; Rust code never looks at them.
#[derive(Debug)]
pub(crate) struct Own {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: nothing here depends on the thread: the value is an address and a length.
unsafe impl Send for Own {}
// SAFETY: as above; the bytes are not reached through it.
unsafe impl Sync for Own {}

impl From<Vec<u8>> for Own {
    fn from(bytes: Vec<u8>) -> Self {
        let bytes = Box::leak(bytes.into_boxed_slice());
        Self { len: bytes.len(), start: NonNull::from(bytes).cast() }
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        // SAFETY: address and length are those of the box that was leaked, and nobody holds them any more.
        drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(self.start.as_ptr(), self.len)) });
    }
}

/// Where the bytes of a tensor are, and what keeps them there.
#[derive(Debug, Clone)]
pub(crate) enum Memory {
    /// An output in the window of the session: the next call overwrites it.
    Window(Place),
    /// A buffer of the input window, for its holder to write.
    Buffer { place: Place, _lease: Lease },
    /// A copy.
    Own(Arc<Own>),
}

impl Memory {
    fn address(&self) -> *mut u8 {
        match self {
            Self::Window(place) | Self::Buffer { place, .. } => place.as_ptr(),
            Self::Own(own) => own.start.as_ptr(),
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Window(place) | Self::Buffer { place, .. } => place.len(),
            Self::Own(own) => own.len,
        }
    }

    /// Outputs belong to the device: what the host wrote there would be undone, or undo what the device writes.
    fn is_readonly(&self) -> bool {
        matches!(self, Self::Window(_))
    }
}

/// A tensor in memory of the CPU. `numpy.asarray` and every library that speaks DLPack take it without a copy.
#[pyclass(frozen, module = "outboard")]
#[derive(Debug)]
pub(crate) struct Tensor {
    memory: Memory,
    dtype: DType,
    shape: Shape,
}

impl Tensor {
    pub(crate) fn new(memory: Memory, dtype: DType, shape: Shape) -> Self {
        Self { memory, dtype, shape }
    }

    /// The tensor as Python gets it: a numpy array where numpy has the element type, else the tensor itself.
    pub(crate) fn into_python(self, py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
        let numpy = typestr(self.dtype).is_some();
        let tensor = Bound::new(py, self)?.into_any();
        if numpy { as_array(&tensor) } else { Ok(tensor) }
    }
}

/// numpy's name of an element type in this machine's byte order; `None` where numpy has no such type.
pub(crate) fn typestr(dtype: DType) -> Option<String> {
    let kind = match dtype {
        DType::Bool => 'b',
        DType::Float16 | DType::Float32 | DType::Float64 => 'f',
        DType::Int8 | DType::Int16 | DType::Int32 | DType::Int64 => 'i',
        DType::UInt8 | DType::UInt16 | DType::UInt32 | DType::UInt64 => 'u',
        _ => return None,
    };
    let order = if dtype.size() == 1 { '|' } else { '<' };
    Some(format!("{order}{kind}{}", dtype.size()))
}

/// A numpy array over an object.
pub(crate) fn as_array<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    object.py().import("numpy")?.call_method1("asarray", (object,))
}

#[pymethods]
impl Tensor {
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

    /// Bytes.
    #[getter]
    fn nbytes(&self) -> usize {
        self.memory.len()
    }

    /// Whether it must not be written.
    #[getter]
    fn readonly(&self) -> bool {
        self.memory.is_readonly()
    }

    /// numpy's view of the memory.
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let Some(typestr) = typestr(self.dtype) else {
            let text = format!("numpy has no {}; DLPack has", self.dtype);
            return Err(PyAttributeError::new_err(text));
        };
        let interface = PyDict::new(py);
        interface.set_item("version", 3)?;
        interface.set_item("typestr", typestr)?;
        interface.set_item("shape", self.shape(py)?)?;
        interface.set_item("data", (self.memory.address().addr(), self.memory.is_readonly()))?;
        Ok(interface)
    }

    /// The tensor in a DLPack capsule.
    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<&Bound<'py, PyAny>>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let request = Request::new(stream, max_version, dl_device, copy)?;
        let export = Export {
            dtype: self.dtype.dlpack(),
            shape: self.shape.dims(),
            data: self.memory.address(),
            readonly: self.memory.is_readonly(),
            copied: matches!(self.memory, Memory::Own(_)),
        };
        dlpack::export(py, &request, &export, self.memory.clone())
    }

    /// Where DLPack finds it: memory of the CPU.
    fn __dlpack_device__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        dlpack::device(py)
    }

    /// A numpy array over the same memory.
    fn numpy<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        as_array(slf.as_any())
    }

    fn __repr__(&self) -> String {
        format!("<outboard.Tensor {} ({})>", self.dtype, self.shape)
    }
}
