//! The writer of device images refuses what contradicts itself.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use outboard_elf::image::{Bss, Chunk, FllImage, ImageError, PiImage, Property};
use outboard_elf::pi::{DeviceShape, PiShape};
use outboard_elf::{Elf, Pointers, dt};

fn chunk(name: &str, address: u32, size: usize) -> Chunk {
    Chunk { name: name.into(), address, align: 4, writable: true, bytes: vec![0x5a; size] }
}

fn image() -> PiImage {
    PiImage {
        text: Chunk { writable: false, ..chunk(".text", 0x0100_0000, 0x123) },
        data: vec![chunk(".rodata", 0x0200_000c, 0x14), chunk(".data", 0x0200_0020, 0x20)],
        bss: Bss { address: 0x0200_0040, size: 0x100, align: 16 },
        relocations: vec![[0x0200_0020, 5, 0]; 3],
        comment: "a linker".into(),
        properties: vec![Property { name: "_Z1fv".into(), address: 0x0100_0000, size: 4 }],
        ..PiImage::default()
    }
}

#[test]
fn a_written_pi_image_reads_back_piece_by_piece() {
    let file = image().build().unwrap();
    let elf = Elf::parse(&file).unwrap();
    let shape = PiShape::of(&elf).unwrap();
    assert_eq!((shape.data.vaddr, shape.data.offset % 0x80, shape.data.memsz), (0x0200_000c, 0x0c, 0x134));
    let sections = elf.sections().unwrap();
    let names: Vec<_> = sections.iter().map(|section| sections.name(&section).unwrap()).collect();
    let expected: [&[u8]; 10] = [
        b"",
        b".text",
        b".rodata",
        b".data",
        b".bss",
        b".comment",
        b".xt.prop._Z1fv",
        b".dynamic",
        b".rela.got",
        b".shstrtab",
    ];
    assert_eq!(names, expected);
    let data = sections.data(&sections.by_name(b".data").unwrap()).unwrap();
    assert_eq!(data, [0x5a; 0x20]);
    let dynamic = elf.dynamic(Pointers::Virtual).unwrap().unwrap();
    assert_eq!((dynamic.iter().len(), dynamic.get(dt::RELASZ)), (14, Some(36)));
    assert_eq!(
        dynamic.data("relocations", dynamic.get(dt::RELA).unwrap(), 36).unwrap()[..8],
        [0x20, 0, 0, 2, 5, 0, 0, 0]
    );
}

#[test]
fn pieces_that_overlap_wrap_or_do_not_fit_are_refused() {
    let refused = |change: fn(&mut PiImage), text: &str| {
        let mut image = image();
        change(&mut image);
        let error = image.build().unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
    };
    refused(
        |image| image.data[1].address = 0x0200_001c,
        ".data at 0x200001c: it lies before the segment or on the piece",
    );
    refused(|image| image.data[1].address = 0x0200_0022, "no multiple of its alignment");
    refused(|image| image.data[1].align = 3, "no multiple of its alignment");
    refused(|image| image.data[1].address = 0xffff_fff0, "it wraps around");
    refused(|image| image.bss.address = 0x0200_0030, ".bss at 0x2000030: it lies on the data before it");
    refused(|image| image.bss.size = u32::MAX, "it wraps around");
    refused(|image| image.size = Some(0x400), "above the limit of 0x400");
    let mut exact = image();
    exact.size = Some(0x2000);
    assert_eq!(exact.build().unwrap().len(), 0x2000);
}

#[test]
fn a_library_stays_in_the_window_of_its_core() {
    let library = |core, address, bss| FllImage {
        core,
        single: false,
        entry: address,
        chunks: vec![chunk(".text", address, 0x100)],
        bss: Bss { address: address + 0x100, size: bss, align: 64 },
        comment: String::new(),
        debug: Vec::new(),
        symbols: Vec::new(),
    };
    for core in 0..8 {
        let base = FllImage::window(core).unwrap();
        let file = library(core, base, 0x1f_ff00).build().unwrap();
        let Ok(DeviceShape::Fll(shape)) = DeviceShape::of(&Elf::parse(&file).unwrap()) else { panic!("a library") };
        assert_eq!(shape.core, core);
        assert!(library(core, base, 0x1f_ff01).build().unwrap_err().to_string().contains("leaves the window"));
    }
    assert!(matches!(library(8, 0x8500_0000, 0).build(), Err(ImageError::Place { .. })));
    assert!(library(1, 0x8400_0000, 0).build().unwrap_err().to_string().contains("lies before the segment"));
}
