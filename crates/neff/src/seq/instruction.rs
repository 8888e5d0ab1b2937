//! One instruction.

use super::arg::{ARG_TENSOR, ArgTensor};
use super::bits::{field, put, reserved, u8_at, u16_at, u32_at, u64_at};
use super::{Dialect, Events, SLOT, SeqError, Slot, WORDS};

const CUSTOM_OP_HEADER: u8 = 0x85;
const CUSTOM_OP_PAYLOAD: u8 = 0x86;
const MODIFY_POOL_CONFIG: u8 = 0x95;
const LOAD_POOL_ARGUMENT: u8 = 0x7a;
const EVENT_SEMAPHORE: u8 = 0xa0;
const DMA_TRIGGER: u8 = 0xc1;
const EXTENDED_INST: u8 = 0xf0;

/// Bytes of a queue's name.
const QUEUE_NAME: usize = 32;

/// Function id of an operation without function.
pub const UNSET_FUNCTION: u8 = 0xff;

/// What [`ModifyPoolConfig`] does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
pub enum ModifyOp {
    /// Loads a library.
    LoadLib,
    /// Unloads it.
    UnloadLib,
}

/// 0x95: loads or unloads a library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct ModifyPoolConfig {
    /// What to do.
    pub op: ModifyOp,
    /// One bit for each core.
    pub core_mask: u8,
    /// Address of the staged image; 0 to unload.
    pub soc_addr: u64,
    /// Which library.
    pub library_index: u32,
    /// Bytes of the staged image, at most 64 KiB; 0 to unload.
    pub library_size: u32,
}

impl ModifyPoolConfig {
    /// Loads the image at `soc_addr` into all cores.
    #[must_use]
    pub const fn load(soc_addr: u64, library_index: u32, library_size: u32) -> Self {
        Self { op: ModifyOp::LoadLib, core_mask: 0xff, soc_addr, library_index, library_size }
    }

    /// Unloads a library from all cores.
    #[must_use]
    pub const fn unload(library_index: u32) -> Self {
        Self { op: ModifyOp::UnloadLib, core_mask: 0xff, soc_addr: 0, library_index, library_size: 0 }
    }
}

/// Ports that an extended instruction uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Completion {
    /// It reads.
    pub has_read: bool,
    /// It writes.
    pub has_write: bool,
    /// Active ports, 0 means all eight.
    pub active_ports: u8,
}

impl Completion {
    /// Partitions that take part: 16 for each port.
    #[must_use]
    pub const fn partitions(self) -> u8 {
        match self.active_ports {
            0 => 128,
            ports => ports * 16,
        }
    }

    const fn encode(self) -> u8 {
        self.has_read as u8 | (self.has_write as u8) << 2 | (self.active_ports & 7) << 3
    }

    fn decode(value: u8) -> Result<Self, SeqError> {
        if value & 0xc2 != 0 {
            return Err(SeqError::Reserved { offset: 0x0d, value: value & 0xc2 });
        }
        Ok(Self { has_read: value & 1 != 0, has_write: value & 4 != 0, active_ports: value >> 3 & 7 })
    }
}

/// 0xF0: an instruction whose second opcode is in the kernel table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExtendedInst {
    /// The extended opcode, the `spec` of the kernel table.
    pub extended_opcode: u8,
    /// Ports.
    pub completion: Completion,
    /// What the kernel reads.
    pub payload: [u8; 50],
}

/// The payload of extended opcode 2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TensorTensorArith {
    /// Type numbers of the first input, the second input and the output; four bits for inputs.
    pub dtypes: [u8; 3],
    /// Operation: 4 add or 6 multiply.
    pub op: u8,
    /// First input, second input, output: address, two steps, two counts.
    pub tensors: [(u32, [i16; 2], [u16; 2]); 3],
}

impl TensorTensorArith {
    /// The payload.
    #[must_use]
    pub fn encode(&self) -> [u8; 50] {
        let mut payload = [0; 50];
        let [first, second, out] = self.dtypes;
        put(&mut payload, 0, &[first & 15 | second << 4, out, self.op]);
        for (index, (address, steps, counts)) in self.tensors.iter().enumerate() {
            let at = 6 + 12 * index;
            put(&mut payload, at, &address.to_le_bytes());
            let halves: Vec<u8> = steps
                .iter()
                .flat_map(|step| step.to_le_bytes())
                .chain(counts.iter().flat_map(|n| n.to_le_bytes()))
                .collect();
            put(&mut payload, at + 4, &halves);
        }
        payload
    }

