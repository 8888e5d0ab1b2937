//! `outboard devices`: what can be run on.

use crate::report::{self, Failure};
use outboard_c7x::sim::{Board, Cache};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// List the devices: the simulated one and the DSPs of this board.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  outboard devices
  outboard devices --json
  outboard devices --map --board beagley-ai

The simulated device is always there. A DSP is listed when the kernel shows its RPMsg control device or its remote
processor; reading the list changes nothing.")]
pub(crate) struct Args {
    /// Print JSON on standard output.
    #[arg(long)]
    pub(crate) json: bool,

    /// Show the memory map of a board instead.
    #[arg(long)]
    map: bool,

    /// The board: am67a-evm or beagley-ai.
    #[arg(long, value_name = "NAME", default_value = "am67a-evm", value_parser = super::device_args::board)]
    board: Board,

    /// Where the kernel's device tree is mounted.
    #[arg(long, hide = true, default_value = "/sys")]
    sysfs: PathBuf,
}

/// Device-tree name of the C7x of a board.
const C7X: &str = "7e000000.dsp";

pub(crate) fn execute(args: &Args) -> Result<(), Failure> {
    if args.map {
        return print_map(&args.board, args.json);
    }
    let mut devices = vec![json!({"name": "sim", "kind": "c7x", "transport": "shared-memory", "state": "available"})];
    devices.extend(board(&args.sysfs));
    if args.json {
        return report::result(&json!({"status": "ok", "devices": devices}));
    }
    let cell = |device: &Value, key: &str| device[key].as_str().unwrap_or("-").to_owned();
    let mut table = format!("{:<28} {:<6} {:<14} {}\n", "NAME", "KIND", "TRANSPORT", "STATE");
    for device in &devices {
        let [name, kind, transport, state] = ["name", "kind", "transport", "state"].map(|key| cell(device, key));
        table += &format!("{name:<28} {kind:<6} {transport:<14} {state}\n");
    }
    report::print(&table)
}

fn print_map(board: &Board, as_json: bool) -> Result<(), Failure> {
    let cache = |cache: Cache| match cache {
        Cache::Cached => "cached",
        Cache::NonCached => "non-cached",
        Cache::Device => "device",
    };
    if as_json {
        let regions: Vec<Value> = board
            .regions
            .iter()
            .map(|region| {
                json!({
                    "name": region.name,
                    "dsp": region.dsp,
                    "physical": region.physical,
                    "size": region.size,
                    "cache": cache(region.cache),
                })
            })
            .collect();
        return report::result(&json!({"status": "ok", "board": board.name, "regions": regions}));
    }
    let mut table = format!(
        "{} ({})\n{:<24} {:>12} {:>12} {:>12} {}\n",
        board.name, board.title, "REGION", "DSP", "PHYSICAL", "SIZE", "CACHE"
    );
    for region in &board.regions {
        let physical = region.physical.map_or_else(|| "local".to_owned(), |base| format!("{base:#x}"));
        let (dsp, size) = (format!("{:#x}", region.dsp), format!("{:#x}", region.size));
        table += &format!("{:<24} {dsp:>12} {physical:>12} {size:>12} {}\n", region.name, cache(region.cache));
    }
    report::print(&table)
}

/// C7x DSPs the kernel knows: remote processors, with the RPMsg control device when their firmware has announced itself.
fn board(sysfs: &Path) -> Vec<Value> {
    let control = links(&sysfs.join("class/rpmsg"), "rpmsg_ctrl");
    links(&sysfs.join("class/remoteproc"), "remoteproc")
        .into_iter()
        .filter(|(_, target)| is_c7x(target))
        .map(|(processor, _)| {
            let folder = sysfs.join("class/remoteproc").join(&processor);
            let state = std::fs::read_to_string(folder.join("state")).unwrap_or_default();
            let endpoint = control.iter().find(|(_, target)| is_c7x(target)).map(|(name, _)| format!("/dev/{name}"));
            json!({
                "name": format!("rpmsg:{C7X}"),
                "kind": "c7x",
                "transport": "rpmsg",
                "state": state.trim(),
                "remoteproc": processor,
                "control": endpoint,
            })
        })
        .collect()
}

fn is_c7x(target: &Path) -> bool {
    target.components().any(|part| part.as_os_str() == C7X)
}

/// Entries of a class folder whose name starts with `prefix`, with what their `device` link leads to.
fn links(class: &Path, prefix: &str) -> Vec<(String, PathBuf)> {
    let Ok(entries) = std::fs::read_dir(class) else { return Vec::new() };
    let mut found: Vec<_> = entries
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok().filter(|name| name.starts_with(prefix))?;
            let target = std::fs::canonicalize(entry.path().join("device")).ok()?;
            Some((name, target))
        })
        .collect();
    found.sort();
    found
}
