//! The public interface: a pool, a library on it, its operations.

use std::sync::Arc;

use outboard_neff::seq::{
    Arg as Payload, Completion, Dialect, Events, ExtendedInst, Instruction, LoadPoolArgument, ModifyPoolConfig,
    PayloadCount, UPDATE_INCREMENT, encode_chain, load_records,
};
use outboard_tensor::{Shape, Tensor};

use crate::abi::{ARGUMENT_BLOCK, ARGUMENTS, MAX_ARGS};
use crate::argument::{Arg, Described, OutputSpec, block};
use crate::diagnose::{Policy, Region, RegionKind, Rule, Rules, Shadow, Watch, of_fault};
use crate::error::Error;
use crate::fault::DeviceFault;
use crate::firmware::Firmware;
use crate::library::{Files, Library, boot_resident, install, load_fixed, stage_library, start_library};
use crate::pool::{Call, Pool, Schedule};
use crate::print::{PrintOptions, Queues};
use crate::report::{Finding, RoutineCall, RunReport};
use crate::sequencer::{Sequencer, Stream};
use crate::support::{self, Pull, ROUTINES};
use crate::symbols::Symbols;
use crate::target::PoolTarget;

/// Alignment of tensors in HBM.
const TENSOR_ALIGN: u64 = 64;
/// Bytes between tensors, so that an offset that is a little wrong leads to none.
const GUARD: u64 = 0x1_0000;
/// The semaphore that ends an operation.
const DONE: u8 = 1;
/// Index of the library that a runtime loads by itself.
const LIBRARY: u32 = 0;

/// How a pool is made.
#[derive(Debug, Clone, Default)]
pub struct RuntimeOptions {
    /// The hardware.
    pub target: PoolTarget,
    /// In which order cores run.
    pub schedule: Schedule,
    /// Printing.
    pub print: PrintOptions,
    /// Keep transfers and the routines that are called in the report.
    pub trace: bool,
    /// What is looked for while an operation runs.
    pub rules: Rules,
}

/// The engine's code as a caller brings it: what is behind `nrt_set_pool_eng_ucode`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UcodePair {
    /// Goes to the window for code.
    pub iram: Vec<u8>,
    /// Goes to the window for data.
    pub dram: Vec<u8>,
    /// Where the cores start; a pair does not say it.
    pub entry: u32,
}

/// How an operation is named in the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DispatchBy {
    /// 0x85 and 0x86, by the number of the function.
    #[default]
    FunctionId,
    /// 0xF0, by the row of the kernel table.
    KernelTable,
}

/// Whether the runtime is in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Init,
    Running,
    Closed,
}

/// The simulated device: cores, what they share, what runs on them.
#[derive(Debug)]
pub(crate) struct Device {
    pub(crate) pool: Pool,
    pub(crate) firmware: Firmware,
    pub(crate) queues: Queues,
    pub(crate) trace: bool,
    pub(crate) rules: Rules,
    /// What is known of shared memory, while accesses are looked at.
    shadow: Option<Arc<Shadow>>,
    /// The host's tensors of the operation that comes next.
    pub(crate) tensors: Vec<HostTensor>,
    library: Option<Library>,
}

/// A tensor of the host in shared memory.
#[derive(Debug, Clone)]
pub(crate) struct HostTensor {
    pub(crate) kind: RegionKind,
    pub(crate) name: String,
    pub(crate) address: u64,
    pub(crate) size: u64,
}

impl Device {
    pub(crate) fn library(&self) -> Result<&Library, Error> {
        self.library.as_ref().ok_or(Error::NoLibrary)
    }

    pub(crate) fn unload(&mut self) {
        self.library = None;
    }

    /// Has every access of every core looked at.
    fn watch(&mut self) {
        let target = Arc::clone(&self.pool.bus.target);
        let base = target.soc.hbm_base;
        let shadow = Arc::new(Shadow::new((base + target.hbm.tensors, base + target.hbm.staging)));
        self.pool.cores.iter_mut().for_each(|core| core.diagnose(&shadow, &target));
        self.shadow = Some(shadow);
    }

