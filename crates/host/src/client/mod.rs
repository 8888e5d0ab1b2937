//! A session in the terms of the published client library: handles are numbers, results are error numbers.
//!
//! The C library (`bindings/c`) and the program `c7x_compute` are thin layers over [`Client`]. It keeps the rules of the
//! original (`docs/reference/c-api.md`): capacity is fixed by the first use of a buffer, a load opens it again, the last shortage
//! of memory can be asked for.

mod codes;
mod device;
mod pieces;

pub use crate::session::{RawData, RawTensor};
pub use codes::{ClientError, strerror};
pub use device::{DEVICE_VARIABLE, DeviceName, TIMEOUT_VARIABLE, deadlines};

use crate::session::RawCall;
use crate::{DeviceStatus, Error, IoSizes, Model, Module, ModuleText, Outputs, Place, Pong, Session, Traffic};
use outboard_tensor::{DType, Shape};
use outboard_wire::{KvLayout, MAX_INPUTS};
use pieces::Pieces;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Bytes of the device's pool when it had no room for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Shortage {
    /// Bytes asked for.
    pub requested: u32,
    /// Bytes not in use.
    pub free: u32,
    /// Bytes of the pool.
    pub total: u32,
}

/// A connection to a device, as the published library has it.
///
/// ```no_run
/// use outboard_host::client::{Client, DeviceName, RawData, RawTensor};
///
/// let mut client = Client::open(&DeviceName::from_environment()?, None)?;
/// let handle = client.load("lib0.out".as_ref())?;
/// let x = [0u8; 16];
/// let input = RawTensor { data: RawData::Bytes(&x), size: 16, dtype: (2, 32), dims: &[1, 4] };
/// println!("{} cycles", client.infer(handle, 0, &[input], 0)?.cycles());
/// client.unload(handle)?;
/// # Ok::<(), outboard_host::client::ClientError>(())
/// ```
#[derive(Debug)]
pub struct Client {
    session: Session,
    modules: HashMap<u32, Module>,
    shortage: Option<Shortage>,
    /// What the last load declared.
    io: Option<IoSizes>,
    data_offset: u64,
    /// A call succeeded, or an address was given away, since the last load.
    locked: bool,
    /// The address of the input, of the output window was given away.
    given: (bool, bool),
    pieces: Pieces,
}

impl Client {
    /// Opens a session with a device. `program` is where a simulated device runs; `None` looks for it as
    /// [`crate::SimOptions::program`] says.
    ///
    /// # Errors
    /// The device cannot be reached or used; see [`Session::open`].
    pub fn open(device: &DeviceName, program: Option<PathBuf>) -> Result<Self, ClientError> {
        Ok(Self::over(device.open(deadlines()?, program)?))
    }

    /// A client over a session that is open.
    pub fn over(session: Session) -> Self {
        Self {
            session,
            modules: HashMap::new(),
            shortage: None,
            io: None,
            data_offset: 0,
            locked: false,
            given: (false, false),
            pieces: Pieces::default(),
        }
    }

    /// How results name the device.
    pub fn device(&self) -> &str {
        self.session.device()
    }

    /// Whether modules stay loaded when the client closes, as on the board.
    pub fn keeps_modules(&self) -> bool {
        self.session.keeps_modules()
    }

    /// How tensors lie in the device's KV region.
    pub fn kv_layout(&self) -> KvLayout {
        self.session.kv_layout()
    }

    /// What the module of the last load or call printed.
    pub fn text(&self) -> &ModuleText {
        self.session.module_text()
    }

    /// Asks for version and uptime.
    ///
    /// # Errors
    /// No answer.
    pub fn ping(&mut self) -> Result<Pong, ClientError> {
        Ok(self.session.ping()?)
    }

    /// Asks for the job counters.
    ///
    /// # Errors
    /// No answer.
    pub fn status(&mut self) -> Result<DeviceStatus, ClientError> {
        Ok(self.session.status()?)
    }

    /// The shortage of the last load, model load or call, when it failed for want of memory on the device.
    pub fn last_shortage(&self) -> Option<Shortage> {
        self.shortage
    }

    /// Loads a module; returns its handle. Capacity is open again until the first use of a buffer.
    ///
    /// # Errors
    /// As [`Session::load_file`].
    pub fn load(&mut self, path: &Path) -> Result<u32, ClientError> {
        let loaded = self.session.load_file(path);
        let module = self.noting(loaded)?;
        self.io = module.io().copied();
        self.data_offset = module.input_data_offset();
        self.locked = false;
        self.given = (false, false);
        let handle = module.handle();
        self.modules.insert(handle, module);
        Ok(handle)
    }

