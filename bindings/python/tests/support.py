"""Runs models on the simulated device and elsewhere, and compares."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import onnxruntime

from outboard.build import Module, compile
from outboard.build.files import cache_folder

ROOT = Path(__file__).resolve().parents[3]
RELATIVE = 1e-4


def outboard_program() -> Path:
    """The ``outboard`` program: $OUTBOARD_BIN, or what the last build of this clone left."""
    named = os.environ.get("OUTBOARD_BIN")
    candidates = [Path(named)] if named else [ROOT / "target" / kind / "outboard" for kind in ("release", "debug")]
    for candidate in candidates:
        if candidate.is_file():
            return candidate
    raise FileNotFoundError(
        f"no outboard program at {', '.join(map(str, candidates))}: run cargo build, or set OUTBOARD_BIN"
    )


def nodes_library() -> Path:
    """The library that serves a board's nodes, of the build the program is from."""
    folder = outboard_program().parent
    for place in (folder, folder / "deps"):
        if (place / "liboutboard_nodes.so").is_file():
            return place / "liboutboard_nodes.so"
    raise FileNotFoundError(f"no liboutboard_nodes.so below {folder}: run cargo build -p outboard-nodes")


def models_folder() -> Path:
    """Where pretrained networks are kept between runs."""
    return cache_folder() / "models"


def run_module(module: Path, inputs: Sequence[np.ndarray], outputs: int, folder: Path) -> list[np.ndarray]:
    """One inference on a simulated device of its own."""
    command: list[str] = [str(outboard_program()), "run", str(module), "--timeout", "60"]
    for index, array in enumerate(inputs):
        path = folder / f"input{index}.npy"
        np.save(path, array)
        command += ["--input", str(path)]
    target = folder / "output.npy"
    done = subprocess.run([*command, "--output", str(target)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    paths = [target] if outputs == 1 else [folder / f"output.{index}.npy" for index in range(outputs)]
    return [np.load(path) for path in paths]


def run_reference(model: onnx.ModelProto, inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    """The same inference by onnxruntime."""
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, dict(inputs))


def difference(actual: np.ndarray, expected: np.ndarray) -> float:
    """The largest difference, relative to the value, or to a hundredth of the largest one where that is more."""
    assert actual.shape == expected.shape
    if expected.dtype == np.bool_ or expected.dtype.kind in "iu":
        return float(np.any(actual.astype(expected.dtype) != expected))
    assert actual.dtype == expected.dtype
    a, e = actual.astype(np.float64), expected.astype(np.float64)
    scale = np.maximum(np.abs(e), 1e-2 * np.max(np.abs(e), initial=1e-30))
    relative = np.abs(a - e) / scale
    return float(np.max(np.where(np.isnan(relative), np.inf, relative), initial=0.0))


def check_model(
    model: onnx.ModelProto, inputs: Mapping[str, np.ndarray], folder: Path, tolerance: float = RELATIVE
) -> Module:
    """Builds a model, runs it on the device and asserts that it agrees with onnxruntime."""
    result = compile(model)
    module = folder / "lib0.out"
    result.write(module)
    actual = run_module(module, [inputs[spec.name] for spec in result.inputs], len(result.outputs), folder)
    expected = run_reference(model, inputs)
    assert len(actual) == len(expected)
    for spec, a, e in zip(result.outputs, actual, expected, strict=True):
        assert difference(a, e) <= tolerance, f"output {spec.name} differs by {difference(a, e):.2e}"
    return result
