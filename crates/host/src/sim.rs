//! The simulated device: a process of its own that maps the board's memory and runs modules for this machine's CPU.
//!
//! The process is `PROGRAM device worker`. It receives the control object as its standard input and the carveout as its
//! standard output; its standard error is read to the end, so that it can never block, and its last lines are kept for
//! reports.

use crate::lost::LossCause;
use crate::shared::{Peer, SharedMemory};
use crate::{Error, Transport};
use outboard_shm::Object;
use outboard_wire::KvLayout;
use std::collections::VecDeque;
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Environment variable that names the program a simulated device runs in.
pub const PROGRAM_VARIABLE: &str = "OUTBOARD_DEVICE_PROGRAM";
/// File name of the program that knows how to be a device.
const PROGRAM_NAME: &str = "outboard";
/// How much of a device's log is kept.
const TRACE_BYTES: usize = 16 * 1024;
/// How long a device that closed or crashed may take to end.
const ENDING: Duration = Duration::from_millis(500);

/// How a simulated device is started.
#[derive(Debug, Clone, Default)]
pub struct SimOptions {
    /// The program to run it in. `None`: the one [`PROGRAM_VARIABLE`] names, else this program if it is `outboard`, else an
    /// `outboard` beside it or one folder up.
    pub program: Option<PathBuf>,
    /// How tensors lie in the KV region: as the protocol fixes it, or without its limits.
    pub kv: KvLayout,
    /// Model caches that are not coherent: host and device see each other's writes only after a sync, so that a missing one
    /// shows.
    pub incoherent: bool,
}

/// The way to a simulated device: prepares the shared memory of a session. The device starts with the session.
///
/// # Errors
/// No program to run it in is known, or the system refuses the memory.
pub fn simulated(options: SimOptions) -> Result<impl Transport + 'static, Error> {
    let program = match options.program {
        Some(program) => program,
        None => find_program(std::env::var_os(PROGRAM_VARIABLE).map(PathBuf::from), std::env::current_exe().ok())?,
    };
    let process = Process { program, kv: options.kv, running: None, last: None };
    if options.incoherent { SharedMemory::incoherent(process) } else { SharedMemory::new(process) }
}

/// The program a device runs in, when none was given.
fn find_program(named: Option<PathBuf>, this: Option<PathBuf>) -> Result<PathBuf, Error> {
    if let Some(named) = named.filter(|path| !path.as_os_str().is_empty()) {
        return if named.is_file() {
            Ok(named)
        } else {
            Err(Error::NoProgram { reason: format!("{PROGRAM_VARIABLE} names {}, which is no file", named.display()) })
        };
    }
    let this = this.ok_or_else(|| Error::NoProgram { reason: "the path of this program is unknown".to_owned() })?;
    if this.file_stem().is_some_and(|name| name == PROGRAM_NAME) {
        return Ok(this);
    }
    let folders = this.ancestors().skip(1).take(2);
    let tried: Vec<PathBuf> = folders.map(|folder| folder.join(PROGRAM_NAME)).collect();
    tried.iter().find(|path| path.is_file()).cloned().ok_or_else(|| {
        let tried: Vec<String> = tried.iter().map(|path| path.display().to_string()).collect();
        Error::NoProgram { reason: format!("none of {} exists", tried.join(", ")) }
    })
}

/// A device process.
struct Process {
    program: PathBuf,
    kv: KvLayout,
    running: Option<Running>,
    /// How the last one ended, and the end of its log.
    last: Option<(Option<ExitStatus>, String)>,
}

struct Running {
    child: Child,
    log: Log,
}

impl Process {
    fn spawn(program: &Path, kv: KvLayout, control: &Object, carveout: &Object) -> std::io::Result<Running> {
        let mut command = Command::new(program);
        command
            .args(["device", "worker"])
            .args((kv == KvLayout::Packed).then_some("--kv-packed"))
            .stdin(Stdio::from(control.as_fd().try_clone_to_owned()?))
            .stdout(Stdio::from(carveout.as_fd().try_clone_to_owned()?))
            .stderr(Stdio::piped());
        let tail = Arc::new(Mutex::new(VecDeque::new()));
        let sink = Arc::clone(&tail);
        let (sender, receiver) = std::sync::mpsc::channel();
        // A device dies with the thread that started it, so that it does not outlive its host. The thread of its log lives
        // exactly as long as it does; the one that opens the session may end long before.
        let reader = std::thread::Builder::new().name("outboard-device".to_owned()).spawn(move || {
            let mut child = command.spawn();
            // The command holds the parent's ends of the objects.
            drop(command);
            let log = child.as_mut().ok().and_then(|child| child.stderr.take());
            let _ = sender.send(child);
            if let Some(log) = log {
                read_log(log, &sink);
            }
        })?;
        let child = receiver.recv().unwrap_or_else(|_| Err(std::io::ErrorKind::BrokenPipe.into()))?;
        Ok(Running { child, log: Log { tail, reader: Some(reader) } })
    }

