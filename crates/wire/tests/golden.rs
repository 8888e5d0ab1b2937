//! Golden bytes of the protocol, and the sizes and edges that both sides rely on.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use outboard_wire::{
    DynLoad, DynLoadReply, DynUnload, HOST_INLINE_INPUTS, Header, Infer, InferFlags, InferLarge, InferReply, IoMeta,
    IoMetaError, MAX_INLINE_INPUTS, MalformedMessage, MapWindow, MessageType, ModelLoad, ModelLoadReply, ModelUnload,
    PingReply, PrintfHeader, SetPrintfBuf, SharedMap, Status, StatusReply, TensorDesc, Version,
};
use zerocopy::IntoBytes;

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(16)).collect();
    digits.chunks(2).map(|pair| u8::try_from(pair[0] * 16 + pair[1]).unwrap()).collect()
}

const INPUT: MapWindow = MapWindow { base: 0xDE01_0000, size: 11_802_496 };
const RESULT: MapWindow = MapWindow { base: 0xDEB6_0000, size: 12_583_040 };

/// SmolLM prefill: the anchor of the metadata arithmetic.
fn smollm() -> IoMeta {
    let cache = [3 * 256 * 64 * 4u64; 60];
    let inputs = [64 * 8, 64 * 8].into_iter().chain(cache);
    let outputs = [64 * 49152 * 4u64].into_iter().chain(cache);
    IoMeta::exact(inputs, outputs).unwrap()
}

