//! What a kernel written in Rust uses: the runtime's routines, and tensors as it sees them.
//!
//! Wrappers and the three functions that name what a library has are written by [`macro@crate::custom_op`] and
//! [`crate::library!`]; the operations `relu`, `add` and `sum` of `device/ops` show them written by hand.

use crate::abi::{Scalar, StorageImpl, Tensor, TensorImpl, TranslationContext};
use crate::dtype::ScalarType;

/// The routines of the runtime, by what they are called in C++.
pub mod routine {
    use super::{Scalar, Tensor, TranslationContext};

    unsafe extern "C" {
        /// Binds the arguments; `has_return`: the first one is the result.
        #[link_name = "_Z14customop_setupb"]
        pub safe fn customop_setup(has_return: bool);
        /// The next argument as a tensor.
        #[link_name = "_Z20customop_next_tensorv"]
        pub safe fn customop_next_tensor() -> Tensor;
        /// The next argument as a number of either kind.
        #[link_name = "_Z20customop_next_scalarv"]
        pub safe fn customop_next_scalar() -> Scalar;
        /// The next argument as a 32-bit integer.
        #[link_name = "_Z17customop_next_intv"]
        pub safe fn customop_next_int() -> i32;
        /// The next argument as a 64-bit integer.
        #[link_name = "_Z22customop_next_longlongv"]
        pub safe fn customop_next_longlong() -> i64;
        /// The next argument as a binary32.
        #[link_name = "_Z19customop_next_floatv"]
        pub safe fn customop_next_float() -> f32;
        /// Publishes the result.
        #[link_name = "_Z22customop_return_tensorRN2at6TensorE"]
        pub safe fn customop_return_tensor(result: &Tensor);
        /// The destination of the result.
        #[link_name = "_Z14get_dst_tensorv"]
        pub safe fn get_dst_tensor() -> Tensor;
        /// Makes all stores visible; the last call of a wrapper.
        #[link_name = "_Z16customop_cleanupv"]
        pub safe fn customop_cleanup();
        /// Which core this is.
        #[link_name = "_Z10get_cpu_idv"]
        pub safe fn get_cpu_id() -> u32;
        /// How many cores there are.
        #[link_name = "_Z13get_cpu_countv"]
        pub safe fn get_cpu_count() -> u32;
        /// A new tensor in HBM.
        pub fn customop_empty(sizes: *const u32, rank: u32, scalar_type: u8) -> Tensor;
        /// Takes data memory.
        #[link_name = "_ZN2at6neuron10tcm_mallocEj"]
        pub safe fn tcm_malloc(size: u32) -> *mut u8;
        /// Gives it back.
        #[link_name = "_ZN2at6neuron8tcm_freeEPv"]
        pub safe fn tcm_free(place: *mut u8);
        /// Copies into data memory.
        #[link_name = "_Z13neuron_memcpyPvyj"]
        pub fn neuron_memcpy_in(destination: *mut u8, source: u64, n: u32);
        /// Copies out of data memory.
        #[link_name = "_Z13neuron_memcpyyPvj"]
        pub fn neuron_memcpy_out(destination: u64, source: *mut u8, n: u32);
        /// Chooses how copies are made: 0 bytes, 1 words, 2 the DMA engine.
        #[link_name = "_Z24neuron_set_memcpy_methodj"]
        pub safe fn neuron_set_memcpy_method(method: u32);
        /// Takes HBM: 0 or -1.
        #[link_name = "_Z19neuron_hbm_allocatejPyj"]
        pub safe fn neuron_hbm_allocate(size: u32, out: &mut u64, align: u32) -> i32;
        /// Gives it back.
        #[link_name = "_Z21neuron_hbm_deallocatey"]
        pub safe fn neuron_hbm_deallocate(place: u64) -> i32;
        /// Takes data memory: 0 or -1.
        #[link_name = "_Z23neuron_dataram_allocatejPPvj"]
        pub safe fn neuron_dataram_allocate(size: u32, out: &mut *mut u8, align: u32) -> i32;
        /// Gives it back.
        #[link_name = "_Z25neuron_dataram_deallocatePv"]
        pub safe fn neuron_dataram_deallocate(place: *mut u8) -> i32;
        /// The windows.
        #[link_name = "_Z20neuron_translate_ctxv"]
        pub safe fn neuron_translate_ctx() -> *mut TranslationContext;
        /// Makes an address visible.
        #[link_name = "_Z16neuron_translatePvy"]
        pub fn neuron_translate(ctx: *mut TranslationContext, address: u64) -> u32;
        /// Where an address is visible already: 0 or -1.
        #[link_name = "_Z31neuron_translate_mapping_lookupPvyPyS_"]
        pub fn neuron_translate_mapping_lookup(
            ctx: *const TranslationContext,
            address: u64,
            out: &mut u64,
            reserved: *mut u8,
        ) -> i32;
        /// The address of a byte of data memory for the DMA engine.
        #[link_name = "_Z20dram_addr_to_soc_addrj"]
        pub safe fn dram_addr_to_soc_addr(local: u32) -> u64;
        /// Runs a wrapper, on a larger stack if it needs one.
        #[link_name = "_Z28switch_stack_or_call_wrapperjj"]
        pub fn switch_stack_or_call_wrapper(size: u32, wrapper: u32) -> i32;
        /// Writes text to a stream.
        pub fn write(descriptor: i32, text: *const u8, length: u32) -> i32;
        /// Flushes a stream.
        pub safe fn fsync(descriptor: i32) -> i32;
        /// Prints.
        pub unsafe fn printf(format: *const u8, ...) -> i32;
        /// Takes memory from the C library's heap.
        pub safe fn malloc(size: u32) -> *mut u8;
        /// Gives it back.
        pub safe fn free(place: *mut u8);
        /// Marks the beginning of a stream of elements for who watches the core.
        pub safe fn _outboard_stream(address: u64);
        /// Stops the core with a text.
        pub fn _outboard_trap(text: *const u8, length: u32) -> !;
        /// Ends the program.
        pub safe fn abort() -> !;
    }
}

