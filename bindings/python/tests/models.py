"""Models for the tests, made here with weights from a generator that the test seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Dims = Sequence[int | str]


def make(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, tuple[int, Dims]],
    outputs: Mapping[str, tuple[int, Dims]],
    weights: Mapping[str, np.ndarray] | None = None,
    opset: int = 17,
    name: str = "test_model",
) -> onnx.ModelProto:
    """A checked model of these nodes."""
    graph = helper.make_graph(
        list(nodes),
        name,
        [helper.make_tensor_value_info(n, t, list(shape)) for n, (t, shape) in inputs.items()],
        [helper.make_tensor_value_info(n, t, list(shape)) for n, (t, shape) in outputs.items()],
        [numpy_helper.from_array(array, n) for n, array in (weights or {}).items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    onnx.checker.check_model(model)
    return model


def _random(rng: np.random.Generator, *shape: int, scale: float | None = None) -> np.ndarray:
    fan_in = int(np.prod(shape[1:])) if len(shape) > 2 else shape[0]
    return (rng.standard_normal(shape) * (scale or 1.5 / np.sqrt(fan_in))).astype(np.float32)


def lenet(rng: np.random.Generator) -> onnx.ModelProto:
    """Two convolutions with pooling, three dense layers, a softmax."""
    weights = {
        "w1": _random(rng, 6, 1, 5, 5),
        "b1": _random(rng, 6, scale=0.1),
        "w2": _random(rng, 16, 6, 5, 5),
        "b2": _random(rng, 16, scale=0.1),
        "w3": _random(rng, 120, 400),
        "b3": _random(rng, 120, scale=0.1),
        "w4": _random(rng, 84, 120),
        "b4": _random(rng, 84, scale=0.1),
        "w5": _random(rng, 84, 10),
        "b5": _random(rng, 10, scale=0.1),
    }
    n = helper.make_node
    nodes = [
        n("Conv", ["x", "w1", "b1"], ["c1"], pads=[2, 2, 2, 2]),
        n("Tanh", ["c1"], ["t1"]),
        n("AveragePool", ["t1"], ["p1"], kernel_shape=[2, 2], strides=[2, 2]),
        n("Conv", ["p1", "w2", "b2"], ["c2"]),
        n("Relu", ["c2"], ["t2"]),
        n("MaxPool", ["t2"], ["p2"], kernel_shape=[2, 2], strides=[2, 2]),
        n("Flatten", ["p2"], ["f"]),
        n("Gemm", ["f", "w3", "b3"], ["d3"], transB=1),
        n("Relu", ["d3"], ["r3"]),
        n("Gemm", ["r3", "w4", "b4"], ["d4"], transB=1),
        n("Relu", ["d4"], ["r4"]),
        n("Gemm", ["r4", "w5", "b5"], ["d5"]),
        n("Softmax", ["d5"], ["y"], axis=1),
    ]
    return make(nodes, {"x": (TensorProto.FLOAT, (1, 1, 28, 28))}, {"y": (TensorProto.FLOAT, (1, 10))}, weights)


def transformer_block(rng: np.random.Generator, tokens: int = 24, width: int = 64, heads: int = 4) -> onnx.ModelProto:
    """Layer norm, self-attention, a residual, layer norm, a feed-forward network with GELU, a residual."""
    depth = width // heads
    weights = {
        "g1": 1 + _random(rng, width, scale=0.1),
        "h1": _random(rng, width, scale=0.1),
        "wqkv": _random(rng, width, 3 * width),
        "bqkv": _random(rng, 3 * width, scale=0.1),
        "wo": _random(rng, width, width),
        "bo": _random(rng, width, scale=0.1),
        "g2": 1 + _random(rng, width, scale=0.1),
        "h2": _random(rng, width, scale=0.1),
        "wu": _random(rng, width, 4 * width),
        "bu": _random(rng, 4 * width, scale=0.1),
        "wd": _random(rng, 4 * width, width),
        "bd": _random(rng, width, scale=0.1),
        "split": np.array([tokens, heads, depth], np.int64),
        "join": np.array([tokens, width], np.int64),
        "scale": np.array(1 / np.sqrt(depth), np.float32),
        "sqrt2": np.array(np.sqrt(2), np.float32),
        "one": np.array(1, np.float32),
        "half": np.array(0.5, np.float32),
    }
    n = helper.make_node
    nodes = [
        n("LayerNormalization", ["x", "g1", "h1"], ["n1"], axis=-1),
        n("MatMul", ["n1", "wqkv"], ["qkv0"]),
        n("Add", ["qkv0", "bqkv"], ["qkv"]),
        n("Split", ["qkv"], ["q0", "k0", "v0"], axis=1),
    ]
    for name, order in (("q", [1, 0, 2]), ("k", [1, 2, 0]), ("v", [1, 0, 2])):
        nodes.append(n("Reshape", [f"{name}0", "split"], [f"{name}1"]))
        nodes.append(n("Transpose", [f"{name}1"], [name], perm=order))
    nodes += [
        n("MatMul", ["q", "k"], ["s0"]),
        n("Mul", ["s0", "scale"], ["s"]),
        n("Softmax", ["s"], ["a"], axis=-1),
        n("MatMul", ["a", "v"], ["o0"]),
        n("Transpose", ["o0"], ["o1"], perm=[1, 0, 2]),
        n("Reshape", ["o1", "join"], ["o2"]),
        n("MatMul", ["o2", "wo"], ["o3"]),
        n("Add", ["o3", "bo"], ["o4"]),
        n("Add", ["o4", "x"], ["r1"]),
        n("LayerNormalization", ["r1", "g2", "h2"], ["n2"], axis=-1),
        n("MatMul", ["n2", "wu"], ["u0"]),
        n("Add", ["u0", "bu"], ["u"]),
        n("Div", ["u", "sqrt2"], ["e0"]),
        n("Erf", ["e0"], ["e1"]),
        n("Add", ["e1", "one"], ["e2"]),
        n("Mul", ["u", "e2"], ["e3"]),
        n("Mul", ["e3", "half"], ["gelu"]),
        n("MatMul", ["gelu", "wd"], ["d0"]),
        n("Add", ["d0", "bd"], ["d"]),
        n("Add", ["d", "r1"], ["y"]),
    ]
    shape = (tokens, width)
    return make(nodes, {"x": (TensorProto.FLOAT, shape)}, {"y": (TensorProto.FLOAT, shape)}, weights)


def two_outputs(rng: np.random.Generator) -> onnx.ModelProto:
    """Outputs of two types, one of which is an input passed through."""
    n = helper.make_node
    nodes = [
        n("MatMul", ["x", "w"], ["scores"]),
        n("ArgMax", ["scores"], ["top"], axis=1, keepdims=0),
        n("Identity", ["x"], ["same"]),
    ]
    outputs = {
        "scores": (TensorProto.FLOAT, (3, 7)),
        "top": (TensorProto.INT64, (3,)),
        "same": (TensorProto.FLOAT, (3, 5)),
    }
    return make(nodes, {"x": (TensorProto.FLOAT, (3, 5))}, outputs, {"w": _random(rng, 5, 7)})


def token_embedding(rng: np.random.Generator) -> onnx.ModelProto:
    """A table of vectors, looked up by int64 token numbers and averaged."""
    n = helper.make_node
    nodes = [
        n("Gather", ["table", "tokens"], ["vectors"], axis=0),
        n("ReduceMean", ["vectors"], ["mean"], axes=[1], keepdims=0),
    ]
    inputs = {"tokens": (TensorProto.INT64, (2, 6))}
    return make(nodes, inputs, {"mean": (TensorProto.FLOAT, (2, 9))}, {"table": _random(rng, 50, 9, scale=1.0)})


def recurrent(
    rng: np.random.Generator, op: str, direction: str = "forward", layout: int = 0, **attributes: object
) -> onnx.ModelProto:
    """One LSTM, GRU or RNN over five steps, with biases and initial states, and with all of its outputs."""
    gates = {"LSTM": 4, "GRU": 3, "RNN": 1}[op]
    directions = 2 if direction == "bidirectional" else 1
    steps, batch, size, hidden = 5, 2, 3, 4
    weights = {
        "w": _random(rng, directions, gates * hidden, size),
        "r": _random(rng, directions, gates * hidden, hidden),
        "b": _random(rng, directions, 2 * gates * hidden, scale=0.2),
    }
    state = (batch, directions, hidden) if layout else (directions, batch, hidden)
    inputs = {"x": (TensorProto.FLOAT, (batch, steps, size) if layout else (steps, batch, size))}
    inputs["h0"] = (TensorProto.FLOAT, state)
    full = (batch, steps, directions, hidden) if layout else (steps, directions, batch, hidden)
    outputs: dict[str, tuple[int, Dims]] = {"y": (TensorProto.FLOAT, full), "h": (TensorProto.FLOAT, state)}
    operands = ["x", "w", "r", "b", "", "h0"]
    if op == "LSTM":
        inputs["c0"] = (TensorProto.FLOAT, state)
        outputs["c"] = (TensorProto.FLOAT, state)
        operands.append("c0")
    node = helper.make_node(
        op,
        operands,
        list(outputs),
        name="recurrent",
        hidden_size=hidden,
        direction=direction,
        layout=layout,
        **attributes,
    )
    return make([node], inputs, outputs, weights)


def decoder(rng: np.random.Generator, layers: int = 2, heads: int = 2, length: int = 128) -> onnx.ModelProto:
    """A language model that makes a token at a time: keys and values are caches; each step writes a row into them."""
    width, vocabulary = 16 * heads, 48
    cache = (1, heads, length, 16)
    n = helper.make_node
    weights: dict[str, np.ndarray] = {
        "embedding": _random(rng, vocabulary, width, scale=1.0),
        "positions": _random(rng, length, width, scale=0.5),
        "head": _random(rng, width, vocabulary),
        "places": np.arange(length, dtype=np.int64),
        "split": np.asarray([1, 1, heads, 16], np.int64),
        "join": np.asarray([1, 1, width], np.int64),
        "far": np.float32(-1e9),
        "scale": np.float32(0.25),
    }
    nodes = [
        n("Gather", ["embedding", "token"], ["e"]),
        n("Gather", ["positions", "position"], ["p"]),
        n("Add", ["e", "p"], ["h0"]),  # [1, 1, width]
        n("LessOrEqual", ["places", "position"], ["seen"]),
    ]
    inputs: dict[str, tuple[int, Dims]] = {"token": (TensorProto.INT64, (1, 1)), "position": (TensorProto.INT64, (1,))}
    outputs: dict[str, tuple[int, Dims]] = {}
    for i in range(layers):
        for part in "qkvo":
            weights[f"w{part}{i}"] = _random(rng, width, width)
        for part in "qkv":
            nodes += [
                n("MatMul", [f"h{i}", f"w{part}{i}"], [f"{part}{i}_flat"]),
                n("Reshape", [f"{part}{i}_flat", "split"], [f"{part}{i}_rows"]),
                n("Transpose", [f"{part}{i}_rows"], [f"{part}{i}"], perm=[0, 2, 1, 3]),
            ]
        for part, kind in (("k", "key"), ("v", "value")):
            past, present = f"past_key_values.{i}.{kind}", f"present.{i}.{kind}"
            inputs[past], outputs[present] = (TensorProto.FLOAT, cache), (TensorProto.FLOAT, cache)
            nodes.append(n("TensorScatter", [past, f"{part}{i}", "position"], [present], axis=2))
        nodes += [
            n("Transpose", [f"present.{i}.key"], [f"kt{i}"], perm=[0, 1, 3, 2]),
            n("MatMul", [f"q{i}", f"kt{i}"], [f"raw{i}"]),
            n("Mul", [f"raw{i}", "scale"], [f"scaled{i}"]),
            n("Where", ["seen", f"scaled{i}", "far"], [f"masked{i}"]),
            n("Softmax", [f"masked{i}"], [f"share{i}"], axis=-1),
            n("MatMul", [f"share{i}", f"present.{i}.value"], [f"mixed{i}"]),
            n("Transpose", [f"mixed{i}"], [f"rows{i}"], perm=[0, 2, 1, 3]),
            n("Reshape", [f"rows{i}", "join"], [f"joined{i}"]),
            n("MatMul", [f"joined{i}", f"wo{i}"], [f"attended{i}"]),
            n("Add", [f"h{i}", f"attended{i}"], [f"h{i + 1}"]),
        ]
    nodes.append(n("MatMul", [f"h{layers}", "head"], ["logits"]))
    outputs["logits"] = (TensorProto.FLOAT, (1, 1, vocabulary))  # not the first one, as some exporters have it
    return make(nodes, inputs, outputs, weights, opset=24, name="decoder")
