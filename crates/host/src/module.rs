//! Handles of loaded modules and what is known about their calls.

use crate::session::Input;
use crate::{Error, Manifest};
use outboard_wire::{MAX_INPUTS, TensorDesc, round64};
use std::path::PathBuf;

/// I/O sizes that a module declares (`tvm_dsp_io_meta`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct IoSizes {
    /// Capacity the input window needs, descriptors included.
    pub input_bytes: u64,
    /// Capacity the output window needs, descriptors included.
    pub output_bytes: u64,
    /// Number of inputs.
    pub num_inputs: u32,
    /// Number of outputs.
    pub num_outputs: u32,
    /// Whether the sizes are exact rather than upper bounds.
    pub exact: bool,
}

/// A module in device memory. Ends with [`crate::Session::unload`], a restart of the device, or the session.
#[derive(Debug)]
pub struct Module {
    pub(crate) handle: u32,
    /// Which start of which device the handle belongs to; unique in this process.
    pub(crate) epoch: u64,
    pub(crate) name: String,
    pub(crate) io: Option<IoSizes>,
    pub(crate) manifest: Option<Manifest>,
    pub(crate) warnings: Vec<String>,
    /// The file it was loaded from, when it was one.
    pub(crate) path: Option<PathBuf>,
}

impl Module {
    /// Number by which the device knows it.
    pub fn handle(&self) -> u32 {
        self.handle
    }

    /// Name it was loaded under.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// I/O sizes it declares.
    pub fn io(&self) -> Option<&IoSizes> {
        self.io.as_ref()
    }

    /// Names, element types and shapes of its tensors, when the file carries them.
    pub fn manifest(&self) -> Option<&Manifest> {
        self.manifest.as_ref()
    }

    /// What a person should know about this load, e.g. a window that could not be reserved.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// First byte of the input window that tensors may use: descriptors of the declared inputs go before.
    pub fn input_data_offset(&self) -> u64 {
        let declared = self.io.map_or(0, |io| io.num_inputs);
        descriptor_region(if declared == 0 { 4 } else { declared as usize })
    }

    /// Bytes of the output window that are known to be needed: from the metadata, else from the manifest.
    pub(crate) fn output_bytes(&self) -> Option<u64> {
        if let Some(io) = self.io {
            return Some(io.output_bytes);
        }
        let outputs = &self.manifest.as_ref()?.outputs;
        outputs
            .iter()
            .try_fold(descriptor_region(outputs.len()), |sum, output| sum.checked_add(round64(output.bytes())?))
    }

    /// Whether the tensors are what the module declares.
    pub(crate) fn check_inputs(&self, inputs: &[Input<'_>]) -> Result<(), Error> {
        self.check_count(inputs.len())?;
        let Some(manifest) = &self.manifest else { return Ok(()) };
        let mut given = Vec::with_capacity(inputs.len());
        for input in inputs {
            let (code, bits) = input.dtype().dlpack();
            let dims = input.shape().to_signed().map_err(outboard_tensor::TensorError::from)?;
            given.push(((code.into(), bits.into()), dims.to_vec().into()));
        }
        let Some((index, spec)) = manifest.first_mismatch(given.into_iter()) else { return Ok(()) };
        let got = inputs.get(index).map_or_else(String::new, |input| format!("{} ({})", input.dtype(), input.shape()));
        Err(Error::InputMismatch {
            module: self.name.clone(),
            index,
            name: spec.name.clone(),
            expected: spec.kind(),
            got,
        })
    }

    /// Whether this is the number of inputs the module declares.
    pub(crate) fn check_count(&self, got: usize) -> Result<(), Error> {
        let specs = self.manifest.as_ref().map(|manifest| manifest.inputs.as_slice());
        let declared = specs.map(<[_]>::len).or(self.io.map(|io| io.num_inputs as usize));
        match declared {
            Some(expected) if expected != got => Err(Error::InputCount {
                module: self.name.clone(),
                expected,
                got,
                names: specs.unwrap_or_default().iter().map(ToString::to_string).collect(),
            }),
            _ if got > MAX_INPUTS => Err(Error::InputUnsupported {
                index: MAX_INPUTS,
                reason: format!("a call has at most {MAX_INPUTS} inputs"),
            }),
            _ => Ok(()),
        }
    }
}

/// Bytes at the front of the input window that the descriptors of `count` inputs take.
pub(crate) fn descriptor_region(count: usize) -> u64 {
    let bytes = count.saturating_mul(size_of::<TensorDesc>());
    round64(bytes as u64).unwrap_or(u64::MAX)
}
