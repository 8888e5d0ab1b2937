//! One core from outside: what it takes and gives back, and what it was held up for, as findings with a place.

use std::collections::BTreeMap;

use outboard_xtensa::engine::{Cause, Engine, Frame, FrameKind};

use super::watch::Noticed;
use super::{Region, RegionKind, Rule, Violation};
use crate::fault::{DeviceFault, FaultKind, Place};
use crate::memory::CoreMemory;
use crate::report::Finding;
use crate::support;
use crate::symbols::Symbols;

/// Most findings of a core in one dispatch.
const MOST: usize = 256;

/// A routine of the runtime that diagnosis listens to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hook {
    HbmTake,
    HbmGive,
    TcmTake,
    TcmGive,
    ResultView,
    ReturnTensor,
    Setup,
    Cleanup,
    Stream,
}

const HOOKS: [(&str, Hook); 9] = [
    ("_Z19neuron_hbm_allocatejPyj", Hook::HbmTake),
    ("_Z21neuron_hbm_deallocatey", Hook::HbmGive),
    ("_Z23neuron_dataram_allocatejPPvj", Hook::TcmTake),
    ("_Z25neuron_dataram_deallocatePv", Hook::TcmGive),
    ("_Z14get_dst_tensorv", Hook::ResultView),
    ("_Z22customop_return_tensorRN2at6TensorE", Hook::ReturnTensor),
    ("_Z14customop_setupb", Hook::Setup),
    ("_Z16customop_cleanupv", Hook::Cleanup),
    ("_outboard_stream", Hook::Stream),
];

/// Routines that take memory for a stack.
const STACKS: [&str; 2] = ["allocate_hbm_stack", "switch_stack_or_call_wrapper"];

/// A call whose result is awaited.
#[derive(Debug)]
struct Pending {
    hook: Hook,
    back: u32,
    stack: u32,
    /// Size, and where the result goes.
    size: u32,
    out: u32,
}

/// What is known of one core.
#[derive(Debug, Default)]
pub(crate) struct Observer {
    hooks: BTreeMap<u32, Hook>,
    pending: Vec<Pending>,
    findings: Vec<Finding>,
    took_view: bool,
    /// It set up an operation that it has not cleaned up after.
    in_operation: bool,
    several_cores: bool,
}

impl Observer {
    /// Where it listens now.
    pub(crate) fn hooked(&self) -> Vec<u32> {
        self.hooks.keys().copied().collect()
    }

    /// Listens to this program's routines from now on; returns where to stop the core.
    pub(crate) fn listen(&mut self, symbols: &Symbols) -> Vec<u32> {
        let hook = |name: &str| HOOKS.iter().find(|(hooked, _)| *hooked == name).map(|(_, hook)| *hook);
        self.hooks = symbols.iter().filter_map(|f| Some((f.address, hook(&f.name)?))).collect();
        self.hooked()
    }

    /// A new dispatch.
    pub(crate) fn begin(&mut self, several_cores: bool) {
        self.pending.clear();
        self.findings.clear();
        self.took_view = false;
        self.in_operation = false;
        self.several_cores = several_cores;
    }

    /// What was noticed.
    pub(crate) fn take(&mut self) -> Vec<Finding> {
        std::mem::take(&mut self.findings)
    }

