//! Manifests: `ucode_lib.json`, `def.json`, metaneff, and a whole model from packing to verification.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use outboard_neff::metaneff::{DataType, MetaNeff, MetaTensor, TensorRole};
use outboard_neff::patch::Patch;
use outboard_neff::{
    DefVar, Definition, NeffPart, PackOptions, RuntimeVersion, UcodeReference, check_target, custom_op_findings,
    inspect, inspect_part, pack, parse_ucode_lib, verify,
};
use outboard_ucode::twins;
use proptest::prelude::*;

const ONE: &str = r#"{"library":"libop.so","ulib_to_ucode_version":"1.21.1.0","ulib_to_isa_version":"1.0.2520.0",
    "is_builtin":false,"cpu_id":0,"total_cpus":1,"functions":[{"name":"relu","opcode":133,"sub_opcode":0}]}"#;

fn runtime() -> RuntimeVersion {
    RuntimeVersion::default()
}

fn libraries(json: &str) -> Result<Vec<outboard_neff::UcodeLib>, String> {
    parse_ucode_lib("ucode_lib.json", json.as_bytes(), runtime()).map_err(|error| {
        assert_eq!((error.code(), error.name()), (2, "NRT_INVALID"));
        error.to_string()
    })
}

fn with(from: &str, to: &str) -> String {
    assert!(ONE.contains(from));
    format!("[{}]", ONE.replace(from, to))
}

#[test]
fn libraries_are_read_from_an_object_an_array_or_alone() {
    for json in [format!("{{\"ucode_lib\":[{ONE}]}}"), format!("[{ONE}]"), ONE.to_owned()] {
        let list = libraries(&json).unwrap();
        assert_eq!((list[0].library.as_str(), list[0].version.as_str(), list[0].flags), ("libop.so", "1.21.1.0", 0));
        assert_eq!(list[0].functions[0].sub_opcode, Some(0));
    }
    let manifest = twins::container()[0x92_0fa0..0x92_0fa0 + 0x6c0].to_vec();
    let list = parse_ucode_lib("sunda.json", &manifest, runtime()).unwrap();
    assert_eq!((list[0].functions.len(), list[0].functions[0].opcode), (17, 0xe7));
}

#[test]
fn both_spellings_of_the_version_are_read_and_its_first_number_must_match() {
    assert_eq!(libraries(&with("ulib_to_ucode_version", "version")).unwrap()[0].version, "1.21.1.0");
    assert!(
        libraries(&with("\"ulib_to_ucode_version\":\"1.21.1.0\",", ""))
            .unwrap_err()
            .contains("Missing GPSIMD lib version!")
    );
    for version in ["2.21.1.0", "x", ""] {
        let error = libraries(&with("1.21.1.0", version)).unwrap_err();
        assert!(error.contains("Mismatch between GPSIMD lib version and NRT version!"), "{error}");
    }
    let newer = RuntimeVersion { major: 2 };
    parse_ucode_lib("x", with("1.21.1.0", "2.0").as_bytes(), newer).unwrap();
}

#[test]
fn the_number_of_cores_is_0_1_or_8_and_the_core_is_one_of_them() {
    for total in 0..=9_u8 {
        let result = libraries(&with("\"total_cpus\":1", &format!("\"total_cpus\":{total}")));
        assert_eq!(result.is_ok(), [0, 1, 8].contains(&total), "{total}");
    }
    assert!(
        libraries(&with("\"total_cpus\":1", "\"total_cpus\":2"))
            .unwrap_err()
            .contains("invalid number of total cpus 2")
    );
    let of = |cpu: u8, total: u8| {
        libraries(&with("\"cpu_id\":0,\"total_cpus\":1", &format!("\"cpu_id\":{cpu},\"total_cpus\":{total}"))).is_ok()
    };
    assert!(of(7, 8) && !of(8, 8) && !of(1, 1) && !of(1, 0));
}

