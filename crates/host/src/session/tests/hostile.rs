//! P15: whatever a device sends or writes, the host neither reads outside its windows nor panics nor waits for ever.

use super::{load, tensor};
use crate::fake::{self, Reaction, at, session, transport};
use crate::{Deadlines, Error, Input, Session, SessionOptions};
use outboard_wire::{Header, InferReply, MessageType, PrintfHeader, Status, TensorDesc};
use proptest::prelude::*;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use zerocopy::IntoBytes;

/// A session whose device changes its reply to an inference; returns what the host made of it.
fn with_reply(change: impl Fn(&mut InferReply, u64) + Send + 'static) -> Result<usize, Error> {
    let (mut session, _) = session((0, 0, 0, 0), move |device, kind, message| match kind {
        MessageType::Infer => {
            let window = device.result_window(message);
            let mut reply = device.echo(message);
            change(&mut reply, window.base);
            Reaction::reply(reply.as_bytes())
        }
        _ => Reaction::Behave,
    });
    let module = load(&mut session);
    let x = tensor("2,2", 0.0);
    session.run(&module, &[Input::from(&x)]).map(|outputs| outputs.len())
}

#[test]
fn p15_output_descriptors_that_cannot_be_followed_are_rejected_by_reason() {
    type Change = Box<dyn Fn(&mut InferReply, u64) + Send>;
    fn first(change: impl Fn(&mut TensorDesc, u64) + Send + 'static) -> Change {
        Box::new(move |reply, base| change(&mut reply.descriptors[0], base))
    }
    let cases: Vec<(&str, Change)> = vec![
        ("not in the output window", first(|output, base| output.data_addr = (base - 1).into())),
        ("not in the output window", first(|output, base| output.data_addr = (base + 0x1_0000 - 15).into())),
        ("not in the output window", first(|output, _| output.data_addr = 0xC000_0000.into())),
        ("not in the output window", first(|output, _| output.data_addr = (u64::MAX - 3).into())),
        ("has 16 bytes, but the device says 17", first(|output, _| output.data_size = 17.into())),
        (
            "has 16 bytes, but the device says 18446744073709551615",
            first(|output, _| output.data_size = u64::MAX.into()),
        ),
        ("code 3 with 32 bits is not known", first(|output, _| output.dtype_code = 3.into())),
        ("code 258 with 32 bits is not known", first(|output, _| output.dtype_code = 258.into())),
        ("code 2 with 0 bits is not known", first(|output, _| output.dtype_bits = 0.into())),
        ("it has -1 dimensions", first(|output, _| output.ndim = (-1).into())),
        ("it has 7 dimensions", first(|output, _| output.ndim = 7.into())),
        ("dimension 1 of the shape is -2", first(|output, _| output.shape[1] = (-2).into())),
        ("larger than memory can be", first(|output, _| output.shape = [i64::MAX.into(); 6])),
        (
            "outputs are more than the 128",
            Box::new(|reply, base| {
                reply.fixed.num_outputs = u32::MAX.into();
                reply.fixed.descs_addr = base.into();
            }),
        ),
        ("6 descriptors, a message carries at most 5", Box::new(|reply, _| reply.fixed.num_outputs = 6.into())),
        (
            "too short for 2 outputs",
            Box::new(|reply, base| {
                reply.fixed.num_outputs = 2.into();
                reply.fixed.descs_addr = base.into();
                reply.fixed.descs_size = 159.into();
            }),
        ),
        (
            "is not in the output window",
            Box::new(|reply, base| {
                reply.fixed.descs_addr = (base + 0x1_0000 - 79).into();
                reply.fixed.descs_size = 80.into();
            }),
        ),
        (
            "is not in the output window",
            Box::new(|reply, base| {
                reply.fixed.descs_addr = base.into();
                reply.fixed.descs_size = u32::MAX.into();
            }),
        ),
        (
            "is not in the output window",
            Box::new(|reply, _| {
                reply.fixed.descs_addr = u64::MAX.into();
                reply.fixed.descs_size = 80.into();
            }),
        ),
    ];
    for (reason, change) in cases {
        let rejected = with_reply(change).unwrap_err();
        assert!(matches!(rejected, Error::OutputRejected { .. }), "{reason}: {rejected:?}");
        assert!(rejected.to_string().contains(reason), "{reason}: {rejected}");
    }
    assert_eq!(with_reply(|_, _| {}).unwrap(), 1);
}

