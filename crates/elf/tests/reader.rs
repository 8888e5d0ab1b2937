//! The reader against images of all four machines, and against another reader.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use object::read::elf::{Dyn as _, FileHeader as _, ProgramHeader as _, Rela as _, SectionHeader as _, Sym as _};
use outboard_elf::write::{HashStyle, ImageBuilder, RelocationSpec, SegmentSpec, SymbolSpec};
use outboard_elf::{
    Class, Elf, ElfError, Limits, Pointers, RelaTable, StringTable, SymbolTable, dt, em_name, et, gnu_symbol_count,
    machine, osabi, pf, pt, sysv_symbol_count,
};

/// An interpreter takes a sample.
const STEP: usize = if cfg!(miri) { 1009 } else { 1 };
const MACHINES: [u16; 4] = [machine::C7X, machine::XTENSA, machine::X86_64, machine::AARCH64];

fn pointers(machine: u16) -> Pointers {
    if machine == machine::C7X { Pointers::FileOffset } else { Pointers::Virtual }
}

/// An image with two segments, three symbols, one relocation and one note.
fn sample(machine: u16) -> ImageBuilder {
    let mut image = ImageBuilder::new(machine);
    let text = image.segment(SegmentSpec::new(pf::R | pf::X, vec![0x11; 100]).named(".text"));
    let data = image.segment(SegmentSpec::new(pf::R | pf::W, vec![0x22; 40]).memsz(72).named(".data"));
    image.symbol(SymbolSpec::function("entry", text, 16, 32));
    image.symbol(SymbolSpec::local("inner", text, 64));
    let import = image.symbol(SymbolSpec::import("printf"));
    image.relocate(RelocationSpec::new(data, 8, 17, import, -3));
    image.soname("sample.out").needed("dsp_syms.out").note("Outboard", 2, b"{}");
    image
}

#[test]
fn images_of_all_four_machines_are_read() {
    for number in MACHINES {
        let file = sample(number).build();
        let elf = Elf::parse(&file).unwrap();
        let header = elf.header();
        assert_eq!(header.machine, number);
        assert_eq!(header.class, if number == machine::XTENSA { Class::Elf32 } else { Class::Elf64 });
        assert_eq!(header.kind, et::DYN);
        assert_eq!(header.osabi, if number == machine::C7X { osabi::C7X_BARE } else { 0 });
        let name = em_name(number).unwrap();
        let loads: Vec<_> = elf.load_segments().collect();
        assert!(loads[0].executable() && !loads[0].writable() && loads[1].writable(), "{name}");
        assert_eq!((loads[1].filesz, loads[1].memsz), (40, 72), "{name}");
        assert_eq!(elf.segment_data(&loads[0]).unwrap(), &[0x11; 100]);
        let dynamic = elf.dynamic(pointers(number)).unwrap().unwrap();
        let strings = StringTable::new(
            "names",
            dynamic
                .data("DT_STRTAB", dynamic.require(dt::STRTAB, "DT_STRTAB").unwrap(), dynamic.get(dt::STRSZ).unwrap())
                .unwrap(),
        )
        .unwrap();
        assert_eq!(strings.get("soname", dynamic.get(dt::SONAME).unwrap(), 100).unwrap(), b"sample.out");
        let hash = dynamic.data("DT_HASH", dynamic.get(dt::HASH).unwrap(), 8).unwrap();
        assert_eq!(sysv_symbol_count(hash), Ok(4), "{name}");
        let size = 4 * header.class.symbol_size();
        let symbols =
            SymbolTable::new(header.class, dynamic.data("DT_SYMTAB", dynamic.get(dt::SYMTAB).unwrap(), size).unwrap());
        let names: Vec<&[u8]> =
            symbols.iter().map(|s| strings.get("a symbol", u64::from(s.name), 100).unwrap()).collect();
        assert_eq!(names, [&b""[..], b"inner", b"entry", b"printf"], "{name}");
        assert!(symbols.get(1).unwrap().local() && !symbols.get(3).unwrap().defined());
        let raw = dynamic.data("DT_RELA", dynamic.get(dt::RELA).unwrap(), dynamic.get(dt::RELASZ).unwrap()).unwrap();
        let rela: Vec<_> = RelaTable::new(header.class, raw).iter().collect();
        assert_eq!(
            (rela[0].offset, rela[0].kind, rela[0].symbol, rela[0].addend),
            (loads[1].vaddr + 8, 17, 3, -3),
            "{name}"
        );
        let notes: Vec<_> = elf.notes().map(Result::unwrap).collect();
        assert_eq!((notes[0].owner, notes[0].kind, notes[0].desc), (&b"Outboard"[..], 2, &b"{}"[..]));
        let sections = elf.sections().unwrap();
        let text = sections.by_name(b".text").unwrap();
        assert_eq!(sections.data(&text).unwrap().len(), 100);
        assert_eq!(sections.name(&text).unwrap(), b".text");
    }
}

