//! `cargo xtask ops`: the device code of GPSIMD custom operations as files, and one operation on the simulated pool.

use crate::run::{build_outboard, output, result, say};
use crate::setup::{self, Consent};
use anyhow::{Context, Result, bail};
use outboard_device_build::DeviceBuild;
use outboard_tensor::{Shape, Tensor};
use outboard_ucode::cores;
use std::path::{Path, PathBuf};

/// Operations of `device/ops` that are libraries to use; the others are for tests.
const OPS: [&str; 3] = ["relu", "add", "sum"];
/// Elements of the demo's tensor; no multiple of eight.
const COUNT: u16 = 20_001;

/// What to build.
#[derive(clap::Args)]
pub struct Arguments {
    /// Cores of the pool that the runtime is for: 1, 4 or 8
    #[arg(long, default_value_t = 8)]
    cores: u8,
    /// Where the files go
    #[arg(long, short, default_value = "target/ops")]
    output: PathBuf,
    #[command(flatten)]
    consent: Consent,
}

/// Builds the runtime and the operations: archives, and one resident library of each.
///
/// # Errors
/// The toolchain is missing, a build fails, or a file cannot be written.
pub fn run(arguments: &Arguments) -> Result<()> {
    if !matches!(arguments.cores, 1 | 4 | 8) {
        bail!("--cores is {}, expected 1, 4 or 8", arguments.cores);
    }
    setup::for_device(&arguments.consent)?;
    let build = DeviceBuild::default();
    std::fs::create_dir_all(&arguments.output)
        .with_context(|| format!("cannot create {}", arguments.output.display()))?;
    let runtime = build.runtime(arguments.cores)?;
    write(&arguments.output, "libcustomop_rt.a", &runtime)?;
    for name in OPS {
        let op = build.op(name)?;
        write(&arguments.output, &format!("lib{name}.a"), &op)?;
        let linked = build.resident(&[(name, &op), ("customop-rt", &runtime)], &bounds()?)?;
        write(&arguments.output, &format!("{name}.pi"), &linked.image)?;
    }
    Ok(())
}

fn bounds() -> Result<outboard_link::pi::MemoryBounds> {
    Ok(cores::find("cayman")?.bounds)
}

fn write(folder: &Path, name: &str, bytes: &[u8]) -> Result<()> {
    let path = folder.join(name);
    std::fs::write(&path, bytes).with_context(|| format!("cannot write {}", path.display()))?;
    result(format_args!("{} ({} bytes)", path.display(), bytes.len()));
    Ok(())
}

/// Builds relu, runs it on eight simulated cores and compares every element.
///
/// # Errors
/// A build or the run fails, or an element is wrong.
pub fn demo(scratch: &Path, consent: &Consent) -> Result<()> {
    setup::for_device(consent)?;
    say("running a custom operation on eight simulated GPSIMD cores");
    let linked = DeviceBuild::default().resident_op("relu", &bounds()?)?;
    let values: Vec<f32> = (0..COUNT).map(|n| f32::from(n) - 10_000.0).collect();
    let x = Tensor::from_values(Shape::new(&[values.len()])?, &values)?;
    let path = |name: &str| scratch.join(name).to_string_lossy().into_owned();
    let (library, input, answer) = (path("relu.pi"), path("x.npy"), path("y.npy"));
    std::fs::write(&library, &linked.image)?;
    std::fs::write(&input, x.view().to_npy()?)?;
    let outboard = build_outboard(true)?.to_string_lossy().into_owned();
    let arguments = ["op", "run", &library, "--op", "relu_forward", "--arg", &input, "-o", &answer, "--stats"];
    let shown = output(&outboard, &arguments).context("outboard op run failed")?;
    let y = Tensor::from_npy(&std::fs::read(&answer)?)?;
    let expected = values.iter().map(|value| value.max(0.0));
    if !y.values::<f32>().is_some_and(|found| found.into_iter().eq(expected)) {
        bail!("the pool's answer differs from max(x, 0)");
    }
    result(shown.trim_end());
    Ok(())
}
