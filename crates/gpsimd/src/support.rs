//! The routines of the runtime that a trace names: their linker names and what C++ calls them.

/// What a pull expects to find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pull {
    Tensor,
    Number,
}

/// The routines in the order of the table in `docs/reference/gpsimd-runtime.md`.
pub(crate) const ROUTINES: &[(&str, &str)] = &[
    ("_Z14customop_setupb", "customop_setup"),
    ("_Z20customop_next_tensorv", "customop_next_tensor"),
    ("_Z20customop_next_scalarv", "customop_next_scalar"),
    ("_Z17customop_next_intv", "customop_next_int"),
    ("_Z22customop_next_longlongv", "customop_next_longlong"),
    ("_Z19customop_next_floatv", "customop_next_float"),
    ("_Z22customop_return_tensorRN2at6TensorE", "customop_return_tensor"),
    ("_Z14get_dst_tensorv", "get_dst_tensor"),
    ("_Z16customop_cleanupv", "customop_cleanup"),
    ("_ZN9ArgParser14next_ucode_argI7UTensorEET_v", "ArgParser::next_ucode_arg"),
    ("_ZN7UTensor4copyERKN2at6TensorE", "UTensor::copy"),
    ("_Z16neuron_translatePvy", "neuron_translate"),
    ("_Z20neuron_translate_ctxv", "neuron_translate_ctx"),
    ("_Z31neuron_translate_mapping_lookupPvyPyS_", "neuron_translate_mapping_lookup"),
    ("_Z19_init_translate_ctxv", "_init_translate_ctx"),
    ("_Z13neuron_memcpyPvyj", "neuron_memcpy(local, address)"),
    ("_Z13neuron_memcpyyPvj", "neuron_memcpy(address, local)"),
    ("_Z24neuron_set_memcpy_methodj", "neuron_set_memcpy_method"),
    ("_Z14init_dma_queuev", "init_dma_queue"),
    ("_Z20dram_addr_to_soc_addrj", "dram_addr_to_soc_addr"),
    ("_Z22c_memcpy_data_transferPvybj", "c_memcpy_data_transfer"),
    ("_Z24vec_memcpy_data_transferPvybj", "vec_memcpy_data_transfer"),
    ("_Z17dma_data_transferPvybj", "dma_data_transfer"),
    ("_Z25memcpy_data_transfer_implPcybjb", "memcpy_data_transfer_impl"),
    ("_Z19neuron_hbm_allocatejPyj", "neuron_hbm_allocate"),
    ("_Z21neuron_hbm_deallocatey", "neuron_hbm_deallocate"),
    ("_Z23neuron_dataram_allocatejPPvj", "neuron_dataram_allocate"),
    ("_Z25neuron_dataram_deallocatePv", "neuron_dataram_deallocate"),
    ("_Z25init_neuron_hbm_allocatorv", "init_neuron_hbm_allocator"),
    ("_Z29init_neuron_dataram_allocatorv", "init_neuron_dataram_allocator"),
    ("_Z25_init_libc_heap_allocatorv", "_init_libc_heap_allocator"),
    ("_ZN2at6neuron10tcm_mallocEj", "at::neuron::tcm_malloc"),
    ("_ZN2at6neuron8tcm_freeEPv", "at::neuron::tcm_free"),
    ("_ZN3c1018GetNeuronAllocatorEv", "c10::GetNeuronAllocator"),
    ("_Z10get_cpu_idv", "get_cpu_id"),
    ("_Z13get_cpu_countv", "get_cpu_count"),
    ("_Z28switch_stack_or_call_wrapperjj", "switch_stack_or_call_wrapper"),
    ("_Z18allocate_hbm_stackjjj", "allocate_hbm_stack"),
    ("_Z20deallocate_hbm_stackv", "deallocate_hbm_stack"),
    ("saveContext", "saveContext"),
    ("switchStack", "switchStack"),
    ("switchBack", "switchBack"),
    ("fsync", "fsync"),
    ("_write_r", "_write_r"),
    ("printf", "printf"),
    ("malloc", "malloc"),
    ("free", "free"),
    ("abort", "abort"),
];

/// What C++ calls a routine.
pub(crate) fn readable(linker_name: &str) -> Option<&'static str> {
    ROUTINES.iter().find(|(name, _)| *name == linker_name).map(|(_, readable)| *readable)
}

/// Whether a function is part of the runtime, or of what compilers add to every program: diagnosis looks for its caller.
pub(crate) fn is_runtime(linker_name: &str) -> bool {
    let copies = ["memcpy", "memmove", "memset", "memcmp", "bcmp", "puts", "putchar", "vprintf", "realloc", "memalign"];
    readable(linker_name).is_some()
        || copies.contains(&linker_name)
        || ["customop_rt", "compiler_builtins"].iter().any(|name| linker_name.contains(name))
        || ["_outboard", "customop_"].iter().any(|start| linker_name.starts_with(start))
}

/// Whether a function is the runtime's, or of the headers and crates that kernels are written with: a finding is placed in its caller.
pub(crate) fn is_library(linker_name: &str) -> bool {
    let nested = linker_name.strip_prefix("_ZN").unwrap_or_default().trim_start_matches(['K', 'R', 'O', 'V', 'r']);
    is_runtime(linker_name)
        || ["2at", "3c10", "5torch", "6neuron", "8outboard"].iter().any(|space| nested.starts_with(space))
        || (linker_name.starts_with("_R")
            && ["_8customop", "_4core", "_5alloc"].iter().any(|of| linker_name.contains(of)))
}

/// The kind of a pull.
pub(crate) fn pull(linker_name: &str) -> Option<Pull> {
    match linker_name {
        "_Z20customop_next_tensorv" => Some(Pull::Tensor),
        "_Z20customop_next_scalarv"
        | "_Z17customop_next_intv"
        | "_Z22customop_next_longlongv"
        | "_Z19customop_next_floatv" => Some(Pull::Number),
        _ => None,
    }
}
