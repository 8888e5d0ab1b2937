//! `cargo xtask demo`: from a model file to answers of the simulated C7x, compared with an independent runtime; then a custom
//! operation on eight simulated GPSIMD cores.

use crate::ops;
use crate::python::{Environment, cache, scratch};
use crate::run::{build_outboard, check, result, root, say};
use crate::setup::{self, Consent};
use anyhow::{Context, Result, bail};
use outboard_tensor::{DType, Tensor};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Files of the clone that the demo looks at: text, code, data, an image of machine code.
const FILES: [&str; 6] = [
    "README.md",
    "Cargo.toml",
    "crates/wire/src/message.rs",
    "examples/magika/demo.py",
    "examples/models/handwritten/d4.c",
    ".ci/run",
];

/// Largest difference between the offline network's answer and the recorded one, relative to the larger value.
const TOLERANCE: f64 = 1e-4;

/// Runs the demo.
///
/// # Errors
/// Set-up, a build, the run or the comparison fails.
pub fn run(files: &[PathBuf], offline: bool, consent: &Consent) -> Result<()> {
    if offline {
        setup::for_c(consent)?;
        run_offline()?;
    } else {
        let python = setup::for_models(consent)?;
        run_magika(&python, files)?;
    }
    ops::demo(&scratch("operation")?, consent)?;
    result("demo: ok");
    Ok(())
}

/// Compiles magika to a device module and runs it over files.
fn run_magika(python: &Environment, files: &[PathBuf]) -> Result<()> {
    let outboard = build_outboard(true)?;
    let models = cache()?.join("models");
    let scratch = scratch("demo")?;
    let module = scratch.join("lib0.out");
    check(python.python().args(["-m", "outboard.build.fetch", "magika", "-o"]).arg(&models))?;
    let model = models.join("magika.onnx");
    check(
        python
            .python()
            .args(["-m", "outboard.build"])
            .arg(&model)
            .arg("-o")
            .arg(&module)
            .args(["--input", "bytes=1,2048,int32"]),
    )?;
    say("running it on the simulated C7x");
    let mut demo = python.python();
    demo.arg("examples/magika/demo.py");
    demo.arg("--outboard").arg(&outboard).arg("--module").arg(&module).arg("--model").arg(&model);
    demo.arg("--config").arg(models.join("magika.json"));
    demo.args(FILES);
    for file in files {
        demo.arg(std::path::absolute(file).with_context(|| format!("{} is no path", file.display()))?);
    }
    check(&mut demo)
}

/// Compiles the checked-in network with the C compiler alone and compares with the recorded answer.
fn run_offline() -> Result<()> {
    let outboard = build_outboard(true)?;
    let source = root().join("examples/models/offline");
    let scratch = scratch("offline")?;
    let module = scratch.join("lib0.out");
    compile(&source, &module)?;
    let output = scratch.join("y.npy");
    let mut run = Command::new(&outboard);
    run.arg("run").arg(&module).arg("--input").arg(source.join("input.npy")).arg("--output").arg(&output);
    check(&mut run)?;
    let (got, expected) = (load(&output)?, load(&source.join("expected.npy"))?);
    let difference = compare(&got, &expected)?;
    result(format_args!("{} outputs agree with the recorded answer, largest difference {difference:.1e}", got.len()));
    Ok(())
}

/// Builds a module from checked-in C, as `examples/models/README.md` documents it.
fn compile(source: &Path, module: &Path) -> Result<()> {
    let flags = |name: &str| {
        let path = root().join("examples/models").join(name);
        std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
    };
    let (cflags, ldflags) = (flags("cflags.txt")?, flags("ldflags.txt")?);
    let mut cc = Command::new("cc");
    cc.current_dir(source).args(cflags.split_whitespace()).args(["lib0.c", "weights.S"]).arg("-o").arg(module);
    check(cc.args(ldflags.split_whitespace()))
}

fn load(path: &Path) -> Result<Vec<f64>> {
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let tensor = Tensor::from_npy(&bytes).with_context(|| format!("{} is no tensor file", path.display()))?;
    if tensor.dtype() != DType::Float32 {
        bail!("{} holds {:?}, the offline network gives float32", path.display(), tensor.dtype());
    }
    let word = |chunk: &[u8]| f64::from(f32::from_le_bytes(chunk.try_into().unwrap_or_default()));
    Ok(tensor.bytes().chunks_exact(4).map(word).collect())
}

/// Largest difference relative to the larger value.
fn compare(got: &[f64], expected: &[f64]) -> Result<f64> {
    if got.len() != expected.len() {
        bail!("the device gave {} values, the recorded answer has {}", got.len(), expected.len());
    }
    let difference = got
        .iter()
        .zip(expected)
        .map(|(got, expected)| (got - expected).abs() / got.abs().max(expected.abs()).max(1e-3))
        .fold(
            0.0,
            |largest: f64, difference| if difference > largest || difference.is_nan() { difference } else { largest },
        );
    if difference <= TOLERANCE {
        return Ok(difference);
    }
    bail!("the device's answer differs from the recorded one by {difference:e}, relative")
}
