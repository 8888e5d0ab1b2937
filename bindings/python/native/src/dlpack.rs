//! DLPack in and out: tensors of other libraries without a copy.
//!
//! The structures are those of DLPack 1.x (`docs/reference/python.md`). A capsule is consumed once: whoever takes its tensor renames it
//! and calls its deleter exactly once, which here is dropping an [`Imported`]; a capsule that nobody took calls it itself.

use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use std::ffi::{CStr, c_void};
use std::ptr::NonNull;

/// Memory of the CPU.
pub(crate) const CPU: (i32, i32) = (1, 0);
/// The version that is written, and the newest that is read.
const VERSION: Version = Version { major: 1, minor: 0 };
/// The consumer must not write.
const READ_ONLY: u64 = 1;
/// The tensor is a copy.
const IS_COPIED: u64 = 2;
/// Most dimensions that are believed.
const MAX_DIMS: i32 = 64;

const PLAIN: &CStr = c"dltensor";
const USED_PLAIN: &CStr = c"used_dltensor";
const VERSIONED: &CStr = c"dltensor_versioned";
const USED_VERSIONED: &CStr = c"used_dltensor_versioned";

#[repr(C)]
#[derive(Clone, Copy)]
struct Version {
    major: u32,
    minor: u32,
}

#[repr(C)]
struct DlTensor {
    data: *mut c_void,
    device: (i32, i32),
    ndim: i32,
    code: u8,
    bits: u8,
    lanes: u16,
    shape: *const i64,
    strides: *const i64,
    byte_offset: u64,
}

#[repr(C)]
struct Managed {
    tensor: DlTensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Managed)>,
}

#[repr(C)]
struct ManagedVersioned {
    version: Version,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut ManagedVersioned)>,
    flags: u64,
    tensor: DlTensor,
}

const _: () = {
    assert!(size_of::<DlTensor>() == 48);
    assert!(size_of::<Managed>() == 64);
    assert!(size_of::<ManagedVersioned>() == 80);
};

/// A tensor of another library.
pub(crate) struct Imported {
    managed: Taken,
    /// First element.
    pub(crate) address: usize,
    /// DLPack's code and bits.
    pub(crate) dtype: (i32, i32),
    /// Dimensions.
    pub(crate) dims: Vec<i64>,
    /// Whether the elements lie row-major and without gaps.
    pub(crate) compact: bool,
}

enum Taken {
    Plain(NonNull<Managed>),
    Versioned(NonNull<ManagedVersioned>),
}

impl Drop for Imported {
    fn drop(&mut self) {
        // SAFETY: the tensor was taken out of its capsule, so that its deleter is ours to call, and nobody uses it after this.
        unsafe {
            match self.managed {
                Taken::Plain(managed) => {
                    if let Some(deleter) = managed.as_ref().deleter {
                        deleter(managed.as_ptr());
                    }
                }
                Taken::Versioned(managed) => {
                    if let Some(deleter) = managed.as_ref().deleter {
                        deleter(managed.as_ptr());
                    }
                }
            }
        }
    }
}

impl Imported {
    /// The tensor behind `__dlpack__` of an object.
    ///
    /// # Errors
    /// The object refuses, its tensor is not in memory of the CPU, or what it hands out is no tensor.
    pub(crate) fn from_object(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let device: (i32, i32) = object.call_method0("__dlpack_device__")?.extract()?;
        if device != CPU {
            let (kind, number) = device;
            let text = format!("the tensor lies on DLPack device ({kind}, {number}): move it to the CPU first");
            return Err(PyBufferError::new_err(text));
        }
        let options = PyDict::new(object.py());
        options.set_item("max_version", (VERSION.major, VERSION.minor))?;
        let capsule = match object.call_method("__dlpack__", (), Some(&options)) {
            // Libraries from before DLPack 1.0 do not know the argument.
            Err(error) if error.is_instance_of::<pyo3::exceptions::PyTypeError>(object.py()) => {
                object.call_method0("__dlpack__")?
            }
            other => other?,
        };
        Self::from_capsule(&capsule)
    }

