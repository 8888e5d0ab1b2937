//! The start of every dispatch: fresh heaps and windows, and a larger stack in HBM when the wrapper needs one.

use crate::fault::{device_assert, fail};
use crate::global::{Global, address, pointer};
use crate::{allocator, translate};

/// Largest stack.
const MAX_STACK_SIZE: u32 = 0x40_0000;
/// Bytes above the frame in which the old stack's registers are kept.
const FRAME: u32 = 128;
/// Where the frame says how to go on, and what to run.
const RESUME: u32 = 32;
const ENTRY: u32 = 84;

unsafe extern "C" {
    /// The stack pointer of the caller.
    safe fn _outboard_stack_pointer() -> u32;
    /// The stack limit.
    safe fn _outboard_stack_limit() -> u32;
    /// Keeps the registers in the frame, moves to the stack above `base`, runs the frame's entry, moves back.
    fn switchStack(frame: u32, base: u32) -> i32;
    /// Where a switched wrapper returns to.
    fn switchBack();
}

static SWITCHED: Global<u8> = Global::new(0);
static OLD_STACK: Global<u32> = Global::new(0);
static NEW_STACK: Global<u32> = Global::new(0);
static NEW_STACK_BASE: Global<u64> = Global::new(0);

/// Runs a wrapper, on a stack of `size` bytes in HBM if the one in data memory is smaller.
///
/// # Safety
///
/// `wrapper` is the address of a function without arguments.
#[unsafe(export_name = "_Z28switch_stack_or_call_wrapperjj")]
unsafe extern "C" fn switch_stack_or_call_wrapper(size: u32, wrapper: u32) -> i32 {
    allocator::USE_DEFAULT_MALLOC.set(1);
    allocator::init_hbm();
    allocator::init_dataram();
    allocator::init_libc();
    translate::reset();
    let stack = _outboard_stack_pointer();
    let remaining = stack.wrapping_sub(_outboard_stack_limit());
    SWITCHED.set(u8::from(remaining < size));
    if SWITCHED.get() == 0 {
        // SAFETY: by the caller.
        let wrapper: extern "C" fn() -> i32 = unsafe { core::mem::transmute(wrapper as usize) };
        return wrapper();
    }
    OLD_STACK.set(stack);
    let frame = allocate_hbm_stack(size, wrapper, address(switchBack as *const u8));
    // SAFETY: the frame lies at the top of a fresh stack.
    let result = unsafe { switchStack(frame, (NEW_STACK.get() + 15) & !15) };
    deallocate_hbm_stack();
    SWITCHED.set(0);
    result
}

/// Takes a stack from HBM and prepares its frame; returns the frame's local address.
#[unsafe(export_name = "_Z18allocate_hbm_stackjjj")]
extern "C" fn allocate_hbm_stack(size: u32, entry: u32, resume: u32) -> u32 {
    device_assert!(size <= MAX_STACK_SIZE, "stack_switch.cpp: STACK_SIZE <= MAX_STACK_SIZE (4 MiB)");
    let mut base = 0;
    // SAFETY: the place is a local variable.
    if unsafe { allocator::hbm_allocate(size + FRAME, &mut base, 16) } != 0 {
        fail("stack_switch.cpp: neuron_hbm_allocate: the scratch space in HBM has no room for the stack")
    }
    NEW_STACK_BASE.set(base);
    let local: *mut u8 = translate::local(base);
    NEW_STACK.set(address(local));
    let frame = ((address(local) + size + FRAME) & !15) - FRAME;
    // SAFETY: the frame lies in the new stack.
    unsafe {
        pointer::<u32>(frame + RESUME).write(resume);
        pointer::<u32>(frame + ENTRY).write(entry);
    }
    frame
}

/// Gives the stack back.
#[unsafe(export_name = "_Z20deallocate_hbm_stackv")]
extern "C" fn deallocate_hbm_stack() {
    if allocator::hbm_deallocate(NEW_STACK_BASE.get()) != 0 {
        fail("stack_switch.cpp: neuron_hbm_deallocate: the stack is no block of the heap")
    }
}
