//! Libraries of operations from their sources: compiled, wrapped, linked for each core, described for a model.

use std::fs;
use std::path::{Path, PathBuf};

use outboard_link::pi::MemoryBounds;
use outboard_link::shape::Kernel;
use serde_json::{Value, json};

use crate::library::{self, LinkError};
use crate::rust_source::RustSource;
use crate::schema::{MAX_FUNCTIONS, Schema};
use crate::{BuildError, DeviceBuild, compile, wrapper};

/// Stack of an operation that does not ask for more.
pub const DEFAULT_STACK: u32 = 4196;
/// Largest stack.
pub const MAX_STACK: u32 = 0x40_0000;
/// Cores of a multicore library.
const CORES: u8 = 8;
/// Bytes of a library's name in a model, the terminator included.
const FILE_NAME: usize = 32;
/// Versions of the vendor's library that this interface is compatible with.
const VERSIONS: (&str, &str) = ("1.21.1.0", "1.0.2520.0");

/// The shape of a library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpShape {
    /// A file for each core, at fixed addresses.
    FixedLoad,
    /// One file for all cores, which the host moves to windows of this size; `first_spec` is the extended opcode of the first
    /// operation in its kernel table.
    Resident {
        /// Memory of the core.
        bounds: MemoryBounds,
        /// Extended opcode of the first operation.
        first_spec: u8,
    },
}

/// What a library is made of.
#[derive(Debug, Clone)]
pub struct OpRequest {
    /// The operations, by their number.
    pub schemas: Vec<Schema>,
    /// C++ (`.cpp`, `.cc`, `.cxx`), one Rust file (`.rs`) or the folder of a Rust crate, objects (`.o`) and archives (`.a`).
    pub sources: Vec<PathBuf>,
    /// Eight cores instead of one; resident libraries are for all cores always.
    pub multicore: bool,
    /// Bytes of stack, up to [`MAX_STACK`].
    pub stack: u32,
    /// The shape.
    pub shape: OpShape,
    /// Options of the C++ compiler besides its own.
    pub flags: Vec<String>,
    /// File name of the library, such as `relu.so`.
    pub name: String,
    /// Folder for what is in between; it is created.
    pub scratch: PathBuf,
}

/// A finished library.
#[derive(Debug, Clone, PartialEq)]
pub struct OpLibrary {
    /// File names and contents: one, or one for each core.
    pub files: Vec<(String, Vec<u8>)>,
    /// The description for a model: `ucode_lib.json`.
    pub manifest: Value,
    /// What the compilers noticed.
    pub warnings: Vec<String>,
}

/// Why a library was not built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpError {
    /// The request contradicts itself or a limit.
    #[error("{0}")]
    Request(String),
    /// A compiler is not installed.
    #[error("{program} cannot be started ({error}); install it with: {install}")]
    Missing {
        /// The program.
        program: String,
        /// The command that installs it.
        install: String,
        /// Why it does not start.
        error: String,
    },
    /// A source does not compile.
    #[error("{} does not compile ({program}):\n{output}", source_file.display())]
    Compile {
        /// The file.
        source_file: PathBuf,
        /// The compiler.
        program: String,
        /// What it said.
        output: String,
    },
    /// No source defines an operation as its schema says.
    #[error("no source defines `{declaration}`, which the schema `{schema}` promises:\n{error}")]
    Signature {
        /// What to define.
        declaration: String,
        /// The schema.
        schema: String,
        /// What the compiler or the linker said.
        error: String,
    },
    /// The parts do not make a library.
    #[error("{0}")]
    Link(Box<LinkError>),
    /// The runtime does not build.
    #[error("the device runtime: {0}")]
    Runtime(Box<BuildError>),
    /// A file cannot be read or written.
    #[error("{}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        error: String,
    },
}

impl OpError {
    /// The page that `outboard explain` prints.
    #[must_use]
    pub const fn explain(&self) -> &'static str {
        match self {
            Self::Request(_) | Self::File { .. } => "OB0732",
            Self::Missing { .. } => "OB0733",
            Self::Compile { .. } | Self::Runtime(_) => "OB0734",
            Self::Signature { .. } => "OB0735",
            Self::Link(_) => "OB0736",
        }
    }

    /// A word for programs.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Request(_) => "request",
            Self::File { .. } => "file",
            Self::Missing { .. } => "missing_tool",
            Self::Compile { .. } => "compile",
            Self::Runtime(_) => "runtime",
            Self::Signature { .. } => "signature",
            Self::Link(_) => "link",
        }
    }
}

