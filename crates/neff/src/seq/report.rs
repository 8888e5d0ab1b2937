//! The report of a stream: every instruction by name, what is not known as hexadecimal.

use std::collections::BTreeMap;
use std::fmt;

use outboard_ucode::opcodes;

use super::instruction::{Arg, CustomOpPayload, Instruction, ModifyOp, TensorTensorArith};
use super::{ArgTensor, Dialect, Events, SLOT, Storage, chains};

/// A stream of instructions.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct StreamReport {
    /// Bytes.
    pub size: u64,
    /// How many instructions there are of each name.
    pub histogram: BTreeMap<String, u64>,
    /// The instructions.
    pub slots: Vec<SlotReport>,
    /// Faults of sequences: payloads without header, counts that do not fit.
    pub problems: Vec<String>,
}

/// An instruction.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct SlotReport {
    /// Its offset in the stream.
    pub offset: u64,
    /// Its opcode.
    pub opcode: u8,
    /// Name of the opcode, when it has one.
    pub name: Option<String>,
    /// Its events, unless there are none.
    pub events: Option<Events>,
    /// Its fields by name; what is not known is `body` in hexadecimal.
    pub fields: Vec<(String, String)>,
    /// Why it is not sound.
    pub problem: Option<String>,
}

/// Most instructions that are reported one by one; a histogram counts all.
const SLOTS: usize = 65_536;

