//! From the value a module returned to tensors in the caller's output window.

use crate::abi::{Any, TYPE_ARRAY, TYPE_TENSOR};
use crate::runtime::{ArrayHead, Runtime, TensorHead};
use alloc::vec::Vec;
use outboard_wire::{KvLayout, MAX_DIMS, MAX_INLINE_OUTPUTS, MapWindow, TensorDesc, round64};
use zerocopy::IntoBytes;

/// Bytes of an array object before its elements.
const ARRAY_ELEMENTS: u64 = 24;
const DESCRIPTOR: u64 = size_of::<TensorDesc>() as u64;

/// A tensor that a module returned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Returned {
    data: u64,
    size: u64,
    shape: Vec<i64>,
    code: u8,
    bits: u8,
}

/// What a module returned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Output {
    /// Neither a tensor nor an array.
    Nothing,
    /// One tensor.
    Single(Returned),
    /// An array; elements that are no tensors are `None` and take no room.
    Tuple(Vec<Option<Returned>>),
}

/// Why outputs could not be handed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OutputError {
    /// The window is too small; this many bytes would do for all outputs.
    Overflow { required: u64 },
    /// An object or its data does not lie inside the device's memory.
    OutsideMemory { address: u64 },
    /// A KV tensor is larger than its slot, or there are more than slots.
    KvLimit { index: usize, size: u64, layout: KvLayout },
}

/// Outputs in their place.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Placed {
    pub descriptors: Vec<TensorDesc>,
    /// Device address and size of the out-of-band descriptor array; 0 when descriptors go inline.
    pub out_of_band: (u64, u32),
    /// Ranges the device wrote.
    pub written: Vec<(u64, u64)>,
}

/// Reads what a module left in its output value.
pub(crate) fn read(runtime: &Runtime, value: &Any) -> Result<Output, OutputError> {
    if let Some(tensor) = tensor(runtime, value)? {
        return Ok(Output::Single(tensor));
    }
    if value.type_index != TYPE_ARRAY || value.value == 0 {
        return Ok(Output::Nothing);
    }
    let outside = OutputError::OutsideMemory { address: value.value };
    let head: ArrayHead = runtime.fetch(value.value).ok_or(outside)?;
    let count = u64::try_from(head.size).unwrap_or(0).min(crate::abi::MAX_ARRAY as u64);
    let mut elements = Vec::new();
    for index in 0..count {
        let element: Any = runtime.fetch(value.value + ARRAY_ELEMENTS + index * 16).ok_or(outside)?;
        elements.push(tensor(runtime, &element)?);
    }
    Ok(Output::Tuple(elements))
}

fn tensor(runtime: &Runtime, value: &Any) -> Result<Option<Returned>, OutputError> {
    if value.type_index != TYPE_TENSOR || value.value == 0 {
        return Ok(None);
    }
    let head: TensorHead = runtime.fetch(value.value).ok_or(OutputError::OutsideMemory { address: value.value })?;
    let ndim = usize::try_from(head.ndim).unwrap_or(0).min(MAX_DIMS);
    let shape = runtime.read_dims(head.shape, ndim).ok_or(OutputError::OutsideMemory { address: head.shape })?;
    let element = u64::from(head.dtype.bits / 8);
    let size = shape
        .iter()
        .try_fold(element, |size, dim| size.checked_mul(u64::try_from(*dim).ok()?))
        .ok_or(OutputError::OutsideMemory { address: head.data })?;
    let data = head.data.wrapping_add(head.byte_offset);
    if size > 0 && head.data != 0 && runtime.memory.bytes(data, size).is_none() {
        return Err(OutputError::OutsideMemory { address: data });
    }
    Ok(Some(Returned {
        data: if head.data == 0 { 0 } else { data },
        size,
        shape,
        code: head.dtype.code,
        bits: head.dtype.bits,
    }))
}

