//! Device programs made of objects: PI images that run after the host has moved them, fixed-load libraries for each core.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeSet;

use outboard_elf::image::FllImage;
use outboard_elf::pi::{DeviceShape, FllShape, KernelRow, KernelTable, PiShape, dynamic_name};
use outboard_elf::{Elf, Pointers};
use outboard_link::build::{BuildError, Inputs, Patch};
use outboard_link::pi::{MemoryBounds, PrelinkRequest, Prelinked, prelink};
use outboard_link::shape::fll::{self, Cpu, FllOptions};
use outboard_link::shape::pi::{self, PiLinked, PiOptions};
use outboard_link::shape::{Kernel, ShapeError, ShapeErrors};
use outboard_xtensa::asm::{AsmOptions, assemble};
use outboard_xtensa::encode_text;
use outboard_xtensa::engine::{CoreConfig, Engine, Permissions, RegionMemory, Stop};

const CAYMAN: MemoryBounds =
    MemoryBounds::from_words([0, 0x2_0000, 0x1_8000, 0x8000, 0x8_0000, 0x4_0000, 0xb_e000, 0x2000]);
const CALLER: u32 = 0x1_0000;
/// A caller in the quarter of the address space where fixed-load libraries lie: returns keep the upper two bits.
const FLL_CALLER: u32 = 0x8300_0000;
const STACK: u32 = 0x8_0000;

/// What the device calls first.
const START: &str = "
    .text
    .global _start
    .type _start, @function
_start: entry a1, 32
    movi a2, 0
    retw
    .size _start, 8
";

/// A kernel in the code of our assembler: it counts in `.bss` through halves of addresses, and calls a helper through them.
const COUNTER: &str = "
    .section .text.count, \"ax\"
    .global count
    .type count, @function
count: entry a1, 32
    const16 a3, hi(calls)
    const16 a3, lo(calls)
    l32i a4, a3, 0
    addi a4, a4, 1
    s32i a4, a3, 0
    const16 a8, hi(helper)
    const16 a8, lo(helper)
    mov a10, a4
    callx8 a8
    mov a2, a10
    retw
    .size count, 35
    .section .text.helper, \"ax\"
    .type helper, @function
helper: entry a1, 32
    const16 a3, hi(factors + 4)
    const16 a3, lo(factors + 4)
    l32i a3, a3, 0
    mull a2, a2, a3
    retw
    .section .rodata.factors, \"a\"
    .align 4
factors: .word 7, 1000
    .section .bss.calls, \"aw\", @nobits
    .align 4
calls: .space 4
    .section kernel_info_table, \"aw\"
    .byte 0, 0, 2, 0xf0
    .word count
";

/// A kernel as compilers for Xtensa write it: addresses in literals, one of them in read-only data, where LLVM puts them.
const COMPILED: &str = "
    .section .text.sum, \"ax\"
    .global sum
    .type sum, @function
sum: entry a1, 32
    l32r a3, .Ltable
    l32r a8, .Lfunction
    l32i a10, a3, 0
    l32i a11, a3, 4
    l32i a10, a10, 0
    callx8 a8
    mov a2, a10
    retw
    .section .text.add, \"ax\"
add: entry a1, 32
    add a2, a2, a3
    retw
    .section .rodata.odd, \"a\"
    .byte 1
.Ltable: .word table
.Lfunction: .word add
    .section .data.table, \"aw\"
    .align 4
table: .word value, 40
value: .word 2
";

/// The row of a kernel in C, as the documentation shows it, and kernels with a string table, a counter and a function pointer.
const C: &str = r#"
struct outboard_kernel { unsigned char zero[2], spec, opcode; void (*function)(void); };
#define OUTBOARD_KERNEL(opcode, spec, name) \
    __attribute__((section("kernel_info_table"), used)) static const struct outboard_kernel name##_row = {{0, 0}, spec, opcode, (void (*)(void))name}

static unsigned calls;
static const char *volatile names[] = {"a", "bb", "ccc"};
static unsigned length(const char *text) { unsigned n = 0; while (text[n]) n++; return n; }
static unsigned (*volatile measure)(const char *) = length;

