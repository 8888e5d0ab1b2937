//! Calls: messages, windows, zero-copy buffers, checks against declarations.

use super::{load, tensor};
use crate::fake::{self, Reaction, benign, session};
use crate::{Error, Input, Manifest, RunOptions};
use outboard_tensor::{DType, Shape, Tensor};
use outboard_wire::{InferHeader, InferLarge, InferReply, MessageType, Status};

#[test]
fn inputs_come_back_as_outputs_of_the_same_bytes_type_and_shape() {
    let (mut session, seen) = benign((0, 0, 0, 0));
    let module = load(&mut session);
    let a = tensor("1,4", 1.0);
    let b = Tensor::from_values("3".parse().unwrap(), &[i64::MIN, 0, i64::MAX]).unwrap();
    let c = Tensor::from_values(Shape::scalar(), &[true]).unwrap();
    let d = Tensor::from_values::<u8>("0,7".parse().unwrap(), &[]).unwrap();
    let outputs = session.run(&module, &[Input::from(&a), Input::from(&b), Input::from(&c), Input::from(&d)]).unwrap();
    assert_eq!(outputs.views().map(|view| view.to_tensor()).collect::<Vec<_>>(), [a, b, c, d]);
    assert_eq!((outputs.cycles(), outputs.tuple_index(2), outputs.len()), (1234, Some(2), 4));
    assert_eq!(seen.kinds().last(), Some(&"INFER"));
    assert_eq!(seen.last().len(), 64 + 4 * 80);
}

#[test]
fn from_the_fifth_input_on_descriptors_travel_in_the_input_window() {
    let (mut session, seen) = benign((0, 0, 0, 0));
    let module = load(&mut session);
    for count in [5, 6, 128] {
        let inputs: Vec<Tensor> =
            (0..count).map(|index| tensor("2,3", f32::from(u8::try_from(index).unwrap()))).collect();
        let outputs = session.run(&module, &inputs.iter().map(Input::from).collect::<Vec<_>>()).unwrap();
        assert_eq!(outputs.views().map(|view| view.to_tensor()).collect::<Vec<_>>(), inputs);
        let request = InferLarge::parse(&seen.last()).unwrap();
        assert_eq!(request.descs_addr, request.input_dsp_addr);
        assert_eq!((request.num_inputs.get(), request.descs_size.get()), (count, count * 80));
    }
    let too_many = vec![tensor("1", 0.0); 129];
    let refused = session.run(&module, &too_many.iter().map(Input::from).collect::<Vec<_>>()).unwrap_err();
    assert!(matches!(refused, Error::InputUnsupported { .. }), "{refused}");
}

#[test]
fn a_module_without_inputs_can_be_called() {
    let (mut session, seen) = benign((0, 0, 0, 0));
    let module = load(&mut session);
    assert!(session.run(&module, &[]).unwrap().is_empty());
    let request = InferHeader::parse(&seen.last()).unwrap();
    assert_eq!((seen.last().len(), request.num_inputs.get()), (144, 0));
    assert!(request.input_window().in_carveout() && request.result_window().in_carveout());
    assert!(request.input_size.get() > 0 && request.result_size.get() > 0);
}

#[test]
fn repeats_travel_in_the_flags() {
    let (mut session, seen) = benign((0, 0, 0, 0));
    let module = load(&mut session);
    session.run_with(&module, &[], &RunOptions::repeat(1000)).unwrap();
    assert_eq!(InferHeader::parse(&seen.last()).unwrap().flags.get(), 1000);
}

