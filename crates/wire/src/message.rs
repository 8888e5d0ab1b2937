//! Headers and fixed-size messages.
//!
//! Layouts are `repr(C)` over unaligned little-endian integers, so that a struct *is* its wire bytes.

use crate::{MAX_MESSAGE, Status};
use zerocopy::little_endian::{I32, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bit that turns a request code into its reply code.
const REPLY_BIT: u32 = 0x1000;

/// What a message asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum MessageType {
    /// Is the service there, and which version does it speak?
    Ping = 0x0001,
    /// Version, uptime and job counters.
    GetStatus = 0x0003,
    /// Load the module that lies in staging.
    DynLoad = 0x0010,
    /// Unload a module.
    DynUnload = 0x0012,
    /// Load the weights file that lies in staging.
    ModelLoad = 0x0020,
    /// Run a module, descriptors inline.
    Infer = 0x0021,
    /// Forget weights.
    ModelUnload = 0x0022,
    /// Run a module, descriptors in the input buffer.
    InferLarge = 0x0023,
    /// Name the buffer that receives what modules print.
    SetPrintfBuf = 0x0030,
}

impl MessageType {
    /// Every request, in the order of the codes.
    pub const ALL: [Self; 9] = [
        Self::Ping,
        Self::GetStatus,
        Self::DynLoad,
        Self::DynUnload,
        Self::ModelLoad,
        Self::Infer,
        Self::ModelUnload,
        Self::InferLarge,
        Self::SetPrintfBuf,
    ];

    /// The request with this code.
    pub fn from_code(code: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.code() == code)
    }

    /// The number on the wire.
    pub const fn code(self) -> u32 {
        self as u32
    }

    /// The code of its reply: `0x1000 | request`, except that INFER_LARGE is answered like INFER.
    pub const fn reply_code(self) -> u32 {
        match self {
            Self::InferLarge => REPLY_BIT | Self::Infer as u32,
            other => REPLY_BIT | other as u32,
        }
    }

    /// The protocol's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ping => "PING",
            Self::GetStatus => "GET_STATUS",
            Self::DynLoad => "DYN_LOAD",
            Self::DynUnload => "DYN_UNLOAD",
            Self::ModelLoad => "MODEL_LOAD",
            Self::Infer => "INFER",
            Self::ModelUnload => "MODEL_UNLOAD",
            Self::InferLarge => "INFER_LARGE",
            Self::SetPrintfBuf => "SET_PRINTF_BUF",
        }
    }

    /// Shortest request the device accepts: the struct, with one descriptor for INFER.
    pub const fn min_size(self) -> usize {
        match self {
            Self::Ping | Self::GetStatus => size_of::<Header>(),
            Self::DynLoad => size_of::<DynLoad>(),
            Self::DynUnload => size_of::<DynUnload>(),
            Self::ModelLoad => size_of::<ModelLoad>(),
            Self::Infer => size_of::<crate::InferHeader>() + size_of::<crate::TensorDesc>(),
            Self::ModelUnload => size_of::<ModelUnload>(),
            Self::InferLarge => size_of::<crate::InferLarge>(),
            Self::SetPrintfBuf => size_of::<SetPrintfBuf>(),
        }
    }
}

/// Why bytes are not the message they claim to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum MalformedMessage {
    /// Shorter than the message's struct.
    #[error("{name}: {got} bytes arrived, the message has at least {need}")]
    Short {
        /// Message name.
        name: &'static str,
        /// Bytes that arrived.
        got: usize,
        /// Bytes needed.
        need: usize,
    },
    /// Longer than any message may be.
    #[error("{name}: {got} bytes, a message has at most {MAX_MESSAGE}")]
    Long {
        /// Message name.
        name: &'static str,
        /// Bytes that arrived.
        got: usize,
    },
    /// More inline descriptors than a message carries.
    #[error("{name}: {count} descriptors, a message carries at most {max}")]
    TooManyDescriptors {
        /// Message name.
        name: &'static str,
        /// Descriptors asked for.
        count: usize,
        /// Most that fit.
        max: usize,
    },
}

/// First 16 bytes of every message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub struct Header {
    /// Message code, see [`MessageType`].
    pub kind: U32,
    /// Chosen by the requester, echoed by the reply.
    pub seq: U32,
    /// Whole message length in bytes; the length that arrived is authoritative.
    pub len: U32,
    /// 0 in requests, the result in replies; see [`Header::status`].
    pub status_code: I32,
}

