//! Sequences of instructions: a custom operation with its arguments, and the records that load a library.

use super::instruction::{Arg, CustomOpHeader, CustomOpPayload, Instruction, ModifyPoolConfig};
use super::{Dialect, SLOT, SeqError, Slot};

/// Two ways to count the payloads in the header of a custom operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PayloadCount {
    /// As the compiler writes it: inputs and two more, or one for an operation without inputs.
    #[default]
    Compiler,
    /// As the layout says: the payloads that follow.
    Following,
}

/// A custom operation and its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chain {
    /// Index of the header in the stream.
    pub at: usize,
    /// The header.
    pub header: CustomOpHeader,
    /// Outputs, then inputs.
    pub args: Vec<Arg>,
}

impl Chain {
    /// The leading payloads that are outputs.
    #[must_use]
    pub fn outputs(&self) -> &[Arg] {
        let inputs = usize::from(self.header.num_arguments);
        self.args.get(..self.args.len().saturating_sub(inputs)).unwrap_or(&[])
    }

    /// The inputs.
    #[must_use]
    pub fn inputs(&self) -> &[Arg] {
        self.args.get(self.outputs().len()..).unwrap_or(&[])
    }
}

/// Why a stream is not sound.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChainError {
    /// An instruction cannot be read.
    #[error("instruction {at} (offset {:#x}): {error}", at * SLOT)]
    Slot {
        /// Its index.
        at: usize,
        /// Why.
        error: SeqError,
    },
    /// The number of payloads fits neither way to count.
    #[error(
        "instruction {at}: num_payloads is {stated}, but {found} payloads follow; expected {found} or {}: the stream was cut or \
         spliced",
        found + 1
    )]
    Payloads {
        /// Index of the header.
        at: usize,
        /// What the header says.
        stated: u16,
        /// How many follow.
        found: usize,
    },
    /// More inputs than payloads.
    #[error("instruction {at}: {inputs} inputs, but only {found} payloads follow")]
    Arguments {
        /// Index of the header.
        at: usize,
        /// What the header says.
        inputs: u8,
        /// How many follow.
        found: usize,
    },
    /// More than one output; the compiler and the device allow one.
    #[error("instruction {at}: Custom ops cannot have more than 1 output, this one has {outputs}")]
    Outputs {
        /// Index of the header.
        at: usize,
        /// How many.
        outputs: usize,
    },
    /// An argument without its operation.
    #[error("instruction {at}: a custom-op payload without a header before it")]
    Orphan {
        /// Its index.
        at: usize,
    },
    /// Bytes behind the last whole instruction.
    #[error("the stream ends with {rest} bytes that are no instruction of 64")]
    Partial {
        /// How many.
        rest: usize,
    },
}

/// Builds the instructions of a custom operation: the header, the output, the inputs.
#[must_use]
pub fn encode_chain(function_id: u8, outputs: &[Arg], inputs: &[Arg], count: PayloadCount) -> Vec<Slot> {
    let following = outputs.len() + inputs.len();
    let stated = match count {
        PayloadCount::Following => following,
        PayloadCount::Compiler if inputs.is_empty() => 1,
        PayloadCount::Compiler => inputs.len() + 2,
    };
    let header = CustomOpHeader {
        num_payloads: u16::try_from(stated).unwrap_or(u16::MAX),
        function_id,
        num_arguments: u8::try_from(inputs.len()).unwrap_or(u8::MAX),
        scratch: None,
    };
    let payloads = outputs.iter().chain(inputs).map(|arg| Instruction::CustomOpPayload(CustomOpPayload { arg: *arg }));
    std::iter::once(Instruction::CustomOpHeader(header))
        .chain(payloads)
        .map(|instruction| instruction.encode())
        .collect()
}

/// The instructions of a stream.
///
/// # Errors
///
/// [`ChainError::Partial`]: the stream does not end with a whole instruction.
pub fn slots(stream: &[u8]) -> Result<&[Slot], ChainError> {
    let (slots, rest) = stream.as_chunks::<SLOT>();
    if rest.is_empty() { Ok(slots) } else { Err(ChainError::Partial { rest: rest.len() }) }
}

