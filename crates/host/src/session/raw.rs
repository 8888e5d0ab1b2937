//! Calls in the terms of the wire: numbers instead of handles, element types as DLPack writes them, data anywhere.
//!
//! The published client library lets its callers say all of this ([`crate::client`]); what it says is checked here before
//! anything is sent.

use super::run::Call;
use super::{Outputs, Session};
use crate::module::descriptor_region;
use crate::{Error, Module, Place};
use outboard_wire::{InferFlags, MAX_DIMS, MAX_INPUTS, TensorDesc, round64};

/// Where the data of an input is.
#[derive(Debug, Clone, Copy)]
pub enum RawData<'a> {
    /// Anywhere: it is copied into the input window.
    Bytes(&'a [u8]),
    /// In the input window, from this byte on: nothing is copied.
    Window(usize),
    /// In the device's KV region: the k-th such input of a call is the k-th tensor there.
    Resident,
}

/// An input as the published descriptor has it.
#[derive(Debug, Clone, Copy)]
pub struct RawTensor<'a> {
    /// Where its data is.
    pub data: RawData<'a>,
    /// Bytes of data.
    pub size: u64,
    /// DLPack's code of the element kind, and the bits of an element.
    pub dtype: (i32, i32),
    /// Dimensions.
    pub dims: &'a [i64],
}

/// A call in numbers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RawCall<'a> {
    pub(crate) module: &'a Module,
    pub(crate) model: u32,
    pub(crate) flags: u32,
    /// Whether the input, and the output window may be replaced by larger ones.
    pub(crate) may_grow: (bool, bool),
}

impl RawTensor<'_> {
    /// Bytes that element type and shape need; `None` when there is no such number.
    pub fn bytes(&self) -> Option<u64> {
        let bits = u64::try_from(self.dtype.1).ok().filter(|bits| *bits > 0)?;
        self.dims.iter().try_fold(bits.div_ceil(8), |bytes, dim| bytes.checked_mul(u64::try_from(*dim).ok()?))
    }

    fn check(&self, index: usize) -> Result<(), Error> {
        let unsupported = |reason: String| Error::InputUnsupported { index, reason };
        if self.dims.len() > MAX_DIMS {
            let dims = self.dims.len();
            return Err(unsupported(format!("it has {dims} dimensions; the protocol carries at most {MAX_DIMS}")));
        }
        let (code, bits) = self.dtype;
        let needed = self.bytes().ok_or_else(|| {
            unsupported(format!("type {code} of {bits} bits and shape {:?} make no number of bytes", self.dims))
        })?;
        if needed > self.size {
            let given = self.size;
            return Err(unsupported(format!(
                "its shape needs {needed} bytes, but it has {given}: the device would read beyond it"
            )));
        }
        Ok(())
    }
}

impl Session {
    /// Address in this process and size of the input window; `None` before there is one.
    pub(crate) fn input_window(&self) -> Option<(*mut u8, usize)> {
        self.buffers.input.host().map(|window| (window.as_ptr(), window.len()))
    }

    /// As [`Session::input_window`], for a caller who is going to write there at any time.
    pub(crate) fn expose_input_window(&mut self) -> Option<(*mut u8, usize)> {
        self.buffers.input.writable().map(|window| (window.expose(), window.len()))
    }

    /// Where a range of the input window lies; `None` when it has no such range.
    pub(crate) fn input_place(&self, offset: usize, len: usize) -> Option<Place> {
        self.buffers.input.host()?.place(offset, len).ok()
    }

    /// Address in this process and size of the output window; `None` before there is one.
    pub(crate) fn output_window(&self) -> Option<(*mut u8, usize)> {
        self.buffers.output.host().map(|window| (window.as_ptr(), window.len()))
    }

    /// Starts the device if it is down and says which of its starts this is, so that a caller sees a restart.
    pub(crate) fn running_epoch(&mut self) -> Result<u64, Error> {
        self.ensure_running()?;
        Ok(self.epoch.unwrap_or(0))
    }

