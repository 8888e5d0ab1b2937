//! Instructions of the sequencer: the worked bytes, round trips, both ways to count payloads.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use outboard_neff::seq::{
    Arg, ArgTensor, ChainError, Completion, CustomOpHeader, CustomOpPayload, Dialect, DmaTrigger, ElementType, Events,
    ExtendedInst, Instruction, LoadPoolArgument, LoadRecordsError, ModifyPoolConfig, PayloadCount, SLOT, Scratch,
    SeqError, Shape, Slot, Storage, TensorTensorArith, UPDATE_INCREMENT, WAIT_SEMAPHORE, chains, encode_chain, inspect,
    load_records,
};
use proptest::prelude::*;

fn slot(first: &[u8]) -> Slot {
    let mut slot = [0; SLOT];
    slot[..first.len()].copy_from_slice(first);
    slot
}

fn decode(slot: &Slot) -> Instruction {
    Instruction::decode(slot, Dialect::V2).unwrap()
}

/// float [128, 256] in device memory.
fn hbm() -> ArgTensor {
    ArgTensor {
        dtype: ElementType::FP32,
        shape: Shape::Inline8([128, 256, 0, 0, 0, 0, 0, 0]),
        storage: Storage::Hbm { address: 0x40_1234_5000, elements: 32_768 },
    }
}

const HBM: [u8; 48] = [
    2, 0, 0x0a, 0, 0, 0, 0, 0, 0x80, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0x34, 0x12, 0x40, 0, 0, 0,
    0, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
];

const SBUF: [u8; 48] = [
    1, 2, 0x0a, 0, 0, 0, 0, 0, 0x80, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 0x80, 0, 0, 0x80,
    0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
];

#[test]
fn the_worked_load_record_is_encoded_and_read() {
    let expected = slot(&[
        0x95, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, 0, 0, 0, 0x50, 0x34, 0x12, 0x40, 0, 0, 0, 3, 0, 0, 0, 0xcc,
        0x73,
    ]);
    let load = Instruction::ModifyPoolConfig(ModifyPoolConfig::load(0x40_1234_5000, 3, 0x73cc));
    assert_eq!(load.encode(), expected);
    assert_eq!(decode(&expected), load);
    let unload = Instruction::ModifyPoolConfig(ModifyPoolConfig::unload(3));
    assert_eq!(decode(&unload.encode()), unload);
}

#[test]
fn fields_of_a_load_record_that_cannot_be_are_named() {
    let load = ModifyPoolConfig::load(0x1000, 0, 0x1_0000);
    let good = Instruction::ModifyPoolConfig(load).encode();
    decode(&good);
    let refused = |at: usize, value: u8, text: &str| {
        let mut slot = good;
        slot[at] = value;
        let error = Instruction::decode(&slot, Dialect::V2).unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
    };
    refused(1, 0x11, "inst_word_len");
    refused(0x0c, 0, "modify_op at offset 0xc is 0x0");
    refused(0x0f, 1, "reserved byte at offset 0xf");
    refused(0x3f, 9, "reserved byte at offset 0x3f is 0x9");
    refused(0x1c, 1, "library_size at offset 0x1c is 0x10001, expected at most 0x10000");
    refused(0x0c, 2, "expected 0 to unload");
}

#[test]
fn load_records_are_one_or_eight_and_the_buffer_must_fit() {
    let load = ModifyPoolConfig::load(0x1000, 0, 0x100);
    let mut buffer = [0; 8 * SLOT];
    assert_eq!(load_records(&load, true, 0x2000, &mut buffer), Ok(1));
    assert_eq!(buffer[SLOT..2 * SLOT], [0; SLOT]);
    assert_eq!(load_records(&load, false, 0x2000, &mut buffer), Ok(8));
    assert!(buffer.chunks(SLOT).all(|slot| slot == Instruction::ModifyPoolConfig(load).encode()));
    let short = load_records(&load, false, 0x2000, &mut buffer[..511]).unwrap_err();
    assert_eq!((short, short.code()), (LoadRecordsError::Capacity { capacity: 511, need: 512 }, 7));
    assert_eq!(load_records(&load, true, 0x2004, &mut buffer).unwrap_err().code(), 8);
}

