"""Narrow element types: every code means what ml_dtypes says, every value is encoded as it rounds."""

from __future__ import annotations

import models
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from support import run_module

from outboard.build import BuildError, compile
from outboard.build.narrow_types import NARROW, Float, Integer, Narrow

FLOATS = [narrow for narrow in NARROW.values() if isinstance(narrow.format, Float) and narrow.name != "bfloat16"]
INTEGERS = [narrow for narrow in NARROW.values() if isinstance(narrow.format, Integer)]


def own_dtype(narrow: Narrow) -> np.dtype:
    return np.dtype(helper.tensor_dtype_to_np_dtype(narrow.onnx))


def values(rng: np.random.Generator) -> np.ndarray:
    """Float32 values of every size, ties between the codes of the small types, and what is no number."""
    exponents = rng.integers(-30, 20, 4000)
    random = rng.standard_normal(4000) * np.exp2(exponents)
    ties = np.concatenate([np.arange(-64, 65) / 8 * 2.0**e for e in (-16, -10, -9, -8, -7, -4, 0, 4)])
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, 3.4e38, 448.0, 464.0, 465.0, 57344.0, 61440.0, 61441.0]
    return np.concatenate([random, ties, special]).astype(np.float32)


def test_every_code_of_a_narrow_float_decodes_to_its_value(tmp_path) -> None:
    inputs = {f"x_{n.name}": (n.onnx, (16 if n.format.sign_bit == 3 else 256,)) for n in FLOATS}
    nodes = [helper.make_node("Cast", [f"x_{n.name}"], [f"y_{n.name}"], to=TensorProto.FLOAT) for n in FLOATS]
    outputs = {f"y_{n.name}": (TensorProto.FLOAT, inputs[f"x_{n.name}"][1]) for n in FLOATS}
    result = compile(models.make(nodes, inputs, outputs, opset=23))
    assert [(spec.dtype.name, spec.holds) for spec in result.inputs] == [("uint8", n.name) for n in FLOATS]
    module = tmp_path / "lib0.out"
    result.write(module)
    codes = [np.arange(inputs[f"x_{n.name}"][1][0], dtype=np.uint8) for n in FLOATS]
    for narrow, code, actual in zip(FLOATS, codes, run_module(module, codes, len(FLOATS), tmp_path), strict=True):
        expected = code.view(own_dtype(narrow)).astype(np.float32)
        assert np.array_equal(actual, expected, equal_nan=True), narrow.name
        assert np.array_equal(np.signbit(actual[actual == 0]), np.signbit(expected[expected == 0])), narrow.name


def test_float32_values_round_half_to_even_in_every_narrow_float(rng, tmp_path) -> None:
    x = values(rng)
    nodes = [helper.make_node("Cast", ["x"], [f"y_{n.name}"], to=n.onnx, saturate=0) for n in FLOATS]
    outputs = {f"y_{n.name}": (n.onnx, x.shape) for n in FLOATS}
    module = tmp_path / "lib0.out"
    compile(models.make(nodes, {"x": (TensorProto.FLOAT, x.shape)}, outputs, opset=23)).write(module)
    for narrow, actual in zip(FLOATS, run_module(module, [x], len(FLOATS), tmp_path), strict=True):
        expected = x.astype(own_dtype(narrow))
        got = actual.view(own_dtype(narrow))
        same = (actual == expected.view(np.uint8)) | (np.isnan(got) & np.isnan(expected))
        assert same.all(), f"{narrow.name}: {x[~same][:5]} became {got[~same][:5]}, not {expected[~same][:5]}"


