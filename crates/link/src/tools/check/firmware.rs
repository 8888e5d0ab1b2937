//! Profile `remoteproc`: whether Linux can start a firmware and talk to it.

use alloc::format;
use alloc::string::ToString;

use outboard_elf::Elf;

use super::{Findings, Severity};
use crate::resource_table::{self, ANY, BUFFER, RPMSG, ResourceTable, SECTION, VirtualDevice};

pub(super) fn check(elf: &Elf<'_>, findings: &mut Findings) {
    let mut push = |code, severity, place: &str, message, fix: &str| {
        findings.push(code, severity, place.to_string(), message, fix.to_string());
    };
    let table = match resource_table::read(elf) {
        Ok(Some(table)) => table,
        Ok(None) => {
            let message = "the firmware has no resource table: Linux refuses it with `Boot failed: -22`".to_string();
            return push(
                "OB0231",
                Severity::Error,
                SECTION,
                message,
                "link the resource table of the SDK into the firmware",
            );
        }
        Err(error) => {
            let fix = "build the table from the structures of the SDK; offsets count from its start";
            return push("OB0232", Severity::Error, SECTION, error.to_string(), fix);
        }
    };
    if table.version != 1 {
        let message = format!("the version is {}, Linux knows version 1 only", table.version);
        push("OB0233", Severity::Error, SECTION, message, "set the first word of the table to 1");
    }
    if !table.devices.iter().any(|device| device.id == RPMSG) {
        let message = "there is no RPMessage device (id 7): no host can talk to the firmware".to_string();
        push("OB0234", Severity::Error, SECTION, message, "add a virtual device with id 7 and two rings");
    }
    if table.traces.is_empty() {
        let message = "there is no trace entry: what the firmware logs cannot be read on Linux".to_string();
        push("OB0236", Severity::Warning, SECTION, message, "add a trace entry for the log buffer");
    }
    for device in &table.devices {
        check_rings(&table, device, findings);
    }
    check_overlaps(&table, findings);
}

fn check_rings(table: &ResourceTable, device: &VirtualDevice, findings: &mut Findings) {
    for (index, ring) in device.rings.iter().enumerate() {
        if !ring.count.is_power_of_two() || !ring.align.is_power_of_two() {
            let message = format!("{} buffers aligned to {}: both must be powers of two", ring.count, ring.align);
            let fix = "use 256 buffers and an alignment of 4096, the usual values".to_string();
            findings.push("OB0235", Severity::Error, format!("ring {index}"), message, fix);
        }
    }
    let needed = device.ring_bytes() + device.buffer_bytes();
    let fixed = device.rings.iter().map(|ring| ring.device_address).find(|address| *address != ANY);
    let holder = table.carveouts.iter().find(|carveout| match fixed {
        Some(address) => address.wrapping_sub(carveout.device_address) < carveout.size,
        None => carveout.name.starts_with("vdev") || carveout.name.contains("vring"),
    });
    let Some(carveout) = holder else { return };
    let before = fixed.map_or(0, |address| u64::from(address - carveout.device_address));
    let room = u64::from(carveout.size).saturating_sub(before);
    if needed > room {
        let counts = device.rings.iter().map(|ring| ring.count.to_string()).collect::<alloc::vec::Vec<_>>().join(" + ");
        let message = format!(
            "rings {} bytes + ({counts}) buffers x {BUFFER} bytes = {needed} bytes, but {room} bytes are there",
            device.ring_bytes(),
        );
        let fix = format!("use fewer buffers, or make the carveout at least {} bytes", before + needed);
        findings.push("OB0237", Severity::Error, format!("carveout {}", carveout.name), message, fix);
    }
}

fn check_overlaps(table: &ResourceTable, findings: &mut Findings) {
    let fixed = table.carveouts.iter().filter(|carveout| carveout.device_address != ANY);
    let mut ranges: alloc::vec::Vec<_> =
        fixed.map(|c| (u64::from(c.device_address), u64::from(c.size), c.name.as_str())).collect();
    ranges.sort_unstable();
    for (low, high) in ranges.iter().zip(ranges.iter().skip(1)) {
        if low.0 + low.1 > high.0 {
            let message = format!("{:#x}..{:#x} overlaps carveout {} at {:#x}", low.0, low.0 + low.1, high.2, high.0);
            let fix = "give each carveout a range of its own".to_string();
            findings.push("OB0238", Severity::Error, format!("carveout {}", low.2), message, fix);
        }
    }
}
