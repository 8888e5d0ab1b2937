//! GPSIMD files as programs see them: `inspect`, `carve`, `resident`, `prelink --target gpsimd` and `neff`, on twins.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use outboard_neff::metaneff::{MetaNeff, MetaTensor};
use outboard_neff::seq::{Instruction, ModifyPoolConfig};
use outboard_ucode::twins;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;
use support::{PROGRAM, code, json, outboard, stderr, stdout};
use tempfile::TempDir;

/// A folder with the twins that a test names.
fn folder(images: &[&str]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for name in images {
        std::fs::write(folder.path().join(format!("{name}.elf")), twins::image(name).unwrap()).unwrap();
    }
    folder
}

fn write(folder: &TempDir, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.path().join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, bytes).unwrap();
    path
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Where a golden file, typed from the tables of the reference, and a report disagree; `null` is a number that is ours.
fn disagreements(path: &str, golden: &Value, found: &Value, list: &mut Vec<String>) {
    match (golden, found) {
        (Value::Null, _) => {}
        (Value::String(text), Value::Null) if text == "$null" => {}
        (Value::Object(golden), Value::Array(found)) => {
            let first = golden.get("$starts_with").and_then(Value::as_array);
            for (index, golden) in first.into_iter().flatten().enumerate() {
                disagreements(&format!("{path}[{index}]"), golden, &found[index], list);
            }
            if golden["$length"] != found.len() {
                list.push(format!("{path}: {} entries", found.len()));
            }
        }
        (Value::Object(golden), Value::Object(found)) if golden.len() == found.len() => {
            for (key, golden) in golden {
                disagreements(&format!("{path}.{key}"), golden, &found[key], list);
            }
        }
        (Value::Array(golden), Value::Array(found)) if golden.len() == found.len() => {
            for (index, (golden, found)) in golden.iter().zip(found).enumerate() {
                disagreements(&format!("{path}[{index}]"), golden, found, list);
            }
        }
        _ if golden == found => {}
        _ => list.push(format!("{path}: {found}, expected {golden}")),
    }
}

#[test]
fn inspect_of_the_ground_truth_twin_prints_the_golden_json() {
    let folder = folder(&["cayman_0", "cayman_1"]);
    let golden: Value = serde_json::from_str(include_str!("../../ucode/tests/data/cayman_0.inspect.json")).unwrap();
    let against = |file: &str| {
        let ran = outboard(folder.path(), &["inspect", file, "--json"]);
        assert_eq!(code(&ran), 0, "{}", stderr(&ran));
        let page = json(&ran);
        assert_eq!((&page["status"], &page["file"]), (&json!("ok"), &json!(file)));
        let mut list = Vec::new();
        disagreements("inspection", &golden, &page["inspection"], &mut list);
        list
    };
    assert_eq!(against("cayman_0.elf"), Vec::<String>::new());
    assert!(against("cayman_1.elf").len() > 10, "another image has other numbers");
}

