//! The tensor manifest a module may carry: names, element types and shapes of its inputs and outputs.
//!
//! It is UTF-8 JSON in a note of the module file (`docs/reference/models.md`); the builder writes it, the host checks calls
//! against it before anything is sent. The device never reads it.

use outboard_tensor::{DType, Shape};
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
    /// Its shape.
    pub shape: Shape,
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
    /// Bytes of the tensor; shapes that overflow are refused when a manifest is read.
    pub fn bytes(&self) -> u64 {
        self.shape.bytes(self.dtype).map_or(u64::MAX, |bytes| bytes as u64)
    }
}

impl fmt::Display for TensorSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} ({})", self.name, self.dtype, self.shape)
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
    Ok(TensorSpec { name: raw.name, dtype, shape, holds: raw.holds })
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
    fn inputs_are_found_by_name() {
        let tensor =
            |name: &str| TensorSpec { name: name.into(), dtype: DType::Int8, shape: Shape::scalar(), holds: None };
        let manifest = Manifest { inputs: vec![tensor("a"), tensor("b")], ..Manifest::default() };
        assert_eq!((manifest.input_index("b"), manifest.input_index("c")), (Some(1), None));
    }
}