#[test]
fn the_worked_tensor_records_are_encoded_and_read() {
    assert_eq!(hbm().encode(), HBM);
    assert_eq!(ArgTensor::decode(&HBM).unwrap(), hbm());
    let sbuf = ArgTensor {
        dtype: ElementType::FP32,
        shape: Shape::Inline4([128, 256, 0, 0]),
        storage: Storage::Sbuf { address: 0x1000, elements: 32_768, partitions: 128, block: 256 },
    };
    assert_eq!(sbuf.encode(), SBUF);
    assert_eq!(ArgTensor::decode(&SBUF).unwrap(), sbuf);
    assert_eq!((hbm().shape.dims(), sbuf.shape.dims()), (vec![128, 256], vec![128, 256]));
}

#[test]
fn element_types_outside_of_the_map_are_refused_and_never_replaced() {
    let known = [2, 3, 4, 6, 7, 8, 0x0a, 0x0c];
    for value in 0..=255 {
        let mut record = HBM;
        record[2] = value;
        match ArgTensor::decode(&record) {
            Ok(tensor) => assert!(known.contains(&value) && tensor.dtype.number() == value),
            Err(SeqError::Field { field: "dtype", offset: 0x12, .. }) => assert!(!known.contains(&value), "{value}"),
            Err(error) => panic!("{error}"),
        }
    }
    let types = known.map(|value| ElementType::new(value).unwrap());
    assert_eq!(types.map(ElementType::scalar_type), [1, 0, 2, 15, 5, 3, 6, 4]);
    assert_eq!(types.map(ElementType::size), [1, 1, 2, 2, 2, 4, 4, 8]);
    assert_eq!(types[3].name(), "BF16");
}

