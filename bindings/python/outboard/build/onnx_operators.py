"""Operators that are imported here, and forms of operators that are refused, because TVM's importer gets them wrong.

Each function takes the operands and attributes of a node and gives a Relax expression, or None to leave the node to
TVM's importer. A form that would compute something else than ONNX says raises :class:`BuildError`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tvm import relax, te, tirx
from tvm.ir import GenericConst

from . import relax_narrow
from .errors import BuildError
from .relax_simplify import shape_of
from .tensors import DTYPES, dtype_of_onnx

Operands = Sequence[Any]  # Relax expressions; None stands for an operand that is left out
Attributes = dict[str, Any]


def convert(op_name: str, inputs: Operands, attributes: Attributes, builder: relax.BlockBuilder) -> relax.Expr | None:
    """The expression of a node that is imported here; None for all others."""
    if op_name == "BitCast":
        return _bit_cast(inputs, attributes, builder)
    if op_name == "OutboardDecode":
        return relax_narrow.decode(inputs[0], _text(attributes["format"]), builder)
    if op_name == "OutboardEncode":
        saturate, mode = bool(attributes["saturate"]), _text(attributes["round_mode"])
        return relax_narrow.encode(inputs[0], _text(attributes["format"]), saturate, mode, builder)
    function = _OPERATORS.get(op_name)
    return None if function is None else function(list(inputs), attributes)


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _constant(expr: relax.Expr | None) -> np.ndarray | None:
    return expr.value.numpy() if isinstance(expr, GenericConst) else None


def _pairwise(operator: Callable[[relax.Expr, relax.Expr], relax.Expr]) -> Callable[..., relax.Expr]:
    """Max, Min and Sum in pairs; the importer stacks the operands and reduces the stack, which moves all the data."""

    def convert_pairs(inputs: Operands, _: Attributes) -> relax.Expr:
        return functools.reduce(operator, inputs)

    return convert_pairs


def _gather(inputs: Operands, attributes: Attributes) -> relax.Expr | None:
    """Gather with known indices, which the importer would normalise at run time."""
    indices, shape = _constant(inputs[1]), shape_of(inputs[0]) if inputs[0] is not None else None
    if indices is None or not shape:
        return None
    axis = int(attributes.get("axis", 0)) % len(shape)
    if np.any((indices < -shape[axis]) | (indices >= shape[axis])):
        raise BuildError(f"an index is out of range: the axis has {shape[axis]} elements")
    known = np.where(indices < 0, indices + shape[axis], indices)
    return relax.op.take(inputs[0], relax.const(known, "int64"), axis=axis)


def _clip(inputs: Operands, _: Attributes) -> relax.Expr | None:
    """Clip of floats with known bounds; the importer asks at run time whether a bound is a number."""
    x, *bounds = inputs
    if len(bounds) == 0 or str(x.ty.dtype) != "float32":
        return None
    for operator, bound in zip((relax.op.maximum, relax.op.minimum), bounds, strict=False):
        if bound is None:
            continue
        value = _constant(bound)
        if value is None or value.size != 1 or np.isnan(value).any():
            return None
        x = operator(x, relax.const(value.reshape(())))
    return x


def _is_inf(inputs: Operands, attributes: Attributes) -> relax.Expr | None:
    """IsInf, of which the importer knows only the form that finds both infinities."""
    positive, negative = bool(attributes.get("detect_positive", 1)), bool(attributes.get("detect_negative", 1))
    x = inputs[0]
    if positive and negative:
        return None
    dtype = str(x.ty.dtype)
    if not positive and not negative:
        return relax.op.zeros_like(x, "bool")
    return relax.op.equal(x, relax.const(math.inf if positive else -math.inf, dtype))


def _dropout(inputs: Operands, _: Attributes) -> None:
    training = _constant(inputs[2]) if len(inputs) > 2 else None
    ratio = _constant(inputs[1]) if len(inputs) > 1 else None
    known_off = len(inputs) < 3 or inputs[2] is None or (training is not None and not training.any())
    if not known_off and (ratio is None or ratio.any()):
        raise BuildError("dropout in training mode is random, and modules compute the same result every time")


def _resize(inputs: Operands, attributes: Attributes) -> None:
    """Refuses the forms for which TVM computes with other scales than ONNX."""
    if int(attributes.get("antialias", 0)):
        raise BuildError("resizing with antialias cannot be compiled")
    scales = _constant(inputs[2]) if len(inputs) > 2 else None
    shape = shape_of(inputs[0])
    if scales is None or shape is None or scales.size != len(shape):
        return
    exact = [float(np.float32(size)) * float(scale) for size, scale in zip(shape, scales, strict=True)]
    if any(abs(size - round(size)) > 1e-4 for size in exact):
        raise BuildError("resizing to a size that the scales do not give exactly cannot be compiled")


def _refuse_unless(attribute: str, expected: str, default: str) -> Callable[..., None]:
    def check(_: Operands, attributes: Attributes) -> None:
        value = attributes.get(attribute, default)
        text = _text(value)
        if text != expected:
            raise BuildError(f"the form with {attribute}={text} cannot be compiled")

    return check


def importable() -> frozenset[str]:
    """Operators that are imported here and nowhere else."""
    return frozenset(("BitCast", "OutboardDecode", "OutboardEncode"))


def _bit_cast(inputs: Operands, attributes: Attributes, builder: relax.BlockBuilder) -> relax.Expr:
    """BitCast: the same bits as another type of the same width."""
    target = dtype_of_onnx(int(attributes["to"]))
    source = DTYPES.get(str(inputs[0].ty.dtype))
    if target is None or source is None or target.bits != source.bits or target.name == "bool":
        raise BuildError(f"the bits of {inputs[0].ty.dtype} values cannot be read as the type it asks for")
    name = target.name
    if "float" not in source.name and "float" not in name:
        return relax.op.astype(inputs[0], name)  # between integers of one width, a conversion keeps the bits

    def same_bits(x: Any) -> Any:
        return te.compute(x.shape, lambda *index: tirx.reinterpret(name, x(*index)), name="bit_cast")

    return builder.call_te(same_bits, inputs[0])


_OPERATORS: dict[str, Callable[[Operands, Attributes], relax.Expr | None]] = {
    "Max": _pairwise(relax.op.maximum),
    "Min": _pairwise(relax.op.minimum),
    "Sum": _pairwise(relax.op.add),
    "Clip": _clip,
    "Gather": _gather,
    "IsInf": _is_inf,
    "Dropout": _dropout,
    "Resize": _resize,
    "RoiAlign": _refuse_unless("mode", "avg", "avg"),
    "SpaceToDepth": _refuse_unless("mode", "DCR", "DCR"),
}
