//! The cores of a pool, and in which order they run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::bus::Bus;
use crate::core::{Core, Progress};
use crate::fault::{DeviceFault, FaultKind};
use crate::target::PoolTarget;

/// In which order cores run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Schedule {
    /// Each on a thread of its own.
    #[default]
    Threads,
    /// One after the other, a few instructions at a time, in an order that depends on the number only.
    Seeded(u64),
}

/// Instructions between two looks at the other cores.
const SLICE: u64 = 1 << 20;
/// Most instructions of a turn in a seeded schedule.
const TURN: u64 = 4096;

/// One core's work: where the firmware's `dispatch` is, the function, its argument.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call {
    pub(crate) entry: u32,
    pub(crate) function: u32,
    pub(crate) argument: u32,
}

/// The cores and what they share.
#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) bus: Arc<Bus>,
    pub(crate) cores: Vec<Core>,
    pub(crate) schedule: Schedule,
    pub(crate) fuel: u64,
    /// Where each core enters functions of the library that was started last.
    pub(crate) entered: Vec<u32>,
}

impl Pool {
    pub(crate) fn new(target: Arc<PoolTarget>, schedule: Schedule) -> Self {
        let fuel = target.dispatch.fuel;
        let bus = Arc::new(Bus::new(target));
        let cores = (0..bus.target.cores).map(|index| Core::new(&bus, index)).collect();
        Self { bus, cores, schedule, fuel, entered: Vec::new() }
    }

    /// Runs a call on each core that has one, and returns what the functions returned.
    ///
    /// The first fault, by core, ends the run of all.
    pub(crate) fn run(&mut self, calls: &[Option<Call>]) -> Result<Vec<Option<u32>>, Box<DeviceFault>> {
        for (core, call) in self.cores.iter_mut().zip(calls) {
            if let Some(call) = call {
                core.prepare(call.entry, call.function, call.argument);
            }
        }
        let fuel = self.fuel;
        let busy = |index: usize| calls.get(index).is_some_and(Option::is_some);
        let active: Vec<&mut Core> = self.cores.iter_mut().filter(|core| busy(core.index)).collect();
        let outcomes = match self.schedule {
            Schedule::Seeded(seed) => interleaved(active, fuel, seed),
            Schedule::Threads if active.len() < 2 => active.into_iter().map(|core| whole(core, fuel, None)).collect(),
            Schedule::Threads => threaded(active, fuel),
        };
        let mut results = vec![None; self.cores.len()];
        for (index, outcome) in outcomes {
            let value = outcome?;
            if let Some(place) = results.get_mut(index) {
                *place = value;
            }
        }
        Ok(results)
    }
}

/// How a core's work ended: what its function returned, nothing if others ended it.
type Outcome = (usize, Result<Option<u32>, Box<DeviceFault>>);

/// Runs a core to its end, or until `stop` is set.
fn whole(core: &mut Core, fuel: u64, stop: Option<&AtomicBool>) -> Outcome {
    let index = core.index;
    loop {
        if stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) {
            return (index, Ok(None));
        }
        match turn(core, fuel, SLICE) {
            Ok(None) => {}
            outcome => {
                if let (Err(_), Some(stop)) = (&outcome, stop) {
                    stop.store(true, Ordering::Relaxed);
                }
                return (index, outcome);
            }
        }
    }
}

/// Runs a core for a while.
fn turn(core: &mut Core, fuel: u64, budget: u64) -> Result<Option<u32>, Box<DeviceFault>> {
    let left = fuel.saturating_sub(core.spent());
    if left == 0 {
        return Err(core.fault(FaultKind::Fuel { limit: fuel }));
    }
    match core.run(budget.min(left))? {
        Progress::Running => Ok(None),
        Progress::Returned(value) => Ok(Some(value)),
    }
}

fn threaded(cores: Vec<&mut Core>, fuel: u64) -> Vec<Outcome> {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let stop = &stop;
        let start = |core| scope.spawn(move || whole(core, fuel, Some(stop)));
        let threads: Vec<_> = cores.into_iter().map(start).collect();
        // A panic in the engine is a bug of this program and stays one.
        let wait = |thread: std::thread::ScopedJoinHandle<'_, Outcome>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        threads.into_iter().map(wait).collect()
    })
}

/// Runs cores in turns of random length, in random order.
fn interleaved(mut cores: Vec<&mut Core>, fuel: u64, seed: u64) -> Vec<Outcome> {
    let mut random = SplitMix(seed);
    let mut outcomes = Vec::with_capacity(cores.len());
    while !cores.is_empty() {
        let pick = (random.next() % cores.len() as u64) as usize;
        let budget = 1 + random.next() % TURN;
        let Some(core) = cores.get_mut(pick) else { break };
        match turn(core, fuel, budget) {
            Ok(None) => {}
            outcome => {
                let failed = outcome.is_err();
                outcomes.push((core.index, outcome));
                cores.swap_remove(pick);
                if failed {
                    break;
                }
            }
        }
    }
    // Faults first by core, as with threads.
    outcomes.sort_by_key(|(index, _)| *index);
    outcomes
}

/// A small generator of random numbers.
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}
