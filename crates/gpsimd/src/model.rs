//! Runs a NEFF: its tensors are bound, its libraries staged, and the pool engine's stream in the file is executed.

use std::collections::BTreeMap;

use outboard_elf::Elf;
use outboard_elf::pi::DeviceShape;
use outboard_neff::metaneff::{MetaNeff, MetaTensor};
use outboard_neff::{DefVar, GraphReport, Neff, UcodeLib, check_target, inspect};
use outboard_tensor::{DType, Tensor};
use serde_json::Value;

use crate::argument::OutputSpec;
use crate::diagnose::RegionKind;
use crate::error::Error;
use crate::library::{Files, Library, load_fixed, stage_library};
use crate::queue::{Block, DmaQueues, Pattern};
use crate::report::RunReport;
use crate::runtime::{HostTensor, Runtime, tensor};
use crate::sequencer::{Sequencer, Stream};

/// Distance between staged libraries.
const STAGING: u64 = 0x100_0000;
/// Alignment of variables in HBM.
const ALIGN: u64 = 64;

/// What a model computed.
#[derive(Debug, Clone)]
pub struct ModelOutcome {
    /// Its results by name, in the order of their variables.
    pub outputs: Vec<(String, Tensor)>,
    /// What happened.
    pub report: RunReport,
}

/// Where a variable is.
#[derive(Debug, Clone, Copy)]
struct Variable {
    address: u64,
    size: u64,
}

fn binding(problem: impl Into<String>) -> Error {
    Error::Binding(problem.into())
}

impl Runtime {
    /// Runs the first graph of a NEFF with these inputs, bound in the order of the input variables. With a metaneff message,
    /// its names, shapes and element types are compared too.
    ///
    /// # Errors
    /// The container is broken, what it says does not fit together or the inputs, or the device fails.
    pub fn run_neff(
        &mut self,
        file: &[u8],
        metaneff: Option<&MetaNeff>,
        inputs: &[Tensor],
    ) -> Result<ModelOutcome, Error> {
        let mut report = RunReport::default();
        let outputs = self.run_neff_into(file, metaneff, inputs, &mut report)?;
        Ok(ModelOutcome { outputs, report })
    }

    /// As [`Runtime::run_neff`]; `report` tells what happened even when the device fails.
    ///
    /// # Errors
    /// As for [`Runtime::run_neff`].
    pub fn run_neff_into(
        &mut self,
        file: &[u8],
        metaneff: Option<&MetaNeff>,
        inputs: &[Tensor],
        report: &mut RunReport,
    ) -> Result<Vec<(String, Tensor)>, Error> {
        let neff = Neff::parse(file)?;
        neff.verify_hash()?;
        let content = inspect(file)?;
        check_target(content.target.as_deref(), &self.target().kind.name, false)?;
        let graph = content.graphs.first().ok_or_else(|| binding("the container has no graph"))?;
        let (variables, given) = self.place_variables(&neff, graph, metaneff, inputs)?;
        for (address, bytes) in &given {
            self.device.pool.bus.write(*address, bytes)?;
        }
        let host = |(name, place): (&String, &Variable)| HostTensor {
            kind: RegionKind::Operand,
            name: format!("variable {name}"),
            address: place.address,
            size: place.size,
        };
        self.device.tensors = variables.iter().map(host).collect();
        let queues = dma_queues(&neff, graph, &variables)?;
        let staged = self.load_libraries(&neff, &content.libraries)?;
        let stream = Stream { staged, queues, schema: Vec::new() };
        let member = graph.engines.iter().find(|engine| engine.name == "pool").and_then(|e| e.instructions.as_deref());
        let member =
            member.ok_or_else(|| binding(format!("{}: the graph has no stream for the pool engine", graph.member)))?;
        let bytes = neff.read(member)?;
        Sequencer::new(&mut self.device, &stream, report).run(&bytes)?;
        if let Ok(library) = self.device.library() {
            agree(library, &content.libraries)?;
        }
        if report.notifications.is_empty() {
            return Err(Error::NoNotification);
        }
        let outputs = graph.vars.iter().filter(|var| var.kind == "output");
        outputs.map(|var| self.read_output(var, &variables)).collect()
    }

