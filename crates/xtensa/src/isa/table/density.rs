//! The 16-bit density instructions.

use super::prelude::*;
use super::{letter, rows};

rows! {
    "l32i.n"   "rrrr ssss tttt 1000"   L32iN    Density  Next, [t Ar, s Ar, r unsigned(4, 0)];
    "s32i.n"   "rrrr ssss tttt 1001"   S32iN    Density  Next, [t Ar, s Ar, r unsigned(4, 0)];
    "add.n"    "rrrr ssss tttt 1010"   AddN     Density  Next, [r Ar, s Ar, t Ar];
    "addi.n"   "rrrr ssss iiii 1011"   AddiN    Density  Next, [r Ar, s Ar, i Imm(AddiN)];
    "movi.n"   "iiii ssss 0III 1100"   MoviN    Density  Next, [s Ar, i Imm(MoviN)];
    "beqz.n"   "iiii ssss 10II 1100"   BeqzN    Density  Branch, [s Ar, i FORWARD];
    "bnez.n"   "iiii ssss 11II 1100"   BnezN    Density  Branch, [s Ar, i FORWARD];
    "mov.n"    "0000 ssss tttt 1101"   MovN     Density  Next, [t Ar, s Ar];
    "ret.n"    "1111 0000 0000 1101"   RetN     Density  Return, [];
    "retw.n"   "1111 0000 0001 1101"   RetwN    Density  WindowReturn, [];
    "break.n"  "1111 iiii 0010 1101"   BreakN   Density  Trap, [i unsigned(1, 0)];
    "nop.n"    "1111 0000 0011 1101"   NopN     Density  Next, [];
    "ill.n"    "1111 0000 0110 1101"   IllN     Density  Trap, [];
}
