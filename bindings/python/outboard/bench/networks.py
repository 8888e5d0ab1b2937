"""The networks that are timed: their usual shapes, with random weights from a fixed seed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from .quantised import quantised

SEED = 18
IMAGE = (1, 3, 224, 224)
CLASSES = (1, 1000)


@dataclass
class _Graph:
    """Collects nodes and weights; every method gives the name of its result."""

    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(SEED))
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    weights: list[onnx.TensorProto] = field(default_factory=list)

    def add(self, op: str, *inputs: str, **attributes: Any) -> str:
        name = f"{op.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], name=name, **attributes))
        return name

    def constant(self, array: np.ndarray | np.generic) -> str:
        name = f"c{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def weight(self, *shape: int, fan_in: int) -> str:
        return self.constant((self.rng.standard_normal(shape) * np.sqrt(2 / fan_in)).astype(np.float32))

    def conv(self, x: str, channels: tuple[int, int], kernel: int, stride: int = 1, group: int = 1) -> str:
        """A convolution with its batch normalisation folded in, as exporters write it."""
        before, after = channels
        fan_in = before // group * kernel * kernel
        w = self.weight(after, before // group, kernel, kernel, fan_in=fan_in)
        bias = self.constant((self.rng.standard_normal(after) * 0.1).astype(np.float32))
        pads = [kernel // 2] * 4
        return self.add("Conv", x, w, bias, strides=[stride, stride], pads=pads, group=group)

    def dense(self, x: str, before: int, after: int) -> str:
        product = self.add("MatMul", x, self.weight(before, after, fan_in=before))
        return self.add("Add", product, self.constant(np.zeros(after, np.float32)))

    def classify(self, x: str, channels: int) -> str:
        pooled = self.add("Flatten", self.add("GlobalAveragePool", x))
        weights = self.weight(channels, 1000, fan_in=channels)
        return self.add("Gemm", pooled, weights, self.constant(np.zeros(1000, np.float32)))

    def model(self, name: str, shape: tuple[int, ...], result: str, gives: tuple[int, ...]) -> onnx.ModelProto:
        graph = helper.make_graph(
            self.nodes,
            name,
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
            [helper.make_tensor_value_info(result, TensorProto.FLOAT, gives)],
            self.weights,
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def resnet18() -> onnx.ModelProto:
    """ResNet-18 for images of 224 x 224: 1.8 thousand million multiplications."""
    g = _Graph()
    x = g.add("Relu", g.conv("x", (3, 64), 7, stride=2))
    x = g.add("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    before = 64
    for after in (64, 128, 256, 512):
        for block in range(2):
            stride = 2 if block == 0 and after != 64 else 1
            shortcut = g.conv(x, (before, after), 1, stride) if stride == 2 else x
            inner = g.add("Relu", g.conv(x, (before, after), 3, stride))
            x = g.add("Relu", g.add("Add", g.conv(inner, (after, after), 3), shortcut))
            before = after
    return g.model("resnet18", IMAGE, g.classify(x, 512), CLASSES)


# Expansion, channels, repetitions, stride of the first.
_INVERTED = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


def mobilenet_v2() -> onnx.ModelProto:
    """MobileNetV2 for images of 224 x 224: 0.3 thousand million multiplications, most of them one by one."""
    g = _Graph()
    low, high = g.constant(np.float32(0)), g.constant(np.float32(6))

    def relu6(x: str) -> str:
        return g.add("Clip", x, low, high)

    x = relu6(g.conv("x", (3, 32), 3, stride=2))
    before = 32
    for expansion, after, repetitions, first in _INVERTED:
        for block in range(repetitions):
            stride = first if block == 0 else 1
            wide = before * expansion
            inner = x if expansion == 1 else relu6(g.conv(x, (before, wide), 1))
            inner = relu6(g.conv(inner, (wide, wide), 3, stride, group=wide))
            inner = g.conv(inner, (wide, after), 1)
            x = g.add("Add", inner, x) if stride == 1 and before == after else inner
            before = after
    return g.model("mobilenet_v2", IMAGE, g.classify(relu6(g.conv(x, (320, 1280), 1)), 1280), CLASSES)


def transformer(layers: int = 2, width: int = 128, heads: int = 4, tokens: int = 64) -> onnx.ModelProto:
    """An encoder of two layers: 64 tokens of 128, four heads."""
    g = _Graph()
    split = g.constant(np.asarray([tokens, heads, width // heads], np.int64))
    join = g.constant(np.asarray([tokens, width], np.int64))
    scale = g.constant(np.float32(1 / np.sqrt(width // heads)))

    def norm(x: str) -> str:
        ones, zeros = g.constant(np.ones(width, np.float32)), g.constant(np.zeros(width, np.float32))
        return g.add("LayerNormalization", x, ones, zeros, axis=-1)

    def rows(x: str, perm: list[int]) -> str:
        return g.add("Transpose", g.add("Reshape", x, split), perm=perm)

    x = "x"
    for _ in range(layers):
        normal = norm(x)
        q, k, v = (g.dense(normal, width, width) for _ in range(3))
        scores = g.add("Mul", g.add("MatMul", rows(q, [1, 0, 2]), rows(k, [1, 2, 0])), scale)
        mixed = g.add("MatMul", g.add("Softmax", scores, axis=-1), rows(v, [1, 0, 2]))
        joined = g.add("Reshape", g.add("Transpose", mixed, perm=[1, 0, 2]), join)
        x = g.add("Add", x, g.dense(joined, width, width))
        inner = g.dense(norm(x), width, 4 * width)
        half, one = g.constant(np.float32(0.5)), g.constant(np.float32(1))
        root = g.constant(np.float32(np.sqrt(2)))
        gelu = g.add("Mul", g.add("Mul", inner, half), g.add("Add", g.add("Erf", g.add("Div", inner, root)), one))
        x = g.add("Add", x, g.dense(gelu, 4 * width, width))
    return g.model("transformer", (tokens, width), x, (tokens, width))


NETWORKS: dict[str, Callable[[], onnx.ModelProto]] = {
    "resnet18": resnet18,
    "mobilenet_v2": mobilenet_v2,
    "transformer": transformer,
    "resnet18_int8": quantised(resnet18),
    "mobilenet_v2_int8": quantised(mobilenet_v2),
}
