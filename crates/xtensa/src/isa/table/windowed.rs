//! Register windows: windowed calls, ENTRY, RETW and the instructions of the window handlers.

use super::prelude::*;
use super::{letter, rows};

rows! {
    "call4"    "iiii iiii iiii iiii ii01 0101" Call4    Windowed Call(1), [i CALL];
    "call8"    "iiii iiii iiii iiii ii10 0101" Call8    Windowed Call(2), [i CALL];
    "call12"   "iiii iiii iiii iiii ii11 0101" Call12   Windowed Call(3), [i CALL];
    "callx4"   "0000 0000 0000 ssss 1101 0000" Callx4   Windowed CallRegister(1), [s Ar];
    "callx8"   "0000 0000 0000 ssss 1110 0000" Callx8   Windowed CallRegister(2), [s Ar];
    "callx12"  "0000 0000 0000 ssss 1111 0000" Callx12  Windowed CallRegister(3), [s Ar];
    "entry"    "iiii iiii iiii ssss 0011 0110" Entry    Windowed Entry, [s Ar, i unsigned(8, 0)];
    "retw"     "0000 0000 0000 0000 1001 0000" Retw     Windowed WindowReturn, [];
    "movsp"    "0000 0000 0001 ssss tttt 0000" Movsp    Windowed Serialize, [t Ar, s Ar];
    "rotw"     "0100 0000 1000 0000 tttt 0000" Rotw     Windowed Serialize, [t signed(1)];
    "l32e"     "0000 1001 iiii ssss tttt 0000" L32e     Windowed Next, [t Ar, s Ar, i unsigned(4, -64)];
    "s32e"     "0100 1001 iiii ssss tttt 0000" S32e     Windowed Next, [t Ar, s Ar, i unsigned(4, -64)];
    "rfwo"     "0000 0000 0011 0100 0000 0000" Rfwo     Windowed ExceptionReturn, [];
    "rfwu"     "0000 0000 0011 0101 0000 0000" Rfwu     Windowed ExceptionReturn, [];
}
