//! The kernels of the export table, called by modules through the C interface; and modules in the generator's shapes.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "kernels/signatures.rs"]
mod signatures;
mod support;

use outboard_c7x::PoolId;
use outboard_c7x::sim::export_names;
use outboard_wire::{DynUnload, InferFlags, Status, TensorDesc};
use support::{Device, INPUT, RESULT, build, build_text};
use zerocopy::IntoBytes;

fn f32s(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|chunk| f32::from_le_bytes(chunk.try_into().unwrap())).collect()
}

fn longs(bytes: &[u8]) -> Vec<i64> {
    bytes.chunks_exact(8).map(|chunk| i64::from_le_bytes(chunk.try_into().unwrap())).collect()
}

fn unload(device: &mut Device, handle: u32) {
    assert_eq!(device.status_of(DynUnload::new(1, handle).as_bytes()), 0);
}

/// What modules of these tests start with: a tensor of the module's run.
const TENSOR: &str = "
  static TVMFFIAny tensor(uint8_t code, uint8_t bits, int64_t n, void **data) {
    DLDataType type = {code, bits, 1}; DLDevice cpu = {1, 0};
    TVMDSPStorage *storage = TVMDSPStorageAlloc((size_t)n * bits / 8, cpu, type);
    TVMDSPNDArray *array = TVMDSPStorageAllocNDArray(storage, 0, &n, 1, type);
    *data = array->data;
    return (TVMFFIAny){.type_index = TVM_FFI_TENSOR, .u.v_ptr = array};
  }
  static void *data(const TVMFFIAny *value) { return ((TVMDSPNDArray *)value->u.v_ptr)->data; }
";

/// Names of the original's table that the simulated device does not have.
const ABSENT: [&str; 1] = ["TIDL_VISION_FXNS"];

#[test]
fn every_name_of_the_original_firmware_is_in_the_devices_table_but_the_documented_one() {
    let sets: toml::Table = include_str!("../../../targets/export-sets.toml").parse().unwrap();
    let names = |set: &str| -> Vec<String> {
        let categories = sets[set]["names"].as_table().unwrap();
        categories
            .values()
            .flat_map(|names| names.as_array().unwrap())
            .map(|name| name.as_str().unwrap().to_owned())
            .collect()
    };
    let device = export_names();
    let original = names("firmware-v2");
    assert_eq!(original.len(), 124);
    let missing: Vec<_> = original.iter().filter(|name| !device.contains(&name.as_str())).collect();
    assert_eq!(missing, ABSENT);
    assert!(include_str!("../../../docs/reference/c7x-exports.md").contains(ABSENT[0]));
    let mut sim = names("sim");
    sim.sort_unstable();
    assert_eq!(device, sim, "the set named sim is what the device exports");
    assert!(device.windows(2).all(|pair| pair[0] < pair[1]), "no name is there twice");
}

/// Convolution, residual addition, attention and a search, one after the other.
const NETWORK: &str = "
  int32_t mmalib_conv2d_i8(const void *, const void *, const void *, const void *, const void *, void *, int32_t, int32_t,
    int32_t, int32_t, int32_t, int32_t, int32_t, int32_t, int32_t, int32_t, int32_t, int32_t);
  int32_t c7x_int8_residual_add_relu(const void *, const void *, const void *, void *, int32_t, int32_t);
  int32_t c7x_sdpa_decode(const void *, const void *, const void *, const void *, void *, int32_t, int32_t, int32_t, int32_t);
  int32_t c7x_topk(const void *, void *, void *, int32_t, int32_t, int32_t);
  static const int32_t bias[3] = {100, -50, 0};
  static const uint8_t scale[3] = {3, 1, 200}, shift[3] = {9, 6, 16};
  static const struct { float scale; int32_t zero; } params[3] = {{0.5f, 1}, {0.25f, -3}, {0.75f, 2}};
  int cg_main_dsp(TVMFFIAny *in, int n, TVMFFIAny *c, TVMFFIAny *out) {
    (void)c;
    if (n != 3) return -1;
    void *conv, *sum, *seen, *values, *places;
    TVMFFIAny results[5] = {tensor(DL_INT, 8, 3 * 4 * 5, &conv), tensor(DL_INT, 8, 60, &sum), tensor(DL_FLOAT, 32, 32, &seen),
      tensor(DL_FLOAT, 32, 12, &values), tensor(DL_INT, 64, 12, &places)};
    if (mmalib_conv2d_i8(data(&in[0]), data(&in[1]), bias, scale, shift, conv, 2, 4, 5, 3, 3, 3, 1, 1, 1, 1, 1, 1)) return 11;
    if (c7x_int8_residual_add_relu(conv, data(&in[0]), params, sum, 40, 1)) return 12;
    const float *q = data(&in[2]), *keys = q + 32, *cached = keys + 96, *mask = cached + 96;
    if (c7x_sdpa_decode(q, keys, cached, mask, seen, 4, 2, 8, 6)) return 13;
    if (c7x_topk(seen, values, places, 4, 8, 3)) return 14;
    return TVMDSPBuiltinMakeTuplePacked(results, 5, out);
  }";

