//! Carving and the registry of resident images, on the twins of both host libraries.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;

use outboard_ucode::carve::{CarveReport, carve};
use outboard_ucode::resident::{Flavor, libraries_from_opcodes, library_count, resident};
use outboard_ucode::{cores, twins};

/// Name, file offset, size, offset of the manifest, entry point, getter of the sixteen images of the host library.
const HOST: [(&str, u64, u64, u64, u64, u64); 16] = [
    ("CAYMAN_Q7_POOL_PERF_EXTISA_0", 0x2e_f7e0, 0xa260, 0x2f_9a40, 0x100_5610, 0x9b_3aa0),
    ("CAYMAN_Q7_POOL_PERF_EXTISA_1", 0x2f_9a60, 0xf5c, 0x2f_a9c0, 0x100_0410, 0x9b_3ae0),
    ("CAYMAN_Q7_POOL_PERF_EXTISA_2", 0x2f_a9e0, 0x1500, 0x2f_bee0, 0x100_0828, 0x9b_3b20),
    ("CAYMAN_Q7_POOL_PERF_EXTISA_3", 0x2f_bf00, 0x6974, 0x30_2880, 0x100_3c74, 0x9b_3b60),
    ("MARIANA_Q7_POOL_PERF_EXTISA_0", 0x58_93c0, 0xa260, 0x59_3620, 0x100_5658, 0x9b_4720),
    ("MARIANA_Q7_POOL_PERF_EXTISA_1", 0x59_3640, 0xf5c, 0x59_45a0, 0x100_0410, 0x9b_4760),
    ("MARIANA_Q7_POOL_PERF_EXTISA_2", 0x59_45c0, 0x1500, 0x59_5ac0, 0x100_0828, 0x9b_47a0),
    ("MARIANA_Q7_POOL_PERF_EXTISA_3", 0x59_5ae0, 0x6974, 0x59_c460, 0x100_3c88, 0x9b_47e0),
    ("MARIANA_PLUS_Q7_POOL_PERF_EXTISA_0", 0x85_5240, 0xa260, 0x85_f4a0, 0x100_5658, 0x9b_53a0),
    ("MARIANA_PLUS_Q7_POOL_PERF_EXTISA_1", 0x85_f4c0, 0xf5c, 0x86_0420, 0x100_0410, 0x9b_53e0),
    ("MARIANA_PLUS_Q7_POOL_PERF_EXTISA_2", 0x86_0440, 0x1500, 0x86_1940, 0x100_0828, 0x9b_5420),
    ("MARIANA_PLUS_Q7_POOL_PERF_EXTISA_3", 0x86_1960, 0x6974, 0x86_82e0, 0x100_3c88, 0x9b_5460),
    ("MAVERICK_Q7_POOL_PERF_EXTISA_0", 0x99_4de0, 0x7fb0, 0x99_cd90, 0x594c, 0x9b_5ba0),
    ("MAVERICK_Q7_POOL_PERF_EXTISA_1", 0x99_cdb0, 0xc64, 0x99_da20, 0x39c, 0x9b_5be0),
    ("MAVERICK_Q7_POOL_PERF_EXTISA_2", 0x99_da40, 0x1280, 0x99_ecc0, 0x900, 0x9b_5c20),
    ("MAVERICK_Q7_POOL_PERF_EXTISA_3", 0x99_ece0, 0x55a0, 0x9a_4280, 0x3ccc, 0x9b_5c60),
];

fn hashes(report: &CarveReport) -> BTreeSet<String> {
    report.images.iter().map(|image| image.sha256.clone()).collect()
}

#[test]
fn the_host_library_yields_the_documented_grid_of_four_by_four() {
    let file = twins::host_library();
    assert_eq!(file.len(), 10_276_288);
    let report = carve(&file);
    for (image, (name, offset, size, json, entry, getter)) in report.images.iter().zip(HOST) {
        let manifest = image.json.as_ref().unwrap();
        assert_eq!(image.name.as_deref(), Some(name));
        assert_eq!(
            (image.offset, image.size, image.entry, image.getter),
            (offset, size, entry, Some(getter)),
            "{name}"
        );
        assert_eq!((manifest.offset, manifest.size, manifest.dummy), (json, 32, true), "{name}");
        assert_eq!(image.shape, "pi");
    }
    assert_eq!((report.images.len(), report.unique, report.rejected), (16, 12, 0));
    let same: Vec<_> = report.images.iter().map(|image| image.same_as).collect();
    assert_eq!(same[8..12], [Some(4), Some(5), Some(6), Some(7)]);
    let rows: Vec<_> = report.grid.iter().map(|row| (row.generation.as_str(), row.libraries.len())).collect();
    assert_eq!(rows, [("cayman", 4), ("mariana", 4), ("mariana_plus", 4), ("maverick", 4)]);
    assert!(report.to_string().contains("16 device images, 12 different"));
}

