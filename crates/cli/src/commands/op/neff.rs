//! `outboard op build --neff`: a model of one operation beside its library.

use super::{Dims, argument, dims, failure};
use crate::report::Failure;
use outboard_device_build::{ArgumentType, OpLibrary, Schema};
use outboard_gpsimd::{Arg, Model, ModelArg, ModelRequest, OutputSpec, PoolTarget, compose};
use outboard_tensor::DType;
use outboard_ucode::cores;
use std::path::PathBuf;

/// The model and what its shapes are.
#[derive(Debug, clap::Args)]
pub(super) struct ModelArgs {
    /// Also write a NEFF that runs one operation, and a .metaneff beside it.
    #[arg(long, value_name = "OUT.neff")]
    neff: Option<PathBuf>,

    /// The operation that the NEFF runs; needed when there are several.
    #[arg(long, value_name = "NAME", requires = "neff")]
    op: Option<String>,

    /// An argument of the NEFF's operation, in the order of its schema: for a tensor its type and dimensions, such as
    /// float32:128x256, or a .npy file that looks like it; for anything else a number, which becomes part of the model.
    #[arg(long = "arg", value_name = "TYPE:DIMS|FILE|NUMBER", requires = "neff", allow_hyphen_values = true)]
    arguments: Vec<String>,

    /// Dimensions of the NEFF's result, such as 8 or 4x32; without them it is like the first tensor.
    #[arg(long, value_name = "DIMS", requires = "neff", value_parser = dims)]
    result_shape: Option<Dims>,

    /// Element type of the NEFF's result; without it, that of the first tensor.
    #[arg(long, value_name = "TYPE", requires = "neff")]
    result_dtype: Option<DType>,
}

/// A model that can be written as soon as there is a library.
pub(super) struct Request {
    path: PathBuf,
    op: String,
    arguments: Vec<ModelArg>,
    result: OutputSpec,
}

impl ModelArgs {
    /// What the options ask for, held against the schemas.
    pub(super) fn request(&self, schemas: &[Schema]) -> Result<Option<Request>, Failure> {
        let Some(path) = self.neff.clone() else { return Ok(None) };
        let names: Vec<_> = schemas.iter().map(|schema| schema.name.as_str()).collect();
        let schema = match (&self.op, schemas) {
            (None, [schema]) => schema,
            (None, _) => {
                let message = format!("--neff runs one operation, there are {}", names.join(", "));
                return Err(Failure::usage(message, "name one with --op NAME"));
            }
            (Some(op), _) => schemas.iter().find(|schema| schema.name == *op).ok_or_else(|| {
                Failure::usage(
                    format!("no schema is called `{op}`; there are {}", names.join(", ")),
                    "name one of these",
                )
            })?,
        };
        if self.arguments.len() != schema.arguments.len() {
            let (given, message) = (self.arguments.len(), format!("a NEFF has fixed shapes: `{schema}`"));
            let message = format!("{message} takes {} arguments, {given} --arg were given", schema.arguments.len());
            return Err(Failure::usage(
                message,
                "give each its --arg: float32:128x256 or x.npy for a tensor, else a number",
            ));
        }
        let pairs = schema.arguments.iter().zip(&self.arguments);
        let arguments = pairs
            .map(|(argument, text)| model_arg(argument.kind, &argument.name, text))
            .collect::<Result<Vec<_>, _>>()?;
        let first = arguments.iter().find_map(|argument| match argument {
            ModelArg::Input(spec) => Some(spec),
            ModelArg::Constant(_) => None,
        });
        let shape = self.result_shape.as_ref().map(|dims| dims.0.clone()).or(first.map(|spec| spec.shape.clone()));
        let dtype = self.result_dtype.or(first.map(|spec| spec.dtype));
        let (Some(shape), Some(dtype)) = (shape, dtype) else {
            let message = "no tensor is passed that the NEFF's result could look like";
            return Err(Failure::usage(message, "state --result-shape and --result-dtype"));
        };
        Ok(Some(Request { path, op: schema.name.clone(), arguments, result: OutputSpec { dtype, shape } }))
    }
}

/// Reads one `--arg` by what the schema says about it.
fn model_arg(kind: ArgumentType, name: &str, text: &str) -> Result<ModelArg, Failure> {
    let help = match kind {
        ArgumentType::Tensor => "write its type and dimensions, such as float32:128x256, or name a .npy file",
        ArgumentType::Int => "write an integer of 64 bits",
        ArgumentType::Scalar | ArgumentType::Float => "write a number",
    };
    let wrong = |what: &str| Failure::usage(format!("--arg `{text}` for `{name}`: {what}"), help);
    if let Some((dtype, shape)) = text.split_once(':')
        && let Ok(dtype) = dtype.parse::<DType>()
    {
        let Dims(shape) = dims(shape).map_err(|problem| wrong(&problem))?;
        return match kind {
            ArgumentType::Tensor => Ok(ModelArg::Input(OutputSpec { dtype, shape })),
            _ => Err(wrong("the schema has a number here")),
        };
    }
    match (kind, argument(text)?) {
        (ArgumentType::Tensor, Arg::Tensor(tensor)) => {
            Ok(ModelArg::Input(OutputSpec { dtype: tensor.dtype(), shape: tensor.shape().dims().to_vec() }))
        }
        (ArgumentType::Tensor, _) => Err(wrong("the schema has a tensor here")),
        (_, Arg::Tensor(_)) => Err(wrong("the schema has a number here")),
        (ArgumentType::Int, Arg::Float(_)) => Err(wrong("the schema has an integer here")),
        (_, number) => Ok(ModelArg::Constant(number)),
    }
}

impl Request {
    /// The model and where it goes.
    pub(super) fn compose(&self, library: &OpLibrary, core_kind: Option<&str>) -> Result<(PathBuf, Model), Failure> {
        let mut target = PoolTarget::default();
        if let Some(kind) = core_kind {
            let kind = cores::find(kind).map_err(|error| Failure::usage(error.to_string(), "name one of these"))?;
            target.kind = kind.clone();
        }
        let request = ModelRequest {
            libraries: &library.files,
            manifest: &library.manifest,
            op: &self.op,
            arguments: &self.arguments,
            result: &self.result,
        };
        Ok((self.path.clone(), compose(&target, &request).map_err(|error| failure(&error))?))
    }
}
