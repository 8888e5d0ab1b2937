//! Outputs of `outboard run`: where they go, written whole or not at all.

use super::inputs::has_extension;
use crate::commands::Staged;
use crate::report::Failure;
use outboard_host::Outputs;
use outboard_tensor::{Element, Shape, TensorView};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Most values of an output that the summary shows.
const PREVIEW: usize = 8;

/// Checks the number of files before the module runs, when the module says how many outputs it has.
pub(super) fn check_count(files: &[PathBuf], outputs: Option<usize>) -> Result<(), Failure> {
    match outputs {
        Some(outputs) if files.len() != outputs && (files.len() > 1 || files.len() > outputs) => Err(Failure::usage(
            format!("the module has {outputs} output(s), but {} --output files are given", files.len()),
            "give one --output for each output, or a single one for all",
        )),
        _ => Ok(()),
    }
}

/// Writes the outputs; every file is complete before the first one gets its name.
pub(super) fn write(files: &[PathBuf], ran: &Outputs<'_>) -> Result<Vec<PathBuf>, Failure> {
    check_count(files, Some(ran.len()))?;
    let paths = match files {
        [single] if ran.len() > 1 => (0..ran.len()).map(|index| numbered(single, index)).collect(),
        _ => files.to_vec(),
    };
    let staged = paths.iter().zip(ran.views()).map(|(path, view)| stage(path, &view)).collect::<Result<Vec<_>, _>>()?;
    staged.into_iter().try_for_each(Staged::finish)?;
    Ok(paths)
}

/// `y.npy` becomes `y.1.npy`.
fn numbered(path: &Path, index: usize) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let extension = path.extension().map(|extension| format!(".{}", extension.to_string_lossy())).unwrap_or_default();
    path.with_file_name(format!("{stem}.{index}{extension}"))
}

/// Writes a tensor, under a name of its own until it is complete.
fn stage(path: &Path, view: &TensorView<'_>) -> Result<Staged, Failure> {
    let npy;
    let bytes = if has_extension(path, "bin") {
        view.bytes()
    } else {
        npy = view.to_npy()?;
        &npy
    };
    let mut staged = Staged::create(path)?;
    staged.file().write_all(bytes).map_err(|error| Failure::unwritable(path, &error))?;
    Ok(staged)
}

/// The first values of an output, for the summary.
pub(super) fn preview(view: &TensorView<'_>) -> String {
    let count = view.shape().elements().unwrap_or(0);
    let shown = count.min(PREVIEW);
    let first = view.bytes().get(..shown * view.dtype().size()).unwrap_or_default();
    let Some(values) = Shape::new(&[shown]).ok().and_then(|shape| {
        let first = TensorView::new(view.dtype(), &shape, first).ok()?;
        list::<f32>(&first)
            .or_else(|| list::<f64>(&first))
            .or_else(|| list::<i8>(&first))
            .or_else(|| list::<i16>(&first))
            .or_else(|| list::<i32>(&first))
            .or_else(|| list::<i64>(&first))
            .or_else(|| list::<u8>(&first))
            .or_else(|| list::<u16>(&first))
            .or_else(|| list::<u32>(&first))
            .or_else(|| list::<u64>(&first))
            .or_else(|| list::<bool>(&first))
    }) else {
        return String::new();
    };
    format!(" = [{values}{}]", if count > shown { ", ..." } else { "" })
}

/// The values as text, when they have this type.
fn list<T: Element + ToString>(view: &TensorView<'_>) -> Option<String> {
    Some(view.values::<T>()?.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))
}
