//! metaneff: the message beside a NEFF that names the model's tensors. A small reader and writer of its protocol buffers.
//!
//! ```
//! use outboard_neff::metaneff::{DataType, MetaTensor, TensorRole};
//!
//! let tensor = MetaTensor {
//!     name: "input0".into(),
//!     shape: vec![1, 1, 1, 32],
//!     data_type: DataType(1),
//!     role: TensorRole(1),
//!     ..MetaTensor::default()
//! };
//! let bytes = [0x0a, 6, b'i', b'n', b'p', b'u', b't', b'0', 0x12, 4, 1, 1, 1, 32, 0x18, 1, 0x38, 1];
//! assert_eq!(tensor.encode(), bytes);
//! assert_eq!(MetaTensor::decode(&bytes).unwrap(), tensor);
//! ```

use std::collections::BTreeMap;

/// Why bytes are not a metaneff message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("metaneff: {problem} at offset {offset:#x} of its message; pass the .metaneff file that the compiler wrote")]
pub struct MetaneffError {
    /// Offset in the message it lies in.
    pub offset: usize,
    /// What is wrong.
    pub problem: &'static str,
}

/// An element type by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct DataType(pub u64);

impl DataType {
    /// Its name; `None` for a number that is not assigned.
    #[must_use]
    pub const fn name(self) -> Option<&'static str> {
        Some(match self.0 {
            0 => "UNDEFINED",
            1 => "FLOAT",
            2 => "INT32",
            3 => "BYTE",
            4 => "STRING",
            5 => "BOOL",
            6 => "UINT8",
            7 => "INT8",
            8 => "UINT16",
            9 => "INT16",
            10 => "INT64",
            12 => "FLOAT16",
            13 => "DOUBLE",
            14 => "BFLOAT16",
            15 => "F8E4M3FN",
            16 => "F8E5M2",
            _ => return None,
        })
    }

    /// The number of the same type in PyTorch; `None` for types that have none.
    #[must_use]
    pub const fn scalar_type(self) -> Option<u8> {
        Some(match self.0 {
            1 => 6,
            2 => 3,
            3 | 4 | 6 => 0,
            5 => 11,
            7 => 1,
            8 => 27,
            9 => 2,
            10 => 4,
            12 => 5,
            13 => 7,
            14 => 15,
            15 => 24,
            16 => 23,
            _ => return None,
        })
    }
}

/// What a tensor is for, by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct TensorRole(pub u64);

impl TensorRole {
    /// Its name; `None` for a number that is not assigned.
    #[must_use]
    pub const fn name(self) -> Option<&'static str> {
        Some(match self.0 {
            0 => "UNDEFINED",
            1 => "USER_INPUT",
            2 => "INPUT_STATE",
            3 => "INPUT_WEIGHT",
            _ => return None,
        })
    }
}

/// A tensor.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct MetaTensor {
    /// Its name: `inputN` or `outputN`.
    pub name: String,
    /// Dimensions.
    pub shape: Vec<i64>,
    /// Element type.
    pub data_type: DataType,
    /// Bytes of its contents.
    pub content: usize,
    /// The first dimension may vary.
    pub allow_dynamic_batch_size: bool,
    /// Key in a checkpoint.
    pub checkpoint_key: Option<String>,
    /// What it is for.
    pub role: TensorRole,
    /// Name that the user gave.
    pub user_input_key: Option<String>,
}

/// The message.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct MetaNeff {
    /// Inputs in order.
    pub input_tensors: Vec<MetaTensor>,
    /// Outputs in order.
    pub output_tensors: Vec<MetaTensor>,
    /// Bytes of the serialised graph.
    pub serialized_graph_def: usize,
    /// Name.
    pub name: String,
    /// Outputs that are written into inputs: output, input.
    pub output_aliases_to: BTreeMap<i64, i64>,
    /// Inputs that the user passes.
    pub num_user_inputs: u64,
    /// Inputs that are states.
    pub num_states: u64,
    /// Inputs that are weights.
    pub num_weights: u64,
    /// Names that are not `inputN` or `outputN` by their position.
    pub misnamed: Vec<String>,
}

/// A field of a message: a number or bytes.
enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl<'a> Value<'a> {
    fn number(&self) -> u64 {
        if let Self::Number(value) = self { *value } else { 0 }
    }

    fn bytes(&self) -> &'a [u8] {
        if let Self::Bytes(bytes) = self { bytes } else { &[] }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(self.bytes()).into_owned()
    }
}

struct Fields<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Fields<'a> {
    const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    const fn bad(&self, problem: &'static str) -> MetaneffError {
        MetaneffError { offset: self.at, problem }
    }

    fn varint(&mut self) -> Result<u64, MetaneffError> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = *self.bytes.get(self.at).ok_or(self.bad("a number ends early"))?;
            self.at += 1;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(self.bad("a number has more than ten bytes"))
    }

    fn take(&mut self, count: u64) -> Result<&'a [u8], MetaneffError> {
        let rest = self.bytes.get(self.at..).unwrap_or(&[]);
        let taken = usize::try_from(count).ok().and_then(|count| rest.get(..count));
        let taken = taken.ok_or(self.bad("a field reaches beyond the end"))?;
        self.at += taken.len();
        Ok(taken)
    }

    fn next(&mut self) -> Result<Option<(u64, Value<'a>)>, MetaneffError> {
        if self.at >= self.bytes.len() {
            return Ok(None);
        }
        let key = self.varint()?;
        let value = match key & 7 {
            0 => Value::Number(self.varint()?),
            1 => {
                let bytes = self.take(8)?;
                Value::Number(bytes.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes)))
            }
            2 => {
                let len = self.varint()?;
                Value::Bytes(self.take(len)?)
            }
            5 => {
                let bytes = self.take(4)?;
                Value::Number(bytes.first_chunk().map_or(0, |bytes| u64::from(u32::from_le_bytes(*bytes))))
            }
            _ => return Err(self.bad("a field has an unknown wire type")),
        };
        if key >> 3 == 0 {
            return Err(self.bad("a field has number 0"));
        }
        Ok(Some((key >> 3, value)))
    }
}