#[test]
fn another_reader_sees_the_same_headers_symbols_and_relocations() {
    for number in [machine::C7X, machine::X86_64, machine::AARCH64] {
        let file = sample(number).build();
        let elf = Elf::parse(&file).unwrap();
        let other = object::elf::FileHeader64::<object::Endianness>::parse(&*file).unwrap();
        let endian = other.endian().unwrap();
        assert_eq!(other.e_machine(endian), object::elf::Machine(elf.header().machine));
        let theirs = other.program_headers(endian, &*file).unwrap();
        assert_eq!(theirs.len(), elf.segments().count());
        for (ours, theirs) in elf.segments().zip(theirs) {
            assert_eq!((ours.kind, ours.flags), (theirs.p_type(endian).0, theirs.p_flags(endian).0));
            assert_eq!(
                (ours.offset, ours.vaddr, ours.paddr),
                (theirs.p_offset(endian), theirs.p_vaddr(endian), theirs.p_paddr(endian))
            );
            assert_eq!(
                (ours.filesz, ours.memsz, ours.align),
                (theirs.p_filesz(endian), theirs.p_memsz(endian), theirs.p_align(endian))
            );
        }
        let theirs = other.sections(endian, &*file).unwrap();
        for (ours, theirs) in elf.sections().unwrap().iter().zip(theirs.iter()) {
            assert_eq!(
                (ours.kind, ours.address, ours.offset, ours.size),
                (theirs.sh_type(endian).0, theirs.sh_addr(endian), theirs.sh_offset(endian), theirs.sh_size(endian))
            );
        }
        let dynamic = other
            .program_headers(endian, &*file)
            .unwrap()
            .iter()
            .find_map(|p| p.dynamic(endian, &*file).unwrap())
            .unwrap();
        let ours = elf.dynamic(pointers(number)).unwrap().unwrap();
        let theirs: Vec<(u64, u64)> = dynamic
            .iter()
            .map(|d| (u64::try_from(d.d_tag(endian).0).unwrap(), d.d_val(endian)))
            .take_while(|(tag, _)| *tag != 0)
            .collect();
        assert_eq!(ours.iter().map(|entry| (entry.tag, entry.value)).collect::<Vec<_>>(), theirs);
        let table = other
            .sections(endian, &*file)
            .unwrap()
            .iter()
            .find(|s| s.sh_type(endian) == object::elf::SHT_RELA)
            .unwrap()
            .data_as_array::<object::elf::Rela64<object::Endianness>, _>(endian, &*file)
            .unwrap();
        let raw = ours.data("DT_RELA", ours.get(dt::RELA).unwrap(), ours.get(dt::RELASZ).unwrap()).unwrap();
        for (ours, theirs) in RelaTable::new(Class::Elf64, raw).iter().zip(table) {
            assert_eq!((ours.offset, ours.addend), (theirs.r_offset(endian), theirs.r_addend(endian)));
            assert_eq!((ours.kind, ours.symbol), (theirs.r_type(endian, false).0, theirs.r_sym(endian, false)));
        }
        let table = other.sections(endian, &*file).unwrap().symbols(endian, &*file, object::elf::SHT_DYNSYM).unwrap();
        let raw = ours.data("DT_SYMTAB", ours.get(dt::SYMTAB).unwrap(), 4 * 24).unwrap();
        for (ours, theirs) in SymbolTable::new(Class::Elf64, raw).iter().zip(table.iter()) {
            assert_eq!(
                (ours.name, ours.value, ours.size),
                (theirs.st_name(endian), theirs.st_value(endian), theirs.st_size(endian))
            );
            assert_eq!(
                (ours.info, ours.other, ours.shndx),
                (theirs.st_info().0, theirs.st_other().0, theirs.st_shndx(endian).0)
            );
        }
    }
}

