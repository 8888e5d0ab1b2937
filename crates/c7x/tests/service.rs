//! The service, message by message, on an in-process device that runs real modules.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use outboard_c7x::Limits;
use outboard_wire::{
    DynLoad, DynUnload, Infer, InferFlags, InferLarge, MapWindow, MessageType, ModelLoad, ModelLoadReply, ModelUnload,
    PingReply, SetPrintfBuf, SharedMap, Status, StatusReply, TensorDesc, Version,
};
use support::{Device, INPUT, RESULT, build, build_text};
use zerocopy::IntoBytes;

/// Gives its inputs back as a tuple (or the only one as it is).
const ECHO: &str = "int cg_main_dsp(TVMFFIAny *in, int n, TVMFFIAny *c, TVMFFIAny *out) {
  (void)c;
  if (n == 1) { *out = in[0]; return 0; }
  return TVMDSPBuiltinMakeTuplePacked(in, n, out);
}";

fn f32s(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|chunk| f32::from_le_bytes(chunk.try_into().unwrap())).collect()
}

fn desc(address: u64, size: u64) -> TensorDesc {
    TensorDesc::new(address, size, 2, 32, &[i64::try_from(size / 4).unwrap()]).unwrap()
}

#[test]
fn ping_and_status_tell_version_and_jobs() {
    let mut device = Device::new();
    let reply = PingReply::parse(&device.ask(&[1, 0, 0, 0, 42, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0])).unwrap();
    assert_eq!((reply.header.seq.get(), reply.version(), reply.uptime_ms.get()), (42, Version::CURRENT, 5000));
    let request = outboard_wire::Header::request(MessageType::GetStatus, 3, 16);
    let reply = StatusReply::parse(&device.ask(request.as_bytes())).unwrap();
    assert_eq!((reply.jobs_completed.get(), reply.jobs_failed.get()), (0, 0));
}

#[test]
fn a_short_or_unknown_message_is_answered_with_err_invalid() {
    let mut device = Device::new();
    assert_eq!(device.ask(&[1, 2, 3]).len(), 16);
    assert_eq!(device.status_of(&[]), -2);
    for kind in MessageType::ALL {
        let mut message = outboard_wire::Header::request(kind, 5, 16).as_bytes().to_vec();
        message.resize(kind.min_size() - 1, 0);
        let reply = device.ask(&message);
        let header = outboard_wire::Header::parse(&reply).unwrap();
        assert_eq!(header.status(), Some(Status::Invalid), "{}", kind.name());
        if message.len() >= 16 {
            assert_eq!((header.kind.get(), header.seq.get()), (kind.reply_code(), 5), "{}", kind.name());
        }
    }
    let mut unknown = outboard_wire::Header::request(MessageType::Ping, 5, 16);
    unknown.kind = 0x77.into();
    let reply = device.ask(unknown.as_bytes());
    assert_eq!(outboard_wire::Header::parse(&reply).unwrap().kind.get(), 0x1077);
}

#[test]
fn the_printf_buffer_must_lie_in_the_carveout_and_have_room() {
    let mut device = Device::new();
    let mut bind = |address, size| device.status_of(SetPrintfBuf::new(1, address, size).as_bytes());
    assert_eq!(bind(0xDE00_0000, 16), Status::Size.code());
    assert_eq!(bind(0xBFFF_FFFF, 0x1_0000), Status::Addr.code());
    assert_eq!(bind(0xDFFF_0001, 0x1_0000), Status::Addr.code());
    assert_eq!(bind(0xDE00_0000, 0x1_0000), Status::Success.code());
    assert_eq!(device.read(0xDE00_0000, 12), [0x54, 0x4e, 0x52, 0x50, 0, 0, 0, 0, 0xf0, 0xff, 0, 0]);
}

