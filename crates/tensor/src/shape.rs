//! Shapes: dimensions of a tensor, parsed and multiplied with overflow checks.

use smallvec::SmallVec;
use std::fmt;
use std::str::FromStr;

/// Dimensions of a tensor, outermost first. No dimension at all is a scalar.
///
/// ```
/// use outboard_tensor::{DType, Shape};
/// let shape: Shape = "1,3,224,224".parse().unwrap();
/// assert_eq!(shape.bytes(DType::Float32), Ok(1 * 3 * 224 * 224 * 4));
/// assert_eq!(shape.to_string(), "1,3,224,224");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Shape(SmallVec<[usize; 6]>);

/// Why a shape cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ShapeError {
    /// A part of the text is not a dimension.
    #[error("`{text}` is not a shape: dimension {index} is `{part}`; write dimensions as in 1,3,224,224")]
    Syntax {
        /// The text (its first characters).
        text: String,
        /// Index of the part.
        index: usize,
        /// The part.
        part: String,
    },
    /// More dimensions than a tensor may have.
    #[error("a shape of {count} dimensions: at most {max} are possible", max = Shape::MAX_DIMS)]
    TooManyDims {
        /// Dimensions found.
        count: usize,
    },
    /// A dimension below zero, or above what this machine can address.
    #[error("dimension {index} of the shape is {value}")]
    BadDim {
        /// Index of the dimension.
        index: usize,
        /// Its value.
        value: i64,
    },
    /// The size exceeds what this machine can address.
    #[error("a tensor of shape ({shape}) and {size} bytes an element is larger than memory can be")]
    Overflow {
        /// The shape.
        shape: Shape,
        /// Bytes of one element.
        size: usize,
    },
}

impl ShapeError {
    /// The stable code, documented under `docs/reference/codes/`.
    pub fn code(&self) -> &'static str {
        "OB0403"
    }
}

impl Shape {
    /// Most dimensions of a shape (the limit of numpy 1).
    pub const MAX_DIMS: usize = 32;

    /// A shape of these dimensions.
    ///
    /// # Errors
    /// More than [`Shape::MAX_DIMS`].
    pub fn new(dims: &[usize]) -> Result<Self, ShapeError> {
        Self::check_count(dims.len())?;
        Ok(Self(SmallVec::from_slice(dims)))
    }

    /// The shape of a single element without dimensions.
    pub fn scalar() -> Self {
        Self::default()
    }

    /// A shape of signed dimensions, as descriptors carry them.
    ///
    /// # Errors
    /// Too many, or one is negative or too large.
    pub fn from_signed(dims: impl IntoIterator<Item = i64>) -> Result<Self, ShapeError> {
        let mut shape = SmallVec::new();
        for (index, value) in dims.into_iter().enumerate() {
            Self::check_count(index + 1)?;
            shape.push(usize::try_from(value).map_err(|_| ShapeError::BadDim { index, value })?);
        }
        Ok(Self(shape))
    }

    fn check_count(count: usize) -> Result<(), ShapeError> {
        if count > Self::MAX_DIMS { Err(ShapeError::TooManyDims { count }) } else { Ok(()) }
    }

    /// The dimensions, outermost first.
    pub fn dims(&self) -> &[usize] {
        &self.0
    }

    /// The dimensions as descriptors carry them.
    ///
    /// # Errors
    /// One does not fit.
    pub fn to_signed(&self) -> Result<SmallVec<[i64; 6]>, ShapeError> {
        let signed = |(index, dim): (usize, &usize)| {
            i64::try_from(*dim).map_err(|_| ShapeError::BadDim { index, value: i64::MAX })
        };
        self.0.iter().enumerate().map(signed).collect()
    }

    /// Number of dimensions.
    pub fn ndim(&self) -> usize {
        self.0.len()
    }

