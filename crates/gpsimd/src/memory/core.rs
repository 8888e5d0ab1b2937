//! The memory of one core: its own instruction and data memory, registers, and the windows onto what all share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use outboard_xtensa::engine::{Access, Memory, MemoryError};

use super::WriteBuffer;
use super::shared::{PAGE_BITS, Page, SharedError, merge};
use crate::bus::{Bus, BusError};
use crate::diagnose::{self, NOTICED, Watch};
use crate::target::Span;

/// Number of entries of the page table that a core keeps at hand.
const HANDY: usize = 32;
/// No overlay, no window.
const NONE: usize = usize::MAX;
/// Codes of [`MemoryError::Device`]; [`CoreMemory::refusal`] says more.
const REFUSED: u32 = 1;

/// Why the last access was refused, beyond what the engine's error says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// A window shows an address without memory, or a transfer failed.
    Bus(BusError),
    /// The access leaves a window upwards.
    WindowEnd {
        /// Local address of the window.
        window: u32,
        /// Its size.
        size: u32,
    },
    /// A register that is not simulated.
    Register {
        /// Its local address.
        address: u32,
    },
}

/// What a core did with the world outside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct HookCounts {
    /// Doorbells rung.
    pub doorbells: u64,
    /// Transfers of the DMA engine.
    pub transfers: u64,
    /// Bytes that they moved.
    pub bytes: u64,
    /// Windows moved.
    pub windows: u64,
    /// Ordering instructions that found something to order.
    pub drains: u64,
}

impl HookCounts {
    /// Both together.
    pub(crate) fn plus(&self, other: &Self) -> Self {
        Self {
            doorbells: self.doorbells + other.doorbells,
            transfers: self.transfers + other.transfers,
            bytes: self.bytes + other.bytes,
            windows: self.windows + other.windows,
            drains: self.drains + other.drains,
        }
    }

    /// What was added since `before`.
    pub(crate) fn since(&self, before: &Self) -> Self {
        Self {
            doorbells: self.doorbells - before.doorbells,
            transfers: self.transfers - before.transfers,
            bytes: self.bytes - before.bytes,
            windows: self.windows - before.windows,
            drains: self.drains - before.drains,
        }
    }
}

#[derive(Debug)]
struct Window {
    span: Span,
    /// First address that it shows.
    base: u64,
    register: Option<usize>,
    executable: bool,
}

#[derive(Debug)]
struct Handy {
    page: u64,
    words: Option<Page>,
    overlay: usize,
}

/// The memory of a core.
#[derive(Debug)]
pub(crate) struct CoreMemory {
    bus: Arc<Bus>,
    core: usize,
    iram_span: Span,
    iram: Vec<u8>,
    dram_span: Span,
    dram: Arc<[AtomicU32]>,
    registers: Span,
    engine_base: (u32, u64),
    window_offset: u32,
    window_registers: [u64; 8],
    windows: Vec<Window>,
    /// Window by the top byte of an address.
    by_top: [usize; 256],
    handy: Vec<Handy>,
    buffer: WriteBuffer,
    buffered: u64,
    /// This core's program: stores to it are not held back, since nobody else has a use for them.
    image: (u64, u64),
    doorbells: [(u64, u32); 2],
    ring_head: u32,
    pub(crate) counts: HookCounts,
    refusal: Option<Refusal>,
    /// What looks at every access, while a run is diagnosed.
    watch: Option<Box<Watch>>,
}

impl CoreMemory {
    pub(crate) fn new(bus: &Arc<Bus>, core: usize) -> Self {
        let target = &bus.target;
        let local = &target.local;
        let mut windows: Vec<Window> = local
            .moving
            .iter()
            .map(|w| Window { span: w.span, base: 0, register: Some(w.register), executable: false })
            .collect();
        let pinned = |span, base, executable| Window { span, base, register: None, executable };
        windows.push(pinned(local.sbuf, target.soc.sbuf_base(), false));
        windows.push(pinned(local.hbm, target.soc.hbm_base, true));
        let mut by_top = [NONE; 256];
        for (index, window) in windows.iter().enumerate() {
            let first = (window.span.address >> 24) as usize;
            let count = (window.span.size >> 24).max(1) as usize;
            by_top.iter_mut().skip(first).take(count).for_each(|place| *place = index);
        }
        let mut window_registers = [0; 8];
        window_registers[0] = target.soc.apb_base;
        let doorbell = |(first, step): (u32, u32)| target.soc.apb_base + u64::from(first + step * core as u32);
        let (first, distance) = target.hbm.images;
        let image = target.soc.hbm_base + first + distance * core as u64;
        let mut memory = Self {
            core,
            iram_span: target.iram(),
            iram: vec![0; target.iram().size as usize],
            dram_span: target.dram(),
            dram: bus.dataram(core),
            registers: Span { address: local.registers, size: 0x850 },
            engine_base: (local.engine_base_offset, target.soc.engine_base),
            window_offset: local.window_offset,
            window_registers,
            windows,
            by_top,
            handy: (0..HANDY).map(|_| Handy { page: u64::MAX, words: None, overlay: NONE }).collect(),
            buffer: WriteBuffer::default(),
            buffered: 0,
            image: (image, image + distance),
            doorbells: [(doorbell(target.soc.s2m_doorbell), 0), (doorbell(target.soc.m2s_doorbell), 0)],
            ring_head: 0,
            counts: HookCounts::default(),
            refusal: None,
            watch: None,
            bus: Arc::clone(bus),
        };
        memory.place_windows();
        memory
    }