impl Header {
    /// Size of the header.
    pub const SIZE: usize = 16;

    /// Header of a request of `len` bytes.
    pub fn request(kind: MessageType, seq: u32, len: u32) -> Self {
        Self { kind: kind.code().into(), seq: seq.into(), len: len.into(), status_code: I32::ZERO }
    }

    /// Header of the reply to a request of this kind.
    pub fn reply(kind: MessageType, seq: u32, len: u32, status: Status) -> Self {
        Self { kind: kind.reply_code().into(), seq: seq.into(), len: len.into(), status_code: status.code().into() }
    }

    /// Header-only reply to a message whose code may be unknown: `code | 0x1000`.
    pub fn refusal(code: u32, seq: u32, status: Status) -> Self {
        let kind = MessageType::from_code(code).map_or(code | REPLY_BIT, MessageType::reply_code);
        Self { kind: kind.into(), seq: seq.into(), len: 16.into(), status_code: status.code().into() }
    }

    /// Reads a header from the start of `bytes`.
    ///
    /// # Errors
    /// Fewer than 16 bytes arrived.
    pub fn parse(bytes: &[u8]) -> Result<Self, MalformedMessage> {
        prefix(bytes, "header")
    }

    /// The result code, or `None` when the protocol does not define the number.
    pub fn status(&self) -> Option<Status> {
        Status::from_code(self.status_code.get())
    }
}

/// Reads a struct from the start of a message.
pub(crate) fn prefix<T: FromBytes + KnownLayout + Immutable + Unaligned>(
    bytes: &[u8],
    name: &'static str,
) -> Result<T, MalformedMessage> {
    T::read_from_prefix(bytes).map(|(message, _)| message).map_err(|_| MalformedMessage::Short {
        name,
        got: bytes.len(),
        need: size_of::<T>(),
    })
}

/// Protocol version, 0xMMmmpp.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Version(pub u32);

impl Version {
    /// The version this crate speaks: 3.0.0.
    pub const CURRENT: Self = Self(0x03_0000);

    /// A struct size changed or a message became mandatory.
    pub const fn major(self) -> u32 {
        (self.0 >> 16) & 0xFF
    }

    /// Compatible additions.
    pub const fn minor(self) -> u32 {
        (self.0 >> 8) & 0xFF
    }

    /// Corrections.
    pub const fn patch(self) -> u32 {
        self.0 & 0xFF
    }
}

impl core::fmt::Display for Version {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}.{}.{}", self.major(), self.minor(), self.patch())
    }
}

