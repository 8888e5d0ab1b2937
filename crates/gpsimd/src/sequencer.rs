//! The pool engine's stream of instructions, as far as it concerns libraries: load, move, dispatch, signal.

use std::collections::BTreeMap;

use outboard_neff::seq::{
    ArgTensor, Dialect, Events, ExtendedInst, Instruction, LoadPoolArgument, ModifyOp, ModifyPoolConfig, Shape, Slot,
    Storage, UPDATE_INCREMENT, WAIT_SEMAPHORE, chain, slots,
};

use crate::abi::ARGUMENT_BLOCK;
use crate::argument::block;
use crate::bus::Notification;
use crate::error::Error;
use crate::library::{Library, StagedLibrary, load_staged};
use crate::queue::DmaQueues;
use crate::report::RunReport;
use crate::runtime::Device;
use crate::support::Pull;

const DRAIN: u8 = 0xa2;
const NOP: u8 = 0xa4;
const ENGINE_NOP: u8 = 0x9f;
const EXTENDED: u8 = 0xf0;
/// Bits of the debug command that ask for a trace, and the one that halts.
const TRACE: u8 = 0x03;
const HALT: u8 = 0x80;

/// A stream and what its instructions refer to.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    /// Libraries in HBM, by their index.
    pub(crate) staged: BTreeMap<u32, StagedLibrary>,
    /// DMA queues by name.
    pub(crate) queues: DmaQueues,
    /// What the arguments of the operations are, where the caller knows: for findings.
    pub(crate) schema: Vec<Pull>,
}

/// Executes instructions in order.
pub(crate) struct Sequencer<'a> {
    device: &'a mut Device,
    stream: &'a Stream,
    report: &'a mut RunReport,
    argument: Option<LoadPoolArgument>,
}

impl<'a> Sequencer<'a> {
    pub(crate) fn new(device: &'a mut Device, stream: &'a Stream, report: &'a mut RunReport) -> Self {
        Self { device, stream, report, argument: None }
    }

    /// Executes a stream of 64-byte instructions.
    pub(crate) fn run(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let list = slots(bytes)?;
        let mut at = 0;
        while let Some(slot) = list.get(at) {
            at += self.execute(list, at, slot)?;
        }
        self.device.queues.consume(&self.device.pool.bus, &mut self.report.printed)?;
        self.report.notifications.extend(self.device.pool.bus.take_notifications());
        let transfers = self.device.pool.bus.take_transfers();
        if self.device.trace {
            self.report.transfers.extend(transfers);
        }
        Ok(())
    }

    /// Executes the instruction at `at`; returns how many it takes up.
    fn execute(&mut self, list: &[Slot], at: usize, slot: &Slot) -> Result<usize, Error> {
        let events = Events::decode(slot, Dialect::V2);
        let bad = |error| Error::Sequencer { slot: at, error };
        let instruction = Instruction::decode(slot, Dialect::V2).map_err(bad)?;
        self.debug_bytes(at, slot)?;
        let mut plain = instruction.encode_with(&events, Dialect::V2);
        if let (Some(place), Some(command)) = (plain.get_mut(2), slot.get(2)) {
            *place = *command;
        }
        if plain != *slot {
            return Err(unsupported(at, "a byte that has no meaning in it is set"));
        }
        self.wait(at, events)?;
        let mut taken = 1;
        match instruction {
            Instruction::ModifyPoolConfig(config) => self.modify(at, config)?,
            Instruction::Extended(extended) => self.extended(at, &extended)?,
            Instruction::CustomOpHeader(_) | Instruction::CustomOpPayload(_) => taken = self.custom_op(list, at)?,
            Instruction::LoadPoolArgument(argument) => self.argument = Some(argument),
            Instruction::DmaTrigger(trigger) => {
                if trigger.use_raw_count != 0 {
                    return Err(unsupported(at, "use_raw_count: descriptors are counted by their blocks"));
                }
                self.trigger(at, &trigger.queue, trigger.block_id.into())?;
            }
            Instruction::EventSemaphore => {}
            Instruction::Other { opcode: DRAIN | NOP | ENGINE_NOP, body } if body.iter().all(|byte| *byte == 0) => {}
            Instruction::Other { opcode: DRAIN | NOP | ENGINE_NOP, .. } => {
                return Err(unsupported(at, "a byte that has no meaning in it is set"));
            }
            Instruction::Other { opcode, body } => self.kernel(at, opcode, 0, &body)?,
        }
        self.update(at, &events, slot)?;
        Ok(taken)
    }