    /// Calls a module as [`Session::run_with`] does, with inputs in the terms of the wire.
    pub(crate) fn call_raw(&mut self, call: &RawCall<'_>, inputs: &[RawTensor<'_>]) -> Result<Outputs<'_>, Error> {
        let module = call.module;
        self.check_epoch(module)?;
        check_declared(module, inputs)?;
        let (descriptors, displaced) = self.place_raw(call, inputs)?;
        let may_grow = call.may_grow.1 && !self.output_chosen;
        if may_grow {
            self.make_output_window_of(module.output_bytes())?;
        }
        let wire = Call {
            name: &module.name,
            handle: module.handle,
            model: call.model,
            flags: InferFlags(call.flags),
            limit: self.options.deadlines.infer,
        };
        let completed = self.infer_growing(&wire, &descriptors, may_grow);
        if let Some(window) = self.buffers.input.writable() {
            for (offset, bytes) in &displaced {
                window.write(*offset, bytes)?;
            }
        }
        self.outputs(completed?)
    }

    /// Puts the inputs into the input window and describes them; returns the buffers they displaced, which must be put back.
    fn place_raw(
        &mut self,
        call: &RawCall<'_>,
        inputs: &[RawTensor<'_>],
    ) -> Result<(Vec<TensorDesc>, Vec<Displaced>), Error> {
        let front = call.module.input_data_offset().max(descriptor_region(inputs.len()));
        let mut own = Vec::new();
        for (index, input) in inputs.iter().enumerate() {
            if let RawData::Window(offset) = input.data {
                if (offset as u64) < front {
                    let reason = "its data lies in the input buffer where this call's descriptors go".to_owned();
                    return Err(Error::InputUnsupported { index, reason });
                }
                own.push((offset as u64, input.size));
            }
        }
        own.sort_unstable();
        let staged = self.staged_ranges();
        let mut used = [own.as_slice(), &staged].concat();
        used.sort_unstable();
        let (mut places, mut needed) = places(&used, front, lengths(inputs));
        // What lies in the window would be lost with it.
        if call.may_grow.0 && used.is_empty() {
            self.grow_input(needed)?;
        }
        let reserved = self.buffers.input.window().size;
        let mut displaced = Vec::new();
        if needed > reserved {
            // Without room beside them, copies take the place of buffers that this call does not use.
            (places, needed) = self::places(&own, front, lengths(inputs));
            if needed > reserved {
                let reason = "its size was fixed by the first use of it".to_owned();
                return Err(Error::WindowTooSmall { window: "input", needed, reserved, reason });
            }
            displaced = self.displaced(&staged, &places, inputs)?;
        }
        Ok((self.describe(inputs, &places)?, displaced))
    }

    /// Copies of the buffers in which copied inputs are going to be placed.
    fn displaced(
        &self,
        staged: &[(u64, u64)],
        places: &[u64],
        inputs: &[RawTensor<'_>],
    ) -> Result<Vec<Displaced>, Error> {
        let Some(window) = self.buffers.input.host() else { return Ok(Vec::new()) };
        let copies: Vec<(u64, u64)> =
            places.iter().zip(lengths(inputs)).filter_map(|(place, len)| Some((*place, len?))).collect();
        let meets = |(start, len): &(u64, u64)| {
            copies.iter().any(|(place, copied)| *place < start + len && *start < place + copied)
        };
        staged
            .iter()
            .filter(|range| meets(range))
            .map(|(start, len)| {
                let (start, len) = (usize::try_from(*start), usize::try_from(*len));
                let (start, len) = (start.unwrap_or(usize::MAX), len.unwrap_or(usize::MAX));
                Ok((start, window.bytes(start, len)?.to_vec()))
            })
            .collect()
    }

    /// Copies what must be copied to its place and describes all inputs.
    fn describe(&mut self, inputs: &[RawTensor<'_>], places: &[u64]) -> Result<Vec<TensorDesc>, Error> {
        let resident = || inputs.iter().filter(|input| matches!(input.data, RawData::Resident));
        let layout = self.link.transport.kv_layout();
        let stride = layout.stride(resident().map(|input| input.size));
        let base = self.buffers.input.window().base;
        let mut nth = 0;
        let mut descriptors = Vec::with_capacity(inputs.len());
        for (index, (input, place)) in inputs.iter().zip(places).enumerate() {
            let unsupported = |reason: String| Error::InputUnsupported { index, reason };
            let address = match input.data {
                RawData::Bytes(bytes) => {
                    self.copy_in(usize::try_from(*place).unwrap_or(usize::MAX), bytes)?;
                    base + place
                }
                RawData::Window(offset) => base + offset as u64,
                RawData::Resident => {
                    nth += 1;
                    layout.address(nth - 1, input.size, stride).ok_or_else(|| {
                        let size = input.size;
                        unsupported(format!("{size} bytes as tensor {} do not fit the KV region ({layout})", nth - 1))
                    })?
                }
            };
            let (code, bits) = input.dtype;
            let descriptor = TensorDesc::new(address, input.size, code, bits, input.dims);
            descriptors.push(descriptor.ok_or_else(|| unsupported("it has too many dimensions".to_owned()))?);
        }
        Ok(descriptors)
    }
}

/// Bytes of a buffer that a call displaced, and where they belong.
type Displaced = (usize, Vec<u8>);

/// Lengths of the inputs that are copied.
fn lengths<'a>(inputs: &'a [RawTensor<'_>]) -> impl Iterator<Item = Option<u64>> + 'a {
    inputs.iter().map(|input| match input.data {
        RawData::Bytes(bytes) => Some(bytes.len() as u64),
        RawData::Window(_) | RawData::Resident => None,
    })
}

/// Places for the inputs that are copied (a length) between the ranges in use, which are sorted; and how large the window must be.
fn places(used: &[(u64, u64)], front: u64, copied: impl Iterator<Item = Option<u64>>) -> (Vec<u64>, u64) {
    let up = |value: u64| round64(value).unwrap_or(!63);
    let mut next = up(front);
    let mut needed = used.iter().map(|(start, len)| start.saturating_add(*len)).fold(front, u64::max);
    let places = copied
        .map(|len| {
            let Some(len) = len else { return 0 };
            for (start, taken) in used {
                if *start < next.saturating_add(len) && next < start.saturating_add(*taken) {
                    next = up(start.saturating_add(*taken));
                }
            }
            let place = next;
            next = up(place.saturating_add(len));
            needed = needed.max(place.saturating_add(len));
            place
        })
        .collect();
    (places, needed)
}

/// Whether the tensors can be, and are, what the module declares.
fn check_declared(module: &Module, inputs: &[RawTensor<'_>]) -> Result<(), Error> {
    if inputs.len() > MAX_INPUTS {
        let reason = format!("a call has at most {MAX_INPUTS} inputs");
        return Err(Error::InputUnsupported { index: MAX_INPUTS, reason });
    }
    for (index, input) in inputs.iter().enumerate() {
        input.check(index)?;
    }
    module.check_count(inputs.len())?;
    let Some(manifest) = &module.manifest else { return Ok(()) };
    let given = inputs.iter().map(|input| (input.dtype, input.dims.into()));
    let Some((index, spec)) = manifest.first_mismatch(given) else { return Ok(()) };
    let got = inputs.get(index).map_or_else(String::new, |input| {
        let (code, bits) = input.dtype;
        format!("type {code} of {bits} bits, shape {:?}", input.dims)
    });
    Err(Error::InputMismatch {
        module: module.name.clone(),
        index,
        name: spec.name.clone(),
        expected: spec.kind(),
        got,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_go_between_the_ranges_in_use_at_multiples_of_64() {
        let used = [(320, 10), (384, 64)];
        let (places, needed) = places(&used, 320, [Some(1), None, Some(65), Some(0)].into_iter());
        assert_eq!(places, [448, 0, 512, 640]);
        assert_eq!(needed, 640);
    }

    #[test]
    fn a_gap_that_is_too_short_is_skipped() {
        let (found, _) = places(&[(384, 64)], 320, [Some(64), Some(64)].into_iter());
        assert_eq!(found, [320, 448]);
        let (found, _) = places(&[(384, 64)], 320, [Some(65)].into_iter());
        assert_eq!(found, [448]);
    }

    #[test]
    fn the_bytes_of_a_tensor_round_up_to_whole_ones_and_never_overflow() {
        let bytes = |bits, dims: &[i64]| RawTensor { data: RawData::Resident, size: 0, dtype: (0, bits), dims }.bytes();
        assert_eq!(bytes(4, &[3]), Some(3));
        assert_eq!(bytes(32, &[]), Some(4));
        assert_eq!(bytes(32, &[0, i64::MAX]), Some(0));
        assert_eq!(bytes(8, &[i64::MAX, i64::MAX]), None);
        assert_eq!(bytes(0, &[1]), None);
        assert_eq!(bytes(8, &[-1]), None);
    }
}
