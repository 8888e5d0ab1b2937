"""Dimensions that are bounded rather than fixed: one variant of the code for each size, chosen at run time.

Shapes are fixed in generated code, and so each size of a bounded dimension has code of its own; constants are shared.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace

import onnx

from .errors import BuildError
from .onnx_load import graph_inputs
from .tensors import TensorSpec

MOST_VARIANTS = 64

Sizes = Mapping[str, int]


def sizes_of(model: onnx.ModelProto, bounds: Sizes) -> list[dict[str, int]]:
    """Every combination of sizes that the bounds allow, the largest last; one without any when nothing is bounded."""
    named = {
        dim.dim_param
        for value in graph_inputs(model)
        for dim in value.type.tensor_type.shape.dim
        if dim.dim_param not in ("", "?")
    }
    for name, bound in bounds.items():
        if name not in named:
            known = ", ".join(f'"{n}"' for n in sorted(named)) or "none"
            raise BuildError(f'no input has a dimension "{name}"', hint=f"named dimensions: {known}")
        if bound < 1:
            raise BuildError(f'the bound of "{name}" is {bound}: it is 1 or more')
    count = 1
    for bound in bounds.values():
        count *= bound
    if count > MOST_VARIANTS:
        raise BuildError(
            f"the bounds allow {count} combinations of sizes, each with code of its own; the most is {MOST_VARIANTS}",
            hint="fix a dimension with --bind, or lower a bound",
        )
    return [
        dict(zip(bounds, sizes, strict=True))
        for sizes in itertools.product(*(range(1, n + 1) for n in bounds.values()))
    ]


def merged(variants: Sequence[Sequence[TensorSpec]], sizes: Sequence[Sizes]) -> list[TensorSpec]:
    """The tensors of all variants as one list: the largest sizes, and the names of the dimensions that vary.

    A dimension that varies otherwise than a named one, as that of a result may, is called ``*``.
    """
    return [_merged(specs, sizes) for specs in zip(*variants, strict=True)]


def _merged(specs: Sequence[TensorSpec], sizes: Sequence[Sizes]) -> TensorSpec:
    first = specs[-1]
    if len({len(spec.shape) for spec in specs}) > 1:
        raise BuildError(f'the number of dimensions of "{first.name}" depends on a bounded dimension')
    columns = list(zip(*(spec.shape for spec in specs), strict=True))
    bounds = tuple(_name(column, sizes) for column in columns)
    return replace(first, shape=tuple(map(max, columns)), bounds=bounds if any(bounds) else ())


def _name(column: Sequence[int], sizes: Sequence[Sizes]) -> str:
    if len(set(column)) == 1:
        return ""
    return next((n for n in sizes[0] if all(s[n] == size for s, size in zip(sizes, column, strict=True))), "*")
