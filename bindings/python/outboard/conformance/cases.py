"""The cases of the installed onnx package, and which of them a sample takes."""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

TOTAL = 1884
"""Node tests of the onnx release in requirements.txt. A run that collects another number says so and fails."""


@dataclass(frozen=True)
class Case:
    """One node test: a model, what it is given, what it has to give, and how near is near enough."""

    name: str
    model: onnx.ModelProto
    data: tuple[tuple[Sequence[Any], Sequence[Any]], ...]
    rtol: float
    atol: float


def collect() -> list[Case]:
    """Every node test, in the order of their names."""
    from onnx.backend.test.case.node import collect_testcases

    # Collecting computes the expected results; it prints, and divides by zero on purpose.
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        found = collect_testcases(None)
    cases = [Case(t.name, t.model, tuple(t.data_sets), t.rtol, t.atol) for t in found]
    return sorted(cases, key=lambda case: case.name)


def sample(names: Sequence[str], count: int) -> list[str]:
    """``count`` names spread evenly over all of them, the same every time."""
    count = min(max(count, 0), len(names))
    return [names[index * len(names) // count] for index in range(count)]


def tensor(value: Any) -> np.ndarray | None:
    """A value of a test as an array; None when it is a sequence, an optional or a map."""
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    if isinstance(value, np.ndarray | np.generic):
        return np.asarray(value)
    return None
