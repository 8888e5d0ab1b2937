//! Messages that are sent before the answer to the last one is there.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "support/pipeline.rs"]
mod pipeline;
mod support;

use outboard_wire::{DynUnload, Header, Status};
use pipeline::{Pipeline, status};
use support::{PROGRAM, module};
use zerocopy::IntoBytes;

/// The behaviour that runs for tens of milliseconds and then reads the module's data, and what it answers.
const SLOW: (i32, i32) = (7, 4321);

#[test]
fn p8_an_unload_during_a_call_waits_for_its_end_and_the_next_call_is_refused() {
    let file = std::fs::read(module("behaviours.c")).unwrap();
    let mut host = Pipeline::open(PROGRAM, 2);
    for _ in 0..5 {
        let handle = host.load(&file);
        let call = host.send_infer(handle, 0, SLOW.0);
        let unload = host.next_seq();
        host.send(DynUnload::new(unload, handle).as_bytes());
        let late = host.send_infer(handle, 1, SLOW.0);

        let replies = [host.receive(), host.receive(), host.receive()];
        let heads = replies.iter().map(|reply| (Header::parse(reply).unwrap().seq.get(), status(reply).unwrap()));
        let expected = [(call, Status::Success), (unload, Status::Success), (late, Status::Handle)];
        assert_eq!(heads.collect::<Vec<_>>(), expected);
        assert_eq!(host.output(0), SLOW.1, "the call ran to its end with its data in place");
    }
}

#[test]
fn sixteen_calls_under_way_are_answered_in_order_each_in_its_own_window() {
    let file = std::fs::read(module("behaviours.c")).unwrap();
    let mut host = Pipeline::open(PROGRAM, 16);
    let handle = host.load(&file);
    let mut runs = 0;
    for _ in 0..10 {
        let sent: Vec<u32> = (0..16).map(|slot| host.send_infer(handle, slot, 1)).collect();
        for seq in sent {
            let reply = host.receive();
            assert_eq!((Header::parse(&reply).unwrap().seq.get(), status(&reply)), (seq, Some(Status::Success)));
        }
        for slot in 0..16 {
            runs += 1;
            assert_eq!(host.output(slot), runs);
        }
    }
}