impl OpRequest {
    /// Default stack, fixed-load, one core.
    #[must_use]
    pub fn new(schemas: Vec<Schema>, sources: Vec<PathBuf>, name: &str, scratch: &Path) -> Self {
        Self {
            schemas,
            sources,
            multicore: false,
            stack: DEFAULT_STACK,
            shape: OpShape::FixedLoad,
            flags: Vec::new(),
            name: name.to_owned(),
            scratch: scratch.to_owned(),
        }
    }

    /// The first rule that the request breaks.
    fn problem(&self) -> Option<String> {
        let count = self.schemas.len();
        if count == 0 || count > MAX_FUNCTIONS {
            return Some(format!("{count} operations; a library has 1 to {MAX_FUNCTIONS}: name each with a schema"));
        }
        let twice = self
            .schemas
            .iter()
            .enumerate()
            .find(|(index, schema)| self.schemas.iter().take(*index).any(|other| other.name == schema.name));
        if let Some((_, schema)) = twice {
            return Some(format!("two schemas are called `{}`; the device finds operations by name", schema.name));
        }
        if self.stack == 0 || self.stack > MAX_STACK {
            return Some(format!("a stack of {} bytes; it has 1 to {MAX_STACK}", self.stack));
        }
        if self.sources.is_empty() {
            return Some("there are no sources".to_owned());
        }
        let (name, longest) = (&self.name, FILE_NAME - 1);
        let written = self.file_name(Some(CORES - 1));
        if written.len() > longest {
            return Some(format!("the file name {written} is longer than {longest} bytes, which a model can keep"));
        }
        if name.is_empty() || name.contains(['/', '\\']) {
            return Some(format!("`{name}` is no file name"));
        }
        let rust = self.sources.iter().filter(|source| is_rust(source)).count();
        let cxx = self.sources.iter().filter(|source| is_cxx(source)).count();
        if rust > 1 {
            return Some(
                "several Rust files or crates: name the one with the operations; it can have modules".to_owned(),
            );
        }
        if rust > 0 && cxx > 0 {
            return Some("the operations are in Rust or in C++, not in both".to_owned());
        }
        if let OpShape::Resident { first_spec, .. } = self.shape
            && usize::from(first_spec) + count > 256
        {
            return Some(format!("{count} operations from extended opcode {first_spec} on; opcodes end at 255"));
        }
        None
    }

    /// The name of a file: with the core's number when there are eight.
    fn file_name(&self, core: Option<u8>) -> String {
        let fixed = self.shape == OpShape::FixedLoad && self.multicore;
        match core.filter(|_| fixed) {
            None => self.name.clone(),
            Some(core) => match self.name.rsplit_once('.') {
                Some((stem, end)) => format!("{stem}_cpu{core}.{end}"),
                None => format!("{}_cpu{core}", self.name),
            },
        }
    }
}

fn extension(path: &Path) -> &str {
    path.extension().and_then(|end| end.to_str()).unwrap_or("")
}

fn is_rust(path: &Path) -> bool {
    extension(path) == "rs" || path.is_dir()
}

fn is_cxx(path: &Path) -> bool {
    matches!(extension(path), "cpp" | "cc" | "cxx")
}

impl DeviceBuild {
    /// Builds a library of operations from sources.
    ///
    /// # Errors
    /// [`OpError`]: the request, a missing tool, the sources, the link.
    pub fn op_library(&self, request: &OpRequest) -> Result<OpLibrary, OpError> {
        if let Some(problem) = request.problem() {
            return Err(OpError::Request(problem));
        }
        let header = self.sources().join("include/torch/torch.h");
        if !header.exists() {
            let problem = format!(
                "the device code is not there: {} is missing; set OUTBOARD_DEVICE to the folder `device` of a clone of this \
                 repository",
                header.display()
            );
            return Err(OpError::Request(problem));
        }
        let scratch = &request.scratch;
        fs::create_dir_all(scratch)
            .map_err(|error| OpError::File { path: scratch.clone(), error: error.to_string() })?;
        let mut warnings = Vec::new();
        let mut parts = Vec::new();
        let mut generated = false;
        for (index, source) in request.sources.iter().enumerate() {
            let name = source.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let (bytes, said) = match extension(source) {
                _ if is_rust(source) => {
                    generated = true;
                    let rust = RustSource::of(source, self.sources())?;
                    let root = wrapper::rust(&request.schemas, &rust.import(), request.stack);
                    compile::rust(self, &rust, &root, scratch).map_err(|error| explain_rust(&request.schemas, error))?
                }
                "o" | "a" => (read(source)?, String::new()),
                _ if is_cxx(source) => {
                    read(source)?;
                    let object = scratch.join(format!("{index}.o"));
                    compile::cxx(self, source, &object, request.stack, &request.flags)?
                }
                other => {
                    return Err(OpError::Request(format!(
                        "{}: `.{other}` is no source: there are .cpp, .cc, .cxx, .rs, .o, .a and folders of Rust crates",
                        source.display()
                    )));
                }
            };
            if !said.is_empty() {
                warnings.push(said);
            }
            parts.push((name, bytes));
        }
        if !generated {
            let path = scratch.join("wrapper.cpp");
            fs::write(&path, wrapper::cxx(&request.schemas))
                .map_err(|error| OpError::File { path: path.clone(), error: error.to_string() })?;
            let object = compile::cxx(self, &path, &scratch.join("wrapper.o"), request.stack, &[])?;
            parts.push(("wrapper".to_owned(), object.0));
        }
        let files = self.link_op(request, &parts)?;
        Ok(OpLibrary { manifest: manifest(request), files, warnings })
    }

