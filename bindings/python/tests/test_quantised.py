"""Quantised networks (QDQ) run in integers: bytes between layers, products of bytes, sums of 32 bits."""

from __future__ import annotations

import ctypes
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import models
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from support import run_module, run_reference

from outboard.build import Module, compile
from outboard.build.package_data import data_text
from outboard.build.relax_integers import words
from outboard.build.toolchain import C_FLAGS, Compiler

FLOAT, INT8, UINT8 = TensorProto.FLOAT, TensorProto.INT8, TensorProto.UINT8
IMAGE = (1, 3, 18, 18)


class Feeds(CalibrationDataReader):
    def __init__(self, feeds: list[dict[str, np.ndarray]]) -> None:
        self._left: Iterator[dict[str, np.ndarray]] = iter(feeds)

    def get_next(self) -> dict[str, np.ndarray] | None:
        return next(self._left, None)


def network(rng: np.random.Generator) -> onnx.ModelProto:
    """One of everything: strides, padding, a residual, groups, bounds, a join, every pooling, products."""

    def random(*shape: int) -> np.ndarray:
        return (rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)

    n = helper.make_node
    weights = {
        "w1": random(16, 3, 3, 3),
        "b1": random(16, 1)[:, 0],
        "w2": random(16, 16, 3, 3),
        "w3": random(16, 1, 3, 3),
        "b3": random(16, 1)[:, 0],
        "w4": random(12, 8, 1, 1),
        "w5": random(10, 28),
        "b5": random(10, 1)[:, 0],
        "w6": random(10, 7),
        "low": np.float32(-0.25),
        "high": np.float32(1.5),
    }
    nodes = [
        n("Conv", ["x", "w1", "b1"], ["c1"], pads=[1, 1, 1, 1], strides=[2, 2]),
        n("Relu", ["c1"], ["r1"]),
        n("Conv", ["r1", "w2"], ["c2"], pads=[1, 1, 1, 1]),
        n("Add", ["c2", "r1"], ["a2"]),
        n("Conv", ["a2", "w3", "b3"], ["c3"], group=16, pads=[2, 2, 2, 2], dilations=[2, 2]),
        n("Clip", ["c3", "low", "high"], ["r3"]),
        n("MaxPool", ["r3"], ["p3"], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
        n("Conv", ["p3", "w4"], ["c4"], group=2),
        n("Concat", ["p3", "c4"], ["j4"], axis=1),
        n("AveragePool", ["j4"], ["p4"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        n("GlobalAveragePool", ["p4"], ["g4"]),
        n("Flatten", ["g4"], ["f4"]),
        n("Gemm", ["f4", "w5", "b5"], ["d5"], transB=1),
        n("MatMul", ["d5", "w6"], ["y"]),
    ]
    return models.make(nodes, {"x": (FLOAT, IMAGE)}, {"y": (FLOAT, (1, 7))}, weights)


def quantised(model: onnx.ModelProto, feeds: list[dict[str, np.ndarray]], folder: Path, **options: object):
    """The model as onnxruntime's own tool quantises it."""
    onnx.save(model, folder / "float.onnx")
    quantize_static(folder / "float.onnx", folder / "qdq.onnx", Feeds(feeds), quant_format=QuantFormat.QDQ, **options)
    return onnx.load(folder / "qdq.onnx")


def as_defined(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    """What the operators of the model give one by one: onnxruntime without its rewrites."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, feeds)


def last_step(model: onnx.ModelProto) -> float:
    """The step of the output."""
    node = next(n for n in model.graph.node if n.output[0] == model.graph.output[0].name)
    return float(onnx.numpy_helper.to_array(next(t for t in model.graph.initializer if t.name == node.input[1])))


def kernels(result: Module) -> str:
    return result.c_source[result.c_source.index("/* ---- Kernels ---- */") :]


@pytest.mark.parametrize(("activation", "weight"), [("QUInt8", "QInt8"), ("QInt8", "QInt8"), ("QUInt8", "QUInt8")])
@pytest.mark.parametrize("per_channel", [False, True])
def test_a_quantised_network_agrees_with_onnxruntime_to_a_step(rng, tmp_path, activation, weight, per_channel) -> None:
    feeds = [{"x": rng.standard_normal(IMAGE).astype(np.float32)} for _ in range(4)]
    types = {"activation_type": QuantType[activation], "weight_type": QuantType[weight]}
    model = quantised(network(rng), feeds, tmp_path, per_channel=per_channel, **types)
    result = compile(model)
    result.write(tmp_path / "lib0.out")
    for feed in feeds[:2]:
        (actual,) = run_module(tmp_path / "lib0.out", [feed["x"]], 1, tmp_path)
        (defined,), (fast,) = as_defined(model, feed), run_reference(model, feed)
        assert np.unique(defined).size > 3
        # A sum is scaled once here, and twice where the operators run one by one: a tie may fall elsewhere. What a step
        # more then makes of later layers is measured by how far onnxruntime is from itself.
        allowed = max(1.01 * last_step(model), 1.01 * float(np.abs(fast - defined).max()))
        assert np.abs(actual - defined).max() <= allowed


def test_between_quantised_layers_there_are_bytes_and_products_are_integers(rng, tmp_path) -> None:
    feeds = [{"x": rng.standard_normal(IMAGE).astype(np.float32)}]
    plain = network(rng)
    model = quantised(plain, feeds, tmp_path, per_channel=True, weight_type=QuantType.QInt8)
    result, in_float = compile(model, target="c-only"), compile(plain, target="c-only")
    code = kernels(result)
    assert "dot4_i32x4(" in code
    # Floats come in, go out, and scale sums; none lies between two layers. Behind a kernel's results is its scratch.
    heads = re.findall(r"OUTBOARD_KERNEL void \w+\((.*?)\) \{", code, re.S)
    results = [re.findall(r"(?<!const )(\b\w+_t|float) \*restrict (?!centred|words)", head) for head in heads]
    assert len(heads) > 8
    assert sum("float" in types for types in results) == 1, "only the last layer gives floats"
    assert all(set(types) <= {"uint8_t", "int8_t"} for types in results[:-1])
    assert result.workspace_bytes < 0.45 * in_float.workspace_bytes
    assert len(result.weights) < 0.6 * len(in_float.weights)
    # In each loop with a product of weights, both sides are integers.
    assert not re.search(r"_global\[[^]]*\] \+ \w+\[[^]]*\] \* ", code)


def test_sums_of_extreme_bytes_are_exact(tmp_path) -> None:
    n = helper.make_node
    for dtype, low, high in ((np.uint8, 0, 255), (np.int8, -128, 127)):
        weights = {
            "w": np.full((1100, 16), -128, np.int8),
            "one": np.float32(1),
            "zero": np.int8(0),
            "far": dtype(high),
        }
        weights["w"][:, 8:] = 127
        nodes = [
            n("DequantizeLinear", ["x", "one", "far"], ["xd"]),
            n("DequantizeLinear", ["w", "one", "zero"], ["wd"]),
            n("MatMul", ["xd", "wd"], ["m"]),
        ]
        model = models.make(
            nodes,
            {"x": (helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), (1, 1100))},
            {"m": (FLOAT, (1, 16))},
            weights,
        )
        result = compile(model)
        assert "dot4_" in kernels(result)
        result.write(tmp_path / "lib0.out")
        (actual,) = run_module(tmp_path / "lib0.out", [np.full((1, 1100), low, dtype)], 1, tmp_path)
        exact = (low - high) * weights["w"].astype(np.int64).sum(axis=0)
        assert np.array_equal(actual[0], exact.astype(np.float32))


def test_quantisation_rounds_half_to_even_and_saturates(tmp_path) -> None:
    n = helper.make_node
    weights = {
        "w": np.array([[1]], np.int8),
        "half": np.float32(0.5),
        "one": np.float32(1),
        "zero": np.int8(0),
        "yz": np.int8(5),
    }
    nodes = [
        n("DequantizeLinear", ["x", "half", "zero"], ["xd"]),
        n("DequantizeLinear", ["w", "one", "zero"], ["wd"]),
        n("MatMul", ["xd", "wd"], ["m"]),
        n("Relu", ["m"], ["r"]),
        n("QuantizeLinear", ["m", "one", "yz"], ["y"]),
        n("QuantizeLinear", ["r", "one", "yz"], ["z"]),
        n("QuantizeLinear", ["r", "half", "yz"], ["s"]),
    ]
    outputs = dict.fromkeys(("y", "z", "s"), (INT8, (256, 1)))
    result = compile(models.make(nodes, {"x": (INT8, (256, 1))}, outputs, weights))
    result.write(tmp_path / "lib0.out")
    x = np.arange(-128, 128).astype(np.int8)[:, None]
    y, z, s = run_module(tmp_path / "lib0.out", [x], 3, tmp_path)
    steps = np.rint(x.astype(np.float32) / 2)
    assert np.array_equal(y, (steps + 5).astype(np.int8))
    assert np.array_equal(z, np.maximum(steps + 5, 5).astype(np.int8))
    assert np.array_equal(s, np.clip(np.maximum(x, 0).astype(int) + 5, -128, 127).astype(np.int8))
    assert s.max() == 127


def test_graphs_quantised_in_parts_stay_right(rng, tmp_path) -> None:
    """A product with a float bias that is not quantised again, one of two activations, and weights alone."""
    n = helper.make_node
    weights = {
        "w": rng.integers(-127, 128, (24, 20)).astype(np.int8),
        "ws": rng.uniform(0.001, 0.02, 20).astype(np.float32),
        "wz": np.zeros(20, np.int8),
        "b": rng.standard_normal(20).astype(np.float32),
        "xs": np.float32(0.03),
        "xz": np.uint8(120),
    }
    nodes = [
        n("QuantizeLinear", ["x", "xs", "xz"], ["xq"]),
        n("DequantizeLinear", ["xq", "xs", "xz"], ["xd"]),
        n("DequantizeLinear", ["w", "ws", "wz"], ["wd"], axis=1),
        n("MatMul", ["xd", "wd"], ["m"]),
        n("Add", ["m", "b"], ["y"]),
        n("Transpose", ["xd"], ["xt"], perm=[1, 0]),
        n("MatMul", ["xd", "xt"], ["gram"]),
        n("MatMul", ["x", "wd"], ["mixed"]),
    ]
    outputs = {"y": (FLOAT, (6, 20)), "gram": (FLOAT, (6, 6)), "mixed": (FLOAT, (6, 20))}
    model = models.make(nodes, {"x": (FLOAT, (6, 24))}, outputs, weights)
    x = rng.standard_normal((6, 24)).astype(np.float32)
    result = compile(model)
    assert "dot4_" in kernels(result)
    result.write(tmp_path / "lib0.out")
    actual = run_module(tmp_path / "lib0.out", [x], 3, tmp_path)
    for a, e in zip(actual, as_defined(model, {"x": x}), strict=True):
        assert np.abs(a - e).max() <= 1e-5 * np.abs(e).max()


def test_four_bytes_make_a_word_in_every_column(rng) -> None:
    weights = rng.integers(-128, 128, (2, 7, 5)).astype(np.int16)
    packed = words(weights)
    assert packed.shape == (2, 2, 5) and packed.dtype == np.int32
    back = np.moveaxis(packed[..., None].view(np.int8), -1, 2).reshape(2, 8, 5)
    assert np.array_equal(back[:, :7], weights) and not back[:, 7].any()


_PROBE = """
#include <stdint.h>
#include <string.h>
{support}
void outboard_probe(const int32_t *a, const int32_t *b, int32_t *sums, int32_t n) {{
  for (int32_t i = 0; i + 16 <= n; i += 16) {{
    *(i32x16 *)(sums + i) = dot4_i32x16(*(i32x16 *)(sums + i), *(const i32x16 *)(a + i), *(const i32x16 *)(b + i));
    for (int32_t j = i; j < i + 16; j += 8)
      *(i32x8 *)(sums + j) = dot4_i32x8(*(i32x8 *)(sums + j), *(const i32x8 *)(a + j), *(const i32x8 *)(b + j));
    for (int32_t j = i; j < i + 16; j += 4)
      *(i32x4 *)(sums + j) = dot4_i32x4(*(i32x4 *)(sums + j), *(const i32x4 *)(a + j), *(const i32x4 *)(b + j));
    for (int32_t j = i; j < i + 16; ++j) sums[j] = outboard_dot4(sums[j], a[j], b[j]);
  }}
}}
"""


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("flags", [[], ["-mno-avx512vnni", "-mno-avxvnni"], ["-mno-avx512f"]])
def test_every_form_of_the_product_of_four_bytes_gives_the_same_sum(rng, tmp_path, native, flags) -> None:
    compiler = Compiler()
    machine = compiler.machine(native=native)
    if machine.arch != "x86-64":
        flags = []
    support = [data_text("kernel_support.h")]
    support += [f"OUTBOARD_VECTOR(int32_t, i32, {lanes})" for lanes in (4, 8, 16)]
    support += [data_text("integer_support.h"), *(f"OUTBOARD_DOT4({lanes})" for lanes in (4, 8, 16))]
    source, library = tmp_path / "probe.c", tmp_path / "probe.so"
    source.write_text(_PROBE.format(support="\n".join(support)))
    command = [*compiler.command, *C_FLAGS, f"-march={machine.march}", *flags, "-shared", "-w", source, "-o", library]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    a = rng.integers(0, 256, (512, 4)).astype(np.uint8)
    b = rng.integers(-128, 128, (512, 4)).astype(np.int8)
    a[:64], b[:32], b[32:64] = 255, -128, 127
    sums = rng.integers(-(2**20), 2**20, 512).astype(np.int32)
    expected = sums + 4 * (a.astype(np.int32) * b).sum(axis=1)
    pointers = [array.ctypes.data_as(ctypes.c_void_p) for array in (a, b, sums)]
    ctypes.CDLL(str(library)).outboard_probe(*pointers, ctypes.c_int32(512))
    assert np.array_equal(sums, expected)