/// Stack that a wrapper gets without asking for more.
pub const STACK_SIZE: u32 = 4196;

/// A function of the registration: no arguments, a status.
pub type Launcher = extern "C" fn() -> i32;

/// Starts a wrapper on a stack of [`STACK_SIZE`] bytes.
pub fn launch(wrapper: Launcher, stack: u32) -> i32 {
    // SAFETY: the address is that of a function without arguments.
    unsafe { routine::switch_stack_or_call_wrapper(stack, wrapper as usize as u32) }
}

/// The address of a launcher, as the registration wants it.
pub fn address_of(launcher: Launcher) -> u32 {
    launcher as usize as u32
}

impl Tensor {
    fn description(&self) -> &TensorImpl {
        // SAFETY: the runtime keeps descriptions until the next dispatch.
        unsafe { &*core::ptr::with_exposed_provenance(self.impl_ as usize) }
    }

    /// A new tensor in HBM.
    pub fn empty(sizes: &[u32], scalar_type: ScalarType) -> Self {
        // SAFETY: the sizes are passed with their number.
        unsafe { routine::customop_empty(sizes.as_ptr(), sizes.len() as u32, scalar_type as u8) }
    }

    /// The sizes of the dimensions, and how many there are.
    pub fn sizes(&self) -> ([u32; 8], usize) {
        let description = self.description();
        let mut sizes = [0; 8];
        for (to, from) in sizes.iter_mut().zip(description.sizes) {
            *to = from as u32;
        }
        (sizes, (description.rank as usize).min(8))
    }

    /// Elements.
    pub fn numel(&self) -> u32 {
        self.description().numel as u32
    }

    /// Bytes of an element.
    pub fn item_size(&self) -> u32 {
        self.description().item_size
    }

    /// Element type, as the tensor library numbers it.
    pub fn scalar_type(&self) -> u32 {
        self.description().scalar_type
    }

    /// Where the elements begin.
    pub fn data(&self) -> u64 {
        // SAFETY: the runtime keeps storage descriptions until the next dispatch.
        let storage: &StorageImpl =
            unsafe { &*core::ptr::with_exposed_provenance(self.description().storage as usize) };
        storage.data.pointer.hbm_addr
    }

    /// A pointer to one element, through a window that moves where it must.
    pub fn element<T>(&self, index: u32) -> *mut T {
        let address = self.data() + u64::from(index) * size_of::<T>() as u64;
        let local = if (0x8000_0000..0x8800_0000).contains(&address) {
            address as u32
        } else {
            // SAFETY: the context is the current one.
            unsafe { routine::neuron_translate(routine::neuron_translate_ctx(), address) }
        };
        core::ptr::with_exposed_provenance_mut(local as usize)
    }

    /// Where `bytes` bytes from element `offset` on are; ends the operation when the tensor does not have them.
    fn span<T>(&self, offset: u32, bytes: u32) -> u64 {
        let skipped = u64::from(offset) * size_of::<T>() as u64;
        if skipped + u64::from(bytes) > u64::from(self.numel()) * u64::from(self.item_size()) {
            fail("a copy goes past the last element of a tensor");
        }
        self.data() + skipped
    }

