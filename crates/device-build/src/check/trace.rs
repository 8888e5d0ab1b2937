//! The wrapper of an operation, judged by following a call of it on the simulated cores.
//!
//! Nobody says what an operation wants to be called with, so it is called with a few plain tensors and numbers, until one call
//! ends as it should. What the runtime's routines saw is compared with the order that the interface asks for.

use outboard_gpsimd::{Arg, DeviceFault, Error, FaultKind, OutputSpec, RunReport, Runtime};
use outboard_tensor::{DType, Shape, Tensor};

use super::rule::{Findings, Rule};
use super::signature;
use crate::schema::{ArgumentType, MAX_ARGUMENTS, Schema};

/// Instructions of one call.
const FUEL: u64 = 4_000_000;

/// What a wrapper does, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Setup,
    Pull(&'static str),
    Publish,
    Destination,
    Cleanup,
}

impl Step {
    fn of(routine: &str) -> Option<Self> {
        Some(match routine {
            "customop_setup" => Self::Setup,
            "customop_next_tensor" => Self::Pull("tensor"),
            "customop_next_scalar" => Self::Pull("scalar"),
            "customop_next_float" => Self::Pull("float"),
            "customop_next_longlong" => Self::Pull("longlong"),
            "customop_next_int" => Self::Pull("int"),
            "customop_return_tensor" => Self::Publish,
            "get_dst_tensor" => Self::Destination,
            "customop_cleanup" => Self::Cleanup,
            _ => return None,
        })
    }

    fn name(self) -> String {
        match self {
            Self::Setup => "customop_setup".to_owned(),
            Self::Pull(kind) => format!("customop_next_{kind}"),
            Self::Publish => "customop_return_tensor".to_owned(),
            Self::Destination => "get_dst_tensor".to_owned(),
            Self::Cleanup => "customop_cleanup".to_owned(),
        }
    }
}

/// One call and how it ended.
struct Call {
    steps: Vec<Step>,
    unpublished: bool,
    ended: Result<(), Box<Error>>,
}

/// What is known of an operation when it was judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// Its name.
    pub name: String,
    /// The routines that pulled its arguments, in order; `None` when the file has no names to follow it by.
    pub pulls: Option<Vec<String>>,
    /// Whether a call of it ended as it should.
    pub completed: bool,
}

/// Judges one operation. `schemas`: those that the caller knows.
pub(super) fn judge(
    runtime: &mut Runtime,
    name: &str,
    schemas: &[Schema],
    place: &str,
    findings: &mut Findings,
) -> Operation {
    let at = format!("{place}: {name}");
    let named = runtime.has_names(0);
    let expected = expected(runtime, name, schemas);
    runtime.set_fuel(FUEL);
    let plain: Vec<Arg> = (0..MAX_ARGUMENTS).filter_map(|_| tensor(&[1], DType::Float32)).map(Arg::from).collect();
    let first = call(runtime, name, &plain, &OutputSpec { dtype: DType::Float32, shape: vec![1] });
    let pulls = pulled(&first.steps);
    let best = match &first.ended {
        Ok(()) => first,
        Err(error) if hopeless(error) => first,
        Err(_) => best(runtime, name, &expected, &pulls, first),
    };
    let before = findings.has_errors();
    if named {
        shape(&best, &expected, &pulls, &at, findings);
    } else {
        unnamed(&best, &at, findings);
    }
    let completed = best.ended.is_ok() && (before || !findings.has_errors());
    let pulls = named.then(|| pulls.iter().map(|pull| Step::Pull(pull).name()).collect());
    Operation { name: name.to_owned(), pulls, completed }
}

/// What the operation takes: by its schema, or by the linker name of its C++ function.
fn expected(runtime: &Runtime, name: &str, schemas: &[Schema]) -> Option<Vec<ArgumentType>> {
    if let Some(schema) = schemas.iter().find(|schema| schema.name == name) {
        return Some(schema.arguments.iter().map(|argument| argument.kind).collect());
    }
    let mut found = runtime.function_names(0).filter_map(|linker| signature::of(linker, name));
    // Overloads leave open which one is the operation.
    found.next().filter(|_| found.next().is_none())
}

/// Whether other arguments would end the same way.
fn hopeless(error: &Error) -> bool {
    match error {
        Error::Device(fault) => rule_of(fault).is_some() || matches!(fault.kind, FaultKind::Fuel { .. }),
        _ => false,
    }
}

