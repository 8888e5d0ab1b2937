//! Copies between data memory and everything else: by the DMA engine, byte by byte, or in words.

use crate::fault::device_assert;
use crate::global::{Global, address, memw, pointer};
use crate::{start, translate};
use customop::abi::{DataScratchMap, Descriptor, DmaContext, RING};

/// A copy: local address, other address, "local is the destination", bytes.
type Transfer = unsafe extern "C" fn(*mut u8, u64, bool, u32);

const C_MEMCPY: u32 = 0;
const VEC_MEMCPY: u32 = 1;
const DMA: u32 = 2;
/// Number of methods.
const MAX_METHODS: u32 = 3;

static METHODS: [Transfer; MAX_METHODS as usize] =
    [c_memcpy_data_transfer, vec_memcpy_data_transfer, dma_data_transfer];
static ACTIVE: Global<u32> = Global::new(DMA);

const _: () = assert!(C_MEMCPY == 0 && VEC_MEMCPY == 1, "the table's order is part of the interface");

/// First address of data memory that can be copied from and to.
const STAGING_START: u32 = 0x8_0000;
/// Its end.
const STAGING_END: u32 = 0x9_0000;
/// Most bytes of a descriptor.
const CHUNK: u32 = 0x1_0000;
/// Register that says what window 0 shows.
const WINDOW_0: u32 = 0x10_0200;

/// Copies `n` bytes from an address into data memory.
///
/// # Safety
///
/// The buffer has `n` bytes.
#[unsafe(export_name = "_Z13neuron_memcpyPvyj")]
#[inline(never)]
pub(crate) unsafe extern "C" fn neuron_memcpy_in(destination: *mut u8, source: u64, n: u32) {
    // SAFETY: passed on.
    unsafe { METHODS[ACTIVE.get() as usize % METHODS.len()](destination, source, true, n) }
}

/// Copies `n` bytes from data memory to an address.
///
/// # Safety
///
/// The buffer has `n` bytes.
#[unsafe(export_name = "_Z13neuron_memcpyyPvj")]
#[inline(never)]
pub(crate) unsafe extern "C" fn neuron_memcpy_out(destination: u64, source: *mut u8, n: u32) {
    // SAFETY: passed on.
    unsafe { METHODS[ACTIVE.get() as usize % METHODS.len()](source, destination, false, n) }
}

/// Chooses the method: 0 bytes, 1 words, 2 the DMA engine. The original also takes 3 and then reads behind its table.
#[unsafe(export_name = "_Z24neuron_set_memcpy_methodj")]
extern "C" fn neuron_set_memcpy_method(method: u32) {
    device_assert!(method < MAX_METHODS, "data_transfer.cpp: method < MAX_METHODS");
    ACTIVE.set(method);
}

/// The address that the DMA engine uses for a byte of this core's data memory.
#[unsafe(export_name = "_Z20dram_addr_to_soc_addrj")]
extern "C" fn dram_addr_to_soc_addr(local: u32) -> u64 {
    device_assert!(
        (STAGING_START..STAGING_END).contains(&local),
        "data_transfer.cpp:160: dram_addr >= 0x80000 && dram_addr < 0x90000"
    );
    let core = processor_id();
    device_assert!(core < 8, "data_transfer.cpp:171: cpu_id < 8");
    // SAFETY: the scratch map is there from the boot on.
    let base = unsafe { (*start::scratch_map()).firmware.soc_base };
    base + u64::from((2 * core + 9) << 16) + u64::from(local & 0xffff)
}

/// The address that the DMA engine uses for what a pinned window shows; others are such addresses already.
pub(crate) fn soc(place: u64) -> u64 {
    let sbuf = u64::from(translate::SBUF_WINDOW);
    if (sbuf..u64::from(translate::SCRATCH_WINDOW)).contains(&place) {
        // SAFETY: the current context is set before any wrapper runs.
        unsafe { (*translate::context()).records[3].ptr + (place - sbuf) }
    } else {
        place
    }
}

unsafe extern "C" {
    /// The processor number.
    safe fn _outboard_prid() -> u32;
}

/// The processor number.
pub(crate) fn processor_id() -> u32 {
    _outboard_prid()
}

fn map() -> *mut DataScratchMap {
    start::scratch_map()
}

/// Makes the queue ready: the doorbells are reached through window 0.
#[unsafe(export_name = "_Z14init_dma_queuev")]
#[inline(never)]
pub(crate) extern "C" fn init_dma_queue() {
    let register: *const u32 = pointer(WINDOW_0);
    let (m2s, s2m) = start::doorbells();
    // SAFETY: the register can be read, and the scratch map is there from the boot on.
    unsafe {
        let firmware = (*map()).firmware;
        let shown = u64::from(register.read_volatile()) | u64::from(register.add(1).read_volatile()) << 32;
        device_assert!(shown == firmware.apb_base, "data_transfer.cpp:240: MEM_WINDOW0_LO == SUNDA_APB_BASE");
        (*map()).dma = DmaContext {
            m2s_inc_reg: u64::from(firmware.apb_window + m2s),
            s2m_inc_reg: u64::from(firmware.apb_window + s2m),
            tx_desc: address(&raw const (*map()).tx_ring),
            rx_desc: address(&raw const (*map()).rx_ring),
            comp_desc: address(&raw const (*map()).completion),
            // The engine goes on where it was.
            tail: (*map()).dma.tail,
            ..DmaContext::default()
        };
    }
}