impl Returned {
    fn descriptor(&self, address: u64, index: usize) -> TensorDesc {
        // A tensor without data is still an output, with a zeroed descriptor.
        if self.data == 0 {
            return TensorDesc::default();
        }
        let mut descriptor =
            TensorDesc::new(address, self.size, self.code.into(), self.bits.into(), &self.shape).unwrap_or_default();
        descriptor.reserved = i32::try_from(index).unwrap_or(0).into();
        descriptor
    }
}

/// Copies every tensor to the window, each at the next multiple of 64, descriptors behind them when there are more than
/// five. The room that *all* of them need is known before the first byte is written.
pub(crate) fn place(runtime: &mut Runtime, output: &Output, window: MapWindow) -> Result<Placed, OutputError> {
    let (tensors, tuple_size): (Vec<(usize, &Returned)>, u64) = match output {
        Output::Nothing => (Vec::new(), 0),
        Output::Single(tensor) => (Vec::from([(0, tensor)]), 1),
        Output::Tuple(elements) => (
            elements.iter().enumerate().filter_map(|(index, tensor)| Some((index, tensor.as_ref()?))).collect(),
            elements.len() as u64,
        ),
    };
    let mut offset = 0u64;
    let mut offsets = Vec::with_capacity(tensors.len());
    let mut end = 0u64;
    for (_, tensor) in &tensors {
        offsets.push(offset);
        end = offset.saturating_add(if tensor.data == 0 { 0 } else { tensor.size });
        offset = round64(end).unwrap_or(u64::MAX);
    }
    let out_of_band = tuple_size > MAX_INLINE_OUTPUTS as u64;
    let descriptors_at = offset;
    let required = if out_of_band { descriptors_at.saturating_add(tuple_size * DESCRIPTOR) } else { end };
    if required > window.size {
        return Err(OutputError::Overflow { required });
    }
    let mut placed = Placed::default();
    for ((index, tensor), offset) in tensors.iter().zip(offsets) {
        let inside = window.contains(tensor.data, tensor.size);
        let address = if inside { tensor.data } else { window.base + offset };
        if !inside && tensor.data != 0 && !runtime.memory.copy(address, tensor.data, tensor.size) {
            return Err(OutputError::OutsideMemory { address: tensor.data });
        }
        placed.written.push((address, tensor.size));
        placed
            .descriptors
            .push(tensor.descriptor(address, if matches!(output, Output::Single(_)) { 0 } else { *index }));
    }
    if out_of_band {
        let at = window.base + descriptors_at;
        let size = tuple_size * DESCRIPTOR;
        let room = runtime.memory.bytes_mut(at, size).ok_or(OutputError::OutsideMemory { address: at })?;
        room.fill(0);
        let bytes = placed.descriptors.as_bytes();
        room[..bytes.len()].copy_from_slice(bytes);
        placed.out_of_band = (at, u32::try_from(size).unwrap_or(u32::MAX));
        placed.written.push((at, size));
    }
    Ok(placed)
}

/// Keeps every element but the first in the KV region and returns the first for the caller.
///
/// The original cuts a tensor that exceeds its slot and drops what exceeds the slots, silently; here both are errors, found
/// before anything is copied.
pub(crate) fn keep_in_kv(
    runtime: &mut Runtime,
    layout: KvLayout,
    elements: &[Option<Returned>],
) -> Result<Output, OutputError> {
    let kept: Vec<&Returned> = elements.iter().skip(1).flatten().filter(|tensor| tensor.data != 0).collect();
    let stride = layout.stride(kept.iter().map(|tensor| tensor.size));
    let mut places = Vec::with_capacity(kept.len());
    for (index, tensor) in kept.iter().enumerate() {
        let place = layout.address(index, tensor.size, stride);
        places.push(place.ok_or(OutputError::KvLimit { index, size: tensor.size, layout })?);
    }
    for (tensor, place) in kept.iter().zip(places) {
        if !runtime.memory.copy(place, tensor.data, tensor.size) {
            return Err(OutputError::OutsideMemory { address: tensor.data });
        }
    }
    Ok(elements.first().cloned().flatten().map_or(Output::Nothing, Output::Single))
}