#[test]
fn inspect_decides_by_the_shape_of_the_file() {
    let folder = folder(&["cayman_0", "sunda_0"]);
    let at = folder.path();
    write(&folder, "builtin_cpu3.so", &twins::fixed_load_library(3).unwrap());
    let mut ucpl = vec!["prelink", "cayman_0.elf", "-o", "c0.ucpl"];
    assert_eq!(code(&outboard(at, &ucpl)), 0);
    ucpl.clear();
    write(&folder, "add.s", b".text\n.global f\nf:\n entry a1, 32\n retw\n");
    assert_eq!(code(&outboard(at, &["asm", "add.s", "-o", "add.o"])), 0);
    let object = std::fs::read(at.join("add.o")).unwrap();
    let archive = [b"!<arch>\n".to_vec(), archive_member("add.o/", &object)].concat();
    write(&folder, "lib.a", &archive);
    let stream = Instruction::ModifyPoolConfig(ModifyPoolConfig::load(0x40_1234_5000, 3, 0x73cc)).encode();
    write(&folder, "pool.bin", &stream);
    write(&folder, "ucode_lib.json", MANIFEST.as_bytes());
    let tensor = MetaTensor { name: "input0".to_owned(), shape: vec![1, 32], ..MetaTensor::default() };
    let message = MetaNeff { input_tensors: vec![tensor], ..MetaNeff::default() };
    write(&folder, "model.metaneff", &message.encode());
    model(&folder, "model");
    assert_eq!(code(&outboard(at, &["neff", "pack", "model", "-o", "model.neff"])), 0);
    let shapes = [
        ("cayman_0.elf", "pi", "PI image"),
        ("sunda_0.elf", "pi", "Kernel table"),
        ("builtin_cpu3.so", "fll", "Fixed-load library for core 3"),
        ("c0.ucpl", "ucpl", "start 0x1d610"),
        ("add.o", "object", "Relocatable object"),
        ("lib.a", "archive", "add.o"),
        ("pool.bin", "stream", "MODIFY_POOL_CONFIG"),
        ("ucode_lib.json", "ucode_lib", "0x85/0"),
        ("model/sg00/def.json", "definition", "output"),
        ("model.metaneff", "metaneff", "input0"),
        ("model.neff", "neff", "ucode_lib.json"),
    ];
    for (file, kind, text) in shapes {
        let ran = outboard(at, &["inspect", file, "--json"]);
        assert_eq!((code(&ran), &json(&ran)["inspection"]["kind"]), (0, &json!(kind)), "{file}: {}", stderr(&ran));
        let page = outboard(at, &["inspect", file]);
        assert!(stdout(&page).contains(text), "{file}: {}", stdout(&page));
    }
}

#[test]
fn a_stream_of_the_first_generation_is_read_with_its_shorter_events() {
    let folder = tempfile::tempdir().unwrap();
    let mut trigger = [0; 64];
    trigger[..2].copy_from_slice(&[0xc1, 0x10]);
    trigger[8..21].copy_from_slice(b"q_gradient_in");
    write(&folder, "stream", &trigger);
    let queue = |args: &[&str]| {
        let ran = outboard(folder.path(), &[&["inspect", "stream", "--json"], args].concat());
        assert_eq!(code(&ran), 0, "{}", stderr(&ran));
        let page = json(&ran);
        let fields = page["inspection"]["slots"][0]["fields"].as_array().unwrap().clone();
        fields.iter().find(|field| field[0] == "queue").map(|field| field[1].as_str().unwrap().to_owned())
    };
    assert_eq!(queue(&["--stream", "v1"]).as_deref(), Some("q_gradient_in"));
    assert_ne!(queue(&["--stream", "v2"]).as_deref(), Some("q_gradient_in"));
    assert_eq!(
        code(&outboard(folder.path(), &["inspect", "stream"])),
        3,
        "the name says nothing, and the bytes neither"
    );
}

#[test]
fn the_names_that_an_object_defines_and_needs_are_shown() {
    let folder = tempfile::tempdir().unwrap();
    write(&folder, "f.s", b".text\n.global f\n.type f, @function\nf: entry a1, 32\n call8 g\n retw\n.size f, 9\n");
    assert_eq!(code(&outboard(folder.path(), &["asm", "f.s", "-o", "f.o"])), 0);
    let shown = json(&outboard(folder.path(), &["inspect", "f.o", "--json"]));
    let symbols = shown["inspection"]["symbols"].as_array().unwrap();
    let find = |name: &str| symbols.iter().find(|symbol| symbol["name"] == name).unwrap();
    assert_eq!((&find("f")["defined"], &find("f")["size"]), (&json!(true), &json!(9)));
    assert_eq!(find("g")["defined"], json!(false));
    let page = stdout(&outboard(folder.path(), &["inspect", "f.o"]));
    assert!(page.contains("\n  g undefined\n"), "{page}");
}

