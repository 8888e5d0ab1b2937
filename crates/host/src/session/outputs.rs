//! Outputs of a call: descriptors of the device, copied out, checked against the output window, then viewed.

use super::Session;
use super::run::Completed;
use crate::{Buffer, Error, Host, ModuleText, Place};
use outboard_tensor::{DType, Shape, Tensor, TensorView};
use outboard_wire::{MAX_DIMS, MAX_INPUTS, TensorDesc};
use std::sync::atomic::Ordering;
use std::time::Duration;
use zerocopy::IntoBytes;

/// Most outputs that are believed: what a tuple of the runtime holds.
const MAX_OUTPUTS: usize = MAX_INPUTS;

/// The outputs of a call. Views live as long as this value, which ends with the next call of the session.
#[derive(Debug)]
pub struct Outputs<'s> {
    session: &'s Session,
    outputs: Vec<Output>,
    cycles: u64,
    round_trip: Duration,
}

#[derive(Debug)]
struct Output {
    dtype: DType,
    shape: Shape,
    /// First byte in the output window.
    offset: usize,
    len: usize,
    /// Position in the tuple the module returned.
    index: usize,
}

impl Outputs<'_> {
    /// Number of outputs.
    pub fn len(&self) -> usize {
        self.outputs.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.outputs.is_empty()
    }

    /// An output where the device left it: nothing is copied.
    pub fn view(&self, position: usize) -> Option<TensorView<'_>> {
        let output = self.outputs.get(position)?;
        let window = self.session.buffers.output.host()?;
        let bytes = window.bytes(output.offset, output.len).ok()?;
        TensorView::new(output.dtype, &output.shape, bytes).ok()
    }

    /// All outputs, as views.
    pub fn views(&self) -> impl Iterator<Item = TensorView<'_>> {
        (0..self.len()).filter_map(|position| self.view(position))
    }

    /// A copy of an output.
    pub fn to_tensor(&self, position: usize) -> Option<Tensor> {
        let view = self.view(position)?;
        self.session.meter.to_host.fetch_add(view.bytes().len() as u64, Ordering::Relaxed);
        Some(view.to_tensor())
    }

    /// Position of an output in the tuple the module returned; differs from its position here when the tuple has empty places.
    pub fn tuple_index(&self, position: usize) -> Option<usize> {
        self.outputs.get(position).map(|output| output.index)
    }

    /// Address in this process of an output's first byte, for interfaces that hand out addresses: valid as an address until
    /// the session ends, with these contents until the next call.
    pub fn address(&self, position: usize) -> Option<*mut u8> {
        let output = self.outputs.get(position)?;
        Some(self.session.buffers.output.host()?.as_ptr().wrapping_add(output.offset))
    }

    /// As [`Outputs::address`], for holders who outlive the session.
    pub fn place(&self, position: usize) -> Option<Place> {
        let output = self.outputs.get(position)?;
        self.session.buffers.output.host()?.place(output.offset, output.len).ok()
    }

    /// Cycles of the device clock that the module ran.
    pub fn cycles(&self) -> u64 {
        self.cycles
    }

    /// Time from sending the request to receiving its reply.
    pub fn round_trip(&self) -> Duration {
        self.round_trip
    }

    /// What the module printed.
    pub fn text(&self) -> &ModuleText {
        self.session.module_text()
    }
}

impl Session {
    /// Checks what the device says about its outputs.
    pub(super) fn outputs(&self, completed: Completed) -> Result<Outputs<'_>, Error> {
        let Completed { fixed, inline, round_trip } = completed;
        let window = self.buffers.output.host();
        let rejected = |index, reason: String| Error::OutputRejected { index, reason };
        let window = window.ok_or_else(|| rejected(0, "there is no output window".to_owned()))?;
        let count = usize::try_from(fixed.num_outputs.get()).unwrap_or(usize::MAX);
        if count > MAX_OUTPUTS {
            return Err(rejected(
                MAX_OUTPUTS,
                format!("{count} outputs are more than the {MAX_OUTPUTS} a tuple holds"),
            ));
        }
        let descriptors = if fixed.descs_addr.get() == 0 {
            inline
        } else {
            table(window, fixed.descs_addr.get(), fixed.descs_size.get(), count)
                .map_err(|reason| rejected(0, reason))?
        };
        let outputs = descriptors
            .iter()
            .enumerate()
            .map(|(index, descriptor)| output(window, descriptor).map_err(|reason| rejected(index, reason)))
            .collect::<Result<_, _>>()?;
        Ok(Outputs { session: self, outputs, cycles: fixed.cycles.get(), round_trip })
    }
}

/// Copies a descriptor array out of the output window.
fn table(window: &Buffer<Host>, address: u64, size: u32, count: usize) -> Result<Vec<TensorDesc>, String> {
    let need = count * size_of::<TensorDesc>();
    if (size as usize) < need {
        return Err(format!("a descriptor array of {size} bytes is too short for {count} outputs"));
    }
    let outside = || format!("the descriptor array at {address:#x}, {size} bytes, is not in the output window");
    window.offset_of(address, size.into()).ok_or_else(outside)?;
    let offset = window.offset_of(address, need as u64).ok_or_else(outside)?;
    let mut descriptors = vec![TensorDesc::default(); count];
    window.read(offset, descriptors.as_mut_bytes()).map_err(|error| error.to_string())?;
    Ok(descriptors)
}

/// Checks one descriptor: known element type, sane shape, size of both, place in the window.
fn output(window: &Buffer<Host>, descriptor: &TensorDesc) -> Result<Output, String> {
    let (address, size) = (descriptor.data_addr.get(), descriptor.data_size.get());
    let dtype = DType::from_dlpack(descriptor.dtype_code.get(), descriptor.dtype_bits.get());
    let dtype = dtype.map_err(|error| error.to_string())?;
    let ndim = descriptor.ndim.get();
    if !(0..=MAX_DIMS).contains(&usize::try_from(ndim).unwrap_or(usize::MAX)) {
        return Err(format!("it has {ndim} dimensions; a descriptor carries at most {MAX_DIMS}"));
    }
    let shape = Shape::from_signed(descriptor.shape()).map_err(|error| error.to_string())?;
    let len = shape.bytes(dtype).map_err(|error| error.to_string())?;
    if len as u64 != size {
        return Err(format!("a {dtype} tensor of shape ({shape}) has {len} bytes, but the device says {size}"));
    }
    let offset = window
        .offset_of(address, size)
        .ok_or_else(|| format!("its {size} bytes at {address:#x} are not in the output window"))?;
    let index = usize::try_from(descriptor.reserved.get()).unwrap_or(0);
    Ok(Output { dtype, shape, offset, len, index })
}
