"""One case from end to end, and what it came to."""

from __future__ import annotations

import contextlib
import io
import logging
import subprocess
import tempfile
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper

from outboard.build import BuildError, Module, compile
from outboard.build.narrow_types import BY_NAME, NARROW, Integer
from outboard.build.tensors import TensorSpec

from . import prepare
from .cases import Case, tensor

PASS, FRONT_END, UNSUPPORTED, WRONG, CRASH = "pass", "unsupported_front_end", "unsupported", "wrong", "crash"
OUTCOMES = (PASS, FRONT_END, UNSUPPORTED, WRONG, CRASH)

_TWO_UNITS = {"float16": 2e-3, "bfloat16": 1.6e-2}
"""Two units in the last place, for types of which the suite's 1e-3 is one or less."""
_SMALLEST = 1e-6
"""Absolute tolerance, instead of the suite's 1e-7, which is less than a unit in the last place of a float32 near 1."""


@dataclass(frozen=True)
class Outcome:
    """What became of a case. ``reason`` is one line, empty for a pass; ``inputs`` counts those of the module."""

    outcome: str
    reason: str = ""
    preparation: str = ""
    inputs: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class Device:
    """A standing simulated device, and the program that talks to it."""

    program: Path
    socket: Path

    def run(
        self, module: Path, inputs: Sequence[np.ndarray], outputs: Sequence[TensorSpec], folder: Path
    ) -> list[np.ndarray]:
        """Loads a module, calls it once, and returns its outputs, those of narrow types in ONNX's own types for them.

        Tensors travel as raw bytes, which the module's manifest describes: .npy files know no bfloat16.
        """
        command = [str(self.program), "run", str(module), "--device", f"sim:{self.socket}", "--timeout", "60"]
        for index, array in enumerate(inputs):
            path = folder / f"input{index}.bin"
            path.write_bytes(np.ascontiguousarray(array).tobytes())
            command += ["--input", str(path)]
        target = folder / "output.bin"
        done = subprocess.run([*command, "--output", str(target)], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise DeviceFailure(done.stderr)
        names = ["output.bin"] if len(outputs) == 1 else [f"output.{index}.bin" for index in range(len(outputs))]
        return [_array((folder / name).read_bytes(), spec) for name, spec in zip(names, outputs, strict=True)]


def _array(data: bytes, spec: TensorSpec) -> np.ndarray:
    narrow = BY_NAME.get(spec.holds or spec.dtype.name)
    carried = spec.dtype.name if narrow is None else np.dtype(f"uint{8 * spec.dtype.itemsize}")
    if narrow is not None and isinstance(narrow.format, Integer):
        carried = np.dtype(spec.dtype.name)
    array = np.frombuffer(data, dtype=carried).reshape(spec.shape)
    if narrow is None:
        return array
    own = np.dtype(helper.tensor_dtype_to_np_dtype(narrow.onnx))
    return array.astype(own) if isinstance(narrow.format, Integer) else array.view(own)


def _carried(array: np.ndarray) -> np.ndarray:
    """An input as the module takes it."""
    narrow = NARROW.get(helper.np_dtype_to_tensor_dtype(array.dtype))
    return array if narrow is None else narrow.carried(array)


class DeviceFailure(Exception):
    """The device did not run a module that was built for it."""


def check(case: Case, device: Device, refused: Callable[[Outcome], None]) -> Outcome:
    """Builds, runs and compares. ``refused`` hears of a refusal before TVM's own importer is asked about it."""
    names = [value.name for value in case.model.graph.input]
    given = [dict(zip(names, map(tensor, inputs), strict=False)) for inputs, _ in case.data]
    values = {name: value for name, value in given[0].items() if value is not None}
    built, error = _build(case.model, values)
    if built is None:
        outcome = Outcome(UNSUPPORTED, _line(error))
        refused(outcome)
        exception = _front_end_error(case.model, values)
        return outcome if exception is None else Outcome(FRONT_END, exception)
    preparation, result = built
    wrong = _run(case, result, given, device)
    if wrong is not None:
        return Outcome(*wrong, preparation)
    return Outcome(PASS, "", preparation, len(result.inputs))


def _build(
    model: onnx.ModelProto, values: dict[str, np.ndarray]
) -> tuple[tuple[str, Module] | None, BuildError | None]:
    """The first preparation that can be built; otherwise the error of the last, whose model is the plainest."""
    error = None
    for name, prepared in prepare.variants(model, values):
        try:
            return (name, compile(prepared, name="t")), None
        except BuildError as refusal:
            error = refusal
    return None, error


def _front_end_error(model: onnx.ModelProto, values: dict[str, np.ndarray]) -> str | None:
    """What TVM's own importer raises when it raises for every preparation; None when it takes one."""
    from tvm.relax.frontend.onnx import from_onnx

    last = ""
    for _, prepared in prepare.variants(model, values):
        sink = io.StringIO()
        logging.disable(logging.CRITICAL)
        with contextlib.redirect_stdout(sink), contextlib.redirect_stderr(sink), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                from_onnx(prepared)
            except Exception as error:
                last = f"TVM: {type(error).__name__}: {_line(error)}"
            else:
                return None
    return last


def _run(
    case: Case, result: Module, given: Sequence[dict[str, np.ndarray | None]], device: Device
) -> tuple[str, str] | None:
    """Runs every data set of a case; an outcome and its reason unless all agree."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        module = folder / "lib0.out"
        result.write(module)
        for values, (_, expected) in zip(given, case.data, strict=True):
            arrays = [values[spec.name] for spec in result.inputs]
            if any(array is None for array in arrays):
                return WRONG, "a module was built although an input is no tensor"
            try:
                actual = device.run(module, [_carried(a) for a in arrays if a is not None], result.outputs, folder)
            except DeviceFailure as error:
                return (CRASH if "crash" in str(error) else WRONG), f"device: {_line(error)}"
            difference = compare(actual, expected, case)
            if difference is not None:
                return WRONG, difference
    return None


def compare(actual: Sequence[np.ndarray], expected: Sequence[Any], case: Case) -> str | None:
    """What is different, or None."""
    if len(actual) != len(expected):
        return f"{len(actual)} outputs, expected {len(expected)}"
    for index, (got, value) in enumerate(zip(actual, expected, strict=True)):
        want = tensor(value)
        if want is None:
            return f"output {index} is expected to be no tensor"
        difference = _difference(got, want, case)
        if difference is not None:
            return f"output {index}: {difference}"
    return None


def _difference(got: np.ndarray, want: np.ndarray, case: Case) -> str | None:
    if want.dtype == np.bool_ and got.dtype == np.uint8 and got.max(initial=0) <= 1:
        got = got.astype(np.bool_)  # the wire carries a bool as an 8-bit unsigned integer
    if got.shape != want.shape:
        return f"shape {list(got.shape)}, expected {list(want.shape)}"
    if got.dtype != want.dtype:
        return f"{got.dtype}, expected {want.dtype}"
    narrow = NARROW.get(helper.np_dtype_to_tensor_dtype(want.dtype))
    if narrow is not None and not isinstance(narrow.format, Integer):
        got, want = got.astype(np.float32), want.astype(np.float32)
    if want.dtype.kind != "f":
        differing = int(np.count_nonzero(got != want))
        return f"{differing} of {want.size} elements differ" if differing else None
    kind = narrow.name if narrow is not None else want.dtype.name
    units = _TWO_UNITS.get(kind, 0.0)
    rtol, atol = max(case.rtol, units), max(case.atol, units or _SMALLEST)
    a, e = got.astype(np.float64), want.astype(np.float64)
    if np.allclose(a, e, rtol=rtol, atol=atol, equal_nan=True):
        return None
    finite = np.isfinite(a) & np.isfinite(e)
    distance = np.abs(a[finite] - e[finite]).max(initial=0.0)
    others = int(np.count_nonzero(~finite & ~((a == e) | (np.isnan(a) & np.isnan(e)))))
    return f"largest difference {distance:.3g}, and {others} of {want.size} elements are not finite on one side"


def _line(error: BaseException | None) -> str:
    """The telling part of an error in one line, without what differs from machine to machine."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    lines = [line for line in lines if not line.startswith(("File ", "Traceback", "^", "help:"))]
    text = " ".join(lines[:2] if lines and lines[0].startswith("Check failed") else lines[:1])
    return " ".join(text.split())[:240] or "no message"
