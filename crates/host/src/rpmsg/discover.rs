//! Finding a board's DSP in sysfs by its device-tree name: numbers change from boot to boot, the name does not.

use super::{RpmsgError, RpmsgOptions};
use std::path::{Path, PathBuf};

/// Control devices that are looked at.
const CONTROLS: std::ops::Range<u32> = 0..10;
/// Remote processors that are looked at.
const PROCESSORS: std::ops::Range<u32> = 0..16;

/// A remote processor, as Linux shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Processor {
    /// Its name, e.g. `remoteproc2`.
    pub name: String,
    /// `offline`, `running`, `crashed`, …; empty when it cannot be read.
    pub state: String,
    /// The firmware file it starts with, relative to the firmware folder; empty when it cannot be read.
    pub firmware: String,
}

impl Processor {
    /// Whether its firmware runs. `attached` is a processor that ran before Linux did.
    pub fn is_running(&self) -> bool {
        matches!(self.state.as_str(), "running" | "attached")
    }
}

/// Whether a path of sysfs leads through a device of this device-tree name.
fn leads_through(path: &Path, address: &str) -> bool {
    path.components().any(|part| part.as_os_str() == address)
}

/// The first line of a file of sysfs; empty when it cannot be read.
pub(super) fn attribute(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default().lines().next().unwrap_or_default().trim().to_owned()
}

impl RpmsgOptions {
    /// Folder of a class in sysfs.
    pub(super) fn class(&self, name: &str) -> PathBuf {
        self.sys.join("class").join(name)
    }

    /// The node of a device.
    pub fn node(&self, name: &str) -> PathBuf {
        self.dev.join(name)
    }

    /// The node of the heap that allocates from the shared carveout.
    pub fn heap_node(&self) -> PathBuf {
        self.dev.join("dma_heap").join(&self.heap)
    }

    /// The remote processor of this device-tree name.
    ///
    /// # Errors
    /// There is none; the error lists those there are.
    pub fn processor(&self) -> Result<Processor, RpmsgError> {
        let class = self.class("remoteproc");
        let mut others = Vec::new();
        for index in PROCESSORS {
            let name = format!("remoteproc{index}");
            let folder = class.join(&name);
            let Ok(target) = std::fs::read_link(folder.join("device")) else { continue };
            if leads_through(&target, &self.address) {
                let [state, firmware] = ["state", "firmware"].map(|file| attribute(&folder.join(file)));
                return Ok(Processor { name, state, firmware });
            }
            let device = target.file_name().unwrap_or_default().to_string_lossy().into_owned();
            others.push(device);
        }
        Err(RpmsgError::NoDevice { address: self.address.clone(), class, others })
    }

    /// The nodes of the RPMsg control devices of this device-tree name: one, once the firmware has announced its service.
    pub fn controls(&self) -> Vec<PathBuf> {
        let class = self.class("rpmsg");
        let names = CONTROLS.map(|index| format!("rpmsg_ctrl{index}"));
        let own = names.filter(|name| {
            let device = std::fs::canonicalize(class.join(name).join("device"));
            device.is_ok_and(|path| leads_through(&path, &self.address))
        });
        own.map(|name| self.node(&name)).collect()
    }

    /// The last `most` bytes of the firmware's log; empty when debugfs cannot be read.
    pub fn trace(&self, most: usize) -> String {
        let Ok(processor) = self.processor() else { return String::new() };
        let file = self.sys.join("kernel/debug/remoteproc").join(processor.name).join("trace0");
        let text = std::fs::read(file).unwrap_or_default();
        // The log is a ring of text that is padded with zero bytes.
        let written: Vec<u8> = text.into_iter().filter(|byte| *byte != 0).collect();
        String::from_utf8_lossy(written.get(written.len().saturating_sub(most)..).unwrap_or_default()).into_owned()
    }
}
