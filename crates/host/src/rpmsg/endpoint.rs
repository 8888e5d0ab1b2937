//! An RPMsg endpoint: made by a control device, found by its name in sysfs, removed when it is closed.

use super::discover::attribute;
use super::{RpmsgError, RpmsgOptions, sys};
use crate::{Error, Event, Wait};
use outboard_wire::MAX_MESSAGE;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Name of the endpoint, as the firmware's clients call it.
pub(super) const SERVICE: &str = "c7x-compute";
/// Address of the service on the device.
pub(super) const SERVICE_ADDRESS: u32 = 20;
/// How long a node may take to appear once its endpoint is made.
const APPEARANCE: Duration = Duration::from_secs(2);
/// Pause between two looks for it.
const PAUSE: Duration = Duration::from_millis(5);
/// How long nodes are not guessed by number: on kernels without the class folder, the node appears within this time.
const SETTLING: Duration = Duration::from_millis(100);
/// Nodes tried when they can only be guessed.
const GUESSES: u32 = 16;
/// Largest node number that is looked for.
const MOST_NODES: u32 = 100_000;

/// Opens a device node.
pub(super) fn open_node(path: &Path, options: &OpenOptions) -> Result<File, RpmsgError> {
    options.open(path).map_err(|source| {
        let path = path.to_owned();
        match source.kind() {
            ErrorKind::PermissionDenied => RpmsgError::Permission { path, source },
            _ => RpmsgError::Node { path, source },
        }
    })
}

/// An open endpoint.
#[derive(Debug)]
pub(super) struct Endpoint {
    file: File,
    path: PathBuf,
}

/// What a look at the endpoint brought.
pub(super) enum Look {
    Event(Event),
    /// A message that is longer than any.
    Oversized(usize),
}

impl Endpoint {
    /// Makes an endpoint at the first control device that can be opened and opens its node.
    pub(super) fn create(options: &RpmsgOptions, controls: &[PathBuf], wait: &Wait<'_>) -> Result<Self, Error> {
        let (control, file) = open_first(controls)?;
        let failed = |reason: String| RpmsgError::NoEndpoint { service: SERVICE, control: control.clone(), reason };
        let before = nodes(options);
        let highest = highest_node(&options.dev);
        sys::create_endpoint(&file, SERVICE, SERVICE_ADDRESS)
            .map_err(|error| failed(format!("the control device refused it: {error}")))?;
        drop(file);
        let made = Instant::now();
        let until = wait.until().min(made + APPEARANCE);
        loop {
            let candidates = candidates(options, &before, highest, made);
            let mut last = None;
            for path in &candidates {
                match open_node(path, OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK)) {
                    Ok(file) => return Ok(Self { file, path: path.clone() }),
                    Err(error) => last = Some(error),
                }
            }
            if Instant::now() >= until {
                return Err(match last {
                    // The rules for new nodes have had time to be applied.
                    Some(error @ RpmsgError::Permission { .. }) => error,
                    Some(error) => failed(error.to_string()),
                    None => failed(format!("it was made, but no node appeared in {}", options.dev.display())),
                }
                .into());
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn broken(&self, action: &'static str, source: io::Error) -> RpmsgError {
        RpmsgError::Broken { action, path: self.path.clone(), source }
    }

    /// Sends a message in one write.
    pub(super) fn send(&self, message: &[u8]) -> Result<(), Error> {
        match (&self.file).write(message) {
            Ok(written) if written == message.len() => Ok(()),
            Ok(_) => Err(self.broken("write", ErrorKind::WriteZero.into()).into()),
            Err(error) => Err(self.broken("write", error).into()),
        }
    }

    /// Waits for a message, at most until `until`.
    pub(super) fn receive(&self, buffer: &mut [u8; MAX_MESSAGE], until: Instant) -> Result<Look, Error> {
        let left = until.saturating_duration_since(Instant::now());
        let timeout =
            Timespec { tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX), tv_nsec: left.subsec_nanos().into() };
        let mut events = [PollFd::new(&self.file, PollFlags::IN)];
        match poll(&mut events, Some(&timeout)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(Look::Event(Event::TimedOut)),
            Ok(_) => {}
            Err(error) => return Err(self.broken("wait for", error.into()).into()),
        }
        // Room for more than a message: one that is too long is noticed, not cut.
        let mut bytes = [0; 2 * MAX_MESSAGE];
        match (&self.file).read(&mut bytes) {
            Ok(0) => Ok(Look::Event(Event::Lost)),
            Ok(len) => match (buffer.get_mut(..len), bytes.get(..len)) {
                (Some(to), Some(from)) => {
                    to.copy_from_slice(from);
                    Ok(Look::Event(Event::Message(len)))
                }
                _ => Ok(Look::Oversized(len)),
            },
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                // Nothing to read, and the poll has returned at once: the other end has hung up.
                let gone = events[0].revents().intersects(PollFlags::HUP | PollFlags::ERR);
                Ok(Look::Event(if gone { Event::Lost } else { Event::TimedOut }))
            }
            Err(error) if is_gone(&error) => Ok(Look::Event(Event::Lost)),
            Err(error) => Err(self.broken("read", error).into()),
        }
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        // Without this the node stays for ever. An endpoint whose processor is gone has been removed already.
        if let Err(error) = sys::destroy_endpoint(&self.file) {
            tracing::debug!(node = %self.path.display(), "the endpoint is not removed: {error}");
        }
    }
}

