//! Discovery and refusals, against folders that look like a board's.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::endpoint::highest_node;
use super::{RpmsgError, RpmsgOptions, rpmsg};
use crate::{Error, Transport, Wait};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A folder that is removed with its test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("outboard-rpmsg-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn options(&self) -> RpmsgOptions {
        RpmsgOptions { dev: self.0.join("dev"), sys: self.0.join("sys"), ..RpmsgOptions::default() }
    }

    /// A remote processor whose device is called this.
    fn processor(&self, index: u32, device: &str, state: &str) {
        let folder = self.0.join(format!("sys/class/remoteproc/remoteproc{index}"));
        fs::create_dir_all(&folder).unwrap();
        symlink(format!("../../../{device}"), folder.join("device")).unwrap();
        fs::write(folder.join("state"), format!("{state}\n")).unwrap();
    }

    /// A control device that belongs to a device called this.
    fn control(&self, index: u32, device: &str) {
        let (folder, target) =
            (self.0.join(format!("sys/class/rpmsg/rpmsg_ctrl{index}")), self.0.join("sys").join(device));
        fs::create_dir_all(&folder).unwrap();
        fs::create_dir_all(target.join("virtio0")).unwrap();
        symlink(target.join("virtio0"), folder.join("device")).unwrap();
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn start(options: RpmsgOptions, limit: Duration) -> Error {
    let mut transport = rpmsg(options).unwrap();
    transport.start(&Wait::start("the service", limit)).unwrap_err()
}

#[test]
fn a_device_is_found_by_its_name_whatever_its_number_and_never_by_a_part_of_it() {
    let board = Folder::new("name");
    board.processor(0, "79000000.r5f", "running");
    board.processor(3, "7e000000.dsp", "running");
    board.control(0, "79000000.r5f");
    board.control(4, "7e000000.dsp");
    let options = board.options();
    assert_eq!(options.processor().unwrap().name, "remoteproc3");
    assert_eq!(options.controls(), [board.0.join("dev/rpmsg_ctrl4")]);
    let part = RpmsgOptions { address: "7e000000".to_owned(), ..options };
    let Err(RpmsgError::NoDevice { others, .. }) = part.processor() else { panic!("a part of a name is no name") };
    assert_eq!(others, ["79000000.r5f", "7e000000.dsp"]);
    assert!(part.controls().is_empty());
}

#[test]
fn a_board_without_the_device_is_refused_before_anything_is_opened() {
    let board = Folder::new("none");
    let refused = rpmsg(board.options()).map(drop).unwrap_err();
    assert_eq!((refused.code(), refused.kind()), ("OB0330", "no_device"));
    assert!(refused.to_string().contains("there is no other"), "{refused}");
}

#[test]
fn d17_a_processor_that_is_offline_is_an_error_at_once_and_one_that_is_silent_at_the_deadline() {
    let board = Folder::new("offline");
    board.processor(0, "7e000000.dsp", "offline");
    let begun = Instant::now();
    let offline = start(board.options(), Duration::from_secs(30));
    assert_eq!(offline.code(), "OB0339");
    assert!(begun.elapsed() < Duration::from_secs(10), "nothing is awaited");
    let silent = Folder::new("silent");
    silent.processor(0, "7e000000.dsp", "running");
    assert_eq!(start(silent.options(), Duration::from_millis(50)).code(), "OB0302");
}

#[test]
fn e1_an_announcement_that_comes_late_is_accepted() {
    let board = Folder::new("late");
    board.processor(0, "7e000000.dsp", "running");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(60));
            board.control(1, "7e000000.dsp");
        });
        // The control device has been found; the node it names is not there.
        let error = start(board.options(), Duration::from_secs(20));
        assert_eq!(error.code(), "OB0332");
        assert!(error.to_string().contains("rpmsg_ctrl1"), "{error}");
    });
}

#[test]
fn the_largest_node_is_found_by_powers_of_two_and_then_one_by_one() {
    let board = Folder::new("largest");
    let make = |numbers: &[u32]| {
        for number in numbers {
            fs::write(board.0.join(format!("rpmsg{number}")), "").unwrap();
        }
    };
    assert_eq!(highest_node(&board.0), None);
    make(&[0]);
    assert_eq!(highest_node(&board.0), Some(0));
    make(&[1, 2, 3]);
    assert_eq!(highest_node(&board.0), Some(3));
    make(&[64, 65, 66]);
    assert_eq!(highest_node(&board.0), Some(66));
    assert_eq!(highest_node(Path::new("/nowhere")), None);
}

#[test]
fn the_end_of_the_log_is_read_without_its_padding() {
    let board = Folder::new("log");
    board.processor(2, "7e000000.dsp", "running");
    let folder = board.0.join("sys/kernel/debug/remoteproc/remoteproc2");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("trace0"), b"one\ntwo\n\0\0\0\0").unwrap();
    assert_eq!(board.options().trace(1000), "one\ntwo\n");
    assert_eq!(board.options().trace(4), "two\n");
    assert_eq!(Folder::new("nolog").options().trace(4), "");
}

#[test]
fn the_address_of_the_carveout_is_a_number_of_either_base_or_refused() {
    assert_eq!(RpmsgOptions::parse_carveout("0x8A0000000"), Ok(0x8_A000_0000));
    assert_eq!(RpmsgOptions::parse_carveout("38654705664"), Ok(0x9_0000_0000));
    for wrong in ["8A0000000", "0x", "beagley-ai", "-1", "0x900000001"] {
        assert!(RpmsgOptions::parse_carveout(wrong).unwrap_err().contains(wrong), "{wrong}");
    }
}