/// The first call that ends as it should, or the one that got farthest.
fn best(
    runtime: &mut Runtime,
    name: &str,
    expected: &Option<Vec<ArgumentType>>,
    pulls: &[&'static str],
    first: Call,
) -> Call {
    let kinds: Vec<bool> = match expected {
        Some(kinds) => kinds.iter().map(|kind| *kind == ArgumentType::Tensor).collect(),
        None => pulls.iter().map(|pull| *pull == "tensor").collect(),
    };
    let mut best = first;
    for (dims, dtype) in [
        (&[1][..], DType::Float32),
        (&[16][..], DType::Float32),
        (&[4, 4][..], DType::Float32),
        (&[2, 1][..], DType::Float32),
        (&[16][..], DType::Int32),
        (&[16][..], DType::Int8),
    ] {
        let value = |is_tensor: &bool| {
            if *is_tensor { tensor(dims, dtype).map(Arg::from) } else { Some(Arg::Int(1)) }
        };
        let args: Vec<Arg> = kinds.iter().filter_map(value).collect();
        for (shape, dtype) in [
            (dims.to_vec(), dtype),
            (vec![1], dtype),
            (dims.to_vec(), DType::Int8),
            (dims.to_vec(), DType::Float32),
            (vec![4], dtype),
        ] {
            let next = call(runtime, name, &args, &OutputSpec { dtype, shape });
            if next.ended.is_ok() {
                return next;
            }
            if next.steps.len() > best.steps.len() {
                best = next;
            }
        }
    }
    best
}

/// A tensor of the numbers from 1 on.
fn tensor(dims: &[usize], dtype: DType) -> Option<Tensor> {
    let shape = Shape::new(dims).ok()?;
    let numbers = (1_u8..).take(dims.iter().product());
    let bytes = match dtype {
        DType::Float32 => numbers.flat_map(|n| f32::from(n).to_le_bytes()).collect(),
        DType::Int32 => numbers.flat_map(|n| i32::from(n).to_le_bytes()).collect(),
        _ => numbers.collect(),
    };
    Tensor::new(dtype, shape, bytes).ok()
}

fn call(runtime: &mut Runtime, name: &str, args: &[Arg], output: &OutputSpec) -> Call {
    let mut report = RunReport::default();
    let ended = run(runtime, name, args, output, &mut report);
    // A core that failed was first: the others may not have begun.
    let core = fault_of(&ended).map_or(0, |fault| fault.core);
    let steps = report.routines.iter().filter(|call| call.core == core).filter_map(|call| Step::of(&call.routine));
    let unpublished = report.findings.iter().any(|finding| finding.code == "OB0820");
    Call { steps: without_inner(steps.collect()), unpublished, ended }
}

fn run(
    runtime: &mut Runtime,
    name: &str,
    args: &[Arg],
    output: &OutputSpec,
    report: &mut RunReport,
) -> Result<(), Box<Error>> {
    let mut library = runtime.library().map_err(Box::new)?;
    let op = library.op(name).map_err(Box::new)?;
    op.output(output.clone()).run_into(args, report).map_err(Box::new)?;
    Ok(())
}

/// The fault that ended a call.
fn fault_of(ended: &Result<(), Box<Error>>) -> Option<&DeviceFault> {
    match ended.as_ref().err()?.as_ref() {
        Error::Device(fault) => Some(fault),
        _ => None,
    }
}

/// The runtime's 32-bit pull uses the 64-bit one: together they are one step.
fn without_inner(steps: Vec<Step>) -> Vec<Step> {
    let mut list: Vec<Step> = Vec::with_capacity(steps.len());
    let mut inside = false;
    for step in steps {
        let inner = inside && step == Step::Pull("longlong");
        inside = step == Step::Pull("int");
        if !inner {
            list.push(step);
        }
    }
    list
}

fn pulled(steps: &[Step]) -> Vec<&'static str> {
    steps.iter().filter_map(|step| if let Step::Pull(kind) = step { Some(*kind) } else { None }).collect()
}

/// The rule behind a fault that the runtime names.
fn rule_of(fault: &DeviceFault) -> Option<Rule> {
    match &fault.kind {
        FaultKind::Abort { text } => {
            let rules = [
                ("curr_arg_ < num_args: no result was passed", Rule::Setup),
                ("curr_arg_ < num_args", Rule::Pulls),
                ("customop_setup(true) comes before", Rule::Setup),
                ("STACK_SIZE <= MAX_STACK_SIZE", Rule::Stack),
                ("no room for the stack", Rule::Stack),
                ("unsupported dtype", Rule::ElementType),
                ("Invalid datatype", Rule::ElementType),
            ];
            rules.iter().find(|(part, _)| text.contains(part)).map(|(_, rule)| *rule)
        }
        _ if fault.name() == "stack-limit" => Some(Rule::Stack),
        _ if fault.name() == "flix-bundle" => Some(Rule::Instruction),
        _ => None,
    }
}