#[test]
fn p15_an_empty_tensor_may_lie_at_the_very_end_of_the_window_and_not_behind() {
    let empty = |offset: u64| {
        with_reply(move |reply, base| {
            let output = &mut reply.descriptors[0];
            output.shape[0] = 0.into();
            output.data_size = 0.into();
            output.data_addr = (base + offset).into();
        })
    };
    assert_eq!(empty(0x1_0000).unwrap(), 1);
    assert!(matches!(empty(0x1_0001), Err(Error::OutputRejected { .. })));
}

/// Runs one inference on a session whose device answers it with these messages.
fn answered_by(replies: impl Fn(u32) -> Vec<Vec<u8>> + Send + 'static) -> (Result<usize, Error>, Session) {
    let mut tricks = 1;
    let (transport, _) = transport((0, 0, 0, 0), move |_, kind, message| match kind {
        MessageType::Infer if tricks > 0 => {
            tricks -= 1;
            Reaction::Send(replies(fake::seq(message)))
        }
        _ => Reaction::Behave,
    });
    let deadlines = Deadlines { infer: Duration::from_millis(100), ..Deadlines::all(Duration::from_secs(2)) };
    let mut session = Session::open(transport, SessionOptions { deadlines }).unwrap();
    let module = load(&mut session);
    let result = session.run(&module, &[]).map(|outputs| outputs.len());
    (result, session)
}

#[test]
fn p15_replies_of_any_length_and_type_end_in_their_own_error_and_the_next_call_works() {
    let header = |kind: u32, seq: u32| {
        let mut header = Header::reply(MessageType::Infer, seq, 16, Status::Success);
        header.kind = kind.into();
        header.as_bytes().to_vec()
    };
    type Replies = Box<dyn Fn(u32) -> Vec<Vec<u8>> + Send>;
    let cases: Vec<(&str, Replies)> = vec![
        ("OB0307", Box::new(|_| vec![vec![1, 2, 3]])),
        ("OB0307", Box::new(|_| vec![vec![]])),
        ("OB0307", Box::new(move |seq| vec![header(0x1021, seq)])),
        ("OB0307", Box::new(move |seq| vec![[header(0x1021, seq), vec![0; 51]].concat()])),
        ("OB0308", Box::new(move |seq| vec![header(0x1001, seq)])),
        ("OB0308", Box::new(move |seq| vec![header(0x21, seq)])),
        ("OB0302", Box::new(move |seq| vec![header(0x1021, seq + 1)])),
        ("OB0302", Box::new(move |seq| vec![header(0x1021, seq - 1); 16])),
    ];
    for (code, replies) in cases {
        let (result, mut session) = answered_by(replies);
        let error = result.unwrap_err();
        assert_eq!(error.code(), code, "{error}");
        let module = load(&mut session);
        assert!(session.run(&module, &[]).is_ok(), "after {error}");
    }
}

#[test]
fn a_late_reply_is_discarded_and_the_right_one_taken() {
    let (result, _) = answered_by(|seq| {
        let mut late = InferReply::new(seq - 1, Status::Call);
        let mut right = InferReply::new(seq, Status::Success);
        vec![late.seal().to_vec(), right.seal().to_vec()]
    });
    assert_eq!(result.unwrap(), 0);
}

