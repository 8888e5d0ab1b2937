//! Instructions of the pool engine's sequencer: 64 bytes each, encoded and decoded.
//!
//! ```
//! use outboard_neff::seq::{Dialect, Instruction, ModifyPoolConfig};
//!
//! let load = ModifyPoolConfig::load(0x40_1234_5000, 3, 0x73cc);
//! let slot = Instruction::ModifyPoolConfig(load).encode();
//! assert_eq!(slot[..14], [0x95, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff]);
//! assert_eq!(Instruction::decode(&slot, Dialect::V2).unwrap(), Instruction::ModifyPoolConfig(load));
//! ```

mod arg;
mod bits;
mod chain;
mod instruction;
mod report;

pub use arg::{ARG_TENSOR, ArgTensor, ElementType, Location, Shape, Storage};
pub use chain::{Chain, ChainError, LoadRecordsError, PayloadCount, chain, chains, encode_chain, load_records, slots};
pub use instruction::{
    Arg, Completion, CustomOpHeader, CustomOpPayload, DmaTrigger, ExtendedInst, Instruction, LoadPoolArgument,
    ModifyOp, ModifyPoolConfig, Scratch, TensorTensorArith, UNSET_FUNCTION,
};
pub use report::{SlotReport, StreamReport, inspect};

/// Size of an instruction in bytes.
pub const SLOT: usize = 64;
/// `inst_word_len`: every instruction has sixteen words.
pub const WORDS: u8 = 0x10;

/// The bytes of an instruction.
pub type Slot = [u8; SLOT];

/// Which events an instruction waits for and sets, and where its body begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Dialect {
    /// First generation: four bytes of events, body at 0x08.
    V1,
    /// All later ones: eight bytes of events, body at 0x0C.
    #[default]
    V2,
}

impl Dialect {
    /// Offset of the body.
    #[must_use]
    pub const fn body(self) -> usize {
        match self {
            Self::V1 => 0x08,
            Self::V2 => 0x0c,
        }
    }
}

/// What an instruction waits for and what it sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Events {
    /// 0 nothing, 4 until a semaphore is above its value.
    pub wait_mode: u8,
    /// Number of that semaphore or event.
    pub wait_index: u8,
    /// 0 nothing, 0x13 increment on completion.
    pub update_mode: u8,
    /// Number of that semaphore or event.
    pub update_index: u8,
    /// Value that the wait compares with; absent in the first dialect.
    pub semaphore_value: u32,
}

/// Waits for a semaphore.
pub const WAIT_SEMAPHORE: u8 = 0x04;
/// Increments a semaphore on completion.
pub const UPDATE_INCREMENT: u8 = 0x13;

/// Why bytes are not an instruction, or not a sound one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SeqError {
    /// The length in words is not sixteen.
    #[error("inst_word_len at offset 1 is {value:#x}, expected 0x10: every instruction has sixteen words")]
    WordLength {
        /// The value found.
        value: u8,
    },
    /// A reserved byte is set.
    #[error("reserved byte at offset {offset:#x} is {value:#x}, expected 0")]
    Reserved {
        /// Its offset in the instruction.
        offset: usize,
        /// Its value.
        value: u8,
    },
    /// A field has a value that it cannot have.
    #[error("{field} at offset {offset:#x} is {value:#x}, expected {expected}")]
    Field {
        /// Name of the field.
        field: &'static str,
        /// Its offset in the instruction.
        offset: usize,
        /// Its value.
        value: u64,
        /// What it may be.
        expected: &'static str,
    },
    /// The three fields of the scratch space contradict each other.
    #[error(
        "scratch space: address {address:#x}, size {size:#x} and partitions {partitions} must all be zero or all be set"
    )]
    Scratch {
        /// Address.
        address: u32,
        /// Bytes of each partition.
        size: u32,
        /// Partitions.
        partitions: u8,
    },
}

impl SeqError {
    /// The page that `outboard explain` prints.
    #[must_use]
    pub const fn explain(&self) -> &'static str {
        "OB0650"
    }
}
