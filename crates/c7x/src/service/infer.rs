//! INFER and INFER_LARGE: check, build inputs, run, hand the outputs over.

use super::{Service, oom_fields};
use crate::abi::pointer;
use crate::abi::{Any, DataType, Device as TensorDevice, MAX_ALLOCATED_DIMS, NdArray, Object, TYPE_TENSOR};
use crate::loader::{ENTRY, PROFILE};
use crate::models::Constants;
use crate::outputs::{self, Output, OutputError};
use crate::platform::{Entry, Platform};
use crate::pool::{Owner, PoolId};
use crate::runtime::Runtime;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use outboard_wire::{
    Infer, InferFlags, InferHeader, InferLarge, InferReply, MAX_INLINE_INPUTS, MAX_INLINE_OUTPUTS, MAX_INPUTS,
    MapWindow, Status, TensorDesc,
};
use zerocopy::FromBytes;

/// Return value of an entry that ran out of memory.
const ENTRY_NO_MEMORY: i32 = -3;

/// A checked request.
struct Job {
    handle: u32,
    flags: InferFlags,
    result: MapWindow,
    entry: u64,
    profile: Option<u64>,
    constants: u64,
    /// INFER_LARGE runs all repetitions and honours the KV bit.
    large: bool,
}

/// How the runs of a job ended.
struct Ran {
    code: i32,
    cycles: u64,
}

impl<P: Platform> Service<P> {
    pub(super) fn infer(&mut self, seq: u32, message: &[u8]) {
        let Ok(request) = InferHeader::parse(message) else { return self.refuse(0x21, seq) };
        let mut reply = InferReply::new(seq, Status::Success);
        let count = usize::try_from(request.num_inputs.get()).unwrap_or(usize::MAX);
        let windows = (request.input_window(), request.result_window());
        let flags = InferFlags(request.flags.get());
        let outcome = (|| {
            if request.module_handle.get() == 0 {
                return Err(Status::Handle);
            }
            if count > MAX_INLINE_INPUTS {
                return Err(Status::Tensor);
            }
            let descriptors = Infer::descriptors(message, count).map_err(|_| Status::Tensor)?;
            self.check_windows(windows)?;
            let job = self.job(request.module_handle.get(), request.model_id.get(), flags, windows.1, false)?;
            self.run_job(&job, windows.0, descriptors, &mut reply)
        })();
        self.finish(reply, outcome);
    }

    pub(super) fn infer_large(&mut self, seq: u32, message: &[u8]) {
        let Ok(request) = InferLarge::parse(message) else { return self.refuse(0x23, seq) };
        let mut reply = InferReply::new(seq, Status::Success);
        reply.fixed.return_value = (-1).into();
        let count = usize::try_from(request.num_inputs.get()).unwrap_or(usize::MAX);
        let windows = (request.input_window(), request.result_window());
        let flags = InferFlags(request.flags.get());
        let outcome = (|| {
            if request.module_handle.get() == 0 {
                return Err(Status::Handle);
            }
            if count == 0 || count > MAX_INPUTS {
                return Err(Status::Tensor);
            }
            self.check_windows(windows)?;
            let descriptors = self.fetch_descriptors(windows.0, request.descs_addr.get(), count)?;
            let job = self.job(request.module_handle.get(), request.model_id.get(), flags, windows.1, true)?;
            self.run_job(&job, windows.0, &descriptors, &mut reply)
        })();
        self.finish(reply, outcome);
    }

    /// Seals and sends a reply; a failure returns no outputs.
    fn finish(&mut self, mut reply: InferReply, outcome: Result<(), Status>) {
        if let Err(status) = outcome {
            reply.fixed.header.status_code = status.code().into();
            reply.fixed.num_outputs = 0.into();
        }
        reply.fixed.printf_size = self.runtime.borrow().printf().len().into();
        self.platform.send(reply.seal());
    }

    fn check_windows(&self, (input, result): (MapWindow, MapWindow)) -> Result<(), Status> {
        let carveout = self.runtime.borrow().memory.map().carveout;
        let inside = |window: MapWindow| carveout.contains(window.base, window.size);
        if inside(input) && inside(result) { Ok(()) } else { Err(Status::Addr) }
    }

    /// Copies the descriptors out of shared memory before anything looks at them.
    fn fetch_descriptors(&mut self, input: MapWindow, address: u64, count: usize) -> Result<Vec<TensorDesc>, Status> {
        let size = (count * size_of::<TensorDesc>()) as u64;
        if !input.contains(address, size) {
            return Err(Status::Addr);
        }
        self.platform.invalidate(address, size);
        let runtime = self.runtime.borrow();
        let bytes = runtime.memory.bytes(address, size).ok_or(Status::Addr)?;
        let read = |chunk: &[u8]| TensorDesc::read_from_bytes(chunk).unwrap_or_default();
        Ok(bytes.chunks_exact(size_of::<TensorDesc>()).map(read).collect())
    }

