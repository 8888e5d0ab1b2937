//! `def.json` of one graph: variables, queues, engines, and where the libraries are named.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::json::{self, Node};
use crate::{NeffError, RuntimeVersion, UcodeLib, ucode_lib};

/// Engines in the order of their numbers.
pub(crate) const ENGINES: [&str; 5] = ["pe", "act", "pool", "dve", "sp"];

/// A variable.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct DefVar {
    /// Its number; variables are numbered densely from 0.
    pub id: u64,
    /// Its name.
    pub name: String,
    /// `input`, `output`, `tmp-buf`, `state-buffer`, `virtual`, `buffer`, `file`, …
    #[cfg_attr(feature = "serde", serde(rename = "type"))]
    pub kind: String,
    /// Bytes.
    pub size: u64,
    /// Element type.
    pub dtype: Option<String>,
    /// Dimensions as the framework sees them.
    pub shape: Vec<u64>,
    /// File with its initial value.
    pub file: Option<String>,
}

/// Where `def.json` names the libraries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UcodeReference {
    /// A member beside it.
    Member(String),
    /// Inside of it.
    Inline(Vec<UcodeLib>),
}

/// An engine's instructions.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Engine {
    /// `pe`, `act`, `pool`, `dve` or `sp`.
    pub name: String,
    /// Member with the instructions.
    pub instructions: Option<String>,
    /// DMA blocks.
    pub dma: usize,
}

/// A graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Definition {
    /// Its name.
    pub name: String,
    /// Variables by number.
    pub vars: Vec<DefVar>,
    /// DMA queues: name and type.
    pub queues: BTreeMap<String, String>,
    /// The libraries.
    pub ucode: Option<UcodeReference>,
    /// Engines that are there, in the order of their numbers.
    pub engines: Vec<Engine>,
    /// Version of the format.
    pub version: Option<String>,
    /// What a reader notices and survives.
    pub warnings: Vec<String>,
}

impl Definition {
    /// Reads `def.json` in the order of the original.
    ///
    /// # Errors
    ///
    /// The messages of the original where it has one; the key and what was expected otherwise.
    pub fn parse(member: &str, bytes: &[u8], runtime: RuntimeVersion) -> Result<Self, NeffError> {
        let value = json::parse(member, bytes)?;
        let root = Node { member, value: &value };
        if !value.is_object() {
            return Err(root.bad("is no object"));
        }
        let name = root.text("name").unwrap_or_default().to_owned();
        let vars = variables(root)?;
        let mut warnings = Vec::new();
        let queues = root
            .entries("dma_queue")
            .map(|(name, queue)| (name.to_owned(), queue.text("type").unwrap_or("data").to_owned()))
            .collect();
        let ucode = match value.get("ucode_lib") {
            None | Some(Value::Null) => None,
            Some(Value::String(file)) => Some(UcodeReference::Member(json::beside(member, file))),
            Some(inline) => Some(UcodeReference::Inline(ucode_lib::from_value(member, inline, runtime)?)),
        };
        if let Some(mode) = root.text("runtime_statebuffer_reservation")
            && mode != "evtaccel"
        {
            return Err(root.bad(format!("runtime_statebuffer_reservation is `{mode}`, expected `evtaccel`")));
        }
        let mut engines = Vec::new();
        for engine in ENGINES {
            match root.get(engine) {
                Some(node) => engines.push(Engine {
                    name: engine.to_owned(),
                    instructions: node.text("instr").map(|file| json::beside(member, file)),
                    dma: node.items("dma").count(),
                }),
                None => warnings.push(format!("engine {engine} is missing and replaced by an empty one")),
            }
        }
        Ok(Self { name, vars, queues, ucode, engines, version: root.text("version").map(str::to_owned), warnings })
    }
}

fn variables(root: Node<'_>) -> Result<Vec<DefVar>, NeffError> {
    let mut by_id: BTreeMap<u64, DefVar> = BTreeMap::new();
    let mut count = 0_u64;
    for (name, node) in root.entries("var") {
        let id = node.number("var_id").ok_or_else(|| node.bad(format!("variable {name} has no `var_id`")))?;
        let kind = node.text("type").or_else(|| node.text("#transfer-type"));
        let kind = kind.ok_or_else(|| node.bad(format!("variable {name} has no `type`")))?;
        let shape = node.numbers("framework_shape");
        let shape = if shape.is_empty() { node.numbers("internal_shape") } else { shape };
        let file = node.text("file_name").or_else(|| node.text("#file-name"));
        let var = DefVar {
            id,
            name: name.to_owned(),
            kind: kind.to_owned(),
            size: node.number("size").unwrap_or(0),
            dtype: node.text("dtype").map(str::to_owned),
            shape,
            file: file.map(str::to_owned),
        };
        count += 1;
        by_id.insert(id, var);
    }
    let dense = by_id.len() as u64 == count && by_id.keys().copied().eq(0..count);
    if !dense {
        return Err(
            root.bad(format!("Unexpected var_ids set! {count} variables must be numbered 0..{count} without gaps"))
        );
    }
    if !by_id.values().any(|var| var.kind == "output") {
        return Err(root.bad("no Outputs: a graph needs at least one variable of type `output`"));
    }
    Ok(by_id.into_values().collect())
}
