//! Makes the file of a plan.

use outboard_elf::image::{Bss, Chunk, PiImage, Property};
use outboard_elf::pi::KernelRow;

use super::plan::{Contents, Plan};
use super::text::{self, Rela};

/// The file of a plan.
pub(super) fn build(plan: &Plan) -> Vec<u8> {
    let (code, pairs) = text::build(plan).into_parts();
    let mut words = Vec::new();
    let data = data(plan, &mut words);
    let image = PiImage {
        kind: plan.kind,
        entry: plan.entry,
        init: plan.init,
        fini: plan.fini,
        text: Chunk { name: ".text".into(), address: plan.code_base, align: 32, writable: false, bytes: code },
        data,
        bss: Bss { address: plan.bss.0, size: plan.bss.1, align: 16 },
        relocations: order(&pairs, &words, plan.nones),
        comment: plan.comment.into(),
        debug: Vec::new(),
        properties: properties(plan),
        symbols: Vec::new(),
        empty_sections: (0..plan.unnamed).map(|index| format!(".twin.{index}")).collect(),
        size: Some(plan.size),
    };
    image.build().expect("the parts of a twin fit")
}

/// The data sections, and the places of the words in them that hold addresses.
fn data(plan: &Plan, places: &mut Vec<u32>) -> Vec<Chunk> {
    let bytes = |words: Vec<u32>| words.into_iter().flat_map(u32::to_le_bytes).collect::<Vec<u8>>();
    let mut chunks = Vec::new();
    for section in &plan.data {
        let mut contents = match &section.contents {
            Contents::Bytes(bytes) => bytes.clone(),
            Contents::Constructors(functions) => {
                places.extend(functions.iter().zip((section.address + 4..).step_by(4)).map(|(_, place)| place));
                bytes([u32::MAX].into_iter().chain(functions.iter().copied()).chain([0]).collect())
            }
            Contents::Pointer(target) => {
                places.push(section.address);
                bytes(vec![*target])
            }
        };
        contents.resize(usize::try_from(section.size).expect("a small section"), 0);
        chunks.push(Chunk {
            name: section.name.into(),
            address: section.address,
            align: section.align,
            writable: section.writable,
            bytes: contents,
        });
    }
    let rows = plan.kernels.iter().flat_map(|(spec, opcode, function)| KernelRow::encode(*spec, *opcode, *function));
    places.extend(plan.kernels.iter().zip((plan.table + 4..).step_by(8)).map(|(_, place)| place));
    let name = "kernel_info_table".into();
    chunks.push(Chunk { name, address: plan.table, align: 8, writable: true, bytes: rows.collect() });
    chunks.sort_by_key(|chunk| chunk.address);
    chunks
}

/// The relocations in the order of the file: the first pair, two empty ones, the other pairs, the words. The rest of the
/// empty ones come in twos behind pairs.
fn order(pairs: &[[Rela; 2]], words: &[u32], nones: u32) -> Vec<[u32; 3]> {
    let mut list = Vec::new();
    let mut left = nones;
    for (index, pair) in pairs.iter().enumerate() {
        list.extend(pair.iter().map(|rela| [rela.place, rela.kind, rela.addend]));
        let wanted = if index % 2 == 0 { left.min(2) } else { 0 };
        list.extend((0..wanted).map(|_| [0; 3]));
        left -= wanted;
    }
    assert_eq!(left, 0, "a twin has room for its empty relocations");
    list.extend(words.iter().map(|place| [*place, 5, 0]));
    list
}

fn properties(plan: &Plan) -> Vec<Property> {
    let mut starts: Vec<u32> = plan.functions.iter().map(|function| plan.code_base + function.at).collect();
    starts.sort_unstable();
    let end =
        |start: u32| starts.iter().find(|other| **other > start).copied().unwrap_or(plan.code_base + plan.text_size);
    let property =
        |(name, start): &(String, u32)| Property { name: name.clone(), address: *start, size: end(*start) - start };
    plan.properties.iter().map(property).collect()
}
