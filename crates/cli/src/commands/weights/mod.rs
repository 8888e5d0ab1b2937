//! `outboard weights FILE`: the constants of a model, and the declaration of its inputs and outputs.

mod npz;
pub(super) mod source;

use super::read_file;
use crate::report::{self, Failure};
use outboard_c7x::weights::{self, Constant, TensorConstant};
use outboard_tensor::DType;
use outboard_wire::IoMeta;
use serde_json::{Value, json};
use source::{Record, Source};
use std::path::PathBuf;

/// Where the streaming engine and vector loads want tensors to start, counted from the start of the constants.
const ALIGNMENT: usize = 64;
/// Longest text of a string that is shown.
const TEXT: usize = 48;

/// List and check the constants of a model.
///
/// FILE is a module, or the weights.bin or tvm_dsp_io_meta.bin of one. Every constant is read to its end: its type, its length against
/// its shape, and for a module the size it declares. The exit code is 3 when something is wrong.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  outboard weights lib0.out
  outboard weights weights.bin --npz weights.npz
  outboard weights lib0.out --json | jq '.constants[] | select(.kind == \"tensor\").shape'

In the .npz file, constant 3 is the array `c3`. Strings and element types have no array. A tensor of
bfloat16, which .npy files do not know, becomes the uint16 array of its bits, named `c3_bfloat16`.")]
pub(crate) struct Args {
    /// A module, or a loose weights.bin or tvm_dsp_io_meta.bin.
    file: PathBuf,

    /// Write the constants as arrays into this .npz file.
    #[arg(long, value_name = "FILE")]
    npz: Option<PathBuf>,

    /// Print JSON on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn execute(args: &Args) -> Result<(), Failure> {
    let file = read_file(&args.file)?;
    let name = args.file.display().to_string();
    let source = source::find(&file).map_err(|fault| Failure::bad_weights(fault).about(&name))?;
    let constants = match source.weights {
        Some(bytes) => {
            Some(weights::parse(bytes).map_err(|error| Failure::bad_weights(error.to_string()).about(&name))?)
        }
        None => None,
    };
    let io = match source.io_meta {
        Some(bytes) => Some(IoMeta::parse(bytes).map_err(|e| Failure::bad_weights(e.to_string()).about(&name))?),
        None => None,
    };
    if let Some(target) = &args.npz {
        let constants = constants.as_deref().ok_or_else(|| {
            Failure::usage(format!("{name} holds no constants, and --npz writes constants"), "leave --npz out")
        })?;
        npz::write(target, constants)?;
    }
    if args.json {
        return report::result(&as_json(&name, &source, constants.as_deref(), io.as_ref()));
    }
    report::print(&text(&name, &source, constants.as_deref(), io.as_ref()))
}

/// What a constant is called in results.
fn kind(constant: &Constant<'_>) -> &'static str {
    match constant {
        Constant::Tensor(_) => "tensor",
        Constant::Shape(_) => "shape",
        Constant::Str(_) => "string",
        Constant::Int(_) => "int",
        Constant::Float(_) => "float",
        Constant::DataType(_) => "dtype",
    }
}

/// The name of an element type; its three numbers for one that has none.
fn dtype(code: u8, bits: u8, lanes: u16) -> String {
    match DType::from_dlpack(code.into(), bits.into()) {
        Ok(dtype) if lanes == 1 => dtype.name().to_owned(),
        _ => format!("code {code}, {bits} bits, {lanes} lanes"),
    }
}

/// Whether a string only moves the tensor behind it to a multiple of 64, as builders write it.
fn is_filler(text: &[u8]) -> bool {
    String::from_utf8_lossy(text).trim() == "alignment"
}

fn aligned(tensor: &TensorConstant<'_>) -> bool {
    tensor.offset.is_multiple_of(ALIGNMENT)
}

fn as_json(name: &str, source: &Source<'_>, constants: Option<&[Constant<'_>]>, io: Option<&IoMeta>) -> Value {
    let described: Option<Vec<Value>> =
        constants.map(|constants| constants.iter().enumerate().map(|(index, c)| constant_json(index, c)).collect());
    let io = io.map(|io| {
        json!({
            "inputs": io.num_inputs.get(),
            "outputs": io.num_outputs.get(),
            "input_bytes": io.input_bytes.get(),
            "output_bytes": io.output_bytes.get(),
            "exact": io.is_exact(),
        })
    });
    json!({
        "status": "ok",
        "file": name,
        "record": source.record.name(),
        "bytes": source.weights.map(<[u8]>::len),
        "constants": described,
        "io_meta": io,
    })
}

