//! A device that follows the protocol and computes nothing: every inference is answered with its inputs.

use crate::in_process::{Answer, DeviceMemory, Responder};
use crate::{Error, IoSizes};
use outboard_wire::{
    DynLoadReply, Header, Infer, InferHeader, InferLarge, InferReply, MapWindow, MessageType, ModelLoadReply,
    PingReply, PrintfHeader, SetPrintfBuf, Status, StatusReply, TensorDesc, Version, round64,
};
use zerocopy::{FromBytes, IntoBytes};

/// Outputs of more than these are described in the output window.
const INLINE_OUTPUTS: usize = 5;
/// Cycles of every inference.
const CYCLES: u64 = 1234;

/// A device that answers every inference with its inputs. It takes any bytes for a module.
#[derive(Debug, Clone, Default)]
pub struct Echo {
    io: IoSizes,
    /// The printf buffer that the host named.
    pub(crate) printf: MapWindow,
    handles: u32,
    models: u32,
    jobs: u32,
}

/// The parts of an inference that an answer needs.
pub(crate) struct Request {
    pub(crate) inputs: Vec<TensorDesc>,
    pub(crate) result: MapWindow,
}

impl Request {
    /// Reads an inference of either form.
    pub(crate) fn read(message: &[u8], memory: DeviceMemory<'_>) -> Option<Self> {
        if kind(message) == Some(MessageType::Infer) {
            let fixed = InferHeader::parse(message).ok()?;
            let count = usize::try_from(fixed.num_inputs.get()).ok()?;
            let inputs = Infer::descriptors(message, count).ok()?.to_vec();
            return Some(Self { inputs, result: fixed.result_window() });
        }
        let large = InferLarge::parse(message).ok()?;
        let count = usize::try_from(large.num_inputs.get()).ok().filter(|count| *count <= outboard_wire::MAX_INPUTS)?;
        let mut inputs = vec![TensorDesc::default(); count];
        memory.read(large.descs_addr.get(), inputs.as_mut_bytes()).ok()?;
        Some(Self { inputs, result: large.result_window() })
    }
}

pub(crate) fn kind(message: &[u8]) -> Option<MessageType> {
    Header::parse(message).ok().and_then(|header| MessageType::from_code(header.kind.get()))
}

impl Echo {
    /// A device whose every module declares these inputs and outputs; the default declares none.
    #[must_use]
    pub fn declaring(io: IoSizes) -> Self {
        Self { io, ..Self::default() }
    }

    /// Prints as a device does.
    ///
    /// # Errors
    /// The host has not named a printf buffer that holds the text.
    pub(crate) fn print(&self, memory: DeviceMemory<'_>, text: &[u8], dropped: u32) -> Result<(), Error> {
        let size = u32::try_from(self.printf.size).unwrap_or(u32::MAX);
        let Some(mut header) = PrintfHeader::empty(size) else { return Ok(()) };
        header.wr_index = u32::try_from(text.len()).unwrap_or(u32::MAX).into();
        header.dropped = dropped.into();
        memory.write(self.printf.base, header.as_bytes())?;
        memory.write(self.printf.base + size_of::<PrintfHeader>() as u64, text)
    }

