//! Tensors that own their bytes, and views that borrow them.

use crate::{DType, Element, NpyError, Shape, ShapeError, UnknownDType, UnknownDTypeName};

/// Bytes that do not make up a tensor of the stated type and shape.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a {dtype} tensor of shape ({shape}) has {need} bytes, but {got} are there")]
pub struct SizeMismatch {
    /// Element type.
    pub dtype: DType,
    /// Shape.
    pub shape: Shape,
    /// Bytes they make.
    pub need: usize,
    /// Bytes that are there.
    pub got: usize,
}

/// Why bytes are not a tensor.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TensorError {
    /// The shape cannot be used.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// The bytes do not fit type and shape.
    #[error(transparent)]
    Size(#[from] SizeMismatch),
    /// The `.npy` file cannot be read or written.
    #[error(transparent)]
    Npy(#[from] NpyError),
    /// The element type's number is unknown.
    #[error(transparent)]
    DType(#[from] UnknownDType),
    /// The element type's name is unknown.
    #[error(transparent)]
    DTypeName(#[from] UnknownDTypeName),
}

impl TensorError {
    /// The stable code, documented under `docs/reference/codes/`.
    pub fn code(&self) -> &'static str {
        match self {
            Self::DType(_) => "OB0401",
            Self::DTypeName(_) => "OB0402",
            Self::Shape(error) => error.code(),
            Self::Size(_) => "OB0404",
            Self::Npy(_) => "OB0405",
        }
    }
}

/// A dense, row-major, little-endian tensor that owns its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tensor {
    dtype: DType,
    shape: Shape,
    bytes: Vec<u8>,
}

/// The same, borrowed: what inputs are given as and outputs are returned as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TensorView<'a> {
    dtype: DType,
    shape: &'a Shape,
    bytes: &'a [u8],
}

fn check(dtype: DType, shape: &Shape, got: usize) -> Result<(), TensorError> {
    let need = shape.bytes(dtype)?;
    if need == got { Ok(()) } else { Err(SizeMismatch { dtype, shape: shape.clone(), need, got }.into()) }
}

impl Tensor {
    /// A tensor of these bytes.
    ///
    /// # Errors
    /// Their number is not what type and shape make.
    pub fn new(dtype: DType, shape: Shape, bytes: Vec<u8>) -> Result<Self, TensorError> {
        check(dtype, &shape, bytes.len())?;
        Ok(Self { dtype, shape, bytes })
    }

    /// A tensor of zeros.
    ///
    /// # Errors
    /// It is larger than memory can be.
    pub fn zeros(dtype: DType, shape: Shape) -> Result<Self, TensorError> {
        let bytes = vec![0; shape.bytes(dtype)?];
        Ok(Self { dtype, shape, bytes })
    }

    /// A tensor of these values.
    ///
    /// # Errors
    /// Their number is not what the shape makes.
    pub fn from_values<T: Element>(shape: Shape, values: &[T]) -> Result<Self, TensorError> {
        let mut bytes = Vec::with_capacity(std::mem::size_of_val(values));
        values.iter().for_each(|value| value.append_to(&mut bytes));
        Self::new(T::DTYPE, shape, bytes)
    }

    /// Reads a `.npy` file. Big-endian and Fortran-ordered ones are converted.
    ///
    /// # Errors
    /// The file is not a `.npy` file of a known element type, or has more or fewer bytes than its header says.
    pub fn from_npy(file: &[u8]) -> Result<Self, TensorError> {
        crate::npy::read(file)
    }

    /// Element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Shape.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The elements, little-endian and row-major.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The elements, to be changed in place.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// The elements, without the rest.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// A borrowed view.
    pub fn view(&self) -> TensorView<'_> {
        TensorView { dtype: self.dtype, shape: &self.shape, bytes: &self.bytes }
    }

    /// The elements as Rust values, `None` when `T` is not the element type.
    pub fn values<T: Element>(&self) -> Option<Vec<T>> {
        self.view().values()
    }
}

impl<'a> TensorView<'a> {
    /// A view of these bytes.
    ///
    /// # Errors
    /// Their number is not what type and shape make.
    pub fn new(dtype: DType, shape: &'a Shape, bytes: &'a [u8]) -> Result<Self, TensorError> {
        check(dtype, shape, bytes.len())?;
        Ok(Self { dtype, shape, bytes })
    }

    /// Element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Shape.
    pub fn shape(&self) -> &'a Shape {
        self.shape
    }

    /// The elements, little-endian and row-major.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// A copy that owns its bytes.
    pub fn to_tensor(&self) -> Tensor {
        Tensor { dtype: self.dtype, shape: self.shape.clone(), bytes: self.bytes.to_vec() }
    }

    /// The elements as Rust values, `None` when `T` is not the element type.
    pub fn values<T: Element>(&self) -> Option<Vec<T>> {
        if T::DTYPE != self.dtype {
            return None;
        }
        self.bytes.chunks_exact(self.dtype.size()).map(T::read_from).collect()
    }

    /// The bytes of a `.npy` file of this tensor.
    ///
    /// # Errors
    /// The format has no such element type (bfloat16).
    pub fn to_npy(&self) -> Result<Vec<u8>, TensorError> {
        Ok(crate::npy::write(self)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_do_not_make_the_shape_are_refused_with_both_numbers() {
        let refused = Tensor::new(DType::Float32, "2,3".parse().unwrap(), vec![0; 23]).unwrap_err();
        assert_eq!(refused.to_string(), "a float32 tensor of shape (2,3) has 24 bytes, but 23 are there");
        assert_eq!(refused.code(), "OB0404");
    }

    #[test]
    fn values_come_back_only_as_the_type_they_have() {
        let tensor = Tensor::from_values("3".parse().unwrap(), &[true, false, true]).unwrap();
        assert_eq!(tensor.bytes(), [1, 0, 1]);
        assert_eq!(tensor.values::<bool>(), Some(vec![true, false, true]));
        assert_eq!(tensor.values::<u8>(), None);
        let empty = Tensor::from_values::<i64>("0".parse().unwrap(), &[]).unwrap();
        assert_eq!(empty.values::<i64>(), Some(vec![]));
    }

    #[test]
    fn zeros_of_an_impossible_size_are_refused_before_anything_is_allocated() {
        let shape = Shape::new(&[usize::MAX, usize::MAX]).unwrap();
        assert!(matches!(Tensor::zeros(DType::Int8, shape), Err(TensorError::Shape(ShapeError::Overflow { .. }))));
    }
}
