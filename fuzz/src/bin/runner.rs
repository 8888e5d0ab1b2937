//! A deterministic fuzzer for the stable tool chain: mutates a corpus with a seeded generator, keeps what behaves in a new way,
//! and fails on panics, on inputs that take longer than two seconds, and on memory beyond four times the input plus 64 MiB.
//!
//! ```text
//! runner [TARGET…] [--seconds N] [--seed N] [--keep DIR]   fuzz; new behaviour is written to DIR
//! runner TARGET --replay FILE…                             run inputs once
//! ```

use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use outboard_fuzz::mutate::{Random, mutate};
use outboard_fuzz::{TARGETS, Target};

/// Counts what is allocated.
struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is passed on to the system's allocator unchanged; counting touches no memory of the caller.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let live = LIVE.fetch_add(layout.size(), Ordering::Relaxed).wrapping_add(layout.size());
        PEAK.fetch_max(live, Ordering::Relaxed);
        // SAFETY: the caller's promises about `layout` are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the pointer came from `alloc` above, which is the system's.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const LONGEST: Duration = Duration::from_secs(2);
const LARGEST_INPUT: usize = 1 << 16;

struct Options {
    targets: Vec<Target>,
    seconds: u64,
    seed: u64,
    keep: Option<PathBuf>,
    replay: Vec<PathBuf>,
}

fn main() -> ExitCode {
    let options = match parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(message) => {
            eprintln!("{message}");
            return ExitCode::from(1);
        }
    };
    let result = match options.replay.is_empty() {
        true => options.targets.iter().try_for_each(|target| fuzz(target, &options)),
        false => replay(&options),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::from(3)
        }
    }
}

fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut options = Options { targets: Vec::new(), seconds: 10, seed: 1, keep: None, replay: Vec::new() };
    while let Some(argument) = arguments.next() {
        let mut number = || -> Result<u64, String> {
            let value = arguments.next().unwrap_or_default();
            value.parse().map_err(|_| format!("{argument} needs a number, not `{value}`"))
        };
        match argument.as_str() {
            "--seconds" => options.seconds = number()?,
            "--seed" => options.seed = number()?,
            "--keep" => options.keep = arguments.next().map(PathBuf::from),
            "--replay" => options.replay = arguments.by_ref().map(PathBuf::from).collect(),
            name => {
                let known = TARGETS.iter().find(|target| target.name == name);
                let names = TARGETS.map(|target| target.name).join(", ");
                options.targets.push(*known.ok_or(format!("there is no target `{name}`; there are: {names}"))?);
            }
        }
    }
    if options.targets.is_empty() {
        options.targets = TARGETS.to_vec();
    }
    Ok(options)
}

fn corpus(target: &Target) -> Result<Vec<Vec<u8>>, String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target.name);
    let entries = std::fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))).collect()
}

fn fuzz(target: &Target, options: &Options) -> Result<(), String> {
    let mut inputs = corpus(target)?;
    let committed = inputs.len();
    let watch = Watch::start(target);
    let mut run =
        Run { target, watch: &watch, seen: BTreeSet::new(), executed: 0, largest: 0, slowest: Duration::ZERO };
    for input in &inputs {
        run.execute(input)?;
    }
    let mut random = Random::new(options.seed);
    let deadline = Instant::now() + Duration::from_secs(options.seconds);
    while Instant::now() < deadline {
        let base = random.below(inputs.len());
        let other = random.below(inputs.len());
        let input = mutate(&mut random, &inputs[base], &inputs[other]);
        if input.len() <= LARGEST_INPUT && run.execute(&input)? {
            if let Some(folder) = &options.keep {
                save(folder, &input)?;
            }
            inputs.push(input);
        }
    }
    watch.stop();
    println!(
        "{}: {} runs in {} s, {committed} inputs of the corpus, {} behaviours, slowest {:.1} ms, most memory {:.1} MiB over 4x the input",
        target.name,
        run.executed,
        options.seconds,
        run.seen.len(),
        run.slowest.as_secs_f64() * 1e3,
        run.largest as f64 / f64::from(1 << 20),
    );
    Ok(())
}

fn replay(options: &Options) -> Result<(), String> {
    for target in &options.targets {
        let watch = Watch::start(target);
        let mut run =
            Run { target, watch: &watch, seen: BTreeSet::new(), executed: 0, largest: 0, slowest: Duration::ZERO };
        for path in &options.replay {
            let input = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
            run.execute(&input)?;
        }
        watch.stop();
        println!("{}: {} inputs, {} behaviours", target.name, run.executed, run.seen.len());
    }
    Ok(())
}

