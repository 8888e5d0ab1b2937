//! What the calls on served nodes do. Errors are those of the kernel's drivers.
#![allow(unsafe_code, reason = "ioctl arguments are pointers of the program; descriptors are handed to it")]

use crate::faults::Faults;
use crate::heap::{Block, Heap, PAGE};
use crate::session::{Session, lock};
use crate::tree::{HEAP, Tree};
use outboard_wire::{MAX_MESSAGE, SharedMap};
use rustix::fd::{AsFd, AsRawFd, IntoRawFd, OwnedFd};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::collections::BTreeMap;
use std::ffi::c_int;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

/// Requests of the drivers.
const DMA_HEAP_ALLOC: u64 = 0xC018_4800;
const DMA_BUF_SYNC: u64 = 0x4008_6200;
const RPROC_DMA_BUF_ATTACH: u64 = 0xC010_B700;
const RPMSG_CREATE_ENDPOINT: u64 = 0x4028_B501;
const RPMSG_DESTROY_ENDPOINT: u64 = 0x0000_B502;
/// Address of the service on the device.
const SERVICE_ADDRESS: u32 = 20;
/// The first own address the kernel gives to an endpoint.
const FIRST_ADDRESS: u32 = 1024;
/// How long a write waits for room in the ring, as the kernel's does.
const WRITE_PATIENCE: Duration = Duration::from_secs(15);
/// Descriptors that can be served.
const DESCRIPTORS: usize = 4096;

/// What a descriptor of the program is.
#[derive(Debug, Clone)]
enum Node {
    Heap,
    Control,
    Processor { attached: Vec<Block> },
    Buffer(Block),
    Endpoint { number: u32, dst: u32, socket: Arc<OwnedFd>, destroyed: bool },
}

/// Everything this library knows.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) tree: Arc<Tree>,
    faults: Faults,
    carveout: u64,
    log: Option<PathBuf>,
    nodes: BTreeMap<c_int, Node>,
    /// Destination addresses of endpoints that exist, by number.
    endpoints: BTreeMap<u32, u32>,
    mappings: BTreeMap<usize, (usize, Block)>,
    heap: Heap,
    session: Option<Session>,
    /// Whether host and device have caches that are not coherent.
    incoherent: bool,
}

/// Which descriptors are served: asked without a lock by every call on a descriptor.
static SERVED: [AtomicU64; DESCRIPTORS / 64] = [const { AtomicU64::new(0) }; DESCRIPTORS / 64];

fn bit(fd: c_int) -> Option<(&'static AtomicU64, u64)> {
    let index = usize::try_from(fd).ok()?;
    Some((SERVED.get(index / 64)?, 1 << (index % 64)))
}

/// Whether a descriptor is served.
pub(crate) fn is_served(fd: c_int) -> bool {
    bit(fd).is_some_and(|(word, mask)| word.load(Ordering::Acquire) & mask != 0)
}

/// Mappings that are served: asked without a lock by every `munmap`.
static MAPPINGS: AtomicU64 = AtomicU64::new(0);

/// Whether any mapping is served.
pub(crate) fn serves_mappings() -> bool {
    MAPPINGS.load(Ordering::Acquire) != 0
}

/// The state; `None` when nothing is served in this process.
pub(crate) fn state() -> Option<&'static Mutex<State>> {
    static STATE: OnceLock<Option<Mutex<State>>> = OnceLock::new();
    STATE.get_or_init(|| device().and_then(|_| State::new().ok()).map(Mutex::new)).as_ref()
}