/// Whether an error says that the other side has ceased to exist.
fn is_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EPIPE | libc::ENXIO | libc::ENODEV | libc::ECONNRESET | libc::ENOTCONN))
}

fn open_first(controls: &[PathBuf]) -> Result<(PathBuf, File), RpmsgError> {
    let mut failure = None;
    for path in controls {
        match open_node(path, OpenOptions::new().read(true).write(true)) {
            Ok(file) => {
                tracing::debug!(node = %path.display(), "using this RPMsg control device");
                return Ok((path.clone(), file));
            }
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    Err(failure.unwrap_or(RpmsgError::Node { path: PathBuf::from("rpmsg_ctrl"), source: ErrorKind::NotFound.into() }))
}

/// The number of an endpoint's node: 7 for `rpmsg7`.
fn number(name: &str) -> Option<u32> {
    name.strip_prefix("rpmsg")?.parse().ok()
}

/// Numbers of the endpoints in the class folder of sysfs; `None` when there is no such folder.
fn nodes(options: &RpmsgOptions) -> Option<BTreeSet<u32>> {
    let entries = std::fs::read_dir(options.class("rpmsg")).ok()?;
    Some(entries.flatten().filter_map(|entry| number(entry.file_name().to_str()?)).collect())
}

/// The largest number of a node in the device folder, found as the original client does: by powers of two, then one by one.
pub(super) fn highest_node(dev: &Path) -> Option<u32> {
    let exists = |index: u32| dev.join(format!("rpmsg{index}")).exists();
    let powers =
        std::iter::successors(Some(1u32), |power| power.checked_mul(2)).take_while(|power| *power <= MOST_NODES);
    let seen = std::iter::once(0).chain(powers).filter(|index| exists(*index)).last()?;
    (seen..MOST_NODES).take_while(|index| exists(*index)).last()
}

/// Where the endpoint's node may be: the new one of our name in sysfs, or, where sysfs does not say, the next numbers.
fn candidates(
    options: &RpmsgOptions,
    before: &Option<BTreeSet<u32>>,
    highest: Option<u32>,
    made: Instant,
) -> Vec<PathBuf> {
    let class = options.class("rpmsg");
    if let (Some(before), Some(now)) = (before, nodes(options)) {
        let named: Vec<PathBuf> = now
            .difference(before)
            .map(|index| format!("rpmsg{index}"))
            .filter(|name| attribute(&class.join(name).join("name")) == SERVICE)
            .map(|name| options.node(&name))
            .collect();
        if !named.is_empty() {
            return named;
        }
    }
    if made.elapsed() < SETTLING {
        return Vec::new();
    }
    let first = highest.map_or(0, |index| index + 1);
    (first..first + GUESSES).map(|index| options.node(&format!("rpmsg{index}"))).filter(|node| node.exists()).collect()
}
