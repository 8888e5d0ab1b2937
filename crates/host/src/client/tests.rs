//! The rules of the published library, against a scripted device.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;
use crate::fake::{self, Reaction, Seen, benign, session};
use outboard_wire::{Infer, InferHeader, InferReply, KV_STRIDE, MessageType, ModelLoadReply, SharedMap, Status};
use zerocopy::IntoBytes;

/// A client of a device whose modules declare these sizes, with one module loaded.
fn client(io: (u64, u64, u32, u32)) -> (Client, u32, Seen, tempfile::NamedTempFile) {
    let (session, seen) = benign(io);
    let mut client = Client::over(session);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), b"not an ELF file").unwrap();
    let handle = client.load(file.path()).unwrap();
    (client, handle, seen, file)
}

fn bytes(data: &[u8]) -> RawTensor<'_> {
    RawTensor { data: RawData::Bytes(data), size: data.len() as u64, dtype: (1, 8), dims: &[4] }
}

#[test]
fn capacity_is_open_after_a_load_and_fixed_by_the_first_use_of_a_buffer() {
    let (mut client, handle, _, file) = client((0x1000, 0x1000, 1, 1));
    client.reserve_io(0x2000, 0x2000).unwrap();
    assert_eq!(client.input_capacity(), 0x2000, "asking for the capacity fixes nothing");
    client.reserve_io(0x3000, 0).unwrap();
    client.input_buffer().unwrap();
    assert_eq!(client.reserve_io(0x4000, 0).unwrap_err().number(), -16);
    client.load(file.path()).unwrap();
    client.reserve_io(0x4000, 0).unwrap();
    client.infer(handle, 0, &[bytes(&[1, 2, 3, 4])], 0).unwrap();
    assert_eq!(client.reserve_io(0x5000, 0).unwrap_err().number(), -16, "a call that succeeded fixes it");
    client.unload(handle).unwrap();
    client.reserve_io(0x5000, 0).unwrap();
}

#[test]
fn a_reservation_beyond_the_carveout_is_enomem_and_a_smaller_one_works() {
    let (mut client, ..) = client((0, 0, 0, 0));
    let refused = client.reserve_io(1 << 30, 0).unwrap_err();
    assert_eq!(refused.number(), -12, "{refused}");
    client.reserve_io(1 << 20, 1 << 20).unwrap();
    assert_eq!(client.input_capacity(), 1 << 20);
}

#[test]
fn tensors_in_the_input_buffer_are_not_copied_and_copies_do_not_touch_them() {
    let (mut client, handle, seen, _file) = client((0x1000, 0x1000, 2, 2));
    let (address, offset) = client.create_input(handle, 4).unwrap();
    assert_eq!(client.locate(address.addr(), 4).unwrap(), Some(offset));
    assert_eq!(offset as u64, client.input_data_offset());
    let staged = RawTensor { data: RawData::Window(offset), ..bytes(&[0; 4]) };
    client.infer(handle, 0, &[bytes(&[9; 4]), staged], 0).unwrap();
    let sent = seen.last();
    let descriptors = Infer::descriptors(&sent, 2).unwrap();
    let base = InferHeader::parse(&sent).unwrap().input_dsp_addr.get();
    assert_eq!(descriptors[1].data_addr.get(), base + offset as u64);
    assert_eq!(descriptors[0].data_addr.get(), base + offset as u64 + 64, "the copy goes behind it");
}

#[test]
fn copies_without_room_beside_a_buffer_take_its_place_and_give_it_back() {
    let (mut client, handle, seen, _file) = client((192, 0x1000, 1, 1));
    let (address, offset) = client.create_input(handle, 64).unwrap();
    // SAFETY: the address was given for this many bytes, and no call runs.
    unsafe { address.write_bytes(5, 64) };
    client.infer(handle, 0, &[bytes(&[9; 4])], 0).unwrap();
    let base = InferHeader::parse(&seen.last()).unwrap().input_dsp_addr.get();
    assert_eq!(Infer::descriptors(&seen.last(), 1).unwrap()[0].data_addr.get(), base + offset as u64);
    // SAFETY: as above.
    assert_eq!(unsafe { std::slice::from_raw_parts(address, 64) }, [5; 64]);
}

