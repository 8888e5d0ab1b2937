//! Multiply, divide and the miscellaneous arithmetic options.

use super::prelude::*;
use super::{letter, rows};

rows! {
    "mul16u"   "1100 0001 rrrr ssss tttt 0000" Mul16u   Mul16    Next, [r Ar, s Ar, t Ar];
    "mul16s"   "1101 0001 rrrr ssss tttt 0000" Mul16s   Mul16    Next, [r Ar, s Ar, t Ar];
    "mull"     "1000 0010 rrrr ssss tttt 0000" Mull     Mul32    Next, [r Ar, s Ar, t Ar];
    "muluh"    "1010 0010 rrrr ssss tttt 0000" Muluh    Mul32High Next, [r Ar, s Ar, t Ar];
    "mulsh"    "1011 0010 rrrr ssss tttt 0000" Mulsh    Mul32High Next, [r Ar, s Ar, t Ar];
    "quou"     "1100 0010 rrrr ssss tttt 0000" Quou     Div32    Next, [r Ar, s Ar, t Ar];
    "quos"     "1101 0010 rrrr ssss tttt 0000" Quos     Div32    Next, [r Ar, s Ar, t Ar];
    "remu"     "1110 0010 rrrr ssss tttt 0000" Remu     Div32    Next, [r Ar, s Ar, t Ar];
    "rems"     "1111 0010 rrrr ssss tttt 0000" Rems     Div32    Next, [r Ar, s Ar, t Ar];
    "nsa"      "0100 0000 1110 ssss tttt 0000" Nsa      Nsa      Next, [t Ar, s Ar];
    "nsau"     "0100 0000 1111 ssss tttt 0000" Nsau     Nsa      Next, [t Ar, s Ar];
    "min"      "0100 0011 rrrr ssss tttt 0000" Min      MinMax   Next, [r Ar, s Ar, t Ar];
    "max"      "0101 0011 rrrr ssss tttt 0000" Max      MinMax   Next, [r Ar, s Ar, t Ar];
    "minu"     "0110 0011 rrrr ssss tttt 0000" Minu     MinMax   Next, [r Ar, s Ar, t Ar];
    "maxu"     "0111 0011 rrrr ssss tttt 0000" Maxu     MinMax   Next, [r Ar, s Ar, t Ar];
    "sext"     "0010 0011 rrrr ssss tttt 0000" Sext     Sext     Next, [r Ar, s Ar, t unsigned(1, 7)];
    "clamps"   "0011 0011 rrrr ssss tttt 0000" Clamps   Clamps   Next, [r Ar, s Ar, t unsigned(1, 7)];
    "saltu"    "0110 0010 rrrr ssss tttt 0000" Saltu    Salt     Next, [r Ar, s Ar, t Ar];
    "salt"     "0111 0010 rrrr ssss tttt 0000" Salt     Salt     Next, [r Ar, s Ar, t Ar];
}
