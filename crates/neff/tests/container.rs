//! The container: gates in order, hashes, archives of every dialect, and files that mean harm.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::Write as _;

use outboard_neff::{Limits, MemberKind, Neff, NeffError, PackOptions, Packager, SUPPORTED_FEATURES, pack, unpack};
use proptest::prelude::*;

fn members() -> Vec<(String, Vec<u8>)> {
    [("kelf-a.json", "{}"), ("neff.json", "{}"), ("sg00/def.json", "{}"), ("sg00/pool.bin", "0123")]
        .map(|(name, data)| (name.to_owned(), data.as_bytes().to_vec()))
        .to_vec()
}

fn packed() -> Vec<u8> {
    pack(&members(), &PackOptions::default()).unwrap()
}

/// A container around an archive that somebody else wrote.
fn around(archive: &[u8]) -> Vec<u8> {
    let raw = PackOptions { packager: Packager::Raw, ..PackOptions::default() };
    let mut file = pack(&[], &raw).unwrap()[..1024].to_vec();
    file[0x10..0x18].copy_from_slice(&(archive.len() as u64).to_le_bytes());
    file.extend(archive);
    file
}

fn with(at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut file = packed();
    file[at..at + bytes.len()].copy_from_slice(bytes);
    file
}

fn refused(file: &[u8]) -> NeffError {
    Neff::parse(file).map(|_| ()).unwrap_err()
}

#[test]
fn a_packed_container_reads_back_with_both_packagers() {
    for packager in [Packager::Raw, Packager::Gzip] {
        let options = PackOptions { packager, name: "relu".into(), uuid: [7; 16], ..PackOptions::default() };
        let file = pack(&members(), &options).unwrap();
        assert_eq!(file, pack(&members(), &options).unwrap(), "equal input gives equal bytes");
        let neff = Neff::parse(&file).unwrap();
        neff.verify_hash().unwrap();
        assert_eq!((neff.header().name.as_str(), neff.header().feature_bits), ("relu", 0));
        let listing = neff.list().unwrap();
        let names: Vec<_> = listing.members.iter().map(|member| member.name.as_str()).collect();
        assert_eq!(names, ["kelf-a.json", "neff.json", "sg00/def.json", "sg00/pool.bin"]);
        assert_eq!(listing.inflated % 512, 0);
        assert_eq!(neff.read("sg00/pool.bin").unwrap(), b"0123");
        assert!(matches!(neff.read("nothing"), Err(NeffError::MissingMember { .. })));
    }
}

#[test]
fn the_header_has_the_documented_layout() {
    let mut options = PackOptions { version: (2, 5), name: "x".into(), ..PackOptions::default() };
    options.uuid = [0x56, 0x18, 0x26, 0xfb, 0x12, 0x5f, 0x4b, 0xb8, 0x99, 0x1c, 0x29, 0xe0, 0x85, 0xc8, 0x94, 0x9a];
    let library = ("libop.so".to_owned(), vec![1]);
    let file = pack(&[library], &options).unwrap();
    let quad = |at: usize| u64::from_le_bytes(file[at..at + 8].try_into().unwrap());
    assert_eq!([quad(0), quad(8), quad(0x18), quad(0x20)], [2, 0x400, 2, 5]);
    assert_eq!(quad(0x10), file.len() as u64 - 0x400);
    assert_eq!(file[0xa8], 1, "compressed");
    assert_eq!(file[0xbc..0xcc], [b'0'; 16], "MD5 fills half of the field");
    assert_eq!((file[0xdc], file[0xdd]), (b'x', 0));
    assert_eq!(quad(0x220), 8, "a library sets the feature");
    assert_eq!(file[0x400..0x40a], [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3]);
    let neff = Neff::parse(&file).unwrap();
    assert_eq!(neff.header().uuid_text(), "561826fb-125f-4bb8-991c-29e085c8949a");
    assert_eq!(neff.header().encode(), file[..1024]);
}