#[test]
fn ranges_across_an_end_of_the_input_buffer_are_refused() {
    let (mut client, ..) = client((0x1000, 0x1000, 1, 1));
    let (start, size) = client.input_buffer().unwrap();
    let (start, end) = (start.addr(), start.addr() + size);
    assert_eq!(client.locate(start, size).unwrap(), Some(0));
    assert_eq!(client.locate(end, 8).unwrap(), None);
    assert_eq!(client.locate(end - 4, 8).unwrap_err().number(), -22);
    assert_eq!(client.locate(start - 4, 8).unwrap_err().number(), -22);
}

#[test]
fn resident_inputs_take_the_places_of_the_kv_region_in_their_own_order() {
    let (mut client, handle, seen, _file) = client((0x1000, 0x1000, 3, 1));
    let resident = RawTensor { data: RawData::Resident, ..bytes(&[0; 4]) };
    let _ = client.infer(handle, 7, &[resident, bytes(&[1; 4]), resident], 0);
    let sent = seen.last();
    let descriptors = Infer::descriptors(&sent, 3).unwrap();
    let address = |index: usize| descriptors[index].data_addr.get();
    assert_eq!((address(0), address(2)), (SharedMap::KV.base, SharedMap::KV.base + KV_STRIDE));
    assert_eq!(InferHeader::parse(&sent).unwrap().model_id.get(), 7);
}

#[test]
fn the_kv_flag_travels_in_an_infer_large_message_whatever_the_number_of_inputs() {
    let (mut client, handle, seen, _file) = client((0x1000, 0x1000, 1, 1));
    client.infer(handle, 0, &[bytes(&[1; 4])], 1 << 16 | 3).unwrap();
    let request = outboard_wire::InferLarge::parse(&seen.last()).unwrap();
    assert_eq!((request.flags.get(), request.num_inputs.get()), (0x1_0003, 1));
}

#[test]
fn calls_that_make_no_sense_are_einval_and_nothing_is_sent() {
    let (mut client, handle, seen, _file) = client((0x1000, 0x1000, 0, 0));
    let before = seen.messages().len();
    let short = RawTensor { dims: &[5], ..bytes(&[0; 4]) };
    let many = vec![bytes(&[0; 4]); 129];
    let deep = RawTensor { dims: &[1; 7], ..bytes(&[0; 4]) };
    for inputs in [&[][..], &[short], &many, &[deep]] {
        assert_eq!(client.infer(handle, 0, inputs, 0).unwrap_err().number(), -22);
    }
    assert_eq!(seen.messages().len(), before);
}

#[test]
fn a_tensor_larger_than_a_fixed_buffer_is_efbig_and_nothing_is_sent() {
    let (mut client, handle, seen, _file) = client((0x1000, 0x1000, 1, 1));
    let (_, size) = client.input_buffer().unwrap();
    let before = seen.messages().len();
    let large = vec![0; size];
    let large = RawTensor { dims: &[1], ..bytes(&large) };
    assert_eq!(client.infer(handle, 0, &[large], 0).unwrap_err().number(), -27);
    assert_eq!(seen.messages().len(), before);
}

#[test]
fn a_declaration_beyond_the_carveout_is_a_warning_and_only_calls_that_need_it_are_efbig() {
    let needed = 40 << 20;
    let (session, _) = session((0x1000, needed, 1, 2), move |device, kind, message| {
        if kind != MessageType::Infer {
            return Reaction::Behave;
        }
        let result = device.result_window(message);
        let mut reply = InferReply::new(fake::seq(message), Status::Size);
        reply.fixed.result_required = needed.into();
        if result.size < needed { Reaction::reply(reply.seal()) } else { Reaction::Behave }
    });
    let mut client = Client::over(session);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), b"not an ELF file").unwrap();
    let handle = client.load(file.path()).unwrap();
    assert_eq!(client.warnings(handle).len(), 1);
    client.infer(handle, 0, &[bytes(&[1; 4])], 1 << 16).unwrap();
    let refused = client.infer(handle, 0, &[bytes(&[1; 4])], 0).unwrap_err();
    assert_eq!(refused.number(), -27, "{refused}");
    client.infer(handle, 0, &[bytes(&[1; 4])], 1 << 16).unwrap();
}

