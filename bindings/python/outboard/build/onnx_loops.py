"""Scan, and Loop with a known count: written out, one copy of the body for each turn."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import helper, numpy_helper

from .errors import BuildError
from .onnx_facts import Facts, attributes, operand
from .onnx_nodes import NodeBuilder
from .onnx_simplify import renamed

_MOST_TURNS = 256


def scan(node: onnx.NodeProto, facts: Facts) -> list[onnx.NodeProto]:
    """Scan of operator set 9 and later: slices of the inputs go in, slices of the outputs are put together."""
    options = attributes(node)
    body: onnx.GraphProto = options["body"]  # type: ignore[assignment]
    if facts.opset < 9:
        raise BuildError("Scan with a batch dimension (operator set 8) cannot be compiled")
    scanned = int(str(options["num_scan_inputs"]))
    states, inputs = list(node.input[: len(node.input) - scanned]), node.input[len(node.input) - scanned :]
    outputs = len(body.output) - len(states)
    in_axes = _numbers(options, "scan_input_axes", scanned)
    in_backwards = _numbers(options, "scan_input_directions", scanned)
    out_axes = _numbers(options, "scan_output_axes", outputs)
    out_backwards = _numbers(options, "scan_output_directions", outputs)
    shapes = [facts.shape(name) for name in inputs]
    turns = _turns({shape[axis] for shape, axis in zip(shapes, in_axes, strict=True)})
    g = NodeBuilder(node.name or node.output[0])
    collected: list[list[str]] = [[] for _ in range(outputs)]
    for turn in range(turns):
        slices = [
            g.add("Gather", name, g.scalar(turns - 1 - turn if backwards else turn), axis=axis)
            for name, axis, backwards in zip(inputs, in_axes, in_backwards, strict=True)
        ]
        results = _body(g, body, [*states, *slices], turn)
        states = results[: len(states)]
        for parts, result in zip(collected, results[len(states) :], strict=True):
            parts.append(result)
    for parts, backwards in zip(collected, out_backwards, strict=True):
        if backwards:
            parts.reverse()
    _finish(g, node, states, collected, out_axes, facts.opset)
    return g.nodes


def loop(node: onnx.NodeProto, facts: Facts) -> list[onnx.NodeProto]:
    """Loop whose number of turns is known: a constant count, and a condition that stays true."""
    body: onnx.GraphProto = attributes(node)["body"]  # type: ignore[assignment]
    count = facts.constant(node.input[0]) if operand(node, 0) else None
    condition = facts.constant(node.input[1]) if operand(node, 1) else np.asarray(True)
    if count is None or condition is None or not _stays_true(body):
        raise BuildError(
            "how often it turns is known only at run time", hint="give the count as a constant, and a condition of true"
        )
    turns = _turns({int(count.reshape(-1)[0]) if condition.all() else 0})
    states = list(node.input[2:])
    outputs = len(body.output) - 1 - len(states)
    g = NodeBuilder(node.name or node.output[0])
    true = g.constant(np.asarray(True))
    collected: list[list[str]] = [[] for _ in range(outputs)]
    for turn in range(turns):
        results = _body(g, body, [g.scalar(turn), true, *states], turn)[1:]
        states = results[: len(states)]
        for parts, result in zip(collected, results[len(states) :], strict=True):
            parts.append(result)
    _finish(g, node, states, collected, [0] * outputs, facts.opset)
    return g.nodes


def _numbers(options: dict[str, object], name: str, count: int) -> list[int]:
    given: Sequence[int] = options.get(name) or [0] * count  # type: ignore[assignment]
    return [int(number) for number in given]


def _turns(lengths: set[int]) -> int:
    if len(lengths) != 1:
        raise BuildError(f"its inputs are of different lengths: {sorted(lengths)}")
    (turns,) = lengths
    if not 0 < turns <= _MOST_TURNS:
        raise BuildError(f"{turns} turns; 1 to {_MOST_TURNS} can be written out")
    return turns


def _stays_true(body: onnx.GraphProto) -> bool:
    """Whether the condition that a body gives is the one it gets, or a constant that is true."""
    makers = {output: inner for inner in body.node for output in inner.output}
    constants = {tensor.name: tensor for tensor in body.initializer}
    name = body.output[0].name
    while name in makers and makers[name].op_type == "Identity":
        name = makers[name].input[0]
    if name in makers and makers[name].op_type == "Constant":
        value = attributes(makers[name]).get("value")
        return isinstance(value, onnx.TensorProto) and bool(numpy_helper.to_array(value).all())
    if name in constants:
        return bool(numpy_helper.to_array(constants[name]).all())
    return name == body.input[1].name


def _body(g: NodeBuilder, body: onnx.GraphProto, given: Sequence[str], turn: int) -> list[str]:
    """One copy of a body; the names of its outputs."""
    names = dict(zip((value.name for value in body.input), given, strict=True))
    for tensor in body.initializer:
        names[tensor.name] = g.constant(numpy_helper.to_array(tensor))
    local = {name for inner in body.node for name in inner.output if name}
    names.update((name, f"{g.prefix}/turn{turn}/{name}") for name in local)
    g.nodes.extend(renamed(inner, names) for inner in body.node)
    return [names.get(output.name, output.name) for output in body.output]


def _finish(
    g: NodeBuilder,
    node: onnx.NodeProto,
    states: Sequence[str],
    collected: Sequence[Sequence[str]],
    axes: Sequence[int],
    opset: int,
) -> None:
    """Gives the last states and the collected slices the names of the node's outputs."""
    for name, state in zip(node.output, states, strict=False):
        if name:
            g.nodes.append(helper.make_node("Identity", [state], [name]))
    for name, parts, axis in zip(node.output[len(states) :], collected, axes, strict=False):
        if name:
            # The axes of Unsqueeze were an attribute before operator set 13.
            whole = [g.unsqueeze(p, axis) if opset >= 13 else g.add("Unsqueeze", p, axes=[axis]) for p in parts]
            g.concat(whole, axis, to=name)