#[test]
fn the_handwritten_module_computes_what_its_header_says() {
    let mut device = Device::new();
    let before = device.free();
    let reply = device.load(&build("handwritten/d4.c"));
    assert_eq!(reply.header.status(), Some(Status::Success));
    assert_eq!((reply.module_handle.get(), reply.io_num_inputs.get(), reply.io_num_outputs.get()), (1, 1, 2));
    assert_eq!((reply.io_input_bytes.get(), reply.io_output_bytes.get()), (192, 320));
    let x: Vec<f32> = vec![0.5, -1.0, 2.0, 0.25, -0.75, 1.5, 0.0, -2.0];
    device.write(INPUT.base + 128, &f32s(&x));
    let input = TensorDesc::new(INPUT.base + 128, 32, 2, 32, &[1, 2, 4]).unwrap();
    let weight = |index: u8, modulus: u8| (f32::from(index % modulus) - f32::from(modulus / 2)) / 4.0;
    let dot = |x: &[f32], column: &dyn Fn(u8) -> f32| -> f32 { x.iter().zip(0..).map(|(x, i)| x * column(i)).sum() };
    let hidden: Vec<f32> =
        (0..6u8).map(|j| (dot(&x, &|i| weight(3 * i + 5 * j, 7)) + (f32::from(j) - 2.0) / 8.0).max(0.0)).collect();
    let logits: Vec<f32> =
        (0..4u8).map(|j| dot(&hidden, &|i| weight(5 * i + 2 * j, 9)) + (2.0 * f32::from(j) - 3.0) / 16.0).collect();
    let total: f32 = logits.iter().map(|y| y.exp()).sum();
    let mut first = Vec::new();
    for round in 0..10 {
        let (fixed, outputs) = device.infer(1, InferFlags::default(), &[input]);
        assert_eq!(fixed.header.status(), Some(Status::Success), "{}", device.printed());
        assert_eq!(outputs.len(), 2);
        assert_eq!(outputs[0].data_addr.get(), RESULT.base);
        assert_eq!(outputs[1].data_addr.get(), RESULT.base + 64, "each output starts at a multiple of 64");
        assert_eq!((outputs[1].dtype_bits.get(), outputs[1].reserved.get()), (64, 1));
        let probabilities = floats(&device.read(RESULT.base, 16));
        for (found, logit) in probabilities.iter().zip(&logits) {
            assert!((found - logit.exp() / total).abs() < 1e-6, "{probabilities:?}");
        }
        let bytes = device.read(RESULT.base, 72);
        if round == 0 {
            first = bytes;
        } else {
            assert_eq!(bytes, first, "inference {round} differs");
        }
    }
    assert_eq!(device.status_of(DynUnload::new(1, 1).as_bytes()), 0);
    assert_eq!(device.free(), before, "an unload gives everything back");
}

#[test]
fn wrong_inputs_reach_the_module_and_its_refusal_reaches_the_host() {
    let mut device = Device::new();
    let handle = device.load(&build("handwritten/d4.c")).module_handle.get();
    let (fixed, outputs) = device.infer(handle, InferFlags::default(), &[]);
    assert_eq!((fixed.header.status(), fixed.return_value.get()), (Some(Status::Call), -1));
    assert!(outputs.is_empty());
    let status =
        StatusReply::parse(&device.ask(outboard_wire::Header::request(MessageType::GetStatus, 3, 16).as_bytes()));
    assert_eq!(status.unwrap().jobs_failed.get(), 1);
}

#[test]
fn everything_a_module_prints_arrives_in_call_order() {
    let mut device = Device::new();
    let handle = device.load(&build("faults/prints.c")).module_handle.get();
    let (fixed, _) = device.infer(handle, InferFlags::default(), &[desc(INPUT.base, 16)]);
    assert_eq!(fixed.header.status(), Some(Status::Success));
    let expected =
        "1 printf 42\n2 puts\n3 fputs\n4 fprintf 2.50\n5 vprintf abc\n6 putchar\n7 fputs of a literal\n8 fputc\n";
    assert_eq!(device.printed(), expected);
    assert_eq!(fixed.printf_size.get() as usize, expected.len());
}

