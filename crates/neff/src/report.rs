//! Reports: of a whole container, and of the files in it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use outboard_ucode::inspect::{Report, sha256};
use serde_json::Value;

use crate::container::{Listing, Member, MemberKind, Neff};
use crate::definition::{DefVar, Definition, Engine, UcodeReference};
use crate::json::{self, Node};
use crate::metaneff::MetaNeff;
use crate::patch::{self, Patch};
use crate::seq::{self, Dialect, SLOT, StreamReport};
use crate::{Finding, NeffError, RuntimeVersion, UcodeLib, custom_op_findings, feature_names, parse_ucode_lib};

/// A container.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(tag = "kind", rename = "neff"))]
pub struct NeffReport {
    /// `raw` or `gzip`.
    pub packager: &'static str,
    /// Version of the format.
    pub version: String,
    /// Version of the compiler.
    pub build_version: String,
    /// Name of the model.
    pub name: String,
    /// Identity of the model.
    pub uuid: String,
    /// Features by name.
    pub features: Vec<String>,
    /// Cores asked for.
    pub requested_tpb_count: u32,
    /// Bytes of the payload as stored.
    pub data_size: u64,
    /// Bytes of the inflated archive.
    pub inflated: u64,
    /// Members in the order of the archive.
    pub members: Vec<Member>,
    /// Generation that the model is for; `None` for any.
    pub target: Option<String>,
    /// Graphs.
    pub graphs: Vec<GraphReport>,
    /// Libraries.
    pub libraries: Vec<UcodeLib>,
    /// Trace hints by member.
    pub patches: BTreeMap<String, Vec<Patch>>,
    /// What a reader notices and survives.
    pub warnings: Vec<String>,
}

/// A graph.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct GraphReport {
    /// The member that defines it.
    pub member: String,
    /// Its name.
    pub name: String,
    /// Variables by number.
    pub vars: Vec<DefVar>,
    /// DMA queues: name and type.
    pub queues: BTreeMap<String, String>,
    /// Engines.
    pub engines: Vec<Engine>,
}

/// The result of verifying a container.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct VerifyReport {
    /// `ok` or `error`.
    pub status: &'static str,
    /// The original's result number; from 100 on ours.
    pub code: u32,
    /// Its name.
    pub name: &'static str,
    /// What happened, for a person.
    pub message: String,
    /// Generation that the model is for; `None` for any.
    pub target: Option<String>,
    /// Members.
    pub members: usize,
    /// Hash of each library.
    pub libraries: BTreeMap<String, String>,
    /// What a reader notices and survives.
    pub warnings: Vec<String>,
    /// Limits of the vendor's guide that are exceeded.
    pub findings: Vec<Finding>,
}

/// The generation of a `target`, `Ok(None)` for any.
fn target(node: Node<'_>) -> Result<Option<String>, NeffError> {
    let generation = match node.text("target").unwrap_or("") {
        "*" => return Ok(None),
        "" | "sunda" | "v2" => "sunda",
        "cayman" | "v3" => "cayman",
        "mariana" | "v4" => "mariana",
        other => {
            return Err(
                node.bad(format!("target `{other}` is unknown; expected sunda, cayman, mariana, v2, v3, v4 or *"))
            );
        }
    };
    Ok(Some(generation.to_owned()))
}

/// Whether a model for generation `target` (`None`: any) may run on a device of `generation`. With `allow_legacy` (the
/// original's `NEURON_RT_ALLOW_LEGACY_NEFF=1`) every model may.
///
/// # Errors
///
/// [`NeffError::Member`] names both generations.
pub fn check_target(target: Option<&str>, generation: &str, allow_legacy: bool) -> Result<(), NeffError> {
    // The fourth generation and its successor share a target.
    let family = generation.strip_suffix("_plus").unwrap_or(generation);
    match target {
        Some(target) if target != family && !allow_legacy => Err(NeffError::Member {
            member: "kelf-a.json".to_owned(),
            problem: format!(
                "the model is for {target}, the device is {generation}; compile it for this device, or allow legacy models"
            ),
        }),
        _ => Ok(()),
    }
}