#[test]
fn tensors_that_are_not_what_the_module_declares_are_refused_before_anything_is_sent() {
    let (mut session, seen) = benign((0, 0, 0, 0));
    let mut module = load(&mut session);
    let manifest = r#"{"name":"m","inputs":[{"name":"x","dtype":"float32","shape":[1,4]},{"name":"n","dtype":"int64","shape":[1]}],"outputs":[]}"#;
    module.manifest = Some(Manifest::parse(manifest).unwrap());
    let (x, n) = (tensor("1,4", 0.0), Tensor::from_values("1".parse().unwrap(), &[1i64]).unwrap());
    let before = seen.messages().len();
    let wrong_shape = tensor("1,3", 0.0);
    let wrong_type = Tensor::from_values("1".parse().unwrap(), &[1i32]).unwrap();
    for (inputs, text) in [
        (vec![&x], "module `lib0.out` takes 2 input(s) (x: float32 (1,4); n: int64 (1)), but 1 were given"),
        (vec![&x, &n, &n], "module `lib0.out` takes 2 input(s) (x: float32 (1,4); n: int64 (1)), but 3 were given"),
        (vec![&wrong_shape, &n], "input 0 (`x`) of module `lib0.out`: expected float32 (1,4), got float32 (1,3)"),
        (vec![&x, &wrong_type], "input 1 (`n`) of module `lib0.out`: expected int64 (1), got int32 (1)"),
    ] {
        let refused = session.run(&module, &inputs.into_iter().map(Input::from).collect::<Vec<_>>()).unwrap_err();
        assert_eq!(refused.to_string(), text);
        assert_eq!(refused.class().exit_code(), 1);
    }
    assert_eq!(seen.messages().len(), before);
    assert!(session.run(&module, &[Input::from(&x), Input::from(&n)]).is_ok());
}

#[test]
fn a_declared_number_of_inputs_is_enough_to_refuse_another() {
    let (mut session, _) = benign((1024, 1024, 2, 1));
    let module = load(&mut session);
    let refused = session.run(&module, &[]).unwrap_err();
    assert_eq!(refused.to_string(), "module `lib0.out` takes 2 input(s), but 0 were given");
}

#[test]
fn a_tensor_of_seven_dimensions_cannot_be_sent() {
    let (mut session, _) = benign((0, 0, 0, 0));
    let module = load(&mut session);
    let refused = session.run(&module, &[Input::from(&tensor("1,1,1,1,1,1,1", 0.0))]).unwrap_err();
    assert_eq!(refused.to_string(), "input 0 cannot be sent: it has 7 dimensions; the protocol carries at most 6");
}

#[test]
fn a_buffer_of_the_input_window_is_filled_in_place_and_travels_without_a_copy() {
    let (mut session, seen) = benign((0, 0, 0, 0));
    let module = load(&mut session);
    let buffer = session.input(&module, DType::Float32, "1,4".parse().unwrap()).unwrap();
    let x = tensor("1,4", 5.0);
    session.input_bytes_mut(&buffer).unwrap().copy_from_slice(x.bytes());
    let mut buffer = session.hand_over(buffer).unwrap();
    for round in 0..3 {
        // Filled once, changed in place, never copied: the address of every call is that of the buffer.
        let taken = session.take_back(buffer).unwrap();
        session.input_bytes_mut(&taken).unwrap()[0] = round;
        let expected = session.input_bytes(&taken).unwrap().to_vec();
        buffer = session.hand_over(taken).unwrap();
        let outputs = session.run(&module, &[Input::from(&buffer)]).unwrap();
        assert_eq!(outputs.view(0).unwrap().bytes(), expected);
        let message = seen.last();
        let (descriptors, window) =
            (outboard_wire::Infer::descriptors(&message, 1).unwrap(), InferHeader::parse(&message).unwrap());
        assert_eq!(descriptors[0].data_addr.get(), window.input_dsp_addr.get() + module.input_data_offset());
    }
    assert_eq!(session.traffic(), crate::Traffic::default(), "no tensor byte was copied");
    drop(buffer);
    session.run(&module, &[Input::from(&x)]).unwrap().to_tensor(0).unwrap();
    assert_eq!(session.traffic(), crate::Traffic { to_device: 16, to_host: 16 });
}

