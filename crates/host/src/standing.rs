//! A standing simulated device: sessions handed out by a broker over a Unix socket (`outboard device run --socket PATH`).
//!
//! The broker makes the session's shared memory and its device process; this side only adopts them. When the connection
//! ends, so does the device process, unless the broker models the board: then one process serves one client after the
//! other, and modules stay loaded.

use crate::lost::LossCause;
use crate::shared::{Peer, SharedMemory};
use crate::{Error, Transport};
use outboard_shm::{Object, receive_objects, send_objects};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Version of the protocol with the broker.
const PROTOCOL: u32 = 1;
/// How long a broker may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// A connection to a broker.
#[derive(Debug)]
struct Connection {
    path: PathBuf,
    stream: UnixStream,
}

impl Connection {
    fn open(path: &Path) -> Result<Self, Error> {
        let broken = |source| Error::Broker { path: path.to_owned(), reason: format!("cannot connect: {source}") };
        let stream = outboard_shm::connect(path, PATIENCE).map_err(broken)?;
        Ok(Self { path: path.to_owned(), stream })
    }

    fn error(&self, reason: impl std::fmt::Display) -> Error {
        Error::Broker { path: self.path.clone(), reason: reason.to_string() }
    }

    fn ask(&self, request: &str) -> Result<(String, Vec<OwnedFd>), Error> {
        let asked = send_objects(&self.stream, request, &[]).and_then(|()| receive_objects(&self.stream));
        match asked {
            Ok((line, _)) if line.is_empty() => Err(self.error("it has closed the connection")),
            Ok((line, objects)) => match line.strip_prefix("ERROR ") {
                Some(reason) => Err(self.error(reason)),
                None => Ok((line, objects)),
            },
            Err(error) => Err(self.error(error)),
        }
    }
}

/// A session of a standing device, its process running already. `board` is the board it must model, when that matters.
///
/// # Errors
/// Nobody listens at the socket, the device serves another client or models another board, or the broker is of another version.
pub fn standing(socket: &Path, board: Option<&str>) -> Result<impl Transport + 'static, Error> {
    let connection = Connection::open(socket)?;
    let board = board.map(|board| format!(" {board}")).unwrap_or_default();
    let (line, objects) = connection.ask(&format!("OPEN {PROTOCOL}{board}"))?;
    let words: Vec<&str> = line.split_whitespace().collect();
    let (pid, shared) = match words.as_slice() {
        ["BUSY", client] => {
            return Err(Error::Busy { device: format!("sim:{}", socket.display()), client: (*client).to_owned() });
        }
        ["OK", pid, kind] => (pid.parse().map_err(|_| connection.error("it names no process"))?, *kind == "shared"),
        _ => return Err(connection.error(format!("it answered `{line}` to OPEN"))),
    };
    let Ok([control, carveout]) = <[OwnedFd; 2]>::try_from(objects) else {
        return Err(connection.error("it passed no shared memory"));
    };
    let (control, carveout) = (Object::from_fd(control)?, Object::from_fd(carveout)?);
    let peer =
        Standing { name: format!("sim:{}", socket.display()), connection, pid, watch: None, shared, fresh: true };
    SharedMemory::adopt(control, carveout, peer)
}

/// One device process of a standing device, as `outboard top` shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceRow {
    /// Process id of the device.
    pub process: u32,
    /// Process id of its client, 0 when it has none.
    pub client: u32,
    /// `booting`, `ready`, `stopping`, `stopped` or `crashed`.
    pub state: String,
    /// Milliseconds since the service started.
    pub uptime_ms: u64,
    /// Inferences that succeeded.
    pub jobs_completed: u64,
    /// Inferences that failed in the module.
    pub jobs_failed: u64,
    /// Modules loaded.
    pub modules: u64,
    /// Bytes free in MAIN and FAST.
    pub free: (u64, u64),
    /// Nanoseconds spent in module code.
    pub busy_ns: u64,
}

/// The device processes of a standing device.
///
/// # Errors
/// Nobody listens at the socket, or what answers is no broker.
pub fn list_devices(socket: &Path) -> Result<Vec<DeviceRow>, Error> {
    let connection = Connection::open(socket)?;
    let (head, _) = connection.ask("LIST")?;
    let count: usize = head
        .strip_prefix("SESSIONS ")
        .and_then(|count| count.parse().ok())
        .ok_or_else(|| connection.error(format!("it answered `{head}` to LIST")))?;
    let mut rows = Vec::new();
    for _ in 0..count {
        let (line, _) = receive_objects(&connection.stream).map_err(|error| connection.error(error))?;
        rows.push(parse_row(&line).ok_or_else(|| connection.error(format!("it listed a device as `{line}`")))?);
    }
    Ok(rows)
}