    /// Makes a library the one that instructions refer to.
    pub(crate) fn set_library(&mut self, library: Library) {
        for (core, symbols) in self.pool.cores.iter_mut().zip(&library.symbols) {
            let wanted =
                |name: &str| if self.trace { support::readable(name).is_some() } else { support::pull(name).is_some() };
            core.watch(symbols.iter().filter(|f| wanted(&f.name)).map(|f| f.address).collect());
        }
        self.library = Some(library);
    }

    /// Runs one function on all cores of the library, with these arguments.
    pub(crate) fn dispatch(
        &mut self,
        addresses: &[u32],
        block: &[u8; ARGUMENT_BLOCK],
        schema: &[Pull],
        report: &mut RunReport,
    ) -> Result<(), Error> {
        let library = self.library()?;
        let (mask, bases) = (library.mask, library.firmware.clone());
        let at = self.pool.bus.target.local.scratch.address + ARGUMENTS;
        install(&mut self.pool, mask, &[(at.into(), block)])?;
        let call = |core: usize| {
            let entry = self.firmware.routine(*bases.get(core)?, "dispatch");
            (mask >> core & 1 == 1).then_some(Call { entry, function: *addresses.get(core)?, argument: 0 })
        };
        let calls: Vec<Option<Call>> = (0..self.pool.cores.len()).map(call).collect();
        self.begin(mask);
        let outcome = self.pool.run(&calls);
        self.account(mask, schema, outcome.is_ok(), report);
        let mut found = self.diagnosed(outcome.as_ref().err().map(AsRef::as_ref));
        report.findings.append(&mut found);
        report.findings = judged(std::mem::take(&mut report.findings), &self.rules);
        if let Err(fault) = outcome {
            // What was printed before helps to understand it.
            let _ = self.queues.consume(&self.pool.bus, &mut report.printed);
            return Err(Error::Device(fault));
        }
        Ok(())
    }

    /// Tells the diagnosis that an operation begins.
    fn begin(&mut self, mask: u8) {
        let Some(shadow) = &self.shadow else { return };
        let region = |t: &HostTensor| Region::new(t.kind, t.name.clone(), t.address, t.size);
        shadow.begin(self.tensors.iter().map(region).collect());
        for core in &mut self.pool.cores {
            core.observer.begin(mask.count_ones() > 1);
            core.memory().watch().into_iter().for_each(Watch::begin);
        }
    }

    /// What the diagnosis noticed, and what a fault says.
    fn diagnosed(&mut self, fault: Option<&DeviceFault>) -> Vec<Finding> {
        let mut found: Vec<Finding> = self.pool.cores.iter_mut().flat_map(|core| core.observer.take()).collect();
        let shadow = self.shadow.as_ref();
        match fault {
            Some(fault) => {
                let symbols = self.pool.cores.get(fault.core).map(|core| Arc::clone(&core.symbols)).unwrap_or_default();
                let low = |address| Some(shadow?.find_low(address)?.name.clone());
                found.extend(of_fault(fault, &symbols, low));
            }
            None => {
                let violations = shadow.map(|shadow| shadow.unwritten()).unwrap_or_default();
                found.extend(violations.into_iter().map(|v| Finding::new(v.rule, 0, v.message)));
            }
        }
        found
    }

    /// Collects what the cores did and what is to be noticed.
    fn account(&mut self, mask: u8, schema: &[Pull], ended: bool, report: &mut RunReport) {
        let target = Arc::clone(&self.pool.bus.target);
        let (first, size) = target.hbm.scratch;
        let mut reports = Vec::new();
        for core in self.pool.cores.iter_mut().filter(|core| mask >> core.index & 1 == 1) {
            let own = target.soc.hbm_base + first + size * core.index as u64;
            let done = core.finish((own, own + size));
            if done.unpublished > 0 {
                let message = format!(
                    "{} bytes were stored through windows and never made visible: the wrapper must end with customop_cleanup() (or \
                     execute memw); the result has the old bytes",
                    done.unpublished
                );
                report.findings.push(Finding::new(Rule::MissingCleanup, core.index, message));
            } else if ended && core.observer.was_left() {
                let message = "the operation ended without customop_cleanup(): on a device its stores, and what it printed, may not be seen";
                report.findings.push(Finding::new(Rule::MissingCleanup, core.index, message.to_owned()));
            }
            let symbols = Arc::clone(&core.symbols);
            report.findings.extend(pulls(core.index, &core.visited, &symbols, schema));
            if self.trace {
                report.routines.extend(routines(core.index, &core.visited, &symbols));
            }
            reports.push(done);
        }
        report.add(&reports);
    }
}

