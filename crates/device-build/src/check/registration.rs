//! The three functions by which the device learns what a library has, judged by calling them on every core.

use outboard_gpsimd::{Answer, Error, Runtime};

use super::rule::{Findings, Rule};

/// The three functions by their linker names and by what C++ calls them.
pub(super) const TRIO: [(&str, &str); 3] = [
    ("_Z12get_func_cntv", "get_func_cnt()"),
    ("_Z13get_func_namei", "get_func_name(int)"),
    ("_Z12get_func_ptri", "get_func_ptr(int)"),
];
/// Functions that the firmware's table holds.
const TABLE: u32 = 97;
/// Functions that the authors' guide allows.
const GUIDE: usize = crate::schema::MAX_FUNCTIONS;
/// Longest name that a model can keep.
const NAME: usize = crate::schema::NAME_LIMIT - 1;
/// What unknown numbers are called.
const UNKNOWN: &str = "error";

/// One answer about a function.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    /// `None`: not a text.
    name: Option<String>,
    address: u32,
}

impl Entry {
    fn is_known(&self) -> bool {
        self.address != 0 && self.name.as_deref().is_some_and(|name| name != UNKNOWN && !name.is_empty())
    }
}

/// Who is asked, and where complaints go.
struct Survey<'a> {
    runtime: &'a mut Runtime,
    findings: &'a mut Findings,
    /// The file of each core, for places.
    places: &'a [String],
}

/// Judges the registration of the library that was entered last. `loaded`: the names that it registered, or why it was refused.
pub(super) fn judge(
    runtime: &mut Runtime,
    loaded: &Result<Vec<String>, Error>,
    places: &[String],
    findings: &mut Findings,
) {
    let mut survey = Survey { runtime, findings, places };
    let first = survey.core(0);
    let mut reference = None;
    if let Some(entries) = first {
        for core in 1..places.len() {
            let Some(other) = survey.core(core) else { return };
            let names = |entries: &[Entry]| entries.iter().map(|entry| entry.name.clone()).collect::<Vec<_>>();
            if names(&other) != names(&entries) {
                let (here, there) = (listed(&other), listed(&entries));
                let message = format!("has the functions {here}, core 0 has {there}");
                survey.findings.error(Rule::Inconsistent, place(places, core), message);
                return;
            }
        }
        reference = Some(entries);
    }
    if findings.has_errors() {
        return;
    }
    match (loaded, reference) {
        (Err(error), _) => refused(error, places, findings),
        (Ok(names), Some(entries)) => {
            let known: Vec<_> = entries.iter().filter_map(|entry| entry.name.clone()).collect();
            if *names != known {
                let message = format!("registers {}, its three functions name {}", names.join(", "), known.join(", "));
                findings.error(Rule::Inconsistent, place(places, 0), message);
            }
        }
        (Ok(names), None) => stripped(names, &place(places, 0), findings),
    }
}