struct Graphs {
    target: Option<String>,
    definitions: Vec<(String, Definition)>,
    libraries: Vec<UcodeLib>,
    /// Members with the bytes of a library.
    carried: BTreeSet<String>,
    warnings: Vec<String>,
}

/// Reads the manifests of a listing in the order of the original, and checks that what they name is there.
fn graphs(listing: &Listing, runtime: RuntimeVersion) -> Result<Graphs, NeffError> {
    let mut graphs = Graphs {
        target: None,
        definitions: Vec::new(),
        libraries: Vec::new(),
        carried: BTreeSet::new(),
        warnings: Vec::new(),
    };
    let require = |name: &str, by: &str| match listing.find(name) {
        Some(_) => Ok(()),
        None => Err(NeffError::MissingMember { name: name.to_owned(), by: by.to_owned() }),
    };
    let mut names = Vec::new();
    if let Some(bytes) = listing.manifests.get("kelf-a.json") {
        let value = json::parse("kelf-a.json", bytes)?;
        let root = Node { member: "kelf-a.json", value: &value };
        graphs.target = target(root)?;
        for graph in root.items("graphs") {
            let name = graph.text("definition").ok_or_else(|| root.bad("a graph has no `definition`"))?;
            require(name, "kelf-a.json")?;
            names.push(name.to_owned());
        }
    } else {
        graphs.warnings.push("kelf-a.json is missing: graphs are found by their names".to_owned());
        let is_definition = |member: &&Member| member.kind == MemberKind::Definition;
        names.extend(listing.members.iter().filter(is_definition).map(|member| member.name.clone()));
    }
    for name in names {
        let bytes = listing.manifests.get(&name);
        let bytes =
            bytes.ok_or_else(|| NeffError::MissingMember { name: name.clone(), by: "kelf-a.json".to_owned() })?;
        let definition = Definition::parse(&name, bytes, runtime)?;
        for file in definition.engines.iter().filter_map(|engine| engine.instructions.as_ref()) {
            require(file, &name)?;
        }
        for file in definition.vars.iter().filter_map(|var| var.file.as_ref()) {
            require(&json::beside(&name, file), &name)?;
        }
        let (manifest, libraries) = match &definition.ucode {
            None => (name.clone(), Vec::new()),
            Some(UcodeReference::Inline(libraries)) => (name.clone(), libraries.clone()),
            Some(UcodeReference::Member(member)) => {
                // The packager writes the manifest beside the graph or at the top.
                let top = member.rsplit_once('/').map_or(member.as_str(), |(_, file)| file);
                let member = if listing.find(member).is_some() { member.as_str() } else { top };
                require(member, &name)?;
                let bytes = listing.manifests.get(member).map_or(&[][..], Vec::as_slice);
                (member.to_owned(), parse_ucode_lib(member, bytes, runtime)?)
            }
        };
        for library in libraries {
            let near = json::beside(&manifest, &library.library);
            let member = if listing.find(&near).is_some() { near } else { library.library.clone() };
            require(&member, &manifest)?;
            if graphs.carried.insert(member) {
                graphs.libraries.push(library);
            }
        }
        graphs.warnings.extend(definition.warnings.iter().map(|warning| format!("{name}: {warning}")));
        graphs.definitions.push((name, definition));
    }
    Ok(graphs)
}

