//! The two output streams: text is collected in slots of 256 bytes, full slots go to a ring in HBM.

use crate::fault::device_assert;
use crate::global::{Global, memw};
use crate::{start, translate};
use customop::abi::{FileObject, OVERWRITE, QUEUE_MAGIC, QUEUE_WRITE_INDEX, QueueBlock, SLOT_TEXT, Slot};

const EMPTY: FileObject = FileObject {
    enabled: 0,
    full_policy: 0,
    reserved0: [0; 10],
    num_slots: 0,
    ring_dram: 0,
    headptr_dram: 0,
    reserved1: [0; 8],
    slot: Slot { reserved: [0; 3], fill_count: 0, text: [0; SLOT_TEXT] },
    head: 0,
    reserved2: 0,
};

/// Standard output, standard error.
static FILES: Global<[FileObject; 2]> = Global::new([EMPTY; 2]);

/// Connects the streams with the queues that the firmware names; a core without queues prints nothing.
pub(crate) fn provision() {
    // SAFETY: the scratch map is there from the boot on.
    let firmware = unsafe { (*start::scratch_map()).firmware };
    translate::reset();
    for (index, queue) in [firmware.stdout_queue, firmware.stderr_queue].into_iter().enumerate() {
        // SAFETY: the table is a variable of this core; a queue that is named is there.
        unsafe {
            let file = &mut (*FILES.as_ptr())[index];
            *file = EMPTY;
            if queue != 0 {
                let block: *const QueueBlock = translate::local(queue);
                device_assert!((*block).magic == QUEUE_MAGIC, "file_io_manager.hpp:259: the queue's magic is 0x201");
                device_assert!((*block).capacity.is_power_of_two(), "file_io_manager.hpp:264: a power of two of slots");
                *file = FileObject {
                    enabled: 1,
                    full_policy: OVERWRITE,
                    num_slots: (*block).capacity,
                    ring_dram: (*block).data,
                    headptr_dram: queue + QUEUE_WRITE_INDEX,
                    ..EMPTY
                };
            }
        }
    }
    // Windows that moved for this are forgotten, as at every dispatch.
    translate::reset();
}

fn file(descriptor: i32) -> Option<&'static mut FileObject> {
    let index = match descriptor {
        1 => 0,
        2 => 1,
        _ => return None,
    };
    // SAFETY: the table is a variable of this core, and no reference outlives the caller's work.
    Some(unsafe { &mut (*FILES.as_ptr())[index] })
}

/// Appends text to a stream; returns the length, or -1 for a descriptor that is no stream.
pub(crate) fn write(descriptor: i32, text: &[u8]) -> i32 {
    let Some(file) = file(descriptor) else { return -1 };
    if file.enabled != 0 {
        for byte in text {
            if let Some(place) = file.slot.text.get_mut(file.slot.fill_count as usize) {
                *place = *byte;
                file.slot.fill_count += 1;
            }
            if file.slot.fill_count as usize >= SLOT_TEXT {
                flush(file);
            }
        }
    }
    text.len() as i32
}

/// Writes the slot to the ring, over the oldest one if the ring is full.
fn flush(file: &mut FileObject) {
    if file.enabled == 0 || file.slot.fill_count == 0 {
        return;
    }
    device_assert!(file.full_policy == OVERWRITE, "file_io_manager.hpp:264: full_policy == OVERWRITE");
    let slot = u64::from(file.head & (file.num_slots - 1));
    // SAFETY: the ring has that many slots, none of which crosses a window.
    unsafe {
        translate::local::<Slot>(file.ring_dram + slot * size_of::<Slot>() as u64).write(file.slot);
        file.slot = EMPTY.slot;
        file.head = file.head.wrapping_add(1);
        translate::local::<u32>(file.headptr_dram).write(file.head);
    }
    memw();
}

/// Flushes a stream: 1 standard output, 2 standard error.
#[unsafe(no_mangle)]
#[inline(never)]
pub(crate) extern "C" fn fsync(descriptor: i32) -> i32 {
    match file(descriptor) {
        Some(file) => {
            flush(file);
            0
        }
        None => -1,
    }
}
