"""Models through outboard.build and the simulated device, compared with onnxruntime."""

from __future__ import annotations

import math
import struct
from pathlib import Path

import models
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from support import RELATIVE, check_model, difference, models_folder, run_module, run_reference

from outboard.build import Module, compile
from outboard.build.fetch import fetch


@pytest.fixture(scope="module")
def magika(tmp_path_factory: pytest.TempPathFactory) -> tuple[onnx.ModelProto, Module, Path]:
    """The file-type network: the model, the build, and the module."""
    path = fetch("magika", models_folder())[0]
    result = compile(path, inputs=["bytes=1,2048,int32"])
    module = tmp_path_factory.mktemp("magika") / "lib0.out"
    result.write(module)
    return onnx.load(path), result, module


def bytes_of(content: bytes) -> np.ndarray:
    """The first and the last 1,024 bytes of a file as the file-type network wants them."""
    features = np.full((1, 2048), 256, np.int32)
    head, tail = content[:1024], content[-1024:]
    features[0, : len(head)] = np.frombuffer(head, np.uint8)
    features[0, 2048 - len(tail) :] = np.frombuffer(tail, np.uint8)
    return features


def test_magika_names_files_as_onnxruntime_does(magika, rng, tmp_path) -> None:
    model, _, module = magika
    contents = [Path(__file__).read_bytes(), module.read_bytes(), rng.integers(0, 256, 4096, np.uint8).tobytes()]
    for content in contents:
        features = bytes_of(content)
        (actual,) = run_module(module, [features], 1, tmp_path)
        (expected,) = run_reference(model, {"bytes": features})
        assert actual.argmax() == expected.argmax()
        assert difference(actual, expected) <= RELATIVE


def test_one_flipped_weight_byte_makes_the_comparison_fail(magika, tmp_path) -> None:
    model, result, module = magika
    features = bytes_of(Path(__file__).read_bytes())
    content = bytearray(module.read_bytes())
    blob = content.index(result.weights)
    content[blob + largest_weight(result.weights) + 3] ^= 0x40  # the exponent of a little-endian float
    broken = tmp_path / "broken.out"
    broken.write_bytes(content)
    (actual,) = run_module(broken, [features], 1, tmp_path)
    (expected,) = run_reference(model, {"bytes": features})
    assert difference(actual, expected) > RELATIVE


def largest_weight(blob: bytes) -> int:
    """Where in weights.bin the largest value of its last matrix is, counted from the golden format."""
    (count,) = struct.unpack_from("<Q", blob)
    at, matrix = 8, (0, 0)
    for _ in range(count):
        while blob[at] == 0:
            at += 1
        (kind,) = struct.unpack_from("<i", blob, at)
        if kind == 65:  # a filler
            at += 12 + struct.unpack_from("<Q", blob, at + 4)[0]
            continue
        assert kind == 70
        (ndim,) = struct.unpack_from("<i", blob, at + 28)
        data = at + 44 + 8 * ndim
        (size,) = struct.unpack_from("<q", blob, data - 8)
        matrix = (data, size) if ndim >= 2 and size > 4096 else matrix
        at = data + size
    data, size = matrix
    values = np.frombuffer(blob[data : data + size], np.float32)
    return data + 4 * int(np.argmax(np.abs(values)))


def speech(rng: np.random.Generator, chunk: int) -> np.ndarray:
    """Something like a voice: harmonics of a wandering pitch under a slow envelope, with noise."""
    t = (np.arange(576) + 512 * chunk) / 16000
    pitch = 2 * np.pi * (120 * t + 3 * np.sin(2 * np.pi * 0.7 * t))
    voice = sum(np.sin(k * pitch) / k for k in range(1, 12))
    envelope = np.clip(np.sin(2 * np.pi * 1.5 * t), 0, None)
    return (0.2 * voice * envelope + 0.01 * rng.standard_normal(576)).astype(np.float32)[None]


def test_silero_follows_twenty_chunks_of_speech_with_its_state_carried_over(rng, tmp_path) -> None:
    path = fetch("silero", models_folder())[0]
    module = tmp_path / "lib0.out"
    compile(path).write(module)
    model = onnx.load(path)
    state = expected_state = np.zeros((2, 1, 128), np.float32)
    for chunk in range(20):
        samples = speech(rng, chunk)
        # A step from the same state agrees in everything.
        step, step_state = run_reference(model, {"input": samples, "state": state})
        probability, state = run_module(module, [samples, state], 2, tmp_path)
        assert difference(probability, step) <= RELATIVE, f"chunk {chunk}"
        assert difference(state, step_state) <= RELATIVE, f"chunk {chunk}"
        # Along twenty steps each side carries its own state: the answer still agrees. Rounding grows in the
        # recurrence, so that the smallest entries of the two states may part by more than that.
        expected, expected_state = run_reference(model, {"input": samples, "state": expected_state})
        assert difference(probability, expected) <= RELATIVE, f"chunk {chunk}"
        assert difference(state, expected_state) <= 10 * RELATIVE, f"chunk {chunk}"


