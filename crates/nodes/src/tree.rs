//! The folder in which the served nodes and links of sysfs lie as files: a board with one C7x, whose firmware runs.
//!
//! It is the one `OUTBOARD_NODES_ROOT` names, which several programs may share, or one of this process's own, removed when it ends.

use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// The device of the DSP in sysfs.
const DSP: &str = "sys/devices/platform/bus@f0000/7e000000.dsp";
/// Its remote processor, below [`DSP`].
const PROCESSOR: &str = "remoteproc/remoteproc0";
/// Its RPMsg control device, below [`PROCESSOR`].
const CONTROL: &str = "rproc-virtio.0.auto/virtio0/virtio0.rpmsg_ctrl.0.0/rpmsg/rpmsg_ctrl0";
/// The heap of the carveout.
pub(crate) const HEAP: &str = "dma_heap/carveout_vision_apps_shared-memories";
/// Largest number of an endpoint.
const MOST_ENDPOINTS: u32 = 100_000;

/// Folders that are served with everything in them.
const FOLDERS: [&str; 5] = [
    "/dev/dma_heap",
    "/sys/class/rpmsg",
    "/sys/class/remoteproc",
    "/sys/kernel/debug/remoteproc",
    "/sys/devices/platform/bus@f0000",
];
/// Beginnings of names of nodes that are served.
const NODES: [&str; 2] = ["/dev/rpmsg", "/dev/remoteproc"];

/// Whether a path is served.
pub(crate) fn is_served(path: &[u8]) -> bool {
    let inside = |folder: &str| {
        path.strip_prefix(folder.as_bytes()).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
    };
    FOLDERS.iter().any(|folder| inside(folder)) || NODES.iter().any(|name| path.starts_with(name.as_bytes()))
}

#[derive(Debug)]
pub(crate) struct Tree {
    root: PathBuf,
    own: bool,
}

impl Tree {
    /// Opens the shared folder or makes one.
    pub(crate) fn open(shared: Option<PathBuf>) -> io::Result<Self> {
        let (root, own) = match shared {
            Some(root) => (root, false),
            None => {
                let name = format!("outboard-nodes-{}-{}", std::process::id(), outboard_shm::monotonic_ns());
                (std::env::temp_dir().join(name), true)
            }
        };
        fs::create_dir_all(&root)?;
        let tree = Self { root: root.canonicalize()?, own };
        if !tree.root.join("sys/class/rpmsg/rpmsg_ctrl0").exists() {
            tree.fill()?;
        }
        Ok(tree)
    }

    fn fill(&self) -> io::Result<()> {
        let processor = Path::new(DSP).join(PROCESSOR);
        let control = processor.join(CONTROL);
        for folder in
            ["dev/dma_heap", "sys/class/rpmsg", "sys/class/remoteproc", "sys/kernel/debug/remoteproc/remoteproc0"]
        {
            fs::create_dir_all(self.root.join(folder))?;
        }
        fs::create_dir_all(self.root.join(&control))?;
        for node in ["dev/rpmsg_ctrl0", "dev/remoteproc0", "sys/kernel/debug/remoteproc/remoteproc0/trace0"] {
            fs::write(self.root.join(node), "")?;
        }
        fs::write(self.root.join("dev").join(HEAP), "")?;
        for (file, text) in [("state", "running\n"), ("firmware", "j722s-c71_0-fw\n"), ("name", "7e000000.dsp\n")] {
            fs::write(self.root.join(&processor).join(file), text)?;
        }
        link(&self.root.join(&processor).join("device"), Path::new("../../../7e000000.dsp"))?;
        link(&self.root.join(&control).join("device"), Path::new("../../../virtio0.rpmsg_ctrl.0.0"))?;
        let up = Path::new("../..");
        let within = |path: &Path| up.join(path.strip_prefix("sys").unwrap_or(path));
        link(&self.root.join("sys/class/remoteproc/remoteproc0"), &within(&processor))?;
        link(&self.root.join("sys/class/rpmsg/rpmsg_ctrl0"), &within(&control))
    }

    /// Where a served path lies.
    pub(crate) fn inside(&self, path: &[u8]) -> PathBuf {
        self.root.join(OsStr::from_bytes(path.strip_prefix(b"/").unwrap_or(path)))
    }

    /// The path as the program knows it.
    pub(crate) fn outside<'a>(&self, path: &'a [u8]) -> Option<&'a [u8]> {
        path.strip_prefix(self.root.as_os_str().as_bytes()).filter(|rest| rest.starts_with(b"/"))
    }

    /// What the processor's state reads.
    pub(crate) fn set_state(&self, state: &str) {
        // A folder that is gone belongs to a program that ends.
        let _ = fs::write(self.root.join(DSP).join(PROCESSOR).join("state"), format!("{state}\n"));
    }

    /// What the firmware's log reads.
    pub(crate) fn set_trace(&self, text: &str) {
        let _ = fs::write(self.root.join("sys/kernel/debug/remoteproc/remoteproc0/trace0"), text);
    }

    /// Makes the node of an endpoint and, when `named`, its folder in sysfs; returns its number.
    pub(crate) fn add_endpoint(&self, name: &str, src: u32, dst: u32, named: bool) -> io::Result<u32> {
        let number = self.claim()?;
        if named {
            let control = Path::new(DSP).join(PROCESSOR).join(CONTROL);
            let folder = control.join(format!("rpmsg{number}"));
            fs::create_dir_all(self.root.join(&folder))?;
            for (file, text) in [("name", name.to_owned()), ("src", src.to_string()), ("dst", dst.to_string())] {
                fs::write(self.root.join(&folder).join(file), text + "\n")?;
            }
            let target = Path::new("../..").join(folder.strip_prefix("sys").unwrap_or(&folder));
            link(&self.root.join(format!("sys/class/rpmsg/rpmsg{number}")), &target)?;
        }
        Ok(number)
    }

    /// The lowest number that no endpoint has.
    fn claim(&self) -> io::Result<u32> {
        for number in 0..MOST_ENDPOINTS {
            let node = self.root.join(format!("dev/rpmsg{number}"));
            match OpenOptions::new().write(true).create_new(true).open(node) {
                Ok(_) => return Ok(number),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::from_raw_os_error(libc::ENOSPC))
    }

    /// Removes what [`Tree::add_endpoint`] made.
    pub(crate) fn remove_endpoint(&self, number: u32) {
        let folder = self.root.join(DSP).join(PROCESSOR).join(CONTROL).join(format!("rpmsg{number}"));
        let _ = fs::remove_file(self.root.join(format!("sys/class/rpmsg/rpmsg{number}")));
        let _ = fs::remove_dir_all(folder);
        let _ = fs::remove_file(self.root.join(format!("dev/rpmsg{number}")));
    }

    /// Removes a folder of this process's own.
    pub(crate) fn remove(&self) {
        if self.own {
            let _ = fs::remove_dir_all(&self.root);
        }
    }
}

/// Makes a link; another program that shares the folder may have made it already.
fn link(at: &Path, target: &Path) -> io::Result<()> {
    match symlink(target, at) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}
