"""Batch normalisation by the statistics of the batch, which the importer takes for the one by known statistics."""

from __future__ import annotations

import onnx
from onnx import helper

from .errors import BuildError
from .onnx_nodes import NodeBuilder


def batch_normalization(node: onnx.NodeProto, shapes: dict[str, tuple[int, ...]]) -> list[onnx.NodeProto] | None:
    """Writes out a BatchNormalization in training mode; None for the ordinary one."""
    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    if not attributes.get("training_mode", 0):
        return None
    x, scale, bias, mean, variance = node.input
    if x not in shapes:
        raise BuildError("the shape of its input is not known at build time")
    momentum, epsilon = float(attributes.get("momentum", 0.9)), float(attributes.get("epsilon", 1e-5))
    rank = len(shapes[x])
    axes = [0, *range(2, rank)]
    per_channel = [1, -1, *[1] * (rank - 2)]
    g = NodeBuilder(node.name or node.output[0])

    def channels(value: str) -> str:
        return g.add("Reshape", value, g.ints(*per_channel))

    batch_mean = _mean(g, x, axes)
    centred = g.add("Sub", x, batch_mean)
    batch_variance = _mean(g, g.add("Mul", centred, centred), axes)
    deviation = g.add("Sqrt", g.add("Add", batch_variance, g.floats(epsilon)))
    scaled = g.add("Mul", g.add("Div", centred, deviation), channels(scale))
    g.add("Add", scaled, channels(bias), to=node.output[0])
    for index, (old, new) in enumerate(((mean, batch_mean), (variance, batch_variance)), start=1):
        if len(node.output) > index and node.output[index]:
            flat = g.add("Reshape", new, g.ints(-1))
            kept = g.add("Mul", old, g.floats(momentum))
            g.add("Add", kept, g.add("Mul", flat, g.floats(1.0 - momentum)), to=node.output[index])
    return g.nodes


def _mean(g: NodeBuilder, value: str, axes: list[int]) -> str:
    """The mean over axes, by operators whose form no operator set has changed."""
    total = g.add("ReduceSum", value, g.ints(*axes), keepdims=1)
    count = g.add("ReduceProd", g.add("Gather", g.add("Shape", value), g.ints(*axes)), keepdims=1)
    return g.add("Div", total, g.add("CastLike", count, value))
