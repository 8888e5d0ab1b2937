//! What can go wrong on the way to a board's device.

use std::io;
use std::path::PathBuf;

/// Why the way to a board's device failed. Codes OB0330 to OB0339 are documented under `docs/reference/codes/`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RpmsgError {
    /// No remote processor and no RPMsg control device belongs to the device-tree name.
    #[error("no C7x named {address} in {}{}", class.display(), found(others))]
    NoDevice {
        /// Device-tree name that was looked for.
        address: String,
        /// The folder of sysfs that was read.
        class: PathBuf,
        /// Devices that are there.
        others: Vec<String>,
    },
    /// A device node may not be opened by this user.
    #[error("no permission to open {}: {source}", path.display())]
    Permission {
        /// The node.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A device node is missing or cannot be opened.
    #[error("cannot open {}: {source}", path.display())]
    Node {
        /// The node.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The endpoint was not made, or its node did not appear.
    #[error("no RPMsg endpoint `{service}` at {}: {reason}", control.display())]
    NoEndpoint {
        /// Name of the service.
        service: &'static str,
        /// The control device it was asked from.
        control: PathBuf,
        /// What went wrong.
        reason: String,
    },
    /// A message could not be exchanged over the endpoint.
    #[error("cannot {action} the endpoint {}: {source}", path.display())]
    Broken {
        /// `write`, `read` or `wait for`.
        action: &'static str,
        /// The endpoint's node.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The heap has no buffer of this size, or it cannot be mapped.
    #[error("the DMA heap {} gave no buffer of {size} bytes: {source}", heap.display())]
    Heap {
        /// The heap's node.
        heap: PathBuf,
        /// Bytes asked for.
        size: u64,
        /// The system's reason.
        source: io::Error,
    },
    /// A buffer could not be attached to the remote processor.
    #[error("{} does not attach a buffer: {source}", processor.display())]
    Attach {
        /// The remote processor's node.
        processor: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A buffer does not lie in the carveout the board is said to have.
    #[error("a buffer of {size:#x} bytes lies at physical {physical:#x}, outside the carveout at {carveout:#x}")]
    OutsideCarveout {
        /// Where Linux put the buffer.
        physical: u64,
        /// Its size.
        size: u64,
        /// Where the carveout begins.
        carveout: u64,
    },
    /// The caches could not be brought in step.
    #[error("cannot synchronise a buffer of {size} bytes: {source}")]
    Sync {
        /// Size of the buffer.
        size: u64,
        /// The system's reason.
        source: io::Error,
    },
    /// The remote processor is not in the state that is needed, or does not get there.
    #[error("remote processor {address}: {reason}")]
    Processor {
        /// Its device-tree name.
        address: String,
        /// What is wrong.
        reason: String,
    },
}

fn found(others: &[String]) -> String {
    if others.is_empty() { "; there is no other".to_owned() } else { format!("; there is {}", others.join(", ")) }
}

impl RpmsgError {
    /// The udev rule that lets members of `plugdev` use the nodes.
    pub const UDEV_RULE: &'static str = "SUBSYSTEM==\"rpmsg|remoteproc|dma_heap\", GROUP=\"plugdev\", MODE=\"0660\"";

    pub(crate) fn code(&self) -> &'static str {
        self.row().0
    }

    pub(crate) fn kind(&self) -> &'static str {
        self.row().1
    }

    pub(crate) fn help(&self) -> String {
        match self {
            Self::Permission { .. } => format!(
                "put `{}` into /etc/udev/rules.d/70-outboard.rules, join the group, and run `udevadm control --reload && udevadm trigger`",
                Self::UDEV_RULE
            ),
            Self::Node { source, .. } if source.kind() == io::ErrorKind::ResourceBusy => {
                "another program uses the device: wait until it has closed it, or end it".to_owned()
            }
            other => other.row().2.to_owned(),
        }
    }

    fn row(&self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::NoDevice { .. } => (
                "OB0330",
                "no_device",
                "run this on the board; on BeagleY-AI enable the edge-AI overlay in /boot/uEnv.txt; `outboard doctor --device rpmsg` looks further",
            ),
            Self::Permission { .. } => ("OB0331", "no_permission", ""),
            Self::Node { .. } => (
                "OB0332",
                "no_node",
                "load the drivers of the board's kernel (rpmsg_char, rpmsg_ctrl, the carveout heap); `outboard doctor --device rpmsg` names what is missing",
            ),
            Self::NoEndpoint { .. } => (
                "OB0333",
                "no_endpoint",
                "end programs that left endpoints behind, or start the processor again: `outboard board stop`, `outboard board start`",
            ),
            Self::Broken { .. } => (
                "OB0334",
                "endpoint_broken",
                "the processor was stopped or has crashed: `outboard board status` and `outboard board trace` tell more",
            ),
            Self::Heap { .. } => (
                "OB0335",
                "heap_refused",
                "another program holds the carveout, or it is smaller than 512 MiB: close it, or check the device tree",
            ),
            Self::Attach { .. } => (
                "OB0336",
                "attach_refused",
                "attaching needs the remoteproc driver of TI's kernel; a mainline kernel does not have it",
            ),
            Self::OutsideCarveout { .. } => (
                "OB0337",
                "outside_carveout",
                "name the board this is: --board am67a-evm (8 GB) or --board beagley-ai (4 GB); for programs without that option, \
                 OUTBOARD_CARVEOUT=0x8A0000000",
            ),
            Self::Sync { .. } => (
                "OB0338",
                "sync_refused",
                "what the device would read or has written is not certain: open the session again",
            ),
            Self::Processor { .. } => (
                "OB0339",
                "remote_processor",
                "`outboard board status` shows its state, `outboard board trace` its log, `outboard board start` starts it",
            ),
        }
    }
}