    fn place_windows(&mut self) {
        for window in &mut self.windows {
            if let Some(register) = window.register {
                window.base = self.window_registers[register & 7];
            }
        }
    }

    /// What the window registers hold.
    pub(crate) fn window_registers(&self) -> [u64; 8] {
        self.window_registers
    }

    /// Puts the window registers back into their reset state.
    pub(crate) fn reset_windows(&mut self) {
        self.window_registers = [0; 8];
        self.window_registers[0] = self.bus.target.soc.apb_base;
        self.place_windows();
    }

    /// Why the last access was refused.
    pub(crate) fn take_refusal(&mut self) -> Option<Refusal> {
        self.refusal.take()
    }

    /// Writes bytes into this core's own memories, as the host and the firmware do.
    pub(crate) fn place(&mut self, address: u32, bytes: &[u8]) -> Result<(), MemoryError> {
        let size = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        if self.iram_span.holds(address, size) {
            let start = (address - self.iram_span.address) as usize;
            if let Some(place) = self.iram.get_mut(start..start + bytes.len()) {
                place.copy_from_slice(bytes);
                return Ok(());
            }
        }
        if self.dram_span.holds(address, size) {
            super::store_bytes(&self.dram, (address - self.dram_span.address) as usize, bytes);
            return Ok(());
        }
        Err(MemoryError::Unmapped { access: Access::Store, address })
    }

    /// Reads bytes as the core sees them.
    pub(crate) fn peek(&mut self, address: u32, bytes: &mut [u8]) -> Result<(), MemoryError> {
        for (index, byte) in bytes.iter_mut().enumerate() {
            let address = address.wrapping_add(index as u32);
            *byte = (self.load_word(address)? >> (8 * (address & 3))) as u8;
        }
        Ok(())
    }

    /// Has every access looked at from now on, or none.
    pub(crate) fn set_watch(&mut self, watch: Option<Watch>) {
        self.watch = watch.map(Box::new);
    }

    /// What looks at every access.
    pub(crate) fn watch(&mut self) -> Option<&mut Watch> {
        self.watch.as_deref_mut()
    }

    /// Looks at an access of the core.
    #[inline]
    fn look(&mut self, address: u32, length: u32, access: Access) -> Result<(), MemoryError> {
        if self.watch.is_none() { Ok(()) } else { self.look_closely(address, length, access) }
    }

    #[cold]
    fn look_closely(&mut self, address: u32, length: u32, access: Access) -> Result<(), MemoryError> {
        let soc = self.through_window(address);
        let Some(watch) = self.watch.as_deref_mut() else { return Ok(()) };
        if soc.is_some_and(|soc| self.doorbells.iter().any(|(doorbell, _)| *doorbell == soc)) || watch.passes() {
            return Ok(());
        }
        let kind = if access == Access::Store { diagnose::Access::Write } else { diagnose::Access::Read };
        let held = match soc {
            _ if self.dram_span.offset(address).is_some() => watch.local(address, length, kind),
            Some(soc) => watch.window(soc, length, kind),
            None => false,
        };
        if held { Err(MemoryError::Device { access, address, code: NOTICED }) } else { Ok(()) }
    }

    /// Lets everybody see this core's stores.
    pub(crate) fn drain(&mut self) {
        if self.buffer.is_empty() {
            return;
        }
        self.counts.drains += 1;
        self.buffered = 0;
        let bus = &self.bus;
        let page = |number| {
            // A page that holds stores was found when they were made.
            let nothing = SharedError::Outside { offset: number << PAGE_BITS, length: 1, size: 0 };
            bus.page_for_writing(number).map_err(|_| nothing)
        };
        if self.buffer.drain(page).unwrap_or(true) {
            self.forget_overlays();
        }
    }

