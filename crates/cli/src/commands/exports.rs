//! `outboard exports`: what a device offers to modules, compared with what a module imports, and as a library to link against.

use super::device_args::DeviceArgs;
use super::read_file;
use crate::report::{self, Failure};
use outboard_link::export_sets::{ExportSets, probe_module, stub_library};
use outboard_link::inspect::inspect;
use outboard_link::{ExportTable, LoadError, Machine};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Name of the set that is the simulated device's own table.
const SIM: &str = "sim";
/// Name of the set of the original firmware.
const FIRMWARE: &str = "firmware-v2";

/// Show what a device offers to modules.
///
/// Prints the names that the device exports, which are asked of it by loading probes, or those of an export set. With a module, says which of its imports are missing and
/// which sets have them all; the exit code is 3 when one is missing. With --stub, writes a library that defines the names, to link modules
/// against.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  outboard exports
  outboard exports --module lib0.out
  outboard exports --device rpmsg --json
  outboard exports --set seed --json
  outboard exports --stub liboutboard_device.so")]
pub(crate) struct Args {
    /// An export set instead of a device: sim, firmware-v2, seed.
    #[arg(long, value_name = "SET")]
    set: Option<String>,

    #[command(flatten)]
    device: DeviceArgs,

    /// Seconds the device may take for anything.
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = super::seconds)]
    timeout: Duration,

    /// Compare with what this module imports.
    #[arg(long, short, value_name = "FILE")]
    module: Option<PathBuf>,

    /// Write a library of these names that does nothing.
    #[arg(long, value_name = "FILE")]
    stub: Option<PathBuf>,

    /// The machine of the library; without it, this machine.
    #[arg(long, value_enum, requires = "stub")]
    machine: Option<MachineName>,

    /// Print JSON on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum MachineName {
    /// TI C7x: writes the symbol file that modules name as dsp_syms.out.
    C7x,
    /// x86-64.
    #[value(name = "x86-64")]
    X86_64,
    /// AArch64.
    Aarch64,
}

impl From<MachineName> for Machine {
    fn from(name: MachineName) -> Self {
        match name {
            MachineName::C7x => Self::C7x,
            MachineName::X86_64 => Self::X86_64,
            MachineName::Aarch64 => Self::AArch64,
        }
    }
}

pub(crate) fn execute(args: &Args) -> Result<(), Failure> {
    let sets = ExportSets::builtin();
    let (device, names) = match &args.set {
        Some(set) => (set.clone(), named_set(&sets, set)?),
        None => asked(args, &sets)?,
    };
    if let Some(path) = &args.stub {
        let machine = args.machine.map(Machine::from).or_else(Machine::host).unwrap_or(Machine::C7x);
        let library = stub_library(machine, &names.keys().map(String::as_str).collect::<Vec<_>>());
        let mut staged = super::Staged::create(path)?;
        staged.file().write_all(&library).map_err(|error| Failure::unwritable(path, &error))?;
        staged.finish()?;
        report::say(&format!("wrote {} with {} names for {machine}", path.display(), names.len()));
    }
    match &args.module {
        Some(module) => compare(args, module, &device, &names, &sets),
        None => show(args, &device, &names),
    }
}

fn show(args: &Args, device: &str, names: &BTreeMap<String, String>) -> Result<(), Failure> {
    if args.json {
        let list: Vec<Value> =
            names.iter().map(|(name, category)| json!({"name": name, "category": category})).collect();
        return report::result(&json!({"status": "ok", "device": device, "exports": list}));
    }
    if args.stub.is_some() {
        return Ok(());
    }
    report::print(&names.iter().map(|(name, category)| format!("{name:<40} {category}\n")).collect::<String>())
}

fn compare(
    args: &Args,
    module: &Path,
    device: &str,
    names: &BTreeMap<String, String>,
    sets: &ExportSets,
) -> Result<(), Failure> {
    let file = read_file(module)?;
    let found = inspect(&file).map_err(|error| Failure::from(&LoadError::from(error)).about(module.display()))?;
    // A weak import may stay without a definition.
    let imports: Vec<&str> =
        found.imports.symbols.iter().filter(|symbol| !symbol.weak).map(|symbol| symbol.name.as_str()).collect();
    let diff = sets.diff(&imports, &|name| names.contains_key(name));
    if args.json {
        report::result(&json!({
            "status": if diff.missing.is_empty() { "ok" } else { "error" },
            "device": device,
            "missing": diff.missing,
            "used": diff.used,
            "satisfied_by": diff.satisfied_by,
        }))?;
    } else {
        let missing: String = diff.missing.iter().map(|name| format!("missing: {name}\n")).collect();
        let sets = if diff.satisfied_by.is_empty() { "no known set".to_owned() } else { diff.satisfied_by.join(", ") };
        report::print(&format!(
            "{missing}{}: {} imports, {} of them missing on {device}; satisfied by: {sets}\n",
            module.display(),
            imports.len(),
            diff.missing.len()
        ))?;
    }
    if diff.missing.is_empty() { Ok(()) } else { Err(Failure::judged()) }
}

