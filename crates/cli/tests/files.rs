//! `inspect`, `check`, `exports` and `prelink` as programs.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use support::{code, json, module, outboard, stderr, stdout};

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Recorded C7x modules, as the loader's tests have them.
fn recorded() -> PathBuf {
    here().join("../link/tests/data")
}

fn hex(value: &Value) -> u64 {
    u64::from_str_radix(value.as_str().unwrap().trim_start_matches("0x"), 16).unwrap()
}

#[test]
fn every_recorded_module_prelinks_to_its_recorded_bytes_or_ends_with_its_kind() {
    let exports = recorded().join("c7x-exports.json");
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("none.json"), "{}").unwrap();
    let (mut loaded, mut refused) = (0, 0);
    for entry in std::fs::read_dir(recorded().join("c7x")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let golden: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        let (load, name) = (&golden["load"], golden["name"].as_str().unwrap());
        let file = path.with_extension("out");
        let offered = if load["exports"].is_null() { "none.json" } else { exports.to_str().unwrap() };
        let mut args: Vec<String> =
            ["prelink", file.to_str().unwrap(), "--json", "--exports", offered].map(String::from).to_vec();
        args.extend([
            "--pool".into(),
            load["pool"].as_str().unwrap().into(),
            "--staging".into(),
            load["staging"].as_str().unwrap().into(),
        ]);
        // Two modules were recorded at bases of their own.
        if ["v16_alt_bases", "q02_end_and_abs_symbols"].contains(&name) {
            for (index, segment) in load["segments"]
                .as_array()
                .unwrap()
                .iter()
                .enumerate()
                .filter(|(_, segment)| segment["in_place"] == false)
            {
                args.extend(["--base".into(), format!("{index}={}", segment["base"].as_str().unwrap())]);
            }
        }
        let ran = outboard(folder.path(), &args.iter().map(String::as_str).collect::<Vec<_>>());
        let report = json(&ran);
        if golden["expect"]["result"] == "error" {
            assert_eq!((code(&ran), &report["error"]), (3, &golden["expect"]["error"]), "{name}: {}", stderr(&ran));
            assert!(report["name"].as_str().unwrap().starts_with("OB01"), "{name}");
            refused += 1;
            continue;
        }
        assert_eq!(code(&ran), 0, "{name}: {}", stderr(&ran));
        for expected in golden["result"]["segments"].as_array().unwrap() {
            let segment = &report["segments"][usize::try_from(expected["index"].as_u64().unwrap()).unwrap()];
            assert_eq!(segment["base"].as_u64().unwrap(), hex(&expected["base"]), "{name}");
            assert_eq!(segment["sha256"], expected["sha256"], "{name}");
        }
        for (symbol, address) in golden["result"]["exports"].as_object().unwrap() {
            assert_eq!(report["exports"][symbol].as_u64().unwrap(), hex(address), "{name}: {symbol}");
        }
        loaded += 1;
    }
    assert_eq!((loaded, refused), (23, 30));
}

#[test]
fn the_image_of_a_prelinked_module_holds_its_copied_segments() {
    let folder = tempfile::tempdir().unwrap();
    let file = recorded().join("c7x/v01_empty_text.out");
    let file = if file.exists() { file } else { first_good() };
    let ran = outboard(
        folder.path(),
        &[
            "prelink",
            file.to_str().unwrap(),
            "--json",
            "-o",
            "image.bin",
            "--exports",
            recorded().join("c7x-exports.json").to_str().unwrap(),
        ],
    );
    assert_eq!(code(&ran), 0, "{}", stderr(&ran));
    let report = json(&ran);
    let image = std::fs::read(folder.path().join("image.bin")).unwrap();
    let copied: Vec<&Value> =
        report["segments"].as_array().unwrap().iter().filter(|segment| segment["in_place"] == false).collect();
    let ends = copied.iter().map(|segment| segment["base"].as_u64().unwrap() + segment["memsz"].as_u64().unwrap());
    let start = copied.iter().map(|segment| segment["base"].as_u64().unwrap()).min().unwrap();
    assert_eq!(image.len() as u64, ends.max().unwrap() - start);
}

/// The first recorded module that loads.
fn first_good() -> PathBuf {
    let mut names: Vec<PathBuf> =
        std::fs::read_dir(recorded().join("c7x")).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    names
        .into_iter()
        .find(|path| path.file_name().unwrap().to_str().unwrap().starts_with('v') && path.extension().unwrap() == "out")
        .unwrap()
}

#[test]
fn a_file_that_cannot_be_prelinked_leaves_no_image() {
    let folder = tempfile::tempdir().unwrap();
    let d4 = module("handwritten/d4.c");
    let ran = outboard(folder.path(), &["prelink", d4.to_str().unwrap(), "-o", "image.bin"]);
    assert_eq!((code(&ran), stdout(&ran)), (3, String::new()));
    assert!(stderr(&ran).starts_with("error[OB0106]: "), "a module of this machine's CPU: {}", stderr(&ran));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    let missing = outboard(folder.path(), &["prelink", "none.out", "--json"]);
    assert_eq!((code(&missing), json(&missing)["error"].as_str().unwrap()), (1, "unreadable_file"));
    let wrong = outboard(folder.path(), &["prelink", d4.to_str().unwrap(), "--exports", "no-such-set"]);
    assert_eq!(code(&wrong), 1);
    assert!(stderr(&wrong).contains("the sets are: firmware-v2, seed, sim"), "{}", stderr(&wrong));
}

