//! A device that is a thread of this process: for programs that bring their own device, and for tests.

use crate::lost::LossCause;
use crate::shared::{Peer, SharedMemory};
use crate::{Error, Transport};
use outboard_shm::{Object, Port, Side};
use rustix::fd::AsFd;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a device may take to end once it was asked to.
const ENDING: Duration = Duration::from_secs(2);
/// Pause between two looks at a device that ends.
const PAUSE: Duration = Duration::from_micros(200);

/// What runs a device: it serves a session over the control object and the carveout, and returns when the port asks for a shutdown.
type Serve = dyn FnMut(Object, Object) + Send;

/// The way to a device that runs in a thread of this process. `serve` is called by a new thread whenever the device starts.
///
/// A thread cannot be killed: a device that does not end when it is asked to is left behind after two seconds, and is not started again
/// while it runs. A device that crashes takes this process along. Use [`crate::simulated`] where either matters.
///
/// ```
/// use outboard_host::{Error, Transport, Wait, threaded};
/// use outboard_shm::{DeviceState, MESSAGE_BYTES, Port, Received, Side, WaitPolicy};
///
/// // A device that sends every message back.
/// let mut transport = threaded("echo", |control, _carveout| {
///     let Ok(port) = Port::open(&control, Side::Device) else { return };
///     port.set_state(DeviceState::Ready);
///     let mut buffer = [0; MESSAGE_BYTES];
///     while let Ok(Received::Message(len)) = port.receive(&mut buffer, None, WaitPolicy::default(), &mut || true) {
///         let _ = port.send(&buffer[..len]);
///     }
///     port.set_state(DeviceState::Stopped);
/// })?;
/// transport.start(&Wait::start("the device", std::time::Duration::from_secs(10)))?;
/// transport.send(b"hello")?;
/// # Ok::<(), Error>(())
/// ```
///
/// # Errors
/// The system refuses the memory.
pub fn threaded(
    name: &str,
    serve: impl FnMut(Object, Object) + Send + 'static,
) -> Result<impl Transport + 'static, Error> {
    let serve: Box<Serve> = Box::new(serve);
    SharedMemory::new(Thread { name: name.to_owned(), serve: Arc::new(Mutex::new(serve)), running: None })
}

struct Thread {
    name: String,
    serve: Arc<Mutex<Box<Serve>>>,
    /// The thread, and the port to ask it to end.
    running: Option<(JoinHandle<()>, Port)>,
}

impl Thread {
    fn failed(&self, source: std::io::Error) -> Error {
        Error::Start { program: PathBuf::from(&self.name), source }
    }
}

impl Peer for Thread {
    fn device(&self) -> &str {
        &self.name
    }

    fn process(&self) -> Option<u32> {
        None
    }

    fn start(&mut self, control: &Object, carveout: &Object) -> Result<(), Error> {
        self.kill();
        if self.running.is_some() {
            return Err(self.failed(std::io::Error::other("the thread of the last one does not end")));
        }
        let port = Port::open(control, Side::Device)?;
        let copy = |object: &Object| {
            let fd = object.as_fd().try_clone_to_owned().map_err(|source| self.failed(source))?;
            Object::from_fd(fd).map_err(Error::from)
        };
        let (control, carveout) = (copy(control)?, copy(carveout)?);
        let serve = Arc::clone(&self.serve);
        let thread = std::thread::Builder::new().name(self.name.clone()).spawn(move || {
            (serve.lock().unwrap_or_else(PoisonError::into_inner))(control, carveout);
        });
        self.running = Some((thread.map_err(|source| self.failed(source))?, port));
        Ok(())
    }

    fn is_alive(&mut self) -> bool {
        self.running.as_ref().is_some_and(|(thread, _)| !thread.is_finished())
    }

    fn kill(&mut self) {
        let Some((_, port)) = &self.running else { return };
        port.request_shutdown();
        let until = Instant::now() + ENDING;
        while self.is_alive() && Instant::now() < until {
            std::thread::sleep(PAUSE);
        }
        if !self.is_alive()
            && let Some((thread, _)) = self.running.take()
        {
            let _ = thread.join(); // one that panicked has ended, too
        }
    }

    fn ending(&mut self) -> LossCause {
        LossCause::Vanished
    }

    fn trace(&mut self) -> String {
        self.running.as_ref().map(|(_, port)| port.read_trace(0).0).unwrap_or_default()
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.kill();
    }
}