#[test]
fn a_module_of_several_kernels_gives_the_references_answer_and_leaks_nothing() {
    let mut device = Device::new();
    let before = device.free();
    let image: Vec<i8> = (0..40).map(|i: i32| i8::try_from((i * 37 + 11) % 255 - 127).unwrap()).collect();
    let weights: Vec<i8> = (0..54).map(|i: i32| i8::try_from((i * 53 + 5) % 255 - 127).unwrap()).collect();
    let number = |i: u8| f32::from(i.wrapping_mul(91).wrapping_add(17)) / 128.0 - 1.0;
    let mut model: Vec<f32> = (0..224).map(number).collect();
    model.extend([0.0, 0.0, 0.5, 0.0, f32::NEG_INFINITY, f32::NEG_INFINITY]);
    let bytes = |values: &[i8]| values.iter().map(|value| value.cast_unsigned()).collect::<Vec<u8>>();
    device.write(INPUT.base, &bytes(&image));
    device.write(INPUT.base + 64, &bytes(&weights));
    device.write(INPUT.base + 128, &f32s(&model));
    let inputs = [
        TensorDesc::new(INPUT.base, 40, 0, 8, &[2, 4, 5]).unwrap(),
        TensorDesc::new(INPUT.base + 64, 54, 0, 8, &[3, 2, 3, 3]).unwrap(),
        TensorDesc::new(INPUT.base + 128, 920, 2, 32, &[230]).unwrap(),
    ];
    let handle = device.load(&build_text(&format!("{TENSOR}{NETWORK}"))).module_handle.get();
    for _ in 0..3 {
        let (fixed, outputs) = device.infer(handle, InferFlags::default(), &inputs);
        assert_eq!(
            (fixed.header.status(), fixed.return_value.get()),
            (Some(Status::Success), 0),
            "{}",
            device.printed()
        );
        let at = |index: usize| device.read(outputs[index].data_addr.get(), outputs[index].data_size.get());
        let conv: Vec<i8> = at(0).iter().map(|byte| byte.cast_signed()).collect();
        assert_eq!(conv, convolution(&image, &weights));
        let sum: Vec<i8> = at(1).iter().map(|byte| byte.cast_signed()).collect();
        let real = |q: i8, scale: f64, zero: f64| scale * (f64::from(q) - zero);
        for i in 0..40 {
            let y = (real(conv[i], 0.5, 1.0) + real(image[i], 0.25, -3.0)).max(0.0);
            let expected = ((y / 0.75).round_ties_even() + 2.0).clamp(-128.0, 127.0);
            assert_eq!(f64::from(sum[i]), expected, "element {i}");
        }
        let seen = floats(&at(2));
        for (found, expected) in seen.iter().zip(attention(&model)) {
            assert!((f64::from(*found) - expected).abs() < 1e-5, "{found} for {expected}");
        }
        let (values, places) = (floats(&at(3)), longs(&at(4)));
        for row in 0..4 {
            let mut order: Vec<usize> = (0..8).collect();
            order.sort_by(|a, b| seen[row * 8 + b].total_cmp(&seen[row * 8 + a]));
            let found: Vec<_> =
                places[row * 3..row * 3 + 3].iter().map(|place| usize::try_from(*place).unwrap()).collect();
            assert_eq!(found, order[..3]);
            assert!((0..3).all(|k| values[row * 3 + k] == seen[row * 8 + order[k]]));
        }
    }
    unload(&mut device, handle);
    assert_eq!(device.free(), before);
}

