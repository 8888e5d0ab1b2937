//! The three heaps: tensors in HBM, scratch in data memory, `malloc`.

use crate::global::{Global, address, pointer};
use crate::heap::{Heap, Status};
use crate::start;
use customop::abi::{DATARAM_POOL, DataScratchMap, HeapHeader, LIBC_POOL, Q7Ptr, UniqueQ7Ptr};

/// First of the addresses that stand for the heap in HBM, which the core cannot address directly.
const PROXY: u32 = 0x8000_0000;
/// Alignment when none is asked for.
const ALIGN: u32 = 64;

static HBM: Global<Heap> = Global::new(Heap::empty());
static DATARAM: Global<Heap> = Global::new(Heap::empty());
static LIBC: Global<Heap> = Global::new(Heap::empty());

/// `malloc` uses the heap in the scratch space: always, since there is no other.
#[unsafe(export_name = "_use_default_malloc")]
pub(crate) static USE_DEFAULT_MALLOC: Global<u8> = Global::new(0);

/// One of the three heaps with its blocks.
#[derive(Clone, Copy)]
enum Which {
    Hbm,
    Dataram,
    Libc,
}

impl Which {
    fn parts(self) -> (&'static Global<Heap>, *mut HeapHeader) {
        let map = start::scratch_map();
        // SAFETY: the map is there from the boot on; only the place of a field is computed.
        unsafe {
            match self {
                Self::Hbm => (&HBM, &raw mut (*map).hbm_heap),
                Self::Dataram => (&DATARAM, &raw mut (*map).dataram_heap),
                Self::Libc => (&LIBC, &raw mut (*map).libc_heap),
            }
        }
    }

    /// Runs `work` on the heap and its blocks.
    fn with<R>(self, work: impl FnOnce(&mut Heap, &mut HeapHeader) -> R) -> R {
        let (heap, header) = self.parts();
        // SAFETY: one thread, and `work` reaches no other heap.
        unsafe { work(&mut *heap.as_ptr(), &mut *header) }
    }

    fn reset(self, buffer: u32, size: u32) {
        self.with(|heap, header| *heap = Heap::new(buffer, size, header));
    }
}

fn pool(of: impl FnOnce(*mut DataScratchMap) -> *const u8) -> u32 {
    address(of(start::scratch_map()))
}

/// Empties the heap in HBM.
#[unsafe(export_name = "_Z25init_neuron_hbm_allocatorv")]
#[inline(never)]
pub(crate) extern "C" fn init_hbm() {
    Which::Hbm.reset(PROXY, start::hbm_scratch_size());
}

/// Empties the heap in data memory.
#[unsafe(export_name = "_Z29init_neuron_dataram_allocatorv")]
#[inline(never)]
pub(crate) extern "C" fn init_dataram() {
    // SAFETY: only the place of a field is computed.
    Which::Dataram.reset(pool(|map| unsafe { (&raw const (*map).dataram_pool).cast() }), DATARAM_POOL as u32);
}

/// Empties the heap of `malloc`.
#[unsafe(export_name = "_Z25_init_libc_heap_allocatorv")]
#[inline(never)]
pub(crate) extern "C" fn init_libc() {
    // SAFETY: only the place of a field is computed.
    Which::Libc.reset(pool(|map| unsafe { (&raw const (*map).libc_pool).cast() }), LIBC_POOL as u32);
}

fn allocate(which: Which, size: u32, align: u32) -> Result<u32, Status> {
    which.with(|heap, header| heap.allocate(header, size, if align == 0 { ALIGN } else { align }))
}

/// Takes `size` bytes of HBM: 0 and `*out`, or -1; `*out` is written in both cases.
///
/// # Safety
///
/// `out` can be written.
#[unsafe(export_name = "_Z19neuron_hbm_allocatejPyj")]
#[inline(never)]
pub(crate) unsafe extern "C" fn hbm_allocate(size: u32, out: *mut u64, align: u32) -> i32 {
    let found = allocate(Which::Hbm, size, align);
    let offset = found.unwrap_or(0).wrapping_sub(PROXY);
    // SAFETY: the caller passes a place for the result.
    unsafe { *out = start::hbm_scratch().wrapping_add(u64::from(offset)) };
    if found.is_ok() { 0 } else { -1 }
}

