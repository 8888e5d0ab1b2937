//! Element types, shapes and tensors as a host program sees them, and the two file formats they travel in.
//!
//! A [`Tensor`] is dense, row-major and little-endian, always; `.npy` files that are not are converted when they are read.
//! Nothing here touches a file system or a device: readers take the bytes of a file, writers return them. No size is
//! believed before it has been computed with overflow checks and compared with the bytes that are there.
//!
//! File formats: `docs/reference/tensor-files.md`.
//!
//! ```
//! use outboard_tensor::{DType, Shape, Tensor};
//!
//! let shape: Shape = "2,3".parse()?;
//! let tensor = Tensor::from_values(shape, &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0])?;
//! let file = tensor.view().to_npy()?;
//! let again = Tensor::from_npy(&file)?;
//! assert_eq!(again.dtype(), DType::Float32);
//! assert_eq!(again.values::<f32>(), Some(vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod dtype;
mod element;
mod npy;
mod shape;
mod tensor;

pub use dtype::{DType, UnknownDType, UnknownDTypeName};
pub use element::Element;
pub use npy::NpyError;
pub use shape::{Shape, ShapeError};
pub use tensor::{SizeMismatch, Tensor, TensorError, TensorView};
