//! The boolean registers.

use super::prelude::*;
use super::{letter, rows};

rows! {
    "andb"     "0000 0010 rrrr ssss tttt 0000" Andb     Boolean  Next, [r Br, s Br, t Br];
    "andbc"    "0001 0010 rrrr ssss tttt 0000" Andbc    Boolean  Next, [r Br, s Br, t Br];
    "orb"      "0010 0010 rrrr ssss tttt 0000" Orb      Boolean  Next, [r Br, s Br, t Br];
    "orbc"     "0011 0010 rrrr ssss tttt 0000" Orbc     Boolean  Next, [r Br, s Br, t Br];
    "xorb"     "0100 0010 rrrr ssss tttt 0000" Xorb     Boolean  Next, [r Br, s Br, t Br];
    "any4"     "0000 0000 1000 ss00 tttt 0000" Any4     Boolean  Next, [t Br, s Br4];
    "all4"     "0000 0000 1001 ss00 tttt 0000" All4     Boolean  Next, [t Br, s Br4];
    "any8"     "0000 0000 1010 s000 tttt 0000" Any8     Boolean  Next, [t Br, s Br8];
    "all8"     "0000 0000 1011 s000 tttt 0000" All8     Boolean  Next, [t Br, s Br8];
    "bf"       "iiii iiii 0000 ssss 0111 0110" Bf       Boolean  Branch, [s Br, i BRANCH];
    "bt"       "iiii iiii 0001 ssss 0111 0110" Bt       Boolean  Branch, [s Br, i BRANCH];
    "movf"     "1100 0011 rrrr ssss tttt 0000" Movf     Boolean  Next, [r Ar, s Ar, t Br];
    "movt"     "1101 0011 rrrr ssss tttt 0000" Movt     Boolean  Next, [r Ar, s Ar, t Br];
}
