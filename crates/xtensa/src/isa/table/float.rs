//! Single-precision floating point (the DFPU naming of the update forms).

use super::prelude::*;
use super::{letter, rows};

rows! {
    "add.s"    "0000 1010 rrrr ssss tttt 0000" AddS     Fp       Next, [r Fr, s Fr, t Fr];
    "sub.s"    "0001 1010 rrrr ssss tttt 0000" SubS     Fp       Next, [r Fr, s Fr, t Fr];
    "mul.s"    "0010 1010 rrrr ssss tttt 0000" MulS     Fp       Next, [r Fr, s Fr, t Fr];
    "madd.s"   "0100 1010 rrrr ssss tttt 0000" MaddS    Fp       Next, [r Fr, s Fr, t Fr];
    "msub.s"   "0101 1010 rrrr ssss tttt 0000" MsubS    Fp       Next, [r Fr, s Fr, t Fr];
    "maddn.s"  "0110 1010 rrrr ssss tttt 0000" MaddnS   Fp       Next, [r Fr, s Fr, t Fr];
    "divn.s"   "0111 1010 rrrr ssss tttt 0000" DivnS    Fp       Next, [r Fr, s Fr, t Fr];
    "round.s"  "1000 1010 rrrr ssss tttt 0000" RoundS   Fp       Next, [r Ar, s Fr, t unsigned(1, 0)];
    "trunc.s"  "1001 1010 rrrr ssss tttt 0000" TruncS   Fp       Next, [r Ar, s Fr, t unsigned(1, 0)];
    "floor.s"  "1010 1010 rrrr ssss tttt 0000" FloorS   Fp       Next, [r Ar, s Fr, t unsigned(1, 0)];
    "ceil.s"   "1011 1010 rrrr ssss tttt 0000" CeilS    Fp       Next, [r Ar, s Fr, t unsigned(1, 0)];
    "float.s"  "1100 1010 rrrr ssss tttt 0000" FloatS   Fp       Next, [r Fr, s Ar, t unsigned(1, 0)];
    "ufloat.s" "1101 1010 rrrr ssss tttt 0000" UfloatS  Fp       Next, [r Fr, s Ar, t unsigned(1, 0)];
    "utrunc.s" "1110 1010 rrrr ssss tttt 0000" UtruncS  Fp       Next, [r Ar, s Fr, t unsigned(1, 0)];
    "mov.s"    "1111 1010 rrrr ssss 0000 0000" MovS     Fp       Next, [r Fr, s Fr];
    "abs.s"    "1111 1010 rrrr ssss 0001 0000" AbsS     Fp       Next, [r Fr, s Fr];
    "const.s"  "1111 1010 rrrr ssss 0011 0000" ConstS   Fp       Next, [r Fr, s unsigned(1, 0)];
    "rfr"      "1111 1010 rrrr ssss 0100 0000" Rfr      Fp       Next, [r Ar, s Fr];
    "wfr"      "1111 1010 rrrr ssss 0101 0000" Wfr      Fp       Next, [r Fr, s Ar];
    "neg.s"    "1111 1010 rrrr ssss 0110 0000" NegS     Fp       Next, [r Fr, s Fr];
    "div0.s"   "1111 1010 rrrr ssss 0111 0000" Div0S    Fp       Next, [r Fr, s Fr];
    "recip0.s" "1111 1010 rrrr ssss 1000 0000" Recip0S  Fp       Next, [r Fr, s Fr];
    "sqrt0.s"  "1111 1010 rrrr ssss 1001 0000" Sqrt0S   Fp       Next, [r Fr, s Fr];
    "rsqrt0.s" "1111 1010 rrrr ssss 1010 0000" Rsqrt0S  Fp       Next, [r Fr, s Fr];
    "nexp01.s" "1111 1010 rrrr ssss 1011 0000" Nexp01S  Fp       Next, [r Fr, s Fr];
    "mksadj.s" "1111 1010 rrrr ssss 1100 0000" MksadjS  Fp       Next, [r Fr, s Fr];
    "mkdadj.s" "1111 1010 rrrr ssss 1101 0000" MkdadjS  Fp       Next, [r Fr, s Fr];
    "addexp.s" "1111 1010 rrrr ssss 1110 0000" AddexpS  Fp       Next, [r Fr, s Fr];
    "addexpm.s" "1111 1010 rrrr ssss 1111 0000" AddexpmS Fp       Next, [r Fr, s Fr];
    "un.s"     "0001 1011 rrrr ssss tttt 0000" UnS      Fp       Next, [r Br, s Fr, t Fr];
    "oeq.s"    "0010 1011 rrrr ssss tttt 0000" OeqS     Fp       Next, [r Br, s Fr, t Fr];
    "ueq.s"    "0011 1011 rrrr ssss tttt 0000" UeqS     Fp       Next, [r Br, s Fr, t Fr];
    "olt.s"    "0100 1011 rrrr ssss tttt 0000" OltS     Fp       Next, [r Br, s Fr, t Fr];
    "ult.s"    "0101 1011 rrrr ssss tttt 0000" UltS     Fp       Next, [r Br, s Fr, t Fr];
    "ole.s"    "0110 1011 rrrr ssss tttt 0000" OleS     Fp       Next, [r Br, s Fr, t Fr];
    "ule.s"    "0111 1011 rrrr ssss tttt 0000" UleS     Fp       Next, [r Br, s Fr, t Fr];
    "moveqz.s" "1000 1011 rrrr ssss tttt 0000" MoveqzS  Fp       Next, [r Fr, s Fr, t Ar];
    "movnez.s" "1001 1011 rrrr ssss tttt 0000" MovnezS  Fp       Next, [r Fr, s Fr, t Ar];
    "movltz.s" "1010 1011 rrrr ssss tttt 0000" MovltzS  Fp       Next, [r Fr, s Fr, t Ar];
    "movgez.s" "1011 1011 rrrr ssss tttt 0000" MovgezS  Fp       Next, [r Fr, s Fr, t Ar];
    "movf.s"   "1100 1011 rrrr ssss tttt 0000" MovfS    Fp       Next, [r Fr, s Fr, t Br];
    "movt.s"   "1101 1011 rrrr ssss tttt 0000" MovtS    Fp       Next, [r Fr, s Fr, t Br];
    "lsi"      "iiii iiii 0000 ssss tttt 0011" Lsi      Fp       Next, [t Fr, s Ar, i unsigned(4, 0)];
    "ssi"      "iiii iiii 0100 ssss tttt 0011" Ssi      Fp       Next, [t Fr, s Ar, i unsigned(4, 0)];
    "lsip"     "iiii iiii 1000 ssss tttt 0011" Lsip     Fp       Next, [t Fr, s Ar, i unsigned(4, 0)];
    "ssip"     "iiii iiii 1100 ssss tttt 0011" Ssip     Fp       Next, [t Fr, s Ar, i unsigned(4, 0)];
    "lsx"      "0000 1000 rrrr ssss tttt 0000" Lsx      Fp       Next, [r Fr, s Ar, t Ar];
    "lsxp"     "0001 1000 rrrr ssss tttt 0000" Lsxp     Fp       Next, [r Fr, s Ar, t Ar];
    "ssx"      "0100 1000 rrrr ssss tttt 0000" Ssx      Fp       Next, [r Fr, s Ar, t Ar];
    "ssxp"     "0101 1000 rrrr ssss tttt 0000" Ssxp     Fp       Next, [r Fr, s Ar, t Ar];
}
