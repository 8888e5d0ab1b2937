//! The pool as data: `targets/gpsimd-pool.toml`.

use outboard_link::pi::MemoryBounds;
use outboard_ucode::cores::{self, CoreKind};
use toml::{Table, Value};

/// The file that belongs to the program.
const FILE: &str = include_str!("../../../targets/gpsimd-pool.toml");

/// A target file that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("target file: {0}; compare it with targets/gpsimd-pool.toml")]
pub struct BadTarget(pub String);

/// First address and size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// First address.
    pub address: u32,
    /// Bytes.
    pub size: u32,
}

impl Span {
    /// Offset of `address` inside, if it is inside.
    #[inline]
    pub(crate) fn offset(&self, address: u32) -> Option<u32> {
        let offset = address.wrapping_sub(self.address);
        (offset < self.size).then_some(offset)
    }

    /// Does it hold `size` bytes at `address`?
    pub(crate) fn holds(&self, address: u32, size: u32) -> bool {
        self.offset(address).is_some_and(|offset| size <= self.size - offset)
    }
}

/// A window that a register moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MovingWindow {
    /// Where the core sees it.
    pub span: Span,
    /// Number of its register.
    pub register: usize,
}

/// What a core sees by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Local {
    /// Bytes of the instruction memory that belong to the firmware.
    pub vectors: u32,
    /// Data scratch.
    pub scratch: Span,
    /// The firmware's data.
    pub firmware: Span,
    /// The stack.
    pub stack: Span,
    /// First of the registers.
    pub registers: u32,
    /// Offset of the engine's base.
    pub engine_base_offset: u32,
    /// Offset of the window registers, eight bytes each.
    pub window_offset: u32,
    /// Windows that move.
    pub moving: Vec<MovingWindow>,
    /// The window onto on-chip memory.
    pub sbuf: Span,
    /// The window onto images and scratch spaces.
    pub hbm: Span,
}

/// Where things are for the DMA engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Soc {
    /// Doorbells.
    pub apb_base: u64,
    /// Offset of the first read doorbell, distance between cores.
    pub m2s_doorbell: (u32, u32),
    /// The same for write doorbells.
    pub s2m_doorbell: (u32, u32),
    /// Base of the data memories.
    pub dataram_base: u64,
    /// The engine.
    pub engine_base: u64,
    /// Bytes of on-chip memory.
    pub sbuf_size: u64,
    /// Memory of the board.
    pub hbm_base: u64,
    /// Its size.
    pub hbm_size: u64,
    /// Bytes that a run may write.
    pub resident_limit: u64,
}

impl Soc {
    /// First address of the on-chip memory.
    pub fn sbuf_base(&self) -> u64 {
        self.engine_base.wrapping_sub(0x0290_0000)
    }

    /// First address of the data memory of a core: 64 KiB.
    pub fn dataram(&self, core: usize) -> u64 {
        self.dataram_base + ((2 * core as u64 + 9) << 16)
    }
}

/// What the host puts where in HBM, as offsets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HbmPlan {
    /// Image of the first core, distance.
    pub images: (u64, u64),
    /// Scratch space of the first core, size.
    pub scratch: (u64, u64),
    /// Print queues.
    pub queues: u64,
    /// Arguments and results.
    pub tensors: u64,
    /// Libraries on their way.
    pub staging: u64,
}

/// How instructions become calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DispatchRules {
    /// The result counts among the ten arguments.
    pub output_uses_a_slot: bool,
    /// Arguments with several tensors are passed on; otherwise they are refused.
    pub array_arguments: bool,
    /// Number of the notification queue.
    pub notification_queue: u32,
    /// Instructions of one core in one dispatch.
    pub fuel: u64,
    /// Bytes that a core may hold back.
    pub write_buffer_limit: u64,
}

/// A pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PoolTarget {
    /// Number of cores: 1, 4 or 8.
    pub cores: usize,
    /// What kind of cores.
    pub kind: CoreKind,
    /// What a core sees.
    pub local: Local,
    /// What the DMA engine sees.
    pub soc: Soc,
    /// What the host puts where.
    pub hbm: HbmPlan,
    /// How instructions become calls.
    pub dispatch: DispatchRules,
}

impl Default for PoolTarget {
    fn default() -> Self {
        // The file is part of the program, and a test reads it.
        Self::parse(FILE).unwrap_or_else(|error| unreachable!("{error}"))
    }
}

