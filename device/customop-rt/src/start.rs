//! Boot and registration: what the firmware calls first, and what it learns from a library.

use crate::fault::device_assert;
use crate::global::Global;
use crate::{allocator, file_io};
use customop::abi::{DataScratchMap, LibStatus, UcodeLib};

#[unsafe(export_name = "_ZN12extended_isa3sdk12data_scratchE")]
static DATA_SCRATCH: Global<*mut u8> = Global::new(core::ptr::null_mut());
#[unsafe(export_name = "_ZN12extended_isa3sdk17data_scratch_sizeE")]
static DATA_SCRATCH_SIZE: Global<u32> = Global::new(0);
#[unsafe(export_name = "_ZN12extended_isa3sdk11hbm_scratchE")]
static HBM_SCRATCH: Global<u64> = Global::new(0);
#[unsafe(export_name = "_ZN12extended_isa3sdk16hbm_scratch_sizeE")]
static HBM_SCRATCH_SIZE: Global<u32> = Global::new(0);
#[unsafe(export_name = "_ZN12extended_isa3sdk20dma_queue_m2s_offsetE")]
static M2S_OFFSET: Global<u32> = Global::new(0);
#[unsafe(export_name = "_ZN12extended_isa3sdk20dma_queue_s2m_offsetE")]
static S2M_OFFSET: Global<u32> = Global::new(0);
#[unsafe(export_name = "_ZN12extended_isa3sdk9my_handleE")]
static MY_HANDLE: Global<u32> = Global::new(0);
#[unsafe(export_name = "data_scratch_map")]
static DATA_SCRATCH_MAP: Global<*mut DataScratchMap> = Global::new(core::ptr::null_mut());

/// Not 0 once the library has been entered.
static ENTERED: Global<u8> = Global::new(0);

/// More functions than this are refused.
const MAX_FUNCTIONS: i32 = 0x8000;

/// Registers a function with the firmware: handle, name, function.
type Register = extern "C" fn(u32, *const u8, u32) -> u32;

unsafe extern "C" {
    #[link_name = "_Z12get_func_cntv"]
    safe fn get_func_cnt() -> i32;
    #[link_name = "_Z13get_func_namei"]
    safe fn get_func_name(index: i32) -> *const u8;
    #[link_name = "_Z12get_func_ptri"]
    safe fn get_func_ptr(index: i32) -> u32;

    /// Bounds of the table of constructors, from the linker.
    static __ctors_start: [u32; 0];
    static __ctors_end: [u32; 0];
}

/// The scratch space in data memory.
pub(crate) fn scratch_map() -> *mut DataScratchMap {
    DATA_SCRATCH_MAP.get()
}

/// Address of this core's scratch space in HBM.
pub(crate) fn hbm_scratch() -> u64 {
    HBM_SCRATCH.get()
}

/// Bytes of it.
pub(crate) fn hbm_scratch_size() -> u32 {
    HBM_SCRATCH_SIZE.get()
}

/// Offsets of the two doorbells in window 0.
pub(crate) fn doorbells() -> (u32, u32) {
    (M2S_OFFSET.get(), S2M_OFFSET.get())
}

/// The entry point: the firmware passes its record.
///
/// # Safety
///
/// The record is as large as it says.
#[unsafe(no_mangle)]
unsafe extern "C" fn _start(library: *const UcodeLib) -> u32 {
    // SAFETY: passed on.
    unsafe { entry_func(library) }
}

/// Takes over what the firmware offers, runs the constructors once, registers the functions.
///
/// # Safety
///
/// As for `_start`.
#[unsafe(export_name = "_Z10entry_funcP15SUNDA_UCODE_LIB")]
unsafe extern "C" fn entry_func(library: *const UcodeLib) -> u32 {
    // SAFETY: the record begins with its size, which is looked at before anything else.
    let library = unsafe {
        if (*library).size < size_of::<UcodeLib>() as u32 {
            return LibStatus::AbiMismatch as u32;
        }
        *library
    };
    MY_HANDLE.set(library.library_handle);
    // SAFETY: the record holds routines of the firmware with these signatures.
    unsafe {
        let get_data_scratch: extern "C" fn(*mut *mut u8, *mut u32) = routine(library.get_data_scratch);
        let get_hbm_scratch: extern "C" fn(*mut u64, *mut u32) = routine(library.get_hbm_scratch);
        let get_dma_queue: extern "C" fn(*mut u32, *mut u32) = routine(library.get_dma_queue);
        get_data_scratch(DATA_SCRATCH.as_ptr(), DATA_SCRATCH_SIZE.as_ptr());
        get_hbm_scratch(HBM_SCRATCH.as_ptr(), HBM_SCRATCH_SIZE.as_ptr());
        get_dma_queue(M2S_OFFSET.as_ptr(), S2M_OFFSET.as_ptr());
    }
    device_assert!(
        DATA_SCRATCH_SIZE.get() >= size_of::<DataScratchMap>() as u32,
        "start_exit.cpp:451: data_scratch_size >= sizeof(data_scratch_map_t)"
    );
    DATA_SCRATCH_MAP.set(DATA_SCRATCH.get().cast());
    if ENTERED.get() == 0 {
        ENTERED.set(1);
        allocator::init_libc();
        file_io::provision();
        run_constructors();
    }
    // SAFETY: as above.
    let register: Register = unsafe { routine(library.register_ext_isa_fn) };
    register_funcs(register)
}

/// A routine of the firmware.
///
/// # Safety
///
/// `F` is a function pointer, and the routine at `address` has its signature.
unsafe fn routine<F: Copy>(address: u32) -> F {
    const { assert!(size_of::<F>() == size_of::<u32>()) };
    // SAFETY: by the caller.
    unsafe { core::mem::transmute_copy(&address) }
}

/// Constructors in the order of the table, without its end marks.
fn run_constructors() {
    let (mut next, end) = (&raw const __ctors_start as *const u32, &raw const __ctors_end as *const u32);
    while next < end {
        // SAFETY: the linker's table holds addresses of functions, 0 and all ones.
        unsafe {
            if !matches!(*next, 0 | u32::MAX) {
                let constructor: extern "C" fn() = routine(*next);
                constructor();
            }
            next = next.add(1);
        }
    }
}

/// Registers each function of the library; the firmware's answers are ignored, as in the original.
#[unsafe(export_name = "_Z14register_funcsPF22SUNDA_UCODE_LIB_STATUSPvPKcPFivEE")]
extern "C" fn register_funcs(register: Register) -> u32 {
    let count = get_func_cnt();
    device_assert!(count < MAX_FUNCTIONS, "start_exit.cpp: get_func_cnt() < 0x8000");
    let mut index = 0;
    while index < count {
        register(MY_HANDLE.get(), get_func_name(index), get_func_ptr(index));
        index += 1;
    }
    LibStatus::Success as u32
}

/// Writes what is left in the streams; the firmware takes the core back.
#[unsafe(export_name = "_Z7my_exitv")]
extern "C" fn my_exit() {
    file_io::fsync(2);
    file_io::fsync(1);
    crate::global::memw();
}

/// Ends the program: after [`my_exit`] the core stops.
#[unsafe(no_mangle)]
extern "C" fn _exit(_status: i32) -> ! {
    my_exit();
    crate::fault::fail("exit() called: a custom operation returns from its wrapper instead")
}
