//! Every recorded C7x module: the bytes of every segment after loading, the addresses of its symbols, or the kind of error.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use outboard_link::ExportTable;
use outboard_link::prelink::{ErrorReport, PrelinkRequest, prelink_c7x};
use outboard_link::target::{Region, Target};
use serde_json::Value;

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data")
}

fn hex(value: &Value) -> u64 {
    u64::from_str_radix(value.as_str().unwrap().trim_start_matches("0x"), 16).unwrap()
}

fn firmware() -> ExportTable {
    let text = std::fs::read_to_string(data().join("c7x-exports.json")).unwrap();
    let json: Value = serde_json::from_str(&text).unwrap();
    json["symbols"]
        .as_array()
        .unwrap()
        .iter()
        .map(|pair| (pair[0].as_str().unwrap().to_owned(), hex(&pair[1])))
        .collect()
}

struct Module {
    name: String,
    file: Vec<u8>,
    golden: Value,
}

fn modules() -> Vec<Module> {
    let mut names: Vec<String> = std::fs::read_dir(data().join("c7x"))
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().to_str().unwrap().strip_suffix(".json").map(String::from))
        .collect();
    names.sort();
    assert_eq!(names.len(), 53);
    if cfg!(miri) {
        // An interpreter takes a sample.
        names.retain(|name| {
            ["v01_min", "v20_none_type", "q10_segment_at_eof", "e02_trunc_rela"].contains(&name.as_str())
        });
    }
    names
        .into_iter()
        .map(|name| {
            let path = |extension: &str| data().join("c7x").join(format!("{name}.{extension}"));
            let golden = serde_json::from_str(&std::fs::read_to_string(path("json")).unwrap()).unwrap();
            Module { file: std::fs::read(path("out")).unwrap(), golden, name }
        })
        .collect()
}

/// Modules recorded at bases of their own; all others follow the rule (header order, steps of 128 bytes).
const SCATTERED: [&str; 2] = ["v16_alt_bases", "q02_end_and_abs_symbols"];

#[test]
fn all_53_recorded_modules_load_to_the_recorded_bytes_or_fail_with_the_recorded_kind() {
    let firmware = firmware();
    assert_eq!(firmware.len(), 119);
    let none = ExportTable::new();
    let board = Target::am67a();
    let (mut loaded, mut refused) = (0, 0);
    for module in modules() {
        let Module { name, file, golden } = &module;
        let load = &golden["load"];
        let segments = load["segments"].as_array().unwrap();
        let bases: Vec<(usize, u64)> = segments
            .iter()
            .enumerate()
            .filter(|(_, segment)| segment["in_place"] == false && SCATTERED.contains(&name.as_str()))
            .map(|(index, segment)| (index, hex(&segment["base"])))
            .collect();
        let request = PrelinkRequest {
            pool: Region { address: hex(&load["pool"]), ..board.pool("MAIN") },
            staging: Region { address: hex(&load["staging"]), ..board.staging },
            bases: &bases,
            ..PrelinkRequest::new(file, name, if load["exports"].is_null() { &none } else { &firmware }, &board)
        };
        let expect = &golden["expect"];
        match prelink_c7x(&request) {
            Err(error) => {
                let report = ErrorReport::from(&error);
                assert_eq!(expect["error"], report.error, "{name}: {}", report.message);
                refused += 1;
            }
            Ok(prelinked) => {
                assert_eq!(expect["result"], "ok", "{name}");
                check_result(name, golden, &prelinked);
                loaded += 1;
            }
        }
    }
    assert_eq!((loaded, refused), if cfg!(miri) { (3, 1) } else { (23, 30) });
}

fn check_result(name: &str, golden: &Value, prelinked: &outboard_link::prelink::Prelinked<'_>) {
    let report = &prelinked.report;
    let Some(result) = golden.get("result") else { panic!("{name}: nothing recorded") };
    for expected in result["segments"].as_array().unwrap() {
        let index = usize::try_from(expected["index"].as_u64().unwrap()).unwrap();
        let segment = &report.segments[index];
        assert_eq!((segment.index, segment.base), (index, hex(&expected["base"])), "{name}");
        // v10 records its third segment, the tables, only in the result.
        let planned = golden["load"]["segments"].get(index).map_or(&Value::Bool(true), |planned| &planned["in_place"]);
        assert_eq!(segment.in_place, *planned, "{name}");
        assert_eq!(expected["memsz"], segment.memsz, "{name}");
        assert_eq!(expected["sha256"], segment.sha256, "{name}, segment {index}");
        if let Some(bytes) = expected.get("hex").and_then(Value::as_str) {
            let mut found = prelinked.segment(index).unwrap().to_vec();
            found.resize(usize::try_from(segment.memsz).unwrap(), 0);
            let found: String = found.iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(found, bytes, "{name}, segment {index}");
        }
    }
    let exports: BTreeMap<String, u64> =
        result["exports"].as_object().unwrap().iter().map(|(name, address)| (name.clone(), hex(address))).collect();
    assert_eq!(report.exports, exports, "{name}");
    if let Some(entry) = result.get("entry") {
        assert_eq!(report.entry, hex(entry), "{name}");
    }
    let total: u64 = report.relocations.values().sum();
    assert_eq!(golden["relocations"]["total"], total, "{name}");
    for (kind, count) in golden["relocations"]["by_type"].as_object().unwrap() {
        assert_eq!(report.relocations.get(kind.as_str()), count.as_u64().as_ref(), "{name}: {kind}");
    }
}
