"""Quantised graphs in integers: QuantizeLinear and DequantizeLinear around an operator become the operator on bytes.

Three rewrites, each of which holds by itself, so that a graph that is quantised in parts only stays right:

* a dequantised tensor that is only moved (reshaped, transposed, cut, joined, or the largest of a window taken) is moved
  as bytes and dequantised afterwards; what is then quantised with the same step again is left alone;
* a convolution, product or average of dequantised tensors is a sum in 32-bit integers, times a scale;
* a quantised sum (with a bias, and with a rectifier or bounds in between) is scaled once, rounded half to even,
  and saturated: the bias joins the sum as an integer.

What is left of quantisation then is written in element-wise operators, which TVM fuses with those around them, so that
whatever lies between two tensors of bytes is computed in registers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from tvm import relax
from tvm.ir import Call, GenericConst, IRModule, Tuple, Var

from . import relax_integers as integers
from .relax_layout import OperatorMutator, name_of
from .relax_simplify import rewritten, shape_of

_BYTE_TYPES = ("int8", "uint8")
_TILE, _SMALL_TILE = 16, 4
_MOVES = frozenset(
    f"relax.{name}" for name in ("reshape", "expand_dims", "squeeze", "flatten", "permute_dims", "strided_slice")
)


def quantise(module: IRModule) -> IRModule:
    """Rewrites quantised operators of ``main``; the module itself where there are none."""
    names = {name_of(b.value) for block in module["main"].body.blocks for b in block.bindings}
    if names.isdisjoint(("relax.quantize", "relax.dequantize")):
        return module
    return rewritten(rewritten(module, _Integers), _Primitives)


@dataclass(frozen=True)
class _Bytes:
    """A tensor of bytes with one step and one zero point, and what it stands for: ``(data - zero) * step``."""

    data: relax.Expr
    step: np.float32
    zero: int

    @property
    def dtype(self) -> str:
        return str(self.data.ty.dtype)

    def is_like(self, step: float, zero: int, dtype: str) -> bool:
        return float(self.step) == step and self.zero == zero and self.dtype == dtype

    def dequantised(self) -> relax.Expr:
        zero = relax.const(np.array(self.zero, self.dtype))
        return relax.op.dequantize(self.data, relax.const(self.step), zero, axis=0, out_dtype="float32")


@dataclass(frozen=True)
class _Weights:
    """Constant weights: int16 without zero points, and a step each for the columns of ``axis``."""

    values: np.ndarray
    steps: np.ndarray
    """As many as there are columns."""


@dataclass(frozen=True)
class _Scaled:
    """A sum of integers and the size of its unit; both have the shape of the result, or broadcast to it."""

    sums: relax.Expr
    unit: np.ndarray


def _scalar(array: np.ndarray | None) -> np.ndarray | None:
    return array.reshape(()) if array is not None and array.size == 1 else None


def _known(mutator: OperatorMutator, expr: relax.Expr) -> np.ndarray | None:
    """A value in float64 that is known at build time, quantised or not."""
    value = mutator.value_of(expr)
    if isinstance(value, GenericConst):
        return value.value.numpy().astype(np.float64)
    if name_of(value) == "relax.reshape":
        inner = _known(mutator, value.args[0])
        return None if inner is None else inner.reshape(shape_of(value) or [])
    if name_of(value) != "relax.dequantize":
        return None
    data, step, zero = (mutator.constant(arg) for arg in value.args[:3])
    if data is None or step is None or zero is None:
        return None
    axis = int(value.attrs.axis) % max(data.ndim, 1)
    spread = [-1 if d == axis else 1 for d in range(data.ndim)]
    step, zero = (a.reshape(spread) if a.size > 1 else a.reshape(()) for a in (step, zero))
    return (data.astype(np.float64) - zero) * step.astype(np.float64)


@relax.expr_functor.mutator
class _Integers(OperatorMutator):
    """The three rewrites. Operators that lose their users this way are dead code afterwards."""

    def __init__(self, module: IRModule) -> None:
        super().__init__(module)
        self._scaled: dict[Var, _Scaled] = {}

    def rewrite(self, call: Call, name: str | None) -> relax.Expr | None:
        if name == "relax.quantize":
            return self._quantize(call)
        if name in ("relax.nn.conv2d", "relax.nn.conv1d"):
            return self._convolution(call)
        if name == "relax.matmul":
            return self._product(call)
        if name in _MOVES or name == "relax.nn.max_pool2d":
            return self._moved(call)
        if name == "relax.concat":
            return self._joined(call)
        if name == "relax.mean":
            return self._mean(call)
        if name == "relax.nn.avg_pool2d":
            return self._average(call)
        return None

    # ---- what operands are

    def _bytes(self, expr: relax.Expr) -> _Bytes | None:
        """A dequantised tensor of bytes with one known step."""
        value = self.value_of(expr)
        if name_of(value) != "relax.dequantize" or str(value.args[0].ty.dtype) not in _BYTE_TYPES:
            return None
        step, zero = (_scalar(self.constant(arg)) for arg in value.args[1:3])
        if step is None or zero is None or str(value.ty.dtype) != "float32":
            return None
        return _Bytes(value.args[0], np.float32(step), int(zero))

    def _weights(self, expr: relax.Expr, columns: int) -> _Weights | None:
        """Constant weights with a step for the tensor, or for each index of the axis of ``columns``."""
        value = self.value_of(expr)
        if name_of(value) == "relax.permute_dims":
            source, axes = self.transpose_of(expr)
            if axes is None:
                return None
            weights = self._weights(source, axes[columns])
            return None if weights is None else _Weights(weights.values.transpose(axes), weights.steps)
        if name_of(value) != "relax.dequantize" or str(value.args[0].ty.dtype) not in _BYTE_TYPES:
            return None
        data, steps, zeros = (self.constant(arg) for arg in value.args[:3])
        if data is None or steps is None or zeros is None or str(value.ty.dtype) != "float32":
            return None
        rank, axis = data.ndim, int(value.attrs.axis) % max(data.ndim, 1)
        if (steps.size > 1 or zeros.size > 1) and axis != columns:
            return None
        spread = [-1 if d == columns else 1 for d in range(rank)]
        if integers.is_bytewise(data, zeros):
            zeros = np.full(1, 128 if data.dtype == np.uint8 else 0, np.int16)
        values = integers.centred_weights(data, zeros.reshape(spread if zeros.size > 1 else [1] * rank))
        return _Weights(values, np.broadcast_to(steps.reshape(-1).astype(np.float32), (data.shape[columns],)))

    # ---- moving bytes

    def _moved(self, call: Call) -> relax.Expr | None:
        source = self._bytes(call.args[0])
        if source is None or source.step <= 0 or self.constant(source.data) is not None:
            return None  # weights stay where their product finds them
        data = self.emit(Call(call.op, [source.data, *call.args[1:]], call.attrs))
        return _Bytes(data, source.step, source.zero).dequantised()

    def _fields(self, expr: relax.Expr) -> list[_Bytes] | None:
        tensors = self.value_of(expr)
        if not isinstance(tensors, Tuple):
            return None
        found = [self._bytes(field) for field in tensors.fields]
        return [b for b in found if b is not None] if all(found) else None

    def _joined(self, call: Call) -> relax.Expr | None:
        fields = self._fields(call.args[0])
        if not fields or call.attrs.axis is None:
            return None
        first = fields[0]
        if not all(b.is_like(float(first.step), first.zero, first.dtype) for b in fields):
            return None
        data = self.emit(relax.op.concat([b.data for b in fields], int(call.attrs.axis)))
        return _Bytes(data, first.step, first.zero).dequantised()

    # ---- sums

    def _as_float(self, sums: relax.Expr, unit: np.ndarray) -> relax.Expr:
        """Sums times their unit, remembered under the variable of the sums."""
        known = self.emit(sums)
        self._scaled[known] = _Scaled(known, unit)
        wide = self.emit(relax.op.astype(known, "float32"))
        return relax.op.multiply(wide, relax.const(unit.astype(np.float32)))

    def _convolution(self, call: Call) -> relax.Expr | None:
        a, x, weights = call.attrs, self._bytes(call.args[0]), self._weights(call.args[1], 0)
        if x is None or weights is None or (a.data_layout, a.kernel_layout) not in (("NCHW", "OIHW"), ("NCW", "OIW")):
            return None
        is_line = a.data_layout == "NCW"
        data, values = x.data, weights.values
        if is_line:  # a line is an image of one row
            data, values = self.emit(relax.op.expand_dims(data, 2)), values[:, :, None]
        padding, strides, dilation = ([int(v) for v in part] for part in (a.padding, a.strides, a.dilation))
        if is_line:
            padding, strides, dilation = [0, padding[0], 0, padding[-1]], [1, *strides], [1, *dilation]
        elif len(padding) != 4:
            padding = [*padding, *padding] if len(padding) == 2 else padding * 4
        window = integers.Window.of(strides, padding, dilation)
        image = self.transposed(data, [0, 2, 3, 1])
        sums = self._columns(
            values.transpose(2, 3, 1, 0),
            int(a.groups),
            lambda kernel: integers.convolution(self.builder_, image, x.zero, kernel, window, int(a.groups)),
        )
        sums = self.transposed(self.emit(sums), [0, 3, 1, 2])
        if is_line:
            sums = self.emit(relax.op.squeeze(sums, [2]))
        unit = (x.step * weights.steps).reshape(1, -1, *[1] * (1 if is_line else 2))
        return self._as_float(sums, unit)

    def _columns(self, kernel: np.ndarray, groups: int, compute: Callable[[np.ndarray], integers.Sums]) -> relax.Expr:
        """Sums with all that is added to them at build time, over weights padded to whole tiles of columns."""
        columns = kernel.shape[-1]
        missing = -columns % (_TILE if columns > 2 * _SMALL_TILE else _SMALL_TILE) if groups == 1 and columns > 1 else 0
        sums = compute(np.pad(kernel, [(0, 0)] * (kernel.ndim - 1) + [(0, missing)]))
        value = self.emit(sums.value)
        if missing:
            last = len(shape_of(value) or []) - 1
            value = self.emit(relax.op.strided_slice(value, [last], [0], [columns]))
        if np.any(sums.correction):
            value = self.emit(relax.op.add(value, relax.const(sums.correction[:columns])))
        return value

    def _product(self, call: Call) -> relax.Expr | None:
        x = self._bytes(call.args[0])
        rank = len(shape_of(call.args[1]) or [])
        if x is None or len(shape_of(call.args[0]) or []) < 2:
            return None
        weights = self._weights(call.args[1], 1) if rank == 2 else None
        if weights is None:
            other = self._bytes(call.args[1])
            return None if other is None or rank < 2 else self._product_of_two(call, x, other)
        sums = self._columns(weights.values, 1, lambda kernel: integers.product(self.builder_, x.data, x.zero, kernel))
        return self._as_float(sums, x.step * weights.steps)

    def _product_of_two(self, call: Call, a: _Bytes, b: _Bytes) -> relax.Expr:
        """A product of which neither side is known: differences to the zero points, in 16 bits."""
        sides = []
        for side in (a, b):
            wide = self.emit(relax.op.astype(side.data, "int16"))
            sides.append(self.emit(relax.op.subtract(wide, relax.const(np.array(side.zero, np.int16)))))
        return self._as_float(relax.op.matmul(*sides, out_dtype="int32"), np.asarray(a.step * b.step))

    def _mean(self, call: Call) -> relax.Expr | None:
        x, shape = self._bytes(call.args[0]), shape_of(call.args[0])
        if x is None or shape is None or call.attrs.axis is None:
            return None
        axes = [int(axis) % len(shape) for axis in call.attrs.axis]
        count = int(np.prod([shape[axis] for axis in axes]))
        if count > 1 << 22:  # the sum would leave 32 bits
            return None
        if len(shape) == 4 and axes == [2, 3]:
            return self._image_mean(x, shape, bool(call.attrs.keepdims))
        wide = self.emit(relax.op.astype(x.data, "int32"))
        total = self.emit(relax.op.sum(wide, axes, keepdims=bool(call.attrs.keepdims)))
        sums = relax.op.subtract(total, relax.const(np.array(count * x.zero, np.int32)))
        return self._as_float(sums, np.asarray(x.step / np.float32(count)))

    def _image_mean(self, x: _Bytes, shape: Sequence[int], keep: bool) -> relax.Expr:
        image = self.transposed(x.data, [0, 2, 3, 1])
        window = integers.Window((1, 1), (0, 0, 0, 0), (1, 1))
        size = (shape[2], shape[3])
        sums = self.emit(integers.window_sums(self.builder_, image, x.zero, size, (1, 1), window))
        sums = self.transposed(sums, [0, 3, 1, 2])
        if not keep:
            sums = self.emit(relax.op.squeeze(sums, [2, 3]))
        return self._as_float(sums, np.asarray(x.step / np.float32(size[0] * size[1])))

    def _average(self, call: Call) -> relax.Expr | None:
        a, x, shape = call.attrs, self._bytes(call.args[0]), shape_of(call)
        source = shape_of(call.args[0])
        if x is None or a.layout != "NCHW" or len(a.padding) != 4 or shape is None or source is None:
            return None
        size, strides, dilation, padding = (
            [int(v) for v in part] for part in (a.pool_size, a.strides, a.dilation, a.padding)
        )
        window = integers.Window.of(strides, padding, dilation)
        image = self.transposed(x.data, [0, 2, 3, 1])
        sums = self.emit(
            integers.window_sums(self.builder_, image, x.zero, (size[0], size[1]), (shape[2], shape[3]), window)
        )
        counts = [_counts(window, d, source[2 + d], size[d], shape[2 + d], bool(a.count_include_pad)) for d in (0, 1)]
        count = np.outer(*counts).astype(np.float32)
        return self._as_float(self.transposed(sums, [0, 3, 1, 2]), _least(x.step / count)[None, None])

    # ---- quantising

    def _quantize(self, call: Call) -> relax.Expr | None:
        dtype = str(call.ty.dtype)
        step, zero = (_scalar(self.constant(arg)) for arg in call.args[1:3])
        if dtype not in _BYTE_TYPES or step is None or zero is None:
            return None
        source = self._bytes(call.args[0])
        if source is not None:
            return source.data if source.is_like(float(step), int(zero), dtype) else None
        value = self.value_of(call.args[0])
        if name_of(value) == "relax.concat":
            fields = self._fields(value.args[0])
            if not fields or value.attrs.axis is None:
                return None
            parts = [
                b.data if b.is_like(float(step), int(zero), dtype) else self.emit(self._requantised(b, call))
                for b in fields
            ]
            return relax.op.concat(parts, int(value.attrs.axis))
        return self._quantised_sum(value, np.float32(step), int(zero), dtype)

    def _requantised(self, source: _Bytes, call: Call) -> relax.Expr:
        return Call(call.op, [self.emit(source.dequantised()), *call.args[1:]], call.attrs)

    def _quantised_sum(self, value: relax.Expr, step: np.float32, zero: int, dtype: str) -> relax.Expr | None:
        """Sums scaled to the steps of the result, rounded half to even, saturated."""
        limits = np.iinfo(dtype)
        low, high = float(limits.min - zero), float(limits.max - zero)
        while (bounds := self._bounds(value)) is not None:
            value, least, most = bounds
            low, high = (float(np.clip(np.float32(b) / step, low, high)) for b in (least, most))
        bias = None
        if name_of(value) == "relax.add":
            known = [_known(self, arg) for arg in value.args]
            place = next((i for i, k in enumerate(known) if k is not None), None)
            if place is None:
                return None
            bias, value = known[place], self.value_of(value.args[1 - place])
        scaled = self._scaled_of(value)
        if scaled is None:
            return None
        sums, factor = scaled.sums, (scaled.unit.astype(np.float32) / step).astype(np.float32)
        whole = None if bias is None else _whole(bias, scaled.unit)
        if whole is not None:
            sums = self.emit(relax.op.add(sums, relax.const(whole)))
        steps = self.emit(relax.op.astype(sums, "float32"))
        steps = self.emit(relax.op.multiply(steps, relax.const(_least(factor))))
        if bias is not None and whole is None:
            steps = self.emit(relax.op.add(steps, relax.const((bias / step).astype(np.float32))))
        steps = self.emit(relax.op.round(self.emit(relax.op.clip(steps, low, high))))
        if zero:
            steps = self.emit(relax.op.add(steps, relax.const(np.float32(zero))))
        return relax.op.astype(steps, dtype)

    def _bounds(self, value: relax.Expr) -> tuple[relax.Expr, float, float] | None:
        """The operand, the least and the most of a rectifier or another operator that only bounds."""
        name = name_of(value)
        if name == "relax.nn.relu":
            return self.value_of(value.args[0]), 0.0, np.inf
        if name in ("relax.maximum", "relax.minimum"):
            bound = _scalar(self.constant(value.args[1]))
            if bound is not None and not np.isnan(bound):
                least, most = (float(bound), np.inf) if name == "relax.maximum" else (-np.inf, float(bound))
                return self.value_of(value.args[0]), least, most
        return None

    def _scaled_of(self, value: relax.Expr) -> _Scaled | None:
        if name_of(value) != "relax.multiply":
            return None
        wide = self.value_of(value.args[0])
        source = wide.args[0] if name_of(wide) == "relax.astype" else None
        return self._scaled.get(source) if isinstance(source, Var) else None


def _least(array: np.ndarray) -> np.ndarray:
    """A scalar where all elements are equal."""
    flat = array.reshape(-1)
    return flat[0] if np.all(flat == flat[0]) else array


def _whole(bias: np.ndarray, unit: np.ndarray) -> np.ndarray | None:
    """A bias in units of the sums, where it is a whole number of them that 32 bits hold; else None."""
    numbers = bias / unit.astype(np.float64)
    whole = np.rint(numbers)
    near = np.abs(numbers - whole) <= np.maximum(1e-6 * np.abs(numbers), 1e-6)
    fits = np.abs(whole) < 2**31
    return whole.astype(np.int32) if np.all(near & fits) else None


def _counts(window: integers.Window, axis: int, length: int, size: int, windows: int, with_padding: bool) -> np.ndarray:
    """How many elements each window of an average counts along one axis of an image."""
    before, after = window.padding[axis], window.padding[axis + 2]
    starts = np.arange(windows)[:, None] * window.strides[axis] - before
    places = starts + np.arange(size) * window.dilation[axis]
    first, last = (-before, length + after) if with_padding else (0, length)
    return np.maximum(((places >= first) & (places < last)).sum(axis=1), 1)


@relax.expr_functor.mutator
class _Primitives(OperatorMutator):
    """What is left of quantisation, in element-wise operators: layouts and fusion know those."""

    def rewrite(self, call: Call, name: str | None) -> relax.Expr | None:
        if name not in ("relax.quantize", "relax.dequantize"):
            return None
        x, known = call.args[0], _known(self, call) if str(call.args[0].ty.dtype) == "int32" else None
        if known is not None:  # a bias; weights stay bytes
            return relax.const(known.astype(np.float32))
        step, zero = (_scalar(self.constant(arg)) for arg in call.args[1:3])
        if step is None or zero is None or str(zero.dtype) not in _BYTE_TYPES or self.constant(x) is not None:
            return None  # weights that meet floats stay bytes in the file
        if name == "relax.dequantize":
            if str(call.ty.dtype) != "float32":
                return None
            value = self.emit(relax.op.astype(x, "float32"))
            if zero:
                value = self.emit(relax.op.subtract(value, relax.const(np.float32(zero))))
            return relax.op.multiply(value, relax.const(np.float32(step)))
        if str(x.ty.dtype) != "float32":
            return None
        limits, shift = np.iinfo(zero.dtype), int(zero)
        value = self.emit(relax.op.divide(x, relax.const(np.float32(step))))
        # The bounds are whole numbers, so that bounding first changes nothing and keeps to float32's integers.
        value = self.emit(relax.op.clip(value, float(limits.min - shift), float(limits.max - shift)))
        value = self.emit(relax.op.round(value))
        if shift:
            value = self.emit(relax.op.add(value, relax.const(np.float32(shift))))
        return relax.op.astype(value, str(zero.dtype))
