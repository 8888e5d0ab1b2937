//! One call of a kernel: its arrays as slices of the device's memory, and what happens when they are none.

use crate::memory::Memory;
use crate::runtime::{complain, with};
use alloc::borrow::Cow;
use alloc::vec::Vec;
use core::ffi::c_void;
use core::marker::PhantomData;
use core::ops::Range;
use outboard_kernels::KernelError;

/// An array a kernel reads, as module code passes it.
pub(super) type In = *const c_void;
/// An array a kernel writes, as module code passes it.
pub(super) type Out = *mut c_void;

/// Why a call is refused.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refusal {
    /// A number or a combination of numbers is wrong.
    #[error(transparent)]
    Kernel(#[from] KernelError),
    /// An array is missing.
    #[error("{what} is NULL")]
    Null { what: &'static str },
    /// An array leaves memory.
    #[error("{what} ({bytes} bytes at {address:#x}) does not lie inside one region of the device's memory")]
    Outside { what: &'static str, address: u64, bytes: u64 },
    /// An array starts where its elements cannot.
    #[error("{what} at {address:#x} is not aligned to its elements of {align} bytes")]
    Misaligned { what: &'static str, address: u64, align: u64 },
    /// Two arrays share memory.
    #[error("{what} overlaps another array that the call {how}")]
    Overlap { what: &'static str, how: &'static str },
}

/// Runs a kernel on behalf of module code: 0, or −1 with a line that says why.
pub(super) fn run(name: &str, body: impl FnOnce(Call<'_>) -> Result<(), Refusal>) -> i32 {
    match with(|runtime| body(Call::new(&mut runtime.memory))) {
        Some(Ok(())) => 0,
        Some(Err(refusal)) => {
            complain(&alloc::format!("ERROR: {name}: {refusal}\n"));
            -1
        }
        None => -1,
    }
}

/// A type of array elements.
///
/// # Safety
/// Every bit pattern is a value.
pub(super) unsafe trait Element: Copy + 'static {}
// SAFETY: numbers without invalid patterns.
unsafe impl Element for u8 {}
// SAFETY: as above.
unsafe impl Element for i8 {}
// SAFETY: as above.
unsafe impl Element for i16 {}
// SAFETY: as above.
unsafe impl Element for i32 {}
// SAFETY: as above.
unsafe impl Element for i64 {}
// SAFETY: as above.
unsafe impl Element for f32 {}

/// Collects the arrays of a call. Outputs are named first; they become slices when all inputs are at hand.
pub(super) struct Call<'m> {
    memory: &'m mut Memory,
    written: Vec<Range<u64>>,
    read: Vec<Range<u64>>,
}

/// An array that the kernel may write.
pub(super) struct Output<'m, T> {
    address: *mut T,
    len: usize,
    _memory: PhantomData<&'m mut [T]>,
}

/// All arrays of a call are at hand.
pub(super) struct Ready<'m>(PhantomData<&'m mut Memory>);

fn overlaps(all: &[Range<u64>], range: &Range<u64>) -> bool {
    all.iter().any(|other| range.start < other.end && other.start < range.end)
}

impl<'m> Call<'m> {
    fn new(memory: &'m mut Memory) -> Self {
        Self { memory, written: Vec::new(), read: Vec::new() }
    }

    /// The addresses of an array that lies in memory and is aligned.
    fn range<T>(&self, what: &'static str, address: usize, len: usize) -> Result<Range<u64>, Refusal> {
        if address == 0 {
            return Err(Refusal::Null { what });
        }
        let address = address as u64;
        let align = align_of::<T>() as u64;
        if !address.is_multiple_of(align) {
            return Err(Refusal::Misaligned { what, address, align });
        }
        let bytes = len.checked_mul(size_of::<T>()).ok_or(KernelError::Overflow { what })? as u64;
        self.memory.bytes(address, bytes).ok_or(Refusal::Outside { what, address, bytes })?;
        Ok(address..address + bytes)
    }

    /// An array of `len` elements that the kernel reads: a copy when the kernel also writes it.
    pub(super) fn input<T: Element>(
        &mut self,
        what: &'static str,
        array: In,
        len: usize,
    ) -> Result<Cow<'m, [T]>, Refusal> {
        if len == 0 {
            return Ok(Cow::Borrowed(&[]));
        }
        let range = self.range::<T>(what, array.addr(), len)?;
        let array = core::ptr::with_exposed_provenance::<T>(array.addr());
        // SAFETY: `range` found the array inside memory and aligned; `Element` types have no invalid patterns. Until 'm ends no
        // module code runs, because `memory` is borrowed exclusively, and nothing writes the array: no `Output` is a slice
        // before this value is gone, and one that overlaps is found here (copied) or refused by `output`.
        let slice: &'m [T] = unsafe { core::slice::from_raw_parts(array, len) };
        if overlaps(&self.written, &range) {
            return Ok(Cow::Owned(slice.to_vec()));
        }
        self.read.push(range);
        Ok(Cow::Borrowed(slice))
    }

    /// As [`Call::input`], of an array that may be missing.
    pub(super) fn optional<T: Element>(
        &mut self,
        what: &'static str,
        array: In,
        len: usize,
    ) -> Result<Option<Cow<'m, [T]>>, Refusal> {
        if array.is_null() { Ok(None) } else { self.input(what, array, len).map(Some) }
    }

    /// An array of `len` elements that the kernel writes.
    pub(super) fn output<T: Element>(
        &mut self,
        what: &'static str,
        array: Out,
        len: usize,
    ) -> Result<Output<'m, T>, Refusal> {
        if len == 0 {
            return Ok(Output { address: core::ptr::dangling_mut(), len, _memory: PhantomData });
        }
        let range = self.range::<T>(what, array.addr(), len)?;
        for (others, how) in [(&self.written, "writes"), (&self.read, "reads")] {
            if overlaps(others, &range) {
                return Err(Refusal::Overlap { what, how });
            }
        }
        self.written.push(range);
        let address = core::ptr::with_exposed_provenance_mut(array.addr());
        Ok(Output { address, len, _memory: PhantomData })
    }

    /// Ends the collection.
    pub(super) fn ready(self) -> Ready<'m> {
        Ready(PhantomData)
    }
}

impl<'m, T: Element> Output<'m, T> {
    /// The array.
    pub(super) fn slice(self, _: &Ready<'m>) -> &'m mut [T] {
        // SAFETY: `Call::output` found the array inside memory, aligned, and apart from every other output and from every input
        // that is not a copy; this value is the only one for it, and `Ready` shows that no input is taken any more.
        unsafe { core::slice::from_raw_parts_mut(self.address, self.len) }
    }
}
