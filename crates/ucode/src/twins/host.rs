//! Twins of the two host libraries that carry device images: x86-64 shared objects whose sections lie at the documented
//! addresses, each with another distance between address and file offset.

use super::image;

/// The manifest that stands for "none": 32 bytes.
pub const STUB: &[u8; 32] = br#"{"dummy_message": "hello world"}"#;

/// An image in a library.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slot {
    /// Name of the twin.
    image: &'static str,
    /// Prefix of its symbols.
    symbol: &'static str,
    /// File offset.
    offset: u64,
    /// File offset of its manifest.
    json: u64,
    /// Address of its getter; the manifest's follows 0x20 bytes later.
    getter: u64,
}

/// A host library.
#[derive(Debug)]
pub struct Library {
    /// Name of its file.
    pub file: &'static str,
    size: u64,
    slots: &'static [Slot],
    /// Address of the text; its file offset is 0x1000 less.
    text: u64,
    text_size: u64,
    /// Address of the tables of getters; its file offset is 0x2000 less.
    tables: u64,
    /// Symbol of each table, its offset in the section, and the first of its slots.
    table_names: &'static [(&'static str, u64, Option<usize>)],
    undefined: &'static [&'static str],
}

const fn slot(image: &'static str, symbol: &'static str, offset: u64, json: u64, getter: u64) -> Slot {
    Slot { image, symbol, offset, json, getter }
}

/// The library with the resident images.
pub const HOST: Library = Library {
    file: "libhost_twin.so",
    size: 10_276_288,
    slots: &[
        slot("cayman_0", "CAYMAN_Q7_POOL_PERF_EXTISA_0", 0x2e_f7e0, 0x2f_9a40, 0x9b_3aa0),
        slot("cayman_1", "CAYMAN_Q7_POOL_PERF_EXTISA_1", 0x2f_9a60, 0x2f_a9c0, 0x9b_3ae0),
        slot("cayman_2", "CAYMAN_Q7_POOL_PERF_EXTISA_2", 0x2f_a9e0, 0x2f_bee0, 0x9b_3b20),
        slot("cayman_3", "CAYMAN_Q7_POOL_PERF_EXTISA_3", 0x2f_bf00, 0x30_2880, 0x9b_3b60),
        slot("mariana_0", "MARIANA_Q7_POOL_PERF_EXTISA_0", 0x58_93c0, 0x59_3620, 0x9b_4720),
        slot("mariana_1", "MARIANA_Q7_POOL_PERF_EXTISA_1", 0x59_3640, 0x59_45a0, 0x9b_4760),
        slot("mariana_2", "MARIANA_Q7_POOL_PERF_EXTISA_2", 0x59_45c0, 0x59_5ac0, 0x9b_47a0),
        slot("mariana_3", "MARIANA_Q7_POOL_PERF_EXTISA_3", 0x59_5ae0, 0x59_c460, 0x9b_47e0),
        slot("mariana_plus_0", "MARIANA_PLUS_Q7_POOL_PERF_EXTISA_0", 0x85_5240, 0x85_f4a0, 0x9b_53a0),
        slot("mariana_plus_1", "MARIANA_PLUS_Q7_POOL_PERF_EXTISA_1", 0x85_f4c0, 0x86_0420, 0x9b_53e0),
        slot("mariana_plus_2", "MARIANA_PLUS_Q7_POOL_PERF_EXTISA_2", 0x86_0440, 0x86_1940, 0x9b_5420),
        slot("mariana_plus_3", "MARIANA_PLUS_Q7_POOL_PERF_EXTISA_3", 0x86_1960, 0x86_82e0, 0x9b_5460),
        slot("maverick_0", "MAVERICK_Q7_POOL_PERF_EXTISA_0", 0x99_4de0, 0x99_cd90, 0x9b_5ba0),
        slot("maverick_1", "MAVERICK_Q7_POOL_PERF_EXTISA_1", 0x99_cdb0, 0x99_da20, 0x9b_5be0),
        slot("maverick_2", "MAVERICK_Q7_POOL_PERF_EXTISA_2", 0x99_da40, 0x99_ecc0, 0x9b_5c20),
        slot("maverick_3", "MAVERICK_Q7_POOL_PERF_EXTISA_3", 0x99_ece0, 0x9a_4280, 0x9b_5c60),
    ],
    text: 0x9b_01a0,
    text_size: 0x7800,
    tables: 0x9b_8f80,
    table_names: &[
        ("sunda_libs", 0x00, None),
        ("cayman_libs", 0x10, Some(0)),
        ("mariana_libs", 0x50, Some(4)),
        ("mariana_plus_libs", 0x90, Some(8)),
        ("maverick_libs", 0xd0, Some(12)),
    ],
    undefined: &["SUNDA_Q7_POOL_RELEASE_EXTISA_0_SO_get", "SUNDA_Q7_POOL_RELEASE_EXTISA_0_JSON_get"],
};