    /// Number of elements; `None` when it exceeds what this machine can count.
    pub fn elements(&self) -> Option<usize> {
        if self.0.contains(&0) {
            return Some(0);
        }
        self.0.iter().try_fold(1usize, |product, dim| product.checked_mul(*dim))
    }

    /// Bytes of a dense tensor of this shape.
    ///
    /// # Errors
    /// More than this machine can address.
    pub fn bytes(&self, dtype: crate::DType) -> Result<usize, ShapeError> {
        self.elements()
            .and_then(|elements| elements.checked_mul(dtype.size()))
            .filter(|bytes| isize::try_from(*bytes).is_ok())
            .ok_or_else(|| ShapeError::Overflow { shape: self.clone(), size: dtype.size() })
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, dim) in self.0.iter().enumerate() {
            write!(f, "{}{dim}", if index == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

impl FromStr for Shape {
    type Err = ShapeError;

    /// Reads `1,3,224,224`; blanks around a dimension and one comma at the end are allowed, the empty text is a scalar.
    fn from_str(text: &str) -> Result<Self, ShapeError> {
        let trimmed = text.trim();
        let list = trimmed.strip_suffix(',').unwrap_or(trimmed);
        if trimmed.is_empty() {
            return Ok(Self::scalar());
        }
        let mut dims = SmallVec::new();
        for (index, part) in list.split(',').enumerate() {
            Self::check_count(index + 1)?;
            let digits = part.trim();
            // `parse` alone would take a sign.
            let plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
            let dim = if plain { digits.parse().ok() } else { None };
            dims.push(dim.ok_or_else(|| ShapeError::Syntax {
                text: text.chars().take(64).collect(),
                index,
                part: part.chars().take(32).collect(),
            })?);
        }
        Ok(Self(dims))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType;

    #[test]
    fn shapes_are_read_as_people_write_them() {
        for (text, dims) in [
            ("1,3,224,224", &[1, 3, 224, 224][..]),
            ("7", &[7]),
            (" 2 , 3 ", &[2, 3]),
            ("5,", &[5]),
            ("0,4", &[0, 4]),
            ("", &[]),
        ] {
            assert_eq!(text.parse::<Shape>().unwrap().dims(), dims, "{text:?}");
        }
    }

    #[test]
    fn what_is_not_a_shape_is_refused_with_the_part_that_is_wrong() {
        for (text, part) in [
            ("1,,2", ""),
            ("1,-2", "-2"),
            ("+1", "+1"),
            ("1x2", "1x2"),
            (",", ""),
            ("1,18446744073709551616", "18446744073709551616"),
        ] {
            let refused = text.parse::<Shape>().unwrap_err();
            assert!(
                matches!(&refused, ShapeError::Syntax { part: found, .. } if found == part),
                "{text:?}: {refused:?}"
            );
        }
        let many = vec!["1"; 33].join(",");
        assert_eq!(many.parse::<Shape>(), Err(ShapeError::TooManyDims { count: 33 }));
    }

    #[test]
    fn sizes_that_overflow_are_refused_and_empty_tensors_are_not() {
        let huge = Shape::new(&[usize::MAX, 2]).unwrap();
        assert!(matches!(huge.bytes(DType::Int8), Err(ShapeError::Overflow { .. })));
        assert!(matches!(Shape::new(&[usize::MAX]).unwrap().bytes(DType::Int16), Err(ShapeError::Overflow { .. })));
        assert_eq!(Shape::new(&[usize::MAX, usize::MAX, 0]).unwrap().bytes(DType::Int64), Ok(0));
        assert_eq!(Shape::scalar().bytes(DType::Int64), Ok(8));
    }

    #[test]
    fn a_negative_dimension_of_a_descriptor_is_named() {
        assert_eq!(Shape::from_signed([1, -1]), Err(ShapeError::BadDim { index: 1, value: -1 }));
        assert_eq!(Shape::from_signed([2, 3]).unwrap().to_signed().unwrap().as_slice(), [2, 3]);
    }
}