    fn link_op(&self, request: &OpRequest, parts: &[(String, Vec<u8>)]) -> Result<Vec<(String, Vec<u8>)>, OpError> {
        let signature = |error: LinkError| explain_link(&request.schemas, error);
        let cores = match request.shape {
            OpShape::FixedLoad if !request.multicore => 1,
            _ => CORES,
        };
        let runtime = self.runtime(cores).map_err(compile::runtime_problem)?;
        let mut all: Vec<(&str, &[u8])> = parts.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice())).collect();
        all.push(("customop-rt", &runtime));
        match &request.shape {
            OpShape::FixedLoad => {
                let file = |core: u8| {
                    let core = (cores > 1).then_some(core);
                    let image = library::fixed(&all, core).map_err(signature)?;
                    Ok((request.file_name(core), image))
                };
                (0..cores).map(file).collect()
            }
            OpShape::Resident { bounds, first_spec } => {
                let kernel =
                    |(schema, spec): (&Schema, u8)| Kernel { opcode: 0xf0, spec, function: wrapper::launcher(schema) };
                let kernels = request.schemas.iter().zip(*first_spec..=u8::MAX).map(kernel).collect();
                let linked = library::resident_with(&all, bounds, kernels).map_err(signature)?;
                Ok(vec![(request.file_name(None), linked.image)])
            }
        }
    }
}

/// A link that fails because an operation is not there says what to define.
fn explain_link(schemas: &[Schema], error: LinkError) -> OpError {
    let text = error.to_string();
    let missing = schemas.iter().find(|schema| text.contains(&format!("_Z{}{}", schema.name.len(), schema.name)));
    match missing {
        Some(schema) => OpError::Signature { declaration: schema.cxx(), schema: schema.to_string(), error: text },
        None => OpError::Link(Box::new(error)),
    }
}

/// Rust that does not compile because an operation is not there says what to define.
fn explain_rust(schemas: &[Schema], error: OpError) -> OpError {
    let said = match &error {
        OpError::Compile { output, .. } => output,
        _ => return error,
    };
    match wrapper::disagreeing(schemas, said) {
        Some(schema) => {
            OpError::Signature { declaration: schema.rust(), schema: schema.to_string(), error: said.clone() }
        }
        None => error,
    }
}

fn read(path: &Path) -> Result<Vec<u8>, OpError> {
    fs::read(path).map_err(|error| OpError::File { path: path.to_owned(), error: error.to_string() })
}

/// The description of a library for a model.
fn manifest(request: &OpRequest) -> Value {
    let functions: Vec<_> = request
        .schemas
        .iter()
        .enumerate()
        .map(|(number, schema)| json!({"name": schema.name, "opcode": 133, "sub_opcode": number}))
        .collect();
    let entry = |core: Option<u8>| {
        json!({
            "library": request.file_name(core),
            "ulib_to_ucode_version": VERSIONS.0,
            "ulib_to_isa_version": VERSIONS.1,
            "is_builtin": false,
            "cpu_id": core.unwrap_or(0),
            "total_cpus": if request.multicore || request.shape != OpShape::FixedLoad { CORES } else { 1 },
            "functions": functions,
        })
    };
    let list: Vec<_> = if request.multicore && request.shape == OpShape::FixedLoad {
        (0..CORES).map(|core| entry(Some(core))).collect()
    } else {
        vec![entry(None)]
    };
    json!({ "ucode_lib": list })
}