/// One member of an archive.
fn archive_member(name: &str, data: &[u8]) -> Vec<u8> {
    let head = format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n", 0, 0, 0, 644, data.len());
    [head.as_bytes(), data, if data.len() % 2 == 1 { b"\n" } else { b"" }].concat()
}

#[test]
fn a_program_of_neither_shape_is_shown_as_an_elf_file_and_refused_by_the_prelinker() {
    let folder = folder(&["cayman_0"]);
    let mut image = twins::image("cayman_0").unwrap();
    // The data segment loses its write flag.
    image[0x34 + 32 + 24] = 5;
    write(&folder, "odd.elf", &image);
    let shown = outboard(folder.path(), &["inspect", "odd.elf", "--json"]);
    assert_eq!(code(&shown), 0);
    assert_eq!(json(&shown)["inspection"]["header"]["machine"]["value"], 94, "{}", stdout(&shown));
    for expectation in ["PI", "fixed"] {
        assert!(stderr(&shown).contains(expectation), "both expectations are named: {}", stderr(&shown));
    }
    let refused = outboard(folder.path(), &["prelink", "odd.elf", "--target", "gpsimd", "--json", "-o", "x.ucpl"]);
    assert_eq!(code(&refused), 3);
    let page = json(&refused);
    assert_eq!((&page["status"], &page["code"], &page["name"]), (&json!("error"), &json!(7), &json!("NOT_SPLITLOAD")));
    assert!(stderr(&refused).starts_with("error[OB0604]: odd.elf: NOT_SPLITLOAD (7): "), "{}", stderr(&refused));
    assert!(!folder.path().join("x.ucpl").exists(), "nothing is staged");
}

#[test]
fn prelink_prints_the_documented_json_and_writes_the_worked_image() {
    let folder = folder(&["cayman_0"]);
    let ran = outboard(
        folder.path(),
        &["prelink", "cayman_0.elf", "--target", "gpsimd", "--core-kind", "cayman", "-o", "c0.ucpl", "--json"],
    );
    assert_eq!(code(&ran), 0, "{}", stderr(&ran));
    let page = json(&ran);
    assert_eq!(
        (&page["status"], &page["code"], &page["name"], &page["staged_size"]),
        (&json!("ok"), &json!(0), &json!("XTLIB_NO_ERR"), &json!(0x73cc))
    );
    let fields = json!({"code_seg_len": 0x6f20, "data_seg_off": 0x6f40, "data_seg_len": 0x48c,
        "init": 0x1_8000, "fini": 0x1_ef10, "start_sym": 0x1_d610});
    assert_eq!(page["ucpl"], fields);
    let counts =
        json!({"R_XTENSA_NONE": 8, "R_XTENSA_RELATIVE": 30, "R_XTENSA_SLOT0_ALT": 101, "R_XTENSA_SLOT0_OP": 101});
    assert_eq!(page["relocations"], counts);
    let staged = std::fs::read(folder.path().join("c0.ucpl")).unwrap();
    assert_eq!(staged.len(), 0x73cc);
    let header = "55 43 50 4C 20 00 00 00 20 6F 00 00 40 6F 00 00 8C 04 00 00 00 80 01 00 10 EF 01 00 10 D6 01 00";
    let header: Vec<u8> = header.split(' ').map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect();
    assert_eq!(staged[..32], header);
    assert_eq!(page["sha256"], outboard_ucode::inspect::sha256(&staged));
    let again = outboard(folder.path(), &["prelink", "c0.ucpl", "--json"]);
    assert_eq!((code(&again), &json(&again)["name"]), (3, &json!("OUTBOARD_ALREADY_PRELINKED")));
    let text = outboard(folder.path(), &["prelink", "cayman_0.elf"]);
    assert!(stdout(&text).contains("start 0x1d610"), "the file says which device it is for: {}", stdout(&text));
}

