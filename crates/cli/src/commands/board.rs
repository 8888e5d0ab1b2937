//! `outboard board`: the remote processor of a board, here or over ssh: its state, its firmware, its log.

use super::device_args::Roots;
use super::exports::offered;
use crate::report::{self, Failure};
use outboard_host::{C7X, Deadlines, Error, RpmsgError, Session, SessionOptions, rpmsg};
use outboard_link::check::{CheckRequest, Profile, check};
use outboard_link::export_sets::ExportSets;
use outboard_link::target::Target;
use serde_json::json;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Start, stop and watch the C7x of a board, and give it another firmware.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  outboard board status
  outboard board deploy firmware.elf --host root@am67a
  outboard board trace --host beagley-ai

The processor is found by its device-tree name. With --host, commands run there over ssh, with the keys and the configuration
that ssh has; verifying a deployment needs `outboard` on that host. Changing the state of a processor needs root.")]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,

    /// Run on this host, over ssh
    #[arg(long, value_name = "NAME", global = true)]
    host: Option<String>,

    /// Device-tree name of the processor
    #[arg(long, value_name = "ADDR", global = true, default_value = C7X)]
    address: String,

    /// Deadline, in seconds, of each step
    #[arg(long, value_name = "SECONDS", global = true, default_value = "30", value_parser = super::seconds)]
    timeout: Duration,

    /// Print JSON on standard output
    #[arg(long, global = true)]
    json: bool,

    #[command(flatten)]
    roots: Roots,

    /// Where the kernel looks for firmware.
    #[arg(long, hide = true, value_name = "FOLDER", global = true, default_value = "/lib/firmware")]
    firmware_root: PathBuf,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Show the processor's name, state and firmware
    Status,
    /// Start it and wait until it runs
    Start,
    /// Stop it and wait until it is offline
    Stop,
    /// Stop it, copy a firmware to where the kernel looks for it, start it, and ask the service for its version
    Deploy {
        /// The firmware, an ELF file with a resource table
        firmware: PathBuf,
        /// Copy it even if `outboard check --profile remoteproc` finds errors in it
        #[arg(long)]
        force: bool,
    },
    /// Print the firmware's log
    Trace,
}

impl Args {
    pub(crate) fn wants_json(&self) -> bool {
        self.json
    }
}

/// A remote processor, as its host shows it.
struct Processor {
    name: String,
    state: String,
    firmware: String,
}

pub(crate) fn execute(args: &Args) -> Result<(), Failure> {
    match &args.action {
        Action::Status => show(args, &args.find()?),
        Action::Start => {
            let before = args.find()?;
            args.start(&before).map_err(|failure| args.diagnose(failure))?;
            show(args, &args.find()?)
        }
        Action::Stop => {
            args.stop(&args.find()?)?;
            show(args, &args.find()?)
        }
        Action::Deploy { firmware, force } => deploy(args, firmware, *force),
        Action::Trace => report::print(&args.trace(&args.find()?)?),
    }
}

fn show(args: &Args, processor: &Processor) -> Result<(), Failure> {
    let Processor { name, state, firmware } = processor;
    if args.json {
        let host = args.host.as_deref().unwrap_or("localhost");
        return report::result(&json!({
            "status": "ok", "host": host, "address": args.address, "remoteproc": name, "state": state, "firmware": firmware,
        }));
    }
    report::print(&format!("{name} {} {state} {firmware}\n", args.address))
}

/// Stop, copy, start, verify. What goes wrong after the copy is reported with the end of the firmware's log.
fn deploy(args: &Args, firmware: &Path, force: bool) -> Result<(), Failure> {
    let image = super::read_file(firmware)?;
    if !force {
        judge(firmware, &image)?;
    }
    let processor = args.find()?;
    args.stop(&processor)?;
    let name = if processor.firmware.is_empty() { "j722s-c71_0-fw" } else { processor.firmware.as_str() };
    if name.contains(['/', '\'']) {
        return Err(args.failed(format!("its firmware is named `{name}`, which is no plain file name")));
    }
    let target = args.firmware_root.join(name);
    args.copy(firmware, image.len(), &target)?;
    report::say(&format!("copied {} bytes to {}", image.len(), target.display()));
    args.start(&processor).and_then(|()| args.verify()).map_err(|failure| args.diagnose(failure)).and_then(|version| {
        if !args.json {
            report::say(&format!("the service answers: protocol {version}"));
        }
        show(args, &args.find()?)
    })
}

