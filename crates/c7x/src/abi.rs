//! The structs that module code and the runtime share, exactly as compiled modules expect them.
//!
//! Layouts and type indices: `docs/reference/c7x-runtime.md`, "Objects". All are for 64-bit targets with natural alignment.

use core::ffi::c_void;

/// Type index of an [`Any`]: no value.
pub const TYPE_NONE: i32 = 0;
/// Type index: i64.
pub const TYPE_INT: i32 = 1;
/// Type index: bool.
pub const TYPE_BOOL: i32 = 2;
/// Type index: f64.
pub const TYPE_FLOAT: i32 = 3;
/// Type index: a pointer the runtime does not look behind.
pub const TYPE_OPAQUE: i32 = 4;
/// Type index: [`DataType`].
pub const TYPE_DATA_TYPE: i32 = 5;
/// Type index from which a value is an object with a reference count.
pub const TYPE_FIRST_OBJECT: i32 = 64;
/// Type index: a string object.
pub const TYPE_STR: i32 = 65;
/// Type index: [`Shape`].
pub const TYPE_SHAPE: i32 = 69;
/// Type index: [`NdArray`].
pub const TYPE_TENSOR: i32 = 70;
/// Type index: [`Array`].
pub const TYPE_ARRAY: i32 = 71;
/// Type index: [`Storage`].
pub const TYPE_STORAGE: i32 = 128;

/// Most dimensions of a tensor the runtime allocates.
pub const MAX_ALLOCATED_DIMS: usize = 8;
/// Most elements of an [`Array`].
pub const MAX_ARRAY: usize = 128;

/// A value of any type: 16 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Any {
    /// One of the `TYPE_…` indices.
    pub type_index: i32,
    /// Zero.
    pub padding: u32,
    /// The value's bits: integer, double, or pointer.
    pub value: u64,
}

impl Any {
    /// No value.
    pub const NONE: Self = Self { type_index: TYPE_NONE, padding: 0, value: 0 };

    /// An object behind a pointer.
    pub fn object(type_index: i32, object: *mut Object) -> Self {
        if object.is_null() {
            return Self::NONE;
        }
        Self { type_index, padding: 0, value: object.addr() as u64 }
    }

    /// A tensor.
    pub fn tensor(array: *mut NdArray) -> Self {
        Self::object(TYPE_TENSOR, array.cast())
    }

    /// Whether the value is an object with a reference count.
    pub fn is_object(&self) -> bool {
        self.type_index >= TYPE_FIRST_OBJECT
    }

    /// The pointer the value holds, whatever its type.
    pub fn pointer<T>(&self) -> *mut T {
        pointer(self.value)
    }

    /// The integer the value holds, for Int and Bool.
    pub fn int(&self) -> Option<i64> {
        matches!(self.type_index, TYPE_INT | TYPE_BOOL).then_some(self.value.cast_signed())
    }

    /// The value as an object of one type.
    pub fn as_object<T>(&self, type_index: i32) -> Option<*mut T> {
        (self.type_index == type_index && self.value != 0).then(|| self.pointer())
    }
}

/// Frees an object whose count reached zero.
pub type Deleter = unsafe extern "C" fn(*mut Object);

/// Head of every object: 16 bytes.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Object {
    /// Type index, 64 and above.
    pub type_index: i32,
    /// References.
    pub ref_counter: i32,
    /// Called when the last reference goes; none for inputs and constants.
    pub deleter: Option<Deleter>,
}

/// Element type: 4 bytes, passed by value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct DataType {
    /// 0 int, 1 uint, 2 float, 3 opaque, 4 bfloat, 6 bool.
    pub code: u8,
    /// Bits of an element.
    pub bits: u8,
    /// Lanes of an element.
    pub lanes: u16,
}

impl DataType {
    /// Unpacks the four bytes of a value.
    pub fn from_bits(value: u64) -> Self {
        let [code, bits, low, high, ..] = value.to_le_bytes();
        Self { code, bits, lanes: u16::from_le_bytes([low, high]) }
    }

    /// Bytes of one element (all lanes), as the runtime counts them.
    pub fn bytes(self) -> u64 {
        u64::from(self.bits).div_ceil(8) * u64::from(self.lanes.max(1))
    }
}

/// Device of a tensor: 8 bytes; modules use {1, 0}, the CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct Device {
    /// 1 is the CPU.
    pub device_type: i32,
    /// Always 0.
    pub device_id: i32,
}

