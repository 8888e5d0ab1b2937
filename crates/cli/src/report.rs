//! How commands end: results on standard output, errors for people on standard error and, with `--json`, for programs too.

use outboard_host::{DeviceLost, Error};
use outboard_link::LoadError;
use outboard_link::build::BuildErrors;
use outboard_link::layout_file::LayoutFileError;
use outboard_link::shape::ShapeErrors;
use outboard_tensor::TensorError;
use serde_json::{Map, Value, json};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Why a command failed.
#[derive(Debug)]
pub(crate) struct Failure {
    code: &'static str,
    kind: &'static str,
    exit: u8,
    message: String,
    help: String,
    /// What else a program may want to know about this kind.
    details: Vec<(&'static str, Value)>,
    /// The command has printed a result that holds the failure.
    told: bool,
}

/// The request is wrong.
const REQUEST: u8 = 1;
/// The device failed.
const DEVICE: u8 = 2;
/// The file was judged bad.
const JUDGED: u8 = 3;

impl Failure {
    /// Options that do not go together or lack something.
    pub(crate) fn usage(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self::request("OB0501", "usage", message.into(), help.into())
    }

    /// A file that cannot be read.
    pub(crate) fn unreadable(path: &Path, error: &std::io::Error) -> Self {
        let message = format!("cannot read {}: {error}", path.display());
        Self::request("OB0502", "unreadable_file", message, "check the path and its permissions".to_owned())
    }

    /// A file that cannot be written.
    pub(crate) fn unwritable(path: &Path, error: &std::io::Error) -> Self {
        let message = format!("cannot write {}: {error}", path.display());
        let help = "check that the folder exists and may be written; nothing was overwritten".to_owned();
        Self::request("OB0503", "unwritable_file", message, help)
    }

    /// A code that has no page.
    pub(crate) fn unknown_code(code: &str) -> Self {
        let message = format!("there is no page for `{code}`");
        Self::request("OB0504", "unknown_code", message, "`outboard explain` lists the codes there are".to_owned())
    }

    /// A result that cannot be printed: a fault of this program.
    pub(crate) fn internal(error: &dyn std::error::Error) -> Self {
        let message = format!("a result cannot be printed: {error}");
        Self::request("OB0506", "internal", message, "please report this, with the command and the file".to_owned())
    }

    /// A simulated device that cannot do its work.
    pub(crate) fn worker(error: &dyn std::error::Error) -> Self {
        let help = "`outboard device worker` is started by sessions, with their memory as standard input and output";
        Self { exit: 2, ..Self::request("OB0505", "worker", error.to_string(), help.to_owned()) }
    }

    /// A standing device that cannot be set up.
    pub(crate) fn standing(error: &dyn std::error::Error) -> Self {
        let help = "choose another socket, or end the device that uses it".to_owned();
        Self { exit: 2, ..Self::request("OB0507", "standing_device", error.to_string(), help) }
    }

    /// A file whose contents cannot be used.
    pub(crate) fn bad_file(path: &Path, problem: &dyn std::fmt::Display) -> Self {
        let message = format!("{}: {problem}", path.display());
        let help = "`outboard inspect FILE` shows what the file is".to_owned();
        Self::request("OB0508", "bad_file", message, help)
    }

    /// An exit status and nothing to say.
    pub(crate) fn status(exit: u8) -> Self {
        Self { exit, ..Self::judged() }
    }

    /// A file that a command has judged bad, and has said so.
    pub(crate) fn judged() -> Self {
        let mut failure = Self::request("", "judged", String::new(), String::new());
        failure.exit = JUDGED;
        failure
    }

    /// Constants, or a declaration of inputs and outputs, that cannot be read.
    pub(crate) fn bad_weights(message: String) -> Self {
        let help =
            "`outboard explain OB0509` tells more; build the module again if the file was not cut short".to_owned();
        Self { exit: JUDGED, ..Self::request("OB0509", "bad_weights", message, help) }
    }

    /// The end of a command that has said everything itself, with this status.
    pub(crate) fn ended(status: u8) -> Self {
        Self { exit: status, ..Self::request("", "ended", String::new(), String::new()) }
    }

    fn request(code: &'static str, kind: &'static str, message: String, help: String) -> Self {
        Self { code, kind, exit: REQUEST, message, help, details: Vec::new(), told: false }
    }

