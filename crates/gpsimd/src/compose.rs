//! Writes a model of one operation: the smallest NEFF that a runtime accepts, with the pool engine's stream in it, and the
//! metaneff message beside it. [`crate::Runtime::run_neff`] runs it.

use outboard_elf::Elf;
use outboard_elf::pi::DeviceShape;
use outboard_link::pi::{PrelinkRequest, prelink};
use outboard_neff::metaneff::{DataType, MetaNeff, MetaTensor, TensorRole};
use outboard_neff::seq::{
    Arg as Payload, Dialect, DmaTrigger, Events, Instruction, ModifyPoolConfig, PayloadCount, UPDATE_INCREMENT, chains,
    encode_chain,
};
use outboard_neff::{Neff, PackOptions, inspect, pack};
use outboard_tensor::{DType, Tensor};
use serde_json::{Map, Value, json};

use crate::argument::{Arg, Described, OutputSpec};
use crate::error::Error;
use crate::model::library_member;
use crate::target::PoolTarget;

/// Alignment of operands in on-chip memory.
const ALIGN: u64 = 64;
/// The semaphore that says that the operation is done.
const DONE: u8 = 11;
/// The folder of the graph.
const GRAPH: &str = "sg00";

/// What an operation of a model is given.
#[derive(Debug, Clone, PartialEq)]
pub enum ModelArg {
    /// A tensor that whoever runs the model passes.
    Input(OutputSpec),
    /// A value that is part of the model.
    Constant(Arg),
}

/// What a model is made of.
#[derive(Debug, Clone)]
pub struct ModelRequest<'a> {
    /// The library: file names and contents, one or one for each core.
    pub libraries: &'a [(String, Vec<u8>)],
    /// Their description, as in `ucode_lib.json`.
    pub manifest: &'a Value,
    /// The operation's name in the description.
    pub op: &'a str,
    /// What it is given, in order.
    pub arguments: &'a [ModelArg],
    /// What its result looks like.
    pub result: &'a OutputSpec,
}

/// A model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Model {
    /// The container.
    pub neff: Vec<u8>,
    /// The metaneff message.
    pub metaneff: Vec<u8>,
}

/// A variable and its operand in on-chip memory.
struct Operand {
    name: String,
    kind: &'static str,
    spec: OutputSpec,
    described: Described,
    /// Its place in on-chip memory.
    offset: u32,
}

impl Operand {
    fn queue(&self) -> String {
        format!("q_{}", self.name)
    }

    /// The variable outside, and the one in on-chip memory.
    fn variables(&self, id: usize) -> [(String, Value); 2] {
        let (bytes, dtype, shape) = (self.described.bytes(), self.spec.dtype.name(), &self.spec.shape);
        let var = |id: usize, kind: &str| json!({"var_id": id, "type": kind, "size": bytes, "dtype": dtype, "framework_shape": shape});
        let (mut outside, mut inside) = (var(id, self.kind), var(id + 1, "state-buffer"));
        inside["backing_variable_off"] = json!(self.offset);
        if self.kind == "file" {
            outside["file_name"] = json!(format!("{}.npy", self.name));
        }
        [(self.name.clone(), outside), (self.on_chip(), inside)]
    }

    fn on_chip(&self) -> String {
        format!("{}_sb", self.name)
    }

    /// The DMA block that moves it in or out.
    fn block(&self) -> Value {
        let (outside, inside, bytes) = (self.name.clone(), self.on_chip(), self.described.bytes());
        let (from, to) = if self.kind == "output" { (inside, outside) } else { (outside, inside) };
        json!({"id": 0, "queue": self.queue(), "from": from, "to": to, "from_sizes": [bytes], "from_steps": [1],
               "to_sizes": [bytes], "to_steps": [1]})
    }

    fn trigger(&self) -> [u8; 64] {
        Instruction::DmaTrigger(DmaTrigger { queue: self.queue(), use_raw_count: 0, block_id: 0 }).encode()
    }

    fn payload(&self) -> Payload {
        Payload::Tensor(self.described.on_chip(self.offset))
    }

