//! Inputs of a call: tensors that are copied into the input window, and buffers that live in it.

use super::Session;
use super::slot::Slot;
use crate::arena::Arena;
use crate::module::descriptor_region;
use crate::{Device, Error, Host, Module, Owner};
use outboard_tensor::{DType, Shape, Tensor, TensorView};
use outboard_wire::{MAX_DIMS, TensorDesc, round64};
use std::marker::PhantomData;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

/// Tensors start at multiples of this.
const TENSOR_ALIGN: u64 = 64;

/// One input of a call.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Input<'a> {
    /// A tensor anywhere: it is copied into the input window.
    Copied(TensorView<'a>),
    /// A buffer of the input window that the device owns: nothing is copied.
    Staged(&'a InputBuffer<Device>),
    /// A tensor that lies in the device's KV region already: the k-th of a call is the k-th that the last call with
    /// [`crate::RunOptions::kv_resident`] left there.
    Resident {
        /// Element type.
        dtype: DType,
        /// Shape.
        shape: &'a Shape,
    },
}

impl<'a> From<&'a Tensor> for Input<'a> {
    fn from(tensor: &'a Tensor) -> Self {
        Self::Copied(tensor.view())
    }
}

impl<'a> From<TensorView<'a>> for Input<'a> {
    fn from(view: TensorView<'a>) -> Self {
        Self::Copied(view)
    }
}

impl<'a> From<&'a InputBuffer<Device>> for Input<'a> {
    fn from(buffer: &'a InputBuffer<Device>) -> Self {
        Self::Staged(buffer)
    }
}

impl Input<'_> {
    /// Element type.
    pub fn dtype(&self) -> DType {
        match self {
            Self::Copied(view) => view.dtype(),
            Self::Staged(buffer) => buffer.dtype,
            Self::Resident { dtype, .. } => *dtype,
        }
    }

    /// Shape.
    pub fn shape(&self) -> &Shape {
        match self {
            Self::Copied(view) => view.shape(),
            Self::Staged(buffer) => &buffer.shape,
            Self::Resident { shape, .. } => shape,
        }
    }

    /// Bytes to be copied.
    fn copied(&self) -> Option<&[u8]> {
        match self {
            Self::Copied(view) => Some(view.bytes()),
            Self::Staged(_) | Self::Resident { .. } => None,
        }
    }
}

/// A typed buffer in the input window. Its room is free again when it is dropped.
///
/// It begins as the host's, is filled in place through [`Session::input_bytes_mut`], and is given to the device by
/// [`Session::hand_over`]; only then calls take it. [`Session::take_back`] gives it to the host again. Using it on the wrong side is
/// no error at run time: it does not compile.
///
/// ```no_run
/// # use outboard_host::{Input, Session, SessionOptions, SimOptions, simulated};
/// # use outboard_tensor::DType;
/// # let mut session = Session::open(simulated(SimOptions::default())?, SessionOptions::default())?;
/// let module = session.load_file("lib0.out".as_ref())?;
/// let buffer = session.input(&module, DType::UInt8, "16".parse().unwrap())?;
/// session.input_bytes_mut(&buffer)?.fill(7);
/// let buffer = session.hand_over(buffer)?;
/// for _ in 0..10 {
///     session.run(&module, &[Input::from(&buffer)])?; // nothing is copied, nothing is synchronised again
/// }
/// let buffer = session.take_back(buffer)?;
/// session.input_bytes_mut(&buffer)?.fill(8);
/// # Ok::<(), outboard_host::Error>(())
/// ```
#[derive(Debug)]
pub struct InputBuffer<O: Owner = Host> {
    dtype: DType,
    shape: Shape,
    /// First byte in the input window.
    pub(super) offset: usize,
    len: usize,
    /// Which window it belongs to; unique in this process.
    window: u64,
    live: Arc<()>,
    owner: PhantomData<O>,
}

