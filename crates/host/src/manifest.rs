//! The tensor manifest a module may carry: names, element types and shapes of its inputs and outputs.
//!
//! It is UTF-8 JSON in a note of the module file (`docs/reference/models.md`); the builder writes it, the host checks calls
//! against it before anything is sent. The device never reads it.

use outboard_tensor::{DType, Shape};
use std::collections::BTreeMap;
use std::fmt;

/// Most bytes of a manifest that are looked at: 128 inputs and outputs need about 20 KiB.
const MAX_BYTES: usize = 1 << 20;

/// One declared tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorSpec {
    /// Its name.
    pub name: String,
    /// Its element type.
    pub dtype: DType,
    /// Its shape; where `bounds` names a dimension, the largest size of it.
    pub shape: Shape,
    /// Names of the dimensions that may be smaller, empty for fixed ones: dimensions of one name have one size in a call. No
    /// names at all when every dimension is fixed.
    pub bounds: Vec<String>,
    /// The narrow type whose bits or values its elements hold, for example `float8_e4m3fn` in a `uint8`.
    pub holds: Option<String>,
}

/// A cache: an input whose next value is an output. It may stay on the device ([`crate::Input::Resident`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
pub struct Cache {
    /// Its position among the inputs.
    pub input: usize,
    /// Its position among the outputs.
    pub output: usize,
}

impl TensorSpec {
    /// Element type and shape, `float32 (batch<=4,16)`.
    pub(crate) fn kind(&self) -> String {
        if self.bounds.is_empty() {
            return format!("{} ({})", self.dtype, self.shape);
        }
        let dims = self.shape.dims().iter().zip(&self.bounds).map(|(dim, name)| match name.as_str() {
            "" => dim.to_string(),
            name => format!("{name}<={dim}"),
        });
        format!("{} ({})", self.dtype, dims.collect::<Vec<_>>().join(","))
    }

    /// Whether a tensor of this type and shape is one; `sizes` has the dimensions that inputs before it gave a size.
    fn takes<'a>(&'a self, dtype: (i32, i32), dims: &[i64], sizes: &mut BTreeMap<&'a str, i64>) -> bool {
        let (code, bits) = self.dtype.dlpack();
        let Ok(most) = self.shape.to_signed() else { return false };
        if dtype != (code.into(), bits.into()) || dims.len() != most.len() {
            return false;
        }
        let names = self.bounds.iter().map(String::as_str).chain(std::iter::repeat(""));
        dims.iter().zip(most).zip(names).all(|((&dim, most), name)| match name {
            "" => dim == most,
            name => (1..=most).contains(&dim) && *sizes.entry(name).or_insert(dim) == dim,
        })
    }

    /// Bytes of the tensor; shapes that overflow are refused when a manifest is read.
    pub fn bytes(&self) -> u64 {
        self.shape.bytes(self.dtype).map_or(u64::MAX, |bytes| bytes as u64)
    }
}

impl fmt::Display for TensorSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name, self.kind())
    }
}

/// What a module says about its calls.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Manifest {
    /// The model's name.
    pub name: String,
    /// Its inputs, in the order of the entry's parameters.
    pub inputs: Vec<TensorSpec>,
    /// Its outputs.
    pub outputs: Vec<TensorSpec>,
    /// Inputs and outputs that are one cache, in the order of the inputs; outputs 1, 2, … are theirs.
    pub caches: Vec<Cache>,
}

#[derive(serde::Deserialize)]
struct RawManifest {
    #[serde(default)]
    name: String,
    inputs: Vec<RawTensor>,
    outputs: Vec<RawTensor>,
    #[serde(default)]
    caches: Vec<Cache>,
}

#[derive(serde::Deserialize)]
struct RawTensor {
    name: String,
    dtype: String,
    shape: Vec<i64>,
    #[serde(default)]
    bounds: Vec<String>,
    #[serde(default)]
    holds: Option<String>,
}

