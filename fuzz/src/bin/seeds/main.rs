//! Writes the made part of the corpus: small images of every kind, and one for each rule that a file can break.
//!
//! The rest of `corpus/load` are recorded C7x modules and shared objects of a C compiler.

mod gpsimd;

use std::path::Path;
use std::process::ExitCode;

use outboard_elf::write::{
    HashStyle, Home, ImageBuilder, Reference, RelocationSpec, SegmentId, SegmentSpec, SymbolSpec,
};
use outboard_elf::{Segment, dt, et, machine, pf, pt, stt};

const RX: u32 = pf::R | pf::X;
const RW: u32 = pf::R | pf::W;

fn main() -> ExitCode {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let mut load = c7x();
    load.extend(host());
    let folders = [("load", load), ("elf", readable())].into_iter().chain(gpsimd::all());
    for (folder, seeds) in folders {
        let made = std::fs::create_dir_all(corpus.join(folder));
        if let Err(error) = made {
            eprintln!("{folder}: {error}");
            return ExitCode::from(1);
        }
        for (name, bytes) in seeds {
            let path = corpus.join(folder).join(format!("made_{name}"));
            if let Err(error) = std::fs::write(&path, bytes) {
                eprintln!("{}: {error}", path.display());
                return ExitCode::from(1);
            }
        }
    }
    ExitCode::SUCCESS
}