    fn meta(&self) -> MetaTensor {
        MetaTensor {
            name: self.name.clone(),
            shape: self.spec.shape.iter().map(|dim| i64::try_from(*dim).unwrap_or(i64::MAX)).collect(),
            data_type: data_type(self.spec.dtype),
            role: TensorRole(1),
            ..MetaTensor::default()
        }
    }
}

fn binding(problem: impl Into<String>) -> Error {
    Error::Binding(problem.into())
}

fn json_bytes(value: &Value) -> Vec<u8> {
    value.to_string().into_bytes()
}

/// Writes a model of one operation for pools like `target`. Inputs and result are copied into on-chip memory and out of it.
///
/// # Errors
/// The description has no such operation, a library is none, an argument cannot be passed to the device, or the operands do
/// not fit into on-chip memory.
pub fn compose(target: &PoolTarget, request: &ModelRequest<'_>) -> Result<Model, Error> {
    let function = function_id(request.manifest, request.op)?;
    let mut next = ALIGN;
    let mut operand = |index: usize, name: String, kind: &'static str, spec: OutputSpec| -> Result<Operand, Error> {
        let described = Described::new(index, spec.dtype, &spec.shape)?;
        if described.is_empty() {
            let problem = "a model's DMA blocks cannot move an empty tensor: give its shape at least one element";
            return Err(Error::Argument { index, problem: problem.to_owned() });
        }
        let offset = u32::try_from(next).unwrap_or(u32::MAX);
        next = (next + described.bytes()).next_multiple_of(ALIGN);
        if next > target.soc.sbuf_size {
            let size = target.soc.sbuf_size;
            let problem = format!("the operands of one operation take more than the {size:#x} bytes of on-chip memory");
            return Err(Error::Argument { index, problem });
        }
        Ok(Operand { name, kind, spec, described, offset })
    };
    let mut members = Vec::new();
    let mut operands = Vec::new();
    let mut inputs = 0;
    for (index, argument) in request.arguments.iter().enumerate() {
        operands.push(match argument {
            ModelArg::Input(spec) => {
                inputs += 1;
                operand(index, format!("input{}", inputs - 1), "input", spec.clone())?
            }
            ModelArg::Constant(value) => {
                let tensor = constant(index, value)?;
                let spec = OutputSpec { dtype: tensor.dtype(), shape: tensor.shape().dims().to_vec() };
                let name = format!("constant{index}");
                let npy = tensor.view().to_npy().map_err(|error| binding(format!("argument {index}: {error}")))?;
                members.push((format!("{GRAPH}/{name}.npy"), npy));
                operand(index, name, "file", spec)?
            }
        });
    }
    let result = operand(request.arguments.len(), "output0".to_owned(), "output", request.result.clone())?;
    let stream = stream(target, request, function, &operands, &result)?;
    members.extend(request.libraries.iter().map(|(name, bytes)| (format!("{GRAPH}/{name}"), bytes.clone())));
    let neff = container(request, &operands, &result, stream, members)?;
    let passed: Vec<_> = operands.iter().filter(|operand| operand.kind == "input").collect();
    let metaneff = MetaNeff {
        input_tensors: passed.iter().map(|operand| operand.meta()).collect(),
        output_tensors: vec![result.meta()],
        name: request.op.to_owned(),
        num_user_inputs: passed.len() as u64,
        ..MetaNeff::default()
    };
    Ok(Model { neff, metaneff: metaneff.encode() })
}

/// The number of a function in a description.
fn function_id(manifest: &Value, op: &str) -> Result<u8, Error> {
    let functions = manifest.pointer("/ucode_lib/0/functions").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let name = |function: &Value| function.get("name").and_then(Value::as_str).unwrap_or("").to_owned();
    let found = functions.iter().find(|function| name(function) == op);
    let number = found.and_then(|function| function.get("sub_opcode")).and_then(Value::as_u64);
    number
        .and_then(|number| u8::try_from(number).ok())
        .ok_or_else(|| Error::UnknownOp { name: op.to_owned(), known: functions.iter().map(name).collect() })
}