#[test]
fn a_shortage_is_remembered_until_the_next_load_or_call() {
    let oom = |message: &[u8]| ModelLoadReply {
        header: outboard_wire::Header::reply(MessageType::ModelLoad, fake::seq(message), 36, Status::NoMem),
        oom_requested: 300.into(),
        oom_free: 200.into(),
        oom_total: 1000.into(),
        ..ModelLoadReply::default()
    };
    let (session, _) = session((0, 0, 0, 0), move |_, kind, message| match kind {
        MessageType::ModelLoad => Reaction::reply(oom(message).as_bytes()),
        MessageType::Infer => Reaction::reply(InferReply::new(fake::seq(message), Status::Tensor).seal()),
        _ => Reaction::Behave,
    });
    let mut client = Client::over(session);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), b"weights").unwrap();
    assert_eq!(client.load_model(file.path()).unwrap_err().number(), -3);
    assert_eq!(client.last_shortage(), Some(Shortage { requested: 300, free: 200, total: 1000 }));
    assert_eq!(client.infer(1, 0, &[bytes(&[0; 4])], 0).unwrap_err().number(), -14);
    assert_eq!(client.last_shortage(), None);
}

#[test]
fn files_that_cannot_be_loaded_have_the_number_of_the_system() {
    let (session, _) = benign((0, 0, 0, 0));
    let mut client = Client::over(session);
    assert_eq!(client.load("/nowhere/lib0.out".as_ref()).unwrap_err().number(), -2);
    let empty = tempfile::NamedTempFile::new().unwrap();
    assert_eq!(client.load(empty.path()).unwrap_err().number(), -7);
    let huge = tempfile::NamedTempFile::new().unwrap();
    huge.as_file().set_len((468 << 20) + 1).unwrap();
    assert_eq!(client.load(huge.path()).unwrap_err().number(), -27);
}

#[test]
fn every_text_of_the_published_library_is_kept() {
    let texts = [
        (0, "Success"),
        (-1, "Generic error"),
        (-2, "Invalid parameter"),
        (-3, "Out of memory"),
        (-4, "Service busy"),
        (-5, "Operation timeout"),
        (-6, "Invalid address"),
        (-7, "Invalid size"),
        (-8, "Unknown operation"),
        (-9, "Dynamic load failed"),
        (-10, "Symbol lookup failed"),
        (-11, "Function call failed"),
        (-12, "Invalid handle/id"),
        (-13, "Weights parsing failed"),
        (-14, "Tensor construction failed"),
        (-16, "input_buf/output_buf already in use"),
        (-19, "Device not found"),
        (-22, "Invalid argument"),
        (-27, "File too large"),
        (-71, "Protocol error"),
        (-110, "Timeout"),
        (-99, "Unknown error"),
        (i32::MIN, "Unknown error"),
    ];
    for (number, text) in texts {
        assert_eq!(strerror(number), text, "{number}");
    }
}

#[test]
fn a_device_is_named_exactly_or_refused() {
    for name in ["sim", "sim:/tmp/dsp", "rpmsg", "rpmsg:7e000000.dsp"] {
        assert_eq!(name.parse::<DeviceName>().unwrap().to_string(), name);
    }
    for wrong in ["", "sim:", "SIM", "gpu", "rpmsg:"] {
        assert!(wrong.parse::<DeviceName>().is_err(), "{wrong}");
    }
}

#[test]
fn p13_a_buffer_on_the_wrong_side_is_refused_once_its_owner_was_said() {
    let (mut client, handle, _, _file) = client((0x1000, 0x1000, 1, 1));
    let (address, offset) = client.create_input(handle, 4).unwrap();
    let staged = RawTensor { data: RawData::Window(offset), ..bytes(&[0; 4]) };
    client.infer(handle, 0, &[staged], 0).unwrap();
    assert_eq!(client.take_back(address.addr()).unwrap_err().number(), -16, "it is the host's already");
    client.hand_over(address.addr()).unwrap();
    client.infer(handle, 0, &[staged], 0).unwrap();
    let twice = client.hand_over(address.addr()).unwrap_err();
    assert_eq!((twice.number(), twice.to_string().as_str()), (-16, "the buffer belongs to the device"));
    client.take_back(address.addr()).unwrap();
    // Also from its middle.
    let inside = RawTensor { data: RawData::Window(offset + 1), size: 1, dims: &[1], ..staged };
    for tensor in [staged, inside] {
        let refused = client.infer(handle, 0, &[tensor], 0).unwrap_err();
        assert_eq!(refused.to_string(), "input 0 of the call belongs to the host");
        assert!(refused.help().contains("c7x_client_hand_over"));
    }
    client.hand_over(address.addr()).unwrap();
    client.infer(handle, 0, &[staged], 0).unwrap();
    for stranger in [address.addr() + 1, 8] {
        assert_eq!(client.hand_over(stranger).unwrap_err().number(), -22);
        assert_eq!(client.take_back(stranger).unwrap_err().number(), -22);
    }
    assert_eq!(client.traffic().to_device, 0, "nothing was copied");
}
