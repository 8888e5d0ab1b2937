//! Seeds of the GPSIMD targets: a small image of each shape, one for each rule of the prelinker, containers and streams.

use outboard_elf::write::{ImageBuilder, SegmentSpec, SymbolSpec};
use outboard_elf::{machine, pf};
use outboard_link::pi::{PrelinkRequest, prelink};
use outboard_neff::metaneff::{DataType, MetaNeff, MetaTensor, TensorRole};
use outboard_neff::patch::Patch;
use outboard_neff::seq::{
    Arg, ArgTensor, ElementType, Instruction, LoadPoolArgument, ModifyPoolConfig, PayloadCount, Shape, Storage,
    encode_chain,
};
use outboard_neff::{PackOptions, Packager, pack};
use outboard_ucode::{cores, twins};
use outboard_xtensa::asm::{AsmOptions, assemble};

use super::Seed;

/// Folder of the corpus and its seeds.
pub fn all() -> Vec<(&'static str, Vec<Seed>)> {
    vec![
        ("pi", shapes()),
        ("prelink", broken()),
        ("ucpl", prelinked()),
        ("carve", libraries()),
        ("neff", containers()),
        ("seq", streams()),
        ("shape", objects()),
    ]
}

fn image(name: &str) -> Vec<u8> {
    twins::image(name).unwrap_or_default()
}

/// A member of an archive.
fn member(name: &str, data: &[u8]) -> Vec<u8> {
    let head = format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n", 0, 0, 0, 644, data.len());
    [head.as_bytes(), data, if data.len() % 2 == 1 { b"\n" } else { b"" }].concat()
}

fn shapes() -> Vec<Seed> {
    let object = {
        let mut image = ImageBuilder::new(machine::XTENSA);
        image.kind(outboard_elf::et::REL).segment(SegmentSpec::new(pf::R | pf::X, vec![0x36, 0x41, 0, 0x1d, 0xf0]));
        image.without_dynamic().build()
    };
    let small = image("cayman_1");
    let archive = [b"!<arch>\n".to_vec(), member("a.o/", &object), member("b.elf/", &small)].concat();
    vec![
        ("cayman_1", small),
        ("cayman_2", image("cayman_2")),
        ("maverick_1", image("maverick_1")),
        ("sunda_0", image("sunda_0")),
        ("object", object),
        ("archive", archive),
    ]
}

/// The smallest image, and copies that break one rule of the prelinker each.
fn broken() -> Vec<Seed> {
    let good = image("cayman_1");
    let word = |at: usize| good.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |word| u32::from_le_bytes(*word));
    let header = |index: usize, field: usize| 0x34 + 32 * index + field;
    let at = |value: u32| usize::try_from(value).unwrap_or(0);
    let table = at(word(header(2, 4))) + 0xc8;
    let entry = |index: usize, field: usize| table + 12 * index + 4 * field;
    let code = |index: usize| at(word(entry(index, 0)) & 0xff_ffff) + at(word(header(0, 4)));
    let with = |patches: &[(usize, u32)]| {
        let mut file = good.clone();
        for (at, value) in patches {
            if let Some(place) = file.get_mut(*at..).and_then(<[u8]>::first_chunk_mut) {
                *place = value.to_le_bytes();
            }
        }
        file
    };
    vec![
        ("good", good.clone()),
        ("class", with(&[(4, 0x0101_0102)])),
        ("machine", with(&[(16, 0x3e_0002)])),
        ("text_flags", with(&[(header(0, 24), 7)])),
        ("data_flags", with(&[(header(1, 24), 4)])),
        ("no_scratch", with(&[(header(2, 24), 6)])),
        ("dynamic_type", with(&[(header(3, 0), 1)])),
        ("no_table", with(&[(at(word(header(2, 4))), 0x7fff_ffff)])),
        ("table_outside", with(&[(at(word(header(2, 4))) + 4, 0x0300_ffff)])),
        ("text_too_large", with(&[(header(0, 20), 0x8001)])),
        ("data_too_large", with(&[(header(1, 20), 0x2001)])),
        ("file_larger", with(&[(header(1, 20), 4)])),
        ("physical", with(&[(header(1, 12), 0x0200_004c)])),
        ("align", with(&[(header(0, 28), 3), (32, 0), (46, 0x2200_0000)])),
        ("symbol", with(&[(entry(0, 1), 0x100 + 35)])),
        ("type", with(&[(entry(0, 1), 9)])),
        ("slot", with(&[(entry(0, 1), 36)])),
        ("outside", with(&[(entry(0, 0), 0x0180_0000)])),
        ("orphan", with(&[(entry(0, 1), 0)])),
        ("twice", with(&[(entry(2, 0), word(entry(0, 0)))])),
        ("l32r", with(&[(code(0), 0x2100_0021)])),
        ("density", with(&[(code(0), 0xf01d_f01d)])),
        ("call", with(&[(code(0), 0x0000_0025)])),
        ("flix_narrow", with(&[(code(0), 0x0000_000f)])),
        ("flix_wide", with(&[(code(0), 0x0100_000e)])),
        ("flix_unknown", with(&[(code(0), 0x0300_000f)])),
        ("cut", good.get(..0x200).unwrap_or_default().to_vec()),
    ]
}