#[test]
fn opcodes_decide_the_flags() {
    let flags = |opcode: i32| {
        libraries(&with("\"is_builtin\"", &format!("\"opcode\":{opcode},\"is_builtin\""))).unwrap()[0].flags
    };
    assert_eq!([flags(0x85), flags(-123), flags(0xf0), flags(0)], [0, 0, 6, 6]);
}

#[test]
fn limits_of_the_manifest_are_the_documented_ones() {
    let function = |index: usize| format!(r#"{{"name":"f{index}","opcode":133,"sub_opcode":{}}}"#, index % 255);
    let many = |count: usize| (0..count).map(function).collect::<Vec<_>>().join(",");
    let library = |name: &str, cpu: usize, count: usize| {
        format!(r#"{{"library":"{name}","version":"1.0","cpu_id":{cpu},"total_cpus":8,"functions":[{}]}}"#, many(count))
    };
    let list = |libraries: &[String]| self::libraries(&format!("[{}]", libraries.join(",")));
    list(&[library("a.so", 0, 28)]).unwrap();
    assert!(list(&[library("a.so", 0, 29)]).unwrap_err().contains("core 0 gets 29 functions"));
    list(&[library("a.so", 0, 24), library("b.so", 1, 24), library("c.so", 2, 24), library("d.so", 3, 25)]).unwrap();
    let error = list(&[library("a.so", 0, 25), library("b.so", 1, 24), library("c.so", 2, 24), library("d.so", 3, 25)]);
    assert!(error.unwrap_err().contains("too many ucode functions in this table: 98"));
    let nine: Vec<String> = (0..9).map(|index| library(&format!("l{index}.so"), index % 8, 1)).collect();
    list(&nine).unwrap();
    let ten: Vec<String> = (0..10).map(|index| library(&format!("l{index}.so"), index % 8, 1)).collect();
    assert!(list(&ten).unwrap_err().contains("names 10 libraries"));
    assert!(
        list(&[library("a.so", 0, 1), library("a.so", 1, 1)])
            .unwrap_err()
            .contains("UCode Library a.so has already been added")
    );
    let name = "n".repeat(65);
    assert!(libraries(&with("relu", &name)).unwrap_err().contains("too long"));
    libraries(&with("relu", &name[1..])).unwrap();
    assert!(libraries(&with("libop.so", &"l".repeat(32))).unwrap_err().contains("32 bytes"));
    assert!(libraries(&with("\"sub_opcode\":0", "\"sub_opcode\":255")).unwrap_err().contains("at most 254"));
    assert!(libraries(&with("\"opcode\":133,", "")).unwrap_err().contains("no `opcode`"));
}

const DEF: &str = r##"{"name":"sg00","version":"0.6","var":{
    "x":{"var_id":0,"type":"input","size":64,"dtype":"float32","framework_shape":[1,16]},
    "w":{"var_id":1,"#transfer-type":"state-buffer","file_name":"w.npy"},
    "y":{"var_id":2,"type":"output","size":64}},
    "dma_queue":{"q_in":{"type":"in"},"q_out":{"type":"out"}},
    "pool":{"instr":"pool.bin","dma":[{"id":0}]},"ucode_lib":"ucode_lib.json"}"##;

fn definition(json: &str) -> Result<Definition, String> {
    Definition::parse("sg00/def.json", json.as_bytes(), runtime()).map_err(|error| error.to_string())
}

