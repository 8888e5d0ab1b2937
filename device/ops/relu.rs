//! `relu_forward(x)` and `relu_backward(gradient, x)`: every core computes its share of the elements, in data memory, and
//! writes them into the destination itself.
#![no_std]
#![no_main]

use core::ffi::CStr;
use customop::kernel::{STACK_SIZE, Tcm, address_of, launch, routine};
use ops::{KernelRow, share};

/// Elements that are worked on at a time.
const CHUNK: u32 = 1024;

fn relu_forward() {
    let x = routine::customop_next_tensor();
    let y = routine::get_dst_tensor();
    let (first, count) = share(x.numel(), routine::get_cpu_id(), routine::get_cpu_count());
    let Some(mut buffer) = Tcm::<f32>::new(CHUNK as usize) else { routine::abort() };
    let mut done = 0;
    while done < count {
        let now = (count - done).min(CHUNK) as usize;
        let values = &mut buffer.as_mut()[..now];
        x.read_into(values, first + done);
        for value in values.iter_mut() {
            if *value < 0.0 {
                *value = 0.0;
            }
        }
        y.write_from(values, first + done);
        done += now as u32;
    }
}

fn relu_backward() {
    let gradient = routine::customop_next_tensor();
    let x = routine::customop_next_tensor();
    let y = routine::get_dst_tensor();
    let (first, count) = share(x.numel(), routine::get_cpu_id(), routine::get_cpu_count());
    let (Some(mut values), Some(mut slopes)) = (Tcm::<f32>::new(CHUNK as usize), Tcm::<f32>::new(CHUNK as usize))
    else {
        routine::abort()
    };
    let mut done = 0;
    while done < count {
        let now = (count - done).min(CHUNK) as usize;
        let (values, slopes) = (&mut values.as_mut()[..now], &mut slopes.as_mut()[..now]);
        x.read_into(values, first + done);
        gradient.read_into(slopes, first + done);
        for (slope, value) in slopes.iter_mut().zip(values) {
            if *value <= 0.0 {
                *slope = 0.0;
            }
        }
        y.write_from(slopes, first + done);
        done += now as u32;
    }
}

extern "C" fn relu_forward_wrapper() -> i32 {
    routine::customop_setup(true);
    relu_forward();
    routine::customop_cleanup();
    0
}

extern "C" fn relu_backward_wrapper() -> i32 {
    routine::customop_setup(true);
    relu_backward();
    routine::customop_cleanup();
    0
}

extern "C" fn relu_forward_stack_switch() -> i32 {
    launch(relu_forward_wrapper, STACK_SIZE)
}

extern "C" fn relu_backward_stack_switch() -> i32 {
    launch(relu_backward_wrapper, STACK_SIZE)
}

#[used]
#[unsafe(link_section = "kernel_info_table")]
static ROWS: [KernelRow; 2] =
    [KernelRow::extended(0x20, relu_forward_stack_switch), KernelRow::extended(0x21, relu_backward_stack_switch)];

#[unsafe(export_name = "_Z12get_func_cntv")]
extern "C" fn get_func_cnt() -> i32 {
    2
}

#[unsafe(export_name = "_Z13get_func_namei")]
extern "C" fn get_func_name(index: i32) -> *const u8 {
    let name: &CStr = match index {
        0 => c"relu_forward",
        1 => c"relu_backward",
        _ => c"error",
    };
    name.as_ptr().cast()
}

#[unsafe(export_name = "_Z12get_func_ptri")]
extern "C" fn get_func_ptr(index: i32) -> u32 {
    match index {
        0 => address_of(relu_forward_stack_switch),
        1 => address_of(relu_backward_stack_switch),
        _ => 0,
    }
}
