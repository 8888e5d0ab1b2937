//! Every kernel of the export table called from C with arguments that all differ, so that a swapped pair shows: what comes
//! back is compared with the safe kernel behind it, which has its own tests against the definition.
use crate::support::{Device, INPUT, build_text};
use outboard_kernels::{
    Activation, Attention, Conv2d, FeatureMap, KernelError, Pool2d, Quant, Requant, Sample, activation, avg_pool,
    channel_scale_multiply, clamp, concat_rescale, concat_sigmoid, conv2d, dequantize_vecmatmul, dfl_softmax,
    fpn_upsample_concat, global_avg_pool, layer_norm, matmul, matmul_bias, max_pool, quantize, quantize_rgb, relu,
    requantize_clamp, rescale, residual_add, resize_nearest_2x, sdpa_decode, silu_f32, top_k,
};
use outboard_wire::{InferFlags, Status, TensorDesc};

/// Names of all kernels in the order of the module's calls.
const KERNELS: [&str; 38] = [
    "c7x_int8_gelu",
    "c7x_int8_silu",
    "c7x_int8_hardsigmoid",
    "c7x_int8_hardswish",
    "c7x_int8_rescale",
    "c7x_int8_silu_f32out",
    "c7x_int8_relu",
    "c7x_int8_clamp",
    "c7x_int8_requantize_clamp",
    "c7x_int8_quantize",
    "c7x_int8_quantize_rgb",
    "c7x_int8_residual_add_relu",
    "c7x_int16_residual_add_relu",
    "c7x_int8_channel_scale_multiply",
    "c7x_int8_global_avg_pool",
    "c7x_int8_avg_pool",
    "c7x_int8_max_pool",
    "c7x_int8_max_pool_tidl",
    "c7x_int8_layer_norm",
    "c7x_int8_dfl_softmax",
    "c7x_int8_concat_rescale",
    "c7x_int8_concat_sigmoid",
    "c7x_int8_resize2d_nearest2x",
    "c7x_int8_fpn_upsample_concat",
    "c7x_int8_fpn_upsample_concat_ex",
    "c7x_dequantize_vecmatmul",
    "c7x_sdpa_decode",
    "c7x_topk",
    "mmalib_matmul_i8",
    "mmalib_matmul_i16",
    "mmalib_matmul_bias_i8",
    "mmalib_matmul_bias_i16",
    "mmalib_conv2d_i8",
    "mmalib_conv2d_i16",
    "mmalib_conv2d_i8_sliced",
    "mmalib_conv2d_i8_grouped_loop",
    "mmalib_depthwise_conv2d_i8",
    "mmalib_depthwise_conv2d_i16",
];