    fn job(
        &mut self,
        handle: u32,
        model: u32,
        flags: InferFlags,
        result: MapWindow,
        large: bool,
    ) -> Result<Job, Status> {
        let module = self.modules.get(&handle).ok_or(Status::Handle)?;
        let (needs, runs) = (module.image.machine(), self.platform.machine());
        if needs != runs {
            self.runtime.borrow_mut().reset_printf();
            self.explain(&format!("ERROR: module {handle} is {needs} code, which loads and verifies here; this device runs {runs} code only"));
            return Err(Status::Call);
        }
        let Some(entry) = module.image.symbol(ENTRY) else {
            self.runtime.borrow_mut().reset_printf();
            self.explain(&format!("ERROR: module {handle} does not export {ENTRY}"));
            return Err(Status::Symbol);
        };
        let profile = module.image.symbol(PROFILE);
        let constants = match model {
            0 => self.embedded.get(&handle).copied(),
            id => Some(*self.models.get(&id).ok_or(Status::Handle)?),
        };
        let Constants { address, count } = constants.unwrap_or(Constants { address: 0, count: 0 });
        self.runtime.borrow_mut().set_constants(address, count);
        Ok(Job { handle, flags, result, entry, profile, constants: address, large })
    }

    fn run_job(
        &mut self,
        job: &Job,
        input: MapWindow,
        descriptors: &[TensorDesc],
        reply: &mut InferReply,
    ) -> Result<(), Status> {
        for (index, descriptor) in descriptors.iter().enumerate() {
            let (address, size) = (descriptor.data_addr.get(), descriptor.data_size.get());
            if address != 0 && size != 0 && !input.accepts_input(address, size) {
                self.platform.trace(format_args!("[COMPUTE] input {index} at {address:#x} is outside its window"));
                return Err(Status::Tensor);
            }
            self.platform.invalidate(address, size);
        }
        self.reclaim(job.handle);
        self.runtime.borrow_mut().reset_printf();
        self.runtime.borrow_mut().take_exhausted();
        let Some((inputs, output)) = self.build_inputs(job.handle, descriptors) else {
            self.report_exhausted(reply);
            return Err(Status::NoMem);
        };
        let entry = Entry {
            function: job.entry,
            inputs,
            num_inputs: i32::try_from(descriptors.len()).unwrap_or(i32::MAX),
            constants: job.constants,
            output,
        };
        let (handle, inputs) = (job.handle, descriptors.len());
        self.platform.trace(format_args!("[COMPUTE] INFER module={handle} inputs={inputs}"));
        let ran = self.run_entry(job, &entry);
        self.platform.trace(format_args!("[COMPUTE] cg_main_dsp returned {}, {} cycles", ran.code, ran.cycles));
        reply.fixed.return_value = ran.code.into();
        reply.fixed.cycles = ran.cycles.into();
        if ran.code != 0 {
            self.jobs_failed = self.jobs_failed.wrapping_add(1);
            let exhausted = self.report_exhausted(reply);
            return Err(if exhausted || ran.code == ENTRY_NO_MEMORY { Status::NoMem } else { Status::Call });
        }
        self.hand_over(job, output, reply)?;
        self.jobs_completed = self.jobs_completed.wrapping_add(1);
        Ok(())
    }

    /// Builds the input tensors, the array of them, and room for the output value.
    fn build_inputs(&mut self, handle: u32, descriptors: &[TensorDesc]) -> Option<(u64, u64)> {
        let mut runtime = self.runtime.borrow_mut();
        let owner = Owner::Call(handle);
        let stride = size_of::<NdArray>() as u64;
        let tensors = runtime.allocate(PoolId::Main, stride * descriptors.len().max(1) as u64, 64, owner)?;
        let values = runtime.allocate(PoolId::Main, 16 * (descriptors.len() as u64 + 1), 64, owner)?;
        for (index, descriptor) in descriptors.iter().enumerate() {
            let at = tensors + index as u64 * stride;
            runtime.place(at, input_tensor(at, descriptor))?;
            runtime.place(values + index as u64 * 16, Any { type_index: TYPE_TENSOR, padding: 0, value: at })?;
        }
        let output = values + descriptors.len() as u64 * 16;
        runtime.place(output, Any::NONE)?;
        Some((values, output))
    }

    /// Runs the entry as often as asked. INFER stops at the first failure and counts the last run's cycles; INFER_LARGE
    /// counts all of them.
    fn run_entry(&mut self, job: &Job, entry: &Entry) -> Ran {
        let repeat = job.flags.repeat_count();
        let mut ran = Ran { code: 0, cycles: 0 };
        for iteration in 1..=repeat {
            if iteration > 1 {
                Runtime::drop_registers(&self.runtime, job.handle);
                self.runtime.borrow_mut().release_owner(Owner::Run(job.handle));
            }
            let start = self.platform.cycles();
            {
                let _active = Runtime::activate(&self.runtime, job.handle);
                ran.code = match self.modules.get(&job.handle) {
                    Some(module) => self.platform.call(job.handle, &module.image, entry),
                    None => -1, // the job was made from this module, and one message is handled at a time
                };
            }
            let cycles = self.platform.cycles().wrapping_sub(start);
            ran.cycles = if job.large { ran.cycles.wrapping_add(cycles) } else { cycles };
            if !job.large {
                if repeat > 1 {
                    self.print(&iteration_line(iteration, repeat, cycles));
                }
                self.print_profile(job);
            }
            if ran.code != 0 {
                break;
            }
        }
        if job.large {
            self.print_profile(job);
        }
        ran
    }