/// What the device offers, of every name that a set knows or the module imports, with the categories of the sets.
fn asked(args: &Args, sets: &ExportSets) -> Result<(String, BTreeMap<String, String>), Failure> {
    let mut candidates: BTreeMap<String, String> = BTreeMap::new();
    for (_, set) in sets.iter() {
        candidates.extend(set.names.iter().map(|(name, category)| (name.clone(), category.clone())));
    }
    if let Some(module) = &args.module
        && let Ok(found) = inspect(&read_file(module)?)
    {
        for symbol in found.imports.symbols {
            candidates.entry(symbol.name).or_default();
        }
    }
    let mut session = args.device.open(args.timeout)?;
    let machine = Machine::host().filter(|_| args.device.rpmsg().is_none()).unwrap_or(Machine::C7x);
    let names: Vec<&str> = candidates.keys().map(String::as_str).collect();
    let offered = session.exports(&names, |names| probe_module(machine, names))?;
    let offered = offered.into_iter().filter_map(|name| candidates.get_key_value(name));
    let offered = offered.map(|(name, category)| (name.clone(), category.clone())).collect();
    Ok((session.device().to_owned(), offered))
}

fn named_set(sets: &ExportSets, name: &str) -> Result<BTreeMap<String, String>, Failure> {
    let known = || sets.iter().map(|(name, _)| name).collect::<Vec<_>>().join(", ");
    let set = sets.get(name).map(|set| set.names.clone());
    set.ok_or_else(|| Failure::usage(format!("there is no export set `{name}`"), format!("the sets are: {}", known())))
}

/// The symbols that a device offers, for commands that load without one: a set by name, a JSON file, or what suits the module.
pub(super) fn offered(named: Option<&str>, module: &[u8], sets: &ExportSets) -> Result<ExportTable, Failure> {
    let for_this_machine = outboard_elf::Elf::parse(module)
        .is_ok_and(|elf| matches!(Machine::from_elf(elf.header().machine), Some(Machine::X86_64 | Machine::AArch64)));
    let name = named.unwrap_or(if for_this_machine { SIM } else { FIRMWARE });
    if let Some(set) = sets.get(name) {
        return Ok(set.table());
    }
    let path = Path::new(name);
    if !path.exists() {
        let known: Vec<&str> = sets.iter().map(|(name, _)| name).collect();
        let message = format!("`{name}` is neither an export set nor a file");
        return Err(Failure::usage(message, format!("the sets are: {}", known.join(", "))));
    }
    let text = read_file(path)?;
    table(&text).map_err(|reason| {
        Failure::usage(format!("{name} is no file of exports: {reason}"), "write {\"NAME\": ADDRESS, ...}")
    })
}

/// Reads `{"NAME": ADDRESS, …}` or `{"symbols": [[NAME, ADDRESS], …]}`.
fn table(text: &[u8]) -> Result<ExportTable, String> {
    let value: Value = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    let object = value.as_object().ok_or("it is not an object")?;
    let address = |name: &str, value: &Value| {
        let number = value.as_u64().or_else(|| super::address(value.as_str()?).ok());
        number.map(|address| (name.to_owned(), address)).ok_or_else(|| format!("the address of `{name}` is {value}"))
    };
    let Some(symbols) = object.get("symbols").and_then(Value::as_array) else {
        return object.iter().map(|(name, value)| address(name, value)).collect();
    };
    let pair = |entry: &Value| match entry.as_array().map(Vec::as_slice) {
        Some([Value::String(name), value]) => address(name, value),
        _ => Err(format!("{entry} is no pair of name and address")),
    };
    symbols.iter().map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_shapes_of_a_file_of_exports_are_read() {
        for text in [r#"{"a": 4096, "b": "0x2000"}"#, r#"{"note": "x", "symbols": [["a", "0x1000"], ["b", 8192]]}"#] {
            let table = table(text.as_bytes()).unwrap();
            assert_eq!(table.sorted(), [("a", 0x1000), ("b", 0x2000)]);
        }
        for (text, reason) in [
            ("[]", "not an object"),
            (r#"{"a": -1}"#, "the address of `a` is -1"),
            (r#"{"symbols": [1]}"#, "1 is no pair"),
        ] {
            assert!(table(text.as_bytes()).unwrap_err().contains(reason), "{text}");
        }
    }
}
