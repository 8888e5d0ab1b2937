//! Modules and their inputs as commands take them: files, and the options that describe the raw ones.

use crate::progress::Spinner;
use crate::report::{self, Failure};
use clap::ArgMatches;
use outboard_host::{Manifest, Module, Session, TensorSpec};
use outboard_tensor::{DType, Shape, Tensor};
use std::path::{Path, PathBuf};

/// Arguments that name a module and its inputs.
#[derive(Debug, clap::Args)]
pub(super) struct CallArgs {
    /// The module.
    #[arg(value_name = "MODULE", required_unless_present = "module_option")]
    module: Option<PathBuf>,

    /// The module, as an option.
    #[arg(long = "module", short = 'm', value_name = "MODULE", conflicts_with = "module")]
    module_option: Option<PathBuf>,

    #[command(flatten)]
    pub(super) inputs: InputArgs,
}

/// Arguments that name inputs.
#[derive(Debug, clap::Args)]
pub(super) struct InputArgs {
    /// An input: a .npy file, or a raw file followed by --shape and --dtype. In the order of the parameters, or NAME=FILE.
    #[arg(long, short, value_name = "[NAME=]FILE")]
    input: Vec<String>,

    /// Shape of the raw input before it, e.g. 1,3,224,224.
    #[arg(long, short, value_name = "DIMS", allow_hyphen_values = true)]
    shape: Vec<String>,

    /// Element type of the raw input before it, e.g. float32.
    #[arg(long, short, value_name = "TYPE")]
    dtype: Vec<String>,
}

impl CallArgs {
    /// The module's file.
    pub(super) fn module(&self) -> Result<&Path, Failure> {
        let named = self.module.as_ref().or(self.module_option.as_ref());
        let help = "name it: outboard run MODULE --input FILE";
        named.map(PathBuf::as_path).ok_or_else(|| Failure::usage("no module is named", help))
    }

    /// Loads the module and says what a person should know about it.
    pub(super) fn load(&self, session: &mut Session) -> Result<Module, Failure> {
        let path = self.module()?;
        let spinner = Spinner::start(format!("loading {}", path.display()));
        let module = session.load_file(path);
        drop(spinner);
        let module = module?;
        for warning in module.warnings() {
            report::say(&format!("warning: {warning}"));
        }
        Ok(module)
    }
}

/// An input as it was given: read, but not yet a tensor when only the module can say what it is.
pub(super) struct GivenInput {
    name: Option<String>,
    path: PathBuf,
    bytes: Vec<u8>,
    shape: Option<Shape>,
    dtype: Option<DType>,
}

/// Reads the files and attaches each --shape and --dtype to the input before it.
pub(super) fn read(args: &InputArgs, matches: Option<&ArgMatches>) -> Result<Vec<GivenInput>, Failure> {
    let places = |id: &str| -> Vec<usize> {
        matches.and_then(|matches| matches.indices_of(id)).map(Iterator::collect).unwrap_or_default()
    };
    let input_places = places("input");
    let mut inputs = args.input.iter().map(|text| open(text)).collect::<Result<Vec<_>, _>>()?;
    for (text, place) in args.shape.iter().zip(places("shape")) {
        let shape = text.parse::<Shape>().map_err(|error| Failure::from(outboard_tensor::TensorError::from(error)))?;
        let input = before(&mut inputs, &input_places, place, "--shape")?;
        if input.shape.replace(shape).is_some() {
            return Err(Failure::usage(
                format!("{} has two shapes", input.path.display()),
                "give one --shape for each raw input",
            ));
        }
    }
    for (text, place) in args.dtype.iter().zip(places("dtype")) {
        let dtype = text.parse::<DType>().map_err(|error| Failure::from(outboard_tensor::TensorError::from(error)))?;
        let input = before(&mut inputs, &input_places, place, "--dtype")?;
        if input.dtype.replace(dtype).is_some() {
            return Err(Failure::usage(
                format!("{} has two element types", input.path.display()),
                "give one --dtype for each raw input",
            ));
        }
    }
    for input in &inputs {
        if is_npy(input) && (input.shape.is_some() || input.dtype.is_some()) {
            return Err(Failure::usage(
                format!("{} is a .npy file, which says itself what it holds", input.path.display()),
                "leave --shape and --dtype away; they describe the raw input before them",
            ));
        }
    }
    Ok(inputs)
}