/// Gives HBM back.
#[unsafe(export_name = "_Z21neuron_hbm_deallocatey")]
#[inline(never)]
pub(crate) extern "C" fn hbm_deallocate(place: u64) -> i32 {
    let proxy = (place.wrapping_sub(start::hbm_scratch()) as u32).wrapping_add(PROXY);
    let outcome = Which::Hbm.with(|heap, header| heap.release(header, proxy));
    if outcome.is_ok() { 0 } else { -1 }
}

/// Takes `size` bytes of data memory: 0 and `*out`, or -1; `*out` is written in both cases.
///
/// # Safety
///
/// `out` can be written.
#[unsafe(export_name = "_Z23neuron_dataram_allocatejPPvj")]
#[inline(never)]
pub(crate) unsafe extern "C" fn dataram_allocate(size: u32, out: *mut *mut u8, align: u32) -> i32 {
    let found = allocate(Which::Dataram, size, align);
    // SAFETY: the caller passes a place for the result.
    unsafe { *out = pointer(found.unwrap_or(0)) };
    if found.is_ok() { 0 } else { -1 }
}

/// Gives data memory back.
#[unsafe(export_name = "_Z25neuron_dataram_deallocatePv")]
#[inline(never)]
pub(crate) extern "C" fn dataram_deallocate(place: *mut u8) -> i32 {
    let outcome = Which::Dataram.with(|heap, header| heap.release(header, address(place)));
    if outcome.is_ok() { 0 } else { -1 }
}

/// Bytes of the largest free block of data memory.
pub(crate) fn dataram_largest() -> u32 {
    Which::Dataram.with(|heap, header| heap.largest(header))
}

/// Takes data memory: a pointer, or null.
#[unsafe(export_name = "_ZN2at6neuron10tcm_mallocEj")]
extern "C" fn tcm_malloc(size: u32) -> *mut u8 {
    let mut place = core::ptr::null_mut();
    // SAFETY: the place is a local variable.
    let status = unsafe { dataram_allocate(size, &mut place, 0) };
    if status == 0 { place } else { core::ptr::null_mut() }
}

/// Gives data memory back; null is allowed.
#[unsafe(export_name = "_ZN2at6neuron8tcm_freeEPv")]
extern "C" fn tcm_free(place: *mut u8) {
    if !place.is_null() {
        dataram_deallocate(place);
    }
}

/// Takes memory of a size for the C library: a pointer, or null.
pub(crate) fn libc_allocate(size: u32, align: u32) -> *mut u8 {
    pointer(allocate(Which::Libc, size.max(1), align).unwrap_or(0))
}

/// Gives it back; null and foreign pointers are ignored.
pub(crate) fn libc_release(place: *mut u8) {
    let _ = Which::Libc.with(|heap, header| heap.release(header, address(place)));
}

/// Bytes that can be used behind a pointer of [`libc_allocate`].
pub(crate) fn libc_size(place: *mut u8) -> u32 {
    Which::Libc.with(|heap, header| heap.size_of(header, address(place)).unwrap_or(0))
}

/// The allocator of tensor storage: a table of what it can do.
#[repr(C)]
pub(crate) struct NeuronAllocator {
    allocate: extern "C" fn(*mut UniqueQ7Ptr, u32),
    release: extern "C" fn(*const UniqueQ7Ptr),
}

static ALLOCATOR: NeuronAllocator = NeuronAllocator { allocate: storage_allocate, release: storage_release };

/// The allocator of tensor storage.
#[unsafe(export_name = "_ZN3c1018GetNeuronAllocatorEv")]
extern "C" fn get_neuron_allocator() -> *const NeuronAllocator {
    &ALLOCATOR
}

extern "C" fn storage_allocate(out: *mut UniqueQ7Ptr, size: u32) {
    // SAFETY: callers pass a place for the result.
    unsafe { *out = storage(size) };
}

extern "C" fn storage_release(pointer: *const UniqueQ7Ptr) {
    // SAFETY: callers pass what they got.
    let pointer = unsafe { &*pointer };
    if pointer.owned != 0 && pointer.pointer.is_nullptr == 0 {
        hbm_deallocate(pointer.pointer.hbm_addr);
    }
}

/// Storage of a tensor; a null pointer when there is no memory.
pub(crate) fn storage(size: u32) -> UniqueQ7Ptr {
    let mut place = 0;
    // SAFETY: the place is a local variable.
    let status = unsafe { hbm_allocate(size.max(1), &mut place, 0) };
    let pointer = Q7Ptr { hbm_addr: place, ctx: 0, is_nullptr: u8::from(status != 0) };
    UniqueQ7Ptr { pointer, owned: 1 }
}
