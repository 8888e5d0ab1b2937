//! Device modules made by the C compiler, and the program under test.

#![allow(dead_code, reason = "every test file uses its own part of this one")]

use outboard_host::{Deadlines, Session, SessionOptions, SimOptions, simulated};
use outboard_tensor::{Tensor, TensorView};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The program under test; it is the device, too.
pub const PROGRAM: &str = env!("CARGO_BIN_EXE_outboard");

/// Folder with the modules of this test process, removed with it.
static FOLDER: LazyLock<tempfile::TempDir> = LazyLock::new(|| tempfile::tempdir().unwrap());
/// One compiler at a time: two tests may want the same module.
static COMPILER: Mutex<()> = Mutex::new(());

/// The models that the project checks in.
pub fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/models")
}

fn flags(file: &str) -> Vec<String> {
    let text = std::fs::read_to_string(examples().join(file)).unwrap();
    text.split_whitespace().map(str::to_owned).collect()
}

/// Compiles a source of `examples/models` or `tests/modules`, with the documented flags; returns the module.
pub fn module(source: &str) -> PathBuf {
    let _one = COMPILER.lock().unwrap_or_else(PoisonError::into_inner);
    let name = Path::new(source).file_stem().unwrap().to_str().unwrap();
    let target = FOLDER.path().join(format!("{name}.out"));
    if target.exists() {
        return target;
    }
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/modules").join(source);
    let source = if own.exists() { own } else { examples().join(source) };
    let folder = source.parent().unwrap();
    let extra = folder.join("weights.S");
    let status = Command::new("cc")
        .current_dir(folder)
        .args(flags("cflags.txt"))
        .arg("-I")
        .arg(examples().join("include"))
        .arg(&source)
        .args(extra.exists().then_some(&extra))
        .arg("-o")
        .arg(&target)
        .args(flags("ldflags.txt"))
        .status()
        .expect("a C compiler named cc is installed");
    assert!(status.success(), "cc cannot compile {}", source.display());
    target
}

/// Runs the program with these arguments in a folder. A program that has not ended after a minute is ended, and the test fails.
pub fn outboard(folder: &Path, args: &[&str]) -> Output {
    let mut child = Command::new(PROGRAM)
        .current_dir(folder)
        .args(args)
        .env_remove("OUTBOARD_LOG")
        .env_remove("OUTBOARD_DEVICE_PROGRAM")
        .env_remove("OUTBOARD_DEVICE_TRACE")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Both streams are read at once: a program that fills one must not wait for the other.
    let (out, err) = (reader(child.stdout.take().unwrap()), reader(child.stderr.take().unwrap()));
    let until = Instant::now() + Duration::from_secs(60);
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break Some(status);
        }
        if Instant::now() > until {
            child.kill().unwrap();
            child.wait().unwrap();
            break None;
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    let (stdout, stderr) = (out.join().unwrap(), err.join().unwrap());
    let status =
        status.unwrap_or_else(|| panic!("outboard {args:?} did not end: {}", String::from_utf8_lossy(&stderr)));
    Output { status, stdout, stderr }
}

fn reader(mut source: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        source.read_to_end(&mut bytes).unwrap();
        bytes
    })
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

pub fn json(output: &Output) -> serde_json::Value {
    let text = stdout(output);
    assert_eq!(text.lines().count(), 1, "one line of JSON: {text}");
    serde_json::from_str(&text).unwrap()
}

pub fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

/// A session with a simulated device.
pub fn session(infer: Duration) -> Session {
    let transport = simulated(SimOptions { program: Some(PROGRAM.into()), ..SimOptions::default() }).unwrap();
    let deadlines = Deadlines { infer, ..Deadlines::all(Duration::from_secs(30)) };
    Session::open(transport, SessionOptions { deadlines }).unwrap()
}

pub fn floats(shape: &str, values: &[f32]) -> Tensor {
    Tensor::from_values(shape.parse().unwrap(), values).unwrap()
}

/// The input of the model in `handwritten/d4.c`, and what it must answer, computed from the formulas of its weights.
pub fn d4() -> (Tensor, Vec<f32>, i64) {
    let x: Vec<f32> = (0..8u8).map(|i| f32::from(i) / 4.0 - 1.0).collect();
    let part = |i: usize, a: usize, j: usize, b: usize, modulus: usize, half: f32| {
        (f32::from(u8::try_from((a * i + b * j) % modulus).unwrap()) - half) / 4.0
    };
    let number = |j: usize| f32::from(u8::try_from(j).unwrap());
    let hidden: Vec<f32> = (0..6)
        .map(|j| {
            let sum: f32 = (0..8).map(|i| x[i] * part(i, 3, j, 5, 7, 3.0)).sum();
            (sum + (number(j) - 2.0) / 8.0).max(0.0)
        })
        .collect();
    let logits: Vec<f32> = (0..4)
        .map(|j| {
            let sum: f32 = (0..6).map(|i| hidden[i] * part(i, 5, j, 2, 9, 4.0)).sum();
            sum + (2.0 * number(j) - 3.0) / 16.0
        })
        .collect();
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let powers: Vec<f32> = logits.iter().map(|y| (y - largest).exp()).collect();
    let total: f32 = powers.iter().sum();
    let top = logits.iter().position(|y| *y == largest).unwrap();
    (floats("1,2,4", &x), powers.iter().map(|y| y / total).collect(), i64::try_from(top).unwrap())
}

/// Whether two lists of numbers agree to six digits.
pub fn close(a: &[f32], b: &[f32]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() <= 1e-6 * b.abs().max(1.0))
}

/// Asserts that the outputs of `handwritten/d4.c` are right.
pub fn assert_d4<'a>(outputs: impl IntoIterator<Item = TensorView<'a>>) {
    let outputs: Vec<_> = outputs.into_iter().collect();
    let (_, probabilities, top) = d4();
    assert_eq!(outputs.len(), 2);
    assert!(close(&outputs[0].values::<f32>().unwrap(), &probabilities), "{:?}", outputs[0].values::<f32>());
    assert_eq!(outputs[1].values::<i64>(), Some(vec![top]));
    assert_eq!((outputs[0].shape().dims(), outputs[1].shape().dims()), (&[1, 4][..], &[1][..]));
}
