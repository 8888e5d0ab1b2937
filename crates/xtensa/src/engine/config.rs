//! What kind of core an engine is.

use crate::decode::{Decoder, Instruction};
use crate::isa::{Flow, Isa, IsaSet, Op};
use crate::length::Flix;

/// What a misaligned 16- or 32-bit access does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Alignment {
    /// It is an exception (cause 9), as on all public cores.
    #[default]
    Exception,
    /// The low address bits are ignored, as on cores without the exception option.
    Ignore,
    /// It is carried out byte by byte. S32C1I still needs an aligned address.
    Allow,
}

/// Where exceptions go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Exceptions {
    /// To the host: SYSCALL, SIMCALL and BREAK stop the run, anything else ends it with a fault;
    /// window overflow and underflow are carried out by the engine, which spills to and reloads
    /// from the stack save areas that the ABI names.
    #[default]
    Host,
    /// To the guest's vectors, relative to VECBASE; window overflow and underflow too.
    Vectors(VectorOffsets),
}

/// Offsets of the exception vectors from VECBASE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VectorOffsets {
    /// Window overflow of 4, 8 and 12 registers.
    pub overflow: [u32; 3],
    /// Window underflow of 4, 8 and 12 registers.
    pub underflow: [u32; 3],
    /// Exceptions from kernel mode (PS.UM = 0).
    pub kernel: u32,
    /// Exceptions from user mode.
    pub user: u32,
    /// Exceptions while PS.EXCM is set.
    pub double: u32,
    /// Interrupts and debug exceptions of levels 2..=7.
    pub level: [u32; 6],
}

impl VectorOffsets {
    /// The layout of QEMU's `de233_fpu` core.
    pub const DE233: Self = Self {
        overflow: [0, 0x80, 0x100],
        underflow: [0x40, 0xc0, 0x140],
        kernel: 0x300,
        user: 0x340,
        double: 0x3c0,
        level: [0x180, 0x1c0, 0x200, 0x240, 0x280, 0x2c0],
    };
}

/// Interrupt lines and timers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupts {
    /// Priority level of each of the 32 lines; 0 means that the line does not exist.
    pub levels: [u8; 32],
    /// The lines that CCOMPARE0..2 raise.
    pub timers: [Option<u8>; 3],
    /// Lines that stay raised until INTCLEAR (edge-triggered, software and write-error ones).
    pub latched: u32,
    /// The highest PS.INTLEVEL that PS.EXCM masks.
    pub excm_level: u8,
    /// The level of debug exceptions.
    pub debug_level: u8,
}

impl Interrupts {
    /// Lines 0..=7 at level 1, 8..=13 at levels 2 and 3, timers on 6, 10 and 13.
    pub const DEFAULT: Self = {
        let mut levels = [0; 32];
        let mut line = 0;
        while line < 14 {
            levels[line] = match line {
                0..=7 => 1,
                8..=10 => 2,
                _ => 3,
            };
            line += 1;
        }
        Self { levels, timers: [Some(6), Some(10), Some(13)], latched: 0x80, excm_level: 3, debug_level: 6 }
    };
}

/// Cycles per instruction: a model for comparing kernels, not a measurement of silicon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Costs {
    /// Most instructions.
    pub base: u8,
    /// Extra for a load from memory.
    pub load: u8,
    /// Extra for a multiplication.
    pub multiply: u8,
    /// Extra for a division or remainder.
    pub divide: u8,
    /// Extra for floating-point arithmetic.
    pub float: u8,
    /// Extra for a jump, a call, a return and a taken branch.
    pub taken: u8,
    /// Extra for MEMW, EXTW and the SYNC instructions.
    pub synchronise: u8,
}

impl Costs {
    /// A five-stage pipeline whose loads hit local memory.
    pub const FIVE_STAGE: Self = Self { base: 1, load: 0, multiply: 0, divide: 12, float: 0, taken: 2, synchronise: 2 };