    /// Reads the payload.
    ///
    /// # Errors
    ///
    /// [`SeqError`] names the field; offsets count from the start of the instruction.
    pub fn decode(payload: &[u8; 50]) -> Result<Self, SeqError> {
        const BASE: usize = 0x0e;
        let (inputs, op) = (u8_at(payload, 0), u8_at(payload, 2));
        if !matches!(op, 4 | 6) {
            return Err(SeqError::Field {
                field: "op",
                offset: BASE + 2,
                value: op.into(),
                expected: "4 (ADD) or 6 (MULT)",
            });
        }
        reserved(payload, 3..6, BASE)?;
        reserved(payload, 42..50, BASE)?;
        let tensor = |index: usize| {
            let at = 6 + 12 * index;
            let half = |index: usize| u16_at(payload, at + 4 + 2 * index);
            (u32_at(payload, at), [half(0).cast_signed(), half(1).cast_signed()], [half(2), half(3)])
        };
        Ok(Self {
            dtypes: [inputs & 15, inputs >> 4, u8_at(payload, 1)],
            op,
            tensors: [tensor(0), tensor(1), tensor(2)],
        })
    }
}

/// Scratch space of a custom operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Scratch {
    /// Address.
    pub address: u32,
    /// Bytes of each partition.
    pub size: u32,
    /// Partitions.
    pub partitions: u8,
}

/// 0x85: starts a custom operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct CustomOpHeader {
    /// Payloads that follow, by one of two ways to count ([`super::PayloadCount`]).
    pub num_payloads: u16,
    /// Which function, [`UNSET_FUNCTION`] for none.
    pub function_id: u8,
    /// Inputs.
    pub num_arguments: u8,
    /// Scratch space, when the operation has some.
    pub scratch: Option<Scratch>,
}

/// An argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(clippy::large_enum_variant, reason = "the raw bytes are those of the tensor record; both are plain data")]
pub enum Arg {
    /// A tensor.
    Tensor(ArgTensor),
    /// An array of tensors: their number, and bytes whose meaning is not known.
    Array {
        /// Number of tensors.
        objects: u32,
        /// The bytes behind it.
        rest: [u8; 44],
    },
}

/// 0x86: an argument of a custom operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CustomOpPayload {
    /// The argument.
    pub arg: Arg,
}

/// 0x7A: immediate values for the pool engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct LoadPoolArgument {
    /// Bit i: immediate i is an address in on-chip memory.
    pub pointers: u8,
    /// The immediates.
    pub immediates: [u32; 8],
}

/// 0xC1: starts a DMA queue.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct DmaTrigger {
    /// Name of the queue, at most 32 bytes.
    pub queue: String,
    /// Count descriptors as they are.
    pub use_raw_count: u32,
    /// Block of the queue.
    pub block_id: u32,
}

/// An instruction without its events.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(clippy::large_enum_variant, reason = "instructions are 64 bytes and short-lived")]
pub enum Instruction {
    /// 0x95.
    ModifyPoolConfig(ModifyPoolConfig),
    /// 0xF0.
    Extended(ExtendedInst),
    /// 0x85.
    CustomOpHeader(CustomOpHeader),
    /// 0x86.
    CustomOpPayload(CustomOpPayload),
    /// 0x7A.
    LoadPoolArgument(LoadPoolArgument),
    /// 0xC1.
    DmaTrigger(DmaTrigger),
    /// 0xA0: only its events matter.
    EventSemaphore,
    /// Any other: opcode and body as they are.
    Other {
        /// The opcode.
        opcode: u8,
        /// Everything behind the events; 56 bytes in the first dialect, 52 later.
        body: Vec<u8>,
    },
}

impl Events {
    /// Reads the events of a slot.
    #[must_use]
    pub fn decode(slot: &Slot, dialect: Dialect) -> Self {
        let [wait_mode, wait_index, update_mode, update_index] = field(slot, 4);
        let semaphore_value = match dialect {
            Dialect::V1 => 0,
            Dialect::V2 => u32_at(slot, 8),
        };
        Self { wait_mode, wait_index, update_mode, update_index, semaphore_value }
    }

    /// Writes the events into a slot.
    pub fn write(&self, slot: &mut Slot, dialect: Dialect) {
        put(slot, 4, &[self.wait_mode, self.wait_index, self.update_mode, self.update_index]);
        if dialect == Dialect::V2 {
            put(slot, 8, &self.semaphore_value.to_le_bytes());
        }
    }
}

impl Instruction {
    /// The opcode.
    #[must_use]
    pub const fn opcode(&self) -> u8 {
        match self {
            Self::ModifyPoolConfig(_) => MODIFY_POOL_CONFIG,
            Self::Extended(_) => EXTENDED_INST,
            Self::CustomOpHeader(_) => CUSTOM_OP_HEADER,
            Self::CustomOpPayload(_) => CUSTOM_OP_PAYLOAD,
            Self::LoadPoolArgument(_) => LOAD_POOL_ARGUMENT,
            Self::DmaTrigger(_) => DMA_TRIGGER,
            Self::EventSemaphore => EVENT_SEMAPHORE,
            Self::Other { opcode, .. } => *opcode,
        }
    }