/// Inspects a stream.
#[must_use]
pub fn inspect(stream: &[u8], dialect: Dialect) -> StreamReport {
    let (slots, rest) = stream.as_chunks::<SLOT>();
    let mut histogram = BTreeMap::new();
    let mut reports = Vec::new();
    for (index, slot) in slots.iter().enumerate() {
        let opcode = slot.first().copied().unwrap_or(0);
        let name = opcodes::name(opcode);
        *histogram.entry(name.map_or_else(|| format!("{opcode:#04x}"), str::to_owned)).or_insert(0) += 1;
        if index >= SLOTS {
            continue;
        }
        let events = Some(Events::decode(slot, dialect)).filter(|events| *events != Events::default());
        let (fields, problem) = match Instruction::decode(slot, dialect) {
            Ok(instruction) => (describe(&instruction), None),
            Err(error) => (vec![("raw".to_owned(), hex(slot))], Some(error.to_string())),
        };
        let offset = (index * SLOT) as u64;
        reports.push(SlotReport { offset, opcode, name: name.map(str::to_owned), events, fields, problem });
    }
    let mut problems = Vec::new();
    if !rest.is_empty() {
        problems.push(format!("the stream ends with {} bytes that are no instruction of {SLOT}", rest.len()));
    }
    if slots.len() > SLOTS {
        problems.push(format!("{} instructions more than the {SLOTS} reported one by one", slots.len() - SLOTS));
    }
    if dialect == Dialect::V2
        && let Err(error) = chains(slots.as_flattened())
    {
        problems.push(error.to_string());
    }
    StreamReport { size: stream.len() as u64, histogram, slots: reports, problems }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

struct Fields(Vec<(String, String)>);

impl Fields {
    fn add(&mut self, name: &str, value: impl fmt::Display) {
        self.0.push((name.to_owned(), value.to_string()));
    }

    fn tensor(&mut self, tensor: &ArgTensor) {
        self.add("dtype", tensor.dtype.name());
        let dims: Vec<String> = tensor.shape.dims().iter().map(u32::to_string).collect();
        self.add("shape", format_args!("[{}]", dims.join(", ")));
        match tensor.storage {
            Storage::Hbm { address, elements } => {
                self.add("hbm", format_args!("{address:#x}"));
                self.add("elements", elements);
            }
            Storage::Sbuf { address, elements, partitions, block } => {
                self.add("sbuf", format_args!("{address:#x}"));
                self.add("elements", elements);
                self.add("partitions", partitions);
                self.add("elements_per_block", block);
            }
        }
    }
}

fn describe(instruction: &Instruction) -> Vec<(String, String)> {
    let mut fields = Fields(Vec::new());
    match instruction {
        Instruction::ModifyPoolConfig(config) => {
            fields.add("modify_op", if config.op == ModifyOp::LoadLib { "load" } else { "unload" });
            fields.add("core_mask", format_args!("{:#04x}", config.core_mask));
            fields.add("soc_addr", format_args!("{:#x}", config.soc_addr));
            fields.add("library_index", config.library_index);
            fields.add("library_size", format_args!("{:#x}", config.library_size));
        }
        Instruction::Extended(extended) => {
            let spec = extended.extended_opcode;
            match opcodes::extended_name(spec) {
                Some(name) => fields.add("extended_opcode", format_args!("{name} ({spec})")),
                None => fields.add("extended_opcode", spec),
            }
            fields.add("partitions", extended.completion.partitions());
            match TensorTensorArith::decode(&extended.payload) {
                Ok(arith) if spec == 2 => {
                    fields.add("op", opcodes::alu_name(arith.op).unwrap_or("?"));
                    for (name, (address, steps, counts)) in ["src0", "src1", "dst"].iter().zip(arith.tensors) {
                        fields.add(name, format_args!("{address:#x} steps {steps:?} counts {counts:?}"));
                    }
                }
                _ => fields.add("payload", hex(&extended.payload)),
            }
        }
        Instruction::CustomOpHeader(header) => {
            fields.add("function_id", header.function_id);
            fields.add("num_arguments", header.num_arguments);
            fields.add("num_payloads", header.num_payloads);
            if let Some(scratch) = header.scratch {
                let (address, size, partitions) = (scratch.address, scratch.size, scratch.partitions);
                fields.add("scratch", format_args!("{address:#x}, {size} bytes in each of {partitions} partitions"));
            }
        }
        Instruction::CustomOpPayload(CustomOpPayload { arg }) => match arg {
            Arg::Tensor(tensor) => fields.tensor(tensor),
            Arg::Array { objects, rest } => {
                fields.add("num_object", objects);
                fields.add("rest", hex(rest));
            }
        },
        Instruction::LoadPoolArgument(load) => {
            fields.add("imm_ptr_select", format_args!("{:#04x}", load.pointers));
            let words: Vec<String> = load.immediates.iter().map(|word| format!("{word:#x}")).collect();
            fields.add("immediates", words.join(" "));
        }
        Instruction::DmaTrigger(trigger) => {
            fields.add("queue", &trigger.queue);
            fields.add("use_raw_count", trigger.use_raw_count);
            fields.add("block_id", trigger.block_id);
        }
        Instruction::EventSemaphore => {}
        Instruction::Other { body, .. } => {
            if body.iter().any(|byte| *byte != 0) {
                fields.add("body", hex(body));
            }
        }
    }
    fields.0
}

impl fmt::Display for StreamReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Instruction stream, {} bytes", self.size)?;
        for (name, count) in &self.histogram {
            writeln!(f, "  {count:>6} {name}")?;
        }
        for slot in &self.slots {
            write!(f, "{:#08x} {:02x} {}", slot.offset, slot.opcode, slot.name.as_deref().unwrap_or("?"))?;
            for (name, value) in &slot.fields {
                write!(f, " {name}={value}")?;
            }
            if let Some(events) = &slot.events {
                let Events { wait_mode, wait_index, update_mode, update_index, semaphore_value } = events;
                write!(
                    f,
                    " wait={wait_mode:#x}:{wait_index}>{semaphore_value} update={update_mode:#x}:{update_index}"
                )?;
            }
            match &slot.problem {
                Some(problem) => writeln!(f, "\n           {problem}")?,
                None => writeln!(f)?,
            }
        }
        self.problems.iter().try_for_each(|problem| writeln!(f, "{problem}"))
    }
}
