//! Inputs of a call: whatever Python has, as an address, an element type and a shape.

use crate::buffer::InputBuffer;
use crate::dlpack::Imported;
use crate::tensor::{as_array, typestr};
use outboard_host::client::{Client, ClientError, RawData, RawTensor};
use outboard_tensor::{DType, Shape};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// A tensor that lies in the cache region of the device already, where the last call with `kv_resident` left it.
#[pyclass(frozen, module = "outboard")]
#[derive(Debug)]
pub(crate) struct Resident {
    dtype: DType,
    shape: Shape,
}

#[pymethods]
impl Resident {
    #[new]
    #[pyo3(signature = (shape, dtype = None))]
    fn new(shape: Vec<usize>, dtype: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        Ok(Self { dtype: element_type(dtype)?, shape: dimensions(&shape)? })
    }
}

/// What keeps the bytes of an argument where they are.
enum Keep {
    Object { _array: Py<PyAny> },
    Foreign { _tensor: Imported },
}

/// Arguments of a call and what keeps them alive. Dropped with the interpreter's lock held: those who made the tensors expect it.
pub(crate) struct Arguments {
    pub(crate) tensors: Vec<Argument>,
    _keep: Vec<Keep>,
}

/// Where an argument lies, as plain numbers: they cross to the thread without the interpreter's lock.
pub(crate) struct Argument {
    address: usize,
    len: usize,
    resident: bool,
    dtype: (i32, i32),
    dims: Vec<i64>,
}

impl Arguments {
    /// Reads the arguments of a call.
    ///
    /// # Errors
    /// An argument is no tensor, has a type the device does not have, or is a buffer that the device does not own.
    pub(crate) fn new(inputs: &[Bound<'_, PyAny>]) -> PyResult<Self> {
        let (mut tensors, mut keep) = (Vec::with_capacity(inputs.len()), Vec::with_capacity(inputs.len()));
        for (index, input) in inputs.iter().enumerate() {
            if let Ok(buffer) = input.cast::<InputBuffer>() {
                let buffer = buffer.get();
                tensors.push(Argument::new(buffer.address_for_call(input.py(), index)?, buffer.dtype, &buffer.shape)?);
            } else if let Ok(resident) = input.cast::<Resident>() {
                let resident = resident.get();
                let place = Argument::new(0, resident.dtype, &resident.shape)?;
                tensors.push(Argument { resident: true, ..place });
                continue;
            } else {
                let (tensor, kept) = read(input)?;
                tensors.push(tensor);
                keep.push(kept);
                continue;
            }
            keep.push(Keep::Object { _array: input.clone().unbind() });
        }
        Ok(Self { tensors, _keep: keep })
    }
}

impl Argument {
    fn new(address: usize, dtype: DType, shape: &Shape) -> PyResult<Self> {
        let wrong = |error: outboard_tensor::ShapeError| PyValueError::new_err(error.to_string());
        let dims = shape.to_signed().map_err(wrong)?.to_vec();
        let (code, bits) = dtype.dlpack();
        let len = shape.bytes(dtype).map_err(wrong)?;
        Ok(Self { address, len, resident: false, dtype: (code.into(), bits.into()), dims })
    }

    /// A copy, when it lies where the call is going to write.
    pub(crate) fn saved(&self, client: &Client) -> Option<Vec<u8>> {
        let overwritten = !self.resident && self.len > 0 && client.meets_output(self.address, self.len);
        // SAFETY: as in `bytes`.
        overwritten.then(|| unsafe { self.bytes() }.to_vec())
    }

    /// The argument as the client takes it.
    pub(crate) fn tensor<'a>(&'a self, client: &Client, saved: Option<&'a [u8]>) -> Result<RawTensor<'a>, ClientError> {
        let data = match saved {
            _ if self.resident => RawData::Resident,
            Some(saved) => RawData::Bytes(saved),
            None if self.len == 0 => RawData::Bytes(&[]),
            None => match client.locate(self.address, self.len)? {
                Some(offset) => RawData::Window(offset),
                // SAFETY: as in `bytes`.
                None => RawData::Bytes(unsafe { self.bytes() }),
            },
        };
        Ok(RawTensor { data, size: self.len as u64, dtype: self.dtype, dims: &self.dims })
    }

