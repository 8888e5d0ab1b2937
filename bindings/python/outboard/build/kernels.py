"""A kernel from its loop program: scheduled, lowered and written in C."""

from __future__ import annotations

from dataclasses import dataclass

from tvm import tirx

from . import schedule, tir_lower, tir_to_c


@dataclass(frozen=True)
class Written:
    """A scheduled kernel in C, and the parameters it wants packed: the columns of each panel, by parameter."""

    kernel: tir_to_c.KernelC
    packed: dict[int, int]


def write(
    function: tirx.PrimFunc, vectors: schedule.Vectors, constants: frozenset[int], tile: schedule.Tile | None = None
) -> Written | None:
    """The kernel as :func:`schedule.apply` makes it; None where that leads to something that C cannot say."""
    try:
        scheduled = schedule.apply(function, vectors, constants, tile)
        return Written(tir_to_c.print_kernel(tir_lower.lower(scheduled.function)), scheduled.packed)
    except Exception:  # TVM refuses schedules in many ways
        return None
