//! A standing device: hands out sessions over a Unix socket, each with a device process of its own.
//!
//! A connection is a session. The client sends one line, gets one line back; the first reply carries the session's two shared
//! memory objects. When the connection ends, however it ends, its device process ends.
//!
//! | request | reply |
//! | --- | --- |
//! | `OPEN 1` or `OPEN 1 BOARD` | `OK PID isolated\|shared` with the control object and the carveout, `BUSY PID`, or `ERROR text` |
//! | `RESTART` | `OK PID`: a new device process over the same objects |
//! | `KILL` | `OK`: the device process is gone |
//! | `ENDING` | `ALIVE`, `EXITED STATUS` or `SIGNALED NUMBER`: how the device process ended |
//! | `LIST` | `SESSIONS N`, then N lines `PID CLIENT STATE UPTIME OK FAILED MODULES MAIN FAST BUSY` |
//! | `TRACE PID FROM` | `TEXT LENGTH NEXT`, then the text |
//!
//! A *shared* device models the board: one device process that outlives its clients, one client at a time.

use super::board::Board;
use outboard_shm::{ControlError, DeviceState, Object, Port, receive_objects, send_objects};
use outboard_wire::SharedMap;
use std::format;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::string::{String, ToString};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::vec::Vec;

/// Version of the protocol between broker and client.
pub const BROKER_PROTOCOL: u32 = 1;
/// How long a device process may take to end once it must.
const ENDING: Duration = Duration::from_millis(500);
/// How long the end of a connection may take to be noticed.
const LEAVING: Duration = Duration::from_millis(300);

/// How a standing device behaves.
#[derive(Debug, Clone)]
pub struct BrokerOptions {
    /// Where clients connect.
    pub socket: PathBuf,
    /// The program that becomes a device process when called with `device worker`.
    pub program: PathBuf,
    /// Model the board: one device process, one client at a time.
    pub shared: bool,
    /// The board it models; a client that expects another one is refused.
    pub board: Board,
    /// Fault specification for every device process; see [`Faults`](super::Faults).
    pub faults: String,
}