def test_a_convolutional_network_agrees(rng, tmp_path) -> None:
    check_model(models.lenet(rng), {"x": rng.random((1, 1, 28, 28), np.float32)}, tmp_path)


def test_a_transformer_block_agrees(rng, tmp_path) -> None:
    check_model(models.transformer_block(rng), {"x": rng.standard_normal((24, 64), np.float32)}, tmp_path)


def test_a_model_may_have_several_outputs_of_different_types(rng, tmp_path) -> None:
    check_model(models.two_outputs(rng), {"x": rng.standard_normal((3, 5), np.float32)}, tmp_path)


def test_a_model_may_take_int64(rng, tmp_path) -> None:
    check_model(models.token_embedding(rng), {"tokens": rng.integers(-50, 50, (2, 6))}, tmp_path)


@pytest.mark.parametrize("op", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_recurrent_layers_are_written_out(op, direction, rng, tmp_path) -> None:
    model = models.recurrent(rng, op, direction)
    inputs = {
        i.name: rng.standard_normal([d.dim_value for d in i.type.tensor_type.shape.dim], np.float32)
        for i in model.graph.input
    }
    check_model(model, inputs, tmp_path)


def test_a_gru_may_reset_after_the_product(rng, tmp_path) -> None:
    model = models.recurrent(rng, "GRU", linear_before_reset=1)
    inputs = {"x": rng.standard_normal((5, 2, 3), np.float32), "h0": rng.standard_normal((1, 2, 4), np.float32)}
    check_model(model, inputs, tmp_path)


ELEMENT_TYPES = {
    "float16": TensorProto.FLOAT16,
    "float32": TensorProto.FLOAT,
    "float64": TensorProto.DOUBLE,
    "int8": TensorProto.INT8,
    "uint8": TensorProto.UINT8,
    "int32": TensorProto.INT32,
    "int64": TensorProto.INT64,
}


@pytest.mark.parametrize("dtype", ELEMENT_TYPES)
def test_every_element_type_computes_in_its_own_width(dtype, rng, tmp_path) -> None:
    kind = ELEMENT_TYPES[dtype]
    n = helper.make_node
    nodes = [n("Mul", ["a", "b"], ["p"]), n("Add", ["p", "a"], ["s"]), n("Max", ["s", "b"], ["y"])]
    both = {"a": (kind, (4, 9)), "b": (kind, (9,))}
    # onnxruntime multiplies no bytes; numpy wraps as the device does.
    model = models.make(nodes, both, {"y": (kind, (4, 9))}, opset=14)
    if np.dtype(dtype).kind == "f":
        a, b = (rng.standard_normal(shape).astype(dtype) for shape in ((4, 9), (9,)))
    else:
        limits = np.iinfo(dtype)
        a, b = (rng.integers(limits.min, limits.max, shape, dtype, endpoint=True) for shape in ((4, 9), (9,)))
    module = tmp_path / "lib0.out"
    compile(model).write(module)
    (actual,) = run_module(module, [a, b], 1, tmp_path)
    assert difference(actual, np.maximum(a * b + a, b)) <= (2e-3 if dtype == "float16" else RELATIVE)


def test_bools_are_bytes_of_zero_and_one(rng, tmp_path) -> None:
    n = helper.make_node
    nodes = [n("And", ["a", "b"], ["c"]), n("Not", ["c"], ["d"]), n("Where", ["d", "x", "z"], ["y"])]
    inputs = {
        "a": (TensorProto.BOOL, (6,)),
        "b": (TensorProto.BOOL, (6,)),
        "x": (TensorProto.FLOAT, (6,)),
        "z": (TensorProto.FLOAT, (6,)),
    }
    model = models.make(nodes, inputs, {"d": (TensorProto.BOOL, (6,)), "y": (TensorProto.FLOAT, (6,))})
    values = {name: rng.random(6) < 0.5 for name in "ab"} | {name: rng.random(6, np.float32) for name in "xz"}
    check_model(model, values, tmp_path)


def test_half_precision_sums_are_kept_in_single_precision(rng, tmp_path) -> None:
    weights = {"w": rng.standard_normal((512, 16)).astype(np.float16)}
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    half = TensorProto.FLOAT16
    model = models.make(nodes, {"x": (half, (3, 512))}, {"y": (half, (3, 16))}, weights)
    x = rng.standard_normal((3, 512)).astype(np.float16)
    module = tmp_path / "lib0.out"
    compile(model).write(module)
    (actual,) = run_module(module, [x], 1, tmp_path)
    exact = x.astype(np.float64) @ weights["w"].astype(np.float64)
    assert np.max(np.abs(actual - exact) / np.maximum(np.abs(exact), 1)) < 1e-3


def test_rows_of_infinities_have_an_infinite_maximum(tmp_path) -> None:
    nodes = [helper.make_node("ReduceMax", ["x"], ["y"], axes=[1], keepdims=0)]
    model = models.make(nodes, {"x": (TensorProto.FLOAT, (2, 5))}, {"y": (TensorProto.FLOAT, (2,))})
    x = np.array([[-np.inf] * 5, [1, 2, 3, 2, 1]], np.float32)
    module = tmp_path / "lib0.out"
    compile(model).write(module)
    (actual,) = run_module(module, [x], 1, tmp_path)
    assert actual.tolist() == [-np.inf, 3]


def test_indices_out_of_range_never_leave_the_table(rng, tmp_path) -> None:
    model = models.token_embedding(rng)
    module = tmp_path / "lib0.out"
    compile(model).write(module)
    (actual,) = run_module(module, [np.full((2, 6), 2**40)], 1, tmp_path)
    table = onnx.numpy_helper.to_array(model.graph.initializer[0])
    assert difference(actual, np.stack([table[-1], table[-1]])) <= RELATIVE


FUNCTIONS = {
    "Exp": (np.exp, -104, 89),
    "Tanh": (np.tanh, -12, 12),
    "Erf": (np.vectorize(math.erf), -5, 5),
    "Sigmoid": (lambda x: 1 / (1 + np.exp(-x)), -87, 90),
}


@pytest.mark.parametrize("op", FUNCTIONS)
def test_functions_of_floats_are_right_to_the_last_places(op, rng, tmp_path) -> None:
    function, low, high = FUNCTIONS[op]
    nodes = [helper.make_node(op, ["x"], ["y"])]
    model = models.make(nodes, {"x": (TensorProto.FLOAT, (4096,))}, {"y": (TensorProto.FLOAT, (4096,))})
    x = np.concatenate(
        [rng.uniform(low, high, 3072), rng.standard_normal(1016) * 1e-3, [0, -0.0, 1, -1, 30, -30, 88, -88]]
    )
    x = np.concatenate([x[:-4], [np.inf, -np.inf, np.nan, 1e-40]]).astype(np.float32)
    module = tmp_path / "lib0.out"
    compile(model).write(module)
    (actual,) = run_module(module, [x], 1, tmp_path)
    with np.errstate(all="ignore"):
        expected = function(x.astype(np.float64)).astype(np.float32)
    assert np.array_equal(np.isnan(actual), np.isnan(expected))
    assert np.array_equal(np.isinf(actual), np.isinf(expected))
    finite = np.isfinite(expected)
    distance = np.abs(actual[finite].astype(np.float64) - expected[finite]) / np.spacing(np.abs(expected[finite]))
    assert np.max(distance) <= 4


def eight_bits(array: np.ndarray) -> tuple[np.ndarray, np.float32]:
    """An array in steps of eight bits, and the size of a step."""
    step = np.float32(np.abs(array).max() / 127)
    return np.round(array / step).astype(np.int8), step


def test_a_quantised_network_keeps_weights_of_eight_bits_and_agrees_to_a_step(rng, tmp_path) -> None:
    n = helper.make_node
    kernel, kernel_step = eight_bits(rng.standard_normal((32, 16, 3, 3)))
    matrix, matrix_step = eight_bits(rng.standard_normal((32, 64)))
    weights: dict[str, np.ndarray] = {
        "kernel": kernel,
        "matrix": matrix,
        "bias": rng.standard_normal(32).astype(np.float32),
        "ks": kernel_step,
        "ms": matrix_step,
        "xs": np.float32(0.03),
        "cs": np.float32(2),
        "ys": np.float32(40),
        "xz": np.int8(3),
        "cz": np.int8(-5),
        "yz": np.int8(7),
        "zero": np.int8(0),
    }
    nodes = [
        n("QuantizeLinear", ["x", "xs", "xz"], ["xq"]),
        n("DequantizeLinear", ["xq", "xs", "xz"], ["xd"]),
        n("DequantizeLinear", ["kernel", "ks", "zero"], ["kd"]),
        n("Conv", ["xd", "kd", "bias"], ["c"], pads=[1, 1, 1, 1]),
        n("Relu", ["c"], ["r"]),
        n("QuantizeLinear", ["r", "cs", "cz"], ["cq"]),
        n("DequantizeLinear", ["cq", "cs", "cz"], ["cd"]),
        n("GlobalAveragePool", ["cd"], ["p"]),
        n("Flatten", ["p"], ["f"]),
        n("DequantizeLinear", ["matrix", "ms", "zero"], ["md"]),
        n("MatMul", ["f", "md"], ["m"]),
        n("QuantizeLinear", ["m", "ys", "yz"], ["y"]),
    ]
    int8 = TensorProto.INT8
    outputs = {"cq": (int8, (1, 32, 20, 20)), "y": (int8, (1, 64))}
    model = models.make(nodes, {"x": (TensorProto.FLOAT, (1, 16, 20, 20))}, outputs, weights)
    result = compile(model)
    assert len(result.weights) < 1.2 * (kernel.size + matrix.size), "a weight is a byte"
    result.write(tmp_path / "lib0.out")
    x = 2 * rng.standard_normal((1, 16, 20, 20)).astype(np.float32)
    actual = run_module(tmp_path / "lib0.out", [x], 2, tmp_path)
    for a, e in zip(actual, run_reference(model, {"x": x}), strict=True):
        assert np.unique(e).size > 4
        apart = np.abs(a.astype(int) - e)
        assert apart.max() <= 1
        assert np.mean(apart > 0) < 1e-3
