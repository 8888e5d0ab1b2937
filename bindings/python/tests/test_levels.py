"""A portable module has its kernels for several levels of the CPU: the best is taken, and all compute the same bits."""

from __future__ import annotations

import subprocess
from pathlib import Path

import models
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from support import check_model, run_module

from outboard.bench import contestants
from outboard.build import Module, compile
from outboard.build.toolchain import Compiler, level_flags

# What a CPU has when it has a level.
_TELLING = {"": frozenset(), "v3": {"avx2", "fma", "bmi2"}, "v4": {"avx512vl", "avx512dq", "avx512vnni"}}


def layers(rng: np.random.Generator) -> onnx.ModelProto:
    """A product in floats, and one in bytes."""
    n = helper.make_node
    weights = {
        "w": rng.standard_normal((48, 40)).astype(np.float32),
        "q": rng.integers(-127, 128, (40, 24)).astype(np.int8),
        "step": np.float32(0.01),
        "zero": np.int8(0),
        "wide": np.float32(0.2),
        "middle": np.uint8(128),
    }
    nodes = [
        n("MatMul", ["x", "w"], ["m"]),
        n("Tanh", ["m"], ["t"]),
        n("Mul", ["t", "m"], ["h"]),
        n("QuantizeLinear", ["h", "wide", "middle"], ["hq"]),
        n("DequantizeLinear", ["hq", "wide", "middle"], ["hd"]),
        n("DequantizeLinear", ["q", "step", "zero"], ["qd"]),
        n("MatMul", ["hd", "qd"], ["y"]),
        n("Softmax", ["y"], ["z"]),
    ]
    return models.make(nodes, {"x": (TensorProto.FLOAT, (9, 48))}, {"z": (TensorProto.FLOAT, (9, 24))}, weights)


@pytest.mark.parametrize("make", [layers, models.transformer_block])
def test_every_level_computes_the_same_bits(make, rng, tmp_path, monkeypatch) -> None:
    model = make(rng)
    shape = [dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim]
    x = rng.standard_normal(shape).astype(np.float32)
    compiler = Compiler()
    has = set(compiler.machine(native=True).features)
    answers = {}
    for name, flags in level_flags(compiler.machine(native=False), levels=True).items():
        if has >= _TELLING[name]:
            alone = tuple(flag for flag in flags if not flag.startswith("-D"))
            monkeypatch.setattr(contestants, "level_flags", lambda *_, levels, alone=alone: {"": alone})
            run, _ = contestants.generated(model, x, "host", tmp_path / f"level{name}")
            answers[name] = run(1)[1].copy()
    assert answers and np.isfinite(answers[""]).all()
    for name, answer in answers.items():
        assert answer.tobytes() == answers[""].tobytes(), name


def kernels(result: Module) -> str:
    return result.c_source.partition("/* ---- Kernels ---- */")[2].partition("/* ---- The model ---- */")[0]


def joined(a: np.ndarray, b: np.ndarray) -> tuple[list[onnx.NodeProto], np.ndarray]:
    return [helper.make_node("Concat", ["a", "b"], ["y"], axis=1)], np.concatenate([a, b], axis=1)


def padded(a: np.ndarray, b: np.ndarray) -> tuple[list[onnx.NodeProto], np.ndarray]:
    nodes = [helper.make_node("Add", ["a", "b"], ["s"]), helper.make_node("Pad", ["s", "pads", "fill"], ["y"])]
    return nodes, np.pad(a + b, [(0, 0), (6, 0), (0, 0)], constant_values=-3)


def both(a: np.ndarray, b: np.ndarray) -> tuple[list[onnx.NodeProto], np.ndarray]:
    nodes = [
        helper.make_node("Greater", ["a", "fill"], ["c"]),
        helper.make_node("Less", ["b", "fill"], ["d"]),
        helper.make_node("And", ["c", "d"], ["e"]),
        helper.make_node("Where", ["e", "a", "b"], ["y"]),
    ]
    return nodes, np.where((a > -3) & (b < -3), a, b)


@pytest.mark.parametrize("target", ["host", "host-native"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.int8])
@pytest.mark.parametrize("case", [joined, padded, both])
def test_a_kernel_that_reads_under_a_condition_reads_the_right_element(case, target, dtype, rng, tmp_path) -> None:
    """GCC 12.2 masks these loads wrongly: an inner loop of two, and a place that is no multiple of a vector."""
    a, b = (rng.integers(-60, 60, (24, 36, 2)).astype(dtype) for _ in range(2))
    nodes, expected = case(a, b)
    element = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    constants = {"pads": np.array([0, 6, 0, 0, 0, 0]), "fill": np.array(-3, dtype)}
    used = {name for node in nodes for name in node.input}
    model = models.make(
        nodes,
        {"a": (element, a.shape), "b": (element, b.shape)},
        {"y": (element, expected.shape)},
        {name: array for name, array in constants.items() if name in used},
    )
    path = tmp_path / "lib0.out"
    result = compile(model, target=target)
    assert "OUTBOARD_READ(" in kernels(result)
    result.write(path)
    assert run_module(path, [a, b], 1, tmp_path)[0].tobytes() == expected.tobytes()


@pytest.mark.parametrize("target", ["host", "host-native"])
def test_a_condition_that_a_long_loop_does_not_change_stands_around_it(target, rng, tmp_path) -> None:
    a = rng.standard_normal((3, 5, 33)).astype(np.float32)
    model = models.make(
        [helper.make_node("Pad", ["a", "pads", "fill"], ["y"])],
        {"a": (TensorProto.FLOAT, a.shape)},
        {"y": (TensorProto.FLOAT, (4, 7, 33))},
        {"pads": np.array([1, 1, 0, 0, 1, 0]), "fill": np.float32(-3)},
    )
    result = compile(model, target=target)
    text = kernels(result)
    assert "} else {" in text and "OUTBOARD_READ(" not in text and " ? " not in text
    path = tmp_path / "lib0.out"
    result.write(path)
    expected = np.pad(a, [(1, 0), (1, 1), (0, 0)], constant_values=-3)
    assert run_module(path, [a], 1, tmp_path)[0].tobytes() == expected.tobytes()


def test_a_portable_module_has_all_levels_and_one_for_this_cpu_has_one(rng, tmp_path) -> None:
    model = layers(rng)
    levels = level_flags(Compiler().machine(native=False), levels=True)
    for target, expected in (("host", set(levels) - {""}), ("host-native", set())):
        path = tmp_path / f"{target}.out"
        compile(model, target=target).write(path)
        table = subprocess.run(["nm", path], capture_output=True, text=True, check=True).stdout
        found = {
            line.split()[-1].removeprefix("outboard_run_") for line in table.splitlines() if "outboard_run_v" in line
        }
        assert found == expected
    check_model(model, {"x": rng.standard_normal((9, 48)).astype(np.float32)}, tmp_path)


def test_a_layer_profile_counts_kernels_that_are_there_once(rng, tmp_path: Path) -> None:
    path = tmp_path / "lib0.out"
    compile(layers(rng), profile_layers=True).write(path)
    table = subprocess.run(["nm", path], capture_output=True, text=True, check=True).stdout
    assert "outboard_run_v" not in table and "TVMPrintLayerProfile" in table
