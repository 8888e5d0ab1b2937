"""Quantised products and convolutions in exact arithmetic: sums in integers or float64, rounded once."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto

from .errors import BuildError
from .onnx_facts import Facts, operand
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
