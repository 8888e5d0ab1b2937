//! `trace`: prints what the device logs until it is interrupted.

use super::{Outcome, complain, device, fail, print};
use outboard_host::client::{ClientError, DeviceName};
use outboard_host::{list_devices, read_trace};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Pause between two looks, in steps that end soon after a signal.
const STEPS: u32 = 10;
const STEP: Duration = Duration::from_millis(50);

pub(super) fn run() -> Outcome {
    let named = DeviceName::from_environment().map_err(|error| device::explain(&error))?;
    let DeviceName::Standing(socket) = named else {
        complain(&format!("Trace of device {named} not found\n"));
        return Err(fail("  set OUTBOARD_DEVICE=sim:PATH to the socket of `outboard device run`"));
    };
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        let registered = signal_hook::flag::register(signal, Arc::clone(&stop));
        registered.map_err(|error| fail(&format!("cannot wait for signals: {error}")))?;
    }
    follow(&socket, &stop).map_err(|error| {
        complain("Trace not found\n");
        device::explain(&ClientError::from(error))
    })
}

/// Prints what is new of every device process until told to stop.
fn follow(socket: &Path, stop: &AtomicBool) -> Result<(), outboard_host::Error> {
    let mut seen: HashMap<u32, u64> = HashMap::new();
    while !stop.load(Ordering::Relaxed) {
        for row in list_devices(socket)? {
            let from = seen.get(&row.process).copied().unwrap_or(0);
            // A process that has just ended has nothing more to say.
            if let Ok((text, next)) = read_trace(socket, row.process, from) {
                print(&text);
                seen.insert(row.process, next);
            }
        }
        for _ in 0..STEPS {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            std::thread::sleep(STEP);
        }
    }
    Ok(())
}