impl<O: Owner> InputBuffer<O> {
    /// Element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Shape.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    fn owned_by<P: Owner>(self) -> InputBuffer<P> {
        let Self { dtype, shape, offset, len, window, live, .. } = self;
        InputBuffer { dtype, shape, offset, len, window, live, owner: PhantomData }
    }
}

/// Buffers of the input window that somebody holds.
#[derive(Debug, Default)]
pub(super) struct StagedInputs {
    /// Which input window this is; changes when the window is replaced.
    window: u64,
    blocks: Vec<(u64, u64, Weak<()>)>,
}

impl StagedInputs {
    /// The blocks in use, without those whose buffers are gone.
    fn live(&mut self) -> &[(u64, u64, Weak<()>)] {
        self.blocks.retain(|(_, _, live)| live.strong_count() > 0);
        &self.blocks
    }
}

impl Session {
    /// Makes the input window at least this large, which is possible while no buffer in it is in use.
    pub(super) fn grow_input(&mut self, bytes: u64) -> Result<(), Error> {
        let reserved = self.buffers.input.window().size;
        if bytes <= reserved {
            return Ok(());
        }
        let live = self.staged.live().len();
        if live > 0 {
            return Err(Error::BuffersInUse { live });
        }
        let old = std::mem::take(&mut self.buffers.input);
        let (window, grown) = self.replace("input", old, bytes);
        self.buffers.input = window;
        self.staged.window = super::next_epoch();
        grown
    }

    pub(super) fn grow_output(&mut self, bytes: u64) -> Result<(), Error> {
        let reserved = self.buffers.output.window().size;
        if bytes <= reserved {
            return Ok(());
        }
        let old = std::mem::take(&mut self.buffers.output);
        let (window, grown) = self.replace("output", old, bytes);
        self.buffers.output = window;
        grown
    }

    /// Releases a window and takes a larger one; without room for it, takes back what there was.
    fn replace(&mut self, name: &'static str, mut old: Slot, bytes: u64) -> (Slot, Result<(), Error>) {
        let reserved = old.window().size;
        let transport = &mut *self.link.transport;
        old.release(transport);
        match transport.allocate(bytes) {
            Ok(window) => (window.into(), Ok(())),
            Err(error) => {
                let reason = error.to_string();
                let kept = if reserved > 0 { transport.allocate(reserved).ok() } else { None };
                let kept = kept.map_or(Slot::Empty, Slot::from);
                (kept, Err(Error::WindowTooSmall { window: name, needed: bytes, reserved, reason }))
            }
        }
    }

