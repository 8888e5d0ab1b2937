//! Why device code could not be built.

use std::io;
use std::path::{Path, PathBuf};

use outboard_link::build::BuildErrors;
use outboard_link::layout_file::LayoutFileError;
use outboard_xtensa::asm::Diagnostic;

/// Why device code could not be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildFault {
    /// A file cannot be read or written.
    #[error("{path}: {error}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A compiler is not there.
    #[error("cannot start {program}: {error}; `cargo xtask setup` installs it")]
    Missing {
        /// The program.
        program: String,
        /// Why it does not start.
        error: io::Error,
    },
    /// A compiler found an error.
    #[error("{program} failed for {source_file}:\n{output}")]
    Compiler {
        /// The program.
        program: String,
        /// What it compiled.
        source_file: PathBuf,
        /// What it said.
        output: String,
    },
    /// The assembler found errors.
    #[error("{source_file}: {}", lines(errors))]
    Assembler {
        /// What was assembled.
        source_file: PathBuf,
        /// What is wrong, line by line.
        errors: Vec<Diagnostic>,
    },
    /// A layout file cannot be used.
    #[error("{path}: {error}")]
    Layout {
        /// The file.
        path: PathBuf,
        /// Why.
        error: LayoutFileError,
    },
    /// The linker refuses.
    #[error("{image}: {errors}")]
    Link {
        /// The image that was to be made.
        image: PathBuf,
        /// Why not.
        errors: BuildErrors,
    },
}

impl BuildFault {
    pub(crate) fn file(path: &Path, error: io::Error) -> Self {
        Self::File { path: path.to_owned(), error }
    }
}

fn lines(errors: &[Diagnostic]) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}