impl Manifest {
    /// Reads a manifest.
    ///
    /// # Errors
    /// Says what is wrong: no JSON, a missing field, an unknown element type, an impossible shape.
    ///
    /// ```
    /// let text = r#"{"name":"add","inputs":[{"name":"x","dtype":"float32","shape":[1,4]}],"outputs":[]}"#;
    /// let manifest = outboard_host::Manifest::parse(text).unwrap();
    /// assert_eq!(manifest.inputs[0].to_string(), "x: float32 (1,4)");
    /// ```
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.len() > MAX_BYTES {
            return Err(format!("it has {} bytes; more than {MAX_BYTES} are not read", text.len()));
        }
        let raw: RawManifest = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let (inputs, outputs) = (specs("input", raw.inputs)?, specs("output", raw.outputs)?);
        let caches = caches(raw.caches, &inputs, &outputs)?;
        Ok(Self { name: raw.name, inputs, outputs, caches })
    }

    /// The first of the inputs that is not what the module takes: by type code, bits and dimensions.
    pub(crate) fn first_mismatch<'a>(
        &self,
        inputs: impl Iterator<Item = ((i32, i32), std::borrow::Cow<'a, [i64]>)>,
    ) -> Option<(usize, &TensorSpec)> {
        let mut sizes = BTreeMap::new();
        let mut pairs = self.inputs.iter().enumerate().zip(inputs);
        pairs.find(|((_, spec), (dtype, dims))| !spec.takes(*dtype, dims, &mut sizes)).map(|(found, _)| found)
    }

    /// The position of the input of this name.
    pub fn input_index(&self, name: &str) -> Option<usize> {
        self.inputs.iter().position(|input| input.name == name)
    }
}

fn specs(what: &str, raw: Vec<RawTensor>) -> Result<Vec<TensorSpec>, String> {
    raw.into_iter()
        .enumerate()
        .map(|(index, raw)| spec(raw).map_err(|reason| format!("{what} {index}: {reason}")))
        .collect()
}

/// Caches as the device keeps them: the outputs behind the first one, in the order of the inputs.
fn caches(caches: Vec<Cache>, inputs: &[TensorSpec], outputs: &[TensorSpec]) -> Result<Vec<Cache>, String> {
    let mut after = None;
    for (index, cache) in caches.iter().enumerate() {
        let (Some(input), Some(output)) = (inputs.get(cache.input), outputs.get(cache.output)) else {
            return Err(format!("cache {index}: there is no input {} or no output {}", cache.input, cache.output));
        };
        if (input.dtype, &input.shape) != (output.dtype, &output.shape) {
            return Err(format!("cache {index}: it is {input} as an input and {output} as an output"));
        }
        if cache.output != index + 1 || after.is_some_and(|before| cache.input <= before) {
            return Err(format!("cache {index}: caches are the outputs 1, 2, … in the order of their inputs"));
        }
        after = Some(cache.input);
    }
    Ok(caches)
}

