//! The simulated firmware of a core: a few hundred bytes of device code, and the data it works on.
//!
//! Libraries are called through it and call it back to register their functions, as they do on a device. It is
//! assembled from `firmware.S` when a pool is made.

use std::collections::HashMap;

use outboard_elf::Elf;
use outboard_xtensa::asm::{AsmOptions, assemble};

use crate::abi::FIRMWARE_CONFIG;
use crate::symbols::Symbols;
use crate::target::PoolTarget;

const SOURCE: &str = include_str!("firmware.S");
/// Functions that the table has room for.
pub(crate) const FUNCTIONS: u32 = 97;
/// Bytes of the record that libraries get.
pub(crate) const RECORD_SIZE: u32 = 36;
/// What libraries get as their handle.
const HANDLE: u32 = 0x4f42_0001;

const VALUES: u32 = 0x40;
const COUNT: u32 = 0x60;
const STATUS: u32 = 0x64;
const TABLE: u32 = 0x80;
const ROW: u32 = 16;

/// The firmware's code and where its routines are in it.
#[derive(Debug)]
pub(crate) struct Firmware {
    pub(crate) code: Vec<u8>,
    routines: HashMap<String, u32>,
}

/// What the host writes into a core's data memory before a library is started.
#[derive(Debug)]
pub(crate) struct BootData {
    /// Address and bytes of the firmware's data.
    pub(crate) data: (u32, Vec<u8>),
    /// Address and bytes of what the runtime reads from the scratch space.
    pub(crate) config: (u32, Vec<u8>),
}

/// A registered function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Registered {
    pub(crate) name: u32,
    pub(crate) function: u32,
}

impl Firmware {
    /// Assembles the firmware for a target.
    ///
    /// The source is part of the program and depends on two numbers only; a test assembles it.
    pub(crate) fn assemble(target: &PoolTarget) -> Self {
        let source = format!("FIRMWARE = {}\nFUNCTIONS = {FUNCTIONS}\n{SOURCE}", target.local.firmware.address);
        let object = assemble(&source, &AsmOptions::default());
        let object = object.unwrap_or_else(|errors| unreachable!("firmware.S: {errors:?}"));
        Self::of_object(&object).unwrap_or_else(|| unreachable!("firmware.S has a text section and symbols"))
    }

    fn of_object(object: &[u8]) -> Option<Self> {
        let elf = Elf::parse(object).ok()?;
        let sections = elf.sections().ok()?;
        let text = sections.by_name(b".text")?;
        let code = sections.data(&text).ok()?.to_vec();
        let symbols = Symbols::of(&elf, |address| address);
        let routines = symbols.iter().map(|function| (function.name.clone(), function.address)).collect();
        Some(Self { code, routines })
    }

    /// The address of a routine when the firmware lies at `base`.
    pub(crate) fn routine(&self, base: u32, name: &str) -> u32 {
        base.wrapping_add(self.routines.get(name).copied().unwrap_or(0))
    }

    /// What a core's data memory holds when a library starts; `queues`: where its print queues are, 0 for none.
    pub(crate) fn boot_data(&self, target: &PoolTarget, core: usize, base: u32, queues: [u64; 2]) -> BootData {
        let at = target.local.firmware.address;
        let mut data = vec![0; (TABLE + ROW * FUNCTIONS) as usize];
        let offered = [
            "register_function",
            "not_offered",
            "get_data_scratch",
            "get_hbm_scratch",
            "get_dma_queue",
            "register_opcode",
            "not_offered",
        ];
        let mut record = vec![RECORD_SIZE, HANDLE];
        record.extend(offered.iter().map(|name| self.routine(base, name)));
        let (scratch, size) = target.hbm.scratch;
        let hbm = target.soc.hbm_base + scratch + size * core as u64;
        let doorbell = |(first, step): (u32, u32)| first.wrapping_add(step.wrapping_mul(core as u32));
        let values = [
            target.local.scratch.address,
            target.local.scratch.size,
            hbm as u32,
            (hbm >> 32) as u32,
            size as u32,
            doorbell(target.soc.m2s_doorbell),
            doorbell(target.soc.s2m_doorbell),
        ];
        put_words(&mut data, 0, &record);
        put_words(&mut data, VALUES as usize, &values);
        let window = target.local.moving.iter().find(|window| window.register == 0);
        let mut config = Vec::new();
        for value in [queues[0], queues[1], target.soc.dataram_base, target.soc.apb_base] {
            config.extend_from_slice(&value.to_le_bytes());
        }
        config.extend_from_slice(&window.map_or(0, |window| window.span.address).to_le_bytes());
        BootData { data: (at, data), config: (target.local.scratch.address + FIRMWARE_CONFIG, config) }
    }

    /// The functions that a library registered, from the firmware's data; `None` when there were too many.
    pub(crate) fn registered(data: &[u8]) -> Option<Vec<Registered>> {
        let word = |at: u32| {
            let bytes = data.get(at as usize..)?.first_chunk::<4>()?;
            Some(u32::from_le_bytes(*bytes))
        };
        if word(STATUS)? != 0 {
            return None;
        }
        let row = |index: u32| {
            let at = TABLE + ROW * index;
            Some(Registered { name: word(at + 4)?, function: word(at + 8)? })
        };
        (0..word(COUNT)?.min(FUNCTIONS)).map(row).collect()
    }

    /// Bytes of the firmware's data.
    pub(crate) fn data_size() -> usize {
        (TABLE + ROW * FUNCTIONS) as usize
    }
}

fn put_words(bytes: &mut [u8], at: usize, words: &[u32]) {
    for (place, word) in bytes.iter_mut().skip(at).zip(words.iter().flat_map(|word| word.to_le_bytes())) {
        *place = word;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_firmware_fits_its_place_and_names_its_routines() {
        let target = PoolTarget::default();
        let firmware = Firmware::assemble(&target);
        assert!(firmware.code.len() < target.local.vectors as usize);
        assert!(Firmware::data_size() < target.local.firmware.size as usize);
        assert_eq!(firmware.routine(0x1000, "dispatch"), 0x1000);
        assert!(firmware.routine(0, "get_hbm_scratch") > 0);
    }

    #[test]
    fn the_table_of_functions_is_read_back() {
        let mut data = vec![0; Firmware::data_size()];
        put_words(&mut data, COUNT as usize, &[2]);
        put_words(&mut data, TABLE as usize, &[1, 0x10, 0x20, 0, 1, 0x30, 0x40, 0]);
        let rows = Firmware::registered(&data).unwrap();
        let expected = [(0x10, 0x20), (0x30, 0x40)].map(|(name, function)| Registered { name, function });
        assert_eq!(rows, expected);
        put_words(&mut data, STATUS as usize, &[1]);
        assert_eq!(Firmware::registered(&data), None, "there were too many");
    }
}
