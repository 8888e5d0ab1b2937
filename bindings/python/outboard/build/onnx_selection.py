"""Operators that pick elements, written out in comparisons: OneHot, TopK, ReverseSequence, Dropout, Reduce of bools."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from .errors import BuildError
from .onnx_facts import Facts, attributes, operand
from .onnx_nodes import NodeBuilder

_MOST_PLACES = 256
"""Elements of a block that Col2Im is written out for."""
_MOST_RANKED = 512
"""Elements along an axis that are ranked by comparing each with each."""


def one_hot(node: onnx.NodeProto, facts: Facts) -> list[onnx.NodeProto]:
    """OneHot of a known depth; an index out of range, counted from the end below zero, marks nothing."""
    indices, depth_name, values = node.input
    depth_value = facts.constant(depth_name)
    if depth_value is None:
        raise BuildError("its depth is known only at run time", hint="give the depth as a constant")
    depth, rank = int(depth_value.reshape(-1)[0]), len(facts.shape(indices))
    axis = int(str(attributes(node).get("axis", -1))) % (rank + 1)
    g = NodeBuilder(node.name or node.output[0])
    wanted = g.unsqueeze(g.cast(indices, TensorProto.INT64), axis)
    below = g.add("Less", wanted, g.scalar(0))
    wanted = g.add("Where", below, g.add("Add", wanted, g.scalar(depth)), wanted)
    along = [1] * (rank + 1)
    along[axis] = depth
    hot = g.add("Equal", wanted, g.constant(np.arange(depth, dtype=np.int64).reshape(along)))
    off, on = g.add("Gather", values, g.scalar(0)), g.add("Gather", values, g.scalar(1))
    g.add("Where", hot, on, off, to=node.output[0])
    return g.nodes


def top_k(node: onnx.NodeProto, facts: Facts) -> list[onnx.NodeProto]:
    """TopK of a known count: the rank of an element is how many come before it, and of equal ones the first does."""
    x, count = node.input[0], facts.constant(node.input[1]) if len(node.input) > 1 else None
    if count is None:
        raise BuildError("its count is known only at run time", hint="give the count as a constant")
    shape, options, k = facts.shape(x), attributes(node), int(count.reshape(-1)[0])
    axis, last = int(str(options.get("axis", -1))) % len(shape), len(shape)
    length = shape[axis]
    if not 0 < k <= length <= _MOST_RANKED:
        raise BuildError(f"the first {k} of {length} elements; up to {_MOST_RANKED} elements can be ranked")
    g = NodeBuilder(node.name or node.output[0])
    order = [*(d for d in range(last) if d != axis), axis]
    back = [order.index(d) for d in range(last)]
    moved = g.add("Transpose", x, perm=order)
    mine, other = g.unsqueeze(moved, last), g.unsqueeze(moved, last - 1)  # [..., element, its rivals]
    before = g.add("Greater" if options.get("largest", 1) else "Less", other, mine)
    earlier = g.constant(np.tri(length, k=-1, dtype=np.bool_))
    before = g.add("Or", before, g.add("And", g.add("Equal", other, mine), earlier))
    rank = g.add("ReduceSum", g.cast(before, TensorProto.INT64), g.ints(last), keepdims=0)
    here = g.add("Equal", g.unsqueeze(rank, last - 1), g.constant(np.arange(k, dtype=np.int64).reshape(k, 1)))
    places = g.add("Mul", g.cast(here, TensorProto.INT64), g.constant(np.arange(length, dtype=np.int64)))
    chosen = g.add("ReduceSum", places, g.ints(last), keepdims=0)
    values = g.add("GatherElements", moved, chosen, axis=last - 1)
    for result, name in zip((values, chosen), node.output, strict=False):
        if name:
            g.add("Transpose", result, to=name, perm=back)
    return g.nodes


def dropout(node: onnx.NodeProto, facts: Facts) -> list[onnx.NodeProto] | None:
    """Dropout that drops nothing: the input, and a mask that is true throughout."""
    ratio, training = (facts.constant(n) if n else None for n in (operand(node, 1), operand(node, 2)))
    is_off = operand(node, 2) is None or (training is not None and not training.any())
    if not is_off and (ratio is None or ratio.any()):
        return None  # the import refuses it
    g = NodeBuilder(node.name or node.output[0])
    g.add("Identity", node.input[0], to=node.output[0])
    if len(node.output) > 1 and node.output[1]:
        g.add("Expand", g.constant(np.asarray(True)), g.ints(*facts.shape(node.input[0])), to=node.output[1])
    return g.nodes


def reverse_sequence(node: onnx.NodeProto, facts: Facts) -> list[onnx.NodeProto]:
    """ReverseSequence: each element comes from the place its sequence's length says, wherever that is known."""
    x, lengths = node.input
    shape = facts.shape(x)
    options = attributes(node)
    time, batch = int(str(options.get("time_axis", 0))), int(str(options.get("batch_axis", 1)))
    g = NodeBuilder(node.name or node.output[0])
    steps = np.arange(shape[time], dtype=np.int64).reshape([-1 if d == time else 1 for d in range(len(shape))])
    along = g.constant(np.ascontiguousarray(np.broadcast_to(steps, shape)))
    ends = g.add("Reshape", lengths, g.ints(*(-1 if d == batch else 1 for d in range(len(shape)))))
    mirrored = g.add("Sub", g.add("Sub", ends, g.scalar(1)), along)
    source = g.add("Where", g.add("Less", along, ends), mirrored, along)
    g.add("GatherElements", x, source, axis=time, to=node.output[0])
    return g.nodes