#[test]
fn prelink_takes_options_of_the_device_only() {
    let folder = folder(&["cayman_1"]);
    let run = |args: &[&str]| outboard(folder.path(), &[&["prelink", "cayman_1.elf"], args].concat());
    for kind in ["mariana", "mariana-plus", "29", "0x25"] {
        assert_eq!(code(&run(&["--core-kind", kind])), 0, "{kind}");
    }
    let sunda = run(&["--core-kind", "sunda"]);
    assert!(code(&sunda) == 0 && stderr(&sunda).contains("registers libraries of this core as they are"));
    let unknown = run(&["--core-kind", "tonga"]);
    assert!(code(&unknown) == 1 && stderr(&unknown).contains("cayman (13)"), "{}", stderr(&unknown));
    let foreign = run(&["--pool", "0x1000"]);
    assert!(code(&foreign) == 1 && stderr(&foreign).contains("--pool means nothing for a GPSIMD image"));
    let foreign = run(&["--target", "c7x", "--compatible"]);
    assert!(code(&foreign) == 1 && stderr(&foreign).contains("--compatible means nothing for a C7x module"));
    assert_eq!(code(&run(&["--align", "0x2000"])), 0);
    assert_eq!(code(&run(&["--align", "sections", "--compatible"])), 0);
    let wrong = run(&["--align", "3"]);
    assert_eq!((code(&wrong), stdout(&wrong)), (3, String::new()), "{}", stderr(&wrong));
    write(&folder, "slots.toml", b"[[slot]]\nslot = 0\n");
    let slots = run(&["--flix", "slots.toml"]);
    assert!(code(&slots) == 1 && stderr(&slots).contains("slot 0: `format`"), "{}", stderr(&slots));
}

#[test]
fn carve_prints_the_grid_and_writes_the_images() {
    let folder = tempfile::tempdir().unwrap();
    write(&folder, "libhost.so", &twins::host_library());
    let ran = outboard(folder.path(), &["carve", "libhost.so", "-o", "images", "--json"]);
    assert_eq!(code(&ran), 0, "{}", stderr(&ran));
    let page = json(&ran);
    assert_eq!((page["images"].as_array().unwrap().len(), &page["unique"]), (16, &json!(12)));
    let generations: Vec<&str> =
        page["grid"].as_array().unwrap().iter().map(|row| row["generation"].as_str().unwrap()).collect();
    assert_eq!(generations, ["cayman", "mariana", "mariana_plus", "maverick"]);
    assert!(page["grid"].as_array().unwrap().iter().all(|row| row["libraries"].as_array().unwrap().len() == 4));
    assert_eq!(names(&folder.path().join("images")).len(), 16);
    let carved = std::fs::read(folder.path().join("images/maverick_q7_pool_perf_extisa_2.elf")).unwrap();
    assert_eq!(carved, twins::image("maverick_2").unwrap());
    let text = stdout(&outboard(folder.path(), &["carve", "libhost.so"]));
    assert!(text.contains("16 device images, 12 different") && text.contains("mariana_plus"), "{text}");
    write(&folder, "empty.bin", b"nothing here");
    assert_eq!(code(&outboard(folder.path(), &["carve", "empty.bin"])), 3);
}

