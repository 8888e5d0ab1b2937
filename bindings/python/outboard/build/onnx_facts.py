"""What is known about the tensors of a graph at build time: what the rewrites of operators decide by."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx
from onnx import helper, numpy_helper

from .errors import BuildError
from .onnx_simplify import known_shapes


@dataclass(frozen=True)
class Facts:
    """Shapes, ONNX element types and values by the names of tensors; a name is missing where the fact is unknown."""

    shapes: dict[str, tuple[int, ...]]
    types: dict[str, int]
    constants: dict[str, onnx.TensorProto]
    opset: int

    @classmethod
    def of(cls, model: onnx.ModelProto) -> Facts:
        """The facts of a model whose shapes are inferred."""
        graph = model.graph
        types = {
            value.name: value.type.tensor_type.elem_type for value in (*graph.input, *graph.value_info, *graph.output)
        }
        types.update((tensor.name, tensor.data_type) for tensor in graph.initializer)
        opset = next((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), 1)
        return cls(known_shapes(model), types, {tensor.name: tensor for tensor in graph.initializer}, opset)

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a tensor; refuses one that is not known."""
        if name not in self.shapes:
            raise BuildError(f'the shape of "{name}" is not known at build time')
        return self.shapes[name]

    def constant(self, name: str) -> np.ndarray | None:
        """The value of a tensor, or None when it is computed at run time."""
        return numpy_helper.to_array(self.constants[name]) if name in self.constants else None

    def dtype(self, name: str) -> np.dtype:
        """The element type of a tensor; refuses one that is not known."""
        if not self.types.get(name):
            raise BuildError(f'the element type of "{name}" is not known at build time')
        return np.dtype(helper.tensor_dtype_to_np_dtype(self.types[name]))


def attributes(node: onnx.NodeProto) -> dict[str, object]:
    """The attributes of a node by name."""
    return {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}


def operand(node: onnx.NodeProto, index: int) -> str | None:
    """The name of an operand; None when it is left out."""
    return node.input[index] if index < len(node.input) and node.input[index] else None
