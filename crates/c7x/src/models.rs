//! Constants: from weights in device memory to the array that a module's entry receives.
//!
//! Tensor data stays where it is; only what describes it is allocated. Data that lies less aligned than its element type
//! needs is copied to an aligned place, because the original's writer aligns to four bytes only.

use crate::abi::{
    Any, DataType, Device, MAX_ALLOCATED_DIMS, NdArray, Object, Shape, Str, TYPE_DATA_TYPE, TYPE_FLOAT, TYPE_INT,
    TYPE_SHAPE, TYPE_STR, TYPE_TENSOR, pointer,
};
use crate::pool::{Owner, PoolId};
use crate::runtime::Runtime;
use crate::weights::{self, Constant, WeightsError};
use alloc::vec::Vec;

/// Constants in device memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Constants {
    /// Address of the array of values.
    pub address: u64,
    /// Number of constants.
    pub count: usize,
}

/// Why constants could not be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// The weights are not where they are said to be.
    #[error("weights: {size} bytes at {address:#x} are not inside the device's memory")]
    Outside {
        /// Device address.
        address: u64,
        /// Bytes.
        size: u64,
    },
    /// The weights are malformed.
    #[error(transparent)]
    Weights(#[from] WeightsError),
    /// The MAIN pool is exhausted.
    #[error("weights: the MAIN pool has no room for the constants")]
    OutOfMemory,
}

/// A constant without its borrow of the file.
enum Plan {
    Tensor { dtype: DataType, shape: Vec<i64>, offset: u64, size: u64 },
    Shape(Vec<i64>),
    Str { offset: u64, size: u64 },
    Plain(Any),
}

fn plan(file: &[u8]) -> Result<Vec<Plan>, WeightsError> {
    let parsed = weights::parse(file)?;
    let start = file.as_ptr().addr();
    let plain = |type_index, value| Plan::Plain(Any { type_index, padding: 0, value });
    let planned = parsed.into_iter().map(|constant| match constant {
        Constant::Tensor(tensor) => Plan::Tensor {
            dtype: DataType { code: tensor.code, bits: tensor.bits, lanes: tensor.lanes },
            shape: tensor.shape,
            offset: tensor.offset as u64,
            size: tensor.data.len() as u64,
        },
        Constant::Shape(dims) => Plan::Shape(dims),
        Constant::Str(text) => Plan::Str { offset: (text.as_ptr().addr() - start) as u64, size: text.len() as u64 },
        Constant::Int(value) => plain(TYPE_INT, value.cast_unsigned()),
        Constant::Float(value) => plain(TYPE_FLOAT, value.to_bits()),
        Constant::DataType([a, b, c, d]) => plain(TYPE_DATA_TYPE, u64::from(u32::from_le_bytes([a, b, c, d]))),
    });
    Ok(planned.collect())
}

/// Reads the weights at `[address, address + size)` and builds their constants for `owner`.
///
/// # Errors
/// The weights are outside memory or malformed, or memory is exhausted; nothing stays allocated then.
pub(crate) fn build(runtime: &mut Runtime, address: u64, size: u64, owner: Owner) -> Result<Constants, ModelError> {
    let file = runtime.memory.bytes(address, size).ok_or(ModelError::Outside { address, size })?;
    let plans = plan(file)?;
    let mut made = Vec::with_capacity(plans.len());
    let mut builder = Builder { runtime, base: address, owner, blocks: Vec::new() };
    let built = plans.iter().try_for_each(|plan| {
        made.push(builder.value(plan)?);
        Some(())
    });
    let array = built.and_then(|()| builder.array(&made));
    let blocks = builder.blocks;
    match array {
        Some(address) => Ok(Constants { address, count: made.len() }),
        None => {
            for block in blocks {
                runtime.release(block);
            }
            Err(ModelError::OutOfMemory)
        }
    }
}

struct Builder<'a> {
    runtime: &'a mut Runtime,
    base: u64,
    owner: Owner,
    blocks: Vec<u64>,
}

/// Constants are never deleted by reference count: one reference and no deleter.
const fn constant_head(type_index: i32) -> Object {
    Object { type_index, ref_counter: 1, deleter: None }
}

