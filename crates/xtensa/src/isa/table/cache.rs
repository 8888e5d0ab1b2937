//! Cache, TLB and test-access instructions.

use super::prelude::*;
use super::{letter, rows};

rows! {
    "dpfr"     "iiii iiii 0111 ssss 0000 0010" Dpfr     Cache    Next, [s Ar, i unsigned(4, 0)];
    "dpfw"     "iiii iiii 0111 ssss 0001 0010" Dpfw     Cache    Next, [s Ar, i unsigned(4, 0)];
    "dpfro"    "iiii iiii 0111 ssss 0010 0010" Dpfro    Cache    Next, [s Ar, i unsigned(4, 0)];
    "dpfwo"    "iiii iiii 0111 ssss 0011 0010" Dpfwo    Cache    Next, [s Ar, i unsigned(4, 0)];
    "dhwb"     "iiii iiii 0111 ssss 0100 0010" Dhwb     Cache    Next, [s Ar, i unsigned(4, 0)];
    "dhwbi"    "iiii iiii 0111 ssss 0101 0010" Dhwbi    Cache    Next, [s Ar, i unsigned(4, 0)];
    "dhi"      "iiii iiii 0111 ssss 0110 0010" Dhi      Cache    Next, [s Ar, i unsigned(4, 0)];
    "dii"      "iiii iiii 0111 ssss 0111 0010" Dii      Cache    Next, [s Ar, i unsigned(4, 0)];
    "dpfl"     "iiii 0000 0111 ssss 1000 0010" Dpfl     Cache    Next, [s Ar, i unsigned(16, 0)];
    "dhu"      "iiii 0010 0111 ssss 1000 0010" Dhu      Cache    Next, [s Ar, i unsigned(16, 0)];
    "diu"      "iiii 0011 0111 ssss 1000 0010" Diu      Cache    Next, [s Ar, i unsigned(16, 0)];
    "diwb"     "iiii 0100 0111 ssss 1000 0010" Diwb     Cache    Next, [s Ar, i unsigned(16, 0)];
    "diwbi"    "iiii 0101 0111 ssss 1000 0010" Diwbi    Cache    Next, [s Ar, i unsigned(16, 0)];
    "ipf"      "iiii iiii 0111 ssss 1100 0010" Ipf      Cache    Next, [s Ar, i unsigned(4, 0)];
    "ipfl"     "iiii 0000 0111 ssss 1101 0010" Ipfl     Cache    Next, [s Ar, i unsigned(16, 0)];
    "ihu"      "iiii 0010 0111 ssss 1101 0010" Ihu      Cache    Next, [s Ar, i unsigned(16, 0)];
    "iiu"      "iiii 0011 0111 ssss 1101 0010" Iiu      Cache    Next, [s Ar, i unsigned(16, 0)];
    "ihi"      "iiii iiii 0111 ssss 1110 0010" Ihi      Cache    Serialize, [s Ar, i unsigned(4, 0)];
    "iii"      "iiii iiii 0111 ssss 1111 0010" Iii      Cache    Serialize, [s Ar, i unsigned(4, 0)];
    "lict"     "1111 0001 0000 ssss tttt 0000" Lict     Cache    Next, [t Ar, s Ar];
    "sict"     "1111 0001 0001 ssss tttt 0000" Sict     Cache    Next, [t Ar, s Ar];
    "licw"     "1111 0001 0010 ssss tttt 0000" Licw     Cache    Next, [t Ar, s Ar];
    "sicw"     "1111 0001 0011 ssss tttt 0000" Sicw     Cache    Next, [t Ar, s Ar];
    "ldct"     "1111 0001 1000 ssss tttt 0000" Ldct     Cache    Next, [t Ar, s Ar];
    "sdct"     "1111 0001 1001 ssss tttt 0000" Sdct     Cache    Next, [t Ar, s Ar];
    "ritlb0"   "0101 0000 0011 ssss tttt 0000" Ritlb0   Mmu      Next, [t Ar, s Ar];
    "iitlb"    "0101 0000 0100 ssss 0000 0000" Iitlb    Mmu      Next, [s Ar];
    "pitlb"    "0101 0000 0101 ssss tttt 0000" Pitlb    Mmu      Next, [t Ar, s Ar];
    "witlb"    "0101 0000 0110 ssss tttt 0000" Witlb    Mmu      Next, [t Ar, s Ar];
    "ritlb1"   "0101 0000 0111 ssss tttt 0000" Ritlb1   Mmu      Next, [t Ar, s Ar];
    "rdtlb0"   "0101 0000 1011 ssss tttt 0000" Rdtlb0   Mmu      Next, [t Ar, s Ar];
    "idtlb"    "0101 0000 1100 ssss 0000 0000" Idtlb    Mmu      Next, [s Ar];
    "pdtlb"    "0101 0000 1101 ssss tttt 0000" Pdtlb    Mmu      Next, [t Ar, s Ar];
    "wdtlb"    "0101 0000 1110 ssss tttt 0000" Wdtlb    Mmu      Next, [t Ar, s Ar];
    "rdtlb1"   "0101 0000 1111 ssss tttt 0000" Rdtlb1   Mmu      Next, [t Ar, s Ar];
}