    /// Drops this core's stores that nobody saw; returns the bytes of them outside of the ranges that are its own.
    pub(crate) fn discard(&mut self, own: (u64, u64)) -> u64 {
        let lost = self.buffer.pending().into_iter().filter(|(page, _)| {
            let address = page << PAGE_BITS;
            !(own.0..own.1).contains(&address)
        });
        let lost = lost.map(|(_, bytes)| bytes).sum();
        self.buffered = 0;
        if self.buffer.discard() {
            self.forget_overlays();
        }
        lost
    }

    fn forget_overlays(&mut self) {
        for handy in &mut self.handy {
            handy.overlay = NONE;
        }
    }

    fn unmapped(access: Access, address: u32) -> MemoryError {
        MemoryError::Unmapped { access, address }
    }

    /// The address behind a local one; `None` where no window is.
    #[inline]
    fn through_window(&self, address: u32) -> Option<u64> {
        let window = self.windows.get(self.by_top[(address >> 24) as usize])?;
        Some(window.base.wrapping_add(window.span.offset(address)?.into()))
    }

    /// The handy entry of a page, up to date.
    #[inline]
    fn handy(&mut self, page: u64) -> Result<usize, BusError> {
        let index = page as usize % HANDY;
        let entry = &self.handy[index];
        if entry.page != page || entry.words.is_none() {
            let words = self.bus.page(page)?.cloned();
            let overlay = self.buffer.find(page).unwrap_or(NONE);
            self.handy[index] = Handy { page, words, overlay };
        }
        Ok(index)
    }

    fn refuse(&mut self, refusal: Refusal, access: Access, address: u32) -> MemoryError {
        self.refusal = Some(refusal);
        MemoryError::Device { access, address, code: REFUSED }
    }

    #[inline]
    fn load_word(&mut self, address: u32) -> Result<u32, MemoryError> {
        if let Some(offset) = self.dram_span.offset(address)
            && let Some(word) = self.dram.get(offset as usize / 4)
        {
            return Ok(word.load(Ordering::Relaxed));
        }
        if let Some(soc) = self.through_window(address) {
            return self.load_shared(soc, address);
        }
        if let Some(offset) = self.iram_span.offset(address) {
            let start = offset as usize & !3;
            if let Some([a, b, c, d]) = self.iram.get(start..start + 4) {
                return Ok(u32::from_le_bytes([*a, *b, *c, *d]));
            }
        }
        self.load_register(address)
    }

    #[inline]
    fn load_shared(&mut self, soc: u64, address: u32) -> Result<u32, MemoryError> {
        let index = match self.handy(soc >> PAGE_BITS) {
            Ok(index) => index,
            Err(error) => return Err(self.refuse(Refusal::Bus(error), Access::Load, address)),
        };
        let entry = &self.handy[index];
        let word = (soc & 0xffff) as usize / 4;
        let shared = entry.words.as_ref().and_then(|words| words.get(word)).map_or(0, |w| w.load(Ordering::Relaxed));
        if self.buffer.is_empty() {
            return Ok(shared);
        }
        Ok(self.buffer.overlay(entry.overlay).map_or(shared, |overlay| overlay.load(word, shared)))
    }

    /// Stores the bytes of `mask` of the word at an address; `bits` has one bit for each of them.
    #[inline]
    fn store_word(&mut self, address: u32, value: u32, mask: u32, bits: u32) -> Result<(), MemoryError> {
        if let Some(offset) = self.dram_span.offset(address)
            && let Some(word) = self.dram.get(offset as usize / 4)
        {
            // Only this core and its own transfers write here, and it waits for those.
            let old = if mask == u32::MAX { 0 } else { word.load(Ordering::Relaxed) };
            word.store(old & !mask | value & mask, Ordering::Relaxed);
            return Ok(());
        }
        if let Some(soc) = self.through_window(address) {
            return self.store_shared(soc, address, value, mask, bits);
        }
        self.store_register(address, value, mask)
    }