    /// The core is at a breakpoint.
    pub(crate) fn stopped(&mut self, engine: &mut Engine<CoreMemory>, core: usize, symbols: &Symbols) {
        let (pc, stack) = (engine.pc(), engine.ar(1));
        while let Some(at) = self.pending.iter().position(|call| call.back == pc && call.stack == stack) {
            let call = self.pending.swap_remove(at);
            if !self.pending.iter().any(|other| other.back == pc) && !self.hooks.contains_key(&pc) {
                engine.remove_breakpoint(pc);
            }
            taken(engine, core, &call);
        }
        let Some(hook) = self.hooks.get(&pc).copied() else { return };
        // Before ENTRY, the caller's registers are seen: a call8 leaves the return address in a8, arguments from a10 on.
        let (back, first, second) = (engine.ar(8), engine.ar(10), engine.ar(11));
        match hook {
            Hook::HbmTake | Hook::TcmTake => {
                let back = return_address(back, pc);
                let caller = symbols.around(back.wrapping_sub(1)).map_or("", |function| function.name.as_str());
                // A stack is no memory of the kernel's.
                if !STACKS.iter().any(|name| caller.contains(name)) {
                    engine.add_breakpoint(back);
                    self.pending.push(Pending { hook, back, stack, size: first, out: second });
                }
            }
            Hook::HbmGive => {
                let address = u64::from(first) | u64::from(second) << 32;
                engine.memory_mut().watch().into_iter().for_each(|watch| watch.shadow.give_back(address));
            }
            Hook::TcmGive => {
                engine.memory_mut().watch().into_iter().for_each(|watch| watch.tcm.give_back(first));
            }
            Hook::ResultView => self.took_view = true,
            Hook::ReturnTensor if self.several_cores && !self.took_view => {
                let frames = callers(engine);
                let message = "the kernel returns a tensor of its own on several cores: each copies all of it into the result, \
                               in any order; take the result with get_dst_tensor() and write each core's part into it";
                self.add(Rule::ResultView, core, message.to_owned(), &frames, symbols, false);
            }
            Hook::ReturnTensor => {}
            Hook::Setup => self.in_operation = true,
            Hook::Cleanup => self.in_operation = false,
            Hook::Stream => {
                let address = u64::from(first) | u64::from(second) << 32;
                let region = engine.memory_mut().watch().and_then(|watch| watch.shadow.find(address));
                let frames = callers(engine);
                region.into_iter().for_each(|region| self.element(&region, core, &frames, symbols, false));
            }
        }
    }

    /// The core is held up before an access.
    pub(crate) fn noticed(
        &mut self,
        engine: &mut Engine<CoreMemory>,
        core: usize,
        frames: &[Frame],
        symbols: &Symbols,
    ) {
        let Some(watch) = engine.memory_mut().watch() else { return };
        let function = |frame: &Frame, back: u32| symbols.around(frame.pc.wrapping_sub(back));
        let innermost = frames.first().and_then(|frame| function(frame, 0));
        let of_runtime = innermost.is_some_and(|function| support::is_runtime(&function.name));
        let copies = frames.iter().skip(1).chain(frames.first()).any(|frame| {
            let name = function(frame, 1).map_or("", |function| function.name.as_str());
            name.contains("UTensor4copy") || name.contains("customop_return_tensor")
        });
        for noticed in watch.take() {
            match noticed {
                Noticed::Direct(_) if of_runtime => watch.was_runtime(),
                Noticed::Direct(region) => self.element(&region, core, frames, symbols, true),
                // Said once, when the tensor is returned.
                Noticed::Violation(Violation { rule: Rule::Race, .. }) if copies => {}
                Noticed::Violation(Violation { rule, message }) => {
                    self.add(rule, core, message, frames, symbols, true);
                }
            }
        }
    }

    /// A core goes through the elements of a tensor.
    fn element(&mut self, region: &Region, core: usize, frames: &[Frame], symbols: &Symbols, exact: bool) {
        let others = region.note_direct(core);
        if others && self.several_cores && region.kind != RegionKind::Allocation {
            let message = format!(
                "elements of {} are accessed one by one on several cores; accessors and streams are for one core: their caches are \
                 not coherent. Use tcm_accessor() and move blocks",
                region.name
            );
            self.add(Rule::SharedAccessor, core, message, frames, symbols, exact);
        }
    }

    /// Whether the operation has ended without customop_cleanup().
    pub(crate) fn was_left(&self) -> bool {
        self.in_operation
    }

    /// A finding at the innermost place that is not the runtime's own. The first of `frames` is the instruction itself when
    /// `exact`, else a return address.
    fn add(&mut self, rule: Rule, core: usize, message: String, frames: &[Frame], symbols: &Symbols, exact: bool) {
        let looked_up =
            |index: usize, frame: &Frame| if index == 0 && exact { frame.pc } else { frame.pc.wrapping_sub(1) };
        let of_kernel = |(index, frame): &(usize, &Frame)| {
            symbols.around(looked_up(*index, frame)).is_some_and(|function| !support::is_library(&function.name))
        };
        let found = frames.iter().enumerate().find(of_kernel).or_else(|| frames.iter().enumerate().next());
        let pc = found.map(|(index, frame)| looked_up(index, frame));
        let known = |finding: &Finding| finding.code == rule.code() && finding.pc == pc;
        if self.findings.len() < MOST && !self.findings.iter().any(known) {
            self.findings.push(Finding::new(rule, core, message).at(pc, symbols));
        }
    }
}

