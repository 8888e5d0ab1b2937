//! `outboard weights`: constants and declarations, in modules and loose.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use outboard_tensor::Tensor;
use serde_json::json;
use std::io::Read;
use std::path::Path;
use support::{code, json as report, module, outboard, stderr, stdout};

/// float32[2] = {1, -2}, then the shape (1, 1000): the golden file of docs/reference/c7x-runtime.md.
fn golden() -> Vec<u8> {
    let mut file = 2u64.to_le_bytes().to_vec();
    file.extend(70i32.to_le_bytes());
    file.extend(0xDD5E_40F0_96B4_A13F_u64.to_le_bytes());
    file.extend(0u64.to_le_bytes());
    file.extend([1i32, 0, 1].iter().flat_map(|word| word.to_le_bytes()));
    file.extend([2u8, 32, 1, 0]);
    file.extend([2i64, 8].iter().flat_map(|word| word.to_le_bytes()));
    file.extend([1f32, -2.0].iter().flat_map(|value| value.to_le_bytes()));
    file.extend(69i32.to_le_bytes());
    file.extend(2u64.to_le_bytes());
    file.extend([1i64, 1000].iter().flat_map(|dim| dim.to_le_bytes()));
    assert_eq!(file.len(), 96);
    file
}

/// An array of an `.npz` file.
fn array(npz: &Path, name: &str) -> Tensor {
    let mut archive = zip::ZipArchive::new(std::fs::File::open(npz).unwrap()).unwrap();
    let mut bytes = Vec::new();
    archive.by_name(name).unwrap().read_to_end(&mut bytes).unwrap();
    Tensor::from_npy(&bytes).unwrap()
}

#[test]
fn loose_constants_are_listed_and_become_arrays() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("weights.bin"), golden()).unwrap();
    let listed = outboard(folder.path(), &["weights", "weights.bin"]);
    assert_eq!(code(&listed), 0, "{}", stderr(&listed));
    let page = stdout(&listed);
    assert!(page.starts_with("weights.bin: 2 constants in 96 bytes (weights.bin), 8 of them tensor data\n"), "{page}");
    assert!(page.contains("tensor  float32[2]") && page.contains("shape   [1, 1000]"), "{page}");
    assert!(page.contains("1 tensor(s) do not start at a multiple of 64"), "{page}");

    let ran = outboard(folder.path(), &["weights", "weights.bin", "--npz", "weights.npz", "--json"]);
    let found = report(&ran);
    assert_eq!(
        found["constants"],
        json!([
            {"index": 0, "kind": "tensor", "dtype": "float32", "shape": [2], "bytes": 8, "offset": 60, "aligned": false},
            {"index": 1, "kind": "shape", "value": [1, 1000]},
        ])
    );
    let npz = folder.path().join("weights.npz");
    assert_eq!(array(&npz, "c0.npy").values::<f32>(), Some(vec![1.0, -2.0]));
    assert_eq!(array(&npz, "c1.npy").values::<i64>(), Some(vec![1, 1000]));
    let first = std::fs::read(&npz).unwrap();
    outboard(folder.path(), &["weights", "weights.bin", "--npz", "weights.npz"]);
    assert_eq!(std::fs::read(&npz).unwrap(), first, "the same constants make the same bytes");
}

#[test]
fn every_truncation_is_refused_with_the_constant_and_the_byte() {
    let folder = tempfile::tempdir().unwrap();
    for len in [0, 7, 11, 40, 59, 67, 95] {
        std::fs::write(folder.path().join("weights.bin"), &golden()[..len]).unwrap();
        let ran = outboard(folder.path(), &["weights", "weights.bin", "--npz", "weights.npz", "--json"]);
        assert_eq!((code(&ran), &report(&ran)["name"]), (3, &json!("OB0509")), "{len}");
        assert!(stderr(&ran).contains("more bytes needed"), "{len}: {}", stderr(&ran));
        assert!(!folder.path().join("weights.npz").exists(), "{len}");
    }
}