impl PoolTarget {
    /// Reads a target file.
    ///
    /// ```
    /// use outboard_gpsimd::PoolTarget;
    /// let target = PoolTarget::default();
    /// assert_eq!((target.cores, target.kind.name.as_str()), (8, "cayman"));
    /// assert!(PoolTarget::parse("cores = 3").is_err());
    /// ```
    ///
    /// # Errors
    /// [`BadTarget`] names the field.
    pub fn parse(text: &str) -> Result<Self, BadTarget> {
        let file: Table = text.parse().map_err(|error: toml::de::Error| BadTarget(error.to_string()))?;
        let root = Section { name: "", table: &file };
        let cores = root.number("cores")?;
        let kind = root.text("core_kind")?;
        let target = Self {
            cores: usize::try_from(cores).unwrap_or(usize::MAX),
            kind: cores::find(kind).map_err(|error| BadTarget(error.to_string()))?.clone(),
            local: local(&root.section("local")?)?,
            soc: soc(&root.section("soc")?)?,
            hbm: hbm(&root.section("hbm")?)?,
            dispatch: dispatch(&root.section("dispatch")?)?,
        };
        match target.problem() {
            None => Ok(target),
            Some(problem) => Err(BadTarget(problem)),
        }
    }

    /// The same pool with another core kind.
    #[must_use]
    pub fn with_kind(mut self, kind: &CoreKind) -> Self {
        self.kind = kind.clone();
        self
    }

    /// The memory of a core.
    pub fn bounds(&self) -> &MemoryBounds {
        &self.kind.bounds
    }

    /// Instruction memory.
    pub fn iram(&self) -> Span {
        Span { address: low(self.bounds().iram_base), size: low(self.bounds().iram_size) }
    }

    /// Data memory.
    pub fn dram(&self) -> Span {
        Span { address: low(self.bounds().dram_base), size: low(self.bounds().dram_size) }
    }

    /// Says what does not fit together; `None` when everything does. A target that was read from a file is sound; this is for
    /// one whose fields were changed.
    pub fn problem(&self) -> Option<String> {
        if !matches!(self.cores, 1 | 4 | 8) {
            return Some(format!("cores is {}, expected 1, 4 or 8", self.cores));
        }
        let dram = self.dram();
        for (name, span) in
            [("scratch", self.local.scratch), ("firmware", self.local.firmware), ("stack", self.local.stack)]
        {
            if !dram.holds(span.address, span.size) {
                return Some(format!("local.{name} does not lie in the data memory of {}", self.kind.name));
            }
        }
        if self.local.moving.iter().any(|window| window.register >= 8) {
            return Some("local.moving: there are registers 0 to 7".to_owned());
        }
        let (first, distance) = self.hbm.images;
        let (scratch, size) = self.hbm.scratch;
        let cores = self.cores as u64;
        let window = u64::from(self.local.hbm.size);
        if first + distance * cores > scratch || scratch + size * cores > window {
            return Some(
                "hbm: images and scratch spaces of all cores must fit into the window, one after the other".into(),
            );
        }
        if !self.soc.sbuf_base().is_multiple_of(0x400_0000) || !self.soc.hbm_base.is_multiple_of(0x400_0000) {
            return Some("soc: on-chip memory and HBM must begin at multiples of 64 MiB, as their windows do".into());
        }
        None
    }
}

/// A table of the file, with its name for messages.
struct Section<'a> {
    name: &'a str,
    table: &'a Table,
}

impl<'a> Section<'a> {
    fn bad(&self, key: &str, expected: &str) -> BadTarget {
        let dot = if self.name.is_empty() { "" } else { "." };
        BadTarget(format!("`{}{dot}{key}` must be {expected}", self.name))
    }

    fn section(&self, key: &'a str) -> Result<Section<'a>, BadTarget> {
        let table = self.table.get(key).and_then(Value::as_table);
        table.map(|table| Section { name: key, table }).ok_or_else(|| self.bad(key, "a table"))
    }

    fn number(&self, key: &str) -> Result<u64, BadTarget> {
        let value = self.table.get(key).and_then(Value::as_integer);
        value.and_then(|value| u64::try_from(value).ok()).ok_or_else(|| self.bad(key, "a number from 0 on"))
    }

    fn word(&self, key: &str) -> Result<u32, BadTarget> {
        u32::try_from(self.number(key)?).map_err(|_| self.bad(key, "a number of 32 bits"))
    }

    fn pair(&self, key: &str) -> Result<(u64, u64), BadTarget> {
        let values = self.table.get(key).and_then(Value::as_array);
        let values: Option<Vec<u64>> =
            values.and_then(|all| all.iter().map(|v| v.as_integer().and_then(|v| u64::try_from(v).ok())).collect());
        match values.as_deref() {
            Some([first, second]) => Ok((*first, *second)),
            _ => Err(self.bad(key, "two numbers from 0 on")),
        }
    }

    fn words(&self, key: &str) -> Result<(u32, u32), BadTarget> {
        let (first, second) = self.pair(key)?;
        match (u32::try_from(first), u32::try_from(second)) {
            (Ok(first), Ok(second)) => Ok((first, second)),
            _ => Err(self.bad(key, "two numbers of 32 bits")),
        }
    }

    fn span(&self, key: &str) -> Result<Span, BadTarget> {
        let (address, size) = self.words(key)?;
        Ok(Span { address, size })
    }

    fn text(&self, key: &str) -> Result<&'a str, BadTarget> {
        self.table.get(key).and_then(Value::as_str).ok_or_else(|| self.bad(key, "a text"))
    }

