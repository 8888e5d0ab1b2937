//! Judges a file before it meets a board.
//!
//! Each [`Finding`] has a stable code (`outboard explain CODE` prints its page), a place and a fix. Errors mean that the
//! file will not load or will not work; warnings, that the original firmware would get it wrong or that room is short;
//! notes are facts worth knowing.

mod firmware;
mod module;

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

use outboard_elf::Elf;

use super::budget::{MemoryBudget, budget};
use super::export_sets::{ExportSet, ExportSets};
use super::prelink::{PrelinkMemory, load_sparse};
use super::target::Target;
use crate::image::Image;
use crate::{ExportTable, Initialisers, LoadError, LoadOptions, LoadRequest, Machine, ReadOnlyPlacement};

/// What a file is judged as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum Profile {
    /// A module for the C7x service, on a board or simulated.
    C7x,
    /// A firmware that Linux' remoteproc starts.
    Remoteproc,
}

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
pub enum Severity {
    /// The file will not load or will not work.
    Error,
    /// The original firmware would get it wrong, or room is short.
    Warning,
    /// Worth knowing.
    Note,
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Finding {
    /// Stable code.
    pub code: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// Where: a symbol, program header, section, tag or file offset.
    pub place: String,
    /// What is wrong and why it matters.
    pub message: String,
    /// What to do.
    pub fix: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "note",
        };
        let Self { code, place, message, fix, .. } = self;
        write!(f, "{severity}[{code}] {place}: {message}\n  fix: {fix}")
    }
}

/// What to judge and against what.
#[derive(Debug, Clone, Copy)]
pub struct CheckRequest<'a> {
    /// The bytes of the file.
    pub file: &'a [u8],
    /// Name of the file, for messages.
    pub name: &'a str,
    /// What it is judged as.
    pub profile: Profile,
    /// The board it is for.
    pub target: &'a Target,
    /// The symbols that the device offers: a declared set, or the table of a running device.
    pub exports: &'a ExportTable,
    /// The export sets that are known, to name those that would satisfy the module.
    pub sets: &'a ExportSets,
}

/// The judgement.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct CheckReport {
    /// `ok` without errors, else `error`.
    pub status: &'static str,
    /// What the file was judged as.
    pub profile: Profile,
    /// Number of errors.
    pub errors: usize,
    /// Number of warnings.
    pub warnings: usize,
    /// The findings, errors first.
    pub findings: Vec<Finding>,
    /// Names of the export sets that satisfy the module.
    pub satisfied_by: Vec<String>,
    /// The memory that a module needs; `None` for files that cannot be read.
    pub budget: Option<MemoryBudget>,
}

impl CheckReport {
    /// Adds findings, and counts and sorts them all.
    pub fn add(&mut self, findings: Vec<Finding>) {
        self.findings.extend(findings);
        self.findings.sort_by_key(|finding| finding.severity);
        let count = |severity| self.findings.iter().filter(|finding| finding.severity == severity).count();
        (self.errors, self.warnings) = (count(Severity::Error), count(Severity::Warning));
        self.status = if self.errors == 0 { "ok" } else { "error" };
    }
}

impl ExportSet {
    /// A table with an address for every name, as a firmware has them: for checks without a device.
    #[must_use]
    pub fn table(&self) -> ExportTable {
        const FIRMWARE_CODE: u64 = 0xad60_4000;
        let addresses = (0_u64..).map(|index| FIRMWARE_CODE + 0x40 * index);
        self.names.keys().map(String::as_str).zip(addresses).collect()
    }
}

/// Judges a file.
///
/// ```
/// use outboard_link::check::{CheckRequest, Profile, check};
/// use outboard_link::export_sets::ExportSets;
/// use outboard_link::target::Target;
///
/// let (sets, target) = (ExportSets::builtin(), Target::am67a());
/// let exports = sets.get("firmware-v2").unwrap().table();
/// let report = check(&CheckRequest {
///     file: b"not a module",
///     name: "lib0.out",
///     profile: Profile::C7x,
///     target: &target,
///     exports: &exports,
///     sets: &sets,
/// });
/// assert_eq!((report.errors, report.findings[0].code), (1, "OB0102"));
/// ```
#[must_use]
pub fn check(request: &CheckRequest<'_>) -> CheckReport {
    let mut findings = Findings::default();
    let mut report = CheckReport {
        status: "ok",
        profile: request.profile,
        errors: 0,
        warnings: 0,
        findings: Vec::new(),
        satisfied_by: Vec::new(),
        budget: None,
    };
    match request.profile {
        Profile::C7x => check_module(request, &mut findings, &mut report),
        Profile::Remoteproc => match Elf::parse(request.file) {
            Ok(elf) => firmware::check(&elf, &mut findings),
            Err(error) => findings.load_error(&LoadError::from(error)),
        },
    }
    report.add(findings.list);
    report
}