/// Longest shape.
const RANK: usize = 64;

impl MetaTensor {
    /// Reads a tensor.
    ///
    /// # Errors
    ///
    /// [`MetaneffError`].
    pub fn decode(bytes: &[u8]) -> Result<Self, MetaneffError> {
        let mut tensor = Self::default();
        let mut fields = Fields::new(bytes);
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => tensor.name = value.text(),
                2 => match value {
                    Value::Number(dim) => tensor.shape.push(dim.cast_signed()),
                    Value::Bytes(packed) => {
                        let mut dims = Fields::new(packed);
                        while dims.at < packed.len() {
                            tensor.shape.push(dims.varint()?.cast_signed());
                        }
                    }
                },
                3 => tensor.data_type = DataType(value.number()),
                4 => tensor.content = value.bytes().len(),
                5 => tensor.allow_dynamic_batch_size = value.number() != 0,
                6 => tensor.checkpoint_key = Some(value.text()),
                7 => tensor.role = TensorRole(value.number()),
                8 => tensor.user_input_key = Some(value.text()),
                _ => {}
            }
            if tensor.shape.len() > RANK {
                return Err(fields.bad("a shape has more than 64 dimensions"));
            }
        }
        Ok(tensor)
    }

    /// Writes a tensor without contents.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        text(&mut out, 1, &self.name);
        if !self.shape.is_empty() {
            let mut packed = Vec::new();
            self.shape.iter().for_each(|dim| varint(&mut packed, dim.cast_unsigned()));
            bytes(&mut out, 2, &packed);
        }
        number(&mut out, 3, self.data_type.0);
        number(&mut out, 5, u64::from(self.allow_dynamic_batch_size));
        self.checkpoint_key.iter().for_each(|key| bytes(&mut out, 6, key.as_bytes()));
        number(&mut out, 7, self.role.0);
        self.user_input_key.iter().for_each(|key| bytes(&mut out, 8, key.as_bytes()));
        out
    }
}

impl MetaNeff {
    /// Reads a message.
    ///
    /// # Errors
    ///
    /// [`MetaneffError`].
    pub fn decode(message: &[u8]) -> Result<Self, MetaneffError> {
        let mut neff = Self::default();
        let mut fields = Fields::new(message);
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => neff.input_tensors.push(MetaTensor::decode(value.bytes())?),
                2 => neff.output_tensors.push(MetaTensor::decode(value.bytes())?),
                4 => neff.serialized_graph_def = value.bytes().len(),
                5 => neff.name = value.text(),
                6 => {
                    let (mut output, mut input) = (0, 0);
                    let mut entry = Fields::new(value.bytes());
                    while let Some((number, value)) = entry.next()? {
                        match number {
                            1 => output = value.number().cast_signed(),
                            2 => input = value.number().cast_signed(),
                            _ => {}
                        }
                    }
                    neff.output_aliases_to.insert(output, input);
                }
                7 => neff.num_user_inputs = value.number(),
                8 => neff.num_states = value.number(),
                9 => neff.num_weights = value.number(),
                _ => {}
            }
        }
        let inputs = neff.input_tensors.iter().enumerate().map(|(index, tensor)| ("input", index, tensor));
        let outputs = neff.output_tensors.iter().enumerate().map(|(index, tensor)| ("output", index, tensor));
        let wrong = |(word, index, tensor): (&str, usize, &MetaTensor)| {
            (tensor.name != format!("{word}{index}")).then(|| tensor.name.clone())
        };
        neff.misnamed = inputs.chain(outputs).filter_map(wrong).collect();
        Ok(neff)
    }

    /// Writes a message without graph and contents.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.input_tensors.iter().for_each(|tensor| bytes(&mut out, 1, &tensor.encode()));
        self.output_tensors.iter().for_each(|tensor| bytes(&mut out, 2, &tensor.encode()));
        text(&mut out, 5, &self.name);
        for (output, input) in &self.output_aliases_to {
            let mut entry = Vec::new();
            number(&mut entry, 1, output.cast_unsigned());
            number(&mut entry, 2, input.cast_unsigned());
            bytes(&mut out, 6, &entry);
        }
        number(&mut out, 7, self.num_user_inputs);
        number(&mut out, 8, self.num_states);
        number(&mut out, 9, self.num_weights);
        out
    }
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(u8::try_from(value & 0x7f).unwrap_or(0) | 0x80);
        value >>= 7;
    }
    out.push(u8::try_from(value).unwrap_or(0));
}

/// A number; 0 is the default and not written.
fn number(out: &mut Vec<u8>, field: u64, value: u64) {
    if value != 0 {
        varint(out, field << 3);
        varint(out, value);
    }
}

fn bytes(out: &mut Vec<u8>, field: u64, value: &[u8]) {
    varint(out, field << 3 | 2);
    varint(out, value.len() as u64);
    out.extend_from_slice(value);
}

fn text(out: &mut Vec<u8>, field: u64, value: &str) {
    if !value.is_empty() {
        bytes(out, field, value.as_bytes());
    }
}