#[test]
fn resident_picks_by_core_flavor_and_library_and_fails_with_the_originals_numbers() {
    let folder = tempfile::tempdir().unwrap();
    write(&folder, "libhost.so", &twins::host_library());
    let run = |args: &[&str], variables: &[(&str, &str)]| {
        let mut command = Command::new(PROGRAM);
        command.current_dir(folder.path()).args(["resident", "libhost.so"]).args(args);
        command.env_remove("NEURON_UCODE_FLAVOR").env_remove("NRT_UCODE_UNSTABLE_LIBRARY_FLAG_CPTC_DECODE");
        command.envs(variables.iter().copied()).output().unwrap()
    };
    let picked = run(&["--core-kind", "cayman", "-o", "c0.elf", "--json"], &[]);
    assert_eq!((code(&picked), &json(&picked)["library"]), (0, &json!(0)), "{}", stderr(&picked));
    assert_eq!(std::fs::read(folder.path().join("c0.elf")).unwrap(), twins::image("cayman_0").unwrap());
    let decoder = run(&["--core-kind", "21", "--json"], &[("NRT_UCODE_UNSTABLE_LIBRARY_FLAG_CPTC_DECODE", "1")]);
    assert_eq!((&json(&decoder)["library"], &json(&decoder)["offset"]), (&json!(3), &json!(0x59_5ae0)));
    let failing = |args: &[&str], variables: &[(&str, &str)], result: u64| {
        let ran = run(&[args, &["--json", "-o", "none.elf"]].concat(), variables);
        assert_eq!((code(&ran), &json(&ran)["result"]), (3, &json!(result)), "{args:?}: {}", stderr(&ran));
        assert!(stderr(&ran).starts_with("error[OB0620]: "), "{}", stderr(&ran));
    };
    failing(&["--core-kind", "cayman"], &[("NEURON_UCODE_FLAVOR", "DEBUG")], 2);
    failing(&["--core-kind", "cayman", "--flavor", "test", "--lib", "0"], &[], 2);
    failing(&["--core-kind", "sunda"], &[], 3);
    failing(&["--core-kind", "cayman", "--lib", "4"], &[], 100);
    assert!(!folder.path().join("none.elf").exists());
    let unknown = run(&["--core-kind", "12"], &[]);
    assert!(code(&unknown) == 1 && stderr(&unknown).contains("unknown core kind `12`"), "{}", stderr(&unknown));
}

const MANIFEST: &str = r#"{"ucode_lib":[{"library":"ops.so","ulib_to_ucode_version":"1.21.1.0","total_cpus":1,"cpu_id":0,
 "functions":[{"name":"relu","opcode":133,"sub_opcode":0}]}]}"#;

/// The files of a model with one custom operation.
fn model(folder: &TempDir, name: &str) {
    let put = |file: &str, bytes: &[u8]| write(folder, &format!("{name}/{file}"), bytes);
    put("kelf-a.json", br#"{"graphs":[{"definition":"sg00/def.json","name":"sg00"}],"version":"0.5","target":"v2"}"#);
    put("neff.json", b"{}");
    put(
        "sg00/def.json",
        br#"{"name":"g","var":{"x":{"var_id":0,"type":"input","size":4},"y":{"var_id":1,"type":"output","size":4}},
        "ucode_lib":"ucode_lib.json"}"#,
    );
    put("ucode_lib.json", MANIFEST.as_bytes());
    put("ops.so", &twins::fixed_load_library(0).unwrap());
}

#[test]
fn a_model_is_packed_listed_verified_and_unpacked_to_the_same_files() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    model(&folder, "model");
    for raw in [&[][..], &["--raw"]] {
        let pack = [&["neff", "pack", "model", "-o", "m.neff", "--name", "relu", "--json"][..], raw].concat();
        let packed = outboard(at, &pack);
        assert_eq!((code(&packed), &json(&packed)["members"]), (0, &json!(5)), "{}", stderr(&packed));
        let listed = json(&outboard(at, &["neff", "ls", "m.neff", "--json"]));
        let members: Vec<&str> =
            listed["members"].as_array().unwrap().iter().map(|member| member["name"].as_str().unwrap()).collect();
        assert_eq!(members, ["kelf-a.json", "neff.json", "ops.so", "sg00/def.json", "ucode_lib.json"]);
        let verified = outboard(at, &["neff", "verify", "m.neff", "--generation", "sunda", "--json"]);
        let page = json(&verified);
        assert_eq!((code(&verified), &page["name"], &page["target"]), (0, &json!("NRT_SUCCESS"), &json!("sunda")));
        let warnings = page["warnings"].to_string();
        assert!(!warnings.contains("custom_ops"), "the feature bit of custom operations is set: {warnings}");
        let shown = json(&outboard(at, &["inspect", "m.neff", "--json"]));
        assert_eq!(shown["inspection"]["features"], json!(["custom_ops"]));
    }
    let unpacked = outboard(at, &["neff", "unpack", "m.neff", "-o", "out"]);
    assert_eq!(code(&unpacked), 0, "{}", stderr(&unpacked));
    assert_eq!(stdout(&unpacked).lines().count(), 5);
    let same = |file: &str| {
        std::fs::read(at.join("out").join(file)).unwrap() == std::fs::read(at.join("model").join(file)).unwrap()
    };
    assert!(["kelf-a.json", "sg00/def.json", "ops.so"].iter().all(|file| same(file)));
    let again = outboard(at, &["neff", "unpack", "m.neff", "-o", "out"]);
    assert!(code(&again) == 1 && stderr(&again).contains("OB0503"), "nothing is overwritten: {}", stderr(&again));
}

