//! What can go wrong, with a stable code each.

use outboard_elf::ElfError;
use outboard_elf::pi::UnknownShape;
use outboard_link::pi::UcplError;
use outboard_link::pi::ll::LlError;
use outboard_neff::NeffError;
use outboard_neff::seq::{ChainError, SeqError};

use crate::bus::BusError;
use crate::fault::DeviceFault;

/// Why an operation was not run, or how it failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The device failed.
    #[error("{0}")]
    Device(#[from] Box<DeviceFault>),
    /// A file is no ELF file.
    #[error("library {library}: {error}")]
    Elf {
        /// Position of the file.
        library: usize,
        /// Why.
        error: ElfError,
    },
    /// A file is no library.
    #[error("library {library}: {error}")]
    Shape {
        /// Position of the file.
        library: usize,
        /// How it differs.
        error: UnknownShape,
    },
    /// The library could not be prepared.
    #[error(transparent)]
    Link(#[from] LlError),
    /// The number of images does not fit the pool.
    #[error(
        "{given} images were given, the pool has {cores} cores: a fixed-load library is linked once for each core, a prelinked one \
         once for all; link it for {cores} cores or use another target"
    )]
    ImageCount {
        /// How many.
        given: usize,
        /// Cores.
        cores: usize,
    },
    /// An image is linked for another core.
    #[error("image {position} is linked for core {found} ({address:#x}); expected core {position} at {expected:#x}")]
    ImageCore {
        /// Its position.
        position: usize,
        /// The core it is for.
        found: usize,
        /// Where it begins.
        address: u64,
        /// Where it should.
        expected: u64,
    },
    /// An image does not fit its place.
    #[error("image {position}: {size:#x} bytes at {address:#x} leave the {room:#x} bytes that a core's image has")]
    ImageSize {
        /// Its position.
        position: usize,
        /// Its address.
        address: u64,
        /// Its size.
        size: u64,
        /// What it may use.
        room: u64,
    },
    /// Library and pool disagree about the number of cores.
    #[error(
        "the library's get_cpu_count() is {library}, the pool has {cores} cores; link it against the runtime for {cores} cores"
    )]
    CpuCount {
        /// What the library returns.
        library: u32,
        /// Cores.
        cores: usize,
    },
    /// The library refused to start.
    #[error("core {core}: the library's entry returned {status} ({meaning})")]
    Boot {
        /// The core.
        core: usize,
        /// The status.
        status: u32,
        /// What it means.
        meaning: &'static str,
    },
    /// The library registered what cannot be used.
    #[error("core {core}: {problem}")]
    Registration {
        /// The core.
        core: usize,
        /// What is wrong.
        problem: String,
    },
    /// A staged image is broken.
    #[error("the staged library at {address:#x}: {error}")]
    Staged {
        /// Its address.
        address: u64,
        /// Why.
        error: UcplError,
    },
    /// The size in an instruction does not fit the staged image.
    #[error("Invalid library_size: {given} (max: {max}); the staged library has {staged} bytes")]
    LibrarySize {
        /// From the instruction.
        given: u32,
        /// The limit.
        max: u32,
        /// What is staged.
        staged: u64,
    },
    /// No such function.
    #[error("the library has no function `{name}`; it has {}", listed(.known))]
    UnknownOp {
        /// The name.
        name: String,
        /// The names there are.
        known: Vec<String>,
    },
    /// No library is loaded.
    #[error("no library is loaded")]
    NoLibrary,
    /// An argument that no operation can have.
    #[error("argument {index}: {problem}")]
    Argument {
        /// Its position, from 0; the result counts from the end.
        index: usize,
        /// What is wrong.
        problem: String,
    },
    /// Too many arguments.
    #[error("{given} arguments, the result included; an operation has at most {max}")]
    ArgumentCount {
        /// How many.
        given: usize,
        /// How many there may be.
        max: usize,
    },
    /// An instruction is broken.
    #[error("instruction {slot}: {error}")]
    Sequencer {
        /// Its position in the stream.
        slot: usize,
        /// Why.
        error: SeqError,
    },
    /// A custom operation's instructions do not belong together.
    #[error(transparent)]
    Chain(#[from] ChainError),
    /// Nothing executes this instruction.
    #[error("instruction {slot}: {log}")]
    UnknownOpcode {
        /// Its position in the stream.
        slot: usize,
        /// What the device logs.
        log: String,
    },
    /// An instruction asks for something that is not simulated.
    #[error("instruction {slot}: {problem}")]
    Unsupported {
        /// Its position in the stream.
        slot: usize,
        /// What.
        problem: String,
    },
    /// An instruction waits for what nobody does.
    #[error("instruction {slot} waits until semaphore {semaphore} reaches {wanted}, which is {value} and stays so")]
    WaitsForEver {
        /// Its position in the stream.
        slot: usize,
        /// The semaphore.
        semaphore: u8,
        /// What it waits for.
        wanted: u32,
        /// What it is.
        value: u32,
    },
    /// A stream ended without telling the host.
    #[error(
        "the stream ended without an entry in the notification queue: an EVENT_SEMAPHORE (0xA0) with update 0x13 ends an operation"
    )]
    NoNotification,
    /// A call came at the wrong time.
    #[error(
        "the pool engine's code can be set before the runtime is initialised only (NRT status {status:#x}): {state}"
    )]
    State {
        /// The runtime's number.
        status: u32,
        /// The state it was in.
        state: &'static str,
    },
    /// An address without memory.
    #[error(transparent)]
    Bus(#[from] BusError),
    /// The container is broken.
    #[error(transparent)]
    Neff(#[from] NeffError),
    /// The container's tables and the given tensors do not fit.
    #[error("binding: {0}")]
    Binding(String),
}

fn listed(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

impl Error {
    /// The page that `outboard explain` prints.
    #[must_use]
    pub fn explain(&self) -> &'static str {
        match self {
            Self::Device(fault) => fault.explain(),
            Self::Elf { .. } | Self::Shape { .. } => "OB0804",
            Self::Link(error) => error.explain(),
            Self::ImageCount { .. } | Self::ImageCore { .. } | Self::ImageSize { .. } | Self::CpuCount { .. } => {
                "OB0805"
            }
            Self::Boot { .. } | Self::Registration { .. } => "OB0806",
            Self::Staged { .. } | Self::LibrarySize { .. } => "OB0807",
            Self::UnknownOp { .. } | Self::NoLibrary => "OB0808",
            Self::Argument { .. } | Self::ArgumentCount { .. } => "OB0809",
            Self::Sequencer { error, .. } => error.explain(),
            Self::Chain(_) => "OB0650",
            Self::UnknownOpcode { .. }
            | Self::Unsupported { .. }
            | Self::WaitsForEver { .. }
            | Self::NoNotification => "OB0811",
            Self::State { .. } => "OB0812",
            Self::Bus(_) => "OB0813",
            Self::Neff(error) => error.explain(),
            Self::Binding(_) => "OB0814",
        }
    }

    /// True when the device failed, false when the request was wrong.
    #[must_use]
    pub fn is_device(&self) -> bool {
        matches!(self, Self::Device(_) | Self::Boot { .. } | Self::Registration { .. } | Self::Staged { .. })
    }
}