/// A tensor object; the DLPack tensor starts at offset 16.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct NdArray {
    /// Object head, [`TYPE_TENSOR`].
    pub object: Object,
    /// First element, before `byte_offset`.
    pub data: *mut c_void,
    /// Device.
    pub device: Device,
    /// Number of dimensions.
    pub ndim: i32,
    /// Element type.
    pub dtype: DataType,
    /// Dimensions.
    pub shape: *mut i64,
    /// Strides, or null for row-major.
    pub strides: *mut i64,
    /// Offset of the first element.
    pub byte_offset: u64,
    /// Where `shape` points for small tensors.
    pub shape_storage: [i64; MAX_ALLOCATED_DIMS],
    /// Where `strides` points when there are any.
    pub strides_storage: [i64; MAX_ALLOCATED_DIMS],
    /// Bit 0: the data belongs to this object.
    pub flags: u32,
    /// Zero.
    pub padding: u32,
    /// The storage the data lies in, with a reference, or null.
    pub storage: *mut Storage,
}

/// A shape object.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Shape {
    /// Object head, [`TYPE_SHAPE`].
    pub object: Object,
    /// Dimensions.
    pub data: *const i64,
    /// Number of dimensions.
    pub size: usize,
    /// Where `data` points for small shapes.
    pub shape_data: [i64; MAX_ALLOCATED_DIMS],
}

/// A tuple.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Array {
    /// Object head, [`TYPE_ARRAY`].
    pub object: Object,
    /// Number of elements.
    pub size: i32,
    /// Zero.
    pub padding: u32,
    /// The elements.
    pub elements: [Any; MAX_ARRAY],
}

/// Memory that tensors are views of.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Storage {
    /// Object head, [`TYPE_STORAGE`].
    pub object: Object,
    /// The memory, or null for size 0.
    pub data: *mut c_void,
    /// Bytes.
    pub size: usize,
    /// Device.
    pub device: Device,
    /// Pool number.
    pub pool: i32,
    /// Zero.
    pub padding: u32,
}

/// A string object.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct Str {
    /// Object head, [`TYPE_STR`].
    pub object: Object,
    /// The bytes, followed by a zero byte.
    pub data: *const u8,
    /// Bytes without the zero byte.
    pub size: usize,
}

const _: () = {
    use core::mem::offset_of;
    assert!(size_of::<Any>() == 16 && offset_of!(Any, value) == 8);
    assert!(size_of::<Object>() == 16 && offset_of!(Object, deleter) == 8);
    assert!(size_of::<DataType>() == 4 && size_of::<Device>() == 8);
    assert!(size_of::<NdArray>() == 208);
    assert!(offset_of!(NdArray, data) == 16 && offset_of!(NdArray, device) == 24 && offset_of!(NdArray, ndim) == 32);
    assert!(offset_of!(NdArray, dtype) == 36 && offset_of!(NdArray, shape) == 40 && offset_of!(NdArray, strides) == 48);
    assert!(offset_of!(NdArray, byte_offset) == 56 && offset_of!(NdArray, shape_storage) == 64);
    assert!(offset_of!(NdArray, strides_storage) == 128 && offset_of!(NdArray, flags) == 192);
    assert!(offset_of!(NdArray, storage) == 200);
    assert!(size_of::<Shape>() == 96 && offset_of!(Shape, size) == 24 && offset_of!(Shape, shape_data) == 32);
    assert!(size_of::<Array>() == 2072 && offset_of!(Array, elements) == 24);
    assert!(size_of::<Storage>() == 48 && offset_of!(Storage, device) == 32 && offset_of!(Storage, pool) == 40);
    assert!(size_of::<Str>() == 32);
};

/// Bytes of a tensor of this shape and type: ∏shape · ⌈bits/8⌉ · lanes; `None` for a negative dimension or an overflow.
pub fn tensor_bytes(shape: &[i64], dtype: DataType) -> Option<u64> {
    shape.iter().try_fold(dtype.bytes(), |size, dim| size.checked_mul(u64::try_from(*dim).ok()?))
}

/// A device address as a pointer: on this device they are the same.
pub(crate) fn pointer<T>(address: u64) -> *mut T {
    core::ptr::with_exposed_provenance_mut(usize::try_from(address).unwrap_or(0))
}