/// The library with thirteen images, those of a generation in reverse order, and the only one of SUNDA.
pub const CONTAINER: Library = Library {
    file: "libcontainer_twin.so",
    size: 9_656_488,
    slots: &[
        slot("mariana_3", "MARIANA_Q7_POOL_PERF_EXTISA_3", 0x1_4020, 0x1_a9a0, 0x92_f9a0),
        slot("mariana_2", "MARIANA_Q7_POOL_PERF_EXTISA_2", 0x1_a9c0, 0x1_bec0, 0x92_f9e0),
        slot("mariana_1", "MARIANA_Q7_POOL_PERF_EXTISA_1", 0x1_bee0, 0x1_ce40, 0x92_fa20),
        slot("mariana_0", "MARIANA_Q7_POOL_PERF_EXTISA_0", 0x1_ce60, 0x2_70c0, 0x92_fa60),
        slot("mariana_plus_3", "MARIANA_PLUS_Q7_POOL_PERF_EXTISA_3", 0x2f_70a0, 0x2f_da20, 0x92_faa0),
        slot("mariana_plus_2", "MARIANA_PLUS_Q7_POOL_PERF_EXTISA_2", 0x2f_da40, 0x2f_ef40, 0x92_fae0),
        slot("mariana_plus_1", "MARIANA_PLUS_Q7_POOL_PERF_EXTISA_1", 0x2f_ef60, 0x2f_fec0, 0x92_fb20),
        slot("mariana_plus_0", "MARIANA_PLUS_Q7_POOL_PERF_EXTISA_0", 0x2f_fee0, 0x30_a140, 0x92_fb60),
        slot("cayman_3", "CAYMAN_Q7_POOL_PERF_EXTISA_3", 0x5a_7e80, 0x5a_e800, 0x92_fba0),
        slot("cayman_2", "CAYMAN_Q7_POOL_PERF_EXTISA_2", 0x5a_e820, 0x5a_fd20, 0x92_fbe0),
        slot("cayman_1", "CAYMAN_Q7_POOL_PERF_EXTISA_1", 0x5a_fd40, 0x5b_0ca0, 0x92_fc20),
        slot("cayman_0", "CAYMAN_Q7_POOL_PERF_EXTISA_0", 0x5b_0cc0, 0x5b_af20, 0x92_fc60),
        slot("sunda_0", "SUNDA_Q7_POOL_RELEASE_EXTISA_0", 0x92_1660, 0x92_0fa0, 0x92_fca0),
    ],
    text: 0x92_f9a0,
    text_size: 0x400,
    tables: 0x93_2000,
    table_names: &[("sunda_libs", 0, Some(12))],
    undefined: &[],
};

