//! The export table: which names module code finds, and where.
//!
//! Names and signatures: `docs/reference/c7x-exports.md`. What needs a C library under it (formatted printing, `libm`) is
//! added by the platform.

use super::{backend, builtins, objects, packed, support};

/// One exported symbol: its name and device address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Export {
    /// The name modules import.
    pub name: &'static str,
    /// Address of the function or variable.
    pub address: u64,
}

/// Builds a table of `name => function` rows, then, after `variables:`, of `name => static` rows.
macro_rules! exports {
    ($($name:literal => $function:path,)* $(variables: $($variable:literal => $place:path,)*)?) => {
        [
            $($crate::runtime::Export { name: $name, address: ($function as *const ()).expose_provenance() as u64 },)*
            $($($crate::runtime::Export { name: $variable, address: (&raw const $place).expose_provenance() as u64 },)*)?
        ]
    };
}
pub(crate) use exports;

/// What the runtime itself exports.
#[rustfmt::skip]
pub fn core_exports() -> [Export; 75] {
    exports! {
        // C library
        "memcpy" => support::memcpy,
        "memmove" => support::memmove,
        "memset" => support::memset,
        "memcmp" => support::memcmp,
        "malloc" => support::heap_alloc,
        "calloc" => support::heap_calloc,
        "free" => support::dsp_free,
        // TVM C backend
        "TVMBackendAllocWorkspace" => backend::alloc_workspace,
        "TVMBackendFreeWorkspace" => backend::free_workspace,
        "TVMBackendGetFuncFromEnv" => backend::get_from_env,
        "TVMBackendGetFuncFromGlobalRegistry" => backend::get_global,
        "TVMBackendRegisterSystemLibSymbol" => backend::register_symbol,
        "TVMBackendParallelLaunch" => backend::parallel_launch,
        "TVMBackendParallelBarrier" => backend::parallel_barrier,
        // VM builtins, direct
        "TVMDSPBuiltinAllocStorage" => builtins::alloc_storage,
        "TVMDSPBuiltinAllocTensor" => builtins::alloc_tensor,
        "TVMDSPBuiltinAllocShapeHeap" => builtins::alloc_shape_heap,
        "TVMDSPBuiltinMakeShape" => builtins::make_shape,
        "TVMDSPBuiltinMatchShape" => builtins::match_shape,
        "TVMDSPBuiltinCheckTensorInfo" => builtins::check_tensor_info,
        "TVMDSPBuiltinCheckShapeInfo" => builtins::check_shape_info,
        "TVMDSPBuiltinNullValue" => builtins::null_value,
        // VM builtins, packed
        "TVMDSPBuiltinAllocStoragePacked" => packed::alloc_storage,
        "TVMDSPBuiltinAllocTensorPacked" => packed::alloc_tensor,
        "TVMDSPBuiltinAllocShapeHeapPacked" => packed::alloc_shape_heap,
        "TVMDSPBuiltinMakeShapePacked" => packed::make_shape,
        "TVMDSPBuiltinMatchShapePacked" => packed::match_shape,
        "TVMDSPBuiltinCheckTensorInfoPacked" => packed::check_tensor_info,
        "TVMDSPBuiltinNullValuePacked" => packed::null_value,
        "TVMDSPBuiltinCopyPacked" => packed::copy,
        "TVMDSPBuiltinMakeTuplePacked" => packed::make_tuple,
        "TVMDSPBuiltinReshapePacked" => packed::reshape,
        // Direct variants of the C++ API
        "TVMDSPBuiltinReshapeDirect" => builtins::reshape_direct,
        "TVMDSPBuiltinMakeTupleDirect" => builtins::make_tuple_direct,
        "TVMDSPStorageAlloc" => objects::storage_alloc,
        "TVMDSPStorageAllocNDArray" => objects::storage_alloc_nd_array,
        // Register file and objects
        "TVMDSPRegFileInit" => objects::reg_file_init,
        "TVMDSPRegSetAny" => objects::reg_set_any,
        "TVMDSPRegFileCleanup" => objects::reg_file_cleanup,
        "TVMFFIObjectIncRef" => objects::inc_ref,
        "TVMFFIObjectDecRef" => objects::dec_ref,
        "TVMFFIObjectFree" => objects::object_free,
        "TVMFFIAnyMove" => objects::any_move,
        "TVMFFIAnyCopy" => objects::any_copy,
        "TVMFFIAnyClear" => objects::any_clear,
        // DMA and L2
        "tvm_dsp_dma_copy" => backend::dma_copy,
        "tvm_dsp_dma_wait" => backend::dma_wait,
        "tvm_dsp_get_l2_base" => support::l2_base,
        "tvm_dsp_get_l2_size" => support::l2_size,
        // Platform and constants
        "tvm_dsp_alloc" => support::dsp_alloc,
        "tvm_dsp_free" => support::dsp_free,
        "tvm_dsp_cache_writeback" => support::cache_range,
        "tvm_dsp_cache_invalidate" => support::cache_range,
        "tvm_dsp_cache_writeback_invalidate" => support::cache_range,
        "tvm_dsp_get_free_memory" => support::free_memory,
        "TVMDSPGetConstant" => support::get_constant,
        "TVMDSPGetAllConstants" => support::get_all_constants,
        // SDK
        "CacheP_inv" => support::cache_range_typed,
        "CacheP_wb" => support::cache_range_typed,
        "CacheP_wbInv" => support::cache_range_typed,
        // TIDL support
        "getUDMADrvObjPtr" => support::udma_object,
        "appUdmaGetObj" => support::udma_object,
        "appMemAlloc" => support::app_mem_alloc,
        "appMemFree" => support::app_mem_free,
        "TVM_lockInterrupts" => support::lock_interrupts,
        "TVM_unlockInterrupts" => support::unlock_interrupts,
        "TVM_cacheWbInv" => support::cache_all,
        "TVM_cacheWbInvRegion" => support::cache_region,
        "dsp_trace_msg" => support::trace_message,
        variables:
        "g_l1_mem_addr" => support::L1_ADDRESS,
        "g_l1_mem_size" => support::L1_SIZE,
        "g_l2_mem_addr" => support::L2_ADDRESS,
        "g_l2_mem_size" => support::L2_SIZE,
        "g_l3_mem_addr" => support::L3_ADDRESS,
        "g_l3_mem_size" => support::L3_SIZE,
    }
}
