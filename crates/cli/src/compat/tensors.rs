//! Inputs as bytes with shapes and element types beside them; outputs as JSON and bytes.

use outboard_host::Outputs;
use outboard_host::client::{RawData, RawTensor};
use outboard_tensor::{DType, Shape};
use outboard_wire::{MAX_DIMS, MAX_INPUTS};
use serde_json::{Value, json};

/// Most characters of a list of shapes, as in the original.
const MAX_SHAPES: usize = 4095;

/// One input: what it is and which bytes of the file it takes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Input {
    dtype: DType,
    dims: Vec<i64>,
    start: usize,
    len: usize,
}

impl Input {
    /// The input as a call takes it; `data` is what it was parsed over.
    pub(super) fn tensor<'a>(&'a self, data: &'a [u8]) -> RawTensor<'a> {
        let (code, bits) = self.dtype.dlpack();
        let bytes = data.get(self.start..self.start + self.len).unwrap_or_default();
        RawTensor {
            data: RawData::Bytes(bytes),
            size: self.len as u64,
            dtype: (code.into(), bits.into()),
            dims: &self.dims,
        }
    }
}

/// Cuts `len` bytes into tensors: shapes are separated by semicolons, and so are element types; missing types repeat the first.
/// Without shapes the bytes are one tensor of one dimension. Bytes behind the last tensor are ignored.
///
/// # Errors
/// Says which input is wrong, and how.
pub(super) fn cut(len: usize, shapes: Option<&str>, dtypes: Option<&str>) -> Result<Vec<Input>, String> {
    let dtypes: Vec<DType> = dtypes
        .filter(|list| !list.is_empty())
        .unwrap_or("float32")
        .split(';')
        .map(|name| name.trim().parse::<DType>().map_err(|error| format!("--dtype: {error}")))
        .collect::<Result<_, _>>()?;
    let first = dtypes.first().copied().unwrap_or(DType::Float32);
    let Some(shapes) = shapes.filter(|list| !list.is_empty()) else {
        let elements = len / first.size();
        let dims = vec![i64::try_from(elements).map_err(|_| "the input is too large".to_owned())?];
        return Ok(vec![Input { dtype: first, dims, start: 0, len: elements * first.size() }]);
    };
    if shapes.len() > MAX_SHAPES {
        return Err(format!("--shape has {} characters; at most {MAX_SHAPES} are taken", shapes.len()));
    }
    let mut inputs = Vec::new();
    let mut start = 0;
    // A semicolon at the end begins no further tensor.
    for (index, text) in shapes.strip_suffix(';').unwrap_or(shapes).split(';').enumerate() {
        if index >= MAX_INPUTS {
            return Err(format!("--shape lists more than {MAX_INPUTS} tensors"));
        }
        let dtype = dtypes.get(index).copied().unwrap_or(first);
        let wrong = |error: String| format!("input {index}: {error}");
        let shape: Shape = text.parse().map_err(|error: outboard_tensor::ShapeError| wrong(error.to_string()))?;
        if shape.ndim() > MAX_DIMS {
            return Err(wrong(format!("it has {} dimensions; at most {MAX_DIMS} can be sent", shape.ndim())));
        }
        let bytes = shape.bytes(dtype).map_err(|error| wrong(error.to_string()))?;
        let left = len - start;
        if bytes > left {
            return Err(wrong(format!("{dtype} of shape ({shape}) needs {bytes} bytes, but only {left} are left")));
        }
        let dims = shape.to_signed().map_err(|error| wrong(error.to_string()))?.to_vec();
        inputs.push(Input { dtype, dims, start, len: bytes });
        start += bytes;
    }
    Ok(inputs)
}

/// The outputs as the original describes them.
pub(super) fn describe(outputs: &Outputs<'_>) -> Value {
    outputs
        .views()
        .enumerate()
        .map(|(index, view)| {
            let (code, bits) = view.dtype().dlpack();
            json!({
                "index": index,
                "ndim": view.shape().ndim(),
                "dtype_code": code,
                "dtype_bits": bits,
                "data_size": view.bytes().len(),
                "shape": view.shape().dims(),
            })
        })
        .collect()
}

/// The bytes of all outputs, one after the other.
pub(super) fn bytes(outputs: &Outputs<'_>) -> Vec<u8> {
    outputs.views().flat_map(|view| view.bytes().to_vec()).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    fn input(dtype: DType, dims: &[i64], start: usize, len: usize) -> Input {
        Input { dtype, dims: dims.to_vec(), start, len }
    }

    #[test]
    fn without_shapes_there_is_one_tensor_of_one_dimension() {
        assert_eq!(cut(18, None, None).unwrap(), [input(DType::Float32, &[4], 0, 16)]);
        assert_eq!(cut(4, None, Some("int8")).unwrap(), [input(DType::Int8, &[4], 0, 4)]);
    }

    #[test]
    fn missing_types_repeat_the_first_and_surplus_bytes_are_ignored() {
        let expected =
            [input(DType::Int16, &[2, 3], 0, 12), input(DType::Float32, &[2], 12, 8), input(DType::Int16, &[1], 20, 2)];
        assert_eq!(cut(100, Some("2,3;2;1"), Some("int16;float32")).unwrap(), expected);
    }

    #[test]
    fn a_file_that_is_too_short_names_the_input() {
        let refused = cut(16, Some("2;3"), None).unwrap_err();
        assert_eq!(refused, "input 1: float32 of shape (3) needs 12 bytes, but only 8 are left");
        for (shapes, dtypes) in [("1,x", None), ("1,1,1,1,1,1,1", None), ("1", Some("float99"))] {
            assert!(cut(100, Some(shapes), dtypes).is_err(), "{shapes} {dtypes:?}");
        }
        assert!(cut(1000, Some(&vec!["1"; 129].join(";")), Some("int8")).is_err());
        assert!(cut(1000, Some(&vec!["1"; 128].join(";")), Some("int8")).is_ok());
    }
}
