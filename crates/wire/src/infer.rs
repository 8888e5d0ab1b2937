//! INFER, INFER_LARGE and their common reply.

use crate::message::{message, prefix};
use crate::{
    Header, KV_STRIDE, KV_TENSORS, MAX_INLINE_INPUTS, MAX_INLINE_OUTPUTS, MAX_MESSAGE, MalformedMessage, MapWindow,
    MessageType, SharedMap, Status, TensorDesc,
};
use zerocopy::little_endian::{I32, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// The `flags` word of an inference: repeat count and KV bit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct InferFlags(pub u32);

impl InferFlags {
    /// Keep outputs 1.. in the KV region and return only output 0; honoured by INFER_LARGE.
    pub const KV_RESIDENT: u32 = 1 << 16;

    /// Run `count` times (0 and 1 both mean once).
    pub fn repeat(count: u16) -> Self {
        Self(u32::from(count))
    }

    /// The same flags with the KV bit set.
    pub fn kv_resident(self) -> Self {
        Self(self.0 | Self::KV_RESIDENT)
    }

    /// How often to run the entry: at least once.
    pub fn repeat_count(self) -> u32 {
        (self.0 & 0xFFFF).max(1)
    }

    /// Whether the KV bit is set.
    pub fn is_kv_resident(self) -> bool {
        self.0 & Self::KV_RESIDENT != 0
    }

    /// Device address of the `index`-th tensor of the KV region, when there is one.
    pub fn kv_address(index: usize) -> Option<u64> {
        (index < KV_TENSORS).then(|| SharedMap::KV.base + index as u64 * KV_STRIDE)
    }
}

message! {
    /// The fixed part of an INFER request: 64 bytes; descriptors follow.
    InferHeader, 64, "INFER" {
        /// Handle from DYN_LOAD.
        module_handle: U32,
        /// 0 for the weights embedded in the module, else an id from MODEL_LOAD.
        model_id: U32,
        /// Number of descriptors.
        num_inputs: U32,
        /// See [`InferFlags`].
        flags: U32,
        /// Base of the sender's input buffer.
        input_dsp_addr: U64,
        /// Its declared capacity.
        input_size: U64,
        /// Base of the sender's output buffer.
        result_dsp_addr: U64,
        /// Its declared capacity.
        result_size: U64,
    }
}

impl InferHeader {
    /// The window inputs must lie in.
    pub fn input_window(&self) -> MapWindow {
        MapWindow { base: self.input_dsp_addr.get(), size: self.input_size.get() }
    }

    /// The window outputs are placed in.
    pub fn result_window(&self) -> MapWindow {
        MapWindow { base: self.result_dsp_addr.get(), size: self.result_size.get() }
    }
}

/// An INFER request with its descriptors inline: 64 + 80·n bytes, n ≤ 5.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Infer {
    /// The fixed part.
    pub fixed: InferHeader,
    descriptors: [TensorDesc; MAX_INLINE_INPUTS],
}

impl Infer {
    /// A request; sets `num_inputs` and `len` from the descriptors.
    ///
    /// # Errors
    /// More descriptors than fit into 512 bytes.
    pub fn new(
        seq: u32,
        module_handle: u32,
        model_id: u32,
        flags: InferFlags,
        (input, result): (MapWindow, MapWindow),
        inputs: &[TensorDesc],
    ) -> Result<Self, MalformedMessage> {
        let mut descriptors = [TensorDesc::default(); MAX_INLINE_INPUTS];
        descriptors
            .get_mut(..inputs.len())
            .ok_or(MalformedMessage::TooManyDescriptors { name: "INFER", count: inputs.len(), max: MAX_INLINE_INPUTS })?
            .copy_from_slice(inputs);
        let count = u32::try_from(inputs.len()).unwrap_or(u32::MAX);
        // The smallest request has room for one descriptor even when there is no input.
        let len = size_of::<InferHeader>() + size_of::<TensorDesc>() * inputs.len().max(1);
        let fixed = InferHeader {
            header: Header::request(MessageType::Infer, seq, u32::try_from(len).unwrap_or(u32::MAX)),
            module_handle: module_handle.into(),
            model_id: model_id.into(),
            num_inputs: count.into(),
            flags: flags.0.into(),
            input_dsp_addr: input.base.into(),
            input_size: input.size.into(),
            result_dsp_addr: result.base.into(),
            result_size: result.size.into(),
        };
        Ok(Self { fixed, descriptors })
    }

    /// The wire bytes.
    pub fn bytes(&self) -> &[u8] {
        let len = usize::try_from(self.fixed.header.len.get()).unwrap_or(MAX_MESSAGE);
        let all = self.as_bytes();
        all.get(..len).unwrap_or(all)
    }

    /// Reads the `num_inputs` descriptors behind the fixed part of a request.
    ///
    /// # Errors
    /// More than five, or more than arrived.
    pub fn descriptors(message: &[u8], num_inputs: usize) -> Result<&[TensorDesc], MalformedMessage> {
        descriptors("INFER", message, size_of::<InferHeader>(), num_inputs, MAX_INLINE_INPUTS)
    }
}