#[test]
fn copied_tensors_never_overwrite_buffers_that_somebody_holds() {
    let (mut session, _) = benign((0, 0, 0, 0));
    let module = load(&mut session);
    session.reserve_io(4096, 4096).unwrap();
    let first = session.input(&module, DType::UInt8, "100".parse().unwrap()).unwrap();
    let second = session.input(&module, DType::UInt8, "64".parse().unwrap()).unwrap();
    session.input_bytes_mut(&first).unwrap().fill(1);
    session.input_bytes_mut(&second).unwrap().fill(2);
    let (first, second) = (session.hand_over(first).unwrap(), session.hand_over(second).unwrap());
    let copied = Tensor::from_values("200".parse().unwrap(), &[3u8; 200]).unwrap();
    let outputs = session.run(&module, &[Input::from(&copied), Input::from(&second), Input::from(&first)]).unwrap();
    let bytes: Vec<&[u8]> = outputs.views().map(|view| view.bytes()).collect();
    assert_eq!(bytes, [&[3; 200][..], &[2; 64], &[1; 100]]);
    // The room of a dropped buffer is used again.
    drop(first);
    let third = session.input(&module, DType::UInt8, "128".parse().unwrap()).unwrap();
    assert_eq!(u64::try_from(third.offset).unwrap(), module.input_data_offset());
    drop(second);
}

#[test]
fn a_window_with_buffers_in_use_does_not_grow_and_says_so() {
    let (mut session, _) = benign((0, 0, 0, 0));
    let module = load(&mut session);
    session.reserve_io(1024, 0).unwrap();
    let buffer = session.input(&module, DType::UInt8, "64".parse().unwrap()).unwrap();
    assert!(matches!(session.reserve_io(4096, 0), Err(Error::BuffersInUse { live: 1 })));
    let buffer = session.hand_over(buffer).unwrap();
    let large = session.input(&module, DType::UInt8, "2000".parse().unwrap()).unwrap_err();
    assert_eq!(
        large.to_string(),
        "the input window has 1024 bytes and 2432 are needed: other buffers in it are in use"
    );
    let too_large = Tensor::zeros(DType::UInt8, "700".parse().unwrap()).unwrap();
    assert!(matches!(
        session.run(&module, &[Input::from(&buffer), Input::from(&too_large)]),
        Err(Error::WindowTooSmall { window: "input", .. })
    ));
    drop(buffer);
    session.reserve_io(4096, 0).unwrap();
}

#[test]
fn f10_a_buffer_of_a_window_that_was_replaced_is_refused() {
    let (mut session, _) = benign((0, 0, 0, 0));
    let module = load(&mut session);
    let (other, _) = (session.input(&module, DType::UInt8, "64".parse().unwrap()).unwrap(), ());
    let (mut second, _) = benign((0, 0, 0, 0));
    let theirs = load(&mut second);
    assert!(second.input_bytes(&other).is_err());
    assert!(second.input_bytes_mut(&other).is_err());
    let given = session.hand_over(other).unwrap();
    assert!(matches!(second.run(&theirs, &[Input::from(&given)]), Err(Error::StaleBuffer { index: 0 })));
    assert!(matches!(second.take_back(given), Err(Error::StaleBuffer { index: 0 })));
    let other = session.input(&module, DType::UInt8, "64".parse().unwrap()).unwrap();
    assert!(matches!(second.hand_over(other), Err(Error::StaleBuffer { index: 0 })));
}

#[test]
fn a_buffer_under_the_descriptors_of_a_larger_call_is_refused_instead_of_overwritten() {
    let (mut session, _) = benign((0, 0, 0, 0));
    let module = load(&mut session);
    session.reserve_io(4096, 4096).unwrap();
    // Without metadata four descriptors go before the data; a call with six needs room for six.
    let buffer = session.input(&module, DType::UInt8, "64".parse().unwrap()).unwrap();
    let buffer = session.hand_over(buffer).unwrap();
    let x = tensor("1", 0.0);
    let mut inputs = vec![Input::from(&x); 5];
    inputs.push(Input::from(&buffer));
    assert!(matches!(session.run(&module, &inputs), Err(Error::InputUnsupported { index: 5, .. })));
}

