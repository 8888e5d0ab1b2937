//! `sum(x)`: a reduction in as many parts as there are cores. Core n adds its share of the elements and writes element n of
//! the result; there is nothing on the device that cores could wait for each other with.
#![no_std]
#![no_main]

use core::ffi::CStr;
use customop::kernel::{STACK_SIZE, Tcm, address_of, launch, routine};
use ops::{KernelRow, share};

/// Elements that are worked on at a time.
const CHUNK: u32 = 1024;

extern "C" fn sum_wrapper() -> i32 {
    routine::customop_setup(true);
    let x = routine::customop_next_tensor();
    let y = routine::get_dst_tensor();
    let core = routine::get_cpu_id();
    let (first, count) = share(x.numel(), core, routine::get_cpu_count());
    let Some(mut buffer) = Tcm::<f32>::new(CHUNK as usize) else { routine::abort() };
    let mut sum = 0.0;
    let mut done = 0;
    while done < count {
        let now = (count - done).min(CHUNK) as usize;
        let values = &mut buffer.as_mut()[..now];
        x.read_into(values, first + done);
        for value in values.iter() {
            sum += *value;
        }
        done += now as u32;
    }
    // One element for each core, as a block of its own: elements through windows are for one core.
    buffer.as_mut()[0] = sum;
    y.write_from(&mut buffer.as_mut()[..1], core);
    routine::customop_cleanup();
    0
}

extern "C" fn sum_stack_switch() -> i32 {
    launch(sum_wrapper, STACK_SIZE)
}

#[used]
#[unsafe(link_section = "kernel_info_table")]
static ROWS: [KernelRow; 1] = [KernelRow::extended(0x24, sum_stack_switch)];

#[unsafe(export_name = "_Z12get_func_cntv")]
extern "C" fn get_func_cnt() -> i32 {
    1
}

#[unsafe(export_name = "_Z13get_func_namei")]
extern "C" fn get_func_name(index: i32) -> *const u8 {
    let name: &CStr = if index == 0 { c"sum" } else { c"error" };
    name.as_ptr().cast()
}

#[unsafe(export_name = "_Z12get_func_ptri")]
extern "C" fn get_func_ptr(index: i32) -> u32 {
    if index == 0 { address_of(sum_stack_switch) } else { 0 }
}