#[test]
fn gates_are_walked_in_order_with_the_original_numbers() {
    let cases: [(&str, Vec<u8>, u32, &str); 8] = [
        ("short", packed()[..0x3ff].to_vec(), 2, "1023 bytes"),
        ("header_size", with(8, &u64::MAX.to_le_bytes()), 2, "header_size at offset 0x8"),
        ("header_size = size", with(8, &(packed().len() as u64).to_le_bytes()), 2, "header_size"),
        ("header_size < 1024", with(8, &0x3ff_u64.to_le_bytes()), 2, "header_size"),
        ("major", with(0x18, &[3]), 10, "accepted version range 0.x-2.x; update the runtime side"),
        ("data_size", with(0x10, &u64::MAX.to_le_bytes()), 2, "data_size at offset 0x10"),
        ("packager", with(0, &[3]), 10, "Unsupported NEFF packager 3"),
        ("features", with(0x223, &[8]), 10, "feature bit 27 not supported by this runtime"),
    ];
    for (name, file, code, text) in cases {
        let error = refused(&file);
        assert_eq!(error.code(), code, "{name}");
        assert!(error.to_string().contains(text), "{name}: {error}");
    }
    // A file that fails at every gate fails at the first; each repair moves it one gate on.
    let mut file = packed();
    file[0] = 9;
    file[0x18] = 3;
    file[0x17] = 0xff;
    file[0xf] = 0xff;
    file[0x223] = 8;
    let mut fields = Vec::new();
    for repair in [(0xf, 0), (0x18, 2), (0x17, 0), (0, 2), (0x223, 0)] {
        fields.push(refused(&file).to_string().chars().take(9).collect::<String>());
        file[repair.0] = repair.1;
    }
    assert_eq!(fields, ["header_si", "version 3", "data_size", "Unsupport", "feature_b"]);
    Neff::parse(&file).unwrap();
}

// linux-npu-driver#28: a newer minor version is read, a newer major one is refused with the side to update.
#[test]
fn f8_a_newer_minor_version_is_read_and_a_newer_major_one_names_the_side_to_update() {
    Neff::parse(&with(0x20, &[99])).unwrap();
    let error = refused(&with(0x18, &[3]));
    let text = error.to_string();
    assert!(text.contains("version 3.") && text.contains("range 0.x-2.x"), "{text}");
    assert!(text.contains("update the runtime side, or compile for an older runtime"), "{text}");
    assert_eq!((error.code(), error.name()), (10, "NRT_UNSUPPORTED_NEFF_VERSION"));
}

#[test]
fn f13_features_beyond_the_mask_are_named_and_the_highest_bit_is_not_tested() {
    let bits = |bits: u64| with(0x220, &bits.to_le_bytes());
    for allowed in [0, 8, SUPPORTED_FEATURES, 1 << 63] {
        Neff::parse(&bits(allowed)).unwrap();
    }
    for bit in 27..63 {
        let error = refused(&bits(1 << bit | 8)).to_string();
        assert!(error.contains(&format!("feature bit {bit} not supported")), "{error}");
    }
    // Report F13: a runtime without custom operations names the feature and the side to update.
    let file = bits(8 | 1 << 8);
    let error = Neff::parse_with(&file, 1 << 8, Limits::DEFAULT).unwrap_err().to_string();
    assert!(error.contains("custom_ops not supported") && error.contains("update the runtime side"), "{error}");
    let old = {
        let mut file = bits(1 << 30);
        file[0x18] = 1;
        file
    };
    Neff::parse(&old).unwrap();
}

#[test]
fn the_hash_covers_the_payload_as_stored() {
    let mut file = packed();
    *file.last_mut().unwrap() ^= 1;
    let error = Neff::parse(&file).unwrap().verify_hash().unwrap_err();
    assert_eq!((error.code(), error.explain()), (2, "OB0643"));
    assert!(error.to_string().contains("payload's MD5 is"), "{error}");
    let raw = pack(&members(), &PackOptions { packager: Packager::Raw, ..PackOptions::default() }).unwrap();
    let mut changed = raw.clone();
    changed[0xac] ^= 1;
    assert!(Neff::parse(&changed).unwrap().verify_hash().unwrap_err().to_string().contains("SHA-256"));
    assert!(Neff::parse(&around(&[])).is_err() || Neff::parse(&around(&[])).unwrap().verify_hash().is_err());
}

/// An archive by another writer.
fn foreign(format: fn() -> tar::Header, names: &[&str], data: &[u8]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for name in names {
        let mut header = format();
        header.set_size(data.len() as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, name, data).unwrap();
    }
    builder.into_inner().unwrap()
}

