//! Operations that try every routine of the runtime, and those that go wrong in every way. Tests run them; the result of each
//! is a list of integers, described there.
#![no_std]
#![no_main]

// For its panic handler.
use ops as _;

use customop::abi::{Tensor, TranslationContext};
use customop::dtype::ScalarType;
use customop::kernel::{STACK_SIZE, Tcm, address_of, launch, routine};

/// Distance between two windows' worth of memory.
const WINDOW: u64 = 0x100_0000;

/// The result, as core 0 writes it element by element.
struct Answer {
    tensor: Tensor,
    next: u32,
}

impl Answer {
    fn new() -> Self {
        Self { tensor: routine::get_dst_tensor(), next: 0 }
    }

    fn put(&mut self, value: u32) {
        if routine::get_cpu_id() == 0 {
            // SAFETY: tests pass results that are long enough.
            unsafe { *self.tensor.element::<u32>(self.next) = value };
        }
        self.next += 1;
    }
}

unsafe extern "C" {
    safe fn _outboard_stack_pointer() -> u32;
    safe fn _outboard_stack_limit() -> u32;
    safe fn realloc(place: *mut u8, size: u32) -> *mut u8;
    safe fn memalign(align: u32, size: u32) -> *mut u8;
    safe fn _open_r(context: *mut u8, path: *const u8, flags: i32, mode: i32) -> i32;
    safe fn _close_r(context: *mut u8, descriptor: i32) -> i32;
    safe fn _read_r(context: *mut u8, descriptor: i32, buffer: *mut u8, length: u32) -> i32;
    safe fn puts(text: *const u8) -> i32;
    safe fn putchar(byte: i32) -> i32;
    /// Its second argument is a va_list: the arguments on the stack less 32 bytes, those in registers, bytes used.
    fn vprintf(format: *const u8, stack: *const u32, registers: *const u32, index: u32) -> i32;
    safe fn _unlink_r(context: *mut u8, path: *const u8) -> i32;
    #[link_name = "_ZN3c1018GetNeuronAllocatorEv"]
    safe fn get_neuron_allocator() -> *const u8;
    #[link_name = "_ZNSt3__120__libcpp_mutex_lockEPPv"]
    safe fn mutex_lock(mutex: *mut *mut u8) -> i32;
    #[link_name = "_ZNSt3__123__libcpp_mutex_trylockEPPv"]
    safe fn mutex_trylock(mutex: *mut *mut u8) -> bool;
    #[link_name = "_ZNSt3__122__libcpp_mutex_unlockEPPv"]
    safe fn mutex_unlock(mutex: *mut *mut u8) -> i32;
    static CUSTOMOP_LIB_VERSION: [u8; 9];
}

/// Where `address` is visible without moving a window; 1 when it is not.
fn look(address: u64) -> u32 {
    let mut out = 0;
    // SAFETY: the context is the current one.
    let status = unsafe {
        routine::neuron_translate_mapping_lookup(
            routine::neuron_translate_ctx(),
            address,
            &mut out,
            core::ptr::null_mut(),
        )
    };
    if status == 0 { out as u32 } else { 1 }
}

fn translate(address: u64) -> u32 {
    // SAFETY: the context is the current one.
    unsafe { routine::neuron_translate(routine::neuron_translate_ctx(), address) }
}

/// Before and after each of five translations, then what is pinned.
fn windows() {
    let mut answer = Answer::new();
    let base = answer.tensor.data() & !(WINDOW - 1);
    let mut list = [0; 16];
    list[0] = look(base + 4 * WINDOW);
    for (index, block) in [4_u64, 5, 6, 4, 7].into_iter().enumerate() {
        list[1 + index] = translate(base + block * WINDOW + 0x123);
    }
    list[6] = look(base + 4 * WINDOW);
    list[7] = look(base + 5 * WINDOW);
    // SAFETY: the context is the current one.
    let ctx: &TranslationContext = unsafe { &*routine::neuron_translate_ctx() };
    list[8] = ctx.next_alloc.into();
    list[9] = translate(ctx.records[3].ptr + 0x40);
    list[10] = translate(ctx.records[4].ptr + 0x40);
    for value in list {
        answer.put(value);
    }
}