fn parse_row(line: &str) -> Option<DeviceRow> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [process, client, state, uptime, completed, failed, modules, main, fast, busy] = words.as_slice() else {
        return None;
    };
    Some(DeviceRow {
        process: process.parse().ok()?,
        client: client.parse().ok()?,
        state: (*state).to_owned(),
        uptime_ms: uptime.parse().ok()?,
        jobs_completed: completed.parse().ok()?,
        jobs_failed: failed.parse().ok()?,
        modules: modules.parse().ok()?,
        free: (main.parse().ok()?, fast.parse().ok()?),
        busy_ns: busy.parse().ok()?,
    })
}

/// The trace of a device process from byte `from` on, and the position behind it.
///
/// # Errors
/// Nobody listens at the socket, or there is no such process.
pub fn read_trace(socket: &Path, process: u32, from: u64) -> Result<(String, u64), Error> {
    /// More than any device keeps.
    const MOST: usize = 1 << 20;
    let connection = Connection::open(socket)?;
    let (head, _) = connection.ask(&format!("TRACE {process} {from}"))?;
    let words: Vec<&str> = head.split_whitespace().collect();
    let (length, next) = match words.as_slice() {
        ["TEXT", length, next] => (length.parse::<usize>().ok(), next.parse().ok()),
        _ => (None, None),
    };
    let (Some(length), Some(next)) = (length.filter(|length| *length <= MOST), next) else {
        return Err(connection.error(format!("it answered `{head}` to TRACE")));
    };
    let mut text = vec![0; length];
    (&connection.stream).read_exact(&mut text).map_err(|error| connection.error(error))?;
    Ok((String::from_utf8_lossy(&text).into_owned(), next))
}

/// The device process behind a session.
struct Standing {
    name: String,
    connection: Connection,
    pid: u32,
    watch: Option<OwnedFd>,
    shared: bool,
    /// The process that came with the session has not been used yet.
    fresh: bool,
}

impl Standing {
    /// A descriptor that tells when the process ends; `None` when it has ended.
    fn watch(&mut self) -> Option<&OwnedFd> {
        if self.watch.is_none() {
            let pid = Pid::from_raw(i32::try_from(self.pid).ok()?)?;
            self.watch = pidfd_open(pid, PidfdFlags::empty()).ok();
        }
        self.watch.as_ref()
    }
}

impl Peer for Standing {
    fn device(&self) -> &str {
        &self.name
    }

    fn process(&self) -> Option<u32> {
        Some(self.pid)
    }

    fn is_prepared(&self) -> bool {
        self.fresh
    }

    fn outlives_sessions(&self) -> bool {
        self.shared
    }

    fn start(&mut self, _control: &Object, _carveout: &Object) -> Result<(), Error> {
        if std::mem::take(&mut self.fresh) {
            return Ok(());
        }
        let (line, _) = self.connection.ask("RESTART")?;
        let pid = line.strip_prefix("OK ").and_then(|pid| pid.parse().ok());
        self.pid = pid.ok_or_else(|| self.connection.error(format!("it answered `{line}` to RESTART")))?;
        self.watch = None;
        Ok(())
    }

    fn is_alive(&mut self) -> bool {
        let Some(watch) = self.watch() else { return false };
        let mut events = [PollFd::new(watch, PollFlags::IN)];
        matches!(poll(&mut events, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })), Ok(0))
    }

    fn kill(&mut self) {
        // A broker that is gone has taken its devices with it.
        let _ = self.connection.ask("KILL");
    }

    fn ending(&mut self) -> LossCause {
        let line = self.connection.ask("ENDING").map(|(line, _)| line).unwrap_or_default();
        match line.split_once(' ') {
            Some(("EXITED", status)) => LossCause::Exit { status: status.parse().unwrap_or(-1) },
            Some(("SIGNALED", signal)) => LossCause::signal(signal.parse().unwrap_or(0)),
            _ => LossCause::Vanished,
        }
    }

    fn trace(&mut self) -> String {
        read_trace(&self.connection.path, self.pid, 0).map(|(text, _)| text).unwrap_or_default()
    }
}