/// The findings that the caller wants, each once for a place (or a core, where there is none), in an order of their own.
fn judged(mut findings: Vec<Finding>, rules: &Rules) -> Vec<Finding> {
    let policy = |finding: &Finding| finding.code.parse().map_or(Policy::Report, |rule| rules.policy(rule));
    findings.retain(|finding| policy(finding) != Policy::Allow);
    findings.iter_mut().for_each(|finding| finding.error = policy(finding) == Policy::Deny);
    // Cores may have programs of their own, at addresses of their own: the function says what is the same place.
    let place = |f: &Finding| (f.code, f.function.clone(), f.offset, if f.function.is_some() { None } else { f.pc });
    findings.sort_by_cached_key(|f| (place(f), f.core, f.message.clone()));
    findings.dedup_by(|a, b| place(a) == place(b) && (a.pc.is_some() || a.core == b.core));
    findings
}

/// Pulls whose kind differs from what was passed.
fn pulls(core: usize, visited: &[u32], symbols: &Symbols, schema: &[Pull]) -> Vec<Finding> {
    let pull = |pc: &u32| symbols.names_at(*pc).find_map(|name| Some((support::readable(name)?, support::pull(name)?)));
    let pulled = visited.iter().filter_map(pull);
    let wrong = pulled.zip(schema).enumerate().filter(|(_, ((_, pull), passed))| pull != *passed);
    wrong
        .map(|(index, ((name, _), passed))| {
            let what = if *passed == Pull::Tensor { "a tensor" } else { "a number" };
            let message = format!("argument {index} is {what}, and the wrapper pulls it with {name}()");
            Finding::new(Rule::PullKind, core, message)
        })
        .collect()
}

fn routines(core: usize, visited: &[u32], symbols: &Symbols) -> Vec<RoutineCall> {
    let call = |pc: &u32| {
        let routine = symbols.names_at(*pc).find_map(support::readable)?.to_owned();
        Some(RoutineCall { core, routine, pc: *pc })
    };
    visited.iter().filter_map(call).collect()
}

/// A pool of simulated cores, and the host's side of it.
///
/// ```
/// use outboard_device_build::DeviceBuild;
/// use outboard_gpsimd::{Arg, Runtime, RuntimeOptions};
/// use outboard_tensor::{Shape, Tensor};
///
/// let mut runtime = Runtime::new(RuntimeOptions::default())?;
/// // device/ops/relu.rs and the runtime, as `outboard link --shape pi` makes a library of them.
/// let file = DeviceBuild::default().resident_op("relu", runtime.target().bounds())?;
/// let mut library = runtime.load(&[&file.image])?;
/// let x = Tensor::from_values(Shape::new(&[4])?, &[-1.0_f32, 2.0, -3.0, 4.0])?;
/// let y = library.op("relu_forward")?.call(&[Arg::from(x)])?;
/// assert_eq!(y.values::<f32>().unwrap(), [0.0, 2.0, 0.0, 4.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Runtime {
    pub(crate) device: Device,
    pub(crate) staging: u64,
    state: State,
}

impl Runtime {
    /// A pool with nothing on it.
    ///
    /// # Errors
    /// The options contradict themselves.
    pub fn new(options: RuntimeOptions) -> Result<Self, Error> {
        if let Some(problem) = options.print.problem() {
            return Err(Error::Binding(problem));
        }
        if let Some(problem) = options.target.problem() {
            return Err(Error::Binding(problem));
        }
        let firmware = Firmware::assemble(&options.target);
        let staging = options.target.soc.hbm_base + options.target.hbm.staging;
        let pool = Pool::new(Arc::new(options.target), options.schedule);
        let queues = Queues::create(&pool.bus, options.print)?;
        let mut device = Device {
            pool,
            firmware,
            queues,
            trace: options.trace,
            rules: options.rules,
            shadow: None,
            tensors: Vec::new(),
            library: None,
        };
        if device.rules.watching() {
            device.watch();
        }
        Ok(Self { device, staging, state: State::Init })
    }