unsigned scale(void) { calls += measure(names[calls % 3]); return calls; }
OUTBOARD_KERNEL(0xf0, 2, scale);

unsigned select(unsigned index) {
    switch (index) { case 0: return 11; case 1: return 22; case 2: return 33; case 3: return 55; case 4: return 77; default: return calls; }
}
OUTBOARD_KERNEL(0x7e, 0, select);

unsigned _start(void *record) { calls = 0; return 0; }
"#;

/// Compiles C with clang 22, for the windowed ABI.
fn compile(source: &str) -> Vec<u8> {
    let folder = std::env::temp_dir().join(format!("outboard-shapes-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (input, output) = (folder.join("kernels.c"), folder.join("kernels.o"));
    std::fs::write(&input, source).unwrap();
    let mut clang = std::process::Command::new("clang-22");
    clang.args(["--target=xtensa", "-O2", "-ffreestanding", "-fno-builtin", "-ffunction-sections", "-c"]);
    for feature in ["windowed", "density", "div32", "mul32", "loop"] {
        clang.args(["-Xclang", "-target-feature", "-Xclang", &format!("+{feature}")]);
    }
    let ran = clang.arg(&input).arg("-o").arg(&output).output();
    let ran = ran.expect("clang-22 is installed (cargo xtask setup)");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let object = std::fs::read(&output).unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    object
}

fn object(source: &str) -> Vec<u8> {
    assemble(source, &AsmOptions::default()).unwrap_or_else(|errors| panic!("{errors:?}\n{source}"))
}

fn inputs(objects: &[Vec<u8>]) -> Inputs<'_> {
    let mut inputs = Inputs::new();
    for (number, object) in objects.iter().enumerate() {
        inputs.add(&format!("{number}.o"), object).unwrap();
    }
    inputs
}

fn options(kernels: &[(u8, u8, &str)]) -> PiOptions<'static> {
    let kernel = |(opcode, spec, function): &(u8, u8, &str)| Kernel {
        opcode: *opcode,
        spec: *spec,
        function: (*function).to_owned(),
    };
    PiOptions { kernels: kernels.iter().map(kernel).collect(), ..PiOptions::new(&CAYMAN) }
}

fn link_pi(sources: &[&str], options: &PiOptions<'_>) -> Result<PiLinked, ShapeErrors> {
    let objects: Vec<Vec<u8>> = sources.iter().map(|source| object(source)).collect();
    pi::link(inputs(&objects), options)
}

/// The faults of a link that ends with faults of the shape.
fn faults(sources: &[&str], options: &PiOptions<'_>) -> Vec<ShapeError> {
    match link_pi(sources, options).unwrap_err() {
        ShapeErrors::Shape(errors) => errors.into_vec(),
        ShapeErrors::Build(errors) => panic!("{errors}"),
    }
}

/// A core with the windows of a prelinked image in its memory.
struct Core {
    engine: Engine<RegionMemory>,
    caller: u32,
}

impl Core {
    fn new(caller: u32, regions: &[(u32, &[u8], Permissions)]) -> Self {
        let mut memory = RegionMemory::new();
        for (address, bytes, permissions) in regions.iter().filter(|(_, bytes, _)| !bytes.is_empty()) {
            memory.map(*address, bytes.to_vec(), *permissions).unwrap();
        }
        memory.map(caller, vec![0; 64], Permissions::ALL).unwrap();
        memory.map(STACK, vec![0; 0x1000], Permissions::READ_WRITE).unwrap();
        Self { engine: Engine::new(CoreConfig::vision_q7(), memory).unwrap(), caller }
    }

    fn of(image: &Prelinked) -> Self {
        let (code, data) = (image.placement.code.base, image.placement.data.base);
        Self::new(
            CALLER,
            &[(code, image.code(), Permissions::READ_EXECUTE), (data, image.data(), Permissions::READ_WRITE)],
        )
    }

    /// Calls a function without arguments and returns its result.
    fn call(&mut self, function: u32) -> u32 {
        self.call_with(function, 0)
    }

