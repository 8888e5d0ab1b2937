//! Calling a module: INFER and INFER_LARGE, what their replies mean, and windows that turn out too small.

use super::exchange::Reply;
use super::{Input, Outputs, Session, device_oom};
use crate::{Buffer, Device, Error, Module, ModuleText, RunOptions};
use outboard_wire::{
    HOST_INLINE_INPUTS, Infer, InferFlags, InferLarge, InferReply, InferReplyHeader, MapWindow, MessageType, Status,
    TensorDesc,
};
use std::time::{Duration, Instant};
use zerocopy::IntoBytes;

/// Output window of a module that declares nothing: what most models need. The device names a larger need.
const FIRST_OUTPUT_WINDOW: u64 = 0x1_0000;
/// Smallest output window: the protocol has no empty one.
const OUTPUT_MINIMUM: u64 = 64;
/// How often a guessed output window is enlarged; firmware that names one output at a time needs several rounds.
const MAX_ROUNDS: usize = 8;

/// What a request says about a call, beside its tensors.
pub(super) struct Call<'a> {
    /// Name of the module, for reports.
    pub(super) name: &'a str,
    pub(super) handle: u32,
    /// 0 for the weights in the module, else what MODEL_LOAD answered.
    pub(super) model: u32,
    pub(super) flags: InferFlags,
    pub(super) limit: Duration,
}

/// What came back from the device when a call succeeded.
pub(super) struct Completed {
    pub(super) fixed: InferReplyHeader,
    pub(super) inline: Vec<TensorDesc>,
    pub(super) round_trip: Duration,
}