#[test]
fn a_gnu_hash_table_counts_the_symbols() {
    let mut image = sample(machine::X86_64);
    for index in 0..50_u64 {
        let text = image.segment(SegmentSpec::zeroed(pf::R, 8));
        image.symbol(SymbolSpec::object(&format!("object_{index}"), text, 0, 8));
    }
    let (file, map) = image.hash(HashStyle::Gnu).build_mapped();
    let elf = Elf::parse(&file).unwrap();
    let dynamic = elf.dynamic(Pointers::Virtual).unwrap().unwrap();
    let table = dynamic.rest("DT_GNU_HASH", dynamic.get(dt::GNU_HASH).unwrap()).unwrap();
    assert_eq!(gnu_symbol_count(table), Ok(map.symbol_count));
}

#[test]
fn every_prefix_of_a_file_is_an_error_or_reads_without_panic() {
    for number in MACHINES {
        let file = sample(number).build();
        for len in (0..file.len()).step_by(STEP) {
            walk(&file[..len]);
        }
        assert!(Elf::parse(&file[..51]).is_err());
    }
}

#[test]
fn every_byte_of_the_headers_may_be_wrong_without_panic() {
    for number in MACHINES {
        let (file, map) = sample(number).build_mapped();
        let tables = [0..64 + 6 * 56, map.dynamic..map.dynamic + 300, map.section_headers..file.len() as u64];
        for at in tables.into_iter().flatten().step_by(STEP).map(|at| usize::try_from(at).unwrap()) {
            for value in [0, 0x7f, 0xff] {
                let mut file = file.clone();
                if let Some(byte) = file.get_mut(at) {
                    *byte = value;
                }
                walk(&file);
            }
        }
    }
}

/// Reads everything that can be read.
fn walk(file: &[u8]) {
    let Ok(elf) = Elf::parse(file) else { return };
    for segment in elf.segments() {
        let _ = elf.segment_data(&segment);
    }
    for note in elf.notes() {
        let _ = note;
    }
    if let Ok(sections) = elf.sections() {
        for section in sections.iter() {
            let _ = (sections.name(&section), sections.data(&section));
        }
    }
    for pointers in [Pointers::FileOffset, Pointers::Virtual] {
        let Ok(Some(dynamic)) = elf.dynamic(pointers) else { continue };
        for entry in dynamic.iter() {
            if let Ok(rest) = dynamic.rest("anything", entry.value) {
                let _ = (gnu_symbol_count(rest), sysv_symbol_count(rest));
                let _ = SymbolTable::new(elf.header().class, rest).iter().take(64).map(|symbol| symbol.value).max();
                let _ = RelaTable::new(elf.header().class, rest).iter().take(64).map(|entry| entry.offset).max();
                if let Ok(strings) = StringTable::new("anything", rest) {
                    let _ = strings.get("anything", 1, 64);
                }
            }
        }
    }
}

fn patched(offset: usize, bytes: &[u8]) -> Vec<u8> {
    let mut file = sample(machine::C7X).build();
    file[offset..offset + bytes.len()].copy_from_slice(bytes);
    file
}

#[test]
fn c1_a_header_table_whose_size_would_wrap_is_refused_naming_the_field() {
    // e_phnum and e_phentsize both 0xffff: their product does not fit 32 bits.
    let mut file = patched(54, &[0xff; 4]);
    let error = Elf::parse(&file).unwrap_err();
    assert_eq!(error, ElfError::BadEntrySize { field: "e_phentsize", offset: 54, value: 0xffff, expected: 56 });
    file[54..56].copy_from_slice(&[56, 0]);
    let error = Elf::parse(&file).unwrap_err();
    assert_eq!(error.kind(), "limit_exceeded");
    assert!(error.to_string().contains("e_phnum"), "{error}");
}

#[test]
fn c2_every_field_of_the_file_header_at_its_maximum_is_refused_or_harmless() {
    for (field, offset, size) in
        [("e_phoff", 32, 8), ("e_shoff", 40, 8), ("e_phnum", 56, 2), ("e_shnum", 60, 2), ("e_shstrndx", 62, 2)]
    {
        let file = patched(offset, &vec![0xff; size]);
        let refused = Elf::parse(&file).and_then(|elf| elf.sections().map(|_| ()));
        if field == "e_shstrndx" {
            assert_eq!(refused, Ok(()), "sections without names are read");
        } else {
            assert!(refused.is_err(), "{field}");
        }
    }
}

#[test]
fn c3_a_section_header_size_other_than_the_structure_is_refused() {
    let file = patched(58, &4096_u16.to_le_bytes());
    let error = Elf::parse(&file).unwrap().sections().unwrap_err();
    assert_eq!(error, ElfError::BadEntrySize { field: "e_shentsize", offset: 58, value: 4096, expected: 64 });
    assert_eq!(error.kind(), "bad_shentsize");
}

