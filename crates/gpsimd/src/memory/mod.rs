//! What cores see: their own memories, the shared ones, and the buffer in between.

mod buffer;
mod core;
mod shared;

pub use self::core::HookCounts;
pub(crate) use self::core::{CoreMemory, Refusal};
pub(crate) use buffer::WriteBuffer;
pub(crate) use shared::{PAGE_BITS, Page, load_bytes, store_bytes};
pub use shared::{SharedError, SharedMemory};