/// Both heaps: success, exhaustion, alignment, giving back, the result on failure.
fn heaps() {
    let mut answer = Answer::new();
    let mut list = [0_u32; 16];
    let (mut a, mut b, mut c) = (0, 0, u64::MAX);
    list[0] = routine::neuron_hbm_allocate(100, &mut a, 0) as u32;
    list[1] = routine::neuron_hbm_allocate(100, &mut b, 4096) as u32;
    list[2] = (b - (a & !0xffff)) as u32;
    list[3] = routine::neuron_hbm_allocate(0x7000_0000, &mut c, 0) as u32;
    list[4] = u32::from(c != u64::MAX);
    list[5] = routine::neuron_hbm_deallocate(a) as u32;
    list[6] = routine::neuron_hbm_deallocate(a) as u32;
    list[7] = routine::neuron_hbm_deallocate(b) as u32;
    let (mut p, mut q) = (core::ptr::null_mut(), core::ptr::without_provenance_mut(1));
    list[8] = routine::neuron_dataram_allocate(0x3000, &mut p, 0) as u32;
    list[9] = p as usize as u32;
    list[10] = routine::neuron_dataram_allocate(0x1001, &mut q, 0) as u32;
    list[11] = u32::from(q as usize != 1);
    list[12] = routine::tcm_malloc(0x1001) as usize as u32;
    let rest = routine::tcm_malloc(0x1000);
    list[13] = rest as usize as u32;
    routine::tcm_free(rest);
    routine::tcm_free(core::ptr::null_mut());
    list[14] = routine::neuron_dataram_deallocate(p) as u32;
    list[15] = u32::from(!get_neuron_allocator().is_null());
    for value in list {
        answer.put(value);
    }
}

/// Each method copies 1,000 bytes across the end of a window and back; the sums of what arrives. Then an address for DMA.
fn copies() {
    let mut answer = Answer::new();
    let edge = (answer.tensor.data() & !(WINDOW - 1)) + 3 * WINDOW - 501;
    let (Some(mut out), Some(mut back)) = (Tcm::<u8>::new(1000), Tcm::<u8>::new(1000)) else { routine::abort() };
    let mut list = [0; 4];
    for method in 0..3 {
        routine::neuron_set_memcpy_method(method);
        for (index, byte) in out.as_mut().iter_mut().enumerate() {
            *byte = (index as u8).wrapping_mul(method as u8 + 3);
        }
        back.as_mut().fill(0);
        // SAFETY: both buffers have 1,000 bytes.
        unsafe {
            routine::neuron_memcpy_out(edge, out.as_mut().as_mut_ptr(), 1000);
            routine::neuron_memcpy_in(back.as_mut().as_mut_ptr(), edge, 1000);
        }
        list[method as usize] = u32::from(out.as_mut() == back.as_mut());
    }
    list[3] = routine::dram_addr_to_soc_addr(0x8_1234) as u32;
    for value in list {
        answer.put(value);
    }
}

/// A scalar of an integer, one of a fraction, an int, a long long, a float.
fn numbers() {
    let mut list = [0; 8];
    let (integer, fraction) = (routine::customop_next_scalar(), routine::customop_next_scalar());
    (list[0], list[1]) = (integer.tag, integer.bits as u32);
    (list[2], list[3]) = (fraction.tag, (fraction.bits >> 32) as u32);
    list[4] = routine::customop_next_int() as u32;
    let long = routine::customop_next_longlong();
    (list[5], list[6]) = (long as u32, (long >> 32) as u32);
    list[7] = routine::customop_next_float().to_bits();
    let mut answer = Answer::new();
    for value in list {
        answer.put(value);
    }
}

/// Sums 1..=n in a way that takes stack for each number.
#[inline(never)]
fn climb(n: u32) -> u32 {
    let mut room = [n; 16];
    let place: &mut [u32; 16] = core::hint::black_box(&mut room);
    if place[3] == 0 { 0 } else { place[5] + climb(place[7] - 1) }
}

/// Where the stack is, its limit, and a deep recursion.
fn deep() {
    let mut answer = Answer::new();
    answer.put(_outboard_stack_pointer());
    answer.put(_outboard_stack_limit());
    answer.put(climb(120));
}