    /// Gives every variable a place; returns the places, and what is written there first.
    #[allow(clippy::type_complexity, reason = "two lists for the one caller")]
    fn place_variables(
        &self,
        neff: &Neff<'_>,
        graph: &GraphReport,
        metaneff: Option<&MetaNeff>,
        inputs: &[Tensor],
    ) -> Result<(BTreeMap<String, Variable>, Vec<(u64, Vec<u8>)>), Error> {
        let target = self.target();
        let definition = json(neff, &graph.member)?;
        let mut next = target.soc.hbm_base + target.hbm.tensors;
        let end = target.soc.hbm_base + target.hbm.staging;
        let mut variables = BTreeMap::new();
        let mut given = Vec::new();
        let expected = graph.vars.iter().filter(|var| var.kind == "input").count();
        if inputs.len() != expected {
            let names: Vec<&str> =
                graph.vars.iter().filter(|var| var.kind == "input").map(|var| var.name.as_str()).collect();
            return Err(binding(format!(
                "{} inputs were given, the model has {expected}: {}",
                inputs.len(),
                names.join(", ")
            )));
        }
        let metas = metaneff.map(|meta| (&meta.input_tensors, &meta.output_tensors));
        if let Some((ins, outs)) = metas {
            let outputs = graph.vars.iter().filter(|var| var.kind == "output").count();
            if ins.len() != expected || outs.len() != outputs {
                return Err(binding(format!(
                    "metaneff describes {} inputs and {} outputs, the model has {expected} and {outputs}",
                    ins.len(),
                    outs.len()
                )));
            }
        }
        let (mut input, mut output) = (0, 0);
        for var in &graph.vars {
            let address = match var.kind.as_str() {
                "state-buffer" => self.sbuf_address(&definition, var)?,
                "virtual" => continue,
                _ => {
                    let address = next;
                    next = next.saturating_add(var.size).next_multiple_of(ALIGN);
                    if next > end {
                        return Err(binding(format!(
                            "variable {} ({:#x} bytes) does not fit into memory",
                            var.name, var.size
                        )));
                    }
                    address
                }
            };
            match var.kind.as_str() {
                "input" => {
                    let tensor = inputs.get(input).ok_or_else(|| binding("an input is missing"))?;
                    check_input(var, tensor)?;
                    if let Some(meta) = metas.and_then(|(ins, _)| ins.get(input)) {
                        check_meta(var, meta, &format!("input{input}"))?;
                    }
                    given.push((address, tensor.bytes().to_vec()));
                    input += 1;
                }
                "output" => {
                    output_spec(var)?;
                    if let Some(meta) = metas.and_then(|(_, outs)| outs.get(output)) {
                        check_meta(var, meta, &format!("output{output}"))?;
                    }
                    output += 1;
                }
                _ => {}
            }
            if let Some(file) = &var.file {
                let (folder, _) = graph.member.rsplit_once('/').unwrap_or(("", ""));
                let bytes = neff.read(&format!("{folder}/{file}")).or_else(|_| neff.read(file))?;
                let bytes = match Tensor::from_npy(&bytes) {
                    Ok(tensor) => tensor.into_bytes(),
                    Err(_) => bytes,
                };
                if bytes.len() as u64 != var.size {
                    return Err(binding(format!(
                        "{file} has {} bytes, variable {} has {}",
                        bytes.len(),
                        var.name,
                        var.size
                    )));
                }
                given.push((address, bytes));
            }
            variables.insert(var.name.clone(), Variable { address, size: var.size });
        }
        Ok((variables, given))
    }

    /// The place of a variable in on-chip memory, which the compiler chooses.
    fn sbuf_address(&self, definition: &Value, var: &DefVar) -> Result<u64, Error> {
        let soc = &self.target().soc;
        let entry = definition.get("var").and_then(|vars| vars.get(&var.name));
        let offset = entry.and_then(|entry| entry.get("backing_variable_off")).and_then(Value::as_u64).unwrap_or(0);
        let end = offset.checked_add(var.size).filter(|end| *end <= soc.sbuf_size);
        end.ok_or_else(|| binding(format!("variable {} does not lie in the on-chip memory", var.name)))?;
        Ok(soc.sbuf_base() + offset)
    }

    fn read_output(&self, var: &DefVar, variables: &BTreeMap<String, Variable>) -> Result<(String, Tensor), Error> {
        let spec = output_spec(var)?;
        let place = variables.get(&var.name).ok_or_else(|| binding(format!("variable {} has no place", var.name)))?;
        let mut bytes = vec![0; usize::try_from(var.size).unwrap_or(0)];
        self.device.pool.bus.read(place.address, &mut bytes)?;
        Ok((var.name.clone(), tensor(&spec, bytes)?))
    }