#[test]
fn a_graph_is_read_with_its_variables_in_order() {
    let graph = definition(DEF).unwrap();
    let vars: Vec<_> = graph.vars.iter().map(|var| (var.id, var.name.as_str(), var.kind.as_str())).collect();
    assert_eq!(vars, [(0, "x", "input"), (1, "w", "state-buffer"), (2, "y", "output")]);
    assert_eq!((graph.vars[0].shape.clone(), graph.vars[1].file.as_deref()), (vec![1, 16], Some("w.npy")));
    assert_eq!(graph.queues["q_out"], "out");
    assert_eq!(graph.engines[0].instructions.as_deref(), Some("sg00/pool.bin"));
    assert_eq!(graph.warnings.len(), 4, "four engines are missing: {:?}", graph.warnings);
    assert_eq!(graph.ucode, Some(UcodeReference::Member("sg00/ucode_lib.json".into())));
    let inline = definition(&DEF.replace("\"ucode_lib.json\"", &format!("[{ONE}]"))).unwrap();
    assert!(matches!(inline.ucode, Some(UcodeReference::Inline(list)) if list.len() == 1));
}

#[test]
fn graphs_that_the_original_refuses_are_refused_with_its_words() {
    let refused = |from: &str, to: &str, text: &str| {
        let error = definition(&DEF.replace(from, to)).unwrap_err();
        assert!(error.contains(text) && error.starts_with("sg00/def.json: "), "{error}");
    };
    refused("\"var_id\":2", "\"var_id\":3", "Unexpected var_ids set!");
    refused("\"var_id\":2", "\"var_id\":1", "Unexpected var_ids set!");
    refused("\"type\":\"output\"", "\"type\":\"buffer\"", "no Outputs");
    refused("\"var_id\":1,", "", "variable w has no `var_id`");
    refused("\"#transfer-type\"", "\"other\"", "variable w has no `type`");
    refused("\"name\":\"sg00\"", "\"runtime_statebuffer_reservation\":\"all\"", "expected `evtaccel`");
    refused("{\"name\"", "[{\"name\"", "is no JSON");
}

fn npy() -> Vec<u8> {
    let mut file = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
    file.extend(format!("{:<117}\n", "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }").bytes());
    file.extend(1_f32.to_le_bytes());
    file
}

/// A model with one custom operation.
fn model() -> Vec<(String, Vec<u8>)> {
    let kelf = r#"{"graphs":[{"definition":"sg00/def.json","name":"sg00"}],"version":"0.5","target":"sunda"}"#;
    let patch = Patch { offset: 0, slots: 1, kind: 1, section: 2 };
    let bad = Patch { kind: 9, ..patch };
    let members: Vec<(&str, Vec<u8>)> = vec![
        ("kelf-a.json", kelf.into()),
        ("neff.json", b"{}".to_vec()),
        ("sg00/def.json", DEF.into()),
        ("sg00/pool.bin", [&[0xa2, 0x10][..], &[0; 62]].concat()),
        ("sg00/pool_kbin_patch.bin", [patch.encode(), bad.encode()].concat()),
        ("sg00/w.npy", npy()),
        ("ucode_lib.json", format!("{{\"ucode_lib\":[{ONE}]}}").into_bytes()),
        ("libop.so", twins::image("cayman_1").unwrap()),
    ];
    members.into_iter().map(|(name, data)| (name.to_owned(), data)).collect()
}

fn packed(members: &[(String, Vec<u8>)]) -> Vec<u8> {
    pack(members, &PackOptions::default()).unwrap()
}

fn changed(name: &str, change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut members = model();
    change(&mut members.iter_mut().find(|member| member.0 == name).unwrap().1);
    packed(&members)
}

#[test]
fn a_model_is_packed_inspected_and_verified() {
    let file = packed(&model());
    let report = inspect(&file).unwrap();
    assert_eq!(
        (report.packager, report.target.as_deref(), report.features.clone()),
        ("gzip", Some("sunda"), vec!["custom_ops".into()])
    );
    assert_eq!((report.graphs[0].name.as_str(), report.libraries[0].library.as_str()), ("sg00", "libop.so"));
    assert_eq!(report.patches["sg00/pool_kbin_patch.bin"].len(), 1);
    assert!(report.warnings.iter().any(|warning| warning.contains("patch 1 has type 9")), "{:?}", report.warnings);
    assert!(report.to_string().contains("0x85/0   relu"), "{report}");
    let verified = verify(&file, runtime()).unwrap();
    assert_eq!((verified.status, verified.members, verified.findings.len()), ("ok", 8, 0));
    assert_eq!(verified.libraries["libop.so"], outboard_ucode::inspect::sha256(&twins::image("cayman_1").unwrap()));
}

