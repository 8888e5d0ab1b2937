//! Reports of operations, for people and for programs.

use crate::report::{self, Failure};
use outboard_gpsimd::{DeviceFault, FaultKind, RunReport};
use outboard_tensor::Tensor;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::PathBuf;

/// What is shown beyond the result.
#[derive(Debug, Clone, Copy)]
pub(super) struct Options {
    pub(super) trace: bool,
    pub(super) profile: bool,
    pub(super) stats: bool,
}

/// Passes on what the device printed, and what was noticed.
pub(super) fn printed(report: &RunReport) {
    let several = report.printed.iter().any(|printed| printed.core > 0);
    for printed in &report.printed {
        if printed.lost_slots > 0 {
            report::say(&format!(
                "core {} {}: {} slots were overwritten before they were read",
                printed.core, printed.stream, printed.lost_slots
            ));
        }
        for line in printed.text.lines() {
            report::say(&if several { format!("core {}: {line}", printed.core) } else { line.to_owned() });
        }
    }
    for finding in &report.findings {
        let kind = if finding.error { "error" } else { "finding" };
        report::say(&format!("{kind}[{}] {finding}", finding.code));
    }
}

/// The report as a person reads it.
pub(super) fn text(results: &[(String, Tensor)], report: &RunReport, options: Options) -> String {
    let mut page = String::new();
    for (name, tensor) in results {
        let dims: Vec<String> = tensor.shape().dims().iter().map(ToString::to_string).collect();
        let _ = writeln!(page, "{name}: {} [{}]", tensor.dtype().name(), dims.join(", "));
    }
    let cycles = report.cores.iter().map(|core| core.cycles).max().unwrap_or(0);
    let instructions: u64 = report.cores.iter().map(|core| core.instructions).sum();
    let _ = writeln!(
        page,
        "{} cores, {cycles} cycles on the slowest, {instructions} instructions, {} bytes moved by DMA, {} windows moved",
        report.cores.len(),
        report.bytes_moved(),
        report.windows_moved()
    );
    if options.profile {
        for core in &report.cores {
            let _ = writeln!(page, "core {}: {} instructions, {} cycles", core.core, core.instructions, core.cycles);
        }
    }
    if options.stats {
        for core in &report.cores {
            let hooks = &core.hooks;
            let _ = writeln!(
                page,
                "core {}: {} doorbells, {} transfers, {} windows, {} ordered, {} end",
                core.core, hooks.doorbells, hooks.transfers, hooks.windows, hooks.drains, report.dispatches
            );
        }
        let _ = writeln!(
            page,
            "{} texts read from print queues, {} notifications",
            report.printed.len(),
            report.notifications.len()
        );
    }
    if options.trace {
        for call in &report.routines {
            let _ = writeln!(page, "core {} {:#010x} {}", call.core, call.pc, call.routine);
        }
        for transfer in &report.transfers {
            let who = transfer.core.map_or("host".to_owned(), |core| format!("core {core}"));
            let _ = writeln!(page, "{who}: {:#x} -> {:#x}, {} bytes", transfer.from, transfer.to, transfer.bytes);
        }
    }
    page
}

/// The report as a program reads it.
pub(super) fn json(results: &[(String, Tensor)], report: &RunReport, options: Options, files: &[PathBuf]) -> Value {
    let outputs = results.iter().enumerate().map(|(index, (name, tensor))| {
        json!({
            "name": name, "shape": tensor.shape().dims(), "dtype": tensor.dtype().name(), "file": files.get(index),
        })
    });
    let mut object = json!({
        "status": if report.findings.iter().any(|finding| finding.error) { "error" } else { "ok" },
        "device": "sim",
        "outputs": outputs.collect::<Vec<_>>(),
        "dispatches": report.dispatches,
        "cores": report.cores,
        "bytes_moved": report.bytes_moved(),
        "windows_moved": report.windows_moved(),
        "printed": report.printed,
        "findings": report.findings,
        "notifications": report.notifications,
        "log": report.log,
    });
    if let (true, Some(object)) = (options.trace, object.as_object_mut()) {
        object.insert("routines".to_owned(), json!(report.routines));
        object.insert("transfers".to_owned(), json!(report.transfers));
    }
    object
}

/// What a program may want to know about a fault.
pub(super) fn fault(failure: Failure, fault: &DeviceFault) -> Failure {
    let place = |place: &outboard_gpsimd::Place| {
        let (file, line) = place.line.as_ref().map(|(file, line)| (file, line)).unzip();
        json!({ "pc": place.pc, "function": place.function, "file": file, "line": line })
    };
    let text = match &fault.kind {
        FaultKind::Abort { text } => Some(text.as_str()),
        _ => None,
    };
    failure
        .with("core", json!(fault.core))
        .with("cause", json!(fault.name()))
        .with("text", json!(text))
        .with("pc", json!(fault.backtrace.first().map(|place| place.pc)))
        .with("backtrace", json!(fault.backtrace.iter().map(place).collect::<Vec<_>>()))
}