    /// Stages prelinked libraries under their position in the manifest, and loads a fixed one.
    fn load_libraries(
        &mut self,
        neff: &Neff<'_>,
        libraries: &[UcodeLib],
    ) -> Result<BTreeMap<u32, crate::library::StagedLibrary>, Error> {
        self.device.unload();
        let mut staged = BTreeMap::new();
        let mut fixed: Vec<(u8, Vec<u8>)> = Vec::new();
        for (index, library) in libraries.iter().enumerate() {
            let member = library_member(neff, &library.library)?;
            let bytes = neff.read(&member)?;
            let elf = Elf::parse(&bytes).map_err(|error| Error::Elf { library: index, error })?;
            match DeviceShape::of(&elf).map_err(|error| Error::Shape { library: index, error })? {
                DeviceShape::Pi(_) => {
                    let at = self.staging + STAGING * index as u64;
                    let number = u32::try_from(index).unwrap_or(u32::MAX);
                    staged.insert(number, stage_library(&self.device.pool, &bytes, at)?);
                }
                DeviceShape::Fll(_) => fixed.push((library.cpu_id, bytes)),
            }
        }
        if !fixed.is_empty() {
            fixed.sort_by_key(|(core, _)| *core);
            // A library for one core runs on that one.
            let cores = if libraries.iter().all(|library| library.total_cpus < 2) { 1 } else { self.target().cores };
            let files: Vec<&[u8]> = fixed.iter().map(|(_, bytes)| bytes.as_slice()).collect();
            if let Files::Fll(images) = Files::of(&files, cores)? {
                let queues = self.device.queues;
                let blocks = move |core| queues.blocks(core);
                let library = load_fixed(&mut self.device.pool, &self.device.firmware, &images, &blocks)?;
                self.device.set_library(library);
            }
        }
        Ok(staged)
    }
}

/// The functions of a loaded library and its manifest say the same.
fn agree(library: &Library, manifest: &[UcodeLib]) -> Result<(), Error> {
    for function in manifest.iter().flat_map(|library| &library.functions) {
        let Some(number) = function.sub_opcode else { continue };
        let registered = library.functions.get(usize::from(number)).map(|entry| entry.name.as_str());
        if function.opcode == 0x85 && registered != Some(function.name.as_str()) {
            return Err(binding(format!(
                "the manifest calls function {number} `{}`, the library registers {}",
                function.name,
                registered.map_or("none with this number".to_owned(), |name| format!("`{name}`"))
            )));
        }
    }
    Ok(())
}

/// The member with a library's bytes.
pub(crate) fn library_member(neff: &Neff<'_>, name: &str) -> Result<String, Error> {
    let listing = neff.list()?;
    let beside = |member: &&outboard_neff::Member| member.name.rsplit('/').next() == Some(name);
    let found = listing.members.iter().find(beside);
    found.map(|member| member.name.clone()).ok_or_else(|| binding(format!("library {name} is not in the container")))
}

fn json(neff: &Neff<'_>, member: &str) -> Result<Value, Error> {
    let bytes = neff.read(member)?;
    serde_json::from_slice(&bytes).map_err(|error| binding(format!("{member}: {error}")))
}

fn dtype(var: &DefVar) -> Result<DType, Error> {
    let name = var.dtype.as_deref().ok_or_else(|| binding(format!("variable {} has no element type", var.name)))?;
    name.parse().map_err(|error: outboard_tensor::UnknownDTypeName| binding(format!("variable {}: {error}", var.name)))
}

/// What an output variable looks like.
fn output_spec(var: &DefVar) -> Result<OutputSpec, Error> {
    let spec = OutputSpec {
        dtype: dtype(var)?,
        shape: var.shape.iter().map(|dim| usize::try_from(*dim).unwrap_or(usize::MAX)).collect(),
    };
    let bytes = spec.shape.iter().try_fold(spec.dtype.size(), |bytes, dim| bytes.checked_mul(*dim));
    if bytes.map(|bytes| bytes as u64) != Some(var.size) {
        return Err(binding(format!(
            "variable {} has {} bytes, its shape {:?} of {} does not",
            var.name,
            var.size,
            var.shape,
            spec.dtype.name()
        )));
    }
    Ok(spec)
}

