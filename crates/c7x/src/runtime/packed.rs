//! VM builtins of the packed calling style: `int f(const Any* args, i32 count, Any* ret)`.
//!
//! Arguments are checked; a wrong one returns −1, exhausted memory −3. A leading OpaquePtr is the caller's context and is
//! skipped, which is how both documented argument forms are served.

use super::builtins::{Heap, make, matches, shape_of, tuple};
use super::objects::{owned_array, retain_value, storage_alloc, storage_alloc_nd_array};
use super::{INT64, arguments};
use crate::abi::{
    Any, DataType, Device, NdArray, Storage, TYPE_DATA_TYPE, TYPE_NONE, TYPE_OPAQUE, TYPE_SHAPE, TYPE_STORAGE,
    TYPE_TENSOR,
};

/// A function of the packed calling style.
pub(super) type Packed = unsafe extern "C" fn(*const Any, i32, *mut Any) -> i32;

const OK: i32 = 0;
const BAD_ARGUMENT: i32 = -1;
const NO_MEMORY: i32 = -3;

/// Names under which generated code looks the builtins up.
pub(super) const BUILTINS: [(&str, Packed); 11] = [
    ("vm.builtin.alloc_storage", alloc_storage),
    ("vm.builtin.alloc_tensor", alloc_tensor),
    ("vm.builtin.alloc_shape_heap", alloc_shape_heap),
    ("vm.builtin.make_shape", make_shape),
    ("vm.builtin.match_shape", match_shape),
    ("vm.builtin.check_tensor_info", check_tensor_info),
    ("vm.builtin.null_value", null_value),
    ("vm.builtin.copy", copy),
    ("vm.builtin.make_tuple", make_tuple),
    ("vm.builtin.reshape", reshape),
    ("vm.builtin.read_if_cond", read_if_cond),
];

/// Runs a builtin on its arguments and stores the result.
///
/// # Safety
/// `args` points at `count` values whose objects are live; `ret` is null or points at room for a value.
unsafe fn call(args: *const Any, count: i32, ret: *mut Any, body: impl FnOnce(&[Any]) -> Result<Any, i32>) -> i32 {
    // SAFETY: promised by the caller.
    match body(unsafe { arguments(args, count) }) {
        Ok(value) => {
            if !ret.is_null() {
                // SAFETY: promised by the caller.
                unsafe { ret.write(value) };
            }
            OK
        }
        Err(code) => code,
    }
}

/// The arguments after an optional context.
fn without_context(args: &[Any]) -> &[Any] {
    match args {
        [first, rest @ ..] if first.type_index == TYPE_OPAQUE => rest,
        all => all,
    }
}

fn dtype(value: Option<&Any>) -> Option<DataType> {
    value.filter(|value| value.type_index == TYPE_DATA_TYPE).map(|value| DataType::from_bits(value.value))
}

/// The non-null object of a call that only fails for want of memory.
fn made<T>(type_index: i32, object: *mut T) -> Result<Any, i32> {
    if object.is_null() { Err(NO_MEMORY) } else { Ok(Any::object(type_index, object.cast())) }
}

pub(super) unsafe extern "C" fn alloc_storage(args: *const Any, count: i32, ret: *mut Any) -> i32 {
    let body = |args: &[Any]| {
        let args = without_context(args);
        let first = args.first().ok_or(BAD_ARGUMENT)?;
        // SAFETY: module code passes live objects.
        let size = match (first.int(), unsafe { shape_of(first) }) {
            (Some(size), _) => size,
            (None, Some(dims)) => dims.iter().product(),
            (None, None) => return Err(BAD_ARGUMENT),
        };
        let hint = dtype(args.get(2)).unwrap_or(INT64);
        let size = usize::try_from(size).map_err(|_| BAD_ARGUMENT)?;
        made(TYPE_STORAGE, storage_alloc(size, Device { device_type: 1, device_id: 0 }, hint))
    };
    // SAFETY: the packed calling style.
    unsafe { call(args, count, ret, body) }
}

pub(super) unsafe extern "C" fn alloc_tensor(args: *const Any, count: i32, ret: *mut Any) -> i32 {
    let body = |args: &[Any]| {
        let [storage, offset, shape, rest @ ..] = without_context(args) else { return Err(BAD_ARGUMENT) };
        let storage = storage.as_object::<Storage>(TYPE_STORAGE).ok_or(BAD_ARGUMENT)?;
        let offset = offset.int().ok_or(BAD_ARGUMENT)?;
        let dtype = dtype(rest.first()).ok_or(BAD_ARGUMENT)?;
        // SAFETY: module code passes live objects.
        let dims = unsafe { shape_of(shape) }.ok_or(BAD_ARGUMENT)?;
        let ndim = i32::try_from(dims.len()).map_err(|_| BAD_ARGUMENT)?;
        // SAFETY: as above; the dimensions are a slice of `ndim` entries.
        made(TYPE_TENSOR, unsafe { storage_alloc_nd_array(storage, offset, dims.as_ptr(), ndim, dtype) })
    };
    // SAFETY: the packed calling style.
    unsafe { call(args, count, ret, body) }
}

pub(super) unsafe extern "C" fn alloc_shape_heap(args: *const Any, count: i32, ret: *mut Any) -> i32 {
    let body = |args: &[Any]| {
        let entries = without_context(args).first().and_then(Any::int).filter(|entries| *entries >= 0);
        made(TYPE_TENSOR, owned_array(&[entries.ok_or(BAD_ARGUMENT)?], INT64))
    };
    // SAFETY: the packed calling style.
    unsafe { call(args, count, ret, body) }
}

