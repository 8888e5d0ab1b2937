//! Handshake, loading, losses, deadlines, restarts, close.

use super::{load, tensor};
use crate::fake::{self, Reaction, benign, session, transport};
use crate::{Deadlines, Error, ErrorClass, Input, LossCause, Session, SessionOptions};
use outboard_shm::CrashRecord;
use outboard_wire::{DynLoadReply, Header, MessageType, PingReply, Status, Version};
use std::time::Duration;
use zerocopy::IntoBytes;

fn brief() -> SessionOptions {
    SessionOptions { deadlines: Deadlines::all(Duration::from_millis(150)) }
}

#[test]
fn a_session_pings_first_then_names_its_printf_buffer_and_places_its_buffers_where_the_board_does() {
    let (session, seen) = benign((0, 0, 0, 0));
    assert_eq!(seen.kinds(), ["PING", "SET_PRINTF_BUF"]);
    assert_eq!(seen.messages()[1][16..32], [0, 0, 0, 0xDE, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0]);
    assert_eq!(session.buffers.staging.window().base, 0xC000_0000);
    assert_eq!(session.buffers.staging.window().size, 480 << 20);
    assert_eq!(session.room().free, (32 << 20) - (64 << 10));
    assert_eq!(session.device(), "fake");
}

#[test]
fn declared_windows_come_out_at_exact_addresses_and_only_grow() {
    // The figures of a language model's prefill: 62 inputs, 61 outputs.
    let (mut session, _) = benign((11_802_496, 12_583_040, 62, 61));
    let module = load(&mut session);
    assert_eq!(module.input_data_offset(), 4992);
    let windows = |session: &Session| {
        let window = |window: outboard_wire::MapWindow| (window.base, window.size);
        (window(session.buffers.input.window()), window(session.buffers.output.window()))
    };
    let reserved = ((0xDE01_0000, 11_802_496), (0xDEB6_0000, 12_583_040));
    assert_eq!(windows(&session), reserved);
    session.reserve_io(64, 64).unwrap();
    assert_eq!(windows(&session), reserved);
    session.unload(module).unwrap();
    let module = load(&mut session);
    assert_eq!(windows(&session), reserved);
    // A window that cannot grow stays as it was.
    assert!(matches!(
        session.reserve_io(0, 30 << 20),
        Err(Error::WindowTooSmall { window: "output", needed: 31_457_280, reserved: 12_583_040, .. })
    ));
    assert_eq!(windows(&session), reserved);
    drop(module);
}

#[test]
fn a_declaration_larger_than_the_carveout_is_a_warning_of_the_module() {
    let (mut session, _) = benign((11_802_496, 24_384_320, 1, 1));
    let module = load(&mut session);
    let [warning] = module.warnings() else { panic!("{:?}", module.warnings()) };
    assert!(warning.starts_with("the output window the module declares could not be reserved: the output window has 0 bytes and 24384320 are needed: out of memory in the shared carveout"), "{warning}");
    // A call that needs less works.
    let x = tensor("4", 1.0);
    assert_eq!(session.run(&module, &[Input::from(&x)]).unwrap().to_tensor(0), Some(x));
}

#[test]
fn f8_an_older_and_a_newer_major_version_are_refused_with_the_side_to_update() {
    for (version, side) in [(0x02_0000, "update the firmware of the device"), (0x04_0102, "update this program")] {
        let (transport, seen) = transport((0, 0, 0, 0), move |_, kind, message| match kind {
            MessageType::Ping => Reaction::reply(PingReply::new(fake::seq(message), Version(version), 1).as_bytes()),
            _ => Reaction::Behave,
        });
        let refused = Session::open(transport, brief()).unwrap_err();
        assert!(matches!(refused, Error::VersionMismatch { .. }));
        assert!(refused.to_string().ends_with(side), "{refused}");
        assert_eq!(seen.kinds(), ["PING"], "nothing else was sent");
    }
    // Minor versions are compatible.
    let (session, _) = session((0, 0, 0, 0), |_, kind, message| match kind {
        MessageType::Ping => Reaction::reply(PingReply::new(fake::seq(message), Version(0x03_0705), 1).as_bytes()),
        _ => Reaction::Behave,
    });
    assert_eq!(session.version().to_string(), "3.7.5");
}

