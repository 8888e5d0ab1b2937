//! Lays out a twin: header, text, data, scratch segment, sections.

use outboard_elf::pi::KernelRow;

use super::elf32::{File, Header, Section, Segment};
use super::plan::{Contents, Plan};
use super::text::{self, Rela};

const SCRATCH: u32 = 0x0300_0000;
const TEXT_OFFSET: u32 = 0x100;
const ALIGN: u32 = 0x80;
const HASH: u32 = 0xa4;
const SYMTAB: u32 = 0xb4;
const STRTAB: u32 = 0xc4;
const RELA: u32 = 0xc8;
const WA: u32 = 3;
const A: u32 = 2;

fn align(value: u32, to: u32) -> u32 {
    value.next_multiple_of(to)
}

fn length(bytes: usize) -> u32 {
    u32::try_from(bytes).expect("a twin is smaller than 4 GiB")
}

/// The file of a plan.
pub(super) fn build(plan: &Plan) -> Vec<u8> {
    let (code, pairs) = text::build(plan).into_parts();
    let mut file = File::new(plan.size);
    file.put(TEXT_OFFSET, &code);
    let data_offset = data_offset(plan);
    let mut words = Vec::new();
    data(plan, &mut file, data_offset, &mut words);
    let relocations = order(&pairs, &words, plan.nones);
    let data_end = plan.bss.0 - plan.data_start;
    let scratch_offset = align(data_offset + data_end, ALIGN);
    let rela_size = 12 * length(relocations.len());
    let scratch_size = RELA + rela_size;
    dynamic(plan, &mut file, scratch_offset, rela_size);
    let entries = relocations.iter().flat_map(|rela| [rela.place, rela.kind, rela.addend]);
    file.words(scratch_offset + RELA, entries);
    let load = |offset, address, filesz, memsz, flags| Segment {
        kind: 1,
        offset,
        address,
        filesz,
        memsz,
        flags,
        align: ALIGN,
    };
    let segments = [
        load(TEXT_OFFSET, plan.code_base, plan.text_size, plan.text_size, 5),
        load(data_offset, plan.data_start, data_end, data_end + plan.bss.1, 7),
        load(scratch_offset, SCRATCH, scratch_size, scratch_size, 3),
        Segment { kind: 2, offset: scratch_offset, address: SCRATCH, filesz: HASH, memsz: HASH, flags: 6, align: 4 },
    ];
    let (sections, names) = sections(plan, &mut file, data_offset, scratch_offset, rela_size);
    let shoff = plan.size - 40 * length(sections.len());
    file.finish(&Header { kind: plan.kind, entry: plan.entry, shoff }, &segments, &sections, names)
}

/// The first offset behind the text that is congruent to the data's address.
fn data_offset(plan: &Plan) -> u32 {
    let inside = plan.data_start % ALIGN;
    let end = TEXT_OFFSET + plan.text_size;
    let start = align(end, ALIGN);
    if start >= ALIGN && start - ALIGN + inside >= end { start - ALIGN + inside } else { start + inside }
}

fn data(plan: &Plan, file: &mut File, offset: u32, words: &mut Vec<Rela>) {
    let relative = |place| Rela { place, kind: 5, addend: 0 };
    let at = |address: u32| offset + (address - plan.data_start);
    for section in &plan.data {
        match &section.contents {
            Contents::Bytes(bytes) => file.put(at(section.address), bytes),
            Contents::Constructors(functions) => {
                let list = [u32::MAX].into_iter().chain(functions.iter().copied()).chain([0]);
                file.words(at(section.address), list);
                words.extend((1..=length(functions.len())).map(|index| relative(section.address + 4 * index)));
            }
            Contents::Pointer(target) => {
                file.words(at(section.address), [*target]);
                words.push(relative(section.address));
            }
        }
    }
    for ((spec, opcode, function), address) in plan.kernels.iter().zip((plan.table..).step_by(8)) {
        file.put(at(address), &KernelRow::encode(*spec, *opcode, *function));
        words.push(relative(address + 4));
    }
}