impl Session {
    /// Calls a module once. The outputs are views of the output window and live until the next call.
    ///
    /// # Errors
    /// As [`Session::run_with`].
    pub fn run(&mut self, module: &Module, inputs: &[Input<'_>]) -> Result<Outputs<'_>, Error> {
        self.run_with(module, inputs, &RunOptions::default())
    }

    /// Calls a module.
    ///
    /// Unless [`Session::reserve_io`] has chosen the output window, it has the size the module declares, or a small one; when
    /// the device then says that the outputs need more, the window grows and the module runs again.
    ///
    /// # Errors
    /// The handle is stale, the tensors are not what the module declares (nothing is sent), they do not fit the windows, the module
    /// fails, the device refuses, is lost or does not answer in time, or it returns an output that cannot be used.
    pub fn run_with(
        &mut self,
        module: &Module,
        inputs: &[Input<'_>],
        options: &RunOptions,
    ) -> Result<Outputs<'_>, Error> {
        self.check_epoch(module)?;
        module.check_inputs(inputs)?;
        self.make_output_window(module)?;
        let descriptors = self.place_inputs(module, inputs)?;
        let mut flags = InferFlags::repeat(options.repeat);
        if options.kv_resident {
            flags = flags.kv_resident();
        }
        let limit = options.deadline.unwrap_or(self.options.deadlines.infer);
        let call = Call { name: &module.name, handle: module.handle, model: 0, flags, limit };
        let completed = self.infer_growing(&call, &descriptors, !self.output_chosen)?;
        self.outputs(completed)
    }

    /// One inference; when the outputs need more room and the window may grow, it grows and the module runs again.
    pub(super) fn infer_growing(
        &mut self,
        call: &Call<'_>,
        inputs: &[TensorDesc],
        may_grow: bool,
    ) -> Result<Completed, Error> {
        let mut round = 1;
        loop {
            match self.infer(call, inputs) {
                Err(Error::WindowTooSmall { window: "output", needed, reserved, .. })
                    if may_grow && round < MAX_ROUNDS && needed > reserved =>
                {
                    tracing::debug!(needed, reserved, "the outputs need a larger window; running again");
                    self.grow_output(needed)?;
                    round += 1;
                }
                other => return other,
            }
        }
    }

    /// Gives the output window the declared size if that is known and possible, else a small one.
    fn make_output_window(&mut self, module: &Module) -> Result<(), Error> {
        self.make_output_window_of(module.output_bytes())
    }

    /// As [`Session::make_output_window`], for a size that may be known.
    pub(super) fn make_output_window_of(&mut self, declared: Option<u64>) -> Result<(), Error> {
        let declared = declared.map(|bytes| bytes.max(OUTPUT_MINIMUM));
        let satisfied = declared.is_some_and(|bytes| self.grow_output(bytes).is_ok());
        if satisfied || self.output_chosen { Ok(()) } else { self.grow_output(FIRST_OUTPUT_WINDOW) }
    }

    /// One inference over descriptors whose data lies in the input window.
    fn infer(&mut self, call: &Call<'_>, inputs: &[TensorDesc]) -> Result<Completed, Error> {
        let answered = self.send_inference(call, inputs);
        // Whatever became of the call, the windows are the host's again.
        self.buffers.input.reclaim();
        let taken = self.buffers.output.take_back(&mut *self.link.transport);
        let (reply, round_trip) = answered?;
        taken?;
        if reply.status() != Some(Status::Success) {
            self.capture_text(None)?;
            return Err(self.failure(call.name, &reply));
        }
        let fixed = reply.parse(InferReply::parse_fixed)?;
        self.capture_text(Some(fixed.printf_size.get()))?;
        let count = usize::try_from(fixed.num_outputs.get()).unwrap_or(usize::MAX);
        let inline = match fixed.descs_addr.get() {
            0 => reply.parse(|bytes| InferReply::inline_descriptors(bytes, count).map(<[_]>::to_vec))?,
            _ => Vec::new(),
        };
        Ok(Completed { fixed, inline, round_trip })
    }

    /// Sends INFER, or INFER_LARGE with the descriptors at the front of the input window, and waits for the reply.
    fn send_inference(&mut self, call: &Call<'_>, inputs: &[TensorDesc]) -> Result<(Reply, Duration), Error> {
        let Call { name, handle, model, flags, limit } = *call;
        let about = Some(name);
        let seq = self.link.next_seq();
        self.text = ModuleText::default();
        // Only INFER_LARGE honours the KV flag.
        let inline = inputs.len() <= HOST_INLINE_INPUTS && !flags.is_kv_resident();
        if let Some(window) = self.buffers.input.writable().filter(|_| !inline) {
            window.write(0, inputs.as_bytes())?;
        }
        let windows = self.lend()?;
        if inline {
            let request = Infer::new(seq, handle, model, flags, windows, inputs)
                .map_err(|error| Error::InputUnsupported { index: HOST_INLINE_INPUTS, reason: error.to_string() })?;
            let start = Instant::now();
            let reply = self.request(MessageType::Infer, request.bytes(), limit, about)?;
            return Ok((reply, start.elapsed()));
        }
        let count = u32::try_from(inputs.len()).unwrap_or(u32::MAX);
        let request = InferLarge::new(seq, handle, model, flags, windows, (windows.0.base, count));
        let start = Instant::now();
        let reply = self.request(MessageType::InferLarge, request.as_bytes(), limit, about)?;
        Ok((reply, start.elapsed()))
    }

    /// The error for a reply that is no success.
    fn failure(&self, module: &str, reply: &Reply) -> Error {
        let fixed = match reply.parse(InferReply::parse_fixed) {
            Ok(fixed) => fixed,
            Err(refusal) => return refusal,
        };
        let call_failed = || Error::CallFailed { module: module.to_owned(), value: fixed.return_value.get() };
        let reserved = self.buffers.output.window().size;
        match reply.status() {
            Some(Status::Call) => call_failed(),
            // The entry may return the same number for reasons of its own; then no allocation was recorded.
            Some(Status::NoMem) if fixed.oom_requested.get() == 0 => call_failed(),
            Some(Status::NoMem) => device_oom(fixed.oom_requested.get(), fixed.oom_free.get(), fixed.oom_total.get()),
            Some(Status::Size) if fixed.result_required.get() > reserved => Error::WindowTooSmall {
                window: "output",
                needed: fixed.result_required.get(),
                reserved,
                reason: String::new(),
            },
            _ => reply.refusal(self.text.text().into_owned()),
        }
    }

    /// Gives both windows to the device and returns them as a request declares them.
    fn lend(&mut self) -> Result<(MapWindow, MapWindow), Error> {
        let transport = &mut *self.link.transport;
        let window = |lent: Option<&Buffer<Device>>| lent.map(Buffer::window).unwrap_or_default();
        let input = window(self.buffers.input.hand_over(transport)?);
        Ok((input, window(self.buffers.output.hand_over(transport)?)))
    }
}