const MODULE: &str = "
  typedef const void *P; typedef void *W; typedef int32_t I; typedef float F;
  #define ACTIVATION P, W, I, I, F, I, F
  #define POOL P, W, I, I, I, I, I, I, I, I, I, I, I, I
  #define UPSAMPLE P, I, I, I, I, F, P, I, I, F, W, F, I
  #define CONV P, P, P, P, P, W, I, I, I, I, I, I, I, I, I, I, I, I
  I c7x_int8_gelu(ACTIVATION), c7x_int8_silu(ACTIVATION), c7x_int8_hardsigmoid(ACTIVATION), c7x_int8_hardswish(ACTIVATION),
    c7x_int8_rescale(ACTIVATION), c7x_int8_silu_f32out(P, W, I, I, F), c7x_int8_relu(P, W, I, I), c7x_int8_clamp(P, W, I, I, I),
    c7x_int8_requantize_clamp(P, W, I, F, I, I), c7x_int8_quantize(P, W, I, F, I),
    c7x_int8_quantize_rgb(P, W, I, I, F, F, F, F, F, F), c7x_int8_residual_add_relu(P, P, P, W, I, I),
    c7x_int16_residual_add_relu(P, P, P, W, I, I), c7x_int8_channel_scale_multiply(P, P, W, I, I, F, I, F, I, F, I),
    c7x_int8_global_avg_pool(P, W, I, I, I, I, I, F, I, F), c7x_int8_avg_pool(POOL, I, F, I, F), c7x_int8_max_pool(POOL),
    c7x_int8_max_pool_tidl(POOL), c7x_int8_layer_norm(P, P, P, W, I, I, F, I, F, I, F),
    c7x_int8_dfl_softmax(P, W, I, I, I, I, I, F, I, F),
    c7x_int8_concat_rescale(P, I, F, I, P, I, F, I, P, I, F, I, P, I, F, I, W, I, F, I),
    c7x_int8_concat_sigmoid(P, I, F, I, P, I, F, I, P, I, F, I, P, I, F, I, W, I), c7x_int8_resize2d_nearest2x(P, W, I, I, I),
    c7x_int8_fpn_upsample_concat(UPSAMPLE), c7x_int8_fpn_upsample_concat_ex(UPSAMPLE, W),
    c7x_dequantize_vecmatmul(P, P, P, W, I, I, I), c7x_sdpa_decode(P, P, P, P, W, I, I, I, I), c7x_topk(P, W, W, I, I, I),
    mmalib_matmul_i8(P, P, W, I, I, I, I), mmalib_matmul_i16(P, P, W, I, I, I, I), mmalib_matmul_bias_i8(P, P, P, P, P, W, I, I, I),
    mmalib_matmul_bias_i16(P, P, P, P, P, W, I, I, I), mmalib_conv2d_i8(CONV), mmalib_conv2d_i16(CONV),
    mmalib_conv2d_i8_sliced(CONV, I), mmalib_conv2d_i8_grouped_loop(CONV, I), mmalib_depthwise_conv2d_i8(CONV),
    mmalib_depthwise_conv2d_i16(CONV);
  static TVMFFIAny results[64]; static int outputs, calls;
  static W out(size_t bytes) {
    DLDataType type = {DL_INT, 8, 1}; DLDevice cpu = {1, 0}; int64_t n = (int64_t)bytes;
    TVMDSPNDArray *array = TVMDSPStorageAllocNDArray(TVMDSPStorageAlloc(bytes, cpu, type), 0, &n, 1, type);
    results[outputs++] = (TVMFFIAny){.type_index = TVM_FFI_TENSOR, .u.v_ptr = array};
    return array->data;
  }
  static P data(const TVMFFIAny *value) { return ((TVMDSPNDArray *)value->u.v_ptr)->data; }
  static const struct { F scale; I zero; } add8[3] = {{0.5f, 1}, {0.25f, -3}, {0.75f, 2}}, add16[3] = {{0.5f, 100}, {0.25f, -300}, {0.75f, 200}};
  #define DO(call) do { calls++; if (call) return calls; } while (0)
  int cg_main_dsp(TVMFFIAny *in, int n, TVMFFIAny *c, TVMFFIAny *output) {
    (void)c;
    if (n != 4) return -1;
    outputs = calls = 0;
    const int8_t *x = data(&in[0]); const float *f = data(&in[1]); const int16_t *h = data(&in[2]); const int32_t *w = data(&in[3]);
    const uint8_t *scale = (const uint8_t *)w + 1024, *shift = scale + 64;
    W two;
    DO(c7x_int8_gelu(x, out(100), 100, 3, 0.05f, -7, 0.04f));
    DO(c7x_int8_silu(x, out(101), 101, 4, 0.06f, -8, 0.03f));
    DO(c7x_int8_hardsigmoid(x, out(102), 102, 5, 0.07f, -9, 0.02f));
    DO(c7x_int8_hardswish(x, out(103), 103, 6, 0.08f, -10, 0.05f));
    DO(c7x_int8_rescale(x, out(300), 300, 7, 0.09f, -11, 0.06f));
    DO(c7x_int8_silu_f32out(x, out(400), 100, 8, 0.03f));
    DO(c7x_int8_relu(x, out(100), 100, -20));
    DO(c7x_int8_clamp(x, out(100), 100, -30, 40));
    DO(c7x_int8_requantize_clamp(w, out(100), 100, 0.00001f, -50, 60));
    DO(c7x_int8_quantize(f, out(100), 100, 30.0f, 5));
    DO(c7x_int8_quantize_rgb(f, out(42), 2, 7, 10.0f, 1.5f, 20.0f, -2.5f, 30.0f, 3.5f));
    DO(c7x_int8_residual_add_relu(x, x + 200, add8, out(100), 100, 1));
    DO(c7x_int16_residual_add_relu(h, h + 200, add16, out(200), 100, 0));
    DO(c7x_int8_channel_scale_multiply(x, x + 10, out(60), 4, 15, 0.01f, 1, 0.02f, 2, 0.03f, 3));
    DO(c7x_int8_global_avg_pool(x, out(6), 2, 3, 4, 5, 6, 0.5f, 7, 0.25f));
    DO(c7x_int8_avg_pool(x, out(30), 1, 2, 7, 9, 3, 5, 3, 2, 2, 2, 0, 1, 11, 0.5f, 12, 0.25f));
    DO(c7x_int8_max_pool(x, out(30), 1, 2, 7, 9, 3, 5, 3, 2, 2, 2, 0, 1));
    DO(c7x_int8_max_pool_tidl(x, out(30), 2, 1, 7, 9, 3, 5, 3, 2, 2, 2, 0, 1));
    DO(c7x_int8_layer_norm(x, f, f + 20, out(60), 3, 20, 0.5f, 4, 0.01f, 5, 0.02f));
    DO(c7x_int8_dfl_softmax(x, out(120), 2, 3, 4, 5, 6, 0.02f, -128, 0.004f));
    DO(c7x_int8_concat_rescale(x, 1, 0.1f, 1, x + 10, 2, 0.2f, 2, x + 30, 0, 0.0f, 0, x + 50, 3, 0.3f, 3, out(42), 7, 0.4f, 4));
    DO(c7x_int8_concat_sigmoid(x, 1, 0.01f, 1, x + 10, 2, 0.02f, 2, x + 30, 4, 0.03f, 3, NULL, 0, 0.0f, 0, out(84), 3));
    DO(c7x_int8_resize2d_nearest2x(x, out(96), 2, 3, 4));
    DO(c7x_int8_fpn_upsample_concat(x, 2, 3, 4, 5, 0.1f, x + 40, 1, 6, 0.2f, out(144), 0.3f, 7));
    two = out(144);
    DO(c7x_int8_fpn_upsample_concat_ex(x, 2, 3, 4, 5, 0.1f, x + 40, 1, 6, 0.2f, two, 0.3f, 7, out(24)));
    DO(c7x_dequantize_vecmatmul(f, x, f + 50, out(40), 2, 3, 5));
    DO(c7x_sdpa_decode(f, f + 32, f + 100, f + 200, out(64), 4, 2, 4, 6));
    two = out(24);
    DO(c7x_topk(f, two, out(48), 2, 11, 3));
    DO(mmalib_matmul_i8(x, x + 30, out(10), 2, 3, 5, 6));
    DO(mmalib_matmul_i16(h, h + 30, out(20), 2, 3, 5, 14));
    DO(mmalib_matmul_bias_i8(x, x + 30, w, scale, shift, out(10), 2, 3, 5));
    DO(mmalib_matmul_bias_i16(h, h + 30, w, scale, shift, out(20), 2, 3, 5));
    DO(mmalib_conv2d_i8(x, x + 200, w, scale, shift, out(60), 2, 7, 8, 3, 2, 3, 2, 2, 1, 1, 1, 2));
    DO(mmalib_conv2d_i16(h, h + 200, NULL, scale, shift, out(120), 2, 7, 8, 3, 2, 3, 2, 2, 1, 1, 1, 2));
    two = out(60); memset(two, 0, 60);
    DO(mmalib_conv2d_i8_sliced(x, x + 200, w, scale, shift, two, 2, 7, 8, 1, 2, 3, 2, 2, 1, 1, 1, 2, 2));
    DO(mmalib_conv2d_i8_grouped_loop(x, x + 200, w, scale, shift, out(80), 2, 7, 8, 4, 2, 3, 2, 2, 1, 1, 1, 2, 2));
    DO(mmalib_depthwise_conv2d_i8(x, x + 200, w, scale, shift, out(80), 4, 7, 8, 2, 3, 2, 2, 1, 1, 1, 2, 2));
    DO(mmalib_depthwise_conv2d_i16(h, h + 200, w, scale, shift, out(80), 2, 7, 8, 2, 3, 2, 2, 1, 1, 1, 2, 2));
    return TVMDSPBuiltinMakeTuplePacked(results, outputs, output);
  }";