#[test]
fn the_worked_chain_of_one_input_is_encoded_and_read() {
    let args = [Arg::Tensor(hbm()), Arg::Tensor(hbm())];
    let stream = encode_chain(7, &args[..1], &args[1..], PayloadCount::Compiler);
    assert_eq!(stream[0], slot(&[0x85, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 7, 1]));
    assert_eq!(stream[1][..16], [0x86, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    assert_eq!(stream[1][16..], HBM);
    assert_eq!(stream.len(), 3, "two and the number of inputs");
    let chains = chains(stream.as_flattened()).unwrap();
    assert_eq!((chains[0].header.function_id, chains[0].outputs(), chains[0].inputs()), (7, &args[..1], &args[1..]));
}

#[test]
fn both_ways_to_count_payloads_are_read_and_no_third() {
    let arg = Arg::Tensor(hbm());
    for inputs in 0..9 {
        let list = vec![arg; inputs];
        for count in [PayloadCount::Compiler, PayloadCount::Following] {
            let stream = encode_chain(0, &[arg], &list, count);
            let read = chains(stream.as_flattened()).unwrap();
            assert_eq!((read[0].outputs().len(), read[0].inputs().len()), (1, inputs));
            let wrong = |stated: usize| {
                let mut stream = stream.clone();
                stream[0][0x0c] = u8::try_from(stated).unwrap();
                chains(stream.as_flattened()).unwrap_err()
            };
            assert!(matches!(wrong(inputs), ChainError::Payloads { at: 0, .. }));
            assert!(matches!(wrong(inputs + 3), ChainError::Payloads { at: 0, .. }));
        }
    }
}

#[test]
fn broken_sequences_name_the_instruction() {
    let arg = Arg::Tensor(hbm());
    let mut stream = encode_chain(0, &[arg], &[arg], PayloadCount::Following);
    let error = |stream: &[Slot]| chains(stream.as_flattened()).unwrap_err();
    assert_eq!(error(&stream[1..]), ChainError::Orphan { at: 0 });
    // One payload short reads as an operation without output: the two ways to count overlap.
    assert_eq!(chains(stream[..2].as_flattened()).unwrap()[0].outputs().len(), 0);
    stream[0][0x0f] = 3;
    assert!(matches!(error(&stream), ChainError::Arguments { inputs: 3, found: 2, .. }));
    stream[0][0x0f] = 0;
    assert!(error(&stream).to_string().contains("Custom ops cannot have more than 1 output, this one has 2"));
    stream[2][0x0f] = 0;
    assert!(matches!(error(&stream), ChainError::Slot { at: 2, .. }));
    assert_eq!(chains(&stream.as_flattened()[..100]).unwrap_err(), ChainError::Partial { rest: 36 });
}

#[test]
fn the_scratch_space_is_all_or_nothing() {
    let scratch = Some(Scratch { address: 0x100, size: 64, partitions: 128 });
    let header = CustomOpHeader { num_payloads: 0, function_id: 255, num_arguments: 0, scratch };
    let good = Instruction::CustomOpHeader(header).encode();
    assert_eq!(decode(&good), Instruction::CustomOpHeader(header));
    for at in [0x10, 0x15, 0x18, 0x1c] {
        let mut slot = good;
        slot[at] = 0;
        assert!(matches!(Instruction::decode(&slot, Dialect::V2), Err(SeqError::Scratch { .. })), "{at:#x}");
    }
    let mut slot = good;
    slot[0x20] = 1;
    assert_eq!(Instruction::decode(&slot, Dialect::V2), Err(SeqError::Reserved { offset: 0x20, value: 1 }));
}

#[test]
fn extended_instructions_carry_ports_and_a_payload() {
    let arith = TensorTensorArith {
        dtypes: [10, 10, 10],
        op: 4,
        tensors: [(0x1000, [1, 16], [16, 8]), (0x2000, [-1, 2], [16, 8]), (0x3000, [1, 16], [16, 8])],
    };
    let completion = Completion { has_read: true, has_write: true, active_ports: 3 };
    let extended = Instruction::Extended(ExtendedInst { extended_opcode: 2, completion, payload: arith.encode() });
    let slot = extended.encode();
    assert_eq!(slot[..0x11], [0xf0, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0x1d, 0xaa, 10, 4]);
    assert_eq!(slot[0x14..0x20], [0, 0x10, 0, 0, 1, 0, 16, 0, 16, 0, 8, 0]);
    let Instruction::Extended(read) = decode(&slot) else { panic!("an extended instruction") };
    assert_eq!(TensorTensorArith::decode(&read.payload), Ok(arith));
    assert_eq!((read.completion.partitions(), Completion::default().partitions()), (48, 128));
    let mut slot = slot;
    slot[0x10] = 5;
    let Instruction::Extended(read) = decode(&slot) else { panic!("an extended instruction") };
    assert!(TensorTensorArith::decode(&read.payload).unwrap_err().to_string().contains("4 (ADD) or 6 (MULT)"));
    slot[0x0d] |= 2;
    assert_eq!(Instruction::decode(&slot, Dialect::V2), Err(SeqError::Reserved { offset: 0x0d, value: 2 }));
}

#[test]
fn pool_arguments_and_events_lie_where_documented() {
    let load = LoadPoolArgument { pointers: 3, immediates: [1, 5, 2, 0, 6, 0, 7, 0] };
    let events = Events {
        wait_mode: WAIT_SEMAPHORE,
        wait_index: 9,
        update_mode: UPDATE_INCREMENT,
        update_index: 22,
        semaphore_value: 1,
    };
    let slot = Instruction::LoadPoolArgument(load).encode_with(&events, Dialect::V2);
    assert_eq!(slot[..16], [0x7a, 0x10, 0, 0, 4, 9, 0x13, 22, 1, 0, 0, 0, 0, 0, 3, 0]);
    assert_eq!((slot[0x20], slot[0x24], slot[0x28], slot[0x30], slot[0x38]), (1, 5, 2, 6, 7));
    assert_eq!((decode(&slot), Events::decode(&slot, Dialect::V2)), (Instruction::LoadPoolArgument(load), events));
}

#[test]
fn the_public_pool_stream_is_read() {
    let trigger = |queue: &str| DmaTrigger { queue: queue.into(), use_raw_count: 0, block_id: 0 };
    let mut first = slot(&[0xc1, 0x10]);
    first[0x0c..0x0c + 13].copy_from_slice(b"q_gradient_in");
    assert_eq!(decode(&first), Instruction::DmaTrigger(trigger("q_gradient_in")));
    let mut second = slot(&[0xc1, 0x10, 0, 0, 4, 0x16]);
    second[0x0c..0x0c + 14].copy_from_slice(b"q_gradient_out");
    let third = slot(&[0xa0, 0x10, 0, 0, 4, 0x0b]);
    assert_eq!(decode(&third), Instruction::EventSemaphore);
    let mut stream = [first, second, third].concat();
    stream.extend([1, 2, 3]);
    let report = inspect(&stream, Dialect::V2);
    let names: Vec<_> = report.slots.iter().map(|slot| slot.name.as_deref().unwrap()).collect();
    assert_eq!(names, ["PSEUDO_DMATRIGGER", "PSEUDO_DMATRIGGER", "EVENT_SEMAPHORE"]);
    assert_eq!(report.slots[1].events.unwrap().wait_index, 0x16);
    assert!(report.problems[0].contains("3 bytes that are no instruction"));
    assert!(report.to_string().contains("queue=q_gradient_out"));
    // In the first dialect the name begins four bytes earlier.
    let old = Instruction::DmaTrigger(trigger("q_in")).encode_with(&Events::default(), Dialect::V1);
    assert_eq!(old[8..12], *b"q_in");
    assert_eq!(Instruction::decode(&old, Dialect::V1), Ok(Instruction::DmaTrigger(trigger("q_in"))));
}

#[test]
fn unknown_instructions_are_shown_as_hexadecimal() {
    let mut unknown = slot(&[0x00, 0x10]);
    unknown[63] = 0xab;
    let mut wrong = slot(&[0x95, 0x10]);
    wrong[0x0c] = 9;
    let report = inspect(&[unknown, wrong].concat(), Dialect::V2);
    assert_eq!(report.slots[0].name, None);
    assert!(report.slots[0].fields[0].1.ends_with("ab"));
    assert!(report.slots[1].problem.as_deref().unwrap().contains("modify_op"));
    assert_eq!(report.histogram["0x00"], 1);
}

proptest! {
    #[test]
    fn what_is_decoded_encodes_back_to_the_same_bytes(mut bytes in prop::array::uniform32(any::<u8>()), opcode in
        prop::sample::select(vec![0x85_u8, 0x86, 0x95, 0xf0, 0x7a, 0xc1, 0xa0, 0x41])) {
        bytes[0] = opcode;
        bytes[1] = 0x10;
        let slot = slot(&bytes);
        if let Ok(instruction) = Instruction::decode(&slot, Dialect::V2) {
            let events = Events::decode(&slot, Dialect::V2);
            let back = instruction.encode_with(&events, Dialect::V2);
            // Debug bytes and what a layout leaves open are not kept; what was read reads the same again.
            prop_assert_eq!(Instruction::decode(&back, Dialect::V2).unwrap(), instruction);
            prop_assert_eq!(Events::decode(&back, Dialect::V2), events);
        }
    }

    #[test]
    fn tensor_records_survive_a_round_trip(
        dtype in prop::sample::select(vec![2_u8, 3, 4, 6, 7, 8, 10, 12]), dims in prop::array::uniform8(any::<u16>()),
        address: u64, elements: u32,
    ) {
        let tensor = ArgTensor {
            dtype: ElementType::new(dtype).unwrap(),
            shape: Shape::Inline8(dims),
            storage: Storage::Hbm { address, elements },
        };
        prop_assert_eq!(ArgTensor::decode(&tensor.encode()), Ok(tensor));
        let payload = Instruction::CustomOpPayload(CustomOpPayload { arg: Arg::Tensor(tensor) });
        prop_assert_eq!(Instruction::decode(&payload.encode(), Dialect::V2), Ok(payload));
    }

    #[test]
    fn any_stream_is_inspected_without_panic(stream in prop::collection::vec(any::<u8>(), 0..1024)) {
        for dialect in [Dialect::V1, Dialect::V2] {
            let report = inspect(&stream, dialect);
            prop_assert_eq!(report.slots.len(), stream.len() / SLOT);
        }
    }
}