    /// Calls a function with one argument and returns its result.
    fn call_with(&mut self, function: u32, argument: u32) -> u32 {
        let Self { engine, caller } = self;
        let encode = |line| encode_text(line, *caller, CoreConfig::vision_q7().isa).unwrap().bytes().to_vec();
        let code = ["callx8 a8", "simcall"].map(encode).concat();
        engine.memory_mut().bytes_mut(*caller, code.len()).unwrap().copy_from_slice(&code);
        engine.reset();
        engine.invalidate_code();
        engine.set_pc(*caller);
        engine.set_ar(1, STACK + 0x800);
        engine.set_ar(8, function);
        engine.set_ar(10, argument);
        let stop = engine.run(100_000);
        assert!(matches!(stop, Stop::Simcall), "{stop:?}");
        engine.ar(10)
    }
}

/// The kernel table of a prelinked image, where the device finds it.
fn table(file: &[u8], prelinked: &Prelinked) -> Vec<KernelRow> {
    let table = KernelTable::find(&Elf::parse(file).unwrap()).unwrap().unwrap();
    let address = prelinked.descriptor.rebase(u32::try_from(table.address).unwrap());
    let at = usize::try_from(address - prelinked.placement.data.base).unwrap();
    let rows = &prelinked.data()[at..at + 8 * table.rows().len()];
    rows.as_chunks::<8>().0.iter().map(|row| KernelRow::decode(0, *row)).collect()
}

#[test]
fn assembled_and_compiled_kernels_run_after_the_host_has_moved_them() {
    let made = link_pi(&[START, COUNTER, COMPILED], &options(&[(0x7e, 0, "sum")])).unwrap();
    for bounds in [
        CAYMAN,
        MemoryBounds::from_words([0, 0x2_0000, 0x1_2000, 0x8000, 0x8_0000, 0x4_0000, 0x9_0000, 0x2000]),
        MemoryBounds::from_words([0, 0x1_0000, 0x5500, 0xab00, 0x8_0000, 0x1_0000, 0x8_e000, 0x2000]),
    ] {
        let image = prelink(&PrelinkRequest::new(&made.image, &bounds)).unwrap();
        assert!(image.warnings.is_empty(), "{:?}", image.warnings);
        let rows = table(&made.image, &image);
        let keys: Vec<_> = rows.iter().map(|row| (row.opcode, row.spec)).collect();
        assert_eq!((keys, made.kernels), (vec![(0xf0, 2), (0x7e, 0)], 2), "rows of objects come first");
        let mut core = Core::of(&image);
        assert_eq!([(); 3].map(|()| core.call(rows[0].function)), [1000, 2000, 3000], "halves of addresses");
        assert_eq!(core.call(rows[1].function), 42, "literals, and words that hold addresses");
        assert_eq!(
            [image.header.start, image.header.init, image.header.fini].map(|function| core.call(function)),
            [0; 3]
        );
    }
}

#[test]
fn kernels_in_c_run_after_the_host_has_moved_them_and_in_every_window() {
    let objects = [compile(C)];
    let made = pi::link(inputs(&objects), &PiOptions::new(&CAYMAN)).unwrap_or_else(|errors| panic!("{errors}"));
    let rows = table(&made.image, &made.prelinked);
    let find = |opcode| rows.iter().find(|row| row.opcode == opcode).unwrap().function;
    let mut core = Core::of(&made.prelinked);
    assert_eq!([(); 4].map(|()| core.call(find(0xf0))), [1, 3, 4, 6]);
    assert_eq!([0, 2, 4, 9].map(|index| core.call_with(find(0x7e), index)), [11, 33, 77, 6]);
    for cpu in [Cpu::Core(0), Cpu::Core(7), Cpu::Single] {
        let made = fll::link(inputs(&objects), &FllOptions { keep_all: true, ..FllOptions::new(cpu) }).unwrap();
        let elf = Elf::parse(&made.image).unwrap();
        let shape = FllShape::of(&elf).unwrap();
        let mut bytes = elf.segment_data(&shape.image).unwrap().to_vec();
        bytes.resize(usize::try_from(shape.bss.vaddr + shape.bss.memsz - shape.image.vaddr).unwrap(), 0);
        let mut core = Core::new(FLL_CALLER, &[(u32::try_from(shape.image.vaddr).unwrap(), &bytes, Permissions::ALL)]);
        let scale = made.linked.value("scale").unwrap();
        assert_eq!([(); 4].map(|()| core.call(scale)), [1, 3, 4, 6], "{cpu:?}");
    }
}