    /// The hardware.
    pub fn target(&self) -> &PoolTarget {
        &self.device.pool.bus.target
    }

    /// In which order cores run from now on.
    pub fn set_schedule(&mut self, schedule: Schedule) {
        self.device.pool.schedule = schedule;
    }

    /// Instructions that a core may execute in one dispatch from now on.
    pub fn set_fuel(&mut self, fuel: u64) {
        self.device.pool.fuel = fuel;
    }

    /// Bytes of shared memory that were written so far.
    pub fn resident_bytes(&self) -> u64 {
        self.device.pool.bus.resident()
    }

    /// Loads a library as a resident one: a PI file is prelinked, staged and loaded by an instruction of the sequencer; the
    /// files of a fixed-load library (one for each core) are copied to their places. A library that is there is replaced.
    ///
    /// # Errors
    /// The files do not fit the pool, or the library refuses to start; nothing is loaded then.
    pub fn load(&mut self, files: &[&[u8]]) -> Result<LoadedLibrary<'_>, Error> {
        self.state = State::Running;
        let cores = self.device.pool.cores.len();
        let files = Files::of(files, cores)?;
        self.device.unload();
        let mut report = RunReport::default();
        match files {
            Files::Pi(file) => {
                let staged = stage_library(&self.device.pool, file, self.staging)?;
                let config = ModifyPoolConfig::load(staged.address, LIBRARY, staged.size as u32);
                let mut record = [0; 64];
                // The buffer is aligned and large enough for the one record of an own core.
                load_records(&config, true, 0, &mut record)
                    .map_err(|error| Error::Binding(format!("load record: {error}")))?;
                let stream = Stream { staged: [(LIBRARY, staged)].into(), ..Stream::default() };
                Sequencer::new(&mut self.device, &stream, &mut report).run(&record)?;
            }
            Files::Fll(images) => {
                let queues = self.device.queues;
                let blocks = move |core| queues.blocks(core);
                let library = load_fixed(&mut self.device.pool, &self.device.firmware, &images, &blocks)?;
                self.device.set_library(library);
            }
        }
        self.device.queues.consume(&self.device.pool.bus, &mut report.printed)?;
        Ok(LoadedLibrary { runtime: self, boot: report })
    }

    /// Replaces the engine's code by a pair of memory images: data first, then code, into all cores, without prelinking and
    /// without any check of what they are.
    ///
    /// # Errors
    /// [`Error::State`] with the runtime's status 0xD after a library was loaded, 0xE after [`Runtime::close`].
    pub fn set_pool_eng_ucode(&mut self, pair: &UcodePair) -> Result<LoadedLibrary<'_>, Error> {
        match self.state {
            State::Init => {}
            State::Running => return Err(Error::State { status: 0xd, state: "it is initialised" }),
            State::Closed => return Err(Error::State { status: 0xe, state: "it is closed" }),
        }
        let bounds = *self.device.pool.bus.target.bounds();
        let cores = self.device.pool.cores.len();
        let all = u8::try_from((1_u32 << cores) - 1).unwrap_or(u8::MAX);
        let parts = [(bounds.data_base, pair.dram.as_slice()), (bounds.code_base, pair.iram.as_slice())];
        install(&mut self.device.pool, all, &parts)?;
        let queues = self.device.queues;
        let blocks = move |core| queues.blocks(core);
        boot_resident(&mut self.device.pool, &self.device.firmware, all, &blocks)?;
        let base = self.device.pool.bus.target.iram().address;
        let symbols = vec![Arc::default(); cores];
        let (bases, entries) = (vec![base; cores], vec![pair.entry; cores]);
        let library = start_library(&mut self.device.pool, &self.device.firmware, bases, entries, all, symbols, None)?;
        self.device.set_library(library);
        self.state = State::Running;
        Ok(LoadedLibrary { runtime: self, boot: RunReport::default() })
    }

    /// Executes instructions of the pool engine (64 bytes each) as they are, on the library that is loaded. Addresses in them
    /// are the caller's business: [`Runtime::write_memory`] and [`Runtime::read_memory`] reach the same memory.
    ///
    /// # Errors
    /// An instruction cannot be executed, or the device fails.
    pub fn execute(&mut self, stream: &[u8]) -> Result<RunReport, Error> {
        let mut report = RunReport::default();
        Sequencer::new(&mut self.device, &Stream::default(), &mut report).run(stream)?;
        Ok(report)
    }

    /// Writes bytes at an address of the device.
    ///
    /// # Errors
    /// There is no memory, or not that much.
    pub fn write_memory(&self, address: u64, bytes: &[u8]) -> Result<(), Error> {
        Ok(self.device.pool.bus.write(address, bytes)?)
    }

    /// Reads bytes at an address of the device.
    ///
    /// # Errors
    /// There is no memory, or not that much.
    pub fn read_memory(&self, address: u64, bytes: &mut [u8]) -> Result<(), Error> {
        Ok(self.device.pool.bus.read(address, bytes)?)
    }

    /// The library that is loaded.
    ///
    /// # Errors
    /// There is none.
    pub fn library(&mut self) -> Result<LoadedLibrary<'_>, Error> {
        self.device.library()?;
        Ok(LoadedLibrary { runtime: self, boot: RunReport::default() })
    }

    /// Unloads the library.
    pub fn unload(&mut self) {
        self.device.unload();
    }

    /// Ends the runtime: nothing can be set any more.
    pub fn close(&mut self) {
        self.device.unload();
        self.state = State::Closed;
    }

    /// Window registers of a core, and the heap descriptions in its scratch space: what dispatches must leave as it was.
    ///
    /// # Errors
    /// The core does not exist or its memory cannot be read.
    pub fn core_state(&mut self, core: usize) -> Result<CoreState, Error> {
        let target = Arc::clone(&self.device.pool.bus.target);
        let missing = || Error::Binding(format!("core {core} does not exist"));
        let found = self.device.pool.cores.get_mut(core).ok_or_else(missing)?;
        let mut heaps = vec![0; 0x408];
        let unreadable = |error: outboard_xtensa::engine::MemoryError| Error::Binding(error.to_string());
        found.memory().peek(target.local.scratch.address + 0x228, &mut heaps).map_err(unreadable)?;
        Ok(CoreState { windows: found.memory().window_registers(), heaps })
    }
}