    #[inline]
    fn store_shared(&mut self, soc: u64, address: u32, value: u32, mask: u32, bits: u32) -> Result<(), MemoryError> {
        let page = soc >> PAGE_BITS;
        let word = (soc & 0xffff) as usize / 4;
        if (self.image.0..self.image.1).contains(&soc) {
            let index = match self.handy(page) {
                Ok(index) => index,
                Err(error) => return Err(self.refuse(Refusal::Bus(error), Access::Store, address)),
            };
            if let Some(place) = self.handy[index].words.as_ref().and_then(|words| words.get(word)) {
                merge(place, value, mask);
                return Ok(());
            }
            return match self.bus.page_for_writing(page) {
                Ok(words) => {
                    words.get(word).into_iter().for_each(|place| merge(place, value, mask));
                    Ok(())
                }
                Err(error) => Err(self.refuse(Refusal::Bus(error), Access::Store, address)),
            };
        }
        let entry = &self.handy[page as usize % HANDY];
        let overlay = if entry.page == page && entry.overlay != NONE && entry.words.is_some() {
            entry.overlay
        } else {
            match self.overlay_for(soc, value, address)? {
                Some(overlay) => overlay,
                None => return Ok(()),
            }
        };
        self.buffer.store(overlay, page, word, value, mask, bits);
        self.buffered += 4;
        if self.buffered > self.bus.target.dispatch.write_buffer_limit {
            self.drain();
        }
        Ok(())
    }

    /// The overlay for a store, or `None` when the store was to a doorbell.
    #[cold]
    fn overlay_for(&mut self, soc: u64, value: u32, address: u32) -> Result<Option<usize>, MemoryError> {
        let page = soc >> PAGE_BITS;
        if self.doorbells.iter().any(|(doorbell, _)| *doorbell == soc) {
            // A doorbell that was held up has rung.
            if self.watch.as_deref_mut().is_some_and(Watch::passes) {
                return Ok(None);
            }
            return match self.ring(soc, value) {
                Ok(true) => Err(MemoryError::Device { access: Access::Store, address, code: NOTICED }),
                Ok(false) => Ok(None),
                Err(error) => Err(self.refuse(Refusal::Bus(error), Access::Store, address)),
            };
        }
        // The page exists from now on, so that draining it cannot fail.
        let words = match self.bus.page_for_writing(page) {
            Ok(words) => Arc::clone(words),
            Err(error) => return Err(self.refuse(Refusal::Bus(error), Access::Store, address)),
        };
        let overlay = self.buffer.find_for_writing(page);
        self.handy[page as usize % HANDY] = Handy { page, words: Some(words), overlay };
        Ok(Some(overlay))
    }

    /// Counts a doorbell, and carries out the transfers that both sides were rung for. Says whether one of them is to be looked at.
    fn ring(&mut self, soc: u64, value: u32) -> Result<bool, BusError> {
        let mut held = false;
        self.counts.doorbells += 1;
        for (doorbell, pending) in &mut self.doorbells {
            if *doorbell == soc {
                *pending = pending.saturating_add(value);
            }
        }
        while self.doorbells.iter().all(|(_, pending)| *pending > 0) {
            let transfer = self.bus.transfer(self.core, self.ring_head)?;
            self.ring_head = self.ring_head.wrapping_add(1);
            self.counts.transfers += 1;
            self.counts.bytes += transfer.bytes;
            held |= self.watch.as_deref_mut().is_some_and(|watch| watch.transfer(&transfer));
            self.doorbells.iter_mut().for_each(|(_, pending)| *pending -= 1);
        }
        Ok(held)
    }

    /// Starts the rings anew, as a boot does.
    pub(crate) fn reset_rings(&mut self) {
        self.ring_head = 0;
        self.doorbells.iter_mut().for_each(|(_, pending)| *pending = 0);
    }

    #[cold]
    fn load_register(&mut self, address: u32) -> Result<u32, MemoryError> {
        let Some(offset) = self.registers.offset(address & !3) else {
            return Err(self.outside(Access::Load, address));
        };
        let half = |value: u64, offset: u32| (value >> (8 * (offset & 4))) as u32;
        if offset & !7 == self.engine_base.0 {
            return Ok(half(self.engine_base.1, offset));
        }
        match offset.wrapping_sub(self.window_offset) {
            inside @ 0..0x40 => Ok(half(self.window_registers[(inside / 8) as usize & 7], inside)),
            _ => Err(self.refuse(Refusal::Register { address }, Access::Load, address)),
        }
    }

    #[cold]
    fn store_register(&mut self, address: u32, value: u32, mask: u32) -> Result<(), MemoryError> {
        let Some(offset) = self.registers.offset(address & !3) else {
            return Err(self.outside(Access::Store, address));
        };
        let inside = offset.wrapping_sub(self.window_offset);
        if inside >= 0x40 || mask != u32::MAX {
            return Err(self.refuse(Refusal::Register { address }, Access::Store, address));
        }
        let register = &mut self.window_registers[(inside / 8) as usize & 7];
        if inside & 4 == 0 {
            *register = *register & !0xffff_ffff | u64::from(value);
        } else {
            *register = *register & 0xffff_ffff | u64::from(value) << 32;
            self.counts.windows += 1;
        }
        self.place_windows();
        Ok(())
    }