fn check_input(var: &DefVar, tensor: &Tensor) -> Result<(), Error> {
    let spec = output_spec(var)?;
    if tensor.dtype() != spec.dtype || tensor.shape().dims() != spec.shape {
        return Err(binding(format!(
            "input {} is {:?} of {}, but a tensor {:?} of {} was given",
            var.name,
            spec.shape,
            spec.dtype.name(),
            tensor.shape().dims(),
            tensor.dtype().name()
        )));
    }
    Ok(())
}

/// Compares a variable with its metaneff tensor: position decides, name, shape and element type must agree.
fn check_meta(var: &DefVar, meta: &MetaTensor, name: &str) -> Result<(), Error> {
    let shape: Vec<i64> = var.shape.iter().map(|dim| i64::try_from(*dim).unwrap_or(i64::MAX)).collect();
    let element = crate::argument::element_type(dtype(var)?).map_err(binding)?;
    let same = meta.data_type.scalar_type() == Some(element.scalar_type());
    if meta.name != name {
        return Err(binding(format!(
            "metaneff calls the tensor of variable {} `{}`, expected `{name}`",
            var.name, meta.name
        )));
    }
    if meta.shape != shape || !same {
        return Err(binding(format!(
            "metaneff has {name} as {:?} of {}, variable {} is {shape:?} of {}",
            meta.shape,
            meta.data_type.name().unwrap_or("an unknown type"),
            var.name,
            var.dtype.as_deref().unwrap_or("no type")
        )));
    }
    Ok(())
}

/// The DMA blocks of the pool engine: in the definition, or in `pool.json` beside it.
fn dma_queues(
    neff: &Neff<'_>,
    graph: &GraphReport,
    variables: &BTreeMap<String, Variable>,
) -> Result<DmaQueues, Error> {
    let (folder, _) = graph.member.rsplit_once('/').unwrap_or(("", ""));
    let beside = format!("{folder}/pool.json");
    let definition = json(neff, &graph.member)?;
    let mut lists = vec![(graph.member.clone(), definition.get("pool").and_then(|pool| pool.get("dma")).cloned())];
    if neff.list()?.find(&beside).is_some() {
        lists.push((beside.clone(), json(neff, &beside)?.get("dma").cloned()));
    }
    let mut queues = DmaQueues::new();
    for (member, list) in lists {
        for entry in list.as_ref().and_then(Value::as_array).into_iter().flatten() {
            let (queue, block) =
                dma_block(entry, variables).map_err(|problem| binding(format!("{member}: {problem}")))?;
            if !graph.queues.contains_key(&queue) {
                return Err(binding(format!("{member}: queue `{queue}` is not in dma_queue of the definition")));
            }
            let blocks = queues.entry(queue).or_default();
            if blocks.iter().any(|other| other.id == block.id) {
                return Err(binding(format!("{member}: block {} occurs twice in its queue", block.id)));
            }
            blocks.push(block);
        }
    }
    Ok(queues)
}

fn dma_block(entry: &Value, variables: &BTreeMap<String, Variable>) -> Result<(String, Block), String> {
    let text = |key: &str| entry.get(key).and_then(Value::as_str).ok_or_else(|| format!("a DMA block has no `{key}`"));
    let numbers = |key: &str| -> Result<Vec<u64>, String> {
        let list = entry.get(key).and_then(Value::as_array).ok_or_else(|| format!("a DMA block has no `{key}`"))?;
        list.iter()
            .map(|v| v.as_u64().ok_or_else(|| format!("`{key}` of a DMA block holds numbers from 0 on")))
            .collect()
    };
    let id = entry.get("id").and_then(Value::as_u64).ok_or("a DMA block has no `id`")?;
    let side = |which: &str| -> Result<Pattern, String> {
        let name = text(which)?;
        let var =
            variables.get(name).ok_or_else(|| format!("block {id}: `{which}` is `{name}`, which is no variable"))?;
        let (sizes, steps) = (numbers(&format!("{which}_sizes"))?, numbers(&format!("{which}_steps"))?);
        let pattern = Pattern { base: var.address, room: var.size, sizes, steps };
        match pattern.problem() {
            None => Ok(pattern),
            Some(problem) => Err(format!("block {id}: `{which}`: {problem}")),
        }
    };
    let (from, to) = (side("from")?, side("to")?);
    if from.bytes() != to.bytes() {
        return Err(format!("block {id}: it reads {:?} bytes and writes {:?}", from.bytes(), to.bytes()));
    }
    Ok((text("queue")?.to_owned(), Block { id, from, to }))
}