/// The tensor that a constant is on the device.
fn constant(index: usize, value: &Arg) -> Result<Tensor, Error> {
    let (described, bytes) = value.describe(index)?;
    crate::runtime::tensor(&described.spec(), bytes.into_owned())
}

/// The pool engine's instructions: load the library (a fixed one is there before), move the inputs on chip, run the operation,
/// move the result out, signal.
fn stream(
    target: &PoolTarget,
    request: &ModelRequest<'_>,
    function: u8,
    operands: &[Operand],
    result: &Operand,
) -> Result<Vec<u8>, Error> {
    let mut slots = Vec::new();
    for (library, (_, bytes)) in request.libraries.iter().enumerate() {
        let elf = Elf::parse(bytes).map_err(|error| Error::Elf { library, error })?;
        if let DeviceShape::Pi(_) = DeviceShape::of(&elf).map_err(|error| Error::Shape { library, error })? {
            let image = prelink(&PrelinkRequest::new(bytes, target.bounds()))
                .map_err(|error| Error::Link(outboard_link::pi::ll::LlError::Prelink { error }))?;
            let size = u32::try_from(image.staged_size()).unwrap_or(u32::MAX);
            let number = u32::try_from(library).unwrap_or(u32::MAX);
            slots.push(Instruction::ModifyPoolConfig(ModifyPoolConfig::load(0, number, size)).encode());
        }
    }
    slots.extend(operands.iter().map(Operand::trigger));
    let payloads: Vec<Payload> = operands.iter().map(Operand::payload).collect();
    slots.extend(encode_chain(function, &[result.payload()], &payloads, PayloadCount::Compiler));
    slots.push(Instruction::Other { opcode: 0xa2, body: vec![0; 52] }.encode());
    slots.push(result.trigger());
    let events = Events { update_mode: UPDATE_INCREMENT, update_index: DONE, ..Events::default() };
    slots.push(Instruction::EventSemaphore.encode_with(&events, Dialect::V2));
    Ok(slots.concat())
}

/// The container: manifests, the graph with its five engines, the library.
fn container(
    request: &ModelRequest<'_>,
    operands: &[Operand],
    result: &Operand,
    stream: Vec<u8>,
    others: Vec<(String, Vec<u8>)>,
) -> Result<Vec<u8>, Error> {
    let all: Vec<&Operand> = operands.iter().chain([result]).collect();
    let mut vars = Map::new();
    let mut queues = Map::new();
    for (index, operand) in all.iter().enumerate() {
        vars.extend(operand.variables(2 * index));
        let kind = if operand.kind == "output" { "out" } else { "in" };
        queues.insert(operand.queue(), json!({"owner": "pool", "semaphore": index + 1, "type": kind}));
    }
    let mut definition = json!({
        "name": GRAPH, "var": vars, "dma_queue": queues, "ucode_lib": "ucode_lib.json", "version": "0.6",
    });
    let mut members = vec![
        ("kelf-a.json".to_owned(), json_bytes(&kelf())),
        ("neff.json".to_owned(), json_bytes(&outer(operands, result))),
    ];
    let mut streams = Vec::new();
    for engine in ["pe", "act", "pool", "dve", "sp"] {
        let dma: Vec<Value> =
            if engine == "pool" { all.iter().map(|operand| operand.block()).collect() } else { Vec::new() };
        definition[engine] =
            json!({"dma": dma, "instr": format!("{engine}.bin"), "name": format!("{engine}_array_json")});
        let bytes = if engine == "pool" { stream.clone() } else { Vec::new() };
        streams.push((format!("{GRAPH}/{engine}.bin"), bytes));
    }
    members.push((format!("{GRAPH}/def.json"), json_bytes(&definition)));
    members.extend(streams);
    members.push((format!("{GRAPH}/ucode_lib.json"), json_bytes(request.manifest)));
    members.extend(others);
    Ok(pack(&members, &PackOptions { name: request.op.to_owned(), ..PackOptions::default() })?)
}

fn kelf() -> Value {
    json!({"graphs": [{"definition": format!("{GRAPH}/def.json"), "name": GRAPH}], "version": "0.5", "target": "*"})
}