fn prelinked() -> Vec<Seed> {
    let staged = |name: &str, kind: u32| {
        let core = cores::by_kind(kind)?;
        let image = prelink(&PrelinkRequest::new(&image(name), &core.bounds)).ok()?;
        Some(image.image())
    };
    let good = staged("cayman_1", 13).unwrap_or_default();
    let with = |at: usize, value: u8| {
        let mut file = good.clone();
        if let Some(byte) = file.get_mut(at) {
            *byte = value;
        }
        file
    };
    vec![
        ("cayman_1", good.clone()),
        ("sunda_0", staged("sunda_0", 6).unwrap_or_default()),
        ("magic", with(4, 0x21)),
        ("code_length", with(8, 1)),
        ("data_offset", with(12, 1)),
        ("too_large", with(10, 1)),
        ("no_start", [&good[..28], &[0; 4], &good[32..]].concat()),
        ("cut", good[..40].to_vec()),
        ("short", good[..20].to_vec()),
    ]
}

/// An x86-64 library whose getter returns an image.
fn libraries() -> Vec<Seed> {
    let (elf, stub) = (image("cayman_1"), twins::STUB.to_vec());
    let image_size = elf.len() as u64;
    let mut library = ImageBuilder::new(machine::X86_64);
    let text = vec![0x48, 0x8d, 0x05, 0xf9, 0x0f, 0, 0, 0x48, 0x89, 0x07, 0x31, 0xc0, 0xc3, 0, 0, 0];
    let text = library.segment(SegmentSpec::new(pf::R | pf::X, text).at(0x1000).named(".text"));
    let data = [elf.clone(), stub].concat();
    let data = library.segment(SegmentSpec::new(pf::R, data).at(0x2000).named(".rodata"));
    library.symbol(SymbolSpec::function("CAYMAN_Q7_POOL_PERF_EXTISA_0_SO_get", text, 0, 16));
    let by_code = library.build();
    library.symbol(SymbolSpec::object("CAYMAN_Q7_POOL_PERF_EXTISA_0_SO_get.data", data, 0, image_size));
    library.symbol(SymbolSpec::object("CAYMAN_Q7_POOL_PERF_EXTISA_0_JSON_get.data", data, image_size, 32));
    let tables = library.segment(SegmentSpec::new(pf::R | pf::W, [0x1000_u64.to_le_bytes(); 8].concat()).named(".t"));
    library.symbol(SymbolSpec::object("mariana_libs", tables, 0, 64));
    let named = library.build();
    let blob = [b"junk".as_slice(), &elf, &elf[..60], &elf].concat();
    vec![("by_code", by_code), ("named", named), ("blob", blob)]
}

const MANIFEST: &str = r#"{"ucode_lib":[{"library":"l.so","ulib_to_ucode_version":"1.21.1.0","total_cpus":1,
 "functions":[{"name":"f","opcode":133,"sub_opcode":0}]}]}"#;
const GRAPH: &str = r#"{"name":"g","var":{"x":{"var_id":0,"type":"input","size":4,"framework_shape":[1,4]},
 "y":{"var_id":1,"type":"output"}},"ucode_lib":"ucode_lib.json","pool":{"instr":"pool.bin","dma":[]},
 "dma_queue":{"q":{"type":"in"}}}"#;

