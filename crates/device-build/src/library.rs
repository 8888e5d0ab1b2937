//! Libraries of objects and archives, in both shapes.

use outboard_link::build::{BuildError, Inputs};
use outboard_link::pi::MemoryBounds;
use outboard_link::shape::{Kernel, ShapeErrors, fll, pi};

/// Why parts do not make a library.
#[derive(Debug, thiserror::Error)]
pub enum LinkError {
    /// The linker refused.
    #[error("{0}")]
    Shape(#[from] ShapeErrors),
    /// A part is no object and no archive.
    #[error("{0}")]
    Input(#[from] BuildError),
}

fn inputs<'a>(parts: &[(&str, &'a [u8])]) -> Result<Inputs<'a>, LinkError> {
    let mut inputs = Inputs::new();
    for (name, bytes) in parts {
        inputs.add(name, bytes)?;
    }
    Ok(inputs)
}

/// Links the image of one core; `None`: of the only one.
pub(crate) fn fixed(parts: &[(&str, &[u8])], core: Option<u8>) -> Result<Vec<u8>, LinkError> {
    let cpu = core.map_or(fll::Cpu::Single, fll::Cpu::Core);
    Ok(fll::link(inputs(parts)?, &fll::FllOptions::new(cpu))?.image)
}

/// Links a library for the windows of `bounds`.
pub(crate) fn resident(parts: &[(&str, &[u8])], bounds: &MemoryBounds) -> Result<pi::PiLinked, LinkError> {
    resident_with(parts, bounds, Vec::new())
}

/// As [`resident`], with kernels besides those that objects declare.
pub(crate) fn resident_with(
    parts: &[(&str, &[u8])],
    bounds: &MemoryBounds,
    kernels: Vec<Kernel>,
) -> Result<pi::PiLinked, LinkError> {
    let options = pi::PiOptions { kernels, ..pi::PiOptions::new(bounds) };
    Ok(pi::link(inputs(parts)?, &options)?)
}
