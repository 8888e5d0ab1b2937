//! `cargo xtask test`: every test there is, with a time table and one closing line.

use crate::run::{cargo, exists, result, root, say};
use crate::{cross, demo, dist, run, setup};
use anyhow::{Result, bail};
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// What one step did.
struct Step {
    name: &'static str,
    took: Duration,
    passed: u64,
    failed: u64,
}

/// Runs every test.
///
/// # Errors
/// Set-up fails, or a test does.
pub fn run(miri: bool, consent: &setup::Consent) -> Result<()> {
    let started = Instant::now();
    let python = setup::for_tests(consent)?;
    let mut steps = vec![Step { name: "set-up", took: started.elapsed(), passed: 0, failed: 0 }];
    steps.push(timed("build", &mut workspace_build())?);
    steps.push(timed("Rust tests", &mut rust_tests())?);
    steps.push(timed("doc tests", cargo().args(["test", "--workspace", "--doc"]))?);
    steps.push(timed("device code", &mut device_tests())?);
    let outboard = run::build_outboard(false)?;
    crate::python::extension()?;
    let mut pytest = python.python();
    pytest
        .args(["-m", "pytest", "-q", "-p", "no:cacheprovider", "bindings/python/tests"])
        .env("OUTBOARD_BIN", &outboard);
    steps.push(timed("Python tests", &mut pytest)?);
    let mut installed = python.python();
    installed
        .args(["-m", "pytest", "-q", "-p", "no:cacheprovider", "bindings/python/tests/test_session.py"])
        .env("PYTHONPATH", dist::installed_wheel(consent)?)
        .env("OUTBOARD_BIN", &outboard);
    steps.push(timed("Python wheel", &mut installed)?);
    steps.push(timed("board: build", &mut cross::build())?);
    steps.push(timed("board: tests", &mut cross::tests())?);
    steps.push(archive(consent)?);
    steps.push(end_to_end(consent)?);
    if miri {
        steps.push(timed(
            "Miri: foundations",
            &mut interpreted(&["outboard-elf", "outboard-reloc", "outboard-wire"], &["--tests"]),
        )?);
        let files = LOADER_TESTS.iter().flat_map(|file| ["--test", file]).collect::<Vec<_>>();
        steps.push(timed("Miri: loader", &mut interpreted(&["outboard-link"], &files))?);
    }
    report(&steps)
}

fn workspace_build() -> Command {
    let mut build = cargo();
    build.args(["test", "--workspace", "--no-run", "--quiet"]);
    build
}

fn rust_tests() -> Command {
    let mut tests = cargo();
    if exists("cargo-nextest") {
        tests.args(["nextest", "run", "--workspace", "--no-fail-fast"]);
    } else {
        tests.args(["test", "--workspace", "--lib", "--bins", "--tests", "--no-fail-fast"]);
    }
    tests
}

/// What of the device runtime can be tested on the host.
fn device_tests() -> Command {
    let mut tests = cargo();
    tests.current_dir(root().join("device")).args(["test", "-p", "customop", "-p", "customop-rt"]);
    tests.env("CARGO_TARGET_DIR", run::target().join("device"));
    tests
}

/// The test files of the loader; those of the linker link megabytes, which takes hours in an interpreter.
const LOADER_TESTS: [&str; 6] = ["golden_modules", "host_modules", "promises", "reports", "rules", "tools"];

/// Unit tests and other tests of packages in the interpreter that finds undefined behaviour.
fn interpreted(packages: &[&str], tests: &[&str]) -> Command {
    let mut command = Command::new("cargo");
    command.current_dir(root()).args(["+nightly", "miri", "test", "--lib"]).args(tests);
    command.args(packages.iter().flat_map(|package| ["--package", package]));
    command.env("MIRIFLAGS", "-Zmiri-disable-isolation");
    command
}

/// The archive for the board, packed and looked at.
fn archive(consent: &setup::Consent) -> Result<Step> {
    let started = Instant::now();
    let packed = dist::run(true, consent);
    if let Err(error) = &packed {
        say(format_args!("archive failed: {error:#}"));
    }
    let failed = u64::from(packed.is_err());
    Ok(Step { name: "board: archive", took: started.elapsed(), passed: 1 - failed, failed })
}