#[test]
fn the_image_has_the_documented_shape() {
    let made = link_pi(&[START, COUNTER, COMPILED], &options(&[(0x7e, 0, "sum")])).unwrap();
    let elf = Elf::parse(&made.image).unwrap();
    assert_eq!((elf.header().flags, elf.header().kind, elf.header().phnum), (0x300, 2, 4));
    let shape = PiShape::of(&elf).unwrap();
    assert_eq!((shape.text.vaddr, shape.data.vaddr), (0x0100_0000, 0x0200_0000));
    assert_eq!(shape.scratch.unwrap().vaddr, 0x0300_0000);
    let dynamic = elf.dynamic(Pointers::Virtual).unwrap().unwrap();
    let names: Vec<_> = dynamic.iter().map(|entry| dynamic_name(entry.tag).unwrap_or("?").to_owned()).collect();
    let expected = [
        "DT_RELA",
        "DT_RELASZ",
        "DT_RELAENT",
        "DT_PLTGOT",
        "DT_HASH",
        "DT_SYMTAB",
        "DT_STRTAB",
        "DT_STRSZ",
        "DT_SYMENT",
        "DT_INIT",
        "DT_FINI",
        "DT_DEBUG",
        "DT_XTENSA_GOT_LOC_OFF",
        "DT_XTENSA_GOT_LOC_SZ",
    ];
    assert_eq!(names, expected, "and the terminator");
    let sections = elf.sections().unwrap();
    let names: Vec<_> =
        sections.iter().map(|section| String::from_utf8_lossy(sections.name(&section).unwrap()).into_owned()).collect();
    for name in ["kernel_info_table", ".rela.got", ".dynamic", ".xt.prop.count", ".xt.prop.sum", ".comment", ".symtab"]
    {
        assert!(names.iter().any(|known| known == name), "{name}: {names:?}");
    }
    let stripped = link_pi(&[START, COUNTER], &PiOptions { strip: true, ..options(&[]) }).unwrap();
    let elf = Elf::parse(&stripped.image).unwrap();
    assert!(elf.sections().unwrap().by_name(b".symtab").is_none());
}

#[test]
fn every_place_that_holds_an_address_has_its_relocation_and_no_other_place_has_one() {
    let made = link_pi(&[START, COUNTER, COMPILED], &options(&[(0x7e, 0, "sum")])).unwrap();
    let counts: std::collections::BTreeMap<_, _> = made.prelinked.counts.iter().collect();
    // Three pairs; words: two literals, one pointer in the table, two rows.
    let expected = [("R_XTENSA_RELATIVE", 5), ("R_XTENSA_SLOT0_ALT", 3), ("R_XTENSA_SLOT0_OP", 3)];
    assert_eq!(counts, expected.into());
    let text = made.linked.sections.iter().position(|section| section.name == ".text").unwrap();
    let literals = made.linked.sites.iter().filter(|site| site.section == text && site.patch == Patch::Word).count();
    assert_eq!(literals, 2, "literals of compiled code lie in the text");
    let declared = link_pi(&[START, COMPILED], &options(&[(0x7e, 0, "sum")])).unwrap();
    assert_eq!(declared.kernels, 1, "a table of declared rows alone");
}

#[test]
fn an_image_without_kernels_and_data_is_linked_too() {
    let made = link_pi(&[START], &options(&[])).unwrap();
    assert_eq!((made.kernels, made.prelinked.counts.total()), (0, 0));
    let named = PiOptions { init: Some("_start".into()), fini: Some("_start".into()), ..options(&[]) };
    let made = link_pi(&[START], &named).unwrap();
    assert_eq!(made.prelinked.header.init, made.prelinked.header.start);
}