/// 3×3 over [2,4,5] with one row and column of zeros around, three channels.
fn convolution(image: &[i8], weights: &[i8]) -> Vec<i8> {
    let (bias, scale, shift) = ([100i64, -50, 0], [3i64, 1, 200], [9u32, 6, 16]);
    let mut all = Vec::new();
    for channel in 0..3 {
        for y in 0..4i64 {
            for x in 0..5i64 {
                let mut sum = bias[channel];
                for (tap, weight) in weights[channel * 18..channel * 18 + 18].iter().enumerate() {
                    let tap = i64::try_from(tap).unwrap();
                    let (plane, row, column) = (tap / 9, y + tap % 9 / 3 - 1, x + tap % 3 - 1);
                    if (0..4).contains(&row) && (0..5).contains(&column) {
                        let at = usize::try_from((plane * 4 + row) * 5 + column).unwrap();
                        sum += i64::from(image[at]) * i64::from(*weight);
                    }
                }
                // Exact: the sum and the power of two have few bits.
                let value = f64::from(i32::try_from(sum * scale[channel]).unwrap()) / f64::from(1u32 << shift[channel]);
                let value = value.round_ties_even().clamp(-128.0, 127.0);
                all.push((i8::MIN..=i8::MAX).find(|q| f64::from(*q) == value).unwrap());
            }
        }
    }
    all
}

/// Four heads of 8 numbers over two caches of 6 entries, in double precision.
fn attention(model: &[f32]) -> Vec<f64> {
    let (q, rest) = model.split_at(32);
    let (keys, rest) = rest.split_at(96);
    let (values, mask) = rest.split_at(96);
    let mut all = Vec::new();
    for head in 0..4 {
        let at = |entry: usize| ((head / 2) * 6 + entry) * 8;
        let score = |entry: usize| {
            let dot: f64 = (0..8).map(|d| f64::from(q[head * 8 + d]) * f64::from(keys[at(entry) + d])).sum();
            (dot / 8f64.sqrt() + f64::from(mask[entry])).exp()
        };
        let total: f64 = (0..6).map(score).sum();
        all.extend(
            (0..8).map(|d| (0..6).map(|entry| score(entry) * f64::from(values[at(entry) + d])).sum::<f64>() / total),
        );
    }
    all
}

#[test]
fn bad_arguments_give_minus_one_and_a_line_and_change_no_memory() {
    let module = "
      int32_t c7x_int8_relu(const void *, void *, int32_t, int32_t);
      int32_t c7x_int8_rescale(const void *, void *, int32_t, int32_t, float, int32_t, float);
      int32_t c7x_topk(const void *, void *, void *, int32_t, int32_t, int32_t);
      int32_t c7x_int8_max_pool_tidl(const void *, void *, int32_t, int32_t, int32_t, int32_t, int32_t, int32_t, int32_t, int32_t,
        int32_t, int32_t, int32_t, int32_t);
      int cg_main_dsp(TVMFFIAny *in, int n, TVMFFIAny *c, TVMFFIAny *out) {
        (void)n; (void)c; (void)out;
        void *y; TVMFFIAny result = tensor(DL_INT, 8, 64, &y);
        char *x = data(&in[0]), on_stack[16]; int bad = 0;
        memset(y, 7, 64);
        bad += c7x_int8_relu(x, y, -1, 0) == -1;
        bad += c7x_int8_relu(NULL, y, 16, 0) == -1;
        bad += c7x_int8_relu(x, (void *)0x10, 16, 0) == -1;
        bad += c7x_int8_relu(x, on_stack, 16, 0) == -1;
        bad += c7x_int8_relu(x, y, 0x7fffffff, 0) == -1;
        bad += c7x_int8_relu(x, y, 16, 128) == -1;
        bad += c7x_int8_rescale(x, y, 16, 0, 0.0f, 0, 1.0f) == -1;
        bad += c7x_int8_rescale(x, y, 16, 300, 1.0f, 0, 1.0f) == -1;
        bad += c7x_topk(x + 1, y, (char *)y + 32, 1, 2, 1) == -1;
        bad += c7x_topk(x, y, (char *)y + 8, 2, 2, 2) == -1;
        bad += c7x_topk(x, y, (char *)y + 32, 1, 2, 3) == -1;
        bad += c7x_int8_max_pool_tidl(x, y, 1, 1, 4, 4, 2, 2, 2, 2, 0, 2, 0, 0) == -1;
        for (int i = 0; i < 64; i++) if (((char *)y)[i] != 7) return 100;
        if (c7x_int8_relu(x, NULL, 0, 0) != 0) return 101; /* nothing to do */
        memcpy(y, x, 16);
        if (c7x_int8_relu(y, (char *)y + 4, 12, 0) != 0) return 102; /* in place, shifted */
        *out = result;
        return bad == 12 ? 0 : bad;
      }";
    let mut device = Device::new();
    let handle = device.load(&build_text(&format!("{TENSOR}{module}"))).module_handle.get();
    let input: Vec<u8> = (0..16).map(|i: u8| i.wrapping_mul(29)).collect();
    device.write(INPUT.base, &input);
    let tensor = TensorDesc::new(INPUT.base, 16, 0, 8, &[16]).unwrap();
    let (fixed, _) = device.infer(handle, InferFlags::default(), &[tensor]);
    assert_eq!(fixed.return_value.get(), 0, "{}", device.printed());
    let printed = device.printed();
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines.len(), 12, "{printed}");
    for (line, expected) in [
        (0, "ERROR: c7x_int8_relu: n is -1: it must not be negative"),
        (1, "ERROR: c7x_int8_relu: in is NULL"),
        (2, "ERROR: c7x_int8_relu: out (16 bytes at 0x10) does not lie inside one region of the device's memory"),
        (5, "ERROR: c7x_int8_relu: clip_lo is 128: a limit must be an int8"),
        (6, "ERROR: c7x_int8_rescale: the scale is 0: a scale is finite and above zero"),
        (7, "ERROR: c7x_int8_rescale: the zero point is 300: it must be an int8"),
        (8, "ERROR: c7x_topk: data at 0xde010001 is not aligned to its elements of 4 bytes"),
        (9, "ERROR: c7x_topk: out_idx overlaps another array that the call writes"),
        (10, "ERROR: c7x_topk: k is 3: it must not be above n"),
        (11, "ERROR: c7x_int8_max_pool_tidl: the stride is 0: it must be at least 1"),
    ] {
        assert_eq!(lines[line], expected);
    }
    let result = device.read(RESULT.base, 16);
    assert_eq!(result[..4], input[..4]);
    let relu: Vec<u8> = input[..12].iter().map(|byte| if *byte < 128 { *byte } else { 0 }).collect();
    assert_eq!(result[4..], relu, "what the kernel overwrites was read before");
}