fn containers() -> Vec<Seed> {
    let stream = streams().swap_remove(0).1;
    let patches: Vec<u8> =
        [0, 3].iter().flat_map(|kind| Patch { offset: 0, slots: 1, kind: *kind, section: 2 }.encode()).collect();
    let members = |changes: &[(&str, &[u8])]| -> Vec<(String, Vec<u8>)> {
        let mut members: Vec<(&str, Vec<u8>)> = vec![
            ("kelf-a.json", br#"{"graphs":[{"definition":"sg00/def.json","name":"sg00"}],"target":"v2"}"#.to_vec()),
            ("neff.json", b"{}".to_vec()),
            ("sg00/def.json", GRAPH.into()),
            ("sg00/pool.bin", stream.clone()),
            ("sg00/pool_kbin_patch.bin", patches.clone()),
            ("ucode_lib.json", MANIFEST.into()),
            ("l.so", image("cayman_1")),
        ];
        for (name, data) in changes {
            members.retain(|(known, _)| known != name);
            members.push((name, data.to_vec()));
        }
        members.into_iter().map(|(name, data)| (name.to_owned(), data)).collect()
    };
    let packed = |packager, changes: &[(&str, &[u8])]| {
        pack(&members(changes), &PackOptions { packager, ..PackOptions::default() }).unwrap_or_default()
    };
    let raw = |changes: &[(&str, &[u8])]| packed(Packager::Raw, changes);
    let tensor = MetaTensor {
        name: "input0".to_owned(),
        shape: vec![1, 32],
        data_type: DataType(1),
        role: TensorRole(1),
        ..MetaTensor::default()
    };
    let message = MetaNeff { input_tensors: vec![tensor], name: "m".to_owned(), ..MetaNeff::default() };
    let gzip = packed(Packager::Gzip, &[]);
    let header = |at: usize, value: u8| {
        let mut file = gzip.clone();
        if let Some(byte) = file.get_mut(at) {
            *byte = value;
        }
        file
    };
    vec![
        ("raw", raw(&[])),
        ("gzip", gzip.clone()),
        ("inline", raw(&[("sg00/def.json", GRAPH.replace("\"ucode_lib.json\"", "[]").as_bytes())])),
        ("target", raw(&[("kelf-a.json", br#"{"target":"v9"}"#)])),
        ("no_output", raw(&[("sg00/def.json", br#"{"var":{"x":{"var_id":0,"type":"input"}}}"#)])),
        ("library", raw(&[("l.so", b"not a library")])),
        ("weights", raw(&[("sg00/w.npy", b"\x93NUMPY\x01\x00\x02\x00{}")])),
        ("version", header(0x18, 3)),
        ("packager", header(0, 3)),
        ("features", header(0x223, 0x40)),
        ("hash", header(0xac, 1)),
        ("header_size", header(9, 9)),
        ("data_size", header(0x13, 9)),
        ("manifest", MANIFEST.into()),
        ("graph", GRAPH.into()),
        ("metaneff", message.encode()),
    ]
}

fn streams() -> Vec<Seed> {
    let tensor = |storage, shape| Arg::Tensor(ArgTensor { dtype: ElementType::FP32, shape, storage });
    let hbm = tensor(
        Storage::Hbm { address: 0x40_1234_5000, elements: 32_768 },
        Shape::Inline8([128, 256, 0, 0, 0, 0, 0, 0]),
    );
    let chain =
        encode_chain(7, std::slice::from_ref(&hbm), std::slice::from_ref(&hbm), PayloadCount::Compiler).concat();
    let mut mixed = Instruction::ModifyPoolConfig(ModifyPoolConfig::load(0x1000, 3, 0x73cc)).encode().to_vec();
    mixed.extend(Instruction::LoadPoolArgument(LoadPoolArgument { pointers: 3, immediates: [7; 8] }).encode());
    mixed.extend(Instruction::EventSemaphore.encode());
    let mut public = [0; 128];
    public[..2].copy_from_slice(&[0xc1, 0x10]);
    public[12..25].copy_from_slice(b"q_gradient_in");
    public[64..77].copy_from_slice(&[0xf0, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
    vec![
        ("chain", chain.clone()),
        ("mixed", mixed),
        ("public", public.to_vec()),
        ("orphan_payload", chain[64..128].to_vec()),
        ("cut", chain[..100].to_vec()),
        ("word_length", [0x95, 0x0f].repeat(32)),
    ]
}

/// An entry point, a kernel that counts, and what it refers to in every way.
const PROGRAM: &str = "
    .text
    .global _start
    .type _start, @function
_start: entry a1, 32
    const16 a3, hi(cell + 4)
    const16 a3, lo(cell + 4)
    l32r a4, .Lpointer
    call8 helper
    beqz a4, 1f
    s32i a4, a3, 0
1:  retw
    .section .text.helper, \"ax\"
    .global helper
    .type helper, @function
helper: entry a1, 32
    l32r a8, .Lfunction
    callx8 a8
    retw
    .section .text.unused, \"ax\"
    .global unused
unused: entry a1, 32
    j unused
    .section .rodata.x, \"a\"
    .byte 1
.Lpointer: .word pointer
.Lfunction: .word helper
    .data
    .align 4
pointer: .word pointer + 4, __ctors_start, 7
    .section .ctors, \"aw\"
    .word -1, helper, 0
    .section kernel_info_table, \"aw\"
    .byte 0, 0, 2, 0xf0
    .word helper
    .bss
    .align 4
cell: .space 64
";

fn objects() -> Vec<Seed> {
    let object = |source: &str| assemble(source, &AsmOptions::default()).expect("the sources of seeds are right");
    let with = |from: &str, to: &str| object(&PROGRAM.replace(from, to));
    let library = object(".text\n.global extra\n.type extra, @function\nextra: entry a1, 32\n retw\n");
    let user = object(
        "
        .text\n.global _start\n_start: entry a1, 32\n l32r a8, .Lextra\n callx8 a8\n retw\n
        .section .rodata, \"a\"\n.Lextra: .word extra\n",
    );
    let archive = [b"!<arch>\n".to_vec(), member("main.o/", &user), member("extra.o/", &library)].concat();
    vec![
        ("program", object(PROGRAM)),
        ("undefined", with("call8 helper", "call8 nowhere")),
        ("half", with("const16 a3, lo(cell + 4)", "nop")),
        ("row_number", with(".word helper\n    .bss", ".word 16\n    .bss")),
        ("row_twice", with(".byte 0, 0, 2, 0xf0", ".byte 0, 0, 0, 0x7e")),
        ("no_entry", with("_start: entry a1, 32", "_start: nop")),
        ("full", with(".space 64", ".space 0x2100")),
        ("archive", archive),
    ]
}