/// Manifest of the library of SUNDA: 1,728 bytes with the functions of its kernel table, one left out as in the original.
fn sunda_manifest() -> Vec<u8> {
    let functions = [
        ("pool_indirect_copy", 0xe7),
        ("pool_tensor_scalar_addr", 0x74),
        ("pool_pool_buffer_load", 0x67),
        ("pool_copy", 0x46),
        ("pool_cast", 0x47),
        ("dma_memcopy", 0xb8),
        ("dma_memcopy_indirect", 0xbb),
        ("pool_iota", 0x7e),
        ("pool_tensor_tensor_arith_op", 0x41),
        ("pool_cross_lane_reduce_arith", 0x7c),
        ("pool_cross_lane_reduce_bitvec", 0x7d),
        ("pool_memset", 0x49),
        ("pool_load_pool_argument", 0x7a),
        ("pool_embedding_update", 0x79),
        ("pool_tensor_scalar_arith_op", 0x43),
        ("pool_tensor_scalar_ptr_arith_op", 0x44),
        ("pool_tensor_scalar_affine_select", 0x92),
    ];
    let rows: Vec<String> =
        functions.iter().map(|(name, opcode)| format!(r#"{{"name":"{name}","opcode":{opcode}}}"#)).collect();
    let head = r#"{"library":"all.stripped.so","ulib_to_ucode_version":"1.21.1.0","functions":["#;
    let mut json = format!("{head}{}]}}", rows.join(",")).into_bytes();
    json.resize(0x6c0, b' ');
    json
}

fn at(value: u64) -> usize {
    usize::try_from(value).expect("a library is smaller than 4 GiB")
}

struct Writer {
    bytes: Vec<u8>,
    names: Vec<u8>,
    symbols: Vec<[u64; 3]>,
    relocations: Vec<[u64; 3]>,
}

impl Writer {
    fn put(&mut self, offset: u64, bytes: &[u8]) {
        self.bytes[at(offset)..at(offset) + bytes.len()].copy_from_slice(bytes);
    }

    fn name(&mut self, name: &str) -> u64 {
        let offset = self.names.len() as u64;
        self.names.extend(name.bytes().chain([0]));
        offset
    }

    /// One symbol: `info` and `section` in the upper half of the first word.
    fn symbol(&mut self, name: &str, info: u64, section: u64, value: u64, size: u64) {
        let name = self.name(name);
        self.symbols.push([name | info << 32 | section << 48, value, size]);
    }

    /// A getter: returns an address and a length through its two pointers.
    fn getter(&mut self, address: u64, target: u64, len: u64) {
        let next = i64::try_from(address + 7).expect("a small address");
        let distance = i64::try_from(target).expect("a small address") - next;
        let distance = i32::try_from(distance).expect("a library is smaller than 2 GiB");
        let len = u32::try_from(len).expect("an image is smaller than 4 GiB");
        let code = [
            [0x48, 0x8d, 0x05].as_slice(),
            &distance.to_le_bytes(),
            &[0x48, 0x89, 0x07],
            &[0x48, 0xc7, 0x06],
            &len.to_le_bytes(),
            &[0x31, 0xc0, 0xc3],
        ];
        self.put(address - TEXT_DELTA, &code.concat());
    }
}

const TEXT_DELTA: u64 = 0x1000;
const TABLES_DELTA: u64 = 0x2000;
const DATA_DELTA: u64 = 0x3000;
const RODATA: u64 = 0x1000;
/// Section numbers in the order of [`build`].
const RODATA_SECTION: u64 = 1;
const TEXT_SECTION: u64 = 2;
const TABLES_SECTION: u64 = 3;
const DATA_SECTION: u64 = 4;
const GLOBAL_FUNC: u64 = 0x12;
const LOCAL_OBJECT: u64 = 0x01;
const WEAK: u64 = 0x20;

/// The file of a library.
pub(super) fn build(library: &Library) -> Vec<u8> {
    let mut out =
        Writer { bytes: vec![0; at(library.size)], names: vec![0], symbols: vec![[0; 3]], relocations: Vec::new() };
    for slot in library.slots {
        let elf = image(slot.image).expect("a slot names a twin");
        let json = if slot.image == "sunda_0" { sunda_manifest() } else { STUB.to_vec() };
        let parts = [("SO", slot.offset, elf, slot.getter), ("JSON", slot.json, json, slot.getter + 0x20)];
        for (kind, offset, bytes, getter) in parts {
            let name = format!("{}_{kind}_get", slot.symbol);
            let len = bytes.len() as u64;
            out.put(offset, &bytes);
            out.symbol(&format!("{name}.data"), LOCAL_OBJECT, RODATA_SECTION, offset, len);
            out.getter(getter, offset, len);
            out.symbol(&name, GLOBAL_FUNC, TEXT_SECTION, getter, 0x20);
        }
    }
    let mut tables_size = 0;
    for (name, offset, first) in library.table_names {
        let count = if *name == "sunda_libs" { 1 } else { 4 };
        let address = library.tables + offset;
        out.symbol(name, LOCAL_OBJECT, TABLES_SECTION, address, 16 * count);
        tables_size = tables_size.max(offset + 16 * count);
        let Some(first) = *first else { continue };
        for (slot, row) in library.slots[first..first + at(count)].iter().zip(0..) {
            for (getter, column) in [(slot.getter, 0), (slot.getter + 0x20, 8)] {
                out.relocations.push([address + 16 * row + column, 8, getter]);
            }
        }
    }
    for name in library.undefined {
        out.symbol(name, WEAK, 0, 0, 0);
    }
    headers(library, out, tables_size)
}

fn headers(library: &Library, mut out: Writer, tables_size: u64) -> Vec<u8> {
    let tables = (library.tables, library.tables - TABLES_DELTA, tables_size);
    let data_address = (library.tables + tables_size).next_multiple_of(0x1000) + 0x1000;
    let data = (data_address, data_address - DATA_DELTA, 16);
    let text = (library.text, library.text - TEXT_DELTA, library.text_size);
    let rodata = (RODATA, RODATA, library.text - TEXT_DELTA - RODATA);
    out.symbol("ucode_flavor", LOCAL_OBJECT, DATA_SECTION, data_address, 4);
    let words = |rows: &[[u64; 3]]| rows.iter().flatten().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    let (symbols, relocations) = (words(&out.symbols), words(&out.relocations));
    let section_names = b"\0.rodata\0.text\0.data.rel.ro\0.data\0.rela.dyn\0.symtab\0.strtab\0.shstrtab\0";
    let mut next = (data.1 + data.2).next_multiple_of(16);
    let mut place = |out: &mut Writer, bytes: &[u8]| {
        let offset = next;
        out.put(offset, bytes);
        next = (offset + bytes.len() as u64).next_multiple_of(16);
        offset
    };
    let rela_at = place(&mut out, &relocations);
    let symtab_at = place(&mut out, &symbols);
    let names = std::mem::take(&mut out.names);
    let strtab_at = place(&mut out, &names);
    let shstrtab_at = place(&mut out, section_names);
    // name, type | flags << 32, address, offset, size, link, align, entsize
    let sections: [[u64; 8]; 9] = [
        [0; 8],
        [1, 1 | 2 << 32, rodata.0, rodata.1, rodata.2, 0, 32, 0],
        [9, 1 | 6 << 32, text.0, text.1, text.2, 0, 32, 0],
        [15, 1 | 3 << 32, tables.0, tables.1, tables.2, 0, 16, 0],
        [28, 1 | 3 << 32, data.0, data.1, data.2, 0, 16, 0],
        [34, 4 | 2 << 32, 0, rela_at, relocations.len() as u64, 6, 8, 24],
        [44, 2, 0, symtab_at, symbols.len() as u64, 7, 8, 24],
        [52, 3, 0, strtab_at, names.len() as u64, 0, 1, 0],
        [60, 3, 0, shstrtab_at, section_names.len() as u64, 0, 1, 0],
    ];
    let shoff = library.size - 64 * sections.len() as u64;
    for (section, offset) in sections.iter().zip((shoff..).step_by(64)) {
        let [name, kind, address, at, size, link, align, entsize] = *section;
        let row = [name | (kind & 0xffff_ffff) << 32, kind >> 32, address, at, size, link, align, entsize];
        let bytes: Vec<u8> = row.iter().flat_map(|word| word.to_le_bytes()).collect();
        out.put(offset, &bytes);
    }
    let load = |(address, offset, size): (u64, u64, u64), flags: u64| {
        [1 | flags << 32, offset, address, address, size, size, 0x1000]
    };
    let segments = [load((0, 0, rodata.1 + rodata.2), 4), load(text, 5), load(tables, 6), load(data, 6)];
    for (segment, offset) in segments.iter().zip((64..).step_by(56)) {
        let bytes: Vec<u8> = segment.iter().flat_map(|word| word.to_le_bytes()).collect();
        out.put(offset, &bytes);
    }
    out.put(0, &[0x7f, b'E', b'L', b'F', 2, 1, 1]);
    out.put(16, &[3, 0, 62, 0, 1, 0, 0, 0]);
    out.put(32, &64_u64.to_le_bytes());
    out.put(40, &shoff.to_le_bytes());
    let counts = [64, 56, segments.len() as u64, 64, sections.len() as u64, sections.len() as u64 - 1];
    for (count, offset) in counts.iter().zip((52..).step_by(2)) {
        out.put(offset, &count.to_le_bytes()[..2]);
    }
    out.bytes
}
