//! Access to single elements, checked: the type must be the tensor's, the index below its number of elements.

use crate::abi::Tensor;
use crate::dtype::ScalarType;
use crate::kernel::fail;

/// A type that elements have.
pub trait Element: Copy + Default {
    /// The element type of its tensors.
    const TYPE: ScalarType;
}

macro_rules! elements {
    ($($kind:ty: $scalar:ident),*) => { $(impl Element for $kind { const TYPE: ScalarType = ScalarType::$scalar; })* };
}

elements! { u8: Byte, i8: Char, i16: Short, i32: Int, i64: Long, f32: Float }

impl Tensor {
    /// Ends the operation unless the elements have this type.
    pub(crate) fn expect<T: Element>(&self) {
        if self.scalar_type() != T::TYPE as u32 {
            fail("an access with a type that is not the tensor's element type");
        }
    }

    fn checked<T: Element>(&self, index: u32) -> *mut T {
        self.expect::<T>();
        if index >= self.numel() {
            fail("an access past the last element of a tensor");
        }
        self.element(index)
    }

    /// An element by its place in memory, through a window of 16 MiB that moves where it must. For one core.
    pub fn get<T: Element>(&self, index: u32) -> T {
        // SAFETY: the window shows the element, which is inside the tensor and has this type.
        unsafe { self.checked::<T>(index).read() }
    }

    /// Sets an element by its place in memory. For one core.
    pub fn set<T: Element>(&self, index: u32, value: T) {
        // SAFETY: as for reading.
        unsafe { self.checked::<T>(index).write(value) }
    }
}