/// What a core keeps between dispatches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CoreState {
    /// What the window registers show.
    pub windows: [u64; 8],
    /// The block descriptions of the heaps in HBM and in data memory.
    pub heaps: Vec<u8>,
}

/// A library on a pool.
#[derive(Debug)]
pub struct LoadedLibrary<'r> {
    runtime: &'r mut Runtime,
    boot: RunReport,
}

impl LoadedLibrary<'_> {
    /// What happened while it was loaded.
    pub fn boot_report(&self) -> &RunReport {
        &self.boot
    }

    /// The names of its functions in the order of their numbers.
    pub fn functions(&self) -> Vec<String> {
        let functions = self.runtime.device.library().map(|library| library.functions.as_slice()).unwrap_or_default();
        functions.iter().map(|function| function.name.clone()).collect()
    }

    /// One of its functions.
    ///
    /// # Errors
    /// There is none with this name.
    pub fn op(&mut self, name: &str) -> Result<Op<'_>, Error> {
        let known = self.functions();
        match known.iter().position(|function| function == name) {
            // The firmware's table has 97 rows.
            Some(number) => {
                Ok(Op { runtime: self.runtime, number: number as u8, output: None, by: DispatchBy::default() })
            }
            None => Err(Error::UnknownOp { name: name.to_owned(), known }),
        }
    }
}

/// A result and what its computation did.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// The result.
    pub result: Tensor,
    /// What happened.
    pub report: RunReport,
}

/// An operation that can be called.
#[derive(Debug)]
pub struct Op<'r> {
    runtime: &'r mut Runtime,
    number: u8,
    output: Option<OutputSpec>,
    by: DispatchBy,
}

