//! The machines that modules are for, and what differs between them when loading.

use core::fmt;

use outboard_elf::{Pointers, machine};
use outboard_reloc::Table;

/// A machine that modules are built for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Machine {
    /// TI C7x: the board.
    C7x,
    /// x86-64: the simulated C7x device on such a host.
    X86_64,
    /// AArch64: the simulated C7x device on such a host.
    AArch64,
    /// Tensilica Xtensa: read by `inspect`; placed by the GPSIMD linker, never by [`crate::load`].
    Xtensa,
}

impl Machine {
    /// The machine of an `e_machine` value.
    #[must_use]
    pub const fn from_elf(value: u16) -> Option<Self> {
        match value {
            machine::C7X => Some(Self::C7x),
            machine::X86_64 => Some(Self::X86_64),
            machine::AARCH64 => Some(Self::AArch64),
            machine::XTENSA => Some(Self::Xtensa),
            _ => None,
        }
    }

    /// The `e_machine` value.
    #[must_use]
    pub const fn elf(self) -> u16 {
        match self {
            Self::C7x => machine::C7X,
            Self::X86_64 => machine::X86_64,
            Self::AArch64 => machine::AARCH64,
            Self::Xtensa => machine::XTENSA,
        }
    }

    /// The name for people, and in a module's note (`arch=`).
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::C7x => "c7x",
            Self::X86_64 => "x86-64",
            Self::AArch64 => "aarch64",
            Self::Xtensa => "xtensa",
        }
    }

    /// The machine this program runs on, when modules can be built for it.
    #[must_use]
    pub const fn host() -> Option<Self> {
        if cfg!(target_arch = "x86_64") {
            Some(Self::X86_64)
        } else if cfg!(target_arch = "aarch64") {
            Some(Self::AArch64)
        } else {
            None
        }
    }

    /// Whether images are placed as one block with their distances kept (processors of the host).
    #[must_use]
    pub const fn one_block(self) -> bool {
        matches!(self, Self::X86_64 | Self::AArch64)
    }

    /// What the addresses in the dynamic table mean.
    #[must_use]
    pub const fn pointers(self) -> Pointers {
        match self {
            Self::C7x => Pointers::FileOffset,
            _ => Pointers::Virtual,
        }
    }

    /// The relocation types, for machines whose modules are relocated at load.
    #[must_use]
    pub fn relocations(self) -> Option<&'static Table> {
        match self {
            Self::C7x => Some(outboard_reloc::c7x::table()),
            Self::X86_64 => Some(outboard_reloc::x86_64::table()),
            Self::AArch64 => Some(outboard_reloc::aarch64::table()),
            Self::Xtensa => None,
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