#[test]
fn a_crash_is_reported_with_its_place_and_output_and_the_next_load_starts_the_device_again() {
    let mut crashes = 1;
    let (mut session, seen) = session((0, 0, 0, 0), move |device, kind, _| match kind {
        MessageType::Infer if crashes > 0 => {
            crashes -= 1;
            device.print(b"before the end\n", 0);
            Reaction::Crash(CrashRecord {
                signal: 11,
                pc: 0x1_0200_0040,
                module_handle: 1,
                last_message: 0x21,
                symbol: "read_table".into(),
                offset: 0x10,
                ..CrashRecord::default()
            })
        }
        _ => Reaction::Behave,
    });
    let module = load(&mut session);
    let x = tensor("4", 1.0);
    let Err(Error::DeviceLost(lost)) = session.run(&module, &[Input::from(&x)]) else { panic!("no loss") };
    assert_eq!(
        lost.to_string(),
        "the device was lost during INFER of module `lib0.out`: SIGSEGV (invalid memory access), at read_table+0x10, accessing address 0x0"
    );
    assert_eq!(session.module_text().text(), "before the end\n");

    // The old handle is refused by name, without a message; a new one works.
    let before = seen.messages().len();
    let stale = session.run(&module, &[Input::from(&x)]).unwrap_err();
    assert_eq!((stale.code(), stale.class()), ("OB0310", ErrorClass::Request));
    assert!(matches!(session.unload(module), Err(Error::StaleModule { .. })));
    assert_eq!(seen.messages().len(), before);
    let again = load(&mut session);
    assert_eq!(session.run(&again, &[Input::from(&x)]).unwrap().to_tensor(0), Some(x));
    assert_eq!(seen.kinds()[before..], ["PING", "SET_PRINTF_BUF", "DYN_LOAD", "INFER"]);
}

#[test]
fn a_device_that_vanishes_is_reported_with_the_end_of_its_log() {
    let (mut session, _) = session((0, 0, 0, 0), |_, kind, _| match kind {
        MessageType::DynLoad => Reaction::Leave,
        _ => Reaction::Behave,
    });
    let Err(Error::DeviceLost(lost)) = session.load(b"x", "gone.out") else { panic!("no loss") };
    assert_eq!(lost.cause, LossCause::Vanished);
    assert_eq!(
        lost.to_string(),
        "the device was lost during DYN_LOAD of module `gone.out`: it vanished; its log ends: the log of the fake"
    );
    assert_eq!(session.ping().unwrap().uptime, Duration::from_secs(5));
}

#[test]
fn a_device_that_does_not_answer_ends_at_the_deadline_and_is_started_again() {
    let mut silent = true;
    let (transport, _) = transport((0, 0, 0, 0), move |device, kind, _| match kind {
        MessageType::Infer if std::mem::take(&mut silent) => {
            device.print(b"still here\n", 0);
            Reaction::silence()
        }
        _ => Reaction::Behave,
    });
    let mut session = Session::open(transport, brief()).unwrap();
    let module = load(&mut session);
    let x = tensor("2,2", 0.0);
    let late = session.run(&module, &[Input::from(&x)]).unwrap_err();
    assert_eq!(late.to_string(), "no answer within 150 ms: waited for the answer to INFER of module `lib0.out`");
    assert_eq!((late.class().exit_code(), session.module_text().text().as_ref()), (4, "still here\n"));
    let module = load(&mut session);
    assert_eq!(session.run(&module, &[Input::from(&x)]).unwrap().to_tensor(0), Some(x));
}

#[test]
fn a_deadline_of_one_call_overrides_that_of_the_session() {
    let (mut session, _) = session((0, 0, 0, 0), |_, kind, _| match kind {
        MessageType::Infer => Reaction::silence(),
        _ => Reaction::Behave,
    });
    let module = load(&mut session);
    let options = crate::RunOptions { deadline: Some(Duration::from_millis(30)), ..Default::default() };
    let late = session.run_with(&module, &[], &options).unwrap_err();
    assert!(matches!(late, Error::Timeout { after, .. } if after == Duration::from_millis(30)));
}

#[test]
fn modules_of_another_session_are_stale() {
    let (mut one, _) = benign((0, 0, 0, 0));
    let (mut other, seen) = benign((0, 0, 0, 0));
    let module = load(&mut one);
    load(&mut other);
    assert!(matches!(other.run(&module, &[]), Err(Error::StaleModule { .. })));
    assert_eq!(seen.kinds().last(), Some(&"DYN_LOAD"));
}