    fn debug_bytes(&mut self, at: usize, slot: &Slot) -> Result<(), Error> {
        let [_, _, command, hint, ..] = *slot;
        if hint != 0 || command & !(TRACE | HALT) != 0 {
            return Err(unsupported(at, "debug_cmd or debug_hint is set in a way that has no known meaning"));
        }
        if command & HALT != 0 {
            return Err(unsupported(at, "debug_cmd asks the engine to halt"));
        }
        if command & TRACE != 0 {
            self.report.log.push(format!("instruction {at}: trace {}", command & TRACE));
        }
        Ok(())
    }

    fn wait(&self, at: usize, events: Events) -> Result<(), Error> {
        match events.wait_mode {
            0 if events.wait_index == 0 && events.semaphore_value == 0 => Ok(()),
            WAIT_SEMAPHORE => {
                let value = self.device.pool.bus.semaphore(events.wait_index);
                let wanted = events.semaphore_value.max(1);
                if value >= wanted {
                    return Ok(());
                }
                Err(Error::WaitsForEver { slot: at, semaphore: events.wait_index, wanted, value })
            }
            mode => Err(unsupported(at, format!("wait mode {mode:#x} with index {}", events.wait_index))),
        }
    }

    fn update(&mut self, at: usize, events: &Events, slot: &Slot) -> Result<(), Error> {
        match events.update_mode {
            0 if events.update_index == 0 => Ok(()),
            UPDATE_INCREMENT => {
                let value = self.device.pool.bus.raise(events.update_index);
                // Completion is told to the host by the instruction made for it.
                if slot.starts_with(&[0xa0]) {
                    let queue = self.device.pool.bus.target.dispatch.notification_queue;
                    self.device.pool.bus.notify(Notification { queue, semaphore: events.update_index, value });
                }
                Ok(())
            }
            mode => Err(unsupported(at, format!("update mode {mode:#x} with index {}", events.update_index))),
        }
    }

    /// 0x95.
    fn modify(&mut self, at: usize, config: ModifyPoolConfig) -> Result<(), Error> {
        self.report.log.extend(self.per_core("dispatch : modify_pool_config"));
        match config.op {
            ModifyOp::UnloadLib => {
                if config.soc_addr != 0 || config.library_size != 0 {
                    return Err(unsupported(at, "soc_addr and library_size are 0 when a library is unloaded"));
                }
                self.device.unload();
                self.report.log.extend(self.per_core("Library unloaded"));
                Ok(())
            }
            ModifyOp::LoadLib => {
                let Some(staged) = self.stream.staged.get(&config.library_index) else {
                    return Err(unsupported(at, format!("library {} was not staged", config.library_index)));
                };
                // 0 is what the compiler writes; the address is known when the library is staged.
                if ![0, staged.address].contains(&config.soc_addr) {
                    return Err(unsupported(
                        at,
                        format!("soc_addr {:#x}: the library is at {:#x}", config.soc_addr, staged.address),
                    ));
                }
                let cores = self.device.pool.cores.len();
                let all = u8::try_from((1_u32 << cores) - 1).unwrap_or(u8::MAX);
                if config.core_mask & all != all {
                    return Err(unsupported(
                        at,
                        format!("core_mask {:#x}: a library is loaded into all {cores} cores", config.core_mask),
                    ));
                }
                if cores == 8 || config.core_mask == u8::MAX || config.core_mask == all {
                    let device = &mut *self.device;
                    let queues = device.queues;
                    let blocks = move |core| queues.blocks(core);
                    let library =
                        load_staged(&mut device.pool, &device.firmware, staged, config.library_size, all, &blocks)?;
                    device.set_library(library);
                    self.report.log.extend(self.per_core("Library loaded"));
                    return Ok(());
                }
                Err(unsupported(
                    at,
                    format!("core_mask {:#x} names cores that the pool does not have", config.core_mask),
                ))
            }
        }
    }