#[test]
fn printing_more_than_the_buffer_holds_never_blocks_and_is_counted() {
    let mut device = Device::new();
    let module = "int cg_main_dsp(TVMFFIAny *in, int n, TVMFFIAny *c, TVMFFIAny *out) { (void)n; (void)c;
      for (int i = 0; i < 20; i++) printf(\"%8192d\", i);
      printf(\"%1000000000d\", 1);
      *out = in[0]; return 0; }";
    let handle = device.load(&build_text(module)).module_handle.get();
    let (fixed, _) = device.infer(handle, InferFlags::default(), &[desc(INPUT.base, 16)]);
    assert_eq!((fixed.header.status(), fixed.printf_size.get()), (Some(Status::Success), 65_520));
    let dropped = device.service.runtime().borrow().printf().dropped();
    assert_eq!(dropped, 20 * 8192 + 1_000_000_000 - 65_520);
}

#[test]
fn every_load_refusal_names_its_reason_and_changes_nothing() {
    let mut device = Device::new();
    let before = device.free();
    for size in [0, u32::try_from(SharedMap::STAGING.size).unwrap() + 1] {
        assert_eq!(device.status_of(DynLoad::new(1, size).as_bytes()), Status::Size.code());
    }
    let missing = device.load(&build("faults/missing_symbol.c"));
    assert_eq!(missing.header.status(), Some(Status::Load));
    assert!(device.printed().starts_with("[DLOAD] ERROR: "), "{}", device.printed());
    let file = build("handwritten/d4.c");
    let truncated = device.load(&file[..file.len() / 2]);
    assert_eq!(truncated.header.status(), Some(Status::Load));
    assert_eq!(device.free(), before);
    let good = device.load(&file);
    assert_eq!((good.header.status(), good.module_handle.get()), (Some(Status::Success), 1), "no handle was used up");
}

#[test]
fn a_full_device_refuses_the_next_module_by_name() {
    let mut device = Device::with_limits(Limits { modules: 1, ..Limits::default() });
    let file = build_text(ECHO);
    assert_eq!(device.load(&file).header.status(), Some(Status::Success));
    assert_eq!(device.load(&file).header.status(), Some(Status::Load));
    assert!(device.printed().contains("1 modules are loaded"), "{}", device.printed());
}

#[test]
fn out_of_memory_is_reported_with_the_pools_figures() {
    let mut device = Device::new();
    let module = "static char big[360 << 20];
      int cg_main_dsp(TVMFFIAny *in, int n, TVMFFIAny *c, TVMFFIAny *out) { (void)n; (void)c; big[5] = 1; *out = in[0]; return big[6]; }";
    let reply = device.load(&build_text(module));
    assert_eq!(reply.header.status(), Some(Status::NoMem));
    assert_eq!(u64::from(reply.oom_total.get()), SharedMap::MAIN.size);
    assert!(reply.oom_requested.get() > 360 << 20);
    let module = "int cg_main_dsp(TVMFFIAny *in, int n, TVMFFIAny *c, TVMFFIAny *out) { (void)n; (void)c;
      if (!TVMBackendAllocWorkspace(1, 0, 1ull << 30, 2, 32)) return -1; *out = in[0]; return 0; }";
    let handle = device.load(&build_text(module)).module_handle.get();
    let (fixed, _) = device.infer(handle, InferFlags::default(), &[desc(INPUT.base, 16)]);
    assert_eq!((fixed.header.status(), fixed.return_value.get()), (Some(Status::NoMem), -1));
    assert_eq!(fixed.oom_requested.get(), 1 << 30);
    assert!(device.printed().contains("OOM in DDR pool: requested 1073741824 bytes"), "{}", device.printed());
}