#[test]
fn a_model_for_another_generation_is_refused_unless_legacy_models_are_allowed() {
    let check = |target, generation, legacy| check_target(target, generation, legacy).map_err(|error| error.code());
    assert_eq!(check(None, "cayman", false), Ok(()));
    assert_eq!(check(Some("sunda"), "sunda", false), Ok(()));
    assert_eq!(check(Some("mariana"), "mariana_plus", false), Ok(()));
    assert_eq!(check(Some("sunda"), "cayman", false), Err(2));
    assert_eq!(check(Some("sunda"), "cayman", true), Ok(()));
}

#[test]
fn f14_a_member_that_is_named_and_not_there_is_the_error() {
    // Report F14: a model without its library.
    for name in ["libop.so", "sg00/w.npy", "sg00/pool.bin", "ucode_lib.json", "sg00/def.json"] {
        let members: Vec<_> = model().into_iter().filter(|member| member.0 != name).collect();
        let error = verify(&packed(&members), runtime()).unwrap_err();
        assert_eq!((error.code(), error.name()), (102, "OUTBOARD_MISSING_MEMBER"), "{name}: {error}");
        assert!(error.to_string().contains("named by"), "{error}");
    }
}

#[test]
fn f15_a_failure_is_not_remembered() {
    // Report F15: the same call succeeds when the file is repaired.
    let members: Vec<_> = model().into_iter().filter(|member| member.0 != "libop.so").collect();
    assert!(verify(&packed(&members), runtime()).is_err());
    assert!(verify(&packed(&model()), runtime()).is_ok());
}

