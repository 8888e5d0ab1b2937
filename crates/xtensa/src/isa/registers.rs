//! Special and user registers: numbers and names.

/// Numbers of the special registers that the engine gives a meaning.
pub mod special {
    /// `lbeg`
    pub const LBEG: u8 = 0;
    /// `lend`
    pub const LEND: u8 = 1;
    /// `lcount`
    pub const LCOUNT: u8 = 2;
    /// `sar`
    pub const SAR: u8 = 3;
    /// `br`
    pub const BR: u8 = 4;
    /// `litbase`
    pub const LITBASE: u8 = 5;
    /// `scompare1`
    pub const SCOMPARE1: u8 = 12;
    /// `acclo`
    pub const ACCLO: u8 = 16;
    /// `acchi`
    pub const ACCHI: u8 = 17;
    /// `m0`
    pub const M0: u8 = 32;
    /// `windowbase`
    pub const WINDOWBASE: u8 = 72;
    /// `windowstart`
    pub const WINDOWSTART: u8 = 73;
    /// `rasid`
    pub const RASID: u8 = 90;
    /// `itlbcfg`
    pub const ITLBCFG: u8 = 91;
    /// `dtlbcfg`
    pub const DTLBCFG: u8 = 92;
    /// `ibreakenable`
    pub const IBREAKENABLE: u8 = 96;
    /// `memctl`
    pub const MEMCTL: u8 = 97;
    /// `cacheattr`
    pub const CACHEATTR: u8 = 98;
    /// `atomctl`
    pub const ATOMCTL: u8 = 99;
    /// `ddr`
    pub const DDR: u8 = 104;
    /// `ibreaka0`
    pub const IBREAKA0: u8 = 128;
    /// `dbreaka0`
    pub const DBREAKA0: u8 = 144;
    /// `dbreakc0`
    pub const DBREAKC0: u8 = 160;
    /// `configid0`
    pub const CONFIGID0: u8 = 176;
    /// `epc1`
    pub const EPC1: u8 = 177;
    /// `depc`
    pub const DEPC: u8 = 192;
    /// `eps2`
    pub const EPS2: u8 = 194;
    /// `configid1`
    pub const CONFIGID1: u8 = 208;
    /// `excsave1`
    pub const EXCSAVE1: u8 = 209;
    /// `cpenable`
    pub const CPENABLE: u8 = 224;
    /// `interrupt`
    pub const INTERRUPT: u8 = 226;
    /// `intclear`
    pub const INTCLEAR: u8 = 227;
    /// `intenable`
    pub const INTENABLE: u8 = 228;
    /// `ps`
    pub const PS: u8 = 230;
    /// `vecbase`
    pub const VECBASE: u8 = 231;
    /// `exccause`
    pub const EXCCAUSE: u8 = 232;
    /// `debugcause`
    pub const DEBUGCAUSE: u8 = 233;
    /// `ccount`
    pub const CCOUNT: u8 = 234;
    /// `prid`
    pub const PRID: u8 = 235;
    /// `icount`
    pub const ICOUNT: u8 = 236;
    /// `icountlevel`
    pub const ICOUNTLEVEL: u8 = 237;
    /// `excvaddr`
    pub const EXCVADDR: u8 = 238;
    /// `ccompare0`
    pub const CCOMPARE0: u8 = 240;
    /// `misc0`
    pub const MISC0: u8 = 244;
    /// `isl`
    pub const ISL: u8 = 248;
    /// `ksl`
    pub const KSL: u8 = 249;
}

/// Numbers of the user registers.
pub mod user {
    /// Thread pointer.
    pub const THREADPTR: u8 = 231;
    /// Floating-point control: rounding mode and enables.
    pub const FCR: u8 = 232;
    /// Floating-point status: sticky flags.
    pub const FSR: u8 = 233;
}

