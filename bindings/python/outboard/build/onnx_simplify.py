"""Makes an ONNX graph plain before it is imported: everything that is known at build time becomes a constant.

Shapes of fixed-size tensors, arithmetic on them, slices of weights and branches with a constant condition all
disappear; what is left computes with the inputs. Values are computed by ONNX's own reference evaluator, so this step
shares no code with the runtimes that a module is compared with.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx
from onnx import TensorProto, helper, inliner, numpy_helper, shape_inference
from onnx.reference import ReferenceEvaluator

from .errors import BuildError
from .onnx_load import node_label

_MAX_ROUNDS = 16
_SMALL = 1 << 16
"""Bytes a folded result may always have; larger ones may not be larger than what they are computed from."""

_RANDOM = frozenset(
    ("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Multinomial")
)


def simplify(model: onnx.ModelProto) -> onnx.ModelProto:
    """A plain copy of ``model``, whose inputs already have fixed shapes."""
    if model.functions:
        model = inliner.inline_local_functions(model)
    _constants_to_initialisers(model)
    for _ in range(_MAX_ROUNDS):
        model = infer_shapes(model)
        if not (_inline_constant_branches(model) | _fold(model)):
            break
    prune(model)
    return model


def infer_shapes(model: onnx.ModelProto) -> onnx.ModelProto:
    """``model`` with the shapes of its intermediate tensors, worked out anew from those of its inputs."""
    inputs = {value.name for value in model.graph.input}
    del model.graph.value_info[:]
    for output in model.graph.output:
        if output.name not in inputs and output.type.HasField("tensor_type"):
            output.type.tensor_type.ClearField("shape")
    # A node that does not fit is left without a shape here; the import names it.
    return shape_inference.infer_shapes(model, data_prop=True)


def known_shapes(model: onnx.ModelProto) -> dict[str, tuple[int, ...]]:
    """The shape of every tensor whose dimensions are all known."""
    shapes = {}
    graph = model.graph
    for value in (*graph.input, *graph.value_info, *graph.output):
        tensor = value.type.tensor_type
        if tensor.HasField("shape") and all(d.HasField("dim_value") for d in tensor.shape.dim):
            shapes[value.name] = tuple(d.dim_value for d in tensor.shape.dim)
    shapes.update((tensor.name, tuple(tensor.dims)) for tensor in graph.initializer)
    return shapes


def subgraphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """The graphs that a control-flow node holds."""
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            yield attribute.g
        elif attribute.type == onnx.AttributeProto.GRAPHS:
            yield from attribute.graphs


def names_read(node: onnx.NodeProto) -> set[str]:
    """Every tensor that a node reads, also from within the graphs it holds."""
    names = {name for name in node.input if name}
    for graph in subgraphs(node):
        names.update(output.name for output in graph.output)
        for inner in graph.node:
            names |= names_read(inner)
    return names


def prune(model: onnx.ModelProto) -> None:
    """Drops nodes and initialisers that no output depends on."""
    graph = model.graph
    needed = {output.name for output in graph.output}
    kept = []
    for node in reversed(graph.node):
        if needed.intersection(node.output):
            kept.append(node)
            needed |= names_read(node)
    replace_nodes(graph, list(reversed(kept)))
    initialisers = [tensor for tensor in graph.initializer if tensor.name in needed]
    del graph.initializer[:]
    graph.initializer.extend(initialisers)


def replace_nodes(graph: onnx.GraphProto, nodes: list[onnx.NodeProto]) -> None:
    """Makes ``nodes`` the nodes of the graph."""
    copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(copies)


def _constants_to_initialisers(model: onnx.ModelProto) -> None:
    kept = []
    for node in model.graph.node:
        value = _constant_value(node)
        if value is None:
            kept.append(node)
        else:
            model.graph.initializer.append(numpy_helper.from_array(value, node.output[0]))
    replace_nodes(model.graph, kept)


def _constant_value(node: onnx.NodeProto) -> np.ndarray | None:
    if node.op_type != "Constant" or node.domain not in ("", "ai.onnx") or len(node.attribute) != 1:
        return None
    attribute = node.attribute[0]
    value = helper.get_attribute_value(attribute)
    if attribute.name == "value":
        return numpy_helper.to_array(value)
    if attribute.name in ("value_float", "value_floats"):
        return np.asarray(value, dtype=np.float32)
    if attribute.name in ("value_int", "value_ints"):
        return np.asarray(value, dtype=np.int64)
    return None


def _fold(model: onnx.ModelProto) -> bool:
    """Computes every node whose inputs are constants. True when there was one."""
    graph = model.graph
    shapes = known_shapes(model)
    values = {tensor.name: tensor for tensor in graph.initializer} | _empty_tensors(graph, shapes)
    outputs = {output.name for output in graph.output}
    kept, folded = [], False
    for node in graph.node:
        is_output = bool(outputs.intersection(node.output))
        results = None
        if not (is_output and node.op_type == "Identity"):
            results = _shape_of(node, shapes) or _evaluate(node, values, model)
        if results is None:
            kept.append(node)
            continue
        folded = True
        for name, result in zip(node.output, results, strict=False):
            if not name:
                continue
            # An output stays the result of a node: one that hands the constant on.
            constant = f"{name}/constant" if name in outputs else name
            values[constant] = numpy_helper.from_array(np.asarray(result), constant)
            graph.initializer.append(values[constant])
            if constant != name:
                kept.append(helper.make_node("Identity", [constant], [name], name=node.name))
    if folded:
        replace_nodes(graph, kept)
    return folded


def _empty_tensors(graph: onnx.GraphProto, shapes: dict[str, tuple[int, ...]]) -> dict[str, onnx.TensorProto]:
    """Tensors without elements: their value is known, whoever gives it."""
    empty = {}
    for value in (*graph.input, *graph.value_info):
        elem_type = value.type.tensor_type.elem_type
        if 0 in shapes.get(value.name, ()) and elem_type not in (TensorProto.UNDEFINED, TensorProto.STRING):
            array = np.empty(shapes[value.name], helper.tensor_dtype_to_np_dtype(elem_type))
            empty[value.name] = numpy_helper.from_array(array, value.name)
    return empty


def _shape_of(node: onnx.NodeProto, shapes: dict[str, tuple[int, ...]]) -> list[np.ndarray] | None:
    if node.op_type not in ("Shape", "Size") or node.domain not in ("", "ai.onnx") or node.input[0] not in shapes:
        return None
    shape = np.asarray(shapes[node.input[0]], dtype=np.int64)
    if node.op_type == "Size":
        return [np.asarray(np.prod(shape, dtype=np.int64))]
    ends = {a.name: a.i for a in node.attribute}
    return [shape[ends.get("start", 0) : ends.get("end", len(shape))]]


def _evaluate(
    node: onnx.NodeProto, values: dict[str, onnx.TensorProto], model: onnx.ModelProto
) -> list[np.ndarray] | None:
    """The outputs of a node whose inputs are all constants; None when it cannot or should not be computed now."""
    names = [name for name in node.input if name]
    if node.op_type in _RANDOM or not all(name in values for name in names) or any(True for _ in subgraphs(node)):
        return None
    arrays = {name: numpy_helper.to_array(values[name]) for name in names}
    graph = helper.make_graph(
        [node],
        "constant",
        [helper.make_tensor_value_info(name, values[name].data_type, arrays[name].shape) for name in arrays],
        [onnx.ValueInfoProto(name=name) for name in node.output if name],
    )
    single = helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)
    try:
        results = ReferenceEvaluator(single).run(None, arrays)
    except Exception:  # whatever the evaluator lacks is computed on the device instead
        return None
    if not all(isinstance(result, np.ndarray | np.generic) for result in results):
        return None
    size = sum(np.asarray(result).nbytes for result in results)
    if size > _SMALL and size > sum(array.nbytes for array in arrays.values()):
        return None
    by_name = dict(zip((name for name in node.output if name), results, strict=True))
    return [by_name.get(name, np.empty(0)) for name in node.output]


def _inline_constant_branches(model: onnx.ModelProto) -> bool:
    """Replaces each If whose condition is a constant by the nodes of the branch it takes."""
    graph = model.graph
    values = {tensor.name: tensor for tensor in graph.initializer}
    nodes: list[onnx.NodeProto] = []
    changed = False
    for index, node in enumerate(graph.node):
        if node.op_type != "If" or node.input[0] not in values:
            nodes.append(node)
            continue
        taken = bool(np.all(numpy_helper.to_array(values[node.input[0]])))
        branch = next(a.g for a in node.attribute if a.name == ("then_branch" if taken else "else_branch"))
        if len(branch.output) != len(node.output):
            raise BuildError("its branch gives another number of outputs", node=node_label(node, index))
        nodes.extend(_renamed_branch(graph, node, branch, f"branch{index}"))
        changed = True
    if changed:
        replace_nodes(graph, nodes)
        _constants_to_initialisers(model)
    return changed


def _renamed_branch(
    graph: onnx.GraphProto, node: onnx.NodeProto, branch: onnx.GraphProto, prefix: str
) -> list[onnx.NodeProto]:
    """The nodes of a branch under names of their own; its initialisers go to ``graph``."""
    local = {tensor.name for tensor in branch.initializer}
    local.update(name for inner in branch.node for name in inner.output if name)
    names = {name: f"{node.output[0]}/{prefix}/{name}" for name in local}
    copies = [renamed(inner, names) for inner in branch.node]
    for tensor in branch.initializer:
        copy = graph.initializer.add()
        copy.CopyFrom(tensor)
        copy.name = names[tensor.name]
    for given, inner in zip(node.output, branch.output, strict=True):
        copies.append(helper.make_node("Identity", [names.get(inner.name, inner.name)], [given]))
    return copies


def renamed(node: onnx.NodeProto, names: dict[str, str]) -> onnx.NodeProto:
    """A copy of a node, and of the graphs in it, whose tensors have other names."""
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    copy.input[:] = [names.get(name, name) for name in node.input]
    copy.output[:] = [names.get(name, name) for name in node.output]
    for graph in subgraphs(copy):
        inner = [renamed(child, names) for child in graph.node]
        replace_nodes(graph, inner)
        for output in graph.output:
            output.name = names.get(output.name, output.name)
    return copy