#[test]
fn archives_of_other_writers_are_read() {
    let long = format!("sg00/{}.npy", "n".repeat(150));
    let names = ["./kelf-a.json", "sg00/pool.bin", &long];
    for format in [tar::Header::new_gnu as fn() -> tar::Header, tar::Header::new_ustar] {
        let names = if format().as_gnu().is_some() { &names[..] } else { &names[..2] };
        let file = around(&foreign(format, names, b"data"));
        let found: Vec<_> = Neff::parse(&file).unwrap().list().unwrap().members;
        assert_eq!(found.len(), names.len());
        assert_eq!(found[0].name, "kelf-a.json");
        assert!(found.iter().all(|member| member.size == 4));
    }
    // The directory itself, as archivers that are given `.` write it.
    let mut builder = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_entry_type(tar::EntryType::Directory);
    header.as_gnu_mut().unwrap().name[..2].copy_from_slice(b"./");
    header.set_size(0);
    header.set_cksum();
    builder.append(&header, std::io::empty()).unwrap();
    assert!(Neff::parse(&around(&builder.into_inner().unwrap())).unwrap().list().unwrap().members.is_empty());
    // Extended headers: a name and a size.
    let mut builder = tar::Builder::new(Vec::new());
    builder.append_pax_extensions([("path", long.as_bytes()), ("comment", b"x=y".as_slice())]).unwrap();
    let mut header = tar::Header::new_ustar();
    header.set_path("short").unwrap();
    header.set_size(3);
    header.set_cksum();
    builder.append(&header, b"abc".as_slice()).unwrap();
    let file = around(&builder.into_inner().unwrap());
    let neff = Neff::parse(&file).unwrap();
    assert_eq!(neff.list().unwrap().members[0].name, long);
    assert_eq!(neff.read(&long).unwrap(), b"abc");
}

#[test]
fn our_archives_are_read_by_others() {
    let long = format!("sg00/{}.npy", "w".repeat(140));
    let members = [("sg00/def.json".to_owned(), vec![b'x'; 1000]), (long.clone(), vec![1, 2, 3])];
    let file = pack(&members, &PackOptions { packager: Packager::Raw, ..PackOptions::default() }).unwrap();
    let payload = &file[1024..];
    assert_eq!(payload.len() % 10_240, 0);
    assert_eq!(payload[257..265], *b"ustar  \0");
    let mut archive = tar::Archive::new(payload);
    let entries: Vec<(String, Vec<u8>)> = archive
        .entries()
        .unwrap()
        .map(Result::unwrap)
        .filter(|entry| entry.header().entry_type().is_file())
        .map(|mut entry| {
            let mut data = Vec::new();
            std::io::copy(&mut entry, &mut data).unwrap();
            (entry.path().unwrap().display().to_string(), data)
        })
        .collect();
    assert_eq!(entries, members);
}

#[test]
fn no_name_leaves_the_archive() {
    let cases = [
        ("../evil", "leaves the archive"),
        ("sg00/../../evil", "leaves the archive"),
        ("/etc/passwd", "is absolute"),
        ("a\\b", "backslash"),
        ("C:evil", "colon"),
        ("a//b", "empty part"),
        ("a/./b", "empty part"),
        ("a\u{1}b", "control"),
        ("a/b/c/d/e/f/g/h/i", "too deep"),
    ];
    for (name, problem) in cases {
        let error = pack(&[(name.to_owned(), vec![])], &PackOptions::default()).unwrap_err();
        assert!(error.to_string().contains(problem), "{name}: {error}");
        let mut header = tar::Header::new_gnu();
        header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_size(0);
        header.set_cksum();
        let file = around(&[header.as_bytes().as_slice(), &[0; 1024]].concat());
        let error = Neff::parse(&file).unwrap().list().unwrap_err();
        assert_eq!(error.code(), 100, "{name}");
    }
    let twice = [("a.npy".to_owned(), vec![]), ("a.npy".to_owned(), vec![])];
    assert!(pack(&twice, &PackOptions::default()).unwrap_err().to_string().contains("occurs twice"));
}

#[test]
fn links_and_devices_are_refused() {
    for kind in [tar::EntryType::Symlink, tar::EntryType::Link, tar::EntryType::Char, tar::EntryType::Fifo] {
        let mut header = tar::Header::new_gnu();
        header.set_path("a").unwrap();
        header.set_entry_type(kind);
        header.set_size(0);
        header.set_cksum();
        let file = around(&[header.as_bytes().as_slice(), &[0; 1024]].concat());
        let error = Neff::parse(&file).unwrap().list().unwrap_err();
        assert!(error.to_string().contains("files and directories only"), "{error}");
    }
}