#[test]
fn a_module_shows_the_constants_it_carries_and_what_it_declares() {
    let folder = tempfile::tempdir().unwrap();
    let offline = module("offline/lib0.c");
    let ran = outboard(folder.path(), &["weights", offline.to_str().unwrap(), "--json"]);
    assert_eq!(code(&ran), 0, "{}", stderr(&ran));
    let found = report(&ran);
    assert_eq!(found["record"], "module");
    let tensors: Vec<_> =
        found["constants"].as_array().unwrap().iter().filter(|constant| constant["kind"] == "tensor").collect();
    assert!(!tensors.is_empty());
    assert!(tensors.iter().all(|tensor| tensor["aligned"] == true), "{found}");
    assert_eq!(found["io_meta"]["inputs"], 1);
    assert_eq!(found["io_meta"]["exact"], true);
    let page = stdout(&outboard(folder.path(), &["weights", offline.to_str().unwrap()]));
    assert!(page.contains("io_meta: 1 input(s) in "), "{page}");

    // A module without a model.
    let echo = module("echo.c");
    let ran = outboard(folder.path(), &["weights", echo.to_str().unwrap(), "--npz", "none.npz", "--json"]);
    assert_eq!((code(&ran), &report(&ran)["name"]), (1, &json!("OB0501")));
    assert!(!folder.path().join("none.npz").exists());
}

#[test]
fn a_loose_declaration_is_read_and_a_broken_one_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut file = Vec::new();
    file.extend([0x4D4F_4954_u32, 1, 1, 2].iter().flat_map(|word| word.to_le_bytes()));
    file.extend([192u64, 384].iter().flat_map(|word| word.to_le_bytes()));
    file.extend([1u32, 0].iter().flat_map(|word| word.to_le_bytes()));
    let path = folder.path().join("io.bin");
    std::fs::write(&path, &file).unwrap();
    let ran = outboard(folder.path(), &["weights", "io.bin"]);
    assert_eq!(stdout(&ran), "io_meta: 1 input(s) in 192 bytes, 2 output(s) in 384 bytes, exact\n");
    std::fs::write(&path, &file[..39]).unwrap();
    assert_eq!(code(&outboard(folder.path(), &["weights", "io.bin"])), 3);
    file[4] = 2;
    std::fs::write(&path, &file).unwrap();
    let ran = outboard(folder.path(), &["weights", "io.bin"]);
    assert!(stderr(&ran).contains("version 2"), "{}", stderr(&ran));
}

/// The offline module with some of its bytes changed: the change gets the place behind `marker`.
fn changed(folder: &Path, marker: &[u8], change: impl FnOnce(&mut [u8])) {
    let mut file = std::fs::read(module("offline/lib0.c")).unwrap();
    let places: Vec<usize> =
        file.windows(marker.len()).enumerate().filter(|(_, w)| *w == marker).map(|(i, _)| i).collect();
    change(&mut file[*places.last().unwrap()..]);
    std::fs::write(folder.join("lib0.out"), file).unwrap();
}

#[test]
fn check_judges_the_model_in_a_module() {
    let folder = tempfile::tempdir().unwrap();
    let judged = || {
        let ran = outboard(folder.path(), &["check", "lib0.out", "--json"]);
        let codes = report(&ran)["findings"].as_array().unwrap().iter().map(|f| f["code"].clone()).collect::<Vec<_>>();
        (code(&ran), codes)
    };
    changed(folder.path(), b"TIOM", |_| {});
    let (status, codes) = judged();
    assert_eq!(status, 0);
    assert!(!codes.iter().any(|code| [json!("OB0223"), json!("OB0224"), json!("OB0225")].contains(code)), "{codes:?}");
    // The declared bytes of the outputs: one block less than they need.
    changed(folder.path(), b"TIOM", |record| {
        let needed = u64::from_le_bytes(*record[24..].first_chunk().unwrap());
        record[24..32].copy_from_slice(&(needed - 64).to_le_bytes());
    });
    let (status, codes) = judged();
    assert_eq!((status, codes.contains(&json!("OB0223"))), (3, true), "{codes:?}");
    // A constant without its magic.
    changed(folder.path(), &0xDD5E_40F0_96B4_A13F_u64.to_le_bytes(), |tensor| tensor[0] ^= 1);
    let (status, codes) = judged();
    assert_eq!((status, codes.contains(&json!("OB0224"))), (3, true), "{codes:?}");
}