/// Special registers: number and name.
const SPECIAL: &[(u8, &str)] = &[
    (0, "lbeg"),
    (1, "lend"),
    (2, "lcount"),
    (3, "sar"),
    (4, "br"),
    (5, "litbase"),
    (12, "scompare1"),
    (16, "acclo"),
    (17, "acchi"),
    (32, "m0"),
    (33, "m1"),
    (34, "m2"),
    (35, "m3"),
    (40, "prefctl"),
    (72, "windowbase"),
    (73, "windowstart"),
    (83, "ptevaddr"),
    (89, "mmid"),
    (90, "rasid"),
    (91, "itlbcfg"),
    (92, "dtlbcfg"),
    (95, "eraccess"),
    (96, "ibreakenable"),
    (97, "memctl"),
    (98, "cacheattr"),
    (99, "atomctl"),
    (104, "ddr"),
    (106, "mepc"),
    (107, "meps"),
    (108, "mesave"),
    (109, "mesr"),
    (110, "mecr"),
    (111, "mevaddr"),
    (114, "ieextern"),
    (116, "ievec"),
    (128, "ibreaka0"),
    (129, "ibreaka1"),
    (144, "dbreaka0"),
    (145, "dbreaka1"),
    (160, "dbreakc0"),
    (161, "dbreakc1"),
    (176, "configid0"),
    (177, "epc1"),
    (178, "epc2"),
    (179, "epc3"),
    (180, "epc4"),
    (181, "epc5"),
    (182, "epc6"),
    (183, "epc7"),
    (192, "depc"),
    (194, "eps2"),
    (195, "eps3"),
    (196, "eps4"),
    (197, "eps5"),
    (198, "eps6"),
    (199, "eps7"),
    (208, "configid1"),
    (209, "excsave1"),
    (210, "excsave2"),
    (211, "excsave3"),
    (212, "excsave4"),
    (213, "excsave5"),
    (214, "excsave6"),
    (215, "excsave7"),
    (224, "cpenable"),
    (226, "interrupt"),
    (227, "intclear"),
    (228, "intenable"),
    (229, "ms"),
    (230, "ps"),
    (231, "vecbase"),
    (232, "exccause"),
    (233, "debugcause"),
    (234, "ccount"),
    (235, "prid"),
    (236, "icount"),
    (237, "icountlevel"),
    (238, "excvaddr"),
    (240, "ccompare0"),
    (241, "ccompare1"),
    (242, "ccompare2"),
    (244, "misc0"),
    (245, "misc1"),
    (246, "misc2"),
    (247, "misc3"),
    (248, "isl"),
    (249, "ksl"),
];

/// Other names that assemblers accept.
const SPECIAL_ALIASES: &[(u8, &str)] =
    &[(226, "intset"), (90, "mpuenb"), (92, "mpucfg"), (98, "cacheadrdis"), (236, "isb")];

const USER: &[(u8, &str)] = &[
    (230, "expstate"),
    (231, "threadptr"),
    (232, "fcr"),
    (233, "fsr"),
    (234, "f64r_lo"),
    (235, "f64r_hi"),
    (236, "f64s"),
];

/// Name of a special register. Number 226 reads as `interrupt` and writes as `intset`.
pub fn special_name(number: u8, written: bool) -> Option<&'static str> {
    if number == special::INTERRUPT && written {
        return Some("intset");
    }
    find_name(SPECIAL, number)
}

/// Number of a special register (lower-case name).
pub fn special_number(name: &str) -> Option<u8> {
    find_number(SPECIAL, name).or_else(|| find_number(SPECIAL_ALIASES, name))
}

/// Name of a user register.
pub fn user_name(number: u8) -> Option<&'static str> {
    find_name(USER, number)
}

/// Number of a user register (lower-case name).
pub fn user_number(name: &str) -> Option<u8> {
    find_number(USER, name)
}

fn find_name(table: &[(u8, &'static str)], number: u8) -> Option<&'static str> {
    table.iter().find(|row| row.0 == number).map(|row| row.1)
}

fn find_number(table: &[(u8, &str)], name: &str) -> Option<u8> {
    table.iter().find(|row| row.1 == name).map(|row| row.0)
}