impl Op<'_> {
    /// What the result looks like; without this, like the first tensor that is passed.
    #[must_use]
    pub fn output(mut self, spec: OutputSpec) -> Self {
        self.output = Some(spec);
        self
    }

    /// How it is named in the stream.
    #[must_use]
    pub fn dispatch_by(mut self, by: DispatchBy) -> Self {
        self.by = by;
        self
    }

    /// Calls it and returns the result.
    ///
    /// # Errors
    /// An argument is refused before anything runs, or the device fails.
    pub fn call(&mut self, args: &[Arg]) -> Result<Tensor, Error> {
        self.run(args).map(|outcome| outcome.result)
    }

    /// Calls it and returns the result with what happened.
    ///
    /// # Errors
    /// As for [`Op::call`].
    pub fn run(&mut self, args: &[Arg]) -> Result<Outcome, Error> {
        let mut report = RunReport::default();
        let result = self.run_into(args, &mut report)?;
        Ok(Outcome { result, report })
    }

    /// As [`Op::run`]; `report` tells what happened even when the device fails.
    ///
    /// # Errors
    /// As for [`Op::call`].
    pub fn run_into(&mut self, args: &[Arg], report: &mut RunReport) -> Result<Tensor, Error> {
        let target = Arc::clone(&self.runtime.device.pool.bus.target);
        let counted = args.len() + usize::from(target.dispatch.output_uses_a_slot);
        if counted > MAX_ARGS {
            return Err(Error::ArgumentCount { given: args.len() + 1, max: MAX_ARGS });
        }
        let output = self.output_spec(args)?;
        let described = Described::new(args.len(), output.dtype, &output.shape)?;
        if nothing_to_compute(&described, args)? {
            report.log.push("the result has no elements: nothing was dispatched".to_owned());
            return tensor(&output, Vec::new());
        }
        let mut next = target.soc.hbm_base + target.hbm.tensors;
        let end = target.soc.hbm_base + target.hbm.staging;
        let mut place = |index: usize, bytes: u64| -> Result<u64, Error> {
            let at = next;
            next = (next + bytes + GUARD).next_multiple_of(TENSOR_ALIGN);
            if next > end {
                let problem = format!("{bytes:#x} bytes do not fit into the memory for tensors");
                return Err(Error::Argument { index, problem });
            }
            Ok(at)
        };
        let result_at = place(args.len(), described.bytes())?;
        let mut payloads = vec![Payload::Tensor(described.record(result_at))];
        let tensor_at = |kind, name: &str, address, size| HostTensor { kind, name: name.to_owned(), address, size };
        let mut tensors = vec![tensor_at(RegionKind::Result, "the result", result_at, described.bytes())];
        let mut contents = Vec::new();
        for (index, arg) in args.iter().enumerate() {
            let (description, bytes) = arg.describe(index)?;
            let at = place(index, description.bytes())?;
            payloads.push(Payload::Tensor(description.record(at)));
            tensors.push(tensor_at(RegionKind::Operand, &format!("argument {index}"), at, description.bytes()));
            contents.push((at, bytes));
        }
        let table_at = place(args.len(), ARGUMENT_BLOCK as u64)?;
        let bus = Arc::clone(&self.runtime.device.pool.bus);
        let bytes = usize::try_from(described.bytes()).unwrap_or(usize::MAX);
        bus.write(result_at, &vec![0; bytes])?;
        for (at, bytes) in &contents {
            bus.write(*at, bytes)?;
        }
        let stream = match self.by {
            DispatchBy::FunctionId => self.by_number(&payloads),
            DispatchBy::KernelTable => {
                bus.write(table_at, &block(&payloads))?;
                self.by_kernel(table_at)?
            }
        };
        let kind = |arg: &Arg| if matches!(arg, Arg::Tensor(_)) { Pull::Tensor } else { Pull::Number };
        self.runtime.device.tensors = tensors;
        let context = Stream { schema: args.iter().map(kind).collect(), ..Stream::default() };
        Sequencer::new(&mut self.runtime.device, &context, report).run(&stream)?;
        if report.notifications.is_empty() {
            return Err(Error::NoNotification);
        }
        let mut result = vec![0; bytes];
        bus.read(result_at, &mut result)?;
        tensor(&output, result)
    }

    fn output_spec(&self, args: &[Arg]) -> Result<OutputSpec, Error> {
        if let Some(output) = &self.output {
            return Ok(output.clone());
        }
        let first = args.iter().find_map(|arg| match arg {
            Arg::Tensor(tensor) => Some(OutputSpec { dtype: tensor.dtype(), shape: tensor.shape().dims().to_vec() }),
            _ => None,
        });
        let problem = "no tensor is passed that the result could look like: state its shape and element type";
        first.ok_or_else(|| Error::Argument { index: args.len(), problem: problem.to_owned() })
    }

    /// The stream that calls a function by its number.
    fn by_number(&self, payloads: &[Payload]) -> Vec<u8> {
        let (outputs, inputs) = payloads.split_at(payloads.len().min(1));
        let mut slots = encode_chain(self.number, outputs, inputs, PayloadCount::Compiler);
        slots.push(done());
        slots.concat()
    }

    /// The stream that calls a function by its row in the kernel table.
    fn by_kernel(&mut self, table: u64) -> Result<Vec<u8>, Error> {
        let spec = self.spec()?;
        let immediates = [table as u32, (table >> 32) as u32, 0, 0, 0, 0, 0, 0];
        let load = Instruction::LoadPoolArgument(LoadPoolArgument { pointers: 0, immediates });
        let inst = ExtendedInst { extended_opcode: spec, completion: Completion::default(), payload: [0; 50] };
        let drain = Instruction::Other { opcode: 0xa2, body: vec![0; 52] };
        Ok([load.encode(), Instruction::Extended(inst).encode(), drain.encode(), done()].concat())
    }

    /// The extended opcode whose row names this function.
    fn spec(&mut self) -> Result<u8, Error> {
        let device = &mut self.runtime.device;
        let library = device.library()?;
        let function = library.functions.get(usize::from(self.number));
        let wanted = function.and_then(|function| function.addresses.first().copied()).unwrap_or(0);
        let name = function.map(|function| function.name.clone()).unwrap_or_default();
        let missing = || Error::UnknownOp { name: format!("{name} (in the kernel table)"), known: Vec::new() };
        let table = library.kernels.ok_or_else(missing)?;
        let mut rows = vec![0; table.size as usize];
        let core = device.pool.cores.first_mut().ok_or(Error::NoLibrary)?;
        core.memory().peek(table.address, &mut rows).map_err(|_| missing())?;
        let rows = rows.as_chunks::<8>().0.iter();
        let mut found =
            rows.filter(|row| row[3] == 0xf0 && u32::from_le_bytes([row[4], row[5], row[6], row[7]]) == wanted);
        found.next().map(|row| row[2]).ok_or_else(missing)
    }
}

