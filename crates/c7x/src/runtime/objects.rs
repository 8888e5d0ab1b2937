//! Objects: creation, reference counts, deletion; storage, tensors, shapes, arrays; the register file.

use super::{RegisterFile, Runtime, complain, dims, with};
use crate::abi::{
    Any, Array, DataType, Deleter, Device, MAX_ALLOCATED_DIMS, MAX_ARRAY, NdArray, Object, Shape, Storage, TYPE_ARRAY,
    TYPE_FIRST_OBJECT, TYPE_SHAPE, TYPE_STORAGE, TYPE_TENSOR, pointer, tensor_bytes,
};
use crate::pool::{Owner, PoolId};
use core::ffi::c_void;

/// Allocates room for an object of the running module's inference; zeroed.
fn allocate<T>(extra: u64) -> Option<*mut T> {
    with(|runtime| {
        let owner = Owner::Run(runtime.active());
        runtime.allocate(PoolId::Main, size_of::<T>() as u64 + extra, 128, owner)
    })?
    .map(pointer)
}

fn head(type_index: i32, deleter: Deleter) -> Object {
    Object { type_index, ref_counter: 1, deleter: Some(deleter) }
}

/// Frees memory that an object occupied.
fn free<T>(object: *mut T) {
    with(|runtime| runtime.release(object.addr() as u64));
}

/// Whether a pointer can be an object: in the module's own memory, or a live block of a pool.
fn is_object(object: *mut Object) -> bool {
    let address = object.addr() as u64;
    !object.is_null()
        && object.is_aligned()
        && with(|runtime| !runtime.in_pools(address) || runtime.is_block(address) || runtime.main_holds(address))
            .unwrap_or(false)
}

impl Runtime {
    /// Whether an address lies inside a live block (a module's own data, or an inner object).
    fn main_holds(&self, address: u64) -> bool {
        self.main.holds(address, size_of::<Object>() as u64) || self.fast.holds(address, size_of::<Object>() as u64)
    }
}

/// Adds a reference.
pub(super) extern "C" fn inc_ref(object: *mut Object) {
    if is_object(object) {
        // SAFETY: a non-null, aligned object of a live block or of the module.
        unsafe { (*object).ref_counter += 1 };
    }
}

/// Drops a reference; the last one calls the deleter, when there is one.
pub(super) extern "C" fn dec_ref(object: *mut Object) {
    release_reference(object);
}

/// Drops a reference; whether the object was deleted.
fn release_reference(object: *mut Object) -> bool {
    if !is_object(object) {
        return false;
    }
    // SAFETY: a non-null, aligned object of a live block or of the module.
    let (left, deleter) = unsafe {
        (*object).ref_counter -= 1;
        ((*object).ref_counter, (*object).deleter)
    };
    match deleter {
        Some(delete) if left == 0 => {
            // SAFETY: the count reached zero just now, so this is the one call of the object's own deleter.
            unsafe { delete(object) };
            true
        }
        _ => false,
    }
}

/// Drops a reference; 0.
pub(super) extern "C" fn object_free(object: *mut Object) -> i32 {
    release_reference(object);
    0
}

/// Drops the reference a value holds, when it is an object.
pub(super) fn release_value(value: &Any) -> bool {
    value.is_object() && release_reference(value.pointer())
}

/// Adds a reference to what a value holds, when it is an object.
pub(super) fn retain_value(value: &Any) {
    if value.is_object() {
        inc_ref(value.pointer());
    }
}

/// Moves a value: the destination takes over the reference, the source becomes None.
///
/// # Safety
/// Both pointers are null or point at values.
pub(super) unsafe extern "C" fn any_move(source: *mut Any, destination: *mut Any) {
    if !source.is_null() && !destination.is_null() {
        // SAFETY: promised by the caller.
        unsafe { destination.write(source.replace(Any::NONE)) };
    }
}

/// Copies a value and adds a reference.
///
/// # Safety
/// Both pointers are null or point at values.
pub(super) unsafe extern "C" fn any_copy(source: *const Any, destination: *mut Any) {
    if !source.is_null() && !destination.is_null() {
        // SAFETY: promised by the caller.
        let value = unsafe { source.read() };
        retain_value(&value);
        // SAFETY: promised by the caller.
        unsafe { destination.write(value) };
    }
}

/// Drops what a value holds and makes it None.
///
/// # Safety
/// The pointer is null or points at a value.
pub(super) unsafe extern "C" fn any_clear(value: *mut Any) {
    if !value.is_null() {
        // SAFETY: promised by the caller.
        let old = unsafe { value.replace(Any::NONE) };
        release_value(&old);
    }
}