    /// The answer to an inference: its inputs; `None` when it cannot be read or its buffers are not in the carveout.
    pub(crate) fn infer(&mut self, message: &[u8], memory: DeviceMemory<'_>) -> Option<InferReply> {
        let seq = Header::parse(message).ok()?.seq.get();
        let Request { inputs, result } = Request::read(message, memory)?;
        self.jobs = self.jobs.wrapping_add(1);
        let mut reply = InferReply::new(seq, Status::Success);
        let (mut outputs, mut next) = (Vec::new(), result.base);
        for (index, input) in inputs.iter().enumerate() {
            let size = input.data_size.get();
            if next.checked_add(size)? > result.base.checked_add(result.size)? {
                let needed =
                    inputs.iter().try_fold(0u64, |sum, input| sum.checked_add(round64(input.data_size.get())?));
                let mut refused = InferReply::new(seq, Status::Size);
                refused.fixed.result_required = needed?.into();
                return Some(refused);
            }
            let mut bytes = vec![0; usize::try_from(size).ok()?];
            memory.read(input.data_addr.get(), &mut bytes).ok()?;
            memory.write(next, &bytes).ok()?;
            let mut output = TensorDesc { data_addr: next.into(), ..*input };
            output.reserved = i32::try_from(index).ok()?.into();
            outputs.push(output);
            next += round64(size)?;
        }
        reply.fixed.cycles = CYCLES.into();
        reply.fixed.num_outputs = u32::try_from(outputs.len()).ok()?.into();
        if outputs.len() > INLINE_OUTPUTS {
            memory.write(next, outputs.as_bytes()).ok()?;
            reply.fixed.descs_addr = next.into();
            reply.fixed.descs_size = u32::try_from(size_of_val(&*outputs)).ok()?.into();
        } else {
            reply.descriptors.get_mut(..outputs.len())?.copy_from_slice(&outputs);
        }
        Some(reply)
    }

    /// The reply of a device that behaves well.
    pub(crate) fn reply(&mut self, message: &[u8], memory: DeviceMemory<'_>) -> Vec<u8> {
        let Some(kind) = kind(message) else { return refusal(message, Status::Invalid) };
        self.understood(kind, message, memory).unwrap_or_else(|| refusal(message, Status::Invalid))
    }

    fn understood(&mut self, kind: MessageType, message: &[u8], memory: DeviceMemory<'_>) -> Option<Vec<u8>> {
        let seq = Header::parse(message).ok()?.seq.get();
        let ok = |size| Header::reply(kind, seq, size, Status::Success);
        Some(match kind {
            MessageType::Ping => PingReply::new(seq, Version::CURRENT, 5000).as_bytes().to_vec(),
            MessageType::GetStatus => StatusReply {
                header: ok(32),
                version: Version::CURRENT.0.into(),
                uptime_ms: 7.into(),
                jobs_completed: self.jobs.into(),
                jobs_failed: 0.into(),
            }
            .as_bytes()
            .to_vec(),
            MessageType::SetPrintfBuf => {
                let request = SetPrintfBuf::parse(message).ok()?;
                self.printf = MapWindow { base: request.printf_dsp_addr.get(), size: request.printf_size.get().into() };
                self.print(memory, b"", 0).ok()?;
                ok(16).as_bytes().to_vec()
            }
            MessageType::DynLoad => {
                self.handles = self.handles.wrapping_add(1);
                let io = self.io;
                DynLoadReply {
                    header: ok(68),
                    module_handle: self.handles.into(),
                    io_input_bytes: io.input_bytes.into(),
                    io_output_bytes: io.output_bytes.into(),
                    io_num_inputs: io.num_inputs.into(),
                    io_num_outputs: io.num_outputs.into(),
                    ..DynLoadReply::default()
                }
                .as_bytes()
                .to_vec()
            }
            MessageType::ModelLoad => {
                self.models = self.models.wrapping_add(1);
                ModelLoadReply { header: ok(36), model_id: self.models.into(), ..ModelLoadReply::default() }
                    .as_bytes()
                    .to_vec()
            }
            MessageType::Infer | MessageType::InferLarge => self.infer(message, memory)?.seal().to_vec(),
            _ => ok(16).as_bytes().to_vec(),
        })
    }
}

/// The refusal of a message, of which as much as there is tells its type and number.
fn refusal(message: &[u8], status: Status) -> Vec<u8> {
    let mut bytes = [0; size_of::<Header>()];
    let len = message.len().min(bytes.len());
    bytes[..len].copy_from_slice(&message[..len]);
    let read = Header::read_from_bytes(&bytes);
    let (kind, seq) = read.map_or((0, 0), |header| (header.kind.get(), header.seq.get()));
    Header::refusal(kind, seq, status).as_bytes().to_vec()
}

impl Responder for Echo {
    fn answer(&mut self, message: &[u8], memory: DeviceMemory<'_>) -> Answer {
        Answer::Replies(vec![self.reply(message, memory)])
    }

    fn restart(&mut self) {
        *self = Self::declaring(self.io);
    }
}