#[test]
fn a_refused_load_carries_what_the_loader_printed() {
    let (mut session, _) = session((0, 0, 0, 0), |device, kind, message| match kind {
        MessageType::DynLoad => {
            device.print(b"2 symbols are missing:\n  foo\n  bar\n", 0);
            let header = Header::reply(kind, fake::seq(message), 68, Status::Load);
            Reaction::reply(DynLoadReply { header, ..DynLoadReply::default() }.as_bytes())
        }
        _ => Reaction::Behave,
    });
    let refused = session.load(b"x", "bad.out").unwrap_err();
    assert_eq!(refused.to_string(), "the device cannot load module `bad.out`: 2 symbols are missing:\n  foo\n  bar");
    assert_eq!((refused.code(), refused.class().exit_code()), ("OB0304", 3));
}

#[test]
fn a_load_without_memory_names_the_pool_and_the_bytes() {
    let (mut session, _) = session((0, 0, 0, 0), |_, kind, message| match kind {
        MessageType::DynLoad => {
            let header = Header::reply(kind, fake::seq(message), 68, Status::NoMem);
            let reply = DynLoadReply {
                header,
                oom_requested: 500.into(),
                oom_free: 400.into(),
                oom_total: 1000.into(),
                ..DynLoadReply::default()
            };
            Reaction::reply(reply.as_bytes())
        }
        _ => Reaction::Behave,
    });
    let refused = session.load(b"x", "big.out").unwrap_err();
    assert_eq!(
        refused.to_string(),
        "out of memory in the device's MAIN pool: 500 bytes requested, 400 of 1000 bytes free"
    );
}

#[test]
fn files_that_are_empty_or_larger_than_staging_are_refused_before_anything_is_sent() {
    let (mut session, seen) = benign((0, 0, 0, 0));
    let before = seen.messages().len();
    assert!(matches!(session.load(b"", "empty.out"), Err(Error::FileSize { size: 0, max: 490_733_568, .. })));
    assert!(super::super::check_file_size("fits", 490_733_568).is_ok());
    assert!(super::super::check_file_size("does not", 490_733_569).is_err());
    assert!(matches!(session.load_file("/nowhere/lib0.out".as_ref()), Err(Error::ReadFile { .. })));
    assert_eq!(seen.messages().len(), before);
}

#[test]
fn raw_messages_of_any_length_are_answered_and_too_long_ones_never_sent() {
    let (mut session, seen) = benign((0, 0, 0, 0));
    let before = seen.messages().len();
    let refused = session.exchange_raw(&[0x77; 600]).unwrap_err();
    assert_eq!(refused.to_string(), "a message of 600 bytes cannot be sent: a message has at most 512");
    assert_eq!(seen.messages().len(), before);
    let reply = Header::parse(&session.exchange_raw(&[0x77, 0, 0]).unwrap()).unwrap();
    assert_eq!((reply.kind.get(), reply.seq.get(), reply.status()), (0x1077, 0, Some(Status::Invalid)));
    assert!(session.status().is_ok());
}

#[test]
fn close_waits_for_the_acknowledgement_and_says_so_when_it_does_not_come() {
    let (session, _) = benign((0, 0, 0, 0));
    session.close().unwrap();
    // A device whose thread has ended without a word is lost, not closed.
    let (mut gone, _) = session_that_leaves();
    assert!(gone.ping().is_err());
    gone.close().unwrap();
}

fn session_that_leaves() -> (Session, crate::fake::Seen) {
    let mut pings = 0;
    session((0, 0, 0, 0), move |_, kind, _| {
        pings += u32::from(kind == MessageType::Ping);
        if pings == 2 { Reaction::Leave } else { Reaction::Behave }
    })
}

#[test]
fn status_and_ping_report_what_the_device_says() {
    let (mut session, _) = benign((0, 0, 0, 0));
    let module = load(&mut session);
    session.run(&module, &[]).unwrap();
    let status = session.status().unwrap();
    assert_eq!((status.version, status.jobs_completed, status.jobs_failed), (Version::CURRENT, 1, 0));
    assert_eq!(session.ping().unwrap().version, Version::CURRENT);
}