/// What C code finds.
fn shims() {
    let mut answer = Answer::new();
    let none = core::ptr::null_mut();
    let first = routine::malloc(100);
    // SAFETY: the block has 100 bytes.
    unsafe { first.write_bytes(7, 100) };
    let second = realloc(first, 300);
    // SAFETY: the block has 300 bytes, the first 100 of which were copied.
    let kept = unsafe { *second.add(99) };
    let aligned = memalign(256, 10);
    let large = routine::malloc(0x10_0000);
    routine::free(second);
    routine::free(none);
    for value in [
        u32::from(kept),
        aligned as usize as u32 % 256,
        large as usize as u32,
        _open_r(none, none, 0, 0) as u32,
        _close_r(none, 3) as u32,
        _read_r(none, 0, none, 0) as u32,
        _unlink_r(none, none) as u32,
        mutex_lock(core::ptr::null_mut()) as u32,
        u32::from(mutex_trylock(core::ptr::null_mut())),
        mutex_unlock(core::ptr::null_mut()) as u32,
        routine::fsync(5) as u32,
        // SAFETY: the version is a constant.
        u32::from(unsafe { CUSTOMOP_LIB_VERSION[2] }),
    ] {
        answer.put(value);
    }
}

/// Prints with every kind of argument, more than the registers hold, and more than a slot.
fn prints() {
    // SAFETY: the formats name what is passed.
    unsafe {
        routine::printf(c"core %d of %u: %s\n".as_ptr().cast(), routine::get_cpu_id(), 8_u32, c"hello".as_ptr());
        routine::printf(
            c"%d %d %d %d %d %lld %x %.2f\n".as_ptr().cast(),
            1_u32,
            2_u32,
            3_u32,
            4_u32,
            5_u32,
            -6_i64,
            0xab_u32,
            2.5_f64,
        );
        let text = [b'-'; 300];
        routine::write(1, text.as_ptr(), 300);
        routine::write(2, c"to stderr\n".as_ptr().cast(), 10);
    }
}

/// Prints a line, a character, and a list of arguments that begins in registers and goes on on the stack.
fn lists() {
    let mut answer = Answer::new();
    answer.put(puts(c"a line".as_ptr().cast()) as u32);
    answer.put(putchar(i32::from(b'!')) as u32);
    // The first word stands for the format. The wide number starts at an even register, the last word is the first on the stack.
    let registers = [0, 1, 2, 3, 0xffff_fffa, 0xffff_ffff];
    let stack = [0, 0, 0, 0, 0, 0, 0, 0, 7_u32];
    // SAFETY: the format names what the list has.
    let length = unsafe { vprintf(c"%d %d %d %lld %x\n".as_ptr().cast(), stack.as_ptr(), registers.as_ptr(), 4) };
    answer.put(length as u32);
}

/// Each core says who it is.
fn identity() {
    let y = routine::get_dst_tensor();
    let (id, count) = (routine::get_cpu_id(), routine::get_cpu_count());
    // SAFETY: the result has an element for each core.
    unsafe { *y.element::<u32>(id) = 100 * id + count };
}

/// Doubles the first tensor into one of another type than the result, if the mode says so.
fn own_result(scalar_type: ScalarType) {
    let x = routine::customop_next_tensor();
    let (sizes, rank) = x.sizes();
    let y = Tensor::empty(&sizes[..rank], scalar_type);
    for index in 0..x.numel() {
        // SAFETY: both have that many elements of four bytes.
        unsafe { *y.element::<u32>(index) = 2 * *x.element::<u32>(index) };
    }
    routine::customop_return_tensor(&y);
}

fn copied() {
    own_result(ScalarType::Int);
}

fn wrong_type() {
    own_result(ScalarType::Float);
}

fn pull_too_many() {
    for _ in 0..11 {
        routine::customop_next_tensor();
    }
}

fn scalar_of_many() {
    routine::customop_next_scalar();
}

fn method_3() {
    routine::neuron_set_memcpy_method(3);
}

