//! Rust types that a tensor's bytes can be read as.

use crate::DType;

/// A Rust type with the layout of an element type. Implemented by the integers, the floats and `bool`; no other type can be.
pub trait Element: Copy + private::Sealed {
    /// The element type.
    const DTYPE: DType;

    /// Appends the little-endian bytes of the value.
    fn append_to(self, bytes: &mut Vec<u8>);

    /// Reads a value from the little-endian bytes of one element, `None` for another number of bytes.
    fn read_from(bytes: &[u8]) -> Option<Self>;
}

mod private {
    pub trait Sealed {}
}

macro_rules! element {
    ($($ty:ty => $dtype:ident),* $(,)?) => {$(
        impl private::Sealed for $ty {}

        impl Element for $ty {
            const DTYPE: DType = DType::$dtype;

            fn append_to(self, bytes: &mut Vec<u8>) {
                bytes.extend_from_slice(&self.to_le_bytes());
            }

            fn read_from(bytes: &[u8]) -> Option<Self> {
                bytes.try_into().ok().map(Self::from_le_bytes)
            }
        }
    )*};
}

element! {
    f32 => Float32, f64 => Float64,
    i8 => Int8, i16 => Int16, i32 => Int32, i64 => Int64,
    u8 => UInt8, u16 => UInt16, u32 => UInt32, u64 => UInt64,
}

impl private::Sealed for bool {}

impl Element for bool {
    const DTYPE: DType = DType::Bool;

    fn append_to(self, bytes: &mut Vec<u8>) {
        bytes.push(u8::from(self));
    }

    fn read_from(bytes: &[u8]) -> Option<Self> {
        <[u8; 1]>::try_from(bytes).ok().map(|[byte]| byte != 0)
    }
}