#[test]
fn golden_bytes_of_requests_and_replies_are_reproduced() {
    assert_eq!(Header::request(MessageType::Ping, 1, 16).as_bytes(), hex("01000000 01000000 10000000 00000000"));
    assert_eq!(
        PingReply::new(1, Version::CURRENT, 5000).as_bytes(),
        hex("01100000 01000000 18000000 00000000 00000300 88130000")
    );
    assert_eq!(
        SetPrintfBuf::new(2, 0xDE00_0000, 0x1_0000).as_bytes(),
        hex("30000000 02000000 20000000 00000000 000000de00000000 00000100 00000000")
    );
    assert_eq!(
        DynLoad::new(3, 4096).as_bytes(),
        hex("10000000 03000000 20000000 00000000 00100000 00000000 00000000 00000000")
    );
    let meta = smollm();
    let reply = DynLoadReply {
        header: Header::reply(MessageType::DynLoad, 3, 68, Status::Success),
        module_handle: 1.into(),
        io_input_bytes: meta.input_bytes,
        io_output_bytes: meta.output_bytes,
        io_num_inputs: meta.num_inputs,
        io_num_outputs: meta.num_outputs,
        io_flags: meta.flags,
        ..DynLoadReply::default()
    };
    assert_eq!(
        reply.as_bytes(),
        hex("10100000 03000000 44000000 00000000 01000000 00000000 00000000 00000000 00000000 00000000
             8017b40000000000 4013740100000000 3e000000 3d000000 01000000")
    );
    let large = InferLarge::new(5, 1, 0, InferFlags::default().kv_resident(), (INPUT, RESULT), (0xDE01_0000, 62));
    assert_eq!(
        large.as_bytes(),
        hex("23000000 05000000 50000000 00000000 01000000 00000000 3e000000 00000100 000001de00000000 60130000
             00000000 000001de00000000 8017b40000000000 0000b6de00000000 8000c00000000000")
    );
}

#[test]
fn golden_bytes_of_io_metadata_are_reproduced_and_read_back() {
    let bytes = hex("54494f4d 01000000 3e000000 3d000000 8017b40000000000 4013740100000000 01000000 00000000");
    assert_eq!(smollm().as_bytes(), bytes);
    let meta = IoMeta::parse(&bytes).unwrap();
    assert_eq!((meta.input_bytes.get(), meta.output_bytes.get()), (11_802_496, 24_384_320));
    assert!(meta.is_exact());
    // A KV-resident caller returns the logits only.
    assert_eq!(IoMeta::exact([], [64 * 49152 * 4]).unwrap().output_bytes.get(), 12_583_040);
}

#[test]
fn io_metadata_refusals_name_the_field() {
    assert_eq!(IoMeta::parse(&[0; 39]), Err(IoMetaError::Truncated(39)));
    assert_eq!(IoMeta::parse(&[0; 40]), Err(IoMetaError::BadMagic(0)));
    let mut bytes = smollm().as_bytes().to_vec();
    bytes[4] = 2;
    assert_eq!(IoMeta::parse(&bytes), Err(IoMetaError::BadVersion(2)));
}

#[test]
fn inline_inference_carries_one_to_five_descriptors_and_refuses_six() {
    let desc = TensorDesc::new(0xDE01_0140, 602_112, 2, 32, &[1, 3, 224, 224]).unwrap();
    for (count, len) in [(0usize, 144usize), (1, 144), (2, 224), (4, 384), (5, 464)] {
        let message = Infer::new(7, 1, 0, InferFlags::default(), (INPUT, RESULT), &vec![desc; count]).unwrap();
        assert_eq!(message.bytes().len(), len, "{count} inputs");
        assert_eq!(message.fixed.header.len.get() as usize, len);
        assert_eq!(Infer::descriptors(message.bytes(), count).unwrap(), vec![desc; count]);
    }
    assert!(Infer::new(7, 1, 0, InferFlags::default(), (INPUT, RESULT), &[desc; 6]).is_err());
    assert_eq!((HOST_INLINE_INPUTS, MAX_INLINE_INPUTS), (4, 5));
    assert!(matches!(Infer::descriptors(&[0; 100], 1), Err(MalformedMessage::Short { need: 144, .. })));
    assert!(matches!(Infer::descriptors(&[0; 512], 6), Err(MalformedMessage::TooManyDescriptors { .. })));
}

#[test]
fn the_worked_infer_request_and_reply_have_their_fields_at_the_documented_offsets() {
    let desc = TensorDesc::new(0x1122, 602_112, 2, 32, &[1, 3, 224, 224]).unwrap();
    let message = Infer::new(9, 1, 0, InferFlags::repeat(3), (INPUT, RESULT), &[desc]).unwrap();
    let bytes = message.bytes();
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    assert_eq!([word(0), word(4), word(8), word(16), word(24), word(28)], [0x21, 9, 144, 1, 1, 3]);
    assert_eq!(
        [word(64), word(72), word(80), word(84), word(88), word(96), word(104)],
        [0x1122, 602_112, 4, 2, 32, 1, 3]
    );

    let mut reply = InferReply::new(9, Status::Success);
    reply.fixed.num_outputs = 1.into();
    reply.fixed.cycles = 0x0102_0304_0506.into();
    reply.descriptors[0] = TensorDesc::new(0xDEB6_0000, 4000, 2, 32, &[1, 1000]).unwrap();
    let bytes = reply.seal().to_vec();
    assert_eq!(bytes.len(), 148);
    assert_eq!(u64::from_le_bytes(bytes[20..28].try_into().unwrap()), 0x0102_0304_0506);
    assert_eq!(u64::from_le_bytes(bytes[68..76].try_into().unwrap()), 0xDEB6_0000);
    assert_eq!(u64::from_le_bytes(bytes[108..116].try_into().unwrap()), 1000);
    assert_eq!(InferReply::inline_descriptors(&bytes, 1).unwrap()[0].shape().collect::<Vec<_>>(), [1, 1000]);
}

#[test]
fn reply_length_follows_the_outputs_and_never_exceeds_a_message() {
    for (outputs, out_of_band, len) in
        [(0, 0, 148), (1, 0, 148), (2, 0, 228), (5, 0, 468), (6, 0, 468), (9, 0xDE00_0000u64, 148)]
    {
        let mut reply = InferReply::new(1, Status::Success);
        reply.fixed.num_outputs = outputs.into();
        reply.fixed.descs_addr = out_of_band.into();
        assert_eq!(reply.seal().len(), len, "{outputs} outputs");
    }
}

#[test]
fn sizes_and_codes_are_the_documented_ones() {
    let sizes = [
        Header::SIZE,
        PingReply::SIZE,
        StatusReply::SIZE,
        SetPrintfBuf::SIZE,
        DynLoad::SIZE,
        DynLoadReply::SIZE,
        DynUnload::SIZE,
        ModelLoad::SIZE,
        ModelLoadReply::SIZE,
        ModelUnload::SIZE,
        InferLarge::SIZE,
    ];
    assert_eq!(sizes, [16, 24, 32, 32, 32, 68, 20, 32, 36, 20, 80]);
    for (kind, reply, min) in [
        (MessageType::Ping, 0x1001, 16),
        (MessageType::GetStatus, 0x1003, 16),
        (MessageType::DynLoad, 0x1010, 32),
        (MessageType::DynUnload, 0x1012, 20),
        (MessageType::ModelLoad, 0x1020, 32),
        (MessageType::Infer, 0x1021, 144),
        (MessageType::ModelUnload, 0x1022, 20),
        (MessageType::InferLarge, 0x1021, 80),
        (MessageType::SetPrintfBuf, 0x1030, 32),
    ] {
        assert_eq!((kind.reply_code(), kind.min_size()), (reply, min), "{}", kind.name());
        assert_eq!(MessageType::from_code(kind.code()), Some(kind));
    }
    assert_eq!(MessageType::from_code(2), None);
    assert_eq!(Header::refusal(0x77, 4, Status::Invalid).kind.get(), 0x1077);
    assert_eq!(Header::refusal(0x23, 4, Status::Invalid).kind.get(), 0x1021);
}

#[test]
fn f2_every_status_has_its_number_name_and_advice() {
    assert_eq!(Status::all().map(Status::code).collect::<Vec<_>>(), (0..15).map(|n: i32| -n).collect::<Vec<_>>());
    for status in Status::all() {
        assert_eq!(Status::from_code(status.code()), Some(status));
        assert!(!status.name().is_empty() && !status.text().is_empty() && !status.advice().is_empty());
    }
    assert_eq!(Status::Tensor.name(), "ERR_TENSOR");
    assert_eq!(Status::Handle.text(), "Invalid handle/id");
    assert_eq!((Status::from_code(1), Status::from_code(-15)), (None, None));
}

#[test]
fn windows_are_checked_at_both_edges_and_without_wrapping() {
    let carveout = SharedMap::CARVEOUT;
    for (base, size, ok) in [
        (carveout.base, carveout.size, true),
        (carveout.base, carveout.size + 1, false),
        (carveout.base - 1, 1, false),
        (carveout.end() - 1, 1, true),
        (carveout.end(), 0, true),
        (carveout.end(), 1, false),
        (u64::MAX, u64::MAX, false),
        (0, 0, false),
    ] {
        assert_eq!(MapWindow { base, size }.in_carveout(), ok, "{base:#x}+{size:#x}");
    }
    assert!(INPUT.accepts_input(INPUT.base + INPUT.size, 0));
    assert!(!INPUT.accepts_input(INPUT.base + 1, INPUT.size));
    assert!(INPUT.accepts_input(SharedMap::KV.base, SharedMap::KV.size));
    assert!(!INPUT.accepts_input(SharedMap::KV.end() - 1, 2));
    assert_eq!(InferFlags::kv_address(59), Some(0xDD40_0000 + 59 * 196_608));
    assert_eq!(InferFlags::kv_address(60), None);
}

#[test]
fn a_descriptor_holds_six_dimensions_and_clamps_what_the_peer_claims() {
    assert!(TensorDesc::new(0, 0, 2, 32, &[1; 7]).is_none());
    let mut desc = TensorDesc::new(0, 0, 2, 32, &[1, 2, 3, 4, 5, 6]).unwrap();
    assert_eq!(desc.shape().collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6]);
    desc.ndim = (-3).into();
    assert_eq!(desc.dims(), 0);
    desc.ndim = i32::MAX.into();
    assert_eq!(desc.dims(), 6);
}

#[test]
fn a_printf_buffer_needs_room_for_text() {
    assert!(PrintfHeader::empty(16).is_none());
    let header = PrintfHeader::empty(PrintfHeader::DEFAULT_BUFFER).unwrap();
    assert_eq!(header.as_bytes(), hex("544e5250 00000000 f0ff0000 00000000"));
}

#[test]
fn flags_split_into_repeat_count_and_kv_bit() {
    assert_eq!(InferFlags(0).repeat_count(), 1);
    assert_eq!(InferFlags::repeat(7).kv_resident(), InferFlags(0x1_0007));
    assert_eq!(InferFlags(0x1_0007).repeat_count(), 7);
    assert!(InferFlags(0x1_0007).is_kv_resident());
}
