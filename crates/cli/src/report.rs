//! How commands end: results on standard output, errors for people on standard error and, with `--json`, for programs too.

use outboard_host::{DeviceLost, Error};
use outboard_tensor::TensorError;
use serde_json::{Map, Value, json};
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

/// Why a command failed.
#[derive(Debug)]
pub(crate) struct Failure {
    code: &'static str,
    kind: &'static str,
    exit: u8,
    message: String,
    help: String,
    /// What else a program may want to know about this kind.
    details: Map<String, Value>,
}

/// The request is wrong.
const REQUEST: u8 = 1;

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

    /// A simulated device that cannot do its work.
    pub(crate) fn worker(error: &dyn std::error::Error) -> Self {
        let help = "`outboard device worker` is started by sessions, with their memory as standard input and output";
        Self { exit: 2, ..Self::request("OB0505", "worker", error.to_string(), help.to_owned()) }
    }

    fn request(code: &'static str, kind: &'static str, message: String, help: String) -> Self {
        Self { code, kind, exit: REQUEST, message, help, details: Map::new() }
    }

    /// The same failure with a file or option named in front.
    pub(crate) fn about(mut self, subject: impl std::fmt::Display) -> Self {
        self.message = format!("{subject}: {}", self.message);
        self
    }

    fn json(&self) -> Value {
        let mut object = Map::new();
        object.insert("status".to_owned(), json!("error"));
        object.insert("error".to_owned(), json!(self.kind));
        object.insert("code".to_owned(), json!(number(self.code)));
        object.insert("name".to_owned(), json!(self.code));
        object.insert("message".to_owned(), json!(self.message));
        object.insert("help".to_owned(), json!(self.help));
        object.extend(self.details.clone());
        Value::Object(object)
    }
}

/// The digits of a stable code as a number: 302 for `OB0302`.
fn number(code: &str) -> u32 {
    code.trim_start_matches(|c: char| !c.is_ascii_digit()).parse().unwrap_or(0)
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let mut details = Map::new();
        match &error {
            Error::DeviceLost(lost) => lost_details(lost, &mut details),
            Error::Timeout { awaited, after } => {
                details.insert("awaited".to_owned(), json!(awaited));
                details.insert("after_ms".to_owned(), json!(after.as_millis()));
            }
            Error::Refused { request, status, .. } => {
                details.insert("request".to_owned(), json!(request));
                details.insert("device_status".to_owned(), json!(status));
            }
            Error::OutOfMemory { pool, requested, free, total, largest } => {
                details.insert("pool".to_owned(), json!(pool));
                details.insert("requested".to_owned(), json!(requested));
                details.insert("free".to_owned(), json!(free));
                details.insert("total".to_owned(), json!(total));
                details.insert("largest".to_owned(), json!(largest));
            }
            Error::CallFailed { value, .. } => {
                details.insert("return_value".to_owned(), json!(value));
            }
            Error::WindowTooSmall { window, needed, reserved, .. } => {
                details.insert("window".to_owned(), json!(window));
                details.insert("needed".to_owned(), json!(needed));
                details.insert("reserved".to_owned(), json!(reserved));
            }
            Error::InputMismatch { index, name, expected, got, .. } => {
                details.insert("index".to_owned(), json!(index));
                details.insert("input".to_owned(), json!(name));
                details.insert("expected".to_owned(), json!(expected));
                details.insert("got".to_owned(), json!(got));
            }
            _ => {}
        }
        Self {
            code: error.code(),
            kind: error.kind(),
            exit: error.class().exit_code(),
            message: error.to_string(),
            help: error.help(),
            details,
        }
    }
}

fn lost_details(lost: &DeviceLost, details: &mut Map<String, Value>) {
    details.insert("cause".to_owned(), json!(lost.cause.name()));
    details.insert("during".to_owned(), json!(lost.during));
    details.insert("module".to_owned(), json!(lost.module));
    details.insert("symbol".to_owned(), json!(lost.site.as_ref().map(|site| &site.symbol)));
    details.insert("offset".to_owned(), json!(lost.site.as_ref().map(|site| site.offset)));
    details.insert("pc".to_owned(), json!(lost.site.as_ref().map(|site| site.pc)));
    details.insert("fault_address".to_owned(), json!(lost.fault_address));
    details.insert("last_message".to_owned(), json!(lost.last_message.map(|kind| kind.name())));
}

impl From<TensorError> for Failure {
    fn from(error: TensorError) -> Self {
        Error::from(error).into()
    }
}

/// Reports a failure and turns it into the exit status.
pub(crate) fn failure(failure: &Failure, json: bool) -> ExitCode {
    if json {
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
    let _ = writeln!(anstream::stderr(), "{line}");
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