/// What the module computes on.
struct Data {
    x: Vec<i8>,
    f: Vec<f32>,
    h: Vec<i16>,
    w: Vec<i32>,
    scale: Vec<u8>,
    shift: Vec<u8>,
}

impl Data {
    fn new() -> Self {
        let byte = |i: u32| i.wrapping_mul(2_654_435_761).to_le_bytes()[3];
        let half = |i: u32| i16::from_le_bytes([byte(i), byte(i + 7000)]);
        Self {
            x: (0..512).map(|i| byte(i).cast_signed()).collect(),
            f: (0..256).map(|i| f32::from(half(i + 1000)) / 8192.0).collect(),
            h: (0..512).map(|i| half(i + 2000)).collect(),
            w: (0..256).map(|i| i32::from(half(i + 3000)) * 50).collect(),
            scale: (0..64).map(|i| byte(i + 4000)).collect(),
            shift: (0..64).map(|i| byte(i + 5000) % 20 + 6).collect(),
        }
    }

    fn requant(&self, channels: usize, bias: bool) -> Requant<'_> {
        let bias = bias.then_some(&self.w[..channels]);
        Requant { bias, scale: &self.scale[..channels], shift: &self.shift[..channels] }
    }
}

/// A result as bytes: an output of `len` elements that `kernel` fills.
fn bytes<T: Copy + Default, const N: usize>(
    len: usize,
    to_bytes: fn(T) -> [u8; N],
    kernel: impl FnOnce(&mut [T]) -> Result<(), KernelError>,
) -> Vec<u8> {
    let mut out = vec![T::default(); len];
    kernel(&mut out).unwrap();
    out.into_iter().flat_map(to_bytes).collect()
}