#[test]
fn every_check_of_an_inference_has_its_status_in_the_documented_order() {
    let mut device = Device::new();
    let handle = device.load(&build_text(ECHO)).module_handle.get();
    let no_entry = device.load(&build_text("int other(void) { return 1; }")).module_handle.get();
    let ok = desc(INPUT.base, 16);
    let outside = MapWindow { base: SharedMap::MAIN.base, size: 64 };
    let wild = MapWindow { base: u64::MAX - 1, size: 64 };
    let cases = [
        (0, 0, (INPUT, RESULT), vec![ok], Status::Handle, "handle 0"),
        (0, 0, (outside, RESULT), vec![ok; 5], Status::Handle, "handle 0 comes before windows"),
        (handle, 0, (outside, RESULT), vec![ok], Status::Addr, "input window"),
        (handle, 0, (INPUT, wild), vec![ok], Status::Addr, "result window"),
        (handle + 7, 0, (outside, RESULT), vec![ok], Status::Addr, "windows come before the handle"),
        (handle + 7, 0, (INPUT, RESULT), vec![ok], Status::Handle, "unknown handle"),
        (no_entry, 3, (INPUT, RESULT), vec![ok], Status::Symbol, "no entry"),
        (handle, 3, (INPUT, RESULT), vec![ok], Status::Handle, "unknown model"),
        (handle, 0, (INPUT, RESULT), vec![desc(INPUT.base + INPUT.size - 15, 16)], Status::Tensor, "one byte too far"),
        (handle, 0, (INPUT, RESULT), vec![desc(INPUT.base - 1, 16)], Status::Tensor, "one byte before"),
        (handle, 0, (INPUT, RESULT), vec![desc(u64::MAX, 16)], Status::Tensor, "wraps"),
        (handle, 0, (INPUT, MapWindow { base: RESULT.base, size: 15 }), vec![ok], Status::Size, "one byte too small"),
        (handle, 0, (INPUT, MapWindow { base: RESULT.base, size: 16 }), vec![ok], Status::Success, "fits exactly"),
        (handle, 0, (INPUT, RESULT), vec![desc(INPUT.base + INPUT.size - 16, 16)], Status::Success, "last place"),
        (handle, 0, (INPUT, RESULT), vec![desc(SharedMap::KV.base, 16)], Status::Success, "in the KV region"),
        (handle, 0, (INPUT, RESULT), vec![ok; 5], Status::Success, "five inline"),
    ];
    for (handle, model, windows, inputs, expected, why) in cases {
        let message = Infer::new(1, handle, model, InferFlags::default(), windows, &inputs).unwrap();
        assert_eq!(device.status_of(message.bytes()), expected.code(), "INFER: {why}");
        device.write(INPUT.base + 0x8000, inputs.as_bytes());
        let count = u32::try_from(inputs.len()).unwrap();
        let at = (INPUT.base + 0x8000, count);
        let large = InferLarge::new(1, handle, model, InferFlags::default(), windows, at);
        assert_eq!(device.status_of(large.as_bytes()), expected.code(), "INFER_LARGE: {why}");
    }
    let mut message = Infer::new(1, handle, 0, InferFlags::default(), (INPUT, RESULT), &[ok]).unwrap();
    message.fixed.num_inputs = 6.into();
    assert_eq!(device.status_of(message.bytes()), Status::Tensor.code(), "six inline");
    message.fixed.num_inputs = 2.into();
    assert_eq!(device.status_of(message.bytes()), Status::Tensor.code(), "two claimed, one sent");
    for (count, at, expected) in [
        (0, INPUT.base, Status::Tensor),
        (129, INPUT.base, Status::Tensor),
        (1, INPUT.base - 80, Status::Addr),
        (1, INPUT.base + INPUT.size - 79, Status::Addr),
        (1, u64::MAX - 8, Status::Addr),
    ] {
        let large = InferLarge::new(1, handle, 0, InferFlags::default(), (INPUT, RESULT), (at, count));
        assert_eq!(device.status_of(large.as_bytes()), expected.code(), "{count} descriptors at {at:#x}");
    }
    assert_eq!(device.status_of(DynUnload::new(1, 0).as_bytes()), Status::Handle.code());
    assert_eq!(device.status_of(DynUnload::new(1, 99).as_bytes()), Status::Handle.code());
}

#[test]
fn an_output_overflow_names_the_room_all_outputs_need() {
    let mut device = Device::new();
    let handle = device.load(&build_text(ECHO)).module_handle.get();
    let inputs = [desc(INPUT.base, 100), desc(INPUT.base + 128, 100)];
    let small = MapWindow { base: RESULT.base, size: 99 };
    let message = Infer::new(1, handle, 0, InferFlags::default(), (INPUT, small), &inputs).unwrap();
    let reply = outboard_wire::InferReply::parse_fixed(&device.ask(message.bytes())).unwrap();
    assert_eq!((reply.header.status(), reply.result_required.get()), (Some(Status::Size), 128 + 100));
}

#[test]
fn many_outputs_come_with_their_descriptors_in_the_output_buffer() {
    let mut device = Device::new();
    let handle = device.load(&build_text(ECHO)).module_handle.get();
    for count in [1u32, 5, 6, 60, 128] {
        let data: Vec<u8> = (0..count * 16).map(|byte| u8::try_from(byte % 251).unwrap()).collect();
        device.write(INPUT.base + 0x4000, &data);
        let inputs: Vec<_> = (0..count).map(|i| desc(INPUT.base + 0x4000 + u64::from(i) * 16, 16)).collect();
        device.write(INPUT.base, inputs.as_bytes());
        let large = InferLarge::new(1, handle, 0, InferFlags::default(), (INPUT, RESULT), (INPUT.base, count));
        let reply = device.ask(large.as_bytes());
        let fixed = outboard_wire::InferReply::parse_fixed(&reply).unwrap();
        assert_eq!((fixed.header.status(), fixed.num_outputs.get()), (Some(Status::Success), count));
        assert_eq!(fixed.descs_addr.get() != 0, count > 5, "{count} outputs");
        if count > 5 {
            assert_eq!(fixed.descs_addr.get(), RESULT.base + u64::from(count) * 64);
            assert_eq!(fixed.descs_size.get(), count * 80);
        }
        for index in 0..count {
            let found = device.read(RESULT.base + u64::from(index) * 64, 16);
            assert_eq!(found, data[index as usize * 16..][..16], "output {index} of {count}");
        }
    }
}