    fn print(&mut self, text: &str) {
        self.runtime.borrow_mut().print(text.as_bytes(), text.len() as u64);
    }

    fn print_profile(&mut self, job: &Job) {
        if let (Some(profile), Some(module)) = (job.profile, self.modules.get(&job.handle)) {
            let _active = Runtime::activate(&self.runtime, job.handle);
            self.platform.call_void(job.handle, &module.image, profile);
        }
    }

    /// Copies the sticky record of exhausted memory into the reply; whether there was one.
    fn report_exhausted(&mut self, reply: &mut InferReply) -> bool {
        let Some(full) = self.runtime.borrow_mut().take_exhausted() else { return false };
        let fixed = &mut reply.fixed;
        [fixed.oom_requested, fixed.oom_free, fixed.oom_total] = oom_fields(&full);
        true
    }

    fn hand_over(&mut self, job: &Job, output: u64, reply: &mut InferReply) -> Result<(), Status> {
        let placed = {
            let mut runtime = self.runtime.borrow_mut();
            let value: Any = runtime.fetch(output).unwrap_or(Any::NONE);
            outputs::read(&runtime, &value).and_then(|returned| {
                let returned = match returned {
                    Output::Tuple(elements) if job.large && job.flags.is_kv_resident() => {
                        outputs::keep_in_kv(&mut runtime, self.limits.kv, &elements)?
                    }
                    other => other,
                };
                outputs::place(&mut runtime, &returned, job.result)
            })
        };
        let placed = match placed {
            Ok(placed) => placed,
            Err(error) => return Err(self.explain_output(error, job.result, reply)),
        };
        for (address, size) in &placed.written {
            self.platform.write_back(*address, *size);
        }
        reply.fixed.num_outputs = u32::try_from(placed.descriptors.len()).unwrap_or(u32::MAX).into();
        let (address, size) = placed.out_of_band;
        reply.fixed.descs_addr = address.into();
        reply.fixed.descs_size = size.into();
        if address == 0 {
            for (slot, descriptor) in
                reply.descriptors.iter_mut().zip(placed.descriptors.iter().take(MAX_INLINE_OUTPUTS))
            {
                *slot = *descriptor;
            }
        }
        Ok(())
    }

    fn explain_output(&mut self, error: OutputError, window: MapWindow, reply: &mut InferReply) -> Status {
        let (line, status) = match error {
            OutputError::Overflow { required } => {
                reply.fixed.result_required = required.into();
                let text = format!("ERROR: outputs need {required} bytes, the output window has {}", window.size);
                (text, Status::Size)
            }
            OutputError::OutsideMemory { address } => {
                (format!("ERROR: an output at {address:#x} lies outside the device's memory"), Status::Addr)
            }
            OutputError::KvLimit { index, size, layout } => (
                format!("ERROR: KV tensor {index} of {size} bytes does not fit the KV region ({layout})"),
                Status::Size,
            ),
        };
        self.explain(&line);
        status
    }
}

/// An input as a module sees it: one reference, no deleter, data where the descriptor says.
fn input_tensor(at: u64, descriptor: &TensorDesc) -> NdArray {
    let mut shape_storage = [0; MAX_ALLOCATED_DIMS];
    for (slot, dim) in shape_storage.iter_mut().zip(descriptor.shape()) {
        *slot = dim;
    }
    let [code, ..] = descriptor.dtype_code.get().to_le_bytes();
    let [bits, ..] = descriptor.dtype_bits.get().to_le_bytes();
    NdArray {
        object: Object { type_index: TYPE_TENSOR, ref_counter: 1, deleter: None },
        data: pointer(descriptor.data_addr.get()),
        device: TensorDevice::default(),
        ndim: i32::try_from(descriptor.dims()).unwrap_or(0),
        dtype: DataType { code, bits, lanes: 1 },
        shape: pointer(at + core::mem::offset_of!(NdArray, shape_storage) as u64),
        strides: core::ptr::null_mut(),
        byte_offset: 0,
        shape_storage,
        strides_storage: [0; MAX_ALLOCATED_DIMS],
        flags: 0,
        padding: 0,
        storage: core::ptr::null_mut(),
    }
}

/// `[Iteration i/N] c cycles (m.mm ms)`; the milliseconds assume 1 GHz, as in the original.
fn iteration_line(iteration: u32, repeat: u32, cycles: u64) -> String {
    let (whole, hundredths) = (cycles / 1_000_000, cycles % 1_000_000 / 10_000);
    format!("[Iteration {iteration}/{repeat}] {cycles} cycles ({whole}.{hundredths:02} ms)\n")
}