    /// A file that was judged bad, with the code of its page.
    pub(crate) fn refused(code: &'static str, kind: &'static str, message: String) -> Self {
        Self { exit: JUDGED, ..Self::request(code, kind, message, format!("`outboard explain {code}` tells more")) }
    }

    /// A device that failed, with the code of its page.
    pub(crate) fn device(code: &'static str, kind: &'static str, message: String) -> Self {
        Self { exit: DEVICE, ..Self::refused(code, kind, message) }
    }

    /// A request that is wrong, with the code of its page.
    pub(crate) fn request_of(code: &'static str, kind: &'static str, message: String) -> Self {
        Self { exit: REQUEST, ..Self::refused(code, kind, message) }
    }

    /// The same failure with something that a program may want to know.
    pub(crate) fn with(mut self, key: &'static str, value: Value) -> Self {
        self.details.push((key, value));
        self
    }

    /// The same failure, whose JSON the command has printed itself.
    pub(crate) fn told(self) -> Self {
        Self { told: true, ..self }
    }

    /// The same failure with a file or option named in front.
    pub(crate) fn about(mut self, subject: impl std::fmt::Display) -> Self {
        self.message = format!("{subject}: {}", self.message);
        self
    }

    /// The failure on one line.
    pub(crate) fn line(&self) -> String {
        let help = if self.help.is_empty() { String::new() } else { format!("; {}", self.help) };
        format!("[{}] {}{help}", self.code, self.message)
    }

