//! Calls: descriptors of C in, descriptors of C out.

use crate::guard::{store, with_client};
use crate::{c7x_client, c7x_tensor_desc_t};
use outboard_host::Outputs;
use outboard_host::client::{Client, ClientError, RawData, RawTensor};
use outboard_wire::{MAX_DIMS, MAX_INPUTS};
use std::ffi::c_int;
use std::io::Write;

/// Arguments of a call, as they came.
pub(crate) struct Arguments {
    pub(crate) handle: u32,
    pub(crate) model: u32,
    pub(crate) inputs: *const c7x_tensor_desc_t,
    pub(crate) num_inputs: c_int,
    pub(crate) outputs: *mut c7x_tensor_desc_t,
    pub(crate) capacity: usize,
    pub(crate) num_outputs: *mut c_int,
    pub(crate) cycles: *mut u64,
    pub(crate) flags: u32,
}

/// Carries out a call.
///
/// # Safety
/// As [`crate::c7x_client_infer_n`].
pub(crate) unsafe fn infer(client: *mut c7x_client, arguments: &Arguments) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { with_client(client, "infer", |client| call(client, arguments)) }
}

/// # Safety
/// As [`infer`].
unsafe fn call(client: &mut Client, arguments: &Arguments) -> Result<(), ClientError> {
    let wrong = |what: &str| ClientError::Arguments(what.to_owned());
    if arguments.inputs.is_null() || arguments.outputs.is_null() || arguments.num_outputs.is_null() {
        return Err(wrong("inputs, outputs or num_outputs is NULL"));
    }
    // SAFETY: it is not NULL, and otherwise the caller's promise.
    unsafe { store(arguments.num_outputs, 0) };
    let count = usize::try_from(arguments.num_inputs).ok().filter(|count| (1..=MAX_INPUTS).contains(count));
    let count = count.ok_or_else(|| wrong(&format!("a call has 1 to {MAX_INPUTS} inputs")))?;
    // The descriptors are copied, so that outputs may overwrite the array they are in.
    // SAFETY: the caller promises that the array has this many elements.
    let descriptors: Vec<c7x_tensor_desc_t> =
        (0..count).map(|index| unsafe { arguments.inputs.add(index).read_unaligned() }).collect();
    let saved = descriptors
        .iter()
        // SAFETY: the caller promises that the data of inputs is readable.
        .map(|descriptor| unsafe { save(client, descriptor) })
        .collect::<Result<Vec<_>, _>>()?;
    let mut tensors = Vec::with_capacity(count);
    for (descriptor, saved) in descriptors.iter().zip(&saved) {
        // SAFETY: as above.
        tensors.push(unsafe { tensor(client, descriptor, saved.as_deref()) }?);
    }
    let called = client.infer(arguments.handle, arguments.model, &tensors, arguments.flags);
    match called {
        Ok(outputs) => {
            show(outputs.text().bytes());
            // SAFETY: the caller's promise about the array of outputs.
            unsafe { finish(&outputs, arguments) }
        }
        Err(error) => {
            show(client.text().bytes());
            Err(error)
        }
    }
}

/// A copy of data that lies in the output buffer: the call is going to overwrite it.
///
/// # Safety
/// The data of the descriptor is readable.
unsafe fn save(client: &Client, descriptor: &c7x_tensor_desc_t) -> Result<Option<Vec<u8>>, ClientError> {
    if descriptor.data.is_null() || !client.meets_output(descriptor.data.addr(), descriptor.data_size) {
        return Ok(None);
    }
    // SAFETY: the caller's promise; the slice ends before the call begins.
    Ok(Some(unsafe { bytes(descriptor) }?.to_vec()))
}

/// The data of a descriptor that is not NULL.
///
/// # Safety
/// It is readable, and nobody writes to it while the result lives.
unsafe fn bytes<'a>(descriptor: &c7x_tensor_desc_t) -> Result<&'a [u8], ClientError> {
    let size = descriptor.data_size;
    if isize::try_from(size).is_err() {
        return Err(ClientError::Arguments(format!("a tensor of {size} bytes does not exist")));
    }
    // SAFETY: not NULL, of a possible size, and otherwise the caller's promise.
    Ok(unsafe { std::slice::from_raw_parts(descriptor.data.cast::<u8>(), size) })
}

/// A descriptor in the terms of the host. `saved` is used instead of its data.
///
/// # Safety
/// The data of the descriptor is readable, and nobody writes to it while the result lives.
unsafe fn tensor<'a>(
    client: &Client,
    descriptor: &'a c7x_tensor_desc_t,
    saved: Option<&'a [u8]>,
) -> Result<RawTensor<'a>, ClientError> {
    let ndim = usize::try_from(descriptor.ndim).ok().and_then(|ndim| descriptor.shape.get(..ndim));
    let dims = ndim.ok_or_else(|| {
        ClientError::Arguments(format!("a tensor has 0 to {MAX_DIMS} dimensions, not {}", descriptor.ndim))
    })?;
    let size = descriptor.data_size;
    let data = match (saved, descriptor.data.is_null(), size) {
        (Some(saved), ..) => RawData::Bytes(saved),
        (None, true, 0) => RawData::Bytes(&[]),
        (None, true, _) => RawData::Resident,
        (None, false, _) => match client.locate(descriptor.data.addr(), size)? {
            Some(offset) => RawData::Window(offset),
            // SAFETY: the caller's promise, and the data is not in a window that the call writes to.
            None => RawData::Bytes(unsafe { bytes(descriptor) }?),
        },
    };
    Ok(RawTensor { data, size: size as u64, dtype: (descriptor.dtype_code, descriptor.dtype_bits), dims })
}

/// Hands the outputs over.
///
/// # Safety
/// The caller's array has the elements it says, and the other pointers are NULL or valid for writes.
unsafe fn finish(outputs: &Outputs<'_>, arguments: &Arguments) -> Result<(), ClientError> {
    let count = outputs.len();
    // SAFETY: the caller's promise; not NULL.
    unsafe { store(arguments.num_outputs, c_int::try_from(count).unwrap_or(c_int::MAX)) };
    if count > arguments.capacity {
        return Err(ClientError::TooManyOutputs { outputs: count, capacity: arguments.capacity });
    }
    for (index, view) in outputs.views().enumerate() {
        let dims = view.shape().to_signed().unwrap_or_default();
        let mut shape = [0; MAX_DIMS];
        shape.iter_mut().zip(&dims).for_each(|(slot, dim)| *slot = *dim);
        let (code, bits) = view.dtype().dlpack();
        let descriptor = c7x_tensor_desc_t {
            data: outputs.address(index).unwrap_or(std::ptr::null_mut()).cast(),
            data_size: view.bytes().len(),
            ndim: i32::try_from(dims.len()).unwrap_or(0),
            dtype_code: code.into(),
            dtype_bits: bits.into(),
            reserved: outputs.tuple_index(index).and_then(|place| i32::try_from(place).ok()).unwrap_or(0),
            shape,
        };
        // SAFETY: index < count <= capacity.
        unsafe { store(arguments.outputs.add(index), descriptor) };
    }
    // SAFETY: the caller's promise.
    unsafe { store(arguments.cycles, outputs.cycles()) };
    Ok(())
}

/// What the module printed belongs on standard error, byte for byte.
fn show(text: &[u8]) {
    let _ = std::io::stderr().lock().write_all(text);
}