#[test]
fn an_output_window_that_nobody_declared_grows_to_what_the_device_asks_for() {
    let (mut session, seen) = benign((0, 0, 0, 0));
    let module = load(&mut session);
    let large = Tensor::from_values("100000".parse().unwrap(), &vec![7u8; 100_000]).unwrap();
    let outputs = session.run(&module, &[Input::from(&large)]).unwrap();
    assert_eq!(outputs.to_tensor(0), Some(large));
    assert_eq!(seen.kinds()[2..], ["DYN_LOAD", "INFER", "INFER"]);
}

#[test]
fn an_output_window_that_was_chosen_is_not_enlarged_behind_the_callers_back() {
    let (mut session, _) = benign((0, 0, 0, 0));
    let module = load(&mut session);
    session.reserve_io(0, 64).unwrap();
    let refused = session.run(&module, &[Input::from(&tensor("17", 0.0))]).unwrap_err();
    assert_eq!(refused.to_string(), "the output window has 64 bytes and 128 are needed");
    assert_eq!(refused.help(), "reserve room before the call: reserve_io(0, 128)");
    session.reserve_io(0, 128).unwrap();
    session.run(&module, &[Input::from(&tensor("17", 0.0))]).unwrap();
}

#[test]
fn a_module_that_fails_is_reported_with_its_value_and_its_text() {
    let (mut session, _) = session((0, 0, 0, 0), |device, kind, message| match kind {
        MessageType::Infer => {
            device.print(b"cannot divide\n", 0);
            let mut reply = InferReply::new(fake::seq(message), Status::Call);
            reply.fixed.return_value = (-1).into();
            Reaction::reply(reply.seal())
        }
        _ => Reaction::Behave,
    });
    let module = load(&mut session);
    let failed = session.run(&module, &[]).unwrap_err();
    assert_eq!(failed.to_string(), "module `lib0.out` failed: its entry cg_main_dsp returned -1");
    assert_eq!(session.module_text().text(), "cannot divide\n");
}

#[test]
fn exhausted_memory_and_a_value_that_only_looks_like_it_are_told_apart() {
    let mut calls = 0;
    let (mut session, _) = session((0, 0, 0, 0), move |_, kind, message| match kind {
        MessageType::Infer => {
            calls += 1;
            let mut reply = InferReply::new(fake::seq(message), Status::NoMem);
            reply.fixed.return_value = (-3).into();
            if calls == 1 {
                (reply.fixed.oom_requested, reply.fixed.oom_free, reply.fixed.oom_total) =
                    (602_112.into(), 599_296.into(), 369_098_752.into());
            }
            Reaction::reply(reply.seal())
        }
        _ => Reaction::Behave,
    });
    let module = load(&mut session);
    assert_eq!(
        session.run(&module, &[]).unwrap_err().to_string(),
        "out of memory in the device's MAIN pool: 602112 bytes requested, 599296 of 369098752 bytes free"
    );
    assert!(matches!(session.run(&module, &[]), Err(Error::CallFailed { value: -3, .. })));
}

#[test]
fn other_statuses_are_refusals_with_their_name_and_advice() {
    let (mut session, _) = session((0, 0, 0, 0), |_, kind, message| match kind {
        MessageType::Infer => Reaction::reply(InferReply::new(fake::seq(message), Status::Tensor).seal()),
        MessageType::DynUnload => {
            let header = outboard_wire::Header {
                status_code: (-99).into(),
                ..outboard_wire::Header::reply(kind, fake::seq(message), 16, Status::Success)
            };
            Reaction::reply(zerocopy::IntoBytes::as_bytes(&header))
        }
        _ => Reaction::Behave,
    });
    let module = load(&mut session);
    let refused = session.run(&module, &[]).unwrap_err();
    assert_eq!(refused.to_string(), "the device refused INFER: ERR_TENSOR (Tensor construction failed, -14)");
    assert_eq!(refused.help(), Status::Tensor.advice());
    let unknown = session.unload(module).unwrap_err();
    assert_eq!(unknown.to_string(), "the device refused DYN_UNLOAD: status -99, which the protocol does not define");
}