    /// 0xC1.
    fn trigger(&mut self, at: usize, queue: &str, block_id: u64) -> Result<(), Error> {
        let blocks = self.stream.queues.get(queue);
        let block = blocks.and_then(|blocks| blocks.iter().find(|block| block.id == block_id));
        let Some(block) = block else {
            return Err(unsupported(at, format!("block {block_id} of queue `{queue}` is not described")));
        };
        Ok(block.run(&self.device.pool.bus)?)
    }

    /// 0x85 and the 0x86 behind it.
    fn custom_op(&mut self, list: &[Slot], at: usize) -> Result<usize, Error> {
        let chain = chain(list, at)?;
        for slot in list.get(at + 1..=at + chain.args.len()).unwrap_or(&[]) {
            let events = Events::decode(slot, Dialect::V2);
            if events != Events::default() || slot.get(2..4) != Some(&[0, 0]) {
                return Err(unsupported(at, "a payload carries events or debug bytes"));
            }
            let instruction = Instruction::decode(slot, Dialect::V2);
            if instruction.ok().map(|instruction| instruction.encode()) != Some(*slot) {
                return Err(unsupported(at, "a payload has a byte that has no meaning in it"));
            }
        }
        let rules = &self.device.pool.bus.target.dispatch;
        if chain.header.scratch.is_some() {
            return Err(unsupported(at, "a custom operation with scratch space: the compiler never emits one"));
        }
        for arg in &chain.args {
            if let outboard_neff::seq::Arg::Tensor(tensor) = arg
                && let Some(problem) = contradiction(tensor)
            {
                return Err(unsupported(at, problem));
            }
        }
        let arrays = chain.args.iter().any(|arg| !matches!(arg, outboard_neff::seq::Arg::Tensor(_)));
        if arrays && !rules.array_arguments {
            return Err(unsupported(at, "an argument with several tensors; `array_arguments` of the target allows it"));
        }
        let counted = if rules.output_uses_a_slot { chain.args.len() } else { chain.inputs().len() };
        if counted > crate::abi::MAX_ARGS {
            return Err(Error::ArgumentCount { given: chain.args.len(), max: crate::abi::MAX_ARGS });
        }
        let library = self.device.library()?;
        let number = usize::from(chain.header.function_id);
        let Some(function) = library.functions.get(number) else {
            let log = format!("function {number} is not registered; the library has {}", library.functions.len());
            return Err(Error::UnknownOpcode { slot: at, log });
        };
        let addresses = function.addresses.clone();
        self.dispatch(&addresses, &block(&chain.args))?;
        Ok(1 + chain.args.len())
    }

    /// 0xF0.
    fn extended(&mut self, at: usize, extended: &ExtendedInst) -> Result<(), Error> {
        let channels = extended.completion.partitions();
        let spec = extended.extended_opcode;
        self.report.log.extend(self.per_core(&format!("dispatch_extended_inst({spec}) : num_chans = {channels}")));
        self.kernel(at, EXTENDED, spec, &extended.payload)
    }