impl Builder<'_> {
    fn allocate(&mut self, size: u64) -> Option<u64> {
        let block = self.runtime.allocate(PoolId::Main, size, 64, self.owner)?;
        self.blocks.push(block);
        Some(block)
    }

    fn value(&mut self, plan: &Plan) -> Option<Any> {
        match plan {
            Plan::Tensor { dtype, shape, offset, size } => {
                let data = self.aligned(self.base + offset, *size, dtype.bytes())?;
                self.tensor(*dtype, shape, data)
            }
            Plan::Shape(dims) => self.shape(dims),
            Plan::Str { offset, size } => self.text(self.base + offset, *size),
            Plan::Plain(value) => Some(*value),
        }
    }

    /// Data at an address its elements may have: in place, or copied when it lies less aligned than they need.
    fn aligned(&mut self, data: u64, size: u64, element: u64) -> Option<u64> {
        if data.is_multiple_of(element.next_power_of_two().clamp(1, 16)) {
            return Some(data);
        }
        let copy = self.allocate(size)?;
        self.runtime.memory.copy(copy, data, size).then_some(copy)
    }

    fn tensor(&mut self, dtype: DataType, dims: &[i64], data: u64) -> Option<Any> {
        let beyond = if dims.len() > MAX_ALLOCATED_DIMS { size_of_val(dims) as u64 } else { 0 };
        let address = self.allocate(size_of::<NdArray>() as u64 + beyond)?;
        let inside = address + core::mem::offset_of!(NdArray, shape_storage) as u64;
        let shape = if beyond == 0 { inside } else { address + size_of::<NdArray>() as u64 };
        let mut shape_storage = [0; MAX_ALLOCATED_DIMS];
        if beyond == 0 {
            shape_storage[..dims.len()].copy_from_slice(dims);
        } else {
            self.runtime.write_dims(shape, dims)?;
        }
        let array = NdArray {
            object: constant_head(TYPE_TENSOR),
            data: pointer(data),
            device: Device { device_type: 1, device_id: 0 },
            ndim: i32::try_from(dims.len()).ok()?,
            dtype,
            shape: pointer(shape),
            strides: core::ptr::null_mut(),
            byte_offset: 0,
            shape_storage,
            strides_storage: [0; MAX_ALLOCATED_DIMS],
            flags: 0,
            padding: 0,
            storage: core::ptr::null_mut(),
        };
        self.runtime.place(address, array)?;
        Some(Any::tensor(pointer(address)))
    }

    fn shape(&mut self, dims: &[i64]) -> Option<Any> {
        let beyond = if dims.len() > MAX_ALLOCATED_DIMS { size_of_val(dims) as u64 } else { 0 };
        let address = self.allocate(size_of::<Shape>() as u64 + beyond)?;
        let inside = address + core::mem::offset_of!(Shape, shape_data) as u64;
        let data = if beyond == 0 { inside } else { address + size_of::<Shape>() as u64 };
        let shape = Shape {
            object: constant_head(TYPE_SHAPE),
            data: pointer::<i64>(data),
            size: dims.len(),
            shape_data: [0; MAX_ALLOCATED_DIMS],
        };
        self.runtime.place(address, shape)?;
        self.runtime.write_dims(data, dims)?;
        Some(Any::object(TYPE_SHAPE, pointer(address)))
    }

    fn text(&mut self, from: u64, size: u64) -> Option<Any> {
        let address = self.allocate(size_of::<Str>() as u64 + size + 1)?;
        let bytes = address + size_of::<Str>() as u64;
        self.runtime.memory.copy(bytes, from, size).then_some(())?;
        let text =
            Str { object: constant_head(TYPE_STR), data: pointer::<u8>(bytes), size: usize::try_from(size).ok()? };
        self.runtime.place(address, text)?;
        Some(Any::object(TYPE_STR, pointer(address)))
    }

    fn array(&mut self, values: &[Any]) -> Option<u64> {
        let stride = size_of::<Any>() as u64;
        let address = self.allocate(stride * values.len().max(1) as u64)?;
        for (index, value) in values.iter().enumerate() {
            self.runtime.place(address + index as u64 * stride, *value)?;
        }
        Some(address)
    }
}