    fn from_capsule(capsule: &Bound<'_, PyAny>) -> PyResult<Self> {
        let take = |name: &CStr, used: &CStr| {
            // SAFETY: the functions accept any object and any name; the pointer is only taken when the name is right.
            unsafe {
                if ffi::PyCapsule_IsValid(capsule.as_ptr(), name.as_ptr()) == 0 {
                    return None;
                }
                let pointer = ffi::PyCapsule_GetPointer(capsule.as_ptr(), name.as_ptr());
                // From here on the capsule no longer calls the deleter.
                (ffi::PyCapsule_SetName(capsule.as_ptr(), used.as_ptr()) == 0).then_some(pointer)
            }
        };
        let managed = if let Some(pointer) = take(VERSIONED, USED_VERSIONED) {
            NonNull::new(pointer.cast()).map(Taken::Versioned)
        } else {
            take(PLAIN, USED_PLAIN).and_then(|pointer| NonNull::new(pointer.cast())).map(Taken::Plain)
        };
        let managed = managed.ok_or_else(|| PyValueError::new_err("__dlpack__ gave no unused tensor"))?;
        // Dropped on every way out of here.
        let mut imported = Self { managed, address: 0, dtype: (0, 0), dims: Vec::new(), compact: false };
        imported.read()?;
        Ok(imported)
    }

    fn read(&mut self) -> PyResult<()> {
        let wrong = |what: String| PyValueError::new_err(format!("a DLPack tensor {what}"));
        // SAFETY: the structures are valid until their deleter is called; the version comes first in the second one.
        let tensor = unsafe {
            match &self.managed {
                Taken::Plain(managed) => &managed.as_ref().tensor,
                Taken::Versioned(managed) => {
                    let managed = managed.as_ref();
                    if managed.version.major != VERSION.major {
                        let Version { major, minor } = managed.version;
                        return Err(wrong(format!("of version {major}.{minor} is not readable here")));
                    }
                    &managed.tensor
                }
            }
        };
        if tensor.device != CPU {
            return Err(wrong(format!("lies on device {:?}, not in memory of the CPU", tensor.device)));
        }
        if tensor.lanes != 1 || !(0..=MAX_DIMS).contains(&tensor.ndim) {
            return Err(wrong(format!("of {} lanes and {} dimensions cannot be sent", tensor.lanes, tensor.ndim)));
        }
        let count = usize::try_from(tensor.ndim).unwrap_or(0);
        // SAFETY: the producer promises arrays of `ndim` elements; a null pointer of strides means compact.
        let (dims, strides) = unsafe { (numbers(tensor.shape, count), numbers(tensor.strides, count)) };
        let dims = dims.ok_or_else(|| wrong("has no shape".to_owned()))?;
        self.compact = strides.is_none_or(|strides| is_compact(&dims, &strides));
        let offset = usize::try_from(tensor.byte_offset).unwrap_or(usize::MAX);
        self.address = tensor.data.addr().saturating_add(offset);
        self.dtype = (tensor.code.into(), tensor.bits.into());
        self.dims = dims;
        Ok(())
    }
}

/// # Safety
/// `at` is null or points at `count` numbers.
unsafe fn numbers(at: *const i64, count: usize) -> Option<Vec<i64>> {
    if count == 0 {
        return Some(Vec::new());
    }
    if at.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    Some(unsafe { std::slice::from_raw_parts(at, count) }.to_vec())
}

fn is_compact(dims: &[i64], strides: &[i64]) -> bool {
    if dims.contains(&0) {
        return true;
    }
    let mut expected = Some(1i64);
    dims.iter().zip(strides).rev().all(|(dim, stride)| {
        let matches = *dim == 1 || expected == Some(*stride);
        expected = expected.and_then(|expected| expected.checked_mul(*dim));
        matches
    })
}

/// What `__dlpack__` was asked for.
pub(crate) struct Request {
    /// The consumer reads tensors with a version.
    pub(crate) versioned: bool,
}

impl Request {
    /// Reads the arguments of `__dlpack__`.
    ///
    /// # Errors
    /// A stream, another device or a copy is wanted.
    pub(crate) fn new(
        stream: Option<&Bound<'_, PyAny>>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Self> {
        if stream.is_some_and(|stream| !stream.is_none()) {
            return Err(PyBufferError::new_err("memory of the CPU has no streams"));
        }
        if dl_device.is_some_and(|device| device != CPU) {
            return Err(PyBufferError::new_err("the tensor lies in memory of the CPU and is not moved"));
        }
        if copy == Some(true) {
            return Err(PyBufferError::new_err("copy the tensor first: run() instead of run_nocopy()"));
        }
        Ok(Self { versioned: max_version.is_some_and(|(major, _)| major >= VERSION.major) })
    }
}

/// What an exported tensor needs until its deleter is called.
struct Exported<K> {
    shape: Vec<i64>,
    strides: Vec<i64>,
    _keep: K,
}

/// A tensor that is to be exported: element type, shape, first byte, and whether the consumer may write.
pub(crate) struct Export<'a> {
    pub(crate) dtype: (u8, u8),
    pub(crate) shape: &'a [usize],
    pub(crate) data: *mut u8,
    pub(crate) readonly: bool,
    pub(crate) copied: bool,
}

