"""Operators that TVM's importer lacks or gets wrong, written out in operators that it has."""

from __future__ import annotations

from collections.abc import Callable, Collection

import onnx
from onnx import defs, inliner

from . import onnx_arithmetic, onnx_loops, onnx_norm, onnx_quantised, onnx_rnn
from .errors import BuildError
from .onnx_facts import Facts
from .onnx_load import node_label
from .onnx_simplify import replace_nodes, simplify

_MOST_ROUNDS = 8
"""How deep operators may be defined by operators that are written out themselves."""

Rewrite = Callable[[onnx.NodeProto, Facts], list[onnx.NodeProto] | None]

# Each gives the nodes that take the place of one node, or None to leave it as it is.
_REWRITES: dict[str, Rewrite] = {
    "LSTM": lambda node, facts: onnx_rnn.lstm(node, facts.shapes),
    "GRU": lambda node, facts: onnx_rnn.gru(node, facts.shapes),
    "RNN": lambda node, facts: onnx_rnn.rnn(node, facts.shapes),
    "BatchNormalization": lambda node, facts: onnx_norm.batch_normalization(node, facts.shapes),
    "CumSum": onnx_arithmetic.cumulative,
    "CumProd": onnx_arithmetic.cumulative,
    "LpNormalization": onnx_arithmetic.lp_normalization,
    "Pow": onnx_arithmetic.power,
    "Mod": onnx_arithmetic.remainder,
    "DFT": onnx_arithmetic.dft,
    "QLinearMatMul": onnx_quantised.matmul,
    "QLinearConv": onnx_quantised.qlinear_conv,
    "ConvInteger": onnx_quantised.conv_integer,
    "Scan": onnx_loops.scan,
    "Loop": onnx_loops.loop,
}

# Rewrites that hold in every operator set the importer knows; the others use forms that came with operator set 13.
_ANY_OPSET = frozenset(("Pow", "Mod", "QLinearConv", "ConvInteger", "Loop", "Scan"))

# The importer takes these for operators of other domains that share their names.
_MISTAKEN = frozenset(("Attention",))


def rewrite(model: onnx.ModelProto, importable: Collection[str]) -> onnx.ModelProto | None:
    """A plain copy of ``model`` in which every operator that is not ``importable`` is written out; None without any."""
    result: onnx.ModelProto | None = None
    for _ in range(_MOST_ROUNDS):
        current = result or model
        expanded = _expand_functions(current, importable)
        rewritten = onnx.ModelProto.FromString((expanded or current).SerializeToString())
        if not _rewrite_nodes(rewritten) and expanded is None:
            break
        result = simplify(rewritten)
    return result


def _expand_functions(model: onnx.ModelProto, importable: Collection[str]) -> onnx.ModelProto | None:
    """Replaces operators that ONNX itself defines by others by their definitions."""
    opset = _opset(model)
    names = {
        node.op_type
        for node in model.graph.node
        if node.domain in ("", "ai.onnx")
        and _needs_expansion(node, importable)
        and _has_definition(node.op_type, opset)
    }
    if not names:
        return None
    try:
        return inliner.inline_selected_functions(model, [("", name) for name in names], inline_schema_functions=True)
    except Exception as error:
        index = next(i for i, node in enumerate(model.graph.node) if node.op_type in names)
        label = node_label(model.graph.node[index], index)
        raise BuildError("ONNX cannot write this operator out in simpler ones", node=label) from error


def _needs_expansion(node: onnx.NodeProto, importable: Collection[str]) -> bool:
    if node.op_type in _REWRITES:
        return False
    extra_outputs = node.op_type == "LayerNormalization" and len(node.output) > 1
    return node.op_type not in importable or node.op_type in _MISTAKEN or extra_outputs


def _has_definition(op_type: str, opset: int) -> bool:
    try:
        schema = defs.get_schema(op_type, opset)
    except defs.SchemaError:
        return False
    return bool(schema.has_function or schema.has_context_dependent_function)


def _opset(model: onnx.ModelProto) -> int:
    return next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), 1)


def _rewrite_nodes(model: onnx.ModelProto) -> bool:
    facts = Facts.of(model)
    nodes: list[onnx.NodeProto] = []
    changed = False
    for index, node in enumerate(model.graph.node):
        function = _REWRITES.get(node.op_type) if node.domain in ("", "ai.onnx") else None
        try:
            written_out = function(node, facts) if function else None
        except BuildError as error:
            raise BuildError(error.message, node=node_label(node, index), hint=error.hint) from error
        if written_out is None:
            nodes.append(node)
            continue
        if facts.opset < 13 and node.op_type not in _ANY_OPSET:
            raise BuildError(
                f"this operator is compiled from operator set 13 on, and the model has {facts.opset}",
                node=node_label(node, index),
                hint="convert the model with onnx.version_converter",
            )
        nodes.extend(written_out)
        changed = True
    if changed:
        replace_nodes(model.graph, nodes)
    return changed
