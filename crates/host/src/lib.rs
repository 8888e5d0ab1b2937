//! Sessions with a C7x device: load modules, call them with zero-copy tensors, survive their crashes.
//!
//! A [`Session`] owns the way to a device ([`Transport`]), the buffers both sides share, and the device's life. Modules are
//! loaded from bytes or files and called with tensors; outputs are views of the shared output window that live until the next
//! call, which the borrow checker enforces. Every wait has a deadline and says what it waited for. A device that crashes or
//! does not answer is ended and started again by the next call; handles from before are refused by name.
//!
//! Nothing here runs module code, and nothing that a device says is followed without a check against the host's own
//! numbers. How a call travels: `docs/reference/host.md`; messages: `docs/reference/c7x-wire.md`.
//!
//! ```no_run
//! use outboard_host::{Input, Session, SessionOptions, SimOptions, simulated};
//! use outboard_tensor::Tensor;
//!
//! let mut session = Session::open(simulated(SimOptions::default())?, SessionOptions::default())?;
//! let module = session.load_file("lib0.out".as_ref())?;
//! let x = Tensor::from_values("1,4".parse().unwrap(), &[1.0f32, 2.0, 3.0, 4.0])?;
//! let outputs = session.run(&module, &[Input::from(&x)])?;
//! println!("{:?} in {} cycles", outputs.view(0).map(|y| y.values::<f32>()), outputs.cycles());
//! session.unload(module)?;
//! session.close()?;
//! # Ok::<(), outboard_host::Error>(())
//! ```
#![deny(unsafe_op_in_unsafe_fn)]

mod arena;
mod buffer;
mod carveout;
pub mod client;
mod echo;
mod error;
#[cfg(test)]
mod fake;
mod in_process;
mod lost;
mod manifest;
mod module;
mod options;
mod printf;
mod rpmsg;
mod session;
mod shared;
mod sim;
mod standing;
mod threaded;
mod transport;

pub use arena::Room;
pub use buffer::{Buffer, Device, Host, Owner, Place, Refused};
pub use echo::Echo;
pub use error::{Error, ErrorClass};
pub use in_process::{Answer, DeviceMemory, Responder, in_process};
pub use lost::{CrashSite, DeviceLost, Loss, LossCause};
pub use manifest::{Cache, Manifest, TensorSpec};
pub use module::{IoSizes, Module};
pub use options::{Deadlines, RunOptions, SessionOptions};
pub use printf::ModuleText;
pub use rpmsg::{C7X, CARVEOUT_VARIABLE, Processor, RpmsgError, RpmsgOptions, carveout_from_environment, rpmsg};
pub use session::{DeviceStatus, Hops, Input, InputBuffer, Model, Outputs, Pong, Session, Traffic};
pub use sim::{PROGRAM_VARIABLE, SimOptions, simulated};
pub use standing::{DeviceRow, list_devices, read_trace, standing};
pub use threaded::threaded;
pub use transport::{Event, Transport, Wait};