#[test]
fn repeats_report_the_last_run_inline_and_the_sum_when_large() {
    let mut device = Device::new();
    let handle = device.load(&build_text(ECHO)).module_handle.get();
    let before = device.free();
    let (fixed, _) = device.infer(handle, InferFlags::repeat(3), &[desc(INPUT.base, 16)]);
    assert_eq!(fixed.header.status(), Some(Status::Success));
    assert_eq!(device.printed().matches("[Iteration ").count(), 3);
    assert!(device.printed().contains("[Iteration 3/3] "), "{}", device.printed());
    let after_one = device.free();
    for _ in 0..100 {
        device.infer(handle, InferFlags::repeat(50), &[desc(INPUT.base, 16)]);
    }
    assert_eq!(device.free(), after_one, "an inference leaves no more behind than the one before");
    assert!(after_one <= before);
}

#[test]
fn two_modules_keep_their_own_constants_and_memory() {
    let mut device = Device::new();
    let d4 = build("handwritten/d4.c");
    let a = device.load(&d4).module_handle.get();
    let b = device.load(&build_text(ECHO)).module_handle.get();
    device.write(INPUT.base, &f32s(&[1.0; 8]));
    let input = TensorDesc::new(INPUT.base, 32, 2, 32, &[1, 2, 4]).unwrap();
    device.infer(a, InferFlags::default(), &[input]);
    let outputs = |device: &Device| (device.read(RESULT.base, 16), device.read(RESULT.base + 64, 8));
    let alone = outputs(&device);
    device.infer(b, InferFlags::default(), &[input]);
    assert_eq!(device.status_of(DynUnload::new(1, b).as_bytes()), 0);
    let c = device.load(&d4).module_handle.get();
    device.infer(a, InferFlags::default(), &[input]);
    assert_eq!(outputs(&device), alone);
    device.infer(c, InferFlags::default(), &[input]);
    assert_eq!(outputs(&device), alone);
    assert_eq!(c, 3, "handles are never used again");
}

#[test]
fn a_thousand_load_infer_unload_cycles_leave_the_pools_as_they_were() {
    let mut device = Device::new();
    let before = device.free();
    let file = build("handwritten/d4.c");
    let input = TensorDesc::new(INPUT.base, 32, 2, 32, &[1, 2, 4]).unwrap();
    for round in 1..=1000 {
        let handle = device.load(&file).module_handle.get();
        assert_eq!(handle, round);
        let (fixed, _) = device.infer(handle, InferFlags::default(), &[input]);
        assert_eq!(fixed.header.status(), Some(Status::Success));
        assert_eq!(device.status_of(DynUnload::new(1, handle).as_bytes()), 0);
    }
    assert_eq!(device.free(), before);
}

#[test]
fn weights_can_be_loaded_apart_and_are_named_by_id() {
    let mut device = Device::new();
    let before = device.free();
    let module = "int cg_main_dsp(TVMFFIAny *in, int n, TVMFFIAny *c, TVMFFIAny *out) { (void)in; (void)n;
      if (!c) return 5; *out = c[0]; return 0; }";
    let handle = device.load(&build_text(module)).module_handle.get();
    let (fixed, _) = device.infer(handle, InferFlags::default(), &[]);
    assert_eq!(fixed.return_value.get(), 5, "no weights, no constants");
    let mut weights = 1u64.to_le_bytes().to_vec();
    weights.extend(70i32.to_le_bytes());
    weights.extend(0xDD5E_40F0_96B4_A13Fu64.to_le_bytes());
    weights.extend([0; 8]);
    weights.extend([1i32.to_le_bytes(), 0i32.to_le_bytes(), 1i32.to_le_bytes(), [2, 32, 1, 0]].concat());
    weights.extend([2i64.to_le_bytes(), 8i64.to_le_bytes()].concat());
    weights.extend(f32s(&[1.5, -2.5]));
    device.write(SharedMap::STAGING.base, &weights);
    let size = u32::try_from(weights.len()).unwrap();
    let reply = ModelLoadReply::parse(&device.ask(ModelLoad::new(1, size).as_bytes())).unwrap();
    assert_eq!((reply.header.status_code.get(), reply.model_id.get(), reply.num_constants.get()), (0, 1, 1));
    device.write(SharedMap::STAGING.base, &[0xFF; 64]);
    let message = Infer::new(1, handle, 1, InferFlags::default(), (INPUT, RESULT), &[]).unwrap();
    assert_eq!(device.status_of(message.bytes()), 0);
    assert_eq!(floats(&device.read(RESULT.base, 8)), [1.5, -2.5], "staging was overwritten, the weights were not");
    assert_eq!(device.status_of(ModelLoad::new(1, size).as_bytes()), Status::Weights.code());
    assert_eq!(device.status_of(ModelLoad::new(1, 0).as_bytes()), Status::Size.code());
    assert_eq!(device.status_of(ModelUnload::new(1, 1).as_bytes()), 0);
    assert_eq!(device.status_of(ModelUnload::new(1, 1).as_bytes()), Status::Handle.code());
    assert_eq!(device.status_of(DynUnload::new(1, handle).as_bytes()), 0);
    assert_eq!(device.free(), before);
}