fn constant_json(index: usize, constant: &Constant<'_>) -> Value {
    let mut described = json!({"index": index, "kind": kind(constant)});
    match constant {
        Constant::Tensor(tensor) => {
            described["dtype"] = json!(dtype(tensor.code, tensor.bits, tensor.lanes));
            described["shape"] = json!(tensor.shape);
            described["bytes"] = json!(tensor.data.len());
            described["offset"] = json!(tensor.offset);
            described["aligned"] = json!(aligned(tensor));
        }
        Constant::Shape(shape) => described["value"] = json!(shape),
        Constant::Str(text) => {
            described["value"] = json!(String::from_utf8_lossy(text));
            described["filler"] = json!(is_filler(text));
        }
        Constant::Int(value) => described["value"] = json!(value),
        // JSON has no infinities and no NaN: those are null.
        Constant::Float(value) => described["value"] = json!(value),
        Constant::DataType([code, bits, lanes @ ..]) => {
            described["value"] = json!(dtype(*code, *bits, u16::from_le_bytes(*lanes)));
        }
    }
    described
}

/// The page a person reads.
fn text(name: &str, source: &Source<'_>, constants: Option<&[Constant<'_>]>, io: Option<&IoMeta>) -> String {
    let mut page = String::new();
    if let Some(constants) = constants {
        let tensors = || constants.iter().filter_map(|c| if let Constant::Tensor(t) = c { Some(t) } else { None });
        let data: usize = tensors().map(|tensor| tensor.data.len()).sum();
        let bytes = source.weights.map_or(0, <[u8]>::len);
        page += &format!(
            "{name}: {} constants in {bytes} bytes ({}), {data} of them tensor data\n",
            constants.len(),
            source.record.name()
        );
        for (index, constant) in constants.iter().enumerate() {
            page += &format!("  {index:>4}  {}\n", line(constant));
        }
        let misaligned = tensors().filter(|tensor| !aligned(tensor)).count();
        if misaligned > 0 {
            page += &format!("{misaligned} tensor(s) do not start at a multiple of {ALIGNMENT}\n");
        }
    } else if source.record == Record::Module {
        page += &format!("{name}: a module without constants\n");
    }
    match io {
        Some(io) => {
            page += &format!(
                "io_meta: {} input(s) in {} bytes, {} output(s) in {} bytes, {}\n",
                io.num_inputs,
                io.input_bytes,
                io.num_outputs,
                io.output_bytes,
                if io.is_exact() { "exact" } else { "upper bounds" }
            );
        }
        None if source.record == Record::Module => page += "io_meta: none\n",
        None => {}
    }
    page
}

fn line(constant: &Constant<'_>) -> String {
    match constant {
        Constant::Tensor(tensor) => {
            let shape: Vec<String> = tensor.shape.iter().map(i64::to_string).collect();
            let kind = format!("{}[{}]", dtype(tensor.code, tensor.bits, tensor.lanes), shape.join(","));
            format!("tensor  {kind:<32} {:>10} bytes at {:#x}", tensor.data.len(), tensor.offset)
        }
        Constant::Shape(shape) => format!("shape   {shape:?}"),
        Constant::Str(text) if is_filler(text) => format!("filler  {} bytes", text.len()),
        Constant::Str(text) => {
            let shown: String = String::from_utf8_lossy(text).chars().take(TEXT).collect();
            format!("string  {shown:?}, {} bytes", text.len())
        }
        Constant::Int(value) => format!("int     {value}"),
        Constant::Float(value) => format!("float   {value}"),
        Constant::DataType([code, bits, lanes @ ..]) => {
            format!("dtype   {}", dtype(*code, *bits, u16::from_le_bytes(*lanes)))
        }
    }
}