/// Copies with the DMA engine, at most 64 KiB at a time, and waits for each.
///
/// # Safety
///
/// The buffer has `n` bytes.
#[unsafe(export_name = "_Z17dma_data_transferPvybj")]
unsafe extern "C" fn dma_data_transfer(local: *mut u8, other: u64, local_is_destination: bool, n: u32) {
    let mut done = 0;
    while done < n {
        let now = (n - done).min(CHUNK);
        let near = dram_addr_to_soc_addr(address(local) + done);
        dram_addr_to_soc_addr(address(local) + done + now - 1);
        let far = other + u64::from(done);
        let (from, to) = if local_is_destination { (far, near) } else { (near, far) };
        // SAFETY: the queue lies in the scratch map, and this core is its only user.
        unsafe { submit(&mut (*map()).dma, from, to, now) };
        done += now;
    }
}

/// Hands one transfer to the engine and waits.
///
/// # Safety
///
/// The context was made by [`init_dma_queue`].
unsafe fn submit(dma: &mut DmaContext, from: u64, to: u64, n: u32) {
    let slot = (dma.tail % RING) as usize;
    // 0 stands for 65,536.
    let descriptor = |buffer: u64| Descriptor { word0: n & 0xffff, word1: 0, buffer };
    // SAFETY: the rings have four places each; doorbells are registers.
    unsafe {
        let done: *mut u32 = pointer::<Descriptor>(dma.comp_desc).add(slot).cast();
        done.write_volatile(0);
        pointer::<Descriptor>(dma.tx_desc).add(slot).write_volatile(descriptor(from));
        pointer::<Descriptor>(dma.rx_desc).add(slot).write_volatile(descriptor(to));
        memw();
        memw();
        pointer::<u32>(dma.s2m_inc_reg as u32).write_volatile(1);
        pointer::<u32>(dma.m2s_inc_reg as u32).write_volatile(1);
        while done.read_volatile() >> 24 & 3 == 0 {}
    }
    dma.tail = (dma.tail + 1) % RING;
}

/// Copies byte by byte through a window.
///
/// # Safety
///
/// The buffer has `n` bytes.
#[unsafe(export_name = "_Z22c_memcpy_data_transferPvybj")]
unsafe extern "C" fn c_memcpy_data_transfer(local: *mut u8, other: u64, local_is_destination: bool, n: u32) {
    // SAFETY: passed on.
    unsafe { memcpy_data_transfer_impl(local, other, local_is_destination, n, false) }
}

/// Copies in words through a window.
///
/// # Safety
///
/// The buffer has `n` bytes.
#[unsafe(export_name = "_Z24vec_memcpy_data_transferPvybj")]
unsafe extern "C" fn vec_memcpy_data_transfer(local: *mut u8, other: u64, local_is_destination: bool, n: u32) {
    // SAFETY: passed on.
    unsafe { memcpy_data_transfer_impl(local, other, local_is_destination, n, true) }
}

/// Copies through a window, in pieces that one window shows.
///
/// # Safety
///
/// The buffer has `n` bytes.
#[unsafe(export_name = "_Z25memcpy_data_transfer_implPcybjb")]
unsafe extern "C" fn memcpy_data_transfer_impl(
    local: *mut u8,
    other: u64,
    local_is_destination: bool,
    n: u32,
    words: bool,
) {
    let mut done = 0;
    while done < n {
        let far = other + u64::from(done);
        let shown = (translate::WINDOW_BITS + 1 - (far & translate::WINDOW_BITS)).min(u64::from(u32::MAX)) as u32;
        let now = (n - done).min(shown);
        dram_addr_to_soc_addr(address(local) + done);
        dram_addr_to_soc_addr(address(local) + done + now - 1);
        // SAFETY: both ranges have `now` bytes: the window was moved to show them, and the buffer is the caller's.
        unsafe {
            let seen: *mut u8 = translate::local(far);
            device_assert!(translate::lookup(&*translate::context(), far).is_some(), "data_transfer.cpp:92: ret == 0");
            let near = local.add(done as usize);
            let (to, from) = if local_is_destination { (near, seen) } else { (seen, near) };
            if words { copy_words(to, from, now) } else { copy_bytes(to, from, now) }
        }
        done += now;
    }
}

/// # Safety
///
/// As for `memcpy`.
unsafe fn copy_bytes(to: *mut u8, from: *const u8, n: u32) {
    for index in 0..n as usize {
        // SAFETY: by the caller.
        unsafe { *to.add(index) = *from.add(index) };
    }
}

/// # Safety
///
/// As for `memcpy`.
unsafe fn copy_words(to: *mut u8, from: *const u8, n: u32) {
    if (address(to) | address(from)) & 3 != 0 {
        // SAFETY: by the caller.
        unsafe { copy_bytes(to, from, n) };
        return;
    }
    let (wide_to, wide_from) = (to.cast::<u32>(), from.cast::<u32>());
    let whole = n / 4;
    // SAFETY: by the caller; both addresses are aligned.
    unsafe {
        for index in 0..whole as usize {
            *wide_to.add(index) = *wide_from.add(index);
        }
        let tail = 4 * whole as usize;
        copy_bytes(to.add(tail), from.add(tail), n % 4);
    }
}