fn outside_staging() {
    let y = routine::get_dst_tensor();
    // SAFETY: it never gets as far as writing there.
    unsafe { routine::neuron_memcpy_in(core::ptr::with_exposed_provenance_mut(0x9_0000), y.data(), 4) };
}

fn unsplit() {
    let y = routine::get_dst_tensor();
    let last = translate((y.data() & !(WINDOW - 1)) + WINDOW - 4);
    // SAFETY: the second word is behind the window, which the simulator finds.
    let _ = unsafe { core::ptr::with_exposed_provenance::<u32>(last as usize + 4).read_volatile() };
}

fn climb_too_far() {
    routine::get_dst_tensor();
    core::hint::black_box(climb(100_000));
}

fn divide() {
    let zero = core::hint::black_box(0_u32);
    core::hint::black_box(7_u32.checked_div(zero).unwrap_or_else(|| routine::abort()));
}

fn panics() {
    let list = [1, 2, 3];
    core::hint::black_box(list[core::hint::black_box(5)]);
}

fn for_ever() {
    while core::hint::black_box(true) {}
}

fn huge_tensor() {
    Tensor::empty(&[0x1000, 0x1000], ScalarType::Float);
}

fn no_memory_there() {
    // SAFETY: nothing is there, which the simulator finds.
    let _ = unsafe { core::ptr::with_exposed_provenance::<u32>(translate(0x70_0000_0000) as usize).read_volatile() };
}

macro_rules! ops {
    ($($number:literal $name:ident $stack:expr;)*) => {
        mod wrapper {
            $(pub extern "C" fn $name() -> i32 {
                super::routine::customop_setup(true);
                super::$name();
                super::routine::customop_cleanup();
                0
            })*
        }

        mod launcher {
            use super::STACK_SIZE;

            $(pub extern "C" fn $name() -> i32 {
                super::launch(super::wrapper::$name, $stack)
            })*
            pub extern "C" fn no_cleanup() -> i32 {
                super::launch(super::no_cleanup, STACK_SIZE)
            }
        }

        #[unsafe(export_name = "_Z12get_func_cntv")]
        extern "C" fn get_func_cnt() -> i32 {
            0 $(+ { let _ = $number; 1 })* + 1
        }

        #[unsafe(export_name = "_Z13get_func_namei")]
        extern "C" fn get_func_name(index: i32) -> *const u8 {
            const NAMES: &[&[u8]] = &[$(concat!(stringify!($name), "\0").as_bytes(),)* b"no_cleanup\0"];
            NAMES.get(index as usize).map_or(c"error".as_ptr().cast(), |name| name.as_ptr())
        }

        #[unsafe(export_name = "_Z12get_func_ptri")]
        extern "C" fn get_func_ptr(index: i32) -> u32 {
            match index {
                $($number => address_of(launcher::$name),)*
                _ => address_of(launcher::no_cleanup),
            }
        }
    };
}

ops! {
    0 windows STACK_SIZE;
    1 heaps STACK_SIZE;
    2 copies STACK_SIZE;
    3 numbers STACK_SIZE;
    4 deep 0x8000;
    5 shims STACK_SIZE;
    6 prints STACK_SIZE;
    7 identity STACK_SIZE;
    8 copied STACK_SIZE;
    9 wrong_type STACK_SIZE;
    10 pull_too_many STACK_SIZE;
    11 scalar_of_many STACK_SIZE;
    12 method_3 STACK_SIZE;
    13 outside_staging STACK_SIZE;
    14 unsplit STACK_SIZE;
    15 climb_too_far STACK_SIZE;
    16 divide STACK_SIZE;
    17 panics STACK_SIZE;
    18 for_ever STACK_SIZE;
    19 huge_tensor STACK_SIZE;
    20 no_memory_there STACK_SIZE;
    21 climb_huge 0x400_0001;
    22 lists STACK_SIZE;
}

/// Asks for a stack above the limit.
fn climb_huge() {}

/// A wrapper that forgets to make its stores visible.
extern "C" fn no_cleanup() -> i32 {
    routine::customop_setup(true);
    let y = routine::get_dst_tensor();
    // SAFETY: the result has an element.
    unsafe { *y.element::<u32>(0) = 42 };
    0
}
