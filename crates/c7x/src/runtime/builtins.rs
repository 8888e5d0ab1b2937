//! VM builtins that generated code calls directly.

use super::objects::{array, inc_ref, owned_array, shape, storage_alloc, storage_alloc_nd_array, view};
use super::{INT64, dims};
use crate::abi::{Any, DataType, Device, NdArray, Shape, Storage, TYPE_SHAPE, TYPE_TENSOR};

/// Most dimensions of a reshaped view.
const MAX_VIEW_DIMS: usize = 16;

/// What to do with one dimension when a shape is made or matched.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Code {
    /// Make: the value itself. Match: must equal the value.
    Immediate,
    /// Make: the heap's entry. Match: stored into the heap's entry.
    Heap,
    /// Match: anything goes.
    Any,
    /// Match: must equal the heap's entry.
    EqualsHeap,
}

impl Code {
    pub(super) fn from_number(code: i64) -> Option<Self> {
        Some(match code {
            0 => Self::Immediate,
            1 => Self::Heap,
            2 => Self::Any,
            3 => Self::EqualsHeap,
            _ => return None,
        })
    }
}

/// A shape heap: the int64 data of a tensor.
#[derive(Clone, Copy)]
pub(super) struct Heap {
    data: *mut i64,
    count: usize,
}

impl Heap {
    /// The heap behind a tensor, empty for null.
    ///
    /// # Safety
    /// `array` is null or a live int64 tensor.
    pub(super) unsafe fn of(array: *mut NdArray) -> Self {
        if array.is_null() {
            return Self { data: core::ptr::null_mut(), count: 0 };
        }
        // SAFETY: promised by the caller; the shape of a tensor holds `ndim` dimensions.
        let (data, elements) = unsafe {
            let shape = dims((*array).shape, (*array).ndim, MAX_VIEW_DIMS).unwrap_or(&[]);
            ((*array).data, shape.iter().product::<i64>())
        };
        Self { data: data.cast(), count: usize::try_from(elements).unwrap_or(0) }
    }

    fn slot(self, index: i64) -> Option<*mut i64> {
        let index = usize::try_from(index).ok().filter(|index| *index < self.count)?;
        Some(self.data.wrapping_add(index))
    }

    fn get(self, index: i64) -> Option<i64> {
        // SAFETY: the slot lies inside the heap's data.
        self.slot(index).map(|slot| unsafe { slot.read() })
    }

    fn set(self, index: i64, value: i64) -> Option<()> {
        // SAFETY: the slot lies inside the heap's data.
        self.slot(index).map(|slot| unsafe { slot.write(value) })
    }
}

/// Makes a shape from (code, value) pairs. Null for an unknown code, a heap index outside the heap, or exhausted memory.
pub(super) fn make(heap: Heap, plan: impl Iterator<Item = (i64, i64)>) -> *mut Shape {
    let made: Option<alloc::vec::Vec<i64>> = plan
        .map(|(code, value)| match Code::from_number(code)? {
            Code::Immediate => Some(value),
            Code::Heap => heap.get(value),
            Code::Any | Code::EqualsHeap => None,
        })
        .collect();
    made.map_or(core::ptr::null_mut(), |made| shape(&made))
}

/// Matches the dimensions of a tensor or shape against (code, value) pairs; whether they agree.
///
/// # Safety
/// An object in `value` is live.
pub(super) unsafe fn matches(value: &Any, heap: Heap, plan: &[(i64, i64)]) -> bool {
    // SAFETY: promised by the caller.
    let Some(found) = (unsafe { shape_of(value) }) else { return false };
    found.len() == plan.len()
        && found.iter().zip(plan).all(|(dim, (code, expected))| match Code::from_number(*code) {
            Some(Code::Immediate) => dim == expected,
            Some(Code::Heap) => heap.set(*expected, *dim).is_some(),
            Some(Code::Any) => true,
            Some(Code::EqualsHeap) => heap.get(*expected) == Some(*dim),
            None => false,
        })
}

/// The dimensions of a tensor or shape.
///
/// # Safety
/// An object in `value` is live.
pub(super) unsafe fn shape_of<'a>(value: &Any) -> Option<&'a [i64]> {
    // SAFETY: promised by the caller.
    unsafe {
        if let Some(array) = value.as_object::<NdArray>(TYPE_TENSOR) {
            return dims((*array).shape, (*array).ndim, MAX_VIEW_DIMS);
        }
        let shape = value.as_object::<Shape>(TYPE_SHAPE)?;
        dims((*shape).data, i32::try_from((*shape).size).ok()?, MAX_VIEW_DIMS)
    }
}

/// The pairs of two parallel C arrays; `None` when one is missing.
///
/// # Safety
/// Both point at `ndim` entries.
unsafe fn pairs(ndim: i32, codes: *const i32, values: *const i64) -> Option<alloc::vec::Vec<(i64, i64)>> {
    let count = usize::try_from(ndim).ok().filter(|count| *count <= MAX_VIEW_DIMS)?;
    if count == 0 {
        return Some(alloc::vec::Vec::new());
    }
    if codes.is_null() || values.is_null() {
        return None;
    }
    // SAFETY: promised by the caller.
    let (codes, values) =
        unsafe { (core::slice::from_raw_parts(codes, count), core::slice::from_raw_parts(values, count)) };
    Some(codes.iter().map(|code| i64::from(*code)).zip(values.iter().copied()).collect())
}