/// Refuses a firmware that the kernel could not start.
fn judge(path: &Path, image: &[u8]) -> Result<(), Failure> {
    let (target, sets) = (Target::am67a(), ExportSets::builtin());
    let exports = offered(None, image, &sets)?;
    let name = path.display().to_string();
    let request = CheckRequest {
        file: image,
        name: &name,
        profile: Profile::Remoteproc,
        target: &target,
        exports: &exports,
        sets: &sets,
    };
    let judged = check(&request);
    if judged.errors == 0 {
        return Ok(());
    }
    judged.findings.iter().for_each(|finding| report::say(&finding.to_string()));
    report::say(&format!("{name} was not copied; --force copies it all the same"));
    Err(Failure::judged())
}

/// A word for the shell of the host.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', "'\\''"))
}

impl Args {
    fn failed(&self, reason: String) -> Failure {
        Error::from(RpmsgError::Processor { address: self.address.clone(), reason }).into()
    }

    fn class(&self) -> PathBuf {
        self.roots.sys_root.join("class/remoteproc")
    }

    /// Runs a script of the shell, here or on the host; returns what it printed.
    fn run(&self, what: &str, script: &str, input: Option<&Path>) -> Result<String, Failure> {
        let mut command = match &self.host {
            None => Command::new("sh"),
            Some(_) => Command::new("ssh"),
        };
        match &self.host {
            None => command.args(["-c", script]),
            // A name that begins with a dash would be an option of ssh.
            Some(host) => command.args(["-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "--", host, script]),
        };
        let stdin = match input {
            Some(path) => File::open(path).map_err(|error| Failure::unreadable(path, &error))?.into(),
            None => Stdio::null(),
        };
        let child = command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = child.map_err(|error| self.failed(format!("cannot run {what}: {error}")))?;
        let (out, err) = (reader(child.stdout.take()), reader(child.stderr.take()));
        let until = Instant::now() + self.timeout;
        let late = || Failure::from(Error::Timeout { awaited: what.to_owned(), after: self.timeout });
        let status = loop {
            match child.try_wait() {
                Ok(Some(status)) => break status,
                Ok(None) if Instant::now() < until => std::thread::sleep(Duration::from_millis(5)),
                _ => {
                    let _ = child.kill(); // it may have ended by itself
                    let _ = child.wait();
                    return Err(late());
                }
            }
        };
        // What the script left behind may keep its ends of the pipes.
        while !(out.is_finished() && err.is_finished()) {
            if Instant::now() >= until {
                return Err(late());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let text = |thread: JoinHandle<Vec<u8>>| {
            String::from_utf8_lossy(&thread.join().unwrap_or_default()).trim_end().to_owned()
        };
        let (out, err) = (text(out), text(err));
        if status.success() { Ok(out) } else { Err(self.failed(format!("cannot {what}: {err} ({status})"))) }
    }

    /// The processor of this device-tree name.
    fn find(&self) -> Result<Processor, Failure> {
        let script = format!(
            "for p in {}/remoteproc*; do t=$(readlink \"$p/device\") || continue; \
             printf '%s\\t%s\\t%s\\t%s\\n' \"$t\" \"${{p##*/}}\" \"$(cat \"$p/state\")\" \"$(cat \"$p/firmware\" 2>/dev/null)\"; \
             done; true",
            quoted(&self.class())
        );
        let rows = self.run("read the remote processors", &script, None)?;
        let mut others = Vec::new();
        for row in rows.lines() {
            let mut cells = row.split('\t').map(|cell| cell.trim().to_owned());
            let mut cell = || cells.next().unwrap_or_default();
            let (device, name, state, firmware) = (cell(), cell(), cell(), cell());
            if device.split('/').any(|part| part == self.address) {
                return Ok(Processor { name, state, firmware });
            }
            others.extend(device.rsplit('/').next().map(str::to_owned));
        }
        Err(Error::from(RpmsgError::NoDevice { address: self.address.clone(), class: self.class(), others }).into())
    }

    /// Asks the kernel for a state and waits until the processor has it.
    fn change(&self, processor: &Processor, order: &str, reached: &[&str]) -> Result<(), Failure> {
        let file = quoted(&self.class().join(&processor.name).join("state"));
        self.run(&format!("{order} the processor"), &format!("echo {order} > {file}"), None)?;
        let until = Instant::now() + self.timeout;
        loop {
            let state = self.find()?.state;
            if reached.contains(&state.as_str()) {
                return Ok(());
            }
            if Instant::now() >= until {
                let awaited = format!("{} to be {} (it is {state})", processor.name, reached.join(" or "));
                return Err(Error::Timeout { awaited, after: self.timeout }.into());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn start(&self, processor: &Processor) -> Result<(), Failure> {
        if self.find()?.state == "running" {
            return Ok(());
        }
        self.change(processor, "start", &["running"])
    }

    fn stop(&self, processor: &Processor) -> Result<(), Failure> {
        if processor.state == "offline" {
            return Ok(());
        }
        self.change(processor, "stop", &["offline"])
    }

    /// Copies a file; it gets its name when it is complete. What had the name is kept as `NAME.previous`.
    fn copy(&self, from: &Path, size: usize, to: &Path) -> Result<(), Failure> {
        let (target, part) = (quoted(to), quoted(&to.with_extension("outboard-part")));
        let previous = quoted(Path::new(&format!("{}.previous", to.display())));
        let script = format!(
            "cat > {part} && n=$(wc -c < {part}) && [ \"$n\" -eq {size} ] || {{ echo \"$n of {size} bytes arrived\" >&2; rm -f {part}; exit 1; }}; \
             [ ! -e {target} ] || cp {target} {previous} && mv {part} {target}"
        );
        self.run("copy the firmware", &script, Some(from)).map(drop)
    }

    /// Asks the service for its version; the firmware runs only when it answers.
    fn verify(&self) -> Result<String, Failure> {
        if self.host.is_some() {
            let seconds = self.timeout.as_secs().max(1);
            let script = format!(
                "outboard ping --device {} --count 1 --timeout {seconds}",
                quoted(Path::new(&format!("rpmsg:{}", self.address)))
            );
            let answer = self.run("verify the firmware with a PING (by `outboard` on the host)", &script, None)?;
            return Ok(answer
                .split("protocol ")
                .nth(1)
                .and_then(|rest| rest.split(',').next())
                .unwrap_or("?")
                .to_owned());
        }
        let options = SessionOptions { deadlines: Deadlines::all(self.timeout) };
        let session = Session::open(rpmsg(self.roots.rpmsg(&self.address, None))?, options)?;
        let version = session.version().to_string();
        session.close()?;
        Ok(version)
    }

    fn trace(&self, processor: &Processor) -> Result<String, Failure> {
        let file = self.roots.sys_root.join("kernel/debug/remoteproc").join(&processor.name).join("trace0");
        let text = self.run("read the firmware's log", &format!("tr -d '\\000' < {}", quoted(&file)), None)?;
        Ok(if text.is_empty() { text } else { text + "\n" })
    }

    /// The failure with what the processor's state and log say about it.
    fn diagnose(&self, failure: Failure) -> Failure {
        let Ok(processor) = self.find() else { return failure };
        let trace = self.trace(&processor).unwrap_or_default();
        let lines: Vec<&str> = trace.lines().collect();
        report::say(&format!("{} is {}; its firmware is {}", processor.name, processor.state, processor.firmware));
        match lines.get(lines.len().saturating_sub(20)..) {
            Some(end) if !end.is_empty() => report::say(&format!("its log ends:\n  {}", end.join("\n  "))),
            _ => report::say("its log is empty: the firmware has not come to life"),
        }
        failure
    }
}

fn reader(source: Option<impl Read + Send + 'static>) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut source) = source {
            let _ = source.read_to_end(&mut bytes); // what has been read so far is what there is
        }
        bytes
    })
}