    /// A module that this client loaded.
    pub fn module(&self, handle: u32) -> Option<&Module> {
        self.modules.get(&handle)
    }

    /// What a person should know about the load of a module.
    pub fn warnings(&self, handle: u32) -> &[String] {
        self.modules.get(&handle).map(Module::warnings).unwrap_or_default()
    }

    /// Unloads a module, also one that another client left.
    ///
    /// # Errors
    /// The device does not know it, or it is from before a restart.
    pub fn unload(&mut self, handle: u32) -> Result<(), ClientError> {
        let module = match self.modules.remove(&handle) {
            Some(module) => module,
            None => self.attach(handle)?,
        };
        self.session.unload(module)?;
        self.data_offset = 0;
        self.io = None;
        self.locked = false;
        self.given = (false, false);
        if self.modules.is_empty() {
            self.pieces.clear();
        }
        Ok(())
    }

    fn attach(&mut self, handle: u32) -> Result<Module, Error> {
        self.session.running_epoch()?;
        Ok(self.session.attach(handle))
    }

    /// Loads weights; see [`Session::load_model_file`].
    ///
    /// # Errors
    /// As there.
    pub fn load_model(&mut self, path: &Path) -> Result<Model, ClientError> {
        let loaded = self.session.load_model_file(path);
        self.noting(loaded)
    }

    /// Unloads weights.
    ///
    /// # Errors
    /// The device does not know the id.
    pub fn unload_model(&mut self, id: u32) -> Result<(), ClientError> {
        Ok(self.session.unload_model(id)?)
    }

    /// Makes the windows at least this large.
    ///
    /// # Errors
    /// Capacity is fixed already, or the carveout has no room.
    pub fn reserve_io(&mut self, input_bytes: u64, output_bytes: u64) -> Result<(), ClientError> {
        if self.locked {
            return Err(ClientError::CapacityFixed);
        }
        self.session.reserve_io(input_bytes, output_bytes).map_err(|error| match error {
            Error::WindowTooSmall { .. } => ClientError::NoRoom(Box::new(error)),
            Error::BuffersInUse { .. } => ClientError::CapacityFixed,
            other => other.into(),
        })
    }

    /// What the module of the last load declares.
    pub fn io(&self) -> Option<&IoSizes> {
        self.io.as_ref()
    }

    /// Size of the input window; fixes nothing.
    pub fn input_capacity(&self) -> usize {
        self.session.input_window().map_or(0, |(_, size)| size)
    }

    /// First byte of the input window that tensors may use; 0 when nothing is loaded.
    pub fn input_data_offset(&self) -> u64 {
        self.data_offset
    }

    /// Address and size of the input window. Fixes its capacity.
    pub fn input_buffer(&mut self) -> Option<(*mut u8, usize)> {
        let window = self.session.expose_input_window()?;
        (self.locked, self.given.0) = (true, true);
        Some(window)
    }

    /// Address and size of the output window. Fixes its capacity.
    pub fn output_buffer(&mut self) -> Option<(*mut u8, usize)> {
        let window = self.session.output_window()?;
        (self.locked, self.given.1) = (true, true);
        Some(window)
    }

    /// Takes `bytes` of the input window out of the use of other tensors until the last module is unloaded; returns its address
    /// and its offset in the window.
    ///
    /// # Errors
    /// No such module, or the window has no room and cannot grow.
    pub fn create_input(&mut self, handle: u32, bytes: usize) -> Result<(*mut u8, usize), ClientError> {
        let unknown = || ClientError::Arguments(format!("no module {handle} was loaded by this client"));
        let module = self.modules.get(&handle).ok_or_else(unknown)?;
        // The first buffer may make the window larger, but not once its address was given away.
        let needed = module.input_data_offset().saturating_add(bytes as u64);
        if self.given.0 && self.pieces.is_empty() && needed > self.input_capacity() as u64 {
            return Err(ClientError::CapacityFixed);
        }
        let shape = Shape::new(&[bytes]).map_err(|error| ClientError::Arguments(error.to_string()))?;
        let buffer = self.session.input(module, DType::UInt8, shape)?;
        let offset = self.session.input_offset(&buffer);
        (self.locked, self.given.0) = (true, true);
        let place = self.session.expose_input_window().zip(offset);
        let ((start, _), offset) = place.ok_or_else(unknown)?;
        self.pieces.add(offset..offset.saturating_add(bytes.max(1)), buffer);
        Ok((start.wrapping_add(offset), offset))
    }

    /// Where a range of the input window lies, for holders who outlive the client; `None` when it has no such range.
    pub fn input_place(&self, offset: usize, len: usize) -> Option<Place> {
        self.session.input_place(offset, len)
    }

