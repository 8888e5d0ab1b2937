"""Operators that TVM's importer lacks or gets wrong, written out in operators that it has."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import onnx
from onnx import defs, inliner

from . import onnx_arithmetic, onnx_loops, onnx_norm, onnx_quantised, onnx_resize, onnx_rnn, onnx_selection
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
    "STFT": onnx_arithmetic.stft,
    "Col2Im": onnx_selection.col2im,
    "QLinearMatMul": onnx_quantised.matmul,
    "QLinearConv": onnx_quantised.qlinear_conv,
    "ConvInteger": onnx_quantised.conv_integer,
    "QuantizeLinear": onnx_quantised.blocked,
    "DequantizeLinear": onnx_quantised.blocked,
    "Resize": onnx_resize.resize,
    "Elu": onnx_arithmetic.elu,
    "Dropout": onnx_selection.dropout,
    "TopK": onnx_selection.top_k,
    "OneHot": onnx_selection.one_hot,
    "ReverseSequence": onnx_selection.reverse_sequence,
    "TensorScatter": onnx_selection.tensor_scatter,
    "EyeLike": onnx_selection.eye_like,
    "NonMaxSuppression": onnx_selection.counted,
    "ReduceMax": onnx_selection.bool_extreme,
    "ReduceMin": onnx_selection.bool_extreme,
    "Scan": onnx_loops.scan,
    "Loop": onnx_loops.loop,
}

# Rewrites that hold in every operator set the importer knows; the others use forms that came with operator set 13.
_ANY_OPSET = frozenset(
    (
        "Pow",
        "Mod",
        "EyeLike",
        "NonMaxSuppression",
        "QLinearConv",
        "ConvInteger",
        "Loop",
        "Scan",
        "ReverseSequence",
        "ReduceMax",
        "ReduceMin",
        "Dropout",
        "Resize",
    )
)

_DEFINED = "outboard.defined"
"""The domain of definitions that wait to be put in the place of their nodes."""

# The importer takes these for operators of other domains that share their names.
_MISTAKEN = frozenset(("Attention",))


def rewrite(model: onnx.ModelProto, importable: Collection[str]) -> onnx.ModelProto | None:
    """A plain copy of ``model`` in which every operator that is not ``importable`` is written out; None without any."""
    result: onnx.ModelProto | None = None
    for _ in range(_MOST_ROUNDS):
        current = result or model
        changed = _expand_functions(current, importable)
        if changed is None:
            changed = onnx.ModelProto.FromString(current.SerializeToString())
            if not _rewrite_nodes(changed):
                break
        result = simplify(changed)
    return result


def _expand_functions(model: onnx.ModelProto, importable: Collection[str]) -> onnx.ModelProto | None:
    """Replaces operators that ONNX itself defines by others by their definitions."""
    expanded = [_needs_expansion(node, importable) and _has_definition(node, model) for node in model.graph.node]
    if not any(expanded):
        return None
    model = onnx.ModelProto.FromString(model.SerializeToString())
    found = [(i, node) for i, (node, is_found) in enumerate(zip(model.graph.node, expanded, strict=True)) if is_found]
    for _, node in found:
        _give_defaults(node, model)
    if any(_domain(node) for _, node in found):
        return _expand_by_hand(model, found)
    names = {("", node.op_type) for _, node in found}
    try:
        return inliner.inline_selected_functions(model, sorted(names), inline_schema_functions=True)
    except Exception:  # it cannot deal with operands that are left out
        return _expand_by_hand(model, found)


def _domain(node: onnx.NodeProto) -> str:
    """The domain of a node; empty for ONNX's own."""
    return "" if node.domain == "ai.onnx" else node.domain


def _schema(node: onnx.NodeProto, model: onnx.ModelProto) -> defs.OpSchema | None:
    """What ONNX says about an operator in the version that the model asks for; None for operators it does not know."""
    domain = _domain(node)
    names = (domain,) if domain else ("", "ai.onnx")
    version = next((o.version for o in model.opset_import if o.domain in names), None)
    try:
        return None if version is None else defs.get_schema(node.op_type, version, domain)
    except defs.SchemaError:
        return None


def _give_defaults(node: onnx.NodeProto, model: onnx.ModelProto) -> None:
    """Adds the attributes that a node leaves to their defaults, which definitions refer to."""
    given = {attribute.name for attribute in node.attribute}
    schema = _schema(node, model)
    for name, attribute in schema.attributes.items() if schema else ():
        if name not in given and attribute.default_value.type != onnx.AttributeProto.UNDEFINED:
            node.attribute.add().CopyFrom(attribute.default_value)


def _expand_by_hand(model: onnx.ModelProto, nodes: Sequence[tuple[int, onnx.NodeProto]]) -> onnx.ModelProto:
    """Makes the definitions of nodes functions of the model, and puts those in their place."""
    for index, node in nodes:
        label = node_label(node, index)
        try:
            function = _definition(node, model)
        except Exception as error:
            raise BuildError("ONNX cannot write this operator out in simpler ones", node=label) from error
        function.domain, function.name = _DEFINED, f"{node.op_type}_{index}"
        node.domain, node.op_type = function.domain, function.name
        model.functions.append(function)
    model.opset_import.add(domain=_DEFINED, version=1)
    try:
        expanded = inliner.inline_local_functions(model)
    except Exception as error:
        raise BuildError("ONNX cannot write this operator out in simpler ones", node=label) from error
    imports = [o for o in expanded.opset_import if o.domain != _DEFINED]
    del expanded.opset_import[:]
    expanded.opset_import.extend(imports)
    return expanded


def _definition(node: onnx.NodeProto, model: onnx.ModelProto) -> onnx.FunctionProto:
    """What ONNX defines an operator by, for this node and the types of its operands."""
    schema = _schema(node, model)
    if schema is None:
        raise BuildError("ONNX does not know this operator")
    function = onnx.FunctionProto()
    if schema.has_context_dependent_function:
        types = [_type(name, model).SerializeToString() for name in node.input]
        function.ParseFromString(schema.get_context_dependent_function(node.SerializeToString(), types))
    else:
        function.ParseFromString(schema.function_body.SerializeToString())
    return function


def _type(name: str, model: onnx.ModelProto) -> onnx.TypeProto:
    """The type of a tensor; an empty one for an operand that is left out."""
    graph = model.graph
    for value in (*graph.input, *graph.value_info, *graph.output):
        if value.name == name and name:
            return value.type
    for tensor in graph.initializer:
        if tensor.name == name and name:
            return onnx.helper.make_tensor_type_proto(tensor.data_type, tensor.dims)
    return onnx.TypeProto()


def _needs_expansion(node: onnx.NodeProto, importable: Collection[str]) -> bool:
    if _domain(node):
        return True
    if node.op_type in _REWRITES:
        return False
    if node.op_type not in importable or node.op_type in _MISTAKEN:
        return True
    if node.op_type == "LayerNormalization":
        return len(node.output) > 1
    # TVM normalises along the last axis only.
    return node.op_type == "RMSNormalization" and any(a.name == "axis" and a.i != -1 for a in node.attribute)


def _has_definition(node: onnx.NodeProto, model: onnx.ModelProto) -> bool:
    schema = _schema(node, model)
    return schema is not None and bool(schema.has_function or schema.has_context_dependent_function)


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