#[test]
fn a_row_that_dispatch_could_not_use_is_refused_by_name() {
    let problem = |sources: &[&str], kernels: &[(u8, u8, &str)]| {
        let found = faults(sources, &options(kernels));
        let [ShapeError::Kernel { problem, .. }] = found[..] else { panic!("{found:?}") };
        problem
    };
    assert!(problem(&[START, COMPILED], &[(0x7e, 1, "sum")]).contains("only opcode 0xf0"));
    assert!(problem(&[START, COMPILED], &[(0x7e, 0, "sum"), (0x7e, 0, "sum")]).contains("declared twice"));
    assert!(problem(&[START, COUNTER], &[(0xf0, 2, "count")]).contains("an earlier row has the same opcode"));
    let number = ".global number\n.set number, 0x1234\n";
    assert!(problem(&[START, number], &[(0x7e, 0, "number")]).contains("a number and no code"));
    let windowless = ".text\n.global plain\nplain: movi a2, 0\n ret\n";
    assert!(problem(&[START, windowless], &[(0x7e, 0, "plain")]).contains("does not begin with `entry`"));
    let row = |bytes: &str| format!(".section kernel_info_table, \"aw\"\n{bytes}\n");
    assert!(problem(&[START, &row(".byte 0, 1, 0, 0x7e\n.word _start")], &[]).contains("first two bytes"));
    let data = ".data\n.global cell\ncell: .word 0x00004136\n";
    assert!(problem(&[START, data, &row(".byte 0, 0, 0, 0x7e\n.word cell")], &[]).contains("does not lie in the text"));
    assert!(problem(&[START, &row(".byte 0, 0, 0, 0x7e\n.word 0x01000000")], &[]).contains("the host does not move"));
    let short = faults(&[START, &row(".byte 0, 0, 0")], &options(&[]));
    assert!(matches!(short[..], [ShapeError::KernelTable { .. }]), "{short:?}");
    let missing = link_pi(&[START], &options(&[(0x7e, 0, "nowhere")])).unwrap_err();
    assert!(missing.to_string().contains("nowhere"), "{missing}");
}

#[test]
fn what_would_break_when_text_and_data_move_apart_is_refused() {
    let user = "
        .section .text.user, \"ax\"
        .global user
user:   entry a1, 32
        const16 a2, hi(far)
        const16 a2, lo(far)
        retw
        .data
far:    .word user
";
    let mut distance = object(user);
    // The word becomes the distance from its place: R_XTENSA_32 (1) to R_XTENSA_32_PCREL (14).
    let word = {
        let elf = Elf::parse(&distance).unwrap();
        let sections = elf.sections().unwrap();
        let entry = sections.by_name(b".rela.data").unwrap().offset;
        usize::try_from(entry).unwrap() + 4
    };
    assert_eq!(distance[word], 1);
    distance[word] = 14;
    let keep = PiOptions { entry: "user".into(), ..options(&[]) };
    let Err(ShapeErrors::Shape(found)) = pi::link(inputs(&[distance]), &keep) else { panic!("a distance") };
    assert!(matches!(found[..], [ShapeError::Distance { .. }]), "{found:?}");
    assert_eq!(found[0].code(), "OB0661");
    let half = |line: &str| {
        let source =
            format!("{START}\n .section .text.user, \"ax\"\n.global user\nuser: entry a1, 32\n{line}\n retw\n");
        let found = faults(&[&source], &keep);
        let missing = found.iter().map(|fault| match fault {
            ShapeError::Half { missing, .. } => *missing,
            other => panic!("{other}"),
        });
        missing.collect::<Vec<_>>()
    };
    assert_eq!(half("const16 a2, hi(_start)"), ["R_XTENSA_SLOT0_OP"]);
    assert_eq!(half("const16 a2, lo(_start)"), ["R_XTENSA_SLOT0_ALT"]);
    let mut both = half("const16 a2, hi(_start)\nconst16 a2, lo(_start + 4)");
    both.sort_unstable();
    assert_eq!(both, ["R_XTENSA_SLOT0_ALT", "R_XTENSA_SLOT0_OP"], "halves of two addresses");
    let number = "
        .section .text.user, \"ax\"
        .global user
        .set fixed, 0x12345678
user:   entry a1, 32
        const16 a2, hi(fixed)
        const16 a2, lo(fixed)
        retw
";
    let made = link_pi(&[number], &keep).unwrap();
    assert_eq!(Core::of(&made.prelinked).call(made.prelinked.header.start), 0x1234_5678, "numbers stay numbers");
}