fn listed(entries: &[Entry]) -> String {
    let names: Vec<_> = entries.iter().map(|entry| entry.name.as_deref().unwrap_or("?")).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

fn place(places: &[String], core: usize) -> String {
    places.get(core).cloned().unwrap_or_default()
}

/// What can be said of the names that a library without symbols registered.
fn stripped(names: &[String], place: &str, findings: &mut Findings) {
    if names.is_empty() {
        findings.error(Rule::Count, place, "registers no function");
    }
    let mut seen: Vec<&str> = Vec::new();
    for (index, name) in names.iter().enumerate() {
        judge_name(Some(name), index, place, findings);
        if seen.contains(&name.as_str()) {
            findings.error(Rule::NameTwice, place, format!("two functions are called `{name}`"));
        }
        seen.push(name);
    }
    too_many(names.len(), place, findings);
}

fn too_many(count: usize, place: &str, findings: &mut Findings) {
    if count > GUIDE {
        findings.error(
            Rule::Limit,
            place,
            format!("has {count} functions; the authors' guide allows {GUIDE} for a library"),
        );
    }
}

fn judge_name(name: Option<&str>, index: usize, place: &str, findings: &mut Findings) {
    let problem = match name {
        None => "is no text: null, outside of memory, or without an end".to_owned(),
        Some("") => "is empty".to_owned(),
        Some(UNKNOWN) => format!("is `{UNKNOWN}`, which stands for a number without a function"),
        Some(name) if name.contains("::") => {
            format!("is `{name}`: functions are registered without their namespace")
        }
        Some(name) if name.len() > NAME => format!("`{name}` has {} bytes, a model keeps {NAME}", name.len()),
        Some(name) if !is_identifier(name) => format!("is `{}`, which is no identifier", name.escape_default()),
        Some(_) => return,
    };
    findings.error(Rule::Name, place, format!("the name of function {index} {problem}"));
}

fn is_identifier(name: &str) -> bool {
    name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
        && !name.starts_with(|letter: char| letter.is_ascii_digit())
}

/// Why a library whose three functions are in order was refused.
fn refused(error: &Error, places: &[String], findings: &mut Findings) {
    let core = match error {
        Error::Boot { core, .. } | Error::Registration { core, .. } => *core,
        Error::Device(fault) => fault.core,
        _ => 0,
    };
    let place = place(places, core);
    match error {
        Error::Device(_) | Error::Boot { .. } => {
            findings.error(Rule::Entry, place, format!("fails while it is entered: {error}"));
        }
        Error::Registration { .. } => findings.error(Rule::Inconsistent, place, error.to_string()),
        Error::CpuCount { .. } | Error::ImageCount { .. } | Error::ImageCore { .. } => {
            findings.error(Rule::CoreFile, place, error.to_string());
        }
        Error::ImageSize { .. } => findings.error(Rule::Limit, place, error.to_string()),
        Error::Elf { .. } | Error::Shape { .. } => findings.error(Rule::Damaged, place, error.to_string()),
        _ => findings.error(Rule::Link, place, error.to_string()),
    }
}

impl Survey<'_> {
    fn place(&self, core: usize, function: &str) -> String {
        format!("{}: {function}", place(self.places, core))
    }

    /// What one of the three returns; `Err(())` when it fails, which is a finding.
    fn ask(&mut self, core: usize, which: usize, index: u32) -> Result<Option<u32>, ()> {
        let (linker, readable) = TRIO.get(which).copied().unwrap_or_default();
        match self.runtime.ask(core, linker, index) {
            Ok(Answer::Returned(value)) => Ok(Some(value)),
            Ok(Answer::NoSuchFunction) => Ok(None),
            Err(error) => {
                let message = format!("fails for {index}: {error}");
                self.findings.error(Rule::Entry, self.place(core, readable), message);
                Err(())
            }
        }
    }

    /// A function's name and address; nothing when asking failed.
    fn entry(&mut self, core: usize, index: u32) -> Option<Entry> {
        let name = self.ask(core, 1, index).ok()??;
        let address = self.ask(core, 2, index).ok()??;
        // A core has memory at 0, and nobody's text there.
        let name = if name == 0 { None } else { self.runtime.text_at(core, name, 256) };
        Some(Entry { name, address })
    }

    /// Asks one core for everything; nothing when the file has no names, or when the answers forbid to go on.
    fn core(&mut self, core: usize) -> Option<Vec<Entry>> {
        if !self.runtime.has_names(core) {
            return None;
        }
        let missing: Vec<_> = TRIO
            .iter()
            .filter(|(linker, _)| !self.runtime.has_function(core, linker))
            .map(|(_, readable)| *readable)
            .collect();
        for readable in &missing {
            let message = "is not defined: the device asks it what the library has";
            self.findings.error(Rule::NoRegistration, self.place(core, readable), message);
        }
        if !missing.is_empty() {
            return None;
        }
        let count = self.ask(core, 0, 0).ok()??;
        let at = self.place(core, "get_func_cnt()");
        if !(1..=TABLE).contains(&count) {
            let message = format!("returns {}, and the device takes 1 to {TABLE} functions", count.cast_signed());
            self.findings.error(Rule::Count, at, message);
            return None;
        }
        if self.ask(core, 0, 0).ok()? != Some(count) {
            self.findings.error(Rule::Inconsistent, at, "returns another number when it is asked again");
            return None;
        }
        let mut entries = Vec::new();
        for index in 0..count {
            let entry = self.entry(core, index)?;
            if self.entry(core, index)? != entry {
                let message = format!("says something else of function {index} when it is asked again");
                self.findings.error(Rule::Inconsistent, self.place(core, "get_func_name(int)"), message);
                return None;
            }
            entries.push(entry);
        }
        self.judge_count(core, &entries);
        if !self.findings.has_errors() {
            self.judge_entries(core, &entries);
        }
        Some(entries)
    }

    /// Whether the number of functions is that of the two tables.
    fn judge_count(&mut self, core: usize, entries: &[Entry]) {
        let count = entries.len();
        // The device's table has less than a hundred rows.
        let next = u32::try_from(count).unwrap_or(u32::MAX);
        let at = self.place(core, "get_func_cnt()");
        let real = entries.iter().take_while(|entry| entry.is_known()).count();
        let beyond =
            |entry: &Entry| entry.address == 0 && (entry.name.is_none() || entry.name.as_deref() == Some(UNKNOWN));
        if real < count && entries.iter().skip(real).all(beyond) {
            self.findings.error(Rule::Count, at, format!("returns {count}, and there are {real} functions"));
            return;
        }
        // Asking beyond the end may fail in a table: that says nothing.
        let name = self.runtime.ask(core, "_Z13get_func_namei", next);
        let address = self.runtime.ask(core, "_Z12get_func_ptri", next);
        if let (Ok(Answer::Returned(name)), Ok(Answer::Returned(address))) = (name, address) {
            let name = self.runtime.text_at(core, name, NAME).filter(|name| is_identifier(name));
            let entry = Entry { name, address };
            if entry.is_known() && self.runtime.function_at(core, address).is_some() {
                let name = entry.name.as_deref().unwrap_or_default();
                self.findings.error(
                    Rule::Count,
                    at,
                    format!("returns {count}, and there is a function {count}, `{name}`"),
                );
            }
        }
        too_many(count, &place(self.places, core), self.findings);
    }

    fn judge_entries(&mut self, core: usize, entries: &[Entry]) {
        let names = self.place(core, "get_func_name(int)");
        let addresses = self.place(core, "get_func_ptr(int)");
        for (index, entry) in entries.iter().enumerate() {
            judge_name(entry.name.as_deref(), index, &names, self.findings);
            let before = entries.get(..index).unwrap_or_default();
            if let (Some(name), true) = (&entry.name, before.iter().any(|other| other.name == entry.name)) {
                self.findings.error(Rule::NameTwice, names.clone(), format!("two functions are called `{name}`"));
            }
            let Some(function) = self.runtime.function_at(core, entry.address).map(str::to_owned) else {
                let what = if entry.address == 0 { "is null" } else { "is not where a function begins" };
                let message = format!("the address of function {index}, {:#010x}, {what}", entry.address);
                self.findings.error(Rule::Address, addresses.clone(), message);
                continue;
            };
            // Launchers and wrappers are called after their operations.
            let of = function.strip_suffix("_stack_switch").or_else(|| function.strip_suffix("_wrapper"));
            let other = of.filter(|of| entry.name.as_deref() != Some(*of));
            if let Some(other) = other.filter(|of| entries.iter().any(|entry| entry.name.as_deref() == Some(of))) {
                let name = entry.name.as_deref().unwrap_or("?");
                let message =
                    format!("function {index} is `{name}` by its name and `{other}` by its address ({function})");
                self.findings.error(Rule::Inconsistent, addresses.clone(), message);
            }
        }
    }
}