    /// An address where nothing is; just behind a window it is a range that was not split.
    fn outside(&mut self, access: Access, address: u32) -> MemoryError {
        let ends = |window: &&Window| address.wrapping_sub(window.span.address.wrapping_add(window.span.size)) < 0x1000;
        match self.windows.iter().find(ends) {
            Some(window) => {
                let refusal = Refusal::WindowEnd { window: window.span.address, size: window.span.size };
                self.refuse(refusal, access, address)
            }
            None if access == Access::Store && self.iram_span.offset(address).is_some() => {
                MemoryError::Prohibited { access, address }
            }
            None => Self::unmapped(access, address),
        }
    }
}

impl Memory for CoreMemory {
    #[inline]
    fn load8(&mut self, address: u32) -> Result<u8, MemoryError> {
        self.look(address, 1, Access::Load)?;
        Ok((self.load_word(address)? >> (8 * (address & 3))) as u8)
    }

    #[inline]
    fn load16(&mut self, address: u32) -> Result<u16, MemoryError> {
        self.look(address, 2, Access::Load)?;
        Ok((self.load_word(address)? >> (8 * (address & 2))) as u16)
    }

    #[inline]
    fn load32(&mut self, address: u32) -> Result<u32, MemoryError> {
        self.look(address, 4, Access::Load)?;
        self.load_word(address)
    }

    #[inline]
    fn store8(&mut self, address: u32, value: u8) -> Result<(), MemoryError> {
        self.look(address, 1, Access::Store)?;
        let shift = address & 3;
        self.store_word(address, u32::from(value) << (8 * shift), 0xff << (8 * shift), 1 << shift)
    }

    #[inline]
    fn store16(&mut self, address: u32, value: u16) -> Result<(), MemoryError> {
        self.look(address, 2, Access::Store)?;
        let shift = address & 2;
        self.store_word(address, u32::from(value) << (8 * shift), 0xffff << (8 * shift), 3 << shift)
    }

    #[inline]
    fn store32(&mut self, address: u32, value: u32) -> Result<(), MemoryError> {
        self.look(address, 4, Access::Store)?;
        self.store_word(address, value, u32::MAX, 15)
    }

    #[inline]
    fn peek32(&self, address: u32) -> Option<u32> {
        if self.watch.is_some() {
            return None;
        }
        let offset = self.dram_span.offset(address)?;
        self.dram.get(offset as usize / 4).map(|word| word.load(Ordering::Relaxed))
    }

    fn barrier(&mut self) {
        self.drain();
    }

    fn fetch(&mut self, address: u32, buffer: &mut [u8]) -> Result<usize, MemoryError> {
        if let Some(offset) = self.iram_span.offset(address) {
            let rest = self.iram.get(offset as usize..).unwrap_or(&[]);
            let count = rest.len().min(buffer.len());
            buffer.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
            return Ok(count);
        }
        let index = self.by_top[(address >> 24) as usize];
        let Some(window) = self.windows.get(index).filter(|window| window.executable) else {
            let here = self.dram_span.offset(address).is_some() || index != NONE;
            let access = Access::Fetch;
            return Err(if here {
                MemoryError::Prohibited { access, address }
            } else {
                Self::unmapped(access, address)
            });
        };
        let left = window.span.offset(address).map_or(0, |offset| window.span.size - offset);
        let count = buffer.len().min(left as usize);
        self.peek(address, buffer.get_mut(..count).unwrap_or_default())?;
        Ok(count)
    }

    fn compare_exchange32(&mut self, address: u32, expected: u32, new: u32) -> Result<u32, MemoryError> {
        let Some(soc) = self.through_window(address) else {
            let old = self.load_word(address)?;
            if old == expected {
                self.store32(address, new)?;
            }
            return Ok(old);
        };
        self.drain();
        let words = match self.bus.page_for_writing(soc >> PAGE_BITS) {
            Ok(words) => words,
            Err(error) => return Err(self.refuse(Refusal::Bus(error), Access::Store, address)),
        };
        let word = words.get((soc & 0xffff) as usize / 4);
        let outcome = word.map(|word| word.compare_exchange(expected, new, Ordering::SeqCst, Ordering::SeqCst));
        Ok(outcome.map_or(0, |old| old.unwrap_or_else(|old| old)))
    }
}
