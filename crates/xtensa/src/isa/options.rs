//! The options an Xtensa core may have.

use core::fmt;
use core::str::FromStr;

macro_rules! isa_options {
    ($($variant:ident $name:literal $doc:literal;)*) => {
        /// An option of the architecture. A core has a set of them ([`IsaSet`]).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Isa { $(#[doc = $doc] $variant,)* }

        impl Isa {
            /// Every option.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Lower-case name, as used on command lines and in JSON.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }
        }
    };
}

isa_options! {
    Core "core" "What every core has.";
    Density "density" "16-bit instructions.";
    Loop "loop" "Zero-overhead loops.";
    Windowed "windowed" "Register windows.";
    Const16 "const16" "CONST16 (excludes MAC16: both use the same encodings).";
    Mul16 "mul16" "16 × 16 multiplication.";
    Mul32 "mul32" "MULL.";
    Mul32High "mul32high" "MULUH and MULSH.";
    Div32 "div32" "Quotients and remainders.";
    MinMax "minmax" "Minimum and maximum.";
    Clamps "clamps" "CLAMPS.";
    Nsa "nsa" "Normalisation shift amount.";
    Sext "sext" "SEXT.";
    Salt "salt" "SALT and SALTU.";
    Boolean "boolean" "Boolean registers.";
    Mac16 "mac16" "The 40-bit multiply-accumulator.";
    Fp "fp" "Single-precision floating point.";
    UserRegisters "user-registers" "RUR and WUR.";
    Synchronization "synchronization" "Acquire loads and release stores.";
    S32c1i "s32c1i" "Atomic compare and store.";
    Exception "exception" "Exceptions, system calls and simulator calls.";
    Interrupt "interrupt" "Interrupts and interrupt levels.";
    Debug "debug" "Debug breaks.";
    ExternalRegisters "external-registers" "RER and WER.";
    Cache "cache" "Cache control.";
    Mmu "mmu" "TLB instructions.";
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// An option name that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown Xtensa option \"{name}\"; known are: {known}", known = known_names())]
pub struct UnknownIsa {
    /// The name as given.
    pub name: String,
}

fn known_names() -> String {
    let names: Vec<&str> = Isa::ALL.iter().map(|isa| isa.name()).collect();
    names.join(", ")
}

impl FromStr for Isa {
    type Err = UnknownIsa;

    fn from_str(name: &str) -> Result<Self, UnknownIsa> {
        Self::ALL.iter().copied().find(|isa| isa.name() == name).ok_or_else(|| UnknownIsa { name: name.to_owned() })
    }
}

/// A set of options.
///
/// ```
/// use outboard_xtensa::isa::{Isa, IsaSet};
/// let set = IsaSet::all().without(Isa::Mac16);
/// assert!(set.has(Isa::Const16) && !set.has(Isa::Mac16));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IsaSet(u64);

impl IsaSet {
    /// The options of a bare core.
    pub const fn core() -> Self {
        Self(1 << Isa::Core as u32)
    }

    /// Every option, including the two that exclude each other (MAC16 and CONST16). Good for
    /// disassembly of code from an unknown core; an engine refuses it.
    pub const fn all() -> Self {
        Self((1 << Isa::ALL.len()) - 1)
    }

    /// Everything except CONST16: the options of QEMU's `de233_fpu` core, with MUL32HIGH and SALT.
    pub const fn lx() -> Self {
        Self::all().without(Isa::Const16)
    }

    /// The scalar options of the Vision-Q7 pool cores: everything except MAC16 and the MMU.
    pub const fn vision_q7() -> Self {
        Self::all().without(Isa::Mac16).without(Isa::Mmu)
    }

    /// This set and one more.
    #[must_use]
    pub const fn with(self, isa: Isa) -> Self {
        Self(self.0 | 1 << isa as u32)
    }

    /// This set without one.
    #[must_use]
    pub const fn without(self, isa: Isa) -> Self {
        Self(self.0 & !(1 << isa as u32))
    }

    /// Is the option in the set?
    pub const fn has(self, isa: Isa) -> bool {
        self.0 >> (isa as u32) & 1 == 1
    }

    /// May a core with this set execute the instruction `row`?
    pub fn allows(self, row: &super::Row) -> bool {
        self.has(row.isa())
            && (row.length() == 3 || self.has(Isa::Density))
            && (row.flow() != super::Flow::WindowReturn || self.has(Isa::Windowed))
    }
}

impl FromIterator<Isa> for IsaSet {
    fn from_iter<I: IntoIterator<Item = Isa>>(iter: I) -> Self {
        iter.into_iter().fold(Self::core(), Self::with)
    }
}