/// Compares a call with the shape of a wrapper.
fn shape(call: &Call, expected: &Option<Vec<ArgumentType>>, pulls: &[&'static str], at: &str, findings: &mut Findings) {
    let steps = &call.steps;
    let fault = fault_of(&call.ended);
    let setups = steps.iter().filter(|step| **step == Step::Setup).count();
    match steps.first() {
        Some(Step::Setup) if setups == 1 => {}
        Some(Step::Setup) => {
            findings.error(Rule::Setup, at, format!("calls customop_setup {setups} times: arguments are bound again"));
            return;
        }
        Some(other) => {
            findings.error(Rule::Setup, at, format!("calls {} before customop_setup(true)", other.name()));
            return;
        }
        None => {
            match fault.map(|fault| (fault, rule_of(fault).unwrap_or(Rule::Setup))) {
                Some((fault, rule)) => findings.error(rule, at, format!("fails before customop_setup(true): {fault}")),
                None => findings.error(Rule::Setup, at, "never calls customop_setup(true)"),
            }
            return;
        }
    }
    if let Some(problem) = order(steps, expected.as_deref(), pulls) {
        findings.error(Rule::Pulls, at, problem);
        return;
    }
    if let Some((fault, rule)) = fault.and_then(|fault| Some((fault, rule_of(fault)?))) {
        findings.error(rule, at, fault.to_string());
        return;
    }
    match (&call.ended, fault) {
        (Ok(()), _) => ending(steps, at, findings),
        (Err(_), Some(fault)) if matches!(fault.kind, FaultKind::Abort { .. }) => {
            let message = format!("refuses every argument that it was tried with; how it ends is not known: {fault}");
            findings.warning(Rule::Unjudged, at, message);
        }
        (Err(error), _) => {
            findings.warning(Rule::Fault, at, format!("fails on plain tensors and numbers: {error}"));
        }
    }
}

/// How the pulls differ from the arguments.
fn order(steps: &[Step], expected: Option<&[ArgumentType]>, pulls: &[&'static str]) -> Option<String> {
    let acts = steps.iter().position(|step| matches!(step, Step::Publish | Step::Destination | Step::Cleanup));
    let late = acts.and_then(|acts| steps.iter().skip(acts).find(|step| matches!(step, Step::Pull(_))));
    if let Some(late) = late {
        return Some(format!("calls {} after the operation has begun", late.name()));
    }
    let expected = expected?;
    let fits = |kind: ArgumentType, pull: &str| match kind {
        ArgumentType::Tensor => pull == "tensor",
        ArgumentType::Scalar => pull == "scalar",
        ArgumentType::Float => pull == "float",
        ArgumentType::Int => matches!(pull, "longlong" | "int"),
    };
    let same = expected.len() == pulls.len() && expected.iter().zip(pulls).all(|(kind, pull)| fits(*kind, pull));
    let names = |list: Vec<&str>| if list.is_empty() { "nothing".to_owned() } else { list.join(", ") };
    (!same).then(|| {
        let arguments = expected.iter().map(|kind| kind.name()).collect();
        format!("pulls {}, and the operation takes {}", names(pulls.to_vec()), names(arguments))
    })
}

/// The end of a call that returned.
fn ending(steps: &[Step], at: &str, findings: &mut Findings) {
    let publishes = steps.iter().any(|step| matches!(step, Step::Publish | Step::Destination));
    if !publishes {
        findings.error(Rule::Result, at, "returns and has published no result: the destination keeps its old bytes");
    }
    let cleanup = steps.iter().position(|step| *step == Step::Cleanup);
    match cleanup {
        None => {
            let message = "returns without customop_cleanup(): stores and texts may stay on the core";
            findings.error(Rule::Cleanup, at, message);
        }
        Some(position) => {
            if let Some(late) = steps.get(position + 1) {
                findings.error(Rule::Cleanup, at, format!("calls {} after customop_cleanup()", late.name()));
            }
        }
    }
}

/// What can be said without names of functions.
fn unnamed(call: &Call, at: &str, findings: &mut Findings) {
    if let Some((fault, rule)) = fault_of(&call.ended).and_then(|fault| Some((fault, rule_of(fault)?))) {
        findings.error(rule, at, fault.to_string());
        return;
    }
    match &call.ended {
        Err(error) => findings.warning(Rule::Fault, at, format!("fails on plain tensors and numbers: {error}")),
        Ok(()) if call.unpublished => {
            let message = "returns with stores that it has not made visible: it does not end with customop_cleanup()";
            findings.error(Rule::Cleanup, at, message);
        }
        Ok(()) => {
            let message = "the file has no names of functions: its wrapper ran to its end and was not followed";
            findings.warning(Rule::Unjudged, at, message);
        }
    }
}