/// Splits `[heap or none, ndim, code, value, …]` into the heap and the pairs.
fn plan(args: &[Any]) -> Result<(Heap, alloc::vec::Vec<(i64, i64)>), i32> {
    let [heap, ndim, numbers @ ..] = args else { return Err(BAD_ARGUMENT) };
    let heap = match heap.as_object::<NdArray>(TYPE_TENSOR) {
        None if heap.type_index != TYPE_NONE => return Err(BAD_ARGUMENT),
        array => array.unwrap_or(core::ptr::null_mut()),
    };
    let ndim = ndim.int().and_then(|ndim| usize::try_from(ndim).ok()).ok_or(BAD_ARGUMENT)?;
    let numbers: Option<alloc::vec::Vec<i64>> = numbers.iter().map(Any::int).collect();
    let numbers = numbers.filter(|numbers| Some(numbers.len()) == ndim.checked_mul(2)).ok_or(BAD_ARGUMENT)?;
    // SAFETY: module code passes a live tensor as heap.
    Ok((unsafe { Heap::of(heap) }, numbers.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect()))
}

pub(super) unsafe extern "C" fn make_shape(args: *const Any, count: i32, ret: *mut Any) -> i32 {
    let body = |args: &[Any]| {
        let (heap, plan) = plan(without_context(args))?;
        made(TYPE_SHAPE, make(heap, plan.into_iter()))
    };
    // SAFETY: the packed calling style.
    unsafe { call(args, count, ret, body) }
}

pub(super) unsafe extern "C" fn match_shape(args: *const Any, count: i32, ret: *mut Any) -> i32 {
    let body = |args: &[Any]| {
        let [value, rest @ ..] = without_context(args) else { return Err(BAD_ARGUMENT) };
        let (heap, plan) = plan(rest)?;
        // SAFETY: module code passes live objects.
        if unsafe { matches(value, heap, &plan) } { Ok(Any::NONE) } else { Err(BAD_ARGUMENT) }
    };
    // SAFETY: the packed calling style.
    unsafe { call(args, count, ret, body) }
}

pub(super) unsafe extern "C" fn check_tensor_info(args: *const Any, count: i32, ret: *mut Any) -> i32 {
    let body = |args: &[Any]| {
        let [tensor, ndim, rest @ ..] = without_context(args) else { return Err(BAD_ARGUMENT) };
        let array = tensor.as_object::<NdArray>(TYPE_TENSOR).ok_or(BAD_ARGUMENT)?;
        let ndim = ndim.int().and_then(|ndim| i32::try_from(ndim).ok()).ok_or(BAD_ARGUMENT)?;
        let dtype = dtype(rest.first()).unwrap_or(DataType { code: 3, bits: 0, lanes: 0 });
        // SAFETY: module code passes a live tensor.
        match unsafe { super::builtins::check_tensor_info(array, ndim, dtype) } {
            0 => Ok(Any::NONE),
            code => Err(code),
        }
    };
    // SAFETY: the packed calling style.
    unsafe { call(args, count, ret, body) }
}

pub(super) unsafe extern "C" fn null_value(args: *const Any, count: i32, ret: *mut Any) -> i32 {
    // SAFETY: the packed calling style.
    unsafe { call(args, count, ret, |_| Ok(Any::NONE)) }
}

pub(super) unsafe extern "C" fn copy(args: *const Any, count: i32, ret: *mut Any) -> i32 {
    let body = |args: &[Any]| {
        let value = *args.first().ok_or(BAD_ARGUMENT)?;
        retain_value(&value);
        Ok(value)
    };
    // SAFETY: the packed calling style.
    unsafe { call(args, count, ret, body) }
}

pub(super) unsafe extern "C" fn make_tuple(args: *const Any, count: i32, ret: *mut Any) -> i32 {
    // SAFETY: the packed calling style.
    unsafe { call(args, count, ret, |values| tuple(values).ok_or(NO_MEMORY)) }
}

pub(super) unsafe extern "C" fn reshape(args: *const Any, count: i32, ret: *mut Any) -> i32 {
    let body = |args: &[Any]| {
        let [tensor, shape, ..] = args else { return Err(BAD_ARGUMENT) };
        let source = tensor.as_object::<NdArray>(TYPE_TENSOR).ok_or(BAD_ARGUMENT)?;
        // SAFETY: module code passes live objects.
        let dims = unsafe { shape_of(shape) }.ok_or(BAD_ARGUMENT)?;
        let ndim = i32::try_from(dims.len()).map_err(|_| BAD_ARGUMENT)?;
        // SAFETY: as above; the dimensions are a slice of `ndim` entries.
        let view = unsafe { super::builtins::reshape_direct(source, dims.as_ptr(), ndim) };
        if view.is_null() { Err(BAD_ARGUMENT) } else { Ok(Any::tensor(view)) }
    };
    // SAFETY: the packed calling style.
    unsafe { call(args, count, ret, body) }
}

unsafe extern "C" fn read_if_cond(args: *const Any, count: i32, ret: *mut Any) -> i32 {
    let body = |args: &[Any]| {
        let tensor = args.first().and_then(|value| value.as_object::<NdArray>(TYPE_TENSOR)).ok_or(BAD_ARGUMENT)?;
        // SAFETY: module code passes a live tensor of at least one int8 or bool element.
        let value = unsafe {
            if (*tensor).data.is_null() {
                return Err(BAD_ARGUMENT);
            }
            (*tensor).data.cast::<i8>().read()
        };
        Ok(Any { type_index: crate::abi::TYPE_BOOL, padding: 0, value: u64::from(value != 0) })
    };
    // SAFETY: the packed calling style.
    unsafe { call(args, count, ret, body) }
}