/// Reads the custom operation that begins with instruction `at`.
///
/// # Errors
///
/// A [`ChainError`]; an instruction that is no header is one too.
pub fn chain(slots: &[Slot], at: usize) -> Result<Chain, ChainError> {
    let read = |at: usize| -> Option<Result<Instruction, ChainError>> {
        let slot = slots.get(at)?;
        Some(Instruction::decode(slot, Dialect::V2).map_err(|error| ChainError::Slot { at, error }))
    };
    let Some(Ok(Instruction::CustomOpHeader(header))) = read(at) else {
        return match read(at) {
            Some(Err(error)) => Err(error),
            _ => Err(ChainError::Orphan { at }),
        };
    };
    let mut args = Vec::new();
    while slots.get(at + 1 + args.len()).is_some_and(|slot| slot.starts_with(&[0x86])) {
        match read(at + 1 + args.len()) {
            Some(Ok(Instruction::CustomOpPayload(CustomOpPayload { arg }))) => args.push(arg),
            Some(Err(error)) => return Err(error),
            _ => break,
        }
    }
    let found = args.len();
    let stated = header.num_payloads;
    if ![found, found + 1].contains(&usize::from(stated)) {
        return Err(ChainError::Payloads { at, stated, found });
    }
    if usize::from(header.num_arguments) > found {
        return Err(ChainError::Arguments { at, inputs: header.num_arguments, found });
    }
    let chain = Chain { at, header, args };
    match chain.outputs().len() {
        0 | 1 => Ok(chain),
        outputs => Err(ChainError::Outputs { at, outputs }),
    }
}

/// Reads every custom operation of a stream.
///
/// # Errors
///
/// The first [`ChainError`].
pub fn chains(stream: &[u8]) -> Result<Vec<Chain>, ChainError> {
    let slots = slots(stream)?;
    let mut list = Vec::new();
    let mut at = 0;
    while let Some(slot) = slots.get(at) {
        match slot.first() {
            Some(0x85) => {
                let chain = chain(slots, at)?;
                at += chain.args.len();
                list.push(chain);
            }
            Some(0x86) => return Err(ChainError::Orphan { at }),
            _ => {}
        }
        at += 1;
    }
    Ok(list)
}

/// Why load records were not written. [`LoadRecordsError::code`] is the original's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LoadRecordsError {
    /// The buffer is too small.
    #[error("the buffer has {capacity} bytes, {need} are needed")]
    Capacity {
        /// Bytes of the buffer.
        capacity: usize,
        /// Bytes needed.
        need: usize,
    },
    /// The buffer does not start at a multiple of eight.
    #[error("the buffer's address {address:#x} is no multiple of 8")]
    Unaligned {
        /// Its address.
        address: u64,
    },
}

impl LoadRecordsError {
    /// 7 or 8.
    #[must_use]
    pub const fn code(&self) -> u32 {
        match self {
            Self::Capacity { .. } => 7,
            Self::Unaligned { .. } => 8,
        }
    }
}

/// Cores that are addressed one by one when the core belongs to another context.
const CORES: usize = 8;

/// Writes the records that load or unload a library into a buffer at device address `address`: one when this context owns
/// the core, else eight equal ones. Returns how many were written; more than one deserves a warning.
///
/// # Errors
///
/// [`LoadRecordsError`]; nothing was written.
pub fn load_records(
    config: &ModifyPoolConfig,
    owns_core: bool,
    address: u64,
    buffer: &mut [u8],
) -> Result<usize, LoadRecordsError> {
    if !address.is_multiple_of(8) {
        return Err(LoadRecordsError::Unaligned { address });
    }
    let count = if owns_core { 1 } else { CORES };
    let need = count * SLOT;
    let capacity = buffer.len();
    let place = buffer.get_mut(..need).ok_or(LoadRecordsError::Capacity { capacity, need })?;
    let record = Instruction::ModifyPoolConfig(*config).encode();
    for slot in place.as_chunks_mut::<SLOT>().0 {
        *slot = record;
    }
    Ok(count)
}