#[test]
fn p15_a_refusal_that_is_only_a_header_is_a_refusal() {
    let (result, _) = answered_by(|seq| vec![Header::refusal(0x21, seq, Status::Invalid).as_bytes().to_vec()]);
    assert!(matches!(result, Err(Error::Refused { request: "INFER", status: -2, .. })));
}

#[test]
fn p15_text_lengths_beyond_the_buffer_are_no_text_and_dropped_bytes_are_counted() {
    for (announced, written, expected, dropped) in [
        (5, 5, "hello", 0),
        (65_520, 65_520, "", 0),
        (65_521, 5, "", 0),
        (u32::MAX, 5, "", 0),
        (5, u32::MAX, "hello", 9),
        // A device that announces no text has none: its buffer is not even synchronised.
        (0, 5, "", 0),
    ] {
        let (mut session, _) = session((0, 0, 0, 0), move |device, kind, message| match kind {
            MessageType::Infer => {
                device.print(b"hello", dropped);
                let mut header = PrintfHeader::empty(0x1_0000).unwrap();
                (header.wr_index, header.dropped) = (written.into(), dropped.into());
                device.memory.write(at(device.printf().base), header.as_bytes()).unwrap();
                let mut reply = device.echo(message);
                reply.fixed.printf_size = announced.into();
                Reaction::reply(reply.seal())
            }
            _ => Reaction::Behave,
        });
        let module = load(&mut session);
        let outputs = session.run(&module, &[]).unwrap();
        let text = outputs.text().text();
        assert!(
            text.trim_end_matches('\0') == expected || (announced == 65_520 && text.len() == 65_520),
            "{announced} {text:?}"
        );
        assert_eq!(outputs.text().dropped(), dropped, "{announced}");
    }
}

#[test]
fn p15_a_device_that_scribbles_over_the_message_rings_is_given_up_in_time() {
    for pattern in [0xFF, 0x80, 0x01] {
        let mut tricks = 1;
        let (transport, _) = transport((0, 0, 0, 0), move |device, kind, _| match kind {
            MessageType::GetStatus if tricks > 0 => {
                tricks -= 1;
                // Everything behind the state words: crash record, ring counters, slots.
                let len = device.control.len();
                device.control.write(16, &vec![pattern; len - 16]).unwrap();
                Reaction::Leave
            }
            _ => Reaction::Behave,
        });
        let deadlines = Deadlines::all(Duration::from_millis(500));
        let mut session = Session::open(transport, SessionOptions { deadlines }).unwrap();
        let error = session.status().unwrap_err();
        assert!(matches!(error, Error::DeviceLost(_) | Error::ShortMessage { .. } | Error::Timeout { .. }), "{error}");
        // The session is as good as new once the device is started again.
        let recovered = (0..3).any(|_| session.ping().is_ok());
        assert!(recovered, "pattern {pattern:#x}");
        let module = load(&mut session);
        session.run(&module, &[]).unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn p15_no_reply_bytes_make_the_host_panic(
        replies in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..=512), 1..4), genuine in any::<bool>(),
    ) {
        // One session serves all rounds of a case: a device that answers rubbish under the right sequence number and type.
        let rubbish = Arc::new(Mutex::new(replies));
        let script = Arc::clone(&rubbish);
        let (mut session, _) = session((0, 0, 0, 0), move |_, kind, message| match kind {
            MessageType::Infer => {
                let mut replies = script.lock().unwrap().clone();
                for reply in replies.iter_mut().filter(|reply| genuine && reply.len() >= 16) {
                    reply[..16].copy_from_slice(Header::reply(kind, fake::seq(message), 0, Status::Success).as_bytes());
                }
                Reaction::Send(replies)
            }
            _ => Reaction::Behave,
        });
        let module = load(&mut session);
        let options = crate::RunOptions { deadline: Some(Duration::from_millis(2)), ..Default::default() };
        let _ = session.run_with(&module, &[], &options).map(|outputs| outputs.views().count());
    }
}