#[test]
fn both_libraries_together_hold_thirteen_different_images() {
    let (host, container) = (carve(&twins::host_library()), carve(&twins::container()));
    assert_eq!((container.images.len(), container.size), (13, 9_656_488));
    let all: BTreeSet<_> = hashes(&host).union(&hashes(&container)).cloned().collect();
    assert_eq!((host.images.len() + container.images.len(), all.len()), (29, 13));
    let sunda = container.images.last().unwrap();
    assert_eq!((sunda.offset, sunda.size), (0x92_1660, 0xd308));
    let json = sunda.json.as_ref().unwrap();
    assert_eq!((json.offset, json.size, json.dummy), (0x92_0fa0, 0x6c0, false));
}

#[test]
fn names_come_from_the_getters_code_when_the_symbols_of_the_bytes_are_gone() {
    let mut file = twins::host_library();
    for at in memchr::memmem::find_iter(&file.clone(), b"_get.data") {
        file[at..at + 9].copy_from_slice(b"_gone....");
    }
    let report = carve(&file);
    let names: Vec<_> = report.images.iter().map(|image| image.name.as_deref().unwrap()).collect();
    assert_eq!(names, HOST.map(|row| row.0));
    assert!(report.images.iter().all(|image| image.json.as_ref().unwrap().dummy));
}

#[test]
fn images_are_found_at_any_offset_of_any_blob_and_false_starts_are_counted() {
    let image = twins::image("cayman_2").unwrap();
    let mut blob = vec![0x7f; 13];
    blob.extend(b"\x7fELF\x01\x01\x01 and nothing else");
    blob.extend(&image);
    blob.extend(twins::STUB);
    blob.extend(&image);
    let report = carve(&blob);
    let start = 13 + 7 + 17;
    assert_eq!(report.images.iter().map(|image| image.offset).collect::<Vec<_>>(), [start, start + 0x1500 + 32]);
    assert_eq!((report.rejected, report.unique), (1, 1));
    assert_eq!(report.images[0].json.as_ref().unwrap().offset, start + 0x1500);
    assert_eq!((report.images[0].name.clone(), report.grid.len()), (None, 0));
    assert_eq!(report.files(&blob)[1].0, "image_0x1545.elf");
    let cut = &blob[..blob.len() - 1];
    assert_eq!(carve(cut).images.len(), 1, "an image that ends early is none");
}

#[test]
fn carved_files_carry_the_names_and_manifests_of_their_library() {
    let library = twins::container();
    let files = carve(&library).files(&library);
    let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names.len(), 14, "thirteen images and the one manifest that is no placeholder: {names:?}");
    let at = |name: &str| files.iter().find(|(file, _)| file == name).unwrap().1;
    assert_eq!(at("sunda_q7_pool_release_extisa_0.elf"), twins::image("sunda_0").unwrap());
    let manifest = at("sunda_q7_pool_release_extisa_0.json");
    assert_eq!((manifest.len(), &manifest[..11]), (0x6c0, &b"{\"library\":"[..]));
}

#[test]
fn a_name_that_leaves_the_directory_or_occurs_twice_becomes_an_offset() {
    let library = twins::container();
    let mut report = carve(&library);
    for (index, name) in ["../../x", "/etc/passwd", "a/b", "", "image_0x0", "A", "a", "tab\t"].iter().enumerate() {
        report.images[index].name = Some((*name).to_owned());
    }
    let files = report.files(&library);
    let names: BTreeSet<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names.len(), files.len(), "every name once");
    assert!(names.contains("a.elf"));
    assert!(names.iter().all(|name| !name.contains(['/', '\t']) && !name.starts_with('.')), "{names:?}");
    assert_eq!(names.iter().filter(|name| name.starts_with("image_0x")).count(), 7);
}