#[test]
fn bombs_stop_at_the_limits() {
    let mut bomb = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    let mut header = tar::Header::new_gnu();
    header.set_path("zeros.npy").unwrap();
    header.set_size(1 << 30);
    header.set_cksum();
    bomb.write_all(header.as_bytes()).unwrap();
    for _ in 0..24 {
        bomb.write_all(&vec![0; 1 << 16]).unwrap();
    }
    let file = around(&bomb.finish().unwrap());
    let limits = Limits { free: 1 << 20, ..Limits::DEFAULT };
    let error = Neff::parse_with(&file, SUPPORTED_FEATURES, limits).unwrap().list().unwrap_err();
    assert!(matches!(error, NeffError::Limit { what: "the inflated size of the archive", .. }), "{error}");
    let limits = Limits { members: 3, ..Limits::DEFAULT };
    let file = packed();
    let error = Neff::parse_with(&file, SUPPORTED_FEATURES, limits).unwrap().list().unwrap_err();
    assert!(error.to_string().contains("number of members is 4, above the limit of 3"), "{error}");
    let limits = Limits { member: 3, ..Limits::DEFAULT };
    assert_eq!(
        Neff::parse_with(&file, SUPPORTED_FEATURES, limits).unwrap().read("sg00/pool.bin").unwrap_err().code(),
        101
    );
    let mut header = tar::Header::new_gnu();
    header.set_path("x").unwrap();
    header.set_entry_type(tar::EntryType::XHeader);
    header.set_size(1 << 20);
    header.set_cksum();
    let file = around(&[header.as_bytes().as_slice(), &vec![0; 1 << 20]].concat());
    assert!(Neff::parse(&file).unwrap().list().unwrap_err().to_string().contains("extended header"));
}

#[test]
fn unpacking_writes_known_members_and_never_overwrites() {
    let directory = tempfile::tempdir().unwrap();
    let mut members = members();
    members.push(("notes.txt".into(), b"who needs it".to_vec()));
    members.push(("sg00/wavegraph-bin.json".into(), b"{}".to_vec()));
    let file = pack(&members, &PackOptions::default()).unwrap();
    let neff = Neff::parse(&file).unwrap();
    let unpacked = unpack(&neff, directory.path(), false).unwrap();
    assert_eq!(unpacked.files, ["kelf-a.json", "neff.json", "sg00/def.json", "sg00/pool.bin"]);
    assert_eq!(unpacked.left_out, ["notes.txt", "sg00/wavegraph-bin.json"]);
    assert_eq!(std::fs::read(directory.path().join("sg00/pool.bin")).unwrap(), b"0123");
    let error = unpack(&neff, directory.path(), false).unwrap_err();
    assert!(error.to_string().contains("kelf-a.json"), "{error}");
    let all = tempfile::tempdir().unwrap();
    assert_eq!(unpack(&neff, all.path(), true).unwrap().files.len(), 6);
}

#[test]
fn kinds_are_known_by_the_names_of_members() {
    let kind = MemberKind::of;
    assert_eq!(kind("kelf-a.json"), MemberKind::Kelf);
    assert_eq!(kind("sg07/def.json"), MemberKind::Definition);
    assert_eq!(kind("def.json"), MemberKind::Other);
    assert_eq!(kind("sg00/dve.asm"), MemberKind::EngineAsm);
    assert_eq!(kind("sg00/x-wavegraph-bin.json"), MemberKind::Skipped);
    assert_eq!(kind("libcustom_cpu3.stripped.so"), MemberKind::Library);
    assert_eq!(kind("sg00/pools.bin"), MemberKind::Other);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn damaged_containers_are_read_or_refused_and_never_panic(
        edits in prop::collection::vec((0_usize..11_264, any::<u8>()), 1..20), raw: bool,
    ) {
        let packager = if raw { Packager::Raw } else { Packager::Gzip };
        let mut file = pack(&members(), &PackOptions { packager, ..PackOptions::default() }).unwrap();
        for (at, value) in edits {
            let at = at % file.len();
            file[at] = value;
        }
        if let Ok(neff) = Neff::parse(&file) {
            let _ = neff.verify_hash();
            let _ = neff.list();
        }
        let _ = outboard_neff::inspect(&file);
    }
}
