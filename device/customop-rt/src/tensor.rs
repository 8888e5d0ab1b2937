//! Tensors: made from argument records, allocated, copied into the result.

use crate::fault::{device_assert, fail};
use crate::global::{address, pointer};
use crate::{allocator, memcpy, translate};
use customop::abi::{ArgTensor, Q7Ptr, StorageImpl, Tensor, TensorImpl, UTensor, UniqueQ7Ptr, location, shape_form};
use customop::dtype::ScalarType;

/// The element type of a record.
fn scalar_type(record: &ArgTensor) -> ScalarType {
    match ScalarType::of_isa(record.dtype) {
        Some(scalar_type) => scalar_type,
        None => fail("utypes.hpp:37: unsupported dtype"),
    }
}

/// Where the elements of a record lie: the 64-bit address in HBM, or the local one in on-chip memory.
fn place(record: &ArgTensor) -> u64 {
    match record.location {
        location::HBM => record.hbm_address(),
        location::SBUF => u64::from(translate::SBUF_WINDOW) + u64::from(record.storage[0]),
        _ => fail("utypes.hpp: a tensor lies in SBUF or HBM"),
    }
}

/// The dimensions of a record.
fn dims(record: &ArgTensor) -> ([u32; 8], usize) {
    device_assert!(record.shape_form != shape_form::OUT_OF_LINE, "utypes.hpp:94: out-of-line shapes are not supported");
    let (dims, rank) = record.dims();
    device_assert!(
        rank != 0,
        "utypes.hpp:139: Input and output tensors cannot have 0 dimensions - must be of at least rank 1"
    );
    (dims, rank)
}

/// A tensor over the elements of a record; they are not copied.
pub(crate) fn of_record(record: &ArgTensor) -> Tensor {
    let (dims, rank) = dims(record);
    let data = Q7Ptr { hbm_addr: place(record), ctx: address(translate::context()), is_nullptr: 0 };
    describe(&dims[..rank.min(8)], scalar_type(record), UniqueQ7Ptr { pointer: data, owned: 0 })
}

/// A tensor with contiguous strides over `data`.
fn describe(dims: &[u32], scalar_type: ScalarType, data: UniqueQ7Ptr) -> Tensor {
    let mut description = TensorImpl {
        references: 1,
        rank: dims.len() as u32,
        scalar_type: scalar_type as u32,
        item_size: scalar_type.size(),
        numel: 1,
        ..TensorImpl::default()
    };
    for (index, dim) in dims.iter().enumerate().rev() {
        description.sizes[index & 7] = u64::from(*dim);
        description.strides[index & 7] = description.numel;
        description.numel *= u64::from(*dim);
    }
    let size_bytes = description.numel * u64::from(description.item_size);
    description.storage = address(keep(StorageImpl { references: 1, data, size_bytes, ..StorageImpl::default() }));
    Tensor { impl_: address(keep(description)), ..Tensor::default() }
}

/// Moves a value to the heap, where it stays until the next dispatch.
fn keep<T>(value: T) -> *mut T {
    let place: *mut T = allocator::libc_allocate(size_of::<T>() as u32, 16).cast();
    device_assert!(!place.is_null(), "utypes.hpp:64: xt_ptr_: no memory for the description of a tensor");
    // SAFETY: the heap gave that many bytes, aligned for every type here.
    unsafe { place.write(value) };
    place
}

/// The description of a tensor.
fn description(tensor: &Tensor) -> &TensorImpl {
    device_assert!(tensor.impl_ != 0, "utypes.hpp:64: xt_ptr_: the tensor is undefined");
    // SAFETY: descriptions live until the next dispatch, longer than any tensor object.
    unsafe { &*pointer(tensor.impl_) }
}

/// Where the elements of a tensor begin.
fn start_of(tensor: &Tensor) -> u64 {
    let description = description(tensor);
    // SAFETY: as for the description.
    let storage: &StorageImpl = unsafe { &*pointer(description.storage) };
    storage.data.pointer.hbm_addr + description.storage_offset * u64::from(description.item_size)
}

/// A new tensor in HBM; its elements have any value.
#[unsafe(no_mangle)]
extern "C" fn customop_empty(sizes: *const u32, rank: u32, scalar_type: u8) -> Tensor {
    let Some(scalar_type) = ScalarType::of_number(scalar_type) else { fail("customop_empty: unsupported dtype") };
    device_assert!(rank >= 1 && rank <= 8, "customop_empty: a tensor has 1 to 8 dimensions");
    // SAFETY: the caller passes that many sizes.
    let sizes = unsafe { core::slice::from_raw_parts(sizes, rank as usize) };
    let bytes = sizes.iter().try_fold(scalar_type.size(), |bytes, size| bytes.checked_mul(*size));
    let data = allocator::storage(bytes.unwrap_or(u32::MAX));
    device_assert!(
        data.pointer.is_nullptr == 0,
        "NeuronAllocator.cpp: the scratch space in HBM has no room for the tensor"
    );
    describe(sizes, scalar_type, data)
}

/// Copies a tensor into the elements of a record, through a buffer in data memory.
#[unsafe(export_name = "_ZN7UTensor4copyERKN2at6TensorE")]
#[inline(never)]
pub(crate) extern "C" fn copy(destination: &mut UTensor, source: &Tensor) {
    let record = &destination.record;
    let (dims, rank) = dims(record);
    let from = description(source);
    device_assert!(
        from.scalar_type == scalar_type(record) as u32,
        "utypes.hpp:65: tensor.scalar_type() == isa_to_torch_dtype(t_.dtype)"
    );
    let elements = dims.iter().take(rank).fold(1_u64, |all, dim| all.saturating_mul(u64::from(*dim)));
    device_assert!(from.numel == elements, "utypes.hpp: the result has as many elements as its destination");
    let (mut read, mut write) = (memcpy::soc(start_of(source)), memcpy::soc(place(record)));
    let mut left = elements * u64::from(from.item_size);
    let room = allocator::dataram_largest() & !63;
    device_assert!(room > 0, "utypes.hpp:74: buffer_bytes > 0");
    let chunk = room.min(left.min(u64::from(u32::MAX)) as u32);
    let mut buffer = core::ptr::null_mut();
    // SAFETY: the buffer is data memory of `chunk` bytes until it is given back; the addresses come from the argument
    // records and from the allocator.
    unsafe {
        device_assert!(allocator::dataram_allocate(chunk, &mut buffer, 0) == 0, "utypes.hpp:73: ret == 0");
        while left > 0 {
            let now = left.min(u64::from(chunk)) as u32;
            memcpy::neuron_memcpy_in(buffer, read, now);
            memcpy::neuron_memcpy_out(write, buffer, now);
            read += u64::from(now);
            write += u64::from(now);
            left -= u64::from(now);
        }
    }
    device_assert!(allocator::dataram_deallocate(buffer) == 0, "utypes.hpp:89: ret == 0");
}

/// The bits of the first element of a record, low bits first.
pub(crate) fn read_element(record: &ArgTensor, size: u32) -> u64 {
    let at: *const u8 = translate::local(place(record));
    // SAFETY: the window shows the element, which is aligned to its size.
    unsafe {
        match size {
            1 => u64::from(*at),
            2 => u64::from(*at.cast::<u16>()),
            4 => u64::from(*at.cast::<u32>()),
            _ => u64::from(*at.cast::<u32>()) | u64::from(*at.cast::<u32>().add(1)) << 32,
        }
    }
}
