"""Arithmetic that TVM's importer lacks or restricts, written out: cumulative sums, norms, powers, remainders, DFT.

Each function gives the nodes that take the place of one node, or None to leave the node as it is.
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto

from .errors import BuildError
from .onnx_facts import Facts, attributes, operand
from .onnx_nodes import NodeBuilder

_MOST_PARTS = 256
"""Elements along an axis that a cumulative operator is written out for."""
_MOST_SAMPLES = 1024
"""Samples of a Fourier transform that becomes a product with a matrix."""
_SMALL_INTEGERS = frozenset(
    (TensorProto.INT8, TensorProto.INT16, TensorProto.INT32, TensorProto.UINT8, TensorProto.UINT16, TensorProto.UINT32)
)
_FLOATS = frozenset((TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16))


def cumulative(node: onnx.NodeProto, facts: Facts) -> list[onnx.NodeProto]:
    """CumSum and CumProd along a known axis, element by element."""
    options = attributes(node)
    x, axis_value = node.input[0], facts.constant(node.input[1])
    if axis_value is None:
        raise BuildError("its axis is known only at run time", hint="give the axis as a constant")
    shape = facts.shape(x)
    axis = int(axis_value.reshape(-1)[0]) % max(len(shape), 1)
    count = shape[axis]
    if not 0 < count <= _MOST_PARTS:
        raise BuildError(f"{count} elements along its axis; 1 to {_MOST_PARTS} can be written out")
    g = NodeBuilder(node.name or node.output[0])
    combine, neutral = ("Add", 0) if node.op_type == "CumSum" else ("Mul", 1)
    parts = g.split(x, count, axis)
    order = list(reversed(range(count))) if options.get("reverse", 0) else list(range(count))
    results = [""] * count
    total: str | None = None
    for index in order:
        before = total
        total = parts[index] if before is None else g.add(combine, before, parts[index])
        if not options.get("exclusive", 0):
            results[index] = total
        else:
            one = (*shape[:axis], 1, *shape[axis + 1 :])
            results[index] = before or g.constant(np.full(one, neutral, facts.dtype(x)))
    g.concat(results, axis, to=node.output[0])
    return g.nodes


def lp_normalization(node: onnx.NodeProto, _: Facts) -> list[onnx.NodeProto]:
    """LpNormalization: a row of zeros stays one."""
    options = attributes(node)
    x, axis, p = node.input[0], int(str(options.get("axis", -1))), int(str(options.get("p", 2)))
    g = NodeBuilder(node.name or node.output[0])
    powers = g.add("Mul", x, x) if p == 2 else g.add("Abs", x)
    total = g.add("ReduceSum", powers, g.ints(axis), keepdims=1)
    norm = g.add("Sqrt", total) if p == 2 else total
    zero = g.add("CastLike", g.floats(0.0), x)
    g.add("Where", g.add("Equal", norm, zero), zero, g.add("Div", x, norm), to=node.output[0])
    return g.nodes


def power(node: onnx.NodeProto, facts: Facts) -> list[onnx.NodeProto] | None:
    """Pow of different types, and of integers up to 32 bits: in float64, which holds every result exactly."""
    base, exponent = (facts.types.get(name, 0) for name in node.input)
    if not base or not exponent or (base == exponent and base in _FLOATS):
        return None
    if base in (TensorProto.INT64, TensorProto.UINT64) and exponent not in _FLOATS:
        raise BuildError("powers of 64-bit integers cannot be compiled exactly")
    g = NodeBuilder(node.name or node.output[0])
    x, y = (g.cast(name, TensorProto.DOUBLE) for name in node.input)
    result = g.add("Pow", x, y)
    if base in _SMALL_INTEGERS:  # what does not fit wraps, as integer arithmetic does
        result = g.cast(result, TensorProto.INT64)
    g.cast(result, base, to=node.output[0])
    return g.nodes


def elu(node: onnx.NodeProto, facts: Facts) -> list[onnx.NodeProto] | None:
    """Elu of float16, for which the importer mixes types."""
    x = node.input[0]
    if facts.types.get(x) != TensorProto.FLOAT16:
        return None
    g = NodeBuilder(node.name or node.output[0])
    zero, one, alpha = (
        g.constant(np.asarray(value, np.float16)) for value in (0, 1, float(str(attributes(node).get("alpha", 1.0))))
    )
    below = g.add("Mul", alpha, g.add("Sub", g.add("Exp", x), one))
    g.add("Where", g.add("Less", x, zero), below, x, to=node.output[0])
    return g.nodes


def remainder(node: onnx.NodeProto, facts: Facts) -> list[onnx.NodeProto] | None:
    """Mod of floating-point values that takes the sign of the divisor: C's remainder, moved where the signs differ."""
    if facts.types.get(node.input[0]) not in _FLOATS or attributes(node).get("fmod", 0):
        return None
    x, y = node.input
    g = NodeBuilder(node.name or node.output[0])
    zero = g.add("CastLike", g.floats(0.0), x)
    rest = g.add("Mod", x, y, fmod=1)
    differs = g.add("Less", g.add("Mul", g.add("Sign", rest), g.add("Sign", y)), zero)
    g.add("Where", differs, g.add("Add", rest, y), rest, to=node.output[0])
    return g.nodes