    pub(crate) fn json(&self) -> Value {
        let mut object = Map::new();
        object.insert("status".to_owned(), json!("error"));
        object.insert("error".to_owned(), json!(self.kind));
        object.insert("code".to_owned(), json!(number(self.code)));
        object.insert("name".to_owned(), json!(self.code));
        object.insert("message".to_owned(), json!(self.message));
        object.insert("help".to_owned(), json!(self.help));
        object.extend(self.details.iter().map(|(key, value)| ((*key).to_owned(), value.clone())));
        Value::Object(object)
    }
}

/// The digits of a stable code as a number: 302 for `OB0302`.
fn number(code: &str) -> u32 {
    code.trim_start_matches(|c: char| !c.is_ascii_digit()).parse().unwrap_or(0)
}

/// What a device's memory map says about the address of a fault.
fn region_note(error: &Error) -> String {
    let Error::DeviceLost(lost) = error else { return String::new() };
    let Some(address) = lost.fault_address.filter(|address| *address > 0xFFFF) else { return String::new() };
    let boards = outboard_c7x::sim::Board::all();
    match boards.first().and_then(|board| board.region(address)) {
        Some(region) => format!(" (in the board's {})", region.name),
        None => " (outside every region of the board)".to_owned(),
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self {
            code: error.code(),
            kind: error.kind(),
            exit: error.class().exit_code(),
            message: format!("{error}{}", region_note(&error)),
            help: error.help(),
            details: details(&error),
            told: false,
        }
    }
}

/// What a program may want to know about an error beyond its message.
fn details(error: &Error) -> Vec<(&'static str, Value)> {
    match error {
        Error::DeviceLost(lost) => lost_details(lost),
        Error::Timeout { awaited, after } => {
            vec![("awaited", json!(awaited)), ("after_ms", json!(u64::try_from(after.as_millis()).ok()))]
        }
        Error::Refused { request, status, .. } => {
            vec![("request", json!(request)), ("device_status", json!(status))]
        }
        Error::OutOfMemory { pool, requested, free, total, largest } => vec![
            ("pool", json!(pool)),
            ("requested", json!(requested)),
            ("free", json!(free)),
            ("total", json!(total)),
            ("largest", json!(largest)),
        ],
        Error::CallFailed { value, .. } => vec![("return_value", json!(value))],
        Error::WindowTooSmall { window, needed, reserved, .. } => {
            vec![("window", json!(window)), ("needed", json!(needed)), ("reserved", json!(reserved))]
        }
        Error::InputMismatch { index, name, expected, got, .. } => {
            vec![("index", json!(index)), ("input", json!(name)), ("expected", json!(expected)), ("got", json!(got))]
        }
        _ => Vec::new(),
    }
}

fn lost_details(lost: &DeviceLost) -> Vec<(&'static str, Value)> {
    let site = lost.site.as_ref();
    vec![
        ("cause", json!(lost.cause.name())),
        ("during", json!(lost.during)),
        ("module", json!(lost.module)),
        ("symbol", json!(site.map(|site| &site.symbol))),
        ("offset", json!(site.map(|site| site.offset))),
        ("pc", json!(site.map(|site| site.pc))),
        ("fault_address", json!(lost.fault_address)),
        ("last_message", json!(lost.last_message.map(outboard_wire::MessageType::name))),
    ]
}

impl From<&LoadError> for Failure {
    fn from(error: &LoadError) -> Self {
        let symbols = error.symbols();
        Self {
            code: error.code(),
            kind: error.kind(),
            exit: JUDGED,
            message: error.to_string(),
            help: format!("`outboard explain {}` tells more", error.code()),
            details: if symbols.is_empty() { Vec::new() } else { vec![("symbols", json!(symbols))] },
            told: false,
        }
    }
}

impl From<&ShapeErrors> for Failure {
    fn from(errors: &ShapeErrors) -> Self {
        let faults = match errors {
            ShapeErrors::Build(errors) => return errors.into(),
            ShapeErrors::Shape(faults) => faults,
        };
        let code = faults.first().map_or("OB0665", |error| error.code());
        let all = faults.iter().map(|error| json!({"name": error.code(), "message": error.to_string()}));
        let all: Vec<Value> = all.collect();
        Self::refused(code, "shape", errors.to_string()).with("faults", json!(all))
    }
}

impl From<&BuildErrors> for Failure {
    fn from(errors: &BuildErrors) -> Self {
        let (code, kind) = (errors.first().explain(), errors.first().kind());
        let all: Vec<Value> = errors
            .iter()
            .map(|error| json!({"error": error.kind(), "name": error.explain(), "message": error.to_string()}))
            .collect();
        let help = format!("`outboard explain {code}` tells more; nothing was written");
        let details = vec![("faults", json!(all))];
        Self { exit: JUDGED, details, ..Self::request(code, kind, errors.to_string(), help) }
    }
}

impl From<&LayoutFileError> for Failure {
    fn from(error: &LayoutFileError) -> Self {
        let help = format!("`outboard explain {}` tells more; nothing was written", error.explain());
        Self::request(error.explain(), "bad_layout", error.to_string(), help)
    }
}

impl From<TensorError> for Failure {
    fn from(error: TensorError) -> Self {
        Error::from(error).into()
    }
}

/// Reports a failure and turns it into the exit status.
pub(crate) fn failure(failure: &Failure, json: bool) -> ExitCode {
    if failure.message.is_empty() {
        return ExitCode::from(failure.exit);
    }
    if json && !failure.told {
        // Whoever has closed the pipe wants no more.
        let _ = result(&failure.json());
    }
    say(&format!("\x1b[1;31merror[{}]\x1b[0m: {}", failure.code, failure.message));
    if !failure.help.is_empty() {
        say(&format!("  \x1b[1mhelp\x1b[0m: {}", failure.help));
    }
    ExitCode::from(failure.exit)
}

/// Reports what the argument parser has to say: help is a result, everything else is a wrong request.
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    let _ = error.print();
    if error.use_stderr() { ExitCode::from(REQUEST) } else { ExitCode::SUCCESS }
}

/// A line for a person, on standard error; styled only on a terminal.
pub(crate) fn say(line: &str) {
    to_stderr(format!("{line}\n").into_bytes());
}

/// Writes to standard error, but never waits longer than a second for a reader: results go on without one.
pub(crate) fn to_stderr(bytes: Vec<u8>) {
    static STUCK: AtomicBool = AtomicBool::new(false);
    if bytes.is_empty() || STUCK.load(Ordering::Relaxed) {
        return;
    }
    let (sender, written) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let _ = anstream::stderr().write_all(&bytes);
        let _ = sender.send(());
    });
    if written.recv_timeout(Duration::from_secs(1)).is_err() {
        STUCK.store(true, Ordering::Relaxed);
    }
}

/// A JSON result: one line on standard output.
pub(crate) fn result(value: &Value) -> Result<(), Failure> {
    print(&format!("{value}\n"))
}

/// Text that is the result, on standard output.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::unwritable(Path::new("standard output"), &error))
        }
        _ => Ok(()),
    }
}