fn spec(raw: RawTensor) -> Result<TensorSpec, String> {
    let dtype: DType = raw.dtype.parse().map_err(|error: outboard_tensor::UnknownDTypeName| error.to_string())?;
    let shape = Shape::from_signed(raw.shape).map_err(|error| error.to_string())?;
    shape.bytes(dtype).map_err(|error| error.to_string())?;
    if !raw.bounds.is_empty() && raw.bounds.len() != shape.ndim() {
        return Err(format!("{} names for {} dimensions", raw.bounds.len(), shape.ndim()));
    }
    Ok(TensorSpec { name: raw.name, dtype, shape, bounds: raw.bounds, holds: raw.holds })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_that_cannot_be_is_refused_with_the_tensor_that_is_wrong() {
        for (text, reason) in [
            ("{", "EOF"),
            (r#"{"inputs":[]}"#, "missing field `outputs`"),
            (
                r#"{"inputs":[{"name":"x","dtype":"float","shape":[]}],"outputs":[]}"#,
                "input 0: `float` is not an element type",
            ),
            (
                r#"{"inputs":[],"outputs":[{"name":"y","dtype":"int8","shape":[1,-1]}]}"#,
                "output 0: dimension 1 of the shape is -1",
            ),
            (
                r#"{"inputs":[{"name":"x","dtype":"int8","shape":[9223372036854775807,3]}],"outputs":[]}"#,
                "larger than memory",
            ),
        ] {
            let refused = Manifest::parse(text).unwrap_err();
            assert!(refused.contains(reason), "{text}: {refused}");
        }
        assert!(Manifest::parse(&" ".repeat(MAX_BYTES + 1)).unwrap_err().contains("are not read"));
    }

    #[test]
    fn caches_are_pairs_of_one_shape_in_the_order_the_device_keeps_them() {
        let tensors = |count: usize| vec![r#"{"name":"t","dtype":"int8","shape":[2]}"#; count].join(",");
        let parse = |caches: &str| {
            let (inputs, outputs) =
                (tensors(3), tensors(2) + r#",{"name":"t","dtype":"int8","shape":[3],"holds":"int4"}"#);
            Manifest::parse(&format!(r#"{{"inputs":[{inputs}],"outputs":[{outputs}],"caches":{caches}}}"#))
        };
        let manifest = parse(r#"[{"input":1,"output":1}]"#).unwrap();
        assert_eq!(manifest.caches, [Cache { input: 1, output: 1 }]);
        assert_eq!(manifest.outputs[2].holds.as_deref(), Some("int4"));
        for (caches, reason) in [
            (r#"[{"input":3,"output":1}]"#, "cache 0: there is no input 3"),
            (r#"[{"input":1,"output":0}]"#, "caches are the outputs 1, 2"),
            (r#"[{"input":1,"output":1},{"input":2,"output":2}]"#, "cache 1: it is t: int8 (2) as an input and"),
            (r#"[{"input":1}]"#, "missing field `output`"),
        ] {
            assert!(parse(caches).unwrap_err().contains(reason), "{caches}");
        }
    }

    #[test]
    fn a_bounded_dimension_may_be_smaller_and_has_one_size_in_a_call() {
        let tensor = |shape: &str| format!(r#"{{"name":"t","dtype":"int8","shape":{shape},"bounds":["n",""]}}"#);
        let text = format!(r#"{{"inputs":[{},{}],"outputs":[]}}"#, tensor("[4,2]"), tensor("[8,3]"));
        let manifest = Manifest::parse(&text).unwrap();
        assert_eq!(manifest.inputs[0].to_string(), "t: int8 (n<=4,2)");
        let mismatch = |first: [i64; 2], second: [i64; 2]| {
            let inputs = [first, second].map(|dims| ((0, 8), std::borrow::Cow::Owned(dims.to_vec())));
            manifest.first_mismatch(inputs.into_iter()).map(|(index, _)| index)
        };
        assert_eq!(mismatch([4, 2], [4, 3]), None);
        assert_eq!(mismatch([1, 2], [1, 3]), None);
        assert_eq!(mismatch([0, 2], [0, 3]), Some(0), "a bounded dimension has at least one element");
        assert_eq!(mismatch([5, 2], [5, 3]), Some(0), "beyond the bound");
        assert_eq!(mismatch([3, 2], [2, 3]), Some(1), "two sizes of one name");
        assert_eq!(mismatch([3, 1], [3, 3]), Some(0), "a fixed dimension");
        let names = r#"{"inputs":[{"name":"t","dtype":"int8","shape":[4,2],"bounds":["n"]}],"outputs":[]}"#;
        assert_eq!(Manifest::parse(names).unwrap_err(), "input 0: 1 names for 2 dimensions");
    }

    #[test]
    fn inputs_are_found_by_name() {
        let tensor = |name: &str| TensorSpec {
            name: name.into(),
            dtype: DType::Int8,
            shape: Shape::scalar(),
            bounds: Vec::new(),
            holds: None,
        };
        let manifest = Manifest { inputs: vec![tensor("a"), tensor("b")], ..Manifest::default() };
        assert_eq!((manifest.input_index("b"), manifest.input_index("c")), (Some(1), None));
    }
}
