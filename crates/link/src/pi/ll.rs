//! The call around the prelinker: gate by core kind, prelink, stage into device memory.

use super::{LlStatus, MemoryBounds, PrelinkError, PrelinkRequest, Prelinked, STAGED_MAX, UCPL_HEADER_SIZE, prelink};

/// Bytes that are claimed on the device for one library.
pub const STAGING_SIZE: u64 = 0x100_0000;
/// The pool core of SUNDA: its library is registered without prelinking.
pub const SUNDA_Q7_POOL: u32 = 6;
/// Largest core kind.
pub const LAST_KIND: u32 = 0x25;
/// One bit for each core kind whose library is prelinked.
pub const PRELINKED_KINDS: u64 = 0x20_2020_2000;

/// What happens to the library of a core kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gate {
    /// It is prelinked and staged.
    Prelink,
    /// It is registered as it is.
    Register,
}

/// Decides by the core kind.
#[must_use]
pub const fn gate(kind: u32) -> Option<Gate> {
    if kind > LAST_KIND {
        None
    } else if PRELINKED_KINDS >> kind & 1 == 1 {
        Some(Gate::Prelink)
    } else if kind == SUNDA_Q7_POOL {
        Some(Gate::Register)
    } else {
        None
    }
}

/// Device memory as the original reaches it. Errors are the backend's own numbers and are passed on.
pub trait MemHandle {
    /// A block of device memory.
    type Handle: Copy;

    /// Claims `size` bytes.
    ///
    /// # Errors
    ///
    /// The backend's number.
    fn malloc(&mut self, size: u64) -> Result<Self::Handle, u32>;

    /// Releases a block.
    fn free(&mut self, handle: Self::Handle);

    /// Reads from a block.
    ///
    /// # Errors
    ///
    /// The backend's number.
    fn read(&mut self, handle: Self::Handle, offset: u64, bytes: &mut [u8]) -> Result<(), u32>;

    /// Writes into a block.
    ///
    /// # Errors
    ///
    /// The backend's number.
    fn write(&mut self, handle: Self::Handle, offset: u64, bytes: &[u8]) -> Result<(), u32>;

    /// The device address of a block, when the backend knows it.
    fn device_addr(&self, handle: Self::Handle) -> Option<u64>;
}

/// The backend of a host without device: everything fails with 8.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoBackend;

impl MemHandle for NoBackend {
    type Handle = ();

    fn malloc(&mut self, _size: u64) -> Result<(), u32> {
        Err(LlStatus::Unsupported.code())
    }

    fn free(&mut self, _handle: ()) {}

    fn read(&mut self, _handle: (), _offset: u64, _bytes: &mut [u8]) -> Result<(), u32> {
        Err(LlStatus::Unsupported.code())
    }

    fn write(&mut self, _handle: (), _offset: u64, _bytes: &[u8]) -> Result<(), u32> {
        Err(LlStatus::Unsupported.code())
    }

    fn device_addr(&self, _handle: ()) -> Option<u64> {
        None
    }
}

/// Why a library was not made available to a core.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LlError {
    /// The core kind has no libraries.
    #[error(
        "core kind {kind} has no ext-ISA library; expected 6, 13, 21, 29 or 37 (sunda, cayman, mariana, mariana_plus, maverick)"
    )]
    Kind {
        /// The kind.
        kind: u32,
    },
    /// The prelinker failed.
    #[error("Failed prelink with status = {}: {error}", error.code())]
    Prelink {
        /// Why.
        error: PrelinkError,
    },
    /// The image is larger than the device's buffer.
    #[error(
        "Prelinked library would be larger than the available buffer on device: {size:#x} bytes, the buffer has \
         {STAGED_MAX:#x}; make the library smaller"
    )]
    TooLarge {
        /// Its size.
        size: u64,
    },
    /// The backend could not claim memory.
    #[error("the device has no {STAGING_SIZE:#x} bytes for the library (backend status {status}); unload another one")]
    Malloc {
        /// The backend's number.
        status: u32,
    },
    /// The backend failed to write.
    #[error("writing the {part} of the library to the device failed (backend status {status}); nothing was kept")]
    Write {
        /// `header`, `code` or `data`.
        part: &'static str,
        /// The backend's number.
        status: u32,
    },
}

impl LlError {
    /// The number of the original; a backend's own number is passed on.
    #[must_use]
    pub const fn code(&self) -> u32 {
        match self {
            Self::Kind { .. } => LlStatus::Unsupported.code(),
            Self::Prelink { .. } => LlStatus::PrelinkFailed.code(),
            Self::TooLarge { .. } => LlStatus::TooLarge.code(),
            Self::Malloc { status } | Self::Write { status, .. } => *status,
        }
    }

    /// The page that `outboard explain` prints.
    #[must_use]
    pub const fn explain(&self) -> &'static str {
        match self {
            Self::Prelink { error } => error.explain(),
            Self::Kind { .. } => "OB0615",
            Self::TooLarge { .. } => "OB0616",
            Self::Malloc { .. } | Self::Write { .. } => "OB0617",
        }
    }
}

/// A library in device memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Staged<H> {
    /// The block.
    pub handle: H,
    /// Bytes of the image in it.
    pub size: u64,
}

/// A library that a core may load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loaded<H> {
    /// Which library it is.
    pub selector: u32,
    /// Where it is staged; `None` for a library that is registered as it is.
    pub staged: Option<Staged<H>>,
}

/// Writes an image: header, code, data, in this order, or nothing. The size is checked before anything is claimed.
///
/// # Errors
///
/// [`LlError::TooLarge`], or what the backend said; a claimed block is released.
pub fn stage<M: MemHandle>(memory: &mut M, image: &Prelinked) -> Result<Staged<M::Handle>, LlError> {
    let size = image.staged_size();
    if size > STAGED_MAX {
        return Err(LlError::TooLarge { size });
    }
    let handle = memory.malloc(STAGING_SIZE).map_err(|status| LlError::Malloc { status })?;
    let header = image.header.encode();
    let parts = [
        ("header", 0, header.as_slice()),
        ("code", u64::from(UCPL_HEADER_SIZE), image.code()),
        ("data", u64::from(image.header.data_offset), image.data()),
    ];
    for (part, offset, bytes) in parts {
        if let Err(status) = memory.write(handle, offset, bytes) {
            memory.free(handle);
            return Err(LlError::Write { part, status });
        }
    }
    Ok(Staged { handle, size })
}

/// Makes a library available to a core of `kind`.
///
/// # Errors
///
/// An [`LlError`]; the device's memory is as it was.
pub fn create<M: MemHandle>(
    memory: &mut M,
    kind: u32,
    selector: u32,
    file: &[u8],
    bounds: &MemoryBounds,
) -> Result<Loaded<M::Handle>, LlError> {
    match gate(kind).ok_or(LlError::Kind { kind })? {
        Gate::Register => Ok(Loaded { selector, staged: None }),
        Gate::Prelink => {
            let request = PrelinkRequest::new(file, bounds);
            let image = prelink(&request).map_err(|error| LlError::Prelink { error })?;
            Ok(Loaded { selector, staged: Some(stage(memory, &image)?) })
        }
    }
}