#[test]
fn the_packed_module_runs_by_names_alone_for_any_number_of_rows() {
    let mut device = Device::new();
    let file = build("generated/packed.c");
    let before = device.free();
    let handle = device.load(&file).module_handle.get();
    for (rows, rectify) in [(2u16, 1u8), (5, 0), (1, 1)] {
        let x: Vec<f32> = (0..rows * 4).map(|i| f32::from(i) * 1.5 - 4.0).collect();
        device.write(INPUT.base, &f32s(&x));
        device.write(INPUT.base + 0x1000, &[rectify]);
        let inputs = [
            TensorDesc::new(INPUT.base, u64::from(rows) * 16, 2, 32, &[rows.into(), 4]).unwrap(),
            TensorDesc::new(INPUT.base + 0x1000, 1, 6, 8, &[1]).unwrap(),
        ];
        let (fixed, outputs) = device.infer(handle, InferFlags::default(), &inputs);
        assert_eq!(
            (fixed.header.status(), fixed.return_value.get()),
            (Some(Status::Success), 0),
            "{}",
            device.printed()
        );
        let read = |desc: &TensorDesc| floats(&device.read(desc.data_addr.get(), desc.data_size.get()));
        let expected: Vec<f32> = x.iter().map(|x| if rectify == 1 { x.max(0.0) } else { -x }).collect();
        assert_eq!(read(&outputs[0]), expected);
        assert_eq!(read(&outputs[1]), expected);
        assert_eq!(read(&outputs[2]), x);
        assert_eq!((outputs[0].ndim.get(), outputs[1].ndim.get()), (2, 3));
    }
    let wrong = TensorDesc::new(INPUT.base, 12, 2, 32, &[1, 3]).unwrap();
    let flag = TensorDesc::new(INPUT.base + 0x1000, 1, 6, 8, &[1]).unwrap();
    let (fixed, _) = device.infer(handle, InferFlags::default(), &[wrong, flag]);
    assert_eq!((fixed.header.status(), fixed.return_value.get()), (Some(Status::Call), -1), "3 columns are not 4");
    unload(&mut device, handle);
    assert_eq!(device.free(), before);
}

