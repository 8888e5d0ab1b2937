//! The `.npy` format: bounded reader of versions 1 to 3, writer of version 1.
//!
//! The reader never evaluates the header, which is a Python literal: it accepts a dictionary of the three keys the format
//! knows and nothing else.

use crate::{DType, Shape, ShapeError, Tensor, TensorError, TensorView};
use smallvec::SmallVec;

const MAGIC: &[u8; 6] = b"\x93NUMPY";
/// Longest header that is looked at; those of simple types have about 100 bytes.
const MAX_HEADER: usize = 0xFFFF;
/// Data of written files starts at a multiple of this.
const ALIGN: usize = 64;

/// Why bytes are not a `.npy` file that can be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NpyError {
    /// The first bytes are not the magic of the format.
    #[error(
        "not a .npy file: it does not start with \\x93NUMPY; raw bytes need a shape and an element type beside them"
    )]
    NotNpy,
    /// A version of the format that is not known.
    #[error(".npy format version {major}.{minor}: versions 1.0, 2.0 and 3.0 are known")]
    Version {
        /// First version byte.
        major: u8,
        /// Second version byte.
        minor: u8,
    },
    /// The file ends inside its header.
    #[error("the .npy file ends in its header: it needs {need} bytes up to the data, {got} are there")]
    Truncated {
        /// Bytes up to the data.
        need: usize,
        /// Bytes of the file.
        got: usize,
    },
    /// The header is longer than any sensible one.
    #[error("the .npy header says it has {len} bytes; more than {MAX_HEADER} are not read")]
    HeaderTooLong {
        /// Its length.
        len: usize,
    },
    /// The header is not the dictionary the format prescribes.
    #[error(".npy header, byte {offset} of the file: expected {expected}")]
    Syntax {
        /// Byte of the file.
        offset: usize,
        /// What should be there.
        expected: &'static str,
    },
    /// A key is unknown, doubled or missing.
    #[error(".npy header: key `{key}` is {problem}; the keys are descr, fortran_order and shape")]
    Key {
        /// The key.
        key: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// The element type is not one this program knows.
    #[error(".npy element type `{descr}` is not supported: {why}")]
    Descr {
        /// The type as the file writes it.
        descr: String,
        /// The reason.
        why: &'static str,
    },
    /// The shape cannot be used.
    #[error(".npy header: {0}")]
    Shape(#[from] ShapeError),
    /// The data is shorter or longer than the header says.
    #[error(".npy data: a {dtype} array of shape ({shape}) has {need} bytes, the file has {got} behind its header")]
    DataSize {
        /// Element type.
        dtype: DType,
        /// Shape.
        shape: Shape,
        /// Bytes they make.
        need: usize,
        /// Bytes behind the header.
        got: usize,
    },
    /// The format cannot hold this element type.
    #[error("a .npy file cannot hold {dtype}: write a raw file (.bin) instead")]
    Unwritable {
        /// The element type.
        dtype: DType,
    },
}

/// What a header says.
#[derive(Debug, Default)]
struct Header {
    descr: Option<String>,
    fortran_order: Option<bool>,
    shape: Option<Shape>,
}

pub(crate) fn read(file: &[u8]) -> Result<Tensor, TensorError> {
    let (start, data_offset) = header_range(file)?;
    let header = Parser { file, offset: start, end: data_offset }.header()?;
    let missing = |key: &str| NpyError::Key { key: key.to_owned(), problem: "missing" };
    let descr = header.descr.ok_or_else(|| missing("descr"))?;
    let fortran = header.fortran_order.ok_or_else(|| missing("fortran_order"))?;
    let shape = header.shape.ok_or_else(|| missing("shape"))?;
    let (dtype, big_endian) = element_type(&descr)?;

    let need = shape.bytes(dtype).map_err(NpyError::Shape)?;
    let data = file.get(data_offset..).unwrap_or_default();
    if data.len() != need {
        return Err(NpyError::DataSize { dtype, shape, need, got: data.len() }.into());
    }
    let mut bytes = if fortran { to_row_major(data, &shape, dtype.size()) } else { data.to_vec() };
    if big_endian {
        bytes.chunks_exact_mut(dtype.size()).for_each(<[u8]>::reverse);
    }
    Tensor::new(dtype, shape, bytes)
}

/// First byte of the header text and first byte of the data.
fn header_range(file: &[u8]) -> Result<(usize, usize), NpyError> {
    if !file.starts_with(MAGIC) {
        return Err(NpyError::NotNpy);
    }
    let truncated = |need| NpyError::Truncated { need, got: file.len() };
    let (major, minor) = match file.get(6..8) {
        Some(&[major, minor]) => (major, minor),
        _ => return Err(truncated(10)),
    };
    let (start, len) = match (major, minor) {
        (1, 0) => {
            let field = file.get(8..10).and_then(|bytes| bytes.try_into().ok()).ok_or_else(|| truncated(10))?;
            (10, usize::from(u16::from_le_bytes(field)))
        }
        (2 | 3, 0) => {
            let field = file.get(8..12).and_then(|bytes| bytes.try_into().ok()).ok_or_else(|| truncated(12))?;
            (12, usize::try_from(u32::from_le_bytes(field)).unwrap_or(usize::MAX))
        }
        _ => return Err(NpyError::Version { major, minor }),
    };
    if len > MAX_HEADER {
        return Err(NpyError::HeaderTooLong { len });
    }
    let end = start + len;
    if end > file.len() { Err(truncated(end)) } else { Ok((start, end)) }
}

/// The element type of a `descr`, and whether its bytes are swapped.
fn element_type(descr: &str) -> Result<(DType, bool), NpyError> {
    let refuse = |why| NpyError::Descr { descr: descr.chars().take(32).collect(), why };
    let mut letters = descr.chars();
    let (Some(order), Some(kind)) = (letters.next(), letters.next()) else {
        return Err(refuse("it is too short"));
    };
    let size: usize = letters.as_str().parse().map_err(|_| refuse("it has no size"))?;
    let dtype = DType::from_npy_kind(kind, size).ok_or_else(|| {
        refuse("only bool, integers of 1 to 8 bytes and floats of 2 to 8 bytes can be given to a device")
    })?;
    match order {
        '<' => Ok((dtype, false)),
        '>' => Ok((dtype, true)),
        '|' if size == 1 => Ok((dtype, false)),
        _ => Err(refuse("it states no byte order (< or >)")),
    }
}

/// Copies column-major elements into row-major order.
fn to_row_major(data: &[u8], shape: &Shape, size: usize) -> Vec<u8> {
    let dims = shape.dims();
    // Distance, in elements, between neighbours along each dimension of the source.
    let mut strides: SmallVec<[usize; 6]> = SmallVec::with_capacity(dims.len());
    let mut stride = 1usize;
    for dim in dims {
        strides.push(stride);
        stride = stride.saturating_mul(*dim);
    }
    let mut bytes = Vec::with_capacity(data.len());
    let mut index: SmallVec<[usize; 6]> = SmallVec::from_elem(0, dims.len());
    while bytes.len() < data.len() {
        let element: usize = index.iter().zip(&strides).map(|(index, stride)| index * stride).sum();
        let Some(source) = data.get(element * size..(element + 1) * size) else { break };
        bytes.extend_from_slice(source);
        for (position, dim) in index.iter_mut().zip(dims).rev() {
            *position += 1;
            if *position < *dim {
                break;
            }
            *position = 0;
        }
    }
    bytes
}

/// A cursor over the header text.
struct Parser<'a> {
    file: &'a [u8],
    offset: usize,
    end: usize,
}

