"""Dimensions that are bounded rather than fixed: a module takes every size up to the bound."""

from __future__ import annotations

import subprocess

import models
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from support import RELATIVE, difference, outboard_program, run_module, run_reference

from outboard.build import BuildError, compile, io_meta, weights

FLOAT = TensorProto.FLOAT


def attention(rng: np.random.Generator) -> onnx.ModelProto:
    """Attention of tokens to each other, where how many there are decides the shape of everything inside."""
    n = helper.make_node
    names = {"w": rng.standard_normal((16, 24)).astype(np.float32)}
    nodes = [
        n("MatMul", ["x", "w"], ["h"]),
        n("Transpose", ["h"], ["t"], perm=[0, 2, 1]),
        n("MatMul", ["h", "t"], ["scores"]),
        n("Softmax", ["scores"], ["shares"], axis=-1),
        n("MatMul", ["shares", "h"], ["mixed"]),
        n("Add", ["mixed", "bias"], ["y"]),
        n("ReduceMean", ["y"], ["mean"], axes=[1, 2], keepdims=0),
    ]
    inputs = {"x": (FLOAT, ("batch", "tokens", 16)), "bias": (FLOAT, ("tokens", 24))}
    outputs = {"y": (FLOAT, ("batch", "tokens", 24)), "mean": (FLOAT, ("batch",))}
    return models.make(nodes, inputs, outputs, names)


def test_every_size_up_to_the_bound_agrees(rng, tmp_path) -> None:
    model = attention(rng)
    result = compile(model, bounds={"batch": 2, "tokens": 5})
    module = tmp_path / "lib0.out"
    result.write(module)
    assert list(map(str, result.inputs)) == ["float32[batch<=2,tokens<=5,16]", "float32[tokens<=5,24]"]
    assert list(map(str, result.outputs)) == ["float32[batch<=2,tokens<=5,24]", "float32[batch<=2]"]
    for batch in (1, 2):
        for tokens in range(1, 6):
            given = {
                "x": rng.standard_normal((batch, tokens, 16)).astype(np.float32),
                "bias": rng.standard_normal((tokens, 24)).astype(np.float32),
            }
            actual = run_module(module, list(given.values()), 2, tmp_path)
            for a, e in zip(actual, run_reference(model, given), strict=True):
                assert difference(a, e) <= RELATIVE, (batch, tokens)


def test_the_declaration_is_an_upper_bound_and_says_so(rng) -> None:
    model = attention(rng)
    bounded = compile(model, bounds={"tokens": 3}, bind={"batch": 2}, target="c-only")
    largest = compile(model, bind={"batch": 2, "tokens": 3}, target="c-only")
    assert bounded.io_meta[:32] == largest.io_meta[:32]
    flags = [int.from_bytes(record[32:36], "little") for record in (bounded.io_meta, largest.io_meta)]
    assert flags == [0, io_meta.SIZES_EXACT]
    assert len([t for t in weights.unpack(bounded.weights) if t]) < 3, "variants share constants of one layout"
    assert b'"bounds":["","tokens",""]' in bounded._notes()


@pytest.mark.parametrize(
    ("x", "bias", "message"),
    [
        ((1, 4, 16), (4, 24), "float32 (1,4,16)"),  # beyond the bound
        ((1, 2, 16), (3, 24), "float32 (3,24)"),  # two sizes of one name
    ],
)
def test_a_call_beyond_the_bound_or_of_two_sizes_is_refused(x, bias, message, rng, tmp_path) -> None:
    module = tmp_path / "lib0.out"
    compile(attention(rng), bounds={"batch": 1, "tokens": 3}).write(module)
    command = [str(outboard_program()), "run", str(module)]
    for name, shape in (("x", x), ("bias", bias)):
        np.save(tmp_path / f"{name}.npy", np.zeros(shape, np.float32))
        command += ["--input", str(tmp_path / f"{name}.npy")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert message in done.stderr
    assert "tokens<=3" in done.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bounds": {"length": 4}}, 'no input has a dimension "length"'),
        ({"bounds": {"tokens": 0}}, 'the bound of "tokens" is 0'),
        ({"bounds": {"tokens": 30, "batch": 3}}, "the bounds allow 90 combinations of sizes"),
        ({"bounds": {"tokens": 3, "batch": 3}, "profile_layers": True}, "layers are profiled for one size"),
        ({"bounds": {"tokens": 3}}, 'input "x" has no fixed shape'),
    ],
)
def test_bounds_that_cannot_be_are_refused(options, message, rng) -> None:
    with pytest.raises(BuildError) as error:
        compile(attention(rng), **options)
    assert message in error.value.message
