//! Variables of the one core that this copy of the runtime belongs to.

use core::cell::UnsafeCell;

/// A variable that C code can name. There is one thread and there are no interrupts.
#[repr(transparent)]
pub(crate) struct Global<T>(UnsafeCell<T>);

// SAFETY: a core runs one thread, and nothing interrupts it.
unsafe impl<T> Sync for Global<T> {}

impl<T> Global<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
    }

    pub(crate) const fn as_ptr(&self) -> *mut T {
        self.0.get()
    }
}

impl<T: Copy> Global<T> {
    pub(crate) fn get(&self) -> T {
        // SAFETY: the cell is always initialised, and nobody else runs.
        unsafe { *self.0.get() }
    }

    pub(crate) fn set(&self, value: T) {
        // SAFETY: nobody else runs, and no reference to the contents is kept.
        unsafe { *self.0.get() = value }
    }
}

/// A device address as a pointer.
pub(crate) const fn pointer<T>(address: u32) -> *mut T {
    core::ptr::with_exposed_provenance_mut(address as usize)
}

/// A pointer as a device address.
pub(crate) fn address<T>(pointer: *const T) -> u32 {
    pointer.expose_provenance() as u32
}

/// Waits until every store before it has reached memory.
pub(crate) fn memw() {
    core::sync::atomic::fence(core::sync::atomic::Ordering::SeqCst);
}
