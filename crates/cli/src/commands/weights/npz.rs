//! Constants as arrays in an `.npz` file: a zip of `.npy` files, stored as they are, the same bytes every time.

use super::super::Staged;
use crate::report::Failure;
use outboard_c7x::weights::{Constant, TensorConstant};
use outboard_tensor::{DType, Shape, Tensor, TensorError};
use std::io::{BufWriter, Write};
use std::path::Path;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

/// Writes every constant that has an array, whole or not at all.
pub(super) fn write(path: &Path, constants: &[Constant<'_>]) -> Result<(), Failure> {
    let mut staged = Staged::create(path)?;
    let failed = |error: std::io::Error| Failure::unwritable(path, &error);
    let mut archive = ZipWriter::new(BufWriter::new(staged.file()));
    for (index, constant) in constants.iter().enumerate() {
        let Some((suffix, tensor)) =
            array(constant).map_err(|e| Failure::from(e).about(format!("constant {index}")))?
        else {
            continue;
        };
        let npy = tensor.view().to_npy()?;
        let large = npy.len() >= u32::MAX as usize;
        let options = SimpleFileOptions::default().compression_method(CompressionMethod::Stored).large_file(large);
        archive.start_file(format!("c{index}{suffix}.npy"), options).map_err(|error| failed(error.into()))?;
        archive.write_all(&npy).map_err(failed)?;
    }
    let mut file = archive.finish().map_err(|error| failed(error.into()))?;
    file.flush().map_err(failed)?;
    drop(file);
    staged.finish()
}

/// The array of a constant, and what its name ends in; `None` for one that is no number.
fn array(constant: &Constant<'_>) -> Result<Option<(&'static str, Tensor)>, TensorError> {
    Ok(Some(match constant {
        Constant::Tensor(tensor) => of_tensor(tensor)?,
        Constant::Shape(dims) => ("", Tensor::from_values(Shape::new(&[dims.len()])?, dims)?),
        Constant::Int(value) => ("", Tensor::from_values(Shape::scalar(), &[*value])?),
        Constant::Float(value) => ("", Tensor::from_values(Shape::scalar(), &[*value])?),
        Constant::Str(_) | Constant::DataType(_) => return Ok(None),
    }))
}

fn of_tensor(tensor: &TensorConstant<'_>) -> Result<(&'static str, Tensor), TensorError> {
    let dtype = DType::from_dlpack(tensor.code.into(), tensor.bits.into())?;
    let (suffix, dtype) = match dtype {
        DType::BFloat16 => ("_bfloat16", DType::UInt16),
        other => ("", other),
    };
    let shape =
        Shape::from_signed(tensor.shape.iter().copied().chain((tensor.lanes != 1).then_some(tensor.lanes.into())))?;
    Ok((suffix, Tensor::new(dtype, shape, tensor.data.to_vec())?))
}
