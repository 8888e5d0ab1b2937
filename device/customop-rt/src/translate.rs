//! Windows: how a 64-bit address becomes one that the core can use.

use customop::abi::{TranslationContext, TranslationRecord};

/// Bits of an address inside of a window that moves.
pub(crate) const WINDOW_BITS: u64 = 0x00ff_ffff;
/// Bits of an address inside of a pinned window.
const PINNED_BITS: u64 = 0x03ff_ffff;
/// Windows that move.
const MOVING: usize = 3;
/// From the engine's base down to its on-chip memory.
const SBUF_BELOW_ENGINE: u64 = 0x0290_0000;
/// Local address of the window onto the on-chip memory.
pub(crate) const SBUF_WINDOW: u32 = 0x8000_0000;
/// Local address of the window onto the scratch space.
pub(crate) const SCRATCH_WINDOW: u32 = 0x8400_0000;

/// The windows after a reset: nothing matches the ones that move.
pub fn fresh(engine_base: u64, hbm_scratch: u64) -> TranslationContext {
    let moving = |window: u32, register: u64| TranslationRecord {
        ptr: u64::MAX,
        window,
        mask: !WINDOW_BITS,
        reg_location: register,
        ..TranslationRecord::default()
    };
    let pinned =
        |window: u32, ptr: u64| TranslationRecord { ptr, window, mask: !PINNED_BITS, ..TranslationRecord::default() };
    TranslationContext {
        records: [
            moving(0x0700_0000, 0x10_0218),
            moving(0x0900_0000, 0x10_0228),
            moving(0x0a00_0000, 0x10_0230),
            pinned(SBUF_WINDOW, engine_base.wrapping_sub(SBUF_BELOW_ENGINE)),
            pinned(SCRATCH_WINDOW, hbm_scratch & !PINNED_BITS),
        ],
        ..TranslationContext::default()
    }
}

/// What a window shows of an address.
fn through(record: &TranslationRecord, address: u64) -> u32 {
    record.window.wrapping_add((address & !record.mask) as u32)
}

/// The local address, if a window shows it already.
pub fn lookup(ctx: &TranslationContext, address: u64) -> Option<u32> {
    let found = ctx.records.iter().find(|record| address & record.mask == record.ptr);
    found.map(|record| through(record, address))
}

/// The local address; `move_window(register, first)` is called when a window has to move.
pub fn translate(ctx: &mut TranslationContext, address: u64, move_window: impl FnOnce(u64, u64)) -> u32 {
    if let Some(local) = lookup(ctx, address) {
        return local;
    }
    let victim = usize::from(ctx.next_alloc) % MOVING;
    ctx.next_alloc = ((victim + 1) % MOVING) as u8;
    let record = &mut ctx.records[victim];
    record.ptr = address & !WINDOW_BITS;
    move_window(record.reg_location, record.ptr);
    through(record, address)
}

#[cfg(target_arch = "xtensa")]
pub(crate) use device::{context, local, reset};

#[cfg(target_arch = "xtensa")]
mod device {
    use super::{SBUF_WINDOW, SCRATCH_WINDOW, fresh, lookup, translate};
    use crate::global::{Global, memw, pointer};
    use crate::start;
    use customop::abi::TranslationContext;

    /// Where the engine's base can be read.
    const ENGINE_BASE: u32 = 0x10_0028;

    static CONTEXT: Global<TranslationContext> = Global::new(TranslationContext {
        records: [customop::abi::TranslationRecord { ptr: 0, window: 0, pad: 0, mask: 0, reg_location: 0 }; 5],
        next_alloc: 0,
        pad: [0; 7],
    });

    /// The context in use.
    #[unsafe(export_name = "_ctx")]
    static CURRENT: Global<*mut TranslationContext> = Global::new(core::ptr::null_mut());

    /// The window onto the on-chip memory.
    #[unsafe(export_name = "_sbuf_window")]
    static SBUF: Global<u64> = Global::new(0);

    /// The context in use.
    #[unsafe(export_name = "_Z20neuron_translate_ctxv")]
    pub(crate) extern "C" fn context() -> *mut TranslationContext {
        CURRENT.get()
    }

