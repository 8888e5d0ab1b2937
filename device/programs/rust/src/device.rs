//! What a program needs on the device: memory, and what happens when it panics.

use crate::line;
use core::alloc::{GlobalAlloc, Layout};
use core::panic::PanicInfo;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicUsize, Ordering};

unsafe extern "C" {
    fn sys_exit(status: i32) -> !;
    static __heap_start: u8;
    static __heap_end: u8;
}

/// Hands out the heap of the layout from the start; nothing is taken back.
struct Heap(AtomicUsize);

#[global_allocator]
static HEAP: Heap = Heap(AtomicUsize::new(0));

// SAFETY: every block lies in the heap, is aligned, and no two overlap, because the offset only grows.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let (start, end) = (&raw const __heap_start as usize, &raw const __heap_end as usize);
        let used = self.0.load(Ordering::Relaxed);
        let address = (start + used).next_multiple_of(layout.align());
        if end - address < layout.size() {
            return null_mut();
        }
        self.0.store(address + layout.size() - start, Ordering::Relaxed);
        address as *mut u8
    }

    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    line(format_args!("panic: {}", info.message()));
    // SAFETY: the call does not come back.
    unsafe { sys_exit(101) }
}