/// Inspects a container: header, members, manifests, trace hints. The payload is inflated once, and once more only when it
/// has trace hints.
///
/// # Errors
///
/// When a gate, the archive or a manifest is wrong, or a named member is missing.
pub fn inspect(file: &[u8]) -> Result<NeffReport, NeffError> {
    let neff = Neff::parse(file)?;
    let listing = neff.list()?;
    let mut graphs = graphs(&listing, RuntimeVersion::default())?;
    let patches = patches(&neff, &listing, &mut graphs.warnings)?;
    let header = neff.header();
    Ok(NeffReport {
        packager: if header.packager == crate::Packager::Raw { "raw" } else { "gzip" },
        version: format!("{}.{}", header.version_major, header.version_minor),
        build_version: header.build_version.clone(),
        name: header.name.clone(),
        uuid: header.uuid_text(),
        features: feature_names(header.feature_bits),
        requested_tpb_count: header.requested_tpb_count,
        data_size: header.data_size,
        inflated: listing.inflated,
        target: graphs.target,
        graphs: graphs
            .definitions
            .into_iter()
            .map(|(member, graph)| GraphReport {
                member,
                name: graph.name,
                vars: graph.vars,
                queues: graph.queues,
                engines: graph.engines,
            })
            .collect(),
        libraries: graphs.libraries,
        patches,
        warnings: graphs.warnings,
        members: listing.members,
    })
}

/// Part of the names of members with trace hints.
const PATCHES: &str = "kbin_patch";

/// Trace hints never fail anything: what is wrong with them is a warning.
fn patches(
    neff: &Neff<'_>,
    listing: &Listing,
    warnings: &mut Vec<String>,
) -> Result<BTreeMap<String, Vec<Patch>>, NeffError> {
    let is_table = |member: &Member| member.name.contains(PATCHES);
    let mut tables = BTreeMap::new();
    if !listing.members.iter().any(is_table) {
        return Ok(tables);
    }
    let stream = |name: &str| {
        // `sg00/pool_kbin_patch.bin` belongs to `sg00/pool.bin`.
        let stem = name.split(PATCHES).next().unwrap_or("").trim_end_matches(['_', '.', '-']);
        listing.find(&format!("{stem}.bin")).map_or(u64::MAX, |member| member.size / SLOT as u64)
    };
    neff.each(is_table, |member, data| {
        if let Some(data) = data {
            let (records, problems) = patch::parse(data, stream(&member.name));
            warnings.extend(problems.into_iter().map(|problem| format!("{}: {problem}", member.name)));
            tables.insert(member.name.clone(), records);
        }
        Ok(())
    })?;
    Ok(tables)
}

/// Verifies a container: gates, hash, archive, manifests, that every named member is there, and that libraries, weights and
/// instruction streams are what their names say.
///
/// # Errors
///
/// The first fault; [`VerifyReport::error`] makes a report of it.
pub fn verify(file: &[u8], runtime: RuntimeVersion) -> Result<VerifyReport, NeffError> {
    let neff = Neff::parse(file)?;
    neff.verify_hash()?;
    let listing = neff.list()?;
    let graphs = graphs(&listing, runtime)?;
    let mut warnings = graphs.warnings;
    let custom = neff.header().feature_bits & crate::CUSTOM_OPS != 0;
    if custom == graphs.libraries.is_empty() {
        let (has, says) = if custom { ("no library", "set") } else { ("libraries", "not set") };
        warnings.push(format!("the model has {has}, but the feature bit custom_ops is {says}"));
    }
    let mut libraries = BTreeMap::new();
    let checked = |member: &Member| {
        graphs.carried.contains(&member.name) || matches!(member.kind, MemberKind::Weights | MemberKind::EngineBin)
    };
    neff.each(checked, |member, data| {
        let Some(data) = data else { return Ok(()) };
        let bad = |problem: String| NeffError::Member { member: member.name.clone(), problem };
        match member.kind {
            MemberKind::Weights => {
                npy(data).map_err(bad)?;
            }
            MemberKind::EngineBin => {
                if data.len() % SLOT != 0 {
                    warnings.push(format!("{}: {} bytes are no whole number of instructions", member.name, data.len()));
                }
            }
            _ => {
                match outboard_ucode::inspect::inspect(data) {
                    Ok(Report::Pi(_) | Report::Fll(_)) => {}
                    Ok(_) => return Err(bad("is neither a PI image nor a fixed-load library; link it".to_owned())),
                    Err(error) => return Err(bad(error.to_string())),
                }
                libraries.insert(member.name.clone(), sha256(data));
            }
        }
        Ok(())
    })?;
    let target = graphs.target;
    let vars: Vec<DefVar> = graphs.definitions.into_iter().flat_map(|(_, graph)| graph.vars).collect();
    Ok(VerifyReport {
        status: "ok",
        code: 0,
        name: "NRT_SUCCESS",
        message: format!("{} members, hash and manifests are right", listing.members.len()),
        target,
        members: listing.members.len(),
        libraries,
        warnings,
        findings: custom_op_findings(&graphs.libraries, &vars),
    })
}

