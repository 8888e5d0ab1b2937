"""Writes ONNX nodes: what the rewrites of operators are made with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper


@dataclass
class NodeBuilder:
    """Collects nodes under names that begin with ``prefix``."""

    prefix: str
    nodes: list[onnx.NodeProto] = field(default_factory=list)

    def name(self, what: str) -> str:
        """A name for a value, which no other has."""
        return f"{self.prefix}/{len(self.nodes)}_{what}"

    def add(self, op: str, *inputs: str, to: str | None = None, **attributes: Any) -> str:
        """One node with one output, whose name is returned."""
        name = to or self.name(op)
        self.nodes.append(helper.make_node(op, list(inputs), [name], name=f"{self.prefix}/{op}", **attributes))
        return name

    def split(self, value: str, parts: int, axis: int) -> list[str]:
        """Cuts a value into equal parts."""
        if parts == 1:
            return [value]
        names = [f"{self.prefix}/{len(self.nodes)}_Split_{i}" for i in range(parts)]
        self.nodes.append(helper.make_node("Split", [value], names, name=f"{self.prefix}/Split", axis=axis))
        return names

    def cast(self, value: str, elem_type: int, to: str | None = None) -> str:
        """A value in another element type."""
        name = to or f"{self.prefix}/{len(self.nodes)}_Cast"
        self.nodes.append(helper.make_node("Cast", [value], [name], name=f"{self.prefix}/Cast", to=elem_type))
        return name

    def ints(self, *values: int) -> str:
        return self.constant(np.asarray(values, dtype=np.int64))

    def scalar(self, value: int) -> str:
        """An integer without dimensions."""
        return self.constant(np.asarray(value, dtype=np.int64))

    def floats(self, value: float) -> str:
        return self.constant(np.asarray(value, dtype=np.float32))

    def constant(self, array: np.ndarray) -> str:
        """A constant of any element type."""
        return self.add("Constant", value=numpy_helper.from_array(array))

    def squeeze(self, value: str, axis: int) -> str:
        return self.add("Squeeze", value, self.ints(axis))

    def unsqueeze(self, value: str, axis: int) -> str:
        return self.add("Unsqueeze", value, self.ints(axis))

    def concat(self, values: Sequence[str], axis: int, to: str | None = None) -> str:
        if len(values) == 1:
            return self.add("Identity", values[0], to=to) if to else values[0]
        return self.add("Concat", *values, axis=axis, to=to)