def bool_extreme(node: onnx.NodeProto, facts: Facts) -> list[onnx.NodeProto] | None:
    """ReduceMax and ReduceMin of bools, as extremes of bytes."""
    if facts.types.get(node.input[0]) != TensorProto.BOOL or 0 in facts.shape(node.input[0]):
        return None
    g = NodeBuilder(node.name or node.output[0])
    options: dict[str, Any] = attributes(node)
    extreme = g.add(node.op_type, g.cast(node.input[0], TensorProto.INT32), *node.input[1:], **options)
    g.cast(extreme, TensorProto.BOOL, to=node.output[0])
    return g.nodes


def tensor_scatter(node: onnx.NodeProto, facts: Facts) -> list[onnx.NodeProto]:
    """TensorScatter, which writes new rows into a cache: a place takes the row written there, or keeps what it had."""
    past, update = node.input[0], node.input[1]
    shape, rows = facts.shape(past), facts.shape(update)
    options = attributes(node)
    axis, rank = int(str(options.get("axis", -2))) % len(shape), len(shape)
    mode = options.get("mode", b"linear")
    g = NodeBuilder(node.name or node.output[0])
    along = [-1 if d == axis else 1 for d in range(rank)]
    place = g.constant(np.arange(shape[axis], dtype=np.int64).reshape(along))
    starts = operand(node, 2)
    if starts:
        place = g.add("Sub", place, g.add("Reshape", starts, g.ints(-1, *[1] * (rank - 1))))
    if mode in (b"circular", "circular"):
        place = g.add("Mod", place, g.scalar(shape[axis]))
    last = g.scalar(rows[axis] - 1)
    is_new = g.add("And", g.add("GreaterOrEqual", place, g.scalar(0)), g.add("LessOrEqual", place, last))
    row = g.add("Min", g.add("Max", place, g.scalar(0)), last)
    whole = g.add("Expand", row, g.ints(*shape))
    g.add("Where", is_new, g.add("GatherElements", update, whole, axis=axis), past, to=node.output[0])
    return g.nodes


def col2im(node: onnx.NodeProto, facts: Facts) -> list[onnx.NodeProto]:
    """Col2Im: each pixel is the sum over the places of a block of the column that has the pixel there, if one does."""
    columns = node.input[0]
    image, block = (facts.constant(name) for name in node.input[1:3])
    if image is None or block is None:
        raise BuildError("its shapes are known only at run time", hint="give the shapes as constants")
    size, extent = [int(n) for n in image], [int(n) for n in block]
    options = attributes(node)
    axes, area = len(size), math.prod(extent)
    if area > _MOST_PLACES:
        raise BuildError(f"blocks of {area} elements; up to {_MOST_PLACES} can be written out")
    dilations, strides = (_numbers(options, name, [1] * axes) for name in ("dilations", "strides"))
    pads = _numbers(options, "pads", [0] * (2 * axes))
    counts = [
        (size[d] + pads[d] + pads[axes + d] - dilations[d] * (extent[d] - 1) - 1) // strides[d] + 1 for d in range(axes)
    ]
    batch, rows, _ = facts.shape(columns)
    g = NodeBuilder(node.name or node.output[0])
    apart = g.add("Reshape", columns, g.ints(batch, rows // area, area, math.prod(counts)))
    zero = g.add("CastLike", g.floats(0.0), columns)
    total: str | None = None
    for place, offset in enumerate(np.ndindex(*extent)):
        index, exists = np.zeros(size, np.int64), np.ones(size, np.bool_)
        for d in range(axes):
            start = np.arange(size[d]) + pads[d] - offset[d] * dilations[d]
            number = start // strides[d]
            along = [-1 if other == d else 1 for other in range(axes)]
            exists &= ((start % strides[d] == 0) & (number >= 0) & (number < counts[d])).reshape(along)
            index = index * counts[d] + np.clip(number, 0, counts[d] - 1).reshape(along)
        row = g.add("Gather", apart, g.scalar(place), axis=2)
        taken = g.add("Where", g.constant(exists), g.add("Gather", row, g.constant(index), axis=2), zero)
        total = taken if total is None else g.add("Add", total, taken)
    g.add("Identity", total or zero, to=node.output[0])
    return g.nodes


def _numbers(options: dict[str, object], name: str, default: list[int]) -> list[int]:
    given: Any = options.get(name)
    return default if given is None else [int(n) for n in given]


def eye_like(node: onnx.NodeProto, facts: Facts) -> list[onnx.NodeProto]:
    """EyeLike, which depends on a shape only."""
    options = attributes(node)
    rows, columns = facts.shape(node.input[0])
    dtype = helper.tensor_dtype_to_np_dtype(int(str(options.get("dtype", facts.types.get(node.input[0], 1)))))
    g = NodeBuilder(node.name or node.output[0])
    matrix = np.eye(rows, columns, int(str(options.get("k", 0))), dtype=dtype)
    g.add("Identity", g.constant(matrix), to=node.output[0])
    return g.nodes


def counted(node: onnx.NodeProto, _: Facts) -> None:
    """Refuses an operator that gives as many results as it finds."""
    raise BuildError(
        "how many results it gives depends on the data, and modules have fixed shapes",
        hint="cut the model before this node, and do the rest on the host",
    )
