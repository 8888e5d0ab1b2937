//! Elements in the order of memory, through a buffer of 4 KiB in data memory; without room for it, one by one. For one core.

use crate::abi::Tensor;
use crate::element::Element;
use crate::kernel::{Tcm, fail, routine};

/// Bytes of a buffer.
const BUFFER: usize = 4096;

/// What a stream has of its tensor: a buffer with the elements from `first` on.
struct Window<'t, T: Element> {
    tensor: &'t Tensor,
    buffer: Option<Tcm<T>>,
    one: [T; 1],
    first: u32,
    next: u32,
}

impl<'t, T: Element> Window<'t, T> {
    fn new(tensor: &'t Tensor) -> Self {
        tensor.expect::<T>();
        routine::_outboard_stream(tensor.data());
        Self { tensor, buffer: Tcm::new(BUFFER / size_of::<T>()), one: [T::default()], first: 0, next: 0 }
    }

    /// The buffer, as far as the tensor goes.
    fn elements(&mut self) -> &mut [T] {
        let left = (self.tensor.numel() - self.first) as usize;
        let all = self.buffer.as_mut().map_or(&mut self.one[..], Tcm::as_mut);
        let length = all.len().min(left);
        &mut all[..length]
    }

    /// Where the next element is in the buffer.
    fn place(&mut self) -> usize {
        if self.next >= self.tensor.numel() {
            fail("a stream goes past the last element of its tensor");
        }
        (self.next - self.first) as usize
    }
}

/// Reads one element after the other.
pub struct ReadStream<'t, T: Element>(Window<'t, T>);

impl<'t, T: Element> ReadStream<'t, T> {
    /// From the first element on; another element type ends the operation.
    pub fn new(tensor: &'t Tensor) -> Self {
        Self(Window::new(tensor))
    }

    /// The next element; past the end, the operation ends.
    pub fn read(&mut self) -> T {
        let window = &mut self.0;
        let mut place = window.place();
        let full = window.elements().len();
        if window.next == 0 || place == full {
            window.first = window.next;
            place = 0;
            let (tensor, first) = (window.tensor, window.first);
            tensor.read_into(window.elements(), first);
        }
        window.next += 1;
        window.elements()[place]
    }
}

/// Writes one element after the other; what is in the buffer reaches the tensor when the stream is dropped.
pub struct WriteStream<'t, T: Element>(Window<'t, T>);

impl<'t, T: Element> WriteStream<'t, T> {
    /// From the first element on; another element type ends the operation.
    pub fn new(tensor: &'t Tensor) -> Self {
        Self(Window::new(tensor))
    }

    /// Sets the next element; past the end, the operation ends.
    pub fn write(&mut self, value: T) {
        let place = self.0.place();
        self.0.elements()[place] = value;
        self.0.next += 1;
        if place + 1 == self.0.elements().len() {
            self.flush();
        }
    }

    fn flush(&mut self) {
        let window = &mut self.0;
        let (tensor, first, count) = (window.tensor, window.first, (window.next - window.first) as usize);
        if count > 0 {
            tensor.write_from(&mut window.elements()[..count], first);
            window.first = window.next;
        }
    }
}

impl<T: Element> Drop for WriteStream<'_, T> {
    fn drop(&mut self) {
        self.flush();
    }
}