impl VerifyReport {
    /// The report of a refused container.
    #[must_use]
    pub fn error(error: &NeffError) -> Self {
        Self {
            status: "error",
            code: error.code(),
            name: error.name(),
            message: error.to_string(),
            target: None,
            members: 0,
            libraries: BTreeMap::new(),
            warnings: Vec::new(),
            findings: Vec::new(),
        }
    }
}

/// The original's test of weights: version 1, and a header that fits.
fn npy(data: &[u8]) -> Result<(), String> {
    let header = data.first_chunk::<10>().ok_or("is shorter than the header of an .npy file")?;
    let [m0, m1, m2, m3, m4, m5, major, _, l0, l1] = *header;
    if [m0, m1, m2, m3, m4, m5] != *b"\x93NUMPY" {
        return Err("does not begin with 93 4e 55 4d 50 59, as .npy files do".to_owned());
    }
    if major != 1 {
        return Err(format!("is .npy version {major}, and readers take version 1; save it again"));
    }
    let start = 10 + usize::from(u16::from_le_bytes([l0, l1]));
    if start > data.len() {
        return Err(format!("its header ends at {start}, the member has {} bytes", data.len()));
    }
    Ok(())
}

/// A file of a container on its own.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(tag = "kind", rename_all = "snake_case"))]
pub enum NeffPart {
    /// `ucode_lib.json`.
    UcodeLib {
        /// The libraries.
        libraries: Vec<UcodeLib>,
    },
    /// `def.json`.
    Definition(GraphReport),
    /// metaneff.
    Metaneff(MetaNeff),
    /// An instruction stream.
    Stream(StreamReport),
}

/// Inspects a manifest, a metaneff message or an instruction stream; `name` tells streams (`*.bin`) and metaneff
/// (`*metaneff*`, `*.pb`) apart, JSON is recognised by its keys. `Ok(None)` when the file is none of them.
///
/// # Errors
///
/// When it is one of them and wrong.
pub fn inspect_part(name: &str, bytes: &[u8]) -> Result<Option<NeffPart>, NeffError> {
    let file = name.rsplit_once('/').map_or(name, |(_, file)| file);
    if file.contains("metaneff") || file.ends_with(".pb") {
        let bad = |error: crate::metaneff::MetaneffError| NeffError::Member {
            member: name.to_owned(),
            problem: error.to_string(),
        };
        return MetaNeff::decode(bytes).map(NeffPart::Metaneff).map(Some).map_err(bad);
    }
    if file.ends_with(".bin") {
        return Ok(Some(NeffPart::Stream(seq::inspect(bytes, Dialect::V2))));
    }
    let is_json = bytes.iter().find(|byte| !byte.is_ascii_whitespace()).is_some_and(|byte| matches!(byte, b'{' | b'['));
    let Some(value) = is_json.then(|| serde_json::from_slice::<Value>(bytes).ok()).flatten() else { return Ok(None) };
    let runtime = RuntimeVersion::default();
    if value.get("var").is_some() {
        let Definition { name: graph, vars, queues, engines, .. } = Definition::parse(name, bytes, runtime)?;
        let report = GraphReport { member: name.to_owned(), name: graph, vars, queues, engines };
        return Ok(Some(NeffPart::Definition(report)));
    }
    let is_manifest = value.get("ucode_lib").is_some()
        || value.get("library").is_some()
        || value.get(0).is_some_and(|first| first.get("library").is_some());
    if is_manifest {
        return parse_ucode_lib(name, bytes, runtime).map(|libraries| Some(NeffPart::UcodeLib { libraries }));
    }
    Ok(None)
}