#[test]
fn an_image_that_the_windows_cannot_hold_names_its_ten_largest_symbols() {
    // Twelve tables in the data window, of 0x100, 0x200, … bytes, and a function.
    let mut source = String::from(".section .text.user, \"ax\"\n.global user\nuser: entry a1, 32\n");
    let mut tables = String::new();
    for number in 1..=12 {
        source += &format!(" const16 a2, hi(table{number})\n const16 a2, lo(table{number})\n");
        tables += &format!(
            ".section .data.table{number}, \"aw\"\n.global table{number}\n.type table{number}, @object\n\
             .size table{number}, {size}\ntable{number}: .space {size}\n",
            size = 0x100 * number
        );
    }
    let keep = PiOptions { entry: "user".into(), ..options(&[]) };
    let error = link_pi(&[&format!("{source} retw\n{tables}")], &keep).unwrap_err();
    let ShapeErrors::Build(errors) = &error else { panic!("{error}") };
    let largest = errors.iter().find_map(|error| match error {
        BuildError::RegionFull { section, largest, excess: 0x2e00, .. } if section == ".data" => Some(largest),
        _ => None,
    });
    let named: Vec<(&str, u32)> = largest.unwrap().iter().map(|symbol| (symbol.name.as_str(), symbol.size)).collect();
    let expected: Vec<(String, u32)> =
        (3..=12).rev().map(|number| (format!("table{number}"), 0x100 * number)).collect();
    assert_eq!(named, expected.iter().map(|(name, size)| (name.as_str(), *size)).collect::<Vec<_>>());
    assert!(error.to_string().contains("the largest symbols there, in bytes:\n      3072 table12 ("), "{error}");
}

#[test]
fn an_image_that_the_windows_cannot_hold_is_refused_with_its_section() {
    let large = |section: &str, size: u32| {
        format!(
            ".section {section}\n.global big\nbig: .space {size}\n.section .text.user, \"ax\"\n.global user\nuser: entry a1, 32\n\
                 const16 a2, hi(big)\n const16 a2, lo(big)\n retw\n"
        )
    };
    let keep = PiOptions { entry: "user".into(), ..options(&[]) };
    for (section, size, fits) in [
        (".bss.big, \"aw\", @nobits", 0x2000, true),
        (".bss.big, \"aw\", @nobits", 0x2001, false),
        (".text.big, \"ax\"", 0x7f00, true),
        (".text.big, \"ax\"", 0x8001, false),
        (".text.big, \"ax\"", 0x7ff0, false),
    ] {
        let made = link_pi(&[&large(section, size)], &keep);
        assert_eq!(made.is_ok(), fits, "{section} {size:#x}: {:?}", made.err());
    }
    let error = link_pi(&[&large(".bss.big, \"aw\", @nobits", 0x2001)], &keep).unwrap_err();
    let ShapeErrors::Build(errors) = &error else { panic!("{error}") };
    assert!(
        errors.iter().any(|error| matches!(error, BuildError::RegionFull { section, .. } if section == ".bss")),
        "{error}"
    );
    let data = ".data\n.global cell\ncell: .word 0\n";
    let missing = faults(&[START, data], &PiOptions { init: Some("cell".into()), ..options(&[]) });
    assert!(matches!(missing[..], [ShapeError::Function { .. }]), "{missing:?}");
    let entered = |entry: &str| faults(&[START, data], &PiOptions { entry: entry.into(), ..options(&[]) });
    assert!(entered("cell")[0].to_string().starts_with("the entry point cell is not defined in the text"));
    let objects = [object(data)];
    let fixed = fll::link(inputs(&objects), &FllOptions { entry: "cell".into(), ..FllOptions::new(Cpu::Single) });
    assert!(fixed.unwrap_err().to_string().starts_with("the entry point cell is not defined in the text"));
}