    /// Copies elements from `offset` on into data memory. Offsets count elements of the buffer's type; past the last element of
    /// the tensor, the operation ends.
    pub fn read_into<T: Copy>(&self, buffer: &mut [T], offset: u32) {
        let bytes = size_of_val(buffer) as u32;
        let from = self.span::<T>(offset, bytes);
        // SAFETY: the buffer has that many bytes.
        unsafe { routine::neuron_memcpy_in(buffer.as_mut_ptr().cast(), soc(from), bytes) }
    }

    /// Copies elements from data memory to `offset` on, counted as for [`Tensor::read_into`].
    pub fn write_from<T: Copy>(&self, buffer: &mut [T], offset: u32) {
        let bytes = size_of_val(buffer) as u32;
        let to = self.span::<T>(offset, bytes);
        // SAFETY: the buffer has that many bytes.
        unsafe { routine::neuron_memcpy_out(soc(to), buffer.as_mut_ptr().cast(), bytes) }
    }
}

/// The address that copies use for what the pinned window onto on-chip memory shows.
fn soc(place: u64) -> u64 {
    if (0x8000_0000..0x8400_0000).contains(&place) {
        // SAFETY: the context is set before any wrapper runs.
        unsafe { (*routine::neuron_translate_ctx()).records[3].ptr + (place - 0x8000_0000) }
    } else {
        place
    }
}

/// This core's share of `elements`: the first one and the end. The last core takes what is left over.
pub fn share(elements: u32) -> (u32, u32) {
    let (core, cores) = (routine::get_cpu_id(), routine::get_cpu_count());
    let part = elements / cores;
    let first = part * core;
    (first, if core + 1 == cores { elements } else { first + part })
}

/// Data memory for `count` elements, given back when it is dropped.
pub struct Tcm<T> {
    place: *mut T,
    count: usize,
}

impl<T: Copy> Tcm<T> {
    /// `None` when there is no room.
    pub fn new(count: usize) -> Option<Self> {
        let place: *mut T = routine::tcm_malloc((count * size_of::<T>()) as u32).cast();
        (!place.is_null()).then_some(Self { place, count })
    }

    /// The elements; they have any value at first.
    pub fn as_mut(&mut self) -> &mut [T] {
        // SAFETY: the block has that many elements of a plain type, and belongs to this value alone.
        unsafe { core::slice::from_raw_parts_mut(self.place, self.count) }
    }
}

impl<T> Drop for Tcm<T> {
    fn drop(&mut self) {
        routine::tcm_free(self.place.cast());
    }
}

/// Ends the operation with a text, which the host shows with core, place and callers.
#[cold]
pub fn fail(text: &str) -> ! {
    // SAFETY: the routine only reads the text, and does not return.
    unsafe { routine::_outboard_trap(text.as_ptr(), text.len() as u32) }
}

/// Bytes of a panic's text.
const PANIC_TEXT: usize = 200;

/// A text of which what does not fit is left out.
struct Text {
    bytes: [u8; PANIC_TEXT],
    length: usize,
}

impl Text {
    fn push(&mut self, text: &[u8]) {
        for (place, byte) in self.bytes.iter_mut().skip(self.length).zip(text) {
            *place = *byte;
            self.length += 1;
        }
    }

    fn push_number(&mut self, number: u32) {
        let mut scale = 1;
        while number / scale >= 10 {
            scale *= 10;
        }
        while scale > 0 {
            self.push(&[b'0' + (number / scale % 10) as u8]);
            scale /= 10;
        }
    }
}

/// What a panicking kernel does: it ends like any failed assertion, with file, line and what was asserted. Messages that need
/// formatting are left out: it would cost a quarter of a resident library's code.
pub fn panicked(info: &core::panic::PanicInfo<'_>) -> ! {
    let mut text = Text { bytes: [0; PANIC_TEXT], length: 0 };
    if let Some(place) = info.location() {
        text.push(place.file().as_bytes());
        text.push(b":");
        text.push_number(place.line());
        text.push(b": ");
    }
    text.push(info.message().as_str().unwrap_or("panic").as_bytes());
    let (bytes, _) = text.bytes.split_at(text.length);
    // SAFETY: the routine only reads the text, and does not return.
    unsafe { routine::_outboard_trap(bytes.as_ptr(), bytes.len() as u32) }
}