#[test]
fn kv_outputs_stay_on_the_device_and_only_the_first_is_returned() {
    let mut device = Device::new();
    let handle = device.load(&build_text(ECHO)).module_handle.get();
    device.write(INPUT.base + 0x1000, &f32s(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]));
    let inputs: Vec<_> = (0..3).map(|i| desc(INPUT.base + 0x1000 + i * 8, 8)).collect();
    device.write(INPUT.base, inputs.as_bytes());
    let flags = InferFlags::default().kv_resident();
    let large = InferLarge::new(1, handle, 0, flags, (INPUT, RESULT), (INPUT.base, 3));
    let fixed = outboard_wire::InferReply::parse_fixed(&device.ask(large.as_bytes())).unwrap();
    assert_eq!((fixed.header.status(), fixed.num_outputs.get()), (Some(Status::Success), 1));
    assert_eq!(floats(&device.read(RESULT.base, 8)), [1.0, 2.0]);
    assert_eq!(floats(&device.read(SharedMap::KV.base, 8)), [3.0, 4.0]);
    assert_eq!(floats(&device.read(SharedMap::KV.base + 196_608, 8)), [5.0, 6.0]);
}

#[test]
fn the_service_boots_and_ends_in_the_documented_order() {
    let mut device = Device::new();
    device.load(&build_text(ECHO));
    let before = device.service.platform().trace.len();
    device.service.run();
    let steps = [
        "RingsReady",
        "ShutdownCallback",
        "Endpoint",
        "Announce",
        "Loader",
        "Models",
        "Printf",
        "Loop",
        "LoopExit",
        "Acknowledge",
        "[DLOAD] Unloaded module handle=1",
        "EndpointDestroyed",
        "Drivers",
        "InterruptsOff",
        "Idle",
    ];
    let trace = &device.service.platform().trace[before..];
    let taken: Vec<&str> = trace.iter().map(String::as_str).filter(|line| steps.contains(line)).collect();
    assert_eq!(taken, steps);
}

#[test]
fn a_module_that_needs_a_cpu_feature_the_device_lacks_is_refused_by_name() {
    let mut device = Device::new();
    let machine = outboard_link::Machine::host().unwrap();
    let note = format!(
        "__asm__(\".pushsection .note.outboard, \\\"a\\\", %note\\n.balign 4\\n.long 9, 2f-1f, 1\\n.asciz \\\"Outboard\\\"\\n\
         .balign 4\\n1: .ascii \\\"arch={}\\\\nfeatures=sse2,quantum\\\\n\\\"\\n2: .balign 4\\n.popsection\");",
        machine.name()
    );
    let reply = device.load(&build_text(&format!("{note}\n{ECHO}")));
    assert_eq!(reply.header.status(), Some(Status::Load));
    assert!(device.printed().contains("quantum"), "{}", device.printed());
}

#[test]
fn a_c7x_module_loads_and_verifies_but_running_it_names_the_instruction_set() {
    let mut device = Device::new();
    let before = device.free();
    let reply = device.load(include_bytes!("data/staged.out"));
    assert_eq!(reply.header.status(), Some(Status::Success), "{}", device.printed());
    let handle = reply.module_handle.get();
    let (fixed, _) = device.infer(handle, InferFlags::default(), &[desc(INPUT.base, 16)]);
    assert_eq!(fixed.header.status(), Some(Status::Call));
    assert!(device.printed().contains("is c7x code"), "{}", device.printed());
    let other = device.load(&build_text(ECHO)).module_handle.get();
    assert_eq!(other, handle + 1, "the module's data was copied out of staging");
    for handle in [handle, other] {
        assert_eq!(device.status_of(DynUnload::new(1, handle).as_bytes()), 0);
    }
    assert_eq!(device.free(), before);
}