/// The input that stands before an option.
fn before<'a>(
    inputs: &'a mut [GivenInput],
    places: &[usize],
    place: usize,
    option: &str,
) -> Result<&'a mut GivenInput, Failure> {
    let index = places.partition_point(|input| *input < place).checked_sub(1);
    index.and_then(|index| inputs.get_mut(index)).ok_or_else(|| {
        Failure::usage(
            format!("{option} stands before any --input"),
            format!("write {option} behind the input it describes"),
        )
    })
}

fn open(text: &str) -> Result<GivenInput, Failure> {
    let (name, path) = match text.split_once('=') {
        // A path that has a `=` in it is not a name: ./a=b.npy
        Some((name, path)) if !name.is_empty() && !name.contains('/') => (Some(name.to_owned()), path),
        _ => (None, text),
    };
    let path = PathBuf::from(path);
    let bytes = std::fs::read(&path).map_err(|error| Failure::unreadable(&path, &error))?;
    Ok(GivenInput { name, path, bytes, shape: None, dtype: None })
}

fn is_npy(input: &GivenInput) -> bool {
    input.bytes.starts_with(b"\x93NUMPY") || has_extension(&input.path, "npy")
}

pub(super) fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|found| found.eq_ignore_ascii_case(extension))
}

/// The tensors in the order of the module's parameters. A raw file without a description is what the module declares.
pub(super) fn tensors(given: Vec<GivenInput>, manifest: Option<&Manifest>) -> Result<Vec<Tensor>, Failure> {
    let count = given.len();
    let mut slots: Vec<Option<GivenInput>> = (0..count).map(|_| None).collect();
    let mut unnamed = Vec::new();
    for input in given {
        let Some(name) = &input.name else {
            unnamed.push(input);
            continue;
        };
        let index = position(name, manifest)?;
        match slots.get_mut(index) {
            Some(slot @ None) => *slot = Some(input),
            Some(Some(_)) => {
                return Err(Failure::usage(format!("input `{name}` is given twice"), "name each input once"));
            }
            None => {
                let message =
                    format!("input `{name}` is number {index} of the module, but only {count} inputs are given");
                return Err(Failure::usage(message, "give every input of the module"));
            }
        }
    }
    let mut rest = unnamed.into_iter();
    let ordered = slots.into_iter().filter_map(|slot| slot.or_else(|| rest.next()));
    ordered
        .enumerate()
        .map(|(index, input)| tensor(input, manifest.and_then(|manifest| manifest.inputs.get(index))))
        .collect()
}

fn position(name: &str, manifest: Option<&Manifest>) -> Result<usize, Failure> {
    let Some(manifest) = manifest else {
        let message = format!("input `{name}` is given by name, but the module carries no names");
        return Err(Failure::usage(message, "give the inputs in the order of the module's parameters"));
    };
    manifest.input_index(name).ok_or_else(|| {
        let names: Vec<&str> = manifest.inputs.iter().map(|input| input.name.as_str()).collect();
        Failure::usage(format!("the module has no input `{name}`"), format!("its inputs are: {}", names.join(", ")))
    })
}

fn tensor(input: GivenInput, declared: Option<&TensorSpec>) -> Result<Tensor, Failure> {
    let path = input.path.display().to_string();
    if is_npy(&input) {
        return Tensor::from_npy(&input.bytes).map_err(|error| Failure::from(error).about(&path));
    }
    let shape = input.shape.or_else(|| declared.map(|spec| spec.shape.clone()));
    let dtype = input.dtype.or_else(|| declared.map(|spec| spec.dtype));
    let (Some(shape), Some(dtype)) = (shape, dtype) else {
        return Err(Failure::usage(
            format!("{path} is a raw file, and the module does not declare what it takes"),
            "describe it: --input FILE --shape 1,3,224,224 --dtype float32",
        ));
    };
    Tensor::new(dtype, shape, input.bytes).map_err(|error| Failure::from(error).about(&path))
}
