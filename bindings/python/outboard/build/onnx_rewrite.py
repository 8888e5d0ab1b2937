"""Operators that TVM's importer lacks, written out in operators that it has."""

from __future__ import annotations

from collections.abc import Callable

import onnx

from . import onnx_rnn
from .errors import BuildError
from .onnx_load import node_label
from .onnx_simplify import known_shapes, replace_nodes

Shapes = dict[str, tuple[int, ...]]
Rewrite = Callable[[onnx.NodeProto, Shapes], list[onnx.NodeProto]]

_REWRITES: dict[str, Rewrite] = {
    "LSTM": onnx_rnn.lstm,
    "GRU": onnx_rnn.gru,
    "RNN": onnx_rnn.rnn,
}


def rewrite(model: onnx.ModelProto) -> bool:
    """Writes out every operator there is a rewrite for, in ``model`` itself. True when there was one."""
    shapes = known_shapes(model)
    opset = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), 1)
    nodes: list[onnx.NodeProto] = []
    changed = False
    for index, node in enumerate(model.graph.node):
        function = _REWRITES.get(node.op_type) if node.domain in ("", "ai.onnx") else None
        if function is None:
            nodes.append(node)
            continue
        if opset < 13:
            raise BuildError(
                f"this operator is compiled from operator set 13 on, and the model has {opset}",
                node=node_label(node, index),
                hint="convert the model with onnx.version_converter",
            )
        try:
            nodes.extend(function(node, shapes))
        except BuildError as error:
            raise BuildError(error.message, node=node_label(node, index), hint=error.hint) from error
        changed = True
    if changed:
        replace_nodes(model.graph, nodes)
    return changed
