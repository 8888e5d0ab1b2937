"""ONNX to Relax with TVM's own importer, watched node by node so that an error names the node that caused it."""

from __future__ import annotations

import contextlib
import functools
import io
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from tvm import relax
from tvm.ir import GenericConst, IRModule, Tuple
from tvm.relax.frontend.onnx import onnx_frontend

from .errors import BuildError
from .onnx_load import node_label
from .relax_simplify import shape_of

# The importer stacks the operands of these and reduces the stack; taking them in pairs moves no data.
_PAIRWISE = {"Max": relax.op.maximum, "Min": relax.op.minimum, "Sum": relax.op.add}

_NODE_MARK = re.compile(r"^n(\d+)_")


@dataclass(frozen=True)
class Imported:
    """The Relax module of a model, and the label of each ONNX node by its position."""

    module: IRModule
    labels: tuple[str, ...]

    def label_of(self, variable: str) -> str | None:
        """The ONNX node that a Relax variable holds the result of."""
        match = _NODE_MARK.match(variable)
        return self.labels[int(match[1])] if match else None


def import_model(model: onnx.ModelProto) -> Imported:
    """Imports a simplified model. Every Relax variable is named ``n<node>_<operator>``."""
    labels = tuple(node_label(node, index) for index, node in enumerate(model.graph.node))
    _refuse_unknown_operators(model, labels)
    opset = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), 1)
    importer = _Importer(labels)
    # The importer prints to standard output, which belongs to results.
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            module = importer.from_onnx(model.graph, opset)
        except BuildError as error:
            raise BuildError(error.message, node=error.node or importer.current_label, hint=error.hint) from error
        except Exception as error:
            raise BuildError(f"the model cannot be imported: {summary(error)}", node=importer.current_label) from error
    return Imported(module, labels)


def _refuse_unknown_operators(model: onnx.ModelProto, labels: Sequence[str]) -> None:
    known = onnx_frontend._get_convert_map().keys() | {"If", "Constant"}
    unknown = [index for index, node in enumerate(model.graph.node) if node.op_type not in known]
    if unknown:
        names = sorted({model.graph.node[index].op_type for index in unknown})
        opset = ", ".join(f"{o.domain or 'ai.onnx'} {o.version}" for o in model.opset_import)
        raise BuildError(
            f"this operator cannot be compiled (operator set {opset})",
            node=labels[unknown[0]],
            hint=f"replace it in the model; operators that cannot be compiled here: {', '.join(names)}",
        )


def summary(error: BaseException) -> str:
    """The line of a TVM error that says what is wrong."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    telling = [line for line in lines if not line.startswith(("File ", "Traceback", "^"))]
    return (telling or lines)[-1 if len(telling) == 1 else 0][:400]


def _converted(op_name: str, inputs: Any, attrs: dict[str, Any]) -> relax.Expr | None:
    """The operators that are imported better here; None for all others."""
    if op_name in _PAIRWISE and inputs:
        return functools.reduce(_PAIRWISE[op_name], list(inputs))
    if op_name == "Gather" and isinstance(inputs[1], GenericConst):
        return _gather(inputs[0], inputs[1].value.numpy(), int(attrs.get("axis", 0)))
    return None


def _gather(data: relax.Expr, indices: np.ndarray, axis: int) -> relax.Expr | None:
    """Gather with known indices, which the importer would normalise at run time."""
    shape = shape_of(data)
    if shape is None or not shape:
        return None
    size = shape[axis]
    if np.any((indices < -size) | (indices >= size)):
        raise BuildError(f"an index is out of range: the axis has {size} elements")
    return relax.op.take(
        data, relax.const(np.where(indices < 0, indices + size, indices), "int64"), axis=axis % len(shape)
    )


class _Importer(onnx_frontend.ONNXGraphImporter):
    """TVM's importer, which also knows the node it is at and names its results after it."""

    def __init__(self, labels: Sequence[str]) -> None:
        super().__init__({}, {})
        self._labels = labels
        self._index: int | None = None

    @property
    def current_label(self) -> str | None:
        return None if self._index is None else self._labels[self._index]

    def _construct_nodes(self, graph: onnx.GraphProto) -> None:
        super()._construct_nodes(_Watched(self._watch(graph.node)))
        self._index = None

    def _watch(self, nodes: Sequence[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
        for index, node in enumerate(nodes):
            self._index = index
            yield node

    def _convert_operator(self, op_name: str, inputs: Any, attrs: dict[str, Any], opset: int) -> relax.Expr:
        converted = _converted(op_name, inputs, attrs)
        if converted is None:
            result = super()._convert_operator(op_name, inputs, attrs, opset)
        else:
            result = self.bb.normalize(converted)
        hint = f"n{self._index}_{op_name}"
        if isinstance(result, Tuple):
            return Tuple([self._named(field, hint) for field in result.fields])
        return self._named(result, hint)

    def _named(self, value: Any, hint: str) -> Any:
        if not isinstance(value, relax.Expr) or isinstance(value, relax.Var | GenericConst | relax.ShapeExpr):
            return value
        if not isinstance(value.ty, relax.TensorType):
            return value
        return self.bb.emit(value, name_hint=hint)


class _Watched:
    """Stands in for a graph whose nodes are looked at one by one."""

    def __init__(self, nodes: Iterator[onnx.NodeProto]) -> None:
        self.node = nodes