/// Whether the result is empty, and with it known. The argument's record cannot say that a dimension is 0, which ends a shape
/// there; so an empty operand of anything else is refused.
fn nothing_to_compute(result: &Described, args: &[Arg]) -> Result<bool, Error> {
    for (index, arg) in args.iter().enumerate() {
        let Arg::Tensor(tensor) = arg else { continue };
        let operand = Described::new(index, tensor.dtype(), tensor.shape().dims())?;
        if operand.is_empty() && !result.is_empty() {
            let problem = "an empty tensor cannot be described to the device, where a dimension of 0 ends a shape: it is allowed \
                           only when the result is empty, too";
            return Err(Error::Argument { index, problem: problem.to_owned() });
        }
    }
    Ok(result.is_empty())
}

/// The instruction that tells the host that an operation is done.
fn done() -> [u8; 64] {
    let events = Events { update_mode: UPDATE_INCREMENT, update_index: DONE, ..Events::default() };
    Instruction::EventSemaphore.encode_with(&events, Dialect::V2)
}

/// A tensor from what the device wrote.
pub(crate) fn tensor(output: &OutputSpec, bytes: Vec<u8>) -> Result<Tensor, Error> {
    let shape = Shape::new(&output.shape).map_err(|error| Error::Binding(error.to_string()))?;
    Tensor::new(output.dtype, shape, bytes).map_err(|error| Error::Binding(error.to_string()))
}

/// The routines of the device runtime: what C++ calls them and their linker names.
pub fn support_routines() -> impl Iterator<Item = (&'static str, &'static str)> {
    ROUTINES.iter().map(|(linker, readable)| (*readable, *linker))
}