impl<'a> Parser<'a> {
    fn header(mut self) -> Result<Header, NpyError> {
        let mut header = Header::default();
        self.expect(b'{', "`{`")?;
        while !self.accept(b'}') {
            let key = self.string()?;
            self.expect(b':', "`:`")?;
            let doubled = match key.as_str() {
                "descr" => header.descr.replace(self.descr()?).is_some(),
                "fortran_order" => header.fortran_order.replace(self.boolean()?).is_some(),
                "shape" => header.shape.replace(self.shape()?).is_some(),
                _ => return Err(NpyError::Key { key, problem: "unknown" }),
            };
            if doubled {
                return Err(NpyError::Key { key, problem: "given twice" });
            }
            if !self.accept(b',') {
                self.expect(b'}', "`,` or `}`")?;
                break;
            }
        }
        match self.next() {
            None => Ok(header),
            Some(_) => Err(self.syntax("nothing but blanks")),
        }
    }

    fn syntax(&self, expected: &'static str) -> NpyError {
        NpyError::Syntax { offset: self.offset, expected }
    }

    fn rest(&self) -> &'a [u8] {
        self.file.get(self.offset..self.end).unwrap_or_default()
    }

    /// The next byte that is not blank.
    fn next(&mut self) -> Option<u8> {
        let blanks = self.rest().iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        self.offset += blanks;
        self.rest().first().copied()
    }

    fn accept(&mut self, byte: u8) -> bool {
        let there = self.next() == Some(byte);
        self.offset += usize::from(there);
        there
    }

    fn expect(&mut self, byte: u8, expected: &'static str) -> Result<(), NpyError> {
        if self.accept(byte) { Ok(()) } else { Err(self.syntax(expected)) }
    }

    fn string(&mut self) -> Result<String, NpyError> {
        let quote = self.next().filter(|byte| matches!(byte, b'\'' | b'"')).ok_or_else(|| self.syntax("a string"))?;
        self.offset += 1;
        let len =
            self.rest().iter().position(|byte| *byte == quote).ok_or_else(|| self.syntax("the end of a string"))?;
        let text = self.rest().get(..len).unwrap_or_default();
        if text.contains(&b'\\') || !text.is_ascii() {
            return Err(self.syntax("a string of plain ASCII"));
        }
        let text = String::from_utf8_lossy(text).into_owned();
        self.offset += len + 1;
        Ok(text)
    }

    fn descr(&mut self) -> Result<String, NpyError> {
        if matches!(self.next(), Some(b'[' | b'(')) {
            return Err(NpyError::Descr { descr: "[...]".to_owned(), why: "it is a structured type" });
        }
        self.string()
    }

    fn boolean(&mut self) -> Result<bool, NpyError> {
        self.next();
        for (word, value) in [(&b"True"[..], true), (b"False", false)] {
            if self.rest().starts_with(word) {
                self.offset += word.len();
                return Ok(value);
            }
        }
        Err(self.syntax("True or False"))
    }

    fn shape(&mut self) -> Result<Shape, NpyError> {
        self.expect(b'(', "a tuple of dimensions")?;
        let mut dims: SmallVec<[usize; 6]> = SmallVec::new();
        while !self.accept(b')') {
            if dims.len() == Shape::MAX_DIMS {
                return Err(ShapeError::TooManyDims { count: dims.len() + 1 }.into());
            }
            dims.push(self.dimension()?);
            if !self.accept(b',') {
                self.expect(b')', "`,` or `)`")?;
                break;
            }
        }
        Ok(Shape::new(&dims)?)
    }

    fn dimension(&mut self) -> Result<usize, NpyError> {
        self.next();
        let digits = self.rest().iter().take_while(|byte| byte.is_ascii_digit()).count();
        let text = std::str::from_utf8(self.rest().get(..digits).unwrap_or_default()).unwrap_or_default();
        let dim = text.parse().map_err(|_| self.syntax("a dimension that fits this machine"))?;
        self.offset += digits;
        // Python 2 wrote long integers with an L.
        if self.rest().first() == Some(&b'L') {
            self.offset += 1;
        }
        Ok(dim)
    }
}