    /// The 64 bytes in the dialect of all generations but the first, without events.
    #[must_use]
    pub fn encode(&self) -> Slot {
        self.encode_with(&Events::default(), Dialect::V2)
    }

    /// The 64 bytes with events. In the first dialect only DMA triggers and unknown instructions have a place of their own;
    /// the others do not exist there and are written at their later offsets.
    #[must_use]
    pub fn encode_with(&self, events: &Events, dialect: Dialect) -> Slot {
        let mut slot = [0; SLOT];
        put(&mut slot, 0, &[self.opcode(), WORDS]);
        match self {
            Self::ModifyPoolConfig(config) => {
                let op = if config.op == ModifyOp::LoadLib { 1 } else { 2 };
                put(&mut slot, 0x0c, &[op, config.core_mask]);
                put(&mut slot, 0x10, &config.soc_addr.to_le_bytes());
                put(&mut slot, 0x18, &config.library_index.to_le_bytes());
                put(&mut slot, 0x1c, &config.library_size.to_le_bytes());
            }
            Self::Extended(extended) => {
                put(&mut slot, 0x0c, &[extended.extended_opcode, extended.completion.encode()]);
                put(&mut slot, 0x0e, &extended.payload);
            }
            Self::CustomOpHeader(header) => {
                put(&mut slot, 0x0c, &header.num_payloads.to_le_bytes());
                put(&mut slot, 0x0e, &[header.function_id, header.num_arguments, u8::from(header.scratch.is_some())]);
                if let Some(scratch) = header.scratch {
                    put(&mut slot, 0x14, &scratch.address.to_le_bytes());
                    put(&mut slot, 0x18, &scratch.size.to_le_bytes());
                    put(&mut slot, 0x1c, &[scratch.partitions]);
                }
            }
            Self::CustomOpPayload(CustomOpPayload { arg }) => match arg {
                Arg::Tensor(tensor) => {
                    put(&mut slot, 0x0f, &[1]);
                    put(&mut slot, 0x10, &tensor.encode());
                }
                Arg::Array { objects, rest } => {
                    put(&mut slot, 0x0f, &[2]);
                    put(&mut slot, 0x10, &objects.to_le_bytes());
                    put(&mut slot, 0x14, rest);
                }
            },
            Self::LoadPoolArgument(load) => {
                put(&mut slot, 0x0e, &[load.pointers]);
                let words: Vec<u8> = load.immediates.iter().flat_map(|word| word.to_le_bytes()).collect();
                put(&mut slot, 0x20, &words);
            }
            Self::DmaTrigger(trigger) => {
                let name = trigger.queue.as_bytes();
                put(&mut slot, dialect.body(), name.get(..name.len().min(QUEUE_NAME)).unwrap_or(&[]));
                put(&mut slot, 0x2c, &trigger.use_raw_count.to_le_bytes());
                put(&mut slot, 0x30, &trigger.block_id.to_le_bytes());
            }
            Self::EventSemaphore => {}
            Self::Other { body, .. } => put(&mut slot, dialect.body(), body),
        }
        events.write(&mut slot, dialect);
        slot
    }

    /// Reads a slot.
    ///
    /// # Errors
    ///
    /// [`SeqError`] names the field that breaks the layout of a known instruction.
    pub fn decode(slot: &Slot, dialect: Dialect) -> Result<Self, SeqError> {
        let [opcode, words] = field(slot, 0);
        if words != WORDS {
            return Err(SeqError::WordLength { value: words });
        }
        match (opcode, dialect) {
            (DMA_TRIGGER, _) => dma_trigger(slot, dialect).map(Self::DmaTrigger),
            (_, Dialect::V1) => Ok(other(slot, opcode, dialect)),
            (MODIFY_POOL_CONFIG, _) => modify(slot).map(Self::ModifyPoolConfig),
            (EXTENDED_INST, _) => Ok(Self::Extended(ExtendedInst {
                extended_opcode: u8_at(slot, 0x0c),
                completion: Completion::decode(u8_at(slot, 0x0d))?,
                payload: field(slot, 0x0e),
            })),
            (CUSTOM_OP_HEADER, _) => custom_op(slot).map(Self::CustomOpHeader),
            (CUSTOM_OP_PAYLOAD, _) => payload(slot).map(Self::CustomOpPayload),
            (LOAD_POOL_ARGUMENT, _) => Ok(Self::LoadPoolArgument(LoadPoolArgument {
                pointers: u8_at(slot, 0x0e),
                immediates: std::array::from_fn(|index| u32_at(slot, 0x20 + 4 * index)),
            })),
            (EVENT_SEMAPHORE, _) if slot.iter().skip(0x0c).all(|byte| *byte == 0) => Ok(Self::EventSemaphore),
            _ => Ok(other(slot, opcode, dialect)),
        }
    }
}

