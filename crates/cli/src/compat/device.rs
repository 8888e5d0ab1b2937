//! Commands without tensors: ping, status, loads and unloads.

use super::args::{Options, number};
use super::{Failed, Outcome, complain, fail, print};
use outboard_host::client::{Client, ClientError, DeviceName, strerror};

/// Opens the device that the environment names.
pub(super) fn open() -> Result<Client, ClientError> {
    Client::open(&DeviceName::from_environment()?, None)
}

/// Opens the device, or says why not.
pub(super) fn connect() -> Result<Client, Failed> {
    open().map_err(|error| {
        complain("Failed to open client\n");
        explain(&error)
    })
}

/// Says on standard error what the short texts of the original leave out.
pub(super) fn explain(error: &ClientError) -> Failed {
    let help = error.help();
    complain(&format!("  {error}\n"));
    if !help.is_empty() {
        complain(&format!("  help: {help}\n"));
    }
    Failed
}

/// The text of the original for an error, with the sizes when memory ran out.
pub(super) fn text(client: &Client, error: &ClientError) -> String {
    let text = strerror(error.number());
    let Some(shortage) = client.last_shortage() else { return text.to_owned() };
    let millions = |bytes: u32| f64::from(bytes) / 1e6;
    let (requested, free, total) = (millions(shortage.requested), millions(shortage.free), millions(shortage.total));
    format!("{text} (requested {requested:.1} MB, {free:.1} MB free of {total:.1} MB)")
}

/// Reports a failed request.
fn failed(client: &Client, what: &str, error: &ClientError) -> Failed {
    complain(&format!("{what}: {}\n", text(client, error)));
    explain(error)
}

/// Ends the session; the command has done what it should, so that a failure to end is only mentioned.
pub(super) fn close(client: Client) {
    if let Err(error) = client.close() {
        explain(&error);
    }
}

pub(super) fn ping() -> Outcome {
    let mut client = connect()?;
    let pong = client.ping().map_err(|error| failed(&client, "PING failed", &error))?;
    let millis = pong.uptime.as_millis();
    print(&format!(
        "PING successful!\n  Version: {}\n  Uptime:  {}.{:03} seconds\n",
        pong.version,
        millis / 1000,
        millis % 1000
    ));
    close(client);
    Ok(())
}

pub(super) fn status() -> Outcome {
    let mut client = connect()?;
    let status = client.status().map_err(|error| failed(&client, "Failed to get status", &error))?;
    let millis = status.uptime.as_millis();
    print(&format!(
        "C7x Compute Service Status:\n  Version: {}\n  Uptime:  {}.{:03} seconds\n  Jobs completed: {}\n  Jobs failed: {}\n",
        status.version,
        millis / 1000,
        millis % 1000,
        status.jobs_completed,
        status.jobs_failed
    ));
    close(client);
    Ok(())
}

/// What is loaded ends with a device of this command's own: that must not go unnoticed.
fn warn_if_forgotten(client: &Client) {
    if !client.keeps_modules() {
        complain(&format!(
            "warning: device {} ends with this command and forgets what was loaded; `outboard device run --socket PATH --shared` \
             starts one that keeps it, OUTBOARD_DEVICE=sim:PATH names it\n",
            client.device()
        ));
    }
}

pub(super) fn load(options: &Options) -> Outcome {
    let module = options.module().ok_or_else(|| fail("Error: load needs a module file"))?;
    let mut client = connect()?;
    let loaded = client.load(&module);
    let handle = loaded.map_err(|error| failed(&client, "Module load failed", &error))?;
    warn_if_forgotten(&client);
    print(&format!("Module loaded successfully: handle={handle}\n"));
    close(client);
    Ok(())
}

pub(super) fn unload(options: &Options) -> Outcome {
    let handle = operand(options, 0, "unload needs a module handle")?;
    let mut client = connect()?;
    client.unload(handle).map_err(|error| failed(&client, "Module unload failed", &error))?;
    print(&format!("Module unloaded: handle={handle}\n"));
    close(client);
    Ok(())
}

pub(super) fn model_load(options: &Options) -> Outcome {
    let file = options.operands.first().ok_or_else(|| fail("Error: model-load needs a weights file"))?;
    let mut client = connect()?;
    let loaded = client.load_model(file.as_ref());
    let model = loaded.map_err(|error| failed(&client, "Model load failed", &error))?;
    warn_if_forgotten(&client);
    print(&format!("Model loaded successfully: model_id={}\n", model.id));
    close(client);
    Ok(())
}

pub(super) fn model_unload(options: &Options) -> Outcome {
    let id = operand(options, 0, "model-unload needs a model id")?;
    let mut client = connect()?;
    client.unload_model(id).map_err(|error| failed(&client, "Model unload failed", &error))?;
    print(&format!("Model unloaded: model_id={id}\n"));
    close(client);
    Ok(())
}

/// A number among the arguments.
pub(super) fn operand(options: &Options, index: usize, missing: &str) -> Result<u32, Failed> {
    let operand = options.operands.get(index).ok_or_else(|| fail(&format!("Error: {missing}")))?;
    number(operand).ok_or_else(|| fail(&format!("Error: {missing}; `{}` is none", operand.display())))
}