pub(crate) fn write(tensor: &TensorView<'_>) -> Result<Vec<u8>, NpyError> {
    let dtype = tensor.dtype();
    let kind = dtype.npy_kind().ok_or(NpyError::Unwritable { dtype })?;
    let order = if dtype.size() == 1 { '|' } else { '<' };
    let comma = if tensor.shape().ndim() == 1 { "," } else { "" };
    let shape = tensor.shape().dims().iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let mut header =
        format!("{{'descr': '{order}{kind}{}', 'fortran_order': False, 'shape': ({shape}{comma}), }}", dtype.size());
    let fixed = MAGIC.len() + 4;
    // Blanks up to the newline that ends the header put the data on an aligned offset.
    let padding = (fixed + header.len() + 1).next_multiple_of(ALIGN) - (fixed + header.len() + 1);
    header.extend(std::iter::repeat_n(' ', padding));
    header.push('\n');
    // 32 dimensions of 20 digits stay far below the 65,535 bytes of version 1.
    let len = u16::try_from(header.len()).map_err(|_| NpyError::HeaderTooLong { len: header.len() })?;

    let mut file = Vec::with_capacity(fixed + header.len() + tensor.bytes().len());
    file.extend_from_slice(MAGIC);
    file.extend_from_slice(&[1, 0]);
    file.extend_from_slice(&len.to_le_bytes());
    file.extend_from_slice(header.as_bytes());
    file.extend_from_slice(tensor.bytes());
    Ok(file)
}