    /// Takes note of a process that has ended.
    fn reap(&mut self, status: Option<ExitStatus>) {
        if let Some(running) = self.running.take() {
            self.last = Some((status, running.log.end()));
        }
    }
}

impl Peer for Process {
    fn device(&self) -> &str {
        "sim"
    }

    fn process(&self) -> Option<u32> {
        self.running.as_ref().map(|running| running.child.id())
    }

    fn kv_layout(&self) -> KvLayout {
        self.kv
    }

    fn start(&mut self, control: &Object, carveout: &Object) -> Result<(), Error> {
        self.kill();
        self.last = None;
        let running = Self::spawn(&self.program, self.kv, control, carveout)
            .map_err(|source| Error::Start { program: self.program.clone(), source })?;
        tracing::debug!(program = %self.program.display(), pid = running.child.id(), "started a simulated device");
        self.running = Some(running);
        Ok(())
    }

    fn is_alive(&mut self) -> bool {
        let Some(running) = &mut self.running else { return false };
        match running.child.try_wait() {
            Ok(None) => true,
            Ok(Some(status)) => {
                self.reap(Some(status));
                false
            }
            // Somebody else reaped the child: all that is known is that it is gone.
            Err(_) => {
                self.reap(None);
                false
            }
        }
    }

    fn kill(&mut self) {
        if let Some(running) = &mut self.running {
            // A process that has ended already cannot be killed, and is reaped all the same.
            let _ = running.child.kill();
            let status = running.child.wait().ok();
            self.reap(status);
        }
    }

    fn ending(&mut self) -> LossCause {
        let until = Instant::now() + ENDING;
        while self.is_alive() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        let status = self.last.as_ref().and_then(|(status, _)| *status);
        match status.map(|status| (status.code(), status.signal())) {
            Some((Some(status), _)) => LossCause::Exit { status },
            Some((None, Some(signal))) => LossCause::signal(u32::try_from(signal).unwrap_or(0)),
            _ => LossCause::Vanished,
        }
    }

    fn trace(&mut self) -> String {
        match (&self.running, &self.last) {
            (Some(running), _) => running.log.so_far(),
            (None, Some((_, trace))) => trace.clone(),
            (None, None) => String::new(),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The end of a device's standard error, and the thread that reads it.
struct Log {
    tail: Arc<Mutex<VecDeque<u8>>>,
    reader: Option<JoinHandle<()>>,
}

impl Log {
    /// The end of the log of a process that has ended.
    fn end(mut self) -> String {
        // The pipe closes with the process; a child of a module that kept it open must not hold the host up.
        let until = Instant::now() + ENDING;
        while self.reader.as_ref().is_some_and(|reader| !reader.is_finished()) && Instant::now() < until {
            std::thread::sleep(Duration::from_micros(200));
        }
        if let Some(reader) = self.reader.take().filter(JoinHandle::is_finished) {
            let _ = reader.join();
        }
        self.so_far()
    }

    fn so_far(&self) -> String {
        let tail = self.tail.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        String::from_utf8_lossy(&tail.iter().copied().collect::<Vec<_>>()).into_owned()
    }
}

fn read_log(mut source: ChildStderr, tail: &Mutex<VecDeque<u8>>) {
    let mut chunk = [0; 4096];
    while let Ok(len @ 1..) = source.read(&mut chunk) {
        let bytes = chunk.get(..len).unwrap_or_default();
        for line in String::from_utf8_lossy(bytes).lines() {
            tracing::debug!(target: "outboard::device", "{line}");
        }
        let mut tail = tail.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        tail.extend(bytes);
        let surplus = tail.len().saturating_sub(TRACE_BYTES);
        tail.drain(..surplus);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_the_named_one_then_this_one_then_a_neighbour() {
        let this = std::env::current_exe().unwrap();
        assert_eq!(find_program(Some(this.clone()), None).unwrap(), this);
        let cli = PathBuf::from("/opt/outboard/bin/outboard");
        assert_eq!(find_program(None, Some(cli.clone())).unwrap(), cli);
        assert_eq!(find_program(Some(PathBuf::new()), Some(cli.clone())).unwrap(), cli);
    }

    #[test]
    fn a_program_that_cannot_be_found_is_an_error_that_says_where_it_was_looked_for() {
        let named = find_program(Some("/nowhere/outboard".into()), None).unwrap_err().to_string();
        assert_eq!(
            named,
            "no program to run the simulated device in: OUTBOARD_DEVICE_PROGRAM names /nowhere/outboard, which is no file"
        );
        let beside = find_program(None, Some("/nowhere/deps/test".into())).unwrap_err().to_string();
        assert!(beside.ends_with("none of /nowhere/deps/outboard, /nowhere/outboard exists"), "{beside}");
    }
}
