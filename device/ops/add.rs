//! `add(x, y)` and `axpy(x, y, a, n)` = a·x + n·y: the result is a tensor of the kernel's own, which the runtime copies. Every
//! core computes all of it, and all write the same.
#![no_std]
#![no_main]

use core::ffi::CStr;
use customop::abi::Tensor;
use customop::dtype::ScalarType;
use customop::kernel::{STACK_SIZE, Tcm, address_of, launch, routine};
use ops::KernelRow;

/// Elements that are worked on at a time.
const CHUNK: u32 = 512;

/// a·x + b·y.
fn combine(x: &Tensor, y: &Tensor, a: f32, b: f32) -> Tensor {
    let (sizes, rank) = x.sizes();
    let result = Tensor::empty(&sizes[..rank], ScalarType::Float);
    let (Some(mut left), Some(mut right)) = (Tcm::<f32>::new(CHUNK as usize), Tcm::<f32>::new(CHUNK as usize)) else {
        routine::abort()
    };
    let mut done = 0;
    while done < x.numel() {
        let now = (x.numel() - done).min(CHUNK) as usize;
        let (left, right) = (&mut left.as_mut()[..now], &mut right.as_mut()[..now]);
        x.read_into(left, done);
        y.read_into(right, done);
        for (left, right) in left.iter_mut().zip(right) {
            *left = a * *left + b * *right;
        }
        result.write_from(left, done);
        done += now as u32;
    }
    result
}

extern "C" fn add_wrapper() -> i32 {
    routine::customop_setup(true);
    let x = routine::customop_next_tensor();
    let y = routine::customop_next_tensor();
    let result = combine(&x, &y, 1.0, 1.0);
    routine::customop_return_tensor(&result);
    routine::customop_cleanup();
    0
}

extern "C" fn axpy_wrapper() -> i32 {
    routine::customop_setup(true);
    let x = routine::customop_next_tensor();
    let y = routine::customop_next_tensor();
    let a = routine::customop_next_float();
    let n = routine::customop_next_longlong();
    let result = combine(&x, &y, a, n as f32);
    routine::customop_return_tensor(&result);
    routine::customop_cleanup();
    0
}

extern "C" fn add_stack_switch() -> i32 {
    launch(add_wrapper, STACK_SIZE)
}

extern "C" fn axpy_stack_switch() -> i32 {
    launch(axpy_wrapper, STACK_SIZE)
}

#[used]
#[unsafe(link_section = "kernel_info_table")]
static ROWS: [KernelRow; 2] =
    [KernelRow::extended(0x22, add_stack_switch), KernelRow::extended(0x23, axpy_stack_switch)];

#[unsafe(export_name = "_Z12get_func_cntv")]
extern "C" fn get_func_cnt() -> i32 {
    2
}

#[unsafe(export_name = "_Z13get_func_namei")]
extern "C" fn get_func_name(index: i32) -> *const u8 {
    let name: &CStr = match index {
        0 => c"add",
        1 => c"axpy",
        _ => c"error",
    };
    name.as_ptr().cast()
}

#[unsafe(export_name = "_Z12get_func_ptri")]
extern "C" fn get_func_ptr(index: i32) -> u32 {
    match index {
        0 => address_of(add_stack_switch),
        1 => address_of(axpy_stack_switch),
        _ => 0,
    }
}
