//! The program as a whole: help that teaches, pages of error codes whose examples run, devices, completions.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::path::Path;
use support::{code, json, module, outboard, stderr, stdout};

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn help_is_a_result_and_every_command_shows_examples() {
    let help = outboard(here(), &["--help"]);
    assert_eq!((code(&help), stderr(&help)), (0, String::new()));
    let text = stdout(&help);
    assert!(text.contains("Usage: outboard <COMMAND>"), "{text}");
    assert!(
        text.contains("Exit codes:\n  0 ok, 1 wrong request, 2 device failed, 3 file judged bad, 4 deadline passed"),
        "{text}"
    );
    let commands = text.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let commands = commands.filter(|line| !line.starts_with("   "));
    let commands: Vec<&str> =
        commands.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help").collect();
    assert!(commands.contains(&"run") && !text.contains("worker"), "{commands:?}");
    for command in commands {
        let help = stdout(&outboard(here(), &[command, "--help"]));
        let mut shown = help.lines().filter(|line| !line.starts_with("Usage: "));
        let example = format!("  outboard {command}");
        assert!(shown.any(|line| line.starts_with(&example)), "{command} --help has no example: {help}");
    }
}

#[test]
fn an_unknown_command_or_option_is_a_wrong_request() {
    for args in [&["fly"][..], &["run", "--no-such-option"], &[]] {
        let wrong = outboard(here(), args);
        assert_eq!((code(&wrong), stdout(&wrong)), (1, String::new()), "{args:?}");
        assert!(stderr(&wrong).contains("Usage: outboard"), "{args:?}");
    }
    assert!(stdout(&outboard(here(), &["--version"])).starts_with("outboard 0."));
}

#[test]
fn explain_prints_the_page_of_a_code_and_lists_all_without_one() {
    let page = outboard(here(), &["explain", "ob0302"]);
    assert!(stdout(&page).starts_with("# OB0302: deadline passed\n"));
    let list = stdout(&outboard(here(), &["explain"]));
    assert!(list.lines().any(|line| line == "OB0301: device lost"), "{list}");
    let unknown = outboard(here(), &["explain", "OB9999"]);
    assert_eq!((code(&unknown), stdout(&unknown)), (1, String::new()));
}

/// Weights of two constants, float32[3] and a shape of two dimensions that ends in the middle of the second.
fn cut_weights() -> Vec<u8> {
    let mut file = 2u64.to_le_bytes().to_vec();
    file.extend(70i32.to_le_bytes());
    file.extend(0xDD5E_40F0_96B4_A13Fu64.to_le_bytes());
    file.extend(0u64.to_le_bytes());
    file.extend([1i32, 0, 1].map(i32::to_le_bytes).concat());
    file.extend([2, 32, 1, 0]);
    file.extend([3i64, 12].map(i64::to_le_bytes).concat());
    file.extend([0; 12]);
    file.extend(69i32.to_le_bytes());
    file.extend(2u64.to_le_bytes());
    file.extend([0; 12]);
    file
}

/// Files that the examples of the pages mention.
fn fixtures(folder: &Path) {
    for source in ["handwritten/d4.c", "faults/null_dereference.c", "faults/infinite_loop.c", "faults/missing_symbol.c"]
    {
        let module = module(source);
        std::fs::copy(&module, folder.join(module.file_name().unwrap())).unwrap();
    }
    let (x, ..) = support::d4();
    let npy = x.view().to_npy().unwrap();
    std::fs::write(folder.join("broken.npy"), &npy[..64]).unwrap();
    std::fs::write(folder.join("x.npy"), npy).unwrap();
    std::fs::write(folder.join("x.bin"), x.bytes()).unwrap();
    std::fs::write(folder.join("empty.out"), "").unwrap();
    std::fs::write(folder.join("weights.bin"), cut_weights()).unwrap();
}

#[test]
fn p26_the_examples_of_the_pages_run_and_end_as_they_say() {
    let folder = tempfile::tempdir().unwrap();
    fixtures(folder.path());
    // Somebody listens at the socket of a page.
    let _listener = std::os::unix::net::UnixListener::bind(folder.path().join("dsp.socket")).unwrap();
    let pages = here().join("../../docs/reference/codes");
    let mut ran = 0;
    for page in std::fs::read_dir(pages).unwrap() {
        let page = page.unwrap().path();
        let own = page.file_stem().unwrap().to_str().unwrap() >= "OB0300";
        let text = std::fs::read_to_string(&page).unwrap();
        for block in text.split("```console\n").skip(1).filter(|_| own) {
            let block = block.split("```").next().unwrap();
            for example in block.split("$ outboard ").skip(1) {
                let (command, expected) = example.split_once('\n').unwrap();
                let output = outboard(folder.path(), &command.split_whitespace().collect::<Vec<_>>());
                let shown = stdout(&output) + &stderr(&output);
                assert!(shown.contains(expected.trim_end()), "{}: $ outboard {command}\n{shown}", page.display());
                ran += 1;
            }
        }
    }
    assert!(ran >= 14, "{ran} examples ran");
}

#[test]
fn the_simulated_device_is_always_listed() {
    let devices = json(&outboard(here(), &["devices", "--json", "--sysfs", "/nowhere"]));
    assert_eq!(devices["devices"].as_array().unwrap().len(), 1);
    assert_eq!(devices["devices"][0]["name"], "sim");
    let table = stdout(&outboard(here(), &["devices", "--sysfs", "/nowhere"]));
    assert_eq!(table.lines().count(), 2);
}

#[test]
fn a_dsp_of_a_board_is_found_by_its_device_tree_name_and_others_are_not() {
    let sysfs = tempfile::tempdir().unwrap();
    let node = |class: &str, entry: &str, target: &str| {
        let device = sysfs.path().join("devices").join(target);
        std::fs::create_dir_all(&device).unwrap();
        let folder = sysfs.path().join("class").join(class).join(entry);
        std::fs::create_dir_all(&folder).unwrap();
        std::os::unix::fs::symlink(device, folder.join("device")).unwrap();
        folder
    };
    node("remoteproc", "remoteproc0", "platform/bus/79000000.r5f");
    let dsp = node("remoteproc", "remoteproc2", "platform/bus/7e000000.dsp");
    std::fs::write(dsp.join("state"), "running\n").unwrap();
    node("rpmsg", "rpmsg_ctrl0", "platform/bus/79000000.r5f/virtio0");
    node("rpmsg", "rpmsg_ctrl1", "platform/bus/7e000000.dsp/virtio1/rpmsg");
    let root = sysfs.path().to_str().unwrap();
    let devices = json(&outboard(here(), &["devices", "--json", "--sysfs", root]));
    let expected = serde_json::json!({
        "name": "rpmsg:7e000000.dsp", "kind": "c7x", "transport": "rpmsg", "state": "running",
        "remoteproc": "remoteproc2", "control": "/dev/rpmsg_ctrl1",
    });
    assert_eq!(devices["devices"].as_array().unwrap()[1..], [expected]);
}

#[test]
fn completions_are_scripts_of_the_shell() {
    let bash = stdout(&outboard(here(), &["completions", "bash"]));
    assert!(bash.contains("complete -F _outboard"), "{bash}");
    assert_eq!(code(&outboard(here(), &["completions", "abacus"])), 1);
}

#[test]
fn a_worker_without_a_session_says_what_it_is_for() {
    let worker = outboard(here(), &["device", "worker"]);
    assert_eq!(code(&worker), 2);
    assert!(stderr(&worker).contains("error[OB0505]: "), "{}", stderr(&worker));
}