/// Where a call8 to `pc` that left this in a8 goes on.
const fn return_address(a8: u32, pc: u32) -> u32 {
    a8 & 0x3fff_ffff | pc & 0xc000_0000
}

/// The callers of a routine that is about to begin, as return addresses, innermost first.
fn callers(engine: &mut Engine<CoreMemory>) -> Vec<Frame> {
    // Before ENTRY, the registers are the caller's: the engine's second frame is the caller's own caller.
    let back = return_address(engine.ar(8), engine.pc());
    let mut frames = engine.backtrace();
    if let Some(first) = frames.first_mut() {
        *first = Frame { pc: back, stack_pointer: engine.ar(1), kind: FrameKind::Window };
    }
    frames
}

/// A heap has answered.
fn taken(engine: &mut Engine<CoreMemory>, core: usize, call: &Pending) {
    if engine.ar(10) != 0 {
        return;
    }
    let mut bytes = [0; 8];
    if engine.memory_mut().peek(call.out, &mut bytes).is_err() {
        return;
    }
    let address = u64::from_le_bytes(bytes);
    let Some(watch) = engine.memory_mut().watch() else { return };
    if call.hook == Hook::HbmTake {
        let name = format!("the tensor of {} bytes that core {core} made", call.size);
        watch.shadow.take(Region::new(RegionKind::Allocation, name, address, call.size.into()));
    } else {
        watch.tcm.take(address as u32, call.size);
    }
}

/// What a fault says about the kernel beyond that it ended.
pub(crate) fn of_fault(
    fault: &DeviceFault,
    symbols: &Symbols,
    low: impl FnOnce(u32) -> Option<String>,
) -> Option<Finding> {
    let (rule, message) = match &fault.kind {
        FaultKind::Abort { text } if text.contains("Invalid datatype") || text.contains("unsupported dtype") => (
            Rule::ElementType,
            format!("{text}: the device has uint8, int8, int16, int32, int64, float16, bfloat16 and float32"),
        ),
        FaultKind::Abort { text } if text.contains("isa_to_torch_dtype") => (
            Rule::ElementType,
            format!("{text}: the tensor that the kernel returns has another element type than the result"),
        ),
        FaultKind::Core { cause: Cause::StackLimit { pointer, limit }, .. } => (
            Rule::StackOverflow,
            format!(
                "the stack pointer {pointer:#x} is {} bytes below the end of the stack, {} calls deep; build with a larger \
                 --stack-size, or recurse less",
                limit.saturating_sub(*pointer),
                fault.backtrace.len()
            ),
        ),
        FaultKind::Core { cause: Cause::Bundle { format }, .. } => (
            Rule::Flix,
            format!(
                "a bundle of the vector unit ({}): nothing public says what it does, so it is not executed",
                format.name()
            ),
        ),
        FaultKind::Core { detail: Some(detail), .. } if detail.contains("leaves the window") => {
            (Rule::WindowEnd, detail.clone())
        }
        FaultKind::Core { cause: Cause::Memory(error), .. } => {
            let region = low(error.address())?;
            let message = format!(
                "address {:#x} is the low half of an address in {region}: memory in HBM is seen through windows; translate it with \
                 neuron_translate(), or move it with neuron_memcpy()",
                error.address()
            );
            (Rule::Untranslated, message)
        }
        _ => return None,
    };
    let of_kernel = |place: &&Place| place.function.as_ref().is_some_and(|name| !support::is_library(name));
    let place = fault.backtrace.iter().find(of_kernel).or(fault.backtrace.first());
    Some(Finding::new(rule, fault.core, message).at(place.map(|place| place.pc), symbols))
}