/// The demos as a test: what the README promises first.
fn end_to_end(consent: &setup::Consent) -> Result<Step> {
    let started = Instant::now();
    let outcomes = [demo::run(&[], true, consent), demo::run(&[], false, consent)];
    for error in outcomes.iter().filter_map(|outcome| outcome.as_ref().err()) {
        say(format_args!("demo failed: {error:#}"));
    }
    let failed = outcomes.iter().filter(|outcome| outcome.is_err()).count() as u64;
    Ok(Step { name: "end to end", took: started.elapsed(), passed: outcomes.len() as u64 - failed, failed })
}

/// Runs a test runner, passes its output on, and counts the tests it says it ran.
fn timed(name: &'static str, command: &mut Command) -> Result<Step> {
    say(format_args!("\n== {name}"));
    let started = Instant::now();
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let (sender, lines) = mpsc::channel();
    for stream in [
        child.stdout.take().map(|stream| Box::new(stream) as Box<dyn Read + Send>),
        child.stderr.take().map(|stream| Box::new(stream) as Box<dyn Read + Send>),
    ] {
        let sender = sender.clone();
        if let Some(stream) = stream {
            std::thread::spawn(move || {
                for line in BufReader::new(stream).split(b'\n').map_while(Result::ok) {
                    let _ = sender.send(String::from_utf8_lossy(&line).into_owned());
                }
            });
        }
    }
    drop(sender);
    let (mut passed, mut failed) = (0, 0);
    for line in lines {
        say(&line);
        if let Some((ok, bad)) = counts(&line) {
            passed += ok;
            failed += bad;
        }
    }
    if !child.wait()?.success() && failed == 0 {
        failed = 1;
    }
    Ok(Step { name, took: started.elapsed(), passed, failed })
}

/// The counts of a runner's summary line: nextest's, libtest's or pytest's.
fn counts(line: &str) -> Option<(u64, u64)> {
    let trimmed = line.trim().trim_matches('=').trim();
    let is_summary = trimmed.starts_with("Summary [")
        || trimmed.starts_with("test result:")
        || (trimmed.contains(" in ") && trimmed.starts_with(|first: char| first.is_ascii_digit()));
    let count = |what: &str| {
        let words: Vec<&str> = trimmed.split([' ', ',', ';', '.']).filter(|word| !word.is_empty()).collect();
        words.windows(2).find(|pair| pair[1] == what).and_then(|pair| pair[0].parse::<u64>().ok()).unwrap_or(0)
    };
    (is_summary && (trimmed.contains("passed") || trimmed.contains("failed")))
        .then(|| (count("passed"), count("failed") + count("error") + count("errors")))
}

fn report(steps: &[Step]) -> Result<()> {
    result("");
    result("step                 seconds   passed   failed");
    for step in steps {
        let seconds = step.took.as_secs_f64();
        result(format_args!("{:<18} {seconds:>9.1} {:>8} {:>8}", step.name, step.passed, step.failed));
    }
    let passed: u64 = steps.iter().map(|step| step.passed).sum();
    let failed: u64 = steps.iter().map(|step| step.failed).sum();
    let took: Duration = steps.iter().map(|step| step.took).sum();
    result(format_args!("{:<18} {:>9.1}", "all", took.as_secs_f64()));
    result(format_args!("tests: {passed} passed, {failed} failed"));
    if failed > 0 {
        bail!("{failed} tests failed");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::counts;

    #[test]
    fn the_summaries_of_all_runners_are_counted() {
        let nextest = "     Summary [  12.345s] 120 tests run: 118 passed (1 slow), 2 failed, 0 skipped";
        assert_eq!(counts(nextest), Some((118, 2)));
        let libtest = "test result: ok. 7 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s";
        assert_eq!(counts(libtest), Some((7, 0)));
        assert_eq!(counts("12 passed in 3.21s"), Some((12, 0)));
        assert_eq!(counts("===== 2 failed, 10 passed in 3.21s ====="), Some((10, 2)));
        assert_eq!(counts("1 failed, 2 passed, 1 error in 0.5s"), Some((2, 2)));
        assert_eq!(counts("the test passed in 3 tries"), None);
    }
}