impl fmt::Display for NeffReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "NEFF `{}`, format {}, {} payload of {} bytes",
            self.name, self.version, self.packager, self.data_size
        )?;
        writeln!(f, "  compiler {}, uuid {}", self.build_version, self.uuid)?;
        writeln!(f, "  target {}, features: {}", self.target.as_deref().unwrap_or("any"), self.features.join(", "))?;
        writeln!(f, "\nMembers ({} bytes inflated)", self.inflated)?;
        for member in &self.members {
            writeln!(f, "  {:>10} {}", member.size, member.name)?;
        }
        for graph in &self.graphs {
            writeln!(f, "\nGraph {} ({})", graph.name, graph.member)?;
            for var in &graph.vars {
                writeln!(
                    f,
                    "  {:>3} {:<12} {:<10} {:?} {}",
                    var.id,
                    var.kind,
                    var.dtype.as_deref().unwrap_or("-"),
                    var.shape,
                    var.name
                )?;
            }
            for engine in &graph.engines {
                writeln!(f, "  engine {:<5} {}", engine.name, engine.instructions.as_deref().unwrap_or("-"))?;
            }
        }
        libraries(f, &self.libraries)?;
        for (member, records) in &self.patches {
            writeln!(f, "\n{member}: {} trace hints", records.len())?;
        }
        self.warnings.iter().try_for_each(|warning| writeln!(f, "warning: {warning}"))
    }
}

impl fmt::Display for VerifyReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} ({}): {}", self.name, self.code, self.message)?;
        for (name, sha256) in &self.libraries {
            writeln!(f, "  library {name}, sha256 {sha256}")?;
        }
        self.warnings.iter().try_for_each(|warning| writeln!(f, "warning: {warning}"))?;
        self.findings.iter().try_for_each(|finding| writeln!(f, "{}: {}", finding.code, finding.message))
    }
}

fn libraries(f: &mut fmt::Formatter<'_>, libraries: &[UcodeLib]) -> fmt::Result {
    for library in libraries {
        let UcodeLib { library: name, version, cpu_id, total_cpus, functions, .. } = library;
        writeln!(f, "\nLibrary {name}, version {version}, core {cpu_id} of {total_cpus}")?;
        for function in functions {
            let id = function.sub_opcode.map_or_else(|| "-".to_owned(), |id| id.to_string());
            writeln!(f, "  {:#04x}/{id:<3} {}", function.opcode, function.name)?;
        }
    }
    Ok(())
}

impl fmt::Display for NeffPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UcodeLib { libraries: list } => libraries(f, list),
            Self::Definition(graph) => {
                writeln!(f, "Graph {} ({})", graph.name, graph.member)?;
                graph
                    .vars
                    .iter()
                    .try_for_each(|var| writeln!(f, "  {:>3} {:<12} {:?} {}", var.id, var.kind, var.shape, var.name))
            }
            Self::Metaneff(message) => {
                writeln!(f, "metaneff {}", message.name)?;
                for tensor in message.input_tensors.iter().chain(&message.output_tensors) {
                    let dtype = tensor.data_type.name().unwrap_or("unknown type");
                    writeln!(f, "  {} {dtype} {:?} {}", tensor.name, tensor.shape, tensor.role.name().unwrap_or("?"))?;
                }
                message.misnamed.iter().try_for_each(|name| writeln!(f, "  `{name}` is not named by its position"))
            }
            Self::Stream(stream) => stream.fmt(f),
        }
    }
}