def test_bfloat16_keeps_its_own_type_on_the_wire_and_rounds_as_ml_dtypes(rng, tmp_path) -> None:
    x = values(rng)
    bf16 = TensorProto.BFLOAT16
    nodes = [
        helper.make_node("Cast", ["x"], ["b"], to=bf16),
        helper.make_node("Cast", ["b"], ["y"], to=TensorProto.FLOAT),
    ]
    model = models.make(nodes, {"x": (1, x.shape)}, {"b": (bf16, x.shape), "y": (1, x.shape)}, opset=23)
    result = compile(model)
    assert [(spec.dtype.name, spec.holds) for spec in result.outputs] == [("bfloat16", ""), ("float32", "")]
    only_float = models.make(nodes, {"x": (1, x.shape)}, {"y": (1, x.shape)}, opset=23)
    module = tmp_path / "lib0.out"
    compile(only_float).write(module)
    (actual,) = run_module(module, [x], 1, tmp_path)
    assert np.array_equal(actual, x.astype(own_dtype(NARROW[bf16])).astype(np.float32), equal_nan=True)


def test_integers_of_few_bits_wrap_when_cast_and_saturate_when_quantised(tmp_path) -> None:
    x = np.arange(-40, 41, dtype=np.float32)
    nodes = [helper.make_node("Cast", ["x"], ["whole"], to=TensorProto.INT32)]
    outputs: dict[str, tuple[int, tuple[int, ...]]] = {}
    zeros: dict[str, np.ndarray] = {"scale": np.float32(1)}
    for n in INTEGERS:
        nodes.append(helper.make_node("Cast", ["whole"], [f"c_{n.name}"], to=n.onnx))
        nodes.append(helper.make_node("QuantizeLinear", ["x", "scale"], [f"q_{n.name}"], output_dtype=n.onnx))
        outputs |= {f"c_{n.name}": (n.onnx, x.shape), f"q_{n.name}": (n.onnx, x.shape)}
    model = models.make(nodes, {"x": (TensorProto.FLOAT, x.shape)}, outputs, zeros, opset=25)
    module = tmp_path / "lib0.out"
    compile(model).write(module)
    actual = run_module(module, [x], 2 * len(INTEGERS), tmp_path)
    for index, n in enumerate(INTEGERS):
        low, high = n.format.least, n.format.most
        assert np.array_equal(actual[2 * index], (x.astype(np.int64) - low) % (1 << n.format.bits) + low), n.name
        assert np.array_equal(actual[2 * index + 1], np.clip(x, low, high)), n.name


def test_arithmetic_on_integers_of_few_bits_is_refused_by_name() -> None:
    # No operator of ONNX computes with them; a file that says so is wrong.
    nodes = [helper.make_node("Add", ["x", "x"], ["y"], name="sum")]
    model = models.make(nodes, {"x": (TensorProto.INT4, (4,))}, {"y": (TensorProto.INT4, (4,))}, opset=23)
    with pytest.raises(BuildError, match=r"values of type int4 can be .* moved") as error:
        compile(onnx.ModelProto.FromString(model.SerializeToString()))
    assert error.value.node == 'Add "sum" (node 0)'


def test_what_moves_elements_keeps_their_bits_and_what_adds_them_computes(tmp_path) -> None:
    bf16 = TensorProto.BFLOAT16
    n = helper.make_node
    nodes = [
        n("Cast", ["x"], ["b"], to=bf16),
        n("Transpose", ["b"], ["t"], perm=[1, 0]),
        n("ScatterElements", ["t", "at", "t"], ["s"], axis=1, reduction="add"),
        n("Cast", ["s"], ["y"], to=TensorProto.FLOAT),
    ]
    at = {"at": np.asarray([[0, 0], [1, 0]], np.int64)}
    model = models.make(nodes, {"x": (1, (2, 2))}, {"y": (1, (2, 2))}, at, opset=18)
    module = tmp_path / "lib0.out"
    compile(model).write(module)
    (actual,) = run_module(module, [np.asarray([[1.5, -2], [0.25, 8]], np.float32)], 1, tmp_path)
    # Transposed [[1.5, 0.25], [-2, 8]], with the first row's two and the second row's crossed ones added.
    assert actual.tolist() == [[3.25, 0.25], [6.0, 6.0]]