unsafe extern "C" fn delete_storage(object: *mut Object) {
    let storage = object.cast::<Storage>();
    // SAFETY: called once by `release_reference` on an object that `storage_alloc` made.
    free(unsafe { (*storage).data });
    free(storage);
}

unsafe extern "C" fn delete_view(object: *mut Object) {
    let array = object.cast::<NdArray>();
    // SAFETY: called once by `release_reference` on an object that this module made.
    let (storage, owned, data) = unsafe { ((*array).storage, (*array).flags & 1 != 0, (*array).data) };
    if owned {
        free(data);
    }
    if !storage.is_null() {
        release_reference(storage.cast());
    }
    free(array);
}

unsafe extern "C" fn delete_array(object: *mut Object) {
    let array = object.cast::<Array>();
    // SAFETY: called once by `release_reference` on an object that `make_array` made.
    let (size, elements) = unsafe { ((*array).size, (*array).elements) };
    for element in elements.iter().take(usize::try_from(size).unwrap_or(0)) {
        release_value(element);
    }
    free(array);
}

unsafe extern "C" fn delete_plain(object: *mut Object) {
    free(object);
}

/// Allocates storage: the object in MAIN, data up to 32 KiB in FAST when it has room. Null when memory is exhausted.
pub(super) extern "C" fn storage_alloc(size: usize, device: Device, _hint: DataType) -> *mut Storage {
    let Some(storage) = allocate::<Storage>(0) else { return core::ptr::null_mut() };
    let data = if size == 0 {
        Some((0, PoolId::Main))
    } else {
        with(|runtime| {
            let owner = Owner::Run(runtime.active());
            runtime.allocate_storage(size as u64, owner)
        })
        .flatten()
    };
    let Some((address, pool)) = data else {
        free(storage);
        return core::ptr::null_mut();
    };
    let value = Storage {
        object: head(TYPE_STORAGE, delete_storage),
        data: pointer(address),
        size,
        device,
        pool: pool as i32,
        padding: 0,
    };
    // SAFETY: freshly allocated, large enough and aligned to 128.
    unsafe { storage.write(value) };
    storage
}

/// A tensor at `offset` of a storage, with a reference on it. Null when it does not fit or memory is exhausted.
///
/// # Safety
/// `storage` is null or a storage object; `shape` points at `ndim` dimensions.
pub(super) unsafe extern "C" fn storage_alloc_nd_array(
    storage: *mut Storage,
    offset: i64,
    shape: *const i64,
    ndim: i32,
    dtype: DataType,
) -> *mut NdArray {
    // SAFETY: promised by the caller.
    let Some(dims) = (unsafe { dims(shape, ndim, MAX_ALLOCATED_DIMS) }) else { return core::ptr::null_mut() };
    if !is_object(storage.cast()) {
        return core::ptr::null_mut();
    }
    // SAFETY: a live object, and the ABI says it is a storage.
    let (data, size) = unsafe { ((*storage).data, (*storage).size as u64) };
    let fits = tensor_bytes(dims, dtype).and_then(|bytes| bytes.checked_add(u64::try_from(offset).ok()?));
    let Some(offset) = fits.filter(|end| *end <= size).and_then(|_| usize::try_from(offset).ok()) else {
        complain("ERROR: a tensor does not fit into its storage\n");
        return core::ptr::null_mut();
    };
    let array = view(data.wrapping_byte_add(offset), dims, dtype);
    if !array.is_null() {
        inc_ref(storage.cast());
        // SAFETY: `view` returned a live tensor.
        unsafe { (*array).storage = storage };
    }
    array
}

/// A tensor over memory that somebody else keeps. More than eight dimensions are kept behind the object.
pub(super) fn view(data: *mut c_void, dims: &[i64], dtype: DataType) -> *mut NdArray {
    let beyond = if dims.len() > MAX_ALLOCATED_DIMS { size_of_val(dims) as u64 } else { 0 };
    let Some(array) = allocate::<NdArray>(beyond) else { return core::ptr::null_mut() };
    let value = NdArray {
        object: head(TYPE_TENSOR, delete_view),
        data,
        device: Device { device_type: 1, device_id: 0 },
        ndim: i32::try_from(dims.len()).unwrap_or(0),
        dtype,
        shape: core::ptr::null_mut(),
        strides: core::ptr::null_mut(),
        byte_offset: 0,
        shape_storage: [0; MAX_ALLOCATED_DIMS],
        strides_storage: [0; MAX_ALLOCATED_DIMS],
        flags: 0,
        padding: 0,
        storage: core::ptr::null_mut(),
    };
    // SAFETY: freshly allocated with room for the object and, where needed, the dimensions behind it; aligned to 128.
    unsafe {
        array.write(value);
        let shape = if beyond > 0 { array.add(1).cast() } else { (&raw mut (*array).shape_storage).cast::<i64>() };
        core::ptr::copy_nonoverlapping(dims.as_ptr(), shape, dims.len());
        (*array).shape = shape;
    }
    array
}