type Seed = (&'static str, Vec<u8>);

/// Code, data, an entry point and a pointer.
fn module(machine: u16, pointer: u32) -> (ImageBuilder, SegmentId, SegmentId) {
    let mut image = ImageBuilder::new(machine);
    let text = image.segment(SegmentSpec::new(RX, vec![0x90; 32]).align(16).named(".text"));
    let data = image.segment(SegmentSpec::new(RW, vec![0; 32]).memsz(48).align(16).named(".data"));
    image.symbol(SymbolSpec::function("cg_main_dsp", text, 0, 32));
    let local = image.symbol(SymbolSpec { kind: stt::FUNC, ..SymbolSpec::local("inner", text, 8) });
    image.relocate(RelocationSpec::new(data, 0, pointer, local, 4));
    (image, text, data)
}

fn header(kind: u32, change: impl Fn(&mut Segment)) -> Segment {
    let mut header = Segment {
        index: 0,
        header: 0,
        kind,
        flags: RW,
        offset: 64,
        vaddr: 0x9000_0000,
        paddr: 0,
        filesz: 8,
        memsz: 8,
        align: 8,
    };
    change(&mut header);
    header
}

fn c7x() -> Vec<Seed> {
    let (image, text, data) = module(machine::C7X, 18);
    let tags = |tags: &[(u64, u64)]| {
        let mut image = image.clone();
        for (tag, value) in tags {
            image.tag(*tag, *value);
        }
        image.build()
    };
    let with = |change: &dyn Fn(&mut ImageBuilder)| {
        let mut image = image.clone();
        change(&mut image);
        image.build()
    };
    let relocated = |relocation: RelocationSpec| {
        with(&|image| {
            image.relocate(relocation);
        })
    };
    let segment = |change: fn(&mut Segment)| {
        with(&|image| {
            image.header(header(pt::LOAD, change));
        })
    };
    let code = image.address(text);
    let constants = |align, relocated: bool| {
        with(&|image| {
            let constants = image.segment(SegmentSpec::new(pf::R, vec![1; 32]).align(align));
            let start = image.section_symbol(constants);
            image.relocate(RelocationSpec::new(data, 8, 18, start, 0));
            if relocated {
                image.relocate(RelocationSpec::new(constants, 8, 18, start, 0));
            }
        })
    };
    let import = |names: &[&str], needed: bool| {
        with(&|image| {
            for name in names {
                let import = image.symbol(SymbolSpec::import(name));
                image.relocate(RelocationSpec::new(data, 8, 18, import, 0));
            }
            if needed {
                image.needed("dsp_syms.out").firmware_symbols(&["gone"]);
            }
        })
    };
    let good = image.build();
    let cut = |file: &[u8], len: usize| file[..len].to_vec();
    let poke = |at: usize, bytes: &[u8]| {
        let mut file = good.clone();
        file[at..at + bytes.len()].copy_from_slice(bytes);
        file
    };
    vec![
        ("good", good.clone()),
        (
            "no_sections",
            with(&|image| {
                image.without_sections();
            }),
        ),
        (
            "tables_loaded",
            with(&|image| {
                image.load_tables();
            }),
        ),
        ("cut_ident", cut(&good, 3)),
        ("cut_header", cut(&good, 40)),
        ("class", poke(4, &[3])),
        ("class_of_machine", poke(4, &[1])),
        ("endian", poke(5, &[2])),
        ("ident_version", poke(6, &[9])),
        ("version", poke(20, &[9])),
        ("ehsize", poke(52, &[9])),
        ("phentsize", poke(54, &[9])),
        ("phnum", poke(56, &[0xff, 0xff])),
        ("shentsize", poke(58, &[9])),
        ("osabi", poke(7, &[65])),
        (
            "object",
            with(&|image| {
                image.kind(et::REL);
            }),
        ),
        (
            "static",
            with(&|image| {
                image.without_dynamic();
            }),
        ),
        (
            "entry",
            with(&|image| {
                image.kind(et::EXEC).entry(code + 4);
            }),
        ),
        ("filesz", segment(|h| h.filesz = 16)),
        ("offset", segment(|h| h.offset = u64::MAX)),
        ("align", segment(|h| h.align = 3)),
        ("memsz", segment(|h| h.memsz = 1 << 33)),
        ("wrap", segment(|h| h.vaddr = u64::MAX - 3)),
        ("overlap", segment(|h| h.vaddr = 0x8000_0008)),
        ("large", segment(|h| h.memsz = 1 << 30)),
        ("constants", constants(16, false)),
        ("constants_relocated", constants(16, true)),
        ("constants_aligned", constants(4096, false)),
        (
            "end_symbol",
            with(&|image| {
                image.symbol(SymbolSpec::object("end", data, 48, 0));
            }),
        ),
        (
            "lost_symbol",
            with(&|image| {
                let lost = image.symbol(SymbolSpec { home: Home::Raw(99, 1), ..SymbolSpec::import("lost") });
                image.relocate(RelocationSpec::new(data, 8, 18, lost, 0));
            }),
        ),
        (
            "common_symbol",
            with(&|image| {
                let common = image.symbol(SymbolSpec { home: Home::Raw(0xfff2, 8), ..SymbolSpec::import("common") });
                image.relocate(RelocationSpec::new(data, 8, 18, common, 0));
            }),
        ),
        (
            "hidden_undefined",
            with(&|image| {
                let hidden = image.symbol(SymbolSpec::import("hidden").hidden());
                image.relocate(RelocationSpec::new(data, 8, 18, hidden, 0));
            }),
        ),
        (
            "nameless",
            with(&|image| {
                let nameless = image.symbol(SymbolSpec::import(""));
                image.relocate(RelocationSpec::new(data, 8, 18, nameless, 0));
            }),
        ),
        (
            "mangled",
            with(&|image| {
                image.symbol(SymbolSpec::function("_Z5scalePfi", text, 4, 4));
                image.symbol(SymbolSpec::function("_ZN3std2io5Write9write_all17h0123456789abcdefE", text, 4, 4));
            }),
        ),
        ("imports", import(&["memcpy", "expf"], true)),
        ("missing", import(&["memcyp", "gone", "__tsan_read4"], true)),
        ("missing_dependency", import(&["memcpy"], false)),
        (
            "needed",
            with(&|image| {
                image.needed("libm.so");
            }),
        ),
        (
            "no_firmware_symbols",
            with(&|image| {
                image.needed("dsp_syms.out");
            }),
        ),
        ("branch_low_bits", relocated(RelocationSpec::new(text, 4, 28, Reference::Index(1), 3))),
        ("overflow", relocated(RelocationSpec::new(data, 8, 17, Reference::Index(1), 1 << 40))),
        ("type", relocated(RelocationSpec::new(data, 8, 99, Reference::Index(1), 0))),
        ("type_refused", relocated(RelocationSpec::new(data, 8, 4, Reference::Index(1), 0))),
        ("symbol_0", relocated(RelocationSpec::new(data, 8, 18, Reference::Index(0), 0))),
        ("symbol_index", relocated(RelocationSpec::new(data, 8, 18, Reference::Index(77), 0))),
        ("outside", relocated(RelocationSpec::at(4, 18, Reference::Index(1), 0))),
        ("straddle", relocated(RelocationSpec::new(data, 44, 18, Reference::Index(1), 0))),
        ("tail", relocated(RelocationSpec::new(data, 40, 18, Reference::Index(1), 0))),
        ("tail_short", relocated(RelocationSpec::new(data, 46, 16, Reference::Index(1), 1 << 31))),
        ("rel", tags(&[(dt::REL, 8)])),
        ("init", tags(&[(dt::INIT, code), (dt::FINI, code)])),
        ("init_outside", tags(&[(dt::INIT, 8)])),
        ("init_array", tags(&[(dt::INIT_ARRAY, image.address(data)), (dt::INIT_ARRAYSZ, 8)])),
        ("init_array_size", tags(&[(dt::INIT_ARRAY, image.address(data)), (dt::INIT_ARRAYSZ, 9)])),
        ("fini_array_outside", tags(&[(dt::FINI_ARRAY, code), (dt::FINI_ARRAYSZ, 800)])),
        (
            "relaent",
            with(&|image| {
                image.override_tag(dt::RELAENT, 8);
            }),
        ),
        (
            "relasz",
            with(&|image| {
                image.override_tag(dt::RELASZ, 25);
            }),
        ),
        (
            "syment",
            with(&|image| {
                image.override_tag(dt::SYMENT, 8);
            }),
        ),
        (
            "gsym",
            with(&|image| {
                image.override_tag(dt::C7X_GSYM_OFFSET, 7);
            }),
        ),
        (
            "gstr",
            with(&|image| {
                image.override_tag(dt::C7X_GSTR_OFFSET, 1 << 40);
            }),
        ),
        (
            "strsz",
            with(&|image| {
                image.override_tag(dt::STRSZ, 3);
            }),
        ),
        (
            "soname",
            with(&|image| {
                image.override_tag(dt::SONAME, 0);
            }),
        ),
        (
            "no_null",
            with(&|image| {
                image.drop_tag(dt::NULL);
            }),
        ),
        (
            "plt",
            with(&|image| {
                image.plt(1);
            }),
        ),
        (
            "plt_apart",
            with(&|image| {
                image.plt(1).override_tag(dt::RELASZ, 0);
            }),
        ),
        (
            "plt_across",
            with(&|image| {
                image.relocate(RelocationSpec::new(data, 8, 18, Reference::Index(1), 0)).plt(2);
                image.override_tag(dt::RELASZ, 24);
            }),
        ),
        (
            "plt_rel",
            with(&|image| {
                image.plt(1).override_tag(dt::PLTREL, dt::REL);
            }),
        ),
        (
            "unordered",
            with(&|image| {
                for (segment, offset) in [(text, 0), (data, 8), (text, 8)] {
                    image.relocate(RelocationSpec::new(segment, offset, 24, Reference::Index(1), 0));
                }
            }),
        ),
    ]
}

fn host() -> Vec<Seed> {
    let (image, text, data) = module(machine::X86_64, 1);
    let with = |change: &dyn Fn(&mut ImageBuilder)| {
        let mut image = image.clone();
        change(&mut image);
        image.build()
    };
    let note = |text: &[u8]| {
        with(&|image| {
            image.note("Outboard", 1, text);
        })
    };
    let target = image.address(text);
    vec![
        ("x86", image.build()),
        ("aarch64", module(machine::AARCH64, 257).0.build()),
        (
            "gnu_hash",
            with(&|image| {
                image.hash(HashStyle::Gnu);
            }),
        ),
        (
            "no_hash",
            with(&|image| {
                image.drop_tag(dt::HASH);
            }),
        ),
        (
            "symbolic",
            with(&|image| {
                let own = image.symbol(SymbolSpec::function("memcpy", text, 8, 4));
                image.relocate(RelocationSpec::new(data, 8, 6, own, 0)).tag(dt::SYMBOLIC, 0);
            }),
        ),
        (
            "weak",
            with(&|image| {
                let weak = image.symbol(SymbolSpec::import("absent").weak());
                image.relocate(RelocationSpec::new(data, 8, 6, weak, 0));
            }),
        ),
        (
            "tls",
            with(&|image| {
                image.header(header(pt::TLS, |_| {}));
            }),
        ),
        (
            "tls_symbol",
            with(&|image| {
                let tls = image.symbol(SymbolSpec { kind: stt::TLS, ..SymbolSpec::object("tls", data, 0, 8).hidden() });
                image.relocate(RelocationSpec::new(data, 8, 1, tls, 0));
            }),
        ),
        (
            "ifunc",
            with(&|image| {
                let chosen =
                    image.symbol(SymbolSpec { kind: 10, ..SymbolSpec::function("chosen", text, 0, 8).hidden() });
                image.relocate(RelocationSpec::new(data, 8, 1, chosen, 0));
            }),
        ),
        (
            "textrel",
            with(&|image| {
                image.tag(dt::TEXTREL, 0);
            }),
        ),
        (
            "text_relocation",
            with(&|image| {
                image.relocate(RelocationSpec::new(text, 8, 1, Reference::Index(1), 0));
            }),
        ),
        (
            "copy",
            with(&|image| {
                image.relocate(RelocationSpec::new(data, 8, 5, Reference::Index(1), 0));
            }),
        ),
        (
            "span",
            with(&|image| {
                image.segment(SegmentSpec::new(RW, vec![0; 8]).at(1 << 40));
            }),
        ),
        ("relr", {
            let mut image = image.clone();
            let words = [target, target, 0, target].iter().flat_map(|word| word.to_le_bytes()).collect();
            let table = image.segment(SegmentSpec::new(RW, words));
            for offset in [0, 8, 24] {
                image.relocate_relative(table, offset);
            }
            image.build()
        }),
        (
            "relr_code",
            with(&|image| {
                image.relocate_relative(text, 0);
            }),
        ),
        (
            "relr_outside",
            with(&|image| {
                image.relocate_relative(data, 44);
            }),
        ),
        (
            "relr_entry",
            with(&|image| {
                image.relocate_relative(data, 8).override_tag(dt::RELRENT, 4);
            }),
        ),
        (
            "relr_size",
            with(&|image| {
                image.relocate_relative(data, 8).override_tag(dt::RELRSZ, 9);
            }),
        ),
        ("note", note(b"arch=x86-64\nfeatures=sse3, sse4.2\nbuilder=x 1\nother=1\nline\n")),
        ("note_feature", note(b"arch=x86-64\nfeatures=avx512f\nbuilder=x 1\n")),
        ("note_text", note(&[0xff, 0xfe])),
        (
            "note_cut",
            with(&|image| {
                image.header(header(pt::NOTE, |h| (h.filesz, h.align) = (9, 8)));
            }),
        ),
        (
            "manifest",
            with(&|image| {
                image.note("Outboard", 2, b"{\"name\":\"x\"}");
            }),
        ),
    ]
}

/// Files for the reader alone: other machines, objects, firmwares.
fn readable() -> Vec<Seed> {
    let mut xtensa = module(machine::XTENSA, 5).0;
    xtensa.note("Outboard", 2, b"{}").note("GNU", 3, &[1, 2, 3]);
    let resource_table = |carveout: u32| {
        let mut words = vec![1, 4, 0, 0, 32, 32 + 68, 32 + 68 + 56, 32 + 68 + 56 + 48];
        words.extend([3, 7, 0, 1, 0, 0, 0x200, 0xa000_0000, 4096, 256, 1, 0, 0xa000_4000, 4096, 256, 1, 0]);
        words.extend([0, 0xa000_0000, u32::MAX, carveout, 0, 0, 0x6572_6976, 0, 0, 0, 0, 0, 0, 0]);
        words.extend([2, 0xa100_0000, 0x1000, 0, 0x6563_6172, 0, 0, 0, 0, 0, 0, 0, 9]);
        words.iter().flat_map(|word: &u32| word.to_le_bytes()).collect::<Vec<u8>>()
    };
    let firmware = |table: Vec<u8>| {
        let mut image = ImageBuilder::new(machine::C7X);
        image.segment(SegmentSpec::new(RX, vec![0; 8]));
        image.segment(SegmentSpec::new(RW, table).named(".resource_table"));
        image.without_dynamic().build()
    };
    let object = {
        let (mut image, ..) = module(machine::X86_64, 1);
        image.kind(et::REL).without_dynamic().build()
    };
    vec![
        ("xtensa", xtensa.build()),
        ("firmware", firmware(resource_table(0x10_0000))),
        ("firmware_small", firmware(resource_table(0x1_0000))),
        ("firmware_cut", firmware(resource_table(0)[..90].to_vec())),
        ("resource_table", resource_table(0x10_0000)),
        ("resource_table_many", [1_u32, 999, 0, 0].iter().flat_map(|word| word.to_le_bytes()).collect()),
        ("object", object),
        ("gnu_hash", module(machine::X86_64, 1).0.hash(HashStyle::Gnu).build()),
        ("section_names", module(machine::C7X, 18).0.build()),
    ]
}
