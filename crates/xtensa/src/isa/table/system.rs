//! User registers, synchronisation, exceptions, interrupts and debug.

use super::prelude::*;
use super::{letter, rows};

rows! {
    "rur"      "1110 0011 rrrr iiii iiii 0000" Rur      UserRegisters Next, [r Ar, i User];
    "wur"      "1111 0011 iiii iiii tttt 0000" Wur      UserRegisters Next, [t Ar, i User];
    "s32c1i"   "iiii iiii 1110 ssss tttt 0010" S32c1i   S32c1i   Next, [t Ar, s Ar, i unsigned(4, 0)];
    "l32ai"    "iiii iiii 1011 ssss tttt 0010" L32ai    Synchronization Next, [t Ar, s Ar, i unsigned(4, 0)];
    "s32ri"    "iiii iiii 1111 ssss tttt 0010" S32ri    Synchronization Next, [t Ar, s Ar, i unsigned(4, 0)];
    "syscall"  "0000 0000 0101 0000 0000 0000" Syscall  Exception Trap, [];
    "simcall"  "0000 0000 0101 0001 0000 0000" Simcall  Exception Trap, [];
    "break"    "0000 0000 0100 ssss tttt 0000" Break    Debug    Trap, [s unsigned(1, 0), t unsigned(1, 0)];
    "rsil"     "0000 0000 0110 ssss tttt 0000" Rsil     Interrupt Serialize, [t Ar, s unsigned(1, 0)];
    "waiti"    "0000 0000 0111 ssss 0000 0000" Waiti    Interrupt Serialize, [s unsigned(1, 0)];
    "rfe"      "0000 0000 0011 0000 0000 0000" Rfe      Exception ExceptionReturn, [];
    "rfde"     "0000 0000 0011 0010 0000 0000" Rfde     Exception ExceptionReturn, [];
    "rfi"      "0000 0000 0011 ssss 0001 0000" Rfi      Interrupt ExceptionReturn, [s unsigned(1, 0)];
    "rer"      "0100 0000 0110 ssss tttt 0000" Rer      ExternalRegisters Next, [t Ar, s Ar];
    "wer"      "0100 0000 0111 ssss tttt 0000" Wer      ExternalRegisters Next, [t Ar, s Ar];
    "rfdd"     "1111 0001 1110 0000 0001 0000" Rfdd     Debug    Trap, [];
}
