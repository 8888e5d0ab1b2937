//! The C7x compute protocol v3, byte-exact.
//!
//! This crate holds what both ends of the wire must agree on: message layouts, status codes, the tensor descriptor, the
//! module's I/O metadata, the printf buffer header, and the address arithmetic that decides whether a window may be used.
//! It never allocates, never does I/O and never trusts a length: every parser takes the bytes that really arrived.
//!
//! Facts: `docs/reference/c7x-wire.md`.
//!
//! ```
//! use outboard_wire::{Header, MessageType, PingReply, Status, Version};
//! use zerocopy::IntoBytes;
//!
//! let request = Header::request(MessageType::Ping, 1, 16);
//! assert_eq!(request.as_bytes(), [1, 0, 0, 0, 1, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0]);
//!
//! let reply = PingReply::new(1, Version::CURRENT, 5000);
//! assert_eq!(reply.header.status(), Some(Status::Success));
//! ```
#![no_std]
#![forbid(unsafe_code)]

mod infer;
mod io_meta;
mod map;
mod message;
mod printf;
mod status;
mod tensor;

pub use infer::{Infer, InferFlags, InferHeader, InferLarge, InferReply, InferReplyHeader};
pub use io_meta::{IoMeta, IoMetaError};
pub use map::{KvLayout, MapWindow, Region, SharedMap, in_range, round64};
pub use message::{
    DynLoad, DynLoadReply, DynUnload, Header, MalformedMessage, MessageType, ModelLoad, ModelLoadReply, ModelUnload,
    PingReply, SetPrintfBuf, StatusReply, Version,
};
pub use printf::PrintfHeader;
pub use status::Status;
pub use tensor::{DTypeCode, TensorDesc};

/// Longest message in either direction, in bytes: the size of an RPMsg buffer.
pub const MAX_MESSAGE: usize = 512;
/// Endpoint (destination address) the compute service listens on.
pub const SERVICE_ENDPOINT: u32 = 20;
/// Name under which the firmware announces its endpoint to Linux.
pub const ANNOUNCED_NAME: &str = "rpmsg_chrdev";
/// Name the host gives its own endpoint.
pub const SERVICE_NAME: &str = "c7x-compute";
/// Device-tree name by which the DSP is discovered in sysfs.
pub const DEVICE_TREE_NAME: &str = "7e000000.dsp";
/// Most dimensions a tensor descriptor can carry.
pub const MAX_DIMS: usize = 6;
/// Most inputs the *device* accepts inline in an [`Infer`] message (what fits into 512 bytes).
pub const MAX_INLINE_INPUTS: usize = (MAX_MESSAGE - size_of::<InferHeader>()) / size_of::<TensorDesc>();
/// Most inputs the *host* sends inline: older firmware refuses a fifth, and `INFER_LARGE` is always valid.
pub const HOST_INLINE_INPUTS: usize = 4;
/// Most inputs of one inference.
pub const MAX_INPUTS: usize = 128;
/// Most output descriptors that fit into an [`InferReply`].
pub const MAX_INLINE_OUTPUTS: usize = (MAX_MESSAGE - size_of::<InferReplyHeader>()) / size_of::<TensorDesc>();
/// Most tensors kept in the KV region.
pub const KV_TENSORS: usize = 60;
/// Distance between two tensors of the KV region, in bytes (1·3·256·64·4).
pub const KV_STRIDE: u64 = 196_608;

const _: () = assert!(MAX_INLINE_INPUTS == 5 && MAX_INLINE_OUTPUTS == 5);