/// Why a standing device could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum BrokerError {
    /// Another one listens there.
    #[error("a device listens at {0} already; stop it or choose another socket")]
    InUse(PathBuf),
    /// The socket cannot be made.
    #[error("cannot listen at {path}: {source}")]
    Listen {
        /// The socket.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// The device process cannot be started.
    #[error("cannot start the device process: {0}")]
    Start(std::io::Error),
    /// The session's memory cannot be made.
    #[error(transparent)]
    Control(#[from] ControlError),
}

/// A session: its objects and its device process.
struct Device {
    control: Object,
    carveout: Object,
    port: Port,
    child: Child,
    ended: Option<ExitStatus>,
    client: Option<i32>,
}

impl Device {
    fn ending(&mut self, patience: Duration) -> Option<ExitStatus> {
        let until = Instant::now() + patience;
        loop {
            if self.ended.is_none() {
                self.ended = self.child.try_wait().ok().flatten();
            }
            if self.ended.is_some() || Instant::now() >= until {
                return self.ended;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn kill(&mut self) {
        if self.ended.is_none() {
            let _ = self.child.kill(); // it may have ended by itself
            self.ended = self.child.wait().ok();
        }
    }

    fn row(&self) -> String {
        let statistics = self.port.statistics();
        let state = match self.port.state() {
            DeviceState::Booting => "booting",
            DeviceState::Ready => "ready",
            DeviceState::Stopping => "stopping",
            DeviceState::Stopped => "stopped",
            DeviceState::Crashed => "crashed",
        };
        format!(
            "{} {} {state} {} {} {} {} {} {} {}",
            self.child.id(),
            self.client.unwrap_or(0),
            statistics.uptime_ms,
            statistics.jobs_completed,
            statistics.jobs_failed,
            statistics.modules,
            statistics.main_free,
            statistics.fast_free,
            statistics.busy_ns
        )
    }
}

type Shared<T> = Arc<Mutex<T>>;

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A request to start a process, and where its handle goes.
type Start = (Command, Sender<std::io::Result<Child>>);

struct Broker {
    options: BrokerOptions,
    devices: Shared<Vec<Shared<Device>>>,
    starter: Sender<Start>,
}

/// Serves sessions at a socket for ever. `ready` is called once clients can connect.
///
/// # Errors
/// The socket is taken or cannot be made, or the first device process cannot be started (shared devices).
pub fn run_broker(options: BrokerOptions, ready: impl FnOnce(&Path)) -> Result<(), BrokerError> {
    let listener = listen(&options.socket)?;
    // A device process dies with the thread that started it, so one thread that never ends starts them all.
    let (starter, starts) = mpsc::channel::<Start>();
    std::thread::spawn(move || {
        for (mut command, answer) in starts {
            let _ = answer.send(command.spawn()); // a client that is gone needs no answer
        }
    });
    let broker = Arc::new(Broker { options, devices: Arc::default(), starter });
    if broker.options.shared {
        broker.create()?;
    }
    ready(&broker.options.socket);
    for stream in listener.incoming().flatten() {
        let broker = Arc::clone(&broker);
        std::thread::spawn(move || Connection { broker, device: None }.serve(&stream));
    }
    Ok(())
}

/// Binds the socket; one that nobody listens at any more is replaced.
fn listen(path: &Path) -> Result<UnixListener, BrokerError> {
    let failed = |source| BrokerError::Listen { path: path.to_path_buf(), source };
    match UnixListener::bind(path) {
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {
            if UnixStream::connect(path).is_ok() {
                return Err(BrokerError::InUse(path.to_path_buf()));
            }
            std::fs::remove_file(path).map_err(failed)?;
            UnixListener::bind(path).map_err(failed)
        }
        other => other.map_err(failed),
    }
}

impl Broker {
    fn spawn(&self, control: &Object, carveout: &Object) -> Result<Child, BrokerError> {
        let descriptor = |object: &Object| object.as_fd().try_clone_to_owned().map_err(BrokerError::Start);
        let mut command = Command::new(&self.options.program);
        command.args(["device", "worker"]);
        if !self.options.faults.is_empty() {
            command.args(["--inject", &self.options.faults]);
        }
        command.stdin(Stdio::from(descriptor(control)?)).stdout(Stdio::from(descriptor(carveout)?));
        let (sender, receiver) = mpsc::channel();
        let gone = || std::io::Error::from(std::io::ErrorKind::BrokenPipe);
        self.starter.send((command, sender)).map_err(|_| BrokerError::Start(gone()))?;
        receiver.recv().unwrap_or_else(|_| Err(gone())).map_err(BrokerError::Start)
    }

    /// A fresh device.
    fn create(&self) -> Result<Shared<Device>, BrokerError> {
        let (control, port) = Port::create()?;
        let carveout = Object::create("outboard-carveout", SharedMap::CARVEOUT.size).map_err(ControlError::from)?;
        let child = self.spawn(&control, &carveout)?;
        let device = Arc::new(Mutex::new(Device { control, carveout, port, child, ended: None, client: None }));
        lock(&self.devices).push(Arc::clone(&device));
        Ok(device)
    }
}

/// Gives a device to a client, or says whom it serves. A client that has just left is given a moment to be noticed.
fn claim(device: &Mutex<Device>, client: i32) -> Result<MutexGuard<'_, Device>, i32> {
    let until = Instant::now() + LEAVING;
    loop {
        let mut held = lock(device);
        match held.client {
            None => {
                held.client = Some(client);
                return Ok(held);
            }
            Some(other) if Instant::now() >= until => return Err(other),
            Some(_) => drop(held),
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// One client.
struct Connection {
    broker: Arc<Broker>,
    device: Option<Shared<Device>>,
}

impl Connection {
    fn serve(mut self, stream: &UnixStream) {
        while let Ok((line, _)) = receive_objects(stream) {
            if line.is_empty() || self.answer(stream, &line).is_err() {
                break;
            }
        }
        self.end();
    }

    fn answer(&mut self, stream: &UnixStream, line: &str) -> std::io::Result<()> {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            ["OPEN", version] => self.open(stream, version, None),
            ["OPEN", version, board] => self.open(stream, version, Some(board)),
            ["RESTART"] => {
                let reply = self.restart();
                send_objects(stream, &reply, &[])
            }
            ["KILL"] => {
                if let Some(device) = &self.device {
                    lock(device).kill();
                }
                send_objects(stream, "OK", &[])
            }
            ["ENDING"] => {
                let reply = self.ending();
                send_objects(stream, reply.as_str(), &[])
            }
            ["LIST"] => self.list(stream),
            ["TRACE", pid, from] => self.trace(stream, pid, from),
            _ => send_objects(stream, &format!("ERROR the broker does not know `{line}`"), &[]),
        }
    }

    fn open(&mut self, stream: &UnixStream, version: &str, board: Option<&str>) -> std::io::Result<()> {
        if version.parse() != Ok(BROKER_PROTOCOL) {
            let text = format!(
                "ERROR this device speaks broker protocol {BROKER_PROTOCOL}, the client {version}: update the older one"
            );
            return send_objects(stream, &text, &[]);
        }
        if let Some(text) = board.and_then(|board| self.other_board(board)) {
            return send_objects(stream, &text, &[]);
        }
        if self.device.is_some() {
            return send_objects(stream, "ERROR this connection has a session already", &[]);
        }
        let client = rustix::net::sockopt::socket_peercred(stream).map_or(0, |peer| peer.pid.as_raw_nonzero().get());
        let device = if self.broker.options.shared {
            let device = lock(&self.broker.devices).first().map(Arc::clone);
            device.ok_or(BrokerError::Start(std::io::ErrorKind::NotFound.into()))
        } else {
            self.broker.create()
        };
        let device = match device {
            Ok(device) => device,
            Err(error) => return send_objects(stream, &format!("ERROR {error}"), &[]),
        };
        let held = match claim(&device, client) {
            Ok(held) => held,
            Err(other) => return send_objects(stream, &format!("BUSY {other}"), &[]),
        };
        let kind = if self.broker.options.shared { "shared" } else { "isolated" };
        let sent = send_objects(stream, &format!("OK {} {kind}", held.child.id()), &[&held.control, &held.carveout]);
        drop(held);
        self.device = Some(device);
        sent
    }

    /// The refusal of a client that was set up for another board than this device models.
    fn other_board(&self, wanted: &str) -> Option<String> {
        let own = &self.broker.options.board;
        if own.name == wanted {
            return None;
        }
        let base = |board: &Board| board.carveout_physical().map_or("nowhere".to_string(), |base| format!("{base:#x}"));
        let theirs = Board::all().iter().find(|board| board.name == wanted).map_or("unknown".to_string(), base);
        Some(format!(
            "ERROR this device models {} with its carveout at physical {}, the client is set up for {wanted} with {theirs}",
            own.name,
            base(own)
        ))
    }

    fn restart(&self) -> String {
        let Some(device) = &self.device else { return "ERROR there is no session to restart".to_string() };
        let mut held = lock(device);
        held.kill();
        held.port.reset();
        match self.broker.spawn(&held.control, &held.carveout) {
            Ok(child) => {
                held.child = child;
                held.ended = None;
                format!("OK {}", held.child.id())
            }
            Err(error) => format!("ERROR {error}"),
        }
    }

    fn ending(&self) -> String {
        let Some(device) = &self.device else { return "ERROR there is no session".to_string() };
        match lock(device).ending(ENDING) {
            None => "ALIVE".to_string(),
            Some(status) => match (status.code(), status.signal()) {
                (Some(code), _) => format!("EXITED {code}"),
                (None, signal) => format!("SIGNALED {}", signal.unwrap_or(0)),
            },
        }
    }

    fn list(&self, stream: &UnixStream) -> std::io::Result<()> {
        let devices = lock(&self.broker.devices).clone();
        let rows: Vec<String> = devices.iter().map(|device| lock(device).row()).collect();
        send_objects(stream, &format!("SESSIONS {}", rows.len()), &[])?;
        rows.iter().try_for_each(|row| send_objects(stream, row, &[]))
    }

    fn trace(&self, stream: &UnixStream, pid: &str, from: &str) -> std::io::Result<()> {
        let devices = lock(&self.broker.devices).clone();
        let wanted = devices.iter().find(|device| lock(device).child.id().to_string() == pid);
        let (Some(device), Ok(from)) = (wanted, from.parse()) else {
            return send_objects(stream, &format!("ERROR no device process {pid}"), &[]);
        };
        let (text, next) = lock(device).port.read_trace(from);
        send_objects(stream, &format!("TEXT {} {next}", text.len()), &[])?;
        (&mut &*stream).write_all(text.as_bytes())
    }

    /// The client is gone: an isolated device ends with it, a shared one waits for the next.
    fn end(self) {
        let Some(device) = self.device else { return };
        if self.broker.options.shared {
            lock(&device).client = None;
            return;
        }
        lock(&device).kill();
        lock(&self.broker.devices).retain(|other| !Arc::ptr_eq(other, &device));
    }
}
