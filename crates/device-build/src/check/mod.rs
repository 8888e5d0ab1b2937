//! Judges custom operations before they meet a device: objects, archives, libraries with the files of their cores, manifests.
//!
//! Files are looked at first (machine, symbols, instructions); what is sound so far is linked with the device runtime where it is
//! not linked yet, loaded into simulated cores, asked for its functions, and each function is called and followed. The rules
//! are in `docs/reference/custom-ops.md`, "Checking".

mod images;
mod object;
mod registration;
mod rule;
mod signature;
mod trace;

use std::collections::BTreeSet;

use outboard_elf::archive::{Archive, MAGIC};
use outboard_elf::et;
use outboard_gpsimd::{PoolTarget, Runtime, RuntimeOptions, Schedule};
use outboard_link::build::BuildError as Fault;
use outboard_link::check::Finding;
use outboard_link::shape::ShapeErrors;
use outboard_neff::{RuntimeVersion, UcodeLib, parse_ucode_lib};

use self::images::Linked;
use self::object::Object;
use self::rule::{Findings, Rule};
use crate::{BuildError, DeviceBuild, LinkError, Schema, library};

pub use trace::Operation;

/// What the runtime offers by contract: the linker names of its routines.
const SYMBOLS: &str = include_str!("../../../../device/customop-rt/symbols.txt");
/// Cores of a multicore library.
const CORES: u8 = 8;
/// Instructions of a core while a library is entered or asked.
const FUEL: u64 = 20_000_000;

/// What to judge.
#[derive(Clone, Copy)]
pub struct OpCheck<'a> {
    /// The file's name: for messages, and for what is beside it.
    pub name: &'a str,
    /// Its bytes.
    pub file: &'a [u8],
    /// The bytes of a file beside it, by name: those of other cores, those that a manifest names. `None`: there is none.
    pub beside: &'a dyn Fn(&str) -> Option<Vec<u8>>,
    /// Schemas of its operations, as far as they are known. What a C++ function takes is read from its linker name otherwise.
    pub schemas: &'a [Schema],
}

/// A judgement.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OpJudgement {
    /// What is wrong, errors first.
    pub findings: Vec<Finding>,
    /// The operations that were called.
    pub operations: Vec<Operation>,
}

impl DeviceBuild {
    /// Judges an object, an archive, a library, a manifest or a container with custom operations.
    ///
    /// ```
    /// use outboard_device_build::{DeviceBuild, OpCheck};
    ///
    /// let check = OpCheck { name: "op.o", file: b"\x7fELF\x02", beside: &|_| None, schemas: &[] };
    /// let judged = DeviceBuild::default().check_op(&check)?;
    /// assert_eq!(judged.findings[0].code, "OB0873");
    /// # Ok::<(), outboard_device_build::BuildError>(())
    /// ```
    ///
    /// # Errors
    /// The device runtime, which objects are linked with, cannot be built. What is wrong with the file is a finding.
    pub fn check_op(&self, check: &OpCheck<'_>) -> Result<OpJudgement, BuildError> {
        let mut judge = Judge { build: self, check, findings: Findings::default(), operations: Vec::new() };
        judge.file()?;
        Ok(OpJudgement { findings: judge.findings.finish(), operations: judge.operations })
    }
}

/// A judgement in the making.
struct Judge<'a> {
    build: &'a DeviceBuild,
    check: &'a OpCheck<'a>,
    findings: Findings,
    operations: Vec<Operation>,
}