#[test]
fn the_tiled_module_works_in_l2_and_falls_back_to_workspace() {
    let mut device = Device::new();
    let file = build("generated/tiles.c");
    let before = device.free();
    let handle = device.load(&file).module_handle.get();
    let mut after_run = None;
    for round in 0..3u16 {
        let x: Vec<f32> = (0..64 * 128u16).map(|i| f32::from((i * 7 + round) % 512) / 64.0).collect();
        device.write(INPUT.base, &f32s(&x));
        let input = TensorDesc::new(INPUT.base, 32_768, 2, 32, &[64, 128]).unwrap();
        let (fixed, outputs) = device.infer(handle, InferFlags::default(), &[input]);
        assert_eq!(
            (fixed.header.status(), fixed.return_value.get()),
            (Some(Status::Success), 0),
            "{}",
            device.printed()
        );
        let layers = |x: &f32| (0..24u8).fold(*x, |x, layer| ((1.0 + f32::from(layer) / 64.0) * x - 0.25).max(0.0));
        let found = floats(&device.read(outputs[0].data_addr.get(), outputs[0].data_size.get()));
        assert_eq!(found, x.iter().map(layers).collect::<Vec<_>>());
        assert_eq!(
            *after_run.get_or_insert(device.free()),
            device.free(),
            "each run gives back what the one before took"
        );
    }
    let workspace = before.0 - after_run.unwrap().0;
    assert!(workspace > 256 << 10, "tiles that do not fit L2 are workspace: {workspace} bytes are in use");
    unload(&mut device, handle);
    assert_eq!(device.free(), before);
}

/// The modules in the generator's shapes, each with inputs it takes: direct calls, packed calls, tiles by DMA.
fn shapes(device: &mut Device) -> [(&'static str, Vec<TensorDesc>); 3] {
    device.write(INPUT.base, &f32s(&(0..64 * 128u16).map(|i| f32::from(i % 512) / 64.0).collect::<Vec<_>>()));
    device.write(INPUT.base + 0x9000, &[1]);
    let tensor = |dims: &[i64]| {
        let bytes = dims.iter().product::<i64>().unsigned_abs() * 4;
        TensorDesc::new(INPUT.base, bytes, 2, 32, dims).unwrap()
    };
    let rectify = TensorDesc::new(INPUT.base + 0x9000, 1, 6, 8, &[1]).unwrap();
    [
        ("handwritten/d4.c", vec![tensor(&[1, 2, 4])]),
        ("generated/packed.c", vec![tensor(&[3, 4]), rectify]),
        ("generated/tiles.c", vec![tensor(&[64, 128])]),
    ]
}

#[test]
fn memory_that_runs_out_at_any_allocation_of_a_run_is_an_error_and_nothing_leaks() {
    let mut device = Device::new();
    for (source, inputs) in shapes(&mut device) {
        let before = device.free();
        let handle = device.load(&build(source)).module_handle.get();
        let mut refused = 0;
        for count in 1.. {
            device.service.runtime().borrow_mut().pool(PoolId::Main).fail_allocation(count);
            let (fixed, _) = device.infer(handle, InferFlags::default(), &inputs);
            match fixed.header.status() {
                Some(Status::Success) => break,
                Some(Status::NoMem | Status::Call) => refused += 1,
                other => panic!("{source}: {other:?} when allocation {count} failed: {}", device.printed()),
            }
        }
        assert!(refused > 0, "{source} allocates");
        // The failure that was left over may meet the next run, and none after that.
        device.infer(handle, InferFlags::default(), &inputs);
        let (fixed, _) = device.infer(handle, InferFlags::default(), &inputs);
        assert_eq!(fixed.header.status(), Some(Status::Success), "{source}: {}", device.printed());
        unload(&mut device, handle);
        assert_eq!(device.free(), before, "{source} leaks");
    }
}

#[test]
fn a_thousand_runs_in_each_shape_of_the_generator_take_no_more_memory_than_one() {
    let mut device = Device::new();
    for (source, inputs) in shapes(&mut device) {
        let before = device.free();
        let handle = device.load(&build(source)).module_handle.get();
        let mut after_one = None;
        for run in 0..1000 {
            let (fixed, _) = device.infer(handle, InferFlags::default(), &inputs);
            assert_eq!(fixed.header.status(), Some(Status::Success), "{source}, run {run}");
            let free = device.free();
            assert_eq!(*after_one.get_or_insert(free), free, "{source}, run {run}");
        }
        unload(&mut device, handle);
        assert_eq!(device.free(), before, "{source} leaks");
    }
}