/// A program with constructors, data and addresses of every kind.
const PROGRAM: &str = "
    .text
    .global _start
_start: entry a1, 32
    const16 a3, hi(cell)
    const16 a3, lo(cell)
    l32r a4, .Lpointer
    l32i a4, a4, 0
    s32i a4, a3, 0
    mov a2, a4
    retw
    .section .rodata, \"a\"
.Lpointer: .word pointer
    .data
    .align 4
pointer: .word 0x55
    .word pointer + 4, __ctors_start, __ctors_end
    .section .ctors, \"aw\"
    .word -1, _start, 0
    .bss
    .align 4
cell: .space 64
";

fn link_fll(cpu: Cpu) -> fll::FllLinked {
    fll::link(inputs(&[object(PROGRAM)]), &FllOptions::new(cpu)).unwrap()
}

#[test]
fn the_eight_fixed_load_libraries_run_in_their_windows_and_differ_only_in_addresses() {
    let libraries: Vec<_> = (0..8).map(|cpu| link_fll(Cpu::Core(cpu))).collect();
    for (cpu, library) in (0..8).zip(&libraries) {
        let base = FllImage::window(cpu).unwrap();
        let elf = Elf::parse(&library.image).unwrap();
        let shape = FllShape::of(&elf).unwrap();
        assert_eq!((shape.core, shape.image.vaddr, elf.header().flags), (cpu, base.into(), 0x300));
        let mut bytes = elf.segment_data(&shape.image).unwrap().to_vec();
        bytes.resize(usize::try_from(shape.bss.vaddr + shape.bss.memsz - shape.image.vaddr).unwrap(), 0);
        let mut core = Core::new(FLL_CALLER, &[(base, &bytes, Permissions::ALL)]);
        assert_eq!(core.call(u32::try_from(elf.header().entry).unwrap()), 0x55);
        let data = |library: &fll::FllLinked| {
            library.linked.sections.iter().flat_map(|section| section.data.clone()).collect::<Vec<u8>>()
        };
        let (first, this) = (data(&libraries[0]), data(library));
        assert_eq!(first.len(), this.len());
        let mut moving = BTreeSet::new();
        let mut start = 0;
        for (index, section) in library.linked.sections.iter().enumerate() {
            for site in library.linked.sites.iter().filter(|site| site.section == index && site.moves()) {
                let at = start + usize::try_from(site.offset).unwrap();
                moving.extend(at..at + usize::try_from(site.patch.length()).unwrap());
            }
            start += section.data.len();
        }
        let differing = first.iter().zip(&this).enumerate().filter(|(_, (a, b))| a != b);
        for (at, (a, b)) in differing {
            assert!(moving.contains(&at), "byte {at:#x} of core {cpu} differs and holds no address");
            assert_eq!(b.wrapping_sub(*a), cpu * 0x20, "only the bits of the window differ");
        }
        let words = |library: &fll::FllLinked| {
            library.linked.sites.iter().map(|site| site.target.wrapping_sub(site.place)).collect::<Vec<_>>()
        };
        assert_eq!(words(&libraries[0]), words(library), "every distance is the same");
    }
}

#[test]
fn a_single_library_has_a_window_of_32_mib_and_a_core_above_7_does_not_exist() {
    let large = format!("{PROGRAM}\n .space 0x300000\n");
    let objects = [object(&large)];
    let single = fll::link(inputs(&objects), &FllOptions::new(Cpu::Single)).unwrap();
    let elf = Elf::parse(&single.image).unwrap();
    let Ok(DeviceShape::Fll(shape)) = DeviceShape::of(&elf) else { panic!("a fixed-load library") };
    assert_eq!((shape.core, shape.image.vaddr), (0, 0x8400_0000));
    let error = fll::link(inputs(&objects), &FllOptions::new(Cpu::Core(3))).unwrap_err();
    assert!(error.to_string().contains(".bss"), "2 MiB for one of eight: {error}");
    let error = fll::link(inputs(&objects), &FllOptions::new(Cpu::Core(8))).unwrap_err();
    assert!(error.to_string().contains("there is no core 8"), "{error}");
}