    /// Copies a tensor into the input window.
    pub(super) fn copy_in(&mut self, offset: usize, bytes: &[u8]) -> Result<(), Error> {
        if let Some(window) = self.buffers.input.writable() {
            window.write(offset, bytes)?;
            self.meter.to_device.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Makes a buffer in the input window that can be filled in place, handed over, and given to any number of calls without a
    /// copy.
    ///
    /// # Errors
    /// The shape is impossible, the window has no room and cannot grow, or the handle is stale.
    pub fn input(&mut self, module: &Module, dtype: DType, shape: Shape) -> Result<InputBuffer, Error> {
        self.check_epoch(module)?;
        let len = shape.bytes(dtype).map_err(outboard_tensor::TensorError::from)?;
        let front = module.input_data_offset();
        if let Some(buffer) = self.place_staged(front, dtype, &shape, len)? {
            return Ok(buffer);
        }
        let ends = self.staged.live().iter().filter_map(|(start, len, _)| round64(start.checked_add(*len)?));
        let behind = ends.max().unwrap_or(front).max(front);
        let needed = round64(len as u64).and_then(|len| behind.checked_add(len)).unwrap_or(u64::MAX);
        let reserved = self.buffers.input.window().size;
        if self.staged.live().is_empty() {
            self.grow_input(needed)?;
        }
        self.place_staged(front, dtype, &shape, len)?.ok_or_else(|| Error::WindowTooSmall {
            window: "input",
            needed,
            reserved,
            reason: "other buffers in it are in use".to_owned(),
        })
    }

    fn place_staged(
        &mut self,
        front: u64,
        dtype: DType,
        shape: &Shape,
        len: usize,
    ) -> Result<Option<InputBuffer>, Error> {
        let Some(mut arena) = self.input_arena(front)? else { return Ok(None) };
        let Some(start) = arena.allocate(len as u64) else { return Ok(None) };
        let live = Arc::new(());
        self.staged.blocks.push((start, len as u64, Arc::downgrade(&live)));
        let offset = usize::try_from(start).unwrap_or(usize::MAX);
        let window = self.staged.window;
        Ok(Some(InputBuffer { dtype, shape: shape.clone(), offset, len, window, live, owner: PhantomData }))
    }

    /// What is free in the input window behind the first `front` bytes; `None` when the window is not even that large.
    fn input_arena(&mut self, front: u64) -> Result<Option<Arena>, Error> {
        let size = self.buffers.input.window().size;
        // Blocks are whole multiples of the alignment; a last odd piece of the window holds none.
        let Some(room) = (size & !(TENSOR_ALIGN - 1)).checked_sub(front) else { return Ok(None) };
        let mut arena = Arena::new(front, room, TENSOR_ALIGN);
        for (start, len, _) in self.staged.live() {
            // A buffer that lies under the descriptors of this call takes no room behind them.
            if *start >= front {
                arena.occupy(*start, *len);
            }
        }
        Ok(Some(arena))
    }

    /// Ranges of the input window that buffers hold.
    pub(super) fn staged_ranges(&mut self) -> Vec<(u64, u64)> {
        self.staged.live().iter().map(|(start, len, _)| (*start, *len)).collect()
    }

    /// First byte of a buffer in the input window; `None` when the window has been replaced since.
    pub(crate) fn input_offset<O: Owner>(&self, buffer: &InputBuffer<O>) -> Option<usize> {
        (buffer.window == self.staged.window).then_some(buffer.offset)
    }

    /// The bytes of a buffer that the host owns.
    ///
    /// # Errors
    /// The window it lies in has been replaced.
    pub fn input_bytes(&self, buffer: &InputBuffer<Host>) -> Result<&[u8], Error> {
        match self.buffers.input.host() {
            Some(window) if buffer.window == self.staged.window => window.bytes(buffer.offset, buffer.len),
            _ => Err(Error::StaleBuffer { index: 0 }),
        }
    }

    /// The bytes of a buffer that the host owns, to be filled in place.
    ///
    /// # Errors
    /// The window it lies in has been replaced.
    pub fn input_bytes_mut(&mut self, buffer: &InputBuffer<Host>) -> Result<&mut [u8], Error> {
        let current = self.staged.window;
        match self.buffers.input.writable() {
            Some(window) if buffer.window == current => window.bytes_mut(buffer.offset, buffer.len),
            _ => Err(Error::StaleBuffer { index: 0 }),
        }
    }

    /// Gives a buffer to the device, which then sees what the host wrote. Calls take it from now on; its bytes are out of reach.
    ///
    /// # Errors
    /// The window it lies in has been replaced, or the system refuses the synchronisation. The buffer is used up either way.
    pub fn hand_over(&mut self, buffer: InputBuffer<Host>) -> Result<InputBuffer<Device>, Error> {
        self.input_offset(&buffer).ok_or(Error::StaleBuffer { index: 0 })?;
        self.buffers.input.flush(&mut *self.link.transport)?;
        Ok(buffer.owned_by())
    }

    /// Gives a buffer to the host, which then sees what the device wrote; no call takes it until it is handed over again.
    ///
    /// # Errors
    /// As [`Session::hand_over`].
    pub fn take_back(&mut self, buffer: InputBuffer<Device>) -> Result<InputBuffer<Host>, Error> {
        self.input_offset(&buffer).ok_or(Error::StaleBuffer { index: 0 })?;
        // A synchronisation concerns the whole window: what the host wrote into its other buffers must not get lost.
        let window = &mut self.buffers.input;
        window.hand_over(&mut *self.link.transport)?;
        window.take_back(&mut *self.link.transport)?;
        Ok(buffer.owned_by())
    }

    /// Puts the inputs of a call into the input window and describes them.
    pub(super) fn place_inputs(&mut self, module: &Module, inputs: &[Input<'_>]) -> Result<Vec<TensorDesc>, Error> {
        let front = module.input_data_offset().max(descriptor_region(inputs.len()));
        let copied: u64 = inputs
            .iter()
            .filter_map(Input::copied)
            .try_fold(front, |sum, bytes| sum.checked_add(round64((bytes.len() as u64).max(1))?))
            .unwrap_or(u64::MAX);
        if self.staged.live().is_empty() {
            self.grow_input(copied)?;
        }
        let reserved = self.buffers.input.window().size;
        let too_small = |reason: &str| Error::WindowTooSmall {
            window: "input",
            needed: copied,
            reserved,
            reason: reason.to_owned(),
        };
        let mut arena = self.input_arena(front)?.ok_or_else(|| too_small("buffers in it are in use"))?;
        let mut resident = self.resident_addresses(inputs)?.into_iter();
        let mut descriptors = Vec::with_capacity(inputs.len());
        for (index, input) in inputs.iter().enumerate() {
            let (offset, len) = match input {
                Input::Resident { .. } => {
                    let (address, len) = resident.next().unwrap_or_default();
                    descriptors.push(descriptor(index, input, address, len)?);
                    continue;
                }
                Input::Staged(buffer) => {
                    self.check_staged(index, buffer, front)?;
                    (buffer.offset, buffer.len)
                }
                Input::Copied(view) => {
                    let bytes = view.bytes();
                    let start = arena.allocate(bytes.len() as u64);
                    let start = start.ok_or_else(|| too_small("buffers in it are in use"))?;
                    let offset = usize::try_from(start).unwrap_or(usize::MAX);
                    self.copy_in(offset, bytes)?;
                    (offset, bytes.len())
                }
            };
            let base = self.buffers.input.window().base;
            descriptors.push(descriptor(index, input, base + offset as u64, len as u64)?);
        }
        Ok(descriptors)
    }

    /// Addresses and sizes of the inputs that lie in the KV region, in their order.
    fn resident_addresses(&self, inputs: &[Input<'_>]) -> Result<Vec<(u64, u64)>, Error> {
        let mut sizes = Vec::new();
        for (index, input) in inputs.iter().enumerate() {
            if let Input::Resident { dtype, shape } = input {
                let size = shape.bytes(*dtype).map_err(outboard_tensor::TensorError::from)?;
                sizes.push((index, size as u64));
            }
        }
        let layout = self.link.transport.kv_layout();
        let stride = layout.stride(sizes.iter().map(|(_, size)| *size));
        let place = |(nth, (index, size)): (usize, (usize, u64))| {
            let address = layout.address(nth, size, stride).ok_or_else(|| Error::InputUnsupported {
                index,
                reason: format!("{size} bytes as tensor {nth} do not fit the KV region ({layout})"),
            })?;
            Ok((address, size))
        };
        sizes.into_iter().enumerate().map(place).collect()
    }

    fn check_staged(&self, index: usize, buffer: &InputBuffer<Device>, front: u64) -> Result<(), Error> {
        if buffer.window != self.staged.window {
            return Err(Error::StaleBuffer { index });
        }
        if (buffer.offset as u64) < front {
            let reason = "its buffer was made for a module with fewer inputs and lies where this call's descriptors go";
            return Err(Error::InputUnsupported { index, reason: reason.to_owned() });
        }
        Ok(())
    }
}

fn descriptor(index: usize, input: &Input<'_>, address: u64, len: u64) -> Result<TensorDesc, Error> {
    let (code, bits) = input.dtype().dlpack();
    let dims = input.shape().to_signed().map_err(outboard_tensor::TensorError::from)?;
    TensorDesc::new(address, len, code.into(), bits.into(), &dims).ok_or_else(|| Error::InputUnsupported {
        index,
        reason: format!("it has {} dimensions; the protocol carries at most {MAX_DIMS}", dims.len()),
    })
}