#[test]
fn a_damaged_container_is_refused_with_the_originals_result() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    model(&folder, "model");
    assert_eq!(code(&outboard(at, &["neff", "pack", "model", "-o", "m.neff"])), 0);
    let good = std::fs::read(at.join("m.neff")).unwrap();
    let changed = |offset: usize, bytes: &[u8]| {
        let mut file = good.clone();
        file[offset..offset + bytes.len()].copy_from_slice(bytes);
        file
    };
    let cases = [
        ("short", good[..1000].to_vec(), 2, "OB0640"),
        ("version", changed(0x18, &[3]), 10, "OB0641"),
        ("packager", changed(0, &[3]), 10, "OB0641"),
        ("feature", changed(0x223, &[0x40]), 10, "OB0642"),
        ("hash", changed(0xac, &[0, 0, 0, 0]), 2, "OB0643"),
        ("payload", changed(0x410, &[0xff; 8]), 2, "OB0643"),
    ];
    for (name, file, result, page) in cases {
        write(&folder, "bad.neff", &file);
        let ran = outboard(at, &["neff", "verify", "bad.neff", "--json"]);
        assert_eq!((code(&ran), &json(&ran)["code"]), (3, &json!(result)), "{name}: {}", stdout(&ran));
        assert!(stderr(&ran).starts_with(&format!("error[{page}]: bad.neff: ")), "{name}: {}", stderr(&ran));
    }
    std::fs::remove_file(at.join("model/ops.so")).unwrap();
    assert_eq!(code(&outboard(at, &["neff", "pack", "model", "-o", "less.neff"])), 0);
    let missing = outboard(at, &["neff", "verify", "less.neff", "--json"]);
    assert_eq!((code(&missing), &json(&missing)["name"]), (3, &json!("OUTBOARD_MISSING_MEMBER")));
    let other = outboard(at, &["neff", "verify", "m.neff", "--generation", "cayman"]);
    assert!(code(&other) == 3 && stderr(&other).contains("for sunda, the device is cayman"), "{}", stderr(&other));
    let legacy = outboard(at, &["neff", "verify", "m.neff", "--generation", "cayman", "--allow-legacy"]);
    assert_eq!(code(&legacy), 0, "{}", stderr(&legacy));
    std::os::unix::fs::symlink("/etc/passwd", at.join("model/link")).unwrap();
    let link = outboard(at, &["neff", "pack", "model", "-o", "link.neff"]);
    assert!(code(&link) == 3 && stderr(&link).contains("is a link or a device"), "{}", stderr(&link));
    let none = outboard(at, &["neff", "pack", "nowhere", "-o", "x.neff"]);
    assert_eq!(code(&none), 1);
}