impl Judge<'_> {
    fn file(&mut self) -> Result<(), BuildError> {
        let OpCheck { name, file, .. } = *self.check;
        if file.starts_with(MAGIC) {
            return self.archive();
        }
        if file.starts_with(b"\x7fELF") {
            let Some(object) = object::read(name, file, &mut self.findings) else { return Ok(()) };
            if object.elf.header().kind == et::REL {
                return self.objects(vec![object]);
            }
            self.linked(&object);
            return Ok(());
        }
        for finding in outboard_neff::check::custom_ops(name, file) {
            self.findings.push(finding);
        }
        if outboard_neff::is_container(name, file) || self.findings.has_errors() {
            return Ok(());
        }
        // What is no manifest has no libraries.
        if let Ok(libraries) = parse_ucode_lib(name, file, RuntimeVersion::default()) {
            self.manifest(&libraries);
        }
        Ok(())
    }

    fn archive(&mut self) -> Result<(), BuildError> {
        let OpCheck { name, file, .. } = *self.check;
        let mut objects = Vec::new();
        for member in Archive::open(file).into_iter().flatten() {
            match member {
                Ok(member) if member.data.starts_with(b"\x7fELF") => {
                    let place = format!("{name}({})", String::from_utf8_lossy(member.name));
                    objects.extend(object::read(&place, member.data, &mut self.findings));
                }
                Ok(_) => {}
                Err(error) => self.findings.error(Rule::Damaged, name, error.to_string()),
            }
        }
        if objects.is_empty() && !self.findings.has_errors() {
            self.findings.error(Rule::Damaged, name, "is an archive without objects");
        }
        self.objects(objects)
    }

    /// Judges objects, and what they are with the runtime.
    fn objects(&mut self, objects: Vec<Object<'_>>) -> Result<(), BuildError> {
        if self.findings.has_errors() {
            return Ok(());
        }
        for object in &objects {
            object.judge_code(&BTreeSet::new(), &mut self.findings);
        }
        let runtime = self.build.runtime(1)?;
        self.private_names(&objects, &runtime);
        let parts = [(self.check.name, self.check.file), ("customop-rt", runtime.as_slice())];
        let image = match library::fixed(&parts, None) {
            Ok(image) => image,
            Err(error) => {
                self.link_error(&error);
                return Ok(());
            }
        };
        if !self.findings.has_errors() {
            self.run(&[(self.check.name.to_owned(), image)], 1);
        }
        Ok(())
    }

    /// Names that the linker finds, and that are none of the interface.
    fn private_names(&mut self, objects: &[Object<'_>], runtime: &[u8]) {
        let own: BTreeSet<&str> = objects.iter().flat_map(Object::defined).collect();
        let mut unknown = Findings::default();
        let members = Archive::open(runtime).into_iter().flatten().flatten();
        let members: Vec<_> = members.filter_map(|member| object::read("runtime", member.data, &mut unknown)).collect();
        let offered: BTreeSet<&str> = members.iter().flat_map(Object::defined).collect();
        let contract: BTreeSet<&str> = SYMBOLS.lines().collect();
        for object in objects {
            for name in object.wanted().filter(|name| !own.contains(name) && !contract.contains(name)) {
                // What has a plain C name is the C library's or the compiler's.
                if offered.contains(name)
                    && (name.starts_with("_Z") || name.starts_with("_R") || name.starts_with("__rust"))
                {
                    let message = format!("{name} is a name inside of the runtime, not one that it offers");
                    self.findings.error(Rule::Undefined, object.place.clone(), message);
                }
            }
        }
    }

    /// Says what the linker found in terms of the interface.
    fn link_error(&mut self, error: &LinkError) {
        let name = self.check.name;
        let LinkError::Shape(ShapeErrors::Build(errors)) = error else {
            self.findings.error(Rule::Link, name, error.to_string());
            return;
        };
        for fault in errors.iter() {
            match fault {
                Fault::Undefined { symbols } => {
                    for symbol in symbols {
                        let asked = registration::TRIO.iter().find(|(linker, _)| *linker == symbol.name);
                        if let Some((_, readable)) = asked {
                            let message = "is not defined: the device asks it what the library has";
                            self.findings.error(Rule::NoRegistration, format!("{name}: {readable}"), message);
                            continue;
                        }
                        let place = symbol.places.first().map_or_else(|| name.to_owned(), ToString::to_string);
                        let mut message =
                            format!("{} is not defined, and the runtime has no such routine", symbol.name);
                        if let Some(near) = symbol.near.first() {
                            message.push_str(&format!("; alike: {near}"));
                        }
                        self.findings.error(Rule::Undefined, place, message);
                    }
                }
                Fault::Duplicate { name: symbol, first, second } => {
                    let both = format!("{symbol} is defined in {first} and in {second}");
                    self.findings.error(Rule::Duplicate, first.clone(), both);
                }
                Fault::RegionFull { .. } => self.findings.error(Rule::Limit, name, fault.to_string()),
                other => self.findings.error(Rule::Link, name, format!("{other} ({})", other.explain())),
            }
        }
    }

    /// Judges a linked file, with those of the other cores.
    fn linked(&mut self, object: &Object<'_>) {
        let name = self.check.name;
        let Some(shape) = images::shape(object, &mut self.findings) else { return };
        let file = || vec![(name.to_owned(), self.check.file.to_vec())];
        match (shape, numbered(name)) {
            (Linked::Pi, _) => {
                let files = file();
                self.library(&files, CORES);
            }
            (Linked::Fixed { .. }, Some(_)) => {
                let files = self.cores(name);
                self.library(&files, CORES);
            }
            (Linked::Fixed { core: 0 }, None) => {
                let files = file();
                self.library(&files, 1);
            }
            (Linked::Fixed { core }, None) => {
                let message = format!(
                    "is linked for core {core} ({:#x}), and its name does not say which files the other cores have",
                    images::window(core)
                );
                self.findings.error(Rule::CoreFile, name, message);
            }
        }
    }

    /// The files of all cores, by the name of one of them.
    fn cores(&mut self, name: &str) -> Vec<(String, Vec<u8>)> {
        let Some((stem, _, end)) = numbered(name) else { return Vec::new() };
        let mut files = Vec::new();
        for core in 0..CORES {
            let sibling = format!("{stem}_cpu{core}{end}");
            match self.bytes(&sibling) {
                Some(bytes) => files.push((sibling, bytes)),
                None => {
                    let message = format!("the file of core {core} is not beside {name}");
                    self.findings.error(Rule::CoreFile, sibling, message);
                }
            }
        }
        files
    }

    fn bytes(&self, name: &str) -> Option<Vec<u8>> {
        if name == self.check.name { Some(self.check.file.to_vec()) } else { (self.check.beside)(name) }
    }

    /// Judges the files of a library: one for all cores, or one for each.
    fn library(&mut self, files: &[(String, Vec<u8>)], cores: u8) {
        if self.findings.has_errors() {
            return;
        }
        let exempt: BTreeSet<&str> = SYMBOLS.lines().collect();
        let mut objects = Vec::new();
        for (position, (name, bytes)) in files.iter().enumerate() {
            let Some(object) = object::read(name, bytes, &mut self.findings) else { return };
            let Some(shape) = images::shape(&object, &mut self.findings) else { return };
            match shape {
                Linked::Fixed { core } if usize::from(core) != position => {
                    let message = format!(
                        "is linked for core {core} ({:#x}), and stands for core {position}",
                        images::window(core)
                    );
                    self.findings.error(Rule::CoreFile, name.clone(), message);
                    return;
                }
                Linked::Pi if files.len() > 1 => {
                    let message = "is a library for all cores, and stands for one of them";
                    self.findings.error(Rule::CoreFile, name.clone(), message);
                    return;
                }
                Linked::Pi | Linked::Fixed { .. } => objects.push(object),
            }
        }
        images::same_program(&objects, &mut self.findings);
        if let Some(first) = objects.first() {
            first.judge_code(&exempt, &mut self.findings);
        }
        if !self.findings.has_errors() {
            self.run(files, cores);
        }
    }

    /// Loads a library into simulated cores, asks it for its functions and calls each.
    fn run(&mut self, files: &[(String, Vec<u8>)], cores: u8) {
        let target = PoolTarget { cores: cores.into(), ..PoolTarget::default() };
        let options =
            RuntimeOptions { target, schedule: Schedule::Seeded(0), trace: true, ..RuntimeOptions::default() };
        let places: Vec<String> = (0..usize::from(cores))
            .filter_map(|core| files.get(core).or(files.first()))
            .map(|(name, _)| name.clone())
            .collect();
        let place = places.first().cloned().unwrap_or_default();
        let mut runtime = match Runtime::new(options) {
            Ok(runtime) => runtime,
            Err(error) => {
                self.findings.error(Rule::Entry, place, error.to_string());
                return;
            }
        };
        runtime.set_fuel(FUEL);
        let bytes: Vec<&[u8]> = files.iter().map(|(_, bytes)| bytes.as_slice()).collect();
        let loaded = runtime.load(&bytes).map(|library| library.functions());
        registration::judge(&mut runtime, &loaded, &places, &mut self.findings);
        let names = loaded.unwrap_or_default();
        if self.findings.has_errors() {
            return;
        }
        for schema in self.check.schemas.iter().filter(|schema| !names.contains(&schema.name)) {
            let message =
                format!("the schema `{schema}` is for a function that it does not have; it has {}", names.join(", "));
            self.findings.error(Rule::Schema, place.clone(), message);
        }
        for name in &names {
            let operation = trace::judge(&mut runtime, name, self.check.schemas, &place, &mut self.findings);
            self.operations.push(operation);
        }
    }

    /// Judges the libraries that a manifest names.
    fn manifest(&mut self, libraries: &[UcodeLib]) {
        let mut files = Vec::new();
        for library in libraries.iter().filter(|library| !library.is_builtin) {
            match self.bytes(&library.library) {
                Some(bytes) => files.push((library.library.clone(), bytes)),
                None => {
                    let message = format!("names {}, which is not beside it", library.library);
                    self.findings.error(Rule::CoreFile, self.check.name, message);
                }
            }
        }
        let Some(first) = libraries.iter().find(|library| !library.is_builtin) else { return };
        if self.findings.has_errors() {
            return;
        }
        if files.len() > 1 {
            let in_order = libraries.iter().filter(|library| !library.is_builtin).zip(0_u8..);
            if let Some((wrong, core)) = in_order.clone().find(|(library, core)| library.cpu_id != *core) {
                let message = format!("{} has cpu_id {}, expected {core}", wrong.library, wrong.cpu_id);
                self.findings.error(Rule::Manifest, self.check.name, message);
            }
            if files.len() != usize::from(CORES) {
                let message =
                    format!("names {} files, and a library has one, or one for each of {CORES} cores", files.len());
                self.findings.error(Rule::CoreFile, self.check.name, message);
            }
        }
        self.described(libraries, first, &files);
    }

    /// Compares what a manifest says with what its library is.
    fn described(&mut self, libraries: &[UcodeLib], first: &UcodeLib, files: &[(String, Vec<u8>)]) {
        let name = self.check.name;
        if let Some(other) =
            libraries.iter().find(|library| !library.is_builtin && library.functions != first.functions)
        {
            let message = format!("{} and {} have different functions", first.library, other.library);
            self.findings.error(Rule::Manifest, name, message);
        }
        let pi = files.first().and_then(|(place, bytes)| {
            let object = object::read(place, bytes, &mut self.findings)?;
            Some(images::shape(&object, &mut self.findings)? == Linked::Pi)
        });
        let Some(pi) = pi else { return };
        let cores = if pi || files.len() > 1 { CORES } else { 1 };
        let said = if first.total_cpus == 0 { 1 } else { first.total_cpus };
        if said != cores {
            let message = format!("says total_cpus {}, and {} is for {cores}", first.total_cpus, first.library);
            self.findings.error(Rule::Manifest, name, message);
        }
        if self.findings.has_errors() {
            return;
        }
        self.library(files, cores);
        let declared: Vec<&str> = first.functions.iter().map(|function| function.name.as_str()).collect();
        let called: Vec<&str> = self.operations.iter().map(|operation| operation.name.as_str()).collect();
        if !self.findings.has_errors() && declared != called {
            let message =
                format!("lists {}, and {} registers {}", declared.join(", "), first.library, called.join(", "));
            self.findings.error(Rule::Manifest, name, message);
        }
    }
}

/// The parts of a name like `relu_cpu3.so`.
fn numbered(name: &str) -> Option<(&str, u8, &str)> {
    let (stem, rest) = name.rsplit_once("_cpu")?;
    let core = rest.bytes().next().filter(|digit| (b'0'..b'0' + CORES).contains(digit))?;
    let end = rest.get(1..)?;
    (end.is_empty() || end.starts_with('.')).then_some((stem, core - b'0', end))
}