/// The framework's graph: the inputs, and one node that is the model.
fn outer(operands: &[Operand], result: &Operand) -> Value {
    let inputs: Vec<&Operand> = operands.iter().filter(|operand| operand.kind == "input").collect();
    let mut nodes: Vec<Value> =
        inputs.iter().map(|input| json!({"op": "null", "name": input.name, "inputs": []})).collect();
    let count = inputs.len();
    let refer: Vec<Value> = (0..count).map(|index| json!([index, 0, 0])).collect();
    nodes.push(json!({"op": "tvm_op", "name": "sg_tonga0", "inputs": refer, "attrs": {
        "func_name": "__kelf", "kelf": "kelf-a.json", "num_inputs": count.to_string(), "num_outputs": "1",
        "flatten_data": "0",
    }}));
    let tensors: Vec<&Operand> = inputs.into_iter().chain([result]).collect();
    let shapes: Vec<_> = tensors.iter().map(|tensor| tensor.spec.shape.clone()).collect();
    let types: Vec<_> = tensors.iter().map(|tensor| tensor.spec.dtype.name()).collect();
    json!({
        "nodes": nodes,
        "arg_nodes": (0..count).collect::<Vec<_>>(),
        "heads": [[count, 0, 0]],
        "node_row_ptr": (0..=count + 1).collect::<Vec<_>>(),
        "attrs": {
            "shape": ["list_shape", shapes],
            "storage_id": ["list_int", (0..=count).collect::<Vec<_>>()],
            "dltype": ["list_str", types],
        },
    })
}

/// The number of an element type in metaneff.
fn data_type(dtype: DType) -> DataType {
    DataType(match dtype {
        DType::Float32 => 1,
        DType::Int32 => 2,
        DType::UInt8 => 6,
        DType::Int8 => 7,
        DType::UInt16 => 8,
        DType::Int16 => 9,
        DType::Int64 => 10,
        DType::Float16 => 12,
        DType::BFloat16 => 14,
        DType::Float64 => 13,
        DType::Bool => 5,
        // The message has no number for them, and neither has the device.
        DType::UInt32 | DType::UInt64 => 0,
    })
}

/// The names of the operations that the pool engine's stream of a container runs, in its order.
///
/// # Errors
/// The container is broken, or its stream calls a function that the description does not have.
pub fn model_operations(file: &[u8]) -> Result<Vec<String>, Error> {
    let neff = Neff::parse(file)?;
    let content = inspect(file)?;
    let graph = content.graphs.first().ok_or_else(|| binding("the container has no graph"))?;
    let pool = graph.engines.iter().find(|engine| engine.name == "pool");
    let member = pool.and_then(|engine| engine.instructions.as_deref());
    let member = member.ok_or_else(|| binding("the graph has no stream for the pool engine"))?;
    let functions = content.libraries.first().map_or(&[][..], |library| library.functions.as_slice());
    let name = |number: u8| {
        let known = functions.iter().find(|function| function.sub_opcode == Some(number));
        let problem = || binding(format!("{member} calls function {number}, which the description does not have"));
        known.map(|function| function.name.clone()).ok_or_else(problem)
    };
    chains(&neff.read(member)?)?.iter().map(|chain| name(chain.header.function_id)).collect()
}

/// Whether a container has a fixed-load library for one core, which a pool of one core runs.
///
/// # Errors
/// The container is broken, or a library that it describes is missing or none.
pub fn model_for_one_core(file: &[u8]) -> Result<bool, Error> {
    let neff = Neff::parse(file)?;
    let libraries = inspect(file)?.libraries;
    let [entry] = &libraries[..] else { return Ok(false) };
    let bytes = neff.read(&library_member(&neff, &entry.library)?)?;
    let elf = Elf::parse(&bytes).map_err(|error| Error::Elf { library: 0, error })?;
    let shape = DeviceShape::of(&elf).map_err(|error| Error::Shape { library: 0, error })?;
    Ok(entry.total_cpus < 2 && matches!(shape, DeviceShape::Fll(_)))
}