fn check_module(request: &CheckRequest<'_>, findings: &mut Findings, report: &mut CheckReport) {
    let load = LoadRequest {
        file: request.file,
        name: request.name,
        staging: Some(request.target.staging.address),
        exports: request.exports,
        cpu_features: None,
        machines: &[Machine::C7x, Machine::X86_64, Machine::AArch64],
        initialisers: Initialisers::Collect,
    };
    let image = match Image::parse(&load) {
        Ok(image) => image,
        Err(error) => return findings.load_error(&error),
    };
    let imports = module::imports(&image);
    report.satisfied_by =
        request.sets.satisfying(imports.iter().map(String::as_str)).into_iter().map(String::from).collect();
    let budget = budget(&image, request.target);
    for row in budget.exceeded() {
        findings.push(
            "OB0218",
            Severity::Error,
            row.place.to_string(),
            format!("{} {} bytes, {} has {} bytes", row.what, row.needed, row.place, row.limit),
            "use a smaller model, or split it into several modules".to_string(),
        );
    }
    report.budget = Some(budget);
    module::check(&image, request, &imports, findings);
    try_load(&load, request, findings);
}

/// Loads the module without a device; what the loader refuses is a finding.
fn try_load(load: &LoadRequest<'_>, request: &CheckRequest<'_>, findings: &mut Findings) {
    let memory = || PrelinkMemory::new(request.target.pool("MAIN"), request.target.staging, request.file.len());
    let run = |options: &LoadOptions<'_>| load_sparse(load, options, &mut memory());
    let usual = LoadOptions { read_only: ReadOnlyPlacement::InPlace, ..LoadOptions::default() };
    match run(&usual) {
        // Missing imports have a finding of their own, with the sets that have them.
        Err(LoadError::Unresolved(_)) if findings.has("OB0202") => {}
        Err(LoadError::OutOfMemory { .. }) if findings.has("OB0218") => {}
        Err(error) => findings.load_error(&error),
        Ok(_) => {
            if let Err(LoadError::MisalignedTarget(fault)) = run(&LoadOptions { strict: true, ..usual }) {
                findings.push(
                    "OB0222",
                    Severity::Warning,
                    fault.to_string(),
                    "the target is not a multiple of 4 and the instruction drops its low bits: it branches elsewhere"
                        .to_string(),
                    "align the target to 4 bytes".to_string(),
                );
            }
        }
    }
}

/// Findings as they are collected.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    list: Vec<Finding>,
}

impl Findings {
    pub fn push(&mut self, code: &'static str, severity: Severity, place: String, message: String, fix: String) {
        self.list.push(Finding { code, severity, place, message, fix });
    }

    fn has(&self, code: &str) -> bool {
        self.list.iter().any(|finding| finding.code == code)
    }

    /// What the loader refuses: its message ends with the fix.
    fn load_error(&mut self, error: &LoadError) {
        let text = error.to_string();
        let (message, fix) = match text.rsplit_once("; ") {
            Some((message, fix)) if !fix.contains('\n') => (message.to_string(), fix.to_string()),
            _ => (text.clone(), format!("see `outboard explain {}`", error.code())),
        };
        self.push(error.code(), Severity::Error, "the loader".to_string(), message, fix);
    }
}

/// A list of names for a message: the first few, and how many more.
pub(crate) fn some(names: &[String]) -> String {
    const SHOWN: usize = 40;
    let mut text = names.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
    if names.len() > SHOWN {
        text.push_str(&format!(" and {} more", names.len() - SHOWN));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn long_lists_are_cut() {
        assert_eq!(some(&vec!["a".to_string(); 2]), "a, a");
        assert!(some(&vec!["a".to_string(); 42]).ends_with("a and 2 more"));
    }
}