#[test]
fn members_are_what_their_names_say() {
    let error = |file: Vec<u8>| verify(&file, runtime()).unwrap_err().to_string();
    assert!(error(changed("libop.so", |data| data[0] = 0)).contains("libop.so: not an ELF file"));
    assert!(error(changed("sg00/w.npy", |data| data[0] = 0)).contains("93 4e 55 4d"));
    assert!(error(changed("sg00/w.npy", |data| data[6] = 2)).contains("version 2"));
    assert!(error(changed("sg00/w.npy", |data| data.truncate(50))).contains("ends at 128"));
    assert!(
        error(changed("kelf-a.json", |data| *data = br#"{"target":"tonga","graphs":[]}"#.to_vec()))
            .contains("target `tonga`")
    );
    let warned = verify(&changed("sg00/pool.bin", |data| data.push(0)), runtime()).unwrap();
    assert!(warned.warnings.iter().any(|warning| warning.contains("65 bytes are no whole number")));
}

#[test]
fn f17_the_documented_limits_of_custom_operations_are_found_one_by_one() {
    // Report F17: functions, libraries, the reserved name, dimensions.
    let functions: Vec<String> =
        (0..11).map(|index| format!(r#"{{"name":"f{index}","opcode":133,"sub_opcode":{index}}}"#)).collect();
    let eleven = with(r#"{"name":"relu","opcode":133,"sub_opcode":0}"#, &functions.join(","));
    let find = |json: &str, vars: &[DefVar]| -> Vec<String> {
        custom_op_findings(&libraries(json).unwrap(), vars).into_iter().map(|finding| finding.message).collect()
    };
    let var = |shape: &[u64]| DefVar {
        id: 0,
        name: "x".into(),
        kind: "input".into(),
        size: 0,
        dtype: None,
        shape: shape.to_vec(),
        file: None,
    };
    assert_eq!(find(&with("relu", "relu"), &[var(&[1; 8]), var(&[65_535])]), [""; 0]);
    assert!(find(&eleven, &[])[0].contains("11 functions, at most 10"));
    let two = format!("[{ONE},{}]", ONE.replace("libop", "libother"));
    assert!(find(&two, &[])[0].contains("one custom-op library, this one has 2: libop.so, libother.so"));
    assert!(find(&with("libop.so", "libbuiltin.so"), &[])[0].contains("is reserved"));
    assert!(find(&with("\"is_builtin\":false", "\"is_builtin\":true"), &[])[0].contains("says is_builtin"));
    assert!(find(&with("133", "240"), &[])[0].contains("opcode 0xf0"));
    assert!(find(&with("\"sub_opcode\":0", "\"sub_opcode\":3"), &[])[0].contains("expected 0..1"));
    assert!(find(&with("relu", "relu"), &[var(&[1; 9])])[0].contains("9 dimensions"));
    assert!(find(&with("relu", "relu"), &[var(&[65_536])])[0].contains("65536"));
}

#[test]
fn metaneff_messages_survive_a_round_trip_and_name_their_types() {
    let tensor = |name: &str| MetaTensor {
        name: name.into(),
        shape: vec![1, -1, 300],
        data_type: DataType(14),
        role: TensorRole(2),
        checkpoint_key: Some("k".into()),
        allow_dynamic_batch_size: true,
        ..MetaTensor::default()
    };
    let message = MetaNeff {
        input_tensors: vec![tensor("input0"), tensor("x")],
        output_tensors: vec![tensor("output0")],
        name: "m".into(),
        output_aliases_to: [(0, 1), (2, 0)].into(),
        num_user_inputs: 1,
        num_states: 1,
        num_weights: 300,
        misnamed: vec!["x".into()],
        ..MetaNeff::default()
    };
    let bytes = message.encode();
    assert_eq!(MetaNeff::decode(&bytes).unwrap(), message);
    let Some(NeffPart::Metaneff(read)) = inspect_part("model.metaneff", &bytes).unwrap() else { panic!("metaneff") };
    assert_eq!(read.misnamed, ["x"]);
    let types: Vec<_> = (0..17).map(|number| DataType(number).scalar_type()).collect();
    let expected = [
        None,
        Some(6),
        Some(3),
        Some(0),
        Some(0),
        Some(11),
        Some(0),
        Some(1),
        Some(27),
        Some(2),
        Some(4),
        None,
        Some(5),
        Some(7),
        Some(15),
        Some(24),
        Some(23),
    ];
    assert_eq!(types, expected);
    assert_eq!((DataType(11).name(), DataType(17).name(), DataType(16).name()), (None, None, Some("F8E5M2")));
    for wrong in [
        &[0x0a, 5, 1][..],
        &[0x08, 0x80],
        &[0x0b],
        &[0x00, 0],
        &[0x08, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1],
    ] {
        assert!(MetaNeff::decode(wrong).is_err(), "{wrong:x?}");
    }
}

#[test]
fn parts_of_a_container_are_recognised_on_their_own() {
    let part = |name: &str, data: &[u8]| inspect_part(name, data).unwrap();
    assert!(matches!(part("def.json", DEF.as_bytes()), Some(NeffPart::Definition(_))));
    assert!(matches!(part("ucode_lib.json", ONE.as_bytes()), Some(NeffPart::UcodeLib { .. })));
    assert!(matches!(part("pool.bin", &[0; 64]), Some(NeffPart::Stream(_))));
    assert!(part("a.txt", b"text").is_none() && part("a.json", b"{}").is_none());
    assert!(part("a.json", twins::STUB).is_none());
}

proptest! {
    #[test]
    fn any_bytes_are_metaneff_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(message) = MetaNeff::decode(&bytes) {
            prop_assert!(message.input_tensors.len() <= bytes.len());
        }
    }
}
