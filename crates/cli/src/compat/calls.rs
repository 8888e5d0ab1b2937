//! Commands with tensors: infer, run and profile.

use super::args::Options;
use super::tensors::{self, Input};
use super::{Failed, Outcome, complain, device, fail, print};
use outboard_host::client::{Client, ClientError, RawTensor};
use serde_json::{Value, json};
use std::io::Write;
use std::path::Path;

/// What a call left behind.
pub(super) struct Called {
    pub(super) cycles: u64,
    pub(super) described: Value,
    pub(super) count: usize,
    pub(super) bytes: Vec<u8>,
}

/// Calls a module and shows what it printed.
pub(super) fn call(
    client: &mut Client,
    (handle, model): (u32, u32),
    inputs: &[RawTensor<'_>],
    flags: u32,
) -> Result<Called, ClientError> {
    let called = client.infer(handle, model, inputs, flags).map(|outputs| Called {
        cycles: outputs.cycles(),
        described: tensors::describe(&outputs),
        count: outputs.len(),
        bytes: tensors::bytes(&outputs),
    });
    let _ = std::io::stderr().lock().write_all(client.text().bytes());
    called
}

/// The bytes of the input file and how they are cut.
fn read_inputs(options: &Options) -> Result<(Vec<u8>, Vec<Input>), Failed> {
    let path = options.input.as_ref().ok_or_else(|| fail("Error: --input file required"))?;
    let data = std::fs::read(path).map_err(|error| fail(&format!("Error: cannot read {}: {error}", path.display())))?;
    let inputs = tensors::cut(data.len(), options.shape.as_deref(), options.dtype.as_deref());
    let inputs = inputs.map_err(|error| fail(&format!("Error: {error}")))?;
    Ok((data, inputs))
}

fn write_output(path: &Path, bytes: &[u8]) -> Outcome {
    std::fs::write(path, bytes).map_err(|error| fail(&format!("Error: cannot write {}: {error}", path.display())))
}

pub(super) fn infer(options: &Options) -> Outcome {
    let missing = "infer needs a module handle and a model id";
    let handle = device::operand(options, 0, missing)?;
    let model = device::operand(options, 1, missing)?;
    let (data, inputs) = read_inputs(options)?;
    let tensors: Vec<_> = inputs.iter().map(|input| input.tensor(&data)).collect();
    let mut client = device::connect()?;
    let called = call(&mut client, (handle, model), &tensors, 0).map_err(|error| {
        complain(&format!("Inference failed: {}\n", device::text(&client, &error)));
        device::explain(&error)
    })?;
    print(&format!("Inference complete: {} cycles\n  Outputs: {}\n", called.cycles, called.count));
    if let Some(path) = &options.output {
        write_output(path, &called.bytes)?;
        print(&format!("  Written {} bytes ({} tensors) to {}\n", called.bytes.len(), called.count, path.display()));
    }
    device::close(client);
    Ok(())
}

/// Loads, calls and unloads a module; `flags` say how often it runs.
pub(super) fn run(options: &Options, flags: u32) -> Outcome {
    let module = options.module().ok_or_else(|| fail("Error: --module file required"))?;
    let (data, inputs) = read_inputs(options)?;
    let tensors: Vec<_> = inputs.iter().map(|input| input.tensor(&data)).collect();
    let mut client = match device::open() {
        Ok(client) => client,
        Err(error) => return Err(report("open", "Failed to open client", &error)),
    };
    let staged = |client: &Client, stage, error: ClientError| report(stage, &device::text(client, &error), &error);
    let loaded = client.load(&module);
    let handle = loaded.map_err(|error| staged(&client, "load", error))?;
    for warning in client.warnings(handle) {
        complain(&format!("warning: {warning}\n"));
    }
    let called = call(&mut client, (handle, 0), &tensors, flags);
    let called = called.map_err(|error| staged(&client, "infer", error))?;
    if let Some(path) = &options.output {
        write_output(path, &called.bytes)?;
    }
    let unloaded = client.unload(handle);
    unloaded.map_err(|error| staged(&client, "unload", error))?;
    device::close(client);
    let line = json!({
        "status": "ok",
        "cycles": called.cycles,
        "num_outputs": called.count,
        "outputs": called.described,
    });
    print(&format!("{line}\n"));
    Ok(())
}

/// Reports a failure as JSON, with what the original's texts leave out on standard error.
pub(super) fn report(stage: &str, text: &str, error: &ClientError) -> Failed {
    print(&format!("{}\n", json!({"status": "error", "stage": stage, "error": text})));
    device::explain(error)
}
