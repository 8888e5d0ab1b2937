"""ONNX to Relax with TVM's own importer, watched node by node so that an error names the node that caused it."""

from __future__ import annotations

import contextlib
import io
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import onnx
from tvm import relax
from tvm.ir import GenericConst, IRModule, Tuple
from tvm.relax.frontend.onnx import onnx_frontend

from . import onnx_operators
from .errors import BuildError
from .onnx_load import node_label
from .relax_simplify import is_static

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
            importer.give_up()
            raise BuildError(error.message, node=error.node or importer.current_label, hint=error.hint) from error
        except Exception as error:
            importer.give_up()
            raise BuildError(f"the model cannot be imported: {summary(error)}", node=importer.current_label) from error
    return Imported(module, labels)


def importable_operators() -> frozenset[str]:
    """The operators that the importer has a rule for."""
    return frozenset(onnx_frontend._get_convert_map()) | {"If", "Constant"} | onnx_operators.importable()


def _refuse_unknown_operators(model: onnx.ModelProto, labels: Sequence[str]) -> None:
    known = importable_operators()
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


class _Importer(onnx_frontend.ONNXGraphImporter):
    """TVM's importer, which also knows the node it is at and names its results after it."""

    def __init__(self, labels: Sequence[str]) -> None:
        super().__init__({}, {})
        self.bb = _Builder()
        self._labels = labels
        self._index: int | None = None

    @property
    def current_label(self) -> str | None:
        return None if self._index is None else self._labels[self._index]

    def give_up(self) -> None:
        """Ends the block that an error left open; TVM complains about those on standard error."""
        with contextlib.suppress(Exception):
            self.bb._end_block()

    def _construct_nodes(self, graph: onnx.GraphProto) -> None:
        super()._construct_nodes(_Watched(self._watch(graph.node)))
        self._index = None

    def _check_for_unsupported_ops(self, graph: onnx.GraphProto) -> None:
        """Nothing: ``import_model`` has checked, and knows the operators that are imported here."""

    def _watch(self, nodes: Sequence[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
        for index, node in enumerate(nodes):
            self._index = index
            yield node

    def _convert_operator(self, op_name: str, inputs: Any, attrs: dict[str, Any], opset: int) -> relax.Expr:
        converted = onnx_operators.convert(op_name, inputs, attrs, self.bb)
        if converted is None:
            result = super()._convert_operator(op_name, inputs, attrs, opset)
        else:
            result = self.bb.normalize(converted)
        hint = f"n{self._index}_{op_name}"
        if isinstance(result, Tuple):
            return Tuple([self._named(field, hint) for field in result.fields])
        return self._named(result, hint)

    def _named(self, value: Any, hint: str) -> Any:
        if not isinstance(value, relax.Expr) or not isinstance(value.ty, relax.TensorType):
            return value
        if not is_static(value.ty):
            raise BuildError(
                f"the shape of its result is not known at build time ({value.ty})",
                hint="modules have fixed shapes: cut the model before this node, or fix the size in the model",
            )
        if isinstance(value, relax.Var | GenericConst):
            return value
        return self.bb.emit(value, name_hint=hint)


class _Builder(relax.BlockBuilder):
    """A block builder that lets an output keep the name of the node that computes it."""

    def emit_output(self, output: Any, name_hint: str = "") -> relax.Var:
        is_named = isinstance(output, relax.Var) and _NODE_MARK.match(output.name)
        return super().emit_output(output, output.name if is_named else name_hint)


class _Watched:
    """Stands in for a graph whose nodes are looked at one by one."""

    def __init__(self, nodes: Iterator[onnx.NodeProto]) -> None:
        self.node = nodes