    /// Cycles of one instruction when it falls through.
    pub fn of(&self, instruction: Instruction) -> u8 {
        let row = instruction.row();
        let extra = match (row.isa(), row.op()) {
            (Isa::Mul16 | Isa::Mul32 | Isa::Mul32High | Isa::Mac16, _) => self.multiply,
            (Isa::Div32, _) => self.divide,
            (_, Op::Lsi | Op::Lsx | Op::Lsip | Op::Lsxp) => self.load,
            (_, Op::Ssi | Op::Ssx | Op::Ssip | Op::Ssxp) => 0,
            (Isa::Fp, _) => self.float,
            (_, Op::L8ui | Op::L16ui | Op::L16si | Op::L32i | Op::L32iN) => self.load,
            (_, Op::L32r | Op::L32ai | Op::L32e | Op::S32c1i) => self.load,
            (_, Op::Memw | Op::Extw | Op::Isync | Op::Rsync | Op::Esync | Op::Dsync) => self.synchronise,
            _ => match row.flow() {
                Flow::Jump | Flow::JumpRegister | Flow::Return | Flow::WindowReturn => self.taken,
                Flow::Call(_) | Flow::CallRegister(_) | Flow::ExceptionReturn => self.taken,
                _ => 0,
            },
        };
        self.base.saturating_add(extra)
    }
}

/// The configuration of a core.
#[derive(Clone, Debug)]
pub struct CoreConfig {
    /// Its options.
    pub isa: IsaSet,
    /// Its bundles: they are recognised, and refused with a fault that names them.
    pub flix: Flix,
    /// Physical address registers: 16, 32 or 64.
    pub address_registers: u8,
    /// What misaligned accesses do.
    pub alignment: Alignment,
    /// Where exceptions go.
    pub exceptions: Exceptions,
    /// Does SIMCALL stop the run for the host? Otherwise it does nothing, as on hardware.
    pub simcall: bool,
    /// Are the stack-limit registers ISL and KSL there? Crossing one downwards in ENTRY or MOVSP
    /// is then a fault.
    pub stack_limits: bool,
    /// Interrupt lines and timers.
    pub interrupts: Interrupts,
    /// Cycles per instruction.
    pub costs: Costs,
    /// Value of PRID.
    pub processor_id: u32,
    /// PS after reset.
    pub reset_ps: u32,
    /// CPENABLE after reset.
    pub reset_cpenable: u32,
    /// VECBASE after reset.
    pub reset_vecbase: u32,
}

impl CoreConfig {
    /// A core like QEMU's `de233_fpu` in its Linux user mode: what static programs run on.
    pub fn linux_user() -> Self {
        Self {
            isa: IsaSet::lx(),
            flix: Flix::None,
            address_registers: 32,
            alignment: Alignment::Exception,
            exceptions: Exceptions::Host,
            simcall: false,
            stack_limits: false,
            interrupts: Interrupts::DEFAULT,
            costs: Costs::FIVE_STAGE,
            processor_id: 0,
            // WOE, ring 3, user mode.
            reset_ps: 0x400e0,
            reset_cpenable: 0xff,
            reset_vecbase: 0x2000,
        }
    }

    /// A privileged core with `de233_fpu`'s vectors, in its reset state.
    pub fn bare() -> Self {
        Self {
            exceptions: Exceptions::Vectors(VectorOffsets::DE233),
            simcall: true,
            reset_ps: 0x1f,
            reset_cpenable: 0,
            ..Self::linux_user()
        }
    }

    /// The scalar part of a Vision-Q7 pool core: 64 registers, CONST16, bundles recognised,
    /// windows handled by the engine, stack limits.
    pub fn vision_q7() -> Self {
        Self {
            isa: IsaSet::vision_q7(),
            flix: Flix::VisionQ7,
            address_registers: 64,
            simcall: true,
            stack_limits: true,
            reset_ps: 0x40020,
            reset_cpenable: 0xff,
            ..Self::linux_user()
        }
    }

    /// The decoder for this core.
    pub fn decoder(&self) -> Decoder {
        Decoder::new(self.isa).with_flix(self.flix)
    }

    /// Checks that the parts fit together.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn check(&self) -> Result<(), ConfigError> {
        if self.isa.has(Isa::Mac16) && self.isa.has(Isa::Const16) {
            return Err(ConfigError::Mac16AndConst16);
        }
        let windowed = self.isa.has(Isa::Windowed);
        match (windowed, self.address_registers) {
            (true, 32 | 64) | (false, 16) => Ok(()),
            (_, count) => Err(ConfigError::AddressRegisters { count, windowed }),
        }
    }
}

/// A configuration that no core can have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// Two options that share encodings.
    #[error("MAC16 and CONST16 exclude each other: their instructions have the same encodings")]
    Mac16AndConst16,
    /// A register count that does not fit the options.
    #[error(
        "{count} address registers {} register windows: windowed cores have 32 or 64, others 16",
        if *windowed { "with" } else { "without" }
    )]
    AddressRegisters {
        /// The count as given.
        count: u8,
        /// Does the core have windows?
        windowed: bool,
    },
}