def dft(node: onnx.NodeProto, facts: Facts) -> list[onnx.NodeProto]:
    """DFT as products with matrices of sines and cosines."""
    options = attributes(node)
    inverse, onesided = bool(options.get("inverse", 0)), bool(options.get("onesided", 0))
    x = node.input[0]
    shape = facts.shape(x)
    rank = len(shape)
    axis = _known(node, 2, facts, -2) if facts.opset >= 20 else int(str(options.get("axis", 1)))
    axis %= rank
    is_real = inverse and onesided  # the result is real, from the half of a spectrum that says it all
    length = _known(node, 1, facts, 2 * (shape[axis] - 1) if is_real else shape[axis])
    if axis == rank - 1 or not 0 < length <= _MOST_SAMPLES:
        raise BuildError(f"a DFT of {length} samples along axis {axis} cannot be compiled; the most is {_MOST_SAMPLES}")
    g = NodeBuilder(node.name or node.output[0])
    order = [*(d for d in range(rank - 1) if d != axis), axis, rank - 1]
    used = min(shape[axis], length // 2 + 1 if is_real else length)
    moved = g.add("Transpose", x, perm=order)
    moved = g.add("Slice", moved, g.ints(0), g.ints(used), g.ints(rank - 2))
    cosines, sines = (g.constant(m.astype(facts.dtype(x))) for m in _matrices(used, length, inverse, onesided))
    parts = [g.squeeze(part, rank - 1) for part in g.split(moved, shape[-1], rank - 1)]
    real, imaginary = g.add("MatMul", parts[0], cosines), g.add("MatMul", parts[0], sines)
    back = [order.index(d) for d in range(rank)]
    if len(parts) > 1:
        real = g.add("Sub", real, g.add("MatMul", parts[1], sines))
    if is_real:
        g.add("Transpose", g.unsqueeze(real, rank - 1), to=node.output[0], perm=back)
        return g.nodes
    if len(parts) > 1:
        imaginary = g.add("Add", imaginary, g.add("MatMul", parts[1], cosines))
    both = g.concat([g.unsqueeze(real, rank - 1), g.unsqueeze(imaginary, rank - 1)], rank - 1)
    g.add("Transpose", both, to=node.output[0], perm=back)
    return g.nodes


def stft(node: onnx.NodeProto, facts: Facts) -> list[onnx.NodeProto]:
    """STFT: frames of the signal, each under the window, as a DFT of all of them."""
    signal, window = node.input[0], operand(node, 2)
    batch, samples, parts = facts.shape(signal)
    step = _known(node, 1, facts, 0)
    length = _known(node, 3, facts, facts.shape(window)[0] if window else samples)
    if step <= 0 or not 0 < length <= samples:
        raise BuildError(f"frames of {length} samples, {step} apart, out of {samples} samples cannot be compiled")
    frames = (samples - length) // step + 1
    g = NodeBuilder(node.name or node.output[0])
    places = np.arange(frames)[:, None] * step + np.arange(length)
    cut = g.add("Gather", signal, g.constant(places.astype(np.int64)), axis=1)  # [batch, frames, length, parts]
    if window:
        cut = g.add("Mul", cut, g.add("Reshape", window, g.ints(1, 1, length, 1)))
    flat = g.add("Reshape", cut, g.ints(batch * frames, length, parts))
    onesided = int(str(attributes(node).get("onesided", 1)))
    if facts.opset >= 20:
        spectra = g.add("DFT", flat, "", g.scalar(1), onesided=onesided)
    else:
        spectra = g.add("DFT", flat, axis=1, onesided=onesided)
    columns = length // 2 + 1 if onesided else length
    g.add("Reshape", spectra, g.ints(batch, frames, columns, 2), to=node.output[0])
    return g.nodes


def _known(node: onnx.NodeProto, index: int, facts: Facts, default: int) -> int:
    name = operand(node, index)
    if name is None:
        return default
    value = facts.constant(name)
    if value is None:
        raise BuildError(f'"{name}" decides its shape, and is known only at run time')
    return int(value.reshape(-1)[0])


def _matrices(used: int, length: int, inverse: bool, onesided: bool) -> tuple[np.ndarray, np.ndarray]:
    """The real and imaginary parts of exp(∓2πi jk / length), row j, column k; divided by the length for the inverse.

    In the inverse of half a spectrum the rows but the first and, of an even length, the last stand for two each.
    """
    columns = length // 2 + 1 if onesided and not inverse else length
    angles = 2 * np.pi * (np.outer(np.arange(used), np.arange(columns)) % length) / length
    scale: np.ndarray | float = 1 / length if inverse else 1.0
    if inverse and onesided:
        rows = np.arange(used)
        scale = np.where((rows == 0) | (2 * rows == length), 1.0, 2.0)[:, None] / length
    return np.cos(angles) * scale, np.sin(angles) * (scale if inverse else -1.0)