/// The `count` descriptors that start at byte `from` of a message.
fn descriptors<'a>(
    name: &'static str,
    message: &'a [u8],
    from: usize,
    count: usize,
    max: usize,
) -> Result<&'a [TensorDesc], MalformedMessage> {
    if count > max {
        return Err(MalformedMessage::TooManyDescriptors { name, count, max });
    }
    let need = from + count * size_of::<TensorDesc>();
    let bytes = message.get(from..need).ok_or(MalformedMessage::Short { name, got: message.len(), need })?;
    <[TensorDesc]>::ref_from_bytes(bytes).map_err(|_| MalformedMessage::Short { name, got: message.len(), need })
}

message! {
    /// INFER_LARGE request: 80 bytes; the descriptors lie in the input buffer.
    InferLarge, 80, "INFER_LARGE" {
        /// Handle from DYN_LOAD.
        module_handle: U32,
        /// 0 for the embedded weights, else an id from MODEL_LOAD.
        model_id: U32,
        /// Number of descriptors, 1..=128.
        num_inputs: U32,
        /// See [`InferFlags`].
        flags: U32,
        /// Device address of the descriptor array.
        descs_addr: U64,
        /// Its size: 80 · num_inputs.
        descs_size: U32,
        /// Zero.
        reserved: U32,
        /// Base of the sender's input buffer.
        input_dsp_addr: U64,
        /// Its declared capacity.
        input_size: U64,
        /// Base of the sender's output buffer.
        result_dsp_addr: U64,
        /// Its declared capacity.
        result_size: U64,
    }
}

impl InferLarge {
    /// A request whose `num_inputs` descriptors start at `descs_addr`.
    pub fn new(
        seq: u32,
        module_handle: u32,
        model_id: u32,
        flags: InferFlags,
        (input, result): (MapWindow, MapWindow),
        (descs_addr, num_inputs): (u64, u32),
    ) -> Self {
        Self {
            header: Header::request(MessageType::InferLarge, seq, 80),
            module_handle: module_handle.into(),
            model_id: model_id.into(),
            num_inputs: num_inputs.into(),
            flags: flags.0.into(),
            descs_addr: descs_addr.into(),
            descs_size: num_inputs.saturating_mul(80).into(),
            reserved: U32::ZERO,
            input_dsp_addr: input.base.into(),
            input_size: input.size.into(),
            result_dsp_addr: result.base.into(),
            result_size: result.size.into(),
        }
    }

    /// The window inputs must lie in.
    pub fn input_window(&self) -> MapWindow {
        MapWindow { base: self.input_dsp_addr.get(), size: self.input_size.get() }
    }

    /// The window outputs are placed in.
    pub fn result_window(&self) -> MapWindow {
        MapWindow { base: self.result_dsp_addr.get(), size: self.result_size.get() }
    }
}

message! {
    /// The fixed part of an INFER reply: 68 bytes; inline descriptors follow.
    InferReplyHeader, 68, "INFER reply" {
        /// What the module's entry returned.
        return_value: I32,
        /// Cycles of the device clock.
        cycles: U64,
        /// Number of outputs, 0 on failure.
        num_outputs: U32,
        /// Bytes of text in the printf buffer.
        printf_size: U32,
        /// 0: descriptors are inline; else the device address of the array in the output buffer.
        descs_addr: U64,
        /// Size of that array.
        descs_size: U32,
        /// With ERR_NOMEM: bytes asked for.
        oom_requested: U32,
        /// With ERR_NOMEM: bytes free.
        oom_free: U32,
        /// With ERR_NOMEM: bytes of the pool.
        oom_total: U32,
        /// With ERR_SIZE: output capacity that would have been enough.
        result_required: U64,
    }
}

/// An INFER reply: 68 + 80·max(1, outputs) bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct InferReply {
    /// The fixed part.
    pub fixed: InferReplyHeader,
    /// Inline descriptors; only the first `num_outputs` count, and none when `descs_addr` is set.
    pub descriptors: [TensorDesc; MAX_INLINE_OUTPUTS],
}

impl InferReply {
    /// An answer without outputs.
    pub fn new(seq: u32, status: Status) -> Self {
        Self {
            fixed: InferReplyHeader {
                header: Header::reply(MessageType::Infer, seq, 148, status),
                ..InferReplyHeader::default()
            },
            descriptors: [TensorDesc::default(); MAX_INLINE_OUTPUTS],
        }
    }

    /// Sets `hdr.len` from the outputs and returns the wire bytes.
    pub fn seal(&mut self) -> &[u8] {
        let inline = if self.fixed.descs_addr.get() == 0 { self.fixed.num_outputs.get() } else { 1 };
        let count = usize::try_from(inline).unwrap_or(1).clamp(1, MAX_INLINE_OUTPUTS);
        let len = size_of::<InferReplyHeader>() + count * size_of::<TensorDesc>();
        self.fixed.header.len = u32::try_from(len).unwrap_or(148).into();
        let all = self.as_bytes();
        all.get(..len).unwrap_or(all)
    }

    /// Reads the fixed part of a reply; a dispatch-level refusal is only a header and is an error here.
    ///
    /// # Errors
    /// Fewer than 68 bytes arrived.
    pub fn parse_fixed(bytes: &[u8]) -> Result<InferReplyHeader, MalformedMessage> {
        prefix(bytes, "INFER reply")
    }

    /// Reads the inline descriptors of a reply.
    ///
    /// # Errors
    /// More than five, or more than arrived.
    pub fn inline_descriptors(bytes: &[u8], count: usize) -> Result<&[TensorDesc], MalformedMessage> {
        descriptors("INFER reply", bytes, size_of::<InferReplyHeader>(), count, MAX_INLINE_OUTPUTS)
    }
}