pub(super) extern "C" fn alloc_storage(size: i64, _device: i32, hint: DataType) -> *mut Storage {
    usize::try_from(size)
        .map_or(core::ptr::null_mut(), |size| storage_alloc(size, Device { device_type: 1, device_id: 0 }, hint))
}

pub(super) unsafe extern "C" fn alloc_tensor(
    storage: *mut Storage,
    offset: i64,
    shape: *const i64,
    ndim: i32,
    dtype: DataType,
) -> *mut NdArray {
    // SAFETY: the same promises.
    unsafe { storage_alloc_nd_array(storage, offset, shape, ndim, dtype) }
}

pub(super) extern "C" fn alloc_shape_heap(entries: i64) -> *mut NdArray {
    if entries < 0 { core::ptr::null_mut() } else { owned_array(&[entries], INT64) }
}

pub(super) unsafe extern "C" fn make_shape(
    heap: *mut NdArray,
    ndim: i32,
    codes: *const i32,
    values: *const i64,
) -> *mut Shape {
    // SAFETY: module code passes live objects and arrays of `ndim` entries.
    unsafe { pairs(ndim, codes, values).map_or(core::ptr::null_mut(), |plan| make(Heap::of(heap), plan.into_iter())) }
}

pub(super) unsafe extern "C" fn match_shape(
    value: *const Any,
    heap: *mut NdArray,
    ndim: i32,
    codes: *const i32,
    values: *const i64,
) -> i32 {
    // SAFETY: module code passes live objects and arrays of `ndim` entries.
    let agreed = unsafe {
        !value.is_null() && pairs(ndim, codes, values).is_some_and(|plan| matches(&*value, Heap::of(heap), &plan))
    };
    if agreed { 0 } else { -1 }
}

pub(super) unsafe extern "C" fn check_tensor_info(array: *const NdArray, ndim: i32, dtype: DataType) -> i32 {
    if array.is_null() {
        return -1;
    }
    // SAFETY: module code passes a live tensor.
    let (found_ndim, found) = unsafe { ((*array).ndim, (*array).dtype) };
    let rank_fits = ndim == -1 || ndim == found_ndim;
    let type_fits = dtype.code == 3 || dtype == found;
    if rank_fits && type_fits { 0 } else { -1 }
}

pub(super) unsafe extern "C" fn check_shape_info(shape: *const Shape, ndim: i32) -> i32 {
    // SAFETY: module code passes a live shape.
    let fits = !shape.is_null() && (ndim == -1 || i64::try_from(unsafe { (*shape).size }) == Ok(ndim.into()));
    if fits { 0 } else { -1 }
}

pub(super) unsafe extern "C" fn null_value(out: *mut Any) {
    if !out.is_null() {
        // SAFETY: module code passes room for a value.
        unsafe { out.write(Any::NONE) };
    }
}

/// A view of the same data with another shape; null when the number of elements differs. Holds no reference on the source.
pub(super) unsafe extern "C" fn reshape_direct(source: *mut NdArray, shape: *const i64, ndim: i32) -> *mut NdArray {
    // SAFETY: module code passes a live tensor and `ndim` dimensions.
    let (to, from, data, dtype) = unsafe {
        let Some(to) = dims(shape, ndim, MAX_VIEW_DIMS) else { return core::ptr::null_mut() };
        if source.is_null() {
            return core::ptr::null_mut();
        }
        let Some(from) = dims((*source).shape, (*source).ndim, MAX_VIEW_DIMS) else { return core::ptr::null_mut() };
        (
            to,
            from,
            (*source).data.wrapping_byte_add(usize::try_from((*source).byte_offset).unwrap_or(0)),
            (*source).dtype,
        )
    };
    let elements = |dims: &[i64]| dims.iter().try_fold(1i64, |product, dim| product.checked_mul(*dim));
    if elements(to).is_none() || elements(to) != elements(from) {
        super::complain("ERROR: a reshape changes the number of elements\n");
        return core::ptr::null_mut();
    }
    view(data, to, dtype)
}

/// The first tensor of the values, with a reference; the original returns no array here either.
pub(super) unsafe extern "C" fn make_tuple_direct(values: *mut Any, count: i32) -> *mut NdArray {
    // SAFETY: module code passes `count` values.
    let values = unsafe { super::arguments(values, count) };
    let first = values.iter().find_map(|value| value.as_object::<NdArray>(TYPE_TENSOR));
    first.map_or(core::ptr::null_mut(), |tensor| {
        inc_ref(tensor.cast());
        tensor
    })
}

/// An array of the values: what MakeTuplePacked returns.
pub(super) fn tuple(values: &[Any]) -> Option<Any> {
    if values.is_empty() {
        return Some(Any::NONE);
    }
    let made = array(values);
    (!made.is_null()).then(|| Any::object(crate::abi::TYPE_ARRAY, made.cast()))
}