    /// Gives a buffer made by [`Client::create_input`] to the device: what was written to it is synchronised, calls take it, and it
    /// must not be looked at. From now on a call refuses it while the host owns it.
    ///
    /// # Errors
    /// `address` is not the beginning of such a buffer, or the device owns it already.
    pub fn hand_over(&mut self, address: usize) -> Result<(), ClientError> {
        let offset = self.offset_of(address)?;
        self.pieces.hand_over(&mut self.session, offset)
    }

    /// Gives a buffer that was handed over to the host again, with what the device wrote into it.
    ///
    /// # Errors
    /// `address` is not the beginning of such a buffer, or the host owns it already.
    pub fn take_back(&mut self, address: usize) -> Result<(), ClientError> {
        let offset = self.offset_of(address)?;
        self.pieces.take_back(&mut self.session, offset)
    }

    fn offset_of(&self, address: usize) -> Result<usize, ClientError> {
        let outside = || ClientError::Arguments("the address does not lie in the input buffer".to_owned());
        self.locate(address, 0)?.ok_or_else(outside)
    }

    /// Tensor bytes copied since the client opened.
    pub fn traffic(&self) -> Traffic {
        self.session.traffic()
    }

    /// Where an address lies in the input window: the offset when all `len` bytes do, an error when only some do.
    ///
    /// # Errors
    /// The range lies across an end of the window.
    pub fn locate(&self, address: usize, len: usize) -> Result<Option<usize>, ClientError> {
        let Some((start, size)) = self.session.input_window() else { return Ok(None) };
        let (start, end) = (start.addr(), start.addr().saturating_add(size));
        let last = address.saturating_add(len);
        if address >= start && last <= end {
            return Ok(Some(address - start));
        }
        if address < end && last > start {
            let what = format!("a tensor of {len} bytes lies across an end of the input buffer");
            return Err(ClientError::Arguments(what));
        }
        Ok(None)
    }

    /// Whether any byte of a range lies in the output window, which every call overwrites.
    pub fn meets_output(&self, address: usize, len: usize) -> bool {
        self.session.output_window().is_some_and(|(start, size)| {
            let (start, end) = (start.addr(), start.addr().saturating_add(size));
            address < end && address.saturating_add(len) > start
        })
    }

    /// Calls a module. `flags` are those of the wire: the repeat count in the low half, bit 16 for resident caches.
    ///
    /// # Errors
    /// As [`Session::run_with`].
    pub fn infer(
        &mut self,
        handle: u32,
        model: u32,
        inputs: &[RawTensor<'_>],
        flags: u32,
    ) -> Result<Outputs<'_>, ClientError> {
        self.shortage = None;
        if inputs.is_empty() || inputs.len() > MAX_INPUTS {
            let count = inputs.len();
            return Err(ClientError::Arguments(format!("a call has 1 to {MAX_INPUTS} inputs, not {count}")));
        }
        for (index, input) in inputs.iter().enumerate() {
            if let RawData::Window(offset) = input.data {
                self.pieces.check(index, offset)?;
            }
        }
        let attached = if self.modules.contains_key(&handle) { None } else { Some(self.attach(handle)?) };
        let module = attached.as_ref().or_else(|| self.modules.get(&handle));
        let module = module.ok_or_else(|| ClientError::Arguments(format!("no module {handle}")))?;
        let may_grow = (!self.given.0, !self.given.1);
        match self.session.call_raw(&RawCall { module, model, flags, may_grow }, inputs) {
            Ok(outputs) => {
                self.locked = true;
                Ok(outputs)
            }
            Err(error) => {
                self.shortage = shortage(&error);
                Err(error.into())
            }
        }
    }

    /// Ends the session; modules stay on devices that keep them.
    ///
    /// # Errors
    /// The device did not acknowledge in time.
    pub fn close(self) -> Result<(), ClientError> {
        Ok(self.session.close()?)
    }

    fn noting<T>(&mut self, result: Result<T, Error>) -> Result<T, ClientError> {
        self.shortage = result.as_ref().err().and_then(shortage);
        Ok(result?)
    }
}

fn shortage(error: &Error) -> Option<Shortage> {
    let Error::OutOfMemory { pool, requested, free, total, .. } = error else { return None };
    if !codes::is_device_pool(pool) {
        return None;
    }
    let clamp = |bytes: u64| u32::try_from(bytes).unwrap_or(u32::MAX);
    let shortage = Shortage { requested: clamp(*requested), free: clamp(*free), total: clamp(*total) };
    (shortage != Shortage::default()).then_some(shortage)
}

#[cfg(test)]
mod tests;