#[test]
fn a_module_whose_data_fits_only_in_staging_keeps_staging_until_it_is_unloaded() {
    let mut device = Device::new();
    let file = include_bytes!("data/staged.out");
    // Leaves a little room in MAIN: enough for the module's code, too little for its 32 KiB of constants.
    let hog = "void *tvm_dsp_alloc(size_t size, size_t align, int pool);
      int cg_main_dsp(TVMFFIAny *in, int n, TVMFFIAny *c, TVMFFIAny *out) { (void)n; (void)c;
      size_t size = 352u << 20;
      while (!tvm_dsp_alloc(size, 128, 1)) size -= 8192;
      *out = in[0]; return 0; }";
    let filler = device.load(&build_text(hog)).module_handle.get();
    device.infer(filler, InferFlags::default(), &[desc(INPUT.base, 16)]);
    let reply = device.load(file);
    assert_eq!(reply.header.status(), Some(Status::Success), "{}", device.printed());
    let handle = reply.module_handle.get();
    assert_eq!(device.load(file).header.status(), Some(Status::Busy));
    let expected = format!("module {handle} still uses its data in staging");
    assert!(device.printed().contains(&expected), "{}", device.printed());
    assert_eq!(device.status_of(ModelLoad::new(1, 64).as_bytes()), Status::Busy.code());
    for handle in [handle, filler] {
        assert_eq!(device.status_of(DynUnload::new(1, handle).as_bytes()), 0);
    }
    assert_eq!(device.load(file).header.status(), Some(Status::Success));
}

/// A module in the shape of a TIDL build: driver memory that its cleanup gives back, a register file in .bss, weights.
const TIDL: &str = "void *appMemAlloc(uint32_t heap, uint32_t size, uint32_t align);
  int32_t appMemFree(uint32_t heap, void *memory, uint32_t size);
  static void *driver; static TVMFFIAny registers[2];
  typedef struct __attribute__((packed)) { uint64_t count; int32_t type; int64_t value; } Weights;
  const Weights _binary_weights_bin_start = {1, TVM_FFI_INT, 42};
  const uint32_t _binary_weights_bin_size = sizeof(Weights);
  void tidl_bridge_cleanup(void) { if (driver) appMemFree(0, driver, 4096); driver = NULL; }
  int cg_main_dsp(TVMFFIAny *in, int n, TVMFFIAny *c, TVMFFIAny *out) {
    if (n != 1 || !c || c[0].u.v_int64 != 42) return 9;
    if (!driver && !(driver = appMemAlloc(0, 4096, 128))) return OUTBOARD_NO_MEMORY;
    TVMDSPRegFileInit(registers, 2);
    DLDevice cpu = {1, 0}; DLDataType f = {DL_FLOAT, 32, 1}; int64_t shape[1] = {4};
    TVMDSPStorage *s = TVMDSPStorageAlloc(16, cpu, f);
    TVMFFIAny held = {TVM_FFI_TENSOR, 0, {0}};
    held.u.v_obj = (TVMFFIObject *)TVMDSPStorageAllocNDArray(s, 0, shape, 1, f);
    TVMDSPRegSetAny(1, &held);
    *out = in[0]; return 0; }";

/// Loads, runs and unloads the TIDL module `times` times; the device must have been told its unload order.
fn use_tidl(device: &mut Device, times: u32) {
    let file = build_text(TIDL);
    for _ in 0..times {
        let handle = device.load(&file).module_handle.get();
        let (fixed, _) = device.infer(handle, InferFlags::default(), &[desc(INPUT.base, 16)]);
        assert_eq!(fixed.header.status(), Some(Status::Success), "{}", device.printed());
        assert_eq!(device.status_of(DynUnload::new(1, handle).as_bytes()), 0);
    }
}

#[test]
fn an_unload_takes_its_steps_in_the_documented_order_and_leaves_nothing() {
    let mut device = Device::new();
    let before = device.free();
    use_tidl(&mut device, 6);
    assert_eq!(device.free(), before);
    assert!(!device.printed().contains("ERROR"), "{}", device.printed());
    let trace = &device.service.platform().trace;
    let steps =
        ["tidl_bridge_cleanup called", "registers cleaned", "model slot freed", "constants released", "image released"];
    let taken: Vec<&str> = trace.iter().filter_map(|line| line.strip_prefix("[COMPUTE] unload 6: ")).collect();
    assert_eq!(taken, steps);
}

