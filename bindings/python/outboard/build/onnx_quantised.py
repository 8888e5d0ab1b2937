"""Quantised products and convolutions in exact arithmetic: sums in integers or float64, rounded once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper

from .errors import BuildError
from .onnx_facts import Facts, attributes, operand
from .onnx_nodes import NodeBuilder

_CONVOLUTION = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")


def matmul(node: onnx.NodeProto, facts: Facts) -> list[onnx.NodeProto]:
    """QLinearMatMul with one scale and one zero point for each tensor."""
    g = NodeBuilder(node.name or node.output[0])
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = node.input
    for name in (a_scale, a_zero, b_scale, b_zero, y_scale, y_zero):
        if np.prod(facts.shape(name), dtype=np.int64) != 1:
            raise BuildError(f'"{name}" has a value for each row or column; one for the tensor can be compiled')
    one = g.ints()
    product = g.add("MatMul", _centred(g, a, a_zero, one), _centred(g, b, b_zero, one))
    _requantise(g, product, (a_scale, b_scale, y_scale), y_zero, facts, node.output[0], one)
    return g.nodes


def qlinear_conv(node: onnx.NodeProto, facts: Facts) -> list[onnx.NodeProto]:
    """QLinearConv; the scale of the weights may differ from channel to channel."""
    g = NodeBuilder(node.name or node.output[0])
    x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero = node.input[:8]
    rank = len(facts.shape(w))
    one, channels = g.ints(), g.ints(-1, *[1] * (rank - 1))
    product = _convolution(g, node, _centred(g, x, x_zero, one), _centred(g, w, w_zero, channels))
    per_channel = g.ints(1, -1, *[1] * (rank - 2))
    bias = operand(node, 8)
    if bias:
        wide = g.cast(bias, TensorProto.DOUBLE)
        product = g.add("Add", product, g.add("Reshape", wide, per_channel))
    scale = g.add("Reshape", w_scale, per_channel)
    _requantise(g, product, (x_scale, scale, y_scale), y_zero, facts, node.output[0], one)
    return g.nodes


def conv_integer(node: onnx.NodeProto, facts: Facts) -> list[onnx.NodeProto]:
    """ConvInteger, whose result is a sum of 32 bits."""
    g = NodeBuilder(node.name or node.output[0])
    rank = len(facts.shape(node.input[1]))
    x = _centred(g, node.input[0], operand(node, 2), g.ints())
    w = _centred(g, node.input[1], operand(node, 3), g.ints(-1, *[1] * (rank - 1)))
    g.cast(_convolution(g, node, x, w), TensorProto.INT32, to=node.output[0])
    return g.nodes


def _centred(g: NodeBuilder, value: str, zero: str | None, shape: str) -> str:
    """A quantised tensor without its zero point, in float64, which holds every sum that 32 bits hold."""
    wide = g.cast(value, TensorProto.DOUBLE)
    if zero is None:
        return wide
    return g.add("Sub", wide, g.add("Reshape", g.cast(zero, TensorProto.DOUBLE), shape))


def _convolution(g: NodeBuilder, node: onnx.NodeProto, x: str, w: str) -> str:
    options = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute if a.name in _CONVOLUTION}
    return g.add("Conv", x, w, **options)


def _requantise(
    g: NodeBuilder, product: str, scales: tuple[str, str, str], zero: str, facts: Facts, to: str, one: str
) -> None:
    """Scales a sum to the output's steps, rounds half to even, adds the zero point, saturates."""
    first, second, out = (g.cast(scale, TensorProto.DOUBLE) for scale in scales)
    first, out = g.add("Reshape", first, one), g.add("Reshape", out, one)
    factor = g.add("Div", g.add("Mul", first, second), out)
    steps = g.add("Round", g.add("Mul", product, factor))
    shifted = g.add("Add", steps, g.add("Reshape", g.cast(zero, TensorProto.DOUBLE), one))
    limits = np.iinfo(facts.dtype(zero))
    least, most = (g.constant(np.asarray(limit, np.float64)) for limit in (limits.min, limits.max))
    g.cast(g.add("Min", g.add("Max", shifted, least), most), facts.types[zero], to=to)


