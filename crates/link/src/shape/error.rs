//! Why objects cannot become a device program.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use outboard_elf::image::ImageError;

use crate::build::{BuildError, BuildErrors};
use crate::pi::PrelinkError;

/// A fault of a device program.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ShapeError {
    /// A declaration of a kernel, or a row of the kernel table, is wrong.
    #[error("kernel {opcode:#04x}/{spec} ({function}): {problem}")]
    Kernel {
        /// Its opcode.
        opcode: u8,
        /// Its extended opcode.
        spec: u8,
        /// Its function: a name, or an address for a row of an object.
        function: String,
        /// What is wrong and what to do.
        problem: &'static str,
    },
    /// The kernel table of the objects is no table.
    #[error("the section kernel_info_table of the objects {problem}")]
    KernelTable {
        /// What is wrong and what to do.
        problem: &'static str,
    },
    /// A distance between text and data, which the host moves apart.
    #[error(
        "{name} at {place:#x} in {section} holds the distance to {target:#x} in {other}, and the host moves the two apart: keep \
         them in one section, or use the address"
    )]
    Distance {
        /// Name of the relocation type.
        name: &'static str,
        /// Its link address.
        place: u32,
        /// The section it lies in.
        section: String,
        /// What it refers to.
        target: u32,
        /// The section of that.
        other: String,
    },
    /// One half of an address without the other.
    #[error(
        "{name} at {place:#x} sets one half of {target:#x} and no {missing} sets the other; assemble the two const16 one behind the \
         other, with --no-transform"
    )]
    Half {
        /// Name of the relocation type.
        name: &'static str,
        /// Its link address.
        place: u32,
        /// The address.
        target: u32,
        /// The type that is missing.
        missing: &'static str,
    },
    /// A function that the image is to name does not exist.
    #[error("{what} {name} is not defined in the text of the image; define it, or name another function")]
    Function {
        /// `the entry point`, `the initialisation function` or `the termination function`.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// A core that does not exist.
    #[error("there is no core {cpu}; the cores are 0 to 7, or single")]
    Core {
        /// Its number.
        cpu: u8,
    },
    /// The file cannot be written.
    #[error(transparent)]
    Image(ImageError),
    /// The finished image was refused by the prelinker.
    #[error("the finished image cannot be prelinked: {0}")]
    Refused(PrelinkError),
    /// The finished image was prelinked and a place does not refer to its target.
    #[error(
        "the finished image was prelinked, and the place {place:#x} does not refer to {target:#x}; please report this"
    )]
    Moved {
        /// Its link address.
        place: u32,
        /// The link address of its target.
        target: u32,
    },
}

impl ShapeError {
    /// The page that `outboard explain` prints.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Kernel { .. } | Self::KernelTable { .. } => "OB0660",
            Self::Distance { .. } => "OB0661",
            Self::Half { .. } => "OB0662",
            Self::Function { .. } => "OB0663",
            Self::Core { .. } => "OB0664",
            Self::Image(_) | Self::Refused(_) | Self::Moved { .. } => "OB0665",
        }
    }
}

/// All faults of the first phase that has any.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ShapeErrors {
    /// The objects cannot be linked.
    Build(BuildErrors),
    /// What is linked is no device program.
    Shape(Box<[ShapeError]>),
}

impl fmt::Display for ShapeErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Build(errors) => errors.fmt(f),
            Self::Shape(errors) => {
                for (index, error) in errors.iter().enumerate() {
                    if index > 0 {
                        writeln!(f)?;
                    }
                    error.fmt(f)?;
                }
                Ok(())
            }
        }
    }
}

impl core::error::Error for ShapeErrors {}

impl From<BuildErrors> for ShapeErrors {
    fn from(errors: BuildErrors) -> Self {
        Self::Build(errors)
    }
}

impl From<BuildError> for ShapeErrors {
    fn from(error: BuildError) -> Self {
        Self::Build(error.into())
    }
}

impl From<ShapeError> for ShapeErrors {
    fn from(error: ShapeError) -> Self {
        Self::Shape([error].into())
    }
}

/// Faults that are collected.
#[derive(Default)]
pub(super) struct Faults(Vec<ShapeError>);

impl Faults {
    pub fn push(&mut self, error: ShapeError) {
        self.0.push(error);
    }

    pub fn finish(self) -> Result<(), ShapeErrors> {
        if self.0.is_empty() { Ok(()) } else { Err(ShapeErrors::Shape(self.0.into())) }
    }
}