fn int8(len: usize, kernel: impl FnOnce(&mut [i8]) -> Result<(), KernelError>) -> Vec<u8> {
    bytes(len, i8::to_le_bytes, kernel)
}

fn int16(len: usize, kernel: impl FnOnce(&mut [i16]) -> Result<(), KernelError>) -> Vec<u8> {
    bytes(len, i16::to_le_bytes, kernel)
}

fn float(len: usize, kernel: impl FnOnce(&mut [f32]) -> Result<(), KernelError>) -> Vec<u8> {
    bytes(len, f32::to_le_bytes, kernel)
}

fn q(scale: f32, zero: i32) -> Quant {
    Quant::i8(scale, zero).unwrap()
}

fn elementwise(data: &Data) -> Vec<Vec<u8>> {
    let Data { x, f, h, w, .. } = data;
    let act = |function, n: usize, from, to| int8(n, |out| activation(function, &x[..n], from, out, to));
    let q16 = |scale, zero| Quant::i16(scale, zero).unwrap();
    let planes = [(10.0, 1.5), (20.0, -2.5), (30.0, 3.5)];
    let add8 =
        |out: &mut [i8]| residual_add((&x[..100], q(0.5, 1)), (&x[200..300], q(0.25, -3)), out, q(0.75, 2), true);
    let add16 = |out: &mut [i16]| {
        residual_add((&h[..100], q16(0.5, 100)), (&h[200..300], q16(0.25, -300)), out, q16(0.75, 200), false)
    };
    let map = |range: std::ops::Range<usize>, quant| FeatureMap { data: &x[range], quant };
    vec![
        act(Activation::Gelu, 100, q(0.05, 3), q(0.04, -7)),
        act(Activation::Silu, 101, q(0.06, 4), q(0.03, -8)),
        act(Activation::HardSigmoid, 102, q(0.07, 5), q(0.02, -9)),
        act(Activation::HardSwish, 103, q(0.08, 6), q(0.05, -10)),
        int8(300, |out| rescale(&x[..300], q(0.09, 7), out, q(0.06, -11))),
        float(100, |out| silu_f32(&x[..100], q(0.03, 8), out)),
        int8(100, |out| relu(&x[..100], out, -20)),
        int8(100, |out| clamp(&x[..100], out, -30, 40)),
        int8(100, |out| requantize_clamp(&w[..100], out, 0.00001, -50, 60)),
        int8(100, |out| quantize(&f[..100], out, 30.0, 5)),
        int8(42, |out| quantize_rgb(&f[..42], out, 2, 7, planes)),
        int8(100, add8),
        int16(100, add16),
        int8(60, |out| channel_scale_multiply(map(0..4, q(0.01, 1)), map(10..70, q(0.02, 2)), 15, out, q(0.03, 3))),
    ]
}

