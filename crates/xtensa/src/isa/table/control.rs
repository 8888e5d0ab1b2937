//! Jumps, calls, branches and zero-overhead loops.

use super::prelude::*;
use super::{letter, rows};

rows! {
    "j"        "iiii iiii iiii iiii ii00 0110" J        Core     Jump, [i BRANCH];
    "jx"       "0000 0000 0000 ssss 1010 0000" Jx       Core     JumpRegister, [s Ar];
    "ret"      "0000 0000 0000 0000 1000 0000" Ret      Core     Return, [];
    "call0"    "iiii iiii iiii iiii ii00 0101" Call0    Core     Call(0), [i CALL];
    "callx0"   "0000 0000 0000 ssss 1100 0000" Callx0   Core     CallRegister(0), [s Ar];
    "beqz"     "iiii iiii iiii ssss 0001 0110" Beqz     Core     Branch, [s Ar, i BRANCH];
    "bnez"     "iiii iiii iiii ssss 0101 0110" Bnez     Core     Branch, [s Ar, i BRANCH];
    "bltz"     "iiii iiii iiii ssss 1001 0110" Bltz     Core     Branch, [s Ar, i BRANCH];
    "bgez"     "iiii iiii iiii ssss 1101 0110" Bgez     Core     Branch, [s Ar, i BRANCH];
    "beqi"     "iiii iiii rrrr ssss 0010 0110" Beqi     Core     Branch, [s Ar, r Imm(B4Const), i BRANCH];
    "bnei"     "iiii iiii rrrr ssss 0110 0110" Bnei     Core     Branch, [s Ar, r Imm(B4Const), i BRANCH];
    "blti"     "iiii iiii rrrr ssss 1010 0110" Blti     Core     Branch, [s Ar, r Imm(B4Const), i BRANCH];
    "bgei"     "iiii iiii rrrr ssss 1110 0110" Bgei     Core     Branch, [s Ar, r Imm(B4Const), i BRANCH];
    "bltui"    "iiii iiii rrrr ssss 1011 0110" Bltui    Core     Branch, [s Ar, r Imm(B4ConstU), i BRANCH];
    "bgeui"    "iiii iiii rrrr ssss 1111 0110" Bgeui    Core     Branch, [s Ar, r Imm(B4ConstU), i BRANCH];
    "bnone"    "iiii iiii 0000 ssss tttt 0111" Bnone    Core     Branch, [s Ar, t Ar, i BRANCH];
    "beq"      "iiii iiii 0001 ssss tttt 0111" Beq      Core     Branch, [s Ar, t Ar, i BRANCH];
    "blt"      "iiii iiii 0010 ssss tttt 0111" Blt      Core     Branch, [s Ar, t Ar, i BRANCH];
    "bltu"     "iiii iiii 0011 ssss tttt 0111" Bltu     Core     Branch, [s Ar, t Ar, i BRANCH];
    "ball"     "iiii iiii 0100 ssss tttt 0111" Ball     Core     Branch, [s Ar, t Ar, i BRANCH];
    "bbc"      "iiii iiii 0101 ssss tttt 0111" Bbc      Core     Branch, [s Ar, t Ar, i BRANCH];
    "bbci"     "iiii iiii 011j ssss jjjj 0111" Bbci     Core     Branch, [s Ar, j unsigned(1, 0), i BRANCH];
    "bany"     "iiii iiii 1000 ssss tttt 0111" Bany     Core     Branch, [s Ar, t Ar, i BRANCH];
    "bne"      "iiii iiii 1001 ssss tttt 0111" Bne      Core     Branch, [s Ar, t Ar, i BRANCH];
    "bge"      "iiii iiii 1010 ssss tttt 0111" Bge      Core     Branch, [s Ar, t Ar, i BRANCH];
    "bgeu"     "iiii iiii 1011 ssss tttt 0111" Bgeu     Core     Branch, [s Ar, t Ar, i BRANCH];
    "bnall"    "iiii iiii 1100 ssss tttt 0111" Bnall    Core     Branch, [s Ar, t Ar, i BRANCH];
    "bbs"      "iiii iiii 1101 ssss tttt 0111" Bbs      Core     Branch, [s Ar, t Ar, i BRANCH];
    "bbsi"     "iiii iiii 111j ssss jjjj 0111" Bbsi     Core     Branch, [s Ar, j unsigned(1, 0), i BRANCH];
    "loop"     "iiii iiii 1000 ssss 0111 0110" Loop     Loop     Loop, [s Ar, i FORWARD];
    "loopnez"  "iiii iiii 1001 ssss 0111 0110" Loopnez  Loop     Loop, [s Ar, i FORWARD];
    "loopgtz"  "iiii iiii 1010 ssss 0111 0110" Loopgtz  Loop     Loop, [s Ar, i FORWARD];
}