    /// An instruction that the library's kernel table may serve: the first row with the key wins.
    fn kernel(&mut self, at: usize, opcode: u8, spec: u8, payload: &[u8]) -> Result<(), Error> {
        let miss =
            |cores: Vec<String>| Error::UnknownOpcode { slot: at, log: cores.first().cloned().unwrap_or_default() };
        let unknown = match opcode {
            EXTENDED => format!("UNKNOWN EXTENDED OPCODE={spec}"),
            _ => format!("UNKNOWN OPCODE={opcode:#x}"),
        };
        let Ok(Library { kernels: Some(table), .. }) = self.device.library() else {
            return Err(miss(self.per_core(&unknown)));
        };
        let table = *table;
        let key = u32::from(opcode) << 24 | u32::from(spec) << 16;
        let mut addresses = vec![0; self.device.pool.cores.len()];
        for core in &mut self.device.pool.cores {
            let index = core.index;
            let mut rows = vec![0; table.size as usize];
            let unreadable = |error: outboard_xtensa::engine::MemoryError| Error::Registration {
                core: index,
                problem: format!("the kernel table cannot be read: {error}"),
            };
            core.memory().peek(table.address, &mut rows).map_err(unreadable)?;
            let (rows, _) = rows.as_chunks::<8>();
            let word = |row: &[u8; 8]| u32::from_le_bytes([row[0], row[1], row[2], row[3]]);
            let found = rows.iter().find(|row| word(row) == key);
            let function = found.map(|row| u32::from_le_bytes([row[4], row[5], row[6], row[7]]));
            if let (Some(place), Some(function)) = (addresses.get_mut(index), function) {
                *place = function;
            }
        }
        if addresses.contains(&0) {
            return Err(miss(self.per_core(&unknown)));
        }
        if payload.iter().any(|byte| *byte != 0) {
            return Err(unsupported(at, "a payload: how kernels find it is not public"));
        }
        let Some(argument) = self.argument.take() else {
            return Err(unsupported(at, "no LOAD_POOL_ARGUMENT (0x7A) before it says where the arguments are"));
        };
        let block = self.argument_block(at, &argument)?;
        self.dispatch(&addresses, &block)
    }

    /// Reads the argument block that immediates 0 and 1 point to.
    fn argument_block(&self, at: usize, argument: &LoadPoolArgument) -> Result<[u8; ARGUMENT_BLOCK], Error> {
        let [low, high, rest @ ..] = argument.immediates;
        if argument.pointers & !3 != 0 || rest.iter().any(|word| *word != 0) {
            return Err(unsupported(at, "LOAD_POOL_ARGUMENT: only immediates 0 and 1 have a meaning for kernels"));
        }
        let bus = &self.device.pool.bus;
        let half = |value: u32, bit: u8| -> Result<u32, Error> {
            if argument.pointers >> bit & 1 == 0 {
                return Ok(value);
            }
            let mut word = [0; 4];
            bus.read(bus.target.soc.sbuf_base() + u64::from(value), &mut word)?;
            Ok(u32::from_le_bytes(word))
        };
        let address = u64::from(half(low, 0)?) | u64::from(half(high, 1)?) << 32;
        let mut block = [0; ARGUMENT_BLOCK];
        bus.read(address, &mut block)?;
        Ok(block)
    }

    fn dispatch(&mut self, addresses: &[u32], block: &[u8; ARGUMENT_BLOCK]) -> Result<(), Error> {
        self.device.dispatch(addresses, block, &self.stream.schema, self.report)
    }

    fn per_core(&self, text: &str) -> Vec<String> {
        (0..self.device.pool.cores.len()).map(|core| format!("P{core}: {text}")).collect()
    }
}

/// What a record says about its elements must be the same everywhere in it.
fn contradiction(tensor: &ArgTensor) -> Option<String> {
    let ended = |dims: &[u32]| dims.iter().skip_while(|dim| **dim != 0).all(|dim| *dim == 0);
    let complete = match &tensor.shape {
        Shape::Inline8(dims) => ended(&dims.map(u32::from)),
        Shape::Inline4(dims) => ended(dims),
        Shape::OutOfLine(_) => return None,
    };
    if !complete {
        return Some("a tensor has a dimension behind one of 0, which ends them".to_owned());
    }
    let counted = tensor.shape.dims().iter().try_fold(1_u32, |all, dim| all.checked_mul(*dim));
    let (elements, blocks) = match tensor.storage {
        Storage::Hbm { elements, .. } => (elements, None),
        Storage::Sbuf { elements, partitions, block, .. } => (elements, Some(u32::from(partitions).checked_mul(block))),
    };
    if counted != Some(elements) {
        return Some(format!("a tensor has {elements} elements and dimensions for {counted:?}"));
    }
    match blocks {
        Some(stored) if stored != Some(elements) => {
            Some(format!("a tensor has {elements} elements and partitions for {stored:?}"))
        }
        _ => None,
    }
}

fn unsupported(slot: usize, problem: impl Into<String>) -> Error {
    Error::Unsupported { slot, problem: problem.into() }
}