/// A tensor with zeroed data of its own. Null when memory is exhausted.
pub(super) fn owned_array(dims: &[i64], dtype: DataType) -> *mut NdArray {
    let data = tensor_bytes(dims, dtype).and_then(|bytes| {
        with(|runtime| {
            let owner = Owner::Run(runtime.active());
            runtime.allocate(PoolId::Main, bytes, 128, owner)
        })
        .flatten()
    });
    let Some(data) = data else { return core::ptr::null_mut() };
    let array = view(pointer(data), dims, dtype);
    if array.is_null() {
        free(pointer::<c_void>(data));
    } else {
        // SAFETY: `view` returned a live tensor.
        unsafe { (*array).flags = 1 };
    }
    array
}

/// A shape object. Null for more than eight dimensions or when memory is exhausted.
pub(super) fn shape(dims: &[i64]) -> *mut Shape {
    if dims.len() > MAX_ALLOCATED_DIMS {
        return core::ptr::null_mut();
    }
    let Some(shape) = allocate::<Shape>(0) else { return core::ptr::null_mut() };
    let mut shape_data = [0; MAX_ALLOCATED_DIMS];
    shape_data[..dims.len()].copy_from_slice(dims);
    // SAFETY: freshly allocated, large enough and aligned to 128.
    unsafe {
        shape.write(Shape {
            object: head(TYPE_SHAPE, delete_plain),
            data: core::ptr::null(),
            size: dims.len(),
            shape_data,
        });
        (*shape).data = (&raw const (*shape).shape_data).cast();
    }
    shape
}

/// An array with a reference on each element. Null for more than 128 elements or when memory is exhausted.
pub(super) fn array(values: &[Any]) -> *mut Array {
    if values.len() > MAX_ARRAY {
        return core::ptr::null_mut();
    }
    let Some(array) = allocate::<Array>(0) else { return core::ptr::null_mut() };
    let mut elements = [Any::NONE; MAX_ARRAY];
    elements[..values.len()].copy_from_slice(values);
    values.iter().for_each(retain_value);
    let size = i32::try_from(values.len()).unwrap_or(0);
    // SAFETY: freshly allocated, large enough and aligned to 128.
    unsafe { array.write(Array { object: head(TYPE_ARRAY, delete_array), size, padding: 0, elements }) };
    array
}

/// Names the running module's register file, which lies in its own data.
pub(super) extern "C" fn reg_file_init(registers: *mut Any, count: i32) {
    let count = usize::try_from(count).unwrap_or(0);
    with(|runtime| {
        let handle = runtime.active();
        if registers.is_null() || count == 0 {
            runtime.registers.remove(&handle);
        } else {
            runtime.registers.insert(handle, RegisterFile { address: registers.addr() as u64, count });
        }
    });
}

/// The running module's register of this number, checked to be memory.
fn register(index: usize) -> Option<*mut Any> {
    with(|runtime| {
        let file = runtime.registers.get(&runtime.active())?;
        let address = file.address.checked_add(index as u64 * size_of::<Any>() as u64)?;
        let is_memory = index < file.count && runtime.memory.bytes(address, size_of::<Any>() as u64).is_some();
        is_memory.then(|| pointer(address))
    })
    .flatten()
}

/// Stores a value into a register: adds a reference to the new object, then drops the old one.
///
/// # Safety
/// `value` is null or points at a value.
pub(super) unsafe extern "C" fn reg_set_any(index: i32, value: *const Any) {
    let slot = usize::try_from(index).ok().and_then(register);
    if let (Some(slot), false) = (slot, value.is_null()) {
        // SAFETY: `value` by the caller's promise; the register is mapped memory of the module.
        let (new, old) = unsafe { (value.read(), slot.read()) };
        retain_value(&new);
        // SAFETY: as above.
        unsafe { slot.write(new) };
        release_value(&old);
    }
}

/// Drops what every register holds; returns the number of objects deleted.
pub(super) extern "C" fn reg_file_cleanup() -> i32 {
    clean_registers()
}

pub(super) fn clean_registers() -> i32 {
    let mut deleted = 0;
    let mut index = 0;
    while let Some(slot) = register(index) {
        // SAFETY: the register is mapped memory of the module.
        let old = unsafe { slot.replace(Any::NONE) };
        if old.type_index >= TYPE_FIRST_OBJECT && release_value(&old) {
            deleted += 1;
        }
        index += 1;
    }
    deleted
}