    fn flag(&self, key: &str) -> Result<bool, BadTarget> {
        self.table.get(key).and_then(Value::as_bool).ok_or_else(|| self.bad(key, "true or false"))
    }
}

fn window(section: &Section<'_>) -> Result<Span, BadTarget> {
    Ok(Span { address: section.word("address")?, size: section.word("size")? })
}

fn local(section: &Section<'_>) -> Result<Local, BadTarget> {
    let moving = section.table.get("moving").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let moving = moving.iter().map(|value| {
        let table = value.as_table().ok_or_else(|| section.bad("moving", "tables"))?;
        let part = Section { name: "local.moving", table };
        let register = usize::try_from(part.number("register")?).unwrap_or(usize::MAX);
        Ok(MovingWindow { span: window(&part)?, register })
    });
    Ok(Local {
        vectors: section.word("vectors")?,
        scratch: section.span("scratch")?,
        firmware: section.span("firmware")?,
        stack: section.span("stack")?,
        registers: section.word("registers")?,
        engine_base_offset: section.word("engine_base_offset")?,
        window_offset: section.word("window_offset")?,
        moving: moving.collect::<Result<_, BadTarget>>()?,
        sbuf: window(&section.section("sbuf")?)?,
        hbm: window(&section.section("hbm")?)?,
    })
}

fn soc(section: &Section<'_>) -> Result<Soc, BadTarget> {
    Ok(Soc {
        apb_base: section.number("apb_base")?,
        m2s_doorbell: section.words("m2s_doorbell")?,
        s2m_doorbell: section.words("s2m_doorbell")?,
        dataram_base: section.number("dataram_base")?,
        engine_base: section.number("engine_base")?,
        sbuf_size: section.number("sbuf_size")?,
        hbm_base: section.number("hbm_base")?,
        hbm_size: section.number("hbm_size")?,
        resident_limit: section.number("resident_limit")?,
    })
}

fn hbm(section: &Section<'_>) -> Result<HbmPlan, BadTarget> {
    Ok(HbmPlan {
        images: section.pair("images")?,
        scratch: section.pair("scratch")?,
        queues: section.number("queues")?,
        tensors: section.number("tensors")?,
        staging: section.number("staging")?,
    })
}

fn dispatch(section: &Section<'_>) -> Result<DispatchRules, BadTarget> {
    let extended = section.text("extended_arguments")?;
    if extended != "pool-argument" {
        return Err(section.bad("extended_arguments", "\"pool-argument\", the only way there is"));
    }
    Ok(DispatchRules {
        output_uses_a_slot: section.flag("output_uses_a_slot")?,
        array_arguments: section.flag("array_arguments")?,
        notification_queue: section.word("notification_queue")?,
        fuel: section.number("fuel")?,
        write_buffer_limit: section.number("write_buffer_limit")?,
    })
}

/// Core kinds keep 64-bit bounds that a check holds below 4 GiB.
fn low(value: u64) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_the_program_is_sound() {
        let target = PoolTarget::default();
        assert_eq!(target.iram(), Span { address: 0, size: 0x2_0000 });
        assert_eq!(target.soc.sbuf_base(), 0x20_0000_0000);
        assert_eq!(target.soc.dataram(7), 0x20_1000_0000 + (23 << 16));
        assert_eq!(target.local.moving.len(), 4);
    }

    #[test]
    fn a_file_with_a_fault_names_the_field() {
        for (from, to, named) in [
            ("cores = 8", "cores = 3", "cores is 3"),
            ("core_kind = \"cayman\"", "core_kind = \"tonga\"", "tonga"),
            ("register = 6", "register = 9", "local.moving"),
            ("stack = [0x8C000, 0x2000]", "stack = [0x8C000]", "`local.stack`"),
            ("stack = [0x8C000, 0x2000]", "stack = [0x0, 0x2000]", "local.stack"),
            ("scratch = [0x1000000, 0x600000]", "scratch = [0x1000000, 0x6000000]", "hbm:"),
            ("engine_base = 0x2002900000", "engine_base = 0x2000000000", "64 MiB"),
            ("\"pool-argument\"", "\"guess\"", "extended_arguments"),
        ] {
            let text = PoolTarget::parse(&FILE.replace(from, to)).unwrap_err().to_string();
            assert!(text.contains(named), "{text}");
        }
    }
}