#[test]
fn each_core_kind_gets_its_own_image() {
    let file = twins::host_library();
    for core in cores::all().iter().filter(|core| core.prelinked) {
        assert_eq!(library_count(core.kind), Ok(4));
        for library in 0..4 {
            let image = resident(&file, core, Flavor::Perf, library).unwrap();
            let twin = twins::image(&format!("{}_{library}", core.name)).unwrap();
            assert_eq!(image.bytes, twin, "{} {library}", core.name);
            assert_eq!(image.json, Some(twins::STUB.as_slice()));
        }
    }
    let container = twins::container();
    let sunda = resident(&container, cores::find("sunda").unwrap(), Flavor::Perf, 0).unwrap();
    assert_eq!(sunda.bytes, twins::image("sunda_0").unwrap());
    assert!(sunda.json.unwrap().starts_with(br#"{"library":"all.stripped.so","ulib_to_ucode_version":"1.21.1.0""#));
    let cayman = resident(&container, cores::find("cayman").unwrap(), Flavor::Perf, 1).unwrap();
    assert_eq!(cayman.bytes, twins::image("cayman_1").unwrap(), "the container has no table for it: found by name");
}

#[test]
fn f1_an_absent_table_or_getter_is_a_result_code_of_the_registry_and_every_code_is_reached() {
    let file = twins::host_library();
    let cayman = cores::find("cayman").unwrap();
    let code = |file: &[u8], core: &cores::CoreKind, flavor, library| {
        resident(file, core, flavor, library).map(|_| ()).map_err(|e| e.code())
    };
    assert_eq!(library_count(6), Ok(1));
    assert_eq!(library_count(12).unwrap_err().code(), 1);
    let far = cores::CoreKind { kind: 38, ..cayman.clone() };
    assert_eq!(code(&file, &far, Flavor::Perf, 0), Err(1));
    assert_eq!(code(&file, cayman, Flavor::Debug, 0), Err(2));
    assert_eq!(code(&file, cayman, Flavor::Test, 0), Err(2));
    assert_eq!(code(&file, cores::find("sunda").unwrap(), Flavor::Perf, 0), Err(3));
    assert_eq!(code(&file, cayman, Flavor::Perf, 4), Err(100));
    assert_eq!(code(&twins::image("cayman_0").unwrap(), cayman, Flavor::Perf, 0), Err(102));
    let mut broken = file.clone();
    broken[0x2e_f7e0] = 0;
    assert_eq!(code(&broken, cayman, Flavor::Perf, 0), Err(101));
}

#[test]
fn flavor_and_libraries_are_chosen_as_the_original_does() {
    let flavors =
        ["debug", "DEBUG", "test", "TEST", "Debug", "perf", ""].map(|text| Flavor::from_variable(Some(text)).code());
    assert_eq!(flavors, [2, 2, 3, 3, 1, 1, 1]);
    assert_eq!(Flavor::from_variable(None), Flavor::Perf);
    let [sunda, cayman] = ["sunda", "cayman"].map(|name| cores::find(name).unwrap());
    assert_eq!(libraries_from_opcodes(cayman, &[], Flavor::Debug, true), Ok(vec![]));
    assert_eq!(libraries_from_opcodes(sunda, &[0x7e], Flavor::Debug, true), Ok(vec![0]));
    assert_eq!(libraries_from_opcodes(cayman, &[0xff], Flavor::Perf, false), Ok(vec![0]));
    assert_eq!(libraries_from_opcodes(cayman, &[0x7e], Flavor::Perf, true), Ok(vec![3]));
    assert!(libraries_from_opcodes(cayman, &[0x7e], Flavor::Debug, false).is_err());
}

#[test]
fn the_twins_are_written_as_files() {
    let directory = std::env::temp_dir().join(format!("outboard-twins-{}", std::process::id()));
    let files = twins::write(&directory).unwrap();
    assert_eq!(files.len(), 27);
    assert_eq!(std::fs::read(directory.join("cayman_0.elf")).unwrap(), twins::image("cayman_0").unwrap());
    std::fs::remove_dir_all(&directory).unwrap();
}