fn other(slot: &Slot, opcode: u8, dialect: Dialect) -> Instruction {
    Instruction::Other { opcode, body: slot.get(dialect.body()..).unwrap_or(&[]).to_vec() }
}

fn dma_trigger(slot: &Slot, dialect: Dialect) -> Result<DmaTrigger, SeqError> {
    let name: [u8; QUEUE_NAME] = field(slot, dialect.body());
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
    let wrong = |(at, byte): (usize, &u8)| if at < end { !byte.is_ascii_graphic() } else { *byte != 0 };
    if let Some((at, value)) = name.iter().enumerate().find(|pair| wrong(*pair)) {
        let expected = "a name of printable characters, then zeros";
        return Err(SeqError::Field {
            field: "queue",
            offset: dialect.body() + at,
            value: u64::from(*value),
            expected,
        });
    }
    Ok(DmaTrigger {
        queue: name.iter().take(end).map(|byte| char::from(*byte)).collect(),
        use_raw_count: u32_at(slot, 0x2c),
        block_id: u32_at(slot, 0x30),
    })
}

fn modify(slot: &Slot) -> Result<ModifyPoolConfig, SeqError> {
    let bad = |field, offset, value: u64, expected| SeqError::Field { field, offset, value, expected };
    let op = match u8_at(slot, 0x0c) {
        1 => ModifyOp::LoadLib,
        2 => ModifyOp::UnloadLib,
        value => return Err(bad("modify_op", 0x0c, value.into(), "1 (load) or 2 (unload)")),
    };
    reserved(slot, 0x0e..0x10, 0)?;
    reserved(slot, 0x20..0x40, 0)?;
    let config = ModifyPoolConfig {
        op,
        core_mask: u8_at(slot, 0x0d),
        soc_addr: u64_at(slot, 0x10),
        library_index: u32_at(slot, 0x18),
        library_size: u32_at(slot, 0x1c),
    };
    match op {
        ModifyOp::LoadLib if config.library_size > 0x1_0000 => {
            Err(bad("library_size", 0x1c, config.library_size.into(), "at most 0x10000"))
        }
        ModifyOp::UnloadLib if config.soc_addr != 0 => Err(bad("soc_addr", 0x10, config.soc_addr, "0 to unload")),
        ModifyOp::UnloadLib if config.library_size != 0 => {
            Err(bad("library_size", 0x1c, config.library_size.into(), "0 to unload"))
        }
        _ => Ok(config),
    }
}

fn custom_op(slot: &Slot) -> Result<CustomOpHeader, SeqError> {
    reserved(slot, 0x11..0x14, 0)?;
    reserved(slot, 0x1d..0x40, 0)?;
    let (address, size, partitions) = (u32_at(slot, 0x14), u32_at(slot, 0x18), u8_at(slot, 0x1c));
    let set = [address != 0, size != 0, partitions != 0];
    let has_scratch = match u8_at(slot, 0x10) {
        0 => false,
        1 => true,
        value => {
            let (field, expected) = ("has_scratch_space", "0 or 1");
            return Err(SeqError::Field { field, offset: 0x10, value: value.into(), expected });
        }
    };
    if set != [has_scratch; 3] {
        return Err(SeqError::Scratch { address, size, partitions });
    }
    Ok(CustomOpHeader {
        num_payloads: u16_at(slot, 0x0c),
        function_id: u8_at(slot, 0x0e),
        num_arguments: u8_at(slot, 0x0f),
        scratch: has_scratch.then_some(Scratch { address, size, partitions }),
    })
}

fn payload(slot: &Slot) -> Result<CustomOpPayload, SeqError> {
    reserved(slot, 0x0c..0x0f, 0)?;
    let arg = match u8_at(slot, 0x0f) {
        1 => Arg::Tensor(ArgTensor::decode(&field::<ARG_TENSOR>(slot, 0x10))?),
        2 => Arg::Array { objects: u32_at(slot, 0x10), rest: field(slot, 0x14) },
        value => {
            let expected = "1 (tensor) or 2 (array of tensors)";
            return Err(SeqError::Field { field: "arg_type", offset: 0x0f, value: value.into(), expected });
        }
    };
    Ok(CustomOpPayload { arg })
}