#[test]
fn inspect_shows_what_is_in_a_module_for_people_and_for_programs() {
    let d4 = module("handwritten/d4.c");
    let page = outboard(here(), &["inspect", d4.to_str().unwrap()]);
    assert_eq!((code(&page), stderr(&page)), (0, String::new()));
    for part in [
        "\nSegments\n",
        "\nDynamic tags\n",
        "\nImports (",
        "TVMDSPBuiltinMakeTuplePacked",
        "\nExports (",
        "cg_main_dsp ",
        "\nRelocations (",
        "DT_SONAME",
    ] {
        assert!(stdout(&page).contains(part), "{part}: {}", stdout(&page));
    }
    let found = json(&outboard(here(), &["inspect", d4.to_str().unwrap(), "--json"]));
    let exports = found["inspection"]["exports"]["symbols"].as_array().unwrap();
    assert!(exports.iter().any(|symbol| symbol["name"] == "cg_main_dsp" && symbol["kind"] == "function"));
    let offline = json(&outboard(here(), &["inspect", module("offline/lib0.c").to_str().unwrap(), "--json"]));
    assert!(offline["inspection"]["manifest"].as_str().unwrap().contains("\"image\""));
}

#[test]
fn inspect_refuses_what_is_no_elf_file_and_shows_what_it_can_of_a_damaged_one() {
    let folder = tempfile::tempdir().unwrap();
    let file = std::fs::read(module("handwritten/d4.c")).unwrap();
    std::fs::write(folder.path().join("text"), "hello").unwrap();
    std::fs::write(folder.path().join("half.out"), &file[..5000]).unwrap();
    let text = outboard(folder.path(), &["inspect", "text"]);
    assert_eq!((code(&text), stdout(&text)), (3, String::new()));
    assert!(stderr(&text).starts_with("error[OB01"), "{}", stderr(&text));
    let half = outboard(folder.path(), &["inspect", "half.out"]);
    assert!(code(&half) == 3 || stdout(&half).contains("\nWhat cannot be read\n"), "{}", stdout(&half));
}

#[test]
fn check_accepts_a_good_module_and_names_what_is_wrong_with_a_bad_one() {
    let good = outboard(here(), &["check", module("handwritten/d4.c").to_str().unwrap()]);
    assert_eq!(code(&good), 0, "{}", stdout(&good));
    assert!(stdout(&good).ends_with("d4.out: 0 error(s), 0 warning(s)\n"), "{}", stdout(&good));
    assert!(stdout(&good).contains("its imports are satisfied by: seed, sim\n"), "{}", stdout(&good));
    let bad = outboard(here(), &["check", module("faults/missing_symbol.c").to_str().unwrap(), "--json"]);
    assert_eq!(code(&bad), 3);
    let judged = json(&bad);
    assert_eq!((&judged["status"], &judged["errors"]), (&json!("error"), &json!(1)));
    let finding = &judged["findings"][0];
    assert_eq!((&finding["code"], &finding["severity"]), (&json!("OB0202"), &json!("error")));
    assert!(finding["message"].as_str().unwrap().contains("c7x_no_such_kernel, tvm_dsp_no_such_service"));
    // Against a set that lacks the simulated device's libm names, the same good module is bad.
    let other = outboard(here(), &["check", module("handwritten/d4.c").to_str().unwrap(), "--exports", "firmware-v2"]);
    assert_eq!(code(&other), 3);
    assert!(stdout(&other).contains("expf"), "{}", stdout(&other));
}

#[test]
fn exports_lists_the_device_compares_modules_and_writes_a_library_that_they_link_against() {
    let names = stdout(&outboard(here(), &["exports"]));
    assert!(names.lines().count() > 150 && names.lines().any(|line| line.starts_with("TVMBackendAllocWorkspace ")));
    let sim = json(&outboard(here(), &["exports", "--set", "sim", "--json"]));
    let device = json(&outboard(here(), &["exports", "--json"]));
    let sorted = |value: &Value| {
        value["exports"]
            .as_array()
            .unwrap()
            .iter()
            .map(|entry| entry["name"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(sorted(&sim), sorted(&device), "the set named sim is what the device exports");

    // What the device answers by message is its own table and the file of sets.
    let mut own: Vec<String> = outboard_c7x::sim::export_names().into_iter().map(str::to_owned).collect();
    own.sort_unstable();
    assert_eq!(sorted(&device), own);
    let compared =
        outboard(here(), &["exports", "--module", module("faults/missing_symbol.c").to_str().unwrap(), "--json"]);
    assert_eq!(code(&compared), 3);
    assert_eq!(json(&compared)["missing"], json!(["c7x_no_such_kernel", "tvm_dsp_no_such_service"]));
    assert_eq!(code(&outboard(here(), &["exports", "--module", module("handwritten/d4.c").to_str().unwrap()])), 0);

    let folder = tempfile::tempdir().unwrap();
    assert_eq!(code(&outboard(folder.path(), &["exports", "--stub", "liboutboard_device.so"])), 0);
    std::fs::write(folder.path().join("m.c"), "float expf(float); float entry(float x) { return expf(x); }").unwrap();
    let link = |extra: &[&str]| {
        let mut cc = std::process::Command::new("cc");
        cc.current_dir(folder.path())
            .args(["-shared", "-fPIC", "-nostdlib", "-Wl,-z,defs", "m.c", "-o", "m.out"])
            .args(extra);
        cc.output().unwrap().status.success()
    };
    assert!(!link(&[]), "without the library the symbol is undefined");
    assert!(link(&["liboutboard_device.so"]), "with it, it is found");
    let c7x =
        outboard(folder.path(), &["exports", "--set", "firmware-v2", "--stub", "dsp_syms.out", "--machine", "c7x"]);
    assert_eq!(code(&c7x), 0);
    assert_eq!(std::fs::read(folder.path().join("dsp_syms.out")).unwrap()[..4], *b"\x7fELF");
}