#[test]
fn c5_a_section_of_nearly_two_to_the_64_bytes_is_refused_before_anything_is_allocated() {
    let (mut file, map) = sample(machine::C7X).build_mapped();
    let size = usize::try_from(map.section_headers).unwrap() + 64 + 32;
    file[size..size + 8].copy_from_slice(&(u64::MAX - 8).to_le_bytes());
    let elf = Elf::parse(&file).unwrap();
    let sections = elf.sections().unwrap();
    let error = sections.data(&sections.get(1).unwrap()).unwrap_err();
    assert_eq!(error.kind(), "truncated");
}

#[test]
fn the_class_must_be_the_one_of_the_machine() {
    assert_eq!(Elf::parse(&patched(4, &[1])).unwrap_err().kind(), "bad_class");
    assert_eq!(Elf::parse(&patched(4, &[7])).unwrap_err().kind(), "bad_class");
    assert_eq!(Elf::parse(&patched(6, &[2])).unwrap_err().kind(), "bad_version");
    assert_eq!(Elf::parse(&patched(52, &[63, 0])).unwrap_err().kind(), "bad_ehsize");
}

#[test]
fn a_text_file_is_told_from_a_short_file() {
    assert_eq!(Elf::parse(b"#!/bin/sh\n").unwrap_err().kind(), "bad_magic");
    assert_eq!(Elf::parse(b"").unwrap_err().kind(), "truncated");
    assert_eq!(Elf::parse(b"\x7fELF\x02\x01\x01").unwrap_err().kind(), "truncated");
}

#[test]
fn caps_are_the_callers_choice() {
    let file = sample(machine::X86_64).build();
    for limits in [Limits { file_size: 100, ..Limits::DEFAULT }, Limits { program_headers: 2, ..Limits::DEFAULT }] {
        assert_eq!(Elf::parse_with(&file, limits).unwrap_err().kind(), "limit_exceeded");
    }
    let few = Elf::parse_with(&file, Limits { dynamic_entries: 3, sections: 2, notes: 0, ..Limits::DEFAULT }).unwrap();
    assert_eq!(few.dynamic(Pointers::Virtual).unwrap_err().kind(), "limit_exceeded");
    assert_eq!(few.sections().unwrap_err().kind(), "limit_exceeded");
    assert_eq!(few.notes().next().unwrap().unwrap_err().kind(), "limit_exceeded");
    assert_eq!(few.notes().count(), 1, "the notes end after an error");
}

#[test]
fn notes_that_leave_their_segment_are_refused() {
    let mut file = sample(machine::X86_64).build();
    let elf = Elf::parse(&file).unwrap();
    let note = elf.segments().find(|segment| segment.kind == pt::NOTE).unwrap();
    let at = usize::try_from(note.offset).unwrap();
    for (field, value) in [(0, 1000_u32), (0, u32::MAX), (4, 1000), (4, u32::MAX)] {
        let mut file = file.clone();
        file[at + field..at + field + 4].copy_from_slice(&value.to_le_bytes());
        let error = Elf::parse(&file).unwrap().notes().next().unwrap().unwrap_err();
        assert_eq!(error.kind(), "bad_note");
    }
    let len = usize::try_from(note.header).unwrap() + 32;
    file[len..len + 8].copy_from_slice(&7_u64.to_le_bytes());
    assert_eq!(Elf::parse(&file).unwrap().notes().next().unwrap().unwrap_err().kind(), "bad_note");
}

#[test]
fn an_address_is_found_in_the_file_only_where_the_file_has_its_bytes() {
    let file = sample(machine::C7X).build();
    let elf = Elf::parse(&file).unwrap();
    let data = elf.load_segments().nth(1).unwrap();
    assert_eq!(elf.file_offset(data.vaddr + 8, 32), Some(data.offset + 8));
    assert_eq!(elf.file_offset(data.vaddr + 8, 33), None, "the zeroed tail is not in the file");
    assert_eq!(elf.file_offset(u64::MAX, 2), None);
    assert_eq!(elf.file_extent(data.vaddr + 30), Some((data.offset + 30, 10)));
    assert_eq!(elf.file_extent(data.vaddr + 40), None);
    assert!(data.contains(data.vaddr + 71) && !data.contains(data.vaddr + 72));
}