struct Run<'r> {
    target: &'r Target,
    watch: &'r Watch,
    seen: BTreeSet<u64>,
    executed: u64,
    largest: usize,
    slowest: Duration,
}

impl Run<'_> {
    /// Runs one input; true when it behaves in a new way.
    fn execute(&mut self, input: &[u8]) -> Result<bool, String> {
        let before = LIVE.load(Ordering::Relaxed);
        PEAK.store(before, Ordering::Relaxed);
        let (result, time) = self.timed(input);
        let time = match time > LONGEST {
            // Somebody else may have had the processor: the fastest of three counts.
            true => (0..2).map(|_| self.timed(input).1).fold(time, Duration::min),
            false => time,
        };
        self.executed += 1;
        let held = PEAK.load(Ordering::Relaxed).saturating_sub(before);
        self.slowest = self.slowest.max(time);
        self.largest = self.largest.max(held.saturating_sub(4 * input.len()));
        let signature = result.map_err(|_| self.failure("panicked", input))?;
        if time > LONGEST {
            return Err(self.failure(&format!("took {time:?}"), input));
        }
        if held > 4 * input.len() + (64 << 20) {
            return Err(self.failure(&format!("held {held} bytes for {} bytes of input", input.len()), input));
        }
        Ok(self.seen.insert(signature))
    }

    /// Runs one input under watch.
    fn timed(&self, input: &[u8]) -> (std::thread::Result<u64>, Duration) {
        self.watch.begin(input);
        let start = Instant::now();
        let result = std::panic::catch_unwind(|| (self.target.run)(input));
        let time = start.elapsed();
        self.watch.end();
        (result, time)
    }

    fn failure(&self, what: &str, input: &[u8]) -> String {
        report(self.target, what, input)
    }
}

/// Saves a failing input and says how to run it again.
fn report(target: &Target, what: &str, input: &[u8]) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("artifacts").join(target.name);
    let saved = save(&folder, input).map_or_else(|error| error, |path| path.display().to_string());
    let name = target.name;
    format!(
        "{name}: an input {what}\n  saved: {saved}\n  again: cargo run --release --manifest-path fuzz/Cargo.toml -- {name} --replay {saved}"
    )
}

fn save(folder: &Path, input: &[u8]) -> Result<PathBuf, String> {
    let hash = input.iter().fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x100_0000_01b3));
    let path = folder.join(format!("{hash:016x}"));
    let written = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&path, input));
    written.map(|()| path.clone()).map_err(|error| format!("{}: {error}", path.display()))
}

/// Ends the process when an input never returns.
struct Watch {
    shared: std::sync::Arc<Shared>,
}

struct Shared {
    /// Milliseconds since the start of the program at which the current input began, 0 between inputs.
    began: AtomicU64,
    stopped: AtomicU64,
    input: std::sync::Mutex<Vec<u8>>,
    clock: Instant,
}

impl Watch {
    fn start(target: &Target) -> Self {
        let shared = std::sync::Arc::new(Shared {
            began: AtomicU64::new(0),
            stopped: AtomicU64::new(0),
            input: std::sync::Mutex::new(Vec::new()),
            clock: Instant::now(),
        });
        let (target, watched) = (*target, shared.clone());
        std::thread::spawn(move || {
            while watched.stopped.load(Ordering::Relaxed) == 0 {
                std::thread::sleep(Duration::from_millis(200));
                let began = watched.began.load(Ordering::Relaxed);
                if began != 0 && watched.now() > began + 10_000 {
                    let input = watched.input.lock().map(|input| input.clone()).unwrap_or_default();
                    eprintln!("{}", report(&target, "did not return within 10 s", &input));
                    std::process::exit(3);
                }
            }
        });
        Self { shared }
    }

    fn begin(&self, input: &[u8]) {
        if let Ok(mut current) = self.shared.input.lock() {
            current.clear();
            current.extend_from_slice(input);
        }
        self.shared.began.store(self.shared.now(), Ordering::Relaxed);
    }

    fn end(&self) {
        self.shared.began.store(0, Ordering::Relaxed);
    }

    fn stop(&self) {
        self.shared.stopped.store(1, Ordering::Relaxed);
    }
}

impl Shared {
    fn now(&self) -> u64 {
        u64::try_from(self.clock.elapsed().as_millis()).unwrap_or(u64::MAX) + 1
    }
}
