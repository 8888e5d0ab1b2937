//! The twins have every documented number of their originals.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use outboard_elf::Elf;
use outboard_elf::pi::PiShape;
use outboard_ucode::twins;

/// Size of the file and entry point of each original.
const IMAGES: [(&str, usize, u64); 17] = [
    ("sunda_0", 0xd308, 0x100_00c8),
    ("cayman_0", 0xa260, 0x100_5610),
    ("cayman_1", 0xf5c, 0x100_0410),
    ("cayman_2", 0x1500, 0x100_0828),
    ("cayman_3", 0x6974, 0x100_3c74),
    ("mariana_0", 0xa260, 0x100_5658),
    ("mariana_1", 0xf5c, 0x100_0410),
    ("mariana_2", 0x1500, 0x100_0828),
    ("mariana_3", 0x6974, 0x100_3c88),
    ("mariana_plus_0", 0xa260, 0x100_5658),
    ("mariana_plus_1", 0xf5c, 0x100_0410),
    ("mariana_plus_2", 0x1500, 0x100_0828),
    ("mariana_plus_3", 0x6974, 0x100_3c88),
    ("maverick_0", 0x7fb0, 0x594c),
    ("maverick_1", 0xc64, 0x39c),
    ("maverick_2", 0x1280, 0x900),
    ("maverick_3", 0x55a0, 0x3ccc),
];

#[test]
fn every_twin_has_the_size_and_entry_point_of_its_original() {
    for (name, size, entry) in IMAGES {
        let file = twins::image(name).unwrap();
        let elf = Elf::parse(&file).unwrap();
        assert_eq!((file.len(), elf.header().entry), (size, entry), "{name}");
        PiShape::of(&elf).unwrap();
        assert_eq!(elf.header().shoff + 40 * u64::from(elf.header().shnum), size as u64, "{name}");
    }
    assert_eq!(twins::image("mariana_3"), twins::image("mariana_plus_3"));
    assert_eq!(twins::image("tonga_0"), None);
    assert_eq!(twins::image("cayman_4"), None);
}

#[test]
fn the_header_of_the_ground_truth_twin_is_the_originals_byte_for_byte() {
    let expected = [
        0x7f, 0x45, 0x4c, 0x46, 0x01, 0x01, 0x01, 0x00, 0, 0, 0, 0, 0, 0, 0, 0, 0x02, 0x00, 0x5e, 0x00, 0x01, 0x00,
        0x00, 0x00, 0x10, 0x56, 0x00, 0x01, 0x34, 0x00, 0x00, 0x00, 0xe8, 0x9c, 0x00, 0x00, 0x00, 0x03, 0x00, 0x00,
        0x34, 0x00, 0x20, 0x00, 0x04, 0x00, 0x28, 0x00, 0x23, 0x00, 0x22, 0x00,
    ];
    assert_eq!(twins::image("cayman_0").unwrap()[..52], expected);
}