#[test]
fn f17_check_finds_each_limit_of_custom_operations_that_a_model_exceeds() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let judge = |file: &str, profile: &str| {
        let ran = outboard(at, &["check", file, "--profile", profile, "--json"]);
        let page = json(&ran);
        let messages: Vec<String> = page["findings"]
            .as_array()
            .unwrap()
            .iter()
            .map(|finding| format!("{} {}", finding["code"].as_str().unwrap(), finding["message"].as_str().unwrap()))
            .collect();
        assert_eq!(code(&ran), if messages.is_empty() { 0 } else { 3 }, "{}", stderr(&ran));
        messages
    };
    model(&folder, "model");
    assert_eq!(code(&outboard(at, &["neff", "pack", "model", "-o", "m.neff"])), 0);
    assert_eq!(judge("m.neff", "customop"), Vec::<String>::new());
    // The manifest is in order; the image that it names is a stand-in without functions.
    let found = judge("model/ucode_lib.json", "neuron-customop");
    assert!(found.len() == 1 && found[0].starts_with("OB0861 "), "{found:?}");
    let library = |name: &str, functions: usize| {
        let functions: Vec<String> =
            (0..functions).map(|id| format!(r#"{{"name":"f{id}","opcode":133,"sub_opcode":{id}}}"#)).collect();
        let functions = functions.join(",");
        format!(r#"{{"library":"{name}","ulib_to_ucode_version":"1.21.1.0","functions":[{functions}]}}"#)
    };
    let each = |text: String, expected: &str| {
        write(&folder, "ucode_lib.json", text.as_bytes());
        let found = judge("ucode_lib.json", "customop");
        assert!(found.len() == 1 && found[0].starts_with("OB0652 ") && found[0].contains(expected), "{found:?}");
    };
    each(format!("[{}]", library("a.so", 11)), "has 11 functions, at most 10");
    each(format!("[{},{}]", library("a.so", 1), library("b.so", 1)), "one custom-op library");
    each(format!("[{}]", library("libbuiltin.so", 1)), "reserved");
    let def = |shape: &str| {
        format!(r#"{{"name":"g","var":{{"y":{{"var_id":0,"type":"output","framework_shape":{shape}}}}}}}"#)
    };
    each(def("[1,1,1,1,1,1,1,1,1]"), "9 dimensions");
    each(def("[65536]"), "65535");
    let image = twins::image("cayman_1").unwrap();
    write(&folder, "image.elf", &image);
    assert_eq!(judge("image.elf", "gpsimd"), Vec::<String>::new());
    let mut broken = image;
    broken[0x34 + 20..0x34 + 24].copy_from_slice(&0x8001_u32.to_le_bytes());
    write(&folder, "image.elf", &broken);
    assert!(judge("image.elf", "gpsimd").iter().any(|finding| finding.starts_with("OB0607 ")));
    assert!(judge("m.neff", "gpsimd")[0].contains("--profile customop"));
    assert!(judge("image.elf", "customop")[0].starts_with("OB08"));
}

/// A kernel, its entry point and a word of zeroed memory that it counts in.
const KERNEL: &str = "
    .text
    .global _start
    .type _start, @function
_start: entry a1, 32
    movi a2, 0
    retw
    .global count
    .type count, @function
count: entry a1, 32
    const16 a3, hi(calls)
    const16 a3, lo(calls)
    l32i a2, a3, 0
    addi a2, a2, 1
    s32i a2, a3, 0
    retw
    .bss
    .align 4
calls: .space 4
";

#[test]
fn objects_become_a_pi_image_that_is_inspected_without_notes_and_prelinked() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    write(&folder, "k.s", KERNEL.as_bytes());
    assert_eq!(code(&outboard(at, &["asm", "k.s", "-o", "k.o"])), 0);
    write(&folder, "kernels.toml", b"[[kernel]]\nopcode = 0xf0\nspec = 2\nfunction = \"count\"\n");
    let link = ["link", "--shape", "pi", "k.o", "-o", "k.elf", "--kernels", "kernels.toml", "--map", "k.map", "--json"];
    let made = outboard(at, &link);
    let page = json(&made);
    assert_eq!((code(&made), &page["shape"], &page["kernels"]), (0, &json!("pi"), &json!(1)), "{}", stderr(&made));
    let counts = json!({"R_XTENSA_RELATIVE": 1, "R_XTENSA_SLOT0_ALT": 1, "R_XTENSA_SLOT0_OP": 1});
    assert_eq!(page["image_relocations"], counts);
    assert!(std::fs::read_to_string(at.join("k.map")).unwrap().contains("count"));
    let shown = json(&outboard(at, &["inspect", "k.elf", "--json"]));
    let found = &shown["inspection"];
    assert_eq!((&found["kind"], &found["notes"]), (&json!("pi"), &json!([])));
    assert_eq!(found["dynamic"].as_array().unwrap().len(), 15);
    assert_eq!(found["header"]["flags"], 0x300);
    let row = &found["kernel_table"]["rows"][0];
    assert_eq!((&row["opcode"], &row["extended"]), (&json!(0xf0), &json!("TENSOR_TENSOR_ARITH")));
    let names: Vec<&str> =
        found["kernels"].as_array().unwrap().iter().map(|kernel| kernel["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["_start", "count"]);
    let staged = json(&outboard(at, &["prelink", "k.elf", "--json", "-o", "k.ucpl"]));
    assert_eq!((&staged["status"], &staged["staged_size"]), (&json!("ok"), &page["staged_size"]));
}

#[test]
fn eight_fixed_load_libraries_are_linked_from_the_same_objects() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    write(&folder, "k.s", KERNEL.as_bytes());
    assert_eq!(code(&outboard(at, &["asm", "k.s", "-o", "k.o"])), 0);
    for cpu in ["0", "1", "7", "single"] {
        let made = outboard(at, &["link", "--shape", "fll", "--cpu", cpu, "k.o", "-o", "k.so", "--strip"]);
        assert_eq!((code(&made), stdout(&made)), (0, String::new()), "{}", stderr(&made));
        let shown = json(&outboard(at, &["inspect", "k.so", "--json"]));
        let core = cpu.parse::<u64>().unwrap_or(0);
        assert_eq!((&shown["inspection"]["kind"], &shown["inspection"]["core"]), (&json!("fll"), &json!(core)));
        assert_eq!(shown["inspection"]["notes"], json!([]));
    }
}

#[test]
fn a_program_that_cannot_have_the_shape_is_refused_whole() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    write(&folder, "k.s", KERNEL.as_bytes());
    assert_eq!(code(&outboard(at, &["asm", "k.s", "-o", "k.o"])), 0);
    let run = |args: &[&str]| outboard(at, &[&["link", "k.o", "-o", "k.elf", "--json"], args].concat());
    write(&folder, "kernels.toml", b"[[kernel]]\nopcode = 0x7e\nspec = 2\nfunction = \"count\"\n");
    let refused = run(&["--shape", "pi", "--kernels", "kernels.toml"]);
    assert_eq!((code(&refused), &json(&refused)["name"]), (3, &json!("OB0660")), "{}", stderr(&refused));
    let undefined = run(&["--shape", "pi", "--entry", "main"]);
    assert_eq!((code(&undefined), &json(&undefined)["name"]), (3, &json!("OB0702")));
    for wrong in [
        &["--shape", "pi", "--cpu", "0"][..],
        &["--shape", "fll"],
        &["--shape", "fll", "--cpu", "8"],
        &["--shape", "fll", "--cpu", "0", "--init", "count"],
        &["--shape", "pi", "--core-kind", "tonga"],
        &["--shape", "pi", "-T", "layout.toml"],
        &["--strip"],
        &[],
    ] {
        assert_eq!(code(&run(wrong)), 1, "{wrong:?}");
    }
    assert!(!at.join("k.elf").exists());
}