macro_rules! message {
    ($(#[$doc:meta])* $name:ident, $size:literal, $label:literal { $($(#[$fdoc:meta])* $field:ident: $ty:ty,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
        #[repr(C)]
        pub struct $name {
            /// Message header.
            pub header: Header,
            $($(#[$fdoc])* pub $field: $ty,)*
        }

        const _: () = assert!(size_of::<$name>() == $size);

        impl $name {
            /// Size of the message in bytes.
            pub const SIZE: usize = $size;

            /// Reads the message from the bytes that arrived; extra bytes are ignored.
            ///
            /// # Errors
            /// Fewer bytes arrived than the message has.
            pub fn parse(bytes: &[u8]) -> Result<Self, MalformedMessage> {
                prefix(bytes, $label)
            }
        }
    };
}
pub(crate) use message;

message! {
    /// Answer to PING: 24 bytes. The same in v2 and v3, so that a version can always be asked for.
    PingReply, 24, "PING reply" {
        /// Protocol version, see [`Version`].
        version: U32,
        /// Milliseconds since the service started; wraps at 2^32.
        uptime_ms: U32,
    }
}

impl PingReply {
    /// A successful answer.
    pub fn new(seq: u32, version: Version, uptime_ms: u32) -> Self {
        Self {
            header: Header::reply(MessageType::Ping, seq, 24, Status::Success),
            version: version.0.into(),
            uptime_ms: uptime_ms.into(),
        }
    }

    /// The version the device speaks.
    pub fn version(&self) -> Version {
        Version(self.version.get())
    }
}

message! {
    /// Answer to GET_STATUS: 32 bytes.
    StatusReply, 32, "GET_STATUS reply" {
        /// Protocol version, see [`Version`].
        version: U32,
        /// Milliseconds since the service started; wraps at 2^32.
        uptime_ms: U32,
        /// Inferences that succeeded.
        jobs_completed: U32,
        /// Inferences whose entry ran and returned non-zero.
        jobs_failed: U32,
    }
}

message! {
    /// SET_PRINTF_BUF request: 32 bytes; the reply is a bare header.
    SetPrintfBuf, 32, "SET_PRINTF_BUF" {
        /// Device address of the client's printf buffer.
        printf_dsp_addr: U64,
        /// Its size in bytes, header included.
        printf_size: U32,
        /// Zero.
        reserved: U32,
    }
}

impl SetPrintfBuf {
    /// A request that names `[address, address + size)` as the printf buffer.
    pub fn new(seq: u32, address: u64, size: u32) -> Self {
        Self {
            header: Header::request(MessageType::SetPrintfBuf, seq, 32),
            printf_dsp_addr: address.into(),
            printf_size: size.into(),
            reserved: U32::ZERO,
        }
    }
}

message! {
    /// DYN_LOAD request: 32 bytes; the file lies at the start of staging.
    DynLoad, 32, "DYN_LOAD" {
        /// Bytes of the staged file.
        elf_size: U32,
        /// Zero.
        flags: U32,
        /// Zero.
        reserved: [U32; 2],
    }
}

impl DynLoad {
    /// A request to load the `elf_size` bytes at the start of staging.
    pub fn new(seq: u32, elf_size: u32) -> Self {
        Self { header: Header::request(MessageType::DynLoad, seq, 32), elf_size: elf_size.into(), ..Self::default() }
    }
}

message! {
    /// Answer to DYN_LOAD: 68 bytes.
    DynLoadReply, 68, "DYN_LOAD reply" {
        /// Handle of the module, from 1, never reused.
        module_handle: U32,
        /// Zero.
        text_size: U32,
        /// Zero.
        data_size: U32,
        /// With ERR_NOMEM: bytes asked for.
        oom_requested: U32,
        /// With ERR_NOMEM: bytes free.
        oom_free: U32,
        /// With ERR_NOMEM: bytes of the pool.
        oom_total: U32,
        /// Input capacity the module declares, 0 without metadata.
        io_input_bytes: U64,
        /// Output capacity the module declares.
        io_output_bytes: U64,
        /// Inputs the module declares.
        io_num_inputs: U32,
        /// Outputs the module declares.
        io_num_outputs: U32,
        /// Bit 0: the sizes are exact.
        io_flags: U32,
    }
}

message! {
    /// DYN_UNLOAD request: 20 bytes; the reply is a bare header.
    DynUnload, 20, "DYN_UNLOAD" {
        /// Handle from DYN_LOAD.
        module_handle: U32,
    }
}

impl DynUnload {
    /// A request to unload a module.
    pub fn new(seq: u32, module_handle: u32) -> Self {
        Self { header: Header::request(MessageType::DynUnload, seq, 20), module_handle: module_handle.into() }
    }
}

message! {
    /// MODEL_LOAD request: 32 bytes; the weights lie at the start of staging.
    ModelLoad, 32, "MODEL_LOAD" {
        /// Bytes of the staged weights.
        weights_size: U32,
        /// Zero.
        flags: U32,
        /// Zero.
        reserved: [U32; 2],
    }
}

impl ModelLoad {
    /// A request to load the `weights_size` bytes at the start of staging.
    pub fn new(seq: u32, weights_size: u32) -> Self {
        Self {
            header: Header::request(MessageType::ModelLoad, seq, 32),
            weights_size: weights_size.into(),
            ..Self::default()
        }
    }
}

message! {
    /// Answer to MODEL_LOAD: 36 bytes.
    ModelLoadReply, 36, "MODEL_LOAD reply" {
        /// Id of the model, from 1.
        model_id: U32,
        /// Constants found.
        num_constants: U32,
        /// With ERR_NOMEM: bytes asked for.
        oom_requested: U32,
        /// With ERR_NOMEM: bytes free.
        oom_free: U32,
        /// With ERR_NOMEM: bytes of the pool.
        oom_total: U32,
    }
}

message! {
    /// MODEL_UNLOAD request: 20 bytes; the reply is a bare header.
    ModelUnload, 20, "MODEL_UNLOAD" {
        /// Id from MODEL_LOAD.
        model_id: U32,
    }
}

impl ModelUnload {
    /// A request to forget weights.
    pub fn new(seq: u32, model_id: u32) -> Self {
        Self { header: Header::request(MessageType::ModelUnload, seq, 20), model_id: model_id.into() }
    }
}