    /// # Safety
    /// [`Arguments`] is alive, and no thread of the program writes to its arrays while a call is under way: the documentation asks for
    /// that, as numpy does for its own functions that release the lock.
    unsafe fn bytes(&self) -> &[u8] {
        // SAFETY: the caller's promise; the array or tensor said that it has this many bytes here.
        unsafe { std::slice::from_raw_parts(std::ptr::with_exposed_provenance(self.address), self.len) }
    }
}

/// A tensor of any library.
fn read(input: &Bound<'_, PyAny>) -> PyResult<(Argument, Keep)> {
    if input.hasattr("__array_interface__")? {
        return from_array(input);
    }
    if input.hasattr("__dlpack__")? && input.hasattr("__dlpack_device__")? {
        let tensor = Imported::from_object(input)?;
        if tensor.compact {
            return from_foreign(tensor);
        }
        drop(tensor);
        return from_array(&input.py().import("numpy")?.call_method1("from_dlpack", (input,))?);
    }
    // Tensors of TVM, lists, numbers.
    let has_numpy = input.hasattr("numpy")? && input.getattr("numpy")?.is_callable();
    from_array(&if has_numpy { input.call_method0("numpy")? } else { as_array(input)? })
}

/// A tensor that came by DLPack, where it lies.
fn from_foreign(tensor: Imported) -> PyResult<(Argument, Keep)> {
    let (code, bits) = tensor.dtype;
    let dtype = DType::from_dlpack(code, bits).map_err(|error| PyTypeError::new_err(error.to_string()))?;
    let shape = Shape::from_signed(tensor.dims.iter().copied());
    let shape = shape.map_err(|error| PyValueError::new_err(error.to_string()))?;
    Ok((Argument::new(tensor.address, dtype, &shape)?, Keep::Foreign { _tensor: tensor }))
}

/// An array of numpy or alike; one with gaps or of another byte order is copied.
fn from_array(input: &Bound<'_, PyAny>) -> PyResult<(Argument, Keep)> {
    let numpy = input.py().import("numpy")?;
    let array = numpy.call_method1("asarray", (input,))?;
    let dtype = array.getattr("dtype")?;
    let element = element_type(Some(&dtype))?;
    // ascontiguousarray would give a scalar a dimension.
    let options = PyDict::new(input.py());
    options.set_item("dtype", typestr(element))?;
    options.set_item("order", "C")?;
    let array = numpy.call_method("asarray", (&array,), Some(&options))?;
    let shape: Vec<usize> = array.getattr("shape")?.extract()?;
    let interface = array.getattr("__array_interface__")?;
    let (address, _): (usize, bool) = interface.get_item("data")?.extract()?;
    let argument = Argument::new(address, element, &dimensions(&shape)?)?;
    Ok((argument, Keep::Object { _array: array.unbind() }))
}

/// An element type from what numpy takes for one, or from its name here; float32 when nothing is said. Types the device does not have
/// are refused, not taken for others.
pub(crate) fn element_type(given: Option<&Bound<'_, PyAny>>) -> PyResult<DType> {
    let Some(given) = given else { return Ok(DType::Float32) };
    let name = match given.extract::<String>() {
        Ok(name) => name,
        Err(_) => given.py().import("numpy")?.call_method1("dtype", (given,))?.getattr("name")?.extract()?,
    };
    if let Ok(dtype) = name.parse() {
        return Ok(dtype);
    }
    // Names of numpy's own, such as `f4`.
    let numpy = given.py().import("numpy")?.call_method1("dtype", (name.as_str(),))?;
    let canonical: String = numpy.getattr("name")?.extract()?;
    canonical
        .parse()
        .map_err(|_| PyTypeError::new_err(format!("elements of type {canonical} cannot be sent to the device")))
}

pub(crate) fn dimensions(shape: &[usize]) -> PyResult<Shape> {
    Shape::new(shape).map_err(|error| PyValueError::new_err(error.to_string()))
}