    /// Forgets what the windows show.
    #[unsafe(export_name = "_Z19_init_translate_ctxv")]
    pub(crate) extern "C" fn reset() {
        let registers: *mut u32 = pointer(ENGINE_BASE);
        // SAFETY: the two registers hold the engine's base, and reading them changes nothing.
        let base = unsafe { u64::from(registers.read_volatile()) | u64::from(registers.add(1).read_volatile()) << 32 };
        CONTEXT.set(fresh(base, start::hbm_scratch()));
        CURRENT.set(CONTEXT.as_ptr());
        SBUF.set(SBUF_WINDOW.into());
    }

    /// Makes an address visible and returns where.
    ///
    /// # Safety
    ///
    /// `ctx` is the context in use, or a copy of it.
    #[unsafe(export_name = "_Z16neuron_translatePvy")]
    pub(crate) unsafe extern "C" fn neuron_translate(ctx: *mut TranslationContext, address: u64) -> u32 {
        // SAFETY: the caller passes a context, and nothing else uses it meanwhile.
        let ctx = unsafe { &mut *ctx };
        translate(ctx, address, |register, first| {
            let register: *mut u32 = pointer(register as u32);
            memw();
            // SAFETY: the two words are the register that moves this window.
            unsafe {
                register.write_volatile(first as u32);
                register.add(1).write_volatile((first >> 32) as u32);
            }
            memw();
        })
    }

    /// Where an address can be seen without moving a window: 0 and `*out`, or -1.
    ///
    /// # Safety
    ///
    /// `ctx` is a context and `out` can be written.
    #[unsafe(export_name = "_Z31neuron_translate_mapping_lookupPvyPyS_")]
    unsafe extern "C" fn mapping_lookup(
        ctx: *const TranslationContext,
        address: u64,
        out: *mut u64,
        _reserved: *mut u8,
    ) -> i32 {
        // SAFETY: the caller passes a context and a place for the result.
        unsafe {
            match lookup(&*ctx, address) {
                Some(local) => {
                    *out = local.into();
                    0
                }
                None => -1,
            }
        }
    }

    /// A pointer to what an address names; addresses of pinned windows are pointers already.
    pub(crate) fn local<T>(address: u64) -> *mut T {
        let pinned = u64::from(SBUF_WINDOW)..u64::from(SCRATCH_WINDOW);
        if pinned.contains(&address) {
            return pointer(address as u32);
        }
        // SAFETY: the current context is set before any wrapper runs.
        pointer(unsafe { neuron_translate(context(), address) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENGINE: u64 = 0x20_0290_0000;
    const SCRATCH: u64 = 0x40_3c10_0000;

    #[test]
    fn the_moving_windows_take_turns_and_the_pinned_ones_never_move() {
        let mut ctx = fresh(ENGINE, SCRATCH);
        let mut moves = Vec::new();
        let mut go = |ctx: &mut TranslationContext, address| {
            translate(ctx, address, |register, first| moves.push((register, first)))
        };
        assert_eq!(go(&mut ctx, 0x40_0012_3456), 0x0712_3456);
        assert_eq!(go(&mut ctx, 0x40_0112_3456), 0x0912_3456);
        assert_eq!(go(&mut ctx, 0x40_02ff_ffff), 0x0aff_ffff);
        assert_eq!(go(&mut ctx, 0x40_0000_0000), 0x0700_0000, "still shown");
        assert_eq!(go(&mut ctx, 0x40_0300_0000), 0x0700_0000, "the first window moved");
        assert_eq!(go(&mut ctx, 0x20_0000_1000), 0x8000_1000, "on-chip memory is pinned");
        assert_eq!(go(&mut ctx, SCRATCH + 8), 0x8410_0008, "the scratch space is pinned");
        let expected = [
            (0x10_0218, 0x40_0000_0000),
            (0x10_0228, 0x40_0100_0000),
            (0x10_0230, 0x40_0200_0000),
            (0x10_0218, 0x40_0300_0000),
        ];
        assert_eq!(moves, expected);
        assert_eq!(ctx.next_alloc, 1);
    }

    #[test]
    fn a_lookup_moves_nothing() {
        let ctx = fresh(ENGINE, SCRATCH);
        assert_eq!(lookup(&ctx, 0x40_0000_0000), None);
        assert_eq!(lookup(&ctx, ENGINE - 0x290_0000 + 0x3ff_ffff), Some(0x83ff_ffff));
    }
}