/// The relocations in the order of the file: the first pair, two empty ones, the other pairs, the words. The rest of the
/// empty ones come in twos behind pairs.
fn order(pairs: &[[Rela; 2]], words: &[Rela], nones: u32) -> Vec<Rela> {
    let mut list = Vec::new();
    let mut left = nones;
    for (index, pair) in pairs.iter().enumerate() {
        list.extend(pair);
        let wanted = if index % 2 == 0 { left.min(2) } else { 0 };
        list.extend((0..wanted).map(|_| Rela { place: 0, kind: 0, addend: 0 }));
        left -= wanted;
    }
    assert_eq!(left, 0, "a twin has room for its empty relocations");
    list.extend(words);
    list
}

fn dynamic(plan: &Plan, file: &mut File, offset: u32, rela_size: u32) {
    let end = SCRATCH + RELA + rela_size;
    let entries = [
        (7, SCRATCH + RELA),
        (8, rela_size),
        (9, 12),
        (3, end),
        (4, SCRATCH + HASH),
        (6, SCRATCH + SYMTAB),
        (5, SCRATCH + STRTAB),
        (10, 1),
        (11, 16),
        (12, plan.init),
        (13, plan.fini),
        (21, 0),
        (0x7000_0000, end + 4),
        (0x7000_0001, 0),
        (0, 0),
    ];
    file.words(offset, entries.iter().flat_map(|(tag, value)| [*tag, *value]));
    file.words(offset + HASH, [1, 1, 0, 0]);
}

/// The section headers, and where their names go.
fn sections(plan: &Plan, file: &mut File, data: u32, scratch: u32, rela_size: u32) -> (Vec<Section>, u32) {
    let progbits = |name: &str, flags, address, offset, size, align| Section {
        name: name.to_owned(),
        kind: 1,
        flags,
        address,
        offset,
        size,
        align,
        entsize: 0,
    };
    let at = |address: u32| data + (address - plan.data_start);
    let mut list = vec![Section::default()];
    list.push(progbits(".text", 6, plan.code_base, TEXT_OFFSET, plan.text_size, 32));
    let table_size = 8 * length(plan.kernels.len());
    let table = progbits("kernel_info_table", WA, plan.table, at(plan.table), table_size, 8);
    let mut in_data: Vec<Section> = plan
        .data
        .iter()
        .map(|s| progbits(s.name, if s.writable { WA } else { A }, s.address, at(s.address), s.size, s.align))
        .chain([table])
        .collect();
    in_data.sort_by_key(|section| section.address);
    list.extend(in_data);
    let (bss, bss_size) = plan.bss;
    list.push(Section { kind: 8, ..progbits(".bss", WA, bss, at(bss), bss_size, 16) });
    let mut next = scratch + RELA + rela_size;
    let comment: Vec<u8> = plan.comment.bytes().chain([0]).collect();
    file.put(next, &comment);
    let size = length(comment.len());
    list.push(Section { entsize: 1, ..progbits(".comment", 0x30, 0, next, size, 1) });
    next = align(next + size, 4);
    let mut starts: Vec<u32> = plan.functions.iter().map(|function| plan.code_base + function.at).collect();
    starts.sort_unstable();
    for (name, start) in &plan.properties {
        let end = starts.iter().find(|other| *other > start).copied().unwrap_or(plan.code_base + plan.text_size);
        file.words(next, [*start, end - start, 0x2a]);
        list.push(progbits(&format!(".xt.prop.{name}"), 0, 0, next, 12, 1));
        next += 12;
    }
    for index in 0..plan.unnamed {
        list.push(progbits(&format!(".twin.{index}"), 0, 0, next, 0, 1));
    }
    list.push(Section { kind: 6, entsize: 8, ..progbits(".dynamic", WA, SCRATCH, scratch, HASH, 4) });
    let rela = progbits(".rela.got", A, SCRATCH + RELA, scratch + RELA, rela_size, 4);
    list.push(Section { kind: 4, entsize: 12, ..rela });
    list.push(Section { kind: 3, ..progbits(".shstrtab", 0, 0, next, 0, 1) });
    (list, next)
}