#[test]
fn every_step_of_an_unload_that_is_left_out_or_moved_is_caught() {
    use outboard_c7x::UnloadStep::{Constants, Image, ModelSlot, Module, Registers};
    let limits = Limits { models: 4, ..Limits::default() };
    let run = |order: &[outboard_c7x::UnloadStep], times| {
        let mut device = Device::with_limits(limits);
        let before = device.free();
        device.service.unload_in_order(order);
        use_tidl(&mut device, times);
        let last = device.load(&build_text(TIDL));
        let printed = device.printed();
        let leaked = before != device.free();
        let trace = device.service.platform().trace.join("\n");
        device.service.unload_in_order(&outboard_c7x::UnloadStep::ORDER);
        (last.header.status(), printed, leaked, trace)
    };
    let (_, _, _, trace) = run(&[Registers, ModelSlot, Constants, Image], 1);
    assert!(trace.contains("bytes of driver memory (appMemAlloc) were not given back"), "DMA leak: {trace}");
    let (_, _, _, trace) = run(&[Module, ModelSlot, Constants, Image, Registers], 1);
    assert!(trace.contains("the register file lies in memory that was freed already"), "use after free: {trace}");
    let (_, printed, _, _) = run(&[Module, Registers, Constants, Image], 4);
    assert!(printed.contains("every model slot is taken"), "slot exhaustion at the fifth load: {printed}");

    let mut device = Device::with_limits(limits);
    let before = device.free();
    device.service.unload_in_order(&[Module, Registers, ModelSlot, Image]);
    use_tidl(&mut device, 3);
    assert!(device.free().0 < before.0, "pool leak");
}

#[test]
fn the_statuses_seen_over_the_wire_are_the_documented_ones() {
    let mut seen = std::collections::BTreeSet::new();
    let mut device = Device::with_limits(Limits { modules: 2, ..Limits::default() });
    let echo = device.load(&build_text(ECHO)).module_handle.get();
    let mut ask = |device: &mut Device, message: &[u8]| seen.insert(device.status_of(message));
    let infer = |handle, windows, inputs: &[TensorDesc]| {
        Infer::new(1, handle, 0, InferFlags::default(), windows, inputs).unwrap().bytes().to_vec()
    };
    let ok = desc(INPUT.base, 16);
    ask(&mut device, &infer(echo, (INPUT, RESULT), &[ok])); // SUCCESS
    ask(&mut device, &[1, 2, 3]); // ERR_INVALID
    ask(&mut device, SetPrintfBuf::new(1, 0, 0x1_0000).as_bytes()); // ERR_ADDR
    ask(&mut device, DynLoad::new(1, 0).as_bytes()); // ERR_SIZE
    ask(&mut device, &infer(99, (INPUT, RESULT), &[ok])); // ERR_HANDLE
    ask(&mut device, &infer(echo, (INPUT, RESULT), &[desc(0x1000, 16)])); // ERR_TENSOR
    device.write(SharedMap::STAGING.base, &[0xFF; 64]);
    ask(&mut device, ModelLoad::new(1, 64).as_bytes()); // ERR_WEIGHTS
    ask(&mut device, DynLoad::new(1, 64).as_bytes()); // ERR_LOAD
    let other = device.load(&build_text("int other(void) { return 1; }")).module_handle.get();
    ask(&mut device, &infer(other, (INPUT, RESULT), &[ok])); // ERR_SYMBOL
    device.ask(DynUnload::new(1, other).as_bytes());
    let hog = "int cg_main_dsp(TVMFFIAny *in, int n, TVMFFIAny *c, TVMFFIAny *out) { (void)in; (void)c; (void)out;
      return n == 2 ? 5 : TVMBackendAllocWorkspace(1, 0, 1ull << 30, 2, 32) ? 0 : -3; }";
    let hog = device.load(&build_text(hog)).module_handle.get();
    ask(&mut device, &infer(hog, (INPUT, RESULT), &[ok])); // ERR_NOMEM
    ask(&mut device, &infer(hog, (INPUT, RESULT), &[ok, ok])); // ERR_CALL
    // ERR_BUSY has a test of its own; the firmware never sends ERR_GENERIC, ERR_TIMEOUT and ERR_OP.
    seen.insert(Status::Busy.code());
    let documented = Status::all().filter(|status| !matches!(status, Status::Generic | Status::Timeout | Status::Op));
    assert_eq!(seen, documented.map(Status::code).collect());
}
