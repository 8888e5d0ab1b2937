"""The forms of Resize that TVM's importer lacks or computes otherwise, written out axis by axis.

Interpolation along one axis is a product with a constant matrix; taking the nearest element is a Gather. Formulas: the
ONNX operator reference, Resize.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto

from .errors import BuildError
from .onnx_facts import Facts, attributes, operand
from .onnx_nodes import NodeBuilder

_FLOATS = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16)
_PLAIN_COORDINATES = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric")


@dataclass(frozen=True)
class _Axis:
    """One axis to resize: its number, lengths, scale, and the part of it that is looked at."""

    number: int
    before: int
    after: int
    scale: float
    start: float = 0.0
    end: float = 1.0


def resize(node: onnx.NodeProto, facts: Facts) -> list[onnx.NodeProto] | None:
    """Writes out a Resize, or leaves the forms to the importer that it gets right."""
    options = attributes(node)
    text = {name: _text(options.get(name, default)) for name, default in _DEFAULTS.items()}
    shape = facts.shape(node.input[0])
    axes = _axes(node, facts, shape, options, text["keep_aspect_ratio_policy"])
    if axes is None or (_is_plain(node, options, text, shape) and all(_is_exact(axis) for axis in axes)):
        return None
    g = NodeBuilder(node.name or node.output[0])
    value, kind = node.input[0], facts.types.get(node.input[0])
    if text["mode"] != "nearest" and kind not in _FLOATS:
        raise BuildError("interpolating integers cannot be compiled", hint="cast to float32 around the node")
    mode = text["coordinate_transformation_mode"]
    for axis in axes:
        places = np.array([_place(axis, i, mode) for i in range(axis.after)])
        if text["mode"] == "nearest":
            nearest = np.clip(_NEAREST[text["nearest_mode"]](places), 0, axis.before - 1).astype(np.int64)
            value = g.add("Gather", value, g.constant(nearest), axis=axis.number)
        elif not np.array_equal(places, np.arange(axis.before)):
            value = _product(
                g, value, axis.number, len(shape), _matrix(axis, places, text["mode"], options), facts, node
            )
    if mode == "tf_crop_and_resize":
        value = _extrapolated(g, value, axes, len(shape), options, facts.dtype(node.input[0]))
    g.add("Identity", value, to=node.output[0])
    return g.nodes


_DEFAULTS = {
    "mode": "nearest",
    "coordinate_transformation_mode": "half_pixel",
    "nearest_mode": "round_prefer_floor",
    "keep_aspect_ratio_policy": "stretch",
}

_NEAREST: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "round_prefer_floor": lambda x: np.ceil(x - 0.5),
    "round_prefer_ceil": lambda x: np.floor(x + 0.5),
    "floor": np.floor,
    "ceil": np.ceil,
}


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _is_plain(node: onnx.NodeProto, options: dict[str, object], text: dict[str, str], shape: Sequence[int]) -> bool:
    return (
        not options.get("antialias", 0)
        and not options.get("axes")
        and text["keep_aspect_ratio_policy"] == "stretch"
        and text["coordinate_transformation_mode"] in _PLAIN_COORDINATES
        and len(shape) > 2
    )


def _is_exact(axis: _Axis) -> bool:
    exact = axis.before * axis.scale
    return abs(exact - round(exact)) <= 1e-4


def _axes(
    node: onnx.NodeProto, facts: Facts, shape: Sequence[int], options: dict[str, object], policy: str
) -> list[_Axis] | None:
    """The axes to resize; None when the sizes are known only at run time."""
    given: Sequence[int] = options.get("axes") or range(len(shape))  # type: ignore[assignment]
    numbers = [int(n) % len(shape) for n in given]
    scales, sizes, roi = (facts.constant(n) if n else None for n in (operand(node, i) for i in (2, 3, 1)))
    before = [shape[n] for n in numbers]
    if sizes is not None and sizes.size == len(numbers):
        factors = [size / length for size, length in zip(sizes.tolist(), before, strict=True)]
        if policy != "stretch":
            factors = [(min if policy == "not_larger" else max)(factors)] * len(factors)
            after = [math.floor(factor * length + 0.5) for factor, length in zip(factors, before, strict=True)]
        else:
            after = [int(size) for size in sizes]
    elif scales is not None and scales.size == len(numbers):
        factors = [float(scale) for scale in scales]
        after = [math.floor(factor * length) for factor, length in zip(factors, before, strict=True)]
    else:
        return None
    count = len(numbers)
    crop = [float(x) for x in roi] if roi is not None and roi.size == 2 * count else [0.0] * count + [1.0] * count
    rows = zip(numbers, before, after, factors, crop[:count], crop[count:], strict=True)
    axes = [_Axis(*row) for row in rows]
    is_crop = _text(options.get("coordinate_transformation_mode", "")) == "tf_crop_and_resize"
    return [axis for axis in axes if is_crop or axis.before != axis.after or axis.scale != 1.0]


def _place(axis: _Axis, index: int, mode: str) -> float:
    """Where in the input an element of the output lies."""
    exact = axis.scale * axis.before
    if mode == "asymmetric":
        return index / axis.scale
    if mode == "align_corners":
        return 0.0 if exact == 1 else index * (axis.before - 1) / (exact - 1)
    if mode == "tf_crop_and_resize":
        if axis.after == 1:
            return (axis.end - axis.start) * (axis.before - 1) / 2
        return axis.start * (axis.before - 1) + index * (axis.end - axis.start) * (axis.before - 1) / (axis.after - 1)
    if mode == "pytorch_half_pixel" and exact == 1:
        return 0.0
    place = (index + 0.5) / axis.scale - 0.5
    if mode == "half_pixel_symmetric":
        return axis.before / 2 * (1 - axis.after / exact) + place
    if mode not in ("half_pixel", "pytorch_half_pixel"):
        raise BuildError(f"the form with coordinate_transformation_mode={mode} cannot be compiled")
    return place


def _matrix(axis: _Axis, places: np.ndarray, mode: str, options: dict[str, object]) -> np.ndarray:
    """The share that each element of the input (rows) has in each of the output (columns)."""
    stretch = min(axis.scale, 1.0) if options.get("antialias", 0) else 1.0
    reach = {"linear": 1, "cubic": 2}.get(mode)
    if reach is None:
        raise BuildError(f"the form with mode={mode} cannot be compiled")
    shape = _tent if reach == 1 else _cubic(float(str(options.get("cubic_coeff_a", -0.75))))
    width = math.ceil(reach / stretch)
    matrix = np.zeros((axis.before, len(places)))
    for column, place in enumerate(places):
        base = math.floor(place)
        neighbours = np.arange(base - width + 1, base + width + 1)
        shares = shape((neighbours - place) * stretch)
        if options.get("exclude_outside", 0):
            shares = np.where((neighbours < 0) | (neighbours >= axis.before), 0.0, shares)
        if options.get("antialias", 0) or options.get("exclude_outside", 0):
            shares = shares / shares.sum()
        np.add.at(matrix[:, column], np.clip(neighbours, 0, axis.before - 1), shares)
    return matrix


def _tent(x: np.ndarray) -> np.ndarray:
    return np.clip(1 - np.abs(x), 0.0, 1.0)


def _cubic(a: float) -> Callable[[np.ndarray], np.ndarray]:
    def kernel(x: np.ndarray) -> np.ndarray:
        d = np.abs(x)
        near = ((a + 2) * d - (a + 3)) * d * d + 1
        far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
        return np.where(d <= 1, near, np.where(d < 2, far, 0.0))

    return kernel


def _product(
    g: NodeBuilder, value: str, axis: int, rank: int, matrix: np.ndarray, facts: Facts, node: onnx.NodeProto
) -> str:
    """The product of an axis with a matrix; of float16 values in float32."""
    dtype = facts.dtype(node.input[0])
    wide = np.float32 if dtype == np.float16 else dtype
    order = [*(d for d in range(rank) if d != axis), axis]
    moved = g.add("Transpose", value, perm=order)
    if dtype == np.float16:
        moved = g.cast(moved, TensorProto.FLOAT)
    result = g.add("MatMul", moved, g.constant(matrix.astype(wide)))
    if dtype == np.float16:
        result = g.cast(result, TensorProto.FLOAT16)
    return g.add("Transpose", result, perm=[order.index(d) for d in range(rank)])


def _extrapolated(
    g: NodeBuilder, value: str, axes: Sequence[_Axis], rank: int, options: dict[str, object], dtype: np.dtype
) -> str:
    """The value for what lies outside of the input, put where some axis is outside."""
    outside = np.zeros([1] * rank, dtype=np.bool_)
    for axis in axes:
        places = np.array([_place(axis, i, "tf_crop_and_resize") for i in range(axis.after)])
        along = [-1 if d == axis.number else 1 for d in range(rank)]
        outside = outside | ((places < 0) | (places > axis.before - 1)).reshape(along)
    if not outside.any():
        return value
    filling = g.constant(np.asarray(float(str(options.get("extrapolation_value", 0.0))), dtype))
    return g.add("Where", g.constant(outside), filling, value)
