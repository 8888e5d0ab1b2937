//! Judges GPSIMD files before they meet a device.

use outboard_link::check::{Finding, Severity};
use outboard_link::pi::{PrelinkRequest, prelink};
use outboard_ucode::cores::CoreKind;
use outboard_ucode::inspect::{Note, Report};

use crate::{DeviceFile, NeffPart, NeffReport, custom_op_findings, inspect_file};

/// Notes that are worth knowing and stop nothing.
const WARNINGS: [&str; 6] = ["OB0624", "OB0627", "OB0628", "OB0631", "OB0632", "OB0634"];

fn finding(code: &'static str, severity: Severity, place: &str, message: String) -> Finding {
    Finding {
        code,
        severity,
        place: place.to_owned(),
        message,
        fix: format!("`outboard explain {code}` says what to do"),
    }
}

fn of_note(note: &Note) -> Finding {
    let severity = if WARNINGS.contains(&note.code) { Severity::Warning } else { Severity::Error };
    let place = note.address.map_or_else(|| "file".to_owned(), |address| format!("{address:#x}"));
    finding(note.code, severity, &place, note.message.clone())
}

fn report(name: &str, file: &[u8]) -> Result<DeviceFile, Finding> {
    match inspect_file(name, file) {
        Ok(Some(found)) => Ok(found),
        Ok(None) => {
            let message = "is no file of a GPSIMD device: neither an image nor a container nor a manifest".to_owned();
            Err(finding("OB0604", Severity::Error, "file", message))
        }
        Err(error) => Err(finding(error.explain(), Severity::Error, "file", error.to_string())),
    }
}

/// Judges a device image for a core: everything that inspection notes, and whether the prelinker takes it.
///
/// ```
/// use outboard_neff::check::image;
/// use outboard_ucode::{cores, twins};
///
/// let core = cores::find("cayman").unwrap();
/// assert_eq!(image("x.elf", &twins::image("cayman_0").unwrap(), core), []);
/// assert_eq!(image("x.elf", b"hello", core)[0].code, "OB0604");
/// ```
#[must_use]
pub fn image(name: &str, file: &[u8], core: &CoreKind) -> Vec<Finding> {
    let found = match report(name, file) {
        Ok(DeviceFile::Image(found)) => found,
        Ok(_) => {
            let message = "is no device image; judge containers and manifests with --profile customop".to_owned();
            return vec![finding("OB0604", Severity::Error, "file", message)];
        }
        Err(finding) => return vec![finding],
    };
    let notes = match &found {
        Report::Pi(report) => report.notes.as_slice(),
        Report::Fll(report) => report.notes.as_slice(),
        Report::Object(_) | Report::Archive(_) => {
            let message = "is not linked yet; link it with `outboard link --shape pi` or `--shape fll`".to_owned();
            return vec![finding("OB0604", Severity::Error, "file", message)];
        }
        Report::Ucpl(_) => &[],
    };
    let mut findings: Vec<Finding> = notes.iter().map(of_note).collect();
    if let (Report::Pi(_), Err(error)) = (&found, prelink(&PrelinkRequest::new(file, &core.bounds)))
        && findings.iter().all(|finding| finding.code != error.explain())
    {
        let message = format!("{} ({}): {error}", error.name(), error.code());
        findings.push(finding(error.explain(), Severity::Error, &format!("prelinking for {}", core.name), message));
    }
    findings
}

/// Judges a container, `ucode_lib.json` or `def.json` against the documented limits of custom operations.
#[must_use]
pub fn custom_ops(name: &str, file: &[u8]) -> Vec<Finding> {
    let found = match report(name, file) {
        Ok(found) => found,
        Err(finding) => return vec![finding],
    };
    let limits = match found {
        DeviceFile::Container(NeffReport { libraries, graphs, .. }) => {
            let vars: Vec<_> = graphs.into_iter().flat_map(|graph| graph.vars).collect();
            custom_op_findings(&libraries, &vars)
        }
        DeviceFile::Part(NeffPart::UcodeLib { libraries }) => custom_op_findings(&libraries, &[]),
        DeviceFile::Part(NeffPart::Definition(graph)) => custom_op_findings(&[], &graph.vars),
        DeviceFile::Part(_) | DeviceFile::Image(_) => {
            let message = "has no limits of custom operations; pass a container, ucode_lib.json or def.json".to_owned();
            return vec![finding("OB0652", Severity::Error, "file", message)];
        }
    };
    limits.into_iter().map(|limit| finding(limit.code, Severity::Error, "manifest", limit.message)).collect()
}