fn pooled(data: &Data) -> Vec<Vec<u8>> {
    let x = &data.x;
    let pool = Pool2d { planes: 2, input: (7, 9), output: (3, 5), kernel: (3, 2), stride: (2, 2), pad: (0, 1) };
    let norm = |out: &mut [i8]| {
        let (weight, bias) = (&data.f[..20], &data.f[20..40]);
        layer_norm((&x[..60], q(0.01, 4)), weight, bias, (out, q(0.02, 5)), 3, 0.5)
    };
    let map = |range: std::ops::Range<usize>, quant| FeatureMap { data: &x[range], quant };
    let nothing = map(0..0, q(1.0, 0));
    let joined = [map(0..7, q(0.1, 1)), map(10..24, q(0.2, 2)), nothing, map(50..71, q(0.3, 3))];
    let heads = [(map(0..3, q(0.01, 1)), 1), (map(10..16, q(0.02, 2)), 2), (map(30..42, q(0.03, 3)), 4), (nothing, 0)];
    let mut small = vec![0; 24];
    let upsampled = int8(144, |out| {
        fpn_upsample_concat((2, 3, 4), map(0..24, q(0.1, 5)), map(40..88, q(0.2, 6)), out, q(0.3, 7), &mut small)
    });
    vec![
        int8(6, |out| global_avg_pool(6, 20, &x[..120], q(0.5, 6), out, q(0.25, 7))),
        int8(30, |out| avg_pool(&pool, &x[..126], q(0.5, 11), out, q(0.25, 12))),
        int8(30, |out| max_pool(&pool, &x[..126], out)),
        int8(30, |out| max_pool(&pool, &x[..126], out)),
        int8(60, norm),
        int8(120, |out| dfl_softmax((6, 4, 5), &x[..120], q(0.02, 6), out, q(0.004, -128))),
        int8(42, |out| concat_rescale(&joined, out, q(0.4, 4))),
        float(21, |out| concat_sigmoid(&heads, 3, out)),
        int8(96, |out| resize_nearest_2x((2, 3, 4), &x[..24], out)),
        upsampled.clone(),
        upsampled,
        small.iter().map(|value| value.cast_unsigned()).collect(),
    ]
}