def blocked(node: onnx.NodeProto, facts: Facts) -> list[onnx.NodeProto] | None:
    """QuantizeLinear and DequantizeLinear with a scale for each block of elements; None for the other forms."""
    if not attributes(node).get("block_size", 0):
        return None
    g = NodeBuilder(node.name or node.output[0])
    shapes = facts.shape(node.input[0]), facts.shape(node.input[1])
    result = facts.types.get(node.output[0], 0)
    if node.op_type == "QuantizeLinear":
        quantise(g, node, *shapes, result, None, node.output[0])
    else:
        dequantise(g, node, *shapes, result, node.output[0])
    return g.nodes


def quantise(
    g: NodeBuilder,
    node: onnx.NodeProto,
    shape: Sequence[int],
    scales: Sequence[int],
    carrier: int,
    limits: tuple[int, int] | None,
    to: str,
) -> None:
    """QuantizeLinear to integers within ``limits`` (those of the type unless told); for a float type, the quotient."""
    options = attributes(node)
    x = g.cast(node.input[0], TensorProto.FLOAT)
    scale = g.cast(_spread(g, node.input[1], shape, scales, options), TensorProto.FLOAT)
    zero = operand(node, 2)
    if carrier == TensorProto.FLOAT:
        g.add("Div", x, scale, to=to)  # the zero point of a float type is zero
        return
    # The sum may leave float32's integers, so it is done in float64.
    steps = g.cast(g.add("Round", g.add("Div", x, scale)), TensorProto.DOUBLE)
    if zero:
        steps = g.add("Add", steps, g.cast(_spread(g, zero, shape, scales, options), TensorProto.DOUBLE))
    bounds = np.iinfo(helper.tensor_dtype_to_np_dtype(carrier))
    low, high = limits or (bounds.min, bounds.max)
    least, most = (g.constant(np.asarray(limit, np.float64)) for limit in (low, high))
    g.cast(g.add("Min", g.add("Max", steps, least), most), carrier, to=to)


def dequantise(
    g: NodeBuilder, node: onnx.NodeProto, shape: Sequence[int], scales: Sequence[int], result: int, to: str
) -> None:
    """DequantizeLinear: the difference to the zero point, times the scale."""
    options = attributes(node)
    x, zero = g.cast(node.input[0], TensorProto.FLOAT), operand(node, 2)
    if zero:
        x = g.add("Sub", x, g.cast(_spread(g, zero, shape, scales, options), TensorProto.FLOAT))
    scale = g.cast(_spread(g, node.input[1], shape, scales, options), TensorProto.FLOAT)
    g.cast(g.add("Mul", x, scale), result, to=to)


def _spread(g: NodeBuilder, value: str, shape: Sequence[int], scales: Sequence[int], options: dict[str, object]) -> str:
    """A scale or zero point as it broadcasts to the tensor: one, one for each index of an axis, or one a block."""
    rank = len(shape)
    if len(scales) == 0 or (len(scales) == 1 and scales[0] == 1):
        return g.add("Reshape", value, g.ints())
    axis = int(str(options.get("axis", 1))) % max(rank, 1)
    if len(scales) == 1:
        return g.add("Reshape", value, g.ints(*(-1 if d == axis else 1 for d in range(rank))))
    block = int(str(options.get("block_size", 0)))
    if len(scales) != rank or block <= 0:
        raise BuildError(f"its scale has the shape {list(scales)}, and its data {list(shape)}")
    each = g.unsqueeze(value, axis + 1)
    repeated = [*scales[: axis + 1], block, *scales[axis + 1 :]]
    whole = [*scales[:axis], scales[axis] * block, *scales[axis + 1 :]]
    spread = g.add("Reshape", g.add("Expand", each, g.ints(*repeated)), g.ints(*whole))
    if whole[axis] == shape[axis]:
        return spread
    return g.add("Slice", spread, g.ints(0), g.ints(shape[axis]), g.ints(axis))