/// The socket of the standing device.
fn device() -> Option<PathBuf> {
    std::env::var_os("OUTBOARD_NODES_DEVICE").filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// Removes the folder of a process that ends.
extern "C" fn leave() {
    crate::hooks::pass_through();
    if let Some(state) = state() {
        lock(state).tree.remove();
    }
}

fn errno(number: i32) -> io::Error {
    io::Error::from_raw_os_error(number)
}

/// Reads the argument of an ioctl.
///
/// # Safety
/// `argument` is null or points at a `T` of the program, as the request demands.
unsafe fn argument<'a, T>(argument: *mut T) -> io::Result<&'a mut T> {
    if !argument.is_aligned() {
        return Err(errno(libc::EFAULT));
    }
    // SAFETY: the caller's promise; null and unaligned pointers do not come this far.
    unsafe { argument.as_mut() }.ok_or_else(|| errno(libc::EFAULT))
}

#[repr(C)]
struct HeapAllocation {
    len: u64,
    fd: u32,
    fd_flags: u32,
    heap_flags: u64,
}

#[repr(C)]
struct BufferAttachment {
    fd: u32,
    padding: u32,
    physical: u64,
}

#[repr(C)]
struct EndpointInfo {
    name: [u8; 32],
    src: u32,
    dst: u32,
}

impl State {
    fn new() -> io::Result<Self> {
        let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let faults = variable("OUTBOARD_NODES_FAULTS").unwrap_or_default();
        let carveout = variable("OUTBOARD_NODES_CARVEOUT").and_then(|text| {
            let text = text.into_string().ok()?;
            u64::from_str_radix(text.trim_start_matches("0x"), 16).ok()
        });
        let tree = Arc::new(Tree::open(variable("OUTBOARD_NODES_ROOT").map(PathBuf::from))?);
        // SAFETY: the function has no arguments and may run at any time before the process ends.
        let _ = unsafe { libc::atexit(leave) };
        Ok(Self {
            tree,
            faults: Faults::parse(&faults.to_string_lossy()),
            carveout: carveout.unwrap_or(0x9_0000_0000),
            log: variable("OUTBOARD_NODES_LOG").map(PathBuf::from),
            nodes: BTreeMap::new(),
            endpoints: BTreeMap::new(),
            mappings: BTreeMap::new(),
            heap: Heap::default(),
            session: None,
            incoherent: variable("OUTBOARD_NODES_INCOHERENT").is_some_and(|value| value != "0"),
        })
    }

    /// Notes a call for whoever wants to see them.
    fn note(&self, line: std::fmt::Arguments<'_>) {
        let Some(path) = &self.log else { return };
        if let Ok(mut file) = std::fs::OpenOptions::new().append(true).create(true).mode(0o644).open(path) {
            let _ = file.write_all(format!("{line}\n").as_bytes());
        }
    }

    fn fault(&self, call: &str) -> io::Result<()> {
        self.faults.of(call).map_or(Ok(()), |number| Err(errno(number)))
    }

    /// The session; opened by the first call that needs it, and the device started again when it is gone.
    fn session(&mut self) -> io::Result<&Session> {
        let tree = Arc::clone(&self.tree);
        let state = move |state: &str| tree.set_state(state);
        match self.session.take() {
            Some(mut session) if session.is_dead() => {
                session.restart(state)?;
                Ok(self.session.insert(session))
            }
            Some(session) => Ok(self.session.insert(session)),
            None => {
                let socket = device().ok_or_else(|| errno(libc::ENODEV))?;
                let session = Session::open(&socket, self.incoherent, state)?;
                self.tree.set_state("running");
                Ok(self.session.insert(session))
            }
        }
    }

    /// Serves a descriptor from now on.
    fn serve(&mut self, fd: OwnedFd, node: Node) -> io::Result<c_int> {
        let Some((word, mask)) = bit(fd.as_raw_fd()) else { return Err(errno(libc::EMFILE)) };
        word.fetch_or(mask, Ordering::AcqRel);
        let fd = fd.into_raw_fd();
        self.nodes.insert(fd, node);
        Ok(fd)
    }

    /// Opens a served node of `/dev`, without the folder in front.
    pub(crate) fn open(&mut self, name: &str, flags: c_int) -> io::Result<c_int> {
        self.fault(&format!("open:{name}"))?;
        let place = self.tree.inside(format!("/dev/{name}").as_bytes());
        // Whatever else the path is, it exists or it does not.
        std::fs::metadata(&place)?;
        let endpoint = name.strip_prefix("rpmsg").and_then(|number| number.parse::<u32>().ok());
        if let Some(number) = endpoint {
            return self.open_endpoint(number, flags);
        }
        let node = match name {
            HEAP => Node::Heap,
            "rpmsg_ctrl0" => Node::Control,
            "remoteproc0" => Node::Processor { attached: Vec::new() },
            _ => return Err(errno(libc::ENXIO)),
        };
        self.session()?;
        let file = std::fs::OpenOptions::new().read(true).custom_flags(flags & libc::O_NONBLOCK).open(place)?;
        if flags & libc::O_CLOEXEC == 0 {
            rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::empty())?;
        }
        self.serve(file.into(), node)
    }

    fn open_endpoint(&mut self, number: u32, flags: c_int) -> io::Result<c_int> {
        let taken =
            |node: &Node| matches!(node, Node::Endpoint { number: other, destroyed: false, .. } if *other == number);
        // An endpoint that another process has made is that process's.
        let Some(dst) = self.endpoints.get(&number).copied().filter(|_| !self.nodes.values().any(taken)) else {
            return Err(errno(libc::EBUSY));
        };
        let mut kind = SocketFlags::empty();
        kind.set(SocketFlags::CLOEXEC, flags & libc::O_CLOEXEC != 0);
        kind.set(SocketFlags::NONBLOCK, flags & libc::O_NONBLOCK != 0);
        let (theirs, ours) = rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, kind, None)?;
        rustix::io::fcntl_setfd(&ours, rustix::io::FdFlags::CLOEXEC)?;
        let socket = Arc::new(ours);
        self.session()?.attach(number, Arc::clone(&socket));
        self.note(format_args!("open rpmsg{number}"));
        self.serve(theirs, Node::Endpoint { number, dst, socket, destroyed: false })
    }

    /// Brings the firmware's log up to date, for a program that reads it.
    pub(crate) fn refresh_trace(&self) {
        if let Some(session) = &self.session {
            self.tree.set_trace(&session.trace());
        }
    }

    /// # Safety
    /// `pointer` is what the request demands.
    pub(crate) unsafe fn ioctl(
        &mut self,
        fd: c_int,
        request: u64,
        pointer: *mut std::ffi::c_void,
    ) -> io::Result<c_int> {
        let node = self.nodes.get(&fd).cloned().ok_or_else(|| errno(libc::EBADF))?;
        match (node, request) {
            (Node::Heap, DMA_HEAP_ALLOC) => {
                // SAFETY: the request carries this structure.
                self.allocate(unsafe { argument(pointer.cast())? })
            }
            (Node::Processor { .. }, RPROC_DMA_BUF_ATTACH) => {
                // SAFETY: the request carries this structure.
                self.attach(fd, unsafe { argument(pointer.cast())? })
            }
            (Node::Control, RPMSG_CREATE_ENDPOINT) => {
                // SAFETY: the request carries this structure.
                self.create_endpoint(unsafe { argument(pointer.cast())? })
            }
            (Node::Buffer(block), DMA_BUF_SYNC) => {
                // SAFETY: the request carries a 64-bit word.
                self.synchronise(block, *unsafe { argument::<u64>(pointer.cast())? })
            }
            (Node::Endpoint { number, destroyed: false, .. }, RPMSG_DESTROY_ENDPOINT) => {
                self.destroy_endpoint(fd, number)
            }
            // The heap and RPMsg drivers call every other request invalid, the others no request of theirs.
            (Node::Heap | Node::Control | Node::Endpoint { .. }, _) => Err(errno(libc::EINVAL)),
            (Node::Processor { .. } | Node::Buffer(_), _) => Err(errno(libc::ENOTTY)),
        }
    }

    fn allocate(&mut self, request: &mut HeapAllocation) -> io::Result<c_int> {
        self.fault("alloc")?;
        let known = u32::try_from(libc::O_CLOEXEC | libc::O_ACCMODE).unwrap_or(0);
        if request.fd != 0 || request.fd_flags & !known != 0 || request.heap_flags != 0 || request.len == 0 {
            return Err(errno(libc::EINVAL));
        }
        let size = self.faults.number("carveout").unwrap_or(SharedMap::CARVEOUT.size);
        let block = self.heap.allocate(request.len, size).ok_or_else(|| errno(libc::ENOMEM))?;
        // The descriptor stands for the block: it has its size and nothing else.
        let flags = rustix::fs::MemfdFlags::CLOEXEC;
        let made = rustix::fs::memfd_create("dma-buf", flags).and_then(|fd| {
            rustix::fs::ftruncate(&fd, block.len)?;
            if request.fd_flags & u32::try_from(libc::O_CLOEXEC).unwrap_or(0) == 0 {
                rustix::io::fcntl_setfd(&fd, rustix::io::FdFlags::empty())?;
            }
            Ok(fd)
        });
        let served = made.map_err(io::Error::from).and_then(|fd| self.serve(fd, Node::Buffer(block)));
        let fd = served.inspect_err(|_| self.heap.release(block))?;
        request.fd = u32::try_from(fd).unwrap_or(0);
        self.note(format_args!("alloc {:#x} at {:#x}", block.len, block.start));
        Ok(0)
    }

    fn attach(&mut self, fd: c_int, request: &mut BufferAttachment) -> io::Result<c_int> {
        self.fault("attach")?;
        let buffer = c_int::try_from(request.fd).map_err(|_| errno(libc::EBADF))?;
        let Some(Node::Buffer(block)) = self.nodes.get(&buffer).cloned() else {
            return Err(errno(if is_open(buffer) { libc::EINVAL } else { libc::EBADF }));
        };
        if let Some(Node::Processor { attached }) = self.nodes.get_mut(&fd) {
            attached.push(block);
            self.heap.hold(block);
        }
        request.physical = self.carveout + block.start;
        self.note(format_args!("attach {:#x}", block.start));
        Ok(0)
    }

    fn synchronise(&mut self, block: Block, flags: u64) -> io::Result<c_int> {
        self.fault("sync")?;
        if flags & !7 != 0 || flags & 3 == 0 {
            return Err(errno(libc::EINVAL));
        }
        if let Some(session) = &self.session {
            session.synchronise(block.start..block.start + block.len, flags)?;
        }
        self.note(format_args!("sync {flags} {:#x} {:#x}", block.len, block.start));
        Ok(0)
    }

    fn create_endpoint(&mut self, info: &mut EndpointInfo) -> io::Result<c_int> {
        self.fault("create")?;
        let name: Vec<u8> = info.name.iter().take(31).copied().take_while(|byte| *byte != 0).collect();
        let name = String::from_utf8_lossy(&name).into_owned();
        self.session()?;
        if self.faults.has("appear", "never") {
            return Ok(0);
        }
        let own = u32::try_from(self.endpoints.len()).unwrap_or(0);
        let src = if info.src == u32::MAX { FIRST_ADDRESS + own } else { info.src };
        let number = self.tree.add_endpoint(&name, src, info.dst, !self.faults.has("names", "none"))?;
        self.endpoints.insert(number, info.dst);
        self.note(format_args!("create {name} {} as rpmsg{number}", info.dst));
        Ok(0)
    }

    fn destroy_endpoint(&mut self, fd: c_int, number: u32) -> io::Result<c_int> {
        self.tree.remove_endpoint(number);
        self.endpoints.remove(&number);
        if let Some(session) = &self.session {
            session.detach(number);
        }
        if let Some(Node::Endpoint { destroyed, socket, .. }) = self.nodes.get_mut(&fd) {
            *destroyed = true;
            let _ = rustix::net::shutdown(&**socket, rustix::net::Shutdown::Both);
        }
        self.note(format_args!("destroy rpmsg{number}"));
        Ok(0)
    }

    /// Where a mapping of a served descriptor really lies: a descriptor and an offset in it.
    pub(crate) fn place(&mut self, fd: c_int, len: usize, offset: i64) -> io::Result<(c_int, i64)> {
        let Some(Node::Buffer(block)) = self.nodes.get(&fd).cloned() else { return Err(errno(libc::ENODEV)) };
        self.fault("map")?;
        let (len, offset) = (u64::try_from(len).unwrap_or(u64::MAX), u64::try_from(offset).unwrap_or(u64::MAX));
        let end = offset.checked_add(len).filter(|_| len != 0 && offset.is_multiple_of(PAGE));
        if end.is_none_or(|end| end > block.len) {
            return Err(errno(libc::EINVAL));
        }
        let start = i64::try_from(block.start + offset).map_err(|_| errno(libc::EINVAL))?;
        Ok((self.session()?.memory().as_fd().as_raw_fd(), start))
    }

    /// A mapping was made: it holds its block.
    pub(crate) fn mapped(&mut self, fd: c_int, address: usize, len: usize) {
        if let Some(Node::Buffer(block)) = self.nodes.get(&fd).cloned() {
            self.heap.hold(block);
            self.mappings.insert(address, (len, block));
            MAPPINGS.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// A range was unmapped.
    pub(crate) fn unmapped(&mut self, address: usize, len: usize) {
        let whole = |(known, _): &(usize, Block)| len >= *known;
        if self.mappings.get(&address).is_some_and(whole)
            && let Some((_, block)) = self.mappings.remove(&address)
        {
            MAPPINGS.fetch_sub(1, Ordering::AcqRel);
            self.heap.release(block);
            self.end_if_unused();
        }
    }

    /// Forgets a descriptor that the program closes.
    pub(crate) fn close(&mut self, fd: c_int) {
        if let Some((word, mask)) = bit(fd) {
            word.fetch_and(!mask, Ordering::AcqRel);
        }
        match self.nodes.remove(&fd) {
            Some(Node::Buffer(block)) => self.heap.release(block),
            Some(Node::Processor { attached }) => attached.into_iter().for_each(|block| self.heap.release(block)),
            Some(Node::Endpoint { number, destroyed: false, .. }) => {
                if let Some(session) = &self.session {
                    session.detach(number);
                }
            }
            _ => {}
        }
        self.end_if_unused();
    }

    /// The session ends with the last thing that needs it, so that the device serves other programs.
    fn end_if_unused(&mut self) {
        if self.nodes.is_empty() && self.heap.is_empty() {
            self.session = None;
        }
    }
}

fn is_open(fd: c_int) -> bool {
    if fd < 0 {
        return false;
    }
    // SAFETY: the descriptor is only asked for its flags; a wrong number is an error of the call.
    (unsafe { libc::fcntl(fd, libc::F_GETFD) }) >= 0
}

/// Writes to a served descriptor: a message when it is an endpoint, an error otherwise.
pub(crate) fn write(state: &Mutex<State>, fd: c_int, bytes: &[u8]) -> io::Result<usize> {
    let until = Instant::now() + WRITE_PATIENCE;
    loop {
        let mut held = lock(state);
        held.fault("write")?;
        let Some(Node::Endpoint { number, dst, destroyed, .. }) = held.nodes.get(&fd).cloned() else {
            return Err(errno(libc::EINVAL));
        };
        if destroyed {
            return Err(errno(libc::EPIPE));
        }
        if bytes.len() > MAX_MESSAGE {
            return Err(errno(libc::EMSGSIZE));
        }
        // Nobody listens at other addresses of the device, and nobody says so.
        if dst != SERVICE_ADDRESS {
            return Ok(bytes.len());
        }
        let session = held.session.as_mut().ok_or_else(|| errno(libc::EPIPE))?;
        match session.send(number, bytes) {
            Err(error)
                if error.raw_os_error() == Some(libc::EAGAIN) && !is_nonblocking(fd) && Instant::now() < until =>
            {
                drop(held);
                std::thread::sleep(Duration::from_millis(1));
            }
            other => return other.map(|()| bytes.len()),
        }
    }
}

fn is_nonblocking(fd: c_int) -> bool {
    // SAFETY: the descriptor is only asked for its flags.
    (unsafe { libc::fcntl(fd, libc::F_GETFL) }) & libc::O_NONBLOCK != 0
}

/// Whether `read` may go to the descriptor itself: only endpoints can be read.
pub(crate) fn is_readable(state: &Mutex<State>, fd: c_int) -> bool {
    matches!(lock(state).nodes.get(&fd), Some(Node::Endpoint { .. }))
}