fn model(data: &Data) -> Vec<Vec<u8>> {
    let Data { x, f, h, .. } = data;
    let sizes = Attention { query_heads: 4, kv_heads: 2, head_dim: 4, cache_len: 6 };
    let (mut values, mut places) = (vec![0.0; 6], vec![0; 6]);
    top_k((2, 11, 3), &f[..22], &mut values, &mut places).unwrap();
    let conv = Conv2d {
        channels_in: 2,
        input: (7, 8),
        channels_out: 3,
        kernel: (2, 3),
        stride: (2, 2),
        pad_rows: (1, 1),
        pad_columns: (1, 2),
        groups: 1,
    };
    fn run<T: Sample>(data: &Data, x: &[T], sizes: &Conv2d, out: &mut [T], bias: bool) -> Result<(), KernelError> {
        let weights = &x[200..200 + sizes.weights_len()?];
        conv2d(sizes, &x[..112], weights, &data.requant(sizes.channels_out, bias), out)
    }
    let grouped = Conv2d { channels_out: 4, groups: 2, ..conv };
    let whole = int8(60, |out| run(data, x, &conv, out, true));
    let mut sliced = vec![0; 60];
    sliced[40..].copy_from_slice(&whole[40..]);
    vec![
        float(10, |out| dequantize_vecmatmul((2, 3, 5), &f[..6], &x[..15], &f[50..55], out)),
        float(16, |out| sdpa_decode(&sizes, &f[..16], (&f[32..80], &f[100..148]), Some(&f[200..206]), out)),
        values.iter().flat_map(|value| value.to_le_bytes()).collect(),
        places.iter().flat_map(|place: &i64| place.to_le_bytes()).collect(),
        int8(10, |out| matmul((2, 3, 5), &x[..6], &x[30..45], out, 6)),
        int16(10, |out| matmul((2, 3, 5), &h[..6], &h[30..45], out, 14)),
        int8(10, |out| matmul_bias((2, 3, 5), &x[..6], &x[30..45], &data.requant(5, true), out)),
        int16(10, |out| matmul_bias((2, 3, 5), &h[..6], &h[30..45], &data.requant(5, true), out)),
        whole,
        int16(60, |out| run(data, h, &conv, out, false)),
        sliced,
        int8(80, |out| run(data, x, &grouped, out, true)),
        int8(80, |out| run(data, x, &grouped, out, true)),
        int16(40, |out| run(data, h, &Conv2d { channels_out: 2, ..grouped }, out, true)),
    ]
}

#[test]
fn every_kernel_takes_its_arguments_in_the_documented_order() {
    let mut table: Vec<_> = outboard_c7x::runtime::kernel_exports().iter().map(|export| export.name).collect();
    let mut called = KERNELS;
    table.sort_unstable();
    called.sort_unstable();
    assert_eq!(table, called, "each kernel has a call in the module");

    let data = Data::new();
    let mut device = Device::new();
    let handle = device.load(&build_text(MODULE)).module_handle.get();
    let at = |part: u64| INPUT.base + part * 0x1000;
    device.write(at(0), &data.x.iter().map(|value| value.cast_unsigned()).collect::<Vec<_>>());
    device.write(at(1), &data.f.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>());
    device.write(at(2), &data.h.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>());
    let mut words: Vec<u8> = data.w.iter().flat_map(|value| value.to_le_bytes()).collect();
    words.extend(data.scale.iter().chain(&data.shift));
    device.write(at(3), &words);
    let inputs = [
        TensorDesc::new(at(0), 512, 0, 8, &[512]).unwrap(),
        TensorDesc::new(at(1), 1024, 2, 32, &[256]).unwrap(),
        TensorDesc::new(at(2), 1024, 0, 16, &[512]).unwrap(),
        TensorDesc::new(at(3), 1152, 0, 8, &[1152]).unwrap(),
    ];
    let (fixed, _) = device.infer(handle, InferFlags::default(), &inputs);
    let call = usize::try_from(fixed.return_value.get()).unwrap_or(0);
    let name = call.checked_sub(1).and_then(|call| KERNELS.get(call));
    assert_eq!(fixed.header.status(), Some(Status::Success), "{name:?}: {}", device.printed());
    let expected: Vec<_> = [elementwise(&data), pooled(&data), model(&data)].concat();
    assert_eq!(usize::try_from(fixed.num_outputs.get()).unwrap(), expected.len());
    let table = device.read(fixed.descs_addr.get(), 80 * expected.len() as u64);
    for (number, (desc, expected)) in table.chunks_exact(80).zip(&expected).enumerate() {
        let address = u64::from_le_bytes(desc[..8].try_into().unwrap());
        assert_eq!(&device.read(address, expected.len() as u64), expected, "output {number}");
    }
}