/// Puts a tensor into a capsule; `keep` lives until the consumer is done with it.
///
/// # Errors
/// The consumer cannot be told that it must not write.
pub(crate) fn export<'py, K: Send + 'static>(
    py: Python<'py>,
    request: &Request,
    tensor: &Export<'_>,
    keep: K,
) -> PyResult<Bound<'py, PyAny>> {
    if tensor.readonly && !request.versioned {
        let text = "the tensor is read-only, and the consumer knows no such thing: it has to ask with max_version, or use a copy";
        return Err(PyBufferError::new_err(text));
    }
    let shape: Vec<i64> = tensor.shape.iter().map(|dim| i64::try_from(*dim).unwrap_or(i64::MAX)).collect();
    let mut strides = vec![1i64; shape.len()];
    for at in (1..shape.len()).rev() {
        strides[at - 1] = strides[at].saturating_mul(shape[at]);
    }
    let exported = Box::new(Exported { shape, strides, _keep: keep });
    let (code, bits) = tensor.dtype;
    let described = DlTensor {
        data: tensor.data.cast(),
        device: CPU,
        ndim: i32::try_from(exported.shape.len()).unwrap_or(i32::MAX),
        code,
        bits,
        lanes: 1,
        shape: exported.shape.as_ptr(),
        strides: exported.strides.as_ptr(),
        byte_offset: 0,
    };
    let context = Box::into_raw(exported).cast::<c_void>();
    let capsule = if request.versioned {
        let flags = if tensor.readonly { READ_ONLY } else { 0 } | if tensor.copied { IS_COPIED } else { 0 };
        let deleter: unsafe extern "C" fn(*mut ManagedVersioned) = delete_versioned::<K>;
        let managed = ManagedVersioned { version: VERSION, context, deleter: Some(deleter), flags, tensor: described };
        let managed = Box::into_raw(Box::new(managed));
        // SAFETY: the name is static, and the destructor takes care of a capsule that nobody consumed.
        unsafe { ffi::PyCapsule_New(managed.cast(), VERSIONED.as_ptr(), Some(forget_versioned)) }
    } else {
        let deleter: unsafe extern "C" fn(*mut Managed) = delete_plain::<K>;
        let managed = Box::into_raw(Box::new(Managed { tensor: described, context, deleter: Some(deleter) }));
        // SAFETY: as above.
        unsafe { ffi::PyCapsule_New(managed.cast(), PLAIN.as_ptr(), Some(forget_plain)) }
    };
    // SAFETY: the function gives a new object, or null with the exception set.
    unsafe { Bound::from_owned_ptr_or_err(py, capsule) }
}

/// # Safety
/// `managed` was made by [`export`] with this `K` and is not used any more.
unsafe extern "C" fn delete_plain<K>(managed: *mut Managed) {
    // SAFETY: the caller's promise: both are boxes of `export`.
    unsafe {
        let managed = Box::from_raw(managed);
        drop(Box::from_raw(managed.context.cast::<Exported<K>>()));
    }
}

/// # Safety
/// As [`delete_plain`].
unsafe extern "C" fn delete_versioned<K>(managed: *mut ManagedVersioned) {
    // SAFETY: as in `delete_plain`.
    unsafe {
        let managed = Box::from_raw(managed);
        drop(Box::from_raw(managed.context.cast::<Exported<K>>()));
    }
}

/// Ends a capsule that nobody consumed.
unsafe extern "C" fn forget_plain(capsule: *mut ffi::PyObject) {
    // SAFETY: the interpreter calls this with the capsule; a consumer would have changed its name.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, PLAIN.as_ptr()) != 0 {
            let managed = ffi::PyCapsule_GetPointer(capsule, PLAIN.as_ptr()).cast::<Managed>();
            if let Some(deleter) = managed.as_ref().and_then(|managed| managed.deleter) {
                deleter(managed);
            }
        }
    }
}

/// Ends a capsule that nobody consumed.
unsafe extern "C" fn forget_versioned(capsule: *mut ffi::PyObject) {
    // SAFETY: as in `forget_plain`.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, VERSIONED.as_ptr()) != 0 {
            let managed = ffi::PyCapsule_GetPointer(capsule, VERSIONED.as_ptr()).cast::<ManagedVersioned>();
            if let Some(deleter) = managed.as_ref().and_then(|managed| managed.deleter) {
                deleter(managed);
            }
        }
    }
}

/// The device of every tensor here, as `__dlpack_device__` gives it.
pub(crate) fn device(py: Python<'_>) -> PyResult<Bound<'_, PyTuple>> {
    PyTuple::new(py, [CPU.0, CPU.1])
}
